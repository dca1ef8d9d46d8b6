#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/sshconfig.h"

/* In place of /etc/ssh. Files in it count only if root owns them. */
static char scratch[] = "/tmp/test-sshconfig-XXXXXX";

static char *in_scratch(const char *name)
{
	char *path = path_join(scratch, name);

	cr_assert_not_null(path);
	return path;
}

static void write_file(const char *name, const char *text)
{
	autofree char *path = in_scratch(name);
	autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write_all(fd, text, strlen(text)), 0);
}

static void set_up(void)
{
	autofree char *dir = NULL;

	if (geteuid() != 0)
		cr_skip_test("not root");
	cr_assert_not_null(mkdtemp(scratch));
	dir = in_scratch("ssh_config.d");
	cr_assert_eq(mkdir(dir, 0755), 0);
}

static void tear_down(void)
{
	static const char *const names[] = {
		"ssh_config.d/10-a.conf",
		"ssh_config.d/20-b.conf",
		"ssh_config.d/other",
		"ssh_config.d",
		"elsewhere",
		"ssh_config",
		"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autofree char *path = in_scratch(names[i]);

		remove(path);
	}
}

TestSuite(sshconfig, .init = set_up, .fini = tear_down);

static void expect(const struct ssh_copies *copies, const char *name,
		   const char *text)
{
	autofree char *path = in_scratch(name);

	for (size_t i = 0; i < copies->n; i++) {
		if (strcmp(copies->copy[i].path, path) != 0)
			continue;
		cr_assert_str_eq(copies->copy[i].text, text);
		cr_assert_eq(copies->copy[i].size, strlen(text));
		return;
	}
	cr_assert_fail("no copy of %s", path);
}

Test(sshconfig, without_one)
{
	struct ssh_copies copies;

	cr_assert_eq(sshconfig_read(scratch, &copies), 0);
	cr_assert_eq(copies.n, 0);
	sshconfig_release(&copies);
}

Test(sshconfig, what_it_includes)
{
	struct ssh_copies copies;
	autofree char *absolute = in_scratch("elsewhere");
	autofree char *text = NULL;

	cr_assert_geq(asprintf(&text, "# Include nothing\n  include \"%s\"\n",
			       absolute),
		      0);
	write_file("ssh_config", "Host *\n"
				 "Include ssh_config.d/*.conf ~/.ssh/x\n");
	write_file("ssh_config.d/10-a.conf", text);
	write_file("ssh_config.d/20-b.conf", "Port 22\n");
	write_file("ssh_config.d/other", "Port 23\n");
	write_file("elsewhere", "INCLUDE=ssh_config\n");
	cr_assert_eq(sshconfig_read(scratch, &copies), 0);
	cr_assert_eq(copies.n, 4);
	expect(&copies, "ssh_config",
	       "Host *\n"
	       "Include ssh_config.d/*.conf ~/.ssh/x\n");
	expect(&copies, "ssh_config.d/10-a.conf", text);
	expect(&copies, "ssh_config.d/20-b.conf", "Port 22\n");
	expect(&copies, "elsewhere", "INCLUDE=ssh_config\n");
	sshconfig_release(&copies);
}

/* A distribution may link to where its package keeps the file. */
Test(sshconfig, symlinks_are_followed)
{
	struct ssh_copies copies;
	autofree char *link = in_scratch("ssh_config.d/10-a.conf");

	write_file("ssh_config", "Include ssh_config.d/*.conf\n");
	write_file("elsewhere", "Port 22\n");
	cr_assert_eq(symlink("../elsewhere", link), 0);
	cr_assert_eq(sshconfig_read(scratch, &copies), 0);
	cr_assert_eq(copies.n, 2);
	expect(&copies, "elsewhere", "Port 22\n");
	sshconfig_release(&copies);
}

Test(sshconfig, others_files_are_not_made_the_callers)
{
	struct ssh_copies copies;
	autofree char *path = in_scratch("ssh_config.d/10-a.conf");

	write_file("ssh_config", "Include ssh_config.d/*.conf\n");
	write_file("ssh_config.d/10-a.conf", "Port 22\n");
	cr_assert_eq(chown(path, 12345, 12345), 0);
	cr_assert_eq(sshconfig_read(scratch, &copies), 0);
	cr_assert_eq(copies.n, 1);
	sshconfig_release(&copies);
}

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/descriptors.h"

/* A tree of each test's own; ro in it is restricted. */
static char scratch[] = "/tmp/test-descriptors-XXXXXX";
static struct policy *rules;
static struct aliases aliases;

static char *in_scratch(const char *name)
{
	char *path = path_join(scratch, name);

	cr_assert_not_null(path);
	return path;
}

static void write_file(const char *name, const char *text)
{
	autofree char *path = in_scratch(name);
	autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write_all(fd, text, strlen(text)), 0);
}

static void make_directory(const char *name)
{
	autofree char *path = in_scratch(name);

	cr_assert_eq(mkdir(path, 0700), 0);
}

static void set_up(void)
{
	struct rule ro = {.access = ACCESS_RO, .origin = ORIGIN_DEFAULT};
	struct rules list = {0};
	char reason[] = "test";

	cr_assert_not_null(mkdtemp(scratch));
	make_directory("ro");
	write_file("ro/file", "one\ntwo\n");
	write_file("free", "x");
	ro.path = in_scratch("ro");
	ro.reason = reason;
	cr_assert_eq(rules_add(&list, &ro), 0);
	cr_assert_eq(policy_new("/", &list, &rules, NULL), 0);
	rules_release(&list);
	free(ro.path);
}

static void tear_down(void)
{
	static const char *const names[] = {"ro/file", "ro", "free", ""};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autofree char *path = in_scratch(names[i]);

		remove(path);
	}
	policy_free(rules);
}

TestSuite(descriptors, .init = set_up, .fini = tear_down);

/* Inherited: not close-on-exec. */
static int inherit(const char *name, int flags)
{
	autofree char *path = in_scratch(name);
	int fd = open(path, flags);

	cr_assert_geq(fd, 3);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void settle(void)
{
	struct descriptors descriptors;
	autofree char *message = NULL;

	cr_assert_eq(descriptors_gather(&descriptors, &message), 0);
	cr_assert_eq(
		descriptors_settle(&descriptors, rules, &aliases, &message), 0);
	descriptors_release(&descriptors);
}

Test(descriptors, directories_are_closed)
{
	int restricted = inherit("ro", O_RDONLY | O_DIRECTORY);
	int other = inherit("", O_RDONLY | O_DIRECTORY);
	int path = inherit("", O_PATH);

	settle();
	cr_assert(!is_open(restricted));
	cr_assert(!is_open(other));
	cr_assert(!is_open(path));
}

Test(descriptors, files_of_restricted_trees_are_closed)
{
	int reading = inherit("ro/file", O_RDONLY);
	int writing = inherit("ro/file", O_WRONLY);
	int path = inherit("ro/file", O_PATH);

	settle();
	cr_assert(!is_open(reading));
	cr_assert(!is_open(writing));
	cr_assert(!is_open(path));
}

Test(descriptors, by_another_path_too)
{
	autofree char *file = in_scratch("free"), *ro = in_scratch("ro/file");
	struct alias alias = {.path = file, .source = ro};
	int fd = inherit("free", O_RDONLY);

	aliases = (struct aliases){.alias = &alias, .n = 1};
	settle();
	cr_assert(!is_open(fd));
}

Test(descriptors, all_else_stays)
{
	int file = inherit("free", O_RDWR);
	int null = open("/dev/null", O_RDWR);
	int ends[2], sockets[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	settle();
	cr_assert(is_open(file));
	cr_assert(is_open(null));
	cr_assert(is_open(ends[0]) && is_open(ends[1]));
	cr_assert(is_open(sockets[0]) && is_open(sockets[1]));
}

Test(descriptors, our_own_stay)
{
	int own = inherit("ro", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	settle();
	cr_assert(is_open(own));
}

Test(descriptors, a_deleted_file_is_of_no_tree)
{
	autofree char *path = in_scratch("ro/file");
	int fd = inherit("ro/file", O_RDONLY);

	cr_assert_eq(unlink(path), 0);
	settle();
	cr_assert(is_open(fd));
}

Test(descriptors, a_directory_as_stdin_is_refused)
{
	struct descriptors descriptors;
	autofree char *message = NULL;
	int fd = inherit("", O_RDONLY | O_DIRECTORY);

	cr_assert_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	cr_assert_eq(descriptors_gather(&descriptors, &message), -EINVAL);
	cr_assert_not_null(strstr(message, "stdin"));
	cr_assert_not_null(strstr(message, scratch));
}

Test(descriptors, stdin_is_opened_again_at_its_offset)
{
	int fd = inherit("ro/file", O_RDONLY);
	char text[8] = "";

	cr_assert_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	cr_assert_eq(lseek(STDIN_FILENO, 4, SEEK_SET), 4);
	settle();
	cr_assert(!is_open(fd));
	cr_assert_eq(read(STDIN_FILENO, text, sizeof(text) - 1), 4);
	cr_assert_str_eq(text, "two\n");
	/* The command gets it, too. */
	cr_assert_eq(fcntl(STDIN_FILENO, F_GETFD), 0);
}

Test(descriptors, stdin_that_has_gone_is_refused)
{
	autofree char *path = in_scratch("ro/file");
	struct descriptors descriptors;
	autofree char *message = NULL;
	int fd = inherit("ro/file", O_RDONLY);

	cr_assert_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	cr_assert_eq(descriptors_gather(&descriptors, &message), 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(
		descriptors_settle(&descriptors, rules, &aliases, &message),
		-ENOENT);
	cr_assert_not_null(strstr(message, "stdin"));
	descriptors_release(&descriptors);
}

Test(descriptors, stdout_for_writing_stays)
{
	int fd = inherit("ro/file", O_WRONLY | O_APPEND);

	cr_assert_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	settle();
	cr_assert(!is_open(fd));
	cr_assert_eq(write(STDOUT_FILENO, "x", 1), 1);
}

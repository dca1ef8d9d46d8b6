#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/aliases.h"

/* A mount table of our own, as proc(5) has it. */
static char table[] = "/tmp/test-aliases-XXXXXX";

static void write_table(const char *text)
{
	autofd int fd = mkstemp(table);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write_all(fd, text, strlen(text)), 0);
}

static void tear_down(void)
{
	unlink(table);
}

TestSuite(aliases, .fini = tear_down);

#define ROOT "20 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"

static struct aliases find(const char *path, uint64_t mount_id)
{
	const struct aliased_tree tree = {.path = path, .mount_id = mount_id};
	struct aliases aliases = {0};

	cr_assert_eq(aliases_find(table, &tree, 1, &aliases), 0);
	return aliases;
}

static void expect(const struct aliases *aliases, size_t i, const char *path,
		   const char *source)
{
	cr_assert_gt(aliases->n, i);
	cr_assert_str_eq(aliases->alias[i].path, path);
	cr_assert_str_eq(aliases->alias[i].source, source);
}

Test(aliases, none)
{
	struct aliases aliases;

	write_table(ROOT "21 20 0:5 / /proc rw - proc proc rw\n"
			 "22 20 254:1 / /data rw - ext4 /dev/vdb rw\n");
	aliases = find("/home/u/main", 20);
	cr_assert_eq(aliases.n, 0);
	aliases_release(&aliases);
}

Test(aliases, of_itself_above_and_below)
{
	struct aliases aliases;

	write_table(ROOT
		    "21 20 254:0 /home/u/main /same rw - ext4 /dev/vda rw\n"
		    "22 20 254:0 /home /above rw - ext4 /dev/vda rw\n"
		    "23 20 254:0 /home/u/main/src /below rw - ext4 /dev/vda "
		    "rw\n"
		    "24 20 254:0 /home/u/main2 /beside rw - ext4 /dev/vda rw\n"
		    "25 20 254:1 /home/u/main /other rw - ext4 /dev/vdb rw\n");
	aliases = find("/home/u/main", 20);
	cr_assert_eq(aliases.n, 3);
	expect(&aliases, 0, "/above/u/main", "/home/u/main");
	expect(&aliases, 1, "/below", "/home/u/main/src");
	expect(&aliases, 2, "/same", "/home/u/main");
	aliases_release(&aliases);
}

/* The tree lies on a mount that doesn't show its file system from the top. */
Test(aliases, of_a_tree_on_a_bind_mount)
{
	struct aliases aliases;

	write_table(ROOT "21 20 254:1 /vol/home /home rw - ext4 /dev/vdb rw\n"
			 "22 20 254:1 / /disk rw - ext4 /dev/vdb rw\n");
	aliases = find("/home/u/main", 21);
	cr_assert_eq(aliases.n, 1);
	expect(&aliases, 0, "/disk/vol/home/u/main", "/home/u/main");
	aliases_release(&aliases);
}

Test(aliases, of_a_mount_point)
{
	struct aliases aliases;

	write_table(ROOT "21 20 254:1 / /main rw - ext4 /dev/vdb rw\n"
			 "22 20 254:1 / /again rw - ext4 /dev/vdb rw\n"
			 "23 20 254:1 /a\\040b /spaced\\040out rw - ext4 "
			 "/dev/vdb rw\n");
	aliases = find("/main", 21);
	cr_assert_eq(aliases.n, 2);
	expect(&aliases, 0, "/again", "/main");
	expect(&aliases, 1, "/spaced out", "/main/a b");
	aliases_release(&aliases);
}

Test(aliases, deleted_ones_lead_nowhere)
{
	struct aliases aliases;

	write_table(ROOT "21 20 254:0 /main//deleted /x rw - ext4 /dev/vda "
			 "rw\n");
	aliases = find("/main", 20);
	cr_assert_eq(aliases.n, 0);
	aliases_release(&aliases);
}

Test(aliases, of_several_trees)
{
	const struct aliased_tree trees[] = {{"/main", 20}, {"/g", 20}};
	struct aliases aliases;

	write_table(ROOT "21 20 254:0 / /all rw - ext4 /dev/vda rw\n");
	cr_assert_eq(aliases_find(table, trees, 2, &aliases), 0);
	cr_assert_eq(aliases.n, 2);
	expect(&aliases, 0, "/all/g", "/g");
	expect(&aliases, 1, "/all/main", "/main");
	aliases_release(&aliases);
}

Test(aliases, an_unknown_mount_is_an_error)
{
	const struct aliased_tree tree = {"/main", 99};
	struct aliases aliases;

	write_table(ROOT);
	cr_assert_eq(aliases_find(table, &tree, 1, &aliases), -ENOENT);
	cr_assert_lt(aliases_find("/nonexistent", &tree, 1, &aliases), 0);
}

static void expect_translation(const struct aliases *aliases, const char *path,
			       const char *translated)
{
	autofree char *got = aliases_translate(aliases, path);

	cr_assert_str_eq(got, translated);
}

Test(aliases, translate)
{
	struct aliases aliases;

	write_table(ROOT "21 20 254:0 / /all rw - ext4 /dev/vda rw\n"
			 "22 20 254:0 /main/src /all/main/x rw - ext4 /dev/vda "
			 "rw\n");
	aliases = find("/main", 20);
	expect_translation(&aliases, "/all/main", "/main");
	expect_translation(&aliases, "/all/main/a/b", "/main/a/b");
	expect_translation(&aliases, "/all/main/x/y", "/main/src/y");
	expect_translation(&aliases, "/all/main2", "/all/main2");
	expect_translation(&aliases, "/main/a", "/main/a");
	expect_translation(&aliases, "/", "/");
	aliases_release(&aliases);
}

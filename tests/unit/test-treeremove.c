#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "mountctl/treeremove.h"

static char scratch[] = "/tmp/test-treeremove-XXXXXX";

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(scratch));
	cr_assert_eq(chdir(scratch), 0);
}

static void tear_down(void)
{
	cr_expect_eq(rmdir(scratch), 0);
}

TestSuite(treeremove, .init = set_up, .fini = tear_down);

static void make_file(const char *path)
{
	autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0400);

	cr_assert_geq(fd, 0);
}

Test(treeremove, nothing)
{
	cr_expect_eq(tree_remove_at(AT_FDCWD, "nothing"), 0);
}

Test(treeremove, tree)
{
	cr_assert_eq(mkdir("tree", 0755), 0);
	cr_assert_eq(mkdir("tree/closed", 0755), 0);
	cr_assert_eq(mkdir("tree/closed/inner", 0755), 0);
	make_file("tree/closed/inner/file");
	make_file("tree/\n");
	cr_assert_eq(mkfifo("tree/fifo", 0600), 0);
	cr_assert_eq(chmod("tree/closed/inner", 0500), 0);
	cr_assert_eq(chmod("tree/closed", 0), 0);
	cr_expect_eq(tree_remove_at(AT_FDCWD, "tree"), 0);
	cr_expect_eq(access("tree", F_OK), -1);
}

Test(treeremove, links_are_not_followed)
{
	cr_assert_eq(mkdir("kept", 0755), 0);
	make_file("kept/file");
	cr_assert_eq(mkdir("tree", 0755), 0);
	cr_assert_eq(symlink("../kept", "tree/link"), 0);
	cr_assert_eq(symlink("kept", "top"), 0);
	cr_expect_eq(tree_remove_at(AT_FDCWD, "tree"), 0);
	cr_expect_eq(tree_remove_at(AT_FDCWD, "top"), 0);
	cr_expect_eq(access("kept/file", F_OK), 0);
	cr_expect_eq(access("tree", F_OK), -1);
	cr_expect_eq(tree_remove_at(AT_FDCWD, "kept"), 0);
}

Test(treeremove, file)
{
	make_file("file");
	cr_expect_eq(tree_remove_at(AT_FDCWD, "file"), 0);
}

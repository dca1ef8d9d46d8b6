/*
 * The parts of doctor that ask nobody: the list of checks, and files that two
 * trees share.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "mountctl/checks.h"
#include "mountctl/links.h"

#define autochecks __attribute__((cleanup(checks_release)))
#define autolinks __attribute__((cleanup(links_release)))
#define autoshared __attribute__((cleanup(shared_links_release)))

Test(checks, errors_are_told_from_mends)
{
	static const struct {
		const char *message, *detail, *mend;
	} rows[] = {
		{"cannot x: No", "cannot x: No", NULL},
		{"cannot x: No; y is 0", "cannot x: No", "y is 0"},
		{"cannot x: No; y is 0; as root: z", "cannot x: No; y is 0",
		 "as root: z"},
		{"a;b", "a;b", NULL},
		{NULL, "Permission denied", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autochecks struct checks checks = {0};

		check_error(&checks, "name", CHECK_FAIL, -EACCES,
			    rows[i].message);
		cr_assert_eq(checks.n, 1);
		cr_assert_eq(checks.r, 0);
		cr_assert_str_eq(checks.check[0].detail, rows[i].detail);
		if (rows[i].mend)
			cr_assert_str_eq(checks.check[0].mend, rows[i].mend);
		else
			cr_assert_null(checks.check[0].mend);
	}
}

Test(checks, the_worst_counts)
{
	autochecks struct checks checks = {0};

	cr_assert_eq(checks_worst(&checks, NULL), CHECK_OK);
	check_add(&checks, "one", CHECK_OK, "%d", 1);
	check_add(&checks, "one", CHECK_WARN, "two");
	check_add(&checks, "other", CHECK_FAIL, "three");
	cr_assert_eq(checks_worst(&checks, "one"), CHECK_WARN);
	cr_assert_eq(checks_worst(&checks, "other"), CHECK_FAIL);
	cr_assert_eq(checks_worst(&checks, "none"), CHECK_OK);
	cr_assert_eq(checks_worst(&checks, NULL), CHECK_FAIL);
}

Test(checks, a_mend_belongs_to_the_last)
{
	autochecks struct checks checks = {0};

	check_mend(&checks, "nobody");
	check_add(&checks, "one", CHECK_WARN, "1");
	check_add(&checks, "two", CHECK_WARN, "2");
	check_mend(&checks, "first %d", 1);
	check_mend(&checks, "again");
	cr_assert_null(checks.check[0].mend);
	cr_assert_str_eq(checks.check[1].mend, "again");
}

/*
 * Hard links, in a directory of the test's own
 */

static char top[] = "/tmp/test-doctor-XXXXXX";

static void make_top(void)
{
	cr_assert(mkdtemp(top));
	cr_assert_eq(chdir(top), 0);
}

static void remove_top(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_assert_eq(chdir("/"), 0);
	cr_assert_eq(system(command), 0);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	cr_assert_geq(fd, 0);
	close(fd);
}

static void make_trees(void)
{
	static const char *const dirs[] = {"main", "main/.git", "main/wt",
					   "main/src", "other"};

	make_top();
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		cr_assert_eq(mkdir(dirs[i], 0755), 0);
	make_file("main/src/a");
	make_file("main/alone");
	make_file("main/.git/object");
	make_file("main/wt/own");
	cr_assert_eq(link("main/wt/own", "main/wt/own-2"), 0);
}

static void gather(struct links *links)
{
	struct strings skip = {0};

	links->budget = 100;
	cr_assert_eq(strings_add(&skip, "main/wt"), 0);
	cr_assert_eq(links_gather(links, "main", &skip), 0);
	strings_release(&skip);
}

static const struct strings nothing;

Test(links, shared_files_are_found, .init = make_trees, .fini = remove_top)
{
	autolinks struct links links = {0};
	autoshared struct shared_links shared = {0};

	cr_assert_eq(link("main/src/a", "main/wt/a"), 0);
	cr_assert_eq(link("main/src/a", "other/a"), 0);
	gather(&links);
	cr_assert_eq(links_compare(&links, "main/wt", &nothing, &shared), 0);
	cr_assert_eq(shared.n, 1);
	cr_assert_str_eq(shared.first, "main/src/a");
	cr_assert_str_eq(shared.another, "main/wt/a");
	cr_assert_eq(links_compare(&links, "other", &nothing, &shared), 0);
	cr_assert_eq(shared.n, 2);
	cr_assert_str_eq(shared.another, "main/wt/a");
	cr_assert(!links.gave_up);
}

Test(links, others_are_not, .init = make_trees, .fini = remove_top)
{
	autolinks struct links links = {0};
	autoshared struct shared_links shared = {0};

	/* Objects of git's, and links to a third place. */
	cr_assert_eq(link("main/.git/object", "main/wt/object"), 0);
	cr_assert_eq(link("main/src/a", "elsewhere"), 0);
	cr_assert_eq(symlink("../src/a", "main/wt/symlink"), 0);
	gather(&links);
	cr_assert_eq(links.n, 1);
	cr_assert_eq(links_compare(&links, "main/wt", &nothing, &shared), 0);
	cr_assert_eq(shared.n, 0);
	cr_assert_null(shared.first);
}

Test(links, the_search_is_bounded, .init = make_trees, .fini = remove_top)
{
	autolinks struct links links = {.budget = 3};

	cr_assert_eq(links_gather(&links, "main", &nothing), 0);
	cr_assert(links.gave_up);
}

Test(links, a_tree_that_is_missing_is_empty, .init = make_trees,
     .fini = remove_top)
{
	autolinks struct links links = {.budget = 10};

	cr_assert_eq(links_gather(&links, "missing", &nothing), 0);
	cr_assert_eq(links.n, 0);
}

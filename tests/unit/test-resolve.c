#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/resolve.h"

/* The working directory of each test, as the kernel spells it. */
static char *scratch;

static void set_up(void)
{
	char template[] = "/tmp/test-resolve-XXXXXX";

	cr_assert_not_null(mkdtemp(template));
	cr_assert_eq(chdir(template), 0);
	scratch = getcwd(NULL, 0);
	cr_assert_eq(mkdir("a", 0755), 0);
	cr_assert_eq(mkdir("a/b", 0755), 0);
	close(open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

static void tear_down(void)
{
	autofree char *command = NULL;

	cr_assert_gt(asprintf(&command, "rm -rf '%s'", scratch), 0);
	cr_expect_eq(system(command), 0);
	free(scratch);
}

TestSuite(resolve, .init = set_up, .fini = tear_down);

/* expected is told from the working directory if it is relative. */
static void expect(const char *path, const char *expected, bool exists)
{
	autofree char *full = path_normalise(scratch, expected);
	struct resolved place = {0};

	cr_assert_eq(path_resolve(scratch, path, NULL, &place), 0, "%s", path);
	cr_expect_str_eq(place.path, full, "%s gives %s", path, place.path);
	cr_expect_eq(place.exists, exists, "%s", path);
	cr_expect(path_is_clean(place.path));
	resolved_release(&place);
}

Test(resolve, what_is_there)
{
	expect("a/b", "a/b", true);
	expect("./a//b/", "a/b", true);
	expect("a/b/..", "a", true);
	expect("", ".", true);
	expect(".", ".", true);
	expect("file", "file", true);
	expect("/", "/", true);
	expect("/../..", "/", true);
}

Test(resolve, what_is_missing)
{
	expect("a/x", "a/x", false);
	expect("x/y/z", "x/y/z", false);
	expect("x/../a", "a", true);
	expect("x/y/../../a/b", "a/b", true);
	expect("file/x", "file/x", false);
}

Test(resolve, links)
{
	struct resolved place = {0};

	cr_assert_eq(symlink("a/b", "relative"), 0);
	cr_assert_eq(symlink(scratch, "a/absolute"), 0);
	cr_assert_eq(symlink("nothing/here", "dangling"), 0);
	cr_assert_eq(symlink("relative", "again"), 0);
	expect("relative", "a/b", true);
	expect("relative/..", "a", true);
	expect("a/absolute/a/b", "a/b", true);
	expect("dangling/x", "nothing/here/x", false);
	expect("missing/../relative/x", "a/b/x", false);

	cr_assert_eq(path_resolve(scratch, "again/../b", NULL, &place), 0);
	cr_expect_eq(place.links.n, 2);
	cr_expect_str_eq(path_basename(place.links.s[0]), "again");
	cr_expect_str_eq(path_basename(place.links.s[1]), "relative");
	resolved_release(&place);
}

Test(resolve, links_in_a_circle)
{
	struct resolved place = {0};

	cr_assert_eq(symlink("two", "one"), 0);
	cr_assert_eq(symlink("one", "two"), 0);
	cr_expect_eq(path_resolve(scratch, "one/x", NULL, &place), -ELOOP);
	cr_expect_null(place.path);
}

/* A look into some directories might never return. */
Test(resolve, stops)
{
	autofree char *stop = path_join(scratch, "a");
	struct strings stops = {0};
	struct resolved place = {0};

	cr_assert_eq(symlink("../file", "a/link"), 0);
	cr_assert_eq(symlink("a", "way"), 0);
	cr_assert_eq(strings_add(&stops, stop), 0);
	cr_assert_eq(path_resolve(scratch, "way/link", &stops, &place), 0);
	cr_expect(path_starts_with(place.path, stop, NULL), "%s", place.path);
	cr_expect_str_eq(path_basename(place.path), "link");
	cr_expect_not(place.exists);
	resolved_release(&place);
	cr_assert_eq(
		path_resolve(scratch, "way/link/../../file", &stops, &place),
		0);
	cr_expect_str_eq(path_basename(place.path), "file");
	cr_expect(place.exists);
	resolved_release(&place);
	strings_release(&stops);
}

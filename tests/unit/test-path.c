#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

Test(path, clean)
{
	static const char *const clean[] = {
		"/", "/a", "/a/b", "/...", "/.a/..b", "/a b\n\xff", "/.git",
	};
	static const char *const unclean[] = {
		"",    ".",   "a",    "a/b",   "//",   "/a/",	"/a//b",
		"/./", "/..", "/a/.", "/a/..", "/./a", "/../a", "/a/./b",
	};

	for (size_t i = 0; i < ARRAY_SIZE(clean); i++)
		cr_expect(path_is_clean(clean[i]), "'%s'", clean[i]);
	for (size_t i = 0; i < ARRAY_SIZE(unclean); i++)
		cr_expect_not(path_is_clean(unclean[i]), "'%s'", unclean[i]);
}

Test(path, starts_with)
{
	static const struct {
		const char *path, *dir;
		const char *rest; /* NULL: it doesn't */
	} cases[] = {
		{"/a/b", "/a", "b"},	 {"/a/b/c", "/a", "b/c"},
		{"/a", "/a", ""},	 {"/", "/", ""},
		{"/a", "/", "a"},	 {"/a/b", "/", "a/b"},
		{"/ab", "/a", NULL},	 {"/a", "/a/b", NULL},
		{"/", "/a", NULL},	 {"/a.b", "/a", NULL},
		{"/a/bc", "/a/b", NULL}, {"/b", "/a", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *rest = "untouched";
		bool does =
			path_starts_with(cases[i].path, cases[i].dir, &rest);

		cr_expect_eq(does, cases[i].rest != NULL, "%s in %s",
			     cases[i].path, cases[i].dir);
		cr_expect_str_eq(rest,
				 cases[i].rest ? cases[i].rest : "untouched");
		cr_expect_eq(
			path_starts_with(cases[i].path, cases[i].dir, NULL),
			does);
	}
}

Test(path, join)
{
	static const struct {
		const char *dir, *rest, *joined;
	} cases[] = {
		{"/a", "b", "/a/b"}, {"/", "b", "/b"},	    {"/a", "", "/a"},
		{"/", "", "/"},	     {"a", "b/c", "a/b/c"}, {"", "b", "b"},
		{"", "", ""},	     {"/a/", "b", "/a/b"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autofree char *joined = path_join(cases[i].dir, cases[i].rest);

		cr_expect_str_eq(joined, cases[i].joined);
	}
}

Test(path, normalise)
{
	static const struct {
		const char *base, *path, *result;
	} cases[] = {
		{"/", "", "/"},
		{"/", "/", "/"},
		{"/", "..", "/"},
		{"/a", "", "/a"},
		{"/a", ".", "/a"},
		{"/a", "..", "/"},
		{"/a", "../..", "/"},
		{"/a", "../../b", "/b"},
		{"/a/b", "../c", "/a/c"},
		{"/a", "b/", "/a/b"},
		{"/a", "b//c/./d", "/a/b/c/d"},
		{"/a", "b/../c", "/a/c"},
		{"/a", "/b", "/b"},
		{"/a", "//b/../..", "/"},
		{"/a", "...", "/a/..."},
		{"/a", "..b", "/a/..b"},
		{"/a/.git/worktrees/w", "../..", "/a/.git"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autofree char *result =
			path_normalise(cases[i].base, cases[i].path);

		cr_expect_str_eq(result, cases[i].result);
		cr_expect(path_is_clean(result));
	}
}

Test(path, base_and_directory)
{
	static const struct {
		const char *path, *base, *dir;
	} cases[] = {
		{"/", "", "/"},	 {"/a", "a", "/"},  {"/a/b", "b", "/a"},
		{"a", "a", "."}, {"a/b", "b", "a"}, {"/a/.git", ".git", "/a"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autofree char *dir = path_dirname(cases[i].path);

		cr_expect_str_eq(path_basename(cases[i].path), cases[i].base);
		cr_expect_str_eq(dir, cases[i].dir);
	}
}

Test(path, names)
{
	char name[NAME_MAX + 2];

	cr_expect(name_is_valid("a"));
	cr_expect(name_is_valid("..."));
	cr_expect(name_is_valid(".a"));
	cr_expect(name_is_valid("\xff\n"));
	cr_expect_not(name_is_valid(""));
	cr_expect_not(name_is_valid("."));
	cr_expect_not(name_is_valid(".."));
	cr_expect_not(name_is_valid("a/b"));
	cr_expect_not(name_is_valid("/"));

	memset(name, 'a', sizeof(name));
	name[NAME_MAX] = '\0';
	cr_expect(name_is_valid(name));
	name[NAME_MAX] = 'a';
	name[NAME_MAX + 1] = '\0';
	cr_expect_not(name_is_valid(name));
}

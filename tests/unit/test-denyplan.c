/*
 * From two lists of trees to a session, for a repository that git itself makes
 * in a directory of each test's own. Paths are told from there.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/denyplan.h"
#include "mountctl/layout.h"

static char *base;

static void sh(const char *words)
{
	autofree char *command = NULL;

	cr_assert_gt(asprintf(&command, "set -e; cd '%s'; exec >>log 2>&1; %s",
			      base, words),
		     0);
	cr_assert_eq(system(command), 0, "%s", words);
}

/* main with the worktree main/wt, far beside it, and what is no repository. */
static void set_up(void)
{
	char template[] = "/tmp/test-denyplan-XXXXXX";

	cr_assert_not_null(mkdtemp(template));
	base = realpath(template, NULL);
	unsetenv("GIT_DIR");
	unsetenv("GIT_WORK_TREE");
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", base, 1);
	sh("git config --global user.name T; git config --global user.email t;"
	   "git init -q -b main main; cd main; mkdir src; echo x >src/a;"
	   "git add .; git commit -q -m x; git worktree add -q wt;"
	   "git worktree add -q ../far; mkdir -p ../plain/deep ../other;"
	   "ln -s other ../link");
	cr_assert_eq(chdir(base), 0);
}

static void tear_down(void)
{
	autofree char *command = NULL;

	cr_assert_eq(chdir("/"), 0);
	cr_assert_gt(asprintf(&command, "rm -rf '%s'", base), 0);
	cr_assert_eq(system(command), 0);
	free(base);
}

TestSuite(denyplan, .init = set_up, .fini = tear_down);

/* Words with spaces between; "" is none. */
static void take(struct strings *list, const char *words)
{
	autofree char *copy = strdup(words);
	char *rest = copy, *word;

	while ((word = strsep(&rest, " ")))
		if (*word)
			cr_assert_eq(strings_add(list, word), 0);
}

static int plan(const char *deny, const char *allow,
		struct session_spec *ret_spec, struct strings *missing)
{
	struct denylist list = {0};
	autofree char *message = NULL;
	int r;

	take(&list.deny, deny);
	take(&list.allow, allow);
	cr_assert_eq(denylist_resolve(&list, NULL), 0);
	r = denyplan(&list, ret_spec, missing, &message);
	if (r < 0)
		cr_expect_not_null(message, "%s", deny);
	denylist_release(&list);
	return r;
}

static char accessed(const struct session_spec *spec, const char *path)
{
	autofree char *whole = path_join(base, path);
	const struct rule *rule = rules_governing(&spec->rules, whole);

	if (!rule)
		return '-';
	return rule->access == ACCESS_RW ? 'w' : 'r';
}

/* What governs a path: r, w, or - for none. */
static const struct row {
	const char *deny, *allow;
	int result; /* of the plan */
	const char *path;
	char access;
} rows[] = {
	{"main", "", 1, "main/src/a", 'r'},
	{"main", "", 1, "main/new/deep", 'r'},
	{"main", "", 1, "plain/x", '-'},
	{"main", "", 1, "mainly", '-'},
	{"main", "main/wt", 1, "main/wt/x", 'w'},
	{"main", "main/wt", 1, "main/src/x", 'r'},
	{"main", "main/wt main/later", 1, "main/later/x", 'w'},
	{"main", "plain", 1, "plain/x", '-'},
	/* An allowed tree wins at any depth, in whatever order. */
	{"main main/wt/src", "main/wt", 1, "main/wt/src/x", 'w'},
	{"main plain/deep", "plain", 1, "plain/deep/x", '-'},
	{"plain", "plain", 0, "plain/x", '-'},
	{"plain/deep", "plain", 0, "plain/deep/x", '-'},
	{"plain", "plain/deep", 1, "plain/deep/x", 'w'},
	/* Several trees, one in another, the same twice */
	{"plain other", "", 1, "other/x", 'r'},
	{"plain plain/deep", "", 1, "plain/deep/x", 'r'},
	{"plain plain", "", 1, "plain/x", 'r'},
	{"plain/deep plain", "", 1, "plain/x", 'r'},
	{"plain main", "plain/deep main/src", 1, "main/src/x", 'w'},
	{"plain main", "plain/deep main/src", 1, "plain/x", 'r'},
	/* By other spellings */
	{"link", "", 1, "other/x", 'r'},
	{"plain/../other", "", 1, "other/x", 'r'},
	{"./plain//deep/", "", 1, "plain/deep/x", 'r'},
	{"plain", "link/../plain/deep", 1, "plain/deep/x", 'w'},
	/* What doesn't exist, alone and beside what does */
	{"none", "", 0, "none/x", '-'},
	{"none plain", "", 1, "plain/x", 'r'},
	{"none plain", "", 1, "none/x", '-'},
	{"plain/none plain", "", 1, "plain/none/x", 'r'},
	{"none/plain", "none", 0, "none/plain", '-'},
	{"", "", 0, "main/x", '-'},
};

Test(denyplan, rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct strings missing = {0};
		struct session_spec spec;

		session_spec_init(&spec);
		cr_expect_eq(plan(row->deny, row->allow, &spec, &missing),
			     row->result, "%s, %s", row->deny, row->allow);
		cr_expect_eq(accessed(&spec, row->path), row->access,
			     "%s, %s: %s", row->deny, row->allow, row->path);
		session_spec_release(&spec);
		strings_release(&missing);
	}
}

/* Only what nothing else guards is missed. */
Test(denyplan, missing)
{
	struct strings missing = {0};
	struct session_spec spec;
	autofree char *none = path_join(base, "none");

	cr_assert_eq(plan("plain none plain/none", "", &spec, &missing), 1);
	cr_expect_eq(missing.n, 1);
	cr_expect_str_eq(missing.s[0], none);
	session_spec_release(&spec);
	strings_release(&missing);
}

/*
 * The git guard: where a worktree of a denied checkout may be changed.
 */

static const struct git_row {
	const char *from; /* the working directory */
	const char *deny, *allow;
	const char *worktree; /* or NULL: no guard */
} git_rows[] = {
	{".", "main", "main/wt", "main/wt"},
	{".", "main", "far", "far"},
	{"main/wt", "../../main", ".", "main/wt"},
	{"main/wt/src", "../../../main", "..", "main/wt"},
	{"far", "../main", "", "far"},
	{"far", "../main", "../main/wt", "far"},
	{".", "main", "main/wt/src", NULL},
	{".", "main", "", NULL},
	{"main/wt", "../../main", "", NULL},
	{".", "plain", "main/wt", NULL},
	{".", "main main/.git", "main/wt", NULL},
	{".", "main main/.git", "main/wt main/.git", "main/wt"},
	{".", "main", "main/wt main/.git", "main/wt"},
	{".", "main", "plain main/wt", "main/wt"},
	{".", "main main/wt", "main", NULL},
};

Test(denyplan, git_guard)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_rows); i++) {
		const struct git_row *row = &git_rows[i];
		autofree char *from = path_join(base, row->from);
		autofree char *worktree =
			row->worktree ? path_join(base, row->worktree) : NULL;
		struct strings missing = {0};
		struct session_spec spec;

		session_spec_init(&spec);
		cr_assert_eq(chdir(from), 0);
		plan(row->deny, row->allow, &spec, &missing);
		cr_expect_eq(spec.worktree != NULL, worktree != NULL,
			     "%s: %s, %s", row->from, row->deny, row->allow);
		if (worktree && spec.worktree) {
			cr_expect_str_eq(spec.worktree, worktree);
			cr_expect(spec.git_guard);
			cr_expect_eq(accessed(&spec, "main/.git/hooks"), 'r');
			cr_expect_eq(accessed(&spec, "main/.git/refs/x"), 'w');
		}
		session_spec_release(&spec);
		strings_release(&missing);
	}
}

/* "/" holds everything that a session needs itself. */
Test(denyplan, the_root)
{
	struct strings missing = {0};
	struct session_spec spec;

	cr_expect_eq(plan("/", "", &spec, &missing), -EINVAL);
	strings_release(&missing);
}

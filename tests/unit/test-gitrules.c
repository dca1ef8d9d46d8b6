/*
 * The git guard's rules: for paths that needn't exist, and for repositories
 * that look like something in a directory of each test's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/gitrules.h"

static void cleanup_policyp(struct policy **policy)
{
	policy_free(*policy);
}
#define autopolicy __attribute__((cleanup(cleanup_policyp)))
#define autospec __attribute__((cleanup(session_spec_release)))

static char *copy(const char *text)
{
	char *copied = text ? strdup(text) : NULL;

	cr_assert(!text || copied);
	return copied;
}

/* M, its G in it, and W in M; the default rules and the guard's. */
static struct session_spec guarded(const char *main, enum git_config config)
{
	struct session_spec spec;
	struct rule checkout = {.access = ACCESS_RO};
	struct rule git_dir = {.access = ACCESS_RW};
	struct rule worktree = {.access = ACCESS_RW};

	session_spec_init(&spec);
	spec.main = copy(main);
	spec.git_dir = path_join(main, ".git");
	spec.worktree = path_join(main, "wt");
	spec.admin_dir = path_join(spec.git_dir, "worktrees/wt");
	spec.git_guard = true;
	spec.git_config = config;
	checkout.path = spec.main;
	git_dir.path = spec.git_dir;
	worktree.path = spec.worktree;
	cr_assert_eq(rules_add(&spec.rules, &checkout), 0);
	cr_assert_eq(rules_add(&spec.rules, &git_dir), 0);
	cr_assert_eq(rules_add(&spec.rules, &worktree), 0);
	cr_assert_eq(gitrules_add(&spec), 0);
	return spec;
}

static struct policy *policy_of(const struct session_spec *spec,
				const char *root)
{
	struct policy *policy = NULL;

	cr_assert_eq(policy_new(root, &spec->rules, &policy, NULL), 0);
	return policy;
}

static const struct rule *rule_at(const struct policy *policy,
				  const char *relative)
{
	return place_rule(policy_walk(policy_root(policy), relative));
}

/* What governs a path below M: its access, and who is asked. */
struct expectation {
	const char *path;
	enum access access;
	enum judge judge;
};

static void expect(const struct policy *policy, const struct expectation *cases,
		   size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct rule *rule = rule_at(policy, cases[i].path);

		cr_expect_eq(rule->access, cases[i].access, "%s is %s",
			     cases[i].path, access_name(rule->access));
		cr_expect_eq(rule->judge, cases[i].judge, "%s asks %s",
			     cases[i].path, judge_name(rule->judge));
	}
}

#define RO(path)                            \
	{                                   \
		path, ACCESS_RO, JUDGE_NONE \
	}
#define RW(path)                            \
	{                                   \
		path, ACCESS_RW, JUDGE_NONE \
	}
#define ASKS(path, judge)              \
	{                              \
		path, ACCESS_RW, judge \
	}

Test(gitrules, names)
{
	autospec struct session_spec spec = guarded("/r", GIT_CONFIG_FILTER);
	autopolicy struct policy *policy = policy_of(&spec, "/r");
	static const struct expectation cases[] = {
		RO("a.c"),
		RW("wt"),
		RW("wt/a.c"),
		RO("wt/.git"),
		RW(".git"),
		RW(".git/COMMIT_EDITMSG"),
		RW(".git/FETCH_HEAD"),
		RW(".git/lfs/objects/x"),
		RW(".git/annex/x"),
		RW(".git/rr-cache/x"),
		RW(".git/gc.pid"),
		RW(".git/config.lock"),
		RW(".git/HEAD.lock"),
		RW(".git/packed-refs.lock"),
		RW(".git/packed-refs.new"),
		RW(".git/refs"),
		RW(".git/refs/remotes/origin/x"),
		RW(".git/refs/tags/x"),
		RW(".git/refs/notes/commits"),
		RW(".git/logs"),
		RW(".git/logs/refs/remotes/origin/x"),

		RO(".git/hooks"),
		RO(".git/hooks/pre-commit"),
		RO(".git/info"),
		RO(".git/info/exclude"),
		RO(".git/info/attributes"),
		RO(".git/info/sparse-checkout"),
		RW(".git/info/refs"),
		RW(".git/info/refs_ab12"),
		RO(".git/modules"),
		RO(".git/modules/a/b/config"),
		RO(".git/branches/x"),
		RO(".git/remotes/x"),
		RO(".git/refs/replace/0123"),
		RO(".git/refs/bisect/bad"),
		RO(".git/refs/rewritten/x"),
		RO(".git/refs/worktree/x"),
		RO(".git/commondir"),
		RO(".git/config.worktree"),
		RO(".git/sharedindex.0123"),
		RO(".git/shallow"),
		RO(".git/shallow.lock"),
		RO(".git/index"),
		RO(".git/index.lock"),
		RO(".git/ORIG_HEAD"),
		RO(".git/ORIG_HEAD.lock"),
		RO(".git/MERGE_HEAD"),
		RO(".git/MERGE_MSG"),
		RO(".git/MERGE_HEAD.lock"),
		RO(".git/CHERRY_PICK_HEAD"),
		RO(".git/CHERRY_PICK_HEAD.lock"),
		RO(".git/REVERT_HEAD"),
		RO(".git/REBASE_HEAD"),
		RO(".git/BISECT_START"),
		RO(".git/BISECT_LOG"),
		RO(".git/AUTO_MERGE"),
		RO(".git/AUTO_MERGE.lock"),
		RO(".git/rebase-merge/git-rebase-todo"),
		RO(".git/rebase-apply"),
		RO(".git/sequencer/todo"),

		ASKS(".git/config", JUDGE_CONFIG),
		ASKS(".git/packed-refs", JUDGE_PACKED_REFS),
		ASKS(".git/HEAD", JUDGE_REF),
		ASKS(".git/refs/heads", JUDGE_REF),
		ASKS(".git/refs/heads/user/x", JUDGE_REF),
		ASKS(".git/logs/HEAD", JUDGE_REFLOG),
		ASKS(".git/logs/refs/heads/user/x", JUDGE_REFLOG),
		ASKS(".git/refs/stash", JUDGE_STASH),
		ASKS(".git/logs/refs/stash", JUDGE_STASH_LOG),
		ASKS(".git/objects", JUDGE_OBJECTS),
		ASKS(".git/objects/ab/cd", JUDGE_OBJECTS),
		ASKS(".git/objects/pack/x.pack", JUDGE_OBJECTS),
		RW(".git/objects/info"),
		RW(".git/objects/info/commit-graph"),
		RO(".git/objects/info/alternates"),

		ASKS(".git/worktrees", JUDGE_ADMIN),
		ASKS(".git/worktrees/other/HEAD", JUDGE_ADMIN),
		RW(".git/worktrees/wt"),
		RW(".git/worktrees/wt/HEAD"),
		RW(".git/worktrees/wt/index.lock"),
		RW(".git/worktrees/wt/MERGE_HEAD"),
		RW(".git/worktrees/wt/rebase-merge/git-rebase-todo"),
		RW(".git/worktrees/wt/modules/sub/config"),
		RW(".git/worktrees/wt/locked"),
		RO(".git/worktrees/wt/gitdir"),
		RO(".git/worktrees/wt/commondir"),
		ASKS(".git/worktrees/wt/config.worktree",
		     JUDGE_WORKTREE_CONFIG),
	};

	expect(policy, cases, ARRAY_SIZE(cases));
	cr_expect_eq(rule_at(policy, ".git/hooks")->origin, ORIGIN_GIT_GUARD);
	cr_expect_str_eq(rule_at(policy, ".git/hooks")->reason,
			 "hooks run on the user's side");
}

/* Others may change what is in G at any time. */
Test(gitrules, caching)
{
	autospec struct session_spec spec = guarded("/r", GIT_CONFIG_FILTER);

	for (size_t i = 3; i < spec.rules.n; i++) {
		const struct rule *rule = &spec.rules.rule[i];
		enum caching caching = CACHING_NONE;

		if (strcmp(rule->path, "/r/.git/objects") == 0)
			caching = CACHING_OBJECTS;
		if (strcmp(rule->path, "/r/wt/.git") == 0)
			caching = CACHING_TREE;
		cr_expect_eq(rule->caching, caching, "%s", rule->path);
		cr_expect_eq(rule->origin, ORIGIN_GIT_GUARD, "%s", rule->path);
		cr_expect_neq(rule->reason[0], '\0', "%s", rule->path);
		cr_expect(path_is_clean(rule->path), "%s", rule->path);
	}
}

Test(gitrules, of_the_config)
{
	static const struct expectation denied[] = {
		RO(".git/config"),
		RW(".git/config.lock"),
		RO(".git/worktrees/wt/config.worktree"),
		RO(".git/config.worktree"),
		RO(".git/hooks"),
	};
	static const struct expectation allowed[] = {
		RW(".git/config"),
		RW(".git/worktrees/wt/config.worktree"),
		RO(".git/config.worktree"),
		RO(".git/hooks"),
	};
	autospec struct session_spec deny = guarded("/r", GIT_CONFIG_DENY);
	autospec struct session_spec allow = guarded("/r", GIT_CONFIG_ALLOW);
	autopolicy struct policy *denying = policy_of(&deny, "/r");
	autopolicy struct policy *allowing = policy_of(&allow, "/r");

	expect(denying, denied, ARRAY_SIZE(denied));
	expect(allowing, allowed, ARRAY_SIZE(allowed));
}

/* A directory may be called anything; in a pattern it stands for itself. */
Test(gitrules, directories_with_wildcards)
{
	static const char *const mains[] = {
		"/a[b]c",
		"/x/[wip] *?\\y/r",
		"/back\\slash/r",
		"/[",
	};

	for (size_t i = 0; i < ARRAY_SIZE(mains); i++) {
		autospec struct session_spec spec =
			guarded(mains[i], GIT_CONFIG_FILTER);
		autopolicy struct policy *policy = policy_of(&spec, mains[i]);
		autopolicy struct policy *all = policy_of(&spec, "/");
		autofree char *merge = NULL;
		static const struct expectation cases[] = {
			RO(".git/hooks"),
			RO(".git/MERGE_HEAD"),
			RW(".git/info/refs"),
			RW(".git/x"),
		};

		expect(policy, cases, ARRAY_SIZE(cases));
		merge = path_join(mains[i] + 1, ".git/MERGE_HEAD");
		cr_expect_eq(rule_at(all, merge)->access, ACCESS_RO, "%s",
			     merge);
	}
}

Test(gitrules, without_the_guard_there_are_none)
{
	autospec struct session_spec off = {.git_dir = copy("/r/.git")};
	autospec struct session_spec nothing = {.git_guard = true};

	cr_expect_eq(gitrules_add(&off), 0);
	cr_expect_eq(off.rules.n, 0);
	cr_expect_eq(gitrules_add(&nothing), 0);
	cr_expect_eq(nothing.rules.n, 0);
}

/* One that makes its worktrees as it goes has none of its own. */
Test(gitrules, without_a_worktree)
{
	autospec struct session_spec spec = {
		.git_dir = copy("/r.git"),
		.git_guard = true,
	};
	autopolicy struct policy *policy = NULL;
	static const struct expectation cases[] = {
		RO("hooks"),
		ASKS("worktrees/any/HEAD", JUDGE_ADMIN),
		ASKS("config", JUDGE_CONFIG),
	};

	cr_assert_eq(gitrules_add(&spec), 0);
	policy = policy_of(&spec, "/r.git");
	expect(policy, cases, ARRAY_SIZE(cases));
}

/*
 * Repositories on disk.
 */

static char *base;

static void set_up(void)
{
	char template[] = "/tmp/test-gitrules-XXXXXX";

	cr_assert_not_null(mkdtemp(template));
	base = realpath(template, NULL);
	cr_assert_eq(chdir(base), 0);
	cr_assert_eq(mkdir(".git", 0755), 0);
}

static void tear_down(void)
{
	autofree char *command = NULL;

	cr_assert_eq(chdir("/"), 0);
	cr_assert_gt(asprintf(&command, "rm -rf '%s'", base), 0);
	cr_expect_eq(system(command), 0);
	free(base);
}

TestSuite(gitrules_on_disk, .init = set_up, .fini = tear_down);

/* A checkout that is shallow already may be deepened. */
Test(gitrules_on_disk, shallow)
{
	static const struct expectation absent[] = {RO(".git/shallow"),
						    RO(".git/shallow.lock")};
	static const struct expectation present[] = {RW(".git/shallow"),
						     RW(".git/shallow.lock")};
	autospec struct session_spec before = guarded(base, GIT_CONFIG_FILTER);
	autopolicy struct policy *policy = policy_of(&before, base);
	autospec struct session_spec after = {0};
	autopolicy struct policy *then = NULL;

	expect(policy, absent, ARRAY_SIZE(absent));
	cr_assert_eq(mkdir(".git/shallow", 0755), 0);
	after = guarded(base, GIT_CONFIG_FILTER);
	then = policy_of(&after, base);
	expect(then, present, ARRAY_SIZE(present));
}

static void expect_gap(const struct session_spec *spec, const char *text)
{
	struct strings gaps = {0};

	cr_assert_eq(gitrules_gaps(spec, &gaps), 0);
	cr_expect_eq(gaps.n, text ? 1 : 0, "%s", gaps.n ? gaps.s[0] : "none");
	if (text && gaps.n)
		cr_expect(strstr(gaps.s[0], text), "%s", gaps.s[0]);
	strings_release(&gaps);
}

Test(gitrules_on_disk, reftable_is_a_gap)
{
	autospec struct session_spec spec = guarded(base, GIT_CONFIG_FILTER);

	expect_gap(&spec, NULL);
	cr_assert_eq(mkdir(".git/reftable", 0755), 0);
	expect_gap(&spec, "reftable");
	spec.git_guard = false;
	expect_gap(&spec, NULL);
}

Test(gitrules_on_disk, a_checkout_that_is_called_bare_is_a_gap)
{
	autospec struct session_spec spec = guarded(base, GIT_CONFIG_FILTER);
	autofree char *main = spec.main;

	spec.main = NULL;
	expect_gap(&spec, NULL); /* nothing beside .git */
	cr_assert_eq(mkdir("src", 0755), 0);
	expect_gap(&spec, "NO MAIN CHECKOUT");
	cr_assert_eq(rename(".git", "x.git"), 0);
	free(spec.git_dir);
	spec.git_dir = path_join(base, "x.git");
	expect_gap(&spec, NULL);
}

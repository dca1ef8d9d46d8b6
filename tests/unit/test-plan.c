/*
 * Plans of sessions, for repositories that git itself makes in a directory of
 * each test's own. Paths are told from there.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/layout.h"
#include "mountctl/plan.h"

static char *base;

/* Runs a command of the shell in the test's directory. */
__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
	autofree char *command = NULL, *whole = NULL;
	va_list args;

	va_start(args, format);
	cr_assert_gt(vasprintf(&command, format, args), 0);
	va_end(args);
	cr_assert_gt(asprintf(&whole, "set -e; cd '%s'; exec >>log 2>&1; %s",
			      base, command),
		     0);
	cr_assert_eq(system(whole), 0, "%s", command);
}

static void enter(const char *dir)
{
	autofree char *path = path_join(base, dir);

	cr_assert_eq(chdir(path), 0, "%s", path);
}

/* main with the worktrees main/wt, main/other and sib, all on own branches. */
static void set_up(void)
{
	char template[] = "/tmp/test-plan-XXXXXX";

	cr_assert_not_null(mkdtemp(template));
	base = realpath(template, NULL);
	umask(022);
	unsetenv("GIT_DIR");
	unsetenv("GIT_WORK_TREE");
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", base, 1);
	sh("git config --global user.name T; git config --global user.email t;"
	   "git init -q -b main main; cd main; mkdir src; echo x >src/a;"
	   "git add .; git commit -q -m x;"
	   "git worktree add -q wt; git worktree add -q other;"
	   "git worktree add -q ../sib");
	enter("main/wt");
}

static void tear_down(void)
{
	autofree char *command = NULL;

	cr_assert_eq(chdir("/"), 0);
	cr_assert_gt(asprintf(&command, "rm -rf '%s'", base), 0);
	cr_expect_eq(system(command), 0);
	free(base);
}

TestSuite(plan, .init = set_up, .fini = tear_down);

/*
 * Options are words as on the command line; PATH arguments that begin with
 * "@/" are in the test's directory.
 */
struct word {
	int option;
	const char *argument;
};

#define WORDS(...) ((const struct word[]){__VA_ARGS__, {0, NULL}})
#define NO_WORDS ((const struct word[]){{0, NULL}})

static void read_words(struct plan_options *options, const struct word *words)
{
	plan_options_init(options);
	for (; words->argument; words++) {
		autofree char *path = NULL;
		const char *argument = words->argument;

		if (strncmp(argument, "@/", 2) == 0)
			argument = path = path_join(base, argument + 2);
		cr_assert_eq(
			plan_option(options, words->option, argument, NULL), 0);
	}
}

static int try_plan(const struct word *words, enum tier tier,
		    struct session_spec *ret_spec, char **ret_message)
{
	struct plan_options options;
	int r;

	read_words(&options, words);
	r = plan_session(&options, tier, ret_spec, ret_message);
	plan_options_release(&options);
	return r;
}

static struct session_spec plan(const struct word *words, enum tier tier)
{
	autofree char *message = NULL;
	struct session_spec spec;
	int r = try_plan(words, tier, &spec, &message);

	cr_assert_eq(r, 0, "%d: %s", r, message ? message : "no message");
	return spec;
}

static void accept(const struct word *words)
{
	struct session_spec spec = plan(words, TIER_ENFORCED);

	session_spec_release(&spec);
}

/* The plan is refused, and the message holds the text. */
static void refuse(const struct word *words, int expected, const char *text)
{
	autofree char *message = NULL;
	struct session_spec spec;
	int r = try_plan(words, TIER_ENFORCED, &spec, &message);

	if (r == 0)
		session_spec_release(&spec);
	cr_expect_eq(r, expected, "%d instead of %d: %s", r, expected, message);
	cr_assert_not_null(message);
	cr_expect(strstr(message, text), "'%s' isn't in: %s", text, message);
	cr_expect_not(strchr(message, '\n'), "%s", message);
}

static char *at(const char *relative)
{
	return path_join(base, relative);
}

static const struct rule *find_rule(const struct session_spec *spec,
				    const char *relative, enum origin origin)
{
	autofree char *path = at(relative);

	for (size_t i = 0; i < spec->rules.n; i++)
		if (spec->rules.rule[i].origin == origin &&
		    strcmp(spec->rules.rule[i].path, path) == 0)
			return &spec->rules.rule[i];
	return NULL;
}

static void expect_rule(const struct session_spec *spec, const char *relative,
			enum access access, enum origin origin,
			enum caching caching)
{
	const struct rule *rule = find_rule(spec, relative, origin);

	cr_assert_not_null(rule, "no rule for %s", relative);
	cr_expect_eq(rule->access, access, "%s: %s", relative,
		     access_name(rule->access));
	cr_expect_eq(rule->caching, caching, "%s: %s", relative,
		     caching_name(rule->caching));
	cr_expect_not(rule->pattern);
	cr_expect_neq(rule->reason[0], '\0');
}

/* How many there are beside those of the git guard. */
static size_t count_rules(const struct session_spec *spec)
{
	size_t n = 0;

	for (size_t i = 0; i < spec->rules.n; i++)
		n += spec->rules.rule[i].origin != ORIGIN_GIT_GUARD;
	return n;
}

static void expect_path(const char *path, const char *relative)
{
	autofree char *expected = relative ? at(relative) : NULL;

	if (!expected) {
		cr_expect_null(path, "%s", path);
		return;
	}
	cr_assert_not_null(path, "no %s", expected);
	cr_expect_str_eq(path, expected);
}

/* The list is exactly these, in any order; they end with NULL. */
static void expect_list(const struct strings *list, const char *prefix, ...)
{
	va_list args;
	const char *word;
	size_t n = 0;

	va_start(args, prefix);
	while ((word = va_arg(args, const char *))) {
		autofree char *expected =
			prefix ? path_join(prefix, word) : strdup(word);

		cr_expect(strings_contain(list, expected), "no %s", expected);
		n++;
	}
	va_end(args);
	cr_expect_eq(list->n, n, "%zu instead of %zu, first %s", list->n, n,
		     list->n ? list->s[0] : "none");
}

static const struct view_spec *view_of(const struct session_spec *spec,
				       const char *relative)
{
	autofree char *root = at(relative);

	for (size_t i = 0; i < spec->n_views; i++)
		if (strcmp(spec->views[i].root, root) == 0)
			return &spec->views[i];
	cr_assert_fail("no view of %s", root);
	return NULL;
}

/* Every policy that the plan asks for can be built. */
static void expect_policies(const struct session_spec *spec)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		struct policy *policy = NULL;

		cr_assert_eq(policy_new(spec->views[i].root, &spec->rules,
					&policy, NULL),
			     0);
		policy_free(policy);
	}
}

Test(plan, the_usual_session)
{
	struct session_spec spec = plan(NO_WORDS, TIER_ENFORCED);
	autofree char *state = at(".local/state/worktreefs/wt");

	cr_expect_str_eq(spec.name, "wt");
	expect_path(spec.main, "main");
	expect_path(spec.git_dir, "main/.git");
	expect_path(spec.worktree, "main/wt");
	expect_path(spec.admin_dir, "main/.git/worktrees/wt");
	expect_path(spec.worktrees_dir, NULL);
	cr_expect_str_eq(spec.state_dir, state);
	cr_expect(spec.git_guard);
	cr_expect_eq(spec.hardlinks, HARDLINKS_BREAK);

	cr_expect_eq(count_rules(&spec), 7);
	expect_rule(&spec, "main", ACCESS_RO, ORIGIN_DEFAULT, CACHING_TREE);
	expect_rule(&spec, "main/wt", ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE);
	expect_rule(&spec, "main/.git", ACCESS_RW, ORIGIN_DEFAULT,
		    CACHING_NONE);
	expect_rule(&spec, "main/.git/objects", ACCESS_RW, ORIGIN_DEFAULT,
		    CACHING_OBJECTS);
	expect_rule(&spec, "main/.vinta-ai-workflows", ACCESS_RW,
		    ORIGIN_DEFAULT, CACHING_NONE);
	expect_rule(&spec, "main/other", ACCESS_RO, ORIGIN_DEFAULT,
		    CACHING_TREE);
	expect_rule(&spec, "sib", ACCESS_RO, ORIGIN_DEFAULT, CACHING_TREE);
	expect_rule(&spec, "main/wt/.git", ACCESS_RO, ORIGIN_GIT_GUARD,
		    CACHING_TREE);
	expect_rule(&spec, "main/.git/worktrees/wt/gitdir", ACCESS_RO,
		    ORIGIN_GIT_GUARD, CACHING_NONE);
	expect_rule(&spec, "main/.git/worktrees/wt/commondir", ACCESS_RO,
		    ORIGIN_GIT_GUARD, CACHING_NONE);
	expect_rule(&spec, "main/.git/hooks", ACCESS_RO, ORIGIN_GIT_GUARD,
		    CACHING_NONE);
	expect_rule(&spec, "main/.git/objects", ACCESS_RW, ORIGIN_GIT_GUARD,
		    CACHING_OBJECTS);

	cr_expect_eq(spec.n_views, 1);
	expect_path(view_of(&spec, "main")->mountpoint, "main");
	expect_list(&spec.native, base, "main/wt", "sib", NULL);
	expect_list(&view_of(&spec, "main")->pinned, NULL, "wt", "wt/.git",
		    NULL);
	expect_policies(&spec);
	session_spec_release(&spec);
}

Test(plan, from_anywhere_in_the_worktree)
{
	struct session_spec spec;

	enter("main/wt/src");
	spec = plan(NO_WORDS, TIER_ENFORCED);
	expect_path(spec.worktree, "main/wt");
	session_spec_release(&spec);
	enter("sib");
	spec = plan(NO_WORDS, TIER_ENFORCED);
	expect_path(spec.worktree, "sib");
	expect_path(spec.main, "main");
	expect_list(&spec.native, base, "sib", NULL);
	cr_expect_eq(view_of(&spec, "main")->pinned.n, 0);
	session_spec_release(&spec);
}

Test(plan, a_view_elsewhere)
{
	struct session_spec spec = plan(NO_WORDS, TIER_VIEW);

	cr_expect_eq(spec.tier, TIER_VIEW);
	cr_expect_eq(spec.n_views, 1);
	cr_expect_null(spec.views[0].mountpoint);
	cr_expect_eq(spec.native.n, 0);
	cr_expect_eq(spec.views[0].pinned.n, 0);
	cr_expect_eq(spec.report_uid, (uid_t)-1);
	cr_expect_null(find_rule(&spec, "sib", ORIGIN_DEFAULT),
		       "nothing leads to it");
	session_spec_release(&spec);

	enter("sib");
	spec = plan(NO_WORDS, TIER_VIEW);
	cr_expect_eq(spec.n_views, 2);
	expect_path(spec.views[0].root, "main");
	expect_path(spec.views[1].root, "sib");
	session_spec_release(&spec);
}

Test(plan, the_repository_by_options)
{
	struct session_spec spec;

	enter("");
	refuse(NO_WORDS, -EINVAL, "");
	spec = plan(
		WORDS({PLAN_OPT_MAIN, "main"}, {PLAN_OPT_WORKTREE, "@/sib"}),
		TIER_ENFORCED);
	expect_path(spec.worktree, "sib");
	session_spec_release(&spec);
	spec = plan(WORDS({PLAN_OPT_WORKTREE, "main/wt/."}), TIER_ENFORCED);
	expect_path(spec.main, "main");
	session_spec_release(&spec);
	enter("main/wt/src");
	spec = plan(WORDS({PLAN_OPT_MAIN, "@/main"}), TIER_ENFORCED);
	expect_path(spec.worktree, "main/wt");
	session_spec_release(&spec);

	refuse(WORDS({PLAN_OPT_WORKTREE, "@/main"}), -EINVAL, "");
	refuse(WORDS({PLAN_OPT_WORKTREE, "@/main/wt/src"}), -EINVAL, "");
	refuse(WORDS({PLAN_OPT_WORKTREE, "@/none"}), -EINVAL, "none");
	refuse(WORDS({PLAN_OPT_MAIN, "@/main/src"}, {PLAN_OPT_WORKTREE, ".."}),
	       -EINVAL, "main/src");
	refuse(WORDS({PLAN_OPT_MAIN, "@/main/src/a"}), -EINVAL, "src/a");
}

Test(plan, in_main_it_needs_a_worktree)
{
	enter("main/src");
	refuse(NO_WORDS, -EINVAL, "--worktree ");
	refuse(NO_WORDS, -EINVAL, "--worktrees-dir ");
	refuse(WORDS({PLAN_OPT_MAIN, "@/main"}), -EINVAL, "--worktree ");
	refuse(WORDS({PLAN_OPT_WORKTREE, "@/sib"},
		     {PLAN_OPT_WORKTREES_DIR, "@/d"}),
	       -EINVAL, "--worktrees-dir");
}

Test(plan, a_place_for_worktrees)
{
	struct session_spec spec;

	sh("git -C main worktree add -q .trees/one -b one");
	enter("main");
	spec = plan(WORDS({PLAN_OPT_WORKTREES_DIR, ".trees"}), TIER_ENFORCED);
	cr_expect_str_eq(spec.name, "main");
	expect_path(spec.worktree, NULL);
	expect_path(spec.worktrees_dir, "main/.trees");
	expect_rule(&spec, "main/.trees", ACCESS_RW, ORIGIN_DEFAULT,
		    CACHING_TREE);
	expect_rule(&spec, "main/wt", ACCESS_RO, ORIGIN_DEFAULT, CACHING_TREE);
	cr_expect_null(find_rule(&spec, "main/.trees/one", ORIGIN_DEFAULT));
	expect_rule(&spec, "main/.git/hooks", ACCESS_RO, ORIGIN_GIT_GUARD,
		    CACHING_NONE);
	expect_list(&spec.native, base, "sib", NULL);
	session_spec_release(&spec);

	spec = plan(WORDS({PLAN_OPT_WORKTREES_DIR, "@/later/trees"}),
		    TIER_ENFORCED);
	expect_rule(&spec, "later/trees", ACCESS_RW, ORIGIN_DEFAULT,
		    CACHING_TREE);
	cr_expect_eq(spec.n_views, 1);
	session_spec_release(&spec);

	refuse(WORDS({PLAN_OPT_WORKTREES_DIR, "."}), -EINVAL, "main checkout");
	refuse(WORDS({PLAN_OPT_WORKTREES_DIR, ".git"}), -EINVAL, ".git");
	refuse(WORDS({PLAN_OPT_WORKTREES_DIR, "/"}), -EINVAL, "'/'");
}

Test(plan, a_branch_that_others_use)
{
	sh("git -C main worktree add -q --force ../twice main");
	enter("twice");
	refuse(NO_WORDS, -EINVAL, "refs/heads/main");
	sh("git -C twice checkout -q --detach");
	enter("twice");
	accept(NO_WORDS);
}

Test(plan, a_forged_pointer)
{
	sh("git init -q evil; echo 'gitdir: %s/evil/.git' >main/wt/.git", base);
	refuse(WORDS({PLAN_OPT_MAIN, "@/main"},
		     {PLAN_OPT_WORKTREE, "@/main/wt"}),
	       -EINVAL, "main/wt");
}

Test(plan, added_rules)
{
	struct session_spec spec = plan(
		WORDS({PLAN_OPT_RW, "build"}, {PLAN_OPT_RO, "@/main/wt/src"},
		      {PLAN_OPT_NONE, "secret/../secret/./keys/"},
		      {PLAN_OPT_RO, ".git/hooks"}),
		TIER_ENFORCED);

	expect_rule(&spec, "main/build", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	expect_rule(&spec, "main/wt/src", ACCESS_RO, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	expect_rule(&spec, "main/secret/keys", ACCESS_NONE, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	/* As fresh as what is around it. */
	expect_rule(&spec, "main/.git/hooks", ACCESS_RO, ORIGIN_COMMAND_LINE,
		    CACHING_NONE);
	cr_expect_eq(spec.n_views, 1);
	expect_list(&view_of(&spec, "main")->pinned, NULL, "wt", "wt/.git",
		    "wt/src", NULL);
	session_spec_release(&spec);
}

Test(plan, rules_that_disagree)
{
	refuse(WORDS({PLAN_OPT_RW, "x"}, {PLAN_OPT_RO, "./x"}), -EINVAL,
	       "main/x");
	refuse(WORDS({PLAN_OPT_NONE, "@/main/x"}, {PLAN_OPT_RO, "x"}), -EINVAL,
	       "main/x");
	refuse(WORDS({PLAN_OPT_SHARED, "x"}, {PLAN_OPT_RO, "x"}), -EINVAL,
	       "main/x");
}

Test(plan, the_same_rule_twice_is_one)
{
	struct session_spec spec = plan(
		WORDS({PLAN_OPT_RW, "x"}, {PLAN_OPT_RW, "x/"}), TIER_ENFORCED);

	cr_expect_eq(count_rules(&spec), 8);
	session_spec_release(&spec);
}

Test(plan, arguments_that_are_none)
{
	static const struct word words[] = {
		{PLAN_OPT_RO, ""},
		{PLAN_OPT_GIT_GUARD, "yes"},
		{PLAN_OPT_GIT_CONFIG, "x"},
		{PLAN_OPT_HARDLINKS, "ro"},
		{PLAN_OPT_SYMLINKS, "views"},
		{PLAN_OPT_MAIN, ""},
	};
	struct plan_options options;

	plan_options_init(&options);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		autofree char *message = NULL;

		cr_expect_eq(plan_option(&options, words[i].option,
					 words[i].argument, &message),
			     -EINVAL);
		cr_expect_not_null(message);
	}
	cr_expect_eq(plan_option(&options, 'x', "", NULL), -ENOENT);
	cr_expect_eq(plan_option(&options, PLAN_OPT_END, "", NULL), -ENOENT);
	plan_options_release(&options);
}

Test(plan, options_are_handed_on)
{
	struct session_spec spec = plan(
		WORDS({'n', "my-name"}, {PLAN_OPT_GIT_GUARD, "off"},
		      {PLAN_OPT_GIT_CONFIG, "deny"},
		      {PLAN_OPT_HARDLINKS, "deny"}, {PLAN_OPT_SYMLINKS, "raw"}),
		TIER_ENFORCED);

	cr_expect_str_eq(spec.name, "my-name");
	cr_expect_not(spec.git_guard);
	cr_expect_eq(spec.git_config, GIT_CONFIG_DENY);
	cr_expect_eq(spec.hardlinks, HARDLINKS_DENY);
	cr_expect_eq(spec.symlinks, SYMLINKS_RAW);
	cr_expect_eq(count_rules(&spec), spec.rules.n);
	cr_expect_eq(spec.report_uid, geteuid() == 0 ? (uid_t)-1 : geteuid());
	session_spec_release(&spec);
}

Test(plan, names)
{
	char name[301];

	memset(name, 'a', 300);
	name[300] = '\0';
	refuse(WORDS({'n', name}), -EINVAL, "aaa");
	refuse(WORDS({'n', "a/b"}), -EINVAL, "a/b");
	refuse(WORDS({'n', ""}), -EINVAL, "name");
	sh("git -C main worktree add -q '../odd name' -b odd");
	enter("odd name");
	accept(NO_WORDS);
}

/*
 * The repository's own config.
 */

Test(plan, standing_rules)
{
	struct session_spec spec;

	sh("cd main; git config --add worktreefs.rw build;"
	   "git config --add worktreefs.rw %s/cache;"
	   "git config --add worktreefs.ro wt/src;"
	   "git config --add worktreefs.none keys",
	   base);
	spec = plan(NO_WORDS, TIER_ENFORCED);
	expect_rule(&spec, "main/build", ACCESS_RW, ORIGIN_GIT_CONFIG,
		    CACHING_TREE);
	expect_rule(&spec, "cache", ACCESS_RW, ORIGIN_GIT_CONFIG, CACHING_TREE);
	expect_rule(&spec, "main/wt/src", ACCESS_RO, ORIGIN_GIT_CONFIG,
		    CACHING_TREE);
	expect_rule(&spec, "main/keys", ACCESS_NONE, ORIGIN_GIT_CONFIG,
		    CACHING_TREE);
	session_spec_release(&spec);

	/* The command line wins; standing rules stay relative to M. */
	spec = plan(WORDS({PLAN_OPT_ROOT, "@/"}, {PLAN_OPT_WORKTREE, "@/sib"},
			  {PLAN_OPT_RO, "main/build"}),
		    TIER_ENFORCED);
	expect_rule(&spec, "main/build", ACCESS_RW, ORIGIN_GIT_CONFIG,
		    CACHING_TREE);
	expect_rule(&spec, "main/build", ACCESS_RO, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	session_spec_release(&spec);

	sh("git -C main config --add worktreefs.none build");
	refuse(NO_WORDS, -EINVAL, "main/build");
}

Test(plan, nobody_elses_config_counts)
{
	struct session_spec spec;

	sh("git config --global worktreefs.rw src;"
	   "git config --global worktreefs.shared docs;"
	   "git config -f extra worktreefs.rw src;"
	   "git -C main config include.path '%s/extra'",
	   base);
	setenv("GIT_CONFIG_COUNT", "1", 1);
	setenv("GIT_CONFIG_KEY_0", "worktreefs.rw", 1);
	setenv("GIT_CONFIG_VALUE_0", ".", 1);
	spec = plan(NO_WORDS, TIER_ENFORCED);
	cr_expect_eq(count_rules(&spec), 7);
	session_spec_release(&spec);
}

Test(plan, shared_directories)
{
	struct session_spec spec;

	spec = plan(WORDS({PLAN_OPT_SHARED, "plans/now"}), TIER_ENFORCED);
	expect_rule(&spec, "main/plans/now", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_NONE);
	expect_rule(&spec, "main/.vinta-ai-workflows", ACCESS_RW,
		    ORIGIN_DEFAULT, CACHING_NONE);
	session_spec_release(&spec);

	sh("git -C main config worktreefs.shared notes");
	spec = plan(WORDS({PLAN_OPT_SHARED, "plans"}), TIER_ENFORCED);
	expect_rule(&spec, "main/notes", ACCESS_RW, ORIGIN_GIT_CONFIG,
		    CACHING_NONE);
	expect_rule(&spec, "main/plans", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_NONE);
	cr_expect_null(
		find_rule(&spec, "main/.vinta-ai-workflows", ORIGIN_DEFAULT));
	session_spec_release(&spec);
}

Test(plan, shared_names_that_would_open_too_much)
{
	static const char *const names[] = {
		"/abs", ".", "a/../..", "..", ".git", "./.git/", "src/..",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		refuse(WORDS({PLAN_OPT_SHARED, names[i]}), -EINVAL, names[i]);
	sh("cd main; ln -s . self; ln -s .git git; ln -s ../main/src ok");
	refuse(WORDS({PLAN_OPT_SHARED, "self"}), -EINVAL, "self");
	refuse(WORDS({PLAN_OPT_SHARED, "git"}), -EINVAL, "git");
	/* A link that no session can change leads where it leads. */
	accept(WORDS({PLAN_OPT_SHARED, "ok"}));
	sh("git -C main config worktreefs.shared ..");
	refuse(NO_WORDS, -EINVAL, "'..'");
}

Test(plan, symlinks_that_sessions_can_change)
{
	struct session_spec spec;

	sh("mkdir main/.vinta-ai-workflows; cd main/.vinta-ai-workflows;"
	   "ln -s ../src cache; ln -s ../wt/src inside; ln -s /nowhere out;"
	   "ln -s %s/main/src ../wt/link",
	   base);
	/* An earlier session could have put it there. */
	refuse(WORDS({PLAN_OPT_RW, ".vinta-ai-workflows/cache"}), -EINVAL,
	       "symlink");
	refuse(WORDS({PLAN_OPT_RW, ".vinta-ai-workflows/cache/deep"}), -EINVAL,
	       "symlink");
	refuse(WORDS({PLAN_OPT_RW, "wt/link"}), -EINVAL, "wt/link");
	refuse(WORDS({PLAN_OPT_SHARED, ".vinta-ai-workflows/cache"}), -EINVAL,
	       "symlink");
	sh("git -C main config worktreefs.rw .vinta-ai-workflows/cache");
	refuse(NO_WORDS, -EINVAL, "symlink");
	sh("git -C main config --unset worktreefs.rw");
	/* What gains nothing, or narrows, is fine. */
	spec = plan(WORDS({PLAN_OPT_RW, ".vinta-ai-workflows/inside"},
			  {PLAN_OPT_RW, ".vinta-ai-workflows/out"},
			  {PLAN_OPT_NONE, "wt/link"}),
		    TIER_ENFORCED);
	expect_rule(&spec, "main/src", ACCESS_NONE, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	expect_rule(&spec, "main/wt/src", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	session_spec_release(&spec);
}

Test(plan, symlinks_elsewhere)
{
	struct session_spec spec;

	sh("ln -s main link; mkdir main/real; ln -s real main/in");
	enter("link/wt");
	spec = plan(WORDS({PLAN_OPT_RW, "@/link/src"}, {PLAN_OPT_RW, "in/x"}),
		    TIER_ENFORCED);
	expect_path(spec.main, "main");
	expect_rule(&spec, "main/src", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	expect_rule(&spec, "main/real/x", ACCESS_RW, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	session_spec_release(&spec);
}

/*
 * What is native.
 */

static void expect_native(const struct word *words, bool native)
{
	struct session_spec spec = plan(words, TIER_ENFORCED);
	autofree char *worktree = at("main/wt");

	cr_expect_eq(strings_contain(&spec.native, worktree), native);
	cr_expect_eq(strings_contain(&view_of(&spec, "main")->pinned, "wt"),
		     native);
	session_spec_release(&spec);
}

Test(plan, a_worktree_that_mounts_can_hold_is_native)
{
	expect_native(NO_WORDS, true);
	expect_native(WORDS({PLAN_OPT_RO, "wt/src"}), true);
	expect_native(WORDS({PLAN_OPT_RW, "wt/new"}), true);
	expect_native(WORDS({PLAN_OPT_NATIVE, "auto"}), true);
	expect_native(WORDS({PLAN_OPT_GIT_GUARD, "off"}), true);

	expect_native(WORDS({PLAN_OPT_RO, "wt/new"}), false);
	expect_native(WORDS({PLAN_OPT_NONE, "wt/src"}), false);
	expect_native(WORDS({PLAN_OPT_RO, "wt/src"}, {PLAN_OPT_RW, "wt/src/x"}),
		      false);
	expect_native(WORDS({PLAN_OPT_RO, "wt"}), false);
	expect_native(WORDS({PLAN_OPT_HARDLINKS, "break"}), false);
	expect_native(WORDS({PLAN_OPT_NATIVE, "none"}), false);
	/* Never bind through it. */
	sh("mv main/wt/.git dotgit; ln -s ../.git/worktrees/wt main/wt/.git");
	expect_native(NO_WORDS, false);
}

/* What is judged change by change no mount can hold. */
Test(plan, judged_names)
{
	struct session_spec spec = plan(NO_WORDS, TIER_ENFORCED), judged;
	struct layout layout = {.native_worktree = true};
	autofree char *worktree = at("main/wt"), *path = at("main/wt/x");
	char reason[] = "a test";

	session_spec_init(&judged);
	judged.tier = TIER_ENFORCED;
	judged.main = strdup(spec.main);
	judged.worktree = strdup(worktree);
	cr_assert_eq(rules_copy(&spec.rules, &judged.rules), 0);
	cr_assert_eq(
		rules_add(&judged.rules, &(struct rule){.path = path,
							.access = ACCESS_RW,
							.judge = JUDGE_CONFIG,
							.reason = reason}),
		0);
	cr_assert_eq(layout_session(&layout, &judged, NULL), 0);
	cr_expect_not(strings_contain(&judged.native, worktree));
	session_spec_release(&judged);
	session_spec_release(&spec);
}

Test(plan, other_trees_that_are_native)
{
	struct session_spec spec;

	sh("mkdir main/big main/wt/deep; ln -s big main/link");
	spec = plan(
		WORDS({PLAN_OPT_NATIVE, "link"}, {PLAN_OPT_NATIVE, "wt/deep"}),
		TIER_ENFORCED);
	expect_list(&spec.native, base, "main/wt", "main/big", "sib", NULL);
	expect_list(&view_of(&spec, "main")->pinned, NULL, "wt", "wt/.git",
		    "big", NULL);
	session_spec_release(&spec);
	spec = plan(WORDS({PLAN_OPT_NATIVE, "none"}, {PLAN_OPT_NATIVE, "big"},
			  {PLAN_OPT_RO, "big/../big"}),
		    TIER_ENFORCED);
	expect_list(&spec.native, base, "main/big", "sib", NULL);
	session_spec_release(&spec);

	refuse(WORDS({PLAN_OPT_NATIVE, "."}), -EINVAL, "root");
	refuse(WORDS({PLAN_OPT_NATIVE, "nothing"}), -EINVAL, "nothing");
	refuse(WORDS({PLAN_OPT_NATIVE, "big"}, {PLAN_OPT_NONE, "big"}), -EINVAL,
	       "none");
	refuse(WORDS({PLAN_OPT_NATIVE, "big"}, {PLAN_OPT_RW, "big/x"}), -EINVAL,
	       "big/x");
	refuse(WORDS({PLAN_OPT_NATIVE, "big"}, {PLAN_OPT_RW, "big"},
		     {PLAN_OPT_HARDLINKS, "break"}),
	       -EINVAL, "--hardlinks");
}

Test(plan, native_is_for_run_only)
{
	autofree char *message = NULL;
	struct session_spec spec;

	cr_expect_eq(try_plan(WORDS({PLAN_OPT_NATIVE, "auto"}), TIER_VIEW,
			      &spec, &message),
		     -EINVAL);
	cr_expect(strstr(message, "--native"), "%s", message);
}

/*
 * Trees outside of the main checkout.
 */

Test(plan, restricted_trees_elsewhere)
{
	struct session_spec spec;

	sh("mkdir -p plain mixed/open hidden; echo >file");
	spec = plan(WORDS({PLAN_OPT_RO, "@/plain"}, {PLAN_OPT_RO, "@/mixed"},
			  {PLAN_OPT_RW, "@/mixed/open"},
			  {PLAN_OPT_NONE, "@/hidden"},
			  {PLAN_OPT_NONE, "@/hidden/more"},
			  {PLAN_OPT_RO, "@/file"}, {PLAN_OPT_RW, "@/free"}),
		    TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 3);
	expect_path(spec.views[0].root, "main");
	view_of(&spec, "mixed");
	view_of(&spec, "hidden");
	expect_list(&spec.native, base, "main/wt", "plain", "file", "sib",
		    NULL);
	expect_policies(&spec);
	session_spec_release(&spec);

	spec = plan(WORDS({PLAN_OPT_RO, "@/plain"}), TIER_VIEW);
	cr_expect_eq(spec.n_views, 2);
	view_of(&spec, "plain");
	session_spec_release(&spec);

	refuse(WORDS({PLAN_OPT_RO, "@/none"}), -EINVAL, "none");
	refuse(WORDS({PLAN_OPT_NONE, "@/none"}), -EINVAL, "none");
	refuse(WORDS({PLAN_OPT_NONE, "@/file"}), -EINVAL, "file");
	refuse(WORDS({PLAN_OPT_RO, "/"}), -EINVAL, "'/'");
}

Test(plan, the_topmost_restricted_tree_is_the_view)
{
	struct session_spec spec =
		plan(WORDS({PLAN_OPT_RO, "@/."}, {PLAN_OPT_NONE, "@/hidden"}),
		     TIER_ENFORCED);

	cr_expect_eq(spec.n_views, 1);
	cr_expect_str_eq(spec.views[0].root, base);
	expect_list(&spec.native, base, "main/wt", NULL);
	expect_list(&spec.views[0].pinned, NULL, "main/wt", "main/wt/.git",
		    NULL);
	session_spec_release(&spec);
}

Test(plan, siblings)
{
	struct session_spec spec;

	/* Gone; nested in W; around W. */
	sh("rm -rf sib; cd main; git worktree add -q wt/inner -b inner;"
	   "git worktree add -q ../around -b around;"
	   "git worktree add -q ../around/mine -b mine");
	spec = plan(NO_WORDS, TIER_ENFORCED);
	cr_expect_null(find_rule(&spec, "sib", ORIGIN_DEFAULT));
	expect_rule(&spec, "main/wt/inner", ACCESS_RO, ORIGIN_DEFAULT,
		    CACHING_TREE);
	expect_list(&view_of(&spec, "main")->pinned, NULL, "wt", "wt/.git",
		    "wt/inner", NULL);
	cr_expect_eq(spec.n_views, 2, "around has a rule below it");
	session_spec_release(&spec);

	enter("around/mine");
	spec = plan(NO_WORDS, TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 2);
	expect_list(&view_of(&spec, "around")->pinned, NULL, "mine",
		    "mine/.git", NULL);
	expect_list(&spec.native, base, "around/mine", NULL);
	session_spec_release(&spec);
}

Test(plan, a_worktree_elsewhere_with_rules_in_it)
{
	struct session_spec spec;

	enter("sib");
	spec = plan(WORDS({PLAN_OPT_NONE, "@/sib/src"}), TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 2);
	expect_path(spec.views[1].root, "sib");
	cr_expect_eq(spec.native.n, 0);
	session_spec_release(&spec);
	spec = plan(WORDS({PLAN_OPT_RO, "@/sib/src"}), TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 1);
	expect_list(&spec.native, base, "sib", NULL);
	session_spec_release(&spec);
}

/*
 * Git directories elsewhere, and other roots.
 */

Test(plan, a_bare_repository)
{
	struct session_spec spec;

	sh("git clone -q --bare main bare.git;"
	   "git -C bare.git worktree add -q ../mine -b mine;"
	   "git -C bare.git worktree add -q ../other -b theirs");
	enter("mine");
	spec = plan(NO_WORDS, TIER_ENFORCED);
	expect_path(spec.main, NULL);
	expect_path(spec.git_dir, "bare.git");
	cr_expect_eq(spec.n_views, 1);
	expect_path(spec.views[0].root, "bare.git");
	expect_list(&spec.native, base, "mine", "other", NULL);
	cr_expect_eq(spec.views[0].pinned.n, 0);
	session_spec_release(&spec);

	spec = plan(NO_WORDS, TIER_VIEW);
	cr_expect_eq(spec.n_views, 2);
	session_spec_release(&spec);

	/* Then only the worktree is left to have a view of. */
	spec = plan(WORDS({PLAN_OPT_GIT_GUARD, "off"}), TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 1);
	expect_path(spec.views[0].root, "mine");
	session_spec_release(&spec);

	refuse(WORDS({PLAN_OPT_RO, "relative"}), -EINVAL, "relative");
	refuse(WORDS({PLAN_OPT_SHARED, "x"}), -EINVAL, "'x'");
	enter("");
	spec = plan(WORDS({PLAN_OPT_MAIN, "bare.git"},
			  {PLAN_OPT_WORKTREES_DIR, "trees"}),
		    TIER_ENFORCED);
	cr_expect_str_eq(spec.name, "bare.git");
	cr_expect_eq(spec.n_views, 1, "mine and other are read-only");
	session_spec_release(&spec);
}

Test(plan, a_separate_git_dir)
{
	struct session_spec spec;

	sh("git init -q -b main --separate-git-dir=%s/gd sep; cd sep;"
	   "git commit -q --allow-empty -m x; git worktree add -q wt",
	   base);
	enter("sep");
	spec = plan(WORDS({PLAN_OPT_WORKTREE, "@/sep/wt"},
			  {PLAN_OPT_MAIN, "@/sep"}),
		    TIER_ENFORCED);
	expect_path(spec.main, "sep");
	expect_path(spec.git_dir, "gd");
	cr_expect_eq(spec.n_views, 2);
	expect_path(spec.views[0].root, "sep");
	expect_path(spec.views[1].root, "gd");
	session_spec_release(&spec);
	spec = plan(WORDS({PLAN_OPT_WORKTREE, "@/sep/wt"},
			  {PLAN_OPT_MAIN, "@/sep"},
			  {PLAN_OPT_GIT_GUARD, "off"}),
		    TIER_ENFORCED);
	cr_expect_eq(spec.n_views, 1, "nothing in it is restricted");
	session_spec_release(&spec);
}

Test(plan, any_root)
{
	struct session_spec spec;

	sh("mkdir -p 'any tree/a' 'any tree/b'");
	enter("any tree");
	spec = plan(WORDS({PLAN_OPT_ROOT, "."}, {PLAN_OPT_NONE, "b"},
			  {PLAN_OPT_RO, "later"}),
		    TIER_ENFORCED);
	cr_expect_str_eq(spec.name, "any-tree");
	expect_path(spec.main, NULL);
	expect_path(spec.git_dir, NULL);
	expect_path(spec.worktree, NULL);
	cr_expect_not(spec.git_guard);
	cr_expect_eq(spec.rules.n, 3);
	expect_rule(&spec, "any tree", ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE);
	expect_rule(&spec, "any tree/later", ACCESS_RO, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	cr_expect_eq(spec.n_views, 1);
	cr_expect_eq(spec.native.n, 0);
	session_spec_release(&spec);

	sh("echo >file");
	refuse(WORDS({PLAN_OPT_ROOT, "@/file"}), -EINVAL, "file");
	refuse(WORDS({PLAN_OPT_ROOT, "@/none"}), -EINVAL, "none");
	refuse(WORDS({PLAN_OPT_ROOT, "/"}), -EINVAL, "'/'");
}

Test(plan, a_root_around_a_bare_repository)
{
	struct session_spec spec;

	sh("mkdir ws; git clone -q --bare main ws/bare.git;"
	   "git -C ws/bare.git worktree add -q ../mine -b mine;"
	   "git -C ws/bare.git worktree add -q ../other -b theirs");
	enter("");
	spec = plan(WORDS({PLAN_OPT_ROOT, "ws"}, {PLAN_OPT_WORKTREE, "ws/mine"},
			  {PLAN_OPT_NONE, "other"}),
		    TIER_ENFORCED);
	cr_expect_str_eq(spec.name, "mine");
	cr_expect_eq(spec.n_views, 1);
	expect_path(spec.views[0].root, "ws");
	expect_rule(&spec, "ws", ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE);
	expect_rule(&spec, "ws/other", ACCESS_NONE, ORIGIN_COMMAND_LINE,
		    CACHING_TREE);
	expect_rule(&spec, "ws/bare.git/worktrees/mine/gitdir", ACCESS_RO,
		    ORIGIN_GIT_GUARD, CACHING_NONE);
	expect_list(&spec.native, base, "ws/mine", NULL);
	session_spec_release(&spec);
}

Test(plan, a_root_that_is_the_main_checkout)
{
	struct session_spec spec =
		plan(WORDS({PLAN_OPT_ROOT, "@/main"}, {PLAN_OPT_WORKTREE, "."}),
		     TIER_ENFORCED);

	expect_rule(&spec, "main", ACCESS_RO, ORIGIN_DEFAULT, CACHING_TREE);
	cr_expect_eq(spec.n_views, 1);
	session_spec_release(&spec);
}

Test(plan, nothing_is_made)
{
	struct session_spec spec;

	sh("find . ! -name 'log*' | sort >log.names");
	spec = plan(WORDS({PLAN_OPT_RO, "later/x"}, {PLAN_OPT_SHARED, "s"}),
		    TIER_ENFORCED);
	session_spec_release(&spec);
	sh("find . ! -name 'log*' | sort | diff log.names -");
}

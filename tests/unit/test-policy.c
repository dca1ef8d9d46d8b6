/*
 * The policy's verdicts. Rules are written as text, one a line:
 *
 *   ACCESS ORIGIN PATH
 *
 * with the origins d (default), g (git guard), c (git config), o (command
 * line, o for option) and l (live). An ORIGIN with a * after it makes PATH a
 * pattern, and one with a ! has a judge asked.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/policy.h"

static void cleanup_policyp(struct policy **policy)
{
	policy_free(*policy);
}
#define autopolicy __attribute__((cleanup(cleanup_policyp)))
#define autorules __attribute__((cleanup(rules_release)))

static enum origin origin_of(char letter)
{
	static const char letters[] = "dgcol";
	const char *at = strchr(letters, letter);

	cr_assert(letter && at, "origin '%c'", letter);
	return (enum origin)(at - letters);
}

/* Reads the rules of such a text. */
static void parse(const char *text, struct rules *ret_rules)
{
	autofree char *copy = strdup(text);
	char *rest = copy, *line;

	*ret_rules = (struct rules){0};
	while ((line = strsep(&rest, "\n"))) {
		struct rule rule = {0};
		char *word = strsep(&line, " ");

		if (!*word)
			continue;
		cr_assert_eq(access_parse(word, &rule.access), 0, "%s", word);
		word = strsep(&line, " ");
		rule.origin = origin_of(word[0]);
		rule.pattern = word[1] == '*';
		rule.judge = word[1] == '!' ? JUDGE_CONFIG : JUDGE_NONE;
		rule.path = line;
		cr_assert_eq(rules_add(ret_rules, &rule), 0);
	}
}

static int try_make(const char *root, const char *text,
		    struct policy **ret_policy, char **ret_conflict)
{
	autorules struct rules rules;

	parse(text, &rules);
	return policy_new(root, &rules, ret_policy, ret_conflict);
}

static struct policy *make(const char *root, const char *text)
{
	struct policy *policy = NULL;

	cr_assert_eq(try_make(root, text, &policy, NULL), 0, "%s", text);
	return policy;
}

static struct place at(const struct policy *policy, const char *relative)
{
	return policy_walk(policy_root(policy), relative);
}

static const char *access_at(const struct policy *policy, const char *relative)
{
	return access_name(place_access(at(policy, relative)));
}

/* op on the name at the end of relative, in the directory before it. */
static int check_name(const struct policy *policy, const char *relative,
		      enum policy_op op)
{
	const char *slash = strrchr(relative, '/');
	autofree char *dir = strndup(
		relative, slash ? (size_t)(slash - relative) : (size_t)0);
	struct place parent = at(policy, dir);

	return policy_check_name(
		parent, policy_step(parent, slash ? slash + 1 : relative), op);
}

/* A path and a word: an access, or what a verdict is. */
struct expectation {
	const char *path;
	const char *access;
};

static void expect_accesses(const struct policy *policy,
			    const struct expectation *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_expect_str_eq(
			access_at(policy, cases[i].path), cases[i].access,
			"'%s' is %s, not %s", cases[i].path,
			access_at(policy, cases[i].path), cases[i].access);
}

Test(policy, words)
{
	static const enum access accesses[] = {ACCESS_NONE, ACCESS_RO,
					       ACCESS_RW};
	static const enum caching cachings[] = {CACHING_TREE, CACHING_NONE,
						CACHING_OBJECTS};
	enum access access = ACCESS_RW;
	enum origin origin = ORIGIN_LIVE;
	enum caching caching = CACHING_OBJECTS;
	enum judge judge = JUDGE_NONE;

	for (size_t i = 0; i < ARRAY_SIZE(accesses); i++) {
		cr_expect_eq(access_parse(access_name(accesses[i]), &access),
			     0);
		cr_expect_eq(access, accesses[i]);
	}
	for (int i = ORIGIN_DEFAULT; i <= ORIGIN_LIVE; i++) {
		cr_expect_eq(origin_parse(origin_name((enum origin)i), &origin),
			     0);
		cr_expect_eq(origin, (enum origin)i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cachings); i++) {
		cr_expect_eq(caching_parse(caching_name(cachings[i]), &caching),
			     0);
		cr_expect_eq(caching, cachings[i]);
	}
	for (int i = JUDGE_NONE; i <= JUDGE_ADMIN; i++) {
		cr_expect_eq(judge_parse(judge_name((enum judge)i), &judge), 0);
		cr_expect_eq(judge, (enum judge)i);
	}
	for (int op = OP_STAT; op <= OP_LINK_SOURCE; op++)
		cr_expect_str_neq(policy_op_name((enum policy_op)op), "?");

	access = ACCESS_RO;
	origin = ORIGIN_GIT_CONFIG;
	caching = CACHING_NONE;
	cr_expect_eq(access_parse("RO", &access), -EINVAL);
	cr_expect_eq(access_parse("", &access), -EINVAL);
	cr_expect_eq(origin_parse("command", &origin), -EINVAL);
	cr_expect_eq(caching_parse("objects ", &caching), -EINVAL);
	cr_expect_eq(judge_parse("jury", &judge), -EINVAL);
	cr_expect_eq(access, ACCESS_RO);
	cr_expect_eq(origin, ORIGIN_GIT_CONFIG);
	cr_expect_eq(caching, CACHING_NONE);
}

Test(policy, rules_are_copied)
{
	autorules struct rules rules = {0}, copy = {0};
	char path[] = "/r/a";
	const struct rule rule = {.path = path, .access = ACCESS_RO};

	cr_assert_eq(rules_add(&rules, &rule), 0);
	path[1] = 'x';
	cr_expect_str_eq(rules.rule[0].path, "/r/a");
	cr_expect_str_eq(rules.rule[0].reason, "");
	cr_assert_eq(rules_copy(&rules, &copy), 0);
	rules.rule[0].path[1] = 'x';
	cr_expect_eq(copy.n, 1);
	cr_expect_str_eq(copy.rule[0].path, "/r/a");
	rules_release(&rules);
	cr_expect_eq(rules.n, 0);
	cr_expect_null(rules.rule);
}

Test(policy, no_rules)
{
	autopolicy struct policy *policy = make("/r", "");

	cr_expect_str_eq(access_at(policy, ""), "rw");
	cr_expect_str_eq(access_at(policy, "a/b"), "rw");
	cr_expect_not(policy_has_access(policy, ACCESS_NONE));
	cr_expect_not_null(place_rule(policy_root(policy))->reason);
}

Test(policy, deepest_rule_wins)
{
	autopolicy struct policy *policy =
		make("/r", "ro d /r\n"
			   "rw d /r/w\n"
			   "ro d /r/w/.git\n"
			   "none o /r/secret\n"
			   "rw o /r/secret/a/open\n"
			   "none o /r/secret/a/open/x\n"
			   "rw d /r/.git");
	static const struct expectation cases[] = {
		{"", "ro"},
		{"a", "ro"},
		{"a/w", "ro"},
		{"w", "rw"},
		{"w/a/b/c", "rw"},
		{"w/.git", "ro"},
		{"w/.git/x", "ro"},
		{"w/a/.git", "rw"},
		{"secret", "none"},
		{"secret/a", "none"},
		{"secret/b/open", "none"},
		{"secret/a/open", "rw"},
		{"secret/a/open/y/x", "rw"},
		{"secret/a/open/x", "none"},
		{"secret/a/open/x/y", "none"},
		{".git", "rw"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
	cr_expect_str_eq(place_rule(at(policy, "w/a"))->path, "/r/w");
	cr_expect_str_eq(place_rule(at(policy, "b"))->path, "/r");
	cr_expect(policy_has_access(policy, ACCESS_NONE));
}

/* The order in which rules are given must not matter. */
Test(policy, order_is_nothing)
{
	static const char *const texts[] = {
		"ro d /r\nrw o /r/a\nro o /r/a/b\nnone l /r/a/b/c",
		"none l /r/a/b/c\nro o /r/a/b\nrw o /r/a\nro d /r",
		"ro o /r/a/b\nro d /r\nnone l /r/a/b/c\nrw o /r/a",
	};
	static const struct expectation cases[] = {
		{"", "ro"},    {"a", "rw"},	  {"a/x", "rw"},
		{"a/b", "ro"}, {"a/b/c", "none"}, {"a/b/d", "ro"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		autopolicy struct policy *policy = make("/r", texts[i]);

		expect_accesses(policy, cases, ARRAY_SIZE(cases));
	}
}

Test(policy, prefixes_are_whole_components)
{
	autopolicy struct policy *policy =
		make("/r", "ro d /r\nrw d /r/work\nnone d /r/a/b");
	static const struct expectation cases[] = {
		{"wor", "ro"},	   {"worktree", "ro"},	{"work.orig", "ro"},
		{"work", "rw"},	   {"work/tree", "rw"}, {"a/bc", "ro"},
		{"a/b/c", "none"}, {"a.b", "ro"},	{"WORK", "ro"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

/* Many names in one directory are found by a search of sorted ones. */
Test(policy, many_names)
{
	autorules struct rules rules = {0};
	autopolicy struct policy *policy = NULL;
	char path[32];
	struct rule rule = {.path = path, .access = ACCESS_NONE};

	for (int i = 0; i < 400; i++) {
		snprintf(path, sizeof(path), "/r/%d", (i * 7919) % 400 * 2);
		cr_assert_eq(rules_add(&rules, &rule), 0);
	}
	cr_assert_eq(policy_new("/r", &rules, &policy, NULL), 0);
	for (int i = 0; i < 800; i++) {
		snprintf(path, sizeof(path), "%d", i);
		cr_expect_str_eq(access_at(policy, path), i % 2 ? "rw" : "none",
				 "%s", path);
	}
}

Test(policy, origins)
{
	static const char *const origins = "dgcol";

	for (size_t weak = 0; weak < strlen(origins); weak++) {
		for (size_t strong = weak + 1; strong < strlen(origins);
		     strong++) {
			char text[64];

			snprintf(text, sizeof(text), "ro %c /r/a\nrw %c /r/a",
				 origins[weak], origins[strong]);
			{
				autopolicy struct policy *p = make("/r", text);

				cr_expect_str_eq(access_at(p, "a"), "rw", "%s",
						 text);
			}
			snprintf(text, sizeof(text), "rw %c /r/a\nro %c /r/a",
				 origins[strong], origins[weak]);
			{
				autopolicy struct policy *p = make("/r", text);

				cr_expect_str_eq(access_at(p, "a"), "rw", "%s",
						 text);
			}
		}
	}
}

/* A deeper rule of a weak origin still beats a strong one above it. */
Test(policy, depth_before_origin)
{
	autopolicy struct policy *policy = make("/r", "none l /r/a\n"
						      "rw d /r/a/b");

	cr_expect_str_eq(access_at(policy, "a/c"), "none");
	cr_expect_str_eq(access_at(policy, "a/b"), "rw");
}

Test(policy, conflicts)
{
	static const struct {
		const char *rules;
		const char *conflict; /* NULL: none */
	} cases[] = {
		{"ro o /r/a\nrw o /r/a", "/r/a"},
		{"rw d /r/a\nnone d /r/a", "/r/a"},
		{"ro o /r\nrw o /r", "/r"},
		{"ro o /\nrw o /", "/"},
		{"ro o /r/a\nro o /r/a", NULL},
		{"ro o /r/a\nrw l /r/a", NULL},
		{"ro o /r/a\nrw o /r/b", NULL},
		/* An error also where a stronger origin decides. */
		{"ro o /r/a\nrw o /r/a\nro l /r/a", "/r/a"},
		{"ro o /r/a\nro l /r/a\nrw o /r/a", "/r/a"},
		{"ro l /r/a\nro o /r/a\nrw o /r/a", "/r/a"},
		{"ro l /r\nro o /r\nrw o /r", "/r"},
		{"ro o* /r/a*\nrw o* /r/a*", "/r/a*"},
		{"ro o* /r/a*\nrw o* /r/a?", NULL},
		/* Without a wildcard a pattern is a name like another. */
		{"ro o* /r/a\nrw o /r/a", "/r/a"},
		/* The same text, once a pattern and once a name. */
		{"ro o* /r/a*\nrw o /r/a*", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autopolicy struct policy *policy = NULL;
		autofree char *conflict = NULL;
		int r = try_make("/r", cases[i].rules, &policy, &conflict);

		cr_expect_eq(r, cases[i].conflict ? -EEXIST : 0, "%s: %d",
			     cases[i].rules, r);
		if (cases[i].conflict) {
			cr_expect_null(policy);
			cr_expect_str_eq(conflict, cases[i].conflict, "%s",
					 cases[i].rules);
			cr_expect_eq(
				try_make("/r", cases[i].rules, &policy, NULL),
				-EEXIST);
		} else {
			cr_expect_null(conflict);
		}
	}
}

Test(policy, rules_at_and_above_the_root)
{
	static const struct {
		const char *rules, *root, *below;
	} cases[] = {
		{"ro d /", "ro", "ro"},
		{"ro d /a/r", "ro", "ro"},
		{"none d /a", "none", "none"},
		{"none d /a\nro d /a/r", "ro", "ro"},
		{"ro d /a/r\nnone l /a", "ro", "ro"},
		{"ro d /a\nrw o /a", "rw", "rw"},
		{"rw o /a\nro d /a", "rw", "rw"},
		{"ro d /a/x\nnone d /b\nnone d /a/rr", "rw", "rw"},
		{"ro d /a/r/x\nnone d /a", "none", "ro"},
		{"ro d* /a/*\nnone d* /*/r", "rw", "rw"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autopolicy struct policy *policy = make("/a/r", cases[i].rules);

		cr_expect_str_eq(access_at(policy, ""), cases[i].root, "%s",
				 cases[i].rules);
		cr_expect_str_eq(access_at(policy, "x/y"), cases[i].below, "%s",
				 cases[i].rules);
	}
}

Test(policy, root_directory_as_root)
{
	autopolicy struct policy *policy = make("/", "ro d /\nrw d /tmp");

	cr_expect_str_eq(access_at(policy, "etc"), "ro");
	cr_expect_str_eq(access_at(policy, "tmp/x"), "rw");
}

Test(policy, unclean_paths)
{
	static const char *const texts[] = {
		"ro d r",	"ro d /r/",  "ro d /r//a",
		"ro d /r/../a", "ro d /r/.", "ro d ",
	};
	autopolicy struct policy *policy = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cr_expect_eq(try_make("/r", texts[i], &policy, NULL), -EINVAL,
			     "%s", texts[i]);
	cr_expect_eq(try_make("r", "", &policy, NULL), -EINVAL);
	cr_expect_eq(try_make("/r/", "", &policy, NULL), -EINVAL);
	cr_expect_null(policy);
}

Test(policy, patterns)
{
	autopolicy struct policy *policy =
		make("/r", "rw d /r\n"
			   "ro g* /r/worktrees/*/config.worktree\n"
			   "ro g* /r/info/refs*\n"
			   "ro g* /r/MERGE_*\n"
			   "ro g* /r/sharedindex.*\n"
			   "ro g* /r/x[0-9]?");
	static const struct expectation cases[] = {
		{"worktrees", "rw"},
		{"worktrees/a", "rw"},
		{"worktrees/a/config.worktree", "ro"},
		{"worktrees/.a/config.worktree", "ro"},
		{"worktrees/a/config.worktree/x", "ro"},
		{"worktrees/a/config", "rw"},
		{"worktrees/a/b/config.worktree", "rw"},
		{"worktrees/config.worktree", "rw"},
		{"config.worktree", "rw"},
		{"info", "rw"},
		{"info/refs", "ro"},
		{"info/refs_abc", "ro"},
		{"info/ref", "rw"},
		{"MERGE_HEAD", "ro"},
		{"MERGE_", "ro"},
		{"MERGE_MSG/x", "ro"},
		{"MERGE", "rw"},
		{"merge_head", "rw"},
		{"a/MERGE_HEAD", "rw"},
		{"sharedindex.0123", "ro"},
		{"sharedindex", "rw"},
		{"x1y", "ro"},
		{"x1", "rw"},
		{"xay", "rw"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

/*
 * A pattern may be given for a path with wildcards in it, escaped; and it
 * counts in a root that it matches.
 */
Test(policy, patterns_and_the_root)
{
	static const char rules[] = "rw d /r/[x]/y\nro g /r/[x]/y/hooks\n"
				    "ro g* /r/\\[x\\]/y/MERGE_*\n"
				    "ro g* /*/a/b\n";
	autopolicy struct policy *above = make("/", rules);
	autopolicy struct policy *at_it = make("/r/[x]/y", rules);
	autopolicy struct policy *elsewhere = make("/r/x/y", rules);
	autopolicy struct policy *matched = make("/q/a", rules);

	cr_expect_str_eq(access_at(above, "r/[x]/y/MERGE_HEAD"), "ro");
	cr_expect_str_eq(access_at(above, "r/[x]/y/hooks"), "ro");
	cr_expect_str_eq(access_at(above, "r/x/y/MERGE_HEAD"), "rw");
	cr_expect_str_eq(access_at(at_it, "MERGE_HEAD"), "ro");
	cr_expect_str_eq(access_at(at_it, "hooks"), "ro");
	cr_expect_str_eq(access_at(elsewhere, "MERGE_HEAD"), "rw");
	cr_expect_str_eq(access_at(matched, "b"), "ro");
}

/* Without the mark a wildcard is a character like another. */
Test(policy, names_with_wildcards)
{
	autopolicy struct policy *policy =
		make("/r", "ro d /r/a*\nnone d /r/[x]\nro d /r/b\\*");
	static const struct expectation cases[] = {
		{"a*", "ro"}, {"ab", "rw"},    {"a", "rw"},
		{"x", "rw"},  {"[x]", "none"}, {"b\\*", "ro"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

/* The exact name decides for itself and keeps what a pattern says below. */
Test(policy, exact_beats_pattern)
{
	autopolicy struct policy *policy =
		make("/r", "rw d /r\n"
			   "ro l* /r/worktrees/*\n"
			   "ro g* /r/worktrees/*/config.worktree\n"
			   "none g* /r/worktrees/*/deep/*/x\n"
			   "rw d /r/worktrees/mine\n"
			   "ro d /r/worktrees/mine/gitdir\n"
			   "rw d /r/worktrees/half/deep");
	static const struct expectation cases[] = {
		{"worktrees/other", "ro"},
		{"worktrees/other/a", "ro"},
		{"worktrees/other/deep/b/x", "none"},
		{"worktrees/mine", "rw"},
		{"worktrees/mine/a", "rw"},
		{"worktrees/mine/gitdir", "ro"},
		{"worktrees/mine/config.worktree", "ro"},
		{"worktrees/mine/deep", "rw"},
		{"worktrees/mine/deep/b/x", "none"},
		/* Only leads to a rule: what the pattern says holds for it. */
		{"worktrees/half", "ro"},
		{"worktrees/half/a", "ro"},
		{"worktrees/half/config.worktree", "ro"},
		{"worktrees/half/deep", "rw"},
		{"worktrees/half/deep/b", "rw"},
		{"worktrees/half/deep/b/x", "none"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

/* Of two patterns the narrower decides. */
Test(policy, patterns_by_length)
{
	autopolicy struct policy *policy = make("/r", "ro g* /r/*\n"
						      "rw g* /r/ab*\n"
						      "none g* /r/a*\n"
						      "rw g* /r/*.x");
	static const struct expectation cases[] = {
		{"x", "ro"},
		{"a", "none"},
		{"ac", "none"},
		{"abc", "rw"},
		{"x.x", "rw"},
		/* Neither covers the other: the longer beginning counts. */
		{"a.x", "none"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

/* What several patterns say below a name holds together. */
Test(policy, patterns_add_up)
{
	autopolicy struct policy *policy = make("/r", "rw d /r\n"
						      "ro g* /r/*/a\n"
						      "ro g* /r/w*/b\n"
						      "ro g* /r/*x/c\n"
						      "none g* /r/w*x/d\n"
						      "ro g /r/wyx/e");
	static const struct expectation cases[] = {
		{"z/a", "ro"},	 {"z/b", "rw"},	   {"z/c", "rw"},
		{"w/a", "ro"},	 {"w/b", "ro"},	   {"w/c", "rw"},
		{"zx/a", "ro"},	 {"zx/b", "rw"},   {"zx/c", "ro"},
		{"zx/d", "rw"},	 {"wx/a", "ro"},   {"wx/b", "ro"},
		{"wx/c", "ro"},	 {"wx/d", "none"}, {"wyx/a", "ro"},
		{"wyx/b", "ro"}, {"wyx/c", "ro"},  {"wyx/d", "none"},
		{"wyx/e", "ro"}, {"wyx/f", "rw"},
	};

	expect_accesses(policy, cases, ARRAY_SIZE(cases));
}

Test(policy, places)
{
	autopolicy struct policy *policy = make("/r", "ro d /r\n"
						      "rw d /r/w\n"
						      "rw d /r/x/w\n"
						      "ro g* /r/i*");
	static const struct {
		const char *a, *b;
		bool equal;
	} cases[] = {
		{"", "", true},		{"a", "b", true},
		{"a", "a/b/c", true},	{"w/a", "w/b/c", true},
		{"a", "w/a", false},	{"w/a", "x/w/a", false},
		{"w", "w/a", false},	{"", "a", false},
		{"x", "a", false},	{"x/a", "a", true},
		{"i1", "i2", true}, /* one pattern, one rule */
		{"i1/a", "i2/a", true}, {"i1", "i1/a", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(place_equal(at(policy, cases[i].a),
					 at(policy, cases[i].b)),
			     cases[i].equal, "'%s' and '%s'", cases[i].a,
			     cases[i].b);
	cr_expect(at(policy, "x").on_tree);
	cr_expect_not(at(policy, "x/y").on_tree);
	cr_expect_not(at(policy, "x/y/w").on_tree);
}

Test(policy, walk)
{
	autopolicy struct policy *policy = make("/r", "ro d /r\nrw d /r/a/b");
	char name[NAME_MAX + 2];
	char path[NAME_MAX + 8];

	cr_expect(place_equal(at(policy, ""), policy_root(policy)));
	cr_expect(place_equal(at(policy, "a//b"), at(policy, "a/b")));
	cr_expect(place_equal(at(policy, "a/b/"), at(policy, "a/b")));
	cr_expect(place_equal(policy_walk(at(policy, "a"), "b/c"),
			      at(policy, "a/b/c")));
	cr_expect(
		place_equal(policy_walk(at(policy, "a"), ""), at(policy, "a")));

	/* The longest name there is, and one byte more. */
	memset(name, 'n', sizeof(name));
	name[NAME_MAX] = '\0';
	cr_expect_str_eq(access_at(policy, name), "ro");
	snprintf(path, sizeof(path), "a/b/%s", name);
	cr_expect_str_eq(access_at(policy, path), "rw");
	name[NAME_MAX] = 'n';
	name[NAME_MAX + 1] = '\0';
	snprintf(path, sizeof(path), "%s/b", name);
	cr_expect_str_eq(access_at(policy, path), "ro");
	snprintf(path, sizeof(path), "a/b/%s", name);
	cr_expect_str_eq(access_at(policy, path), "rw");
}

/* A rule may have a name of any length; it only never matches then. */
Test(policy, rule_with_an_impossible_name)
{
	char text[NAME_MAX + 32] = "none d /r/";

	memset(text + strlen(text), 'n', NAME_MAX + 1);
	{
		autopolicy struct policy *policy = make("/r", text);

		cr_expect_str_eq(access_at(policy, text + 10), "rw");
	}
}

/* Every operation on an object, by access. */
Test(policy, objects)
{
	static const struct {
		enum policy_op op;
		int ro, none;
	} cases[] = {
		{OP_STAT, 0, 0},
		{OP_READ, 0, -EACCES},
		{OP_LIST, 0, -EACCES},
		{OP_WRITE, -EROFS, -EACCES},
		{OP_SETATTR, -EROFS, -EACCES},
		{OP_SETTIMES, -EROFS, -EACCES},
		{OP_SETXATTR, -EROFS, -EACCES},
		{OP_CREATE, -EROFS, -EACCES},
		{OP_MKDIR, -EROFS, -EACCES},
		{OP_REMOVE, -EROFS, -EACCES},
		{OP_REPLACE, -EROFS, -EACCES},
		{OP_LINK_SOURCE, -EXDEV, -EACCES},
	};
	autopolicy struct policy *policy =
		make("/r", "rw d /r/rw\nro d /r/ro\nnone d /r/none");

	cr_assert_eq(ARRAY_SIZE(cases), OP_LINK_SOURCE + 1,
		     "an operation is missing here");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = policy_op_name(cases[i].op);

		cr_expect_eq(policy_check(at(policy, "rw"), cases[i].op), 0,
			     "%s", name);
		cr_expect_eq(policy_check(at(policy, "rw/a"), cases[i].op), 0,
			     "%s", name);
		cr_expect_eq(policy_check(at(policy, "ro"), cases[i].op),
			     cases[i].ro, "%s", name);
		cr_expect_eq(policy_check(at(policy, "ro/a/b"), cases[i].op),
			     cases[i].ro, "%s", name);
		cr_expect_eq(policy_check(at(policy, "none"), cases[i].op),
			     cases[i].none, "%s", name);
		cr_expect_eq(policy_check(at(policy, "none/a/b"), cases[i].op),
			     cases[i].none, "%s", name);
	}
}

/* A name that no rule has: the directory and the name answer alike. */
Test(policy, plain_names)
{
	static const enum policy_op changes[] = {OP_CREATE, OP_MKDIR, OP_REMOVE,
						 OP_REPLACE};
	autopolicy struct policy *policy =
		make("/r", "rw d /r/rw\nro d /r/ro\nnone d /r/none");

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		enum policy_op op = changes[i];

		cr_expect_eq(check_name(policy, "rw/a", op), 0);
		cr_expect_eq(check_name(policy, "rw/a/b", op), 0);
		cr_expect_eq(check_name(policy, "ro/a", op), -EROFS);
		cr_expect_eq(check_name(policy, "none/a/b", op), -EACCES);
	}
	cr_expect_eq(check_name(policy, "none/a", OP_STAT), 0);
	cr_expect_eq(check_name(policy, "none/a", OP_READ), -EACCES);
	cr_expect_eq(check_name(policy, "ro/a", OP_LINK_SOURCE), -EXDEV);
}

/*
 * A rule's own name, and a directory above one, keep their place: the
 * directory that holds the name answers, and EBUSY where that is rw.
 */
Test(policy, names_of_rules)
{
	static const char *const dirs[] = {"rw", "ro", "none"};
	static const int verdicts[] = {-EBUSY, -EROFS, -EACCES};
	static const char *const names[] = {"rw", "ro", "none", "above"};
	autopolicy struct policy *policy =
		make("/r", "rw d /r/rw\nrw o /r/rw/rw\nro o /r/rw/ro\n"
			   "none o /r/rw/none\nro o /r/rw/above/a\n"
			   "ro d /r/ro\nrw o /r/ro/rw\nro o /r/ro/ro\n"
			   "none o /r/ro/none\nrw o /r/ro/above/a\n"
			   "none d /r/none\nrw o /r/none/rw\nro o /r/none/ro\n"
			   "none o /r/none/none\nrw o /r/none/above/a");

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			char path[32];

			snprintf(path, sizeof(path), "%s/%s", dirs[i],
				 names[k]);
			cr_expect_eq(check_name(policy, path, OP_REMOVE),
				     verdicts[i], "%s", path);
			cr_expect_eq(check_name(policy, path, OP_REPLACE),
				     verdicts[i], "%s", path);
		}
	}
	cr_expect_eq(check_name(policy, "rw/above/a", OP_REMOVE), -EBUSY);
	cr_expect_eq(check_name(policy, "rw/above/b", OP_REMOVE), 0);
}

/* The git guard's names answer EROFS, so that git says what it would say on
 * a read-only file system. One rule of another origin makes it EBUSY. */
Test(policy, names_of_the_git_guard)
{
	autopolicy struct policy *policy =
		make("/r", "rw d /r\nro g /r/hooks\nro g* /r/MERGE_*\n"
			   "ro g /r/above/x\nro g /r/refs/heads/main\n"
			   "ro o /r/refs/tags\nro o /r/mixed\nro g /r/mixed\n"
			   "ro g* /r/w/*/c");

	cr_expect_eq(check_name(policy, "hooks", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "hooks", OP_REPLACE), -EROFS);
	cr_expect_eq(check_name(policy, "MERGE_HEAD", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "above", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "w/any", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "w/any/d", OP_REMOVE), 0);
	cr_expect_eq(check_name(policy, "refs/heads", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "refs", OP_REMOVE), -EBUSY);
	cr_expect_eq(check_name(policy, "mixed", OP_REMOVE), -EBUSY);
	/* Names that are to be made answer for themselves in any case. */
	cr_expect_eq(check_name(policy, "hooks", OP_CREATE), -EROFS);
	cr_expect_eq(check_name(policy, "hooks", OP_MKDIR), -EROFS);
}

/* What an rw pattern matches comes and goes, in an ro directory, too. */
Test(policy, names_of_open_patterns)
{
	autopolicy struct policy *policy =
		make("/r", "rw d /r\nro g /r/info\nrw g* /r/info/refs*\n"
			   "ro g /r/info/refs_held/a\nnone g /r/none\n"
			   "rw g* /r/none/x*");
	static const enum policy_op ops[] = {OP_CREATE, OP_MKDIR, OP_REMOVE,
					     OP_REPLACE};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		cr_expect_eq(check_name(policy, "info/refs", ops[i]), 0);
		cr_expect_eq(check_name(policy, "info/refs_x", ops[i]), 0);
		cr_expect_eq(check_name(policy, "none/xy", ops[i]), 0);
		cr_expect_eq(check_name(policy, "info/ref", ops[i]), -EROFS);
		cr_expect_eq(check_name(policy, "none/y", ops[i]), -EACCES);
	}
	/* One that leads to a rule stays where it is. */
	cr_expect_eq(check_name(policy, "info/refs_held", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "info", OP_REMOVE), -EROFS);
}

/* Where a judge is asked, the name isn't held; one above a rule is. */
Test(policy, names_of_judged_rules)
{
	autopolicy struct policy *policy =
		make("/r", "rw d /r\nrw g! /r/config\nrw g! /r/objects\n"
			   "ro g /r/objects/info/alternates\n"
			   "ro d /r/ro\nrw g! /r/ro/config\n"
			   "rw g! /r/opened\nrw o /r/opened");

	cr_expect_eq(check_name(policy, "config", OP_CREATE), 0);
	cr_expect_eq(check_name(policy, "config", OP_REPLACE), 0);
	cr_expect_eq(check_name(policy, "config", OP_REMOVE), 0);
	cr_expect_eq(check_name(policy, "objects", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "objects/x", OP_REMOVE), 0);
	cr_expect_eq(check_name(policy, "ro/config", OP_REPLACE), -EROFS);
	cr_expect_eq(check_name(policy, "opened", OP_REPLACE), -EBUSY);
}

/* Names that something is mounted on keep their place without a rule. */
Test(policy, names_without_a_rule)
{
	static char beside[] = "a/b", inside[] = "ro/c";
	static char *const relative[] = {beside, inside};
	const struct policy_names names = {relative, ARRAY_SIZE(relative)};
	autopolicy struct policy *policy = NULL;
	autorules struct rules rules;

	parse("ro d /r/ro\nro g /r/a/b/x", &rules);
	cr_assert_eq(policy_new_named("/r", &rules, &names, &policy, NULL), 0);
	cr_expect(at(policy, "a/b").on_tree);
	cr_expect_str_eq(access_at(policy, "a/b"), "rw");
	cr_expect_str_eq(access_at(policy, "ro/c"), "ro");
	cr_expect_eq(check_name(policy, "a", OP_REMOVE), -EBUSY);
	cr_expect_eq(check_name(policy, "a/b", OP_REMOVE), -EBUSY);
	cr_expect_eq(check_name(policy, "a/b", OP_REPLACE), -EBUSY);
	cr_expect_eq(check_name(policy, "a/b/x", OP_REMOVE), -EROFS);
	cr_expect_eq(check_name(policy, "a/c", OP_REMOVE), 0);
	cr_expect_eq(check_name(policy, "ro/c", OP_REMOVE), -EROFS);
}

Test(policy, missing_paths)
{
	autopolicy struct policy *policy = make("/r", "ro d /r\n"
						      "rw o /r/new\n"
						      "rw o /r/a/b/c\n"
						      "rw d /r/rw\n"
						      "ro o /r/rw/ro\n"
						      "none o /r/rw/none\n"
						      "ro o /r/rw/above/ro\n"
						      "none d /r/none\n"
						      "rw o /r/none/a/b\n"
						      "ro o /r/ro\n"
						      "rw o /r/ro/a\n"
						      "rw o* /r/p/*/w");
	static const struct {
		const char *path;
		int mkdir, create;
	} cases[] = {
		{"new", 0, -EROFS},
		{"news", -EROFS, -EROFS},
		{"new/x", 0, 0},
		/* Each directory above, and nothing beside it. */
		{"a", 0, -EROFS},
		{"a/b", 0, -EROFS},
		{"a/b/c", 0, -EROFS},
		{"a/b/c/d", 0, 0},
		{"a/x", -EROFS, -EROFS},
		{"a/b/x", -EROFS, -EROFS},
		{"a/c", -EROFS, -EROFS},
		{"none/a", 0, -EACCES},
		{"none/a/b", 0, -EACCES},
		{"none/b", -EACCES, -EACCES},
		{"ro", 0, -EROFS},
		{"ro/a", 0, -EROFS},
		{"p/any", 0, -EROFS},
		{"p/any/w", 0, -EROFS},
		{"p/any/x", -EROFS, -EROFS},
		/* In an rw directory the missing name's own rule decides. */
		{"rw/x", 0, 0},
		{"rw/ro", -EROFS, -EROFS},
		{"rw/none", -EACCES, -EACCES},
		{"rw/above", 0, -EROFS},
		{"rw/above/ro", -EROFS, -EROFS},
		{"rw/above/x", 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(check_name(policy, cases[i].path, OP_MKDIR),
			     cases[i].mkdir, "mkdir %s", cases[i].path);
		cr_expect_eq(check_name(policy, cases[i].path, OP_CREATE),
			     cases[i].create, "create %s", cases[i].path);
	}
}

Test(policy, moves)
{
	autopolicy struct policy *policy = make("/r", "rw d /r\n"
						      "rw d /r/w\n"
						      "ro o /r/w/rule\n"
						      "ro o /r/w/above/rule\n"
						      "ro g* /r/w/p*");
	static const struct {
		const char *from, *to;
		int directory;
	} cases[] = {
		{"a", "b", 0},
		{"a/b", "c/d", 0},
		{"w/a", "w/b/c", 0},
		/* Everything below would come under another rule. */
		{"a", "w/a", -EXDEV},
		{"w/a", "a", -EXDEV},
		/* There is a rule below the one name, not below the other. */
		{"w/a", "w/above", -EXDEV},
		{"w/above", "w/a", -EXDEV},
		{"w/a", "w/rule", -EXDEV},
		{"w/p1", "w/p2", -EXDEV},
		{"w", "w2", -EXDEV},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct place from = at(policy, cases[i].from);
		struct place to = at(policy, cases[i].to);

		cr_expect_eq(policy_check_move(from, to, true),
			     cases[i].directory, "%s to %s", cases[i].from,
			     cases[i].to);
		cr_expect_eq(policy_check_move(from, to, false), 0, "%s to %s",
			     cases[i].from, cases[i].to);
	}
}

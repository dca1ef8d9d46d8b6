/*
 * Sessions as text and back.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/spec.h"

#define autospec __attribute__((cleanup(session_spec_release)))
#define autorules __attribute__((cleanup(rules_release)))
#define autostrings __attribute__((cleanup(strings_release)))

/* What a path can hold: quotes, controls, '%', and bytes that aren't UTF-8. */
#define ODD \
	"/\"\\ \t\n\x01\x7f%%41%/\xff\xc3(\xc3\xa9\xed\xa0\x80\xf0\x9f\x8c\xb2"

static void add_rule(struct session_spec *spec, struct rule rule)
{
	char reason[] = "because " ODD;

	rule.reason = reason;
	cr_assert_eq(rules_add(&spec->rules, &rule), 0);
}

/* A session with something in every member. */
static void fill(struct session_spec *spec)
{
	char root[] = "/r" ODD, worktree[] = "/r/wt", pattern[] = "/r/*";

	session_spec_init(spec);
	spec->name = strdup("name" ODD);
	spec->tier = TIER_ENFORCED;
	spec->main = strdup("/r" ODD);
	spec->git_dir = strdup("/r/.git");
	spec->worktree = strdup("/r/wt");
	spec->admin_dir = strdup("/r/.git/worktrees/wt");
	spec->worktrees_dir = strdup("/d");
	spec->state_dir = strdup("/home/u/.local/state/worktreefs/name");
	spec->hardlinks = HARDLINKS_DENY;
	spec->symlinks = SYMLINKS_RAW;
	spec->git_guard = false;
	spec->git_config = GIT_CONFIG_ALLOW;
	spec->report_uid = 1000;
	spec->report_gid = 4294967294u;
	cr_assert_eq(session_spec_add_view(spec, "/r" ODD, "/r"), 0);
	cr_assert_eq(session_spec_add_view(spec, "/other", NULL), 0);
	cr_assert_eq(strings_add(&spec->views[0].pinned, "wt"), 0);
	cr_assert_eq(strings_add(&spec->views[0].pinned, "a/b" ODD), 0);
	cr_assert_eq(strings_add(&spec->native, "/r/wt"), 0);
	cr_assert_eq(strings_add(&spec->fuse_options, "max_read=1,x\\,y"), 0);
	add_rule(spec, (struct rule){.path = root, .access = ACCESS_RO});
	add_rule(spec, (struct rule){.path = worktree,
				     .access = ACCESS_RW,
				     .origin = ORIGIN_LIVE,
				     .caching = CACHING_NONE,
				     .judge = JUDGE_ADMIN});
	add_rule(spec, (struct rule){.path = pattern,
				     .origin = ORIGIN_GIT_GUARD,
				     .caching = CACHING_OBJECTS,
				     .judge = JUDGE_PACKED_REFS,
				     .pattern = true});
}

static void expect_same_text(const char *got, const char *want)
{
	if (want)
		cr_expect_str_eq(got, want);
	else
		cr_expect_null(got);
}

static void expect_same_strings(const struct strings *got,
				const struct strings *want)
{
	cr_assert_eq(got->n, want->n);
	for (size_t i = 0; i < want->n; i++)
		cr_expect_str_eq(got->s[i], want->s[i]);
	if (got->n > 0)
		cr_expect_null(got->s[got->n]);
}

static void expect_same_rules(const struct rules *got, const struct rules *want)
{
	cr_assert_eq(got->n, want->n);
	for (size_t i = 0; i < want->n; i++) {
		const struct rule *a = &got->rule[i], *b = &want->rule[i];

		cr_expect_str_eq(a->path, b->path);
		cr_expect_str_eq(a->reason, b->reason);
		cr_expect_eq(a->access, b->access);
		cr_expect_eq(a->origin, b->origin);
		cr_expect_eq(a->caching, b->caching);
		cr_expect_eq(a->judge, b->judge);
		cr_expect_eq(a->pattern, b->pattern);
	}
}

static void expect_same(const struct session_spec *got,
			const struct session_spec *want)
{
	expect_same_text(got->name, want->name);
	expect_same_text(got->main, want->main);
	expect_same_text(got->git_dir, want->git_dir);
	expect_same_text(got->worktree, want->worktree);
	expect_same_text(got->admin_dir, want->admin_dir);
	expect_same_text(got->worktrees_dir, want->worktrees_dir);
	expect_same_text(got->state_dir, want->state_dir);
	cr_expect_eq(got->tier, want->tier);
	cr_expect_eq(got->hardlinks, want->hardlinks);
	cr_expect_eq(got->symlinks, want->symlinks);
	cr_expect_eq(got->git_guard, want->git_guard);
	cr_expect_eq(got->git_config, want->git_config);
	cr_expect_eq(got->report_uid, want->report_uid);
	cr_expect_eq(got->report_gid, want->report_gid);
	cr_assert_eq(got->n_views, want->n_views);
	for (size_t i = 0; i < want->n_views; i++) {
		expect_same_text(got->views[i].root, want->views[i].root);
		expect_same_text(got->views[i].mountpoint,
				 want->views[i].mountpoint);
		expect_same_strings(&got->views[i].pinned,
				    &want->views[i].pinned);
	}
	expect_same_strings(&got->native, &want->native);
	expect_same_strings(&got->fuse_options, &want->fuse_options);
	expect_same_rules(&got->rules, &want->rules);
}

static void expect_round_trip(const struct session_spec *spec)
{
	autofree char *text = session_spec_to_json(spec);
	autospec struct session_spec back;

	session_spec_init(&back);
	cr_assert_not_null(text);
	cr_assert_eq(session_spec_from_json(text, &back), 0, "%s", text);
	expect_same(&back, spec);
}

Test(spec, round_trip)
{
	autospec struct session_spec spec;

	fill(&spec);
	expect_round_trip(&spec);
}

Test(spec, round_trip_of_the_least)
{
	autospec struct session_spec spec;

	session_spec_init(&spec);
	spec.name = strdup("");
	expect_round_trip(&spec);
}

Test(spec, words)
{
	enum tier tier = TIER_VIEW;
	enum hardlinks hardlinks;
	enum symlinks symlinks;
	enum git_config git_config;

	for (int i = TIER_NONE; i <= TIER_ENFORCED; i++) {
		cr_expect_eq(tier_parse(tier_name((enum tier)i), &tier), 0);
		cr_expect_eq(tier, (enum tier)i);
	}
	for (int i = HARDLINKS_ALLOW; i <= HARDLINKS_DENY; i++) {
		cr_expect_eq(hardlinks_parse(hardlinks_name((enum hardlinks)i),
					     &hardlinks),
			     0);
		cr_expect_eq(hardlinks, (enum hardlinks)i);
	}
	for (int i = SYMLINKS_VIEW; i <= SYMLINKS_RAW; i++) {
		cr_expect_eq(symlinks_parse(symlinks_name((enum symlinks)i),
					    &symlinks),
			     0);
		cr_expect_eq(symlinks, (enum symlinks)i);
	}
	for (int i = GIT_CONFIG_FILTER; i <= GIT_CONFIG_ALLOW; i++) {
		cr_expect_eq(
			git_config_parse(git_config_name((enum git_config)i),
					 &git_config),
			0);
		cr_expect_eq(git_config, (enum git_config)i);
	}
	tier = TIER_VIEW;
	cr_expect_eq(tier_parse("Enforced", &tier), -EINVAL);
	cr_expect_eq(tier_parse("", &tier), -EINVAL);
	cr_expect_eq(tier, TIER_VIEW);
}

Test(spec, strings)
{
	autostrings struct strings strings = {0};

	cr_expect_eq(strings_add(&strings, "a"), 0);
	cr_expect_eq(strings_take(&strings, strdup("")), 0);
	cr_expect_eq(strings_take(&strings, NULL), -ENOMEM);
	cr_expect_eq(strings.n, 2);
	cr_expect_null(strings.s[2]);
	cr_expect(strings_contain(&strings, ""));
	cr_expect(strings_contain(&strings, "a"));
	cr_expect_not(strings_contain(&strings, "b"));
}

Test(spec, encoding)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{"", ""},
		{"/a b", "/a b"},
		{"\xc3\xa9", "\xc3\xa9"},
		{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
		{"%", "%"},
		{"%4", "%4"},
		{"%zz", "%zz"},
		{"%41", "%2541"},
		{"%ff", "%25ff"},
		{"%25", "%2525"},
		{"%%41", "%%2541"},
		{"%00", "%2500"},
		{"\xff", "%FF"},
		{"%\xff", "%%FF"},
		{"%4\xff", "%4%FF"},
		{"\xc3", "%C3"},
		{"\xc3(", "%C3("},
		{"\xc0\x80", "%C0%80"},		      /* overlong */
		{"\xe0\x80\x80", "%E0%80%80"},	      /* overlong */
		{"\xed\xa0\x80", "%ED%A0%80"},	      /* a surrogate */
		{"\xf4\x90\x80\x80", "%F4%90%80%80"}, /* beyond U+10FFFF */
		{"\xe2\x82", "%E2%82"},		      /* cut off */
		{"a\xf0\x9f\x8c", "a%F0%9F%8C"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autofree char *text = json_text_encode(cases[i].bytes);
		autofree char *bytes = json_text_decode(text);

		cr_expect_str_eq(text, cases[i].text);
		cr_expect_str_eq(bytes, cases[i].bytes);
	}
}

/* Every string of up to three of these bytes comes back as it was. */
Test(spec, encoding_of_everything)
{
	static const char bytes[] = "%04fF/\xc3\xa9\xff\x80\xe2";
	size_t n = sizeof(bytes) - 1;

	for (size_t i = 0; i < n * n * n * n; i++) {
		const char given[] = {bytes[i % n], bytes[i / n % n],
				      bytes[i / n / n % n],
				      bytes[i / n / n / n], '\0'};
		autofree char *text = json_text_encode(given);
		autofree char *back = json_text_decode(text);

		cr_assert_str_eq(back, given, "%s", text);
	}
}

/* A file written by hand can't smuggle the end of a string in. */
Test(spec, no_nul_byte)
{
	autofree char *bytes = json_text_decode("/a%00b");

	cr_expect_str_eq(bytes, "/a%00b");
}

/* A session's text with one member replaced, or removed where json is NULL. */
static char *with_member(const char *key, const char *json)
{
	autospec struct session_spec spec;
	cJSON *object;
	char *text;

	fill(&spec);
	object = session_spec_to_cjson(&spec);
	cr_assert_not_null(object);
	cJSON_DeleteItemFromObjectCaseSensitive(object, key);
	if (json)
		cr_assert(cJSON_AddRawToObject(object, key, json));
	text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	return text;
}

/* Reads such a text, which must be refused or not. */
static int read_with(const char *key, const char *json)
{
	autofree char *text = with_member(key, json);
	autospec struct session_spec spec;
	int r;

	session_spec_init(&spec);
	spec.name = strdup("untouched");
	{
		struct session_spec got = spec;

		r = session_spec_from_json(text, &got);
		if (r == 0)
			session_spec_release(&got);
		else
			cr_expect_eq(got.name, spec.name,
				     "%s: touched on failure", key);
	}
	return r;
}

Test(spec, unknown_members_are_ignored)
{
	cr_expect_eq(read_with("later", "{\"a\": [1, null]}"), 0);
	cr_expect_eq(read_with("rules", "[{\"path\": \"/\", \"access\": \"ro\","
					"\"later\": 1}]"),
		     0);
	cr_expect_eq(read_with("views", "[{\"root\": \"/\", \"later\": 1}]"),
		     0);
}

Test(spec, members_that_may_be_missing)
{
	static const char *const keys[] = {
		"main",		 "git_dir",	 "worktree",  "admin_dir",
		"worktrees_dir", "state_dir",	 "git_guard", "ids",
		"native",	 "fuse_options",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		cr_expect_eq(read_with(keys[i], NULL), 0, "%s", keys[i]);
}

/* What isn't said is guarded. */
Test(spec, git_guard_is_on_unless_told)
{
	autofree char *text = with_member("git_guard", NULL);
	autospec struct session_spec spec;

	session_spec_init(&spec);
	cr_assert_eq(session_spec_from_json(text, &spec), 0);
	cr_expect(spec.git_guard);
}

Test(spec, rules_have_defaults)
{
	autorules struct rules rules = {0};
	const char *text = "{\"rules\": [{\"path\": \"/a\","
			   "\"access\": \"none\"}]}";

	cr_assert_eq(rules_from_json(text, &rules), 0);
	cr_assert_eq(rules.n, 1);
	cr_expect_str_eq(rules.rule[0].path, "/a");
	cr_expect_str_eq(rules.rule[0].reason, "");
	cr_expect_eq(rules.rule[0].access, ACCESS_NONE);
	cr_expect_eq(rules.rule[0].origin, ORIGIN_COMMAND_LINE);
	cr_expect_eq(rules.rule[0].caching, CACHING_TREE);
	cr_expect_eq(rules.rule[0].judge, JUDGE_NONE);
	cr_expect_not(rules.rule[0].pattern);
}

Test(spec, what_is_refused)
{
	static const struct {
		const char *key;
		const char *json; /* NULL: the member is missing */
	} cases[] = {
		{"schema_version", NULL},
		{"schema_version", "0"},
		{"schema_version", "2"},
		{"schema_version", "1.5"},
		{"schema_version", "\"1\""},
		{"schema_version", "null"},
		{"session", NULL},
		{"session", "null"},
		{"session", "1"},
		{"tier", NULL},
		{"tier", "1"},
		{"tier", "\"some\""},
		{"main", "\"relative\""},
		{"main", "\"/a/../b\""},
		{"main", "\"/a/\""},
		{"main", "\"\""},
		{"main", "1"},
		{"main", "[\"/a\"]"},
		{"state_dir", "\".\""},
		{"hardlinks", NULL},
		{"hardlinks", "\"\""},
		{"symlinks", "\"both\""},
		{"git_config", "true"},
		{"git_guard", "\"yes\""},
		{"git_guard", "1"},
		{"git_guard", "null"},
		{"ids", "1"},
		{"ids", "{}"},
		{"ids", "{\"uid\": 1}"},
		{"ids", "{\"uid\": -1, \"gid\": 0}"},
		{"ids", "{\"uid\": 0.5, \"gid\": 0}"},
		{"ids", "{\"uid\": 4294967295, \"gid\": 0}"},
		{"ids", "{\"uid\": 1e300, \"gid\": 0}"},
		{"ids", "{\"uid\": \"0\", \"gid\": 0}"},
		{"views", NULL},
		{"views", "null"},
		{"views", "{}"},
		{"views", "[1]"},
		{"views", "[{}]"},
		{"views", "[{\"root\": null}]"},
		{"views", "[{\"root\": \"r\"}]"},
		{"views", "[{\"root\": \"/r\", \"mountpoint\": \"m\"}]"},
		{"views", "[{\"root\": \"/r\", \"pinned\": \"a\"}]"},
		{"views", "[{\"root\": \"/r\", \"pinned\": [\"a\", 1]}]"},
		{"native", "\"/a\""},
		{"native", "[null]"},
		{"fuse_options", "{}"},
		{"rules", NULL},
		{"rules", "{}"},
		{"rules", "[\"/r\"]"},
		{"rules", "[{\"path\": \"/r\"}]"},
		{"rules", "[{\"access\": \"ro\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"wo\"}]"},
		{"rules", "[{\"path\": \"r\", \"access\": \"ro\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\","
			  "\"origin\": \"me\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\","
			  "\"caching\": \"much\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\","
			  "\"judge\": \"Judy\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\","
			  "\"pattern\": \"yes\"}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\","
			  "\"reason\": 1}]"},
		{"rules", "[{\"path\": \"/r\", \"access\": \"ro\"}, {}]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(read_with(cases[i].key, cases[i].json), -EINVAL,
			     "%s: %s", cases[i].key,
			     cases[i].json ? cases[i].json : "missing");
}

Test(spec, text_that_is_no_object)
{
	static const char *const texts[] = {
		"",  " ", "null",	 "1",	 "\"x\"",	  "[]",	 "{}",
		"{", "}", "{\"rules\"}", "\xff", "{\"rules\": [", "[[[", "{}{}",
	};
	autospec struct session_spec spec;
	autorules struct rules rules = {0};

	session_spec_init(&spec);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		cr_expect_eq(session_spec_from_json(texts[i], &spec), -EINVAL,
			     "%s", texts[i]);
		cr_expect_eq(rules_from_json(texts[i], &rules), -EINVAL, "%s",
			     texts[i]);
	}
	cr_expect_eq(rules_from_json("{\"rules\": []} x", &rules), -EINVAL);
	cr_expect_eq(rules_from_json("{\"rules\": []}\n", &rules), 0);
}

/* Deep nesting must end the parser, not the stack. */
Test(spec, deep_nesting)
{
	size_t n = 1 << 20;
	autofree char *text = malloc(n + 1);
	autorules struct rules rules = {0};

	memset(text, '[', n);
	text[n] = '\0';
	cr_expect_eq(rules_from_json(text, &rules), -EINVAL);
}

/* Text that is cut off is refused at every byte. */
Test(spec, truncation, .timeout = 60)
{
	autospec struct session_spec spec, got;
	autofree char *text = NULL;
	size_t length;

	session_spec_init(&got);
	fill(&spec);
	text = session_spec_to_json(&spec);
	length = strlen(text);
	for (size_t i = 0; i < length; i++) {
		/* Exactly as long, so that a sanitizer sees what is beyond. */
		autofree char *cut = strndup(text, i);
		struct rules rules = {0};

		cr_expect_eq(session_spec_from_json(cut, &got), -EINVAL,
			     "%zu bytes", i);
		cr_expect_eq(rules_from_json(cut, &rules), -EINVAL, "%zu bytes",
			     i);
	}
}

/* Text with one byte changed is read or refused, whatever the byte. */
Test(spec, damage, .timeout = 60)
{
	static const char bytes[] = "\0\"{}[],:0-%\\\xff";
	autospec struct session_spec spec;
	autofree char *text = NULL;
	size_t length;

	fill(&spec);
	text = session_spec_to_json(&spec);
	length = strlen(text);
	for (size_t i = 0; i < length; i++) {
		for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
			autofree char *damaged = strdup(text);
			struct session_spec got;
			int r;

			damaged[i] = bytes[k];
			session_spec_init(&got);
			r = session_spec_from_json(damaged, &got);
			cr_expect(r == 0 || r == -EINVAL);
			if (r == 0)
				session_spec_release(&got);
		}
	}
}

/*
 * Verdicts in words.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"

#define autospec __attribute__((cleanup(session_spec_release)))
#define autoexplanation __attribute__((cleanup(explanation_release)))

static void add(struct session_spec *spec, const char *path, struct rule rule)
{
	char copy[64], reason[64];

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(reason, sizeof(reason), "because of %s", path);
	rule.path = copy;
	rule.reason = reason;
	cr_assert_eq(rules_add(&spec->rules, &rule), 0);
}

/* A session as mountctl plans it, in short. */
static void fill(struct session_spec *spec)
{
	session_spec_init(spec);
	spec->name = strdup("wt");
	spec->main = strdup("/r");
	spec->git_dir = strdup("/r/.git");
	spec->worktree = strdup("/r/wt");
	cr_assert_eq(session_spec_add_view(spec, "/r", "/r"), 0);
	cr_assert_eq(strings_add(&spec->views[0].pinned, ".git/pinned"), 0);
	add(spec, "/r", (struct rule){.access = ACCESS_RO});
	add(spec, "/r/wt", (struct rule){.access = ACCESS_RW});
	add(spec, "/r/.git", (struct rule){.access = ACCESS_RW});
	add(spec, "/r/.git/hooks",
	    (struct rule){.access = ACCESS_RO, .origin = ORIGIN_GIT_GUARD});
	add(spec, "/r/.git/config",
	    (struct rule){.access = ACCESS_RW,
			  .origin = ORIGIN_GIT_GUARD,
			  .judge = JUDGE_CONFIG});
	add(spec, "/r/a/shared", (struct rule){.access = ACCESS_RW});
	add(spec, "/r/secret",
	    (struct rule){.access = ACCESS_NONE,
			  .origin = ORIGIN_COMMAND_LINE});
	add(spec, "/r/wt/closed/part",
	    (struct rule){.access = ACCESS_RO, .origin = ORIGIN_COMMAND_LINE});
	add(spec, "/beside", (struct rule){.access = ACCESS_RO});
}

struct row {
	const char *path;
	enum policy_op op;
	int error;
	const char *rule;
	const char *twin; /* NULL: none */
};

static void check(const struct session_spec *spec, const struct row *row)
{
	autoexplanation struct explanation e = {0};
	const char *op = policy_op_name(row->op);

	cr_assert_eq(explain_session(spec, row->path, row->op, &e), 0);
	cr_expect_eq(e.error, row->error, "%s %s: %d", op, row->path, e.error);
	cr_expect_eq(e.allowed, row->error == 0, "%s %s", op, row->path);
	cr_expect_str_eq(e.rule, row->rule, "%s %s: %s", op, row->path, e.rule);
	if (row->twin)
		cr_expect(e.twin && strcmp(e.twin, row->twin) == 0,
			  "%s %s: twin %s", op, row->path, e.twin);
	else
		cr_expect_null(e.twin, "%s %s: twin %s", op, row->path, e.twin);
}

Test(explain, verdicts)
{
	static const struct row rows[] = {
		{"/r/src/a.c", OP_WRITE, -EROFS, "/r", "/r/wt/src/a.c"},
		{"/r/src/a.c", OP_READ, 0, "/r", "/r/wt/src/a.c"},
		{"/r/src/a.c", OP_CREATE, -EROFS, "/r", "/r/wt/src/a.c"},
		{"/r/src/a.c", OP_LINK_SOURCE, -EXDEV, "/r", "/r/wt/src/a.c"},
		{"/r", OP_WRITE, -EROFS, "/r", NULL},
		{"/r", OP_REMOVE, -EROFS, "/r", NULL},
		{"/r/wt/src/a.c", OP_WRITE, 0, "/r/wt", NULL},
		{"/r/wt/not/there", OP_REMOVE, 0, "/r/wt", NULL},
		{"/r/wt", OP_REMOVE, -EROFS, "/r", NULL},
		{"/r/wt/closed", OP_CREATE, -EROFS, "/r/wt", NULL},
		{"/r/wt/closed", OP_MKDIR, 0, "/r/wt", NULL},
		{"/r/wt/closed", OP_REMOVE, -EBUSY, "/r/wt", NULL},
		{"/r/.git/refs/heads/x", OP_CREATE, 0, "/r/.git", NULL},
		{"/r/.git/pinned", OP_REMOVE, -EBUSY, "/r/.git", NULL},
		{"/r/.git/hooks", OP_REMOVE, -EROFS, "/r/.git/hooks", NULL},
		{"/r/.git/hooks/x", OP_CREATE, -EROFS, "/r/.git/hooks", NULL},
		{"/r/a", OP_MKDIR, 0, "/r", "/r/wt/a"},
		{"/r/a/shared", OP_MKDIR, 0, "/r/a/shared", NULL},
		{"/r/a/shared", OP_CREATE, -EROFS, "/r", "/r/wt/a/shared"},
		{"/r/secret/k", OP_READ, -EACCES, "/r/secret",
		 "/r/wt/secret/k"},
		{"/r/secret/k", OP_STAT, 0, "/r/secret", "/r/wt/secret/k"},
		{"/beside/x", OP_WRITE, -EROFS, "/beside", NULL},
		{"/elsewhere", OP_WRITE, 0, "/", NULL},
		{"/", OP_WRITE, 0, "/", NULL},
	};
	autospec struct session_spec spec;

	fill(&spec);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&spec, &rows[i]);
}

Test(explain, what_the_rule_does_not_tell)
{
	static const struct {
		const char *path;
		enum policy_op op;
		const char *note; /* a word of it, or NULL */
	} rows[] = {
		{"/r/src/a.c", OP_WRITE, NULL},
		{"/r/wt/src/a.c", OP_WRITE, NULL},
		{"/r/.git/config", OP_READ, NULL},
		{"/r/.git/config", OP_REPLACE, "judges"},
		{"/r/a", OP_MKDIR, "leads to"},
		{"/r/wt/closed", OP_REMOVE, "stays"},
		{"/r/wt/closed", OP_CREATE, "mkdir"},
		{"/r/src/a.c", OP_LINK_SOURCE, "copied"},
	};
	autospec struct session_spec spec;

	fill(&spec);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autoexplanation struct explanation e = {0};

		cr_assert_eq(
			explain_session(&spec, rows[i].path, rows[i].op, &e),
			0);
		if (rows[i].note)
			cr_expect(e.note && strstr(e.note, rows[i].note),
				  "%s: %s", rows[i].path, e.note);
		else
			cr_expect_null(e.note, "%s: %s", rows[i].path, e.note);
	}
}

Test(explain, judges_are_named_where_they_are_asked)
{
	autospec struct session_spec spec;
	autoexplanation struct explanation write = {0}, read = {0};

	fill(&spec);
	cr_assert_eq(explain_session(&spec, "/r/.git/config", OP_WRITE, &write),
		     0);
	cr_assert_eq(explain_session(&spec, "/r/.git/config", OP_READ, &read),
		     0);
	cr_expect_eq(write.judge, JUDGE_CONFIG);
	cr_expect_eq(read.judge, JUDGE_NONE);
}

Test(explain, sessions_without_a_worktree_have_no_twins)
{
	autospec struct session_spec spec;
	autofree char *twin = NULL;

	fill(&spec);
	twin = session_twin(&spec, "/r/x");
	cr_expect_str_eq(twin, "/r/wt/x");
	cr_expect_null(session_twin(&spec, "/r2/x"));
	cr_expect_null(session_twin(&spec, "/r/.git/x"));
	free(spec.worktree);
	spec.worktree = NULL;
	cr_expect_null(session_twin(&spec, "/r/x"));
}

/* What it is after a way through JSON. */
static struct explanation through_json(const struct explanation *e)
{
	struct explanation copy = {0};
	cJSON *object = cJSON_CreateObject();
	autofree char *text = NULL;

	cr_assert(explanation_put(object, e));
	text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	object = cJSON_Parse(text);
	cr_assert_eq(explanation_get(object, &copy), 0, "%s", text);
	cJSON_Delete(object);
	return copy;
}

static void expect_text(const char *a, const char *b)
{
	cr_expect((!a && !b) || (a && b && strcmp(a, b) == 0), "%s, not %s", b,
		  a);
}

Test(explain, goes_through_json)
{
	static const char *const paths[] = {"/r/\xff\n\"%41", "/r/secret",
					    "/r/wt", "/r/.git/config"};
	autospec struct session_spec spec;

	fill(&spec);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		autoexplanation struct explanation e = {0}, copy = {0};

		cr_assert_eq(explain_session(&spec, paths[i], OP_WRITE, &e), 0);
		copy = through_json(&e);
		cr_expect_eq(copy.allowed, e.allowed);
		cr_expect_eq(copy.error, e.error);
		cr_expect_eq(copy.access, e.access);
		cr_expect_eq(copy.origin, e.origin);
		cr_expect_eq(copy.judge, e.judge);
		expect_text(e.rule, copy.rule);
		expect_text(e.reason, copy.reason);
		expect_text(e.note, copy.note);
		expect_text(e.twin, copy.twin);
	}
}

Test(explain, what_is_no_explanation_is_none)
{
	static const char *const texts[] = {
		"{}",
		"[]",
		"{\"allowed\":true,\"access\":\"rw\"}",
		"{\"allowed\":false,\"access\":\"ro\",\"origin\":\"default\","
		"\"judge\":\"none\",\"rule\":\"/\",\"reason\":\"\"}",
		"{\"allowed\":true,\"access\":\"?\",\"origin\":\"default\","
		"\"judge\":\"none\",\"rule\":\"/\",\"reason\":\"\","
		"\"note\":null,\"twin\":null}",
		"{\"allowed\":true,\"access\":\"rw\",\"origin\":\"default\","
		"\"judge\":\"none\",\"rule\":null,\"reason\":\"\","
		"\"note\":null,\"twin\":null}",
		"{\"allowed\":true,\"access\":\"rw\",\"origin\":\"default\","
		"\"judge\":\"none\",\"rule\":\"/\",\"reason\":\"\","
		"\"note\":7,\"twin\":null}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct explanation e = {0};
		cJSON *object = cJSON_Parse(texts[i]);

		cr_assert_not_null(object);
		cr_expect_eq(explanation_get(object, &e), -EPROTO, "%s",
			     texts[i]);
		cJSON_Delete(object);
	}
}

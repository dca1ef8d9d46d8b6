#include "fs/lib/explain.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

void explanation_release(struct explanation *explanation)
{
	free(explanation->rule);
	free(explanation->reason);
	free(explanation->note);
	free(explanation->twin);
	*explanation = (struct explanation){0};
}

char *session_twin(const struct session_spec *spec, const char *path)
{
	const char *rest;

	if (!spec->main || !spec->worktree ||
	    !path_starts_with(path, spec->main, &rest) || rest[0] == '\0' ||
	    path_starts_with(path, spec->worktree, NULL) ||
	    (spec->git_dir && path_starts_with(path, spec->git_dir, NULL)))
		return NULL;
	return path_join(spec->worktree, rest);
}

/* An object that is asked about, and the directory that has its name. */
struct question {
	struct place parent, child;
	bool is_root; /* whose name lies outside of the policy */
	enum policy_op op;
};

/* Does the operation change a directory, rather than what is in it? */
static bool changes_name(enum policy_op op)
{
	switch (op) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_REMOVE:
	case OP_REPLACE:
		return true;
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
	case OP_WRITE:
	case OP_SETATTR:
	case OP_SETTIMES:
	case OP_SETXATTR:
	case OP_LINK_SOURCE:
		return false;
	}
	return true;
}

static bool changes_nothing(enum policy_op op)
{
	return op == OP_STAT || op == OP_READ || op == OP_LIST;
}

static int verdict_on(const struct question *q)
{
	if (q->is_root)
		return policy_check(q->child, q->op);
	return policy_check_name(q->parent, q->child, q->op);
}

/* Whose rule decides: the guard's denials name the same one. */
static const struct rule *deciding_rule(const struct question *q, int verdict)
{
	bool by_parent = verdict < 0 && changes_name(q->op) &&
			 policy_check(q->parent, q->op) < 0;

	return place_rule(by_parent ? q->parent : q->child);
}

/* What the rule alone doesn't tell; NULL: it tells all. */
static const char *note_on(const struct question *q, int verdict)
{
	bool parent_allows = policy_check(q->parent, q->op) == 0;
	bool both_allow = parent_allows && policy_check(q->child, q->op) == 0;

	if (verdict == -EXDEV)
		return "it can be copied, but gets no second name elsewhere";
	if (verdict < 0 && both_allow)
		return q->op == OP_CREATE
			       ? "this name leads to a restricting rule: only "
				 "mkdir makes it"
			       : "this name is a rule's or a mount's, or leads "
				 "to one, and stays";
	if (verdict == 0 && q->op == OP_MKDIR && !both_allow)
		return "a directory of this name leads to what may be changed";
	if (verdict == 0 && !changes_nothing(q->op) &&
	    place_rule(q->child)->judge != JUDGE_NONE)
		return "the git guard judges each change and each replacement "
		       "of it; what it refuses answers EROFS";
	return NULL;
}

static int copy_text(char **slot, const char *text)
{
	*slot = text ? strdup(text) : NULL;
	return text && !*slot ? -ENOMEM : 0;
}

static int answer(const struct question *q, const struct session_spec *spec,
		  const char *path, struct explanation *ret)
{
	int verdict = verdict_on(q);
	const struct rule *rule = deciding_rule(q, verdict);
	struct explanation e = {
		.allowed = verdict == 0,
		.error = verdict,
		.access = rule->access,
		.origin = rule->origin,
		.judge = verdict == 0 && !changes_nothing(q->op) ? rule->judge
								 : JUDGE_NONE,
	};
	int r = copy_text(&e.rule, rule->path);

	if (r == 0)
		r = copy_text(&e.reason, rule->reason);
	if (r == 0)
		r = copy_text(&e.note, note_on(q, verdict));
	if (r < 0) {
		explanation_release(&e);
		return r;
	}
	if (rule->access != ACCESS_RW)
		e.twin = session_twin(spec, path);
	*ret = e;
	return 0;
}

int explain_path(const struct policy *policy, const char *root,
		 const struct session_spec *spec, const char *path,
		 enum policy_op op, struct explanation *ret)
{
	struct place top = policy_root(policy);
	struct question q = {.parent = top, .child = top, .op = op};
	autofree char *above = NULL;
	const char *relative;

	if (!path_starts_with(path, root, &relative) || relative[0] == '\0') {
		q.is_root = true;
		return answer(&q, spec, path, ret);
	}
	if (strchr(relative, '/')) {
		above = path_dirname(relative);
		if (!above)
			return -ENOMEM;
		q.parent = policy_walk(top, above);
	}
	q.child = policy_step(q.parent, path_basename(relative));
	return answer(&q, spec, path, ret);
}

/* The innermost one that shows the path; NULL: none does. */
static const struct view_spec *view_around(const struct session_spec *spec,
					   const char *path)
{
	const struct view_spec *found = NULL;

	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];

		if (path_starts_with(path, view->root, NULL) &&
		    (!found || strlen(view->root) > strlen(found->root)))
			found = view;
	}
	return found;
}

int explain_session(const struct session_spec *spec, const char *path,
		    enum policy_op op, struct explanation *ret)
{
	const struct view_spec *view = view_around(spec, path);
	const char *root = view ? view->root : "/";
	struct policy_names names = {0};
	struct policy *policy;
	int r;

	if (view)
		names = (struct policy_names){view->pinned.s, view->pinned.n};
	r = policy_new_named(root, &spec->rules, &names, &policy, NULL);
	if (r < 0)
		return r;
	r = explain_path(policy, root, spec, path, op, ret);
	policy_free(policy);
	return r;
}

/*
 * JSON.
 */

static const struct {
	int error;
	const char *name;
} error_words[] = {
	{-EROFS, "EROFS"},
	{-EACCES, "EACCES"},
	{-EBUSY, "EBUSY"},
	{-EXDEV, "EXDEV"},
};

static const char *error_name(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(error_words); i++)
		if (error_words[i].error == error)
			return error_words[i].name;
	return NULL;
}

static bool put_text(cJSON *object, const char *key, const char *bytes)
{
	autofree char *text = NULL;

	if (!bytes)
		return cJSON_AddNullToObject(object, key);
	text = json_text_encode(bytes);
	return text && cJSON_AddStringToObject(object, key, text);
}

bool explanation_put(cJSON *object, const struct explanation *e)
{
	return cJSON_AddBoolToObject(object, "allowed", e->allowed) &&
	       put_text(object, "access", access_name(e->access)) &&
	       put_text(object, "rule", e->rule) &&
	       put_text(object, "origin", origin_name(e->origin)) &&
	       put_text(object, "reason", e->reason) &&
	       put_text(object, "errno", error_name(e->error)) &&
	       put_text(object, "judge", judge_name(e->judge)) &&
	       put_text(object, "note", e->note) &&
	       put_text(object, "twin", e->twin);
}

static const char *text_of(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));

	return text ? text : "";
}

/* Null, too, is a text: NULL. */
static int get_text(const cJSON *object, const char *key, char **ret)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	*ret = NULL;
	if (cJSON_IsNull(item))
		return 0;
	if (!cJSON_IsString(item))
		return -EPROTO;
	*ret = json_text_decode(item->valuestring);
	return *ret ? 0 : -ENOMEM;
}

/* Allowed without an error, or refused with one of those that there are. */
static int get_verdict(const cJSON *object, struct explanation *e)
{
	const cJSON *allowed =
		cJSON_GetObjectItemCaseSensitive(object, "allowed");
	const char *name = text_of(object, "errno");

	if (!cJSON_IsBool(allowed))
		return -EPROTO;
	e->allowed = cJSON_IsTrue(allowed);
	for (size_t i = 0; i < ARRAY_SIZE(error_words); i++)
		if (strcmp(error_words[i].name, name) == 0)
			e->error = error_words[i].error;
	return e->allowed == (e->error == 0) ? 0 : -EPROTO;
}

static int get_words(const cJSON *object, struct explanation *e)
{
	if (access_parse(text_of(object, "access"), &e->access) < 0 ||
	    origin_parse(text_of(object, "origin"), &e->origin) < 0 ||
	    judge_parse(text_of(object, "judge"), &e->judge) < 0)
		return -EPROTO;
	return 0;
}

static int get_all(const cJSON *object, struct explanation *e)
{
	int r = get_verdict(object, e);

	if (r == 0)
		r = get_words(object, e);
	if (r == 0)
		r = get_text(object, "rule", &e->rule);
	if (r == 0)
		r = get_text(object, "reason", &e->reason);
	if (r == 0)
		r = get_text(object, "note", &e->note);
	if (r == 0)
		r = get_text(object, "twin", &e->twin);
	return r == 0 && (!e->rule || !e->reason) ? -EPROTO : r;
}

int explanation_get(const cJSON *object, struct explanation *ret)
{
	struct explanation e = {0};
	int r = get_all(object, &e);

	if (r < 0) {
		explanation_release(&e);
		return r;
	}
	*ret = e;
	return 0;
}

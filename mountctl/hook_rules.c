#include "mountctl/hook_rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"
#include "fs/lib/path.h"
#include "mountctl/environment.h"
#include "mountctl/hook_place.h"
#include "mountctl/hook_shell.h"
#include "mountctl/output.h"

void hook_rules_release(struct hook_rules *rules)
{
	for (size_t i = 0; i < rules->n_sessions; i++)
		record_release(&rules->sessions[i]);
	free(rules->sessions);
	denylist_release(&rules->list);
	hook_policy_release(&rules->policy);
	*rules = (struct hook_rules){0};
}

void hook_denial_release(struct hook_denial *denial)
{
	free(denial->why);
	free(denial->twin);
	*denial = (struct hook_denial){0};
}

/*
 * Finding sessions.
 */

/* Takes ownership of the record, also when it fails. */
static int add_session(struct hook_rules *rules, struct record *record)
{
	struct record *grown = reallocarray(
		rules->sessions, rules->n_sessions + 1, sizeof(*grown));

	if (!grown) {
		record_release(record);
		return -ENOMEM;
	}
	rules->sessions = grown;
	grown[rules->n_sessions++] = *record;
	return 0;
}

/* 1: the session around us was added; 0: there is none, or of another name. */
static int add_snapshot(struct hook_rules *rules, const char *name,
			char **message)
{
	const char *variable = getenv(SESSION_VARIABLE);
	struct record record;
	int r;

	if (!variable || !*variable)
		return 0;
	record_init(&record);
	r = environment_session(&record.spec);
	if (r == 0 && name && strcmp(name, record.spec.name) != 0) {
		record_release(&record);
		return 0;
	}
	if (r < 0) {
		record_release(&record);
		return explain(r, message,
			       "cannot read the rules of the session around "
			       "us from '%s': %s",
			       variable, strerror(-r));
	}
	rules->inside = true;
	r = add_session(rules, &record);
	return r < 0 ? r : 1;
}

int hook_rules_add_named(struct hook_rules *rules, const char *name,
			 char **message)
{
	struct record record;
	int r = add_snapshot(rules, name, message);

	if (r != 0)
		return r < 0 ? r : 0;
	record_init(&record);
	r = record_read(name, &record);
	if (r < 0)
		return explain(r, message,
			       "cannot read the record of the session '%s': %s",
			       name, strerror(-r));
	if (!record.live) {
		record_release(&record);
		return explain(-ESRCH, message, "the session '%s' is dead",
			       name);
	}
	return add_session(rules, &record);
}

static bool lies_in(const char *place, const char *dir)
{
	return dir && path_starts_with(place, dir, NULL);
}

static bool is_work_of(const struct session_spec *spec, const char *place)
{
	if (lies_in(place, spec->worktree) ||
	    lies_in(place, spec->worktrees_dir))
		return true;
	for (size_t i = 0; i < spec->n_views; i++)
		if (spec->tier == TIER_VIEW &&
		    lies_in(place, spec->views[i].mountpoint))
			return true;
	return false;
}

static bool is_around(const struct session_spec *spec,
		      const struct strings *places)
{
	for (size_t i = 0; i < places->n; i++)
		if (is_work_of(spec, places->s[i]))
			return true;
	return false;
}

/*
 * As it is spelled, and where it leads; a place in a view that has died leads
 * nowhere.
 */
static int add_place(struct strings *places, const char *path)
{
	autofree char *plain = path_normalise("/", path);
	autofree char *real = NULL;
	int r = plain ? strings_add(places, plain) : -ENOMEM;

	if (r == 0 && hook_place("/", path, &real) == 0)
		r = strings_add(places, real);
	return r;
}

static int gather_places(const struct strings *given, struct strings *places)
{
	static const char *const variables[] = {
		"CLAUDE_PROJECT_DIR",
		"GEMINI_PROJECT_DIR",
		"CURSOR_PROJECT_DIR",
	};
	autofree char *cwd = getcwd(NULL, 0);
	int r = cwd && cwd[0] == '/' ? add_place(places, cwd) : 0;

	for (size_t i = 0; r == 0 && i < given->n; i++)
		r = add_place(places, given->s[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(variables); i++) {
		const char *path = getenv(variables[i]);

		if (path && path[0] == '/')
			r = add_place(places, path);
	}
	return r;
}

/* Takes ownership of the record. */
static int consider(struct hook_rules *rules, struct record *record,
		    const struct strings *places, char **message)
{
	bool around = is_around(&record->spec, places);
	int r = 0;

	if (around && record->live)
		return add_session(rules, record);
	/* One behind run has ended. A view has not: it has died. */
	if (around && record->spec.tier == TIER_VIEW)
		r = explain(-ESRCH, message,
			    "the session '%s' around here has died: 'mountctl "
			    "mount' starts it again, 'mountctl unmount %s' "
			    "clears it away",
			    record->spec.name, record->spec.name);
	record_release(record);
	return r;
}

static int add_around(struct hook_rules *rules, const struct strings *places,
		      char **message)
{
	struct strings names = {0};
	int r = record_list(&names);

	if (r < 0)
		return explain(r, message,
			       "cannot read the records of sessions: %s",
			       strerror(-r));
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		struct record record;

		record_init(&record);
		/* What can't be read is nobody's session. */
		if (record_read(names.s[i], &record) == 0)
			r = consider(rules, &record, places, message);
	}
	strings_release(&names);
	return r;
}

int hook_rules_find(struct hook_rules *rules, const struct strings *places,
		    char **message)
{
	struct strings all = {0};
	int r = add_snapshot(rules, NULL, message);

	if (r != 0)
		return r < 0 ? r : 0;
	r = gather_places(places, &all);
	if (r == 0)
		r = add_around(rules, &all, message);
	strings_release(&all);
	return r;
}

/*
 * The verdict on a place.
 */

/* 0, and what it says of it. */
__attribute__((format(printf, 2, 3))) static int
deny(struct hook_denial *denial, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (vasprintf(&denial->why, format, args) < 0)
		denial->why = NULL;
	va_end(args);
	return 0;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static enum policy_op precise_op(enum policy_op op, const char *place)
{
	return op == OP_WRITE && !exists(place) ? OP_CREATE : op;
}

/* The place in the root of one in a view elsewhere: *ret_place stays NULL. */
static int find_behind(const struct session_spec *spec, const char *place,
		       char **ret_place)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		autofree char *behind = NULL;
		const char *rest;

		if (!view->mountpoint ||
		    strcmp(view->mountpoint, view->root) == 0 ||
		    !path_starts_with(place, view->mountpoint, &rest))
			continue;
		behind = path_join(view->root, rest);
		return behind ? hook_place("/", behind, ret_place) : -ENOMEM;
	}
	return 0;
}

/* As the session sees it. */
static char *seen(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		const char *rest;

		if (view->mountpoint &&
		    path_starts_with(path, view->root, &rest))
			return path_join(view->mountpoint, rest);
	}
	return strdup(path);
}

/* Who asks, and from where. */
struct asking {
	const struct hook_rules *rules; /* borrowed */
	const struct strings *bases;	/* borrowed */
	struct hook_denial *denial;	/* borrowed */
	bool shell;
};

static bool is_worktree(const char *dir)
{
	autofree char *path = path_join(dir, ".git");
	struct stat st;

	return path && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * In a session that makes its own worktrees: the twin in the one that the agent
 * works in. NULL: there is none.
 */
static char *own_twin(const struct session_spec *spec, const char *from,
		      const char *place)
{
	autofree char *dir = strdup(from);
	const char *rest;

	if (!spec->main || !spec->worktrees_dir ||
	    !path_starts_with(place, spec->main, &rest) || !rest[0] ||
	    lies_in(place, spec->git_dir))
		return NULL;
	while (dir && lies_in(dir, spec->worktrees_dir)) {
		char *above;

		if (is_worktree(dir))
			return path_join(dir, rest);
		above = path_dirname(dir);
		free(dir);
		dir = above;
	}
	return NULL;
}

static int refuse(const struct asking *asking, const struct session_spec *spec,
		  const char *place, enum policy_op op,
		  const struct explanation *e)
{
	struct hook_denial *denial = asking->denial;

	denial->twin = e->twin ? seen(spec, e->twin)
			       : own_twin(spec, asking->bases->s[0], place);
	if (e->allowed)
		return deny(denial,
			    "'%s' may not be changed by hand, only by git: %s",
			    place, e->reason);
	if (e->access == ACCESS_RW)
		return deny(denial, "'%s' may not be changed: %s", place,
			    e->note ? e->note : e->reason);
	return deny(denial,
		    "'%s' may not be %s: in the session '%s', '%s' is %s (%s)",
		    place, op == OP_READ ? "read" : "changed", spec->name,
		    e->rule, e->access == ACCESS_RO ? "read-only" : "closed",
		    e->reason);
}

static int judge_by_session(const struct asking *asking,
			    const struct session_spec *spec, const char *place,
			    enum policy_op op)
{
	struct explanation e = {0};
	autofree char *behind = NULL;
	bool allowed;
	int r = find_behind(spec, place, &behind);

	if (behind)
		place = behind;
	if (r == 0)
		r = explain_session(spec, place, precise_op(op, place), &e);
	if (r < 0)
		return r;
	/* What is judged change by change isn't a file tool's to change. */
	allowed = e.allowed && (op == OP_READ || e.judge == JUDGE_NONE);
	r = allowed ? 1 : refuse(asking, spec, place, op, &e);
	explanation_release(&e);
	return r;
}

static int judge_by_list(const struct asking *asking, const char *place)
{
	const struct denylist *list = &asking->rules->list;
	autofree char *cwd = NULL;
	const char *tree;

	if (!denylist_denies(list, place, &tree))
		return 1;
	if (hook_place("/", asking->bases->s[0], &cwd) == 0)
		asking->denial->twin = denylist_twin(list, cwd, place);
	return deny(asking->denial,
		    "'%s' may not be changed: '%s' is "
		    "read-only here",
		    place, tree);
}

static int judge_by_policy(const struct asking *asking, const char *place,
			   enum policy_op op)
{
	bool lenient = asking->shell || op == OP_READ;
	const char *why = "";

	if (hook_policy_allows(&asking->rules->policy, place, lenient, &why))
		return 1;
	return deny(asking->denial, "'%s' is out of bounds: %s", place, why);
}

static int judge_place(const struct asking *asking, const char *place,
		       enum policy_op op)
{
	const struct hook_rules *rules = asking->rules;
	int r = 1;

	for (size_t i = 0; r > 0 && !asking->shell && i < rules->n_sessions;
	     i++)
		r = judge_by_session(asking, &rules->sessions[i].spec, place,
				     op);
	if (r > 0 && !asking->shell && op != OP_READ)
		r = judge_by_list(asking, place);
	if (r > 0 && rules->has_policy)
		r = judge_by_policy(asking, place, op);
	return r;
}

/*
 * The verdict on a call.
 */

/* Every place that the path may mean. */
static int judge_path(const struct asking *asking, const struct strings *bases,
		      const char *path, enum policy_op op)
{
	struct strings places = {0};
	int r = hook_places(bases, path, &places);

	if (r == -EXDEV)
		r = deny(asking->denial,
			 "'%s' leads through a process in /proc: name the "
			 "file itself",
			 path);
	else if (r == 0)
		r = 1;
	for (size_t i = 0; r > 0 && i < places.n; i++)
		r = judge_place(asking, places.s[i], op);
	strings_release(&places);
	return r;
}

static int judge_in_shell(void *data, const char *base, const char *path)
{
	const struct asking *asking = data;
	struct strings bases = {0};
	int r = strings_add(&bases, base);

	if (r == 0)
		r = judge_path(asking, &bases, path, OP_WRITE);
	strings_release(&bases);
	return r;
}

/* Only for a policy: elsewhere it is the file system that holds. */
static int judge_command(const struct asking *asking,
			 const struct hook_input *input)
{
	struct asking screening = *asking;
	autofree char *cwd = path_normalise(
		asking->bases->s[0], input->directory ? input->directory : "");
	int r;

	screening.shell = true;
	if (!cwd)
		return -ENOMEM;
	if (strchr(input->command, HOOK_NUL_MARK))
		return deny(asking->denial, "the command has a NUL in it");
	r = judge_path(&screening, asking->bases, cwd, OP_READ);
	return r > 0 ? hook_shell_screen(input->command, cwd, judge_in_shell,
					 &screening, &asking->denial->why)
		     : r;
}

static int judge_call(const struct asking *asking,
		      const struct hook_input *input, char **message)
{
	int r = 1;

	for (size_t i = 0; r > 0 && i < input->targets.n; i++) {
		const struct hook_target *target = &input->targets.target[i];

		r = judge_path(asking, asking->bases, target->path, target->op);
		if (r < 0)
			return explain(r, message,
				       "cannot look up '%.300s': "
				       "%s",
				       target->path, strerror(-r));
	}
	if (r > 0 && input->command && asking->rules->has_policy)
		r = judge_command(asking, input);
	return r < 0 ? explain(r, message, "cannot judge the command: %s",
			       strerror(-r))
		     : r;
}

static int find_bases(const struct hook_input *input, struct strings *bases)
{
	autofree char *cwd = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < input->places.n; i++) {
		autofree char *plain = path_normalise("/", input->places.s[i]);

		r = plain ? strings_add(bases, plain) : -ENOMEM;
	}
	if (r < 0 || bases->n > 0)
		return r;
	cwd = getcwd(NULL, 0);
	return cwd && cwd[0] == '/' ? strings_add(bases, cwd) : -ENOENT;
}

static bool has_rules(const struct hook_rules *rules)
{
	return rules->n_sessions > 0 || rules->list.deny.n > 0 ||
	       rules->has_policy;
}

int hook_rules_judge(const struct hook_rules *rules,
		     const struct hook_input *input,
		     struct hook_denial *ret_denial, char **message)
{
	struct hook_denial denial = {0};
	struct strings bases = {0};
	const struct asking asking = {
		.rules = rules, .bases = &bases, .denial = &denial};
	int r;

	if (!has_rules(rules))
		return 1;
	r = find_bases(input, &bases);
	r = r < 0 ? explain(r, message, "cannot find the working directory")
		  : judge_call(&asking, input, message);
	strings_release(&bases);
	if (r == 0)
		*ret_denial = denial;
	else
		hook_denial_release(&denial);
	return r;
}

/*
 * Telling.
 */

static void tell_shared(FILE *out, const struct session_spec *spec)
{
	for (size_t i = 0; i < spec->rules.n; i++) {
		const struct rule *rule = &spec->rules.rule[i];

		if (rule->access != ACCESS_RW || rule->pattern ||
		    !lies_in(rule->path, spec->main) ||
		    lies_in(rule->path, spec->git_dir) ||
		    lies_in(rule->path, spec->worktree))
			continue;
		fprintf(out, "Writable there, too: %s (%s).\n", rule->path,
			rule->reason);
	}
}

static void tell_session(FILE *out, const struct session_spec *spec)
{
	autofree char *work =
		spec->worktree ? seen(spec, spec->worktree) : NULL;

	if (work)
		fprintf(out, "You work in the git worktree %s.\n", work);
	if (spec->worktrees_dir)
		fprintf(out, "Git worktrees that you make belong in %s.\n",
			spec->worktrees_dir);
	if (spec->main)
		fprintf(out,
			"The main checkout %s is read-only: read it, but "
			"change nothing there.\n",
			spec->main);
	if (spec->main && work)
		fprintf(out, "For %s/FILE, change %s/FILE instead.\n",
			spec->main, work);
	tell_shared(out, spec);
	fprintf(out, "Git works as ever: commits, branches, fetch and rebase "
		     "in your worktree.\n");
}

static void tell_list(FILE *out, const struct denylist *list)
{
	for (size_t i = 0; i < list->deny.n; i++)
		fprintf(out, "%s is read-only: change nothing there.\n",
			list->deny.s[i]);
	for (size_t i = 0; i < list->allow.n; i++)
		fprintf(out, "%s may be changed.\n", list->allow.s[i]);
}

static void tell_policy(FILE *out, const struct hook_policy *policy)
{
	for (size_t i = 0; i < policy->allowed.n; i++)
		fprintf(out, "You may work in %s.\n", policy->allowed.s[i]);
	for (size_t i = 0; i < policy->denied.n; i++)
		fprintf(out, "%s is out of bounds.\n", policy->denied.s[i]);
}

char *hook_rules_tell(const struct hook_rules *rules)
{
	char *text = NULL;
	size_t size;
	FILE *out = has_rules(rules) ? open_memstream(&text, &size) : NULL;

	if (!out)
		return NULL;
	for (size_t i = 0; i < rules->n_sessions; i++)
		tell_session(out, &rules->sessions[i].spec);
	tell_list(out, &rules->list);
	if (rules->has_policy)
		tell_policy(out, &rules->policy);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

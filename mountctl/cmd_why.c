#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"
#include "fs/lib/path.h"
#include "mountctl/command.h"
#include "mountctl/control.h"
#include "mountctl/environment.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/report.h"
#include "mountctl/resolve.h"
#include "mountctl/sessions.h"

/* 1 says that it is denied. */
#define STATUS_NO_ANSWER STATUS_USAGE

enum source {
	SOURCE_LIVE,	 /* the filesystem process is asked */
	SOURCE_SNAPSHOT, /* of the session that we are in */
	SOURCE_PLAN,	 /* of a session that isn't */
};

/* Whose rules are asked. */
struct subject {
	enum source source;
	struct sessions sessions;
	struct session_spec own;	 /* unless it is live */
	const struct session_spec *spec; /* own, or of a record */
};

static void subject_release(struct subject *subject)
{
	sessions_release(&subject->sessions);
	session_spec_release(&subject->own);
}

static int find_plan(struct subject *subject,
		     const struct plan_options *options, char **message)
{
	subject->source = SOURCE_PLAN;
	subject->spec = &subject->own;
	return plan_session(options, TIER_ENFORCED, &subject->own, message);
}

/* In the session of that name, or in any? */
static bool find_snapshot(struct subject *subject, const char *name)
{
	struct session_spec spec;

	session_spec_init(&spec);
	if (environment_session(&spec) < 0 ||
	    (name && strcmp(name, spec.name) != 0)) {
		session_spec_release(&spec);
		return false;
	}
	session_spec_release(&subject->own);
	subject->own = spec;
	subject->spec = &subject->own;
	subject->source = SOURCE_SNAPSHOT;
	return true;
}

static int find_named(struct subject *subject, const char *name, char **message)
{
	const struct record *record = sessions_named(&subject->sessions, name);

	if (!record)
		return explain(-ENOENT, message, "there is no session '%s'",
			       name);
	if (!record->live)
		return explain(-ESRCH, message, "the session '%s' is dead",
			       name);
	subject->source = SOURCE_LIVE;
	subject->spec = &record->spec;
	return 0;
}

static int find_here(struct subject *subject,
		     const struct plan_options *options, char **message)
{
	const struct record *record = NULL;
	int r = sessions_here(&subject->sessions, &record, message);

	if (r == -ENOENT || (r == 0 && !record->live))
		return find_plan(subject, options, message);
	if (r < 0)
		return r;
	subject->source = SOURCE_LIVE;
	subject->spec = &record->spec;
	return 0;
}

static int find_subject(struct subject *subject,
			const struct plan_options *options, char **message)
{
	int r = sessions_read(&subject->sessions, message);

	if (r < 0)
		return r;
	if (options->any_rules && options->name)
		return explain(-EINVAL, message,
			       "-n SESSION and RULES exclude each other");
	if (options->any_rules)
		return find_plan(subject, options, message);
	if (find_snapshot(subject, options->name))
		return 0;
	if (options->name)
		return find_named(subject, options->name, message);
	return find_here(subject, options, message);
}

/*
 * Which path is meant: as it is outside of every view.
 */

/* Where it leads. Through the view around us we may look, through others not.
 */
static int resolve(const struct subject *subject, const char *path,
		   char **ret_path, char **message)
{
	autofree char *cwd = NULL;
	struct resolved place = {0};
	int r;

	if (subject->source != SOURCE_SNAPSHOT)
		return sessions_resolve(&subject->sessions, path, ret_path,
					message);
	cwd = getcwd(NULL, 0);
	if (!cwd && path[0] != '/')
		return explain(-ENOENT, message,
			       "cannot find the working directory");
	r = path_resolve(cwd ? cwd : "/", path, NULL, &place);
	if (r < 0)
		return explain(r, message, "cannot look up '%s': %s", path,
			       strerror(-r));
	*ret_path = steal_pointer(&place.path);
	resolved_release(&place);
	return 0;
}

/* Is it the name that the operation is done to, be it a symlink's? */
static bool is_about_name(enum policy_op op)
{
	switch (op) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_REMOVE:
	case OP_REPLACE:
	case OP_LINK_SOURCE:
		return true;
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
	case OP_WRITE:
	case OP_SETATTR:
	case OP_SETTIMES:
	case OP_SETXATTR:
		return false;
	}
	return false;
}

static int resolve_for(const struct subject *subject, enum policy_op op,
		       const char *path, char **ret_path, char **message)
{
	const char *name = path_basename(path);
	autofree char *above = NULL, *dir = NULL;
	int r;

	if (!is_about_name(op) || !name_is_valid(name))
		return resolve(subject, path, ret_path, message);
	above = path_dirname(path);
	if (!above)
		return -ENOMEM;
	r = resolve(subject, above, &dir, message);
	if (r < 0)
		return r;
	*ret_path = path_join(dir, name);
	return *ret_path ? 0 : -ENOMEM;
}

static int find_path(const struct subject *subject, enum policy_op op,
		     const char *given, char **ret_path, char **message)
{
	autofree char *path = NULL, *behind = NULL;
	int r;

	if (given[0] == '\0')
		return explain(-EINVAL, message, "the path is empty");
	r = resolve_for(subject, op, given, &path, message);
	if (r < 0)
		return r;
	behind = session_behind(subject->spec, path);
	if (behind)
		return resolve_for(subject, op, behind, ret_path, message);
	*ret_path = steal_pointer(&path);
	return 0;
}

/*
 * Asking, and telling.
 */

static int ask(const struct subject *subject, const char *path,
	       enum policy_op op, struct explanation *ret, char **message)
{
	const char *name = subject->spec->name;
	int r;

	switch (subject->source) {
	case SOURCE_LIVE:
		r = control_ask_why(name, path, op, ret);
		return r < 0 ? explain(r, message,
				       "cannot ask the session '%s': %s", name,
				       strerror(-r))
			     : 0;
	case SOURCE_SNAPSHOT:
	case SOURCE_PLAN:
		r = explain_session(subject->spec, path, op, ret);
		return r < 0 ? explain(r, message,
				       "cannot read the rules of '%s': %s",
				       name, strerror(-r))
			     : 0;
	}
	return -EINVAL;
}

static const char *verdict_word(const struct explanation *e)
{
	if (!e->allowed)
		return "denied";
	return e->judge != JUDGE_NONE ? "judged" : "allowed";
}

static void print_field(const char *name, const char *text)
{
	autofree char *escaped = text ? text_escape(text) : NULL;

	if (text)
		printf("%-9s %s\n", name, escaped ? escaped : "?");
}

static void print_answer(const struct subject *subject, const char *path,
			 enum policy_op op, const struct explanation *e)
{
	autofree char *escaped = text_escape(path), *rule = NULL;

	printf("%-9s %s %s", verdict_word(e), policy_op_name(op),
	       escaped ? escaped : "?");
	if (!e->allowed)
		printf(": %s", strerrorname_np(-e->error));
	printf("\n");
	if (asprintf(&rule, "%s %s: %s (%s)", access_name(e->access), e->rule,
		     e->reason, origin_name(e->origin)) < 0)
		rule = NULL;
	print_field("rule", rule);
	if (e->judge != JUDGE_NONE)
		print_field("judge", judge_name(e->judge));
	print_field("note", e->note);
	print_field("twin", e->twin);
	if (subject->source != SOURCE_PLAN)
		print_field("session", subject->spec->name);
}

static int answer(const struct subject *subject, const char *given,
		  enum policy_op op, bool json, char **message)
{
	struct explanation explanation = {0};
	autofree char *path = NULL;
	bool allowed;
	int r = find_path(subject, op, given, &path, message);

	if (r == 0)
		r = ask(subject, path, op, &explanation, message);
	if (r < 0)
		return r;
	if (json)
		r = report_why(subject->source == SOURCE_PLAN
				       ? NULL
				       : subject->spec->name,
			       path, op, &explanation);
	else
		print_answer(subject, path, op, &explanation);
	allowed = explanation.allowed;
	explanation_release(&explanation);
	return r < 0 ? r : allowed;
}

static int why(const struct plan_options *options, const char *path,
	       enum policy_op op, bool json)
{
	struct subject subject = {0};
	autofree char *message = NULL;
	int r;

	session_spec_init(&subject.own);
	r = find_subject(&subject, options, &message);
	if (r == 0)
		r = answer(&subject, path, op, json, &message);
	subject_release(&subject);
	if (r < 0) {
		fail_message(r, message);
		return STATUS_NO_ANSWER;
	}
	return r > 0 ? STATUS_OK : STATUS_FAILURE;
}

enum {
	OPT_OP = PLAN_OPT_END,
	OPT_JSON,
};

struct arguments {
	struct plan_options plan;
	enum policy_op op;
	bool json;
};

static int read_option(struct arguments *arguments, int option)
{
	autofree char *message = NULL;
	int r = 0;

	switch (option) {
	case OPT_OP:
		if (policy_op_parse(optarg, &arguments->op) < 0)
			return usage_error("why: unknown operation '%s'; see "
					   "'mountctl why --help'",
					   optarg);
		break;
	case OPT_JSON:
		arguments->json = true;
		break;
	case 'h':
		return STATUS_HELP;
	case '?':
		return STATUS_USAGE;
	default:
		r = plan_option(&arguments->plan, option, optarg, &message);
	}
	if (r < 0)
		fail_message(r, message);
	return r < 0 ? STATUS_NO_ANSWER : STATUS_OK;
}

static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option rows[] = {
		PLAN_LONG_OPTIONS,
		{"op", required_argument, NULL, OPT_OP},
		{"json", no_argument, NULL, OPT_JSON},
		OPTION_ROWS_END,
	};
	int option, status = STATUS_OK;

	while (status == STATUS_OK &&
	       (option = option_next(argc, argv, PLAN_SHORT_OPTIONS "h",
				     rows)) != -1)
		status = read_option(arguments, option);
	return status == STATUS_OK ? operands_check(argc, argv, 1, 1, "a PATH")
				   : status;
}

int cmd_why(int argc, char **argv)
{
	struct arguments arguments = {.op = OP_WRITE};
	int status;

	plan_options_init(&arguments.plan);
	status = read_arguments(argc, argv, &arguments);
	if (status == STATUS_OK)
		status = why(&arguments.plan, argv[optind], arguments.op,
			     arguments.json);
	plan_options_release(&arguments.plan);
	return status;
}

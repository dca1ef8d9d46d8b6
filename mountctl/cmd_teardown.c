#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/dispose.h"
#include "mountctl/environment.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/remains.h"
#include "mountctl/removal.h"
#include "mountctl/report_teardown.h"
#include "mountctl/sessions.h"
#include "mountctl/show_stray.h"

struct teardown {
	struct disposal disposal;
	bool json;
	struct sessions sessions;
	struct remains remains;
	struct stray stray;
	bool has_stray;
	struct holders holders; /* that keep the session */
};

static void teardown_release(struct teardown *t)
{
	stray_release(&t->stray);
	disposal_release(&t->disposal);
	holders_release(&t->holders);
	remains_release(&t->remains);
	sessions_release(&t->sessions);
}

/*
 * What there is, before anything is done.
 */

static int look_for_strays(struct teardown *t)
{
	const struct remains *remains = &t->remains;
	const struct session_spec *spec = remains_spec(remains);
	int r;

	if (!spec || !spec->git_dir)
		return 0;
	r = stray_look(spec, remains->has_baseline ? &remains->baseline : NULL,
		       &t->stray);
	t->has_stray = r == 0;
	return r;
}

static void show(const struct teardown *t)
{
	if (t->json)
		return;
	if (t->has_stray)
		show_stray(&t->stray);
	if (t->remains.worktree) {
		autofree char *path = text_escape(t->remains.worktree);

		printf("worktree    %s\n", path ? path : "?");
	}
}

/* What was done, for people. */
static void show_end(const struct teardown *t)
{
	const struct disposal *d = &t->disposal;
	autofree char *branch = d->branch ? text_escape(d->branch) : NULL;

	if (t->json)
		return;
	if (d->ended && t->remains.name)
		printf("ended       %s\n", t->remains.name);
	if (d->removed)
		printf("removed     the worktree%s%s\n",
		       branch ? "; its branch stays: " : "",
		       branch ? branch : "");
}

static int tear_down(struct teardown *t)
{
	int status, r = look_for_strays(t);

	if (r < 0)
		return fail_message(r, NULL);
	show(t);
	status = disposal_look(&t->disposal);
	disposal_list(&t->disposal);
	if (status == STATUS_OK)
		status = dispose(&t->disposal);
	show_end(t);
	return status;
}

/* Nothing that has a name; but a removal may have been broken off. */
static int nothing(struct teardown *t, const char *operand)
{
	const char *path = t->remains.path;
	autofree char *message = NULL;
	int r = 0;

	if (path && t->disposal.remove)
		r = removal_finish(path, &message);
	if (r < 0)
		return fail_message(r, message);
	say("'%s' is neither a session nor a worktree: there is nothing to "
	    "tear down",
	    operand);
	return STATUS_OK;
}

static int report(const struct teardown *t, int status)
{
	const struct disposal *d = &t->disposal;
	const struct teardown_report report = {
		.session = t->remains.name,
		.worktree = t->remains.worktree,
		.branch = d->branch,
		.stray = t->has_stray ? &t->stray : NULL,
		.unsaved = d->has_unsaved ? &d->unsaved : NULL,
		.holders = &t->holders,
		.ended = d->ended,
		.removed = d->removed,
	};
	int r = report_teardown(&report);

	return r < 0 ? fail_message(r, NULL) : status;
}

static int teardown(struct teardown *t, const char *operand)
{
	autofree char *message = NULL;
	int status, r = sessions_read(&t->sessions, &message);

	if (r == 0)
		r = remains_find(&t->sessions, operand, &t->remains, &message);
	if (r < 0 && r != -ENOENT)
		return fail_message(r, message);
	status = r == 0 ? tear_down(t) : nothing(t, operand);
	return t->json ? report(t, status) : status;
}

/* Of the guard's making, what is around can't be taken apart from inside. */
static bool is_inside(void)
{
	struct session_spec spec;

	if (environment_session(&spec) < 0)
		return false;
	session_spec_release(&spec);
	return true;
}

static int take_options(int argc, char **argv, struct teardown *t)
{
	struct disposal *d = &t->disposal;
	static const struct option rows[] = {
		{"remove-worktree", no_argument, NULL, 'r'},
		{"force", no_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"lazy", no_argument, NULL, 'z'},
		{"timeout", required_argument, NULL, 't'},
		OPTION_ROWS_END,
	};
	int option;

	while ((option = option_next(argc, argv, "hfz", rows)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		d->remove |= option == 'r';
		d->force |= option == 'f';
		t->json |= option == 'j';
		d->dismissal.lazy |= option == 'z';
		if (option == 't' &&
		    timeout_parse(optarg, &d->dismissal.timeout_ms) < 0)
			return usage_error("teardown: '%s' isn't a number of "
					   "seconds",
					   optarg);
	}
	d->list = t->json ? NULL : stdout;
	if (d->force && !d->remove)
		return usage_error("teardown: --force is for "
				   "--remove-worktree");
	return operands_check(argc, argv, 1, 1, "a session or a directory");
}

int cmd_teardown(int argc, char **argv)
{
	struct teardown t = {
		.disposal =
			{
				.sessions = &t.sessions,
				.remains = &t.remains,
				.dismissal = {.timeout_ms =
						      DISMISS_TIMEOUT * 1000,
					      .command = "teardown",
					      .holders = &t.holders},
				.forcing = "--force",
			},
	};
	int status;

	remains_init(&t.remains);
	status = take_options(argc, argv, &t);
	if (status == STATUS_OK && is_inside()) {
		say("a session is torn down from outside of it");
		status = STATUS_FAILURE;
	}
	if (status == STATUS_OK)
		status = teardown(&t, argv[optind]);
	teardown_release(&t);
	return status;
}

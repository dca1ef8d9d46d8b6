#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/path.h"
#include "mountctl/clock.h"
#include "mountctl/command.h"
#include "mountctl/dismiss.h"
#include "mountctl/environment.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/remains.h"
#include "mountctl/removal.h"
#include "mountctl/report_teardown.h"
#include "mountctl/sessions.h"
#include "mountctl/show_stray.h"
#include "mountctl/show_unsaved.h"

/* Between two looks at a lock, in milliseconds, and how long to look. */
#define PAUSE_MS 20
#define UNLOCK_MS 2000

struct teardown {
	struct dismissal dismissal;
	bool remove;
	bool force;
	bool json;
	struct sessions sessions;
	struct remains remains;
	struct stray stray;
	bool has_stray;
	struct unsaved unsaved;
	bool has_unsaved;
	char *branch; /* short, or NULL */
	bool ended, removed;
};

static void teardown_release(struct teardown *t)
{
	stray_release(&t->stray);
	unsaved_release(&t->unsaved);
	free(t->branch);
	remains_release(&t->remains);
	sessions_release(&t->sessions);
}

/*
 * Looking.
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

/* Short, as people say it. */
static int find_branch(struct teardown *t)
{
	static const char heads[] = "refs/heads/";
	const struct remains *remains = &t->remains;
	const char *branch = remains->repo.worktrees[remains->index].branch;

	free(t->branch);
	t->branch = NULL;
	if (!branch)
		return 0;
	if (strncmp(branch, heads, strlen(heads)) == 0)
		branch += strlen(heads);
	t->branch = strdup(branch);
	return t->branch ? 0 : -ENOMEM;
}

/* 0, also where there is no worktree; or -errno with a message. */
static int look_for_work(struct teardown *t, char **message)
{
	const struct remains *remains = &t->remains;
	struct worktree_place place;
	int r;

	unsaved_release(&t->unsaved);
	t->has_unsaved = false;
	if (remains->index < 0)
		return 0;
	r = find_branch(t);
	if (r < 0)
		return r;
	place = (struct worktree_place){
		.worktree = remains->worktree,
		.admin_dir = remains->admin_dir,
		.branch = t->branch,
		.exists = remains_has_directory(remains),
		.has_main = remains->repo.main,
	};
	r = gitrepo_check_owner(&remains->repo, message);
	if (r == 0)
		r = unsaved_look(&place, &t->unsaved, message);
	t->has_unsaved = r == 0;
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
	if (t->has_unsaved)
		show_unsaved(&t->unsaved, t->branch);
}

/* What was done, for people. */
static void show_end(const struct teardown *t)
{
	const struct remains *remains = &t->remains;
	autofree char *branch = t->branch ? text_escape(t->branch) : NULL;

	if (t->json)
		return;
	if (t->ended && remains->name)
		printf("ended       %s\n", remains->name);
	if (t->removed)
		printf("removed     the worktree%s%s\n",
		       branch ? "; its branch stays: " : "",
		       branch ? branch : "");
}

/* An exit status. What is unsaved is no matter where nothing is removed. */
static int look(struct teardown *t)
{
	autofree char *message = NULL;
	int r = look_for_strays(t);

	if (r < 0)
		return fail_message(r, message);
	r = look_for_work(t, &message);
	show(t);
	if (r == 0)
		return STATUS_OK;
	if (t->remove && !t->force) {
		say("'%s' stays: whether there is work in it can't be told; "
		    "--force removes it all the same",
		    t->remains.worktree);
		detail("%s", message ? message : strerror(-r));
		return STATUS_FAILURE;
	}
	warn("cannot tell what work there is in '%s': %s", t->remains.worktree,
	     message ? message : strerror(-r));
	return STATUS_OK;
}

/*
 * Whether the worktree may go.
 */

static int check_others(const struct teardown *t)
{
	const struct remains *remains = &t->remains;

	for (size_t i = 0; i < t->sessions.n; i++) {
		const struct record *record = &t->sessions.record[i];
		const char *worktree = record->spec.worktree;

		if (record == remains->record || !record->live || !worktree ||
		    !path_starts_with(worktree, remains->worktree, NULL))
			continue;
		say("'%s' stays: the session '%s' works in it, too",
		    remains->worktree, record->spec.name);
		return STATUS_FAILURE;
	}
	return STATUS_OK;
}

static int check_work(const struct teardown *t)
{
	if (t->force || !t->has_unsaved || t->unsaved.n == 0)
		return STATUS_OK;
	say("'%s' stays: there is unsaved work in it; --force removes it all "
	    "the same",
	    t->remains.worktree);
	if (!unsaved_is_lost(&t->unsaved))
		detail("nothing of it would be lost: what there is is kept by "
		       "the repository");
	return STATUS_UNSAVED;
}

/* An exit status. session: whose lock on it doesn't count; or NULL. */
static int check_removal(const struct teardown *t, const char *session)
{
	const struct remains *remains = &t->remains;
	autofree char *message = NULL;
	int status, r;

	if (!remains->worktree) {
		say("session '%s' has no worktree of its own to remove",
		    remains->name ? remains->name : "?");
		return STATUS_USAGE;
	}
	if (remains->index < 0 && remains_has_directory(remains)) {
		say("'%s' stays: the repository doesn't know it as a worktree",
		    remains->worktree);
		return STATUS_FAILURE;
	}
	if (remains->index < 0)
		return STATUS_OK;
	status = check_others(t);
	if (status != STATUS_OK)
		return status;
	r = removal_check(&remains->repo, remains->index, remains->worktree,
			  session, &message);
	return r < 0 ? fail_message(r, message) : check_work(t);
}

/*
 * Ending.
 */

static int end_mounts_of(const struct teardown *t,
			 const struct view_mounts *mounts,
			 const struct session_spec *spec)
{
	int status = STATUS_OK;

	for (size_t i = spec->n_views; status == STATUS_OK && i > 0; i--) {
		const char *mountpoint = spec->views[i - 1].mountpoint;

		if (mountpoint && !sessions_showing(&t->sessions, mountpoint) &&
		    view_mounts_at(mounts, mountpoint))
			status = dismiss_mount(mountpoint, &t->dismissal);
	}
	return status;
}

/* Views whose record is gone. Only what is mounted as one is unmounted. */
static int end_mounts(const struct teardown *t)
{
	const struct session_spec *spec = remains_spec(&t->remains);
	struct view_mounts mounts = {0};
	int status, r;

	if (t->remains.view)
		return dismiss_mount(t->remains.view, &t->dismissal);
	if (!spec || spec->tier != TIER_VIEW)
		return STATUS_OK;
	r = view_mounts_read(0, &mounts);
	if (r < 0)
		return fail(r, "cannot read the mounts");
	status = end_mounts_of(t, &mounts, spec);
	view_mounts_release(&mounts);
	return status;
}

static int end(struct teardown *t)
{
	const struct remains *remains = &t->remains;
	int status = STATUS_OK;

	if (remains->record)
		status = dismiss_record(&t->sessions, remains->record,
					&t->dismissal);
	else if (remains->unreadable)
		status = dismiss_unreadable(remains->name);
	if (status == STATUS_OK && !remains->record)
		status = end_mounts(t);
	t->ended = status == STATUS_OK;
	return status;
}

/*
 * Removing.
 */

/*
 * A filesystem process that nobody has a record of takes its lock away when it
 * ends. What one has left that was killed is taken away here.
 */
static int await_unlocked(struct teardown *t, char **message)
{
	struct remains *remains = &t->remains;
	int64_t deadline = now_ms() + UNLOCK_MS;

	for (;;) {
		int r = worktree_unlock_left(remains->repo.git_dir,
					     remains->admin_dir);

		if (r < 0)
			return explain(r, message, "cannot unlock '%s': %s",
				       remains->worktree, strerror(-r));
		r = remains_refresh(remains, message);
		if (r < 0 || remains->index < 0 ||
		    !remains->repo.worktrees[remains->index].locked ||
		    now_ms() >= deadline)
			return r;
		sleep_ms(PAUSE_MS);
	}
}

/* Looks again at what a session may have done while it was being ended. */
static int check_again(struct teardown *t)
{
	autofree char *message = NULL;
	int r = t->remains.index < 0 ? 0 : await_unlocked(t, &message);

	if (r == 0 && t->remains.record && t->remains.record->live) {
		r = look_for_work(t, &message);
		if (r == 0 && !t->force && t->unsaved.n > 0)
			show(t);
	}
	if (r < 0 && !t->force)
		return fail_message(r, message);
	return check_removal(t, NULL);
}

static int remove_worktree(struct teardown *t)
{
	const struct remains *remains = &t->remains;
	autofree char *message = NULL;
	int status = check_again(t);
	int r;

	if (status != STATUS_OK)
		return status;
	/* Where the repository is gone, so is what it knew. */
	r = remains->has_repo
		    ? removal_do(remains->repo.git_dir, remains->worktree,
				 remains->admin_dir, &message)
		    : removal_finish(remains->worktree, &message);
	if (r < 0)
		return fail_message(r, message);
	t->removed = true;
	return STATUS_OK;
}

/* What it was about is worth knowing while there is a worktree to remove. */
static void forget(const struct teardown *t)
{
	const struct remains *remains = &t->remains;

	if (remains->has_baseline &&
	    (t->removed || !remains_has_directory(remains)))
		baseline_drop(remains->baseline.spec.state_dir);
}

static int tear_down(struct teardown *t)
{
	int status = look(t);

	if (status == STATUS_OK && t->remove)
		status = check_removal(t, t->remains.name);
	if (status == STATUS_OK)
		status = end(t);
	if (status == STATUS_OK && t->remove)
		status = remove_worktree(t);
	if (status == STATUS_OK)
		forget(t);
	show_end(t);
	return status;
}

/* Nothing that has a name; but a removal may have been broken off. */
static int nothing(struct teardown *t, const char *operand)
{
	const char *path = t->remains.path;
	autofree char *message = NULL;
	int r = 0;

	if (path && t->remove)
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
	const struct teardown_report report = {
		.session = t->remains.name,
		.worktree = t->remains.worktree,
		.branch = t->branch,
		.stray = t->has_stray ? &t->stray : NULL,
		.unsaved = t->has_unsaved ? &t->unsaved : NULL,
		.ended = t->ended,
		.removed = t->removed,
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
		t->remove |= option == 'r';
		t->force |= option == 'f';
		t->json |= option == 'j';
		t->dismissal.lazy |= option == 'z';
		if (option == 't' &&
		    timeout_parse(optarg, &t->dismissal.timeout_ms) < 0)
			return usage_error("teardown: '%s' isn't a number of "
					   "seconds",
					   optarg);
	}
	if (t->force && !t->remove)
		return usage_error("teardown: --force is for "
				   "--remove-worktree");
	return operands_check(argc, argv, 1, 1, "a session or a directory");
}

int cmd_teardown(int argc, char **argv)
{
	struct teardown t = {
		.dismissal = {.timeout_ms = DISMISS_TIMEOUT * 1000},
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

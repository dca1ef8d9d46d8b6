#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/record.h"
#include "mountctl/baseline.h"
#include "mountctl/command.h"
#include "mountctl/ending.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/report_prune.h"
#include "mountctl/sessions.h"
#include "mountctl/stalelocks.h"

/* How long a view may take to answer before it is left alone. */
#define PROBE_MS 3000

struct prune {
	bool locks;   /* remove git's lock files, too */
	bool dry_run; /* only tell what there is */
	bool json;
	struct sessions sessions;
	struct prune_report found;
	bool failed; /* something could not be done, and that was said */
};

static void prune_release(struct prune *p)
{
	sessions_release(&p->sessions);
	strings_release(&p->found.sessions);
	strings_release(&p->found.mounts);
	strings_release(&p->found.worktrees);
	stale_locks_release(&p->found.locks);
}

/* What can't be done is said, and the rest goes on. */
static void note_failure(struct prune *p, int r, const char *message)
{
	fail_message(r, message);
	p->failed = true;
}

/*
 * Records of dead sessions.
 */

static int prune_records(struct prune *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->sessions.n; i++) {
		const struct record *record = &p->sessions.record[i];
		autofree char *message = NULL;
		int cleared;

		if (record->live)
			continue;
		cleared = p->dry_run ? 0 : session_clear(record, &message);
		if (cleared < 0)
			note_failure(p, cleared, message);
		else
			r = strings_add(&p->found.sessions, record->spec.name);
	}
	return r;
}

/* Directories without a record: what was killed while it was starting, say. */
static int prune_directory(struct prune *p, const char *name)
{
	autofree char *message = NULL;
	int r;

	if (sessions_named(&p->sessions, name))
		return 0;
	if (record_is_held(name)) {
		if (strings_contain(&p->sessions.unreadable, name))
			warn("the record of session '%s' can't be read, and a "
			     "process holds it: it stays",
			     name);
		return 0;
	}
	r = p->dry_run ? 0 : session_clear_unreadable(name, &message);
	if (r == 0)
		return strings_add(&p->found.sessions, name);
	note_failure(p, r, message);
	return 0;
}

static int prune_directories(struct prune *p)
{
	struct strings names = {0};
	int r = record_list(&names);

	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = prune_directory(p, names.s[i]);
	strings_release(&names);
	return r;
}

/*
 * Views that nobody serves any more and that no record names.
 */

static bool is_dead(const struct prune *p, const struct view_mount *mount)
{
	const struct record *record =
		sessions_showing(&p->sessions, mount->mountpoint);
	int r;

	if (mount->hidden || mount->owner != geteuid() ||
	    (record && record->live))
		return false;
	/* Dead records have had theirs; on a dry run they are told as such. */
	if (record && p->dry_run)
		return false;
	r = mount_probe(mount->mountpoint, PROBE_MS);
	if (r == -ETIMEDOUT)
		warn("the view at '%s' doesn't answer: it stays",
		     mount->mountpoint);
	return r == -ENOTCONN || r == -ECONNABORTED;
}

static int prune_mounts(struct prune *p)
{
	struct view_mounts mounts = {0};
	int r = view_mounts_read(0, &mounts);

	for (size_t i = mounts.n; r == 0 && i > 0; i--) {
		const struct view_mount *mount = &mounts.mount[i - 1];
		autofree char *message = NULL;
		int detached = 0;

		if (!is_dead(p, mount))
			continue;
		if (!p->dry_run)
			detached =
				mount_detach(mount->mountpoint, true, &message);
		if (detached < 0)
			note_failure(p, detached, message);
		else
			r = strings_add(&p->found.mounts, mount->mountpoint);
	}
	view_mounts_release(&mounts);
	return r;
}

/*
 * What dead sessions have left in repositories.
 */

static bool is_same(const char *x, const char *y)
{
	return x && y && strcmp(x, y) == 0;
}

/* Is there no live session about the same repository? */
static bool is_alone(const struct prune *p, const struct session_spec *spec)
{
	for (size_t i = 0; i < p->sessions.n; i++) {
		const struct record *record = &p->sessions.record[i];

		if (record->live &&
		    is_same(record->spec.git_dir, spec->git_dir))
			return false;
	}
	return true;
}

static bool is_worked_in(const struct prune *p, const struct session_spec *spec)
{
	for (size_t i = 0; i < p->sessions.n; i++) {
		const struct record *record = &p->sessions.record[i];

		if (record->live &&
		    is_same(record->spec.admin_dir, spec->admin_dir))
			return true;
	}
	return false;
}

static int prune_worktree_lock(struct prune *p, const struct session_spec *spec)
{
	autofree char *reason = NULL;
	int r;

	if (!spec->git_dir || !spec->admin_dir)
		return 0;
	r = p->dry_run ? worktree_lock_left(spec->git_dir, spec->admin_dir,
					    &reason)
		       : worktree_unlock_left(spec->git_dir, spec->admin_dir);
	if (r == -ENOMEM)
		return r;
	/* A repository that is gone, or not ours any more, has none. */
	if (r <= 0 || strings_contain(&p->found.worktrees, spec->worktree))
		return 0;
	return strings_add(&p->found.worktrees, spec->worktree);
}

static int prune_repository(struct prune *p, const struct session_spec *spec,
			    time_t since)
{
	int r = prune_worktree_lock(p, spec);

	if (r < 0 || is_worked_in(p, spec))
		return r;
	return stale_locks_find(spec, since, is_alone(p, spec),
				&p->found.locks);
}

/* Worth knowing only while there is something left to tear down. */
static void forget(const struct prune *p, const struct session_spec *spec)
{
	bool gone = spec->worktree
			    ? access(spec->worktree, F_OK) < 0 &&
				      access(spec->admin_dir, F_OK) < 0
			    : spec->git_dir && access(spec->git_dir, F_OK) < 0;

	if (gone && !p->dry_run)
		baseline_drop(spec->state_dir);
}

static int prune_remembered(struct prune *p, const char *name)
{
	const struct record *record = sessions_named(&p->sessions, name);
	struct baseline baseline;
	int r;

	if ((record && record->live) || record_is_held(name) ||
	    baseline_read_named(name, &baseline) < 0)
		return 0;
	r = prune_repository(p, &baseline.spec, baseline.taken);
	if (r == 0)
		forget(p, &baseline.spec);
	baseline_release(&baseline);
	return r;
}

static int prune_repositories(struct prune *p)
{
	struct strings names = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->sessions.n; i++) {
		const struct record *record = &p->sessions.record[i];

		if (!record->live)
			r = prune_repository(p, &record->spec, record->since);
	}
	if (r == 0)
		r = baseline_list(&names);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = prune_remembered(p, names.s[i]);
	strings_release(&names);
	return r;
}

static void remove_locks(struct prune *p)
{
	autofree char *message = NULL;
	int r;

	if (!p->locks || p->dry_run)
		return;
	r = stale_locks_remove(&p->found.locks, &message);
	if (r < 0)
		note_failure(p, r, message);
}

/*
 * Telling.
 */

static void print_all(const char *format, const struct strings *names)
{
	for (size_t i = 0; i < names->n; i++) {
		autofree char *name = text_escape(names->s[i]);

		printf("%-10s  %s\n", format, name ? name : "?");
	}
}

static void print_lock(const struct stale_lock *lock)
{
	autofree char *path = text_escape(lock->path);

	printf("%-10s  %s  (session %s%s)\n", "lock file", path ? path : "?",
	       lock->session,
	       lock->removed  ? ""
	       : lock->in_use ? "; perhaps in use: it stays"
			      : "; it stays: --locks removes it");
}

static bool is_nothing(const struct prune_report *found)
{
	return found->sessions.n + found->mounts.n + found->worktrees.n +
		       found->locks.n ==
	       0;
}

static int show(const struct prune *p)
{
	const struct prune_report *found = &p->found;

	if (p->json)
		return report_prune(found);
	print_all("session", &found->sessions);
	print_all("view", &found->mounts);
	print_all("locked", &found->worktrees);
	for (size_t i = 0; i < found->locks.n; i++)
		print_lock(&found->locks.lock[i]);
	if (is_nothing(found) && !p->failed)
		say("there is nothing to clear away");
	return 0;
}

static int prune(struct prune *p)
{
	autofree char *message = NULL;
	int r = sessions_read(&p->sessions, &message);

	if (r == 0)
		r = prune_records(p);
	if (r == 0)
		r = prune_directories(p);
	if (r == 0)
		r = prune_mounts(p);
	if (r == 0)
		r = prune_repositories(p);
	if (r == 0)
		remove_locks(p);
	if (r == 0)
		r = show(p);
	if (r < 0)
		return fail_message(r, message);
	return p->failed ? STATUS_FAILURE : STATUS_OK;
}

int cmd_prune(int argc, char **argv)
{
	static const struct option rows[] = {
		{"locks", no_argument, NULL, 'l'},
		{"dry-run", no_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},
		OPTION_ROWS_END,
	};
	struct prune p = {0};
	int option, status;

	while ((option = option_next(argc, argv, "hn", rows)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		p.locks |= option == 'l';
		p.dry_run |= option == 'n';
		p.json |= option == 'j';
	}
	if (operands_check(argc, argv, 0, 0, "") != 0)
		return STATUS_USAGE;
	p.found.dry_run = p.dry_run;
	status = prune(&p);
	prune_release(&p);
	return status;
}

#include "mountctl/dispose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/path.h"
#include "mountctl/clock.h"
#include "mountctl/command.h"
#include "mountctl/output.h"
#include "mountctl/removal.h"
#include "mountctl/show_unsaved.h"

/* Between two looks at a lock, in milliseconds, and how long to look. */
#define PAUSE_MS 20
#define UNLOCK_MS 2000

void disposal_release(struct disposal *disposal)
{
	unsaved_release(&disposal->unsaved);
	free(disposal->branch);
	*disposal = (struct disposal){0};
}

/*
 * Looking.
 */

/* Short, as people say it. */
static int find_branch(struct disposal *d)
{
	static const char heads[] = "refs/heads/";
	const struct remains *remains = d->remains;
	const char *branch = remains->repo.worktrees[remains->index].branch;

	free(d->branch);
	d->branch = NULL;
	if (!branch)
		return 0;
	if (strncmp(branch, heads, strlen(heads)) == 0)
		branch += strlen(heads);
	d->branch = strdup(branch);
	return d->branch ? 0 : -ENOMEM;
}

/* 0, also where there is no worktree; or -errno with a message. */
static int look_for_work(struct disposal *d, char **message)
{
	const struct remains *remains = d->remains;
	struct worktree_place place;
	int r;

	unsaved_release(&d->unsaved);
	d->has_unsaved = false;
	d->is_listed = false;
	if (remains->index < 0)
		return 0;
	r = find_branch(d);
	if (r < 0)
		return r;
	place = (struct worktree_place){
		.worktree = remains->worktree,
		.admin_dir = remains->admin_dir,
		.branch = d->branch,
		.exists = remains_has_directory(remains),
		.has_main = remains->repo.main,
	};
	r = gitrepo_check_owner(&remains->repo, message);
	if (r == 0)
		r = unsaved_look(&place, &d->unsaved, message);
	d->has_unsaved = r == 0;
	return r;
}

int disposal_look(struct disposal *d)
{
	autofree char *message = NULL;
	int r = look_for_work(d, &message);

	if (r == 0)
		return STATUS_OK;
	if (d->remove && !d->force) {
		say("'%s' stays: whether there is work in it can't be told; "
		    "%s removes it all the same",
		    d->remains->worktree, d->forcing);
		detail("%s", message ? message : strerror(-r));
		return STATUS_FAILURE;
	}
	warn("cannot tell what work there is in '%s': %s", d->remains->worktree,
	     message ? message : strerror(-r));
	return STATUS_OK;
}

void disposal_list(struct disposal *d)
{
	if (d->list && d->has_unsaved && !d->is_listed)
		show_unsaved(d->list, &d->unsaved, d->branch);
	d->is_listed = true;
}

/*
 * Whether the worktree may go.
 */

static int check_others(const struct disposal *d)
{
	const struct remains *remains = d->remains;

	for (size_t i = 0; i < d->sessions->n; i++) {
		const struct record *record = &d->sessions->record[i];
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

static int check_work(struct disposal *d)
{
	bool lost = d->has_unsaved && unsaved_is_lost(&d->unsaved);

	if (d->force || !d->has_unsaved || d->unsaved.n == 0 ||
	    (d->leaves_kept && !lost))
		return STATUS_OK;
	say("'%s' stays: there is unsaved work in it; %s removes it all the "
	    "same",
	    d->remains->worktree, d->forcing);
	if (!lost)
		detail("nothing of it would be lost: what there is is kept by "
		       "the repository");
	disposal_list(d);
	return STATUS_UNSAVED;
}

/* session: whose lock on it doesn't count; or NULL. */
static int check_removal(struct disposal *d, const char *session)
{
	const struct remains *remains = d->remains;
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
	status = check_others(d);
	if (status != STATUS_OK)
		return status;
	r = removal_check(&remains->repo, remains->index, remains->worktree,
			  session, &message);
	return r < 0 ? fail_message(r, message) : check_work(d);
}

/*
 * Ending.
 */

static int end_mounts_of(const struct disposal *d,
			 const struct view_mounts *mounts,
			 const struct session_spec *spec)
{
	int status = STATUS_OK;

	for (size_t i = spec->n_views; status == STATUS_OK && i > 0; i--) {
		const char *mountpoint = spec->views[i - 1].mountpoint;

		if (mountpoint && !sessions_showing(d->sessions, mountpoint) &&
		    view_mounts_at(mounts, mountpoint))
			status = dismiss_mount(mountpoint, &d->dismissal);
	}
	return status;
}

/* Views whose record is gone. Only what is mounted as one is unmounted. */
static int end_mounts(const struct disposal *d)
{
	const struct session_spec *spec = remains_spec(d->remains);
	struct view_mounts mounts = {0};
	int status, r;

	if (d->remains->view)
		return dismiss_mount(d->remains->view, &d->dismissal);
	if (!spec || spec->tier != TIER_VIEW)
		return STATUS_OK;
	r = view_mounts_read(0, &mounts);
	if (r < 0)
		return fail(r, "cannot read the mounts");
	status = end_mounts_of(d, &mounts, spec);
	view_mounts_release(&mounts);
	return status;
}

/* Is it of a session that has a record here? */
static bool is_recorded(const struct disposal *d, pid_t pid)
{
	for (size_t i = 0; i < d->sessions->n; i++) {
		const struct record *record = &d->sessions->record[i];

		if (record->live && record->pid == pid)
			return true;
	}
	return false;
}

/*
 * What isn't found isn't ended: a session that lives with another runtime
 * directory, or in another mount namespace, has its lock on the worktree. (One
 * that is just ending takes it away.)
 */
static int check_lock(const struct disposal *d)
{
	const struct remains *remains = d->remains;
	int64_t deadline = now_ms() + UNLOCK_MS;
	pid_t pid;

	if (!remains->has_repo || !remains->admin_dir)
		return STATUS_OK;
	while (worktree_lock_holder(remains->repo.git_dir, remains->admin_dir,
				    &pid) > 0 &&
	       !is_recorded(d, pid)) {
		if (now_ms() >= deadline) {
			say("a session works in '%s' that can't be seen from "
			    "here: its filesystem process is %ld; it has "
			    "another XDG_RUNTIME_DIR, or is of another "
			    "namespace",
			    remains->worktree, (long)pid);
			return STATUS_FAILURE;
		}
		sleep_ms(PAUSE_MS);
	}
	return STATUS_OK;
}

static int end_unrecorded(const struct disposal *d)
{
	int status = d->remains->unreadable
			     ? dismiss_unreadable(d->remains->name)
			     : STATUS_OK;

	if (status == STATUS_OK)
		status = end_mounts(d);
	return status == STATUS_OK ? check_lock(d) : status;
}

static int end(struct disposal *d)
{
	const struct remains *remains = d->remains;
	int status = remains->record
			     ? dismiss_record(d->sessions, remains->record,
					      &d->dismissal)
			     : end_unrecorded(d);

	d->ended = status == STATUS_OK;
	if (!d->ended && d->remove)
		say("'%s' stays, too", remains->worktree);
	return status;
}

/*
 * Removing.
 */

/*
 * A filesystem process that nobody has a record of takes its lock away when it
 * ends. What one has left that was killed is taken away here.
 */
static int await_unlocked(struct remains *remains, char **message)
{
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
static int check_again(struct disposal *d)
{
	autofree char *message = NULL;
	int r = d->remains->index < 0 ? 0
				      : await_unlocked(d->remains, &message);

	if (r == 0 && d->remains->record && d->remains->record->live)
		r = look_for_work(d, &message);
	if (r < 0 && !d->force)
		return fail_message(r, message);
	return check_removal(d, NULL);
}

static int remove_worktree(struct disposal *d)
{
	const struct remains *remains = d->remains;
	autofree char *message = NULL;
	int status = check_again(d);
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
	d->removed = true;
	if (d->leaves_kept)
		disposal_list(d);
	return STATUS_OK;
}

/* What it was about is worth knowing while there is a worktree to remove. */
static void forget(const struct disposal *d)
{
	const struct remains *remains = d->remains;

	if (remains->has_baseline &&
	    (d->removed || !remains_has_directory(remains)))
		baseline_drop(remains->baseline.spec.state_dir);
}

int dispose(struct disposal *d)
{
	int status = d->remove ? check_removal(d, d->remains->name) : STATUS_OK;

	if (status == STATUS_OK)
		status = end(d);
	if (status == STATUS_OK && d->remove)
		status = remove_worktree(d);
	if (status == STATUS_OK)
		forget(d);
	return status;
}

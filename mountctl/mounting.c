#include "mountctl/mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/wire.h"
#include "mountctl/baseline.h"
#include "mountctl/clock.h"
#include "mountctl/ending.h"
#include "mountctl/mountpoints.h"
#include "mountctl/mounts.h"
#include "mountctl/namespace.h"
#include "mountctl/output.h"
#include "mountctl/server.h"
#include "mountctl/sessions.h"

/* How long the first look at a view may take. */
#define PROBE_MS 60000

/*
 * How long to wait for the recorded state of the main checkout: from here on
 * there are paths to it that no guard covers.
 */
#define BASELINE_MS 2000

/* How long the end of a broken set-up may take. */
#define END_MS 5000

/* A set-up under way, and what has to go if it is broken off. */
struct job {
	struct session_spec *spec; /* borrowed */
	char *dir;  /* the session's directory; NULL: unclaimed */
	char *made; /* mount point that was made elsewhere */
	int dir_fd;
	int lock_fd;
	int sock;
	int baseline; /* ends when the state of main is recorded */
	char **message;
};

sigset_t mounting_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return set;
}

static bool is_interrupted(void)
{
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return false;
	return sigismember(&pending, SIGINT) ||
	       sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP);
}

/*
 * Setting up.
 */

static int claim(struct job *job)
{
	const char *name = job->spec->name;
	int r = record_claim(name, &job->dir_fd, &job->lock_fd, &job->dir);

	if (r == -EEXIST)
		return explain(r, job->message,
			       "session '%s' is just being started by "
			       "somebody else",
			       name);
	if (r == -EPERM)
		return explain(r, job->message,
			       "the directory of sessions isn't yours alone");
	if (r == -EBUSY)
		return explain(r, job->message,
			       "a view is still mounted in the directory of "
			       "session '%s'; 'mountctl unmount %s' clears it "
			       "away",
			       name, name);
	if (r < 0)
		return explain(r, job->message,
			       "cannot start a record of session '%s': %s",
			       name, strerror(-r));
	return 0;
}

static int open_roots(const struct session_spec *spec, int *roots,
		      char **message)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const char *root = spec->views[i].root;

		roots[i] = open(root,
				O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (roots[i] < 0) {
			int r = -errno;

			return explain(r, message, "cannot open '%s': %s", root,
				       strerror(-r));
		}
	}
	return 0;
}

/* libfuse, and fusermount3 below it, tell the log why they can't. */
static int serve(struct job *job)
{
	autofree char *why = NULL;
	int r = server_serve(job->sock, NULL, 0, &why);

	if (r < 0)
		return explain(r, job->message,
			       "%s; '%s/worktreefs.log' may tell more",
			       why ? why : strerror(-r), job->spec->state_dir);
	return 0;
}

/* The commonest cause, in words that libfuse doesn't have. */
static int check_device(struct job *job)
{
	autofd int fd = namespace_open_fuse(job->message);

	return fd < 0 ? fd : 0;
}

static int start_server(struct job *job)
{
	int roots[WIRE_MAX_FDS];
	int r;

	for (size_t i = 0; i < WIRE_MAX_FDS; i++)
		roots[i] = -1;
	r = open_roots(job->spec, roots, job->message);
	if (r == 0)
		r = server_start(job->spec, job->dir_fd, job->lock_fd, job->dir,
				 roots, &job->sock, job->message);
	for (size_t i = 0; i < WIRE_MAX_FDS; i++)
		cleanup_fdp(&roots[i]);
	if (r < 0)
		return r;
	baseline_start(job->spec, &job->baseline);
	return serve(job);
}

static int probe(const char *mountpoint, char **message)
{
	int r = mount_probe(mountpoint, PROBE_MS);

	return r < 0 ? explain(r, message,
			       "the view at '%s' doesn't answer: %s",
			       mountpoint, strerror(-r))
		     : 0;
}

static int find_devices(const struct session_spec *spec,
			struct strings *devices, char **message)
{
	struct view_mounts mounts = {0};
	int r = view_mounts_read(0, &mounts);

	for (size_t i = 0; r == 0 && i < spec->n_views; i++) {
		const char *mountpoint = spec->views[i].mountpoint;
		const struct view_mount *mount =
			view_mounts_at(&mounts, mountpoint);

		r = mount ? strings_add(devices, mount->device)
			  : explain(-ENOENT, message,
				    "no view is mounted at '%s'", mountpoint);
	}
	view_mounts_release(&mounts);
	return r;
}

static int commit(struct job *job)
{
	struct strings devices = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < job->spec->n_views; i++)
		r = probe(job->spec->views[i].mountpoint, job->message);
	if (r == 0)
		r = find_devices(job->spec, &devices, job->message);
	if (r == 0)
		baseline_await(job->baseline, BASELINE_MS);
	if (r == 0 && is_interrupted())
		r = explain(-EINTR, job->message, "interrupted");
	if (r == 0)
		r = server_commit(job->sock, &devices, NULL, job->message);
	strings_release(&devices);
	return r;
}

static int set_up(struct job *job, const char *at)
{
	int r = claim(job);

	if (r == 0)
		r = mountpoints_choose(job->spec, job->dir, at, job->message);
	if (r == 0)
		r = mountpoints_make(job->spec, job->dir, &job->made,
				     job->message);
	if (r == 0)
		r = check_device(job);
	if (r == 0)
		r = start_server(job);
	return r < 0 ? r : commit(job);
}

/* What a filesystem process that crashed has left mounted. */
static void take_views_away(const struct session_spec *spec)
{
	struct view_mounts mounts = {0};

	if (view_mounts_read(0, &mounts) < 0)
		return;
	for (size_t i = spec->n_views; i > 0; i--) {
		const char *mountpoint = spec->views[i - 1].mountpoint;

		if (mountpoint && view_mounts_at(&mounts, mountpoint))
			mount_detach(mountpoint, true, NULL);
	}
	view_mounts_release(&mounts);
}

/*
 * The filesystem process ends with the socket, unmounts, and lets go of the
 * lock.
 */
static void undo(struct job *job)
{
	int64_t start = now_ms();

	cleanup_fdp(&job->sock);
	cleanup_fdp(&job->lock_fd);
	job->sock = job->lock_fd = -1;
	if (!job->dir)
		return;
	while (record_remove(job->spec->name) == -EBUSY &&
	       now_ms() < start + END_MS) {
		sleep_ms(10);
		if (now_ms() > start + END_MS / 2)
			take_views_away(job->spec);
	}
	take_views_away(job->spec);
	if (job->made)
		rmdir(job->made);
}

static int run_job(struct session_spec *spec, const char *at, char **message)
{
	struct job job = {
		.spec = spec,
		.dir_fd = -1,
		.lock_fd = -1,
		.sock = -1,
		.baseline = -1,
		.message = message,
	};
	int r = set_up(&job, at);

	if (r < 0)
		undo(&job);
	cleanup_fdp(&job.dir_fd);
	cleanup_fdp(&job.lock_fd);
	cleanup_fdp(&job.sock);
	cleanup_fdp(&job.baseline);
	free(job.dir);
	free(job.made);
	return r;
}

/*
 * A session that is there already.
 */

/* Does the rule follow from what the repository happens to hold? */
static bool is_derived(const struct session_spec *spec, const struct rule *rule)
{
	if (rule->origin == ORIGIN_GIT_GUARD)
		return true;
	return rule->origin == ORIGIN_DEFAULT && rule->access == ACCESS_RO &&
	       !(spec->main && strcmp(rule->path, spec->main) == 0);
}

/* Worktrees that others made meanwhile are no difference of the user's. */
static void drop_derived(struct session_spec *spec)
{
	struct rules *rules = &spec->rules;
	size_t kept = 0;

	for (size_t i = 0; i < rules->n; i++) {
		struct rule *rule = &rules->rule[i];

		if (is_derived(spec, rule)) {
			free(rule->path);
			free(rule->reason);
		} else {
			rules->rule[kept++] = *rule;
		}
	}
	rules->n = kept;
}

/* What has to be the same for a session to be the same. */
static char *identity(const struct session_spec *spec)
{
	autofree char *text = session_spec_to_json(spec);
	struct session_spec copy;
	char *identity;

	if (!text || session_spec_from_json(text, &copy) < 0)
		return NULL;
	drop_derived(&copy);
	free(copy.state_dir);
	copy.state_dir = NULL;
	for (size_t i = 0; i < copy.n_views; i++) {
		free(copy.views[i].mountpoint);
		copy.views[i].mountpoint = NULL;
	}
	identity = session_spec_to_json(&copy);
	session_spec_release(&copy);
	return identity;
}

/* Is it mounted as it is asked for? 0, or why not. */
static int check_mounted(const struct sessions *sessions,
			 const struct record *record,
			 const struct session_spec *spec, const char *at,
			 char **message)
{
	autofree char *wanted = identity(spec), *found = NULL;
	const char *name = spec->name;
	const char *mountpoint;

	found = identity(&record->spec);
	if (!wanted || !found)
		return -ENOMEM;
	if (record->spec.tier != TIER_VIEW)
		return explain(-EEXIST, message,
			       "session '%s' is one of 'mountctl run'; give "
			       "this one another name with -n",
			       name);
	if (session_state(sessions, record) == SESSION_DETACHED)
		return explain(-EBUSY, message,
			       "session '%s' is unmounted, but still in use; "
			       "give this one another name with -n",
			       name);
	if (strcmp(wanted, found) != 0)
		return explain(-EEXIST, message,
			       "session '%s' is mounted with other rules; "
			       "unmount it first, or give this one another "
			       "name with -n",
			       name);
	mountpoint = record->spec.views[0].mountpoint;
	if (at && strcmp(at, mountpoint) != 0)
		return explain(-EEXIST, message,
			       "session '%s' is mounted at '%s'", name,
			       mountpoint);
	return 0;
}

/* 1: it is mounted already; 0: it is now. */
static int mount_with(const struct sessions *sessions,
		      struct session_spec *spec, const char *at, char **message)
{
	const struct record *record = sessions_named(sessions, spec->name);
	autofree char *place = NULL;
	int r = 0;

	if (at)
		r = sessions_resolve(sessions, at, &place, message);
	if (r == 0 && record && record->live) {
		r = check_mounted(sessions, record, spec, place, message);
		return r < 0 ? r : 1;
	}
	if (r == 0 && record)
		r = session_clear(record, message);
	if (r == 0 && place)
		r = mountpoints_clear(sessions, place, message);
	return r < 0 ? r : run_job(spec, place, message);
}

int mounting_session(struct session_spec *spec, const char *at, char **message)
{
	struct sessions sessions = {0};
	int r = sessions_read(&sessions, message);

	if (r == 0)
		r = mount_with(&sessions, spec, at, message);
	sessions_release(&sessions);
	return r;
}

/*
 * A session: the views that one filesystem process serves, each by a FUSE
 * connection with threads of its own.
 */
#ifndef WORKTREEFS_SESSION_H
#define WORKTREEFS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "fs/lib/spec.h"
#include "fs/view.h"
#include "fs/watchdog.h"

struct served_view {
	struct view view;
	pthread_t thread;
	bool initialised, mounted, started;
};

struct session {
	/* Owned. Its rules and the generation change, with the gate closed. */
	struct session_spec spec;
	uint64_t generation; /* of the rules: how often they have changed */
	struct path_map map;
	struct served_view *views; /* as many as spec.n_views */
	bool mounts_itself;	   /* and so unmounts, too */
	bool debug;
	bool goes_quiet; /* its stderr is about to go, too */
	int ended;	 /* eventfd: one for each view that ended */
	int signals;	 /* signalfd of those that end the process */
	struct watchdog watchdog;
	struct timespec started; /* CLOCK_BOOTTIME */
};

/*
 * Takes spec over, and root_fds (O_PATH, one a view) on success. Blocks the
 * signals that it will wait for: call it before any thread is started.
 * 0 or -errno.
 */
int session_init(struct session *session, struct session_spec *spec,
		 const int *root_fds);
void session_release(struct session *session);

/*
 * Connects each view: to a mounted descriptor of /dev/fuse, taken over, or
 * (fuse_fds NULL) by mounting it at its mount point. 0 or -errno.
 */
int session_mount(struct session *session, const int *fuse_fds);

/* The innermost view that shows the path; NULL: none does. */
const struct view *session_view_of(const struct session *session,
				   const char *path);

/* Starts the watchdog, and serving; in the process that goes on to
 * session_wait(). */
int session_start(struct session *session);

/* Returns when every view has ended or a signal asks for the end. */
int session_wait(struct session *session);

/* Ends serving, unmounts what the session mounted, and joins all threads. */
void session_stop(struct session *session);

#endif

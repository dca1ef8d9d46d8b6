/*
 * Lock files that git has left where it was killed: NAME.lock beside what it
 * was about to replace. Until somebody removes one, git refuses to write NAME.
 *
 * None tells who made it. One is taken for a session's if it lies where the
 * session could make it, is no older than the session, and no other session of
 * the same repository lives. It is in use when a process has it open, or when
 * some git is at work in the repository: it may be that one's.
 */
#ifndef WORKTREEFS_STALELOCKS_H
#define WORKTREEFS_STALELOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "fs/lib/spec.h"

struct stale_lock {
	char *path;
	char *session;
	bool in_use;
	bool removed;
};

/* Zero-initialised it is empty. */
struct stale_locks {
	struct stale_lock *lock; /* owned, with the strings in it */
	size_t n;
};

void stale_locks_release(struct stale_locks *locks);

/*
 * Adds those of a session that is no more and that began then: in its admin
 * directory, and, if alone, in the git directory. 0 or -ENOMEM.
 */
int stale_locks_find(const struct session_spec *spec, time_t since, bool alone,
		     struct stale_locks *locks);

/* Removes all that aren't in use. The first -errno with a message, or 0. */
int stale_locks_remove(struct stale_locks *locks, char **message);

#endif

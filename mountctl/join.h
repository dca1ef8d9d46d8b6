/*
 * Finding a live session's namespaces, for another command to enter: through
 * one of the processes in it, because nothing else names them.
 */
#ifndef WORKTREEFS_JOIN_H
#define WORKTREEFS_JOIN_H

#include <sys/types.h>

#include "fs/lib/record.h"

/*
 * A process that has the session's view in its mount namespace: of several, one
 * in the outermost user namespace, and there the oldest; a sandbox that was
 * started inside has namespaces of its own, and the view as well.
 *
 * *ret_pid and a pidfd of it; -ESRCH with a message when there is none.
 */
int join_find(const struct record *record, pid_t *ret_pid, int *ret_pidfd,
	      char **message);

#endif

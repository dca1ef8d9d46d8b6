/*
 * Mounting a session's views at places of their own, for every process of the
 * user's: tier `view`.
 */
#ifndef WORKTREEFS_MOUNTING_H
#define WORKTREEFS_MOUNTING_H

#include <signal.h>

#include "fs/lib/spec.h"

/*
 * Signals that would end us. Block them before mounting_session(): it looks for
 * one that waits, and undoes everything then.
 */
sigset_t mounting_signals(void);

/*
 * Starts the planned session. at: the first view's mount point, or NULL: one in
 * the session's directory. The mount points are filled in.
 *
 * 0; 1: it is there already, just as it is planned; -EEXIST: a session of that
 * name is there, or about to be, which is another one; -EBUSY: it is unmounted,
 * but still in use; others. All with a message, and nothing is left behind.
 */
int mounting_session(struct session_spec *spec, const char *at, char **message);

#endif

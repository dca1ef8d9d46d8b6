/*
 * Telling a service manager that a program is ready, as sd_notify(3) describes
 * the protocol.
 */
#ifndef WORKTREEFS_READY_H
#define WORKTREEFS_READY_H

/*
 * Sends READY=1 to the socket that NOTIFY_SOCKET names, and does nothing where
 * that isn't set. 0 or -errno; -EINVAL for a name that can't be a socket's.
 */
int ready_notify(void);

#endif

/*
 * Ending sessions, and clearing away what dead ones left.
 *
 * Nothing is unmounted that isn't a view of the session's own device at the
 * place that its record names, and no process is signalled but by a pidfd of
 * one that was verified: the filesystem process by its start time, those of a
 * session behind run by the view that is mounted in their namespace.
 */
#ifndef WORKTREEFS_ENDING_H
#define WORKTREEFS_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/lib/record.h"
#include "mountctl/holders.h"

/*
 * Waits until the record's filesystem process has ended, at most until the
 * deadline (clock.h). 0, or -ETIMEDOUT.
 */
int session_await_end(const struct record *record, int64_t deadline);

/*
 * Ends a live session.
 *
 * A mounted view is unmounted as soon as nobody uses it; lazy: at once, also
 * from those who use it, whose files stay what they are until they are closed.
 * The processes of a session behind run are asked to end (SIGTERM); lazy: they
 * are left alone, and their view answers ENOTCONN.
 *
 * 0; -EBUSY when processes (ret_holders, perhaps none that can be seen) keep it
 * beyond the deadline; -EINPROGRESS when it is unmounted, but its filesystem
 * process lives on for those who still use the view; others with a message.
 */
int session_end(const struct record *record, bool lazy, int64_t deadline,
		struct holders *ret_holders, char **message);

/*
 * Clears away a dead session: its mounts, which answer ENOTCONN, and its
 * record. 0 or -errno with a message.
 */
int session_clear(const struct record *record, char **message);

/*
 * The same where the record can't be read: the mounts at the default places
 * and the directory. -EBUSY: a process holds its lock.
 */
int session_clear_unreadable(const char *name, char **message);

#endif

/*
 * The lock on a session's worktree: while it is there, git neither prunes nor
 * moves nor removes the worktree. It is the file "locked" in the admin
 * directory, as `git worktree lock --reason` makes it, and its text is the
 * reason (gitrepository-layout(5)); ours is
 *
 *   worktreefs session NAME (pid PID)
 *
 * with the filesystem process's pid. A lock with any other text is the user's
 * and is never touched.
 *
 * Several sessions may have one worktree. Then the lock names one that is
 * live; when that one ends, it is handed to another, and the last one takes it
 * away. What a session left that was killed, the next one takes over.
 *
 * git isn't asked to do it. It looks first and locks then, it can't hand a lock
 * on, and it reads the admin directories of all worktrees, where a session can
 * leave a FIFO for it to wait at.
 */
#ifndef WORKTREEFS_GITLOCK_H
#define WORKTREEFS_GITLOCK_H

#include "fs/lib/record.h"

/*
 * Until this descriptor is closed, other sessions of the user's wait with
 * beginning and ending their locks. Hold it from worktree_unlock() until the
 * session's record is gone: two sessions that end at once would hand the lock
 * to each other. -errno, after a while: then it is best done without.
 */
int worktree_locks_hold(void);

/*
 * Locks the session's worktree unless it is locked already; not for a session
 * without the git guard. The record has to be written by then, for those who
 * end to see it. 0 or -errno.
 */
int worktree_lock(const struct record *record);

/*
 * Hands the lock on or takes it away, if it is this session's, live or dead.
 * 0 or -errno.
 */
int worktree_unlock(const struct record *record);

/*
 * Is the worktree with this admin directory locked by a session whose
 * filesystem process is gone? 1 with the reason, without its newline; 0;
 * -errno.
 */
int worktree_lock_left(const char *git_dir, const char *admin_dir,
		       char **ret_reason);
/*
 * Is it locked by one whose filesystem process lives? 1 with that one's pid; 0;
 * -errno.
 */
int worktree_lock_holder(const char *git_dir, const char *admin_dir,
			 pid_t *ret_pid);
/* Takes a lock away whose filesystem process is gone. 1: there was one; 0;
 * -errno. */
int worktree_unlock_left(const char *git_dir, const char *admin_dir);

#endif

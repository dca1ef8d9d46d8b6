/*
 * The session of a worktree that a hook has made: a view of it is where the
 * harness then works, which can't be put behind `run` any more.
 */
#ifndef WORKTREEFS_HOOK_SESSION_H
#define WORKTREEFS_HOOK_SESSION_H

#include <stdbool.h>

/*
 * Mounts a view of the worktree, as `mountctl mount` would; the session gets
 * the name, or, where another one has it, NAME.2, NAME.3, ... A view of it that
 * is mounted already is taken as it is.
 *
 * ret_directory: the worktree as the view shows it: a real path. 0, or -errno
 * with a message; nothing is left behind then.
 */
int hook_session_start(const char *worktree, const char *name,
		       char **ret_directory, char **message);

/*
 * Ends the session whose worktree, as it is or as its view shows it, the path
 * names, and removes that worktree, as `mountctl teardown --remove-worktree`
 * does it, and says so where it can't: whatever isn't saved, or is in use,
 * stays with its session. One without a session is removed likewise. inside:
 * we are in a session ourselves, which sees no others.
 *
 * Returns an exit status.
 */
int hook_session_remove(const char *path, bool inside);

#endif

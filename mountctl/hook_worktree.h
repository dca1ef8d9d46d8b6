/*
 * Making a worktree for a harness that leaves that to a hook.
 */
#ifndef WORKTREEFS_HOOK_WORKTREE_H
#define WORKTREEFS_HOOK_WORKTREE_H

#include "fs/lib/spec.h"

/*
 * Makes the worktree NAME of the repository around start: in spec's directory
 * of worktrees, where there is one, else in M/.claude/worktrees. It gets the
 * branch worktree-NAME, made at base (NULL: what HEAD of M is) unless it is
 * there already, and copies of the files that M/.worktreeinclude names:
 * patterns as of gitignore(5), for files that git doesn't track. What can't be
 * copied is warned of. A worktree that is there already is taken as it is.
 *
 * spec: the session around us, or NULL. One without a directory of worktrees
 * can't make any: -EPERM.
 *
 * ret_path: absolute, real. 1 where it was made, 0 where it was there already,
 * or -errno with a message.
 */
int hook_worktree_create(const struct session_spec *spec, const char *start,
			 const char *name, const char *base, char **ret_path,
			 char **message);

/* Takes back one that was just made, with its branch, as far as it can. */
void hook_worktree_undo(const char *path);

#endif

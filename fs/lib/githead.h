/*
 * What a checkout stands on: the refs that its HEAD and the state files of a
 * rebase or bisect name. A checkout is given by the directory that holds its
 * HEAD: G for the main one, A = G/worktrees/ID for a linked one.
 *
 * The names are read at the time of the call; nothing is kept. Sources:
 * gitrepository-layout(5), git's worktree.c, wt-status.c and sequencer.c.
 */
#ifndef WORKTREEFS_GITHEAD_H
#define WORKTREEFS_GITHEAD_H

#include <stdbool.h>

#include "fs/lib/spec.h"

/* Where to look. All three are borrowed. */
struct checkout {
	const char *git_dir;	/* G, real and absolute */
	const char *ref_format; /* "files" or "reftable" */
	const char *head_dir;	/* the directory that holds HEAD */
};

/*
 * Is there a HEAD in the directory that git would take for one: "ref: refs/",
 * an object id, or a symlink to "refs/..."?
 */
bool git_head_is_valid(int dir_fd);

/*
 * Appends the full name of the ref that HEAD names and, where that is a
 * symbolic ref itself, of those that it leads to, the last one last. Nothing
 * where HEAD is detached or missing. 0 or -errno: -ENOENT where there's no
 * head_dir, -EIO where git has to be asked, for reftable, and can't tell.
 */
int git_head_refs(const struct checkout *checkout, struct strings *refs);

/*
 * Appends the branches that the checkout is rebasing or bisecting, where there
 * are any, as full names. 0 or -errno.
 */
int git_state_refs(const struct checkout *checkout, struct strings *refs);

#endif

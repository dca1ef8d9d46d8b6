/*
 * Removing a worktree.
 *
 * It is moved aside within its directory first, to ".NAME.worktreefs-removed-"
 * and a random number. From that moment it is gone for everybody, whole. Then
 * git forgets it, and what was moved is removed. Whoever is interrupted begins
 * again: what is done already isn't done twice. (`git worktree remove` deletes
 * in place: interrupted, it leaves a torso that it takes for a worktree full of
 * changes, or none at all.)
 *
 * The branch stays. Whether there is work in it is asked before, unsaved.h.
 */
#ifndef WORKTREEFS_REMOVAL_H
#define WORKTREEFS_REMOVAL_H

#include "fs/lib/gitrepo.h"

/*
 * May it be removed at all, by force or not? 0; -EBUSY with a message: it is
 * locked, something is mounted in it, another checkout or the git directory
 * lies in it, or what stands there is another repository's.
 *
 * index: in repo->worktrees. path: W. session: whose lock doesn't count, since
 * it is about to end; or NULL.
 */
int removal_check(const struct gitrepo *repo, ssize_t index, const char *path,
		  const char *session, char **message);

/*
 * Removes it. admin_dir may be gone, or NULL; the worktree, too. 0 or -errno
 * with a message.
 */
int removal_do(const char *git_dir, const char *worktree, const char *admin_dir,
	       char **message);

/*
 * Removes what was moved aside, where nothing else is left of the worktree. 0,
 * also where there is nothing; or -errno with a message.
 */
int removal_finish(const char *worktree, char **message);

#endif

/*
 * Removing a directory with all that is in it.
 */
#ifndef WORKTREEFS_TREEREMOVE_H
#define WORKTREEFS_TREEREMOVE_H

/*
 * Removes what name in dirfd is. No symlink is followed and no other file
 * system entered: -EXDEV. Directories that are closed to their owner, as
 * package managers leave them, are opened. What can't be removed stays, and the
 * first error is returned. 0 also where there is nothing.
 */
int tree_remove_at(int dirfd, const char *name);

#endif

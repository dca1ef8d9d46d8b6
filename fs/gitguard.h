/*
 * The git guard, where a name alone doesn't decide: rules that carry a judge
 * (fs/lib/policy.h) are rw for the policy, and each change under them is
 * decided here. docs/git-guard.md tells what is held and why.
 *
 * Some files may be replaced, but not by anything. Git replaces a file by
 * renaming X.lock over X: the judge reads what is to be installed, and what is
 * then installed is a new file with just these bytes. The caller's own inode,
 * which it may have open or linked elsewhere, never gets the name.
 *
 * Nothing here runs under a lock that a request needs, and what can't be
 * decided is refused. All functions answer 0 or -errno, -EROFS for a refusal.
 * Only the guard calls them.
 */
#ifndef WORKTREEFS_GITGUARD_H
#define WORKTREEFS_GITGUARD_H

#include <stdbool.h>
#include <sys/stat.h>

#include "fs/entry.h"
#include "fs/view.h"

struct gitguard;

/* May op be done to the object itself? mode: the one to be set, or -1. */
int gitguard_object(struct view *view, struct inode *inode, enum policy_op op,
		    int mode, int fd);
/* May it be opened with these flags, of which some write? */
int gitguard_open(struct view *view, struct inode *inode, int flags);
/* Writes go to its end, whatever the offset. */
bool gitguard_appends_only(struct inode *inode);
/* May an open file still be written? */
int gitguard_write(struct view *view, struct inode *inode);
/* May the name be given to what isn't a new file: a symlink, a node, or a link
 * of something of this type (S_IFMT)? */
int gitguard_other(struct view *view, const struct entry *entry, mode_t type);
/* May the object get this other name? -EXDEV: no, but it can be copied. */
int gitguard_link(struct inode *source, const struct entry *entry);
/* May op be done to the name? Not for renames. */
int gitguard_name(struct view *view, const struct entry *entry,
		  enum policy_op op);
/* A directory was made by the session itself. */
void gitguard_made(struct view *view, const struct entry *entry);

/*
 * May the rename be done? *ret_install: not by renaming, but by
 * gitguard_install().
 */
int gitguard_rename(struct view *view, const struct rename_grant *grant,
		    unsigned int flags, bool *ret_install);
/* Judges what is to be installed, installs a copy, and removes the old name.
 * ret_what: what is in the way, allocated, or NULL. */
int gitguard_install(struct view *view, const struct rename_grant *grant,
		     char **ret_what);

#endif

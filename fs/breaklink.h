/*
 * Breaking hard links. A file in an rw tree whose inode has further links may
 * also be a file of the main checkout: before the first change the name that
 * it goes by gets a copy of its own, and the other names keep theirs.
 */
#ifndef WORKTREEFS_BREAKLINK_H
#define WORKTREEFS_BREAKLINK_H

#include <sys/stat.h>

struct inode;

/*
 * Gives the name under which inode was last seen a file of its own, atomically
 * by a rename: with the same data (holes stay holes, shared where the file
 * system can), mode, owner, times and extended attributes. Who has the old
 * file open keeps it. Whenever this is broken off, the name has one of the two
 * files whole.
 *
 * The owner is kept as far as the caller may give files away.
 *
 * 0: the name is another file now, which the next lookup finds. -ESTALE: the
 * inode isn't under that name any more. Otherwise -errno, and nothing has
 * changed.
 */
int break_link(struct inode *inode);

#endif

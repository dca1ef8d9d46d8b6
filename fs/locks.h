/*
 * Locks, taken on the backing file, so that two views, and a view and the
 * host, exclude each other.
 *
 * flock(2) locks belong to an open file and are taken on its own descriptor.
 * Record locks, POSIX's and those of open file descriptions alike, come with
 * the kernel's name of their owner: each owner has a descriptor of its own per
 * inode, on which they are taken as open-file-description locks (fcntl(2)).
 * Closing it drops them all.
 *
 * A request that has to wait gets a thread of its own, leaves those that serve
 * requests free, and can be interrupted.
 *
 * Not as native: no EDEADLK, since the waiting is done by owners that the
 * kernel takes for unrelated.
 */
#ifndef WORKTREEFS_LOCKS_H
#define WORKTREEFS_LOCKS_H

#include <stdint.h>

struct file;
struct inode;
struct view;

/* Drops the record locks that owner has on the inode: it has closed one of
 * its descriptors. */
void locks_drop_owner(struct inode *inode, uint64_t owner);
/* Drops the record locks that were taken through the file: it is closed. */
void locks_drop_file(struct file *file);
/* Has all waiting requests of all views answered, and waits for that. */
void locks_stop(void);

#endif

/*
 * Open files and directories: what a kernel's file handle stands for.
 */
#ifndef WORKTREEFS_FILE_H
#define WORKTREEFS_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct content;
struct inode;

struct file {
	struct inode *inode;	 /* referenced */
	int fd;			 /* owned */
	int flags;		 /* of open(2) */
	struct content *content; /* read instead of fd; owned reference */
	bool passed_through;	 /* see passthrough.h, as the next */
	bool counted_plain;
	bool appends_only; /* whatever the offset, see guard.h */
	bool mapped;	   /* written through a mapping */
	bool locked;	   /* atomic: a lock was taken through it once */
	unsigned int refs; /* protected by the table's lock */
	struct file *next; /* of the inode; protected by the table's lock */
};

/* Takes fd over on success; references the inode. NULL when out of memory. */
struct file *file_new(struct inode *inode, int fd, int flags);
/* Lists it at its inode, for others to find: once, and when it is whole. */
void file_enlist(struct file *file);
/* Ends the kernel's use of it. */
void file_close(struct file *file);
void file_unref(struct file *file);
struct file *file_ref(struct file *file);

#endif

/*
 * Telling the kernel that what it keeps of an inode is out of date. Such a
 * message can wait for pages that a request holds, so none is ever sent from a
 * thread that serves requests: they are queued for a thread of their own.
 */
#ifndef WORKTREEFS_NOTIFY_H
#define WORKTREEFS_NOTIFY_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct view;

/* Starts the thread; once for the process. 0 or -errno. */
int notify_start(void);
/* Ends it; what is still queued is dropped, and requests are answered. */
void notify_stop(void);

/* Attributes and, from offset on, data. offset < 0: attributes alone. */
void notify_inode(struct view *view, uint64_t nodeid, off_t offset);

/* The same for all of it, and then answers the request with success: a caller
 * who waits for it sees what is there now. */
void notify_inode_and_reply(struct view *view, uint64_t nodeid, fuse_req_t req);
/* The same, and the answer is attributes, for timeout seconds. */
void notify_inode_and_reply_attributes(struct view *view, uint64_t nodeid,
				       fuse_req_t req, const struct stat *st,
				       double timeout);

/*
 * At once, for threads that no reply waits for and that hold nothing: an
 * inode's attributes and, with data, its pages; those that a mapping has made
 * dirty are written first, as requests. 0, also for what the kernel doesn't
 * know, or -errno.
 */
int notify_inode_now(struct view *view, uint64_t nodeid, bool data);
/* The same for a name. What is mounted on it stays. Linux 6.2. */
int notify_name_now(struct view *view, uint64_t parent, const char *name);

/*
 * Has the kernel ask for every name anew. Takes no lock there, so that a
 * request may send it itself, to be heard before the answer. Not in a view
 * with mounts in it, which would be lost. Linux 6.16. 0 or -errno.
 */
int notify_names(struct view *view);

#endif

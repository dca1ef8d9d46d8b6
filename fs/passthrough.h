/*
 * I/O passthrough: reads, writes and mappings of an open file go straight to
 * the backing file and cost no request (Linux 6.9; Documentation/filesystems/
 * fuse-passthrough.rst). To be had only with CAP_SYS_ADMIN in the initial user
 * namespace, and not on every backing file system: it is tried once, and the
 * first refusal ends it for the view.
 *
 * While one open file of an inode is passed through all must be, and the other
 * way round: the choice stands as long as anything is open.
 */
#ifndef WORKTREEFS_PASSTHROUGH_H
#define WORKTREEFS_PASSTHROUGH_H

#include <fuse_lowlevel.h>

#include "fs/view.h"

struct file;

/* Asks for it at the start of a connection. */
void passthrough_init(struct view *view, struct fuse_conn_info *conn);

/*
 * Decides for a file that is being opened, and says so in fi. wanted: is it
 * worth while? What is open already has the last word.
 */
void passthrough_open(struct view *view, fuse_req_t req, struct file *file,
		      bool wanted, struct fuse_file_info *fi);
/* The file is closed. */
void passthrough_release(struct view *view, fuse_req_t req, struct file *file);

#endif

/*
 * Acting as the process that asks: in a view for many users (allow_other,
 * root's) each request is served with the caller's fsuid, fsgid and
 * supplementary groups, and new files get the caller's umask. All of these
 * belong to the serving thread alone (credentials(7), unshare(2)).
 */
#ifndef WORKTREEFS_CALLER_H
#define WORKTREEFS_CALLER_H

#include <fuse_lowlevel.h>

#include "fs/view.h"

/* Takes on the caller's ids where the view is for many users. 0 or -EPERM. */
int caller_assume(const struct view *view, fuse_req_t req);
/* Who asks, as caller_assume() found: 0 where it is the kernel itself. */
pid_t caller_pid(void);
/* Takes on the caller's umask, before something is made. */
int caller_umask(fuse_req_t req);

#endif

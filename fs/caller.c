#include "fs/caller.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GROUPS 65536 /* NGROUPS_MAX */

/* What the thread acts as at the moment. A new thread acts as root. */
static _Thread_local struct {
	bool own_umask; /* no longer shares it with the other threads */
	mode_t umask;
	bool has_groups; /* groups other than root's own are set */
	uid_t uid;
	gid_t gid;
	pid_t pid;
} current;

/*
 * glibc's setgroups(3) would change every thread; the system call changes the
 * calling one.
 */
static int set_thread_groups(size_t n, const gid_t *groups)
{
	return syscall(SYS_setgroups, n, groups) < 0 ? -errno : 0;
}

static int assume_groups(fuse_req_t req)
{
	gid_t few[64];
	autofree gid_t *many = NULL;
	gid_t *groups = few;
	int n = fuse_req_getgroups(req, 64, few);

	if (n > 64) {
		many = calloc(MAX_GROUPS, sizeof(gid_t));
		if (!many)
			return -ENOMEM;
		groups = many;
		n = fuse_req_getgroups(req, MAX_GROUPS, many);
	}
	/* A caller that has gone, or whose groups can't be read, has none. */
	if (n < 0 || n > MAX_GROUPS)
		n = 0;
	current.has_groups = true;
	return set_thread_groups((size_t)n, groups);
}

static int set_ids(uid_t uid, gid_t gid)
{
	if (gid != current.gid) {
		setfsgid(gid);
		if ((gid_t)setfsgid((gid_t)-1) != gid)
			return -EPERM;
		current.gid = gid;
	}
	if (uid != current.uid) {
		setfsuid(uid);
		if ((uid_t)setfsuid((uid_t)-1) != uid)
			return -EPERM;
		current.uid = uid;
	}
	return 0;
}

/* setgroups(2) needs a capability that only root's fsuid leaves alone; it is
 * kept across setfsuid(2), which takes file capabilities only. */
int caller_assume(const struct view *view, fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int r = 0;

	current.pid = ctx->pid;
	if (!view->many_users)
		return 0;
	if (ctx->uid != 0)
		r = assume_groups(req);
	else if (current.has_groups) {
		current.has_groups = false;
		r = set_thread_groups(0, NULL);
	}
	return r < 0 ? -EPERM : set_ids(ctx->uid, ctx->gid);
}

pid_t caller_pid(void)
{
	return current.pid;
}

int caller_umask(fuse_req_t req)
{
	mode_t mask = fuse_req_ctx(req)->umask & 0777;

	if (!current.own_umask) {
		if (unshare(CLONE_FS) < 0)
			return -errno;
		current.own_umask = true;
		current.umask = 0777;
		umask(0777);
	}
	if (mask != current.umask) {
		umask(mask);
		current.umask = mask;
	}
	return 0;
}

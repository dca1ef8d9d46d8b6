#include "fs/ops.h"

#include <errno.h>

#include "fs/caller.h"
#include "fs/passthrough.h"

/*
 * What may be asked of the kernel. Not: WRITEBACK_CACHE (others write behind
 * our back); POSIX_ACL (it takes permission checks, and with them access(2),
 * away from us); SPLICE_* (most requests are short, and where the limit of a
 * pipe's size is low libfuse makes one anew for each).
 */
static const uint64_t wanted_features[] = {
	FUSE_CAP_ASYNC_READ,	     FUSE_CAP_ATOMIC_O_TRUNC,
	FUSE_CAP_DONT_MASK,	     FUSE_CAP_AUTO_INVAL_DATA,
	FUSE_CAP_READDIRPLUS,	     FUSE_CAP_READDIRPLUS_AUTO,
	FUSE_CAP_ASYNC_DIO,	     FUSE_CAP_PARALLEL_DIROPS,
	FUSE_CAP_HANDLE_KILLPRIV_V2, FUSE_CAP_CACHE_SYMLINKS,
	FUSE_CAP_POSIX_LOCKS,	     FUSE_CAP_FLOCK_LOCKS,
	FUSE_CAP_IOCTL_DIR,
};
static const uint64_t unwanted_features[] = {
	FUSE_CAP_WRITEBACK_CACHE,    FUSE_CAP_POSIX_ACL,
	FUSE_CAP_HANDLE_KILLPRIV,    FUSE_CAP_NO_OPEN_SUPPORT,
	FUSE_CAP_NO_OPENDIR_SUPPORT, FUSE_CAP_SPLICE_READ,
	FUSE_CAP_SPLICE_WRITE,	     FUSE_CAP_SPLICE_MOVE,
};

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct view *view = userdata;

	for (size_t i = 0; i < ARRAY_SIZE(unwanted_features); i++)
		fuse_unset_feature_flag(conn, unwanted_features[i]);
	for (size_t i = 0; i < ARRAY_SIZE(wanted_features); i++)
		fuse_set_feature_flag(conn, wanted_features[i]);
	/*
	 * With no "none" rule a directory needs no verdict to be opened, and
	 * where every change shows in its times the kernel keeps its listing
	 * without asking us.
	 */
	if (!view->asks_opendir)
		fuse_set_feature_flag(conn, FUSE_CAP_NO_OPENDIR_SUPPORT);
	/* A target that reads rewritten may change with the view. */
	if (view->rewrites)
		fuse_unset_feature_flag(conn, FUSE_CAP_CACHE_SYMLINKS);
	passthrough_init(view, conn);
	conn->time_gran = 1;
}

struct view *op_begin(fuse_req_t req, enum request request)
{
	struct view *view = fuse_req_userdata(req);
	int r;

	__atomic_add_fetch(&view->requests[request], 1, __ATOMIC_RELAXED);
	r = caller_assume(view, req);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return NULL;
	}
	return view;
}

void entry_forget(struct view *view, const struct fuse_entry_param *e)
{
	if (e->ino != 0)
		inode_forget(&view->table, e->ino, 1);
}

void reply_entry(fuse_req_t req, struct view *view, int r,
		 const struct fuse_entry_param *e)
{
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (fuse_reply_entry(req, e) < 0)
		entry_forget(view, e);
}

const struct fuse_lowlevel_ops view_operations = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.statx = op_statx,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.access = op_access,
	.statfs = op_statfs,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.symlink = op_symlink,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write_buf = op_write_buf,
	.release = op_release,
	.flush = op_flush,
	.getlk = op_getlk,
	.setlk = op_setlk,
	.flock = op_flock,
	.tmpfile = op_tmpfile,
	.ioctl = op_ioctl,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.copy_file_range = op_copy_file_range,
	.lseek = op_lseek,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
};

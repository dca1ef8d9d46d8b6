#include "fs/ops.h"

#include <errno.h>

#include "fs/caller.h"
#include "fs/gate.h"
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

/*
 * Every request passes the gate, see gate.h; but fsync(2), which takes its time
 * and asks for no verdict.
 */
#define GATED(name, parameters, arguments)  \
	static void gated_##name parameters \
	{                                   \
		gate_enter();               \
		op_##name arguments;        \
		gate_leave();               \
	}

GATED(lookup, (fuse_req_t req, fuse_ino_t parent, const char *name),
      (req, parent, name))
GATED(forget, (fuse_req_t req, fuse_ino_t ino, uint64_t nlookup),
      (req, ino, nlookup))
GATED(forget_multi,
      (fuse_req_t req, size_t count, struct fuse_forget_data *forgets),
      (req, count, forgets))
GATED(getattr, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(statx,
      (fuse_req_t req, fuse_ino_t ino, int flags, int mask,
       struct fuse_file_info *fi),
      (req, ino, flags, mask, fi))
GATED(setattr,
      (fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
       struct fuse_file_info *fi),
      (req, ino, attr, to_set, fi))
GATED(readlink, (fuse_req_t req, fuse_ino_t ino), (req, ino))
GATED(access, (fuse_req_t req, fuse_ino_t ino, int mask), (req, ino, mask))
GATED(statfs, (fuse_req_t req, fuse_ino_t ino), (req, ino))
GATED(mknod,
      (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
       dev_t rdev),
      (req, parent, name, mode, rdev))
GATED(mkdir, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode),
      (req, parent, name, mode))
GATED(symlink,
      (fuse_req_t req, const char *target, fuse_ino_t parent, const char *name),
      (req, target, parent, name))
GATED(unlink, (fuse_req_t req, fuse_ino_t parent, const char *name),
      (req, parent, name))
GATED(rmdir, (fuse_req_t req, fuse_ino_t parent, const char *name),
      (req, parent, name))
GATED(rename,
      (fuse_req_t req, fuse_ino_t parent, const char *name,
       fuse_ino_t newparent, const char *newname, unsigned int flags),
      (req, parent, name, newparent, newname, flags))
GATED(link,
      (fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
       const char *newname),
      (req, ino, newparent, newname))
GATED(open, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(create,
      (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
       struct fuse_file_info *fi),
      (req, parent, name, mode, fi))
GATED(read,
      (fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
       struct fuse_file_info *fi),
      (req, ino, size, offset, fi))
GATED(write_buf,
      (fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *data, off_t offset,
       struct fuse_file_info *fi),
      (req, ino, data, offset, fi))
GATED(release, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(flush, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(getlk,
      (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
       struct flock *lock),
      (req, ino, fi, lock))
GATED(setlk,
      (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
       struct flock *lock, int sleep),
      (req, ino, fi, lock, sleep))
GATED(flock,
      (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
       int operation),
      (req, ino, fi, operation))
GATED(tmpfile,
      (fuse_req_t req, fuse_ino_t parent, mode_t mode,
       struct fuse_file_info *fi),
      (req, parent, mode, fi))
GATED(ioctl,
      (fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
       struct fuse_file_info *fi, unsigned int flags, const void *in,
       size_t in_size, size_t out_size),
      (req, ino, cmd, arg, fi, flags, in, in_size, out_size))
GATED(fallocate,
      (fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
       struct fuse_file_info *fi),
      (req, ino, mode, offset, length, fi))
GATED(copy_file_range,
      (fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
       struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
       struct fuse_file_info *fi_out, size_t length, int flags),
      (req, ino_in, off_in, fi_in, ino_out, off_out, fi_out, length, flags))
GATED(lseek,
      (fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
       struct fuse_file_info *fi),
      (req, ino, offset, whence, fi))
GATED(opendir, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(readdir,
      (fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
       struct fuse_file_info *fi),
      (req, ino, size, offset, fi))
GATED(readdirplus,
      (fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
       struct fuse_file_info *fi),
      (req, ino, size, offset, fi))
GATED(releasedir, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),
      (req, ino, fi))
GATED(fsyncdir,
      (fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi),
      (req, ino, datasync, fi))
GATED(getxattr, (fuse_req_t req, fuse_ino_t ino, const char *name, size_t size),
      (req, ino, name, size))
GATED(listxattr, (fuse_req_t req, fuse_ino_t ino, size_t size),
      (req, ino, size))
GATED(setxattr,
      (fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
       size_t size, int flags),
      (req, ino, name, value, size, flags))
GATED(removexattr, (fuse_req_t req, fuse_ino_t ino, const char *name),
      (req, ino, name))

const struct fuse_lowlevel_ops view_operations = {
	.init = op_init,
	.lookup = gated_lookup,
	.forget = gated_forget,
	.forget_multi = gated_forget_multi,
	.getattr = gated_getattr,
	.statx = gated_statx,
	.setattr = gated_setattr,
	.readlink = gated_readlink,
	.access = gated_access,
	.statfs = gated_statfs,
	.mknod = gated_mknod,
	.mkdir = gated_mkdir,
	.symlink = gated_symlink,
	.unlink = gated_unlink,
	.rmdir = gated_rmdir,
	.rename = gated_rename,
	.link = gated_link,
	.open = gated_open,
	.create = gated_create,
	.read = gated_read,
	.write_buf = gated_write_buf,
	.release = gated_release,
	.flush = gated_flush,
	.getlk = gated_getlk,
	.setlk = gated_setlk,
	.flock = gated_flock,
	.tmpfile = gated_tmpfile,
	.ioctl = gated_ioctl,
	.fsync = op_fsync,
	.fallocate = gated_fallocate,
	.copy_file_range = gated_copy_file_range,
	.lseek = gated_lseek,
	.opendir = gated_opendir,
	.readdir = gated_readdir,
	.readdirplus = gated_readdirplus,
	.releasedir = gated_releasedir,
	.fsyncdir = gated_fsyncdir,
	.getxattr = gated_getxattr,
	.listxattr = gated_listxattr,
	.setxattr = gated_setxattr,
	.removexattr = gated_removexattr,
};

/*
 * Attributes, access, link targets and the file system's figures.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/lib/fileio.h"
#include "fs/notify.h"
#include "fs/ops.h"

/* What the kernel is about to hear of an inode, referenced. 0 or -errno. */
static int read_attributes(struct view *view, fuse_ino_t ino,
			   struct statx *ret_stx, struct stat *ret_st,
			   struct inode **ret_inode)
{
	autocontent struct content *content = NULL;
	int r = guard_stat(view, ino, ret_inode, ret_stx, &content);

	if (r < 0)
		return r;
	view_attributes(view, ret_stx, content, ret_st);
	return 0;
}

static void reply_attributes(fuse_req_t req, struct view *view, fuse_ino_t ino)
{
	autoinode struct inode *inode = NULL;
	struct statx stx;
	struct stat st;
	double timeout;
	int r = read_attributes(view, ino, &stx, &st, &inode);

	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	timeout = view_timeouts(view, inode->place, stx.stx_mode).attr;
	if (!view_listing_is_stale(view, inode, &stx)) {
		fuse_reply_attr(req, &st, timeout);
		return;
	}
	inode_listing_dropped(inode, &stx);
	notify_inode_and_reply_attributes(view, ino, req, &st, timeout);
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_getattr);

	if (view)
		reply_attributes(req, view, ino);
}

void op_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask,
	      struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_statx);
	autoinode struct inode *inode = NULL;
	struct statx stx;
	struct stat st;
	int r;

	if (!view)
		return;
	r = read_attributes(view, ino, &stx, &st, &inode);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	/* For no time, so that a stale listing waits for getattr. */
	view_listing_is_stale(view, inode, &stx);
	stx.stx_uid = st.st_uid;
	stx.stx_gid = st.st_gid;
	stx.stx_size = (uint64_t)st.st_size;
	fuse_reply_statx(req, 0, &stx, 0);
}

static int set_size(const struct hold *hold, off_t size,
		    const struct fuse_file_info *fi)
{
	const struct file *file = fi ? (struct file *)(uintptr_t)fi->fh : NULL;
	int r;

	if (file && file->fd >= 0)
		r = ftruncate(file->fd, size);
	else
		r = truncate(fd_path(hold->fd).text, size);
	return r < 0 ? -errno : 0;
}

/* One of the two times that setattr may bring. */
static struct timespec time_to_set(int to_set, int set, int set_now,
				   struct timespec given)
{
	if (to_set & set_now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & set)
		return given;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(const struct hold *hold, const struct stat *attr,
		     int to_set)
{
	const struct timespec times[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME,
			    FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME,
			    FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim),
	};

	return utimensat(hold->fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int set_owner(const struct hold *hold, const struct stat *attr,
		     int to_set)
{
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

	return fchownat(hold->fd, "", uid, gid,
			AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

/*
 * In a directory that somebody may no longer search, the kernel knows names
 * that it looked up before, see names.c. Where all requests are its owner's, or
 * come to nothing, the owner alone counts.
 */
static int set_mode(struct view *view, const struct hold *hold, mode_t mode)
{
	mode_t search = view->many_users ? SEARCHABLE : S_IXUSR;
	bool closes = hold->inode->type == S_IFDIR && (mode & search) != search;
	struct stat st;

	if (closes && fstat(hold->fd, &st) == 0)
		closes = (st.st_mode & search) == search;
	if (chmod(fd_path(hold->fd).text, mode & 07777) < 0)
		return -errno;
	if (closes)
		notify_names(view);
	return 0;
}

#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)
#define SET_TIMES                                                              \
	(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME | \
	 FUSE_SET_ATTR_MTIME_NOW)

/*
 * Nothing to set is chown(2) that sets neither id, which still clears set-id
 * bits; or the kernel is about to change the data and wants them cleared, which
 * is the backing file system's affair, too. Somebody else than the owner is
 * then refused the one and must not be refused the other: it can't be told.
 */
static int touch_owner(const struct hold *hold, const struct stat *attr)
{
	int r = set_owner(hold, attr, 0);

	return r == -EPERM ? 0 : r;
}

static int do_setattr(struct view *view, fuse_ino_t ino,
		      const struct stat *attr, int to_set,
		      const struct fuse_file_info *fi)
{
	autohold struct hold hold = HOLD_NONE;
	const struct attribute_change change = {
		.owner = (to_set & SET_OWNER) || to_set == 0,
		.size = to_set & FUSE_SET_ATTR_SIZE,
		.times = to_set & SET_TIMES,
		.mode = to_set & FUSE_SET_ATTR_MODE
				? (int)(attr->st_mode & 07777)
				: -1,
		.file = fi ? (struct file *)(uintptr_t)fi->fh : NULL,
	};
	int r = guard_attributes(view, ino, &change, &hold);

	/* chown(2) clears set-id bits, so a mode comes after it. */
	if (r == 0 && (to_set & SET_OWNER))
		r = set_owner(&hold, attr, to_set);
	else if (r == 0 && to_set == 0)
		r = touch_owner(&hold, attr);
	if (r == 0 && (to_set & FUSE_SET_ATTR_MODE))
		r = set_mode(view, &hold, attr->st_mode);
	if (r == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		r = set_size(&hold, attr->st_size, fi);
	if (r == 0 && (to_set & SET_TIMES))
		r = set_times(&hold, attr, to_set);
	return r;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_setattr);
	int r;

	if (!view)
		return;
	r = do_setattr(view, ino, attr, to_set, fi);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		reply_attributes(req, view, ino);
}

static int do_readlink(struct view *view, fuse_ino_t ino, char **ret_target)
{
	autohold struct hold hold = HOLD_NONE;
	autofree char *target = NULL;
	autocontent struct content *content = NULL;
	int r = guard_object(view, ino, OP_READ, &hold);

	if (r == 0)
		r = read_link_at(hold.fd, "", &target);
	if (r < 0)
		return r;
	if (view->rewrites)
		content = content_of_symlink(view->map, target);
	if (content) {
		free(target);
		target = strdup(content->text);
		if (!target)
			return -ENOMEM;
	}
	*ret_target = steal_pointer(&target);
	return 0;
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct view *view = op_begin(req, REQUEST_readlink);
	autofree char *target = NULL;
	int r;

	if (!view)
		return;
	r = do_readlink(view, ino, &target);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_readlink(req, target);
}

static int do_access(struct view *view, fuse_ino_t ino, int mask)
{
	autohold struct hold hold = HOLD_NONE;
	int r = guard_access(view, ino, mask, &hold);

	if (r < 0)
		return r;
	/* The kernel has taken on the ids that access(2) looks at. */
	return syscall(SYS_faccessat2, hold.fd, "", mask & (R_OK | W_OK | X_OK),
		       AT_EMPTY_PATH | AT_EACCESS) < 0
		       ? -errno
		       : 0;
}

void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct view *view = op_begin(req, REQUEST_access);

	if (view)
		fuse_reply_err(req, -do_access(view, ino, mask));
}

static int do_statfs(struct view *view, fuse_ino_t ino, struct statvfs *ret_fs)
{
	autohold struct hold hold = HOLD_NONE;
	int r = guard_object(view, ino, OP_STAT, &hold);

	/* What others deleted was, as good as always, where the root is. */
	if (r == -ESTALE)
		r = guard_object(view, FUSE_ROOT_ID, OP_STAT, &hold);
	if (r < 0)
		return r;
	return fstatvfs(hold.fd, ret_fs) < 0 ? -errno : 0;
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct view *view = op_begin(req, REQUEST_statfs);
	struct statvfs fs;
	int r;

	if (!view)
		return;
	r = do_statfs(view, ino, &fs);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_statfs(req, &fs);
}

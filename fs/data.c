/*
 * Open files and their data.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/caller.h"
#include "fs/locks.h"
#include "fs/notify.h"
#include "fs/ops.h"
#include "fs/passthrough.h"

/*
 * From this many bytes on reading is better done without us. Of a smaller file
 * the kernel keeps the pages over opens, and to arrange for more costs more.
 */
#define PASSTHROUGH_SIZE (256 << 10)

static struct file *file_of(const struct fuse_file_info *fi)
{
	return (struct file *)(uintptr_t)fi->fh;
}

/*
 * FLUSH, at each close(2), is how a process's record locks are dropped: writes
 * have been passed on when they return. Where nothing can be changed hardly
 * anybody locks, and the end of the open file has to do.
 */
static bool needs_flush(const struct file *file)
{
	const struct rule *rule = place_rule(file->inode->place);

	return (file->flags & O_ACCMODE) != O_RDONLY ||
	       (rule->access == ACCESS_RW && rule->caching != CACHING_OBJECTS);
}

/*
 * Makes the handle. A file that reads differently through the view is served
 * from that text, unless it is opened for writing: then it is what it is.
 */
static int make_handle(struct view *view, fuse_req_t req, struct inode *inode,
		       const struct statx *stx, int *fd,
		       struct fuse_file_info *fi)
{
	autocontent struct content *content = NULL;
	bool reads_only = (fi->flags & O_ACCMODE) == O_RDONLY;
	struct file *file;

	if (view->rewrites && reads_only && inode_has_pointer_name(inode))
		content = read_pointer(view, *fd, stx);
	file = file_new(inode, *fd, fi->flags);
	if (!file)
		return -ENOMEM;
	take_fd(fd);
	file->content = steal_pointer(&content);
	file->appends_only = !reads_only && guard_appends_only(inode);
	fi->fh = (uintptr_t)file;
	fi->keep_cache = inode_data_is_known(inode, stx);
	/* Pages of what it reads as mustn't be mixed with those of the file. */
	fi->direct_io = file->content || file->appends_only;
	fi->noflush = !needs_flush(file);
	passthrough_open(view, req, file,
			 !reads_only || stx->stx_size >= PASSTHROUGH_SIZE, fi);
	file_enlist(file);
	return 0;
}

static void close_handle(struct view *view, fuse_req_t req,
			 const struct fuse_file_info *fi)
{
	passthrough_release(view, req, file_of(fi));
	locks_drop_file(file_of(fi));
	file_close(file_of(fi));
}

static int do_open(struct view *view, fuse_req_t req, fuse_ino_t ino,
		   struct fuse_file_info *fi)
{
	autoinode struct inode *inode = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r = guard_open(view, ino, fi->flags, &inode, &stx, &fd);

	if (r < 0)
		return r;
	return make_handle(view, req, inode, &stx, &fd, fi);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_open);
	int r;

	if (!view)
		return;
	r = do_open(view, req, ino, fi);
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (fuse_reply_open(req, fi) < 0)
		close_handle(view, req, fi);
}

/* Opens what has the name already, as open(2) without O_CREAT would. */
static int open_existing(struct view *view, fuse_req_t req, fuse_ino_t parent,
			 const char *name, struct fuse_entry_param *ret_e,
			 struct fuse_file_info *fi)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r = guard_name(view, parent, name, OP_STAT, &entry);

	if (r == 0)
		r = entry_lookup(view, &entry, ret_e);
	if (r < 0)
		return r;
	r = S_ISREG(ret_e->attr.st_mode) ? do_open(view, req, ret_e->ino, fi)
					 : -ESTALE;
	if (r < 0)
		entry_forget(view, ret_e);
	return r;
}

static int make_new(struct view *view, fuse_req_t req,
		    const struct entry *entry, mode_t mode,
		    struct fuse_entry_param *ret_e, struct fuse_file_info *fi)
{
	int flags = (fi->flags & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CREAT |
		    O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	autoinode struct inode *inode = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r = caller_umask(req);

	if (r < 0)
		return r;
	fd = openat(entry->dir.fd, entry->name, flags, mode);
	if (fd < 0 && errno == EMFILE && inode_table_shrink(&view->table))
		fd = openat(entry->dir.fd, entry->name, flags, mode);
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	r = entry_of_file(view, entry, &stx, ret_e, &inode);
	if (r < 0)
		return r;
	__atomic_store_n(&inode->made_here, true, __ATOMIC_RELAXED);
	r = make_handle(view, req, inode, &stx, &fd, fi);
	if (r < 0)
		entry_forget(view, ret_e);
	return r;
}

/* A name that exists needs no right to make one, unless O_EXCL is given. */
static int do_create(struct view *view, fuse_req_t req, fuse_ino_t parent,
		     const char *name, mode_t mode,
		     struct fuse_entry_param *ret_e, struct fuse_file_info *fi)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r;

	if (!(fi->flags & O_EXCL)) {
		r = open_existing(view, req, parent, name, ret_e, fi);
		if (r != -ENOENT)
			return r;
	}
	r = guard_name(view, parent, name, OP_CREATE, &entry);
	if (r == 0)
		r = make_new(view, req, &entry, mode, ret_e, fi);
	if (r == -EEXIST && !(fi->flags & O_EXCL))
		r = open_existing(view, req, parent, name, ret_e, fi);
	return r;
}

static void reply_created(fuse_req_t req, struct view *view, int r,
			  const struct fuse_entry_param *e,
			  struct fuse_file_info *fi)
{
	if (r < 0) {
		fuse_reply_err(req, -r);
	} else if (fuse_reply_create(req, e, fi) < 0) {
		close_handle(view, req, fi);
		entry_forget(view, e);
	}
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_create);
	struct fuse_entry_param e;

	if (view)
		reply_created(req, view,
			      do_create(view, req, parent, name, mode, &e, fi),
			      &e, fi);
}

/* A file without a name, which link(2) may give it later. */
static int do_tmpfile(struct view *view, fuse_req_t req, fuse_ino_t parent,
		      mode_t mode, struct fuse_entry_param *ret_e,
		      struct fuse_file_info *fi)
{
	int flags = fi->flags & (O_ACCMODE | O_SYNC | O_DSYNC | O_EXCL);
	autohold struct hold dir = HOLD_NONE;
	autoinode struct inode *inode = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r = guard_object(view, parent, OP_CREATE, &dir);
	struct entry nameless = {.dir = dir, .name = ""};

	if (r == 0)
		r = caller_umask(req);
	if (r < 0)
		return r;
	fd = openat(dir.fd, ".", flags | O_TMPFILE | O_CLOEXEC, mode);
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	nameless.place = policy_inside(dir.inode->place);
	r = entry_of_file(view, &nameless, &stx, ret_e, &inode);
	if (r < 0)
		return r;
	__atomic_store_n(&inode->made_here, true, __ATOMIC_RELAXED);
	r = make_handle(view, req, inode, &stx, &fd, fi);
	if (r < 0)
		entry_forget(view, ret_e);
	return r;
}

void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode,
		struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_tmpfile);
	struct fuse_entry_param e;

	if (view)
		reply_created(req, view,
			      do_tmpfile(view, req, parent, mode, &e, fi), &e,
			      fi);
}

/*
 * Once the kernel has the answer, the file may be released at any moment, and
 * the content with it, while the answer is still being sent: hence the copy.
 */
static void reply_content(fuse_req_t req, const struct content *content,
			  size_t size, off_t offset)
{
	autofree char *copy = NULL;
	size_t left = 0;

	if (offset >= 0 && (size_t)offset < content->size)
		left = content->size - (size_t)offset;
	if (size < left)
		left = size;
	copy = malloc(left + 1);
	if (!copy) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	memcpy(copy, content->text + (left ? offset : 0), left);
	fuse_reply_buf(req, copy, left);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_read);
	struct file *file = file_of(fi);
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(size);
	int r;

	if (!view)
		return;
	r = guard_read(view, file);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	if (file->content) {
		reply_content(req, file->content, size, offset);
		return;
	}
	data.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	data.buf[0].fd = file->fd;
	data.buf[0].pos = offset;
	fuse_reply_data(req, &data, FUSE_BUF_SPLICE_MOVE);
}

/*
 * Appends where the file ends now, which others may have moved. If that isn't
 * where the kernel thinks, its pages are wrong.
 */
static ssize_t append_data(struct view *view, struct file *file,
			   struct fuse_bufvec *in, off_t offset)
{
	size_t size = fuse_buf_size(in);
	struct fuse_bufvec copy = FUSE_BUFVEC_INIT(size);
	autofree char *buffer = malloc(size);
	struct iovec iov = {.iov_base = buffer};
	struct stat st;
	ssize_t n;

	if (!buffer)
		return -ENOMEM;
	copy.buf[0].mem = buffer;
	n = fuse_buf_copy(&copy, in, 0);
	if (n < 0)
		return n;
	iov.iov_len = (size_t)n;
	n = pwritev2(file->fd, &iov, 1, offset, RWF_APPEND);
	if (n < 0)
		return -errno;
	if (fstat(file->fd, &st) < 0 || st.st_size != offset + n)
		notify_inode(view, file->inode->nodeid, 0);
	return n;
}

static ssize_t write_data(struct file *file, struct fuse_bufvec *in,
			  off_t offset)
{
	struct fuse_bufvec out = FUSE_BUFVEC_INIT(fuse_buf_size(in));

	out.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	out.buf[0].fd = file->fd;
	out.buf[0].pos = offset;
	return fuse_buf_copy(&out, in, 0);
}

static ssize_t do_write(struct view *view, struct fuse_bufvec *in, off_t offset,
			const struct fuse_file_info *fi)
{
	struct file *file = file_of(fi);
	int r = guard_write(view, file, fi->writepage);

	/* What a mapping holds that can't be written isn't there. */
	if (r < 0 && fi->writepage)
		notify_inode(view, file->inode->nodeid, 0);
	if (r < 0)
		return r;
	if (fi->writepage)
		__atomic_store_n(&file->mapped, true, __ATOMIC_RELAXED);
	else if ((fi->flags & O_APPEND) || file->appends_only)
		return append_data(view, file, in, offset);
	return write_data(file, in, offset);
}

void op_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *data,
		  off_t offset, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_write);
	ssize_t n;

	if (!view)
		return;
	n = do_write(view, data, offset, fi);
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else
		fuse_reply_write(req, (size_t)n);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_release);
	struct file *file = file_of(fi);

	if (!view)
		return;
	/* Stores through a mapping change attributes behind the kernel. */
	if (__atomic_load_n(&file->mapped, __ATOMIC_RELAXED) ||
	    (file->passed_through && (file->flags & O_ACCMODE) != O_RDONLY))
		notify_inode(view, ino, -1);
	close_handle(view, req, fi);
	fuse_reply_err(req, 0);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *fi)
{
	struct file *file = file_of(fi);
	int r = 0;

	if (!op_begin(req, REQUEST_fsync))
		return;
	if ((datasync ? fdatasync(file->fd) : fsync(file->fd)) < 0)
		r = errno;
	fuse_reply_err(req, r);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_fallocate);
	struct file *file = file_of(fi);
	int r;

	if (!view)
		return;
	r = guard_write(view, file, true);
	if (r == 0 && fallocate(file->fd, mode, offset, length) < 0)
		r = -errno;
	/* ENOSYS would end it for the whole connection. */
	fuse_reply_err(req, r == -ENOSYS ? EOPNOTSUPP : -r);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out,
			off_t off_out, struct fuse_file_info *fi_out,
			size_t length, int flags)
{
	struct view *view = op_begin(req, REQUEST_copy_file_range);
	struct file *in = file_of(fi_in), *out = file_of(fi_out);
	ssize_t n;

	if (!view)
		return;
	n = guard_write(view, out, true);
	if (n == 0)
		n = guard_read(view, in);
	if (n == 0 && in->content)
		n = -EXDEV; /* the kernel then reads and writes */
	if (n == 0) {
		n = copy_file_range(in->fd, &off_in, out->fd, &off_out, length,
				    0);
		if (n < 0)
			n = errno == ENOSYS ? -EXDEV : -errno;
	}
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else
		fuse_reply_write(req, (size_t)n);
}

static off_t seek(struct view *view, const struct file *file, off_t offset,
		  int whence)
{
	off_t size, at = guard_read(view, file);

	if (at < 0)
		return at;
	if (!file->content) {
		at = lseek(file->fd, offset, whence);
		return at < 0 ? -errno : at;
	}
	size = (off_t)file->content->size;
	if (offset < 0 || offset >= size)
		return -ENXIO;
	return whence == SEEK_HOLE ? size : offset;
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_lseek);
	off_t at;

	if (!view)
		return;
	at = seek(view, file_of(fi), offset, whence);
	if (at < 0)
		fuse_reply_err(req, (int)-at);
	else
		fuse_reply_lseek(req, at);
}

/* The inode flags and their kin that can be had and set (ioctl_iflags(2)). */
static const struct attribute_ioctl {
	unsigned int cmd;
	enum policy_op op;
	size_t in, out; /* bytes */
} attribute_ioctls[] = {
	{FS_IOC_GETFLAGS, OP_READ, 0, sizeof(int)},
	{FS_IOC_SETFLAGS, OP_SETXATTR, sizeof(int), 0},
	{FS_IOC_FSGETXATTR, OP_READ, 0, sizeof(struct fsxattr)},
	{FS_IOC_FSSETXATTR, OP_SETXATTR, sizeof(struct fsxattr), 0},
};

static const struct attribute_ioctl *find_ioctl(unsigned int cmd)
{
	for (size_t i = 0; i < ARRAY_SIZE(attribute_ioctls); i++)
		if (attribute_ioctls[i].cmd == cmd)
			return &attribute_ioctls[i];
	return NULL;
}

/* value: as the command takes or gives it. */
static int do_ioctl(struct view *view, fuse_ino_t ino,
		    const struct attribute_ioctl *wanted, void *value)
{
	autoinode struct inode *inode = NULL;
	autohold struct hold hold = HOLD_NONE;
	autofd int fd = -1;
	struct statx stx;
	int r = guard_object(view, ino, wanted->op, &hold);

	/* These don't take an O_PATH descriptor. */
	if (r == 0)
		r = guard_open(view, ino, O_RDONLY, &inode, &stx, &fd);
	if (r < 0)
		return r;
	return ioctl(fd, wanted->cmd, value) < 0 ? -errno : 0;
}

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
	      struct fuse_file_info *fi, unsigned int flags, const void *in,
	      size_t in_size, size_t out_size)
{
	struct view *view = op_begin(req, REQUEST_ioctl);
	const struct attribute_ioctl *wanted = find_ioctl(cmd);
	struct fsxattr value = {0}; /* the largest of them */
	int r;

	if (!view)
		return;
	if (!wanted || in_size < wanted->in || out_size < wanted->out) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (wanted->in)
		memcpy(&value, in, wanted->in);
	r = do_ioctl(view, ino, wanted, &value);
	if (r < 0)
		fuse_reply_err(req, r == -ENOSYS ? ENOTTY : -r);
	else
		fuse_reply_ioctl(req, 0, &value, wanted->out);
}

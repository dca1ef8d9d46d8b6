/*
 * Listings. A request names the place to go on from by the offset that the
 * backing file system gave the entry before, so that a listing needs no state
 * here: where the kernel opens directories by itself, each request opens the
 * backing directory anew.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/ops.h"

#define ENTRIES_SIZE 32768

/* The reply as it grows. */
struct listing {
	fuse_req_t req;
	struct view *view;
	struct inode *dir; /* borrowed */
	int fd;
	bool plus; /* with attributes, as by a lookup of each */
	char *buffer;
	size_t size, used;
};

static void do_opendir(fuse_req_t req, struct view *view, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	autoinode struct inode *inode = NULL;
	struct file *file;
	struct statx stx;
	autofd int fd = -1;
	int r = guard_open(view, ino, O_RDONLY | O_DIRECTORY, &inode, &stx,
			   &fd);

	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	file = file_new(inode, fd, O_RDONLY);
	if (!file) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	take_fd(&fd);
	file_enlist(file);
	fi->fh = (uintptr_t)file;
	/*
	 * The kernel compares the mtime itself, and keeps the listing while
	 * that is the same: it must be older than the next change will be. It
	 * can't see that one was set back.
	 */
	fi->cache_readdir = times_are_settled(&stx);
	fi->keep_cache = inode_data_is_known(inode, &stx);
	if (fuse_reply_open(req, fi) < 0)
		file_close(file);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_opendir);

	if (!view)
		return;
	if (view->asks_opendir)
		do_opendir(req, view, ino, fi);
	else
		fuse_reply_err(req,
			       ENOSYS); /* said once, it isn't asked again */
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct file *file = (struct file *)(uintptr_t)fi->fh;

	if (!op_begin(req, REQUEST_releasedir))
		return;
	if (file)
		file_close(file);
	fuse_reply_err(req, 0);
}

static bool is_dot_name(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What a listing knows without a lookup: number and type. */
static struct stat bare_attributes(const struct dirent64 *d)
{
	return (struct stat){
		.st_ino = d->d_ino,
		.st_mode = (mode_t)d->d_type << 12,
	};
}

/* A name that can't be looked up is still a name: the kernel asks again. */
static void lookup_listed(struct listing *list, const struct dirent64 *d,
			  struct fuse_entry_param *ret_e)
{
	struct entry entry = {
		.dir = {.inode = list->dir, .fd = list->fd},
		.place = policy_step(list->dir->place, d->d_name),
		.name = d->d_name,
		.listed = true,
	};

	if (!is_dot_name(d->d_name) &&
	    entry_lookup(list->view, &entry, ret_e) == 0)
		return;
	*ret_e = (struct fuse_entry_param){.attr = bare_attributes(d)};
}

/* Adds one entry to the reply; false if it doesn't fit any more. */
static bool add_entry(struct listing *list, const struct dirent64 *d)
{
	char *at = list->buffer + list->used;
	size_t room = list->size - list->used;
	size_t needed;

	if (list->plus) {
		struct fuse_entry_param e;

		lookup_listed(list, d, &e);
		needed = fuse_add_direntry_plus(list->req, at, room, d->d_name,
						&e, d->d_off);
		if (needed > room)
			entry_forget(list->view, &e);
	} else {
		struct stat st = bare_attributes(d);

		needed = fuse_add_direntry(list->req, at, room, d->d_name, &st,
					   d->d_off);
	}
	if (needed > room)
		return false;
	list->used += needed;
	return true;
}

/* Fills the reply from offset on. */
static int fill_listing(struct listing *list, off_t offset)
{
	char entries[ENTRIES_SIZE] __attribute__((aligned(8)));

	if (lseek(list->fd, offset, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		ssize_t n = getdents64(list->fd, entries, sizeof(entries));
		ssize_t at = 0;

		if (n < 0)
			return list->used > 0 ? 0 : -errno;
		if (n == 0)
			return 0;
		while (at < n) {
			const struct dirent64 *d = (const void *)(entries + at);

			if (!add_entry(list, d))
				return 0;
			at += d->d_reclen;
		}
	}
}

static int do_readdir(struct listing *list, fuse_ino_t ino, off_t offset,
		      const struct fuse_file_info *fi)
{
	struct file *file = (struct file *)(uintptr_t)fi->fh;
	autoinode struct inode *inode = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r;

	if (file) {
		r = guard_read(list->view, file);
		if (r < 0)
			return r;
		list->dir = file->inode;
		list->fd = file->fd;
		return fill_listing(list, offset);
	}
	r = guard_open(list->view, ino, O_RDONLY | O_DIRECTORY, &inode, &stx,
		       &fd);
	if (r < 0)
		return r;
	if (offset == 0)
		inode_data_is_known(inode, &stx);
	list->dir = inode;
	list->fd = fd;
	return fill_listing(list, offset);
}

static void reply_listing(fuse_req_t req, struct view *view, fuse_ino_t ino,
			  size_t size, off_t offset,
			  const struct fuse_file_info *fi, bool plus)
{
	autofree char *buffer = malloc(size);
	struct listing list = {
		.req = req,
		.view = view,
		.plus = plus,
		.buffer = buffer,
		.size = size,
	};
	int r = buffer ? do_readdir(&list, ino, offset, fi) : -ENOMEM;

	/* Nobody asks again by a path: it is as gone as one that was removed.
	 */
	if (r == -ESTALE)
		r = -ENOENT;
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_buf(req, buffer, list.used);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_readdir);

	if (view)
		reply_listing(req, view, ino, size, offset, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_readdirplus);

	if (view)
		reply_listing(req, view, ino, size, offset, fi, true);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *fi)
{
	struct view *view = op_begin(req, REQUEST_fsyncdir);
	autoinode struct inode *inode = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r;

	if (!view)
		return;
	r = guard_open(view, ino, O_RDONLY | O_DIRECTORY, &inode, &stx, &fd);
	if (r == 0)
		r = (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
	fuse_reply_err(req, -r);
}

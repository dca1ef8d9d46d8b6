/*
 * The operations that the kernel asks for, one op_ function each, and what
 * they have in common. A do_ function decides and answers 0 or -errno; its op_
 * function replies once, at the end.
 */
#ifndef WORKTREEFS_OPS_H
#define WORKTREEFS_OPS_H

#include <fuse_lowlevel.h>

#include "fs/guard.h"
#include "fs/view.h"

/* All of them; the userdata of the session is its struct view. */
extern const struct fuse_lowlevel_ops view_operations;

/*
 * Begins an operation: counts it and takes on the caller's ids. NULL when that
 * failed: an error has been replied then.
 */
struct view *op_begin(fuse_req_t req, enum request request);

/*
 * The entry of a name that is there, with one lookup of the kernel's added.
 * 0 or -errno (-ENOENT when there is no such name).
 */
int entry_lookup(struct view *view, const struct entry *entry,
		 struct fuse_entry_param *ret_e);
/* The same for a file that was just made and is open: stx is its own. Its
 * inode is returned referenced. */
int entry_of_file(struct view *view, const struct entry *entry,
		  const struct statx *stx, struct fuse_entry_param *ret_e,
		  struct inode **ret_inode);
/* Takes the lookup back when the reply didn't reach the kernel. */
void entry_forget(struct view *view, const struct fuse_entry_param *e);
/* Replies with the entry, or with -r. */
void reply_entry(fuse_req_t req, struct view *view, int r,
		 const struct fuse_entry_param *e);

/* The modes of directories that everybody may search. */
#define SEARCHABLE (S_IXUSR | S_IXGRP | S_IXOTH)

/* What is read instead of the file in fd, see content.h; NULL if nothing. */
struct content *read_pointer(const struct view *view, int fd,
			     const struct statx *stx);

/* names.c */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t rdev);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t newparent, const char *newname, unsigned int flags);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
	     const char *newname);

/* data.c */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *fi);
void op_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *data,
		  off_t offset, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out,
			off_t off_out, struct fuse_file_info *fi_out,
			size_t length, int flags);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *fi);

void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode,
		struct fuse_file_info *fi);
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
	      struct fuse_file_info *fi, unsigned int flags, const void *in,
	      size_t in_size, size_t out_size);

/* locks.c */
void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      struct flock *lock);
void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      struct flock *lock, int sleep);
void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      int operation);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* directories.c */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *fi);

/* attributes.c */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask,
	      struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_access(fuse_req_t req, fuse_ino_t ino, int mask);
void op_statfs(fuse_req_t req, fuse_ino_t ino);

/* xattrs.c */
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif

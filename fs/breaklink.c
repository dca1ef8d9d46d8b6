#include "fs/breaklink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/inode.h"
#include "fs/lib/fileio.h"

static int copy_range(int from, int to, off_t start, off_t end)
{
	while (start < end) {
		off_t in = start, out = start;
		ssize_t n = copy_file_range(from, &in, to, &out,
					    (size_t)(end - start), 0);

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* it was truncated meanwhile */
		start += n;
	}
	return 0;
}

/* The data between the holes. */
static int copy_data(int from, int to, off_t size)
{
	off_t start = 0;

	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (ftruncate(to, size) < 0)
		return -errno;
	for (;;) {
		off_t end;
		int r;

		start = lseek(from, start, SEEK_DATA);
		if (start < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, start, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_range(from, to, start, end);
		if (r < 0)
			return r;
		start = end;
	}
}

static int copy_xattr(int from, int to, const char *name)
{
	ssize_t size = fgetxattr(from, name, NULL, 0);
	autofree char *value = size > 0 ? malloc((size_t)size) : NULL;

	if (size < 0)
		return errno == ENODATA ? 0 : -errno;
	if (size > 0 && !value)
		return -ENOMEM;
	size = fgetxattr(from, name, value, (size_t)size);
	if (size < 0)
		return -errno;
	if (fsetxattr(to, name, value, (size_t)size, 0) == 0)
		return 0;
	/* What only the system may set, it sets by itself. */
	return errno == EPERM || errno == EOPNOTSUPP ? 0 : -errno;
}

static int copy_xattrs(int from, int to)
{
	ssize_t size = flistxattr(from, NULL, 0);
	autofree char *names = size > 0 ? malloc((size_t)size) : NULL;

	if (size <= 0)
		return size == 0 || errno == EOPNOTSUPP ? 0 : -errno;
	if (!names)
		return -ENOMEM;
	size = flistxattr(from, names, (size_t)size);
	for (const char *name = names; name < names + size;
	     name += strlen(name) + 1) {
		int r = copy_xattr(from, to, name);

		if (r < 0)
			return r;
	}
	return size < 0 ? -errno : 0;
}

static int copy_attributes(int from, int to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r;

	if (fchown(to, st->st_uid, st->st_gid) < 0 &&
	    fchown(to, (uid_t)-1, st->st_gid) < 0 && errno != EPERM)
		return -errno;
	r = copy_xattrs(from, to);
	if (r < 0)
		return r;
	if (fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0)
		return -errno;
	return 0;
}

#define PREFIX ".worktreefs"

/* A file without a name, or (no O_TMPFILE there) with the one in *name. */
static int make_copy(int dirfd, char **name)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR)
		return -errno;
	return create_temporary_at(dirfd, PREFIX, name);
}

/* Gives a nameless copy a name of its own: no rename can do that. */
static int name_copy(int fd, int dirfd, char **ret_name)
{
	autofree char *name = temporary_name(PREFIX);

	if (!name)
		return -ENOMEM;
	if (linkat(AT_FDCWD, fd_path(fd).text, dirfd, name, AT_SYMLINK_FOLLOW) <
	    0)
		return -errno;
	*ret_name = steal_pointer(&name);
	return 0;
}

static bool still_is(const struct inode *inode, int dirfd, const char *name)
{
	struct statx stx;

	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW, STATX_WANTED, &stx) ==
		       0 &&
	       inode_is(inode, &stx);
}

/* Fills the copy and puts it into the name's place. temporary: see
 * make_copy(); whatever name is left there on failure is to be removed. */
static int replace(const struct inode *inode, int dirfd, const char *name,
		   int copy, char **temporary)
{
	autofd int from = openat(
		dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !still_is(inode, dirfd, name))
		return -ESTALE;
	r = copy_data(from, copy, st.st_size);
	if (r == 0)
		r = copy_attributes(from, copy, &st);
	if (r == 0 && !*temporary)
		r = name_copy(copy, dirfd, temporary);
	if (r == 0 && !still_is(inode, dirfd, name))
		r = -ESTALE;
	if (r == 0 && renameat(dirfd, *temporary, dirfd, name) < 0)
		r = -errno;
	return r;
}

int break_link(struct inode *inode)
{
	autohold struct hold dir = HOLD_NONE;
	autofree char *name = NULL;
	autofree char *temporary = NULL;
	autofd int copy = -1;
	int r = inode_hold_parent(inode, &dir, &name);

	if (r < 0)
		return r;
	copy = make_copy(dir.fd, &temporary);
	if (copy < 0)
		return copy;
	r = replace(inode, dir.fd, name, copy, &temporary);
	if (r < 0 && temporary)
		unlinkat(dir.fd, temporary, 0);
	return r;
}

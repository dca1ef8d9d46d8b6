#include "fs/lib/fileio.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

/* read(2), again when a signal came in between. */
static ssize_t read_some(int fd, void *data, size_t size)
{
	ssize_t n;

	do {
		n = read(fd, data, size);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Doubles a buffer. 0 or -ENOMEM. */
static int grow(char **data, size_t *room)
{
	size_t larger = *room ? *room * 2 : 4096;
	char *p = realloc(*data, larger);

	if (!p)
		return -ENOMEM;
	*data = p;
	*room = larger;
	return 0;
}

int read_fd(int fd, size_t max, char **ret_data, size_t *ret_size)
{
	autofree char *data = NULL;
	size_t room = 0, size = 0;

	for (;;) {
		ssize_t n;

		/* One byte more than there is data, for the NUL. */
		if (room - size < 2 && grow(&data, &room) < 0)
			return -ENOMEM;
		n = read_some(fd, data + size, room - size - 1);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max)
			return -EFBIG;
	}

	data[size] = '\0';
	*ret_data = steal_pointer(&data);
	if (ret_size)
		*ret_size = size;
	return 0;
}

int read_file_at(int dirfd, const char *path, size_t max, char **ret_data,
		 size_t *ret_size)
{
	struct stat st;
	/* O_NONBLOCK: a FIFO with no writer must not hold us up. */
	autofd int fd = openat(dirfd, path,
			       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY |
				       O_NONBLOCK);

	if (fd < 0) {
		/* open(2) of a socket, or of a device that isn't there */
		return errno == ENXIO ? -EINVAL : -errno;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return read_fd(fd, max, ret_data, ret_size);
}

int write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size > 0) {
		ssize_t n = write(fd, p, size);

		if (n < 0) {
			int r = -errno;

			if (r == -EINTR)
				continue;
			return r;
		}
		if (n == 0)
			return -EIO; /* no write(2) of a file does this */
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

char *temporary_name(const char *prefix)
{
	uint64_t random;
	char *name;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random) ||
	    asprintf(&name, "%s.tmp-%016" PRIx64 ".lock", prefix, random) < 0)
		return NULL;
	return name;
}

int create_temporary_at(int dirfd, const char *prefix, char **ret_name)
{
	for (;;) {
		autofree char *name = temporary_name(prefix);
		int fd;

		if (!name)
			return -ENOMEM;
		fd = openat(dirfd, name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
				    O_CLOEXEC,
			    0600);
		if (fd >= 0)
			*ret_name = steal_pointer(&name);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
}

static int fill(int fd, const void *data, size_t size, mode_t mode)
{
	int r = write_all(fd, data, size);

	if (r < 0)
		return r;
	/* Not left to open(2), which takes the umask away. */
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

int write_file_at(int dirfd, const char *name, const void *data, size_t size,
		  mode_t mode)
{
	autofree char *temporary = NULL;
	autofd int fd = -1;
	int r;

	if (!name_is_valid(name))
		return -EINVAL;

	fd = create_temporary_at(dirfd, name, &temporary);
	if (fd < 0)
		return fd;
	r = fill(fd, data, size, mode);
	if (r == 0 && renameat(dirfd, temporary, dirfd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, temporary, 0);
	return r;
}

int read_link_at(int dirfd, const char *path, char **ret_target)
{
	autofree char *target = NULL;
	size_t room = 0;

	for (;;) {
		ssize_t n;

		if (grow(&target, &room) < 0)
			return -ENOMEM;
		n = readlinkat(dirfd, path, target, room);
		if (n < 0)
			return -errno;
		/* A full buffer may hold only the beginning. */
		if ((size_t)n < room) {
			char *fitting;

			target[n] = '\0';
			fitting = realloc(target, (size_t)n + 1);
			if (fitting)
				target = fitting;
			*ret_target = steal_pointer(&target);
			return 0;
		}
	}
}

struct fd_path fd_path(int fd)
{
	struct fd_path path;

	snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd);
	return path;
}

/* Does path lead to what the descriptor refers to? 1, 0 or -errno. */
static int is_path_of(const char *path, int fd)
{
	struct stat by_path, by_fd;

	if (fstat(fd, &by_fd) < 0)
		return -errno;
	if (lstat(path, &by_path) < 0)
		return 0;
	return by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

int fd_real_path(int fd, char **ret_path)
{
	static const char deleted[] = " (deleted)";
	const size_t deleted_len = sizeof(deleted) - 1;
	autofree char *path = NULL;
	size_t len;
	int r;

	r = read_link_at(AT_FDCWD, fd_path(fd).text, &path);
	if (r < 0)
		return r;
	if (path[0] != '/') /* "pipe:[4026]" and the like */
		return -ENOENT;

	/* The kernel's mark, unless somebody named a file so. */
	len = strlen(path);
	if (len > deleted_len && !strcmp(path + len - deleted_len, deleted)) {
		r = is_path_of(path, fd);
		if (r < 0)
			return r;
		if (r == 0)
			return -ENOENT;
	}
	*ret_path = steal_pointer(&path);
	return 0;
}

int dir_real_path(const char *path, char **ret_real)
{
	autofree char *real = realpath(path, NULL);
	struct stat st;

	if (!real || stat(real, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*ret_real = steal_pointer(&real);
	return 0;
}

/* Opens one directory in dirfd; O_PATH. */
static int open_dir_here(int dirfd, const char *name)
{
	/* With O_DIRECTORY a symlink would answer ENOTDIR, like a file. */
	autofd int fd = openat(dirfd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return take_fd(&fd);
}

int open_dir_beneath(int dirfd, const char *relative)
{
	autofd int fd = open_dir_here(dirfd, ".");

	if (fd < 0)
		return fd;
	while (*relative) {
		size_t len = strcspn(relative, "/");
		char name[NAME_MAX + 1];
		int next;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		*(char *)mempcpy(name, relative, len) = '\0';
		if (!name_is_valid(name))
			return -EINVAL;
		next = open_dir_here(fd, name);
		if (next < 0)
			return next;
		close(fd);
		fd = next;

		relative += len;
		if (relative[0] == '/' && !relative[1])
			return -EINVAL;
		relative += *relative == '/';
	}
	return take_fd(&fd);
}

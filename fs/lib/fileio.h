/*
 * Small files, whole: read and written. All descriptors are O_CLOEXEC.
 */
#ifndef WORKTREEFS_FILEIO_H
#define WORKTREEFS_FILEIO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Reads a whole regular file of at most max bytes, without waiting for a FIFO.
 * The result is allocated, NUL-terminated, and its length (without the NUL)
 * goes to ret_size, which may be NULL. -EFBIG if the file is longer, -EINVAL if
 * it isn't regular, -ELOOP if the last component is a symlink, otherwise
 * -errno.
 */
int read_file_at(int dirfd, const char *path, size_t max, char **ret_data,
		 size_t *ret_size);

/* The same from a descriptor's current offset to its end, of any type. */
int read_fd(int fd, size_t max, char **ret_data, size_t *ret_size);

/* Writes all of it. 0 or -errno. */
int write_all(int fd, const void *data, size_t size);

/*
 * Replaces name in dirfd by a new file with this content, atomically: a
 * reader sees the old one or the new one whole. The mode is exactly this,
 * whatever the umask is. 0 or -errno, and then the old file is what it was.
 *
 * Nothing is synced: this is for files that mean nothing after a crash of the
 * machine. A writer that was killed leaves "NAME.tmp-", 16
 * hex digits and ".lock".
 */
int write_file_at(int dirfd, const char *name, const void *data, size_t size,
		  mode_t mode);

/*
 * A name that nothing else is likely to have: prefix, ".tmp-", a random number
 * and ".lock", which is what git calls files of this kind, so that they can be
 * made where a git guard holds the others. Allocated; NULL when out of memory.
 */
char *temporary_name(const char *prefix);
/*
 * Makes a file of such a name, mode 0600, opened for writing. Its name is the
 * caller's to rename or unlink. The descriptor or -errno.
 */
int create_temporary_at(int dirfd, const char *prefix, char **ret_name);

/*
 * The target of a symlink, allocated. "" as path reads the link that dirfd is
 * itself (O_PATH). 0 or -errno.
 */
int read_link_at(int dirfd, const char *path, char **ret_target);

/* "/proc/self/fd/N". The one place that spells it. */
struct fd_path {
	char text[32];
};
struct fd_path fd_path(int fd);

/*
 * The path of what the descriptor refers to, as the kernel spells it,
 * allocated. -ENOENT if it is deleted or has no path. 0 or -errno.
 */
int fd_real_path(int fd, char **ret_path);

/*
 * realpath(3) of a directory, allocated. -ENOTDIR if it is something else.
 * 0 or -errno.
 */
int dir_real_path(const char *path, char **ret_real);

/*
 * Opens a directory component by component without following a symlink
 * anywhere and without leaving dirfd; O_PATH. relative may be "".
 * The descriptor or -errno (-ELOOP for a symlink, -ENOTDIR, ...; -EINVAL where
 * relative isn't names with single slashes between them).
 */
int open_dir_beneath(int dirfd, const char *relative);

#endif

/*
 * The kernel's descriptors of mounts (since Linux 5.2, mount_setattr(2) since
 * 5.12): a mount is made detached, looked at, and only then attached to its
 * place, by descriptor. Every descriptor here is O_CLOEXEC.
 *
 * All of it needs CAP_SYS_ADMIN in the user namespace that owns the current
 * mount namespace. Each function returns a descriptor, or 0, or -errno.
 */
#ifndef WORKTREEFS_MOUNTAPI_H
#define WORKTREEFS_MOUNTAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Opens what is at an absolute path, O_PATH, and follows no symlink anywhere
 * in it: -ELOOP. What is mounted on it counts.
 */
int mount_target_open(const char *path);

/* A detached copy of the mounts at path and below; a symlink isn't followed. */
int mount_clone(const char *path);
/* The same from a directory; both in the current mount namespace. */
int mount_clone_at(int dirfd, const char *name);

/* All mounts in the detached tree become read-only. */
int mount_make_read_only(int mount_fd);

/*
 * Attaches the detached mount on top of what target_fd refers to, which must
 * lie in the current mount namespace.
 */
int mount_attach(int mount_fd, int target_fd);

/* A detached, empty tmpfs of this size, its root 0700 and the caller's. */
int mount_new_tmpfs(const char *size);

/*
 * A detached FUSE file system of type fuse.worktreefs over device_fd, an open
 * /dev/fuse that this user namespace has opened. It is noexec or read-only
 * where flags (as in statvfs.f_flag) say that what it covers is.
 */
int mount_new_fuse(int device_fd, mode_t root_mode, unsigned long flags,
		   bool allow_other);

#endif

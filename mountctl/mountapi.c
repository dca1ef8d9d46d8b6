#include "mountctl/mountapi.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"

int mount_target_open(const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int mount_clone_at(int dirfd, const char *name)
{
	int fd = open_tree(dirfd, name,
			   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
				   AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);

	return fd < 0 ? -errno : fd;
}

int mount_clone(const char *path)
{
	return mount_clone_at(AT_FDCWD, path);
}

int mount_make_read_only(int mount_fd)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	if (mount_setattr(mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
			  sizeof(attr)) < 0)
		return -errno;
	return 0;
}

int mount_attach(int mount_fd, int target_fd)
{
	if (move_mount(mount_fd, "", target_fd, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

struct mount_option {
	const char *key;
	const char *value; /* NULL: a flag */
};

/* Makes a file system with these options, and a detached mount of it. */
static int new_mount(const char *type, const struct mount_option *options,
		     size_t n, unsigned int attributes)
{
	autofd int fs = fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		if (fsconfig(fs,
			     options[i].value ? FSCONFIG_SET_STRING
					      : FSCONFIG_SET_FLAG,
			     options[i].key, options[i].value, 0) < 0)
			return -errno;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
	return fd < 0 ? -errno : fd;
}

int mount_new_tmpfs(const char *size)
{
	const struct mount_option options[] = {
		{"source", "worktreefs"},
		{"mode", "0700"},
		{"size", size},
	};

	return new_mount("tmpfs", options, ARRAY_SIZE(options),
			 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				 MOUNT_ATTR_NOEXEC);
}

int mount_new_fuse(int device_fd, mode_t root_mode, unsigned long flags,
		   bool allow_other)
{
	char fd[16], mode[16], uid[16], gid[16];
	const struct mount_option options[] = {
		{"source", "worktreefs"},
		{"subtype", "worktreefs"},
		{"fd", fd},
		{"rootmode", mode},
		{"user_id", uid},
		{"group_id", gid},
		{"allow_other", NULL},
	};
	unsigned int attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

	snprintf(fd, sizeof(fd), "%d", device_fd);
	snprintf(mode, sizeof(mode), "%o", root_mode & S_IFMT);
	snprintf(uid, sizeof(uid), "%u", geteuid());
	snprintf(gid, sizeof(gid), "%u", getegid());
	if (flags & ST_NOEXEC)
		attributes |= MOUNT_ATTR_NOEXEC;
	if (flags & ST_RDONLY)
		attributes |= MOUNT_ATTR_RDONLY;
	/* allow_other stands last, so that it can be left out. */
	return new_mount("fuse", options,
			 ARRAY_SIZE(options) - (allow_other ? 0 : 1),
			 attributes);
}

/*
 * The mounts of worktreefs, as mountinfo lists them (proc_pid_mountinfo(5)),
 * and taking one away. Nothing here looks at a mount point itself: the process
 * behind it may be dead, or stuck.
 */
#ifndef WORKTREEFS_MOUNTS_H
#define WORKTREEFS_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct view_mount {
	char *mountpoint;
	char *device; /* "MAJOR:MINOR" */
	bool hidden;  /* something else is mounted over it */
	uid_t owner;  /* who mounted it; -1: not known */
};

/* Zero-initialised it is empty. */
struct view_mounts {
	struct view_mount *mount; /* owned, with the strings in it */
	size_t n;
};

void view_mounts_release(struct view_mounts *mounts);

/*
 * The views that a process sees, in the order they were mounted; pid 0: ours.
 * 0, -ESRCH when it is gone, -EACCES when it isn't ours to ask.
 */
int view_mounts_read(pid_t pid, struct view_mounts *ret_mounts);

/*
 * Does the view at this path answer? Asked by a child: it may not. 0; -errno of
 * the answer: -ENOTCONN where nobody serves it any more; -ETIMEDOUT.
 */
int mount_probe(const char *mountpoint, int timeout_ms);

/* The one at exactly this path that isn't hidden, or NULL. Borrowed. */
const struct view_mount *view_mounts_at(const struct view_mounts *mounts,
					const char *path);

/*
 * Is something mounted at the path or below it, of whatever kind? 1 and where,
 * allocated; 0; -errno.
 */
int mount_find_below(const char *path, char **ret_mountpoint);

/*
 * Unmounts what is mounted at exactly this path: as root by umount2(2), else
 * by fusermount3(1). lazy: from those who use it, too. 0; -EBUSY; -errno with
 * a message.
 */
int mount_detach(const char *mountpoint, bool lazy, char **message);

#endif

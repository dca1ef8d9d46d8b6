/*
 * Private user and mount namespaces for a command, see user_namespaces(7) and
 * mount_namespaces(7).
 *
 * What can be had depends on the caller:
 *
 *   NAMESPACE_USER   An unprivileged caller. Its own uid and gid are mapped to
 *                    themselves and nothing else is; setgroups(2) is denied.
 *   NAMESPACE_ROOT   Root. Every id that the current namespace maps is mapped
 *                    to itself.
 *   NAMESPACE_MOUNT  Root where user namespaces can't be had: a mount namespace
 *                    alone. confine.h then takes away more.
 *
 * User namespaces come in two steps. In the first everything is mounted; then
 * namespace_seal() enters a second pair of namespaces of the same ids, and the
 * kernel locks the mounts that it takes along (MNT_LOCKED, fs/namespace.c):
 *
 * - Whoever has CAP_SYS_ADMIN in the second can't detach, move or remount one
 *   of them. Root needs that capability there, for other sandboxes.
 * - When a mount namespace ends, its mounts fall apart, and a descriptor of a
 *   directory above a view, held by a process in a namespace further in, would
 *   lead to the real tree. Locked mounts stay where they are.
 *
 * The caller must have one thread. Messages name what refused and the mend.
 */
#ifndef WORKTREEFS_NAMESPACE_H
#define WORKTREEFS_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

enum namespace_kind {
	NAMESPACE_USER,
	NAMESPACE_ROOT,
	NAMESPACE_MOUNT,
};

/*
 * Enters new namespaces whose mounts are private: nothing propagates into them
 * or out of them. 0, or -errno with a message; after a failure the process may
 * be in a namespace of no use and should end.
 */
int namespace_enter(enum namespace_kind *ret_kind, char **message);

/*
 * The second step, see above; nothing for NAMESPACE_MOUNT. Descriptors of
 * directories and mounts that were opened before lie outside from here on.
 */
int namespace_seal(enum namespace_kind kind, char **message);

/*
 * Enters the namespaces of a process (by pidfd; pid names it in messages), and
 * its root directory. Until the next exec the process can't be traced.
 */
int namespace_join(int pidfd, pid_t pid, enum namespace_kind *ret_kind,
		   char **message);

/* Will a namespace of the caller's map no ids but its own? */
bool namespace_is_narrow(void);

/*
 * Opens /dev/fuse. It serves mounts of the user namespace that it is opened
 * in. The descriptor, or -errno with a message.
 */
int namespace_open_fuse(char **message);

/*
 * Tries in a child process whether all of this can be had, /dev/fuse included.
 * 0, or -errno with the message that namespace_enter() would give.
 */
int namespace_probe(char **message);

#endif

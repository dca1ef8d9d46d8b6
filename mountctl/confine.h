/*
 * What a command behind the guard may not do: gain what could take the mounts
 * away again, and type into the caller's terminal.
 *
 * Capabilities, by namespace:
 *
 *   NAMESPACE_USER   None. CAP_SYS_ADMIN leaves the bounding set as well: file
 *                    capabilities count in a user namespace, too. The rest of
 *                    the bounding set stays, because the kernel refuses to
 *                    execute a file whose capabilities can't be granted (ping).
 *   NAMESPACE_ROOT   All; the kernel has locked the mounts (namespace.h).
 *                    CAP_SYS_ADMIN leaves the bounding set, and reaches root's
 *                    own programs by way of the inheritable set: bubblewrap,
 *                    started by root, makes its namespaces with it. Whoever
 *                    isn't root any more can't get it back.
 *   NAMESPACE_MOUNT  Nothing that detaches mounts, opens files by handle, or
 *                    reaches the kernel's or another process's memory, is left
 *                    in any set.
 *
 * See capabilities(7).
 */
#ifndef WORKTREEFS_CONFINE_H
#define WORKTREEFS_CONFINE_H

#include <stdint.h>

#include "mountctl/namespace.h"

/*
 * ioctl(2) with TIOCSTI or TIOCLINUX answers EPERM from here on: both push
 * characters into a terminal as if they had been typed. In force for every
 * system call interface of the machine. Needs CAP_SYS_ADMIN in the current
 * user namespace, so it comes before confine_capabilities(), and doesn't set
 * no_new_privs. 0 or -errno.
 */
int confine_terminal(void);

/* The bounding set, as a mask; to be read before namespaces are entered. */
uint64_t confine_bounding(void);

/*
 * A new user namespace comes with every capability; the command gets none that
 * isn't in bounding, CAP_SYS_ADMIN as above apart. 0 or -errno.
 */
int confine_capabilities(enum namespace_kind kind, uint64_t bounding);

#endif

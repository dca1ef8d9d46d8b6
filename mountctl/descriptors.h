/*
 * The descriptors that a command inherits from mountctl's caller. They were
 * opened before the view was there and see the file systems without it: a
 * directory leads anywhere by "..", and a file that is open for reading can be
 * opened for writing by way of /proc/self/fd, or have its mode changed.
 *
 *   above 2   directories, wherever they lead, and files of restricted trees
 *             are closed, each with a warning
 *   0 to 2    a directory is refused; a file of a restricted tree is opened
 *             again through the view, at its offset, if it was open for
 *             reading only, else kept and named in a warning
 *
 * Pipes, sockets, devices and all other files stay. Inherited is what isn't
 * close-on-exec: mountctl's own descriptors all are.
 */
#ifndef WORKTREEFS_DESCRIPTORS_H
#define WORKTREEFS_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

#include "fs/lib/policy.h"
#include "mountctl/aliases.h"

struct inherited {
	int fd;
	int flags; /* as fcntl(F_GETFL) has them */
	mode_t mode;
	ino_t inode;
	char *path; /* owned; NULL: none, or deleted */
};

struct descriptors {
	struct inherited *item; /* owned */
	size_t n;
};

/*
 * Looks at all of them; to be called before the view is there. -EINVAL with a
 * message for a directory among 0 to 2; -errno.
 */
int descriptors_gather(struct descriptors *ret_descriptors, char **message);

/*
 * Does what is said above; to be called behind the view. rules: all of the
 * session's, compiled for "/". aliases: other paths of restricted trees.
 * 0, or -errno with a message when one of 0 to 2 can't be opened again.
 */
int descriptors_settle(const struct descriptors *descriptors,
		       const struct policy *rules,
		       const struct aliases *aliases, char **message);

void descriptors_release(struct descriptors *descriptors);

#endif

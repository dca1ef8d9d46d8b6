/*
 * ssh(1) refuses configuration that it includes from a file which belongs to
 * neither root nor the caller. In a user namespace that maps the caller's own
 * uid alone, root's files look like nobody's. So the caller gets read-only
 * copies of its own, mounted over them.
 */
#ifndef WORKTREEFS_SSHCONFIG_H
#define WORKTREEFS_SSHCONFIG_H

#include <stddef.h>

struct ssh_copy {
	char *path; /* real */
	char *text;
	size_t size;
};

struct ssh_copies {
	struct ssh_copy *copy; /* owned, with what is in it */
	size_t n;
};

/*
 * Reads the system's client configuration, ssh_config(5), and what it includes,
 * as far as root owns it and the caller can read it. To be called while root
 * is still known as such. directory: "/etc/ssh", or one like it.
 * 0 or -ENOMEM; what can't be read is left to ssh.
 */
int sshconfig_read(const char *directory, struct ssh_copies *ret_copies);

/*
 * Mounts the copies over their originals. scratch_fd: a directory on a tmpfs
 * of the current mount namespace; nothing stays in it. 0 or -errno.
 */
int sshconfig_cover(const struct ssh_copies *copies, int scratch_fd);

void sshconfig_release(struct ssh_copies *copies);

#endif

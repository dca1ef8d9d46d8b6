/*
 * Starting a filesystem process and talking it through the set-up of a
 * session (fs/lib/wire.h).
 */
#ifndef WORKTREEFS_SERVER_H
#define WORKTREEFS_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/spec.h"

/*
 * Where the program worktreefs is: WORKTREEFS_BIN, beside mountctl, in the
 * build tree, in libexec. -ENOENT with a message.
 */
int server_find_program(char **ret_path, char **ret_message);

/*
 * Starts worktreefs in a session of its own, not as our child, with no
 * descriptor of ours but the socket and those handed over; its working
 * directory is /, its stdio /dev/null and (stderr) the session's log file.
 * Sends it the session; root_fds are the views' roots, opened before anything
 * was mounted over them. Returns once it has accepted.
 *
 * Ownership of the descriptors stays with the caller; dir_fd and lock_fd come
 * from record_claim().
 *
 * ret_sock: the socket. Closing it before server_commit() ends the process.
 */
int server_start(const struct session_spec *spec, int dir_fd, int lock_fd,
		 const char *record_dir, const int *root_fds, int *ret_sock,
		 char **ret_message);

/*
 * Has it serve: the mounted descriptors of /dev/fuse, one a view, or NULL: it
 * mounts at the spec's mount points itself. Returns when every view is served.
 */
int server_serve(int sock, const int *fuse_fds, size_t n, char **ret_message);

/*
 * Ends the set-up: from here on it lives on its own. command may be NULL. Warns
 * on stderr of what isn't as it should be, but good enough.
 */
int server_commit(int sock, const struct strings *devices, const char *command,
		  char **ret_message);

#endif

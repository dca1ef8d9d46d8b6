/*
 * The environment of a command behind the guard.
 *
 * WORKTREEFS_SESSION names a file with the session's rules, the JSON text of
 * fs/lib/spec.h. It is read-only and lies in the runtime directory, which
 * inside belongs to the session; it outlives any descriptor that a program on
 * the way down may have closed. The same text is in a sealed memfd
 * (memfd_create(2)), whose number is in WORKTREEFS_SESSION_FD: that one can't
 * be covered by a mount.
 */
#ifndef WORKTREEFS_ENVIRONMENT_H
#define WORKTREEFS_ENVIRONMENT_H

#include <stdbool.h>

#include "fs/lib/spec.h"

#define SESSION_VARIABLE "WORKTREEFS_SESSION"
#define SESSION_FD_VARIABLE "WORKTREEFS_SESSION_FD"

/*
 * Takes away the variables by which git would be led to another repository,
 * index or object store than those it finds by itself, and warns of those that
 * were set. GIT_CONFIG_* stay.
 */
void environment_unset_git(void);

/*
 * The session that this process is in, from SESSION_VARIABLE: a file's path,
 * be it one in /proc/self/fd. 0; -ENOENT: in none; -errno when it names what
 * can't be read as one.
 */
int environment_session(struct session_spec *ret_spec);

/* Is this process in the session of that name? */
bool environment_is_inside(const char *name);

/*
 * Closes the memfd that an outer session handed to this process, before the
 * command gets one of its own.
 */
void environment_close_outer(void);

/*
 * Names the snapshot in the environment: path, and text in a sealed memfd that
 * stays open over exec. 0 or -errno.
 */
int environment_set_session(const char *path, const char *text);

#endif

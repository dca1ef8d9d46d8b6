/*
 * Where the views of a mounted session are seen: the first at --at DIR or in
 * the session's directory (record.h), the others there.
 */
#ifndef WORKTREEFS_MOUNTPOINTS_H
#define WORKTREEFS_MOUNTPOINTS_H

#include "fs/lib/spec.h"
#include "mountctl/sessions.h"

/*
 * Makes sure that the path is in no session's view: a dead session that is
 * mounted there, or above, is cleared away; a live one is -EINVAL with a
 * message.
 */
int mountpoints_clear(const struct sessions *sessions, const char *path,
		      char **message);

/*
 * Gives each view of spec its mount point; session_dir is a path, at may be
 * NULL. -EINVAL with a message where one lies in a root: the view would contain
 * itself.
 */
int mountpoints_choose(struct session_spec *spec, const char *session_dir,
		       const char *at, char **message);

/*
 * Makes those that are missing. *ret_made is set, also on failure, to the first
 * view's if that was made outside of the session's directory: who breaks off
 * removes it. -EINVAL with a message for what isn't an empty directory.
 */
int mountpoints_make(const struct session_spec *spec, const char *session_dir,
		     char **ret_made, char **message);

#endif

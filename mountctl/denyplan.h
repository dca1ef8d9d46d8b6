/*
 * From two lists of trees to a session: what `sandbox-run` starts.
 *
 * A denied tree is read-only, an allowed one in it isn't; a denied one in an
 * allowed one has no say. Where an allowed tree, or the working directory, is a
 * linked worktree of a checkout that is denied, it is the session's worktree:
 * commits reach the git directory, behind the git guard, unless that directory
 * is denied by its own name.
 */
#ifndef WORKTREEFS_DENYPLAN_H
#define WORKTREEFS_DENYPLAN_H

#include "fs/lib/spec.h"
#include "mountctl/denylist.h"

/*
 * list: resolved. ret_missing: denied trees that don't exist and that nothing
 * guards therefore, appended.
 *
 * 1; 0: nothing that exists is denied; -EINVAL for what the user must mend;
 * -errno; with a message.
 */
int denyplan(const struct denylist *list, struct session_spec *ret_spec,
	     struct strings *ret_missing, char **message);

#endif

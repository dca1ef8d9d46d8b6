/*
 * Two lists of trees: what may not be changed, and what may all the same. An
 * allowed tree wins over a denied one, at any depth: what lies in neither may
 * be changed, too.
 */
#ifndef WORKTREEFS_DENYLIST_H
#define WORKTREEFS_DENYLIST_H

#include <stdbool.h>

#include "fs/lib/spec.h"

/* Real paths, see denylist_resolve(). Zero-initialised it is empty. */
struct denylist {
	struct strings deny, allow;
};

void denylist_release(struct denylist *list);

/*
 * Words as on the command line, relative to the working directory, replaced by
 * the places that they lead to; these need not exist. 0 or -errno with a
 * message.
 */
int denylist_resolve(struct denylist *list, char **message);

/* Is the place (real) denied? *ret_tree (may be NULL): the tree; borrowed. */
bool denylist_denies(const struct denylist *list, const char *place,
		     const char **ret_tree);

/*
 * The same name in the worktree that cwd (real) lies in, where that is one of
 * the allowed trees and place lies in a checkout that is denied. Allocated;
 * NULL: there is none.
 */
char *denylist_twin(const struct denylist *list, const char *cwd,
		    const char *place);

#endif

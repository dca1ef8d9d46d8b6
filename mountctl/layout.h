/*
 * From a session's rules to its trees: which are views, and which the real
 * directory can serve as it stands.
 *
 * Each top-most tree with a rule whose verdicts only we can give is a view.
 * Behind run, a tree that merely has to be read-only, and the session's own
 * worktree where mounts can hold all that its rules say, are native: the real
 * directory, mounted with its rule's access.
 */
#ifndef WORKTREEFS_LAYOUT_H
#define WORKTREEFS_LAYOUT_H

#include <stdbool.h>

#include "fs/lib/spec.h"

struct layout {
	const char *root;      /* of --root, or NULL; borrowed */
	bool native_worktree;  /* serve W natively if mounts can hold it */
	struct strings native; /* --native PATH: resolved paths */
	bool hardlinks_given;  /* --hardlinks holds on FUSE only */
};

/*
 * Fills spec->views and spec->native from everything else in it. Rules of
 * siblings that nothing can or need hold are taken out of spec->rules.
 *
 * 0; -EINVAL with a message for what the user must mend; -errno.
 */
int layout_session(const struct layout *layout, struct session_spec *spec,
		   char **message);

/*
 * The rule that decides for a path: the deepest at or above it, of several
 * there the one of the strongest origin. NULL: none.
 * Patterns don't count. Borrowed.
 */
const struct rule *rules_governing(const struct rules *rules, const char *path);

/* Does no rule of a stronger origin stand at the same path? */
bool rule_is_effective(const struct rules *rules, const struct rule *rule);

#endif

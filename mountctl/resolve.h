/*
 * Where a path leads. Like realpath(3), but a path need not exist: what is
 * missing is appended as text.
 */
#ifndef WORKTREEFS_RESOLVE_H
#define WORKTREEFS_RESOLVE_H

#include <stdbool.h>

#include "fs/lib/spec.h"

struct resolved {
	char *path;	      /* absolute, clean, no symlink in it */
	bool exists;	      /* all of it was there */
	struct strings links; /* the symlinks that were followed */
};

void resolved_release(struct resolved *resolved);

/*
 * Resolves path, which may be relative to base (absolute and clean).
 *
 * stops (may be NULL) are directories that must not be entered, because a
 * look into them might never return: what is below them is text, too.
 *
 * 0; -ELOOP: too many symlinks; -EACCES and others as readlink(2) has them.
 */
int path_resolve(const char *base, const char *path,
		 const struct strings *stops, struct resolved *ret_resolved);

#endif

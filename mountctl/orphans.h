/*
 * Sessions that live, but whose record somebody has removed by hand, or whose
 * runtime directory has gone with a login. Their filesystem process is found in
 * /proc, by what it has open: the session's state directory or its worktree,
 * and a lock that isn't in any directory any more; or the session's directory,
 * where that has no record that can be read. (So has one that is about to
 * start: it isn't counted until it has had the time.)
 */
#ifndef WORKTREEFS_ORPHANS_H
#define WORKTREEFS_ORPHANS_H

#include <stdbool.h>

#include "fs/lib/record.h"

/* What is known of the one that is looked for; borrowed. */
struct orphan_hints {
	const char *name;      /* or NULL: any */
	bool unreadable;       /* there is a directory for that name's record */
	const char *state_dir; /* or NULL */
	const char *worktree;  /* or NULL */
};

/*
 * Looks for one that has one of the directories open. Of ret_record the name
 * (in its spec), pid, start time and devices are set, and it is live; the
 * devices are empty where the kernel doesn't tell them (before Linux 6.16).
 *
 * 1; 0: there is none, or none that can be seen from here; -errno.
 */
int orphan_find(const struct orphan_hints *hints, struct record *ret_record);

#endif

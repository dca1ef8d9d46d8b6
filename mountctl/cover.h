/*
 * worktreefs' own directories, as a session sees them: those of the records and
 * of the state are covered by small, empty ones, which a session inside the
 * session may use for its own. The session's own state directory, with its
 * denial log, shows through, read-only.
 */
#ifndef WORKTREEFS_COVER_H
#define WORKTREEFS_COVER_H

#include "fs/lib/spec.h"

struct covers {
	struct strings paths; /* real; that of the records first */
};

/*
 * Finds the directories. Paths of them in a view are added to the names that
 * the view pins (spec->views[].pinned), because something is mounted there.
 *
 * directory: the working directory. Neither it nor anything of the session's
 * may lie in what will be covered: -EINVAL with a message. -errno likewise.
 */
int cover_plan(struct session_spec *spec, const char *directory,
	       struct covers *ret_covers, char **message);

/*
 * Covers those that exist. Afterwards the rules are in a read-only file, whose
 * path goes to *ret_snapshot, allocated; and ret_scratch is an O_PATH
 * descriptor of the directory that covers the records. 0 or -errno with a
 * message.
 */
int cover_all(const struct covers *covers, const struct session_spec *spec,
	      const char *snapshot, int *ret_scratch, char **ret_snapshot,
	      char **message);

/* The path of the snapshot in a session whose records are here. Allocated. */
char *cover_snapshot_path(const char *record_base);

void covers_release(struct covers *covers);

#endif

/*
 * The denial log of the session: what was refused, to whom, and where it
 * should have gone. One JSON line each, in STATE_DIR/denials.jsonl:
 *
 *   {"time": "2026-01-31T12:00:00.123Z", "session": "wt", "pid": 4711,
 *    "comm": "sed", "exe": "/usr/bin/sed", "op": "create",
 *    "path": "/r/src/sedX1", "access": "ro", "rule": "/r",
 *    "origin": "default", "errno": "EROFS", "twin": "/r/wt/src/sedX1",
 *    "count": 1}
 *
 * "twin" only where the path lies in the main checkout outside the worktree
 * and the git directory; "what" where a judge of the git guard names what is
 * in the way. Paths are encoded as fs/lib/spec.h says. Repeats of the same
 * (pid, op, path) within a second are one line, written when that second is
 * over, with their number as count.
 *
 * A request only adds to a bounded table in memory; a thread of its own
 * writes. What doesn't fit, there or on the disk, is counted, and the log says
 * so: {"time": ..., "session": ..., "dropped": 17}. The log is bounded: at
 * DENIALS_MAX_SIZE it becomes denials.jsonl.1, in place of the one before.
 *
 * Git's optional locks are counted, but make no lines.
 */
#ifndef WORKTREEFS_DENIALS_H
#define WORKTREEFS_DENIALS_H

#include <stdint.h>
#include <sys/types.h>

#include "fs/lib/policy.h"
#include "fs/lib/spec.h"

#define DENIALS_MAX_SIZE (4u << 20) /* bytes */

struct denial {
	pid_t pid; /* or of a thread; 0: unknown */
	enum policy_op op;
	const char *path;	 /* absolute, at its real place; borrowed */
	const struct rule *rule; /* borrowed */
	int error;		 /* -errno */
	const char *what;	 /* borrowed, or NULL */
};

/* Starts the thread. The spec is borrowed until denials_stop(). Without a
 * state directory denials are only counted. 0 or -errno. */
int denials_start(const struct session_spec *spec);
/* Writes what there is and ends the thread. */
void denials_stop(void);
/* Opens the log anew, as after somebody else moved it away. */
void denials_reopen(void);

/* Each line of the log, with its newline, is told to this function, too, from
 * the log's thread; NULL: no more, also not at this moment. */
void denials_tell(void (*tell)(const char *line, void *data), void *data);

/* Never waits for a disk, and never fails. */
void denials_add(const struct denial *denial);

/* Denials by program or by path, the most first. */
struct denial_count {
	char *name; /* owned */
	uint64_t count;
};

/* At most max of them into ret, whose strings are the caller's. Their number.
 */
size_t denials_by_program(struct denial_count *ret, size_t max);
size_t denials_by_path(struct denial_count *ret, size_t max);

#endif

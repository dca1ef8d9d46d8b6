/*
 * mountctl, started by mountctl: with a pipe to its stdin, another from its
 * stdout, and what it says on stderr kept.
 */
#ifndef WORKTREEFS_CHILD_H
#define WORKTREEFS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int pidfd, in, out; /* owned */
	int err;	    /* owned; a file in memory */
	char *text;	    /* owned; what it has printed so far */
	size_t size;
	int signals; /* borrowed; a signalfd that breaks waiting off, or -1 */
};

/*
 * Starts "mountctl ARGS...", args ending in NULL, in "/" and in a process group
 * of its own. ends_with_us: it is killed when we end. 0 or -errno.
 */
int child_start(const char *const *args, int signals, bool ends_with_us,
		struct child *ret_child);

/*
 * Waits until it has printed a line that is exactly this, or NULL: until it
 * has closed its stdout. 0; -EPIPE: it has ended before; -EINTR: a signal is
 * pending; -ETIMEDOUT after two minutes; -errno.
 */
int child_read(struct child *child, const char *line);

/*
 * Closes its stdin, waits for its end as above, and kills it and what it has
 * started where that fails.
 * Its exit status (128+N: signal N), or -errno as above.
 */
int child_finish(struct child *child);

/* The first line of what it said on stderr; allocated, or NULL: nothing. */
char *child_complaint(const struct child *child);

/* Kills it if it lives. */
void child_release(struct child *child);

#endif

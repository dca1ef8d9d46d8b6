/*
 * One of the two trees that are compared, with the actors in it.
 */
#ifndef WORKTREEFS_FUZZ_SIDE_H
#define WORKTREEFS_FUZZ_SIDE_H

#include <sys/types.h>

#include "tests/fuzz/act.h"

struct side {
	const char *name;	      /* for messages */
	const char *tops[MAX_ACTORS]; /* where each actor sees the tree */
	int socks[MAX_ACTORS];	      /* or -1 */
	pid_t *processes;	      /* shared with the actors */
	uid_t uids[MAX_ACTORS];	      /* what each acts as */
};

/* Empties the tree, makes its first directories and starts the actors.
 * 0 or -errno. */
int side_start(struct side *side);
void side_stop(struct side *side);

/* Lets an actor do a step; then reads what came of it into a buffer of
 * MAX_LINE + 1 bytes. 0 or -errno: -EAGAIN when it hangs. */
int side_send(struct side *side, int actor, const char *line);
int side_receive(struct side *side, int actor, char *answer);

#endif

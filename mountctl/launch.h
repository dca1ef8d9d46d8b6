/*
 * Starting a command behind the guard. The calling process becomes the command,
 * so that its pid, terminal, signals and exit status are the command's own; it
 * must have one thread.
 *
 * The order of things:
 *
 *   outside   look at the inherited descriptors, open the views' roots, claim
 *             the session's name, start the filesystem process
 *   inside    enter namespaces, make and serve the views, attach, cover, seal
 *   behind    enter the working directory again, settle the descriptors, drop
 *             capabilities, commit the session, execute the command
 */
#ifndef WORKTREEFS_LAUNCH_H
#define WORKTREEFS_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "fs/lib/record.h"
#include "fs/lib/spec.h"

struct launch {
	char **argv;	 /* the command; NULL-terminated, borrowed */
	bool name_given; /* the session's name is what the user wants */
	int tier_fd;	 /* gets the tier that was reached; -1: nobody asks */
	bool die_with_parent;
	bool records_state; /* of the main checkout, see baseline.h */
	pid_t parent;	    /* of mountctl, as it began */
};

void launch_init(struct launch *launch);

/*
 * Each of these executes the command. They return only if they can't: what
 * remains to be done is to exit with the status that they return, which is
 * STATUS_NOT_FOUND or STATUS_NOT_EXECUTABLE after a failed execve(2), and has
 * been said; or -errno, with a message unless out of memory.
 */

/*
 * A new session. Takes NAME.2, NAME.3, ... where the spec's name is a live
 * session's and wasn't given: the spec is changed accordingly.
 */
int launch_session(const struct launch *launch, struct session_spec *spec,
		   char **message);

/* In a session that is live already. */
int launch_joined(const struct launch *launch, const struct record *record,
		  char **message);

/* In the session that we are in already. */
int launch_inside(const struct launch *launch, char **message);

/* Without a guard. */
int launch_unguarded(const struct launch *launch, char **message);

#endif

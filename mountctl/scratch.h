/*
 * The directory of a proof (prove.h), in $TMPDIR or /tmp:
 *
 *   worktreefs-doctor-UID-XXXXXX/   0700, and locked (flock(2)) while it is
 * used home/ run/ state/             HOME, XDG_RUNTIME_DIR, XDG_STATE_HOME
 *     main/                         the repository
 *     main/wt/                      its worktree
 *
 * One that isn't locked was left by a proof that was killed: the next one
 * clears it away, with the views that are mounted in it.
 */
#ifndef WORKTREEFS_SCRATCH_H
#define WORKTREEFS_SCRATCH_H

struct scratch {
	char *path;	       /* owned; real and absolute */
	char *main, *worktree; /* owned */
	int lock;	       /* owned */
};

/*
 * Makes it, empty but for the directories, and turns this process's
 * environment to it: records and logs are in there from here on, and git's and
 * worktreefs' variables are gone. 0, or -errno with a message.
 */
int scratch_make(struct scratch *ret_scratch, char **message);

/*
 * Ends the sessions that have a record in there, and removes all of it. 0 or
 * -errno: then something is left.
 */
int scratch_remove(struct scratch *scratch);

/* Clears away what earlier ones left. */
void scratch_clear_left(void);

#endif

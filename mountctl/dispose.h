/*
 * Ending a session, and removing its worktree where nothing of it is lost, and
 * saying how it went: what `mountctl teardown` and the hook of harnesses that
 * leave worktrees to us share. All of these return an exit status.
 */
#ifndef WORKTREEFS_DISPOSE_H
#define WORKTREEFS_DISPOSE_H

#include <stdbool.h>
#include <stdio.h>

#include "mountctl/dismiss.h"
#include "mountctl/remains.h"
#include "mountctl/unsaved.h"

struct disposal {
	/* What is to be done: the caller's, and borrowed. */
	const struct sessions *sessions;
	struct remains *remains;
	struct dismissal dismissal;
	bool remove;	     /* the worktree, too */
	bool force;	     /* whatever work there is in it */
	bool leaves_kept;    /* also with work that the repository keeps */
	const char *forcing; /* what people say for that */
	FILE *list;	     /* where work is listed; NULL: nowhere */
	/* What was found and done. */
	struct unsaved unsaved;
	bool has_unsaved; /* it is known */
	bool is_listed;	  /* already */
	char *branch;	  /* of the worktree, short, or NULL */
	bool ended;	  /* the session is no more */
	bool removed;	  /* nor is the worktree */
};

void disposal_release(struct disposal *disposal);

/*
 * Looks for work in the worktree. Where it can't be told, that is a failure if
 * the worktree is to be removed, but not by force, and else a warning.
 */
int disposal_look(struct disposal *disposal);

/* Lists what was found, once. */
void disposal_list(struct disposal *disposal);

/*
 * Does it, after the look: what stands in the way of the removal is found
 * before anything is touched, and looked for again once the session has ended.
 * STATUS_UNSAVED: there is work, which is listed.
 */
int dispose(struct disposal *disposal);

#endif

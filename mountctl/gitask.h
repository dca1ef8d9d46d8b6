/*
 * Asking git about a checkout from outside of every view.
 *
 * Which git directory and which work tree are meant is said to git; what .git
 * in the work tree says, which a session can write, is nobody's business. git
 * takes no lock that it could do without, runs no file system monitor, and
 * whoever asks has checked whose repository it is (gitrepo_check_owner()).
 */
#ifndef WORKTREEFS_GITASK_H
#define WORKTREEFS_GITASK_H

#include "fs/lib/gitrun.h"

/* Borrowed; both absolute. */
struct git_place {
	const char *git_dir;   /* G, or A for a linked worktree */
	const char *work_tree; /* M or W; NULL: what is asked needs none */
};

/*
 * Runs git with these words, ending in NULL. 0 when it ended with 0; -EIO, with
 * git's own words in the message, when it didn't; -errno with a message.
 */
int git_ask(const struct git_place *place, const char *const *words,
	    struct git_output *ret_output, char **message);

#define GIT_ASK(place, ret_output, message, ...)                             \
	git_ask(place, (const char *const[]){__VA_ARGS__, NULL}, ret_output, \
		message)

#endif

/*
 * Work in a worktree that would be gone with it, or that nobody would come upon
 * again:
 *
 *   changed     files that differ from the last commit, staged or not
 *   untracked   files that git doesn't know and isn't told to ignore
 *   operation   a merge, rebase, cherry-pick, revert, am or bisect under way
 *   stash       entries of the stash that were made on the worktree's branch
 *   commits     that the worktree's HEAD leads to and that are on no remote
 *               and not on the branch that the main checkout stands on either.
 *               A repository that has fetched nothing from anywhere has no
 *               remotes: then, those that no other branch leads to
 *   submodule   the same of its submodules, whose git directories go with the
 *               worktree, also of those that aren't checked out (any more); a
 *               submodule's commits must be on a remote
 *
 * Ignored files aren't work, as for `git worktree remove`. Branch and stash are
 * kept when a worktree is removed: each item says whether it would be lost.
 */
#ifndef WORKTREEFS_UNSAVED_H
#define WORKTREEFS_UNSAVED_H

#include <stdbool.h>
#include <stddef.h>

#include "mountctl/gitask.h"

enum unsaved_kind {
	UNSAVED_CHANGED,
	UNSAVED_UNTRACKED,
	UNSAVED_OPERATION,
	UNSAVED_STASH,
	UNSAVED_COMMIT,
};

struct unsaved_item {
	enum unsaved_kind kind;
	/* Its path, or name if it isn't there; NULL: the worktree itself. */
	char *submodule;
	/* A path; "rebase"; what the stash is called; "41cd... subject". */
	char *what;
	bool lost; /* by removing the worktree */
};

/* Zero-initialised it is empty. */
struct unsaved {
	struct unsaved_item *item; /* owned */
	size_t n;
};

void unsaved_release(struct unsaved *unsaved);
bool unsaved_is_lost(const struct unsaved *unsaved); /* any of it? */
const char *unsaved_kind_name(enum unsaved_kind kind);

/* Borrowed. */
struct worktree_place {
	const char *worktree;  /* W */
	const char *admin_dir; /* A */
	const char *branch;    /* that it stands on, short; NULL: none */
	bool exists;	       /* W does; A has to */
	bool has_main;	       /* the repository isn't bare */
};

/* 0, or -errno with a message: then nothing is known. */
int unsaved_look(const struct worktree_place *place,
		 struct unsaved *ret_unsaved, char **message);

#endif

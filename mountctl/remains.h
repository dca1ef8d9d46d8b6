/*
 * What there is of a session, or of a worktree that never had one: a record, a
 * directory where a record should be, what it has left in its state directory,
 * mounts, and the worktree as its repository knows it. Each may be missing.
 */
#ifndef WORKTREEFS_REMAINS_H
#define WORKTREEFS_REMAINS_H

#include <stdbool.h>

#include "fs/lib/gitrepo.h"
#include "mountctl/baseline.h"
#include "mountctl/sessions.h"

struct remains {
	char *name; /* the session's, or NULL */
	/* Borrowed from the sessions; or orphan; or NULL. */
	const struct record *record;
	struct record orphan; /* what was found of one without a record */
	bool unreadable;      /* a directory has that name, and no record */
	bool has_baseline;
	struct baseline baseline;
	char *path; /* what was asked for, where it isn't a name; or NULL */
	char *view; /* the mount around path that no record names, or NULL */
	char *worktree;	 /* W, or NULL */
	char *admin_dir; /* A, or NULL */
	struct gitrepo repo;
	bool has_repo;
	ssize_t index; /* of W in repo.worktrees, or -1 */
};

void remains_init(struct remains *remains);
void remains_release(struct remains *remains);

/* The session's spec, from wherever; NULL: there never was one. Borrowed. */
const struct session_spec *remains_spec(const struct remains *remains);

/* Is W there, whatever its .git says? */
bool remains_has_directory(const struct remains *remains);

/*
 * Finds what the operand, a session's name or a path, means. 0; -ENOENT: there
 * is nothing, with remains->path set where it could be one; -EINVAL with a
 * message for what is ambiguous or no worktree's top; -errno with a message.
 */
int remains_find(const struct sessions *sessions, const char *operand,
		 struct remains *remains, char **message);

/*
 * The same for a worktree by its path alone, whatever session it may have: for
 * those who are in one, and see none.
 */
int remains_find_worktree(const char *path, struct remains *remains,
			  char **message);

/* Looks at the repository again: locks come and go. 0 or -errno, message. */
int remains_refresh(struct remains *remains, char **message);

#endif

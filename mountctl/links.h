/*
 * Files that two trees share: hard links between a main checkout and a
 * worktree. Whoever changes one of them changes the other.
 */
#ifndef WORKTREEFS_LINKS_H
#define WORKTREEFS_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/spec.h"

struct linked_file;

/* Files of a tree that have more than one name. Zero-initialised: empty. */
struct links {
	struct linked_file *file; /* owned; sorted by identity */
	size_t n;
	size_t budget; /* names that may still be looked at */
	bool gave_up;  /* there were more */
};

/* What they share with another tree. */
struct shared_links {
	size_t n;
	char *first;   /* owned; the path of one in the first tree, ... */
	char *another; /* ... and in the other, or NULL */
};

void links_release(struct links *links);
void shared_links_release(struct shared_links *shared);

/*
 * Looks through the tree at top, but not its .git, not what is in skip (paths
 * as they are spelled from top), and not what is mounted in it. What can't be
 * read is passed over. 0 or -errno.
 */
int links_gather(struct links *links, const char *top,
		 const struct strings *skip);

/* Adds what the tree at top shares with those gathered; skip as above. */
int links_compare(struct links *links, const char *top,
		  const struct strings *skip, struct shared_links *shared);

#endif

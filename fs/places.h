/*
 * Where the inodes of a table stand when the rules change. A change has two
 * steps, both with the gate closed (gate.h): places_plan() finds each inode's
 * place in another policy, by the names under which it was last seen, and
 * places_move() has it stand there. In between the change can be given up.
 *
 * A file that is open stands at the stricter of two places: that of its name,
 * and that where the open file really is, which may have been moved behind our
 * back or been opened by another of its names.
 *
 * Two inodes of one file may come to stand at one place. They stay two until
 * the kernel forgets one. An inode that two names had led to, and whose places
 * differ now, stays that of one of them: the next lookup of the other name
 * makes another.
 */
#ifndef WORKTREEFS_PLACES_H
#define WORKTREEFS_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/inode.h"
#include "fs/lib/policy.h"

/* root: the table's root in the new policy; changed: the place of its new
 * rule, or one of nothing ({0}). */
void places_plan(struct inode_table *table, struct place root,
		 struct place changed);

/* What can't be taken away from whoever has it. */
enum obstacle_kind {
	OBSTACLE_PASSTHROUGH, /* the kernel reads and writes it by itself */
	OBSTACLE_MAPPING,     /* written through a mapping */
};

struct obstacle {
	enum obstacle_kind kind;
	char *path; /* below the root; owned */
};

struct obstacles {
	struct obstacle *obstacle; /* owned */
	size_t n;
};

void obstacles_release(struct obstacles *obstacles);
/* Adds those of the plan that would lose some access. 0 or -ENOMEM. */
int places_find_obstacles(struct inode_table *table,
			  struct obstacles *obstacles);

/* What the kernel has to ask for anew: an inode, and its name. */
struct touched {
	uint64_t nodeid;
	uint64_t parent; /* 0: it has no name */
	char *name;	 /* owned */
};

struct touched_list {
	struct touched *touched; /* owned */
	size_t n;
};

void touched_release(struct touched_list *list);
/* All that the kernel knows of what the plan touches. 0 or -ENOMEM. */
int places_list_touched(struct inode_table *table, struct touched_list *ret);

void places_move(struct inode_table *table);

/* Those that are open for writing and not passed through: allocated node ids.
 * Asks for no plan and no gate. 0 or -ENOMEM. */
int places_list_writable(struct inode_table *table, uint64_t **ret_ids,
			 size_t *ret_n);

#endif

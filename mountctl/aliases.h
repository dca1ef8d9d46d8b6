/*
 * The same tree under another path: a bind mount, or a second mount of its file
 * system. Read from the mount table, where a mount names its file system and
 * the directory of it that it shows; see proc(5), mountinfo.
 *
 * What isn't found: the tree inside another file system (an overlay's layer,
 * a loop device, a network file system that mounts itself).
 */
#ifndef WORKTREEFS_ALIASES_H
#define WORKTREEFS_ALIASES_H

#include <stddef.h>
#include <stdint.h>

/* A tree, and the mount that its path leads to (statx(2), stx_mnt_id). */
struct aliased_tree {
	const char *path; /* absolute and real; borrowed */
	uint64_t mount_id;
};

struct alias {
	char *path;   /* where something of the tree is visible, too */
	char *source; /* its path in the tree */
};

struct aliases {
	struct alias *alias; /* owned, with the strings in it; by path */
	size_t n;
};

/*
 * Finds the aliases of the trees. Whether a path that is found can be reached,
 * or is itself covered by something else, is for the caller to see. Paths
 * inside the trees themselves are among them.
 *
 * table: "/proc/self/mountinfo", or a file like it.
 * 0; -ENOENT if a tree's mount isn't in the table; -errno.
 */
int aliases_find(const char *table, const struct aliased_tree *trees, size_t n,
		 struct aliases *ret_aliases);

/*
 * The path that a path stands for: where it lies at or below an alias, the one
 * in the tree, else itself. Allocated; NULL: out of memory.
 */
char *aliases_translate(const struct aliases *aliases, const char *path);

void aliases_release(struct aliases *aliases);

#endif

/*
 * Names in directories, as operations are granted them by the guard.
 */
#ifndef WORKTREEFS_ENTRY_H
#define WORKTREEFS_ENTRY_H

#include <stdbool.h>
#include <sys/stat.h>

#include "fs/inode.h"
#include "fs/lib/policy.h"

/* A name in a directory. */
struct entry {
	struct hold dir;    /* fd: an O_PATH descriptor of the directory */
	struct place place; /* the name's */
	const char *name;   /* borrowed */
	bool listed;	    /* with many others */
};

#define ENTRY_NONE               \
	(struct entry)           \
	{                        \
		.dir = HOLD_NONE \
	}

void entry_release(struct entry *entry);
#define autoentry __attribute__((cleanup(entry_release)))

/* Both names of a rename. */
struct rename_grant {
	struct entry from, to;
	struct statx moved;  /* what is moved */
	struct statx target; /* what has the new name, if it exists */
	bool target_exists;
	bool install; /* by guard_install() and not by renaming */
};

#define RENAME_GRANT_NONE                            \
	(struct rename_grant)                        \
	{                                            \
		.from = ENTRY_NONE, .to = ENTRY_NONE \
	}

void rename_grant_release(struct rename_grant *grant);
#define autorename __attribute__((cleanup(rename_grant_release)))

/* What is under the name: 0 or -errno. */
int entry_statx(const struct entry *entry, struct statx *ret_stx);

#endif

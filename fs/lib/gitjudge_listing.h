/*
 * A git config as "git config --list -z" prints it: each entry is its key and,
 * after a newline, its value, or its key alone, and then a NUL. Sections and
 * variables come folded to lower case, subsections as they stand.
 */
#ifndef WORKTREEFS_GITJUDGE_LISTING_H
#define WORKTREEFS_GITJUDGE_LISTING_H

#include <stdbool.h>

#include "fs/lib/gitjudge.h"

/* Borrowed from the listing. */
struct entry {
	struct text key;
	struct text section, variable; /* of the key; section may be empty */
	struct text name;	       /* of the subsection */
	bool has_name;
	struct text value; /* NUL-terminated */
	bool has_value;	   /* a key alone is true, one with "=" is empty */
};

/* Entries that end in a NUL each, and have a key. */
bool listing_is_valid(struct text listing);
/* Takes the first entry off a listing that is valid. False at its end. */
bool listing_next(struct text *rest, struct entry *ret_entry);

/* Without a look at the name. */
bool entry_is(const struct entry *entry, const char *section,
	      const char *variable);
/* A boolean as git takes it; what isn't plainly either is neither. */
bool entry_is_true(const struct entry *entry);
bool entry_is_false(const struct entry *entry);

#endif

/*
 * Which entries of a git config a session may add, change and take away.
 */
#ifndef WORKTREEFS_GITJUDGE_SAFE_H
#define WORKTREEFS_GITJUDGE_SAFE_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/gitjudge_listing.h"
#include "fs/lib/gitjudge_text.h"

/* What that depends on, besides the listing that an entry stands in. */
struct config_facts {
	const struct config_context *context;
	/* Folded: where names of refs fold, so do those of remotes. */
	struct text_set old_remotes, old_submodules;
	struct text_set patterns; /* not sorted; each ends in a NUL */
	char *key;		  /* owned; has room for any key */
	/* What the old listing says. */
	bool has_name, has_email, is_placed, has_worktree_config;
};

/*
 * Fills facts, in which only the context is set. old is valid and outlives
 * them; key_size is that of the longest key that will be asked about. 0 or
 * -ENOMEM.
 */
int config_facts_read(struct config_facts *facts, struct text old,
		      size_t key_size);
void config_facts_release(struct config_facts *facts);

/*
 * Is the entry one of the safe ones? remotes are those of its listing, and
 * sorted; for a remote's URL they aren't looked at.
 */
bool entry_is_safe(const struct config_facts *facts,
		   const struct text_set *remotes, const struct entry *entry);

/* Is it branch.B.remote or branch.B.pushRemote? */
bool entry_is_branch_remote(const struct entry *entry);

#endif

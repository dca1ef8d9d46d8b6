/*
 * Judgements on the files of a git directory that a session may replace, but
 * not with anything: what is there, what is to come, and what must not change.
 * All of them are about text in memory; nothing here does I/O or asks git.
 * Who can't decide refuses.
 *
 * Each answers 0 or -EROFS, or -ENOMEM. *ret_what (may be NULL) is then an
 * allocated text for people that names what is in the way: a key, a ref, a
 * line.
 */
#ifndef WORKTREEFS_GITJUDGE_H
#define WORKTREEFS_GITJUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "fs/lib/spec.h"

/* Bytes, not NUL-terminated; borrowed. */
struct text {
	const char *data;
	size_t size;
};

/*
 * Names of refs that must keep their values: full names such as
 * "refs/heads/main".
 */

/* Is ref one of them, or below the name of one ("refs/heads/main/x")? */
bool ref_is_protected(const struct strings *protected_refs, const char *ref);
/* Does one of them lie below this name ("refs/heads", "refs/heads/user")? */
bool ref_leads_to_protected(const struct strings *protected_refs,
			    const char *ref);

/* What is known of the repository when its config is judged. */
struct config_context {
	const struct strings *protected_refs;
	/* Names of remotes and submodules that the config had when the session
	 * started. */
	const struct strings *old_remotes, *old_submodules;
	/* Has the user a name and a mail address of his own elsewhere? */
	bool user_has_name, user_has_email;
	/* G/worktrees/ID/config.worktree: sparse-checkout's keys are safe. */
	bool is_worktree_config;
};

/*
 * Are the two configs equal in sequence once the safe entries are struck out
 * on both sides? Both texts are what "git config --list -z" prints: key, a
 * newline and the value (or neither, for a key without a value), NUL. The safe
 * entries are those of docs/git-guard.md, and what the old text's own
 * worktreefs.safeConfig adds: patterns of fnmatch(3), matched against the whole
 * key as git prints it, case folded. ret_what names the first key in the way.
 */
int judge_config(struct text old, struct text new,
		 const struct config_context *context, char **ret_what);

/*
 * The names of remotes and submodules in a listing as above, those of any
 * key, appended where they aren't there yet. -EINVAL for text that is no
 * listing.
 */
int config_remotes(struct text listing, struct strings *remotes);
int config_submodules(struct text listing, struct strings *submodules);

/*
 * The value of a ref in the text of packed-refs: allocated, or NULL if it
 * isn't there. -EINVAL for text that isn't one (git's refs/packed-backend.c).
 */
int packed_refs_find(struct text packed, const char *ref, char **ret_value);

/*
 * May packed-refs be replaced? For each protected ref and everything in
 * refs/replace/ the new text must say what holds now: loose(ref) gives the
 * value of the loose ref, allocated, or NULL where there is none. A loose ref
 * hides a packed one: then the packed value may stay as it is, become the
 * loose one, or go. New names below a protected one are refused, and so are
 * those that would be in its way ("refs/heads/user" for "refs/heads/user/x")
 * and what git never packs: names outside refs/, and refs of each worktree.
 * Text that isn't a packed-refs file is refused.
 */
int judge_packed_refs(struct text old, struct text new,
		      const struct strings *protected_refs,
		      char *(*loose)(void *data, const char *ref), void *data,
		      char **ret_what);

/*
 * May a protected ref's reflog be replaced? Only if no more than lines older
 * than the time are gone, and nothing is new or changed. A line that has no
 * time stamp counts as new.
 */
int judge_reflog(struct text old, struct text new, time_t older_than,
		 char **ret_what);

/*
 * May the stash's reflog be replaced? Only if its beginning, up to the last
 * line that is older than the time, stays as it is.
 */
int judge_stash_log(struct text old, struct text new, time_t older_than,
		    char **ret_what);
/*
 * May the stash's ref be replaced? Where its reflog has such lines, only with
 * what the last line says: git writes that first, and finds no entry by a ref
 * that leads elsewhere.
 */
int judge_stash_ref(struct text log, struct text new, time_t older_than,
		    char **ret_what);
/* Are there such lines? */
bool stash_log_has_older(struct text log, time_t older_than);

#endif

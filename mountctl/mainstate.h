/*
 * What a checkout holds, as far as git tells it: what its HEAD is, the
 * repository's branches, and the files that aren't as HEAD has them. Two such
 * states are compared to find what has changed in between, whoever changed it.
 *
 * Taking one costs one `git status --porcelain=v2` and one `git for-each-ref`.
 * Formats: git-status(1).
 */
#ifndef WORKTREEFS_MAINSTATE_H
#define WORKTREEFS_MAINSTATE_H

#include <stdbool.h>
#include <stddef.h>

#include "mountctl/gitask.h"

struct branch {
	char *name; /* "refs/heads/B" */
	char *commit;
};

struct changed_file {
	char *path;  /* relative to the top; "d/": a repository of its own */
	char *state; /* what git says of it before the path: "1 .M N... ..." */
	/* Size, times and inode of what is there, as text; "" where nothing is:
	   a file that differed then and was changed since is told by it. */
	char *stamp;
};

/* Zero-initialised it is empty. All is owned. */
struct main_state {
	char *head;   /* "main", "(detached)"; NULL: not known */
	char *commit; /* that HEAD leads to, or "(initial)"; likewise */
	struct branch *branches; /* in order of their names */
	size_t n_branches;
	struct changed_file *files; /* in order of their paths */
	size_t n_files;
};

void main_state_release(struct main_state *state);

/* All of it is copied. 0 or -ENOMEM. */
int main_state_add_branch(struct main_state *state, const char *name,
			  const char *commit);
int main_state_add_file(struct main_state *state, const char *path,
			const char *status, const char *stamp);
void main_state_sort(struct main_state *state);

/*
 * Adds what `git status --porcelain=v2 --branch -z` has printed; text of this
 * size, with a NUL behind it. 0; -EINVAL for what isn't such a text; -ENOMEM.
 */
int main_state_parse_status(struct main_state *state, const char *text,
			    size_t size);
/* The same of `git for-each-ref --format='%(objectname) %(refname)'`. */
int main_state_parse_branches(struct main_state *state, const char *text);

/*
 * The state of a checkout, or of the branches alone where place has no work
 * tree. 0 or -errno with a message.
 */
int main_state_take(const struct git_place *place, struct main_state *ret_state,
		    char **message);

/*
 * Adds HEAD and the files of a checkout alone; with submodules: also those that
 * the configuration has ignored. 0 or -errno with a message.
 */
int main_state_take_files(const struct git_place *place, bool submodules,
			  struct main_state *state, char **message);

/*
 * Comparing. All that is handed on is borrowed from the two states; before or
 * after is NULL where one of them doesn't have it.
 */
struct main_change {
	const char *name;   /* of the branch, or path of the file */
	const char *before; /* commit, or state */
	const char *after;
};

struct main_changes {
	struct main_change *change; /* owned */
	size_t n;
};

void main_changes_release(struct main_changes *changes);

/* wanted: is the name worth a look? 0 or -ENOMEM. */
typedef bool wanted_fn(const char *name, const void *data);
int main_state_compare_branches(const struct main_state *before,
				const struct main_state *after,
				wanted_fn *wanted, const void *data,
				struct main_changes *ret_changes);
int main_state_compare_files(const struct main_state *before,
			     const struct main_state *after, wanted_fn *wanted,
			     const void *data,
			     struct main_changes *ret_changes);

/* A state in a word or two: "modified", "untracked", ...; NULL: "unchanged". */
const char *file_state_word(const char *state);

#endif

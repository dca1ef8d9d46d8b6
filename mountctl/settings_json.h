/*
 * The settings files of harnesses that are JSON: which entries are ours, and
 * how they get there. Everything else in a file stays byte for byte.
 */
#ifndef WORKTREEFS_SETTINGS_JSON_H
#define WORKTREEFS_SETTINGS_JSON_H

#include <stdbool.h>

#include "mountctl/json_edit.h"
#include "mountctl/settings.h"

struct settings_harness {
	const char *name;	/* as on the command line */
	const char *dir;	/* in the worktree */
	const char *file;	/* in dir */
	const char *local_file; /* one that isn't committed; or NULL */
	const struct settings_event *events; /* the last has no name */
	bool is_flat;  /* an event's handlers stand in no groups */
	bool has_args; /* a command's words are a list, not a shell's line */
	bool has_version;
};

/* NULL: none of that name. */
const struct settings_harness *settings_harness_find(const char *name);

/*
 * Puts the hooks in, in the place of those that were put in earlier.
 * ret_former: the trees that those allowed, appended.
 * 0; -EINVAL, -EEXIST with a message; -errno.
 */
int settings_merge_hooks(struct json_edit *edit,
			 const struct settings_harness *harness,
			 const struct settings *settings,
			 struct strings *ret_former, char **message);

/*
 * Claude Code's own sandbox, for its shells. What it lists already is kept,
 * but for former: trees that we allowed earlier, and a denial that would make
 * the worktree read-only, since denials win there.
 */
int settings_merge_sandbox(struct json_edit *edit,
			   const struct settings *settings,
			   const struct strings *domains,
			   const struct strings *former, char **message);

#endif

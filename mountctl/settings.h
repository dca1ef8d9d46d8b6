/*
 * What a harness is told of a session's rules in its own settings: the call of
 * `mountctl hook` and, where the harness has a sandbox of its own, what may be
 * written there.
 *
 * Settings outlive a session. The hook therefore judges by the session around
 * it, where there is one, and by lists of trees that stand in the settings
 * where there is none.
 */
#ifndef WORKTREEFS_SETTINGS_H
#define WORKTREEFS_SETTINGS_H

#include <stdbool.h>

#include "fs/lib/spec.h"
#include "mountctl/plan.h"

struct settings {
	struct session_spec spec; /* as `run` would start it; has a worktree */
	char *program;		  /* mountctl itself */
	/*
	 * For the hook: an allowed tree wins over a denied one that it lies in,
	 * and what lies in neither may be changed.
	 */
	struct strings deny, allow;
	struct strings writable; /* all that may be, the git directory, too */
	/* Children of the git directory that exist and may not be changed. */
	struct strings held;
};

void settings_release(struct settings *settings);

/*
 * Plans the session of a worktree. 0; -EINVAL for what the user must mend;
 * -errno; with a message. All paths are UTF-8 then.
 */
int settings_plan(const struct plan_options *options,
		  struct settings *ret_settings, char **message);

/* Does the rule count, and say of a tree outside the git directory? */
bool settings_tell(const struct session_spec *spec, const struct rule *rule);

/*
 * The words of the hook's command but for the program: "hook", ...; explicitly:
 * it has to answer where a call is allowed, too. Appended. 0 or -ENOMEM.
 */
int settings_hook_words(const struct settings *settings, const char *format,
			bool explicitly, struct strings *words);

/* The program and the words as one line for a shell: allocated, or NULL. */
char *settings_shell_line(const struct settings *settings,
			  const struct strings *words);

/*
 * Such a line, or what somebody else wrote in its place, as words: quotes are
 * read, all else of a shell's is text. Appended. 0 or -ENOMEM.
 */
int settings_split_line(const char *line, struct strings *words);

/*
 * Is that command (the program first) a hook that settings like these have set
 * up? One with a session's name or a policy is the user's own.
 */
bool settings_is_own(const struct strings *words);

#endif

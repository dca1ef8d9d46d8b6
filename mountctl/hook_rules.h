/*
 * By what a hook judges: the rules of a session, two lists of trees, or a file
 * of roots; and the verdict. Where there are several, each of them has to
 * agree.
 */
#ifndef WORKTREEFS_HOOK_RULES_H
#define WORKTREEFS_HOOK_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/record.h"
#include "mountctl/denylist.h"
#include "mountctl/hook_input.h"
#include "mountctl/hook_policy.h"

/* Zero-initialised there are none, and everything is allowed. */
struct hook_rules {
	/* Of sessions; of the one around us only the spec. Owned. */
	struct record *sessions;
	size_t n_sessions;
	bool inside; /* this process is in the session */
	struct denylist list;
	bool has_policy;
	struct hook_policy policy;
};

void hook_rules_release(struct hook_rules *rules);

/*
 * The session of that name, which must live. Inside of it, where its record is
 * out of reach, its snapshot (environment.h). 0, or -errno with a message.
 */
int hook_rules_add_named(struct hook_rules *rules, const char *name,
			 char **message);

/*
 * The session that this process is in; else those whose worktree, view or
 * directory of worktrees one of the places lies in: the input's, our working
 * directory, and the project's directory by the harness's own variables.
 *
 * 0, also where there is none; -ESRCH for one whose view has died; -errno; with
 * a message.
 */
int hook_rules_find(struct hook_rules *rules, const struct strings *places,
		    char **message);

struct hook_denial {
	char *why;  /* a sentence */
	char *twin; /* the path to use instead, or NULL */
};

void hook_denial_release(struct hook_denial *denial);

/*
 * May the tool be called? 1; 0 with a denial; -errno with a message: there is
 * no verdict.
 */
int hook_rules_judge(const struct hook_rules *rules,
		     const struct hook_input *input,
		     struct hook_denial *ret_denial, char **message);

/*
 * What a model should know of these rules: allocated; NULL where there are
 * none, or out of memory.
 */
char *hook_rules_tell(const struct hook_rules *rules);

#endif

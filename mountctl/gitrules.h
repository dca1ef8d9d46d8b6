/*
 * The git guard as rules: the names in a git directory that a session must not
 * change, and those that it may change if a judge agrees (fs/gitguard.h).
 * docs/git-guard.md tells what each is for.
 */
#ifndef WORKTREEFS_GITRULES_H
#define WORKTREEFS_GITRULES_H

#include "fs/lib/spec.h"

/*
 * Appends the git guard's rules for spec's git_dir, and for its worktree and
 * admin_dir where it has them, as its git_config asks. Nothing without a
 * git_dir or with git_guard off. 0 or -ENOMEM.
 */
int gitrules_add(struct session_spec *spec);

/*
 * What this repository's guard can't hold, and what it might be expected to
 * and doesn't: sentences for people, one each, appended. 0 or -ENOMEM.
 */
int gitrules_gaps(const struct session_spec *spec, struct strings *ret_gaps);

/* Says them on stderr. */
void gitrules_warn(const struct session_spec *spec);

#endif

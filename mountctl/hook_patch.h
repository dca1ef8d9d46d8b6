/*
 * The files that a patch of Codex' tool apply_patch makes, changes, removes or
 * moves: its lines "*** Add File: P", "*** Update File: P", "*** Delete File:
 * P" and "*** Move to: P".
 */
#ifndef WORKTREEFS_HOOK_PATCH_H
#define WORKTREEFS_HOOK_PATCH_H

#include <stddef.h>

struct hook_targets;

/*
 * Appends them, as they are spelled. 0; -EINVAL: it names none, or one that is
 * empty; -E2BIG: more than max; -ENOMEM.
 */
int hook_patch_targets(const char *patch, size_t max,
		       struct hook_targets *targets);

#endif

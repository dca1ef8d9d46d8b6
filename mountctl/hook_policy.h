/*
 * The file of `hook --policy`: which trees a harness may touch.
 *
 *   { "allowedRoots": ["/a"], "deniedRoots": ["/b"], "systemPrefixes": ["/usr"]
 * }
 *
 * A place in an allowed root is allowed; else one in a denied root is denied;
 * else one in a directory for temporary files (/tmp, /var/tmp, $TMPDIR) is
 * allowed; else one that is only read, or that a shell command names, is
 * allowed under a system prefix; all the rest is denied.
 *
 * NAVARCH_GUARD_EXTRA_ROOTS holds more allowed roots, with colons between;
 * NAVARCH_WORKTREE_GUARD=off switches the whole off.
 */
#ifndef WORKTREEFS_HOOK_POLICY_H
#define WORKTREEFS_HOOK_POLICY_H

#include <stdbool.h>

#include "fs/lib/spec.h"

/* Real paths. Zero-initialised it denies everything. */
struct hook_policy {
	struct strings allowed, denied, temporary, system;
};

void hook_policy_release(struct hook_policy *policy);

bool hook_policy_is_off(void);

/* With what the environment says. 0, or -errno with a message. */
int hook_policy_read(const char *path, struct hook_policy *ret_policy,
		     char **message);

/*
 * May the place (real) be touched? lenient: by a reading tool or in a shell
 * command. *ret_why: in words, why not; a constant.
 */
bool hook_policy_allows(const struct hook_policy *policy, const char *place,
			bool lenient, const char **ret_why);

#endif

/*
 * The proof of a guard: a scratch repository with a worktree, sessions of
 * `mountctl run` and `mountctl mount` as anybody starts them, and attempts at
 * the main checkout from inside; then a look at what is left.
 *
 * A change counts as refused only if the same one is made in the worktree: what
 * fails everywhere proves nothing.
 */
#ifndef WORKTREEFS_PROVE_H
#define WORKTREEFS_PROVE_H

#include <stdbool.h>

#include "mountctl/checks.h"

/* The steps of each, CHECK_OK or CHECK_FAIL. Zero-initialised they are empty.
 */
struct proof {
	struct checks run, mount;
};

void proof_release(struct proof *proof);

/*
 * Makes it; mount: of `mountctl mount`, too. Signals that would end us break it
 * off, and are let through once all is cleared away. This process's environment
 * is of no use afterwards. 0, or -errno with a message where not even the
 * repository can be made, or something is left.
 */
int prove(bool mount, struct proof *proof, char **message);

#endif

/*
 * Rules that change while the session lives.
 *
 * A change is one step for all requests: those before it have been answered
 * when it happens, those after it are judged by the new rules (gate.h). Then
 * the kernel is told to ask anew for all that it keeps of the rule's tree. It
 * is refused where what was handed out before can't be held to it.
 *
 * Policies never change: a change makes new ones, has every inode find its
 * place there (places.h), and frees the old ones.
 */
#ifndef WORKTREEFS_LIVE_H
#define WORKTREEFS_LIVE_H

#include <stddef.h>

#include "fs/lib/policy.h"
#include "fs/session.h"

struct live_change {
	const char *path;   /* absolute and clean; borrowed */
	enum access access; /* what it is to have */
};

/* Why it can't be had. */
struct live_refusal {
	const char *why; /* a sentence without a full stop; borrowed */
	/* What is in the way: paths as they are outside; or of natives. */
	struct strings paths;
	bool native; /* they are trees that the real directory serves */
};

void live_refusal_release(struct live_refusal *refusal);

/*
 * Gives the path a rule of origin "live", in place of an earlier one. From a
 * thread that no reply waits for, holding nothing; one at a time. When it
 * returns 0, the rule holds.
 *
 * 0; -EINVAL: it can't be had, for what ret_refusal says; -EBUSY: neither now,
 * for what is open (ret_refusal); -errno. On failure nothing has changed.
 */
int live_change(struct session *session, const struct live_change *change,
		struct live_refusal *ret_refusal);

#endif

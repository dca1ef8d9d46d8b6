/*
 * Asking a session's filesystem process, through control.sock in the session's
 * directory: one line of JSON there, one line back (docs/control.md).
 */
#ifndef WORKTREEFS_CONTROL_H
#define WORKTREEFS_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "fs/lib/explain.h"
#include "fs/lib/spec.h"

struct named_count {
	char *name; /* "lookup" */
	uint64_t count;
};

struct named_counts {
	struct named_count *count; /* owned, with the names in it */
	size_t n;
};

struct control_status {
	struct named_counts requests;
	uint64_t requests_total;
	uint64_t denials;
	struct named_counts programs, paths; /* that had most denials */
	uint64_t uptime;		     /* seconds */
	uint64_t generation;		     /* of the rules */
};

void control_status_release(struct control_status *status);

/* Why a change of the rules can't be had. */
struct control_refusal {
	char *why;
	/* What is in the way: paths as they are outside; or of natives. */
	struct strings open, native;
};

void control_refusal_release(struct control_refusal *refusal);

/*
 * 0; -ENOENT, -ECONNREFUSED: nobody answers there; -ETIMEDOUT: not within two
 * seconds; -EPROTO: what came isn't an answer; -EPERM: somebody else answers;
 * -errno.
 */
int control_ask_status(const char *session, struct control_status *ret_status);

/*
 * What would be said to op on a path, which is absolute, clean, and as it is
 * outside. Errors as above.
 */
int control_ask_why(const char *session, const char *path, enum policy_op op,
		    struct explanation *ret);

/*
 * Gives a path, as above, a live rule with this access. Returns when it holds;
 * ret_warning is then allocated or NULL. -EBUSY: refused, for what ret_refusal
 * says; other errors as above, but that it may take half a minute.
 */
int control_change(const char *session, const char *path, enum access access,
		   char **ret_warning, struct control_refusal *ret_refusal);

#endif

/*
 * Asking a session's filesystem process, through control.sock in the session's
 * directory: one line of JSON there, one line back (docs/control.md).
 */
#ifndef WORKTREEFS_CONTROL_H
#define WORKTREEFS_CONTROL_H

#include <stddef.h>
#include <stdint.h>

struct request_count {
	char *name; /* "lookup" */
	uint64_t count;
};

struct control_status {
	struct request_count *requests; /* owned, with the names in it */
	size_t n_requests;
	uint64_t requests_total;
	uint64_t denials;
	uint64_t uptime; /* seconds */
};

void control_status_release(struct control_status *status);

/*
 * 0; -ENOENT, -ECONNREFUSED: nobody answers there; -ETIMEDOUT: not within two
 * seconds; -EPROTO: what came isn't an answer; -EPERM: somebody else answers;
 * -errno.
 */
int control_ask_status(const char *session, struct control_status *ret_status);

#endif

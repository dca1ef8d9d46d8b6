/*
 * The requests that come by the control socket, as text, and their answers: one
 * JSON object each, without a newline. docs/control.md describes them.
 */
#ifndef WORKTREEFS_REQUESTS_H
#define WORKTREEFS_REQUESTS_H

#include "fs/live.h"
#include "fs/session.h"

enum request_kind {
	REQUEST_ANSWERED,  /* all is said */
	REQUEST_SUBSCRIBE, /* answered, and wants the denials to come */
	REQUEST_CHANGE,	   /* wants the rules changed, which takes its time */
};

struct control_request {
	enum request_kind kind;
	char *answer; /* owned; NULL for REQUEST_CHANGE, or without memory */
	char *path;   /* of the change; owned */
	enum access access;
};

void request_release(struct control_request *request);

/* Reads a line, and answers what can be answered at once. */
void request_read(struct session *session, const char *line,
		  struct control_request *ret_request);

/* These are allocated; NULL: out of memory. */
char *request_error(const char *message);
/* What live_change() returned; warning may be NULL. */
char *request_changed(const struct session *session, int r,
		      const struct live_refusal *refusal, const char *warning);
/* A line of the denial log for those that have been left out. */
char *request_dropped(const struct session *session, uint64_t dropped);

#endif

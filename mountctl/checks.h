/*
 * What `mountctl doctor` has found out: a list of checks, each with how it
 * came out, what was seen, and how to mend it. docs/doctor.md tells what each
 * is for.
 */
#ifndef WORKTREEFS_CHECKS_H
#define WORKTREEFS_CHECKS_H

#include <stddef.h>

enum check_status {
	CHECK_OK,
	CHECK_WARN, /* good to know; also: couldn't be found out */
	CHECK_FAIL, /* `mountctl run` has no guard until it is mended */
};

struct check {
	const char *name; /* static */
	enum check_status status;
	char *detail; /* owned; one line */
	char *mend;   /* owned; one line, or NULL */
};

/* Zero-initialised it is empty. */
struct checks {
	struct check *check; /* owned */
	size_t n;
	int r; /* -ENOMEM once something got lost */
};

void checks_release(struct checks *checks);

const char *check_status_name(enum check_status status);

/* Appends one; name must live on. */
void check_add(struct checks *checks, const char *name,
	       enum check_status status, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* How to mend what was appended last. */
void check_mend(struct checks *checks, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Appends one from an error and its message (may be NULL), of the form
 * "what failed: why; how to mend it": the mend is what follows the last "; ".
 */
void check_error(struct checks *checks, const char *name,
		 enum check_status status, int r, const char *message);

/* The worst of the checks of that name, or of all (NULL). */
enum check_status checks_worst(const struct checks *checks, const char *name);

#endif

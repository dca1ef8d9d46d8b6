/*
 * What mountctl says to people. Primary output goes to stdout by printf(3);
 * all else goes through here, to stderr, once.
 */
#ifndef WORKTREEFS_OUTPUT_H
#define WORKTREEFS_OUTPUT_H

/* "mountctl: TEXT". Bytes that could drive a terminal are escaped. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "mountctl: warning: TEXT" */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "mountctl: TEXT: strerror(-r)"; returns STATUS_FAILURE. */
int fail(int r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "mountctl: TEXT"; returns STATUS_USAGE. */
int usage_error(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif

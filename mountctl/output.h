/*
 * What mountctl says to people. Primary output goes to stdout by printf(3),
 * names and paths in it through text_escape(); all else goes through here, to
 * stderr, once.
 */
#ifndef WORKTREEFS_OUTPUT_H
#define WORKTREEFS_OUTPUT_H

/*
 * In all of these, bytes that could drive a terminal are escaped, newlines
 * among them: each call is one line.
 */

/* "mountctl: TEXT" */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "mountctl: warning: TEXT" */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "  TEXT": a line that belongs to what was said before it. */
void detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "mountctl: TEXT: strerror(-r)"; returns STATUS_FAILURE. */
int fail(int r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "mountctl: TEXT"; returns STATUS_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * For functions that hand a message up instead of saying it: formats *message
 * (may be NULL; untouched when out of memory) and returns r.
 */
int explain(int r, char **message, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Says what a function handed up, or the error's own text where it handed up
 * nothing. Returns STATUS_USAGE for -EINVAL, else STATUS_FAILURE.
 */
int fail_message(int r, const char *message);

/*
 * The text with what isn't printable in the locale's character set
 * (LC_CTYPE) written as \xNN. Allocated; NULL: out of memory.
 */
char *text_escape(const char *text);

/* How many columns of a terminal such text takes. */
int text_width(const char *escaped);

#endif

/*
 * What the filesystem process says: lines on stderr, which is the terminal
 * with -f and the session's log file otherwise.
 */
#ifndef WORKTREEFS_LOG_H
#define WORKTREEFS_LOG_H

/* One line, with the time and "worktreefs: " before it. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

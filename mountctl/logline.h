/*
 * Lines of a denial log, read (docs/denials.md).
 */
#ifndef WORKTREEFS_LOGLINE_H
#define WORKTREEFS_LOGLINE_H

#include <stdint.h>

/* Strings are owned; NULL where the line has no such member. */
struct log_line {
	int64_t time; /* milliseconds since the epoch; -1: not known */
	long pid;
	char *comm, *op, *path, *error, *twin, *what;
	uint64_t count;	  /* denials that the line stands for */
	uint64_t dropped; /* not 0: so many, of which there is no more */
};

void log_line_release(struct log_line *line);

/* 0; -EINVAL for what isn't a JSON object; -ENOMEM. */
int log_line_parse(const char *text, struct log_line *ret_line);

/*
 * A point in time, in milliseconds since the epoch: 2026-01-31, followed or not
 * by T12:00, :30 and .5, and Z or +01:00; without these two the local time.
 * 0 or -EINVAL.
 */
int log_time_parse(const char *text, int64_t *ret_time);

#endif

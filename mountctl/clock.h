/*
 * Deadlines.
 */
#ifndef WORKTREEFS_CLOCK_H
#define WORKTREEFS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of CLOCK_MONOTONIC. */
static inline int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void sleep_ms(int64_t ms)
{
	struct timespec pause = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000,
	};

	nanosleep(&pause, NULL);
}

#endif

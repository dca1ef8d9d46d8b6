/*
 * Numbers that look random and are the same for the same seed everywhere
 * (splitmix64, public domain).
 */
#ifndef WORKTREEFS_FUZZ_RANDOM_H
#define WORKTREEFS_FUZZ_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* One of 0 to n - 1. */
static inline uint32_t random_below(struct random *random, uint32_t n)
{
	return (uint32_t)((random_next(random) >> 32) * n >> 32);
}

/* True in percent of all cases. */
static inline bool random_chance(struct random *random, uint32_t percent)
{
	return random_below(random, 100) < percent;
}

#define random_pick(random, array) \
	((array)[random_below(random, (uint32_t)ARRAY_SIZE(array))])

#endif

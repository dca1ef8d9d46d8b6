/*
 * Makes up steps: the same ones for the same seed.
 */
#ifndef WORKTREEFS_FUZZ_MAKE_H
#define WORKTREEFS_FUZZ_MAKE_H

#include "tests/fuzz/random.h"
#include "tests/fuzz/step.h"

#define N_RECENT 16

struct maker {
	struct random random;
	uint32_t kinds;		/* a bit for each enum kind that is used */
	uint32_t n_actors;	/* of which the first does most */
	char *recent[N_RECENT]; /* paths used before; owned */
	unsigned int weights;	/* sum of those in use */
};

/* kinds: those allowed; some of them are left out, by the seed. */
void maker_init(struct maker *maker, uint64_t seed, uint32_t kinds,
		uint32_t n_actors);
void maker_release(struct maker *maker);

/* *ret_step is owned by the caller. 0 or -ENOMEM. */
int maker_make(struct maker *maker, struct step *ret_step);

#endif

#include "fs/gate.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define TRIES 25
#define WAIT_NS 200000000  /* for which those to come are held up */
#define PAUSE_NS 200000000 /* for which they aren't */

/* Writers first: otherwise a steady stream of requests never ends. */
static pthread_rwlock_t gate =
	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void gate_enter(void)
{
	pthread_rwlock_rdlock(&gate);
}

void gate_leave(void)
{
	pthread_rwlock_unlock(&gate);
}

int gate_close(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	for (int i = 0; i < TRIES; i++) {
		struct timespec until;

		if (i > 0)
			nanosleep(&pause, NULL);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += WAIT_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		if (pthread_rwlock_timedwrlock(&gate, &until) == 0)
			return 0;
	}
	return -EBUSY;
}

void gate_open(void)
{
	pthread_rwlock_unlock(&gate);
}

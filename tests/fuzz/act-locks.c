/*
 * Locks of each kind. None is waited for: an actor does one thing at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/fuzz/act.h"

/*
 * The kernel tells a FUSE file system that a file was closed without waiting
 * for it: the locks that go with the file go a moment later.
 */
#define TRIES 10
#define BETWEEN_TRIES 1000 /* microseconds */

static bool again(int r, int *tries)
{
	if (r == 0 || errno != EAGAIN || ++*tries >= TRIES)
		return false;
	usleep(BETWEEN_TRIES);
	return true;
}

void run_flock(struct actor *actor, const struct step *step, FILE *out)
{
	int tries = 0, r;

	do
		r = flock(actor->fds[step->fd], step->flags | LOCK_NB);
	while (again(r, &tries));
	print_done(out, r);
}

/* The lock a step is about: of the process, or of the open file. */
static struct flock lock_of(const struct step *step)
{
	return (struct flock){
		.l_type = (short)step->mode,
		.l_whence = SEEK_SET,
		.l_start = step->at,
		.l_len = step->length,
	};
}

void run_setlk(struct actor *actor, const struct step *step, FILE *out)
{
	struct flock lock = lock_of(step);
	int tries = 0, r;

	do
		r = fcntl(actor->fds[step->fd],
			  step->flags & LOCK_OF_FILE ? F_OFD_SETLK : F_SETLK,
			  &lock);
	while (again(r, &tries));
	print_done(out, r);
}

/* Whose a lock is, as a number of an actor. */
static void print_holder(FILE *out, const struct actor *actor, pid_t holder)
{
	if (holder <= 0)
		fprintf(out, " pid=%d", (int)holder);
	for (int i = 0; i < MAX_ACTORS; i++)
		if (holder > 0 && actor->processes[i] == holder)
			fprintf(out, " actor=%d", i);
}

void run_getlk(struct actor *actor, const struct step *step, FILE *out)
{
	struct flock lock = lock_of(step);
	int r = fcntl(actor->fds[step->fd],
		      step->flags & LOCK_OF_FILE ? F_OFD_GETLK : F_GETLK,
		      &lock);

	print_done(out, r);
	if (r < 0)
		return;
	fprintf(out, " type=%d", lock.l_type);
	if (lock.l_type == F_UNLCK)
		return;
	fprintf(out, " start=%lld length=%lld", (long long)lock.l_start,
		(long long)lock.l_len);
	/* Locks of open files have none; a FUSE file system isn't told so. */
	if (step->flags & LOCK_NAMED)
		print_holder(out, actor, lock.l_pid);
}

/*
 * Scope owns resources: variables marked with these are released when they
 * leave scope. Handing a resource over is spelled with take_fd() or
 * steal_pointer(), so that a reader sees where ownership moves.
 *
 * A function uses these attributes or goto, never both.
 */
#ifndef WORKTREEFS_CLEANUP_H
#define WORKTREEFS_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Closes *fd if it is one; errno is left as it was. */
static inline void cleanup_fdp(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_freep(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_filep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_dirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define autofd __attribute__((cleanup(cleanup_fdp)))
#define autofree __attribute__((cleanup(cleanup_freep)))
#define autofile __attribute__((cleanup(cleanup_filep)))
#define autodir __attribute__((cleanup(cleanup_dirp)))

/* Hands the descriptor over to the caller and forgets it here. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void *steal_pointer_internal(void *pp)
{
	void *p = *(void **)pp;

	*(void **)pp = NULL;
	return p;
}

/* Hands the pointer over to the caller and leaves NULL behind. */
#define steal_pointer(pp) ((__typeof__(*(pp)))steal_pointer_internal(pp))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif

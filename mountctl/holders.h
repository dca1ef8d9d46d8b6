/*
 * Which processes use a view: found by reading /proc, never by touching the
 * view, which may be dead or stuck.
 */
#ifndef WORKTREEFS_HOLDERS_H
#define WORKTREEFS_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/lib/spec.h"

struct holder {
	pid_t pid;
	uint64_t start_time; /* see process.h */
	char *command;	     /* its arguments with spaces between, or name */
	char *path;	     /* one of the files by which it holds, or NULL */
};

/* In ascending order of pid. Zero-initialised it is empty. */
struct holders {
	struct holder *holder; /* owned, with the strings in it */
	size_t n;
};

void holders_release(struct holders *holders);

/*
 * Those with a working directory, root, program, open file or mapping at or
 * below one of the mount points. Processes that aren't ours to look at are
 * left out, and so is the caller. 0 or -errno.
 */
int holders_of_paths(const struct strings *mountpoints,
		     struct holders *ret_holders);

/*
 * The same for files on one of these devices ("MAJOR:MINOR"), whatever mount
 * namespace they are seen in, also where they are mounted nowhere any more.
 */
int holders_of_files_on(const struct strings *devices,
			struct holders *ret_holders);

/*
 * Those with a file open, or used otherwise, that lies on one of these devices
 * and by its path, as its process sees it, at or below one of the places.
 * mapped: only those that have it mapped so that stores reach it.
 */
int holders_within(const struct strings *devices, const struct strings *places,
		   bool mapped, struct holders *ret_holders);

/*
 * Those in whose mount namespace a view of one of these devices ("MAJOR:MINOR")
 * is mounted: the processes of a session behind run. 0 or -errno.
 */
int holders_of_devices(const struct strings *devices,
		       struct holders *ret_holders);

#endif

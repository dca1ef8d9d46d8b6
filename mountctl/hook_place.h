/*
 * Where a path leads that a harness is about to use, told before it does.
 *
 * Whether the harness hands the path to the kernel as it is, or takes "..",
 * spaces around it or a "~" away first, isn't known. So a path has several
 * readings, and all of them count.
 */
#ifndef WORKTREEFS_HOOK_PLACE_H
#define WORKTREEFS_HOOK_PLACE_H

#include "fs/lib/spec.h"

/*
 * Appends the places that path may mean, taken from each of the directories
 * bases (absolute): real paths, their longest part that exists resolved through
 * symlinks.
 *
 * 0; -EINVAL: it is empty; -ENAMETOOLONG: no system call takes it; -EXDEV: it
 * leads through a process's directory or file in /proc; -errno as
 * readlink(2) has it.
 */
int hook_places(const struct strings *bases, const char *path,
		struct strings *places);

/* The same of one reading: as the kernel takes it. Allocated. */
int hook_place(const char *base, const char *path, char **ret_place);

#endif

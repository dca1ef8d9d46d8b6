/*
 * Unsaved work, for people, on stdout.
 */
#ifndef WORKTREEFS_SHOW_UNSAVED_H
#define WORKTREEFS_SHOW_UNSAVED_H

#include "mountctl/unsaved.h"

/* branch: that keeps the commits, or NULL. */
void show_unsaved(const struct unsaved *unsaved, const char *branch);

#endif

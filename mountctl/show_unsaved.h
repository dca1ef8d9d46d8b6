/*
 * Unsaved work, for people.
 */
#ifndef WORKTREEFS_SHOW_UNSAVED_H
#define WORKTREEFS_SHOW_UNSAVED_H

#include <stdio.h>

#include "mountctl/unsaved.h"

/* branch: that keeps the commits, or NULL. */
void show_unsaved(FILE *out, const struct unsaved *unsaved, const char *branch);

#endif

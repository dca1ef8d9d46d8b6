/*
 * What has changed in the main checkout, for people, on stdout.
 */
#ifndef WORKTREEFS_SHOW_STRAY_H
#define WORKTREEFS_SHOW_STRAY_H

#include "mountctl/baseline.h"

void show_stray(const struct stray *stray);

#endif

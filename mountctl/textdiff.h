/*
 * What changes in a text, for people: a unified diff, as diff(1) prints it.
 */
#ifndef WORKTREEFS_TEXTDIFF_H
#define WORKTREEFS_TEXTDIFF_H

#include <stdio.h>

/*
 * name: what both texts are called. before NULL: there is none yet. Nothing
 * for texts that are equal. Bytes that could drive a terminal are escaped.
 * 0 or -ENOMEM.
 */
int textdiff_print(FILE *out, const char *name, const char *before,
		   const char *after);

#endif

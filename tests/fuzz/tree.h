/*
 * A tree as text, one line for each thing in it, to be compared.
 */
#ifndef WORKTREEFS_FUZZ_TREE_H
#define WORKTREEFS_FUZZ_TREE_H

#include <stdbool.h>

enum tree_detail {
	/* What only the same file has: number, all times. */
	TREE_IDENTITY = 1 << 0,
};

/* Allocated; NULL when out of memory. What can't be read says so in it. */
char *tree_print(const char *top, unsigned int detail);

/* Removes all that is in a directory. 0 or -errno. */
int tree_clear(const char *top);

/* The first line that differs in two texts, and what the other has there: into
 * two allocated texts. False if they are equal. */
bool tree_differs(const char *a, const char *b, char **ret_a, char **ret_b);

#endif

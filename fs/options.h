/*
 * The command line of worktreefs as mount(8) and fstab give it.
 */
#ifndef WORKTREEFS_OPTIONS_H
#define WORKTREEFS_OPTIONS_H

#include <stdbool.h>

#include "fs/lib/spec.h"

struct options {
	struct session_spec spec; /* of one view */
	bool foreground;	  /* -f, and with -d */
	bool debug;		  /* -d */
};

#define OPTIONS_SERVE (-1)

/*
 * OPTIONS_SERVE, or the exit status with which all has been said: usage, help,
 * version. options_release() is wanted in either case.
 */
int options_parse(int argc, char **argv, struct options *options);
void options_release(struct options *options);

#endif

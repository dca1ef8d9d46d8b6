/*
 * The paths that a shell command spells: absolute ones, those that begin with
 * "~" or $HOME, and those with ".." in them. It is a screen, not a shell: what
 * a command puts together at run time isn't seen, and the file system is what
 * holds there.
 */
#ifndef WORKTREEFS_HOOK_SHELL_H
#define WORKTREEFS_HOOK_SHELL_H

#include "fs/lib/spec.h"

/*
 * Asked about each path, which is to be taken from the directory base: 1 goes
 * on, 0 denies, -errno is an error.
 */
typedef int hook_shell_judge(void *data, const char *base, const char *path);

/*
 * Runs through the command, which starts in cwd (absolute). 1: nothing was
 * denied; 0: something was, and where that is the screen's own doing (`cd`
 * without a directory) it says why; -errno.
 */
int hook_shell_screen(const char *command, const char *cwd,
		      hook_shell_judge *judge, void *data, char **why);

#endif

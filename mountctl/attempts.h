/*
 * What the proof of a guard attempts (prove.h): by a process in the session, on
 * a scratch repository that prove.c has made. It writes how each came out to
 * stdout, a line each:
 *
 *   NAME MAIN WORKTREE   what a change answered in the main checkout, and the
 *                        same in the worktree: 0 or an errno
 *   =NAME RESULT         another: 0 for as it should be, an errno, or git's
 *                        exit status
 *   .                    all was attempted
 *
 * and then waits for the end of its stdin.
 */
#ifndef WORKTREEFS_ATTEMPTS_H
#define WORKTREEFS_ATTEMPTS_H

#include <stddef.h>

/* Files that each checkout of the scratch repository has, with some text. */
extern const char *const attempts_files[];
extern const size_t attempts_n_files;
/* A directory that each has, with one of these files in it. */
#define ATTEMPTS_DIRECTORY "directory"

/* The subject of the commit that is made. */
#define ATTEMPTS_SUBJECT "a commit behind the guard"

/* The static name of a change, or NULL: there is none of that name. */
const char *attempts_change(const char *name);

/* The process: an exit status. main and worktree are as it sees them. */
int attempts_main(const char *main, const char *worktree);

#endif

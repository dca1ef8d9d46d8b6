/*
 * Trying something in a child process: what it does to its namespaces,
 * descriptors and mounts is gone when it ends.
 */
#ifndef WORKTREEFS_TRIAL_H
#define WORKTREEFS_TRIAL_H

/*
 * Calls trial(arg, &message) in a child and returns what that returned, 0 or
 * -errno, with its message. What it shall report beyond that goes into memory
 * that both share (mmap(2)). A child that a signal ends gives -EINTR; one that
 * takes longer than ten seconds is killed: -ETIMEDOUT.
 *
 * The child's end raises no SIGCHLD. The caller must have one thread.
 */
int trial_run(int (*trial)(void *arg, char **message), void *arg,
	      char **message);

#endif

/*
 * Processes, named so that a reused pid can't be mistaken for them.
 */
#ifndef WORKTREEFS_PROCESS_H
#define WORKTREEFS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * When the process started, in clock ticks since boot: field 22 of
 * /proc/PID/stat (proc(5)). 0 or -errno (-ESRCH: no such process).
 */
int process_start_time(pid_t pid, uint64_t *ret_ticks);

/* Is there a process with this pid and start time that isn't a zombie? */
bool process_is(pid_t pid, uint64_t start_time);

/*
 * A pidfd of exactly that process; -ESRCH when it is gone or the pid is
 * another's by now.
 */
int process_open(pid_t pid, uint64_t start_time);

/*
 * A program's name and its arguments, args ending in NULL, as execve(2) takes
 * them. The array is allocated, the strings are the caller's; NULL: no memory.
 */
char **process_argv(const char *name, const char *const *args);

/*
 * Has SIGCHLD as programs expect it, so that our own children can be waited
 * for: where a caller has it ignored, the kernel forgets how a child ended.
 * First thing in main().
 */
void process_take_children(void);

/*
 * As the caller had it, for a program that takes our place: our children are
 * gone by then, and so shall be the news of them.
 */
void process_return_children(void);

#endif

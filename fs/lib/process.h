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

#endif

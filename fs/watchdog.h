/*
 * A watchdog: a small process beside the filesystem process. Where that one
 * gives no sign of life any more, because it was stopped or its threads wait
 * for each other, everybody who uses a view would wait for it, and couldn't be
 * killed. The watchdog then aborts the connections and kills it, so that
 * their system calls end with an error, and later ones with ENOTCONN.
 *
 * A request that the backing tree takes long for is no reason, and neither is
 * one that waits for a lock: both wait without a view, too.
 */
#ifndef WORKTREEFS_WATCHDOG_H
#define WORKTREEFS_WATCHDOG_H

#include <sys/types.h>

/* Off when zero-initialised. */
struct watchdog {
	pid_t pid;
	int fd; /* where signs of life are written; -1: none */
	unsigned int seconds;
};

/*
 * Starts it, which forks: call it before any thread is started. It acts after
 * this many seconds without a sign of life, and some more for a machine that
 * was frozen. 0: there is none. What it has to say goes to the descriptor, -1
 * for nowhere; it holds none of the standard streams. 0 or -errno.
 */
int watchdog_start(unsigned int seconds, int log_fd,
		   struct watchdog *ret_watchdog);
/* A connection that it is to abort: the minor number of the view's device. */
void watchdog_add(const struct watchdog *watchdog, unsigned int device);
/* A sign of life. */
void watchdog_beat(const struct watchdog *watchdog);
/* How long to wait between two of them, in milliseconds for poll(2). */
int watchdog_interval(const struct watchdog *watchdog);
void watchdog_stop(struct watchdog *watchdog);

#endif

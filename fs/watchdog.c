#include "fs/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/log.h"

#define MAX_DEVICES 64
#define MAX_INTERVAL 15000 /* ms */
#define BEAT 0u		   /* no device's minor number */

/* What the process knows. */
struct watch {
	int pipe;
	int process; /* pidfd of the one that it watches */
	unsigned int seconds;
	unsigned int devices[MAX_DEVICES];
	size_t n_devices;
};

/* Fuse's control file system, where somebody has mounted it. */
static void abort_connection(unsigned int device)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort",
		 device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, "1", 1) < 0)
			log_line("cannot abort connection %u", device);
		close(fd);
	}
}

static void act(const struct watch *watch)
{
	log_line("no sign of life for %u seconds: the watchdog ends it",
		 watch->seconds);
	for (size_t i = 0; i < watch->n_devices; i++)
		abort_connection(watch->devices[i]);
	/* The last descriptors of its connections go with it. */
	syscall(SYS_pidfd_send_signal, watch->process, SIGKILL, NULL, 0);
}

/* 1: a message has come, 0: none within that time, -1: there will be none. */
static int await_message(struct watch *watch, int timeout_ms)
{
	struct pollfd fd = {.fd = watch->pipe, .events = POLLIN};
	unsigned int message;
	int n;

	do
		n = poll(&fd, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	if (read(watch->pipe, &message, sizeof(message)) != sizeof(message))
		return -1;
	if (message != BEAT && watch->n_devices < MAX_DEVICES)
		watch->devices[watch->n_devices++] = message;
	return 1;
}

/*
 * A machine that was frozen thaws one process after the other: the one that is
 * watched gets a little time of its own.
 */
static void keep_watch(struct watch *watch)
{
	const int timeout_ms = (int)watch->seconds * 1000;
	int n;

	do {
		n = await_message(watch, timeout_ms);
		if (n == 0)
			n = await_message(watch, 1000 + timeout_ms / 8);
	} while (n > 0);
	if (n == 0)
		act(watch);
}

/* Nothing of the session may depend on this process. */
static void close_others(int a, int b)
{
	unsigned int low = (unsigned int)(a < b ? a : b);
	unsigned int high = (unsigned int)(a < b ? b : a);

	if (low > 3)
		close_range(3, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0u, 0);
}

/* Somebody may read them until nobody has them any more. */
static int let_streams_go(int log_fd)
{
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(log_fd < 0 ? null : log_fd, STDERR_FILENO) < 0)
		return -errno;
	return 0;
}

static void run_watch(int pipe, int process, unsigned int seconds)
{
	struct watch watch = {
		.pipe = pipe,
		.process = process,
		.seconds = seconds,
	};

	prctl(PR_SET_NAME, "worktreefs-dog");
	close_others(pipe, process);
	keep_watch(&watch);
}

int watchdog_start(unsigned int seconds, int log_fd,
		   struct watchdog *ret_watchdog)
{
	autofd int process = -1, out = -1, in = -1;
	int ends[2];
	pid_t pid;

	*ret_watchdog = (struct watchdog){.fd = -1};
	if (seconds == 0)
		return 0;
	process = pidfd_open(getpid(), 0);
	if (process < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	out = ends[0];
	in = ends[1];
	/* Signs of life that nobody reads must stop nobody. */
	if (fcntl(in, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		if (let_streams_go(log_fd) == 0)
			run_watch(out, process, seconds);
		_exit(EXIT_SUCCESS);
	}
	*ret_watchdog = (struct watchdog){pid, take_fd(&in), seconds};
	return 0;
}

static void tell(const struct watchdog *watchdog, unsigned int message)
{
	/* A pipe that is full says enough already; without a watchdog, nobody
	 * cares. */
	if (watchdog->fd >= 0 &&
	    write(watchdog->fd, &message, sizeof(message)) < 0)
		return;
}

void watchdog_add(const struct watchdog *watchdog, unsigned int device)
{
	tell(watchdog, device);
}

void watchdog_beat(const struct watchdog *watchdog)
{
	tell(watchdog, BEAT);
}

int watchdog_interval(const struct watchdog *watchdog)
{
	int interval = (int)watchdog->seconds * 1000 / 4;

	if (watchdog->fd < 0)
		return -1;
	return interval < MAX_INTERVAL ? interval : MAX_INTERVAL;
}

void watchdog_stop(struct watchdog *watchdog)
{
	if (watchdog->fd < 0)
		return;
	cleanup_fdp(&watchdog->fd);
	watchdog->fd = -1;
	waitpid(watchdog->pid, NULL, 0);
}

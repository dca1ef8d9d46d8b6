#include "fs/lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"

/* More than the numbers and a name of proc(5) can take. */
#define STAT_MAX 2048

struct process_stat {
	char state;
	uint64_t start_time;
};

static int read_stat(pid_t pid, char *text, size_t size)
{
	char path[64];
	autofd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	do {
		n = read(fd, text, size - 1);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return 0;
}

/*
 * The name, field 2, is in parentheses and may hold any byte: what follows the
 * last closing one is fields 3 (state) to 52.
 */
static int parse_stat(const char *text, struct process_stat *ret_stat)
{
	const char *fields = strrchr(text, ')');
	struct process_stat found;

	if (!fields ||
	    sscanf(fields,
		   ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %*s %*s %" SCNu64,
		   &found.state, &found.start_time) != 2)
		return -EINVAL;
	*ret_stat = found;
	return 0;
}

static int process_stat(pid_t pid, struct process_stat *ret_stat)
{
	char text[STAT_MAX];
	int r = pid > 0 ? read_stat(pid, text, sizeof(text)) : -ESRCH;

	return r < 0 ? r : parse_stat(text, ret_stat);
}

int process_start_time(pid_t pid, uint64_t *ret_ticks)
{
	struct process_stat found;
	int r = process_stat(pid, &found);

	if (r < 0)
		return r;
	*ret_ticks = found.start_time;
	return 0;
}

bool process_is(pid_t pid, uint64_t start_time)
{
	struct process_stat found;

	if (process_stat(pid, &found) < 0)
		return false;
	return found.start_time == start_time && found.state != 'Z' &&
	       found.state != 'X';
}

int process_open(pid_t pid, uint64_t start_time)
{
	autofd int fd = -1;

	if (pid <= 0)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	/* Asked while the descriptor holds on to whatever has the pid. */
	if (!process_is(pid, start_time))
		return -ESRCH;
	return take_fd(&fd);
}

char **process_argv(const char *name, const char *const *args)
{
	size_t n = 0;
	char **argv;

	while (args[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		return NULL;
	/* execve(2) takes char *const *, and changes nothing. */
	memcpy(argv, &name, sizeof(*argv));
	memcpy(argv + 1, args, n * sizeof(*argv));
	return argv;
}

static struct {
	bool pending;
	struct sigaction action;
} callers_children;

static bool is_child_pending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && sigismember(&pending, SIGCHLD) == 1;
}

void process_take_children(void)
{
	const struct sigaction action = {.sa_handler = SIG_DFL};

	callers_children.pending = is_child_pending();
	sigaction(SIGCHLD, &action, &callers_children.action);
}

void process_return_children(void)
{
	const struct timespec now = {0};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (!callers_children.pending && is_child_pending())
		sigtimedwait(&child, NULL, &now);
	sigaction(SIGCHLD, &callers_children.action, NULL);
}

#include "mountctl/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"

#define TRIAL_MS 10000
#define MESSAGE_MAX (1u << 16)

/* In the child: the message, if any, goes to the pipe. */
static int child_main(int (*trial)(void *arg, char **message), void *arg,
		      int out)
{
	autofree char *message = NULL;
	int r = trial(arg, &message);

	if (r < 0 && message)
		write_all(out, message, strlen(message));
	return r < 0 ? -r : 0;
}

/* Until the child ends, or its time is over. */
static int await(pid_t pid)
{
	autofd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	int status, r = 0;

	if (fd >= 0 && poll(&ended, 1, TRIAL_MS) == 0) {
		kill(pid, SIGKILL);
		r = -ETIMEDOUT;
	}
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

int trial_run(int (*trial)(void *arg, char **message), void *arg,
	      char **message)
{
	autofree char *text = NULL;
	autofd int in = -1;
	int fds[2], r;
	long pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = fds[0];
	pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (pid == 0)
		_exit(child_main(trial, arg, fds[1]));
	r = pid < 0 ? -errno : 0;
	close(fds[1]);
	if (r < 0)
		return r;
	r = await((pid_t)pid);
	/* A message is shorter than what a pipe takes. */
	if (r < 0 && message && read_fd(in, MESSAGE_MAX, &text, NULL) == 0 &&
	    text[0]) {
		free(*message);
		*message = steal_pointer(&text);
	}
	return r;
}

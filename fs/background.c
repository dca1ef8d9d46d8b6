#include "fs/background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"

/* The caller's process ends as the child has begun. */
static void await_child(pid_t pid, int fd)
{
	char byte;
	ssize_t n;
	int status;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(EXIT_SUCCESS);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(EXIT_FAILURE);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status)
						       : EXIT_FAILURE);
}

int background_enter(void)
{
	autofd int out = -1, in = -1;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	out = ends[0];
	in = ends[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		cleanup_fdp(&in);
		await_child(pid, out);
	}
	return setsid() < 0 ? -errno : take_fd(&in);
}

int background_ready(int fd)
{
	autofd int pipe = fd;
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || chdir("/") < 0)
		return -errno;
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		if (dup2(null, i) < 0)
			return -errno;
	return write(pipe, "", 1) < 0 ? -errno : 0;
}

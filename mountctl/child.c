#include "mountctl/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/process.h"

#define CHILD_MS (120 * 1000)
#define OUTPUT_MAX (64u << 10)

/* Doesn't return. */
static void become(char *const *argv, int in, int out, int err, pid_t parent)
{
	sigset_t none;

	/* What it starts can be killed with it. */
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() != parent)
			_exit(127);
	}
	if (chdir("/") == 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 &&
	    dup2(err, 2) == 2)
		execv("/proc/self/exe", argv);
	_exit(127);
}

int child_start(const char *const *args, int signals, bool ends_with_us,
		struct child *ret_child)
{
	autofree char **argv = process_argv("mountctl", args);
	autofd int err = memfd_create("mountctl-stderr", MFD_CLOEXEC);
	autofd int in_read = -1, in_write = -1, out_read = -1, out_write = -1;
	int in[2], out[2];
	pid_t pid, parent = getpid();

	if (!argv)
		return -ENOMEM;
	if (err < 0 || pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	in_read = in[0];
	in_write = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	out_read = out[0];
	out_write = out[1];
	pid = fork();
	if (pid == 0)
		become(argv, in_read, out_write, err,
		       ends_with_us ? parent : 0);
	if (pid < 0)
		return -errno;
	setpgid(pid, pid);
	*ret_child = (struct child){
		.pid = pid,
		.pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
		.in = take_fd(&in_write),
		.out = take_fd(&out_read),
		.err = take_fd(&err),
		.signals = signals,
	};
	return 0;
}

/* Until the descriptor is ready. 0 or -errno as child_read(). */
static int await(const struct child *child, int fd)
{
	struct pollfd ready[] = {
		{.fd = fd, .events = POLLIN},
		{.fd = child->signals, .events = POLLIN},
	};
	int n = poll(ready, ARRAY_SIZE(ready), CHILD_MS);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	return ready[1].revents ? -EINTR : 0;
}

/* What has been printed grows by what there is. 1, 0 at the end, or -errno. */
static int read_more(struct child *child)
{
	char *grown = realloc(child->text, child->size + 4096 + 1);
	ssize_t n;

	if (!grown)
		return -ENOMEM;
	child->text = grown;
	n = read(child->out, grown + child->size, 4096);
	if (n < 0)
		return -errno;
	child->size += (size_t)n;
	grown[child->size] = '\0';
	if (child->size > OUTPUT_MAX)
		return -EFBIG;
	return n > 0;
}

/* Is there such a line? */
static bool has_line(const struct child *child, const char *line)
{
	size_t length = strlen(line);

	for (const char *at = child->text; at && *at;) {
		size_t its = strcspn(at, "\n");

		if (its == length && memcmp(at, line, length) == 0 &&
		    at[its] == '\n')
			return true;
		at += its + (at[its] == '\n');
	}
	return false;
}

int child_read(struct child *child, const char *line)
{
	int r = 1;

	while (r > 0 && !(line && has_line(child, line))) {
		r = await(child, child->out);
		if (r == 0)
			r = read_more(child);
		if (r == 0)
			return line ? -EPIPE : 0;
	}
	return r < 0 ? r : 0;
}

static int reap(struct child *child)
{
	int status;

	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	child->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}

int child_finish(struct child *child)
{
	int r, status;

	cleanup_fdp(&child->in);
	child->in = -1;
	r = child_read(child, NULL);
	if (r == 0 && child->pidfd >= 0)
		r = await(child, child->pidfd);
	if (r < 0)
		kill(-child->pid, SIGKILL);
	status = reap(child);
	return r < 0 ? r : status;
}

char *child_complaint(const struct child *child)
{
	char *text = NULL;

	if (lseek(child->err, 0, SEEK_SET) < 0 ||
	    read_fd(child->err, OUTPUT_MAX, &text, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	if (*text)
		return text;
	free(text);
	return NULL;
}

void child_release(struct child *child)
{
	if (child->pid > 0) {
		kill(-child->pid, SIGKILL);
		reap(child);
	}
	cleanup_fdp(&child->pidfd);
	cleanup_fdp(&child->in);
	cleanup_fdp(&child->out);
	cleanup_fdp(&child->err);
	free(child->text);
}

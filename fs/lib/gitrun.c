#include "fs/lib/gitrun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/process.h"

#define MAX_OUTPUT (16u << 20)
/* What is worth repeating of what git complains about. */
#define MAX_ERRORS (64u << 10)

void git_output_release(struct git_output *output)
{
	free(output->out);
	free(output->err);
	memset(output, 0, sizeof(*output));
}

/* Variables that don't reach git, by how they begin. */
static const char *const dropped[] = {
	"GIT_", "LD_PRELOAD=", "LD_AUDIT=", "LD_LIBRARY_PATH="};

/* The configuration can have each command write a trace, unless these say
 * otherwise. */
static char added[][24] = {"GIT_TRACE2=0", "GIT_TRACE2_PERF=0",
			   "GIT_TRACE2_EVENT=0"};

static bool is_dropped(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if (strncmp(variable, dropped[i], strlen(dropped[i])) == 0)
			return true;
	return false;
}

/* What git's environment is. The array is allocated, the strings are not. */
static char **make_environment(void)
{
	size_t n = 0, kept = 0;
	char **environment;

	while (environ && environ[n])
		n++;
	environment = calloc(n + ARRAY_SIZE(added) + 1, sizeof(*environment));
	if (!environment)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_dropped(environ[i]))
			environment[kept++] = environ[i];
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		environment[kept++] = added[i];
	return environment;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       access(path, X_OK) == 0;
}

/* The first git on PATH, allocated; NULL: none. */
static char *find_program(void)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");
		autofree char *file = NULL;

		/* A relative directory would mean another one later. */
		if (*path == '/' &&
		    asprintf(&file, "%.*s/git", (int)length, path) < 0) {
			file = NULL;
			return NULL;
		}
		if (file && is_program(file))
			return steal_pointer(&file);
		path += length;
		path += *path == ':';
	}
	return NULL;
}

/*
 * Looked up once: whoever asks git while a session lives would otherwise run
 * what the session has put into a directory on PATH meanwhile. Borrowed; NULL
 * where there's no git.
 */
static const char *program(void)
{
	static char *found;
	char *known = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
	char *mine;

	if (known)
		return known;
	mine = find_program();
	if (mine &&
	    !__atomic_compare_exchange_n(&found, &known, mine, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		free(mine);
		return known;
	}
	return mine;
}

/* What the child does before it is git. The first errno of them, or 0. */
static int add_actions(posix_spawn_file_actions_t *actions,
		       posix_spawnattr_t *attributes, int in, int out, int err)
{
	sigset_t none, pipe;
	int e;

	/* The caller may block signals, or ignore SIGPIPE. */
	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	e = posix_spawnattr_setsigmask(attributes, &none);
	if (!e)
		e = posix_spawnattr_setsigdefault(attributes, &pipe);
	if (!e)
		e = posix_spawnattr_setflags(attributes,
					     POSIX_SPAWN_SETSIGMASK |
						     POSIX_SPAWN_SETSIGDEF);
	if (!e)
		e = posix_spawn_file_actions_adddup2(actions, out, 1);
	if (!e)
		e = posix_spawn_file_actions_adddup2(actions, err, 2);
	if (!e && in >= 0)
		e = posix_spawn_file_actions_adddup2(actions, in, 0);
	else if (!e)
		e = posix_spawn_file_actions_addopen(actions, 0, "/dev/null",
						     O_RDONLY, 0);
	if (!e)
		e = posix_spawn_file_actions_addchdir_np(actions, "/");
	return e;
}

/* Starts git with in (or -1), out and err as its standard streams. */
static int start(const char *const *args, int in, int out, int err,
		 pid_t *ret_pid)
{
	autofree char **argv = process_argv("git", args);
	autofree char **environment = make_environment();
	const char *file = program();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int e;

	if (!argv || !environment)
		return -ENOMEM;
	if (!file)
		return -ENOENT;
	e = posix_spawn_file_actions_init(&actions);
	if (e)
		return -e;
	e = posix_spawnattr_init(&attributes);
	if (e) {
		posix_spawn_file_actions_destroy(&actions);
		return -e;
	}

	e = add_actions(&actions, &attributes, in, out, err);
	if (!e)
		e = posix_spawn(ret_pid, file, &actions, &attributes, argv,
				environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -e;
}

/* Waits for the child's end. Its exit status, 128+N for a signal, or -errno. */
static int reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* What git complained about: the beginning, without the last line's end. */
static int read_errors(int fd, char **ret_err)
{
	autofree char *err = NULL;
	size_t size;
	off_t end;
	int r;

	end = lseek(fd, 0, SEEK_END);
	if (end < 0 || (end > MAX_ERRORS && ftruncate(fd, MAX_ERRORS) < 0) ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = read_fd(fd, MAX_ERRORS, &err, &size);
	if (r < 0)
		return r;
	while (size && strchr(" \t\r\n", err[size - 1]))
		err[--size] = '\0';
	*ret_err = steal_pointer(&err);
	return 0;
}

/* Runs it with in as its standard input, -1 for none. */
static int run(const char *const *args, int stdin_fd,
	       struct git_output *ret_output)
{
	autogitoutput struct git_output output = {0};
	/* A file and not a second pipe: git never waits for us to read it. */
	autofd int err = memfd_create("git-stderr", MFD_CLOEXEC);
	autofd int in = -1, out = -1;
	int ends[2], r, status;
	pid_t pid;

	if (err < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	in = ends[0];
	out = ends[1];

	r = start(args, stdin_fd, out, err, &pid);
	if (r < 0)
		return r;
	close(take_fd(&out));
	r = read_fd(in, MAX_OUTPUT, &output.out, &output.size);
	/* Where we stopped before its end, SIGPIPE ends it. */
	close(take_fd(&in));
	status = reap(pid);
	if (r == 0 && status < 0)
		r = status;
	if (r == 0)
		r = read_errors(err, &output.err);
	if (r < 0)
		return r;

	output.status = status;
	*ret_output = output;
	output = (struct git_output){0};
	return 0;
}

int git_run(const char *const *args, struct git_output *ret_output)
{
	return run(args, -1, ret_output);
}

int git_run_on(const char *const *args, const void *input, size_t size,
	       struct git_output *ret_output)
{
	autofd int in = memfd_create("git-stdin", MFD_CLOEXEC);
	int r;

	if (in < 0)
		return -errno;
	r = write_all(in, input, size);
	if (r < 0)
		return r;
	if (lseek(in, 0, SEEK_SET) < 0)
		return -errno;
	return run(args, in, ret_output);
}

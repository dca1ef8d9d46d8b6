#include "mountctl/server.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/wire.h"
#include "mountctl/output.h"

/* How long an answer may take, in seconds: a busy disk takes its time. */
#define ANSWER_TIMEOUT 60

/* The log is begun anew when it is longer than this. */
#define LOG_MAX (1 << 20)

/* The descriptor that the filesystem process finds its socket at. */
#define CHILD_SOCKET 3

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       access(path, X_OK) == 0;
}

static int own_directory(char **ret_dir)
{
	autofree char *self = NULL;
	int r = read_link_at(AT_FDCWD, "/proc/self/exe", &self);

	if (r < 0)
		return r;
	*ret_dir = path_dirname(self);
	return *ret_dir ? 0 : -ENOMEM;
}

static int program_of_environment(const char *program, char **ret_path,
				  char **ret_message)
{
	autofree char *path = NULL;

	if (!is_program(program))
		return explain(-ENOENT, ret_message,
			       "WORKTREEFS_BIN names '%s', which isn't a "
			       "program",
			       program);
	path = realpath(program, NULL);
	if (!path)
		return -errno;
	*ret_path = steal_pointer(&path);
	return 0;
}

int server_find_program(char **ret_path, char **ret_message)
{
	static const char *const places[] = {
		"worktreefs",	    /* installed together */
		"../fs/worktreefs", /* the build tree */
		"../libexec/worktreefs",
		"../libexec/worktreefs/worktreefs",
	};
	const char *environment = getenv("WORKTREEFS_BIN");
	autofree char *dir = NULL;
	int r;

	if (environment && environment[0])
		return program_of_environment(environment, ret_path,
					      ret_message);
	r = own_directory(&dir);
	if (r < 0)
		return explain(r, ret_message, "cannot read '%s': %s",
			       "/proc/self/exe", strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char *path = path_normalise(dir, places[i]);

		if (!path)
			return -ENOMEM;
		if (is_program(path)) {
			*ret_path = path;
			return 0;
		}
		free(path);
	}
	return explain(-ENOENT, ret_message,
		       "cannot find the program 'worktreefs' beside mountctl "
		       "in '%s'; WORKTREEFS_BIN can name it",
		       dir);
}

/* mkdir -p: what is missing, for us alone. */
static int make_directories(const char *path)
{
	autofree char *parent = NULL;
	int r;

	if (mkdir(path, 0700) == 0)
		return 0;
	r = -errno;
	if (r == -EEXIST)
		return 0;
	if (r != -ENOENT)
		return r;
	parent = path_dirname(path);
	if (!parent)
		return -ENOMEM;
	r = make_directories(parent);
	if (r < 0)
		return r;
	/* Another session may be starting, too. */
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int open_log(const char *state_dir)
{
	autofree char *path = path_join(state_dir, "worktreefs.log");
	autofd int fd = -1;
	struct stat st;
	int r;

	if (!path)
		return -ENOMEM;
	r = make_directories(state_dir);
	if (r < 0)
		return r;
	fd = open(path,
		  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
			  O_NOCTTY,
		  0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_size > LOG_MAX && ftruncate(fd, 0) < 0)
		return -errno;
	return take_fd(&fd);
}

/*
 * The filesystem process.
 */

struct launch {
	const char *program;
	int sock; /* its end */
	int log;
};

static void reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Gives each its number; the sources lie above all targets by then. */
static int place_descriptors(const struct launch *launch)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int sock = fcntl(launch->sock, F_DUPFD_CLOEXEC, CHILD_SOCKET + 1);
	int log = fcntl(launch->log, F_DUPFD_CLOEXEC, CHILD_SOCKET + 1);

	if (null < 0 || sock < 0 || log < 0)
		return -errno;
	if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(log, STDERR_FILENO) < 0 || dup2(sock, CHILD_SOCKET) < 0)
		return -errno;
	return close_range(CHILD_SOCKET + 1, ~0U, 0) < 0 ? -errno : 0;
}

/* Tells mountctl by the socket why the program doesn't answer itself. */
static void report(int sock, const char *program, int r)
{
	cJSON *message = cJSON_CreateObject();
	autofree char *text = NULL, *reason = NULL;

	if (asprintf(&reason, "cannot execute '%s': %s", program,
		     strerror(-r)) < 0)
		return;
	cJSON_AddStringToObject(message, "type", "error");
	cJSON_AddStringToObject(message, "message", reason);
	text = cJSON_PrintUnformatted(message);
	if (text)
		wire_send(sock, text, NULL, 0);
	cJSON_Delete(message);
}

static void become_server(const struct launch *launch)
	__attribute__((noreturn));
static void become_server(const struct launch *launch)
{
	int sock = launch->sock;
	int r = place_descriptors(launch);

	reset_signals();
	if (r == 0) {
		char option[] = "--session", number[] = "3";
		char name[] = "worktreefs";
		char *argv[] = {name, option, number, NULL};

		sock = CHILD_SOCKET;
		if (chdir("/") == 0)
			execv(launch->program, argv);
		r = -errno;
	}
	report(sock, launch->program, r);
	_exit(127);
}

/* Forks twice, so that it is nobody's child and no session leader. */
static int launch(const struct launch *launch)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_server(launch);
		_exit(pid < 0 ? errno : 0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/*
 * The exchange, see wire.h.
 */

static int set_timeouts(int sock)
{
	struct timeval limit = {.tv_sec = ANSWER_TIMEOUT};

	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) <
		    0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) <
		    0)
		return -errno;
	return 0;
}

static int explain_silence(int r, char **ret_message)
{
	if (r == -EAGAIN)
		return explain(-ETIMEDOUT, ret_message,
			       "the filesystem process doesn't answer");
	if (r == -ECONNRESET || r == -EPIPE)
		return explain(r, ret_message,
			       "the filesystem process has ended; the "
			       "session's worktreefs.log may tell why");
	return explain(r, ret_message,
		       "cannot talk to the filesystem process: %s",
		       strerror(-r));
}

static const char *get_text(const cJSON *answer, const char *key)
{
	return cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(answer, key));
}

/* 0 for {"type":"ok"}; a warning in it is said. */
static int judge_answer(const char *text, char **ret_message)
{
	cJSON *answer = cJSON_Parse(text);
	const char *type = get_text(answer, "type");
	const char *reason = get_text(answer, "message");
	const char *warning = get_text(answer, "warning");
	int r = 0;

	if (!type || (strcmp(type, "ok") != 0 && strcmp(type, "error") != 0))
		r = explain(-EPROTO, ret_message,
			    "the filesystem process answers what isn't known");
	else if (strcmp(type, "error") == 0)
		r = explain(-EIO, ret_message, "%s",
			    reason ? reason : "the filesystem process failed");
	else if (warning)
		warn("%s", warning);
	cJSON_Delete(answer);
	return r;
}

static int await_ok(int sock, char **ret_message)
{
	autofree char *text = NULL;
	size_t n_fds;
	int r = wire_receive(sock, &text, NULL, 0, &n_fds);

	return r < 0 ? explain_silence(r, ret_message)
		     : judge_answer(text, ret_message);
}

/* Sends the message, whose ownership it takes, and waits for the answer. */
static int ask(int sock, cJSON *message, const int *fds, size_t n_fds,
	       char **ret_message)
{
	autofree char *text = cJSON_PrintUnformatted(message);
	int r;

	cJSON_Delete(message);
	if (!text)
		return explain(-ENOMEM, ret_message, "out of memory");
	r = wire_send(sock, text, fds, n_fds);
	/* It may have said why it went away. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return explain_silence(r, ret_message);
	return await_ok(sock, ret_message);
}

static cJSON *new_message(const char *type)
{
	cJSON *message = cJSON_CreateObject();

	if (message && cJSON_AddStringToObject(message, "type", type))
		return message;
	cJSON_Delete(message);
	return NULL;
}

/* Adds a text in the way of spec.h, or null. */
static bool add_text(cJSON *message, const char *key, const char *bytes)
{
	autofree char *text = NULL;

	if (!bytes)
		return cJSON_AddNullToObject(message, key);
	text = json_text_encode(bytes);
	return text && cJSON_AddStringToObject(message, key, text);
}

static cJSON *session_message(const struct session_spec *spec,
			      const char *record_dir)
{
	cJSON *message = new_message("session");
	cJSON *object = message ? session_spec_to_cjson(spec) : NULL;

	if (object && cJSON_AddItemToObject(message, "spec", object) &&
	    add_text(message, "record_dir", record_dir))
		return message;
	cJSON_Delete(message);
	return NULL;
}

static int send_session(int sock, const struct session_spec *spec, int dir_fd,
			int lock_fd, const char *record_dir,
			const int *root_fds, char **ret_message)
{
	int fds[WIRE_MAX_FDS] = {dir_fd, lock_fd};

	if (spec->n_views + 2 > WIRE_MAX_FDS)
		return explain(-E2BIG, ret_message, "too many views");
	for (size_t i = 0; i < spec->n_views; i++)
		fds[2 + i] = root_fds[i];
	return ask(sock, session_message(spec, record_dir), fds,
		   2 + spec->n_views, ret_message);
}

static int start(const char *program, int log, int *ret_sock)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	r = set_timeouts(ends[0]);
	if (r == 0)
		r = launch(&(struct launch){
			.program = program, .sock = ends[1], .log = log});
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return r;
	}
	*ret_sock = ends[0];
	return 0;
}

int server_start(const struct session_spec *spec, int dir_fd, int lock_fd,
		 const char *record_dir, const int *root_fds, int *ret_sock,
		 char **ret_message)
{
	autofree char *program = NULL;
	autofd int log = -1, sock = -1;
	int r = server_find_program(&program, ret_message);

	if (r < 0)
		return r;
	log = open_log(spec->state_dir);
	if (log < 0)
		return explain(log, ret_message,
			       "cannot write a log to '%s': %s",
			       spec->state_dir, strerror(-log));
	r = start(program, log, &sock);
	if (r < 0)
		return explain(r, ret_message, "cannot start '%s': %s", program,
			       strerror(-r));
	r = send_session(sock, spec, dir_fd, lock_fd, record_dir, root_fds,
			 ret_message);
	if (r < 0)
		return r;
	*ret_sock = take_fd(&sock);
	return 0;
}

int server_serve(int sock, const int *fuse_fds, size_t n, char **ret_message)
{
	cJSON *message = new_message("serve");

	if (message &&
	    !cJSON_AddBoolToObject(message, "fuse", fuse_fds != NULL)) {
		cJSON_Delete(message);
		message = NULL;
	}
	return ask(sock, message, fuse_fds, fuse_fds ? n : 0, ret_message);
}

static bool add_devices(cJSON *message, const struct strings *devices)
{
	cJSON *array = cJSON_AddArrayToObject(message, "devices");

	if (!array)
		return false;
	for (size_t i = 0; i < devices->n; i++)
		if (!cJSON_AddItemToArray(array,
					  cJSON_CreateString(devices->s[i])))
			return false;
	return true;
}

int server_commit(int sock, const struct strings *devices, const char *command,
		  char **ret_message)
{
	cJSON *message = new_message("commit");

	if (message && !(add_devices(message, devices) &&
			 add_text(message, "command", command))) {
		cJSON_Delete(message);
		message = NULL;
	}
	return ask(sock, message, NULL, 0, ret_message);
}

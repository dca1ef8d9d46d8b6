#include "fs/control.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/denials.h"
#include "fs/guard.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "fs/log.h"

#define MAX_CLIENTS 64
#define MAX_LINE 65536 /* of a request */
#define MAX_COUNTS 10  /* programs and paths in a status */
#define SOCKET_NAME "control.sock"

struct client {
	int fd;
	char *line; /* of what came so far */
	size_t used;
	char *answers; /* not sent yet */
	size_t n_answers;
	bool ending; /* is closed once the answers are sent */
};

struct control {
	struct session *session; /* borrowed */
	pthread_t thread;
	int listener;
	int stop; /* eventfd */
	struct client clients[MAX_CLIENTS];
	size_t n_clients;
};

static cJSON *error_answer(const char *message)
{
	cJSON *answer = cJSON_CreateObject();

	cJSON_AddStringToObject(answer, "error", message);
	return answer;
}

/* [{"name": "sed", "count": 7}, ...] */
static void add_counts(cJSON *answer, const char *key,
		       size_t (*get)(struct denial_count *ret, size_t max))
{
	struct denial_count counts[MAX_COUNTS];
	size_t n = get(counts, MAX_COUNTS);
	cJSON *array = cJSON_AddArrayToObject(answer, key);

	for (size_t i = 0; i < n; i++) {
		autofree char *name = json_text_encode(counts[i].name);
		cJSON *item = cJSON_CreateObject();

		cJSON_AddStringToObject(item, "name", name ? name : "?");
		cJSON_AddNumberToObject(item, "count", (double)counts[i].count);
		cJSON_AddItemToArray(array, item);
		free(counts[i].name);
	}
}

static cJSON *answer_status(struct session *session, const cJSON *request)
{
	cJSON *answer = cJSON_CreateObject();
	cJSON *requests = cJSON_AddObjectToObject(answer, "requests");
	uint64_t total = 0, denials = 0;
	struct timespec now;

	for (size_t i = 0; i < N_REQUESTS; i++) {
		uint64_t count = 0;

		for (size_t v = 0; v < session->spec.n_views; v++)
			count += __atomic_load_n(
				&session->views[v].view.requests[i],
				__ATOMIC_RELAXED);
		total += count;
		cJSON_AddNumberToObject(requests, request_names[i],
					(double)count);
	}
	for (size_t v = 0; v < session->spec.n_views; v++)
		denials += __atomic_load_n(&session->views[v].view.denials,
					   __ATOMIC_RELAXED);
	clock_gettime(CLOCK_BOOTTIME, &now);
	cJSON_AddNumberToObject(answer, "requests_total", (double)total);
	cJSON_AddNumberToObject(answer, "denials", (double)denials);
	add_counts(answer, "denials_by_program", denials_by_program);
	add_counts(answer, "denials_by_path", denials_by_path);
	cJSON_AddNumberToObject(answer, "uptime",
				(double)(now.tv_sec - session->started.tv_sec));
	return answer;
}

/* The innermost view that shows the path; NULL: none does. */
static const struct view *view_around(const struct session *session,
				      const char *path)
{
	const struct view *found = NULL;

	for (size_t i = 0; i < session->spec.n_views; i++) {
		const struct view *view = &session->views[i].view;

		if (path_starts_with(path, view->spec->root, NULL) &&
		    (!found ||
		     strlen(view->spec->root) > strlen(found->spec->root)))
			found = view;
	}
	return found;
}

static cJSON *explain(const struct session *session, const char *path,
		      enum policy_op op)
{
	const struct view *view = view_around(session, path);
	struct explanation explanation = {0};
	cJSON *answer;
	/* Outside of the views it isn't we who hold the rules. */
	int r = view ? guard_explain(view, path, op, &explanation)
		     : explain_session(&session->spec, path, op, &explanation);

	if (r < 0)
		return error_answer(strerror(-r));
	answer = cJSON_CreateObject();
	if (!explanation_put(answer, &explanation)) {
		cJSON_Delete(answer);
		answer = error_answer("out of memory");
	}
	explanation_release(&explanation);
	return answer;
}

static cJSON *answer_why(struct session *session, const cJSON *request)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "path"));
	const char *word = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "operation"));
	autofree char *path = text ? json_text_decode(text) : NULL;
	enum policy_op op = OP_WRITE;

	if (!path || !path_is_clean(path))
		return error_answer("\"path\" isn't an absolute path without "
				    "\".\", \"..\" and doubled slashes");
	if (word && policy_op_parse(word, &op) < 0)
		return error_answer("unknown \"operation\"");
	return explain(session, path, op);
}

/* Ends the process as SIGTERM does. */
static cJSON *answer_shutdown(struct session *session, const cJSON *request)
{
	kill(getpid(), SIGTERM);
	return cJSON_CreateObject();
}

static const struct {
	const char *op;
	cJSON *(*answer)(struct session *session, const cJSON *request);
} requests[] = {
	{"status", answer_status},
	{"why", answer_why},
	{"shutdown", answer_shutdown},
};

static cJSON *answer_request(struct session *session, const char *line)
{
	cJSON *request = cJSON_Parse(line);
	const char *op = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "op"));
	cJSON *answer = NULL;

	for (size_t i = 0; op && i < ARRAY_SIZE(requests); i++)
		if (strcmp(requests[i].op, op) == 0)
			answer = requests[i].answer(session, request);
	if (!answer)
		answer = error_answer(!request ? "not JSON"
				      : !op    ? "no \"op\""
					       : "unknown \"op\"");
	cJSON_Delete(request);
	return answer;
}

static int queue_answer(struct client *client, cJSON *answer)
{
	autofree char *text = NULL;
	char *grown;
	size_t size;

	cJSON_AddNumberToObject(answer, "schema_version", 1);
	cJSON_AddBoolToObject(answer, "ok",
			      !cJSON_HasObjectItem(answer, "error"));
	text = cJSON_PrintUnformatted(answer);
	cJSON_Delete(answer);
	if (!text)
		return -ENOMEM;
	size = strlen(text);
	grown = realloc(client->answers, client->n_answers + size + 1);
	if (!grown)
		return -ENOMEM;
	memcpy(grown + client->n_answers, text, size);
	grown[client->n_answers + size] = '\n';
	client->answers = grown;
	client->n_answers += size + 1;
	return 0;
}

/* Answers each whole line that has come. */
static int answer_lines(struct control *control, struct client *client)
{
	char *line = client->line, *end;
	int r = 0;

	while (r == 0 &&
	       (end = memchr(line, '\n',
			     client->used - (size_t)(line - client->line)))) {
		*end = '\0';
		r = queue_answer(client,
				 answer_request(control->session, line));
		line = end + 1;
	}
	client->used -= (size_t)(line - client->line);
	memmove(client->line, line, client->used);
	if (r == 0 && client->used == MAX_LINE) {
		client->ending = true;
		r = queue_answer(client, error_answer("line too long"));
	}
	return r;
}

/* 0, or -errno when the client is to be closed. */
static int read_client(struct control *control, struct client *client)
{
	ssize_t n = recv(client->fd, client->line + client->used,
			 MAX_LINE - client->used, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	client->used += (size_t)n;
	return answer_lines(control, client);
}

static int write_client(struct client *client)
{
	ssize_t n = send(client->fd, client->answers, client->n_answers,
			 MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	client->n_answers -= (size_t)n;
	memmove(client->answers, client->answers + n, client->n_answers);
	return client->n_answers == 0 && client->ending ? -ECONNRESET : 0;
}

static void close_client(struct client *client)
{
	close(client->fd);
	free(client->line);
	free(client->answers);
}

/*
 * Is the peer one that may ask? Its mount namespace is looked up by its pid;
 * a peer that has gone, and whose pid might be another's, has closed its end.
 */
static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);
	char path[64];
	struct stat theirs, ours;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return false;
	if (peer.uid != geteuid() && peer.uid != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", peer.pid);
	return stat(path, &theirs) == 0 &&
	       stat("/proc/self/ns/mnt", &ours) == 0 &&
	       theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

static void accept_client(struct control *control)
{
	autofd int fd = accept4(control->listener, NULL, NULL,
				SOCK_CLOEXEC | SOCK_NONBLOCK);
	char *line;

	if (fd < 0 || control->n_clients == MAX_CLIENTS || !may_ask(fd))
		return;
	line = malloc(MAX_LINE);
	if (!line)
		return;
	control->clients[control->n_clients++] = (struct client){
		.fd = take_fd(&fd),
		.line = line,
	};
}

static void serve_clients(struct control *control, const struct pollfd *fds)
{
	/* From the last, so that removing one leaves those to come in place. */
	for (size_t i = control->n_clients; i-- > 0;) {
		struct client *client = &control->clients[i];
		int r = 0;

		if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
			r = read_client(control, client);
		if (r == 0 && client->n_answers > 0)
			r = write_client(client);
		if (r < 0) {
			close_client(client);
			*client = control->clients[--control->n_clients];
		}
	}
}

static void *control_loop(void *arg)
{
	struct control *control = arg;
	struct pollfd fds[MAX_CLIENTS + 2];

	for (;;) {
		size_t n = control->n_clients;

		for (size_t i = 0; i < n; i++) {
			const struct client *client = &control->clients[i];

			fds[i] = (struct pollfd){
				.fd = client->fd,
				/* Who doesn't read isn't heard. */
				.events = client->n_answers ? POLLOUT : POLLIN,
			};
		}
		fds[n] = (struct pollfd){control->listener, POLLIN, 0};
		fds[n + 1] = (struct pollfd){control->stop, POLLIN, 0};
		if (poll(fds, n + 2, -1) < 0)
			continue;
		if (fds[n + 1].revents)
			return NULL;
		serve_clients(control, fds);
		if (fds[n].revents)
			accept_client(control);
	}
}

/* Binds by the directory's descriptor: paths of sockets are short. */
static int listen_in(int dir_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autofd int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s",
		 fd_path(dir_fd).text, SOCKET_NAME);
	unlinkat(dir_fd, SOCKET_NAME, 0);
	/* umask is 0 here, and the directory is the user's alone. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 16) < 0)
		return -errno;
	return take_fd(&fd);
}

int control_start(struct session *session, int dir_fd,
		  struct control **ret_control)
{
	autofree struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->session = session;
	control->listener = listen_in(dir_fd);
	control->stop = eventfd(0, EFD_CLOEXEC);
	r = control->listener < 0 ? control->listener
	    : control->stop < 0	  ? -EMFILE
				  : 0;
	if (r == 0)
		r = -pthread_create(&control->thread, NULL, control_loop,
				    control);
	if (r < 0) {
		cleanup_fdp(&control->listener);
		cleanup_fdp(&control->stop);
		return r;
	}
	*ret_control = steal_pointer(&control);
	return 0;
}

void control_stop(struct control *control)
{
	uint64_t one = 1;

	if (!control)
		return;
	if (write(control->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(control->thread, NULL);
	for (size_t i = 0; i < control->n_clients; i++)
		close_client(&control->clients[i]);
	close(control->listener);
	close(control->stop);
	free(control);
}

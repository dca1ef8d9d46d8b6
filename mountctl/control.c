#include "mountctl/control.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/record.h"
#include "mountctl/clock.h"

#define TIMEOUT_MS 2000
#define ANSWER_MAX (1u << 20)

void control_status_release(struct control_status *status)
{
	for (size_t i = 0; i < status->n_requests; i++)
		free(status->requests[i].name);
	free(status->requests);
	*status = (struct control_status){0};
}

/* Does the socket belong to a process of ours? */
static int check_peer(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == geteuid() ? 0 : -EPERM;
}

/* Through the directory's descriptor: a socket's address is short. */
static int dial(int dir_fd)
{
	struct timeval limit = {.tv_sec = TIMEOUT_MS / 1000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autofd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (sock < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock",
		 fd_path(dir_fd).text);
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	r = check_peer(sock);
	return r < 0 ? r : take_fd(&sock);
}

static int send_line(int sock, const char *line)
{
	size_t size = strlen(line);

	while (size > 0) {
		ssize_t n = send(sock, line, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		line += n;
		size -= (size_t)n;
	}
	return 0;
}

static int await(int sock, int64_t deadline)
{
	struct pollfd readable = {.fd = sock, .events = POLLIN};
	int64_t left = deadline - now_ms();
	int n;

	if (left <= 0)
		return -ETIMEDOUT;
	n = poll(&readable, 1, (int)left);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n == 0 ? -ETIMEDOUT : 1;
}

/* One line, without its newline. */
static int receive_line(int sock, int64_t deadline, char *line, size_t size)
{
	size_t length = 0;

	for (;;) {
		int r = await(sock, deadline);
		ssize_t n;
		char *end;

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		n = recv(sock, line + length, size - 1 - length, 0);
		if (n < 0)
			return -errno;
		length += (size_t)n;
		line[length] = '\0';
		end = strchr(line, '\n');
		if (end) {
			*end = '\0';
			return 0;
		}
		if (n == 0 || length + 1 >= size)
			return -EPROTO;
	}
}

static int converse(const char *session, const char *request, char **ret_answer)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	autofree char *answer = malloc(ANSWER_MAX);
	autofd int dir = -1, sock = -1;
	int r = answer ? record_open(session, &dir) : -ENOMEM;

	if (r < 0)
		return r;
	sock = dial(dir);
	if (sock < 0)
		return sock;
	r = send_line(sock, request);
	if (r == 0)
		r = receive_line(sock, deadline, answer, ANSWER_MAX);
	if (r == 0)
		*ret_answer = steal_pointer(&answer);
	return r;
}

/* 0 where there is no such count. */
static uint64_t get_count(const cJSON *item)
{
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
	    item->valuedouble > 9e15)
		return 0;
	return (uint64_t)item->valuedouble;
}

static uint64_t get_member(const cJSON *object, const char *key)
{
	return get_count(cJSON_GetObjectItemCaseSensitive(object, key));
}

static int get_requests(const cJSON *object, struct control_status *status)
{
	const cJSON *requests =
		cJSON_GetObjectItemCaseSensitive(object, "requests");
	int room = cJSON_IsObject(requests) ? cJSON_GetArraySize(requests) : 0;
	const cJSON *item;

	status->requests = calloc((size_t)room + 1, sizeof(*status->requests));
	if (!status->requests)
		return -ENOMEM;
	if (room == 0)
		return 0;
	cJSON_ArrayForEach(item, requests)
	{
		char *name = strdup(item->string);

		if (!name)
			return -ENOMEM;
		status->requests[status->n_requests++] = (struct request_count){
			.name = name, .count = get_count(item)};
	}
	return 0;
}

static int get_status(const cJSON *object, struct control_status *status)
{
	if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "ok")))
		return -EPROTO;
	status->requests_total = get_member(object, "requests_total");
	status->denials = get_member(object, "denials");
	status->uptime = get_member(object, "uptime");
	return get_requests(object, status);
}

int control_ask_status(const char *session, struct control_status *ret_status)
{
	struct control_status status = {0};
	autofree char *answer = NULL;
	cJSON *object;
	int r = converse(session, "{\"op\":\"status\"}\n", &answer);

	if (r < 0)
		return r;
	object = cJSON_Parse(answer);
	r = get_status(object, &status);
	cJSON_Delete(object);
	if (r < 0) {
		control_status_release(&status);
		return r;
	}
	*ret_status = status;
	return 0;
}

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
#define CHANGE_TIMEOUT_MS 30000
#define ANSWER_MAX (1u << 20)

static void counts_release(struct named_counts *counts)
{
	for (size_t i = 0; i < counts->n; i++)
		free(counts->count[i].name);
	free(counts->count);
}

void control_status_release(struct control_status *status)
{
	counts_release(&status->requests);
	counts_release(&status->programs);
	counts_release(&status->paths);
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

static int converse(const char *session, const char *request,
		    int64_t timeout_ms, char **ret_answer)
{
	int64_t deadline = now_ms() + timeout_ms;
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

/* Room for the members of an object or an array. */
static int counts_init(struct named_counts *counts, const cJSON *items)
{
	counts->count = calloc((size_t)cJSON_GetArraySize(items) + 1,
			       sizeof(*counts->count));
	return counts->count ? 0 : -ENOMEM;
}

/* Takes over name. */
static int counts_add(struct named_counts *counts, char *name,
		      const cJSON *count)
{
	if (!name)
		return -ENOMEM;
	counts->count[counts->n++] = (struct named_count){
		.name = name,
		.count = get_count(count),
	};
	return 0;
}

/* {"lookup": 7, ...} */
static int get_requests(const cJSON *object, struct named_counts *counts)
{
	const cJSON *requests =
		cJSON_GetObjectItemCaseSensitive(object, "requests");
	const cJSON *item;
	int r = counts_init(counts, requests);

	if (!cJSON_IsObject(requests))
		return r;
	cJSON_ArrayForEach(item, requests)
	{
		if (r == 0)
			r = counts_add(counts, strdup(item->string), item);
	}
	return r;
}

/* [{"name": "sed", "count": 7}, ...] */
static int get_counts(const cJSON *object, const char *key,
		      struct named_counts *counts)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
	const cJSON *item;
	int r = counts_init(counts, array);

	if (!cJSON_IsArray(array))
		return r;
	cJSON_ArrayForEach(item, array)
	{
		const char *name = cJSON_GetStringValue(
			cJSON_GetObjectItemCaseSensitive(item, "name"));

		if (r == 0 && name)
			r = counts_add(counts, json_text_decode(name),
				       cJSON_GetObjectItemCaseSensitive(
					       item, "count"));
	}
	return r;
}

static bool is_ok(const cJSON *object)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "ok"));
}

static int get_status(const cJSON *object, struct control_status *status)
{
	int r;

	if (!is_ok(object))
		return -EPROTO;
	status->requests_total = get_member(object, "requests_total");
	status->denials = get_member(object, "denials");
	status->uptime = get_member(object, "uptime");
	status->generation = get_member(object, "generation");
	r = get_requests(object, &status->requests);
	if (r == 0)
		r = get_counts(object, "denials_by_program", &status->programs);
	if (r == 0)
		r = get_counts(object, "denials_by_path", &status->paths);
	return r;
}

int control_ask_status(const char *session, struct control_status *ret_status)
{
	struct control_status status = {0};
	autofree char *answer = NULL;
	cJSON *object;
	int r = converse(session, "{\"op\":\"status\"}\n", TIMEOUT_MS, &answer);

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

/* The request as a line. Allocated; NULL: out of memory. */
static char *why_request(const char *path, enum policy_op op)
{
	autofree char *encoded = json_text_encode(path), *text = NULL;
	cJSON *request = cJSON_CreateObject();
	char *line;

	if (encoded && cJSON_AddStringToObject(request, "op", "why") &&
	    cJSON_AddStringToObject(request, "path", encoded) &&
	    cJSON_AddStringToObject(request, "operation", policy_op_name(op)))
		text = cJSON_PrintUnformatted(request);
	cJSON_Delete(request);
	if (!text || asprintf(&line, "%s\n", text) < 0)
		return NULL;
	return line;
}

int control_ask_why(const char *session, const char *path, enum policy_op op,
		    struct explanation *ret)
{
	autofree char *request = why_request(path, op), *answer = NULL;
	cJSON *object;
	int r = request ? converse(session, request, TIMEOUT_MS, &answer)
			: -ENOMEM;

	if (r < 0)
		return r;
	object = cJSON_Parse(answer);
	r = is_ok(object) ? explanation_get(object, ret) : -EPROTO;
	cJSON_Delete(object);
	return r;
}

void control_refusal_release(struct control_refusal *refusal)
{
	free(refusal->why);
	strings_release(&refusal->open);
	strings_release(&refusal->native);
	*refusal = (struct control_refusal){0};
}

static const char *change_name(enum access access)
{
	switch (access) {
	case ACCESS_RW:
		return "allow";
	case ACCESS_RO:
		return "protect";
	case ACCESS_NONE:
		return "hide";
	}
	return "";
}

/* The request as a line. Allocated; NULL: out of memory. */
static char *change_request(const char *path, enum access access)
{
	autofree char *encoded = json_text_encode(path), *text = NULL;
	cJSON *request = cJSON_CreateObject();
	char *line;

	if (encoded &&
	    cJSON_AddStringToObject(request, "op", change_name(access)) &&
	    cJSON_AddStringToObject(request, "path", encoded))
		text = cJSON_PrintUnformatted(request);
	cJSON_Delete(request);
	if (!text || asprintf(&line, "%s\n", text) < 0)
		return NULL;
	return line;
}

static int get_strings(const cJSON *object, const char *key,
		       struct strings *strings)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
	const cJSON *item;

	cJSON_ArrayForEach(item, array)
	{
		const char *text = cJSON_GetStringValue(item);
		char *path = text ? json_text_decode(text) : NULL;

		if (text && (!path || strings_take(strings, path) < 0))
			return -ENOMEM;
	}
	return 0;
}

/* NULL stays NULL. */
static int get_text(const cJSON *object, const char *key, char **ret_text)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));

	*ret_text = text ? strdup(text) : NULL;
	return text && !*ret_text ? -ENOMEM : 0;
}

static int get_refusal(const cJSON *object, struct control_refusal *ret)
{
	struct control_refusal refusal = {0};
	int r = get_text(object, "error", &refusal.why);

	if (r == 0 && !refusal.why)
		r = -EPROTO;
	if (r == 0)
		r = get_strings(object, "open", &refusal.open);
	if (r == 0)
		r = get_strings(object, "native", &refusal.native);
	if (r < 0) {
		control_refusal_release(&refusal);
		return r;
	}
	*ret = refusal;
	return -EBUSY;
}

int control_change(const char *session, const char *path, enum access access,
		   char **ret_warning, struct control_refusal *ret_refusal)
{
	autofree char *request = change_request(path, access), *answer = NULL;
	cJSON *object;
	int r = request ? converse(session, request, CHANGE_TIMEOUT_MS, &answer)
			: -ENOMEM;

	if (r < 0)
		return r;
	object = cJSON_Parse(answer);
	r = is_ok(object) ? get_text(object, "warning", ret_warning)
			  : get_refusal(object, ret_refusal);
	cJSON_Delete(object);
	return r;
}

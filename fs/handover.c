#include "fs/handover.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/gate.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/process.h"
#include "fs/lib/record.h"
#include "fs/lib/wire.h"
#include "fs/log.h"
#include "fs/session.h"

static void cleanup_jsonp(cJSON **json)
{
	cJSON_Delete(*json);
}
#define autojson __attribute__((cleanup(cleanup_jsonp)))

/* What the exchange has brought so far. */
struct handover {
	int sock;
	int dir_fd, lock_fd; /* of the session, see record.h */
	char *record_dir;
	struct session session;
	bool has_session;
	struct record record;	 /* its spec stays empty until it is written */
	struct control *control; /* NULL: nobody can ask */
	pthread_mutex_t saving;	 /* of the record */
};

static int reply_ok(int sock)
{
	return wire_send(sock, "{\"type\":\"ok\"}", NULL, 0);
}

/* Tells the other side what went wrong; hands r on. */
static int reply_error(int sock, int r, const char *what)
{
	autojson cJSON *object = cJSON_CreateObject();
	autofree char *message = NULL;
	autofree char *text = NULL;

	if (asprintf(&message, "%s: %s", what, strerror(-r)) < 0)
		message = NULL;
	cJSON_AddStringToObject(object, "type", "error");
	cJSON_AddStringToObject(object, "message", message ? message : what);
	text = cJSON_PrintUnformatted(object);
	log_line("%s", message ? message : what);
	if (text)
		wire_send(sock, text, NULL, 0);
	return r;
}

/* One message of this type; its descriptors are the caller's. */
static int receive(int sock, const char *type, int *fds, size_t *ret_n_fds,
		   cJSON **ret_message)
{
	autojson cJSON *message = NULL;
	autofree char *text = NULL;
	const char *got;
	int r = wire_receive(sock, &text, fds, WIRE_MAX_FDS, ret_n_fds);

	if (r < 0)
		return r;
	message = cJSON_Parse(text);
	got = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(message, "type"));
	if (!got || strcmp(got, type) != 0) {
		for (size_t i = 0; i < *ret_n_fds; i++)
			close(fds[i]);
		return reply_error(sock, -EPROTO, type);
	}
	*ret_message = steal_pointer(&message);
	return 0;
}

static int take_record_dir(struct handover *handover, const cJSON *message)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(message, "record_dir"));

	if (!text)
		return 0;
	handover->record_dir = json_text_decode(text);
	return handover->record_dir ? 0 : -ENOMEM;
}

/* The spec, the session's directory, its lock, and the roots. */
static int receive_session(struct handover *handover)
{
	autojson cJSON *message = NULL;
	struct session_spec spec;
	int fds[WIRE_MAX_FDS];
	size_t n_fds = 0;
	int r = receive(handover->sock, "session", fds, &n_fds, &message);

	if (r < 0)
		return r;
	if (n_fds < 2)
		return reply_error(handover->sock, -EPROTO, "descriptors");
	handover->dir_fd = fds[0];
	handover->lock_fd = fds[1];
	r = take_record_dir(handover, message);
	if (r == 0)
		r = session_spec_from_cjson(
			cJSON_GetObjectItemCaseSensitive(message, "spec"),
			&spec);
	if (r < 0)
		return reply_error(handover->sock, r, "the session's text");
	if (n_fds - 2 != spec.n_views) {
		session_spec_release(&spec);
		return reply_error(handover->sock, -EPROTO, "roots");
	}
	handover->has_session = true;
	r = session_init(&handover->session, &spec, fds + 2);
	if (r < 0)
		return reply_error(handover->sock, r, "cannot set up a view");
	return reply_ok(handover->sock);
}

static int receive_serve(struct handover *handover)
{
	struct session *session = &handover->session;
	autojson cJSON *message = NULL;
	int fds[WIRE_MAX_FDS];
	size_t n_fds = 0;
	bool handed;
	int r = receive(handover->sock, "serve", fds, &n_fds, &message);

	if (r < 0)
		return r;
	handed =
		cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(message, "fuse"));
	if (n_fds != (handed ? session->spec.n_views : 0))
		return reply_error(handover->sock, -EPROTO, "descriptors");
	r = session_mount(session, handed ? fds : NULL);
	if (r < 0)
		return reply_error(handover->sock, r, "cannot mount");
	r = session_start(session);
	if (r < 0)
		return reply_error(handover->sock, r, "cannot start threads");
	return reply_ok(handover->sock);
}

static int read_commit(const cJSON *message, struct record *record)
{
	const cJSON *devices =
		cJSON_GetObjectItemCaseSensitive(message, "devices");
	const char *command = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(message, "command"));
	const cJSON *device;

	cJSON_ArrayForEach(device, devices)
	{
		if (!cJSON_IsString(device) ||
		    strings_add(&record->devices, device->valuestring) < 0)
			return -EINVAL;
	}
	if (!command)
		return 0;
	record->command = json_text_decode(command);
	return record->command ? 0 : -ENOMEM;
}

/* The watchdog aborts connections by the minor numbers of "MAJOR:MINOR". */
static void watch_devices(const struct handover *handover)
{
	const struct strings *devices = &handover->record.devices;

	for (size_t i = 0; i < devices->n; i++) {
		const char *minor = strchr(devices->s[i], ':');

		if (minor)
			watchdog_add(
				&handover->session.watchdog,
				(unsigned int)strtoul(minor + 1, NULL, 10));
	}
}

/* The record with the session's spec, which stays the session's. */
static struct record whole_record(const struct handover *handover)
{
	struct record record = handover->record;

	record.spec = handover->session.spec;
	return record;
}

/* With the rules as they are now. */
static int save_record(void *data)
{
	struct handover *handover = data;
	struct record whole;
	int r = 0;

	pthread_mutex_lock(&handover->saving);
	gate_enter();
	whole = whole_record(handover);
	if (whole.pid != 0) /* or it will be written when it is whole */
		r = record_write(handover->dir_fd, &whole);
	gate_leave();
	pthread_mutex_unlock(&handover->saving);
	return r;
}

static int write_record(struct handover *handover)
{
	struct record *record = &handover->record;
	int r;

	pthread_mutex_lock(&handover->saving);
	record->since = time(NULL);
	r = process_start_time(getpid(), &record->start_time);
	if (r == 0)
		record->pid = getpid();
	pthread_mutex_unlock(&handover->saving);
	return r < 0 ? r : save_record(handover);
}

/* What doesn't keep a session from starting is said in the answer. */
static int reply_committed(const struct handover *handover)
{
	autojson cJSON *object = cJSON_CreateObject();
	autofree char *warning = NULL, *text = NULL;
	struct record record;
	int r;

	/* The rules in it may change as soon as the gate is open. */
	gate_enter();
	record = whole_record(handover);
	gate_leave();
	r = worktree_lock(&record);

	if (r < 0 && asprintf(&warning,
			      "cannot lock the worktree, so that 'git worktree "
			      "prune' and 'remove' spare it: %s",
			      strerror(-r)) < 0)
		warning = NULL;
	cJSON_AddStringToObject(object, "type", "ok");
	if (warning)
		cJSON_AddStringToObject(object, "warning", warning);
	text = cJSON_PrintUnformatted(object);
	return text ? wire_send(handover->sock, text, NULL, 0) : -ENOMEM;
}

/* The views are worth more than being asked about them. */
static void start_control(struct handover *handover)
{
	int r = control_start(&handover->session, handover->dir_fd, save_record,
			      handover, &handover->control);

	if (r < 0)
		log_line("no control socket: %s", strerror(-r));
}

static int receive_commit(struct handover *handover)
{
	autojson cJSON *message = NULL;
	int fds[WIRE_MAX_FDS];
	size_t n_fds = 0;
	int r = receive(handover->sock, "commit", fds, &n_fds, &message);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	r = read_commit(message, &handover->record);
	if (r == 0) {
		watch_devices(handover);
		/* Whoever finds the record may ask. */
		start_control(handover);
		r = write_record(handover);
	}
	if (r < 0)
		return reply_error(handover->sock, r,
				   "cannot write the session's record");
	return reply_committed(handover);
}

static int set_up(struct handover *handover)
{
	int r = receive_session(handover);

	if (r == 0)
		r = receive_serve(handover);
	if (r == 0)
		r = receive_commit(handover);
	return r;
}

static void serve_until_end(struct handover *handover)
{
	int r;

	cleanup_fdp(&handover->sock);
	handover->sock = -1;
	r = session_wait(&handover->session);
	if (r < 0)
		log_line("cannot wait: %s", strerror(-r));
}

/* Nothing of the session remains for others to find. */
static void withdraw(const struct handover *handover)
{
	autofd int hold = worktree_locks_hold();

	if (handover->has_session) {
		const struct record record = whole_record(handover);
		int r = worktree_unlock(&record);

		if (r < 0)
			log_line("cannot unlock the worktree: %s",
				 strerror(-r));
	}
	record_clear(handover->dir_fd);
	if (handover->record_dir)
		rmdir(handover->record_dir);
}

static void tear_down(struct handover *handover)
{
	control_stop(handover->control);
	if (handover->has_session)
		session_stop(&handover->session);
	if (handover->dir_fd >= 0)
		withdraw(handover);
	if (handover->has_session)
		session_release(&handover->session);
	record_release(&handover->record);
	free(handover->record_dir);
	cleanup_fdp(&handover->dir_fd);
	cleanup_fdp(&handover->lock_fd);
	cleanup_fdp(&handover->sock);
}

int handover_serve(int sock)
{
	struct handover handover = {
		.sock = sock,
		.dir_fd = -1,
		.lock_fd = -1,
		.saving = PTHREAD_MUTEX_INITIALIZER,
	};
	int r;

	record_init(&handover.record);
	r = set_up(&handover);
	if (r == 0)
		serve_until_end(&handover);
	tear_down(&handover);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

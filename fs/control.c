#include "fs/control.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/denials.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/live.h"
#include "fs/requests.h"

#define MAX_CLIENTS 64
#define MAX_LINE 65536	       /* of a request */
#define MAX_UNREAD 65536       /* bytes of answers, before more are given */
#define MAX_BACKLOG (1u << 20) /* bytes that a subscriber hasn't read */
#define MAX_FEED (4u << 20)    /* bytes of denials not yet handed on */
#define SOCKET_NAME "control.sock"

struct client {
	int fd;
	uint64_t id;
	uint64_t heard; /* when last, in the order of all that was heard */
	char *line;	/* of what came so far */
	size_t used;
	char *answers; /* not sent yet */
	size_t n_answers;
	bool waiting;	 /* for a change of the rules; isn't heard meanwhile */
	bool subscribed; /* to denials */
	bool half;	 /* a subscriber that sends no more */
	bool ending;	 /* is closed once the answers are sent */
};

/* A change of the rules that somebody wants, and then its answer. */
struct job {
	struct job *next;
	uint64_t client;
	struct control_request request;
	char *answer;
};

struct jobs {
	struct job *first, **end;
};

struct control {
	struct session *session; /* borrowed */
	control_save *save;
	void *save_data; /* borrowed */
	pthread_t thread, worker;
	int listener;
	int stop; /* eventfd */
	int wake; /* eventfd: there are answers, or denials */
	struct client clients[MAX_CLIENTS];
	size_t n_clients;
	uint64_t last_id, last_heard;

	pthread_mutex_t lock;
	pthread_cond_t work;
	/* protected by lock from here on */
	struct jobs wanted, done;
	bool stopping;
	size_t n_subscribers;
	char *feed; /* lines of denials for them */
	size_t n_feed;
	uint64_t dropped;
};

/* ---- changes, in a thread of their own -------------------------------- */

static void jobs_init(struct jobs *jobs)
{
	jobs->first = NULL;
	jobs->end = &jobs->first;
}

static void jobs_add(struct jobs *jobs, struct job *job)
{
	job->next = NULL;
	*jobs->end = job;
	jobs->end = &job->next;
}

static struct job *jobs_take(struct jobs *jobs)
{
	struct job *job = jobs->first;

	if (job)
		jobs->first = job->next;
	if (!jobs->first)
		jobs->end = &jobs->first;
	return job;
}

static void job_free(struct job *job)
{
	request_release(&job->request);
	free(job->answer);
	free(job);
}

static void jobs_release(struct jobs *jobs)
{
	struct job *job;

	while ((job = jobs_take(jobs)))
		job_free(job);
}

static void wake(struct control *control)
{
	uint64_t one = 1;

	/* It fails only where it has been written very often: it is awake. */
	if (write(control->wake, &one, sizeof(one)) < 0)
		return;
}

static void do_job(struct control *control, struct job *job)
{
	const struct live_change change = {job->request.path,
					   job->request.access};
	struct live_refusal refusal = {0};
	const char *warning = NULL;
	int r = live_change(control->session, &change, &refusal);

	if (r == 0 && control->save(control->save_data) < 0)
		warning = "the rule holds, but the session's record couldn't "
			  "be written";
	job->answer = request_changed(control->session, r, &refusal, warning);
	live_refusal_release(&refusal);
}

static void *work_loop(void *arg)
{
	struct control *control = arg;
	struct job *job;

	pthread_mutex_lock(&control->lock);
	for (;;) {
		while (!control->wanted.first && !control->stopping)
			pthread_cond_wait(&control->work, &control->lock);
		if (control->stopping)
			break;
		job = jobs_take(&control->wanted);
		pthread_mutex_unlock(&control->lock);
		do_job(control, job);
		pthread_mutex_lock(&control->lock);
		jobs_add(&control->done, job);
		wake(control);
	}
	pthread_mutex_unlock(&control->lock);
	return NULL;
}

/* Takes the request over. 0 or -ENOMEM. */
static int start_job(struct control *control, struct client *client,
		     struct control_request *request)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->client = client->id;
	job->request = *request;
	*request = (struct control_request){0};
	client->waiting = true;
	pthread_mutex_lock(&control->lock);
	jobs_add(&control->wanted, job);
	pthread_cond_signal(&control->work);
	pthread_mutex_unlock(&control->lock);
	return 0;
}

/* ---- denials, for those who subscribe --------------------------------- */

/* Called by the log's thread, and so never waits for a client. */
static void feed(const char *line, void *data)
{
	struct control *control = data;
	size_t size = strlen(line);
	char *grown = NULL;

	pthread_mutex_lock(&control->lock);
	if (control->n_subscribers > 0) {
		if (control->n_feed + size <= MAX_FEED)
			grown = realloc(control->feed, control->n_feed + size);
		if (grown) {
			memcpy(grown + control->n_feed, line, size);
			control->feed = grown;
			control->n_feed += size;
		} else {
			control->dropped++;
		}
		wake(control);
	}
	pthread_mutex_unlock(&control->lock);
}

static void subscribe(struct control *control, struct client *client, bool on)
{
	if (client->subscribed == on)
		return;
	client->subscribed = on;
	pthread_mutex_lock(&control->lock);
	control->n_subscribers += on ? 1 : (size_t)-1;
	pthread_mutex_unlock(&control->lock);
}

/* ---- clients ---------------------------------------------------------- */

static int queue_bytes(struct client *client, const char *bytes, size_t size)
{
	char *grown = realloc(client->answers, client->n_answers + size);

	if (!grown)
		return -ENOMEM;
	memcpy(grown + client->n_answers, bytes, size);
	client->answers = grown;
	client->n_answers += size;
	return 0;
}

/* Takes text over; NULL is -ENOMEM. */
static int queue_line(struct client *client, char *text)
{
	autofree char *owned = text;
	int r = text ? queue_bytes(client, text, strlen(text)) : -ENOMEM;

	return r < 0 ? r : queue_bytes(client, "\n", 1);
}

static int answer_line(struct control *control, struct client *client,
		       const char *line)
{
	struct control_request request;
	int r = -EINVAL;

	request_read(control->session, line, &request);
	switch (request.kind) {
	case REQUEST_CHANGE:
		r = start_job(control, client, &request);
		break;
	case REQUEST_SUBSCRIBE:
		subscribe(control, client, true);
		r = queue_line(client, steal_pointer(&request.answer));
		break;
	case REQUEST_ANSWERED:
		r = queue_line(client, steal_pointer(&request.answer));
		break;
	}
	request_release(&request);
	return r;
}

/* Answers each whole line that has come, as far as it needn't wait: for a
 * change, or for the client to read. */
static int answer_lines(struct control *control, struct client *client)
{
	char *line = client->line, *end = line;
	int r = 0;

	while (r == 0 && !client->waiting && client->n_answers < MAX_UNREAD &&
	       (end = memchr(line, '\n',
			     client->used - (size_t)(line - client->line)))) {
		*end = '\0';
		r = answer_line(control, client, line);
		line = end + 1;
	}
	client->used -= (size_t)(line - client->line);
	memmove(client->line, line, client->used);
	if (r == 0 && !end && client->used == MAX_LINE) {
		client->ending = true;
		r = queue_line(client, request_error("line too long"));
	}
	return r;
}

/*
 * May this process ask? Its mount namespace is looked up by its pid; one that
 * has gone, and whose pid might be another's, doesn't wait for an answer.
 */
static bool may_ask(const struct ucred *peer)
{
	char path[64];
	struct stat theirs, ours;

	if (peer->uid != geteuid() && peer->uid != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", peer->pid);
	return stat(path, &theirs) == 0 &&
	       stat("/proc/self/ns/mnt", &ours) == 0 &&
	       theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

/*
 * Whoever connected may have handed the descriptor on, or may be elsewhere by
 * now: the kernel tells who has sent (unix(7), SO_PASSCRED). Descriptors that
 * are sent along find no room, and are closed.
 */
static ssize_t receive(const struct client *client)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {
		.iov_base = client->line + client->used,
		.iov_len = MAX_LINE - client->used,
	};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct ucred sender;

	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	if (!header || header->cmsg_level != SOL_SOCKET ||
	    header->cmsg_type != SCM_CREDENTIALS)
		return -EPERM;
	memcpy(&sender, CMSG_DATA(header), sizeof(sender));
	return may_ask(&sender) ? n : -EPERM;
}

/* 0, or -errno when the client is to be closed. */
static int read_client(struct control *control, struct client *client)
{
	ssize_t n = receive(client);

	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? 0 : (int)n;
	client->half = n == 0;
	if (n == 0)
		return client->subscribed ? 0 : -ECONNRESET;
	client->heard = ++control->last_heard;
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

static void close_client(struct control *control, struct client *client)
{
	subscribe(control, client, false);
	close(client->fd);
	free(client->line);
	free(client->answers);
	*client = control->clients[--control->n_clients];
}

static struct client *find_client(struct control *control, uint64_t id)
{
	for (size_t i = 0; i < control->n_clients; i++)
		if (control->clients[i].id == id)
			return &control->clients[i];
	return NULL;
}

/* The answer to a change; whoever asked may be gone. */
static void deliver_answer(struct control *control, struct job *job)
{
	struct client *client = find_client(control, job->client);

	if (client) {
		client->waiting = false;
		if (queue_line(client, steal_pointer(&job->answer)) < 0 ||
		    answer_lines(control, client) < 0)
			close_client(control, client);
	}
	job_free(job);
}

static void deliver_answers(struct control *control)
{
	struct job *job;

	do {
		pthread_mutex_lock(&control->lock);
		job = jobs_take(&control->done);
		pthread_mutex_unlock(&control->lock);
		if (job)
			deliver_answer(control, job);
	} while (job);
}

/* Who doesn't read what it has asked for is cut off. */
static void deliver_denials(struct control *control)
{
	autofree char *lines = NULL, *dropped = NULL;
	uint64_t n_dropped;
	size_t size;

	pthread_mutex_lock(&control->lock);
	lines = steal_pointer(&control->feed);
	size = control->n_feed;
	n_dropped = control->dropped;
	control->n_feed = 0;
	control->dropped = 0;
	pthread_mutex_unlock(&control->lock);
	if (n_dropped)
		dropped = request_dropped(control->session, n_dropped);
	for (size_t i = control->n_clients; i-- > 0;) {
		struct client *client = &control->clients[i];
		int r = 0;

		if (!client->subscribed)
			continue;
		if (size > 0)
			r = queue_bytes(client, lines, size);
		if (r == 0 && dropped)
			r = queue_line(client, strdup(dropped));
		if (r < 0 || client->n_answers > MAX_BACKLOG)
			close_client(control, client);
	}
}

/* Who has been silent for longest goes; those who wait for us last. */
static void make_room(struct control *control)
{
	struct client *silent = &control->clients[0];

	for (size_t i = 1; i < control->n_clients; i++) {
		struct client *client = &control->clients[i];
		bool busy = client->waiting || client->subscribed;
		bool silent_busy = silent->waiting || silent->subscribed;

		if (busy != silent_busy ? silent_busy
					: client->heard < silent->heard)
			silent = client;
	}
	close_client(control, silent);
}

static void accept_client(struct control *control)
{
	autofd int fd = accept4(control->listener, NULL, NULL,
				SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t length = sizeof(peer);
	char *line;

	if (fd < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
	    !may_ask(&peer))
		return;
	line = malloc(MAX_LINE);
	if (!line)
		return;
	if (control->n_clients == MAX_CLIENTS)
		make_room(control);
	control->clients[control->n_clients++] = (struct client){
		.fd = take_fd(&fd),
		.id = ++control->last_id,
		.heard = ++control->last_heard,
		.line = line,
	};
}

static void serve_clients(struct control *control, const struct pollfd *fds)
{
	/* From the last, so that removing one leaves those to come in place. */
	for (size_t i = control->n_clients; i-- > 0;) {
		struct client *client = &control->clients[i];
		int r = 0;

		if (client->waiting || client->half)
			r = fds[i].revents & (POLLHUP | POLLERR) ? -ECONNRESET
								 : 0;
		else if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
			r = read_client(control, client);
		if (r == 0 && client->n_answers > 0)
			r = write_client(client);
		if (r == 0 && client->n_answers == 0 && !client->ending)
			r = answer_lines(control, client);
		if (r < 0)
			close_client(control, client);
	}
}

static short events_of(const struct client *client)
{
	/* Who doesn't read isn't heard. */
	if (client->n_answers)
		return POLLOUT;
	return client->waiting || client->half ? 0 : POLLIN;
}

/* What other threads have brought. */
static void take_deliveries(struct control *control)
{
	uint64_t n;

	if (read(control->wake, &n, sizeof(n)) != sizeof(n))
		return;
	deliver_answers(control);
	deliver_denials(control);
}

static void *control_loop(void *arg)
{
	struct control *control = arg;
	struct pollfd fds[MAX_CLIENTS + 3];

	for (;;) {
		size_t n = control->n_clients;

		for (size_t i = 0; i < n; i++) {
			const struct client *client = &control->clients[i];

			fds[i] = (struct pollfd){
				.fd = client->fd,
				.events = events_of(client),
			};
		}
		fds[n] = (struct pollfd){control->listener, POLLIN, 0};
		fds[n + 1] = (struct pollfd){control->stop, POLLIN, 0};
		fds[n + 2] = (struct pollfd){control->wake, POLLIN, 0};
		if (poll(fds, n + 3, -1) < 0)
			continue;
		if (fds[n + 1].revents)
			return NULL;
		serve_clients(control, fds);
		if (fds[n + 2].revents)
			take_deliveries(control);
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
	int on = 1;

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s",
		 fd_path(dir_fd).text, SOCKET_NAME);
	unlinkat(dir_fd, SOCKET_NAME, 0);
	/* Those that are accepted inherit it. */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -errno;
	/* umask is 0 here, and the directory is the user's alone. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 16) < 0)
		return -errno;
	return take_fd(&fd);
}

static void control_free(struct control *control)
{
	jobs_release(&control->wanted);
	jobs_release(&control->done);
	free(control->feed);
	cleanup_fdp(&control->listener);
	cleanup_fdp(&control->stop);
	cleanup_fdp(&control->wake);
	pthread_mutex_destroy(&control->lock);
	pthread_cond_destroy(&control->work);
	free(control);
}

static void stop_worker(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	control->stopping = true;
	pthread_cond_signal(&control->work);
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->worker, NULL);
}

static int start_threads(struct control *control)
{
	int r = pthread_create(&control->worker, NULL, work_loop, control);

	if (r != 0)
		return -r;
	r = pthread_create(&control->thread, NULL, control_loop, control);
	if (r != 0)
		stop_worker(control);
	return -r;
}

int control_start(struct session *session, int dir_fd, control_save *save,
		  void *save_data, struct control **ret_control)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->session = session;
	control->save = save;
	control->save_data = save_data;
	jobs_init(&control->wanted);
	jobs_init(&control->done);
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->work, NULL);
	control->listener = listen_in(dir_fd);
	control->stop = eventfd(0, EFD_CLOEXEC);
	control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = control->listener < 0		     ? control->listener
	    : control->stop < 0 || control->wake < 0 ? -EMFILE
						     : start_threads(control);
	if (r < 0) {
		control_free(control);
		return r;
	}
	denials_tell(feed, control);
	*ret_control = control;
	return 0;
}

void control_stop(struct control *control)
{
	uint64_t one = 1;

	if (!control)
		return;
	denials_tell(NULL, NULL);
	if (write(control->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(control->thread, NULL);
	stop_worker(control);
	while (control->n_clients > 0)
		close_client(control, &control->clients[0]);
	control_free(control);
}

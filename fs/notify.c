#include "fs/notify.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fs/view.h"

struct message {
	struct message *next;
	struct view *view; /* borrowed: views outlive the thread */
	uint64_t nodeid;
	off_t offset;
	fuse_req_t req;		/* to be answered afterwards; or NULL */
	struct stat attributes; /* the answer, where it has a time-out */
	double timeout;		/* seconds; negative: success is all */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	/* protected by lock */
	struct message *first, **end;
	bool running, stopping;
} queue = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake = PTHREAD_COND_INITIALIZER,
	.end = &queue.first,
};

static void message_free(struct message *message)
{
	if (message && message->req) {
		if (message->timeout < 0)
			fuse_reply_err(message->req, 0);
		else
			fuse_reply_attr(message->req, &message->attributes,
					message->timeout);
	}
	free(message);
}

static struct message *next_message(void)
{
	struct message *message;

	pthread_mutex_lock(&queue.lock);
	while (!queue.first && !queue.stopping)
		pthread_cond_wait(&queue.wake, &queue.lock);
	message = queue.first;
	if (message) {
		queue.first = message->next;
		if (!queue.first)
			queue.end = &queue.first;
	}
	if (queue.stopping) {
		message_free(message);
		message = NULL;
	}
	pthread_mutex_unlock(&queue.lock);
	return message;
}

static void *deliver(void *arg)
{
	struct message *message;

	while ((message = next_message())) {
		fuse_lowlevel_notify_inval_inode(message->view->fuse,
						 message->nodeid,
						 message->offset, 0);
		message_free(message);
	}
	return arg;
}

int notify_start(void)
{
	int r = pthread_create(&queue.thread, NULL, deliver, NULL);

	if (r == 0)
		queue.running = true;
	return -r;
}

void notify_stop(void)
{
	if (!queue.running)
		return;
	pthread_mutex_lock(&queue.lock);
	queue.stopping = true;
	pthread_cond_signal(&queue.wake);
	pthread_mutex_unlock(&queue.lock);
	pthread_join(queue.thread, NULL);
	while (queue.first) {
		struct message *message = queue.first;

		queue.first = message->next;
		message_free(message);
	}
	queue.end = &queue.first;
	queue.running = queue.stopping = false;
}

static bool add_message(const struct message *given)
{
	struct message *message = malloc(sizeof(*message));

	if (!message)
		return false;
	*message = *given;
	pthread_mutex_lock(&queue.lock);
	*queue.end = message;
	queue.end = &message->next;
	pthread_cond_signal(&queue.wake);
	pthread_mutex_unlock(&queue.lock);
	return true;
}

/* Without memory the kernel's own time-out has to do. */
void notify_inode(struct view *view, uint64_t nodeid, off_t offset)
{
	const struct message message = {
		.view = view,
		.nodeid = nodeid,
		.offset = offset,
	};

	add_message(&message);
}

void notify_inode_and_reply(struct view *view, uint64_t nodeid, fuse_req_t req)
{
	const struct message message = {
		.view = view,
		.nodeid = nodeid,
		.req = req,
		.timeout = -1,
	};

	if (!add_message(&message))
		fuse_reply_err(req, 0);
}

void notify_inode_and_reply_attributes(struct view *view, uint64_t nodeid,
				       fuse_req_t req, const struct stat *st,
				       double timeout)
{
	const struct message message = {
		.view = view,
		.nodeid = nodeid,
		.req = req,
		.attributes = *st,
		.timeout = timeout,
	};

	if (!add_message(&message))
		fuse_reply_err(req, ENOMEM);
}

int notify_inode_now(struct view *view, uint64_t nodeid, bool data)
{
	int r = fuse_lowlevel_notify_inval_inode(view->fuse, nodeid,
						 data ? 0 : -1, 0);

	return r == -ENOENT ? 0 : r;
}

int notify_name_now(struct view *view, uint64_t parent, const char *name)
{
	int r = fuse_lowlevel_notify_expire_entry(view->fuse, parent, name,
						  strlen(name));

	return r == -ENOENT ? 0 : r;
}

int notify_names(struct view *view)
{
	if (view->n_pins > 0)
		return -EBUSY;
	return fuse_lowlevel_notify_increment_epoch(view->fuse);
}

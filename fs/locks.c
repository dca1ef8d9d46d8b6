#include "fs/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/fileio.h"
#include "fs/notify.h"
#include "fs/ops.h"

/* Of a waiting thread: how soon it notices what a signal came too early for. */
#define TICK_NANOSECONDS 50000000
#define WAKE_SIGNAL SIGUSR1
#define WAITER_STACK 65536
/*
 * The kernel tells of a closed file after close(2) has returned. A lock that
 * is refused may be one that is being given up: these are tries and pauses.
 */
#define RELEASE_TRIES 4
#define RELEASE_PAUSE 1000000

struct range {
	struct range *next;
	off_t start, end; /* the last byte, included */
	short type;
	pid_t pid;
};

/* What one owner has locked of an inode. */
struct lock_owner {
	struct lock_owner *next; /* of the inode */
	uint64_t id;
	int fd;
	struct file *via; /* the file it last locked through; not followed */
	struct range *ranges; /* to name the holder by */
	unsigned int refs;    /* the list's, and those of requests */
	bool dropped;
};

/* A request for a lock, which may have to wait. */
struct waiter {
	struct view *view;
	fuse_req_t req;
	struct lock_owner *owner; /* referenced; NULL for flock(2) */
	struct file *file;	  /* referenced */
	int operation;		  /* of flock(2) */
	struct flock lock;
	bool first; /* it has none of this inode yet */
	pthread_t thread;
	bool interrupted;
};

static struct {
	/* Protects all owners, ranges and waiters; held for no system call
	 * that waits. */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	size_t n_waiting;
	bool stopping;
} locks = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
};

static off_t last_byte(const struct flock *lock)
{
	return lock->l_len == 0 ? INT64_MAX : lock->l_start + lock->l_len - 1;
}

static void free_ranges(struct range *range)
{
	while (range) {
		struct range *next = range->next;

		free(range);
		range = next;
	}
}

static void add_range(struct lock_owner *owner, off_t start, off_t end,
		      short type, pid_t pid)
{
	struct range *range = malloc(sizeof(*range));

	if (!range || start > end) {
		free(range); /* then the holder can't be named: no more */
		return;
	}
	*range = (struct range){owner->ranges, start, end, type, pid};
	owner->ranges = range;
}

/* What was locked or unlocked replaces what the owner had there. */
static void note_lock(struct lock_owner *owner, const struct flock *lock)
{
	off_t start = lock->l_start, end = last_byte(lock);
	struct range *old = owner->ranges;

	owner->ranges = NULL;
	for (struct range *range = old; range; range = range->next) {
		off_t before = range->end < start ? range->end : start - 1;
		off_t after = range->start;

		if (range->start <= end && end != INT64_MAX)
			after = end + 1;

		add_range(owner, range->start, before, range->type, range->pid);
		if (end != INT64_MAX && range->end > end)
			add_range(owner, after, range->end, range->type,
				  range->pid);
	}
	free_ranges(old);
	if (lock->l_type != F_UNLCK)
		add_range(owner, start, end, lock->l_type, lock->l_pid);
}

static void owner_unref(struct lock_owner *owner)
{
	if (--owner->refs > 0)
		return;
	close(owner->fd);
	free_ranges(owner->ranges);
	free(owner);
}

/* Closes the owner's descriptor, which drops its locks, or has the request
 * that is using it do so. */
static void owner_drop(struct lock_owner **at)
{
	struct lock_owner *owner = *at;

	*at = owner->next;
	owner->dropped = true;
	owner_unref(owner);
}

void locks_drop_owner(struct inode *inode, uint64_t owner)
{
	struct lock_owner **at = &inode->lock_owners;

	pthread_mutex_lock(&locks.lock);
	while (*at && (*at)->id != owner)
		at = &(*at)->next;
	if (*at)
		owner_drop(at);
	pthread_mutex_unlock(&locks.lock);
}

void locks_drop_file(struct file *file)
{
	struct lock_owner **at = &file->inode->lock_owners;

	pthread_mutex_lock(&locks.lock);
	while (*at) {
		if ((*at)->via == file)
			owner_drop(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&locks.lock);
}

/*
 * Opens the file once more: a lock for writing wants a descriptor that can
 * write, whatever the owner's first lock is for.
 */
static int open_for_owner(const struct file *file)
{
	struct fd_path path = fd_path(file->fd);
	int fd = -1;

	if (place_access(file->inode->place) == ACCESS_RW)
		fd = open(path.text, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = open(path.text,
			  (file->flags & O_ACCMODE) | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Finds or makes what id has on the file's inode. Referenced. */
static int owner_get(struct file *file, uint64_t id,
		     struct lock_owner **ret_owner)
{
	struct lock_owner *owner = file->inode->lock_owners;

	while (owner && owner->id != id)
		owner = owner->next;
	if (!owner) {
		int fd = open_for_owner(file);

		if (fd < 0)
			return fd;
		owner = calloc(1, sizeof(*owner));
		if (!owner) {
			close(fd);
			return -ENOMEM;
		}
		owner->id = id;
		owner->fd = fd;
		owner->refs = 1;
		owner->next = file->inode->lock_owners;
		file->inode->lock_owners = owner;
	}
	owner->via = file;
	owner->refs++;
	*ret_owner = owner;
	return 0;
}

static void owner_put(struct lock_owner *owner)
{
	pthread_mutex_lock(&locks.lock);
	owner_unref(owner);
	pthread_mutex_unlock(&locks.lock);
}

/* command: F_OFD_SETLK or F_OFD_SETLKW. 0 or -errno. */
static int set_record(struct lock_owner *owner, const struct flock *wanted,
		      int command)
{
	struct flock lock = *wanted;

	lock.l_pid = 0; /* as these commands want it */
	if (fcntl(owner->fd, command, &lock) < 0)
		return errno == EACCES ? -EAGAIN : -errno;
	pthread_mutex_lock(&locks.lock);
	if (!owner->dropped)
		note_lock(owner, wanted);
	pthread_mutex_unlock(&locks.lock);
	return 0;
}

static int set_flock(const struct file *file, int operation)
{
	return flock(file->fd, operation) < 0 ? -errno : 0;
}

static void ignore(int signal)
{
}

/* Has the thread's system calls end now and then, see TICK_NANOSECONDS. */
static bool start_ticking(timer_t *ret_timer)
{
	struct sigaction action = {.sa_handler = ignore};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = WAKE_SIGNAL,
		._sigev_un._tid = (pid_t)syscall(SYS_gettid),
	};
	struct itimerspec tick = {
		.it_interval = {.tv_nsec = TICK_NANOSECONDS},
		.it_value = {.tv_nsec = TICK_NANOSECONDS},
	};
	sigset_t set;

	sigaction(WAKE_SIGNAL, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, ret_timer) < 0)
		return false;
	return timer_settime(*ret_timer, 0, &tick, NULL) == 0;
}

static bool is_interrupted(struct waiter *waiter)
{
	bool interrupted;

	pthread_mutex_lock(&locks.lock);
	interrupted = waiter->interrupted || locks.stopping;
	pthread_mutex_unlock(&locks.lock);
	return interrupted;
}

static int wait_for_lock(struct waiter *waiter)
{
	timer_t timer;
	int r = -EINTR;

	if (!start_ticking(&timer))
		return -ENOLCK;
	while (r == -EINTR && !is_interrupted(waiter)) {
		if (waiter->owner)
			r = set_record(waiter->owner, &waiter->lock,
				       F_OFD_SETLKW);
		else
			r = set_flock(waiter->file, waiter->operation);
	}
	timer_delete(timer);
	return r;
}

/* Called by libfuse, from the thread that hears of it. */
static void interrupt(fuse_req_t req, void *data)
{
	struct waiter *waiter = data;

	pthread_mutex_lock(&locks.lock);
	waiter->interrupted = true;
	pthread_kill(waiter->thread, WAKE_SIGNAL);
	pthread_mutex_unlock(&locks.lock);
}

static void waiter_free(struct waiter *waiter)
{
	if (waiter->owner)
		owner_put(waiter->owner);
	file_unref(waiter->file);
	free(waiter);
}

/*
 * Who gets a lock wants to see what others have written under theirs, as if he
 * had opened the file anew; so does the kernel, which may have old pages.
 */
static bool brings_news(const struct waiter *waiter)
{
	struct inode *inode = waiter->file->inode;
	bool unlocks = waiter->owner ? waiter->lock.l_type == F_UNLCK
				     : (waiter->operation & LOCK_UN);
	struct statx stx;

	if (unlocks || !waiter->first || waiter->file->passed_through)
		return false;
	return statx(waiter->file->fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) <
		       0 ||
	       !inode_data_is_known(inode, &stx);
}

static void reply_lock(const struct waiter *waiter, int r)
{
	if (r == 0 && !waiter->owner)
		__atomic_store_n(&waiter->file->locked, true, __ATOMIC_RELAXED);
	if (r == 0 && brings_news(waiter))
		notify_inode_and_reply(
			waiter->view, waiter->file->inode->nodeid, waiter->req);
	else
		fuse_reply_err(waiter->req, -r);
}

static void *waiter_thread(void *arg)
{
	struct waiter *waiter = arg;
	int r;

	waiter->thread = pthread_self();
	fuse_req_interrupt_func(waiter->req, interrupt, waiter);
	r = wait_for_lock(waiter);
	/* Returns only when no interrupt is on its way any more. */
	fuse_req_interrupt_func(waiter->req, NULL, NULL);
	reply_lock(waiter, r);
	waiter_free(waiter);
	pthread_mutex_lock(&locks.lock);
	locks.n_waiting--;
	pthread_cond_broadcast(&locks.ended);
	pthread_mutex_unlock(&locks.lock);
	return NULL;
}

void locks_stop(void)
{
	pthread_mutex_lock(&locks.lock);
	locks.stopping = true;
	while (locks.n_waiting > 0)
		pthread_cond_wait(&locks.ended, &locks.lock);
	pthread_mutex_unlock(&locks.lock);
}

/* Gives the request a thread; it is answered there. 0 or -errno. */
static int start_waiting(const struct waiter *given)
{
	struct waiter *waiter = malloc(sizeof(*waiter));
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!waiter)
		return -ENOLCK;
	*waiter = *given;
	file_ref(waiter->file);
	pthread_mutex_lock(&locks.lock);
	if (waiter->owner)
		waiter->owner->refs++;
	locks.n_waiting++;
	pthread_mutex_unlock(&locks.lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, WAITER_STACK);
	r = pthread_create(&thread, &attr, waiter_thread, waiter);
	pthread_attr_destroy(&attr);
	if (r == 0)
		return 0;
	waiter_free(waiter);
	pthread_mutex_lock(&locks.lock);
	locks.n_waiting--;
	pthread_mutex_unlock(&locks.lock);
	return -ENOLCK;
}

/* One try without waiting. */
static int try_lock(const struct waiter *wanted)
{
	if (wanted->owner)
		return set_record(wanted->owner, &wanted->lock, F_OFD_SETLK);
	return set_flock(wanted->file, wanted->operation | LOCK_NB);
}

/*
 * Takes or gives up the lock, and replies; or leaves that to a waiting thread.
 */
static void lock_or_wait(const struct waiter *wanted, bool wait)
{
	const struct timespec pause = {.tv_nsec = RELEASE_PAUSE};
	int r = try_lock(wanted);

	if (r == -EAGAIN && wait && start_waiting(wanted) == 0)
		return;
	for (int i = 1; r == -EAGAIN && i < RELEASE_TRIES; i++) {
		nanosleep(&pause, NULL);
		r = try_lock(wanted);
	}
	if (r == -EAGAIN && wait)
		r = -ENOLCK; /* there was no thread to wait with */
	reply_lock(wanted, r);
}

void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      struct flock *lock, int sleep)
{
	struct waiter wanted = {
		.req = req,
		.file = (struct file *)(uintptr_t)fi->fh,
		.lock = *lock,
	};
	int r;

	wanted.view = op_begin(req, REQUEST_setlk);
	if (!wanted.view)
		return;
	pthread_mutex_lock(&locks.lock);
	r = owner_get(wanted.file, fi->lock_owner, &wanted.owner);
	if (r == 0)
		wanted.first = !wanted.owner->ranges;
	pthread_mutex_unlock(&locks.lock);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	lock_or_wait(&wanted, sleep);
	owner_put(wanted.owner);
}

void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      int operation)
{
	struct waiter wanted = {
		.req = req,
		.file = (struct file *)(uintptr_t)fi->fh,
		.operation = operation & ~LOCK_NB,
		.first = true,
	};

	wanted.view = op_begin(req, REQUEST_flock);
	if (wanted.view)
		lock_or_wait(&wanted, !(operation & LOCK_NB));
}

/* Who of ours holds what is in the way? 0 if none of ours does. */
static pid_t find_holder(const struct inode *inode, uint64_t asking,
			 const struct flock *lock)
{
	for (const struct lock_owner *owner = inode->lock_owners; owner;
	     owner = owner->next) {
		if (owner->id == asking)
			continue;
		for (const struct range *range = owner->ranges; range;
		     range = range->next)
			if (range->type == lock->l_type &&
			    range->start <= last_byte(lock) &&
			    range->end >= lock->l_start)
				return range->pid;
	}
	return 0;
}

/* What is in the way and stays there, see RELEASE_TRIES. 0 or -errno. */
static int get_record(const struct lock_owner *owner, struct flock *lock)
{
	const struct timespec pause = {.tv_nsec = RELEASE_PAUSE};
	struct flock found;

	for (int i = 0; i < RELEASE_TRIES; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		found = *lock;
		found.l_pid = 0; /* as the command wants it */
		if (fcntl(owner->fd, F_OFD_GETLK, &found) < 0)
			return -errno;
		if (found.l_type == F_UNLCK)
			break;
	}
	*lock = found;
	return 0;
}

static int do_getlk(struct file *file, uint64_t asking, struct flock *lock)
{
	struct lock_owner *owner;
	int r;

	pthread_mutex_lock(&locks.lock);
	r = owner_get(file, asking, &owner);
	pthread_mutex_unlock(&locks.lock);
	if (r < 0)
		return r;
	r = get_record(owner, lock);
	pthread_mutex_lock(&locks.lock);
	/* The kernel names no holder of such a lock: -1. */
	if (r == 0 && lock->l_type != F_UNLCK && lock->l_pid <= 0)
		lock->l_pid = find_holder(file->inode, asking, lock);
	owner_unref(owner);
	pthread_mutex_unlock(&locks.lock);
	return r;
}

void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	      struct flock *lock)
{
	int r;

	if (!op_begin(req, REQUEST_getlk))
		return;
	r = do_getlk((struct file *)(uintptr_t)fi->fh, fi->lock_owner, lock);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_lock(req, lock);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct file *file = (struct file *)(uintptr_t)fi->fh;

	if (!op_begin(req, REQUEST_flush))
		return;
	locks_drop_owner(file->inode, fi->lock_owner);
	fuse_reply_err(req, 0);
}

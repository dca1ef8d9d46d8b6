#include "fs/denials.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/log.h"

#define LOG_NAME "denials.jsonl"
#define OLD_LOG_NAME "denials.jsonl.1"
#define N_BUCKETS 1024
#define MAX_LINES 2048 /* waiting for their second to end */
#define MAX_TALLY 256  /* names counted of each kind */
#define WINDOW 1000    /* milliseconds */

/* A line to be. */
struct line {
	struct line *next;     /* in its bucket */
	struct timespec first; /* CLOCK_REALTIME */
	int64_t opened;	       /* milliseconds of CLOCK_MONOTONIC */
	pid_t pid;	       /* of the process, not of its thread */
	enum policy_op op;
	char *path, *comm, *exe, *what;
	char *rule; /* its path: the policy may be gone by then */
	enum access access;
	enum origin origin;
	int error;
	uint64_t count;
};

struct tally {
	struct denial_count counts[MAX_TALLY];
	size_t n;
};

/* The log as the thread has it open. */
struct log_file {
	int fd;	       /* or -1 */
	uint64_t lost; /* denials that it had no room for */
};

static struct {
	/* Constant while the thread runs. */
	const struct session_spec *spec;
	int dir_fd; /* the state directory, or -1 */
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* protected by lock from here on */
	struct line *buckets[N_BUCKETS];
	size_t n_lines;
	uint64_t dropped;
	struct tally programs, paths;
	bool running, stopping, reopen;
} denials = {
	.dir_fd = -1,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake = PTHREAD_COND_INITIALIZER,
};

/* Who is told of each line. */
static struct {
	pthread_mutex_t lock;
	/* protected by lock */
	void (*tell)(const char *line, void *data);
	void *data;
} listener = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static size_t bucket_of(pid_t pid, enum policy_op op, const char *path)
{
	uint64_t hash = 14695981039346656037ULL + (uint64_t)pid * 31 + op;

	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 1099511628211ULL;
	return (size_t)(hash ^ hash >> 32) % N_BUCKETS;
}

/*
 * Reads the start of a file of /proc/PID. One open, read and close: it is in
 * the way of the request, and system calls are what it costs. How many bytes
 * there are before the NUL that is added, or -1.
 */
static ssize_t read_start(pid_t pid, const char *name, char *buf, size_t size)
{
	autofd int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/*
 * The process's name. A thread has a name of its own, which is not what people
 * see in a list of processes.
 */
static char *process_name(pid_t pid)
{
	char name[64];

	if (read_start(pid, "comm", name, sizeof(name)) < 0)
		return NULL;
	name[strcspn(name, "\n")] = '\0';
	return strdup(name);
}

/*
 * The process, its name, and its program; NULL for one that has gone. The
 * kernel names the thread that asks, and its process is meant (proc(5), status:
 * the field Tgid).
 */
static void look_up_process(struct line *line)
{
	const char *field;
	char buf[512], path[64];
	int pid;

	if (line->pid <= 0 ||
	    read_start(line->pid, "status", buf, sizeof(buf)) < 0)
		return;
	field = strstr(buf, "\nTgid:");
	if (field && sscanf(field, "\nTgid: %d", &pid) == 1)
		line->pid = pid;
	line->comm = process_name(line->pid);
	snprintf(path, sizeof(path), "/proc/%d/exe", line->pid);
	if (read_link_at(AT_FDCWD, path, &line->exe) < 0)
		line->exe = NULL;
}

/* The first word of git's arguments that isn't an option of git itself. */
static const char *git_command(const char *args, size_t size)
{
	const char *arg = args, *end = args + size;
	bool is_value = true; /* so is argv[0], in a way */

	for (; arg < end; arg += strlen(arg) + 1) {
		if (!is_value && arg[0] != '-')
			return arg;
		is_value = !is_value &&
			   (strcmp(arg, "-C") == 0 || strcmp(arg, "-c") == 0 ||
			    strcmp(arg, "--git-dir") == 0 ||
			    strcmp(arg, "--work-tree") == 0);
	}
	return "";
}

/* Is it one of git's commands that go on without the index's lock? */
static bool asks_for_optional_lock(pid_t pid)
{
	static const char *const commands[] = {"status", "diff", "describe"};
	char args[4096];
	const char *command;
	ssize_t n = read_start(pid, "cmdline", args, sizeof(args));

	if (n < 0)
		return false;
	command = git_command(args, (size_t)n);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i], command) == 0)
			return true;
	return false;
}

/*
 * `git status` in the main checkout, or in another worktree, would like to
 * write back what it has learnt about that index, and doesn't mind if it can't:
 * git calls these locks optional (git(1), GIT_OPTIONAL_LOCKS). Such a refusal
 * is nobody's mistake, so it is counted and not logged.
 */
static bool is_optional_lock(const struct line *line)
{
	const struct session_spec *spec = denials.spec;
	const char *rest;

	if (line->op != OP_CREATE || !spec->git_dir || !line->comm ||
	    strcmp(line->comm, "git") != 0 ||
	    strcmp(path_basename(line->path), "index.lock") != 0 ||
	    !path_starts_with(line->path, spec->git_dir, &rest))
		return false;
	if (strchr(rest, '/') && strncmp(rest, "worktrees/", 10) != 0)
		return false;
	return asks_for_optional_lock(line->pid);
}

static void line_free(struct line *line)
{
	free(line->path);
	free(line->comm);
	free(line->exe);
	free(line->what);
	free(line->rule);
	free(line);
}

static struct line *line_new(const struct denial *denial)
{
	struct line *line = calloc(1, sizeof(*line));

	if (!line)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &line->first);
	line->opened = milliseconds();
	line->pid = denial->pid;
	line->op = denial->op;
	line->access = denial->rule->access;
	line->origin = denial->rule->origin;
	line->error = denial->error;
	line->count = 1;
	line->path = strdup(denial->path);
	line->what = denial->what ? strdup(denial->what) : NULL;
	line->rule = strdup(denial->rule->path);
	if (!line->path || !line->rule) {
		line_free(line);
		return NULL;
	}
	look_up_process(line);
	return line;
}

/*
 * Adds to a name's count. When there is no place for one more, the one with the
 * least count goes: counts are of a name's last stay, and a name that comes
 * late and often is found.
 */
static void count_name(struct tally *tally, const char *name)
{
	struct denial_count *least = tally->counts, *at;
	char *copy;

	for (size_t i = 0; i < tally->n; i++) {
		at = &tally->counts[i];
		if (strcmp(at->name, name) == 0) {
			at->count++;
			return;
		}
		if (at->count < least->count)
			least = at;
	}
	copy = strdup(name);
	if (!copy)
		return;
	if (tally->n < MAX_TALLY)
		least = &tally->counts[tally->n++];
	else
		free(least->name);
	*least = (struct denial_count){.name = copy, .count = 1};
}

/* Counts it in both tallies. Under the lock. */
static void count_line(const struct line *line)
{
	count_name(&denials.programs, line->comm ? line->comm : "?");
	count_name(&denials.paths, line->path);
}

/*
 * Counts a repeat in the line that is open for it, if there is one. Under the
 * lock.
 */
static bool repeat_line(pid_t pid, enum policy_op op, const char *path)
{
	struct line *line = denials.buckets[bucket_of(pid, op, path)];
	int64_t now = milliseconds();

	for (; line; line = line->next) {
		if (line->pid != pid || line->op != op ||
		    now - line->opened >= WINDOW ||
		    strcmp(line->path, path) != 0)
			continue;
		line->count++;
		count_line(line);
		return true;
	}
	return false;
}

/* Takes the line over if there is room and no other is open for the same. */
static bool open_line(struct line *line)
{
	size_t bucket = bucket_of(line->pid, line->op, line->path);

	if (repeat_line(line->pid, line->op, line->path))
		return false;
	count_line(line);
	if (denials.n_lines >= MAX_LINES) {
		denials.dropped++;
		return false;
	}
	line->next = denials.buckets[bucket];
	denials.buckets[bucket] = line;
	if (denials.n_lines++ == 0)
		pthread_cond_signal(&denials.wake);
	return true;
}

void denials_add(const struct denial *denial)
{
	struct line *line;
	bool optional, taken = false;

	pthread_mutex_lock(&denials.lock);
	taken = repeat_line(denial->pid, denial->op, denial->path);
	pthread_mutex_unlock(&denials.lock);
	if (taken)
		return;
	line = line_new(denial);
	optional = line && is_optional_lock(line);
	pthread_mutex_lock(&denials.lock);
	if (optional)
		count_line(line);
	else if (line)
		taken = open_line(line);
	else
		denials.dropped++;
	pthread_mutex_unlock(&denials.lock);
	if (line && !taken)
		line_free(line);
}

/* Takes out the lines whose second is over, or (all) every one. */
static struct line *take_lines(bool all)
{
	int64_t now = milliseconds();
	struct line *taken = NULL;

	for (size_t i = 0; i < N_BUCKETS; i++) {
		struct line **at = &denials.buckets[i];

		while (*at) {
			struct line *line = *at;

			if (!all && now - line->opened < WINDOW) {
				at = &line->next;
				continue;
			}
			*at = line->next;
			line->next = taken;
			taken = line;
			denials.n_lines--;
		}
	}
	return taken;
}

static int compare_times(const void *a, const void *b)
{
	const struct line *const *x = a, *const *y = b;
	const struct timespec *s = &(*x)->first, *t = &(*y)->first;

	if (s->tv_sec != t->tv_sec)
		return s->tv_sec < t->tv_sec ? -1 : 1;
	return s->tv_nsec < t->tv_nsec ? -1 : s->tv_nsec > t->tv_nsec;
}

static void add_time(cJSON *object, const struct timespec *time)
{
	char text[64];
	struct tm tm;
	size_t n;

	gmtime_r(&time->tv_sec, &tm);
	n = strftime(text, sizeof(text), "%FT%T", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03ldZ",
		 time->tv_nsec / 1000000);
	cJSON_AddStringToObject(object, "time", text);
}

static void add_text(cJSON *object, const char *key, const char *bytes)
{
	autofree char *text = bytes ? json_text_encode(bytes) : NULL;

	if (text)
		cJSON_AddStringToObject(object, key, text);
	else
		cJSON_AddNullToObject(object, key);
}

static cJSON *line_to_json(const struct line *line)
{
	cJSON *object = cJSON_CreateObject();
	autofree char *twin = session_twin(denials.spec, line->path);

	add_time(object, &line->first);
	add_text(object, "session", denials.spec->name);
	cJSON_AddNumberToObject(object, "pid", line->pid);
	add_text(object, "comm", line->comm);
	add_text(object, "exe", line->exe);
	add_text(object, "op", policy_op_name(line->op));
	add_text(object, "path", line->path);
	add_text(object, "access", access_name(line->access));
	add_text(object, "rule", line->rule);
	add_text(object, "origin", origin_name(line->origin));
	add_text(object, "errno", strerrorname_np(-line->error));
	if (twin)
		add_text(object, "twin", twin);
	if (line->what)
		add_text(object, "what", line->what);
	cJSON_AddNumberToObject(object, "count", (double)line->count);
	return object;
}

static cJSON *dropped_to_json(uint64_t dropped)
{
	cJSON *object = cJSON_CreateObject();
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	add_time(object, &now);
	add_text(object, "session", denials.spec->name);
	cJSON_AddNumberToObject(object, "dropped", (double)dropped);
	return object;
}

static void close_log(struct log_file *log)
{
	cleanup_fdp(&log->fd);
	log->fd = -1;
}

/*
 * Opens it, or goes on in a new one when it has grown too long, or has been
 * removed. Its size, or -errno.
 */
static off_t check_log(struct log_file *log)
{
	struct stat st;

	if (log->fd >= 0 && fstat(log->fd, &st) == 0) {
		if (st.st_nlink > 0 && st.st_size < DENIALS_MAX_SIZE)
			return st.st_size;
		if (st.st_nlink > 0)
			renameat(denials.dir_fd, LOG_NAME, denials.dir_fd,
				 OLD_LOG_NAME);
	}
	close_log(log);
	log->fd = openat(denials.dir_fd, LOG_NAME,
			 O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			 0600);
	if (log->fd < 0 || fstat(log->fd, &st) < 0)
		return -errno;
	return st.st_size;
}

static void tell_listener(const char *line)
{
	pthread_mutex_lock(&listener.lock);
	if (listener.tell)
		listener.tell(line, listener.data);
	pthread_mutex_unlock(&listener.lock);
}

void denials_tell(void (*tell)(const char *line, void *data), void *data)
{
	pthread_mutex_lock(&listener.lock);
	listener.tell = tell;
	listener.data = data;
	pthread_mutex_unlock(&listener.lock);
}

/*
 * Takes object over, a line that stands for count denials. A full disk loses
 * whole lines: the beginning of one is taken back.
 */
static void write_json(struct log_file *log, cJSON *object, uint64_t count)
{
	autofree char *text = object ? cJSON_PrintUnformatted(object) : NULL;
	autofree char *ended = NULL;
	off_t size;

	cJSON_Delete(object);
	if (!text || asprintf(&ended, "%s\n", text) < 0) {
		log->lost += count;
		return;
	}
	tell_listener(ended);
	if (denials.dir_fd < 0)
		return;
	size = check_log(log);
	if (size < 0) {
		log->lost += count;
		return;
	}
	if (write_all(log->fd, ended, strlen(ended)) < 0) {
		log->lost += count;
		if (ftruncate(log->fd, size) < 0)
			close_log(log);
	}
}

/* Writes and frees them, the first first. */
static void write_lines(struct log_file *log, struct line *lines)
{
	struct line *line, **sorted;
	size_t n = 0, i = 0;

	for (line = lines; line; line = line->next)
		n++;
	sorted = calloc(n ? n : 1, sizeof(struct line *));
	for (line = lines; sorted && line; line = line->next)
		sorted[i++] = line;
	if (sorted)
		qsort(sorted, n, sizeof(struct line *), compare_times);
	for (i = 0; sorted && i < n; i++)
		write_json(log, line_to_json(sorted[i]), sorted[i]->count);
	while (lines) {
		line = lines;
		lines = line->next;
		if (!sorted)
			log->lost += line->count;
		line_free(line);
	}
	free(sorted);
}

/* Sleeps until there may be something to write. Under the lock. */
static void wait_for_lines(void)
{
	struct timespec until;

	if (denials.n_lines == 0 && !denials.dropped) {
		if (!denials.stopping && !denials.reopen)
			pthread_cond_wait(&denials.wake, &denials.lock);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 200000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	if (!denials.stopping)
		pthread_cond_timedwait(&denials.wake, &denials.lock, &until);
}

static void *write_log(void *arg)
{
	struct log_file log = {.fd = -1};
	bool stopping;

	do {
		struct line *lines;
		uint64_t dropped;
		bool reopen;

		pthread_mutex_lock(&denials.lock);
		wait_for_lines();
		stopping = denials.stopping;
		lines = take_lines(stopping);
		dropped = denials.dropped;
		denials.dropped = 0;
		reopen = denials.reopen;
		denials.reopen = false;
		pthread_mutex_unlock(&denials.lock);
		if (reopen)
			close_log(&log);
		dropped += log.lost;
		log.lost = 0;
		write_lines(&log, lines);
		if (dropped)
			write_json(&log, dropped_to_json(dropped), dropped);
	} while (!stopping);
	close_log(&log);
	return arg;
}

int denials_start(const struct session_spec *spec)
{
	int r;

	denials.spec = spec;
	if (spec->state_dir) {
		denials.dir_fd =
			open(spec->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (denials.dir_fd < 0)
			log_line("no denial log in %s: %s", spec->state_dir,
				 strerror(errno));
	}
	r = pthread_create(&denials.thread, NULL, write_log, NULL);
	denials.running = r == 0;
	return -r;
}

static void empty_tally(struct tally *tally)
{
	for (size_t i = 0; i < tally->n; i++)
		free(tally->counts[i].name);
	tally->n = 0;
}

void denials_stop(void)
{
	if (!denials.running)
		return;
	pthread_mutex_lock(&denials.lock);
	denials.stopping = true;
	pthread_cond_signal(&denials.wake);
	pthread_mutex_unlock(&denials.lock);
	pthread_join(denials.thread, NULL);
	denials.running = denials.stopping = false;
	cleanup_fdp(&denials.dir_fd);
	denials.dir_fd = -1;
	empty_tally(&denials.programs);
	empty_tally(&denials.paths);
}

void denials_reopen(void)
{
	pthread_mutex_lock(&denials.lock);
	denials.reopen = true;
	pthread_cond_signal(&denials.wake);
	pthread_mutex_unlock(&denials.lock);
}

static int compare_counts(const void *a, const void *b)
{
	const struct denial_count *x = a, *y = b;

	return x->count > y->count ? -1 : x->count < y->count;
}

static size_t copy_counts(struct tally *tally, struct denial_count *ret,
			  size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&denials.lock);
	qsort(tally->counts, tally->n, sizeof(tally->counts[0]),
	      compare_counts);
	for (size_t i = 0; i < tally->n && n < max; i++) {
		ret[n] = tally->counts[i];
		ret[n].name = strdup(ret[n].name);
		if (ret[n].name)
			n++;
	}
	pthread_mutex_unlock(&denials.lock);
	return n;
}

size_t denials_by_program(struct denial_count *ret, size_t max)
{
	return copy_counts(&denials.programs, ret, max);
}

size_t denials_by_path(struct denial_count *ret, size_t max)
{
	return copy_counts(&denials.paths, ret, max);
}

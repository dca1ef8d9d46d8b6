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
	pid_t pid;
	enum policy_op op;
	char *path, *comm, *exe, *what;
	const struct rule *rule; /* borrowed from the view's policy */
	int error;
	uint64_t count;
};

struct tally {
	struct denial_count counts[MAX_TALLY];
	size_t n;
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

/* The process's name, and its program; NULL for one that has gone. */
static void look_up_process(pid_t pid, char **ret_comm, char **ret_exe)
{
	char path[64];

	*ret_comm = *ret_exe = NULL;
	if (pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (read_file_at(AT_FDCWD, path, 256, ret_comm, NULL) == 0)
		(*ret_comm)[strcspn(*ret_comm, "\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (read_link_at(AT_FDCWD, path, ret_exe) < 0)
		*ret_exe = NULL;
}

static void line_free(struct line *line)
{
	free(line->path);
	free(line->comm);
	free(line->exe);
	free(line->what);
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
	line->rule = denial->rule;
	line->error = denial->error;
	line->count = 1;
	line->path = strdup(denial->path);
	line->what = denial->what ? strdup(denial->what) : NULL;
	if (!line->path) {
		line_free(line);
		return NULL;
	}
	look_up_process(denial->pid, &line->comm, &line->exe);
	return line;
}

/* Adds to a name's count. A name that comes late may find no place. */
static void count_name(struct tally *tally, const char *name)
{
	for (size_t i = 0; i < tally->n; i++) {
		if (strcmp(tally->counts[i].name, name) == 0) {
			tally->counts[i].count++;
			return;
		}
	}
	if (tally->n == MAX_TALLY)
		return;
	tally->counts[tally->n].name = strdup(name);
	if (tally->counts[tally->n].name)
		tally->counts[tally->n++].count = 1;
}

static struct line *find_line(const struct denial *denial, size_t bucket)
{
	int64_t now = milliseconds();
	struct line *line;

	for (line = denials.buckets[bucket]; line; line = line->next)
		if (line->pid == denial->pid && line->op == denial->op &&
		    now - line->opened < WINDOW &&
		    strcmp(line->path, denial->path) == 0)
			return line;
	return NULL;
}

/* Counts it in the line that is open for it; false if there is none. */
static bool add_to_line(const struct denial *denial, size_t bucket)
{
	struct line *line;

	pthread_mutex_lock(&denials.lock);
	line = find_line(denial, bucket);
	if (line) {
		line->count++;
		count_name(&denials.programs, line->comm ? line->comm : "?");
		count_name(&denials.paths, line->path);
	} else if (denials.n_lines >= MAX_LINES) {
		denials.dropped++;
	}
	pthread_mutex_unlock(&denials.lock);
	return line || denials.n_lines >= MAX_LINES;
}

void denials_add(const struct denial *denial)
{
	size_t bucket = bucket_of(denial->pid, denial->op, denial->path);
	struct line *line;

	if (add_to_line(denial, bucket))
		return;
	/* Another thread may open the same line now: then there are two. */
	line = line_new(denial);
	pthread_mutex_lock(&denials.lock);
	if (line) {
		count_name(&denials.programs, line->comm ? line->comm : "?");
		count_name(&denials.paths, line->path);
		line->next = denials.buckets[bucket];
		denials.buckets[bucket] = line;
		if (denials.n_lines++ == 0)
			pthread_cond_signal(&denials.wake);
	} else {
		denials.dropped++;
	}
	pthread_mutex_unlock(&denials.lock);
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

static char *find_twin(const struct session_spec *spec, const char *path)
{
	const char *rest;

	if (!spec->main || !spec->worktree ||
	    !path_starts_with(path, spec->main, &rest) || rest[0] == '\0' ||
	    path_starts_with(path, spec->worktree, NULL) ||
	    path_starts_with(path, spec->git_dir, NULL))
		return NULL;
	return path_join(spec->worktree, rest);
}

static cJSON *line_to_json(const struct line *line)
{
	cJSON *object = cJSON_CreateObject();
	autofree char *twin = find_twin(denials.spec, line->path);

	add_time(object, &line->first);
	add_text(object, "session", denials.spec->name);
	cJSON_AddNumberToObject(object, "pid", line->pid);
	add_text(object, "comm", line->comm);
	add_text(object, "exe", line->exe);
	add_text(object, "op", policy_op_name(line->op));
	add_text(object, "path", line->path);
	add_text(object, "access", access_name(line->rule->access));
	add_text(object, "rule", line->rule->path);
	add_text(object, "origin", origin_name(line->rule->origin));
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

static int open_log(void)
{
	return openat(denials.dir_fd, LOG_NAME,
		      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		      0600);
}

/* Opens it, or goes on in a new one when it has grown too long. */
static void check_log(int *fd, bool reopen)
{
	struct stat st;

	if (reopen) {
		cleanup_fdp(fd);
		*fd = -1;
	}
	if (*fd >= 0 && fstat(*fd, &st) == 0 && st.st_size > DENIALS_MAX_SIZE) {
		renameat(denials.dir_fd, LOG_NAME, denials.dir_fd,
			 OLD_LOG_NAME);
		close(*fd);
		*fd = -1;
	}
	if (*fd < 0)
		*fd = open_log();
}

/* One write a line: a full disk loses whole lines, or the end of one, which
 * the next begins anew. Takes object over. */
static void write_json(int *fd, cJSON *object)
{
	autofree char *text = object ? cJSON_PrintUnformatted(object) : NULL;
	autofree char *ended = NULL;

	cJSON_Delete(object);
	if (!text || *fd < 0 || asprintf(&ended, "%s\n", text) < 0)
		return;
	if (write_all(*fd, ended, strlen(ended)) < 0)
		(void)!write(*fd, "\n", 1);
}

static void write_lines(int *fd, struct line *lines, uint64_t dropped)
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
		write_json(fd, line_to_json(sorted[i]));
	free(sorted);
	while (lines) {
		line = lines;
		lines = line->next;
		line_free(line);
	}
	if (dropped)
		write_json(fd, dropped_to_json(dropped));
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
	int fd = -1;
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
		if (denials.dir_fd >= 0 && (lines || dropped || reopen))
			check_log(&fd, reopen);
		write_lines(&fd, lines, dropped);
	} while (!stopping);
	cleanup_fdp(&fd);
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

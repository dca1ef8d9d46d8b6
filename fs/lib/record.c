#include "fs/lib/record.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"

#define SCHEMA_VERSION 1
#define RECORD_MAX (16u << 20)
#define NAME_LENGTH_MAX 100

/*
 * A look at whether a lock is held takes it for a moment: who wants it tries
 * again, this often and so many nanoseconds apart.
 */
#define LOCK_TRIES 10
#define LOCK_PAUSE 10000000L

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

void record_init(struct record *record)
{
	*record = (struct record){0};
	session_spec_init(&record->spec);
}

void record_release(struct record *record)
{
	session_spec_release(&record->spec);
	strings_release(&record->devices);
	free(record->command);
	record_init(record);
}

/*
 * Names.
 */

static bool may_stand_in_name(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c > 127 || (c && strchr("._-+@", c));
}

static bool may_begin_name(unsigned char c)
{
	return may_stand_in_name(c) && c != '.' && c != '-';
}

bool session_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	if (length > NAME_LENGTH_MAX || !may_begin_name((unsigned char)*name))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!may_stand_in_name((unsigned char)name[i]))
			return false;
	return true;
}

/* Doesn't end within a UTF-8 sequence. */
static size_t length_of_name(const char *text)
{
	size_t length = strlen(text);

	if (length <= NAME_LENGTH_MAX)
		return length;
	length = NAME_LENGTH_MAX;
	while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

char *session_name_from(const char *text)
{
	char *name = text[0] ? strndup(text, length_of_name(text))
			     : strdup("session");

	if (!name)
		return NULL;
	for (char *c = name; *c; c++)
		if (!may_stand_in_name((unsigned char)*c))
			*c = '-';
	if (!may_begin_name((unsigned char)name[0]))
		name[0] = '_';
	return name;
}

/*
 * Directories.
 */

/* -EPERM unless it is a directory of ours that nobody else can write. */
static int check_private(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

/* NULL: XDG_RUNTIME_DIR doesn't count. */
static char *runtime_base(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	autofd int fd = -1;

	if (!dir || dir[0] != '/')
		return NULL;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || check_private(fd) < 0)
		return NULL;
	return path_join(dir, "worktreefs");
}

static int base_path(char **ret_path)
{
	char *path = runtime_base();

	if (!path && asprintf(&path, "/tmp/worktreefs-%lu",
			      (unsigned long)geteuid()) < 0)
		return -ENOMEM;
	*ret_path = path;
	return 0;
}

int record_base_open(bool create, int *ret_fd, char **ret_path)
{
	autofree char *path = NULL, *real = NULL;
	autofd int fd = -1;
	int r = base_path(&path);

	if (r < 0)
		return r;
	if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, DIR_FLAGS);
	if (fd < 0) {
		r = -errno;
		return r == -ELOOP || r == -ENOTDIR ? -EPERM : r;
	}
	r = check_private(fd);
	if (r == 0)
		r = fd_real_path(fd, &real);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	if (ret_path)
		*ret_path = steal_pointer(&real);
	return 0;
}

static const char *home_directory(void)
{
	const char *home = getenv("HOME");
	const struct passwd *entry;

	if (home && home[0] == '/')
		return home;
	entry = getpwuid(geteuid());
	return entry && entry->pw_dir && entry->pw_dir[0] == '/' ? entry->pw_dir
								 : NULL;
}

int state_base_path(char **ret_path)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = home_directory();
	char *path;

	if (state && state[0] == '/')
		path = path_normalise(state, "worktreefs");
	else if (home)
		path = path_normalise(home, ".local/state/worktreefs");
	else
		return -ENOENT;
	if (!path)
		return -ENOMEM;
	*ret_path = path;
	return 0;
}

static int open_session(int base_fd, const char *name)
{
	autofd int fd = openat(base_fd, name, DIR_FLAGS);
	int r;

	if (fd < 0) {
		r = -errno;
		return r == -ELOOP || r == -ENOTDIR ? -ENOENT : r;
	}
	r = check_private(fd);
	return r < 0 ? r : take_fd(&fd);
}

int record_open(const char *name, int *ret_dir_fd)
{
	autofd int base = -1;
	int r;

	if (!session_name_is_valid(name))
		return -ENOENT;
	r = record_base_open(false, &base, NULL);
	if (r < 0)
		return r;
	r = open_session(base, name);
	if (r < 0)
		return r;
	*ret_dir_fd = r;
	return 0;
}

/*
 * Removing.
 */

/* What is gone is as good as removed. */
static int remove_at(int dir_fd, const char *name, int flags)
{
	if (unlinkat(dir_fd, name, flags) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

/* Calls remove_at() for the names in dir_fd that begin so. */
static int remove_all(int dir_fd, const char *prefix, int flags)
{
	/* A descriptor of its own: the caller's keeps its offset. */
	int fd = openat(dir_fd, ".", DIR_FLAGS);
	autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int first = 0;

	if (!dir) {
		first = -errno;
		if (fd >= 0)
			close(fd);
		return first;
	}
	while ((entry = readdir(dir))) {
		int r = 0;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
		    name_is_valid(entry->d_name))
			r = remove_at(dir_fd, entry->d_name, flags);
		if (first == 0)
			first = r;
	}
	return first;
}

/* -EBUSY while one of them is mounted. */
static int remove_mount_points(int dir_fd)
{
	autofd int views = openat(dir_fd, "views", DIR_FLAGS);
	int r = remove_at(dir_fd, "view", AT_REMOVEDIR);

	if (r < 0 || views < 0)
		return r;
	r = remove_all(views, "", AT_REMOVEDIR);
	return r < 0 ? r : remove_at(dir_fd, "views", AT_REMOVEDIR);
}

/* rmdir(2) of something that somebody put there. */
static bool is_not_ours(int r)
{
	return r == -ENOTEMPTY || r == -ENOTDIR;
}

/* All but the lock. */
static int remove_content(int dir_fd)
{
	int views = remove_mount_points(dir_fd);
	int sock = remove_at(dir_fd, "control.sock", 0);
	int record = remove_at(dir_fd, "session.json", 0);
	/* of a writer that was killed, see write_file_at() */
	int rest = remove_all(dir_fd, "session.json.tmp-", 0);

	if (views < 0)
		return views;
	if (sock < 0)
		return sock;
	return record < 0 ? record : rest;
}

int record_clear(int dir_fd)
{
	autofree char *path = NULL;
	int content = remove_content(dir_fd);
	int r = remove_at(dir_fd, "lock", 0);

	/* From here on the name may be somebody else's: no more than rmdir. */
	if (r == 0)
		r = fd_real_path(dir_fd, &path);
	if (r == 0 && rmdir(path) < 0)
		r = -errno;
	if (r == -ENOENT) /* the next one has come and gone */
		r = 0;
	return content < 0 ? content : r;
}

/*
 * Locks.
 */

static bool is_same_file(int fd, int dir_fd, const char *name)
{
	struct stat by_fd, by_name;

	return fstat(fd, &by_fd) == 0 &&
	       fstatat(dir_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino;
}

static int lock_exclusively(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE};

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

/*
 * Opens and takes the lock in a session's directory. -ESTALE when it, or the
 * directory, was removed meanwhile; -EBUSY when somebody holds it.
 */
static int take_lock(int base_fd, const char *name, int dir_fd)
{
	autofd int fd = openat(dir_fd, "lock",
			       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
				       O_NONBLOCK | O_NOCTTY,
			       0600);
	int r;

	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	r = lock_exclusively(fd);
	if (r < 0)
		return r;
	if (!is_same_file(fd, dir_fd, "lock") ||
	    !is_same_file(dir_fd, base_fd, name))
		return -ESTALE;
	return take_fd(&fd);
}

static bool lock_is_held(int dir_fd)
{
	autofd int fd = openat(dir_fd, "lock",
			       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 &&
	       errno == EWOULDBLOCK;
}

bool record_is_held(const char *name)
{
	autofd int dir = -1;

	return record_open(name, &dir) == 0 && lock_is_held(dir);
}

static int try_claim(int base_fd, const char *name, int *ret_dir_fd,
		     int *ret_lock_fd)
{
	autofd int dir = -1, lock = -1;
	int r;

	if (mkdirat(base_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	dir = open_session(base_fd, name);
	if (dir < 0)
		return dir == -ENOENT ? -ESTALE : dir;
	lock = take_lock(base_fd, name, dir);
	if (lock < 0)
		return lock == -EBUSY ? -EEXIST : lock;
	/* First what can be refused, so that a dead record is kept whole. */
	r = remove_mount_points(dir);
	if (r != -EBUSY)
		r = remove_content(dir);
	if (r < 0 && !is_not_ours(r))
		return r;
	*ret_dir_fd = take_fd(&dir);
	*ret_lock_fd = take_fd(&lock);
	return 0;
}

int record_claim(const char *name, int *ret_dir_fd, int *ret_lock_fd,
		 char **ret_path)
{
	autofree char *base_path = NULL, *path = NULL;
	autofd int base = -1;
	int r;

	if (!session_name_is_valid(name))
		return -EINVAL;
	r = record_base_open(true, &base, &base_path);
	if (r < 0)
		return r;
	path = path_join(base_path, name);
	if (!path)
		return -ENOMEM;
	do {
		r = try_claim(base, name, ret_dir_fd, ret_lock_fd);
	} while (r == -ESTALE);
	if (r == 0)
		*ret_path = steal_pointer(&path);
	return r;
}

int record_remove(const char *name)
{
	autofd int base = -1, dir = -1, lock = -1;
	int r;

	if (!session_name_is_valid(name))
		return -ENOENT;
	r = record_base_open(false, &base, NULL);
	if (r < 0)
		return r;
	dir = open_session(base, name);
	if (dir < 0)
		return dir;
	lock = take_lock(base, name, dir);
	if (lock < 0)
		return lock == -ESTALE ? -ENOENT : lock;
	r = remove_mount_points(dir);
	return r == -EBUSY ? r : record_clear(dir);
}

static int compare_names(const void *a, const void *b)
{
	char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int record_list(struct strings *ret_names)
{
	struct strings names = {0};
	autodir DIR *dir = NULL;
	const struct dirent *entry;
	autofd int base = -1;
	int r = record_base_open(false, &base, NULL);

	if (r == -ENOENT) {
		*ret_names = names;
		return 0;
	}
	if (r < 0)
		return r;
	dir = fdopendir(base);
	if (!dir)
		return -errno;
	take_fd(&base);
	while (r == 0 && (entry = readdir(dir)))
		if (session_name_is_valid(entry->d_name) &&
		    (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
			r = strings_add(&names, entry->d_name);
	if (r < 0) {
		strings_release(&names);
		return r;
	}
	if (names.n > 0)
		qsort(names.s, names.n, sizeof(*names.s), compare_names);
	*ret_names = names;
	return 0;
}

/*
 * session.json.
 */

static bool put_devices(cJSON *object, const struct strings *devices)
{
	cJSON *array = cJSON_AddArrayToObject(object, "devices");

	if (!array)
		return false;
	for (size_t i = 0; i < devices->n; i++) {
		cJSON *item = cJSON_CreateString(devices->s[i]);

		if (!item || !cJSON_AddItemToArray(array, item))
			return false;
	}
	return true;
}

static bool put_command(cJSON *object, const char *command)
{
	autofree char *text = NULL;

	if (!command)
		return cJSON_AddNullToObject(object, "command");
	text = json_text_encode(command);
	return text && cJSON_AddStringToObject(object, "command", text);
}

static bool put_record(cJSON *object, const struct record *record)
{
	cJSON *spec = session_spec_to_cjson(&record->spec);

	return spec && cJSON_AddItemToObject(object, "spec", spec) &&
	       cJSON_AddNumberToObject(object, "schema_version",
				       SCHEMA_VERSION) &&
	       cJSON_AddNumberToObject(object, "pid", record->pid) &&
	       cJSON_AddNumberToObject(object, "start_time",
				       (double)record->start_time) &&
	       cJSON_AddNumberToObject(object, "since",
				       (double)record->since) &&
	       put_devices(object, &record->devices) &&
	       put_command(object, record->command);
}

int record_write(int dir_fd, const struct record *record)
{
	cJSON *object = cJSON_CreateObject();
	autofree char *text = NULL;

	if (object && put_record(object, record))
		text = cJSON_Print(object);
	cJSON_Delete(object);
	if (!text)
		return -ENOMEM;
	return write_file_at(dir_fd, "session.json", text, strlen(text), 0600);
}

/* A whole number from low to high. */
static int get_number(const cJSON *object, const char *key, double low,
		      double high, double *ret_number)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!cJSON_IsNumber(item) || !(item->valuedouble >= low) ||
	    item->valuedouble > high ||
	    floor(item->valuedouble) != item->valuedouble)
		return -EINVAL;
	*ret_number = item->valuedouble;
	return 0;
}

static int get_numbers(const cJSON *object, struct record *record)
{
	const double exact = 9007199254740992.0; /* 2^53 */
	double version, pid, start_time, since;

	if (get_number(object, "schema_version", SCHEMA_VERSION, SCHEMA_VERSION,
		       &version) < 0 ||
	    get_number(object, "pid", 1, INT_MAX, &pid) < 0 ||
	    get_number(object, "start_time", 0, exact, &start_time) < 0 ||
	    get_number(object, "since", 0, exact, &since) < 0)
		return -EINVAL;
	record->pid = (pid_t)pid;
	record->start_time = (uint64_t)start_time;
	record->since = (time_t)since;
	return 0;
}

static int get_devices(const cJSON *object, struct strings *devices)
{
	const cJSON *array =
		cJSON_GetObjectItemCaseSensitive(object, "devices");
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return -EINVAL;
	cJSON_ArrayForEach(item, array)
	{
		int r = cJSON_IsString(item)
				? strings_add(devices, item->valuestring)
				: -EINVAL;

		if (r < 0)
			return r;
	}
	return 0;
}

static int get_command(const cJSON *object, char **ret_command)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, "command"));

	if (!text)
		return 0;
	*ret_command = json_text_decode(text);
	return *ret_command ? 0 : -ENOMEM;
}

static int get_record(const cJSON *object, const char *name,
		      struct record *record)
{
	int r = session_spec_from_cjson(
		cJSON_GetObjectItemCaseSensitive(object, "spec"),
		&record->spec);

	if (r == 0 && strcmp(record->spec.name, name) != 0)
		r = -EINVAL;
	if (r == 0)
		r = get_numbers(object, record);
	if (r == 0)
		r = get_devices(object, &record->devices);
	return r < 0 ? r : get_command(object, &record->command);
}

static int parse_record(const char *text, const char *name,
			struct record *ret_record)
{
	cJSON *object = cJSON_Parse(text);
	struct record record;
	int r;

	record_init(&record);
	r = get_record(object, name, &record);
	cJSON_Delete(object);
	if (r < 0) {
		record_release(&record);
		return r;
	}
	*ret_record = record;
	return 0;
}

int record_read(const char *name, struct record *ret_record)
{
	autofree char *text = NULL;
	autofd int dir = -1;
	int r = record_open(name, &dir);

	if (r == 0)
		r = read_file_at(dir, "session.json", RECORD_MAX, &text, NULL);
	if (r < 0)
		return r == -ELOOP || r == -EFBIG ? -EINVAL : r;
	r = parse_record(text, name, ret_record);
	if (r == 0)
		ret_record->live =
			lock_is_held(dir) &&
			process_is(ret_record->pid, ret_record->start_time);
	return r;
}

#include "fs/lib/gitlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

#define LOCK_NAME "locked"
#define LOCK_MAX 4096

/* Others may read it, as they may git's own. */
#define LOCK_MODE 0644

/* How often to try for the sessions' own lock, and nanoseconds in between. */
#define HOLD_TRIES 200
#define HOLD_PAUSE 5000000L

int worktree_locks_hold(void)
{
	const struct timespec pause = {.tv_nsec = HOLD_PAUSE};
	autofd int fd = -1;
	int r = record_base_open(false, &fd, NULL);

	for (int i = 0; r == 0 && i < HOLD_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return take_fd(&fd);
		if (errno != EWOULDBLOCK)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return r < 0 ? r : -EBUSY;
}

/* A session has something to lock only under the guard. */
static bool has_lock(const struct session_spec *spec)
{
	return spec->git_guard && spec->git_dir && spec->admin_dir;
}

/* A, without following a symlink that somebody put in its place. */
static int open_admin(const char *git_dir_path, const char *admin_dir,
		      int *ret_fd)
{
	autofd int git_dir = -1;
	const char *relative;
	int fd;

	if (!path_starts_with(admin_dir, git_dir_path, &relative))
		return -EINVAL;
	git_dir = open(git_dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (git_dir < 0)
		return -errno;
	fd = open_dir_beneath(git_dir, relative);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

/* NULL when out of memory. */
static char *reason_of(const struct record *record)
{
	char *reason;

	if (asprintf(&reason, "worktreefs session %s (pid %ld)\n",
		     record->spec.name, (long)record->pid) < 0)
		return NULL;
	return reason;
}

/* Is there a filesystem process with this pid, of whichever session? */
static bool is_server(pid_t pid)
{
	autofree char *comm = NULL;
	uint64_t start_time;
	char path[32];

	if (process_start_time(pid, &start_time) < 0 ||
	    !process_is(pid, start_time))
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	return read_file_at(AT_FDCWD, path, LOCK_MAX, &comm, NULL) == 0 &&
	       strcmp(comm, "worktreefs\n") == 0;
}

/* The pid in the reason of a lock of ours, or 0 for any other lock. */
static pid_t pid_of(const char *reason)
{
	int pid, end = 0;

	if (sscanf(reason, "worktreefs session %*s (pid %d)%n", &pid, &end) !=
		    1 ||
	    end == 0 || strcmp(reason + end, "\n") != 0)
		return 0;
	return pid;
}

/* Is the lock with this reason one of a session that is gone? */
static bool is_left_over(const char *reason)
{
	pid_t pid = pid_of(reason);

	return pid && !is_server(pid);
}

/* -EEXIST: there is one. */
static int create_lock(int admin, const char *reason)
{
	autofd int fd =
		openat(admin, LOCK_NAME,
		       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, LOCK_MODE);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, reason, strlen(reason));
	if (r < 0)
		unlinkat(admin, LOCK_NAME, 0);
	return r;
}

static int replace_lock(int admin, const char *reason)
{
	return write_file_at(admin, LOCK_NAME, reason, strlen(reason),
			     LOCK_MODE);
}

int worktree_lock(const struct record *record)
{
	autofree char *reason = NULL, *found = NULL;
	autofd int admin = -1, hold = -1;
	int r;

	if (!has_lock(&record->spec))
		return 0;
	reason = reason_of(record);
	if (!reason)
		return -ENOMEM;
	r = open_admin(record->spec.git_dir, record->spec.admin_dir, &admin);
	if (r < 0)
		return r;
	hold = worktree_locks_hold();
	r = create_lock(admin, reason);
	if (r != -EEXIST)
		return r;
	r = read_file_at(admin, LOCK_NAME, LOCK_MAX, &found, NULL);
	if (r == 0 && is_left_over(found))
		return replace_lock(admin, reason);
	return 0;
}

/* Another live session with the same worktree: 1 with its record, 0. */
static int find_other(const struct record *record, struct record *ret_other)
{
	struct strings names = {0};
	int found = 0;

	if (record_list(&names) < 0)
		return 0;
	for (size_t i = 0; !found && i < names.n; i++) {
		struct record other;

		if (strcmp(names.s[i], record->spec.name) == 0 ||
		    record_read(names.s[i], &other) < 0)
			continue;
		found = other.live && has_lock(&other.spec) &&
			strcmp(other.spec.admin_dir, record->spec.admin_dir) ==
				0;
		if (found)
			*ret_other = other;
		else
			record_release(&other);
	}
	strings_release(&names);
	return found;
}

static int hand_on(int admin, const struct record *other)
{
	autofree char *reason = reason_of(other);

	return reason ? replace_lock(admin, reason) : -ENOMEM;
}

int worktree_unlock(const struct record *record)
{
	autofree char *reason = NULL, *found = NULL;
	autofd int admin = -1;
	struct record other;
	int r;

	if (!has_lock(&record->spec))
		return 0;
	reason = reason_of(record);
	if (!reason)
		return -ENOMEM;
	r = open_admin(record->spec.git_dir, record->spec.admin_dir, &admin);
	if (r == 0)
		r = read_file_at(admin, LOCK_NAME, LOCK_MAX, &found, NULL);
	if (r == -ENOENT) /* with or without the worktree */
		return 0;
	if (r < 0)
		return r;
	if (strcmp(found, reason) != 0)
		return 0;
	if (find_other(record, &other) == 0)
		return unlinkat(admin, LOCK_NAME, 0) < 0 ? -errno : 0;
	r = hand_on(admin, &other);
	record_release(&other);
	return r;
}

/* 1 with the admin directory and the lock's text, 0: no lock, or -errno. */
static int read_lock(const char *git_dir, const char *admin_dir, int *ret_admin,
		     char **ret_reason)
{
	autofd int admin = -1;
	int r = open_admin(git_dir, admin_dir, &admin);

	if (r == 0)
		r = read_file_at(admin, LOCK_NAME, LOCK_MAX, ret_reason, NULL);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*ret_admin = take_fd(&admin);
	return 1;
}

int worktree_lock_holder(const char *git_dir, const char *admin_dir,
			 pid_t *ret_pid)
{
	autofd int admin = -1;
	autofree char *reason = NULL;
	int r = read_lock(git_dir, admin_dir, &admin, &reason);

	if (r <= 0)
		return r;
	*ret_pid = pid_of(reason);
	return *ret_pid && is_server(*ret_pid);
}

/* 1 with the admin directory and the lock's reason, 0, or -errno. */
static int find_left_over(const char *git_dir, const char *admin_dir,
			  int *ret_admin, char **ret_reason)
{
	autofd int admin = -1;
	autofree char *reason = NULL;
	int r = read_lock(git_dir, admin_dir, &admin, &reason);

	if (r <= 0)
		return r;
	if (!is_left_over(reason))
		return 0;
	reason[strcspn(reason, "\n")] = '\0';
	*ret_admin = take_fd(&admin);
	*ret_reason = steal_pointer(&reason);
	return 1;
}

int worktree_lock_left(const char *git_dir, const char *admin_dir,
		       char **ret_reason)
{
	autofd int admin = -1;

	return find_left_over(git_dir, admin_dir, &admin, ret_reason);
}

int worktree_unlock_left(const char *git_dir, const char *admin_dir)
{
	autofd int admin = -1, hold = worktree_locks_hold();
	autofree char *reason = NULL;
	int r = find_left_over(git_dir, admin_dir, &admin, &reason);

	if (r <= 0)
		return r;
	return unlinkat(admin, LOCK_NAME, 0) < 0 && errno != ENOENT ? -errno
								    : 1;
}

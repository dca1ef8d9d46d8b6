#include "mountctl/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "mountctl/clock.h"
#include "mountctl/mounts.h"
#include "mountctl/output.h"

/* Between two looks at something that will change soon. */
#define PAUSE_MS 50

/* How long the end of a process may take that has nothing left to do. */
#define GRACE_MS 2000

/* What the kernel calls the filesystem process, proc_pid_comm(5). */
#define SERVER_NAME "worktreefs"

int session_await_end(const struct record *record, int64_t deadline)
{
	autofd int fd = process_open(record->pid, record->start_time);
	struct pollfd ended = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return fd == -ESRCH ? 0 : -ETIMEDOUT;
	for (;;) {
		int64_t left = deadline - now_ms();
		int n = poll(&ended, 1, left > 0 ? (int)left : 0);

		if (n > 0)
			return 0;
		if (n == 0 && left <= 0)
			return -ETIMEDOUT;
	}
}

/* What can't be read as a record, or isn't one any more. */
static int drop_name(const char *name, char **message)
{
	int r = record_remove(name);

	if (r == -ENOENT)
		return 0;
	if (r == -ENOTEMPTY)
		return explain(r, message,
			       "the record of session '%s' is removed, but "
			       "there are other files beside it",
			       name);
	if (r < 0)
		return explain(r, message,
			       "cannot remove the record of session '%s': %s",
			       name, strerror(-r));
	return 0;
}

/* Record and lock go with the process; what it leaves is removed here. */
static int drop_record(const struct record *record, char **message)
{
	autofd int hold = worktree_locks_hold();
	int r = worktree_unlock(record);

	if (r < 0)
		warn("cannot unlock the worktree '%s': %s",
		     record->spec.worktree, strerror(-r));
	return drop_name(record->spec.name, message);
}

/*
 * Unmounting.
 */

/* Is the session's view there? 1; 0: nothing of ours is; -errno, message. */
static int is_mounted(const struct record *record, const char *mountpoint,
		      char **message)
{
	struct view_mounts mounts = {0};
	const struct view_mount *mount;
	int r = view_mounts_read(0, &mounts);

	if (r < 0)
		return explain(r, message, "cannot read the mounts: %s",
			       strerror(-r));
	mount = view_mounts_at(&mounts, mountpoint);
	if (mount && !strings_contain(&record->devices, mount->device))
		r = explain(-EBUSY, message,
			    "what is mounted at '%s' isn't the view of session "
			    "'%s'",
			    mountpoint, record->spec.name);
	else
		r = mount != NULL;
	view_mounts_release(&mounts);
	return r;
}

static int unmount_view(const struct record *record, const char *mountpoint,
			bool lazy, int64_t deadline, char **message)
{
	for (;;) {
		int r = is_mounted(record, mountpoint, message);

		if (r == 1)
			r = mount_detach(mountpoint, lazy, message);
		else
			return r;
		if (r == 0 || r != -EBUSY)
			return r;
		if (now_ms() >= deadline)
			return r;
		sleep_ms(PAUSE_MS);
	}
}

/* The last first: a view may be mounted within an earlier one's. */
static int unmount_views(const struct record *record, bool lazy,
			 int64_t deadline, char **message)
{
	const struct session_spec *spec = &record->spec;
	int r = 0;

	for (size_t i = spec->n_views; r == 0 && i > 0; i--)
		if (spec->views[i - 1].mountpoint)
			r = unmount_view(record, spec->views[i - 1].mountpoint,
					 lazy, deadline, message);
	return r;
}

static int find_users(const struct record *record, struct holders *ret_holders)
{
	const struct session_spec *spec = &record->spec;
	struct strings mountpoints = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_views; i++)
		if (spec->views[i].mountpoint)
			r = strings_add(&mountpoints,
					spec->views[i].mountpoint);
	if (r == 0)
		r = holders_of_paths(&mountpoints, ret_holders);
	strings_release(&mountpoints);
	return r;
}

/*
 * Signalling.
 */

static int send_signal(int pidfd, int number)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0)
		return -errno;
	return 0;
}

static bool is_among(const struct holder *holder, const struct holders *others)
{
	for (size_t i = 0; i < others->n; i++)
		if (others->holder[i].pid == holder->pid &&
		    others->holder[i].start_time == holder->start_time)
			return true;
	return false;
}

/* Each is asked once; one that is stopped has to go on to hear it. */
static void ask_to_end(const struct holders *holders,
		       const struct holders *asked)
{
	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->holder[i];
		autofd int fd = -1;

		if (is_among(holder, asked))
			continue;
		fd = process_open(holder->pid, holder->start_time);
		if (fd < 0)
			continue;
		send_signal(fd, SIGTERM);
		send_signal(fd, SIGCONT);
	}
}

static int end_processes(const struct record *record, int64_t deadline,
			 struct holders *ret_holders, char **message)
{
	struct holders asked = {0};

	for (;;) {
		struct holders holders = {0};
		int64_t next = now_ms() + PAUSE_MS;
		int r = holders_of_devices(&record->devices, &holders);

		if (r < 0) {
			holders_release(&asked);
			return explain(r, message,
				       "cannot look for processes: %s",
				       strerror(-r));
		}
		ask_to_end(&holders, &asked);
		holders_release(&asked);
		asked = holders;
		if (session_await_end(record, next) == 0) {
			holders_release(&asked);
			return drop_record(record, message);
		}
		if (now_ms() >= deadline) {
			*ret_holders = asked;
			return -EBUSY;
		}
	}
}

/* A record is text: is the process that it names one of ours at all? */
static bool is_server(pid_t pid)
{
	char path[64];
	autofree char *name = NULL;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	if (read_file_at(AT_FDCWD, path, 64, &name, NULL) < 0)
		return false;
	return strncmp(name, SERVER_NAME, strlen(SERVER_NAME)) == 0;
}

/* The views of its session answer ENOTCONN from then on. */
static int end_server(const struct record *record, char **message)
{
	autofd int fd = process_open(record->pid, record->start_time);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && !is_server(record->pid))
		return explain(-EPERM, message,
			       "process %ld, which the record of session '%s' "
			       "names, is no filesystem process",
			       (long)record->pid, record->spec.name);
	if (r == 0)
		r = send_signal(fd, SIGTERM);
	if (r < 0 && r != -ESRCH)
		return explain(r, message,
			       "cannot end the filesystem process %ld: %s",
			       (long)record->pid, strerror(-r));
	r = session_await_end(record, now_ms() + GRACE_MS);
	/* One that hangs, or is stopped. Nobody needs its answers. */
	if (r < 0 && send_signal(fd, SIGKILL) == 0)
		r = session_await_end(record, now_ms() + GRACE_MS);
	if (r < 0)
		return explain(r, message,
			       "the filesystem process %ld doesn't end",
			       (long)record->pid);
	return drop_record(record, message);
}

/*
 * Namespaces that were made meanwhile, sessions behind run among them, have a
 * copy of the mount that nobody can take away. The filesystem process goes all
 * the same, once nobody uses a file of it, wherever that is seen.
 */
static int end_unmounted(const struct record *record, int64_t deadline,
			 char **message)
{
	for (;;) {
		struct holders users = {0};
		size_t n;
		int r;

		if (session_await_end(record, now_ms() + PAUSE_MS) == 0)
			return drop_record(record, message);
		r = holders_of_files_on(&record->devices, &users);
		n = users.n;
		holders_release(&users);
		if (r == 0 && n == 0)
			return end_server(record, message);
		if (now_ms() >= deadline)
			return -EINPROGRESS;
	}
}

static int end_view(const struct record *record, bool lazy, int64_t deadline,
		    struct holders *ret_holders, char **message)
{
	int64_t grace;
	int r = unmount_views(record, lazy, deadline, message);

	if (r == -EBUSY)
		find_users(record, ret_holders);
	if (r < 0)
		return r;
	grace = now_ms() + GRACE_MS;
	if (lazy || deadline < grace)
		deadline = grace;
	return end_unmounted(record, deadline, message);
}

int session_end(const struct record *record, bool lazy, int64_t deadline,
		struct holders *ret_holders, char **message)
{
	switch (record->spec.tier) {
	case TIER_VIEW:
		return end_view(record, lazy, deadline, ret_holders, message);
	case TIER_ENFORCED:
		return lazy ? end_server(record, message)
			    : end_processes(record, deadline, ret_holders,
					    message);
	case TIER_NONE:
		break;
	}
	return explain(-EINVAL, message, "session '%s' has no view",
		       record->spec.name);
}

/*
 * Dead sessions.
 */

int session_clear(const struct record *record, char **message)
{
	int r = 0;

	if (record->spec.tier == TIER_VIEW)
		r = unmount_views(record, true, now_ms(), message);
	return r < 0 ? r : drop_record(record, message);
}

static int unmount_all_in(const char *dir, char **message)
{
	struct view_mounts mounts = {0};
	int r = view_mounts_read(0, &mounts);

	if (r < 0)
		return explain(r, message, "cannot read the mounts: %s",
			       strerror(-r));
	for (size_t i = mounts.n; r == 0 && i > 0; i--) {
		const struct view_mount *mount = &mounts.mount[i - 1];

		if (!mount->hidden &&
		    path_starts_with(mount->mountpoint, dir, NULL))
			r = mount_detach(mount->mountpoint, false, message);
	}
	view_mounts_release(&mounts);
	return r;
}

int session_clear_unreadable(const char *name, char **message)
{
	autofree char *base = NULL, *dir = NULL;
	autofd int fd = -1;
	int64_t deadline;
	int r = record_base_open(false, &fd, &base);

	if (r < 0)
		return explain(r, message, "cannot read the records: %s",
			       strerror(-r));
	dir = path_join(base, name);
	if (!dir)
		return -ENOMEM;
	r = unmount_all_in(dir, message);
	if (r < 0)
		return r;
	deadline = now_ms() + GRACE_MS;
	while (record_remove(name) == -EBUSY) {
		if (now_ms() >= deadline)
			return -EBUSY;
		sleep_ms(PAUSE_MS);
	}
	return drop_name(name, message);
}

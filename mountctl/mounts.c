#include "mountctl/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"

#define FILESYSTEM_TYPE "fuse.worktreefs"

/* More than fusermount3(1) ever says. */
#define COMPLAINT_MAX 4096

void view_mounts_release(struct view_mounts *mounts)
{
	for (size_t i = 0; i < mounts->n; i++) {
		free(mounts->mount[i].mountpoint);
		free(mounts->mount[i].device);
	}
	free(mounts->mount);
	*mounts = (struct view_mounts){0};
}

/* "user_id=N" among the file system's options. */
static uid_t owner_of(struct libmnt_fs *fs)
{
	char *value = NULL;
	size_t size = 0;

	if (mnt_fs_get_option(fs, "user_id", &value, &size) != 0 || !value)
		return (uid_t)-1;
	return (uid_t)strtoul(value, NULL, 10);
}

static int add_mount(struct view_mounts *mounts, struct libmnt_fs *fs)
{
	dev_t number = mnt_fs_get_devno(fs);
	autofree char *mountpoint = strdup(mnt_fs_get_target(fs));
	autofree char *device = NULL;
	struct view_mount *grown;

	if (!mountpoint ||
	    asprintf(&device, "%u:%u", major(number), minor(number)) < 0)
		return -ENOMEM;
	grown = reallocarray(mounts->mount, mounts->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	mounts->mount = grown;
	grown[mounts->n++] = (struct view_mount){
		.mountpoint = steal_pointer(&mountpoint),
		.device = steal_pointer(&device),
		.owner = owner_of(fs),
	};
	return 0;
}

/* What is mounted later at the same path hides what was there. */
static void hide(struct view_mounts *mounts, const char *path)
{
	for (size_t i = 0; i < mounts->n; i++)
		if (strcmp(mounts->mount[i].mountpoint, path) == 0)
			mounts->mount[i].hidden = true;
}

static int collect(struct libmnt_table *table, struct view_mounts *mounts)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	int r = iter ? 0 : -ENOMEM;

	while (r == 0 && mnt_table_next_fs(table, iter, &fs) == 0) {
		const char *type = mnt_fs_get_fstype(fs);
		const char *target = mnt_fs_get_target(fs);

		if (!target)
			continue;
		hide(mounts, target);
		if (type && strcmp(type, FILESYSTEM_TYPE) == 0)
			r = add_mount(mounts, fs);
	}
	mnt_free_iter(iter);
	return r;
}

/* libmount answers NULL for whatever reason: this tells which. */
static int why_unreadable(const char *path)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return -EINVAL;
	return errno == ENOENT ? -ESRCH : -errno;
}

int view_mounts_read(pid_t pid, struct view_mounts *ret_mounts)
{
	struct view_mounts mounts = {0};
	struct libmnt_table *table;
	char path[64] = "/proc/self/mountinfo";
	int r;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/mountinfo", (long)pid);
	table = mnt_new_table_from_file(path);
	if (!table)
		return why_unreadable(path);
	r = collect(table, &mounts);
	mnt_unref_table(table);
	if (r < 0) {
		view_mounts_release(&mounts);
		return r;
	}
	*ret_mounts = mounts;
	return 0;
}

const struct view_mount *view_mounts_at(const struct view_mounts *mounts,
					const char *path)
{
	for (size_t i = mounts->n; i > 0; i--) {
		const struct view_mount *mount = &mounts->mount[i - 1];

		if (!mount->hidden && strcmp(mount->mountpoint, path) == 0)
			return mount;
	}
	return NULL;
}

static int find_below(struct libmnt_table *table, const char *path,
		      char **ret_mountpoint)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	int r = iter ? 0 : -ENOMEM;

	while (r == 0 && mnt_table_next_fs(table, iter, &fs) == 0) {
		const char *target = mnt_fs_get_target(fs);

		if (!target || !path_starts_with(target, path, NULL))
			continue;
		*ret_mountpoint = strdup(target);
		r = *ret_mountpoint ? 1 : -ENOMEM;
	}
	mnt_free_iter(iter);
	return r;
}

int mount_find_below(const char *path, char **ret_mountpoint)
{
	static const char own[] = "/proc/self/mountinfo";
	struct libmnt_table *table = mnt_new_table_from_file(own);
	int r = table ? find_below(table, path, ret_mountpoint)
		      : why_unreadable(own);

	mnt_unref_table(table);
	return r;
}

/*
 * Asking one.
 */

/* Waits for a child, but no longer than the time; then it is killed. */
static int await_child(pid_t pid, int timeout_ms)
{
	autofd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	int status, r = -ETIMEDOUT;

	if (fd >= 0 && poll(&ended, 1, timeout_ms) == 1)
		r = 0;
	else
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (r == 0 && WIFEXITED(status))
		r = -WEXITSTATUS(status);
	return r;
}

int mount_probe(const char *mountpoint, int timeout_ms)
{
	struct statx stx;
	pid_t pid = fork();

	/* What the kernel remembers is no answer. */
	if (pid == 0)
		_exit(statx(AT_FDCWD, mountpoint, AT_STATX_FORCE_SYNC,
			    STATX_BASIC_STATS, &stx) < 0
			      ? errno
			      : 0);
	return pid < 0 ? -errno : await_child(pid, timeout_ms);
}

/*
 * fusermount3(1). It is spawned with a pipe for all that it says.
 */

static int spawn(char *const *argv, int output, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
					 O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
	r = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* Its exit status, or -errno; what it says goes to *ret_text. */
static int run(char *const *argv, char **ret_text)
{
	int ends[2], status, r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = spawn(argv, ends[1], &pid);
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return r;
	}
	read_fd(ends[0], COMPLAINT_MAX, ret_text, NULL);
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static int fusermount(const char *mountpoint, bool lazy, char **message)
{
	char program[] = "fusermount3", options[] = "-uz", end[] = "--";
	autofree char *path = strdup(mountpoint), *text = NULL;
	char *argv[] = {program, options, end, path, NULL};
	int r;

	if (!path)
		return -ENOMEM;
	if (!lazy)
		options[2] = '\0';
	r = run(argv, &text);
	if (r == -ENOENT)
		return explain(r, message,
			       "cannot unmount '%s': there is no fusermount3",
			       mountpoint);
	if (r <= 0)
		return r;
	if (!text)
		return -EPERM;
	if (strstr(text, "busy"))
		return -EBUSY;
	text[strcspn(text, "\n")] = '\0';
	return explain(-EPERM, message, "cannot unmount '%s': %s", mountpoint,
		       text);
}

int mount_detach(const char *mountpoint, bool lazy, char **message)
{
	int r;

	if (geteuid() != 0)
		return fusermount(mountpoint, lazy, message);
	if (umount2(mountpoint, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	r = -errno;
	if (r == -EBUSY)
		return r;
	return explain(r, message, "cannot unmount '%s': %s", mountpoint,
		       strerror(-r));
}

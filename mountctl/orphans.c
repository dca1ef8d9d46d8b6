#include "mountctl/orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"

/* What the kernel calls the filesystem process, proc_pid_comm(5). */
#define SERVER_COMM "worktreefs\n"

/* /dev/fuse: MISC_MAJOR and FUSE_MINOR, linux/miscdevice.h. */
#define FUSE_DEVICE makedev(10, 229)

#define SMALL_FILE 4096

/* Until a session has written its record, in seconds. */
#define START_TIME 2

/* How links of /proc lead to what has been removed, proc_pid_fd(5). */
#define DELETED " (deleted)"

struct file_id {
	bool exists;
	dev_t device;
	ino_t inode;
};

/* Directories that the one that is looked for has open. */
struct search {
	struct file_id state, worktree, session;
	const char *name; /* borrowed, or NULL */
	char *namespace;  /* the mount namespace that we are in */
};

/* What a process was found to have open. */
struct finding {
	bool state, worktree, session;
	char *name; /* of a session whose lock is in no directory, or NULL */
	struct strings devices;
};

static void finding_release(struct finding *finding)
{
	free(finding->name);
	strings_release(&finding->devices);
}

static struct file_id id_of(int dirfd, const char *path)
{
	struct stat st;

	if (!path || fstatat(dirfd, path, &st, AT_EMPTY_PATH) < 0)
		return (struct file_id){.exists = false};
	return (struct file_id){true, st.st_dev, st.st_ino};
}

static bool is_file(const struct file_id *id, const struct statx *stx)
{
	return id->exists && stx->stx_ino == id->inode &&
	       makedev(stx->stx_dev_major, stx->stx_dev_minor) == id->device;
}

/*
 * Descriptors.
 */

/* ".../NAME/lock (deleted)" */
static int take_name(int fds, const char *number, struct finding *finding)
{
	static const char end[] = "/lock" DELETED;
	autofree char *target = NULL;
	const char *name;
	size_t length;
	int r = read_link_at(fds, number, &target);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	length = strlen(target);
	if (finding->name || length < strlen(end) ||
	    strcmp(target + length - strlen(end), end) != 0)
		return 0;
	target[length - strlen(end)] = '\0';
	name = path_basename(target);
	if (!session_name_is_valid(name))
		return 0;
	finding->name = strdup(name);
	return finding->name ? 0 : -ENOMEM;
}

/* "fuse_connection:\t39": the number of the device, fs/fuse/dev.c */
static int take_device(int dir_fd, const char *number, struct finding *finding)
{
	autofree char *path = NULL, *text = NULL;
	const char *line;
	char device[32];
	unsigned int connection;

	if (asprintf(&path, "fdinfo/%s", number) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (read_file_at(dir_fd, path, SMALL_FILE, &text, NULL) < 0)
		return 0;
	line = strstr(text, "\nfuse_connection:");
	if (!line || sscanf(line, "\nfuse_connection: %u", &connection) != 1 ||
	    connection == 0)
		return 0;
	/* As the kernel has it, include/linux/kdev_t.h. */
	snprintf(device, sizeof(device), "%u:%u", connection >> 20,
		 connection & 0xfffff);
	return strings_contain(&finding->devices, device)
		       ? 0
		       : strings_add(&finding->devices, device);
}

/* The file itself isn't asked: see link_is_on() in holders.c. */
static int look_at(const struct search *search, int dir_fd, int fds,
		   const char *number, struct finding *finding)
{
	struct statx stx;

	if (statx(fds, number, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS, &stx) < 0)
		return 0;
	finding->state |= is_file(&search->state, &stx);
	finding->worktree |= is_file(&search->worktree, &stx);
	finding->session |= is_file(&search->session, &stx);
	if (S_ISREG(stx.stx_mode) && stx.stx_nlink == 0)
		return take_name(fds, number, finding);
	if (S_ISCHR(stx.stx_mode) &&
	    makedev(stx.stx_rdev_major, stx.stx_rdev_minor) == FUSE_DEVICE)
		return take_device(dir_fd, number, finding);
	return 0;
}

static int look_into(const struct search *search, int dir_fd,
		     struct finding *finding)
{
	int fd = openat(dir_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *fds = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!fds)
		cleanup_fdp(&fd);
	while (fds && r == 0 && (entry = readdir(fds)))
		if (entry->d_name[0] != '.')
			r = look_at(search, dir_fd, dirfd(fds), entry->d_name,
				    finding);
	return r;
}

/*
 * Processes.
 */

/*
 * A session can't see what is ours; but its processes can call themselves what
 * they like. They are in a namespace of their own.
 */
static bool is_server(const struct search *search, int dir_fd)
{
	autofree char *comm = NULL, *namespace = NULL;
	struct stat st;

	return fstat(dir_fd, &st) == 0 && st.st_uid == geteuid() &&
	       read_file_at(dir_fd, "comm", SMALL_FILE, &comm, NULL) == 0 &&
	       strcmp(comm, SERVER_COMM) == 0 &&
	       read_link_at(dir_fd, "ns/mnt", &namespace) == 0 &&
	       strcmp(namespace, search->namespace) == 0;
}

static bool is_young(uint64_t start_time)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return start_time / (uint64_t)sysconf(_SC_CLK_TCK) + START_TIME >
	       (uint64_t)now.tv_sec;
}

static bool is_wanted(const struct search *search,
		      const struct finding *finding, uint64_t start_time)
{
	if (finding->session)
		return !is_young(start_time);
	if (!finding->name || (!finding->state && !finding->worktree))
		return false;
	return !search->name || strcmp(search->name, finding->name) == 0;
}

/* 1, 0 or -ENOMEM. */
static int consider(const struct search *search, pid_t pid, int dir_fd,
		    struct record *ret_record)
{
	struct finding finding = {0};
	uint64_t start_time;
	int r = 0;

	if (!is_server(search, dir_fd) ||
	    process_start_time(pid, &start_time) < 0)
		return 0;
	r = look_into(search, dir_fd, &finding);
	if (r == 0 && is_wanted(search, &finding, start_time) &&
	    process_is(pid, start_time)) {
		record_init(ret_record);
		ret_record->spec.name =
			strdup(search->name ? search->name : finding.name);
		ret_record->pid = pid;
		ret_record->start_time = start_time;
		ret_record->live = true;
		ret_record->devices = finding.devices;
		finding.devices = (struct strings){0};
		r = ret_record->spec.name ? 1 : -ENOMEM;
	}
	finding_release(&finding);
	return r;
}

static int search_all(const struct search *search, struct record *ret_record)
{
	autodir DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int r = 0;

	if (!proc)
		return -errno;
	while (r == 0 && (entry = readdir(proc))) {
		autofd int dir_fd = -1;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		dir_fd = openat(dirfd(proc), entry->d_name,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir_fd >= 0)
			r = consider(search,
				     (pid_t)strtol(entry->d_name, NULL, 10),
				     dir_fd, ret_record);
	}
	return r;
}

int orphan_find(const struct orphan_hints *hints, struct record *ret_record)
{
	autofree char *namespace = NULL;
	autofd int session = -1;
	struct search search = {.name = hints->name};
	int r = read_link_at(AT_FDCWD, "/proc/self/ns/mnt", &namespace);

	if (r < 0)
		return r;
	search.namespace = namespace;
	search.state = id_of(AT_FDCWD, hints->state_dir);
	search.worktree = id_of(AT_FDCWD, hints->worktree);
	if (hints->unreadable && record_open(hints->name, &session) == 0)
		search.session = id_of(session, "");
	return search_all(&search, ret_record);
}

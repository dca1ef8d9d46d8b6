#include "mountctl/namespace.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/mountapi.h"
#include "mountctl/output.h"
#include "mountctl/trial.h"

#define PROC_MAX (1u << 20)

/* The whole text of a file below /proc; NULL if it can't be read. */
static char *proc_text(const char *path)
{
	char *text = NULL;

	return read_file_at(AT_FDCWD, path, PROC_MAX, &text, NULL) < 0 ? NULL
								       : text;
}

static int proc_write_at(int dirfd, const char *name, const char *text)
{
	autofd int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* A map is taken from a single write(2) only. */
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static bool has_capability(cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps)
		cap_get_flag(caps, capability, CAP_EFFECTIVE, &value);
	cap_free(caps);
	return value == CAP_SET;
}

/*
 * Why namespaces are refused, and what to do about it
 */

/* A setting that explains an error, if its file holds this value. */
static const struct setting {
	const char *file;
	const char *value;
	bool unprivileged_only;
	const char *text;
} settings[] = {
	{"/proc/sys/user/max_user_namespaces", "0\n", false,
	 "user.max_user_namespaces is 0; as root: sysctl -w "
	 "user.max_user_namespaces=10000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0\n", true,
	 "kernel.unprivileged_userns_clone is 0; as root: sysctl -w "
	 "kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", true,
	 "kernel.apparmor_restrict_unprivileged_userns is 1; as root give "
	 "mountctl an AppArmor profile with 'userns,', or: sysctl -w "
	 "kernel.apparmor_restrict_unprivileged_userns=0"},
};

static bool setting_holds(const struct setting *setting)
{
	autofree char *text = proc_text(setting->file);

	if (setting->unprivileged_only && has_capability(CAP_SYS_ADMIN))
		return false;
	return text && strcmp(text, setting->value) == 0;
}

static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

static const char *why_refused(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (setting_holds(&settings[i]))
			return settings[i].text;
	switch (-r) {
	case ENOSPC:
	case EUSERS:
		return "a limit is reached; see user.max_user_namespaces and "
		       "user.max_mnt_namespaces, and end what isn't needed";
	case EINVAL:
	case ENOSYS:
		return "the kernel was built without them (CONFIG_USER_NS)";
	case EPERM:
	case EACCES:
		if (is_filtered())
			return "a seccomp filter is in force, as container "
			       "run-times set one up; start the container "
			       "with --security-opt seccomp=unconfined, or "
			       "give it CAP_SYS_ADMIN";
		return "a security module, a chroot or a missing capability "
		       "forbids it";
	default:
		return NULL;
	}
}

static int refused(int r, char **message, const char *what)
{
	const char *why = why_refused(r);

	return explain(r, message, "%s: %s%s%s", what, strerror(-r),
		       why ? "; " : "", why ? why : "");
}

/*
 * Mapping ids
 */

enum id_map {
	MAP_UID = 1,
	MAP_GID = 2,
};

/* Maps every id that our own namespace knows to itself. */
static int map_all(int proc_self, const char *name)
{
	autofree char *path = NULL, *own = NULL, *map = NULL;
	char *line, *rest;
	size_t size;
	int r = 0;
	FILE *out;

	if (asprintf(&path, "/proc/self/%s", name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	own = proc_text(path);
	if (!own)
		return -EIO;
	out = open_memstream(&map, &size);
	if (!out)
		return -errno;
	for (line = strtok_r(own, "\n", &rest); line && r == 0;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned int inside, outside, n;

		if (sscanf(line, "%u %u %u", &inside, &outside, &n) != 3)
			r = -EIO;
		else
			fprintf(out, "%u %u %u\n", inside, inside, n);
	}
	if (fclose(out) != 0)
		return -ENOMEM;
	return r < 0 ? r : proc_write_at(proc_self, name, map);
}

/*
 * A child that stays in our present namespaces and, once we have left them,
 * maps the ids: only from there may more than one be mapped. It answers by
 * its exit status, with the maps that failed.
 */
struct mapper {
	pid_t pid;
	int go; /* owned; a byte in it says that we have left */
};

static int mapper_main(int proc_self, int go)
{
	int failed = 0;
	char byte;

	if (read(go, &byte, 1) != 1)
		return 0;
	if (map_all(proc_self, "uid_map") < 0)
		failed |= MAP_UID;
	if (map_all(proc_self, "gid_map") < 0)
		failed |= MAP_GID;
	return failed;
}

static int mapper_start(struct mapper *mapper)
{
	/* The child's idea of "self" is another. */
	autofd int self =
		open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd int go_read = -1;
	int go[2];
	long pid;

	if (self < 0)
		return -errno;
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	go_read = go[0];
	/*
	 * fork(2) without a signal at the child's end: the command must find
	 * none pending, and a caller may ignore SIGCHLD.
	 */
	pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (pid == 0) {
		close(go[1]);
		_exit(mapper_main(self, go_read));
	}
	if (pid < 0) {
		int r = -errno;

		close(go[1]);
		return r;
	}
	*mapper = (struct mapper){.pid = (pid_t)pid, .go = go[1]};
	return 0;
}

/* Ends the child, after it has mapped if it shall. The failed maps or -errno.
 */
static int mapper_finish(struct mapper *mapper, bool map)
{
	int r = 0, status;

	if (map && write(mapper->go, "", 1) != 1)
		r = -EIO;
	close(mapper->go);
	while (waitpid(mapper->pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

/* Maps the caller's own ids alone, which everybody may; which: enum id_map. */
static int map_own(int which, uid_t uid, gid_t gid)
{
	char line[64];
	int r;

	if (which & MAP_UID) {
		snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
		r = proc_write_at(AT_FDCWD, "/proc/self/uid_map", line);
		if (r < 0)
			return r;
	}
	if (which & MAP_GID) {
		r = proc_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
		if (r < 0)
			return r;
		snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
		r = proc_write_at(AT_FDCWD, "/proc/self/gid_map", line);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Entering
 */

/* New user and mount namespaces. 0, or -errno with *stage set. */
static int enter_both(bool map_everything, const char **stage)
{
	struct mapper mapper = {.go = -1};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r, left = MAP_UID | MAP_GID;

	*stage = "cannot start a child process";
	if (map_everything) {
		r = mapper_start(&mapper);
		if (r < 0)
			return r;
	}

	*stage = "cannot make a private user namespace";
	r = unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -errno : 0;
	if (map_everything) {
		left = mapper_finish(&mapper, r == 0);
		if (r == 0 && left < 0)
			r = left;
	}
	if (r < 0)
		return r;

	*stage = "cannot map the user's ids in a user namespace";
	return map_own(left, uid, gid);
}

static int make_private(char **message)
{
	int r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno
								      : 0;

	if (r == -EINVAL)
		return explain(r, message,
			       "cannot make the mounts private: the root "
			       "directory is no mount point, as in a chroot");
	return r < 0 ? refused(r, message, "cannot make the mounts private")
		     : 0;
}

int namespace_enter(enum namespace_kind *ret_kind, char **message)
{
	bool root = geteuid() == 0;
	const char *stage;
	int r;

	r = enter_both(root, &stage);
	if (r == 0)
		*ret_kind = root ? NAMESPACE_ROOT : NAMESPACE_USER;
	else if (root && unshare(CLONE_NEWNS) == 0)
		*ret_kind = NAMESPACE_MOUNT;
	else
		return refused(r, message, stage);
	return make_private(message);
}

int namespace_seal(enum namespace_kind kind, char **message)
{
	const char *stage;
	int r;

	if (kind == NAMESPACE_MOUNT)
		return 0;
	r = enter_both(kind == NAMESPACE_ROOT, &stage);
	return r < 0 ? refused(r, message, stage) : 0;
}

/* Is the process in our own user namespace? 1, 0, or -errno. */
static int shares_user_namespace(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (stat(path, &its) < 0)
		return -errno;
	if (stat("/proc/self/ns/user", &own) < 0)
		return -errno;
	return own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

int namespace_join(int pidfd, pid_t pid, enum namespace_kind *ret_kind,
		   char **message)
{
	enum namespace_kind kind;
	int r = shares_user_namespace(pid);

	if (r > 0)
		kind = NAMESPACE_MOUNT;
	else if (r == 0)
		kind = geteuid() == 0 ? NAMESPACE_ROOT : NAMESPACE_USER;
	/*
	 * In there we have every capability for a moment, and its processes
	 * have our uid.
	 */
	if (r >= 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = -errno;
	if (r >= 0 && setns(pidfd, CLONE_NEWNS | (kind == NAMESPACE_MOUNT
							  ? 0
							  : CLONE_NEWUSER)) < 0)
		r = -errno;
	if (r < 0)
		return explain(r, message,
			       "cannot enter the namespaces of process %d: %s",
			       (int)pid, strerror(-r));
	*ret_kind = kind;
	return 0;
}

bool namespace_is_narrow(void)
{
	return geteuid() != 0 || !has_capability(CAP_SETUID) ||
	       !has_capability(CAP_SETGID);
}

int namespace_open_fuse(char **message)
{
	const char *why = "";
	struct stat st;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int r = -errno;

	if (fd >= 0)
		return fd;
	switch (-r) {
	case ENOENT:
		why = "; load the module (modprobe fuse), or give the "
		      "container the device (--device /dev/fuse)";
		break;
	case ENODEV:
	case ENXIO:
		why = "; the kernel's module isn't there (modprobe fuse)";
		break;
	case EPERM:
		why = "; give the container the device (--device /dev/fuse)";
		break;
	case EACCES:
		if (stat("/dev/fuse", &st) < 0)
			break;
		return explain(r, message,
			       "cannot open /dev/fuse: %s; its mode is %04o, "
			       "as root: chmod 0666 /dev/fuse",
			       strerror(-r), st.st_mode & 07777);
	default:
		break;
	}
	return explain(r, message, "cannot open /dev/fuse: %s%s", strerror(-r),
		       why);
}

/*
 * Probing
 */

static int probe(void *arg, char **message)
{
	enum namespace_kind kind;
	autofd int fuse = -1, fs = -1;
	int r = namespace_enter(&kind, message);

	(void)arg;
	if (r < 0)
		return r;
	fuse = namespace_open_fuse(message);
	if (fuse < 0)
		return fuse;
	fs = mount_new_fuse(fuse, S_IFDIR, 0, false);
	if (fs < 0)
		return refused(fs, message, "cannot mount FUSE");
	return namespace_seal(kind, message);
}

int namespace_probe(char **message)
{
	int r = trial_run(probe, NULL, message);

	if (r == -EINTR || r == -ETIMEDOUT)
		return explain(r, message, "the trial of namespaces was %s",
			       r == -EINTR ? "ended by a signal"
					   : "given up: it takes too long");
	return r;
}

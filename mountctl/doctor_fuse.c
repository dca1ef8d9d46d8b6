#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "mountctl/doctor.h"
#include "mountctl/mountapi.h"
#include "mountctl/namespace.h"
#include "mountctl/output.h"
#include "mountctl/trial.h"

/* Of <linux/fuse.h> of Linux 6.9 and 6.14; headers may be older. */
#define INIT_EXT (UINT64_C(1) << 30)
#define INIT_PASSTHROUGH (UINT64_C(1) << 37)
#define INIT_OVER_IO_URING (UINT64_C(1) << 41)

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)

/* The answer to FUSE_INIT; the rest of it is zero. */
struct init_answer {
	struct fuse_out_header header;
	struct {
		uint32_t major, minor, max_readahead, flags;
		uint16_t max_background, congestion_threshold;
		uint32_t max_write, time_gran;
		uint16_t max_pages, map_alignment;
		uint32_t flags2, max_stack_depth;
		uint16_t unused[12];
	} init;
};

/* The kernel sends no request that is longer before the first answer. */
#define REQUEST_MAX FUSE_MIN_READ_BUFFER
#define REQUEST_MS 5000

/* What the kernel offers; in memory that a child shares. */
struct offer {
	uint32_t major, minor;
	uint64_t flags;
	int backing; /* what BACKING_OPEN answered: 0 or -errno */
};

static void check_device(struct checks *checks)
{
	autofree char *message = NULL;
	autofd int fd = namespace_open_fuse(&message);
	struct stat st;

	if (fd < 0)
		check_error(checks, "fuse-device", CHECK_FAIL, fd, message);
	else if (fstat(fd, &st) < 0)
		check_error(checks, "fuse-device", CHECK_WARN, -errno, NULL);
	else
		check_add(checks, "fuse-device", CHECK_OK,
			  "/dev/fuse can be opened, its mode is %04o",
			  st.st_mode & 07777);
}

static void check_mount(struct checks *checks)
{
	autofree char *message = NULL;
	int r;

	if (checks_worst(checks, "fuse-device") == CHECK_FAIL ||
	    checks_worst(checks, "user-namespaces") == CHECK_FAIL) {
		check_add(checks, "fuse-mount", CHECK_WARN,
			  "not tried: it needs what is lacking above");
		return;
	}
	r = namespace_probe(&message);
	if (r < 0)
		check_error(checks, "fuse-mount", CHECK_FAIL, r, message);
	else
		check_add(checks, "fuse-mount", CHECK_OK,
			  "FUSE can be mounted in a private namespace");
}

/*
 * The helper that mounts for users
 */

/* What Ubuntu's profile since 24.10 allows. */
#define PROFILE "/etc/apparmor.d/fusermount3"

static void check_helper(struct checks *checks)
{
	autofree char *path = doctor_find("fusermount3");
	struct stat st;

	if (!path || stat(path, &st) < 0) {
		bool root = doctor_may(CAP_SYS_ADMIN);

		check_add(checks, "fusermount3", root ? CHECK_OK : CHECK_WARN,
			  root ? "there is none, and root needs none"
			       : "there is none: 'mountctl mount' needs it, "
				 "'run' doesn't");
		if (!root)
			check_mend(checks, "as root install the package fuse3");
		return;
	}
	if (!(st.st_mode & S_ISUID) || st.st_uid != 0) {
		check_add(checks, "fusermount3", CHECK_WARN,
			  "'%s' isn't set-uid root: 'mountctl mount' needs "
			  "that, 'run' doesn't",
			  path);
		check_mend(checks, "as root: chown root '%s'; chmod u+s '%s'",
			   path, path);
		return;
	}
	if (access(PROFILE, F_OK) == 0) {
		check_add(checks, "fusermount3", CHECK_OK,
			  "'%s'; its AppArmor profile allows mount points "
			  "below home, the runtime directory, /tmp, /mnt and "
			  "/media; others go into "
			  "/etc/apparmor.d/local/fusermount3",
			  path);
		return;
	}
	check_add(checks, "fusermount3", CHECK_OK, "'%s', set-uid root", path);
}

static bool allows_other(void)
{
	autofree char *text = doctor_text("/etc/fuse.conf");
	char *line, *rest = text;

	while (rest && (line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t");
		if (strncmp(line, "user_allow_other", 16) == 0 &&
		    line[16 + strspn(line + 16, " \t")] == '\0')
			return true;
	}
	return false;
}

static void check_allow_other(struct checks *checks)
{
	bool allowed = allows_other() || doctor_may(CAP_SYS_ADMIN);

	check_add(checks, "user-allow-other", CHECK_OK, "%s",
		  allowed ? "'mountctl mount -o allow_other' shares a view "
			    "with other users"
			  : "not set in /etc/fuse.conf: a view of 'mountctl "
			    "mount' is its user's alone");
}

/*
 * What the kernel offers to a filesystem: in the first request of a mount.
 */

static int read_init(int fd, struct offer *offer, uint64_t *ret_unique)
{
	_Alignas(struct fuse_in_header) char buffer[REQUEST_MAX];
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	const struct fuse_in_header *header = (const void *)buffer;
	const struct fuse_init_in *init = (const void *)(header + 1);
	ssize_t n;

	if (poll(&ready, 1, REQUEST_MS) != 1)
		return -ETIMEDOUT;
	n = read(fd, buffer, sizeof(buffer));
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(*header) + sizeof(*init) ||
	    header->opcode != FUSE_INIT)
		return -EPROTO;
	offer->major = init->major;
	offer->minor = init->minor;
	offer->flags = init->flags;
	if (offer->flags & INIT_EXT)
		offer->flags |= (uint64_t)init->flags2 << 32;
	*ret_unique = header->unique;
	return 0;
}

static int accept_passthrough(int fd, uint64_t unique)
{
	const uint64_t flags = INIT_EXT | INIT_PASSTHROUGH;
	const struct init_answer answer = {
		.header = {.len = sizeof(answer), .unique = unique},
		.init =
			{
				.major = FUSE_KERNEL_VERSION,
				.minor = FUSE_KERNEL_MINOR_VERSION,
				.max_write = 4096,
				.time_gran = 1,
				.flags = (uint32_t)flags,
				.flags2 = (uint32_t)(flags >> 32),
				.max_stack_depth = 1,
			},
	};

	return write(fd, &answer, sizeof(answer)) < 0 ? -errno : 0;
}

/* Hands a file to the kernel, as the filesystem would. */
static int open_backing(int fd)
{
	autofd int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct backing_map map = {.fd = file};

	if (file < 0)
		return -errno;
	return ioctl(fd, BACKING_OPEN, &map) < 0 ? -errno : 0;
}

/* Mounts, but attaches nothing: the mount is gone with its descriptor. */
static int try_offer(void *arg, char **message)
{
	bool admin = doctor_may(CAP_SYS_ADMIN);
	autofd int fuse = -1, mounted = -1;
	struct offer *offer = arg;
	enum namespace_kind kind;
	uint64_t unique;
	int r = admin ? 0 : namespace_enter(&kind, message);

	if (r < 0)
		return r;
	fuse = namespace_open_fuse(message);
	if (fuse < 0)
		return fuse;
	mounted = mount_new_fuse(fuse, S_IFDIR, 0, false);
	if (mounted < 0)
		return mounted;
	r = read_init(fuse, offer, &unique);
	if (r < 0 || !(offer->flags & INIT_PASSTHROUGH))
		return r;
	r = accept_passthrough(fuse, unique);
	offer->backing = r < 0 ? r : open_backing(fuse);
	return 0;
}

static void report_passthrough(struct checks *checks, const struct offer *offer)
{
	const char *name = "fuse-passthrough";

	if (!(offer->flags & INIT_PASSTHROUGH))
		check_add(checks, name, CHECK_OK,
			  "the kernel doesn't know it (Linux 6.9): data goes "
			  "through the filesystem process");
	else if (offer->backing == 0)
		check_add(checks, name, CHECK_OK,
			  "the kernel reads and writes files by itself");
	else if (offer->backing == -EPERM)
		check_add(checks, name, CHECK_OK,
			  "the host's root alone may: data goes through the "
			  "filesystem process; the native worktree needs none");
	else
		check_add(checks, name, CHECK_WARN,
			  "refused: %s; data goes through the filesystem "
			  "process",
			  strerror(-offer->backing));
}

static void report_offer(struct checks *checks, const struct offer *offer)
{
	report_passthrough(checks, offer);
	check_add(checks, "fuse-io-uring", CHECK_OK,
		  "%s; worktreefs doesn't "
		  "use it",
		  offer->flags & INIT_OVER_IO_URING
			  ? "offered by the kernel"
			  : "not offered by the kernel (Linux 6.14, "
			    "fuse.enable_uring=1)");
}

static void check_offer(struct checks *checks)
{
	autofree char *message = NULL;
	struct offer *offer = mmap(NULL, sizeof(*offer), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (offer == MAP_FAILED) {
		checks->r = -ENOMEM;
		return;
	}
	r = trial_run(try_offer, offer, &message);
	if (r == 0) {
		report_offer(checks, offer);
	} else {
		check_add(checks, "fuse-passthrough", CHECK_WARN, "unknown: %s",
			  message ? message : strerror(-r));
		check_add(checks, "fuse-io-uring", CHECK_WARN, "unknown");
	}
	munmap(offer, sizeof(*offer));
}

void doctor_fuse(struct checks *checks)
{
	check_device(checks);
	check_mount(checks);
	check_helper(checks);
	check_allow_other(checks);
	if (checks_worst(checks, "fuse-device") == CHECK_FAIL)
		return;
	check_offer(checks);
}

/*
 * One attempt to get past the guard an invocation: exits with 0 if it
 * succeeded, else with 1 after the error's message. For tests/e2e.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int done(long r, const char *what)
{
	if (r >= 0)
		return 0;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

/*
 * Terminals: a character is pushed into a new pseudo-terminal that controls
 * this process, for which the kernel itself asks no privilege.
 */

#if defined(__x86_64__)
/* The 32-bit system call interface, which a 64-bit program can use as well. */
static long ioctl_compat(int fd, unsigned int request, void *argument)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(54L), "b"((long)fd), "c"((long)request),
			   "d"(argument)
			 : "memory", "r8", "r9", "r10", "r11");
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}
#else
static long ioctl_compat(int fd, unsigned int request, void *argument)
{
	return syscall(SYS_ioctl, fd, request, argument);
}
#endif

static int open_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	const char *name;
	int slave;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return -1;
	name = ptsname(master);
	if (!name)
		return -1;
	if (getsid(0) != getpid() && setsid() < 0)
		return -1;
	slave = open(name, O_RDWR | O_NOCTTY);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 1) < 0)
		return -1;
	return slave;
}

static int push(char **argv, unsigned long request)
{
	const char *how = argv[0] ? argv[0] : "plain";
	/* Within the reach of a 32-bit pointer. */
	char *byte = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS
#ifdef MAP_32BIT
				  | MAP_32BIT
#endif
			  ,
			  -1, 0);
	int fd = open_terminal();

	if (fd < 0 || byte == MAP_FAILED) {
		fprintf(stderr, "no terminal: %s\n", strerror(errno));
		return 2;
	}
	byte[0] = 'x';
	if (strcmp(how, "high") == 0)
		return done(syscall(SYS_ioctl, fd,
				    request | (unsigned long)1 << 32, byte),
			    how);
	if (strcmp(how, "compat") == 0)
		return done(ioctl_compat(fd, (unsigned int)request, byte), how);
	return done(syscall(SYS_ioctl, fd, request, byte), how);
}

static int try_tiocsti(char **argv)
{
	return push(argv, TIOCSTI);
}

static int try_tioclinux(char **argv)
{
	return push(argv, TIOCLINUX);
}

/*
 * File handles
 */

#define HANDLE_ROOM 128

/* PATH: prints its file handle. */
static int try_handle_of(char **argv)
{
	struct {
		struct file_handle handle;
		unsigned char room[HANDLE_ROOM];
	} h = {.handle.handle_bytes = HANDLE_ROOM};
	int mount;

	if (name_to_handle_at(AT_FDCWD, argv[0], &h.handle, &mount, 0) < 0)
		return done(-1, argv[0]);
	printf("%d ", h.handle.handle_type);
	for (unsigned int i = 0; i < h.handle.handle_bytes; i++)
		printf("%02x", h.handle.f_handle[i]);
	printf("\n");
	return 0;
}

/* DIRECTORY TYPE HEX: opens what a handle of its file system names. */
static int try_handle_open(char **argv)
{
	struct {
		struct file_handle handle;
		unsigned char room[HANDLE_ROOM];
	} h = {.handle.handle_type = atoi(argv[1])};
	int dir = open(argv[0], O_RDONLY | O_DIRECTORY);
	unsigned int byte;

	for (const char *p = argv[2]; sscanf(p, "%2x", &byte) == 1; p += 2)
		h.handle.f_handle[h.handle.handle_bytes++] =
			(unsigned char)byte;
	return done(open_by_handle_at(dir, &h.handle, O_RDWR), argv[0]);
}

/*
 * Namespaces, mounts, processes
 */

/* FILE: enters the namespace that it stands for. */
static int try_setns(char **argv)
{
	int fd = open(argv[0], O_RDONLY);

	return done(fd < 0 ? fd : setns(fd, 0), argv[0]);
}

/* PATH: detaches what is mounted there. */
static int try_umount(char **argv)
{
	return done(umount2(argv[0], MNT_DETACH), argv[0]);
}

/* FROM TO: moves a mount away. */
static int try_move(char **argv)
{
	return done(move_mount(AT_FDCWD, argv[0], AT_FDCWD, argv[1], 0),
		    argv[0]);
}

/* PATH: makes a mount writable again. */
static int try_writable(char **argv)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	return done(mount_setattr(AT_FDCWD, argv[0], 0, &attr, sizeof(attr)),
		    argv[0]);
}

/* PATH: copies a mount without what is mounted below it. */
static int try_peel(char **argv)
{
	return done(open_tree(AT_FDCWD, argv[0], OPEN_TREE_CLONE), argv[0]);
}

/*
 * DIRECTORY NAME: goes to another root directory, lets go of the old one but
 * for DIRECTORY, and makes a file by way of that.
 */
static int try_pivot(char **argv)
{
	int dir = open(argv[0], O_RDONLY | O_DIRECTORY);

	if (dir < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/mnt", "tmpfs", 0, NULL) < 0 || chdir("/mnt") < 0 ||
	    mkdir("old", 0700) < 0 || syscall(SYS_pivot_root, ".", "old") < 0 ||
	    umount2("old", MNT_DETACH) < 0) {
		fprintf(stderr, "no other root: %s\n", strerror(errno));
		return 2;
	}
	return done(openat(dir, argv[1], O_WRONLY | O_CREAT, 0666), argv[1]);
}

/* PID: becomes the tracer of a process. */
static int try_trace(char **argv)
{
	return done(ptrace(PTRACE_SEIZE, (pid_t)atoi(argv[0]), NULL, NULL),
		    argv[0]);
}

/* FD NAME: makes a file by way of a descriptor that was inherited. */
static int try_create_at(char **argv)
{
	return done(openat(atoi(argv[0]), argv[1], O_WRONLY | O_CREAT, 0666),
		    argv[1]);
}

/* FD: opens an inherited descriptor again, for writing. */
static int try_reopen(char **argv)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%s", argv[0]);
	return done(open(path, O_WRONLY), path);
}

static const struct attempt {
	const char *name;
	int arguments; /* at least */
	int (*run)(char **argv);
} attempts[] = {
	/* clang-format off */
	{"tiocsti", 0, try_tiocsti},
	{"tioclinux", 0, try_tioclinux},
	{"handle-of", 1, try_handle_of},
	{"handle-open", 3, try_handle_open},
	{"setns", 1, try_setns},
	{"umount", 1, try_umount},
	{"move", 2, try_move},
	{"writable", 1, try_writable},
	{"peel", 1, try_peel},
	{"trace", 1, try_trace},
	{"create-at", 2, try_create_at},
	{"reopen", 1, try_reopen},
	{"pivot", 2, try_pivot},
	/* clang-format on */
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		if (argc > 1 && strcmp(argv[1], attempts[i].name) == 0 &&
		    argc - 2 >= attempts[i].arguments)
			return attempts[i].run(argv + 2);
	fprintf(stderr, "usage: escape ATTEMPT [ARGUMENT...]\n");
	return 2;
}

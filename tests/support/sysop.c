/*
 * One operation of the kernel's on a path, for shell tests:
 *
 *   sysop OPERATION PATH [ARGUMENT...]
 *
 * prints "ok", or the name of the errno with which the first system call
 * failed, and ends with 0 or 1. What is to change something does change it:
 * who opens for writing writes, who maps stores. Operations whose name begins
 * with f work on a descriptor that was opened for reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"

#define XATTR "user.test"

static int result_of(long r)
{
	return r < 0 ? -errno : 0;
}

/* open(2); the descriptor or -errno. */
static int open_path(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0644);

	return fd < 0 ? -errno : fd;
}

struct word {
	const char *word;
	int value;
};

static const struct word open_words[] = {
	{"rdonly", O_RDONLY},	    {"wronly", O_WRONLY},   {"rdwr", O_RDWR},
	{"append", O_APPEND},	    {"trunc", O_TRUNC},	    {"creat", O_CREAT},
	{"excl", O_EXCL},	    {"tmpfile", O_TMPFILE}, {"path", O_PATH},
	{"directory", O_DIRECTORY},
};

static const struct word rename_words[] = {
	{"noreplace", RENAME_NOREPLACE},
	{"exchange", RENAME_EXCHANGE},
	{"whiteout", RENAME_WHITEOUT},
};

static const struct word access_words[] = {
	{"F", F_OK},
	{"R", R_OK},
	{"W", W_OK},
	{"X", X_OK},
};

static int find_word(const struct word *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].value;
	fprintf(stderr, "sysop: what is '%s'?\n", word);
	exit(2);
}

/* The values of all words from here on, together. */
static int flags_of(const struct word *words, size_t n, char **word)
{
	int flags = 0;

	for (; *word; word++)
		flags |= find_word(words, n, *word);
	return flags;
}

static int open_flags(char **word)
{
	return flags_of(open_words, ARRAY_SIZE(open_words), word);
}

static int do_stat(char **arg)
{
	struct stat st;

	return result_of(stat(arg[0], &st));
}

static int do_lstat(char **arg)
{
	struct stat st;

	return result_of(lstat(arg[0], &st));
}

static int do_statx(char **arg)
{
	struct statx stx;

	return result_of(statx(AT_FDCWD, arg[0], AT_SYMLINK_NOFOLLOW,
			       STATX_BASIC_STATS | STATX_BTIME, &stx));
}

static int do_statfs(char **arg)
{
	struct statfs fs;

	return result_of(statfs(arg[0], &fs));
}

static int do_access(char **arg)
{
	int mode = flags_of(access_words, ARRAY_SIZE(access_words), arg + 1);

	return result_of(access(arg[0], mode));
}

static int do_chdir(char **arg)
{
	return result_of(chdir(arg[0]));
}

static int write_byte(int fd)
{
	return result_of(write(fd, "x", 1));
}

static int do_open(char **arg)
{
	int flags = open_flags(arg + 1);
	autofd int fd = open_path(arg[0], flags);

	if (fd < 0)
		return fd;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return 0;
	return write_byte(fd);
}

/* Opened without a right to anything, and then once more. */
static int do_reopen(char **arg)
{
	autofd int fd = open_path(arg[0], O_PATH);
	char path[64];
	char *again[16] = {path};

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 1; arg[i] && i < ARRAY_SIZE(again) - 1; i++)
		again[i] = arg[i];
	return do_open(again);
}

static int do_read(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);
	char byte;

	if (fd < 0)
		return fd;
	return result_of(read(fd, &byte, 1));
}

static int do_getdents(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY | O_DIRECTORY);
	char entries[4096];

	if (fd < 0)
		return fd;
	return result_of(getdents64(fd, entries, sizeof(entries)));
}

static int do_readlink(char **arg)
{
	char target[4096];

	return result_of(readlink(arg[0], target, sizeof(target)));
}

/* The program at path says "ok" instead of us. */
static int do_execve(char **arg)
{
	char *args[] = {arg[0], NULL};
	char *env[] = {NULL};

	return result_of(execve(arg[0], args, env));
}

static int do_mkdir(char **arg)
{
	return result_of(mkdir(arg[0], 0755));
}

static int do_mknod(char **arg)
{
	return result_of(mknod(arg[0], S_IFIFO | 0644, 0));
}

static int do_symlink(char **arg)
{
	return result_of(symlink("target", arg[0]));
}

static int do_unlink(char **arg)
{
	return result_of(unlink(arg[0]));
}

static int do_rmdir(char **arg)
{
	return result_of(rmdir(arg[0]));
}

static int do_rename(char **arg)
{
	int flags = flags_of(rename_words, ARRAY_SIZE(rename_words), arg + 2);

	return result_of(renameat2(AT_FDCWD, arg[0], AT_FDCWD, arg[1],
				   (unsigned int)flags));
}

static int do_link(char **arg)
{
	return result_of(link(arg[0], arg[1]));
}

static int do_truncate(char **arg)
{
	return result_of(truncate(arg[0], 1));
}

static int do_ftruncate(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDWR);

	return fd < 0 ? fd : result_of(ftruncate(fd, 1));
}

static int do_chmod(char **arg)
{
	return result_of(chmod(arg[0], 0700));
}

static int do_fchmod(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);

	return fd < 0 ? fd : result_of(fchmod(fd, 0700));
}

static int do_fchmodat(char **arg)
{
	return result_of(fchmodat(AT_FDCWD, arg[0], 0700, 0));
}

static int do_chown(char **arg)
{
	return result_of(chown(arg[0], geteuid(), getegid()));
}

static int do_lchown(char **arg)
{
	return result_of(lchown(arg[0], geteuid(), getegid()));
}

static int do_fchown(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);

	return fd < 0 ? fd : result_of(fchown(fd, geteuid(), getegid()));
}

static const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 2}};

static int do_utimensat(char **arg)
{
	return result_of(
		utimensat(AT_FDCWD, arg[0], past, AT_SYMLINK_NOFOLLOW));
}

/* Both times now, as touch(1) has it: whoever may write may do that. */
static int do_touch(char **arg)
{
	return result_of(utimensat(AT_FDCWD, arg[0], NULL, 0));
}

static int do_futimens(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);

	return fd < 0 ? fd : result_of(futimens(fd, past));
}

static int do_getxattr(char **arg)
{
	char value[64];

	return result_of(getxattr(arg[0], XATTR, value, sizeof(value)));
}

static int do_listxattr(char **arg)
{
	char names[4096];

	return result_of(listxattr(arg[0], names, sizeof(names)));
}

static int do_setxattr(char **arg)
{
	const char *name = arg[1] ? arg[1] : XATTR;

	return result_of(setxattr(arg[0], name, "new", 3, 0));
}

static int do_fsetxattr(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);

	return fd < 0 ? fd : result_of(fsetxattr(fd, XATTR, "new", 3, 0));
}

static int do_removexattr(char **arg)
{
	return result_of(removexattr(arg[0], XATTR));
}

static int do_fremovexattr(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);

	return fd < 0 ? fd : result_of(fremovexattr(fd, XATTR));
}

static int do_fallocate(char **arg)
{
	autofd int fd = open_path(arg[0], O_WRONLY);

	return fd < 0 ? fd : result_of(fallocate(fd, 0, 0, 8192));
}

static int do_copy_file_range(char **arg)
{
	autofd int in = open_path(arg[0], O_RDONLY);
	autofd int out = in < 0 ? -1 : open_path(arg[1], O_WRONLY);

	if (in < 0 || out < 0)
		return in < 0 ? in : out;
	return result_of(copy_file_range(in, NULL, out, NULL, 4, 0));
}

static int do_getflags(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);
	int flags;

	return fd < 0 ? fd : result_of(ioctl(fd, FS_IOC_GETFLAGS, &flags));
}

static int do_setflags(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);
	int flags, r;

	if (fd < 0)
		return fd;
	r = result_of(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	if (r < 0)
		return r;
	flags |= FS_NODUMP_FL;
	return result_of(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

static int do_setfsxattr(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);
	struct fsxattr attr;
	int r;

	if (fd < 0)
		return fd;
	r = result_of(ioctl(fd, FS_IOC_FSGETXATTR, &attr));
	if (r < 0)
		return r;
	attr.fsx_xflags |= FS_XFLAG_NODUMP;
	return result_of(ioctl(fd, FS_IOC_FSSETXATTR, &attr));
}

/* Maps the file, opened and mapped as wanted, and stores where it may. */
static int map(const char *path, int flags, int protection)
{
	autofd int fd = open_path(path, flags);
	char *at;
	int r = 0;

	if (fd < 0)
		return fd;
	at = mmap(NULL, 4096, protection, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (protection & PROT_WRITE) {
		at[0] = 'x';
		r = result_of(msync(at, 4096, MS_SYNC));
	}
	munmap(at, 4096);
	return r;
}

static int do_mmap_read(char **arg)
{
	return map(arg[0], O_RDONLY, PROT_READ);
}

static int do_mmap_write(char **arg)
{
	return map(arg[0], O_RDWR, PROT_READ | PROT_WRITE);
}

/* A mapping to read from that would become one to write to. */
static int do_mprotect(char **arg)
{
	autofd int fd = open_path(arg[0], O_RDONLY);
	void *at;

	if (fd < 0)
		return fd;
	at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	return result_of(mprotect(at, 4096, PROT_READ | PROT_WRITE));
}

static const struct operation {
	const char *name;
	int (*run)(char **arg); /* 0 or -errno; arguments end with NULL */
	int n_args;		/* at least */
} operations[] = {
	{"stat", do_stat, 1},
	{"lstat", do_lstat, 1},
	{"statx", do_statx, 1},
	{"statfs", do_statfs, 1},
	{"access", do_access, 2}, /* PATH F|R|W|X... */
	{"chdir", do_chdir, 1},
	{"open", do_open, 2},	  /* PATH WORD..., see open_words */
	{"reopen", do_reopen, 2}, /* the same, through /proc/self/fd */
	{"read", do_read, 1},
	{"getdents", do_getdents, 1},
	{"readlink", do_readlink, 1},
	{"execve", do_execve, 1},
	{"mkdir", do_mkdir, 1},
	{"mknod", do_mknod, 1},
	{"symlink", do_symlink, 1},
	{"unlink", do_unlink, 1},
	{"rmdir", do_rmdir, 1},
	{"rename", do_rename, 2}, /* FROM TO [WORD...] */
	{"link", do_link, 2},	  /* FROM TO */
	{"truncate", do_truncate, 1},
	{"ftruncate", do_ftruncate, 1},
	{"chmod", do_chmod, 1},
	{"fchmod", do_fchmod, 1},
	{"fchmodat", do_fchmodat, 1},
	{"chown", do_chown, 1},
	{"lchown", do_lchown, 1},
	{"fchown", do_fchown, 1},
	{"utimensat", do_utimensat, 1},
	{"touch", do_touch, 1},
	{"futimens", do_futimens, 1},
	{"getxattr", do_getxattr, 1},
	{"listxattr", do_listxattr, 1},
	{"setxattr", do_setxattr, 1}, /* PATH [NAME] */
	{"fsetxattr", do_fsetxattr, 1},
	{"removexattr", do_removexattr, 1},
	{"fremovexattr", do_fremovexattr, 1},
	{"fallocate", do_fallocate, 1},
	{"copy_file_range", do_copy_file_range, 2}, /* FROM TO */
	{"getflags", do_getflags, 1},
	{"setflags", do_setflags, 1},
	{"setfsxattr", do_setfsxattr, 1},
	{"mmap_read", do_mmap_read, 1},
	{"mmap_write", do_mmap_write, 1},
	{"mprotect", do_mprotect, 1},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(operations); i++) {
		int r;

		if (strcmp(operations[i].name, argv[1]) != 0)
			continue;
		if (argc - 2 < operations[i].n_args)
			break;
		r = operations[i].run(argv + 2);
		puts(r < 0 ? strerrorname_np(-r) : "ok");
		return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	fprintf(stderr, "usage: sysop OPERATION PATH [ARGUMENT...]\n");
	return 2;
}

#include "mountctl/attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"

/* Of <linux/magic.h>. */
#define FUSE_MAGIC 0x65735546

const char *const attempts_files[] = {
	"file", "renamed", "removed", "exchanged", ATTEMPTS_DIRECTORY "/file",
};
const size_t attempts_n_files = ARRAY_SIZE(attempts_files);

static int result_of(long r)
{
	return r < 0 ? errno : 0;
}

/*
 * Changes; each is made in the directory of a checkout, and answers 0 or an
 * errno.
 */

static int attempt_write(void)
{
	autofd int fd = open("file", O_WRONLY | O_APPEND | O_CLOEXEC);

	return fd < 0 ? errno : result_of(write(fd, "x", 1));
}

static int attempt_create(void)
{
	autofd int fd =
		open("created", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return result_of(fd);
}

static int attempt_mmap(void)
{
	autofd int fd = open("file", O_RDWR | O_CLOEXEC);
	char *at;
	int r;

	if (fd < 0)
		return errno;
	at = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return errno;
	at[0] = 'm';
	r = result_of(msync(at, 1, MS_SYNC));
	munmap(at, 1);
	return r;
}

static int attempt_truncate(void)
{
	return result_of(truncate("file", 1));
}

static int attempt_chmod(void)
{
	return result_of(chmod("file", 0755));
}

static int attempt_utimens(void)
{
	static const struct timespec past[] = {{.tv_sec = 1}, {.tv_sec = 2}};

	return result_of(utimensat(AT_FDCWD, "file", past, 0));
}

static int attempt_setxattr(void)
{
	return result_of(setxattr("file", "user.worktreefs", "x", 1, 0));
}

static int attempt_link(void)
{
	return result_of(link("file", "linked"));
}

static int attempt_symlink(void)
{
	return result_of(symlink("file", "symlink"));
}

static int attempt_mkdir(void)
{
	return result_of(mkdir("made", 0755));
}

static int attempt_rename(void)
{
	return result_of(rename("renamed", "renamed-to"));
}

static int attempt_exchange(void)
{
	return result_of(renameat2(AT_FDCWD, "exchanged", AT_FDCWD,
				   ATTEMPTS_DIRECTORY "/file",
				   RENAME_EXCHANGE));
}

static int attempt_unlink(void)
{
	return result_of(unlink("removed"));
}

static const struct change {
	const char *name;
	int (*make)(void);
} changes[] = {
	{"write", attempt_write},	{"create", attempt_create},
	{"mmap", attempt_mmap},		{"truncate", attempt_truncate},
	{"chmod", attempt_chmod},	{"utimens", attempt_utimens},
	{"setxattr", attempt_setxattr}, {"link", attempt_link},
	{"symlink", attempt_symlink},	{"mkdir", attempt_mkdir},
	{"rename", attempt_rename},	{"exchange", attempt_exchange},
	{"unlink", attempt_unlink},
};

const char *attempts_change(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		if (strcmp(changes[i].name, name) == 0)
			return changes[i].name;
	return NULL;
}

static int change_in(const char *directory, const struct change *change)
{
	return chdir(directory) < 0 ? errno : change->make();
}

/*
 * Others
 */

struct place {
	const char *main;
	const char *worktree;
};

/* "git -C WORKTREE ..."; its exit status, or 128 where it can't be run. */
static int git(const struct place *place, const char *const *args)
{
	const char *argv[16] = {
		"-C", place->worktree,	      "-c", "core.hooksPath=/dev/null",
		"-c", "commit.gpgSign=false",
	};
	autogitoutput struct git_output output = {0};

	for (size_t i = 0, n = 6; args[i] && n < ARRAY_SIZE(argv) - 1; i++)
		argv[n++] = args[i];
	return git_run(argv, &output) < 0 ? 128 : output.status;
}

static int attempt_commit(const struct place *place)
{
	static const char *const add[] = {"add", "-A", NULL};
	static const char *const commit[] = {"commit", "-q", "-m",
					     ATTEMPTS_SUBJECT, NULL};
	int status = git(place, add);

	return status ? status : git(place, commit);
}

/* Is the file system at the path FUSE? */
static bool is_fuse(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == FUSE_MAGIC;
}

static int attempt_native(const struct place *place)
{
	return is_fuse(place->main) && !is_fuse(place->worktree) ? 0 : ENOTSUP;
}

/* 0 where it is refused with EROFS. */
static int attempt_hook(const struct place *place)
{
	autofree char *path =
		path_join(place->main, ".git/hooks/post-checkout");
	autofd int fd = -1;

	if (!path)
		return ENOMEM;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd >= 0)
		return EEXIST;
	return errno == EROFS ? 0 : errno;
}

/* 0 where git can't. */
static int attempt_config(const struct place *place)
{
	static const char *const args[] = {"config", "core.hooksPath", "hooks",
					   NULL};

	return git(place, args) ? 0 : EEXIST;
}

/* The worktree is a commit ahead. */
static int attempt_branch(const struct place *place)
{
	static const char *const args[] = {"update-ref", "refs/heads/main",
					   "HEAD", NULL};

	return git(place, args) ? 0 : EEXIST;
}

static const struct other {
	const char *name;
	int (*run)(const struct place *place);
} others[] = {
	{"native", attempt_native}, {"commit", attempt_commit},
	{"hook", attempt_hook},	    {"config", attempt_config},
	{"branch", attempt_branch},
};

int attempts_main(const char *main, const char *worktree)
{
	const struct place place = {.main = main, .worktree = worktree};
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		int in_main = change_in(main, &changes[i]);

		printf("%s %d %d\n", changes[i].name, in_main,
		       change_in(worktree, &changes[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		printf("=%s %d\n", others[i].name, others[i].run(&place));
	printf(".\n");
	if (fflush(stdout) != 0)
		return 1;
	/* The session shall live until it was looked at. */
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

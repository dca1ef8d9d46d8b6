#include "mountctl/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/child.h"
#include "mountctl/output.h"

/* One may be taken for a left one, and be gone, before it is locked. */
#define TRIES 10

#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Directories to be made in it, and the variables that name them. */
static const struct {
	const char *name;
	const char *variable;
} directories[] = {
	{"home", "HOME"},
	{"home/.config", "XDG_CONFIG_HOME"},
	{"run", "XDG_RUNTIME_DIR"},
	{"state", "XDG_STATE_HOME"},
	{"main", NULL},
};

/* What would have mountctl do something else. */
static const char *const unset[] = {
	"WORKTREEFS",	 "WORKTREEFS_FALLBACK",	    "WORKTREEFS_TIER_FILE",
	"VINTA_SANDBOX", "VINTA_SANDBOX_TIER_FILE", "GIT_DIR",
	"GIT_WORK_TREE", "GIT_INDEX_FILE",
};

static const char *base(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && tmp[0] == '/' ? tmp : "/tmp";
}

/* What the names of this user's begin with; allocated, or NULL. */
static char *prefix(void)
{
	char *text;

	return asprintf(&text, "worktreefs-doctor-%lu-",
			(unsigned long)geteuid()) < 0
		       ? NULL
		       : text;
}

/*
 * Removing
 */

static int remove_entry(const char *path, const struct stat *st, int type,
			struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	return (type == FTW_DP ? rmdir(path) : unlink(path)) < 0 ? -errno : 0;
}

static int remove_tree(const char *path)
{
	int r = nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	return r == -1 ? -errno : r;
}

static void end_session(const char *name)
{
	const char *const args[] = {"unmount",	 name, "--lazy",
				    "--timeout", "10", NULL};
	struct child child;

	if (child_start(args, -1, false, &child) < 0)
		return;
	child_finish(&child);
	child_release(&child);
}

/*
 * Are records in the scratch directory? Where its own can't be used, mountctl
 * takes another, with the user's own sessions in it.
 */
static bool has_records(const char *path)
{
	autofree char *base_path = NULL, *real = NULL;
	autofd int fd = -1;

	return record_base_open(false, &fd, &base_path) == 0 &&
	       dir_real_path(path, &real) == 0 &&
	       path_starts_with(base_path, real, NULL);
}

static void end_sessions(const char *path)
{
	struct strings names = {0};

	if (has_records(path) && record_list(&names) == 0)
		for (size_t i = 0; i < names.n; i++)
			end_session(names.s[i]);
	strings_release(&names);
}

static void release(struct scratch *scratch)
{
	cleanup_fdp(&scratch->lock);
	free(scratch->path);
	free(scratch->main);
	free(scratch->worktree);
	*scratch = (struct scratch){.lock = -1};
}

int scratch_remove(struct scratch *scratch)
{
	int r;

	end_sessions(scratch->path);
	r = remove_tree(scratch->path);
	release(scratch);
	return r;
}

/* Locks the directory. 0, -EBUSY: it is in use; -ESTALE: it is gone. */
static int lock_directory(const char *path, int *ret_lock)
{
	autofd int fd = open(path, DIRECTORY_FLAGS);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -ESTALE;
	if (st.st_uid != geteuid())
		return -EPERM;
	*ret_lock = take_fd(&fd);
	return 0;
}

static void clear_one(const char *path)
{
	autofree char *run = path_join(path, "run");
	autofd int lock = -1;

	if (!run || lock_directory(path, &lock) < 0)
		return;
	if (setenv("XDG_RUNTIME_DIR", run, 1) < 0)
		return;
	end_sessions(path);
	remove_tree(path);
}

void scratch_clear_left(void)
{
	autofree char *mine = prefix();
	autodir DIR *dir = opendir(base());
	const struct dirent *entry;

	while (mine && dir && (entry = readdir(dir))) {
		autofree char *path = NULL;

		if (strncmp(entry->d_name, mine, strlen(mine)) != 0)
			continue;
		path = path_join(base(), entry->d_name);
		if (path)
			clear_one(path);
	}
}

/*
 * Making
 */

static int make_locked(const char *template, struct scratch *scratch)
{
	autofree char *path = NULL;
	int r = -ESTALE;

	for (int i = 0; i < TRIES && r == -ESTALE; i++) {
		free(path);
		path = strdup(template);
		if (!path)
			return -ENOMEM;
		if (!mkdtemp(path))
			return -errno;
		r = lock_directory(path, &scratch->lock);
	}
	if (r < 0)
		return r;
	return dir_real_path(path, &scratch->path);
}

static int fill(struct scratch *scratch)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		const char *variable = directories[i].variable;
		autofree char *path =
			path_join(scratch->path, directories[i].name);

		if (!path)
			return -ENOMEM;
		if (mkdir(path, 0700) < 0)
			return -errno;
		if (variable && setenv(variable, path, 1) < 0)
			return -errno;
	}
	for (size_t i = 0; i < ARRAY_SIZE(unset); i++)
		unsetenv(unset[i]);
	scratch->main = path_join(scratch->path, "main");
	scratch->worktree = path_join(scratch->path, "main/wt");
	return scratch->main && scratch->worktree ? 0 : -ENOMEM;
}

int scratch_make(struct scratch *ret_scratch, char **message)
{
	autofree char *mine = prefix(), *template = NULL;
	struct scratch scratch = {.lock = -1};
	int r;

	if (!mine || asprintf(&template, "%s/%sXXXXXX", base(), mine) < 0) {
		template = NULL;
		return -ENOMEM;
	}
	r = make_locked(template, &scratch);
	if (r < 0) {
		release(&scratch);
		return explain(r, message,
			       "cannot make a directory in '%s': %s; set "
			       "TMPDIR to where one can be made",
			       base(), strerror(-r));
	}
	r = fill(&scratch);
	if (r < 0) {
		remove_tree(scratch.path);
		release(&scratch);
		return explain(r, message, "cannot fill '%s': %s", base(),
			       strerror(-r));
	}
	*ret_scratch = scratch;
	return 0;
}

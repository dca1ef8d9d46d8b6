#include "mountctl/removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitpointer.h"
#include "fs/lib/path.h"
#include "mountctl/gitask.h"
#include "mountctl/mounts.h"
#include "mountctl/output.h"
#include "mountctl/treeremove.h"

#define MARK ".worktreefs-removed-"
#define REASON_MAX 4096

/* Of a name: with what is added there are at most 255 bytes. */
#define NAME_KEPT 200

/*
 * What stands in the way.
 */

/* See gitlock.h for what a session's lock says. */
static bool is_lock_of(const char *reason, const char *session)
{
	static const char beginning[] = "worktreefs session ";
	size_t length = strlen(beginning);

	return session && strncmp(reason, beginning, length) == 0 &&
	       strncmp(reason + length, session, strlen(session)) == 0 &&
	       reason[length + strlen(session)] == ' ';
}

static int check_lock(const struct gitrepo *repo, const struct worktree *w,
		      const char *session, char **message)
{
	autofree char *path = NULL, *reason = NULL;
	int r;

	if (!w->locked)
		return 0;
	if (asprintf(&path, "%s/worktrees/%s/locked", repo->git_dir, w->id) <
	    0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_file_at(AT_FDCWD, path, REASON_MAX, &reason, NULL);
	/* A session that has just ended took it away. */
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		reason[strcspn(reason, "\n")] = '\0';
	if (reason && is_lock_of(reason, session))
		return 0;
	if (reason && reason[0])
		return explain(-EBUSY, message,
			       "'%s' stays: it is locked: %s; 'git worktree "
			       "unlock' unlocks it",
			       w->path, reason);
	return explain(-EBUSY, message,
		       "'%s' stays: it is locked; 'git worktree unlock' "
		       "unlocks it",
		       w->path);
}

static int check_checkouts(const struct gitrepo *repo, ssize_t index,
			   const char *path, char **message)
{
	const char *inside = NULL;

	if (path_starts_with(repo->git_dir, path, NULL))
		inside = repo->git_dir;
	if (repo->main && path_starts_with(repo->main, path, NULL))
		inside = repo->main;
	for (size_t i = 0; i < repo->n_worktrees; i++)
		if ((ssize_t)i != index && repo->worktrees[i].exists &&
		    path_starts_with(repo->worktrees[i].path, path, NULL))
			inside = repo->worktrees[i].path;
	return inside ? explain(-EBUSY, message, "'%s' stays: '%s' lies in it",
				path, inside)
		      : 0;
}

/* One without a .git is a worktree that has lost it. */
static int check_pointer(const struct worktree *w, const char *path,
			 char **message)
{
	if (w->exists || !git_has_entry(path, ".git"))
		return 0;
	return explain(-EBUSY, message,
		       "'%s' stays: its .git doesn't lead to the worktree that "
		       "the repository knows; 'git worktree repair' mends that",
		       path);
}

static int check_mounts(const char *path, char **message)
{
	autofree char *mountpoint = NULL;
	int r = mount_find_below(path, &mountpoint);

	if (r < 0)
		return explain(r, message, "cannot read the mounts: %s",
			       strerror(-r));
	return r > 0 ? explain(-EBUSY, message,
			       "'%s' stays: something is mounted at '%s'", path,
			       mountpoint)
		     : 0;
}

int removal_check(const struct gitrepo *repo, ssize_t index, const char *path,
		  const char *session, char **message)
{
	const struct worktree *worktree = &repo->worktrees[index];
	int r = check_lock(repo, worktree, session, message);

	if (r == 0)
		r = check_pointer(worktree, path, message);
	if (r == 0)
		r = check_checkouts(repo, index, path, message);
	return r < 0 ? r : check_mounts(path, message);
}

/*
 * The removal.
 */

/* The directory that the worktree lies in, and how what is moved begins. */
struct spot {
	int dir;
	const char *name; /* borrowed */
	char *prefix;
};

static void spot_release(struct spot *spot)
{
	cleanup_fdp(&spot->dir);
	free(spot->prefix);
}

/* 0; -ENOENT: not even the directory is there. */
static int find_spot(const char *worktree, struct spot *spot)
{
	autofree char *parent = path_dirname(worktree);

	spot->name = path_basename(worktree);
	if (!parent ||
	    asprintf(&spot->prefix, ".%.*s" MARK, NAME_KEPT, spot->name) < 0) {
		spot->prefix = NULL;
		return -ENOMEM;
	}
	spot->dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return spot->dir < 0 ? -errno : 0;
}

/* Allocated; NULL: out of memory. */
static char *moved_name(const struct spot *spot)
{
	uint64_t random;
	char *name;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random) ||
	    asprintf(&name, "%s%016" PRIx64, spot->prefix, random) < 0)
		return NULL;
	return name;
}

static int move_aside(const struct spot *spot)
{
	autofree char *aside = moved_name(spot);

	if (!aside)
		return -ENOMEM;
	if (renameat2(spot->dir, spot->name, spot->dir, aside,
		      RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return errno == ENOENT ? 0 : -errno;
	/* A file system that doesn't know the flag. */
	return renameat(spot->dir, spot->name, spot->dir, aside) < 0 ? -errno
								     : 0;
}

/*
 * Is it what git leaves of an admin directory when it is interrupted? It asks
 * for these three before it takes one for a worktree's.
 */
static bool is_torso(const char *admin_dir)
{
	return !git_has_entry(admin_dir, "gitdir") ||
	       !git_has_entry(admin_dir, "commondir") ||
	       !git_has_entry(admin_dir, "HEAD");
}

/*
 * git does it, but for what it makes nothing of any more: a torso, or a path
 * that isn't even in a directory.
 */
static int forget(const char *git_dir, const char *worktree,
		  const char *admin_dir, bool has_parent, char **message)
{
	const struct git_place place = {.git_dir = git_dir};
	autogitoutput struct git_output output = {0};
	int r;

	if (!admin_dir || access(admin_dir, F_OK) < 0)
		return 0;
	if (!is_torso(admin_dir) &&
	    (has_parent || git_has_entry(admin_dir, "locked")))
		return GIT_ASK(&place, &output, message, "worktree", "remove",
			       "--force", worktree);
	r = tree_remove_at(AT_FDCWD, admin_dir);
	return r < 0 ? explain(r, message, "cannot remove '%s': %s", admin_dir,
			       strerror(-r))
		     : 0;
}

/* Of moved_name()'s making? */
static bool is_moved(const struct spot *spot, const char *name)
{
	size_t length = strlen(spot->prefix);

	return strncmp(name, spot->prefix, length) == 0 &&
	       strlen(name + length) == 16 &&
	       strspn(name + length, "0123456789abcdef") == 16;
}

/* Also what an earlier removal was broken off at. */
static int remove_moved(const struct spot *spot, char **message)
{
	int fd = openat(spot->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int first = 0;

	if (!dir)
		cleanup_fdp(&fd);
	while (dir && (entry = readdir(dir))) {
		int r = 0;

		if (is_moved(spot, entry->d_name))
			r = tree_remove_at(spot->dir, entry->d_name);
		if (r < 0 && first == 0)
			first = explain(r, message,
					"the worktree is removed, but its "
					"files are left in '%s': %s",
					entry->d_name, strerror(-r));
	}
	return first;
}

int removal_do(const char *git_dir, const char *worktree, const char *admin_dir,
	       char **message)
{
	struct spot spot = {.dir = -1};
	int r = find_spot(worktree, &spot);

	if (r == 0)
		r = move_aside(&spot);
	if (r < 0 && r != -ENOENT)
		explain(r, message, "cannot remove '%s': %s", worktree,
			strerror(-r));
	else
		r = forget(git_dir, worktree, admin_dir, spot.dir >= 0,
			   message);
	if (r == 0 && spot.dir >= 0)
		r = remove_moved(&spot, message);
	spot_release(&spot);
	return r;
}

int removal_finish(const char *worktree, char **message)
{
	struct spot spot = {.dir = -1};
	int r = find_spot(worktree, &spot);

	if (r == 0)
		r = remove_moved(&spot, message);
	spot_release(&spot);
	return r == -ENOENT ? 0 : r;
}

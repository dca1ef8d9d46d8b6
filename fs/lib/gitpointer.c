#include "fs/lib/gitpointer.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/githead.h"
#include "fs/lib/path.h"

/* The longest gitfile that git reads. */
#define MAX_POINTER (1u << 20)

#define WHITE_SPACE " \t\n\v\f\r"

int git_refuse(int error, char **ret_message, const char *format, ...)
{
	char *message;
	va_list args;
	int n;

	if (!ret_message)
		return error;
	va_start(args, format);
	n = vasprintf(&message, format, args);
	va_end(args);
	if (n < 0)
		return -ENOMEM;
	*ret_message = message;
	return error;
}

int git_pointer_error(int r)
{
	bool dangling = r == -ENOENT || r == -ENOTDIR || r == -ELOOP ||
			r == -ENAMETOOLONG;

	return dangling ? -EINVAL : r;
}

/*
 * Reads a file of git's that holds a prefix and a path, which ends before the
 * bytes in trim. A relative path is made absolute against the directory of the
 * file, but nothing in it is resolved yet.
 */
static int read_pointer(const char *file, const char *prefix, const char *trim,
			char **ret_path, char **ret_message)
{
	autofree char *text = NULL;
	autofree char *dir = path_dirname(file);
	size_t size, skip = strlen(prefix);
	char *path;
	int r;

	if (!dir)
		return -ENOMEM;
	r = read_file_at(AT_FDCWD, file, MAX_POINTER, &text, &size);
	if (r == -EINVAL || r == -ELOOP)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' isn't a regular file", file);
	if (r == -EFBIG)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' is too long to be git's", file);
	if (r < 0)
		return git_refuse(git_pointer_error(r), ret_message,
				  "cannot read '%s': %s", file, strerror(-r));

	if (strlen(text) != size || strncmp(text, prefix, skip) != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' isn't written as git writes it", file);
	while (size > skip && strchr(trim, text[size - 1]))
		text[--size] = '\0';
	if (size == skip)
		return git_refuse(-EINVAL, ret_message, "'%s' names no path",
				  file);

	path = text[skip] == '/' ? strdup(text + skip)
				 : path_join(dir, text + skip);
	if (!path)
		return -ENOMEM;
	*ret_path = path;
	return 0;
}

bool git_has_entry(const char *dir, const char *name)
{
	autofd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_dir(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

bool git_is_git_dir(const char *dir)
{
	autofd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || !git_head_is_valid(fd))
		return false;
	return git_has_entry(dir, "commondir") ||
	       (has_dir(fd, "objects") && has_dir(fd, "refs"));
}

int git_follow_dot_git(const char *dir, char **ret_git_dir, char **ret_message)
{
	autofree char *dot_git = path_join(dir, ".git");
	autofree char *target = NULL;
	autofree char *real = NULL;
	struct stat st;
	int r;

	if (!dot_git)
		return -ENOMEM;
	if (lstat(dot_git, &st) < 0) {
		r = -errno;
		if (r == -ENOENT || r == -ENOTDIR)
			return 0;
		return git_refuse(r, ret_message, "cannot look at '%s': %s",
				  dot_git, strerror(-r));
	}
	if (S_ISDIR(st.st_mode) && !git_is_git_dir(dot_git))
		return 0;
	if (S_ISREG(st.st_mode)) {
		r = read_pointer(dot_git, "gitdir: ", "\r\n", &target,
				 ret_message);
		if (r < 0)
			return r;
	} else if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)) {
		target = strdup(dot_git);
		if (!target)
			return -ENOMEM;
	} else {
		return 0;
	}

	r = dir_real_path(target, &real);
	if (r < 0)
		return git_refuse(
			git_pointer_error(r), ret_message,
			"'%s' leads to '%s': %s; if that was moved, 'git "
			"worktree repair' mends it",
			dot_git, target, strerror(-r));
	if (!git_is_git_dir(real))
		return git_refuse(
			-EINVAL, ret_message,
			"'%s' leads to '%s', which isn't a git directory",
			dot_git, real);
	*ret_git_dir = steal_pointer(&real);
	return 1;
}

int git_read_back_pointer(const char *admin, char **ret_top, char **ret_message)
{
	autofree char *file = path_join(admin, "gitdir");
	autofree char *target = NULL;
	autofree char *top = NULL;
	int r;

	if (!file)
		return -ENOMEM;
	r = read_pointer(file, "", WHITE_SPACE, &target, ret_message);
	if (r < 0)
		return r;
	if (strcmp(path_basename(target), ".git") != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' names '%s', which isn't the .git of a "
				  "worktree",
				  file, target);
	top = path_dirname(target);
	if (!top)
		return -ENOMEM;
	*ret_top = steal_pointer(&top);
	return 0;
}

int git_check_back_pointer(const char *top, const char *admin,
			   char **ret_message)
{
	autofree char *back = NULL;
	autofree char *real = NULL;
	int r;

	r = git_read_back_pointer(admin, &back, ret_message);
	if (r < 0)
		return r;
	r = dir_real_path(back, &real);
	if (r == 0 && !strcmp(real, top))
		return 0;
	return git_refuse(-EINVAL, ret_message,
			  "'%s/.git' leads to '%s', but '%s/gitdir' names "
			  "'%s/.git': it is forged, copied or was moved; 'git "
			  "worktree repair' mends it after a move",
			  top, admin, admin, back);
}

int git_resolve_admin_dir(const char *admin, char **ret_git_dir, char **ret_id,
			  char **ret_message)
{
	autofree char *file = path_join(admin, "commondir");
	autofree char *target = NULL;
	autofree char *git_dir = NULL;
	autofree char *expected = NULL;
	autofree char *id = strdup(path_basename(admin));
	int r;

	if (!file || !id)
		return -ENOMEM;
	r = read_pointer(file, "", "\r\n", &target, ret_message);
	if (r < 0)
		return r;
	r = dir_real_path(target, &git_dir);
	if (r < 0)
		return git_refuse(git_pointer_error(r), ret_message,
				  "'%s' leads to '%s': %s", file, target,
				  strerror(-r));
	if (!git_is_git_dir(git_dir) || git_has_entry(git_dir, "commondir"))
		return git_refuse(-EINVAL, ret_message,
				  "'%s' leads to '%s', which isn't the git "
				  "directory of a repository",
				  file, git_dir);

	if (asprintf(&expected, "%s/worktrees/%s", git_dir, id) < 0) {
		expected = NULL;
		return -ENOMEM;
	}
	if (strcmp(admin, expected) != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' leads to '%s', but '%s' isn't in "
				  "'%s/worktrees': it is forged or was moved",
				  file, git_dir, admin, git_dir);
	*ret_git_dir = steal_pointer(&git_dir);
	*ret_id = steal_pointer(&id);
	return 0;
}

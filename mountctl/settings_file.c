#include "mountctl/settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/makedir.h"
#include "mountctl/output.h"

#define MAX_SIZE (4u << 20)

void settings_file_release(struct settings_file *file)
{
	free(file->path);
	free(file->dir);
	free(file->beneath);
	cleanup_fdp(&file->dir_fd);
	free(file->name);
	free(file->text);
	*file = (struct settings_file){.dir_fd = -1};
}

static int failed(int r, const struct settings_file *file, const char *what,
		  char **message)
{
	if (r == -ELOOP)
		return explain(r, message,
			       "cannot %s '%s': a symlink stands in its way, "
			       "which may lead out of the worktree",
			       what, file->path);
	/* As of one that isn't regular; our arguments are as they should be. */
	if (r == -EINVAL)
		return explain(-EBADMSG, message,
			       "cannot %s '%s': it isn't a regular file", what,
			       file->path);
	return explain(r, message, "cannot %s '%s': %s", what, file->path,
		       strerror(-r));
}

/*
 * Finding it.
 */

/* In the worktree, dir is that, and beneath what lies between. */
static int split_path(struct settings_file *file, const char *worktree)
{
	autofree char *above = path_dirname(file->path);
	const char *rest = "";

	file->name = strdup(path_basename(file->path));
	if (!above || !file->name)
		return -ENOMEM;
	if (path_starts_with(above, worktree, &rest))
		file->dir = strdup(worktree);
	else
		file->dir = strdup(above);
	file->beneath = strdup(rest);
	return file->dir && file->beneath ? 0 : -ENOMEM;
}

static int open_base(const struct settings_file *file)
{
	int fd = open(file->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_directory(struct settings_file *file)
{
	autofd int base = open_base(file);
	int fd;

	if (base < 0)
		return base;
	fd = open_dir_beneath(base, file->beneath);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	file->dir_fd = fd;
	return 0;
}

/* With the directories that are missing. */
static int make_directory(struct settings_file *file)
{
	autofd int base = open_base(file);
	int fd = base < 0 ? base : make_dir_beneath(base, file->beneath);

	if (fd < 0)
		return fd;
	file->dir_fd = fd;
	return 0;
}

static mode_t default_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int read_text(struct settings_file *file)
{
	struct stat st;
	int r;

	file->mode = default_mode();
	file->uid = (uid_t)-1;
	file->gid = (gid_t)-1;
	if (file->dir_fd < 0)
		return 0;
	r = read_file_at(file->dir_fd, file->name, MAX_SIZE, &file->text,
			 &file->size);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (fstatat(file->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	file->mode = st.st_mode & 0777;
	file->uid = st.st_uid;
	file->gid = st.st_gid;
	return 0;
}

static char *absolute(const char *path)
{
	autofree char *cwd = getcwd(NULL, 0);

	if (path[0] != '/' && (!cwd || cwd[0] != '/'))
		return NULL;
	return path_normalise(path[0] == '/' ? "/" : cwd, path);
}

int settings_file_read(const char *worktree, const char *path,
		       struct settings_file *ret_file, char **message)
{
	struct settings_file file = {.dir_fd = -1};
	int r;

	file.path = absolute(path);
	r = file.path ? split_path(&file, worktree) : -ENOMEM;
	if (r == 0)
		r = open_directory(&file);
	if (r == 0)
		r = read_text(&file);
	if (r < 0) {
		if (file.path)
			r = failed(r, &file, "read", message);
		settings_file_release(&file);
		return r;
	}
	*ret_file = file;
	return 0;
}

int settings_file_write(struct settings_file *file, const char *text,
			char **message)
{
	int r = file->dir_fd < 0 ? make_directory(file) : 0;

	if (r == 0)
		r = write_file_at(file->dir_fd, file->name, text, strlen(text),
				  file->mode);
	if (r < 0)
		return failed(r, file, "write", message);
	/* Root's own file would be of little use to the user. */
	if (file->uid != (uid_t)-1 && file->uid != geteuid() &&
	    fchownat(file->dir_fd, file->name, file->uid, file->gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		warn("'%s' has another owner now: %s", file->path,
		     strerror(errno));
	return 0;
}

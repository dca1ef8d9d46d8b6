#include "mountctl/treeremove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

static int remove_tree(int dirfd, const char *name, dev_t device);

/* Gives its owner all rights on a directory. */
static int open_up(int dirfd, const char *name)
{
	autofd int fd = openat(dirfd, name,
			       O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return chmod(fd_path(fd).text, (st.st_mode & 07777) | 0700) < 0 ? -errno
									: 0;
}

static int open_tree(int dirfd, const char *name, dev_t device)
{
	autofd int fd = -1;
	struct stat st;
	int r;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_dev != device)
		return -EXDEV;
	if ((st.st_mode & 0700) != 0700) {
		r = open_up(dirfd, name);
		if (r < 0)
			return r;
	}
	fd = openat(dirfd, name, DIR_FLAGS);
	return fd < 0 ? -errno : take_fd(&fd);
}

static int remove_content(int fd, dev_t device)
{
	autodir DIR *dir = fdopendir(fd);
	const struct dirent *entry;
	int first = 0;

	if (!dir) {
		first = -errno;
		close(fd);
		return first;
	}
	while ((entry = readdir(dir))) {
		int r = name_is_valid(entry->d_name)
				? remove_tree(fd, entry->d_name, device)
				: 0;

		if (first == 0)
			first = r;
	}
	return first;
}

static int remove_tree(int dirfd, const char *name, dev_t device)
{
	int fd, r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	r = -errno;
	fd = open_tree(dirfd, name, device);
	if (fd < 0)
		return fd == -ENOTDIR ? r : fd;
	r = remove_content(fd, device);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int tree_remove_at(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return remove_tree(dirfd, name, st.st_dev);
}

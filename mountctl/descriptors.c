#include "mountctl/descriptors.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/output.h"

void descriptors_release(struct descriptors *descriptors)
{
	for (size_t i = 0; i < descriptors->n; i++)
		free(descriptors->item[i].path);
	free(descriptors->item);
	*descriptors = (struct descriptors){0};
}

static const char *stdio_name(int fd)
{
	static const char *const names[] = {"stdin", "stdout", "stderr"};

	return names[fd];
}

static int gather_one(struct descriptors *descriptors, int fd, char **message)
{
	int flags = fcntl(fd, F_GETFL), r;
	struct inherited *grown;
	char *path = NULL;
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = fd_real_path(fd, &path);
	if (r < 0 && r != -ENOENT)
		return r;
	if (fd <= STDERR_FILENO && S_ISDIR(st.st_mode)) {
		r = explain(-EINVAL, message,
			    "%s is the directory '%s', which would lead out of "
			    "the view",
			    stdio_name(fd), path ? path : "?");
		free(path);
		return r;
	}
	grown = reallocarray(descriptors->item, descriptors->n + 1,
			     sizeof(*grown));
	if (!grown) {
		free(path);
		return -ENOMEM;
	}
	descriptors->item = grown;
	grown[descriptors->n++] = (struct inherited){
		.fd = fd,
		.flags = flags,
		.mode = st.st_mode,
		.inode = st.st_ino,
		.path = path,
	};
	return 0;
}

int descriptors_gather(struct descriptors *ret_descriptors, char **message)
{
	struct descriptors descriptors = {0};
	autodir DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return explain(-errno, message, "cannot read /proc/self/fd: %s",
			       strerror(errno));
	while (r == 0 && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name), flags;

		if (entry->d_name[0] == '.')
			continue;
		flags = fcntl(fd, F_GETFD);
		if (flags >= 0 && !(flags & FD_CLOEXEC))
			r = gather_one(&descriptors, fd, message);
	}
	if (r < 0) {
		descriptors_release(&descriptors);
		return r;
	}
	*ret_descriptors = descriptors;
	return 0;
}

/* Is it a file of a restricted tree? 1, 0, or -ENOMEM. */
static int is_restricted(const struct inherited *item,
			 const struct policy *rules,
			 const struct aliases *aliases)
{
	autofree char *path = NULL;
	struct place place;

	if (!item->path || (!S_ISREG(item->mode) && !S_ISLNK(item->mode)))
		return 0;
	path = aliases_translate(aliases, item->path);
	if (!path)
		return -ENOMEM;
	place = policy_walk(policy_root(rules), path + 1);
	return place_access(place) != ACCESS_RW;
}

static int reopen(const struct inherited *item)
{
	int flags = item->flags & ~(O_CREAT | O_EXCL | O_TRUNC);
	autofd int fd = open(item->path, flags | O_CLOEXEC | O_NOCTTY);
	off_t offset;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_ino != item->inode)
		return -ESTALE;
	if (!(flags & O_PATH)) {
		offset = lseek(item->fd, 0, SEEK_CUR);
		if (offset < 0 || lseek(fd, offset, SEEK_SET) < 0)
			return -errno;
	}
	return dup3(fd, item->fd, 0) < 0 ? -errno : 0;
}

static int settle_stdio(const struct inherited *item, char **message)
{
	int r;

	if ((item->flags & O_ACCMODE) != O_RDONLY) {
		warn("%s stays open for writing to '%s', as it was given",
		     stdio_name(item->fd), item->path);
		return 0;
	}
	r = reopen(item);
	if (r < 0)
		return explain(r, message,
			       "cannot open %s, '%s', again through the view: "
			       "%s",
			       stdio_name(item->fd), item->path, strerror(-r));
	return 0;
}

int descriptors_settle(const struct descriptors *descriptors,
		       const struct policy *rules,
		       const struct aliases *aliases, char **message)
{
	for (size_t i = 0; i < descriptors->n; i++) {
		const struct inherited *item = &descriptors->item[i];
		bool directory = S_ISDIR(item->mode);
		int r = is_restricted(item, rules, aliases);

		if (r < 0)
			return r;
		if (item->fd <= STDERR_FILENO) {
			r = r ? settle_stdio(item, message) : 0;
			if (r < 0)
				return r;
			continue;
		}
		if (!directory && !r)
			continue;
		warn("closed the inherited descriptor %d: %s '%s' %s", item->fd,
		     directory ? "the directory" : "the file",
		     item->path ? item->path : "?",
		     directory ? "would lead out of the view"
			       : "is in a restricted tree");
		close(item->fd);
	}
	return 0;
}

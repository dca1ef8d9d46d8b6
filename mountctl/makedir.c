#include "mountctl/makedir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"

int make_dir_beneath(int dirfd, const char *relative)
{
	autofd int fd = open_dir_beneath(dirfd, "");

	while (fd >= 0 && *relative) {
		size_t length = strcspn(relative, "/");
		autofree char *name = strndup(relative, length);
		int next;

		if (!name)
			return -ENOMEM;
		if (mkdirat(fd, name, 0777) < 0 && errno != EEXIST)
			return -errno;
		next = open_dir_beneath(fd, name);
		close(fd);
		fd = next;
		relative += length + (relative[length] == '/');
	}
	return take_fd(&fd);
}

#include "fs/lib/ready.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fs/lib/cleanup.h"

int ready_notify(void)
{
	static const char message[] = "READY=1";
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = name ? strlen(name) : 0;
	autofd int fd = -1;

	if (length == 0)
		return 0;
	if ((name[0] != '/' && name[0] != '@') ||
	    length >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, name, length);
	if (name[0] == '@') /* an abstract one */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	return sendto(fd, message, sizeof(message) - 1, MSG_NOSIGNAL,
		      (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				  length)) < 0
		       ? -errno
		       : 0;
}

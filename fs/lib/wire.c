#include "fs/lib/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "fs/lib/cleanup.h"

struct header {
	uint32_t length;
	uint32_t n_fds;
};

/* Room for the control message of WIRE_MAX_FDS descriptors, aligned. */
union control {
	struct cmsghdr align;
	char buffer[CMSG_SPACE(WIRE_MAX_FDS * sizeof(int))];
};

static int send_all(int sock, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = send(sock, data, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The header is short enough to go whole or not at all. */
static int send_header(int sock, struct header header, const int *fds)
{
	union control control = {0};
	struct iovec iov = {.iov_base = &header, .iov_len = sizeof(header)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t size = header.n_fds * sizeof(int);
	ssize_t n;

	if (header.n_fds > 0) {
		struct cmsghdr *cmsg;

		message.msg_control = control.buffer;
		message.msg_controllen = CMSG_SPACE(size);
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(cmsg), fds, size);
	}
	do {
		n = sendmsg(sock, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(header) ? 0 : -EPIPE;
}

int wire_send(int sock, const char *text, const int *fds, size_t n_fds)
{
	size_t length = strlen(text);
	struct header header;
	int r;

	if (length > WIRE_MAX_TEXT || n_fds > WIRE_MAX_FDS)
		return -EMSGSIZE;
	header = (struct header){(uint32_t)length, (uint32_t)n_fds};
	r = send_header(sock, header, fds);
	return r < 0 ? r : send_all(sock, text, length);
}

static int receive_all(int sock, char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = recv(sock, data, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ECONNRESET;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Collects the descriptors of a message; those beyond room are closed. */
static size_t collect_fds(struct msghdr *message, int *fds, size_t room)
{
	struct cmsghdr *cmsg;
	size_t n = 0;

	for (cmsg = CMSG_FIRSTHDR(message); cmsg;
	     cmsg = CMSG_NXTHDR(message, cmsg)) {
		size_t count;

		if (cmsg->cmsg_level != SOL_SOCKET ||
		    cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int),
			       sizeof(fd));
			if (n < room)
				fds[n] = fd;
			else
				close(fd);
			n++;
		}
	}
	return n;
}

static int receive_header(int sock, struct header *ret_header, int *fds,
			  size_t room, size_t *ret_n_fds)
{
	union control control;
	struct header header;
	struct iovec iov = {.iov_base = &header, .iov_len = sizeof(header)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer),
	};
	size_t n_fds;
	ssize_t n;

	do {
		n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	n_fds = collect_fds(&message, fds, room);
	if ((size_t)n != sizeof(header) || n_fds > room ||
	    n_fds != header.n_fds || header.length > WIRE_MAX_TEXT ||
	    (message.msg_flags & MSG_CTRUNC)) {
		close_all(fds, n_fds < room ? n_fds : room);
		return n == 0 ? -ECONNRESET : -EPROTO;
	}
	*ret_header = header;
	*ret_n_fds = n_fds;
	return 0;
}

int wire_receive(int sock, char **ret_text, int *fds, size_t n_fds,
		 size_t *ret_n_fds)
{
	autofree char *text = NULL;
	struct header header;
	size_t received = 0;
	int r = receive_header(sock, &header, fds, n_fds, &received);

	if (r < 0)
		return r;
	text = malloc((size_t)header.length + 1);
	r = text ? receive_all(sock, text, header.length) : -ENOMEM;
	if (r < 0) {
		close_all(fds, received);
		return r;
	}
	text[header.length] = '\0';
	*ret_text = steal_pointer(&text);
	*ret_n_fds = received;
	return 0;
}

#include "tests/fuzz/side.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/tree.h"

/* So far below its top a tree starts, that no ".." gets out of it. */
#define DEPTH 24
#define PATIENCE 60 /* seconds, then it hangs */

/* Opens the directory in which the steps are done; it may be made first. */
static int open_root(const char *top, bool make)
{
	int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < DEPTH && fd >= 0; i++) {
		int below;

		if (make && mkdirat(fd, "t", 0777) < 0)
			below = -1;
		else
			below = openat(fd, "t",
				       O_PATH | O_DIRECTORY | O_CLOEXEC);
		cleanup_fdp(&fd);
		fd = below;
	}
	return fd;
}

static void become(uid_t uid)
{
	gid_t gid = uid;

	if (uid == geteuid())
		return;
	if (setgroups(1, &(gid_t){1000}) < 0 || setgid(gid) < 0 ||
	    setuid(uid) < 0)
		abort();
}

static void serve(struct side *side, int number, int sock)
{
	struct actor actor = {
		.number = number,
		.processes = side->processes,
	};

	signal(SIGPIPE, SIG_IGN);
	become(side->uids[number]);
	if (!realpath(side->tops[number], actor.top))
		abort();
	actor.root = open_root(side->tops[number], false);
	if (actor.root < 0 || fchdir(actor.root) < 0)
		exit(EXIT_FAILURE);
	act_serve(&actor, sock);
}

static int start_actor(struct side *side, int number)
{
	const struct timeval patience = {.tv_sec = PATIENCE};
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		close(ends[0]);
		serve(side, number, ends[1]);
	}
	close(ends[1]);
	side->socks[number] = ends[0];
	side->processes[number] = pid;
	setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience,
		   sizeof(patience));
	return 0;
}

int side_start(struct side *side)
{
	autofd int root = -1;
	int r = tree_clear(side->tops[0]);

	for (int i = 0; i < MAX_ACTORS; i++)
		side->socks[i] = -1;
	if (r < 0)
		return r;
	umask(0);
	root = open_root(side->tops[0], true);
	if (root < 0)
		return -errno;
	side->processes =
		mmap(NULL, MAX_ACTORS * sizeof(pid_t), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (side->processes == MAP_FAILED)
		return -errno;
	for (int i = 0; i < MAX_ACTORS && r == 0; i++)
		if (side->tops[i])
			r = start_actor(side, i);
	return r;
}

void side_stop(struct side *side)
{
	for (int i = 0; i < MAX_ACTORS; i++) {
		if (side->socks[i] < 0)
			continue;
		/* Actors that were started later have it open, too. */
		shutdown(side->socks[i], SHUT_RDWR);
		cleanup_fdp(&side->socks[i]);
		side->socks[i] = -1;
		while (waitpid(side->processes[i], NULL, 0) < 0 &&
		       errno == EINTR)
			;
	}
	if (side->processes)
		munmap(side->processes, MAX_ACTORS * sizeof(pid_t));
	side->processes = NULL;
}

int side_send(struct side *side, int actor, const char *line)
{
	return send(side->socks[actor], line, strlen(line), MSG_NOSIGNAL) < 0
		       ? -errno
		       : 0;
}

int side_receive(struct side *side, int actor, char *answer)
{
	ssize_t n = recv(side->socks[actor], answer, MAX_LINE, 0);

	if (n < 0)
		return -errno;
	answer[n] = '\0';
	return n == 0 ? -ECONNRESET : 0;
}

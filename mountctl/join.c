#include "mountctl/join.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/process.h"
#include "mountctl/output.h"

#define MOUNTINFO_MAX (64u << 20)

/* Does a line of mountinfo (proc(5)) name one of these devices? */
static bool names_device(const char *line, const struct strings *devices)
{
	char device[32];

	return sscanf(line, "%*s %*s %31s", device) == 1 &&
	       strings_contain(devices, device);
}

static bool has_view(pid_t pid, const struct strings *devices)
{
	autofree char *text = NULL;
	char path[64], *line, *rest;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	if (read_file_at(AT_FDCWD, path, MOUNTINFO_MAX, &text, NULL) < 0)
		return false;
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (names_device(line, devices))
			return true;
	return false;
}

/* How many user namespaces below ours the process is; -errno: not below. */
static int depth_of(pid_t pid)
{
	char path[64];
	autofd int ns = -1;
	struct stat own, its;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || stat("/proc/self/ns/user", &own) < 0)
		return -errno;
	/* The kernel nests 32 of them. */
	for (int depth = 0; depth <= 32; depth++) {
		int parent;

		if (fstat(ns, &its) < 0)
			return -errno;
		if (its.st_dev == own.st_dev && its.st_ino == own.st_ino)
			return depth;
		parent = ioctl(ns, NS_GET_PARENT);
		if (parent < 0)
			return -errno;
		close(ns);
		ns = parent;
	}
	return -ELOOP;
}

struct candidate {
	pid_t pid; /* 0: none */
	int depth;
	uint64_t start_time;
};

static void consider(pid_t pid, const struct strings *devices,
		     struct candidate *best)
{
	struct candidate candidate = {.pid = pid};

	if (!has_view(pid, devices))
		return;
	candidate.depth = depth_of(pid);
	if (candidate.depth < 0 ||
	    process_start_time(pid, &candidate.start_time) < 0)
		return;
	if (best->pid == 0 || candidate.depth < best->depth ||
	    (candidate.depth == best->depth &&
	     candidate.start_time < best->start_time))
		*best = candidate;
}

int join_find(const struct record *record, pid_t *ret_pid, int *ret_pidfd,
	      char **message)
{
	struct candidate best = {0};
	autodir DIR *proc = opendir("/proc");
	struct dirent *entry;
	autofd int pidfd = -1;

	if (!proc)
		return -errno;
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			consider((pid_t)atoi(entry->d_name), &record->devices,
				 &best);
	if (best.pid != 0)
		pidfd = process_open(best.pid, best.start_time);
	/* Between the look at its mounts and now the pid may have moved on. */
	if (pidfd < 0 || !has_view(best.pid, &record->devices))
		return explain(-ESRCH, message,
			       "no process of the session '%s' can be entered",
			       record->spec.name);
	*ret_pid = best.pid;
	*ret_pidfd = take_fd(&pidfd);
	return 0;
}

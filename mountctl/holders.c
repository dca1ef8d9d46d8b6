#include "mountctl/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "mountctl/mounts.h"

/* Of a command line, what is worth a look. */
#define COMMAND_MAX 4096

/*
 * How a process is found to hold: 1 and *ret_path (may stay NULL), 0, or
 * -ENOMEM. dir_fd is its directory in /proc.
 */
typedef int holds_fn(pid_t pid, int dir_fd, void *data, char **ret_path);

void holders_release(struct holders *holders)
{
	for (size_t i = 0; i < holders->n; i++) {
		free(holders->holder[i].command);
		free(holders->holder[i].path);
	}
	free(holders->holder);
	*holders = (struct holders){0};
}

/* A kernel thread, or a process that is ending, has no arguments. */
static int read_command(int dir_fd, char **ret_command)
{
	autofd int fd = openat(dir_fd, "cmdline", O_RDONLY | O_CLOEXEC);
	char text[COMMAND_MAX];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	while (n > 0 && text[n - 1] == '\0')
		n--;
	if (n <= 0) {
		int r = read_file_at(dir_fd, "comm", COMMAND_MAX, ret_command,
				     NULL);

		if (r == 0)
			(*ret_command)[strcspn(*ret_command, "\n")] = '\0';
		return r;
	}
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	text[n] = '\0';
	*ret_command = strdup(text);
	return *ret_command ? 0 : -ENOMEM;
}

/* Takes ownership of path. */
static int add_holder(struct holders *holders, pid_t pid, int dir_fd,
		      char *path)
{
	autofree char *owned_path = path, *command = NULL;
	struct holder *grown;
	uint64_t start_time;

	/* It may be gone by now. */
	if (process_start_time(pid, &start_time) < 0 ||
	    read_command(dir_fd, &command) < 0)
		return 0;
	grown = reallocarray(holders->holder, holders->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	holders->holder = grown;
	grown[holders->n++] = (struct holder){
		.pid = pid,
		.start_time = start_time,
		.command = steal_pointer(&command),
		.path = steal_pointer(&owned_path),
	};
	return 0;
}

static int ask_process(struct holders *holders, int proc_fd, const char *name,
		       holds_fn *holds, void *data)
{
	autofd int dir_fd =
		openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid = (pid_t)strtol(name, NULL, 10);
	char *path = NULL;
	int r;

	if (dir_fd < 0 || pid == getpid())
		return 0;
	r = holds(pid, dir_fd, data, &path);
	return r == 1 ? add_holder(holders, pid, dir_fd, path) : r;
}

static int compare_holders(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int ask_all(holds_fn *holds, void *data, struct holders *ret_holders)
{
	struct holders holders = {0};
	autodir DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int r = 0;

	if (!proc)
		return -errno;
	while (r == 0 && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			r = ask_process(&holders, dirfd(proc), entry->d_name,
					holds, data);
	if (r < 0) {
		holders_release(&holders);
		return r;
	}
	if (holders.n > 0)
		qsort(holders.holder, holders.n, sizeof(*holders.holder),
		      compare_holders);
	*ret_holders = holders;
	return 0;
}

/*
 * By the files that a process uses.
 */

/* What is looked for, and how; all of it borrowed. */
struct file_search {
	const struct strings *places;
	/* Each: 1 and *ret_path, 0, or -ENOMEM. name is a link of /proc's. */
	int (*link_holds)(int dir_fd, const char *name,
			  const struct file_search *search, char **ret_path);
	/* line is one of /proc/PID/maps, without its end; dir_fd is PID's. */
	int (*mapping_holds)(int dir_fd, const char *line,
			     const struct file_search *search, char **ret_path);
	const struct strings *devices; /* NULL: any */
};

static int files_hold(int dir_fd, const struct file_search *search,
		      char **ret_path)
{
	int fd = openat(dir_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *files = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	while (files && r == 0 && (entry = readdir(files)))
		if (isdigit((unsigned char)entry->d_name[0]))
			r = search->link_holds(fd, entry->d_name, search,
					       ret_path);
	return r;
}

static int mappings_hold(int dir_fd, const struct file_search *search,
			 char **ret_path)
{
	int fd = openat(dir_fd, "maps", O_RDONLY | O_CLOEXEC);
	autofile FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	autofree char *line = NULL;
	size_t room = 0;
	int r = 0;

	while (maps && r == 0 && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = '\0';
		r = search->mapping_holds(dir_fd, line, search, ret_path);
	}
	return r;
}

static int holds_file(pid_t pid, int dir_fd, void *data, char **ret_path)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	const struct file_search *search = data;
	int r = 0;

	(void)pid;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = search->link_holds(dir_fd, links[i], search, ret_path);
	if (r == 0)
		r = files_hold(dir_fd, search, ret_path);
	return r == 0 ? mappings_hold(dir_fd, search, ret_path) : r;
}

/* By their paths, as they are seen from here. */

static bool is_in_any(const char *path, const struct strings *dirs)
{
	for (size_t i = 0; i < dirs->n; i++)
		if (path_starts_with(path, dirs->s[i], NULL))
			return true;
	return false;
}

static int link_leads_into(int dir_fd, const char *name,
			   const struct file_search *search, char **ret_path)
{
	autofree char *target = NULL;
	int r = read_link_at(dir_fd, name, &target);

	if (r == -ENOMEM)
		return r;
	if (r < 0 || !is_in_any(target, search->places))
		return 0;
	*ret_path = steal_pointer(&target);
	return 1;
}

/* Of the fields of a line only the path has a slash. */
static int mapping_leads_into(int dir_fd, const char *line,
			      const struct file_search *search, char **ret_path)
{
	const char *path = strchr(line, '/');

	(void)dir_fd;
	if (!path || !is_in_any(path, search->places))
		return 0;
	*ret_path = strdup(path);
	return *ret_path ? 1 : -ENOMEM;
}

int holders_of_paths(const struct strings *mountpoints,
		     struct holders *ret_holders)
{
	struct file_search search = {
		.places = mountpoints,
		.link_holds = link_leads_into,
		.mapping_holds = mapping_leads_into,
	};

	return ask_all(holds_file, &search, ret_holders);
}

/* By their device. */

static bool is_device(const struct strings *devices, unsigned int major,
		      unsigned int minor)
{
	char text[32];

	snprintf(text, sizeof(text), "%u:%u", major, minor);
	return strings_contain(devices, text);
}

/*
 * Who asks for nothing is told the device, by the kernel alone: the process
 * behind the view isn't asked. See fuse_getattr() in fs/fuse/dir.c.
 */
static int link_is_on(int dir_fd, const char *name,
		      const struct file_search *search, char **ret_path)
{
	struct statx stx;

	if (statx(dir_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &stx) <
		    0 ||
	    !is_device(search->devices, stx.stx_dev_major, stx.stx_dev_minor))
		return 0;
	return read_link_at(dir_fd, name, ret_path) == -ENOMEM ? -ENOMEM : 1;
}

/* "55e0-55e2 r--p 00000000 fe:00 1234   /path" */
static int mapping_is_on(int dir_fd, const char *line,
			 const struct file_search *search, char **ret_path)
{
	const char *path = strchr(line, '/');
	unsigned int major, minor;

	(void)dir_fd;
	if (sscanf(line, "%*s %*s %*s %x:%x", &major, &minor) != 2 ||
	    !is_device(search->devices, major, minor))
		return 0;
	*ret_path = path ? strdup(path) : NULL;
	return path && !*ret_path ? -ENOMEM : 1;
}

int holders_of_files_on(const struct strings *devices,
			struct holders *ret_holders)
{
	struct file_search search = {
		.devices = devices,
		.link_holds = link_is_on,
		.mapping_holds = mapping_is_on,
	};

	return ask_all(holds_file, &search, ret_holders);
}

/* By both. */

static int link_is_within(int dir_fd, const char *name,
			  const struct file_search *search, char **ret_path)
{
	autofree char *path = NULL;
	int r = link_is_on(dir_fd, name, search, &path);

	if (r <= 0)
		return r;
	return link_leads_into(dir_fd, name, search, ret_path);
}

static int mapping_is_within(int dir_fd, const char *line,
			     const struct file_search *search, char **ret_path)
{
	autofree char *path = NULL;
	int r = mapping_is_on(dir_fd, line, search, &path);

	if (r <= 0)
		return r;
	return mapping_leads_into(dir_fd, line, search, ret_path);
}

static int no_link(int dir_fd, const char *name,
		   const struct file_search *search, char **ret_path)
{
	return 0;
}

/*
 * Is it shared, of a file that was opened for writing? The link of a mapping
 * carries the mode of its file (proc_pid_map_files(5)).
 */
static bool stores_reach_file(int dir_fd, const char *line)
{
	unsigned long start, end;
	char name[64], shared;
	struct stat st;

	if (sscanf(line, "%lx-%lx %*3c%c", &start, &end, &shared) != 3 ||
	    shared != 's')
		return false;
	snprintf(name, sizeof(name), "map_files/%lx-%lx", start, end);
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       (st.st_mode & S_IWUSR);
}

static int mapping_stores_within(int dir_fd, const char *line,
				 const struct file_search *search,
				 char **ret_path)
{
	return stores_reach_file(dir_fd, line)
		       ? mapping_is_within(dir_fd, line, search, ret_path)
		       : 0;
}

int holders_within(const struct strings *devices, const struct strings *places,
		   bool mapped, struct holders *ret_holders)
{
	struct file_search search = {
		.devices = devices,
		.places = places,
		.link_holds = mapped ? no_link : link_is_within,
		.mapping_holds =
			mapped ? mapping_stores_within : mapping_is_within,
	};

	return ask_all(holds_file, &search, ret_holders);
}

/*
 * By what is mounted. All processes of a mount namespace answer alike.
 */

struct device_search {
	struct strings devices; /* borrowed */
	struct strings with;	/* namespaces that have one of them */
	struct strings without;
};

static bool has_device(const struct view_mounts *mounts,
		       const struct strings *devices)
{
	for (size_t i = 0; i < mounts->n; i++)
		if (strings_contain(devices, mounts->mount[i].device))
			return true;
	return false;
}

static int holds_device(pid_t pid, int dir_fd, void *data, char **ret_path)
{
	struct device_search *search = data;
	struct view_mounts mounts = {0};
	autofree char *namespace = NULL;
	bool holds;
	int r = read_link_at(dir_fd, "ns/mnt", &namespace);

	(void)ret_path;
	if (r == 0 && strings_contain(&search->with, namespace))
		return 1;
	if (r == 0 && strings_contain(&search->without, namespace))
		return 0;
	if (view_mounts_read(pid, &mounts) < 0)
		return 0;
	holds = has_device(&mounts, &search->devices);
	view_mounts_release(&mounts);
	if (namespace)
		r = strings_add(holds ? &search->with : &search->without,
				namespace);
	return r == -ENOMEM ? r : holds;
}

int holders_of_devices(const struct strings *devices,
		       struct holders *ret_holders)
{
	struct device_search search = {.devices = *devices};
	int r = ask_all(holds_device, &search, ret_holders);

	strings_release(&search.with);
	strings_release(&search.without);
	return r;
}

/*
 * Side doors: ways in which a process behind the guard can have somebody else
 * write for it. Nothing is opened or connected to: that might start a service.
 */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/lib/spec.h"
#include "mountctl/doctor.h"

/*
 * Sockets
 */

static const struct door {
	const char *path; /* absolute, or in $XDG_RUNTIME_DIR */
	const char *name;
} doors[] = {
	{"/run/docker.sock", "docker"},
	{"docker.sock", "docker"},
	{"/run/podman/podman.sock", "podman"},
	{"podman/podman.sock", "podman"},
	{"/run/containerd/containerd.sock", "containerd"},
	{"/run/crio/crio.sock", "cri-o"},
	{"/var/lib/incus/unix.socket", "incus"},
	{"/var/lib/lxd/unix.socket", "lxd"},
	{"/var/snap/lxd/common/lxd/unix.socket", "lxd"},
	{"/run/libvirt/libvirt-sock", "libvirt"},
};

/* Those of the user's service manager: `systemd-run --user`. */
static const struct door managers[] = {
	{"systemd/private", "systemd"},
	{"bus", "the user's bus"},
};

static bool is_open(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       access(path, W_OK) == 0;
}

/* Appends the paths of those that this user can open. 0 or -ENOMEM. */
static int find_open(const struct door *door, size_t n, struct strings *found)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		autofree char *path = NULL;

		if (door[i].path[0] != '/' && !runtime)
			continue;
		path = door[i].path[0] == '/'
			       ? strdup(door[i].path)
			       : path_join(runtime, door[i].path);
		if (!path)
			return -ENOMEM;
		if (is_open(path))
			r = strings_add(found, path);
	}
	return r;
}

/* What a line names of many. */
#define SHOWN 4

/* "a, b, c"; allocated, or NULL. */
static char *join(const struct strings *strings)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < strings->n && i < SHOWN; i++)
		fprintf(out, "%s%s", i ? ", " : "", strings->s[i]);
	if (strings->n > SHOWN)
		fprintf(out, " and %zu more", strings->n - SHOWN);
	return fclose(out) == 0 ? text : NULL;
}

/* One check of what was found; nothing found is fine. */
static void report(struct checks *checks, const char *name,
		   struct strings *found, const char *none, const char *format,
		   const char *mend)
{
	autofree char *text = join(found);

	if (!text) {
		checks->r = -ENOMEM;
	} else if (found->n == 0) {
		check_add(checks, name, CHECK_OK, "%s", none);
	} else {
		check_add(checks, name, CHECK_WARN, "%s: %s", text, format);
		check_mend(checks, "%s", mend);
	}
	strings_release(found);
}

static void check_sockets(struct checks *checks)
{
	struct strings found = {0};

	if (find_open(doors, ARRAY_SIZE(doors), &found) < 0)
		checks->r = -ENOMEM;
	report(checks, "sockets", &found,
	       "no container service's socket can be opened",
	       "whoever talks to it can mount and write what he likes",
	       "start the session as a user who can't open it");
}

static void check_managers(struct checks *checks)
{
	struct strings found = {0};

	if (find_open(managers, ARRAY_SIZE(managers), &found) < 0)
		checks->r = -ENOMEM;
	report(checks, "user-services", &found,
	       "no service manager of the user's can be reached",
	       "starts programs outside (systemd-run --user)",
	       "start the session as a user without one (docs/threat-model.md, "
	       "'Servers outside')");
}

/*
 * Groups that are as good as root, or as the disk
 */

static const char *const mighty_groups[] = {"docker",	   "podman", "lxd",
					    "incus-admin", "incus",  "libvirt",
					    "disk",	   "kvm"};

static const char *const sudo_groups[] = {"sudo", "wheel", "admin"};

/* Is the process in the group of that name? */
static bool is_member(const char *name, const gid_t *groups, int n)
{
	const struct group *group = getgrnam(name);

	if (!group)
		return false;
	if (group->gr_gid == getegid())
		return true;
	for (int i = 0; i < n; i++)
		if (groups[i] == group->gr_gid)
			return true;
	return false;
}

/* Appends those of the names that the process is a member of. */
static int find_groups(const char *const *names, size_t n_names,
		       struct strings *found)
{
	int n = getgroups(0, NULL), r = 0;
	autofree gid_t *groups =
		n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	n = getgroups(n, groups);
	for (size_t i = 0; i < n_names && r == 0; i++)
		if (is_member(names[i], groups, n))
			r = strings_add(found, names[i]);
	return r;
}

static void check_groups(struct checks *checks)
{
	struct strings found = {0};

	if (find_groups(mighty_groups, ARRAY_SIZE(mighty_groups), &found) < 0)
		checks->r = -ENOMEM;
	report(checks, "groups", &found, "in no group that can write past it",
	       "its members can write past any guard",
	       "leave the group, or start the session as a user who isn't in "
	       "it");
}

/*
 * sudo; it isn't asked. Behind run set-uid programs gain nothing.
 */
static void check_sudo(struct checks *checks)
{
	autofree char *sudo = doctor_find("sudo");
	struct strings found = {0};

	if (geteuid() == 0 || !sudo) {
		check_add(checks, "sudo", CHECK_OK, "%s",
			  sudo ? "root needs none" : "there is none");
		return;
	}
	if (find_groups(sudo_groups, ARRAY_SIZE(sudo_groups), &found) < 0)
		checks->r = -ENOMEM;
	if (found.n > 0)
		check_add(checks, "sudo", CHECK_WARN,
			  "in the group '%s': gains nothing behind 'run', but "
			  "by a view of 'mount' it goes past the guard where "
			  "no password is asked",
			  found.s[0]);
	else
		check_add(checks, "sudo", CHECK_OK,
			  "gains nothing behind 'run'; whether it asks for a "
			  "password can't be seen without asking");
	if (found.n > 0)
		check_mend(checks,
			   "use 'run', or have sudo ask for a password");
	strings_release(&found);
}

/*
 * Disks
 */

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_disks(struct checks *checks)
{
	autodir DIR *dir = opendir("/sys/class/block");
	struct strings found = {0};
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		autofree char *path = path_join("/dev", entry->d_name);
		struct stat st;

		if (!name_is_valid(entry->d_name) || !path)
			continue;
		if (stat(path, &st) == 0 && S_ISBLK(st.st_mode) &&
		    access(path, W_OK) == 0 && strings_add(&found, path) < 0)
			checks->r = -ENOMEM;
	}
	if (found.n > 0)
		qsort(found.s, found.n, sizeof(*found.s), compare_strings);
	report(checks, "disks", &found, "no disk can be written",
	       "what is written there goes past every file system",
	       geteuid() == 0
		       ? "start the session as a user, or give the container "
			 "no block devices"
		       : "as root: take the write permission from the device");
}

void doctor_doors(struct checks *checks)
{
	check_sockets(checks);
	check_managers(checks);
	check_groups(checks);
	check_sudo(checks);
	check_disks(checks);
}

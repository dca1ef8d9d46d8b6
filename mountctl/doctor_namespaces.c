#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/confine.h"
#include "mountctl/doctor.h"
#include "mountctl/mountapi.h"
#include "mountctl/namespace.h"
#include "mountctl/output.h"
#include "mountctl/trial.h"

/* mount_setattr(2) is the youngest of what is needed. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12

#define APPARMOR "/sys/module/apparmor/parameters/enabled"
#define APPARMOR_SYSCTL "/proc/sys/kernel/apparmor_restrict_unprivileged_"

/* What a trial is about; in memory that its child shares. */
struct trial {
	enum namespace_kind kind; /* out */
	bool set_attributes;	  /* in: mount_setattr(2) as well */
};

static struct trial *trial_new(void)
{
	struct trial *trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return trial == MAP_FAILED ? NULL : trial;
}

static void trial_freep(struct trial **trial)
{
	if (*trial)
		munmap(*trial, sizeof(**trial));
}

#define autotrial __attribute__((cleanup(trial_freep)))

static void check_kernel(struct checks *checks)
{
	int major = 0, minor = 0;
	struct utsname name;
	bool old;

	if (uname(&name) < 0 ||
	    sscanf(name.release, "%d.%d", &major, &minor) != 2) {
		check_add(checks, "kernel", CHECK_WARN,
			  "its version can't be read");
		return;
	}
	old = major < KERNEL_MAJOR ||
	      (major == KERNEL_MAJOR && minor < KERNEL_MINOR);
	check_add(checks, "kernel", old ? CHECK_WARN : CHECK_OK, "%s %s",
		  name.sysname, name.release);
	if (old)
		check_mend(checks, "Linux %d.%d or later is needed",
			   KERNEL_MAJOR, KERNEL_MINOR);
}

/*
 * User namespaces, twice
 */

static int try_namespaces(void *arg, char **message)
{
	struct trial *trial = arg;
	int r = namespace_enter(&trial->kind, message);

	return r < 0 ? r : namespace_seal(trial->kind, message);
}

static const char *describe_kind(enum namespace_kind kind)
{
	switch (kind) {
	case NAMESPACE_USER:
		return "can be made, and nested; the user's own ids are mapped";
	case NAMESPACE_ROOT:
		return "can be made, and nested; all ids are mapped";
	case NAMESPACE_MOUNT:
		return "can't be made; root makes do with a mount namespace, "
		       "and its commands lose more capabilities";
	}
	return "?";
}

static void check_namespaces(struct checks *checks, struct trial *trial)
{
	autofree char *message = NULL;
	int r = trial_run(try_namespaces, trial, &message);
	bool alone = r == 0 && trial->kind == NAMESPACE_MOUNT;

	if (r < 0) {
		check_error(checks, "user-namespaces", CHECK_FAIL, r, message);
		return;
	}
	check_add(checks, "user-namespaces", alone ? CHECK_WARN : CHECK_OK,
		  "%s", describe_kind(trial->kind));
	if (alone)
		check_mend(checks, "see user.max_user_namespaces, or start the "
				   "container with --security-opt "
				   "seccomp=unconfined");
}

/* What the command of an unprivileged caller does without. */
static void check_cost(struct checks *checks)
{
	int groups = getgroups(0, NULL);

	if (!namespace_is_narrow()) {
		check_add(checks, "namespace-cost", CHECK_OK, "none for root");
		return;
	}
	check_add(checks, "namespace-cost", CHECK_OK,
		  "behind 'run' sudo and other set-uid programs gain nothing, "
		  "files of other users look like nobody's%s",
		  groups > 1 ? ", supplementary groups count, but have no name"
			     : "");
}

/*
 * AppArmor: Ubuntu 24.04 lets programs without a profile make user namespaces,
 * but none of their capabilities count. apparmor_restrict_unprivileged_
 * unconfined keeps them from changing into another program's profile
 * (aa-exec); one that is attached by the program's path is all the same.
 */

static bool is_restricted(const char *what)
{
	autofree char *path = NULL;

	if (asprintf(&path, APPARMOR_SYSCTL "%s", what) < 0) {
		path = NULL;
		return false;
	}
	return doctor_number(path) == 1;
}

static void mend_apparmor(struct checks *checks)
{
	autofree char *program = NULL;

	if (read_link_at(AT_FDCWD, "/proc/self/exe", &program) < 0)
		return;
	check_mend(checks,
		   "as root: echo 'abi <abi/4.0>, profile mountctl %s "
		   "flags=(unconfined) { userns, }' "
		   ">/etc/apparmor.d/mountctl; apparmor_parser -r "
		   "/etc/apparmor.d/mountctl%s",
		   program,
		   is_restricted("unconfined")
			   ? " (aa-exec is no way around: "
			     "kernel.apparmor_restrict_unprivileged_unconfined "
			     "is 1)"
			   : "");
}

static void check_apparmor(struct checks *checks)
{
	autofree char *enabled = doctor_text(APPARMOR);
	autofree char *label = doctor_text("/proc/self/attr/current");
	bool refused = checks_worst(checks, "user-namespaces") == CHECK_FAIL;
	bool restricted = is_restricted("userns");

	if (!enabled || strcmp(enabled, "Y") != 0) {
		check_add(checks, "apparmor", CHECK_OK, "not in force");
		return;
	}
	if (!restricted) {
		check_add(checks, "apparmor", CHECK_OK,
			  "in force, doesn't restrict user namespaces; this "
			  "process is '%s'",
			  label ? label : "?");
		return;
	}
	check_add(checks, "apparmor", refused ? CHECK_FAIL : CHECK_OK,
		  "kernel.apparmor_restrict_unprivileged_userns is 1; this "
		  "process is '%s'%s",
		  label ? label : "?", refused ? "" : ", and may make them");
	if (refused)
		mend_apparmor(checks);
}

/*
 * Mounts. The place is there everywhere, and it is hidden in the child's own
 * namespaces alone.
 */

#define PLACE "/proc"

static int failed(int r, char **message, const char *what)
{
	return explain(r, message, "%s: %s", what, strerror(-r));
}

/* A mount of ours on the place: a tmpfs, then a copy of it. */
static int attach_copy(bool read_only, char **message)
{
	autofd int target = -1, copy = -1;
	int r = mount_clone(PLACE);

	copy = r;
	if (r < 0)
		return failed(r, message, "open_tree");
	if (read_only) {
		r = mount_make_read_only(copy);
		if (r < 0)
			return failed(r, message, "mount_setattr");
	}
	target = mount_target_open(PLACE);
	if (target < 0)
		return failed(target, message, "openat2");
	r = mount_attach(copy, target);
	return r < 0 ? failed(r, message, "move_mount") : 0;
}

static int attach_tmpfs(char **message)
{
	autofd int target = -1, tmpfs = mount_new_tmpfs("64k");
	int r;

	if (tmpfs < 0)
		return failed(tmpfs, message, "fsopen");
	target = mount_target_open(PLACE);
	if (target < 0)
		return failed(target, message, "openat2");
	r = mount_attach(tmpfs, target);
	return r < 0 ? failed(r, message, "move_mount") : 0;
}

/* Is the place what was put there, and does it stay? */
static int look_at_place(const struct trial *trial, char **message)
{
	struct statvfs st;

	if (statvfs(PLACE, &st) < 0)
		return failed(-errno, message, "statvfs");
	if (trial->set_attributes && !(st.f_flag & ST_RDONLY))
		return explain(-EIO, message, "mount_setattr has no effect");
	if (trial->kind != NAMESPACE_MOUNT && umount2(PLACE, MNT_DETACH) == 0)
		return explain(-EIO, message,
			       "mounts aren't locked in a nested namespace");
	return 0;
}

static int try_mounts(void *arg, char **message)
{
	struct trial *trial = arg;
	int r = namespace_enter(&trial->kind, message);

	if (r == 0)
		r = attach_tmpfs(message);
	if (r == 0)
		r = attach_copy(trial->set_attributes, message);
	/* The seal needs /proc. */
	if (r == 0 && trial->kind != NAMESPACE_MOUNT &&
	    unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		r = failed(-errno, message, "unshare");
	return r < 0 ? r : look_at_place(trial, message);
}

static void check_mounts(struct checks *checks, struct trial *trial)
{
	static const struct {
		const char *name;
		bool set_attributes;
		const char *detail;
	} rows[] = {
		{"mount-api", false,
		 "fsopen, open_tree, move_mount; mounts of an outer namespace "
		 "are locked"},
		{"mount-attributes", true, "mount_setattr"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autofree char *message = NULL;
		int r;

		trial->set_attributes = rows[i].set_attributes;
		r = trial_run(try_mounts, trial, &message);
		if (r == 0) {
			check_add(checks, rows[i].name, CHECK_OK, "%s",
				  rows[i].detail);
			continue;
		}
		check_error(checks, rows[i].name, CHECK_FAIL, r, message);
		if (r == -ENOSYS)
			check_mend(checks, "Linux %d.%d or later is needed",
				   KERNEL_MAJOR, KERNEL_MINOR);
	}
}

/*
 * The filter that keeps commands from typing into the caller's terminal
 */

static int try_filter(void *arg, char **message)
{
	struct trial *trial = arg;
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r = namespace_enter(&trial->kind, message);

	if (r < 0)
		return r;
	r = confine_terminal();
	if (r < 0)
		return failed(r, message, "cannot set up a filter");
	/* Without one: ENOTTY, or EBADF. */
	if (ioctl(null, TIOCSTI, "") == 0 || errno != EPERM)
		return explain(-EIO, message, "a filter has no effect");
	return 0;
}

static void check_filter(struct checks *checks, struct trial *trial)
{
	autofree char *message = NULL;
	int r = trial_run(try_filter, trial, &message);

	if (r == 0)
		check_add(checks, "system-call-filter", CHECK_OK,
			  "seccomp refuses typing into the caller's terminal");
	else
		check_error(checks, "system-call-filter", CHECK_FAIL, r,
			    message);
}

/* They all need namespaces, and would fail of the same cause. */
static void skip(struct checks *checks)
{
	static const char *const names[] = {"mount-api", "mount-attributes",
					    "system-call-filter"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check_add(checks, names[i], CHECK_WARN,
			  "not tried: there are no namespaces to try it in");
}

void doctor_namespaces(struct checks *checks)
{
	autotrial struct trial *trial = trial_new();

	if (!trial) {
		checks->r = -ENOMEM;
		return;
	}
	check_kernel(checks);
	check_namespaces(checks, trial);
	check_apparmor(checks);
	if (checks_worst(checks, "user-namespaces") == CHECK_FAIL) {
		skip(checks);
	} else {
		check_mounts(checks, trial);
		check_filter(checks, trial);
	}
	check_cost(checks);
}

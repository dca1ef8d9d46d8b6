#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "fs/lib/cleanup.h"
#include "mountctl/doctor.h"

/*
 * Below these, many sessions starve each other. A session takes two user and
 * two mount namespaces, and a third of the descriptors for directories.
 */
static const struct limit {
	const char *file;
	const char *sysctl;
	const char *check;
	long long enough;
	const char *for_what;
} limits[] = {
	{"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces",
	 "namespace-limits", 100, "two a session"},
	{"/proc/sys/user/max_mnt_namespaces", "user.max_mnt_namespaces",
	 "namespace-limits", 100, "two a session"},
	{"/proc/sys/fs/inotify/max_user_watches", "fs.inotify.max_user_watches",
	 "watches", 65536, "editors and build tools, one a directory"},
	{"/proc/sys/fs/inotify/max_user_instances",
	 "fs.inotify.max_user_instances", "watches", 128,
	 "editors and build tools, one or more a program"},
};

static void check_limit(struct checks *checks, const struct limit *limit)
{
	long long number = doctor_number(limit->file);

	if (number < 0) {
		check_add(checks, limit->check, CHECK_WARN, "%s can't be read",
			  limit->sysctl);
		return;
	}
	check_add(checks, limit->check,
		  number < limit->enough ? CHECK_WARN : CHECK_OK, "%s is %lld",
		  limit->sysctl, number);
	if (number < limit->enough)
		check_mend(checks, "it is for %s; as root: sysctl -w %s=%lld",
			   limit->for_what, limit->sysctl, 10 * limit->enough);
}

/* As many as the directories of a large tree, three times. */
#define FILES_ENOUGH 4096

static void check_files(struct checks *checks)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		check_error(checks, "open-files", CHECK_WARN, -errno, NULL);
		return;
	}
	if (limit.rlim_max == RLIM_INFINITY) {
		check_add(checks, "open-files", CHECK_OK, "unlimited");
		return;
	}
	check_add(checks, "open-files",
		  limit.rlim_max < FILES_ENOUGH ? CHECK_WARN : CHECK_OK,
		  "%llu (RLIMIT_NOFILE, hard)",
		  (unsigned long long)limit.rlim_max);
	if (limit.rlim_max < FILES_ENOUGH)
		check_mend(checks,
			   "the filesystem gets slow in large trees; raise the "
			   "hard limit (limits.conf(5), or LimitNOFILE= of the "
			   "unit)");
}

void doctor_limits(struct checks *checks)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		check_limit(checks, &limits[i]);
	check_files(checks);
}

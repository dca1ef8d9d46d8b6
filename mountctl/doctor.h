/*
 * The probes of `mountctl doctor`. Each group appends its checks, whose names
 * are in docs/doctor.md; what can be tried is tried, in a child process and in
 * namespaces of its own, and sysctls and files only explain a failure. None of
 * them changes anything, or touches the host's mount table.
 */
#ifndef WORKTREEFS_DOCTOR_H
#define WORKTREEFS_DOCTOR_H

#include <stdbool.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "mountctl/checks.h"

/* kernel, user-namespaces, namespace-cost, apparmor, mount-api,
 * mount-attributes, system-call-filter */
void doctor_namespaces(struct checks *checks);
/* fuse-device, fuse-mount, fusermount3, user-allow-other, fuse-passthrough,
 * fuse-io-uring */
void doctor_fuse(struct checks *checks);
/* worktreefs, git, records, logs, session, environment */
void doctor_programs(struct checks *checks);
/* namespace-limits, watches, open-files */
void doctor_limits(struct checks *checks);
/* repository, git-guard, git-config, worktrees, hard-links, birth-time */
void doctor_repository(struct checks *checks);
/* sockets, user-services, groups, sudo, disks */
void doctor_doors(struct checks *checks);

/*
 * A small file of the system's, without trailing white space. Allocated; NULL
 * if it can't be read.
 */
char *doctor_text(const char *path);
/* The number in such a file, or -1. */
long long doctor_number(const char *path);
/* Is the capability effective? */
bool doctor_may(cap_value_t capability);
/* A program on PATH, allocated; NULL: there is none. */
char *doctor_find(const char *program);

#endif

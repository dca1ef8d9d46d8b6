/*
 * The mounts that put a command behind the guard: the views over their roots,
 * the native trees over their places in the views, the read-only mounts that
 * carry rules where no view does, and copies of all that over every other path
 * that shows a restricted tree.
 *
 * Everything is first made detached, copies of the real trees before anything
 * covers them. Then the filesystem process is given the views' descriptors,
 * and once it serves them attach_all() puts all in place, parents before
 * children: a path is only ever walked through views that are being served.
 *
 * To be used inside the namespaces of namespace_enter().
 */
#ifndef WORKTREEFS_ATTACH_H
#define WORKTREEFS_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "fs/lib/policy.h"
#include "fs/lib/spec.h"
#include "mountctl/aliases.h"

struct attachment {
	char *path;	 /* where it is attached; absolute and real */
	int mount_fd;	 /* detached until attach_all() */
	struct stat was; /* what is there, before anything is attached */
	bool is_view;
	bool read_only;
};

struct attachments {
	struct attachment *item; /* owned */
	size_t n;
	int *fuse_fds; /* owned, with the descriptors; in the order of views */
	size_t n_views;
	struct strings devices; /* the views', "MAJOR:MINOR"; as the views */
	struct aliases aliases; /* of the restricted trees */
	struct stat *alias_was; /* owned; what each of them led to before */
};

/*
 * Makes the session's mounts, detached.
 *
 * rules: all of the session's rules, compiled for "/".
 * root_fds: the views' roots, opened before namespaces were entered.
 *
 * 0 or -errno with a message; -EINVAL where a rule is one that no mount can
 * hold and no view does.
 */
int attach_prepare(const struct session_spec *spec, const struct policy *rules,
		   const int *root_fds, struct attachments *ret_attachments,
		   char **message);

/* Once every view is served. 0 or -errno with a message. */
int attach_all(struct attachments *attachments, char **message);

/* Is the device number in the list, as "MAJOR:MINOR"? */
bool attach_is_device(const struct strings *devices, dev_t device);

void attachments_release(struct attachments *attachments);

#endif

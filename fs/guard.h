/*
 * The gate. Every operation starts here: it names an object, or a name in a
 * directory, and what it is about to do; the guard asks the policy and answers
 * with a verdict and, where that is good, the one descriptor with which the
 * operation can be done. There is no other way to a descriptor, so that a new
 * operation can't forget to ask.
 *
 * All functions answer 0 or -errno: -ESTALE for what isn't where it was (the
 * kernel then looks the path up anew), -EROFS, -EACCES, -EBUSY and -EXDEV as
 * docs/policy.md has it.
 */
#ifndef WORKTREEFS_GUARD_H
#define WORKTREEFS_GUARD_H

#include "fs/entry.h"
#include "fs/file.h"
#include "fs/inode.h"
#include "fs/lib/explain.h"
#include "fs/view.h"

/* An object that op may be done to. hold.fd is an O_PATH descriptor of it
 * (or an open file's): reach the object through fd_path() or AT_EMPTY_PATH. */
int guard_object(struct view *view, uint64_t nodeid, enum policy_op op,
		 struct hold *ret_hold);

/* A name that op may be done to. */
int guard_name(struct view *view, uint64_t parent, const char *name,
	       enum policy_op op, struct entry *ret_entry);
/* OP_CREATE for a symlink, a device, a pipe, a socket. type: its S_IFMT. */
int guard_other_name(struct view *view, uint64_t parent, const char *name,
		     mode_t type, struct entry *ret_entry);
/* The same for another link of an object, and the object itself. */
int guard_link(struct view *view, uint64_t nodeid, uint64_t parent,
	       const char *name, struct hold *ret_source,
	       struct entry *ret_entry);
/* The directory that was granted has been made. */
void guard_made(struct view *view, const struct entry *entry);

/*
 * Both names of a rename, judged together: with RENAME_EXCHANGE both are
 * replaced, and a directory may only move where everything in it keeps its
 * rule.
 */
struct rename_request {
	uint64_t parent, new_parent;
	const char *name, *new_name;
	unsigned int flags; /* of renameat2(2) */
};

int guard_rename(struct view *view, const struct rename_request *request,
		 struct rename_grant *ret_grant);
/*
 * For files that may be replaced, but not by anything: judges what is to be
 * installed, and installs a copy of it. 0, or -EROFS when it is refused.
 */
int guard_install(struct view *view, const struct rename_grant *grant);

/*
 * Opens the object with the flags of open(2): O_TRUNC is done once the file is
 * known to be the right one, O_APPEND is left out (the kernel gives offsets)
 * but where the file may only grow,
 * O_CREAT, O_EXCL and O_NOCTTY mean nothing here. The descriptor is owned by
 * the caller. Directories are opened for reading. ret_stx: as it was before
 * O_TRUNC.
 */
int guard_open(struct view *view, uint64_t nodeid, int flags,
	       struct inode **ret_inode, struct statx *ret_stx, int *ret_fd);

/*
 * The inode was found by looking a name up. Is that the name by which a shared
 * file is about to be changed? Then it has another file now, which is to be
 * looked up in its place.
 */
bool guard_unshare_name(struct view *view, struct inode *inode,
			const struct statx *stx);

/*
 * May this open file still be written? A rule may have changed since.
 * in_place: elsewhere than at its end.
 */
int guard_write(struct view *view, const struct file *file, bool in_place);

/* The same for reading it, or listing an open directory. */
int guard_read(struct view *view, const struct file *file);

/* Is this a file that may only grow? Whoever opens it for writing writes to
 * its end. */
bool guard_appends_only(struct inode *inode);

/* The same as guard_object() for a change of attributes. */
struct attribute_change {
	bool owner, size, times;
	int mode;		 /* -1: not this */
	const struct file *file; /* whose size is set; or NULL */
};

int guard_attributes(struct view *view, uint64_t nodeid,
		     const struct attribute_change *change,
		     struct hold *ret_hold);

/* May access(2) be answered with yes for this mask? Not counted as denial. */
int guard_access(struct view *view, uint64_t nodeid, int mask,
		 struct hold *ret_hold);

/*
 * What would be said to op on a path at or below the view's root (absolute and
 * clean, as it is outside), and why. Nothing is done, looked up or logged.
 * 0 or -ENOMEM.
 */
int guard_explain(const struct view *view, const char *path, enum policy_op op,
		  struct explanation *ret);

/*
 * Attributes, which every rule allows. ret_inode: referenced; ret_content: what
 * is read instead, referenced, or NULL.
 */
int guard_stat(struct view *view, uint64_t nodeid, struct inode **ret_inode,
	       struct statx *ret_stx, struct content **ret_content);

/*
 * Keeps a descriptor of the thing that entry names, which is about to lose
 * that name: whoever still has it in use must be able to stat it.
 */
void guard_keep(struct entry *entry, const struct statx *stx);

#endif

/*
 * A view: a root with its rules, served to one FUSE connection.
 */
#ifndef WORKTREEFS_VIEW_H
#define WORKTREEFS_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/content.h"
#include "fs/inode.h"
#include "fs/lib/policy.h"
#include "fs/lib/spec.h"

/* What the kernel asks, counted one by one. */
#define REQUESTS(X)        \
	X(lookup)          \
	X(forget)          \
	X(getattr)         \
	X(statx)           \
	X(setattr)         \
	X(readlink)        \
	X(mknod)           \
	X(mkdir)           \
	X(symlink)         \
	X(unlink)          \
	X(rmdir)           \
	X(rename)          \
	X(link)            \
	X(create)          \
	X(tmpfile)         \
	X(open)            \
	X(read)            \
	X(write)           \
	X(flush)           \
	X(release)         \
	X(fsync)           \
	X(fallocate)       \
	X(copy_file_range) \
	X(lseek)           \
	X(opendir)         \
	X(readdir)         \
	X(readdirplus)     \
	X(releasedir)      \
	X(fsyncdir)        \
	X(statfs)          \
	X(access)          \
	X(getxattr)        \
	X(listxattr)       \
	X(setxattr)        \
	X(removexattr)     \
	X(getlk)           \
	X(setlk)           \
	X(flock)           \
	X(ioctl)

enum request {
#define X(name) REQUEST_##name,
	REQUESTS(X)
#undef X
		N_REQUESTS,
};

extern const char *const request_names[N_REQUESTS];

struct fuse_session;
struct gitguard;

/* A name that the kernel must never lose, see struct view_spec. */
struct pin {
	const struct policy_node *node; /* borrowed from the policy */
	struct inode *inode;		/* pinned */
};

struct view {
	/* Set up before the first request, and constant then; but policy and
	 * pins' nodes change with the rules, while the gate is closed. */
	const struct view_spec *spec;	    /* borrowed */
	const struct session_spec *session; /* borrowed */
	const struct path_map *map;	    /* borrowed */
	struct policy *policy;
	struct gitguard
		*gitguard; /* borrowed; NULL where no rule has a judge */
	struct pin *pins;
	size_t n_pins;
	double timeout;	   /* seconds, of names and attributes */
	bool many_users;   /* requests act with the caller's ids */
	bool asks_opendir; /* directories are opened by a request */
	bool rewrites;	   /* some files read differently, see content.h */

	/* Guards the choices of passthrough.h. */
	pthread_mutex_t backing_lock;
	bool may_pass_through; /* constant after the first request */
	bool passes_through;   /* protected by backing_lock */

	struct fuse_session *fuse;
	struct inode_table table;

	/* Atomic counters. */
	uint64_t requests[N_REQUESTS];
	uint64_t denials;
};

/* max_fds: how many descriptors may be kept for directories. root_fd is taken
 * over on success. 0 or -errno; on failure *view needs no release. */
int view_init(struct view *view, const struct session_spec *session,
	      size_t index, const struct path_map *map, int root_fd,
	      size_t max_fds);
void view_release(struct view *view);

/*
 * Other rules, with the gate closed: what the view would make of them, and
 * once its inodes have moved there (places.h), that it goes by them. The old
 * policy is freed, the new one taken over. 0, -ENOMEM or -EEXIST.
 */
int view_policy_of(const struct view *view, const struct rules *rules,
		   struct policy **ret_policy);
void view_take_policy(struct view *view, struct policy *policy);

/* The pinned inode that stands at this place, borrowed, or NULL. */
struct inode *view_pinned(const struct view *view, struct place place);

/*
 * How long the kernel may keep names and attributes of things at a place. mode
 * is the thing's; 0: there is none.
 */
struct timeouts {
	double entry, negative, attr;
};
struct timeouts view_timeouts(const struct view *view, struct place place,
			      mode_t mode);

/* Attributes as the kernel is to see them. */
void view_attributes(const struct view *view, const struct statx *stx,
		     const struct content *content, struct stat *ret_st);

/*
 * To be asked before the kernel hears of an inode's attributes: does it have a
 * listing of it that it must drop first?
 */
bool view_listing_is_stale(const struct view *view, struct inode *inode,
			   const struct statx *stx);

#endif

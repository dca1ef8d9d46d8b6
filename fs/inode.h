/*
 * The inodes that the kernel, or an operation under way, knows of a view.
 *
 * An inode is known by the device and number of its backing file and by its
 * place in the rules: one file that is linked into trees of two rules is two
 * inodes, so that access never leaks from one name to the other. Node ids only
 * grow and are never used twice.
 *
 * Two counts keep an inode: the kernel's lookups, given back by FORGET, and
 * the references of operations, open files and children. Both are protected by
 * the table's lock; find-or-insert is one critical section.
 *
 * Descriptors are bounded. A directory keeps an O_PATH descriptor once it was
 * needed, the least recently used ones are closed beyond a cap. Everything
 * else is opened from its parent by the name under which it was last seen and
 * checked to be the same file; -ESTALE says that it isn't there any more, and
 * makes the kernel look its path up again.
 */
#ifndef WORKTREEFS_INODE_H
#define WORKTREEFS_INODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/policy.h"

struct content;
struct file;
struct lock_owner;

struct inode {
	/* Never change. */
	struct inode_table *table; /* borrowed */
	uint64_t nodeid;
	dev_t dev;
	ino_t ino;
	mode_t type;		     /* S_IFMT bits */
	struct statx_timestamp born; /* zero where it isn't known */

	struct place place; /* changes with the rules, see places.h */

	/* Protected by table->lock from here on. */
	uint64_t lookups;		/* the kernel's */
	uint64_t refs;			/* ours */
	struct inode *parent;		/* referenced; NULL for the root */
	char *name;			/* in parent, when last seen */
	int fd;				/* O_PATH, or -1 */
	unsigned int fd_users;		/* the descriptor stays while > 0 */
	bool pinned;			/* fd and lookups are kept for good */
	bool hashed;			/* found by its key */
	struct file *files;		/* open ones */
	struct lock_owner *lock_owners; /* protected by locks.c's lock */
	struct content *content;	/* what is read instead; owned ref */
	struct stamp {			/* when last opened, or listed */
		struct timespec mtime, ctime;
		off_t size;
		bool settled; /* can't change without the stamp changing */
	} stamp;
	struct timespec told; /* of a directory: the newest mtime that the
				 kernel has heard of */

	bool made_here; /* by this view; atomic, only ever set */

	pid_t unshare_for; /* who is about to change it by some name; atomic */
	pid_t stale_for;   /* whose open found its name gone; atomic */

	/* Protected by view->backing_lock: see passthrough.h. */
	int backing_id;
	unsigned int n_through, n_plain;

	/* Of a directory: does an ACL say who may search it? */
	struct {
		struct timespec ctime; /* then; zero when never looked at */
		bool present;
	} acl;

	/* Where it is about to stand, see places.h; with the gate closed. */
	struct place next;
	uint64_t planned; /* for which of the plans */
	bool touched;	  /* at or below the rule that changes */

	/* The table's. */
	struct inode *next_by_id, *next_by_key;
	struct inode *newer, *older; /* those with a descriptor, by use */
};

struct inode_table {
	pthread_mutex_t lock;
	struct inode **by_id, **by_key; /* buckets */
	size_t n_buckets;		/* a power of two, of each */
	size_t n_inodes;
	uint64_t last_id;
	struct inode *root;
	struct inode *newest, *oldest;
	size_t n_fds, max_fds;
	bool trust_birth; /* do birth times tell files of one number apart? */
	bool fine_times;  /* does every change of a directory show in its times?
			   */
	uint64_t stale_at; /* atomic: when -ESTALE was last said, in ms */
	uint64_t n_plans;  /* see places.h; with the gate closed */
};

/* The descriptor of the view's root is taken over on success. */
int inode_table_init(struct inode_table *table, int root_fd, struct place place,
		     size_t max_fds);
void inode_table_release(struct inode_table *table);

/* A referenced inode, or NULL if the kernel names one that we don't know. */
struct inode *inode_get(struct inode_table *table, uint64_t nodeid);
struct inode *inode_ref(struct inode *inode);
void inode_unref(struct inode *inode);

/*
 * The inode of a file that was seen as name in parent; made if it isn't known.
 * lookups are added to the kernel's count. Referenced; -ENOMEM.
 */
int inode_find_or_add(struct inode *parent, const char *name,
		      struct place place, const struct statx *stx,
		      uint64_t lookups, struct inode **ret_inode);
/* The same if it is known already, without touching it; NULL if it isn't. */
struct inode *inode_find(struct inode_table *table, struct place place,
			 const struct statx *stx);

void inode_forget(struct inode_table *table, uint64_t nodeid, uint64_t lookups);

/* The file is seen as name in parent from now on. */
void inode_moved(struct inode *inode, struct inode *parent, const char *name);

/* Was it last seen under the name of one of git's pointer files? */
bool inode_has_pointer_name(struct inode *inode);

/*
 * The path from the view's root to the inode, or to a name in it (may be
 * NULL), by the names last seen: for judging by, not for opening. "" is the
 * root. Allocated; NULL without memory, or for what has no name.
 */
char *inode_path(struct inode *inode, const char *name);

/* The same for who holds the table's lock. */
char *inode_path_locked(const struct inode *inode);
/* Files all inodes anew, by places that have changed. Under the lock. */
void inode_table_rehash(struct inode_table *table);

/* What is read instead of the file from now on; referenced here. Or NULL. */
void inode_set_content(struct inode *inode, struct content *content);

/*
 * Are the times so old that the next change, however soon, will have others?
 */
bool times_are_settled(const struct statx *stx);

/*
 * Is the data what it was when the file was last opened, so that the kernel
 * may go on with the pages it has? stx is remembered for the next time.
 */
bool inode_data_is_known(struct inode *inode, const struct statx *stx);

/*
 * The kernel keeps a listing while the directory's mtime is what it was. Of a
 * directory that it lists without opening it, and whose attributes it is about
 * to hear: has there been a change that it can't see from that, because
 * somebody has set the mtime back? The stamp is the last listing's.
 */
bool inode_listing_is_stale(struct inode *dir, const struct statx *stx);
/* The kernel drops it. */
void inode_listing_dropped(struct inode *dir, const struct statx *stx);

/* Returns once the table's lock can be had. */
void inode_table_check(struct inode_table *table);

/* Has it a descriptor of its own at hand? */
bool inode_has_fd(struct inode *inode);
/* Keeps fd (taken over) as the inode's descriptor for as long as it fits. */
void inode_keep_fd(struct inode *inode, int fd);
/* Keeps the inode, one lookup of it, and its descriptor fd for good. */
void inode_pin(struct inode *inode, int fd);

/* Does a directory, as it was just seen through fd, have an access ACL? */
bool inode_has_acl(struct inode *dir, int fd, const struct stat *st);

/*
 * Descriptors. With them everything can be changed, so only the guard calls
 * these (tests/lint/floors.sh holds it).
 *
 * inode_hold(): an O_PATH descriptor of the inode, be it a directory, open, or
 * to be found by its name.
 * inode_hold_parent(): one of the directory it was last seen in, and its name
 * there (allocated). -ESTALE for the root.
 */
struct hold {
	struct inode *inode; /* referenced */
	struct file *file;   /* referenced: fd is its descriptor; or NULL */
	int fd;
	bool cached; /* fd is the inode's own */
};

#define HOLD_NONE        \
	(struct hold)    \
	{                \
		.fd = -1 \
	}

int inode_hold(struct inode *inode, struct hold *ret_hold);
int inode_hold_parent(struct inode *inode, struct hold *ret_parent,
		      char **ret_name);
void hold_release(struct hold *hold);

/* Is this the backing file of the inode? */
bool inode_is(const struct inode *inode, const struct statx *stx);

/*
 * A directory that was just looked up is held at once: whoever has got at it,
 * as by open(2), may use it whatever others do to its name. With later, as for
 * one of many that are listed, it is so only soon after an -ESTALE, and then
 * symlinks are, too: the kernel has looked the path up once more, and must not
 * hear that again. 0, or -ESTALE: it has moved meanwhile.
 */
int inode_settle(struct inode *inode, bool later);

/* Frees descriptors after EMFILE; false if there were none to free. */
bool inode_table_shrink(struct inode_table *table);

/*
 * The attributes of the backing file, by whatever descriptor or name there is.
 * 0 or -errno.
 */
int inode_statx(struct inode *inode, struct statx *ret_stx);

#define STATX_WANTED (STATX_BASIC_STATS | STATX_BTIME)

static inline void cleanup_inodep(struct inode **inode)
{
	if (*inode)
		inode_unref(*inode);
}
#define autoinode __attribute__((cleanup(cleanup_inodep)))
#define autohold __attribute__((cleanup(hold_release)))

#endif

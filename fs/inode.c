#include "fs/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "fs/content.h"
#include "fs/file.h"
#include "fs/lib/fileio.h"
#include "fs/log.h"

#define FIRST_BUCKETS 1024
#define ROOT_ID 1
/* Two changes within this many nanoseconds may leave the same time stamp:
 * a kernel's tick, and then some. */
#define TIMESTAMP_GRAIN 20000000
/* For so many milliseconds after -ESTALE things are likely to move again. */
#define UNSETTLED 1000
#define OPEN_PATH (O_PATH | O_NOFOLLOW | O_CLOEXEC)

static size_t mix(uint64_t value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdULL;
	value ^= value >> 33;
	return (size_t)value;
}

static size_t hash_id(const struct inode_table *table, uint64_t nodeid)
{
	return mix(nodeid) & (table->n_buckets - 1);
}

static size_t hash_key(const struct inode_table *table, dev_t dev, ino_t ino,
		       struct place place)
{
	uint64_t key = ino + 0x9e3779b97f4a7c15ULL * dev;

	key ^= (uint64_t)(uintptr_t)place.node << 1;
	return mix(key ^ place.on_tree) & (table->n_buckets - 1);
}

static dev_t statx_dev(const struct statx *stx)
{
	return makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

static void insert_by_id(struct inode_table *table, struct inode *inode)
{
	struct inode **bucket = &table->by_id[hash_id(table, inode->nodeid)];

	inode->next_by_id = *bucket;
	*bucket = inode;
}

static void insert_by_key(struct inode_table *table, struct inode *inode)
{
	size_t at = hash_key(table, inode->dev, inode->ino, inode->place);

	inode->next_by_key = table->by_key[at];
	table->by_key[at] = inode;
	inode->hashed = true;
}

static void remove_by_id(struct inode_table *table, struct inode *inode)
{
	struct inode **at = &table->by_id[hash_id(table, inode->nodeid)];

	while (*at != inode)
		at = &(*at)->next_by_id;
	*at = inode->next_by_id;
}

static void remove_by_key(struct inode_table *table, struct inode *inode)
{
	size_t bucket = hash_key(table, inode->dev, inode->ino, inode->place);
	struct inode **at = &table->by_key[bucket];

	if (!inode->hashed)
		return;
	while (*at != inode)
		at = &(*at)->next_by_key;
	*at = inode->next_by_key;
	inode->hashed = false;
}

/* Doubles the buckets; keeping the old ones is fine when memory is short. */
static void grow(struct inode_table *table)
{
	struct inode_table old = *table;
	size_t n = old.n_buckets * 2;
	struct inode **by_id = calloc(n, sizeof(struct inode *));
	struct inode **by_key = calloc(n, sizeof(struct inode *));

	if (!by_id || !by_key) {
		free(by_id);
		free(by_key);
		return;
	}
	table->by_id = by_id;
	table->by_key = by_key;
	table->n_buckets = n;
	for (size_t i = 0; i < old.n_buckets; i++) {
		struct inode *inode, *next;

		for (inode = old.by_id[i]; inode; inode = next) {
			next = inode->next_by_id;
			insert_by_id(table, inode);
		}
		for (inode = old.by_key[i]; inode; inode = next) {
			next = inode->next_by_key;
			insert_by_key(table, inode);
		}
	}
	free(old.by_id);
	free(old.by_key);
}

void inode_table_rehash(struct inode_table *table)
{
	memset(table->by_key, 0, table->n_buckets * sizeof(struct inode *));
	for (size_t i = 0; i < table->n_buckets; i++)
		for (struct inode *inode = table->by_id[i]; inode;
		     inode = inode->next_by_id)
			if (inode->hashed)
				insert_by_key(table, inode);
}

/* Takes the inode out of the list of those with a descriptor. */
static void lru_remove(struct inode_table *table, struct inode *inode)
{
	if (inode->newer)
		inode->newer->older = inode->older;
	else
		table->newest = inode->older;
	if (inode->older)
		inode->older->newer = inode->newer;
	else
		table->oldest = inode->newer;
	inode->newer = inode->older = NULL;
	table->n_fds--;
}

static void lru_add(struct inode_table *table, struct inode *inode)
{
	inode->older = table->newest;
	inode->newer = NULL;
	if (table->newest)
		table->newest->newer = inode;
	else
		table->oldest = inode;
	table->newest = inode;
	table->n_fds++;
}

/*
 * Closes the least recently used descriptors down to keep. Closing an O_PATH
 * descriptor never waits, so it may be done under the lock.
 */
static void lru_trim(struct inode_table *table, size_t keep)
{
	struct inode *inode = table->oldest, *newer;

	for (; inode && table->n_fds > keep; inode = newer) {
		newer = inode->newer;
		if (inode->fd_users > 0)
			continue;
		lru_remove(table, inode);
		close(inode->fd);
		inode->fd = -1;
	}
}

/* At most once a minute. */
static void tell_shortage(void)
{
	static _Atomic time_t told;
	time_t now = time(NULL), before = told;
	struct rlimit limit = {0};

	if (now - before < 60 ||
	    !atomic_compare_exchange_strong(&told, &before, now))
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	log_line("too many open files: the limit is %llu, raise RLIMIT_NOFILE "
		 "before the session is started",
		 (unsigned long long)limit.rlim_cur);
}

bool inode_table_shrink(struct inode_table *table)
{
	size_t before, after;

	pthread_mutex_lock(&table->lock);
	before = table->n_fds;
	lru_trim(table, before / 2);
	after = table->n_fds;
	pthread_mutex_unlock(&table->lock);
	tell_shortage();
	return after < before;
}

static void inode_free(struct inode_table *table, struct inode *inode)
{
	remove_by_id(table, inode);
	remove_by_key(table, inode);
	if (inode->fd >= 0) {
		if (!inode->pinned)
			lru_remove(table, inode);
		close(inode->fd);
	}
	if (inode->content)
		content_unref(inode->content);
	free(inode->name);
	free(inode);
	table->n_inodes--;
}

/* Drops one reference, and with the last one the parents' too. */
static void unref_locked(struct inode_table *table, struct inode *inode)
{
	while (inode && --inode->refs == 0) {
		struct inode *parent = inode->parent;

		inode_free(table, inode);
		inode = parent;
	}
}

struct inode *inode_ref(struct inode *inode)
{
	pthread_mutex_lock(&inode->table->lock);
	inode->refs++;
	pthread_mutex_unlock(&inode->table->lock);
	return inode;
}

void inode_unref(struct inode *inode)
{
	struct inode_table *table = inode->table;

	pthread_mutex_lock(&table->lock);
	unref_locked(table, inode);
	pthread_mutex_unlock(&table->lock);
}

static struct inode *find_by_id(struct inode_table *table, uint64_t nodeid)
{
	struct inode *inode = table->by_id[hash_id(table, nodeid)];

	while (inode && inode->nodeid != nodeid)
		inode = inode->next_by_id;
	return inode;
}

struct inode *inode_get(struct inode_table *table, uint64_t nodeid)
{
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	inode = find_by_id(table, nodeid);
	if (inode)
		inode->refs++;
	pthread_mutex_unlock(&table->lock);
	return inode;
}

static bool same_birth(const struct inode_table *table,
		       const struct inode *inode, const struct statx *stx)
{
	if (!table->trust_birth || !(stx->stx_mask & STATX_BTIME))
		return true;
	return inode->born.tv_sec == stx->stx_btime.tv_sec &&
	       inode->born.tv_nsec == stx->stx_btime.tv_nsec;
}

/*
 * The number of a deleted file is soon given to a new one: type and birth time
 * tell it from the one that the kernel may still know.
 */
static struct inode *find_by_key(struct inode_table *table, struct place place,
				 const struct statx *stx)
{
	dev_t dev = statx_dev(stx);
	size_t at = hash_key(table, dev, stx->stx_ino, place);
	struct inode *inode;

	for (inode = table->by_key[at]; inode; inode = inode->next_by_key)
		if (inode->ino == stx->stx_ino && inode->dev == dev &&
		    place_equal(inode->place, place) &&
		    inode->type == (stx->stx_mode & S_IFMT) &&
		    same_birth(table, inode, stx))
			return inode;
	return NULL;
}

struct inode *inode_find(struct inode_table *table, struct place place,
			 const struct statx *stx)
{
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	inode = find_by_key(table, place, stx);
	if (inode)
		inode->refs++;
	pthread_mutex_unlock(&table->lock);
	return inode;
}

static struct inode *inode_new(struct inode_table *table, struct place place,
			       const struct statx *stx)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->table = table;
	inode->dev = statx_dev(stx);
	inode->ino = stx->stx_ino;
	inode->place = place;
	inode->type = stx->stx_mode & S_IFMT;
	if (stx->stx_mask & STATX_BTIME)
		inode->born = stx->stx_btime;
	inode->fd = -1;
	return inode;
}

static void publish(struct inode_table *table, struct inode *inode)
{
	if (table->n_inodes >= table->n_buckets)
		grow(table);
	inode->nodeid = ++table->last_id;
	insert_by_id(table, inode);
	insert_by_key(table, inode);
	table->n_inodes++;
}

/*
 * Would inode, seen in parent, be its own ancestor? That happens when others
 * turned two directories inside out and we have seen half of it. What we know
 * of one of them is out of date then, and a later lookup mends it.
 */
static bool makes_cycle(const struct inode *inode, const struct inode *parent)
{
	for (; parent; parent = parent->parent)
		if (parent == inode)
			return true;
	return false;
}

/* Takes name over. */
static void set_seen(struct inode_table *table, struct inode *inode,
		     struct inode *parent, char *name)
{
	struct inode *old = inode->parent;

	if (inode->type == S_IFDIR && makes_cycle(inode, parent)) {
		free(name);
		return;
	}
	free(inode->name);
	inode->name = name;
	if (old == parent)
		return;
	parent->refs++;
	inode->parent = parent;
	if (old)
		unref_locked(table, old);
}

static bool is_seen_as(const struct inode *inode, const struct inode *parent,
		       const char *name)
{
	return inode->parent == parent && strcmp(inode->name, name) == 0;
}

int inode_find_or_add(struct inode *parent, const char *name,
		      struct place place, const struct statx *stx,
		      uint64_t lookups, struct inode **ret_inode)
{
	struct inode_table *table = parent->table;
	struct inode *inode;
	char *copy = NULL;

	pthread_mutex_lock(&table->lock);
	inode = find_by_key(table, place, stx);
	if (!inode ||
	    (inode != table->root && !is_seen_as(inode, parent, name))) {
		copy = strdup(name);
		if (copy && !inode) {
			inode = inode_new(table, place, stx);
			if (inode)
				publish(table, inode);
		}
		if (!copy || !inode) {
			pthread_mutex_unlock(&table->lock);
			free(copy);
			return -ENOMEM;
		}
		set_seen(table, inode, parent, copy);
	}
	if (lookups > 0 && inode->lookups == 0)
		inode->refs++; /* the kernel's, for all its lookups */
	inode->lookups += lookups;
	inode->refs++;
	pthread_mutex_unlock(&table->lock);
	*ret_inode = inode;
	return 0;
}

void inode_forget(struct inode_table *table, uint64_t nodeid, uint64_t lookups)
{
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	inode = find_by_id(table, nodeid);
	if (inode && inode != table->root && inode->lookups > 0) {
		if (lookups > inode->lookups)
			lookups = inode->lookups;
		inode->lookups -= lookups;
		if (inode->lookups == 0)
			unref_locked(table, inode);
	}
	pthread_mutex_unlock(&table->lock);
}

void inode_moved(struct inode *inode, struct inode *parent, const char *name)
{
	struct inode_table *table = inode->table;
	char *copy = strdup(name);

	if (!copy)
		return; /* it will be found by the next lookup */
	pthread_mutex_lock(&table->lock);
	set_seen(table, inode, parent, copy);
	pthread_mutex_unlock(&table->lock);
}

/* Writes the path backwards, ending before end; NULL if it doesn't fit. */
static char *write_path(const struct inode *inode, const char *name,
			char *start, char *end)
{
	*--end = '\0';
	while (name) {
		size_t length = strlen(name);

		if ((size_t)(end - start) < length + 1 || length == 0)
			return NULL;
		end -= length;
		memcpy(end, name, length);
		if (!inode->parent)
			return end;
		*--end = '/';
		name = inode->name;
		inode = inode->parent;
	}
	return end;
}

char *inode_path_locked(const struct inode *inode)
{
	char buffer[8192], *path = buffer;

	buffer[0] = '\0';
	if (inode->parent)
		path = write_path(inode->parent, inode->name, buffer,
				  buffer + sizeof(buffer));
	return path ? strdup(path) : NULL;
}

char *inode_path(struct inode *inode, const char *name)
{
	char buffer[8192], *path;

	pthread_mutex_lock(&inode->table->lock);
	if (!name && inode->parent) {
		name = inode->name;
		inode = inode->parent;
	}
	path = write_path(inode, name, buffer, buffer + sizeof(buffer));
	pthread_mutex_unlock(&inode->table->lock);
	return path ? strdup(path) : NULL;
}

bool inode_has_pointer_name(struct inode *inode)
{
	bool has;

	pthread_mutex_lock(&inode->table->lock);
	has = inode->name && is_pointer_name(inode->name);
	pthread_mutex_unlock(&inode->table->lock);
	return has;
}

void inode_set_content(struct inode *inode, struct content *content)
{
	struct content *old;

	if (content)
		content_ref(content);
	pthread_mutex_lock(&inode->table->lock);
	old = inode->content;
	inode->content = content;
	pthread_mutex_unlock(&inode->table->lock);
	if (old)
		content_unref(old);
}

static struct timespec timespec_of(struct statx_timestamp stamp)
{
	return (struct timespec){stamp.tv_sec, stamp.tv_nsec};
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec ||
	       (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static int64_t nanoseconds(struct timespec t)
{
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

bool times_are_settled(const struct statx *stx)
{
	struct timespec clock;

	clock_gettime(CLOCK_REALTIME, &clock);
	return nanoseconds(clock) - nanoseconds(timespec_of(stx->stx_ctime)) >
	       TIMESTAMP_GRAIN;
}

static struct stamp stamp_of(const struct statx *stx)
{
	return (struct stamp){
		.mtime = timespec_of(stx->stx_mtime),
		.ctime = timespec_of(stx->stx_ctime),
		.size = (off_t)stx->stx_size,
		.settled = times_are_settled(stx),
	};
}

bool inode_data_is_known(struct inode *inode, const struct statx *stx)
{
	struct stamp *stamp = &inode->stamp;
	struct stamp now = stamp_of(stx);
	bool known;

	pthread_mutex_lock(&inode->table->lock);
	known = stamp->settled && stamp->size == now.size &&
		same_time(stamp->mtime, now.mtime) &&
		same_time(stamp->ctime, now.ctime);
	*stamp = now;
	pthread_mutex_unlock(&inode->table->lock);
	return known;
}

/* Has the directory changed since it was listed, or may it have? */
static bool has_changed(const struct inode *dir, const struct statx *stx)
{
	const struct stamp *then = &dir->stamp;

	return then->ctime.tv_sec != 0 &&
	       !(then->settled &&
		 same_time(then->ctime, timespec_of(stx->stx_ctime)));
}

/*
 * What comes into a directory, or leaves it, gives it a newer mtime than any
 * before: that the kernel sees by itself.
 */
bool inode_listing_is_stale(struct inode *dir, const struct statx *stx)
{
	struct timespec mtime = timespec_of(stx->stx_mtime);
	bool newer, changed;

	pthread_mutex_lock(&dir->table->lock);
	newer = is_later(mtime, dir->told);
	changed = has_changed(dir, stx);
	if (newer)
		dir->told = mtime;
	if (newer && changed) {
		dir->stamp = stamp_of(stx);
		dir->stamp.settled = true;
	}
	pthread_mutex_unlock(&dir->table->lock);
	return changed && !newer;
}

/* A listing that is under way may yet bring what was there before a change
 * that is this young. */
void inode_listing_dropped(struct inode *dir, const struct statx *stx)
{
	struct stamp now = stamp_of(stx);

	pthread_mutex_lock(&dir->table->lock);
	if (now.settled)
		dir->stamp = now;
	pthread_mutex_unlock(&dir->table->lock);
}

void inode_table_check(struct inode_table *table)
{
	pthread_mutex_lock(&table->lock);
	pthread_mutex_unlock(&table->lock);
}

bool inode_has_fd(struct inode *inode)
{
	bool has;

	pthread_mutex_lock(&inode->table->lock);
	has = inode->fd >= 0;
	pthread_mutex_unlock(&inode->table->lock);
	return has;
}

bool inode_has_acl(struct inode *dir, int fd, const struct stat *st)
{
	bool known, present;

	pthread_mutex_lock(&dir->table->lock);
	/* What came or went in it last left its ACL alone. */
	known = same_time(dir->acl.ctime, st->st_ctim) ||
		(dir->acl.ctime.tv_sec != 0 &&
		 same_time(st->st_mtim, st->st_ctim));
	present = dir->acl.present;
	pthread_mutex_unlock(&dir->table->lock);
	if (known)
		return present;
	present = getxattr(fd_path(fd).text, "system.posix_acl_access", NULL,
			   0) > 0;
	pthread_mutex_lock(&dir->table->lock);
	dir->acl.ctime = st->st_ctim;
	dir->acl.present = present;
	pthread_mutex_unlock(&dir->table->lock);
	return present;
}

void inode_keep_fd(struct inode *inode, int fd)
{
	struct inode_table *table = inode->table;

	pthread_mutex_lock(&table->lock);
	if (inode->fd < 0) {
		inode->fd = take_fd(&fd);
		lru_add(table, inode);
		lru_trim(table, table->max_fds);
	}
	pthread_mutex_unlock(&table->lock);
	if (fd >= 0)
		close(fd);
}

void inode_pin(struct inode *inode, int fd)
{
	struct inode_table *table = inode->table;

	pthread_mutex_lock(&table->lock);
	if (inode->fd >= 0 && !inode->pinned)
		lru_remove(table, inode);
	else if (inode->fd < 0)
		inode->fd = take_fd(&fd);
	inode->pinned = true;
	inode->refs++;
	pthread_mutex_unlock(&table->lock);
	if (fd >= 0)
		close(fd);
}

bool inode_is(const struct inode *inode, const struct statx *stx)
{
	return stx->stx_ino == inode->ino && statx_dev(stx) == inode->dev &&
	       (stx->stx_mode & S_IFMT) == inode->type &&
	       same_birth(inode->table, inode, stx);
}

/* Holds what the inode has at hand: its descriptor, or an open file's. */
static bool hold_at_hand(struct inode *inode, struct hold *hold)
{
	struct inode_table *table = inode->table;
	struct file *file;
	bool held = true;

	pthread_mutex_lock(&table->lock);
	file = inode->files;
	while (file && file->fd < 0)
		file = file->next;
	if (inode->fd >= 0) {
		if (!inode->pinned) {
			lru_remove(table, inode);
			lru_add(table, inode);
		}
		inode->fd_users++;
		*hold = (struct hold){.fd = inode->fd, .cached = true};
	} else if (file) {
		file->refs++;
		*hold = (struct hold){.fd = file->fd, .file = file};
	} else {
		held = false;
	}
	if (held) {
		inode->refs++;
		hold->inode = inode;
	}
	pthread_mutex_unlock(&table->lock);
	return held;
}

int inode_hold_parent(struct inode *inode, struct hold *ret_parent,
		      char **ret_name)
{
	struct inode_table *table = inode->table;
	autoinode struct inode *parent = NULL;
	autofree char *name = NULL;
	int r;

	pthread_mutex_lock(&table->lock);
	parent = inode->parent;
	if (parent) {
		parent->refs++;
		name = strdup(inode->name);
	}
	pthread_mutex_unlock(&table->lock);
	if (!parent)
		return -ESTALE;
	if (!name)
		return -ENOMEM;
	r = inode_hold(parent, ret_parent);
	if (r < 0)
		return r;
	*ret_name = steal_pointer(&name);
	return 0;
}

/* openat(2) that makes room when there are too many open files. */
static int open_making_room(struct inode_table *table, int dirfd,
			    const char *name, int flags)
{
	int fd = openat(dirfd, name, flags);

	if (fd < 0 && errno == EMFILE && inode_table_shrink(table))
		fd = openat(dirfd, name, flags);
	return fd < 0 ? -errno : fd;
}

/*
 * Whoever asks has got at the inode, maybe by another name. That he may not
 * search the directory in which we know it is no reason to refuse: where we
 * are root it is looked for as root. The thread's own fsuid is returned.
 */
static uid_t search_as_root(void)
{
	return (uid_t)setfsuid(0);
}

/* Isn't the inode to be found under its name? Not where we may not look. */
static bool is_out_of_sight(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EACCES;
}

/* Opens the inode by the name it was last seen under. */
static int open_by_name(struct inode *inode, int *ret_fd)
{
	autohold struct hold parent = HOLD_NONE;
	autofree char *name = NULL;
	autofd int fd = -1;
	struct statx stx;
	int r = inode_hold_parent(inode, &parent, &name);

	if (r < 0)
		return r;
	fd = open_making_room(inode->table, parent.fd, name, OPEN_PATH);
	if (fd == -EACCES) {
		uid_t uid = search_as_root();

		fd = open_making_room(inode->table, parent.fd, name, OPEN_PATH);
		setfsuid(uid);
	}
	if (fd < 0)
		return is_out_of_sight(-fd) ? -ESTALE : fd;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	if (!inode_is(inode, &stx))
		return -ESTALE;
	*ret_fd = take_fd(&fd);
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)nanoseconds(now) / 1000000;
}

int inode_hold(struct inode *inode, struct hold *ret_hold)
{
	struct inode_table *table = inode->table;
	struct hold hold = HOLD_NONE;
	int r;

	if (hold_at_hand(inode, ret_hold))
		return 0;
	r = open_by_name(inode, &hold.fd);
	if (r == -ESTALE)
		__atomic_store_n(&table->stale_at, now_ms(), __ATOMIC_RELAXED);
	if (r < 0)
		return r;
	pthread_mutex_lock(&table->lock);
	hold.inode = inode;
	inode->refs++;
	if (inode->type == S_IFDIR && inode->fd < 0) {
		hold.cached = true;
		inode->fd_users++;
		inode->fd = hold.fd;
		lru_add(table, inode);
		lru_trim(table, table->max_fds);
	}
	pthread_mutex_unlock(&table->lock);
	*ret_hold = hold;
	return 0;
}

/* Are others moving things about? */
static bool is_unsettled(const struct inode_table *table)
{
	uint64_t stale_at = __atomic_load_n(&table->stale_at, __ATOMIC_RELAXED);

	return stale_at != 0 && now_ms() - stale_at < UNSETTLED;
}

int inode_settle(struct inode *inode, bool later)
{
	autohold struct hold hold = HOLD_NONE;
	bool leads_on = inode->type == S_IFDIR || inode->type == S_IFLNK;
	int r;

	if (!leads_on ||
	    ((inode->type == S_IFLNK || later) && !is_unsettled(inode->table)))
		return 0;
	r = inode_hold(inode, &hold);
	if (r == 0 && inode->type == S_IFLNK && !hold.cached && !hold.file)
		inode_keep_fd(inode, take_fd(&hold.fd));
	/* What else is wrong, whoever uses it hears. */
	return r == -ESTALE ? -ESTALE : 0;
}

void hold_release(struct hold *hold)
{
	if (!hold->inode)
		return;
	if (hold->cached) {
		pthread_mutex_lock(&hold->inode->table->lock);
		hold->inode->fd_users--;
		pthread_mutex_unlock(&hold->inode->table->lock);
	} else if (hold->file) {
		file_unref(hold->file);
	} else {
		cleanup_fdp(&hold->fd);
	}
	inode_unref(hold->inode);
	*hold = HOLD_NONE;
}

static int statx_name(int dirfd, const char *name, struct statx *ret_stx)
{
	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		     STATX_WANTED, ret_stx) < 0
		       ? -errno
		       : 0;
}

/* Attributes by the name, for a file that has no descriptor at hand. */
static int statx_by_name(struct inode *inode, struct statx *ret_stx)
{
	autohold struct hold parent = HOLD_NONE;
	autofree char *name = NULL;
	struct statx stx;
	int r = inode_hold_parent(inode, &parent, &name);

	if (r < 0)
		return r;
	r = statx_name(parent.fd, name, &stx);
	if (r == -EACCES) {
		uid_t uid = search_as_root();

		r = statx_name(parent.fd, name, &stx);
		setfsuid(uid);
	}
	if (r < 0)
		return is_out_of_sight(-r) ? -ESTALE : r;
	if (!inode_is(inode, &stx))
		return -ESTALE;
	*ret_stx = stx;
	return 0;
}

int inode_statx(struct inode *inode, struct statx *ret_stx)
{
	autohold struct hold hold = HOLD_NONE;

	if (inode->type != S_IFDIR && !hold_at_hand(inode, &hold))
		return statx_by_name(inode, ret_stx);
	if (!hold.inode) {
		int r = inode_hold(inode, &hold);

		if (r < 0)
			return r;
	}
	return statx(hold.fd, "", AT_EMPTY_PATH, STATX_WANTED, ret_stx) < 0
		       ? -errno
		       : 0;
}

static bool birth_can_be_trusted(int root_fd)
{
	struct statfs fs;

	/* A copy-up gives a file a new one and keeps its number. */
	return fstatfs(root_fd, &fs) == 0 && fs.f_type != OVERLAYFS_SUPER_MAGIC;
}

static bool kernel_is_at_least(unsigned int major, unsigned int minor)
{
	unsigned int is_major, is_minor;
	struct utsname name;

	return uname(&name) == 0 &&
	       sscanf(name.release, "%u.%u", &is_major, &is_minor) == 2 &&
	       (is_major > major || (is_major == major && is_minor >= minor));
}

/*
 * Since 6.13 these file systems give a change that follows upon a look at the
 * times a time of its own (FS_MGTIME, Documentation/filesystems/
 * multigrain-ts.rst). Otherwise changes within a tick have the same. Inodes
 * without a birth time are of an old layout, with whole seconds.
 */
static bool times_are_fine(int root_fd, const struct statx *stx)
{
	struct statfs fs;

	if (!kernel_is_at_least(6, 13) || !(stx->stx_mask & STATX_BTIME) ||
	    fstatfs(root_fd, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	       fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC;
}

int inode_table_init(struct inode_table *table, int root_fd, struct place place,
		     size_t max_fds)
{
	struct statx stx;

	*table = (struct inode_table){
		.n_buckets = FIRST_BUCKETS,
		.max_fds = max_fds,
		.trust_birth = birth_can_be_trusted(root_fd),
	};
	if (statx(root_fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	table->fine_times = times_are_fine(root_fd, &stx);
	table->by_id = calloc(FIRST_BUCKETS, sizeof(struct inode *));
	table->by_key = calloc(FIRST_BUCKETS, sizeof(struct inode *));
	table->root = inode_new(table, place, &stx);
	if (!table->by_id || !table->by_key || !table->root) {
		free(table->by_id);
		free(table->by_key);
		free(table->root);
		return -ENOMEM;
	}
	pthread_mutex_init(&table->lock, NULL);
	table->root->fd = root_fd;
	table->root->pinned = true;
	table->root->refs = 1;
	publish(table, table->root);
	return table->root->nodeid == ROOT_ID ? 0 : -EINVAL;
}

/*
 * The kernel is gone: all that it knew is dropped. Open files have been
 * released by then; what an aborted connection left open goes with them.
 */
void inode_table_release(struct inode_table *table)
{
	for (size_t i = 0; i < table->n_buckets; i++) {
		struct inode *inode, *next;

		for (inode = table->by_id[i]; inode; inode = next) {
			next = inode->next_by_id;
			if (inode->fd >= 0)
				close(inode->fd);
			while (inode->files) {
				struct file *file = inode->files;

				inode->files = file->next;
				if (file->fd >= 0)
					close(file->fd);
				if (file->content)
					content_unref(file->content);
				free(file);
			}
			if (inode->content)
				content_unref(inode->content);
			free(inode->name);
			free(inode);
		}
	}
	free(table->by_id);
	free(table->by_key);
	pthread_mutex_destroy(&table->lock);
}

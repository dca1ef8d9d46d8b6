#include "fs/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/breaklink.h"
#include "fs/caller.h"
#include "fs/denials.h"
#include "fs/gitguard.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

/*
 * Open for a while of what another process might replace by a pipe or a
 * device: never wait for the other end, never become a terminal's owner.
 */
#define OPEN_SAFELY (O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC)

/* What was refused: an operation on an object, or on a name in it. */
struct refusal {
	enum policy_op op;
	struct inode *inode; /* borrowed */
	const char *name;    /* NULL: the object itself */
	struct place place;  /* whose rule says no */
	const char *what;    /* in the way, for people; or NULL */
};

/* Logs a refusal and hands r on. */
static int denied(struct view *view, int r, const struct refusal *refusal)
{
	autofree char *relative = inode_path(refusal->inode, refusal->name);
	autofree char *path =
		relative ? path_join(view->spec->root, relative) : NULL;
	const struct denial denial = {
		.pid = caller_pid(),
		.op = refusal->op,
		.path = path,
		.rule = place_rule(refusal->place),
		.error = r,
		.what = refusal->what,
	};

	__atomic_add_fetch(&view->denials, 1, __ATOMIC_RELAXED);
	if (path)
		denials_add(&denial);
	return r;
}

static int denied_object(struct view *view, int r, struct inode *inode,
			 enum policy_op op)
{
	const struct refusal refusal = {op, inode, NULL, inode->place, NULL};

	return denied(view, r, &refusal);
}

static int denied_name(struct view *view, int r, const struct entry *entry,
		       enum policy_op op, const char *what)
{
	struct inode *dir = entry->dir.inode;
	bool by_parent = policy_check(dir->place, op) < 0;
	const struct refusal refusal = {op, dir, entry->name,
					by_parent ? dir->place : entry->place,
					what};

	return denied(view, r, &refusal);
}

/* Would op change what another name of the file shows, too? */
static bool may_be_shared(const struct view *view, const struct inode *inode,
			  const struct statx *stx)
{
	return view->session->hardlinks != HARDLINKS_ALLOW &&
	       inode->type == S_IFREG && stx->stx_nlink > 1 &&
	       /* Git freshens objects by their times, and never writes them. */
	       place_rule(inode->place)->caching != CACHING_OBJECTS;
}

/*
 * Before a change of a file that may be shared: the name that is used gets a
 * file of its own. Which name that is only a lookup tells: -ESTALE has the
 * kernel walk the path again, and the lookup of its end does it, see
 * guard_unshare_name(). 0 where there is nothing to break.
 */
static int unshare_file(struct view *view, struct inode *inode,
			const struct statx *stx)
{
	pid_t pid = caller_pid();

	if (!may_be_shared(view, inode, stx))
		return 0;
	if (view->session->hardlinks == HARDLINKS_DENY)
		return denied_object(view, -EROFS, inode, OP_WRITE);
	__atomic_store_n(&inode->unshare_for, pid, __ATOMIC_RELAXED);
	return -ESTALE;
}

bool guard_unshare_name(struct view *view, struct inode *inode,
			const struct statx *stx)
{
	pid_t pid = caller_pid();

	if (inode->type != S_IFREG || pid == 0 ||
	    !__atomic_compare_exchange_n(&inode->unshare_for, &pid, 0, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	return may_be_shared(view, inode, stx) &&
	       policy_check(inode->place, OP_WRITE) == 0 &&
	       break_link(inode) == 0;
}

/* The same for an object that is held. */
static int unshare_held(struct view *view, const struct hold *hold,
			enum policy_op op)
{
	struct statx stx;

	switch (op) {
	case OP_WRITE:
	case OP_SETATTR:
	case OP_SETXATTR:
		break;
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
	case OP_SETTIMES:
	case OP_CREATE:
	case OP_MKDIR:
	case OP_REMOVE:
	case OP_REPLACE:
	case OP_LINK_SOURCE:
		return 0;
	}
	if (hold->inode->type != S_IFREG)
		return 0;
	if (statx(hold->fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	return unshare_file(view, hold->inode, &stx);
}

/* mode: the one that is to be set, or -1. */
static int hold_object(struct view *view, uint64_t nodeid, enum policy_op op,
		       int mode, struct hold *ret_hold)
{
	autoinode struct inode *inode = inode_get(&view->table, nodeid);
	autohold struct hold hold = HOLD_NONE;
	int r;

	if (!inode)
		return -ESTALE;
	r = policy_check(inode->place, op);
	if (r < 0)
		return denied_object(view, r, inode, op);
	r = inode_hold(inode, &hold);
	if (r < 0)
		return r;
	r = gitguard_object(view, inode, op, mode, hold.fd);
	if (r < 0)
		return denied_object(view, r, inode, op);
	r = unshare_held(view, &hold, op);
	if (r < 0)
		return r;
	*ret_hold = hold;
	hold = HOLD_NONE;
	return 0;
}

int guard_object(struct view *view, uint64_t nodeid, enum policy_op op,
		 struct hold *ret_hold)
{
	return hold_object(view, nodeid, op, -1, ret_hold);
}

void guard_made(struct view *view, const struct entry *entry)
{
	gitguard_made(view, entry);
}

bool guard_appends_only(struct inode *inode)
{
	return gitguard_appends_only(inode);
}

int guard_install(struct view *view, const struct rename_grant *grant)
{
	autofree char *what = NULL;
	int r = gitguard_install(view, grant, &what);

	return r == -EROFS ? denied_name(view, r, &grant->to, OP_REPLACE, what)
			   : r;
}

int guard_attributes(struct view *view, uint64_t nodeid,
		     const struct attribute_change *change,
		     struct hold *ret_hold)
{
	enum policy_op op = OP_SETTIMES;
	int r;

	if (change->owner || change->mode >= 0)
		op = OP_SETATTR;
	else if (change->size && !change->file)
		op = OP_WRITE;
	/* An open file was judged when it was opened for writing. */
	if (change->size && change->file) {
		r = guard_write(view, change->file, true);
		if (r < 0)
			return r;
	}
	return hold_object(view, nodeid, op, change->owner ? -1 : change->mode,
			   ret_hold);
}

/* The directory and the place of a name, without a verdict. */
static int find_entry(struct view *view, uint64_t parent, const char *name,
		      struct entry *ret_entry)
{
	autoinode struct inode *dir = inode_get(&view->table, parent);
	autoentry struct entry entry = {.dir = HOLD_NONE, .name = name};
	struct stat st;
	int r;

	if (!dir)
		return -ESTALE;
	if (dir->type != S_IFDIR)
		return -ENOTDIR;
	r = inode_hold(dir, &entry.dir);
	if (r < 0)
		return r;
	/* Whoever may not search the directory hears of that first. */
	if (strlen(name) > NAME_MAX)
		return fstatat(entry.dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0
			       ? -errno
			       : -ENAMETOOLONG;
	if (!name_is_valid(name))
		return -EINVAL;
	entry.place = policy_step(dir->place, name);
	*ret_entry = entry;
	entry = ENTRY_NONE;
	return 0;
}

int guard_name(struct view *view, uint64_t parent, const char *name,
	       enum policy_op op, struct entry *ret_entry)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r = find_entry(view, parent, name, &entry);

	if (r < 0)
		return r;
	r = policy_check_name(entry.dir.inode->place, entry.place, op);
	if (r == 0 && op != OP_STAT)
		r = gitguard_name(view, &entry, op);
	if (r < 0)
		return denied_name(view, r, &entry, op, NULL);
	*ret_entry = entry;
	entry = ENTRY_NONE;
	return 0;
}

static int check_entry(const struct entry *entry, enum policy_op op)
{
	return policy_check_name(entry->dir.inode->place, entry->place, op);
}

int guard_other_name(struct view *view, uint64_t parent, const char *name,
		     mode_t type, struct entry *ret_entry)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r = guard_name(view, parent, name, OP_CREATE, &entry);

	if (r < 0)
		return r;
	r = gitguard_other(view, &entry, type);
	if (r < 0)
		return denied_name(view, r, &entry, OP_CREATE, NULL);
	*ret_entry = entry;
	entry = ENTRY_NONE;
	return 0;
}

int guard_link(struct view *view, uint64_t nodeid, uint64_t parent,
	       const char *name, struct hold *ret_source,
	       struct entry *ret_entry)
{
	autoinode struct inode *source = inode_get(&view->table, nodeid);
	autoentry struct entry entry = ENTRY_NONE;
	int r;

	if (!source)
		return -ESTALE;
	r = guard_other_name(view, parent, name, source->type, &entry);
	if (r == 0)
		r = gitguard_link(source, &entry);
	if (r == 0)
		r = guard_object(view, nodeid, OP_LINK_SOURCE, ret_source);
	if (r < 0)
		return r;
	*ret_entry = entry;
	entry = ENTRY_NONE;
	return 0;
}

/* The verdict on a rename whose two ends are known. */
static int check_rename(const struct rename_grant *grant, unsigned int flags)
{
	struct place from = grant->from.place, to = grant->to.place;
	bool exchange = flags & RENAME_EXCHANGE;
	int r = check_entry(&grant->from, OP_REMOVE);

	if (r == 0 && (exchange || (flags & RENAME_WHITEOUT)))
		r = check_entry(&grant->from, OP_CREATE);
	if (r == 0 && grant->target_exists)
		r = check_entry(&grant->to, OP_REPLACE);
	if (r == 0)
		r = check_entry(&grant->to, OP_CREATE);
	if (r == 0)
		r = policy_check_move(from, to, S_ISDIR(grant->moved.stx_mode));
	if (r == 0 && exchange)
		r = policy_check_move(to, from,
				      S_ISDIR(grant->target.stx_mode));
	return r;
}

/* Names the end of the rename that is in the way. */
static int denied_rename(struct view *view, int r,
			 const struct rename_grant *grant)
{
	if (check_entry(&grant->from, OP_REMOVE) < 0)
		return denied_name(view, r, &grant->from, OP_REMOVE, NULL);
	return denied_name(view, r, &grant->to,
			   grant->target_exists ? OP_REPLACE : OP_CREATE, NULL);
}

int guard_rename(struct view *view, const struct rename_request *request,
		 struct rename_grant *ret_grant)
{
	autorename struct rename_grant grant = RENAME_GRANT_NONE;
	int r = find_entry(view, request->parent, request->name, &grant.from);

	if (r == 0)
		r = find_entry(view, request->new_parent, request->new_name,
			       &grant.to);
	if (r == 0)
		r = entry_statx(&grant.from, &grant.moved);
	if (r < 0)
		return r;
	r = entry_statx(&grant.to, &grant.target);
	if (r < 0 && r != -ENOENT)
		return r;
	grant.target_exists = r == 0;
	r = check_rename(&grant, request->flags);
	if (r == 0)
		r = gitguard_rename(view, &grant, request->flags,
				    &grant.install);
	if (r == -EXDEV)
		return r; /* it may still be copied */
	if (r < 0)
		return denied_rename(view, r, &grant);
	*ret_grant = grant;
	grant = RENAME_GRANT_NONE;
	return 0;
}

static bool open_writes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
}

/* What open(2)'s flags ask of an object. */
static int check_open(const struct inode *inode, int flags)
{
	bool reads = (flags & O_ACCMODE) != O_WRONLY;
	int r = 0;

	if (inode->type == S_IFDIR)
		return policy_check(inode->place, OP_LIST);
	if (reads)
		r = policy_check(inode->place, OP_READ);
	if (r == 0 && open_writes(flags))
		r = policy_check(inode->place, OP_WRITE);
	return r;
}

/* The flags with which the backing file is opened. */
static int backing_flags(const struct inode *inode, int flags)
{
	int wanted = flags & (O_ACCMODE | O_SYNC | O_DSYNC | O_NOATIME);

	if (inode->type == S_IFDIR)
		return O_RDONLY | O_DIRECTORY | OPEN_SAFELY;
	/*
	 * O_TRUNC without write access, or with access mode 3 (which gives
	 * none, either), still needs a file to truncate with.
	 */
	if ((flags & O_TRUNC) && (flags & O_ACCMODE) != O_WRONLY)
		wanted = (wanted & ~O_ACCMODE) | O_RDWR;
	return wanted | OPEN_SAFELY;
}

/* Is a name still the inode's? */
static bool is_named(const struct inode *inode, int dirfd, const char *name)
{
	struct statx stx;

	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		     STATX_WANTED, &stx) == 0 &&
	       inode_is(inode, &stx);
}

/*
 * Opens the name under which the inode was last seen. If another thing has the
 * name by now, that this can't be opened means nothing.
 */
static int open_name(struct inode *inode, int flags, int *ret_fd)
{
	autohold struct hold dir = HOLD_NONE;
	autofree char *name = NULL;
	int r = inode_hold_parent(inode, &dir, &name);
	int fd;

	if (r < 0)
		return r;
	fd = openat(dir.fd, name, flags);
	if (fd < 0) {
		r = -errno;
		return is_named(inode, dir.fd, name) ? r : -ESTALE;
	}
	*ret_fd = fd;
	return 0;
}

/* Opens once more what there is a descriptor of. */
static int open_again(struct inode *inode, int flags, int *ret_fd)
{
	autohold struct hold self = HOLD_NONE;
	int r = inode_hold(inode, &self);
	int fd;

	if (r < 0)
		return r;
	if (inode->type == S_IFDIR)
		fd = openat(self.fd, ".", flags);
	/* Listing a directory takes no right to search it, but "." does. */
	if (inode->type != S_IFDIR || (fd < 0 && errno == EACCES))
		fd = open(fd_path(self.fd).text, flags & ~O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int check_opened(const struct inode *inode, int fd,
			struct statx *ret_stx)
{
	if (statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, ret_stx) < 0)
		return -errno;
	return inode_is(inode, ret_stx) ? 0 : -ESTALE;
}

/*
 * Does the kernel come for it a second time in a row? It does so where it has
 * no name to look up again: for a file reached by a descriptor.
 */
static bool is_asked_again(struct inode *inode)
{
	pid_t pid = caller_pid();

	return __atomic_exchange_n(&inode->stale_for, pid, __ATOMIC_RELAXED) ==
	       pid;
}

/*
 * By name first. Where that is gone or another's by now, the kernel is to look
 * it up anew: whoever opens a name gets what has the name. Only then an open
 * file or a kept descriptor may still lead to the inode.
 */
static int open_inode(struct inode *inode, int flags, struct statx *ret_stx,
		      int *ret_fd)
{
	autofd int fd = -1;
	int r = -ESTALE;

	if (inode->type != S_IFDIR)
		r = open_name(inode, flags, &fd);
	if (r == 0)
		r = check_opened(inode, fd, ret_stx);
	if (r == -ESTALE && inode->type != S_IFDIR && !is_asked_again(inode))
		return r;
	if (r == -ESTALE) {
		cleanup_fdp(&fd);
		fd = -1;
		r = open_again(inode, flags, &fd);
		if (r == 0)
			r = check_opened(inode, fd, ret_stx);
	}
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_and_truncate(struct view *view, struct inode *inode, int flags,
			     struct statx *ret_stx, int *ret_fd)
{
	int backing = backing_flags(inode, flags);
	autofd int fd = -1;
	int r;

	/* In a session in a session, the outer one wants to be told, too. */
	if (open_writes(flags) && gitguard_appends_only(inode))
		backing |= O_APPEND;
	r = open_inode(inode, backing, ret_stx, &fd);
	if (r == -EMFILE && inode_table_shrink(inode->table))
		r = open_inode(inode, backing, ret_stx, &fd);
	/* An append-only file (chattr +a) wants to be told so. */
	if (r == -EPERM && (flags & O_APPEND))
		r = open_inode(inode, backing | O_APPEND, ret_stx, &fd);
	if (r < 0)
		return r;
	if (open_writes(flags))
		r = unshare_file(view, inode, ret_stx);
	if (r < 0)
		return r;
	if ((flags & O_TRUNC) && inode->type == S_IFREG && ftruncate(fd, 0) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int guard_open(struct view *view, uint64_t nodeid, int flags,
	       struct inode **ret_inode, struct statx *ret_stx, int *ret_fd)
{
	autoinode struct inode *inode = inode_get(&view->table, nodeid);
	int r;

	if (!inode)
		return -ESTALE;
	r = check_open(inode, flags);
	if (r == 0 && open_writes(flags))
		r = gitguard_open(view, inode, flags);
	if (r < 0)
		return denied_object(view, r, inode,
				     inode->type == S_IFDIR ? OP_LIST
				     : open_writes(flags)   ? OP_WRITE
							    : OP_READ);
	r = open_and_truncate(view, inode, flags, ret_stx, ret_fd);
	if (r < 0)
		return r;
	*ret_inode = steal_pointer(&inode);
	return 0;
}

int guard_write(struct view *view, const struct file *file, bool in_place)
{
	int r = policy_check(file->inode->place, OP_WRITE);

	if (r == 0 && in_place && file->appends_only)
		r = -EROFS;
	if (r == 0)
		r = gitguard_write(view, file->inode);
	return r < 0 ? denied_object(view, r, file->inode, OP_WRITE) : 0;
}

int guard_read(struct view *view, const struct file *file)
{
	enum policy_op op = file->inode->type == S_IFDIR ? OP_LIST : OP_READ;
	int r = policy_check(file->inode->place, op);

	return r < 0 ? denied_object(view, r, file->inode, op) : 0;
}

int guard_access(struct view *view, uint64_t nodeid, int mask,
		 struct hold *ret_hold)
{
	autoinode struct inode *inode = inode_get(&view->table, nodeid);
	int r = 0;

	if (!inode)
		return -ESTALE;
	if (mask & R_OK)
		r = policy_check(inode->place, OP_READ);
	if (r == 0 && (mask & W_OK))
		r = policy_check(inode->place, OP_WRITE);
	return r < 0 ? r : inode_hold(inode, ret_hold);
}

int guard_explain(const struct view *view, const char *path, enum policy_op op,
		  struct explanation *ret)
{
	return explain_path(view->policy, view->spec->root, view->session, path,
			    op, ret);
}

int guard_stat(struct view *view, uint64_t nodeid, struct inode **ret_inode,
	       struct statx *ret_stx, struct content **ret_content)
{
	autoinode struct inode *inode = inode_get(&view->table, nodeid);
	int r;

	if (!inode)
		return -ESTALE;
	r = inode_statx(inode, ret_stx);
	if (r < 0)
		return r;
	*ret_content = NULL;
	if (view->rewrites) {
		pthread_mutex_lock(&view->table.lock);
		if (inode->content)
			*ret_content = content_ref(inode->content);
		pthread_mutex_unlock(&view->table.lock);
	}
	*ret_inode = steal_pointer(&inode);
	return 0;
}

void guard_keep(struct entry *entry, const struct statx *stx)
{
	struct inode_table *table = entry->dir.inode->table;
	autoinode struct inode *inode = inode_find(table, entry->place, stx);
	struct statx now;
	int fd;

	if (!inode || inode_has_fd(inode))
		return;
	fd = openat(entry->dir.fd, entry->name,
		    O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &now) == 0 &&
	    inode_is(inode, &now))
		inode_keep_fd(inode, fd);
	else
		close(fd);
}

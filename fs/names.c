/*
 * Names: looking them up, making, moving and removing them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/caller.h"
#include "fs/lib/fileio.h"
#include "fs/notify.h"
#include "fs/ops.h"

#define POINTER_MAX 8192

/* Of a look at a name: what has it was gone before it could be held. */
#define LOOK_AGAIN 1
#define LOOKUP_TRIES 10

struct content *read_pointer(const struct view *view, int fd,
			     const struct statx *stx)
{
	autofree char *text = NULL;
	size_t size;

	if (!S_ISREG(stx->stx_mode) || stx->stx_size > POINTER_MAX ||
	    lseek(fd, 0, SEEK_SET) < 0 ||
	    read_fd(fd, POINTER_MAX, &text, &size) < 0)
		return NULL;
	return content_of_pointer(view->map, text, size);
}

/* What a file of this name reads as, or NULL for what it holds. */
static struct content *find_content(const struct view *view, int dirfd,
				    const char *name, const struct statx *stx)
{
	autofree char *target = NULL;
	autofd int fd = -1;

	if (S_ISLNK(stx->stx_mode))
		return read_link_at(dirfd, name, &target) < 0
			       ? NULL
			       : content_of_symlink(view->map, target);
	if (!S_ISREG(stx->stx_mode) || !is_pointer_name(name))
		return NULL;
	fd = openat(dirfd, name,
		    O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? NULL : read_pointer(view, fd, stx);
}

/*
 * The kernel walks along names that it knows without asking, those that don't
 * exist among them. In a directory that not everybody may search it has to ask
 * for each user anew.
 */
static bool needs_asking(const struct view *view, const struct entry *entry)
{
	struct stat st;

	return view->many_users && !view_pinned(view, entry->place) &&
	       (fstat(entry->dir.fd, &st) < 0 ||
		(st.st_mode & SEARCHABLE) != SEARCHABLE ||
		inode_has_acl(entry->dir.inode, entry->dir.fd, &st));
}

static void fill_entry(const struct view *view, const struct entry *entry,
		       struct inode *inode, const struct statx *stx,
		       const struct content *content,
		       struct fuse_entry_param *e)
{
	struct timeouts timeouts =
		view_timeouts(view, inode->place, stx->stx_mode);

	*e = (struct fuse_entry_param){
		.ino = inode->nodeid,
		.entry_timeout = needs_asking(view, entry) ? 0 : timeouts.entry,
		.attr_timeout = timeouts.attr,
	};
	/* A request for its attributes will see to that. */
	if (view_listing_is_stale(view, inode, stx))
		e->attr_timeout = 0;
	view_attributes(view, stx, content, &e->attr);
}

int entry_of_file(struct view *view, const struct entry *entry,
		  const struct statx *stx, struct fuse_entry_param *ret_e,
		  struct inode **ret_inode)
{
	int r = inode_find_or_add(entry->dir.inode, entry->name, entry->place,
				  stx, 1, ret_inode);

	if (r == 0)
		fill_entry(view, entry, *ret_inode, stx, NULL, ret_e);
	return r;
}

/* git's gc takes directories of objects away that others make anew: there it's
 * the name that counts. */
static bool settles_later(const struct entry *entry)
{
	return entry->listed ||
	       place_rule(entry->place)->caching == CACHING_OBJECTS;
}

/* One look at the name: 0, -errno, or LOOK_AGAIN. */
static int look(struct view *view, const struct entry *entry,
		struct fuse_entry_param *ret_e)
{
	struct inode *pinned = view_pinned(view, entry->place);
	autoinode struct inode *inode = NULL;
	autocontent struct content *content = NULL;
	struct statx stx;
	int r;

	/* A pinned name is what it was, whatever has become of it below. */
	if (pinned)
		r = statx(pinned->fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx);
	else
		r = statx(entry->dir.fd, entry->name,
			  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_WANTED,
			  &stx);
	if (r < 0)
		return pinned ? -ENOMEM : -errno;
	r = inode_find_or_add(entry->dir.inode, entry->name, entry->place, &stx,
			      1, &inode);
	if (r < 0)
		return r;
	if (inode_settle(inode, settles_later(entry)) < 0 ||
	    (!pinned && guard_unshare_name(view, inode, &stx))) {
		inode_forget(&view->table, inode->nodeid, 1);
		return LOOK_AGAIN;
	}
	if (view->rewrites) {
		content = find_content(view, entry->dir.fd, entry->name, &stx);
		inode_set_content(inode, content);
	}
	fill_entry(view, entry, inode, &stx, content, ret_e);
	return 0;
}

int entry_lookup(struct view *view, const struct entry *entry,
		 struct fuse_entry_param *ret_e)
{
	int r = LOOK_AGAIN;

	for (int i = 0; r == LOOK_AGAIN && i < LOOKUP_TRIES; i++)
		r = look(view, entry, ret_e);
	return r == LOOK_AGAIN ? -ESTALE : r;
}

static int do_lookup(struct view *view, fuse_ino_t parent, const char *name,
		     struct fuse_entry_param *ret_e)
{
	autoentry struct entry entry = ENTRY_NONE;
	struct timeouts timeouts;
	int r = guard_name(view, parent, name, OP_STAT, &entry);

	if (r < 0)
		return r;
	r = entry_lookup(view, &entry, ret_e);
	if (r != -ENOENT)
		return r;
	timeouts = view_timeouts(view, entry.place, 0);
	if (timeouts.negative <= 0 || needs_asking(view, &entry))
		return r;
	*ret_e = (struct fuse_entry_param){
		.entry_timeout = timeouts.negative,
	};
	return 0;
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct view *view = op_begin(req, REQUEST_lookup);
	struct fuse_entry_param e;

	if (view)
		reply_entry(req, view, do_lookup(view, parent, name, &e), &e);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	struct view *view = fuse_req_userdata(req);

	__atomic_add_fetch(&view->requests[REQUEST_forget], 1,
			   __ATOMIC_RELAXED);
	inode_forget(&view->table, ino, nlookup);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets)
{
	struct view *view = fuse_req_userdata(req);

	__atomic_add_fetch(&view->requests[REQUEST_forget], 1,
			   __ATOMIC_RELAXED);
	for (size_t i = 0; i < count; i++)
		inode_forget(&view->table, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static int do_mknod(struct view *view, fuse_req_t req, fuse_ino_t parent,
		    const char *name, mode_t mode, dev_t rdev,
		    struct fuse_entry_param *ret_e)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r = S_ISREG(mode)
			? guard_name(view, parent, name, OP_CREATE, &entry)
			: guard_other_name(view, parent, name, mode & S_IFMT,
					   &entry);

	if (r == 0)
		r = caller_umask(req);
	if (r < 0)
		return r;
	if (mknodat(entry.dir.fd, name, mode, rdev) < 0)
		return -errno;
	return entry_lookup(view, &entry, ret_e);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t rdev)
{
	struct view *view = op_begin(req, REQUEST_mknod);
	struct fuse_entry_param e;

	if (view)
		reply_entry(req, view,
			    do_mknod(view, req, parent, name, mode, rdev, &e),
			    &e);
}

static int do_mkdir(struct view *view, fuse_req_t req, fuse_ino_t parent,
		    const char *name, mode_t mode,
		    struct fuse_entry_param *ret_e)
{
	autoentry struct entry entry = ENTRY_NONE;
	int r = guard_name(view, parent, name, OP_MKDIR, &entry);

	if (r == 0)
		r = caller_umask(req);
	if (r < 0)
		return r;
	if (mkdirat(entry.dir.fd, name, mode) < 0)
		return -errno;
	guard_made(view, &entry);
	return entry_lookup(view, &entry, ret_e);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct view *view = op_begin(req, REQUEST_mkdir);
	struct fuse_entry_param e;

	if (view)
		reply_entry(req, view,
			    do_mkdir(view, req, parent, name, mode, &e), &e);
}

static int do_symlink(struct view *view, fuse_ino_t parent, const char *name,
		      const char *target, struct fuse_entry_param *ret_e)
{
	autoentry struct entry entry = ENTRY_NONE;
	autofree char *real = NULL;
	int r = guard_other_name(view, parent, name, S_IFLNK, &entry);

	if (r < 0)
		return r;
	/* What reads as leading into the view leads to its root. */
	if (view->rewrites)
		real = path_map_undo(view->map, target);
	if (symlinkat(real ? real : target, entry.dir.fd, name) < 0)
		return -errno;
	return entry_lookup(view, &entry, ret_e);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name)
{
	struct view *view = op_begin(req, REQUEST_symlink);
	struct fuse_entry_param e;

	if (view)
		reply_entry(req, view,
			    do_symlink(view, parent, name, target, &e), &e);
}

/* flags as for unlinkat(2). */
static int do_remove(struct view *view, fuse_ino_t parent, const char *name,
		     int flags)
{
	autoentry struct entry entry = ENTRY_NONE;
	struct statx stx;
	int r = guard_name(view, parent, name, OP_REMOVE, &entry);

	if (r < 0)
		return r;
	if (statx(entry.dir.fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_WANTED, &stx) == 0)
		guard_keep(&entry, &stx);
	return unlinkat(entry.dir.fd, name, flags) < 0 ? -errno : 0;
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct view *view = op_begin(req, REQUEST_unlink);

	if (view)
		fuse_reply_err(req, -do_remove(view, parent, name, 0));
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct view *view = op_begin(req, REQUEST_rmdir);

	if (view)
		fuse_reply_err(req,
			       -do_remove(view, parent, name, AT_REMOVEDIR));
}

/* Remembers where the inode that was under entry's place is seen now. */
static void note_moved(struct view *view, struct place place,
		       const struct statx *stx, const struct entry *to)
{
	autoinode struct inode *inode = inode_find(&view->table, place, stx);

	if (inode)
		inode_moved(inode, to->dir.inode, to->name);
}

/*
 * A name keeps the time for which the kernel knows it when it moves. Where it
 * comes into a directory with names to be asked for, it's one of these.
 */
static void note_asking(struct view *view, const struct rename_grant *grant)
{
	if (view->many_users && grant->from.dir.inode != grant->to.dir.inode &&
	    needs_asking(view, &grant->from) != needs_asking(view, &grant->to))
		notify_names(view);
}

static int do_rename(struct view *view, const struct rename_request *request)
{
	autorename struct rename_grant grant = RENAME_GRANT_NONE;
	bool exchange = request->flags & RENAME_EXCHANGE;
	int r = guard_rename(view, request, &grant);

	if (r < 0)
		return r;
	if (grant.target_exists && !exchange)
		guard_keep(&grant.to, &grant.target);
	if (grant.install)
		return guard_install(view, &grant);
	if (renameat2(grant.from.dir.fd, request->name, grant.to.dir.fd,
		      request->new_name, request->flags) < 0)
		return -errno;
	note_moved(view, grant.from.place, &grant.moved, &grant.to);
	if (exchange)
		note_moved(view, grant.to.place, &grant.target, &grant.from);
	note_asking(view, &grant);
	return 0;
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t newparent, const char *newname, unsigned int flags)
{
	struct view *view = op_begin(req, REQUEST_rename);
	const struct rename_request request = {
		.parent = parent,
		.name = name,
		.new_parent = newparent,
		.new_name = newname,
		.flags = flags,
	};

	if (view)
		fuse_reply_err(req, -do_rename(view, &request));
}

static int do_link(struct view *view, fuse_ino_t ino, fuse_ino_t newparent,
		   const char *newname, struct fuse_entry_param *ret_e)
{
	autoentry struct entry entry = ENTRY_NONE;
	autohold struct hold source = HOLD_NONE;
	int r = guard_link(view, ino, newparent, newname, &source, &entry);

	if (r < 0)
		return r;
	/* The link in /proc is followed, what it leads to isn't. */
	if (linkat(AT_FDCWD, fd_path(source.fd).text, entry.dir.fd, newname,
		   AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return entry_lookup(view, &entry, ret_e);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
	     const char *newname)
{
	struct view *view = op_begin(req, REQUEST_link);
	struct fuse_entry_param e;

	if (view)
		reply_entry(req, view,
			    do_link(view, ino, newparent, newname, &e), &e);
}

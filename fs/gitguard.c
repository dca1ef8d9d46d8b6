#include "fs/gitguard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/gitfiles.h"
#include "fs/lib/path.h"

/* How a ref, or what belongs to it, stands to the protected ones. */
enum standing {
	STANDING_FREE,
	STANDING_LOCK,	    /* the lock file of a protected one */
	STANDING_PROTECTED, /* one, or below the name of one */
	STANDING_ABOVE,	    /* a directory that leads to one */
};

/* The same for what lies below worktrees/. */
enum admin {
	ADMIN_TOP,     /* worktrees itself */
	ADMIN_DIR,     /* worktrees/ID */
	ADMIN_CONFIG,  /* worktrees/ID/config.worktree, of the session's own */
	ADMIN_MODULES, /* below modules, of the session's own */
	ADMIN_OWN,     /* all else in a directory of the session's own */
	ADMIN_LOCK,    /* a lock file of the next two */
	ADMIN_HEAD,    /* HEAD of another's */
	ADMIN_REFLOG,  /* logs/HEAD of another's */
	ADMIN_FOREIGN, /* all else of another's */
};

static enum judge judge_of(struct place place)
{
	return place_rule(place)->judge;
}

static bool ends_with(const char *s, const char *end)
{
	size_t length = strlen(s), n = strlen(end);

	return length > n && strcmp(s + length - n, end) == 0;
}

static bool is_ref_judge(enum judge judge)
{
	return judge == JUDGE_REF || judge == JUDGE_REFLOG;
}

/* A ref or reflog that is no lock file. The user may switch to its branch at
 * any time, and what was prepared before must not write on then. */
static bool is_ref_file(enum judge judge, const char *path)
{
	return is_ref_judge(judge) && !ends_with(path, ".lock");
}

/* A copy of the name without ".lock", or NULL if it doesn't end so. */
static char *without_lock(const char *name)
{
	return ends_with(name, ".lock")
		       ? strndup(name, strlen(name) - strlen(".lock"))
		       : NULL;
}

static enum standing stand(const struct strings *protected_refs,
			   const char *ref)
{
	autofree char *locked = without_lock(ref);

	if (locked && ref_is_protected(protected_refs, locked))
		return STANDING_LOCK;
	if (ref_is_protected(protected_refs, ref))
		return STANDING_PROTECTED;
	return ref_leads_to_protected(protected_refs, ref) ? STANDING_ABOVE
							   : STANDING_FREE;
}

/*
 * How does a path below G stand, one below HEAD, refs/heads, or the same in
 * logs/? Asked of the repository at each call: the user may have switched.
 */
static int ref_standing(struct gitguard *guard, const char *path,
			enum standing *ret_standing)
{
	struct strings refs = {0};
	const char *ref = path;
	int r = gitfiles_protected(guard, &refs);

	if (r < 0)
		return -EROFS;
	path_starts_with(path, "logs", &ref);
	*ret_standing = stand(&refs, ref);
	strings_release(&refs);
	return 0;
}

/* path: below G, "worktrees" or "worktrees/ID..." */
static enum admin admin_standing(struct gitguard *guard, const char *path)
{
	const char *id = strchr(path, '/');
	const char *rest = id ? strchr(id + 1, '/') : NULL;
	autofree char *name = NULL;

	if (!id)
		return ADMIN_TOP;
	if (!rest)
		return ADMIN_DIR;
	name = strndup(id + 1, (size_t)(rest - id - 1));
	rest++;
	if (name && gitfiles_is_own(guard, name)) {
		if (strcmp(rest, "config.worktree") == 0)
			return ADMIN_CONFIG;
		return path_starts_with(rest, "modules", NULL) ? ADMIN_MODULES
							       : ADMIN_OWN;
	}
	if (strcmp(rest, "HEAD.lock") == 0 ||
	    strcmp(rest, "logs/HEAD.lock") == 0)
		return ADMIN_LOCK;
	if (strcmp(rest, "HEAD") == 0)
		return ADMIN_HEAD;
	return strcmp(rest, "logs/HEAD") == 0 ? ADMIN_REFLOG : ADMIN_FOREIGN;
}

/* Is worktrees/ID the session's own, by its path? */
static bool is_own_admin(struct gitguard *guard, const char *path)
{
	const char *id = strchr(path, '/');

	return id && gitfiles_is_own(guard, id + 1);
}

/*
 * Was it there before the session? Where birth times tell nothing, all is but
 * what the session was seen to make.
 */
static bool is_old(const struct view *view, const struct inode *inode,
		   const struct statx *stx)
{
	const struct statx_timestamp *born = &stx->stx_btime;
	const struct timespec *start = &view->gitguard->started;

	if (inode && __atomic_load_n(&inode->made_here, __ATOMIC_RELAXED))
		return false;
	if (!view->table.trust_birth || !(stx->stx_mask & STATX_BTIME))
		return true;
	return born->tv_sec < start->tv_sec || (born->tv_sec == start->tv_sec &&
						born->tv_nsec < start->tv_nsec);
}

static bool is_old_entry(struct view *view, const struct entry *entry,
			 const struct statx *stx)
{
	autoinode struct inode *inode =
		inode_find(&view->table, entry->place, stx);

	return is_old(view, inode, stx);
}

/* Is this a name in a tree of files and directories only? */
static bool is_plain(struct view *view, const struct entry *entry)
{
	autofree char *path = NULL;

	if (!place_rule(entry->place)->plain)
		return false;
	if (judge_of(entry->place) != JUDGE_ADMIN || !view->gitguard)
		return true;
	path = gitfiles_path(view->gitguard, entry->dir.inode, entry->name);
	return !path || admin_standing(view->gitguard, path) != ADMIN_MODULES;
}

/* May something of this type get the name? */
static int check_type(struct view *view, const struct entry *entry, mode_t type)
{
	return S_ISREG(type) || S_ISDIR(type) || !is_plain(view, entry)
		       ? 0
		       : -EROFS;
}

/*
 * A directory that its owner can't enter any more is closed for the user's git,
 * too. mode: the one to be set, or -1 for another owner.
 */
static int check_directory(const struct inode *inode, int mode, int fd)
{
	struct stat st;

	if (inode->type != S_IFDIR || !place_rule(inode->place)->plain)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	return mode >= 0 && (st.st_mode & S_IRWXU & ~(mode_t)mode) == 0
		       ? 0
		       : -EROFS;
}

/* ---- objects and names as they stand ---------------------------------- */

static int check_object_file(struct view *view, struct inode *inode,
			     enum policy_op op, int fd)
{
	struct statx stx;

	/* Its times are what git freshens it by. */
	if (op == OP_LINK_SOURCE || op == OP_SETTIMES)
		return 0;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0)
		return -errno;
	return is_old(view, inode, &stx) ? -EROFS : 0;
}

/* "git init" tries whether x bits can be set, on the config. */
static bool toggles_exec(int mode, int fd)
{
	struct stat st;

	return mode >= 0 && fstat(fd, &st) == 0 &&
	       ((st.st_mode ^ (mode_t)mode) & 07777 & ~(mode_t)0111) == 0;
}

static int check_ref(struct gitguard *guard, const char *path)
{
	enum standing standing;
	int r = ref_standing(guard, path, &standing);

	if (r < 0)
		return r;
	switch (standing) {
	case STANDING_FREE:
	case STANDING_LOCK:
		return 0;
	case STANDING_PROTECTED:
	case STANDING_ABOVE:
		return -EROFS;
	}
	return -EROFS;
}

static int check_admin(struct gitguard *guard, const char *path, int mode,
		       int fd)
{
	switch (admin_standing(guard, path)) {
	case ADMIN_MODULES:
	case ADMIN_OWN:
	case ADMIN_LOCK:
		return 0;
	case ADMIN_CONFIG:
		return toggles_exec(mode, fd) ? 0 : -EROFS;
	case ADMIN_DIR:
		return is_own_admin(guard, path) ? 0 : -EROFS;
	case ADMIN_TOP:
	case ADMIN_HEAD:
	case ADMIN_REFLOG:
	case ADMIN_FOREIGN:
		return -EROFS;
	}
	return -EROFS;
}

static int check_object(struct view *view, struct inode *inode,
			enum policy_op op, int mode, int fd)
{
	struct gitguard *guard = view->gitguard;
	autofree char *path = gitfiles_path(guard, inode, NULL);

	if (!path)
		return -EROFS;
	switch (judge_of(inode->place)) {
	case JUDGE_NONE:
		return 0;
	case JUDGE_OBJECTS:
		return check_object_file(view, inode, op, fd);
	case JUDGE_CONFIG:
	case JUDGE_WORKTREE_CONFIG:
		return toggles_exec(mode, fd) ? 0 : -EROFS;
	case JUDGE_PACKED_REFS:
	case JUDGE_STASH:
	case JUDGE_STASH_LOG:
		return -EROFS;
	case JUDGE_REF:
	case JUDGE_REFLOG:
		if ((op == OP_WRITE || op == OP_LINK_SOURCE) &&
		    is_ref_file(judge_of(inode->place), path))
			return -EROFS;
		return check_ref(guard, path);
	case JUDGE_ADMIN:
		return check_admin(guard, path, mode, fd);
	}
	return -EROFS;
}

int gitguard_object(struct view *view, struct inode *inode, enum policy_op op,
		    int mode, int fd)
{
	int r = 0;

	switch (op) {
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
	case OP_CREATE: /* a nameless file in a directory */
	case OP_MKDIR:
	case OP_REMOVE:
	case OP_REPLACE:
		return 0;
	case OP_SETATTR:
		r = check_directory(inode, mode, fd);
		break;
	case OP_WRITE:
	case OP_SETTIMES:
	case OP_SETXATTR:
	case OP_LINK_SOURCE:
		break;
	}
	if (r < 0 || judge_of(inode->place) == JUDGE_NONE)
		return r;
	return view->gitguard ? check_object(view, inode, op, mode, fd)
			      : -EROFS;
}

bool gitguard_appends_only(struct inode *inode)
{
	enum judge judge = judge_of(inode->place);
	autofree char *path = NULL;

	if (judge != JUDGE_REFLOG)
		return judge == JUDGE_STASH_LOG;
	path = inode_path(inode, NULL);
	return !path || is_ref_file(judge, path);
}

int gitguard_write(struct view *view, struct inode *inode)
{
	autofree char *path = NULL;

	if (judge_of(inode->place) != JUDGE_REFLOG)
		return 0;
	if (view->gitguard)
		path = gitfiles_path(view->gitguard, inode, NULL);
	return path ? check_ref(view->gitguard, path) : -EROFS;
}

/* Git makes a ref's file under a lock's name and renames it. */
static int check_open_ref(struct view *view, struct inode *inode)
{
	autofree char *path = gitfiles_path(view->gitguard, inode, NULL);

	if (!path || is_ref_file(JUDGE_REF, path))
		return -EROFS;
	return check_ref(view->gitguard, path);
}

int gitguard_open(struct view *view, struct inode *inode, int flags)
{
	autohold struct hold hold = HOLD_NONE;
	int r;

	if (judge_of(inode->place) == JUDGE_NONE)
		return 0;
	if (!view->gitguard)
		return -EROFS;
	if (gitguard_appends_only(inode))
		return (flags & O_APPEND) && !(flags & O_TRUNC)
			       ? gitguard_write(view, inode)
			       : -EROFS;
	if (judge_of(inode->place) == JUDGE_REF)
		return check_open_ref(view, inode);
	r = inode_hold(inode, &hold);
	return r < 0 ? r : check_object(view, inode, OP_WRITE, -1, hold.fd);
}

/* An empty directory that git tidies away does nobody harm. */
static bool removes_directory(const struct entry *entry, enum policy_op op)
{
	struct statx stx;

	return op == OP_REMOVE && entry_statx(entry, &stx) == 0 &&
	       S_ISDIR(stx.stx_mode);
}

static int check_ref_name(struct gitguard *guard, const struct entry *entry,
			  const char *path, enum policy_op op)
{
	enum standing standing;
	int r = ref_standing(guard, path, &standing);

	if (r < 0)
		return r;
	switch (standing) {
	case STANDING_FREE:
		/* Whoever makes it has it open for writing. */
		return op == OP_CREATE && judge_of(entry->place) == JUDGE_REF &&
				       is_ref_file(JUDGE_REF, path)
			       ? -EROFS
			       : 0;
	case STANDING_LOCK:
		return 0;
	case STANDING_ABOVE:
		return op == OP_MKDIR || removes_directory(entry, op) ? 0
								      : -EROFS;
	case STANDING_PROTECTED:
		if (removes_directory(entry, op))
			return 0;
		/* Packed, its value lives on. */
		return op == OP_REMOVE && judge_of(entry->place) == JUDGE_REF
			       ? gitfiles_check_packed(guard, path)
			       : -EROFS;
	}
	return -EROFS;
}

static int check_admin_name(struct gitguard *guard, const char *path,
			    enum policy_op op)
{
	switch (admin_standing(guard, path)) {
	case ADMIN_MODULES:
	case ADMIN_OWN:
	case ADMIN_LOCK:
		return 0;
	case ADMIN_DIR:
		return op == OP_MKDIR || is_own_admin(guard, path) ? 0 : -EROFS;
	case ADMIN_CONFIG:
		return op == OP_REMOVE ? 0 : -EROFS;
	case ADMIN_TOP:
		return op == OP_MKDIR ? 0 : -EROFS;
	case ADMIN_HEAD:
	case ADMIN_REFLOG:
	case ADMIN_FOREIGN:
		return -EROFS;
	}
	return -EROFS;
}

/* Is it one or more of hexadecimal digits, and nothing else? */
static bool is_hex(const char *text)
{
	return text[0] && text[strspn(text, "0123456789abcdef")] == '\0';
}

/*
 * Where git looks for a directory and finds a file, it can't keep an object,
 * nor list those that there are; where it looks for an object, it takes
 * whatever has the name for one (gitrepository-layout(5), objects). path is
 * relative to G.
 */
static int check_object_type(const char *path, mode_t type)
{
	const char *name, *slash;

	if (!path_starts_with(path, "objects", &name))
		return 0;
	slash = strchr(name, '/');
	if (!slash && ((strlen(name) == 2 && is_hex(name)) ||
		       strcmp(name, "pack") == 0 || strcmp(name, "info") == 0))
		return S_ISDIR(type) ? 0 : -EROFS;
	if (slash == name + 2 && is_hex(slash + 1))
		return S_ISDIR(type) ? -EROFS : 0;
	return 0;
}

static int check_object_name(struct view *view, const struct entry *entry,
			     const char *path, enum policy_op op)
{
	struct statx stx;

	if (op == OP_CREATE || op == OP_MKDIR)
		return check_object_type(path,
					 op == OP_MKDIR ? S_IFDIR : S_IFREG);
	if (op != OP_REMOVE || entry_statx(entry, &stx) < 0 ||
	    S_ISDIR(stx.stx_mode))
		return 0;
	return is_old_entry(view, entry, &stx) ? -EROFS : 0;
}

int gitguard_name(struct view *view, const struct entry *entry,
		  enum policy_op op)
{
	struct gitguard *guard = view->gitguard;
	enum judge judge = judge_of(entry->place);
	autofree char *path = NULL;

	if (judge == JUDGE_NONE)
		return 0;
	if (guard)
		path = gitfiles_path(guard, entry->dir.inode, entry->name);
	if (!path)
		return -EROFS;
	switch (judge) {
	case JUDGE_NONE:
		return 0;
	case JUDGE_CONFIG:
	case JUDGE_WORKTREE_CONFIG:
	case JUDGE_PACKED_REFS:
		return -EROFS;
	case JUDGE_REF:
	case JUDGE_REFLOG:
		return check_ref_name(guard, entry, path, op);
	case JUDGE_STASH:
		if (op != OP_REMOVE)
			return -EROFS;
		/* Packed, its value lives on. */
		return gitfiles_check_stash(guard) == 0
			       ? 0
			       : gitfiles_check_packed(guard, path);
	case JUDGE_STASH_LOG:
		return op == OP_REMOVE	 ? gitfiles_check_stash(guard)
		       : op == OP_CREATE ? 0
					 : -EROFS;
	case JUDGE_OBJECTS:
		return check_object_name(view, entry, path, op);
	case JUDGE_ADMIN:
		return check_admin_name(guard, path, op);
	}
	return -EROFS;
}

void gitguard_made(struct view *view, const struct entry *entry)
{
	struct gitguard *guard = view->gitguard;
	autofree char *path = NULL;

	if (!guard || judge_of(entry->place) != JUDGE_ADMIN)
		return;
	path = gitfiles_path(guard, entry->dir.inode, entry->name);
	if (path && admin_standing(guard, path) == ADMIN_DIR)
		gitfiles_add_own(guard, entry->name);
}

int gitguard_other(struct view *view, const struct entry *entry, mode_t type)
{
	int r = check_type(view, entry, type);

	if (r < 0)
		return r;
	switch (judge_of(entry->place)) {
	case JUDGE_NONE:
	case JUDGE_OBJECTS: /* git links what it has written there */
		return 0;
	case JUDGE_CONFIG:
	case JUDGE_WORKTREE_CONFIG:
	case JUDGE_PACKED_REFS:
	case JUDGE_REF:
	case JUDGE_REFLOG:
	case JUDGE_STASH:
	case JUDGE_STASH_LOG:
		return -EROFS;
	case JUDGE_ADMIN:
		return 0;
	}
	return -EROFS;
}

/* A second name elsewhere would be another way to the object's bytes. */
int gitguard_link(struct inode *source, const struct entry *entry)
{
	return judge_of(source->place) == JUDGE_OBJECTS &&
			       judge_of(entry->place) != JUDGE_OBJECTS
		       ? -EXDEV
		       : 0;
}

/* ---- renames ---------------------------------------------------------- */

/* May the old name go? */
static int check_from(struct view *view, const struct rename_grant *grant,
		      const char *path)
{
	struct gitguard *guard = view->gitguard;
	enum admin admin;

	switch (judge_of(grant->from.place)) {
	case JUDGE_NONE:
		return 0;
	case JUDGE_CONFIG:
	case JUDGE_WORKTREE_CONFIG:
	case JUDGE_PACKED_REFS:
	case JUDGE_STASH:
	case JUDGE_STASH_LOG:
		return -EROFS;
	case JUDGE_REF:
	case JUDGE_REFLOG:
		return check_ref(guard, path);
	case JUDGE_OBJECTS:
		return is_old_entry(view, &grant->from, &grant->moved) ? -EROFS
								       : 0;
	case JUDGE_ADMIN:
		admin = admin_standing(guard, path);
		return admin == ADMIN_OWN || admin == ADMIN_MODULES ||
				       admin == ADMIN_LOCK
			       ? 0
			       : -EROFS;
	}
	return -EROFS;
}

static int check_to_ref(struct gitguard *guard, const char *path, bool *install)
{
	enum standing standing;
	int r = ref_standing(guard, path, &standing);

	if (r < 0)
		return r;
	switch (standing) {
	case STANDING_PROTECTED:
	case STANDING_FREE:
		/* A copy also where it is free: it may not be so for long. */
		*install = !ends_with(path, ".lock");
		return 0;
	case STANDING_LOCK:
		return 0;
	case STANDING_ABOVE:
		return -EROFS;
	}
	return -EROFS;
}

static int check_to_admin(struct gitguard *guard, const char *path,
			  bool *install)
{
	switch (admin_standing(guard, path)) {
	case ADMIN_MODULES:
	case ADMIN_OWN:
	case ADMIN_LOCK:
		return 0;
	case ADMIN_CONFIG:
	case ADMIN_HEAD:
	case ADMIN_REFLOG:
		*install = true;
		return 0;
	case ADMIN_TOP:
	case ADMIN_DIR:
	case ADMIN_FOREIGN:
		return -EROFS;
	}
	return -EROFS;
}

/* May the new name be taken? */
static int check_to(struct view *view, const struct rename_grant *grant,
		    const char *path, bool *install)
{
	struct gitguard *guard = view->gitguard;

	switch (judge_of(grant->to.place)) {
	case JUDGE_NONE:
		return 0;
	case JUDGE_STASH:
	case JUDGE_CONFIG:
	case JUDGE_WORKTREE_CONFIG:
	case JUDGE_PACKED_REFS:
	case JUDGE_STASH_LOG:
		*install = true;
		return 0;
	case JUDGE_REF:
	case JUDGE_REFLOG:
		return check_to_ref(guard, path, install);
	case JUDGE_OBJECTS:
		*install = grant->target_exists &&
			   is_old_entry(view, &grant->to, &grant->target);
		return check_object_type(path, grant->moved.stx_mode);
	case JUDGE_ADMIN:
		return check_to_admin(guard, path, install);
	}
	return -EROFS;
}

int gitguard_rename(struct view *view, const struct rename_grant *grant,
		    unsigned int flags, bool *ret_install)
{
	struct gitguard *guard = view->gitguard;
	autofree char *from = NULL;
	autofree char *to = NULL;
	bool install = false;
	int r;

	*ret_install = false;
	r = check_type(view, &grant->to, grant->moved.stx_mode);
	/* Of a whiteout's device, git makes nothing. */
	if (r == 0 && (flags & RENAME_WHITEOUT))
		r = check_type(view, &grant->from, S_IFCHR);
	if (r == 0 && (flags & RENAME_EXCHANGE))
		r = check_type(view, &grant->from, grant->target.stx_mode);
	if (r < 0)
		return r;
	if (judge_of(grant->from.place) == JUDGE_NONE &&
	    judge_of(grant->to.place) == JUDGE_NONE)
		return 0;
	if (!guard)
		return -EROFS;
	from = gitfiles_path(guard, grant->from.dir.inode, grant->from.name);
	to = gitfiles_path(guard, grant->to.dir.inode, grant->to.name);
	/* NULL for a name outside of G, too: it has no judge then. */
	if ((!from && judge_of(grant->from.place) != JUDGE_NONE) ||
	    (!to && judge_of(grant->to.place) != JUDGE_NONE))
		return -EROFS;
	r = check_from(view, grant, from);
	if (r == 0)
		r = check_to(view, grant, to, &install);
	if (r < 0)
		return r;
	/* Refs move as plain files: a directory would bring open ones along. */
	if (!S_ISREG(grant->moved.stx_mode) &&
	    (is_ref_judge(judge_of(grant->from.place)) ||
	     is_ref_judge(judge_of(grant->to.place))))
		return -EROFS;
	/* What is judged is one plain file that takes another's place. */
	if (install && (flags || !S_ISREG(grant->moved.stx_mode)))
		return -EROFS;
	/* The other end of an exchange goes, too. */
	if (flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)) {
		struct rename_grant back = {
			.from = grant->to,
			.to = grant->from,
			.moved = grant->target,
			.target = grant->moved,
			.target_exists = true,
		};

		r = check_from(view, &back, to);
		if (r == 0)
			r = check_to(view, &back, from, &install);
		if (r == 0 && install)
			r = -EROFS;
	}
	*ret_install = install;
	return r;
}

/* Which judgement the new name asks for. */
static enum judge judgement_for(struct gitguard *guard, const struct entry *to,
				const char *path)
{
	enum judge judge = judge_of(to->place);

	if (judge != JUDGE_ADMIN)
		return judge;
	switch (admin_standing(guard, path)) {
	case ADMIN_CONFIG:
		return JUDGE_WORKTREE_CONFIG;
	case ADMIN_HEAD:
		return JUDGE_REF;
	case ADMIN_REFLOG:
		return JUDGE_REFLOG;
	case ADMIN_TOP:
	case ADMIN_DIR:
	case ADMIN_MODULES:
	case ADMIN_OWN:
	case ADMIN_LOCK:
	case ADMIN_FOREIGN:
		break;
	}
	return JUDGE_ADMIN;
}

int gitguard_install(struct view *view, const struct rename_grant *grant,
		     char **ret_what)
{
	struct gitguard *guard = view->gitguard;
	autofree char *path =
		gitfiles_path(guard, grant->to.dir.inode, grant->to.name);

	if (!path)
		return -EROFS;
	return gitfiles_install(guard, judgement_for(guard, &grant->to, path),
				path, grant, ret_what);
}

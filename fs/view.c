#include "fs/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Seconds. Objects of git's never change once they are there. */
#define TREE_TIMEOUT 1.0
#define OBJECT_TIMEOUT 60.0
/* In 64 bits of seconds, and still short of the kernel's overflow. */
#define PINNED_TIMEOUT 1e9

const char *const request_names[N_REQUESTS] = {
#define X(name) [REQUEST_##name] = #name,
	REQUESTS(X)
#undef X
};

struct inode *view_pinned(const struct view *view, struct place place)
{
	if (!place.on_tree)
		return NULL;
	for (size_t i = 0; i < view->n_pins; i++)
		if (view->pins[i].node == place.node)
			return view->pins[i].inode;
	return NULL;
}

/*
 * Pins one name in a pinned directory. What isn't there needs no pin: nothing
 * can be mounted on it.
 */
static int pin_name(struct view *view, struct inode *parent, const char *name,
		    struct place place, struct inode **ret_inode)
{
	struct inode *inode;
	struct statx stx;
	int fd = openat(parent->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx) < 0 ? -errno : 0;
	if (r == 0)
		r = inode_find_or_add(parent, name, place, &stx, 1, &inode);
	if (r < 0) {
		close(fd);
		return r;
	}
	inode_pin(inode, fd);
	inode_unref(inode);
	view->pins[view->n_pins++] = (struct pin){place.node, inode};
	*ret_inode = inode;
	return 0;
}

/* Pins each name along a relative path. */
static int pin_path(struct view *view, const char *relative)
{
	struct place place = policy_root(view->policy);
	struct inode *inode = view->table.root;
	autofree char *copy = strdup(relative);
	char *rest = copy, *name;

	if (!copy)
		return -ENOMEM;
	while ((name = strsep(&rest, "/"))) {
		struct inode *pinned;
		struct pin *grown;
		int r;

		place = policy_step(place, name);
		if (!place.on_tree)
			return -EINVAL;
		pinned = view_pinned(view, place);
		if (pinned) {
			inode = pinned;
			continue;
		}
		grown = reallocarray(view->pins, view->n_pins + 1,
				     sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		view->pins = grown;
		r = pin_name(view, inode, name, place, &inode);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pin_all(struct view *view)
{
	for (size_t i = 0; i < view->spec->pinned.n; i++) {
		int r = pin_path(view, view->spec->pinned.s[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

int view_policy_of(const struct view *view, const struct rules *rules,
		   struct policy **ret_policy)
{
	const struct policy_names names = {view->spec->pinned.s,
					   view->spec->pinned.n};

	return policy_new_named(view->spec->root, rules, &names, ret_policy,
				NULL);
}

void view_take_policy(struct view *view, struct policy *policy)
{
	for (size_t i = 0; i < view->n_pins; i++)
		view->pins[i].node = view->pins[i].inode->place.node;
	policy_free(view->policy);
	view->policy = policy;
}

int view_init(struct view *view, const struct session_spec *session,
	      size_t index, const struct path_map *map, int root_fd,
	      size_t max_fds)
{
	int r;

	*view = (struct view){
		.spec = &session->views[index],
		.session = session,
		.map = map,
		.timeout = TREE_TIMEOUT,
		.rewrites = map->moves && session->symlinks == SYMLINKS_VIEW,
	};
	r = view_policy_of(view, &session->rules, &view->policy);
	if (r < 0)
		return r;
	r = inode_table_init(&view->table, root_fd, policy_root(view->policy),
			     max_fds);
	if (r < 0) {
		policy_free(view->policy);
		return r;
	}
	view->asks_opendir = policy_has_access(view->policy, ACCESS_NONE) ||
			     !view->table.trust_birth ||
			     !view->table.fine_times;
	pthread_mutex_init(&view->backing_lock, NULL);
	r = pin_all(view);
	if (r < 0) {
		view->table.root->fd = -1; /* stays the caller's */
		view_release(view);
	}
	return r;
}

void view_release(struct view *view)
{
	inode_table_release(&view->table);
	policy_free(view->policy);
	free(view->pins);
}

struct timeouts view_timeouts(const struct view *view, struct place place,
			      mode_t mode)
{
	double t = view->timeout;

	if (view_pinned(view, place))
		return (struct timeouts){PINNED_TIMEOUT, 0, t};
	switch (place_rule(place)->caching) {
	case CACHING_TREE:
		return (struct timeouts){t, t, t};
	case CACHING_NONE:
		return (struct timeouts){0, 0, 0};
	case CACHING_OBJECTS:
		/*
		 * An object's file is what it is as long as it is there. The
		 * directories change with every pack; the kernel keeps their
		 * listings for as long as their attributes, and git takes an
		 * object that it doesn't find there for lost.
		 */
		if (S_ISDIR(mode))
			return (struct timeouts){0, 0, 0};
		return (struct timeouts){t > 0 ? OBJECT_TIMEOUT : 0, 0, t};
	}
	return (struct timeouts){0, 0, 0};
}

bool view_listing_is_stale(const struct view *view, struct inode *inode,
			   const struct statx *stx)
{
	return !view->asks_opendir && S_ISDIR(stx->stx_mode) &&
	       inode_listing_is_stale(inode, stx);
}

static struct timespec timespec_of(struct statx_timestamp stamp)
{
	return (struct timespec){stamp.tv_sec, stamp.tv_nsec};
}

void view_attributes(const struct view *view, const struct statx *stx,
		     const struct content *content, struct stat *ret_st)
{
	struct stat st = {
		.st_ino = stx->stx_ino,
		.st_dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.st_mode = stx->stx_mode,
		.st_nlink = stx->stx_nlink,
		.st_uid = stx->stx_uid,
		.st_gid = stx->stx_gid,
		.st_rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor),
		.st_size = (off_t)stx->stx_size,
		.st_blksize = stx->stx_blksize,
		.st_blocks = (blkcnt_t)stx->stx_blocks,
		.st_atim = timespec_of(stx->stx_atime),
		.st_mtim = timespec_of(stx->stx_mtime),
		.st_ctim = timespec_of(stx->stx_ctime),
	};

	if (content)
		st.st_size = (off_t)content->size;
	/*
	 * An unprivileged session's user namespace maps its own ids alone. Of
	 * a file with others the kernel would refuse every change by itself;
	 * what may be done is for the backing file to say.
	 */
	if (view->session->report_uid != (uid_t)-1) {
		st.st_uid = view->session->report_uid;
		st.st_gid = view->session->report_gid;
	}
	*ret_st = st;
}

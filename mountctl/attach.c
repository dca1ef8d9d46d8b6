#include "mountctl/attach.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/mountapi.h"
#include "mountctl/namespace.h"
#include "mountctl/output.h"

void attachments_release(struct attachments *a)
{
	for (size_t i = 0; i < a->n; i++) {
		cleanup_fdp(&a->item[i].mount_fd);
		free(a->item[i].path);
	}
	free(a->item);
	for (size_t i = 0; i < a->n_views; i++)
		cleanup_fdp(&a->fuse_fds[i]);
	free(a->fuse_fds);
	strings_release(&a->devices);
	aliases_release(&a->aliases);
	free(a->alias_was);
	*a = (struct attachments){0};
}

static int cannot(int r, char **message, const char *what, const char *path)
{
	return explain(r, message, "cannot %s '%s': %s", what, path,
		       strerror(-r));
}

/* Appends an attachment; mount_fd is taken over, also on failure. */
static int append(struct attachments *a, const char *path, int mount_fd,
		  const struct stat *was, bool is_view, bool read_only)
{
	autofd int fd = mount_fd;
	autofree char *copy = strdup(path);
	struct attachment *grown =
		reallocarray(a->item, a->n + 1, sizeof(*grown));

	if (grown)
		a->item = grown;
	if (!grown || !copy)
		return -ENOMEM;
	grown[a->n++] = (struct attachment){
		.path = steal_pointer(&copy),
		.mount_fd = take_fd(&fd),
		.was = *was,
		.is_view = is_view,
		.read_only = read_only,
	};
	return 0;
}

/*
 * Views
 */

static int prepare_view(struct attachments *a, const char *root, int root_fd,
			char **message)
{
	autofd int here = mount_target_open(root);
	autofd int mount_fd = -1;
	struct stat was, now;
	struct statvfs vfs;
	int fuse;

	if (here < 0)
		return cannot(here, message, "open", root);
	if (fstat(root_fd, &was) < 0 || fstat(here, &now) < 0 ||
	    fstatvfs(here, &vfs) < 0)
		return cannot(-errno, message, "stat", root);
	if (was.st_dev != now.st_dev || was.st_ino != now.st_ino)
		return explain(-ESTALE, message, "'%s' was replaced meanwhile",
			       root);

	fuse = namespace_open_fuse(message);
	if (fuse < 0)
		return fuse;
	a->fuse_fds[a->n_views++] = fuse;
	mount_fd =
		mount_new_fuse(fuse, was.st_mode, vfs.f_flag, geteuid() == 0);
	if (mount_fd < 0)
		return explain(mount_fd, message,
			       "cannot make a FUSE mount for '%s': %s", root,
			       strerror(-mount_fd));
	return append(a, root, take_fd(&mount_fd), &was, true, false);
}

static int prepare_views(struct attachments *a, const struct session_spec *spec,
			 const int *root_fds, char **message)
{
	int r = 0;

	a->fuse_fds = calloc(spec->n_views + 1, sizeof(*a->fuse_fds));
	if (!a->fuse_fds)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_views && r >= 0; i++)
		r = prepare_view(a, spec->views[i].root, root_fds[i], message);
	return r;
}

/*
 * Real trees
 */

static int prepare_tree(struct attachments *a, const char *path, bool read_only,
			char **message)
{
	autofd int here = mount_target_open(path);
	autofd int clone = -1;
	struct stat was;
	int r;

	if (here < 0)
		return cannot(here, message, "open", path);
	if (fstat(here, &was) < 0)
		return cannot(-errno, message, "stat", path);
	clone = mount_clone(path);
	if (clone < 0)
		return cannot(clone, message, "make a mount of", path);
	if (read_only) {
		r = mount_make_read_only(clone);
		if (r < 0)
			return cannot(r, message, "make a read-only mount of",
				      path);
	}
	return append(a, path, take_fd(&clone), &was, false, read_only);
}

static enum access access_at(const struct policy *rules, const char *path)
{
	return place_access(policy_walk(policy_root(rules), path + 1));
}

/* Which view or native tree serves a path; NULL if the plain real tree does. */
static const char *server_of(const struct session_spec *spec, const char *path,
			     bool *ret_is_view)
{
	const char *best = NULL;

	for (size_t i = 0; i < spec->n_views; i++) {
		const char *root = spec->views[i].root;

		if (path_starts_with(path, root, NULL) &&
		    (!best || strlen(root) > strlen(best))) {
			best = root;
			*ret_is_view = true;
		}
	}
	for (size_t i = 0; i < spec->native.n; i++) {
		const char *tree = spec->native.s[i];

		if (path_starts_with(path, tree, NULL) &&
		    (!best || strlen(tree) > strlen(best))) {
			best = tree;
			*ret_is_view = false;
		}
	}
	return best;
}

static int unholdable(char **message, const struct rule *rule)
{
	return explain(-EINVAL, message,
		       "the rule '%s' on '%s' lies in no view, and a mount "
		       "can't hold it",
		       access_name(rule->access), rule->path);
}

/*
 * A rule outside the views is held by a mount of its own where it says
 * something else than the directory above it.
 */
static int prepare_rule(struct attachments *a, const struct session_spec *spec,
			const struct policy *rules, const struct rule *rule,
			char **message)
{
	/* Patterns are the git guard's, for names in the git directory. */
	const char *place =
		rule->pattern && spec->git_dir ? spec->git_dir : rule->path;
	autofree char *above = NULL;
	bool in_view = false;
	const char *server = server_of(spec, place, &in_view);
	enum access access;
	struct stat st;

	if (in_view || (server && strcmp(server, rule->path) == 0))
		return 0;
	if (rule->pattern)
		return rule->access == ACCESS_RW ? 0
						 : unholdable(message, rule);
	above = path_dirname(rule->path);
	if (!above)
		return -ENOMEM;
	access = access_at(rules, rule->path);
	if (access == access_at(rules, above))
		return 0;
	if (access == ACCESS_NONE || strcmp(rule->path, "/") == 0)
		return unholdable(message, rule);
	if (lstat(rule->path, &st) < 0)
		return cannot(-errno, message, "stat", rule->path);
	/* What a symlink leads to has rules of its own. */
	if (S_ISLNK(st.st_mode))
		return 0;
	return prepare_tree(a, rule->path, access == ACCESS_RO, message);
}

static bool is_prepared(const struct attachments *a, const char *path)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->item[i].path, path) == 0)
			return true;
	return false;
}

static int prepare_trees(struct attachments *a, const struct session_spec *spec,
			 const struct policy *rules, char **message)
{
	int r = 0;

	for (size_t i = 0; i < spec->native.n && r >= 0; i++) {
		const char *path = spec->native.s[i];
		enum access access = access_at(rules, path);

		if (access == ACCESS_NONE)
			return explain(-EINVAL, message,
				       "'%s' is hidden and can't be native",
				       path);
		if (!is_prepared(a, path))
			r = prepare_tree(a, path, access == ACCESS_RO, message);
	}
	for (size_t i = 0; i < spec->rules.n && r >= 0; i++)
		if (!is_prepared(a, spec->rules.rule[i].path))
			r = prepare_rule(a, spec, rules, &spec->rules.rule[i],
					 message);
	return r;
}

/*
 * Aliases
 */

static int mount_id_of(const char *path, uint64_t *ret_id)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_MNT_ID, &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_MNT_ID))
		return -EOPNOTSUPP;
	*ret_id = stx.stx_mnt_id;
	return 0;
}

/* Below a view's root? */
static bool lies_in_view(const struct attachments *a, const char *path)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->item[i].is_view &&
		    path_starts_with(path, a->item[i].path, NULL) &&
		    strcmp(path, a->item[i].path) != 0)
			return true;
	return false;
}

/*
 * The trees that must not be reached by another path. What lies in a view goes
 * along with the view.
 */
static int find_aliases(struct attachments *a, char **message)
{
	autofree struct aliased_tree *trees = calloc(a->n + 1, sizeof(*trees));
	size_t n = 0;
	int r = 0;

	if (!trees)
		return -ENOMEM;
	for (size_t i = 0; i < a->n && r == 0; i++) {
		const struct attachment *item = &a->item[i];

		if ((!item->is_view && !item->read_only) ||
		    lies_in_view(a, item->path))
			continue;
		trees[n].path = item->path;
		r = mount_id_of(item->path, &trees[n++].mount_id);
	}
	if (r == 0)
		r = aliases_find("/proc/self/mountinfo", trees, n, &a->aliases);
	if (r < 0)
		explain(r, message, "cannot read the mount table: %s",
			strerror(-r));
	return r;
}

/*
 * Covers an alias, if its path leads to what its source was before anything
 * was attached; else the path is covered already, or leads nowhere.
 */
static int cover_alias(const struct alias *alias, const struct stat *was,
		       char **message)
{
	autofd int target = mount_target_open(alias->path);
	autofd int clone = -1;
	struct stat st;
	int r;

	if (target < 0 || fstat(target, &st) < 0)
		return 0;
	if (st.st_dev != was->st_dev || st.st_ino != was->st_ino)
		return 0;
	clone = mount_clone(alias->source);
	if (clone < 0)
		return cannot(clone, message, "make a mount of", alias->source);
	r = mount_attach(clone, target);
	return r < 0 ? cannot(r, message, "mount on", alias->path) : 0;
}

/* What both paths of each alias lead to, while nothing covers them. */
static int stat_aliases(struct attachments *a)
{
	a->alias_was = calloc(a->aliases.n + 1, sizeof(*a->alias_was));
	if (!a->alias_was)
		return -ENOMEM;
	for (size_t i = 0; i < a->aliases.n; i++)
		if (lstat(a->aliases.alias[i].source, &a->alias_was[i]) < 0)
			a->alias_was[i] = (struct stat){0};
	return 0;
}

/*
 * Together
 */

int attach_prepare(const struct session_spec *spec, const struct policy *rules,
		   const int *root_fds, struct attachments *ret_attachments,
		   char **message)
{
	struct attachments a = {0};
	int r = prepare_views(&a, spec, root_fds, message);

	if (r >= 0)
		r = prepare_trees(&a, spec, rules, message);
	if (r >= 0)
		r = find_aliases(&a, message);
	if (r >= 0)
		r = stat_aliases(&a);
	if (r < 0) {
		attachments_release(&a);
		return r;
	}
	*ret_attachments = a;
	return 0;
}

struct device_text {
	char text[32];
};

static struct device_text device_text(dev_t device)
{
	struct device_text t;

	snprintf(t.text, sizeof(t.text), "%u:%u", major(device), minor(device));
	return t;
}

bool attach_is_device(const struct strings *devices, dev_t device)
{
	return strings_contain(devices, device_text(device).text);
}

/* Reached through a view, an object has the view's device number. */
static int attach_one(const struct attachments *a,
		      const struct attachment *item, char **message)
{
	autofd int target = mount_target_open(item->path);
	struct stat st;
	int r;

	if (target < 0)
		return cannot(target, message, "open", item->path);
	if (fstat(target, &st) < 0)
		return cannot(-errno, message, "stat", item->path);
	if (st.st_ino != item->was.st_ino ||
	    ((st.st_mode ^ item->was.st_mode) & S_IFMT) ||
	    (st.st_dev != item->was.st_dev &&
	     !attach_is_device(&a->devices, st.st_dev)))
		return explain(-ESTALE, message, "'%s' was replaced meanwhile",
			       item->path);
	r = mount_attach(item->mount_fd, target);
	return r < 0 ? cannot(r, message, "mount on", item->path) : 0;
}

static int compare(const void *a, const void *b)
{
	const struct attachment *one = a, *other = b;

	return strcmp(one->path, other->path);
}

/*
 * Until its root's attributes are asked for, the kernel takes it for uid 0's
 * and refuses to write there.
 */
static int wake_view(struct attachments *a, const struct attachment *view)
{
	struct stat st;

	if (fstat(view->mount_fd, &st) < 0)
		return -errno;
	return strings_add(&a->devices, device_text(st.st_dev).text);
}

int attach_all(struct attachments *a, char **message)
{
	int r = 0;

	for (size_t i = 0; i < a->n && r == 0; i++)
		if (a->item[i].is_view) {
			r = wake_view(a, &a->item[i]);
			if (r < 0)
				cannot(r, message, "read the view of",
				       a->item[i].path);
		}
	if (a->n > 0)
		qsort(a->item, a->n, sizeof(*a->item), compare);
	for (size_t i = 0; i < a->n && r == 0; i++)
		r = attach_one(a, &a->item[i], message);
	for (size_t i = 0; i < a->aliases.n && r == 0; i++)
		r = cover_alias(&a->aliases.alias[i], &a->alias_was[i],
				message);
	return r;
}

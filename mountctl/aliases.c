#include "mountctl/aliases.h"

#include <libmount/libmount.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

void aliases_release(struct aliases *aliases)
{
	for (size_t i = 0; i < aliases->n; i++) {
		free(aliases->alias[i].path);
		free(aliases->alias[i].source);
	}
	free(aliases->alias);
	*aliases = (struct aliases){0};
}

/* Takes ownership of the strings, also on failure. */
static int add(struct aliases *aliases, char *path, char *source)
{
	struct alias *grown = NULL;

	if (path && source)
		grown = reallocarray(aliases->alias, aliases->n + 1,
				     sizeof(*grown));
	if (!grown) {
		free(path);
		free(source);
		return -ENOMEM;
	}
	aliases->alias = grown;
	grown[aliases->n++] = (struct alias){path, source};
	return 0;
}

static void iter_freep(struct libmnt_iter **iter)
{
	mnt_free_iter(*iter);
}

static void table_unrefp(struct libmnt_table **table)
{
	mnt_unref_table(*table);
}

#define autoiter __attribute__((cleanup(iter_freep)))
#define autotable __attribute__((cleanup(table_unrefp)))

static struct libmnt_fs *find_mount(struct libmnt_table *table, uint64_t id)
{
	autoiter struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;

	while (iter && mnt_table_next_fs(table, iter, &fs) == 0)
		if ((uint64_t)mnt_fs_get_id(fs) == id)
			return fs;
	return NULL;
}

/* What the mount shows, as a path from the root of its file system. */
static const char *shown_by(struct libmnt_fs *fs)
{
	const char *root = mnt_fs_get_root(fs);

	return root && path_is_clean(root) ? root : NULL;
}

static const char *target_of(struct libmnt_fs *fs)
{
	const char *target = mnt_fs_get_target(fs);

	return target && path_is_clean(target) ? target : NULL;
}

/* Adds the alias that a mount makes of a tree, if it makes one. */
static int add_alias(struct libmnt_fs *fs, dev_t dev, const char *place,
		     const char *tree, struct aliases *aliases)
{
	const char *shown = shown_by(fs), *target = target_of(fs), *rest;

	if (!shown || !target || mnt_fs_get_devno(fs) != dev)
		return 0;
	if (path_starts_with(place, shown, &rest))
		return add(aliases, path_join(target, rest), strdup(tree));
	if (path_starts_with(shown, place, &rest))
		return add(aliases, strdup(target), path_join(tree, rest));
	return 0;
}

static int add_aliases(struct libmnt_table *table,
		       const struct aliased_tree *tree, struct aliases *aliases)
{
	autoiter struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *own = find_mount(table, tree->mount_id), *fs;
	autofree char *place = NULL;
	const char *rest;
	int r = 0;

	if (!own || !shown_by(own) || !target_of(own) ||
	    !path_starts_with(tree->path, target_of(own), &rest))
		return -ENOENT;
	place = path_join(shown_by(own), rest);
	if (!iter || !place)
		return -ENOMEM;
	while (r == 0 && mnt_table_next_fs(table, iter, &fs) == 0)
		if (fs != own)
			r = add_alias(fs, mnt_fs_get_devno(own), place,
				      tree->path, aliases);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct alias *one = a, *other = b;

	return strcmp(one->path, other->path);
}

int aliases_find(const char *table_path, const struct aliased_tree *trees,
		 size_t n, struct aliases *ret_aliases)
{
	autotable struct libmnt_table *table = mnt_new_table();
	struct aliases aliases = {0};
	int r = table ? mnt_table_parse_file(table, table_path) : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_aliases(table, &trees[i], &aliases);
	if (r < 0) {
		aliases_release(&aliases);
		return r;
	}
	if (aliases.n > 0)
		qsort(aliases.alias, aliases.n, sizeof(*aliases.alias),
		      compare);
	*ret_aliases = aliases;
	return 0;
}

char *aliases_translate(const struct aliases *aliases, const char *path)
{
	const struct alias *best = NULL;
	const char *rest;

	/* Sorted by path: the last that fits is the deepest. */
	for (size_t i = 0; i < aliases->n; i++)
		if (path_starts_with(path, aliases->alias[i].path, NULL))
			best = &aliases->alias[i];
	if (!best)
		return strdup(path);
	path_starts_with(path, best->path, &rest);
	return path_join(best->source, rest);
}

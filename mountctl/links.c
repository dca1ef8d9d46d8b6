#include "mountctl/links.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"

struct linked_file {
	dev_t dev;
	ino_t ino;
	char *path; /* owned */
};

void links_release(struct links *links)
{
	for (size_t i = 0; i < links->n; i++)
		free(links->file[i].path);
	free(links->file);
	*links = (struct links){0};
}

void shared_links_release(struct shared_links *shared)
{
	free(shared->first);
	free(shared->another);
	*shared = (struct shared_links){0};
}

static int compare(const void *a, const void *b)
{
	const struct linked_file *one = a, *other = b;

	if (one->dev != other->dev)
		return one->dev < other->dev ? -1 : 1;
	if (one->ino != other->ino)
		return one->ino < other->ino ? -1 : 1;
	return 0;
}

static int add(struct links *links, const FTSENT *entry)
{
	struct linked_file *grown =
		reallocarray(links->file, links->n + 1, sizeof(*grown));
	char *path = strdup(entry->fts_path);

	if (grown)
		links->file = grown;
	if (!grown || !path) {
		free(path);
		return -ENOMEM;
	}
	grown[links->n++] = (struct linked_file){
		.dev = entry->fts_statp->st_dev,
		.ino = entry->fts_statp->st_ino,
		.path = path,
	};
	return 0;
}

/* Is the entry one of those that aren't looked into? */
static bool is_skipped(const FTSENT *entry, const struct strings *skip)
{
	return (entry->fts_level == 1 &&
		strcmp(entry->fts_name, ".git") == 0) ||
	       strings_contain(skip, entry->fts_path);
}

static int walk_entries(FTS *tree, struct links *links,
			const struct strings *skip,
			int (*found)(const FTSENT *, void *), void *arg)
{
	FTSENT *entry;
	int r = 0;

	while (r == 0 && (entry = fts_read(tree))) {
		if (links->budget == 0) {
			links->gave_up = true;
			break;
		}
		links->budget--;
		if (is_skipped(entry, skip))
			fts_set(tree, entry, FTS_SKIP);
		else if (entry->fts_info == FTS_F &&
			 entry->fts_statp->st_nlink > 1)
			r = found(entry, arg);
	}
	return r;
}

static int walk(struct links *links, const char *top,
		const struct strings *skip,
		int (*found)(const FTSENT *, void *), void *arg)
{
	autofree char *path = strdup(top);
	char *const paths[] = {path, NULL};
	FTS *tree;
	int r;

	if (!path)
		return -ENOMEM;
	tree = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	if (!tree)
		return -errno;
	r = walk_entries(tree, links, skip, found, arg);
	fts_close(tree);
	return r;
}

static int on_first(const FTSENT *entry, void *arg)
{
	return add(arg, entry);
}

int links_gather(struct links *links, const char *top,
		 const struct strings *skip)
{
	int r = walk(links, top, skip, on_first, links);

	if (links->n > 0)
		qsort(links->file, links->n, sizeof(*links->file), compare);
	return r;
}

struct comparison {
	const struct links *links;
	struct shared_links *shared;
};

static int on_second(const FTSENT *entry, void *arg)
{
	const struct comparison *comparison = arg;
	struct shared_links *shared = comparison->shared;
	const struct linked_file wanted = {
		.dev = entry->fts_statp->st_dev,
		.ino = entry->fts_statp->st_ino,
	};
	const struct linked_file *same =
		bsearch(&wanted, comparison->links->file, comparison->links->n,
			sizeof(wanted), compare);

	if (!same)
		return 0;
	if (shared->n++ > 0)
		return 0;
	shared->first = strdup(same->path);
	shared->another = strdup(entry->fts_path);
	return shared->first && shared->another ? 0 : -ENOMEM;
}

int links_compare(struct links *links, const char *top,
		  const struct strings *skip, struct shared_links *shared)
{
	struct comparison comparison = {.links = links, .shared = shared};

	if (links->n == 0)
		return 0;
	return walk(links, top, skip, on_second, &comparison);
}

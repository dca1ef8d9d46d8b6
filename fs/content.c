#include "fs/content.h"

#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

static const char pointer_prefix[] = "gitdir: ";

struct content *content_ref(struct content *content)
{
	__atomic_add_fetch(&content->refs, 1, __ATOMIC_RELAXED);
	return content;
}

void content_unref(struct content *content)
{
	if (__atomic_sub_fetch(&content->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(content);
}

/* before, path and after in one. NULL when out of memory. */
static struct content *content_new(const char *before, const char *path,
				   const char *after)
{
	size_t size = strlen(before) + strlen(path) + strlen(after);
	struct content *content = malloc(sizeof(*content) + size + 1);

	if (!content)
		return NULL;
	content->refs = 1;
	content->size = size;
	stpcpy(stpcpy(stpcpy(content->text, before), path), after);
	return content;
}

void path_map_init(struct path_map *map, const struct session_spec *spec)
{
	*map = (struct path_map){.views = spec->views, .n = spec->n_views};
	for (size_t i = 0; i < map->n; i++)
		if (map->views[i].mountpoint &&
		    strcmp(map->views[i].root, map->views[i].mountpoint) != 0)
			map->moves = true;
}

/* Does a relative path never climb above where it starts, as text? */
static bool stays_below(const char *relative)
{
	int depth = 0;

	while (*relative) {
		size_t length = strcspn(relative, "/");

		if (length == 2 && strncmp(relative, "..", 2) == 0)
			depth--;
		else if (length > 0 && !(length == 1 && *relative == '.'))
			depth++;
		if (depth < 0)
			return false;
		relative += length;
		relative += strspn(relative, "/");
	}
	return true;
}

/* From the one tree's name to the other's, of the view that fits best. */
static char *translate(const struct path_map *map, const char *path,
		       bool to_root)
{
	const char *from = NULL, *to = NULL, *rest = NULL;

	for (size_t i = 0; i < map->n; i++) {
		const struct view_spec *view = &map->views[i];
		const char *here = to_root ? view->mountpoint : view->root;
		const char *below;

		if (!view->mountpoint || !path_starts_with(path, here, &below))
			continue;
		if (from && strlen(here) <= strlen(from))
			continue;
		from = here;
		to = to_root ? view->root : view->mountpoint;
		rest = below;
	}
	if (!from || strcmp(from, to) == 0 || !stays_below(rest))
		return NULL;
	return path_join(to, rest);
}

char *path_map_apply(const struct path_map *map, const char *path)
{
	return translate(map, path, false);
}

char *path_map_undo(const struct path_map *map, const char *path)
{
	return translate(map, path, true);
}

struct content *content_of_symlink(const struct path_map *map,
				   const char *target)
{
	autofree char *seen = NULL;

	if (!map->moves || target[0] != '/')
		return NULL;
	seen = path_map_apply(map, target);
	return seen ? content_new("", seen, "") : NULL;
}

bool is_pointer_name(const char *name)
{
	return strcmp(name, ".git") == 0;
}

struct content *content_of_pointer(const struct path_map *map, const char *text,
				   size_t size)
{
	size_t prefix = strlen(pointer_prefix);
	autofree char *path = NULL;
	autofree char *seen = NULL;
	size_t end;

	if (!map->moves || size <= prefix || strlen(text) != size ||
	    strncmp(text, pointer_prefix, prefix) != 0)
		return NULL;
	path = strdup(text + prefix);
	if (!path)
		return NULL;
	end = strlen(path);
	while (end > 0 && (path[end - 1] == '\n' || path[end - 1] == '\r'))
		path[--end] = '\0';
	seen = path[0] == '/' ? path_map_apply(map, path) : NULL;
	return seen ? content_new(pointer_prefix, seen, "\n") : NULL;
}

/*
 * Text that is read instead of a file's own: git's pointer files and absolute
 * symlinks, which would otherwise lead out of a view that stands elsewhere
 * than its root. Immutable and counted.
 */
#ifndef WORKTREEFS_CONTENT_H
#define WORKTREEFS_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/spec.h"

struct content {
	unsigned int refs; /* atomic */
	size_t size;
	char text[]; /* NUL-terminated beyond size */
};

struct content *content_ref(struct content *content);
void content_unref(struct content *content);

static inline void cleanup_contentp(struct content **content)
{
	if (*content)
		content_unref(*content);
}
#define autocontent __attribute__((cleanup(cleanup_contentp)))

/* Where the trees of a session are seen: root by root, the mount points. */
struct path_map {
	const struct view_spec *views; /* borrowed */
	size_t n;
	bool moves; /* does any view stand elsewhere than its root? */
};

void path_map_init(struct path_map *map, const struct session_spec *spec);

/*
 * An absolute path into one of the roots, as it is seen through the view:
 * allocated. NULL where it leads nowhere near (or out of memory): leave it.
 */
char *path_map_apply(const struct path_map *map, const char *path);

/* The reverse: an absolute path into one of the views, as it is at its root. */
char *path_map_undo(const struct path_map *map, const char *path);

/*
 * The text of a symlink's target, or NULL where it reads as it is.
 */
struct content *content_of_symlink(const struct path_map *map,
				   const char *target);
/* ".git", the name of git's pointer files. */
bool is_pointer_name(const char *name);

/*
 * The text of a pointer file ("gitdir: PATH\n") of this content, or NULL where
 * it isn't one or reads as it is.
 */
struct content *content_of_pointer(const struct path_map *map, const char *text,
				   size_t size);

#endif

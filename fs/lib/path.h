/*
 * Paths as text. Nothing here asks a file system; see fileio.h for that.
 */
#ifndef WORKTREEFS_PATH_H
#define WORKTREEFS_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Absolute, no "." or "..", no doubled or trailing slash ("/" itself is). */
bool path_is_clean(const char *path);

/*
 * Is path equal to dir, or below it, component by component? Both clean.
 * If so *ret_rest (may be NULL) is set to what follows, without a leading
 * slash: "" for dir itself. Borrowed from path.
 */
bool path_starts_with(const char *path, const char *dir, const char **ret_rest);

/*
 * dir and rest with one slash between them; rest may be "" (then a copy of
 * dir). NULL when out of memory.
 */
char *path_join(const char *dir, const char *rest);

/*
 * Makes path absolute against base (clean) and takes ".", "..", doubled and
 * trailing slashes away, as text: symlinks aren't followed. NULL when out of
 * memory.
 */
char *path_normalise(const char *base, const char *path);

/* What stands behind the last slash; borrowed. "/" gives "". */
const char *path_basename(const char *path);
/* What stands before it, allocated; "/a" gives "/". NULL: out of memory. */
char *path_dirname(const char *path);

/* One name: not empty, not "." or "..", no slash, at most 255 bytes. */
bool name_is_valid(const char *name);

#endif

#include "fs/lib/path.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') ||
	       (len == 2 && name[0] == '.' && name[1] == '.');
}

bool path_is_clean(const char *path)
{
	if (path[0] != '/')
		return false;
	if (!path[1])
		return true;

	while (*path) {
		size_t len;

		path++; /* the slash before the component */
		len = strcspn(path, "/");
		if (len == 0 || is_dots(path, len))
			return false;
		path += len;
	}
	return true;
}

bool path_starts_with(const char *path, const char *dir, const char **ret_rest)
{
	size_t len = strlen(dir);

	/* "/" is the one clean path that ends in a slash. */
	if (len == 1)
		len = 0;
	if (strncmp(path, dir, len) != 0)
		return false;
	if (path[len] && path[len] != '/')
		return false;
	if (ret_rest)
		*ret_rest = path + len + (path[len] == '/');
	return true;
}

char *path_join(const char *dir, const char *rest)
{
	size_t dir_len = strlen(dir), rest_len = strlen(rest);
	char *joined = malloc(dir_len + 1 + rest_len + 1);
	char *p = joined;

	if (!joined)
		return NULL;
	p = mempcpy(p, dir, dir_len);
	if (rest_len && dir_len && p[-1] != '/')
		*p++ = '/';
	p = mempcpy(p, rest, rest_len);
	*p = '\0';
	return joined;
}

/*
 * Appends the components of path to out, whose end is at len and whose room
 * is enough. Nothing but components with a slash before each is ever in out.
 */
static size_t append_components(char *out, size_t len, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && is_dots(path, n)) {
			while (len && out[--len] != '/')
				;
		} else if (n && !is_dots(path, n)) {
			out[len++] = '/';
			memcpy(out + len, path, n);
			len += n;
		}
		path += n;
		path += *path == '/';
	}
	return len;
}

char *path_normalise(const char *base, const char *path)
{
	/* Each component costs its length and a slash; "/" is the shortest. */
	char *out = malloc(strlen(base) + strlen(path) + 3);
	size_t len = 0;

	if (!out)
		return NULL;
	if (path[0] != '/')
		len = append_components(out, len, base);
	len = append_components(out, len, path);
	if (!len)
		out[len++] = '/';
	out[len] = '\0';
	return out;
}

const char *path_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *path_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	if (slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

bool name_is_valid(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX && !is_dots(name, len) &&
	       !memchr(name, '/', len);
}

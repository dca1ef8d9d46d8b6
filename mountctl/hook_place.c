#include "mountctl/hook_place.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/resolve.h"

/* A link of a process: it leads elsewhere for another. proc(5). */
static bool is_magic(const char *link)
{
	const char *name = path_basename(link);

	return path_starts_with(link, "/proc", NULL) &&
	       (strcmp(name, "cwd") == 0 || strcmp(name, "root") == 0 ||
		strcmp(name, "exe") == 0 || strstr(link, "/fd/") ||
		strstr(link, "/map_files/"));
}

static bool leads_through_process(const struct resolved *resolved)
{
	for (size_t i = 0; i < resolved->links.n; i++)
		if (is_magic(resolved->links.s[i]))
			return true;
	return false;
}

int hook_place(const char *base, const char *path, char **ret_place)
{
	struct resolved resolved = {0};
	int r;

	if (!path[0])
		return -EINVAL;
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = path_resolve(base, path, NULL, &resolved);
	if (r < 0)
		return r;
	if (leads_through_process(&resolved))
		r = -EXDEV;
	else
		*ret_place = steal_pointer(&resolved.path);
	resolved_release(&resolved);
	return r;
}

static int add_place(const char *base, const char *path, struct strings *places)
{
	autofree char *place = NULL;
	int r = hook_place(base, path, &place);

	if (r < 0 || strings_contain(places, place))
		return r;
	return strings_add(places, place);
}

/* As the kernel takes it, and with ".." taken away as text before. */
static int add_reading(const char *base, const char *path,
		       struct strings *places)
{
	autofree char *plain = path_normalise(base, path);
	int r = plain ? add_place(base, path, places) : -ENOMEM;

	return r < 0 ? r : add_place(base, plain, places);
}

static char *without_space(const char *path)
{
	size_t length;

	while (isspace((unsigned char)*path))
		path++;
	length = strlen(path);
	while (length > 0 && isspace((unsigned char)path[length - 1]))
		length--;
	return strndup(path, length);
}

/* "~" and "~/...", where there is a home. *ret_path stays NULL elsewhere. */
static int expand_home(const char *path, char **ret_path)
{
	const char *home = getenv("HOME");

	if (path[0] != '~' || (path[1] && path[1] != '/') || !home ||
	    home[0] != '/')
		return 0;
	*ret_path = path_join(home, path + 1 + (path[1] == '/'));
	return *ret_path ? 0 : -ENOMEM;
}

static int add_readings(const char *base, const char *path,
			struct strings *places)
{
	autofree char *expanded = NULL;
	int r = add_reading(base, path, places);

	if (r == 0)
		r = expand_home(path, &expanded);
	if (r == 0 && expanded)
		r = add_reading(base, expanded, places);
	if (r == 0 && strncmp(path, "file://", 7) == 0 && path[7])
		r = add_reading(base, path + 7, places);
	return r;
}

int hook_places(const struct strings *bases, const char *path,
		struct strings *places)
{
	autofree char *bare = without_space(path);
	int r = bare ? 0 : -ENOMEM;

	if (r == 0 && !bare[0])
		return -EINVAL;
	for (size_t i = 0; r == 0 && i < bases->n; i++) {
		r = add_readings(bases->s[i], path, places);
		if (r == 0 && strcmp(bare, path) != 0)
			r = add_readings(bases->s[i], bare, places);
	}
	return r;
}

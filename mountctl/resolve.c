#include "mountctl/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

/* As many as the kernel follows, path_resolution(7). */
#define MAX_LINKS 40

struct walk {
	const struct strings *stops; /* borrowed, or NULL */
	char *done;		     /* resolved so far */
	char *todo;		     /* what follows, as text */
	size_t missing; /* components at the end of done not seen */
	struct strings links;
};

static void walk_release(struct walk *walk)
{
	free(walk->done);
	free(walk->todo);
	strings_release(&walk->links);
}

/* Takes ownership of value; the old one is freed. -ENOMEM if it is NULL. */
static int replace(char **slot, char *value)
{
	if (!value)
		return -ENOMEM;
	free(*slot);
	*slot = value;
	return 0;
}

static int go_up(struct walk *walk)
{
	if (walk->missing > 0)
		walk->missing--;
	return replace(&walk->done, path_dirname(walk->done));
}

/* Goes on with the target of the link, then with rest. */
static int follow(struct walk *walk, const char *link, const char *target,
		  const char *rest)
{
	int r;

	if (walk->links.n >= MAX_LINKS)
		return -ELOOP;
	r = strings_add(&walk->links, link);
	if (r == 0 && target[0] == '/')
		r = replace(&walk->done, strdup("/"));
	return r < 0 ? r : replace(&walk->todo, path_join(target, rest));
}

static int enter(struct walk *walk, const char *name, const char *rest)
{
	autofree char *path = path_join(walk->done, name);
	autofree char *target = NULL;
	int r = -ENOENT;

	if (!path)
		return -ENOMEM;
	if (walk->missing == 0 &&
	    !(walk->stops && strings_contain(walk->stops, path)))
		r = read_link_at(AT_FDCWD, path, &target);
	if (r == 0)
		return follow(walk, path, target, rest);
	if (r == -ENOENT || r == -ENOTDIR)
		walk->missing++;
	else if (r != -EINVAL) /* that it isn't a symlink */
		return r;
	r = replace(&walk->todo, strdup(rest));
	return r < 0 ? r : replace(&walk->done, steal_pointer(&path));
}

/* Takes the first component off todo. */
static int step(struct walk *walk)
{
	const char *begin = walk->todo + strspn(walk->todo, "/");
	size_t length = strcspn(begin, "/");
	autofree char *name = strndup(begin, length);
	autofree char *rest = strdup(begin + length);
	bool up;

	if (!name || !rest)
		return -ENOMEM;
	up = strcmp(name, "..") == 0;
	if (length > 0 && !up && strcmp(name, ".") != 0)
		return enter(walk, name, rest);
	if (up) {
		int r = go_up(walk);

		if (r < 0)
			return r;
	}
	return replace(&walk->todo, steal_pointer(&rest));
}

static int walk_all(struct walk *walk)
{
	if (!walk->done || !walk->todo)
		return -ENOMEM;
	while (walk->todo[0]) {
		int r = step(walk);

		if (r < 0)
			return r;
	}
	return 0;
}

void resolved_release(struct resolved *resolved)
{
	free(resolved->path);
	strings_release(&resolved->links);
	*resolved = (struct resolved){0};
}

int path_resolve(const char *base, const char *path,
		 const struct strings *stops, struct resolved *ret_resolved)
{
	struct walk walk = {
		.stops = stops,
		.done = strdup("/"),
		.todo = path[0] == '/' ? strdup(path) : path_join(base, path),
	};
	int r = walk_all(&walk);

	if (r < 0) {
		walk_release(&walk);
		return r;
	}
	*ret_resolved = (struct resolved){
		.path = steal_pointer(&walk.done),
		.exists = walk.missing == 0,
		.links = walk.links,
	};
	free(walk.todo);
	return 0;
}

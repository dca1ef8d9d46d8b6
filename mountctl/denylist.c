#include "mountctl/denylist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"

void denylist_release(struct denylist *list)
{
	strings_release(&list->deny);
	strings_release(&list->allow);
}

static int resolve_all(const char *cwd, struct strings *paths, char **message)
{
	for (size_t i = 0; i < paths->n; i++) {
		struct resolved place = {0};
		int r = path_resolve(cwd, paths->s[i], NULL, &place);

		if (r < 0)
			return explain(r, message, "cannot look up '%s': %s",
				       paths->s[i], strerror(-r));
		free(paths->s[i]);
		paths->s[i] = steal_pointer(&place.path);
		resolved_release(&place);
	}
	return 0;
}

int denylist_resolve(struct denylist *list, char **message)
{
	autofree char *cwd = getcwd(NULL, 0);
	int r;

	if (!cwd || cwd[0] != '/')
		return explain(-ENOENT, message,
			       "cannot find the working directory");
	r = resolve_all(cwd, &list->deny, message);
	return r < 0 ? r : resolve_all(cwd, &list->allow, message);
}

static const char *tree_around(const struct strings *trees, const char *place)
{
	const char *found = NULL;

	for (size_t i = 0; i < trees->n; i++)
		if (path_starts_with(place, trees->s[i], NULL) &&
		    (!found || strlen(trees->s[i]) > strlen(found)))
			found = trees->s[i];
	return found;
}

bool denylist_denies(const struct denylist *list, const char *place,
		     const char **ret_tree)
{
	const char *tree = tree_around(&list->deny, place);

	if (!tree || tree_around(&list->allow, place))
		return false;
	if (ret_tree)
		*ret_tree = tree;
	return true;
}

/* Does the directory hold a .git of that type? */
static bool has_git(const char *dir, mode_t type)
{
	autofree char *path = path_join(dir, ".git");
	struct stat st;

	return path && lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

char *denylist_twin(const struct denylist *list, const char *cwd,
		    const char *place)
{
	const char *worktree = tree_around(&list->allow, cwd);
	const char *checkout = tree_around(&list->deny, place), *rest;

	if (!worktree || !checkout || !has_git(worktree, S_IFREG) ||
	    !has_git(checkout, S_IFDIR) ||
	    !path_starts_with(place, checkout, &rest) || !rest[0] ||
	    strcmp(rest, ".git") == 0 || strncmp(rest, ".git/", 5) == 0)
		return NULL;
	return path_join(worktree, rest);
}

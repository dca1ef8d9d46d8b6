#include "mountctl/denyplan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/gitrules.h"
#include "mountctl/layout.h"
#include "mountctl/output.h"

struct planner {
	const struct denylist *list; /* borrowed */
	struct session_spec *spec;   /* borrowed */
	struct strings denied;	     /* the top-most trees that exist */
	char **message;
};

static int add_rule(struct planner *p, const char *path,
		    const struct rule *like)
{
	autofree char *copy = strdup(path);
	struct rule rule = *like;

	if (!copy)
		return -ENOMEM;
	rule.path = copy;
	return rules_add(&p->spec->rules, &rule);
}

static bool lies_in_any(const char *path, const struct strings *trees)
{
	for (size_t i = 0; i < trees->n; i++)
		if (path_starts_with(path, trees->s[i], NULL))
			return true;
	return false;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* Does another denied tree that counts hold this one already? */
static bool is_within_another(const struct planner *p, size_t index)
{
	const struct strings *deny = &p->list->deny;

	for (size_t i = 0; i < deny->n; i++) {
		bool same = strcmp(deny->s[i], deny->s[index]) == 0;

		if (path_starts_with(deny->s[index], deny->s[i], NULL) &&
		    (same ? i < index : exists(deny->s[i])) &&
		    denylist_denies(p->list, deny->s[i], NULL))
			return true;
	}
	return false;
}

static int plan_denied(struct planner *p, struct strings *missing)
{
	char reason[] = "given with --deny";
	const struct rule denied = {.access = ACCESS_RO,
				    .origin = ORIGIN_COMMAND_LINE,
				    .reason = reason};
	const struct strings *deny = &p->list->deny;
	int r = 0;

	for (size_t i = 0; r == 0 && i < deny->n; i++) {
		if (!denylist_denies(p->list, deny->s[i], NULL) ||
		    is_within_another(p, i))
			continue;
		if (!exists(deny->s[i])) {
			r = strings_add(missing, deny->s[i]);
			continue;
		}
		r = strings_add(&p->denied, deny->s[i]);
		if (r == 0)
			r = add_rule(p, deny->s[i], &denied);
	}
	return r;
}

/* Elsewhere they may be changed anyway. */
static int plan_allowed(struct planner *p)
{
	char reason[] = "given with --allow";
	const struct rule allowed = {.access = ACCESS_RW,
				     .origin = ORIGIN_COMMAND_LINE,
				     .caching = CACHING_NONE,
				     .reason = reason};
	const struct strings *allow = &p->list->allow;
	int r = 0;

	for (size_t i = 0; r == 0 && i < allow->n; i++)
		if (lies_in_any(allow->s[i], &p->denied))
			r = add_rule(p, allow->s[i], &allowed);
	return r;
}

/*
 * The worktree and its repository.
 */

static int copy_text(char **slot, const char *text)
{
	free(*slot);
	*slot = text ? strdup(text) : NULL;
	return text && !*slot ? -ENOMEM : 0;
}

static int set_repository(struct planner *p, const struct gitrepo *repo,
			  const struct worktree *own)
{
	struct session_spec *spec = p->spec;
	autofree char *admin = path_join(repo->git_dir, "worktrees");
	int r = gitrepo_check_owner(repo, p->message);

	if (r == 0)
		r = copy_text(&spec->main, repo->main);
	if (r == 0)
		r = copy_text(&spec->git_dir, repo->git_dir);
	if (r == 0)
		r = copy_text(&spec->worktree, own->path);
	if (r < 0)
		return r;
	spec->admin_dir = admin ? path_join(admin, own->id) : NULL;
	return spec->admin_dir ? 0 : -ENOMEM;
}

/* Denied by its own name, and not allowed by another. */
static bool is_closed(const struct planner *p, const char *git_dir)
{
	return strings_contain(&p->list->deny, git_dir) &&
	       denylist_denies(p->list, git_dir, NULL);
}

static bool is_own(const struct planner *p, const struct gitrepo *repo,
		   ssize_t index)
{
	const char *top = repo->main ? repo->main : repo->git_dir;

	return index >= 0 && repo->worktrees[index].exists &&
	       lies_in_any(top, &p->denied) &&
	       denylist_denies(p->list, top, NULL) &&
	       !denylist_denies(p->list, repo->worktrees[index].path, NULL) &&
	       !is_closed(p, repo->git_dir);
}

/* Is the place in such a worktree? exact: at its top. 1, 0, or -errno. */
static int try_place(struct planner *p, const char *place, bool exact)
{
	autofree char *why = NULL;
	struct gitrepo repo = {0};
	ssize_t index = -1;
	int r = exists(place) ? gitrepo_discover(place, &repo, &index, &why)
			      : -ENOENT;

	/* What can't be found out stays as the lists have it. */
	if (r < 0 && r != -ENOENT)
		warn("no git guard for '%s': %s", place,
		     why ? why : strerror(-r));
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (is_own(p, &repo, index) &&
	    (!exact || strcmp(repo.worktrees[index].path, place) == 0)) {
		r = set_repository(p, &repo, &repo.worktrees[index]);
		r = r < 0 ? r : 1;
	}
	gitrepo_release(&repo);
	return r;
}

/* The one that we stand in comes first. */
static int find_worktree(struct planner *p)
{
	const struct strings *allow = &p->list->allow;
	autofree char *cwd = getcwd(NULL, 0);
	int r = cwd && cwd[0] == '/' ? try_place(p, cwd, false) : 0;

	for (size_t i = 0; r == 0 && i < allow->n; i++)
		r = try_place(p, allow->s[i], true);
	return r < 0 ? r : 0;
}

static int plan_git(struct planner *p)
{
	char own[] = "the session's own worktree";
	char commits[] = "commits land here";
	const struct rule worktree = {.access = ACCESS_RW, .reason = own};
	const struct rule git_dir = {.access = ACCESS_RW,
				     .caching = CACHING_NONE,
				     .reason = commits};
	const struct rule objects = {.access = ACCESS_RW,
				     .caching = CACHING_OBJECTS,
				     .reason = commits};
	struct session_spec *spec = p->spec;
	autofree char *path = NULL;
	int r = find_worktree(p);

	if (r < 0 || !spec->worktree)
		return r;
	path = path_join(spec->git_dir, "objects");
	if (!path)
		return -ENOMEM;
	spec->git_guard = true;
	r = add_rule(p, spec->worktree, &worktree);
	if (r == 0)
		r = add_rule(p, spec->git_dir, &git_dir);
	if (r == 0)
		r = add_rule(p, path, &objects);
	return r < 0 ? r : gitrules_add(spec);
}

/*
 * The whole.
 */

static int plan_name(struct planner *p)
{
	struct session_spec *spec = p->spec;
	const char *place = spec->worktree ? spec->worktree : p->denied.s[0];
	autofree char *base = NULL;
	int r;

	spec->name = session_name_from(path_basename(place));
	if (!spec->name)
		return -ENOMEM;
	r = state_base_path(&base);
	if (r < 0)
		return explain(r, p->message,
			       "cannot find a place for the session's log: %s",
			       strerror(-r));
	spec->state_dir = path_join(base, spec->name);
	return spec->state_dir ? 0 : -ENOMEM;
}

/* Once it is known what is denied. */
static int plan_rest(struct planner *p)
{
	const struct layout layout = {.native_worktree = true};
	int r = plan_allowed(p);

	if (r == 0)
		r = plan_git(p);
	if (r == 0)
		r = layout_session(&layout, p->spec, p->message);
	return r < 0 ? r : plan_name(p);
}

int denyplan(const struct denylist *list, struct session_spec *ret_spec,
	     struct strings *ret_missing, char **message)
{
	struct session_spec spec;
	struct planner p = {.list = list, .spec = &spec, .message = message};
	int r;

	session_spec_init(&spec);
	spec.tier = TIER_ENFORCED;
	spec.hardlinks = HARDLINKS_BREAK;
	spec.symlinks = SYMLINKS_VIEW;
	spec.git_config = GIT_CONFIG_FILTER;
	spec.git_guard = false;
	r = plan_denied(&p, ret_missing);
	if (r == 0 && p.denied.n > 0) {
		r = plan_rest(&p);
		r = r < 0 ? r : 1;
	}
	strings_release(&p.denied);
	if (r > 0)
		*ret_spec = spec;
	else
		session_spec_release(&spec);
	return r;
}

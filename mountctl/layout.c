#include "mountctl/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/lib/wire.h"
#include "mountctl/output.h"

/* A root's descriptor travels beside those of record_claim(). */
#define MAX_VIEWS (WIRE_MAX_FDS - 2)

struct planner {
	const struct layout *layout; /* borrowed */
	struct session_spec *spec;   /* borrowed */
	struct strings roots;	     /* of views, some within others yet */
	char **message;
};

static bool is_in(const char *path, const char *dir)
{
	return dir && path_starts_with(path, dir, NULL);
}

static bool is_below(const char *path, const char *dir)
{
	return is_in(path, dir) && strcmp(path, dir) != 0;
}

static bool is_in_any(const char *path, const struct strings *dirs)
{
	for (size_t i = 0; i < dirs->n; i++)
		if (is_in(path, dirs->s[i]))
			return true;
	return false;
}

const struct rule *rules_governing(const struct rules *rules, const char *path)
{
	const struct rule *best = NULL;
	size_t best_length = 0;

	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		size_t length = strlen(rule->path);

		if (rule->pattern || !is_in(path, rule->path))
			continue;
		if (!best || length > best_length ||
		    (length == best_length && rule->origin > best->origin)) {
			best = rule;
			best_length = length;
		}
	}
	return best;
}

bool rule_is_effective(const struct rules *rules, const struct rule *rule)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *other = &rules->rule[i];

		if (other->origin > rule->origin &&
		    other->pattern == rule->pattern &&
		    strcmp(other->path, rule->path) == 0)
			return false;
	}
	return true;
}

static enum access access_at(const struct rules *rules, const char *path)
{
	const struct rule *rule = rules_governing(rules, path);

	return rule ? rule->access : ACCESS_RW;
}

/* Does the rule need a verdict of ours, or a mount's? */
static bool is_restricting(const struct rules *rules, const struct rule *rule)
{
	return (rule->access != ACCESS_RW || rule->judge != JUDGE_NONE) &&
	       rule_is_effective(rules, rule);
}

static bool has_restriction(const struct rules *rules, const char *dir)
{
	for (size_t i = 0; i < rules->n; i++)
		if (is_in(rules->rule[i].path, dir) &&
		    is_restricting(rules, &rules->rule[i]))
			return true;
	return false;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Is there something that a mount can stand on? */
static bool is_mountable(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && !S_ISLNK(st.st_mode);
}

/* What the rule says about its path if it were not there. */
static enum access access_without(const struct rules *rules,
				  const struct rule *rule)
{
	const struct rule *above = NULL;
	autofree char *parent = path_dirname(rule->path);

	if (parent)
		above = rules_governing(rules, parent);
	return above ? above->access : ACCESS_RW;
}

/*
 * The first rule below a natively served tree that mounts can't hold there, or
 * NULL. Read-only mounts hold ro rules on what exists; an rw rule within an rw
 * tree says nothing new.
 */
static const struct rule *beyond_mounts(const struct rules *rules,
					const char *tree)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];

		if (!is_below(rule->path, tree) ||
		    !rule_is_effective(rules, rule))
			continue;
		if (rule->pattern || rule->judge != JUDGE_NONE ||
		    rule->access == ACCESS_NONE)
			return rule;
		if (rule->access == ACCESS_RO && !is_mountable(rule->path))
			return rule;
		if (rule->access == ACCESS_RW &&
		    access_without(rules, rule) != ACCESS_RW)
			return rule;
	}
	return NULL;
}

static bool has_rule_below(const struct rules *rules, const char *tree)
{
	for (size_t i = 0; i < rules->n; i++)
		if (is_below(rules->rule[i].path, tree))
			return true;
	return false;
}

/* Trees that are views, or lie in one, whatever else there is. */
static int add_own_roots(struct planner *p)
{
	struct session_spec *spec = p->spec;
	const char *roots[] = {p->layout->root, spec->main, spec->git_dir, NULL,
			       NULL};

	if (spec->git_dir && !has_restriction(&spec->rules, spec->git_dir))
		roots[2] = NULL;
	/* Seen elsewhere, git has to stay within the session's views. */
	if (spec->tier == TIER_VIEW) {
		roots[3] = spec->worktree;
		roots[4] = spec->worktrees_dir;
	}
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		int r = roots[i] ? strings_add(&p->roots, roots[i]) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* Of the default rules only those of siblings restrict outside of M. */
static bool is_sibling(const struct rule *rule)
{
	return rule->origin == ORIGIN_DEFAULT && rule->access == ACCESS_RO;
}

/* Outside every view yet: does this rule's path make one, or a mount? */
static int add_restricted(struct planner *p, const struct rule *rule)
{
	bool directory = is_directory(rule->path);
	bool plain = rule->access == ACCESS_RO && is_mountable(rule->path) &&
		     !has_rule_below(&p->spec->rules, rule->path);

	if (p->spec->tier == TIER_VIEW && is_sibling(rule))
		return 0; /* nothing leads there from a view elsewhere */
	if (p->spec->tier == TIER_ENFORCED && plain)
		return strings_add(&p->spec->native, rule->path);
	if (directory)
		return strings_add(&p->roots, rule->path);
	if (is_mountable(rule->path))
		return explain(-EINVAL, p->message,
			       "'%s' isn't a directory, and outside of what "
			       "the session shows it can't be '%s'",
			       rule->path, access_name(rule->access));
	return explain(-EINVAL, p->message,
		       "'%s' doesn't exist, and outside of what the session "
		       "shows nothing can hold a rule for it",
		       rule->path);
}

static int compare_paths(const void *a, const void *b)
{
	const struct rule *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

/* A path sorts before those below it, so that the top-most comes first. */
static int sort_rules(const struct rules *rules,
		      const struct rule ***ret_sorted)
{
	const struct rule **sorted = calloc(rules->n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++)
		sorted[i] = &rules->rule[i];
	qsort(sorted, rules->n, sizeof(*sorted), compare_paths);
	*ret_sorted = sorted;
	return 0;
}

static int add_restricted_trees(struct planner *p)
{
	const struct session_spec *spec = p->spec;
	autofree const struct rule **sorted = NULL;
	int r = sort_rules(&spec->rules, &sorted);

	for (size_t i = 0; r == 0 && i < spec->rules.n; i++) {
		const struct rule *rule = sorted[i];

		/* Patterns are the git guard's, whose G is a root. */
		if (rule->pattern || !is_restricting(&spec->rules, rule) ||
		    is_in_any(rule->path, &p->roots) ||
		    is_in_any(rule->path, &spec->native))
			continue;
		/* W is one tree with what is in it, see place_worktree(). */
		if (is_below(rule->path, spec->worktree))
			continue;
		r = add_restricted(p, rule);
	}
	return r;
}

/* Can the real directory of W be served, with mounts for its rules? */
static bool worktree_can_be_native(const struct planner *p)
{
	const struct session_spec *spec = p->spec;
	const struct rules *rules = &spec->rules;

	return spec->tier == TIER_ENFORCED && p->layout->native_worktree &&
	       !p->layout->hardlinks_given && is_directory(spec->worktree) &&
	       access_at(rules, spec->worktree) == ACCESS_RW &&
	       !beyond_mounts(rules, spec->worktree);
}

/* Outside every view, W needs one exactly if mounts can't hold its rules. */
static int place_worktree(struct planner *p)
{
	const char *worktree = p->spec->worktree;

	if (!worktree || strings_contain(&p->roots, worktree))
		return 0;
	if (worktree_can_be_native(p) && p->roots.n > 0)
		return strings_add(&p->spec->native, worktree);
	return is_in_any(worktree, &p->roots)
		       ? 0
		       : strings_add(&p->roots, worktree);
}

static int refuse_native(struct planner *p, const char *path, const char *why)
{
	return explain(-EINVAL, p->message, "'%s' can't be served natively: %s",
		       path, why);
}

/* Takes those below path out of the list. */
static void remove_below(struct strings *paths, const char *path)
{
	size_t kept = 0;

	for (size_t i = 0; i < paths->n; i++) {
		if (is_below(paths->s[i], path))
			free(paths->s[i]);
		else
			paths->s[kept++] = paths->s[i];
	}
	paths->n = kept;
	if (paths->s)
		paths->s[kept] = NULL;
}

static int add_native(struct planner *p, const char *path)
{
	const struct rules *rules = &p->spec->rules;
	const struct rule *beyond = beyond_mounts(rules, path);
	enum access access = access_at(rules, path);

	if (is_in_any(path, &p->spec->native))
		return 0;
	if (!is_directory(path))
		return refuse_native(p, path, "it isn't a directory");
	if (strings_contain(&p->roots, path))
		return refuse_native(p, path, "it is the root of a view");
	if (access == ACCESS_NONE)
		return refuse_native(p, path, "its access is 'none'");
	if (p->layout->hardlinks_given && access == ACCESS_RW)
		return refuse_native(p, path, "--hardlinks doesn't hold there");
	if (beyond)
		return explain(-EINVAL, p->message,
			       "'%s' can't be served natively: no mount can "
			       "hold the rule for '%s'",
			       path, beyond->path);
	if (!is_in_any(path, &p->roots)) /* it is as it should be */
		return 0;
	remove_below(&p->spec->native, path);
	return strings_add(&p->spec->native, path);
}

static int add_natives(struct planner *p)
{
	const struct strings *native = &p->layout->native;
	int r = 0;

	for (size_t i = 0; r == 0 && i < native->n; i++)
		r = add_native(p, native->s[i]);
	return r;
}

/* The top-most of the roots that contain the i-th. */
static const char *topmost(const struct strings *roots, size_t i)
{
	const char *top = roots->s[i];

	for (size_t k = 0; k < roots->n; k++)
		if (is_in(top, roots->s[k]))
			top = roots->s[k];
	return top;
}

static bool has_view(const struct session_spec *spec, const char *root)
{
	for (size_t i = 0; i < spec->n_views; i++)
		if (strcmp(spec->views[i].root, root) == 0)
			return true;
	return false;
}

static int add_view(struct planner *p, const char *root)
{
	struct session_spec *spec = p->spec;

	if (has_view(spec, root))
		return 0;
	if (strcmp(root, "/") == 0)
		return explain(-EINVAL, p->message,
			       "the root directory '/' can't be a view");
	if (!is_directory(root))
		return explain(-EINVAL, p->message,
			       "'%s' isn't a directory, and can't be a view",
			       root);
	if (spec->n_views >= MAX_VIEWS)
		return explain(-EINVAL, p->message,
			       "the rules need more than %d views: give a "
			       "directory above them as --root",
			       MAX_VIEWS);
	return session_spec_add_view(spec, root,
				     spec->tier == TIER_ENFORCED ? root : NULL);
}

/* A session has at least one view: somebody has to keep it. */
static int ensure_root(struct planner *p)
{
	struct strings *native = &p->spec->native;

	if (p->roots.n > 0 || native->n == 0)
		return 0;
	return strings_take(&p->roots, native->s[--native->n]);
}

static int add_views(struct planner *p)
{
	int r = ensure_root(p);

	for (size_t i = 0; r == 0 && i < p->roots.n; i++)
		r = add_view(p, topmost(&p->roots, i));
	if (r == 0 && p->spec->n_views == 0)
		return explain(-EINVAL, p->message,
			       "nothing is restricted, there is nothing to "
			       "guard");
	return r;
}

static int pin(struct view_spec *view, const char *path)
{
	const char *relative;

	if (!path_starts_with(path, view->root, &relative) || !relative[0] ||
	    strings_contain(&view->pinned, relative))
		return 0;
	return strings_add(&view->pinned, relative);
}

/* What stands on names of this view: native trees, and mounts within them. */
static int pin_view(const struct session_spec *spec, struct view_spec *view)
{
	const struct rules *rules = &spec->rules;
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->native.n; i++)
		r = pin(view, spec->native.s[i]);
	for (size_t i = 0; r == 0 && i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];

		if (is_restricting(rules, rule) &&
		    is_in_any(rule->path, &spec->native))
			r = pin(view, rule->path);
	}
	return r;
}

static int pin_all(struct session_spec *spec)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_views; i++)
		r = pin_view(spec, &spec->views[i]);
	return r;
}

static bool is_in_view(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++)
		if (is_in(path, spec->views[i].root))
			return true;
	return false;
}

/* What add_restricted() passed over is no rule of the session's. */
static void drop_siblings_elsewhere(struct session_spec *spec)
{
	struct rules *rules = &spec->rules;
	size_t kept = 0;

	if (spec->tier != TIER_VIEW)
		return;
	for (size_t i = 0; i < rules->n; i++) {
		struct rule *rule = &rules->rule[i];

		if (is_sibling(rule) && !is_in_view(spec, rule->path)) {
			free(rule->path);
			free(rule->reason);
		} else {
			rules->rule[kept++] = *rule;
		}
	}
	rules->n = kept;
}

static int layout_all(struct planner *p)
{
	int r = add_own_roots(p);

	if (r == 0)
		r = add_restricted_trees(p);
	if (r == 0)
		r = place_worktree(p);
	if (r == 0)
		r = add_natives(p);
	if (r == 0)
		r = add_views(p);
	if (r < 0)
		return r;
	drop_siblings_elsewhere(p->spec);
	return pin_all(p->spec);
}

int layout_session(const struct layout *layout, struct session_spec *spec,
		   char **message)
{
	struct planner p = {
		.layout = layout,
		.spec = spec,
		.message = message,
	};
	int r = layout_all(&p);

	strings_release(&p.roots);
	return r;
}

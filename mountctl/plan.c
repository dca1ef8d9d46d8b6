#include "mountctl/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/gitrules.h"
#include "mountctl/layout.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"

#define DEFAULT_SHARED ".vinta-ai-workflows"

const char plan_help[] =
	"  -n, --name SESSION  name of the session (default: the worktree's)\n"
	"  --main DIR          the main checkout, or a bare repository\n"
	"  --worktree DIR      the session's own worktree; without these two, "
	"both are\n"
	"                      found from the working directory\n"
	"  --worktrees-dir DIR\n"
	"                      instead of a worktree: where the session makes "
	"its own\n"
	"  --root DIR          any tree as the view, with or without a "
	"worktree in it\n"
	"  --rw PATH           what may be changed; this one and the next three "
	"can be\n"
	"                      repeated, and are relative to the root\n"
	"  --ro PATH           what may only be read\n"
	"  --none PATH         what may not even be read\n"
	"  --shared NAME       a directory in the main checkout that may be "
	"changed,\n"
	"                      beside those of worktreefs.shared in the "
	"repository's config\n"
	"  --git-guard on|off  guard what in the git directory isn't the "
	"session's (on)\n"
	"  --git-config filter|deny|allow\n"
	"                      what may be changed in its config (filter)\n"
	"  --hardlinks allow|break|deny\n"
	"                      what a change does to a file with more names "
	"(break)\n"
	"  --symlinks view|raw\n"
	"                      do absolute links into the root lead into the "
	"view (view)\n"
	"  --watchdog SECONDS  end a filesystem process without a sign of life "
	"(300);\n"
	"                      0: never\n";

struct planner {
	const struct plan_options *options; /* borrowed */
	struct session_spec *spec;	    /* borrowed */
	struct gitrepo repo;		    /* empty where there is none */
	ssize_t own;			    /* W in repo.worktrees, or -1 */
	char *cwd;
	char *root; /* of --root, resolved; or NULL */
	/* Symlinks that lead to rw rules' paths, and these, index by index. */
	struct strings links;
	struct strings link_rules;
	char **message;
};

void plan_options_init(struct plan_options *options)
{
	*options = (struct plan_options){
		.hardlinks = HARDLINKS_BREAK,
		.symlinks = SYMLINKS_VIEW,
		.git_guard = true,
		.git_config = GIT_CONFIG_FILTER,
		.watchdog = WATCHDOG_DEFAULT,
	};
}

void plan_options_release(struct plan_options *options)
{
	free(options->name);
	free(options->main);
	free(options->worktree);
	free(options->worktrees_dir);
	free(options->root);
	strings_release(&options->rw);
	strings_release(&options->ro);
	strings_release(&options->none);
	strings_release(&options->shared);
	strings_release(&options->native);
	plan_options_init(options);
}

/* The last one counts. */
static int set_text(char **slot, const char *argument)
{
	char *copy = strdup(argument);

	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

static int on_off_parse(const char *word, bool *ret_on)
{
	if (strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
		return -EINVAL;
	*ret_on = strcmp(word, "on") == 0;
	return 0;
}

/* -ENOENT if the option isn't one of these. */
static int path_option(struct plan_options *o, int option, const char *argument)
{
	switch (option) {
	case PLAN_OPT_MAIN:
		return set_text(&o->main, argument);
	case PLAN_OPT_WORKTREE:
		return set_text(&o->worktree, argument);
	case PLAN_OPT_WORKTREES_DIR:
		return set_text(&o->worktrees_dir, argument);
	case PLAN_OPT_ROOT:
		return set_text(&o->root, argument);
	case PLAN_OPT_RW:
		return strings_add(&o->rw, argument);
	case PLAN_OPT_RO:
		return strings_add(&o->ro, argument);
	case PLAN_OPT_NONE:
		return strings_add(&o->none, argument);
	case PLAN_OPT_SHARED:
		return strings_add(&o->shared, argument);
	case PLAN_OPT_NATIVE:
		return strings_add(&o->native, argument);
	}
	return -ENOENT;
}

/* -EINVAL: the argument isn't a word of that option; *words then tells them. */
static int word_option(struct plan_options *o, int option, const char *argument,
		       const char **words)
{
	switch (option) {
	case PLAN_OPT_GIT_GUARD:
		*words = "--git-guard takes 'on' or 'off'";
		return on_off_parse(argument, &o->git_guard);
	case PLAN_OPT_GIT_CONFIG:
		*words = "--git-config takes 'filter', 'deny' or 'allow'";
		return git_config_parse(argument, &o->git_config);
	case PLAN_OPT_HARDLINKS:
		*words = "--hardlinks takes 'allow', 'break' or 'deny'";
		o->hardlinks_given = true;
		return hardlinks_parse(argument, &o->hardlinks);
	case PLAN_OPT_SYMLINKS:
		*words = "--symlinks takes 'view' or 'raw'";
		return symlinks_parse(argument, &o->symlinks);
	case PLAN_OPT_WATCHDOG:
		*words = "--watchdog takes a number of seconds";
		return watchdog_parse(argument, &o->watchdog);
	}
	return -ENOENT;
}

int plan_option(struct plan_options *options, int option, const char *argument,
		char **ret_message)
{
	const char *words = NULL;
	int r;

	if (option == 'n')
		return set_text(&options->name, argument);
	if (option < PLAN_OPT_FIRST || option >= PLAN_OPT_END)
		return -ENOENT;
	options->any_rules = true;
	if (!argument[0])
		return explain(-EINVAL, ret_message,
			       "an option's argument is empty");
	r = path_option(options, option, argument);
	if (r != -ENOENT)
		return r;
	r = word_option(options, option, argument, &words);
	if (r == -EINVAL)
		return explain(r, ret_message, "%s, not '%s'", words, argument);
	return r;
}

static bool is_at_or_above(const char *path, const char *other)
{
	return other && path_starts_with(other, path, NULL);
}

static int resolve(struct planner *p, const char *base, const char *path,
		   struct resolved *ret_resolved)
{
	int r = path_resolve(base, path, NULL, ret_resolved);

	if (r < 0)
		return explain(r, p->message, "cannot look up '%s': %s", path,
			       strerror(-r));
	return 0;
}

/* An option's directory, which must be there. */
static int resolve_directory(struct planner *p, const char *option,
			     const char *path, char **ret_path)
{
	struct resolved place = {0};
	struct stat st;
	int r = resolve(p, p->cwd, path, &place);

	if (r < 0)
		return r;
	if (lstat(place.path, &st) < 0)
		r = -errno;
	else if (!S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	if (r < 0) {
		resolved_release(&place);
		return explain(-EINVAL, p->message, "%s '%s': %s", option, path,
			       strerror(-r));
	}
	*ret_path = steal_pointer(&place.path);
	resolved_release(&place);
	return 0;
}

/* --main names a top, not any directory in a checkout: a typo isn't a guard. */
static int check_main(struct planner *p, const char *given)
{
	const char *top = p->repo.main ? p->repo.main : p->repo.git_dir;

	if (strcmp(given, top) == 0 || strcmp(given, p->repo.git_dir) == 0)
		return 0;
	return explain(-EINVAL, p->message,
		       "--main '%s' isn't the top of a main checkout; "
		       "the one around it is '%s'",
		       given, top);
}

/* The worktree of this repository that the working directory lies in, or -1. */
static ssize_t worktree_around(const struct planner *p)
{
	const char *innermost = p->repo.main;
	ssize_t index = -1;

	if (innermost && !path_starts_with(p->cwd, innermost, NULL))
		innermost = NULL;
	for (size_t i = 0; i < p->repo.n_worktrees; i++) {
		const struct worktree *worktree = &p->repo.worktrees[i];

		if (!worktree->exists ||
		    !path_starts_with(p->cwd, worktree->path, NULL))
			continue;
		if (innermost && strlen(innermost) > strlen(worktree->path))
			continue;
		innermost = worktree->path;
		index = (ssize_t)i;
	}
	return index;
}

static int need_worktree(struct planner *p)
{
	return explain(-EINVAL, p->message,
		       "'%s' isn't in a worktree of '%s': give one with "
		       "--worktree DIR, or with --worktrees-dir DIR the place "
		       "where they are made",
		       p->cwd, p->repo.main ? p->repo.main : p->repo.git_dir);
}

static int find_worktree(struct planner *p, ssize_t around)
{
	const struct plan_options *o = p->options;
	autofree char *path = NULL;
	int r;

	if (o->worktrees_dir)
		return 0;
	if (!o->worktree) {
		p->own = o->main ? worktree_around(p) : around;
		return p->own >= 0 ? 0 : need_worktree(p);
	}
	r = resolve_directory(p, "--worktree", o->worktree, &path);
	if (r == 0)
		r = gitrepo_find_worktree(&p->repo, path, &p->own, p->message);
	return r;
}

static bool wants_repository(const struct plan_options *o)
{
	return !o->root || o->main || o->worktree || o->worktrees_dir;
}

static int find_repository(struct planner *p)
{
	const struct plan_options *o = p->options;
	autofree char *start = NULL;
	ssize_t around = -1;
	int r = 0;

	if (o->worktree && o->worktrees_dir)
		return explain(-EINVAL, p->message,
			       "--worktree and --worktrees-dir exclude each "
			       "other");
	if (!wants_repository(o))
		return 0;
	if (o->main)
		r = resolve_directory(p, "--main", o->main, &start);
	else if (o->worktree)
		r = resolve_directory(p, "--worktree", o->worktree, &start);
	else
		r = set_text(&start, p->cwd);
	if (r == 0)
		r = gitrepo_discover(start, &p->repo, &around, p->message);
	if (r == 0 && o->main)
		r = check_main(p, start);
	if (r == 0)
		r = find_worktree(p, around);
	/* The user mends it by naming another place. */
	return r == -ENOENT ? -EINVAL : r;
}

/* Somebody else stands on W's branch: commits in W would move it for them. */
static int check_branch(struct planner *p)
{
	const struct worktree *own = &p->repo.worktrees[p->own];
	struct strings branches = {0};
	int r;

	if (!own->branch)
		return 0;
	r = gitrepo_protected_branches(&p->repo, p->own, &branches);
	if (r == 0 && strings_contain(&branches, own->branch))
		r = explain(-EINVAL, p->message,
			    "the branch of '%s', '%s', is in use in the main "
			    "checkout or another worktree, too: switch one of "
			    "them to another branch",
			    own->path, own->branch);
	strings_release(&branches);
	return r;
}

/* NULL is copied to NULL. */
static int copy_text(char **slot, const char *text)
{
	return text ? set_text(slot, text) : 0;
}

static int set_worktree(struct planner *p)
{
	const struct worktree *own = &p->repo.worktrees[p->own];
	autofree char *admin = NULL;
	int r = set_text(&p->spec->worktree, own->path);

	if (r < 0)
		return r;
	admin = path_join(p->repo.git_dir, "worktrees");
	if (!admin)
		return -ENOMEM;
	p->spec->admin_dir = path_join(admin, own->id);
	return p->spec->admin_dir ? check_branch(p) : -ENOMEM;
}

static int check_repository(struct planner *p)
{
	int r = gitrepo_check_owner(&p->repo, p->message);

	if (r == 0)
		r = copy_text(&p->spec->main, p->repo.main);
	if (r == 0)
		r = copy_text(&p->spec->git_dir, p->repo.git_dir);
	if (r == 0 && p->own >= 0)
		r = set_worktree(p);
	return r;
}

/* What a rule says beside its path. */
struct kind {
	enum access access;
	enum origin origin;
	enum caching caching;
	const char *reason;
};

static const struct kind main_checkout = {ACCESS_RO, ORIGIN_DEFAULT,
					  CACHING_TREE, "the main checkout"};
static const struct kind own_worktree = {
	ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE, "the session's own worktree"};
static const struct kind own_worktrees = {
	ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE, "the session's own worktrees"};
static const struct kind other_worktree = {ACCESS_RO, ORIGIN_DEFAULT,
					   CACHING_TREE, "another worktree"};
static const struct kind any_root = {ACCESS_RW, ORIGIN_DEFAULT, CACHING_TREE,
				     "the root"};
static const struct kind git_directory = {ACCESS_RW, ORIGIN_DEFAULT,
					  CACHING_NONE, "commits land here"};
static const struct kind git_objects = {ACCESS_RW, ORIGIN_DEFAULT,
					CACHING_OBJECTS, "commits land here"};
static const struct kind shared_default = {ACCESS_RW, ORIGIN_DEFAULT,
					   CACHING_NONE, "a shared directory"};
static const struct kind shared_config = {
	ACCESS_RW, ORIGIN_GIT_CONFIG, CACHING_NONE,
	"worktreefs.shared in the repository's config"};
static const struct kind shared_option = {ACCESS_RW, ORIGIN_COMMAND_LINE,
					  CACHING_NONE, "given with --shared"};

/* Two rules of one origin must not disagree; the same twice is one. */
static int add_rule(struct planner *p, const char *path,
		    const struct kind *kind)
{
	struct rules *rules = &p->spec->rules;
	autofree char *path_copy = strdup(path);
	autofree char *reason = strdup(kind->reason);

	if (!path_copy || !reason)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *old = &rules->rule[i];

		if (old->origin != kind->origin || strcmp(old->path, path) != 0)
			continue;
		if (old->access == kind->access)
			return 0;
		return explain(-EINVAL, p->message,
			       "'%s' is given both as '%s' (%s) and as '%s' "
			       "(%s)",
			       path, access_name(old->access), old->reason,
			       access_name(kind->access), kind->reason);
	}
	return rules_add(rules, &(struct rule){
					.path = path_copy,
					.access = kind->access,
					.origin = kind->origin,
					.caching = kind->caching,
					.reason = reason,
				});
}

static int add_rule_in(struct planner *p, const char *dir, const char *name,
		       const struct kind *kind)
{
	autofree char *path = path_join(dir, name);

	return path ? add_rule(p, path, kind) : -ENOMEM;
}

/* Remembers how an rw rule's path was found, for check_links(). */
static int remember_links(struct planner *p, const struct resolved *place)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < place->links.n; i++) {
		r = strings_add(&p->links, place->links.s[i]);
		if (r == 0)
			r = strings_add(&p->link_rules, place->path);
	}
	return r;
}

static enum access access_at(const struct rules *rules, const char *path)
{
	const struct rule *rule = rules_governing(rules, path);

	return rule ? rule->access : ACCESS_RW;
}

/* Would the path be restricted but for the rw rules at it? */
static int is_widened(const struct rules *rules, const char *path)
{
	autofree char *parent = path_dirname(path);

	if (!parent)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++)
		if (rules->rule[i].access != ACCESS_RW &&
		    strcmp(rules->rule[i].path, path) == 0)
			return 1;
	return access_at(rules, parent) != ACCESS_RW;
}

/* See plan_session() in the header. */
static int check_links(struct planner *p)
{
	const struct rules *rules = &p->spec->rules;

	for (size_t i = 0; i < p->links.n; i++) {
		const char *link = p->links.s[i];
		const char *path = p->link_rules.s[i];
		const struct rule *rule = rules_governing(rules, link);
		int r = is_widened(rules, path);

		if (r < 0)
			return r;
		if (r == 0 || !rule || rule->access != ACCESS_RW)
			continue;
		return explain(-EINVAL, p->message,
			       "the symlink '%s', which sessions can change, "
			       "leads the access 'rw' to '%s': give that path "
			       "itself, if it is meant",
			       link, path);
	}
	return 0;
}

/*
 * The rules that every session of a repository has.
 */

static int plan_worktree(struct planner *p)
{
	const struct session_spec *spec = p->spec;
	int r = 0;

	if (spec->main)
		r = add_rule(p, spec->main, &main_checkout);
	if (r == 0 && spec->worktree)
		r = add_rule(p, spec->worktree, &own_worktree);
	if (r == 0 && spec->git_dir)
		r = add_rule(p, spec->git_dir, &git_directory);
	if (r == 0 && spec->git_dir)
		r = add_rule_in(p, spec->git_dir, "objects", &git_objects);
	return r;
}

static int plan_git_guard(struct planner *p)
{
	return gitrules_add(p->spec);
}

static bool covers_repository(const struct planner *p, const char *path)
{
	return is_at_or_above(path, p->repo.main) ||
	       is_at_or_above(path, p->repo.git_dir);
}

static int plan_worktrees_dir(struct planner *p)
{
	const char *given = p->options->worktrees_dir;
	struct resolved place = {0};
	int r;

	if (!given)
		return 0;
	r = resolve(p, p->cwd, given, &place);
	if (r == 0 && covers_repository(p, place.path))
		r = explain(-EINVAL, p->message,
			    "--worktrees-dir '%s' would open the main checkout "
			    "or its git directory",
			    given);
	if (r == 0)
		r = add_rule(p, place.path, &own_worktrees);
	if (r == 0)
		r = remember_links(p, &place);
	if (r == 0)
		r = set_text(&p->spec->worktrees_dir, place.path);
	resolved_release(&place);
	return r;
}

/* A sibling that is gone needs no rule; under D none is a sibling. */
static bool is_sibling(const struct planner *p, size_t index)
{
	const char *path = p->repo.worktrees[index].path;
	const char *dir = p->spec->worktrees_dir;
	struct stat st;

	if ((ssize_t)index == p->own || !path_is_clean(path))
		return false;
	if (dir && path_starts_with(path, dir, NULL))
		return false;
	return lstat(path, &st) == 0;
}

static int plan_siblings(struct planner *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->repo.n_worktrees; i++)
		if (is_sibling(p, i))
			r = add_rule(p, p->repo.worktrees[i].path,
				     &other_worktree);
	return r;
}

/* Last of the defaults: the root may be what another of them is about. */
static int plan_root(struct planner *p)
{
	const struct rules *rules = &p->spec->rules;

	if (!p->root)
		return 0;
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->rule[i].path, p->root) == 0)
			return 0;
	return add_rule(p, p->root, &any_root);
}

static int refuse_shared(struct planner *p, const char *name)
{
	return explain(-EINVAL, p->message,
		       "'%s' can't be a shared directory: it has to be a "
		       "relative path without '..', and neither the main "
		       "checkout, nor its git directory, nor above them",
		       name);
}

static bool has_dotdot(const char *path)
{
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && strncmp(path, "..", 2) == 0)
			return true;
		path += length;
		path += *path == '/';
	}
	return false;
}

static int add_shared(struct planner *p, const char *name,
		      const struct kind *kind)
{
	struct resolved place = {0};
	int r;

	if (!p->repo.main || name[0] == '\0' || name[0] == '/' ||
	    has_dotdot(name))
		return refuse_shared(p, name);
	r = resolve(p, p->repo.main, name, &place);
	if (r == 0 && covers_repository(p, place.path))
		r = refuse_shared(p, name);
	if (r == 0)
		r = add_rule(p, place.path, kind);
	if (r == 0)
		r = remember_links(p, &place);
	resolved_release(&place);
	return r;
}

static int add_all_shared(struct planner *p, const struct strings *names,
			  const struct kind *kind)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < names->n; i++)
		r = add_shared(p, names->s[i], kind);
	return r;
}

/* Config replaces the default, --shared adds to either. */
static int plan_shared(struct planner *p)
{
	struct strings names = {0};
	int r = 0;

	if (p->repo.main)
		r = gitrepo_config(&p->repo, "worktreefs.shared", &names,
				   p->message);
	if (r == 0)
		r = add_all_shared(p, &names, &shared_config);
	if (r == 0 && p->repo.main && names.n == 0)
		r = add_shared(p, DEFAULT_SHARED, &shared_default);
	if (r == 0)
		r = add_all_shared(p, &p->options->shared, &shared_option);
	strings_release(&names);
	return r;
}

/*
 * The rules that are added to these.
 */

/* In a tree with a cache time-out of its own, an added rule keeps that. */
static enum caching caching_at(const struct rules *rules, const char *path)
{
	const struct rule *rule = rules_governing(rules, path);

	return rule ? rule->caching : CACHING_TREE;
}

static int add_given(struct planner *p, const char *base, const char *given,
		     struct kind kind)
{
	struct resolved place = {0};
	int r;

	if (given[0] == '\0')
		return explain(-EINVAL, p->message, "%s: the path is empty",
			       kind.reason);
	if (given[0] != '/' && !base)
		return explain(-EINVAL, p->message,
			       "'%s' (%s) is relative, but to nothing: there "
			       "is neither a main checkout nor a --root",
			       given, kind.reason);
	r = resolve(p, base ? base : "/", given, &place);
	if (r < 0)
		return r;
	kind.caching = caching_at(&p->spec->rules, place.path);
	r = add_rule(p, place.path, &kind);
	if (r == 0 && kind.access == ACCESS_RW)
		r = remember_links(p, &place);
	resolved_release(&place);
	return r;
}

static int add_all_given(struct planner *p, const char *base,
			 const struct strings *paths, const struct kind *kind)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++)
		r = add_given(p, base, paths->s[i], *kind);
	return r;
}

static int plan_standing(struct planner *p)
{
	static const struct {
		const char *key;
		struct kind kind;
	} keys[] = {
		{"worktreefs.rw",
		 {ACCESS_RW, ORIGIN_GIT_CONFIG, CACHING_TREE,
		  "worktreefs.rw in the repository's config"}},
		{"worktreefs.ro",
		 {ACCESS_RO, ORIGIN_GIT_CONFIG, CACHING_TREE,
		  "worktreefs.ro in the repository's config"}},
		{"worktreefs.none",
		 {ACCESS_NONE, ORIGIN_GIT_CONFIG, CACHING_TREE,
		  "worktreefs.none in the repository's config"}},
	};
	const char *base = p->repo.main ? p->repo.main : p->root;
	int r = 0;

	if (!p->repo.git_dir)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		struct strings paths = {0};

		r = gitrepo_config(&p->repo, keys[i].key, &paths, p->message);
		if (r == 0)
			r = add_all_given(p, base, &paths, &keys[i].kind);
		strings_release(&paths);
	}
	return r;
}

static int plan_given(struct planner *p)
{
	const struct plan_options *o = p->options;
	const struct {
		const struct strings *paths;
		struct kind kind;
	} given[] = {
		{&o->rw,
		 {ACCESS_RW, ORIGIN_COMMAND_LINE, CACHING_TREE,
		  "given with --rw"}},
		{&o->ro,
		 {ACCESS_RO, ORIGIN_COMMAND_LINE, CACHING_TREE,
		  "given with --ro"}},
		{&o->none,
		 {ACCESS_NONE, ORIGIN_COMMAND_LINE, CACHING_TREE,
		  "given with --none"}},
	};
	const char *base = p->root ? p->root : p->repo.main;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(given); i++)
		r = add_all_given(p, base, given[i].paths, &given[i].kind);
	return r;
}

static int plan_rules(struct planner *p)
{
	static int (*const steps[])(struct planner *) = {
		plan_worktree, plan_worktrees_dir, plan_siblings,
		plan_shared,   plan_git_guard,	   plan_root,
		plan_standing, plan_given,	   check_links,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](p);
	return r;
}

/*
 * The rest of the session.
 */

static int plan_natives(struct planner *p, struct layout *layout)
{
	const struct strings *native = &p->options->native;
	const char *base = p->root ? p->root : p->repo.main;

	if (native->n > 0 && p->spec->tier == TIER_VIEW)
		return explain(-EINVAL, p->message,
			       "--native is for 'mountctl run' only");
	for (size_t i = 0; i < native->n; i++) {
		struct resolved place = {0};
		int r;

		if (strcmp(native->s[i], "auto") == 0 ||
		    strcmp(native->s[i], "none") == 0) {
			layout->native_worktree = native->s[i][0] == 'a';
			continue;
		}
		r = resolve(p, base ? base : p->cwd, native->s[i], &place);
		if (r == 0)
			r = strings_add(&layout->native, place.path);
		resolved_release(&place);
		if (r < 0)
			return r;
	}
	return 0;
}

static int plan_layout(struct planner *p)
{
	struct layout layout = {
		.root = p->root,
		.native_worktree = true,
		.hardlinks_given = p->options->hardlinks_given,
	};
	int r = plan_natives(p, &layout);

	if (r == 0)
		r = layout_session(&layout, p->spec, p->message);
	strings_release(&layout.native);
	return r;
}

static int plan_name(struct planner *p)
{
	const char *given = p->options->name, *place = p->spec->worktree;

	if (!place)
		place = p->root ? p->root : p->repo.main;
	if (!place)
		place = p->repo.git_dir;
	p->spec->name =
		given ? strdup(given) : session_name_from(path_basename(place));
	if (!p->spec->name)
		return -ENOMEM;
	if (session_name_is_valid(p->spec->name))
		return 0;
	return explain(-EINVAL, p->message,
		       "'%.120s' can't be a session's name: at most 100 bytes "
		       "of letters, digits and '._-+@', the first not a '.'",
		       given);
}

static int plan_state_dir(struct planner *p)
{
	autofree char *base = NULL;
	int r = state_base_path(&base);

	if (r < 0)
		return explain(r, p->message,
			       "cannot find a place for the session's log: %s",
			       strerror(-r));
	p->spec->state_dir = path_join(base, p->spec->name);
	return p->spec->state_dir ? 0 : -ENOMEM;
}

static void plan_ids(struct session_spec *spec)
{
	if (spec->tier != TIER_ENFORCED || geteuid() == 0)
		return;
	spec->report_uid = geteuid();
	spec->report_gid = getegid();
}

static void copy_options(struct planner *p)
{
	const struct plan_options *o = p->options;

	p->spec->hardlinks = o->hardlinks;
	p->spec->symlinks = o->symlinks;
	p->spec->git_config = o->git_config;
	p->spec->watchdog = o->watchdog;
	p->spec->git_guard = o->git_guard && p->repo.git_dir;
}

static int plan_all(struct planner *p)
{
	int r = 0;

	p->cwd = getcwd(NULL, 0);
	if (!p->cwd) {
		r = -errno;
		return explain(r, p->message,
			       "cannot find the working directory: %s",
			       strerror(-r));
	}
	if (p->options->root)
		r = resolve_directory(p, "--root", p->options->root, &p->root);
	if (r == 0)
		r = find_repository(p);
	if (r == 0 && p->repo.git_dir)
		r = check_repository(p);
	if (r < 0)
		return r;
	copy_options(p);
	plan_ids(p->spec);
	r = plan_rules(p);
	if (r == 0)
		r = plan_layout(p);
	if (r == 0)
		r = plan_name(p);
	return r < 0 ? r : plan_state_dir(p);
}

int plan_session(const struct plan_options *options, enum tier tier,
		 struct session_spec *ret_spec, char **ret_message)
{
	struct session_spec spec;
	autofree char *message = NULL;
	struct planner p = {
		.options = options,
		.spec = &spec,
		.own = -1,
		.message = &message,
	};
	int r;

	session_spec_init(&spec);
	spec.tier = tier;
	r = plan_all(&p);
	gitrepo_release(&p.repo);
	strings_release(&p.links);
	strings_release(&p.link_rules);
	free(p.cwd);
	free(p.root);
	if (r < 0) {
		session_spec_release(&spec);
		return explain(r, ret_message, "%s",
			       message ? message : strerror(-r));
	}
	*ret_spec = spec;
	return 0;
}

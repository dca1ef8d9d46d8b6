#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitpointer.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/path.h"
#include "mountctl/doctor.h"
#include "mountctl/gitrules.h"
#include "mountctl/links.h"

/* Of <linux/magic.h> of newer kernels. */
#define OVERLAYFS_MAGIC 0x794c7630

/* Names to look at for hard links: a second's work, or two. */
#define LINKS_BUDGET 200000

/* Worktrees that a line names. */
#define NAMES_SHOWN 3

static void check_repository(struct checks *checks, const struct gitrepo *repo,
			     ssize_t own)
{
	autofree char *message = NULL;
	int r = gitrepo_check_owner(repo, &message);

	if (r < 0) {
		check_error(checks, "repository", CHECK_FAIL, r, message);
		return;
	}
	check_add(checks, "repository", CHECK_OK,
		  "main checkout '%s', git directory '%s' (%s, %s)",
		  repo->main ? repo->main : "none: it is bare", repo->git_dir,
		  repo->ref_format, repo->object_format);
	if (own >= 0)
		check_add(checks, "repository", CHECK_OK,
			  "this is the worktree '%s'",
			  repo->worktrees[own].path);
}

static void check_gaps(struct checks *checks, const struct gitrepo *repo)
{
	struct session_spec spec;
	struct strings gaps = {0};

	session_spec_init(&spec);
	/* Borrowed, and not released. */
	spec.main = repo->main;
	spec.git_dir = repo->git_dir;
	spec.git_guard = true;
	if (gitrules_gaps(&spec, &gaps) < 0)
		checks->r = -ENOMEM;
	for (size_t i = 0; i < gaps.n; i++)
		check_error(checks, "git-guard", CHECK_WARN, 0, gaps.s[i]);
	if (gaps.n == 0)
		check_add(checks, "git-guard", CHECK_OK,
			  "can hold all of this repository's format");
	strings_release(&gaps);
}

/*
 * Configuration
 */

/* The last value of a key in G's config; allocated, NULL: none. */
static char *config_value(const struct gitrepo *repo, const char *key)
{
	struct strings values = {0};
	char *value = NULL;

	if (gitrepo_config(repo, key, &values, NULL) == 0 && values.n > 0)
		value = strdup(values.s[values.n - 1]);
	strings_release(&values);
	return value;
}

static bool is_true(const char *value)
{
	static const char *const words[] = {"true", "yes", "on", "1", ""};

	for (size_t i = 0; value && i < ARRAY_SIZE(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

/* With extensions.worktreeConfig, what is one checkout's has its own file. */
static void check_split(struct checks *checks, const struct gitrepo *repo)
{
	autofree char *split = config_value(repo, "extensions.worktreeConfig");
	autofree char *worktree = config_value(repo, "core.worktree");
	autofree char *bare = config_value(repo, "core.bare");
	const char *key = NULL;

	if (worktree)
		key = "core.worktree";
	else if (is_true(bare))
		key = "core.bare";
	if (!is_true(split)) {
		check_add(checks, "git-config", CHECK_OK,
			  git_has_entry(repo->git_dir, "config.worktree")
				  ? "one for all checkouts; there is a "
				    "'config.worktree', but without "
				    "extensions.worktreeConfig git ignores it"
				  : "one for all checkouts");
		return;
	}
	check_add(checks, "git-config", key ? CHECK_WARN : CHECK_OK,
		  "a part of its own for each checkout "
		  "(extensions.worktreeConfig)%s%s%s",
		  key ? ", but '" : "", key ? key : "",
		  key ? "' is in the shared one and counts in each worktree"
		      : "");
	if (key)
		check_mend(checks,
			   "git -C '%s' config --worktree %s VALUE; git config "
			   "--file '%s/config' --unset %s (git-worktree(1), "
			   "CONFIGURATION FILE)",
			   repo->git_dir, key, repo->git_dir, key);
}

/* Hooks in a checkout are content of each worktree. */
static void check_hooks(struct checks *checks, const struct gitrepo *repo)
{
	autofree char *path = config_value(repo, "core.hooksPath");

	if (!path || !*path || path[0] == '/' || path[0] == '~')
		return;
	check_add(checks, "git-config", CHECK_WARN,
		  "core.hooksPath is '%s': in a worktree, git runs the hooks "
		  "that are in there, whoever wrote them",
		  path);
	check_mend(checks, "review them before you run git in a session's "
			   "worktree");
}

/*
 * Worktrees
 */

static void check_worktrees(struct checks *checks, const struct gitrepo *repo)
{
	autofree char *names = NULL;
	size_t size, missing = 0;
	FILE *out = open_memstream(&names, &size);

	if (!out) {
		checks->r = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < repo->n_worktrees; i++) {
		const struct worktree *worktree = &repo->worktrees[i];

		if (worktree->exists || worktree->locked)
			continue;
		if (missing++ < NAMES_SHOWN)
			fprintf(out, "%s'%s'", missing > 1 ? ", " : "",
				worktree->path);
	}
	if (fclose(out) != 0) {
		checks->r = -ENOMEM;
		return;
	}
	if (missing == 0) {
		check_add(checks, "worktrees", CHECK_OK,
			  "%zu, with their pointers", repo->n_worktrees);
		return;
	}
	check_add(checks, "worktrees", CHECK_WARN,
		  "%zu of %zu aren't there, or don't point back: %s%s", missing,
		  repo->n_worktrees, names,
		  missing > NAMES_SHOWN ? ", ..." : "");
	check_mend(checks,
		   "moved: git worktree repair PATH; gone: git worktree "
		   "prune");
}

/*
 * Hard links
 */

static int compare_trees(const struct gitrepo *repo, ssize_t own,
			 const struct strings *skip, struct links *links,
			 struct shared_links *shared)
{
	int r = links_gather(links, repo->main, skip);

	for (size_t i = 0; r == 0 && i < repo->n_worktrees; i++) {
		const struct worktree *worktree = &repo->worktrees[i];
		static const struct strings nothing;

		if (worktree->exists && (own < 0 || (size_t)own == i))
			r = links_compare(links, worktree->path, &nothing,
					  shared);
	}
	return r;
}

static void report_links(struct checks *checks, const struct links *links,
			 const struct shared_links *shared)
{
	if (shared->n > 0) {
		check_add(checks, "hard-links", CHECK_WARN,
			  "%s%zu files of worktrees are files of the main "
			  "checkout: '%s' is '%s'",
			  links->gave_up ? "at least " : "", shared->n,
			  shared->another, shared->first);
		check_mend(checks,
			   "cp -p FILE FILE.new && mv FILE.new FILE for each; "
			   "or 'run --native none', where they are broken at "
			   "the first change");
	} else if (links->gave_up) {
		check_add(checks, "hard-links", CHECK_WARN,
			  "unknown: there are more than %d files to look at",
			  LINKS_BUDGET);
	} else {
		check_add(checks, "hard-links", CHECK_OK,
			  "no file of a worktree is one of the main checkout");
	}
}

static void check_links(struct checks *checks, const struct gitrepo *repo,
			ssize_t own)
{
	struct links links = {.budget = LINKS_BUDGET};
	struct shared_links shared = {0};
	struct strings skip = {0};
	int r = 0;

	if (!repo->main)
		return;
	for (size_t i = 0; r == 0 && i < repo->n_worktrees; i++)
		r = strings_add(&skip, repo->worktrees[i].path);
	if (r == 0)
		r = compare_trees(repo, own, &skip, &links, &shared);
	if (r < 0)
		check_error(checks, "hard-links", CHECK_WARN, r, NULL);
	else
		report_links(checks, &links, &shared);
	links_release(&links);
	shared_links_release(&shared);
	strings_release(&skip);
}

/* Objects of before the session are told by their birth time. */
static void check_birth(struct checks *checks, const char *path)
{
	struct statfs fs;
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &stx) < 0 ||
	    statfs(path, &fs) < 0) {
		check_error(checks, "birth-time", CHECK_WARN, -errno, NULL);
		return;
	}
	if ((stx.stx_mask & STATX_BTIME) && fs.f_type != OVERLAYFS_MAGIC) {
		check_add(checks, "birth-time", CHECK_OK,
			  "known to the file system of '%s'", path);
		return;
	}
	check_add(checks, "birth-time", CHECK_WARN,
		  "not known to the file system of '%s': objects of the "
		  "session's own can't be told from older ones, and all of "
		  "them stay",
		  path);
	check_mend(checks, "git gc outside, or a file system that has them "
			   "(ext4, xfs, btrfs)");
}

void doctor_repository(struct checks *checks)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *message = NULL;
	ssize_t own = -1;
	int r = gitrepo_discover(".", &repo, &own, &message);

	if (r == -ENOENT) {
		check_add(checks, "repository", CHECK_OK,
			  "none here; asked in one, more is told");
		return;
	}
	if (r < 0) {
		check_error(checks, "repository", CHECK_FAIL, r, message);
		return;
	}
	check_repository(checks, &repo, own);
	check_gaps(checks, &repo);
	check_split(checks, &repo);
	check_hooks(checks, &repo);
	check_worktrees(checks, &repo);
	check_links(checks, &repo, own);
	check_birth(checks, repo.git_dir);
}

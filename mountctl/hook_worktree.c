#include "mountctl/hook_worktree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"
#include "mountctl/makedir.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"

#define INCLUDE_FILE ".worktreeinclude"

/* Runs git in dir; *ret_out (may be NULL) is what it printed. */
static int run_git(const char *dir, const char *const *words, char **ret_out,
		   char **message)
{
	const char *args[16] = {"-C", dir};
	struct git_output output = {0};
	size_t n = 2;
	int r;

	while (*words && n < ARRAY_SIZE(args) - 1)
		args[n++] = *words++;
	r = git_run(args, &output);
	if (r < 0)
		return explain(r, message, "cannot run git: %s", strerror(-r));
	if (output.status != 0)
		r = explain(-EBUSY, message, "%s", output.err);
	else if (ret_out)
		*ret_out = steal_pointer(&output.out);
	git_output_release(&output);
	return r;
}

#define RUN_GIT(dir, ret_out, message, ...) \
	run_git(dir, (const char *const[]){__VA_ARGS__, NULL}, ret_out, message)

/*
 * Making one.
 */

/* Names with single slashes between them, none hidden or an option's. */
static bool is_worktree_name(const char *name)
{
	while (*name) {
		size_t length = strcspn(name, "/");

		if (length == 0 || length > 200 || name[0] == '.' ||
		    name[0] == '-')
			return false;
		name += length;
		if (*name == '/' && !*++name)
			return false;
	}
	return true;
}

static int find_directory(const struct session_spec *spec,
			  const struct gitrepo *repo, char **ret_dir,
			  char **message)
{
	const char *top = repo->main;

	if (spec && !spec->worktrees_dir)
		return explain(-EPERM, message,
			       "the session '%s' makes no worktrees: start it "
			       "with --worktrees-dir DIR",
			       spec->name);
	if (spec && spec->git_dir && strcmp(spec->git_dir, repo->git_dir) != 0)
		return explain(-EPERM, message,
			       "the session '%s' is about the repository '%s', "
			       "not '%s'",
			       spec->name, spec->git_dir, repo->git_dir);
	if (!spec && !top)
		return explain(-EINVAL, message,
			       "'%s' is a bare repository: there is no place "
			       "for worktrees in it",
			       repo->git_dir);
	*ret_dir = spec ? strdup(spec->worktrees_dir)
			: path_join(top, ".claude/worktrees");
	return *ret_dir ? 0 : -ENOMEM;
}

/* No symlink may lead elsewhere on the way. */
static int find_place(const char *dir, const char *name, char **ret_path,
		      char **message)
{
	autofree char *path = path_join(dir, name);
	struct resolved place = {0};
	bool same;
	int r = path ? path_resolve("/", path, NULL, &place) : -ENOMEM;

	if (r < 0)
		return explain(r, message, "cannot look up '%s': %s", path,
			       strerror(-r));
	same = strcmp(place.path, path) == 0;
	resolved_release(&place);
	if (!same)
		return explain(-ELOOP, message,
			       "a symlink stands on the way to '%s'", path);
	*ret_path = steal_pointer(&path);
	return 0;
}

static const struct worktree *find_worktree(const struct gitrepo *repo,
					    const char *path)
{
	for (size_t i = 0; i < repo->n_worktrees; i++)
		if (repo->worktrees[i].exists &&
		    strcmp(repo->worktrees[i].path, path) == 0)
			return &repo->worktrees[i];
	return NULL;
}

static int add_worktree(const char *top, const char *path, const char *name,
			const char *base, char **message)
{
	autofree char *branch = NULL, *ref = NULL;

	if (asprintf(&branch, "worktree-%s", name) < 0 ||
	    asprintf(&ref, "refs/heads/%s", branch) < 0)
		return -ENOMEM;
	if (RUN_GIT(top, NULL, NULL, "show-ref", "--verify", "--quiet", ref) ==
	    0)
		return RUN_GIT(top, NULL, message, "worktree", "add", "--quiet",
			       path, branch);
	return RUN_GIT(top, NULL, message, "worktree", "add", "--quiet", "-b",
		       branch, path, base ? base : "HEAD");
}

/*
 * Copies of what isn't tracked.
 */

static int copy_bytes(int from, int to)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1u << 24)) > 0)
		;
	return n < 0 ? -errno : 0;
}

static int copy_link(int from_dir, const char *name, int to_dir)
{
	autofree char *target = NULL;
	int r = read_link_at(from_dir, name, &target);

	if (r < 0)
		return r;
	return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_entry(int from_dir, int to_dir, const char *name)
{
	autofd int from = openat(from_dir, name,
				 O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
					 O_NONBLOCK | O_NOCTTY);
	autofd int to = -1;
	struct stat st;

	if (from < 0)
		return errno == ELOOP ? copy_link(from_dir, name, to_dir)
				      : -errno;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	to = openat(to_dir, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    st.st_mode & 0777);
	return to < 0 ? -errno : copy_bytes(from, to);
}

static int copy_file(int from_top, int to_top, const char *relative)
{
	autofree char *dir =
		strchr(relative, '/') ? path_dirname(relative) : strdup("");
	autofd int from_dir = -1, to_dir = -1;

	if (!dir)
		return -ENOMEM;
	from_dir = open_dir_beneath(from_top, dir);
	if (from_dir < 0)
		return from_dir;
	to_dir = make_dir_beneath(to_top, dir);
	if (to_dir < 0)
		return to_dir;
	return copy_entry(from_dir, to_dir, path_basename(relative));
}

/* list: names, each with a NUL after it. */
static void copy_files(const char *top, const char *path, const char *list)
{
	autofd int from = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autofd int to = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (; *list; list += strlen(list) + 1) {
		int r;

		/* A repository of its own, or one of the worktrees. */
		if (list[strlen(list) - 1] == '/')
			continue;
		r = from < 0 || to < 0 ? -ENOENT : copy_file(from, to, list);
		if (r < 0 && r != -EEXIST)
			warn("cannot copy '%s' into the worktree: %s", list,
			     strerror(-r));
	}
}

static void copy_included(const char *top, const char *path)
{
	autofree char *include = path_join(top, INCLUDE_FILE);
	autofree char *option = NULL, *list = NULL, *message = NULL;

	if (!include || access(include, R_OK) < 0 ||
	    asprintf(&option, "--exclude-from=%s", include) < 0) {
		option = NULL;
		return;
	}
	if (RUN_GIT(top, &list, &message, "ls-files", "--others", "--ignored",
		    "-z", option) < 0) {
		warn("cannot read '%s': %s", include, message ? message : "");
		return;
	}
	copy_files(top, path, list);
}

static int create_in(const struct session_spec *spec,
		     const struct gitrepo *repo, const char *name,
		     const char *base, char **ret_path, char **message)
{
	const char *top = repo->main ? repo->main : repo->git_dir;
	autofree char *dir = NULL, *path = NULL;
	int r = find_directory(spec, repo, &dir, message);

	if (r == 0)
		r = find_place(dir, name, &path, message);
	if (r < 0)
		return r;
	if (!find_worktree(repo, path)) {
		r = add_worktree(top, path, name, base, message);
		if (r == 0 && repo->main)
			copy_included(top, path);
		r = r < 0 ? r : 1;
	}
	if (r >= 0)
		*ret_path = steal_pointer(&path);
	return r;
}

int hook_worktree_create(const struct session_spec *spec, const char *start,
			 const char *name, const char *base, char **ret_path,
			 char **message)
{
	struct gitrepo repo = {0};
	ssize_t index;
	int r;

	if (!is_worktree_name(name) || !name[0])
		return explain(-EINVAL, message,
			       "'%s' can't be a worktree's name", name);
	if (base && base[0] == '-')
		return explain(-EINVAL, message, "'%s' can't be a commit",
			       base);
	r = gitrepo_discover(start, &repo, &index, message);
	if (r < 0)
		return r;
	r = create_in(spec, &repo, name, base, ret_path, message);
	gitrepo_release(&repo);
	return r;
}

void hook_worktree_undo(const char *path)
{
	autofree char *branch = NULL, *git_dir = NULL;

	if (RUN_GIT(path, &branch, NULL, "symbolic-ref", "--short", "HEAD") <
		    0 ||
	    RUN_GIT(path, &git_dir, NULL, "rev-parse", "--git-common-dir") < 0)
		return;
	branch[strcspn(branch, "\n")] = '\0';
	git_dir[strcspn(git_dir, "\n")] = '\0';
	if (RUN_GIT(git_dir, NULL, NULL, "worktree", "remove", path) == 0)
		RUN_GIT(git_dir, NULL, NULL, "branch", "--quiet", "-d", branch);
}

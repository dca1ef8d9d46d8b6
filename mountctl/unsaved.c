#include "mountctl/unsaved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitpointer.h"
#include "fs/lib/path.h"
#include "fs/lib/spec.h"
#include "mountctl/mainstate.h"
#include "mountctl/output.h"

/* As many commits as are worth listing. */
#define COMMITS_MAX "1000"

/* What of a submodule stands in the index, git-ls-files(1). */
#define GITLINK "160000 "

/* Where things are looked for, and what they are reported as. */
struct search {
	struct git_place place;
	const struct worktree_place *worktree;
	const char *submodule; /* NULL: the worktree itself */
	struct unsaved *unsaved;
	struct strings *seen; /* git directories of submodules */
	char **message;
};

void unsaved_release(struct unsaved *unsaved)
{
	for (size_t i = 0; i < unsaved->n; i++) {
		free(unsaved->item[i].submodule);
		free(unsaved->item[i].what);
	}
	free(unsaved->item);
	*unsaved = (struct unsaved){0};
}

bool unsaved_is_lost(const struct unsaved *unsaved)
{
	for (size_t i = 0; i < unsaved->n; i++)
		if (unsaved->item[i].lost)
			return true;
	return false;
}

const char *unsaved_kind_name(enum unsaved_kind kind)
{
	switch (kind) {
	case UNSAVED_CHANGED:
		return "changed";
	case UNSAVED_UNTRACKED:
		return "untracked";
	case UNSAVED_OPERATION:
		return "operation";
	case UNSAVED_STASH:
		return "stash";
	case UNSAVED_COMMIT:
		return "commit";
	}
	return "?";
}

static int add(const struct search *search, enum unsaved_kind kind,
	       const char *what, bool lost)
{
	struct unsaved *unsaved = search->unsaved;
	const char *submodule = search->submodule;
	struct unsaved_item item = {
		.kind = kind,
		.submodule = submodule ? strdup(submodule) : NULL,
		.what = strdup(what),
		.lost = lost,
	};
	struct unsaved_item *grown =
		reallocarray(unsaved->item, unsaved->n + 1, sizeof(*grown));

	if (grown)
		unsaved->item = grown;
	if (!grown || !item.what || (submodule && !item.submodule)) {
		free(item.submodule);
		free(item.what);
		return -ENOMEM;
	}
	grown[unsaved->n++] = item;
	return 0;
}

static int add_lines(const struct search *search, enum unsaved_kind kind,
		     char *lines, bool lost)
{
	int r = 0;

	for (char *rest, *line = strtok_r(lines, "\n", &rest); r == 0 && line;
	     line = strtok_r(NULL, "\n", &rest))
		r = add(search, kind, line, lost);
	return r;
}

/*
 * Files, and what is under way.
 */

static int look_for_files(const struct search *search)
{
	struct main_state state = {0};
	int r = main_state_take_files(&search->place, true, &state,
				      search->message);

	for (size_t i = 0; r == 0 && i < state.n_files; i++)
		r = add(search,
			state.files[i].state[0] == '?' ? UNSAVED_UNTRACKED
						       : UNSAVED_CHANGED,
			state.files[i].path, true);
	main_state_release(&state);
	return r;
}

static int look_for_operations(const struct search *search)
{
	static const struct {
		const char *file;
		const char *name;
	} operations[] = {
		{"MERGE_HEAD", "merge"},
		{"rebase-merge", "rebase"},
		{"rebase-apply", "rebase or am"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"BISECT_LOG", "bisect"},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(operations); i++) {
		autofree char *path =
			path_join(search->place.git_dir, operations[i].file);

		if (!path)
			return -ENOMEM;
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			r = add(search, UNSAVED_OPERATION, operations[i].name,
				true);
	}
	return r;
}

/*
 * The stash, which all worktrees of a repository share.
 */

/* "WIP on B: ..." or "On B: ...", of git's builtin/stash.c. */
static bool is_made_on(const char *entry, const char *branch)
{
	static const char *const beginnings[] = {"WIP on ", "On "};

	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
		size_t length = strlen(beginnings[i]);
		const char *name = entry + length;

		if (strncmp(entry, beginnings[i], length) == 0 &&
		    strncmp(name, branch, strlen(branch)) == 0 &&
		    name[strlen(branch)] == ':')
			return true;
	}
	return false;
}

static int look_for_stash(const struct search *search)
{
	autogitoutput struct git_output output = {0};
	const char *branch = search->worktree->branch;
	const char *entry;
	int r = GIT_ASK(&search->place, &output, search->message, "stash",
			"list", "-z", "--format=%gs");

	if (r < 0)
		return r;
	for (entry = output.out; r == 0 && entry < output.out + output.size;
	     entry += strlen(entry) + 1)
		/* That of a submodule goes with it. */
		if (search->submodule || (branch && is_made_on(entry, branch)))
			r = add(search, UNSAVED_STASH, entry,
				search->submodule != NULL);
	return r;
}

/*
 * Commits.
 */

#define LIST_COMMITS                                                        \
	"rev-list", "--max-count=" COMMITS_MAX, "--pretty=oneline", "HEAD", \
		"--glob=refs/worktree/*", "--glob=refs/bisect/*"

/* On a branch that has no commit yet. */
static int is_unborn(const struct search *search, bool *ret_unborn)
{
	autogitoutput struct git_output output = {0};
	const char *branch = search->worktree->branch;
	autofree char *ref = NULL;
	int r;

	*ret_unborn = false;
	if (!branch)
		return 0;
	if (asprintf(&ref, "refs/heads/%s", branch) < 0) {
		ref = NULL;
		return -ENOMEM;
	}
	r = GIT_ASK(&search->place, &output, search->message, "for-each-ref",
		    "--format=x", ref);
	if (r == 0)
		*ret_unborn = output.size == 0;
	return r;
}

static int has_remotes(const struct search *search, bool *ret_has)
{
	autogitoutput struct git_output output = {0};
	int r = GIT_ASK(&search->place, &output, search->message,
			"for-each-ref", "--count=1", "--format=x",
			"refs/remotes/");

	if (r == 0)
		*ret_has = output.size > 0;
	return r;
}

/* Those that nothing but the worktree holds. */
static int look_for_lost(const struct search *search, size_t *ret_n)
{
	autogitoutput struct git_output output = {0};
	size_t before = search->unsaved->n;
	int r = GIT_ASK(&search->place, &output, search->message, LIST_COMMITS,
			"--not", "--branches", "--tags", "--remotes");

	if (r == 0)
		r = add_lines(search, UNSAVED_COMMIT, output.out, true);
	*ret_n = search->unsaved->n - before;
	return r;
}

static int list_unpushed(const struct search *search,
			 struct git_output *ret_output)
{
	const char *branch = search->worktree->branch;
	autofree char *own = NULL;
	bool remotes = false;
	int r = has_remotes(search, &remotes);

	if (r < 0)
		return r;
	if (remotes)
		return GIT_ASK(&search->place, ret_output, search->message,
			       LIST_COMMITS, "--not", "--remotes",
			       search->worktree->has_main ? "main-worktree/HEAD"
							  : NULL);
	/* No branch has an empty name. */
	if (asprintf(&own, "--exclude=%s", branch ? branch : "") < 0) {
		own = NULL;
		return -ENOMEM;
	}
	return GIT_ASK(&search->place, ret_output, search->message,
		       LIST_COMMITS, "--not", own, "--branches");
}

static bool is_listed(const struct unsaved *unsaved, size_t first,
		      const char *line)
{
	for (size_t i = first; i < unsaved->n; i++)
		if (strcmp(unsaved->item[i].what, line) == 0)
			return true;
	return false;
}

/* Of those, the ones that aren't lost are told apart. */
static int look_for_commits(const struct search *search)
{
	autogitoutput struct git_output output = {0};
	size_t n_lost = 0, first;
	bool unborn = false;
	int r = is_unborn(search, &unborn);

	if (r < 0 || unborn)
		return r;
	r = look_for_lost(search, &n_lost);
	if (r == 0)
		r = list_unpushed(search, &output);
	if (r < 0)
		return r;
	first = search->unsaved->n - n_lost;
	for (char *rest, *line = strtok_r(output.out, "\n", &rest);
	     r == 0 && line; line = strtok_r(NULL, "\n", &rest))
		if (n_lost == 0 || !is_listed(search->unsaved, first, line))
			r = add(search, UNSAVED_COMMIT, line, false);
	return r;
}

/*
 * Submodules.
 */

static int look_for_submodules(const struct search *search);

static int look_for_module_commits(const struct search *search)
{
	autogitoutput struct git_output output = {0};
	/* HEAD is among all, unless it is unborn. */
	int r = GIT_ASK(&search->place, &output, search->message, "rev-list",
			"--max-count=" COMMITS_MAX, "--pretty=oneline",
			"--exclude=refs/stash", "--all", "--not", "--remotes");

	return r < 0 ? r : add_lines(search, UNSAVED_COMMIT, output.out, true);
}

static int look_into_module(const struct search *search)
{
	int r = strings_add(search->seen, search->place.git_dir);

	if (r == 0)
		r = look_for_operations(search);
	if (r == 0)
		r = look_for_stash(search);
	return r < 0 ? r : look_for_module_commits(search);
}

/* Where W/PATH/.git leads, however it does: that is what would be removed. */
static int find_module(const char *top, char **ret_git_dir, char **message)
{
	autogitoutput struct git_output output = {0};
	const char *const args[] = {"-C", top, "rev-parse",
				    "--absolute-git-dir", NULL};
	int r = git_run(args, &output);

	if (r == 0 && output.status != 0)
		r = -EIO;
	if (r < 0)
		return explain(r, message,
			       "cannot look into the submodule '%s': %s", top,
			       output.err ? output.err : strerror(-r));
	output.out[strcspn(output.out, "\n")] = '\0';
	*ret_git_dir = steal_pointer(&output.out);
	return 0;
}

static int look_at_module(const struct search *search, const char *relative)
{
	const struct worktree_place *worktree = search->worktree;
	autofree char *top = path_join(search->place.work_tree, relative);
	autofree char *dot_git = top ? path_join(top, ".git") : NULL;
	autofree char *git_dir = NULL;
	struct search inner = *search;
	const char *name;
	int r;

	if (!dot_git)
		return -ENOMEM;
	if (faccessat(AT_FDCWD, dot_git, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = find_module(top, &git_dir, search->message);
	if (r < 0)
		return r;
	if (!path_starts_with(git_dir, worktree->admin_dir, NULL) &&
	    !path_starts_with(git_dir, worktree->worktree, NULL))
		return 0;
	inner.place = (struct git_place){git_dir, top};
	if (!path_starts_with(top, worktree->worktree, &name))
		return -EINVAL;
	inner.submodule = name;
	r = look_into_module(&inner);
	return r < 0 ? r : look_for_submodules(&inner);
}

/* Is there anything that says so, where the index is too long to be read? */
static bool may_have_submodules(const struct search *search)
{
	autofree char *modules = path_join(search->place.git_dir, "modules");
	autofree char *list = path_join(search->place.work_tree, ".gitmodules");

	return !modules || !list || access(modules, F_OK) == 0 ||
	       access(list, F_OK) == 0;
}

/* "160000 41cd... 0\tPATH", each with a NUL behind it. */
static int look_for_submodules(const struct search *search)
{
	autogitoutput struct git_output output = {0};
	const char *line;
	int r = GIT_ASK(&search->place, &output, search->message, "ls-files",
			"--stage", "-z");

	if (r == -EFBIG && !may_have_submodules(search))
		return 0;
	if (r < 0)
		return r;
	for (line = output.out; r == 0 && line < output.out + output.size;
	     line += strlen(line) + 1) {
		const char *path = strchr(line, '\t');

		if (path && strncmp(line, GITLINK, strlen(GITLINK)) == 0)
			r = look_at_module(search, path + 1);
	}
	return r;
}

/*
 * Submodules that nothing in the index leads to, or that aren't there: their
 * git directories are left in modules/NAME, nested ones in
 * modules/NAME/modules/NAME. A name may have slashes in it.
 */

static int look_into_each(const struct search *search, const char *path,
			  const char *name);

static int look_into_left(const struct search *search, const char *path,
			  const char *name)
{
	autofree char *modules = path_join(path, "modules");
	struct search inner = *search;
	int r = 0;

	if (!git_is_git_dir(path))
		return look_into_each(search, path, name);
	/* What its configuration calls the work tree may be gone. */
	inner.place = (struct git_place){path, path};
	inner.submodule = name;
	if (!strings_contain(search->seen, path))
		r = look_into_module(&inner);
	if (r == 0 && !modules)
		r = -ENOMEM;
	return r < 0 ? r : look_into_each(search, modules, name);
}

/* Each directory in path; name: how what is found there begins, or NULL. */
static int look_into_each(const struct search *search, const char *path,
			  const char *name)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		cleanup_fdp(&fd);
		return r == -ENOENT || r == -ENOTDIR || r == -ELOOP
			       ? 0
			       : explain(r, search->message,
					 "cannot look into '%s': %s", path,
					 strerror(-r));
	}
	while (r == 0 && (entry = readdir(dir))) {
		autofree char *below = NULL, *its_name = NULL;

		if (!name_is_valid(entry->d_name))
			continue;
		below = path_join(path, entry->d_name);
		its_name = name ? path_join(name, entry->d_name)
				: strdup(entry->d_name);
		if (!below || !its_name)
			return -ENOMEM;
		r = look_into_left(search, below, its_name);
	}
	return r;
}

static int look_for_left_modules(const struct search *search)
{
	autofree char *modules = path_join(search->place.git_dir, "modules");

	return modules ? look_into_each(search, modules, NULL) : -ENOMEM;
}

int unsaved_look(const struct worktree_place *place,
		 struct unsaved *ret_unsaved, char **message)
{
	struct unsaved unsaved = {0};
	struct strings seen = {0};
	struct search search = {
		.place = {place->admin_dir,
			  place->exists ? place->worktree : NULL},
		.worktree = place,
		.unsaved = &unsaved,
		.seen = &seen,
		.message = message,
	};
	int r = place->exists ? look_for_files(&search) : 0;

	if (r == 0)
		r = look_for_operations(&search);
	if (r == 0)
		r = look_for_stash(&search);
	if (r == 0)
		r = look_for_commits(&search);
	if (r == 0 && place->exists)
		r = look_for_submodules(&search);
	if (r == 0)
		r = look_for_left_modules(&search);
	strings_release(&seen);
	if (r < 0) {
		unsaved_release(&unsaved);
		return r;
	}
	*ret_unsaved = unsaved;
	return 0;
}

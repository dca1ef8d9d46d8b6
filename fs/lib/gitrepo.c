#include "fs/lib/gitrepo.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/githead.h"
#include "fs/lib/gitpointer.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"

static void worktree_release(struct worktree *worktree)
{
	free(worktree->path);
	free(worktree->id);
	free(worktree->branch);
	memset(worktree, 0, sizeof(*worktree));
}

void gitrepo_release(struct gitrepo *repo)
{
	for (size_t i = 0; i < repo->n_worktrees; i++)
		worktree_release(&repo->worktrees[i]);
	free(repo->worktrees);
	free(repo->main);
	free(repo->git_dir);
	free(repo->ref_format);
	free(repo->object_format);
	memset(repo, 0, sizeof(*repo));
}

/* ---- configuration ---------------------------------------------------- */

/*
 * Asks git about a config file: query is what follows the file's name. A file
 * that doesn't exist, and a key that isn't in it, give no output.
 */
static int ask_config(const char *file, const char *query, const char *key,
		      struct git_output *ret_output, char **ret_message)
{
	const char *const args[] = {
		"config", "--file", file, "--no-includes",
		"--null", query,    key,  NULL,
	};
	autogitoutput struct git_output output = {0};
	struct stat st;
	int r;

	if (stat(file, &st) < 0) {
		r = -errno;
		if (r == -ENOENT)
			return 0;
		return git_refuse(r, ret_message, "cannot look at '%s': %s",
				  file, strerror(-r));
	}
	/* git would wait for the writer of a FIFO. */
	if (!S_ISREG(st.st_mode))
		return git_refuse(-EINVAL, ret_message,
				  "'%s' isn't a regular file", file);
	r = git_run(args, &output);
	if (r == -ENOENT)
		return git_refuse(r, ret_message,
				  "cannot run git: there is none on PATH; "
				  "install it");
	if (r < 0)
		return git_refuse(r, ret_message, "cannot run git: %s",
				  strerror(-r));
	if (output.status != 0 && (output.status != 1 || output.err[0]))
		return git_refuse(
			-EINVAL, ret_message, "git cannot read '%s': %s", file,
			output.err[0] ? output.err : "no reason given");
	*ret_output = output;
	output = (struct git_output){0};
	return 0;
}

/* The values that decide where the main checkout is; NULL where not set. */
struct layout {
	char *version;
	char *bare;
	char *worktree;
	char *per_worktree;
	char *ref_format;
	char *object_format;
	char *unknown; /* an extension */
};

static void layout_release(struct layout *layout)
{
	free(layout->version);
	free(layout->bare);
	free(layout->worktree);
	free(layout->per_worktree);
	free(layout->ref_format);
	free(layout->object_format);
	free(layout->unknown);
}

static const struct {
	const char *key;  /* in small letters, as git prints it */
	size_t offset;	  /* of the value in struct layout */
	bool in_worktree; /* counts in config.worktree, too */
} layout_keys[] = {
	{"core.repositoryformatversion", offsetof(struct layout, version),
	 false},
	{"core.bare", offsetof(struct layout, bare), true},
	{"core.worktree", offsetof(struct layout, worktree), true},
	{"extensions.worktreeconfig", offsetof(struct layout, per_worktree),
	 false},
	{"extensions.refstorage", offsetof(struct layout, ref_format), false},
	{"extensions.objectformat", offsetof(struct layout, object_format),
	 false},
};

/*
 * gitrepository-layout(5), "extensions": none of the others changes where a
 * checkout, its refs and its index are.
 */
static const char *const extensions[] = {
	"compatobjectformat",
	"noop",
	"noop-v1",
	"objectformat",
	"partialclone",
	"preciousobjects",
	"refstorage",
	"relativeworktrees",
	"submodulepathconfig",
	"worktreeconfig",
};

/* Keeps the name of an extension that isn't known. key has a length. */
static int layout_note_extension(struct layout *layout, const char *key,
				 size_t length)
{
	static const char section[] = "extensions.";
	const size_t skip = strlen(section);

	if (layout->unknown || length < skip ||
	    strncmp(key, section, skip) != 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
		if (strlen(extensions[i]) == length - skip &&
		    strncmp(extensions[i], key + skip, length - skip) == 0)
			return 0;
	layout->unknown = strndup(key + skip, length - skip);
	return layout->unknown ? 0 : -ENOMEM;
}

/* "KEY\nVALUE", or "KEY" alone, which means that it is true. */
static int layout_set(struct layout *layout, const char *entry,
		      bool in_worktree)
{
	size_t len = strcspn(entry, "\n");
	const char *value = entry[len] ? entry + len + 1 : "true";

	for (size_t i = 0; i < ARRAY_SIZE(layout_keys); i++) {
		const char *key = layout_keys[i].key;
		char **field =
			(char **)((char *)layout + layout_keys[i].offset);
		char *copy;

		if (strlen(key) != len || strncmp(entry, key, len) != 0 ||
		    (in_worktree && !layout_keys[i].in_worktree))
			continue;
		copy = strdup(value);
		if (!copy)
			return -ENOMEM;
		free(*field);
		*field = copy;
	}
	return in_worktree ? 0 : layout_note_extension(layout, entry, len);
}

static int layout_read(struct layout *layout, const char *git_dir,
		       const char *name, bool in_worktree, char **ret_message)
{
	autofree char *file = path_join(git_dir, name);
	autogitoutput struct git_output output = {0};
	int r;

	if (!file)
		return -ENOMEM;
	r = ask_config(file, "--list", NULL, &output, ret_message);
	if (r < 0)
		return r;
	for (size_t at = 0; at < output.size;
	     at += strlen(output.out + at) + 1) {
		r = layout_set(layout, output.out + at, in_worktree);
		if (r < 0)
			return r;
	}
	return 0;
}

/* As git reads one: words in any case, or a number. 1, 0 or -EINVAL. */
static int parse_bool(const char *text)
{
	static const struct {
		const char *word;
		int value;
	} words[] = {
		{"true", 1}, {"yes", 1}, {"on", 1}, {"false", 0},
		{"no", 0},   {"off", 0}, {"", 0},
	};
	char *end;
	long number;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcasecmp(text, words[i].word))
			return words[i].value;
	}
	number = strtol(text, &end, 0);
	return end == text || *end ? -EINVAL : number != 0;
}

/* The format of a repository, as far as others depend on it. */
static int check_format(struct layout *layout, const char *git_dir,
			char **ret_message)
{
	const char *version = layout->version ? layout->version : "0";
	const char *refs, *objects;

	if (!layout->ref_format)
		layout->ref_format = strdup("files");
	if (!layout->object_format)
		layout->object_format = strdup("sha1");
	refs = layout->ref_format;
	objects = layout->object_format;
	if (!refs || !objects)
		return -ENOMEM;

	if (strcmp(version, "0") != 0 && strcmp(version, "1") != 0)
		return git_refuse(
			-EINVAL, ret_message,
			"'%s/config' says repository format %s, which "
			"isn't known",
			git_dir, version);
	/* With format 0, git ignores those that it doesn't know. */
	if (strcmp(version, "1") == 0 && layout->unknown)
		return git_refuse(-EINVAL, ret_message,
				  "'%s/config' says extension '%s', which "
				  "isn't known: what it changes can't be "
				  "guarded",
				  git_dir, layout->unknown);
	if (strcmp(refs, "files") != 0 && strcmp(refs, "reftable") != 0)
		return git_refuse(
			-EINVAL, ret_message,
			"'%s/config' says ref storage '%s', which isn't "
			"known",
			git_dir, refs);
	if (strcmp(objects, "sha1") != 0 && strcmp(objects, "sha256") != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s/config' says object format '%s', which "
				  "isn't known",
				  git_dir, objects);
	return 0;
}

static int layout_load(const char *git_dir, struct layout *layout,
		       char **ret_message)
{
	int r;

	r = layout_read(layout, git_dir, "config", false, ret_message);
	if (r < 0)
		return r;
	if (layout->per_worktree && parse_bool(layout->per_worktree) > 0) {
		r = layout_read(layout, git_dir, "config.worktree", true,
				ret_message);
		if (r < 0)
			return r;
	}
	return check_format(layout, git_dir, ret_message);
}

/* ---- the main checkout ------------------------------------------------ */

/* core.worktree leads to the main checkout, and its .git must lead to G. */
static int main_from_config(const char *git_dir, const char *worktree,
			    char **ret_main, char **ret_message)
{
	autofree char *joined = worktree[0] == '/'
					? strdup(worktree)
					: path_join(git_dir, worktree);
	autofree char *real = NULL;
	autofree char *back = NULL;
	int r;

	if (!joined)
		return -ENOMEM;
	r = dir_real_path(joined, &real);
	if (r < 0)
		return git_refuse(
			git_pointer_error(r), ret_message,
			"core.worktree in '%s/config' leads to '%s': %s",
			git_dir, joined, strerror(-r));
	r = git_follow_dot_git(real, &back, ret_message);
	if (r < 0)
		return r;
	if (r == 0 || strcmp(back, git_dir) != 0)
		return git_refuse(
			-EINVAL, ret_message,
			"core.worktree in '%s/config' names '%s', but "
			"'%s/.git' doesn't lead back",
			git_dir, real, real);
	*ret_main = steal_pointer(&real);
	return 0;
}

/*
 * Finds M. top is the directory whose .git led to G, or NULL where it was
 * found another way. G says itself where M is, by its place or by
 * core.worktree; a .git that borrows another checkout's G is refused. Only
 * --separate-git-dir leaves nothing in G, and then top is all there is. Where
 * git would guess that a repository is bare, there would be no M to guard.
 */
static int find_main(const char *git_dir, const struct layout *layout,
		     const char *top, char **ret_main, char **ret_message)
{
	bool named = !strcmp(path_basename(git_dir), ".git");
	int bare = layout->bare ? parse_bool(layout->bare) : 0;
	autofree char *main = NULL;
	int r = 0;

	if (bare < 0)
		return git_refuse(
			-EINVAL, ret_message,
			"core.bare in '%s/config' is '%s', neither true "
			"nor false",
			git_dir, layout->bare);
	if (bare) {
		*ret_main = NULL;
		return 0;
	}

	if (layout->worktree)
		r = main_from_config(git_dir, layout->worktree, &main,
				     ret_message);
	else if (named)
		main = path_dirname(git_dir);
	else if (top)
		main = strdup(top);
	else
		return git_refuse(
			-EINVAL, ret_message,
			"'%s' doesn't say where its main checkout is; "
			"start in that (--main), or set core.worktree in "
			"'%s/config' to it, or core.bare if there is none",
			git_dir, git_dir);
	if (r < 0)
		return r;
	if (!main)
		return -ENOMEM;
	if (top && strcmp(top, main) != 0)
		return git_refuse(
			-EINVAL, ret_message,
			"'%s/.git' leads to '%s', which belongs to the "
			"checkout '%s'",
			top, git_dir, main);
	*ret_main = steal_pointer(&main);
	return 0;
}

/* ---- linked worktrees ------------------------------------------------- */

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the directories in G/worktrees, sorted. */
static int list_ids(const char *git_dir, struct strings *ids)
{
	autofree char *path = path_join(git_dir, "worktrees");
	autodir DIR *dir = NULL;
	struct dirent *entry;

	if (!path)
		return -ENOMEM;
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((errno = 0, entry = readdir(dir))) {
		struct stat st;
		int r;

		if (!name_is_valid(entry->d_name) ||
		    fstatat(dirfd(dir), entry->d_name, &st,
			    AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		r = strings_add(ids, entry->d_name);
		if (r < 0)
			return r;
	}
	if (errno)
		return -errno;
	if (ids->n)
		qsort(ids->s, ids->n, sizeof(*ids->s), compare_strings);
	return 0;
}

/* The branch of a checkout, *ret_branch NULL where HEAD is detached. */
static int read_branch(const struct checkout *checkout, char **ret_branch)
{
	__attribute__((cleanup(strings_release))) struct strings refs = {0};
	char *branch = NULL;
	int r;

	r = git_head_refs(checkout, &refs);
	if (r < 0)
		return r;
	if (refs.n) {
		branch = strdup(refs.s[refs.n - 1]);
		if (!branch)
			return -ENOMEM;
	}
	*ret_branch = branch;
	return 0;
}

/* Where the worktree of A is, and whether it's there and points back. */
static int locate_worktree(const char *admin, struct worktree *worktree)
{
	autofree char *spelled = NULL;
	autofree char *real = NULL;
	autofree char *back = NULL;
	int r;

	r = git_read_back_pointer(admin, &spelled, NULL);
	if (r < 0)
		return r;
	if (dir_real_path(spelled, &real) < 0) {
		worktree->path = path_normalise("/", spelled);
		return worktree->path ? 0 : -ENOMEM;
	}
	worktree->exists = git_follow_dot_git(real, &back, NULL) == 1 &&
			   !strcmp(back, admin);
	worktree->path = steal_pointer(&real);
	return 0;
}

/*
 * Describes the worktree of G/worktrees/ID. 1, or 0 where git wouldn't take
 * that directory for a worktree's, or -errno.
 */
static int load_worktree(const struct gitrepo *repo, const char *id,
			 struct worktree *ret_worktree, char **ret_message)
{
	__attribute__((cleanup(worktree_release))) struct worktree worktree = {
		.id = strdup(id),
	};
	autofree char *admin = NULL;
	struct checkout checkout;
	int r;

	if (!worktree.id)
		return -ENOMEM;
	if (asprintf(&admin, "%s/worktrees/%s", repo->git_dir, id) < 0) {
		admin = NULL;
		return -ENOMEM;
	}
	r = locate_worktree(admin, &worktree);
	if (r < 0)
		return r == -ENOMEM ? r : 0;

	checkout = (struct checkout){
		.git_dir = repo->git_dir,
		.ref_format = repo->ref_format,
		.head_dir = admin,
	};
	r = read_branch(&checkout, &worktree.branch);
	if (r < 0)
		return git_refuse(r, ret_message,
				  "cannot tell the branch of '%s' (ref storage "
				  "'%s'): %s",
				  admin, repo->ref_format, strerror(-r));
	worktree.locked = git_has_entry(admin, "locked");
	*ret_worktree = worktree;
	memset(&worktree, 0, sizeof(worktree));
	return 1;
}

static int compare_worktrees(const void *a, const void *b)
{
	const struct worktree *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int load_worktrees(struct gitrepo *repo, char **ret_message)
{
	__attribute__((cleanup(strings_release))) struct strings ids = {0};
	int r;

	r = list_ids(repo->git_dir, &ids);
	if (r < 0)
		return git_refuse(r, ret_message,
				  "cannot list '%s/worktrees': %s",
				  repo->git_dir, strerror(-r));
	repo->worktrees = calloc(ids.n + 1, sizeof(*repo->worktrees));
	if (!repo->worktrees)
		return -ENOMEM;
	for (size_t i = 0; i < ids.n; i++) {
		r = load_worktree(repo, ids.s[i],
				  &repo->worktrees[repo->n_worktrees],
				  ret_message);
		if (r < 0)
			return r;
		repo->n_worktrees += (size_t)r;
	}
	if (repo->n_worktrees > 0)
		qsort(repo->worktrees, repo->n_worktrees,
		      sizeof(*repo->worktrees), compare_worktrees);
	return 0;
}

/* ---- discovery -------------------------------------------------------- */

/* What the walk upwards found. */
struct found {
	char *top;     /* the directory whose .git it was, or NULL */
	char *git_dir; /* what it led to: G, or A where id is set */
	char *admin;
	char *id;
};

static void found_release(struct found *found)
{
	free(found->top);
	free(found->git_dir);
	free(found->admin);
	free(found->id);
}

/* Looks at one directory. 1 when a repository was found, 0, or -errno. */
static int look_in(const char *dir, struct found *found, char **ret_message)
{
	int r = git_follow_dot_git(dir, &found->git_dir, ret_message);

	if (r < 0)
		return r;
	if (r == 1) {
		found->top = strdup(dir);
		return found->top ? 1 : -ENOMEM;
	}
	if (!git_is_git_dir(dir))
		return 0;
	found->git_dir = strdup(dir);
	return found->git_dir ? 1 : -ENOMEM;
}

/* Where what was found is an admin directory, goes on to G. */
static int resolve_found(struct found *found, char **ret_message)
{
	int r;

	if (!git_has_entry(found->git_dir, "commondir"))
		return 0;
	found->admin = steal_pointer(&found->git_dir);
	r = git_resolve_admin_dir(found->admin, &found->git_dir, &found->id,
				  ret_message);
	if (r < 0 || !found->top)
		return r;
	return git_check_back_pointer(found->top, found->admin, ret_message);
}

static int walk_up(const char *path, struct found *found, char **ret_message)
{
	autofree char *dir = NULL;
	int r;

	r = dir_real_path(path, &dir);
	if (r < 0)
		return git_refuse(r, ret_message, "cannot look into '%s': %s",
				  path, strerror(-r));
	for (;;) {
		char *parent;

		r = look_in(dir, found, ret_message);
		if (r < 0)
			return r;
		if (r == 1)
			return resolve_found(found, ret_message);
		if (!dir[1])
			break;
		parent = path_dirname(dir);
		if (!parent)
			return -ENOMEM;
		free(dir);
		dir = parent;
	}
	return git_refuse(-ENOENT, ret_message,
			  "no git repository at '%s' or above it", path);
}

/* The index of the worktree with this id, or -1. */
static ssize_t index_of(const struct gitrepo *repo, const char *id)
{
	for (size_t i = 0; i < repo->n_worktrees; i++) {
		if (!strcmp(repo->worktrees[i].id, id))
			return (ssize_t)i;
	}
	return -1;
}

int gitrepo_discover(const char *path, struct gitrepo *ret_repo,
		     ssize_t *ret_index, char **ret_message)
{
	__attribute__((cleanup(found_release))) struct found found = {0};
	__attribute__((cleanup(layout_release))) struct layout layout = {0};
	autogitrepo struct gitrepo repo = {0};
	int r;

	r = walk_up(path, &found, ret_message);
	if (r < 0)
		return r;
	r = layout_load(found.git_dir, &layout, ret_message);
	if (r < 0)
		return r;
	r = find_main(found.git_dir, &layout, found.id ? NULL : found.top,
		      &repo.main, ret_message);
	if (r < 0)
		return r;
	repo.git_dir = steal_pointer(&found.git_dir);
	repo.ref_format = steal_pointer(&layout.ref_format);
	repo.object_format = steal_pointer(&layout.object_format);
	r = load_worktrees(&repo, ret_message);
	if (r < 0)
		return r;

	*ret_index = found.id && found.top ? index_of(&repo, found.id) : -1;
	*ret_repo = repo;
	memset(&repo, 0, sizeof(repo));
	return 0;
}

int gitrepo_find_worktree(const struct gitrepo *repo, const char *path,
			  ssize_t *ret_index, char **ret_message)
{
	__attribute__((cleanup(found_release))) struct found found = {0};
	autofree char *dir = NULL;
	ssize_t index;
	int r;

	r = dir_real_path(path, &dir);
	if (r < 0)
		return git_refuse(r, ret_message, "cannot look into '%s': %s",
				  path, strerror(-r));
	r = look_in(dir, &found, ret_message);
	if (r == 1)
		r = resolve_found(&found, ret_message);
	if (r < 0)
		return r;
	if (!found.id || !found.top)
		return git_refuse(
			-EINVAL, ret_message,
			"'%s' isn't the top of a worktree made by 'git "
			"worktree add'",
			dir);
	if (strcmp(found.git_dir, repo->git_dir) != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' is a worktree of '%s', not of '%s'",
				  dir, found.git_dir, repo->git_dir);
	index = index_of(repo, found.id);
	if (index < 0 || strcmp(repo->worktrees[index].path, dir) != 0)
		return git_refuse(-EINVAL, ret_message,
				  "'%s' was made or moved just now; try again",
				  dir);
	*ret_index = index;
	return 0;
}

/* ---- questions -------------------------------------------------------- */

int gitrepo_config(const struct gitrepo *repo, const char *key,
		   struct strings *ret_values, char **ret_message)
{
	__attribute__((cleanup(strings_release))) struct strings values = {0};
	autofree char *file = path_join(repo->git_dir, "config");
	autogitoutput struct git_output output = {0};
	int r;

	if (!file)
		return -ENOMEM;
	r = ask_config(file, "--get-all", key, &output, ret_message);
	if (r < 0)
		return r;
	for (size_t at = 0; at < output.size;
	     at += strlen(output.out + at) + 1) {
		r = strings_add(&values, output.out + at);
		if (r < 0)
			return r;
	}
	*ret_values = values;
	values = (struct strings){0};
	return 0;
}

/* What one checkout stands on; nothing where it's gone by now. */
static int add_stands_on(const char *git_dir, const char *ref_format,
			 const char *head_dir, struct strings *branches)
{
	struct checkout checkout = {
		.git_dir = git_dir,
		.ref_format = ref_format,
		.head_dir = head_dir,
	};
	int r = git_head_refs(&checkout, branches);

	if (r == 0)
		r = git_state_refs(&checkout, branches);
	return r == -ENOENT ? 0 : r;
}

int git_protected_branches(const char *git_dir, bool has_main,
			   const char *ref_format,
			   const struct strings *own_ids,
			   struct strings *ret_branches)
{
	__attribute__((cleanup(strings_release))) struct strings branches = {0};
	__attribute__((cleanup(strings_release))) struct strings ids = {0};
	int r;

	/* A bare repository's HEAD is nobody's checkout. */
	if (has_main) {
		r = add_stands_on(git_dir, ref_format, git_dir, &branches);
		if (r < 0)
			return r;
	}
	/* Read anew: worktrees come and go. */
	r = list_ids(git_dir, &ids);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++) {
		autofree char *admin = NULL;

		if (strings_contain(own_ids, ids.s[i]))
			continue;
		if (asprintf(&admin, "%s/worktrees/%s", git_dir, ids.s[i]) <
		    0) {
			admin = NULL;
			return -ENOMEM;
		}
		r = add_stands_on(git_dir, ref_format, admin, &branches);
		if (r < 0)
			return r;
	}
	*ret_branches = branches;
	branches = (struct strings){0};
	return 0;
}

int gitrepo_protected_branches(const struct gitrepo *repo, ssize_t own,
			       struct strings *ret_branches)
{
	__attribute__((cleanup(strings_release))) struct strings ids = {0};

	if (own >= 0 && strings_add(&ids, repo->worktrees[own].id) < 0)
		return -ENOMEM;
	return git_protected_branches(repo->git_dir, repo->main,
				      repo->ref_format, &ids, ret_branches);
}

/* ---- ownership -------------------------------------------------------- */

/* The caller; or, for root in sudo, who called sudo: as git has it. */
static bool uid_is_ours(uid_t uid)
{
	const char *text = getenv("SUDO_UID");
	unsigned long sudo;
	char *end;

	if (uid == geteuid())
		return true;
	if (geteuid() != 0 || !text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	sudo = strtoul(text, &end, 10);
	return !errno && !*end && (uid_t)sudo == sudo && uid == (uid_t)sudo;
}

/* The first of the repository's places that isn't ours, or NULL. */
static int find_foreign(const struct gitrepo *repo, char **ret_path)
{
	autofree char *dot_git =
		repo->main ? path_join(repo->main, ".git") : NULL;
	const char *const places[] = {repo->main, dot_git, repo->git_dir};

	*ret_path = NULL;
	if (repo->main && !dot_git)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct stat st;

		if (!places[i])
			continue;
		if (lstat(places[i], &st) < 0)
			return -errno;
		if (!uid_is_ours(st.st_uid)) {
			*ret_path = strdup(places[i]);
			return *ret_path ? 0 : -ENOMEM;
		}
	}
	return 0;
}

/* Does one value of safe.directory allow the directory? */
static bool value_allows(const char *value, const char *dir)
{
	autofree char *real = NULL;
	size_t len = strlen(value);

	if (!strcmp(value, "*") || !strcmp(value, dir))
		return true;
	/* git 2.46 and later: "/home/u/" and "*" for all that lies there */
	if (len > 2 && !strcmp(value + len - 2, "/*"))
		return !strncmp(value, dir, len - 1);
	real = realpath(value, NULL);
	return value[0] == '/' && real && !strcmp(real, dir);
}

/* Reads safe.directory from one scope; an empty value takes back the former. */
static int read_allowed(const char *scope, const char *dir, bool *allowed)
{
	const char *const args[] = {
		"config", scope,       "--includes",	 "--type=path",
		"--null", "--get-all", "safe.directory", NULL,
	};
	autogitoutput struct git_output output = {0};
	int r = git_run(args, &output);

	if (r < 0)
		return r;
	/* 1: no such key. Others: no $HOME, or a file git can't read. */
	if (output.status != 0)
		return 0;
	for (size_t at = 0; at < output.size;
	     at += strlen(output.out + at) + 1) {
		const char *value = output.out + at;

		if (!value[0])
			*allowed = false;
		else if (value_allows(value, dir))
			*allowed = true;
	}
	return 0;
}

int gitrepo_check_owner(const struct gitrepo *repo, char **ret_message)
{
	/* git asks for the checkout where there is one. */
	const char *dir = repo->main ? repo->main : repo->git_dir;
	autofree char *foreign = NULL;
	bool allowed = false;
	int r;

	r = find_foreign(repo, &foreign);
	if (r < 0)
		return git_refuse(r, ret_message,
				  "cannot tell who owns '%s': %s", dir,
				  strerror(-r));
	if (!foreign)
		return 0;
	r = read_allowed("--system", dir, &allowed);
	if (r == 0)
		r = read_allowed("--global", dir, &allowed);
	if (r < 0)
		return git_refuse(r, ret_message, "cannot run git: %s",
				  strerror(-r));
	if (allowed)
		return 0;
	return git_refuse(
		-EPERM, ret_message,
		"'%s' belongs to another user; to allow it all the same: "
		"git config --global --add safe.directory '%s'",
		foreign, dir);
}

#include "fs/gitfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/inode.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitpointer.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"

/* Larger ones aren't judged, and so refused. */
#define JUDGED_MAX (64u << 20)
/* Lines of a protected reflog that are older than this many seconds may go. */
#define REFLOG_AGE (30 * 24 * 3600)

static const char *basename_of(const char *path)
{
	return path ? path_basename(path) : NULL;
}

/* What "git config --list -z" says of a config's text. */
static int list_config(const char *text, size_t size,
		       struct git_output *ret_output)
{
	static const char *const args[] = {
		"config", "--file", "-", "--no-includes", "--list", "-z", NULL,
	};
	autogitoutput struct git_output output = {0};
	int r = git_run_on(args, text, size, &output);

	if (r < 0)
		return r;
	if (output.status != 0)
		return -EINVAL;
	*ret_output = output;
	output = (struct git_output){0};
	return 0;
}

static struct text text_of(const struct git_output *output)
{
	return (struct text){output->out, output->size};
}

/* A file of G's as it is; empty where there is none. */
static int read_git_file(const struct gitguard *guard, const char *path,
			 char **ret_text, size_t *ret_size)
{
	int r = read_file_at(guard->git_fd, path, JUDGED_MAX, ret_text,
			     ret_size);

	if (r != -ENOENT && r != -ENOTDIR)
		return r;
	*ret_text = strdup("");
	*ret_size = 0;
	return *ret_text ? 0 : -ENOMEM;
}

static int find_ref_format(const struct text *listing, char **ret_format)
{
	static const char key[] = "extensions.refstorage\n";
	const char *at = listing->data, *end = at + listing->size;

	for (; at < end; at += strlen(at) + 1) {
		if (strncmp(at, key, strlen(key)) == 0) {
			*ret_format = strdup(at + strlen(key));
			return *ret_format ? 0 : -ENOMEM;
		}
	}
	*ret_format = strdup("files");
	return *ret_format ? 0 : -ENOMEM;
}

/* What the config says at the start of the session. */
static int read_config(struct gitguard *guard)
{
	autogitoutput struct git_output output = {0};
	autofree char *text = NULL;
	struct text listing;
	size_t size;
	int r = read_git_file(guard, "config", &text, &size);

	if (r == 0)
		r = list_config(text, size, &output);
	if (r < 0)
		return r;
	listing = text_of(&output);
	r = config_remotes(listing, &guard->old_remotes);
	if (r == 0)
		r = config_submodules(listing, &guard->old_submodules);
	if (r == 0)
		r = find_ref_format(&listing, &guard->ref_format);
	return r;
}

/*
 * Entries of the stash with an earlier time are from before the session. They
 * tell seconds: the one in which it started counts as before if somebody had
 * written the stash's log in it.
 */
static time_t find_first_own_second(const struct gitguard *guard)
{
	time_t second = guard->started.tv_sec;
	struct stat st;

	if (fstatat(guard->git_fd, "logs/refs/stash", &st,
		    AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_mtime >= second)
		return second + 1;
	return second;
}

static bool has_judges(const struct session_spec *spec)
{
	for (size_t i = 0; i < spec->rules.n; i++)
		if (spec->rules.rule[i].judge != JUDGE_NONE)
			return true;
	return false;
}

/* Is the worktree of that admin directory in dir, or was it? */
static bool leads_into(const char *admin, const char *dir)
{
	autofree char *spelled = NULL, *real = NULL;

	if (git_read_back_pointer(admin, &spelled, NULL) < 0)
		return false;
	if (dir_real_path(spelled, &real) < 0)
		real = path_normalise("/", spelled);
	return real && path_starts_with(real, dir, NULL);
}

/* Worktrees that are there already where the session makes its own. */
static void add_worktrees_in(struct gitguard *guard, const char *dir)
{
	autofree char *path = path_join(guard->git_dir, "worktrees");
	autodir DIR *all = path ? opendir(path) : NULL;
	const struct dirent *entry;

	while (all && (entry = readdir(all))) {
		autofree char *admin = NULL;

		if (!name_is_valid(entry->d_name))
			continue;
		admin = path_join(path, entry->d_name);
		if (admin && leads_into(admin, dir))
			gitfiles_add_own(guard, entry->d_name);
	}
}

static int fill(struct gitguard *guard, const struct session_spec *spec,
		const char *relative)
{
	guard->git_dir = strdup(spec->git_dir);
	guard->relative = strdup(relative);
	if (!guard->git_dir || !guard->relative)
		return -ENOMEM;
	if (spec->admin_dir) {
		guard->admin_id = strdup(basename_of(spec->admin_dir));
		if (!guard->admin_id)
			return -ENOMEM;
	}
	guard->has_main = spec->main != NULL;
	guard->git_config = spec->git_config;
	/* Files are born by this clock, which is behind the precise one. */
	clock_gettime(CLOCK_REALTIME_COARSE, &guard->started);
	guard->git_fd = open(spec->git_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (guard->git_fd < 0)
		return -errno;
	guard->first_own_second = find_first_own_second(guard);
	if (spec->worktrees_dir)
		add_worktrees_in(guard, spec->worktrees_dir);
	return read_config(guard);
}

int gitguard_new(const struct session_spec *spec, const char *root,
		 struct gitguard **ret_guard)
{
	struct gitguard *guard;
	const char *relative;
	int r;

	*ret_guard = NULL;
	if (!spec->git_dir || !has_judges(spec) ||
	    !path_starts_with(spec->git_dir, root, &relative))
		return 0;
	guard = calloc(1, sizeof(*guard));
	if (!guard)
		return -ENOMEM;
	guard->git_fd = -1;
	pthread_mutex_init(&guard->lock, NULL);
	r = fill(guard, spec, relative);
	if (r < 0) {
		gitguard_free(guard);
		return r;
	}
	*ret_guard = guard;
	return 0;
}

void gitguard_free(struct gitguard *guard)
{
	if (!guard)
		return;
	for (size_t i = 0; i < guard->n_own; i++)
		free(guard->own[i].id);
	free(guard->own);
	strings_release(&guard->old_remotes);
	strings_release(&guard->old_submodules);
	cleanup_fdp(&guard->git_fd);
	free(guard->git_dir);
	free(guard->relative);
	free(guard->ref_format);
	free(guard->admin_id);
	pthread_mutex_destroy(&guard->lock);
	free(guard);
}

char *gitfiles_path(struct gitguard *guard, struct inode *inode,
		    const char *name)
{
	autofree char *path = inode_path(inode, name);
	const char *rest = path;

	if (!path)
		return NULL;
	if (guard->relative[0] != '\0' &&
	    !path_starts_with(path, guard->relative, &rest))
		return NULL;
	return strdup(rest);
}

/* ---- admin directories ------------------------------------------------ */

static bool stat_admin(const struct gitguard *guard, const char *id,
		       struct stat *ret_st)
{
	autofree char *path = path_join("worktrees", id);

	return path &&
	       fstatat(guard->git_fd, path, ret_st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_made(struct gitguard *guard, const char *id)
{
	bool made = false;
	struct stat st;

	if (!stat_admin(guard, id, &st))
		return false;
	pthread_mutex_lock(&guard->lock);
	for (size_t i = 0; i < guard->n_own && !made; i++)
		made = strcmp(guard->own[i].id, id) == 0 &&
		       guard->own[i].dev == st.st_dev &&
		       guard->own[i].ino == st.st_ino;
	pthread_mutex_unlock(&guard->lock);
	return made;
}

bool gitfiles_is_own(struct gitguard *guard, const char *id)
{
	return (guard->admin_id && strcmp(guard->admin_id, id) == 0) ||
	       is_made(guard, id);
}

void gitfiles_add_own(struct gitguard *guard, const char *id)
{
	struct own_admin *grown;
	char *copy = strdup(id);
	struct stat st;

	if (!copy || !stat_admin(guard, id, &st)) {
		free(copy);
		return; /* then it is another's: closed */
	}
	pthread_mutex_lock(&guard->lock);
	grown = reallocarray(guard->own, guard->n_own + 1, sizeof(*grown));
	if (grown) {
		guard->own = grown;
		grown[guard->n_own++] =
			(struct own_admin){copy, st.st_dev, st.st_ino};
	}
	pthread_mutex_unlock(&guard->lock);
	if (!grown)
		free(copy);
}

static int own_ids(struct gitguard *guard, struct strings *ids)
{
	int r = guard->admin_id ? strings_add(ids, guard->admin_id) : 0;

	pthread_mutex_lock(&guard->lock);
	for (size_t i = 0; r == 0 && i < guard->n_own; i++)
		r = strings_add(ids, guard->own[i].id);
	pthread_mutex_unlock(&guard->lock);
	/* One that was removed and made anew by others is theirs. */
	for (size_t i = 0; r == 0 && i < ids->n;) {
		if (gitfiles_is_own(guard, ids->s[i])) {
			i++;
			continue;
		}
		free(ids->s[i]);
		ids->s[i] = ids->s[--ids->n];
		ids->s[ids->n] = NULL;
	}
	return r;
}

/* ---- refs ------------------------------------------------------------- */

int gitfiles_protected(struct gitguard *guard, struct strings *ret_refs)
{
	struct strings refs = {0}, ids = {0};
	int r = own_ids(guard, &ids);

	if (r == 0)
		r = git_protected_branches(guard->git_dir, guard->has_main,
					   guard->ref_format, &ids, &refs);
	if (r == 0)
		r = strings_add(&refs, "HEAD");
	strings_release(&ids);
	if (r < 0) {
		strings_release(&refs);
		return r;
	}
	*ret_refs = refs;
	return 0;
}

static void trim_end(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
}

/* The value of a loose ref, or what else its file says; NULL for none. */
static char *loose_value(void *data, const char *ref)
{
	struct gitguard *guard = data;
	char *text = NULL;

	if (read_file_at(guard->git_fd, ref, JUDGED_MAX, &text, NULL) < 0)
		return NULL;
	trim_end(text);
	return text;
}

static int packed_value(struct gitguard *guard, const char *ref,
			char **ret_value)
{
	autofree char *packed = NULL;
	size_t size;
	int r = read_git_file(guard, "packed-refs", &packed, &size);

	if (r == 0)
		r = packed_refs_find((struct text){packed, size}, ref,
				     ret_value);
	return r;
}

int gitfiles_check_packed(struct gitguard *guard, const char *ref)
{
	autofree char *loose = loose_value(guard, ref);
	autofree char *packed = NULL;

	if (!loose || packed_value(guard, ref, &packed) < 0)
		return -EROFS;
	return packed && strcmp(loose, packed) == 0 ? 0 : -EROFS;
}

int gitfiles_check_stash(struct gitguard *guard)
{
	autofree char *log = NULL;
	size_t size;

	if (read_git_file(guard, "logs/refs/stash", &log, &size) < 0)
		return -EROFS;
	return stash_log_has_older((struct text){log, size},
				   guard->first_own_second)
		       ? -EROFS
		       : 0;
}

/* ---- judgements ------------------------------------------------------- */

/* What is to be judged: the file at path, and the bytes to take its place. */
struct case_file {
	struct gitguard *guard;
	const char *path; /* below G */
	struct text old, new;
};

static int judge_ref_value(const struct case_file *given, char **ret_what)
{
	autofree char *now = loose_value(given->guard, given->path);
	autofree char *then = strndup(given->new.data, given->new.size);

	if (!now && packed_value(given->guard, given->path, &now) < 0)
		return -EROFS;
	if (!then)
		return -ENOMEM;
	trim_end(then);
	if (now && strcmp(now, then) == 0)
		return 0;
	*ret_what = strdup(given->path);
	return -EROFS;
}

/* Does the user's own configuration set the key? If that can't be told, it
 * does: then the repository's may not. */
static bool user_has(const char *key)
{
	const char *const args[] = {"config", "--get", key, NULL};
	autogitoutput struct git_output output = {0};

	return git_run(args, &output) < 0 || output.status != 1;
}

/* Does a listing as of list_config() have the key? */
static bool has_key(struct text listing, const char *key)
{
	const char *at = listing.data, *end = at + listing.size;
	size_t length = strlen(key);

	for (; at < end; at += strlen(at) + 1)
		if (strncmp(at, key, length) == 0 &&
		    (at[length] == '\n' || at[length] == '\0'))
			return true;
	return false;
}

/* What the repository's config says counts for a worktree's own, too. */
static int note_names(struct gitguard *guard, struct config_context *context)
{
	autogitoutput struct git_output output = {0};
	autofree char *text = NULL;
	size_t size;
	int r = read_git_file(guard, "config", &text, &size);

	if (r == 0)
		r = list_config(text, size, &output);
	if (r < 0)
		return r;
	context->user_has_name |= has_key(text_of(&output), "user.name");
	context->user_has_email |= has_key(text_of(&output), "user.email");
	return 0;
}

static int judge_config_text(const struct case_file *given,
			     bool is_worktree_config, char **ret_what)
{
	autogitoutput struct git_output old = {0}, new = {0};
	struct strings refs = {0};
	struct config_context context = {
		.protected_refs = &refs,
		.old_remotes = &given->guard->old_remotes,
		.old_submodules = &given->guard->old_submodules,
		.user_has_name = user_has("user.name"),
		.user_has_email = user_has("user.email"),
		.is_worktree_config = is_worktree_config,
	};
	int r = list_config(given->old.data, given->old.size, &old);

	if (r == 0 && is_worktree_config)
		r = note_names(given->guard, &context);
	if (r == 0)
		r = list_config(given->new.data, given->new.size, &new);
	if (r == 0)
		r = gitfiles_protected(given->guard, &refs);
	if (r == 0)
		r = judge_config(text_of(&old), text_of(&new), &context,
				 ret_what);
	strings_release(&refs);
	return r < 0 && r != -ENOMEM ? -EROFS : r;
}

static int judge_packed(const struct case_file *given, char **ret_what)
{
	struct strings refs = {0};
	int r = gitfiles_protected(given->guard, &refs);

	if (r == 0 && gitfiles_check_stash(given->guard) < 0)
		r = strings_add(&refs, "refs/stash");
	if (r == 0)
		r = judge_packed_refs(given->old, given->new, &refs,
				      loose_value, given->guard, ret_what);
	strings_release(&refs);
	return r < 0 && r != -ENOMEM ? -EROFS : r;
}

/*
 * Is the ref, or the one that the reflog is of, protected? Others' HEADs are,
 * which come by the names of their admin directories.
 */
static bool is_held(const struct case_file *given)
{
	struct strings refs = {0};
	const char *ref = given->path;
	bool held;

	if (path_starts_with(ref, "worktrees", NULL) ||
	    gitfiles_protected(given->guard, &refs) < 0)
		return true;
	path_starts_with(ref, "logs", &ref);
	held = ref_is_protected(&refs, ref);
	strings_release(&refs);
	return held;
}

static int judge_stash_value(const struct case_file *given, char **ret_what)
{
	autofree char *log = NULL;
	size_t size;

	if (read_git_file(given->guard, "logs/refs/stash", &log, &size) < 0)
		return -EROFS;
	return judge_stash_ref((struct text){log, size}, given->new,
			       given->guard->first_own_second, ret_what);
}

static int judge(enum judge judge, const struct case_file *given,
		 char **ret_what)
{
	switch (judge) {
	case JUDGE_CONFIG:
		return judge_config_text(given, false, ret_what);
	case JUDGE_WORKTREE_CONFIG:
		return judge_config_text(given, true, ret_what);
	case JUDGE_REF:
		return is_held(given) ? judge_ref_value(given, ret_what) : 0;
	case JUDGE_REFLOG:
		if (!is_held(given))
			return 0;
		return judge_reflog(given->old, given->new,
				    time(NULL) - REFLOG_AGE, ret_what);
	case JUDGE_PACKED_REFS:
		return judge_packed(given, ret_what);
	case JUDGE_STASH_LOG:
		return judge_stash_log(given->old, given->new,
				       given->guard->first_own_second,
				       ret_what);
	case JUDGE_OBJECTS:
		/* The same object once more: the old one does. */
		return given->old.size ==
				       given->new.size &&memcmp(
					       given->old.data, given->new.data,
					       given->old.size) == 0
			       ? 0
			       : -EROFS;
	case JUDGE_STASH:
		return judge_stash_value(given, ret_what);
	case JUDGE_NONE:
	case JUDGE_ADMIN:
		return -EROFS;
	}
	return -EROFS;
}

/* ---- installing ------------------------------------------------------- */

/* With the owner and mode of what it replaces, or of what was offered. */
static int finish_copy(int fd, struct text text, const struct statx *like)
{
	int r = write_all(fd, text.data, text.size);

	if (r < 0)
		return r;
	if (fchown(fd, like->stx_uid, like->stx_gid) < 0 &&
	    fchown(fd, (uid_t)-1, like->stx_gid) < 0 && errno != EPERM)
		return -errno;
	return fchmod(fd, like->stx_mode & 07777) < 0 || fsync(fd) < 0 ? -errno
								       : 0;
}

static int install_copy(const struct rename_grant *grant, struct text text)
{
	const struct statx *like =
		grant->target_exists ? &grant->target : &grant->moved;
	int dirfd = grant->to.dir.fd;
	autofree char *name = NULL;
	autofd int fd = create_temporary_at(dirfd, ".worktreefs", &name);
	int r;

	if (fd < 0)
		return fd;
	r = finish_copy(fd, text, like);
	if (r == 0 && renameat(dirfd, name, dirfd, grant->to.name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, name, 0);
	return r;
}

static int read_entry(const struct entry *entry, char **ret_text,
		      size_t *ret_size)
{
	return read_file_at(entry->dir.fd, entry->name, JUDGED_MAX, ret_text,
			    ret_size);
}

int gitfiles_install(struct gitguard *guard, enum judge kind, const char *path,
		     const struct rename_grant *grant, char **ret_what)
{
	autofree char *old = NULL, *new = NULL;
	struct case_file given = {.guard = guard, .path = path};
	int r = read_entry(&grant->from, &new, &given.new.size);

	if (r == 0)
		r = read_git_file(guard, path, &old, &given.old.size);
	if (r < 0)
		return r == -ENOMEM ? r : -EROFS;
	given.old.data = old;
	given.new.data = new;
	r = judge(kind, &given, ret_what);
	if (r < 0)
		return r;
	if (kind != JUDGE_OBJECTS)
		r = install_copy(grant, given.new);
	if (r == 0 && unlinkat(grant->from.dir.fd, grant->from.name, 0) < 0 &&
	    errno != ENOENT)
		r = -errno;
	return r;
}

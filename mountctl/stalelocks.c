#include "mountctl/stalelocks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/holders.h"
#include "mountctl/output.h"

#define SUFFIX ".lock"

/* Directories below refs/ are as deep as branches' names have slashes. */
#define DEPTH_MAX 32

struct search {
	const struct session_spec *spec;
	time_t since;
	struct stale_locks *locks;
};

void stale_locks_release(struct stale_locks *locks)
{
	for (size_t i = 0; i < locks->n; i++) {
		free(locks->lock[i].path);
		free(locks->lock[i].session);
	}
	free(locks->lock);
	*locks = (struct stale_locks){0};
}

static bool is_known(const struct stale_locks *locks, const char *path)
{
	for (size_t i = 0; i < locks->n; i++)
		if (strcmp(locks->lock[i].path, path) == 0)
			return true;
	return false;
}

static int add(const struct search *search, const char *path)
{
	struct stale_locks *locks = search->locks;
	struct stale_lock lock = {
		.path = strdup(path),
		.session = strdup(search->spec->name),
	};
	struct stale_lock *grown =
		reallocarray(locks->lock, locks->n + 1, sizeof(*grown));

	if (grown)
		locks->lock = grown;
	if (!grown || !lock.path || !lock.session) {
		free(lock.path);
		free(lock.session);
		return -ENOMEM;
	}
	grown[locks->n++] = lock;
	return 0;
}

static bool is_lock_name(const char *name)
{
	size_t length = strlen(name), end = strlen(SUFFIX);

	return length > end && strcmp(name + length - end, SUFFIX) == 0;
}

static int look_at(const struct search *search, const char *dir,
		   const char *name)
{
	autofree char *path = path_join(dir, name);
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_mtim.tv_sec < search->since || is_known(search->locks, path))
		return 0;
	return add(search, path);
}

static int look_in(const struct search *search, const char *path, int depth)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		cleanup_fdp(&fd);
	while (dir && r == 0 && (entry = readdir(dir))) {
		autofree char *inner = NULL;

		if (!name_is_valid(entry->d_name))
			continue;
		if (is_lock_name(entry->d_name)) {
			r = look_at(search, path, entry->d_name);
		} else if (depth > 0 && entry->d_type == DT_DIR) {
			inner = path_join(path, entry->d_name);
			r = inner ? look_in(search, inner, depth - 1) : -ENOMEM;
		}
	}
	return r;
}

/* What of G a session may lock; the index at its top is main's own. */
static int look_in_git_dir(const struct search *search)
{
	static const char *const names[] = {
		"HEAD" SUFFIX,
		"config" SUFFIX,
		"packed-refs" SUFFIX,
		"shallow" SUFFIX,
		"objects/maintenance" SUFFIX,
	};
	const char *git_dir = search->spec->git_dir;
	autofree char *refs = path_join(git_dir, "refs");
	int r = refs ? look_in(search, refs, DEPTH_MAX) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = look_at(search, git_dir, names[i]);
	return r;
}

/*
 * Whether somebody is at work.
 */

static bool is_git(const struct holder *holder)
{
	size_t length = strcspn(holder->command, " ");
	autofree char *program = strndup(holder->command, length);

	return !program || strncmp(path_basename(program), "git", 3) == 0;
}

/* Is there a git with a file or its working directory in the repository? */
static bool is_at_work(const struct session_spec *spec)
{
	const char *const places[] = {spec->git_dir, spec->main,
				      spec->worktree};
	struct strings dirs = {0};
	struct holders holders = {0};
	bool found = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++)
		if (places[i])
			r = strings_add(&dirs, places[i]);
	if (r == 0)
		r = holders_of_paths(&dirs, &holders);
	for (size_t i = 0; i < holders.n; i++)
		found |= is_git(&holders.holder[i]);
	holders_release(&holders);
	strings_release(&dirs);
	/* What can't be told is rather in use. */
	return r < 0 || found;
}

static bool is_open(const char *path)
{
	char *one[] = {strdup(path), NULL};
	const struct strings paths = {.s = one, .n = 1};
	struct holders holders = {0};
	int r = one[0] ? holders_of_paths(&paths, &holders) : -ENOMEM;
	bool found = r < 0 || holders.n > 0;

	holders_release(&holders);
	free(one[0]);
	return found;
}

int stale_locks_find(const struct session_spec *spec, time_t since, bool alone,
		     struct stale_locks *locks)
{
	const struct search search = {spec, since, locks};
	size_t before = locks->n;
	bool at_work;
	int r = 0;

	if (!spec->git_dir)
		return 0;
	if (spec->admin_dir)
		r = look_in(&search, spec->admin_dir, 0);
	if (r == 0 && alone)
		r = look_in_git_dir(&search);
	if (r < 0 || locks->n == before)
		return r;
	at_work = is_at_work(spec);
	for (size_t i = before; i < locks->n; i++)
		locks->lock[i].in_use = at_work || is_open(locks->lock[i].path);
	return 0;
}

int stale_locks_remove(struct stale_locks *locks, char **message)
{
	int first = 0;

	for (size_t i = 0; i < locks->n; i++) {
		struct stale_lock *lock = &locks->lock[i];

		if (lock->in_use)
			continue;
		lock->removed = unlink(lock->path) == 0 || errno == ENOENT;
		if (!lock->removed && first == 0)
			first = explain(-errno, message,
					"cannot remove '%s': %s", lock->path,
					strerror(errno));
	}
	return first;
}

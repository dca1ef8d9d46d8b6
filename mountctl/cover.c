#include "mountctl/cover.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/mountapi.h"
#include "mountctl/output.h"

/* No session can have the name: it begins with a dot. */
#define SNAPSHOT_NAME ".session.json"
#define COVER_SIZE "16m"

void covers_release(struct covers *covers)
{
	strings_release(&covers->paths);
	*covers = (struct covers){0};
}

char *cover_snapshot_path(const char *record_base)
{
	return path_join(record_base, SNAPSHOT_NAME);
}

/*
 * Planning
 */

/* Adds the real path of a directory, if there is one and it isn't there yet. */
static int add_path(struct strings *paths, char *path /* owned */)
{
	autofree char *own = path, *real = NULL;

	if (!own)
		return -ENOMEM;
	real = realpath(own, NULL);
	/* What we can't reach, the command can't either. */
	if (!real || strings_contain(paths, real))
		return 0;
	return strings_take(paths, steal_pointer(&real));
}

/* It is made, at the latest, as the filesystem process is started. */
static int add_state(struct strings *paths)
{
	char *state;
	int r = state_base_path(&state);

	if (r < 0)
		return r;
	if (access(state, F_OK) < 0 && path_is_clean(state) &&
	    !strings_contain(paths, state))
		return strings_take(paths, state);
	return add_path(paths, state);
}

static int find_paths(struct covers *covers, char **message)
{
	autofd int base = -1;
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *record_base, fallback[64];
	int r = record_base_open(true, &base, &record_base);

	if (r < 0)
		return explain(r, message,
			       "cannot use the directory of the records: %s",
			       strerror(-r));
	r = add_path(&covers->paths, record_base);
	if (r == 0 && runtime && runtime[0] == '/')
		r = add_path(&covers->paths, path_join(runtime, "worktreefs"));
	snprintf(fallback, sizeof(fallback), "/run/user/%u/worktreefs",
		 geteuid());
	if (r == 0)
		r = add_path(&covers->paths, strdup(fallback));
	snprintf(fallback, sizeof(fallback), "/tmp/worktreefs-%u", geteuid());
	if (r == 0)
		r = add_path(&covers->paths, strdup(fallback));
	if (r == 0)
		r = add_state(&covers->paths);
	if (r == 0 && covers->paths.n == 0)
		r = -ENOENT;
	return r < 0 ? explain(r, message,
			       "cannot find the directories of the records "
			       "and the state: %s",
			       strerror(-r))
		     : 0;
}

static int refuse_below(const struct covers *covers, const char *path,
			char **message)
{
	for (size_t i = 0; path && i < covers->paths.n; i++)
		if (path_starts_with(path, covers->paths.s[i], NULL))
			return explain(-EINVAL, message,
				       "'%s' lies in '%s', which worktreefs "
				       "keeps for itself",
				       path, covers->paths.s[i]);
	return 0;
}

static bool is_native(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->native.n; i++)
		if (path_starts_with(path, spec->native.s[i], NULL))
			return true;
	return false;
}

static int pin(struct session_spec *spec, const char *path)
{
	const char *rest;

	if (is_native(spec, path))
		return 0;
	for (size_t i = 0; i < spec->n_views; i++)
		if (path_starts_with(path, spec->views[i].root, &rest) && *rest)
			return strings_add(&spec->views[i].pinned, rest);
	return 0;
}

int cover_plan(struct session_spec *spec, const char *directory,
	       struct covers *ret_covers, char **message)
{
	struct covers covers = {0};
	int r = find_paths(&covers, message);

	if (r == 0)
		r = refuse_below(&covers, directory, message);
	if (r == 0)
		r = refuse_below(&covers, spec->worktree, message);
	for (size_t i = 0; i < spec->n_views && r == 0; i++)
		r = refuse_below(&covers, spec->views[i].root, message);
	for (size_t i = 0; i < spec->native.n && r == 0; i++)
		r = refuse_below(&covers, spec->native.s[i], message);
	for (size_t i = 0; i < covers.paths.n && r == 0; i++)
		r = pin(spec, covers.paths.s[i]);
	if (r < 0) {
		covers_release(&covers);
		return r;
	}
	*ret_covers = covers;
	return 0;
}

/*
 * Covering
 */

static int cover_one(const char *path, char **message)
{
	autofd int target = mount_target_open(path);
	autofd int tmpfs = -1;
	int r;

	if (target == -ENOENT || target == -EACCES)
		return 0;
	r = target;
	if (r >= 0)
		r = tmpfs = mount_new_tmpfs(COVER_SIZE);
	if (r >= 0)
		r = mount_attach(tmpfs, target);
	return r < 0 ? explain(r, message, "cannot cover '%s': %s", path,
			       strerror(-r))
		     : 0;
}

/* Puts the session's state directory back to where it was. */
static int show_state(const char *state_dir, int clone, char **message)
{
	autofd int target = -1;
	int r = mkdir(state_dir, 0700) < 0 ? -errno : 0;

	if (r == 0)
		r = target = mount_target_open(state_dir);
	if (r >= 0)
		r = mount_make_read_only(clone);
	if (r >= 0)
		r = mount_attach(clone, target);
	return r < 0 ? explain(r, message, "cannot show '%s': %s", state_dir,
			       strerror(-r))
		     : 0;
}

/* A file in the covering directory, read-only by a mount of itself. */
static int place_snapshot(int dirfd, const char *path, const char *text,
			  char **message)
{
	autofd int clone = -1, target = -1;
	int r = write_file_at(dirfd, SNAPSHOT_NAME, text, strlen(text), 0400);

	if (r == 0)
		r = clone = mount_clone(path);
	if (r >= 0)
		r = target = mount_target_open(path);
	if (r >= 0)
		r = mount_make_read_only(clone);
	if (r >= 0)
		r = mount_attach(clone, target);
	return r < 0 ? explain(r, message, "cannot make '%s': %s", path,
			       strerror(-r))
		     : 0;
}

static bool is_covered(const struct covers *covers, const char *path)
{
	for (size_t i = 0; i < covers->paths.n; i++)
		if (path_starts_with(path, covers->paths.s[i], NULL))
			return true;
	return false;
}

int cover_all(const struct covers *covers, const struct session_spec *spec,
	      const char *snapshot, int *ret_scratch, char **ret_snapshot,
	      char **message)
{
	autofree char *path = cover_snapshot_path(covers->paths.s[0]);
	autofd int state = -1, scratch = -1;
	int r = 0;

	if (!path)
		return -ENOMEM;
	if (spec->state_dir && is_covered(covers, spec->state_dir))
		state = mount_clone(spec->state_dir);
	for (size_t i = 0; i < covers->paths.n && r == 0; i++)
		r = cover_one(covers->paths.s[i], message);
	if (r == 0 && state >= 0)
		r = show_state(spec->state_dir, state, message);
	if (r < 0)
		return r;

	scratch = mount_target_open(covers->paths.s[0]);
	if (scratch < 0)
		return explain(scratch, message, "cannot open '%s': %s",
			       covers->paths.s[0], strerror(-scratch));
	r = place_snapshot(scratch, path, snapshot, message);
	if (r < 0)
		return r;
	*ret_scratch = take_fd(&scratch);
	*ret_snapshot = steal_pointer(&path);
	return 0;
}

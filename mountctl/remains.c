#include "mountctl/remains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/orphans.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"

void remains_init(struct remains *remains)
{
	*remains = (struct remains){.index = -1};
	record_init(&remains->orphan);
	baseline_init(&remains->baseline);
}

void remains_release(struct remains *remains)
{
	baseline_release(&remains->baseline);
	record_release(&remains->orphan);
	gitrepo_release(&remains->repo);
	free(remains->name);
	free(remains->path);
	free(remains->view);
	free(remains->worktree);
	free(remains->admin_dir);
	remains_init(remains);
}

const struct session_spec *remains_spec(const struct remains *remains)
{
	if (remains->record)
		return &remains->record->spec;
	return remains->has_baseline ? &remains->baseline.spec : NULL;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool remains_has_directory(const struct remains *remains)
{
	return remains->worktree && is_directory(remains->worktree);
}

static int copy(char **member, const char *text)
{
	if (!text)
		return 0;
	free(*member);
	*member = strdup(text);
	return *member ? 0 : -ENOMEM;
}

/*
 * The session.
 */

static bool shows_path(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const char *mountpoint = spec->views[i].mountpoint;

		if (spec->tier == TIER_VIEW && mountpoint &&
		    path_starts_with(path, mountpoint, NULL))
			return true;
	}
	return spec->worktree && strcmp(spec->worktree, path) == 0;
}

/* Of several that a path may mean, the last. */
static int find_baseline(const char *path, struct remains *remains)
{
	struct strings names = {0};
	int r = baseline_list(&names);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		struct baseline found;

		if (baseline_read_named(names.s[i], &found) < 0)
			continue;
		if (!shows_path(&found.spec, path) ||
		    (remains->has_baseline &&
		     found.taken < remains->baseline.taken)) {
			baseline_release(&found);
			continue;
		}
		baseline_release(&remains->baseline);
		remains->baseline = found;
		remains->has_baseline = true;
	}
	strings_release(&names);
	return r;
}

static bool is_directory_of_records(const struct sessions *sessions,
				    const char *name)
{
	autofd int dir = -1;

	return !sessions_named(sessions, name) && record_open(name, &dir) == 0;
}

/* A view that isn't in any record, around the path. */
static int find_view(const struct sessions *sessions, struct remains *remains)
{
	for (size_t i = 0; i < sessions->mounts.n; i++) {
		const struct view_mount *mount = &sessions->mounts.mount[i];

		if (!mount->hidden &&
		    path_starts_with(remains->path, mount->mountpoint, NULL))
			return copy(&remains->view, mount->mountpoint);
	}
	return 0;
}

static int find_by_path(const struct sessions *sessions, const char *operand,
			struct remains *remains, char **message)
{
	int r = sessions_find(sessions, operand, &remains->record,
			      &remains->path, message);

	if (r != -ENOENT)
		return r;
	if (!remains->path)
		return 0;
	r = find_view(sessions, remains);
	return r < 0 ? r : find_baseline(remains->path, remains);
}

static int find_session(const struct sessions *sessions, const char *operand,
			struct remains *remains, char **message)
{
	const struct session_spec *spec;
	int r = 0;

	remains->record = sessions_named(sessions, operand);
	remains->unreadable = is_directory_of_records(sessions, operand);
	remains->has_baseline =
		baseline_read_named(operand, &remains->baseline) == 0;
	if (remains->unreadable)
		r = copy(&remains->name, operand);
	else if (!remains->record && !remains->has_baseline)
		r = find_by_path(sessions, operand, remains, message);
	if (r < 0)
		return r;
	spec = remains_spec(remains);
	if (spec)
		r = copy(&remains->name, spec->name);
	if (r < 0 || !remains->record || remains->has_baseline)
		return r;
	remains->has_baseline =
		baseline_read_named(spec->name, &remains->baseline) == 0;
	return 0;
}

/*
 * One that lives, and has no record.
 */

static int copy_spec(const struct session_spec *spec,
		     struct session_spec *ret_spec)
{
	autofree char *text = session_spec_to_json(spec);

	return text ? session_spec_from_json(text, ret_spec) : -ENOMEM;
}

/* What is mounted for everybody is a view; the rest is run's. */
static int guess_spec(const struct sessions *sessions,
		      const struct remains *remains, struct record *orphan)
{
	const struct view_mounts *mounts = &sessions->mounts;
	struct session_spec *spec = &orphan->spec;
	int r = copy(&spec->worktree, remains->worktree);

	spec->tier = TIER_ENFORCED;
	for (size_t i = 0; r == 0 && i < mounts->n; i++) {
		const struct view_mount *mount = &mounts->mount[i];

		if (mount->hidden ||
		    !strings_contain(&orphan->devices, mount->device))
			continue;
		spec->tier = TIER_VIEW;
		r = session_spec_add_view(spec, mount->mountpoint,
					  mount->mountpoint);
	}
	return r;
}

/*
 * Without its devices a view can't be told from others' at the same place, and
 * nothing from anything where it isn't known what the session was.
 */
static int describe(const struct sessions *sessions,
		    const struct remains *remains, struct record *orphan)
{
	struct session_spec spec;
	int r;

	if (!remains->has_baseline)
		return orphan->devices.n == 0
			       ? -ENOENT
			       : guess_spec(sessions, remains, orphan);
	if (orphan->devices.n == 0 &&
	    remains->baseline.spec.tier != TIER_ENFORCED)
		return -ENOENT;
	r = copy_spec(&remains->baseline.spec, &spec);
	if (r < 0)
		return r;
	session_spec_release(&orphan->spec);
	orphan->spec = spec;
	return 0;
}

static int find_state_dir(const struct remains *remains, char **ret_path)
{
	autofree char *base = NULL;
	int r = 0;

	if (remains->has_baseline)
		return copy(ret_path, remains->baseline.spec.state_dir);
	if (!remains->name)
		return 0;
	r = state_base_path(&base);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*ret_path = path_join(base, remains->name);
	return *ret_path ? 0 : -ENOMEM;
}

/* 0, also where there is none; or -errno. */
static int find_orphan(const struct sessions *sessions, struct remains *remains)
{
	autofree char *state_dir = NULL;
	struct record *orphan = &remains->orphan;
	struct orphan_hints hints = {
		.name = remains->name,
		.unreadable = remains->unreadable,
		.worktree = remains->name ? NULL : remains->worktree,
	};
	int r;

	if (remains->record || (!hints.name && !hints.worktree))
		return 0;
	r = find_state_dir(remains, &state_dir);
	hints.state_dir = state_dir;
	if (r == 0)
		r = orphan_find(&hints, orphan);
	if (r > 0)
		r = describe(sessions, remains, orphan);
	else
		return r;
	if (r == 0)
		r = copy(&remains->name, orphan->spec.name);
	if (r == 0)
		remains->record = orphan;
	return r == -ENOENT ? 0 : r;
}

/*
 * The worktree.
 */

static ssize_t find_index(const struct remains *remains)
{
	const char *id =
		remains->admin_dir ? path_basename(remains->admin_dir) : NULL;

	for (size_t i = 0; i < remains->repo.n_worktrees; i++) {
		const struct worktree *worktree = &remains->repo.worktrees[i];

		if (id ? strcmp(worktree->id, id) == 0
		       : strcmp(worktree->path, remains->worktree) == 0)
			return (ssize_t)i;
	}
	return -1;
}

static int find_admin(struct remains *remains)
{
	if (remains->index < 0 || remains->admin_dir)
		return 0;
	if (asprintf(&remains->admin_dir, "%s/worktrees/%s",
		     remains->repo.git_dir,
		     remains->repo.worktrees[remains->index].id) < 0) {
		remains->admin_dir = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* A repository that is gone has no worktrees. */
static int find_worktree_of(const struct session_spec *spec,
			    struct remains *remains)
{
	ssize_t index;
	int r = copy(&remains->worktree, spec->worktree);

	if (r == 0)
		r = copy(&remains->admin_dir, spec->admin_dir);
	if (r < 0 || !spec->git_dir)
		return r;
	if (gitrepo_discover(spec->main ? spec->main : spec->git_dir,
			     &remains->repo, &index, NULL) < 0)
		return 0;
	remains->has_repo = true;
	if (remains->worktree)
		remains->index = find_index(remains);
	return 0;
}

/* The deepest directory at or above the path. */
static char *existing(const char *path)
{
	char *found = strdup(path);

	while (found && !is_directory(found)) {
		char *above = path_dirname(found);

		free(found);
		found = above;
	}
	return found;
}

static int judge_path(struct remains *remains, ssize_t index, char **message)
{
	const struct gitrepo *repo = &remains->repo;
	const char *path = remains->path;

	if (repo->main && strcmp(repo->main, path) == 0)
		return explain(-EINVAL, message,
			       "'%s' is the main checkout, and no worktree",
			       path);
	if (index >= 0 && is_directory(path) &&
	    strcmp(repo->worktrees[index].path, path) != 0)
		return explain(-EINVAL, message,
			       "'%s' isn't a worktree, but lies in '%s'", path,
			       repo->worktrees[index].path);
	return copy(&remains->worktree, path);
}

/* Without a session the path has to say it all. */
static int find_worktree_at(struct remains *remains, char **message)
{
	autofree char *start = existing(remains->path);
	ssize_t index;
	int r;

	if (!start)
		return -ENOMEM;
	r = gitrepo_discover(start, &remains->repo, &index, message);
	if (r == -ENOENT)
		return r;
	if (r < 0)
		return r;
	remains->has_repo = true;
	r = judge_path(remains, index, message);
	if (r < 0)
		return r;
	remains->index = find_index(remains);
	return remains->index < 0 ? -ENOENT : find_admin(remains);
}

int remains_find(const struct sessions *sessions, const char *operand,
		 struct remains *remains, char **message)
{
	const struct session_spec *spec;
	int r = find_session(sessions, operand, remains, message);

	if (r == 0)
		r = find_orphan(sessions, remains);
	if (r < 0)
		return r == -ENOENT ? -EIO : r;
	spec = remains_spec(remains);
	if (spec)
		return find_worktree_of(spec, remains);
	if (remains->unreadable || remains->view)
		return 0;
	if (!remains->path)
		return -ENOENT;
	r = find_worktree_at(remains, message);
	return r < 0 ? r : find_orphan(sessions, remains);
}

int remains_find_worktree(const char *path, struct remains *remains,
			  char **message)
{
	struct resolved place = {0};
	int r = path_resolve("/", path, NULL, &place);

	if (r < 0)
		return explain(r == -ENOENT ? -EIO : r, message,
			       "cannot look up '%s': %s", path, strerror(-r));
	remains->path = steal_pointer(&place.path);
	resolved_release(&place);
	return find_worktree_at(remains, message);
}

int remains_refresh(struct remains *remains, char **message)
{
	struct gitrepo repo = {0};
	ssize_t index;
	int r;

	if (!remains->has_repo)
		return 0;
	r = gitrepo_discover(remains->repo.main ? remains->repo.main
						: remains->repo.git_dir,
			     &repo, &index, message);
	if (r < 0)
		return r;
	gitrepo_release(&remains->repo);
	remains->repo = repo;
	remains->index = remains->worktree ? find_index(remains) : -1;
	return 0;
}

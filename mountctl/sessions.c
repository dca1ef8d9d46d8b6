#include "mountctl/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"

const char *session_state_name(enum session_state state)
{
	switch (state) {
	case SESSION_LIVE:
		return "live";
	case SESSION_DETACHED:
		return "detached";
	case SESSION_DEAD:
		return "dead";
	}
	return "?";
}

static bool has_mount(const struct session_spec *spec,
		      const struct view_mounts *mounts)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const char *mountpoint = spec->views[i].mountpoint;

		if (mountpoint && view_mounts_at(mounts, mountpoint))
			return true;
	}
	return false;
}

enum session_state session_state(const struct sessions *sessions,
				 const struct record *record)
{
	if (!record->live)
		return SESSION_DEAD;
	/* Views behind run are nobody's to see but the session's. */
	if (record->spec.tier != TIER_VIEW ||
	    has_mount(&record->spec, &sessions->mounts))
		return SESSION_LIVE;
	return SESSION_DETACHED;
}

void sessions_release(struct sessions *sessions)
{
	for (size_t i = 0; i < sessions->n; i++)
		record_release(&sessions->record[i]);
	free(sessions->record);
	strings_release(&sessions->unreadable);
	view_mounts_release(&sessions->mounts);
	*sessions = (struct sessions){0};
}

static int read_all(const struct strings *names, struct sessions *sessions)
{
	sessions->record = calloc(names->n + 1, sizeof(*sessions->record));
	if (!sessions->record)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++) {
		int r = record_read(names->s[i],
				    &sessions->record[sessions->n]);

		if (r == 0)
			sessions->n++;
		else if (r != -ENOENT) /* removed, or about to start */
			r = strings_add(&sessions->unreadable, names->s[i]);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

int sessions_read(struct sessions *ret_sessions, char **message)
{
	struct sessions sessions = {0};
	struct strings names = {0};
	int r = record_list(&names);

	if (r < 0)
		return explain(r, message,
			       "cannot read the records of sessions: %s",
			       strerror(-r));
	r = read_all(&names, &sessions);
	strings_release(&names);
	if (r == 0)
		r = view_mounts_read(0, &sessions.mounts);
	if (r < 0) {
		sessions_release(&sessions);
		return r;
	}
	*ret_sessions = sessions;
	return 0;
}

/*
 * Finding.
 */

static bool shows_path(const struct session_spec *spec, const char *path)
{
	if (spec->tier != TIER_VIEW)
		return false;
	for (size_t i = 0; i < spec->n_views; i++) {
		const char *mountpoint = spec->views[i].mountpoint;

		if (mountpoint && path_starts_with(path, mountpoint, NULL))
			return true;
	}
	return false;
}

const struct record *sessions_named(const struct sessions *sessions,
				    const char *name)
{
	for (size_t i = 0; i < sessions->n; i++)
		if (strcmp(sessions->record[i].spec.name, name) == 0)
			return &sessions->record[i];
	return NULL;
}

const struct record *sessions_showing(const struct sessions *sessions,
				      const char *path)
{
	for (size_t i = 0; i < sessions->n; i++)
		if (shows_path(&sessions->record[i].spec, path))
			return &sessions->record[i];
	return NULL;
}

/* Several sessions may have one worktree. */
static int find_by_worktree(const struct sessions *sessions, const char *path,
			    const struct record **ret_record, char **message)
{
	const struct record *found = NULL;

	for (size_t i = 0; i < sessions->n; i++) {
		const struct record *record = &sessions->record[i];
		const char *worktree = record->spec.worktree;

		if (!worktree || strcmp(worktree, path) != 0)
			continue;
		if (found)
			return explain(-EINVAL, message,
				       "'%s' is the worktree of the sessions "
				       "'%s' and '%s': name one",
				       path, found->spec.name,
				       record->spec.name);
		found = record;
	}
	if (!found)
		return -ENOENT;
	*ret_record = found;
	return 0;
}

/* Where views are or should be: a look beyond may never return. */
static int find_stops(const struct sessions *sessions, struct strings *stops)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sessions->mounts.n; i++)
		r = strings_add(stops, sessions->mounts.mount[i].mountpoint);
	return r;
}

int sessions_resolve(const struct sessions *sessions, const char *path,
		     char **ret_path, char **message)
{
	autofree char *cwd = getcwd(NULL, 0);
	struct resolved place = {0};
	struct strings stops = {0};
	int r;

	if (!cwd && path[0] != '/')
		return explain(-ENOENT, message,
			       "cannot find the working directory");
	r = find_stops(sessions, &stops);
	if (r == 0)
		r = path_resolve(cwd ? cwd : "/", path, &stops, &place);
	strings_release(&stops);
	if (r < 0)
		return explain(r == -ENAMETOOLONG ? -EINVAL : r, message,
			       "cannot look up '%s': %s", path, strerror(-r));
	*ret_path = steal_pointer(&place.path);
	resolved_release(&place);
	return 0;
}

static int find_by_path(const struct sessions *sessions, const char *path,
			const struct record **ret_record, char **message)
{
	const struct record *found = sessions_showing(sessions, path);

	if (!found)
		return find_by_worktree(sessions, path, ret_record, message);
	*ret_record = found;
	return 0;
}

int sessions_find(const struct sessions *sessions, const char *operand,
		  const struct record **ret_record, char **ret_path,
		  char **message)
{
	const struct record *found = sessions_named(sessions, operand);
	autofree char *path = NULL;
	int r;

	if (operand[0] == '\0')
		return explain(-EINVAL, message,
			       "'' is neither a session's name nor a path");
	if (found) {
		*ret_record = found;
		return 0;
	}
	r = sessions_resolve(sessions, operand, &path, message);
	if (r < 0)
		return r;
	r = find_by_path(sessions, path, ret_record, message);
	if (ret_path && (r == 0 || r == -ENOENT))
		*ret_path = steal_pointer(&path);
	return r;
}

/* Does the directory lie in W, or in the view's picture of it? */
static bool is_at_work(const struct session_spec *spec, const char *path)
{
	autofree char *directory = NULL;

	if (!spec->worktree)
		return false;
	directory = session_directory(spec);
	return path_starts_with(path, spec->worktree, NULL) ||
	       (directory && path_starts_with(path, directory, NULL));
}

int sessions_here(const struct sessions *sessions,
		  const struct record **ret_record, char **message)
{
	autofree char *cwd = getcwd(NULL, 0);
	const struct record *found = NULL;

	for (size_t i = 0; cwd && i < sessions->n; i++) {
		const struct record *record = &sessions->record[i];

		if (!is_at_work(&record->spec, cwd))
			continue;
		if (found)
			return explain(-EINVAL, message,
				       "'%s' belongs to the sessions '%s' and "
				       "'%s': name one",
				       cwd, found->spec.name,
				       record->spec.name);
		found = record;
	}
	if (!found)
		return explain(-ENOENT, message,
			       "the working directory is in no session's "
			       "worktree: name a session");
	*ret_record = found;
	return 0;
}

static bool is_anothers(const struct sessions *sessions,
			const struct record *record, const char *device)
{
	for (size_t i = 0; i < sessions->n; i++) {
		const struct record *other = &sessions->record[i];

		if (other != record && other->live &&
		    strings_contain(&other->devices, device))
			return true;
	}
	return false;
}

int session_processes(const struct sessions *sessions,
		      const struct record *record,
		      struct holders *ret_processes)
{
	struct strings devices = {0};
	int r = 0;

	if (record->spec.tier != TIER_ENFORCED)
		return 0;
	for (size_t i = 0; r == 0 && i < record->devices.n; i++) {
		const char *device = record->devices.s[i];

		if (record->live || !is_anothers(sessions, record, device))
			r = strings_add(&devices, device);
	}
	if (r == 0)
		r = holders_of_devices(&devices, ret_processes);
	strings_release(&devices);
	return r;
}

char *session_behind(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		const char *rest;

		if (view->mountpoint &&
		    strcmp(view->mountpoint, view->root) != 0 &&
		    path_starts_with(path, view->mountpoint, &rest))
			return path_join(view->root, rest);
	}
	return NULL;
}

char *session_seen(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		const char *rest;

		if (view->mountpoint &&
		    path_starts_with(path, view->root, &rest))
			return path_join(view->mountpoint, rest);
	}
	return strdup(path);
}

char *session_directory(const struct session_spec *spec)
{
	if (spec->worktree)
		return session_seen(spec, spec->worktree);
	return spec->n_views > 0 ? session_seen(spec, spec->views[0].root)
				 : strdup("/");
}

#include "mountctl/mountpoints.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/ending.h"
#include "mountctl/output.h"

/* Of the record's mount points, the one that path lies in. */
static const char *mountpoint_around(const struct record *record,
				     const char *path)
{
	const struct session_spec *spec = &record->spec;

	if (spec->tier != TIER_VIEW)
		return NULL;
	for (size_t i = 0; i < spec->n_views; i++) {
		const char *mountpoint = spec->views[i].mountpoint;

		if (mountpoint && path_starts_with(path, mountpoint, NULL))
			return mountpoint;
	}
	return NULL;
}

int mountpoints_clear(const struct sessions *sessions, const char *path,
		      char **message)
{
	for (size_t i = 0; i < sessions->n; i++) {
		const struct record *record = &sessions->record[i];
		int r;

		if (!mountpoint_around(record, path))
			continue;
		if (record->live)
			return explain(-EINVAL, message,
				       "'%s' is in the view of session '%s'",
				       path, record->spec.name);
		r = session_clear(record, message);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Is it the same directory, by whatever path? */
static bool is_root(const struct session_spec *spec, const char *path)
{
	struct stat st, root;

	if (lstat(path, &st) < 0)
		return false;
	for (size_t i = 0; i < spec->n_views; i++)
		if (lstat(spec->views[i].root, &root) == 0 &&
		    st.st_dev == root.st_dev && st.st_ino == root.st_ino)
			return true;
	return false;
}

/* mend: what gives another mount point. */
static int check_outside(const struct session_spec *spec, const char *path,
			 const char *mend, char **message)
{
	autofree char *above = strdup(path);

	for (;;) {
		char *next;

		if (!above)
			return -ENOMEM;
		if (is_root(spec, above))
			return explain(-EINVAL, message,
				       "the mount point '%s' lies in '%s': the "
				       "view would contain itself; give "
				       "another with %s",
				       path, above, mend);
		if (strcmp(above, "/") == 0)
			return 0;
		next = path_dirname(above);
		free(above);
		above = next;
	}
}

/* "view", "views/1", "views/2", ... */
static char *default_place(const char *session_dir, size_t index)
{
	char name[32] = "view";

	if (index > 0)
		snprintf(name, sizeof(name), "views/%zu", index);
	return path_join(session_dir, name);
}

int mountpoints_choose(struct session_spec *spec, const char *session_dir,
		       const char *at, char **message)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		struct view_spec *view = &spec->views[i];
		int r;

		free(view->mountpoint);
		view->mountpoint = i == 0 && at ? strdup(at)
						: default_place(session_dir, i);
		if (!view->mountpoint)
			return -ENOMEM;
		/* --at is the first view's alone. */
		r = check_outside(spec, view->mountpoint,
				  i == 0 ? "--at DIR" : "XDG_RUNTIME_DIR",
				  message);
		if (r < 0)
			return r;
	}
	return 0;
}

/* 0, -ENOTEMPTY or -errno. */
static int check_empty(const char *path)
{
	autodir DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 &&
		    strcmp(entry->d_name, "..") != 0)
			return -ENOTEMPTY;
	return 0;
}

/* 1 if it was made, 0 if it was there and is empty. */
static int make_place(const char *path, char **message)
{
	int r;

	if (mkdir(path, 0700) == 0)
		return 1;
	r = -errno;
	if (r == -EEXIST)
		r = check_empty(path);
	if (r == -ENOTEMPTY || r == -ENOTDIR || r == -ENOENT)
		return explain(-EINVAL, message,
			       "cannot mount a view at '%s': %s", path,
			       strerror(-r));
	if (r < 0)
		return explain(r, message, "cannot mount a view at '%s': %s",
			       path, strerror(-r));
	return 0;
}

static int make_views_dir(const struct session_spec *spec,
			  const char *session_dir, char **message)
{
	autofree char *views = path_join(session_dir, "views");
	int r;

	if (!views)
		return -ENOMEM;
	if (spec->n_views < 2 || mkdir(views, 0700) == 0 || errno == EEXIST)
		return 0;
	r = -errno;
	return explain(r, message, "cannot make '%s': %s", views, strerror(-r));
}

int mountpoints_make(const struct session_spec *spec, const char *session_dir,
		     char **ret_made, char **message)
{
	int r = make_views_dir(spec, session_dir, message);

	for (size_t i = 0; r >= 0 && i < spec->n_views; i++) {
		const char *path = spec->views[i].mountpoint;

		r = make_place(path, message);
		if (r != 1 || path_starts_with(path, session_dir, NULL))
			continue;
		*ret_made = strdup(path);
		if (!*ret_made)
			rmdir(path);
	}
	return r < 0 ? r : 0;
}

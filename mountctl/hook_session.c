#include "mountctl/hook_session.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/clock.h"
#include "mountctl/ending.h"
#include "mountctl/gitrules.h"
#include "mountctl/hook_worktree.h"
#include "mountctl/mounting.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/sessions.h"

/* How many names of a kind are tried. */
#define MAX_NAMES 100

/* How long to wait for those who use the view; the harness waits, too. */
#define END_MS 5000

/*
 * Starting.
 */

static bool is_view_of(const struct record *record, const char *worktree)
{
	return record->live && record->spec.tier == TIER_VIEW &&
	       record->spec.worktree &&
	       strcmp(record->spec.worktree, worktree) == 0;
}

/* *ret_directory stays NULL where there is none. */
static int find_mounted(const char *worktree, char **ret_directory,
			char **message)
{
	struct sessions sessions = {0};
	int r = sessions_read(&sessions, message);

	for (size_t i = 0; r == 0 && !*ret_directory && i < sessions.n; i++) {
		const struct record *record = &sessions.record[i];

		if (!is_view_of(record, worktree) ||
		    session_state(&sessions, record) != SESSION_LIVE)
			continue;
		*ret_directory = session_directory(&record->spec);
		r = *ret_directory ? 0 : -ENOMEM;
	}
	sessions_release(&sessions);
	return r;
}

static int plan(const char *worktree, const char *name,
		struct session_spec *ret_spec, char **message)
{
	struct plan_options options;
	int r;

	plan_options_init(&options);
	options.worktree = strdup(worktree);
	options.name = strdup(name);
	r = options.worktree && options.name
		    ? plan_session(&options, TIER_VIEW, ret_spec, message)
		    : -ENOMEM;
	plan_options_release(&options);
	return r;
}

/* -EEXIST: the name is another session's. */
static int start(const char *worktree, const char *name, char **ret_directory,
		 char **message)
{
	sigset_t set = mounting_signals(), old;
	struct session_spec spec;
	struct record record;
	int r = plan(worktree, name, &spec, message);

	if (r < 0)
		return r;
	gitrules_warn(&spec);
	sigprocmask(SIG_BLOCK, &set, &old);
	r = mounting_session(&spec, NULL, message);
	sigprocmask(SIG_SETMASK, &old, NULL);
	record_init(&record);
	if (r >= 0)
		r = record_read(name, &record);
	if (r == 0)
		*ret_directory = session_directory(&record.spec);
	record_release(&record);
	session_spec_release(&spec);
	return r;
}

static int start_named(const char *worktree, const char *name,
		       char **ret_directory, char **message)
{
	int r = -EEXIST;

	for (int i = 1; r == -EEXIST && i <= MAX_NAMES; i++) {
		autofree char *numbered = NULL;

		if (asprintf(&numbered, i == 1 ? "%s" : "%s.%d", name, i) < 0) {
			numbered = NULL;
			return -ENOMEM;
		}
		r = start(worktree, numbered, ret_directory, message);
	}
	return r < 0 || *ret_directory ? r : -ENOMEM;
}

int hook_session_start(const char *worktree, const char *name,
		       char **ret_directory, char **message)
{
	autofree char *valid = session_name_from(name);
	int r = valid ? find_mounted(worktree, ret_directory, message)
		      : -ENOMEM;

	if (r < 0 || *ret_directory)
		return r;
	return start_named(worktree, valid, ret_directory, message);
}

/*
 * Ending.
 */

static int explain_busy(const struct record *record,
			const struct holders *holders, char **message)
{
	const char *name = record->spec.name;

	if (holders->n == 0)
		return explain(-EBUSY, message,
			       "session '%s' stays: its view is in use", name);
	return explain(-EBUSY, message,
		       "session '%s' stays: '%s' (%ld) uses its view; later, "
		       "'mountctl unmount %s' ends it",
		       name, holders->holder[0].command,
		       (long)holders->holder[0].pid, name);
}

static int end(const struct record *record, char **message)
{
	struct holders holders = {0};
	int r;

	if (!record->live)
		return session_clear(record, message);
	/* The view may be our own working directory. */
	if (chdir("/") < 0)
		return -errno;
	r = session_end(record, false, now_ms() + END_MS, &holders, message);
	if (r == -EBUSY && !*message)
		explain_busy(record, &holders, message);
	else if (r == -EINPROGRESS)
		explain(r, message,
			"session '%s' is unmounted, but still in use",
			record->spec.name);
	holders_release(&holders);
	return r;
}

/* Only what could be removed then is unmounted. */
static int remove_session(const struct record *record, char **message)
{
	const char *worktree = record->spec.worktree;
	int r = hook_worktree_check(worktree, message);

	if (r == 0)
		r = end(record, message);
	return r < 0 ? r : hook_worktree_remove(worktree, message);
}

/* The worktree itself, and nothing below it. */
static bool is_its_worktree(const struct record *record, const char *path)
{
	autofree char *seen = session_directory(&record->spec);

	return record->spec.worktree && seen &&
	       (strcmp(path, seen) == 0 ||
		strcmp(path, record->spec.worktree) == 0);
}

static int remove_found(const struct sessions *sessions, const char *path,
			char **message)
{
	autofree char *plain = path_normalise("/", path);
	const struct record *record = NULL;
	autofree char *why = NULL;
	int r = plain ? sessions_find(sessions, path, &record, NULL, &why)
		      : -ENOMEM;

	if (r == -ENOENT || (r == 0 && record->spec.tier != TIER_VIEW))
		return hook_worktree_remove(path, message);
	if (r < 0)
		return explain(r, message, "%s", why ? why : strerror(-r));
	if (!is_its_worktree(record, plain))
		return explain(-EINVAL, message,
			       "'%s' isn't the worktree of the session '%s'",
			       path, record->spec.name);
	return remove_session(record, message);
}

int hook_session_remove(const char *path, char **message)
{
	struct sessions sessions = {0};
	int r = sessions_read(&sessions, message);

	if (r == 0)
		r = remove_found(&sessions, path, message);
	sessions_release(&sessions);
	return r;
}

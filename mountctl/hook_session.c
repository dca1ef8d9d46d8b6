#include "mountctl/hook_session.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/record.h"
#include "mountctl/command.h"
#include "mountctl/dispose.h"
#include "mountctl/gitrules.h"
#include "mountctl/mounting.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/removal.h"
#include "mountctl/sessions.h"

/* How many names of a kind are tried. */
#define MAX_NAMES 100

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

/* The worktree itself, and nothing below it. */
static bool is_its_worktree(const struct session_spec *spec, const char *path)
{
	autofree char *seen = session_directory(spec);

	return spec->worktree && seen &&
	       (strcmp(path, seen) == 0 || strcmp(path, spec->worktree) == 0);
}

/* Sessions behind run aren't the harness's to end. */
static int check_session(const struct remains *remains)
{
	const struct session_spec *spec = remains_spec(remains);

	if (spec && !is_its_worktree(spec, remains->path)) {
		say("'%s' isn't the worktree of the session '%s'",
		    remains->path, spec->name);
		return STATUS_FAILURE;
	}
	if (remains->record && remains->record->live &&
	    spec->tier != TIER_VIEW) {
		say("'%s' stays: the session '%s' works in it", remains->path,
		    spec->name);
		return STATUS_FAILURE;
	}
	return STATUS_OK;
}

static int remove_found(const struct sessions *sessions,
			struct remains *remains)
{
	struct disposal disposal = {
		.sessions = sessions,
		.remains = remains,
		.dismissal = {.timeout_ms = DISMISS_TIMEOUT * 1000,
			      .command = "unmount"},
		.remove = true,
		.leaves_kept = true,
		.forcing = "'mountctl teardown --remove-worktree --force'",
		.list = stderr,
	};
	int status = check_session(remains);

	if (status == STATUS_OK)
		status = disposal_look(&disposal);
	if (status == STATUS_OK)
		status = dispose(&disposal);
	disposal_release(&disposal);
	return status;
}

/* What isn't there may be what an earlier removal was broken off at. */
static int remove_missing(const char *path)
{
	autofree char *message = NULL;
	int r;

	if (access(path, F_OK) == 0) {
		say("'%s' stays: it is no worktree", path);
		return STATUS_FAILURE;
	}
	r = removal_finish(path, &message);
	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

int hook_session_remove(const char *path, bool inside)
{
	struct sessions sessions = {0};
	struct remains remains;
	autofree char *message = NULL;
	int status, r = inside ? 0 : sessions_read(&sessions, &message);

	remains_init(&remains);
	/* The view may be our own working directory. */
	if (r == 0 && chdir("/") < 0)
		r = -errno;
	if (r == 0)
		r = inside ? remains_find_worktree(path, &remains, &message)
			   : remains_find(&sessions, path, &remains, &message);
	if (r == -ENOENT && remains.path)
		status = remove_missing(remains.path);
	else
		status = r < 0 ? fail_message(r, message)
			       : remove_found(&sessions, &remains);
	remains_release(&remains);
	sessions_release(&sessions);
	return status;
}

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/doctor.h"
#include "mountctl/environment.h"
#include "mountctl/server.h"

/* The oldest that the tests are run with. */
#define GIT_MAJOR 2
#define GIT_MINOR 39

static void check_server(struct checks *checks)
{
	autofree char *path = NULL, *message = NULL;
	int r = server_find_program(&path, &message);

	if (r < 0)
		check_error(checks, "worktreefs", CHECK_FAIL, r, message);
	else
		check_add(checks, "worktreefs", CHECK_OK, "'%s'", path);
}

static void check_git(struct checks *checks)
{
	static const char *const args[] = {"--version", NULL};
	autogitoutput struct git_output output = {0};
	int major = 0, minor = 0;
	int r = git_run(args, &output);
	bool old;

	if (r < 0) {
		check_add(checks, "git", CHECK_FAIL, "%s",
			  r == -ENOENT ? "there is none on PATH"
				       : strerror(-r));
		check_mend(checks, "install git %d.%d or later", GIT_MAJOR,
			   GIT_MINOR);
		return;
	}
	output.out[strcspn(output.out, "\n")] = '\0';
	if (output.status != 0 ||
	    sscanf(output.out, "git version %d.%d", &major, &minor) != 2) {
		check_add(checks, "git", CHECK_WARN,
			  "its version can't be told from '%s'", output.out);
		return;
	}
	old = major < GIT_MAJOR || (major == GIT_MAJOR && minor < GIT_MINOR);
	check_add(checks, "git", old ? CHECK_WARN : CHECK_OK, "%s", output.out);
	if (old)
		check_mend(checks, "tested with git %d.%d and later", GIT_MAJOR,
			   GIT_MINOR);
}

/*
 * Records and logs
 */

/* The directory, or the one above it that is there. Allocated, or NULL. */
static char *nearest_existing(const char *path)
{
	char *at = strdup(path);
	struct stat st;

	while (at && lstat(at, &st) < 0 && strcmp(at, "/") != 0) {
		char *up = path_dirname(at);

		free(at);
		at = up;
	}
	return at;
}

static void check_runtime(struct checks *checks)
{
	autofree char *path = NULL;
	autofd int fd = -1;
	int r = record_base_open(false, &fd, &path);

	if (r == -ENOENT) {
		check_add(checks, "records", CHECK_OK, "none yet");
	} else if (r == -EPERM) {
		check_add(checks, "records", CHECK_FAIL,
			  "the directory of sessions belongs to somebody "
			  "else, or others can write it");
		check_mend(checks, "set XDG_RUNTIME_DIR to a directory of your "
				   "own with mode 0700");
	} else if (r < 0) {
		check_error(checks, "records", CHECK_FAIL, r, NULL);
	} else {
		check_add(checks, "records", CHECK_OK, "in '%s'", path);
	}
}

static void check_state(struct checks *checks)
{
	autofree char *path = NULL, *there = NULL;
	int r = state_base_path(&path);

	there = r == 0 ? nearest_existing(path) : NULL;
	if (!there) {
		check_error(checks, "logs", CHECK_WARN, r < 0 ? r : -ENOMEM,
			    NULL);
		check_mend(checks, "set HOME or XDG_STATE_HOME");
		return;
	}
	if (access(there, W_OK) == 0) {
		check_add(checks, "logs", CHECK_OK, "in '%s'", path);
		return;
	}
	check_add(checks, "logs", CHECK_FAIL, "'%s' can't be written: %s",
		  there, strerror(errno));
	check_mend(checks, "set XDG_STATE_HOME to a directory that can be");
}

/*
 * What the environment says
 */

static void check_session(struct checks *checks)
{
	struct session_spec spec;
	int r = environment_session(&spec);

	if (r == -ENOENT)
		return;
	if (r < 0) {
		check_add(checks, "session", CHECK_WARN,
			  SESSION_VARIABLE " names what can't be read: %s",
			  strerror(-r));
		check_mend(checks, "unset " SESSION_VARIABLE);
		return;
	}
	check_add(checks, "session", CHECK_OK,
		  "this is in the session '%s': all that is said here is as "
		  "seen from in there, and 'run' narrows its rules",
		  spec.name);
	session_spec_release(&spec);
}

static void check_switches(struct checks *checks)
{
	const char *off = getenv("WORKTREEFS");
	const char *fallback = getenv("WORKTREEFS_FALLBACK");

	if (off && strcmp(off, "off") == 0) {
		check_add(checks, "environment", CHECK_FAIL,
			  "WORKTREEFS=off: 'run' starts commands without a "
			  "guard");
		check_mend(checks, "unset WORKTREEFS");
	} else if (fallback && strcmp(fallback, "none") == 0) {
		check_add(checks, "environment", CHECK_WARN,
			  "WORKTREEFS_FALLBACK=none: where no guard can be "
			  "had, 'run' starts commands without one");
		check_mend(checks, "unset WORKTREEFS_FALLBACK");
	}
}

void doctor_programs(struct checks *checks)
{
	check_server(checks);
	check_git(checks);
	check_runtime(checks);
	check_state(checks);
	check_session(checks);
	check_switches(checks);
}

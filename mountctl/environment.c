#include "mountctl/environment.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/output.h"

#define SNAPSHOT_MAX (16u << 20)
#define SNAPSHOT_SEALS \
	(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Above those that shell scripts number by hand. */
#define SNAPSHOT_FD_MIN 10

/* `git rev-parse --local-env-vars`, but for GIT_CONFIG_*; git 2.39 to 2.51. */
static const char git_variables[][40] = {
	"GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_CONFIG",
	"GIT_OBJECT_DIRECTORY",
	"GIT_DIR",
	"GIT_WORK_TREE",
	"GIT_IMPLICIT_WORK_TREE",
	"GIT_GRAFT_FILE",
	"GIT_INDEX_FILE",
	"GIT_NO_REPLACE_OBJECTS",
	"GIT_REPLACE_REF_BASE",
	"GIT_PREFIX",
	"GIT_INTERNAL_SUPER_PREFIX",
	"GIT_SHALLOW_FILE",
	"GIT_COMMON_DIR",
};

void environment_unset_git(void)
{
	char names[sizeof(git_variables) + 2 * ARRAY_SIZE(git_variables)];
	char *end = names;

	for (size_t i = 0; i < ARRAY_SIZE(git_variables); i++) {
		if (!getenv(git_variables[i]))
			continue;
		if (end != names)
			end = stpcpy(end, ", ");
		end = stpcpy(end, git_variables[i]);
		unsetenv(git_variables[i]);
	}
	if (end != names)
		warn("unset %s: git shall find the repository by itself",
		     names);
}

int environment_session(struct session_spec *ret_spec)
{
	const char *path = getenv(SESSION_VARIABLE);
	autofree char *text = NULL;
	autofd int fd = -1;
	int r;

	if (!path || !*path)
		return -ENOENT;
	/* Not O_NOFOLLOW: one in /proc/self/fd is a link. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	r = read_fd(fd, SNAPSHOT_MAX, &text, NULL);
	return r < 0 ? r : session_spec_from_json(text, ret_spec);
}

bool environment_is_inside(const char *name)
{
	struct session_spec spec;
	bool inside;

	session_spec_init(&spec);
	inside =
		environment_session(&spec) == 0 && strcmp(spec.name, name) == 0;
	session_spec_release(&spec);
	return inside;
}

static bool is_snapshot(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SNAPSHOT_SEALS) == SNAPSHOT_SEALS;
}

void environment_close_outer(void)
{
	const char *value = getenv(SESSION_FD_VARIABLE);
	char *end;
	long fd = value ? strtol(value, &end, 10) : 0;

	/* Whoever closed it may have opened something else in its place. */
	if (fd > STDERR_FILENO && fd <= INT_MAX && *end == '\0' &&
	    is_snapshot((int)fd))
		close((int)fd);
	unsetenv(SESSION_FD_VARIABLE);
}

int environment_set_session(const char *path, const char *text)
{
	autofd int made = memfd_create("worktreefs-session",
				       MFD_CLOEXEC | MFD_ALLOW_SEALING);
	autofd int fd = -1;
	char number[16];
	int r;

	if (made < 0)
		return -errno;
	r = write_all(made, text, strlen(text));
	if (r < 0)
		return r;
	if (lseek(made, 0, SEEK_SET) < 0 ||
	    fcntl(made, F_ADD_SEALS, SNAPSHOT_SEALS) < 0)
		return -errno;
	fd = fcntl(made, F_DUPFD, SNAPSHOT_FD_MIN);
	if (fd < 0)
		return -errno;
	snprintf(number, sizeof(number), "%d", fd);
	if (setenv(SESSION_VARIABLE, path, 1) < 0 ||
	    setenv(SESSION_FD_VARIABLE, number, 1) < 0)
		return -errno;
	take_fd(&fd);
	return 0;
}

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "mountctl/environment.h"

static char *session_text(const char *name)
{
	struct session_spec spec;
	char *text;

	session_spec_init(&spec);
	spec.name = strdup(name);
	spec.tier = TIER_ENFORCED;
	cr_assert_eq(session_spec_add_view(&spec, "/r", "/r"), 0);
	text = session_spec_to_json(&spec);
	session_spec_release(&spec);
	cr_assert_not_null(text);
	return text;
}

static int session_fd(void)
{
	const char *number = getenv(SESSION_FD_VARIABLE);

	cr_assert_not_null(number);
	return atoi(number);
}

/* Only the memfd: the file would be made elsewhere. */
static void set_session(const char *name)
{
	autofree char *text = session_text(name);

	cr_assert_eq(environment_set_session("/nonexistent", text), 0);
	setenv(SESSION_VARIABLE, fd_path(session_fd()).text, 1);
}

Test(environment, git_is_led_nowhere)
{
	setenv("GIT_DIR", "/x", 1);
	setenv("GIT_WORK_TREE", "", 1);
	setenv("GIT_CONFIG_COUNT", "0", 1);
	setenv("GIT_AUTHOR_NAME", "A", 1);
	environment_unset_git();
	cr_assert_null(getenv("GIT_DIR"));
	cr_assert_null(getenv("GIT_WORK_TREE"));
	cr_assert_str_eq(getenv("GIT_CONFIG_COUNT"), "0");
	cr_assert_str_eq(getenv("GIT_AUTHOR_NAME"), "A");
}

/* Whatever git calls local, but for its configuration, is known here. */
Test(environment, git_agrees)
{
	FILE *git = popen("git rev-parse --local-env-vars", "r");
	char name[128];

	cr_assert_not_null(git);
	while (fscanf(git, "%127s", name) == 1)
		setenv(name, "x", 1);
	pclose(git);
	environment_unset_git();
	git = popen("git rev-parse --local-env-vars", "r");
	while (fscanf(git, "%127s", name) == 1)
		cr_assert(!getenv(name) ||
				  strncmp(name, "GIT_CONFIG_", 11) == 0,
			  "%s is left", name);
	pclose(git);
}

Test(environment, in_no_session)
{
	struct session_spec spec;

	session_spec_init(&spec);
	unsetenv(SESSION_VARIABLE);
	cr_assert_eq(environment_session(&spec), -ENOENT);
	cr_assert(!environment_is_inside("s"));
	setenv(SESSION_VARIABLE, "", 1);
	cr_assert_eq(environment_session(&spec), -ENOENT);
	setenv(SESSION_VARIABLE, "/nonexistent", 1);
	cr_assert_eq(environment_session(&spec), -ENOENT);
	setenv(SESSION_VARIABLE, "/dev/null", 1);
	cr_assert_eq(environment_session(&spec), -EINVAL);
	session_spec_release(&spec);
}

Test(environment, the_session_is_read_back)
{
	struct session_spec spec;

	session_spec_init(&spec);
	set_session("s");
	cr_assert_eq(environment_session(&spec), 0);
	cr_assert_str_eq(spec.name, "s");
	cr_assert(environment_is_inside("s"));
	cr_assert(!environment_is_inside("t"));
	session_spec_release(&spec);
}

Test(environment, the_descriptor_is_sealed_and_stays)
{
	int fd;

	set_session("s");
	fd = session_fd();
	cr_assert_geq(fd, 10);
	cr_assert_eq(fcntl(fd, F_GETFD), 0);
	cr_assert_eq(write(fd, "x", 1), -1);
	cr_assert_eq(ftruncate(fd, 0), -1);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), -1);
}

Test(environment, an_outer_sessions_descriptor_is_closed)
{
	int fd;

	set_session("s");
	fd = session_fd();
	environment_close_outer();
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	cr_assert_null(getenv(SESSION_FD_VARIABLE));
	environment_close_outer();
}

Test(environment, what_took_its_number_is_not)
{
	autofd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int fd;

	set_session("s");
	fd = session_fd();
	cr_assert_eq(dup2(null, fd), fd);
	environment_close_outer();
	cr_assert_eq(fcntl(fd, F_GETFD), 0);
}

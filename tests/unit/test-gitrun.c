#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrun.h"

static char scratch[] = "/tmp/test-gitrun-XXXXXX";

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(scratch));
	cr_assert_eq(chdir(scratch), 0);
}

static void tear_down(void)
{
	char command[sizeof(scratch) + sizeof("/bin/rm -rf ")];

	snprintf(command, sizeof(command), "/bin/rm -rf %s", scratch);
	cr_expect_eq(system(command), 0);
}

TestSuite(gitrun, .init = set_up, .fini = tear_down, .timeout = 60);

/* Puts a program named git first on PATH. */
static void fake_git(const char *script)
{
	autofree char *path = NULL;

	cr_assert_gt(asprintf(&path, "%s:%s", scratch, getenv("PATH")), 0);
	cr_assert_eq(setenv("PATH", path, 1), 0);
	cr_assert_eq(
		write_file_at(AT_FDCWD, "git", script, strlen(script), 0755),
		0);
}

Test(gitrun, gives_output_errors_and_status)
{
	const char *const version[] = {"--version", NULL};
	const char *const wrong[] = {"no-such-command", NULL};
	autogitoutput struct git_output good = {0};
	autogitoutput struct git_output bad = {0};

	cr_assert_eq(git_run(version, &good), 0);
	cr_expect_eq(good.status, 0);
	cr_expect_eq(strncmp(good.out, "git version ", 12), 0);
	cr_expect_eq(good.size, strlen(good.out));
	cr_expect_str_eq(good.err, "");

	cr_assert_eq(git_run(wrong, &bad), 0);
	cr_expect_eq(bad.status, 1);
	cr_expect_eq(bad.size, 0);
	cr_expect_str_eq(bad.out, "");
	cr_expect_not_null(strstr(bad.err, "no-such-command"));
	cr_expect_neq(bad.err[strlen(bad.err) - 1], '\n');
}

Test(gitrun, passes_no_git_variable)
{
	const char *const args[] = {"two words", "", NULL};
	autogitoutput struct git_output output = {0};

	fake_git("#!/bin/sh\n"
		 "env | grep -e ^GIT_ -e ^LD_ | grep -v '^GIT_TRACE2.*=0$'\n"
		 "printf '%s|' \"$PWD\" \"$KEPT\" \"$#\" \"$1\"\n"
		 "cat\n");
	setenv("GIT_DIR", "/nowhere", 1);
	setenv("GIT_CONFIG_COUNT", "1", 1);
	setenv("GIT_EXEC_PATH", "/nowhere", 1);
	setenv("GIT_TRACE2", "/nowhere", 1);
	setenv("LD_LIBRARY_PATH", "/nowhere", 1);
	setenv("KEPT", "kept", 1);
	cr_assert_eq(git_run(args, &output), 0);
	cr_expect_str_eq(output.out, "/|kept|2|two words|");
	cr_expect_str_eq(getenv("GIT_DIR"), "/nowhere");
}

Test(gitrun, is_found_once)
{
	const char *const args[] = {"--version", NULL};
	autogitoutput struct git_output output = {0};
	autogitoutput struct git_output again = {0};

	cr_assert_eq(git_run(args, &output), 0);
	fake_git("#!/bin/sh\necho another\n");
	cr_assert_eq(git_run(args, &again), 0);
	cr_expect_str_eq(again.out, output.out);
}

Test(gitrun, doesnt_inherit_signal_habits)
{
	const char *const args[] = {NULL};
	autogitoutput struct git_output output = {0};
	sigset_t all;

	fake_git("#!/bin/sh\nkill -PIPE $$\nkill -TERM $$\necho survived\n");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(git_run(args, &output), 0);
	cr_expect_eq(output.status, 128 + SIGPIPE);
	cr_expect_str_eq(output.out, "");
}

Test(gitrun, takes_much_output_but_not_any)
{
	const char *const args[] = {NULL};
	autogitoutput struct git_output output = {0};
	struct git_output untouched = {.status = 77};

	/* More on both sides than a pipe holds. */
	fake_git("#!/bin/sh\n"
		 "head -c 300000 /dev/zero | tr '\\0' e >&2\n"
		 "head -c 300000 /dev/zero\n");
	cr_assert_eq(git_run(args, &output), 0);
	cr_expect_eq(output.size, 300000);
	cr_expect_eq(strlen(output.err), 65536);

	fake_git("#!/bin/sh\nexec cat /dev/zero\n");
	cr_expect_eq(git_run(args, &untouched), -EFBIG);
	cr_expect_eq(untouched.status, 77);
	cr_expect_null(untouched.out);
}

Test(gitrun, says_when_there_is_no_git)
{
	const char *const args[] = {"--version", NULL};
	struct git_output untouched = {.status = 77};

	setenv("PATH", scratch, 1);
	cr_expect_eq(git_run(args, &untouched), -ENOENT);
	cr_expect_eq(untouched.status, 77);
}

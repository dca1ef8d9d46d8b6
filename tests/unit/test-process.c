#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/process.h"

/* A child that waits for its end. */
static pid_t child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(process, start_time_is_when_it_started)
{
	struct timespec now;
	uint64_t ticks;

	cr_assert_eq(process_start_time(getpid(), &ticks), 0);
	clock_gettime(CLOCK_BOOTTIME, &now);
	cr_expect_leq(ticks, (uint64_t)(now.tv_sec + 1) *
				     (uint64_t)sysconf(_SC_CLK_TCK));
	cr_expect(process_is(getpid(), ticks));
	cr_expect_not(process_is(getpid(), ticks + 1));
}

Test(process, a_name_with_parentheses_and_spaces)
{
	uint64_t before, after;

	cr_assert_eq(process_start_time(getpid(), &before), 0);
	cr_assert_eq(prctl(PR_SET_NAME, ") S 1 1 (a b)"), 0);
	cr_assert_eq(process_start_time(getpid(), &after), 0);
	cr_expect_eq(before, after);
	cr_assert_eq(prctl(PR_SET_NAME, "x) Z 9"), 0);
	cr_expect(process_is(getpid(), before));
}

Test(process, nobody_and_impossible_pids)
{
	uint64_t ticks = 7;
	pid_t pid = child();

	end(pid);
	cr_expect_eq(process_start_time(pid, &ticks), -ESRCH);
	cr_expect_eq(process_start_time(0, &ticks), -ESRCH);
	cr_expect_eq(process_start_time(-1, &ticks), -ESRCH);
	cr_expect_eq(ticks, 7);
	cr_expect_not(process_is(pid, 0));
	cr_expect_not(process_is(-1, 0));
	cr_expect_eq(process_open(pid, 0), -ESRCH);
	cr_expect_eq(process_open(0, 0), -ESRCH);
}

Test(process, a_zombie_is_no_process)
{
	pid_t pid = child();
	uint64_t ticks;
	siginfo_t info;

	cr_assert_eq(process_start_time(pid, &ticks), 0);
	cr_expect(process_is(pid, ticks));
	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_expect_not(process_is(pid, ticks));
	cr_expect_eq(process_open(pid, ticks), -ESRCH);
	end(pid);
}

Test(process, a_pidfd_of_exactly_that_one)
{
	pid_t pid = child();
	struct pollfd poll_fd = {.events = POLLIN};
	autofd int fd = -1;
	uint64_t ticks;

	cr_assert_eq(process_start_time(pid, &ticks), 0);
	cr_expect_eq(process_open(pid, ticks + 1), -ESRCH);
	fd = process_open(pid, ticks);
	cr_assert_geq(fd, 0);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	poll_fd.fd = fd;
	cr_expect_eq(poll(&poll_fd, 1, 0), 0);
	end(pid);
	cr_expect_eq(poll(&poll_fd, 1, 1000), 1);
}

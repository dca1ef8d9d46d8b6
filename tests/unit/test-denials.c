/*
 * The denial log.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/denials.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"

#define LOG "denials.jsonl"
#define OLD LOG ".1"

static char scratch[] = "/tmp/test-denials-XXXXXX";
static char rule_path[] = "/r", rule_reason[] = "the main checkout";
static const struct rule rule = {.path = rule_path,
				 .access = ACCESS_RO,
				 .origin = ORIGIN_DEFAULT,
				 .reason = rule_reason};
static struct session_spec spec;

/* The log is in the working directory. */
static void set_up(void)
{
	cr_assert_not_null(mkdtemp(scratch));
	cr_assert_eq(chdir(scratch), 0);
	session_spec_init(&spec);
	spec.name = strdup("wt");
	spec.main = strdup("/r");
	spec.git_dir = strdup("/r/.git");
	spec.admin_dir = strdup("/r/.git/worktrees/wt");
	spec.worktree = strdup("/r/wt");
	spec.state_dir = strdup(scratch);
}

static void tear_down(void)
{
	char command[sizeof(scratch) + sizeof("rm -rf ")];

	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	cr_expect_eq(system(command), 0);
	session_spec_release(&spec);
}

TestSuite(denials, .init = set_up, .fini = tear_down);

static void start(void)
{
	cr_assert_eq(denials_start(&spec), 0);
}

static void deny_as(pid_t pid, enum policy_op op, const char *path)
{
	const struct denial denial = {
		.pid = pid,
		.op = op,
		.path = path,
		.rule = &rule,
		.error = -EROFS,
	};

	denials_add(&denial);
}

static void deny(enum policy_op op, const char *path)
{
	deny_as(getpid(), op, path);
}

/* The file's lines as an array; each must be an object. */
static cJSON *read_log(const char *name)
{
	cJSON *lines = cJSON_CreateArray();
	autofree char *text = NULL;
	char *line, *rest;

	cr_assert_eq(read_file_at(AT_FDCWD, name, 64u << 20, &text, NULL), 0,
		     "%s", name);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		cJSON *object = cJSON_Parse(line);

		cr_assert(cJSON_IsObject(object), "%.200s", line);
		cJSON_AddItemToArray(lines, object);
	}
	return lines;
}

static const char *text_of(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));

	return text ? text : "";
}

static double number_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Of all lines together. */
static double sum_of(const cJSON *lines, const char *key)
{
	const cJSON *line;
	double sum = 0;

	cJSON_ArrayForEach(line, lines) sum += number_of(line, key);
	return sum;
}

Test(denials, a_line_has_all_there_is_to_say)
{
	char exe[4096], comm[64];
	cJSON *lines, *line;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	cr_assert_gt(n, 0);
	exe[n] = '\0';
	snprintf(comm, sizeof(comm), "%.15s", strrchr(exe, '/') + 1);
	start();
	deny(OP_CREATE, "/r/src/new.c");
	denials_stop();
	lines = read_log(LOG);
	cr_assert_eq(cJSON_GetArraySize(lines), 1);
	line = cJSON_GetArrayItem(lines, 0);
	cr_expect_str_eq(text_of(line, "session"), "wt");
	cr_expect_str_eq(text_of(line, "op"), "create");
	cr_expect_str_eq(text_of(line, "path"), "/r/src/new.c");
	cr_expect_str_eq(text_of(line, "access"), "ro");
	cr_expect_str_eq(text_of(line, "rule"), "/r");
	cr_expect_str_eq(text_of(line, "origin"), "default");
	cr_expect_str_eq(text_of(line, "errno"), "EROFS");
	cr_expect_str_eq(text_of(line, "twin"), "/r/wt/src/new.c");
	cr_expect_str_eq(text_of(line, "exe"), exe);
	cr_expect_str_eq(text_of(line, "comm"), comm);
	cr_expect_eq(number_of(line, "pid"), getpid());
	cr_expect_eq(number_of(line, "count"), 1);
	cr_expect_eq(strlen(text_of(line, "time")),
		     strlen("2026-01-31T12:00:00.123Z"));
	cr_expect_null(cJSON_GetObjectItem(line, "what"));
	cJSON_Delete(lines);
}

Test(denials, repeats_within_a_second_are_one_line)
{
	cJSON *lines, *first;

	start();
	for (int i = 0; i < 50; i++)
		deny(OP_WRITE, "/r/a");
	deny(OP_REMOVE, "/r/a");
	deny(OP_WRITE, "/r/b");
	deny_as(1, OP_WRITE, "/r/a");
	/* The second is over, and written, before the next begins. */
	usleep(1500000);
	deny(OP_WRITE, "/r/a");
	denials_stop();
	lines = read_log(LOG);
	first = cJSON_GetArrayItem(lines, 0);
	cr_expect_eq(cJSON_GetArraySize(lines), 5);
	cr_expect_eq(number_of(first, "count"), 50);
	cr_expect_str_eq(text_of(first, "path"), "/r/a");
	cr_expect_eq(sum_of(lines, "count"), 54);
	cJSON_Delete(lines);
}

static void *deny_in_thread(void *path)
{
	for (int i = 0; i < 5; i++)
		deny_as(gettid(), OP_WRITE, path);
	return NULL;
}

Test(denials, threads_count_as_their_process)
{
	static char path[] = "/r/a";
	pthread_t threads[4];
	cJSON *lines;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		cr_assert_eq(
			pthread_create(&threads[i], NULL, deny_in_thread, path),
			0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	denials_stop();
	lines = read_log(LOG);
	cr_expect_eq(cJSON_GetArraySize(lines), 1);
	cr_expect_eq(number_of(cJSON_GetArrayItem(lines, 0), "pid"), getpid());
	cr_expect_eq(sum_of(lines, "count"), 20);
	cJSON_Delete(lines);
}

/* Whatever a name holds, the line is JSON and the name can be had back. */
Test(denials, names_that_are_not_utf8_come_back)
{
	static const char *const paths[] = {
		"/r/\xff\xfe",	  "/r/\xc3(",	    "/r/a\nb\tc\x1b[31m",
		"/r/100%41\"\\x", "/r/gr\xc3\xbcn",
	};
	cJSON *lines;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		deny(OP_WRITE, paths[i]);
		usleep(2000); /* they are in order of their times */
	}
	denials_stop();
	lines = read_log(LOG);
	cr_assert_eq(cJSON_GetArraySize(lines), (int)ARRAY_SIZE(paths));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const cJSON *line = cJSON_GetArrayItem(lines, (int)i);
		autofree char *path = json_text_decode(text_of(line, "path"));

		cr_expect_str_eq(path, paths[i]);
	}
	cr_expect_str_eq(text_of(cJSON_GetArrayItem(lines, 0), "path"),
			 "/r/%FF%FE");
	cJSON_Delete(lines);
}

Test(denials, who_has_gone_has_no_name)
{
	pid_t gone = fork();
	cJSON *lines, *line;

	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	start();
	deny_as(gone, OP_WRITE, "/r/a");
	deny_as(0, OP_WRITE, "/r/b");
	denials_stop();
	lines = read_log(LOG);
	cJSON_ArrayForEach(line, lines)
	{
		cr_expect(cJSON_IsNull(cJSON_GetObjectItem(line, "comm")));
		cr_expect(cJSON_IsNull(cJSON_GetObjectItem(line, "exe")));
	}
	cr_expect_eq(cJSON_GetArraySize(lines), 2);
	cJSON_Delete(lines);
}

Test(denials, what_does_not_fit_is_counted_and_said)
{
	enum { N = 20000 };
	struct denial_count programs[1];
	cJSON *lines;
	char path[64];

	start();
	for (int i = 0; i < N; i++) {
		snprintf(path, sizeof(path), "/r/%d", i);
		deny(OP_WRITE, path);
	}
	cr_assert_eq(denials_by_program(programs, 1), 1);
	cr_expect_eq(programs[0].count, N);
	free(programs[0].name);
	denials_stop();
	lines = read_log(LOG);
	cr_expect_gt(sum_of(lines, "dropped"), 0);
	cr_expect_eq(sum_of(lines, "count") + sum_of(lines, "dropped"), N);
	cJSON_Delete(lines);
}

/* Denies so many writes, each a line of some 8 KiB. */
static void deny_long(int n)
{
	char path[4001];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (int i = 0; i < n; i++) {
		snprintf(path, 16, "/r/%06d", i);
		path[9] = 'x';
		deny(OP_WRITE, path);
	}
}

Test(denials, the_log_is_bounded)
{
	struct stat log, old;
	cJSON *lines, *old_lines;

	start();
	deny_long(700);
	denials_stop();
	cr_assert_eq(stat(LOG, &log), 0);
	cr_assert_eq(stat(OLD, &old), 0);
	cr_expect_lt(log.st_size, DENIALS_MAX_SIZE);
	cr_expect_lt(old.st_size, DENIALS_MAX_SIZE + 16384);
	lines = read_log(LOG);
	old_lines = read_log(OLD);
	cr_expect_eq(sum_of(lines, "count") + sum_of(old_lines, "count"), 700);
	cJSON_Delete(lines);
	cJSON_Delete(old_lines);

	/* The next one takes the place of the old one. */
	start();
	deny_long(1400);
	denials_stop();
	cr_assert_eq(stat(OLD, &old), 0);
	cr_expect_lt(old.st_size, DENIALS_MAX_SIZE + 16384);
	cr_expect_eq(access(OLD ".1", F_OK), -1);
}

/* A session of the same name goes on in it. */
Test(denials, the_log_is_added_to)
{
	cJSON *lines;

	for (int i = 0; i < 2; i++) {
		start();
		deny(OP_WRITE, "/r/a");
		denials_stop();
	}
	lines = read_log(LOG);
	cr_expect_eq(cJSON_GetArraySize(lines), 2);
	cJSON_Delete(lines);
}

Test(denials, a_log_that_was_taken_away_is_begun_anew)
{
	cJSON *lines;

	start();
	deny(OP_WRITE, "/r/a");
	usleep(1500000);
	cr_assert_eq(unlink(LOG), 0);
	deny(OP_WRITE, "/r/b");
	denials_stop();
	lines = read_log(LOG);
	cr_expect_eq(cJSON_GetArraySize(lines), 1);
	cr_expect_str_eq(text_of(cJSON_GetArrayItem(lines, 0), "path"), "/r/b");
	cJSON_Delete(lines);
}

/* A small file system on the state directory. */
static void mount_small(void)
{
	if (unshare(geteuid() == 0 ? CLONE_NEWNS
				   : CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", scratch, "tmpfs", 0, "size=64k") < 0)
		cr_skip("no file system can be mounted here");
	cr_assert_eq(chdir(scratch), 0);
}

static void fill_disk(void)
{
	static const char zeros[4096];
	autofd int fd = open("filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
}

Test(denials, a_full_disk_loses_lines_only)
{
	cJSON *lines;

	mount_small();
	start();
	deny(OP_WRITE, "/r/before");
	usleep(1500000);
	fill_disk();
	deny_long(20);
	usleep(1500000);
	cr_assert_eq(unlink("filler"), 0);
	deny(OP_WRITE, "/r/after");
	denials_stop();
	lines = read_log(LOG);
	cr_expect_gt(sum_of(lines, "dropped"), 15);
	cr_expect_eq(sum_of(lines, "count") + sum_of(lines, "dropped"), 22);
	cr_expect_str_eq(text_of(cJSON_GetArrayItem(lines, 0), "path"),
			 "/r/before");
	cJSON_Delete(lines);
	cr_expect_eq(chdir("/"), 0);
	cr_expect_eq(umount(scratch), 0);
}

Test(denials, without_a_state_directory_they_are_counted)
{
	struct denial_count paths[4];

	free(spec.state_dir);
	spec.state_dir = NULL;
	start();
	for (int i = 0; i < 3; i++)
		deny(OP_WRITE, "/r/often");
	deny(OP_WRITE, "/r/once");
	cr_assert_eq(denials_by_path(paths, 4), 2);
	cr_expect_str_eq(paths[0].name, "/r/often");
	cr_expect_eq(paths[0].count, 3);
	cr_expect_str_eq(paths[1].name, "/r/once");
	for (size_t i = 0; i < 2; i++)
		free(paths[i].name);
	denials_stop();
	cr_expect_eq(access(LOG, F_OK), -1);
}

/* Starts a process that is called git and has these arguments. */
static pid_t start_git(const char *script_args)
{
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		char command[256];

		dup2(ready[1], STDOUT_FILENO);
		snprintf(command, sizeof(command),
			 "exec ./git -c 'echo; kill -STOP $$' %s", script_args);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void stop_git(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(denials, optional_locks_of_git_are_counted_and_not_logged)
{
	static const struct {
		const char *args, *path;
		bool logged;
	} rows[] = {
		{"status", "/r/.git/index.lock", false},
		{"-C /r --no-pager diff", "/r/.git/index.lock", false},
		{"status", "/r/.git/worktrees/other/index.lock", false},
		{"status", "/r/.git/config.lock", true},
		{"status", "/r/index.lock", true},
		{"status", "/r/.git/modules/x/index.lock", true},
		{"add status", "/r/.git/index.lock", true},
		{"commit -m diff", "/r/.git/index.lock", true},
	};
	struct denial_count counts[16];
	double logged = 0, counted = 0;
	cJSON *lines;
	size_t n;

	cr_assert_eq(system("cp /bin/sh git"), 0);
	start();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = start_git(rows[i].args);

		deny_as(pid, OP_CREATE, rows[i].path);
		logged += rows[i].logged;
		stop_git(pid);
	}
	n = denials_by_path(counts, ARRAY_SIZE(counts));
	for (size_t i = 0; i < n; i++) {
		counted += (double)counts[i].count;
		free(counts[i].name);
	}
	denials_stop();
	lines = read_log(LOG);
	cr_expect_eq(counted, ARRAY_SIZE(rows));
	cr_expect_eq(sum_of(lines, "count"), logged);
	cJSON_Delete(lines);
}

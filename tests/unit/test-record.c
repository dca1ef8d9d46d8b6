#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "fs/lib/record.h"

/* Each test has a runtime directory of its own, which is "." too. */
static char scratch[] = "/tmp/test-record-XXXXXX";
static char *scratch_real;

static void set_up(void)
{
	umask(022);
	cr_assert_not_null(mkdtemp(scratch));
	cr_assert_eq(chdir(scratch), 0);
	scratch_real = getcwd(NULL, 0);
	setenv("XDG_RUNTIME_DIR", scratch, 1);
}

static void tear_down(void)
{
	char command[sizeof(scratch) + sizeof("rm -rf ")];

	free(scratch_real);
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	cr_expect_eq(system(command), 0);
}

TestSuite(record, .init = set_up, .fini = tear_down);

static void put(const char *path, const char *text)
{
	autofd int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(write_all(fd, text, strlen(text)), 0);
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* A session's claim, held as its filesystem process holds it. */
struct claim {
	int dir;
	int lock;
};

static struct claim claim(const char *name)
{
	autofree char *path = NULL, *expected = NULL;
	struct claim held;
	char relative[300];

	cr_assert_eq(record_claim(name, &held.dir, &held.lock, &path), 0);
	snprintf(relative, sizeof(relative), "worktreefs/%s", name);
	expected = path_join(scratch_real, relative);
	cr_assert_str_eq(path, expected);
	return held;
}

static void let_go(struct claim held)
{
	close(held.dir);
	close(held.lock);
}

static void write_record(int dir, const char *name)
{
	struct record record;

	record_init(&record);
	record.spec.name = strdup(name);
	record.spec.tier = TIER_ENFORCED;
	record.spec.main = strdup("/r\xff/main");
	cr_assert_eq(session_spec_add_view(&record.spec, "/r", "/r"), 0);
	cr_assert_eq(strings_add(&record.devices, "0:54"), 0);
	record.command = strdup("make \xfe %41");
	record.pid = getpid();
	record.since = 1700000000;
	cr_assert_eq(process_start_time(getpid(), &record.start_time), 0);
	cr_assert_eq(record_write(dir, &record), 0);
	record_release(&record);
}

Test(record, names_that_can_be_sessions)
{
	char name[102];

	memset(name, 'a', sizeof(name));
	name[101] = '\0';
	cr_expect_not(session_name_is_valid(name));
	name[100] = '\0';
	cr_expect(session_name_is_valid(name));
	cr_expect(session_name_is_valid("feature-1.2_x+y@z"));
	cr_expect(session_name_is_valid("\xc3\xa4rger"));
	cr_expect_not(session_name_is_valid(""));
	cr_expect_not(session_name_is_valid("."));
	cr_expect_not(session_name_is_valid(".."));
	cr_expect_not(session_name_is_valid(".x"));
	cr_expect_not(session_name_is_valid("-x"));
	cr_expect_not(session_name_is_valid("a/b"));
	cr_expect_not(session_name_is_valid("a b"));
	cr_expect_not(session_name_is_valid("a\n"));
	cr_expect_not(session_name_is_valid("a\x7f"));
}

static void expect_name(const char *text, const char *expected)
{
	autofree char *name = session_name_from(text);

	cr_expect_str_eq(name, expected);
	cr_expect(session_name_is_valid(name));
}

Test(record, names_made_from_anything)
{
	char text[202];
	autofree char *name = NULL;

	expect_name("feature", "feature");
	expect_name("my tree/x", "my-tree-x");
	expect_name(".hidden", "_hidden");
	expect_name("-n", "_n");
	expect_name("..", "_.");
	expect_name("", "session");
	expect_name("/", "_");
	expect_name("\n", "_");

	/* Cut before the character that would be too much, not within it. */
	for (size_t i = 0; i < 100; i++)
		memcpy(text + 1 + 2 * i, "\xc3\xa4", 2);
	text[0] = 'x';
	text[201] = '\0';
	name = session_name_from(text);
	cr_expect_eq(strlen(name), 99);
	cr_expect(session_name_is_valid(name));
}

Test(record, base_in_the_runtime_directory)
{
	autofree char *path = NULL, *expected = NULL;
	autofd int fd = -1;
	struct stat st;

	cr_expect_eq(record_base_open(false, &fd, &path), -ENOENT);
	cr_expect_eq(fd, -1);
	umask(0);
	cr_assert_eq(record_base_open(true, &fd, &path), 0);
	expected = path_join(scratch_real, "worktreefs");
	cr_expect_str_eq(path, expected);
	cr_assert_eq(stat("worktreefs", &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
}

Test(record, base_of_others_isnt_used)
{
	autofd int fd = -1;

	cr_assert_eq(mkdir("worktreefs", 0700), 0);
	cr_assert_eq(chmod("worktreefs", 0770), 0);
	cr_expect_eq(record_base_open(true, &fd, NULL), -EPERM);
	cr_assert_eq(rmdir("worktreefs"), 0);
	cr_assert_eq(mkdir("elsewhere", 0700), 0);
	cr_assert_eq(symlink("elsewhere", "worktreefs"), 0);
	cr_expect_eq(record_base_open(true, &fd, NULL), -EPERM);
	if (geteuid() == 0) {
		cr_assert_eq(unlink("worktreefs"), 0);
		cr_assert_eq(mkdir("worktreefs", 0700), 0);
		cr_assert_eq(chown("worktreefs", 12345, 12345), 0);
		cr_expect_eq(record_base_open(true, &fd, NULL), -EPERM);
	}
}

Test(record, a_runtime_directory_that_others_can_write_doesnt_count)
{
	autofree char *path = NULL, *fallback = NULL;
	autofd int fd = -1;
	int r;

	cr_assert_geq(asprintf(&fallback, "/tmp/worktreefs-%u", geteuid()), 0);
	cr_assert_eq(chmod(".", 0777), 0);
	r = record_base_open(false, &fd, &path);
	cr_expect(r == -ENOENT || r == 0);
	if (r == 0)
		cr_expect_str_eq(path, fallback);
	cr_expect_not(is_there("worktreefs"));
}

Test(record, state_has_its_place)
{
	autofree char *given = NULL, *home = NULL;

	setenv("XDG_STATE_HOME", "/s/./t/", 1);
	cr_assert_eq(state_base_path(&given), 0);
	cr_expect_str_eq(given, "/s/t/worktreefs");
	setenv("XDG_STATE_HOME", "relative", 1);
	setenv("HOME", "/h", 1);
	cr_assert_eq(state_base_path(&home), 0);
	cr_expect_str_eq(home, "/h/.local/state/worktreefs");
}

Test(record, a_claim_excludes_others)
{
	struct claim held = claim("s");
	int dir = -1, lock = -1;
	char *path = NULL;
	struct stat st;

	cr_expect_eq(record_claim("s", &dir, &lock, &path), -EEXIST);
	cr_expect_eq(dir, -1);
	cr_expect_null(path);
	cr_expect_eq(record_remove("s"), -EBUSY);
	cr_assert_eq(fstat(held.dir, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
	cr_expect(fcntl(held.dir, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(held.lock, F_GETFD) & FD_CLOEXEC);

	let_go(claim("t"));
	let_go(held);
	let_go(claim("s"));
	cr_expect_eq(record_claim("a/b", &dir, &lock, &path), -EINVAL);
	cr_expect_eq(record_claim("..", &dir, &lock, &path), -EINVAL);
}

Test(record, a_look_at_the_lock_is_no_session)
{
	struct claim held = claim("s");
	pid_t pid;
	int ends[2];
	char byte;

	let_go(held);
	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open("worktreefs/s/lock", O_RDONLY);

		flock(fd, LOCK_SH);
		if (write(ends[1], "", 1) == 1)
			usleep(30000);
		_exit(0);
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	let_go(claim("s"));
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(ends[1]);
}

Test(record, written_and_read)
{
	struct claim held = claim("s");
	struct record record;

	record_init(&record);
	cr_expect_eq(record_read("s", &record), -ENOENT);
	write_record(held.dir, "s");
	cr_assert_eq(record_read("s", &record), 0);
	cr_expect(record.live);
	cr_expect_eq(record.pid, getpid());
	cr_expect_eq(record.since, 1700000000);
	cr_expect_str_eq(record.command, "make \xfe %41");
	cr_expect_str_eq(record.spec.name, "s");
	cr_expect_str_eq(record.spec.main, "/r\xff/main");
	cr_expect_eq(record.spec.tier, TIER_ENFORCED);
	cr_expect_eq(record.devices.n, 1);
	cr_expect_str_eq(record.devices.s[0], "0:54");
	record_release(&record);

	let_go(held);
	cr_assert_eq(record_read("s", &record), 0);
	cr_expect_not(record.live, "nobody holds the lock");
	record_release(&record);
}

Test(record, a_lock_alone_is_no_life)
{
	struct claim held = claim("s");
	struct record record, changed;

	write_record(held.dir, "s");
	cr_assert_eq(record_read("s", &record), 0);
	record.start_time++;
	cr_assert_eq(record_write(held.dir, &record), 0);
	cr_assert_eq(record_read("s", &changed), 0);
	cr_expect_not(changed.live, "the pid is another's");
	record_release(&record);
	record_release(&changed);
	let_go(held);
}

Test(record, what_isnt_a_record_is_refused)
{
	static const char *const texts[] = {
		"",
		"{",
		"null",
		"[]",
		"{\"schema_version\":1}",
		"{\"schema_version\":1,\"spec\":null,\"pid\":1}",
		"\xff\xfe",
	};
	struct claim held = claim("s");
	struct record record;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		put("worktreefs/s/session.json", texts[i]);
		cr_expect_eq(record_read("s", &record), -EINVAL, "%s",
			     texts[i]);
	}
	/* Another session's, and one that is cut off. */
	write_record(held.dir, "t");
	cr_expect_eq(record_read("s", &record), -EINVAL);
	write_record(held.dir, "s");
	cr_assert_eq(truncate("worktreefs/s/session.json", 200), 0);
	cr_expect_eq(record_read("s", &record), -EINVAL);

	cr_assert_eq(unlink("worktreefs/s/session.json"), 0);
	cr_assert_eq(symlink("/etc/passwd", "worktreefs/s/session.json"), 0);
	cr_expect_eq(record_read("s", &record), -EINVAL);
	cr_expect_eq(record_read("../s", &record), -ENOENT);
	cr_expect_eq(record_read("none", &record), -ENOENT);
	let_go(held);
}

Test(record, a_session_directory_of_others_is_refused)
{
	struct claim held = claim("s");
	struct record record;
	int fd;

	write_record(held.dir, "s");
	let_go(held);
	cr_assert_eq(chmod("worktreefs/s", 0777), 0);
	cr_expect_eq(record_read("s", &record), -EPERM);
	cr_expect_eq(record_open("s", &fd), -EPERM);
	cr_assert_eq(rename("worktreefs/s", "worktreefs/t"), 0);
	cr_assert_eq(symlink("t", "worktreefs/s"), 0);
	cr_expect_eq(record_read("s", &record), -ENOENT);
	put("worktreefs/file", "");
	cr_expect_eq(record_read("file", &record), -ENOENT);
}

Test(record, lists_names)
{
	struct strings names = {0};

	cr_assert_eq(record_list(&names), 0);
	cr_expect_eq(names.n, 0);
	let_go(claim("b"));
	let_go(claim("a"));
	put("worktreefs/file", "");
	cr_assert_eq(mkdir("worktreefs/.hidden", 0700), 0);
	cr_assert_eq(record_list(&names), 0);
	cr_expect_eq(names.n, 2);
	cr_expect_str_eq(names.s[0], "a");
	cr_expect_str_eq(names.s[1], "b");
	strings_release(&names);
}

static void fill(const char *name)
{
	struct claim held = claim(name);

	write_record(held.dir, name);
	cr_assert_eq(mkdirat(held.dir, "view", 0700), 0);
	cr_assert_eq(mkdirat(held.dir, "views", 0700), 0);
	cr_assert_eq(mkdirat(held.dir, "views/1", 0700), 0);
	put("worktreefs/s/control.sock", "");
	put("worktreefs/s/session.json.tmp-0123456789abcdef", "{");
	let_go(held);
}

Test(record, removes_all_of_a_dead_one)
{
	fill("s");
	cr_expect_eq(record_remove("s"), 0);
	cr_expect_not(is_there("worktreefs/s"));
	cr_expect_eq(record_remove("s"), -ENOENT);
	cr_expect_eq(record_remove("../x"), -ENOENT);
}

Test(record, keeps_what_isnt_ours)
{
	fill("s");
	put("worktreefs/s/view/precious", "");
	cr_expect_eq(record_remove("s"), -ENOTEMPTY);
	cr_expect(is_there("worktreefs/s/view/precious"));
	cr_expect_not(is_there("worktreefs/s/session.json"));
}

Test(record, the_holder_clears_it)
{
	struct claim held;

	fill("s");
	held = claim("s");
	cr_expect_not(is_there("worktreefs/s/session.json"));
	cr_expect_not(is_there("worktreefs/s/view"));
	cr_expect(is_there("worktreefs/s/lock"));
	write_record(held.dir, "s");
	cr_expect_eq(record_clear(held.dir), 0);
	cr_expect_not(is_there("worktreefs/s"));
	let_go(held);
	let_go(claim("s"));
}

Test(record, a_mounted_view_keeps_all)
{
	struct claim held;
	int dir, lock;
	char *path;

	fill("s");
	if (mount("t", "worktreefs/s/view", "tmpfs", 0, NULL) < 0)
		cr_skip_test("mounts need privilege");
	cr_expect_eq(record_remove("s"), -EBUSY);
	cr_expect(is_there("worktreefs/s/session.json"));
	cr_expect_eq(record_claim("s", &dir, &lock, &path), -EBUSY);
	cr_expect(is_there("worktreefs/s/session.json"));
	cr_assert_eq(umount("worktreefs/s/view"), 0);
	held = claim("s");
	let_go(held);
}

/* Many claims of one name at a time: exactly one at a time has it. */
Test(record, claims_race)
{
	int status, ends[2];
	char byte;
	size_t had = 0;

	cr_assert_eq(pipe(ends), 0);
	for (int i = 0; i < 8; i++) {
		if (fork() > 0)
			continue;
		for (int k = 0; k < 50; k++) {
			int dir, lock, r;
			char *path;

			if (record_claim("s", &dir, &lock, &path) < 0)
				continue;
			free(path);
			/* Fails if somebody else is in here, too. */
			if (mkdirat(dir, "inside", 0700) < 0)
				_exit(1);
			if (unlinkat(dir, "inside", AT_REMOVEDIR) < 0 ||
			    write(ends[1], "", 1) != 1)
				_exit(2);
			/* The next one may be in by the time of its rmdir. */
			r = record_clear(dir);
			if (r < 0 && r != -ENOTEMPTY)
				_exit(3);
			close(dir);
			close(lock);
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], &byte, 1) == 1)
		had++;
	close(ends[0]);
	cr_expect_gt(had, 0);
	while (wait(&status) > 0)
		cr_expect_eq(status, 0, "%x", status);
	cr_expect_not(is_there("worktreefs/s"));
}

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

/* A directory of each test's own; its working directory, too. */
static char scratch[] = "/tmp/test-fileio-XXXXXX";
static char *scratch_real;
static int dirfd_;

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(scratch));
	cr_assert_eq(chdir(scratch), 0);
	scratch_real = getcwd(NULL, 0);
	dirfd_ = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(dirfd_, 0);
}

static void tear_down(void)
{
	char command[sizeof(scratch) + sizeof("rm -rf ")];

	close(dirfd_);
	free(scratch_real);
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	cr_expect_eq(system(command), 0);
}

TestSuite(fileio, .init = set_up, .fini = tear_down);

static void put(const char *name, const void *data, size_t size)
{
	autofd int fd =
		open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write_all(fd, data, size), 0);
}

static size_t count_names(void)
{
	autodir DIR *dir = opendir(".");
	size_t n = 0;

	while (readdir(dir))
		n++;
	return n - 2;
}

Test(fileio, reads_whole_files)
{
	static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 100000};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		autofree char *in = malloc(sizes[i] + 1);
		autofree char *out = NULL;
		size_t size = 0;

		for (size_t k = 0; k < sizes[i]; k++)
			in[k] = (char)(k * 7);
		put("f", in, sizes[i]);
		cr_assert_eq(read_file_at(dirfd_, "f", sizes[i], &out, &size),
			     0);
		cr_expect_eq(size, sizes[i]);
		cr_expect_eq(memcmp(in, out, size), 0);
		cr_expect_eq(out[size], '\0');
	}
}

Test(fileio, reads_no_more_than_allowed)
{
	char *untouched = (char *)scratch;
	char *data = untouched;
	size_t size = 77;

	put("f", "12345", 5);
	cr_expect_eq(read_file_at(dirfd_, "f", 4, &data, &size), -EFBIG);
	cr_expect_eq(read_file_at(dirfd_, "f", 0, &data, &size), -EFBIG);
	cr_expect_eq(read_file_at(dirfd_, "no", 4, &data, &size), -ENOENT);
	cr_expect_eq(data, untouched);
	cr_expect_eq(size, 77);

	cr_assert_eq(read_file_at(dirfd_, "f", SIZE_MAX, &data, NULL), 0);
	cr_expect_str_eq(data, "12345");
	free(data);
}

Test(fileio, reads_regular_files_only, .timeout = 10)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
	autofd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char *data;

	put("f", "x", 1);
	cr_assert_eq(symlink("f", "link"), 0);
	cr_assert_eq(mkdir("d", 0755), 0);
	cr_assert_eq(mkfifo("fifo", 0644), 0);
	cr_assert_eq(bind(sock, (struct sockaddr *)&address, sizeof(address)),
		     0);
	cr_expect_eq(read_file_at(dirfd_, "link", 9, &data, NULL), -ELOOP);
	cr_expect_eq(read_file_at(dirfd_, "d", 9, &data, NULL), -EINVAL);
	cr_expect_eq(read_file_at(dirfd_, "fifo", 9, &data, NULL), -EINVAL);
	cr_expect_eq(read_file_at(dirfd_, "s", 9, &data, NULL), -EINVAL);
}

Test(fileio, reads_a_pipe_to_its_end)
{
	autofree char *data = NULL;
	size_t size;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	cr_assert_eq(write_all(ends[1], "abc\0def", 7), 0);
	close(ends[1]);
	cr_expect_eq(read_fd(ends[0], 100, &data, &size), 0);
	cr_expect_eq(size, 7);
	cr_expect_eq(memcmp(data, "abc\0def", 8), 0);
	close(ends[0]);
	cr_expect_eq(read_fd(ends[0], 100, &data, &size), -EBADF);
}

Test(fileio, replaces_a_file_whole)
{
	autofree char *data = NULL;
	autofd int old = -1;
	char byte;
	struct stat st;

	umask(077);
	cr_assert_eq(write_file_at(dirfd_, "f", "first", 5, 0644), 0);
	cr_assert_eq(stat("f", &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | 0644);

	old = open("f", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(write_file_at(dirfd_, "f", "2", 1, 0600), 0);
	cr_assert_eq(read_file_at(dirfd_, "f", 99, &data, NULL), 0);
	cr_expect_str_eq(data, "2");
	cr_assert_eq(stat("f", &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | 0600);
	/* Who had the old one open still sees it whole. */
	cr_assert_eq(read(old, &byte, 1), 1);
	cr_expect_eq(byte, 'f');
	cr_expect_eq(count_names(), 1);
}

Test(fileio, replaces_a_symlink_not_its_target)
{
	autofree char *data = NULL;
	struct stat st;

	put("target", "keep", 4);
	cr_assert_eq(symlink("target", "link"), 0);
	cr_expect_eq(write_file_at(dirfd_, "link", "new", 3, 0600), 0);
	cr_assert_eq(lstat("link", &st), 0);
	cr_expect(S_ISREG(st.st_mode));
	cr_assert_eq(read_file_at(dirfd_, "target", 99, &data, NULL), 0);
	cr_expect_str_eq(data, "keep");
}

Test(fileio, leaves_nothing_when_it_cant_replace)
{
	cr_assert_eq(mkdir("d", 0755), 0);
	cr_expect_eq(write_file_at(dirfd_, "d", "x", 1, 0600), -EISDIR);
	cr_expect_eq(write_file_at(dirfd_, "d/f", "x", 1, 0600), -EINVAL);
	cr_expect_eq(write_file_at(dirfd_, "..", "x", 1, 0600), -EINVAL);
	cr_expect_eq(count_names(), 1);
}

Test(fileio, reads_links_of_any_length)
{
	char target[PATH_MAX];
	autofree char *read = NULL;
	autofree char *self = NULL;
	autofd int fd = -1;

	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	cr_assert_eq(symlink(target, "long"), 0);
	cr_expect_eq(read_link_at(dirfd_, "long", &read), 0);
	cr_expect_str_eq(read, target);

	fd = openat(dirfd_, "long", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	cr_expect_eq(read_link_at(fd, "", &self), 0);
	cr_expect_str_eq(self, target);

	cr_expect_eq(read_link_at(dirfd_, ".", &read), -EINVAL);
	cr_expect_eq(read_link_at(dirfd_, "no", &read), -ENOENT);
}

static void expect_path(const char *name, const char *expected)
{
	autofd int fd = openat(dirfd_, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	autofree char *full = path_join(scratch_real, expected);
	autofree char *path = NULL;

	cr_assert_eq(fd_real_path(fd, &path), 0);
	cr_expect_str_eq(path, full);
}

Test(fileio, knows_the_path_of_a_descriptor)
{
	put("f", "", 0);
	put("a file (deleted)", "", 0);
	cr_assert_eq(symlink("f", "link"), 0);
	expect_path("f", "f");
	expect_path("link", "link");
	expect_path(".", "");
	expect_path("a file (deleted)", "a file (deleted)");
	cr_expect_str_eq(fd_path(7).text, "/proc/self/fd/7");
}

Test(fileio, a_deleted_file_has_no_path)
{
	autofd int fd = -1, dir = -1;
	char *path;
	int ends[2];

	put("f", "", 0);
	cr_assert_eq(link("f", "other"), 0);
	cr_assert_eq(mkdir("d", 0755), 0);
	fd = open("f", O_RDONLY | O_CLOEXEC);
	dir = open("d", O_PATH | O_CLOEXEC);
	cr_assert_eq(unlink("f"), 0);
	cr_assert_eq(rmdir("d"), 0);
	/* The inode has another name, but not the one that it was opened by. */
	cr_expect_eq(fd_real_path(fd, &path), -ENOENT);
	cr_expect_eq(fd_real_path(dir, &path), -ENOENT);
	put("f (deleted)", "", 0);
	cr_expect_eq(fd_real_path(fd, &path), -ENOENT);

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	cr_expect_eq(fd_real_path(ends[0], &path), -ENOENT);
	close(ends[0]);
	close(ends[1]);
}

static void expect_dir(const char *relative, const char *path)
{
	autofd int fd = open_dir_beneath(dirfd_, relative);
	struct stat by_fd, by_path;

	cr_assert_geq(fd, 0, "%s", relative);
	cr_assert_eq(fstat(fd, &by_fd), 0);
	cr_assert_eq(stat(path, &by_path), 0);
	cr_expect_eq(by_fd.st_ino, by_path.st_ino);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(fd, F_GETFL) & O_PATH);
}

Test(fileio, opens_directories_beneath)
{
	char name[NAME_MAX + 2];

	cr_assert_eq(mkdir("a", 0755), 0);
	cr_assert_eq(mkdir("a/b", 0755), 0);
	expect_dir("", ".");
	expect_dir("a", "a");
	expect_dir("a/b", "a/b");

	put("a/f", "", 0);
	cr_assert_eq(symlink("b", "a/link"), 0);
	cr_assert_eq(symlink("a", "first"), 0);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/link"), -ELOOP);
	cr_expect_eq(open_dir_beneath(dirfd_, "first/b"), -ELOOP);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/f"), -ENOTDIR);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/f/x"), -ENOTDIR);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/no/x"), -ENOENT);
	cr_expect_eq(open_dir_beneath(dirfd_, ".."), -EINVAL);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/../a"), -EINVAL);
	cr_expect_eq(open_dir_beneath(dirfd_, "/a"), -EINVAL);
	cr_expect_eq(open_dir_beneath(dirfd_, "a//b"), -EINVAL);
	cr_expect_eq(open_dir_beneath(dirfd_, "a/"), -EINVAL);

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_expect_eq(open_dir_beneath(dirfd_, name), -ENAMETOOLONG);
}

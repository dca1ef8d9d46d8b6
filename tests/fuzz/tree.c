#include "tests/fuzz/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/act.h"

#define BLOCK 4096
/* So much of a file is read as it stands, and only data of the rest. */
#define READ_PLAINLY (4 << 20)

struct walk {
	FILE *out;
	unsigned int detail;
	/* Files with further links that were seen: numbers and lines. */
	struct seen {
		ino_t ino;
		size_t line;
	} * seen;
	size_t n_seen, n_lines;
};

static void print_error(FILE *out, const char *what)
{
	fprintf(out, " %s:%s", what, strerrorname_np(errno));
}

/* The names in a directory, however little else may be done in it. */
struct names {
	char **names;
	size_t n;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int fd, struct names *ret_names)
{
	autodir DIR *dir = fdopendir(fd);
	struct names names = {0};
	struct dirent *d;

	if (!dir)
		return -1;
	while (errno = 0, (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		names.names =
			reallocarray(names.names, names.n + 1, sizeof(char *));
		if (!names.names)
			abort();
		names.names[names.n++] = strdup(d->d_name);
	}
	if (names.n > 0)
		qsort(names.names, names.n, sizeof(char *), by_text);
	*ret_names = names;
	return errno ? -1 : 0;
}

static void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->names[i]);
	free(names->names);
}

#define autonames __attribute__((cleanup(names_release)))

/* Digests the blocks that aren't all zero, whether or not they are holes. */
static uint64_t digest_part(int fd, off_t at, off_t end, uint64_t sum)
{
	static const char zeros[BLOCK];
	char block[BLOCK];

	at &= ~(off_t)(BLOCK - 1);
	for (; at < end; at += BLOCK) {
		ssize_t n;

		memset(block, 0, sizeof(block));
		n = pread(fd, block, BLOCK, at);
		if (n <= 0)
			return n < 0 ? digest(sum, "error", 5) : sum;
		if (memcmp(block, zeros, BLOCK) == 0)
			continue;
		sum = digest(sum, &at, sizeof(at));
		sum = digest(sum, block, BLOCK);
	}
	return sum;
}

static void print_data(FILE *out, int dir, const char *name)
{
	autofd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t sum;
	off_t at = READ_PLAINLY;

	if (fd < 0) {
		print_error(out, "open");
		return;
	}
	sum = digest_part(fd, 0, READ_PLAINLY, 1);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(fd, at, SEEK_HOLE);

		sum = digest_part(fd, at, end, sum);
		at = end;
	}
	fprintf(out, " data=%016llx", (unsigned long long)sum);
}

static void print_target(FILE *out, int dir, const char *name)
{
	char target[8192];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0) {
		print_error(out, "readlink");
		return;
	}
	target[n] = '\0';
	fputs(" target=", out);
	print_quoted(out, target);
}

/* Each by itself adds to the sum, so that their order doesn't matter. */
static void print_xattrs(FILE *out, int dir, const char *name)
{
	static char names[65536], value[65536];
	char path[512];
	uint64_t sum = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	n = llistxattr(path, names, sizeof(names));
	if (n < 0)
		print_error(out, "listxattr");
	for (const char *at = names; at < names + n; at += strlen(at) + 1) {
		ssize_t size = lgetxattr(path, at, value, sizeof(value));

		if (size < 0)
			print_error(out, at);
		else
			sum += digest(digest(1, at, strlen(at) + 1), value,
				      (size_t)size);
	}
	if (n > 0)
		fprintf(out, " xattrs=%016llx", (unsigned long long)sum);
}

/* Which earlier line is about the same file? */
static void print_twin(struct walk *walk, const struct stat *st)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return;
	for (size_t i = 0; i < walk->n_seen; i++) {
		if (walk->seen[i].ino != st->st_ino)
			continue;
		fprintf(walk->out, " same-as=%zu", walk->seen[i].line);
		return;
	}
	walk->seen =
		reallocarray(walk->seen, walk->n_seen + 1, sizeof(*walk->seen));
	if (!walk->seen)
		abort();
	walk->seen[walk->n_seen++] = (struct seen){st->st_ino, walk->n_lines};
}

static void print_identity(FILE *out, const struct stat *st)
{
	fprintf(out, " ino=%llu mtime=%lld.%09ld ctime=%lld.%09ld",
		(unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec,
		st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
		st->st_ctim.tv_nsec);
}

static void print_tree(struct walk *walk, int dir, const char *name);

static void print_thing(struct walk *walk, int dir, const char *name)
{
	FILE *out = walk->out;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		print_error(out, "stat");
		fputc('\n', out);
		return;
	}
	print_attributes(out, &st);
	if (walk->detail & TREE_IDENTITY)
		print_identity(out, &st);
	print_twin(walk, &st);
	print_xattrs(out, dir, name);
	if (S_ISREG(st.st_mode))
		print_data(out, dir, name);
	else if (S_ISLNK(st.st_mode))
		print_target(out, dir, name);
	fputc('\n', out);
	walk->n_lines++;
	if (S_ISDIR(st.st_mode))
		print_tree(walk, dir, name);
}

static void print_tree(struct walk *walk, int dir, const char *name)
{
	autonames struct names names = {0};
	autofd int fd = openat(dir, name,
			       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int list = openat(dir, name,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || list < 0 || read_names(list, &names) < 0) {
		print_error(walk->out, "list");
		fputc('\n', walk->out);
		return;
	}
	for (size_t i = 0; i < names.n; i++) {
		print_quoted(walk->out, names.names[i]);
		print_thing(walk, fd, names.names[i]);
	}
	fputs("end\n", walk->out);
}

char *tree_print(const char *top, unsigned int detail)
{
	char *text = NULL;
	size_t size;
	struct walk walk = {
		.out = open_memstream(&text, &size),
		.detail = detail,
	};

	if (!walk.out)
		return NULL;
	print_tree(&walk, AT_FDCWD, top);
	free(walk.seen);
	return fclose(walk.out) == 0 ? text : NULL;
}

static int clear_directory(int dir);

static int clear_name(int dir, const char *name)
{
	int fd, r;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	fchmodat(dir, name, 0700, 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : clear_directory(fd);
	if (r < 0)
		return r;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Takes the descriptor over. */
static int clear_directory(int dir)
{
	autonames struct names names = {0};
	autofd int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	int r = read_names(dir, &names) < 0 ? -errno : 0;

	for (size_t i = 0; i < names.n && r == 0; i++)
		r = clear_name(at, names.names[i]);
	return r;
}

int tree_clear(const char *top)
{
	int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : clear_directory(fd);
}

/* The line that starts here; allocated. */
static char *line_at(const char *text)
{
	return strndup(text, strcspn(text, "\n"));
}

bool tree_differs(const char *a, const char *b, char **ret_a, char **ret_b)
{
	const char *line_a = a, *line_b = b;

	if (strcmp(a, b) == 0)
		return false;
	for (; *a && *a == *b; a++, b++)
		if (*a == '\n') {
			line_a = a + 1;
			line_b = b + 1;
		}
	*ret_a = line_at(line_a);
	*ret_b = line_at(line_b);
	return true;
}

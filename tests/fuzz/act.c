#include "tests/fuzz/act.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"

static void (*const run[N_OPS])(struct actor *, const struct step *, FILE *) = {
#define X(name, kind, weight, fields) [OP_##name] = run_##name,
	OPS(X)
#undef X
};

void print_result(FILE *out, long long r)
{
	if (r < 0)
		fputs(strerrorname_np(errno), out);
	else
		fprintf(out, "%lld", r);
}

void print_done(FILE *out, int r)
{
	print_result(out, r < 0 ? r : 0);
}

/* FNV-1a, eight bytes at a time. */
uint64_t digest(uint64_t before, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t word;

	for (; size >= sizeof(word); size -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		before = (before ^ word) * 0x100000001b3ULL;
		before ^= before >> 29;
	}
	for (; size > 0; size--)
		before = (before ^ *at++) * 0x100000001b3ULL;
	return before;
}

void print_digest(FILE *out, const void *bytes, size_t size)
{
	fprintf(out, " %08x", (unsigned int)(digest(1, bytes, size) >> 16));
}

void print_attributes(FILE *out, const struct stat *st)
{
	fprintf(out, " mode=%o links=%u owner=%u:%u", st->st_mode,
		(unsigned int)st->st_nlink, st->st_uid, st->st_gid);
	/* How much room a directory takes depends on its past. */
	if (!S_ISDIR(st->st_mode))
		fprintf(out, " size=%lld", (long long)st->st_size);
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		fprintf(out, " device=%llx", (unsigned long long)st->st_rdev);
	/* Of pipes and sockets, times are kept by some file systems only. */
	if (st->st_mtim.tv_sec < CLOCK_STARTS &&
	    (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		fprintf(out, " mtime=%lld.%09ld", (long long)st->st_mtim.tv_sec,
			st->st_mtim.tv_nsec);
}

int base_fd(const struct actor *actor, int base)
{
	if (base == BASE_CWD)
		return AT_FDCWD;
	return base == BASE_ROOT ? actor->root : actor->fds[base];
}

const char *base_path(const struct actor *actor, int base, const char *path)
{
	static char text[2 * PATH_MAX];

	if (base == BASE_CWD)
		return path;
	snprintf(text, sizeof(text), "/proc/self/fd/%d%s%s",
		 base_fd(actor, base), *path ? "/" : "", path);
	return text;
}

void keep_fd(struct actor *actor, int number, int fd, FILE *out)
{
	struct stat st;

	print_done(out, fd);
	if (fd < 0)
		return;
	if (fstat(fd, &st) < 0)
		print_result(out, -1);
	else
		fprintf(out, " type=%o size=%lld", st.st_mode & S_IFMT,
			S_ISREG(st.st_mode) ? (long long)st.st_size : 0);
	if (actor->fds[number] >= 0 && close(actor->fds[number]) < 0)
		print_result(out, -1);
	actor->fds[number] = fd;
}

void fill(void *bytes, size_t size, uint32_t data)
{
	unsigned char *at = bytes;
	uint64_t word = data * 0x9e3779b97f4a7c15ULL | 1;

	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0)
			word = word * 6364136223846793005ULL + 1442695;
		at[i] = (unsigned char)(word >> (8 + i % 8 * 7));
	}
}

void *buffer(size_t size)
{
	void *bytes;

	if (posix_memalign(&bytes, 4096, size + 1) != 0)
		abort();
	return bytes;
}

bool is_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH) && (flags & O_DIRECT);
}

/* Steps from a file are somebody else's. */
static bool is_outside(const struct step *step)
{
	return (step->path && step->path[0] == '/') ||
	       (step->path2 && step->path2[0] == '/');
}

static void tell(int sock, struct actor *actor, const char *line)
{
	struct step step;
	autofree char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out || step_parse(line, &step) < 0 || is_outside(&step))
		abort();
	fputs("= ", out);
	run[step.op](actor, &step, out);
	step_release(&step);
	if (fclose(out) != 0 || size > MAX_LINE ||
	    send(sock, text, size, MSG_NOSIGNAL) < 0)
		exit(EXIT_FAILURE);
}

void act_serve(struct actor *actor, int sock)
{
	static char line[MAX_LINE + 1];
	ssize_t n;

	for (size_t i = 0; i < N_FDS; i++)
		actor->fds[i] = -1;
	for (size_t i = 0; i < N_MAPS; i++)
		actor->maps[i] = (struct map){.fd = -1};
	umask(022);
	while ((n = recv(sock, line, MAX_LINE, 0)) > 0) {
		line[n] = '\0';
		tell(sock, actor, line);
	}
	exit(EXIT_SUCCESS);
}

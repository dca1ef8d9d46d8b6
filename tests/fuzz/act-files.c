/*
 * Descriptors, what is read and written with them, and mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/act.h"

#define PAGE 4096

/* Nothing waits for the other end of a pipe. */
#define OPEN_ALWAYS (O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

void run_open(struct actor *actor, const struct step *step, FILE *out)
{
	keep_fd(actor, step->fd,
		openat(base_fd(actor, step->base), step->path,
		       step->flags | OPEN_ALWAYS, step->mode),
		out);
}

/* Opens once more what a descriptor is open for. */
void run_reopen(struct actor *actor, const struct step *step, FILE *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", actor->fds[step->fd]);
	keep_fd(actor, step->fd2, open(path, step->flags | OPEN_ALWAYS), out);
}

void run_close(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, close(actor->fds[step->fd]));
	actor->fds[step->fd] = -1;
}

void run_dup(struct actor *actor, const struct step *step, FILE *out)
{
	keep_fd(actor, step->fd2,
		fcntl(actor->fds[step->fd], F_DUPFD_CLOEXEC, 0), out);
}

void run_setfl(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	int flags = (step->flags & ~SETFL_ADD) | O_NONBLOCK;

	if (step->flags & SETFL_ADD)
		flags |= fcntl(fd, F_GETFL) & (O_APPEND | O_DIRECT);
	print_done(out, fcntl(fd, F_SETFL, flags));
	flags = fcntl(fd, F_GETFL);
	if (flags >= 0)
		fprintf(out, " flags=%x", (unsigned int)flags);
}

void run_fstat(struct actor *actor, const struct step *step, FILE *out)
{
	struct stat st;
	int r = fstat(actor->fds[step->fd], &st);

	print_done(out, r);
	if (r == 0)
		print_attributes(out, &st);
}

/* Where and how much O_DIRECT allows everywhere. */
static void align(int64_t *at, int64_t *length)
{
	*at &= ~(int64_t)(PAGE - 1);
	*length &= ~(int64_t)(PAGE - 1);
}

static void print_position(FILE *out, int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);

	if (at >= 0)
		fprintf(out, " at=%lld", (long long)at);
}

/* One of the ways to read. */
static ssize_t do_read(int fd, char *bytes, const struct step *step)
{
	int64_t at = step->at, length = step->length;
	struct iovec parts[2];

	if (is_direct(fd)) {
		align(&at, &length);
		return pread(fd, bytes, (size_t)length, at);
	}
	switch (step->data % 3) {
	case 0:
		return read(fd, bytes, (size_t)length);
	case 1:
		return pread(fd, bytes, (size_t)length, at);
	default:
		parts[0] = (struct iovec){bytes, (size_t)length / 3};
		parts[1] = (struct iovec){bytes + length / 3,
					  (size_t)(length - length / 3)};
		return readv(fd, parts, 2);
	}
}

void run_read(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	struct step bounded = *step;
	autofree char *bytes = NULL;
	ssize_t n;

	if (bounded.length < 0)
		bounded.length = 0;
	bytes = buffer((size_t)bounded.length);
	n = do_read(fd, bytes, &bounded);
	print_result(out, n);
	if (n >= 0) {
		print_digest(out, bytes, (size_t)n);
		print_position(out, fd);
	}
}

static ssize_t do_write(int fd, char *bytes, const struct step *step)
{
	int64_t at = step->at, length = step->length;
	struct iovec parts[2];

	if (is_direct(fd)) {
		align(&at, &length);
		return pwrite(fd, bytes, (size_t)length, at);
	}
	parts[0] = (struct iovec){bytes, (size_t)length / 3};
	parts[1] = (struct iovec){bytes + length / 3,
				  (size_t)(length - length / 3)};
	switch (step->data % N_WRITES) {
	case 0:
		return write(fd, bytes, (size_t)length);
	case 1:
		return pwrite(fd, bytes, (size_t)length, at);
	case 2:
		return writev(fd, parts, 2);
	default: /* WRITE_APPENDS */
		return pwritev2(fd, parts, 2, at, RWF_APPEND);
	}
}

void run_write(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	struct step bounded = *step;
	autofree char *bytes = NULL;
	ssize_t n;

	/* Appended where the file ends, direct I/O is hardly ever aligned. */
	if (is_direct(fd) && (fcntl(fd, F_GETFL) & O_APPEND)) {
		fputs("not done", out);
		return;
	}
	if (bounded.length < 0)
		bounded.length = 0;
	bytes = buffer((size_t)bounded.length);
	fill(bytes, (size_t)bounded.length, step->data);
	n = do_write(fd, bytes, &bounded);
	print_result(out, n);
	if (n >= 0)
		print_position(out, fd);
}

void run_lseek(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	struct stat st;

	/* Where a directory's entries are is its file system's affair. */
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		print_result(out, lseek(fd, 0, SEEK_SET));
	else
		print_result(out, lseek(fd, step->at, step->flags));
}

void run_sync(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];

	print_done(out, step->flags & 1 ? fsync(fd) : fdatasync(fd));
}

void run_ftruncate(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, ftruncate(actor->fds[step->fd], step->length));
}

void run_fallocate(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fallocate(actor->fds[step->fd], step->flags, step->at,
				  step->length));
}

/* Where data and holes are. */
void run_extents(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	off_t before = lseek(fd, 0, SEEK_CUR);
	off_t at = 0;
	struct stat st;

	if (before < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		fputs("no file", out);
		return;
	}
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		fprintf(out, "%lld-", (long long)at);
		at = lseek(fd, at, SEEK_HOLE);
		fprintf(out, "%lld ", (long long)at);
	}
	print_result(out, at);
	lseek(fd, before, SEEK_SET);
}

/*
 * From fd to fd2; the two low bits of flags say whether offsets are given.
 * How unaligned direct I/O is taken differs, so it's left out.
 */
void run_copy(struct actor *actor, const struct step *step, FILE *out)
{
	int from = actor->fds[step->fd], to = actor->fds[step->fd2];
	off_t at = step->at, at2 = step->at2;
	ssize_t n;

	if (is_direct(from) || is_direct(to)) {
		fputs("not done", out);
		return;
	}
	n = copy_file_range(from, step->flags & 1 ? &at : NULL, to,
			    step->flags & 2 ? &at2 : NULL, (size_t)step->length,
			    0);
	print_result(out, n);
	print_position(out, from);
	print_position(out, to);
	fprintf(out, " %lld %lld", (long long)at, (long long)at2);
}

void run_sendfile(struct actor *actor, const struct step *step, FILE *out)
{
	int from = actor->fds[step->fd], to = actor->fds[step->fd2];
	off_t at = step->at;

	if (is_direct(from) || is_direct(to)) {
		fputs("not done", out);
		return;
	}
	print_result(out, sendfile(to, from, step->flags & 1 ? &at : NULL,
				   (size_t)step->length));
	print_position(out, from);
	print_position(out, to);
}

/* Through a pipe, which has room for less than one of our pages at times. */
void run_splice(struct actor *actor, const struct step *step, FILE *out)
{
	int from = actor->fds[step->fd], to = actor->fds[step->fd2];
	off_t at = step->at, at2 = step->at2;
	size_t length = (size_t)(step->length & 0x7fff);
	int ends[2];
	ssize_t n;

	if (is_direct(from) || is_direct(to) ||
	    pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		fputs("not done", out);
		return;
	}
	n = splice(from, step->flags & 1 ? &at : NULL, ends[1], NULL, length,
		   SPLICE_F_NONBLOCK);
	print_result(out, n);
	if (n > 0) {
		fputs(" ", out);
		print_result(out, splice(ends[0], NULL, to,
					 step->flags & 2 ? &at2 : NULL,
					 (size_t)n, SPLICE_F_NONBLOCK));
	}
	close(ends[0]);
	close(ends[1]);
	print_position(out, from);
	print_position(out, to);
}

void unmap(struct map *map)
{
	if (map->start)
		munmap(map->start, map->length);
	cleanup_fdp(&map->fd);
	*map = (struct map){.fd = -1};
}

/* Maps fd as mapping number fd2. */
void run_map(struct actor *actor, const struct step *step, FILE *out)
{
	struct map *map = &actor->maps[step->fd2 % N_MAPS];
	int fd = actor->fds[step->fd];
	int prot = step->flags >> 8;
	void *start = mmap(NULL, (size_t)step->length, prot, step->flags & 0xff,
			   fd, step->at);

	print_done(out, start == MAP_FAILED ? -1 : 0);
	if (start == MAP_FAILED)
		return;
	unmap(map);
	*map = (struct map){
		.start = start,
		.length = (size_t)step->length,
		.at = step->at,
		.writable = prot & PROT_WRITE,
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
	};
}

void run_unmap(struct actor *actor, const struct step *step, FILE *out)
{
	unmap(&actor->maps[step->fd % N_MAPS]);
}

void run_msync(struct actor *actor, const struct step *step, FILE *out)
{
	const struct map *map = &actor->maps[step->fd % N_MAPS];

	print_done(out, msync(map->start, map->length, MS_SYNC));
}

static sigjmp_buf fault_jump;

static void on_fault(int signal)
{
	siglongjmp(fault_jump, signal);
}

/*
 * What of a mapping a step is about. Within the last page, what lies beyond
 * the file's end is nobody's; a page wholly beyond it is a fault.
 */
static size_t part_of_map(const struct map *map, const struct step *step,
			  char **ret_start)
{
	uint64_t offset = (uint64_t)step->at % map->length;
	uint64_t length = (uint64_t)step->length;
	int64_t at = map->at + (int64_t)offset;
	struct stat st;

	if (length > map->length - offset)
		length = map->length - offset;
	if (fstat(map->fd, &st) < 0)
		return 0;
	*ret_start = map->start + offset;
	if (at >= ((st.st_size + PAGE - 1) & ~(off_t)(PAGE - 1)))
		return length > 0;
	if (at >= st.st_size)
		return 0;
	return length < (uint64_t)(st.st_size - at)
		       ? length
		       : (uint64_t)(st.st_size - at);
}

/* Copies bytes, one end of which is in a mapping. */
static void copy_mapped(void *to, const void *from, size_t length, FILE *out)
{
	struct sigaction action = {.sa_handler = on_fault}, old;
	volatile int fault;

	sigaction(SIGBUS, &action, &old);
	fault = sigsetjmp(fault_jump, 1);
	if (fault)
		fputs("SIGBUS", out);
	else
		memcpy(to, from, length);
	sigaction(SIGBUS, &old, NULL);
	if (!fault)
		fprintf(out, "%zu", length);
}

void run_store(struct actor *actor, const struct step *step, FILE *out)
{
	const struct map *map = &actor->maps[step->fd % N_MAPS];
	autofree char *bytes = NULL;
	char *start;
	size_t length;

	if (!map->start || !map->writable) {
		fputs("no mapping", out);
		return;
	}
	length = part_of_map(map, step, &start);
	bytes = buffer(length);
	fill(bytes, length, step->data);
	copy_mapped(start, bytes, length, out);
}

void run_load(struct actor *actor, const struct step *step, FILE *out)
{
	const struct map *map = &actor->maps[step->fd % N_MAPS];
	autofree char *bytes = NULL;
	char *start;
	size_t length;

	if (!map->start) {
		fputs("no mapping", out);
		return;
	}
	length = part_of_map(map, step, &start);
	bytes = buffer(length);
	memset(bytes, 0, length);
	copy_mapped(bytes, start, length, out);
	print_digest(out, bytes, length);
}

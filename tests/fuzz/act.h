/*
 * An actor: a process that does steps in one of the trees and tells what came
 * of each as a line of text. Two actors that do the same in equal trees tell
 * the same; what legitimately differs (times, inode numbers, process ids, the
 * order of a listing) isn't told, or only by what must hold for it.
 */
#ifndef WORKTREEFS_FUZZ_ACT_H
#define WORKTREEFS_FUZZ_ACT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "tests/fuzz/step.h"

#define MAX_LINE 65536 /* a step, or what came of it */
#define MAX_ACTORS 3

/* Times before 2001 were set by a step, others by the clock. */
#define CLOCK_STARTS 978307200

struct map {
	char *start; /* or NULL */
	size_t length;
	int64_t at;
	bool writable;
	int fd; /* the file, once more */
};

struct actor {
	int root;		/* the tree, O_PATH */
	char top[512];		/* the path above which it never gets */
	int number;		/* which one it is */
	const pid_t *processes; /* of all the tree's actors, by number */
	int fds[N_FDS];		/* or -1 */
	struct map maps[N_MAPS];
};

/* Serves steps from the socket until it closes; never returns. */
void act_serve(struct actor *actor, int sock) __attribute__((noreturn));

/* Does one step and prints what came of it. */
#define X(name, kind, weight, fields)                                 \
	void run_##name(struct actor *actor, const struct step *step, \
			FILE *out);
OPS(X)
#undef X

/* What the run_ functions have in common. */

/* Prints the result of a system call: the number, or errno's name. */
void print_result(FILE *out, long long r);
/* The same, but 0 for success. */
void print_done(FILE *out, int r);
/* Prints " name=" and a digest of the bytes. */
void print_digest(FILE *out, const void *bytes, size_t size);
void print_attributes(FILE *out, const struct stat *st);
/* Keeps a result of open(2) as that descriptor; prints what it is. */
void keep_fd(struct actor *actor, int number, int fd, FILE *out);

/* The descriptor with which an ...at() call starts. */
int base_fd(const struct actor *actor, int base);
/* The same as a path, for calls that have none: in a static buffer. */
const char *base_path(const struct actor *actor, int base, const char *path);

void fill(void *bytes, size_t size, uint32_t data);
uint64_t digest(uint64_t before, const void *bytes, size_t size);
/* Aligned for O_DIRECT; never fails. */
void *buffer(size_t size);
bool is_direct(int fd);

void unmap(struct map *map);

#endif

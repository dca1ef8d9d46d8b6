/*
 * One step of the fuzzer: a system call or a few, with all their arguments.
 * Steps don't depend on what earlier ones came to, so that any of them can be
 * left out of a sequence. They travel and are printed as one line of text:
 *
 *   0 rename base=root path="a/f" base2=cwd path2="g" flags=0x1
 *
 * the actor, the operation, and the fields that it has.
 */
#ifndef WORKTREEFS_FUZZ_STEP_H
#define WORKTREEFS_FUZZ_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define N_FDS 6	 /* descriptors that an actor has */
#define N_MAPS 3 /* mappings */

/* Where a path starts, other than at one of the descriptors. */
#define BASE_ROOT (-1)
#define BASE_CWD (-2)

/* Of write: by data, one of several calls; the last appends whatever else. */
#define N_WRITES 4
#define WRITE_APPENDS 3

/* Of setfl: flags that were given to open(2) aren't taken back. */
#define SETFL_ADD (1 << 30)

/* Flags of setlk and getlk. */
#define LOCK_OF_FILE 1 /* an open file's, not a process's */
#define LOCK_NAMED 2   /* there are none of open files: whose is it? */

/* What a step has beside its actor and operation. */
enum field {
	HAS_BASE = 1 << 0,
	HAS_PATH = 1 << 1,
	HAS_BASE2 = 1 << 2,
	HAS_PATH2 = 1 << 3,
	HAS_FD = 1 << 4,
	HAS_FD2 = 1 << 5,
	HAS_FLAGS = 1 << 6,
	HAS_MODE = 1 << 7,
	HAS_AT = 1 << 8,
	HAS_AT2 = 1 << 9,
	HAS_LENGTH = 1 << 10,
	HAS_DATA = 1 << 11,
	HAS_NAME = HAS_BASE | HAS_PATH,
	HAS_NAME2 = HAS_BASE2 | HAS_PATH2,
	HAS_RANGE = HAS_FD | HAS_AT | HAS_LENGTH,
	HAS_TIMES = HAS_AT | HAS_AT2,
	HAS_OWNER = HAS_AT | HAS_AT2,
};

/*
 * Operations by what they touch: each sequence does without some kinds. These
 * are no operations but say what there may be in others:
 *
 *   append   O_APPEND and the like; where an outsider has changed a file's
 * size, the kernel puts the position after such a write where it thinks the end
 * is clearfl  flags of open(2) taken back by fcntl(2); I/O that the kernel
 *            passes through goes on with them
 *   closed   things whose owner may not read or write them; the kernel lists a
 *            directory without opening it first, and a lock wants a descriptor
 *   copies   within the kernel; by the size that it knows, if an outsider has
 *            changed it
 *   direct   O_DIRECT
 *   dots     "." and ".." in paths; whether a directory may be searched for
 *            these isn't asked
 *   holes    where they are: with neither maps nor space
 *   ofd      locks of open files, beside those of processes
 *   setid    set-id bits
 *   special  pipes, sockets and devices: the kernel opens them without asking,
 *            and on the backing tree they're others
 *   tmpfile  O_TMPFILE
 */
#define KINDS(X)   \
	X(files)   \
	X(data)    \
	X(copies)  \
	X(append)  \
	X(space)   \
	X(holes)   \
	X(direct)  \
	X(clearfl) \
	X(maps)    \
	X(names)   \
	X(dots)    \
	X(links)   \
	X(dirs)    \
	X(cwd)     \
	X(modes)   \
	X(closed)  \
	X(setid)   \
	X(owners)  \
	X(times)   \
	X(xattrs)  \
	X(acls)    \
	X(locks)   \
	X(ofd)     \
	X(special) \
	X(tmpfile) \
	X(forget)

enum kind {
#define X(name) KIND_##name,
	KINDS(X)
#undef X
		N_KINDS,
};

extern const char *const kind_names[N_KINDS];

/* Name, kind, weight, fields. What each does is told at its run_ function. */
#define OPS(X)                                                          \
	X(open, files, 60, HAS_FD | HAS_NAME | HAS_FLAGS | HAS_MODE)    \
	X(reopen, files, 12, HAS_FD | HAS_FD2 | HAS_FLAGS)              \
	X(close, files, 20, HAS_FD)                                     \
	X(dup, files, 6, HAS_FD | HAS_FD2)                              \
	X(setfl, files, 8, HAS_FD | HAS_FLAGS)                          \
	X(fstat, files, 20, HAS_FD)                                     \
	X(read, data, 40, HAS_RANGE | HAS_DATA)                         \
	X(write, data, 50, HAS_RANGE | HAS_DATA)                        \
	X(lseek, data, 12, HAS_FD | HAS_AT | HAS_FLAGS)                 \
	X(sync, data, 4, HAS_FD | HAS_FLAGS)                            \
	X(truncate, data, 10, HAS_NAME | HAS_LENGTH)                    \
	X(ftruncate, data, 12, HAS_FD | HAS_LENGTH)                     \
	X(copy, copies, 14, HAS_RANGE | HAS_FD2 | HAS_AT2 | HAS_FLAGS)  \
	X(sendfile, copies, 6, HAS_RANGE | HAS_FD2 | HAS_FLAGS)         \
	X(splice, copies, 6, HAS_RANGE | HAS_FD2 | HAS_AT2 | HAS_FLAGS) \
	X(fallocate, space, 20, HAS_RANGE | HAS_FLAGS)                  \
	X(extents, holes, 8, HAS_FD)                                    \
	X(map, maps, 18, HAS_RANGE | HAS_FD2 | HAS_FLAGS)               \
	X(store, maps, 20, HAS_RANGE | HAS_DATA)                        \
	X(load, maps, 20, HAS_RANGE)                                    \
	X(msync, maps, 6, HAS_FD)                                       \
	X(unmap, maps, 8, HAS_FD)                                       \
	X(mkdir, names, 24, HAS_NAME | HAS_MODE)                        \
	X(rmdir, names, 12, HAS_NAME)                                   \
	X(unlink, names, 20, HAS_NAME)                                  \
	X(rename, names, 30, HAS_NAME | HAS_NAME2 | HAS_FLAGS)          \
	X(stat, names, 24, HAS_NAME | HAS_FLAGS)                        \
	X(statfs, names, 2, HAS_NAME)                                   \
	X(link, links, 14, HAS_NAME | HAS_NAME2 | HAS_FLAGS)            \
	X(linkfd, links, 8, HAS_FD | HAS_NAME | HAS_FLAGS)              \
	X(symlink, links, 10, HAS_NAME | HAS_PATH2)                     \
	X(readlink, links, 8, HAS_NAME)                                 \
	X(list, dirs, 10, HAS_NAME)                                     \
	X(getdents, dirs, 8, HAS_FD)                                    \
	X(seekdir, dirs, 5, HAS_NAME | HAS_DATA)                        \
	X(churn, dirs, 3, HAS_NAME | HAS_DATA)                          \
	X(chdir, cwd, 10, HAS_NAME)                                     \
	X(fchdir, cwd, 6, HAS_FD)                                       \
	X(getcwd, cwd, 6, 0)                                            \
	X(access, modes, 10, HAS_NAME | HAS_FLAGS | HAS_MODE)           \
	X(chmod, modes, 10, HAS_NAME | HAS_MODE | HAS_FLAGS)            \
	X(fchmod, modes, 5, HAS_FD | HAS_MODE)                          \
	X(umask, modes, 3, HAS_MODE)                                    \
	X(chown, owners, 8, HAS_NAME | HAS_OWNER | HAS_FLAGS)           \
	X(fchown, owners, 4, HAS_FD | HAS_OWNER)                        \
	X(utimens, times, 10, HAS_NAME | HAS_TIMES | HAS_FLAGS)         \
	X(futimens, times, 6, HAS_FD | HAS_TIMES)                       \
	X(setxattr, xattrs, 12,                                         \
	  HAS_NAME | HAS_PATH2 | HAS_FLAGS | HAS_LENGTH | HAS_DATA)     \
	X(fsetxattr, xattrs, 6,                                         \
	  HAS_FD | HAS_PATH2 | HAS_FLAGS | HAS_LENGTH | HAS_DATA)       \
	X(getxattr, xattrs, 8, HAS_NAME | HAS_PATH2 | HAS_LENGTH)       \
	X(listxattr, xattrs, 6, HAS_NAME)                               \
	X(removexattr, xattrs, 6, HAS_NAME | HAS_PATH2)                 \
	X(setacl, acls, 8, HAS_NAME | HAS_FLAGS | HAS_DATA)             \
	X(getacl, acls, 4, HAS_NAME | HAS_FLAGS)                        \
	X(flock, locks, 10, HAS_FD | HAS_FLAGS)                         \
	X(setlk, locks, 16, HAS_RANGE | HAS_FLAGS | HAS_MODE)           \
	X(getlk, locks, 8, HAS_RANGE | HAS_FLAGS | HAS_MODE)            \
	X(mknod, special, 8, HAS_NAME | HAS_MODE)                       \
	X(bind, special, 3, HAS_FD | HAS_PATH)                          \
	X(connect, special, 2, HAS_PATH)                                \
	X(forget, forget, 1, 0)

enum op {
#define X(name, kind, weight, fields) OP_##name,
	OPS(X)
#undef X
		N_OPS,
};

struct op_row {
	const char *name;
	enum kind kind;
	unsigned int weight;
	unsigned int fields; /* enum field */
};

extern const struct op_row op_rows[N_OPS];

struct step {
	enum op op;
	int actor;
	int base, base2;
	int fd, fd2; /* which of the actor's */
	int flags;
	unsigned int mode;
	int64_t at, at2, length;
	uint32_t data;	    /* from which bytes are made, or a choice */
	char *path, *path2; /* owned */
};

void step_release(struct step *step);

/* One line without its end; allocated. NULL when out of memory. */
char *step_print(const struct step *step);
/* 0 or -EINVAL, -ENOMEM; on failure *ret_step needs no release. */
int step_parse(const char *line, struct step *ret_step);

/* Prints text between quotes, what isn't plain ASCII as \xHH. */
void print_quoted(FILE *out, const char *text);

#endif

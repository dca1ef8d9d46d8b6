#include "tests/fuzz/make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/lib/cleanup.h"

/*
 * Few names, so that steps meet each other. What is made under those of the
 * first row is mostly a directory, under the second a file, the third a link.
 */
static const char *const dir_names[] = {"a", "b", "c"};
static const char *const file_names[] = {"f", "g", "h", "i"};
static const char *const link_names[] = {"l", "m"};
static const char *const odd_names[] = {
	"\x01\xff\n\t \\\"'*?", "-rf", "...", ".h", "\xc3\xa9\xcc\x81", ".git",
};

/* What the last name of a path is likely to be. */
enum likely {
	LIKELY_ANY,
	LIKELY_DIR,
	LIKELY_FILE,
	LIKELY_LINK,
};

static const enum likely likely[N_OPS] = {
	[OP_mkdir] = LIKELY_DIR,     [OP_rmdir] = LIKELY_DIR,
	[OP_list] = LIKELY_DIR,	     [OP_seekdir] = LIKELY_DIR,
	[OP_churn] = LIKELY_DIR,     [OP_chdir] = LIKELY_DIR,
	[OP_open] = LIKELY_FILE,     [OP_truncate] = LIKELY_FILE,
	[OP_unlink] = LIKELY_FILE,   [OP_linkfd] = LIKELY_FILE,
	[OP_mknod] = LIKELY_FILE,    [OP_bind] = LIKELY_FILE,
	[OP_connect] = LIKELY_FILE,  [OP_symlink] = LIKELY_LINK,
	[OP_readlink] = LIKELY_LINK,
};

static const char *likely_name(struct random *random, enum likely what)
{
	if (what == LIKELY_ANY)
		what = (enum likely)(LIKELY_DIR + random_below(random, 3));
	if (random_chance(random, 90) && what == LIKELY_DIR)
		return random_pick(random, dir_names);
	if (random_chance(random, 90) && what == LIKELY_FILE)
		return random_pick(random, file_names);
	return random_chance(random, 70) ? random_pick(random, link_names)
					 : random_pick(random, odd_names);
}

/* A name, or what can stand in place of one. */
static void add_name(struct maker *maker, FILE *out, enum likely what)
{
	struct random *random = &maker->random;
	bool dots = maker->kinds & 1u << KIND_dots;

	switch (random_below(random, 60) + (dots ? 0 : 2)) {
	case 0:
		fputs("./", out);
		break;
	case 1:
		fputs(".", out);
		break;
	case 2:
		fprintf(out, "%0*d", NAME_MAX, 0);
		break;
	case 3:
		fprintf(out, "%0*d", NAME_MAX + 1, 0);
		break;
	default:
		fputs(likely_name(random, what), out);
		if (random_chance(random, 3))
			fputs("/", out);
	}
}

/*
 * Never absolute, and climbs at most one directory, at its start: then nothing
 * but a great many symlinks on top of each other could lead out of the tree.
 */
static char *new_path(struct maker *maker, enum likely what)
{
	struct random *random = &maker->random;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	uint32_t above = random_below(random, 8);

	if (!out)
		return NULL;
	if (maker->kinds & 1u << KIND_dots && random_chance(random, 2))
		fputs("../", out);
	above = above < 3 ? 0 : above < 6 ? 1 : above < 7 ? 2 : 3;
	if (random_below(random, 300) == 0)
		above = random_chance(random, 50) ? 40 : PATH_MAX / 2 - 1;
	for (uint32_t i = 0; i < above; i++) {
		if (above < 40 && random_chance(random, 10))
			add_name(maker, out, LIKELY_ANY);
		else
			fputs(random_pick(random, dir_names), out);
		fputs(random_chance(random, 3) ? "//" : "/", out);
	}
	add_name(maker, out, what);
	return fclose(out) == 0 ? text : NULL;
}

/* Often a path that was used before. */
static char *make_path(struct maker *maker, enum likely what)
{
	struct random *random = &maker->random;
	char **slot = &random_pick(random, maker->recent);
	char *path;

	if (*slot && random_chance(random, 30))
		return strdup(*slot);
	if (random_below(random, 500) == 0)
		return strdup("");
	path = new_path(maker, what);
	if (path && strlen(path) < NAME_MAX && random_chance(random, 50)) {
		free(*slot);
		*slot = strdup(path);
	}
	return path;
}

static int make_base(struct maker *maker)
{
	struct random *random = &maker->random;

	if (maker->kinds & 1u << KIND_cwd && random_chance(random, 15))
		return BASE_CWD;
	if (random_chance(random, 8))
		return (int)random_below(random, N_FDS);
	return BASE_ROOT;
}

/* A number of bytes, or an offset, where something is likely to happen. */
static int64_t make_number(struct random *random)
{
	switch (random_below(random, 12)) {
	case 0:
	case 1:
		return 0;
	case 2:
	case 3:
	case 4:
		return random_below(random, 100);
	case 5:
	case 6:
	case 7:
		return 4096 * (int64_t)random_below(random, 20);
	case 8:
	case 9:
		return 4096 * (int64_t)random_below(random, 40) +
		       random_below(random, 3) - 1;
	default:
		return random_below(random, 300000);
	}
}

static int64_t make_offset(struct random *random)
{
	if (random_below(random, 60) == 0)
		return (INT64_C(1) << (30 + random_below(random, 8))) +
		       random_below(random, 5000);
	return random_below(random, 100) == 0 ? -1 : make_number(random);
}

static const unsigned int modes[] = {
	0644,  0644,  0755,  0755,  0777,  0666,  0600,	 0700,	0750, 0444,
	04755, 02755, 06777, 01777, 02775, 02644, 04711, 02070, 0111, 0,
};

struct flag {
	int bits;
	uint32_t percent;
};

static int make_flags(struct random *random, const struct flag *flags, size_t n)
{
	int made = 0;

	for (size_t i = 0; i < n; i++)
		if (random_chance(random, flags[i].percent))
			made |= flags[i].bits;
	return made;
}

/* One of these, each as often as its percents say. */
static int make_choice(struct random *random, const struct flag *flags,
		       size_t n)
{
	uint32_t at = random_below(random, 100);

	for (size_t i = 0; i < n; i++) {
		if (at < flags[i].percent)
			return flags[i].bits;
		at -= flags[i].percent;
	}
	return flags[0].bits;
}

#define MAKE_FLAGS(random, flags) make_flags(random, flags, ARRAY_SIZE(flags))
#define MAKE_CHOICE(random, flags) make_choice(random, flags, ARRAY_SIZE(flags))

static void tune_open(struct maker *maker, struct step *step)
{
	static const struct flag access[] = {
		{O_RDWR, 50},
		{O_RDONLY, 28},
		{O_WRONLY, 20},
		{O_ACCMODE, 2},
	};
	static const struct flag others[] = {
		{O_TRUNC, 12}, {O_APPEND, 15}, {O_NOFOLLOW, 10},
		{O_SYNC, 3},   {O_DSYNC, 3},   {O_NOATIME, 4},
	};
	static const struct flag by_name[] = {
		{O_CREAT, 60},
		{O_EXCL, 10},
		{O_DIRECTORY, 8},
		{O_PATH, 5},
	};
	struct random *random = &maker->random;

	step->flags = MAKE_CHOICE(random, access);
	step->flags |= MAKE_FLAGS(random, others);
	if (step->op == OP_open)
		step->flags |= MAKE_FLAGS(random, by_name);
	if (!(maker->kinds & 1u << KIND_append))
		step->flags &= ~O_APPEND;
	if (maker->kinds & 1u << KIND_direct && random_chance(random, 15))
		step->flags |= O_DIRECT;
	if (maker->kinds & 1u << KIND_tmpfile && step->op == OP_open &&
	    random_chance(random, 8))
		step->flags = (step->flags & ~O_CREAT) | O_TMPFILE;
}

static void tune_setfl(struct maker *maker, struct step *step)
{
	static const struct flag flags[] = {{O_APPEND, 40}, {O_NOATIME, 10}};

	step->flags = MAKE_FLAGS(&maker->random, flags);
	if (maker->kinds & 1u << KIND_direct &&
	    random_chance(&maker->random, 20))
		step->flags |= O_DIRECT;
	if (!(maker->kinds & 1u << KIND_append))
		step->flags &= ~O_APPEND;
	if (!(maker->kinds & 1u << KIND_clearfl))
		step->flags |= SETFL_ADD;
}

static void tune_write(struct maker *maker, struct step *step)
{
	if (!(maker->kinds & 1u << KIND_append) &&
	    step->data % N_WRITES == WRITE_APPENDS)
		step->data++;
}

static void tune_lseek(struct maker *maker, struct step *step)
{
	static const struct flag whence[] = {
		{SEEK_SET, 40}, {SEEK_CUR, 20}, {SEEK_END, 20},
		{SEEK_DATA, 8}, {SEEK_HOLE, 8}, {99, 4},
	};
	size_t n = ARRAY_SIZE(whence);

	if (!(maker->kinds & 1u << KIND_holes))
		n -= 3;
	step->flags = make_choice(&maker->random, whence, n);
}

static void tune_choice(struct maker *maker, struct step *step)
{
	step->flags = (int)random_below(&maker->random, 4);
}

static void tune_fallocate(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{0, 30},
		{FALLOC_FL_KEEP_SIZE, 20},
		{FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 25},
		{FALLOC_FL_ZERO_RANGE, 12},
		{FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 12},
		{FALLOC_FL_PUNCH_HOLE, 1},
	};

	step->flags = MAKE_CHOICE(&maker->random, how);
}

static void tune_map(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{MAP_SHARED | PROT_READ << 8 | PROT_WRITE << 8, 50},
		{MAP_SHARED | PROT_READ << 8, 15},
		{MAP_PRIVATE | PROT_READ << 8 | PROT_WRITE << 8, 20},
		{MAP_PRIVATE | PROT_READ << 8, 10},
		{MAP_SHARED | PROT_WRITE << 8, 5},
	};

	step->flags = MAKE_CHOICE(&maker->random, how);
	/* What is stored far out, SEEK_DATA doesn't find until it's written. */
	step->at = make_number(&maker->random) & ~INT64_C(4095);
}

static void tune_rename(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{0, 68},
		{RENAME_NOREPLACE, 10},
		{RENAME_EXCHANGE, 14},
		{RENAME_WHITEOUT, 5},
		{RENAME_NOREPLACE | RENAME_EXCHANGE, 1},
		{RENAME_NOREPLACE | RENAME_WHITEOUT, 2},
	};

	step->flags = MAKE_CHOICE(&maker->random, how);
	/* What is left behind is a device. */
	if (!(maker->kinds & 1u << KIND_special))
		step->flags &= ~RENAME_WHITEOUT;
}

static void tune_at(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{AT_SYMLINK_NOFOLLOW, 40},
		{AT_EMPTY_PATH, 10},
	};

	step->flags = MAKE_FLAGS(&maker->random, how);
}

static void tune_link(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{AT_SYMLINK_FOLLOW, 30},
		{AT_EMPTY_PATH, 10},
	};

	step->flags = MAKE_FLAGS(&maker->random, how);
}

static void tune_access(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{AT_SYMLINK_NOFOLLOW, 30},
		{AT_EACCESS, 30},
	};

	step->flags = MAKE_FLAGS(&maker->random, how);
	step->mode = random_below(&maker->random, 8);
}

static void tune_umask(struct maker *maker, struct step *step)
{
	static const unsigned int masks[] = {022, 022, 02, 0, 077, 0777, 0137};

	step->mode = random_pick(&maker->random, masks);
}

static void tune_owner(struct maker *maker, struct step *step)
{
	static const int ids[] = {-1, -1, 0, 1000, 65534};

	step->at = random_pick(&maker->random, ids);
	step->at2 = random_pick(&maker->random, ids);
	if (op_rows[step->op].fields & HAS_FLAGS)
		tune_at(maker, step);
}

/* Times are set before 2001, to tell them from what the clock set. */
static int64_t make_time(struct random *random)
{
	switch (random_below(random, 6)) {
	case 0:
		return UTIME_NOW;
	case 1:
		return UTIME_OMIT;
	case 2:
		return -1 - (int64_t)random_below(random, 100000000);
	default:
		return random_below(random, 900000000);
	}
}

static void tune_times(struct maker *maker, struct step *step)
{
	step->at = make_time(&maker->random);
	step->at2 = make_time(&maker->random);
	if (op_rows[step->op].fields & HAS_FLAGS)
		tune_at(maker, step);
}

static void tune_xattr(struct maker *maker, struct step *step)
{
	static const char *const names[] = {
		"user.a", "user.a",  "user.b", "user.\xff\n",	 "trusted.t",
		"user.",  "bogus.x", "",       "security.thing", "user.c",
	};
	static const struct flag how[] = {
		{0, 70},
		{XATTR_CREATE, 15},
		{XATTR_REPLACE, 15},
	};
	struct random *random = &maker->random;

	free(step->path2);
	step->path2 = random_chance(random, 97)
			      ? strdup(random_pick(random, names))
			      : NULL;
	if (!step->path2 &&
	    asprintf(&step->path2, "user.%0*u",
		     240 + (int)random_below(random, 20), 0) < 0)
		step->path2 = NULL;
	step->flags = MAKE_CHOICE(random, how);
	step->length = random_below(random, 64);
	if (random_chance(random, 15))
		step->length = random_below(random, 4096);
	else if (random_chance(random, 10))
		step->length = random_below(random, XATTR_SIZE_MAX + 2);
}

static void tune_acl(struct maker *maker, struct step *step)
{
	step->flags = (int)random_below(&maker->random, 2);
	step->data = random_below(&maker->random, 10);
}

static void tune_flock(struct maker *maker, struct step *step)
{
	static const struct flag how[] = {
		{LOCK_SH, 40},
		{LOCK_EX, 40},
		{LOCK_UN, 20},
	};

	step->flags = MAKE_CHOICE(&maker->random, how);
}

static void tune_lock(struct maker *maker, struct step *step)
{
	static const short types[] = {F_RDLCK, F_WRLCK, F_WRLCK, F_UNLCK};

	if (maker->kinds & 1u << KIND_ofd)
		step->flags =
			random_chance(&maker->random, 50) ? LOCK_OF_FILE : 0;
	else
		step->flags = LOCK_NAMED;
	step->mode = (unsigned int)random_pick(&maker->random, types);
	step->at = random_below(&maker->random, 60);
	step->length = random_below(&maker->random, 30);
}

static void tune_mknod(struct maker *maker, struct step *step)
{
	static const unsigned int types[] = {
		S_IFIFO, S_IFIFO, S_IFREG, S_IFSOCK,
		S_IFCHR, S_IFBLK, 0,	   S_IFDIR,
	};

	step->mode |= random_pick(&maker->random, types);
}

/* What a field means is for some operations more than any number. */
static void (*const tune[N_OPS])(struct maker *, struct step *) = {
	[OP_open] = tune_open,	    [OP_reopen] = tune_open,
	[OP_setfl] = tune_setfl,    [OP_lseek] = tune_lseek,
	[OP_write] = tune_write,    [OP_sync] = tune_choice,
	[OP_copy] = tune_choice,    [OP_sendfile] = tune_choice,
	[OP_splice] = tune_choice,  [OP_fallocate] = tune_fallocate,
	[OP_map] = tune_map,	    [OP_rename] = tune_rename,
	[OP_stat] = tune_at,	    [OP_link] = tune_link,
	[OP_linkfd] = tune_choice,  [OP_access] = tune_access,
	[OP_chmod] = tune_at,	    [OP_umask] = tune_umask,
	[OP_chown] = tune_owner,    [OP_fchown] = tune_owner,
	[OP_utimens] = tune_times,  [OP_futimens] = tune_times,
	[OP_setxattr] = tune_xattr, [OP_fsetxattr] = tune_xattr,
	[OP_getxattr] = tune_xattr, [OP_removexattr] = tune_xattr,
	[OP_setacl] = tune_acl,	    [OP_getacl] = tune_acl,
	[OP_flock] = tune_flock,    [OP_setlk] = tune_lock,
	[OP_getlk] = tune_lock,	    [OP_mknod] = tune_mknod,
};

void maker_init(struct maker *maker, uint64_t seed, uint32_t kinds,
		uint32_t n_actors)
{
	*maker = (struct maker){.random = {seed}, .n_actors = n_actors};
	for (int kind = 0; kind < N_KINDS; kind++)
		if (random_chance(&maker->random, 75) || kind == KIND_files ||
		    kind == KIND_names)
			maker->kinds |= kinds & 1u << kind;
	/* What is reserved, or stored and not written, may pass for either. */
	if (maker->kinds & (1u << KIND_space | 1u << KIND_maps))
		maker->kinds &= ~(1u << KIND_holes);
	/*
	 * A store changes times that the kernel keeps of a view for a while,
	 * and when it's written set-id bits may go.
	 */
	if (maker->kinds & 1u << KIND_maps)
		maker->kinds &= ~(1u << KIND_times | 1u << KIND_setid);
	for (int op = 0; op < N_OPS; op++)
		if (maker->kinds & 1u << op_rows[op].kind)
			maker->weights += op_rows[op].weight;
}

void maker_release(struct maker *maker)
{
	for (size_t i = 0; i < N_RECENT; i++)
		free(maker->recent[i]);
}

static enum op make_op(struct maker *maker)
{
	uint32_t at = random_below(&maker->random, maker->weights);

	for (int op = 0; op < N_OPS; op++) {
		if (!(maker->kinds & 1u << op_rows[op].kind))
			continue;
		if (at < op_rows[op].weight)
			return (enum op)op;
		at -= op_rows[op].weight;
	}
	return OP_stat;
}

/* The operations by which something gets its mode. */
static const bool gives_mode[N_OPS] = {
	[OP_open] = true,  [OP_mkdir] = true,  [OP_mknod] = true,
	[OP_chmod] = true, [OP_fchmod] = true,
};

/* Everything stays open to its owner. */
static void keep_open(struct step *step)
{
	if (step->op == OP_umask)
		step->mode &= 0177;
	else if (gives_mode[step->op])
		step->mode |= 0600;
}

/* Any number for every field, in the same order whatever the compiler. */
static void make_numbers(struct maker *maker, struct step *step)
{
	struct random *random = &maker->random;

	if (random_chance(random, 25))
		step->actor = (int)random_below(random, maker->n_actors);
	step->base = make_base(maker);
	step->base2 = make_base(maker);
	step->fd = (int)random_below(random, N_FDS);
	step->fd2 = (int)random_below(random, N_FDS);
	step->mode = random_pick(random, modes);
	step->at = make_offset(random);
	step->at2 = make_offset(random);
	step->length = make_number(random);
	step->data = (uint32_t)random_next(random);
}

int maker_make(struct maker *maker, struct step *ret_step)
{
	struct step step = {.op = make_op(maker)};
	unsigned int has = op_rows[step.op].fields;

	make_numbers(maker, &step);
	if (has & HAS_PATH)
		step.path = make_path(maker, likely[step.op]);
	if (has & HAS_PATH2)
		step.path2 = make_path(maker, likely[step.op]);
	if (tune[step.op])
		tune[step.op](maker, &step);
	if (!(maker->kinds & 1u << KIND_closed))
		keep_open(&step);
	if (!(maker->kinds & 1u << KIND_setid))
		step.mode &= ~(unsigned int)(S_ISUID | S_ISGID);
	if (((has & HAS_PATH) && !step.path) ||
	    ((has & HAS_PATH2) && !step.path2)) {
		step_release(&step);
		return -ENOMEM;
	}
	*ret_step = step;
	return 0;
}

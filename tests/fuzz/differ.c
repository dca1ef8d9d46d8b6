/*
 * differ: does the same random steps in a view and in a plain directory and
 * compares what came of each, and the trees.
 *
 * See usage() for its options. Steps are made in sequences that each begin
 * with empty trees and with a seed one higher than the last; each does without
 * some kinds of steps. On a difference the sequence is made shorter for as
 * long as the two still differ, and what is left is printed: --replay does it
 * again.
 *
 * With an outsider (--backing DIR --outsider) a third actor works on the
 * view's backing tree itself; with an intruder (--intruder) a process does so
 * all the time, unasked. Where names may be out of date for a while, results
 * can't be compared: --loose looks only for what must never come out of a
 * view, and compares the view with its backing tree once all is quiet.
 *
 * 0: alike; 1: different; 2: usage; 3: something else failed, or hangs.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/make.h"
#include "tests/fuzz/side.h"
#include "tests/fuzz/tree.h"

enum {
	EXIT_ALIKE = 0,
	EXIT_DIFFERENT = 1,
	EXIT_USAGE = 2,
	EXIT_BROKEN = 3,
};

struct fuzz {
	/* As given. */
	uint64_t seed;
	uint64_t n_steps;
	size_t per_sequence;
	size_t per_check;
	uint32_t kinds;
	const char *backing;
	const char *mountpoint; /* where to have names forgotten; or NULL */
	const char *replay;
	unsigned int patience; /* seconds to look for a shorter sequence */
	uid_t other_uid;
	bool outsider, intruder, loose, verbose;

	struct side view, plain;
	uint32_t n_actors;
	char *difference;	     /* owned: what differed last, as text */
	char *answer, *plain_answer; /* MAX_LINE each */
};

struct sequence {
	struct step *steps; /* owned, with what is in them */
	size_t n;
};

static void sequence_release(struct sequence *sequence)
{
	for (size_t i = 0; i < sequence->n; i++)
		step_release(&sequence->steps[i]);
	free(sequence->steps);
}

#define autosequence __attribute__((cleanup(sequence_release)))

static int sequence_add(struct sequence *sequence, const struct step *step)
{
	struct step *grown =
		reallocarray(sequence->steps, sequence->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	sequence->steps = grown;
	sequence->steps[sequence->n++] = *step;
	return 0;
}

static int sequence_make(const struct fuzz *fuzz, uint64_t seed, size_t n,
			 struct sequence *sequence)
{
	struct maker maker;
	int r = 0;

	maker_init(&maker, seed, fuzz->kinds, fuzz->n_actors);
	while (r == 0 && sequence->n < n) {
		struct step step;

		r = maker_make(&maker, &step);
		if (r == 0)
			r = sequence_add(sequence, &step);
	}
	maker_release(&maker);
	return r;
}

static int sequence_read(const char *file, struct sequence *sequence)
{
	autofile FILE *in = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	autofree char *line = NULL;
	size_t size = 0;
	int r = in ? 0 : -errno;

	while (r == 0 && getline(&line, &size, in) > 0) {
		struct step step;

		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || line[0] == '\0')
			continue;
		r = step_parse(line, &step);
		if (r == 0)
			r = sequence_add(sequence, &step);
	}
	return r;
}

/* Remembers a difference; 1, as told by all that look for one. */
static int differs(struct fuzz *fuzz, size_t number, const char *what,
		   const char *view, const char *plain)
{
	free(fuzz->difference);
	if (asprintf(&fuzz->difference,
		     "step %zu: %s\n  view:  %s\n  plain: %s", number, what,
		     view, plain) < 0)
		fuzz->difference = NULL;
	return 1;
}

/* What a process must never get to see of how a view works. */
static const char *const never_seen[] = {
	"EIO", "ENOTCONN", "ENOSYS", "EMFILE", "ENFILE", "EPROTO",
};

/*
 * What others delete on the backing tree is gone for those who hold it by no
 * more than a name. But whoever starts from a path must hear that it doesn't
 * exist. Two calls are beyond that: what the C library does by a descriptor,
 * and rename(2), in which the kernel can't give up the old place of a directory
 * that others have moved (__d_unalias() in its fs/dcache.c).
 */
static bool is_wrong(const struct step *step, const char *answer)
{
	unsigned int has = op_rows[step->op].fields;

	for (size_t i = 0; i < ARRAY_SIZE(never_seen); i++)
		if (strstr(answer, never_seen[i]))
			return true;
	if (step->op == OP_chmod || step->op == OP_rename)
		return false;
	return strstr(answer, "= ESTALE") && (has & HAS_PATH) &&
	       step->base == BASE_ROOT &&
	       (!(has & HAS_BASE2) || step->base2 == BASE_ROOT);
}

static bool is_error(const char *answer)
{
	return strncmp(answer, "= E", 3) == 0;
}

/*
 * For others than root a view differs by the kernel's doing:
 * - It leaves it to us who may search a directory, and what may be done in one
 *   with the sticky bit. A user who asks for something impossible, too, may
 *   hear of that first.
 * - When a user is refused a name, it forgets it, so that whoever works there
 *   can't tell where he is.
 * - chown(2) that sets neither id can't be told from something else.
 */
static bool may_differ(const struct fuzz *fuzz, const struct step *step)
{
	const char *answer = fuzz->answer, *plain = fuzz->plain_answer;

	/* Where a directory is that others have moved, it can't know. */
	if (step->op == OP_getcwd && fuzz->outsider)
		return true;
	if (geteuid() == 0 && fuzz->other_uid == 0)
		return false;
	if (step->op == OP_getcwd)
		return strcmp(answer, "= ENOENT") == 0;
	if (step->op == OP_chown || step->op == OP_fchown)
		return step->at == -1 && step->at2 == -1 &&
		       strcmp(plain, "= EPERM") == 0;
	return is_error(answer) && (strcmp(plain, "= EACCES") == 0 ||
				    strcmp(plain, "= EPERM") == 0);
}

/* Has the kernel forget names that nobody uses; as root. */
static void forget(const struct fuzz *fuzz)
{
	if (fuzz->mountpoint)
		mount(NULL, fuzz->mountpoint, NULL, MS_REMOUNT, NULL);
}

/* One step on both sides. 0 alike, 1 different, -errno. */
static int do_step(struct fuzz *fuzz, const struct step *step, size_t number)
{
	autofree char *line = step_print(step);
	int actor = step->actor;
	int r;

	if (!line)
		return -ENOMEM;
	if (step->op == OP_forget)
		forget(fuzz);
	r = side_send(&fuzz->view, actor, line);
	if (r == 0 && !fuzz->loose)
		r = side_send(&fuzz->plain, actor, line);
	if (r == 0)
		r = side_receive(&fuzz->view, actor, fuzz->answer);
	if (r == 0 && !fuzz->loose)
		r = side_receive(&fuzz->plain, actor, fuzz->plain_answer);
	if (r < 0) {
		differs(fuzz, number, line, strerrorname_np(-r), "");
		return r;
	}
	if (fuzz->verbose)
		printf("%zu: %s %s\n", number, line, fuzz->answer);
	if (fuzz->loose && is_wrong(step, fuzz->answer))
		return differs(fuzz, number, line, fuzz->answer, "not that");
	if (!fuzz->loose && strcmp(fuzz->answer, fuzz->plain_answer) != 0 &&
	    !may_differ(fuzz, step))
		return differs(fuzz, number, line, fuzz->answer,
			       fuzz->plain_answer);
	return 0;
}

/* Are two trees the same? They may be given some time to become so. */
static int compare_trees(struct fuzz *fuzz, size_t number, const char *a,
			 const char *b, unsigned int detail, int tries)
{
	for (;;) {
		autofree char *tree_a = tree_print(a, detail);
		autofree char *tree_b = tree_print(b, detail);
		autofree char *line_a = NULL;
		autofree char *line_b = NULL;

		if (!tree_a || !tree_b)
			return -ENOMEM;
		if (!tree_differs(tree_a, tree_b, &line_a, &line_b))
			return 0;
		if (--tries <= 0)
			return differs(fuzz, number,
				       detail ? "the view and its backing tree"
					      : "the trees",
				       line_a ? line_a : "",
				       line_b ? line_b : "");
		usleep(100000);
	}
}

/* In the midst of a sequence. */
static int check(struct fuzz *fuzz, size_t number)
{
	if (fuzz->loose)
		return 0;
	return compare_trees(fuzz, number, fuzz->view.tops[0],
			     fuzz->plain.tops[0], 0, 1);
}

/* At its end: attributes may have been kept for as long as a second. */
static int check_at_end(struct fuzz *fuzz, size_t number)
{
	int r = check(fuzz, number);

	if (r == 0 && fuzz->backing)
		r = compare_trees(fuzz, number, fuzz->view.tops[0],
				  fuzz->backing, TREE_IDENTITY, 15);
	return r;
}

static int do_sequence(struct fuzz *fuzz, const struct sequence *sequence,
		       size_t per_check)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sequence->n; i++) {
		r = do_step(fuzz, &sequence->steps[i], i);
		if (r == 0 && per_check > 0 && i % per_check == per_check - 1)
			r = check(fuzz, i);
	}
	return r;
}

/* Works on the backing tree until it is killed. */
static void intrude(struct fuzz *fuzz, uint64_t seed)
{
	struct side *side = &fuzz->view;
	struct maker maker;

	maker_init(&maker, ~seed,
		   1u << KIND_files | 1u << KIND_names | 1u << KIND_data |
			   1u << KIND_links | 1u << KIND_modes |
			   1u << KIND_times | 1u << KIND_xattrs,
		   1);
	for (;;) {
		struct step step;
		autofree char *line = NULL;

		if (maker_make(&maker, &step) < 0)
			exit(EXIT_BROKEN);
		line = step_print(&step);
		step_release(&step);
		if (!line || side_send(side, MAX_ACTORS - 1, line) < 0 ||
		    side_receive(side, MAX_ACTORS - 1, fuzz->answer) < 0)
			exit(EXIT_BROKEN);
		usleep((unsigned int)(random_next(&maker.random) % 1000));
	}
}

static pid_t start_intruder(struct fuzz *fuzz, uint64_t seed)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		intrude(fuzz, seed);
	return pid;
}

/* A sequence from its beginning to its end. 0 alike, 1 different, -errno. */
static int trial(struct fuzz *fuzz, const struct sequence *sequence,
		 size_t per_check, uint64_t seed)
{
	pid_t intruder = -1;
	int r = side_start(&fuzz->view);

	if (r == 0)
		r = side_start(&fuzz->plain);
	if (r < 0) {
		differs(fuzz, 0, "starting", strerrorname_np(-r), "");
	} else {
		if (fuzz->intruder)
			intruder = start_intruder(fuzz, seed);
		r = do_sequence(fuzz, sequence, per_check);
	}
	if (intruder > 0) {
		kill(intruder, SIGKILL);
		waitpid(intruder, NULL, 0);
	}
	if (r == 0)
		r = check(fuzz, sequence->n);
	side_stop(&fuzz->view);
	side_stop(&fuzz->plain);
	return r == 0 ? check_at_end(fuzz, sequence->n) : r;
}

/* The sequence without n steps from at on; what is in it is borrowed. */
static int sequence_without(const struct sequence *sequence, size_t at,
			    size_t n, struct sequence *ret_rest)
{
	size_t left = sequence->n - n;
	struct step *steps = calloc(left ? left : 1, sizeof(*steps));

	if (!steps)
		return -ENOMEM;
	memcpy(steps, sequence->steps, at * sizeof(*steps));
	memcpy(steps + at, sequence->steps + at + n,
	       (left - at) * sizeof(*steps));
	*ret_rest = (struct sequence){steps, left};
	return 0;
}

/* Leaves out n steps from at on for good if the rest still differs. */
static bool try_without(struct fuzz *fuzz, struct sequence *sequence, size_t at,
			size_t n)
{
	struct sequence rest;
	bool still;

	if (sequence_without(sequence, at, n, &rest) < 0)
		return false;
	still = trial(fuzz, &rest, 0, fuzz->seed) == 1;
	if (!still) {
		free(rest.steps);
		return false;
	}
	for (size_t i = at; i < at + n; i++)
		step_release(&sequence->steps[i]);
	free(sequence->steps);
	*sequence = rest;
	return true;
}

static void make_shorter(struct fuzz *fuzz, struct sequence *sequence)
{
	time_t end = time(NULL) + fuzz->patience;

	for (size_t n = sequence->n / 2; n > 0; n /= 2)
		for (size_t at = sequence->n; at > 0 && time(NULL) < end;) {
			size_t part = at < n ? at : n;

			at -= part;
			try_without(fuzz, sequence, at, part);
		}
}

static void report(struct fuzz *fuzz, struct sequence *sequence, uint64_t seed,
		   int r)
{
	printf("# seed %llu, %s\n", (unsigned long long)seed,
	       fuzz->difference ? fuzz->difference : "out of memory");
	fflush(stdout);
	/* What an intruder does isn't the same the next time. */
	if (r != 1 || fuzz->intruder)
		return;
	make_shorter(fuzz, sequence);
	printf("# the same in %zu steps:\n", sequence->n);
	for (size_t i = 0; i < sequence->n; i++) {
		autofree char *line = step_print(&sequence->steps[i]);

		printf("%s\n", line ? line : "");
	}
	r = trial(fuzz, sequence, 0, seed);
	if (r == 0)
		printf("# and now it doesn't differ\n");
	else
		printf("# %s\n", fuzz->difference);
}

/* 0 or an exit status. */
static int run_sequence(struct fuzz *fuzz, struct sequence *sequence,
			uint64_t seed)
{
	int r = trial(fuzz, sequence, fuzz->per_check, seed);

	if (r == 0)
		return EXIT_ALIKE;
	report(fuzz, sequence, seed, r);
	return r == 1 ? EXIT_DIFFERENT : EXIT_BROKEN;
}

static int run_replay(struct fuzz *fuzz)
{
	autosequence struct sequence sequence = {0};
	int r = sequence_read(fuzz->replay, &sequence);

	if (r < 0) {
		fprintf(stderr, "differ: cannot read '%s': %s\n", fuzz->replay,
			strerror(-r));
		return EXIT_BROKEN;
	}
	fuzz->patience = 0;
	return run_sequence(fuzz, &sequence, fuzz->seed);
}

static int run_seeds(struct fuzz *fuzz)
{
	uint64_t done = 0;

	for (uint64_t seed = fuzz->seed; done < fuzz->n_steps; seed++) {
		autosequence struct sequence sequence = {0};
		uint64_t left = fuzz->n_steps - done;
		int r = sequence_make(
			fuzz, seed,
			left < fuzz->per_sequence ? left : fuzz->per_sequence,
			&sequence);

		if (r < 0)
			return EXIT_BROKEN;
		done += sequence.n;
		r = run_sequence(fuzz, &sequence, seed);
		if (r != EXIT_ALIKE)
			return r;
	}
	printf("# %llu steps alike\n", (unsigned long long)done);
	return EXIT_ALIKE;
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: differ [OPTION]... VIEW PLAIN\n"
		"\n"
		"VIEW and PLAIN are directories that are emptied.\n"
		"\n"
		"  --steps N        do so many (default 10000)\n"
		"  --seed N         which ones (default 1)\n"
		"  --sequence N     begin anew every so many steps (default "
		"1000)\n"
		"  --check N        compare the trees every so many (default "
		"100)\n"
		"  --only KIND,...  these kinds of steps alone\n"
		"  --without KIND,...\n"
		"                   no steps of these kinds\n"
		"  --backing DIR    what VIEW shows: the same must be in it\n"
		"  --mountpoint DIR where VIEW is mounted: names are forgotten "
		"(root)\n"
		"  --user UID       the second actor is this user (root)\n"
		"  --outsider       a third actor works on the backing tree\n"
		"  --intruder       a process works on it all the time\n"
		"  --loose          don't compare results\n"
		"  --shorten S      look so long for less that differs "
		"(default 60)\n"
		"  --replay FILE    steps from a file, or - for stdin\n"
		"  -v               print each step\n"
		"\nkinds:");
	for (int kind = 0; kind < N_KINDS; kind++)
		fprintf(out, " %s", kind_names[kind]);
	fputc('\n', out);
}

/* Kinds by their names; 0 if one isn't known. */
static uint32_t parse_kinds(const char *text)
{
	uint32_t kinds = 0;

	while (*text) {
		size_t length = strcspn(text, ",");
		uint32_t found = 0;

		for (int kind = 0; kind < N_KINDS; kind++)
			if (strlen(kind_names[kind]) == length &&
			    strncmp(kind_names[kind], text, length) == 0)
				found = 1u << kind;
		if (!found)
			return 0;
		kinds |= found;
		text += length;
		text += *text == ',';
	}
	return kinds;
}

enum {
	OPTION_SEED = 256,
	OPTION_STEPS,
	OPTION_SEQUENCE,
	OPTION_CHECK,
	OPTION_ONLY,
	OPTION_WITHOUT,
	OPTION_BACKING,
	OPTION_MOUNTPOINT,
	OPTION_USER,
	OPTION_OUTSIDER,
	OPTION_INTRUDER,
	OPTION_LOOSE,
	OPTION_SHORTEN,
	OPTION_REPLAY,
};

/* False for what makes no sense. */
static bool take_option(struct fuzz *fuzz, int option, const char *value)
{
	switch (option) {
	case OPTION_SEED:
		fuzz->seed = strtoull(value, NULL, 0);
		return true;
	case OPTION_STEPS:
		fuzz->n_steps = strtoull(value, NULL, 0);
		return fuzz->n_steps > 0;
	case OPTION_SEQUENCE:
		fuzz->per_sequence = strtoul(value, NULL, 0);
		return fuzz->per_sequence > 0;
	case OPTION_CHECK:
		fuzz->per_check = strtoul(value, NULL, 0);
		return true;
	case OPTION_ONLY:
		fuzz->kinds = parse_kinds(value) | 1u << KIND_files |
			      1u << KIND_names;
		return parse_kinds(value) != 0;
	case OPTION_WITHOUT:
		fuzz->kinds &= ~parse_kinds(value);
		return parse_kinds(value) != 0;
	case OPTION_BACKING:
		fuzz->backing = value;
		return true;
	case OPTION_MOUNTPOINT:
		fuzz->mountpoint = value;
		return true;
	case OPTION_USER:
		fuzz->other_uid = (uid_t)strtoul(value, NULL, 0);
		return geteuid() == 0;
	case OPTION_OUTSIDER:
		fuzz->outsider = true;
		return true;
	case OPTION_INTRUDER:
		fuzz->intruder = fuzz->loose = true;
		return true;
	case OPTION_LOOSE:
		fuzz->loose = true;
		return true;
	case OPTION_SHORTEN:
		fuzz->patience = (unsigned int)strtoul(value, NULL, 0);
		return true;
	case OPTION_REPLAY:
		fuzz->replay = value;
		return true;
	case 'v':
		fuzz->verbose = true;
		return true;
	default:
		return false;
	}
}

static const struct option options[] = {
	{"seed", required_argument, NULL, OPTION_SEED},
	{"steps", required_argument, NULL, OPTION_STEPS},
	{"sequence", required_argument, NULL, OPTION_SEQUENCE},
	{"check", required_argument, NULL, OPTION_CHECK},
	{"only", required_argument, NULL, OPTION_ONLY},
	{"without", required_argument, NULL, OPTION_WITHOUT},
	{"backing", required_argument, NULL, OPTION_BACKING},
	{"mountpoint", required_argument, NULL, OPTION_MOUNTPOINT},
	{"user", required_argument, NULL, OPTION_USER},
	{"outsider", no_argument, NULL, OPTION_OUTSIDER},
	{"intruder", no_argument, NULL, OPTION_INTRUDER},
	{"loose", no_argument, NULL, OPTION_LOOSE},
	{"shorten", required_argument, NULL, OPTION_SHORTEN},
	{"replay", required_argument, NULL, OPTION_REPLAY},
	{0},
};

static void set_sides(struct fuzz *fuzz, const char *view, const char *plain)
{
	fuzz->view = (struct side){.name = "view", .tops = {view, view}};
	fuzz->plain = (struct side){.name = "plain", .tops = {plain, plain}};
	for (int i = 0; i < MAX_ACTORS; i++)
		fuzz->view.uids[i] = fuzz->plain.uids[i] =
			i == 1 ? fuzz->other_uid : geteuid();
	fuzz->n_actors = 2;
	if (!fuzz->outsider && !fuzz->intruder)
		return;
	fuzz->view.tops[MAX_ACTORS - 1] = fuzz->backing;
	fuzz->plain.tops[MAX_ACTORS - 1] = plain;
	fuzz->n_actors += fuzz->outsider;
}

int main(int argc, char **argv)
{
	struct fuzz fuzz = {
		.seed = 1,
		.n_steps = 10000,
		.per_sequence = 1000,
		.per_check = 100,
		.kinds = (1u << N_KINDS) - 1,
		.patience = 60,
		.other_uid = geteuid(),
	};
	int c, status;

	while ((c = getopt_long(argc, argv, "v", options, NULL)) != -1)
		if (!take_option(&fuzz, c, optarg)) {
			usage(stderr);
			return EXIT_USAGE;
		}
	if (argc - optind != 2 ||
	    (!fuzz.backing && (fuzz.outsider || fuzz.intruder))) {
		usage(stderr);
		return EXIT_USAGE;
	}
	set_sides(&fuzz, argv[optind], argv[optind + 1]);
	fuzz.answer = malloc(MAX_LINE + 1);
	fuzz.plain_answer = malloc(MAX_LINE + 1);
	if (!fuzz.answer || !fuzz.plain_answer)
		return EXIT_BROKEN;
	status = fuzz.replay ? run_replay(&fuzz) : run_seeds(&fuzz);
	free(fuzz.answer);
	free(fuzz.plain_answer);
	free(fuzz.difference);
	return status;
}

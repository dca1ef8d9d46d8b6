#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/record.h"
#include "mountctl/command.h"
#include "mountctl/environment.h"
#include "mountctl/gitrules.h"
#include "mountctl/launch.h"
#include "mountctl/namespace.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/server.h"

enum {
	OPT_DIE_WITH_PARENT = PLAN_OPT_END,
	OPT_FALLBACK,
	OPT_TIER_FILE,
};

static const struct option long_options[] = {
	PLAN_LONG_OPTIONS,
	{"die-with-parent", no_argument, NULL, OPT_DIE_WITH_PARENT},
	{"fallback", required_argument, NULL, OPT_FALLBACK},
	{"tier-file", required_argument, NULL, OPT_TIER_FILE},
	OPTION_ROWS_END,
};

struct run {
	struct plan_options plan;
	struct launch launch;
	bool fallback;	       /* without a guard rather than not at all */
	const char *tier_file; /* borrowed; NULL: nobody asks */
	bool tier_file_given;  /* by an option, not by the environment */
};

static int take_fallback(struct run *run, const char *word)
{
	run->fallback = strcmp(word, "none") == 0;
	if (!run->fallback && strcmp(word, "fail") != 0)
		return usage_error("run: '%s' is no fallback; 'none' and "
				   "'fail' are",
				   word);
	return 0;
}

/* 0, or an exit status. */
static int take_option(struct run *run, int option, const char *argument)
{
	autofree char *message = NULL;
	int r;

	switch (option) {
	case '?':
		return STATUS_USAGE;
	case 'h':
		return STATUS_HELP;
	case OPT_DIE_WITH_PARENT:
		run->launch.die_with_parent = true;
		return 0;
	case OPT_FALLBACK:
		return take_fallback(run, argument);
	case OPT_TIER_FILE:
		run->tier_file = argument;
		run->tier_file_given = true;
		return 0;
	default:
		r = plan_option(&run->plan, option, argument, &message);
		return r < 0 ? fail_message(r, message) : 0;
	}
}

/* 0, or an exit status. */
static int take_environment(struct run *run)
{
	static const char *const tier_variables[] = {
		"WORKTREEFS_TIER_FILE",
		"VINTA_SANDBOX_TIER_FILE",
	};
	const char *fallback = getenv("WORKTREEFS_FALLBACK");

	for (size_t i = 0; i < ARRAY_SIZE(tier_variables); i++) {
		const char *file = getenv(tier_variables[i]);

		if (!run->tier_file && file && *file)
			run->tier_file = file;
	}
	return fallback && *fallback ? take_fallback(run, fallback) : 0;
}

static int take_arguments(struct run *run, int argc, char **argv)
{
	int option, status = take_environment(run);

	while (status == 0 &&
	       (option = option_next(argc, argv, "+" PLAN_SHORT_OPTIONS,
				     long_options)) != -1)
		status = take_option(run, option, optarg);
	if (status == 0)
		status = operands_check(argc, argv, 1, argc, "a COMMAND");
	run->launch.argv = argv + optind;
	run->launch.name_given = run->plan.name != NULL;
	return status;
}

/* 0, or an exit status. */
static int open_tier_file(struct run *run)
{
	int fd, r;

	if (!run->tier_file)
		return 0;
	fd = open(run->tier_file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY,
		  0666);
	r = fd < 0 ? -errno : 0;
	run->launch.tier_fd = fd;
	if (r == 0)
		return 0;
	if (run->tier_file_given)
		return fail(r, "cannot write to '%s'", run->tier_file);
	/* Inherited from somebody further out, it may be out of reach here. */
	warn("cannot write to '%s': %s", run->tier_file, strerror(-r));
	return 0;
}

static bool is_switched_off(void)
{
	const char *value = getenv("WORKTREEFS");

	return value && strcmp(value, "off") == 0;
}

/* Can a guard be set up here at all? 0, or -errno with a message. */
static int probe(char **message)
{
	autofree char *program = NULL;
	int r = server_find_program(&program, message);

	return r < 0 ? r : namespace_probe(message);
}

/* Is the session of that name live? 1 with its record, 0, or -errno. */
static int find_live(const char *name, struct record *record, char **message)
{
	int r = record_read(name, record);

	/* What can't be read as a record is nobody's session, or not yet. */
	if (r == -ENOENT || r == -EINVAL)
		return 0;
	if (r < 0)
		return explain(r, message,
			       "cannot read the record of the session '%s': %s",
			       name, strerror(-r));
	return record->live;
}

/* As launch.h says. */
static int run_new(struct run *run, char **message)
{
	struct session_spec spec;
	int r;

	session_spec_init(&spec);
	r = plan_session(&run->plan, TIER_ENFORCED, &spec, message);
	if (r == 0) {
		gitrules_warn(&spec);
		r = launch_session(&run->launch, &spec, message);
	}
	session_spec_release(&spec);
	return r;
}

static int run_guarded(struct run *run, char **message)
{
	const char *name = run->plan.name;
	struct record record;
	int r = 0;

	if (name && !run->plan.any_rules && environment_is_inside(name))
		return launch_inside(&run->launch, message);
	record_init(&record);
	if (name && !run->plan.any_rules)
		r = find_live(name, &record, message);
	if (r > 0)
		r = launch_joined(&run->launch, &record, message);
	else if (r == 0)
		r = run_new(run, message);
	record_release(&record);
	return r;
}

static int run_it(struct run *run, char **message)
{
	autofree char *why = NULL;

	if (is_switched_off()) {
		warn("WORKTREEFS=off: '%s' runs without a guard",
		     run->launch.argv[0]);
		return launch_unguarded(&run->launch, message);
	}
	if (run->fallback && probe(&why) < 0) {
		warn("NO GUARD: %s", why ? why : "it can't be set up");
		warn("'%s' can write to the main checkout, as the fallback "
		     "'none' allows",
		     run->launch.argv[0]);
		return launch_unguarded(&run->launch, message);
	}
	return run_guarded(run, message);
}

/* The exit status: whatever of ours fails is told from what commands return. */
static int run_to_status(struct run *run)
{
	autofree char *message = NULL;
	int r = run_it(run, &message);

	if (r >= 0)
		return r;
	fail_message(r, message);
	return STATUS_RUN_FAILED;
}

int cmd_run(int argc, char **argv)
{
	struct run run = {0};
	int status;

	launch_init(&run.launch);
	run.launch.records_state = true;
	plan_options_init(&run.plan);
	status = take_arguments(&run, argc, argv);
	if (status == 0)
		status = open_tier_file(&run);
	if (status == 0)
		status = run_to_status(&run);
	else if (status != STATUS_HELP)
		status = STATUS_RUN_FAILED;
	plan_options_release(&run.plan);
	cleanup_fdp(&run.launch.tier_fd);
	return status;
}

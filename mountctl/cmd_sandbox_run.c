/*
 * A wrapper's interface kept: lists of trees before a command. What can't be
 * guarded at all runs unguarded, and says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/denylist.h"
#include "mountctl/denyplan.h"
#include "mountctl/gitrules.h"
#include "mountctl/launch.h"
#include "mountctl/namespace.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/server.h"

/* A failure of our own. */
#define STATUS_SANDBOX_FAILED STATUS_USAGE

enum {
	OPT_DENY = 256,
	OPT_ALLOW,
};

static const struct option long_options[] = {
	{"deny", required_argument, NULL, OPT_DENY},
	{"allow", required_argument, NULL, OPT_ALLOW},
	OPTION_ROWS_END,
};

struct sandbox {
	struct denylist list;
	struct strings *words; /* operands belong to this list; or NULL */
	struct launch launch;
};

static int take_word(struct sandbox *sandbox, const char *word)
{
	if (!sandbox->words)
		return usage_error("sandbox-run: '%s' stands before any list; "
				   "the command comes after '--'",
				   word);
	if (!word[0])
		return usage_error("sandbox-run: a path is empty");
	if (strings_add(sandbox->words, word) < 0)
		return usage_error("sandbox-run: out of memory");
	return STATUS_OK;
}

static int take_option(struct sandbox *sandbox, int option,
		       const char *argument)
{
	switch (option) {
	case OPT_DENY:
		sandbox->words = &sandbox->list.deny;
		return take_word(sandbox, argument);
	case OPT_ALLOW:
		sandbox->words = &sandbox->list.allow;
		return take_word(sandbox, argument);
	case 1:
		return take_word(sandbox, argument);
	case 'h':
		return STATUS_HELP;
	default:
		return STATUS_USAGE;
	}
}

static int take_arguments(struct sandbox *sandbox, int argc, char **argv)
{
	int option, status = STATUS_OK;

	while (status == STATUS_OK &&
	       (option = option_next(argc, argv, "-h", long_options)) != -1)
		status = take_option(sandbox, option, optarg);
	if (status == STATUS_OK && optind >= argc)
		return usage_error(
			"sandbox-run: a COMMAND after '--' is "
			"missing; see 'mountctl sandbox-run --help'");
	if (status == STATUS_OK && sandbox->list.deny.n == 0)
		return usage_error("sandbox-run: --deny is missing; see "
				   "'mountctl sandbox-run --help'");
	sandbox->launch.argv = argv + optind;
	return status;
}

static bool is_switched_off(void)
{
	const char *value = getenv("VINTA_SANDBOX");

	return value && strcmp(value, "off") == 0;
}

/* Inherited from somebody further out, it may be out of reach here. */
static void open_tier_file(struct sandbox *sandbox)
{
	const char *file = getenv("VINTA_SANDBOX_TIER_FILE");

	if (!file || !*file)
		return;
	sandbox->launch.tier_fd =
		open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	if (sandbox->launch.tier_fd < 0)
		warn("cannot write to '%s': %s", file, strerror(errno));
}

/* Can a guard be set up here at all? 0, or -errno with a message. */
static int probe(char **message)
{
	autofree char *program = NULL;
	int r = server_find_program(&program, message);

	return r < 0 ? r : namespace_probe(message);
}

static void warn_of_missing(const struct strings *missing)
{
	for (size_t i = 0; i < missing->n; i++)
		warn("'%s' doesn't exist: nothing keeps it from being made",
		     missing->s[i]);
}

static int run_unguarded(struct sandbox *sandbox, const char *why,
			 char **message)
{
	warn("NO GUARD: %s", why);
	warn("'%s' can write to everything that is denied",
	     sandbox->launch.argv[0]);
	return launch_unguarded(&sandbox->launch, message);
}

/* As launch.h says. */
static int launch(struct sandbox *sandbox, struct session_spec *spec,
		  char **message)
{
	autofree char *why = NULL;

	if (probe(&why) < 0)
		return run_unguarded(sandbox, why ? why : "it can't be set up",
				     message);
	gitrules_warn(spec);
	return launch_session(&sandbox->launch, spec, message);
}

static int run_guarded(struct sandbox *sandbox, char **message)
{
	struct strings missing = {0};
	struct session_spec spec;
	int r = denylist_resolve(&sandbox->list, message);

	if (r < 0)
		return r;
	r = denyplan(&sandbox->list, &spec, &missing, message);
	warn_of_missing(&missing);
	strings_release(&missing);
	if (r < 0)
		return r;
	if (r == 0)
		return run_unguarded(sandbox, "nothing that exists is denied",
				     message);
	r = launch(sandbox, &spec, message);
	session_spec_release(&spec);
	return r;
}

static int run(struct sandbox *sandbox)
{
	autofree char *message = NULL;
	int r;

	open_tier_file(sandbox);
	if (is_switched_off()) {
		warn("VINTA_SANDBOX=off: '%s' runs without a guard",
		     sandbox->launch.argv[0]);
		r = launch_unguarded(&sandbox->launch, &message);
	} else {
		r = run_guarded(sandbox, &message);
	}
	if (r >= 0)
		return r;
	fail_message(r, message);
	return STATUS_SANDBOX_FAILED;
}

int cmd_sandbox_run(int argc, char **argv)
{
	struct sandbox sandbox = {0};
	int status;

	launch_init(&sandbox.launch);
	status = take_arguments(&sandbox, argc, argv);
	if (status == STATUS_OK)
		status = run(&sandbox);
	denylist_release(&sandbox.list);
	cleanup_fdp(&sandbox.launch.tier_fd);
	return status;
}

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"
#include "mountctl/command.h"
#include "mountctl/json_edit.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/settings.h"
#include "mountctl/settings_codex.h"
#include "mountctl/settings_file.h"
#include "mountctl/settings_json.h"
#include "mountctl/textdiff.h"

enum {
	OPT_ALLOW = PLAN_OPT_END,
	OPT_OUT,
	OPT_OS_SANDBOX,
	OPT_ALLOW_DOMAIN,
	OPT_LOCAL,
	OPT_DRY_RUN,
	OPT_ARGS,
	OPT_HOOKS,
};

static const struct option long_options[] = {
	PLAN_LONG_OPTIONS,
	{"allow", required_argument, NULL, OPT_ALLOW},
	{"out", required_argument, NULL, OPT_OUT},
	{"os-sandbox", no_argument, NULL, OPT_OS_SANDBOX},
	{"allow-domain", required_argument, NULL, OPT_ALLOW_DOMAIN},
	{"local", no_argument, NULL, OPT_LOCAL},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"args", no_argument, NULL, OPT_ARGS},
	{"hooks", no_argument, NULL, OPT_HOOKS},
	OPTION_ROWS_END,
};

struct settings_options {
	const struct settings_harness *harness;
	struct plan_options plan;
	struct strings domains;
	/* Operands belong to the list of this option; 0: to none. */
	int list;
	const char *out; /* borrowed; "-" is stdout */
	bool sandbox, local, dry_run, args, hooks, nul;
};

/*
 * Arguments.
 */

/* A tree is relative to where we are, as in `sandbox-run`. */
static int take_tree(struct settings_options *options, const char *word)
{
	autofree char *cwd = getcwd(NULL, 0);
	autofree char *path = NULL;

	if (word[0] != '/' && (!cwd || cwd[0] != '/'))
		return usage_error("settings: there is no working directory");
	path = path_normalise(word[0] == '/' ? "/" : cwd, word);
	if (!path || strings_add(&options->plan.rw, path) < 0)
		return usage_error("settings: out of memory");
	return STATUS_OK;
}

static int take_domain(struct settings_options *options, const char *word)
{
	if (!text_is_utf8(word))
		return usage_error("settings: '%s' can't be a host's name",
				   word);
	if (strings_add(&options->domains, word) < 0)
		return usage_error("settings: out of memory");
	return STATUS_OK;
}

static int take_word(struct settings_options *options, const char *word)
{
	if (!word[0])
		return usage_error("settings: an argument is empty");
	if (options->list == OPT_ALLOW)
		return take_tree(options, word);
	if (options->list == OPT_ALLOW_DOMAIN)
		return take_domain(options, word);
	if (options->harness)
		return usage_error("settings: '%s' is more than it takes; see "
				   "'mountctl settings --help'",
				   word);
	options->harness = settings_harness_find(word);
	if (!options->harness)
		return usage_error("settings: takes 'claude', 'codex', "
				   "'gemini' or 'cursor', not '%s'",
				   word);
	return STATUS_OK;
}

static int take_rule(struct settings_options *options, int option,
		     const char *argument)
{
	autofree char *message = NULL;
	int r = plan_option(&options->plan, option, argument, &message);

	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

static int take_option(struct settings_options *options, int option,
		       const char *argument)
{
	if (option == 1)
		return take_word(options, argument);
	options->list = 0;
	switch (option) {
	case OPT_ALLOW:
	case OPT_ALLOW_DOMAIN:
		options->list = option;
		return take_word(options, argument);
	case OPT_OUT:
		options->out = argument;
		return STATUS_OK;
	case OPT_OS_SANDBOX:
		options->sandbox = true;
		return STATUS_OK;
	case OPT_LOCAL:
		options->local = true;
		return STATUS_OK;
	case OPT_DRY_RUN:
		options->dry_run = true;
		return STATUS_OK;
	case OPT_ARGS:
		options->args = true;
		return STATUS_OK;
	case OPT_HOOKS:
		options->hooks = true;
		return STATUS_OK;
	case '0':
		options->nul = true;
		return STATUS_OK;
	case 'h':
		return STATUS_HELP;
	case '?':
		return STATUS_USAGE;
	default:
		return take_rule(options, option, argument);
	}
}

static bool is_for(const struct settings_options *options, const char *name)
{
	return strcmp(options->harness->name, name) == 0;
}

static bool writes_profile(const struct settings_options *options)
{
	return is_for(options, "codex") && !options->hooks;
}

/* Which options go with which harness. */
static int check_options(const struct settings_options *options)
{
	if (!options->harness)
		return usage_error("settings: 'claude', 'codex', 'gemini' or "
				   "'cursor' is missing; see 'mountctl "
				   "settings --help'");
	if ((options->sandbox || options->local || options->domains.n > 0) &&
	    !is_for(options, "claude"))
		return usage_error("settings %s: --os-sandbox, --allow-domain "
				   "and --local are Claude Code's",
				   options->harness->name);
	if (options->domains.n > 0 && !options->sandbox)
		return usage_error("settings: --allow-domain goes with "
				   "--os-sandbox");
	if (options->local && options->out)
		return usage_error("settings: --local and --out both name the "
				   "file");
	if ((options->args || options->hooks || options->nul) &&
	    !is_for(options, "codex"))
		return usage_error("settings %s: --args, --hooks and -0 are "
				   "Codex's",
				   options->harness->name);
	if (options->nul && !options->args)
		return usage_error("settings: -0 goes with --args");
	if (options->args && options->hooks)
		return usage_error("settings: --args or --hooks, not both");
	if (writes_profile(options) && (options->out || options->dry_run))
		return usage_error("settings codex: the profile is printed; "
				   "--out and --dry-run go with --hooks");
	return STATUS_OK;
}

static int take_arguments(struct settings_options *options, int argc,
			  char **argv)
{
	int option, status = STATUS_OK;

	while (status == STATUS_OK &&
	       (option = option_next(argc, argv, "-" PLAN_SHORT_OPTIONS "0h",
				     long_options)) != -1)
		status = take_option(options, option, optarg);
	if (status == STATUS_OK)
		status = operands_check(argc, argv, 0, 0, "");
	return status == STATUS_OK ? check_options(options) : status;
}

/*
 * Merging.
 */

static int merge(const struct settings_options *options,
		 const struct settings *settings, struct json_edit *edit,
		 char **message)
{
	struct strings former = {0};
	int r = settings_merge_hooks(edit, options->harness, settings, &former,
				     message);

	if (r == 0 && options->sandbox)
		r = settings_merge_sandbox(edit, settings, &options->domains,
					   &former, message);
	strings_release(&former);
	return r;
}

/* text NULL: there is nothing yet. *ret_text: what it becomes. */
static int merge_text(const struct settings_options *options,
		      const struct settings *settings,
		      const struct settings_file *file, char **ret_text,
		      char **message)
{
	static const char none[] = "{}\n";
	autofree char *why = NULL;
	struct json_edit edit;
	int r = json_edit_init(&edit, file && file->text ? file->text : none,
			       file && file->text ? file->size : strlen(none),
			       &why);

	if (r == 0) {
		r = merge(options, settings, &edit, &why);
		if (r == 0)
			*ret_text = steal_pointer(&edit.text);
		json_edit_release(&edit);
	}
	if (r == 0)
		return 0;
	/* Not the user's arguments are wrong, but the file is. */
	return explain(r == -EINVAL ? -EBADMSG : r, message, "%s%s%s%s",
		       file ? "cannot change '" : "", file ? file->path : "",
		       file ? "': " : "", why ? why : strerror(-r));
}

static char *default_path(const struct settings_options *options,
			  const struct settings *settings)
{
	const struct settings_harness *harness = options->harness;
	char *path = NULL;

	if (asprintf(&path, "%s/%s/%s", settings->spec.worktree, harness->dir,
		     options->local ? harness->local_file : harness->file) < 0)
		return NULL;
	return path;
}

/* Paths of this machine don't belong in a commit. */
static void warn_if_tracked(const struct settings_options *options,
			    const struct settings *settings,
			    const struct settings_file *file)
{
	const char *const args[] = {"-C",	settings->spec.worktree,
				    "ls-files", "--error-unmatch",
				    "--",	file->path,
				    NULL};
	struct git_output output = {0};

	if (!path_starts_with(file->path, settings->spec.worktree, NULL) ||
	    git_run(args, &output) < 0)
		return;
	if (output.status == 0)
		warn("'%s' is tracked by git, and names paths of this machine "
		     "now%s",
		     file->path,
		     is_for(options, "claude") ? "; --local takes a file that "
						 "isn't committed"
					       : "");
	git_output_release(&output);
}

static int store(const struct settings_options *options,
		 const struct settings *settings, struct settings_file *file,
		 const char *text, char **message)
{
	int r = 0;

	if (options->dry_run)
		return textdiff_print(stdout, file->path, file->text, text);
	if (!file->text || strcmp(file->text, text) != 0)
		r = settings_file_write(file, text, message);
	if (r < 0)
		return r;
	warn_if_tracked(options, settings, file);
	printf("%s\n", file->path);
	return 0;
}

static int merge_file(const struct settings_options *options,
		      const struct settings *settings, char **message)
{
	autofree char *path = options->out ? strdup(options->out)
					   : default_path(options, settings);
	autofree char *text = NULL;
	struct settings_file file;
	int r = path ? settings_file_read(settings->spec.worktree, path, &file,
					  message)
		     : -ENOMEM;

	if (r < 0)
		return r;
	r = merge_text(options, settings, &file, &text, message);
	if (r == 0)
		r = store(options, settings, &file, text, message);
	settings_file_release(&file);
	return r;
}

static int print_merged(const struct settings_options *options,
			const struct settings *settings, char **message)
{
	autofree char *text = NULL;
	int r = merge_text(options, settings, NULL, &text, message);

	if (r == 0)
		fputs(text, stdout);
	return r;
}

static int write_settings(const struct settings_options *options,
			  const struct settings *settings, char **message)
{
	if (options->sandbox && options->domains.n == 0)
		warn("the sandbox reaches no host but those that are listed; "
		     "--allow-domain lists one");
	if (options->args) {
		settings_codex_print_args(stdout, settings,
					  options->nul ? '\0' : '\n');
		return 0;
	}
	if (writes_profile(options)) {
		settings_codex_print(stdout, settings);
		return 0;
	}
	if (options->out && strcmp(options->out, "-") == 0)
		return print_merged(options, settings, message);
	return merge_file(options, settings, message);
}

static int run(const struct settings_options *options)
{
	autofree char *message = NULL;
	struct settings settings;
	int r = settings_plan(&options->plan, &settings, &message);

	if (r < 0)
		return fail_message(r, message);
	r = write_settings(options, &settings, &message);
	settings_release(&settings);
	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

int cmd_settings(int argc, char **argv)
{
	struct settings_options options = {0};
	int status;

	plan_options_init(&options.plan);
	status = take_arguments(&options, argc, argv);
	if (status == STATUS_OK)
		status = run(&options);
	plan_options_release(&options.plan);
	strings_release(&options.domains);
	return status;
}

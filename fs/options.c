#include "fs/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"

#define STATUS_USAGE 2
#define POLICY_MAX (16u << 20)

static const char help_text[] =
	"usage: worktreefs SOURCE MOUNTPOINT [-o OPTION[,OPTION]...] [-f] [-d]\n"
	"\n"
	"Shows the directory SOURCE at MOUNTPOINT under rules.\n"
	"\n"
	"  -o ro=PATH     reads pass, changes answer EROFS\n"
	"  -o rw=PATH     everything passes\n"
	"  -o none=PATH   names and stat only\n"
	"  -o ro-path=PATH, rw-path=PATH, none-path=PATH\n"
	"                 the same, for fstab and mount(8), which take ro and rw\n"
	"                 for their own\n"
	"  -o policy=FILE rules from a file: JSON, as in a session's record\n"
	"  -o hardlinks=allow|break|deny\n"
	"                 what a change of a file with further links does\n"
	"  -o symlinks=view|raw\n"
	"                 where absolute targets in SOURCE lead\n"
	"  -o watchdog=SECONDS\n"
	"                 without a sign of life for so long, it is ended (300);\n"
	"                 0: never\n"
	"  -o OPTION      any other option of mount.fuse3(8)\n"
	"  --policy FILE  the same\n"
	"  -f             stay in the foreground\n"
	"  -d             the same, and print each request\n"
	"\n"
	"Relative PATHs are relative to SOURCE. The deepest rule decides.\n";

static int usage(const char *what, const char *which)
{
	fprintf(stderr, "worktreefs: %s%s%s\n", what, which ? ": " : "",
		which ? which : "");
	return STATUS_USAGE;
}

static int out_of_memory(void)
{
	fprintf(stderr, "worktreefs: out of memory\n");
	return EXIT_FAILURE;
}

/*
 * "ro=PATH" or "ro-path=PATH" and their like; false if the option is none of
 * ours. mount(8) takes the former for its own.
 */
static bool split_rule(const char *option, enum access *ret_access,
		       const char **ret_path)
{
	static const char suffix[] = "-path";
	const char *value = strchr(option, '=');
	size_t length = value ? (size_t)(value - option) : 0;
	size_t end = sizeof(suffix) - 1;
	autofree char *word = NULL;

	if (length > end && strncmp(value - end, suffix, end) == 0)
		length -= end;
	word = strndup(option, length);
	if (!value || !word || access_parse(word, ret_access) < 0)
		return false;
	*ret_path = value + 1;
	return true;
}

static int add_rule(struct session_spec *spec, enum access access,
		    const char *given)
{
	autofree char *path = path_normalise(spec->views[0].root, given);
	struct rule rule = {
		.path = path,
		.access = access,
		.origin = ORIGIN_COMMAND_LINE,
		.caching = CACHING_TREE,
	};

	return path ? rules_add(&spec->rules, &rule) : -ENOMEM;
}

/* The value of an option of this name, or NULL if it is another. */
static const char *option_value(const char *option, const char *name)
{
	size_t length = strlen(name);

	return strncmp(option, name, length) == 0 && option[length] == '='
		       ? option + length + 1
		       : NULL;
}

static int add_policy_file(struct session_spec *spec, const char *file)
{
	autofree char *text = NULL;
	struct rules rules = {0};
	int r = read_file_at(AT_FDCWD, file, POLICY_MAX, &text, NULL);

	if (r == 0)
		r = rules_from_json(text, &rules);
	for (size_t i = 0; r == 0 && i < rules.n; i++)
		r = rules_add(&spec->rules, &rules.rule[i]);
	rules_release(&rules);
	return r;
}

/* One option; -EINVAL for a value that it can't have. */
static int add_option(struct session_spec *spec, const char *option)
{
	const char *hardlinks = option_value(option, "hardlinks");
	const char *symlinks = option_value(option, "symlinks");
	const char *watchdog = option_value(option, "watchdog");
	const char *policy = option_value(option, "policy");
	enum access access;
	const char *path;

	if (policy)
		return add_policy_file(spec, policy);
	if (watchdog)
		return watchdog_parse(watchdog, &spec->watchdog);
	if (hardlinks)
		return hardlinks_parse(hardlinks, &spec->hardlinks);
	if (symlinks)
		return symlinks_parse(symlinks, &spec->symlinks);
	if (split_rule(option, &access, &path))
		return add_rule(spec, access, path);
	return *option ? strings_add(&spec->fuse_options, option) : 0;
}

/* One argument of -o: options parted by commas, "\," being a comma. */
static int add_options(struct session_spec *spec, const char *argument)
{
	autofree char *copy = strdup(argument);
	char *at = copy, *option, *out;

	if (!copy)
		return -ENOMEM;
	for (option = out = copy;; at++) {
		bool end = *at == '\0';
		int r;

		if (at[0] == '\\' && at[1] == ',') {
			*out++ = *++at;
			continue;
		}
		if (!end && *at != ',') {
			*out++ = *at;
			continue;
		}
		*out = '\0';
		r = add_option(spec, option);
		if (r < 0 || end)
			return r;
		option = out = at + 1;
	}
}

static int set_view(struct options *options, const char *source,
		    const char *mountpoint)
{
	autofree char *root = realpath(source, NULL);
	autofree char *at = NULL;
	struct session_spec *spec = &options->spec;

	if (!root) {
		usage(strerror(errno), source);
		return EXIT_FAILURE;
	}
	at = realpath(mountpoint, NULL);
	if (!at) {
		usage(strerror(errno), mountpoint);
		return EXIT_FAILURE;
	}
	if (path_starts_with(at, root, NULL)) {
		usage("the mount point lies inside the source", at);
		return EXIT_FAILURE;
	}
	spec->name = strdup(path_basename(at));
	if (!spec->name || session_spec_add_view(spec, root, at) < 0)
		return out_of_memory();
	return 0;
}

/* What getopt(3) finds, kept until the source is known. */
struct given {
	struct strings options;
	const char *policy;
};

static int apply(struct options *options, const struct given *given)
{
	struct policy *policy = NULL;
	autofree char *conflict = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < given->options.n; i++) {
		r = add_options(&options->spec, given->options.s[i]);
		if (r == -EINVAL)
			return usage("no such choice", given->options.s[i]);
	}
	if (r < 0)
		return out_of_memory();
	if (given->policy) {
		r = add_policy_file(&options->spec, given->policy);
		if (r == -EINVAL)
			return usage("this isn't a policy", given->policy);
		if (r < 0)
			return usage(strerror(-r), given->policy);
	}
	r = policy_new(options->spec.views[0].root, &options->spec.rules,
		       &policy, &conflict);
	policy_free(policy);
	if (r == -EEXIST)
		return usage("two rules disagree about one path", conflict);
	return r < 0 ? usage(strerror(-r), NULL) : OPTIONS_SERVE;
}

static int parse(int argc, char **argv, struct options *options,
		 struct given *given)
{
	static const struct option long_options[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"policy", required_argument, NULL, 'p'},
		{0},
	};
	int c, status;

	while ((c = getopt_long(argc, argv, "hVfdo:", long_options, NULL)) !=
	       -1) {
		switch (c) {
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("worktreefs %s\n", WORKTREEFS_VERSION);
			return EXIT_SUCCESS;
		case 'd':
			options->debug = true;
			options->foreground = true;
			break;
		case 'f':
			options->foreground = true;
			break;
		case 'o':
			if (strings_add(&given->options, optarg) < 0)
				return out_of_memory();
			break;
		case 'p':
			given->policy = optarg;
			break;
		default:
			return STATUS_USAGE; /* getopt(3) has said why */
		}
	}
	if (argc - optind != 2)
		return usage("a source and a mount point are wanted "
			     "(--help says more)",
			     NULL);
	status = set_view(options, argv[optind], argv[optind + 1]);
	return status == 0 ? apply(options, given) : status;
}

int options_parse(int argc, char **argv, struct options *options)
{
	struct given given = {0};
	int status;

	*options = (struct options){0};
	session_spec_init(&options->spec);
	options->spec.tier = TIER_VIEW;
	status = parse(argc, argv, options, &given);
	strings_release(&given.options);
	return status;
}

void options_release(struct options *options)
{
	session_spec_release(&options->spec);
}

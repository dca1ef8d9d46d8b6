#include "mountctl/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mountctl/command.h"
#include "mountctl/output.h"

/*
 * Says what getopt_long(3) refused. It goes on to the next argument after a
 * long option, but may stay within a group of short ones.
 */
static void complain(char **argv, int found, bool moved)
{
	const char *argument = moved ? argv[optind - 1] : "-";
	bool is_long = strncmp(argument, "--", 2) == 0;

	if (found == ':')
		say("%s: option '%s' needs an argument", argv[0], argument);
	else if (is_long && optopt)
		say("%s: option '%s' takes no argument", argv[0], argument);
	else if (is_long)
		say("%s: unknown option '%s'; see 'mountctl %s --help'",
		    argv[0], argument, argv[0]);
	else
		say("%s: unknown option '-%c'; see 'mountctl %s --help'",
		    argv[0], optopt, argv[0]);
}

int option_next(int argc, char **argv, const char *short_options,
		const struct option *long_options)
{
	bool marked = short_options[0] == '+' || short_options[0] == '-';
	int before = optind, found;
	char with_colon[64];

	/* A colon tells a missing argument from an unknown option. */
	snprintf(with_colon, sizeof(with_colon), "%.*s:%s", marked,
		 short_options, short_options + marked);
	opterr = 0;
	found = getopt_long(argc, argv, with_colon, long_options, NULL);
	if (found != '?' && found != ':')
		return found;
	complain(argv, found, optind > before);
	return '?';
}

int operands_check(int argc, char **argv, int min, int max, const char *what)
{
	int n = argc - optind;

	if (n < min)
		return usage_error("%s: %s is missing; see 'mountctl %s "
				   "--help'",
				   argv[0], what, argv[0]);
	if (n > max)
		return usage_error("%s: '%s' is more than it takes; see "
				   "'mountctl %s --help'",
				   argv[0], argv[optind + max], argv[0]);
	return 0;
}

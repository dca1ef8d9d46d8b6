/*
 * Reading a command's arguments: getopt_long(3) with mountctl's own words.
 */
#ifndef WORKTREEFS_OPTIONS_H
#define WORKTREEFS_OPTIONS_H

#include <getopt.h>

/* The last rows of every command's table of long options. */
#define OPTION_ROWS_END                   \
	{"help", no_argument, NULL, 'h'}, \
	{                                 \
		NULL, 0, NULL, 0          \
	}

/*
 * The next option, as getopt_long(3) gives it: 'h' for --help (the command
 * then returns STATUS_HELP), -1 at the end. '?' when the arguments are wrong,
 * which has been said in one line by then.
 *
 * short_options as for getopt(3), without a colon at the beginning. With '+'
 * at the beginning the first operand ends the options; with '-' each operand
 * before a "--" is given as an option 1 with that argument.
 */
int option_next(int argc, char **argv, const char *short_options,
		const struct option *long_options);

/*
 * After the options: are there from min to max operands? 0, or STATUS_USAGE
 * when not, which has been said. what names the operand: "a SESSION".
 */
int operands_check(int argc, char **argv, int min, int max, const char *what);

#endif

/*
 * The sub-commands of mountctl, one row each in main.c. Help comes from the
 * row; a command reads its arguments with options.h.
 */
#ifndef WORKTREEFS_COMMAND_H
#define WORKTREEFS_COMMAND_H

#include <stdbool.h>

/* Exit statuses that people script against. */
enum exit_status {
	STATUS_HELP = -1, /* --help was given: main.c prints the row's help */
	STATUS_OK = 0,
	STATUS_FAILURE = 1,
	STATUS_USAGE = 2,
	STATUS_UNSAVED = 3, /* teardown: there is work that would be lost */
	STATUS_RUN_FAILED = 125, /* run: mountctl's own failure */
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
};

struct command {
	const char *name;
	const char *synopsis; /* what follows the name on its usage line */
	const char *summary;  /* one line for the list of commands */
	const char *options;  /* help on its own options, whole lines */
	bool takes_rules;     /* the help on RULES belongs to it (plan.h) */
	/* argv[0] is the command's name. Returns the exit status. */
	int (*run)(int argc, char **argv);
};

int cmd_mount(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_unmount(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_teardown(int argc, char **argv);
int cmd_prune(int argc, char **argv);
int cmd_log(int argc, char **argv);
int cmd_hook(int argc, char **argv);
int cmd_sandbox_run(int argc, char **argv);
int cmd_settings(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_protect(int argc, char **argv);
int cmd_hide(int argc, char **argv);

#endif

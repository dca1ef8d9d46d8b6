#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/process.h"
#include "mountctl/command.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"

#define LIVE_HELP                                                            \
	"PATH, relative to the root, gets a live rule, in place of an "      \
	"earlier one. When the\n"                                            \
	"command ends with 0 the rule holds, for files that are open, too. " \
	"Where that can't be\nhad, nothing changes, and who is in the way "  \
	"is named.\n"

static const struct command commands[] = {
	{
		.name = "run",
		.synopsis = "[-n SESSION | RULES] [OPTIONS] [--] COMMAND...",
		.summary = "run a command behind the guard",
		.options =
			"  --native auto|none|PATH\n"
			"      what the real directory serves instead of the "
			"view (default: auto,\n"
			"      the worktree); repeatable\n"
			"  --die-with-parent\n"
			"      end the command when mountctl's parent ends\n"
			"  --fallback none\n"
			"      run the command unguarded if no guard can be set "
			"up\n"
			"  --tier-file FILE\n"
			"      write the tier that was reached to FILE\n",
		.takes_rules = true,
		.run = cmd_run,
	},
	{
		.name = "sandbox-run",
		.synopsis = "--deny PATH... [--allow PATH...] -- COMMAND...",
		.summary = "run a command with some trees read-only",
		.options =
			"  --deny PATH...\n"
			"      what may only be read; repeatable\n"
			"  --allow PATH...\n"
			"      what in it may be changed; wins over --deny at "
			"any depth; repeatable\n"
			"\n"
			"Where an allowed tree is a linked worktree of a "
			"denied checkout, commits reach\n"
			"the git directory, behind the git guard. Where no "
			"guard can be had, the command\n"
			"runs without one, with a warning. Ends with 2 for a "
			"failure of its own.\n"
			"VINTA_SANDBOX=off runs the command unguarded; "
			"VINTA_SANDBOX_TIER_FILE names a\n"
			"file that receives 'enforced' or 'none'.\n",
		.run = cmd_sandbox_run,
	},
	{
		.name = "mount",
		.synopsis = "[-n SESSION] [RULES] [--at DIR] [-o FUSEOPTS] "
			    "[-f] [--json]",
		.summary = "mount a session's view and print where to work",
		.options = "  --at DIR\n"
			   "      mount there instead of in the runtime "
			   "directory; an empty directory\n"
			   "      outside the repository, made if its parent "
			   "is there\n"
			   "  -o FUSEOPTS\n"
			   "      options for the mount, as mount.fuse3(8) "
			   "takes them\n"
			   "  -f, --foreground\n"
			   "      stay until the session ends; an interrupt "
			   "ends it\n"
			   "  --json\n"
			   "      print the session instead of the directory\n",
		.takes_rules = true,
		.run = cmd_mount,
	},
	{
		.name = "unmount",
		.synopsis = "SESSION|DIR [--lazy] [--timeout SECONDS]",
		.summary = "end a session",
		.options = "  --lazy\n"
			   "      don't wait: take the view away from those "
			   "who use it\n"
			   "  --timeout SECONDS\n"
			   "      how long to wait for them (default: 5)\n",
		.run = cmd_unmount,
	},
	{
		.name = "teardown",
		.synopsis = "SESSION|DIR [--remove-worktree [--force]] "
			    "[--lazy] [--timeout SECONDS] [--json]",
		.summary = "end a session and tell what it leaves; remove its "
			   "worktree",
		.options =
			"  --remove-worktree\n"
			"      remove the worktree, too, and keep its branch; not "
			"where work would be\n"
			"      lost or is on no remote: the status is 3 then\n"
			"  -f, --force\n"
			"      remove it all the same\n"
			"  -z, --lazy\n"
			"      don't wait: take the view away from those who use "
			"it\n"
			"  --timeout SECONDS\n"
			"      how long to wait for them (default: 5)\n"
			"  --json\n"
			"      print JSON\n"
			"\n"
			"Tells what has changed in the main checkout since the "
			"session began, whoever\n"
			"changed it, and what work in the worktree isn't saved. "
			"Can be interrupted and\n"
			"repeated at any time; DIR may also be a worktree that "
			"never had a session.\n",
		.run = cmd_teardown,
	},
	{
		.name = "prune",
		.synopsis = "[--locks] [--dry-run] [--json]",
		.summary = "clear away what dead sessions have left",
		.options = "  --locks\n"
			   "      remove lock files of git's, too, that a dead "
			   "session has left; without\n"
			   "      this they are only named\n"
			   "  -n, --dry-run\n"
			   "      only tell what there is\n"
			   "  --json\n"
			   "      print JSON\n",
		.run = cmd_prune,
	},
	{
		.name = "list",
		.synopsis = "[--json]",
		.summary = "list sessions, and what keeps them alive",
		.options = "  --json\n"
			   "      print JSON\n",
		.run = cmd_list,
	},
	{
		.name = "status",
		.synopsis = "[SESSION] [--stray] [--json | --yaml]",
		.summary = "show a session's rules, tier and counters",
		.options =
			"  SESSION\n"
			"      default: the one session of the worktree that "
			"it is asked in\n"
			"  --stray\n"
			"      instead: what has changed in the main checkout "
			"since the session began,\n"
			"      whoever changed it\n"
			"  --json\n"
			"      print JSON\n"
			"  --yaml\n"
			"      print the block 'sandbox:' of a summary "
			"record\n",
		.run = cmd_status,
	},
	{
		.name = "why",
		.synopsis = "[-n SESSION | RULES] [--op OPERATION] [--json] "
			    "PATH",
		.summary = "tell whether a path may be changed, and why",
		.options =
			"  --op OPERATION\n"
			"      stat, read, list, write (default), setattr, "
			"settimes, setxattr,\n"
			"      create, mkdir, remove, replace or link\n"
			"  --json\n"
			"      print JSON\n"
			"\n"
			"Without a session and RULES it is asked of the one "
			"that this is in, or whose\n"
			"worktree this is; else of the one that 'run' would "
			"start here. Ends with 0 where\n"
			"it is allowed, 1 where it is denied, 2 where there is "
			"no answer.\n",
		.takes_rules = true,
		.run = cmd_why,
	},
	{
		.name = "hook",
		.synopsis = "[-n SESSION | --deny PATH... --allow PATH... | "
			    "--policy FILE] [OPTIONS]",
		.summary = "judge what a harness is about to do, as its hook",
		.options =
			"  -n, --name SESSION\n"
			"      by the rules of this session, which must live\n"
			"  --deny PATH..., --allow PATH...\n"
			"      by these trees: an allowed one wins over a "
			"denied one\n"
			"  --policy FILE\n"
			"      by the roots in this JSON file; shell commands "
			"are screened, too\n"
			"  --format claude|codex|gemini|cursor|copilot\n"
			"      whose input it is (default: found out)\n"
			"  --fail closed|open\n"
			"      what a malformed input or another failure does "
			"(closed: it denies)\n"
			"  --session-first\n"
			"      by the session around, where there is one, "
			"instead of lists\n"
			"  --explicit\n"
			"      answer on stdout, too, where the harness may "
			"insist on it (cursor)\n"
			"  --base REF\n"
			"      what the branch of a worktree begins at "
			"(default: HEAD)\n"
			"\n"
			"Reads the event from standard input. Without a "
			"session, lists or a policy it\n"
			"judges by the session that this is in, or whose "
			"worktree the event comes from;\n"
			"where there is none, everything is allowed. Ends "
			"with 0 where the call is\n"
			"allowed, with 2 and the reason on stderr where it is "
			"denied.\n",
		.run = cmd_hook,
	},
	{
		.name = "settings",
		.synopsis = "claude|codex|gemini|cursor [RULES] [OPTIONS]",
		.summary = "write a harness's settings for a worktree",
		.options =
			"  --allow PATH...\n"
			"      what may be changed beside the worktree, as "
			"--rw, but relative to the\n"
			"      working directory; repeatable\n"
			"  --out FILE\n"
			"      the file to change (default: the harness's own "
			"in the worktree);\n"
			"      '-' prints what a new one would hold\n"
			"  --dry-run\n"
			"      show what would change, and change nothing\n"
			"  --local\n"
			"      claude: settings.local.json instead of "
			"settings.json\n"
			"  --os-sandbox\n"
			"      claude: set up its own sandbox for shells, too\n"
			"  --allow-domain HOST...\n"
			"      claude: what that sandbox may reach; "
			"repeatable\n"
			"  --hooks\n"
			"      codex: hooks.json instead of the permission "
			"profile, which is printed\n"
			"  --args [-0]\n"
			"      codex: print the profile as arguments, one a "
			"line or with NULs\n"
			"\n"
			"What a file holds beside is kept as it is; what an "
			"earlier run put there is\n"
			"replaced. Prints the file's name.\n",
		.takes_rules = true,
		.run = cmd_settings,
	},
	{
		.name = "log",
		.synopsis = "[SESSION] [-f] [--since TIME] [--json]",
		.summary = "show what a session was denied",
		.options = "  SESSION\n"
			   "      one that lives or has ended; default: that "
			   "of the worktree that it\n"
			   "      is asked in\n"
			   "  -f, --follow\n"
			   "      go on until the session ends\n"
			   "  --since TIME\n"
			   "      nothing older: '30s', '5m', '2h', '1d' ago, "
			   "or 2026-01-31T12:00:00Z\n"
			   "  --json\n"
			   "      print the lines of the log as they are\n",
		.run = cmd_log,
	},
	{
		.name = "doctor",
		.synopsis = "[--prove] [--json]",
		.summary = "tell what this machine can do, and how to mend it",
		.options =
			"  --prove\n"
			"      try it on a scratch repository in $TMPDIR or "
			"/tmp\n"
			"  --json\n"
			"      print JSON\n"
			"\n"
			"Ends with 0 where 'run' can be had, with 1 where it "
			"can't.\n",
		.run = cmd_doctor,
	},
	{
		.name = "allow",
		.synopsis = "SESSION PATH",
		.summary = "let a live session change a path",
		.options = LIVE_HELP,
		.run = cmd_allow,
	},
	{
		.name = "protect",
		.synopsis = "SESSION PATH",
		.summary = "let a live session only read a path",
		.options = LIVE_HELP,
		.run = cmd_protect,
	},
	{
		.name = "hide",
		.synopsis = "SESSION PATH",
		.summary = "keep a live session from reading a path",
		.options = LIVE_HELP,
		.run = cmd_hide,
	},
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int print_commands(void)
{
	printf("usage: mountctl COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-12s %s\n", commands[i].name, commands[i].summary);
	printf("  %-12s %s\n", "help", "show this, or the help of a command");
	printf("\n'mountctl COMMAND --help' tells more; 'mountctl --version' "
	       "the version.\n");
	return STATUS_OK;
}

static int print_help(const struct command *command)
{
	printf("usage: mountctl %s %s\n\n%s\n\n%s", command->name,
	       command->synopsis, command->summary, command->options);
	if (command->takes_rules)
		printf("\nRULES\n%s", plan_help);
	return STATUS_OK;
}

static int unknown_command(const char *name)
{
	return usage_error("unknown command '%s'; 'mountctl help' lists them",
			   name);
}

static int help(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		return print_commands();
	command = find_command(argv[1]);
	return command ? print_help(command) : unknown_command(argv[1]);
}

static int run(int argc, char **argv)
{
	const struct command *command;
	int status;

	if (argc < 1)
		return usage_error("a command is missing; 'mountctl help' "
				   "lists them");
	if (strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 ||
	    strcmp(argv[0], "-h") == 0)
		return help(argc, argv);
	if (strcmp(argv[0], "--version") == 0) {
		printf("mountctl %s\n", WORKTREEFS_VERSION);
		return STATUS_OK;
	}
	if (argv[0][0] == '-')
		return usage_error("unknown option '%s'; see 'mountctl help'",
				   argv[0]);
	command = find_command(argv[0]);
	if (!command)
		return unknown_command(argv[0]);
	status = command->run(argc, argv);
	return status == STATUS_HELP ? print_help(command) : status;
}

/*
 * Takes the numbers 0 to 2, where they are free, so that no file that we open
 * becomes somebody's stdin or stderr. A command that is run finds them as free
 * as we did.
 */
static int reserve_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	int status, r;

	setlocale(LC_CTYPE, "");
	process_take_children();
	r = reserve_stdio();
	if (r < 0) {
		/* For a hook any other status than 2 is as good as none. */
		fail(r, "cannot open '/dev/null'");
		return argc > 1 && strcmp(argv[1], "hook") == 0
			       ? STATUS_USAGE
			       : STATUS_FAILURE;
	}
	status = run(argc - 1, argv + 1);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		r = -errno;
		if (status == STATUS_OK)
			return fail(r, "cannot write to stdout");
	}
	return status;
}

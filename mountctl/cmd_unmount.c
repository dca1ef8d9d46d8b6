#include <errno.h>
#include <stdlib.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/dismiss.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/sessions.h"

static int unmount_operand(const struct sessions *sessions, const char *operand,
			   const struct dismissal *options)
{
	const struct record *record = NULL;
	autofree char *path = NULL, *message = NULL;
	int r;

	if (dismiss_is_unreadable(sessions, operand))
		return dismiss_unreadable(operand);
	r = sessions_find(sessions, operand, &record, &path, &message);
	if (r == 0)
		return dismiss_record(sessions, record, options);
	if (r == -ENOENT && path && view_mounts_at(&sessions->mounts, path))
		return dismiss_mount(path, options);
	if (r != -ENOENT)
		return fail_message(r, message);
	say("'%s' is neither a session nor in a view: there is nothing to "
	    "unmount",
	    operand);
	return STATUS_OK;
}

static int unmount(const char *operand, const struct dismissal *options)
{
	struct sessions sessions = {0};
	autofree char *message = NULL;
	int r = sessions_read(&sessions, &message);
	int status = r < 0 ? fail_message(r, message)
			   : unmount_operand(&sessions, operand, options);

	sessions_release(&sessions);
	return status;
}

int cmd_unmount(int argc, char **argv)
{
	static const struct option rows[] = {
		{"lazy", no_argument, NULL, 'z'},
		{"timeout", required_argument, NULL, 't'},
		OPTION_ROWS_END,
	};
	struct dismissal options = {.timeout_ms = DISMISS_TIMEOUT * 1000,
				    .command = "unmount"};
	int option;

	while ((option = option_next(argc, argv, "hz", rows)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		if (option == 'z')
			options.lazy = true;
		if (option == 't' &&
		    timeout_parse(optarg, &options.timeout_ms) < 0)
			return usage_error("unmount: '%s' isn't a number of "
					   "seconds",
					   optarg);
	}
	if (operands_check(argc, argv, 1, 1, "a session or a directory") != 0)
		return STATUS_USAGE;
	return unmount(argv[optind], &options);
}

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/process.h"
#include "fs/lib/ready.h"
#include "mountctl/clock.h"
#include "mountctl/command.h"
#include "mountctl/ending.h"
#include "mountctl/gitrules.h"
#include "mountctl/mounting.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/plan.h"
#include "mountctl/report.h"
#include "mountctl/sessions.h"

/* How long the end of -f may take. */
#define END_MS 5000

struct mount_options {
	struct plan_options plan;
	struct strings fuse; /* -o */
	char *at;
	bool foreground;
	bool json;
};

/*
 * Once it is mounted.
 */

static int print_session(const struct record *record, bool json)
{
	autofree char *directory = NULL;

	if (json)
		return report_session(&(struct report){
			.record = record,
			.state = SESSION_LIVE,
		});
	directory = session_directory(&record->spec);
	if (!directory)
		return -ENOMEM;
	printf("%s\n", directory);
	return 0;
}

static void warn_of_tier(const struct session_spec *spec)
{
	warn("the tier is 'view': absolute paths to '%s' itself are not "
	     "covered, as they are with 'mountctl run'",
	     spec->main ? spec->main : spec->views[0].root);
}

/* Unmounts; from those who don't let go, too. */
static int end_foreground(const struct record *record)
{
	struct holders holders = {0};
	autofree char *message = NULL;
	int r = session_end(record, false, now_ms() + END_MS, &holders,
			    &message);

	if (r == -EBUSY && !message)
		r = session_end(record, true, now_ms(), &holders, &message);
	holders_release(&holders);
	if (r == -EINPROGRESS) {
		say("session '%s' is unmounted, but still in use",
		    record->spec.name);
		return STATUS_OK;
	}
	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

/* The filesystem process has ended: cleanly, or leaving its mounts? */
static int judge_end(const struct record *record)
{
	autofree char *message = NULL;
	struct record left;
	int r = record_read(record->spec.name, &left);

	if (r < 0)
		return STATUS_OK;
	r = session_clear(&left, &message);
	record_release(&left);
	if (r < 0)
		return fail_message(r, message);
	say("the filesystem process of session '%s' has died",
	    record->spec.name);
	return STATUS_FAILURE;
}

/* -f: until the session ends, or a signal asks us to end it. */
static int stay(const struct record *record)
{
	sigset_t set = mounting_signals();
	autofd int signals = signalfd(-1, &set, SFD_CLOEXEC);
	autofd int process = process_open(record->pid, record->start_time);
	struct pollfd wait[] = {
		{.fd = process, .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};
	struct signalfd_siginfo info;

	if (signals < 0)
		return fail(-errno, "cannot wait for signals");
	if (process < 0)
		return judge_end(record);
	while (poll(wait, ARRAY_SIZE(wait), -1) < 0)
		if (errno != EINTR)
			return fail(-errno, "cannot wait");
	if (wait[0].revents)
		return judge_end(record);
	/* Taken, or it would end us when signals are let through again. */
	if (read(signals, &info, sizeof(info)) < 0)
		return fail(-errno, "cannot read a signal");
	return end_foreground(record);
}

static int show(const struct session_spec *spec, bool already,
		const struct mount_options *options)
{
	struct record record;
	int status = STATUS_OK;
	int r = record_read(spec->name, &record);

	if (r < 0)
		return fail(r, "cannot read the record of session '%s'",
			    spec->name);
	if (already)
		say("session '%s' is mounted already", spec->name);
	warn_of_tier(&record.spec);
	r = print_session(&record, options->json);
	if (r == 0 && fflush(stdout) != 0)
		r = -errno;
	if (r < 0)
		status = fail(r, "cannot print the directory");
	if (r == 0 && options->foreground) {
		r = ready_notify();
		if (r < 0)
			warn("cannot tell NOTIFY_SOCKET that it is mounted: %s",
			     strerror(-r));
		status = stay(&record);
	}
	record_release(&record);
	return status;
}

static int mount_planned(struct session_spec *spec,
			 const struct mount_options *options)
{
	autofree char *message = NULL;
	int r = mounting_session(spec, options->at, &message);

	return r < 0 ? fail_message(r, message) : show(spec, r == 1, options);
}

static int mount_view(const struct mount_options *options)
{
	sigset_t set = mounting_signals(), old;
	struct session_spec spec;
	autofree char *message = NULL;
	int status,
		r = plan_session(&options->plan, TIER_VIEW, &spec, &message);

	for (size_t i = 0; r == 0 && i < options->fuse.n; i++)
		r = strings_add(&spec.fuse_options, options->fuse.s[i]);
	if (r < 0)
		return fail_message(r, message);
	gitrules_warn(&spec);
	sigprocmask(SIG_BLOCK, &set, &old);
	status = mount_planned(&spec, options);
	session_spec_release(&spec);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status;
}

/*
 * Arguments.
 */

enum {
	OPT_AT = PLAN_OPT_END,
	OPT_JSON,
};

static int read_option(struct mount_options *options, int option)
{
	autofree char *message = NULL;
	int r = 0;

	switch (option) {
	case OPT_AT:
		free(options->at);
		options->at = strdup(optarg);
		r = options->at ? 0 : -ENOMEM;
		break;
	case OPT_JSON:
		options->json = true;
		break;
	case 'f':
		options->foreground = true;
		break;
	case 'o':
		r = strings_add(&options->fuse, optarg);
		break;
	case 'h':
		return STATUS_HELP;
	case '?':
		return STATUS_USAGE;
	default:
		r = plan_option(&options->plan, option, optarg, &message);
	}
	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

static int read_arguments(int argc, char **argv, struct mount_options *options)
{
	static const struct option rows[] = {
		PLAN_LONG_OPTIONS,
		{"at", required_argument, NULL, OPT_AT},
		{"foreground", no_argument, NULL, 'f'},
		{"json", no_argument, NULL, OPT_JSON},
		OPTION_ROWS_END,
	};
	int option, status = STATUS_OK;

	while (status == STATUS_OK &&
	       (option = option_next(argc, argv,
				     PLAN_SHORT_OPTIONS "fho:", rows)) != -1)
		status = read_option(options, option);
	if (status == STATUS_OK)
		status = operands_check(argc, argv, 0, 0, "");
	if (status == STATUS_OK && options->at && !options->at[0])
		return usage_error("mount: --at is empty");
	return status;
}

int cmd_mount(int argc, char **argv)
{
	struct mount_options options = {0};
	int status;

	plan_options_init(&options.plan);
	status = read_arguments(argc, argv, &options);
	if (status == STATUS_OK)
		status = mount_view(&options);
	plan_options_release(&options.plan);
	strings_release(&options.fuse);
	free(options.at);
	return status;
}

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/doctor.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/report.h"

/* What a view of `mountctl mount` needs; fusermount3 only warns. */
static const char *const mount_needs[] = {
	"worktreefs",  "git",	      "records",    "logs",
	"fuse-device", "fusermount3", "repository",
};

static void (*const groups[])(struct checks *checks) = {
	doctor_namespaces, doctor_fuse,	      doctor_programs,
	doctor_limits,	   doctor_repository, doctor_doors,
};

/* Nothing that `run` needs is lacking. */
static enum tier tier_of_run(const struct checks *checks)
{
	return checks_worst(checks, NULL) == CHECK_FAIL ? TIER_NONE
							: TIER_ENFORCED;
}

static enum tier tier_of_mount(const struct checks *checks)
{
	for (size_t i = 0; i < ARRAY_SIZE(mount_needs); i++)
		if (checks_worst(checks, mount_needs[i]) != CHECK_OK)
			return TIER_NONE;
	return TIER_VIEW;
}

/*
 * For people
 */

static int name_width(const struct checks *checks)
{
	int width = 0;

	for (size_t i = 0; i < checks->n; i++)
		if (width < (int)strlen(checks->check[i].name))
			width = (int)strlen(checks->check[i].name);
	return width;
}

static int print_check(const struct check *check, int width)
{
	autofree char *detail = text_escape(check->detail), *mend = NULL;

	if (check->mend)
		mend = text_escape(check->mend);
	if (!detail || (check->mend && !mend))
		return -ENOMEM;
	printf("%-4s  %-*s  %s\n", check_status_name(check->status), width,
	       check->name, detail);
	if (mend)
		printf("%*s  mend: %s\n", width + 6, "", mend);
	return 0;
}

static int print_for_people(const struct diagnosis *diagnosis)
{
	const struct checks *checks = diagnosis->checks;
	int width = name_width(checks), r = 0;

	for (size_t i = 0; i < checks->n && r == 0; i++)
		r = print_check(&checks->check[i], width);
	printf("\nrun    %s\nmount  %s\n", tier_name(diagnosis->run),
	       tier_name(diagnosis->mount));
	return r;
}

static int examine(bool json)
{
	struct checks checks = {0};
	struct diagnosis diagnosis = {.checks = &checks};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		groups[i](&checks);
	diagnosis.run = tier_of_run(&checks);
	diagnosis.mount = tier_of_mount(&checks);
	r = checks.r;
	if (r == 0)
		r = json ? report_diagnosis(&diagnosis)
			 : print_for_people(&diagnosis);
	checks_release(&checks);
	if (r < 0)
		return fail_message(r, NULL);
	return diagnosis.run == TIER_ENFORCED ? STATUS_OK : STATUS_FAILURE;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		OPTION_ROWS_END,
	};
	bool json = false;
	int option;

	while ((option = option_next(argc, argv, "h", options)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		json = true;
	}
	if (operands_check(argc, argv, 0, 0, "") != 0)
		return STATUS_USAGE;
	return examine(json);
}

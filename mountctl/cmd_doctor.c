#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/attempts.h"
#include "mountctl/command.h"
#include "mountctl/doctor.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/prove.h"
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

static int print_steps(const char *of, const struct checks *steps)
{
	for (size_t i = 0; i < steps->n; i++) {
		const struct check *check = &steps->check[i];
		autofree char *detail = text_escape(check->detail);

		if (!detail)
			return -ENOMEM;
		printf("%-6s  %-5s  %-16s  %s\n",
		       check->status == CHECK_OK ? "ok" : "FAILED", of,
		       check->name, detail);
	}
	return 0;
}

static int print_proof(const struct proof *proof)
{
	int r;

	printf("\n");
	r = print_steps("run", &proof->run);
	return r < 0 ? r : print_steps("mount", &proof->mount);
}

static const char *how_known(const struct diagnosis *diagnosis, enum tier tier)
{
	if (tier == TIER_NONE)
		return "";
	return diagnosis->proof ? ", proved"
				: ", not proved: 'mountctl doctor --prove' "
				  "tries it";
}

static int print_for_people(const struct diagnosis *diagnosis)
{
	const struct checks *checks = diagnosis->checks;
	int width = name_width(checks), r = 0;

	for (size_t i = 0; i < checks->n && r == 0; i++)
		r = print_check(&checks->check[i], width);
	if (r == 0 && diagnosis->proof)
		r = print_proof(diagnosis->proof);
	printf("\nrun    %s%s\nmount  %s%s\n", tier_name(diagnosis->run),
	       how_known(diagnosis, diagnosis->run),
	       tier_name(diagnosis->mount),
	       how_known(diagnosis, diagnosis->mount));
	return r;
}

/*
 * Looking
 */

/* Was each of the steps made, and well? */
static bool is_proved(const struct checks *steps)
{
	return steps->n > 0 && checks_worst(steps, NULL) == CHECK_OK;
}

/* Takes back what can't be shown. */
static void try_it(struct checks *checks, struct diagnosis *diagnosis,
		   struct proof *proof)
{
	autofree char *message = NULL;
	int r = 0;

	diagnosis->proof = proof;
	if (diagnosis->run != TIER_NONE)
		r = prove(diagnosis->mount != TIER_NONE, proof, &message);
	if (r < 0)
		check_error(checks, "proof", CHECK_FAIL, r, message);
	if (r < 0 || !is_proved(&proof->run))
		diagnosis->run = TIER_NONE;
	if (r < 0 || !is_proved(&proof->mount))
		diagnosis->mount = TIER_NONE;
}

static int examine(bool with_proof, bool json)
{
	struct checks checks = {0};
	struct proof proof = {0};
	struct diagnosis diagnosis = {.checks = &checks};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		groups[i](&checks);
	diagnosis.run = tier_of_run(&checks);
	diagnosis.mount = tier_of_mount(&checks);
	if (with_proof)
		try_it(&checks, &diagnosis, &proof);
	r = checks.r;
	if (r == 0)
		r = json ? report_diagnosis(&diagnosis)
			 : print_for_people(&diagnosis);
	checks_release(&checks);
	proof_release(&proof);
	if (r < 0)
		return fail_message(r, NULL);
	return diagnosis.run == TIER_ENFORCED ? STATUS_OK : STATUS_FAILURE;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"prove", no_argument, NULL, 'p'},
		/* What a proof starts; not for people. */
		{"attempt", no_argument, NULL, 'a'},
		OPTION_ROWS_END,
	};
	bool json = false, with_proof = false, attempt = false;
	int option;

	while ((option = option_next(argc, argv, "h", options)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		json |= option == 'j';
		with_proof |= option == 'p';
		attempt |= option == 'a';
	}
	if (operands_check(argc, argv, attempt ? 2 : 0, attempt ? 2 : 0,
			   "a checkout") != 0)
		return STATUS_USAGE;
	if (attempt)
		return attempts_main(argv[optind], argv[optind + 1]);
	return examine(with_proof, json);
}

/*
 * What prune has found and done, as JSON: part of report.h.
 */
#ifndef WORKTREEFS_REPORT_PRUNE_H
#define WORKTREEFS_REPORT_PRUNE_H

#include <stdbool.h>

#include "mountctl/stalelocks.h"

struct prune_report {
	bool dry_run;
	struct strings sessions;  /* whose records were cleared away */
	struct strings mounts;	  /* dead views, unmounted */
	struct strings worktrees; /* that dead sessions had locked */
	struct stale_locks locks;
};

/*
 * { "schema_version": 1, "dry_run": false, "sessions": ["n"], "mounts": ["/m"],
 *   "worktrees": ["/r/wt"], "locks": [{"path": "/r/.git/config.lock",
 *   "session": "n", "in_use": false, "removed": true}] }
 */
int report_prune(const struct prune_report *report);

#endif

/*
 * What teardown and prune have found and done, as JSON: part of report.h.
 */
#ifndef WORKTREEFS_REPORT_TEARDOWN_H
#define WORKTREEFS_REPORT_TEARDOWN_H

#include <stdbool.h>

#include "mountctl/baseline.h"
#include "mountctl/holders.h"
#include "mountctl/unsaved.h"

/* All of it borrowed. */
struct teardown_report {
	const char *session;	       /* or NULL */
	const char *worktree;	       /* or NULL */
	const char *branch;	       /* of the worktree, short, or NULL */
	const struct stray *stray;     /* NULL: there was nothing to look at */
	const struct unsaved *unsaved; /* NULL: not known */
	const struct holders *holders; /* that keep the session, or none */
	bool ended;		       /* the session is no more */
	bool removed;		       /* nor is the worktree */
};

/*
 * { "schema_version": 1, "session": "n", "worktree": "/r/wt", "branch": "wt",
 *   "ended": true, "removed": false, "stray": null | as in report_stray.h,
 *   "unsaved": null | [{"kind": "changed", "submodule": null, "what": "a.c",
 *                       "lost": true}],
 *   "holders": [{"pid": 8, "command": "make"}] }
 */
int report_teardown(const struct teardown_report *report);

#endif

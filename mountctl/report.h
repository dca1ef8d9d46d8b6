/*
 * What the commands report about sessions, as JSON for programs. Each object
 * has "schema_version": 1 at its top. Paths are written as in spec.h.
 */
#ifndef WORKTREEFS_REPORT_H
#define WORKTREEFS_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/explain.h"
#include "mountctl/checks.h"
#include "mountctl/control.h"
#include "mountctl/holders.h"
#include "mountctl/prove.h"
#include "mountctl/sessions.h"

/* One session and what was found out about it; all of it borrowed. */
struct report {
	const struct record *record;
	enum session_state state;
	const struct holders *processes;       /* behind run, or NULL */
	const struct control_status *counters; /* or NULL: nobody answered */
	const struct strings *uncovered; /* worktrees made since, or NULL */
};

/*
 * These print to stdout, ending with a newline. 0 or -ENOMEM.
 *
 * { "schema_version": 1, "session": "n", "tier": "view", "state": "live",
 *   "pid": 7, "since": 1700000000, "root": "/r", "mountpoint": "/m",
 *   "main": "/r", "worktree": "/r/wt", "directory": "/m/wt",
 *   "command": null, "processes": [{"pid": 8, "command": "make"}] }
 *
 * directory is where to work: the worktree as it is seen through the view.
 */
int report_session(const struct report *report);
/* { "schema_version": 1, "sessions": [ the same, ... ], "unreadable": [] } */
int report_list(const struct report *reports, size_t n,
		const struct strings *unreadable);
/*
 * The same as report_session(), and "git_dir", "views", "native", "rules",
 * "uncovered", "requests", "requests_total", "denials", "uptime",
 * "generation" (how often the rules have changed), "denials_by_program" and
 * "denials_by_path" (arrays of {"name", "count"}), the last seven null where
 * nobody answered.
 */
int report_status(const struct report *report);
/* The block "sandbox:" of a summary record, in YAML. */
int report_yaml(const struct report *report);

/*
 * { "schema_version": 1, "session": "n", "path": "/r/a", "operation": "write",
 *   and the members of an explanation (docs/control.md) }
 */
int report_why(const char *session, const char *path, enum policy_op op,
	       const struct explanation *explanation);

/* What `mountctl doctor` has found out. */
struct diagnosis {
	const struct checks *checks; /* borrowed */
	const struct proof *proof;   /* borrowed; NULL: it wasn't asked for */
	enum tier run, mount;	     /* what can be had; proved, with a proof */
};

/*
 * { "schema_version": 1, "tier": "enforced", "mount": "view",
 *   "proved": true,
 *   "checks": [{"name": "n", "status": "ok", "detail": "d", "mend": null}],
 *   "proof": {"run": [the same, ...], "mount": [the same, ...]} }
 *
 * proved is true where a proof has shown the tier; proof is null without one.
 */
int report_diagnosis(const struct diagnosis *diagnosis);

/*
 * For those who report more: an object with its version in it, and printing
 * and freeing one. complete: was everything put into it? 0 or -ENOMEM.
 */
struct cJSON;
struct cJSON *report_object(void);
int report_print(struct cJSON *object, bool complete);
/* An array of {"pid", "command"}. false: out of memory. */
bool report_put_holders(struct cJSON *object, const char *key,
			const struct holders *holders /* NULL: none */);

/* Prints JSON text so that nothing in it drives a terminal. */
void report_json(const char *text);

#endif

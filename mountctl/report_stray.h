/*
 * What has changed in the main checkout, as JSON: part of report.h.
 */
#ifndef WORKTREEFS_REPORT_STRAY_H
#define WORKTREEFS_REPORT_STRAY_H

#include <stdbool.h>

#include "mountctl/baseline.h"

struct cJSON;

/*
 * { "main": "/r", "recorded": 1700000000, "late": false, "unknown": null,
 *   "head": {"before": {"branch": "main", "commit": "41cd..."},
 *            "after": {...}},
 *   "branches": [{"name": "refs/heads/x", "before": null, "after": "41cd..."}],
 *   "files": [{"path": "a", "before": null, "after": "1 .M N... 100644 ..."}] }
 *
 * head is null where it hasn't moved; before and after of a file are what `git
 * status --porcelain=v2` prints before its path. unknown: why nothing can be
 * told.
 */
bool stray_put(struct cJSON *object, const struct stray *stray);

/* {"schema_version": 1, "session": "n", "stray": the above} */
int report_stray(const char *session, const struct stray *stray);

#endif

#include "mountctl/report_prune.h"

#include <cjson/cJSON.h>

#include "mountctl/jsonput.h"
#include "mountctl/report.h"

static bool put_locks(cJSON *object, const struct stale_locks *locks)
{
	cJSON *array = cJSON_AddArrayToObject(object, "locks");

	for (size_t i = 0; array && i < locks->n; i++) {
		const struct stale_lock *lock = &locks->lock[i];
		cJSON *item = json_append_object(array);

		if (!item || !json_put_text(item, "path", lock->path) ||
		    !json_put_text(item, "session", lock->session) ||
		    !json_put_bool(item, "in_use", lock->in_use) ||
		    !json_put_bool(item, "removed", lock->removed))
			return false;
	}
	return array;
}

int report_prune(const struct prune_report *report)
{
	cJSON *object = report_object();

	return report_print(
		object,
		object && json_put_bool(object, "dry_run", report->dry_run) &&
			json_put_strings(object, "sessions",
					 &report->sessions) &&
			json_put_strings(object, "mounts", &report->mounts) &&
			json_put_strings(object, "worktrees",
					 &report->worktrees) &&
			put_locks(object, &report->locks));
}

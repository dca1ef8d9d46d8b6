#include "mountctl/report_teardown.h"

#include <cjson/cJSON.h>

#include "mountctl/jsonput.h"
#include "mountctl/report.h"
#include "mountctl/report_stray.h"

static bool put_unsaved(cJSON *object, const struct unsaved *unsaved)
{
	cJSON *array;

	if (!unsaved)
		return cJSON_AddNullToObject(object, "unsaved");
	array = cJSON_AddArrayToObject(object, "unsaved");
	for (size_t i = 0; array && i < unsaved->n; i++) {
		const struct unsaved_item *found = &unsaved->item[i];
		cJSON *item = json_append_object(array);

		if (!item ||
		    !json_put_text(item, "kind",
				   unsaved_kind_name(found->kind)) ||
		    !json_put_text(item, "submodule", found->submodule) ||
		    !json_put_text(item, "what", found->what) ||
		    !json_put_bool(item, "lost", found->lost))
			return false;
	}
	return array;
}

static bool put_stray(cJSON *object, const struct stray *stray)
{
	cJSON *member;

	if (!stray)
		return cJSON_AddNullToObject(object, "stray");
	member = cJSON_AddObjectToObject(object, "stray");
	return member && stray_put(member, stray);
}

int report_teardown(const struct teardown_report *report)
{
	cJSON *object = report_object();

	return report_print(
		object,
		object && json_put_text(object, "session", report->session) &&
			json_put_text(object, "worktree", report->worktree) &&
			json_put_text(object, "branch", report->branch) &&
			json_put_bool(object, "ended", report->ended) &&
			json_put_bool(object, "removed", report->removed) &&
			put_stray(object, report->stray) &&
			put_unsaved(object, report->unsaved) &&
			report_put_holders(object, "holders", report->holders));
}

#include "mountctl/report_stray.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "mountctl/jsonput.h"
#include "mountctl/report.h"

static bool put_head(cJSON *object, const char *key,
		     const struct main_state *state)
{
	cJSON *head = cJSON_AddObjectToObject(object, key);

	return head && json_put_text(head, "branch", state->head) &&
	       json_put_text(head, "commit", state->commit);
}

static bool put_heads(cJSON *object, const struct stray *stray)
{
	cJSON *heads;

	if (!stray->head_moved)
		return cJSON_AddNullToObject(object, "head");
	heads = cJSON_AddObjectToObject(object, "head");
	return heads && put_head(heads, "before", &stray->before->state) &&
	       put_head(heads, "after", &stray->after);
}

/* name: the key of what has changed. */
static bool put_changes(cJSON *object, const char *key, const char *name,
			const struct main_changes *changes)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	for (size_t i = 0; array && i < changes->n; i++) {
		const struct main_change *change = &changes->change[i];
		cJSON *item = json_append_object(array);

		if (!item || !json_put_text(item, name, change->name) ||
		    !json_put_text(item, "before", change->before) ||
		    !json_put_text(item, "after", change->after))
			return false;
	}
	return array;
}

static bool put_time(cJSON *object, const struct baseline *before)
{
	if (!before)
		return cJSON_AddNullToObject(object, "recorded");
	return json_put_number(object, "recorded", (double)before->taken);
}

bool stray_put(cJSON *object, const struct stray *stray)
{
	const struct baseline *before = stray->before;

	return json_put_text(object, "main", stray->spec->main) &&
	       put_time(object, before) &&
	       json_put_bool(object, "late", before && before->late) &&
	       json_put_text(object, "unknown", stray->unknown) &&
	       put_heads(object, stray) &&
	       put_changes(object, "branches", "name", &stray->branches) &&
	       put_changes(object, "files", "path", &stray->files);
}

int report_stray(const char *session, const struct stray *stray)
{
	cJSON *object = report_object(), *member = NULL;

	if (object && json_put_text(object, "session", session))
		member = cJSON_AddObjectToObject(object, "stray");
	return report_print(object, member && stray_put(member, stray));
}

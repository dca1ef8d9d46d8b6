/*
 * Putting values into cJSON objects. Each answers whether it did; only memory
 * may lack. Paths are written as in spec.h.
 */
#ifndef WORKTREEFS_JSONPUT_H
#define WORKTREEFS_JSONPUT_H

#include <stdbool.h>

#include "fs/lib/spec.h"

struct cJSON;

/* NULL is null. */
bool json_put_text(struct cJSON *object, const char *key, const char *bytes);
bool json_put_number(struct cJSON *object, const char *key, double number);
bool json_put_bool(struct cJSON *object, const char *key, bool value);
bool json_put_strings(struct cJSON *object, const char *key,
		      const struct strings *strings);
/* A new object at the end of an array; NULL also where the array is. */
struct cJSON *json_append_object(struct cJSON *array);

#endif

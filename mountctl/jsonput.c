#include "mountctl/jsonput.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "fs/lib/cleanup.h"

bool json_put_text(cJSON *object, const char *key, const char *bytes)
{
	autofree char *text = NULL;

	if (!bytes)
		return cJSON_AddNullToObject(object, key);
	text = json_text_encode(bytes);
	return text && cJSON_AddStringToObject(object, key, text);
}

bool json_put_number(cJSON *object, const char *key, double number)
{
	return cJSON_AddNumberToObject(object, key, number);
}

bool json_put_bool(cJSON *object, const char *key, bool value)
{
	return cJSON_AddBoolToObject(object, key, value);
}

bool json_put_strings(cJSON *object, const char *key,
		      const struct strings *strings)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	for (size_t i = 0; array && i < strings->n; i++) {
		autofree char *text = json_text_encode(strings->s[i]);
		cJSON *item = text ? cJSON_CreateString(text) : NULL;

		if (!item)
			return false;
		cJSON_AddItemToArray(array, item);
	}
	return array;
}

cJSON *json_append_object(cJSON *array)
{
	cJSON *item = array ? cJSON_CreateObject() : NULL;

	if (item)
		cJSON_AddItemToArray(array, item);
	return item;
}

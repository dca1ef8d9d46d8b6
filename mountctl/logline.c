#include "mountctl/logline.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/spec.h"

/* What follows the minute or second: fractions. */
static const char *parse_fraction(const char *text, int *ret_ms)
{
	int ms = 0, digit = 100;

	if (*text == '.') {
		for (text++; isdigit((unsigned char)*text); text++) {
			ms += (*text - '0') * digit;
			digit /= 10;
		}
	}
	*ret_ms = ms;
	return text;
}

/* Seconds east of Greenwich: "+01:00", "-0330". */
static int parse_offset(const char *text, int *ret_seconds)
{
	int hours, minutes, n = 0;

	if ((text[0] != '+' && text[0] != '-') ||
	    !isdigit((unsigned char)text[1]) ||
	    (sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &n) != 2 &&
	     sscanf(text + 1, "%2d%2d%n", &hours, &minutes, &n) != 2) ||
	    text[1 + n] != '\0')
		return -EINVAL;
	*ret_seconds = (hours * 60 + minutes) * (text[0] == '-' ? -60 : 60);
	return 0;
}

static int to_seconds(struct tm *tm, const char *zone, time_t *ret_seconds)
{
	int offset = 0;

	if (*zone == '\0') {
		tm->tm_isdst = -1;
		*ret_seconds = mktime(tm);
		return 0;
	}
	if (strcmp(zone, "Z") != 0 && parse_offset(zone, &offset) < 0)
		return -EINVAL;
	*ret_seconds = timegm(tm) - offset;
	return 0;
}

int log_time_parse(const char *text, int64_t *ret_time)
{
	static const char *const formats[] = {
		"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
		"%Y-%m-%d %H:%M",    "%Y-%m-%d",
	};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		struct tm tm = {0};
		const char *rest = strptime(text, formats[i], &tm);
		time_t seconds;
		int ms;

		if (!rest)
			continue;
		rest = parse_fraction(rest, &ms);
		if (to_seconds(&tm, rest, &seconds) < 0)
			continue;
		*ret_time = (int64_t)seconds * 1000 + ms;
		return 0;
	}
	return -EINVAL;
}

void log_line_release(struct log_line *line)
{
	free(line->comm);
	free(line->op);
	free(line->path);
	free(line->error);
	free(line->twin);
	free(line->what);
	*line = (struct log_line){0};
}

static const char *text_of(const cJSON *object, const char *key)
{
	return cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));
}

static uint64_t number_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
	    item->valuedouble > 9e15)
		return 0;
	return (uint64_t)item->valuedouble;
}

static int get_text(const cJSON *object, const char *key, char **ret)
{
	const char *text = text_of(object, key);

	*ret = text ? json_text_decode(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static int get_members(const cJSON *object, struct log_line *line)
{
	const char *time = text_of(object, "time");
	const struct {
		const char *key;
		char **text;
	} texts[] = {
		{"comm", &line->comm}, {"op", &line->op},
		{"path", &line->path}, {"errno", &line->error},
		{"twin", &line->twin}, {"what", &line->what},
	};
	int r = 0;

	if (!time || log_time_parse(time, &line->time) < 0)
		line->time = -1;
	line->pid = (long)number_of(object, "pid");
	line->count = number_of(object, "count");
	line->dropped = number_of(object, "dropped");
	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = get_text(object, texts[i].key, texts[i].text);
	return r;
}

/* cJSON lets through what JSON doesn't. */
static bool is_clean(const char *text)
{
	for (const char *s = text; *s; s++)
		if ((unsigned char)*s < ' ')
			return false;
	return text_is_utf8(text);
}

int log_line_parse(const char *text, struct log_line *ret_line)
{
	struct log_line line = {0};
	cJSON *object =
		is_clean(text) ? cJSON_ParseWithOpts(text, NULL, true) : NULL;
	int r = cJSON_IsObject(object) ? get_members(object, &line) : -EINVAL;

	cJSON_Delete(object);
	if (r < 0) {
		log_line_release(&line);
		return r;
	}
	*ret_line = line;
	return 0;
}

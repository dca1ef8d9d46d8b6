#include "fs/lib/spec.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

#define SCHEMA_VERSION 1

static const char *const tier_words[] = {
	[TIER_NONE] = "none",
	[TIER_VIEW] = "view",
	[TIER_ENFORCED] = "enforced",
};
static const char *const hardlinks_words[] = {
	[HARDLINKS_ALLOW] = "allow",
	[HARDLINKS_BREAK] = "break",
	[HARDLINKS_DENY] = "deny",
};
static const char *const symlinks_words[] = {
	[SYMLINKS_VIEW] = "view",
	[SYMLINKS_RAW] = "raw",
};
static const char *const git_config_words[] = {
	[GIT_CONFIG_FILTER] = "filter",
	[GIT_CONFIG_DENY] = "deny",
	[GIT_CONFIG_ALLOW] = "allow",
};

static int find_word(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -EINVAL;
}

/* The pair of functions between an enum and its words. */
#define DEFINE_WORDS(type)                                                \
	const char *type##_name(enum type value)                          \
	{                                                                 \
		return type##_words[value];                               \
	}                                                                 \
	int type##_parse(const char *word, enum type *ret_value)          \
	{                                                                 \
		int r = find_word(type##_words, ARRAY_SIZE(type##_words), \
				  word);                                  \
                                                                          \
		if (r < 0)                                                \
			return r;                                         \
		*ret_value = (enum type)r;                                \
		return 0;                                                 \
	}

DEFINE_WORDS(tier)
DEFINE_WORDS(hardlinks)
DEFINE_WORDS(symlinks)
DEFINE_WORDS(git_config)

int strings_take(struct strings *strings, char *s)
{
	char **grown;

	if (!s)
		return -ENOMEM;
	grown = reallocarray(strings->s, strings->n + 2, sizeof(char *));
	if (!grown) {
		free(s);
		return -ENOMEM;
	}
	strings->s = grown;
	grown[strings->n++] = s;
	grown[strings->n] = NULL;
	return 0;
}

int strings_add(struct strings *strings, const char *s)
{
	return strings_take(strings, strdup(s));
}

bool strings_contain(const struct strings *strings, const char *s)
{
	for (size_t i = 0; i < strings->n; i++)
		if (strcmp(strings->s[i], s) == 0)
			return true;
	return false;
}

void strings_release(struct strings *strings)
{
	for (size_t i = 0; i < strings->n; i++)
		free(strings->s[i]);
	free(strings->s);
	*strings = (struct strings){0};
}

int watchdog_parse(const char *word, unsigned int *ret_seconds)
{
	char *end;
	unsigned long seconds;

	if (word[0] < '0' || word[0] > '9')
		return -EINVAL;
	errno = 0;
	seconds = strtoul(word, &end, 10);
	if (*end || errno || seconds > WATCHDOG_MAX)
		return -EINVAL;
	*ret_seconds = (unsigned int)seconds;
	return 0;
}

void session_spec_init(struct session_spec *spec)
{
	*spec = (struct session_spec){
		.hardlinks = HARDLINKS_BREAK,
		.symlinks = SYMLINKS_VIEW,
		.git_guard = true,
		.git_config = GIT_CONFIG_FILTER,
		.watchdog = WATCHDOG_DEFAULT,
		.report_uid = (uid_t)-1,
		.report_gid = (gid_t)-1,
	};
}

static void view_spec_release(struct view_spec *view)
{
	free(view->root);
	free(view->mountpoint);
	strings_release(&view->pinned);
}

void session_spec_release(struct session_spec *spec)
{
	free(spec->name);
	free(spec->main);
	free(spec->git_dir);
	free(spec->worktree);
	free(spec->admin_dir);
	free(spec->worktrees_dir);
	free(spec->state_dir);
	for (size_t i = 0; i < spec->n_views; i++)
		view_spec_release(&spec->views[i]);
	free(spec->views);
	strings_release(&spec->native);
	strings_release(&spec->fuse_options);
	rules_release(&spec->rules);
	session_spec_init(spec);
}

int session_spec_add_view(struct session_spec *spec, const char *root,
			  const char *mountpoint)
{
	autofree char *root_copy = strdup(root);
	autofree char *mountpoint_copy = mountpoint ? strdup(mountpoint) : NULL;
	struct view_spec *grown;

	if (!root_copy || (mountpoint && !mountpoint_copy))
		return -ENOMEM;
	grown = reallocarray(spec->views, spec->n_views + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	spec->views = grown;
	grown[spec->n_views++] = (struct view_spec){
		.root = steal_pointer(&root_copy),
		.mountpoint = steal_pointer(&mountpoint_copy),
	};
	return 0;
}

/* Length of the valid UTF-8 sequence at s, or 0 (RFC 3629, table 3-7). */
static size_t utf8_length(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (s[0] < 0x80)
		return s[0] ? 1 : 0;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return length;
}

bool text_is_utf8(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		size_t length = utf8_length(s);

		if (length == 0)
			return false;
		s += length;
	}
	return true;
}

static bool is_escape(const unsigned char *s)
{
	return s[0] == '%' && isxdigit(s[1]) && isxdigit(s[2]);
}

char *json_text_encode(const char *bytes)
{
	static const char digits[] = "0123456789ABCDEF";
	const unsigned char *s = (const unsigned char *)bytes;
	char *text = malloc(3 * strlen(bytes) + 1);
	char *out = text;

	if (!text)
		return NULL;
	while (*s) {
		size_t length = is_escape(s) ? 0 : utf8_length(s);

		if (length == 0) {
			*out++ = '%';
			*out++ = digits[*s >> 4];
			*out++ = digits[*s & 15];
			s++;
			continue;
		}
		memcpy(out, s, length);
		out += length;
		s += length;
	}
	*out = '\0';
	return text;
}

static char hex_value(unsigned char digit)
{
	return (char)(isdigit(digit) ? digit - '0' : (digit | 32) - 'a' + 10);
}

char *json_text_decode(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char *bytes = malloc(strlen(text) + 1);
	char *out = bytes;

	if (!bytes)
		return NULL;
	while (*s) {
		if (is_escape(s) && (s[1] != '0' || s[2] != '0')) {
			*out++ = (char)(hex_value(s[1]) << 4 | hex_value(s[2]));
			s += 3;
		} else {
			*out++ = (char)*s++;
		}
	}
	*out = '\0';
	return bytes;
}

/*
 * Writing. cJSON answers NULL when out of memory; the first such answer is
 * remembered by the object being incomplete, which each of these reports.
 */

static bool put_text(cJSON *object, const char *key, const char *bytes)
{
	autofree char *text = NULL;

	if (!bytes)
		return cJSON_AddNullToObject(object, key);
	text = json_text_encode(bytes);
	return text && cJSON_AddStringToObject(object, key, text);
}

static bool put_strings(cJSON *object, const char *key,
			const struct strings *strings)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	if (!array)
		return false;
	for (size_t i = 0; i < strings->n; i++) {
		autofree char *text = json_text_encode(strings->s[i]);
		cJSON *item = text ? cJSON_CreateString(text) : NULL;

		if (!item || !cJSON_AddItemToArray(array, item))
			return false;
	}
	return true;
}

/* Appends an empty object to the array; NULL when out of memory. */
static cJSON *append_object(cJSON *array)
{
	cJSON *item = cJSON_CreateObject();

	if (item && !cJSON_AddItemToArray(array, item)) {
		cJSON_Delete(item);
		return NULL;
	}
	return item;
}

static bool put_rules(cJSON *object, const struct rules *rules)
{
	cJSON *array = cJSON_AddArrayToObject(object, "rules");

	if (!array)
		return false;
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		cJSON *item = append_object(array);

		if (!item || !put_text(item, "path", rule->path) ||
		    !put_text(item, "access", access_name(rule->access)) ||
		    !put_text(item, "origin", origin_name(rule->origin)) ||
		    !put_text(item, "caching", caching_name(rule->caching)) ||
		    !put_text(item, "judge", judge_name(rule->judge)) ||
		    !cJSON_AddBoolToObject(item, "pattern", rule->pattern) ||
		    !cJSON_AddBoolToObject(item, "plain", rule->plain) ||
		    !put_text(item, "reason", rule->reason))
			return false;
	}
	return true;
}

static bool put_views(cJSON *object, const struct session_spec *spec)
{
	cJSON *array = cJSON_AddArrayToObject(object, "views");

	if (!array)
		return false;
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		cJSON *item = append_object(array);

		if (!item || !put_text(item, "root", view->root) ||
		    !put_text(item, "mountpoint", view->mountpoint) ||
		    !put_strings(item, "pinned", &view->pinned))
			return false;
	}
	return true;
}

static bool put_ids(cJSON *object, const struct session_spec *spec)
{
	cJSON *ids;

	if (spec->report_uid == (uid_t)-1)
		return cJSON_AddNullToObject(object, "ids");
	ids = cJSON_AddObjectToObject(object, "ids");
	return ids && cJSON_AddNumberToObject(ids, "uid", spec->report_uid) &&
	       cJSON_AddNumberToObject(ids, "gid", spec->report_gid);
}

static bool put_spec(cJSON *object, const struct session_spec *spec)
{
	return cJSON_AddNumberToObject(object, "schema_version",
				       SCHEMA_VERSION) &&
	       put_text(object, "session", spec->name) &&
	       put_text(object, "tier", tier_name(spec->tier)) &&
	       put_text(object, "main", spec->main) &&
	       put_text(object, "git_dir", spec->git_dir) &&
	       put_text(object, "worktree", spec->worktree) &&
	       put_text(object, "admin_dir", spec->admin_dir) &&
	       put_text(object, "worktrees_dir", spec->worktrees_dir) &&
	       put_text(object, "state_dir", spec->state_dir) &&
	       put_text(object, "hardlinks", hardlinks_name(spec->hardlinks)) &&
	       put_text(object, "symlinks", symlinks_name(spec->symlinks)) &&
	       cJSON_AddBoolToObject(object, "git_guard", spec->git_guard) &&
	       put_text(object, "git_config",
			git_config_name(spec->git_config)) &&
	       cJSON_AddNumberToObject(object, "watchdog", spec->watchdog) &&
	       put_ids(object, spec) && put_views(object, spec) &&
	       put_strings(object, "native", &spec->native) &&
	       put_strings(object, "fuse_options", &spec->fuse_options) &&
	       put_rules(object, &spec->rules);
}

struct cJSON *session_spec_to_cjson(const struct session_spec *spec)
{
	cJSON *object = cJSON_CreateObject();

	if (object && !put_spec(object, spec)) {
		cJSON_Delete(object);
		return NULL;
	}
	return object;
}

char *session_spec_to_json(const struct session_spec *spec)
{
	cJSON *object = session_spec_to_cjson(spec);
	char *text = object ? cJSON_Print(object) : NULL;

	cJSON_Delete(object);
	return text;
}

/* Reading: each answers 0, -EINVAL or -ENOMEM. */

/* A string, or NULL where the member is null or missing. */
static int get_text(const cJSON *object, const char *key, char **ret_bytes)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	char *bytes;

	if (!item || cJSON_IsNull(item)) {
		*ret_bytes = NULL;
		return 0;
	}
	if (!cJSON_IsString(item))
		return -EINVAL;
	bytes = json_text_decode(item->valuestring);
	if (!bytes)
		return -ENOMEM;
	*ret_bytes = bytes;
	return 0;
}

/* The same for a path: absolute and clean, or NULL. */
static int get_path(const cJSON *object, const char *key, char **ret_path)
{
	autofree char *path = NULL;
	int r = get_text(object, key, &path);

	if (r < 0)
		return r;
	if (path && !path_is_clean(path))
		return -EINVAL;
	*ret_path = steal_pointer(&path);
	return 0;
}

/* Stays what it was where the member is missing. */
static int get_bool(const cJSON *object, const char *key, bool *value)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!item)
		return 0;
	if (!cJSON_IsBool(item))
		return -EINVAL;
	*value = cJSON_IsTrue(item);
	return 0;
}

static const char *get_word_or(const cJSON *object, const char *key,
			       const char *missing)
{
	const char *word = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));

	return word ? word : missing;
}

static const char *get_word(const cJSON *object, const char *key)
{
	return get_word_or(object, key, "");
}

static int get_strings(const cJSON *object, const char *key,
		       struct strings *strings)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
	const cJSON *item;

	if (!array)
		return 0;
	if (!cJSON_IsArray(array))
		return -EINVAL;
	cJSON_ArrayForEach(item, array)
	{
		if (!cJSON_IsString(item))
			return -EINVAL;
		if (strings_take(strings, json_text_decode(item->valuestring)) <
		    0)
			return -ENOMEM;
	}
	return 0;
}

static int get_rule(const cJSON *item, struct rules *rules)
{
	autofree char *path = NULL, *reason = NULL;
	struct rule rule = {0};
	int r = get_path(item, "path", &path);

	if (r == 0)
		r = get_text(item, "reason", &reason);
	if (r < 0)
		return r;
	if (!path || get_bool(item, "pattern", &rule.pattern) < 0 ||
	    get_bool(item, "plain", &rule.plain) < 0 ||
	    access_parse(get_word(item, "access"), &rule.access) < 0 ||
	    origin_parse(get_word_or(item, "origin", "command line"),
			 &rule.origin) < 0 ||
	    caching_parse(get_word_or(item, "caching", "tree"), &rule.caching) <
		    0 ||
	    judge_parse(get_word_or(item, "judge", "none"), &rule.judge) < 0)
		return -EINVAL;
	rule.path = path;
	rule.reason = reason;
	return rules_add(rules, &rule);
}

static int get_rules(const cJSON *object, struct rules *rules)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, "rules");
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return -EINVAL;
	cJSON_ArrayForEach(item, array)
	{
		int r = get_rule(item, rules);

		if (r < 0)
			return r;
	}
	return 0;
}

static int get_view(const cJSON *item, struct session_spec *spec)
{
	autofree char *root = NULL, *mountpoint = NULL;
	int r = get_path(item, "root", &root);

	if (r == 0)
		r = get_path(item, "mountpoint", &mountpoint);
	if (r == 0 && !root)
		r = -EINVAL;
	if (r == 0)
		r = session_spec_add_view(spec, root, mountpoint);
	if (r < 0)
		return r;
	return get_strings(item, "pinned",
			   &spec->views[spec->n_views - 1].pinned);
}

static int get_views(const cJSON *object, struct session_spec *spec)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, "views");
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return -EINVAL;
	cJSON_ArrayForEach(item, array)
	{
		int r = get_view(item, spec);

		if (r < 0)
			return r;
	}
	return 0;
}

/* An id as chown(2) takes it; (uint32_t)-1 is none. */
static int get_id(const cJSON *object, const char *key, unsigned int *ret_id)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	double value;

	if (!cJSON_IsNumber(item))
		return -EINVAL;
	value = item->valuedouble;
	if (!(value >= 0 && value < 4294967295.0) ||
	    (double)(unsigned int)value != value)
		return -EINVAL;
	*ret_id = (unsigned int)value;
	return 0;
}

static int get_ids(const cJSON *object, struct session_spec *spec)
{
	const cJSON *ids = cJSON_GetObjectItemCaseSensitive(object, "ids");
	int r;

	if (!ids || cJSON_IsNull(ids))
		return 0;
	r = get_id(ids, "uid", &spec->report_uid);
	return r < 0 ? r : get_id(ids, "gid", &spec->report_gid);
}

static int get_watchdog(const cJSON *object, struct session_spec *spec)
{
	const cJSON *item =
		cJSON_GetObjectItemCaseSensitive(object, "watchdog");

	if (!item)
		return 0;
	if (!cJSON_IsNumber(item) || item->valuedouble < 0 ||
	    item->valuedouble > WATCHDOG_MAX)
		return -EINVAL;
	spec->watchdog = (unsigned int)item->valuedouble;
	return 0;
}

static int get_words(const cJSON *object, struct session_spec *spec)
{
	if (tier_parse(get_word(object, "tier"), &spec->tier) < 0 ||
	    hardlinks_parse(get_word(object, "hardlinks"), &spec->hardlinks) <
		    0 ||
	    symlinks_parse(get_word(object, "symlinks"), &spec->symlinks) < 0 ||
	    git_config_parse(get_word(object, "git_config"),
			     &spec->git_config) < 0)
		return -EINVAL;
	if (get_watchdog(object, spec) < 0)
		return -EINVAL;
	return get_bool(object, "git_guard", &spec->git_guard);
}

static int get_paths(const cJSON *object, struct session_spec *spec)
{
	const struct {
		const char *key;
		char **path;
	} paths[] = {
		{"main", &spec->main},
		{"git_dir", &spec->git_dir},
		{"worktree", &spec->worktree},
		{"admin_dir", &spec->admin_dir},
		{"worktrees_dir", &spec->worktrees_dir},
		{"state_dir", &spec->state_dir},
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int r = get_path(object, paths[i].key, paths[i].path);

		if (r < 0)
			return r;
	}
	return 0;
}

static int get_spec(const cJSON *object, struct session_spec *spec)
{
	const cJSON *version =
		cJSON_GetObjectItemCaseSensitive(object, "schema_version");
	int r;

	if (!cJSON_IsNumber(version) || version->valuedouble != SCHEMA_VERSION)
		return -EINVAL;
	r = get_text(object, "session", &spec->name);
	if (r == 0 && !spec->name)
		r = -EINVAL;
	if (r == 0)
		r = get_words(object, spec);
	if (r == 0)
		r = get_paths(object, spec);
	if (r == 0)
		r = get_ids(object, spec);
	if (r == 0)
		r = get_views(object, spec);
	if (r == 0)
		r = get_strings(object, "native", &spec->native);
	if (r == 0)
		r = get_strings(object, "fuse_options", &spec->fuse_options);
	if (r == 0)
		r = get_rules(object, &spec->rules);
	return r;
}

int session_spec_from_cjson(const struct cJSON *object,
			    struct session_spec *ret_spec)
{
	struct session_spec spec;
	int r;

	session_spec_init(&spec);
	r = get_spec(object, &spec);
	if (r < 0) {
		session_spec_release(&spec);
		return r;
	}
	*ret_spec = spec;
	return 0;
}

/* One value and nothing after it, or NULL. */
static cJSON *parse(const char *text)
{
	return cJSON_ParseWithOpts(text, NULL, true);
}

int session_spec_from_json(const char *text, struct session_spec *ret_spec)
{
	cJSON *object = parse(text);
	int r = object ? session_spec_from_cjson(object, ret_spec) : -EINVAL;

	cJSON_Delete(object);
	return r;
}

int rules_from_json(const char *text, struct rules *ret_rules)
{
	cJSON *object = parse(text);
	struct rules rules = {0};
	int r = object ? get_rules(object, &rules) : -EINVAL;

	cJSON_Delete(object);
	if (r < 0)
		rules_release(&rules);
	else
		*ret_rules = rules;
	return r;
}

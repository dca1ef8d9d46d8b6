#include "mountctl/settings_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"

/* docs/harnesses.md tells where all of these are known from. */
struct settings_event {
	const char *name;
	const char *matcher; /* or NULL: there is nothing to match */
	unsigned timeout;    /* in the harness's own unit; 0: its default */
	/* The call doesn't go on without an answer that allows it. */
	bool explicitly;
};

/*
 * Shells aren't listed: the hook leaves them to the file system, and a hook
 * that always agrees costs time.
 */
static const struct settings_event claude_events[] = {
	{"PreToolUse",
	 "Write|Edit|MultiEdit|NotebookEdit|Read|Glob|Grep|LS|mcp__.*", 10,
	 false},
	{"SessionStart", NULL, 10, false},
	{NULL, NULL, 0, false},
};

static const struct settings_event codex_events[] = {
	{"PreToolUse", "apply_patch|mcp__.*", 10, false},
	{"SessionStart", NULL, 10, false},
	{NULL, NULL, 0, false},
};

static const struct settings_event gemini_events[] = {
	{"BeforeTool",
	 "write_file|replace|read_file|read_many_files|list_directory|"
	 "search_file_content",
	 10000, false},
	{"SessionStart", NULL, 10000, false},
	{NULL, NULL, 0, false},
};

static const struct settings_event cursor_events[] = {
	{"preToolUse", "Write|Delete|Read|Grep", 10, true},
	{"sessionStart", NULL, 10, false},
	{NULL, NULL, 0, false},
};

static const struct settings_harness harnesses[] = {
	{.name = "claude",
	 .dir = ".claude",
	 .file = "settings.json",
	 .local_file = "settings.local.json",
	 .events = claude_events,
	 .has_args = true},
	{.name = "codex",
	 .dir = ".codex",
	 .file = "hooks.json",
	 .events = codex_events},
	{.name = "gemini",
	 .dir = ".gemini",
	 .file = "settings.json",
	 .events = gemini_events},
	{.name = "cursor",
	 .dir = ".cursor",
	 .file = "hooks.json",
	 .events = cursor_events,
	 .is_flat = true,
	 .has_version = true},
};

const struct settings_harness *settings_harness_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(harnesses); i++)
		if (strcmp(harnesses[i].name, name) == 0)
			return &harnesses[i];
	return NULL;
}

/*
 * What is put in.
 */

static void print_list(FILE *out, const struct strings *list)
{
	fputc('[', out);
	for (size_t i = 0; i < list->n; i++) {
		if (i > 0)
			fputc(',', out);
		json_text_quote(out, list->s[i]);
	}
	fputc(']', out);
}

static int print_command(FILE *out, const struct settings_harness *harness,
			 const struct settings *settings,
			 const struct strings *words)
{
	autofree char *line = NULL;

	fputs("\"command\":", out);
	if (harness->has_args) {
		json_text_quote(out, settings->program);
		fputs(",\"args\":", out);
		print_list(out, words);
		return 0;
	}
	line = settings_shell_line(settings, words);
	if (!line)
		return -ENOMEM;
	json_text_quote(out, line);
	return 0;
}

static int print_handler(FILE *out, const struct settings_harness *harness,
			 const struct settings_event *event,
			 const struct settings *settings)
{
	struct strings words = {0};
	int r = settings_hook_words(settings, harness->name, event->explicitly,
				    &words);

	fputs(harness->is_flat ? "{" : "{\"type\":\"command\",", out);
	if (r == 0)
		r = print_command(out, harness, settings, &words);
	strings_release(&words);
	if (event->timeout)
		fprintf(out, ",\"timeout\":%u", event->timeout);
	if (harness->is_flat && event->matcher) {
		fputs(",\"matcher\":", out);
		json_text_quote(out, event->matcher);
	}
	if (event->explicitly)
		fputs(",\"failClosed\":true", out);
	fputc('}', out);
	return r;
}

static int print_entry(FILE *out, const struct settings_harness *harness,
		       const struct settings_event *event,
		       const struct settings *settings)
{
	int r;

	if (harness->is_flat)
		return print_handler(out, harness, event, settings);
	fputc('{', out);
	if (event->matcher) {
		fputs("\"matcher\":", out);
		json_text_quote(out, event->matcher);
		fputc(',', out);
	}
	fputs("\"hooks\":[", out);
	r = print_handler(out, harness, event, settings);
	fputs("]}", out);
	return r;
}

/* Of an event's array: allocated; NULL: out of memory. */
static char *make_entry(const struct settings_harness *harness,
			const struct settings_event *event,
			const struct settings *settings)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out)
		return NULL;
	r = print_entry(out, harness, event, settings);
	if (fclose(out) == 0 && r == 0)
		return text;
	free(text);
	return NULL;
}

/*
 * What was put in earlier.
 */

static size_t child_at(const struct json_text *json, size_t container,
		       size_t index)
{
	size_t child = json->node[container].first;

	while (child && index-- > 0)
		child = json->node[child].next;
	return child;
}

/* A member of anything that may be an object; 0: there is none. */
static size_t member(const struct json_text *json, size_t node,
		     const char *name)
{
	size_t found = 0;

	return json_text_member(json, node, name, &found) == 0 ? found : 0;
}

/* A handler's command as words; none where it isn't one. */
static int take_command(const struct json_text *json, size_t handler,
			struct strings *words)
{
	size_t node = member(json, handler, "command");
	autofree char *command = node ? json_text_string(json, node) : NULL;
	size_t args = member(json, handler, "args");
	int r;

	if (!command)
		return 0;
	if (!args || json->node[args].kind != JSON_ARRAY)
		return settings_split_line(command, words);
	r = strings_add(words, command);
	for (size_t i = json->node[args].first; r == 0 && i;
	     i = json->node[i].next) {
		char *word = json_text_string(json, i);

		r = word ? strings_take(words, word) : 0;
	}
	return r;
}

/* The words behind --allow. */
static int take_allowed(const struct strings *words, struct strings *former)
{
	bool is_allowed = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < words->n; i++) {
		const char *word = words->s[i];

		if (word[0] == '-')
			is_allowed = strcmp(word, "--allow") == 0;
		else if (is_allowed)
			r = strings_add(former, word);
	}
	return r;
}

/* 1, 0 or -ENOMEM. */
static int is_own_handler(const struct json_text *json, size_t handler,
			  struct strings *former)
{
	struct strings words = {0};
	int r = take_command(json, handler, &words);

	if (r == 0)
		r = settings_is_own(&words);
	if (r > 0 && take_allowed(&words, former) < 0)
		r = -ENOMEM;
	strings_release(&words);
	return r;
}

/* What an entry of an event holds: itself, or the handlers of a group. */
struct entry {
	size_t n;   /* handlers */
	size_t own; /* of these, ours */
	size_t one; /* the node of one of ours, or 0 */
};

static int look_at(const struct json_text *json,
		   const struct settings_harness *harness, size_t node,
		   struct strings *former, struct entry *ret_entry)
{
	size_t group = harness->is_flat ? 0 : member(json, node, "hooks");
	size_t handler = harness->is_flat ? node
			 : group	  ? json->node[group].first
					  : 0;
	struct entry entry = {0};

	for (; handler; handler = group ? json->node[handler].next : 0) {
		int r = is_own_handler(json, handler, former);

		if (r < 0)
			return r;
		entry.n++;
		entry.own += (size_t)r;
		if (r > 0)
			entry.one = handler;
	}
	*ret_entry = entry;
	return 0;
}

/*
 * Merging.
 */

/* Where one event's entries are being gone through. */
struct merger {
	struct json_edit *edit; /* borrowed, as all of these */
	const struct settings_harness *harness;
	const char *const *path;
	const char *value;
	struct strings *former;
	char **message;
	size_t index;	/* of the entry that is looked at */
	bool is_placed; /* the value is there */
};

/* 1: go on; 0: that was the last; -errno. */
static int merge_next(struct merger *m)
{
	struct json_edit *edit = m->edit;
	struct entry entry;
	size_t array, node;
	int r = json_edit_make(edit, m->path, JSON_ARRAY, &array, m->message);

	if (r < 0)
		return r;
	node = child_at(&edit->json, array, m->index);
	if (!node)
		return 0;
	r = look_at(&edit->json, m->harness, node, m->former, &entry);
	if (r < 0)
		return r;
	if (entry.own == 0) {
		m->index++;
	} else if (entry.own < entry.n) {
		r = json_edit_remove(edit, entry.one);
	} else if (m->is_placed) {
		r = json_edit_remove(edit, node);
	} else {
		r = json_edit_replace(edit, node, m->value);
		m->is_placed = true;
		m->index++;
	}
	return r < 0 ? r : 1;
}

static int merge_event(struct merger *m)
{
	size_t array;
	int r;

	do
		r = merge_next(m);
	while (r > 0);
	if (r < 0 || m->is_placed)
		return r;
	r = json_edit_make(m->edit, m->path, JSON_ARRAY, &array, m->message);
	return r < 0 ? r : json_edit_append(m->edit, array, m->value);
}

/* Only where there is none: another version isn't ours to change. */
static int merge_version(struct json_edit *edit)
{
	size_t version = 0;
	int r = json_text_member(&edit->json, 0, "version", &version);

	if (r < 0)
		return r;
	return version ? 0 : json_edit_add(edit, 0, "version", "1");
}

int settings_merge_hooks(struct json_edit *edit,
			 const struct settings_harness *harness,
			 const struct settings *settings,
			 struct strings *ret_former, char **message)
{
	static const char *const whole[] = {NULL};
	size_t root;
	int r = json_edit_make(edit, whole, JSON_OBJECT, &root, message);

	if (r == 0 && harness->has_version)
		r = merge_version(edit);
	for (const struct settings_event *event = harness->events;
	     r == 0 && event->name; event++) {
		const char *const path[] = {"hooks", event->name, NULL};
		autofree char *value = make_entry(harness, event, settings);
		struct merger merger = {
			.edit = edit,
			.harness = harness,
			.path = path,
			.value = value,
			.former = ret_former,
			.message = message,
		};

		r = value ? merge_event(&merger) : -ENOMEM;
	}
	return r;
}

/*
 * The sandbox.
 */

static int set_member(struct json_edit *edit, const char *name,
		      const char *value, char **message)
{
	static const char *const path[] = {"sandbox", NULL};
	size_t sandbox, node = 0;
	int r = json_edit_make(edit, path, JSON_OBJECT, &sandbox, message);

	if (r == 0)
		r = json_text_member(&edit->json, sandbox, name, &node);
	if (r == -EEXIST)
		return explain(r, message, "'%s' is there twice", name);
	if (r < 0)
		return r;
	return node ? json_edit_replace(edit, node, value)
		    : json_edit_add(edit, sandbox, name, value);
}

static size_t find_text(const struct json_text *json, size_t array,
			const char *text)
{
	size_t i = json->node[array].first;

	while (i && !json_text_is(json, i, text))
		i = json->node[i].next;
	return i;
}

static int add_text(struct json_edit *edit, const char *const *path,
		    const char *text, char **message)
{
	autofree char *value = NULL;
	size_t array, size;
	FILE *out;
	int r = json_edit_make(edit, path, JSON_ARRAY, &array, message);

	if (r < 0 || find_text(&edit->json, array, text))
		return r;
	out = open_memstream(&value, &size);
	if (!out)
		return -ENOMEM;
	json_text_quote(out, text);
	if (fclose(out) != 0)
		return -ENOMEM;
	return json_edit_append(edit, array, value);
}

static int add_texts(struct json_edit *edit, const char *const *path,
		     const struct strings *texts, char **message)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < texts->n; i++)
		r = add_text(edit, path, texts->s[i], message);
	return r;
}

static int remove_text(struct json_edit *edit, const char *const *path,
		       const char *text, char **message)
{
	size_t array, node;
	int r = json_edit_make(edit, path, JSON_ARRAY, &array, message);

	if (r < 0)
		return r;
	node = find_text(&edit->json, array, text);
	return node ? json_edit_remove(edit, node) : 0;
}

static const char *const write_path[] = {"sandbox", "filesystem", "allowWrite",
					 NULL};
static const char *const deny_path[] = {"sandbox", "filesystem", "denyWrite",
					NULL};
static const char *const domains_path[] = {"sandbox", "network",
					   "allowedDomains", NULL};

static int remove_former(struct json_edit *edit,
			 const struct settings *settings,
			 const struct strings *former, char **message)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < former->n; i++)
		if (!strings_contain(&settings->writable, former->s[i]))
			r = remove_text(edit, write_path, former->s[i],
					message);
	return r;
}

/* The first one that holds the worktree; NULL: none. Allocated. */
static char *find_denial(const struct json_edit *edit, size_t array,
			 const char *worktree)
{
	const struct json_text *json = &edit->json;

	for (size_t i = json->node[array].first; i; i = json->node[i].next) {
		autofree char *text = json_text_string(json, i);
		autofree char *plain = text ? path_normalise("/", text) : NULL;

		if (text && text[0] == '/' && plain &&
		    path_starts_with(worktree, plain, NULL))
			return steal_pointer(&text);
	}
	return NULL;
}

static int remove_denials(struct json_edit *edit, const char *worktree,
			  char **message)
{
	for (;;) {
		autofree char *denial = NULL;
		size_t array;
		int r = json_edit_make(edit, deny_path, JSON_ARRAY, &array,
				       message);

		if (r < 0)
			return r;
		denial = find_denial(edit, array, worktree);
		if (!denial)
			return 0;
		warn("'%s' goes from denyWrite: it would make the worktree "
		     "read-only, whatever allowWrite says",
		     denial);
		r = json_edit_remove(edit,
				     find_text(&edit->json, array, denial));
		if (r < 0)
			return r;
	}
}

int settings_merge_sandbox(struct json_edit *edit,
			   const struct settings *settings,
			   const struct strings *domains,
			   const struct strings *former, char **message)
{
	int r = set_member(edit, "enabled", "true", message);

	if (r == 0)
		r = set_member(edit, "failIfUnavailable", "true", message);
	if (r == 0)
		r = set_member(edit, "allowUnsandboxedCommands", "false",
			       message);
	if (r == 0)
		r = remove_former(edit, settings, former, message);
	if (r == 0)
		r = add_texts(edit, write_path, &settings->writable, message);
	if (r == 0)
		r = remove_denials(edit, settings->spec.worktree, message);
	if (r == 0)
		r = add_texts(edit, deny_path, &settings->held, message);
	return r < 0 ? r : add_texts(edit, domains_path, domains, message);
}

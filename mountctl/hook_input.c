#include "mountctl/hook_input.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/hook_patch.h"
#include "mountctl/output.h"

#define MAX_TARGETS 10000

static const char *const format_words[] = {
	[HOOK_CLAUDE] = "claude",   [HOOK_CODEX] = "codex",
	[HOOK_GEMINI] = "gemini",   [HOOK_CURSOR] = "cursor",
	[HOOK_COPILOT] = "copilot",
};

const char *hook_format_name(enum hook_format format)
{
	return format_words[format];
}

int hook_format_parse(const char *word, enum hook_format *ret_format)
{
	for (size_t i = 0; i < ARRAY_SIZE(format_words); i++) {
		if (strcmp(word, format_words[i]) != 0)
			continue;
		*ret_format = (enum hook_format)i;
		return 0;
	}
	return -EINVAL;
}

/*
 * Tools, of all harnesses: their names don't clash. Those that aren't listed
 * are judged by the absolute paths among their arguments, see take_unknown().
 */
enum tool_kind {
	TOOL_WRITE,
	TOOL_REMOVE,
	TOOL_READ,
	TOOL_SHELL,
	TOOL_PATCH,
};

static const struct {
	const char *name; /* compared without regard to case */
	enum tool_kind kind;
} tools[] = {
	/* Claude Code, Cursor, Copilot */
	{"Write", TOOL_WRITE},
	{"Edit", TOOL_WRITE},
	{"MultiEdit", TOOL_WRITE},
	{"NotebookEdit", TOOL_WRITE},
	{"create", TOOL_WRITE},
	{"Delete", TOOL_REMOVE},
	{"Read", TOOL_READ},
	{"Glob", TOOL_READ},
	{"Grep", TOOL_READ},
	{"LS", TOOL_READ},
	{"view", TOOL_READ},
	{"Bash", TOOL_SHELL},
	{"PowerShell", TOOL_SHELL},
	{"Monitor", TOOL_SHELL},
	{"Shell", TOOL_SHELL},
	/* Codex */
	{"apply_patch", TOOL_PATCH},
	{"ApplyPatch", TOOL_PATCH},
	{"local_shell", TOOL_SHELL},
	{"exec_command", TOOL_SHELL},
	/* Gemini CLI */
	{"write_file", TOOL_WRITE},
	{"replace", TOOL_WRITE},
	{"read_file", TOOL_READ},
	{"read_many_files", TOOL_READ},
	{"list_directory", TOOL_READ},
	{"search_file_content", TOOL_READ},
	{"run_shell_command", TOOL_SHELL},
	/* Cursor, of old */
	{"edit_file", TOOL_WRITE},
	{"search_replace", TOOL_WRITE},
	{"delete_file", TOOL_REMOVE},
	{"run_terminal_cmd", TOOL_SHELL},
};

/* Members that hold a path, in tools that are listed. */
static const char *const path_keys[] = {
	"file_path", "notebook_path", "path",	  "filePath",
	"dir_path",  "absolute_path", "filename", "target_file",
	"paths",     "file_paths",
};

/* The same in tools that aren't. */
static const char *const more_path_keys[] = {
	"file",	     "files",	    "source",	"destination", "src",
	"dst",	     "dest",	    "from",	"to",	       "dir",
	"directory", "uri",	    "old_path", "new_path",    "target",
	"output",    "output_path", "filepath",
};

/* A tool that isn't listed changes something if its name has one of these. */
static const char *const changing_words[] = {
	"write", "edit",    "create", "delete", "remove", "move",   "rename",
	"patch", "replace", "insert", "update", "append", "mkdir",  "copy",
	"save",	 "apply",   "put",    "touch",	"upload", "modify",
};

static const struct {
	const char *name;
	enum hook_event event;
} events[] = {
	{"PreToolUse", HOOK_CALL},
	{"BeforeTool", HOOK_CALL},
	{"preToolUse", HOOK_CALL},
	{"beforeShellExecution", HOOK_CALL},
	{"beforeReadFile", HOOK_CALL},
	{"SessionStart", HOOK_SESSION_START},
	{"sessionStart", HOOK_SESSION_START},
	{"SessionEnd", HOOK_SESSION_END},
	{"sessionEnd", HOOK_SESSION_END},
	{"WorktreeCreate", HOOK_WORKTREE_CREATE},
	{"WorktreeRemove", HOOK_WORKTREE_REMOVE},
};

static void release_targets(struct hook_targets *targets)
{
	for (size_t i = 0; i < targets->n; i++)
		free(targets->target[i].path);
	free(targets->target);
}

void hook_input_release(struct hook_input *input)
{
	strings_release(&input->places);
	release_targets(&input->targets);
	free(input->command);
	free(input->directory);
	free(input->name);
	free(input->worktree_path);
	free(input->reason);
	*input = (struct hook_input){0};
}

int hook_targets_add(struct hook_targets *targets, const char *path,
		     enum policy_op op)
{
	struct hook_target *grown = reallocarray(
		targets->target, targets->n + 1, sizeof(*targets->target));
	char *copy = strdup(path);

	if (grown)
		targets->target = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	grown[targets->n++] = (struct hook_target){.path = copy, .op = op};
	return 0;
}

/*
 * Text that the parser would cut off or refuse.
 */

/* The value of "\uXXXX" at s, or -1. */
static int escape_at(const char *s)
{
	int value = 0;

	if (s[0] != '\\' || s[1] != 'u')
		return -1;
	for (int i = 2; i < 6; i++) {
		if (!isxdigit((unsigned char)s[i]))
			return -1;
		value = value << 4 |
			(isdigit((unsigned char)s[i])
				 ? s[i] - '0'
				 : tolower((unsigned char)s[i]) - 'a' + 10);
	}
	return value;
}

static bool is_high_surrogate(int value)
{
	return value >= 0xd800 && value < 0xdc00;
}

static bool is_low_surrogate(int value)
{
	return value >= 0xdc00 && value < 0xe000;
}

/*
 * One escape that the parser doesn't take, at *s: the NUL, or half of a pair.
 * A lone "\udc80" to "\udcff" is how some write the byte 80 to ff of a name
 * that isn't UTF-8 (Python's surrogateescape).
 */
static char *mend_escape(char *out, int value)
{
	if (value == 0)
		return mempcpy(out, "\\u0001", 6);
	if (value >= 0xdc80 && value <= 0xdcff) {
		*out = (char)(value & 0xff);
		return out + 1;
	}
	return mempcpy(out, "\\ufffd", 6);
}

/* False: there is an escape that isn't one. The parser takes those for NULs. */
static bool mend_text(char *text)
{
	char *in = text, *out = text;

	while (*in) {
		int value = escape_at(in);

		if (is_high_surrogate(value) &&
		    is_low_surrogate(escape_at(in + 6))) {
			out = memmove(out, in, 12) + 12;
			in += 12;
		} else if (value == 0 || is_high_surrogate(value) ||
			   is_low_surrogate(value)) {
			out = mend_escape(out, value);
			in += 6;
		} else if (in[0] == '\\' && in[1]) {
			if (value < 0 && in[1] == 'u')
				return false;
			*out++ = *in++;
			*out++ = *in++;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
	return true;
}

/*
 * Members.
 */

static int malformed(char **message, const char *key)
{
	return explain(-EINVAL, message,
		       "the hook's input is malformed: '%s' isn't what it "
		       "should be",
		       key);
}

/* NULL where there is none. */
static int find(const cJSON *object, const char *key, const cJSON **ret_item,
		char **message)
{
	const cJSON *item, *found = NULL;

	cJSON_ArrayForEach(item, object)
	{
		if (!item->string || strcmp(item->string, key) != 0)
			continue;
		if (found)
			return malformed(message, key);
		found = item;
	}
	*ret_item = found;
	return 0;
}

static bool is_sound(const char *text)
{
	return !strchr(text, HOOK_NUL_MARK);
}

/* A text, or nothing where it is missing or null. Borrowed. */
static int get(const cJSON *object, const char *key, const char **ret_text,
	       char **message)
{
	const cJSON *item;
	int r = find(object, key, &item, message);

	if (r < 0)
		return r;
	*ret_text = NULL;
	if (!item || cJSON_IsNull(item))
		return 0;
	if (!cJSON_IsString(item) || !is_sound(item->valuestring))
		return malformed(message, key);
	*ret_text = item->valuestring;
	return 0;
}

static int get_copy(const cJSON *object, const char *key, char **slot,
		    char **message)
{
	const char *text;
	int r = get(object, key, &text, message);

	if (r < 0 || !text)
		return r;
	free(*slot);
	*slot = strdup(text);
	return *slot ? 0 : -ENOMEM;
}

/* The words of a command, or its text. */
static char *command_of(const cJSON *item)
{
	char *text = NULL;
	size_t size;
	const cJSON *word;
	FILE *out;

	if (cJSON_IsString(item))
		return strdup(item->valuestring);
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	cJSON_ArrayForEach(word, item)
	{
		fprintf(out, "%s%s", word == item->child ? "" : " ",
			cJSON_IsString(word) ? word->valuestring : "");
	}
	return fclose(out) == 0 ? text : NULL;
}

static bool is_command(const cJSON *item)
{
	const cJSON *word;

	if (cJSON_IsString(item))
		return true;
	if (!cJSON_IsArray(item))
		return false;
	cJSON_ArrayForEach(word, item)
	{
		if (!cJSON_IsString(word))
			return false;
	}
	return true;
}

/* The first of these members that there is; NULL: none. Allocated. */
static int get_command(const cJSON *object, const char *const *keys,
		       char **ret_command, char **message)
{
	for (; *keys; keys++) {
		const cJSON *item;
		int r = find(object, *keys, &item, message);

		if (r < 0)
			return r;
		if (!item || cJSON_IsNull(item))
			continue;
		if (!is_command(item))
			return malformed(message, *keys);
		free(*ret_command);
		*ret_command = command_of(item);
		return *ret_command ? 0 : -ENOMEM;
	}
	return 0;
}

/*
 * Targets.
 */

/* Which paths of a tool count. */
struct taking {
	enum policy_op op;
	bool only_absolute; /* the rest may be no paths at all */
};

static int take_path(struct hook_input *input, const cJSON *item,
		     const char *key, const struct taking *taking,
		     char **message)
{
	const char *path = cJSON_GetStringValue(item);

	if (taking->only_absolute &&
	    (!path || (path[0] != '/' && path[0] != '~' &&
		       strncmp(path, "file:", 5) != 0)))
		return 0;
	if (!path || !path[0] || !is_sound(path))
		return malformed(message, key);
	if (input->targets.n >= MAX_TARGETS)
		return explain(-EINVAL, message,
			       "the hook's input names more than %d paths",
			       MAX_TARGETS);
	return hook_targets_add(&input->targets, path, taking->op);
}

static int take_paths_of(struct hook_input *input, const cJSON *arguments,
			 const char *key, const struct taking *taking,
			 char **message)
{
	const cJSON *item, *element;
	int r = find(arguments, key, &item, message);

	if (r < 0 || !item || cJSON_IsNull(item))
		return r;
	if (!cJSON_IsArray(item))
		return take_path(input, item, key, taking, message);
	cJSON_ArrayForEach(element, item)
	{
		r = take_path(input, element, key, taking, message);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_paths(struct hook_input *input, const cJSON *arguments,
		      const struct taking *taking, char **message)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(path_keys); i++)
		r = take_paths_of(input, arguments, path_keys[i], taking,
				  message);
	for (size_t i = 0;
	     r == 0 && taking->only_absolute && i < ARRAY_SIZE(more_path_keys);
	     i++)
		r = take_paths_of(input, arguments, more_path_keys[i], taking,
				  message);
	return r;
}

/* A file tool that names no file isn't one that we know. */
static int take_file(struct hook_input *input, const cJSON *arguments,
		     enum policy_op op, char **message)
{
	const struct taking taking = {.op = op};
	int r = take_paths(input, arguments, &taking, message);

	if (r == 0 && op != OP_READ && input->targets.n == 0)
		return explain(-EINVAL, message,
			       "the hook's input is malformed: a file tool "
			       "without a path");
	return r;
}

static int take_shell(struct hook_input *input, const cJSON *arguments,
		      char **message)
{
	static const char *const command_keys[] = {"command", "cmd", NULL};
	static const char *const directory_keys[] = {
		"workdir", "directory", "dir_path", "cwd", "working_directory",
	};
	int r = get_command(arguments, command_keys, &input->command, message);

	for (size_t i = 0;
	     r == 0 && !input->directory && i < ARRAY_SIZE(directory_keys); i++)
		r = get_copy(arguments, directory_keys[i], &input->directory,
			     message);
	return r;
}

static int take_patch(struct hook_input *input, const cJSON *arguments,
		      char **message)
{
	static const char *const keys[] = {"command", "input", "patch", NULL};
	autofree char *patch = NULL;
	int r = get_command(arguments, keys, &patch, message);

	if (r < 0)
		return r;
	r = patch ? hook_patch_targets(patch, MAX_TARGETS, &input->targets)
		  : -EINVAL;
	if (r == -EINVAL)
		return explain(r, message,
			       "the hook's input is malformed: a patch that "
			       "names no files");
	if (r == -E2BIG)
		return explain(-EINVAL, message,
			       "the patch names more than %d files",
			       MAX_TARGETS);
	return r;
}

static bool sounds_changing(const char *tool)
{
	for (size_t i = 0; i < ARRAY_SIZE(changing_words); i++)
		if (strcasestr(tool, changing_words[i]))
			return true;
	return false;
}

static int take_unknown(struct hook_input *input, const char *tool,
			const cJSON *arguments, char **message)
{
	const struct taking taking = {
		.op = sounds_changing(tool) ? OP_WRITE : OP_READ,
		.only_absolute = true,
	};

	return take_paths(input, arguments, &taking, message);
}

static int take_kind(struct hook_input *input, enum tool_kind kind,
		     const cJSON *arguments, char **message)
{
	switch (kind) {
	case TOOL_WRITE:
		return take_file(input, arguments, OP_WRITE, message);
	case TOOL_REMOVE:
		return take_file(input, arguments, OP_REMOVE, message);
	case TOOL_READ:
		return take_file(input, arguments, OP_READ, message);
	case TOOL_SHELL:
		return take_shell(input, arguments, message);
	case TOOL_PATCH:
		return take_patch(input, arguments, message);
	}
	return -EINVAL;
}

static int take_tool(struct hook_input *input, const char *tool,
		     const cJSON *arguments, char **message)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (strcasecmp(tools[i].name, tool) == 0)
			return take_kind(input, tools[i].kind, arguments,
					 message);
	return take_unknown(input, tool, arguments, message);
}

/* Arguments are an object; Copilot hands them in as JSON text. */
static int take_arguments(struct hook_input *input, const char *tool,
			  const cJSON *item, char **message)
{
	cJSON *parsed = NULL;
	int r;

	if (cJSON_IsString(item))
		item = parsed = cJSON_ParseWithOpts(item->valuestring, NULL, 1);
	if (cJSON_IsObject(item))
		r = take_tool(input, tool, item, message);
	else
		r = malformed(message, "tool_input");
	cJSON_Delete(parsed);
	return r;
}

/* One of two spellings; both at once can be read in two ways. */
static int find_either(const cJSON *root, const char *one, const char *other,
		       const cJSON **ret_item, char **message)
{
	const cJSON *second = NULL;
	int r = find(root, one, ret_item, message);

	if (r == 0)
		r = find(root, other, &second, message);
	if (r == 0 && *ret_item && second)
		return malformed(message, other);
	if (r == 0 && second)
		*ret_item = second;
	return r;
}

/* A call without a tool: Cursor's beforeShellExecution and beforeReadFile. */
static int take_toolless(struct hook_input *input, const cJSON *root,
			 const char *event, char **message)
{
	bool reads = event && strcmp(event, "beforeReadFile") == 0;
	const struct taking taking = {.op = reads ? OP_READ : OP_WRITE};
	int r = take_shell(input, root, message);

	free(input->directory);
	input->directory = NULL;
	return r < 0 ? r
		     : take_paths_of(input, root, "file_path", &taking,
				     message);
}

static int take_call(struct hook_input *input, const cJSON *root,
		     const char *event, char **message)
{
	const cJSON *tool = NULL, *arguments = NULL;
	int r = find_either(root, "tool_name", "toolName", &tool, message);

	if (r == 0)
		r = find_either(root, "tool_input", "toolArgs", &arguments,
				message);
	if (r < 0)
		return r;
	if (!tool && !arguments)
		return take_toolless(input, root, event, message);
	if (!cJSON_IsString(tool) || !tool->valuestring[0] ||
	    !is_sound(tool->valuestring))
		return malformed(message, "tool_name");
	return take_arguments(input, tool->valuestring, arguments, message);
}

/*
 * The whole.
 */

static bool has(const cJSON *root, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(root, key);
}

static enum hook_format guess_format(const cJSON *root, const char *event)
{
	if (has(root, "cursor_version") || has(root, "conversation_id"))
		return HOOK_CURSOR;
	if (has(root, "toolName"))
		return HOOK_COPILOT;
	if (event && strcmp(event, "BeforeTool") == 0)
		return HOOK_GEMINI;
	return has(root, "turn_id") ? HOOK_CODEX : HOOK_CLAUDE;
}

static bool names_a_call(const cJSON *root)
{
	static const char *const keys[] = {
		"tool_name", "tool_input", "toolName",
		"toolArgs",  "command",	   "file_path",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (has(root, keys[i]))
			return true;
	return false;
}

/* What speaks of a tool is judged, whatever its event is called. */
static int take_event(struct hook_input *input, const cJSON *root,
		      const char *event, char **message)
{
	input->event = HOOK_OTHER;
	for (size_t i = 0; event && i < ARRAY_SIZE(events); i++)
		if (strcmp(events[i].name, event) == 0)
			input->event = events[i].event;
	if (names_a_call(root))
		input->event = HOOK_CALL;
	if (input->event == HOOK_CALL)
		return names_a_call(root)
			       ? take_call(input, root, event, message)
			       : malformed(message, "tool_name");
	return event ? 0 : malformed(message, "hook_event_name");
}

static int take_roots(struct hook_input *input, const cJSON *root,
		      char **message)
{
	const cJSON *roots = NULL, *item;
	int r = find(root, "workspace_roots", &roots, message);

	if (r < 0)
		return r;
	if (roots && !cJSON_IsArray(roots) && !cJSON_IsNull(roots))
		return malformed(message, "workspace_roots");
	cJSON_ArrayForEach(item, roots)
	{
		const char *path = cJSON_GetStringValue(item);

		if (!path || path[0] != '/' || !is_sound(path))
			return malformed(message, "workspace_roots");
		r = strings_add(&input->places, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_places(struct hook_input *input, const cJSON *root,
		       char **message)
{
	const char *cwd = NULL;
	int r = get(root, "cwd", &cwd, message);

	if (r < 0)
		return r;
	/* Empty in some builds of Cursor. */
	if (cwd && cwd[0] && cwd[0] != '/')
		return malformed(message, "cwd");
	if (cwd && cwd[0])
		r = strings_add(&input->places, cwd);
	return r < 0 ? r : take_roots(input, root, message);
}

static int take_worktree(struct hook_input *input, const cJSON *root,
			 char **message)
{
	int r = get_copy(root, "worktree_name", &input->name, message);

	if (r == 0)
		r = get_copy(root, "name", &input->name, message);
	if (r == 0)
		r = get_copy(root, "worktree_path", &input->worktree_path,
			     message);
	return r < 0 ? r : get_copy(root, "reason", &input->reason, message);
}

static int take_all(struct hook_input *input, const cJSON *root,
		    const enum hook_format *format, char **message)
{
	const char *event = NULL;
	int r;

	if (!cJSON_IsObject(root))
		return explain(-EINVAL, message,
			       "the hook's input isn't a JSON object");
	r = get(root, "hook_event_name", &event, message);
	if (r < 0)
		return r;
	input->format = format ? *format : guess_format(root, event);
	r = take_places(input, root, message);
	if (r == 0)
		r = take_event(input, root, event, message);
	if (r == 0 && (input->event == HOOK_WORKTREE_CREATE ||
		       input->event == HOOK_WORKTREE_REMOVE ||
		       input->event == HOOK_SESSION_END))
		r = take_worktree(input, root, message);
	return r;
}

int hook_input_parse(char *text, size_t size, const enum hook_format *format,
		     struct hook_input *ret_input, char **message)
{
	struct hook_input input = {0};
	cJSON *root;
	int r;

	if (strlen(text) != size || !mend_text(text))
		return explain(-EINVAL, message,
			       "the hook's input isn't JSON text");
	root = cJSON_ParseWithOpts(text, NULL, 1);
	r = take_all(&input, root, format, message);
	cJSON_Delete(root);
	if (r < 0) {
		hook_input_release(&input);
		return r;
	}
	*ret_input = input;
	return 0;
}

/*
 * Answers.
 */

static cJSON *context_object(enum hook_format format, const char *text)
{
	cJSON *root = cJSON_CreateObject(), *inner;

	if (format == HOOK_CURSOR) {
		cJSON_AddStringToObject(root, "additional_context", text);
		return root;
	}
	inner = cJSON_AddObjectToObject(root, "hookSpecificOutput");
	cJSON_AddStringToObject(inner, "hookEventName", "SessionStart");
	cJSON_AddStringToObject(inner, "additionalContext", text);
	return root;
}

char *hook_context(enum hook_format format, const char *text)
{
	cJSON *object;
	char *answer;

	if (format == HOOK_CLAUDE || format == HOOK_CODEX)
		return strdup(text);
	object = context_object(format, text);
	answer = object ? cJSON_PrintUnformatted(object) : NULL;
	cJSON_Delete(object);
	return answer;
}

/*
 * Only Cursor's: elsewhere an answer that allows is an error, or takes the
 * user's own confirmation away.
 */
char *hook_answer(enum hook_format format, const char *why, const char *twin)
{
	autofree char *advice = NULL;
	cJSON *object;
	char *answer;

	if (format != HOOK_CURSOR)
		return NULL;
	if (why && twin && asprintf(&advice, "%s; use '%s'", why, twin) < 0)
		advice = NULL;
	object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "permission", why ? "deny" : "allow");
	if (why) {
		cJSON_AddStringToObject(object, "user_message", why);
		cJSON_AddStringToObject(object, "agent_message",
					advice ? advice : why);
	}
	answer = object ? cJSON_PrintUnformatted(object) : NULL;
	cJSON_Delete(object);
	return answer;
}

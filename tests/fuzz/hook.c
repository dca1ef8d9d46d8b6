/*
 * Calls that a hook has to deny, spelled in all the ways that JSON and paths
 * allow, and then damaged: none may be let through.
 *
 *   fuzz-hook SEED COUNT    so many calls; the same seed gives the same ones
 *   fuzz-hook FILE...       inputs as they are: they only must not crash it
 *
 * Ends with 0, or with 1 and the input on stdout that was let through.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/hook_rules.h"

/* Nothing there exists: what is asked is the text alone. */
#define TOP "/fuzz-hook.d"
#define MAIN TOP "/main"
#define WORKTREE MAIN "/wt"

static uint64_t state;

static unsigned int pick(unsigned int n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned int)((state >> 20) % n);
}

/* One in n. */
static bool one_in(unsigned int n)
{
	return pick(n) == 0;
}

/*
 * The text of a call, and which of its bytes must stay as they are.
 */
struct text {
	char bytes[1u << 16];
	bool fixed[1u << 16];
	size_t n;
};

static void put_byte(struct text *text, char c, bool fixed)
{
	if (text->n + 1 >= sizeof(text->bytes))
		abort();
	text->bytes[text->n] = c;
	text->fixed[text->n++] = fixed;
	text->bytes[text->n] = '\0';
}

static void put(struct text *text, const char *s)
{
	while (*s)
		put_byte(text, *s++, false);
}

static void put_fixed(struct text *text, const char *s)
{
	while (*s)
		put_byte(text, *s++, true);
}

static void put_space(struct text *text)
{
	while (one_in(8))
		put_byte(text, " \t\n\r"[pick(4)], false);
}

/* A string in quotes, its characters escaped or not. */
static void put_string(struct text *text, const char *s, bool fixed)
{
	put_byte(text, '"', fixed);
	for (; *s; s++) {
		char escape[8];
		const char *e = escape;

		if (*s == '"' || *s == '\\' || (*s == '/' && one_in(16)))
			snprintf(escape, sizeof(escape), "\\%c", *s);
		else if ((unsigned char)*s < 0x20 ||
			 ((unsigned char)*s < 0x80 && one_in(12)))
			snprintf(escape, sizeof(escape),
				 one_in(2) ? "\\u%04x" : "\\u%04X",
				 (unsigned int)(unsigned char)*s);
		else
			snprintf(escape, sizeof(escape), "%c", *s);
		while (*e)
			put_byte(text, *e++, fixed);
	}
	put_byte(text, '"', fixed);
}

/*
 * Paths.
 */

static void add(char *path, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void add(char *path, const char *format, ...)
{
	size_t n = strlen(path);
	va_list args;

	va_start(args, format);
	vsnprintf(path + n, 1024 - n, format, args);
	va_end(args);
}

static void add_detour(char *path)
{
	switch (pick(6)) {
	case 0:
		add(path, "/");
		break;
	case 1:
		add(path, "./");
		break;
	case 2:
		add(path, "d%u/../", pick(100));
		break;
	default:
		break;
	}
}

static void add_steps(char *path, const char *steps)
{
	while (*steps) {
		size_t n = strcspn(steps, "/");

		add_detour(path);
		add(path, "%.*s", (int)n, steps);
		steps += n;
		if (*steps) {
			add(path, "/");
			steps++;
		}
	}
}

/* Something in the main checkout, and neither in the worktree nor in .git. */
static void make_path(char *path, bool absolute)
{
	static const char *const names[] = {
		"src/a.c",	"README.md", "wtx/y", "w",
		"a b/\303\244", ".gitx",     "wt2",   ".git/hooks/post-commit",
		"d/\377\376",
	};
	const char *name = names[pick(sizeof(names) / sizeof(names[0]))];

	path[0] = '\0';
	if (one_in(8))
		add(path, one_in(2) ? " " : "\t");
	else if (one_in(12))
		add(path, "file://");
	switch (path[0] == 'f' ? pick(2) : pick(absolute ? 2 : 4)) {
	case 0:
		add(path, "/");
		add_steps(path, MAIN + 1);
		break;
	case 1:
		add(path, "/");
		add_steps(path, WORKTREE "/.." + 1);
		break;
	case 2:
		add(path, "..");
		break;
	case 3:
		add(path, "~");
		add(path, "/main");
		break;
	}
	add(path, "/");
	add_steps(path, name);
	if (one_in(8))
		add(path, one_in(2) ? "\n" : "/");
}

/*
 * Calls.
 */

enum shape {
	SHAPE_PATH,
	SHAPE_PATCH,
};

static const struct tool {
	const char *event, *name, *key;
	enum shape shape;
} tools[] = {
	{"PreToolUse", "Write", "file_path", SHAPE_PATH},
	{"PreToolUse", "Edit", "file_path", SHAPE_PATH},
	{"PreToolUse", "MultiEdit", "file_path", SHAPE_PATH},
	{"PreToolUse", "NotebookEdit", "notebook_path", SHAPE_PATH},
	{"PreToolUse", "apply_patch", "command", SHAPE_PATCH},
	{"BeforeTool", "write_file", "file_path", SHAPE_PATH},
	{"BeforeTool", "replace", "file_path", SHAPE_PATH},
	{"preToolUse", "Write", "path", SHAPE_PATH},
	{"preToolUse", "Delete", "file_path", SHAPE_PATH},
};

static void make_patch(char *patch, size_t size, const char *path)
{
	static const char *const headers[] = {
		"*** Add File: ",
		"*** Update File: ",
		"*** Delete File: ",
		"*** Update File: ok\n*** Move to: ",
	};

	snprintf(patch, size, "*** Begin Patch\n%s%s%s\n+x\n*** End Patch\n",
		 one_in(2) ? "*** Add File: ok\n+y\n" : "", headers[pick(4)],
		 path + strspn(path, " \t"));
}

/* Members that mean nothing, and look as if they did. */
static void put_noise(struct text *text)
{
	static const char *const values[] = {
		"null",
		"true",
		"-1.5e3",
		"[]",
		"{}",
		"[{\"tool_name\":\"Read\"},\"x\"]",
		"\"\"",
		"{\"file_path\":\"" WORKTREE "/x\"}",
		"\"\\\",\\\"tool_name\\\":\\\"Read\"",
		"\"\\ud83d\\ude00\\udc00\\u0000\"",
	};
	char key[32];

	while (one_in(3)) {
		snprintf(key, sizeof(key), "noise%u", pick(1000));
		put_string(text, key, false);
		put(text, ":");
		put_space(text);
		put(text, values[pick(sizeof(values) / sizeof(values[0]))]);
		put(text, ",");
		put_space(text);
	}
}

static void put_arguments(struct text *text, const struct tool *tool,
			  const char *path)
{
	char patch[4096];

	put(text, "{");
	put_noise(text);
	put_string(text, tool->key, false);
	put_space(text);
	put(text, ":");
	put_space(text);
	if (tool->shape == SHAPE_PATCH) {
		make_patch(patch, sizeof(patch), path);
		put_string(text, patch, true);
	} else {
		put_string(text, path, true);
	}
	put(text, ",");
	put_noise(text);
	put(text, "\"content\":\"x\"}");
}

static void put_member(struct text *text, unsigned int which,
		       const struct tool *tool, const char *path)
{
	switch (which) {
	case 0:
		/* Of another event's name, it may be no call at all. */
		put_fixed(text, "\"hook_event_name\":");
		put_string(text, tool->event, true);
		break;
	case 1:
		put(text, "\"tool_name\":");
		put_string(text, tool->name, true);
		break;
	case 2:
		put(text, "\"tool_input\" :");
		put_arguments(text, tool, path);
		break;
	case 3:
		put(text, "\"cwd\":");
		put_string(text, WORKTREE, false);
		break;
	case 4:
		put(text, one_in(2) ? "\"turn_id\":\"t\""
				    : "\"conversation_id\":\"c\"");
		break;
	}
	put_space(text);
}

/* The five members in any order, with noise between. */
static void make_call(struct text *text, bool absolute)
{
	const struct tool *tool = &tools[pick(sizeof(tools) / sizeof(*tools))];
	unsigned int left = 5, order[5] = {0, 1, 2, 3, 4};
	char path[1024];

	make_path(path, absolute);
	text->n = 0;
	put_space(text);
	put(text, "{");
	while (left > 0) {
		unsigned int i = pick(left);

		put_space(text);
		put_noise(text);
		put_member(text, order[i], tool, path);
		order[i] = order[--left];
		if (left > 0)
			put(text, ",");
	}
	put(text, "}");
	put_space(text);
}

/* Changes, doubles or drops a byte that isn't fixed. */
static void damage(struct text *text)
{
	size_t at = pick((unsigned int)text->n);

	if (text->fixed[at])
		return;
	switch (pick(4)) {
	case 0:
		text->bytes[at] = (char)pick(256);
		break;
	case 1:
		text->bytes[at] = "\"\\{}[]:,"[pick(8)];
		break;
	case 2:
		memmove(text->bytes + at, text->bytes + at + 1, text->n - at);
		memmove(text->fixed + at, text->fixed + at + 1, text->n - at);
		text->n--;
		break;
	case 3:
		text->n = at;
		text->bytes[at] = '\0';
		break;
	}
}

/*
 * Verdicts.
 */

enum verdict {
	ALLOWED,
	DENIED,
	NO_VERDICT,
};

static enum verdict ask(const struct hook_rules *rules, const char *bytes,
			size_t n)
{
	autofree char *message = NULL, *copy = malloc(n + 1);
	struct hook_denial denial = {0};
	struct hook_input input = {0};
	int r;

	if (!copy)
		abort();
	memcpy(copy, bytes, n);
	copy[n] = '\0';
	r = hook_input_parse(copy, n, NULL, &input, &message);
	if (r == 0)
		r = hook_rules_judge(rules, &input, &denial, &message);
	hook_denial_release(&denial);
	hook_input_release(&input);
	return r < 0 ? NO_VERDICT : r == 0 ? DENIED : ALLOWED;
}

static int complain(const char *what, const struct text *text)
{
	fprintf(stderr, "fuzz-hook: %s:\n", what);
	fwrite(text->bytes, 1, text->n, stdout);
	return 1;
}

static int run(const struct hook_rules *rules, unsigned long count)
{
	static struct text text;

	for (unsigned long i = 0; i < count; i++) {
		make_call(&text, false);
		if (ask(rules, text.bytes, text.n) != DENIED)
			return complain("not denied", &text);
		make_call(&text, true);
		do
			damage(&text);
		while (text.n > 0 && !one_in(3));
		if (ask(rules, text.bytes, text.n) == ALLOWED)
			return complain("let through", &text);
	}
	return 0;
}

static int replay(const struct hook_rules *rules, const char *name)
{
	static struct text text;
	FILE *file = fopen(name, "re");

	if (!file) {
		perror(name);
		return 1;
	}
	text.n = fread(text.bytes, 1, sizeof(text.bytes), file);
	fclose(file);
	ask(rules, text.bytes, text.n);
	return 0;
}

static void add_rule(struct session_spec *spec, const char *path,
		     enum access access)
{
	char reason[] = "a test";
	autofree char *copy = strdup(path);

	if (!copy ||
	    rules_add(&spec->rules, &(struct rule){.path = copy,
						   .access = access,
						   .reason = reason}) < 0)
		abort();
}

static void make_rules(struct hook_rules *rules, struct record *record)
{
	struct session_spec *spec = &record->spec;

	record_init(record);
	spec->name = strdup("fuzz");
	spec->tier = TIER_ENFORCED;
	spec->main = strdup(MAIN);
	spec->worktree = strdup(WORKTREE);
	spec->git_dir = strdup(MAIN "/.git");
	if (session_spec_add_view(spec, MAIN, MAIN) < 0)
		abort();
	add_rule(spec, MAIN, ACCESS_RO);
	add_rule(spec, WORKTREE, ACCESS_RW);
	add_rule(spec, MAIN "/.git", ACCESS_RW);
	add_rule(spec, MAIN "/.git/hooks", ACCESS_RO);
	rules->sessions = record;
	rules->n_sessions = 1;
}

int main(int argc, char **argv)
{
	struct hook_rules rules = {0};
	struct record record;
	int status = 0;

	setenv("HOME", TOP, 1);
	make_rules(&rules, &record);
	if (argc == 3 && isdigit((unsigned char)argv[1][0])) {
		state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
		status = run(&rules, strtoul(argv[2], NULL, 10));
	} else {
		for (int i = 1; i < argc; i++)
			status |= replay(&rules, argv[i]);
	}
	record_release(&record);
	return status;
}

/*
 * The hook's verdicts: payloads in the shape that each harness sends them, for
 * a repository with a worktree in a directory of the test's own. In payloads
 * and expected twins "@" is that directory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/hook_rules.h"

static char *base;

static char *at(const char *text)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	cr_assert_not_null(f);
	for (; *text; text++) {
		if (*text == '@')
			fputs(base, f);
		else
			fputc(*text, f);
	}
	cr_assert_eq(fclose(f), 0);
	return out;
}

static void sh(const char *words)
{
	autofree char *command = NULL;

	cr_assert_gt(asprintf(&command, "set -e; cd '%s'; %s", base, words), 0);
	cr_assert_eq(system(command), 0, "%s", words);
}

static void set_up(void)
{
	char template[] = "/var/tmp/test-hook-XXXXXX";

	cr_assert_not_null(mkdtemp(template));
	base = realpath(template, NULL);
	setenv("HOME", base, 1);
	unsetenv("TMPDIR");
	unsetenv("WORKTREEFS_SESSION");
	unsetenv("NAVARCH_GUARD_EXTRA_ROOTS");
	sh("mkdir -p main/.git/hooks main/src main/wt/src main/secret other;"
	   "echo >main/src/a.c; echo >main/wt/src/a.c;"
	   "echo gitdir: x >main/wt/.git; ln -s ../src main/wt/out;"
	   "ln -s ../main other/back; ln -s nowhere main/wt/dangling;"
	   "ln -s ../wt main/src/in");
	cr_assert_eq(chdir(base), 0);
}

static void tear_down(void)
{
	cr_assert_eq(chdir("/"), 0);
	sh("rm -rf '../'\"${PWD##*/}\"");
	free(base);
}

TestSuite(hook, .init = set_up, .fini = tear_down);

/*
 * Rules.
 */

static void add_rule(struct rules *rules, const char *path, enum access access,
		     enum judge judge)
{
	autofree char *whole = at(path);
	char reason[] = "a test";

	cr_assert_eq(rules_add(rules, &(struct rule){.path = whole,
						     .access = access,
						     .judge = judge,
						     .reason = reason}),
		     0);
}

/* A session of the worktree; of tier view where it is seen elsewhere. */
static void add_session(struct hook_rules *rules, const char *view)
{
	struct record *record = calloc(1, sizeof(*record));
	autofree char *root = at("@/main");
	autofree char *seen = view ? at(view) : strdup(root);
	struct session_spec *spec;

	cr_assert_not_null(record);
	record_init(record);
	spec = &record->spec;
	spec->name = strdup("wt");
	spec->tier = view ? TIER_VIEW : TIER_ENFORCED;
	spec->main = at("@/main");
	spec->git_dir = at("@/main/.git");
	spec->worktree = at("@/main/wt");
	cr_assert_eq(session_spec_add_view(spec, root, seen), 0);
	add_rule(&spec->rules, "@/main", ACCESS_RO, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/wt", ACCESS_RW, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/wt/.git", ACCESS_RO, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/.git", ACCESS_RW, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/.git/hooks", ACCESS_RO, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/.git/config", ACCESS_RW, JUDGE_CONFIG);
	add_rule(&spec->rules, "@/main/shared/plans", ACCESS_RW, JUDGE_NONE);
	add_rule(&spec->rules, "@/main/secret", ACCESS_NONE, JUDGE_NONE);
	rules->sessions = record;
	rules->n_sessions = 1;
}

enum verdict {
	ALLOWED,
	DENIED,
	NO_VERDICT,
};

/* Copies: the text is changed by reading it. */
static enum verdict ask(const struct hook_rules *rules, const char *text,
			size_t size, char **ret_twin)
{
	autofree char *message = NULL;
	struct hook_input input = {0};
	struct hook_denial denial = {0};
	autofree char *copy = malloc(size + 1);
	int r;

	cr_assert_not_null(copy);
	memcpy(copy, text, size);
	copy[size] = '\0';
	r = hook_input_parse(copy, size, NULL, &input, &message);
	if (r == 0)
		r = hook_rules_judge(rules, &input, &denial, &message);
	if (r == 0) {
		cr_expect_not_null(denial.why, "%s", text);
		if (ret_twin)
			*ret_twin = steal_pointer(&denial.twin);
	}
	if (r < 0)
		cr_expect_not_null(message, "%s", text);
	hook_denial_release(&denial);
	hook_input_release(&input);
	return r < 0 ? NO_VERDICT : r == 0 ? DENIED : ALLOWED;
}

static void expect(const struct hook_rules *rules, const char *payload,
		   enum verdict verdict, const char *twin)
{
	autofree char *text = at(payload), *got = NULL;
	autofree char *wanted = twin ? at(twin) : NULL;

	cr_expect_eq(ask(rules, text, strlen(text), &got), verdict, "%s", text);
	if (wanted)
		cr_expect_str_eq(got ? got : "none", wanted, "%s", text);
	else if (got)
		cr_expect_fail("%s has the twin %s", text, got);
}

/*
 * What each harness sends.
 */

#define CLAUDE(tool, input)                                                 \
	"{\"session_id\":\"s\",\"transcript_path\":\"/t\",\"cwd\":"         \
	"\"@/main/wt\",\"permission_mode\":\"default\",\"hook_event_name\"" \
	":\"PreToolUse\",\"tool_name\":\"" tool                             \
	"\",\"tool_use_id\":\"u\",\"tool_input\":{" input "}}"
#define CODEX(tool, input)                                                       \
	"{\"session_id\":\"s\",\"turn_id\":\"t\",\"model\":\"m\",\"cwd\":"       \
	"\"@/main/wt\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"" tool \
	"\",\"tool_input\":{" input "}}"
#define GEMINI(tool, input)                                                \
	"{\"session_id\":\"s\",\"cwd\":\"@/main/wt\",\"hook_event_name\":" \
	"\"BeforeTool\",\"timestamp\":\"2026\",\"tool_name\":\"" tool      \
	"\",\"tool_input\":{" input "}}"
#define CURSOR(tool, input)                                                 \
	"{\"conversation_id\":\"c\",\"cursor_version\":\"2\",\"cwd\":\"\"," \
	"\"workspace_roots\":[\"@/main/wt\"],\"hook_event_name\":"          \
	"\"preToolUse\",\"tool_name\":\"" tool "\",\"tool_input\":{" input  \
	"}}"
#define COPILOT(tool, input)                                          \
	"{\"timestamp\":1,\"cwd\":\"@/main/wt\",\"toolName\":\"" tool \
	"\",\"toolArgs\":\"{" input "}\"}"
#define EVENT(name, rest) \
	"{\"hook_event_name\":\"" name "\",\"cwd\":\"@/main/wt\"" rest "}"

#define FILE_PATH(path) "\"file_path\":\"" path "\",\"content\":\"x\""
#define PATCH(lines) "\"command\":\"*** Begin Patch\\n" lines "*** End Patch\""

#define TWIN "@/main/wt/src/a.c"

static const struct payload {
	const char *text;
	enum verdict verdict;
	const char *twin;
} payloads[] = {
	/* Claude Code */
	{CLAUDE("Write", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("@/main/wt/src/a.c")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/new/deep/b")), DENIED,
	 "@/main/wt/new/deep/b"},
	{CLAUDE("Write", FILE_PATH("@/main/wt/new/deep/b")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("@/other/x")), ALLOWED, NULL},
	{CLAUDE("Edit", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("MultiEdit", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("NotebookEdit", "\"notebook_path\":\"@/main/src/a.c\""), DENIED,
	 TWIN},
	{CLAUDE("NotebookEdit", "\"notebook_path\":\"@/main/wt/n\""), ALLOWED,
	 NULL},
	{CLAUDE("Read", FILE_PATH("@/main/src/a.c")), ALLOWED, NULL},
	{CLAUDE("Read", FILE_PATH("@/main/secret/key")), DENIED,
	 "@/main/wt/secret/key"},
	{CLAUDE("Glob", "\"pattern\":\"*\""), ALLOWED, NULL},
	{CLAUDE("Grep", "\"pattern\":\"x\",\"path\":\"@/main\""), ALLOWED,
	 NULL},
	{CLAUDE("LS", "\"path\":\"@/main/secret\""), DENIED,
	 "@/main/wt/secret"},
	{CLAUDE("Bash", "\"command\":\"echo >@/main/src/a.c\""), ALLOWED, NULL},
	{CLAUDE("TodoWrite", "\"todos\":[]"), ALLOWED, NULL},
	{CLAUDE("mcp__fs__write_file", "\"path\":\"@/main/src/a.c\""), DENIED,
	 TWIN},
	{CLAUDE("mcp__fs__move_file",
		"\"source\":\"@/main/wt/x\",\"destination\":\"@/main/x\""),
	 DENIED, "@/main/wt/x"},
	{CLAUDE("mcp__fs__read_file", "\"path\":\"@/main/src/a.c\""), ALLOWED,
	 NULL},
	{CLAUDE("mcp__hub__update_file", "\"path\":\"src/a.c\""), ALLOWED,
	 NULL},
	/* The git directory, shared directories, rules' own names */
	{CLAUDE("Write", FILE_PATH("@/main/.git/hooks/post-commit")), DENIED,
	 NULL},
	{CLAUDE("Write", FILE_PATH("@/main/.git/config")), DENIED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/wt/.git")), DENIED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/shared/plans/a.md")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/shared/a.md")), DENIED,
	 "@/main/wt/shared/a.md"},
	/* By other spellings */
	{CLAUDE("Write", FILE_PATH("../src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("src/../../src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("@/main/wt/../src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("@//main/./src//a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("@/main/wt/out/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("out/../b")), DENIED, "@/main/wt/b"},
	{CLAUDE("Write", FILE_PATH("@/other/back/src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("@/main/src/in/src/a.c")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("~/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH(" @/main/src/a.c\\n")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("file://@/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", FILE_PATH("/proc/self/root@/main/src/a.c")), DENIED,
	 NULL},
	{CLAUDE("Write", FILE_PATH("@/main/wt/dangling")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/src/\\udcff")), DENIED,
	 "@/main/wt/src/\377"},
	{CLAUDE("Write", FILE_PATH("@/main/src/\377")), DENIED,
	 "@/main/wt/src/\377"},
	{CLAUDE("Write", FILE_PATH("@/main/wt/\\udcff")), ALLOWED, NULL},
	/* Codex */
	{CODEX("apply_patch",
	       PATCH("*** Update File: ../src/a.c\\n@@\\n-x\\n")),
	 DENIED, TWIN},
	{CODEX("apply_patch", PATCH("*** Update File: src/a.c\\n@@\\n-x\\n")),
	 ALLOWED, NULL},
	{CODEX("apply_patch", PATCH("*** Add File: ok\\n+x\\n*** Delete File: "
				    "@/main/src/a.c\\n")),
	 DENIED, TWIN},
	{CODEX("apply_patch",
	       PATCH("*** Update File: src/a.c\\n*** Move to: out/a.c\\n")),
	 DENIED, TWIN},
	{CODEX("apply_patch", PATCH("*** Add File: ok\\n+*** Delete File: "
				    "../src/a.c\\n")),
	 ALLOWED, NULL},
	{CODEX("apply_patch", PATCH("  *** Add File:   ../b  \\r\\n+\\n")),
	 DENIED, "@/main/wt/b"},
	{CODEX("apply_patch", PATCH("nothing\\n")), NO_VERDICT, NULL},
	{CODEX("apply_patch", "\"other\":1"), NO_VERDICT, NULL},
	{CODEX("apply_patch", PATCH("*** Add File: a\\u0000b\\n+x\\n")),
	 NO_VERDICT, NULL},
	{CODEX("apply_patch", PATCH("*** Add File: a\\n+x\\u0000\\n")), ALLOWED,
	 NULL},
	{CODEX("Bash", "\"command\":\"printf \\u0001\""), ALLOWED, NULL},
	{CODEX("Bash", "\"command\":\"touch ../x\""), ALLOWED, NULL},
	{CODEX("Bash", "\"command\":[\"touch\",\"../x\"]"), ALLOWED, NULL},
	{CODEX("mcp__fs__edit", "\"path\":\"@/main/src/a.c\""), DENIED, TWIN},
	/* Gemini CLI */
	{GEMINI("write_file", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{GEMINI("write_file", FILE_PATH("@/main/wt/a")), ALLOWED, NULL},
	{GEMINI("replace", FILE_PATH("../src/a.c")), DENIED, TWIN},
	{GEMINI("replace", FILE_PATH("src/a.c")), ALLOWED, NULL},
	{GEMINI("read_file", FILE_PATH("@/main/secret/x")), DENIED,
	 "@/main/wt/secret/x"},
	{GEMINI("read_many_files", "\"paths\":[\"a\",\"@/main/secret/x\"]"),
	 DENIED, "@/main/wt/secret/x"},
	{GEMINI("run_shell_command", "\"command\":\"ls\""), ALLOWED, NULL},
	/* Cursor */
	{CURSOR("Write", "\"path\":\"@/main/src/a.c\""), DENIED, TWIN},
	{CURSOR("Write", FILE_PATH("../src/a.c")), DENIED, TWIN},
	{CURSOR("Write", FILE_PATH("src/a.c")), ALLOWED, NULL},
	{CURSOR("Delete", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{CURSOR("Delete", FILE_PATH("@/main/wt/src/a.c")), ALLOWED, NULL},
	{CURSOR("Delete", FILE_PATH("@/main/wt")), DENIED, NULL},
	{CURSOR("Shell", "\"command\":\"ls\""), ALLOWED, NULL},
	{"{\"conversation_id\":\"c\",\"hook_event_name\":"
	 "\"beforeShellExecution\",\"command\":\"ls\",\"cwd\":\"@/main/wt\"}",
	 ALLOWED, NULL},
	{"{\"conversation_id\":\"c\",\"hook_event_name\":\"beforeReadFile\","
	 "\"file_path\":\"@/main/secret/x\",\"cwd\":\"@/main/wt\"}",
	 DENIED, "@/main/wt/secret/x"},
	{CURSOR("Read", "\"path\":\"@/main/secret/x\""), DENIED,
	 "@/main/wt/secret/x"},
	{CURSOR("Grep", "\"pattern\":\"x\",\"path\":\"@/main/src\""), ALLOWED,
	 NULL},
	{CURSOR("edit_file", "\"target_file\":\"@/main/src/a.c\""), DENIED,
	 TWIN},
	{CURSOR("run_terminal_cmd", "\"command\":\"ls\""), ALLOWED, NULL},
	{"{\"conversation_id\":\"c\",\"hook_event_name\":"
	 "\"beforeMCPExecution\",\"tool_name\":\"write_file\",\"tool_input\":"
	 "\"{\\\"path\\\":\\\"@/main/src/a.c\\\"}\",\"cwd\":\"@/main/wt\"}",
	 DENIED, TWIN},
	/* Copilot */
	{COPILOT("edit", "\\\"path\\\":\\\"@/main/src/a.c\\\""), DENIED, TWIN},
	{COPILOT("create", "\\\"path\\\":\\\"@/main/wt/b\\\""), ALLOWED, NULL},
	{COPILOT("bash", "\\\"command\\\":\\\"ls\\\""), ALLOWED, NULL},
	{COPILOT("view", "\\\"path\\\":\\\"@/main/secret/x\\\""), DENIED,
	 "@/main/wt/secret/x"},
	/* The rest of what shells and readers are called */
	{CLAUDE("PowerShell", "\"command\":\"ls\""), ALLOWED, NULL},
	{CLAUDE("Monitor", "\"command\":\"make\""), ALLOWED, NULL},
	{CLAUDE("Glob", "\"pattern\":\"*\",\"path\":\"@/main/secret\""), DENIED,
	 "@/main/wt/secret"},
	{CLAUDE("Edit",
		FILE_PATH(
			"@/main/wt/src/a.c") ",\"old_string\":\"a\",\"new_string\":\"b\""),
	 ALLOWED, NULL},
	{CLAUDE("MultiEdit", FILE_PATH("@/main/wt/src/a.c") ",\"edits\":[]"),
	 ALLOWED, NULL},
	{CODEX("mcp__fs__read", "\"path\":\"@/main/src/a.c\""), ALLOWED, NULL},
	{CODEX("exec_command", "\"cmd\":\"ls\""), ALLOWED, NULL},
	{CODEX("local_shell", "\"command\":[\"ls\"],\"workdir\":\"/\""),
	 ALLOWED, NULL},
	{CODEX("apply_patch", PATCH("*** Delete File: ../src/a.c\\n")), DENIED,
	 TWIN},
	{GEMINI("list_directory", "\"dir_path\":\"@/main/secret\""), DENIED,
	 "@/main/wt/secret"},
	{GEMINI("search_file_content", "\"pattern\":\"x\""), ALLOWED, NULL},
	/* Events that change nothing */
	{EVENT("WorktreeCreate", ",\"name\":\"x\""), ALLOWED, NULL},
	{EVENT("WorktreeCreate", ",\"worktree_name\":\"x\""), ALLOWED, NULL},
	{EVENT("WorktreeRemove", ",\"worktree_path\":\"/x\""), ALLOWED, NULL},
	{EVENT("sessionStart", ",\"conversation_id\":\"c\""), ALLOWED, NULL},
	{EVENT("sessionEnd", ",\"conversation_id\":\"c\""), ALLOWED, NULL},
	{EVENT("SessionStart", ",\"source\":\"startup\""), ALLOWED, NULL},
	{EVENT("SessionEnd", ",\"reason\":\"other\""), ALLOWED, NULL},
	{EVENT("Stop", ""), ALLOWED, NULL},
	{EVENT("UserPromptSubmit", ",\"prompt\":\"hello\""), ALLOWED, NULL},
	/* An event of another name is judged by what it says */
	{EVENT("Another", ",\"tool_name\":\"Write\",\"tool_input\":{"
			  "\"file_path\":\"@/main/src/a.c\"}"),
	 DENIED, TWIN},
};

Test(hook, by_a_session)
{
	struct hook_rules rules = {0};

	add_session(&rules, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(payloads); i++)
		expect(&rules, payloads[i].text, payloads[i].verdict,
		       payloads[i].twin);
	hook_rules_release(&rules);
}

Test(hook, by_a_view_elsewhere)
{
	struct hook_rules rules = {0};

	sh("mkdir -p view/wt/src view/src; ln -s ../src view/wt/out");
	add_session(&rules, "@/view");
	expect(&rules, CLAUDE("Write", FILE_PATH("@/main/src/a.c")), DENIED,
	       "@/view/wt/src/a.c");
	expect(&rules, CLAUDE("Write", FILE_PATH("@/view/src/a.c")), DENIED,
	       "@/view/wt/src/a.c");
	expect(&rules, CLAUDE("Write", FILE_PATH("@/view/wt/src/a.c")), ALLOWED,
	       NULL);
	expect(&rules, CLAUDE("Write", FILE_PATH("@/view/wt/out/a.c")), DENIED,
	       "@/view/wt/src/a.c");
	hook_rules_release(&rules);
}

Test(hook, without_rules)
{
	const struct hook_rules rules = {0};

	expect(&rules, CLAUDE("Write", FILE_PATH("@/main/src/a.c")), ALLOWED,
	       NULL);
	expect(&rules, CLAUDE("Write", ""), NO_VERDICT, NULL);
}

/*
 * Hostile input.
 */

static const struct payload hostile[] = {
	{"", NO_VERDICT, NULL},
	{"   ", NO_VERDICT, NULL},
	{"null", NO_VERDICT, NULL},
	{"[]", NO_VERDICT, NULL},
	{"{}", NO_VERDICT, NULL},
	{"{\"hook_event_name\":\"PreToolUse\"}", NO_VERDICT, NULL},
	{"{\"hook_event_name\":3}", NO_VERDICT, NULL},
	{"{\"tool_name\":\"Write\"}", NO_VERDICT, NULL},
	{"{\"tool_name\":7,\"tool_input\":{}}", NO_VERDICT, NULL},
	{"{\"tool_name\":\"\",\"tool_input\":{}}", NO_VERDICT, NULL},
	{"{\"tool_input\":{\"file_path\":\"@/main/x\"}}", NO_VERDICT, NULL},
	{CLAUDE("Write", "\"content\":\"x\""), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":\"\""), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":\" \""), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":1"), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":{\"a\":\"b\"}"), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":\"wt/x\\u0000\""), NO_VERDICT, NULL},
	{CLAUDE("WRITE", FILE_PATH("@/main/src/a.c")), DENIED, TWIN},
	{CLAUDE("Write", "\"file_path\":\"x\\u00zz\""), NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":\"x\",\"content\":\"\\u00\""),
	 NO_VERDICT, NULL},
	/* What can be read in two ways */
	{CLAUDE("Write", "\"file_path\":\"x\",\"file_path\":\"@/main/x\""),
	 NO_VERDICT, NULL},
	{"{\"hook_event_name\":\"Stop\",\"hook_event_name\":\"PreToolUse\"}",
	 NO_VERDICT, NULL},
	{"{\"tool_name\":\"Read\",\"tool_name\":\"Write\",\"tool_input\":{"
	 "\"file_path\":\"@/main/x\"}}",
	 NO_VERDICT, NULL},
	{"{\"tool_name\":\"Read\",\"toolName\":\"Write\",\"tool_input\":{"
	 "\"file_path\":\"@/main/x\"}}",
	 NO_VERDICT, NULL},
	{CLAUDE("Write", "\"file_path\":\"x\",\"path\":\"@/main/x\""), DENIED,
	 "@/main/wt/x"},
	{"{\"cwd\":\"relative\",\"tool_name\":\"Write\",\"tool_input\":{"
	 "\"file_path\":\"x\"}}",
	 NO_VERDICT, NULL},
	{CLAUDE("Write", FILE_PATH("x")) "{}", NO_VERDICT, NULL},
	{"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Write\","
	 "\"tool_input\":{\"file_path\":\"@/main",
	 NO_VERDICT, NULL},
	/* Halves of pairs in what doesn't matter */
	{CLAUDE("Write", "\"file_path\":\"x\",\"content\":\"\\ud83d \\ude00 "
			 "\\ud83d\\ude00 \\u0000 \\\\u0000\""),
	 ALLOWED, NULL},
};

Test(hook, hostile_input)
{
	struct hook_rules rules = {0};
	autofree char *text = at(CLAUDE("Write", FILE_PATH("x")));

	add_session(&rules, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++)
		expect(&rules, hostile[i].text, hostile[i].verdict,
		       hostile[i].twin);
	/* A NUL in the middle, and at the end */
	text[10] = '\0';
	cr_expect_eq(ask(&rules, text, 100, NULL), NO_VERDICT);
	cr_expect_eq(ask(&rules, "{}", 3, NULL), NO_VERDICT);
	hook_rules_release(&rules);
}

/* However it is cut off or damaged, a denied call is never let through. */
Test(hook, damaged_input)
{
	struct hook_rules rules = {0};
	autofree char *text = at(CLAUDE("Edit", FILE_PATH("@/main/src/a.c")));
	size_t size = strlen(text);

	add_session(&rules, NULL);
	for (size_t i = 0; i < size; i++)
		cr_expect_neq(ask(&rules, text, i, NULL), ALLOWED, "%zu", i);
	hook_rules_release(&rules);
}

Test(hook, long_paths)
{
	struct hook_rules rules = {0};
	autofree char *path = malloc(1u << 20), *whole = NULL;
	autofree char *text = NULL;

	add_session(&rules, NULL);
	memset(path, 'a', (1u << 20) - 1);
	path[(1u << 20) - 1] = '\0';
	cr_assert_gt(asprintf(&whole, CLAUDE("Write", FILE_PATH("%s")), path),
		     0);
	text = at(whole);
	cr_expect_eq(ask(&rules, text, strlen(text), NULL), NO_VERDICT);
	hook_rules_release(&rules);
}

/*
 * By lists.
 */

static void add(struct strings *paths, const char *path)
{
	autofree char *whole = at(path);

	cr_assert_eq(strings_add(paths, whole), 0);
}

Test(hook, by_lists)
{
	struct hook_rules rules = {0};

	add(&rules.list.deny, "@/main");
	add(&rules.list.deny, "@/main/wt/src");
	add(&rules.list.allow, "@/main/wt");
	expect(&rules, CLAUDE("Write", FILE_PATH("@/main/src/a.c")), DENIED,
	       TWIN);
	expect(&rules, CLAUDE("Edit", FILE_PATH("@/main/new")), DENIED,
	       "@/main/wt/new");
	expect(&rules, CLAUDE("Edit", FILE_PATH("@/main/.git/x")), DENIED,
	       NULL);
	expect(&rules, CLAUDE("Edit", FILE_PATH("@/main/wt/src/a.c")), ALLOWED,
	       NULL);
	expect(&rules, CLAUDE("Edit", FILE_PATH("@/mainly")), ALLOWED, NULL);
	expect(&rules, CLAUDE("Read", FILE_PATH("@/main/src/a.c")), ALLOWED,
	       NULL);
	expect(&rules, CLAUDE("Edit", FILE_PATH("out/a.c")), DENIED, TWIN);
	hook_rules_release(&rules);
}

/*
 * By a policy.
 */

#define BASH(command) CLAUDE("Bash", "\"command\":\"" command "\"")

static const struct payload policy_payloads[] = {
	{CLAUDE("Write", FILE_PATH("@/main/wt/x")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("@/main/x")), DENIED, NULL},
	{CLAUDE("Write", FILE_PATH("@/other/x")), DENIED, NULL},
	{CLAUDE("Write", FILE_PATH("/tmp/x")), ALLOWED, NULL},
	{CLAUDE("Write", FILE_PATH("/usr/x")), DENIED, NULL},
	{CLAUDE("Read", FILE_PATH("/usr/x")), ALLOWED, NULL},
	{CLAUDE("Read", FILE_PATH("@/main/x")), DENIED, NULL},
	{CLAUDE("Read", FILE_PATH("/etc/passwd")), DENIED, NULL},
	{BASH("make -j2"), ALLOWED, NULL},
	{BASH("cat src/a.c | wc -l >/dev/null 2>&1"), ALLOWED, NULL},
	{BASH("/usr/bin/make -C @/main/wt"), ALLOWED, NULL},
	{BASH("cat @/main/src/a.c"), DENIED, NULL},
	{BASH("cat '@/main/src/a.c'"), DENIED, NULL},
	{BASH("cat @/ma\\\\in/x"), DENIED, NULL},
	{BASH("cat '@/main'/x"), DENIED, NULL},
	{BASH("sh -c 'cat @/main/x'"), DENIED, NULL},
	{BASH("cat ../src/a.c"), DENIED, NULL},
	{BASH("cat src/../src/a.c"), ALLOWED, NULL},
	{BASH("cat src/../../src/a.c"), DENIED, NULL},
	{BASH("cat out/../a"), DENIED, NULL},
	{BASH("cat ~/x"), DENIED, NULL},
	{BASH("cat ~/main/wt/x"), ALLOWED, NULL},
	{BASH("cat ~root/x"), DENIED, NULL},
	{BASH("cat $HOME/x"), DENIED, NULL},
	{BASH("cat \\\"${HOME}/x\\\""), DENIED, NULL},
	{BASH("cat ${HOME}/main/wt/x"), ALLOWED, NULL},
	{BASH("PATH=/usr/bin:@/main make"), DENIED, NULL},
	{BASH("cc -I@/main/src x.c"), DENIED, NULL},
	{BASH("cc --prefix=@/main x.c"), DENIED, NULL},
	{BASH("cc -I/usr/include x.c"), ALLOWED, NULL},
	{BASH("echo x>@/main/y"), DENIED, NULL},
	{BASH("echo $(cat @/main/y)"), DENIED, NULL},
	{BASH("echo `cat @/main/y`"), DENIED, NULL},
	{BASH("cat {@/main,x}/y"), DENIED, NULL},
	{BASH("curl https://example.invalid/main/x"), ALLOWED, NULL},
	{BASH("curl file://@/main/x"), DENIED, NULL},
	{BASH("echo ok # @/main/x"), ALLOWED, NULL},
	{BASH("cd"), DENIED, NULL},
	{BASH("cd && ls"), DENIED, NULL},
	{BASH("ls; cd -"), DENIED, NULL},
	{BASH("cd src"), ALLOWED, NULL},
	{BASH("cd src && cat ../src/a.c"), ALLOWED, NULL},
	{BASH("cd src && cat ../../src/a.c"), DENIED, NULL},
	{BASH("(cd src); cat ../a"), DENIED, NULL},
	{BASH("cd nothing; cat ../a"), DENIED, NULL},
	{BASH("cd .. && ls"), DENIED, NULL},
	{BASH("cd out && ls"), DENIED, NULL},
	{BASH("cd @/main"), DENIED, NULL},
	{BASH("if cd; then :; fi"), DENIED, NULL},
	{BASH("ls \\u0000"), DENIED, NULL},
	{GEMINI("run_shell_command",
		"\"command\":\"ls\",\"directory\":\"../src\""),
	 DENIED, NULL},
	{GEMINI("run_shell_command",
		"\"command\":\"ls\",\"directory\":\"src\""),
	 ALLOWED, NULL},
};

Test(hook, by_a_policy)
{
	struct hook_rules rules = {0};
	autofree char *message = NULL, *path = at("@/policy");

	/* Temporary directories don't count here: base lies in one. */
	sh("printf '{\"allowedRoots\":[\"%s/main/wt\"],\"deniedRoots\":"
	   "[\"%s\"],\"systemPrefixes\":[\"/usr\"],\"other\":1}' \"$PWD\" "
	   "\"$PWD\" >policy");
	cr_assert_eq(hook_policy_read(path, &rules.policy, &message), 0, "%s",
		     message);
	rules.has_policy = true;
	for (size_t i = 0; i < ARRAY_SIZE(policy_payloads); i++)
		expect(&rules, policy_payloads[i].text,
		       policy_payloads[i].verdict, policy_payloads[i].twin);
	hook_rules_release(&rules);
}

Test(hook, extra_roots)
{
	struct hook_rules rules = {0};
	autofree char *path = at("@/policy"), *extra = at("@/other:~/main/src");

	sh("printf '{\"deniedRoots\":[\"~\"]}' >policy");
	setenv("NAVARCH_GUARD_EXTRA_ROOTS", extra, 1);
	cr_assert_eq(hook_policy_read(path, &rules.policy, NULL), 0);
	rules.has_policy = true;
	expect(&rules, CLAUDE("Write", FILE_PATH("@/other/x")), ALLOWED, NULL);
	expect(&rules, CLAUDE("Write", FILE_PATH("@/main/src/x")), ALLOWED,
	       NULL);
	expect(&rules, CLAUDE("Write", FILE_PATH("@/main/x")), DENIED, NULL);
	hook_rules_release(&rules);
}

Test(hook, policies_that_are_none)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{",
		"{\"deniedRoots\":1}",
		"{\"deniedRoots\":[1]}",
		"{\"allowedRoots\":[\"relative\"]}",
	};
	autofree char *path = at("@/policy");
	struct hook_policy policy = {0};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		autofree char *message = NULL, *command = NULL;

		cr_assert_gt(
			asprintf(&command, "printf '%s' >policy", texts[i]), 0);
		sh(command);
		cr_expect_lt(hook_policy_read(path, &policy, &message), 0, "%s",
			     texts[i]);
		cr_expect_not_null(message);
	}
	cr_expect_eq(hook_policy_read("/nonexistent", &policy, NULL), -ENOENT);
}

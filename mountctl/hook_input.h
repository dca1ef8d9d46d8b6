/*
 * What a harness hands to a hook on its standard input, as far as the verdict
 * depends on it. docs/harnesses.md tells which events and tools there are.
 *
 * The input is hostile: a member that appears twice, a text with a NUL in it, a
 * file tool without a path, and whatever else could be read in two ways is
 * malformed. Members that aren't known are normal.
 */
#ifndef WORKTREEFS_HOOK_INPUT_H
#define WORKTREEFS_HOOK_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/policy.h"
#include "fs/lib/spec.h"

/* How large an input may be, in bytes. */
#define HOOK_INPUT_MAX (8u << 20)

/*
 * What stands for "\u0000" in a text: no path that is accepted has it. A
 * command or a patch may.
 */
#define HOOK_NUL_MARK '\1'

enum hook_format {
	HOOK_CLAUDE,
	HOOK_CODEX,
	HOOK_GEMINI,
	HOOK_CURSOR,
	HOOK_COPILOT,
};

/* "claude", "codex", ...; the reverse is 0, or -EINVAL. */
const char *hook_format_name(enum hook_format format);
int hook_format_parse(const char *word, enum hook_format *ret_format);

enum hook_event {
	HOOK_CALL, /* a tool is about to be called */
	HOOK_SESSION_START,
	HOOK_SESSION_END,
	HOOK_WORKTREE_CREATE,
	HOOK_WORKTREE_REMOVE,
	HOOK_OTHER, /* nothing is about to be changed */
};

struct hook_target {
	char *path;	   /* as the call spells it */
	enum policy_op op; /* OP_READ, OP_WRITE (make or change), OP_REMOVE */
};

struct hook_targets {
	struct hook_target *target; /* owned, with the strings in it */
	size_t n;
};

struct hook_input {
	enum hook_format format;
	enum hook_event event;
	/* Where the agent works: directories, the first is the call's own. */
	struct strings places;
	struct hook_targets targets;
	char *command;	     /* of a shell, or NULL */
	char *directory;     /* that it is to run in, or NULL */
	char *name;	     /* of the worktree to be made, or NULL */
	char *worktree_path; /* of the one to be removed, or NULL */
	char *reason;	     /* of a session's end, or NULL */
};

void hook_input_release(struct hook_input *input);

/*
 * format: what the input is, or NULL: it is found out. text is changed.
 * 0; -EINVAL with a message for what is malformed; -ENOMEM.
 */
int hook_input_parse(char *text, size_t size, const enum hook_format *format,
		     struct hook_input *ret_input, char **message);

/*
 * What a harness of that format has to print for its model to be told a text at
 * the start of a session: allocated; NULL: out of memory.
 */
char *hook_context(enum hook_format format, const char *text);

/*
 * An explicit answer on a call, for those harnesses that may insist on one:
 * allocated; NULL: it takes none, or out of memory. why NULL: the call is
 * allowed. twin: the path to use instead, or NULL.
 */
char *hook_answer(enum hook_format format, const char *why, const char *twin);

/* Appends; copies the path. 0 or -ENOMEM. */
int hook_targets_add(struct hook_targets *targets, const char *path,
		     enum policy_op op);

#endif

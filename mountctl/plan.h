/*
 * From what the user asks for to a session: the options that are called RULES
 * on the command line, and the planner that turns them, together with the
 * repository and its config, into a session's spec.
 */
#ifndef WORKTREEFS_PLAN_H
#define WORKTREEFS_PLAN_H

#include <stdbool.h>

#include "fs/lib/gitrepo.h"
#include "fs/lib/spec.h"

struct plan_options {
	char *name; /* -n SESSION */
	char *main;
	char *worktree;
	char *worktrees_dir;
	char *root;
	/*
	 * As given; relative ones are relative to --root, without it to M.
	 * Standing rules in G's config are always relative to M, where there
	 * is one.
	 */
	struct strings rw, ro, none;
	struct strings shared; /* beside those of G's config */
	enum hardlinks hardlinks;
	bool hardlinks_given;
	enum symlinks symlinks;
	bool git_guard;
	enum git_config git_config;
	unsigned int watchdog; /* seconds; 0: none */
	/* --native: "auto" (default), "none", or paths; run only. */
	struct strings native;
	bool any_rules; /* was one of RULES (not -n) given? */
};

void plan_options_init(struct plan_options *options);
void plan_options_release(struct plan_options *options);

/* Help on RULES: whole lines, an option each. */
extern const char plan_help[];

/*
 * The rows of getopt_long(3) that stand for RULES and -n, for a command's own
 * table, and what to do with one of them.
 */
#define PLAN_SHORT_OPTIONS "n:"
enum {
	PLAN_OPT_FIRST = 256,
	PLAN_OPT_MAIN = PLAN_OPT_FIRST,
	PLAN_OPT_WORKTREE,
	PLAN_OPT_WORKTREES_DIR,
	PLAN_OPT_ROOT,
	PLAN_OPT_RW,
	PLAN_OPT_RO,
	PLAN_OPT_NONE,
	PLAN_OPT_SHARED,
	PLAN_OPT_GIT_GUARD,
	PLAN_OPT_GIT_CONFIG,
	PLAN_OPT_HARDLINKS,
	PLAN_OPT_SYMLINKS,
	PLAN_OPT_NATIVE,
	PLAN_OPT_WATCHDOG,
	PLAN_OPT_END, /* commands number their own from here */
};
#define PLAN_LONG_OPTIONS                                                     \
	{"main", required_argument, NULL, PLAN_OPT_MAIN},                     \
		{"worktree", required_argument, NULL, PLAN_OPT_WORKTREE},     \
		{"worktrees-dir", required_argument, NULL,                    \
		 PLAN_OPT_WORKTREES_DIR},                                     \
		{"root", required_argument, NULL, PLAN_OPT_ROOT},             \
		{"rw", required_argument, NULL, PLAN_OPT_RW},                 \
		{"ro", required_argument, NULL, PLAN_OPT_RO},                 \
		{"none", required_argument, NULL, PLAN_OPT_NONE},             \
		{"shared", required_argument, NULL, PLAN_OPT_SHARED},         \
		{"git-guard", required_argument, NULL, PLAN_OPT_GIT_GUARD},   \
		{"git-config", required_argument, NULL, PLAN_OPT_GIT_CONFIG}, \
		{"hardlinks", required_argument, NULL, PLAN_OPT_HARDLINKS},   \
		{"symlinks", required_argument, NULL, PLAN_OPT_SYMLINKS},     \
		{"native", required_argument, NULL, PLAN_OPT_NATIVE},         \
		{"watchdog", required_argument, NULL, PLAN_OPT_WATCHDOG},     \
	{                                                                     \
		"name", required_argument, NULL, 'n'                          \
	}

/* 0; -EINVAL with a message for a bad argument; -ENOENT if not one of ours. */
int plan_option(struct plan_options *options, int option, const char *argument,
		char **ret_message);

/*
 * Plans the session: discovers the repository from the options or the working
 * directory, gathers all rules with origin and reason, decides the views (each
 * top-most tree with a restricting rule that needs a verdict of ours), the
 * native trees (tier enforced only) and the session's name; see layout.h.
 *
 * A rule that is given through a symlink applies to the real place, which is
 * looked up now; what doesn't exist yet stays as it is spelled. An rw rule
 * that a symlink leads to from a place that the session can change is refused:
 * the session before it could have put the link there.
 *
 * spec->views[i].mountpoint is the root itself for TIER_ENFORCED; for
 * TIER_VIEW it is NULL: the command fills it in.
 *
 * 0; -EINVAL for what the user must mend (exit status 2); other -errno; always
 * with a message. Nothing is created anywhere.
 */
int plan_session(const struct plan_options *options, enum tier tier,
		 struct session_spec *ret_spec, char **ret_message);

#endif

#include "mountctl/gitrules.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"

/* When a row counts. */
enum when {
	ALWAYS,
	IF_ABSENT, /* only where the name isn't there yet */
};

struct row {
	const char *name; /* relative to the table's directory; "": itself */
	enum access access;
	enum judge judge;
	enum caching caching;
	bool pattern;
	bool plain;
	bool lock; /* the same for NAME.lock */
	enum when when;
	const char *reason;
};

#define READ_ONLY .access = ACCESS_RO, .caching = CACHING_NONE
/* The user's git writes here, too, and must find no symlink to follow. */
#define OPEN .access = ACCESS_RW, .caching = CACHING_NONE, .plain = true
#define FREE .access = ACCESS_RW, .caching = CACHING_NONE
#define JUDGED(by) OPEN, .judge = (by)

#define MAINS_INDEX "the main checkout's index"
#define MAINS_STATE "an operation of the main checkout's"
#define MAINS_REFS "the main checkout's own refs"
#define MANY_BRANCHES "branches that are checked out elsewhere stay"

/* Relative to G. */
static const struct row git_rows[] = {
	{"", OPEN, .reason = "commits land here"},
	{"annex", FREE, .reason = "git-annex's own"},
	{"lfs", FREE, .reason = "git-lfs's own"},

	/* Decides what git does on the user's side, or runs there. */
	{"hooks", READ_ONLY, .reason = "hooks run on the user's side"},
	{"info", READ_ONLY,
	 .reason = "excludes and attributes of every checkout"},
	{"info/refs*", OPEN, .pattern = true,
	 .reason = "a list of refs that git keeps up"},
	{"config", JUDGED(JUDGE_CONFIG),
	 .reason = "the config changes in safe keys only"},
	{"config.worktree", READ_ONLY,
	 .reason = "the main checkout's own config"},
	{"commondir", READ_ONLY,
	 .reason = "where git looks for the rest of its directory"},
	{"modules", READ_ONLY,
	 .reason = "git directories of the main checkout's submodules"},
	{"branches", READ_ONLY, .reason = "remotes of old"},
	{"remotes", READ_ONLY, .reason = "remotes of old"},

	/* What the main checkout stands on. */
	{"HEAD", JUDGED(JUDGE_REF),
	 .reason = "the main checkout stays on its commit"},
	{"logs/HEAD", JUDGED(JUDGE_REFLOG),
	 .reason = "the history of the main checkout stays"},
	{"index", READ_ONLY, .lock = true, .reason = MAINS_INDEX},
	{"sharedindex.*", READ_ONLY, .pattern = true, .reason = MAINS_INDEX},
	{"ORIG_HEAD", READ_ONLY, .lock = true, .reason = MAINS_STATE},
	{"MERGE_*", READ_ONLY, .pattern = true, .reason = MAINS_STATE},
	{"AUTO_MERGE", READ_ONLY, .lock = true, .reason = MAINS_STATE},
	{"CHERRY_PICK_HEAD", READ_ONLY, .lock = true, .reason = MAINS_STATE},
	{"REVERT_HEAD", READ_ONLY, .lock = true, .reason = MAINS_STATE},
	{"REBASE_HEAD", READ_ONLY, .lock = true, .reason = MAINS_STATE},
	{"BISECT_*", READ_ONLY, .pattern = true, .reason = MAINS_STATE},
	{"rebase-merge", READ_ONLY, .reason = MAINS_STATE},
	{"rebase-apply", READ_ONLY, .reason = MAINS_STATE},
	{"sequencer", READ_ONLY, .reason = MAINS_STATE},
	{"refs/bisect", READ_ONLY, .reason = MAINS_REFS},
	{"refs/rewritten", READ_ONLY, .reason = MAINS_REFS},
	{"refs/worktree", READ_ONLY, .reason = MAINS_REFS},

	/* What everybody's history consists of. */
	{"refs/heads", JUDGED(JUDGE_REF), .reason = MANY_BRANCHES},
	{"logs/refs/heads", JUDGED(JUDGE_REFLOG), .reason = MANY_BRANCHES},
	{"packed-refs", JUDGED(JUDGE_PACKED_REFS), .reason = MANY_BRANCHES},
	{"refs/replace", READ_ONLY,
	 .reason = "puts other content under an object's name"},
	{"refs/stash", JUDGED(JUDGE_STASH),
	 .reason = "what was stashed before the session stays"},
	{"logs/refs/stash", JUDGED(JUDGE_STASH_LOG),
	 .reason = "what was stashed before the session stays"},
	{"objects", .access = ACCESS_RW, .caching = CACHING_OBJECTS,
	 .plain = true, .judge = JUDGE_OBJECTS,
	 .reason = "what was committed before the session stays"},
	{"objects/info", OPEN, .reason = "git keeps it up"},
	{"objects/info/alternates", READ_ONLY,
	 .reason = "takes objects from elsewhere"},
	{"shallow", READ_ONLY, .lock = true, .when = IF_ABSENT,
	 .reason = "would cut off the history of every checkout"},

	{"worktrees", JUDGED(JUDGE_ADMIN),
	 .reason = "the git state of other worktrees stays"},
};

/* Relative to A. */
static const struct row admin_rows[] = {
	{"", OPEN, .reason = "the git state of the session's own worktree"},
	{"gitdir", READ_ONLY,
	 .reason = "git's pointers to and from the worktree"},
	{"commondir", READ_ONLY,
	 .reason = "git's pointers to and from the worktree"},
	{"config.worktree", JUDGED(JUDGE_WORKTREE_CONFIG),
	 .reason = "the config changes in safe keys only"},
	{"fsmonitor--daemon.ipc", FREE, .reason = "a socket of git's"},
	{"modules", FREE,
	 .reason = "git directories of the worktree's submodules"},
};

/* Relative to W. */
static const struct row worktree_rows[] = {
	{".git", .access = ACCESS_RO, .caching = CACHING_TREE,
	 .reason = "the worktree's pointer to its git directory"},
};

static bool is_config(const struct row *row)
{
	return row->judge == JUDGE_CONFIG ||
	       row->judge == JUDGE_WORKTREE_CONFIG;
}

static bool exists(const char *dir, const char *name)
{
	autofree char *path = path_join(dir, name);
	struct stat st;

	/* Out of memory is noticed soon enough. */
	return path && lstat(path, &st) == 0;
}

/* Does the row count for this session? */
static bool applies(const struct session_spec *spec, const char *dir,
		    const struct row *row)
{
	if (row->when == IF_ABSENT && exists(dir, row->name))
		return false;
	return !is_config(row) || spec->git_config != GIT_CONFIG_ALLOW;
}

/*
 * The directory as a pattern spells it: fnmatch(3) takes a character behind a
 * backslash as it is, in names that hold a wildcard. Allocated, or NULL.
 */
static char *escape_wildcards(const char *dir)
{
	char *escaped = malloc(2 * strlen(dir) + 1), *p = escaped;

	if (!escaped)
		return NULL;
	while (*dir) {
		/* A slash and the name behind it. */
		size_t length = 1 + strcspn(dir + 1, "/");
		bool special = strcspn(dir, "*?[") < length;

		for (; length > 0; length--) {
			if (special && strchr("*?[]\\", *dir))
				*p++ = '\\';
			*p++ = *dir++;
		}
	}
	*p = '\0';
	return escaped;
}

/* Adds the rule of a row for its name with this behind it. */
static int add_rule(struct session_spec *spec, const char *dir,
		    const struct row *row, const char *suffix)
{
	autofree char *base =
		row->pattern ? escape_wildcards(dir) : strdup(dir);
	autofree char *plain = base ? path_join(base, row->name) : NULL;
	bool denied = is_config(row) && spec->git_config == GIT_CONFIG_DENY;
	autofree char *path = NULL, *reason = NULL;
	struct rule rule = {
		.access = denied ? ACCESS_RO : row->access,
		.origin = ORIGIN_GIT_GUARD,
		.caching = row->caching,
		.judge = denied ? JUDGE_NONE : row->judge,
		.pattern = row->pattern,
		.plain = row->plain && !denied,
	};

	reason = strdup(denied ? "--git-config=deny" : row->reason);
	if (!plain || !reason || asprintf(&path, "%s%s", plain, suffix) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	rule.path = path;
	rule.reason = reason;
	return rules_add(&spec->rules, &rule);
}

static int add_rows(struct session_spec *spec, const char *dir,
		    const struct row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!applies(spec, dir, &rows[i]))
			continue;
		r = add_rule(spec, dir, &rows[i], "");
		if (r == 0 && rows[i].lock)
			r = add_rule(spec, dir, &rows[i], ".lock");
	}
	return r;
}

int gitrules_add(struct session_spec *spec)
{
	int r;

	if (!spec->git_guard || !spec->git_dir)
		return 0;
	r = add_rows(spec, spec->git_dir, git_rows, ARRAY_SIZE(git_rows));
	if (r == 0 && spec->admin_dir)
		r = add_rows(spec, spec->admin_dir, admin_rows,
			     ARRAY_SIZE(admin_rows));
	if (r == 0 && spec->worktree)
		r = add_rows(spec, spec->worktree, worktree_rows,
			     ARRAY_SIZE(worktree_rows));
	return r;
}

/*
 * Gaps.
 */

__attribute__((format(printf, 2, 3))) static int
add_gap(struct strings *gaps, const char *format, ...)
{
	char *gap = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&gap, format, args);
	va_end(args);
	return n < 0 ? -ENOMEM : strings_take(gaps, gap);
}

/* Is there anything beside .git? */
static bool has_files(const char *path)
{
	autodir DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (name_is_valid(entry->d_name) &&
		    strcmp(entry->d_name, ".git") != 0)
			return true;
	return false;
}

/* A "bare" repository that looks like a checkout's: somebody's mistake? */
static int add_gap_of_main(const struct session_spec *spec,
			   struct strings *gaps)
{
	autofree char *top = NULL;

	if (spec->main || strcmp(path_basename(spec->git_dir), ".git") != 0)
		return 0;
	top = path_dirname(spec->git_dir);
	if (!top)
		return -ENOMEM;
	if (!has_files(top))
		return 0;
	return add_gap(gaps,
		       "NO MAIN CHECKOUT IS GUARDED: '%s' looks like one, but "
		       "core.bare is true in '%s/config'; if that is a "
		       "mistake: git -C '%s' config core.bare false",
		       top, spec->git_dir, spec->git_dir);
}

/* With reftable, one set of files in G/reftable holds all refs and reflogs. */
static int add_gap_of_refs(const struct session_spec *spec,
			   struct strings *gaps)
{
	if (!spec->git_guard || !exists(spec->git_dir, "reftable"))
		return 0;
	return add_gap(gaps,
		       "'%s' keeps its refs as reftable: branches and HEADs "
		       "of other checkouts, reflogs, the stash and replaced "
		       "objects aren't held",
		       spec->git_dir);
}

int gitrules_gaps(const struct session_spec *spec, struct strings *ret_gaps)
{
	int r;

	if (!spec->git_dir)
		return 0;
	r = add_gap_of_main(spec, ret_gaps);
	return r < 0 ? r : add_gap_of_refs(spec, ret_gaps);
}

void gitrules_warn(const struct session_spec *spec)
{
	struct strings gaps = {0};

	gitrules_gaps(spec, &gaps);
	for (size_t i = 0; i < gaps.n; i++)
		warn("%s", gaps.s[i]);
	strings_release(&gaps);
}

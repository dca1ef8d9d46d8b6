/*
 * What a session consists of, as mountctl plans it and the filesystem process
 * serves it. The same JSON text is handed to the filesystem process, written
 * into the session's record, and sealed into the snapshot that a session can
 * read inside (see wire.h and record.h).
 *
 * { "schema_version": 1, "session": "name", "tier": "enforced",
 *   "main": "/r", "git_dir": "/r/.git", "worktree": "/r/wt",
 *   "admin_dir": "/r/.git/worktrees/wt", "worktrees_dir": null,
 *   "state_dir": "/home/u/.local/state/worktreefs/name",
 *   "hardlinks": "break", "symlinks": "view", "git_guard": true,
 *   "git_config": "filter", "watchdog": 300, "ids": null | {"uid": 1000, "gid":
 * 1000}, "views": [{"root": "/r", "mountpoint": "/r", "pinned": ["wt"]}],
 *   "native": ["/r/wt"], "fuse_options": [],
 *   "rules": [{"path": "/r", "access": "ro", "origin": "default",
 *              "caching": "tree", "judge": "none", "pattern": false,
 *              "plain": false, "reason": "..."}] }
 *
 * Bytes of a path that aren't UTF-8, and '%' itself before two hexadecimal
 * digits, are written as %XX in JSON: text that isn't valid UTF-8 has no other
 * place there.
 */
#ifndef WORKTREEFS_SPEC_H
#define WORKTREEFS_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fs/lib/policy.h"

enum tier {
	TIER_NONE,
	TIER_VIEW,
	TIER_ENFORCED,
};

enum hardlinks {
	HARDLINKS_ALLOW,
	HARDLINKS_BREAK,
	HARDLINKS_DENY,
};

enum symlinks {
	SYMLINKS_VIEW, /* absolute targets in a root lead into its view */
	SYMLINKS_RAW,
};

enum git_config {
	GIT_CONFIG_FILTER,
	GIT_CONFIG_DENY,
	GIT_CONFIG_ALLOW,
};

const char *tier_name(enum tier tier); /* "none", "view", "enforced" */
int tier_parse(const char *word, enum tier *ret_tier);
int hardlinks_parse(const char *word, enum hardlinks *ret);
int symlinks_parse(const char *word, enum symlinks *ret);
int git_config_parse(const char *word, enum git_config *ret);
const char *hardlinks_name(enum hardlinks hardlinks);
const char *symlinks_name(enum symlinks symlinks);
const char *git_config_name(enum git_config git_config);

/* A list of strings, NULL-terminated where it isn't empty. */
struct strings {
	char **s; /* owned, with the strings in it */
	size_t n;
};

int strings_add(struct strings *strings, const char *s); /* copies */
int strings_take(struct strings *strings,
		 char *s /* owned */); /* frees on failure */
bool strings_contain(const struct strings *strings, const char *s);
void strings_release(struct strings *strings);

struct view_spec {
	char *root;	  /* the tree it shows; absolute and real */
	char *mountpoint; /* where it is seen; equal to root behind run */
	/*
	 * Paths below the root, relative, that other mounts stand on: these
	 * names and those above them keep one node id and never fail, because
	 * the kernel would detach the mount.
	 */
	struct strings pinned;
};

/* Paths are absolute and clean; NULL where the session has no such thing. */
struct session_spec {
	char *name;
	enum tier tier;
	char *main;	     /* M, the top of the main checkout */
	char *git_dir;	     /* G, the common git directory */
	char *worktree;	     /* W */
	char *admin_dir;     /* A, in G */
	char *worktrees_dir; /* D of --worktrees-dir */
	char *state_dir;     /* holds the denial log */
	enum hardlinks hardlinks;
	enum symlinks symlinks;
	bool git_guard;
	enum git_config git_config;
	/*
	 * Unless it is -1: ids that the mount's user namespace doesn't map are
	 * reported as these.
	 */
	uid_t report_uid;
	gid_t report_gid;
	struct view_spec *views; /* owned */
	size_t n_views;
	unsigned int watchdog;	     /* seconds, see fs/watchdog.h; 0: none */
	struct strings native;	     /* trees served by the real directory */
	struct strings fuse_options; /* of mount -o, as given */
	struct rules rules;
};

#define WATCHDOG_DEFAULT 300u
#define WATCHDOG_MAX 1000000u
/* Whole seconds, 0 for none. -EINVAL, also for what no timer can hold. */
int watchdog_parse(const char *word, unsigned int *ret_seconds);

void session_spec_init(struct session_spec *spec);
void session_spec_release(struct session_spec *spec);
/* Copies the strings; the view is appended. 0 or -ENOMEM. */
int session_spec_add_view(struct session_spec *spec, const char *root,
			  const char *mountpoint);

/* Allocated JSON text, or NULL when out of memory. */
char *session_spec_to_json(const struct session_spec *spec);
/*
 * Unknown members are ignored. 0, -EINVAL for text that isn't a session of
 * this schema version, -ENOMEM.
 */
int session_spec_from_json(const char *text, struct session_spec *ret_spec);

/* The "rules" of such a text alone; the rest may be missing. */
int rules_from_json(const char *text, struct rules *ret_rules);

/* The same as a cJSON object, for those who put it into a larger one. */
struct cJSON;
struct cJSON *session_spec_to_cjson(const struct session_spec *spec);
int session_spec_from_cjson(const struct cJSON *object,
			    struct session_spec *ret_spec);

bool text_is_utf8(const char *text);
/* A path as a JSON string may hold it, and back. NULL: out of memory. */
char *json_text_encode(const char *bytes);
char *json_text_decode(const char *text);

#endif

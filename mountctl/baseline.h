/*
 * The state of the main checkout as a session found it, and what has changed
 * since. It is kept in the session's state directory, beside its denial log,
 *
 *   $XDG_STATE_HOME/worktreefs/SESSION/baseline.json
 *
 * together with the session's spec: a session that was killed, whose record is
 * gone, or which has simply ended can still be told what it was about. The next
 * session of the name replaces it, teardown drops it.
 *
 * On a large repository git may take seconds, which a session's start isn't
 * kept waiting for: a process of its own takes the state and ends.
 */
#ifndef WORKTREEFS_BASELINE_H
#define WORKTREEFS_BASELINE_H

#include <stdbool.h>
#include <time.h>

#include "fs/lib/spec.h"
#include "mountctl/mainstate.h"

struct baseline {
	struct session_spec spec;
	time_t taken;
	bool late;   /* the session could change it before that */
	char *error; /* why there is no state, or NULL */
	struct main_state state;
};

void baseline_init(struct baseline *baseline);
void baseline_release(struct baseline *baseline);

/*
 * Drops what an earlier session of the name has left and starts taking the
 * state, for a session that is about to begin. What fails is nobody's concern
 * but that of those who ask for it later.
 *
 * ret_done (may be NULL): a descriptor that reads as ended once it is taken.
 */
void baseline_start(const struct session_spec *spec, int *ret_done);
/* Waits for that; no longer than the time. */
void baseline_await(int done, int timeout_ms);

/* -ENOENT: there is none (yet); -EINVAL: it can't be read; -errno. */
int baseline_read(const char *state_dir, struct baseline *ret_baseline);
/* The same by the session's name. */
int baseline_read_named(const char *name, struct baseline *ret_baseline);
/* 0, also where there is none; or -errno. */
int baseline_drop(const char *state_dir);

/* Names of all sessions that have one, sorted. 0 or -errno. */
int baseline_list(struct strings *ret_names);

/*
 * What has changed in the main checkout since, but for places that the session
 * may change by its rules, worktrees, and branches that its worktree has or had
 * checked out.
 */
struct stray {
	const struct session_spec *spec; /* borrowed */
	const struct baseline *before;	 /* borrowed; NULL: there is none */
	struct main_state after;
	char *unknown; /* why nothing can be told, or NULL */
	struct main_changes branches, files;
	bool head_moved;
};

void stray_release(struct stray *stray);
/*
 * Looks. baseline may be NULL. 0, also where nothing can be told; or -ENOMEM.
 */
int stray_look(const struct session_spec *spec, const struct baseline *baseline,
	       struct stray *ret_stray);
/* Anything at all? */
bool stray_is_found(const struct stray *stray);

#endif

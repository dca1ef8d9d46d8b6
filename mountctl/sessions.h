/*
 * Finding sessions, and telling how they are.
 */
#ifndef WORKTREEFS_SESSIONS_H
#define WORKTREEFS_SESSIONS_H

#include <stddef.h>

#include "fs/lib/record.h"
#include "mountctl/holders.h"
#include "mountctl/mounts.h"

enum session_state {
	SESSION_LIVE,
	SESSION_DETACHED, /* unmounted, but somebody still uses a view */
	SESSION_DEAD,	  /* its filesystem process is gone */
};

/* All records. Zero-initialised it is empty. */
struct sessions {
	struct record *record; /* owned; in order of their names */
	size_t n;
	struct strings unreadable; /* names of what should be records */
	struct view_mounts mounts; /* what is mounted where we are */
};

const char *session_state_name(enum session_state state);
enum session_state session_state(const struct sessions *sessions,
				 const struct record *record);

void sessions_release(struct sessions *sessions);
/* 0 or -errno with a message. */
int sessions_read(struct sessions *ret_sessions, char **message);

/*
 * Where a path leads, found without entering a view: that might never return.
 * Allocated. 0, or -errno with a message.
 */
int sessions_resolve(const struct sessions *sessions, const char *path,
		     char **ret_path, char **message);

/* By name; NULL: none. Borrowed. */
const struct record *sessions_named(const struct sessions *sessions,
				    const char *name);

/* The one at or below whose mount points the path lies; NULL: none. Borrowed.
 */
const struct record *sessions_showing(const struct sessions *sessions,
				      const char *path);

/*
 * The session that the operand names: by its name, by any path at or below a
 * mount point of its views, or by its worktree. Borrowed from sessions.
 *
 * ret_path (may be NULL): the operand as a real path, where it was looked up
 * as one; NULL where it is a session's name. Allocated, and set for -ENOENT,
 * too. No view is touched.
 *
 * 0; -ENOENT: none; -EINVAL with a message: several, or an operand that can be
 * neither a name nor a path.
 */
int sessions_find(const struct sessions *sessions, const char *operand,
		  const struct record **ret_record, char **ret_path,
		  char **message);

/*
 * The session whose worktree, as it is or as its view shows it, the working
 * directory lies in. Borrowed. 0; -ENOENT: none, -EINVAL: several; both with a
 * message.
 */
int sessions_here(const struct sessions *sessions,
		  const struct record **ret_record, char **message);

/*
 * The processes behind run that live in the session's view; none for a view
 * that is mounted for everybody. The device of a dead session may be another
 * one's by now, then its processes are that one's. 0 or -errno.
 */
int session_processes(const struct sessions *sessions,
		      const struct record *record,
		      struct holders *ret_processes);

/*
 * Where a path of the session's roots is seen: in the view, for a view that is
 * mounted elsewhere. Allocated; NULL when out of memory.
 */
char *session_seen(const struct session_spec *spec, const char *path);

/* The reverse: the path in the root of one that was given in its view
 * elsewhere. Allocated; NULL for any other path, and when out of memory. */
char *session_behind(const struct session_spec *spec, const char *path);

/* Where to work: W, or the first root, as seen. Allocated, as above. */
char *session_directory(const struct session_spec *spec);

#endif

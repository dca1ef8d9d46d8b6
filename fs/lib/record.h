/*
 * Records of sessions. Each has a directory of its own,
 *
 *   $XDG_RUNTIME_DIR/worktreefs/SESSION/     (else
 * /tmp/worktreefs-UID/SESSION/) lock          held with flock(2) by the
 * filesystem process while it lives session.json  the record: the spec and what
 * is below control.sock  see docs/control.md view          the default mount
 * point of mountctl mount views/N       the same for the session's further
 * views, from 1
 *
 * all 0700 and owned by the user. XDG_RUNTIME_DIR counts only if it is a
 * directory of the user's own that nobody else can write.
 *
 * A session is live while somebody holds its lock. Readers cope with records
 * that are stale, half-written, or of somebody else: these are reported as
 * dead or ignored, never believed.
 */
#ifndef WORKTREEFS_RECORD_H
#define WORKTREEFS_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "fs/lib/spec.h"

struct record {
	struct session_spec spec;
	pid_t pid;		/* the filesystem process */
	uint64_t start_time;	/* its, see process.h */
	time_t since;		/* when the session was committed */
	struct strings devices; /* of the views, "MAJOR:MINOR" */
	char *command;		/* what run was given, for people; or NULL */
	bool live; /* found by record_read(): the lock is held and the
		      process is the one named */
};

void record_init(struct record *record);
void record_release(struct record *record);

/*
 * Not empty, at most 100 bytes of letters, digits, '.', '_', '-', '+', '@' and
 * bytes above 127, not beginning with a dot or a dash.
 */
bool session_name_is_valid(const char *name);
/* A valid name made from any text: what can't stand becomes '-'. Allocated. */
char *session_name_from(const char *text);

/*
 * The directory of all records, made if missing and wanted, and its real path.
 * -ENOENT: there is none; -EPERM: it belongs to somebody else, or others can
 * write it.
 */
int record_base_open(bool create, int *ret_fd, char **ret_path);
/* $XDG_STATE_HOME/worktreefs or ~/.local/state/worktreefs, allocated. */
int state_base_path(char **ret_path);

/*
 * Takes the name for a session that is about to start: makes its directory
 * and holds its lock. What an earlier, dead session of that name left is
 * removed (but for a mount point that is still mounted: -EBUSY then).
 * ret_path is the directory's real path. 0; -EEXIST if a session of that name
 * is live or about to start; -EINVAL for the name; -errno.
 */
int record_claim(const char *name, int *ret_dir_fd, int *ret_lock_fd,
		 char **ret_path);

/* Writes session.json into the session's directory, atomically. */
int record_write(int dir_fd, const struct record *record);

/*
 * The session's directory. -ENOENT: no such session, or a name that can't be
 * one; -EPERM as for record_base_open().
 */
int record_open(const char *name, int *ret_dir_fd);

/*
 * -ENOENT: no such session, or one that is only about to start; -EINVAL: its
 * record can't be read as one; -EPERM as above.
 */
int record_read(const char *name, struct record *ret_record);

/* Does somebody hold the lock in a session's directory? */
bool record_is_held(const char *name);

/* Names of all sessions that have a directory, sorted. */
int record_list(struct strings *ret_names);

/*
 * Drops the record of a dead session: session.json, control.sock, lock, view
 * and views, and the directory. -EBUSY, and nothing is removed, while the lock
 * is held or a view is mounted. Things that aren't ours stay, and with them the
 * directory: -ENOTEMPTY. -ENOENT: no such session.
 */
int record_remove(const char *name);
/*
 * The same by descriptor of the session's directory, for its holder, who has
 * the lock. Whatever can't be removed stays, and the first error is returned;
 * -ENOTEMPTY also where a new session of the name is in there already.
 */
int record_clear(int dir_fd);

#endif

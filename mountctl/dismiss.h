/*
 * Ending a session, or what is left of one, and saying how it went: what the
 * commands that end them share. All of these return an exit status.
 */
#ifndef WORKTREEFS_DISMISS_H
#define WORKTREEFS_DISMISS_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/lib/record.h"
#include "mountctl/sessions.h"

/* How long to wait for those who use it, in seconds. */
#define DISMISS_TIMEOUT 5

struct dismissal {
	bool lazy; /* from those who use it, too */
	int64_t timeout_ms;
	const char *command; /* of mountctl's, that does it lazily if asked */
	/* Who keeps what stays busy is put there, too; borrowed, or NULL. */
	struct holders *holders;
};

/* A number of seconds. 0 or -EINVAL. */
int timeout_parse(const char *word, int64_t *ret_ms);

/* One that is live or dead. Who holds it is named. */
int dismiss_record(const struct sessions *sessions, const struct record *record,
		   const struct dismissal *options);

/* Is there a directory of this name that record_read() makes nothing of? */
bool dismiss_is_unreadable(const struct sessions *sessions, const char *name);
/* A directory without a record: one that can't be read, or a set-up's. */
int dismiss_unreadable(const char *name);

/*
 * A view that has no record: worktreefs was started without mountctl. Who holds
 * it is named.
 */
int dismiss_mount(const char *path, const struct dismissal *options);

#endif

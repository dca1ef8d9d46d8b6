#include "mountctl/dismiss.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/clock.h"
#include "mountctl/command.h"
#include "mountctl/ending.h"
#include "mountctl/output.h"

/* Seconds. */
#define MAX_TIMEOUT 86400

/* Between two tries, in milliseconds. */
#define PAUSE_MS 50

int timeout_parse(const char *word, int64_t *ret_ms)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(word, &end);
	if (end == word || *end || errno || !isfinite(seconds) || seconds < 0 ||
	    seconds > MAX_TIMEOUT)
		return -EINVAL;
	*ret_ms = (int64_t)(seconds * 1000);
	return 0;
}

static void name_holders(const struct holders *holders)
{
	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->holder[i];

		if (holder->path)
			detail("%ld  %s  (%s)", (long)holder->pid,
			       holder->command, holder->path);
		else
			detail("%ld  %s", (long)holder->pid, holder->command);
	}
}

/* Takes the holders over, to whoever wants them. */
static void hand_on(struct holders *holders, const struct dismissal *options)
{
	if (options->holders) {
		holders_release(options->holders);
		*options->holders = *holders;
		*holders = (struct holders){0};
	}
	holders_release(holders);
}

static void say_busy(const struct record *record, const struct holders *holders,
		     const struct dismissal *options)
{
	const char *name = record->spec.name;

	if (holders->n == 0)
		say("session '%s' is in use, by processes that can't be "
		    "looked at from here; 'mountctl %s --lazy %s' ends it",
		    name, options->command, name);
	else
		say("session '%s' is in use; 'mountctl %s --lazy %s' ends it "
		    "all the same",
		    name, options->command, name);
	name_holders(holders);
}

static int end_live(const struct record *record,
		    const struct dismissal *options)
{
	struct holders holders = {0};
	autofree char *message = NULL;
	int r = session_end(record, options->lazy,
			    now_ms() + options->timeout_ms, &holders, &message);
	int status = STATUS_FAILURE;

	if (r == 0) {
		status = STATUS_OK;
	} else if (r == -EINPROGRESS && options->lazy) {
		say("session '%s' is unmounted; its filesystem process %ld "
		    "ends with the last process that still uses it",
		    record->spec.name, (long)record->pid);
		status = STATUS_OK;
	} else if (r == -EINPROGRESS) {
		say("session '%s' is unmounted, but its filesystem process "
		    "%ld hasn't ended",
		    record->spec.name, (long)record->pid);
	} else if (r == -EBUSY && !message) {
		say_busy(record, &holders, options);
	} else {
		status = fail_message(r, message);
	}
	hand_on(&holders, options);
	return status;
}

static int clear_dead(const struct sessions *sessions,
		      const struct record *record)
{
	struct holders left = {0};
	autofree char *message = NULL;
	int r = session_clear(record, &message);

	if (r < 0)
		return fail_message(r, message);
	session_processes(sessions, record, &left);
	if (left.n > 0)
		say("session '%s' was dead; these processes are still in its "
		    "view, where nothing answers",
		    record->spec.name);
	name_holders(&left);
	holders_release(&left);
	return STATUS_OK;
}

int dismiss_unreadable(const char *name)
{
	autofree char *message = NULL;
	int r = session_clear_unreadable(name, &message);

	if (r == 0)
		return STATUS_OK;
	if (r == -EBUSY && !message)
		say("session '%s' is about to start, or its record can't be "
		    "read, and a process holds it",
		    name);
	else
		fail_message(r, message);
	return STATUS_FAILURE;
}

static void say_mount_busy(const char *path, const struct dismissal *options)
{
	struct holders holders = {0};
	struct strings mountpoints = {0};

	if (strings_add(&mountpoints, path) == 0)
		holders_of_paths(&mountpoints, &holders);
	strings_release(&mountpoints);
	say("the view at '%s' is in use; 'mountctl %s --lazy' takes it away "
	    "all the same",
	    path, options->command);
	name_holders(&holders);
	hand_on(&holders, options);
}

int dismiss_mount(const char *path, const struct dismissal *options)
{
	int64_t deadline = now_ms() + options->timeout_ms;
	autofree char *message = NULL;
	int r = mount_detach(path, options->lazy, &message);

	while (r == -EBUSY && now_ms() < deadline) {
		sleep_ms(PAUSE_MS);
		r = mount_detach(path, options->lazy, &message);
	}
	if (r == -EBUSY)
		say_mount_busy(path, options);
	else if (r < 0)
		fail_message(r, message);
	return r < 0 ? STATUS_FAILURE : STATUS_OK;
}

bool dismiss_is_unreadable(const struct sessions *sessions, const char *name)
{
	autofd int dir = -1;

	return !sessions_named(sessions, name) && record_open(name, &dir) == 0;
}

int dismiss_record(const struct sessions *sessions, const struct record *record,
		   const struct dismissal *options)
{
	return record->live ? end_live(record, options)
			    : clear_dead(sessions, record);
}

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/report.h"

/* Processes that a line of the table names. */
#define PROCESSES_SHOWN 3

enum {
	COLUMN_SESSION,
	COLUMN_TIER,
	COLUMN_STATE,
	COLUMN_PID,
	COLUMN_WORKTREE,
	COLUMN_PROCESSES,
	N_COLUMNS,
};

/* Cells of text that is escaped. */
struct row {
	char *cell[N_COLUMNS]; /* owned */
};

static void row_release(struct row *row)
{
	for (size_t i = 0; i < N_COLUMNS; i++)
		free(row->cell[i]);
}

static void print_row(const struct row *row, const int *width)
{
	size_t last = 0;

	for (size_t i = 0; i < N_COLUMNS; i++)
		if (row->cell[i][0])
			last = i;
	for (size_t i = 0; i < last; i++)
		printf("%s%*s", row->cell[i],
		       width[i] - text_width(row->cell[i]) + 2, "");
	printf("%s\n", row->cell[last]);
}

static void print_rows(const struct row *rows, size_t n)
{
	int width[N_COLUMNS] = {0};

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < N_COLUMNS; k++) {
			int cell = text_width(rows[i].cell[k]);

			if (cell > width[k])
				width[k] = cell;
		}
	}
	for (size_t i = 0; i < n; i++)
		print_row(&rows[i], width);
}

/* The program of a command line, without its directory. */
static char *program_of(const char *command)
{
	size_t length = strcspn(command, " ");
	const char *begin = command;

	for (size_t i = 0; i + 1 < length; i++)
		if (command[i] == '/')
			begin = command + i + 1;
	return strndup(begin, length - (size_t)(begin - command));
}

static int append(char **text, const char *more)
{
	char *joined;

	if (asprintf(&joined, "%s%s", *text ? *text : "", more) < 0)
		return -ENOMEM;
	free(*text);
	*text = joined;
	return 0;
}

static int append_process(char **text, const struct holder *holder)
{
	autofree char *program = program_of(holder->command), *one = NULL;

	if (!program || asprintf(&one, "%s%s (%ld)", *text ? ", " : "", program,
				 (long)holder->pid) < 0)
		return -ENOMEM;
	return append(text, one);
}

/* "make (7), cc1 (8) and 3 more" */
static char *describe_processes(const struct holders *processes)
{
	autofree char *text = NULL, *rest = NULL;
	size_t shown = processes ? processes->n : 0, left = 0;
	int r = 0;

	if (shown > PROCESSES_SHOWN) {
		left = shown - PROCESSES_SHOWN;
		shown = PROCESSES_SHOWN;
	}
	for (size_t i = 0; r == 0 && i < shown; i++)
		r = append_process(&text, &processes->holder[i]);
	if (r == 0 && left > 0)
		r = asprintf(&rest, " and %zu more", left) < 0
			    ? -ENOMEM
			    : append(&text, rest);
	if (r < 0)
		return NULL;
	return text ? text_escape(text) : strdup("");
}

static int fill_row(struct row *row, const struct report *report)
{
	const struct session_spec *spec = &report->record->spec;
	const char *place = spec->worktree;

	if (!place)
		place = spec->n_views > 0 ? spec->views[0].root : "";
	row->cell[COLUMN_SESSION] = text_escape(spec->name);
	row->cell[COLUMN_TIER] = strdup(tier_name(spec->tier));
	row->cell[COLUMN_STATE] = strdup(session_state_name(report->state));
	if (asprintf(&row->cell[COLUMN_PID], "%ld", (long)report->record->pid) <
	    0)
		row->cell[COLUMN_PID] = NULL;
	row->cell[COLUMN_WORKTREE] = text_escape(place);
	row->cell[COLUMN_PROCESSES] = describe_processes(report->processes);
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (!row->cell[i])
			return -ENOMEM;
	return 0;
}

static int fill_header(struct row *row)
{
	static const char *const titles[N_COLUMNS] = {
		[COLUMN_SESSION] = "SESSION",
		[COLUMN_TIER] = "TIER",
		[COLUMN_STATE] = "STATE",
		[COLUMN_PID] = "PID",
		[COLUMN_WORKTREE] = "WORKTREE",
		[COLUMN_PROCESSES] = "PROCESSES",
	};

	for (size_t i = 0; i < N_COLUMNS; i++) {
		row->cell[i] = strdup(titles[i]);
		if (!row->cell[i])
			return -ENOMEM;
	}
	return 0;
}

static int print_table(const struct report *reports, size_t n)
{
	struct row *rows = calloc(n + 1, sizeof(*rows));
	int r = rows ? fill_header(&rows[0]) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = fill_row(&rows[i + 1], &reports[i]);
	if (r == 0)
		print_rows(rows, n + 1);
	for (size_t i = 0; rows && i <= n; i++)
		row_release(&rows[i]);
	free(rows);
	return r;
}

struct listing {
	struct sessions sessions;
	struct report *reports;	   /* owned; one a session */
	struct holders *processes; /* owned; one a session */
};

static void listing_release(struct listing *listing)
{
	for (size_t i = 0; listing->processes && i < listing->sessions.n; i++)
		holders_release(&listing->processes[i]);
	free(listing->processes);
	free(listing->reports);
	sessions_release(&listing->sessions);
}

static int gather(struct listing *listing, char **message)
{
	size_t n;
	int r = sessions_read(&listing->sessions, message);

	if (r < 0)
		return r;
	n = listing->sessions.n;
	listing->reports = calloc(n + 1, sizeof(*listing->reports));
	listing->processes = calloc(n + 1, sizeof(*listing->processes));
	if (!listing->reports || !listing->processes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct record *record = &listing->sessions.record[i];

		session_processes(&listing->sessions, record,
				  &listing->processes[i]);
		listing->reports[i] = (struct report){
			.record = record,
			.state = session_state(&listing->sessions, record),
			.processes = &listing->processes[i],
		};
	}
	return 0;
}

static int print_for_people(const struct listing *listing)
{
	const struct sessions *sessions = &listing->sessions;
	const struct strings *unreadable = &sessions->unreadable;

	for (size_t i = 0; i < unreadable->n; i++)
		warn("the record of session '%s' can't be read; 'mountctl "
		     "unmount %s' clears it away",
		     unreadable->s[i], unreadable->s[i]);
	if (sessions->n > 0)
		return print_table(listing->reports, sessions->n);
	if (unreadable->n == 0)
		say("there are no sessions");
	return 0;
}

static int list(bool json)
{
	struct listing listing = {0};
	autofree char *message = NULL;
	int r = gather(&listing, &message);

	if (r == 0 && json)
		r = report_list(listing.reports, listing.sessions.n,
				&listing.sessions.unreadable);
	else if (r == 0)
		r = print_for_people(&listing);
	listing_release(&listing);
	return r < 0 ? fail_message(r, message) : STATUS_OK;
}

int cmd_list(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		OPTION_ROWS_END,
	};
	bool json = false;
	int option;

	while ((option = option_next(argc, argv, "h", options)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		json = true;
	}
	if (operands_check(argc, argv, 0, 0, "") != 0)
		return STATUS_USAGE;
	return list(json);
}

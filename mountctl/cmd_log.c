#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "mountctl/clock.h"
#include "mountctl/command.h"
#include "mountctl/environment.h"
#include "mountctl/logline.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/report.h"

#define LOG_NAME "denials.jsonl"
#define OLD_LOG_NAME "denials.jsonl.1"
#define LINE_MAX_SIZE (1u << 20) /* no line is as long */
#define PAUSE 200		 /* milliseconds between looks at the log */

/*
 * Showing a line.
 */

struct style {
	bool json;
	bool follows;
	int64_t since; /* milliseconds since the epoch */
	bool headed;   /* the titles have been printed */
};

/* A cell of the table; what comes next may be pushed to the right. */
static void print_cell(const char *text, int width)
{
	int pad = width - text_width(text);

	printf("%s%*s  ", text, pad > 0 ? pad : 0, "");
}

static void print_titles(struct style *style)
{
	if (!style->headed) {
		print_cell("TIME", 19);
		print_cell("PROGRAM", 20);
		print_cell("WHAT", 8);
		print_cell("ERRNO", 6);
		printf("PATH -> TWIN\n");
	}
	style->headed = true;
}

static void print_escaped_cell(const char *text, int width)
{
	autofree char *escaped = text_escape(text ? text : "?");

	print_cell(escaped ? escaped : "?", width);
}

static void print_time(int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[64] = "?";
	struct tm tm;

	if (ms >= 0 && localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	print_cell(text, 19);
}

static void print_program(const struct log_line *line)
{
	autofree char *text = NULL;

	if (asprintf(&text, "%s[%ld]", line->comm ? line->comm : "?",
		     line->pid) < 0)
		text = NULL;
	print_escaped_cell(text, 20);
}

static void print_row(const struct log_line *line)
{
	autofree char *path = text_escape(line->path ? line->path : "?");
	autofree char *twin = line->twin ? text_escape(line->twin) : NULL;
	autofree char *what = line->what ? text_escape(line->what) : NULL;

	print_time(line->time);
	if (line->dropped > 0) {
		printf("%llu more denials, of which the log had no room for "
		       "lines\n",
		       (unsigned long long)line->dropped);
		return;
	}
	print_program(line);
	print_escaped_cell(line->op, 8);
	print_escaped_cell(line->error, 6);
	printf("%s", path ? path : "?");
	if (twin)
		printf(" -> %s", twin);
	if (line->count > 1)
		printf("  %s%llu", text_width("×") == 1 ? "×" : "x",
		       (unsigned long long)line->count);
	if (what)
		printf("  (%s)", what);
	printf("\n");
}

/* 0, or -EINVAL for what isn't a line of a log. */
static int show_line(struct style *style, const char *text)
{
	struct log_line line;
	int r = log_line_parse(text, &line);

	if (r < 0)
		return r;
	if (line.time < style->since) {
		/* is older, or nobody knows */
	} else if (style->json) {
		report_json(text);
		putchar('\n');
	} else {
		print_titles(style);
		print_row(&line);
	}
	log_line_release(&line);
	return 0;
}

/*
 * Reading.
 */

struct reader {
	struct style *style; /* borrowed */
	int dir_fd;	     /* of the state directory */
	int fd;		     /* of the log, or -1 */
	char *text;	     /* LINE_MAX_SIZE: what has come of a line */
	size_t used;
	uint64_t broken; /* lines that weren't */
};

static void reader_release(struct reader *reader)
{
	cleanup_fdp(&reader->fd);
	cleanup_fdp(&reader->dir_fd);
	free(reader->text);
}

static int open_file(struct reader *reader, const char *name)
{
	autofd int fd = openat(reader->dir_fd, name,
			       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	reader->fd = take_fd(&fd);
	return 0;
}

static void take_line(struct reader *reader, const char *line)
{
	if (line[0] && show_line(reader->style, line) < 0)
		reader->broken++;
}

static void take_lines(struct reader *reader)
{
	char *line = reader->text, *end;
	size_t left = reader->used;

	while ((end = memchr(line, '\n', left))) {
		*end = '\0';
		/* A line with a NUL in it ends there, and isn't one. */
		take_line(reader, line);
		left -= (size_t)(end + 1 - line);
		line = end + 1;
	}
	memmove(reader->text, line, left);
	reader->used = left;
	if (left == LINE_MAX_SIZE) {
		reader->used = 0;
		reader->broken++;
	}
}

/* To the end, as it is now. */
static int read_file(struct reader *reader)
{
	ssize_t n;

	do {
		n = read(reader->fd, reader->text + reader->used,
			 LINE_MAX_SIZE - reader->used);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			reader->used += (size_t)n;
			take_lines(reader);
		}
	} while (n != 0);
	return 0;
}

/* Nothing more will come: a line that was begun is none. */
static void close_file(struct reader *reader)
{
	if (reader->used > 0)
		reader->broken++;
	reader->used = 0;
	cleanup_fdp(&reader->fd);
	reader->fd = -1;
}

/* Has the name gone to another file? (If to none, more may come in this.) */
static bool is_replaced(const struct reader *reader)
{
	struct stat opened, named;

	return fstat(reader->fd, &opened) == 0 &&
	       fstatat(reader->dir_fd, LOG_NAME, &named, AT_SYMLINK_NOFOLLOW) ==
		       0 &&
	       (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev);
}

/* What was written since; in the file of before, too, if there is a new one. */
static int read_news(struct reader *reader)
{
	int r = 0;

	if (reader->fd < 0)
		r = open_file(reader, LOG_NAME);
	if (r == 0)
		r = read_file(reader);
	while (r == 0 && is_replaced(reader)) {
		r = read_file(reader);
		close_file(reader);
		if (r == 0)
			r = open_file(reader, LOG_NAME);
		if (r == 0)
			r = read_file(reader);
	}
	return r == -ENOENT ? 0 : r;
}

static int read_old(struct reader *reader)
{
	int r = open_file(reader, OLD_LOG_NAME);

	if (r == 0)
		r = read_file(reader);
	close_file(reader);
	return r == -ENOENT ? 0 : r;
}

static void tell_broken(struct reader *reader)
{
	if (reader->broken > 0)
		warn("%llu lines of the log can't be read",
		     (unsigned long long)reader->broken);
	reader->broken = 0;
}

/* A session that ends writes the last lines before its process ends. */
static int follow(struct reader *reader, const struct record *record)
{
	bool live;
	int r;

	do {
		live = !record || process_is(record->pid, record->start_time);
		r = read_news(reader);
		tell_broken(reader);
		if (fflush(stdout) != 0 || ferror(stdout))
			return 0; /* main.c says so */
		if (r == 0 && live)
			sleep_ms(PAUSE);
	} while (r == 0 && live);
	return r;
}

/*
 * Which log.
 */

struct source {
	struct sessions sessions;
	char *state_dir;
	bool live;
	const struct record *record; /* of a live one; NULL: we are in it */
};

static void source_release(struct source *source)
{
	sessions_release(&source->sessions);
	free(source->state_dir);
}

/* Are we in the session that is meant? Its own log is there, too. */
static bool find_inside(struct source *source, const char *operand)
{
	struct session_spec spec;
	bool found = false;

	session_spec_init(&spec);
	if (environment_session(&spec) == 0 && spec.state_dir &&
	    (!operand || strcmp(operand, spec.name) == 0)) {
		source->state_dir = steal_pointer(&spec.state_dir);
		source->live = found = true;
	}
	session_spec_release(&spec);
	return found;
}

/* The log of a session that has no record, or none that can be read. */
static int find_ended(struct source *source, const char *name, char **message)
{
	autofree char *base = NULL, *path = NULL;
	struct stat st;
	int r = state_base_path(&base);

	if (r < 0)
		return explain(r, message, "cannot find the logs: %s",
			       strerror(-r));
	path = path_join(base, name);
	if (!path)
		return -ENOMEM;
	if (!session_name_is_valid(name) || lstat(path, &st) < 0 ||
	    !S_ISDIR(st.st_mode))
		return explain(-ENOENT, message,
			       "there is no session '%s', and no log of one",
			       name);
	source->state_dir = steal_pointer(&path);
	return 0;
}

static int find_record(struct source *source, const char *operand,
		       const struct record **ret_record, char **message)
{
	int r;

	if (!operand) {
		r = sessions_here(&source->sessions, ret_record, message);
		return r == -ENOENT ? -EINVAL : r;
	}
	return sessions_find(&source->sessions, operand, ret_record, NULL,
			     message);
}

static int find_source(struct source *source, const char *operand,
		       char **message)
{
	const struct record *record = NULL;
	int r;

	if (find_inside(source, operand))
		return 0;
	r = sessions_read(&source->sessions, message);
	if (r == 0)
		r = find_record(source, operand, &record, message);
	if (r == -ENOENT && operand)
		return find_ended(source, operand, message);
	if (r < 0)
		return r;
	if (!record->spec.state_dir)
		return find_ended(source, record->spec.name, message);
	source->state_dir = strdup(record->spec.state_dir);
	source->live = record->live;
	source->record = record;
	return source->state_dir ? 0 : -ENOMEM;
}

static int read_log(struct reader *reader, const struct source *source)
{
	struct style *style = reader->style;
	int r = style->since > INT64_MIN ? read_old(reader) : 0;

	if (r < 0)
		return r;
	if (style->follows && source->live)
		return follow(reader, source->record);
	r = read_news(reader);
	/* What is still being written isn't broken. */
	if (!source->live)
		close_file(reader);
	tell_broken(reader);
	if (r == 0 && !style->json && !style->headed)
		say("there are no denials");
	return r;
}

static int show(const struct source *source, struct style *style)
{
	struct reader reader = {
		.style = style,
		.dir_fd = open(source->state_dir,
			       O_PATH | O_DIRECTORY | O_CLOEXEC),
		.fd = -1,
	};
	int r = reader.dir_fd < 0 ? -errno : 0;

	if (r == 0) {
		reader.text = malloc(LINE_MAX_SIZE);
		r = reader.text ? read_log(&reader, source) : -ENOMEM;
	}
	reader_release(&reader);
	return r < 0 ? fail(r, "cannot read the log in '%s'", source->state_dir)
		     : STATUS_OK;
}

/* "30s", "5m", "2h", "1d" ago, or a time. */
static int parse_since(const char *text, int64_t *ret_since)
{
	static const struct {
		char unit;
		int seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	struct timespec now;
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!isdigit((unsigned char)text[0]) || errno != 0 ||
		    number > 1000000 || end[0] != units[i].unit || end[1])
			continue;
		*ret_since = (int64_t)now.tv_sec * 1000 +
			     now.tv_nsec / 1000000 -
			     (int64_t)number * units[i].seconds * 1000;
		return 0;
	}
	return log_time_parse(text, ret_since);
}

static int show_log(const char *operand, struct style *style)
{
	struct source source = {0};
	autofree char *message = NULL;
	int r = find_source(&source, operand, &message);
	int code = r < 0 ? fail_message(r, message) : show(&source, style);

	source_release(&source);
	return code;
}

int cmd_log(int argc, char **argv)
{
	static const struct option options[] = {
		{"follow", no_argument, NULL, 'f'},
		{"since", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		OPTION_ROWS_END,
	};
	struct style style = {.since = INT64_MIN};
	int option;

	while ((option = option_next(argc, argv, "hf", options)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		style.follows |= option == 'f';
		style.json |= option == 'j';
		if (option == 's' && parse_since(optarg, &style.since) < 0)
			return usage_error("--since takes '30s', '5m', '2h', "
					   "'1d' or a time like "
					   "2026-01-31T12:00:00Z, not '%s'",
					   optarg);
	}
	if (operands_check(argc, argv, 0, 1, "") != 0)
		return STATUS_USAGE;
	return show_log(argv[optind], &style);
}

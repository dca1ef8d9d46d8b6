#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/path.h"
#include "mountctl/baseline.h"
#include "mountctl/command.h"
#include "mountctl/layout.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/report.h"
#include "mountctl/report_stray.h"
#include "mountctl/show_stray.h"

enum format {
	FORMAT_PEOPLE,
	FORMAT_JSON,
	FORMAT_YAML,
};

/*
 * For people: a name, and what is known, on each line.
 */

static void print_field(const char *name, const char *text)
{
	autofree char *escaped = text ? text_escape(text) : NULL;

	if (text)
		printf("%-11s %s\n", name, escaped ? escaped : "?");
}

static void print_state(const struct report *report)
{
	const struct record *record = report->record;
	struct tm tm;
	char since[64] = "";

	if (localtime_r(&record->since, &tm))
		strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", &tm);
	print_field("session", record->spec.name);
	print_field("tier", tier_name(record->spec.tier));
	printf("%-11s %s, since %s\n", "state",
	       session_state_name(report->state), since);
	printf("%-11s %ld\n", "pid", (long)record->pid);
	print_field("command", record->command);
}

static void print_views(const struct session_spec *spec)
{
	for (size_t i = 0; i < spec->n_views; i++) {
		const struct view_spec *view = &spec->views[i];
		autofree char *root = text_escape(view->root);
		autofree char *mountpoint =
			view->mountpoint ? text_escape(view->mountpoint) : NULL;

		if (!root)
			continue;
		if (!mountpoint || strcmp(root, mountpoint) == 0)
			printf("%-11s %s\n", "view", root);
		else
			printf("%-11s %s at %s\n", "view", root, mountpoint);
	}
}

static void print_places(const struct session_spec *spec)
{
	autofree char *directory = session_directory(spec);

	print_field("main", spec->main);
	print_field("git dir", spec->git_dir);
	print_field("worktree", spec->worktree);
	print_field("worktrees", spec->worktrees_dir);
	print_views(spec);
	if (spec->tier == TIER_VIEW)
		print_field("work in", directory);
	for (size_t i = 0; i < spec->native.n; i++)
		print_field("native", spec->native.s[i]);
}

static void print_rules(const struct rules *rules)
{
	int width = 0;

	for (size_t i = 0; i < rules->n; i++) {
		autofree char *path = text_escape(rules->rule[i].path);
		int columns = path ? text_width(path) : 0;

		if (columns > width)
			width = columns;
	}
	printf("rules\n");
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		autofree char *path = text_escape(rule->path);
		autofree char *reason = text_escape(rule->reason);

		if (!path || !reason)
			continue;
		printf("  %-4s %s%*s  %s (%s)%s\n", access_name(rule->access),
		       path, width - text_width(path), "", reason,
		       origin_name(rule->origin),
		       rule_is_effective(rules, rule) ? "" : ", overridden");
	}
}

static void print_counts(const char *title, const struct named_counts *counts)
{
	if (counts->n > 0)
		printf("%s\n", title);
	for (size_t i = 0; i < counts->n; i++) {
		autofree char *name = text_escape(counts->count[i].name);

		printf("  %6llu  %s\n",
		       (unsigned long long)counts->count[i].count,
		       name ? name : "?");
	}
}

static void print_uptime(uint64_t seconds)
{
	unsigned long long s = seconds;

	printf("%-11s ", "uptime");
	if (s >= 86400)
		printf("%llu d ", s / 86400);
	printf("%02llu:%02llu:%02llu\n", s / 3600 % 24, s / 60 % 60, s % 60);
}

static void print_counters(const struct control_status *counters)
{
	const char *separator = " (";

	printf("%-11s %llu\n", "generation",
	       (unsigned long long)counters->generation);
	print_uptime(counters->uptime);
	printf("%-11s %llu", "requests",
	       (unsigned long long)counters->requests_total);
	for (size_t i = 0; i < counters->requests.n; i++) {
		const struct named_count *request =
			&counters->requests.count[i];
		autofree char *name = text_escape(request->name);

		if (!name || request->count == 0)
			continue;
		printf("%s%s %llu", separator, name,
		       (unsigned long long)request->count);
		separator = ", ";
	}
	printf("%s\n", strcmp(separator, " (") == 0 ? "" : ")");
	printf("%-11s %llu\n", "denials",
	       (unsigned long long)counters->denials);
	print_counts("denials by program", &counters->programs);
	print_counts("denials by path", &counters->paths);
}

static void print_processes(const struct holders *processes)
{
	if (processes->n == 0)
		return;
	printf("processes\n");
	for (size_t i = 0; i < processes->n; i++) {
		autofree char *command =
			text_escape(processes->holder[i].command);

		printf("  %ld  %s\n", (long)processes->holder[i].pid,
		       command ? command : "?");
	}
}

static void print_for_people(const struct report *report)
{
	print_state(report);
	print_places(&report->record->spec);
	print_rules(&report->record->spec.rules);
	if (report->counters)
		print_counters(report->counters);
	print_processes(report->processes);
	for (size_t i = 0; i < report->uncovered->n; i++)
		print_field("not covered", report->uncovered->s[i]);
}

/*
 * What is found out beside the record.
 */

static bool is_covered(const struct session_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_views; i++)
		if (path_starts_with(path, spec->views[i].root, NULL))
			return true;
	return rules_governing(&spec->rules, path);
}

/*
 * Worktrees outside of every view that were made since, and so have no rule. In
 * a view that is mounted elsewhere none is covered, and that is said otherwise.
 */
static void find_uncovered(const struct session_spec *spec,
			   struct strings *uncovered)
{
	struct gitrepo repo = {0};
	ssize_t index;

	if (spec->tier != TIER_ENFORCED || !spec->git_dir ||
	    gitrepo_discover(spec->main ? spec->main : spec->git_dir, &repo,
			     &index, NULL) < 0)
		return;
	for (size_t i = 0; i < repo.n_worktrees; i++) {
		const struct worktree *worktree = &repo.worktrees[i];

		if (worktree->exists && !is_covered(spec, worktree->path) &&
		    strings_add(uncovered, worktree->path) < 0)
			break;
	}
	gitrepo_release(&repo);
}

static void explain_no_counters(const struct record *record, int r)
{
	if (record->live)
		warn("the filesystem process %ld doesn't tell its counters: %s",
		     (long)record->pid, strerror(-r));
}

static int print_report(const struct report *report, enum format format)
{
	switch (format) {
	case FORMAT_PEOPLE:
		print_for_people(report);
		return 0;
	case FORMAT_JSON:
		return report_status(report);
	case FORMAT_YAML:
		return report_yaml(report);
	}
	return -EINVAL;
}

static int show(const struct sessions *sessions, const struct record *record,
		enum format format)
{
	struct control_status counters = {0};
	struct holders processes = {0};
	struct strings uncovered = {0};
	struct report report = {
		.record = record,
		.state = session_state(sessions, record),
		.processes = &processes,
		.uncovered = &uncovered,
	};
	int r = record->live ? control_ask_status(record->spec.name, &counters)
			     : -ESRCH;

	if (r == 0)
		report.counters = &counters;
	else
		explain_no_counters(record, r);
	session_processes(sessions, record, &processes);
	find_uncovered(&record->spec, &uncovered);
	r = print_report(&report, format);
	control_status_release(&counters);
	holders_release(&processes);
	strings_release(&uncovered);
	return r < 0 ? fail(r, "cannot report on session '%s'",
			    record->spec.name)
		     : STATUS_OK;
}

/*
 * Which session.
 */

static int find(const struct sessions *sessions, const char *operand,
		const struct record **ret_record, char **message)
{
	int r;

	if (!operand) {
		r = sessions_here(sessions, ret_record, message);
		return r == -ENOENT ? -EINVAL : r;
	}
	if (strings_contain(&sessions->unreadable, operand))
		return explain(-EIO, message,
			       "the record of session '%s' can't be read",
			       operand);
	r = sessions_find(sessions, operand, ret_record, NULL, message);
	if (r == -ENOENT)
		return explain(r, message, "there is no session '%s'", operand);
	return r;
}

/* What has changed in the main checkout since the session began. */
static int show_strays(const struct session_spec *spec,
		       const struct baseline *baseline, enum format format)
{
	struct stray stray = {0};
	int r = stray_look(spec, baseline, &stray);

	if (r == 0 && format == FORMAT_JSON)
		r = report_stray(spec->name, &stray);
	else if (r == 0)
		show_stray(&stray);
	stray_release(&stray);
	return r < 0 ? fail(r, "cannot report on session '%s'", spec->name)
		     : STATUS_OK;
}

/* record may be NULL, for a session that has ended. -ENOENT: no trace of it. */
static int stray_status(const struct record *record, const char *name,
			enum format format)
{
	struct baseline baseline;
	int status, r = baseline_read_named(name, &baseline);

	if (r < 0)
		return record ? show_strays(&record->spec, NULL, format)
			      : -ENOENT;
	status = show_strays(record ? &record->spec : &baseline.spec, &baseline,
			     format);
	baseline_release(&baseline);
	return status;
}

static int status(const char *operand, enum format format, bool stray)
{
	struct sessions sessions = {0};
	const struct record *record = NULL;
	autofree char *message = NULL;
	int r = sessions_read(&sessions, &message);
	int code;

	if (r == 0)
		r = find(&sessions, operand, &record, &message);
	code = r;
	if (stray && r == 0)
		code = stray_status(record, record->spec.name, format);
	else if (stray && r == -ENOENT && operand)
		code = stray_status(NULL, operand, format);
	else if (r == 0)
		code = show(&sessions, record, format);
	if (code < 0)
		code = fail_message(code, message);
	sessions_release(&sessions);
	return code;
}

int cmd_status(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"yaml", no_argument, NULL, 'y'},
		{"stray", no_argument, NULL, 's'},
		OPTION_ROWS_END,
	};
	enum format format = FORMAT_PEOPLE;
	bool stray = false;
	int option;

	while ((option = option_next(argc, argv, "h", options)) != -1) {
		if (option == '?')
			return STATUS_USAGE;
		if (option == 'h')
			return STATUS_HELP;
		if (option == 's')
			stray = true;
		else
			format = option == 'j' ? FORMAT_JSON : FORMAT_YAML;
	}
	if (stray && format == FORMAT_YAML)
		return usage_error("status: --stray has no --yaml");
	if (operands_check(argc, argv, 0, 1, "") != 0)
		return STATUS_USAGE;
	return status(argv[optind], format, stray);
}

#include "mountctl/report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/jsonput.h"
#include "mountctl/layout.h"

#define SCHEMA_VERSION 1

/*
 * Within strings JSON may hold DEL and U+0080 to U+009F as they are, which
 * would drive a terminal. They stand nowhere else.
 */
void report_json(const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		if (s[0] == 0x7f) {
			printf("\\u007f");
		} else if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0) {
			printf("\\u00%02x", s[1]);
			s++;
		} else {
			putchar(s[0]);
		}
	}
}

int report_print(cJSON *object, bool complete)
{
	autofree char *text = complete ? cJSON_Print(object) : NULL;

	cJSON_Delete(object);
	if (!text)
		return -ENOMEM;
	report_json(text);
	putchar('\n');
	return 0;
}

bool report_put_holders(cJSON *object, const char *key,
			const struct holders *holders)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	for (size_t i = 0; holders && i < holders->n; i++) {
		const struct holder *holder = &holders->holder[i];
		cJSON *item = json_append_object(array);

		if (!item || !json_put_number(item, "pid", holder->pid) ||
		    !json_put_text(item, "command", holder->command))
			return false;
	}
	return array;
}

static bool put_directory(cJSON *object, const struct session_spec *spec)
{
	autofree char *directory = session_directory(spec);

	return directory && json_put_text(object, "directory", directory);
}

static bool put_session(cJSON *object, const struct report *report)
{
	const struct record *record = report->record;
	const struct session_spec *spec = &record->spec;
	const struct view_spec *view = spec->n_views > 0 ? spec->views : NULL;

	return json_put_text(object, "session", spec->name) &&
	       json_put_text(object, "tier", tier_name(spec->tier)) &&
	       json_put_text(object, "state",
			     session_state_name(report->state)) &&
	       json_put_number(object, "pid", record->pid) &&
	       json_put_number(object, "since", (double)record->since) &&
	       json_put_text(object, "root", view ? view->root : NULL) &&
	       json_put_text(object, "mountpoint",
			     view ? view->mountpoint : NULL) &&
	       json_put_text(object, "main", spec->main) &&
	       json_put_text(object, "worktree", spec->worktree) &&
	       put_directory(object, spec) &&
	       json_put_text(object, "command", record->command) &&
	       report_put_holders(object, "processes", report->processes);
}

cJSON *report_object(void)
{
	cJSON *object = cJSON_CreateObject();

	if (object)
		json_put_number(object, "schema_version", SCHEMA_VERSION);
	return object;
}

int report_session(const struct report *report)
{
	cJSON *object = report_object();

	return report_print(object, object && put_session(object, report));
}

static bool put_sessions(cJSON *object, const struct report *reports, size_t n)
{
	cJSON *array = cJSON_AddArrayToObject(object, "sessions");

	for (size_t i = 0; array && i < n; i++) {
		cJSON *item = json_append_object(array);

		if (!item || !put_session(item, &reports[i]))
			return false;
	}
	return array;
}

int report_list(const struct report *reports, size_t n,
		const struct strings *unreadable)
{
	cJSON *object = report_object();

	return report_print(
		object,
		object && put_sessions(object, reports, n) &&
			json_put_strings(object, "unreadable", unreadable));
}

static bool put_rules(cJSON *object, const struct rules *rules)
{
	cJSON *array = cJSON_AddArrayToObject(object, "rules");

	for (size_t i = 0; array && i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		cJSON *item = json_append_object(array);

		if (!item || !json_put_text(item, "path", rule->path) ||
		    !json_put_text(item, "access", access_name(rule->access)) ||
		    !json_put_text(item, "origin", origin_name(rule->origin)) ||
		    !json_put_text(item, "reason", rule->reason))
			return false;
	}
	return array;
}

static bool put_views(cJSON *object, const struct session_spec *spec)
{
	cJSON *array = cJSON_AddArrayToObject(object, "views");

	for (size_t i = 0; array && i < spec->n_views; i++) {
		cJSON *item = json_append_object(array);

		if (!item ||
		    !json_put_text(item, "root", spec->views[i].root) ||
		    !json_put_text(item, "mountpoint",
				   spec->views[i].mountpoint))
			return false;
	}
	return array;
}

static bool put_counts(cJSON *object, const char *key,
		       const struct named_counts *counts)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	for (size_t i = 0; array && i < counts->n; i++) {
		cJSON *item = json_append_object(array);

		if (!item ||
		    !json_put_text(item, "name", counts->count[i].name) ||
		    !json_put_number(item, "count",
				     (double)counts->count[i].count))
			return false;
	}
	return array;
}

static bool put_requests(cJSON *object, const struct control_status *counters)
{
	const struct named_counts *counts = &counters->requests;
	cJSON *requests = cJSON_AddObjectToObject(object, "requests");

	for (size_t i = 0; requests && i < counts->n; i++)
		if (!json_put_number(requests, counts->count[i].name,
				     (double)counts->count[i].count))
			return false;
	return requests &&
	       json_put_number(object, "requests_total",
			       (double)counters->requests_total) &&
	       json_put_number(object, "denials", (double)counters->denials) &&
	       json_put_number(object, "uptime", (double)counters->uptime) &&
	       json_put_number(object, "generation",
			       (double)counters->generation) &&
	       put_counts(object, "denials_by_program", &counters->programs) &&
	       put_counts(object, "denials_by_path", &counters->paths);
}

static bool put_counters(cJSON *object, const struct control_status *counters)
{
	static const char *const keys[] = {
		"requests",	      "requests_total",	 "denials",    "uptime",
		"denials_by_program", "denials_by_path", "generation",
	};

	if (counters)
		return put_requests(object, counters);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!cJSON_AddNullToObject(object, keys[i]))
			return false;
	return true;
}

int report_status(const struct report *report)
{
	static const struct strings none;
	const struct session_spec *spec = &report->record->spec;
	const struct strings *uncovered =
		report->uncovered ? report->uncovered : &none;
	cJSON *object = report_object();

	return report_print(
		object,
		object && put_session(object, report) &&
			json_put_text(object, "git_dir", spec->git_dir) &&
			put_views(object, spec) &&
			json_put_strings(object, "native", &spec->native) &&
			put_rules(object, &spec->rules) &&
			json_put_strings(object, "uncovered", uncovered) &&
			put_counters(object, report->counters));
}

/*
 * YAML. A JSON string is one of YAML's, too.
 */

static int print_quoted(const char *bytes)
{
	autofree char *encoded = json_text_encode(bytes), *text = NULL;
	cJSON *item = encoded ? cJSON_CreateString(encoded) : NULL;

	text = item ? cJSON_PrintUnformatted(item) : NULL;
	cJSON_Delete(item);
	if (!text)
		return -ENOMEM;
	report_json(text);
	return 0;
}

/* Single names in the git directory aren't trees; that one is. */
static bool is_tree(const struct session_spec *spec, const struct rule *rule)
{
	return rule->origin != ORIGIN_GIT_GUARD ||
	       (spec->git_dir && strcmp(rule->path, spec->git_dir) == 0);
}

static int print_paths(const char *key, const struct session_spec *spec,
		       bool denied)
{
	const struct rules *rules = &spec->rules;
	size_t n = 0;

	printf("  %s:", key);
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		int r;

		if (!is_tree(spec, rule) ||
		    (rule->access != ACCESS_RW) != denied ||
		    !rule_is_effective(rules, rule))
			continue;
		printf("\n    - ");
		r = print_quoted(rule->path);
		if (r < 0)
			return r;
		n++;
	}
	printf(n > 0 ? "\n" : " []\n");
	return 0;
}

int report_yaml(const struct report *report)
{
	const struct session_spec *spec = &report->record->spec;
	bool enforced =
		spec->tier == TIER_ENFORCED && report->state != SESSION_DEAD;
	int r;

	printf("sandbox:\n  tier: %s\n  launcher: %s\n",
	       enforced ? "enforced" : "none",
	       enforced ? "worktreefs" : "null");
	r = print_paths("deny", spec, true);
	return r < 0 ? r : print_paths("allow", spec, false);
}

int report_why(const char *session, const char *path, enum policy_op op,
	       const struct explanation *explanation)
{
	cJSON *object = report_object();

	return report_print(
		object, object && json_put_text(object, "session", session) &&
				json_put_text(object, "path", path) &&
				json_put_text(object, "operation",
					      policy_op_name(op)) &&
				explanation_put(object, explanation));
}

static bool put_checks(cJSON *object, const char *key,
		       const struct checks *checks)
{
	cJSON *array = cJSON_AddArrayToObject(object, key);

	for (size_t i = 0; array && i < checks->n; i++) {
		const struct check *check = &checks->check[i];
		cJSON *item = json_append_object(array);

		if (!item || !json_put_text(item, "name", check->name) ||
		    !json_put_text(item, "status",
				   check_status_name(check->status)) ||
		    !json_put_text(item, "detail", check->detail) ||
		    !json_put_text(item, "mend", check->mend))
			return false;
	}
	return array;
}

static bool put_proof(cJSON *object, const struct proof *proof)
{
	cJSON *item;

	if (!proof)
		return cJSON_AddNullToObject(object, "proof");
	item = cJSON_AddObjectToObject(object, "proof");
	return item && put_checks(item, "run", &proof->run) &&
	       put_checks(item, "mount", &proof->mount);
}

int report_diagnosis(const struct diagnosis *diagnosis)
{
	const struct proof *proof = diagnosis->proof;
	bool proved = proof && diagnosis->run == TIER_ENFORCED;
	cJSON *object = report_object();

	return report_print(
		object,
		object &&
			json_put_text(object, "tier",
				      tier_name(diagnosis->run)) &&
			json_put_text(object, "mount",
				      tier_name(diagnosis->mount)) &&
			cJSON_AddBoolToObject(object, "proved", proved) &&
			put_checks(object, "checks", diagnosis->checks) &&
			put_proof(object, proof));
}

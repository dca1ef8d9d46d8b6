#include "fs/requests.h"

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/denials.h"
#include "fs/gate.h"
#include "fs/guard.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/explain.h"
#include "fs/lib/path.h"

#define MAX_COUNTS 10 /* programs and paths in a status */

static const char bad_path[] = "\"path\" isn't an absolute path without \".\", "
			       "\"..\" and doubled slashes";

static cJSON *error_answer(const char *message)
{
	cJSON *answer = cJSON_CreateObject();

	cJSON_AddStringToObject(answer, "error", message);
	return answer;
}

/* [{"name": "sed", "count": 7}, ...] */
static void add_counts(cJSON *answer, const char *key,
		       size_t (*get)(struct denial_count *ret, size_t max))
{
	struct denial_count counts[MAX_COUNTS];
	size_t n = get(counts, MAX_COUNTS);
	cJSON *array = cJSON_AddArrayToObject(answer, key);

	for (size_t i = 0; i < n; i++) {
		autofree char *name = json_text_encode(counts[i].name);
		cJSON *item = cJSON_CreateObject();

		cJSON_AddStringToObject(item, "name", name ? name : "?");
		cJSON_AddNumberToObject(item, "count", (double)counts[i].count);
		cJSON_AddItemToArray(array, item);
		free(counts[i].name);
	}
}

static void add_counters(cJSON *answer, struct session *session)
{
	cJSON *requests = cJSON_AddObjectToObject(answer, "requests");
	uint64_t total = 0, denials = 0;
	struct timespec now;

	for (size_t i = 0; i < N_REQUESTS; i++) {
		uint64_t count = 0;

		for (size_t v = 0; v < session->spec.n_views; v++)
			count += __atomic_load_n(
				&session->views[v].view.requests[i],
				__ATOMIC_RELAXED);
		total += count;
		cJSON_AddNumberToObject(requests, request_names[i],
					(double)count);
	}
	for (size_t v = 0; v < session->spec.n_views; v++)
		denials += __atomic_load_n(&session->views[v].view.denials,
					   __ATOMIC_RELAXED);
	clock_gettime(CLOCK_BOOTTIME, &now);
	cJSON_AddNumberToObject(answer, "requests_total", (double)total);
	cJSON_AddNumberToObject(answer, "denials", (double)denials);
	cJSON_AddNumberToObject(answer, "uptime",
				(double)(now.tv_sec - session->started.tv_sec));
}

static void add_generation(cJSON *answer, const struct session *session)
{
	uint64_t generation;

	gate_enter();
	generation = session->generation;
	gate_leave();
	cJSON_AddNumberToObject(answer, "generation", (double)generation);
}

static cJSON *answer_counters(struct session *session, const cJSON *request)
{
	cJSON *answer = cJSON_CreateObject();

	add_counters(answer, session);
	return answer;
}

static cJSON *answer_status(struct session *session, const cJSON *request)
{
	cJSON *answer = answer_counters(session, request);

	add_generation(answer, session);
	add_counts(answer, "denials_by_program", denials_by_program);
	add_counts(answer, "denials_by_path", denials_by_path);
	return answer;
}

static void add_text(cJSON *object, const char *key, const char *bytes)
{
	autofree char *text = json_text_encode(bytes);

	cJSON_AddStringToObject(object, key, text ? text : "?");
}

static cJSON *rule_to_json(const struct rule *rule)
{
	cJSON *object = cJSON_CreateObject();

	add_text(object, "path", rule->path);
	add_text(object, "access", access_name(rule->access));
	add_text(object, "origin", origin_name(rule->origin));
	add_text(object, "judge", judge_name(rule->judge));
	cJSON_AddBoolToObject(object, "pattern", rule->pattern);
	add_text(object, "reason", rule->reason);
	return object;
}

static cJSON *answer_rules(struct session *session, const cJSON *request)
{
	cJSON *answer = cJSON_CreateObject();
	cJSON *array = cJSON_AddArrayToObject(answer, "rules");

	gate_enter();
	cJSON_AddNumberToObject(answer, "generation",
				(double)session->generation);
	for (size_t i = 0; i < session->spec.rules.n; i++)
		cJSON_AddItemToArray(
			array, rule_to_json(&session->spec.rules.rule[i]));
	gate_leave();
	return answer;
}

static cJSON *explain(const struct session *session, const char *path,
		      enum policy_op op)
{
	const struct view *view = session_view_of(session, path);
	struct explanation explanation = {0};
	cJSON *answer;
	int r;

	gate_enter();
	/* Outside of the views it isn't we who hold the rules. */
	r = view ? guard_explain(view, path, op, &explanation)
		 : explain_session(&session->spec, path, op, &explanation);
	gate_leave();
	if (r < 0)
		return error_answer(strerror(-r));
	answer = cJSON_CreateObject();
	if (!explanation_put(answer, &explanation)) {
		cJSON_Delete(answer);
		answer = error_answer("out of memory");
	}
	explanation_release(&explanation);
	return answer;
}

/* The path of a request; NULL if there is none that could be one. */
static char *get_path(const cJSON *request)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "path"));
	autofree char *path = text ? json_text_decode(text) : NULL;

	return path && path_is_clean(path) ? steal_pointer(&path) : NULL;
}

static cJSON *answer_why(struct session *session, const cJSON *request)
{
	const char *word = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "operation"));
	autofree char *path = get_path(request);
	enum policy_op op = OP_WRITE;

	if (!path)
		return error_answer(bad_path);
	if (word && policy_op_parse(word, &op) < 0)
		return error_answer("unknown \"operation\"");
	return explain(session, path, op);
}

/* Ends the process as SIGTERM does. */
static cJSON *answer_shutdown(struct session *session, const cJSON *request)
{
	kill(getpid(), SIGTERM);
	return cJSON_CreateObject();
}

static cJSON *answer_subscribe(struct session *session, const cJSON *request)
{
	return cJSON_CreateObject();
}

static const struct {
	const char *op;
	cJSON *(*answer)(struct session *session, const cJSON *request);
	enum request_kind kind;
	enum access access; /* of a change */
} requests[] = {
	{.op = "status", .answer = answer_status},
	{.op = "counters", .answer = answer_counters},
	{.op = "rules", .answer = answer_rules},
	{.op = "why", .answer = answer_why},
	{.op = "shutdown", .answer = answer_shutdown},
	{.op = "subscribe",
	 .answer = answer_subscribe,
	 .kind = REQUEST_SUBSCRIBE},
	{.op = "allow", .kind = REQUEST_CHANGE, .access = ACCESS_RW},
	{.op = "protect", .kind = REQUEST_CHANGE, .access = ACCESS_RO},
	{.op = "hide", .kind = REQUEST_CHANGE, .access = ACCESS_NONE},
};

/* Takes the answer over and makes it text. */
static char *finish(cJSON *answer)
{
	char *text;

	cJSON_AddNumberToObject(answer, "schema_version", 1);
	cJSON_AddBoolToObject(answer, "ok",
			      !cJSON_HasObjectItem(answer, "error"));
	text = cJSON_PrintUnformatted(answer);
	cJSON_Delete(answer);
	return text;
}

char *request_error(const char *message)
{
	return finish(error_answer(message));
}

void request_release(struct control_request *request)
{
	free(request->answer);
	free(request->path);
	*request = (struct control_request){0};
}

static void answer_op(struct session *session, size_t op, const cJSON *request,
		      struct control_request *ret)
{
	ret->kind = requests[op].kind;
	if (ret->kind != REQUEST_CHANGE) {
		ret->answer = finish(requests[op].answer(session, request));
		return;
	}
	ret->access = requests[op].access;
	ret->path = get_path(request);
	if (ret->path)
		return;
	ret->kind = REQUEST_ANSWERED;
	ret->answer = request_error(bad_path);
}

void request_read(struct session *session, const char *line,
		  struct control_request *ret_request)
{
	cJSON *request = cJSON_Parse(line);
	const char *op = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(request, "op"));
	size_t i = 0;

	*ret_request = (struct control_request){0};
	while (op && i < ARRAY_SIZE(requests) &&
	       strcmp(requests[i].op, op) != 0)
		i++;
	if (op && i < ARRAY_SIZE(requests))
		answer_op(session, i, request, ret_request);
	else
		ret_request->answer = request_error(!request ? "not JSON"
						    : !op    ? "no \"op\""
							  : "unknown \"op\"");
	cJSON_Delete(request);
}

static cJSON *refusal_answer(int r, const struct live_refusal *refusal)
{
	cJSON *answer =
		error_answer(refusal->why ? refusal->why : strerror(-r));
	cJSON *paths = cJSON_AddArrayToObject(answer, refusal->native ? "native"
								      : "open");

	for (size_t i = 0; i < refusal->paths.n; i++) {
		autofree char *text = json_text_encode(refusal->paths.s[i]);

		cJSON_AddItemToArray(paths,
				     cJSON_CreateString(text ? text : "?"));
	}
	return answer;
}

char *request_changed(const struct session *session, int r,
		      const struct live_refusal *refusal, const char *warning)
{
	cJSON *answer;

	if (r < 0)
		return finish(refusal_answer(r, refusal));
	answer = cJSON_CreateObject();
	add_generation(answer, session);
	if (warning)
		cJSON_AddStringToObject(answer, "warning", warning);
	return finish(answer);
}

char *request_dropped(const struct session *session, uint64_t dropped)
{
	cJSON *object = cJSON_CreateObject();
	char *text;

	add_text(object, "session", session->spec.name);
	cJSON_AddNumberToObject(object, "dropped", (double)dropped);
	text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	return text;
}

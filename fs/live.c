#include "fs/live.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/gate.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/log.h"
#include "fs/notify.h"
#include "fs/places.h"

/* How often it is tried while files are open, and nanoseconds in between. */
#define RELEASE_TRIES 8
#define RELEASE_PAUSE 10000000

/* A change on its way. */
struct attempt {
	struct session *session; /* borrowed */
	const struct live_change *change;
	struct live_refusal *refusal;
	struct rules rules;	      /* all of them, with the new one */
	struct policy **policies;     /* one a view; NULL once it is taken */
	struct touched_list *touched; /* the same */
};

void live_refusal_release(struct live_refusal *refusal)
{
	strings_release(&refusal->paths);
	*refusal = (struct live_refusal){0};
}

static int refuse(struct attempt *attempt, int r, const char *why)
{
	attempt->refusal->why = why;
	return r;
}

static size_t n_views(const struct attempt *attempt)
{
	return attempt->session->spec.n_views;
}

static struct view *view_at(const struct attempt *attempt, size_t i)
{
	return &attempt->session->views[i].view;
}

/* ---- the new rules ---------------------------------------------------- */

static const char *reason_of(enum access access)
{
	switch (access) {
	case ACCESS_RW:
		return "set by 'mountctl allow'";
	case ACCESS_RO:
		return "set by 'mountctl protect'";
	case ACCESS_NONE:
		return "set by 'mountctl hide'";
	}
	return "";
}

static struct place find_place(const struct view *view,
			       const struct policy *policy, const char *path)
{
	const char *rest = "";

	path_starts_with(path, view->spec->root, &rest);
	return policy_walk(policy_root(policy), rest);
}

/* In a tree with a cache time-out of its own the rule keeps that. */
static int add_rule(struct attempt *attempt, const struct view *view)
{
	autofree char *path = strdup(attempt->change->path);
	autofree char *reason = strdup(reason_of(attempt->change->access));
	struct place place = find_place(view, view->policy, path ? path : "/");
	const struct rule rule = {
		.path = path,
		.access = attempt->change->access,
		.origin = ORIGIN_LIVE,
		.caching = place_rule(place)->caching,
		.reason = reason,
	};

	return path && reason ? rules_add(&attempt->rules, &rule) : -ENOMEM;
}

static int copy_rules(struct attempt *attempt)
{
	const struct rules *rules = &attempt->session->spec.rules;

	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		int r;

		if (rule->origin == ORIGIN_LIVE &&
		    strcmp(rule->path, attempt->change->path) == 0)
			continue; /* the one to be replaced */
		r = rules_add(&attempt->rules, rule);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_policies(struct attempt *attempt)
{
	attempt->policies =
		calloc(n_views(attempt) + 1, sizeof(*attempt->policies));
	attempt->touched =
		calloc(n_views(attempt) + 1, sizeof(*attempt->touched));
	if (!attempt->policies || !attempt->touched)
		return -ENOMEM;
	for (size_t i = 0; i < n_views(attempt); i++) {
		int r = view_policy_of(view_at(attempt, i), &attempt->rules,
				       &attempt->policies[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- what can't be had ------------------------------------------------ */

/* Directories are opened without a verdict there, and their listings kept. */
static int check_listings(struct attempt *attempt)
{
	for (size_t i = 0; i < n_views(attempt); i++)
		if (!view_at(attempt, i)->asks_opendir &&
		    policy_has_access(attempt->policies[i], ACCESS_NONE))
			return refuse(attempt, -EINVAL,
				      "this session lists directories without "
				      "asking, which only a rule 'none' from "
				      "the start prevents");
	return 0;
}

/* What the policies say to a path in one of the views. */
static enum access access_in(const struct attempt *attempt, const char *path,
			     bool then)
{
	const struct view *view = session_view_of(attempt->session, path);
	size_t i = 0;

	if (!view)
		return ACCESS_RW;
	while (view_at(attempt, i) != view)
		i++;
	return place_access(find_place(
		view, then ? attempt->policies[i] : view->policy, path));
}

/* The real directory answers there, as it was mounted. */
static int check_natives(struct attempt *attempt)
{
	const struct strings *native = &attempt->session->spec.native;
	int r = 0;

	for (size_t i = 0; r == 0 && i < native->n; i++) {
		const char *tree = native->s[i];

		if (path_starts_with(attempt->change->path, tree, NULL) ||
		    access_in(attempt, tree, true) !=
			    access_in(attempt, tree, false))
			r = strings_add(&attempt->refusal->paths, tree);
	}
	if (r < 0 || attempt->refusal->paths.n == 0)
		return r;
	attempt->refusal->native = true;
	return refuse(attempt, -EINVAL,
		      "the real directory serves it, as it was mounted when "
		      "the session started");
}

/* Not under the gate: nothing else changes any of it. */
static int prepare(struct attempt *attempt)
{
	const struct view *view =
		session_view_of(attempt->session, attempt->change->path);
	int r;

	if (!view)
		return refuse(attempt, -EINVAL,
			      "it lies outside of what the session shows");
	r = copy_rules(attempt);
	if (r == 0)
		r = add_rule(attempt, view);
	if (r == 0)
		r = make_policies(attempt);
	if (r == 0)
		r = check_natives(attempt);
	return r < 0 ? r : check_listings(attempt);
}

/* ---- the step --------------------------------------------------------- */

/* Is it in the rule's tree, by its name? */
static bool is_concerned(const struct attempt *attempt, struct view *view,
			 uint64_t nodeid)
{
	autoinode struct inode *inode = inode_get(&view->table, nodeid);
	autofree char *relative = inode ? inode_path(inode, NULL) : NULL;
	autofree char *path =
		relative ? path_join(view->spec->root, relative) : NULL;

	return path && path_starts_with(path, attempt->change->path, NULL);
}

/*
 * Has the kernel write what mappings have changed so far: that was allowed, and
 * tells us which files are mapped.
 */
static int flush_view(const struct attempt *attempt, struct view *view)
{
	autofree uint64_t *ids = NULL;
	size_t n;
	int r = places_list_writable(&view->table, &ids, &n);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (is_concerned(attempt, view, ids[i]))
			notify_inode_now(view, ids[i], true);
	return r;
}

static int flush(const struct attempt *attempt)
{
	int r = 0;

	if (attempt->change->access == ACCESS_RW)
		return 0;
	for (size_t i = 0; r == 0 && i < n_views(attempt); i++)
		r = flush_view(attempt, view_at(attempt, i));
	return r;
}

static const char *why_in_the_way(enum obstacle_kind kind)
{
	switch (kind) {
	case OBSTACLE_PASSTHROUGH:
		return "it is open, and the kernel passes reads and writes on "
		       "by itself";
	case OBSTACLE_MAPPING:
		return "it is open, and has been written through a mapping";
	}
	return "";
}

static int refuse_for(struct attempt *attempt, const struct view *view,
		      const struct obstacles *obstacles)
{
	for (size_t i = 0; i < obstacles->n; i++) {
		char *path = path_join(view->spec->root,
				       obstacles->obstacle[i].path);

		if (!path || strings_take(&attempt->refusal->paths, path) < 0)
			return -ENOMEM;
	}
	return refuse(attempt, -EBUSY,
		      why_in_the_way(obstacles->obstacle[0].kind));
}

static int plan_view(struct attempt *attempt, size_t i)
{
	struct view *view = view_at(attempt, i);
	const struct policy *policy = attempt->policies[i];
	const char *root = view->spec->root, *path = attempt->change->path;
	struct obstacles obstacles = {0};
	struct place changed = {0};
	int r;

	if (path_starts_with(root, path, NULL))
		changed = policy_root(policy);
	else if (path_starts_with(path, root, NULL))
		changed = find_place(view, policy, path);
	places_plan(&view->table, policy_root(policy), changed);
	r = places_find_obstacles(&view->table, &obstacles);
	if (r == 0 && obstacles.n > 0)
		r = refuse_for(attempt, view, &obstacles);
	obstacles_release(&obstacles);
	if (r == 0)
		r = places_list_touched(&view->table, &attempt->touched[i]);
	return r;
}

/* From here on nothing fails. */
static void commit(struct attempt *attempt)
{
	struct rules old = attempt->session->spec.rules;

	for (size_t i = 0; i < n_views(attempt); i++) {
		places_move(&view_at(attempt, i)->table);
		view_take_policy(view_at(attempt, i),
				 steal_pointer(&attempt->policies[i]));
	}
	attempt->session->spec.rules = attempt->rules;
	attempt->session->generation++;
	attempt->rules = old;
}

static void forget_attempt(struct attempt *attempt)
{
	live_refusal_release(attempt->refusal);
	for (size_t i = 0; i < n_views(attempt); i++)
		touched_release(&attempt->touched[i]);
}

static int try_to_change(struct attempt *attempt)
{
	int r = gate_close();

	if (r < 0)
		return refuse(attempt, r,
			      "requests of the session take so long that there "
			      "was no moment without one");
	for (size_t i = 0; r == 0 && i < n_views(attempt); i++)
		r = plan_view(attempt, i);
	if (r == 0)
		commit(attempt);
	gate_open();
	return r;
}

/* The kernel tells of a closed file after close(2) has returned: what is in
 * the way may just be going. */
static int change_rules(struct attempt *attempt)
{
	const struct timespec pause = {.tv_nsec = RELEASE_PAUSE};
	int r = try_to_change(attempt);

	for (int i = 1; r == -EBUSY && i < RELEASE_TRIES; i++) {
		if (attempt->refusal->paths.n == 0)
			break;
		nanosleep(&pause, NULL);
		forget_attempt(attempt);
		r = try_to_change(attempt);
	}
	return r;
}

/* ---- afterwards ------------------------------------------------------- */

/* Has the kernel forget the names? Else they end with their time. */
static bool forget_name(struct view *view, const struct touched *touched)
{
	return !touched->name ||
	       notify_name_now(view, touched->parent, touched->name) != -ENOSYS;
}

static void wait_for_timeout(const struct view *view)
{
	struct timespec pause = {
		.tv_sec = (time_t)view->timeout,
		.tv_nsec = 100000000,
	};

	nanosleep(&pause, NULL);
}

/* Names are few where they all can be told in one step. */
static void invalidate_view(const struct attempt *attempt, struct view *view,
			    const struct touched_list *list)
{
	bool data = attempt->change->access == ACCESS_NONE;
	bool by_name = list->n > 0 && notify_names(view) != 0;
	bool complete = true;

	for (size_t i = 0; i < list->n; i++) {
		notify_inode_now(view, list->touched[i].nodeid, data);
		if (by_name && complete)
			complete = forget_name(view, &list->touched[i]);
	}
	if (!complete)
		wait_for_timeout(view);
}

static void attempt_release(struct attempt *attempt)
{
	for (size_t i = 0; i < n_views(attempt); i++) {
		if (attempt->policies)
			policy_free(attempt->policies[i]);
		if (attempt->touched)
			touched_release(&attempt->touched[i]);
	}
	free(attempt->policies);
	free(attempt->touched);
	rules_release(&attempt->rules);
}

int live_change(struct session *session, const struct live_change *change,
		struct live_refusal *ret_refusal)
{
	struct attempt attempt = {
		.session = session,
		.change = change,
		.refusal = ret_refusal,
	};
	int r;

	*ret_refusal = (struct live_refusal){0};
	r = prepare(&attempt);
	if (r == 0)
		r = flush(&attempt);
	if (r == 0)
		r = change_rules(&attempt);
	for (size_t i = 0; r == 0 && i < n_views(&attempt); i++)
		invalidate_view(&attempt, view_at(&attempt, i),
				&attempt.touched[i]);
	attempt_release(&attempt);
	return r;
}

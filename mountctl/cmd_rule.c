/*
 * allow, protect and hide: rules that change while a session lives.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/command.h"
#include "mountctl/control.h"
#include "mountctl/environment.h"
#include "mountctl/layout.h"
#include "mountctl/options.h"
#include "mountctl/output.h"
#include "mountctl/resolve.h"
#include "mountctl/sessions.h"

struct change {
	const struct sessions *sessions;
	const struct session_spec *spec; /* of record */
	const struct record *record;
	enum access access;
	struct resolved place; /* whose rule it is */
	char **message;
};

/*
 * Which path is meant.
 */

/* As for rules on the command line: relative ones are relative to the root. */
static const char *base_of(const struct session_spec *spec)
{
	for (size_t i = 0; spec->main && i < spec->n_views; i++)
		if (path_starts_with(spec->main, spec->views[i].root, NULL))
			return spec->views[i].root;
	if (spec->main)
		return spec->main;
	return spec->n_views > 0 ? spec->views[0].root : "/";
}

/* No view is entered: it might never answer. */
static int resolve(struct change *change, const char *path)
{
	const struct view_mounts *mounts = &change->sessions->mounts;
	struct strings stops = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < mounts->n; i++)
		r = strings_add(&stops, mounts->mount[i].mountpoint);
	if (r == 0)
		r = path_resolve(base_of(change->spec), path, &stops,
				 &change->place);
	strings_release(&stops);
	return r < 0 ? explain(r, change->message, "cannot look up '%s': %s",
			       path, strerror(-r))
		     : 0;
}

static int find_path(struct change *change, const char *given)
{
	autofree char *behind = NULL;
	int r;

	if (given[0] == '\0')
		return explain(-EINVAL, change->message, "the path is empty");
	r = resolve(change, given);
	if (r < 0)
		return r;
	behind = session_behind(change->spec, change->place.path);
	if (!behind)
		return 0;
	resolved_release(&change->place);
	return resolve(change, behind);
}

/* A link that the session could have put there mustn't open anything. */
static int check_links(const struct change *change)
{
	const struct rules *rules = &change->spec->rules;
	const struct strings *links = &change->place.links;

	for (size_t i = 0; change->access == ACCESS_RW && i < links->n; i++) {
		const struct rule *rule = rules_governing(rules, links->s[i]);

		if (rule && rule->access == ACCESS_RW)
			return explain(-EINVAL, change->message,
				       "the symlink '%s', which the session "
				       "can change, leads to '%s': name that "
				       "itself",
				       links->s[i], change->place.path);
	}
	return 0;
}

/*
 * Who is in the way.
 */

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

/* Those that have one of the paths open, or (mapped) can store to it. */
static int find_holders(const struct change *change,
			const struct strings *paths, bool mapped,
			struct holders *ret_holders)
{
	struct strings seen = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++) {
		char *path = session_seen(change->spec, paths->s[i]);

		r = path ? strings_take(&seen, path) : -ENOMEM;
	}
	if (r == 0)
		r = holders_within(&change->record->devices, &seen, mapped,
				   ret_holders);
	strings_release(&seen);
	return r;
}

/*
 * What is stored through a mapping reaches us when the kernel writes it back,
 * and who stored it doesn't hear that it is refused.
 */
static int check_mappings(const struct change *change)
{
	struct strings paths = {.s = (char *[]){change->place.path, NULL},
				.n = 1};
	struct holders holders = {0};
	int r;

	if (change->access == ACCESS_RW)
		return 0;
	r = find_holders(change, &paths, true, &holders);
	if (r == 0 && holders.n > 0) {
		say("'%s' is mapped for writing by these processes, whose "
		    "stores can't be refused any more",
		    change->place.path);
		name_holders(&holders);
		r = -EBUSY;
	}
	holders_release(&holders);
	return r;
}

static void name_natives(const struct change *change,
			 const struct strings *natives)
{
	struct holders holders = {0};

	for (size_t i = 0; i < natives->n; i++)
		detail("native: %s", natives->s[i]);
	if (session_processes(change->sessions, change->record, &holders) == 0)
		name_holders(&holders);
	holders_release(&holders);
	detail("a session started with '--native none' can have it");
}

static void name_open(const struct change *change, const struct strings *open)
{
	struct holders holders = {0};

	for (size_t i = 0; i < open->n; i++)
		detail("open: %s", open->s[i]);
	if (find_holders(change, open, false, &holders) == 0)
		name_holders(&holders);
	holders_release(&holders);
}

static void tell_refusal(const struct change *change,
			 const struct control_refusal *refusal)
{
	say("the rule for '%s' can't be changed now: %s", change->place.path,
	    refusal->why);
	if (refusal->native.n > 0)
		name_natives(change, &refusal->native);
	if (refusal->open.n > 0)
		name_open(change, &refusal->open);
	if (change->access == ACCESS_NONE && refusal->native.n == 0 &&
	    refusal->open.n == 0)
		detail("a session can hide things later if it is started with "
		       "a --none rule, be it for a name that doesn't exist");
}

/*
 * Asking for it.
 */

static int ask(const struct change *change)
{
	struct control_refusal refusal = {0};
	autofree char *warning = NULL;
	const char *name = change->spec->name;
	int r = control_change(name, change->place.path, change->access,
			       &warning, &refusal);

	if (r == -EBUSY) {
		tell_refusal(change, &refusal);
		control_refusal_release(&refusal);
		return STATUS_FAILURE;
	}
	if (r < 0)
		return fail(r, "cannot change the rules of session '%s'", name);
	if (warning)
		warn("%s", warning);
	return STATUS_OK;
}

static int change_rule(struct change *change, const char *path)
{
	int r = find_path(change, path);

	if (r == 0)
		r = check_links(change);
	if (r < 0)
		return fail_message(r, *change->message);
	r = check_mappings(change);
	if (r == -EBUSY)
		return STATUS_FAILURE;
	if (r < 0)
		return fail(r, "cannot see who has '%s' mapped",
			    change->place.path);
	return ask(change);
}

static int find(const struct sessions *sessions, const char *name,
		const struct record **ret_record, char **message)
{
	int r = sessions_find(sessions, name, ret_record, NULL, message);

	if (r == -ENOENT)
		return explain(r, message, "there is no session '%s'", name);
	if (r == 0 && !(*ret_record)->live)
		return explain(-ESRCH, message, "the session '%s' is dead",
			       name);
	return r;
}

static bool is_inside(void)
{
	struct session_spec spec;
	int r;

	session_spec_init(&spec);
	r = environment_session(&spec);
	session_spec_release(&spec);
	return r >= 0;
}

static int run(const char *name, const char *path, enum access access)
{
	struct sessions sessions = {0};
	autofree char *message = NULL;
	struct change change = {
		.sessions = &sessions,
		.access = access,
		.message = &message,
	};
	int r = sessions_read(&sessions, &message), status;

	if (r == 0)
		r = find(&sessions, name, &change.record, &message);
	if (r == 0) {
		change.spec = &change.record->spec;
		status = change_rule(&change, path);
	} else {
		status = fail_message(r, message);
		if (is_inside())
			detail("rules are changed from outside of every "
			       "session");
	}
	resolved_release(&change.place);
	sessions_release(&sessions);
	return status;
}

static int read_and_run(int argc, char **argv, enum access access)
{
	static const struct option rows[] = {OPTION_ROWS_END};
	int option = option_next(argc, argv, "h", rows);

	if (option == '?')
		return STATUS_USAGE;
	if (option == 'h')
		return STATUS_HELP;
	if (operands_check(argc, argv, 2, 2, "a SESSION and a PATH") != 0)
		return STATUS_USAGE;
	return run(argv[optind], argv[optind + 1], access);
}

int cmd_allow(int argc, char **argv)
{
	return read_and_run(argc, argv, ACCESS_RW);
}

int cmd_protect(int argc, char **argv)
{
	return read_and_run(argc, argv, ACCESS_RO);
}

int cmd_hide(int argc, char **argv)
{
	return read_and_run(argc, argv, ACCESS_NONE);
}

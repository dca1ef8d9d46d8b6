/*
 * The hook of a harness: whatever goes wrong here, the answer is one that
 * stops the call, because any other failure of a hook lets it through.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/process.h"
#include "mountctl/command.h"
#include "mountctl/hook_input.h"
#include "mountctl/hook_rules.h"
#include "mountctl/hook_session.h"
#include "mountctl/hook_worktree.h"
#include "mountctl/options.h"
#include "mountctl/output.h"

/* The answer of a hook that denies; harnesses read no other status so. */
#define STATUS_DENIED 2

/* How long a verdict may take, in seconds: the harness waits longer. */
#define TIME_LIMIT 8

#define SIGNAL_STACK (64u << 10)

/* What a failure of our own ends with. */
static volatile sig_atomic_t failure_status = STATUS_DENIED;

static void end_by_signal(int number)
{
	static const char text[] = "mountctl: the hook failed, or took too "
				   "long: there is no verdict\n";

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(failure_status);
}

/* On a stack of its own: ours may be what ran out. */
static void catch_signals(void)
{
	static const int signals[] = {
		SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT,
		SIGSYS,	 SIGTRAP, SIGXCPU, SIGXFSZ, SIGALRM,
		SIGPIPE, SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
	};
	struct sigaction action = {
		.sa_handler = end_by_signal,
		.sa_flags = SA_ONSTACK | (int)SA_RESETHAND,
	};
	stack_t stack = {.ss_size = SIGNAL_STACK};
	sigset_t none;

	stack.ss_sp = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp != MAP_FAILED)
		sigaltstack(&stack, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

enum {
	OPT_DENY = 256,
	OPT_ALLOW,
	OPT_POLICY,
	OPT_FORMAT,
	OPT_FAIL,
	OPT_BASE,
	OPT_SESSION_FIRST,
	OPT_EXPLICIT,
};

static const struct option long_options[] = {
	{"name", required_argument, NULL, 'n'},
	{"deny", required_argument, NULL, OPT_DENY},
	{"allow", required_argument, NULL, OPT_ALLOW},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"fail", required_argument, NULL, OPT_FAIL},
	{"base", required_argument, NULL, OPT_BASE},
	{"session-first", no_argument, NULL, OPT_SESSION_FIRST},
	{"explicit", no_argument, NULL, OPT_EXPLICIT},
	OPTION_ROWS_END,
};

struct hook {
	const char *name;   /* -n, or NULL; this and the next two borrowed */
	const char *policy; /* or NULL */
	const char *base;   /* of worktrees that are made, or NULL */
	bool session_first; /* a session around counts, and lists do not then */
	bool explicitly;    /* answers on stdout, too, to those who want it */
	bool has_format;
	enum hook_format format;
	struct strings *words; /* operands belong to this list; or NULL */
	struct hook_rules rules;
	struct hook_input input;
};

static void hook_release(struct hook *hook)
{
	hook_rules_release(&hook->rules);
	hook_input_release(&hook->input);
}

/*
 * Arguments.
 */

static int take_word(struct hook *hook, const char *word)
{
	if (!hook->words)
		return usage_error("hook: '%s' is more than it takes; see "
				   "'mountctl hook --help'",
				   word);
	if (!word[0])
		return usage_error("hook: a path is empty");
	if (strings_add(hook->words, word) < 0)
		return usage_error("hook: out of memory");
	return STATUS_OK;
}

static int take_list(struct hook *hook, struct strings *words, const char *word)
{
	hook->words = words;
	return take_word(hook, word);
}

static int take_fail(const char *word)
{
	if (strcmp(word, "open") != 0 && strcmp(word, "closed") != 0)
		return usage_error("hook: --fail takes 'open' or 'closed', "
				   "not '%s'",
				   word);
	failure_status = word[0] == 'o' ? STATUS_OK : STATUS_DENIED;
	return STATUS_OK;
}

static int take_format(struct hook *hook, const char *word)
{
	hook->has_format = true;
	if (hook_format_parse(word, &hook->format) < 0)
		return usage_error("hook: --format takes 'claude', 'codex', "
				   "'gemini', 'cursor' or 'copilot', not '%s'",
				   word);
	return STATUS_OK;
}

static int take_option(struct hook *hook, int option, const char *argument)
{
	if (option != 1)
		hook->words = NULL;
	switch (option) {
	case 1:
		return take_word(hook, argument);
	case 'n':
		hook->name = argument;
		return STATUS_OK;
	case OPT_DENY:
		return take_list(hook, &hook->rules.list.deny, argument);
	case OPT_ALLOW:
		return take_list(hook, &hook->rules.list.allow, argument);
	case OPT_POLICY:
		hook->policy = argument;
		return STATUS_OK;
	case OPT_FORMAT:
		return take_format(hook, argument);
	case OPT_FAIL:
		return take_fail(argument);
	case OPT_BASE:
		hook->base = argument;
		return STATUS_OK;
	case OPT_SESSION_FIRST:
		hook->session_first = true;
		return STATUS_OK;
	case OPT_EXPLICIT:
		hook->explicitly = true;
		return STATUS_OK;
	case 'h':
		return STATUS_HELP;
	default:
		return STATUS_USAGE;
	}
}

static int take_arguments(struct hook *hook, int argc, char **argv)
{
	int option, status = STATUS_OK;

	while (status == STATUS_OK &&
	       (option = option_next(argc, argv, "-n:h", long_options)) != -1)
		status = take_option(hook, option, optarg);
	if (status == STATUS_OK)
		status = operands_check(argc, argv, 0, 0, "nothing");
	if (status == STATUS_OK && hook->rules.list.allow.n > 0 &&
	    hook->rules.list.deny.n == 0)
		status = usage_error("hook: --allow without --deny");
	return status;
}

/*
 * Answers.
 */

static int failed(int r, const char *message)
{
	say("%s", message ? message : strerror(-r));
	return failure_status;
}

/* What the command line names. */
static int find_named(struct hook *hook, char **message)
{
	int r = denylist_resolve(&hook->rules.list, message);

	if (r == 0 && hook->policy && !hook_policy_is_off()) {
		r = hook_policy_read(hook->policy, &hook->rules.policy,
				     message);
		hook->rules.has_policy = r == 0;
	}
	if (r == 0 && hook->name)
		r = hook_rules_add_named(&hook->rules, hook->name, message);
	return r;
}

static int find_rules(struct hook *hook, char **message)
{
	bool named = hook->name || hook->policy || hook->rules.list.deny.n > 0;
	int r = 0;

	if (!named || hook->session_first)
		r = hook_rules_find(&hook->rules, &hook->input.places, message);
	if (r < 0)
		return r;
	if (hook->session_first && hook->rules.n_sessions > 0) {
		denylist_release(&hook->rules.list);
		return 0;
	}
	return named ? find_named(hook, message) : 0;
}

static enum hook_format format_of(const struct hook *hook)
{
	return hook->has_format ? hook->format : hook->input.format;
}

static void deny(const struct hook *hook, const struct hook_denial *denial)
{
	const char *why = denial->why ? denial->why : "denied";
	autofree char *answer =
		hook->explicitly
			? hook_answer(format_of(hook), why, denial->twin)
			: NULL;

	say("%s", why);
	if (denial->twin)
		detail("in this worktree it is '%s': use that path",
		       denial->twin);
	if (answer)
		printf("%s\n", answer);
}

static int answer_call(struct hook *hook)
{
	autofree char *message = NULL;
	struct hook_denial denial = {0};
	int r = find_rules(hook, &message);

	if (r == 0)
		r = hook_rules_judge(&hook->rules, &hook->input, &denial,
				     &message);
	if (r < 0)
		return failed(r, message);
	if (r > 0)
		return STATUS_OK;
	deny(hook, &denial);
	hook_denial_release(&denial);
	return STATUS_DENIED;
}

/* A model that isn't told anything is guarded all the same. */
static int answer_start(struct hook *hook)
{
	autofree char *message = NULL, *text = NULL, *answer = NULL;
	int r = find_rules(hook, &message);

	if (r < 0) {
		say("%s", message ? message : strerror(-r));
		return STATUS_OK;
	}
	text = hook_rules_tell(&hook->rules);
	if (text)
		answer = hook_context(hook->input.format, text);
	if (answer)
		fputs(answer, stdout);
	return STATUS_OK;
}

/* The harness goes on under another of its own sessions. */
static bool goes_on(const char *reason)
{
	return reason &&
	       (strcmp(reason, "clear") == 0 || strcmp(reason, "resume") == 0);
}

/*
 * Only a session that was named is the harness's to end; and nobody waits. One
 * behind run ends by itself.
 */
static int answer_end(const struct hook *hook)
{
	struct record record;
	int pidfd;

	if (!hook->name || goes_on(hook->input.reason))
		return STATUS_OK;
	record_init(&record);
	if (record_read(hook->name, &record) == 0 && record.live &&
	    record.spec.tier == TIER_VIEW) {
		pidfd = process_open(record.pid, record.start_time);
		if (pidfd >= 0) {
			syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
			close(pidfd);
		}
	}
	record_release(&record);
	return STATUS_OK;
}

/* The session that has a say in where worktrees are made; NULL: none has. */
static const struct session_spec *place_for_worktrees(const struct hook *hook)
{
	const struct hook_rules *rules = &hook->rules;
	const struct session_spec *spec =
		rules->n_sessions > 0 ? &rules->sessions[0].spec : NULL;

	return spec && (rules->inside || spec->worktrees_dir) ? spec : NULL;
}

/* Where the repository is found: not in a view of it. */
static const char *place_of_repository(const struct hook *hook)
{
	const struct hook_rules *rules = &hook->rules;
	const struct session_spec *spec =
		rules->n_sessions > 0 ? &rules->sessions[0].spec : NULL;

	if (spec && !rules->inside && spec->main)
		return spec->main;
	return hook->input.places.s[0];
}

/*
 * The harness's own process runs already and can't be put behind the guard: it
 * gets a view to work in. *path is that then.
 */
static int guard_worktree(const struct hook *hook, char **path, bool made,
			  char **message)
{
	char *directory = NULL;
	int r = hook_session_start(*path, hook->input.name, &directory,
				   message);

	if (r == 0) {
		free(*path);
		*path = directory;
		return 0;
	}
	if (failure_status != STATUS_OK) {
		if (made)
			hook_worktree_undo(*path);
		return r;
	}
	warn("NO GUARD for '%s': %s", *path,
	     *message ? *message : strerror(-r));
	return 0;
}

static int create(struct hook *hook, char **ret_path, char **message)
{
	const struct session_spec *spec;
	int r = find_rules(hook, message);

	if (r == 0 && (!hook->input.name || hook->input.places.n == 0))
		r = explain(-EINVAL, message,
			    "the hook's input is malformed: 'name' and 'cwd' "
			    "are missing");
	if (r < 0)
		return r;
	spec = place_for_worktrees(hook);
	r = hook_worktree_create(spec, place_of_repository(hook),
				 hook->input.name, hook->base, ret_path,
				 message);
	if (r < 0 || spec)
		return r;
	return guard_worktree(hook, ret_path, r == 1, message);
}

/* Any status but 0 has the harness go without the worktree. */
static int answer_create(struct hook *hook)
{
	autofree char *message = NULL, *path = NULL;
	int r = create(hook, &path, &message);

	if (r < 0) {
		say("cannot make the worktree '%s': %s",
		    hook->input.name ? hook->input.name : "",
		    message ? message : strerror(-r));
		return STATUS_DENIED;
	}
	printf("%s\n", path);
	return STATUS_OK;
}

/* It can't refuse: what stays is told. */
static int answer_remove(struct hook *hook)
{
	const char *path = hook->input.worktree_path;

	/* Whatever these are, and be it a view that has died: */
	find_rules(hook, NULL);
	if (!path || path[0] != '/')
		say("the hook's input is malformed: 'worktree_path' is "
		    "missing");
	else
		hook_session_remove(path, hook->rules.inside);
	return STATUS_OK;
}

static int answer(struct hook *hook)
{
	/* Making a worktree takes as long as it takes. */
	if (hook->input.event != HOOK_CALL)
		alarm(0);
	switch (hook->input.event) {
	case HOOK_CALL:
		return answer_call(hook);
	case HOOK_SESSION_START:
		return answer_start(hook);
	case HOOK_SESSION_END:
		return answer_end(hook);
	case HOOK_WORKTREE_CREATE:
		return answer_create(hook);
	case HOOK_WORKTREE_REMOVE:
		return answer_remove(hook);
	case HOOK_OTHER:
		return STATUS_OK;
	}
	return failure_status;
}

static int read_input(struct hook *hook, char **message)
{
	autofree char *text = NULL;
	size_t size = 0;
	int r = read_fd(STDIN_FILENO, HOOK_INPUT_MAX, &text, &size);

	if (r == -EFBIG)
		return explain(r, message,
			       "the hook's input is larger than %u bytes",
			       HOOK_INPUT_MAX);
	if (r < 0)
		return explain(r, message, "cannot read the hook's input: %s",
			       strerror(-r));
	return hook_input_parse(text, size,
				hook->has_format ? &hook->format : NULL,
				&hook->input, message);
}

/* A call that is let through for whatever reason. */
static void allow(const struct hook *hook)
{
	autofree char *text = NULL;

	if (!hook->explicitly || hook->input.event != HOOK_CALL)
		return;
	text = hook_answer(format_of(hook), NULL, NULL);
	if (text)
		printf("%s\n", text);
}

static int judge(struct hook *hook)
{
	autofree char *message = NULL;
	int r = read_input(hook, &message);
	int status = r < 0 ? failed(r, message) : answer(hook);

	if (status == STATUS_OK)
		allow(hook);
	return status;
}

int cmd_hook(int argc, char **argv)
{
	struct hook hook = {0};
	int status;

	catch_signals();
	alarm(TIME_LIMIT);
	status = take_arguments(&hook, argc, argv);
	if (status == STATUS_OK)
		status = judge(&hook);
	alarm(0);
	hook_release(&hook);
	return status;
}

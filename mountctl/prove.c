#include "mountctl/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "fs/lib/record.h"
#include "mountctl/attempts.h"
#include "mountctl/child.h"
#include "mountctl/clock.h"
#include "mountctl/mounts.h"
#include "mountctl/output.h"
#include "mountctl/scratch.h"

/* How long a session may take to be gone. */
#define END_MS 20000

#define TEXT_MAX (1u << 20)

void proof_release(struct proof *proof)
{
	checks_release(&proof->run);
	checks_release(&proof->mount);
}

/* One session, and what was found out about it. */
struct trial {
	const struct scratch *scratch; /* borrowed */
	const char *session;
	struct checks *steps; /* borrowed */
	int signals;
	char *before;	      /* owned; the main checkout as it was */
	struct record record; /* as it was while the session lived */
};

static void step(struct trial *trial, const char *name, bool passed,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));
static void step(struct trial *trial, const char *name, bool passed,
		 const char *format, ...)
{
	autofree char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	check_add(trial->steps, name, passed ? CHECK_OK : CHECK_FAIL, "%s",
		  text ? text : "out of memory");
}

/*
 * The repository
 */

static int write_files(const char *directory)
{
	autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 || mkdirat(dir, ATTEMPTS_DIRECTORY, 0755) < 0)
		return -errno;
	for (size_t i = 0; i < attempts_n_files; i++) {
		const char *name = attempts_files[i];
		autofd int fd =
			openat(dir, name,
			       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		int r = fd < 0 ? -errno : write_all(fd, name, strlen(name));

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_repository(const struct scratch *scratch, char **message)
{
	const char *main = scratch->main;
	const char *const commands[][10] = {
		{"init", "-q", "-b", "main", "--template=", main},
		{"-C", main, "config", "user.name", "doctor"},
		{"-C", main, "config", "user.email", "doctor@invalid"},
		{"-C", main, "add", "-A"},
		{"-C", main, "-c", "core.hooksPath=/dev/null", "-c",
		 "commit.gpgSign=false", "commit", "-q", "-mfirst"},
		{"-C", main, "worktree", "add", "-q", "-b", "work",
		 scratch->worktree},
	};
	autofree char *hooks = path_join(main, ".git/hooks");
	int r = hooks ? write_files(main) : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(commands) && r == 0; i++) {
		autogitoutput struct git_output output = {0};

		r = git_run(commands[i], &output);
		if (r == 0 && output.status != 0)
			return explain(-EIO, message,
				       "cannot make a repository: %s",
				       output.err);
	}
	if (r == 0 && mkdir(hooks, 0755) < 0 && errno != EEXIST)
		r = -errno;
	return r < 0 ? explain(r, message, "cannot make a repository: %s",
			       strerror(-r))
		     : 0;
}

/*
 * What the main checkout is: every name in it, what stat tells, and content
 */

/* Of the git directory; the rest of it may change. */
static const char *const held[] = {"config", "HEAD", "index",
				   "refs/heads/main"};

static void describe_file(FILE *out, const char *path, const struct stat *st)
{
	autofree char *text = NULL;
	size_t size = 0;

	fprintf(out, "%s %lu %o %lu %ld %ld.%09ld %ld.%09ld\n", path,
		(unsigned long)st->st_ino, st->st_mode,
		(unsigned long)st->st_nlink, (long)st->st_size,
		(long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		(long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
	if (S_ISREG(st->st_mode) &&
	    read_file_at(AT_FDCWD, path, TEXT_MAX, &text, &size) == 0)
		fwrite(text, size, 1, out);
}

static void describe_tree(FILE *out, const char *top)
{
	autofree char *path = strdup(top);
	char *const paths[] = {path, NULL};
	FTS *tree =
		path ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
	FTSENT *entry;

	while (tree && (entry = fts_read(tree))) {
		if (entry->fts_level == 1 &&
		    (strcmp(entry->fts_name, ".git") == 0 ||
		     strcmp(entry->fts_name, "wt") == 0))
			fts_set(tree, entry, FTS_SKIP);
		else if (entry->fts_info != FTS_DP)
			describe_file(out, entry->fts_path, entry->fts_statp);
	}
	if (tree)
		fts_close(tree);
}

/* Allocated; NULL when out of memory. */
static char *describe_main(const struct scratch *scratch)
{
	autofree char *git_dir = path_join(scratch->main, ".git");
	autofree char *hooks = git_dir ? path_join(git_dir, "hooks") : NULL;
	char *text = NULL;
	size_t size;
	FILE *out = hooks ? open_memstream(&text, &size) : NULL;

	if (!out)
		return NULL;
	describe_tree(out, scratch->main);
	describe_tree(out, hooks);
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		autofree char *path = path_join(git_dir, held[i]);
		struct stat st;

		if (path && lstat(path, &st) == 0)
			describe_file(out, path, &st);
	}
	return fclose(out) == 0 ? text : NULL;
}

/*
 * What came out of the attempts
 */

static const struct other {
	const char *name;
	const char *step;
	bool run_only;
	const char *good, *bad;
} others[] = {
	{"native", "native", true, "the real directory serves the worktree",
	 "the worktree is served by FUSE"},
	{"commit", "commit", false, "a commit in the worktree works",
	 "git can't commit in the worktree"},
	{"hook", "hook", false, "a hook can't be planted",
	 "a hook could be planted"},
	{"config", "config", false, "core.hooksPath can't be set",
	 "core.hooksPath could be set"},
	{"branch", "branch", false, "main's branch can't be moved",
	 "main's branch could be moved"},
};

static bool is_run(const struct trial *trial)
{
	return strcmp(trial->session, "run") == 0;
}

static void judge_change(struct trial *trial, const char *name, int in_main,
			 int in_worktree)
{
	/* Attributes of the user's; not every file system has them. */
	bool unknown = in_worktree == EOPNOTSUPP &&
		       (in_main == EROFS || in_main == EOPNOTSUPP);

	if (unknown)
		step(trial, name, true, "not known to the file system");
	else if (in_main == EROFS && in_worktree == 0)
		step(trial, name, true,
		     "refused in main with EROFS, made in the worktree");
	else if (in_main == EROFS)
		step(trial, name, false, "refused in the worktree, too: %s",
		     strerror(in_worktree));
	else if (in_main == 0)
		step(trial, name, false, "MADE IN MAIN");
	else
		step(trial, name, false,
		     "fails in main, but otherwise than by the guard: %s",
		     strerror(in_main));
}

static void judge_other(struct trial *trial, const char *name, int result)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (strcmp(others[i].name, name) != 0 ||
		    (others[i].run_only && !is_run(trial)))
			continue;
		if (result == 0)
			step(trial, others[i].step, true, "%s", others[i].good);
		else
			step(trial, others[i].step, false, "%s (%d)",
			     others[i].bad, result);
	}
}

/* Reads the lines of attempts.h. */
static void judge(struct trial *trial, const struct child *child)
{
	char *line, *rest = child->text;

	while (rest && (line = strsep(&rest, "\n"))) {
		int one, two;
		char name[32];
		const char *known;

		if (sscanf(line, "=%31s %d", name, &one) == 2)
			judge_other(trial, name, one);
		else if (sscanf(line, "%31s %d %d", name, &one, &two) == 3 &&
			 (known = attempts_change(name)))
			judge_change(trial, known, one, two);
	}
}

/* Why a process of ours didn't do what it shall. */
static void step_failed(struct trial *trial, const char *name, int r,
			const struct child *child)
{
	autofree char *said = child ? child_complaint(child) : NULL;

	if (said)
		step(trial, name, false, "%s", said);
	else if (r < 0)
		step(trial, name, false, "%s", strerror(-r));
	else
		step(trial, name, false, "ended with status %d", r);
}

/* With the process that attempts; r: 0 or the error of its start. */
static void attend(struct trial *trial, struct child *child)
{
	int r = child_read(child, "."), seen;

	seen = record_read(trial->session, &trial->record);
	if (r == 0) {
		judge(trial, child);
		step(trial, "record", seen == 0 && trial->record.live,
		     seen == 0 ? "the session lives, and has its record"
			       : "there is no record of the session");
	}
	if (r == -EPIPE || r == 0) {
		int status = child_finish(child);

		if (r < 0 || status != 0)
			step_failed(trial, "session", status, child);
		return;
	}
	step_failed(trial, "session", r, child);
}

/*
 * What is left
 */

static bool is_mounted(const struct scratch *scratch)
{
	struct view_mounts mounts = {0};
	bool found = view_mounts_read(0, &mounts) < 0;

	for (size_t i = 0; i < mounts.n; i++)
		found |= path_starts_with(mounts.mount[i].mountpoint,
					  scratch->path, NULL);
	view_mounts_release(&mounts);
	return found;
}

static bool is_recorded(void)
{
	struct strings names = {0};
	bool found = record_list(&names) == 0 && names.n > 0;

	strings_release(&names);
	return found;
}

static bool has_process(const struct trial *trial)
{
	return trial->record.pid > 0 &&
	       process_is(trial->record.pid, trial->record.start_time);
}

/* The filesystem process ends a moment after its last user. */
static void look_for_rest(struct trial *trial)
{
	int64_t deadline = now_ms() + END_MS;
	bool process, record, mount;

	do {
		process = has_process(trial);
		record = is_recorded();
		mount = is_mounted(trial->scratch);
		if (!process && !record && !mount)
			break;
		sleep_ms(20);
	} while (now_ms() < deadline);
	step(trial, "end", !process && !record && !mount,
	     process  ? "the filesystem process lives on"
	     : record ? "a record is left"
	     : mount  ? "a mount is left"
		      : "no mount, no process and no record is left");
}

static void look_at_main(struct trial *trial)
{
	autofree char *after = describe_main(trial->scratch);
	bool same = after && trial->before && strcmp(after, trial->before) == 0;

	step(trial, "main", same, "%s",
	     same ? "the main checkout is what it was, to the byte"
		  : "the main checkout HAS CHANGED");
}

static void look_at_commit(struct trial *trial)
{
	const char *const args[] = {"-C", trial->scratch->main, "log",
				    "-1", "--format=%s",	"work",
				    NULL};
	autogitoutput struct git_output output = {0};
	bool there = git_run(args, &output) == 0 && output.status == 0 &&
		     strcmp(output.out, ATTEMPTS_SUBJECT "\n") == 0;

	step(trial, "commit", there, "%s",
	     there ? "the commit is on its branch" : "the commit ISN'T THERE");
}

/*
 * The two kinds of sessions
 */

/* Whoever attempts runs in the session. */
static void run_session(struct trial *trial)
{
	const struct scratch *scratch = trial->scratch;
	const char *const args[] = {
		"run",
		"-n",
		"run",
		"--main",
		scratch->main,
		"--worktree",
		scratch->worktree,
		"--die-with-parent",
		"--",
		"/proc/self/exe",
		"doctor",
		"--attempt",
		scratch->main,
		scratch->worktree,
		NULL,
	};
	struct child child;
	int r = child_start(args, trial->signals, true, &child);

	if (r < 0) {
		step_failed(trial, "session", r, NULL);
		return;
	}
	attend(trial, &child);
	child_release(&child);
}

/* Runs mountctl to its end; what it printed, without the newline. */
static int run_command(struct trial *trial, const char *const *args,
		       char **ret_text)
{
	struct child child;
	int r = child_start(args, trial->signals, false, &child);

	if (r < 0) {
		step_failed(trial, args[0], r, NULL);
		return r;
	}
	r = child_finish(&child);
	if (r != 0) {
		step_failed(trial, args[0], r, &child);
	} else if (ret_text) {
		*ret_text = steal_pointer(&child.text);
		if (*ret_text)
			(*ret_text)[strcspn(*ret_text, "\n")] = '\0';
	}
	child_release(&child);
	return r;
}

/* Whoever attempts works where mount says. */
static void attempt_in_view(struct trial *trial, const char *worktree)
{
	autofree char *main = path_dirname(worktree);
	const char *const args[] = {"doctor", "--attempt", main, worktree,
				    NULL};
	struct child child;
	int r = main ? child_start(args, trial->signals, true, &child)
		     : -ENOMEM;

	if (r < 0) {
		step_failed(trial, "session", r, NULL);
		return;
	}
	attend(trial, &child);
	child_release(&child);
}

static void mount_session(struct trial *trial)
{
	const struct scratch *scratch = trial->scratch;
	const char *const mount[] = {
		"mount",       "-n",	     "mount",		"--main",
		scratch->main, "--worktree", scratch->worktree, NULL,
	};
	const char *const unmount[] = {"unmount", "mount", NULL};
	autofree char *directory = NULL;

	if (run_command(trial, mount, &directory) != 0)
		return;
	if (directory)
		attempt_in_view(trial, directory);
	run_command(trial, unmount, NULL);
}

/* In a worktree that the last session has left as it found main. */
static int begin(struct trial *trial, char **message)
{
	const char *const args[] = {
		"-C", trial->scratch->worktree, "reset", "-q", "--hard", "main",
		NULL};
	const char *const clean[] = {"-C", trial->scratch->worktree, "clean",
				     "-qfd", NULL};
	autogitoutput struct git_output output = {0}, cleaned = {0};
	int r = git_run(args, &output);

	if (r == 0)
		r = git_run(clean, &cleaned);
	if (r < 0 || output.status != 0 || cleaned.status != 0)
		return explain(-EIO, message, "cannot reset the worktree: %s",
			       output.err ? output.err : strerror(-r));
	record_init(&trial->record);
	trial->before = describe_main(trial->scratch);
	return trial->before ? 0 : -ENOMEM;
}

static int try_session(const struct scratch *scratch, const char *name,
		       int signals, struct checks *steps, char **message)
{
	struct trial trial = {
		.scratch = scratch,
		.session = name,
		.steps = steps,
		.signals = signals,
	};
	int r = begin(&trial, message);

	if (r < 0)
		return r;
	if (is_run(&trial))
		run_session(&trial);
	else
		mount_session(&trial);
	look_at_main(&trial);
	look_at_commit(&trial);
	look_for_rest(&trial);
	record_release(&trial.record);
	free(trial.before);
	return steps->r;
}

static sigset_t ending_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	return set;
}

static bool is_interrupted(void)
{
	sigset_t ending = ending_signals(), pending, both;

	return sigpending(&pending) == 0 &&
	       sigandset(&both, &pending, &ending) == 0 &&
	       !sigisemptyset(&both);
}

static int prove_in(const struct scratch *scratch, bool mount,
		    struct proof *proof, char **message)
{
	sigset_t set = ending_signals();
	autofd int signals = signalfd(-1, &set, SFD_CLOEXEC);
	int r = signals < 0 ? -errno : make_repository(scratch, message);

	if (r == 0 && !is_interrupted())
		r = try_session(scratch, "run", signals, &proof->run, message);
	if (r == 0 && mount && !is_interrupted())
		r = try_session(scratch, "mount", signals, &proof->mount,
				message);
	return r;
}

int prove(bool mount, struct proof *proof, char **message)
{
	sigset_t set = ending_signals(), old;
	struct scratch scratch;
	int r, removed;

	sigprocmask(SIG_BLOCK, &set, &old);
	scratch_clear_left();
	r = scratch_make(&scratch, message);
	if (r == 0) {
		r = prove_in(&scratch, mount, proof, message);
		removed = scratch_remove(&scratch);
		if (r == 0)
			r = removed;
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}

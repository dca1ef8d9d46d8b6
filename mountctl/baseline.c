#include "mountctl/baseline.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/path.h"
#include "fs/lib/record.h"
#include "mountctl/jsonput.h"
#include "mountctl/layout.h"

#define SCHEMA_VERSION 1
#define FILE_NAME "baseline.json"
#define FILE_MAX (64u << 20)

/* It shall not be in the way of what the session does. */
#define NICENESS 10

void baseline_init(struct baseline *baseline)
{
	*baseline = (struct baseline){0};
	session_spec_init(&baseline->spec);
}

void baseline_release(struct baseline *baseline)
{
	session_spec_release(&baseline->spec);
	main_state_release(&baseline->state);
	free(baseline->error);
	baseline_init(baseline);
}

/*
 * As JSON.
 */

static bool put_state(cJSON *object, const struct main_state *state)
{
	cJSON *branches = cJSON_AddArrayToObject(object, "branches");
	cJSON *files = cJSON_AddArrayToObject(object, "files");
	bool ok = branches && files;

	for (size_t i = 0; ok && i < state->n_branches; i++) {
		cJSON *item = json_append_object(branches);

		ok = item &&
		     json_put_text(item, "name", state->branches[i].name) &&
		     json_put_text(item, "commit", state->branches[i].commit);
	}
	for (size_t i = 0; ok && i < state->n_files; i++) {
		cJSON *item = json_append_object(files);

		ok = item &&
		     json_put_text(item, "path", state->files[i].path) &&
		     json_put_text(item, "state", state->files[i].state) &&
		     json_put_text(item, "stamp", state->files[i].stamp);
	}
	return ok && json_put_text(object, "head", state->head) &&
	       json_put_text(object, "commit", state->commit);
}

static bool put_baseline(cJSON *object, const struct baseline *baseline)
{
	cJSON *spec = session_spec_to_cjson(&baseline->spec);

	return spec && cJSON_AddItemToObject(object, "spec", spec) &&
	       json_put_number(object, "schema_version", SCHEMA_VERSION) &&
	       json_put_number(object, "taken", (double)baseline->taken) &&
	       json_put_bool(object, "late", baseline->late) &&
	       json_put_text(object, "error", baseline->error) &&
	       put_state(object, &baseline->state);
}

static int write_baseline(const struct baseline *baseline)
{
	autofd int dir = open(baseline->spec.state_dir,
			      O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cJSON *object = cJSON_CreateObject();
	autofree char *text = NULL;

	if (object && put_baseline(object, baseline))
		text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	if (!text)
		return -ENOMEM;
	if (dir < 0)
		return -ENOENT;
	return write_file_at(dir, FILE_NAME, text, strlen(text), 0600);
}

/* An absent text is NULL. */
static int get_text(const cJSON *object, const char *key, char **ret_text)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(object, key));

	*ret_text = text ? json_text_decode(text) : NULL;
	return text && !*ret_text ? -ENOMEM : 0;
}

static int get_branch(const cJSON *item, struct main_state *state)
{
	autofree char *name = NULL, *commit = NULL;
	int r = get_text(item, "name", &name);

	if (r == 0)
		r = get_text(item, "commit", &commit);
	if (r < 0)
		return r;
	return name && commit ? main_state_add_branch(state, name, commit)
			      : -EINVAL;
}

static int get_file(const cJSON *item, struct main_state *state)
{
	autofree char *path = NULL, *status = NULL, *stamp = NULL;
	int r = get_text(item, "path", &path);

	if (r == 0)
		r = get_text(item, "state", &status);
	if (r == 0)
		r = get_text(item, "stamp", &stamp);
	if (r < 0)
		return r;
	return path && status && stamp
		       ? main_state_add_file(state, path, status, stamp)
		       : -EINVAL;
}

static int get_state(const cJSON *object, struct main_state *state)
{
	const cJSON *item;
	int r = get_text(object, "head", &state->head);

	if (r == 0)
		r = get_text(object, "commit", &state->commit);
	cJSON_ArrayForEach(item,
			   cJSON_GetObjectItemCaseSensitive(object, "branches"))
	{
		if (r == 0)
			r = get_branch(item, state);
	}
	cJSON_ArrayForEach(item,
			   cJSON_GetObjectItemCaseSensitive(object, "files"))
	{
		if (r == 0)
			r = get_file(item, state);
	}
	main_state_sort(state);
	return r;
}

static int get_baseline(const cJSON *object, struct baseline *baseline)
{
	const cJSON *version =
		cJSON_GetObjectItemCaseSensitive(object, "schema_version");
	int r;

	if (!cJSON_IsNumber(version) || version->valuedouble != SCHEMA_VERSION)
		return -EINVAL;
	r = session_spec_from_cjson(
		cJSON_GetObjectItemCaseSensitive(object, "spec"),
		&baseline->spec);
	if (r < 0)
		return r;
	baseline->taken = (time_t)cJSON_GetNumberValue(
		cJSON_GetObjectItemCaseSensitive(object, "taken"));
	baseline->late =
		cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "late"));
	r = get_text(object, "error", &baseline->error);
	return r < 0 ? r : get_state(object, &baseline->state);
}

int baseline_read(const char *state_dir, struct baseline *ret_baseline)
{
	autofd int dir =
		open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct baseline baseline;
	autofree char *text = NULL;
	cJSON *object;
	int r;

	if (dir < 0)
		return -errno;
	r = read_file_at(dir, FILE_NAME, FILE_MAX, &text, NULL);
	if (r < 0)
		return r;
	baseline_init(&baseline);
	object = cJSON_Parse(text);
	r = get_baseline(object, &baseline);
	cJSON_Delete(object);
	if (r < 0) {
		baseline_release(&baseline);
		return r;
	}
	*ret_baseline = baseline;
	return 0;
}

static int state_dir_of(const char *name, char **ret_path)
{
	autofree char *base = NULL;
	int r = session_name_is_valid(name) ? state_base_path(&base) : -ENOENT;

	if (r < 0)
		return r;
	*ret_path = path_join(base, name);
	return *ret_path ? 0 : -ENOMEM;
}

int baseline_read_named(const char *name, struct baseline *ret_baseline)
{
	autofree char *dir = NULL;
	int r = state_dir_of(name, &dir);

	if (r == 0)
		r = baseline_read(dir, ret_baseline);
	if (r < 0)
		return r;
	if (strcmp(ret_baseline->spec.name, name) != 0) {
		baseline_release(ret_baseline);
		return -EINVAL;
	}
	return 0;
}

int baseline_drop(const char *state_dir)
{
	autofree char *path = path_join(state_dir, FILE_NAME);

	if (!path)
		return -ENOMEM;
	if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
		return -errno;
	return 0;
}

static bool has_baseline(int base, const char *name)
{
	autofree char *path = path_join(name, FILE_NAME);

	return path && session_name_is_valid(name) &&
	       faccessat(base, path, R_OK, 0) == 0;
}

static int compare_names(const void *a, const void *b)
{
	char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int baseline_list(struct strings *ret_names)
{
	autofree char *base = NULL;
	struct strings names = {0};
	autodir DIR *dir = NULL;
	const struct dirent *entry;
	int r = state_base_path(&base);

	if (r == 0)
		dir = opendir(base);
	while (dir && r == 0 && (entry = readdir(dir)))
		if (has_baseline(dirfd(dir), entry->d_name))
			r = strings_add(&names, entry->d_name);
	if (r == -ENOMEM) {
		strings_release(&names);
		return r;
	}
	if (names.n > 0)
		qsort(names.s, names.n, sizeof(*names.s), compare_names);
	*ret_names = names;
	return 0;
}

/*
 * Taking one.
 */

/* One that is over already has nothing to be compared with. */
static bool is_there(const char *name)
{
	autofd int dir = -1;

	return record_open(name, &dir) == 0;
}

static bool has_begun(const char *name)
{
	autofd int dir = -1;

	return record_open(name, &dir) == 0 &&
	       faccessat(dir, "session.json", F_OK, 0) == 0;
}

static int copy_spec(const struct session_spec *spec,
		     struct session_spec *ret_copy)
{
	autofree char *text = session_spec_to_json(spec);

	return text ? session_spec_from_json(text, ret_copy) : -ENOMEM;
}

static int take(const struct session_spec *spec)
{
	struct git_place place = {spec->git_dir, spec->main};
	struct baseline baseline;
	int r;

	if (!is_there(spec->name))
		return -ENOENT;
	baseline_init(&baseline);
	r = copy_spec(spec, &baseline.spec);
	if (r == 0) {
		baseline.taken = time(NULL);
		main_state_take(&place, &baseline.state, &baseline.error);
		baseline.late =
			spec->tier == TIER_VIEW && has_begun(spec->name);
		r = write_baseline(&baseline);
	}
	baseline_release(&baseline);
	return r;
}

/* Nothing of the caller's is held on to, but for the end of its pipe. */
static int let_go(int done)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int kept = fcntl(done, F_DUPFD_CLOEXEC, STDERR_FILENO + 2);
	sigset_t none;

	if (null < 0 || kept < 0)
		return -errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	if (dup2(kept, STDERR_FILENO + 1) < 0 ||
	    fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC) < 0 ||
	    close_range(STDERR_FILENO + 2, ~0U, 0) < 0 || chdir("/") < 0)
		return -errno;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return 0;
}

/* Behind run the guard stands already, and there is time. */
static void step_back(const struct session_spec *spec)
{
	if (spec->tier == TIER_ENFORCED)
		setpriority(PRIO_PROCESS, 0, NICENESS);
}

/* Forks twice, so that it is nobody's child. */
static void launch(const struct session_spec *spec, int done)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (fork() == 0 && let_go(done) == 0) {
			step_back(spec);
			take(spec);
		}
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0)
		if (errno != EINTR)
			return;
}

void baseline_start(const struct session_spec *spec, int *ret_done)
{
	int ends[2];

	if (!spec->state_dir || !spec->git_dir)
		return;
	baseline_drop(spec->state_dir);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	launch(spec, ends[1]);
	close(ends[1]);
	if (ret_done)
		*ret_done = ends[0];
	else
		close(ends[0]);
}

void baseline_await(int done, int timeout_ms)
{
	struct pollfd end = {.fd = done, .events = POLLIN};

	while (done >= 0 && poll(&end, 1, timeout_ms) < 0)
		if (errno != EINTR)
			return;
}

/*
 * What has changed since.
 */

void stray_release(struct stray *stray)
{
	main_changes_release(&stray->branches);
	main_changes_release(&stray->files);
	main_state_release(&stray->after);
	free(stray->unknown);
	*stray = (struct stray){0};
}

/* What is no stray change: where it is, or whose. */
struct expected {
	const struct session_spec *spec;
	struct strings worktrees; /* of the repository, now */
	struct strings branches;  /* that the session's worktree stands on */
};

static void expected_release(struct expected *expected)
{
	strings_release(&expected->worktrees);
	strings_release(&expected->branches);
}

/* What can't be found out any more is expected the less. */
static int find_expected(const struct session_spec *spec,
			 struct expected *expected)
{
	struct gitrepo repo = {0};
	ssize_t index;
	int r = 0;

	expected->spec = spec;
	if (gitrepo_discover(spec->main ? spec->main : spec->git_dir, &repo,
			     &index, NULL) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < repo.n_worktrees; i++) {
		const struct worktree *worktree = &repo.worktrees[i];

		r = strings_add(&expected->worktrees, worktree->path);
		if (r == 0 && worktree->branch)
			r = strings_add(&expected->branches, worktree->branch);
	}
	gitrepo_release(&repo);
	return r;
}

static bool is_session_place(const struct expected *expected, const char *path)
{
	const struct rule *rule = rules_governing(&expected->spec->rules, path);

	if (rule && rule->access == ACCESS_RW)
		return true;
	if (expected->spec->worktree &&
	    path_starts_with(path, expected->spec->worktree, NULL))
		return true;
	for (size_t i = 0; i < expected->worktrees.n; i++)
		if (path_starts_with(path, expected->worktrees.s[i], NULL))
			return true;
	return false;
}

static bool is_wanted_file(const char *relative, const void *data)
{
	const struct expected *expected = data;
	autofree char *path = path_normalise(expected->spec->main, relative);

	return !path || !is_session_place(expected, path);
}

static bool is_wanted_branch(const char *name, const void *data)
{
	const struct expected *expected = data;

	return !strings_contain(&expected->branches, name);
}

static bool differ(const char *x, const char *y)
{
	return x && y ? strcmp(x, y) != 0 : x != y;
}

static int compare(struct stray *stray, const struct expected *expected)
{
	const struct main_state *before = &stray->before->state;
	int r = main_state_compare_branches(before, &stray->after,
					    is_wanted_branch, expected,
					    &stray->branches);

	if (r == 0)
		r = main_state_compare_files(before, &stray->after,
					     is_wanted_file, expected,
					     &stray->files);
	stray->head_moved = differ(before->head, stray->after.head) ||
			    differ(before->commit, stray->after.commit);
	return r;
}

static int look(struct stray *stray)
{
	const struct session_spec *spec = stray->spec;
	struct git_place place = {spec->git_dir, spec->main};
	struct expected expected = {0};
	int r;

	if (main_state_take(&place, &stray->after, &stray->unknown) < 0)
		return stray->unknown ? 0 : -ENOMEM;
	r = find_expected(spec, &expected);
	if (r == 0)
		r = compare(stray, &expected);
	expected_release(&expected);
	return r;
}

/* NULL: there is something to compare with. */
static const char *why_unknown(const struct session_spec *spec,
			       const struct baseline *baseline)
{
	if (!spec->git_dir)
		return "the session is about no repository";
	return baseline ? baseline->error : "its state wasn't recorded";
}

int stray_look(const struct session_spec *spec, const struct baseline *baseline,
	       struct stray *ret_stray)
{
	struct stray stray = {.spec = spec, .before = baseline};
	const char *why = why_unknown(spec, baseline);
	int r = 0;

	if (why)
		stray.unknown = strdup(why);
	if (why && !stray.unknown)
		r = -ENOMEM;
	else if (!why)
		r = look(&stray);
	if (r < 0)
		stray_release(&stray);
	else
		*ret_stray = stray;
	return r;
}

bool stray_is_found(const struct stray *stray)
{
	return stray->head_moved || stray->branches.n > 0 || stray->files.n > 0;
}

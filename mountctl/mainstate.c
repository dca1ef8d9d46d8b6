#include "mountctl/mainstate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

#define BRANCHES "refs/heads/"

void main_state_release(struct main_state *state)
{
	for (size_t i = 0; i < state->n_branches; i++) {
		free(state->branches[i].name);
		free(state->branches[i].commit);
	}
	for (size_t i = 0; i < state->n_files; i++) {
		free(state->files[i].path);
		free(state->files[i].state);
		free(state->files[i].stamp);
	}
	free(state->head);
	free(state->commit);
	free(state->branches);
	free(state->files);
	*state = (struct main_state){0};
}

/* Room for one more in an array of n. 0 or -ENOMEM. */
static int make_room(void **array, size_t n, size_t size)
{
	void *grown;

	/* Powers of two: the array is full. */
	if (n & (n - 1))
		return 0;
	grown = reallocarray(*array, n ? 2 * n : 1, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	return 0;
}

int main_state_add_branch(struct main_state *state, const char *name,
			  const char *commit)
{
	autofree char *own_name = strdup(name), *own_commit = strdup(commit);
	void *array = state->branches;
	int r = make_room(&array, state->n_branches, sizeof(struct branch));

	state->branches = array;
	if (r < 0 || !own_name || !own_commit)
		return -ENOMEM;
	state->branches[state->n_branches++] = (struct branch){
		.name = steal_pointer(&own_name),
		.commit = steal_pointer(&own_commit),
	};
	return 0;
}

int main_state_add_file(struct main_state *state, const char *path,
			const char *status, const char *stamp)
{
	struct changed_file file = {
		.path = strdup(path),
		.state = strdup(status),
		.stamp = strdup(stamp),
	};
	void *array = state->files;
	int r = make_room(&array, state->n_files, sizeof(file));

	state->files = array;
	if (r == 0 && file.path && file.state && file.stamp) {
		state->files[state->n_files++] = file;
		return 0;
	}
	free(file.path);
	free(file.state);
	free(file.stamp);
	return -ENOMEM;
}

static int compare_branches(const void *a, const void *b)
{
	const struct branch *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int compare_files(const void *a, const void *b)
{
	const struct changed_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

void main_state_sort(struct main_state *state)
{
	if (state->n_branches > 0)
		qsort(state->branches, state->n_branches,
		      sizeof(*state->branches), compare_branches);
	if (state->n_files > 0)
		qsort(state->files, state->n_files, sizeof(*state->files),
		      compare_files);
}

/*
 * What git prints.
 */

/* Behind the first n fields of a line, or NULL. */
static const char *skip_fields(const char *line, int n)
{
	while (n-- > 0) {
		line = strchr(line, ' ');
		if (!line)
			return NULL;
		line++;
	}
	return line;
}

/* Fields before the path, by the first character of the line. */
static int fields_of(char kind)
{
	switch (kind) {
	case '1':
		return 8;
	case '2':
		return 9;
	case 'u':
		return 10;
	case '?':
	case '!':
		return 1;
	}
	return -1;
}

static int take_text(char **member, const char *text)
{
	free(*member);
	*member = strdup(text);
	return *member ? 0 : -ENOMEM;
}

static int parse_header(struct main_state *state, const char *line)
{
	static const char oid[] = "# branch.oid ", head[] = "# branch.head ";

	if (strncmp(line, oid, sizeof(oid) - 1) == 0)
		return take_text(&state->commit, line + sizeof(oid) - 1);
	if (strncmp(line, head, sizeof(head) - 1) == 0)
		return take_text(&state->head, line + sizeof(head) - 1);
	return 0;
}

static int parse_file(struct main_state *state, const char *line)
{
	int n = fields_of(line[0]);
	const char *path = n < 0 ? NULL : skip_fields(line, n);
	autofree char *status = NULL;

	if (!path || !*path)
		return -EINVAL;
	status = strndup(line, (size_t)(path - line) - 1);
	return status ? main_state_add_file(state, path, status, "") : -ENOMEM;
}

int main_state_parse_status(struct main_state *state, const char *text,
			    size_t size)
{
	const char *end = text + size;

	while (text < end) {
		int r = text[0] == '#' ? parse_header(state, text)
				       : parse_file(state, text);

		if (r < 0)
			return r;
		/* A file that was renamed has its old name behind it. */
		if (text[0] == '2')
			text += strlen(text) + 1;
		if (text < end)
			text += strlen(text) + 1;
	}
	main_state_sort(state);
	return 0;
}

int main_state_parse_branches(struct main_state *state, const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");
		autofree char *line = strndup(text, length);
		char *space = line ? strchr(line, ' ') : NULL;
		int r;

		if (!line)
			return -ENOMEM;
		if (!space)
			return -EINVAL;
		*space = '\0';
		r = main_state_add_branch(state, space + 1, line);
		if (r < 0)
			return r;
		text += length;
		text += *text == '\n';
	}
	main_state_sort(state);
	return 0;
}

/*
 * Taking it.
 */

static int stamp_file(const char *top, struct changed_file *file)
{
	autofree char *path = path_join(top, file->path), *stamp = NULL;
	struct stat st;

	if (!path)
		return -ENOMEM;
	/* Of a directory it would tell nothing. */
	if (lstat(path, &st) < 0 || S_ISDIR(st.st_mode))
		return 0;
	if (asprintf(&stamp, "%llu %llu %lld.%09ld %lld.%09ld %o",
		     (unsigned long long)st.st_ino,
		     (unsigned long long)st.st_size,
		     (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
		     (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec,
		     (unsigned int)st.st_mode) < 0) {
		stamp = NULL;
		return -ENOMEM;
	}
	free(file->stamp);
	file->stamp = steal_pointer(&stamp);
	return 0;
}

static int take_branches(const struct git_place *place,
			 struct main_state *state, char **message)
{
	autogitoutput struct git_output output = {0};
	int r = GIT_ASK(place, &output, message, "for-each-ref",
			"--format=%(objectname) %(refname)", BRANCHES);

	return r < 0 ? r : main_state_parse_branches(state, output.out);
}

int main_state_take_files(const struct git_place *place, bool submodules,
			  struct main_state *state, char **message)
{
	autogitoutput struct git_output output = {0};
	int r = GIT_ASK(place, &output, message, "status", "--porcelain=v2",
			"--branch", "-z", "--no-renames",
			"--untracked-files=all",
			submodules ? "--ignore-submodules=none" : NULL);

	if (r == 0)
		r = main_state_parse_status(state, output.out, output.size);
	for (size_t i = 0; r == 0 && i < state->n_files; i++)
		r = stamp_file(place->work_tree, &state->files[i]);
	return r;
}

int main_state_take(const struct git_place *place, struct main_state *ret_state,
		    char **message)
{
	struct main_state state = {0};
	int r = take_branches(place, &state, message);

	if (r == 0 && place->work_tree)
		r = main_state_take_files(place, false, &state, message);
	if (r < 0) {
		main_state_release(&state);
		return r;
	}
	*ret_state = state;
	return 0;
}

/*
 * Comparing two.
 */

void main_changes_release(struct main_changes *changes)
{
	free(changes->change);
	*changes = (struct main_changes){0};
}

static int add_change(struct main_changes *changes, const char *name,
		      const char *before, const char *after)
{
	void *array = changes->change;
	int r = make_room(&array, changes->n, sizeof(struct main_change));

	changes->change = array;
	if (r < 0)
		return r;
	changes->change[changes->n++] = (struct main_change){
		.name = name, .before = before, .after = after};
	return 0;
}

/* Something of a state. It has changed if its value or its stamp has. */
struct entry {
	const char *name; /* NULL: there is none any more */
	const char *value;
	const char *stamp;
};

typedef struct entry entry_fn(const struct main_state *state, size_t i);

static struct entry branch_entry(const struct main_state *state, size_t i)
{
	if (i >= state->n_branches)
		return (struct entry){0};
	return (struct entry){
		.name = state->branches[i].name,
		.value = state->branches[i].commit,
		.stamp = "",
	};
}

static struct entry file_entry(const struct main_state *state, size_t i)
{
	if (i >= state->n_files)
		return (struct entry){0};
	return (struct entry){
		.name = state->files[i].path,
		.value = state->files[i].state,
		.stamp = state->files[i].stamp,
	};
}

/* Which comes first. */
static int compare_names(const struct entry *x, const struct entry *y)
{
	if (!x->name || !y->name)
		return x->name ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool is_same(const struct entry *x, const struct entry *y)
{
	return strcmp(x->value, y->value) == 0 &&
	       strcmp(x->stamp, y->stamp) == 0;
}

/* Both are in the order of their names. */
static int compare(const struct main_state *before,
		   const struct main_state *after, entry_fn *entry,
		   wanted_fn *wanted, const void *data,
		   struct main_changes *ret_changes)
{
	struct main_changes changes = {0};
	struct entry x = entry(before, 0), y = entry(after, 0);
	size_t i = 0, k = 0;
	int r = 0;

	while (r == 0 && (x.name || y.name)) {
		int order = compare_names(&x, &y);
		const char *name = order <= 0 ? x.name : y.name;

		if (wanted(name, data) && (order != 0 || !is_same(&x, &y)))
			r = add_change(&changes, name,
				       order <= 0 ? x.value : NULL,
				       order >= 0 ? y.value : NULL);
		if (order <= 0)
			x = entry(before, ++i);
		if (order >= 0)
			y = entry(after, ++k);
	}
	if (r < 0)
		main_changes_release(&changes);
	else
		*ret_changes = changes;
	return r;
}

int main_state_compare_branches(const struct main_state *before,
				const struct main_state *after,
				wanted_fn *wanted, const void *data,
				struct main_changes *ret_changes)
{
	return compare(before, after, branch_entry, wanted, data, ret_changes);
}

int main_state_compare_files(const struct main_state *before,
			     const struct main_state *after, wanted_fn *wanted,
			     const void *data, struct main_changes *ret_changes)
{
	return compare(before, after, file_entry, wanted, data, ret_changes);
}

/*
 * For people.
 */

static const char *word_of_change(char index, char worktree)
{
	if (index == '.')
		return worktree == 'D'	 ? "deleted"
		       : worktree == 'T' ? "of another type"
					 : "modified";
	if (worktree != '.')
		return "staged and modified";
	return index == 'D'   ? "deleted in the index"
	       : index == 'A' ? "added"
			      : "staged";
}

const char *file_state_word(const char *state)
{
	if (!state)
		return "unchanged";
	switch (state[0]) {
	case '?':
		return "untracked";
	case 'u':
		return "unmerged";
	case '1':
	case '2':
		if (strlen(state) >= 4)
			return word_of_change(state[2], state[3]);
	}
	return "changed";
}

#include "fs/lib/githead.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"

/* A ref is a line, rebase-merge/update-refs a few for each branch. */
#define MAX_FILE (1u << 20)
/* git's SYMREF_MAXDEPTH */
#define MAX_DEPTH 5

static const char hex_digits[] = "0123456789abcdefABCDEF";

/* "ref: refs/heads/x": what stands behind "ref:", or NULL. */
static const char *symref_target(const char *text)
{
	if (strncmp(text, "ref:", 4) != 0)
		return NULL;
	text += 4;
	return text + strspn(text, " \t\r\n");
}

/*
 * The text of a HEAD or of a loose ref, without trailing white space. A
 * symlink to a ref, which git once used, reads like a symbolic ref.
 */
static int read_ref(int dir_fd, const char *path, char **ret_text)
{
	autofree char *text = NULL;
	autofree char *target = NULL;
	size_t size;
	int r;

	r = read_file_at(dir_fd, path, MAX_FILE, &text, &size);
	if (r == -ELOOP) {
		r = read_link_at(dir_fd, path, &target);
		if (r < 0)
			return r;
		if (asprintf(&text, "ref: %s", target) < 0) {
			text = NULL;
			return -ENOMEM;
		}
		size = strlen(text);
	}
	if (r < 0)
		return r;

	while (size && strchr(" \t\r\n", text[size - 1]))
		text[--size] = '\0';
	*ret_text = steal_pointer(&text);
	return 0;
}

bool git_head_is_valid(int dir_fd)
{
	autofree char *text = NULL;
	const char *target;

	if (read_ref(dir_fd, "HEAD", &text) < 0)
		return false;
	target = symref_target(text);
	if (target)
		return !strncmp(target, "refs/", 5);
	return strspn(text, hex_digits) >= 40;
}

static int add_once(struct strings *strings, const char *s)
{
	return strings_contain(strings, s) ? 0 : strings_add(strings, s);
}

/* A name below refs/ that leads nowhere else. */
static bool ref_name_is_clean(const char *name)
{
	autofree char *absolute = path_join("/", name);

	return absolute && !strncmp(name, "refs/", 5) &&
	       path_is_clean(absolute);
}

/* read_symref() where refs are files. */
static int read_symref_file(const char *dir, const char *name,
			    char **ret_target)
{
	autofd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autofree char *text = NULL;
	const char *target;
	int r;

	if (fd < 0)
		return -errno;
	r = read_ref(fd, name, &text);
	/* Packed, not born yet, or a directory of that name. */
	if (r == -ENOENT || r == -ENOTDIR || r == -EINVAL) {
		*ret_target = NULL;
		return 0;
	}
	if (r < 0)
		return r;
	target = symref_target(text);
	*ret_target = target ? strdup(target) : NULL;
	return target && !*ret_target ? -ENOMEM : 0;
}

/* The same with reftable, where only git can tell. */
static int ask_git(const char *dir, const char *name, char **ret_target)
{
	const char *const args[] = {
		"--git-dir",	dir,  "symbolic-ref", "--quiet",
		"--no-recurse", name, NULL,
	};
	autogitoutput struct git_output output = {0};
	int r = git_run(args, &output);

	if (r == -ENOMEM)
		return r;
	/* -ENOENT, from no git, would look like no checkout. */
	if (r < 0)
		return -EIO;
	if (output.status == 1 && !output.err[0]) {
		*ret_target = NULL;
		return 0;
	}
	if (output.status != 0)
		return -EIO;
	output.out[strcspn(output.out, "\n")] = '\0';
	*ret_target = steal_pointer(&output.out);
	return 0;
}

/* What a symbolic ref leads to, one step; NULL where it is none. */
static int read_symref(const struct checkout *checkout, const char *dir,
		       const char *name, char **ret_target)
{
	if (!strcmp(checkout->ref_format, "reftable"))
		return ask_git(dir, name, ret_target);
	return read_symref_file(dir, name, ret_target);
}

/* Adds a ref by name and, where it is a symbolic ref, what that leads to. */
static int add_ref(const struct checkout *checkout, const char *name,
		   struct strings *refs)
{
	autofree char *next = strdup(name);
	int r;

	if (!next)
		return -ENOMEM;
	for (int depth = 0; next && depth < MAX_DEPTH; depth++) {
		autofree char *current = steal_pointer(&next);

		if (!ref_name_is_clean(current))
			return 0;
		r = add_once(refs, current);
		if (r < 0)
			return r;
		r = read_symref(checkout, checkout->git_dir, current, &next);
		if (r < 0)
			return r;
	}
	return 0;
}

int git_head_refs(const struct checkout *checkout, struct strings *refs)
{
	autofree char *target = NULL;
	int r;

	if (access(checkout->head_dir, F_OK) < 0)
		return -errno;
	r = read_symref(checkout, checkout->head_dir, "HEAD", &target);
	if (r < 0)
		return r;
	return target ? add_ref(checkout, target, refs) : 0;
}

/*
 * A branch as the state files spell it: in full, without "refs/heads/", or, in
 * its place, an object id or "detached HEAD".
 */
static int add_state_ref(const struct checkout *checkout, const char *text,
			 struct strings *refs)
{
	size_t len = strlen(text);
	autofree char *name = NULL;

	if (!strncmp(text, "refs/", 5))
		return add_ref(checkout, text, refs);
	if (!len || !strcmp(text, "detached HEAD"))
		return 0;
	if ((len == 40 || len == 64) && strspn(text, hex_digits) == len)
		return 0;
	name = path_join("refs/heads", text);
	return name ? add_ref(checkout, name, refs) : -ENOMEM;
}

/* Reads one state file: a branch, or branches with object ids between them. */
static int add_state_file(const struct checkout *checkout, int dir_fd,
			  const char *file, struct strings *refs)
{
	autofree char *text = NULL;
	char *rest, *line;
	int r;

	r = read_file_at(dir_fd, file, MAX_FILE, &text, NULL);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return r;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		r = add_state_ref(checkout, line, refs);
		if (r < 0)
			return r;
	}
	return 0;
}

int git_state_refs(const struct checkout *checkout, struct strings *refs)
{
	static const char *const files[] = {
		"rebase-merge/head-name",
		"rebase-apply/head-name",
		"rebase-merge/update-refs",
		"BISECT_START",
	};
	autofd int fd =
		open(checkout->head_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r = add_state_file(checkout, fd, files[i], refs);

		if (r < 0)
			return r;
	}
	return 0;
}

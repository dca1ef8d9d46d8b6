#include "mountctl/sshconfig.h"

#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/mountapi.h"

#define CONFIG_MAX (1u << 20)
#define COPIES_MAX 200
#define INCLUDE_DEPTH_MAX 16 /* as ssh's own, readconf.c */

struct reader {
	const char *directory; /* relative includes count from here */
	struct ssh_copies copies;
};

static int read_config(struct reader *reader, const char *path, int depth);

void sshconfig_release(struct ssh_copies *copies)
{
	for (size_t i = 0; i < copies->n; i++) {
		free(copies->copy[i].path);
		free(copies->copy[i].text);
	}
	free(copies->copy);
	*copies = (struct ssh_copies){0};
}

static bool has_copy(const struct ssh_copies *copies, const char *path)
{
	for (size_t i = 0; i < copies->n; i++)
		if (strcmp(copies->copy[i].path, path) == 0)
			return true;
	return false;
}

/* One pattern of an Include line: each file that it matches. */
static int read_included(struct reader *reader, const char *pattern, int depth)
{
	autofree char *absolute =
		pattern[0] == '/' ? strdup(pattern)
				  : path_join(reader->directory, pattern);
	glob_t found;
	int r = 0;

	if (!absolute)
		return -ENOMEM;
	/* Those of users' own directories are theirs already. */
	if (pattern[0] == '~' || glob(absolute, 0, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; i < found.gl_pathc && r == 0; i++)
		r = read_config(reader, found.gl_pathv[i], depth + 1);
	globfree(&found);
	return r;
}

/* The files that a configuration includes. text is cut into words. */
static int read_includes(struct reader *reader, char *text, int depth)
{
	char *line, *rest;
	int r = 0;

	for (line = strtok_r(text, "\n", &rest); line && r == 0;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *in_line;
		char *word = strtok_r(line, " \t\r=\"", &in_line);

		if (!word || strcasecmp(word, "include") != 0)
			continue;
		while (r == 0 && (word = strtok_r(NULL, " \t\r=\"", &in_line)))
			r = read_included(reader, word, depth);
	}
	return r;
}

/* Takes ownership of path and text. */
static int add_copy(struct ssh_copies *copies, char *path, char *text,
		    size_t size)
{
	struct ssh_copy *grown =
		reallocarray(copies->copy, copies->n + 1, sizeof(*grown));

	if (!grown) {
		free(path);
		free(text);
		return -ENOMEM;
	}
	copies->copy = grown;
	grown[copies->n++] = (struct ssh_copy){path, text, size};
	return 0;
}

static int read_config(struct reader *reader, const char *path, int depth)
{
	autofree char *real = realpath(path, NULL);
	autofree char *text = NULL, *words = NULL;
	struct stat st;
	size_t size;
	int r;

	if (!real || depth > INCLUDE_DEPTH_MAX ||
	    reader->copies.n >= COPIES_MAX || has_copy(&reader->copies, real) ||
	    stat(real, &st) < 0 || st.st_uid != 0 ||
	    read_file_at(AT_FDCWD, real, CONFIG_MAX, &text, &size) < 0)
		return 0;
	words = strdup(text);
	if (!words)
		return -ENOMEM;
	r = add_copy(&reader->copies, steal_pointer(&real),
		     steal_pointer(&text), size);
	return r < 0 ? r : read_includes(reader, words, depth);
}

int sshconfig_read(const char *directory, struct ssh_copies *ret_copies)
{
	autofree char *main = path_join(directory, "ssh_config");
	struct reader reader = {.directory = directory};
	int r;

	if (!main)
		return -ENOMEM;
	r = read_config(&reader, main, 0);
	if (r < 0) {
		sshconfig_release(&reader.copies);
		return r;
	}
	*ret_copies = reader.copies;
	return 0;
}

static int cover_one(const struct ssh_copy *copy, int scratch_fd)
{
	static const char name[] = ".ssh-config";
	autofd int target = mount_target_open(copy->path);
	autofd int clone = -1;
	int r;

	if (target < 0)
		return target;
	r = write_file_at(scratch_fd, name, copy->text, copy->size, 0444);
	if (r < 0)
		return r;
	clone = mount_clone_at(scratch_fd, name);
	r = clone < 0 ? clone : mount_make_read_only(clone);
	if (r == 0)
		r = mount_attach(clone, target);
	unlinkat(scratch_fd, name, 0);
	return r;
}

int sshconfig_cover(const struct ssh_copies *copies, int scratch_fd)
{
	int r = 0;

	for (size_t i = 0; i < copies->n && r == 0; i++)
		r = cover_one(&copies->copy[i], scratch_fd);
	return r;
}

#include "mountctl/hook_patch.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/hook_input.h"

static const struct {
	const char *words;
	enum policy_op op;
} headers[] = {
	{"*** Add File:", OP_WRITE},
	{"*** Update File:", OP_WRITE},
	{"*** Delete File:", OP_REMOVE},
	{"*** Move to:", OP_WRITE},
};

static const char *skip_space(const char *s, const char *end)
{
	while (s < end && isspace((unsigned char)*s))
		s++;
	return s;
}

/* Like Codex, blind to space around the line and around the path. */
static int take_line(const char *line, const char *end,
		     struct hook_targets *targets)
{
	line = skip_space(line, end);
	while (end > line && isspace((unsigned char)end[-1]))
		end--;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		size_t length = strlen(headers[i].words);
		autofree char *path = NULL;

		if ((size_t)(end - line) < length ||
		    strncmp(line, headers[i].words, length) != 0)
			continue;
		line = skip_space(line + length, end);
		if (line == end ||
		    memchr(line, HOOK_NUL_MARK, (size_t)(end - line)))
			return -EINVAL;
		path = strndup(line, (size_t)(end - line));
		return path ? hook_targets_add(targets, path, headers[i].op)
			    : -ENOMEM;
	}
	return 0;
}

int hook_patch_targets(const char *patch, size_t max,
		       struct hook_targets *targets)
{
	size_t before = targets->n;

	while (*patch) {
		const char *end = patch + strcspn(patch, "\r\n");
		int r = take_line(patch, end, targets);

		if (r < 0)
			return r;
		if (targets->n > max)
			return -E2BIG;
		patch = end + (*end != '\0');
	}
	return targets->n > before ? 0 : -EINVAL;
}

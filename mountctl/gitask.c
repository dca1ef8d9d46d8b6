#include "mountctl/gitask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/output.h"

#define MAX_WORDS 32

/* Once for all that is asked. */
static const char *const settings[] = {
	"--no-optional-locks",	   "-c", "core.fsmonitor=false", "-c",
	"log.showSignature=false",
};

static int ask(const char *const *args, struct git_output *ret_output,
	       char **message)
{
	autogitoutput struct git_output output = {0};
	int r = git_run(args, &output);

	if (r == -EFBIG)
		return explain(r, message, "git tells more than can be read");
	if (r < 0)
		return explain(r, message, "cannot run git: %s", strerror(-r));
	if (output.status != 0)
		return explain(-EIO, message, "git: %s", output.err);
	*ret_output = output;
	output = (struct git_output){0};
	return 0;
}

int git_ask(const struct git_place *place, const char *const *words,
	    struct git_output *ret_output, char **message)
{
	autofree char *git_dir = NULL, *work_tree = NULL;
	const char *args[MAX_WORDS];
	size_t n = 0;

	if (asprintf(&git_dir, "--git-dir=%s", place->git_dir) < 0)
		git_dir = NULL;
	if (place->work_tree &&
	    asprintf(&work_tree, "--work-tree=%s", place->work_tree) < 0)
		work_tree = NULL;
	if (!git_dir || (place->work_tree && !work_tree))
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		args[n++] = settings[i];
	args[n++] = git_dir;
	if (work_tree)
		args[n++] = work_tree;
	while (*words && n < ARRAY_SIZE(args) - 1)
		args[n++] = *words++;
	args[n] = NULL;
	return *words ? -E2BIG : ask(args, ret_output, message);
}

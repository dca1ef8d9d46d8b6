/*
 * Asking git. It runs in "/", so that no repository around the caller has a
 * say, with nothing on its standard input unless it is given, and in the
 * caller's environment without any GIT_* variable: those would name another
 * repository, another configuration or another program. Nor may the dynamic
 * linker's load something else, or the configuration have a trace written.
 *
 * Which file on PATH is git is found out once: a process that asks git first
 * before a session can change anything won't run what the session puts there.
 */
#ifndef WORKTREEFS_GITRUN_H
#define WORKTREEFS_GITRUN_H

#include <stddef.h>

struct git_output {
	int status;  /* exit status; 128+N where signal N ended it */
	char *out;   /* standard output, owned, NUL-terminated */
	size_t size; /* of out, without the NUL */
	char *err;   /* standard error, owned, without trailing white space */
};

void git_output_release(struct git_output *output);
#define autogitoutput __attribute__((cleanup(git_output_release)))

/*
 * Runs "git ARGS...", args ending in NULL, and waits for it. 0 when it ran,
 * with whatever status; -ENOENT when there is no git on PATH; -EFBIG when it
 * prints more than 16 MiB; -errno.
 */
int git_run(const char *const *args, struct git_output *ret_output);
/* The same with these bytes on its standard input. */
int git_run_on(const char *const *args, const void *input, size_t size,
	       struct git_output *ret_output);

#endif

#include "mountctl/show_stray.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/output.h"

/* Of an object's name, as much as is told apart at a glance. */
#define SHORT_NAME 12

static void print_time(const struct baseline *before)
{
	struct tm tm;
	char text[64] = "?";

	if (localtime_r(&before->taken, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("recorded    %s%s\n", text,
	       before->late ? ", when the session had begun" : "");
}

static void print_head(const struct stray *stray)
{
	const struct main_state *before = &stray->before->state;
	const struct main_state *after = &stray->after;

	if (!stray->head_moved)
		return;
	printf("HEAD        was %s at %.*s, is %s at %.*s\n",
	       before->head ? before->head : "?", SHORT_NAME,
	       before->commit ? before->commit : "?",
	       after->head ? after->head : "?", SHORT_NAME,
	       after->commit ? after->commit : "?");
}

static void print_branch(const struct main_change *change)
{
	autofree char *name = text_escape(change->name);

	if (!name)
		return;
	if (!change->before)
		printf("  %s  new, at %.*s\n", name, SHORT_NAME, change->after);
	else if (!change->after)
		printf("  %s  gone, was at %.*s\n", name, SHORT_NAME,
		       change->before);
	else
		printf("  %s  was at %.*s, is at %.*s\n", name, SHORT_NAME,
		       change->before, SHORT_NAME, change->after);
}

static void print_file(const struct main_change *change)
{
	autofree char *path = text_escape(change->name);
	const char *before = file_state_word(change->before);
	const char *after = file_state_word(change->after);

	if (!path)
		return;
	if (change->before && change->after && strcmp(before, after) == 0)
		printf("  %s  was %s, has changed since\n", path, before);
	else if (change->before)
		printf("  %s  was %s, is %s\n", path, before, after);
	else
		printf("  %s  %s\n", path, after);
}

void show_stray(const struct stray *stray)
{
	const char *top =
		stray->spec->main ? stray->spec->main : stray->spec->git_dir;
	autofree char *main = top ? text_escape(top) : NULL;
	autofree char *why = NULL;

	if (main)
		printf("main        %s\n", main);
	if (stray->unknown) {
		why = text_escape(stray->unknown);
		printf("changes     not known: %s\n", why ? why : "");
		return;
	}
	print_time(stray->before);
	if (!stray_is_found(stray))
		printf("changes     none\n");
	print_head(stray);
	if (stray->branches.n > 0)
		printf("branches\n");
	for (size_t i = 0; i < stray->branches.n; i++)
		print_branch(&stray->branches.change[i]);
	if (stray->files.n > 0)
		printf("files\n");
	for (size_t i = 0; i < stray->files.n; i++)
		print_file(&stray->files.change[i]);
}

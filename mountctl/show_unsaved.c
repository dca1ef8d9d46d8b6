#include "mountctl/show_unsaved.h"

#include <stdlib.h>

#include "fs/lib/cleanup.h"
#include "mountctl/output.h"

/* Of each kind, what is listed. */
#define SHOWN 20

static const char *title_of(enum unsaved_kind kind)
{
	switch (kind) {
	case UNSAVED_CHANGED:
		return "uncommitted changes";
	case UNSAVED_UNTRACKED:
		return "untracked files";
	case UNSAVED_OPERATION:
		return "under way";
	case UNSAVED_STASH:
		return "stashed";
	case UNSAVED_COMMIT:
		return "commits that are on no remote";
	}
	return "?";
}

static void print_item(FILE *out, const struct unsaved_item *item)
{
	autofree char *what = text_escape(item->what);
	autofree char *submodule =
		item->submodule ? text_escape(item->submodule) : NULL;

	if (submodule)
		fprintf(out, "  %s: %s\n", submodule, what ? what : "?");
	else
		fprintf(out, "  %s\n", what ? what : "?");
}

static void print_kind(FILE *out, const struct unsaved *unsaved,
		       enum unsaved_kind kind, bool lost, const char *kept)
{
	size_t n = 0;

	for (size_t i = 0; i < unsaved->n; i++) {
		const struct unsaved_item *item = &unsaved->item[i];

		if (item->kind != kind || item->lost != lost)
			continue;
		if (n == 0)
			fprintf(out, "%s%s\n", title_of(kind), kept);
		if (n++ < SHOWN)
			print_item(out, item);
	}
	if (n > SHOWN)
		fprintf(out, "  and %zu more\n", n - SHOWN);
}

void show_unsaved(FILE *out, const struct unsaved *unsaved, const char *branch)
{
	autofree char *name = branch ? text_escape(branch) : NULL;
	autofree char *kept = NULL;

	if (asprintf(&kept, " (the branch '%s' keeps them)",
		     name ? name : "?") < 0)
		kept = NULL;
	print_kind(out, unsaved, UNSAVED_CHANGED, true, "");
	print_kind(out, unsaved, UNSAVED_UNTRACKED, true, "");
	print_kind(out, unsaved, UNSAVED_OPERATION, true, "");
	print_kind(out, unsaved, UNSAVED_STASH, true, "");
	print_kind(out, unsaved, UNSAVED_STASH, false, " (the stash keeps it)");
	print_kind(out, unsaved, UNSAVED_COMMIT, true, "");
	print_kind(out, unsaved, UNSAVED_COMMIT, false,
		   name && kept ? kept : "");
}

/*
 * What the judges of gitjudge.h share: text as bytes, sets of texts, what git
 * takes for a ref's name or a URL, and how a refusal is told.
 */
#ifndef WORKTREEFS_GITJUDGE_TEXT_H
#define WORKTREEFS_GITJUDGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/gitjudge.h"

struct text text_of(const char *s); /* without the NUL */
/* From a byte on, which may be the end. */
struct text text_from(struct text text, size_t from);
bool text_equal(struct text a, struct text b);
bool text_is(struct text text, const char *s);
bool text_starts_with(struct text text, const char *prefix);
/* Bytewise; where one begins the other, the shorter comes first. */
int text_compare(struct text a, struct text b);
/* The same, with ASCII letters folded. */
int text_compare_folded(struct text a, struct text b);
/*
 * Takes the first line off *rest, with its newline where it has one. False
 * when nothing is left.
 */
bool text_take_line(struct text *rest, struct text *ret_line);

/*
 * Texts, borrowed. They are added in any order, and looked up once they are
 * sorted. Zero-initialised but for compare it is empty.
 */
struct text_set {
	int (*compare)(struct text a, struct text b);
	struct text *text; /* owned */
	size_t n, allocated;
};

int text_set_add(struct text_set *set, struct text text); /* 0 or -ENOMEM */
int text_set_add_strings(struct text_set *set, const struct strings *strings);
/* Each text then stands there once. */
void text_set_sort(struct text_set *set);
bool text_set_contains(const struct text_set *set, struct text text);
void text_set_release(struct text_set *set);

bool is_control(char c); /* of ASCII */

/* Full hexadecimal object names, of SHA-1 or SHA-256. */
bool is_hex(char c);
/* How many hexadecimal digits text begins with, if 40 or 64; otherwise 0. */
size_t object_name_length(struct text text);

/*
 * git-check-ref-format(1) with --allow-onelevel; refspecs may have one "*",
 * as with --refspec-pattern.
 */
bool ref_name_is_valid(struct text name);
bool ref_pattern_is_valid(struct text pattern);

/*
 * Does the URL name another machine, through nothing but git's own transports
 * http, https, ftp, ftps, git and ssh ("host:path" too)? Paths, "file://",
 * remote helpers ("ext::", any other "scheme://"), and hosts that a command or
 * a shell could misread aren't that.
 */
bool url_is_remote(struct text url);

/*
 * Says what is in the way, for people: control characters are escaped, and of
 * long texts only the beginning is shown. ret_what may be NULL. -EROFS, or
 * -ENOMEM and nothing is said.
 */
int refuse(char **ret_what, struct text what);
int refuse_line(char **ret_what, size_t number); /* from 1 on */

#endif

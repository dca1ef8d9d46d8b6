/*
 * A JSON text (RFC 8259) and where its values stand in it. For files that are
 * somebody else's: a change in one place leaves every other byte what it was,
 * which a parser that makes values of the text, and prints them again, can't
 * promise of numbers, escapes and spaces.
 */
#ifndef WORKTREEFS_JSON_TEXT_H
#define WORKTREEFS_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum json_kind {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

/*
 * Nodes are numbers of places in json_text.node: 0 is the root. As a child or
 * sibling, which the root never is, 0 stands for none.
 */
struct json_node {
	enum json_kind kind;
	size_t begin, end; /* of the value, in bytes of the text */
	size_t name;	   /* where the member's name begins; else as begin */
	size_t parent;
	size_t first; /* child */
	size_t next;  /* sibling */
};

struct json_text {
	const char *text; /* borrowed; a NUL follows it */
	size_t size;
	struct json_node *node; /* owned */
	size_t n;
};

/*
 * Strict: no comments, no trailing commas, no NaN, UTF-8 throughout. Values
 * may lie JSON_DEPTH_MAX deep. -EBADMSG with a message that names the line;
 * -ENOMEM.
 */
#define JSON_DEPTH_MAX 200
int json_text_parse(const char *text, size_t size, struct json_text *ret_json,
		    char **message);
void json_text_release(struct json_text *json);

/*
 * The member of that name: 0 where there is none. -EEXIST: there are two, and
 * readers disagree on which of them counts.
 */
int json_text_member(const struct json_text *json, size_t object,
		     const char *name, size_t *ret_node);

/*
 * A string without its escapes: allocated; NULL: out of memory, or no string.
 * U+0000 and halves of pairs become U+FFFD.
 */
char *json_text_string(const struct json_text *json, size_t node);
/* Is it the string? */
bool json_text_is(const struct json_text *json, size_t node, const char *text);

/*
 * Prints the value anew: each member and element on a line of its own, the
 * lines after the first behind indent, one more unit for each level. unit NULL:
 * all on one line. newline ends lines.
 */
struct json_style {
	const char *newline;
	const char *indent;
	const char *unit;
};
void json_text_print(FILE *out, const struct json_text *json, size_t node,
		     const struct json_style *style);

/* Writes bytes, which are UTF-8, as a JSON string. */
void json_text_quote(FILE *out, const char *bytes);

#endif

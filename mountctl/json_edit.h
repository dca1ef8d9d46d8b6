/*
 * Changes in a JSON text that leave the rest of it byte for byte what it was.
 * What is put in is laid out as its surroundings are.
 *
 * Nodes are those of edit.json (json_text.h): each change makes them anew, so
 * none that was found before a change means anything behind it. Values that are
 * put in are JSON text. All return 0 or -errno; the text is whole then, too.
 */
#ifndef WORKTREEFS_JSON_EDIT_H
#define WORKTREEFS_JSON_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "mountctl/json_text.h"

struct json_edit {
	char *text; /* owned */
	struct json_text json;
};

/* Copies the text. -EBADMSG with a message where it isn't JSON. */
int json_edit_init(struct json_edit *edit, const char *text, size_t size,
		   char **message);
void json_edit_release(struct json_edit *edit);

/*
 * The value at the end of a path of members, which ends in NULL: it and what
 * leads to it are made where they are missing. It is an array or an object, as
 * asked for. -EINVAL, with a message that names the member, where something
 * else is there; -EEXIST, with a message, where a member is there twice.
 */
int json_edit_make(struct json_edit *edit, const char *const *path,
		   enum json_kind kind, size_t *ret_node, char **message);

/* Is the node's value that, whatever the layout? 1, 0 or -errno. */
int json_edit_equals(const struct json_edit *edit, size_t node,
		     const char *value);

/* Leaves a value that is equal as it is laid out. */
int json_edit_replace(struct json_edit *edit, size_t node, const char *value);
/* At the end. */
int json_edit_append(struct json_edit *edit, size_t array, const char *value);
/* A new member, at the end. */
int json_edit_add(struct json_edit *edit, size_t object, const char *name,
		  const char *value);
/* A member, with its name, or an element. Not the root. */
int json_edit_remove(struct json_edit *edit, size_t node);

#endif

#include "mountctl/json_edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/output.h"

/* Of a text that has no layout of its own. */
#define DEFAULT_UNIT "  "

/* Takes ownership of the text on success. */
static int set_text(struct json_edit *edit, char *text, size_t size,
		    char **message)
{
	struct json_text json;
	int r = json_text_parse(text, size, &json, message);

	if (r < 0)
		return r;
	json_edit_release(edit);
	edit->text = text;
	edit->json = json;
	return 0;
}

int json_edit_init(struct json_edit *edit, const char *text, size_t size,
		   char **message)
{
	char *copy = malloc(size + 1);
	int r;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, size);
	copy[size] = '\0';
	*edit = (struct json_edit){0};
	r = set_text(edit, copy, size, message);
	if (r < 0)
		free(copy);
	return r;
}

void json_edit_release(struct json_edit *edit)
{
	json_text_release(&edit->json);
	free(edit->text);
	*edit = (struct json_edit){0};
}

/* Puts size bytes in the place of those from begin to end. */
static int splice(struct json_edit *edit, size_t begin, size_t end,
		  const char *bytes, size_t size)
{
	size_t whole = edit->json.size - (end - begin) + size;
	char *text = malloc(whole + 1), *out = text;
	int r;

	if (!text)
		return -ENOMEM;
	out = mempcpy(out, edit->text, begin);
	out = mempcpy(out, bytes, size);
	out = mempcpy(out, edit->text + end, edit->json.size - end);
	*out = '\0';
	r = set_text(edit, text, whole, NULL);
	if (r < 0)
		free(text);
	return r;
}

/*
 * Layout.
 */

static const struct json_node *at(const struct json_edit *edit, size_t node)
{
	return &edit->json.node[node];
}

/* The white space that the line of this place begins with. */
static char *indent_at(const struct json_edit *edit, size_t place)
{
	size_t begin = place;

	while (begin > 0 && edit->text[begin - 1] != '\n')
		begin--;
	return strndup(edit->text + begin, strspn(edit->text + begin, " \t"));
}

/* Does nothing but white space stand before it on its line? */
static bool begins_line(const struct json_edit *edit, size_t place)
{
	while (place > 0 && strchr(" \t", edit->text[place - 1]))
		place--;
	return place > 0 && edit->text[place - 1] == '\n';
}

/* Do its children, or would they, each have a line of their own? */
static bool is_spread(const struct json_edit *edit, size_t container)
{
	size_t first = at(edit, container)->first;

	if (first)
		return begins_line(edit, at(edit, first)->name);
	return container == 0 || is_spread(edit, at(edit, container)->parent);
}

static char *unit_of(const struct json_edit *edit)
{
	size_t first = at(edit, 0)->first;
	char *unit = first && is_spread(edit, 0)
			     ? indent_at(edit, at(edit, first)->name)
			     : NULL;

	if (unit && unit[0])
		return unit;
	free(unit);
	return strdup(DEFAULT_UNIT);
}

/* How the children of a container are laid out; released with it. */
struct layout {
	struct json_style style;
	char *unit, *indent; /* owned; indent: of the children */
	char *outer;	     /* owned: of the container itself */
};

static void layout_release(struct layout *layout)
{
	free(layout->unit);
	free(layout->indent);
	free(layout->outer);
}

static int find_layout(const struct json_edit *edit, size_t container,
		       struct layout *ret_layout)
{
	size_t first = at(edit, container)->first;
	struct layout layout = {
		.unit = unit_of(edit),
		.outer = indent_at(edit, at(edit, container)->begin),
	};

	if (layout.unit && layout.outer) {
		if (first)
			layout.indent = indent_at(edit, at(edit, first)->name);
		else if (asprintf(&layout.indent, "%s%s", layout.outer,
				  layout.unit) < 0)
			layout.indent = NULL;
	}
	if (!layout.indent) {
		layout_release(&layout);
		return -ENOMEM;
	}
	layout.style.newline = strstr(edit->text, "\r\n") ? "\r\n" : "\n";
	layout.style.indent = layout.indent;
	layout.style.unit = is_spread(edit, container) ? layout.unit : NULL;
	*ret_layout = layout;
	return 0;
}

static int print_value(FILE *out, const char *value,
		       const struct json_style *style)
{
	struct json_text json;
	int r = json_text_parse(value, strlen(value), &json, NULL);

	if (r < 0)
		return r;
	json_text_print(out, &json, 0, style);
	json_text_release(&json);
	return 0;
}

/* On one line without spaces: allocated, or NULL. */
static char *condense(const struct json_text *json, size_t node)
{
	static const struct json_style style = {.newline = "", .indent = ""};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	json_text_print(out, json, node, &style);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

int json_edit_equals(const struct json_edit *edit, size_t node,
		     const char *value)
{
	autofree char *ours = NULL, *theirs = NULL;
	struct json_text json;
	int r = json_text_parse(value, strlen(value), &json, NULL);

	if (r < 0)
		return r;
	theirs = condense(&json, 0);
	ours = condense(&edit->json, node);
	json_text_release(&json);
	return ours && theirs ? strcmp(ours, theirs) == 0 : -ENOMEM;
}

/*
 * Changes.
 */

static int replace(struct json_edit *edit, size_t node, const char *value)
{
	const struct json_node *n = at(edit, node);
	autofree char *bytes = NULL;
	struct layout layout;
	size_t size;
	FILE *out;
	int r = find_layout(edit, n->parent, &layout);

	if (r < 0)
		return r;
	out = open_memstream(&bytes, &size);
	r = out ? print_value(out, value, &layout.style) : -ENOMEM;
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	layout_release(&layout);
	return r < 0 ? r : splice(edit, n->begin, n->end, bytes, size);
}

int json_edit_replace(struct json_edit *edit, size_t node, const char *value)
{
	int r = json_edit_equals(edit, node, value);

	if (r < 0)
		return r;
	return r > 0 ? 0 : replace(edit, node, value);
}

static size_t last_child(const struct json_edit *edit, size_t container)
{
	size_t last = at(edit, container)->first;

	while (last && at(edit, last)->next)
		last = at(edit, last)->next;
	return last;
}

/* A new child, from where its line begins. name NULL: an element. */
static int print_child(FILE *out, const struct layout *layout, const char *name,
		       const char *value)
{
	bool spread = layout->style.unit;

	if (spread)
		fprintf(out, "%s%s", layout->style.newline, layout->indent);
	if (name) {
		json_text_quote(out, name);
		fputs(spread ? ": " : ":", out);
	}
	return print_value(out, value, &layout->style);
}

static int print_addition(FILE *out, const struct layout *layout, bool is_first,
			  const char *name, const char *value)
{
	int r;

	if (!is_first)
		fputc(',', out);
	r = print_child(out, layout, name, value);
	if (is_first && layout->style.unit)
		fprintf(out, "%s%s", layout->style.newline, layout->outer);
	return r;
}

static int add(struct json_edit *edit, size_t container, const char *name,
	       const char *value)
{
	const struct json_node *n = at(edit, container);
	size_t last = last_child(edit, container);
	size_t begin = last ? at(edit, last)->end : n->begin + 1;
	autofree char *bytes = NULL;
	struct layout layout;
	size_t size;
	FILE *out;
	int r = find_layout(edit, container, &layout);

	if (r < 0)
		return r;
	out = open_memstream(&bytes, &size);
	r = out ? print_addition(out, &layout, !last, name, value) : -ENOMEM;
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	layout_release(&layout);
	/* Spaces between brackets go. */
	return r < 0 ? r
		     : splice(edit, begin, last ? begin : n->end - 1, bytes,
			      size);
}

int json_edit_append(struct json_edit *edit, size_t array, const char *value)
{
	return add(edit, array, NULL, value);
}

int json_edit_add(struct json_edit *edit, size_t object, const char *name,
		  const char *value)
{
	return add(edit, object, name, value);
}

int json_edit_remove(struct json_edit *edit, size_t node)
{
	const struct json_node *n = at(edit, node);
	const struct json_node *parent = at(edit, n->parent);
	size_t before = parent->first;

	if (before == node && n->next)
		return splice(edit, n->name, at(edit, n->next)->name, "", 0);
	if (before == node)
		return splice(edit, parent->begin + 1, parent->end - 1, "", 0);
	while (at(edit, before)->next != node)
		before = at(edit, before)->next;
	return splice(edit, at(edit, before)->end, n->end, "", 0);
}

/*
 * Paths.
 */

static int check_kind(const struct json_edit *edit, size_t node,
		      enum json_kind kind, const char *name, char **message)
{
	if (at(edit, node)->kind == kind)
		return 0;
	return explain(-EINVAL, message, "%s%s%s isn't an %s", name ? "'" : "",
		       name ? name : "the whole", name ? "'" : "",
		       kind == JSON_ARRAY ? "array" : "object");
}

/* The member, made where it is missing. */
static int step(struct json_edit *edit, size_t object, const char *name,
		enum json_kind kind, size_t *ret_node, char **message)
{
	size_t node = 0;
	int r = json_text_member(&edit->json, object, name, &node);

	if (r == -EEXIST)
		return explain(r, message, "'%s' is there twice", name);
	if (r < 0)
		return r;
	if (!node) {
		r = json_edit_add(edit, object, name,
				  kind == JSON_ARRAY ? "[]" : "{}");
		/* What stands before it keeps its number. */
		if (r == 0)
			r = json_text_member(&edit->json, object, name, &node);
		if (r < 0)
			return r;
	}
	*ret_node = node;
	return check_kind(edit, node, kind, name, message);
}

int json_edit_make(struct json_edit *edit, const char *const *path,
		   enum json_kind kind, size_t *ret_node, char **message)
{
	size_t node = 0;
	int r = check_kind(edit, 0, path[0] ? JSON_OBJECT : kind, NULL,
			   message);

	for (; r == 0 && *path; path++)
		r = step(edit, node, *path, path[1] ? JSON_OBJECT : kind, &node,
			 message);
	if (r == 0)
		*ret_node = node;
	return r;
}

#include "mountctl/json_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/spec.h"
#include "mountctl/output.h"

struct parser {
	struct json_text *json; /* borrowed */
	size_t at;
	size_t room; /* of json->node */
	const char *why;
};

static int malformed(struct parser *p, const char *why)
{
	p->why = why;
	return -EBADMSG;
}

/* '\0' at the end: a text with a NUL in it is refused before. */
static char peek(const struct parser *p)
{
	return p->at < p->json->size ? p->json->text[p->at] : '\0';
}

static void skip_space(struct parser *p)
{
	while (peek(p) && strchr(" \t\r\n", peek(p)))
		p->at++;
}

static int add_node(struct parser *p, enum json_kind kind, size_t parent,
		    size_t *ret_node)
{
	struct json_text *json = p->json;

	if (json->n == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		struct json_node *grown =
			reallocarray(json->node, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		json->node = grown;
		p->room = room;
	}
	json->node[json->n] = (struct json_node){
		.kind = kind,
		.begin = p->at,
		.name = p->at,
		.parent = parent,
	};
	*ret_node = json->n++;
	return 0;
}

/*
 * Scalars.
 */

static int skip_escape(struct parser *p)
{
	p->at++;
	if (peek(p) != 'u') {
		if (!peek(p) || !strchr("\"\\/bfnrt", peek(p)))
			return malformed(p, "an escape that isn't one");
		p->at++;
		return 0;
	}
	for (int i = 0; i < 4; i++) {
		p->at++;
		if (!isxdigit((unsigned char)peek(p)))
			return malformed(p, "an escape that isn't one");
	}
	p->at++;
	return 0;
}

static int skip_string(struct parser *p)
{
	p->at++;
	while (peek(p) != '"') {
		unsigned char c = (unsigned char)peek(p);
		int r = 0;

		if (c < 0x20)
			return malformed(p, "a string that doesn't end");
		if (c == '\\')
			r = skip_escape(p);
		else
			p->at++;
		if (r < 0)
			return r;
	}
	p->at++;
	return 0;
}

static bool skip_digits(struct parser *p)
{
	size_t before = p->at;

	while (isdigit((unsigned char)peek(p)))
		p->at++;
	return p->at > before;
}

static int skip_number(struct parser *p)
{
	static const char why[] = "a number that isn't one";

	if (peek(p) == '-')
		p->at++;
	if (peek(p) == '0')
		p->at++;
	else if (!skip_digits(p))
		return malformed(p, why);
	if (peek(p) == '.') {
		p->at++;
		if (!skip_digits(p))
			return malformed(p, why);
	}
	if (peek(p) == 'e' || peek(p) == 'E') {
		p->at++;
		if (peek(p) == '+' || peek(p) == '-')
			p->at++;
		if (!skip_digits(p))
			return malformed(p, why);
	}
	return 0;
}

static int skip_word(struct parser *p, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(p->json->text + p->at, word, length) != 0)
		return malformed(p, "a word that JSON doesn't have");
	p->at += length;
	return 0;
}

/*
 * Values.
 */

static enum json_kind kind_at(const struct parser *p)
{
	switch (peek(p)) {
	case '{':
		return JSON_OBJECT;
	case '[':
		return JSON_ARRAY;
	case '"':
		return JSON_STRING;
	case 't':
		return JSON_TRUE;
	case 'f':
		return JSON_FALSE;
	case 'n':
		return JSON_NULL;
	default:
		return JSON_NUMBER;
	}
}

static int parse_value(struct parser *p, size_t parent, int depth,
		       size_t *ret_node);

static int parse_name(struct parser *p)
{
	int r;

	if (peek(p) != '"')
		return malformed(p, "a member without a name");
	r = skip_string(p);
	if (r < 0)
		return r;
	skip_space(p);
	if (peek(p) != ':')
		return malformed(p, "a ':' is missing");
	p->at++;
	skip_space(p);
	return 0;
}

/* One child; *last is the one before it, or 0. */
static int parse_child(struct parser *p, size_t container, int depth,
		       size_t *last)
{
	size_t name = p->at, child;
	bool named = p->json->node[container].kind == JSON_OBJECT;
	int r = named ? parse_name(p) : 0;

	if (r == 0)
		r = parse_value(p, container, depth, &child);
	if (r < 0)
		return r;
	if (named)
		p->json->node[child].name = name;
	if (*last)
		p->json->node[*last].next = child;
	else
		p->json->node[container].first = child;
	*last = child;
	skip_space(p);
	return 0;
}

static int parse_children(struct parser *p, size_t container, char closing,
			  int depth)
{
	size_t last = 0;

	p->at++;
	skip_space(p);
	if (peek(p) == closing) {
		p->at++;
		return 0;
	}
	for (;;) {
		int r = parse_child(p, container, depth, &last);

		if (r < 0)
			return r;
		if (peek(p) == closing)
			break;
		if (peek(p) != ',')
			return malformed(p, "a ',' or the end is missing");
		p->at++;
		skip_space(p);
	}
	p->at++;
	return 0;
}

static int parse_kind(struct parser *p, size_t node, int depth)
{
	switch (p->json->node[node].kind) {
	case JSON_NULL:
		return skip_word(p, "null");
	case JSON_FALSE:
		return skip_word(p, "false");
	case JSON_TRUE:
		return skip_word(p, "true");
	case JSON_NUMBER:
		return skip_number(p);
	case JSON_STRING:
		return skip_string(p);
	case JSON_ARRAY:
		return parse_children(p, node, ']', depth + 1);
	case JSON_OBJECT:
		return parse_children(p, node, '}', depth + 1);
	}
	return -EBADMSG;
}

static int parse_value(struct parser *p, size_t parent, int depth,
		       size_t *ret_node)
{
	size_t node;
	int r;

	if (depth > JSON_DEPTH_MAX)
		return malformed(p, "values lie too deep");
	if (!peek(p))
		return malformed(p, "it ends too early");
	r = add_node(p, kind_at(p), parent, &node);
	if (r == 0)
		r = parse_kind(p, node, depth);
	if (r < 0)
		return r;
	p->json->node[node].end = p->at;
	*ret_node = node;
	return 0;
}

static size_t line_of(const struct parser *p)
{
	size_t line = 1;

	for (size_t i = 0; i < p->at && i < p->json->size; i++)
		line += p->json->text[i] == '\n';
	return line;
}

static int parse_all(struct parser *p)
{
	size_t root;
	int r;

	if (strlen(p->json->text) != p->json->size)
		return malformed(p, "there is a NUL in it");
	if (!text_is_utf8(p->json->text))
		return malformed(p, "it isn't UTF-8");
	skip_space(p);
	r = parse_value(p, 0, 0, &root);
	skip_space(p);
	if (r == 0 && p->at < p->json->size)
		return malformed(p, "something follows its end");
	return r;
}

int json_text_parse(const char *text, size_t size, struct json_text *ret_json,
		    char **message)
{
	struct json_text json = {.text = text, .size = size};
	struct parser p = {.json = &json};
	int r = parse_all(&p);

	if (r == 0) {
		*ret_json = json;
		return 0;
	}
	if (p.why)
		explain(r, message, "it isn't JSON: line %zu: %s", line_of(&p),
			p.why);
	json_text_release(&json);
	return r;
}

void json_text_release(struct json_text *json)
{
	free(json->node);
	*json = (struct json_text){0};
}

/*
 * Strings.
 */

static uint32_t hex4(const char *s)
{
	char digits[5] = {s[0], s[1], s[2], s[3], '\0'};

	return (uint32_t)strtoul(digits, NULL, 16);
}

static char *put_utf8(char *out, uint32_t c)
{
	if (c == 0 || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (c & 0x3f));
	return out;
}

/* The escape at *in, which stands behind the backslash. */
static char *put_escape(char *out, const char **in)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *s = *in, *found = strchr(from, *s);
	uint32_t c;

	*in += 1;
	if (*s != 'u') {
		*out++ = found ? to[found - from] : *s;
		return out;
	}
	c = hex4(s + 1);
	*in += 4;
	if (c >= 0xd800 && c < 0xdc00 && s[5] == '\\' && s[6] == 'u') {
		uint32_t low = hex4(s + 7);

		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			*in += 6;
		}
	}
	return put_utf8(out, c);
}

/* s: the opening quote of a string that was parsed. */
static char *unescape(const char *s)
{
	/* No escape is shorter than what it stands for. */
	char *text = malloc(strlen(s)), *out = text;

	if (!text)
		return NULL;
	for (s++; *s != '"';) {
		if (*s == '\\') {
			s++;
			out = put_escape(out, &s);
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
	return text;
}

char *json_text_string(const struct json_text *json, size_t node)
{
	const struct json_node *n = &json->node[node];
	autofree char *quoted = NULL;

	if (n->kind != JSON_STRING)
		return NULL;
	quoted = strndup(json->text + n->begin, n->end - n->begin);
	return quoted ? unescape(quoted) : NULL;
}

bool json_text_is(const struct json_text *json, size_t node, const char *text)
{
	autofree char *string = json_text_string(json, node);

	return string && strcmp(string, text) == 0;
}

/* 1, 0 or -ENOMEM. */
static int has_name(const struct json_text *json, size_t node, const char *name)
{
	const struct json_node *n = &json->node[node];
	autofree char *quoted =
		strndup(json->text + n->name, n->begin - n->name);
	autofree char *found = quoted ? unescape(quoted) : NULL;

	return found ? strcmp(found, name) == 0 : -ENOMEM;
}

int json_text_member(const struct json_text *json, size_t object,
		     const char *name, size_t *ret_node)
{
	size_t found = 0;

	if (json->node[object].kind != JSON_OBJECT)
		return -EINVAL;
	for (size_t i = json->node[object].first; i; i = json->node[i].next) {
		int r = has_name(json, i, name);

		if (r < 0)
			return r;
		if (r > 0 && found)
			return -EEXIST;
		if (r > 0)
			found = i;
	}
	*ret_node = found;
	return 0;
}

/*
 * Printing.
 */

static void break_line(FILE *out, const struct json_style *style, int level)
{
	if (!style->unit)
		return;
	fprintf(out, "%s%s", style->newline, style->indent);
	for (int i = 0; i < level; i++)
		fputs(style->unit, out);
}

static void print_bytes(FILE *out, const struct json_text *json, size_t begin,
			size_t end)
{
	fwrite(json->text + begin, 1, end - begin, out);
}

static void print_name(FILE *out, const struct json_text *json, size_t node,
		       const struct json_style *style)
{
	const struct json_node *n = &json->node[node];
	size_t end = n->begin;

	/* Back over the colon and spaces, to behind the closing quote. */
	while (json->text[end - 1] != '"')
		end--;
	print_bytes(out, json, n->name, end);
	fputs(style->unit ? ": " : ":", out);
}

static void print_value(FILE *out, const struct json_text *json, size_t node,
			const struct json_style *style, int level)
{
	const struct json_node *n = &json->node[node];
	bool is_object = n->kind == JSON_OBJECT;

	if (n->kind != JSON_ARRAY && !is_object) {
		print_bytes(out, json, n->begin, n->end);
		return;
	}
	fputc(is_object ? '{' : '[', out);
	for (size_t i = n->first; i; i = json->node[i].next) {
		if (i != n->first)
			fputc(',', out);
		break_line(out, style, level + 1);
		if (is_object)
			print_name(out, json, i, style);
		print_value(out, json, i, style, level + 1);
	}
	if (n->first)
		break_line(out, style, level);
	fputc(is_object ? '}' : ']', out);
}

void json_text_print(FILE *out, const struct json_text *json, size_t node,
		     const struct json_style *style)
{
	print_value(out, json, node, style, 0);
}

void json_text_quote(FILE *out, const char *bytes)
{
	fputc('"', out);
	for (; *bytes; bytes++) {
		unsigned char c = (unsigned char)*bytes;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

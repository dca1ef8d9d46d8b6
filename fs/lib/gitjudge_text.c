#include "fs/lib/gitjudge_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a name that a message shows. */
#define MAX_SHOWN 256u

struct text text_of(const char *s)
{
	return (struct text){.data = s, .size = strlen(s)};
}

struct text text_from(struct text text, size_t from)
{
	if (from == 0) /* data may be NULL */
		return text;
	return (struct text){.data = text.data + from,
			     .size = text.size - from};
}

/* memcmp() of nothing needs a pointer all the same. */
static int compare_bytes(const char *a, const char *b, size_t size)
{
	return size ? memcmp(a, b, size) : 0;
}

bool text_equal(struct text a, struct text b)
{
	return a.size == b.size && !compare_bytes(a.data, b.data, a.size);
}

bool text_is(struct text text, const char *s)
{
	return text_equal(text, text_of(s));
}

bool text_starts_with(struct text text, const char *prefix)
{
	size_t size = strlen(prefix);

	return text.size >= size && !compare_bytes(text.data, prefix, size);
}

static int compare_sizes(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

int text_compare(struct text a, struct text b)
{
	int order = compare_bytes(a.data, b.data,
				  a.size < b.size ? a.size : b.size);

	return order ? order : compare_sizes(a.size, b.size);
}

static unsigned char fold(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

int text_compare_folded(struct text a, struct text b)
{
	for (size_t i = 0; i < a.size && i < b.size; i++) {
		int order = fold(a.data[i]) - fold(b.data[i]);

		if (order)
			return order;
	}
	return compare_sizes(a.size, b.size);
}

bool text_take_line(struct text *rest, struct text *ret_line)
{
	const char *newline;
	size_t size;

	if (!rest->size)
		return false;
	newline = memchr(rest->data, '\n', rest->size);
	size = newline ? (size_t)(newline - rest->data) + 1 : rest->size;
	*ret_line = (struct text){.data = rest->data, .size = size};
	*rest = text_from(*rest, size);
	return true;
}

int text_set_add(struct text_set *set, struct text text)
{
	if (set->n == set->allocated) {
		size_t allocated = set->allocated ? 2 * set->allocated : 16;
		struct text *grown =
			reallocarray(set->text, allocated, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		set->text = grown;
		set->allocated = allocated;
	}
	set->text[set->n++] = text;
	return 0;
}

int text_set_add_strings(struct text_set *set, const struct strings *strings)
{
	for (size_t i = 0; i < strings->n; i++)
		if (text_set_add(set, text_of(strings->s[i])) < 0)
			return -ENOMEM;
	return 0;
}

static int compare_in_set(const void *a, const void *b, void *set)
{
	return ((const struct text_set *)set)
		->compare(*(const struct text *)a, *(const struct text *)b);
}

void text_set_sort(struct text_set *set)
{
	size_t kept = 0;

	if (!set->n)
		return;
	qsort_r(set->text, set->n, sizeof(*set->text), compare_in_set, set);
	for (size_t i = 1; i < set->n; i++)
		if (set->compare(set->text[kept], set->text[i]) != 0)
			set->text[++kept] = set->text[i];
	set->n = kept + 1;
}

bool text_set_contains(const struct text_set *set, struct text text)
{
	size_t low = 0, high = set->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = set->compare(text, set->text[middle]);

		if (order == 0)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

void text_set_release(struct text_set *set)
{
	free(set->text);
	set->text = NULL;
	set->n = set->allocated = 0;
}

bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* U+0080 to U+009F: terminals take some of them for escape sequences. */
static bool is_wide_control(struct text text, size_t at)
{
	unsigned char next;

	if ((unsigned char)text.data[at] != 0xc2 || at + 1 == text.size)
		return false;
	next = (unsigned char)text.data[at + 1];
	return next >= 0x80 && next <= 0x9f;
}

/* How much of a text is shown, without half a character at its end. */
static size_t shown_size(struct text text)
{
	size_t size = MAX_SHOWN;

	if (text.size <= MAX_SHOWN)
		return text.size;
	while (size > MAX_SHOWN - 4 && (text.data[size] & 0xc0) == 0x80)
		size--;
	return size;
}

int refuse(char **ret_what, struct text what)
{
	size_t size = shown_size(what);
	char *out, *end;

	if (!ret_what)
		return -EROFS;
	out = malloc(4 * size + sizeof("..."));
	if (!out)
		return -ENOMEM;
	end = out;
	for (size_t i = 0; i < size; i++) {
		char c = what.data[i];

		if (is_control(c) || is_wide_control(what, i) ||
		    (i && is_wide_control(what, i - 1)))
			end += sprintf(end, "\\x%02x", (unsigned char)c);
		else
			*end++ = c;
	}
	strcpy(end, size < what.size ? "..." : "");
	*ret_what = out;
	return -EROFS;
}

int refuse_line(char **ret_what, size_t number)
{
	char line[32];

	snprintf(line, sizeof(line), "line %zu", number);
	return refuse(ret_what, text_of(line));
}

#include "mountctl/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"

/* Length of the printable character at s, or 0. */
static size_t printable_length(const char *s)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t length = mbrtowc(&c, s, strlen(s), &state);

	if (length == (size_t)-1 || length == (size_t)-2 ||
	    !iswprint((wint_t)c))
		return 0;
	return length;
}

char *text_escape(const char *text)
{
	static const char digits[] = "0123456789abcdef";
	char *escaped = malloc(4 * strlen(text) + 1);
	char *out = escaped;

	if (!escaped)
		return NULL;
	while (*text) {
		size_t length = printable_length(text);
		unsigned char byte = (unsigned char)*text;

		if (length > 0) {
			out = mempcpy(out, text, length);
			text += length;
			continue;
		}
		*out++ = '\\';
		*out++ = 'x';
		*out++ = digits[byte >> 4];
		*out++ = digits[byte & 15];
		text++;
	}
	*out = '\0';
	return escaped;
}

int text_width(const char *escaped)
{
	size_t length = mbstowcs(NULL, escaped, 0);
	autofree wchar_t *wide = NULL;
	int width;

	if (length != (size_t)-1)
		wide = calloc(length + 1, sizeof(*wide));
	if (!wide)
		return (int)strlen(escaped);
	mbstowcs(wide, escaped, length);
	width = wcswidth(wide, length);
	return width < 0 ? (int)length : width;
}

static void print_line(const char *prefix, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
static void print_line(const char *prefix, const char *format, va_list args)
{
	autofree char *text = NULL, *escaped = NULL;

	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return;
	}
	escaped = text_escape(text);
	fprintf(stderr, "%s%s\n", prefix, escaped ? escaped : "out of memory");
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("mountctl: ", format, args);
	va_end(args);
}

void warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("mountctl: warning: ", format, args);
	va_end(args);
}

void detail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("  ", format, args);
	va_end(args);
}

int fail(int r, const char *format, ...)
{
	autofree char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	say("%s: %s", text ? text : format, strerror(-r));
	return STATUS_FAILURE;
}

int usage_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("mountctl: ", format, args);
	va_end(args);
	return STATUS_USAGE;
}

int explain(int r, char **message, const char *format, ...)
{
	char *text;
	va_list args;

	if (!message)
		return r;
	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0) {
		free(*message);
		*message = text;
	}
	va_end(args);
	return r;
}

int fail_message(int r, const char *message)
{
	say("%s", message ? message : strerror(-r));
	return r == -EINVAL ? STATUS_USAGE : STATUS_FAILURE;
}

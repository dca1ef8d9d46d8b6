#include "mountctl/checks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"

void checks_release(struct checks *checks)
{
	for (size_t i = 0; i < checks->n; i++) {
		free(checks->check[i].detail);
		free(checks->check[i].mend);
	}
	free(checks->check);
	*checks = (struct checks){0};
}

const char *check_status_name(enum check_status status)
{
	switch (status) {
	case CHECK_OK:
		return "ok";
	case CHECK_WARN:
		return "warn";
	case CHECK_FAIL:
		return "fail";
	}
	return "fail";
}

/* Takes ownership of detail, which may be NULL: out of memory. */
static void append(struct checks *checks, const char *name,
		   enum check_status status, char *detail)
{
	struct check *grown =
		detail ? reallocarray(checks->check, checks->n + 1,
				      sizeof(*grown))
		       : NULL;

	if (!grown) {
		free(detail);
		checks->r = -ENOMEM;
		return;
	}
	checks->check = grown;
	grown[checks->n++] = (struct check){
		.name = name,
		.status = status,
		.detail = detail,
	};
}

__attribute__((format(printf, 1, 0))) static char *
format_text(const char *format, va_list args)
{
	char *text;

	return vasprintf(&text, format, args) < 0 ? NULL : text;
}

void check_add(struct checks *checks, const char *name,
	       enum check_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(checks, name, status, format_text(format, args));
	va_end(args);
}

void check_mend(struct checks *checks, const char *format, ...)
{
	va_list args;
	char *text;

	if (checks->r < 0 || checks->n == 0)
		return;
	va_start(args, format);
	text = format_text(format, args);
	va_end(args);
	if (!text)
		checks->r = -ENOMEM;
	free(checks->check[checks->n - 1].mend);
	checks->check[checks->n - 1].mend = text;
}

static const char *last_semicolon(const char *message)
{
	const char *found = NULL;

	for (const char *at = message; (at = strstr(at, "; ")); at += 2)
		found = at;
	return found;
}

void check_error(struct checks *checks, const char *name,
		 enum check_status status, int r, const char *message)
{
	const char *mend = message ? last_semicolon(message) : NULL;

	if (!message)
		message = strerror(-r);
	append(checks, name, status,
	       mend ? strndup(message, (size_t)(mend - message))
		    : strdup(message));
	if (mend)
		check_mend(checks, "%s", mend + 2);
}

enum check_status checks_worst(const struct checks *checks, const char *name)
{
	enum check_status worst = CHECK_OK;

	for (size_t i = 0; i < checks->n; i++) {
		const struct check *check = &checks->check[i];

		if (name && strcmp(check->name, name) != 0)
			continue;
		if (check->status > worst)
			worst = check->status;
	}
	return worst;
}

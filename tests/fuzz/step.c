#include "tests/fuzz/step.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"

const char *const kind_names[N_KINDS] = {
#define X(name) [KIND_##name] = #name,
	KINDS(X)
#undef X
};

const struct op_row op_rows[N_OPS] = {
#define X(op, of_kind, its_weight, its_fields) \
	[OP_##op] = {                          \
		.name = #op,                   \
		.kind = KIND_##of_kind,        \
		.weight = its_weight,          \
		.fields = its_fields,          \
	},
	OPS(X)
#undef X
};

/* How a field reads, and where it is in a step. */
enum form {
	FORM_BASE,
	FORM_TEXT,
	FORM_INT,
	FORM_FLAGS, /* hexadecimal */
	FORM_MODE,  /* octal */
	FORM_OFFSET,
	FORM_DATA,
};

static const struct {
	enum field field;
	const char *key;
	enum form form;
	size_t at;
} fields[] = {
	{HAS_FD, "fd", FORM_INT, offsetof(struct step, fd)},
	{HAS_FD2, "fd2", FORM_INT, offsetof(struct step, fd2)},
	{HAS_BASE, "base", FORM_BASE, offsetof(struct step, base)},
	{HAS_PATH, "path", FORM_TEXT, offsetof(struct step, path)},
	{HAS_BASE2, "base2", FORM_BASE, offsetof(struct step, base2)},
	{HAS_PATH2, "path2", FORM_TEXT, offsetof(struct step, path2)},
	{HAS_FLAGS, "flags", FORM_FLAGS, offsetof(struct step, flags)},
	{HAS_MODE, "mode", FORM_MODE, offsetof(struct step, mode)},
	{HAS_AT, "at", FORM_OFFSET, offsetof(struct step, at)},
	{HAS_AT2, "at2", FORM_OFFSET, offsetof(struct step, at2)},
	{HAS_LENGTH, "length", FORM_OFFSET, offsetof(struct step, length)},
	{HAS_DATA, "data", FORM_DATA, offsetof(struct step, data)},
};

void step_release(struct step *step)
{
	free(step->path);
	free(step->path2);
	step->path = step->path2 = NULL;
}

void print_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\' || *c <= ' ' || *c > '~')
			fprintf(out, "\\x%02x", (unsigned char)*c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}

static void print_base(FILE *out, int base)
{
	if (base == BASE_ROOT)
		fputs("root", out);
	else if (base == BASE_CWD)
		fputs("cwd", out);
	else
		fprintf(out, "%d", base);
}

static void print_field(FILE *out, enum form form, const void *value)
{
	switch (form) {
	case FORM_BASE:
		print_base(out, *(const int *)value);
		break;
	case FORM_TEXT:
		print_quoted(out, *(char *const *)value);
		break;
	case FORM_INT:
		fprintf(out, "%d", *(const int *)value);
		break;
	case FORM_FLAGS:
		fprintf(out, "0x%x", *(const unsigned int *)value);
		break;
	case FORM_MODE:
		fprintf(out, "0%o", *(const unsigned int *)value);
		break;
	case FORM_OFFSET:
		fprintf(out, "%lld", (long long)*(const int64_t *)value);
		break;
	case FORM_DATA:
		fprintf(out, "%u", *(const uint32_t *)value);
		break;
	}
}

char *step_print(const struct step *step)
{
	unsigned int has = op_rows[step->op].fields;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fprintf(out, "%d %s", step->actor, op_rows[step->op].name);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!(has & fields[i].field))
			continue;
		fprintf(out, " %s=", fields[i].key);
		print_field(out, fields[i].form,
			    (const char *)step + fields[i].at);
	}
	return fclose(out) == 0 ? text : NULL;
}

/* Reads what print_quoted() wrote; *at is moved behind it. Allocated. */
static char *parse_quoted(const char **at)
{
	const char *end = **at == '"' ? strchr(*at + 1, '"') : NULL;
	char *text = end ? malloc((size_t)(end - *at)) : NULL;
	char *to = text;

	if (!text)
		return NULL;
	for (const char *c = *at + 1; c < end; c++) {
		unsigned int byte = (unsigned char)*c;

		if (*c == '\\' && sscanf(c, "\\x%2x", &byte) == 1)
			c += 3;
		*to++ = (char)byte;
	}
	*to = '\0';
	*at = end + 1;
	return text;
}

static long long parse_number(const char **at)
{
	char *end;
	long long number = strtoll(*at, &end, 0);

	*at = end;
	return number;
}

static int parse_base(const char **at)
{
	if (strncmp(*at, "root", 4) == 0) {
		*at += 4;
		return BASE_ROOT;
	}
	if (strncmp(*at, "cwd", 3) == 0) {
		*at += 3;
		return BASE_CWD;
	}
	return (int)parse_number(at);
}

static int parse_field(const char **at, enum form form, void *ret_value)
{
	switch (form) {
	case FORM_BASE:
		*(int *)ret_value = parse_base(at);
		return 0;
	case FORM_TEXT:
		free(*(char **)ret_value);
		*(char **)ret_value = parse_quoted(at);
		return *(char **)ret_value ? 0 : -EINVAL;
	case FORM_INT:
	case FORM_FLAGS:
		*(int *)ret_value = (int)parse_number(at);
		return 0;
	case FORM_MODE:
	case FORM_DATA:
		*(uint32_t *)ret_value = (uint32_t)parse_number(at);
		return 0;
	case FORM_OFFSET:
		*(int64_t *)ret_value = parse_number(at);
		return 0;
	}
	return -EINVAL;
}

/* " key=value", as often as there are any. */
static int parse_fields(const char *at, struct step *step)
{
	while (*at == ' ') {
		const char *key = ++at;
		size_t length = strcspn(key, "=");
		int r = -EINVAL;

		if (key[length] != '=')
			return -EINVAL;
		at += length + 1;
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			if (strlen(fields[i].key) == length &&
			    strncmp(fields[i].key, key, length) == 0)
				r = parse_field(&at, fields[i].form,
						(char *)step + fields[i].at);
		if (r < 0)
			return r;
	}
	return *at ? -EINVAL : 0;
}

/* A step has text wherever its operation has a path. */
static int fill_paths(struct step *step)
{
	unsigned int has = op_rows[step->op].fields;

	if ((has & HAS_PATH) && !step->path)
		step->path = strdup("");
	if ((has & HAS_PATH2) && !step->path2)
		step->path2 = strdup("");
	return ((has & HAS_PATH) && !step->path) ||
			       ((has & HAS_PATH2) && !step->path2)
		       ? -ENOMEM
		       : 0;
}

int step_parse(const char *line, struct step *ret_step)
{
	struct step step = {.base = BASE_ROOT, .base2 = BASE_ROOT};
	char name[16];
	int end = 0, r = -EINVAL;

	if (sscanf(line, "%d %15s%n", &step.actor, name, &end) != 2)
		return -EINVAL;
	for (int op = 0; op < N_OPS; op++) {
		if (strcmp(op_rows[op].name, name) != 0)
			continue;
		step.op = (enum op)op;
		r = parse_fields(line + end, &step);
	}
	if (r == 0)
		r = fill_paths(&step);
	if (r < 0)
		step_release(&step);
	else
		*ret_step = step;
	return r;
}

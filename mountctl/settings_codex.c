#include "mountctl/settings_codex.h"

#define PROFILE "worktreefs"

/* How the rows of a table are held together. */
struct row_style {
	const char *equals, *after;
};

static const struct row_style on_lines = {" = ", "\n"};
static const struct row_style in_braces = {"=", ","};

static void print_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04X", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void print_row(FILE *out, const struct row_style *style,
		      const char *path, const char *access)
{
	print_string(out, path);
	fputs(style->equals, out);
	print_string(out, access);
	fputs(style->after, out);
}

static const char *access_word(enum access access)
{
	switch (access) {
	case ACCESS_RW:
		return "write";
	case ACCESS_RO:
		return "read";
	case ACCESS_NONE:
		return "deny"; /* reads, too */
	}
	return "deny";
}

/*
 * The most specific path wins. The git directory that the worktree leads to
 * stays read-only unless exactly that one is named.
 */
static void print_rows(FILE *out, const struct row_style *style,
		       const struct settings *settings)
{
	const struct session_spec *spec = &settings->spec;

	for (size_t i = 0; i < spec->rules.n; i++) {
		const struct rule *rule = &spec->rules.rule[i];

		if (settings_tell(spec, rule))
			print_row(out, style, rule->path,
				  access_word(rule->access));
	}
	if (spec->git_dir)
		print_row(out, style, spec->git_dir, "write");
	if (spec->admin_dir)
		print_row(out, style, spec->admin_dir, "write");
	for (size_t i = 0; i < settings->held.n; i++)
		print_row(out, style, settings->held.s[i], "read");
}

void settings_codex_print(FILE *out, const struct settings *settings)
{
	fputs("default_permissions = \"" PROFILE "\"\n"
	      "\n"
	      "[permissions." PROFILE "]\n"
	      "extends = \":workspace\"\n"
	      "\n"
	      "[permissions." PROFILE ".filesystem]\n",
	      out);
	print_rows(out, &on_lines, settings);
	fputs("\n[permissions." PROFILE ".filesystem.\":workspace_roots\"]\n"
	      "\".\" = \"write\"\n",
	      out);
}

/*
 * One table as a value: a key with a path in it would be taken apart at its
 * dots.
 */
void settings_codex_print_args(FILE *out, const struct settings *settings,
			       char end)
{
	fprintf(out, "-c%cdefault_permissions=\"" PROFILE "\"%c", end, end);
	fprintf(out,
		"-c%cpermissions." PROFILE "={extends=\":workspace\","
		"filesystem={",
		end);
	print_rows(out, &in_braces, settings);
	fprintf(out, "\":workspace_roots\"={\".\"=\"write\"}}}%c", end);
}

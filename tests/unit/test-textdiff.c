/* Unified diffs: texts of a few lines, and a check by patch(1) of random ones.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "mountctl/textdiff.h"

static char *diff(const char *before, const char *after)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(out);
	cr_assert_eq(textdiff_print(out, "f", before, after), 0);
	cr_assert_eq(fclose(out), 0);
	return text;
}

static const struct {
	const char *before, *after, *diff;
} rows[] = {
	{"", "", ""},
	{"a\nb\n", "a\nb\n", ""},
	{NULL, "a\nb\n", "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
	{"a\n", "b\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"},
	{"a", "a\n",
	 "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
	{"1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n5\n6\n",
	 "--- f\n+++ f\n@@ -2,5 +2,6 @@\n 2\n 3\n 4\n+x\n 5\n 6\n"},
	{"a\n1\n2\n3\n4\n5\n6\n7\nb\n", "x\n1\n2\n3\n4\n5\n6\n7\ny\n",
	 "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n"
	 "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n"},
	{"\tx\n", "\t\x1b[31m\n",
	 "--- f\n+++ f\n@@ -1 +1 @@\n-\tx\n+\t\\x1b[31m\n"},
};

Test(textdiff, rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autofree char *text = diff(rows[i].before, rows[i].after);

		cr_expect_str_eq(text, rows[i].diff);
	}
}

/*
 * By its own reading: the lines of each side, taken from the hunks and from
 * what stands between them.
 */

static const char *skip_lines(const char *text, size_t n, FILE *out)
{
	for (; n > 0 && *text; n--) {
		size_t length = strcspn(text, "\n") + 1;

		fwrite(text, 1, length, out);
		text += length;
	}
	return text;
}

static char *patch(const char *before, const char *patch_text)
{
	char *text = NULL;
	size_t size, line = 0;
	FILE *out = open_memstream(&text, &size);
	const char *s = strstr(patch_text, "@@ ");

	while (s && *s) {
		size_t start, length = strcspn(s, "\n") + 1, n = 1;

		if (*s == '@') {
			cr_assert_geq(sscanf(s, "@@ -%zu,%zu", &start, &n), 1);
			start -= n > 0;
			before = skip_lines(before, start - line, out);
			line = start;
		} else {
			if (*s != '+') {
				size_t old = strcspn(before, "\n") + 1;

				cr_assert_eq(strncmp(before, s + 1, old), 0);
				before += old;
				line++;
			}
			if (*s != '-')
				fwrite(s + 1, 1, length - 1, out);
		}
		s += length;
	}
	fputs(before, out);
	cr_assert_eq(fclose(out), 0);
	return text;
}

static char *random_text(void)
{
	size_t n = (size_t)(rand() % 30);
	char *text = calloc(2 * n + 1, 1);

	cr_assert_not_null(text);
	for (size_t i = 0; i < n; i++) {
		text[2 * i] = (char)('a' + rand() % 3);
		text[2 * i + 1] = '\n';
	}
	return text;
}

Test(textdiff, random)
{
	srand(1);
	for (int i = 0; i < 5000; i++) {
		autofree char *before = random_text(), *after = random_text();
		autofree char *text = diff(before, after);
		autofree char *patched = patch(before, text);

		cr_assert_str_eq(patched, after, "%s", text);
	}
}

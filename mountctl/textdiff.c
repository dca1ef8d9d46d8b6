#include "mountctl/textdiff.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/output.h"

/* Lines around a change. */
#define CONTEXT 3

/* Where more pairs of lines than this differ, all of them are one change. */
#define MAX_PAIRS (16u << 20)

struct line {
	const char *text; /* borrowed */
	size_t length;	  /* without the newline */
	bool ends;	  /* has one */
};

struct lines {
	struct line *line; /* owned */
	size_t n;
};

static int split(const char *text, struct lines *ret_lines)
{
	size_t n = 0, i = 0;
	struct line *line;

	for (const char *s = text; *s; s++)
		n += *s == '\n' || !s[1];
	line = calloc(n + 1, sizeof(*line));
	if (!line)
		return -ENOMEM;
	while (*text) {
		size_t length = strcspn(text, "\n");

		line[i++] = (struct line){text, length, text[length] == '\n'};
		text += length + (text[length] == '\n');
	}
	*ret_lines = (struct lines){line, n};
	return 0;
}

static bool equal(const struct line *a, const struct line *b)
{
	return a->length == b->length && a->ends == b->ends &&
	       memcmp(a->text, b->text, a->length) == 0;
}

/* One step from a place in both texts to the next. */
enum step {
	STEP_BOTH,
	STEP_OLD,
	STEP_NEW,
};

struct diff {
	FILE *out;
	struct lines old, new;
	size_t skip;	      /* lines that are equal at the beginning */
	size_t rows, columns; /* what differs behind them */
	/* Length of the longest common part from a pair on; or NULL. Owned. */
	uint32_t *longest;
	enum step *step; /* owned */
	size_t n_steps;
};

static void trim(struct diff *d)
{
	size_t n = d->old.n < d->new.n ? d->old.n : d->new.n, tail = 0;

	while (d->skip < n &&
	       equal(&d->old.line[d->skip], &d->new.line[d->skip]))
		d->skip++;
	while (tail < n - d->skip && equal(&d->old.line[d->old.n - 1 - tail],
					   &d->new.line[d->new.n - 1 - tail]))
		tail++;
	d->rows = d->old.n - d->skip - tail;
	d->columns = d->new.n - d->skip - tail;
}

static uint32_t *cell(const struct diff *d, size_t row, size_t column)
{
	return &d->longest[row * (d->columns + 1) + column];
}

static bool is_common(const struct diff *d, size_t row, size_t column)
{
	return equal(&d->old.line[d->skip + row],
		     &d->new.line[d->skip + column]);
}

static int compare(struct diff *d)
{
	size_t pairs = (d->rows + 1) * (d->columns + 1);

	if (pairs > MAX_PAIRS)
		return 0;
	d->longest = calloc(pairs, sizeof(*d->longest));
	if (!d->longest)
		return -ENOMEM;
	for (size_t row = d->rows; row-- > 0;) {
		for (size_t column = d->columns; column-- > 0;) {
			uint32_t below = *cell(d, row + 1, column);
			uint32_t right = *cell(d, row, column + 1);

			*cell(d, row, column) =
				is_common(d, row, column)
					? *cell(d, row + 1, column + 1) + 1
				: below > right ? below
						: right;
		}
	}
	return 0;
}

static enum step choose(const struct diff *d, size_t row, size_t column)
{
	if (row == d->rows)
		return STEP_NEW;
	if (column == d->columns)
		return STEP_OLD;
	if (!d->longest)
		return STEP_OLD;
	if (is_common(d, row, column))
		return STEP_BOTH;
	return *cell(d, row + 1, column) >= *cell(d, row, column + 1)
		       ? STEP_OLD
		       : STEP_NEW;
}

static int walk(struct diff *d)
{
	size_t row = 0, column = 0;

	d->step = calloc(d->old.n + d->new.n + 1, sizeof(*d->step));
	if (!d->step)
		return -ENOMEM;
	for (size_t i = 0; i < d->skip; i++)
		d->step[d->n_steps++] = STEP_BOTH;
	while (row < d->rows || column < d->columns) {
		enum step step = choose(d, row, column);

		d->step[d->n_steps++] = step;
		row += step != STEP_NEW;
		column += step != STEP_OLD;
	}
	for (size_t i = d->skip + d->rows; i < d->old.n; i++)
		d->step[d->n_steps++] = STEP_BOTH;
	return 0;
}

/*
 * Printing.
 */

/* Tabs stay what they are. */
static void print_text(FILE *out, const struct line *line)
{
	autofree char *copy = strndup(line->text, line->length);
	char *rest = copy, *part;

	while (rest && (part = strsep(&rest, "\t"))) {
		autofree char *escaped = text_escape(part);

		fprintf(out, "%s%s", escaped ? escaped : "?", rest ? "\t" : "");
	}
}

static void print_line(FILE *out, char mark, const struct line *line)
{
	fputc(mark, out);
	print_text(out, line);
	fputs(line->ends ? "\n" : "\n\\ No newline at end of file\n", out);
}

/* Steps from begin to end, at these lines of the texts, from 0. */
struct hunk {
	size_t begin, end;
	size_t old, new;
};

static void print_range(FILE *out, char mark, size_t begin, size_t n)
{
	/* A range of none is named by the line before it. */
	fprintf(out, "%c%zu", mark, begin + (n > 0));
	if (n != 1)
		fprintf(out, ",%zu", n);
}

static void print_hunk(const struct diff *d, const struct hunk *hunk)
{
	size_t old = hunk->old, new = hunk->new, n_old = 0, n_new = 0;

	for (size_t i = hunk->begin; i < hunk->end; i++) {
		n_old += d->step[i] != STEP_NEW;
		n_new += d->step[i] != STEP_OLD;
	}
	fputs("@@ ", d->out);
	print_range(d->out, '-', old, n_old);
	fputc(' ', d->out);
	print_range(d->out, '+', new, n_new);
	fputs(" @@\n", d->out);
	for (size_t i = hunk->begin; i < hunk->end; i++) {
		enum step step = d->step[i];

		print_line(d->out, " -+"[step],
			   step == STEP_NEW ? &d->new.line[new]
					    : &d->old.line[old]);
		old += step != STEP_NEW;
		new += step != STEP_OLD;
	}
}

/* The end of the hunk whose first change is at this step. */
static size_t hunk_end(const struct diff *d, size_t change)
{
	size_t end = change;

	for (size_t i = change; i < d->n_steps && i <= end + 2 * CONTEXT; i++)
		if (d->step[i] != STEP_BOTH)
			end = i;
	return end + 1 + CONTEXT < d->n_steps ? end + 1 + CONTEXT : d->n_steps;
}

static void print_hunks(const struct diff *d)
{
	size_t old = 0, new = 0;

	for (size_t i = 0; i < d->n_steps;) {
		size_t back = i < CONTEXT ? i : CONTEXT;
		struct hunk hunk = {i - back, hunk_end(d, i), old - back,
				    new - back};

		if (d->step[i] == STEP_BOTH) {
			hunk.end = i + 1;
		} else {
			print_hunk(d, &hunk);
		}
		for (; i < hunk.end; i++) {
			old += d->step[i] != STEP_NEW;
			new += d->step[i] != STEP_OLD;
		}
	}
}

static int print_all(struct diff *d, const char *name, bool is_new)
{
	autofree char *escaped = text_escape(name);
	int r;

	trim(d);
	if (d->rows == 0 && d->columns == 0)
		return 0;
	r = compare(d);
	if (r == 0)
		r = walk(d);
	if (r < 0 || !escaped)
		return -ENOMEM;
	fprintf(d->out, "--- %s\n+++ %s\n", is_new ? "/dev/null" : escaped,
		escaped);
	print_hunks(d);
	return 0;
}

int textdiff_print(FILE *out, const char *name, const char *before,
		   const char *after)
{
	struct diff diff = {.out = out};
	int r = split(before ? before : "", &diff.old);

	if (r == 0)
		r = split(after, &diff.new);
	if (r == 0)
		r = print_all(&diff, name, !before);
	free(diff.old.line);
	free(diff.new.line);
	free(diff.longest);
	free(diff.step);
	return r;
}

/*
 * packed-refs, read as git's refs/packed-backend.c does:
 *
 *   # pack-refs with: peeled fully-peeled sorted
 *   OID refs/heads/x
 *   OID refs/tags/y
 *   ^OID                   what the tag y leads to
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge_text.h"

struct packed_ref {
	struct text name;
	struct text value;
	struct text peeled; /* empty where there is none */
};

/* Goes through the refs of a text. */
struct packed_reader {
	struct text rest;
	bool sorted;	      /* the header says so */
	size_t object_length; /* 0 before the first ref */
	size_t line;	      /* of the ref that came last, or the bad one */
	struct text last;     /* its name */
};

/* The refs of a text, sorted by name. */
struct packed {
	struct packed_ref *ref; /* owned; points into the text */
	size_t n;
	size_t object_length;
};

static void packed_release(struct packed *packed)
{
	free(packed->ref);
}
#define autopacked __attribute__((cleanup(packed_release)))

/* Is word one of those with single spaces between them? */
static bool has_word(struct text words, const char *word)
{
	while (words.size) {
		const char *space = memchr(words.data, ' ', words.size);
		struct text first = words;

		if (space)
			first.size = (size_t)(space - words.data);
		if (text_is(first, word))
			return true;
		words = text_from(words, first.size + (space ? 1 : 0));
	}
	return false;
}

/* The next line, without its newline. -EINVAL where it has none. */
static int take_line(struct packed_reader *reader, struct text *ret_line)
{
	struct text line;

	reader->line++;
	if (!text_take_line(&reader->rest, &line) ||
	    line.data[line.size - 1] != '\n')
		return -EINVAL;
	line.size--;
	*ret_line = line;
	return 0;
}

/* 0, or -EINVAL for a comment that isn't the header git writes. */
static int reader_open(struct packed_reader *reader, struct text text)
{
	static const char header[] = "# pack-refs with: ";
	struct text line;

	*reader = (struct packed_reader){.rest = text};
	if (!text_starts_with(text, "#"))
		return 0;
	if (take_line(reader, &line) < 0 || !text_starts_with(line, header))
		return -EINVAL;
	if (memchr(line.data, '\0', line.size))
		return -EINVAL;
	reader->sorted =
		has_word(text_from(line, sizeof(header) - 1), "sorted");
	return 0;
}

/* An object name at a line's beginning; all of a file are of one length. */
static int take_object(struct packed_reader *reader, struct text *line,
		       struct text *ret_object)
{
	size_t length = object_name_length(*line);

	if (!length ||
	    (reader->object_length && reader->object_length != length))
		return -EINVAL;
	reader->object_length = length;
	*ret_object = (struct text){.data = line->data, .size = length};
	*line = text_from(*line, length);
	return 0;
}

static int take_peeled(struct packed_reader *reader, struct text *ret_peeled)
{
	struct text line;
	int r;

	if (!text_starts_with(reader->rest, "^"))
		return 0;
	r = take_line(reader, &line);
	if (r < 0)
		return r;
	line = text_from(line, 1);
	r = take_object(reader, &line, ret_peeled);
	return r == 0 && line.size ? -EINVAL : r;
}

/* 1 and the next ref; 0 at the end; -EINVAL. */
static int reader_next(struct packed_reader *reader, struct packed_ref *ret_ref)
{
	struct packed_ref ref = {0};
	struct text line;

	if (!reader->rest.size)
		return 0;
	if (take_line(reader, &line) < 0 ||
	    take_object(reader, &line, &ref.value) < 0 ||
	    !text_starts_with(line, " "))
		return -EINVAL;
	ref.name = text_from(line, 1);
	if (!ref_name_is_valid(ref.name))
		return -EINVAL;
	if (reader->sorted && text_compare(reader->last, ref.name) >= 0)
		return -EINVAL;
	reader->last = ref.name;
	if (take_peeled(reader, &ref.peeled) < 0)
		return -EINVAL;
	*ret_ref = ref;
	return 1;
}

int packed_refs_find(struct text packed, const char *ref, char **ret_value)
{
	struct text name = text_of(ref), value = {0};
	struct packed_reader reader;
	struct packed_ref found;
	char *copy = NULL;
	int r = reader_open(&reader, packed);

	if (r < 0)
		return r;
	while ((r = reader_next(&reader, &found)) > 0) {
		if (!text_equal(found.name, name))
			continue;
		if (value.size) /* twice, in a file that isn't sorted */
			return -EINVAL;
		value = found.value;
	}
	if (r < 0)
		return r;
	if (value.size) {
		copy = strndup(value.data, value.size);
		if (!copy)
			return -ENOMEM;
	}
	*ret_value = copy;
	return 0;
}

static int compare_refs(const void *a, const void *b)
{
	return text_compare(((const struct packed_ref *)a)->name,
			    ((const struct packed_ref *)b)->name);
}

/* Refuses what has a name twice. */
static int packed_sort(struct packed *packed, char **ret_what)
{
	if (packed->n)
		qsort(packed->ref, packed->n, sizeof(*packed->ref),
		      compare_refs);
	for (size_t i = 1; i < packed->n; i++)
		if (compare_refs(&packed->ref[i - 1], &packed->ref[i]) == 0)
			return refuse(ret_what, packed->ref[i].name);
	return 0;
}

static size_t count_lines(struct text text)
{
	struct text line;
	size_t n = 0;

	while (text_take_line(&text, &line))
		n++;
	return n;
}

/* Refuses what isn't a packed-refs file, and tells which line is wrong. */
static int packed_parse(struct text text, struct packed *packed,
			char **ret_what)
{
	struct packed_reader reader;

	*packed = (struct packed){0};
	packed->ref = calloc(count_lines(text) + 1, sizeof(*packed->ref));
	if (!packed->ref)
		return -ENOMEM;
	if (reader_open(&reader, text) < 0)
		return refuse_line(ret_what, reader.line);
	for (;;) {
		int r = reader_next(&reader, &packed->ref[packed->n]);

		if (r < 0)
			return refuse_line(ret_what, reader.line);
		if (r == 0)
			break;
		packed->n++;
	}
	packed->object_length = reader.object_length;
	return reader.sorted ? 0 : packed_sort(packed, ret_what);
}

/* What a judgement is about. */
struct packed_judge {
	const struct strings *protected_refs;
	char *(*loose)(void *data, const char *ref);
	void *data;
};

static bool is_replacement(const char *name)
{
	return !strncmp(name, "refs/replace/", strlen("refs/replace/"));
}

/*
 * Refs that the text may not change. Besides those that are protected, those
 * below and those whose names would be in their way: what git doesn't pack but
 * would find there, HEAD or MERGE_HEAD and refs that each worktree has.
 */
static bool is_held(const struct packed_judge *judge, const char *name)
{
	static const char *const of_worktrees[] = {
		"refs/bisect/",
		"refs/rewritten/",
		"refs/worktree/",
	};

	if (strncmp(name, "refs/", 5) != 0 || !strcmp(name, "refs/replace") ||
	    is_replacement(name))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(of_worktrees); i++)
		if (!strncmp(name, of_worktrees[i], strlen(of_worktrees[i])))
			return true;
	return ref_is_protected(judge->protected_refs, name) ||
	       ref_leads_to_protected(judge->protected_refs, name);
}

static bool objects_equal(struct text a, struct text b)
{
	return a.size == b.size &&
	       (!a.size || !strncasecmp(a.data, b.data, a.size));
}

/* The value of a loose ref may have white space after it. */
static bool is_value(struct text object, const char *loose)
{
	struct text value = text_of(loose);

	value.size = strcspn(loose, " \t\r\n");
	return objects_equal(object, value);
}

/*
 * Does the ref still say what it said? was and is are NULL where it isn't
 * packed. What a ref leads to can only be vouched for where it stays;
 * replacements are found by their own value alone.
 */
static bool value_holds(const struct packed_ref *was,
			const struct packed_ref *is, const char *name,
			const char *loose)
{
	if (!is)
		return loose != NULL;
	if (was && objects_equal(was->value, is->value) &&
	    (objects_equal(was->peeled, is->peeled) || !is->peeled.size ||
	     is_replacement(name)))
		return true;
	return loose && is_value(is->value, loose) &&
	       (!is->peeled.size || is_replacement(name));
}

static int judge_ref(const struct packed_judge *judge,
		     const struct packed_ref *was, const struct packed_ref *is,
		     char **ret_what)
{
	struct text name = was ? was->name : is->name;
	autofree char *name_copy = NULL;
	autofree char *loose = NULL;

	if (was && is && objects_equal(was->value, is->value) &&
	    objects_equal(was->peeled, is->peeled))
		return 0;
	name_copy = strndup(name.data, name.size);
	if (!name_copy)
		return -ENOMEM;
	if (!is_held(judge, name_copy))
		return 0;
	loose = judge->loose(judge->data, name_copy);
	if (value_holds(was, is, name_copy, loose))
		return 0;
	return refuse(ret_what, name);
}

/* Both are sorted: one walk meets each name once. */
static int judge_refs(const struct packed_judge *judge,
		      const struct packed *old, const struct packed *new,
		      char **ret_what)
{
	size_t i = 0, k = 0;

	while (i < old->n || k < new->n) {
		const struct packed_ref *was = NULL, *is = NULL;
		int order = 0;
		int r;

		if (i < old->n && k < new->n)
			order = compare_refs(&old->ref[i], &new->ref[k]);
		if (i < old->n && (k == new->n || order <= 0))
			was = &old->ref[i++];
		if (k < new->n && (was == NULL || order == 0))
			is = &new->ref[k++];
		r = judge_ref(judge, was, is, ret_what);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A file with object names of the other hash makes git give up. What there is
 * of them tells which the repository has: old, or else the protected refs.
 */
static int judge_length(const struct packed_judge *judge,
			const struct packed *old, const struct packed *new,
			char **ret_what)
{
	if (!new->n)
		return 0;
	if (old->n)
		return old->object_length == new->object_length
			       ? 0
			       : refuse(ret_what, new->ref[0].name);
	for (size_t i = 0; i < judge->protected_refs->n; i++) {
		autofree char *loose =
			judge->loose(judge->data, judge->protected_refs->s[i]);
		size_t length = loose ? object_name_length(text_of(loose)) : 0;

		if (length && length != new->object_length)
			return refuse(ret_what, new->ref[0].name);
	}
	return 0;
}

int judge_packed_refs(struct text old, struct text new,
		      const struct strings *protected_refs,
		      char *(*loose)(void *data, const char *ref), void *data,
		      char **ret_what)
{
	const struct packed_judge judge = {
		.protected_refs = protected_refs,
		.loose = loose,
		.data = data,
	};
	autopacked struct packed was = {0};
	autopacked struct packed is = {0};
	int r;

	r = packed_parse(old, &was, ret_what);
	if (r == 0)
		r = packed_parse(new, &is, ret_what);
	if (r == 0)
		r = judge_length(&judge, &was, &is, ret_what);
	return r < 0 ? r : judge_refs(&judge, &was, &is, ret_what);
}

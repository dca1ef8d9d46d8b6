/*
 * Texts changed at random, always the same ones. What the judges must see is
 * told here in a simpler way than theirs.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge.h"

#define autostrings __attribute__((cleanup(strings_release)))

/* A literal with NULs in it. */
#define RAW(s) ((struct text){.data = (s), .size = sizeof(s) - 1})

static struct strings protected_refs, old_remotes, old_submodules;
static struct config_context context;

static void set_up(void)
{
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/main"), 0);
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/user/x"), 0);
	cr_assert_eq(strings_add(&old_remotes, "origin"), 0);
	cr_assert_eq(strings_add(&old_submodules, "lib"), 0);
	context = (struct config_context){
		.protected_refs = &protected_refs,
		.old_remotes = &old_remotes,
		.old_submodules = &old_submodules,
		.user_has_name = true,
		.user_has_email = true,
	};
}

static void tear_down(void)
{
	strings_release(&protected_refs);
	strings_release(&old_remotes);
	strings_release(&old_submodules);
}

TestSuite(gitjudge_random, .init = set_up, .fini = tear_down, .timeout = 300);

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t next_random(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

/*
 * A config. Each entry here is a whole one; which of them can't possibly be
 * safe is told from their beginning and end.
 */

static const char *const pool[] = {
	"core.bare\nfalse",
	"core.bare\ntrue",
	"core.bare",
	"core.hookspath\nx",
	"core.quotepath\nfalse",
	"alias.x\n!y",
	"alias.x\ny",
	"filter.a.clean\nx",
	"include.path\nx",
	"worktreefs.safeconfig\n*",
	"branch.main.remote\norigin",
	"branch.main.remote\nn",
	"branch.main.merge\nrefs/heads/main",
	"branch.main/x.merge\nrefs/heads/main",
	"branch.t.remote\norigin",
	"branch.t.remote\nn",
	"branch.t.remote\n/n",
	"branch.t.merge\nrefs/heads/t",
	"branch.t.mergeoptions\nx",
	"branch.u.pushremote\nn",
	"remote.origin.url\nhttps://a/b",
	"remote.origin.url\nhttps://c/d",
	"remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*",
	"remote.n.url\nhttps://a/b",
	"remote.n.url\n/tmp/x",
	"remote.n.fetch\n+refs/heads/*:refs/remotes/n/*",
	"remote.n.uploadpack\nx",
	"submodule.lib.url\nhttps://a/b",
	"submodule.s.url\nhttps://a/b",
	"submodule.s.update\n!x",
	"color.ui\nauto",
	"advice.x\nfalse",
	"pull.rebase\ntrue",
	"user.name\nx",
	"extensions.worktreeconfig\ntrue",
};

/* A listing as the test sees it. Behind its end there is a NUL. */
struct heap {
	char data[4096];
	size_t size;
};

/* Of the entry at a place, with its NUL if it has one. */
static size_t entry_size(const struct heap *heap, size_t at)
{
	size_t left = heap->size - at;
	size_t size = strnlen(heap->data + at, left) + 1;

	return size < left ? size : left;
}

#define FOR_EACH_ENTRY(at, heap) \
	for (size_t at = 0; at < (heap)->size; at += entry_size(heap, at))

static void heap_add(struct heap *heap, const char *entry)
{
	size_t size = strlen(entry) + 1;

	if (heap->size + size >= sizeof(heap->data))
		return;
	memcpy(heap->data + heap->size, entry, size);
	heap->size += size;
	heap->data[heap->size] = '\0';
}

static void heap_cut(struct heap *heap, size_t from, size_t size)
{
	memmove(heap->data + from, heap->data + from + size,
		heap->size - from - size);
	heap->size -= size;
	heap->data[heap->size] = '\0';
}

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool ends_key(const char *s, const char *with)
{
	size_t size = strcspn(s, "\n"), n = strlen(with);

	return size >= n && !strncmp(s + size - n, with, n);
}

/* Has the key this beginning, and then one name without a dot? */
static bool is_key_of(const char *entry, const char *beginning)
{
	size_t size = strlen(beginning);

	return !strncmp(entry, beginning, size) &&
	       entry[size + strcspn(entry + size, ".\n")] != '.';
}

/* Never safe, whatever else the listing holds. */
static bool is_hard(const char *entry)
{
	static const char *const soft[] = {
		"core.quotepath", "color.",
		"advice.",	  "pull.rebase",
		"pull.ff",	  "push.default",
		"rerere.enabled", "lfs.repositoryformatversion",
	};

	if (begins(entry, "branch."))
		return is_key_of(entry, "branch.main.") ||
		       begins(entry, "branch.main/") ||
		       is_key_of(entry, "branch.user/x.") ||
		       ends_key(entry, ".mergeoptions");
	if (begins(entry, "remote."))
		return is_key_of(entry, "remote.origin.") ||
		       !(ends_key(entry, ".url") || ends_key(entry, ".fetch"));
	if (begins(entry, "submodule."))
		return is_key_of(entry, "submodule.lib.") ||
		       !(ends_key(entry, ".url") || ends_key(entry, ".active"));
	if (begins(entry, "extensions.worktreeconfig"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(soft); i++)
		if (begins(entry, soft[i]))
			return false;
	return true;
}

/* The hard entries of a listing, one after another. */
static void hard_ones(const struct heap *from, struct heap *ret_hard)
{
	ret_hard->size = 0;
	FOR_EACH_ENTRY(i, from)
	if (is_hard(from->data + i))
		heap_add(ret_hard, from->data + i);
}

static bool has_entry(const struct heap *heap, const char *entry)
{
	FOR_EACH_ENTRY(i, heap)
	if (!strcmp(heap->data + i, entry))
		return true;
	return false;
}

/* Is there a "remote.NAME.url" at all? */
static bool has_remote(const struct heap *heap, const char *name)
{
	char key[128];
	size_t size;

	snprintf(key, sizeof(key), "remote.%s.url\n", name);
	size = strlen(key);
	FOR_EACH_ENTRY(i, heap)
	if (!strncmp(heap->data + i, key, size))
		return true;
	return false;
}

/* Of what is new: no remote that is a path, no branch that has one. */
static void check_new_entries(const struct heap *old, const struct heap *new)
{
	FOR_EACH_ENTRY(i, new)
	{
		const char *entry = new->data + i;
		const char *value = strchr(entry, '\n');

		if (has_entry(old, entry))
			continue;
		if (begins(entry, "remote.") && ends_key(entry, ".url"))
			cr_assert(value && strchr(value, ':') &&
					  value[1] != '/' && value[1] != '-',
				  "%s", entry);
		if (begins(entry, "branch.") &&
		    (ends_key(entry, ".remote") ||
		     ends_key(entry, ".pushremote")))
			cr_assert(value && (!strcmp(value, "\n.") ||
					    has_remote(new, value + 1)),
				  "%s", entry);
	}
}

static void random_listing(struct heap *heap)
{
	size_t n = next_random(12);

	heap->size = 0;
	for (size_t i = 0; i < n; i++)
		heap_add(heap, pool[next_random(ARRAY_SIZE(pool))]);
}

static size_t random_entry(const struct heap *heap)
{
	size_t n = next_random(12), found = 0;

	FOR_EACH_ENTRY(at, heap)
	{
		found = at;
		if (!n--)
			break;
	}
	return found;
}

static void change(struct heap *heap)
{
	static const char bytes[] = "\n.=/:aA\x01\xff remotbnchuil";
	size_t at = random_entry(heap), size = entry_size(heap, at);
	static struct heap copy;

	copy = *heap;
	switch (next_random(6)) {
	case 0: /* one goes */
		heap_cut(heap, at, size);
		break;
	case 1: /* one comes */
		heap_cut(heap, at, heap->size - at);
		heap_add(heap, pool[next_random(ARRAY_SIZE(pool))]);
		for (; at < copy.size; at += entry_size(&copy, at))
			heap_add(heap, copy.data + at);
		break;
	case 2: /* one comes twice */
		heap_add(heap, copy.data + at);
		break;
	case 3: /* one goes to the end */
		heap_cut(heap, at, size);
		heap_add(heap, copy.data + at);
		break;
	case 4: /* another byte, sometimes a NUL */
		if (size)
			heap->data[at + next_random((uint32_t)size)] =
				bytes[next_random(sizeof(bytes))];
		break;
	default: /* cut off, or no NUL at the end */
		if (size)
			at += next_random((uint32_t)size);
		heap_cut(heap, at, heap->size - at);
		break;
	}
}

Test(gitjudge_random, configs)
{
	size_t passed = 0, rounds = 300000;
	static struct heap old, new, old_hard, new_hard;

	for (size_t i = 0; i < rounds; i++) {
		uint32_t n = next_random(4);
		int r;

		random_listing(&old);
		new = old;
		while (n--)
			change(&new);
		/* In a block of its very size, so that a read beyond shows. */
		autofree char *data = malloc(new.size ? new.size : 1);

		cr_assert_not_null(data);
		memcpy(data, new.data, new.size);
		r = judge_config(
			(struct text){.data = old.data, .size = old.size},
			(struct text){.data = data, .size = new.size}, &context,
			NULL);
		if (r < 0) {
			cr_assert_eq(r, -EROFS);
			continue;
		}
		passed++;
		cr_assert(!new.size || !new.data[new.size - 1]);
		if (has_entry(&old, "worktreefs.safeconfig\n*"))
			continue;
		hard_ones(&old, &old_hard);
		hard_ones(&new, &new_hard);
		cr_assert_eq(old_hard.size, new_hard.size, "round %zu", i);
		cr_assert_eq(
			memcmp(old_hard.data, new_hard.data, old_hard.size), 0,
			"round %zu", i);
		check_new_entries(&old, &new);
	}
	/* Neither everything nor nothing. */
	cr_assert_gt(passed, rounds / 10);
	cr_assert_lt(passed, rounds - rounds / 10);
}

/* packed-refs and reflogs */

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define HEADER "# pack-refs with: peeled fully-peeled sorted \n"
#define LINE(time, message) \
	ONE " " TWO " A U Thor <a@example.org> " time " +0200\t" message "\n"
#define A LINE("100", "commit: a")
#define B LINE("200", "commit: b")
#define C LINE("300", "commit: c")
#define D LINE("400", "commit: d")

static char *no_loose_ref(void *data, const char *ref)
{
	return NULL;
}

/* One line of a text with its newline, in a static buffer; "" beyond. */
static const char *line_at(struct text text, size_t n)
{
	static char line[256];
	const char *at = text.data, *end = at + text.size;
	size_t size = 0;

	while (n-- && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	while (at + size < end && size + 1 < sizeof(line)) {
		line[size] = at[size];
		if (line[size++] == '\n')
			break;
	}
	line[size] = '\0';
	return line;
}

/* Does a text hold this line? */
static bool has_line(struct text text, const char *line)
{
	return memmem(text.data, text.size, line, strlen(line)) != NULL;
}

/* Changes bytes, lines and sizes of a copy. */
static char *changed(struct text text, size_t *ret_size)
{
	static const char bytes[] = "\n 0123456789abcdef^#/.\trefs";
	char *data = malloc(text.size + 400);
	size_t size = text.size, n = next_random(4);

	cr_assert_not_null(data);
	memcpy(data, text.data, text.size);
	while (n--) {
		size_t at = size ? next_random((uint32_t)size) : 0;
		const char *line = line_at(text, next_random(5));
		size_t line_size = strlen(line);

		switch (next_random(5)) {
		case 0:
			if (size)
				data[at] = bytes[next_random(sizeof(bytes))];
			break;
		case 1:
			size = at;
			break;
		case 2: /* a line of the old text at the end */
			if (size + line_size < text.size + 400) {
				memcpy(data + size, line, line_size);
				size += line_size;
			}
			break;
		case 3: /* a line goes */
			if (line_size && size >= line_size) {
				char *found =
					memmem(data, size, line, line_size);

				if (!found)
					break;
				size -= line_size;
				memmove(found, found + line_size,
					size - (size_t)(found - data));
			}
			break;
		default:
			break;
		}
	}
	*ret_size = size;
	return data;
}

Test(gitjudge_random, packed_refs)
{
	static const char keep[] = ONE " refs/heads/main\n";
	struct text old =
		RAW(HEADER ONE " refs/heads/a\n" ONE " refs/heads/main\n" TWO
			       " refs/tags/v\n^" ONE "\n");
	size_t passed = 0, rounds = 100000;

	for (size_t i = 0; i < rounds; i++) {
		size_t size;
		autofree char *data = changed(old, &size);
		autofree char *exact = malloc(size ? size : 1);
		struct text new = {.data = exact, .size = size};

		cr_assert_not_null(exact);
		memcpy(exact, data, size);
		if (judge_packed_refs(old, new, &protected_refs, no_loose_ref,
				      NULL, NULL) < 0)
			continue;
		passed++;
		cr_assert(has_line(new, keep), "round %zu", i);
		cr_assert_not(has_line(new, " refs/heads/main/"));
	}
	cr_assert_gt(passed, rounds / 20);
	cr_assert_lt(passed, rounds - rounds / 20);
}

Test(gitjudge_random, reflogs)
{
	static const char log[] = A B C D;
	struct text old = RAW(A B C D);
	size_t passed = 0, rounds = 100000;

	for (size_t i = 0; i < rounds; i++) {
		size_t size;
		autofree char *data = changed(old, &size);
		autofree char *exact = malloc(size ? size : 1);
		struct text new = {.data = exact, .size = size};

		cr_assert_not_null(exact);
		memcpy(exact, data, size);
		if (judge_stash_log(old, new, 300, NULL) == 0)
			cr_assert(size >= sizeof(A B) - 1 &&
				  !memcmp(exact, log, sizeof(A B) - 1));
		if (judge_reflog(old, new, 300, NULL) < 0)
			continue;
		passed++;
		/* C and D, with A, B or both before them. */
		cr_assert(size >= sizeof(C D) - 1);
		cr_assert_eq(memcmp(exact + size - (sizeof(C D) - 1), C D,
				    sizeof(C D) - 1),
			     0);
		cr_assert_eq((size - (sizeof(C D) - 1)) % (sizeof(A) - 1), 0);
		cr_assert_leq(size, sizeof(log) - 1);
	}
	cr_assert_gt(passed, rounds / 20);
	cr_assert_lt(passed, rounds - rounds / 20);
}

/* Any bytes at all. */
Test(gitjudge_random, bytes)
{
	for (size_t i = 0; i < 20000; i++) {
		size_t size = next_random(200);
		autofree char *data = malloc(size ? size : 1);
		struct text text = {.data = data, .size = size};
		autostrings struct strings names = {0};

		cr_assert_not_null(data);
		for (size_t k = 0; k < size; k++)
			data[k] = next_random(4)
					  ? "remot.url\n"[next_random(11)]
					  : (char)next_random(256);
		if (size && next_random(2))
			data[size - 1] = '\0';
		judge_config(text, text, &context, NULL);
		judge_config(RAW("core.bare\nfalse\0"), text, &context, NULL);
		config_remotes(text, &names);
		judge_packed_refs(text, text, &protected_refs, no_loose_ref,
				  NULL, NULL);
		judge_reflog(text, text, 1000, NULL);
		judge_stash_log(text, text, 1000, NULL);
	}
}

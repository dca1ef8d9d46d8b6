/*
 * What may replace packed-refs and reflogs, and which refs are protected. See
 * test-gitjudge-config.c for the config.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge.h"

/* Object names. */
#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define TEN "abababababababababababababababababababab"
#define BIG ONE "111111111111111111111111"
#define HEADER "# pack-refs with: peeled fully-peeled sorted \n"

#define RAW(s) ((struct text){.data = (s), .size = sizeof(s) - 1})

static struct strings protected_refs;

static void set_up(void)
{
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/main"), 0);
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/user/x"), 0);
}

static void tear_down(void)
{
	strings_release(&protected_refs);
}

TestSuite(gitjudge, .init = set_up, .fini = tear_down, .timeout = 300);

static struct text text_of(const char *s)
{
	return (struct text){.data = s, .size = s ? strlen(s) : 0};
}

Test(gitjudge, protected_refs)
{
	const struct strings *refs = &protected_refs, none = {0};

	cr_assert(ref_is_protected(refs, "refs/heads/main"));
	cr_assert(ref_is_protected(refs, "refs/heads/main/x/y"));
	cr_assert(ref_is_protected(refs, "refs/heads/user/x"));
	cr_assert_not(ref_is_protected(refs, "refs/heads/mainx"));
	cr_assert_not(ref_is_protected(refs, "refs/heads/mai"));
	cr_assert_not(ref_is_protected(refs, "refs/heads/Main"));
	cr_assert_not(ref_is_protected(refs, "refs/heads/user"));
	cr_assert_not(ref_is_protected(refs, "main"));
	cr_assert_not(ref_is_protected(refs, ""));
	cr_assert_not(ref_is_protected(&none, "refs/heads/main"));

	cr_assert(ref_leads_to_protected(refs, "refs"));
	cr_assert(ref_leads_to_protected(refs, "refs/heads"));
	cr_assert(ref_leads_to_protected(refs, "refs/heads/user"));
	cr_assert_not(ref_leads_to_protected(refs, "refs/heads/user/x"));
	cr_assert_not(ref_leads_to_protected(refs, "refs/heads/use"));
	cr_assert_not(ref_leads_to_protected(refs, "refs/tags"));
	cr_assert_not(ref_leads_to_protected(refs, ""));
	cr_assert_not(ref_leads_to_protected(&none, "refs"));
}

/* packed-refs */

/* Loose refs: names and values by turns, ending in NULL. */
static char *loose_ref(void *data, const char *ref)
{
	for (const char *const *at = data; at && at[0]; at += 2)
		if (!strcmp(at[0], ref))
			return strdup(at[1]);
	return NULL;
}

static const char *const no_loose[] = {NULL};

static void expect_packed(const char *old, const char *new,
			  const char *const *loose, const char *what)
{
	autofree char *said = NULL;
	int r = judge_packed_refs(text_of(old), text_of(new), &protected_refs,
				  loose_ref, (void *)(uintptr_t)loose, &said);

	if (!what) {
		cr_assert_eq(r, 0, "refused for %s:\n%.1000s", said, new);
		cr_assert_null(said);
		return;
	}
	cr_assert_eq(r, -EROFS, "%d, not refused:\n%.1000s", r, new);
	cr_assert_str_eq(said, what, "%s\n%.1000s", said, new);
}

Test(gitjudge, packed_refs_of_others_are_free)
{
	static const char old[] =
		HEADER ONE " refs/heads/main\n" ONE " refs/heads/t\n";

	expect_packed(old, old, no_loose, NULL);
	expect_packed(old,
		      HEADER ONE " refs/heads/main\n" TWO " refs/heads/t\n" TWO
				 " refs/tags/v\n^" ONE "\n",
		      no_loose, NULL);
	expect_packed(old, HEADER ONE " refs/heads/main\n", no_loose, NULL);
	/* The header may change, and its order with it. */
	expect_packed(old, ONE " refs/x\n" ONE " refs/heads/main\n", no_loose,
		      NULL);
	expect_packed(ONE " refs/x\n" ONE " refs/heads/main\n", old, no_loose,
		      NULL);
	expect_packed("", "", no_loose, NULL);
	expect_packed(NULL, NULL, no_loose, NULL);
	expect_packed(NULL, HEADER, no_loose, NULL);
	expect_packed(HEADER, "", no_loose, NULL);
	expect_packed("", HEADER TWO " refs/heads/t\n", no_loose, NULL);
}

Test(gitjudge, protected_packed_refs_stay)
{
	static const char main_one[] = HEADER ONE " refs/heads/main\n";
	static const char main_two[] = HEADER TWO " refs/heads/main\n";
	static const char *const loose_two[] = {"refs/heads/main", TWO, NULL};
	static const char *const loose_line[] = {"refs/heads/main", TWO "\n",
						 NULL};
	static const char *const symbolic[] = {"refs/heads/main",
					       "ref: refs/heads/t", NULL};

	expect_packed(main_one, main_two, no_loose, "refs/heads/main");
	expect_packed(main_one, HEADER, no_loose, "refs/heads/main");
	expect_packed(main_one, "", no_loose, "refs/heads/main");
	expect_packed(HEADER, main_one, no_loose, "refs/heads/main");
	/* A loose one hides it. */
	expect_packed(main_one, main_one, loose_two, NULL);
	expect_packed(main_one, main_two, loose_two, NULL);
	expect_packed(main_one, main_two, loose_line, NULL);
	expect_packed(main_one, HEADER, loose_two, NULL);
	expect_packed(HEADER, main_two, loose_two, NULL);
	expect_packed(HEADER, HEADER, loose_two, NULL);
	expect_packed(HEADER, main_one, loose_two, "refs/heads/main");
	expect_packed(main_one, HEADER TEN " refs/heads/main\n", loose_two,
		      "refs/heads/main");
	expect_packed(main_one, HEADER, symbolic, NULL);
	expect_packed(main_one, main_two, symbolic, "refs/heads/main");
	/* Letters of object names fold. */
	expect_packed(HEADER TEN " refs/heads/main\n",
		      HEADER "ABabababababababababababababababababab"
			     "AB refs/heads/main\n",
		      no_loose, NULL);
	/* A branch is no tag: git must not take it for another object. */
	expect_packed(main_one, HEADER ONE " refs/heads/main\n^" TWO "\n",
		      no_loose, "refs/heads/main");
	expect_packed(HEADER, HEADER TWO " refs/heads/main\n^" TWO "\n",
		      loose_two, "refs/heads/main");
	expect_packed(HEADER ONE " refs/heads/main\n^" TWO "\n", main_one,
		      no_loose, NULL);
}

Test(gitjudge, names_around_protected_ones)
{
	static const char main_one[] = HEADER ONE " refs/heads/main\n";
	static const char *const below[] = {"refs/heads/main/x", TWO, NULL};

	expect_packed(main_one,
		      HEADER ONE " refs/heads/main\n" ONE
				 " refs/heads/main/x\n",
		      no_loose, "refs/heads/main/x");
	expect_packed(HEADER, HEADER ONE " refs/heads/main/x\n", no_loose,
		      "refs/heads/main/x");
	/* Where it is there already it stays. */
	expect_packed(HEADER ONE " refs/heads/main/x\n",
		      HEADER ONE " refs/heads/main/x\n", no_loose, NULL);
	expect_packed(HEADER ONE " refs/heads/main/x\n", HEADER, no_loose,
		      "refs/heads/main/x");
	expect_packed(HEADER, HEADER TWO " refs/heads/main/x\n", below, NULL);
	/* A file where a directory must be. */
	expect_packed(main_one,
		      HEADER ONE " refs/heads/main\n" ONE " refs/heads/user\n",
		      no_loose, "refs/heads/user");
	expect_packed(HEADER, HEADER ONE " refs/heads\n", no_loose,
		      "refs/heads");
	expect_packed(HEADER, HEADER ONE " refs/heads/mainx\n", no_loose, NULL);
	expect_packed(HEADER, HEADER ONE " refs/heads/user/y\n", no_loose,
		      NULL);
}

Test(gitjudge, what_is_never_packed_stays_away)
{
	static const char *const names[] = {
		"HEAD",
		"MERGE_HEAD",
		"CHERRY_PICK_HEAD",
		"heads/x",
		"refs/bisect/bad",
		"refs/worktree/x",
		"refs/rewritten/x",
		"refs/replace",
		"refs",
		"main-worktree/HEAD",
		"worktrees/w/HEAD",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autofree char *with = NULL;

		cr_assert_gt(asprintf(&with, HEADER ONE " %s\n", names[i]), 0);
		expect_packed(HEADER, with, no_loose, names[i]);
		expect_packed(with, HEADER, no_loose, names[i]);
		expect_packed(with, with, no_loose, NULL);
	}
}

Test(gitjudge, replacements_stay)
{
	static const char old[] = HEADER ONE " refs/replace/" TWO "\n";
	static const char *const loose[] = {"refs/replace/" TWO, TEN, NULL};

	expect_packed(old, old, no_loose, NULL);
	expect_packed(old, HEADER, no_loose, "refs/replace/" TWO);
	expect_packed(HEADER, old, no_loose, "refs/replace/" TWO);
	expect_packed(old, HEADER TWO " refs/replace/" TWO "\n", no_loose,
		      "refs/replace/" TWO);
	expect_packed(old, HEADER TEN " refs/replace/" TWO "\n", loose, NULL);
	expect_packed(old, HEADER, loose, NULL);
	expect_packed(HEADER, HEADER TEN " refs/replace/" TWO "\n", loose,
		      NULL);
	expect_packed(HEADER, old, loose, "refs/replace/" TWO);
	/* One that replaces a tag by a tag. */
	expect_packed(HEADER, HEADER TEN " refs/replace/" TWO "\n^" ONE "\n",
		      loose, NULL);
	strings_release(&protected_refs);
	expect_packed(HEADER, old, no_loose, "refs/replace/" TWO);
	expect_packed(HEADER, HEADER ONE " refs/replacement/x\n", no_loose,
		      NULL);
}

Test(gitjudge, text_that_is_no_packed_refs)
{
	static const struct {
		const char *text, *what;
	} rows[] = {
		{"x\n", "line 1"},
		{"\n", "line 1"},
		{" \n", "line 1"},
		{HEADER "\n", "line 2"},
		{HEADER "\n" ONE " refs/heads/t\n", "line 2"},
		{HEADER HEADER, "line 2"},
		{"#\n", "line 1"},
		{"# pack-refs\n", "line 1"},
		{"# pack-refs with:\n", "line 1"},
		{"# pack-refs with: peeled", "line 1"},
		{ONE " refs/heads/t\n# pack-refs with: peeled \n", "line 2"},
		/* the ends of lines */
		{ONE " refs/heads/t", "line 1"},
		{ONE " refs/heads/t\n" ONE " refs/heads/u", "line 2"},
		{ONE " refs/heads/t\r\n", "line 1"},
		{HEADER ONE " refs/tags/t\n^" ONE, "line 3"},
		{HEADER ONE " refs/tags/t\n^" ONE "\r\n", "line 3"},
		/* object names */
		{"1111 refs/heads/t\n", "line 1"},
		{"1" ONE " refs/heads/t\n", "line 1"},
		{"g" ONE " refs/heads/t\n", "line 1"},
		{ONE "\trefs/heads/t\n", "line 1"},
		{ONE "\n", "line 1"},
		{ONE " refs/heads/t\n" BIG " refs/heads/u\n", "line 2"},
		/* what a tag leads to */
		{"^" ONE "\n", "line 1"},
		{HEADER "^" ONE "\n", "line 2"},
		{ONE " refs/tags/t\n^" ONE "\n^" ONE "\n", "line 3"},
		{ONE " refs/tags/t\n^" ONE " x\n", "line 2"},
		{ONE " refs/tags/t\n^" BIG "\n", "line 2"},
		{ONE " refs/tags/t\n^\n", "line 2"},
		/* names */
		{ONE " \n", "line 1"},
		{ONE "  refs/heads/t\n", "line 1"},
		{ONE " /refs/heads/t\n", "line 1"},
		{ONE " refs/heads/t/\n", "line 1"},
		{ONE " refs//heads/t\n", "line 1"},
		{ONE " refs/heads/../t\n", "line 1"},
		{ONE " refs/heads/a..b\n", "line 1"},
		{ONE " refs/heads/.t\n", "line 1"},
		{ONE " ./refs/heads/t\n", "line 1"},
		{ONE " refs/heads/t.\n", "line 1"},
		{ONE " refs/heads/t.lock\n", "line 1"},
		{ONE " refs/heads/t.lock/x\n", "line 1"},
		{ONE " refs/heads/a b\n", "line 1"},
		{ONE " refs/heads/a\x01\n", "line 1"},
		{ONE " refs/heads/a\x7f\n", "line 1"},
		{ONE " refs/heads/a~1\n", "line 1"},
		{ONE " refs/heads/a^\n", "line 1"},
		{ONE " refs/heads/a:b\n", "line 1"},
		{ONE " refs/heads/a?\n", "line 1"},
		{ONE " refs/heads/*\n", "line 1"},
		{ONE " refs/heads/[\n", "line 1"},
		{ONE " refs/heads/a\\b\n", "line 1"},
		{ONE " refs/heads/a@{1}\n", "line 1"},
		{ONE " @\n", "line 1"},
		/* order */
		{HEADER ONE " refs/heads/b\n" ONE " refs/heads/a\n", "line 3"},
		{HEADER ONE " refs/heads/a\n" ONE " refs/heads/a\n", "line 3"},
		{"# pack-refs with: sorted\n" ONE " refs/b\n" ONE " refs/a\n",
		 "line 3"},
		{ONE " refs/heads/a\n" TWO " refs/heads/b\n" ONE
		     " refs/heads/a\n",
		 "refs/heads/a"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autofree char *value = NULL;

		expect_packed(HEADER, rows[i].text, no_loose, rows[i].what);
		expect_packed(rows[i].text, HEADER, no_loose, rows[i].what);
		if (rows[i].what[0] == 'l')
			cr_assert_eq(packed_refs_find(text_of(rows[i].text),
						      "refs/heads/t", &value),
				     -EINVAL, "%s", rows[i].text);
		cr_assert_null(value);
	}
	/* Strange, and yet good. */
	expect_packed("", ONE " refs/heads/b\n" ONE " refs/heads/a\n", no_loose,
		      NULL);
	expect_packed("",
		      "# pack-refs with: sorted2\n" ONE " refs/b\n" ONE
		      " refs/a\n",
		      no_loose, NULL);
	expect_packed("", ONE " refs/heads/a.b/c@d/\xc3\xa9\n", no_loose, NULL);
}

Test(gitjudge, packed_refs_with_nuls)
{
	static const struct text bad[] = {
		RAW(HEADER ONE " refs/heads/a\0b\n"),
		RAW(HEADER ONE "\0refs/heads/a\n"),
		RAW("# pack-refs with: \0sorted\n"),
		RAW("\0"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autofree char *what = NULL, *value = NULL;

		cr_assert_eq(judge_packed_refs(text_of(""), bad[i],
					       &protected_refs, loose_ref, NULL,
					       &what),
			     -EROFS);
		cr_assert_not_null(what);
		cr_assert_eq(packed_refs_find(bad[i], "refs/x", &value),
			     -EINVAL);
	}
}

/* Files of another hash make git give up. */
Test(gitjudge, object_names_are_as_long_as_they_were)
{
	static const char *const loose[] = {"refs/heads/main", ONE, NULL};
	static const char *const loose_big[] = {"refs/heads/main", BIG, NULL};
	static const char big[] = HEADER BIG " refs/heads/t\n";

	expect_packed(HEADER ONE " refs/heads/t\n", big, no_loose,
		      "refs/heads/t");
	expect_packed(big, HEADER ONE " refs/heads/t\n", no_loose,
		      "refs/heads/t");
	expect_packed(HEADER, big, loose, "refs/heads/t");
	expect_packed(HEADER, big, loose_big, NULL);
	expect_packed(big, big, no_loose, NULL);
	expect_packed(big, HEADER, no_loose, NULL);
}

Test(gitjudge, a_value_is_found)
{
	static const char packed[] =
		HEADER ONE " refs/heads/main\n" TWO " refs/tags/v\n^" ONE "\n";
	static const struct {
		const char *ref, *value;
	} rows[] = {
		{"refs/heads/main", ONE},  {"refs/tags/v", TWO},
		{"refs/heads/mai", NULL},  {"refs/heads/mainx", NULL},
		{"refs/heads/Main", NULL}, {"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autofree char *value = NULL;

		cr_assert_eq(
			packed_refs_find(text_of(packed), rows[i].ref, &value),
			0);
		cr_assert_eq(!value, !rows[i].value);
		if (value)
			cr_assert_str_eq(value, rows[i].value);
	}
	{
		char *value = NULL;

		cr_assert_eq(packed_refs_find((struct text){0}, "x", &value),
			     0);
		cr_assert_null(value);
		cr_assert_eq(packed_refs_find(
				     text_of(ONE " refs/a\n" ONE " refs/a\n"),
				     "refs/a", &value),
			     -EINVAL);
	}
}

/* Reflogs */

#define LINE(time, message) \
	ONE " " TWO " A U Thor <a@example.org> " time " +0200\t" message "\n"

static void expect_reflog(const char *old, const char *new, time_t older_than,
			  const char *what)
{
	autofree char *said = NULL;
	int r = judge_reflog(text_of(old), text_of(new), older_than, &said);

	if (!what) {
		cr_assert_eq(r, 0, "refused for %s:\n%.1000s", said, new);
		cr_assert_null(said);
		return;
	}
	cr_assert_eq(r, -EROFS, "%d, not refused:\n%.1000s", r, new);
	cr_assert_str_eq(said, what, "%s\n%.1000s", said, new);
	cr_assert_eq(judge_reflog(text_of(old), text_of(new), older_than, NULL),
		     -EROFS);
}

#define A LINE("100", "commit: a")
#define B LINE("200", "commit: b")
#define C LINE("300", "commit: c")
#define D LINE("400", "commit: d")

Test(gitjudge, reflogs_lose_old_lines_only)
{
	static const char log[] = A B C D;

	expect_reflog(log, log, 0, NULL);
	expect_reflog(log, log, 300, NULL);
	expect_reflog(log, B C D, 300, NULL);
	expect_reflog(log, A C D, 300, NULL);
	expect_reflog(log, C D, 300, NULL);
	expect_reflog(log, A B D, 300, "line 3");
	expect_reflog(log, D, 300, "line 3");
	expect_reflog(log, A B C, 300, "line 4");
	expect_reflog(log, "", 300, "line 3");
	expect_reflog(log, "", 401, NULL);
	expect_reflog(log, "", 400, "line 4");
	expect_reflog(log, B C D, 0, "line 1");
	expect_reflog(log, B C D, -1, "line 1");
	/* Nothing comes, and nothing changes. */
	expect_reflog(log, A B C D D, 1000, "line 5");
	expect_reflog(log, A A B C D, 300, "line 3");
	expect_reflog(log, B A C D, 300, "line 3");
	expect_reflog(log, A B D C, 1000, "line 4");
	expect_reflog(log, A B C LINE("400", "commit: D"), 300, "line 4");
	expect_reflog(log, LINE("101", "commit: a") B C D, 300, "line 3");
	expect_reflog("", A, 1000, "line 1");
	expect_reflog("", "", 1000, NULL);
	expect_reflog(NULL, NULL, 1000, NULL);
	/* The same line twice. */
	expect_reflog(A A B, A B, 150, NULL);
	expect_reflog(B A B, B, 150, "line 3");
	expect_reflog(A C A C, C A C, 150, NULL);
	expect_reflog(A C A C, A C C, 150, NULL);
}

/* What has no time counts as new. */
Test(gitjudge, reflog_lines_without_a_time)
{
	static const char *const bad[] = {
		"\n",
		"x\n",
		ONE " " TWO " A <a> 100 +0200\tno newline",
		" " ONE " " TWO " A <a> 100 +0200\tx\n",
		ONE " " TWO " A <a> \tx\n",
		ONE " " TWO " A <a>\n",
		ONE " " TWO " A a 100 +0200\tx\n",
		ONE " " TWO " A <a>  100 +0200\tx\n",
		ONE " " TWO " A <a> -100 +0200\tx\n",
		ONE " " TWO " A <a> +100 +0200\tx\n",
		ONE " " TWO " A <a> 0x10 +0200\tx\n",
		ONE " " TWO " A <a> 0 +0200\tx\n",
		ONE " " TWO " A <a> 100\n",
		ONE " " TWO " A <a> 100 0200\tx\n",
		ONE " " TWO " A <a> 100 +020\tx\n",
		ONE " " TWO " A <a> 100 + 200\tx\n",
		ONE " " TWO " A <a> 99999999999999999999 +0200\tx\n",
		ONE " " TWO " A <a> 18446744073709551716 +0200\tx\n",
		ONE " A <a> 100 +0200\tx\n",
		ONE TWO " A <a> 100 +0200\tx\n",
		ONE "\t" TWO " A <a> 100 +0200\tx\n",
		"1" ONE " " TWO " A <a> 100 +0200\tx\n",
		/* git looks at the first ">" */
		ONE " " TWO " A> <a> 100 +0200\tx\n",
		ONE " " TWO " A <a> x +0200\t> 100 +0200\tx\n",
	};
	static const char *const good[] = {
		ONE " " TWO " A <a> 100 +0200\tx\n",
		ONE " " TWO " A <a> 100 -0200\n",
		ONE " " TWO " A <a> 100 +0200 x\n",
		ONE " " TWO "  <> 100 +0200\tx > 900 +0200\r\n",
		BIG " " BIG " A <a> 100 +0200\tx\n",
		ONE " " TWO " A <a> 0000000100 +0200\tx\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		expect_reflog(bad[i], bad[i], 1000, NULL);
		expect_reflog(bad[i], "", 1000, "line 1");
		cr_assert_not(stash_log_has_older(text_of(bad[i]), 1000), "%s",
			      bad[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		expect_reflog(good[i], "", 1000, NULL);
		expect_reflog(good[i], "", 100, "line 1");
		cr_assert(stash_log_has_older(text_of(good[i]), 1000), "%s",
			  good[i]);
	}
}

/* git writes the tab before a message that isn't there when it rewrites. */
Test(gitjudge, reflog_lines_without_a_message)
{
	static const char old[] = ONE " " TWO " A <a> 100 +0200\n";
	static const char new[] = ONE " " TWO " A <a> 100 +0200\t\n";

	expect_reflog(old, new, 0, NULL);
	expect_reflog(new, new, 0, NULL);
	expect_reflog(new, old, 0, "line 1");
	expect_reflog(old, ONE " " TWO " A <a> 100 +0200\tx\n", 0, "line 1");
	expect_reflog(old, ONE " " TWO " A <a> 100 +0200 \n", 0, "line 1");
	expect_reflog("x\n", "x\t\n", 0, "line 1");
	expect_reflog(ONE " " TWO " A <a> 100 +0200\tx\n",
		      ONE " " TWO " A <a> 100 +0200\tx\t\n", 0, "line 1");
	expect_reflog(ONE " " TWO " A <a> 100 +0200",
		      ONE " " TWO " A <a> 100 +0200\t", 0, "line 1");
}

Test(gitjudge, reflogs_with_nuls)
{
	char *what = NULL;

	cr_assert_eq(judge_reflog(RAW("a\0b\n"), RAW("a\0b\n"), 0, NULL), 0);
	cr_assert_eq(judge_reflog(RAW("a\0b\n"), RAW("a\0c\n"), 0, &what),
		     -EROFS);
	cr_assert_str_eq(what, "line 1");
	free(what);
	cr_assert_eq(judge_reflog(RAW("a\0"), RAW("a"), 0, NULL), -EROFS);
}

Test(gitjudge, stash_leads_to_its_entries)
{
	static const char log[] = ONE " " TWO " A <a> 100 +0200\tx\n";
	static const char longer[] = ONE " " TWO " A <a> 100 +0200\tx\n"
					 "garbage\n";
	static const char *const bad[] = {
		"",  "x\n",	 "x",	    ONE "\n",
		TWO, TWO "\n\n", TWO "2\n", "ref: refs/heads/main\n",
	};
	autofree char *what = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_assert_eq(judge_stash_ref(text_of(log), text_of(bad[i]), 300,
					     NULL),
			     -EROFS, "%s", bad[i]);
		cr_assert_eq(judge_stash_ref(text_of(log), text_of(bad[i]), 100,
					     NULL),
			     0, "%s", bad[i]);
	}
	cr_assert_eq(
		judge_stash_ref(text_of(log), text_of(TWO "\n"), 300, NULL), 0);
	cr_assert_eq(
		judge_stash_ref(text_of(longer), text_of(TWO "\n"), 300, NULL),
		0);
	cr_assert_eq(judge_stash_ref(text_of(log), text_of("x"), 300, &what),
		     -EROFS);
	cr_assert_str_eq(what, "refs/stash");
}

static void expect_stash(const char *old, const char *new, time_t older_than,
			 const char *what)
{
	autofree char *said = NULL;
	int r = judge_stash_log(text_of(old), text_of(new), older_than, &said);

	cr_assert_eq(r, what ? -EROFS : 0, "%d for %s:\n%.1000s", r, said, new);
	if (what)
		cr_assert_str_eq(said, what, "%s\n%.1000s", said, new);
	else
		cr_assert_null(said);
}

Test(gitjudge, stash_keeps_its_beginning)
{
	static const char log[] = A B C D;

	expect_stash(log, log, 300, NULL);
	expect_stash(log, A B, 300, NULL);
	expect_stash(log, A B D, 300, NULL);
	expect_stash(log, A B D C "anything\n", 300, NULL);
	expect_stash(log, A B C D A, 300, NULL);
	expect_stash(log, A C D, 300, "line 2");
	expect_stash(log, B C D, 300, "line 1");
	expect_stash(log, B A C D, 300, "line 1");
	expect_stash(log, C A B D, 300, "line 1");
	expect_stash(log, A, 300, "line 2");
	expect_stash(log, "", 300, "line 1");
	expect_stash(log, "", 100, NULL);
	expect_stash(log, "", 0, NULL);
	expect_stash("", A, 300, NULL);
	expect_stash(NULL, NULL, 300, NULL);
	/* What stands before an old line is its beginning. */
	expect_stash(C A D, A, 300, "line 1");
	expect_stash("x\n" A D, A D, 300, "line 1");
	expect_stash("x\n" A D, "x\n" A, 300, NULL);
	/* A line that isn't whole any more. */
	expect_stash(A, ONE " " TWO, 300, "line 1");
	expect_stash(ONE " " TWO " A <a> 100 +0200\n" D,
		     ONE " " TWO " A <a> 100 +0200\t\n", 300, NULL);

	cr_assert(stash_log_has_older(text_of(log), 101));
	cr_assert_not(stash_log_has_older(text_of(log), 100));
	cr_assert_not(stash_log_has_older(text_of(log), 0));
	cr_assert(stash_log_has_older(text_of(D A), 300));
	cr_assert_not(stash_log_has_older((struct text){0}, 300));
}

/* Megabytes, and any bytes. */

Test(gitjudge, large_texts)
{
	enum { LINES = 100000 };
	autofree char *packed = NULL, *log = NULL;
	size_t packed_size = 0, log_size = 0;
	FILE *refs = open_memstream(&packed, &packed_size);
	FILE *lines = open_memstream(&log, &log_size);
	char *value = NULL;

	cr_assert(refs && lines);
	for (int i = LINES; i > 0; i--) {
		fprintf(refs, ONE " refs/heads/branch-%06d\n", i);
		fprintf(lines, LINE("100", "commit: %d"), i);
	}
	fclose(refs);
	fclose(lines);
	expect_packed("", packed, no_loose, NULL);
	expect_packed(packed, packed, no_loose, NULL);
	expect_packed(packed, "", no_loose, NULL);
	cr_assert_eq(packed_refs_find(text_of(packed),
				      "refs/heads/branch-000001", &value),
		     0);
	cr_assert_str_eq(value, ONE);
	free(value);
	expect_reflog(log, log, 0, NULL);
	expect_reflog(log, "", 1000, NULL);
	expect_stash(log, log, 1000, NULL);
	/* Lines that are alike up to their end. */
	memset(log, '0', log_size);
	for (size_t i = 99; i < log_size; i += 100)
		log[i] = '\n';
	cr_assert_eq(judge_reflog(text_of(log), text_of(log + 100), 1000, NULL),
		     -EROFS);
	/* of the processor's, whatever else the machine does */
	cr_assert_lt(clock() / CLOCKS_PER_SEC, 60);
}

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "mountctl/mainstate.h"

/* A literal with a NUL behind each line. */
#define PARSE(state, text) \
	main_state_parse_status(state, text, sizeof(text) - 1)

static bool all(const char *name, const void *data)
{
	return true;
}

static bool not_data(const char *name, const void *data)
{
	return strcmp(name, data) != 0;
}

Test(mainstate, status)
{
	struct main_state state = {0};

	cr_assert_eq(
		PARSE(&state,
		      "# branch.oid 41cd\0# branch.head main\0"
		      "# branch.upstream origin/main\0# stash 2\0"
		      "1 .M N... 100644 100644 100644 aa bb src/a b\0"
		      "2 R. N... 100644 100644 100644 aa bb R100 new\0old\0"
		      "u UU N... 100644 100644 100644 100644 aa bb cc both\0"
		      "? with\nnewline\0! ignored\0? dir/\0"),
		0);
	cr_expect_str_eq(state.commit, "41cd");
	cr_expect_str_eq(state.head, "main");
	cr_assert_eq(state.n_files, 6);
	cr_expect_str_eq(state.files[0].path, "both");
	cr_expect_str_eq(state.files[1].path, "dir/");
	cr_expect_str_eq(state.files[2].path, "ignored");
	cr_expect_str_eq(state.files[3].path, "new");
	cr_expect_str_eq(state.files[4].path, "src/a b");
	cr_expect_str_eq(state.files[4].state,
			 "1 .M N... 100644 100644 100644 aa bb");
	cr_expect_str_eq(state.files[5].path, "with\nnewline");
	cr_expect_str_eq(state.files[5].state, "?");
	main_state_release(&state);
}

Test(mainstate, what_is_no_status)
{
	static const char *const texts[] = {
		"x", "1", "1 .M", "? ", "u UU N... 1 2 3 4 a b c", "5 a",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct main_state state = {0};

		cr_expect_eq(main_state_parse_status(&state, texts[i],
						     strlen(texts[i])),
			     -EINVAL, "'%s'", texts[i]);
		main_state_release(&state);
	}
}

Test(mainstate, nothing)
{
	struct main_state state = {0};

	cr_expect_eq(PARSE(&state, ""), 0);
	cr_expect_eq(main_state_parse_branches(&state, ""), 0);
	cr_expect_eq(state.n_files + state.n_branches, 0);
	cr_expect_null(state.head);
	main_state_release(&state);
}

Test(mainstate, branches)
{
	struct main_state before = {0}, after = {0};
	struct main_changes changes = {0};

	cr_assert_eq(main_state_parse_branches(&before, "aa refs/heads/a\n"
							"bb refs/heads/b\n"
							"cc refs/heads/own\n"
							"dd refs/heads/same\n"),
		     0);
	cr_assert_eq(main_state_parse_branches(&after, "bc refs/heads/b\n"
						       "ce refs/heads/own\n"
						       "dd refs/heads/same\n"
						       "ff refs/heads/z"),
		     0);
	cr_assert_eq(main_state_compare_branches(&before, &after, not_data,
						 "refs/heads/own", &changes),
		     0);
	cr_assert_eq(changes.n, 3);
	cr_expect_str_eq(changes.change[0].name, "refs/heads/a");
	cr_expect_str_eq(changes.change[0].before, "aa");
	cr_expect_null(changes.change[0].after);
	cr_expect_str_eq(changes.change[1].before, "bb");
	cr_expect_str_eq(changes.change[1].after, "bc");
	cr_expect_str_eq(changes.change[2].name, "refs/heads/z");
	cr_expect_null(changes.change[2].before);
	main_changes_release(&changes);
	cr_expect_eq(main_state_parse_branches(&after, "nothing\n"), -EINVAL);
	main_state_release(&before);
	main_state_release(&after);
}

Test(mainstate, files)
{
	struct main_state before = {0}, after = {0};
	struct main_changes changes = {0};

	main_state_add_file(&before, "same", "?", "1");
	main_state_add_file(&before, "written", "?", "1");
	main_state_add_file(&before, "gone", "?", "1");
	main_state_add_file(&before, "staged", "1 .M", "1");
	main_state_add_file(&after, "same", "?", "1");
	main_state_add_file(&after, "written", "?", "2");
	main_state_add_file(&after, "staged", "1 M.", "1");
	main_state_add_file(&after, "new", "?", "1");
	main_state_sort(&before);
	main_state_sort(&after);
	cr_assert_eq(
		main_state_compare_files(&before, &after, all, NULL, &changes),
		0);
	cr_assert_eq(changes.n, 4);
	cr_expect_str_eq(changes.change[0].name, "gone");
	cr_expect_null(changes.change[0].after);
	cr_expect_str_eq(changes.change[1].name, "new");
	cr_expect_null(changes.change[1].before);
	cr_expect_str_eq(changes.change[2].name, "staged");
	cr_expect_str_eq(changes.change[2].before, "1 .M");
	cr_expect_str_eq(changes.change[2].after, "1 M.");
	cr_expect_str_eq(changes.change[3].name, "written");
	main_changes_release(&changes);
	cr_assert_eq(
		main_state_compare_files(&before, &before, all, NULL, &changes),
		0);
	cr_expect_eq(changes.n, 0);
	main_state_release(&before);
	main_state_release(&after);
}

Test(mainstate, words)
{
	static const struct {
		const char *state, *word;
	} rows[] = {
		{NULL, "unchanged"},
		{"?", "untracked"},
		{"u UU N...", "unmerged"},
		{"1 .M N...", "modified"},
		{"1 .D N...", "deleted"},
		{"1 .T N...", "of another type"},
		{"1 A. N...", "added"},
		{"1 M. N...", "staged"},
		{"1 D. N...", "deleted in the index"},
		{"1 MM N...", "staged and modified"},
		{"1", "changed"},
		{"", "changed"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_str_eq(file_state_word(rows[i].state), rows[i].word);
}

#include <criterion/criterion.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/command.h"
#include "mountctl/output.h"

static void expect(const char *text, const char *expected)
{
	autofree char *escaped = text_escape(text);

	cr_expect_str_eq(escaped, expected);
}

Test(output, nothing_drives_a_terminal)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	expect("", "");
	expect("plain text, '~'", "plain text, '~'");
	expect("\x1b[31mred\x1b[m", "\\x1b[31mred\\x1b[m");
	expect("a\nb\tc\rd", "a\\x0ab\\x09c\\x0dd");
	expect("\x7f", "\\x7f");
	expect("\xc3\xa4", "\xc3\xa4");
	expect("\xc2\x9b", "\\xc2\\x9b");
	expect("\xff\xc3", "\\xff\\xc3");
}

Test(output, other_character_sets)
{
	setlocale(LC_CTYPE, "C");
	expect("a\xc3\xa4", "a\\xc3\\xa4");
}

Test(output, width_in_columns)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	cr_expect_eq(text_width(""), 0);
	cr_expect_eq(text_width("abc"), 3);
	cr_expect_eq(text_width("\xc3\xa4"), 1);
	cr_expect_eq(text_width("\xe6\xbc\xa2"), 2);
}

Test(output, messages_that_are_handed_up)
{
	autofree char *message = NULL;

	cr_expect_eq(explain(-EIO, NULL, "%s", "x"), -EIO);
	cr_expect_eq(explain(-EIO, &message, "first %d", 1), -EIO);
	cr_expect_str_eq(message, "first 1");
	cr_expect_eq(explain(-EINVAL, &message, "%s", "second"), -EINVAL);
	cr_expect_str_eq(message, "second");
}

Test(output, statuses)
{
	cr_expect_eq(fail(-EIO, "x"), STATUS_FAILURE);
	cr_expect_eq(usage_error("x"), STATUS_USAGE);
	cr_expect_eq(fail_message(-EINVAL, "x"), STATUS_USAGE);
	cr_expect_eq(fail_message(-EIO, NULL), STATUS_FAILURE);
}

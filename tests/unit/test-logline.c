/*
 * Lines of a denial log, read.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "fs/lib/cleanup.h"
#include "mountctl/logline.h"

#define autoline __attribute__((cleanup(log_line_release)))

Test(logline, times)
{
	static const struct {
		const char *text;
		int64_t time;
	} rows[] = {
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01T00:00:01.5Z", 1500},
		{"1970-01-01T00:00:01.123456Z", 1123},
		{"1970-01-01T01:00:00+01:00", 0},
		{"1970-01-01T01:00:00+0100", 0},
		{"1969-12-31T23:30:00-00:30", 0},
		{"1970-01-02", 86400000 - 3600000},
		{"1970-01-01T01:00", 0},
		{"1970-01-01 01:00:00", 0},
	};

	setenv("TZ", "XXX-1", 1); /* an hour east */
	tzset();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t time = -7;

		cr_expect_eq(log_time_parse(rows[i].text, &time), 0, "%s",
			     rows[i].text);
		cr_expect_eq(time, rows[i].time, "%s: %lld", rows[i].text,
			     (long long)time);
	}
}

Test(logline, what_is_no_time)
{
	static const char *const texts[] = {
		"",
		"now",
		"5",
		"5 m",
		"2026-13-01",
		"2026-01-01T",
		"2026-01-01T12:00:00Zulu",
		"2026-01-01T12:00:00+1",
		"2026-01-01 x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int64_t time;

		cr_expect_eq(log_time_parse(texts[i], &time), -EINVAL, "%s",
			     texts[i]);
	}
}

Test(logline, members)
{
	autoline struct log_line line = {0};

	cr_assert_eq(
		log_line_parse("{\"time\":\"1970-01-01T00:00:02.000Z\","
			       "\"pid\":7,\"comm\":null,\"op\":\"write\","
			       "\"path\":\"/r/%FF%2541\",\"errno\":\"EROFS\","
			       "\"twin\":\"/r/wt/%FF%2541\",\"count\":3}",
			       &line),
		0);
	cr_expect_eq(line.time, 2000);
	cr_expect_eq(line.pid, 7);
	cr_expect_null(line.comm);
	cr_expect_str_eq(line.op, "write");
	cr_expect_str_eq(line.path, "/r/\xff%41");
	cr_expect_str_eq(line.twin, "/r/wt/\xff%41");
	cr_expect_str_eq(line.error, "EROFS");
	cr_expect_null(line.what);
	cr_expect_eq(line.count, 3);
	cr_expect_eq(line.dropped, 0);
}

Test(logline, members_of_other_types_are_missing)
{
	autoline struct log_line line = {0};

	cr_assert_eq(log_line_parse("{\"time\":7,\"pid\":\"7\",\"path\":[],"
				    "\"count\":-1,\"dropped\":1e300}",
				    &line),
		     0);
	cr_expect_eq(line.time, -1);
	cr_expect_eq(line.pid, 0);
	cr_expect_null(line.path);
	cr_expect_eq(line.count, 0);
	cr_expect_eq(line.dropped, 0);
}

Test(logline, what_is_no_line)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"7",
		"{} {}",
		"{}x",
		"{\"path\":\"\x1b[2J\"}",
		"{\"path\":\"\xff\"}",
		"{\"path\":\"\xc2\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct log_line line;

		cr_expect_eq(log_line_parse(texts[i], &line), -EINVAL, "%s",
			     texts[i]);
	}
}

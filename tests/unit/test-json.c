/*
 * JSON texts and changes in them: what is accepted, and that every byte stays
 * but for what is asked for.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "mountctl/json_edit.h"
#include "mountctl/json_text.h"

static int parse(const char *text)
{
	struct json_text json;
	autofree char *message = NULL;
	int r = json_text_parse(text, strlen(text), &json, &message);

	if (r == 0)
		json_text_release(&json);
	else
		cr_expect_not_null(message, "%s", text);
	return r;
}

Test(json, accepts)
{
	static const char *const texts[] = {
		"{}",
		" [ ] ",
		"null",
		"true",
		"false",
		"0",
		"-0",
		"-0.0e+00",
		"12345678901234567890123456789.5E-3",
		"1e999",
		"\"\"",
		"\"\\u0000\\ud800 \\\" \\\\ \\/ \\b\\f\\n\\r\\t\"",
		"\"\xc3\xa4\xf0\x9f\x98\x80\"",
		"{\"a\":{\"a\":[1,2,{\"\":null}]},\"a\":1}",
		"\r\n\t{\"a\" : 1 , \"b\":[ ]}\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cr_expect_eq(parse(texts[i]), 0, "%s", texts[i]);
}

Test(json, refuses)
{
	static const char *const texts[] = {
		"",
		"  ",
		"{",
		"[",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\":1,}",
		"{\"a\"}",
		"{\"a\":}",
		"{a:1}",
		"{'a':1}",
		"{1:1}",
		"{\"a\" 1}",
		"{\"a\":1]",
		"[1}",
		"{} {}",
		"{}x",
		"// c\n{}",
		"{/* c */}",
		"nul",
		"nulll",
		"True",
		"NaN",
		"Infinity",
		"-",
		"+1",
		"01",
		"1.",
		".5",
		"1e",
		"1e+",
		"0x10",
		"\"",
		"\"\\\"",
		"\"\\x41\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"a\nb\"",
		"\"a\tb\"",
		"\"\x01\"",
		"\"\xff\"",
		"\"\xc3\"",
		"\"\xed\xa0\x80\"",
		"\xef\xbb\xbf{}",
		"\"a\" \"b\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cr_expect_eq(parse(texts[i]), -EBADMSG, "%s", texts[i]);
}

Test(json, depth)
{
	char text[2 * 300 + 1];

	for (int depth = 1; depth <= 300; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		text[2 * depth] = '\0';
		cr_expect_eq(parse(text),
			     depth <= JSON_DEPTH_MAX + 1 ? 0 : -EBADMSG, "%d",
			     depth);
		text[2 * depth - 1] = '\0';
		cr_expect_eq(parse(text), -EBADMSG, "%d", depth);
	}
}

Test(json, says_where)
{
	static const char text[] = "{\n \"a\": 1,\n \"b\" 2\n}\n";
	autofree char *message = NULL;
	struct json_text json;

	cr_assert_eq(json_text_parse(text, strlen(text), &json, &message),
		     -EBADMSG);
	cr_expect_not_null(strstr(message, "line 3"), "%s", message);
}

Test(json, a_nul_in_it)
{
	struct json_text json;

	cr_expect_eq(json_text_parse("{}\0{}", 5, &json, NULL), -EBADMSG);
}

/* However it is cut off, nothing that isn't whole is accepted. */
Test(json, cut_off)
{
	static const char text[] =
		"{\"a\":[1.5e3,\"\\ud83d\\ude00\",{\"b\":null}],\"c\":true}";

	for (size_t i = 0; i + 1 < sizeof(text); i++) {
		autofree char *cut = strndup(text, i);

		cr_expect_eq(parse(cut), -EBADMSG, "%s", cut);
	}
	cr_expect_eq(parse(text), 0);
}

Test(json, strings)
{
	static const struct {
		const char *text, *string;
	} rows[] = {
		{"\"\"", ""},
		{"\"a\\/b\\\\\\\"\"", "a/b\\\""},
		{"\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t"},
		{"\"\\u0041\\u00e4\\u20AC\"", "A\xc3\xa4\xe2\x82\xac"},
		{"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
		{"\"\\ud83dx\"", "\xef\xbf\xbdx"},
		{"\"\\ude00\\u0000\"", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autofree char *string = NULL;
		struct json_text json;

		cr_assert_eq(json_text_parse(rows[i].text, strlen(rows[i].text),
					     &json, NULL),
			     0);
		string = json_text_string(&json, 0);
		cr_expect_str_eq(string, rows[i].string, "%s", rows[i].text);
		cr_expect(json_text_is(&json, 0, rows[i].string));
		json_text_release(&json);
	}
}

Test(json, members)
{
	static const char text[] =
		"{\"a\":1,\"b\":2,\"\\u0063\":3,\"a\":4,\"d\":{\"e\":5}}";
	struct json_text json;
	size_t node = 7;

	cr_assert_eq(json_text_parse(text, strlen(text), &json, NULL), 0);
	cr_expect_eq(json_text_member(&json, 0, "a", &node), -EEXIST);
	cr_expect_eq(json_text_member(&json, 0, "e", &node), 0);
	cr_expect_eq(node, 0);
	cr_expect_eq(json_text_member(&json, 0, "c", &node), 0);
	cr_expect_eq(text[json.node[node].begin], '3');
	cr_expect_eq(json_text_member(&json, node, "c", &node), -EINVAL);
	json_text_release(&json);
}

/*
 * Changes.
 */

enum change {
	MAKE_ARRAY, /* at path a.b */
	MAKE_OBJECT,
	APPEND,	      /* to the array at a.b */
	REMOVE_FIRST, /* of the array at a.b */
	REMOVE_LAST,
	REPLACE_FIRST,
	REMOVE_A, /* the member */
};

static size_t find(struct json_edit *edit, int change)
{
	static const char *const path[] = {"a", "b", NULL};
	const struct json_node *nodes;
	size_t node = 0;

	if (change == REMOVE_A) {
		cr_assert_eq(json_text_member(&edit->json, 0, "a", &node), 0);
		return node;
	}
	cr_assert_eq(json_edit_make(edit, path, JSON_ARRAY, &node, NULL), 0);
	nodes = edit->json.node;
	if (change == APPEND)
		return node;
	node = nodes[node].first;
	while (change == REMOVE_LAST && nodes[node].next)
		node = nodes[node].next;
	return node;
}

static int apply(struct json_edit *edit, int change, const char *value)
{
	static const char *const path[] = {"a", "b", NULL};
	size_t node;

	switch ((enum change)change) {
	case MAKE_ARRAY:
		return json_edit_make(edit, path, JSON_ARRAY, &node, NULL);
	case MAKE_OBJECT:
		return json_edit_make(edit, path, JSON_OBJECT, &node, NULL);
	case APPEND:
		return json_edit_append(edit, find(edit, change), value);
	case REPLACE_FIRST:
		return json_edit_replace(edit, find(edit, change), value);
	case REMOVE_FIRST:
	case REMOVE_LAST:
	case REMOVE_A:
		return json_edit_remove(edit, find(edit, change));
	}
	return -EINVAL;
}

static const struct {
	const char *before;
	enum change change;
	const char *value;
	const char *after; /* NULL: refused, and nothing has changed */
} changes[] = {
	{"{}", MAKE_ARRAY, NULL, "{\n  \"a\": {\n    \"b\": []\n  }\n}"},
	{"{}\n", MAKE_OBJECT, NULL, "{\n  \"a\": {\n    \"b\": {}\n  }\n}\n"},
	{"{ \n }", MAKE_ARRAY, NULL, "{\n  \"a\": {\n    \"b\": []\n  }\n}"},
	{"{\n\t\"z\": 1.0\n}\n", MAKE_ARRAY, NULL,
	 "{\n\t\"z\": 1.0,\n\t\"a\": {\n\t\t\"b\": []\n\t}\n}\n"},
	{"{\n    \"z\" : 1e3 ,\n    \"y\":12345678901234567890\n}", MAKE_ARRAY,
	 NULL,
	 "{\n    \"z\" : 1e3 ,\n    \"y\":12345678901234567890,\n"
	 "    \"a\": {\n        \"b\": []\n    }\n}"},
	{"{\r\n  \"z\": 1\r\n}\r\n", MAKE_ARRAY, NULL,
	 "{\r\n  \"z\": 1,\r\n  \"a\": {\r\n    \"b\": []\r\n  }\r\n}\r\n"},
	{"{\"z\":1}", MAKE_ARRAY, NULL, "{\"z\":1,\"a\":{\"b\":[]}}"},
	{"{\"a\":{}}", APPEND, "{\"x\":[1,2]}",
	 "{\"a\":{\"b\":[{\"x\":[1,2]}]}}"},
	{"{\n \"a\": {\n  \"b\": []\n }\n}", APPEND, "{\"x\":[1,{}]}",
	 "{\n \"a\": {\n  \"b\": [\n   {\n    \"x\": [\n     1,\n     {}\n"
	 "    ]\n   }\n  ]\n }\n}"},
	{"{\n  \"a\": {\"b\": [1, 2]}\n}", APPEND, "[3]",
	 "{\n  \"a\": {\"b\": [1, 2,[3]]}\n}"},
	{"{\n  \"a\": {\"b\": [\n    1,\n    2 ]}\n}", APPEND, "3",
	 "{\n  \"a\": {\"b\": [\n    1,\n    2,\n    3 ]}\n}"},
	{"{\"a\":{\"b\":[1 , 2,3]}}", REMOVE_FIRST, NULL,
	 "{\"a\":{\"b\":[2,3]}}"},
	{"{\"a\":{\"b\":[1 , 2,3 ]}}", REMOVE_LAST, NULL,
	 "{\"a\":{\"b\":[1 , 2 ]}}"},
	{"{\"a\":{\"b\":[ 1 ]}}", REMOVE_LAST, NULL, "{\"a\":{\"b\":[]}}"},
	{"{\"a\":{\"b\":[ {\"x\" : 1} ]}}", REPLACE_FIRST, "{\"x\":1}",
	 "{\"a\":{\"b\":[ {\"x\" : 1} ]}}"},
	{"{\"a\":{\"b\":[ {\"x\" : 1} ]}}", REPLACE_FIRST, "{\"x\":1.0}",
	 "{\"a\":{\"b\":[ {\"x\":1.0} ]}}"},
	{"{\n \"a\": {\n  \"b\": [\n   1\n  ]\n }\n}", REPLACE_FIRST,
	 "{\"x\":2}",
	 "{\n \"a\": {\n  \"b\": [\n   {\n    \"x\": 2\n   }\n  ]\n }\n}"},
	{"{\"z\":0, \"a\" :{\"b\":1}, \"y\":0}", REMOVE_A, NULL,
	 "{\"z\":0, \"y\":0}"},
	{"{\"a\" :{\"b\":1}, \"y\":0}", REMOVE_A, NULL, "{\"y\":0}"},
	{"{\"\\u0061\":{\"b\":[]}}", APPEND, "1", "{\"\\u0061\":{\"b\":[1]}}"},
	{"{\"a\":[]}", MAKE_ARRAY, NULL, NULL},
	{"{\"a\":null}", MAKE_ARRAY, NULL, NULL},
	{"{\"a\":{\"b\":{}}}", MAKE_ARRAY, NULL, NULL},
	{"{\"a\":{},\"a\":{}}", MAKE_ARRAY, NULL, NULL},
	{"[]", MAKE_ARRAY, NULL, NULL},
	{"{\"a\":{\"b\":[1]}}", REPLACE_FIRST, "{", NULL},
};

Test(json, changes)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const char *before = changes[i].before;
		const char *after = changes[i].after;
		struct json_edit edit;

		cr_assert_eq(
			json_edit_init(&edit, before, strlen(before), NULL), 0,
			"%s", before);
		cr_expect_eq(apply(&edit, changes[i].change, changes[i].value) <
				     0,
			     !after, "%s", before);
		cr_expect_str_eq(edit.text, after ? after : before);
		json_edit_release(&edit);
	}
}

/* What was put in and taken out again leaves the text what it was. */
Test(json, there_and_back)
{
	static const char *const texts[] = {
		"{\n  \"z\": [1.0, 1e400, -0, 9007199254740993],\n"
		"  \"y\": \"\\u00e4\\/\"\n}\n",
		"{\"z\":{\"a\":[]},\"y\":[[],{}]}",
		"{\t\"z\" :\t[ ]\t}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct json_edit edit;

		cr_assert_eq(
			json_edit_init(&edit, texts[i], strlen(texts[i]), NULL),
			0);
		cr_expect_eq(apply(&edit, APPEND, "{\"x\":[1]}"), 0);
		cr_expect_neq(strcmp(edit.text, texts[i]), 0);
		cr_expect_eq(apply(&edit, REMOVE_A, NULL), 0);
		cr_expect_str_eq(edit.text, texts[i]);
		json_edit_release(&edit);
	}
}

Test(json, quotes)
{
	autofree char *text = NULL;
	struct json_text json;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	json_text_quote(out, "a\"\\/\n\x01\x7f\xc3\xa4");
	cr_assert_eq(fclose(out), 0);
	cr_expect_str_eq(text, "\"a\\\"\\\\/\\u000a\\u0001\\u007f\xc3\xa4\"");
	cr_assert_eq(json_text_parse(text, size, &json, NULL), 0);
	cr_expect(json_text_is(&json, 0, "a\"\\/\n\x01\x7f\xc3\xa4"));
	json_text_release(&json);
}

/*
 * Names of protected refs, and their reflogs. See gitjudge_config.c and
 * gitjudge_packed.c for the other judges.
 */
#include "fs/lib/gitjudge.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fs/lib/gitjudge_text.h"

/* Is name below dir, by components? */
static bool is_below(const char *name, const char *dir)
{
	size_t size = strlen(dir);

	return !strncmp(name, dir, size) && name[size] == '/';
}

bool ref_is_protected(const struct strings *protected_refs, const char *ref)
{
	for (size_t i = 0; i < protected_refs->n; i++) {
		const char *other = protected_refs->s[i];

		if (!strcmp(ref, other) || is_below(ref, other))
			return true;
	}
	return false;
}

bool ref_leads_to_protected(const struct strings *protected_refs,
			    const char *ref)
{
	for (size_t i = 0; i < protected_refs->n; i++)
		if (is_below(protected_refs->s[i], ref))
			return true;
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Decimal digits, as many as there are; false for none or for too many. */
static bool take_number(struct text *rest, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t n = 0;

	for (; n < rest->size && is_digit(rest->data[n]); n++) {
		unsigned int digit = (unsigned int)(rest->data[n] - '0');

		if (number > (UINT64_MAX - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	if (!n)
		return false;
	*rest = text_from(*rest, n);
	*ret_number = number;
	return true;
}

static bool take_object_name(struct text *rest)
{
	size_t size = object_name_length(*rest);

	if (!size || rest->size == size || rest->data[size] != ' ')
		return false;
	*rest = text_from(*rest, size + 1);
	return true;
}

/* "> TIME +ZZZZ" from the first ">" on, as git's files-backend.c reads it. */
static bool take_time(struct text *rest, uint64_t *ret_time)
{
	const char *mail_end = memchr(rest->data, '>', rest->size);

	if (!mail_end)
		return false;
	*rest = text_from(*rest, (size_t)(mail_end - rest->data));
	if (!text_starts_with(*rest, "> "))
		return false;
	*rest = text_from(*rest, 2);
	if (!take_number(rest, ret_time) || rest->size < 6)
		return false;
	if (rest->data[0] != ' ' ||
	    (rest->data[1] != '+' && rest->data[1] != '-'))
		return false;
	for (size_t i = 2; i < 6; i++)
		if (!is_digit(rest->data[i]))
			return false;
	*rest = text_from(*rest, 6);
	return true;
}

/*
 * When a reflog's line was written; false if it doesn't say, and git then
 * takes no notice of the line. *ret_tail is what follows the time zone.
 */
static bool line_time(struct text line, uint64_t *ret_time,
		      struct text *ret_tail)
{
	struct text rest = line;

	if (!line.size || line.data[line.size - 1] != '\n')
		return false;
	if (!take_object_name(&rest) || !take_object_name(&rest) ||
	    !take_time(&rest, ret_time))
		return false;
	*ret_tail = rest;
	return *ret_time != 0;
}

static bool line_is_older(struct text line, time_t older_than)
{
	struct text tail;
	uint64_t when;

	return older_than > 0 && line_time(line, &when, &tail) &&
	       when < (uint64_t)older_than;
}

/*
 * Is the new line the old one? git writes the tab before the message even if
 * there is no message once it has rewritten the file.
 */
static bool same_line(struct text old, struct text new)
{
	struct text tail;
	uint64_t when;

	if (text_equal(old, new))
		return true;
	if (new.size != old.size + 1 || old.data[old.size - 1] != '\n' ||
	    memcmp(old.data, new.data, old.size - 1) != 0)
		return false;
	return line_time(new, &when, &tail) && text_is(tail, "\t\n");
}

int judge_reflog(struct text old, struct text new, time_t older_than,
		 char **ret_what)
{
	struct text line, kept = {0};
	bool has_kept = text_take_line(&new, &kept);
	size_t number = 0, new_number = 1;

	while (text_take_line(&old, &line)) {
		number++;
		if (has_kept && same_line(line, kept)) {
			has_kept = text_take_line(&new, &kept);
			new_number++;
		} else if (!line_is_older(line, older_than)) {
			return refuse_line(ret_what, number);
		}
	}
	return has_kept ? refuse_line(ret_what, new_number) : 0;
}

/* Up to the last line that is older. */
static struct text older_beginning(struct text log, time_t older_than)
{
	struct text rest = log, line;
	struct text beginning = {.data = log.data, .size = 0};

	while (text_take_line(&rest, &line))
		if (line_is_older(line, older_than))
			beginning.size = log.size - rest.size;
	return beginning;
}

int judge_stash_log(struct text old, struct text new, time_t older_than,
		    char **ret_what)
{
	struct text beginning = older_beginning(old, older_than);
	struct text line, other;

	for (size_t number = 1; text_take_line(&beginning, &line); number++)
		if (!text_take_line(&new, &other) || !same_line(line, other))
			return refuse_line(ret_what, number);
	return 0;
}

/* What the reflog says the ref is; empty: nothing. */
static struct text last_value(struct text log)
{
	struct text line, tail, value = {0};
	uint64_t when;

	while (text_take_line(&log, &line)) {
		size_t size = object_name_length(line);

		if (!line_time(line, &when, &tail))
			continue;
		value = text_from(line, size + 1);
		value.size = object_name_length(value);
	}
	return value;
}

int judge_stash_ref(struct text log, struct text new, time_t older_than,
		    char **ret_what)
{
	struct text value = last_value(log), line;

	if (!stash_log_has_older(log, older_than))
		return 0;
	if (text_take_line(&new, &line) && new.size == 0 &&
	    line.size == value.size + 1 && line.data[value.size] == '\n' &&
	    text_equal((struct text){line.data, value.size}, value))
		return 0;
	return refuse(ret_what, text_of("refs/stash"));
}

bool stash_log_has_older(struct text log, time_t older_than)
{
	return older_beginning(log, older_than).size > 0;
}

#include "fs/lib/gitjudge_listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge_text.h"

#define autotexts __attribute__((cleanup(text_set_release)))

/* SECTION.VARIABLE or SECTION.NAME.VARIABLE, where NAME may hold dots. */
static void split_key(struct entry *entry)
{
	struct text key = entry->key;
	const char *first = memchr(key.data, '.', key.size);
	const char *last = memrchr(key.data, '.', key.size);
	size_t from, to;

	entry->variable = key;
	if (!first)
		return;
	from = (size_t)(first - key.data);
	to = (size_t)(last - key.data);
	entry->section = (struct text){.data = key.data, .size = from};
	entry->variable = text_from(key, to + 1);
	if (from == to)
		return;
	entry->has_name = true;
	entry->name = (struct text){.data = first + 1, .size = to - from - 1};
}

bool listing_next(struct text *rest, struct entry *ret_entry)
{
	struct entry entry = {0};
	struct text whole = *rest;
	const char *newline;

	if (!rest->size)
		return false;
	whole.size = strlen(rest->data);
	newline = memchr(whole.data, '\n', whole.size);
	entry.key = whole;
	if (newline) {
		entry.key.size = (size_t)(newline - whole.data);
		entry.value = text_from(whole, entry.key.size + 1);
		entry.has_value = true;
	}
	split_key(&entry);
	*rest = text_from(*rest, whole.size + 1);
	*ret_entry = entry;
	return true;
}

bool listing_is_valid(struct text listing)
{
	struct entry entry;

	if (!listing.size)
		return true;
	if (listing.data[listing.size - 1] != '\0')
		return false;
	while (listing_next(&listing, &entry))
		if (!entry.key.size)
			return false;
	return true;
}

bool entry_is(const struct entry *entry, const char *section,
	      const char *variable)
{
	return text_is(entry->section, section) &&
	       text_is(entry->variable, variable);
}

bool entry_is_true(const struct entry *entry)
{
	static const char *const words[] = {"true", "yes", "on", "1"};

	if (!entry->has_value)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!text_compare_folded(entry->value, text_of(words[i])))
			return true;
	return false;
}

bool entry_is_false(const struct entry *entry)
{
	static const char *const words[] = {"false", "no", "off", "0", ""};

	if (!entry->has_value)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!text_compare_folded(entry->value, text_of(words[i])))
			return true;
	return false;
}

/* strings_take() for many: the list grows once. */
static int append(struct strings *names, const struct text_set *found,
		  const struct text_set *have)
{
	char **grown = reallocarray(names->s, names->n + found->n + 1,
				    sizeof(*names->s));

	if (!grown)
		return -ENOMEM;
	names->s = grown;
	grown[names->n] = NULL;
	for (size_t i = 0; i < found->n; i++) {
		struct text name = found->text[i];

		if (text_set_contains(have, name))
			continue;
		grown[names->n] = strndup(name.data, name.size);
		if (!grown[names->n])
			return -ENOMEM;
		grown[++names->n] = NULL;
	}
	return 0;
}

/* Appends the names of a section's subsections, each once. */
static int add_names(struct text listing, const char *section,
		     struct strings *names)
{
	autotexts struct text_set have = {.compare = text_compare};
	autotexts struct text_set found = {.compare = text_compare};
	struct entry entry;

	if (!listing_is_valid(listing))
		return -EINVAL;
	while (listing_next(&listing, &entry))
		if (entry.has_name && text_is(entry.section, section) &&
		    text_set_add(&found, entry.name) < 0)
			return -ENOMEM;
	if (text_set_add_strings(&have, names) < 0)
		return -ENOMEM;
	text_set_sort(&have);
	text_set_sort(&found);
	return append(names, &found, &have);
}

int config_remotes(struct text listing, struct strings *remotes)
{
	return add_names(listing, "remote", remotes);
}

int config_submodules(struct text listing, struct strings *submodules)
{
	return add_names(listing, "submodule", submodules);
}

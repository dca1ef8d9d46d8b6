/*
 * A git config, judged entry by entry: what is safe is struck out on both
 * sides, and the rest must be equal in sequence.
 */
#include <errno.h>

#include "fs/lib/gitjudge_listing.h"
#include "fs/lib/gitjudge_safe.h"
#include "fs/lib/gitjudge_text.h"

/* One of the two listings. */
struct side {
	struct text listing;
	struct text_set remotes; /* those that a branch may name */
};

struct config_judge {
	struct config_facts facts;
	struct side old, new;
};

static void config_judge_release(struct config_judge *judge)
{
	config_facts_release(&judge->facts);
	text_set_release(&judge->old.remotes);
	text_set_release(&judge->new.remotes);
}
#define autojudge __attribute__((cleanup(config_judge_release)))

/* The remotes that a listing has and that aren't unsafe. */
static int read_remotes(const struct config_judge *judge, struct side *side)
{
	struct text rest = side->listing;
	struct entry entry;

	side->remotes.compare = text_compare;
	while (listing_next(&rest, &entry)) {
		if (!entry.has_name || !entry_is(&entry, "remote", "url"))
			continue;
		if (!text_set_contains(&judge->facts.old_remotes, entry.name) &&
		    !entry_is_safe(&judge->facts, &side->remotes, &entry))
			continue;
		if (text_set_add(&side->remotes, entry.name) < 0)
			return -ENOMEM;
	}
	text_set_sort(&side->remotes);
	return 0;
}

static int prepare(struct config_judge *judge)
{
	struct text old = judge->old.listing, new = judge->new.listing;

	if (config_facts_read(&judge->facts, old,
			      old.size > new.size ? old.size : new.size) < 0 ||
	    read_remotes(judge, &judge->old) < 0 ||
	    read_remotes(judge, &judge->new) < 0)
		return -ENOMEM;
	return 0;
}

/* The next entry that isn't struck out. */
static bool next_left(const struct config_judge *judge, const struct side *side,
		      struct text *rest, struct entry *ret_entry)
{
	while (listing_next(rest, ret_entry))
		if (!entry_is_safe(&judge->facts, &side->remotes, ret_entry))
			return true;
	return false;
}

static bool entries_equal(const struct entry *a, const struct entry *b)
{
	return text_equal(a->key, b->key) && a->has_value == b->has_value &&
	       text_equal(a->value, b->value);
}

/*
 * What stays may still come to mean something else: a protected branch's
 * remote that is no remote any more is a path.
 */
static bool means_the_same(const struct config_judge *judge,
			   const struct entry *entry)
{
	bool names =
		entry_is_branch_remote(entry) ||
		(!entry->has_name && entry_is(entry, "remote", "pushdefault"));

	return !names || !entry->has_value ||
	       text_set_contains(&judge->old.remotes, entry->value) ==
		       text_set_contains(&judge->new.remotes, entry->value);
}

static size_t count_left(const struct config_judge *judge,
			 const struct side *side, struct text rest)
{
	struct entry entry;
	size_t n = 0;

	while (next_left(judge, side, &rest, &entry))
		n++;
	return n;
}

static int judge_rest(const struct config_judge *judge, char **ret_what)
{
	struct text old_rest = judge->old.listing;
	struct text new_rest = judge->new.listing;

	for (;;) {
		struct entry was, is;
		bool has_old = next_left(judge, &judge->old, &old_rest, &was);
		bool has_new = next_left(judge, &judge->new, &new_rest, &is);

		if (!has_old && !has_new)
			return 0;
		if (!has_new)
			return refuse(ret_what, was.key);
		if (!has_old)
			return refuse(ret_what, is.key);
		if (entries_equal(&was, &is)) {
			if (!means_the_same(judge, &is))
				return refuse(ret_what, is.key);
			continue;
		}
		/* One that has gone, or one that has come or changed? */
		if (count_left(judge, &judge->old, old_rest) >
		    count_left(judge, &judge->new, new_rest))
			return refuse(ret_what, was.key);
		return refuse(ret_what, is.key);
	}
}

int judge_config(struct text old, struct text new,
		 const struct config_context *context, char **ret_what)
{
	autojudge struct config_judge judge = {
		.facts.context = context,
		.old.listing = old,
		.new.listing = new,
	};
	int r;

	if (!listing_is_valid(old) || !listing_is_valid(new))
		return refuse(ret_what, text_of("text that is no listing"));
	r = prepare(&judge);
	return r < 0 ? r : judge_rest(&judge, ret_what);
}

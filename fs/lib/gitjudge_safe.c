#include "fs/lib/gitjudge_safe.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"

/* Is branch, without "refs/heads/", protected? */
static bool branch_is_protected(const struct strings *protected_refs,
				struct text branch)
{
	static const char heads[] = "refs/heads/";

	for (size_t i = 0; i < protected_refs->n; i++) {
		struct text name = text_of(protected_refs->s[i]);

		if (!text_starts_with(name, heads))
			continue;
		name = text_from(name, sizeof(heads) - 1);
		if (text_equal(branch, name) ||
		    (text_starts_with(branch, name.data) &&
		     branch.data[name.size] == '/'))
			return true;
	}
	return false;
}

bool entry_is_branch_remote(const struct entry *entry)
{
	return entry->has_name && text_is(entry->section, "branch") &&
	       (text_is(entry->variable, "remote") ||
		text_is(entry->variable, "pushremote"));
}

static bool branch_is_safe(const struct config_facts *facts,
			   const struct text_set *remotes,
			   const struct entry *entry)
{
	if (!entry->name.size || !entry->has_value ||
	    branch_is_protected(facts->context->protected_refs, entry->name) ||
	    text_is(entry->variable, "mergeoptions"))
		return false;
	if (!entry_is_branch_remote(entry))
		return true;
	/* "." is this repository; what is no remote's name is a path or URL. */
	return text_is(entry->value, ".") ||
	       text_set_contains(remotes, entry->value);
}

/* One of the session's own, of a name that git could have made. */
static bool remote_is_own(const struct config_facts *facts,
			  const struct entry *entry)
{
	return ref_name_is_valid(entry->name) &&
	       !text_set_contains(&facts->old_remotes, entry->name);
}

static bool remote_url_is_safe(const struct config_facts *facts,
			       const struct text_set *remotes,
			       const struct entry *entry)
{
	return remote_is_own(facts, entry) && entry->has_value &&
	       url_is_remote(entry->value);
}

/*
 * Where the refspec puts things: only where a session may write anyway, and
 * neither into heads, which the user may have checked out, nor into replace.
 */
static bool refspec_is_safe(struct text refspec)
{
	static const char *const places[] = {
		"refs/remotes/",
		"refs/tags/",
		"refs/notes/",
	};
	const char *colon;
	struct text to;

	for (size_t i = 0; i < refspec.size; i++)
		if (is_control(refspec.data[i]))
			return false;
	colon = refspec.size ? memrchr(refspec.data, ':', refspec.size) : NULL;
	if (!colon)
		return true;
	to = text_from(refspec, (size_t)(colon - refspec.data) + 1);
	if (!to.size)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (text_starts_with(to, places[i]))
			return ref_pattern_is_valid(to);
	return false;
}

/* A remote without a URL is one all the same: its name is then a path. */
static bool remote_fetch_is_safe(const struct config_facts *facts,
				 const struct text_set *remotes,
				 const struct entry *entry)
{
	return remote_is_own(facts, entry) && entry->has_value &&
	       text_set_contains(remotes, entry->name) &&
	       refspec_is_safe(entry->value);
}

static bool remote_exists(const struct config_facts *facts,
			  const struct text_set *remotes,
			  const struct entry *entry)
{
	return entry->has_value && text_set_contains(remotes, entry->name);
}

/* git's check_submodule_name(): the name becomes a path below modules/. */
static bool submodule_name_is_valid(struct text name)
{
	struct text rest = name;

	for (;;) {
		const char *slash =
			rest.size ? memchr(rest.data, '/', rest.size) : NULL;
		struct text component = rest;

		if (slash)
			component.size = (size_t)(slash - rest.data);
		if (!component.size || text_is(component, ".."))
			return false;
		if (!slash)
			return true;
		rest = text_from(rest, component.size + 1);
	}
}

static bool submodule_is_safe(const struct config_facts *facts,
			      const struct text_set *remotes,
			      const struct entry *entry)
{
	return submodule_name_is_valid(entry->name) &&
	       !text_set_contains(&facts->old_submodules, entry->name);
}

static bool submodule_url_is_safe(const struct config_facts *facts,
				  const struct text_set *remotes,
				  const struct entry *entry)
{
	return submodule_is_safe(facts, remotes, entry) && entry->has_value &&
	       url_is_remote(entry->value);
}

static bool user_name_is_safe(const struct config_facts *facts,
			      const struct text_set *remotes,
			      const struct entry *entry)
{
	return entry->has_value && !facts->has_name &&
	       !facts->context->user_has_name;
}

static bool user_email_is_safe(const struct config_facts *facts,
			       const struct text_set *remotes,
			       const struct entry *entry)
{
	return entry->has_value && !facts->has_email &&
	       !facts->context->user_has_email;
}

/*
 * It may come: where the config says nothing of where the checkout is, each
 * worktree goes on as before. It may not go: config.worktree of the main
 * checkout would be out of force.
 */
static bool worktree_config_is_safe(const struct config_facts *facts,
				    const struct text_set *remotes,
				    const struct entry *entry)
{
	return !facts->is_placed && !facts->has_worktree_config &&
	       entry_is_true(entry);
}

static bool is_of_worktree(const struct config_facts *facts,
			   const struct text_set *remotes,
			   const struct entry *entry)
{
	return facts->context->is_worktree_config;
}

enum form {
	PLAIN, /* SECTION.VARIABLE */
	NAMED, /* SECTION.NAME.VARIABLE */
	EITHER,
};

/* Safe entries; docs/git-guard.md has them for people. */
static const struct safe_entry {
	const char *section;
	const char *variable; /* NULL: any */
	enum form form;
	/* NULL: whatever the value is. */
	bool (*is_safe)(const struct config_facts *facts,
			const struct text_set *remotes,
			const struct entry *entry);
} safe_entries[] = {
	{"advice", NULL, EITHER, NULL},
	{"branch", NULL, NAMED, branch_is_safe},
	{"color", NULL, EITHER, NULL},
	{"core", "quotepath", PLAIN, NULL},
	{"core", "sparsecheckout", PLAIN, is_of_worktree},
	{"core", "sparsecheckoutcone", PLAIN, is_of_worktree},
	{"extensions", "worktreeconfig", PLAIN, worktree_config_is_safe},
	{"http", "postbuffer", PLAIN, NULL},
	{"index", "sparse", PLAIN, is_of_worktree},
	{"lfs", "repositoryformatversion", PLAIN, NULL},
	{"merge", "conflictstyle", PLAIN, NULL},
	{"pull", "ff", PLAIN, NULL},
	{"pull", "rebase", PLAIN, NULL},
	{"push", "autosetupremote", PLAIN, NULL},
	{"push", "default", PLAIN, NULL},
	{"remote", "fetch", NAMED, remote_fetch_is_safe},
	{"remote", "gh-resolved", NAMED, remote_exists},
	{"remote", "url", NAMED, remote_url_is_safe},
	{"rerere", "enabled", PLAIN, NULL},
	{"submodule", "active", NAMED, submodule_is_safe},
	{"submodule", "url", NAMED, submodule_url_is_safe},
	{"user", "email", PLAIN, user_email_is_safe},
	{"user", "name", PLAIN, user_name_is_safe},
};

/* What no pattern of worktreefs.safeConfig opens. */
static const struct {
	const char *section;
	const char *variable; /* NULL: any */
} never_safe[] = {
	{"core", "bare"},     {"core", "repositoryformatversion"},
	{"core", "worktree"}, {"include", NULL},
	{"includeif", NULL},  {"worktreefs", NULL},
};

static bool is_never_safe(const struct entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(never_safe); i++) {
		const char *variable = never_safe[i].variable;

		if (!text_compare_folded(entry->section,
					 text_of(never_safe[i].section)) &&
		    (!variable ||
		     !text_compare_folded(entry->variable, text_of(variable))))
			return true;
	}
	return false;
}

static bool matches_pattern(const struct config_facts *facts,
			    const struct entry *entry)
{
	if (!facts->patterns.n || is_never_safe(entry))
		return false;
	memcpy(facts->key, entry->key.data, entry->key.size);
	facts->key[entry->key.size] = '\0';
	for (size_t i = 0; i < facts->patterns.n; i++)
		if (!fnmatch(facts->patterns.text[i].data, facts->key,
			     FNM_CASEFOLD))
			return true;
	return false;
}

static bool row_is_about(const struct safe_entry *row,
			 const struct entry *entry)
{
	if (!text_is(entry->section, row->section) ||
	    (row->variable && !text_is(entry->variable, row->variable)))
		return false;
	switch (row->form) {
	case PLAIN:
		return !entry->has_name;
	case NAMED:
		return entry->has_name;
	case EITHER:
		return true;
	}
	return false;
}

bool entry_is_safe(const struct config_facts *facts,
		   const struct text_set *remotes, const struct entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(safe_entries); i++) {
		const struct safe_entry *row = &safe_entries[i];

		if (row_is_about(row, entry) &&
		    (!row->is_safe || row->is_safe(facts, remotes, entry)))
			return true;
	}
	return matches_pattern(facts, entry);
}

static int read_old(struct config_facts *facts, struct text old)
{
	struct text rest = old;
	struct entry entry;

	while (listing_next(&rest, &entry)) {
		if (entry.has_name)
			continue;
		facts->has_name |= entry_is(&entry, "user", "name");
		facts->has_email |= entry_is(&entry, "user", "email");
		facts->has_worktree_config |=
			entry_is(&entry, "extensions", "worktreeconfig");
		facts->is_placed |= entry_is(&entry, "core", "worktree") ||
				    (entry_is(&entry, "core", "bare") &&
				     !entry_is_false(&entry));
		if (entry_is(&entry, "worktreefs", "safeconfig") &&
		    entry.has_value &&
		    text_set_add(&facts->patterns, entry.value) < 0)
			return -ENOMEM;
	}
	return 0;
}

int config_facts_read(struct config_facts *facts, struct text old,
		      size_t key_size)
{
	const struct config_context *context = facts->context;

	facts->old_remotes.compare = text_compare_folded;
	facts->old_submodules.compare = text_compare_folded;
	if (text_set_add_strings(&facts->old_remotes, context->old_remotes) <
		    0 ||
	    text_set_add_strings(&facts->old_submodules,
				 context->old_submodules) < 0)
		return -ENOMEM;
	text_set_sort(&facts->old_remotes);
	text_set_sort(&facts->old_submodules);
	facts->key = malloc(key_size + 1);
	return facts->key ? read_old(facts, old) : -ENOMEM;
}

void config_facts_release(struct config_facts *facts)
{
	text_set_release(&facts->old_remotes);
	text_set_release(&facts->old_submodules);
	text_set_release(&facts->patterns);
	free(facts->key);
}

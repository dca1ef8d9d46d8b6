#include "mountctl/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/layout.h"
#include "mountctl/output.h"

void settings_release(struct settings *settings)
{
	session_spec_release(&settings->spec);
	free(settings->program);
	strings_release(&settings->deny);
	strings_release(&settings->allow);
	strings_release(&settings->writable);
	strings_release(&settings->held);
}

/*
 * Lists.
 */

static bool lies_in_any(const char *path, const struct strings *trees)
{
	for (size_t i = 0; i < trees->n; i++)
		if (path_starts_with(path, trees->s[i], NULL))
			return true;
	return false;
}

bool settings_tell(const struct session_spec *spec, const struct rule *rule)
{
	return rule->origin != ORIGIN_GIT_GUARD && !rule->pattern &&
	       rule_is_effective(&spec->rules, rule) &&
	       !(spec->git_dir &&
		 path_starts_with(rule->path, spec->git_dir, NULL));
}

/* All that may be written, or all that may not. */
static int gather(const struct session_spec *spec, bool writable,
		  struct strings *trees)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->rules.n; i++) {
		const struct rule *rule = &spec->rules.rule[i];

		if (settings_tell(spec, rule) &&
		    (rule->access == ACCESS_RW) == writable)
			r = strings_add(trees, rule->path);
	}
	return r;
}

static bool holds_any(const char *path, const struct strings *trees)
{
	for (size_t i = 0; i < trees->n; i++)
		if (path_starts_with(trees->s[i], path, NULL))
			return true;
	return false;
}

static bool is_within_another(const struct strings *trees, size_t index)
{
	for (size_t i = 0; i < trees->n; i++)
		if (i != index &&
		    path_starts_with(trees->s[index], trees->s[i], NULL))
			return true;
	return false;
}

/* One that holds a denied tree would win over that. */
static int list_allowed(struct settings *settings, const struct strings *denied)
{
	const struct strings *writable = &settings->writable;
	const char *worktree = settings->spec.worktree;
	int r = strings_add(&settings->allow, worktree);

	for (size_t i = 0; r == 0 && i < writable->n; i++)
		if (strcmp(writable->s[i], worktree) != 0 &&
		    (lies_in_any(writable->s[i], denied) ||
		     !holds_any(writable->s[i], denied)))
			r = strings_add(&settings->allow, writable->s[i]);
	return r;
}

static int list_denied(struct settings *settings, const struct strings *denied)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < denied->n; i++)
		if (!is_within_another(denied, i) &&
		    !lies_in_any(denied->s[i], &settings->allow))
			r = strings_add(&settings->deny, denied->s[i]);
	return r;
}

static int list_held(struct settings *settings)
{
	static const char *const names[] = {"hooks", "info"};
	const char *git_dir = settings->spec.git_dir;
	int r = 0;

	for (size_t i = 0; r == 0 && git_dir && i < ARRAY_SIZE(names); i++) {
		autofree char *path = path_join(git_dir, names[i]);

		if (!path)
			return -ENOMEM;
		if (access(path, F_OK) == 0)
			r = strings_add(&settings->held, path);
	}
	return r;
}

static int list_all(struct settings *settings)
{
	const struct session_spec *spec = &settings->spec;
	struct strings denied = {0};
	int r = gather(spec, true, &settings->writable);

	if (r == 0)
		r = gather(spec, false, &denied);
	if (r == 0)
		r = list_allowed(settings, &denied);
	if (r == 0)
		r = list_denied(settings, &denied);
	if (r == 0 && spec->git_dir)
		r = strings_add(&settings->writable, spec->git_dir);
	strings_release(&denied);
	return r < 0 ? r : list_held(settings);
}

/*
 * The whole.
 */

static int find_program(struct settings *settings, char **message)
{
	int r = read_link_at(AT_FDCWD, "/proc/self/exe", &settings->program);

	if (r == 0 && access(settings->program, X_OK) < 0)
		r = -errno;
	return r < 0 ? explain(r, message, "cannot find mountctl itself: %s",
			       strerror(-r))
		     : 0;
}

static int check_text(const struct strings *paths, char **message)
{
	for (size_t i = 0; i < paths->n; i++)
		if (!text_is_utf8(paths->s[i]))
			return explain(-EINVAL, message,
				       "'%s' isn't UTF-8: no settings can name "
				       "it",
				       paths->s[i]);
	return 0;
}

static int check_texts(const struct settings *settings, char **message)
{
	int r = check_text(&settings->deny, message);

	if (r == 0)
		r = check_text(&settings->allow, message);
	if (r == 0)
		r = check_text(&settings->writable, message);
	if (r == 0 && !text_is_utf8(settings->program))
		r = explain(-EINVAL, message, "'%s' isn't UTF-8",
			    settings->program);
	return r;
}

static int fill(struct settings *settings, char **message)
{
	int r;

	if (!settings->spec.worktree)
		return explain(-EINVAL, message,
			       "settings are for a worktree: give it with "
			       "--worktree");
	r = list_all(settings);
	if (r == 0)
		r = find_program(settings, message);
	return r < 0 ? r : check_texts(settings, message);
}

int settings_plan(const struct plan_options *options,
		  struct settings *ret_settings, char **message)
{
	struct settings settings = {0};
	int r = plan_session(options, TIER_ENFORCED, &settings.spec, message);

	if (r < 0)
		return r;
	r = fill(&settings, message);
	if (r == 0)
		*ret_settings = settings;
	else
		settings_release(&settings);
	return r;
}

/*
 * The hook's command.
 */

static int add_list(struct strings *words, const char *option,
		    const struct strings *trees)
{
	int r = trees->n > 0 ? strings_add(words, option) : 0;

	for (size_t i = 0; r == 0 && i < trees->n; i++)
		r = strings_add(words, trees->s[i]);
	return r;
}

int settings_hook_words(const struct settings *settings, const char *format,
			bool explicitly, struct strings *words)
{
	autofree char *option = NULL;
	int r;

	if (asprintf(&option, "--format=%s", format) < 0) {
		option = NULL;
		return -ENOMEM;
	}
	r = strings_add(words, "hook");
	if (r == 0)
		r = strings_add(words, option);
	if (r == 0 && explicitly)
		r = strings_add(words, "--explicit");
	if (r < 0 || settings->deny.n == 0)
		return r;
	r = strings_add(words, "--session-first");
	if (r == 0)
		r = add_list(words, "--deny", &settings->deny);
	return r < 0 ? r : add_list(words, "--allow", &settings->allow);
}

static void print_shell_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_/.,:=+@%-";

	if (word[0] && !word[strspn(word, plain)]) {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", out);
		else
			fputc(*word, out);
	}
	fputc('\'', out);
}

char *settings_shell_line(const struct settings *settings,
			  const struct strings *words)
{
	char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	if (!out)
		return NULL;
	print_shell_word(out, settings->program);
	for (size_t i = 0; i < words->n; i++) {
		fputc(' ', out);
		print_shell_word(out, words->s[i]);
	}
	if (fclose(out) == 0)
		return line;
	free(line);
	return NULL;
}

/* The word at *line, of which nothing is left in quotes. */
static char *take_word(const char **line)
{
	const char *s = *line;
	char *word = malloc(strlen(s) + 1), *out = word;
	char quote = '\0';

	if (!word)
		return NULL;
	for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? '\0' : *s;
		else if (*s == '\\' && quote != '\'' && s[1])
			*out++ = *++s;
		else
			*out++ = *s;
	}
	*out = '\0';
	*line = s;
	return word;
}

int settings_split_line(const char *line, struct strings *words)
{
	for (;;) {
		char *word;
		int r;

		line += strspn(line, " \t\n");
		if (!*line)
			return 0;
		word = take_word(&line);
		if (!word)
			return -ENOMEM;
		r = strings_take(words, word);
		if (r < 0)
			return r;
	}
}

static bool is_option(const char *word, const char *name)
{
	size_t length = strlen(name);

	return strncmp(word, name, length) == 0 &&
	       (word[length] == '\0' || word[length] == '=');
}

bool settings_is_own(const struct strings *words)
{
	if (words->n < 2 ||
	    strcmp(path_basename(words->s[0]), "mountctl") != 0 ||
	    strcmp(words->s[1], "hook") != 0)
		return false;
	for (size_t i = 2; i < words->n; i++)
		if (strncmp(words->s[i], "-n", 2) == 0 ||
		    is_option(words->s[i], "--name") ||
		    is_option(words->s[i], "--policy"))
			return false;
	return true;
}

#include "mountctl/hook_shell.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "mountctl/output.h"

struct screen {
	const char *s; /* what is left of the command */
	const char *home;
	/* Where the shell may stand; the last cd counts, unless it may fail. */
	struct strings bases;
	bool plain; /* one command after the other, in one shell */
	/* Of the simple command that is being read: */
	bool begins;		/* no word of it has been read yet */
	bool changes_directory; /* it is cd or pushd */
	char *destination;	/* of that; or NULL */
	hook_shell_judge *judge;
	void *data;
	char **why;
};

static int deny(struct screen *screen, const char *why)
{
	explain(0, screen->why, "%s", why);
	return 0;
}

static int judge_from_all(struct screen *screen, const char *path)
{
	int r = 1;

	/* No system call takes it. */
	if (strlen(path) >= PATH_MAX)
		return 1;

	for (size_t i = 0; r > 0 && i < screen->bases.n; i++)
		r = screen->judge(screen->data, screen->bases.s[i], path);
	return r;
}

static bool has_dotdot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p++)
		if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

/* What everybody writes to and nothing is kept of. */
static bool is_device(const char *path)
{
	static const char *const names[] = {
		"/dev/null",   "/dev/stdin", "/dev/stdout",
		"/dev/stderr", "/dev/tty",   "/dev/zero",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], path) == 0)
			return true;
	return false;
}

/* "//host/path" of an URL: the scheme is before it. */
static bool is_url(const char *word, const char *path)
{
	return path - word >= 2 && path[-1] == ':' && path[0] == '/' &&
	       path[1] == '/' && isalnum((unsigned char)path[-2]) &&
	       !(path - word >= 5 && strncmp(path - 5, "file:", 5) == 0);
}

static int judge_home(struct screen *screen, const char *path)
{
	autofree char *whole = NULL;

	if (path[1] && path[1] != '/')
		return deny(screen, "a home directory by name, or the last "
				    "directory: name it by its path");
	if (!screen->home)
		return deny(screen, "there is no home directory");
	whole = path_join(screen->home, path + 1 + (path[1] == '/'));
	return whole ? judge_from_all(screen, whole) : -ENOMEM;
}

/* A piece of a word that may be a path of its own. */
static int judge_piece(struct screen *screen, const char *piece)
{
	if (piece[0] == '~')
		return judge_home(screen, piece);
	if (is_device(piece))
		return 1;
	if (piece[0] == '/' || has_dotdot(piece))
		return judge_from_all(screen, piece);
	return 1;
}

static bool parts_pieces(char c)
{
	return c && strchr("=:,{}@[]", c);
}

static int judge_pieces(struct screen *screen, const char *word)
{
	const char *at = word;
	int r = 1;

	while (r > 0 && *at) {
		const char *end = at;
		autofree char *piece = NULL;

		if (is_url(word, at))
			return 1;
		while (*end && !parts_pieces(*end))
			end++;
		piece = strndup(at, (size_t)(end - at));
		if (!piece)
			return -ENOMEM;
		/* "-I/usr/include" */
		r = judge_piece(screen,
				piece[0] == '-' && piece[1] && piece[2] == '/'
					? piece + 2
					: piece);
		at = end + (*end != '\0');
	}
	return r;
}

static int judge_word(struct screen *screen, const char *word)
{
	int r = judge_pieces(screen, word);

	/* A name may hold what parts the pieces of others. */
	if (r > 0 && (word[0] == '/' || has_dotdot(word)) && !is_device(word))
		r = judge_from_all(screen, word);
	return r;
}

/*
 * cd.
 */

static bool is_changer(const char *word)
{
	return strcmp(word, "cd") == 0 || strcmp(word, "pushd") == 0 ||
	       strcmp(word, "chdir") == 0;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int move_to(struct screen *screen, const char *directory)
{
	struct strings moved = {0};
	bool certain = screen->plain;
	int r = 0;

	for (size_t i = 0; r == 0 && i < screen->bases.n; i++) {
		autofree char *to =
			path_normalise(screen->bases.s[i], directory);

		certain = certain && to && is_directory(to);
		r = to ? strings_add(&moved, to) : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && !certain && i < screen->bases.n; i++)
		if (!strings_contain(&moved, screen->bases.s[i]))
			r = strings_add(&moved, screen->bases.s[i]);
	if (r < 0) {
		strings_release(&moved);
		return r;
	}
	strings_release(&screen->bases);
	screen->bases = moved;
	return 1;
}

/* Each cd may double the places where the shell may stand. */
#define MAX_BASES 64

/* At the end of a simple command. 1, 0, or -errno. */
static int end_command(struct screen *screen)
{
	autofree char *to = steal_pointer(&screen->destination);
	autofree char *whole = NULL;
	bool changes = screen->changes_directory;
	int r;

	screen->begins = true;
	screen->changes_directory = false;
	if (!changes)
		return 1;
	if (!to)
		return deny(screen, "'cd' without a directory");
	if (screen->bases.n > MAX_BASES)
		return deny(screen, "'cd' too often");
	if (to[0] == '~' && screen->home)
		whole = path_join(screen->home, to + 1 + (to[1] == '/'));
	r = judge_from_all(screen, whole ? whole : to);
	return r > 0 ? move_to(screen, whole ? whole : to) : r;
}

static bool is_assignment(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
				"uvwxyz0123456789_");

	return n > 0 && word[n] == '=';
}

/* Words that a simple command may come after. */
static bool is_prefix(const char *word)
{
	static const char *const words[] = {
		"if", "then", "else", "elif",	 "do",	    "while", "until",
		"!",  "{",    "time", "builtin", "command", "exec",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return is_assignment(word);
}

static int take_directory(struct screen *screen, const char *word)
{
	if (screen->destination ||
	    (word[0] == '-' && word[1] && strcmp(word, "-") != 0))
		return 1;
	if (strcmp(word, "-") == 0)
		return deny(screen, "'cd -' leads to where it can't be seen");
	screen->destination = strdup(word);
	return screen->destination ? 1 : -ENOMEM;
}

static int take_word(struct screen *screen, const char *word)
{
	int r = judge_word(screen, word);

	if (r <= 0)
		return r;
	if (screen->begins && !is_prefix(word)) {
		screen->begins = false;
		screen->changes_directory = is_changer(word);
		return 1;
	}
	return screen->changes_directory ? take_directory(screen, word) : 1;
}

/*
 * Words.
 */

static bool ends_word(char c)
{
	return !c || isspace((unsigned char)c) || strchr(";&|()<>`", c);
}

/* A variable whose value we know, at s; its length, or 0. */
static size_t known_variable(const struct screen *screen, const char *s,
			     const char **ret_value)
{
	const struct {
		const char *name, *value;
	} known[] = {
		{"HOME", screen->home},
		{"PWD", screen->bases.s[screen->bases.n - 1]},
	};
	bool braced = s[1] == '{';
	const char *name = s + 1 + braced;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t n = strlen(known[i].name);

		if (!known[i].value || strncmp(name, known[i].name, n) != 0 ||
		    isalnum((unsigned char)name[n]) || name[n] == '_')
			continue;
		*ret_value = known[i].value;
		return n + 1 + braced + (braced && name[n] == '}');
	}
	return 0;
}

/* A word in the making. */
struct word {
	char *text; /* owned */
	size_t n, room;
};

static int put(struct word *word, const char *text, size_t n)
{
	if (word->n + n + 1 > word->room) {
		size_t room = 2 * (word->n + n + 1);
		char *grown = realloc(word->text, room);

		if (!grown)
			return -ENOMEM;
		word->text = grown;
		word->room = room;
	}
	memcpy(word->text + word->n, text, n);
	word->n += n;
	word->text[word->n] = '\0';
	return 0;
}

static int put_variable(struct screen *screen, struct word *word)
{
	const char *value = NULL;
	size_t n = known_variable(screen, screen->s, &value);

	if (n == 0)
		return put(word, screen->s++, 1);
	screen->s += n;
	return put(word, value, strlen(value));
}

/* One character, or what stands for some, within quotes or without. */
static int put_next(struct screen *screen, struct word *word, char *quote)
{
	char c = *screen->s;

	if (!*quote && (c == '\'' || c == '"')) {
		*quote = c;
		screen->s++;
		return put(word, "", 0);
	}
	if (*quote && c == *quote) {
		*quote = '\0';
		screen->s++;
		return 0;
	}
	if (c == '\\' && *quote != '\'' && screen->s[1]) {
		screen->s += 2;
		return screen->s[-1] == '\n' ? 0 : put(word, screen->s - 1, 1);
	}
	if (c == '$' && *quote != '\'')
		return put_variable(screen, word);
	screen->s++;
	return put(word, &c, 1);
}

/*
 * What is quoted may be a command for another shell, or hold several words: its
 * words are judged, too.
 */
static int judge_inner(struct screen *screen, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, " \t\n;&|()<>`'\"");
		autofree char *inner = strndup(text, n);
		int r = inner ? judge_pieces(screen, inner) : -ENOMEM;

		if (r <= 0)
			return r;
		text += n + (text[n] != '\0');
	}
	return 1;
}

static int read_word(struct screen *screen)
{
	struct word word = {0};
	char quote = '\0';
	int r = 0;

	while (r == 0 && *screen->s && (quote || !ends_word(*screen->s)))
		r = put_next(screen, &word, &quote);
	if (r == 0 && word.text)
		r = take_word(screen, word.text);
	else if (r == 0)
		r = 1;
	if (r > 0 && word.text && strpbrk(word.text, " \t\n;&|()<>`'\""))
		r = judge_inner(screen, word.text);
	free(word.text);
	return r;
}

/* Does any part of it run in a shell of its own, or perhaps not at all? */
static bool is_plain(const char *command)
{
	for (const char *s = command; *s; s++) {
		if (s[0] == '&' && s[1] == '&') {
			s++;
			continue;
		}
		if (strchr("&|()`{}", *s))
			return false;
	}
	return true;
}

static int read_all(struct screen *screen)
{
	int r = 1;

	while (r > 0 && *screen->s) {
		char c = *screen->s;

		if (c == '#') {
			screen->s += strcspn(screen->s, "\n");
		} else if (!ends_word(c)) {
			r = read_word(screen);
		} else {
			screen->s++;
			if (strchr(";&|()`\n", c))
				r = end_command(screen);
		}
	}
	return r > 0 ? end_command(screen) : r;
}

int hook_shell_screen(const char *command, const char *cwd,
		      hook_shell_judge *judge, void *data, char **why)
{
	const char *home = getenv("HOME");
	struct screen screen = {
		.s = command,
		.home = home && home[0] == '/' ? home : NULL,
		.plain = is_plain(command),
		.begins = true,
		.judge = judge,
		.data = data,
		.why = why,
	};
	int r = strings_add(&screen.bases, cwd);

	if (r == 0)
		r = read_all(&screen);
	strings_release(&screen.bases);
	free(screen.destination);
	return r;
}

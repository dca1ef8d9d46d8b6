/*
 * What git takes for an object name, a ref's name and a URL, as far as the
 * judges need it.
 */
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge_text.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool is_hex(char c)
{
	return hex_value(c) >= 0;
}

size_t object_name_length(struct text text)
{
	size_t n = 0;

	while (n < text.size && n <= 64 && is_hex(text.data[n]))
		n++;
	return n == 40 || n == 64 ? n : 0;
}

static bool ends_with(struct text text, const char *suffix)
{
	size_t size = strlen(suffix);

	return text.size >= size &&
	       !memcmp(text.data + text.size - size, suffix, size);
}

/* One component of a ref's name. */
static bool component_is_valid(struct text name)
{
	if (!name.size || name.data[0] == '.' || ends_with(name, ".lock"))
		return false;
	for (size_t i = 0; i < name.size; i++) {
		char c = name.data[i];
		char next = i + 1 < name.size ? name.data[i + 1] : '\0';

		if (is_control(c) || strchr(" ~^:?[\\", c))
			return false;
		if ((c == '.' && next == '.') || (c == '@' && next == '{'))
			return false;
	}
	return true;
}

static bool name_is_ref(struct text name, size_t max_stars)
{
	struct text rest = name;
	size_t stars = 0;

	if (!name.size || name.data[name.size - 1] == '.' || text_is(name, "@"))
		return false;
	for (size_t i = 0; i < name.size; i++)
		stars += name.data[i] == '*';
	if (stars > max_stars)
		return false;
	for (;;) {
		const char *slash = memchr(rest.data, '/', rest.size);
		struct text component = rest;

		if (slash)
			component.size = (size_t)(slash - rest.data);
		if (!component_is_valid(component))
			return false;
		if (!slash)
			return true;
		rest = text_from(rest, component.size + 1);
	}
}

bool ref_name_is_valid(struct text name)
{
	return name_is_ref(name, 0);
}

bool ref_pattern_is_valid(struct text pattern)
{
	return name_is_ref(pattern, 1);
}

/* git decodes %XX in some URLs before it uses them. */
static bool has_control(struct text url)
{
	for (size_t i = 0; i < url.size; i++) {
		int high, low;

		if (is_control(url.data[i]))
			return true;
		if (url.data[i] != '%' || url.size - i < 3)
			continue;
		high = hex_value(url.data[i + 1]);
		low = hex_value(url.data[i + 2]);
		if (high < 0 || low < 0)
			continue;
		if (is_control((char)(high * 16 + low)))
			return true;
	}
	return false;
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

/*
 * What ssh sees of an authority may reach a shell: "%h" and "%r" in its
 * configuration. And git decodes %XX in it, slashes too.
 */
static const char ssh_punctuation[] = "-._~@:[]+,=";
static const char http_punctuation[] = "-._~@:[]+,=%!$&'()*;";

/* [user@]host[:port], where nothing looks like an option. */
static bool authority_is_plain(struct text authority, const char *punctuation)
{
	struct text host = authority;

	for (size_t i = 0; i < authority.size; i++) {
		char c = authority.data[i];
		char before = i ? authority.data[i - 1] : '@';

		if (!is_letter_or_digit(c) && (!c || !strchr(punctuation, c)))
			return false;
		if (c == '-' && (before == '@' || before == '['))
			return false;
		if (c == '[' && before != '@')
			return false;
		if (c == '@')
			host = text_from(authority, i + 1);
	}
	return host.size && host.data[0] != ':';
}

static const struct scheme {
	const char *prefix;
	const char *punctuation;
} schemes[] = {
	{"https://", http_punctuation}, {"http://", http_punctuation},
	{"ftps://", http_punctuation},	{"ftp://", http_punctuation},
	{"ssh://", ssh_punctuation},	{"git://", ssh_punctuation},
};

/* Where "host" in "host:path" ends; 0 if it doesn't. */
static size_t scp_host_size(struct text url)
{
	bool bracket = false;

	for (size_t i = 0; i < url.size; i++) {
		char c = url.data[i];

		if (c == '[')
			bracket = true;
		else if (c == ']')
			bracket = false;
		else if (c == ':' && !bracket)
			return i;
	}
	return 0;
}

static bool has_scheme(struct text url)
{
	for (size_t i = 0; i + 3 <= url.size; i++)
		if (!memcmp(url.data + i, "://", 3))
			return true;
	return false;
}

/*
 * [user@]host:path, which git gives to ssh. "helper::rest" isn't that, and
 * neither is a path with a colon, since a host has no slash.
 */
static bool is_scp_like(struct text url)
{
	size_t size = scp_host_size(url);
	struct text host = {.data = url.data, .size = size};
	struct text path;

	if (!size || has_scheme(url))
		return false;
	path = text_from(url, size + 1);
	if (!path.size || path.data[0] == ':' || path.data[0] == '-')
		return false;
	return authority_is_plain(host, ssh_punctuation);
}

bool url_is_remote(struct text url)
{
	if (!url.size || has_control(url))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		struct text authority;
		const char *slash;

		if (!text_starts_with(url, schemes[i].prefix))
			continue;
		authority = text_from(url, strlen(schemes[i].prefix));
		slash = memchr(authority.data, '/', authority.size);
		if (slash)
			authority.size = (size_t)(slash - authority.data);
		return authority_is_plain(authority, schemes[i].punctuation);
	}
	return is_scp_like(url);
}

#include "mountctl/hook_policy.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/path.h"
#include "mountctl/hook_place.h"
#include "mountctl/output.h"

#define POLICY_MAX (1u << 20)

void hook_policy_release(struct hook_policy *policy)
{
	strings_release(&policy->allowed);
	strings_release(&policy->denied);
	strings_release(&policy->temporary);
	strings_release(&policy->system);
}

bool hook_policy_is_off(void)
{
	const char *value = getenv("NAVARCH_WORKTREE_GUARD");

	return value && strcmp(value, "off") == 0;
}

/* Absolute, or in the user's home. */
static int add_root(struct strings *roots, const char *path, char **message)
{
	const struct strings top = {.s = (char *[]){(char[]){"/"}, NULL},
				    .n = 1};
	struct strings places = {0};
	int r = path[0] == '/' || path[0] == '~' ? 0 : -EINVAL;

	if (r == 0)
		r = hook_places(&top, path, &places);
	/* The last reading is the one with "~" expanded. */
	if (r == 0)
		r = strings_add(roots, places.s[places.n - 1]);
	strings_release(&places);
	return r < 0 ? explain(r, message, "the policy's path '%s': %s", path,
			       strerror(-r))
		     : 0;
}

static int add_roots(const cJSON *object, const char *key,
		     struct strings *roots, char **message)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
	const cJSON *item;

	if (!array)
		return 0;
	if (!cJSON_IsArray(array))
		return explain(-EINVAL, message,
			       "the policy's '%s' isn't a list", key);
	cJSON_ArrayForEach(item, array)
	{
		const char *path = cJSON_GetStringValue(item);
		int r = path ? add_root(roots, path, message)
			     : explain(-EINVAL, message,
				       "the policy's '%s' isn't a list of "
				       "paths",
				       key);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_environment(struct hook_policy *policy, char **message)
{
	const char *extra = getenv("NAVARCH_GUARD_EXTRA_ROOTS");
	const char *directory = getenv("TMPDIR");
	int r = add_root(&policy->temporary, "/tmp", message);

	if (r == 0)
		r = add_root(&policy->temporary, "/var/tmp", message);
	if (r == 0 && directory && directory[0] == '/')
		r = add_root(&policy->temporary, directory, message);
	while (r == 0 && extra && *extra) {
		size_t length = strcspn(extra, ":");
		autofree char *path = strndup(extra, length);

		if (!path)
			return -ENOMEM;
		if (path[0])
			r = add_root(&policy->allowed, path, message);
		extra += length + (extra[length] == ':');
	}
	return r;
}

static int take_all(const cJSON *object, struct hook_policy *policy,
		    char **message)
{
	int r;

	if (!cJSON_IsObject(object))
		return explain(-EINVAL, message,
			       "the policy isn't a JSON object");
	r = add_roots(object, "allowedRoots", &policy->allowed, message);
	if (r == 0)
		r = add_roots(object, "deniedRoots", &policy->denied, message);
	if (r == 0)
		r = add_roots(object, "systemPrefixes", &policy->system,
			      message);
	return r < 0 ? r : add_environment(policy, message);
}

int hook_policy_read(const char *path, struct hook_policy *ret_policy,
		     char **message)
{
	struct hook_policy policy = {0};
	autofree char *text = NULL;
	autofd int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? -errno : read_fd(fd, POLICY_MAX, &text, NULL);
	cJSON *object;

	if (r < 0)
		return explain(r, message, "cannot read '%s': %s", path,
			       strerror(-r));
	object = cJSON_ParseWithOpts(text, NULL, 1);
	r = take_all(object, &policy, message);
	cJSON_Delete(object);
	if (r < 0) {
		hook_policy_release(&policy);
		return r;
	}
	*ret_policy = policy;
	return 0;
}

static bool lies_in(const struct strings *roots, const char *place)
{
	for (size_t i = 0; i < roots->n; i++)
		if (path_starts_with(place, roots->s[i], NULL))
			return true;
	return false;
}

bool hook_policy_allows(const struct hook_policy *policy, const char *place,
			bool lenient, const char **ret_why)
{
	if (lies_in(&policy->allowed, place))
		return true;
	*ret_why = "it lies in a denied root";
	if (lies_in(&policy->denied, place))
		return false;
	if (lies_in(&policy->temporary, place))
		return true;
	*ret_why = "it lies in no allowed root";
	return lenient && lies_in(&policy->system, place);
}

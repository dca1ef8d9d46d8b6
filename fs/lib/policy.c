#include "fs/lib/policy.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"

/*
 * One name in the tree of rules. It stands there because a rule has this path
 * or one below it. Children: exact names first, sorted, then patterns, those
 * with the longer literal beginning first, then the longer ones: so a narrow
 * one comes before a wider one.
 */
struct policy_node {
	char *name;
	bool pattern;
	const struct rule *rule;       /* of exactly this path, or NULL */
	struct policy_node *governor;  /* nearest node upwards with a rule */
	struct policy_node **children; /* owned */
	size_t n_children;
	size_t n_exact;
	bool leads_to_rw; /* an rw rule stands here or below */
	bool restricts;	  /* a rule here or below says no to something */
	bool named;	  /* stands here without a rule, too */
	bool guard_only;  /* all rules here and below are the git guard's */
};

struct policy {
	struct rules rules; /* copied; nodes point into it */
	struct policy_node *root;
};

struct word {
	int value;
	const char *word;
};

static const struct word access_words[] = {
	{ACCESS_NONE, "none"},
	{ACCESS_RO, "ro"},
	{ACCESS_RW, "rw"},
};

static const struct word origin_words[] = {
	{ORIGIN_DEFAULT, "default"},
	{ORIGIN_GIT_GUARD, "git guard"},
	{ORIGIN_GIT_CONFIG, "git config"},
	{ORIGIN_COMMAND_LINE, "command line"},
	{ORIGIN_LIVE, "live"},
};

static const struct word caching_words[] = {
	{CACHING_TREE, "tree"},
	{CACHING_NONE, "none"},
	{CACHING_OBJECTS, "objects"},
};

static const struct word judge_words[] = {
	{JUDGE_NONE, "none"},
	{JUDGE_CONFIG, "config"},
	{JUDGE_WORKTREE_CONFIG, "worktree config"},
	{JUDGE_REF, "ref"},
	{JUDGE_REFLOG, "reflog"},
	{JUDGE_PACKED_REFS, "packed refs"},
	{JUDGE_STASH, "stash"},
	{JUDGE_STASH_LOG, "stash log"},
	{JUDGE_OBJECTS, "objects"},
	{JUDGE_ADMIN, "admin"},
};

static const struct word op_words[] = {
	{OP_STAT, "stat"},	   {OP_READ, "read"},
	{OP_LIST, "list"},	   {OP_WRITE, "write"},
	{OP_SETATTR, "setattr"},   {OP_SETTIMES, "settimes"},
	{OP_SETXATTR, "setxattr"}, {OP_CREATE, "create"},
	{OP_MKDIR, "mkdir"},	   {OP_REMOVE, "remove"},
	{OP_REPLACE, "replace"},   {OP_LINK_SOURCE, "link"},
};

static const char *word_of(const struct word *words, size_t n, int value)
{
	for (size_t i = 0; i < n; i++)
		if (words[i].value == value)
			return words[i].word;
	return "?";
}

static int value_of(const struct word *words, size_t n, const char *word,
		    int *ret_value)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(words[i].word, word) == 0) {
			*ret_value = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

const char *access_name(enum access access)
{
	return word_of(access_words, ARRAY_SIZE(access_words), (int)access);
}

const char *origin_name(enum origin origin)
{
	return word_of(origin_words, ARRAY_SIZE(origin_words), (int)origin);
}

const char *caching_name(enum caching caching)
{
	return word_of(caching_words, ARRAY_SIZE(caching_words), (int)caching);
}

const char *judge_name(enum judge judge)
{
	return word_of(judge_words, ARRAY_SIZE(judge_words), (int)judge);
}

const char *policy_op_name(enum policy_op op)
{
	return word_of(op_words, ARRAY_SIZE(op_words), (int)op);
}

int access_parse(const char *word, enum access *ret_access)
{
	int value;
	int r = value_of(access_words, ARRAY_SIZE(access_words), word, &value);

	if (r == 0)
		*ret_access = (enum access)value;
	return r;
}

int origin_parse(const char *word, enum origin *ret_origin)
{
	int value;
	int r = value_of(origin_words, ARRAY_SIZE(origin_words), word, &value);

	if (r == 0)
		*ret_origin = (enum origin)value;
	return r;
}

int caching_parse(const char *word, enum caching *ret_caching)
{
	int value;
	int r = value_of(caching_words, ARRAY_SIZE(caching_words), word,
			 &value);

	if (r == 0)
		*ret_caching = (enum caching)value;
	return r;
}

int judge_parse(const char *word, enum judge *ret_judge)
{
	int value;
	int r = value_of(judge_words, ARRAY_SIZE(judge_words), word, &value);

	if (r == 0)
		*ret_judge = (enum judge)value;
	return r;
}

int policy_op_parse(const char *word, enum policy_op *ret_op)
{
	int value;
	int r = value_of(op_words, ARRAY_SIZE(op_words), word, &value);

	if (r == 0)
		*ret_op = (enum policy_op)value;
	return r;
}

int rules_add(struct rules *rules, const struct rule *rule)
{
	autofree char *path = strdup(rule->path);
	autofree char *reason = strdup(rule->reason ? rule->reason : "");
	struct rule *grown;

	if (!path || !reason)
		return -ENOMEM;
	grown = reallocarray(rules->rule, rules->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	rules->rule = grown;
	grown[rules->n] = *rule;
	grown[rules->n].path = steal_pointer(&path);
	grown[rules->n].reason = steal_pointer(&reason);
	rules->n++;
	return 0;
}

int rules_copy(const struct rules *from, struct rules *ret_rules)
{
	struct rules copy = {0};

	for (size_t i = 0; i < from->n; i++) {
		if (rules_add(&copy, &from->rule[i]) < 0) {
			rules_release(&copy);
			return -ENOMEM;
		}
	}
	*ret_rules = copy;
	return 0;
}

void rules_release(struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		free(rules->rule[i].path);
		free(rules->rule[i].reason);
	}
	free(rules->rule);
	*rules = (struct rules){0};
}

static void node_free(struct policy_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->n_children; i++)
		node_free(node->children[i]);
	free(node->children);
	free(node->name);
	free(node);
}

static struct policy_node *node_new(const char *name, bool pattern)
{
	struct policy_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->pattern = pattern;
	node->name = strdup(name);
	if (!node->name) {
		free(node);
		return NULL;
	}
	return node;
}

static size_t literal_length(const struct policy_node *node)
{
	return node->pattern ? strcspn(node->name, "*?[\\") : SIZE_MAX;
}

/* Exact names before patterns, see struct policy_node. */
static int node_compare(const struct policy_node *a,
			const struct policy_node *b)
{
	size_t la = literal_length(a), lb = literal_length(b);

	if (la == lb && a->pattern) {
		la = strlen(a->name);
		lb = strlen(b->name);
	}
	if (la != lb)
		return la > lb ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Takes ownership of child on success. */
static int node_insert(struct policy_node *node, struct policy_node *child)
{
	struct policy_node **grown;
	size_t at = node->n_children;

	grown = reallocarray(node->children, at + 1,
			     sizeof(struct policy_node *));
	if (!grown)
		return -ENOMEM;
	node->children = grown;
	while (at > 0 && node_compare(child, grown[at - 1]) < 0) {
		grown[at] = grown[at - 1];
		at--;
	}
	grown[at] = child;
	node->n_children++;
	if (!child->pattern)
		node->n_exact++;
	return 0;
}

static struct policy_node *node_find(const struct policy_node *node,
				     const char *name, bool pattern)
{
	for (size_t i = 0; i < node->n_children; i++) {
		struct policy_node *child = node->children[i];

		if (child->pattern == pattern && strcmp(child->name, name) == 0)
			return child;
	}
	return NULL;
}

static int node_find_or_add(struct policy_node *node, const char *name,
			    bool pattern, struct policy_node **ret_child)
{
	struct policy_node *child = node_find(node, name, pattern);

	if (!child) {
		child = node_new(name, pattern);
		if (!child)
			return -ENOMEM;
		if (node_insert(node, child) < 0) {
			node_free(child);
			return -ENOMEM;
		}
	}
	*ret_child = child;
	return 0;
}

static bool has_wildcard(const char *name)
{
	return name[strcspn(name, "*?[")] != '\0';
}

/* Of two rules at one path the stronger stays; they don't disagree. */
static void node_set_rule(struct policy_node *node, const struct rule *rule)
{
	if (!node->rule || rule->origin > node->rule->origin)
		node->rule = rule;
}

/* Adds the nodes that lead along relative and gives the last its rule, or
 * (NULL) a place of its own without one. */
static int tree_add(struct policy_node *root, const char *relative,
		    const struct rule *rule)
{
	autofree char *copy = strdup(relative);
	struct policy_node *node = root;
	char *rest = copy, *name;

	if (!copy)
		return -ENOMEM;
	while ((name = strsep(&rest, "/"))) {
		bool pattern = rule && rule->pattern && has_wildcard(name);
		int r = node_find_or_add(node, name, pattern, &node);

		if (r < 0)
			return r;
	}
	if (rule)
		node_set_rule(node, rule);
	else
		node->named = true;
	return 0;
}

/*
 * Gives to what from has and to lacks. An exact name is found before a pattern
 * that matches it too, and a narrow pattern before a wider one: neither must
 * lose what the later one says.
 */
static int node_merge(struct policy_node *to, const struct policy_node *from)
{
	if (!to->rule)
		to->rule = from->rule;
	for (size_t i = 0; i < from->n_children; i++) {
		const struct policy_node *child = from->children[i];
		struct policy_node *same;
		int r = node_find_or_add(to, child->name, child->pattern,
					 &same);

		if (r == 0)
			r = node_merge(same, child);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool has_only_stars(const struct policy_node *pattern)
{
	return !strpbrk(pattern->name, "?[\\");
}

/*
 * Does pattern match each name that node stands for? Between two patterns it
 * can be told where stars are all their wildcards: what a star of the one
 * matches is then matched by a star of the other, or not at all.
 */
static bool pattern_covers(const struct policy_node *pattern,
			   const struct policy_node *node)
{
	if (node->pattern && !(has_only_stars(pattern) && has_only_stars(node)))
		return false;
	return fnmatch(pattern->name, node->name, 0) == 0;
}

static int merge_patterns(struct policy_node *node)
{
	for (size_t i = 0; i < node->n_children; i++) {
		for (size_t k = node->n_exact; k < node->n_children; k++) {
			struct policy_node *child = node->children[i];
			struct policy_node *pattern = node->children[k];
			int r;

			if (i == k || !pattern_covers(pattern, child))
				continue;
			r = node_merge(child, pattern);
			if (r < 0)
				return r;
		}
	}
	for (size_t i = 0; i < node->n_children; i++) {
		int r = merge_patterns(node->children[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static bool rule_restricts(const struct rule *rule)
{
	return rule->access != ACCESS_RW || rule->judge != JUDGE_NONE;
}

/* Computes what each node knows about the rules above and below it. */
static void tree_finish(struct policy_node *node, struct policy_node *governor)
{
	node->governor = node->rule ? node : governor;
	node->leads_to_rw = node->rule && node->rule->access == ACCESS_RW;
	node->restricts = node->rule && rule_restricts(node->rule);
	node->guard_only =
		!node->named &&
		(!node->rule || node->rule->origin == ORIGIN_GIT_GUARD);
	for (size_t i = 0; i < node->n_children; i++) {
		struct policy_node *child = node->children[i];

		tree_finish(child, node->governor);
		node->leads_to_rw |= child->leads_to_rw;
		node->restricts |= child->restricts;
		node->guard_only &= child->guard_only;
	}
}

static bool is_pattern(const struct rule *rule)
{
	return rule->pattern && has_wildcard(rule->path);
}

static bool rules_disagree(const struct rule *a, const struct rule *b)
{
	return a->origin == b->origin && a->access != b->access &&
	       is_pattern(a) == is_pattern(b) && strcmp(a->path, b->path) == 0;
}

/* 0, or -EEXIST where two rules of one origin disagree. */
static int find_conflict(const struct rules *rules, char **ret_conflict)
{
	for (size_t i = 0; i < rules->n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (!rules_disagree(&rules->rule[i], &rules->rule[k]))
				continue;
			if (ret_conflict)
				*ret_conflict = strdup(rules->rule[i].path);
			return -EEXIST;
		}
	}
	return 0;
}

/*
 * The rule that governs the root itself: the deepest at or above it, and of
 * several at one path the one of the strongest origin. NULL where there is
 * none.
 */
static const struct rule *find_root_rule(const char *root,
					 const struct rules *rules)
{
	const struct rule *best = NULL;

	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->rule[i];
		size_t length = strlen(rule->path);

		if (is_pattern(rule) ||
		    !path_starts_with(root, rule->path, NULL))
			continue;
		if (!best || strlen(best->path) < length ||
		    (strlen(best->path) == length &&
		     best->origin < rule->origin))
			best = rule;
	}
	return best;
}

/* Governs a root that no rule concerns. */
static char unrestricted_path[] = "/";
static char unrestricted_reason[] = "nothing restricts it";
static const struct rule unrestricted = {
	.path = unrestricted_path,
	.access = ACCESS_RW,
	.origin = ORIGIN_DEFAULT,
	.reason = unrestricted_reason,
};

/*
 * What follows the root in a rule's path; the components of a pattern match
 * those of the root. 1, 0 for a rule of elsewhere, or -ENOMEM.
 */
static int below_root(const struct rule *rule, const char *root,
		      const char **ret_relative)
{
	const char *path = rule->path + 1, *rest = root + 1;

	if (!is_pattern(rule))
		return path_starts_with(rule->path, root, ret_relative);
	while (*rest) {
		size_t n = strcspn(path, "/"), m = strcspn(rest, "/");
		autofree char *pattern = strndup(path, n);
		autofree char *name = strndup(rest, m);

		if (!pattern || !name)
			return -ENOMEM;
		if (has_wildcard(pattern) ? fnmatch(pattern, name, 0) != 0
					  : strcmp(pattern, name) != 0)
			return 0;
		path += n + (path[n] == '/');
		rest += m + (rest[m] == '/');
	}
	*ret_relative = path;
	return 1;
}

/* A stronger rw rule opens the path, and leaves plain what is. */
static void keep_plain(struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *plain = &rules->rule[i];

		for (size_t k = 0; plain->plain && k < rules->n; k++) {
			struct rule *rule = &rules->rule[k];

			if (rule->access == ACCESS_RW &&
			    strcmp(rule->path, plain->path) == 0)
				rule->plain = true;
		}
	}
}

static int policy_build(struct policy *policy, const char *root,
			const struct policy_names *names, char **ret_conflict)
{
	const struct rule *root_rule;
	int r;

	for (size_t i = 0; i < policy->rules.n; i++)
		if (!path_is_clean(policy->rules.rule[i].path))
			return -EINVAL;
	r = find_conflict(&policy->rules, ret_conflict);
	if (r < 0)
		return r;
	keep_plain(&policy->rules);
	policy->root = node_new("", false);
	if (!policy->root)
		return -ENOMEM;
	root_rule = find_root_rule(root, &policy->rules);
	policy->root->rule = root_rule ? root_rule : &unrestricted;
	for (size_t i = 0; i < policy->rules.n; i++) {
		const struct rule *rule = &policy->rules.rule[i];
		const char *relative;

		r = below_root(rule, root, &relative);
		if (r == 0 || (r > 0 && relative[0] == '\0'))
			continue;
		if (r > 0)
			r = tree_add(policy->root, relative, rule);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < names->n; i++) {
		r = tree_add(policy->root, names->relative[i], NULL);
		if (r < 0)
			return r;
	}
	r = merge_patterns(policy->root);
	if (r < 0)
		return r;
	tree_finish(policy->root, policy->root);
	return 0;
}

int policy_new_named(const char *root, const struct rules *rules,
		     const struct policy_names *names,
		     struct policy **ret_policy, char **ret_conflict)
{
	struct policy *policy = calloc(1, sizeof(*policy));
	int r;

	if (!policy)
		return -ENOMEM;
	r = path_is_clean(root) ? rules_copy(rules, &policy->rules) : -EINVAL;
	if (r == 0)
		r = policy_build(policy, root, names, ret_conflict);
	if (r < 0) {
		policy_free(policy);
		return r;
	}
	*ret_policy = policy;
	return 0;
}

int policy_new(const char *root, const struct rules *rules,
	       struct policy **ret_policy, char **ret_conflict)
{
	static const struct policy_names none;

	return policy_new_named(root, rules, &none, ret_policy, ret_conflict);
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	node_free(policy->root);
	rules_release(&policy->rules);
	free(policy);
}

struct place policy_root(const struct policy *policy)
{
	return (struct place){.node = policy->root, .on_tree = true};
}

static const struct policy_node *find_child(const struct policy_node *node,
					    const char *name)
{
	size_t low = 0, high = node->n_exact;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, node->children[middle]->name);

		if (order == 0)
			return node->children[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	for (size_t i = node->n_exact; i < node->n_children; i++)
		if (fnmatch(node->children[i]->name, name, 0) == 0)
			return node->children[i];
	return NULL;
}

struct place policy_step(struct place parent, const char *name)
{
	const struct policy_node *child = NULL;

	if (parent.on_tree)
		child = find_child(parent.node, name);
	if (child)
		return (struct place){.node = child, .on_tree = true};
	return (struct place){.node = parent.node->governor};
}

struct place policy_inside(struct place directory)
{
	return (struct place){.node = directory.node->governor};
}

struct place policy_walk(struct place from, const char *relative)
{
	struct place place = from;

	while (*relative) {
		size_t length = strcspn(relative, "/");
		char name[256];

		if (length >= sizeof(name)) /* no such file can exist */
			return (struct place){.node = place.node->governor};
		memcpy(name, relative, length);
		name[length] = '\0';
		place = policy_step(place, name);
		relative += length;
		relative += strspn(relative, "/");
	}
	return place;
}

bool place_equal(struct place a, struct place b)
{
	return a.node == b.node && a.on_tree == b.on_tree;
}

const struct rule *place_rule(struct place place)
{
	return place.node->governor->rule;
}

static bool node_has_access(const struct policy_node *node, enum access access)
{
	if (node->rule && node->rule->access == access)
		return true;
	for (size_t i = 0; i < node->n_children; i++)
		if (node_has_access(node->children[i], access))
			return true;
	return false;
}

bool policy_has_access(const struct policy *policy, enum access access)
{
	return node_has_access(policy->root, access);
}

/* What an ro rule answers. */
static int check_read_only(enum policy_op op)
{
	switch (op) {
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
		return 0;
	case OP_LINK_SOURCE:
		return -EXDEV;
	case OP_WRITE:
	case OP_SETATTR:
	case OP_SETTIMES:
	case OP_SETXATTR:
	case OP_CREATE:
	case OP_MKDIR:
	case OP_REMOVE:
	case OP_REPLACE:
		return -EROFS;
	}
	return -EROFS;
}

int policy_check(struct place place, enum policy_op op)
{
	switch (place_access(place)) {
	case ACCESS_RW:
		return 0;
	case ACCESS_RO:
		return check_read_only(op);
	case ACCESS_NONE:
		return op == OP_STAT ? 0 : -EACCES;
	}
	return -EACCES;
}

/* A missing rw path, and each directory above it, may be made by mkdir. */
static bool may_be_made(struct place child)
{
	return child.on_tree && child.node->leads_to_rw;
}

/* Does it have this rule of its own, with nothing below that has another? */
static bool is_leaf(struct place child)
{
	return child.on_tree && child.node->rule && child.node->n_children == 0;
}

/* What an rw pattern matches comes and goes, whatever the directory is. */
static bool is_free(struct place child)
{
	return is_leaf(child) && child.node->pattern &&
	       child.node->rule->access == ACCESS_RW;
}

/* Whether such a name may go is for the judge to say. */
static bool is_judged(struct place child)
{
	return is_leaf(child) && child.node->rule->judge != JUDGE_NONE;
}

/*
 * The name of a missing directory above a restricting rule: as a symlink it
 * would lead around the rule.
 */
static bool leads_around(struct place child)
{
	return child.on_tree && !child.node->rule && child.node->restricts;
}

static int check_new_name(struct place parent, struct place child,
			  enum policy_op op)
{
	int r;

	if (op == OP_MKDIR && may_be_made(child))
		return 0;
	r = is_free(child) ? 0 : policy_check(parent, op);
	if (r == 0)
		r = policy_check(child, op);
	if (r == 0 && op == OP_CREATE && leads_around(child))
		r = -EROFS;
	return r;
}

static int check_old_name(struct place parent, struct place child,
			  enum policy_op op)
{
	int r = is_free(child) ? 0 : policy_check(parent, op);

	if (r < 0)
		return r;
	if (!child.on_tree || is_free(child) || is_judged(child))
		return 0;
	return child.node->guard_only ? -EROFS : -EBUSY;
}

int policy_check_name(struct place parent, struct place child,
		      enum policy_op op)
{
	switch (op) {
	case OP_CREATE:
	case OP_MKDIR:
		return check_new_name(parent, child, op);
	case OP_REMOVE:
	case OP_REPLACE:
		return check_old_name(parent, child, op);
	case OP_STAT:
	case OP_READ:
	case OP_LIST:
	case OP_WRITE:
	case OP_SETATTR:
	case OP_SETTIMES:
	case OP_SETXATTR:
	case OP_LINK_SOURCE:
		return policy_check(child, op);
	}
	return -EACCES;
}

int policy_check_move(struct place from, struct place to, bool is_directory)
{
	if (!is_directory)
		return 0;
	return place_equal(from, to) && !from.on_tree ? 0 : -EXDEV;
}

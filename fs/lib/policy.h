/*
 * The rules of a view, and the verdicts that follow from them.
 *
 * A rule gives a path an access. The deepest rule whose path is a
 * component-wise prefix of an object decides for the object. At one path the
 * origin decides; two rules of one origin that disagree about one path are an
 * error. Rules are names: their paths need not exist.
 *
 * The components of a pattern match by fnmatch(3). A name that another rule
 * spells out counts before a pattern that matches it, and a narrow pattern
 * before a wider one; what the later ones say of things below it holds all the
 * same. Only where two patterns overlap and neither covers the other, the one
 * with the longer literal beginning counts alone.
 *
 * The rules of one view are compiled into a tree of names. An object knows
 * its place in that tree; the place of a child follows from the parent's by
 * one step, policy_step(), which compares single names. No path is compared
 * as a string afterwards, and nothing here does I/O or allocates once the
 * policy is built.
 */
#ifndef WORKTREEFS_POLICY_H
#define WORKTREEFS_POLICY_H

#include <stdbool.h>
#include <stddef.h>

enum access {
	ACCESS_NONE, /* names and stat only */
	ACCESS_RO,   /* reads pass, changes answer EROFS */
	ACCESS_RW,   /* everything passes */
};

/* Where a rule came from, the weakest first. */
enum origin {
	ORIGIN_DEFAULT,
	ORIGIN_GIT_GUARD,
	ORIGIN_GIT_CONFIG,
	ORIGIN_COMMAND_LINE,
	ORIGIN_LIVE,
};

/* How long the kernel may keep names and attributes of a rule's tree. */
enum caching {
	CACHING_TREE,	 /* the view's time-out */
	CACHING_NONE,	 /* asked anew each time */
	CACHING_OBJECTS, /* names that exist may live long, others not at all */
};

/*
 * What beside its access a rule asks about a change: the names in a git
 * directory that may be replaced, but not by anything (fs/gitguard.h).
 */
enum judge {
	JUDGE_NONE,
	JUDGE_CONFIG,	       /* config */
	JUDGE_WORKTREE_CONFIG, /* config.worktree of the session's worktree */
	JUDGE_REF,	       /* HEAD, and all below refs/heads */
	JUDGE_REFLOG,	       /* logs/HEAD, and all below logs/refs/heads */
	JUDGE_PACKED_REFS,     /* packed-refs */
	JUDGE_STASH,	       /* refs/stash */
	JUDGE_STASH_LOG,       /* logs/refs/stash */
	JUDGE_OBJECTS,	       /* all below objects */
	JUDGE_ADMIN,	       /* all below worktrees */
};

const char *access_name(enum access access); /* "rw", "ro", "none" */
const char *origin_name(enum origin origin); /* "command line", ... */
const char *caching_name(enum caching caching);
const char *judge_name(enum judge judge); /* "none", "config", "ref", ... */
/* The reverse; 0, or -EINVAL when the word is none of theirs. */
int access_parse(const char *word, enum access *ret_access);
int origin_parse(const char *word, enum origin *ret_origin);
int caching_parse(const char *word, enum caching *ret_caching);
int judge_parse(const char *word, enum judge *ret_judge);

struct rule {
	char *path; /* absolute, without ".", ".." and doubled slashes */
	enum access access;
	enum origin origin;
	enum caching caching;
	enum judge judge;
	bool pattern; /* components may hold the wildcards of fnmatch(3) */
	/*
	 * An rw tree of files and directories: nothing else is made in it or
	 * moved there, and its directories stay the owner's to use. That holds
	 * for a stronger rw rule at the same path, too.
	 */
	bool plain;
	char *reason; /* why, for people; never NULL */
};

/* A list of rules in no order. Zero-initialised it is empty. */
struct rules {
	struct rule *rule; /* owned, with the strings in it */
	size_t n;
};

/* Copies the strings. 0 or -ENOMEM. */
int rules_add(struct rules *rules, const struct rule *rule);
int rules_copy(const struct rules *from, struct rules *ret_rules);
void rules_release(struct rules *rules);

/*
 * What is asked about an object. Each operation of the filesystem names one;
 * the table in docs/policy.md says what each access answers.
 */
enum policy_op {
	OP_STAT,     /* lookup, stat, statfs, access for existence or X */
	OP_READ,     /* open for reading, readlink, getxattr, access(R) */
	OP_LIST,     /* opendir, readdir */
	OP_WRITE,    /* open for writing, truncate, fallocate, access(W) */
	OP_SETATTR,  /* chmod, chown */
	OP_SETTIMES, /* utimens */
	OP_SETXATTR, /* setxattr, removexattr, inode flags */
	OP_CREATE,   /* create, mknod, symlink, a link's or rename's new name */
	OP_MKDIR,    /* mkdir */
	OP_REMOVE,   /* unlink, rmdir, a rename's old name */
	OP_REPLACE,  /* a rename's new name where something has it already */
	OP_LINK_SOURCE, /* the file that gets another name */
};

const char *policy_op_name(enum policy_op op); /* "write", "mkdir", ... */
int policy_op_parse(const char *word, enum policy_op *ret_op);

struct policy;
struct policy_node;

/*
 * Where an object stands. Places are values and stay valid as long as their
 * policy. Two objects are governed alike exactly if their places are equal.
 */
struct place {
	/* on_tree: the object's own node. Otherwise the node of its rule. */
	const struct policy_node *node; /* borrowed from the policy */
	bool on_tree; /* the path is that of a rule or leads to one */
};

/*
 * Compiles the rules that concern the tree at root: those at or below it, and
 * the deepest one above it, which then governs the root. Where no rule does,
 * the root is rw. Rules are copied.
 *
 * 0; -ENOMEM; -EEXIST when two rules of one origin disagree about a path
 * (ret_conflict, if not NULL, is then an allocated copy of that path);
 * -EINVAL for a path that isn't absolute and clean.
 */
int policy_new(const char *root, const struct rules *rules,
	       struct policy **ret_policy, char **ret_conflict);

/*
 * The same with names that have a place of their own in the tree though no
 * rule says anything about them: relative paths below the root, borrowed for
 * the call. What governs them stays as it is; removing or replacing them is
 * -EBUSY where their directory is rw.
 */
struct policy_names {
	char *const *relative;
	size_t n;
};

int policy_new_named(const char *root, const struct rules *rules,
		     const struct policy_names *names,
		     struct policy **ret_policy, char **ret_conflict);
void policy_free(struct policy *policy);

struct place policy_root(const struct policy *policy);
struct place policy_step(struct place parent, const char *name);
/* Where things in a directory stand that no rule names. */
struct place policy_inside(struct place directory);
/* Steps along a relative path of one or more components; "" stays. */
struct place policy_walk(struct place from, const char *relative);
bool place_equal(struct place a, struct place b);

/* The rule that governs the place. Never NULL, borrowed from the policy. */
const struct rule *place_rule(struct place place);
static inline enum access place_access(struct place place)
{
	return place_rule(place)->access;
}

/* Is there any rule with this access in the policy? */
bool policy_has_access(const struct policy *policy, enum access access);

/*
 * May op be done to the object at place? 0, -EROFS or -EACCES. For the
 * operations on names use policy_check_name().
 */
int policy_check(struct place place, enum policy_op op);

/*
 * May op be done to a name? parent is the directory's place, child the
 * name's. 0, -EROFS, -EACCES, or -EBUSY for the name of a rule in an rw
 * directory. Names that an rw pattern matches come and go whatever the
 * directory's access is, and those that a judge is asked about are its to
 * decide.
 */
int policy_check_name(struct place parent, struct place child,
		      enum policy_op op);

/*
 * May an object move from one place to another? Files may wherever both names
 * may change; a directory only where everything below it keeps its rule:
 * 0 or -EXDEV, as between two mounts.
 */
int policy_check_move(struct place from, struct place to, bool is_directory);

#endif

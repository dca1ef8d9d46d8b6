/*
 * What the rules of a session say about an operation on a path, and why: the
 * answer of `mountctl why`. It is the policy's own verdict, asked of names
 * alone: what doesn't exist has one, too, and no file system is looked at.
 */
#ifndef WORKTREEFS_EXPLAIN_H
#define WORKTREEFS_EXPLAIN_H

#include <stdbool.h>

#include "fs/lib/policy.h"
#include "fs/lib/spec.h"

/* Zero-initialised it is empty. The strings are owned. */
struct explanation {
	bool allowed;
	int error;	    /* -errno of the refusal, or 0 */
	enum access access; /* of the rule that decides, as the rest is */
	enum origin origin;
	char *rule; /* its path */
	char *reason;
	/*
	 * Unless it is JUDGE_NONE: the rules allow it, and the git guard judges
	 * changes of it one by one.
	 */
	enum judge judge;
	char *note; /* a sentence on what the rule alone doesn't tell, or NULL
		     */
	char *twin; /* see session_twin(); NULL where the rule allows changes */
};

void explanation_release(struct explanation *explanation);

/*
 * The path is absolute and clean, and at or below root, which the policy was
 * compiled for. 0 or -ENOMEM.
 */
int explain_path(const struct policy *policy, const char *root,
		 const struct session_spec *spec, const char *path,
		 enum policy_op op, struct explanation *ret);

/*
 * The same by the session's spec alone, for paths in its views and elsewhere.
 * 0, -ENOMEM, or what policy_new() says of the rules.
 */
int explain_session(const struct session_spec *spec, const char *path,
		    enum policy_op op, struct explanation *ret);

/*
 * The path in the session's worktree that corresponds to one in the main
 * checkout. Allocated; NULL where there is none: outside of M, in W itself, in
 * the git directory. (And when out of memory.)
 */
char *session_twin(const struct session_spec *spec, const char *path);

/*
 * As members of a JSON object, see docs/control.md. False: out of memory.
 * Reading: 0, -EPROTO for what isn't an explanation, -ENOMEM.
 */
struct cJSON;
bool explanation_put(struct cJSON *object,
		     const struct explanation *explanation);
int explanation_get(const struct cJSON *object, struct explanation *ret);

#endif

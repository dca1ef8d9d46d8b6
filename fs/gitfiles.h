/*
 * What the git guard knows of the repository, and the files that it reads and
 * installs.
 */
#ifndef WORKTREEFS_GITFILES_H
#define WORKTREEFS_GITFILES_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "fs/entry.h"
#include "fs/lib/gitjudge.h"
#include "fs/lib/spec.h"

/*
 * An admin directory that the session made, or of a worktree in its
 * --worktrees-dir: the name and which one it is.
 */
struct own_admin {
	char *id;
	dev_t dev;
	ino_t ino;
};

struct gitguard {
	/* Constant. */
	char *git_dir;	/* G, absolute: for reading, and for git */
	char *relative; /* G as seen from the view's root: "" or ".git" */
	int git_fd;	/* G, O_PATH */
	bool has_main;
	char *ref_format;
	char *admin_id; /* of W, or NULL */
	enum git_config git_config;
	struct timespec started; /* as birth times are taken */
	time_t first_own_second; /* of entries of the stash */
	struct strings old_remotes, old_submodules;

	pthread_mutex_t lock;
	struct own_admin *own; /* protected by lock */
	size_t n_own;
};

/*
 * What the view needs to know of the repository; NULL in *ret_guard where its
 * rules carry no judge. Asks git for the config as it is now.
 */
int gitguard_new(const struct session_spec *spec, const char *root,
		 struct gitguard **ret_guard);
void gitguard_free(struct gitguard *guard);

/*
 * The path of the inode, or of a name in it, below G: "" is G itself.
 * Allocated; NULL if it isn't in G (or without memory).
 */
char *gitfiles_path(struct gitguard *guard, struct inode *inode,
		    const char *name);

/* Is G/worktrees/ID W's own, or one that the session made? */
bool gitfiles_is_own(struct gitguard *guard, const char *id);
void gitfiles_add_own(struct gitguard *guard, const char *id);

/* All refs that mustn't move: "HEAD" and the protected branches, as they are
 * now. 0 or -errno. */
int gitfiles_protected(struct gitguard *guard, struct strings *ret_refs);

/* 0 if packed-refs holds the loose ref's value, -EROFS otherwise. */
int gitfiles_check_packed(struct gitguard *guard, const char *ref);
/* 0 if the stash has no entry from before the session, -EROFS otherwise. */
int gitfiles_check_stash(struct gitguard *guard);

/* path: below G, of the new name. ret_what as in gitguard_install(). */
int gitfiles_install(struct gitguard *guard, enum judge judge, const char *path,
		     const struct rename_grant *grant, char **ret_what);

#endif

/*
 * Finding a repository's main checkout, its git directory, and the worktree
 * that a path lies in. All of it by reading git's own pointer files, each of
 * them checked both ways, and by asking git for what only git can parse.
 *
 * Everything that `git rev-parse --local-env-vars` lists is ignored: git is
 * run without it. Sources: gitrepository-layout(5), git-worktree(1).
 *
 * Errors come as -errno and, where a sentence helps, as an allocated message
 * in *ret_message (may be NULL), which names the file, says what is wrong and
 * how to mend it. It has neither prefix nor newline.
 */
#ifndef WORKTREEFS_GITREPO_H
#define WORKTREEFS_GITREPO_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/lib/spec.h"

struct worktree {
	char *path; /* real and absolute; as in A/gitdir where it is missing */
	char *id;   /* name of its directory in G/worktrees */
	/* "refs/heads/B", symbolic refs resolved; NULL if HEAD is detached */
	char *branch;
	bool exists; /* path is there and points back to its admin directory */
	bool locked;
};

struct gitrepo {
	char *main;	  /* M: top of the main checkout; NULL if bare */
	char *git_dir;	  /* G: the common git directory, real and absolute */
	char *ref_format; /* "files" or "reftable" */
	char *object_format;	    /* "sha1" or "sha256" */
	struct worktree *worktrees; /* linked ones, owned; sorted by path */
	size_t n_worktrees;
};

void gitrepo_release(struct gitrepo *repo);
#define autogitrepo __attribute__((cleanup(gitrepo_release)))

/*
 * Finds the repository that the directory at path lies in, from anywhere in M,
 * in a worktree, or in a bare repository or git directory.
 *
 * ret_repo: the repository (of the innermost checkout around path).
 * ret_index: which of repo->worktrees path lies in, or -1 when in M or none.
 *
 * -ENOENT: no repository around path (message says so). -EINVAL: a pointer is
 * forged, dangling, or a format isn't known. Others as they come.
 *
 * Right for: nested and sibling worktrees, --separate-git-dir, a submodule as
 * M (G is then .../modules/NAME and M found by core.worktree), relative and
 * absolute pointers, W/.git being a symlink to A, bare repositories.
 *
 * G says where M is: by being M/.git itself, or by core.worktree, which M/.git
 * must confirm. A .git elsewhere that leads to such a G is refused. Only
 * --separate-git-dir writes nothing into G: M is then found from inside M, and
 * from a worktree, or from G, it is -EINVAL, and M has to be given.
 *
 * What differs from git: the walk upwards knows neither file system boundaries
 * nor GIT_CEILING_DIRECTORIES, because a guard had better find too much; and a
 * .git that is a dangling symlink is an error, not passed over.
 */
int gitrepo_discover(const char *path, struct gitrepo *ret_repo,
		     ssize_t *ret_index, char **ret_message);

/*
 * Checks that the directory at path is the top of a linked worktree of repo:
 * W/.git names A, A/gitdir names W/.git back, A lies in G/worktrees, and
 * A/commondir leads to G. ret_index as above. -EINVAL with a message.
 */
int gitrepo_find_worktree(const struct gitrepo *repo, const char *path,
			  ssize_t *ret_index, char **ret_message);

/*
 * All values of a key in G's own config file, as git reads it, without
 * includes: `git config --file G/config --no-includes --null --get-all KEY`
 * in an environment without GIT_*. No such key: empty, 0.
 */
int gitrepo_config(const struct gitrepo *repo, const char *key,
		   struct strings *ret_values, char **ret_message);

/*
 * Branches that the user's side stands on: those that M or a worktree other
 * than own (index, or -1) has checked out, is rebasing or is bisecting, as
 * full ref names. Read anew at each call, so that worktrees made since repo was
 * found count, and so do those whose directory is missing. HEAD of a bare
 * repository is no checkout. Fails rather than leaving one out.
 */
int gitrepo_protected_branches(const struct gitrepo *repo, ssize_t own,
			       struct strings *ret_branches);

/*
 * The same for one who knows the parts of the repository that matter here:
 * has_main: it isn't bare; own_ids: names of the session's own admin
 * directories in G/worktrees. Reads a few small files for each worktree.
 */
int git_protected_branches(const char *git_dir, bool has_main,
			   const char *ref_format,
			   const struct strings *own_ids,
			   struct strings *ret_branches);

/*
 * Who owns the repository? git refuses a directory of another user's
 * (safe.directory); mountctl checks the same before a namespace hides it.
 * The caller's effective uid counts and, for root, SUDO_UID; otherwise
 * safe.directory in the user's or the system's configuration.
 * 0, or -EPERM with a message that says how to allow it, or -errno.
 */
int gitrepo_check_owner(const struct gitrepo *repo, char **ret_message);

#endif

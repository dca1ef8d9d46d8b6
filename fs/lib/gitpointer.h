/*
 * git's pointer files, each checked both ways:
 *
 *   W/.git       "gitdir: A": a file, or a symlink to A (git-annex makes these)
 *   A/gitdir     the path of W/.git
 *   A/commondir  the path of G, "../.."
 *
 * where A is G/worktrees/ID. Anybody who can write in W or G can forge one of
 * them, so one alone proves nothing. Relative paths count from the directory
 * that the file is in. Sources: gitrepository-layout(5), git's setup.c.
 *
 * Errors as in gitrepo.h: -errno, -EINVAL for a pointer that is forged or
 * dangling, and a message in *ret_message where that isn't NULL.
 */
#ifndef WORKTREEFS_GITPOINTER_H
#define WORKTREEFS_GITPOINTER_H

#include <stdbool.h>

/* Returns error, after making the message for those who want it. */
__attribute__((format(printf, 3, 4))) int
git_refuse(int error, char **ret_message, const char *format, ...);

/* An error met on the way along a pointer: where there's nothing at the end,
 * the pointer is at fault, and it is -EINVAL. Others stay as they are. */
int git_pointer_error(int r);

/* Is name there in the directory, whatever it is? */
bool git_has_entry(const char *dir, const char *name);

/*
 * Would git take the directory for a git directory? One with "commondir" is a
 * worktree's admin directory, and has the rest elsewhere.
 */
bool git_is_git_dir(const char *dir);

/*
 * Where DIR/.git leads: 1 and the real path of a git directory, or 0 where
 * there is no .git. Like git, it takes a directory of that name which isn't a
 * git directory for nothing. Unlike git, it doesn't do so with a symlink that
 * leads nowhere: what is found further up isn't what was meant then.
 */
int git_follow_dot_git(const char *dir, char **ret_git_dir, char **ret_message);

/*
 * Reads A/gitdir. *ret_top is W as it is spelled there: absolute, but not
 * resolved.
 */
int git_read_back_pointer(const char *admin, char **ret_top,
			  char **ret_message);

/* A/gitdir must name the .git in top (a real path), which led to A. */
int git_check_back_pointer(const char *top, const char *admin,
			   char **ret_message);

/*
 * Takes an admin directory (a real path) apart: G by A/commondir, and ID. It
 * must be G/worktrees/ID, and G the git directory of a repository.
 */
int git_resolve_admin_dir(const char *admin, char **ret_git_dir, char **ret_id,
			  char **ret_message);

#endif

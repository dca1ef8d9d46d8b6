/*
 * Going into the background, as mount(8) wants it of a filesystem process: the
 * caller is told that all is well once the view answers, and not before.
 */
#ifndef WORKTREEFS_BACKGROUND_H
#define WORKTREEFS_BACKGROUND_H

/*
 * Forks, and returns in the child, in a session of its own; the caller's
 * process stays until the child is ready or has ended, and ends with
 * EXIT_SUCCESS or with the child's status. Before any thread is started. The
 * descriptor for background_ready(), or -errno.
 */
int background_enter(void);
/*
 * All is well: / is the working directory from here on, and the standard
 * streams lead nowhere. Takes the descriptor. 0 or -errno.
 */
int background_ready(int fd);

#endif

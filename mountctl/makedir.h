/*
 * Making directories.
 */
#ifndef WORKTREEFS_MAKEDIR_H
#define WORKTREEFS_MAKEDIR_H

/*
 * open_dir_beneath() (fileio.h), but what is missing on the way is made, with
 * the mode that the umask leaves. The descriptor or -errno.
 */
int make_dir_beneath(int dirfd, const char *relative);

#endif

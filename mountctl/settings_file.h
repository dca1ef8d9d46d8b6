/*
 * A settings file that is read, changed and replaced.
 *
 * In a worktree it belongs to whoever works there, who may have put symlinks in
 * the way: none is followed below the worktree. A file elsewhere is one that
 * the user has named.
 */
#ifndef WORKTREEFS_SETTINGS_FILE_H
#define WORKTREEFS_SETTINGS_FILE_H

#include <stddef.h>
#include <sys/types.h>

struct settings_file {
	char *path;    /* for people */
	char *dir;     /* owned, as the rest */
	char *beneath; /* where it is in dir */
	int dir_fd;    /* that holds the file; -1: there is none yet */
	char *name;
	char *text; /* what is there; NULL: nothing */
	size_t size;
	mode_t mode;
	uid_t uid; /* of what is there, or of the directory */
	gid_t gid;
};

void settings_file_release(struct settings_file *file);

/*
 * path: absolute, or relative to the working directory. Directories that are
 * missing in the worktree are no error; elsewhere they are.
 * 0; -ELOOP: a symlink stands in the way; -errno; with a message.
 */
int settings_file_read(const char *worktree, const char *path,
		       struct settings_file *ret_file, char **message);

/*
 * Replaces it, atomically; mode and owner stay. Missing directories in the
 * worktree are made. 0 or -errno with a message.
 */
int settings_file_write(struct settings_file *file, const char *text,
			char **message);

#endif

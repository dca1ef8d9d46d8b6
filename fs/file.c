#include "fs/file.h"

#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "fs/content.h"
#include "fs/inode.h"

struct file *file_new(struct inode *inode, int fd, int flags)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->inode = inode;
	file->fd = fd;
	file->flags = flags;
	file->refs = 1;
	inode_ref(inode);
	return file;
}

void file_enlist(struct file *file)
{
	struct inode *inode = file->inode;

	pthread_mutex_lock(&inode->table->lock);
	file->next = inode->files;
	inode->files = file;
	pthread_mutex_unlock(&inode->table->lock);
}

struct file *file_ref(struct file *file)
{
	pthread_mutex_lock(&file->inode->table->lock);
	file->refs++;
	pthread_mutex_unlock(&file->inode->table->lock);
	return file;
}

static void unlist(struct inode *inode, struct file *file)
{
	struct file **at = &inode->files;

	while (*at && *at != file)
		at = &(*at)->next;
	if (*at)
		*at = file->next;
}

static void file_free(struct file *file)
{
	struct inode *inode = file->inode;

	/* The kernel may go on using what is open for other handles, see
	 * passthrough.h: the lock doesn't go with the descriptor then. */
	if (file->locked)
		flock(file->fd, LOCK_UN);
	if (file->fd >= 0)
		close(file->fd);
	if (file->content)
		content_unref(file->content);
	free(file);
	inode_unref(inode);
}

void file_close(struct file *file)
{
	struct inode *inode = file->inode;
	bool last;

	pthread_mutex_lock(&inode->table->lock);
	unlist(inode, file);
	last = --file->refs == 0;
	pthread_mutex_unlock(&inode->table->lock);
	if (last)
		file_free(file);
}

void file_unref(struct file *file)
{
	pthread_mutex_t *lock = &file->inode->table->lock;
	bool last;

	pthread_mutex_lock(lock);
	last = --file->refs == 0;
	pthread_mutex_unlock(lock);
	if (last)
		file_free(file);
}

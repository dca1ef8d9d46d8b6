#include "fs/passthrough.h"

#include <errno.h>
#include <unistd.h>

#include "fs/file.h"
#include "fs/inode.h"
#include "fs/log.h"

void passthrough_init(struct view *view, struct fuse_conn_info *conn)
{
	if (geteuid() != 0 ||
	    !fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
		return;
	/* How many stacked file systems may lie below. overlayfs is one. */
	conn->max_backing_stack_depth = view->table.trust_birth ? 0 : 1;
	view->may_pass_through = view->passes_through = true;
}

/* The inode's backing file in the kernel; made if there is none. */
static bool get_backing(struct view *view, fuse_req_t req, struct file *file)
{
	struct inode *inode = file->inode;

	if (inode->backing_id > 0)
		return true;
	if (!view->passes_through)
		return false;
	inode->backing_id = fuse_passthrough_open(req, file->fd);
	if (inode->backing_id > 0)
		return true;
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
		view->passes_through = false;
	return false;
}

void passthrough_open(struct view *view, fuse_req_t req, struct file *file,
		      bool wanted, struct fuse_file_info *fi)
{
	struct inode *inode = file->inode;

	/* What bypasses the kernel's pages goes with either. */
	if (!view->may_pass_through || fi->direct_io)
		return;
	pthread_mutex_lock(&view->backing_lock);
	if (inode->n_through > 0 ||
	    (wanted && inode->n_plain == 0 && get_backing(view, req, file))) {
		inode->n_through++;
		file->passed_through = true;
		fi->backing_id = inode->backing_id;
		fi->keep_cache = 0;
	} else {
		inode->n_plain++;
		file->counted_plain = true;
	}
	pthread_mutex_unlock(&view->backing_lock);
}

void passthrough_release(struct view *view, fuse_req_t req, struct file *file)
{
	struct inode *inode = file->inode;

	if (!file->passed_through && !file->counted_plain)
		return;
	pthread_mutex_lock(&view->backing_lock);
	if (file->counted_plain)
		inode->n_plain--;
	else if (--inode->n_through == 0) {
		fuse_passthrough_close(req, inode->backing_id);
		inode->backing_id = 0;
	}
	pthread_mutex_unlock(&view->backing_lock);
}

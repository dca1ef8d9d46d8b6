/*
 * Extended attributes. Reached through the descriptor's path in /proc: an
 * O_PATH descriptor itself carries none (xattr(7)).
 */
#include <errno.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/lib/fileio.h"
#include "fs/notify.h"
#include "fs/ops.h"

/* Lists, or gets name, into an allocated buffer of size bytes; with size 0
 * only the length is found. The length or -errno. */
static ssize_t read_xattr(struct view *view, fuse_ino_t ino, const char *name,
			  char *buffer, size_t size)
{
	autohold struct hold hold = HOLD_NONE;
	ssize_t n = guard_object(view, ino, OP_READ, &hold);

	if (n < 0)
		return n;
	if (name)
		n = getxattr(fd_path(hold.fd).text, name, buffer, size);
	else
		n = listxattr(fd_path(hold.fd).text, buffer, size);
	return n < 0 ? -errno : n;
}

static void reply_xattr(fuse_req_t req, struct view *view, fuse_ino_t ino,
			const char *name, size_t size)
{
	autofree char *buffer = size ? malloc(size) : NULL;
	ssize_t n;

	if (size && !buffer) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	n = read_xattr(view, ino, name, buffer, size);
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else if (size)
		fuse_reply_buf(req, buffer, (size_t)n);
	else
		fuse_reply_xattr(req, (size_t)n);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct view *view = op_begin(req, REQUEST_getxattr);

	if (view)
		reply_xattr(req, view, ino, name, size);
}

/* Takes the names out that only CAP_SYS_ADMIN may see (xattr(7)). */
static size_t hide_trusted(char *names, size_t size)
{
	size_t kept = 0;

	for (size_t at = 0, length; at < size; at += length) {
		length = strlen(names + at) + 1;
		if (strncmp(names + at, "trusted.", strlen("trusted.")) == 0)
			continue;
		memmove(names + kept, names + at, length);
		kept += length;
	}
	return kept;
}

/* A list for somebody else than us, who see more. */
static void reply_list(fuse_req_t req, struct view *view, fuse_ino_t ino,
		       size_t size)
{
	autofree char *names = malloc(XATTR_LIST_MAX);
	ssize_t n = names ? read_xattr(view, ino, NULL, names, XATTR_LIST_MAX)
			  : -ENOMEM;

	if (n > 0)
		n = (ssize_t)hide_trusted(names, (size_t)n);
	if (n >= 0 && size && (size_t)n > size)
		n = -ERANGE;
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else if (size)
		fuse_reply_buf(req, names, (size_t)n);
	else
		fuse_reply_xattr(req, (size_t)n);
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct view *view = op_begin(req, REQUEST_listxattr);

	if (!view)
		return;
	if (view->many_users && fuse_req_ctx(req)->uid != 0)
		reply_list(req, view, ino, size);
	else
		reply_xattr(req, view, ino, NULL, size);
}

static int do_setxattr(struct view *view, fuse_ino_t ino, const char *name,
		       const char *value, size_t size, int flags)
{
	autohold struct hold hold = HOLD_NONE;
	int r = guard_object(view, ino, OP_SETXATTR, &hold);

	if (r < 0)
		return r;
	if (setxattr(fd_path(hold.fd).text, name, value, size, flags) < 0)
		return -errno;
	/* It may keep somebody from searching a directory, see names.c. */
	if (hold.inode->type == S_IFDIR &&
	    strcmp(name, "system.posix_acl_access") == 0)
		notify_names(view);
	return 0;
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags)
{
	struct view *view = op_begin(req, REQUEST_setxattr);

	if (view)
		fuse_reply_err(
			req, -do_setxattr(view, ino, name, value, size, flags));
}

static int do_removexattr(struct view *view, fuse_ino_t ino, const char *name)
{
	autohold struct hold hold = HOLD_NONE;
	int r = guard_object(view, ino, OP_SETXATTR, &hold);

	if (r < 0)
		return r;
	return removexattr(fd_path(hold.fd).text, name) < 0 ? -errno : 0;
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct view *view = op_begin(req, REQUEST_removexattr);

	if (view)
		fuse_reply_err(req, -do_removexattr(view, ino, name));
}

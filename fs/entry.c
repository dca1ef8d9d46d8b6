#include "fs/entry.h"

#include <errno.h>
#include <fcntl.h>

void entry_release(struct entry *entry)
{
	hold_release(&entry->dir);
}

void rename_grant_release(struct rename_grant *grant)
{
	entry_release(&grant->from);
	entry_release(&grant->to);
}

int entry_statx(const struct entry *entry, struct statx *ret_stx)
{
	return statx(entry->dir.fd, entry->name,
		     AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_WANTED,
		     ret_stx) < 0
		       ? -errno
		       : 0;
}

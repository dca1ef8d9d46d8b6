/*
 * Modes, owners, times and extended attributes; the size, by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/act.h"

#define BASE(actor, step) base_fd(actor, (step)->base), (step)->path

void run_truncate(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, truncate(base_path(actor, step->base, step->path),
				 step->length));
}

void run_access(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out,
		   faccessat(BASE(actor, step), (int)step->mode, step->flags));
}

void run_chmod(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fchmodat(BASE(actor, step), step->mode, step->flags));
}

void run_fchmod(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fchmod(actor->fds[step->fd], step->mode));
}

void run_umask(struct actor *actor, const struct step *step, FILE *out)
{
	print_result(out, umask(step->mode));
}

void run_chown(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fchownat(BASE(actor, step), (uid_t)step->at,
				 (gid_t)step->at2, step->flags));
}

void run_fchown(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fchown(actor->fds[step->fd], (uid_t)step->at,
			       (gid_t)step->at2));
}

/* A time given in seconds; the nanoseconds come with them. */
static struct timespec time_of(int64_t seconds)
{
	struct timespec time = {.tv_sec = seconds};

	if (seconds == UTIME_NOW || seconds == UTIME_OMIT)
		time.tv_nsec = seconds;
	else
		time.tv_nsec = seconds * 7919 % 1000000000;
	if (time.tv_nsec < 0)
		time.tv_nsec = -time.tv_nsec;
	return time;
}

static void print_time(FILE *out, const char *name, struct timespec time)
{
	if (time.tv_sec < CLOCK_STARTS)
		fprintf(out, " %s=%lld.%09ld", name, (long long)time.tv_sec,
			time.tv_nsec);
}

void run_utimens(struct actor *actor, const struct step *step, FILE *out)
{
	const struct timespec times[2] = {time_of(step->at),
					  time_of(step->at2)};
	struct stat st;
	int r = utimensat(BASE(actor, step), times, step->flags);

	print_done(out, r);
	if (r == 0 && fstatat(BASE(actor, step), &st, step->flags) == 0)
		print_time(out, "mtime", st.st_mtim);
}

void run_futimens(struct actor *actor, const struct step *step, FILE *out)
{
	const struct timespec times[2] = {time_of(step->at),
					  time_of(step->at2)};
	struct stat st;
	int fd = actor->fds[step->fd];
	int r = futimens(fd, times);

	print_done(out, r);
	if (r < 0 || fstat(fd, &st) < 0 || S_ISSOCK(st.st_mode) ||
	    S_ISFIFO(st.st_mode))
		return;
	print_time(out, "mtime", st.st_mtim);
	/* Reading changes it, but not always; looking up some names reads. */
	if (step->at != UTIME_OMIT)
		print_time(out, "atime", st.st_atim);
}

void run_setxattr(struct actor *actor, const struct step *step, FILE *out)
{
	autofree char *value = buffer((size_t)step->length);

	fill(value, (size_t)step->length, step->data);
	print_done(out, lsetxattr(base_path(actor, step->base, step->path),
				  step->path2, value, (size_t)step->length,
				  step->flags));
}

void run_fsetxattr(struct actor *actor, const struct step *step, FILE *out)
{
	autofree char *value = buffer((size_t)step->length);

	fill(value, (size_t)step->length, step->data);
	print_done(out, fsetxattr(actor->fds[step->fd], step->path2, value,
				  (size_t)step->length, step->flags));
}

static void print_xattr(FILE *out, const char *path, const char *name,
			size_t size)
{
	autofree char *value = buffer(size);
	ssize_t n = lgetxattr(path, name, value, size);

	print_result(out, n);
	if (n >= 0 && size > 0)
		print_digest(out, value, (size_t)n);
}

void run_getxattr(struct actor *actor, const struct step *step, FILE *out)
{
	print_xattr(out, base_path(actor, step->base, step->path), step->path2,
		    (size_t)step->length);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void run_listxattr(struct actor *actor, const struct step *step, FILE *out)
{
	const char *path = base_path(actor, step->base, step->path);
	autofree char *names = buffer(XATTR_LIST_MAX);
	char *sorted[1024];
	ssize_t n = llistxattr(path, names, XATTR_LIST_MAX);
	size_t count = 0;

	print_result(out, n);
	for (char *at = names; at < names + n && count < 1024;
	     at += strlen(at) + 1)
		sorted[count++] = at;
	qsort(sorted, count, sizeof(char *), by_text);
	for (size_t i = 0; i < count; i++)
		print_quoted(out, sorted[i]);
}

void run_removexattr(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, lremovexattr(base_path(actor, step->base, step->path),
				     step->path2));
}

#define ACL_ENTRIES 6

/* Some right and some wrong; the last three words of an entry. */
static const struct {
	size_t n;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entries[ACL_ENTRIES];
} acls[] = {
	{3,
	 {{ACL_USER_OBJ, 6, -1}, {ACL_GROUP_OBJ, 4, -1}, {ACL_OTHER, 4, -1}}},
	{3,
	 {{ACL_USER_OBJ, 7, -1}, {ACL_GROUP_OBJ, 5, -1}, {ACL_OTHER, 0, -1}}},
	{5,
	 {{ACL_USER_OBJ, 7, -1},
	  {ACL_USER, 5, 1000},
	  {ACL_GROUP_OBJ, 5, -1},
	  {ACL_MASK, 7, -1},
	  {ACL_OTHER, 1, -1}}},
	{6,
	 {{ACL_USER_OBJ, 6, -1},
	  {ACL_USER, 0, 65534},
	  {ACL_GROUP_OBJ, 4, -1},
	  {ACL_GROUP, 6, 1000},
	  {ACL_MASK, 4, -1},
	  {ACL_OTHER, 4, -1}}},
	/* no mask, the wrong order, unknown bits */
	{4,
	 {{ACL_USER_OBJ, 7, -1},
	  {ACL_USER, 5, 1000},
	  {ACL_GROUP_OBJ, 5, -1},
	  {ACL_OTHER, 1, -1}}},
	{3,
	 {{ACL_GROUP_OBJ, 4, -1}, {ACL_USER_OBJ, 6, -1}, {ACL_OTHER, 4, -1}}},
	{3,
	 {{ACL_USER_OBJ, 9, -1}, {ACL_GROUP_OBJ, 4, -1}, {ACL_OTHER, 4, -1}}},
	{0, {{0, 0, 0}}},
};

static const char *acl_name(const struct step *step)
{
	return step->flags & 1 ? "system.posix_acl_default"
			       : "system.posix_acl_access";
}

void run_setacl(struct actor *actor, const struct step *step, FILE *out)
{
	const char *path = base_path(actor, step->base, step->path);
	struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entries[ACL_ENTRIES];
	} value = {.header.a_version = POSIX_ACL_XATTR_VERSION};
	size_t which = step->data;

	if (which >= ARRAY_SIZE(acls)) {
		print_done(out, removexattr(path, acl_name(step)));
		return;
	}
	for (size_t i = 0; i < acls[which].n; i++)
		value.entries[i] = (struct posix_acl_xattr_entry){
			.e_tag = acls[which].entries[i].tag,
			.e_perm = acls[which].entries[i].perm,
			.e_id = acls[which].entries[i].id,
		};
	print_done(out,
		   setxattr(path, acl_name(step), &value,
			    sizeof(value.header) +
				    acls[which].n * sizeof(value.entries[0]),
			    0));
}

void run_getacl(struct actor *actor, const struct step *step, FILE *out)
{
	print_xattr(out, base_path(actor, step->base, step->path),
		    acl_name(step), 4096);
}

/*
 * Names: making, moving, removing and resolving them; listings.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "tests/fuzz/act.h"

/* A device number that no driver has. */
#define NO_DEVICE makedev(240, 7)

#define BASE(actor, step) base_fd(actor, (step)->base), (step)->path
#define BASE2(actor, step) base_fd(actor, (step)->base2), (step)->path2

void run_mkdir(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, mkdirat(BASE(actor, step), step->mode));
}

void run_rmdir(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, unlinkat(BASE(actor, step), AT_REMOVEDIR));
}

void run_unlink(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, unlinkat(BASE(actor, step), 0));
}

void run_rename(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, renameat2(BASE(actor, step), BASE2(actor, step),
				  (unsigned int)step->flags));
}

void run_link(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out,
		   linkat(BASE(actor, step), BASE2(actor, step), step->flags));
}

/* Gives a name to what a descriptor is open for, one way or the other. */
void run_linkfd(struct actor *actor, const struct step *step, FILE *out)
{
	int fd = actor->fds[step->fd];
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	print_done(out,
		   step->flags & 1
			   ? linkat(fd, "", BASE(actor, step), AT_EMPTY_PATH)
			   : linkat(AT_FDCWD, path, BASE(actor, step),
				    AT_SYMLINK_FOLLOW));
}

void run_symlink(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, symlinkat(step->path2, BASE(actor, step)));
}

void run_readlink(struct actor *actor, const struct step *step, FILE *out)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(BASE(actor, step), target, sizeof(target) - 1);

	print_result(out, n);
	if (n < 0)
		return;
	target[n] = '\0';
	print_quoted(out, target);
}

void run_mknod(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, mknodat(BASE(actor, step), step->mode, NO_DEVICE));
}

void run_stat(struct actor *actor, const struct step *step, FILE *out)
{
	struct stat st;
	int r = fstatat(BASE(actor, step), &st, step->flags);

	print_done(out, r);
	if (r == 0)
		print_attributes(out, &st);
}

void run_statfs(struct actor *actor, const struct step *step, FILE *out)
{
	autofd int fd = openat(BASE(actor, step), O_PATH | O_CLOEXEC);
	struct statfs fs;
	int r = fd < 0 ? fd : fstatfs(fd, &fs);

	print_done(out, r);
	if (r == 0)
		fprintf(out, " names=%ld blocks=%ld", (long)fs.f_namelen,
			(long)fs.f_bsize);
}

void run_chdir(struct actor *actor, const struct step *step, FILE *out)
{
	autofd int fd = -1;

	if (step->base == BASE_CWD) {
		print_done(out, chdir(step->path));
		return;
	}
	fd = openat(BASE(actor, step), O_PATH | O_DIRECTORY | O_CLOEXEC);
	print_done(out, fd < 0 ? fd : fchdir(fd));
}

void run_fchdir(struct actor *actor, const struct step *step, FILE *out)
{
	print_done(out, fchdir(actor->fds[step->fd]));
}

void run_getcwd(struct actor *actor, const struct step *step, FILE *out)
{
	char cwd[2 * PATH_MAX];
	size_t above = strlen(actor->top);

	if (!getcwd(cwd, sizeof(cwd)))
		print_result(out, -1);
	else if (strncmp(cwd, actor->top, above) == 0)
		print_quoted(out, cwd + above);
	else
		fputs("elsewhere", out);
}

void run_bind(struct actor *actor, const struct step *step, FILE *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d/%.80s", actor->root, step->path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 5) < 0) {
		print_result(out, -1);
		close(fd);
		return;
	}
	keep_fd(actor, step->fd, fd, out);
}

void run_connect(struct actor *actor, const struct step *step, FILE *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autofd int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d/%.80s", actor->root, step->path);
	print_done(out,
		   connect(fd, (struct sockaddr *)&address, sizeof(address)));
}

/* The parent has done it already. */
void run_forget(struct actor *actor, const struct step *step, FILE *out)
{
}

/* What a listing gave. */
struct listed {
	char *name;
	unsigned char type;
	int64_t next; /* where the listing goes on behind it */
};

struct listing {
	struct listed *entries;
	size_t n;
};

static void listing_release(struct listing *listing)
{
	for (size_t i = 0; i < listing->n; i++)
		free(listing->entries[i].name);
	free(listing->entries);
	*listing = (struct listing){0};
}

#define autolisting __attribute__((cleanup(listing_release)))

static void add_listed(struct listing *listing, const struct dirent64 *d)
{
	listing->entries = reallocarray(listing->entries, listing->n + 1,
					sizeof(struct listed));
	if (!listing->entries)
		abort();
	listing->entries[listing->n++] = (struct listed){
		.name = strdup(d->d_name),
		.type = d->d_type,
		.next = d->d_off,
	};
}

/* Reads on, at most room bytes at a time and at most once if so asked. */
static int read_listing(int fd, size_t room, bool once, struct listing *listing)
{
	char bytes[4096] __attribute__((aligned(8)));
	ssize_t n;

	do {
		n = getdents64(fd, bytes, room);
		if (n < 0)
			return -errno;
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(bytes + at);

			add_listed(listing, d);
			at += d->d_reclen;
		}
	} while (n > 0 && !once);
	return n > 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->name,
		      ((const struct listed *)b)->name);
}

static void print_listing(FILE *out, struct listing *listing)
{
	if (listing->n > 0)
		qsort(listing->entries, listing->n, sizeof(struct listed),
		      by_name);
	for (size_t i = 0; i < listing->n; i++) {
		fprintf(out, " %d:", listing->entries[i].type);
		print_quoted(out, listing->entries[i].name);
	}
}

void run_getdents(struct actor *actor, const struct step *step, FILE *out)
{
	autolisting struct listing listing = {0};
	int fd = actor->fds[step->fd];
	struct stat st;
	int r;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		lseek(fd, 0, SEEK_SET);
	r = read_listing(fd, 4096, false, &listing);
	if (r < 0)
		errno = -r;
	print_done(out, r < 0 ? -1 : 0);
	print_listing(out, &listing);
}

/* The whole listing; each number in it must be the thing's own. */
void run_list(struct actor *actor, const struct step *step, FILE *out)
{
	autolisting struct listing listing = {0};
	int fd = openat(BASE(actor, step), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent64 *d;
	struct stat st;

	print_done(out, dir ? 0 : -1);
	while (dir && (d = readdir64(dir))) {
		add_listed(&listing, d);
		if (strcmp(d->d_name, "..") != 0 &&
		    fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_ino != d->d_ino ||
		     (st.st_mode & S_IFMT) >> 12 != d->d_type))
			fprintf(out, " [%s is another]", d->d_name);
	}
	print_listing(out, &listing);
}

static bool same_names(const struct listed *a, const struct listed *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) != 0)
			return false;
	return true;
}

/* Goes back to somewhere in a listing: the rest must be the same again. */
void run_seekdir(struct actor *actor, const struct step *step, FILE *out)
{
	autolisting struct listing all = {0};
	autolisting struct listing rest = {0};
	autofd int fd =
		openat(BASE(actor, step), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t at;
	int r = fd < 0 ? -errno : 0;

	if (r == 0)
		r = read_listing(fd, 300 + step->data % 500, false, &all);
	if (r < 0 || all.n == 0) {
		errno = -r;
		print_result(out, r < 0 ? -1 : 0);
		return;
	}
	at = step->data / 500 % all.n;
	if (lseek(fd, all.entries[at].next, SEEK_SET) < 0 ||
	    read_listing(fd, 300 + step->data % 700, false, &rest) < 0)
		print_result(out, -1);
	else if (rest.n != all.n - at - 1 ||
		 !same_names(all.entries + at + 1, rest.entries, rest.n))
		fputs("another rest", out);
	else
		fprintf(out, "%zu", all.n);
}

/* How often a name was listed. */
static size_t times_listed(const struct listing *listing, const char *name)
{
	size_t times = 0;

	for (size_t i = 0; i < listing->n; i++)
		times += strcmp(listing->entries[i].name, name) == 0;
	return times;
}

static void churn_name(char *name, size_t size, const char *what, size_t number)
{
	snprintf(name, size, "churn-%s-%zu", what, number);
}

static int make_churn(int dir, const char *what, size_t number)
{
	char name[64];
	int fd;

	churn_name(name, sizeof(name), what, number);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : close(fd);
}

static void remove_churn(int dir, const char *what, size_t number)
{
	char name[64];

	churn_name(name, sizeof(name), what, number);
	unlinkat(dir, name, 0);
}

/* Lists while names come and go, a few entries at a time. */
static int list_churning(int dir, size_t n, size_t room,
			 struct listing *listing)
{
	size_t round = 0;
	int r;

	while ((r = read_listing(dir, room, true, listing)) > 0) {
		remove_churn(dir, "going", round % n);
		make_churn(dir, "coming", round++);
	}
	for (size_t i = 0; i < round; i++)
		remove_churn(dir, "coming", i);
	return r;
}

/*
 * A listing has each name that stays exactly once, whatever else comes and
 * goes meanwhile.
 */
void run_churn(struct actor *actor, const struct step *step, FILE *out)
{
	autolisting struct listing listing = {0};
	autofd int dir =
		openat(BASE(actor, step), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n = step->data % 20 == 0 ? 700 : 10 + step->data % 40;
	int r = dir < 0 ? -errno : 0;
	char name[64];

	for (size_t i = 0; i < n && r == 0; i++) {
		r = make_churn(dir, "going", i);
		if (r == 0)
			r = make_churn(dir, "staying", i);
	}
	if (r == 0)
		r = list_churning(dir, n, 200 + step->data % 1500, &listing);
	for (size_t i = 0; i < n && dir >= 0; i++) {
		remove_churn(dir, "going", i);
		remove_churn(dir, "staying", i);
		churn_name(name, sizeof(name), "staying", i);
		if (r == 0 && times_listed(&listing, name) != 1)
			fprintf(out, "[%s %zu times] ", name,
				times_listed(&listing, name));
	}
	errno = -r;
	print_done(out, r < 0 ? -1 : 0);
}

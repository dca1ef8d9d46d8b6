/*
 * The table of inodes, on real files in a directory of each test's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/file.h"
#include "fs/inode.h"
#include "fs/lib/fileio.h"
#include "fs/lib/policy.h"
#include "fs/places.h"

#define MAX_FDS 4
#define MANY 40

static char base[] = "/tmp/test-inode-XXXXXX";
static struct policy *policy;
static struct inode_table table;

__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
	autofree char *command = NULL, *whole = NULL;
	va_list args;

	va_start(args, format);
	cr_assert_gt(vasprintf(&command, format, args), 0);
	va_end(args);
	cr_assert_gt(asprintf(&whole, "set -e; cd '%s'; %s", base, command), 0);
	cr_assert_eq(system(whole), 0, "%s", command);
}

static void add_rule(struct rules *rules, const char *relative,
		     enum access access)
{
	autofree char *path = NULL;
	struct rule rule = {.access = access};

	cr_assert_gt(asprintf(&path, "%s/%s", base, relative), 0);
	rule.path = path;
	cr_assert_eq(rules_add(rules, &rule), 0);
}

static void set_up(void)
{
	struct rules rules = {0};
	int fd;

	cr_assert_not_null(mkdtemp(base));
	add_rule(&rules, "ro", ACCESS_RO);
	cr_assert_eq(policy_new(base, &rules, &policy, NULL), 0);
	rules_release(&rules);
	sh("mkdir dir ro; echo 1 >file; echo 2 >dir/file; ln file ro/file");
	fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(inode_table_init(&table, fd, policy_root(policy), MAX_FDS),
		     0);
}

static void tear_down(void)
{
	inode_table_release(&table);
	policy_free(policy);
	sh("rm -rf '%s'", base);
}

TestSuite(inode, .init = set_up, .fini = tear_down, .timeout = 60);

static struct statx stat_of(const char *relative)
{
	autofd int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statx stx;

	cr_assert_eq(
		statx(dir, relative, AT_SYMLINK_NOFOLLOW, STATX_WANTED, &stx),
		0, "%s", relative);
	return stx;
}

/* Looks a name up as the kernel does; relative is its path. */
static struct inode *look_up(struct inode *parent, const char *name,
			     const char *relative, uint64_t lookups)
{
	struct statx stx = stat_of(relative);
	struct inode *inode = NULL;

	cr_assert_eq(inode_find_or_add(parent, name,
				       policy_step(parent->place, name), &stx,
				       lookups, &inode),
		     0);
	return inode;
}

static struct inode *look_up_in_root(const char *name, uint64_t lookups)
{
	return look_up(table.root, name, name, lookups);
}

/* How many of the inodes are known, but for the root. */
static size_t known(void)
{
	return table.n_inodes - 1;
}

Test(inode, root)
{
	autoinode struct inode *root = inode_get(&table, 1);
	autohold struct hold hold = HOLD_NONE;
	autofree char *name = NULL;
	struct statx stx;

	cr_expect_eq(root, table.root);
	cr_expect_eq(inode_hold(root, &hold), 0);
	cr_expect_eq(inode_statx(root, &stx), 0);
	cr_expect(inode_is(root, &stx));
	cr_expect_eq(inode_hold_parent(root, &hold, &name), -ESTALE);
	/* The kernel can't forget it. */
	inode_forget(&table, 1, 1000);
	cr_expect_eq(table.root->nodeid, 1);
	cr_expect_null(inode_get(&table, 0));
	cr_expect_null(inode_get(&table, 2));
}

Test(inode, one_file_is_one_inode)
{
	autoinode struct inode *a = look_up_in_root("file", 1);
	autoinode struct inode *b = look_up_in_root("file", 1);
	autoinode struct inode *by_id = inode_get(&table, a->nodeid);
	struct statx stx = stat_of("file");
	autoinode struct inode *found = inode_find(&table, a->place, &stx);

	cr_expect_eq(a, b);
	cr_expect_eq(a, by_id);
	cr_expect_eq(a, found);
	cr_expect_eq(a->lookups, 2);
	cr_expect_eq(known(), 1);
}

/* One file by two rules: access can't leak from one name to the other. */
Test(inode, two_rules_are_two_inodes)
{
	autoinode struct inode *ro = look_up_in_root("ro", 1);
	autoinode struct inode *a = look_up_in_root("file", 1);
	autoinode struct inode *b = look_up(ro, "file", "ro/file", 1);

	cr_expect_eq(a->ino, b->ino);
	cr_expect_neq(a, b);
	cr_expect_neq(a->nodeid, b->nodeid);
	cr_expect_eq(place_access(a->place), ACCESS_RW);
	cr_expect_eq(place_access(b->place), ACCESS_RO);
}

/* Two names by one rule are one. */
Test(inode, hard_links)
{
	sh("ln file other");
	{
		autoinode struct inode *a = look_up_in_root("file", 1);
		autoinode struct inode *b = look_up_in_root("other", 1);

		cr_expect_eq(a, b);
		/* It is found by the name that was seen last. */
		cr_expect_str_eq(a->name, "other");
	}
}

Test(inode, ids_are_never_used_twice)
{
	uint64_t last = 1;

	for (int i = 0; i < 5000; i++) {
		struct inode *inode = look_up_in_root("file", 1);
		uint64_t id = inode->nodeid;

		cr_assert_gt(id, last);
		last = id;
		inode_unref(inode);
		inode_forget(&table, id, 1);
		cr_assert_null(inode_get(&table, id));
	}
	cr_expect_eq(known(), 0);
}

Test(inode, counts)
{
	struct inode *inode = look_up_in_root("file", 3);
	uint64_t id = inode->nodeid;

	inode_unref(inode);
	inode_forget(&table, id, 2);
	cr_expect_eq(known(), 1);
	/* Looked up again before the rest is forgotten. */
	inode_unref(look_up_in_root("file", 1));
	inode_forget(&table, id, 1);
	cr_expect_eq(known(), 1);
	/* Ours alone keeps it. */
	inode = inode_get(&table, id);
	inode_forget(&table, id, 1);
	cr_expect_eq(inode->lookups, 0);
	cr_expect_eq(known(), 1);
	inode_ref(inode);
	inode_unref(inode);
	cr_expect_eq(known(), 1);
	inode_unref(inode);
	cr_expect_eq(known(), 0);
	/* A kernel that forgets more than there was. */
	inode_forget(&table, id, 1);
	inode = look_up_in_root("file", 1);
	inode_forget(&table, inode->nodeid, 1000);
	inode_forget(&table, inode->nodeid, 1);
	cr_expect_eq(known(), 1);
	inode_unref(inode);
	cr_expect_eq(known(), 0);
}

/* A child keeps its parent, and the last one to go takes it along. */
Test(inode, parents)
{
	struct inode *dir = look_up_in_root("dir", 1);
	struct inode *file = look_up(dir, "file", "dir/file", 1);
	uint64_t dir_id = dir->nodeid, file_id = file->nodeid;

	inode_unref(dir);
	inode_unref(file);
	inode_forget(&table, dir_id, 1);
	cr_expect_eq(known(), 2);
	inode_forget(&table, file_id, 1);
	cr_expect_eq(known(), 0);
}

/* A new file with the number of a deleted one is another. */
Test(inode, birth_and_type_tell_files_apart)
{
	autoinode struct inode *inode = look_up_in_root("file", 1);
	struct statx stx = stat_of("file");

	cr_assert(stx.stx_mask & STATX_BTIME, "no birth times here");
	stx.stx_btime.tv_nsec ^= 1;
	cr_expect_not(inode_is(inode, &stx));
	cr_expect_null(inode_find(&table, inode->place, &stx));
	stx.stx_btime.tv_nsec ^= 1;
	stx.stx_mode = S_IFDIR | 0755;
	cr_expect_not(inode_is(inode, &stx));
	cr_expect_null(inode_find(&table, inode->place, &stx));
}

Test(inode, holds)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *file = look_up(dir, "file", "dir/file", 1);
	autohold struct hold dir_hold = HOLD_NONE, file_hold = HOLD_NONE;
	struct statx stx;

	cr_assert_eq(inode_hold(dir, &dir_hold), 0);
	cr_assert_eq(inode_hold(file, &file_hold), 0);
	cr_expect_eq(fcntl(file_hold.fd, F_GETFL) & O_PATH, O_PATH);
	cr_expect(fcntl(file_hold.fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(statx(file_hold.fd, "", AT_EMPTY_PATH, STATX_WANTED, &stx),
		     0);
	cr_expect(inode_is(file, &stx));
	/* A directory's stays, a file's is the hold's own. */
	cr_expect_eq(dir->fd, dir_hold.fd);
	cr_expect_eq(file->fd, -1);
}

/* What isn't where it was is never mistaken for what is there now. */
Test(inode, stale)
{
	autoinode struct inode *file = look_up_in_root("file", 1);
	autohold struct hold hold = HOLD_NONE;
	struct statx stx;

	sh("mv file moved");
	cr_expect_eq(inode_hold(file, &hold), -ESTALE);
	cr_expect_eq(inode_statx(file, &stx), -ESTALE);
	sh("echo other >file");
	cr_expect_eq(inode_hold(file, &hold), -ESTALE);
	cr_expect_eq(inode_statx(file, &stx), -ESTALE);
	sh("rm file; ln -s moved file");
	cr_expect_eq(inode_hold(file, &hold), -ESTALE);
	sh("rm file; mkdir file");
	cr_expect_eq(inode_hold(file, &hold), -ESTALE);
	sh("rmdir file; mv moved file");
	cr_expect_eq(inode_hold(file, &hold), 0);
}

/* The directory above was replaced by a symlink to another. */
Test(inode, stale_directory)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *file = look_up(dir, "file", "dir/file", 1);
	autohold struct hold hold = HOLD_NONE;

	sh("mv dir was; mkdir other; echo 3 >other/file; ln -s other dir");
	cr_expect_eq(inode_hold(file, &hold), -ESTALE);
	cr_expect_eq(inode_hold(dir, &hold), -ESTALE);
}

Test(inode, moved)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *file = look_up_in_root("file", 1);
	autohold struct hold hold = HOLD_NONE;
	autofree char *name = NULL;

	sh("mv file dir/new");
	inode_moved(file, dir, "new");
	cr_assert_eq(inode_hold_parent(file, &hold, &name), 0);
	cr_expect_eq(hold.inode, dir);
	cr_expect_str_eq(name, "new");
	hold_release(&hold);
	cr_expect_eq(inode_hold(file, &hold), 0);
}

/* Two directories turned inside out by others, of which we see half. */
Test(inode, no_cycles)
{
	autoinode struct inode *a = NULL, *b = NULL;
	struct inode *again;

	sh("mkdir -p a/b");
	a = look_up_in_root("a", 1);
	b = look_up(a, "b", "a/b", 1);
	sh("mv a/b b; mv a b/a");
	again = look_up(b, "a", "b/a", 1);
	cr_expect_eq(again, a);
	for (struct inode *up = a; up; up = up->parent)
		cr_assert_neq(up->parent, a);
	inode_unref(again);
	/* A later lookup mends it. */
	inode_unref(look_up_in_root("b", 1));
	inode_unref(look_up(b, "a", "b/a", 1));
	cr_expect_eq(a->parent, b);
	cr_expect_eq(b->parent, table.root);
}

/* Makes many directories, if need be, and holds each once. */
static void hold_many(void)
{
	sh("mkdir -p $(seq -f d%%g 0 %d)", MANY - 1);
	for (int i = 0; i < MANY; i++) {
		autoinode struct inode *dir = NULL;
		autohold struct hold hold = HOLD_NONE;
		char name[16];

		snprintf(name, sizeof(name), "d%d", i);
		dir = look_up_in_root(name, 1);
		cr_assert_eq(inode_hold(dir, &hold), 0);
		cr_assert_leq(table.n_fds, MAX_FDS + 1);
	}
}

Test(inode, descriptors_are_bounded)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autohold struct hold hold = HOLD_NONE, again = HOLD_NONE;
	struct stat st;

	cr_assert_eq(inode_hold(dir, &hold), 0);
	hold_many();
	cr_expect_leq(table.n_fds, MAX_FDS);
	/* The least recently used one of all, but in use. */
	cr_expect_eq(dir->fd, hold.fd);
	cr_expect_eq(fstat(hold.fd, &st), 0);
	hold_release(&hold);
	hold_many();
	cr_expect_eq(dir->fd, -1);
	/* It is opened anew. */
	cr_expect_eq(inode_hold(dir, &again), 0);
}

Test(inode, shrink)
{
	hold_many();
	cr_expect_eq(table.n_fds, MAX_FDS);
	cr_expect(inode_table_shrink(&table));
	cr_expect_eq(table.n_fds, MAX_FDS / 2);
	while (inode_table_shrink(&table))
		;
	cr_expect_eq(table.n_fds, 0);
}

Test(inode, pinned)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	int fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int pin = openat(fd, "dir", O_PATH | O_DIRECTORY | O_CLOEXEC);

	close(fd);
	inode_pin(dir, pin);
	hold_many();
	while (inode_table_shrink(&table))
		;
	cr_expect_eq(dir->fd, pin);
	inode_forget(&table, dir->nodeid, 1000);
	inode_unref(inode_ref(dir));
	sh("mv dir elsewhere");
	{
		autohold struct hold hold = HOLD_NONE;

		cr_expect_eq(inode_hold(dir, &hold), 0);
		cr_expect_eq(hold.fd, pin);
	}
}

/* An open file leads to its inode when no name does any more. */
Test(inode, open_files)
{
	autoinode struct inode *inode = look_up_in_root("file", 1);
	autohold struct hold hold = HOLD_NONE;
	autofree char *path = NULL;
	struct file *file;
	struct statx stx;
	int fd;

	cr_assert_gt(asprintf(&path, "%s/file", base), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	file = file_new(inode, fd, O_RDWR);
	cr_assert_not_null(file);
	file_enlist(file);
	sh("rm file");
	cr_assert_eq(inode_statx(inode, &stx), 0);
	cr_expect_eq(stx.stx_nlink, 1); /* ro/file */
	cr_assert_eq(inode_hold(inode, &hold), 0);
	cr_expect_eq(hold.fd, fd);
	/* Closed meanwhile: the hold keeps it. */
	file_close(file);
	cr_expect_eq(fcntl(hold.fd, F_GETFD), FD_CLOEXEC);
	hold_release(&hold);
	cr_expect_eq(fcntl(fd, F_GETFD), -1);
	cr_expect_eq(inode_hold(inode, &hold), -ESTALE);
}

/* The same by a descriptor that was kept when the name went. */
Test(inode, kept_descriptor)
{
	autoinode struct inode *inode = look_up_in_root("file", 1);
	autohold struct hold hold = HOLD_NONE;
	int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(dir, "file", O_PATH | O_CLOEXEC);
	int second = openat(dir, "file", O_PATH | O_CLOEXEC);

	close(dir);
	inode_keep_fd(inode, fd);
	inode_keep_fd(inode, second);
	cr_expect_eq(fcntl(second, F_GETFD), -1, "the second is needless");
	sh("rm file");
	cr_expect_eq(inode_hold(inode, &hold), 0);
	cr_expect_eq(hold.fd, fd);
}

/* Its state, as if it had been written by then. */
static struct statx written_at(const char *name, int64_t second)
{
	struct statx stx = stat_of(name);

	stx.stx_ctime.tv_sec = second;
	return stx;
}

/* Pages may stay only while nothing of the file changes. */
Test(inode, known_data)
{
	autoinode struct inode *inode = look_up_in_root("file", 1);
	const int64_t never = INT64_C(1) << 33;
	struct statx stx = written_at("file", never);

	/* Just written: another write might leave the same times. */
	cr_expect_not(inode_data_is_known(inode, &stx));
	cr_expect_not(inode_data_is_known(inode, &stx));
	stx = written_at("file", 1000);
	cr_expect_not(inode_data_is_known(inode, &stx));
	cr_expect(inode_data_is_known(inode, &stx));
	/* Bytes and mtime as they were, by others' doing. */
	stx = written_at("file", 1001);
	cr_expect_not(inode_data_is_known(inode, &stx));
	cr_expect(inode_data_is_known(inode, &stx));
	stx.stx_size++;
	cr_expect_not(inode_data_is_known(inode, &stx));
	cr_expect(inode_data_is_known(inode, &stx));
	stx.stx_mtime.tv_nsec ^= 1;
	cr_expect_not(inode_data_is_known(inode, &stx));
	cr_expect(inode_data_is_known(inode, &stx));
}

static struct statx listed_at(int64_t mtime, int64_t ctime)
{
	struct statx stx = written_at("dir", ctime);

	stx.stx_mtime.tv_sec = mtime;
	return stx;
}

Test(inode, stale_listings)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	const int64_t never = INT64_C(1) << 33;
	struct statx stx = listed_at(1000, 1000);

	/* Nothing was listed yet. */
	cr_expect_not(inode_listing_is_stale(dir, &stx));
	inode_data_is_known(dir, &stx);
	cr_expect_not(inode_listing_is_stale(dir, &stx));
	/* A newer mtime the kernel sees by itself; set back, it doesn't. */
	stx = listed_at(1001, 1001);
	cr_expect_not(inode_listing_is_stale(dir, &stx));
	stx = listed_at(1000, 1002);
	cr_expect(inode_listing_is_stale(dir, &stx));
	cr_expect(inode_listing_is_stale(dir, &stx), "until it is dropped");
	inode_listing_dropped(dir, &stx);
	cr_expect_not(inode_listing_is_stale(dir, &stx));
	stx = listed_at(1000, 1003);
	cr_expect(inode_listing_is_stale(dir, &stx), "never seen newer");
	inode_listing_dropped(dir, &stx);
	/* So young that a listing on its way may be older. */
	stx = listed_at(999, never);
	cr_expect(inode_listing_is_stale(dir, &stx));
	inode_listing_dropped(dir, &stx);
	cr_expect(inode_listing_is_stale(dir, &stx));
	/* The same where it was listed at once. */
	inode_data_is_known(dir, &stx);
	cr_expect(inode_listing_is_stale(dir, &stx));
}

/* The kernel looks up and forgets from many threads at once. */
static void *look_up_and_forget(void *arg)
{
	struct statx *stx = arg;
	struct place place = policy_step(policy_root(policy), "x");

	for (int i = 0; i < 20000; i++) {
		struct inode *inode, *again;
		uint64_t id;

		if (inode_find_or_add(table.root, i % 2 ? "a" : "b", place,
				      &stx[i % 3], 1, &inode) < 0)
			return arg;
		id = inode->nodeid;
		again = inode_get(&table, id);
		if (again != inode)
			return arg;
		inode_unref(again);
		inode_unref(inode);
		inode_forget(&table, id, 1);
	}
	return NULL;
}

Test(inode, threads)
{
	struct statx stx[3] = {stat_of("file"), stat_of("dir/file"),
			       stat_of("dir")};
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL,
					    look_up_and_forget, stx),
			     0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *failed;

		cr_assert_eq(pthread_join(threads[i], &failed), 0);
		cr_expect_null(failed);
	}
	cr_expect_eq(known(), 0);
}

/* The table grows and everything in it is found. */
Test(inode, many)
{
	struct statx stx = stat_of("file");
	struct place place = policy_step(policy_root(policy), "x");
	size_t n = 5000;
	uint64_t *ids = calloc(n, sizeof(*ids));

	for (size_t i = 0; i < n; i++) {
		struct inode *inode;

		stx.stx_ino = i + 1;
		cr_assert_eq(inode_find_or_add(table.root, "x", place, &stx, 1,
					       &inode),
			     0);
		ids[i] = inode->nodeid;
		inode_unref(inode);
	}
	for (size_t i = 0; i < n; i++) {
		autoinode struct inode *by_id = inode_get(&table, ids[i]);
		autoinode struct inode *by_key = NULL;

		stx.stx_ino = i + 1;
		by_key = inode_find(&table, place, &stx);
		cr_assert_not_null(by_id);
		cr_assert_eq(by_id, by_key);
	}
	cr_expect_eq(known(), n);
	for (size_t i = 0; i < n; i++)
		inode_forget(&table, ids[i], 1);
	cr_expect_eq(known(), 0);
	free(ids);
}

/* Another policy: ro/ as before, and a rule for relative. */
static struct policy *policy_with(const char *relative, enum access access)
{
	struct rules rules = {0};
	struct policy *other;

	add_rule(&rules, "ro", ACCESS_RO);
	add_rule(&rules, relative, access);
	cr_assert_eq(policy_new(base, &rules, &other, NULL), 0);
	rules_release(&rules);
	return other;
}

static void plan(const struct policy *other, const char *relative)
{
	struct place root = policy_root(other);

	places_plan(&table, root, policy_walk(root, relative));
}

/* Goes by the other policy from here on. */
static void move(struct policy *other)
{
	places_move(&table);
	policy_free(policy);
	policy = other;
}

static struct file *open_as(struct inode *inode, const char *relative,
			    int flags)
{
	autofree char *path = NULL;
	struct file *file;
	int fd;

	cr_assert_gt(asprintf(&path, "%s/%s", base, relative), 0);
	fd = open(path, flags | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	file = file_new(inode, fd, flags);
	cr_assert_not_null(file);
	file_enlist(file);
	return file;
}

static size_t n_obstacles(enum obstacle_kind *ret_kind)
{
	struct obstacles obstacles = {0};
	size_t n;

	cr_assert_eq(places_find_obstacles(&table, &obstacles), 0);
	n = obstacles.n;
	if (n > 0)
		*ret_kind = obstacles.obstacle[0].kind;
	obstacles_release(&obstacles);
	return n;
}

/* All below the rule changes its place, and is found there. */
Test(inode, places_follow_the_rules)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *file = look_up(dir, "file", "dir/file", 1);
	autoinode struct inode *beside = look_up_in_root("file", 1);
	autoinode struct inode *later = NULL, *again = NULL;
	struct policy *other = policy_with("dir", ACCESS_NONE);
	struct touched_list list;

	plan(other, "dir");
	cr_expect_eq(place_access(file->place), ACCESS_RW);
	cr_assert_eq(places_list_touched(&table, &list), 0);
	cr_expect_eq(list.n, 2);
	touched_release(&list);
	move(other);
	cr_expect_eq(place_access(table.root->place), ACCESS_RW);
	cr_expect_eq(place_access(dir->place), ACCESS_NONE);
	cr_expect_eq(place_access(file->place), ACCESS_NONE);
	cr_expect_eq(place_access(beside->place), ACCESS_RW);
	again = look_up(dir, "file", "dir/file", 0);
	cr_expect_eq(again, file);
	later = look_up_in_root("file", 0);
	cr_expect_eq(later, beside);
	inode_forget(&table, file->nodeid, 1);
	inode_forget(&table, dir->nodeid, 1);
}

/* A change that is given up has changed nothing. */
Test(inode, a_plan_is_no_move)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *again = NULL;
	struct policy *other = policy_with("dir", ACCESS_RO);

	plan(other, "dir");
	policy_free(other);
	other = policy_with("dir", ACCESS_NONE);
	plan(other, "dir");
	policy_free(other);
	cr_expect_eq(place_access(dir->place), ACCESS_RW);
	again = look_up_in_root("dir", 0);
	cr_expect_eq(again, dir);
}

/* Two inodes of one file come together, and are two as long as they live. */
Test(inode, places_merge)
{
	autoinode struct inode *ro = look_up_in_root("ro", 1);
	autoinode struct inode *a = look_up_in_root("file", 1);
	autoinode struct inode *b = look_up(ro, "file", "ro/file", 1);
	autoinode struct inode *one = NULL;
	struct policy *other;
	struct rules none = {0};
	uint64_t id = b->nodeid;

	cr_expect_neq(a, b);
	cr_assert_eq(policy_new(base, &none, &other, NULL), 0);
	plan(other, "");
	move(other);
	cr_expect(place_equal(a->place, b->place));
	one = look_up_in_root("file", 0);
	cr_expect(one == a || one == b);
	cr_expect_eq(known(), 3);
	inode_forget(&table, id, 1);
	inode_unref(b);
	b = NULL;
	inode_unref(one);
	one = look_up_in_root("file", 0);
	cr_expect_not_null(one);
}

/* What two names led to stays one name's; the other gets an inode anew. */
Test(inode, places_split)
{
	autoinode struct inode *dir = NULL, *a = NULL, *b = NULL, *c = NULL;
	struct policy *other = policy_with("dir", ACCESS_RO);

	sh("ln file dir/second");
	dir = look_up_in_root("dir", 1);
	a = look_up(dir, "second", "dir/second", 1);
	b = look_up_in_root("file", 1);
	cr_expect_eq(a, b);
	plan(other, "dir");
	move(other);
	cr_expect_eq(place_access(a->place), ACCESS_RW);
	c = look_up(dir, "second", "dir/second", 1);
	cr_expect_neq(c, a);
	cr_expect_eq(place_access(c->place), ACCESS_RO);
}

/* An open file is held to where it really is, be its name another's by now. */
Test(inode, places_of_open_files)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *a = NULL, *b = NULL;
	struct policy *other = policy_with("dir", ACCESS_RO);
	struct file *file;

	sh("ln file dir/second");
	a = look_up(dir, "second", "dir/second", 1);
	file = open_as(a, "dir/second", O_RDWR);
	b = look_up_in_root("file", 1);
	cr_expect_eq(a, b);
	plan(other, "dir");
	move(other);
	cr_expect_eq(place_access(a->place), ACCESS_RO);
	inode_unref(b);
	b = look_up_in_root("file", 0);
	cr_expect_neq(a, b);
	cr_expect_eq(place_access(b->place), ACCESS_RW);
	file_close(file);
	/* The next change knows it by its name alone. */
	other = policy_with("dir", ACCESS_NONE);
	plan(other, "dir");
	move(other);
	cr_expect_eq(place_access(a->place), ACCESS_RW);
}

Test(inode, obstacles)
{
	autoinode struct inode *dir = look_up_in_root("dir", 1);
	autoinode struct inode *a = look_up(dir, "file", "dir/file", 1);
	struct policy *ro = policy_with("dir", ACCESS_RO);
	struct policy *none = policy_with("dir", ACCESS_NONE);
	struct file *file = open_as(a, "dir/file", O_RDONLY);
	enum obstacle_kind kind;

	file->passed_through = true;
	plan(ro, "dir");
	cr_expect_eq(n_obstacles(&kind), 0);
	plan(none, "dir");
	cr_expect_eq(n_obstacles(&kind), 1);
	cr_expect_eq(kind, OBSTACLE_PASSTHROUGH);
	file_close(file);
	cr_expect_eq(n_obstacles(&kind), 0);

	file = open_as(a, "dir/file", O_RDWR);
	plan(ro, "dir");
	cr_expect_eq(n_obstacles(&kind), 0);
	file->mapped = true;
	cr_expect_eq(n_obstacles(&kind), 1);
	cr_expect_eq(kind, OBSTACLE_MAPPING);
	/* What keeps its access isn't concerned. */
	plan(policy, "dir");
	cr_expect_eq(n_obstacles(&kind), 0);
	file_close(file);
	policy_free(ro);
	policy_free(none);
}

/* Of a tree as deep as paths go each inode is planned once. */
Test(inode, places_deep_down)
{
	struct inode *chain[200];
	struct policy *other = policy_with("deep", ACCESS_RO);
	autofree char *path = strdup("deep");

	sh("mkdir -p $(printf 'deep%%0199d' 0 | sed 's,0,/0,g')");
	chain[0] = look_up_in_root("deep", 1);
	for (size_t i = 1; i < ARRAY_SIZE(chain); i++) {
		char *longer = NULL;

		cr_assert_gt(asprintf(&longer, "%s/0", path), 0);
		free(path);
		path = longer;
		chain[i] = look_up(chain[i - 1], "0", path, 1);
	}
	plan(other, "deep");
	move(other);
	for (size_t i = 0; i < ARRAY_SIZE(chain); i++) {
		cr_expect_eq(place_access(chain[i]->place), ACCESS_RO);
		inode_unref(chain[i]);
	}
}

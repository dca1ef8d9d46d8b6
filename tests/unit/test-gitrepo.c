/*
 * Git discovery on real repositories, which git itself makes in a directory
 * of each test's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitrepo.h"
#include "fs/lib/path.h"

#define autostrings __attribute__((cleanup(strings_release)))

/* The test's directory, real; everything below names paths from here. */
static char *base;

/* Runs a command of the shell in the test's directory. */
__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
	autofree char *command = NULL;
	autofree char *whole = NULL;
	va_list args;

	va_start(args, format);
	cr_assert_gt(vasprintf(&command, format, args), 0);
	va_end(args);
	cr_assert_gt(asprintf(&whole,
			      "set -e; cd '%s'; exec >>'%s/log' 2>&1; %s", base,
			      base, command),
		     0);
	cr_assert_eq(system(whole), 0, "%s", command);
}

static void set_up(void)
{
	char template[] = "/tmp/test-gitrepo-XXXXXX";
	static const char *const unwanted[] = {
		"GIT_DIR",	    "GIT_WORK_TREE",	 "GIT_INDEX_FILE",
		"GIT_COMMON_DIR",   "GIT_CONFIG",	 "GIT_CONFIG_GLOBAL",
		"GIT_CONFIG_COUNT", "GIT_CONFIG_SYSTEM", "GIT_PREFIX",
		"SUDO_UID",	    "XDG_CONFIG_HOME",	 "GIT_OBJECT_DIRECTORY",
	};
	autofree char *home = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		unsetenv(unwanted[i]);
	cr_assert_not_null(mkdtemp(template));
	base = realpath(template, NULL);
	home = path_join(base, "home");
	cr_assert_eq(setenv("HOME", home, 1), 0);
	sh("mkdir home; git config --global user.name T;"
	   "git config --global user.email t@example.org;"
	   "git config --global init.defaultBranch main;"
	   "git config --global protocol.file.allow always;"
	   "git config --global advice.detachedHead false");
}

static void tear_down(void)
{
	sh("rm -rf '%s'", base);
	free(base);
}

/* Criterion doesn't tear down after a test that is skipped. */
static void skip(const char *why)
{
	tear_down();
	cr_skip_test("%s", why);
}

TestSuite(gitrepo, .init = set_up, .fini = tear_down, .timeout = 120);

/* A path of the test's, allocated. */
static char *at(const char *relative)
{
	return path_join(base, relative);
}

/* Writes a file of the test's with exactly this content. */
static void put(const char *relative, const char *content)
{
	autofree char *path = at(relative);
	autofd int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(write_all(fd, content, strlen(content)), 0);
}

/* The same, with the test's directory between two pieces of text. */
static void put_path(const char *relative, const char *before, const char *path,
		     const char *after)
{
	autofree char *content = NULL;

	cr_assert_gt(asprintf(&content, "%s%s/%s%s", before, base, path, after),
		     0);
	put(relative, content);
}

static void make_repository(const char *where)
{
	sh("git init '%s'; cd '%s'; mkdir sub; echo 1 >sub/f; git add .;"
	   "git commit -m first",
	   where, where);
}

/* What git says in a directory, without its line's end; NULL if it fails. */
static char *ask_git(const char *dir, const char *what)
{
	autofree char *command = NULL;
	autofree char *out = NULL;
	size_t size = 0;
	FILE *pipe;
	int r;

	cr_assert_gt(asprintf(&command,
			      "cd \"$DIR\" && env -u GIT_DIR -u GIT_WORK_TREE "
			      "-u GIT_INDEX_FILE -u GIT_COMMON_DIR git "
			      "rev-parse --path-format=absolute %s 2>/dev/null",
			      what),
		     0);
	setenv("DIR", dir, 1);
	pipe = popen(command, "re");
	cr_assert_not_null(pipe);
	r = read_fd(fileno(pipe), 1 << 20, &out, &size);
	cr_assert_eq(r, 0);
	if (pclose(pipe) != 0 || !size)
		return NULL;
	out[size - 1] = '\0';
	return steal_pointer(&out);
}

/* Discovery from a directory must find what git finds there. */
static void discover(const char *relative, struct gitrepo *ret_repo,
		     ssize_t *ret_index)
{
	autofree char *dir = at(relative);
	autofree char *top = ask_git(dir, "--show-toplevel");
	autofree char *common = ask_git(dir, "--git-common-dir");
	autofree char *message = NULL;
	autofree char *real = NULL;
	int r = gitrepo_discover(dir, ret_repo, ret_index, &message);

	cr_assert_eq(r, 0, "%s: %s", dir, message);
	cr_expect_null(message);
	cr_assert_not_null(common);
	cr_assert_eq(dir_real_path(common, &real), 0);
	cr_expect_str_eq(ret_repo->git_dir, real);
	if (*ret_index >= 0)
		cr_expect_str_eq(top, ret_repo->worktrees[*ret_index].path);
	else if (top)
		cr_expect_str_eq(top, ret_repo->main);
}

/* What discovery must find; main and worktree NULL where there is none. */
static void expect_found(const char *relative, const char *main,
			 const char *git_dir, const char *worktree)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *want_main = main ? at(main) : NULL;
	autofree char *want_git_dir = at(git_dir);
	autofree char *want_worktree = worktree ? at(worktree) : NULL;
	ssize_t index = -77;

	discover(relative, &repo, &index);
	cr_expect_str_eq(repo.git_dir, want_git_dir);
	if (main)
		cr_expect_str_eq(repo.main, want_main);
	else
		cr_expect_null(repo.main);
	cr_assert_eq(index >= 0, worktree != NULL, "index %zd", index);
	if (worktree) {
		cr_expect_str_eq(repo.worktrees[index].path, want_worktree);
		cr_expect(repo.worktrees[index].exists);
	}
	cr_expect_str_eq(repo.ref_format, "files");
	cr_expect_str_eq(repo.object_format, "sha1");
}

/* Discovery must fail, with a message that names a file of the test's. */
static void expect_refused(const char *relative, int error, const char *named)
{
	struct gitrepo repo = {.n_worktrees = 77};
	autofree char *dir = at(relative);
	autofree char *name = at(named);
	autofree char *message = NULL;
	ssize_t index = -77;
	int r = gitrepo_discover(dir, &repo, &index, &message);

	cr_assert_eq(r, error, "%s: %d", dir, r);
	cr_assert_not_null(message);
	cr_expect_not_null(strstr(message, name), "'%s' names no %s", message,
			   name);
	cr_expect_null(strchr(message, '\n'), "%s", message);
	cr_expect_eq(repo.n_worktrees, 77);
	cr_expect_null(repo.main);
	cr_expect_eq(index, -77);
	cr_expect_eq(gitrepo_discover(dir, &repo, &index, NULL), error);
}

static const struct worktree *by_id(const struct gitrepo *repo, const char *id)
{
	for (size_t i = 0; i < repo->n_worktrees; i++) {
		if (!strcmp(repo->worktrees[i].id, id))
			return &repo->worktrees[i];
	}
	cr_assert(false, "no worktree %s", id);
	return NULL;
}

/* ---- where things are ------------------------------------------------- */

Test(gitrepo, main_checkout)
{
	make_repository("m");
	sh("mkdir -p m/a/b");
	expect_found("m", "m", "m/.git", NULL);
	expect_found("m/sub", "m", "m/.git", NULL);
	expect_found("m/a/b", "m", "m/.git", NULL);
	expect_found("m/.git", "m", "m/.git", NULL);
	expect_found("m/.git/refs/heads", "m", "m/.git", NULL);
}

Test(gitrepo, main_checkout_without_a_commit)
{
	sh("git init m");
	expect_found("m", "m", "m/.git", NULL);
}

Test(gitrepo, nested_worktrees)
{
	make_repository("m");
	sh("cd m; git worktree add wt; git worktree add .claude/worktrees/x");
	expect_found("m/wt", "m", "m/.git", "m/wt");
	expect_found("m/wt/sub", "m", "m/.git", "m/wt");
	expect_found("m/.claude/worktrees/x", "m", "m/.git",
		     "m/.claude/worktrees/x");
	expect_found("m/.claude/worktrees/x/sub", "m", "m/.git",
		     "m/.claude/worktrees/x");
	expect_found("m/.claude/worktrees", "m", "m/.git", NULL);
}

Test(gitrepo, sibling_worktree)
{
	make_repository("m");
	sh("cd m; git worktree add ../w");
	expect_found("w", "m", "m/.git", "w");
	expect_found("w/sub", "m", "m/.git", "w");
	/* Its admin directory is part of G, not of the worktree. */
	expect_found("m/.git/worktrees/w", "m", "m/.git", NULL);
	expect_found("m/.git/worktrees/w/logs", "m", "m/.git", NULL);
}

Test(gitrepo, separate_git_dir)
{
	sh("git init --separate-git-dir=g m; cd m; mkdir sub; touch sub/f;"
	   "git add .; git commit -m first; git worktree add ../w");
	expect_found("m", "m", "g", NULL);
	expect_found("m/sub", "m", "g", NULL);
	/* Nothing in G leads to M. */
	expect_refused("w", -EINVAL, "g");
	expect_refused("g", -EINVAL, "g");
	/* With the mend that the message names: */
	sh("git config --file g/config core.worktree \"$PWD/m\"");
	expect_found("w/sub", "m", "g", "w");
	expect_found("g", "m", "g", NULL);
	expect_found("m", "m", "g", NULL);
	/* That core.bare isn't set doesn't make it bare. */
	sh("git config --file g/config --unset core.worktree;"
	   "git config --file g/config --unset core.bare");
	expect_found("m", "m", "g", NULL);
	expect_refused("w", -EINVAL, "g");
}

Test(gitrepo, separate_git_dir_with_main_given)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *w = NULL;
	ssize_t index;

	sh("git init --separate-git-dir=g m; cd m;"
	   "git commit --allow-empty -m first; git worktree add ../w");
	discover("m", &repo, &index);
	w = at("w");
	cr_assert_eq(gitrepo_find_worktree(&repo, w, &index, NULL), 0);
	cr_expect_eq(index, 0);
}

Test(gitrepo, submodule)
{
	make_repository("origin");
	make_repository("m");
	sh("cd m; git submodule add ../origin mod; git commit -m mod;"
	   "cd mod; git worktree add ../../w");
	expect_found("m", "m", "m/.git", NULL);
	expect_found("m/mod", "m/mod", "m/.git/modules/mod", NULL);
	expect_found("m/mod/sub", "m/mod", "m/.git/modules/mod", NULL);
	expect_found("w", "m/mod", "m/.git/modules/mod", "w");
	expect_found("w/sub", "m/mod", "m/.git/modules/mod", "w");
	expect_found("m/.git/modules/mod", "m/mod", "m/.git/modules/mod", NULL);
}

Test(gitrepo, submodule_in_a_worktree)
{
	make_repository("origin");
	make_repository("m");
	sh("cd m; git submodule add ../origin mod; git commit -m mod;"
	   "git worktree add ../w; cd ../w; git submodule update --init");
	expect_found("w", "m", "m/.git", "w");
	expect_found("w/mod", "w/mod", "m/.git/worktrees/w/modules/mod", NULL);
}

Test(gitrepo, repository_inside_another)
{
	make_repository("m");
	sh("cd m; git worktree add wt");
	make_repository("m/wt/inner");
	expect_found("m/wt/inner/sub", "m/wt/inner", "m/wt/inner/.git", NULL);
	expect_found("m/wt", "m", "m/.git", "m/wt");
}

Test(gitrepo, relative_pointers)
{
	make_repository("m");
	sh("cd m; git worktree add wt; git worktree add ../w");
	put("m/wt/.git", "gitdir: ../.git/worktrees/wt\n");
	put("m/.git/worktrees/wt/gitdir", "../../../wt/.git\n");
	put("w/.git", "gitdir: ../m/.git/worktrees/w\n");
	put("m/.git/worktrees/w/gitdir", "../../../../w/.git\n");
	expect_found("m/wt/sub", "m", "m/.git", "m/wt");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, relative_pointers_of_gits_own)
{
	make_repository("m");
	/* git before 2.48 makes absolute ones all the same. */
	sh("cd m; git config worktree.useRelativePaths true;"
	   "git worktree add wt; git worktree add ../w");
	expect_found("m/wt/sub", "m", "m/.git", "m/wt");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, bare_repository)
{
	make_repository("origin");
	sh("git clone --bare origin b.git; cd b.git; git worktree add ../w");
	expect_found("b.git", NULL, "b.git", NULL);
	expect_found("b.git/refs", NULL, "b.git", NULL);
	expect_found("w/sub", NULL, "b.git", "w");
}

Test(gitrepo, bare_repository_behind_a_gitfile)
{
	make_repository("origin");
	sh("mkdir p; git clone --bare origin p/.bare; cd p;"
	   "echo 'gitdir: ./.bare' >.git; git worktree add w");
	expect_found("p", NULL, "p/.bare", NULL);
	expect_found("p/w", NULL, "p/.bare", "p/w");
	/* And where its own name is .git. */
	sh("mkdir q; git clone --bare origin q/.git; cd q; git worktree add w");
	expect_found("q", NULL, "q/.git", NULL);
	expect_found("q/w", NULL, "q/.git", "q/w");
}

Test(gitrepo, core_bare_in_its_spellings)
{
	make_repository("m");
	sh("cd m; git worktree add ../w");
	sh("cd m/.git; git config --file config core.bare No");
	expect_found("w", "m", "m/.git", "w");
	sh("cd m/.git; git config --file config --unset core.bare");
	expect_found("w", "m", "m/.git", "w");
	expect_found("m", "m", "m/.git", NULL);
	sh("cd m/.git; printf '[core]\\n\\tbare\\n' >>config");
	expect_found("w", NULL, "m/.git", "w");
	sh("cd m/.git; git config --file config core.bare 0");
	expect_found("w", "m", "m/.git", "w");
	sh("cd m/.git; git config --file config core.bare maybe");
	expect_refused("m", -EINVAL, "m/.git/config");
}

Test(gitrepo, config_of_the_main_worktree)
{
	make_repository("m");
	sh("cd m; git worktree add ../w; echo '[core] bare = true'"
	   " >.git/config.worktree");
	/* It doesn't count before the extension says so. */
	expect_found("w", "m", "m/.git", "w");
	sh("cd m; git config extensions.worktreeConfig true;"
	   "git config --unset core.bare");
	expect_found("w", NULL, "m/.git", "w");
	sh("echo '[core] bare = false' >m/.git/config.worktree");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, git_annex_symlinks)
{
	make_repository("m");
	sh("cd m; git worktree add ../w; cd ../w; rm .git;"
	   "ln -s ../m/.git/worktrees/w .git");
	expect_found("w", "m", "m/.git", "w");
	expect_found("w/sub", "m", "m/.git", "w");
}

Test(gitrepo, main_git_dir_behind_a_symlink)
{
	make_repository("m");
	sh("mv m/.git g; ln -s ../g m/.git");
	expect_found("m/sub", "m", "g", NULL);
}

Test(gitrepo, results_are_real_paths)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *m = at("real/m");
	autofree char *w = at("real/w");
	autofree char *link = at("link");
	ssize_t index;

	sh("mkdir real; ln -s real link");
	make_repository("link/m");
	sh("cd link/m; git worktree add \"$PWD/../w\"");
	expect_found("link/m/sub", "real/m", "real/m/.git", NULL);
	expect_found("link/w", "real/m", "real/m/.git", "real/w");
	/* The same where the pointers are spelled through the symlink. */
	put_path("real/w/.git", "gitdir: ", "link/m/.git/worktrees/w", "\n");
	put_path("real/m/.git/worktrees/w/gitdir", "", "link/w/.git", "\n");
	expect_found("real/w", "real/m", "real/m/.git", "real/w");
	/* A relative path, from a working directory that is one. */
	cr_assert_eq(chdir(link), 0);
	cr_assert_eq(chdir("w"), 0);
	cr_assert_eq(gitrepo_discover("sub", &repo, &index, NULL), 0);
	cr_expect_str_eq(repo.main, m);
	cr_expect_str_eq(repo.worktrees[index].path, w);
	cr_assert_eq(chdir("/"), 0);
}

Test(gitrepo, paths_of_any_bytes)
{
	static const char *const names[] = {
		"with space", "new\nline",  "not-utf8-\xff\xfe",
		"'quote\"",   " trailing ", "a\\b$c",
		"tab\t",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autofree char *m = path_join(names[i], "m");
		autofree char *git_dir = path_join(m, ".git");
		autofree char *w = path_join(names[i], "w \xfe");
		autofree char *sub = path_join(w, "sub");

		setenv("NAME", names[i], 1);
		sh("mkdir \"$NAME\"; cd \"$NAME\"; git init m; cd m;"
		   "mkdir sub; touch sub/f; git add .; git commit -m first;"
		   "git worktree add -b b '../w \xfe'");
		expect_found(m, m, git_dir, NULL);
		expect_found(sub, m, git_dir, w);
	}
}

Test(gitrepo, no_repository)
{
	autofree char *message = NULL;
	autofree char *path = at("no");
	struct gitrepo repo;
	ssize_t index;

	sh("mkdir -p empty fake/.git/objects fifo; touch file; mkfifo fifo/.git");
	expect_refused("empty", -ENOENT, "empty");
	expect_refused("fake", -ENOENT, "fake");
	expect_refused("fifo", -ENOENT, "fifo");
	expect_refused("file", -ENOTDIR, "file");
	cr_expect_eq(gitrepo_discover(path, &repo, &index, &message), -ENOENT);
	cr_expect_not_null(strstr(message, path));
}

Test(gitrepo, passes_over_a_git_directory_that_is_none)
{
	make_repository("m");
	sh("mkdir m/sub/.git");
	expect_found("m/sub", "m", "m/.git", NULL);
}

/* ---- the environment -------------------------------------------------- */

Test(gitrepo, ignores_the_environment)
{
	static const struct {
		const char *name, *value;
	} variables[] = {
		{"GIT_DIR", "other/.git"},
		{"GIT_WORK_TREE", "other"},
		{"GIT_INDEX_FILE", "other/.git/index"},
		{"GIT_COMMON_DIR", "other/.git"},
		{"GIT_OBJECT_DIRECTORY", "other/.git/objects"},
		{"GIT_CONFIG", "other/.git/config"},
		{"GIT_CEILING_DIRECTORIES", "m"},
	};
	autogitrepo struct gitrepo repo = {0};
	autostrings struct strings values = {0};
	autofree char *w = at("w/sub");
	autofree char *m = at("m");
	ssize_t index;

	make_repository("m");
	make_repository("other");
	sh("cd m; git worktree add ../w; git config worktreefs.shared here;"
	   "cd ../other; git config worktreefs.shared there");
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		autofree char *value = at(variables[i].value);

		setenv(variables[i].name, value, 1);
	}
	setenv("GIT_CONFIG_COUNT", "2", 1);
	setenv("GIT_CONFIG_KEY_0", "core.bare", 1);
	setenv("GIT_CONFIG_VALUE_0", "true", 1);
	setenv("GIT_CONFIG_KEY_1", "worktreefs.shared", 1);
	setenv("GIT_CONFIG_VALUE_1", "elsewhere", 1);
	setenv("GIT_CONFIG_PARAMETERS", "'worktreefs.shared'='elsewhere'", 1);
	setenv("GIT_CONFIG_GLOBAL", "/dev/full", 1);

	cr_assert_eq(gitrepo_discover(w, &repo, &index, NULL), 0);
	cr_expect_str_eq(repo.main, m);
	cr_assert_eq(index, 0);
	cr_assert_eq(gitrepo_config(&repo, "worktreefs.shared", &values, NULL),
		     0);
	cr_assert_eq(values.n, 1);
	cr_expect_str_eq(values.s[0], "here");
	/* tear_down() runs no git, but set_up()'s shell does. */
}

/* ---- pointers that lie ------------------------------------------------ */

/* Two repositories with a worktree each. */
static void make_two(void)
{
	make_repository("m");
	make_repository("n");
	sh("cd m; git worktree add ../w; cd ../n; git worktree add ../v");
}

Test(gitrepo, forged_gitfile_to_anothers_admin_directory)
{
	make_two();
	put_path("w/.git", "gitdir: ", "n/.git/worktrees/v", "\n");
	expect_refused("w", -EINVAL, "w/.git");
	expect_refused("w/sub", -EINVAL, "w/.git");
	sh("rm w/.git; ln -s ../n/.git/worktrees/v w/.git");
	expect_refused("w", -EINVAL, "w/.git");
}

Test(gitrepo, forged_gitfile_to_anothers_git_directory)
{
	make_two();
	put_path("w/.git", "gitdir: ", "m/.git", "\n");
	expect_refused("w", -EINVAL, "w/.git");
	sh("rm w/.git; ln -s ../m/.git w/.git");
	expect_refused("w", -EINVAL, "w/.git");
}

Test(gitrepo, forged_back_pointer)
{
	make_two();
	put_path("m/.git/worktrees/w/gitdir", "", "v/.git", "\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/gitdir");
	put_path("m/.git/worktrees/w/gitdir", "", "w/sub", "\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/gitdir");
	put("m/.git/worktrees/w/gitdir", "");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/gitdir");
	sh("rm m/.git/worktrees/w/gitdir");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/gitdir");
	sh("mkfifo m/.git/worktrees/w/gitdir");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/gitdir");
	/* The other repository and M itself are as good as before. */
	expect_found("v", "n", "n/.git", "v");
	expect_found("m", "m", "m/.git", NULL);
}

Test(gitrepo, copied_worktree)
{
	make_two();
	sh("cp -r w copy");
	expect_refused("copy", -EINVAL, "copy/.git");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, changed_commondir)
{
	make_two();
	put_path("m/.git/worktrees/w/commondir", "", "n/.git", "\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
	put("m/.git/worktrees/w/commondir", "../../..\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
	put("m/.git/worktrees/w/commondir", "../../no\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
	put("m/.git/worktrees/w/commondir", "\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
	sh("cd m/.git/worktrees/w; rm commondir; ln -s ../../HEAD commondir");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
	/* Without one it is no admin directory, nor a git directory. */
	sh("cd m/.git/worktrees/w; rm commondir");
	expect_refused("w", -EINVAL, "w/.git");
}

Test(gitrepo, absolute_commondir)
{
	make_two();
	put_path("m/.git/worktrees/w/commondir", "", "m/.git", "");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, admin_directory_outside)
{
	make_two();
	sh("cp -r m/.git/worktrees/w admin");
	put_path("admin/commondir", "", "m/.git", "\n");
	put_path("w/.git", "gitdir: ", "admin", "\n");
	expect_refused("w", -EINVAL, "admin");
	/* Nor does a symlink in G/worktrees make it one. */
	sh("cd m/.git/worktrees; rm -r w; ln -s ../../../admin w");
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/w", "\n");
	expect_refused("w", -EINVAL, "admin");
	/* A directory deeper down isn't one either. */
	sh("cd m/.git/worktrees; rm w; mkdir deep; cp -r ../../../admin deep/w");
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/deep/w", "\n");
	expect_refused("w", -EINVAL, "m/.git/worktrees/deep/w");
}

Test(gitrepo, planted_commondir_in_the_git_directory)
{
	make_two();
	put_path("m/.git/commondir", "", "n/.git", "\n");
	expect_refused("m", -EINVAL, "m/.git/commondir");
	expect_refused("w", -EINVAL, "m/.git/worktrees/w/commondir");
}

Test(gitrepo, borrowed_git_directory)
{
	make_two();
	sh("mkdir m/sub/x");
	put_path("m/sub/x/.git", "gitdir: ", "n/.git", "\n");
	expect_refused("m/sub/x", -EINVAL, "m/sub/x/.git");
}

Test(gitrepo, core_worktree_that_lies)
{
	make_two();
	sh("git config --file m/.git/config core.worktree \"$PWD/n\"");
	expect_refused("m", -EINVAL, "m/.git/config");
	expect_refused("w", -EINVAL, "m/.git/config");
	sh("git config --file m/.git/config core.worktree \"$PWD/no\"");
	expect_refused("w", -EINVAL, "m/.git/config");
	sh("mkdir x; git config --file m/.git/config core.worktree ../../x");
	expect_refused("w", -EINVAL, "m/.git/config");
	sh("git config --file m/.git/config core.worktree ..");
	expect_found("w", "m", "m/.git", "w");
	expect_found("m/sub", "m", "m/.git", NULL);
}

Test(gitrepo, dangling_pointers)
{
	make_two();
	sh("mv m/.git/worktrees/w gone");
	expect_refused("w", -EINVAL, "w/.git");
	sh("rm w/.git; ln -s ../m/.git/worktrees/w w/.git");
	expect_refused("w", -EINVAL, "w/.git");
	/* Nested, it isn't taken for a directory of M. */
	sh("cd m; git worktree add wt; cd wt; rm .git; ln -s no .git");
	expect_refused("m/wt", -EINVAL, "m/wt/.git");
	sh("ln -sfn loop m/wt/loop; rm m/wt/.git; ln -s loop m/wt/.git");
	expect_refused("m/wt", -EINVAL, "m/wt/.git");
}

Test(gitrepo, moved_worktree)
{
	make_two();
	sh("mv w moved");
	expect_refused("moved", -EINVAL, "moved/.git");
	sh("cd moved; git worktree repair");
	expect_found("moved", "m", "m/.git", "moved");
}

Test(gitrepo, moved_main_checkout)
{
	make_two();
	sh("mv m moved");
	expect_refused("w", -EINVAL, "w/.git");
	expect_found("moved", "moved", "moved/.git", NULL);
}

Test(gitrepo, line_ends_of_gitfiles)
{
	make_two();
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/w", "\r\n");
	expect_found("w", "m", "m/.git", "w");
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/w", "");
	expect_found("w", "m", "m/.git", "w");
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/w", "\n\n\r\n");
	expect_found("w", "m", "m/.git", "w");
	put_path("m/.git/worktrees/w/gitdir", "", "w/.git", "");
	expect_found("w", "m", "m/.git", "w");
	put_path("m/.git/worktrees/w/gitdir", "", "w/.git", " \r\n");
	expect_found("w", "m", "m/.git", "w");
	put("m/.git/worktrees/w/commondir", "../..");
	expect_found("w", "m", "m/.git", "w");
	put("m/.git/worktrees/w/commondir", "../..\r\n");
	expect_found("w", "m", "m/.git", "w");
}

Test(gitrepo, garbage_in_gitfiles)
{
	static const char *const texts[] = {
		"",
		"\n",
		"gitdir:",
		"gitdir: ",
		"gitdir: \n",
		"gitdir:\t/x\n",
		"GITDIR: /x\n",
		"garbage",
		"ref: refs/heads/main\n",
	};

	make_two();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		put("w/.git", texts[i]);
		expect_refused("w", -EINVAL, "w/.git");
	}
	/* A NUL hides what stands behind it. */
	sh("printf 'gitdir: %%s/m/.git/worktrees/w\\0/x\\n' \"$PWD\" >w/.git");
	expect_refused("w", -EINVAL, "w/.git");
	/* A path of 5,000 bytes, and a file of more than any path. */
	sh("{ printf 'gitdir: /'; head -c 5000 /dev/zero | tr '\\0' a; } >w/.git");
	expect_refused("w", -EINVAL, "w/.git");
	sh("{ printf 'gitdir: /'; head -c 2000000 /dev/zero | tr '\\0' a; }"
	   " >w/.git");
	expect_refused("w", -EINVAL, "w/.git");
}

/* ---- formats ---------------------------------------------------------- */

Test(gitrepo, object_formats)
{
	autogitrepo struct gitrepo repo = {0};
	ssize_t index;

	sh("git init --object-format=sha256 m");
	discover("m", &repo, &index);
	cr_expect_str_eq(repo.object_format, "sha256");
	cr_expect_str_eq(repo.ref_format, "files");
}

Test(gitrepo, unknown_formats)
{
	make_repository("m");
	sh("cp m/.git/config saved;"
	   "git config --file m/.git/config core.repositoryFormatVersion 2");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("cp saved m/.git/config;"
	   "git config --file m/.git/config extensions.refStorage csv");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("cp saved m/.git/config;"
	   "git config --file m/.git/config extensions.objectFormat md5");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("cp saved m/.git/config;"
	   "git config --file m/.git/config extensions.elsewhere true");
	expect_found("m", "m", "m/.git", NULL);
	sh("git config --file m/.git/config extensions.noop true;"
	   "git config --file m/.git/config extensions.partialClone origin;"
	   "git config --file m/.git/config core.repositoryFormatVersion 1");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("git config --file m/.git/config --unset extensions.elsewhere");
	expect_found("m", "m", "m/.git", NULL);
	put("m/.git/config", "[core\n");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("rm m/.git/config; mkfifo m/.git/config");
	expect_refused("m", -EINVAL, "m/.git/config");
	sh("rm m/.git/config");
	expect_found("m", "m", "m/.git", NULL);
}

/* git 2.45 and later can make one, earlier ones can't even read it. */
static bool git_knows_reftable(void)
{
	return system("git init --ref-format=reftable \"$HOME/probe\" "
		      ">/dev/null 2>&1") == 0;
}

Test(gitrepo, reftable_without_a_git_that_knows_it)
{
	if (git_knows_reftable())
		skip("this git knows reftable");
	make_repository("m");
	sh("cd m; git worktree add ../w");
	sh("cd m/.git; git config --file config core.repositoryFormatVersion 1;"
	   "git config --file config extensions.refStorage reftable");
	expect_refused("m", -EIO, "m/.git/worktrees/w");
}

Test(gitrepo, reftable)
{
	static const char *const names[] = {
		"refs/heads/main", "refs/heads/topic", "refs/heads/bisected"};
	autogitrepo struct gitrepo repo = {0};
	autostrings struct strings got = {0};
	ssize_t index;

	if (!git_knows_reftable())
		skip("this git doesn't know reftable");
	sh("git init --ref-format=reftable m; cd m;"
	   "git commit --allow-empty -m first; git worktree add ../w;"
	   "git worktree add --detach ../d; git branch topic;"
	   "git symbolic-ref refs/heads/alias refs/heads/topic;"
	   "git worktree add ../v; git -C ../v symbolic-ref HEAD "
	   "refs/heads/alias; echo bisected >.git/BISECT_START");
	discover("w", &repo, &index);
	cr_expect_str_eq(repo.ref_format, "reftable");
	cr_expect_str_eq(repo.worktrees[index].branch, "refs/heads/w");
	cr_expect_str_eq(by_id(&repo, "v")->branch, "refs/heads/topic");
	cr_expect_null(by_id(&repo, "d")->branch);
	cr_assert_eq(gitrepo_protected_branches(&repo, index, &got), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cr_expect(strings_contain(&got, names[i]), "no %s", names[i]);
	cr_expect(strings_contain(&got, "refs/heads/alias"));
	cr_expect_eq(got.n, 4);
}

Test(gitrepo, no_git_to_ask)
{
	autofree char *empty = at("home");
	autofree char *path = strdup(getenv("PATH"));
	autofree char *m = at("m");
	autofree char *message = NULL;
	struct gitrepo repo;
	ssize_t index;

	make_repository("m");
	setenv("PATH", empty, 1);
	cr_expect_eq(gitrepo_discover(m, &repo, &index, &message), -ENOENT);
	cr_assert_not_null(message);
	cr_expect_not_null(strstr(message, "cannot run git"), "%s", message);
	setenv("PATH", path, 1);
}

/* ---- the list of worktrees -------------------------------------------- */

Test(gitrepo, lists_worktrees)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *gone = at("gone");
	ssize_t index;

	make_repository("m");
	sh("cd m; for w in z a gone; do git worktree add ../$w; done;"
	   "git worktree add --detach ../detached;"
	   "git worktree add -b topic/x nested;"
	   "git worktree lock --reason why ../a; rm -r ../gone;"
	   "git worktree add ../other/a -b a2;"
	   "git worktree add ../stolen; mkdir .git/worktrees/empty;"
	   "touch .git/worktrees/file");
	put_path("stolen/.git", "gitdir: ", "m/.git/worktrees/a", "\n");
	discover("m", &repo, &index);

	cr_assert_eq(repo.n_worktrees, 7);
	for (size_t i = 1; i < repo.n_worktrees; i++)
		cr_expect_lt(strcmp(repo.worktrees[i - 1].path,
				    repo.worktrees[i].path),
			     0);
	cr_expect(by_id(&repo, "a")->exists);
	cr_expect(by_id(&repo, "a")->locked);
	cr_expect_str_eq(by_id(&repo, "a")->branch, "refs/heads/a");
	cr_expect_not(by_id(&repo, "z")->locked);
	cr_expect_not(by_id(&repo, "gone")->exists);
	cr_expect_str_eq(by_id(&repo, "gone")->path, gone);
	cr_expect_str_eq(by_id(&repo, "gone")->branch, "refs/heads/gone");
	cr_expect_null(by_id(&repo, "detached")->branch);
	cr_expect(by_id(&repo, "detached")->exists);
	cr_expect_str_eq(by_id(&repo, "nested")->branch, "refs/heads/topic/x");
	cr_expect_str_eq(by_id(&repo, "a1")->branch, "refs/heads/a2");
	cr_expect_not(by_id(&repo, "stolen")->exists);
}

static void expect_not_a_worktree(const struct gitrepo *repo,
				  const char *relative, int error,
				  const char *why)
{
	autofree char *path = at(relative);
	autofree char *message = NULL;
	ssize_t index = -77;

	cr_expect_eq(gitrepo_find_worktree(repo, path, &index, &message),
		     error);
	cr_assert_not_null(message, "%s", relative);
	cr_expect_not_null(strstr(message, path), "%s", message);
	cr_expect_not_null(strstr(message, why), "%s", message);
	cr_expect_eq(index, -77);
}

Test(gitrepo, finds_a_worktree_by_path)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *w = at("w");
	autofree char *link = at("link");
	ssize_t index;

	make_two();
	sh("ln -s w link; cd m; git worktree add ../w2; mkdir ../plain");
	discover("m", &repo, &index);
	cr_assert_eq(gitrepo_find_worktree(&repo, w, &index, NULL), 0);
	cr_expect_str_eq(repo.worktrees[index].path, w);
	index = -77;
	cr_assert_eq(gitrepo_find_worktree(&repo, link, &index, NULL), 0);
	cr_expect_str_eq(repo.worktrees[index].path, w);

	expect_not_a_worktree(&repo, "m", -EINVAL, "isn't the top");
	expect_not_a_worktree(&repo, "w/sub", -EINVAL, "isn't the top");
	expect_not_a_worktree(&repo, "plain", -EINVAL, "isn't the top");
	expect_not_a_worktree(&repo, "v", -EINVAL, "/n/.git', not of");
	expect_not_a_worktree(&repo, "no", -ENOENT, "No such file");
	expect_not_a_worktree(&repo, "m/.git/worktrees/w", -EINVAL,
			      "isn't the top");
	put_path("w/.git", "gitdir: ", "m/.git/worktrees/w2", "\n");
	expect_not_a_worktree(&repo, "w", -EINVAL, "forged");
	/* One that was made after the repository was read. */
	sh("cd m; git worktree add ../late");
	expect_not_a_worktree(&repo, "late", -EINVAL, "try again");
}

/* ---- configuration ---------------------------------------------------- */

static void expect_values(const struct gitrepo *repo, const char *key,
			  const char *const *values, size_t n)
{
	autostrings struct strings got = {0};

	cr_assert_eq(gitrepo_config(repo, key, &got, NULL), 0);
	cr_assert_eq(got.n, n, "%s: %zu", key, got.n);
	for (size_t i = 0; i < n; i++)
		cr_expect_str_eq(got.s[i], values[i]);
}

Test(gitrepo, reads_its_own_config_file_alone)
{
	static const char *const shared[] = {"a b", "line\nbreak", "", ""};
	autogitrepo struct gitrepo repo = {0};
	autofree char *message = NULL;
	struct strings untouched = {.n = 77};
	ssize_t index;

	make_repository("m");
	sh("git config --global worktreefs.shared global;"
	   "git config --global worktreefs.rw global; cd m;"
	   "git config --add worktreefs.shared 'a b';"
	   "git config --add worktreefs.shared 'line\nbreak';"
	   "git config --add worktreefs.shared '';"
	   "printf '[worktreefs]\\n\\tshared\\n' >>.git/config;"
	   "git config include.path other; printf "
	   "'[worktreefs]\\n\\trw = included\\n' >.git/other;"
	   "git worktree add ../w");
	discover("w", &repo, &index);
	expect_values(&repo, "worktreefs.shared", shared, ARRAY_SIZE(shared));
	expect_values(&repo, "worktreefs.rw", NULL, 0);
	cr_expect_eq(gitrepo_config(&repo, "nosection", &untouched, &message),
		     -EINVAL);
	cr_expect_not_null(message);
	cr_expect_eq(untouched.n, 77);
}

/* ---- protected branches ----------------------------------------------- */

static void expect_branches(const char *from, ssize_t own,
			    const char *const *names, size_t n)
{
	autogitrepo struct gitrepo repo = {0};
	autostrings struct strings got = {0};
	ssize_t index;

	discover(from, &repo, &index);
	cr_assert_eq(gitrepo_protected_branches(&repo, own, &got), 0);
	for (size_t i = 0; i < n; i++)
		cr_expect(strings_contain(&got, names[i]), "no %s", names[i]);
	cr_expect_eq(got.n, n, "%zu", got.n);
}

Test(gitrepo, protects_what_is_checked_out)
{
	static const char *const all[] = {"refs/heads/main", "refs/heads/v",
					  "refs/heads/w"};
	static const char *const but_w[] = {"refs/heads/main", "refs/heads/v"};
	static const char *const but_main[] = {"refs/heads/v", "refs/heads/w"};

	make_repository("m");
	sh("cd m; git branch free; git worktree add ../v;"
	   "git worktree add ../w");
	expect_branches("m", -1, all, 3);
	expect_branches("m", 1, but_w, 2); /* sorted by path: v, w */
	/* A worktree whose directory is gone keeps its branch. */
	sh("rm -r v");
	expect_branches("m", 1, but_w, 2);
	sh("cd m; git checkout --detach");
	expect_branches("m", -1, but_main, 2);
}

Test(gitrepo, protects_at_the_time_of_the_call)
{
	autogitrepo struct gitrepo repo = {0};
	autostrings struct strings got = {0};
	ssize_t index;

	make_repository("m");
	discover("m", &repo, &index);
	sh("cd m; git worktree add ../late; git checkout -b other");
	cr_assert_eq(gitrepo_protected_branches(&repo, -1, &got), 0);
	cr_expect_eq(got.n, 2);
	cr_expect(strings_contain(&got, "refs/heads/late"));
	cr_expect(strings_contain(&got, "refs/heads/other"));
}

Test(gitrepo, protects_no_head_of_a_bare_repository)
{
	static const char *const w[] = {"refs/heads/w"};

	make_repository("origin");
	sh("git clone --bare origin b; cd b; git worktree add ../w");
	expect_branches("b", -1, w, 1);
	expect_branches("b", 0, NULL, 0);
}

/* A branch "topic" that can't be rebased onto main without a conflict. */
static void make_conflict(void)
{
	make_repository("m");
	sh("cd m; git checkout -b topic; echo 2 >sub/f; git commit -am 2;"
	   "git branch middle; echo 3 >sub/f; git commit -am 3;"
	   "git checkout main; echo 4 >sub/f; git commit -am 4");
}

Test(gitrepo, protects_what_is_being_rebased)
{
	static const char *const topic[] = {"refs/heads/topic"};
	static const char *const both[] = {"refs/heads/topic",
					   "refs/heads/middle"};
	static const char *const with_main[] = {"refs/heads/topic",
						"refs/heads/main"};

	make_conflict();
	sh("cd m; git checkout topic; ! git rebase main; test -d "
	   ".git/rebase-merge");
	expect_branches("m", -1, topic, 1);
	sh("cd m; git rebase --abort; ! git rebase --apply main; test -d "
	   ".git/rebase-apply");
	expect_branches("m", -1, topic, 1);
	sh("cd m; git rebase --abort; ! git rebase --update-refs main;"
	   "test -s .git/rebase-merge/update-refs");
	expect_branches("m", -1, both, 2);
	/* In a sibling it is the same. */
	sh("cd m; git rebase --abort; git checkout main;"
	   "git worktree add ../w topic; cd ../w; ! git rebase main");
	expect_branches("m", -1, with_main, 2);
	expect_branches("m", 0, with_main + 1, 1);
}

Test(gitrepo, protects_what_is_being_bisected)
{
	static const char *const topic[] = {"refs/heads/topic"};

	make_conflict();
	sh("cd m; git checkout topic; git bisect start HEAD main;"
	   "git symbolic-ref -q HEAD && exit 1; true");
	expect_branches("m", -1, topic, 1);
	/* Begun on a detached HEAD, it stands on no branch. */
	sh("cd m; git bisect reset; git checkout --detach;"
	   "git bisect start topic main");
	expect_branches("m", -1, NULL, 0);
}

Test(gitrepo, follows_symbolic_refs)
{
	static const char *const both[] = {"refs/heads/alias",
					   "refs/heads/main"};
	static const char *const loop[] = {"refs/heads/x", "refs/heads/y"};
	autogitrepo struct gitrepo repo = {0};
	ssize_t index;

	make_repository("m");
	sh("cd m; git branch free; git worktree add ../w free;"
	   "git symbolic-ref refs/heads/alias refs/heads/main;"
	   "git symbolic-ref HEAD refs/heads/alias;"
	   "git symbolic-ref refs/heads/own refs/heads/main;"
	   "git -C ../w symbolic-ref HEAD refs/heads/own");
	expect_branches("m", 0, both, 2);
	/* The worktree says the branch that it would really move. */
	discover("m", &repo, &index);
	cr_expect_str_eq(by_id(&repo, "w")->branch, "refs/heads/main");
	put("m/.git/refs/heads/x", "ref: refs/heads/y\n");
	put("m/.git/refs/heads/y", "ref: refs/heads/x\n");
	put("m/.git/HEAD", "ref: refs/heads/x\n");
	expect_branches("m", 0, loop, 2);
	/* A HEAD as git wrote it long ago. */
	sh("cd m/.git; rm HEAD; ln -s refs/heads/alias HEAD");
	expect_branches("m", 0, both, 2);
	put("m/.git/refs/heads/x", "ref: refs/../../../x\n");
	sh("cd m/.git; rm HEAD; echo 'ref: refs/heads/x' >HEAD");
	expect_branches("m", 0, loop, 1);
}

/* ---- ownership -------------------------------------------------------- */

static void expect_owner(int expected)
{
	autogitrepo struct gitrepo repo = {0};
	autofree char *m = at("m");
	autofree char *message = NULL;
	ssize_t index;

	cr_assert_eq(gitrepo_discover(m, &repo, &index, NULL), 0);
	cr_expect_eq(gitrepo_check_owner(&repo, &message), expected);
	cr_expect_eq(message != NULL, expected < 0);
	if (message)
		cr_expect_not_null(strstr(message, "safe.directory"), "%s",
				   message);
}

Test(gitrepo, owner_is_the_caller)
{
	make_repository("m");
	expect_owner(0);
}

Test(gitrepo, owner_is_somebody_else)
{
	static const char *const places[] = {"m", "m/.git"};

	if (geteuid() != 0)
		skip("only root can give files away");
	make_repository("m");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		sh("chown 12345 '%s'", places[i]);
		expect_owner(-EPERM);
		setenv("SUDO_UID", "12345", 1);
		expect_owner(0);
		setenv("SUDO_UID", "12346", 1);
		expect_owner(-EPERM);
		setenv("SUDO_UID", "12345x", 1);
		expect_owner(-EPERM);
		unsetenv("SUDO_UID");
		sh("chown 0 '%s'", places[i]);
		expect_owner(0);
	}
}

Test(gitrepo, owner_is_allowed_by_the_user)
{
	static const struct {
		const char *values; /* commands between, "$PWD" the test's */
		int expected;
	} cases[] = {
		{"add '*'", 0},
		{"add \"$PWD/m\"", 0},
		{"add \"$PWD/*\"", 0},
		{"add \"~/../m\"", 0},
		{"add \"$PWD/link\"", 0},
		{"add \"$PWD\"", -EPERM},
		{"add \"$PWD/m/*\"", -EPERM},
		{"add \"$PWD/other\"", -EPERM},
		{"add m", -EPERM},
		{"add '*'; add ''", -EPERM},
		{"add ''; add \"$PWD/m\"", 0},
	};

	if (geteuid() != 0)
		skip("only root can give files away");
	make_repository("m");
	sh("chown 12345 m; ln -s m link");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		sh("git config --global --unset-all safe.directory || true;"
		   "add() { git config --global --add safe.directory \"$1\"; };"
		   "%s",
		   cases[i].values);
		expect_owner(cases[i].expected);
	}
	/* The environment of the moment isn't the user's configuration. */
	sh("git config --global --unset-all safe.directory || true");
	setenv("GIT_CONFIG_COUNT", "1", 1);
	setenv("GIT_CONFIG_KEY_0", "safe.directory", 1);
	setenv("GIT_CONFIG_VALUE_0", "*", 1);
	expect_owner(-EPERM);
	unsetenv("GIT_CONFIG_COUNT");
	/* Nor is the repository's. */
	sh("git config --file m/.git/config safe.directory '*'");
	expect_owner(-EPERM);
}

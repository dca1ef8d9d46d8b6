/*
 * What git itself makes of its files, and what the judges say to that, in
 * repositories in a directory of each test's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitjudge.h"
#include "fs/lib/gitrun.h"
#include "fs/lib/path.h"

static struct strings protected_refs, old_remotes, old_submodules;
static struct config_context context;

static char *base;

/* Runs a command of the shell in the test's directory. */
__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
	autofree char *command = NULL, *whole = NULL;
	va_list args;

	va_start(args, format);
	cr_assert_gt(vasprintf(&command, format, args), 0);
	va_end(args);
	cr_assert_gt(asprintf(&whole, "set -e; cd '%s'; exec >>log 2>&1; %s",
			      base, command),
		     0);
	cr_assert_eq(system(whole), 0, "%s", command);
}

/* A file's text, to be freed; empty where there is none. */
static char *content(const char *relative)
{
	autofree char *path = path_join(base, relative);
	char *data = NULL;
	int r = read_file_at(AT_FDCWD, path, 1 << 24, &data, NULL);

	if (r == -ENOENT)
		return strdup("");
	cr_assert_eq(r, 0, "%s", path);
	return data;
}

static struct text text_of(const char *s)
{
	return (struct text){.data = s, .size = strlen(s)};
}

static struct text text_of_output(const struct git_output *output)
{
	return (struct text){.data = output->out, .size = output->size};
}

static void set_up(void)
{
	static const char *const unwanted[] = {
		"GIT_DIR",	    "GIT_WORK_TREE",	 "GIT_INDEX_FILE",
		"GIT_COMMON_DIR",   "GIT_CONFIG",	 "GIT_CONFIG_GLOBAL",
		"GIT_CONFIG_COUNT", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME",
	};
	char template[] = "/tmp/test-gitjudge-XXXXXX";

	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		unsetenv(unwanted[i]);
	cr_assert_not_null(mkdtemp(template));
	base = strdup(template);
	cr_assert_eq(setenv("HOME", base, 1), 0);
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/main"), 0);
	cr_assert_eq(strings_add(&old_remotes, "origin"), 0);
	context = (struct config_context){
		.protected_refs = &protected_refs,
		.old_remotes = &old_remotes,
		.old_submodules = &old_submodules,
		.user_has_name = true,
		.user_has_email = true,
	};
	sh("git config --global user.name T;"
	   "git config --global user.email t@example.org;"
	   "git init r; cd r; git symbolic-ref HEAD refs/heads/main;"
	   "git remote add origin https://example.org/r.git;"
	   "echo 1 >f; git add f; git commit -m 1;"
	   "git commit --allow-empty -m 2;"
	   "git update-ref refs/remotes/origin/main HEAD;"
	   "git branch -u origin/main; git worktree add ../w -b topic");
}

static void tear_down(void)
{
	sh("rm -rf '%s'", base);
	free(base);
	strings_release(&protected_refs);
	strings_release(&old_remotes);
}

TestSuite(gitjudge_git, .init = set_up, .fini = tear_down, .timeout = 120);

/* 0 where what is NULL, otherwise a refusal that names it. */
static void expect_verdict(int r, char *said /* owned */, const char *what,
			   const char *about)
{
	cr_assert_eq(r, what ? -EROFS : 0, "%d, '%s': %s", r, said, about);
	cr_assert_eq(!said, !what);
	if (what)
		cr_assert_str_eq(said, what, "'%s': %s", said, about);
	free(said);
}

static void expect_config(struct text old, struct text new, const char *what,
			  const char *about)
{
	char *said = NULL;
	int r = judge_config(old, new, &context, &said);

	expect_verdict(r, said, what, about);
}

static void expect_reflog(struct text old, struct text new, time_t older_than,
			  const char *what, const char *about)
{
	char *said = NULL;
	int r = judge_reflog(old, new, older_than, &said);

	expect_verdict(r, said, what, about);
}

static void expect_stash(struct text old, struct text new, time_t older_than,
			 const char *what)
{
	char *said = NULL;
	int r = judge_stash_log(old, new, older_than, &said);

	expect_verdict(r, said, what, new.data);
}

static void list_config(const char *file, struct git_output *ret_output)
{
	autofree char *path = NULL;
	const char *args[] = {
		"config", "--list", "-z", "--no-includes", "--file", NULL, NULL,
	};

	cr_assert_gt(asprintf(&path, "%s/%s", base, file), 0);
	args[5] = path;
	cr_assert_eq(git_run(args, ret_output), 0);
	cr_assert_eq(ret_output->status, 0, "%s", ret_output->err);
}

/* Runs a command in the worktree and judges what it made of the config. */
static void expect_command(const char *command, const char *what)
{
	autogitoutput struct git_output old = {0}, new = {0};

	list_config("r/.git/config", &old);
	sh("cp r/.git/config saved; cd w; %s", command);
	list_config("r/.git/config", &new);
	expect_config(text_of_output(&old), text_of_output(&new), what,
		      command);
	if (what)
		sh("mv saved r/.git/config");
}

Test(gitjudge_git, what_commands_write)
{
	static const struct {
		const char *command, *what;
	} rows[] = {
		{"git branch -u origin/main", NULL},
		{"git branch --unset-upstream", NULL},
		{"git checkout -b two --track origin/main", NULL},
		{"git checkout -b three --track two", NULL},
		{"git config branch.three.description 'a b\nc'", NULL},
		{"git branch -m three 'f.o=o/b\"a#;'", NULL},
		{"git checkout topic; git branch -D two", NULL},
		{"git remote add up git@example.org:up.git", NULL},
		{"git remote add -t x --no-tags up2 ../r", "remote.up2.url"},
		{"git remote add -t x up2 https://example.org/x", NULL},
		{"git remote rename up2 up3", NULL},
		{"git remote set-url up3 https://example.org/y", NULL},
		{"git branch --no-track four; git config branch.four.remote up",
		 NULL},
		{"git remote remove up", NULL},
		{"git remote remove up3", NULL},
		{"git config pull.rebase true", NULL},
		{"git config color.diff.meta blue", NULL},
		{"git config lfs.repositoryformatversion 0", NULL},
		{"git sparse-checkout set x", NULL},
		{"git sparse-checkout disable", NULL},
		{"git remote add --mirror=fetch m https://example.org/x",
		 "remote.m.fetch"},
		{"git remote set-url origin https://example.org/x",
		 "remote.origin.url"},
		{"git remote rename origin up", "remote.origin.url"},
		{"git remote remove origin", "remote.origin.url"},
		{"git config core.bare true", "core.bare"},
		{"git config core.hooksPath .husky", "core.hookspath"},
		{"git config 'filter.A.B.clean' x", "filter.A.B.clean"},
		{"git config 'branch.main.pushRemote' /x",
		 "branch.main.pushremote"},
		{"git config 'url.ext::x.insteadOf' https://",
		 "url.ext::x.insteadof"},
		{"git config --add remote.origin.url https://example.org/2",
		 "remote.origin.url"},
		{"git config --add user.name X", "user.name"},
		{"printf '[Core]\\n\\tBare\\n' >>../r/.git/config",
		 "core.bare"},
		{"printf '[BRANCH.Main]\\n\\tx=y\\n' >>../r/.git/config",
		 "branch.main.x"},
		{": >../r/.git/config", "core.repositoryformatversion"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_command(rows[i].command, rows[i].what);
}

Test(gitjudge_git, what_sparse_checkout_writes)
{
	autogitoutput struct git_output new = {0};

	sh("cd w; git sparse-checkout set x");
	list_config("r/.git/worktrees/w/config.worktree", &new);
	expect_config((struct text){0}, text_of_output(&new),
		      "core.sparsecheckout", "another file");
	context.is_worktree_config = true;
	expect_config((struct text){0}, text_of_output(&new), NULL,
		      "its own file");
}

/* The loose refs as they were put aside. */
static char *saved_ref(void *data, const char *ref)
{
	autofree char *path = path_join("saved", ref);
	char *text = content(path);

	if (text[0])
		return text;
	free(text);
	return NULL;
}

/* Judges what a command makes of packed-refs. */
static void expect_packing(const char *command, const char *what)
{
	autofree char *old = NULL, *new = NULL;
	char *said = NULL;
	int r;

	sh("rm -rf saved; cp -r r/.git saved");
	old = content("r/.git/packed-refs");
	sh("cd r; %s", command);
	new = content("r/.git/packed-refs");
	r = judge_packed_refs(text_of(old), text_of(new), &protected_refs,
			      saved_ref, NULL, &said);
	expect_verdict(r, said, what, command);
}

Test(gitjudge_git, what_git_packs)
{
	autofree char *head = NULL, *replace = NULL;

	sh("cd r; git branch t; git tag -m 1 v; git replace --graft HEAD");
	expect_packing("git pack-refs --all", NULL);
	expect_packing("git branch -D t; git tag -m 2 w; git pack-refs --all",
		       NULL);
	expect_packing("git commit --allow-empty -m 3", NULL);
	expect_packing("git gc", NULL);
	expect_packing("git commit --allow-empty -m 4; git branch u", NULL);
	expect_packing("git pack-refs --all --no-prune", NULL);
	expect_packing("git pack-refs --all", NULL);
	sh("cd r; git replace >../replaced");
	head = content("replaced");
	head[strcspn(head, "\n")] = '\0';
	replace = path_join("refs/replace", head);
	expect_packing("git replace -d $(git replace)", replace);
}

Test(gitjudge_git, what_git_would_move)
{
	sh("cd r; git branch t");
	expect_packing("git pack-refs --all", NULL);
	expect_packing(
		"git update-ref refs/heads/main $(git commit-tree -m x main:);"
		"git pack-refs --all",
		"refs/heads/main");
	expect_packing("git update-ref -d refs/heads/main", "refs/heads/main");
	expect_packing(
		"git update-ref refs/heads/main/x t; git pack-refs --all",
		"refs/heads/main/x");
}

static void expect_expiry(const char *command, time_t older_than,
			  const char *what)
{
	autofree char *old = NULL, *new = NULL;

	old = content("r/.git/logs/refs/heads/t");
	sh("cp r/.git/logs/refs/heads/t saved; cd r; %s", command);
	new = content("r/.git/logs/refs/heads/t");
	expect_reflog(text_of(old), text_of(new), older_than, what, command);
	sh("mv saved r/.git/logs/refs/heads/t");
}

Test(gitjudge_git, what_git_expires)
{
	time_t now = time(NULL);

	/* Without a message, and long ago. */
	sh("cd r; git checkout -b t;"
	   "GIT_COMMITTER_DATE='@1000000000 +0200' git update-ref HEAD HEAD~1;"
	   "GIT_COMMITTER_DATE='@1100000000 -0130' git commit --allow-empty"
	   " -m 'a > 5 +0000'; git update-ref HEAD HEAD~1;"
	   "git commit --allow-empty -m 4");
	expect_expiry(
		"git reflog expire --expire=never --expire-unreachable=never t",
		0, NULL);
	expect_expiry("git reflog expire --expire=30.days t", now - 29 * 86400,
		      NULL);
	expect_expiry("git gc", now - 29 * 86400, NULL);
	expect_expiry("git reflog expire --expire=now --all", now - 29 * 86400,
		      "line 1");
	expect_expiry("git reflog delete t@{0}", now - 29 * 86400, "line 5");
	expect_expiry("git commit --allow-empty -m 5", now - 29 * 86400,
		      "line 6");
}

Test(gitjudge_git, what_git_drops_from_the_stash)
{
	autofree char *old = NULL, *popped = NULL, *dropped = NULL;
	time_t start = time(NULL) - 1000;

	for (int i = 0; i < 2; i++)
		sh("cd r; echo %d >f; GIT_COMMITTER_DATE='@%lld +0000' git stash",
		   i + 2, (long long)start - 100 + i);
	sh("cd r; echo 4 >f; git stash; echo 5 >f; git stash");
	old = content("r/.git/logs/refs/stash");
	cr_assert(stash_log_has_older(text_of(old), start));
	sh("cd r; git stash pop; git checkout f; git stash drop");
	popped = content("r/.git/logs/refs/stash");
	expect_stash(text_of(old), text_of(popped), start, NULL);
	sh("cd r; git stash drop 'stash@{1}'");
	dropped = content("r/.git/logs/refs/stash");
	expect_stash(text_of(popped), text_of(dropped), start, "line 1");
	expect_stash(text_of(popped), text_of(""), start, "line 1");
}

/*
 * What may replace a git config. Listings are written as lines, "KEY VALUE",
 * or "KEY" alone for a key without a value; "KEY " has an empty one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/gitjudge.h"

#define autostrings __attribute__((cleanup(strings_release)))

/* A literal with NULs in it. */
#define RAW(s) ((struct text){.data = (s), .size = sizeof(s) - 1})

#define BASE                                                        \
	"core.repositoryformatversion 0\n"                          \
	"core.filemode true\n"                                      \
	"core.bare false\n"                                         \
	"remote.origin.url https://example.org/r.git\n"             \
	"remote.origin.fetch +refs/heads/*:refs/remotes/origin/*\n" \
	"branch.main.remote origin\n"                               \
	"branch.main.merge refs/heads/main\n"                       \
	"submodule.lib.url https://example.org/lib.git\n"           \
	"submodule.lib.active true\n"

static struct strings protected_refs, old_remotes, old_submodules;
static struct config_context context;

static void set_up(void)
{
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/main"), 0);
	cr_assert_eq(strings_add(&protected_refs, "refs/heads/user/x"), 0);
	cr_assert_eq(strings_add(&old_remotes, "origin"), 0);
	cr_assert_eq(strings_add(&old_submodules, "lib"), 0);
	context = (struct config_context){
		.protected_refs = &protected_refs,
		.old_remotes = &old_remotes,
		.old_submodules = &old_submodules,
		.user_has_name = true,
		.user_has_email = true,
	};
}

static void tear_down(void)
{
	strings_release(&protected_refs);
	strings_release(&old_remotes);
	strings_release(&old_submodules);
}

TestSuite(gitjudge_config, .init = set_up, .fini = tear_down, .timeout = 300);

/* Lines to a listing of the same size, to be freed. */
static char *listing_of(const char *lines)
{
	size_t size = strlen(lines);
	char *data = malloc(size + 1);
	bool in_value = false;

	cr_assert_not_null(data);
	memcpy(data, lines, size + 1);
	for (size_t i = 0; i < size; i++) {
		if (data[i] == ' ' && !in_value) {
			data[i] = '\n';
			in_value = true;
		} else if (data[i] == '\n') {
			data[i] = '\0';
			in_value = false;
		}
	}
	return data;
}

/* 0 where what is NULL, otherwise a refusal that names it. */
static void expect_texts(struct text old, struct text new, const char *what,
			 const char *about)
{
	autofree char *said = NULL;
	int r = judge_config(old, new, &context, &said);

	if (!what) {
		cr_assert_eq(r, 0, "refused for %s: %s", said, about);
		cr_assert_null(said);
		return;
	}
	cr_assert_eq(r, -EROFS, "%d, not refused: %s", r, about);
	cr_assert_not_null(said);
	cr_assert_str_eq(said, what, "%s", about);
	cr_assert_eq(judge_config(old, new, &context, NULL), -EROFS);
}

static void expect(const char *old_lines, const char *new_lines,
		   const char *what)
{
	autofree char *old = listing_of(old_lines);
	autofree char *new = listing_of(new_lines);

	expect_texts((struct text){.data = old, .size = strlen(old_lines)},
		     (struct text){.data = new, .size = strlen(new_lines)},
		     what, new_lines);
}

/* May these lines be added to others, taken away again, and stay? */
static void expect_free_beside(const char *base, const char *lines)
{
	autofree char *more = NULL, *first = NULL;

	cr_assert_gt(asprintf(&more, "%s%s", base, lines), 0);
	cr_assert_gt(asprintf(&first, "%s%s", lines, base), 0);
	expect(base, more, NULL);
	expect(more, base, NULL);
	expect(more, more, NULL);
	expect(base, first, NULL);
	expect(more, first, NULL);
}

static void expect_free(const char *lines)
{
	expect_free_beside(BASE, lines);
}

/* That neither adding nor removing them passes, and that staying does. */
static void expect_held_beside(const char *base, const char *lines,
			       const char *key)
{
	autofree char *more = NULL;

	cr_assert_gt(asprintf(&more, "%s%s", base, lines), 0);
	expect(base, more, key);
	expect(more, base, key);
	expect(more, more, NULL);
}

/* The same of one line, for the key it has. */
static void expect_held(const char *line)
{
	autofree char *key = strndup(line, strcspn(line, " \n"));

	expect_held_beside(BASE, line, key);
}

Test(gitjudge_config, equal_listings_pass)
{
	expect("", "", NULL);
	expect(BASE, BASE, NULL);
	expect("core.bare true\n", "core.bare true\n", NULL);
	expect("foo bar\nfoo\n", "foo bar\nfoo\n", NULL);
	expect_texts((struct text){0}, (struct text){0}, NULL, "no text");
}

/* What would hurt the main checkout or run programs on the user's side. */
Test(gitjudge_config, attacks_are_refused)
{
	static const char *const lines[] = {
		"core.bare true\n",
		"core.bare\n",
		"core.worktree /tmp/x\n",
		"core.repositoryformatversion 1\n",
		"extensions.worktreeconfig false\n",
		"extensions.objectformat sha256\n",
		"extensions.refstorage reftable\n",
		"extensions.partialclone evil\n",
		"extensions.relativeworktrees true\n",
		"extensions.x.worktreeconfig true\n",
		"core.hookspath /tmp/x\n",
		"core.fsmonitor /tmp/x\n",
		"core.sshcommand /tmp/x\n",
		"core.pager /tmp/x\n",
		"core.editor /tmp/x\n",
		"core.gitproxy /tmp/x\n",
		"core.askpass /tmp/x\n",
		"core.attributesfile /tmp/x\n",
		"core.excludesfile /tmp/x\n",
		"core.alternaterefscommand x\n",
		"core.sparsecheckout true\n",
		"core.sparsecheckoutcone true\n",
		"core.autocrlf true\n",
		"core.filemode false\n",
		"core.x.quotepath true\n",
		"index.sparse true\n",
		"hook.name.command x\n",
		"hook.name.event post-commit\n",
		"filter.x.clean x\n",
		"filter.x.smudge x\n",
		"filter.x.process x\n",
		"filter.lfs.required true\n",
		"diff.x.command x\n",
		"diff.x.textconv x\n",
		"diff.external x\n",
		"merge.x.driver x\n",
		"merge.x.conflictstyle diff3\n",
		"merge.tool x\n",
		"alias.st !x\n",
		"alias.x.command !x\n",
		"credential.helper !x\n",
		"credential.https://example.org.helper !x\n",
		"gpg.program x\n",
		"gpg.ssh.program x\n",
		"gpg.ssh.defaultkeycommand x\n",
		"sequence.editor x\n",
		"pager.log x\n",
		"url.ext::x.insteadof https://\n",
		"url.ext::x.pushinsteadof https://\n",
		"protocol.ext.allow always\n",
		"protocol.allow always\n",
		"include.path /tmp/x\n",
		"includeif.gitdir:/.path /tmp/x\n",
		"mergetool.x.cmd x\n",
		"mergetool.x.path x\n",
		"difftool.x.cmd x\n",
		"interactive.difffilter x\n",
		"trailer.x.cmd x\n",
		"trailer.x.command x\n",
		"uploadpack.packobjectshook x\n",
		"receive.denycurrentbranch ignore\n",
		"gc.reflogexpire now\n",
		"gc.pruneexpire now\n",
		"gc.worktreepruneexpire now\n",
		"transfer.hiderefs x\n",
		"log.showsignature true\n",
		"commit.gpgsign true\n",
		"http.proxy http://x\n",
		"http.sslverify false\n",
		"http.https://example.org.postbuffer 1\n",
		"http.cookiefile x\n",
		"sendemail.smtpserver x\n",
		"browser.x.cmd x\n",
		"man.x.cmd x\n",
		"remote.origin.url https://example.org/other\n",
		"remote.origin.pushurl https://example.org/other\n",
		"remote.origin.fetch +refs/*:refs/*\n",
		"remote.origin.uploadpack x\n",
		"remote.origin.receivepack x\n",
		"remote.origin.vcs x\n",
		"remote.origin.proxy x\n",
		"remote.origin.mirror true\n",
		"remote.new.uploadpack x\n",
		"remote.new.receivepack x\n",
		"remote.new.vcs x\n",
		"remote.new.pushurl /tmp/x\n",
		"remote.new.push refs/heads/*\n",
		"remote.pushdefault new\n",
		"remotes.default new\n",
		"submodule.lib.url https://example.org/other\n",
		"submodule.lib.update !x\n",
		"submodule.new.update !x\n",
		"submodule.new.branch x\n",
		"submodule.recurse true\n",
		"submodule.active .\n",
		"submodule.url https://example.org/x\n",
		"branch.main.remote evil\n",
		"branch.main.pushremote evil\n",
		"branch.main.merge refs/heads/evil\n",
		"branch.main.rebase true\n",
		"branch.main.description x\n",
		"branch.main/below.description x\n",
		"branch.user/x.merge refs/heads/x\n",
		"branch.topic.mergeoptions --strategy=x\n",
		"branch.topic.remote /tmp/x\n",
		"branch.topic.remote ext::x\n",
		"branch.topic.remote https://example.org/x\n",
		"branch.topic.remote evil\n",
		"branch.topic.remote \n",
		"branch.topic.remote\n",
		"branch.topic.pushremote ./evil\n",
		"branch.topic.pushremote ..\n",
		"branch.topic.merge\n",
		"branch..description x\n",
		"branch.autosetuprebase always\n",
		"branch.sort x\n",
		"user.name Somebody\n",
		"user.email x@example.org\n",
		"user.signingkey x\n",
		"author.name Somebody\n",
		"worktreefs.safeconfig *\n",
		"worktreefs.rw .\n",
		"worktreefs.shared src\n",
		"worktreefs.x.safeconfig *\n",
		"lfs.url https://example.org/x\n",
		"lfs.x.repositoryformatversion 0\n",
		"lfs.customtransfer.x.path x\n",
		"push.x.default current\n",
		"push.recursesubmodules no\n",
		"pull.x.rebase true\n",
		"pull.octopus x\n",
		"rerere.x.enabled true\n",
		"rerere.autoupdate true\n",
		"colour.ui true\n",
		"color x\n",
		"advice\n",
		"novalue\n",
		".\n",
		"..\n",
		"...\n",
		".x y\n",
		"x. y\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		expect_held(lines[i]);
}

Test(gitjudge_config, safe_entries_pass)
{
	static const char *const lines[] = {
		"lfs.repositoryformatversion 0\n",
		"color.ui auto\n",
		"color.ui\n",
		"color.diff.meta blue\n",
		"advice.detachedhead false\n",
		"advice.a.b false\n",
		"pull.rebase true\n",
		"pull.ff only\n",
		"push.default current\n",
		"push.autosetupremote true\n",
		"merge.conflictstyle zdiff3\n",
		"rerere.enabled true\n",
		"core.quotepath false\n",
		"http.postbuffer 524288000\n",
		"branch.topic.description text with spaces\n",
		"branch.topic.merge refs/heads/main\n",
		"branch.topic.rebase true\n",
		"branch.topic.remote origin\n",
		"branch.topic.remote .\n",
		"branch.topic.pushremote origin\n",
		"branch.topic.vscode-merge-base origin/main\n",
		"branch.a.b.c=d.merge refs/heads/x\n",
		"branch.user.description above a protected one\n",
		"branch.mainx.description x\n",
		"branch.user/xy.description x\n",
		"branch.Main.description x\n",
		"remote.origin.gh-resolved base\n",
		"remote.new.url https://example.org/new\n",
		"remote.new.url https://example.org/new\n"
		"remote.new.fetch +refs/heads/*:refs/remotes/new/*\n"
		"branch.topic.remote new\n"
		"branch.topic.pushremote new\n"
		"remote.new.gh-resolved base\n",
		"branch.topic.remote new\n"
		"remote.new.url https://example.org/new\n",
		"submodule.new.url https://example.org/sub\n"
		"submodule.new.active true\n",
		"submodule.dir/sub.x.active true\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		expect_free(lines[i]);
}

Test(gitjudge_config, values_of_safe_entries_change)
{
	expect(BASE "branch.t.remote origin\npull.rebase true\n",
	       BASE "pull.rebase false\nbranch.t.remote .\n", NULL);
	expect(BASE "remote.n.url https://a/b\nremote.n.url https://c/d\n",
	       BASE "remote.n.url ssh://e/f\n", NULL);
}

Test(gitjudge_config, branches)
{
	/* Each key by itself. */
	expect(BASE, BASE "branch.t.merge refs/heads/t\nbranch.t.remote /x\n",
	       "branch.t.remote");
	/* One that is held may stay, whatever comes beside it. */
	expect(BASE "branch.t.remote /x\n",
	       BASE "branch.t.description x\nbranch.t.remote /x\n", NULL);
	/* A remote is one only with a URL, and with one that is safe. */
	expect(BASE, BASE "remote.n.url /x\nbranch.t.remote n\n",
	       "remote.n.url");
	expect(BASE "remote.n.url /x\n",
	       BASE "remote.n.url /x\nbranch.t.remote n\n", "branch.t.remote");
	expect(BASE "remote.origin2.pushurl https://a/b\n",
	       BASE "remote.origin2.pushurl https://a/b\n"
		    "branch.t.remote origin2\n",
	       "branch.t.remote");
	/* Names of remotes don't fold. */
	expect(BASE, BASE "branch.t.remote Origin\n", "branch.t.remote");
	/* Protection ends with the list. */
	strings_release(&protected_refs);
	expect(BASE, BASE "branch.main.rebase true\n", NULL);
	/* Names that aren't branches protect none. */
	cr_assert_eq(strings_add(&protected_refs, "refs/notes/main"), 0);
	cr_assert_eq(strings_add(&protected_refs, "HEAD"), 0);
	expect(BASE, BASE "branch.main.rebase true\n", NULL);
}

/* A value that is held must not turn from a remote's name into a path. */
Test(gitjudge_config, remotes_that_branches_need_stay)
{
	static const char with[] = BASE "remote.n.url https://a/b\n"
					"branch.user/x.remote n\n";
	static const char without[] = BASE "branch.user/x.remote n\n";

	expect(with, without, "branch.user/x.remote");
	expect(without, with, "branch.user/x.remote");
	expect(with, BASE "remote.n.url https://c/d\nbranch.user/x.remote n\n",
	       NULL);
	expect(BASE "remote.n.url https://a/b\nremote.pushdefault n\n",
	       BASE "remote.pushdefault n\n", "remote.pushdefault");
	expect(BASE "remote.n.url https://a/b\nbranch.main.pushremote n\n",
	       BASE "branch.main.pushremote n\n", "branch.main.pushremote");
	/* A branch of the session's own goes with its remote. */
	expect(BASE "remote.n.url https://a/b\nbranch.t.remote n\n",
	       BASE "branch.t.remote n\n", "branch.t.remote");
	expect(BASE "remote.n.url https://a/b\nbranch.t.remote n\n", BASE,
	       NULL);
}

Test(gitjudge_config, remotes)
{
	/* Without a URL the name would be taken for one. */
	expect(BASE, BASE "remote.n.fetch +refs/heads/*:refs/remotes/n/*\n",
	       "remote.n.fetch");
	expect(BASE, BASE "remote.n.gh-resolved base\n",
	       "remote.n.gh-resolved");
	expect(BASE, BASE "remote.n.url https://a/b\nremote.n.pushurl /tmp/x\n",
	       "remote.n.pushurl");
	expect(BASE, BASE "remote.n.url\n", "remote.n.url");
	/* An old one in other letters. */
	expect(BASE, BASE "remote.ORIGIN.url https://a/b\n",
	       "remote.ORIGIN.url");
	/* Names that are paths, or this repository. */
	expect(BASE, BASE "remote...url https://a/b\n", "remote...url");
	expect(BASE, BASE "remote...x.url https://a/b\n", "remote...x.url");
	expect(BASE, BASE "remote./tmp/x.url https://a/b\n",
	       "remote./tmp/x.url");
	expect(BASE, BASE "remote.a:b.url https://a/b\n", "remote.a:b.url");
	expect(BASE, BASE "remote..url https://a/b\n", "remote..url");
	expect_free("remote.a.b/c=d.url https://a/b\n");
	/* What has gone can't be made up for. */
	expect(BASE, "core.bare false\n", "core.repositoryformatversion");
}

Test(gitjudge_config, refspecs)
{
	static const char *const good[] = {
		"+refs/heads/*:refs/remotes/n/*",
		"+refs/heads/main:refs/remotes/n/main",
		"refs/heads/main",
		"refs/heads/main:",
		"^refs/heads/x",
		"",
		"+refs/tags/*:refs/tags/*",
		"+refs/pull/*/head:refs/remotes/n/pr/*",
		"refs/notes/*:refs/notes/n/*",
	};
	static const char *const bad[] = {
		"+refs/*:refs/*",
		"+refs/heads/*:refs/heads/*",
		"+refs/heads/x:refs/heads/main",
		"+refs/replace/*:refs/replace/*",
		"+refs/x:refs/stash",
		"x:main",
		"x:HEAD",
		"x:heads/main",
		"x:remotes/n/main",
		"+refs/heads/*:refs/remotes/*/*",
		"+refs/heads/*:refs/remotes/../replace/*",
		"x:refs/remotes/",
		"x:refs/remotes/n/\x01",
		"\x01",
		"x\t",
	};
	static const char url[] = "remote.n.url https://a/b\n";

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		autofree char *lines = NULL;

		cr_assert_gt(
			asprintf(&lines, "%sremote.n.fetch %s\n", url, good[i]),
			0);
		expect_free(lines);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autofree char *lines = NULL;

		cr_assert_gt(asprintf(&lines, BASE "%sremote.n.fetch %s\n", url,
				      bad[i]),
			     0);
		expect(BASE, lines, "remote.n.fetch");
	}
}

Test(gitjudge_config, urls)
{
	static const char *const good[] = {
		"https://example.org/a/b.git",
		"https://user@example.org/b",
		"https://user%40corp:p%20w@example.org/b",
		"https://example.org",
		"https://example.org:8080/b",
		"https://[::1]:8080/b",
		"https://b\xc3\xbc.example/b",
		"http://example.org/b",
		"ftp://example.org/b",
		"ftps://example.org/b",
		"git://example.org/b",
		"git://example.org:9418/b",
		"ssh://example.org/b",
		"ssh://git@example.org:22/~u/b c",
		"ssh://git@[::1]:22/b",
		"ssh://a-b.example.org/-x",
		"example.org:b",
		"example.org:/b",
		"git@example.org:a/b.git",
		"git@example.org:a/b:c",
		"git@example.org:a b",
		"host:~/b",
		"[::1]:b",
		"git@[::1]:b",
		"[git@host:22]:b",
	};
	static const char *const bad[] = {
		"",
		"/tmp/x",
		"./x",
		"../x",
		"../host:x",
		"./host:x",
		"x",
		"x/y:z",
		"~/x",
		"file:///tmp/x",
		"file://host/x",
		"FILE:///tmp/x",
		"HTTPS://example.org/x",
		"Ssh://example.org/x",
		"ext::sh -c x",
		"fd::3",
		"https::x",
		"helper::https://example.org/x",
		"helper://example.org/x",
		"git+ssh://example.org/x",
		"rsync://example.org/x",
		"persistent-https://example.org/x",
		"host:://x",
		"host:x://y",
		"-oProxyCommand=x:y",
		"--upload-pack=x:y",
		"git@-oProxyCommand=x:y",
		"a@b@-x:y",
		"[-oProxyCommand=x]:y",
		"git@[-oProxyCommand=x]:y",
		"host:-x",
		"host:",
		":x",
		"@:x",
		"git@:x",
		"[a:x",
		"a[b:c]:d",
		"ssh://-oProxyCommand=x/y",
		"ssh://git@-oProxyCommand=x/y",
		"ssh://[-oProxyCommand=x]/y",
		"ssh://%2doProxyCommand=x/y",
		"ssh://git%40-x/y",
		"ssh:///x",
		"ssh://",
		"ssh://:22/x",
		"ssh://@/x",
		"ssh://`x`/y",
		"ssh://$(x)/y",
		"ssh://a;b/y",
		"ssh://a b/y",
		"ssh://a'b/y",
		"ssh://a|b@host/y",
		"git://-x/y",
		"git:///y",
		"https://",
		"https:///x",
		"https://-x/y",
		"https://u@-x/y",
		"https://a b/y",
		"https://a\\b/y",
		"https://a/b\tc",
		"https://a/b\x7f",
		"https://a/b\r",
		"https://a/b%0ac",
		"https://a/b%0Dc",
		"https://a%00/b",
		"https://a/%1f",
		"host:a\x1b[2J",
		" https://a/b",
		"https://",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		autofree char *lines = NULL;

		cr_assert_gt(asprintf(&lines,
				      "remote.n.url %s\nsubmodule.n.url %s\n",
				      good[i], good[i]),
			     0);
		expect_free(lines);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autofree char *remote = NULL, *submodule = NULL;

		cr_assert_gt(
			asprintf(&remote, BASE "remote.n.url %s\n", bad[i]), 0);
		expect(BASE, remote, "remote.n.url");
		cr_assert_gt(asprintf(&submodule, BASE "submodule.n.url %s\n",
				      bad[i]),
			     0);
		expect(BASE, submodule, "submodule.n.url");
	}
	/* A newline, and nothing at all. */
	expect_texts(RAW(""), RAW("remote.n.url\nhttps://a/b\nc\0"),
		     "remote.n.url", "newline in a URL");
}

Test(gitjudge_config, submodules)
{
	expect_held("submodule.LIB.url https://a/b\n");
	expect_held("submodule.Lib.active false\n");
	expect_held("submodule.../x.url https://a/b\n");
	expect_held("submodule....active true\n");
	expect_held("submodule.a/../b.active true\n");
	expect_held("submodule.a//b.active true\n");
	expect_held("submodule..active true\n");
	expect_free("submodule.a/b.c..d.active\n");
	/* Both old ones and new ones. */
	expect(BASE,
	       BASE "submodule.n.url https://a/b\n"
		    "submodule.lib.active false\n",
	       "submodule.lib.active");
}

Test(gitjudge_config, identity_where_there_is_none)
{
	context.user_has_name = false;
	expect(BASE, BASE "user.name N\n", NULL);
	expect(BASE, BASE "user.name\n", "user.name");
	expect(BASE, BASE "user.name N\nuser.email e\n", "user.email");
	context.user_has_email = false;
	expect(BASE, BASE "user.name N\nuser.email e\n", NULL);
	expect(BASE, BASE "user.x.name N\n", "user.x.name");
	/* Once it is there, it stays. */
	expect(BASE "user.name N\n", BASE "user.name M\n", "user.name");
	expect(BASE "user.name N\n", BASE, "user.name");
	expect(BASE "user.name N\n", BASE "user.name N\nuser.name M\n",
	       "user.name");
	expect(BASE "user.name N\n", BASE "user.name N\nuser.email e\n", NULL);
	expect(BASE "user.email e\n", BASE "user.email f\n", "user.email");
	expect(BASE "user.email e\n", BASE "user.email e\nuser.name N\n", NULL);
}

Test(gitjudge_config, worktree_config_extension)
{
	static const char *const yes[] = {
		" true", " yes", " on", " 1", "", " TRUE", " On",
	};
	static const char *const no[] = {" false", " no", " off", " 0",
					 " ",	   " 2x", " y"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		autofree char *new = NULL;

		cr_assert_gt(asprintf(&new,
				      BASE "extensions.worktreeconfig%s\n",
				      yes[i]),
			     0);
		expect(BASE, new, NULL);
		/* It may not go again: M's config.worktree would be void. */
		expect(new, BASE, "extensions.worktreeconfig");
		expect(new, new, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		autofree char *new = NULL, *bare = NULL, *with = NULL;

		cr_assert_gt(asprintf(&new,
				      BASE "extensions.worktreeconfig%s\n",
				      no[i]),
			     0);
		expect(BASE, new, "extensions.worktreeconfig");
		expect(new, BASE "extensions.worktreeconfig true\n",
		       "extensions.worktreeconfig");
		/* A core.bare that isn't plainly false counts. */
		cr_assert_gt(asprintf(&bare, "core.bare%s\n", no[i]), 0);
		cr_assert_gt(asprintf(&with,
				      "%sextensions.worktreeconfig true\n",
				      bare),
			     0);
		expect(bare, with, i < 5 ? NULL : "extensions.worktreeconfig");
	}
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		autofree char *bare = NULL, *with = NULL;

		cr_assert_gt(asprintf(&bare, "core.bare%s\ncore.bare false\n",
				      yes[i]),
			     0);
		cr_assert_gt(asprintf(&with,
				      "%sextensions.worktreeconfig true\n",
				      bare),
			     0);
		expect(bare, with, "extensions.worktreeconfig");
	}
	expect_held_beside(BASE "core.worktree /x\n",
			   "extensions.worktreeconfig true\n",
			   "extensions.worktreeconfig");
}

Test(gitjudge_config, worktree_config_file)
{
	static const char lines[] = "core.sparsecheckout true\n"
				    "core.sparsecheckoutcone false\n"
				    "index.sparse false\n";

	expect("", lines, "core.sparsecheckout");
	context.is_worktree_config = true;
	expect_free_beside("", lines);
	expect_free_beside("core.autocrlf true\n", lines);
	expect("", "core.worktree /x\n", "core.worktree");
	expect("", "core.bare true\n", "core.bare");
	expect("", "core.fsmonitor x\n", "core.fsmonitor");
	expect("", "core.x.sparsecheckout true\n", "core.x.sparsecheckout");
	expect("", "index.version 4\n", "index.version");
	/* Its remotes are those of the other file. */
	expect("", "branch.t.remote origin\n", "branch.t.remote");
}

Test(gitjudge_config, patterns_of_the_old_listing)
{
#define OPEN(pattern) BASE "worktreefs.safeconfig " pattern "\n"
	expect_free_beside(OPEN("filter.lfs.*"),
			   "filter.lfs.clean git-lfs clean\n");
	expect_held_beside(OPEN("filter.lfs.*"), "filter.lfsx.clean x\n",
			   "filter.lfsx.clean");
	expect_free_beside(OPEN("CORE.autoCRLF"), "core.autocrlf true\n");
	expect_free_beside(OPEN("a.*.c"), "a.B.d.c true\n");
	expect_free_beside(OPEN("core.autocrlf") "worktreefs.safeconfig x.y\n",
			   "core.autocrlf true\nx.y\n");
	expect_free_beside(OPEN("core.*"), "core.hookspath x\n");
	/* Whole keys only; nothing is one pattern with commas or spaces. */
	expect_held_beside(OPEN("core"), "core.editor x\n", "core.editor");
	expect_held_beside(OPEN("core.e, core.f"), "core.e x\n", "core.e");
	expect_held_beside(OPEN(""), "core.e x\n", "core.e");
	expect_held_beside(OPEN("["), "core.e x\n", "core.e");
	expect_held_beside(BASE "worktreefs.safeconfig\n", "core.e x\n",
			   "core.e");
	expect_held_beside(BASE "worktreefs.x.safeconfig *\n", "core.e x\n",
			   "core.e");
	/* The new one's don't count. */
	expect(BASE, OPEN("*") "core.e x\n", "worktreefs.safeconfig");
	/* A URL that a pattern opens makes a remote. */
	expect_free_beside(OPEN("remote.local.url"),
			   "remote.local.url /x\nbranch.t.remote local\n");
	expect_held_beside(OPEN("remote.*.pushurl"),
			   "branch.t.remote origin2\n", "branch.t.remote");
#undef OPEN
}

Test(gitjudge_config, what_no_pattern_opens)
{
	static const char *const patterns[] = {"*", "*.*", "[a-z]*", "?*"};
	static const char *const lines[] = {
		"include.path x\n",
		"includeif.x.path x\n",
		"core.worktree x\n",
		"core.bare true\n",
		"core.repositoryformatversion 1\n",
		"worktreefs.rw x\n",
		"worktreefs.safeconfig x\n",
		"worktreefs.a.b x\n",
		"core.x.bare true\n",
		/* git folds these, but who knows. */
		"Core.Bare true\n",
		"Include.path x\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		autofree char *base = NULL;

		cr_assert_gt(asprintf(&base, BASE "worktreefs.safeconfig %s\n",
				      patterns[i]),
			     0);
		expect_free_beside(base, "core.editor x\nalias.x y\n");
		for (size_t k = 0; k < ARRAY_SIZE(lines); k++) {
			autofree char *key =
				strndup(lines[k], strcspn(lines[k], " "));

			expect_held_beside(base, lines[k], key);
		}
	}
}

Test(gitjudge_config, the_rest_stays_in_sequence)
{
	static const char ab[] = "a.b 1\nc.d 2\ne.f 3\n";

	expect(ab, "a.b 2\nc.d 1\ne.f 3\n", "a.b"); /* values swapped */
	expect(ab, "c.d 2\na.b 1\ne.f 3\n", "c.d"); /* entries swapped */
	expect(ab, "a.b 1\na.b 1\nc.d 2\ne.f 3\n", "a.b");
	expect(ab, "a.b 1\ne.f 3\n", "c.d");
	expect(ab, "a.b 1\nc.d 2\n", "e.f");
	expect(ab, "", "a.b");
	expect(ab, "a.b 1\nx.y 1\nc.d 2\ne.f 3\n", "x.y");
	expect(ab, "a.b 1\nc.d 2\ne.f 3\nx.y 1\n", "x.y");
	expect(ab, "a.b 1\nc.d 2\ne.f\n", "e.f");
	expect(ab, "a.b 1\nc.d 2\ne.f \n", "e.f");
	expect("e.f \n", "e.f\n", "e.f");
	expect("e.f\n", "e.f \n", "e.f");
	expect("e.f 1\n", "e.f 1 \n", "e.f");
	expect("a.B.c 1\n", "a.b.c 1\n", "a.b.c");
	expect("remote.origin.url https://a/b\n",
	       "remote.Origin.url https://a/b\n", "remote.Origin.url");
	/* Safe ones anywhere between them make no difference. */
	expect(ab, "pull.ff 1\na.b 1\npull.ff 1\nc.d 2\npull.ff\ne.f 3\n",
	       NULL);
	expect("pull.ff 1\na.b 1\npull.ff 1\nc.d 2\n",
	       "color.x 1\nc.d 2\na.b 1\n", "c.d");
}

Test(gitjudge_config, text_that_is_no_listing)
{
	static const char what[] = "text that is no listing";
	static const struct text bad[] = {
		RAW("a.b\n1"),	    RAW("a.b"),	     RAW("\0"),
		RAW("a.b\n1\0\0"),  RAW("\n\0"),     RAW("\nvalue\0"),
		RAW("a.b\n1\0c.d"), RAW("a.b\n1\n"), RAW("\xff"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autostrings struct strings names = {0};

		expect_texts(bad[i], bad[i], what, "both");
		expect_texts(RAW(""), bad[i], what, "new");
		expect_texts(bad[i], RAW(""), what, "old");
		cr_assert_eq(config_remotes(bad[i], &names), -EINVAL);
		cr_assert_eq(config_submodules(bad[i], &names), -EINVAL);
		cr_assert_eq(names.n, 0);
	}
	/* Strange, but listings. */
	expect_texts(RAW("a.b\n1\nc.d\n2\0"), RAW("a.b\n1\nc.d\n2\0"), NULL,
		     "lines in a value");
	expect_texts(RAW("a.b\r\n1\r\0"), RAW("a.b\n1\0"), "a.b", "CRLF");
}

Test(gitjudge_config, keys_are_told_without_control_characters)
{
	autofree char *key = NULL, *said = NULL, *long_text = NULL;

	expect_texts(RAW(""), RAW("a.\x1b[2J\r\x7f.b\nsecret\0"),
		     "a.\\x1b[2J\\x0d\\x7f.b", "escapes");
	expect_texts(RAW(""),
		     RAW("a.\xc2\x9b"
			 "2J\xc3\xa9.b\0"),
		     "a.\\xc2\\x9b"
		     "2J\xc3\xa9.b",
		     "wide escapes");
	expect_texts(RAW(""), RAW("a.\xc2.b\0"), "a.\xc2.b", "half of one");

	key = malloc(1 << 20);
	cr_assert_not_null(key);
	memset(key, 'k', 1 << 20);
	key[(1 << 20) - 1] = '\0';
	memcpy(key + 254, "\xe2\x82\xac", 3); /* goes beyond what is shown */
	cr_assert_eq(judge_config(RAW(""),
				  (struct text){.data = key, .size = 1 << 20},
				  &context, &said),
		     -EROFS);
	long_text = strndup(key, 254);
	cr_assert_eq(strlen(said), 254 + 3);
	cr_assert_eq(strncmp(said, long_text, 254), 0);
	cr_assert_str_eq(said + 254, "...");
}

Test(gitjudge_config, names_of_remotes_and_submodules)
{
	autostrings struct strings remotes = {0}, submodules = {0};
	struct text listing =
		RAW("remote.b.url\nx\0remote.a.b=c.fetch\nx\0remote.b.fetch\0"
		    "remote.pushdefault\nno\0remote.d.gh-resolved\nbase\0"
		    "submodule.s/t.url\nx\0submodule.active\nno\0"
		    "remotex.e.url\nx\0core.bare\nfalse\0remote\0");

	cr_assert_eq(strings_add(&remotes, "d"), 0);
	cr_assert_eq(config_remotes(listing, &remotes), 0);
	cr_assert_eq(remotes.n, 3);
	cr_assert_str_eq(remotes.s[0], "d");
	cr_assert(strings_contain(&remotes, "a.b=c"));
	cr_assert(strings_contain(&remotes, "b"));
	cr_assert_eq(config_submodules(listing, &submodules), 0);
	cr_assert_eq(submodules.n, 1);
	cr_assert_str_eq(submodules.s[0], "s/t");
	cr_assert_eq(config_remotes((struct text){0}, &submodules), 0);
	cr_assert_eq(submodules.n, 1);
}

/* Megabytes take no longer than megabytes do. */
Test(gitjudge_config, large_listings)
{
	enum { ENTRIES = 100000 };
	autofree char *data = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&data, &size);
	autostrings struct strings names = {0};

	cr_assert_not_null(stream);
	for (int i = ENTRIES; i > 0; i--) {
		fprintf(stream, "branch.b%d.remote\nr%d%c", i, i, 0);
		fprintf(stream, "remote.r%d.url\nhttps://a/%d%c", i, i, 0);
		fprintf(stream, "x.y\n%d%c", i, 0);
	}
	fclose(stream);
	expect_texts((struct text){.data = data, .size = size},
		     (struct text){.data = data, .size = size}, NULL, "same");
	expect_texts((struct text){0},
		     (struct text){.data = data, .size = size}, "x.y", "new");
	cr_assert_eq(config_remotes((struct text){.data = data, .size = size},
				    &names),
		     0);
	cr_assert_eq(names.n, ENTRIES);
	cr_assert_lt(clock() / CLOCKS_PER_SEC, 60);
}

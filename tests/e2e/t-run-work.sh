#!/bin/bash
# A day's work in the worktree behind `mountctl run`: editing, a build of some
# thousand files, packages, and git. Everything ends with 0, and the host sees
# what was done; git finds nothing to refresh on either side. Of the contract's
# lines that once went wrong: git freshens packs by utimens.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git cc make python3
t_user_make || exit 1

label=''

host_git() {
	s_as git -C "$W" "$@"
}

# A command behind the guard that has to end with 0.
does() {
	local name=$1
	shift
	t_ok "$label: $name" s_guarded "$@"
}

same() {
	t_is "$label: $1" "$2" "$3"
}

# Both sides name the same object.
same_ref() {
	same "$1" "$(host_git rev-parse "$2")" \
		"$(s_guarded git rev-parse "$2")"
}

make_repositories() {
	s_repository || exit 1
	s_as git init -q --bare -b main "$BASE/remote.git" &&
		s_as git -C "$M" remote add origin "$BASE/remote.git" &&
		s_as git -C "$M" push -q origin main &&
		s_as git clone -q "$BASE/remote.git" "$BASE/clone" &&
		s_as git -C "$BASE/clone" config user.name Colleague &&
		s_as git -C "$BASE/clone" config user.email c@example.invalid ||
		exit 1
	before=$(t_fingerprint "$M" wt)
}

# Somebody else pushes a commit.
colleague_pushes() {
	s_as sh -c 'cd "$1" && git pull -q && echo "$2" >>colleague &&
		git add -A && git commit -q -m "$2" && git push -q' - \
		"$BASE/clone" "$1"
}

edits() {
	does "edits by redirects, sed and python" sh -c '
		echo four >>docs/guide.txt &&
		sed -i s/Sample/Example/ README.md &&
		python3 -c "
with open(\"src/new.c\", \"w\") as f:
	f.write(\"int new(void);\\n\")
import os
os.rename(\"src/new.c\", \"src/moved.c\")
os.chmod(\"src/moved.c\", 0o755)
" && mkdir -p a/b/c && mv bin/start a/b/c/ && ln -s a/b/c/start start &&
		ln README.md hard && rm guide && touch -d 2020-02-02 Makefile'
	same "the host sees the bytes" "$(tail -1 "$W/docs/guide.txt")" four
	same "and a replaced file" "$(head -1 "$W/README.md")" '# Example'
	same "and a mode" "$(stat -c %a "$W/src/moved.c")" 755
	same "and a link" "$(readlink "$W/start")" a/b/c/start
	same "and a hard link" "$(stat -c %h "$W/hard")" 2
	same "and a time" "$(stat -c %y "$W/Makefile" | cut -c1-10)" 2020-02-02
	t_not "$label: and what is gone" test -L "$W/guide"
	echo from the host >"$W/docs/host"
	s_own "$W/docs/host"
	same "the session sees the host's file" \
		"$(s_guarded cat docs/host)" "from the host"
	does "undoes it" sh -c 'git checkout -q -- . && git clean -fdqx'
	same "git's status is clean" "$(host_git status --porcelain)" ""
}

generator() {
	cat <<-'END'
		import os, sys
		n = int(sys.argv[1])
		for i in range(n):
		    d = f"lib/d{i % 40}"
		    os.makedirs(d, exist_ok=True)
		    with open(f"{d}/f{i}.h", "w") as f:
		        f.write(f"#pragma once\nint f{i}(int);\n")
		    with open(f"{d}/f{i}.c", "w") as f:
		        f.write(f'#include "f{i}.h"\n\n'
		                f"int f{i}(int x)\n{{\n\treturn x + {i};\n}}\n")
		with open("lib/main.c", "w") as f:
		    f.write("#include <stdio.h>\n")
		    for i in range(n):
		        f.write(f'#include "d{i % 40}/f{i}.h"\n')
		    f.write("int main(void)\n{\n\tlong s = 0;\n\n")
		    for i in range(n):
		        f.write(f"\ts += f{i}(1);\n")
		    f.write('\tprintf("%ld\\n", s);\n\treturn 0;\n}\n')
		with open("lib/Makefile", "w") as f:
		    f.write("src := main.c $(wildcard d*/*.c)\n"
		            "prog: $(src:.c=.o)\n\t@echo $^ >objects\n"
		            "\t@$(CC) -o $@ @objects\n"
		            "%.o: %.c\n\t@$(CC) -MMD -c -o $@ $<\n"
		            "-include $(wildcard *.d d*/*.d)\n")
	END
}

builds() {
	local n=$1 s_limit=300
	does "writes a project of $((2 * n)) files" \
		python3 -c "$(generator)" "$n"
	does "builds it" make -C lib -j2
	same "what it built runs" "$(s_guarded lib/prog)" \
		$((n * (n - 1) / 2 + n))
	same "on the host, too" "$(s_as "$W/lib/prog")" \
		$((n * (n - 1) / 2 + n))
	same "the host has the files" \
		"$(find "$W/lib" -name '*.[cho]' | wc -l)" $((3 * n + 2))
	same "there is nothing left to build, on the host" \
		"$(s_as make -C "$W/lib" -q && echo up to date)" "up to date"
	does "changes one file and builds again" sh -c '
		sed -i "s/x + 1;/x + 2;/" lib/d1/f1.c && make -C lib'
	same "which counts" "$(s_guarded lib/prog)" \
		$((n * (n - 1) / 2 + n + 1))
	does "adds it all" git add lib/Makefile 'lib/*.[ch]'
	does "commits it" git commit -q -m "A project"
	same "the host sees the commit" \
		"$(host_git show --stat --format=%s HEAD | head -1)" "A project"
	same "and all of its files" \
		"$(host_git ls-tree -r --name-only HEAD lib | wc -l)" \
		$((2 * n + 2))
	does "removes what was built" git clean -fdqx
	same "the host sees that, too" \
		"$(find "$W/lib" -name '*.o' | wc -l)" 0
}

# Where its registry is, npm knows from the caller's own configuration.
npm_environment() {
	local name
	for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy \
		no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE \
		$(compgen -e | grep -i '^npm_config_'); do
		[ -z "${!name:-}" ] || printf '%s=%s\n' "$name" "${!name}"
	done
}

installs_packages() {
	local settings
	mapfile -t settings < <(npm_environment)
	npm() {
		s_guarded env "${settings[@]}" npm_config_fetch_retries=0 \
			npm_config_fetch_timeout=30000 npm_config_fund=false \
			npm_config_audit=false npm "$@"
	}
	if ! command -v npm >/dev/null; then
		t_skip "$label: npm install" "there is no npm"
		return
	fi
	if ! npm view is-number version >/dev/null 2>&1; then
		t_skip "$label: npm install" "npm's registry can't be reached"
		return
	fi
	printf '{ "name": "sample", "version": "1.0.0" }\n' >"$W/package.json"
	s_own "$W/package.json"
	t_ok "$label: npm install" npm install to-regex-range mkdirp@1
	same "what it installed works" "$(s_guarded node -p \
		'require("to-regex-range")("1", "12")')" '(?:[1-9]|1[0-2])'
	same "on the host, too" "$(cd "$W" && s_as node -p \
		'require("to-regex-range")("1", "12")')" '(?:[1-9]|1[0-2])'
	t_ok "$label: its programs are linked" test -L \
		"$W/node_modules/.bin/mkdirp"
	does "and start" node_modules/.bin/mkdirp x/y/z
	t_ok "$label: npm ci, which removes all first" npm ci
	rm -rf "$W/node_modules" "$W"/package*.json "$W/x"
}

commits() {
	does "git add" sh -c 'echo one >one && git add one'
	does "git commit" git commit -q -m one
	same_ref "the host sees the commit" HEAD
	same "by its words" "$(host_git log -1 --format=%s)" one
	does "git commit --amend" sh -c '
		echo two >>one && git commit -q -a --amend -m "one and two"'
	same "the host sees the other commit" \
		"$(host_git show --format=%s HEAD:one)" "$(printf 'one\ntwo')"
	does "git mv, git rm" sh -c '
		git mv one uno && git rm -q guide && git commit -q -m moved'
	does "git commit with a hook-like editor" env \
		'GIT_EDITOR=sh -c "echo edited >\$1" -' \
		git commit -q --allow-empty
	same "the host sees its words" "$(host_git log -1 --format=%s)" edited
}

exchanges() {
	does "git push -u" git push -q -u origin HEAD
	same "the remote has it" \
		"$(s_as git -C "$BASE/remote.git" rev-parse wt)" \
		"$(host_git rev-parse HEAD)"
	same "as upstream" "$(host_git rev-parse --abbrev-ref '@{u}')" \
		origin/wt
	colleague_pushes first || exit 1
	does "git fetch" git fetch -q
	same_ref "the host sees what was fetched" origin/main
	same "which is the colleague's" \
		"$(host_git log -1 --format=%an origin/main)" Colleague
	does "git rebase" git rebase -q origin/main
	same "the host sees it rebased" \
		"$(host_git merge-base HEAD origin/main)" \
		"$(host_git rev-parse origin/main)"
	does "git push --force-with-lease" git push -q --force-with-lease
	colleague_pushes second || exit 1
	does "git pull --rebase" git pull -q --rebase origin main
	does "git push" git push -q --force-with-lease
	same "the remote has it all" \
		"$(s_as git -C "$BASE/remote.git" rev-parse wt)" \
		"$(s_guarded git rev-parse HEAD)"
}

# Each is a session of its own, and what was stashed before one stays.
stashes() {
	does "git stash and pop" sh -c '
		echo three >>uno && git stash -q &&
		test -z "$(git status --porcelain)" && git stash pop -q'
	same "the host sees the change" "$(host_git status --porcelain)" \
		" M uno"
	does "git stash push -u, apply and drop" sh -c '
		echo x >untracked && git stash -q -u &&
		test -z "$(git status --porcelain)" &&
		git stash apply -q && git stash drop -q'
	same "the host sees both" "$(host_git status --porcelain)" \
		"$(printf ' M uno\n?? untracked')"
	does "git reset --hard" sh -c 'git reset -q --hard && rm untracked'
	same "and no stash" "$(host_git stash list)" ""
	does "git stash" sh -c 'echo three >>uno && git stash -q'
	same "the host sees the stash" "$(host_git stash list | wc -l)" 1
	same "and a clean tree" "$(host_git status --porcelain)" ""
	s_as git -C "$W" stash drop -q
}

branches() {
	does "git branch" git branch topic
	does "git switch" git switch -q topic
	does "commits there" sh -c 'echo t >topic && git add topic &&
		git commit -q -m topic'
	same "the host sees the branch" \
		"$(host_git symbolic-ref --short HEAD)" topic
	does "git switch back" git switch -q wt
	does "git cherry-pick" git cherry-pick topic
	same "the host sees the pick" "$(host_git log -1 --format=%s)" topic
	does "git reset" git reset -q --hard HEAD^
	does "git merge --no-ff" git merge -q --no-ff -m merged topic
	same "the host sees two parents" \
		"$(host_git rev-list --parents -1 HEAD | wc -w)" 3
	does "git branch -d" git branch -q -d topic
	t_not "$label: the host sees it gone" \
		host_git rev-parse -q --verify refs/heads/topic
	does "git switch -c with a remote's" \
		git switch -q -c tracking origin/main
	does "git branch -m" git branch -m tracking tracked
	does "git switch, branch -D" sh -c '
		git switch -q wt && git branch -q -D tracked'
	does "git tag" git tag v1
	does "git tag -a" git tag -a -m "version 2" v2
	same_ref "the host sees the tag" v2
	does "git push --tags" git push -q --tags
	does "git tag -d" git tag -d v1
}

conflicts() {
	does "makes two branches that disagree" sh -c '
		git switch -q -c left && echo left >both && git add both &&
		git commit -q -m left && git switch -q -c right HEAD^ &&
		echo right >both && git add both && git commit -q -m right'
	t_status 1 "$label: git merge has a conflict" \
		s_guarded git merge -q left
	same "the host sees it" "$(host_git status --porcelain)" "AA both"
	does "git merge --abort" git merge --abort
	t_status 1 "$label: git rebase has a conflict" \
		s_guarded git rebase -q left
	does "git rebase --abort" git rebase --abort
	t_status 1 "$label: again" s_guarded git rebase -q left
	does "git rebase --continue" sh -c 'echo both >both && git add both &&
		GIT_EDITOR=true git rebase --continue'
	does "git rebase -i with an exec" env GIT_SEQUENCE_EDITOR=true \
		git rebase -q -i --exec 'test -f both' HEAD^
	does "git bisect" sh -c 'git bisect start HEAD HEAD~2 &&
		git bisect run test ! -f both && git bisect reset'
	same "the host sees it over" \
		"$(host_git symbolic-ref --short HEAD)" right
	does "leaves them" sh -c '
		git switch -q wt && git branch -q -D left right'
}

cleans_up() {
	does "git pack-refs" git pack-refs --all
	does "git repack" git repack -q -a -d
	does "git gc" git gc -q
	does "git gc --auto" git -c gc.auto=1 -c gc.autoDetach=false gc -q --auto
	does "git reflog expire" git reflog expire --expire=now HEAD
	does "git worktree list" git worktree list
	does "git config of a key of its own" \
		git config branch.wt.description words
	t_not "$label: no lock is left" \
		sh -c 'find "$1/.git" -name "*.lock" | grep .' - "$M"
	does "git fsck" git fsck --strict
	same "on the host it says nothing" \
		"$(host_git fsck --strict --no-dangling --no-progress 2>&1)" ""
	same "the host's status is clean" "$(host_git status --porcelain)" ""
	same "and ours" "$(s_guarded git status --porcelain)" ""
}

# `git diff-files` prints what would have to be read again. An index that is no
# older than a file, in whole seconds, proves nothing.
refreshes_nothing() {
	does "writes an index" sh -c '
		for i in 1 2 3 4 5; do echo $i >f$i; done && sleep 1.1 &&
		git add . && git commit -q -m index'
	same "on the host nothing has to be refreshed" \
		"$(host_git diff-files)" ""
	s_as sh -c 'cd "$1" && for i in 1 2 3 4 5; do echo x >f$i; done &&
		sleep 1.1 && git add . && git commit -q -m again' - "$W"
	same "nor here after the host wrote one" \
		"$(s_guarded git diff-files)" ""
	s_as sh -c 'cd "$1" && git update-index -q --really-refresh' - "$M"
	same "nor in main" "$(s_guarded git -C "$M" diff-files)" ""
	same "its status is clean" "$(s_guarded git -C "$M" status \
		--porcelain --untracked-files=no)" ""
	same "and stat says the same of every file" \
		"$(s_guarded sh -c "$numbers" - "$M")" \
		"$(s_as sh -c "$numbers" - "$M")"
}

numbers='cd "$1" && find . -path "./.git/*" -prune -o -printf \
	"%p %i %y %m %n %s %b %T@ %C@ %U %G %l\n" | sort'

# Objects that a clone shares by hard link stay shared: git freshens them by
# their times, and that is no change of their data.
freshens() {
	local W=$BASE/linked/wt M=$BASE/linked object links
	s_as git clone -q --local "$BASE/main" "$M" &&
		s_as git -C "$M" config user.name Tester &&
		s_as git -C "$M" config user.email t@example.invalid &&
		s_as git -C "$M" worktree add -q "$W" || exit 1
	links='cd "$1" && find . -type f -links +1 -printf "%p %i\n" | sort'
	object=$(s_as git -C "$M" rev-parse HEAD:README.md)
	object=$M/.git/objects/${object:0:2}/${object:2}
	if [ ! -e "$object" ] || [ "$(stat -c %h "$object")" -lt 2 ]; then
		t_skip "$label: hard-linked objects" "this clone has none"
		return
	fi
	touch -d 2020-02-02 "$object"
	links=$(sh -c "$links" - "$M/.git/objects")
	does "freshens an object that has another link" \
		git hash-object -w README.md
	same "its time is new" "$(stat -c %y "$object" | cut -c1-4)" \
		"$(date +%Y)"
	does "commits what needs it" git commit -q --allow-empty -m fresh
	same "it is the same file as ever" "$(stat -c %i "$object")" \
		"$(stat -c %i "$BASE/main/${object#"$M/"}")"
	same "and so are all the others" "$(sh -c 'cd "$1" && find . -type f \
		-links +1 -printf "%p %i\n" | sort' - "$M/.git/objects")" \
		"$links"
}

# What git does, in a session each, or all of it in one that lives on.
uses_git() {
	commits
	exchanges
	stashes
	branches
	conflicts
	refreshes_nothing
	cleans_up
}

main_is_untouched() {
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
	same "its branch, too" "$(s_as git -C "$M" rev-parse HEAD)" \
		"$(s_as git -C "$M" rev-parse origin/main~2)"
	same "and its status" "$(s_as git -C "$M" status --porcelain)" "?? wt/"
}

check_native() {
	local before
	s_be "$1"
	label=$1
	run_options=()
	make_repositories
	freshens
	edits
	installs_packages
	uses_git
	builds "$2"
	main_is_untouched
	s_clear "nothing is left"
}

# The worktree through FUSE, too, and one session for all of it.
check_fuse() {
	local before
	s_be "$1" "$1-fuse"
	label="$1, through FUSE"
	run_options=(--native none)
	make_repositories
	s_hold long --native none
	run_options=(-n long)
	edits
	installs_packages
	uses_git
	builds 200
	main_is_untouched
	s_release
	s_clear "nothing is left"
}

[ "$(id -u)" -ne 0 ] || check_native root 100
check_native user 1000
check_fuse user
t_done

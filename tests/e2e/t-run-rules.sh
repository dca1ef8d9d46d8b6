#!/bin/bash
# Rules: given on the command line, standing in the repository's config, and
# those that every session has; for repositories of every shape. Those of the
# contract's lines that once went wrong:
#   - standing rules come from the repository's own config alone
#   - W/.git may be a symlink to A: never bind through it
#   - each root is stat'ed before exec
#   - names from a view's root to a native mount point are pinned
#   - ids that the namespace doesn't map are reported as the session's own;
#     mountctl makes git's ownership check itself
#   - the kernel's own checks come first
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 setpriv unshare
t_user_make || exit 1

ok() {
	t_ok "$who: $1" "${@:2}"
}

refused() {
	t_errno "$1" "$who: $2" "${@:3}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# What mountctl itself refuses: one line that matches $2.
fails() {
	t_status 125 "$who: $1" "${@:3}"
	t_like "$who: and says so" "$T_STDERR" "^mountctl: .*$2"
	t_is "$who: in one line" "$(wc -l <<<"$T_STDERR")" 1
}

# OPTION... -- SCRIPT: behind run, in W, where $M, $W and $B are known.
# shellcheck disable=SC2317 # called by way of ok and refused
with() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	(cd "$W" && s_mountctl run "${options[@]}" -- \
		env "M=$M" "W=$W" "B=$BASE" sh -c "$2")
}

# All but the worktree and what git keeps; times of directories apart.
listing() {
	(cd "$BASE" && find . -path ./main/wt -prune -o -path ./main/.git \
		-prune -o -printf '%p %y %m %U %l\n' -type f -exec md5sum {} \; |
		sort)
}

unchanged() {
	same "$1" "$(listing)" "$before"
}

# A new repository for who acts; $1 becomes the directory's name.
fresh() {
	s_be "$who" "$who-$1"
	s_repository || exit 1
	s_own "$BASE"
	before=$(listing)
}

given_rules() {
	fresh given
	s_as mkdir "$BASE/other" && s_as touch "$BASE/other/f" &&
		s_as ln -s start "$M/bin/link" || exit 1
	ok "--rw opens a directory" with --rw docs -- \
		'echo x >"$M/docs/new" && rm "$M/docs/new"'
	ok "--rw opens a file" with --rw README.md -- 'echo x >>"$M/README.md"'
	refused EROFS "and not its neighbour" \
		with --rw README.md -- 'echo x >>"$M/Makefile"'
	refused EROFS "nor is it replaced: its directory isn't open" \
		with --rw README.md -- 'echo x >"$W/r" && mv "$W/r" "$M/README.md"'
	ok "an absolute --rw" with --rw "$M/docs" -- 'touch "$M/docs/guide.txt"'
	ok "one outside of main says nothing new" \
		with --rw "$BASE" -- 'touch "$B/x" && rm "$B/x"'
	refused EROFS "nor does it open main" \
		with --rw "$BASE" -- 'touch "$M/x"'
	refused EROFS "--ro closes a directory of the worktree" \
		with --ro wt/src -- 'touch src/new'
	ok "which is still read" with --ro wt/src -- 'cat src/main.c'
	refused EROFS "--ro closes a file of the worktree" \
		with --ro "$W/README.md" -- 'echo x >>README.md'
	ok "and nothing beside it" with --ro "$W/README.md" -- 'touch x && rm x'
	refused EROFS "--ro within --rw" with --rw docs --ro docs/guide.txt -- \
		'touch "$M/docs/new" && rm "$M/docs/new" &&
			echo x >"$M/docs/guide.txt"'
	ok "--rw within --ro within the worktree" \
		with --ro wt/src --rw wt/src/util.c -- 'echo x >>src/util.c'
	refused EROFS "--ro of a tree outside" \
		with --ro "$BASE/other" -- 'touch "$B/other/x"'
	refused EACCES "--none: no file is opened" \
		with --none docs -- 'cat "$M/docs/guide.txt"'
	refused EACCES "--none: no directory is listed" \
		with --none docs -- 'ls "$M/docs"'
	refused EACCES "--none: no link is read" \
		with --none bin -- 'python3 -c "import os; os.readlink(\"$M/bin/link\")"'
	refused EACCES "--none of a link hides what it leads to" \
		with --none guide -- 'cat "$M/docs/guide.txt"'
	refused EACCES "--none: no attribute is read" with --none docs -- \
		'python3 -c "import os; os.listxattr(\"$M/docs/guide.txt\")"'
	refused EACCES "--none: nothing is changed" \
		with --none docs -- 'rm -f "$M/docs/guide.txt"'
	refused EACCES "--none: nothing is made" \
		with --none docs -- 'touch "$M/docs/new"'
	ok "--none: names resolve and stat answers" \
		with --none docs -- 'test -s "$M/docs/guide.txt"'
	refused EACCES "--none in the worktree" \
		with --none wt/src -- 'cat src/main.c'
	refused EACCES "--none of a tree outside" \
		with --none "$BASE/other" -- 'ls "$B/other"'
	ok "--rw within --none" with --none docs --rw docs/open -- \
		'mkdir "$M/docs/open" && touch "$M/docs/open/x"'
	refused EACCES "whose name is the outer rule's" \
		with --none docs --rw docs/open -- 'rm -r "$M/docs/open"'
	rm -rf "$M/docs/open"
	ok "--native serves the real directory" \
		with --native docs -- 'cat "$M/docs/guide.txt"'
	refused EROFS "--native carries its rule's access" \
		with --native docs -- 'touch "$M/docs/new"'
	ok "--native of an rw tree" with --rw docs --native docs -- \
		'touch "$M/docs/new" && rm "$M/docs/new"'
}

# A rule for what isn't there yet, while the host makes it.
later_rules() {
	fresh later
	s_hold later --ro wt/closed --none wt/hidden --rw docs/open \
		--rw a/b/c --ro docs/open/part
	unchanged "nothing was made for rules on what isn't there"
	same "nor in the worktree" "$(s_as git -C "$W" status --porcelain)" ""
	refused EROFS "a name that shall be ro can't be made" \
		s_in later mkdir "$W/closed"
	refused EACCES "nor one that shall be none" \
		s_in later touch "$W/hidden"
	refused EROFS "a name that shall be rw isn't a file's to take" \
		s_in later touch "$M/docs/open"
	refused EROFS "nor a link's" s_in later ln -s /tmp "$M/docs/open"
	s_as sh -c 'mkdir "$1/closed" "$1/hidden" "$2/docs/open" &&
		echo x >"$1/closed/f" && echo x >"$1/hidden/f"' - "$W" "$M"
	sleep 1.1
	refused EROFS "once it is there, ro holds" \
		s_in later sh -c "echo x >>'$W/closed/f'"
	same "and it is read" "$(s_in later cat "$W/closed/f")" x
	refused EACCES "once it is there, none holds" \
		s_in later cat "$W/hidden/f"
	ok "once it is there, rw holds" s_in later touch "$M/docs/open/f"
	refused EROFS "and a rule within it" \
		s_in later mkdir "$M/docs/open/part"
	refused EBUSY "a rule's own name stays" s_in later rmdir "$W/closed"
	refused EBUSY "under that name" s_in later mv "$W/hidden" "$W/seen"
	ok "missing directories above an rw name are made" \
		s_in later mkdir -p "$M/a/b/c/d"
	ok "things in it, too" s_in later touch "$M/a/b/c/d/f"
	t_ok "$who: the host sees them" test -e "$M/a/b/c/d/f"
	refused EROFS "nothing else in those above" \
		s_in later touch "$M/a/b/f"
	refused EROFS "not even a directory" s_in later mkdir "$M/a/other"
	rm -r "$W/closed" "$W/hidden" "$M/docs/open" "$M/a"
	sleep 1.1
	ok "gone again, they can be made again" s_in later mkdir -p "$M/a/b/c"
	s_release
	rm -r "$M/a"
}

shared_directories() {
	local shared=.vinta-ai-workflows
	fresh shared
	ok "a session does nothing" with -- true
	unchanged "and nothing is made for the shared directory"
	refused EROFS "a file of its name is refused" \
		with -- "echo x >\"\$M/$shared\""
	refused EROFS "and a link" with -- "ln -s /tmp \"\$M/$shared\""
	refused EROFS "and a move onto it" \
		with -- "echo x >f && mv -T f \"\$M/$shared\""
	refused ENOENT "below it there is nothing yet" \
		with -- "mkdir \"\$M/$shared/a\""
	ok "mkdir passes" with -- "mkdir \"\$M/$shared\""
	ok "what is in it is writable" with -- "cd \"\$M/$shared\" &&
		mkdir -p a/b && echo x >a/b/f && ln -s f a/b/l &&
		mv a/b/f a/b/g && rm a/b/l"
	same "the host sees it" "$(cat "$M/$shared/a/b/g")" x
	refused EROFS "the directory itself stays" \
		with -- "rm -r \"\$M/$shared\""
	t_not "$who: though not what was in it" test -e "$M/$shared/a"
	rmdir "$M/$shared"
	unchanged "else nothing was changed"

	s_as git -C "$M" config worktreefs.shared notes/shared
	ok "a shared name of several parts is made in one go" \
		with -- 'mkdir -p "$M/notes/shared" && touch "$M/notes/shared/f"'
	refused EROFS "the default is replaced by it" \
		with -- "mkdir \"\$M/$shared\""
	ok "--shared is added to it" with --shared more -- \
		'mkdir "$M/more" && touch "$M/more/f" "$M/notes/shared/g"'
	rm -r "$M/notes" "$M/more"
	local name
	for name in .. a/../../x /tmp . .git ../main/.git; do
		s_as git -C "$M" config worktreefs.shared "$name"
		fails "'$name' can't be shared" "'$name' can't be a shared" \
			with -- true
	done
	s_as git -C "$M" config --unset worktreefs.shared
	unchanged "and nothing is left of it"
}

standing_rules() {
	fresh standing
	s_as mkdir "$BASE/other" || exit 1
	s_as git -C "$M" config worktreefs.rw docs
	s_as git -C "$M" config worktreefs.ro wt/src
	s_as git -C "$M" config worktreefs.none bin
	s_as git -C "$M" config --add worktreefs.none "$BASE/other"
	ok "worktreefs.rw" with -- 'touch "$M/docs/new" && rm "$M/docs/new"'
	refused EROFS "worktreefs.ro" with -- 'touch src/main.c'
	refused EACCES "worktreefs.none" with -- 'cat "$M/bin/start"'
	refused EACCES "worktreefs.none with an absolute path" \
		with -- 'ls "$B/other"'
	ok "the command line is stronger" \
		with --none docs --rw bin -- 'cat "$M/bin/start"'
	refused EACCES "in either way" \
		with --none docs -- 'cat "$M/docs/guide.txt"'
	s_as git -C "$M" config --remove-section worktreefs

	local config
	config=$(printf '[worktreefs]\n\trw = docs\n\tshared = docs')
	printf '%s\n' "$config" >"$BASE/config"
	refused EROFS "the user's own configuration makes no rules" \
		with_config global
	refused EROFS "nor one that is named in the environment" \
		with_config GIT_CONFIG_GLOBAL
	refused EROFS "nor the system's" with_config GIT_CONFIG_SYSTEM
	refused EROFS "nor one that is in the environment" \
		with_config GIT_CONFIG_COUNT
	refused EROFS "nor another repository's" with_config GIT_DIR
	s_as git -C "$M" config include.path "$BASE/config"
	refused EROFS "nor one that is included" \
		with -- 'touch "$M/docs/new"'
	s_as git -C "$M" config --unset include.path
	s_as git -C "$M" config extensions.worktreeConfig true
	s_as git -C "$W" config --worktree worktreefs.rw docs
	refused EROFS "nor the worktree's own" with -- 'touch "$M/docs/new"'
	rm "$BASE/config"
}

# shellcheck disable=SC2317 # called by way of refused
with_config() {
	local settings=()
	case $1 in
	global)
		settings=("HOME=$BASE/home")
		mkdir -p "$BASE/home"
		cp "$BASE/config" "$BASE/home/.gitconfig"
		s_own "$BASE/home"
		;;
	GIT_CONFIG_COUNT)
		settings=(GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=worktreefs.rw
			GIT_CONFIG_VALUE_0=docs)
		;;
	GIT_DIR)
		rm -rf "$BASE/evil"
		s_as git init -q "$BASE/evil"
		cat "$BASE/config" >>"$BASE/evil/.git/config"
		settings=("GIT_DIR=$BASE/evil/.git")
		;;
	*) settings=("$1=$BASE/config") ;;
	esac
	(cd "$W" && s_as env "${settings[@]}" "$T_MOUNTCTL" run -- \
		touch "$M/docs/new")
}

other_worktrees() {
	fresh siblings
	t_worktree "$M" "$M/nested" && t_worktree "$M" "$BASE/beside" &&
		t_worktree "$M" "$W/inner" || exit 1
	s_own "$BASE"
	local place
	for place in "$M/nested" "$BASE/beside" "$W/inner"; do
		refused EROFS "another worktree is read-only: ${place##*/}" \
			with -- "touch '$place/x'"
		refused EROFS "so is what is in it" \
			with -- "echo x >>'$place/src/main.c'"
		ok "and it is read" with -- "cat '$place/src/main.c'"
		refused EROFS "and its pointer stays" with -- \
			"echo x >>'$place/.git'"
	done
	ok "its own is writable" with -- 'touch x && rm x'
	ok "--rw opens one" with --rw "$BASE/beside" -- \
		"touch '$BASE/beside/x' && rm '$BASE/beside/x'"
	local W=$BASE/beside
	ok "a worktree outside of main is writable" with -- 'touch x && rm x'
	refused EROFS "main isn't" with -- 'touch "$M/x"'
	refused EROFS "nor is the other one" with -- 'touch "$M/wt/x"'
	refused EROFS "its pointer stays" with -- 'echo x >>.git'
	refused EBUSY "by its name" with -- 'rm -f .git'
	ok "a commit lands" with -- \
		'git commit -q --allow-empty -m outside'
	same "on the host" "$(s_as git -C "$W" log -1 --format=%s)" outside
	rm -rf "$BASE/gone"
	t_worktree "$M" "$BASE/gone" && s_own "$M/.git" && rm -r "$BASE/gone"
	ok "one that is gone is no matter" with -- true
}

# M, W, and G elsewhere: refused and passing, as everywhere.
guards() {
	refused EROFS "$1: main is read-only" with "${@:2}" -- 'touch "$M/x"'
	refused EROFS "$1: what is in it, too" \
		with "${@:2}" -- 'echo x >"$M/README.md"'
	ok "$1: the worktree is writable" with "${@:2}" -- 'date +%s%N >own'
	ok "$1: a commit lands" with "${@:2}" -- \
		'git add own && git commit -q -m landed'
	same "$1: on the host" "$(s_as git -C "$W" log -1 --format=%s)" landed
	refused EROFS "$1: the pointer stays" with "${@:2}" -- 'echo x >>.git'
	ok "$1: git finds nothing wrong" with "${@:2}" -- \
		'git fsck && git status'
	same "$1: main is on its branch" \
		"$(s_as git -C "$M" log -1 --format=%s)" 'sample: first files'
}

shapes() {
	s_be "$who" "$who-separate"
	t_repo "$M" && mv "$M/.git" "$BASE/git-dir" &&
		git init -q --separate-git-dir "$BASE/git-dir" "$M" &&
		t_worktree "$M" "$W" || exit 1
	s_own "$BASE"
	fails "a separate git directory doesn't tell where main is" \
		"--main" with -- true
	guards "separate git directory" --main "$M"
	W=$BASE/beside
	git -C "$M" worktree add -q -b beside "$W" ||
		exit 1
	s_own "$BASE"
	guards "separate git directory, worktree beside" --main "$M"

	s_be "$who" "$who-submodule"
	t_repo "$BASE/library" && t_repo "$BASE/super" &&
		git -c protocol.file.allow=always -C "$BASE/super" \
			submodule --quiet add "$BASE/library" sub &&
		git -C "$BASE/super" commit -q -m submodule || exit 1
	M=$BASE/super/sub
	W=$BASE/wt
	git -C "$M" config user.name Tester
	git -C "$M" config user.email tester@example.invalid
	t_worktree "$M" "$W" || exit 1
	s_own "$BASE"
	guards "submodule"
	ok "submodule: what is around it isn't its main" \
		with -- 'touch "$M/../x" && rm "$M/../x"'
	# The worktree of what is around it has that as its main.
	M=$BASE/super
	W=$M/wt
	git -C "$M" worktree add -q -b wt "$W" || exit 1
	s_own "$BASE"
	refused EROFS "a submodule in main is read-only, too" \
		with -- 'touch "$M/sub/x"'

	fresh relative
	printf 'gitdir: ../.git/worktrees/wt\n' >"$W/.git"
	guards "a relative pointer"
	printf '../../../wt/.git\n' >"$M/.git/worktrees/wt/gitdir"
	guards "relative pointers, both ways"

	fresh annex
	rm "$W/.git"
	ln -s "$M/.git/worktrees/wt" "$W/.git"
	s_own "$W/.git"
	refused EROFS "annex: main is read-only" with -- 'touch "$M/x"'
	ok "annex: a commit lands" with -- \
		'echo x >own && git add own && git commit -q -m annex'
	ok "annex: what the pointer leads to is writable" \
		with -- 'touch .git/x && rm .git/x'
	refused EROFS "annex: but for the pointers in it" \
		with -- 'echo x >>.git/gitdir'
	ok "annex: the link is the same afterwards" test -L "$W/.git"
	t_run with -- 'rm -f .git && echo forged >.git'
	t_ok "$who: annex: and can't be replaced" test -L "$W/.git"
}

bare_repositories() {
	s_be "$who" "$who-bare"
	t_repo "$BASE/seed" && git clone -q --bare "$BASE/seed" "$M.git" &&
		git -C "$M.git" config user.name Tester &&
		git -C "$M.git" config user.email tester@example.invalid &&
		git -C "$M.git" worktree add -q -b one "$BASE/one" &&
		git -C "$M.git" worktree add -q -b two "$BASE/two" || exit 1
	s_own "$BASE"
	W=$BASE/one
	ok "bare: the worktree is writable" with -- 'echo x >own'
	ok "bare: a commit lands" with -- \
		'git add own && git commit -q -m bare'
	same "bare: on the host" \
		"$(s_as git -C "$M.git" log -1 --format=%s one)" bare
	refused EROFS "bare: the other worktree is read-only" \
		with -- 'touch "$B/two/x"'
	refused EROFS "bare: its own pointer stays" with -- 'echo x >>.git'
	refused EROFS "bare: what points back stays" \
		with -- 'echo x >>"$M.git/worktrees/one/gitdir"'
	ok "bare: --root for all of it" \
		with --root "$BASE" --worktree "$W" --none seed -- 'touch x'
	refused EACCES "bare: hides what it shall" \
		with --root "$BASE" --worktree "$W" --none seed -- \
		'ls "$B/seed"'
	refused EROFS "bare: and guards the rest" \
		with --root "$BASE" --worktree "$W" --none seed -- \
		'touch "$B/two/x"'
}

any_root() {
	s_be "$who" "$who-root"
	local R=$BASE/space
	mkdir -p "$R"/{mine,theirs,lib}
	echo x | tee "$R"/{mine,theirs,lib}/f >/dev/null
	s_own "$BASE"
	W=$R/mine
	local rules=(--root "$R" --none theirs --ro lib)
	ok "--root: what no rule names is writable" \
		with "${rules[@]}" -- 'touch f && touch ../new && rm ../new'
	refused EACCES "--root: --none" with "${rules[@]}" -- 'cat ../theirs/f'
	refused EROFS "--root: --ro" with "${rules[@]}" -- 'echo x >../lib/f'
	rules=(--root "$R" --ro "$R" --rw mine --none theirs/f)
	ok "--root: --ro of all, --rw of a part" with "${rules[@]}" -- 'touch x'
	refused EROFS "--root: the rest is read-only" \
		with "${rules[@]}" -- 'touch ../x'
	refused EACCES "--root: a file is hidden" \
		with "${rules[@]}" -- 'cat ../theirs/f'
	ok "--root: its neighbours are there" \
		with "${rules[@]}" -- 'ls ../theirs'
	rules=(--root "$R" --ro .)
	refused EROFS "--root: '.' is the root" with "${rules[@]}" -- 'touch x'
	refused EBUSY "--root: a rule's name stays" \
		with --root "$R" --ro lib -- 'mv ../lib ../other'
	s_be "$who" "$who-root-too"
	s_repository && s_own "$BASE" || exit 1
	ok "--root above a repository, with its worktree" \
		with --root "$BASE" --worktree "$W" -- 'touch "$B/x" && rm "$B/x"'
	refused EROFS "--root: main is guarded in it" \
		with --root "$BASE" --worktree "$W" -- 'touch "$M/x"'
	refused EROFS "--root: paths are relative to it" \
		with --root "$BASE" --worktree "$W" --ro main/wt/src -- \
		'touch src/x'
	ok "--root above worktreefs' own directories, too" \
		with --root "$T_SCRATCH" --worktree "$W" -- 'touch x'
	refused EROFS "--root: what it guards stays guarded" \
		with --root "$T_SCRATCH" --worktree "$W" -- 'touch "$M/x"'
	ok "--root: a commit lands" with --root "$BASE" --worktree "$W" -- \
		'git commit -q --allow-empty -m x'
}

# A session that makes its worktrees as it goes, from within main.
orchestrated() {
	s_be "$who" "$who-orchestrator"
	s_repository || exit 1
	s_own "$BASE"
	local W=$M
	local D
	for D in "$BASE/trees" "$M/.trees/agents"; do
		local rules=(--worktrees-dir "$D")
		before=$(listing)
		ok "--worktrees-dir: starts in main" with "${rules[@]}" -- true
		unchanged "--worktrees-dir: nothing is made for it"
		refused EROFS "--worktrees-dir: main is read-only" \
			with "${rules[@]}" -- 'touch x'
		refused EROFS "--worktrees-dir: a worktree elsewhere, too" \
			with "${rules[@]}" -- 'touch wt/x'
		ok "--worktrees-dir: a worktree is made, and used" \
			with "${rules[@]}" -- "git worktree add -q -b '${D##*/}' \
			'$D/one' && cd '$D/one' && echo x >own &&
			git add own && git commit -q -m orchestrated"
		same "--worktrees-dir: the host sees the commit" \
			"$(s_as git -C "$D/one" log -1 --format=%s)" orchestrated
		ok "--worktrees-dir: a later session uses it" \
			with "${rules[@]}" -- "cd '$D/one' &&
			git commit -q --allow-empty -m again"
		ok "--worktrees-dir: and removes it" with "${rules[@]}" -- \
			"git worktree remove '$D/one'"
		t_not "$who: --worktrees-dir: which the host sees" \
			test -e "$D/one"
		rm -rf "$D"
	done
	fails "--worktrees-dir: not above main" "worktrees-dir '$BASE'" \
		with --worktrees-dir "$BASE" -- true
	fails "in main alone there is no session" \
		'--worktree DIR.*--worktrees-dir DIR' with -- true
}

kernel_first() {
	fresh kernel
	refused EEXIST "the kernel's EEXIST comes first" \
		with -- 'mkdir "$M/src"'
	refused EISDIR "and EISDIR" with -- 'echo x >"$M/src"'
	refused ENOENT "and ENOENT" with -- 'rm "$M/nothing"'
	refused ENOTDIR "and ENOTDIR" with -- 'touch "$M/README.md/x"'
	refused EXDEV "and EXDEV" with -- \
		'python3 -c "import os; os.rename(\"$M/README.md\", \"$W/r\")"'
	[ "$who" = root ] || refused EPERM "and EPERM for trusted attributes" \
		with -- 'python3 -c "
import os
os.setxattr(\"$M/README.md\", \"trusted.x\", b\"x\")"'
	refused EROFS "and no file is made in what isn't there yet" \
		with -- 'touch "$M/nothing"'
}

first_write() {
	fresh first
	(cd /; s_mountctl run --main "$M" --worktree "$W" -- \
		mkdir "$M/.vinta-ai-workflows") >/dev/null
	t_ok "$who: the first thing that a session does may be a write" \
		test -d "$M/.vinta-ai-workflows"
	ok "to a rule's file, too" sh -c 'cd / && "$@"' - "${as[@]}" \
		"$T_MOUNTCTL" run --main "$M" --worktree "$W" --rw README.md -- \
		python3 -c 'open("'"$M"'/README.md", "a")'
}

# A lookup that fails, or finds another inode, would detach what is mounted.
pinned_names() {
	fresh pinned
	s_hold pinned
	local device
	device=$(s_as stat -c %d "$W")
	same "the worktree is the real directory" \
		"$(s_in pinned stat -c %d "$W")" "$device"
	ok "work in it" s_in pinned touch x
	mv "$W" "$M/moved"
	sleep 1.2
	same "moved away by the host, it is where it was" \
		"$(cd / && s_mountctl run -n pinned -- stat -c %d "$W")" \
		"$device"
	t_run s_as true
	ok "and writable" sh -c 'cd / && "$@"' - "${as[@]}" "$T_MOUNTCTL" run \
		-n pinned -- touch "$W/y"
	t_ok "$who: as the host sees" test -e "$M/moved/y"
	mkdir "$W"
	s_own "$W"
	sleep 1.2
	same "another in its place changes nothing" \
		"$(cd / && s_mountctl run -n pinned -- ls "$W/y")" "$W/y"
	rmdir "$W"
	mv "$M/moved" "$W"
	refused EROFS "its pointer is held all the while" \
		s_in pinned sh -c 'echo x >>.git'
	[ "$(id -u)" -ne 0 ] || echo 2 >/proc/sys/vm/drop_caches 2>/dev/null
	sleep 1.2
	same "and so it stays" "$(s_in pinned stat -c %d "$W")" "$device"
	s_release
}

# A repository of root's that a group works in. Needs root.
shared_by_group() {
	s_be root group
	s_repository || exit 1
	local gid=60321
	local member=(setpriv "--reuid=$T_USER" "--regid=$(id -g "$T_USER")"
		--groups="$gid" "${T_AS_USER[@]:4}")
	git -C "$M" config core.sharedRepository group
	git -C "$M" worktree remove --force "$W"
	chgrp -R "$gid" "$M" && chmod -R g+rwX "$M" &&
		find "$M" -type d -exec chmod g+s {} + || exit 1
	rm -rf "$T_USER_HOME/.gitconfig"
	t_as_user git config --global safe.directory '*'
	W=$BASE/wt
	chmod 0777 "$BASE"
	"${member[@]}" git -C "$M" worktree add -q -b group "$W" || exit 1
	local as=("${member[@]}")
	who="a group's member"
	ok "a commit lands in a repository shared by group" with -- \
		'echo x >own && git add own && git commit -q -m group'
	same "on the host" "$(git -C "$M" log -1 --format=%s group)" group
	ok "git gc, too" with -- 'git gc -q && git fsck'
	ok "the shared directory, too" \
		with -- 'mkdir "$M/.vinta-ai-workflows" &&
			echo x >"$M/.vinta-ai-workflows/x"'
	rm -r "$M/.vinta-ai-workflows"
	before=$(t_fingerprint "$M")
	refused EROFS "main is read-only" with -- 'echo x >"$M/README.md"'
	ok "git takes the owner for the session's own" \
		with -- 'test "$(stat -c %u "$M/.git")" = "$(id -u)"'
	rm "$T_USER_HOME/.gitconfig"
	fails "without safe.directory it is refused, as by git" \
		'safe\.directory' with -- true
	same "main is what it was" "$(t_fingerprint "$M")" "$before"
}

# In a mount namespace with a configuration of its own. Needs root.
ssh_configuration() {
	if ! command -v ssh >/dev/null || ! [ -d /etc/ssh/ssh_config.d ] ||
		! grep -q '^Include /etc/ssh/ssh_config.d' /etc/ssh/ssh_config
	then
		t_skip "user: ssh reads root's configuration" \
			"there is no ssh that includes one"
		return
	fi
	s_be user
	fresh ssh
	t_is "user: ssh reads root's configuration" "$(cd "$W" &&
		unshare -m sh -c '
			mount -t tmpfs -o mode=755 none /etc/ssh/ssh_config.d
			echo "Port 2222" >/etc/ssh/ssh_config.d/a.conf
			exec "$@"' - "${as[@]}" "$T_MOUNTCTL" run -- \
		ssh -G host 2>&1 | grep -E '^port|owner')" 'port 2222'
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	given_rules
	later_rules
	shared_directories
	standing_rules
	other_worktrees
	shapes
	bare_repositories
	any_root
	orchestrated
	kernel_first
	first_write
	pinned_names
	s_clear "nothing is left"
done
if [ "$(id -u)" -eq 0 ]; then
	shared_by_group
	ssh_configuration
fi
t_done

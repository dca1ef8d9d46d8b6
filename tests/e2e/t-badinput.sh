#!/bin/bash
# What can't be: mountctl says so in one clear line (a second one, indented, may
# tell how to mend it), with status 2, or 125 where it is run that was asked for,
# and leaves nothing behind, neither record nor process nor mount nor file.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

listing() {
	(cd "$BASE" && find . -printf '%p %y %m %l\n' | sort)
}

# One line that has REGEX in it, no other, nothing on stdout, nothing left.
says() {
	local status=$1 name=$2 regex=$3 before after
	shift 3
	before=$(listing)
	t_run s_mountctl "$@"
	after=$(listing)
	if [ "$T_STATUS" -eq "$status" ] && [ -z "$T_STDOUT" ] &&
		[[ $T_STDERR == "mountctl: "* ]] &&
		[ "$(grep -vc '^  ' <<<"$T_STDERR")" -eq 1 ] &&
		head -1 <<<"$T_STDERR" | grep -qE -- "$regex" &&
		! grep -q '[[:cntrl:]]' <<<"$T_STDERR" &&
		[ "$before" = "$after" ] && [ -z "$(s_records)" ]; then
		t_pass "$who: $name"
		return
	fi
	t_fail "$who: $name"
	t_diag "wanted:  status $status, one line like $regex"
	t_diag "left:    $(diff <(echo "$before") <(echo "$after")) $(s_records)"
	t_explain mountctl "$@"
	s_records | while read -r before; do
		s_mountctl unmount --lazy "$before"
	done
}

# The same of run, which has a status of its own, and of mount.
both() {
	local name=$1 regex=$2
	shift 2
	says 125 "run: $name" "$regex" run "$@" -- true
	says 2 "mount: $name" "$regex" mount "$@"
}

rules() {
	local path=$M/docs
	both "--rw and --ro on one path" "'$path'.*'rw'.*'ro'" \
		--rw docs --ro docs
	both "--rw and --none" "'$path'.*'none'" --none docs --rw docs
	both "however it is spelled" "'$path'" \
		--rw docs --ro "$BASE/main/./src/../docs/"
	both "or reached" "'$path/guide.txt'" --rw guide --ro docs/guide.txt
	both "--ro outside, of what isn't there" \
		"'$BASE/nothing' doesn't exist" --ro "$BASE/nothing"
	both "--none, too" "'$BASE/nothing' doesn't exist" \
		--none "$BASE/nothing"
	both "--none of a file outside" "'$BASE/file'.*'none'" \
		--none "$BASE/file"
	s_as ln -s ../docs "$W/link"
	both "--rw through a link that sessions can change" \
		"'$W/link'.*'$path'" --rw wt/link
	rm "$W/link"
	s_as ln -s loop "$W/loop"
	says 125 "run: a rule on a link to itself" "'wt/loop'.*symbolic links" \
		run --ro wt/loop -- true
	rm "$W/loop"
	both "a rule on nothing" "empty" --rw ''
	both "a word that isn't one" "'maybe'" --git-guard maybe
	both "another" "'maybe'" --git-config=maybe
	both "another" "'maybe'" --hardlinks=maybe
	both "another" "'maybe'" --symlinks=maybe
	both "a shared name that leads out" "'\\.\\./x' can't be a shared" \
		--shared ../x
	both "a shared name of git's" "'\\.git' can't be a shared" --shared .git
	says 125 "run: --native of what is hidden" "'$path'.*'none'" \
		run --none docs --native docs -- true
	says 125 "run: --native of what isn't there" "'$M/nothing'" \
		run --native nothing -- true
	says 125 "run: --native of a file" "'$M/README.md'.*directory" \
		run --native README.md -- true
	says 2 "mount: --native" "--native" mount --native none
	says 125 "run: a fallback that isn't one" "'maybe'" \
		run --fallback maybe -- true
	s_as git -C "$M" config worktreefs.rw docs
	s_as git -C "$M" config worktreefs.ro docs
	both "the config at odds with itself" "'$path'.*worktreefs.ro" -n x
	s_as git -C "$M" config --remove-section worktreefs
	cp "$M/.git/config" "$BASE/saved"
	echo '[broken' >>"$M/.git/config"
	both "a config that git can't read" "config" -n x
	cat "$BASE/saved" >"$M/.git/config"
	rm "$BASE/saved"
}

places() {
	both "a root that is a file" "'$M/README.md'.*Not a directory" \
		--root "$M/README.md"
	both "a root that isn't there" "'$BASE/nothing'.*No such file" \
		--root "$BASE/nothing"
	both "the root directory as root" "'/'" --root / --ro /etc
	both "a main that is none" "'$BASE'" --main "$BASE"
	both "a main that isn't there" "'$BASE/nothing'" \
		--main "$BASE/nothing"
	both "a directory of main as main" "'$M/src'.*'$M'" --main "$M/src"
	both "a worktree as main" "'$W'" --main "$W"
	both "a worktree that isn't there" "'$BASE/nothing'" \
		--worktree "$BASE/nothing"
	both "a directory that is no worktree" "'$M/src'" --worktree "$M/src"
	both "main as worktree" "'$M'" --worktree "$M"
	both "another repository's worktree" "'$BASE/alien/wt'" \
		--main "$M" --worktree "$BASE/alien/wt"
	both "a worktree and a place for them" "--worktrees-dir" \
		--worktree "$W" --worktrees-dir "$BASE/trees"
	both "a place for worktrees above main" "worktrees-dir" \
		--worktrees-dir "$BASE"
	both "main as that place" "worktrees-dir" --worktrees-dir "$M"
	local place
	for place in "$M/view" "$M/docs" "$M" "$W/view" "$M/.git/view" \
		"$M/docs/../view" "$BASE/link-to-main/view"; do
		says 2 "mount: a mount point in the root: ${place#"$BASE/"}" \
			"'.*/main.*contain" mount --at "$place"
	done
	says 2 "mount: a mount point above the root" "'$BASE'" \
		mount --at "$BASE"
	says 2 "mount: a mount point that is a file" "'$BASE/file'" \
		mount --at "$BASE/file"
	says 2 "mount: one with something in it" "'$BASE/alien'" \
		mount --at "$BASE/alien"
	says 2 "mount: one in what isn't there" "'$BASE/no" \
		mount --at "$BASE/nothing/at/all"
	cd "$M" || exit 1
	both "in main, without a worktree" "--worktree DIR.*--worktrees-dir DIR" \
		-n x
	cd "$BASE" || exit 1
	both "in no repository" "git repository.*'$BASE'" -n x
	cd "$W" || exit 1
	s_as git -C "$M" worktree add -q --force "$BASE/twin" wt
	both "a branch that another worktree has, too" "'refs/heads/wt'" \
		--worktree "$BASE/twin"
	both "from either side" "'refs/heads/wt'" -n x
	s_as git -C "$M" worktree remove "$BASE/twin"
	s_as git -C "$M" worktree add -q --force "$BASE/twin" main
	both "main's own branch" "'refs/heads/main'" --worktree "$BASE/twin"
	s_as git -C "$M" worktree remove "$BASE/twin"
}

# $1 is what is forged, then a file, and what is written into it. What is named
# is that file, the worktree, or what it leads to.
forged() {
	local name=$1 file=$2 text=$3 saved
	saved=$(cat "$file")
	printf '%s\n' "$text" >"$file"
	both "$name" "$forgery" --main "$M" --worktree "$W"
	both "$name, found from within" "$forgery" -n x
	printf '%s\n' "$saved" >"$file"
}

pointers() {
	local admin=$M/.git/worktrees/wt alien=$BASE/alien/.git
	local forgery="'$W(/\.git)?'|'$admin/|'$BASE/evil/"
	forged "a pointer to another's admin directory" "$W/.git" \
		"gitdir: $alien/worktrees/wt"
	forged "a pointer to a repository" "$W/.git" "gitdir: $alien"
	forged "a pointer to main's git directory" "$W/.git" \
		"gitdir: $M/.git"
	forged "a pointer to nothing" "$W/.git" \
		"gitdir: $M/.git/worktrees/none"
	forged "a pointer that is none" "$W/.git" "not a pointer"
	forged "an empty pointer" "$W/.git" ""
	forged "a pointer of two lines" "$W/.git" \
		"$(printf 'gitdir: %s\nmore' "$admin")"
	forged "a way back to elsewhere" "$admin/gitdir" "$BASE/alien/wt/.git"
	forged "a way back to nothing" "$admin/gitdir" "$BASE/nothing/.git"
	forged "an empty way back" "$admin/gitdir" ""
	forged "a common directory elsewhere" "$admin/commondir" "$alien"
	forged "a common directory that is none" "$admin/commondir" ../../..
	mv "$admin" "$BASE/admin"
	both "an admin directory that is gone" "'$W/.git'" \
		--main "$M" --worktree "$W"
	mv "$BASE/admin" "$admin"
	mkdir -p "$BASE/evil/worktrees"
	cp -a "$admin" "$BASE/evil/worktrees/wt"
	s_own "$BASE/evil"
	forged "a pointer to a copy of the admin directory" "$W/.git" \
		"gitdir: $BASE/evil/worktrees/wt"
	mv "$admin" "$BASE/admin"
	ln -s "$BASE/evil/worktrees/wt" "$admin"
	both "a link to one elsewhere" "$forgery" \
		--main "$M" --worktree "$W"
	rm "$admin"
	mv "$BASE/admin" "$admin"
	rm -r "$BASE/evil"
	mv "$W/.git" "$BASE/pointer"
	mkfifo "$W/.git"
	s_own "$W/.git"
	both "a pipe as pointer" "$forgery" --main "$M" --worktree "$W"
	rm "$W/.git"
	mv "$BASE/pointer" "$W/.git"
	cp "$M/.git/config" "$BASE/saved"
	s_as git -C "$M" config core.repositoryFormatVersion 99
	both "a format that nobody knows" "'$M/.git/config'.*99" -n x
	cat "$BASE/saved" >"$M/.git/config"
	rm "$BASE/saved"
}

names() {
	local name
	for name in a/b . .. .hidden -dash 'a b' '' "$(printf 'a\nb')" \
		"$(printf '\033[31m')" "$(printf '%300s' '' | tr ' ' x)"; do
		both "the name $(printf '%.8q' "$name")" "session's name|empty" \
			-n "$name"
	done
	says 2 "status: a name that can't be" "name" status "$(
		printf '%300s' '' | tr ' ' x)"
	says 1 "status: one with a line's end" "" status "$(printf 'a\nb')"
	both "a path that would drive a terminal" 'x1b' \
		--root "$(printf '/\033[31m')"
}

words() {
	says 2 "no command" "command"
	says 2 "no command, but the end of options" "'--'" --
	says 2 "an unknown command" "'frobnicate'" frobnicate
	says 2 "an unknown option of its own" "'--frobnicate'" --frobnicate
	both "an unknown option" "'--frobnicate'" --frobnicate
	both "an unknown short option" "'-x'" -x
	both "an option that takes no argument" "'--help=x'" --help=x
	says 2 "mount: an option without its argument" "'--root'" mount --root
	says 125 "run: an option without its argument" "'--root'" run --root
	says 125 "run: no command" "COMMAND" run
	says 125 "run: no command after the options" "COMMAND" \
		run --rw docs --
	says 2 "mount: an argument" "'x'" mount x
	says 2 "unmount: no session" "session" unmount
	says 2 "unmount: two" "'b'" unmount a b
	says 2 "unmount: no time" "'--timeout'" unmount a --timeout
	says 2 "unmount: not a time" "'-1'" unmount a --timeout=-1
	says 2 "list: an argument" "'x'" list x
	says 2 "status: two" "'b'" status a b
	says 1 "status: no such session" "'nothing'" status nothing
	says 2 "help: an unknown command" "'frobnicate'" help frobnicate
}

helps() {
	local command
	for command in run mount unmount list status; do
		t_status 0 "$who: $command --help" s_mountctl "$command" --help
		t_like "$who: tells of it" "$T_STDOUT" \
			"^usage: mountctl $command"
		t_is "$who: on stdout" "$T_STDERR" ""
	done
	t_status 0 "$who: help" s_mountctl help
	t_status 0 "$who: --version" s_mountctl --version
	t_status 1 "$who: a full disk below stdout" sh -c \
		'"$@" >/dev/full' - "${as[@]}" "$T_MOUNTCTL" list --json
}

check_all() {
	s_repository || exit 1
	t_repo "$BASE/alien" && t_worktree "$BASE/alien" "$BASE/alien/wt" &&
		ln -s main "$BASE/link-to-main" && touch "$BASE/file" || exit 1
	s_own "$BASE"
	before=$(t_fingerprint "$M" wt)
	cd "$W" || exit 1
	rules
	places
	pointers
	names
	words
	helps
	t_is "$who: main is what it was" "$(t_fingerprint "$M" wt)" "$before"
	s_clear "nothing is left"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

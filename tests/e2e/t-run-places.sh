#!/bin/bash
# `mountctl run` and `mountctl mount` where names are odd, and places unusual: a
# home that is a repository, mounts in main and in the worktree, paths by way of
# symlinks and bind mounts, many worktrees.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3
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

# A script behind run, in W.
# shellcheck disable=SC2317 # called by way of refused
guarded() {
	s_guarded env "M=$M" "W=$W" "B=$BASE" sh -c "$1"
}

# Main is refused, the worktree passes, a commit lands; $1 tells where.
guards() {
	refused EROFS "$1: main is read-only" guarded 'echo x >"$M/README.md"'
	refused EROFS "$1: nothing is made in it" guarded 'mkdir "$M/new"'
	ok "$1: main is read" guarded 'cmp "$M/README.md" README.md'
	ok "$1: the worktree is writable" guarded 'date +%s%N >own'
	ok "$1: a commit lands" guarded 'git add own && git commit -q -m here'
	same "$1: on the host" "$(s_as git -C "$W" log -1 --format=%s)" here
	refused EROFS "$1: the pointer stays" guarded 'echo x >.git'
}

odd_names() {
	local base=$BASE name n=0
	for name in 'two words' ' a  b ' "quote'\"\`" '-dash' '*?[x]' \
		$'new\nline' '%41%zz' 'back\slash' 'naïve' $'not\xffutf8' \
		'comma,colon:equals=' '$HOME' '#hash' '..dots' "$(printf \
		'%200s' '' | tr ' ' y)"; do
		n=$((n + 1))
		BASE=$base/$n/$name
		M=$BASE/main
		W=$M/wt
		mkdir -p "$BASE"
		s_own "$base/$n"
		s_repository || exit 1
		guards "$(printf '%.12q' "$name")"
		W=$BASE/$name
		s_as git -C "$M" worktree add -q -b other "$W" || exit 1
		ok "and mounted" sh -c 'cd "$1" && shift && "$@"' - "$W" \
			"${as[@]}" "$T_MOUNTCTL" mount -n "odd$n"
		V=$T_STDOUT
		ok "where a commit lands" s_as git -C "$V" commit \
			--allow-empty -q -m mounted
		same "on the host" "$(s_as git -C "$W" log -1 --format=%s)" \
			mounted
		same "git stays in there" "$(s_as git -C "$V" rev-parse \
			--git-common-dir)" "$RUN/odd$n/view/.git"
		ok "status is JSON" s_mountctl status "odd$n" --json
		ok "which can be read" python3 -c 'import json, sys
json.loads(sys.argv[1])' "$T_STDOUT"
		ok "unmounted" s_mountctl unmount "odd$n"
	done
	BASE=$base
	s_clear "nothing is left of odd names"
}

# The default place of a view may lie in what it would show.
as_a_view() {
	local command=(sh -c 'cd "$1" && shift && "$@"' - "$W" "${as[@]}"
		"$T_MOUNTCTL" mount) V
	if [[ $RUN == "$M"/* ]]; then
		t_status 2 "$who: a home: no view in itself" "${command[@]}"
		t_like "$who: a home: but elsewhere" "$T_STDERR" "--at DIR"
		t_status 2 "$who: a home: nor any of several" \
			"${command[@]}" --at "$BASE/at"
		t_like "$who: a home: but elsewhere" "$T_STDERR" \
			"with XDG_RUNTIME_DIR"
		t_not "$who: a home: nothing is made" test -e "$BASE/at"
		return
	fi
	ok "a home: as a view" "${command[@]}"
	V=$T_STDOUT
	ok "a home: a commit lands" s_as git -C "$V" commit -q \
		--allow-empty -m mounted
	ok "a home: unmount" s_mountctl unmount beside
}

# A home under version control has worktreefs' own directories in it.
home() {
	s_be "$who" "$who-home"
	s_repository || exit 1
	s_as git -C "$M" worktree add -q "$BASE/beside" || exit 1
	W=$BASE/beside
	local as=("${as[@]}" env "HOME=$M")
	local RUN
	for RUN in "$XDG_RUNTIME_DIR" "$M/.run"; do
		[ "$who" != user ] || [ "$RUN" = "$M/.run" ] || RUN=$T_USER_RUN
		s_as mkdir -p "$RUN"
		chmod 0700 "$RUN"
		local as=("${as[@]}" "XDG_RUNTIME_DIR=$RUN")
		RUN=$RUN/worktreefs
		guards "a home"
		refused EROFS "a home: git's own configuration" \
			guarded 'git config --global a.b c'
		ok "a home: its log" guarded \
			'ls -d "$HOME/.local/state/worktreefs/beside"'
		as_a_view
		s_clear "a home: nothing is left"
	done
	W=$M/wt
	local as=("${as[@]}" "HOME=$W")
	guards "a home in the worktree"
	s_clear "a home in the worktree: nothing is left"
}

# Other file systems, in main and in the worktree. Needs root.
mounts() {
	s_be "$who" "$who-mounts"
	mkdir -p "$BASE/main" && mount -t tmpfs none "$BASE/main" &&
		t_defer umount -R "$BASE/main" && s_own "$BASE" || exit 1
	s_repository || exit 1
	mkdir "$M/inner" "$W/inner" "$BASE/alias"
	mount -t tmpfs none "$M/inner" && mount -t tmpfs none "$W/inner" &&
		mount --bind "$M/inner" "$BASE/alias" &&
		t_defer umount "$BASE/alias" || exit 1
	echo x | tee "$M/inner/f" "$W/inner/f" >/dev/null
	s_own "$M/inner" "$W/inner"
	guards "main is a mount"
	refused EROFS "a mount in main is read-only" \
		guarded 'echo x >"$M/inner/f"'
	ok "and read" guarded 'cat "$M/inner/f"'
	ok "a mount in the worktree is writable" guarded 'echo y >inner/f'
	same "on the host" "$(cat "$W/inner/f")" y
	ok "so it is as a view" sh -c 'cd "$1" && shift && "$@"' - \
		"$W" "${as[@]}" "$T_MOUNTCTL" mount
	ok "with what is mounted in it" s_as sh -c \
		'cd "$1" && cat inner/f ../inner/f' - "$T_STDOUT"
	ok "unmount" s_mountctl unmount wt
	s_clear "nothing is left of it"

	s_be "$who" "$who-bound"
	s_repository || exit 1
	s_as git -C "$M" worktree add -q "$BASE/beside" || exit 1
	mount --bind "$M" "$M" && t_defer umount "$M" &&
		mount --bind "$BASE/beside" "$BASE/beside" &&
		t_defer umount "$BASE/beside" || exit 1
	guards "main is bound to itself"
	W=$BASE/beside
	guards "so is the worktree"
	mkdir "$BASE/there" "$BASE/there-too"
	mount --bind "$M" "$BASE/there" && t_defer umount "$BASE/there" &&
		mount --bind "$W" "$BASE/there-too" &&
		t_defer umount "$BASE/there-too" || exit 1
	refused EROFS "another path of main" guarded 'touch "$B/there/x"'
	W=$BASE/there-too
	t_run guarded 'touch x && echo x >"$M/x"'
	t_like "$who: started by another path of the worktree" \
		"$T_STATUS $T_STDERR" \
		'^(1|2) .*Read-only file system|^125 mountctl: '
	t_not "$who: main has nothing of it" test -e "$M/x"
	s_clear "nothing is left of those"

	s_be "$who" "$who-readonly"
	s_repository || exit 1
	mount --bind "$M" "$M" && t_defer umount "$M" &&
		mount -o remount,bind,ro "$M" || exit 1
	refused EROFS "a read-only mount stays one" guarded 'touch "$W/x"'
	refused EROFS "all of it" guarded 'git commit -q --allow-empty -m x'
	s_clear "nothing is left of that"
}

spellings() {
	s_be "$who" "$who-links"
	s_repository || exit 1
	ln -s main "$BASE/link"
	ln -s "$W" "$BASE/wt-link"
	local place
	for place in "$BASE/link/wt" "$BASE/wt-link" "$W/src/.."; do
		refused EROFS "started in ${place#"$BASE"}" sh -c \
			'cd "$1" && shift && "$@"' - "$place" "${as[@]}" \
			"$T_MOUNTCTL" run -- touch "$M/x"
		refused EROFS "given as ${place#"$BASE"}" s_mountctl run \
			--main "$BASE/link" --worktree "$place" -- \
			touch "$BASE/link/x"
	done
	refused EROFS "a relative main" sh -c 'cd "$1" && shift && "$@"' - \
		"$BASE" "${as[@]}" "$T_MOUNTCTL" run --main main \
		--worktree main/wt -- touch main/x
	ok "a relative worktree" sh -c 'cd "$1" && shift && "$@"' - "$BASE" \
		"${as[@]}" "$T_MOUNTCTL" run --main link/ \
		--worktree ./wt-link/ -- touch main/wt/x
	s_clear "nothing is left of those"
}

many_worktrees() {
	s_be "$who" "$who-many"
	s_repository || exit 1
	local i
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		s_as git -C "$M" worktree add -q "$M/in$i" &&
			s_as git -C "$M" worktree add -q "$BASE/out$i" || exit 1
	done
	guards "forty worktrees"
	refused EROFS "another one within" guarded 'touch "$M/in20/x"'
	refused EROFS "another one outside" guarded 'touch "$B/out20/x"'
	W=$BASE/out7
	guards "one of forty"
	refused EROFS "the first" guarded 'touch "$M/wt/x"'
	s_clear "nothing is left of them"
}

check_all() {
	odd_names
	home
	spellings
	many_worktrees
	[ "$(id -u)" -ne 0 ] || mounts
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

#!/bin/bash
# `mountctl mount`: what it prints, where views are put, and that a mount that
# doesn't come about leaves nothing behind. What views show is in t-view.sh.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3
t_user_make || exit 1

# A value from JSON on standard input: json KEY...
json() {
	python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value[int(key) if isinstance(value, list) else key]
print(value)' "$@"
}

in_w() {
	(cd "$W" && s_mountctl "$@")
}

twice() {
	local view

	t_status 0 "$who: mount" in_w mount
	view=$T_STDOUT
	t_is "$who: prints the worktree in the view, and nothing else" \
		"$view" "$RUN/wt/view/wt"
	t_is "$who: one warning" "$(wc -l <<<"$T_STDERR")" 1
	t_like "$who: that absolute paths to main aren't covered" \
		"$T_STDERR" "'view'.*$M"

	t_status 0 "$who: a second mount" in_w mount
	t_is "$who: prints the same" "$T_STDOUT" "$view"
	t_like "$who: and says so" "$T_STDERR" "mounted already"
	s_as git -C "$M" worktree add -q later
	t_status 0 "$who: also when there are new siblings" in_w mount
	t_status 1 "$who: but not with other rules" in_w mount --ro src
	t_like "$who: and says so" "$T_STDERR" "other rules"
	t_status 1 "$who: nor elsewhere" in_w mount --at "$BASE/elsewhere"

	t_ok "$who: unmount" s_mountctl unmount wt
	s_clear "nothing is left"
}

other_places() {
	local at=$BASE/place

	t_status 0 "$who: mount --at, made" in_w mount --at "$at"
	t_is "$who: is where it was asked for" "$T_STDOUT" "$at/wt"
	t_ok "$who: unmount by the directory" s_mountctl unmount "$at/wt/src"
	s_clear "nothing is left of it"
	t_status 0 "$who: mount --at, there and empty" in_w mount --at "$at"
	t_ok "$who: unmount by the mount point" s_mountctl unmount "$at"

	s_as touch "$at/file"
	t_status 2 "$who: not on what isn't empty" in_w mount --at "$at"
	t_status 2 "$who: not on a file" in_w mount --at "$at/file"
	t_status 2 "$who: not in what isn't there" in_w mount --at "$at/a/b"
	t_status 2 "$who: not in the root" in_w mount --at "$M/view"
	t_like "$who: and says why" "$T_STDERR" "contain itself"
	t_is "$who: in one line" "$(wc -l <<<"$T_STDERR")" 1
	ln -s "$M" "$BASE/link"
	t_status 2 "$who: nor through a link" in_w mount --at "$BASE/link/view"
	t_not "$who: nothing was made there" test -e "$M/view"
	s_clear "nothing is left of these"
	rm -f "$at/file" "$BASE/link"
}

# A worktree outside of main is seen in a view of its own.
several_views() {
	s_as git -C "$M" worktree add -q "$BASE/out"
	t_status 0 "$who: a worktree outside" s_mountctl mount \
		--worktree "$BASE/out"
	t_is "$who: has a view of its own" "$T_STDOUT" "$RUN/out/views/1"
	t_is "$who: git stays in the views" \
		"$(s_as git -C "$T_STDOUT" rev-parse --git-common-dir)" \
		"$RUN/out/view/.git"
	t_ok "$who: both are unmounted" s_mountctl unmount "$BASE/out"
	s_clear "nothing is left of both"
}

any_tree() {
	s_as mkdir -p "$BASE/tree/open" "$BASE/tree/closed"
	s_as touch "$BASE/tree/closed/secret"
	t_status 0 "$who: any tree" s_mountctl mount --root "$BASE/tree" \
		--none closed --ro later
	t_is "$who: prints the mount point" "$T_STDOUT" "$RUN/tree/view"
	t_errno EACCES "$who: none" s_as ls "$T_STDOUT/closed"
	t_ok "$who: unmount it" s_mountctl unmount tree
	s_clear "nothing is left of the tree"
}

options() {
	local view

	printf '#!/bin/sh\n' | s_as tee "$W/program" >/dev/null
	s_as chmod +x "$W/program"
	view=$(in_w mount -o noexec 2>/dev/null)
	t_errno EACCES "$who: -o reaches the mount" s_as "$view/program"
	t_ok "$who: unmount it, too" s_mountctl unmount wt
	t_status 0 "$who: --json" in_w mount --json
	view=$(json directory <<<"$T_STDOUT")
	t_is "$who: tells the directory" "$view" "$RUN/wt/view/wt"
	t_is "$who: and the tier" "$(json tier <<<"$T_STDOUT")" view
	t_ok "$who: unmount it, too" s_mountctl unmount "$view"
	s_as rm "$W/program"
	s_clear "nothing is left of options"
}

# In the background; its pid goes to $foreground.
start_in_foreground() {
	rm -f "$BASE/fg.out"
	(
		cd "$W" || exit
		exec "${as[@]}" "$T_MOUNTCTL" mount -f \
			>"$BASE/fg.out" 2>"$BASE/fg.err"
	) &
	foreground=$!
	t_wait 5 test -s "$BASE/fg.out"
}

in_foreground() {
	start_in_foreground
	t_is "$who: -f prints, and stays" "$(cat "$BASE/fg.out")" \
		"$RUN/wt/view/wt"
	kill -TERM "$foreground"
	wait "$foreground"
	t_is "$who: a signal ends it" $? 0
	s_clear "and the session with it"
	start_in_foreground
	t_ok "$who: unmount" s_mountctl unmount wt
	wait "$foreground"
	t_is "$who: ends it, too" $? 0
}

# Whatever is wrong: a status, one line, and nothing left.
refused() {
	local want=$1 name=$2
	shift 2
	t_status "$want" "$who: $name" in_w "$@"
	t_is "$who: in one line: $name" "$(grep -c . <<<"$T_STDERR")" 1
	t_is "$who: none on stdout: $name" "$T_STDOUT" ""
}

bad_input() {
	local long
	long=$(printf 'a%.0s' {1..300})
	refused 2 "--rw and --ro" mount --rw src --ro src
	t_like "$who: names the path" "$T_STDERR" "$M/src"
	refused 2 "no directory" mount --root "$M/README.md"
	refused 2 "an unknown option" mount --frobnicate
	refused 2 "an unknown short one" mount -x
	refused 2 "an option without argument" mount --at
	refused 2 "an argument" mount wt
	refused 2 "a name with a slash" mount -n a/b
	refused 2 "a long name" mount -n "$long"
	refused 2 "a bad word" mount --git-guard=maybe
	refused 2 "an unknown command" frob
	refused 2 "no command"
	refused 2 "a rule that nothing holds" mount --none "$BASE/nothing"
	refused 2 "--native" mount --native none
	s_clear "nothing is left of bad input"
}

# A filesystem process that can't go on takes all with it.
broken_off() {
	local program

	for program in false true cat; do
		program=$(command -v "$program")
		T_STATUS=0
		(cd "$W" && s_as env "WORKTREEFS_BIN=$program" "$T_MOUNTCTL" \
			mount --at "$BASE/made") >"$BASE/b.out" 2>"$BASE/b.err" ||
			T_STATUS=$?
		t_is "$who: $program is no filesystem" "$T_STATUS" 1
		t_is "$who: and one line says so" "$(wc -l <"$BASE/b.err")" 1
		t_not "$who: no directory is left" test -e "$BASE/made"
	done
	t_status 1 "$who: options that can't be mounted" in_w mount \
		-o nonsense=1 --at "$BASE/made"
	t_not "$who: no directory is left" test -e "$BASE/made"
	s_clear "nothing is left of what was broken off"
}

# Some callers ignore SIGCHLD, and what they start inherits that.
childless() {
	local childless=(s_as env --ignore-signal=CHLD "$T_MOUNTCTL")

	cd "$W" || exit 1
	t_ok "$who: ignoring SIGCHLD, mount" "${childless[@]}" mount
	t_status 1 "$who: why" "${childless[@]}" why ../src
	t_is "$who: with an answer" "$T_STDERR" ""
	t_ok "$who: teardown" "${childless[@]}" teardown wt
	t_is "$who: that has found out all" "$T_STDERR" ""
	t_ok "$who: prune" "${childless[@]}" prune
	cd / || exit 1
	s_clear "nothing is left"
}

no_program() {
	t_status 1 "$who: no program" s_as sh -c \
		"cd '$W' && WORKTREEFS_BIN=/nonexistent '$T_MOUNTCTL' mount"
	t_like "$who: names it" "$T_STDERR" /nonexistent
}

in_main() {
	t_status 2 "$who: in main, without a worktree" s_as sh -c \
		"cd '$M' && '$T_MOUNTCTL' mount"
	t_like "$who: names one way" "$T_STDERR" "--worktree DIR"
	t_like "$who: names the other" "$T_STDERR" "--worktrees-dir DIR"
	t_status 2 "$who: outside of any repository" s_as sh -c \
		"cd / && '$T_MOUNTCTL' mount"
	t_status 0 "$who: in main, with a place for worktrees" s_as sh -c \
		"cd '$M' && '$T_MOUNTCTL' mount --worktrees-dir trees"
	t_is "$who: prints main in the view" "$T_STDOUT" "$RUN/main/view"
	t_ok "$who: where worktrees can be made" s_as git -C "$T_STDOUT" \
		worktree add -q trees/one
	t_ok "$who: unmount it" s_mountctl unmount main
	s_clear "nothing is left of it"
}

# An alias of the root is the root.
bind_mount() {
	mkdir "$BASE/alias"
	mount --bind "$M" "$BASE/alias" || return
	t_status 2 "$who: not in another mount of the root" in_w mount \
		--at "$BASE/alias/view"
	umount "$BASE/alias"
	t_not "$who: nothing was made there" test -e "$M/view"
}

for actor in $(s_everybody); do
	s_be "$actor"
	s_repository || exit 1
	twice
	other_places
	several_views
	any_tree
	options
	in_foreground
	bad_input
	broken_off
	childless
	no_program
	in_main
	[ "$actor" != root ] || bind_mount
done
t_done

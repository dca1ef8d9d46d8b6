#!/bin/bash
# More than one command in a session, and sessions in sessions.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck disable=SC2030,SC2031 # options of one run end with its subshell
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need cc git bwrap unshare
t_user_make || exit 1

ESCAPE=$T_SCRATCH/escape
cc -std=gnu11 -D_GNU_SOURCE -o "$ESCAPE" "$T_SRC/tests/support/escape.c" ||
	exit 1

joined() {
	(cd "$W" && s_mountctl run -n one -- "$@")
}

stop() {
	kill "$1" 2>/dev/null || true
}

# hold NAME ARG...: `mountctl run ARG...` in W with a command that lives until
# `release NAME`.
hold() {
	local name=$1
	shift
	rm -f "$W/$name.ns" "$W/$name.end"
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run "$@" sh -c "
		readlink /proc/self/ns/mnt >'$W/$name.ns'
		until [ -e '$W/$name.end' ]; do sleep 0.02; done") &
	held[$name]=$!
	t_defer stop "$!"
	t_wait 10 test -s "$W/$name.ns"
}

release() {
	touch "$W/$1.end"
	wait "${held[$1]}"
}
declare -A held

start_session() {
	hold one -n one --main "$M" --worktree "$W" --
	ns=$(cat "$W/one.ns")
}

check_join() {
	start_session
	t_is "$who: a second command is in the same namespace" \
		"$(joined readlink /proc/self/ns/mnt)" "$ns"
	t_is "$who: where the caller is" "$(joined pwd)" "$W"
	t_is "$who: as the caller" "$(joined id -u)" "$(s_as id -u)"
	t_errno EROFS "$who: main is read-only" joined touch "$M/x"
	t_ok "$who: the worktree is writable" joined touch "$W/second"
	t_is "$who: its capabilities are a first command's" \
		"$(joined grep ^Cap /proc/self/status)" \
		"$(s_guarded grep ^Cap /proc/self/status)"
	t_not "$who: it can't unmount" joined "$ESCAPE" umount "$M"
	t_errno EPERM "$who: nor type into the terminal" \
		joined "$ESCAPE" tiocsti
	t_status 3 "$who: its exit status is its own" joined sh -c 'exit 3'
	t_status 127 "$who: a missing command is missing" joined /nonexistent
	t_is "$who: it gets the session's rules" \
		"$(joined sh -c 'cat "$WORKTREEFS_SESSION"')" \
		"$(joined sh -c 'cat /proc/self/fd/$WORKTREEFS_SESSION_FD')"
	t_like "$who: under the session's name" "$T_STDOUT$(joined sh -c \
		'cat "$WORKTREEFS_SESSION"')" '"session":.*"one"'
	t_not "$who: an inherited directory is closed" \
		joined "$ESCAPE" create-at 5 x 5<"$M"
	t_status 125 "$who: one as stdin is refused" joined true <"$M"
	t_status 125 "$who: rules can't be given to a live session" \
		s_mountctl run -n one --main "$M" --worktree "$W" --rw docs -- \
		true
	t_like "$who: and that is said" "$T_STDERR" "'one' is live"
}

# A sandbox inside has the view in its mount table, too.
check_join_beside_a_sandbox() {
	hold sandbox -n one -- bwrap --dev-bind / / --tmpfs /mnt
	t_is "$who: a sandbox inside isn't taken for the session" \
		"$(joined readlink /proc/self/ns/mnt)" "$ns"
	release sandbox
}

# Whoever is left keeps the session.
check_last_one_out() {
	hold last -n one --
	release one
	t_is "$who: a session lives as long as any command in it" \
		"$(joined readlink /proc/self/ns/mnt)" "$ns"
	release last
	s_clear "then nothing is left"
}

check_names() {
	start_session
	t_ok "$who: a live session's name can't be had by default" \
		s_as git -C "$M" worktree add -q -b second "$BASE/one"
	t_like "$who: the next one gets another" "$(cd "$BASE/one" &&
		s_mountctl run -- sh -c 'cat "$WORKTREEFS_SESSION"')" \
		'"session":.*"one\.2"'
	release one
	t_ok "$who: -n without rules makes a session that isn't there" \
		sh -c "cd '$W' && \"\$@\"" - "${as[@]}" "$T_MOUNTCTL" run \
		-n fresh -- touch "$W/fresh"
	for name in a/b .. '' "$(printf '%300s' '' | tr ' ' x)"; do
		t_status 125 "$who: the name '${name:0:9}' is refused" \
			s_mountctl run -n "$name" --main "$M" \
			--worktree "$W" -- true
	done
	s_clear "of all these nothing is left"
}

nested() {
	s_guarded "$T_MOUNTCTL" run "$@"
}

check_nesting() {
	t_errno EROFS "$who: in a session in a session, main is read-only" \
		nested -- touch "$M/x"
	t_ok "$who: and the worktree writable" nested -- touch "$W/y"
	t_errno EROFS "$who: rules widen nothing" nested --main "$M" \
		--worktree "$W" --rw docs --rw src -- touch "$M/docs/x"
	t_errno EROFS "$who: not by another root either" nested --root "$M" \
		--rw . --ro docs -- touch "$M/src/x"
	t_errno EROFS "$who: they narrow" nested --main "$M" --worktree "$W" \
		--ro "$W/src" -- touch "$W/src/x"
	t_ok "$who: for those inside alone" s_guarded sh -c \
		"\"\$1\" run --ro '$W/src' -- true && touch '$W/src/z'" - \
		"$T_MOUNTCTL"
	t_like "$who: the name is another" "$(nested -- sh -c \
		'cat "$WORKTREEFS_SESSION"')" '"session":.*"wt\.2"'
	t_is "$who: the surrounding session can be named" \
		"$(run_options=(-n one --main "$M" --worktree "$W")
			s_guarded "$T_MOUNTCTL" run -n one -- echo inside)" \
		inside
	t_status 125 "$who: but not be made anew" \
		nested -n wt --main "$M" --worktree "$W" -- true
	t_ok "$who: three deep" nested -- "$T_MOUNTCTL" run -- \
		git -C "$W" status
	t_ok "$who: a commit lands from two deep" nested -- \
		git -C "$W" commit -q --allow-empty -m nested
	t_is "$who: outside it is there" \
		"$(s_as git -C "$W" log -1 --format=%s)" nested
	s_clear "of all these nothing is left"
}

check_all() {
	s_be "$1"
	s_repository || exit 1
	before=$(t_fingerprint "$M" wt)
	check_join
	check_join_beside_a_sandbox
	check_last_one_out
	check_names
	check_nesting
	t_is "$who: main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

for somebody in $(s_everybody); do
	check_all "$somebody"
done
t_done

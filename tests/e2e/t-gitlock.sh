#!/bin/bash
# A session's worktree is locked while the session lives: git then neither
# prunes nor removes it. Locks of the user's own stay what they are, several
# sessions share one, and what a killed session leaves is cleared away.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

# The reason as git tells it; "-" where the worktree isn't locked. The answer
# of a lock without a reason is empty.
reason() {
	s_as git -C "$M" worktree list --porcelain |
		awk -v w="worktree $W" '
			$0 == w { here = 1 }
			here && /^locked/ { sub(/^locked ?/, ""); print; found = 1 }
			/^$/ { here = 0 }
			END { if (!found) print "-" }'
}

ours() {
	echo "worktreefs session $1 (pid $(s_server "$1"))"
}

# shellcheck disable=SC2317 # called by t_wait
is_unlocked() {
	[ "$(reason)" = - ]
}

# A point: the lock is, or soon becomes, that of the session.
locked_by() {
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(reason)" != "$(ours "$2")" ] || break
		sleep "0.$i"
	done
	t_is "$1" "$(reason)" "$(ours "$2")"
}

a_run() {
	t_is "$who: no lock before" "$(reason)" -
	s_hold wt
	locked_by "$who: run: locked, and the reason names the session" wt
	t_is "$who: run: seen inside, too" \
		"$(s_in wt cat "$M/.git/worktrees/wt/locked")" "$(ours wt)"
	t_not "$who: run: git worktree remove refuses inside" \
		s_in wt git worktree remove .
	t_like "$who: run: because of the lock" "$T_STDERR" \
		"locked working tree, lock reason: worktreefs session wt"
	t_is "$who: run: and the worktree is whole" \
		"$(s_as git -C "$W" status --porcelain)" ""
	t_not "$who: run: and refuses on the host" \
		s_as git -C "$M" worktree remove wt
	s_release
	t_is "$who: run: gone with the session" "$(reason)" -
	s_clear "run: nothing is left"

	t_ok "$who: a command that ends at once" s_guarded true
	t_ok "$who: leaves no lock" t_wait 5 is_unlocked
	t_not "$who: nor does one that can't be found" s_guarded /none
	t_ok "$who: leave a lock" t_wait 5 is_unlocked
	t_ok "$who: unlocked inside" s_guarded git worktree unlock .
	t_ok "$who: it stays so" t_wait 5 is_unlocked
	run_options=(--git-guard=off)
	t_ok "$who: without the guard there is no lock" \
		s_guarded test ! -e "$M/.git/worktrees/wt/locked"
	run_options=()
	s_clear "nothing is left of these"
}

a_mount() {
	t_ok "$who: mount" in_w mount
	locked_by "$who: mount: locked" wt
	t_ok "$who: mount once more" in_w mount
	locked_by "$who: mount: locked as before" wt
	t_ok "$who: unmount" s_mountctl unmount wt
	t_is "$who: unmount: unlocked" "$(reason)" -
	s_clear "mount: nothing is left"
}

in_w() {
	(cd "$W" && s_mountctl "$@")
}

locks_of_the_user() {
	local text
	for text in "on a stick" "" "worktreefs session wt"; do
		s_as git -C "$M" worktree lock --reason "$text" wt
		t_ok "$who: run with a lock of the user's ('$text')" \
			s_guarded true
		s_clear "that has ended"
		t_is "$who: the lock stays" "$(reason)" "$text"
		s_as git -C "$M" worktree unlock wt
	done
	# Changed while the session lived.
	s_hold wt
	locked_by "$who: locked" wt
	s_as git -C "$M" worktree unlock wt
	s_as git -C "$M" worktree lock --reason mine wt
	s_release
	t_is "$who: a lock that took ours' place stays" "$(reason)" mine
	s_as git -C "$M" worktree unlock wt
}

# The lock names one that lives, and goes with the last.
several_sessions() {
	local first second
	s_hold wt
	first=$s_holder
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -- sleep 300) &
	second=$!
	t_defer s_end "$second"
	t_wait 10 test -e "$RUN/wt.2/session.json"
	locked_by "$who: two: the first one's lock" wt
	s_end "$first"
	locked_by "$who: two: it is handed on" wt.2
	s_hold wt
	locked_by "$who: two: a third one leaves it" wt.2
	s_end "$s_holder"
	t_wait 5 test ! -e "$RUN/wt/session.json"
	locked_by "$who: two: also when it ends" wt.2
	s_end "$second"
	t_ok "$who: two: gone with the last" t_wait 5 is_unlocked
	s_clear "two: nothing is left"
}

# Sessions that begin and end at the same time leave no lock behind.
at_once() {
	local i pids=()
	for i in 1 2 3 4 5 6 7 8; do
		s_guarded true 2>/dev/null &
		pids+=($!)
	done
	wait "${pids[@]}"
	s_clear "many at once have ended"
	t_is "$who: many at once: unlocked" "$(reason)" -
}

kill_server() {
	s_as kill -KILL "$1"
	t_wait 5 test ! -e "/proc/$1/exe"
}

killed() {
	local text pid

	in_w mount >"$T_SCRATCH/$who.out" 2>&1 || t_fail "mount"
	text=$(reason)
	kill_server "$(s_server wt)"
	t_is "$who: killed: the lock is left" "$(reason)" "$text"
	t_ok "$who: killed: list" s_mountctl list
	t_ok "$who: killed: unmount clears it away" s_mountctl unmount wt
	t_is "$who: killed: unlocked" "$(reason)" -

	in_w mount >"$T_SCRATCH/$who.out" 2>&1 || t_fail "mount"
	kill_server "$(s_server wt)"
	t_ok "$who: killed: mount once more" in_w mount
	locked_by "$who: killed: locked anew" wt
	t_ok "$who: killed: unmount" s_mountctl unmount wt
	t_is "$who: killed: unlocked by it" "$(reason)" -

	s_hold wt
	locked_by "$who: killed run: locked" wt
	text=$(reason)
	pid=$(s_server wt)
	kill_server "$pid"
	s_end "$s_holder"
	t_is "$who: killed run: the lock is left" "$(reason)" "$text"
	t_ok "$who: killed run: the same name once more" s_guarded true
	t_ok "$who: killed run: unlocked" t_wait 5 is_unlocked

	s_hold wt
	kill_server "$(s_server wt)"
	s_end "$s_holder"
	s_hold another
	locked_by "$who: killed run: another session takes it over" another
	t_ok "$who: killed run: unmount of the dead one" s_mountctl unmount wt
	locked_by "$who: killed run: leaves it alone" another
	s_release
	t_is "$who: killed run: unlocked at last" "$(reason)" -
	s_clear "killed: nothing is left"
}

# Not a reason to fail, but worth a word.
what_cannot_be_locked() {
	local admin=$M/.git/worktrees/wt
	[ "$who" != root ] || return 0
	s_as chmod 0555 "$admin"
	t_ok "$who: an admin directory that can't be written" s_guarded true
	t_like "$who: is warned of" "$T_STDERR" \
		"warning: cannot lock the worktree.*Permission denied"
	s_as chmod 0755 "$admin"
	s_as mkfifo "$admin/locked"
	t_ok "$who: a FIFO as a lock" s_guarded true
	s_as rm "$admin/locked"
	s_clear "nothing is left of that"
}

for actor in $(s_everybody); do
	s_be "$actor"
	s_repository || exit 1
	a_run
	a_mount
	locks_of_the_user
	several_sessions
	at_once
	killed
	what_cannot_be_locked
done
t_done

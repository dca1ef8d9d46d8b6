#!/bin/bash
# The filesystem process, mountctl, the command, or all of them are killed at any
# moment of a workload: main is what it was, each commit that git has reported is
# there, and a later session works. T_CRASHES: how often (6); T_SEED: when.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 fusermount3
t_user_make || exit 1

RANDOM=${T_SEED:=$RANDOM}
load=$T_SRC/tests/support/crashload.py

workers() {
	pgrep -f "crashload.py .*$BASE/done"
}

is_idle() {
	[ -z "$(workers)" ]
}

# shellcheck disable=SC2317 # called by way of t_defer
kill_workers() {
	workers | while read -r pid; do
		kill -KILL "$pid" 2>/dev/null
	done
}

starts() {
	if [ "$1" = view ]; then
		view=$(cd "$W" && s_mountctl mount -n crash 2>"$BASE/err") ||
			return
		("${as[@]}" python3 "$load" "$view" "${view%/wt}" \
			"$BASE/done" >"$BASE/out" 2>&1) &
	else
		(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -n crash \
			--native "$1" -- python3 "$load" "$W" "$M" \
			"$BASE/done" >"$BASE/out" 2>&1) &
	fi
	t_wait 60 grep -q started "$BASE/done"
}

kills() {
	local pid
	pid=$(s_server crash 2>/dev/null)
	case $1 in
	filesystem) kill -KILL "$pid" ;;
	command) kill_workers ;;
	all)
		kill -KILL "$pid"
		kill_workers
		;;
	esac
}

# What dead sessions have left, and what a git that was killed has: it is for
# whoever knows that it is dead to remove that.
clears() {
	s_mountctl prune --locks >"$BASE/pruned" 2>&1
	find "$M/.git" -name '*.lock' -delete
}

lost() {
	local id
	grep -v started "$BASE/done" | while read -r id; do
		s_as git -C "$M" merge-base --is-ancestor "$id" wt || echo "$id"
	done
}

crash() {
	local tier=$1 whom=$2 what
	what="$who, $tier, the $whom killed, seed $T_SEED"
	: >"$BASE/done"
	s_own "$BASE/done"
	if ! starts "$tier"; then
		t_fail "$what: it starts"
		t_diag "$(cat "$BASE/err" "$BASE/out" 2>/dev/null)"
		exit 1
	fi
	sleep "$((RANDOM % 3)).$((RANDOM % 10))"
	kills "$whom"
	t_ok "$what: the others end" t_wait 60 is_idle ||
		t_diag "$(workers | xargs -r ps -o pid,stat,wchan,args -p)"
	kill_workers
	# A view lives on without those who work in it, and git's background gc
	# may go on for a while.
	if [ "$tier/$whom" = view/command ]; then
		t_ok "$what: the view is unmounted" s_mountctl unmount \
			--timeout 50 crash
	fi
	clears
	t_is "$what: main is what it was" "$(t_fingerprint "$M" wt)" "$before"
	t_is "$what: no commit is lost" "$(lost)" ""
	t_ok "$what: git fsck" s_as git -C "$M" fsck --no-dangling \
		--no-progress
	t_ok "$what: git status" s_as git -C "$W" status
	s_clear "nothing is left: $what"
}

run() {
	local n=0 tiers=(none auto view) whom=(filesystem command all)
	before=$(t_fingerprint "$M" wt)
	t_defer kill_workers
	while [ $n -lt "${T_CRASHES:-6}" ]; do
		crash "${tiers[n % 3]}" "${whom[(n + n / 3) % 3]}"
		n=$((n + 1))
	done
	t_ok "$who: a later session works" s_guarded git commit -q \
		--allow-empty -m later
	s_clear "nothing is left of it"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	s_repository || exit 1
	run
done
t_done

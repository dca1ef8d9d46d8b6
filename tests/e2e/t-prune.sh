#!/bin/bash
# timeout: 600
# `mountctl prune`: what dead sessions leave is cleared away, what lives is left
# alone; and no command hangs at a view that doesn't answer.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

# Dead views of root's may be another script's: here only our own are seen.
if [ "$(id -u)" -eq 0 ] && [ -z "${T_PRUNE_INSIDE:-}" ] &&
	unshare --mount --propagation private true 2>/dev/null; then
	T_PRUNE_INSIDE=1 exec unshare --mount --propagation private \
		bash "$T_SRC/tests/e2e/t-prune.sh"
fi

t_need git python3 fusermount3
t_user_make || exit 1
python=$(python3 -c 'import sys; print(sys.executable)')

ok() {
	t_ok "$who: $1" "${@:2}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# A value from JSON on standard input: a Python expression about x.
json() {
	"$python" -c 'import json, sys
x = json.load(sys.stdin)
print(eval("(" + sys.argv[1] + "\n)"))' "$1"
}

fresh() {
	rm -rf --one-file-system "$BASE" "$STATE"
	mkdir -p "$BASE"
	t_repo "$M" && t_worktree "$M" "$W" && s_own "$BASE"
}

recorded() {
	test -s "$STATE/$1/baseline.json"
}

# Starts a session of tier run or view in W.
starts() {
	local tier=$1 name=$2
	shift 2
	if [ "$tier" = run ]; then
		s_hold "$name"
	else
		(cd "$W" && s_mountctl mount -n "$name" "$@") >"$BASE/view" \
			2>"$BASE/err" || t_diag "$(cat "$BASE/err")"
	fi
	t_wait 60 recorded "$name" || t_diag "no state is recorded of $name"
}

kills() {
	local pid
	pid=$(s_server "$1")
	kill -KILL "$pid"
	t_wait 10 s_is_dead "$pid"
}

prune() {
	s_mountctl prune "$@"
}

# What prune --json has found, but for lock files.
found() {
	t_run prune --json "$@"
	json 'x["sessions"], [m.replace("'"$RUN"'", "RUN").replace("'"$BASE"'",
"BASE") for m in x["mounts"]], [w.replace("'"$M"'", "M")
for w in x["worktrees"]]' <<<"$T_STDOUT"
}

reason() {
	cat "$M/.git/worktrees/wt/locked" 2>/dev/null
}

dead_sessions() {
	local tier
	for tier in run view; do
		fresh
		starts "$tier" s
		same "$tier: nothing, while it lives" "$(found)" "([], [], [])"
		same "$tier: it still lives" "$(s_mountctl list --json |
			json '[s["state"] for s in x["sessions"]]')" "['live']"
		kills s
		same "$tier: killed, a dry run" "$(found --dry-run)" \
			"(['s'], [], ['M/wt'])"
		same "$tier: it has left everything" "$(s_records)" s
		same "$tier: killed" "$(found)" "(['s'], [], [])"
		[ "$tier" = view ] || s_end "$s_holder"
		s_clear "$tier: all is cleared away"
		same "$tier: the lock, too" "$(reason)" ""
		same "$tier: again" "$(found)" "([], [], [])"
		ok "$tier: the worktree is whole" \
			git -C "$W" status --porcelain
	done
}

# The filesystem process of a view that was mounted by hand: the oldest.
server_at() {
	pgrep -o -f "worktreefs $M $1"
}

without_records() {
	local server
	fresh
	starts view s
	kills s
	s_as rm "$RUN/s/session.json"
	same "no record: cleared away" "$(found)" "(['s'], [], ['M/wt'])"
	s_clear "no record: all is cleared away"
	same "no record: the lock, too" "$(reason)" ""

	fresh
	s_as mkdir "$BASE/at"
	starts view s --at "$BASE/at"
	kills s
	s_as rm -r "$RUN/s"
	same "no record, mounted elsewhere" "$(found)" \
		"([], ['BASE/at'], ['M/wt'])"
	s_clear "no record, mounted elsewhere: all is cleared away"

	fresh
	s_as mkdir "$BASE/by hand"
	s_as "$T_WORKTREEFS" "$M" "$BASE/by hand" -o "ro=$M"
	same "by hand: nothing, while it lives" "$(found)" "([], [], [])"
	ok "by hand: it answers" s_as test -f "$BASE/by hand/README.md"
	server=$(server_at "$BASE/by hand")
	kill -KILL "$server"
	t_wait 10 s_is_dead "$server"
	same "by hand: killed" "$(found)" "([], ['BASE/by hand'], [])"
	s_clear "by hand: all is cleared away"

	fresh
	s_as mkdir -p "$RUN/half"
	s_as sh -c 'chmod 0700 "$1" && echo "{" >"$1/session.json"' - "$RUN/half"
	same "a record that was never whole" "$(found)" "(['half'], [], [])"
	s_clear "a record that was never whole is cleared away"
}

lock_files() {
	local A=$M/.git/worktrees/wt lock reader
	fresh
	A=$M/.git/worktrees/wt
	s_as touch -d '1 hour ago' "$A/ORIG_HEAD.lock"
	starts run s
	kills s
	for lock in "$A/index.lock" "$M/.git/config.lock" \
		"$M/.git/refs/heads/wt.lock" "$M/.git/index.lock"; do
		s_as touch "$lock"
	done
	t_run prune --json
	same "git's locks are named" "$(json 'sorted((l["path"]["'"$M"'".__len__():],
l["session"], l["in_use"], l["removed"]) for l in x["locks"])' \
		<<<"$T_STDOUT")" "[('/.git/config.lock', 's', False, False),\
 ('/.git/refs/heads/wt.lock', 's', False, False),\
 ('/.git/worktrees/wt/index.lock', 's', False, False)]"
	ok "and stay" test -e "$A/index.lock"
	(exec "${as[@]}" sh -c 'exec sleep 300 <"$1"' - "$A/index.lock") &
	reader=$!
	t_defer s_end "$reader"
	t_wait 10 is_at "$reader" 0 "$A/index.lock"
	t_run prune --locks
	t_like "$who: one that is open stays" "$T_STDOUT" \
		'/index\.lock +\(session s; perhaps in use'
	same "the others are gone" "$(find "$M/.git" -name '*.lock' \
		-printf '%P\n' | sort)" "$(printf '%s\n' index.lock \
		worktrees/wt/ORIG_HEAD.lock worktrees/wt/index.lock)"
	s_end "$reader"
	wait "$reader" 2>/dev/null
	ok "once it is closed" prune --locks
	same "it is gone, too" "$(find "$M/.git" -name '*.lock' \
		-printf '%P\n' | sort)" \
		"$(printf '%s\n' index.lock worktrees/wt/ORIG_HEAD.lock)"
	s_release
	starts run other
	s_as touch "$A/index.lock"
	ok "where a session lives" prune --locks
	ok "its locks stay" test -e "$A/index.lock"
	s_release
}

# shellcheck disable=SC2317 # called by t_wait
is_at() {
	[ "$(readlink "/proc/$1/fd/$2")" = "$3" ]
}

# A filesystem process that is stopped: nobody waits for it.
stuck() {
	local pid command
	fresh
	starts view s --watchdog 0
	pid=$(s_server s)
	kill -STOP "$pid"
	for command in "list" "list --json" "status s" "status s --stray" \
		"log s" "why -n s $M/README.md" "prune --dry-run"; do
		# shellcheck disable=SC2086 # words
		t_run s_mountctl $command
		case $T_STATUS in
		0 | 1 | 2) t_pass "$who: stuck: $command" ;;
		*)
			t_fail "$who: stuck: $command"
			t_explain "$command"
			;;
		esac
	done
	ok "stuck: prune leaves it" prune
	same "it is there" "$(s_records)" s
	kill -CONT "$pid"
	ok "it goes on" s_as test -f "$RUN/s/view/README.md"
	kills s
	for command in "list" "status s" "status s --stray" "log s"; do
		# shellcheck disable=SC2086 # words
		ok "dead: $command" s_mountctl $command
	done
	ok "prune" prune
	s_clear "all is cleared away"
}

others() {
	local theirs
	[ "$who" = user ] && [ "$(id -u)" -eq 0 ] || return 0
	fresh
	mkdir "$BASE/theirs"
	"$T_WORKTREEFS" "$M" "$BASE/theirs" -o "ro=$M"
	theirs=$(server_at "$BASE/theirs")
	kill -KILL "$theirs"
	t_wait 10 s_is_dead "$theirs"
	same "a dead view of somebody else's" "$(found)" "([], [], [])"
	t_ok "$who: it is there" grep -qF " $BASE/theirs " /proc/self/mountinfo
	umount "$BASE/theirs"
	t_status 2 "$who: prune takes no operand" prune s
}

for s_one in $(s_everybody); do
	s_be "$s_one"
	dead_sessions
	without_records
	lock_files
	stuck
	others
done
t_done

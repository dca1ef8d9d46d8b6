#!/bin/bash
# The life of a view that `mountctl mount` has put at a path of its own: list and
# status, unmount with those who hold it, a filesystem process that dies, and
# many at once.
# shellcheck disable=SC2016 # what is quoted is expanded elsewhere
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 fusermount3
t_user_make || exit 1

ok() {
	t_ok "$who: $1" "${@:2}"
}

fails() {
	t_status "$1" "$who: $2" "${@:3}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# A value from JSON on standard input: a Python expression about x.
json() {
	python3 -c 'import json, sys
x = json.load(sys.stdin)
print(eval("(" + sys.argv[1] + "\n)"))' "$1"
}

# Mounts; sets V, the worktree as seen, and N, main as seen.
mounts() {
	V=$(cd "$W" && s_mountctl mount 2>"$BASE/err") || {
		t_fail "$who: mount"
		t_diag "$(cat "$BASE/err")"
		exit 1
	}
	N=$RUN/wt/view
	t_defer s_unmount "$RUN"
}

# At the end, should the script be broken off.
# shellcheck disable=SC2317 # called by way of t_defer
s_unmount() {
	local mount
	awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' \
		/proc/self/mountinfo | sort -r | while read -r mount; do
		umount -l "$mount" 2>/dev/null ||
			fusermount3 -uz "$mount" 2>/dev/null
	done
}

# Somebody in the view, who ends on its own or by s_end: holds SCRIPT.
holds() {
	(exec "${as[@]}" sh -c "cd '$V' && $1" >/dev/null 2>&1) &
	holder=$!
	t_defer s_end "$holder"
	sleep 0.3
}

reports() {
	local status
	mounts
	t_like "$who: list" "$(s_mountctl list)" \
		"^wt +view +live +[0-9]+ +$W\$"
	status=$(s_mountctl list --json)
	same "list --json: a version" "$(json 'x["schema_version"]' \
		<<<"$status")" 1
	same "list --json: the session" "$(json 'x["sessions"][0]["session"]' \
		<<<"$status")" wt
	status=$(s_mountctl status wt --json)
	same "status --json" "$(json 'x["schema_version"], x["session"],
x["tier"], x["state"], x["denials"]' <<<"$status" 2>&1)" \
		"(1, 'wt', 'view', 'live', 0)"
	same "its process" "$(json 'x["pid"]' <<<"$status")" "$(s_processes)"
	same "its places" "$(json 'x["root"], x["worktree"], x["mountpoint"],
x["directory"]' <<<"$status" 2>&1)" "('$M', '$W', '$N', '$V')"
	same "the kinds of its values" "$(json '[type(x[k]).__name__ for k in
("session", "tier", "pid", "root", "worktree", "mountpoint", "rules",
"requests", "denials")]' <<<"$status")" \
		"['str', 'str', 'int', 'str', 'str', 'str', 'list', 'dict', 'int']"
	same "a rule has its members" "$(json 'sorted(x["rules"][0])' \
		<<<"$status")" "['access', 'origin', 'path', 'reason']"
	same "the rules" "$(json 'sorted((r["path"][len(x["root"]):],
r["access"]) for r in x["rules"] if r["origin"] == "default" and
"/.git/" not in r["path"])' <<<"$status")" "[('', 'ro'), ('/.git', 'rw'),\
 ('/.vinta-ai-workflows', 'rw'), ('/wt', 'rw')]"
	s_as sh -c "cat '$N/README.md' '$V/Makefile'; ls '$N/docs'" >/dev/null
	t_run s_as touch "$N/new"
	same "requests are counted" "$(s_mountctl status wt --json |
		json 'sum(x["requests"].values()) > 5 and
x["requests"]["open"] > 1')" True
	same "denials, too" "$(s_mountctl status wt --json |
		json 'x["denials"]')" 1
	t_like "$who: status for people" "$(s_mountctl status wt)" "^  ro +$M "
	same "by a place in the view" "$(s_mountctl status "$V/src" --json |
		json 'x["session"]')" wt
	same "from within the worktree" "$(cd "$W/src" &&
		s_mountctl status --json | json 'x["session"]')" wt
	same "status --yaml" "$(s_mountctl status wt --yaml | head -3)" \
		"$(printf 'sandbox:\n  tier: none\n  launcher: null')"
	t_like "$who: what it denies" \
		"$(s_mountctl status wt --yaml | sed '/allow:/,$d')" \
		"^    - \"$M\"\$"
	t_like "$who: and allows" \
		"$(s_mountctl status wt --yaml | sed '1,/allow:/d')" \
		"^    - \"$W\"\$"
	fails 1 "status of none" s_mountctl status nothing
	same "is one line" "$(wc -l <<<"$T_STDERR")" 1
	fails 2 "status takes one" s_mountctl status a b
	ok "unmount" s_mountctl unmount wt
	s_clear "nothing is left"
	t_like "$who: list has none" "$(s_mountctl list --json |
		json 'x["sessions"]')" '^\[\]$'
}

reports_of_run() {
	s_hold runs
	same "status of run" "$(s_mountctl status runs --json |
		json 'x["tier"], x["state"], x["root"], x["worktree"],
x["mountpoint"], x["directory"], x["command"]')" \
		"('enforced', 'live', '$M', '$W', '$M', '$W', 'sleep 300')"
	same "its processes" "$(s_mountctl status runs --json |
		json 'x["processes"][0]["pid"]')" "$s_holder"
	same "status --yaml" "$(s_mountctl status runs --yaml | head -3)" \
		"$(printf 'sandbox:\n  tier: enforced\n  launcher: worktreefs')"
	t_run s_in runs touch "$M/new"
	same "denials" "$(s_mountctl status runs --json |
		json 'x["denials"]')" 1
	s_as git -C "$M" worktree add -q "$BASE/late"
	same "worktrees made since aren't covered" \
		"$(s_mountctl status runs --json | json 'x["uncovered"]')" \
		"['$BASE/late']"
	t_like "$who: and that is said to people" \
		"$(s_mountctl status runs 2>&1)" "$BASE/late"
	s_as git -C "$M" worktree remove "$BASE/late"
	s_release
	s_clear "nothing is left of it"
}

# Who holds it is named, and it ends when they do.
ends() {
	local place holder began
	for place in wt "$W" "$RUN/wt/view" "$RUN/wt/view/wt/src"; do
		mounts
		ok "unmount by ${place#"$BASE"}" s_mountctl unmount "$place"
		s_clear "nothing is left"
		ok "again, it is no error" s_mountctl unmount "$place"
	done

	mounts
	holds 'exec sleep 300'
	fails 1 "a working directory holds it" \
		s_mountctl unmount wt --timeout 0.2
	t_like "$who: who it is" "$T_STDERR" "^  $holder  sleep 300  \\($V\\)\$"
	t_like "$who: and what to do" "$T_STDERR" "unmount --lazy wt"
	ok "it is still there" s_as test -e "$V/README.md"
	kill "$holder"
	ok "then it ends" s_mountctl unmount wt
	s_clear "nothing is left of it"

	mounts
	holds 'exec 3<docs/guide.txt; cd /; exec sleep 300'
	fails 1 "an open file holds it" s_mountctl unmount wt --timeout 0
	t_like "$who: which is named" "$T_STDERR" \
		"^  $holder  sleep 300  \\($V/docs/guide.txt\\)\$"
	kill "$holder"
	s_as cp "$(type -P sleep)" "$W/program"
	holds 'cd / && exec "$OLDPWD/program" 300'
	fails 1 "a program holds it" s_mountctl unmount wt --timeout 0
	t_like "$who: which is named" "$T_STDERR" \
		"^  $holder  $V/program 300  \\($V/program\\)\$"
	kill "$holder"
	rm "$W/program"
	holds 'exec 3>>written; cd /; sleep 1; echo late >&3'
	began=$SECONDS
	ok "a writer is waited for" s_mountctl unmount wt --timeout 10
	same "as long as it writes" "$(cat "$W/written")" late
	ok "and not longer" test $((SECONDS - began)) -lt 9
	s_clear "nothing is left of these"

	mounts
	holds 'exec 3<>written; cd /; sleep 8; cat <&3; echo lazy >&3'
	ok "--lazy doesn't wait" s_mountctl unmount wt --lazy
	ok "it is gone at once" s_as test ! -e "$V"
	t_like "$who: list knows of it" "$(s_mountctl list)" \
		"^wt +view +detached "
	wait "$holder"
	same "what was open could be written" "$(tail -1 "$W/written")" lazy
	s_clear "with the last user it ends"
	rm "$W/written"

	ok "what was never there" s_mountctl unmount nothing
	fails 2 "no time is given" s_mountctl unmount wt --timeout
	fails 2 "no such time" s_mountctl unmount wt --timeout soon
	fails 2 "no session is given" s_mountctl unmount
}

# Namespaces that are made meanwhile have a copy of the mount, which nobody uses.
has_copies() {
	mounts
	s_as git -C "$M" worktree add -q "$BASE/copies" || exit 1
	W=$BASE/copies s_hold copies
	ok "unmounted while a session of run lives" \
		s_mountctl unmount wt --timeout 1
	same "list has the session of run alone" "$(s_mountctl list --json |
		json '[s["session"] for s in x["sessions"]]')" "['copies']"
	ok "it is mounted again" sh -c 'cd "$1" && shift && "$@"' - "$W" \
		"${as[@]}" "$T_MOUNTCTL" mount
	ok "and unmounted" s_mountctl unmount wt
	s_release
	s_as git -C "$M" worktree remove "$BASE/copies"
	s_clear "nothing is left of both"
}

# shellcheck disable=SC2317 # called by way of t_wait
is_dead() {
	# What is asked while it dies is broken off.
	s_as ls "$N" 2>&1 | grep -q "$(t_message ENOTCONN)"
}

dies() {
	mounts
	kill -KILL "$(s_processes)"
	t_wait 5 is_dead
	t_errno ENOTCONN "$who: a dead view is closed" s_as ls "$V"
	t_errno ENOTCONN "$who: and not written" s_as touch "$V/x"
	t_like "$who: list tells" "$(s_mountctl list)" '^wt +view +dead '
	same "status tells" "$(s_mountctl status wt --json |
		json 'x["state"], x["requests"]')" "('dead', None)"
	ok "unmount clears it away" s_mountctl unmount wt
	s_clear "nothing is left of a dead one"

	mounts
	kill -KILL "$(s_processes)"
	t_wait 5 is_dead
	ok "mount of the same starts it again" s_as sh -c \
		"cd '$W' && '$T_MOUNTCTL' mount"
	same "at the same place" "$T_STDOUT" "$V"
	ok "where it works" s_as touch "$V/x"
	rm "$W/x"

	holds 'exec sleep 300'
	kill -KILL "$(s_processes)"
	t_wait 5 is_dead
	ok "one that is used is cleared away, too" s_mountctl unmount wt
	kill "$holder"
	s_clear "nothing is left of that"

	mounts
	kill -TERM "$(s_processes)"
	s_clear "asked to end, it takes the view along"

	mounts
	if [ "$who" = root ]; then
		umount "$N"
	else
		s_as fusermount3 -u "$N"
	fi
	s_clear "unmounted by other means, it ends"
}

# One that doesn't answer keeps nobody waiting.
is_stuck() {
	local began=$SECONDS s_limit=20
	mounts
	kill -STOP "$(s_processes)"
	t_like "$who: list has one that is stuck" "$(s_mountctl list)" \
		"^wt +view +live "
	same "status, too" "$(s_mountctl status wt --json 2>"$BASE/err" |
		json 'x["state"], x["requests"]')" "('live', None)"
	t_like "$who: and says that it doesn't answer" \
		"$(cat "$BASE/err")" "warning: .*timed out"
	ok "unmount ends it" s_mountctl unmount wt
	s_clear "nothing is left of it"
	s_hold stuck
	kill -STOP "$(s_processes)"
	same "status of run" "$(s_mountctl status stuck --json 2>/dev/null |
		json 'x["state"], x["requests"]')" "('live', None)"
	ok "unmount --lazy ends that" s_mountctl unmount stuck --lazy
	s_release
	s_clear "nothing is left of that"
	ok "all of it in time" test $((SECONDS - began)) -lt 40
}

# mountctl itself may be killed at any moment.
is_killed() {
	local i pid
	for i in 0 2 4 6 8 10 12 14 16 18 20 25 30 40 60; do
		(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" mount \
			>"$BASE/out" 2>&1) &
		pid=$!
		sleep "$(printf '0.%03d' "$i")"
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	ok "mountctl killed at any moment: mount works" s_as sh -c \
		"cd '$W' && '$T_MOUNTCTL' mount"
	ok "and unmount" s_mountctl unmount wt
	s_clear "and nothing is left"
}

many() {
	local i pids=() failed=0
	for i in 1 2 3 4 5 6; do
		(cd "$W" && s_mountctl mount >"$BASE/out.$i" 2>"$BASE/err.$i") &
		pids+=("$!")
	done
	for i in "${pids[@]}"; do
		wait "$i" || failed=$((failed + 1))
	done
	# Those that find another at work may say so.
	ok "six at once: at least one is mounted" test "$failed" -lt 6
	same "six at once: one place" "$(cat "$BASE"/out.? | sort -u)" \
		"$RUN/wt/view/wt"
	same "six at once: one process" "$(s_processes | wc -l)" 1
	ok "six at once: unmount" s_mountctl unmount wt
	for i in 1 2 3; do
		s_as git -C "$M" worktree add -q "$BASE/many$i" || exit 1
		ok "many: mount $i" s_mountctl mount --worktree "$BASE/many$i"
		ok "many: it works" s_as git -C "$T_STDOUT" \
			commit -q --allow-empty -m "$i"
	done
	same "many: list" "$(s_mountctl list --json |
		json '[s["session"] for s in x["sessions"]]')" \
		"['many1', 'many2', 'many3']"
	for i in 3 1 2; do
		ok "many: unmount $i" s_mountctl unmount "many$i"
	done
	s_clear "many: nothing is left"
}

in_tmp() {
	local place=$1
	same "without a runtime directory it is in /tmp" "$(cd "$W" &&
		s_as env -u XDG_RUNTIME_DIR "$T_MOUNTCTL" mount 2>/dev/null)" \
		"$place/wt/view/wt"
	ok "unmount" s_as env -u XDG_RUNTIME_DIR "$T_MOUNTCTL" unmount wt
	ok "nothing is left there" rmdir "$place"
	[ "$(id -u)" -eq 0 ] || return 0
	mkdir "$place"
	fails 1 "a directory of somebody else's is refused" s_as env \
		-u XDG_RUNTIME_DIR "$T_MOUNTCTL" mount --worktree "$W"
	same "in one line" "$(wc -l <<<"$T_STDERR")" 1
	fails 125 "by run, too" s_as env -u XDG_RUNTIME_DIR "$T_MOUNTCTL" \
		run --worktree "$W" -- true
	rmdir "$place"
}

# In a mount namespace with another device or program. Needs root.
lacks() {
	local plain=("${as[@]}")
	as=()
	: >"$BASE/fuse"
	chmod 0600 "$BASE/fuse"
	fails 1 "a device that nobody may open" unshare -m sh -c \
		'mount --bind "$1" /dev/fuse && cd "$2" && shift 2 && "$@"' - \
		"$BASE/fuse" "$W" "${plain[@]}" "$T_MOUNTCTL" mount
	if [ "$who" != root ]; then
		t_like "$who: its mode, and how to mend it" "$T_STDERR" \
			'/dev/fuse: Permission denied.*0600.*chmod 0666'
		fails 1 "no fusermount3" unshare -m sh -c \
			'mount --bind /dev/null "$1" && cd "$2" && shift 2 &&
				"$@"' - "$(type -P fusermount3)" "$W" \
			"${plain[@]}" "$T_MOUNTCTL" mount
	fi
	same "in one line" "$(wc -l <<<"$T_STDERR")" 1
	t_like "$who: or where to look" "$T_STDERR" \
		"chmod 0666|'.*/worktreefs\\.log'"
	as=("${plain[@]}")
	rm "$BASE/fuse"
	s_clear "nothing is left of those"
}

# Records are for their owner alone, wherever they are.
records() {
	local place
	mounts
	same "a record is its owner's" "$(stat -c %a "$RUN" "$RUN/wt" \
		"$RUN/wt/session.json" | xargs)" "700 700 600"
	ok "unmount" s_mountctl unmount wt
	[ "$who" != root ] || return 0

	# Without a runtime directory.
	place=/tmp/worktreefs-$(s_as id -u)
	if [ -e "$place" ]; then
		t_skip "$who: records in /tmp" "somebody has left $place"
	else
		in_tmp "$place"
	fi
	mkdir -p "$RUN/half" "$RUN/stale"
	printf '{ "schema_version": 1, "pid' >"$RUN/half/session.json"
	printf 'x' >"$RUN/stale/session.json"
	s_own "$RUN/half" "$RUN/stale"
	chmod 0700 "$RUN/half" "$RUN/stale"
	ok "records that can't be read are no matter" s_mountctl list
	t_like "$who: and named" "$T_STDERR" "warning: .*'half'"
	ok "unmount clears one away" s_mountctl unmount half
	t_not "$who: it is gone" test -e "$RUN/half"
	ok "run takes the name of another" s_as sh -c \
		"cd '$W' && '$T_MOUNTCTL' run -n stale -- true"
	s_clear "nothing is left of those"
}

check_all() {
	s_repository || exit 1
	before=$(t_fingerprint "$M" wt)
	reports
	reports_of_run
	ends
	has_copies
	dies
	is_stuck
	is_killed
	many
	[ "$(id -u)" -ne 0 ] || lacks
	records
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

#!/bin/bash
# What the host has of sessions of `mountctl run`: no mount at any time, a
# record and a process while something lives in there, and nothing afterwards;
# several at once; sessions that are cut short; and what root in a namespace of
# its own, inside, can't do to it.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 unshare
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

# A value from JSON on standard input: a Python expression about x.
json() {
	python3 -c 'import json, sys; x = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

# Runs a command; the kernel tells of every change of the mount table. Prints
# how many there were until a second after the command's end.
WATCH=$T_SCRATCH/watch
cat >"$WATCH" <<'PYTHON'
import select, subprocess, sys, time

table = open("/proc/self/mountinfo")
before = table.read()
poll = select.poll()
poll.register(table, select.POLLERR | select.POLLPRI)
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL,
                         stdout=sys.stderr)
changes, end = 0, None
while end is None or time.time() < end:
    if poll.poll(50):
        changes += 1
    if end is None and child.poll() is not None:
        end = time.time() + 1
table.seek(0)
print(changes, "changes,",
      "the same table" if table.read() == before else "another table")
sys.exit(child.returncode)
PYTHON

watch_mounts() {
	apart python3 "$WATCH" "$@"
}

# In a mount table that nobody else changes, but where mounts are shared with
# whoever enters a namespace, as on most machines.
apart() {
	if [ "$(id -u)" -eq 0 ]; then
		unshare -m --propagation private sh -c \
			'mount --make-rshared / && exec "$@"' - "$@"
	else
		"$@"
	fi
}

check_mount_table() {
	local script='touch x && git add x && git commit -q -m x
		! touch ../x && ls .. && (sleep 0.5; touch y) &'
	same "the host's mount table doesn't change at any time" \
		"$(cd "$W" && watch_mounts "${as[@]}" "$T_MOUNTCTL" run -- \
			sh -c "$script" 2>"$BASE/err")" \
		"0 changes, the same table"
	t_ok "$who: though the command did its work" test -e "$W/y"
	[ "$who" = root ] || return 0
	same "a change of it would be seen" "$(watch_mounts sh -c \
		'mount -t tmpfs none /mnt && sleep 0.5 && umount /mnt')" \
		"2 changes, the same table"
}

start_and_leave() {
	(cd "$W" && s_mountctl run "$@" -- sh -c \
		'sleep 300 >/dev/null 2>&1 & echo $! >pid')
}

check_background() {
	local pid list
	ok "a command leaves a process behind" start_and_leave
	pid=$(cat "$W/pid")
	list=$(s_mountctl list)
	t_like "$who: list names the session and the process" "$list" \
		"^wt +enforced +live .*sleep \\($pid\\)"
	list=$(s_mountctl list --json)
	same "as JSON, too" "$(json 'x["sessions"][0]["processes"]' \
		<<<"$list")" "[{'pid': $pid, 'command': 'sleep 300'}]"
	same "with the filesystem's process" \
		"$(json 'x["sessions"][0]["pid"]' <<<"$list")" "$(s_processes)"
	s_as kill "$pid"
	s_clear "with it the session ends"
	t_is "$who: list has none" "$(s_mountctl list --json |
		json 'x["sessions"]')" "[]"

	start_and_leave
	ok "unmount ends what is left" s_mountctl unmount wt
	s_clear "and the session"
	start_and_leave -n named
	ok "also by the worktree" s_mountctl unmount "$W"
	s_clear "and that session"
	ok "and it is no error where there is none" s_mountctl unmount wt

	rm -f "$W/pid"
	(cd "$W" && s_mountctl run -- sh -c "trap '' TERM
		sh -c 'echo \$\$ >pid; while :; do sleep 0.1; done' \
			>/dev/null 2>&1 &")
	t_wait 5 test -s "$W/pid"
	pid=$(cat "$W/pid")
	t_status 1 "$who: what doesn't end keeps it" \
		s_mountctl unmount wt --timeout 0.3
	t_like "$who: and is named" "$T_STDERR" "^  $pid  sh -c "
	ok "--lazy takes the view away" s_mountctl unmount wt --lazy
	t_not "$who: though not from the host" test -e "$RUN/wt"
	t_ok "$who: the process is left alone" s_as kill -0 "$pid"
	s_as kill -KILL "$pid"
	s_clear "nothing is left"
}

check_two_worktrees() {
	s_as git -C "$M" worktree add -q -b other "$BASE/other" || exit 1
	s_hold one
	local first=$s_holder
	W=$BASE/other s_hold two
	refused EROFS "the first can't write to the second's worktree" \
		s_in one touch "$BASE/other/x"
	refused EROFS "nor the second to the first's" \
		s_in two touch "$M/wt/x"
	ok "each to its own" s_in one touch "$M/wt/x"
	ok "and to its own" s_in two touch "$BASE/other/x"
	ok "both commit" sh -c '
		one=$1 two=$2 and=$3
		shift 3
		(cd "$one" && "$@" run -n one -- sh -c "
			for i in 1 2 3 4 5 6 7 8; do
				git commit -q --allow-empty -m \$i || exit 1
			done") &
		(cd "$two" && "$@" run -n two -- sh -c "
			for i in 1 2 3 4 5 6 7 8; do
				git commit -q --allow-empty -m \$i || exit 1
			done") &&
		wait $!' - "$W" "$BASE/other" "" "${as[@]}" "$T_MOUNTCTL"
	same "the host sees both" "$(s_as git -C "$M" rev-list --count \
		main..wt) $(s_as git -C "$M" rev-list --count main..other)" \
		"$((before_commits + 8)) 8"
	same "list has both" "$(s_mountctl list --json |
		json '[s["session"] for s in x["sessions"]]')" "['one', 'two']"
	kill "$first"
	wait "$first" 2>/dev/null
	ok "one ends, the other doesn't" s_in two touch "$BASE/other/x"
	s_release
	s_clear "then nothing is left"
}

check_one_worktree() {
	local i pids=()
	for i in 1 2 3 4 5 6 7 8; do
		(cd "$W" && s_mountctl run -- sh -c 'sleep 1
			sed -n "s/.*\"session\":.*\"\(.*\)\".*/\1/p" \
				"$WORKTREEFS_SESSION"' >"$BASE/name.$i") &
		pids+=("$!")
	done
	local failed=0
	for i in "${pids[@]}"; do
		wait "$i" || failed=$((failed + 1))
	done
	same "eight at once of one worktree all run" "$failed" 0
	same "each with a name of its own" "$(sort -V "$BASE"/name.* | xargs)" \
		"wt wt.2 wt.3 wt.4 wt.5 wt.6 wt.7 wt.8"
	s_clear "nothing is left of them"
}

# Its processes may die at any moment.
check_kills() {
	local i pid
	for i in 0 1 2 3 4 5 6 7 8 9 10 12 14 16 18 20 25 30; do
		(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -- true) &
		pid=$!
		sleep "$(printf '0.%03d' "$i")"
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	# One that is killed before there is a filesystem process leaves its
	# name to the next.
	ok "mountctl killed at any moment: the next one starts" s_guarded true
	s_clear "and nothing is left"

	s_hold killed
	ok "the view is there" s_in killed cat "$M/README.md"
	kill -KILL "$(s_processes)"
	t_wait 5 sh -c '[ -z "$1" ]' - "$(s_processes)"
	t_like "$who: list tells of a dead filesystem" \
		"$(s_mountctl list)" '^killed +enforced +dead '
	same "list --json, too" "$(s_mountctl list --json |
		json 'x["sessions"][0]["state"]')" dead
	local inside=(s_as nsenter -t "$s_holder" -m -U
		--preserve-credentials)
	refused ENOTCONN "the view is closed for reading" \
		"${inside[@]}" cat "$M/README.md"
	refused ENOTCONN "and for writing" \
		"${inside[@]}" sh -c "echo x >'$M/README.md'"
	ok "a session of the same name starts" sh -c \
		'cd "$1" && shift && "$@"' - "$W" "${as[@]}" "$T_MOUNTCTL" \
		run -n killed --main "$M" --worktree "$W" -- cat "$M/README.md"
	kill "$s_holder"
	wait "$s_holder" 2>/dev/null
	s_clear "nothing is left of it"

	s_hold killed
	kill -KILL "$(s_processes)"
	ok "unmount clears a dead one away" s_mountctl unmount killed
	t_not "$who: with its record" test -e "$RUN/killed"
	kill "$s_holder"
	wait "$s_holder" 2>/dev/null
	s_clear "nothing is left of that"
}

# In namespaces of its own a process is root, and may mount.
# shellcheck disable=SC2317 # called by way of refused
nested() {
	s_guarded unshare -Urm "$@"
}

check_nested_root() {
	if ! s_as unshare -Urm true 2>/dev/null; then
		t_skip "$who: root in a namespace of its own" \
			"there are none for this user"
		return
	fi
	local what
	for what in "$M" "$W" "$W/.git"; do
		t_not "$who: nested: umount ${what#"$BASE/"}" \
			nested umount "$what"
		t_not "$who: nested: umount -l ${what#"$BASE/"}" \
			nested umount -l "$what"
	done
	t_not "$who: nested: mount --move" nested mount --move "$M" /mnt
	t_not "$who: nested: remounting the pointer" \
		nested mount -o remount,bind,rw "$W/.git"
	refused EROFS "nested: a bind mount of main" nested sh -c \
		'mount --rbind "$1" /mnt && touch /mnt/x' - "$M"
	refused EROFS "nested: a bind mount of what is above" nested sh -c \
		'mount --rbind "$1" /mnt && touch /mnt/main/x' - "$BASE"
	refused EROFS "nested: a bind mount over the worktree" nested sh -c \
		'mount --rbind "$1" "$2" && touch "$2/x"' - "$M" "$W"
	ok "nested: what covers main takes no write for it" nested sh -c '
		mount -t tmpfs none "$1" && echo x >"$1/README.md"' - "$M"
	refused EROFS "nested: and uncovered again it is the view" \
		nested sh -c 'mount -t tmpfs none "$1" && umount "$1" &&
			touch "$1/README.md"' - "$M"
	refused EROFS "nested: another root" nested sh -c '
		mount -t tmpfs none /mnt && mkdir /mnt/old && cd /mnt &&
		mount --rbind / /mnt/old && exec chroot /mnt/old \
			touch "$1/README.md"' - "$M"
	refused EROFS "nested: pivot_root" nested sh -c '
		mount -t tmpfs none /mnt && mkdir /mnt/old &&
		pivot_root /mnt /mnt/old && cd /old && echo x >"/old$1/x"' - "$M"
	refused EROFS "nested twice" nested unshare -Urm touch "$M/x"
	refused EROFS "nested, with pids of its own" \
		nested unshare -pf --mount-proc touch "$M/x"
}

# What git does on its own may outlive the command.
check_automatic_gc() {
	ok "git's automatic gc starts" s_guarded sh -c '
		for i in $(seq 300); do
			echo $i | git hash-object -w --stdin
		done >/dev/null
		git commit -q --allow-empty -m gc &&
		git -c gc.auto=1 -c gc.autoDetach=true gc --auto 2>/dev/null'
	t_wait 30 s_is_clear
	s_clear "and when it ends, the session ends"
	same "it left no complaint" "$(cat "$M/.git/worktrees/wt/gc.log" \
		"$M/.git/gc.log" 2>/dev/null)" ""
	ok "nor anything broken" s_as git -C "$M" fsck
}

check_all() {
	s_repository || exit 1
	before=$(t_fingerprint "$M" wt)
	check_mount_table
	check_background
	before_commits=$(s_as git -C "$M" rev-list --count main..wt)
	check_two_worktrees
	check_one_worktree
	check_kills
	check_nested_root
	check_automatic_gc
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

#!/bin/bash
# The filesystem process: how it is started without mountctl, that it says when
# it is ready, how it ends, and what becomes of the view when it is stopped or
# has too few resources.
# shellcheck disable=SC2016 # what is quoted is expanded elsewhere
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 fusermount3 prlimit
t_user_make || exit 1

fs=$T_BUILD/fs/worktreefs

ok() {
	t_ok "$who: $1" "${@:2}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# shellcheck disable=SC2317 # called by way of t_wait
is_mounted() {
	grep -q " $1 " /proc/self/mountinfo
}

is_unmounted() {
	! is_mounted "$1"
}

# Under the user's eyes, too: a copy that everybody may run.
program() {
	mkdir -p "$T_SCRATCH/bin"
	cp "$fs" "$T_SCRATCH/bin/" && chmod 0755 "$T_SCRATCH/bin/worktreefs"
	fs=$T_SCRATCH/bin/worktreefs
}

tree() {
	rm -rf "$BASE/tree" "$BASE/mnt"
	mkdir -p "$BASE/tree/closed" "$BASE/tree/open" "$BASE/mnt"
	echo text >"$BASE/tree/closed/file"
	s_own "$BASE/tree" "$BASE/mnt"
}

check_view() {
	same "$1: the view answers at once" \
		"$(s_as cat "$BASE/mnt/closed/file")" text
	t_errno EROFS "$who: $1: what is ro" s_as touch "$BASE/mnt/closed/x"
	ok "$1: the rest is rw" s_as touch "$BASE/mnt/open/x"
}

unmounts() {
	if [ "$who" = root ]; then
		umount "$BASE/mnt"
	else
		s_as fusermount3 -u "$BASE/mnt"
	fi
}

by_hand() {
	tree
	t_defer t_unmount "$BASE/mnt"
	t_status 0 "$who: worktreefs SRC MNT" \
		s_as "$fs" "$BASE/tree" "$BASE/mnt" -o ro=closed
	check_view "in the background"
	ok "unmount" unmounts
	t_status 1 "$who: what can't be mounted says so before it is left alone" \
		s_as "$fs" "$BASE/tree" "$BASE/mnt" -o nosuchoption=1
	t_is "$who: and isn't mounted" "$(is_mounted "$BASE/mnt" && echo yes)" ""
	t_status 2 "$who: a watchdog's time is a number" \
		s_as "$fs" "$BASE/tree" "$BASE/mnt" -o watchdog=soon
}

# As systemd does it with Type=notify.
listen='
import os, signal, socket, subprocess, sys
path, mnt = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path.replace("@", "\0", 1) if path[0] == "@" else path)
s.settimeout(60)
child = subprocess.Popen(sys.argv[3:], env=dict(os.environ, NOTIFY_SOCKET=path),
                         stdout=subprocess.DEVNULL)
print(s.recv(100).decode(), open(mnt + "/closed/file").read().strip())
child.send_signal(signal.SIGTERM)
print(child.wait(60), os.path.exists(mnt + "/closed"))
'

notifies() {
	tree
	rm -f "$BASE/notify"
	same "-f tells NOTIFY_SOCKET, and ends at a signal" \
		"$(s_as python3 -c "$listen" "$BASE/notify" "$BASE/mnt" \
			"$fs" "$BASE/tree" "$BASE/mnt" -o ro=closed -f)" \
		"READY=1 text
0 False"
	same "an abstract one, too" \
		"$(s_as python3 -c "$listen" "@$BASE/notify" "$BASE/mnt" \
			"$fs" "$BASE/tree" "$BASE/mnt" -o ro=closed -f)" \
		"READY=1 text
0 False"
	rm -f "$BASE/notify"
	same "mountctl mount -f does" \
		"$(s_as python3 -c "$listen" "$BASE/notify" "$BASE/mnt" \
			"$T_MOUNTCTL" mount -f --root "$BASE/tree" \
			--ro closed --at "$BASE/mnt")" \
		"READY=1 text
0 False"
}

# mount(8) and fstab, which are root's, with the program where mount.fuse3 looks
# for it: nowhere but in a mount namespace of our own.
mounting='
	mount --bind "$1" /usr/local/bin
	shift
	for how in "-t fuse.worktreefs -o ro-path=closed $1 $2" "-T $3 $2"; do
		mount $how || exit
		cat "$2/closed/file"
		touch "$2/closed/x" 2>&1
		touch "$2/open/x" && umount "$2" || exit
	done'

by_mount() {
	local said
	tree
	printf '%s %s fuse.worktreefs ro-path=closed,watchdog=100 0 0\n' \
		"$BASE/tree" "$BASE/mnt" >"$BASE/fstab"
	said="touch: cannot touch '$BASE/mnt/closed/x': $(t_message EROFS)"
	same "mount -t fuse.worktreefs, and fstab" "$(s_as unshare -m \
		bash -c "$mounting" - "${fs%/*}" "$BASE/tree" "$BASE/mnt" \
		"$BASE/fstab" 2>&1)" "text
$said
text
$said"
}

is_stopped() {
	grep -q '^State:.*[Tt] ' "/proc/$1/status"
}

# At the end, should the script be broken off.
# shellcheck disable=SC2317 # called by way of t_defer
resume() {
	kill -CONT "$1" 2>/dev/null
}

stop() {
	kill -STOP "$1" && t_wait 20 is_stopped "$1"
}

# Waits for the process, and then gets at the file after all.
waits_and_goes_on() {
	local pid reader
	s_hold patient --watchdog 100
	pid=$(s_server patient)
	t_defer resume "$pid"
	stop "$pid"
	s_in patient cat "$M/README.md" >"$BASE/read" 2>&1 &
	reader=$!
	t_is "$who: a stopped process lets its callers wait" \
		"$(sleep 1; kill -0 "$reader" 2>/dev/null && echo waits)" waits
	kill -CONT "$pid"
	wait "$reader"
	same "and then they go on" "$?:$(cat "$BASE/read")" \
		"0:$(cat "$M/README.md")"
	s_release
	s_clear "nothing is left of it"
}

# What is asked of it meanwhile: an error each.
held='
import os, sys

g = os.open(sys.argv[2] + "/work.txt", os.O_RDWR | os.O_CREAT)
print("open", flush=True)
sys.stdin.readline()
for do in (lambda: os.stat(sys.argv[1] + "/src"),
           lambda: os.listdir(sys.argv[1] + "/docs"),
           lambda: open(sys.argv[1] + "/src/x", "w"),
           lambda: os.fsync(g)):
    try:
        do()
        print("done", do.__code__.co_names)
    except OSError as e:
        print("error")
'

watched() {
	local before pid how=$1
	shift
	before=$(t_fingerprint "$M" wt)
	rm -f "$BASE/ask"
	mkfifo "$BASE/ask"
	s_own "$BASE/ask"
	(cd "$W" && exec "$@" python3 -c "$held" "${at:-$M}" "${at:-$M}/wt" \
		<>"$BASE/ask" >"$BASE/held" 2>&1) &
	t_wait 60 grep -q open "$BASE/held" || t_diag "$(cat "$BASE/held")"
	pid=$(s_server wt)
	t_defer resume "$pid"
	stop "$pid"
	echo >"$BASE/ask"
	ok "$how: the watchdog ends a stopped process" t_wait 60 s_is_dead "$pid"
	wait $!
	same "$how: everybody who waited hears of it" \
		"$(sort -u <"$BASE/held" | tr '\n' ' ')" "error open "
	t_like "$who: $how: the log tells" "$(cat "$STATE/wt/worktreefs.log")" \
		"no sign of life for 1 seconds"
	same "$how: main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

watchdog() {
	local at=''
	watched run "${as[@]}" "$T_MOUNTCTL" run --native none --watchdog 1 --
	s_mountctl unmount wt >/dev/null 2>&1
	s_clear "nothing is left of it"
	ok "a view with a watchdog" s_mountctl mount --main "$M" \
		--worktree "$W" --watchdog 1
	at=$RUN/wt/view
	watched mount "${as[@]}"
	ok "what is dead is unmounted" s_mountctl unmount wt
	ok "and can be mounted again" s_mountctl mount --main "$M" \
		--worktree "$W"
	same "which works" "$(s_as cat "$at/README.md")" "$(cat "$M/README.md")"
	ok "unmount" s_mountctl unmount wt
	s_clear "nothing is left of this, either"
}

# Whoever waits for a lock is no reason for the watchdog.
lock='
import fcntl, os, subprocess, sys, time
f = open(sys.argv[1], "w")
fcntl.flock(f, fcntl.LOCK_EX)
p = subprocess.Popen([sys.executable, "-c",
    "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)",
    sys.argv[1]])
time.sleep(4)
print(p.poll())
fcntl.flock(f, fcntl.LOCK_UN)
print(p.wait(60))
'

waits_for_lock() {
	run_options=(--native none --watchdog 1)
	same "a lock that takes longer than the watchdog" \
		"$(s_guarded python3 -c "$lock" "$W/lock")" "None
0"
	run_options=()
	s_clear "nothing is left of it"
}

ends_at_a_signal() {
	local pid
	ok "mount" s_mountctl mount --main "$M" --worktree "$W"
	pid=$(s_server wt)
	kill -TERM "$pid"
	ok "a signal ends the process" t_wait 30 s_is_dead "$pid"
	t_like "$who: which it says" "$(cat "$STATE/wt/worktreefs.log")" \
		"ends: signal 15"
	s_clear "and nothing is left"
}

# More files at once than it may have: an error for those, and no more.
many='
import errno, os, sys
files, why = [], set()
for i in range(100):
    try:
        files.append(open(f"{sys.argv[1]}/many/{i}"))
    except OSError as e:
        why.add(errno.errorcode[e.errno])
print(len(files) < 100, *sorted(why))
for f in files:
    f.close()
for i in range(100):
    assert open(f"{sys.argv[1]}/many/{i}").read() == f"{i}\n"
print("all")
'

few_descriptors() {
	s_as mkdir "$M/many"
	s_as sh -c 'for i in $(seq 0 99); do echo $i >"$1/many/$i"; done' - "$M"
	ok "a session with 64 descriptors" s_as prlimit --nofile=64:64 \
		"$T_MOUNTCTL" mount --main "$M" --worktree "$W"
	same "too many at once is an error, and one after the other works" \
		"$(s_as python3 -c "$many" "$RUN/wt/view")" "True EMFILE
all"
	t_like "$who: and the log tells of it" \
		"$(cat "$STATE/wt/worktreefs.log")" "too many open files"
	ok "git works" s_as git -C "$RUN/wt/view/wt" status
	ok "and commits" s_as git -C "$RUN/wt/view/wt" commit -q \
		--allow-empty -m few
	ok "unmount" s_mountctl unmount wt
	s_as rm -r "$M/many"
	s_clear "nothing is left"
}

# On file systems of their own, which only root can mount.
on_a_file_system() {
	local before
	mkdir -p "$BASE/small"
	mount -t tmpfs -o size=6m,mode=755 tmpfs "$BASE/small" || return
	t_defer t_unmount "$BASE/small"
	s_own "$BASE/small"
	M=$BASE/small/main W=$BASE/small/main/wt
	s_repository
	before=$(t_fingerprint "$M" wt)
	run_options=(--native none)
	t_errno ENOSPC "$who: a full disk says so" s_guarded \
		sh -c 'cat /dev/zero >big'
	t_not "$who: no commit on it" s_guarded git commit -q --allow-empty \
		-m "$(seq 2000)"
	ok "with room again" s_guarded rm big
	ok "a commit lands" s_guarded git commit -q --allow-empty -m room
	ok "git fsck" s_as git -C "$M" fsck --no-dangling
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
	mount -o remount,ro "$BASE/small"
	t_errno EROFS "$who: nothing is written on a read-only disk" \
		s_guarded touch x
	same "and all is read" "$(s_guarded cat "$M/README.md")" \
		"$(cat "$M/README.md")"
	mount -o remount,rw "$BASE/small"
	ok "a later session works" s_guarded touch x
	run_options=()
	s_clear "nothing is left"
	s_be "$who"
}

program
for somebody in $(s_everybody); do
	s_be "$somebody"
	s_repository || exit 1
	by_hand
	notifies
	[ "$who" != root ] || by_mount
	waits_and_goes_on
	watchdog
	waits_for_lock
	ends_at_a_signal
	few_descriptors
	[ "$(id -u)" -ne 0 ] || on_a_file_system
done
t_done

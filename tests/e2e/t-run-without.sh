#!/bin/bash
# `mountctl run` where something that it needs can't be had: what it says, that
# it doesn't start the command, and what it does when it is told to all the
# same. Root without user namespaces has a guard; it is tried here, too.
# shellcheck disable=SC2030,SC2031 # options of one run end with its subshell
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need cc git unshare setpriv mount
t_user_make || exit 1

for program in escape without-userns; do
	cc -std=gnu11 -D_GNU_SOURCE -o "$T_SCRATCH/$program" \
		"$T_SRC/tests/support/$program.c" || exit 1
done
ESCAPE=$T_SCRATCH/escape
without=()

# A command behind run, in a surrounding that lacks something.
lacking() {
	(cd "$W" && s_as "${without[@]}" "$T_MOUNTCTL" run \
		"${run_options[@]}" -- "$@")
}

# NAME REGEX: nothing is run, and the one line that is said has the cause.
refused() {
	t_status 125 "$who: $1: the command isn't run" \
		lacking touch "$W/was-run"
	t_like "$who: $1: the cause is named" "$T_STDERR" "$2"
	t_is "$who: $1: in one line" "$(wc -l <<<"$T_STDERR")" 1
	[ ! -e "$W/was-run" ] || t_fail "$who: $1: it was run"
	s_clear "$1: nothing is left"
}

# NAME: with the fallback it runs, and that can't be overlooked.
falls_back() {
	t_is "$who: $1: --fallback none runs it" "$(run_options=(--fallback \
		none --tier-file "$BASE/tier") && lacking echo ran \
		2>"$BASE/stderr")" ran
	t_like "$who: $1: and says so" "$(cat "$BASE/stderr")" 'NO GUARD: .'
	t_is "$who: $1: the tier is none" "$(cat "$BASE/tier")" none
	t_is "$who: $1: the environment can ask for it" \
		"$(WORKTREEFS_FALLBACK=none && export WORKTREEFS_FALLBACK &&
			lacking_with_environment echo ran 2>/dev/null)" ran
	t_status 125 "$who: $1: an option outdoes the environment" \
		with_fallback_fail
}

lacking_with_environment() {
	(cd "$W" && s_as "${without[@]}" env WORKTREEFS_FALLBACK=none \
		"$T_MOUNTCTL" run "${run_options[@]}" -- "$@")
}

with_fallback_fail() {
	run_options=(--fallback fail)
	lacking_with_environment true
}

# User namespaces

check_no_namespaces() {
	without=(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces &&
		exec setpriv --bounding-set=-sys_admin "$@"' -)
	refused "no namespaces allowed" 'user\.max_user_namespaces is 0.*sysctl'
	falls_back "no namespaces allowed"
	[ "$who" = root ] && return
	without=("$T_SCRATCH/without-userns")
	refused "a filter in force" 'seccomp.*security-opt'
}

# The device; needs root, to put another in its place.

check_no_device() {
	local plain=("${as[@]}")
	as=()
	: >"$BASE/fuse"
	chmod 0600 "$BASE/fuse"
	without=(unshare -m sh -c 'mount --bind "$0" /dev/fuse && exec "$@"'
		"$BASE/fuse" "${plain[@]}")
	if [ "$who" = root ]; then
		refused "no device" 'cannot make a FUSE mount'
	else
		refused "a device of root's" '/dev/fuse.*0600.*chmod 0666'
	fi
	without=(unshare -m sh -c 'mount --bind /dev/null "$0" &&
		mount -t tmpfs none /dev && touch /dev/null &&
		mount --bind "$0" /dev/null && exec "$@"'
		"$BASE/fuse" "${plain[@]}")
	refused "no device at all" '/dev/fuse: No such file.*modprobe fuse'
	as=("${plain[@]}")
}

# The filesystem process

check_no_server() {
	without=(env WORKTREEFS_BIN="$(type -P false)")
	refused "a server that ends at once" 'filesystem process'
	without=(env WORKTREEFS_BIN=/nonexistent)
	refused "no server" "WORKTREEFS_BIN.*'/nonexistent'"
	falls_back "no server"
}

check_switched_off() {
	without=(env WORKTREEFS=off)
	t_is "$who: WORKTREEFS=off runs the command" "$(lacking echo ran \
		2>"$BASE/stderr")" ran
	t_like "$who: with a warning" "$(cat "$BASE/stderr")" \
		'warning: WORKTREEFS=off'
	t_is "$who: and no guard" "$(run_options=(--tier-file "$BASE/off") &&
		lacking true 2>/dev/null && cat "$BASE/off")" none
	t_status 3 "$who: the exit status is the command's" lacking \
		sh -c 'exit 3'
	without=()
}

check_tier_file() {
	t_is "$who: the tier is enforced" "$(run_options=(--tier-file \
		"$BASE/enforced") && lacking true && cat "$BASE/enforced")" \
		enforced
	t_is "$who: without a newline" "$(wc -c <"$BASE/enforced")" 8
	without=(env WORKTREEFS_TIER_FILE="$BASE/named")
	t_is "$who: the environment can ask for it" \
		"$(lacking true && cat "$BASE/named")" enforced
	without=()
	echo 'what was there before' >"$BASE/enforced"
	t_is "$who: what was there is gone" "$(run_options=(--tier-file \
		"$BASE/enforced") && lacking true && cat "$BASE/enforced")" \
		enforced
	t_is "$who: a failure leaves it" "$(run_options=(--tier-file \
		"$BASE/enforced" --rw x --ro x) && lacking true 2>/dev/null
		cat "$BASE/enforced")" enforced
	run_options=(--tier-file "$BASE/missing/tier")
	t_status 125 "$who: one that can't be written is an error" lacking true
	run_options=()
}

check_bad_input() {
	local -A bad=(
		[two rules on a path]="--rw x --ro x"
		[a root that is no directory]="--root $W/README.md --ro ."
		[a root that is not there]="--root $BASE/missing --ro ."
		[an unknown option]="--bogus"
		[an unknown fallback]="--fallback maybe"
		[a worktree that is none]="--worktree $M/src"
	)
	local name
	for name in "${!bad[@]}"; do
		read -ra run_options <<<"${bad[$name]}"
		t_status 125 "$who: $name is an error" lacking true
		t_is "$who: $name: in one line" "$(wc -l <<<"$T_STDERR")" 1
	done
	run_options=()
	t_status 125 "$who: so is no command" s_mountctl run
	s_clear "nothing is left of these"
}

# Root with a mount namespace alone

check_mount_namespace() {
	without=("$T_SCRATCH/without-userns")
	t_errno EROFS "root alone: main is read-only" lacking touch "$M/x"
	t_ok "root alone: the worktree is writable" lacking touch "$W/y"
	t_errno EROFS "root alone: but for its pointer file" \
		lacking sh -c "echo >>'$W/.git'"
	local set status
	status=$(lacking grep ^Cap /proc/self/status)
	for set in Inh Prm Eff Bnd Amb; do
		# SYS_ADMIN PTRACE DAC_READ_SEARCH MKNOD MODULE RAWIO BOOT BPF
		# PERFMON
		t_is "root alone: what is dangerous isn't in Cap$set" \
			"$(printf '%x' $((0x$(sed -n "s/^Cap$set:\t//p" \
				<<<"$status") & 0xc0086b0004)))" 0
	done
	t_ok "root alone: owners can be changed" lacking sh -c \
		'touch f && chown 1:1 f'
	t_not "root alone: the view can't be unmounted" \
		lacking "$ESCAPE" umount "$M"
	t_not "root alone: nor moved" lacking "$ESCAPE" move "$M" /mnt
	t_not "root alone: nor copied from below" lacking "$ESCAPE" peel /
	t_not "root alone: nor the pointer file made writable" \
		lacking "$ESCAPE" writable "$W/.git"
	t_errno EPERM "root alone: TIOCSTI is refused" \
		lacking "$ESCAPE" tiocsti
	t_not "root alone: devices can't be made" lacking mknod node b 1 1
	(cd "$M" && exec sleep 600 3>>"$M/README.md") &
	local outsider=$!
	t_defer kill "$outsider"
	t_wait 5 test "$(readlink "/proc/$outsider/cwd")" = "$M"
	t_not "root alone: a host's namespace can't be entered" \
		lacking "$ESCAPE" setns "/proc/$outsider/ns/mnt"
	t_not "root alone: a host's process is no way through" \
		lacking sh -c "echo x >'/proc/$outsider/root$M/x'"
	t_not "root alone: nor is its working directory" \
		lacking sh -c "echo x >'/proc/$outsider/cwd/x'"
	t_not "root alone: nor are its descriptors" \
		lacking sh -c "echo x >>'/proc/$outsider/fd/3'"
	t_not "root alone: it can't be traced" \
		lacking "$ESCAPE" trace "$outsider"
	t_not "root alone: no way through the filesystem process" lacking sh -c "
		for proc in /proc/[0-9]*; do
			case \$(cat \$proc/comm 2>/dev/null) in
			worktreefs) echo x >\$proc/root'$M/x' && exit 0 ;;
			esac
		done 2>/dev/null
		exit 1"
	# shellcheck disable=SC2046 # two words
	t_errno EPERM "root alone: a file can't be opened by its handle" \
		lacking "$ESCAPE" handle-open "$W" \
		$("$ESCAPE" handle-of "$M/README.md")
	t_is "root alone: the tier is enforced" "$(run_options=(--tier-file \
		"$BASE/alone") && lacking true && cat "$BASE/alone")" enforced
	(cd "$W" && exec "${without[@]}" "$T_MOUNTCTL" run -n alone -- sh -c "
		readlink /proc/self/ns/mnt >'$W/ns'
		until [ -e '$W/end' ]; do sleep 0.02; done") &
	local session=$!
	t_wait 10 test -s "$W/ns"
	run_options=(-n alone)
	t_is "root alone: a session can be joined" \
		"$(lacking readlink /proc/self/ns/mnt)" "$(cat "$W/ns")"
	t_not "root alone: and not be unmounted from there" \
		lacking "$ESCAPE" umount "$M"
	run_options=()
	touch "$W/end"
	wait "$session"
	without=()
	s_clear "root alone: nothing is left"
}

check_all() {
	s_be "$1"
	s_repository || exit 1
	before=$(t_fingerprint "$M" wt)
	check_no_namespaces
	[ "$(id -u)" -ne 0 ] || check_no_device
	check_no_server
	check_switched_off
	check_tier_file
	check_bad_input
	[ "$who" != root ] || check_mount_namespace
	t_is "$who: main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

for somebody in $(s_everybody); do
	check_all "$somebody"
done
t_done

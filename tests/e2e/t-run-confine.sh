#!/bin/bash
# What a command behind `mountctl run` can't do, as root and as somebody else:
# gain privileges, peel the mounts off, reach the tree by way of another
# process, of a file handle or of another path, type into the terminal.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need cc git bwrap unshare setpriv setcap
t_user_make || exit 1

ESCAPE=$T_SCRATCH/escape
cc -std=gnu11 -D_GNU_SOURCE -o "$ESCAPE" "$T_SRC/tests/support/escape.c" ||
	exit 1

# Sets M, W and the words that a command begins with for somebody: root, user.
as=()
be() {
	who=$1
	M=$T_SCRATCH/$who/main
	W=$M/wt
	as=()
	[ "$who" = root ] || as=("${T_AS_USER[@]}")
}

guarded() {
	(cd "$W" && timeout 60 "${as[@]}" "$T_MOUNTCTL" run -- "$@")
}

# In user and mount namespaces of its own, as root there.
nested() {
	guarded unshare -Urm "$@"
}

untouched() {
	t_is "$who: $1" "$(t_fingerprint "$M" wt)" "$before"
}

make_repository() {
	t_repo "$M" && t_worktree "$M" "$W" || exit 1
	[ "$who" = root ] || chown -R "$T_USER:" "$T_SCRATCH/$who"
	before=$(t_fingerprint "$M" wt)
}

# A process outside, of the same user, in M and with a file of M open.
start_outsider() {
	(cd "$M" && exec "${as[@]}" sleep 600 3>>"$M/README.md") &
	outsider=$!
	t_defer kill "$outsider"
	t_wait 5 test "$(readlink "/proc/$outsider/cwd")" = "$M"
}

capability_set() {
	sed -n "s/^Cap$1:[[:space:]]*//p" "$T_SCRATCH/$who/status"
}

# Is the capability with this number in the set?
has() {
	echo $(((0x$(capability_set "$1") >> $2) & 1))
}

check_capabilities() {
	guarded cat /proc/self/status >"$T_SCRATCH/$who/status"
	t_is "$who: CAP_SYS_ADMIN has left the bounding set" "$(has Bnd 21)" 0
	t_is "$who: no capability is ambient" "$(has Amb 21)" 0
	t_like "$who: no_new_privs isn't set" \
		"$(cat "$T_SCRATCH/$who/status")" '^NoNewPrivs:[[:space:]]*0$'
	if [ "$who" = root ]; then
		t_is "root: may change owners" "$(has Eff 0)" 1
		t_ok "root: changes owners" \
			guarded sh -c 'touch f && chown 1:1 f && rm f'
		t_ok "root: becomes somebody else" guarded setpriv \
			--reuid=65534 --regid=65534 --clear-groups true
		return
	fi
	local set
	for set in Inh Prm Eff Amb; do
		t_is "$who: the set Cap$set is empty" "$(capability_set $set)" \
			0000000000000000
	done
	t_is "$who: the uid is the caller's" "$(guarded id -u)" \
		"$(t_as_user id -u)"
	t_is "$who: the gid is the caller's" "$(guarded id -g)" \
		"$(t_as_user id -g)"
}

# Needs root, to make such files.
check_privileged_files() {
	local dir=$T_SCRATCH/$who
	cp "$ESCAPE" "$dir/admin"
	cp "$(type -P true)" "$dir/raw"
	cp "$(type -P id)" "$dir/setuid"
	chmod 4755 "$dir/setuid"
	if ! setcap cap_net_raw+ep "$dir/raw" ||
		! setcap cap_sys_admin+ep "$dir/admin"; then
		t_skip "$who: file capabilities" "can't be set here"
		return
	fi
	t_ok "$who: a file with capabilities of its own starts" \
		guarded "$dir/raw"
	[ "$who" = root ] && return
	t_errno EPERM "$who: one with CAP_SYS_ADMIN doesn't" \
		guarded "$dir/admin" umount "$M"
	t_is "$who: a set-uid program gains nothing" \
		"$(guarded "$dir/setuid" -u)" "$(t_as_user id -u)"
}

# Ways to make a system call. A kernel without the 32-bit one answers with
# SIGSEGV.
interfaces=(plain high compat)
find_interfaces() {
	"$ESCAPE" tiocsti compat >/dev/null 2>&1
	if [ $? -eq 139 ]; then
		interfaces=(plain high)
		t_skip "the 32-bit system calls" "this kernel has none"
	fi
}

check_terminal() {
	local how
	for how in "${interfaces[@]}"; do
		t_errno EPERM "$who: TIOCSTI is refused ($how)" \
			guarded "$ESCAPE" tiocsti "$how"
		t_errno EPERM "$who: TIOCLINUX is refused ($how)" \
			guarded "$ESCAPE" tioclinux "$how"
	done
	t_errno EPERM "$who: TIOCSTI is refused in a nested namespace" \
		nested "$ESCAPE" tiocsti
	t_ok "$who: other requests to terminals pass" guarded script -qec \
		'stty rows 10' /dev/null
}

# Attempts at the mounts; $1 is guarded or nested.
check_mounts() {
	local how=$1
	t_not "$who, $how: the view can't be unmounted" \
		"$how" "$ESCAPE" umount "$M"
	t_not "$who, $how: nor the worktree in it" \
		"$how" "$ESCAPE" umount "$W"
	t_not "$who, $how: nor what holds the pointer file" \
		"$how" "$ESCAPE" umount "$W/.git"
	t_not "$who, $how: nor what covers the records" \
		"$how" "$ESCAPE" umount "$XDG_RUNTIME_DIR/worktreefs"
	t_not "$who, $how: the view can't be moved away" \
		"$how" "$ESCAPE" move "$M" /mnt
	t_not "$who, $how: the pointer file's mount can't be made writable" \
		"$how" "$ESCAPE" writable "$W/.git"
	t_not "$who, $how: what is below the view can't be copied" \
		"$how" "$ESCAPE" peel /
	t_errno EROFS "$who, $how: a copy with the view is no way in" "$how" \
		sh -c "mount --rbind '$T_SCRATCH/$who' /mnt 2>/dev/null
			touch /mnt/main/x '$M/x'"
	t_not "$who, $how: nor is one without it" "$how" \
		sh -c "mount --bind '$T_SCRATCH/$who' /mnt && touch /mnt/main/x"
}

# As a mount namespace ends, its mounts must not fall apart for a process that
# is in another by then but has kept a directory of the first.
check_outliving() {
	rm -f "$T_SCRATCH/$who/done"
	guarded sh -c "exec 5<'$T_SCRATCH/$who' && {
		unshare -Urm sh -c 'sleep 0.3
			echo x >/proc/self/fd/5/main/x
			echo >/proc/self/fd/5/done' 2>/dev/null &
	}"
	t_wait 10 test -e "$T_SCRATCH/$who/done"
	t_not "$who: no way in after the session's end" test -e "$M/x"
}

check_pivot() {
	t_errno EROFS "$who: another root directory is no way in" \
		nested "$ESCAPE" pivot "$T_SCRATCH/$who" main/x
	[ "$who" = root ] || return 0
	t_errno EROFS "root: not without a namespace of its own either" \
		guarded "$ESCAPE" pivot "$T_SCRATCH/$who" main/x
	t_errno EROFS "root: the view is read-only wherever it is mounted" \
		guarded sh -c "mount --rbind '$M' /mnt && touch /mnt/x"
}

check_sandboxes() {
	t_ok "$who: bubblewrap starts inside" \
		guarded bwrap --dev-bind / / true
	t_ok "$who: bubblewrap makes a sandbox of its own" \
		guarded bwrap --ro-bind / / --dev /dev --proc /proc \
		--tmpfs /tmp --unshare-pid true
	t_errno EROFS "$who: in bubblewrap, the view holds" \
		guarded bwrap --dev-bind / / touch "$M/x"
	t_ok "$who: in bubblewrap, the worktree is writable" \
		guarded bwrap --dev-bind / / touch "$W/from-bwrap"
	t_ok "$who: unshare starts inside" nested true
	[ "$who" = root ] || return 0
	t_ok "root: other mounts can be made" \
		guarded sh -c 'mount -t tmpfs none /mnt && umount /mnt'
}

check_processes() {
	local proc=/proc/$outsider
	t_not "$who: a host's mount namespace can't be entered" \
		guarded "$ESCAPE" setns "$proc/ns/mnt"
	t_not "$who: nor its user namespace" \
		guarded "$ESCAPE" setns "$proc/ns/user"
	t_not "$who: no way through its root directory" \
		guarded sh -c "echo x >'$proc/root$M/x'"
	t_not "$who: nor through its working directory" \
		guarded sh -c "echo x >'$proc/cwd/x'"
	t_not "$who: nor through its descriptors" \
		guarded sh -c "echo x >>'$proc/fd/3'"
	t_not "$who: it can't be traced" guarded "$ESCAPE" trace "$outsider"
	t_not "$who: nor from a nested namespace" \
		nested "$ESCAPE" trace "$outsider"
	t_not "$who: nested, no way through its root directory" \
		nested sh -c "echo x >'$proc/root$M/x'"
	# The filesystem process sees the real tree as well.
	t_not "$who: no way through the filesystem process" guarded sh -c "
		for proc in /proc/[0-9]*; do
			case \$(cat \$proc/comm 2>/dev/null) in
			worktreefs) echo x >\$proc/root'$M/x' && exit 0 ;;
			esac
		done 2>/dev/null
		exit 1"
}

check_handles() {
	local handle
	if ! handle=$("$ESCAPE" handle-of "$M/README.md"); then
		t_skip "$who: file handles" "this file system has none"
		return
	fi
	# shellcheck disable=SC2086 # two words
	t_errno EPERM "$who: a file can't be opened by its handle" \
		guarded "$ESCAPE" handle-open "$W" $handle
	# shellcheck disable=SC2086
	t_not "$who: nor from a nested namespace" \
		nested "$ESCAPE" handle-open "$W" $handle
	# shellcheck disable=SC2086
	t_not "$who: nor by the root directory's mount" \
		nested "$ESCAPE" handle-open / $handle
}

# Needs root, to make such mounts.
check_aliases() {
	local alias=$T_SCRATCH/alias
	mkdir -p "$alias"/{same,above,below,file,worktree} "$W/vendor"
	[ "$who" = root ] || chown "$T_USER:" "$W/vendor"
	touch "$alias/file/f"
	mount --bind "$M" "$alias/same" &&
		mount --bind "$T_SCRATCH/$who" "$alias/above" &&
		mount --bind "$M/src" "$alias/below" &&
		mount --bind "$M/README.md" "$alias/file/f" &&
		mount --bind "$M/src" "$W/vendor" &&
		mount --bind "$W" "$alias/worktree" || return 1
	t_errno EROFS "$who: a bind mount of the tree is covered" \
		guarded touch "$alias/same/x"
	t_errno EROFS "$who: so is one of a directory above it" \
		guarded touch "$alias/above/main/x"
	t_errno EROFS "$who: so is one of a directory in it" \
		guarded touch "$alias/below/x"
	t_errno EROFS "$who: so is one of a file in it" \
		guarded sh -c "echo x >>'$alias/file/f'"
	t_errno EROFS "$who: so is one that lies in the worktree" \
		guarded touch "$W/vendor/x"
	t_ok "$who: the worktree stays writable by such a path" \
		guarded sh -c "echo x >'$alias/same/wt/a' &&
			echo x >'$alias/above/main/wt/b' &&
			echo x >'$alias/worktree/c'"
	t_errno EROFS "$who: but for its pointer file" \
		guarded sh -c "echo x >>'$alias/worktree/.git'"
	t_ok "$who: what is beside the tree stays writable" \
		guarded touch "$alias/above/beside"
	t_ok "$who: and all of it can be read" guarded cmp "$M/src/main.c" \
		"$alias/below/main.c"
	t_errno EROFS "$who: a covered path holds in a nested namespace" \
		nested touch "$alias/same/x"
	t_not "$who: and can't be uncovered" \
		nested "$ESCAPE" umount "$alias/same"
	umount "$alias"/{same,above,below,file/f,worktree} "$W/vendor"
}

# ssh takes no configuration that looks like nobody's. Needs root, to have one.
check_ssh() {
	if ! type -P ssh >/dev/null; then
		t_skip "$who: ssh" "it isn't here"
		return
	fi
	mkdir -p "$T_SCRATCH/ssh.d"
	echo 'Port 2222' >"$T_SCRATCH/ssh.d/10-test.conf"
	# shellcheck disable=SC2016 # expanded inside
	t_like "$who: ssh takes root's configuration" "$(cd "$W" && unshare -m \
		sh -c 'mount --bind "$0" /etc/ssh/ssh_config.d && exec "$@"' \
		"$T_SCRATCH/ssh.d" "${as[@]}" "$T_MOUNTCTL" run -- \
		ssh -G localhost 2>&1)" '^port 2222$'
}

check_worktreefs_own() {
	local run=$XDG_RUNTIME_DIR state=$HOME/.local/state
	[ "$who" = root ] || { run=$T_USER_RUN state=$T_USER_HOME/.local/state; }
	t_unlike "$who: the records are covered" \
		"$(guarded ls "$run/worktreefs")" .
	t_is "$who: of the state, the session's own is there" \
		"$(guarded ls "$state/worktreefs")" wt
	t_errno EROFS "$who: and read-only" \
		guarded touch "$state/worktreefs/wt/x"
	# shellcheck disable=SC2016 # expanded inside
	t_like "$who: the rules can be read" \
		"$(guarded sh -c 'cat "$WORKTREEFS_SESSION"')" '"session":.*"wt"'
	# shellcheck disable=SC2016
	t_not "$who: and not be written" \
		guarded sh -c 'echo x >>"$WORKTREEFS_SESSION"'
	# shellcheck disable=SC2016
	t_errno EBUSY "$who: nor be removed" \
		guarded rm -f "$run/worktreefs/.session.json"
	# shellcheck disable=SC2016
	t_ok "$who: the same rules are in a descriptor" guarded sh -c '
		cmp "$WORKTREEFS_SESSION" /proc/self/fd/$WORKTREEFS_SESSION_FD'
	# shellcheck disable=SC2016
	t_errno EPERM "$who: which is sealed" guarded sh -c '
		echo x >/proc/self/fd/$WORKTREEFS_SESSION_FD'
	t_not "$who: the device of FUSE reaches no command" \
		guarded sh -c 'ls -l /proc/self/fd | grep fuse'
}

check_all() {
	be "$1"
	make_repository
	start_outsider
	t_errno EROFS "$who: the view is there" guarded touch "$M/x"
	t_ok "$who: the worktree is writable" guarded touch "$W/x"
	check_capabilities
	check_terminal
	check_mounts guarded
	check_mounts nested
	check_outliving
	check_pivot
	check_sandboxes
	check_processes
	check_handles
	check_worktreefs_own
	if [ "$(id -u)" -eq 0 ]; then
		check_privileged_files
		check_aliases
		check_ssh
	fi
	untouched "the main checkout is what it was"
}

# These succeed where nobody guards, or the tests above would prove nothing.
check_controls() {
	be "$1"
	t_ok "control: the terminal is typed into without a guard" \
		"$ESCAPE" tiocsti "${interfaces[-1]}"
	[ "$who" = root ] || return
	# shellcheck disable=SC2046 # two words
	t_ok "control: a handle opens without a guard" "$ESCAPE" handle-open \
		"$W" $("$ESCAPE" handle-of "$M/README.md")
	t_ok "control: a process is traced without a guard" \
		"$ESCAPE" trace "$outsider"
}

find_interfaces
if [ "$(id -u)" -eq 0 ]; then
	check_all root
	check_controls root
fi
check_all user
t_done

# shellcheck shell=bash
# An unprivileged user for tests that run as root. Sourced by lib.sh.
#
#   t_user_make          makes the user and arranges for t_user_drop at the end
#   t_as_user COMMAND... runs a command as that user
#   "${T_AS_USER[@]}"    the same as words, for `"${T_AS_USER[@]}" CMD &`
#   $T_USER, $T_USER_HOME, $T_USER_RUN   name, home and XDG_RUNTIME_DIR
#   t_user_drop          removes it and what it left running (again: nothing)
#   t_user_sweep         the same for scripts that were killed
#
# Not root? Then the caller itself is the unprivileged user, and nothing is made.
#
# /dev/fuse may be root's alone. It is opened to everybody while at least one
# test user lives, on whatever script's behalf; the last to go puts the mode
# back. The list of who needs it, and the mode, lie in $t_user_state.

t_user_state=/run/worktreefs-test
T_USER='' T_USER_HOME='' T_USER_RUN=''
T_AS_USER=()

t_user_locked() {
	(
		umask 077
		mkdir -p "$t_user_state" || exit 1
		exec 9>"$t_user_state/lock" || exit 1
		flock 9 || exit 1
		"$@" 9>&-
	)
}

t_user_enter() {
	local name=$1
	t_user_sweep_locked
	if [ -e /dev/fuse ] && [ ! -e "$t_user_state/mode" ]; then
		stat -c %a /dev/fuse >"$t_user_state/mode"
	fi
	useradd --system --no-create-home --home-dir "$2" \
		--shell /bin/sh "$name" || return 1
	echo "$$" >"$t_user_state/user.$name"
	[ ! -e /dev/fuse ] || chmod 0666 /dev/fuse
}

# Ends the user's processes, waits for them, removes the user.
t_user_leave() {
	local name=$1 uid pid tries
	if uid=$(id -u "$name" 2>/dev/null); then
		for tries in 1 2 3 4 5 6 7 8 9 10; do
			pid=$(ps -o pid= -u "$uid" 2>/dev/null) || pid=
			[ -n "$pid" ] || break
			# shellcheck disable=SC2086 # one word a process
			kill -KILL $pid 2>/dev/null
			sleep "0.0$tries"
		done
		userdel --force "$name" >/dev/null 2>&1
	fi
	rm -f "$t_user_state/user.$name"
	if ! compgen -G "$t_user_state/user.*" >/dev/null; then
		if [ -s "$t_user_state/mode" ]; then
			chmod "$(cat "$t_user_state/mode")" /dev/fuse
		fi
		rm -f "$t_user_state/mode"
	fi
}

t_user_sweep_locked() {
	local file owner
	for file in "$t_user_state"/user.*; do
		[ -e "$file" ] || continue
		owner=$(cat "$file")
		if [ -z "$owner" ] || ! kill -0 "$owner" 2>/dev/null; then
			t_user_leave "${file##*/user.}"
		fi
	done
	return 0
}

t_user_sweep() {
	[ "$(id -u)" -eq 0 ] && [ -d "$t_user_state" ] || return 0
	t_user_locked t_user_sweep_locked
}

t_user_make() {
	local program
	if [ "$(id -u)" -ne 0 ]; then
		T_USER=$(id -un)
		T_USER_HOME=$HOME
		T_USER_RUN=$XDG_RUNTIME_DIR
		T_AS_USER=(env)
		return 0
	fi
	[ -z "$T_USER" ] || return 0
	T_USER=wtfs-test-$$
	T_USER_HOME=$T_SCRATCH/user
	T_USER_RUN=$T_SCRATCH/user-run
	if ! t_user_locked t_user_enter "$T_USER" "$T_USER_HOME"; then
		t_diag "cannot make the user $T_USER"
		T_USER=
		return 1
	fi
	t_defer t_user_drop
	mkdir -p "$T_USER_HOME" "$T_USER_RUN" &&
		chmod 0700 "$T_USER_RUN" &&
		chown "$T_USER:" "$T_USER_HOME" "$T_USER_RUN" || return 1
	T_AS_USER=(
		setpriv "--reuid=$T_USER" "--regid=$(id -g "$T_USER")"
		--clear-groups env -i "PATH=$PATH" "HOME=$T_USER_HOME"
		"USER=$T_USER" "LOGNAME=$T_USER" SHELL=/bin/sh
		"XDG_RUNTIME_DIR=$T_USER_RUN" "TERM=${TERM:-dumb}" LC_ALL=C TZ=UTC
		"T_SRC=$T_SRC" "T_BUILD=$T_BUILD" "T_SCRATCH=$T_SCRATCH"
	)
	for program in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS \
		LSAN_OPTIONS; do
		[ -z "${!program:-}" ] || T_AS_USER+=("$program=${!program}")
	done
	# A checkout below somebody's home may be closed to the user: then copies
	# of the programs are used from here on.
	if ! "${T_AS_USER[@]}" test -x "$T_MOUNTCTL" ||
		! "${T_AS_USER[@]}" test -x "$T_WORKTREEFS"; then
		mkdir -p "$T_SCRATCH/bin"
		for program in "$T_MOUNTCTL" "$T_WORKTREEFS"; do
			[ ! -e "$program" ] || cp "$program" "$T_SCRATCH/bin/"
		done
		T_MOUNTCTL=$T_SCRATCH/bin/mountctl
		T_WORKTREEFS=$T_SCRATCH/bin/worktreefs
	fi
	T_AS_USER+=("T_MOUNTCTL=$T_MOUNTCTL" "T_WORKTREEFS=$T_WORKTREEFS")
}

t_user_drop() {
	[ -n "$T_USER" ] || return 0
	[ "$(id -u)" -ne 0 ] || t_user_locked t_user_leave "$T_USER"
	T_USER=
	T_AS_USER=()
}

t_as_user() {
	if [ "${#T_AS_USER[@]}" -eq 0 ]; then
		echo "t_as_user: call t_user_make first" >&2
		return 1
	fi
	"${T_AS_USER[@]}" "$@"
}

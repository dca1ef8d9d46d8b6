# shellcheck shell=bash
# A small TAP library for the end-to-end and lint scripts.
#
#   #!/bin/bash
#   . "$T_SRC/tests/support/lib.sh"
#   t_repo "$T_SCRATCH/main"
#   t_errno EROFS "touch in main is refused" touch "$T_SCRATCH/view/f"
#   t_done
#
# tests/run.sh gives each script three absolute paths: T_SRC, the source tree;
# T_BUILD, the build tree; T_SCRATCH, a directory of its own that is removed
# afterwards. By hand: `T_BUILD=$PWD/build bash tests/e2e/t-NAME.sh` (the other
# two are found or made here).
#
# What a script may use:
#
#   $T_MOUNTCTL, $T_WORKTREEFS   the programs under test
#   t_ok NAME COMMAND...         COMMAND ends with 0
#   t_not NAME COMMAND...        COMMAND ends with anything else
#   t_status N NAME COMMAND...   COMMAND ends with exactly N
#   t_errno E NAME COMMAND...    COMMAND fails, and says errno E's message
#   t_is NAME GOT WANT           two strings are equal
#   t_like NAME GOT REGEX        GOT matches the extended regular expression
#   t_unlike NAME GOT REGEX      GOT doesn't
#   t_pass NAME, t_fail NAME     a verdict reached by other means
#   t_skip NAME REASON           for what this machine cannot provide
#   t_need PROGRAM...            for what the set-up should have provided: ends
#                                the script with a skip, in CI with a failure
#   t_diag TEXT...               a line for the reader
#   t_defer COMMAND...           run at the end, last deferred first
#   t_wait SECONDS COMMAND...    repeat COMMAND until it ends with 0
#   t_unmount DIR                umount(8), and its filesystem process has ended
#   t_repo DIR                   a git repository with some files, one commit
#   t_worktree MAIN DIR [BRANCH] a linked worktree of it
#   t_fingerprint DIR [PRUNE...] names, modes, links, mtimes and bytes of a tree
#   t_user_make, t_user_drop, t_as_user COMMAND...   (user.sh)
#   t_done                       prints the plan and ends the script
#
# The COMMANDs of verdicts run in a subshell; what they wrote is then in
# $T_STDOUT, $T_STDERR and their status in $T_STATUS.

T_SRC=${T_SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
T_BUILD=${T_BUILD:-$T_SRC/build}
t_own_scratch=
if [ -z "${T_SCRATCH:-}" ]; then
	T_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/wtfs.XXXXXX") || exit 1
	chmod 0755 "$T_SCRATCH"
	t_own_scratch=1
fi
T_MOUNTCTL=${T_MOUNTCTL:-$T_BUILD/mountctl/mountctl}
T_WORKTREEFS=${T_WORKTREEFS:-$T_BUILD/fs/worktreefs}
export T_SRC T_BUILD T_SCRATCH T_MOUNTCTL T_WORKTREEFS

# Messages in C, and nothing of the caller's own set-up: no git configuration,
# no session around us, records and logs in the scratch directory.
export LC_ALL=C TZ=UTC
for t_var in $(git rev-parse --local-env-vars 2>/dev/null) \
	$(compgen -e | grep -E '^(WORKTREEFS|VINTA_SANDBOX)'); do
	unset "$t_var"
done
unset t_var XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME
export HOME=$T_SCRATCH/home XDG_RUNTIME_DIR=$T_SCRATCH/run
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" "$T_SCRATCH/.t"
chmod 0700 "$XDG_RUNTIME_DIR"

t_count=0
t_failed=0
t_planned=
t_deferred=()
T_STDOUT='' T_STDERR='' T_STATUS=0

t_at_exit() {
	local status=$? i
	trap '' TERM INT HUP
	set +e
	for ((i = ${#t_deferred[@]} - 1; i >= 0; i--)); do
		eval "${t_deferred[i]}"
	done
	t_deferred=()
	cd /
	if [ -n "$t_own_scratch" ]; then
		rm -rf --one-file-system "$T_SCRATCH"
	fi
	if [ -z "$t_planned" ] && [ "$status" -eq 0 ]; then
		echo "# the script ended before t_done"
		status=1
	fi
	exit "$status"
}
trap t_at_exit EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

t_defer() {
	t_deferred+=("$(printf '%q ' "$@")")
}

t_diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

t_pass() {
	t_count=$((t_count + 1))
	printf 'ok %d - %s\n' "$t_count" "${1//#/\\#}"
	return 0
}

t_fail() {
	t_count=$((t_count + 1))
	t_failed=$((t_failed + 1))
	printf 'not ok %d - %s\n' "$t_count" "${1//#/\\#}"
	return 1
}

t_skip() {
	t_count=$((t_count + 1))
	printf 'ok %d - %s # SKIP %s\n' "$t_count" "${1//#/\\#}" "$2"
	return 0
}

t_done() {
	t_planned=1
	printf '1..%d\n' "$t_count"
	[ "$t_failed" -eq 0 ] || exit 1
	exit 0
}

# With sanitizers memory that is freed is kept for a while.
t_is_sanitized() {
	ldd "$T_BUILD/fs/worktreefs" | grep -q 'lib[at]san'
}

t_need() {
	local program missing=
	for program in "$@"; do
		command -v "$program" >/dev/null 2>&1 || missing+=" $program"
	done
	[ -n "$missing" ] || return 0
	if [ -n "${CI:-}" ]; then
		t_fail "the set-up provides$missing"
	else
		t_skip "everything that follows" "without$missing"
	fi
	t_done
}

# Runs a command in a subshell; sets T_STDOUT, T_STDERR and T_STATUS.
t_run() {
	T_STATUS=0
	("$@") >"$T_SCRATCH/.t/out" 2>"$T_SCRATCH/.t/err" || T_STATUS=$?
	# bash drops NUL bytes here, with a warning that helps nobody
	{
		T_STDOUT=$(cat "$T_SCRATCH/.t/out")
		T_STDERR=$(cat "$T_SCRATCH/.t/err")
	} 2>/dev/null
}

t_explain() {
	t_diag "command: $(printf '%q ' "$@")"
	t_diag "status:  $T_STATUS"
	[ -z "$T_STDOUT" ] || t_diag "stdout:  $(head -c 4000 <<<"$T_STDOUT")"
	[ -z "$T_STDERR" ] || t_diag "stderr:  $(head -c 4000 <<<"$T_STDERR")"
}

t_status() {
	local want=$1 name=$2
	shift 2
	t_run "$@"
	if [ "$T_STATUS" -eq "$want" ]; then
		t_pass "$name"
		return 0
	fi
	t_fail "$name"
	t_diag "wanted:  status $want"
	t_explain "$@"
	return 1
}

t_ok() {
	local name=$1
	shift
	t_status 0 "$name" "$@"
}

t_not() {
	local name=$1
	shift
	t_run "$@"
	if [ "$T_STATUS" -ne 0 ]; then
		t_pass "$name"
		return 0
	fi
	t_fail "$name"
	t_diag "wanted:  a failure"
	t_explain "$@"
	return 1
}

t_is() {
	if [ "$2" = "$3" ]; then
		t_pass "$1"
		return 0
	fi
	t_fail "$1"
	t_diag "got:    $2"
	t_diag "wanted: $3"
	return 1
}

t_like() {
	if grep -qE -- "$3" <<<"$2"; then
		t_pass "$1"
		return 0
	fi
	t_fail "$1"
	t_diag "got:     $2"
	t_diag "pattern: $3"
	return 1
}

t_unlike() {
	if ! grep -qE -- "$3" <<<"$2"; then
		t_pass "$1"
		return 0
	fi
	t_fail "$1"
	t_diag "got:              $2"
	t_diag "unwanted pattern: $3"
	return 1
}

# The C locale's message of an errno.
t_message() {
	case $1 in
	E2BIG) echo "Argument list too long" ;;
	EACCES) echo "Permission denied" ;;
	EAGAIN) echo "Resource temporarily unavailable" ;;
	EBADF) echo "Bad file descriptor" ;;
	EBUSY) echo "Device or resource busy" ;;
	EEXIST) echo "File exists" ;;
	EFBIG) echo "File too large" ;;
	EINVAL) echo "Invalid argument" ;;
	EIO) echo "Input/output error" ;;
	EISDIR) echo "Is a directory" ;;
	ELOOP) echo "Too many levels of symbolic links" ;;
	EMFILE) echo "Too many open files" ;;
	EMLINK) echo "Too many links" ;;
	ENAMETOOLONG) echo "File name too long" ;;
	ENODATA) echo "No data available" ;;
	ENODEV) echo "No such device" ;;
	ENOENT) echo "No such file or directory" ;;
	ENOSPC) echo "No space left on device" ;;
	ENOSYS) echo "Function not implemented" ;;
	ENOTCONN) echo "Transport endpoint is not connected" ;;
	ENOTDIR) echo "Not a directory" ;;
	ENOTEMPTY) echo "Directory not empty" ;;
	ENOTTY) echo "Inappropriate ioctl for device" ;;
	ENXIO) echo "No such device or address" ;;
	EOPNOTSUPP | ENOTSUP) echo "Operation not supported" ;;
	EOVERFLOW) echo "Value too large for defined data type" ;;
	EPERM) echo "Operation not permitted" ;;
	EROFS) echo "Read-only file system" ;;
	ESRCH) echo "No such process" ;;
	ESTALE) echo "Stale file handle" ;;
	ETIMEDOUT) echo "Connection timed out" ;;
	ETXTBSY) echo "Text file busy" ;;
	EXDEV) echo "Invalid cross-device link" ;;
	*)
		echo "t_message: unknown errno $1" >&2
		return 1
		;;
	esac
}

t_errno() {
	local errno=$1 name=$2 message
	shift 2
	message=$(t_message "$errno") || exit 1
	t_run "$@"
	if [ "$T_STATUS" -ne 0 ] &&
		[[ $T_STDERR$'\n'$T_STDOUT == *"$message"* ]]; then
		t_pass "$name"
		return 0
	fi
	t_fail "$name"
	t_diag "wanted:  a failure with $errno ($message)"
	t_explain "$@"
	return 1
}

t_wait() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

t_unserved() {
	! pgrep -f "worktreefs .*$1( |\$)" >/dev/null
}

# A mount namespace that was made meanwhile, by whomever, has a copy of the mount
# that keeps the process.
t_unmount() {
	umount "$1" || return 1
	t_wait 30 t_unserved "$1" && return 0
	t_diag "still mounted at $1 in the namespaces of:" \
		"$(grep -lsF " $1 " /proc/[0-9]*/mountinfo)"
	return 1
}

# A repository whose every byte, time and object name is the same each time.
t_repo() {
	local dir=$1
	mkdir -p "$dir/src" "$dir/docs" "$dir/bin" || return 1
	printf '# Sample\n\nA small program.\n' >"$dir/README.md"
	printf '*.o\n/sample\n' >"$dir/.gitignore"
	cat >"$dir/src/main.c" <<-'END'
		#include <stdio.h>
		#include "util.h"

		int main(void)
		{
			printf("%d\n", twice(21));
			return 0;
		}
	END
	printf '#pragma once\n\nint twice(int n);\n' >"$dir/src/util.h"
	printf '#include "util.h"\n\nint twice(int n)\n{\n\treturn 2 * n;\n}\n' \
		>"$dir/src/util.c"
	printf 'sample: src/main.c src/util.c src/util.h\n\t%s\n' \
		"\$(CC) -o \$@ src/main.c src/util.c" >"$dir/Makefile"
	printf 'one\ntwo\nthree\n' >"$dir/docs/guide.txt"
	printf '#!/bin/sh\nexec ./sample\n' >"$dir/bin/start"
	chmod 0755 "$dir/bin/start"
	ln -s docs/guide.txt "$dir/guide"
	git init -q -b main "$dir" &&
		git -C "$dir" config user.name Tester &&
		git -C "$dir" config user.email tester@example.invalid &&
		git -C "$dir" add -A &&
		GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' \
			GIT_COMMITTER_DATE='2026-01-02T03:04:05Z' \
			git -C "$dir" commit -q -m 'sample: first files'
}

t_worktree() {
	git -C "$1" worktree add -q -b "${3:-$(basename "$2")}" "$2"
}

# One line an object; equal output means that nothing was changed. PRUNE is
# relative to DIR; .git is always left out.
t_fingerprint() {
	local dir=$1 prune
	local -a skip=(-path ./.git)
	shift
	for prune in "$@"; do
		skip+=(-o -path "./$prune")
	done
	(
		cd "$dir" || exit 1
		find . \( "${skip[@]}" \) -prune -o \
			-printf '%p %y %m %U %G %n %s %T@ %l\n' | sort
		find . \( "${skip[@]}" \) -prune -o -type f -print0 | sort -z |
			xargs -0 -r sha256sum
	)
}

# shellcheck source=tests/support/user.sh
. "$T_SRC/tests/support/user.sh"

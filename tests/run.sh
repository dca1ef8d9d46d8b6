#!/bin/sh
# Installs what is missing, builds, runs every test, and ends with one line:
# N passed, N failed, N skipped. See usage() below.
#
# Three kinds of tests, all counted by the points of their TAP output:
#   lint/NAME   tests/lint/NAME.sh
#   unit/NAME   tests/unit/test-NAME.c, Criterion programs
#   e2e/NAME    tests/e2e/t-NAME.sh
# How to write a script of the first or third kind is told in support/lib.sh. A
# line `# timeout: SECONDS` in it asks for more than the usual 1800.
set -u

setup_src=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
# shellcheck source=mountctl/setup.sh
. "$setup_src/mountctl/setup.sh"

usage() {
	cat <<-'END'
		usage: sh tests/run.sh [--sanitize | --sanitize-threads] [-v] [NAME...]

		  NAME        only these: a kind (lint, unit, e2e), a test (run,
		              e2e/run) or the first words of one's name (run
		              also selects run-nested); default: all
		  --sanitize  build and test in build-asan, with the address and
		              undefined-behaviour sanitizers
		  --sanitize-threads
		              in build-tsan, with the one for data races
		  -v          show the output of tests that passed, too
		  --list      only list the tests
	END
}

sanitize=
verbose=
list=
while [ $# -gt 0 ]; do
	case $1 in
	--sanitize) sanitize=address,undefined ;;
	--sanitize-threads) sanitize=thread ;;
	-v | --verbose) verbose=1 ;;
	--list) list=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	-*)
		echo "run.sh: unknown option $1" >&2
		usage >&2
		exit 2
		;;
	*) break ;;
	esac
	shift
done

# Prints kind/name and the file, one test a line.
all_tests() {
	for file in "$setup_src"/tests/lint/*.sh \
		"$setup_src"/tests/unit/test-*.c \
		"$setup_src"/tests/e2e/t-*.sh; do
		[ -e "$file" ] || continue
		name=${file##*/}
		case $file in
		*/lint/*) name=lint/${name%.sh} ;;
		*/unit/*)
			name=${name#test-}
			name=unit/${name%.c}
			;;
		*/e2e/*)
			name=${name#t-}
			name=e2e/${name%.sh}
			;;
		esac
		printf '%s %s\n' "$name" "$file"
	done
}

# Does the test $1 match the selection $2?
matches() {
	case $1 in
	"$2" | "$2"/* | "$2"-* | */"$2" | */"$2"-*) return 0 ;;
	esac
	return 1
}

tests=
for want in "${@:-}"; do
	found=$(all_tests | while read -r name file; do
		if [ -z "$want" ] || matches "$name" "$want"; then
			printf '%s %s\n' "$name" "$file"
		fi
	done)
	if [ -z "$found" ]; then
		echo "run.sh: no test is called ${want:-anything}" >&2
		exit 2
	fi
	tests="$tests$found
"
done
tests=$(printf '%s' "$tests" | awk '!seen[$0]++')
if [ -n "$list" ]; then
	printf '%s\n' "$tests" | cut -d' ' -f1
	exit 0
fi

build=$setup_src/build
werror=false
[ -z "${CI:-}" ] || werror=true
set -- -Dtests=enabled -Dwerror="$werror"
case $sanitize in
thread) build=$setup_src/build-tsan ;;
?*) build=$setup_src/build-asan ;;
esac
[ -z "$sanitize" ] || set -- "$@" -Db_sanitize="$sanitize" \
	-Dc_args=-fno-sanitize-recover=all
setup_packages tests && setup_libfuse && setup_build "$build" "$@" || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/wtfs-XXXXXX") || exit 1
work=$(cd "$work" && pwd -P) || exit 1
chmod 0755 "$work"
child=

# What a test left: processes by the T_SCRATCH they inherited, mounts by place.
left_processes() {
	grep -lzxF "T_SCRATCH=$1" /proc/[0-9]*/environ 2>/dev/null |
		cut -d/ -f3
}

left_mounts() {
	awk -v dir="$1" '$5 == dir || index($5, dir "/") == 1 { print $5 }' \
		/proc/self/mountinfo | sort -r
}

# Removes a scratch directory and all that is left of its test; prints a "not
# ok" line, and what it was, where there was something.
clear_scratch() {
	tries=0
	while left=$(left_processes "$1") && [ -n "$left" ] &&
		[ "$tries" -lt 50 ]; do
		sleep 0.2
		tries=$((tries + 1))
	done
	if [ -n "$left" ]; then
		echo "not ok - the test left processes running"
		for pid in $left; do
			printf '#   %s %s\n' "$pid" \
				"$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>&1)"
			kill -KILL "$pid" 2>/dev/null
		done
		sleep 0.2
	fi
	left=$(left_mounts "$1")
	if [ -n "$left" ]; then
		echo "not ok - the test left mounts"
		printf '%s\n' "$left" | while read -r mount; do
			printf '#   %s\n' "$mount"
			umount -l "$mount" 2>&1 | sed 's/^/#   /'
		done
	fi
	[ "$(id -u)" -eq 0 ] || chmod -R u+rwX "$1" 2>/dev/null
	rm -rf --one-file-system "$1"
}

finish() {
	trap '' INT TERM HUP
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null
		wait "$child"
	fi
	for dir in "$work"/*/; do
		[ ! -d "$dir" ] || clear_scratch "${dir%/}" >/dev/null
	done
	sweep
	rm -rf --one-file-system "$work"
}

sweep() {
	# shellcheck disable=SC2016 # expanded there
	bash -c '. "$1" && t_user_sweep' - "$setup_src/tests/support/user.sh"
}

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Sanitizers write their reports where they are found, whoever's stderr it was.
reports=$work/.reports
mkdir -m 1777 "$reports"
chmod 1777 "$reports"
cp "$setup_src/tests/support/lsan.supp" "$work/.lsan.supp"
export ASAN_OPTIONS="abort_on_error=1:log_path=$reports/san"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/san"
export TSAN_OPTIONS="log_path=$reports/san"
export LSAN_OPTIONS="suppressions=$work/.lsan.supp:print_suppressions=0"
# Nothing of a session around us.
unset WORKTREEFS_SESSION WORKTREEFS WORKTREEFS_BIN VINTA_SANDBOX

# In the background and waited for, so that a signal to us ends it at once.
run_child() {
	"$@" </dev/null &
	child=$!
	wait "$child"
	child_status=$?
	child=
	return "$child_status"
}

# Where an environment of a test's own has no log_path, they go to stderr, which
# is the session's log.
collect_reports() {
	[ -n "$sanitize" ] || return 0
	find "$scratch" -xdev -name worktreefs.log \
		-exec grep -q 'Sanitizer\|runtime error' {} \; \
		-exec cat {} \; >"$work/.report"
	[ ! -s "$work/.report" ] || cp "$work/.report" "$reports/san.logs"
}

# Runs one test; its TAP goes to $work/.tap, all it says to $work/.out.
run_test() {
	case $1 in
	unit/*)
		program=$build/tests/test-${1#unit/}
		if [ ! -x "$program" ]; then
			echo "not ok - not listed in tests/meson.build" \
				>"$work/.tap"
			return 1
		fi
		run_child timeout -k 10 300 "$program" \
			"--tap=$work/.tap" >"$work/.out" 2>&1
		;;
	*)
		limit=$(sed -n 's/^# timeout: \([0-9]*\)$/\1/p' "$2")
		limit=${limit:-1800}
		[ -z "$sanitize" ] || limit=$((limit * 3))
		run_child env T_SRC="$setup_src" T_BUILD="$build" \
			T_SCRATCH="$scratch" \
			timeout -k 10 "$limit" bash "$2" \
			>"$work/.tap" 2>"$work/.out"
		;;
	esac
}

# Reads TAP; prints passed, failed, skipped, and the plan or "none".
count_points() {
	awk '
		/^ok([ \t]|$)/ {
			if (toupper($0) ~ /[^\\]# *SKIP/)
				skipped++
			else
				passed++
		}
		/^not ok([ \t]|$)/ { failed++ }
		/^1\.\.[0-9]+/ {
			plan = substr($1, 4) + 0
			if (plan == 0)
				skipped++
		}
		END {
			print passed + 0, failed + 0, skipped + 0, \
				plan == "" ? "none" : plan
		}' plan= "$1"
}

passed=0
failed=0
skipped=0
: >"$work/.skips"
: >"$work/.failures"
while read -r name file <&3; do
	scratch=$work/${name##*/}
	mkdir "$scratch"
	: >"$work/.tap"
	: >"$work/.out"
	began=$(date +%s)
	run_test "$name" "$file"
	status=$?
	took=$(($(date +%s) - began))
	# shellcheck disable=SC2046 # four words
	set -- $(count_points "$work/.tap")
	if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
		echo "not ok - ran out of time, or was killed" >>"$work/.tap"
	elif [ "$4" = none ]; then
		echo "not ok - ended with status $status and without a plan" \
			>>"$work/.tap"
	elif [ "$4" -gt 0 ] && [ "$4" -ne $(($1 + $2 + $3)) ]; then
		echo "not ok - planned $4 points, got $(($1 + $2 + $3))" \
			>>"$work/.tap"
	elif [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
		echo "not ok - ended with status $status" >>"$work/.tap"
	fi
	collect_reports
	clear_scratch "$scratch" >>"$work/.tap"
	sweep
	for report in "$reports"/san.*; do
		[ -e "$report" ] || continue
		echo "not ok - a sanitizer's report" >>"$work/.tap"
		sed 's/^/#   /' "$report" >>"$work/.tap"
		rm -f "$report"
	done
	# shellcheck disable=SC2046 # four words
	set -- $(count_points "$work/.tap")
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
	verdict=ok
	[ "$2" -eq 0 ] || verdict=FAIL
	printf '%-4s %-24s %3d ok, %d failed, %d skipped  [%d s]\n' \
		"$verdict" "$name" "$1" "$2" "$3" "$took"
	if [ "$verdict" = FAIL ] || [ -n "$verbose" ]; then
		sed 's/^/     | /' "$work/.tap"
		sed 's/^/     > /' "$work/.out"
	fi
	grep -E '^not ok' "$work/.tap" | sed "s,^not ok,$name:," \
		>>"$work/.failures"
	grep -iE '^(ok.*[^\\]# *skip|1\.\.0)' "$work/.tap" |
		sed "s,^[^ ]*,$name:," >>"$work/.skips"
done 3<<END
$tests
END

if [ -s "$work/.skips" ]; then
	echo "skipped:"
	sed 's/^/     /' "$work/.skips"
fi
if [ -s "$work/.failures" ]; then
	echo "failed:"
	sed 's/^/     /' "$work/.failures"
fi
if [ $((passed + failed + skipped)) -eq 0 ]; then
	echo "run.sh: no test ran" >&2
	failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

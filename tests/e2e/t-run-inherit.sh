#!/bin/bash
# What a command behind `mountctl run` has from its caller: descriptors, the
# working directory, environment, signals, terminal, exit status and its place
# in the tree of processes.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need cc git env script
ESCAPE=$T_SCRATCH/escape
cc -std=gnu11 -D_GNU_SOURCE -o "$ESCAPE" "$T_SRC/tests/support/escape.c" ||
	exit 1

M=$T_SCRATCH/main
W=$M/wt
O=$T_SCRATCH/outside
t_repo "$M" && t_worktree "$M" "$W" && mkdir "$O" && echo out >"$O/file" ||
	exit 1
before=$(t_fingerprint "$M" wt)
cd "$W" || exit 1

run() {
	timeout 60 "$T_MOUNTCTL" run "$@"
}

# Descriptors above 2

t_not "a directory in main reaches no command" \
	run -- "$ESCAPE" create-at 5 x 5<"$M"
t_like "and is named in a warning" "$T_STDERR" "warning:.* 5: .*'$M'"
t_not "a directory elsewhere doesn't either: '..' leads to main" \
	run -- "$ESCAPE" create-at 5 "../main/x" 5<"$O"
t_like "and is named, too" "$T_STDERR" "warning:.* 5: .*'$O'"
t_not "nor does the worktree's own" run -- "$ESCAPE" create-at 5 ../x 5<"$W"
t_not "a file of main, open for reading, is closed" \
	run -- "$ESCAPE" reopen 5 5<"$M/README.md"
t_like "and is named" "$T_STDERR" "warning:.* 5: .*'$M/README.md'"
t_not "one open for writing is closed" \
	run -- sh -c 'echo x >&5' 5>>"$M/README.md"
t_ok "a file of the worktree stays" \
	run -- sh -c 'echo x >&5' 5>>"$W/README.md"
t_is "without a word" "$T_STDERR" ""
t_ok "a file elsewhere stays" run -- sh -c 'read -r x <&5; test $x = out' \
	5<"$O/file"
t_is "a pipe stays" "$(echo piped | run -- sh -c 'cat <&6' 6<&0 </dev/null)" \
	piped
t_ok "a descriptor that is closed stays closed" \
	run -- sh -c '! { true <&5; } 2>/dev/null' 5<&-

# 0 to 2

t_status 125 "a directory as stdin is refused" run -- true <"$M"
t_like "by name" "$T_STDERR" "stdin.*'$M'"
t_status 125 "also one elsewhere" run -- true <"$O"
t_is "stdin from a file of main is read at its offset" \
	"$({ read -r _; run -- cat; } <"$M/docs/guide.txt")" "$(printf 'two\nthree')"
t_errno EROFS "and can't be opened for writing" \
	run -- "$ESCAPE" reopen 0 <"$M/README.md"
cp "$M/docs/guide.txt" "$T_SCRATCH/log"
t_ok "stdout to a file elsewhere stays" \
	sh -c "cd '$W' && '$T_MOUNTCTL' run -- echo x >>'$T_SCRATCH/log'"
t_is "and gets what is written" "$(tail -1 "$T_SCRATCH/log")" x
t_like "stdout to a file of main stays, with a warning" \
	"$(run -- echo x 2>&1 >>"$M/stdout")" "warning: stdout .*'$M/stdout'"
t_is "as the caller wished" "$(cat "$M/stdout")" x
rm "$M/stdout"
before=$(t_fingerprint "$M" wt)
closed() {
	run -- sh -c '
		for fd in 0 1 2; do test ! -e /proc/$$/fd/$fd || exit 1; done' \
		<&- >&- 2>&-
}
t_ok "closed, they stay closed" closed

# The working directory

t_is "the working directory is the caller's" "$(run -- pwd -P)" "$W"
t_is "below it, too" "$(cd src && run -- pwd -P)" "$W/src"
t_is "outside, too" "$(cd "$O" && run --main "$M" --worktree "$W" -- pwd -P)" \
	"$O"
t_errno EROFS "in main it is the view's" \
	sh -c "cd '$M/src' && '$T_MOUNTCTL' run --worktree '$W' -- touch x"
t_errno EROFS "'..' leads up in the view" run -- touch ../x
t_errno EROFS "and so does the link to it in /proc" \
	run -- touch /proc/self/cwd/../x
ln -s "$W" "$T_SCRATCH/link"
t_is "PWD is spelled as before" \
	"$(cd "$T_SCRATCH/link" && run -- sh -c 'echo $PWD')" \
	"$T_SCRATCH/link"
mkdir "$T_SCRATCH/gone"
t_status 125 "one that was removed is an error" sh -c "
	cd '$T_SCRATCH/gone' && rmdir '$T_SCRATCH/gone' &&
	'$T_MOUNTCTL' run --main '$M' --worktree '$W' -- true"
t_is "in one line" "$(wc -l <<<"$T_STDERR")" 1

# The environment

t_is "git's own variables are unset" "$(GIT_DIR=$M/.git GIT_WORK_TREE=$M \
	GIT_INDEX_FILE=$M/.git/index run -- git rev-parse --show-toplevel \
	2>/dev/null)" "$W"
t_like "with a warning" "$(GIT_INDEX_FILE=x run -- true 2>&1)" \
	'warning: unset GIT_INDEX_FILE'
t_is "its configuration stays" "$(GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.b \
	GIT_CONFIG_VALUE_0=c run -- git config a.b)" c
t_is "other variables stay" "$(GIT_AUTHOR_NAME=A X=y run -- sh -c \
	'echo $GIT_AUTHOR_NAME$X')" Ay

# Processes and signals

status=$(run -- cat /proc/thread-self/children /proc/self/status)
t_unlike "the command has no children of ours" "$status" '^[0-9]'
t_is "it is the process that was started" \
	"$(sh -c 'echo $$; exec "$@"' - "$T_MOUNTCTL" run -- sh -c 'echo $$' |
		uniq | wc -l)" 1
# The lines that tell of signals; with the caller's words before the command.
signals() {
	"$@" cat /proc/self/status | grep -E '^(Shd|Sig)(Pnd|Blk|Ign|Cgt):'
}
t_is "signals are as they were" "$(signals run --)" "$(signals env)"
for how in --block-signal=CHLD --ignore-signal=CHLD --block-signal=HUP \
	--ignore-signal=HUP,INT,PIPE; do
	t_is "also with $how" "$(signals env "$how" "$T_MOUNTCTL" run --)" \
		"$(signals env "$how")"
done
t_is "the mask for new files is as it was" \
	"$(umask 027 && run -- sh -c umask)" 0027
t_is "and so are limits" "$(ulimit -n 200 && run -- sh -c 'ulimit -n')" 200

t_status 3 "the exit status is the command's" run -- sh -c 'exit 3'
t_status 137 "a signal ends it as such" run -- sh -c 'kill -9 $$'
t_status 143 "any signal" run -- sh -c 'kill -TERM $$'
t_status 127 "a command that isn't there" run -- "$O/missing"
t_is "is named in one line" "$T_STDERR" \
	"mountctl: cannot run '$O/missing': No such file or directory"
t_status 126 "a command that can't be executed" run -- "$O/file"
t_status 127 "one that isn't in the path" run -- no-such-command
t_status 126 "a directory" run -- "$O"

t_like "the terminal is the command's" "$(script -qec \
	"'$T_MOUNTCTL' run -- sh -c 'test -t 0 && ps -o stat= -p \$\$'" \
	/dev/null </dev/null)" '\+'

# The end of the parent

alive() {
	case $(ps -o stat= -p "$1") in
	'' | Z*) return 1 ;;
	esac
}
ended() {
	! alive "$1"
}
start_below_a_parent() {
	rm -f "$T_SCRATCH/pid"
	sh -c '"$@" & wait' - "$T_MOUNTCTL" run "$@" -- \
		sh -c 'echo $$ >"$1" && exec sleep 60' - "$T_SCRATCH/pid" &
	parent=$!
	t_wait 10 test -s "$T_SCRATCH/pid"
	pid=$(cat "$T_SCRATCH/pid")
	kill -KILL "$parent"
	wait "$parent" 2>/dev/null
}
start_below_a_parent --die-with-parent
t_ok "--die-with-parent ends it with its parent" t_wait 5 ended "$pid"
start_below_a_parent
t_ok "without, it lives on" alive "$pid"
kill "$pid"

t_is "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
t_done

#!/bin/bash
# A command behind `mountctl run` as its caller and its terminal see it: exit
# status, signals, job control, pipes, descriptors, and all that a process
# inherits. (More of it, as whoever runs the tests: t-run-inherit.sh.) Those of
# the contract's lines that once went wrong:
#   - git's own variables are unset with a warning, GIT_CONFIG_* apart
#   - a directory descriptor keeps the host's mount table: closed, wherever it
#     leads
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 script stty
t_user_make || exit 1

ok() {
	t_ok "$who: $1" "${@:2}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# The caller's words up to the command.
run() {
	s_as "$T_MOUNTCTL" run "$@"
}

check_status() {
	t_status 0 "$who: true" run -- true
	t_status 1 "$who: false" run -- false
	t_status 3 "$who: exit 3" run -- sh -c 'exit 3'
	t_status 255 "$who: exit 255" run -- sh -c 'exit 255'
	t_status 137 "$who: killed by itself" run -- sh -c 'kill -9 $$'
	t_status 134 "$who: aborted" run -- sh -c 'ulimit -c 0; kill -ABRT $$'
	t_status 127 "$who: a missing command" run -- /nonexistent/command
	same "names it" "$T_STDERR" "mountctl: cannot run\
 '/nonexistent/command': No such file or directory"
	t_status 127 "$who: one that isn't in the path" \
		s_as env PATH=/usr/bin:/bin "$T_MOUNTCTL" run -- no-such-command
	t_status 126 "$who: one that can't be executed" run -- ./README.md
	same "names it, too" "$T_STDERR" \
		"mountctl: cannot run './README.md': Permission denied"
	t_status 126 "$who: a directory" run -- ./src
	t_status 126 "$who: one of main's that can't be executed" \
		run -- "$M/README.md"
	t_status 125 "$who: a failure of mountctl's own" \
		run --worktree /nonexistent -- true
	t_status 125 "$who: no command" run
	printf 'exit 4\n' >"$W/plain" && chmod 0755 "$W/plain"
	t_status 4 "$who: a script without its first line" run -- ./plain
	t_status 0 "$who: a program of main's runs" run -- sh -c \
		'test -x "$1" && "$1" 2>/dev/null; test $? = 127' - \
		"$M/bin/start"
	rm "$W/plain"
	s_clear "nothing is left of these"
}

check_words() {
	same "-- can be left out" "$(run printf %s word)" word
	same "the command's options are its own" \
		"$(run echo -n --rw x; echo)" "--rw x"
	same "its words, too" "$(run -- printf '<%s>' '' ' a  b ' '*' \
		"$(printf 'x\ny')" $'\xff' --)" "<>< a  b ><*><$(
		printf 'x\ny')><"$'\xff'"><-->"
	same "however long" "$(run -- sh -c 'echo ${#1}' - \
		"$(printf '%120000s' '')")" 120000
	same "also the name that it is called by" "$(run -- bash -c \
		'exec -a other sh -c "echo \$0"')" other
}

check_place() {
	same "it is the process that was started" \
		"$("${as[@]}" sh -c 'echo $$; exec "$@"' - "$T_MOUNTCTL" run \
			-- sh -c 'echo $$' | uniq | wc -l)" 1
	same "its parent is the caller" "$(s_as sh -c 'echo $$; "$@"; :' - \
		"$T_MOUNTCTL" run -- sh -c 'echo $PPID' | uniq | wc -l)" 1
	same "group, session and terminal are the caller's" \
		"$(s_as sh -c 'ps -o pgid=,sid=,tty= -p $$
			"$@"; :' - "$T_MOUNTCTL" run -- \
			sh -c 'ps -o pgid=,sid=,tty= -p $$' | uniq | wc -l)" 1
	same "its priority" "$(s_as nice -n 3 "$T_MOUNTCTL" run -- nice)" \
		"$(s_as nice -n 3 nice)"
	same "limits" "$(s_as sh -c 'ulimit -n 99; ulimit -f 1000000
		ulimit -s 4096; exec "$@"' - "$T_MOUNTCTL" run -- \
		sh -c 'ulimit -n; ulimit -f; ulimit -s')" \
		"$(printf '99\n1000000\n4096')"
	same "the mask" "$(s_as sh -c 'umask 027; exec "$@"' - \
		"$T_MOUNTCTL" run -- sh -c 'umask; touch m; stat -c %a m
			rm m')" "$(printf '0027\n640')"
	same "processors" "$(s_as taskset 1 "$T_MOUNTCTL" run -- \
		sh -c 'taskset -p $$ | sed "s/.*: //"')" 1
	same "ids and groups" "$(run -- sh -c 'id -u; id -g; grep -c . \
		/proc/self/status >/dev/null')" "$(s_as sh -c 'id -u; id -g')"
	same "the directory" "$(cd "$W/src" && run -- pwd)" "$W/src"
	same "control groups" "$(run -- cat /proc/self/cgroup)" \
		"$(s_as cat /proc/self/cgroup)"
	same "other namespaces" "$(run -- sh -c \
		'readlink /proc/self/ns/net /proc/self/ns/pid \
		/proc/self/ns/uts /proc/self/ns/ipc')" "$(s_as sh -c \
		'readlink /proc/self/ns/net /proc/self/ns/pid \
		/proc/self/ns/uts /proc/self/ns/ipc')"
	same "the environment, but for the session's" \
		"$(s_as env A=1 'B=two words' C= "$T_MOUNTCTL" run -- env |
			grep -v '^WORKTREEFS_SESSION' | sort)" \
		"$(s_as env A=1 'B=two words' C= env | sort)"
	same "variables of git's that lead elsewhere are gone" \
		"$(s_as env "GIT_DIR=$M/.git" "GIT_WORK_TREE=$M" \
			GIT_INDEX_FILE=/tmp/x GIT_OBJECT_DIRECTORY=/tmp/x \
			GIT_COMMON_DIR=/tmp/x GIT_AUTHOR_NAME=kept \
			GIT_CONFIG_COUNT=0 \
			"$T_MOUNTCTL" run -- env 2>"$BASE/err" |
			grep -E '^GIT_(.*DIR|WORK|INDEX|OBJ|AUTHOR|CONFIG_C)' |
			sort)" "$(printf '%s\n' GIT_AUTHOR_NAME=kept \
			GIT_CONFIG_COUNT=0)"
	t_is "$who: with a warning that names each" "$(sed -n \
		'/^mountctl: warning: unset /s/:[^:]*$//p' "$BASE/err" |
			grep -o 'GIT_[A-Z_]*' | sort | xargs)" \
		"GIT_COMMON_DIR GIT_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY\
 GIT_WORK_TREE"
	same "and don't mislead" "$(s_as env "GIT_DIR=$BASE" \
		"GIT_WORK_TREE=$BASE" "$T_MOUNTCTL" run -- \
		git rev-parse --show-toplevel 2>/dev/null)" "$W"
}

check_pipes() {
	local sum
	head -c 20000000 /dev/urandom >"$BASE/bytes"
	sum=$(md5sum <"$BASE/bytes")
	same "bytes go through" \
		"$(run -- cat <"$BASE/bytes" | md5sum)" "$sum"
	same "through pipes" "$(head -c 20000000 "$BASE/bytes" |
		run -- cat | md5sum)" "$sum"
	same "from one session to another" \
		"$(run -- cat "$BASE/bytes" | run -- md5sum)" "$sum"
	same "stdout and stderr are apart" "$(run -- sh -c \
		'echo out; echo err >&2' 2>"$BASE/err"; cat "$BASE/err")" \
		"$(printf 'out\nerr')"
	same "a reader that goes ends the writer" \
		"$(run -- yes | head -1)" y
	t_status 1 "$who: a closed stdin is empty" sh -c \
		'"$@" <&-' - "${as[@]}" "$T_MOUNTCTL" run -- cat
	t_like "$who: as the command says" "$T_STDERR" "^cat: .*Bad file desc"
	rm "$BASE/bytes"
}

# Numbers, and what is behind them.
descriptors='ls -l /proc/self/fd | sed -n "s/.* \([0-9]*\) -> \(.*\)/\1 \2/p" |
	grep -v " /proc/"'

check_descriptors() {
	same "there is no descriptor but the session's" \
		"$(run -- sh -c "$descriptors" </dev/null 2>/dev/null |
			grep -v worktreefs-session | sed 's/[0-9]*\]$//')" \
		"$(s_as sh -c "$descriptors" </dev/null 2>/dev/null |
			sed 's/[0-9]*\]$//')"
	same "which is one" "$(run -- sh -c "$descriptors" |
		grep -c worktreefs-session)" 1
	local dir
	for dir in "$M" "$W" "$BASE" /; do
		t_not "$who: an inherited directory is closed: ${dir#"$BASE"}" \
			run -- sh -c 'ls /proc/self/fd/7/' 7<"$dir"
		same "with a warning" "$(grep -c "warning: .* 7: .*'$dir'" \
			<<<"$T_STDERR")" 1
		t_status 125 "$who: it is no stdin" run -- true <"$dir"
		t_like "$who: and is named" "$T_STDERR" "stdin.*'$dir'"
	done
	t_not "$who: a file of main is closed" \
		run -- sh -c 'cat <&7' 7<"$M/README.md"
	same "one as stdin is read" "$(run -- cat <"$M/README.md")" \
		"$(cat "$M/README.md")"
	t_errno EROFS "$who: and not written by way of /proc" \
		run -- sh -c 'echo x >/proc/self/fd/0' <"$M/README.md"
	t_errno EROFS "$who: nor does its mode change" \
		run -- chmod 0600 /proc/self/fd/0 <"$M/README.md"
	same "it is read where the caller was" "$({
		read -r _
		run -- cat
	} <"$M/docs/guide.txt")" "$(printf 'two\nthree')"
	touch "$M/log"
	s_own "$M/log"
	same "one that the caller opened for writing is named" \
		"$(run -- echo line 2>&1 >>"$M/log")" "mountctl: warning: stdout\
 stays open for writing to '$M/log', as it was given"
	same "and written" "$(cat "$M/log")" line
	rm "$M/log"
	before=$(t_fingerprint "$M" wt)
}

check_directory() {
	mkdir "$BASE/gone"
	t_status 125 "$who: a working directory that was removed" sh -c \
		'cd "$1" && rmdir "$1" && shift && "$@"' - "$BASE/gone" \
		"${as[@]}" "$T_MOUNTCTL" run --main "$M" --worktree "$W" -- true
	same "is one line" "$(wc -l <<<"$T_STDERR")" 1
	t_status 125 "$who: in main, a worktree has to be given" sh -c \
		'cd "$1" && shift && "$@"' - "$M" "${as[@]}" "$T_MOUNTCTL" \
		run -- true
	t_like "$who: either" "$T_STDERR" "--worktree DIR"
	t_like "$who: or a place for them" "$T_STDERR" "--worktrees-dir DIR"
	same "given, it starts there" "$(cd "$M/src" &&
		run --worktree "$W" -- pwd)" "$M/src"
	t_status 125 "$who: in no repository" sh -c \
		'cd / && "$@"' - "${as[@]}" "$T_MOUNTCTL" run -- true
	same "one line, too" "$(wc -l <<<"$T_STDERR")" 1
}

# One that ends by a signal which its caller sends.
signalled() {
	local pid
	rm -f "$W/pid"
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -- sh -c \
		'trap "exit 44" HUP; echo $$ >pid; while :; do sleep 0.05; done') &
	pid=$!
	t_wait 10 test -s "$W/pid"
	kill -"$1" "$pid"
	wait "$pid"
	echo "$? $([ "$(cat "$W/pid")" = "$pid" ] && echo same)"
}

check_signals() {
	same "SIGTERM reaches the command" "$(signalled TERM)" "143 same"
	same "SIGINT" "$(signalled USR1)" "138 same"
	same "SIGKILL" "$(signalled KILL)" "137 same"
	same "one that it handles" "$(signalled HUP)" "44 same"
	s_clear "nothing is left of those"
}

# Plays the user at a terminal: words to wait for, and keys.
TERMINAL=$T_SCRATCH/terminal
cat >"$TERMINAL" <<'PYTHON'
import os, pty, re, select, sys, time

def play(command, steps):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    seen = b""
    for wanted, keys in steps:
        end = time.time() + 20
        while not re.search(wanted, seen):
            if time.time() > end:
                sys.exit(f"no {wanted!r} in {seen!r}")
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    seen += os.read(fd, 4096)
                except OSError:
                    sys.exit(f"ended without {wanted!r}: {seen!r}")
        seen = b""
        time.sleep(0.2)
        os.write(fd, keys)
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

command = sys.argv[2:]
shell = ["bash", "--norc", "--noprofile", "-i"]
if sys.argv[1] == "interrupt":
    print(play(command + ["sh", "-c", "echo ready; exec sleep 30"],
               [(b"ready", b"\x03")]))
elif sys.argv[1] == "handled":
    print(play(command + ["sh", "-c", "trap 'exit 9' INT; echo ready; "
                          "while :; do sleep 0.1; done"],
               [(b"ready", b"\x03")]))
elif sys.argv[1] == "quit":
    print(play(command + ["sh", "-c", "ulimit -c 0; echo ready; "
                          "exec sleep 30"], [(b"ready", b"\x1c")]))
elif sys.argv[1] == "end":
    print(play(command + ["sh", "-c", "echo ready; cat; exit 5"],
               [(b"ready", b"\x04")]))
elif sys.argv[1] == "jobs":
    # A shell inside with jobs of its own.
    print(play(command + ["env", "PS1=ps1> "] + shell, [
        (rb"ps1> ", b"sleep 100\r"),
        (rb"sleep 100", b"\x1a"),
        (rb"Stopped.*sleep 100", b"bg\r"),
        (rb"sleep 100 &", b"fg\r"),
        (rb"sleep 100\r\n", b"\x03"),
        (rb"ps1> ", b"exit 6\r"),
    ]))
elif sys.argv[1] == "suspend":
    # A shell outside that suspends and resumes the whole of it.
    line = " ".join(f"'{word}'" for word in command)
    os.environ["PS1"] = "ps1> "
    print(play(shell, [
        (rb"ps1> ", (line + " sh -c 'echo re''ady; sleep 1; "
                     "exit 7'\r").encode()),
        (rb"ready", b"\x1a"),
        (rb"Stopped", b"fg\r"),
        (rb"ps1> ", b"exit $?\r"),
    ]))
PYTHON

at_terminal() {
	(cd "$W" && timeout 60 python3 "$TERMINAL" "$1" "${as[@]}" \
		"$T_MOUNTCTL" run -- 2>&1)
}

check_terminal() {
	cat >"$BASE/look" <<-'SCRIPT'
		for fd in 0 1 2; do test -t $fd && printf "%s " $fd; done
		stty size
		echo tty >/dev/tty
		tty
		ps -o stat= -p $$
	SCRIPT
	same "all three are the terminal, in its foreground" "$(
		s_as script -qec "stty rows 11 cols 22
			'$T_MOUNTCTL' run -- sh '$BASE/look'" \
			/dev/null </dev/null | tr -d '\r' |
			sed 's,/[0-9]*$,,; s/^S.*+/foreground/')" \
		"$(printf '0 1 2 11 22\ntty\n/dev/pts\nforeground')"
	t_status 8 "$who: script gives its status" s_as script -qec \
		"'$T_MOUNTCTL' run -- sh -c 'exit 8'" /dev/null
	same "^C ends the command" "$(at_terminal interrupt)" -2
	same "or is handled by it" "$(at_terminal handled)" 9
	same "^\\ ends it, too" "$(at_terminal quit)" -3
	same "^D is the end of its input" "$(at_terminal end)" 5
	same "a shell inside has jobs" "$(at_terminal jobs)" 6
	same "a shell outside suspends and resumes it" \
		"$(at_terminal suspend)" 7
	s_clear "nothing is left of those at the terminal"
}

check_parent() {
	local pid parent with
	for with in --die-with-parent ''; do
		rm -f "$W/pid"
		(cd "$W" && exec "${as[@]}" sh -c '"$@" & wait' - \
			"$T_MOUNTCTL" run ${with:+"$with"} -- sh -c \
			'echo $$ >pid; exec sleep 60') &
		parent=$!
		t_wait 10 test -s "$W/pid"
		pid=$(cat "$W/pid")
		kill -KILL "$parent"
		wait "$parent" 2>/dev/null
		if [ -n "$with" ]; then
			s_clear "--die-with-parent ends all with the parent"
		else
			sleep 0.3
			ok "without it lives on" s_as kill -0 "$pid"
			s_as kill "$pid"
			s_clear "until it ends"
		fi
	done
}

check_all() {
	s_repository || exit 1
	before=$(t_fingerprint "$M" wt)
	cd "$W" || exit 1
	check_status
	check_words
	check_place
	check_pipes
	check_descriptors
	check_directory
	check_signals
	check_terminal
	check_parent
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

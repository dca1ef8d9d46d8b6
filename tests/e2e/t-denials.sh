#!/bin/bash
# What is refused is told: the denial log, `mountctl log`, `why` and the counts
# of `status`. T_STORM=100000 makes the storm at the end as long as that.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 setpriv unshare
t_user_make || exit 1

sysop=$T_BUILD/tests/sysop
if [ ! -x "$sysop" ] || ! t_as_user test -x "$sysop"; then
	mkdir -p "$T_SCRATCH/bin" && cp "$sysop" "$T_SCRATCH/bin/" || exit 1
	sysop=$T_SCRATCH/bin/sysop
fi

cat >"$T_SCRATCH/log.py" <<'END'
"""log.py FILE all|KEY=VALUE...: how many lines match, and their counts' sum.
log.py FILE get KEY...: these members of each line. Bad lines are an error."""
import json
import sys


def strict(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), names
    return dict(pairs)


with open(sys.argv[1], encoding="utf-8") as log:
    lines = [json.loads(line, object_pairs_hook=strict) for line in log]
if sys.argv[2] == "get":
    for line in lines:
        print(*(line.get(key, "-") for key in sys.argv[3:]))
    sys.exit()
wanted = [word.split("=", 1) for word in sys.argv[2:] if word != "all"]
lines = [line for line in lines
         if all(str(line.get(key)) == value for key, value in wanted)]
print(len(lines), sum(x.get("count", 0) + x.get("dropped", 0) for x in lines))
END

# Members of the log's lines, once the second is over.
logged() {
	python3 "$T_SCRATCH/log.py" "$STATE/$session/denials.jsonl" "$@"
}

settle() {
	sleep 1.5
}

# shellcheck disable=SC2317 # called by way of t_wait
has_lines() {
	[ "$(logged all | cut -d' ' -f1)" -ge "$1" ]
}

same() {
	t_is "$who: $1" "$2" "$3"
}

status_member() {
	s_mountctl status "$session" --json |
		python3 -c 'import json, sys
print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# One operation inside; what it must leave in the log.
row() {
	local what=$1 wanted=$2
	shift 2
	s_in "$session" "$sysop" "$@" >/dev/null
	rows+=("$wanted")
	names+=("$what")
}

# Each kind of denial, and how its line reads.
kinds() {
	local rows=() names=() got i
	session=kinds-$who
	s_as mkdir "$M/hidden" && s_as touch "$M/hidden/f" &&
		s_as mkdir "$M/empty" || exit 1
	s_hold "$session" --none hidden --ro wt/docs
	row "write" "write ro default EROFS $M/README.md $W/README.md" \
		open "$M/README.md" wronly
	row "truncate" "write ro default EROFS $M/Makefile $W/Makefile" \
		truncate "$M/Makefile"
	row "create" "create ro default EROFS $M/src/new $W/src/new" \
		open "$M/src/new" wronly creat
	row "mkdir" "mkdir ro default EROFS $M/new $W/new" mkdir "$M/new"
	row "symlink" "create ro default EROFS $M/link $W/link" \
		symlink "$M/link"
	row "unlink" "remove ro default EROFS $M/src/util.h $W/src/util.h" \
		unlink "$M/src/util.h"
	row "rmdir" "remove ro default EROFS $M/empty $W/empty" rmdir "$M/empty"
	row "rename, the old name" \
		"remove ro default EROFS $M/src/util.c $W/src/util.c" \
		rename "$M/src/util.c" "$M/src/util.d"
	row "chmod" "setattr ro default EROFS $M/bin/start $W/bin/start" \
		chmod "$M/bin/start"
	row "times" "settimes ro default EROFS $M/docs/guide.txt $W/docs/guide.txt" \
		utimensat "$M/docs/guide.txt"
	row "xattr" "setxattr ro default EROFS $M/src/main.c $W/src/main.c" \
		setxattr "$M/src/main.c"
	row "reading under none" \
		"read none command_line EACCES $M/hidden/f $W/hidden/f" \
		read "$M/hidden/f"
	row "listing under none" \
		"list none command_line EACCES $M/hidden $W/hidden" \
		getdents "$M/hidden"
	s_in "$session" "$sysop" access "$M/README.md" W >/dev/null
	s_in "$session" "$sysop" access "$M/hidden/f" R >/dev/null
	t_wait 5 has_lines "${#rows[@]}"
	settle
	mapfile -t got < <(logged get op access origin errno path twin |
		sed 's/command line/command_line/')
	for i in "${!rows[@]}"; do
		same "a line of ${names[i]}" "${got[i]}" "${rows[i]}"
	done
	same "access(2) is no denial" "${#got[@]}" "${#rows[@]}"
	same "status counts the same" "$(status_member denials)" "${#rows[@]}"
	same "the session's name is in all" \
		"$(logged "session=$session" | cut -d' ' -f1)" "${#rows[@]}"
	same "so is the program" \
		"$(logged comm=sysop "exe=$(realpath "$sysop")" | cut -d' ' -f1)" \
		"${#rows[@]}"
	same "the rule is named by its path" \
		"$(logged "rule=$M/hidden" | cut -d' ' -f1)" 2
	t_like "$who: status tells who" "$(s_mountctl status "$session")" \
		"^ +${#rows[@]}  sysop$"
	s_release
	rm -r "$M/hidden" "$M/empty"
}

# A name that isn't text, and pids as people know them.
callers() {
	session=callers
	s_hold callers
	local pid
	pid=$(s_in callers bash -c 'true >"$0/$(printf "\377\033[1m%%41")"
		echo $$' "$M" 2>/dev/null)
	s_in callers python3 - "$M/thread" <<-'END'
		import os, sys, threading
		def deny():
		    try:
		        open(sys.argv[1], "w")
		    except OSError:
		        pass
		threads = [threading.Thread(target=deny) for _ in range(4)]
		for t in threads:
		    t.start()
		for t in threads:
		    t.join()
		print(os.getpid(), file=open("pid", "w"))
	END
	settle
	t_ok "$who: the log is JSON whatever the name is" logged all
	same "a name that isn't UTF-8" "$(logged get path | sed -n 1p)" \
		"$M/%FF$(printf '\033')[1m%2541"
	same "the pid is the caller's" "$(logged get pid | sed -n 1p)" "$pid"
	same "threads are their process's" \
		"$(logged "path=$M/thread" "pid=$(cat "$W/pid")" |
			cut -d' ' -f2)" 4
	t_unlike "$who: nothing drives the terminal" \
		"$(s_mountctl log callers)$(s_mountctl log callers --json)" \
		"$(printf '\033')"
	t_like "$who: it is escaped" "$(s_mountctl log callers)" \
		'/\\xff\\x1b\[1m%41 '
	s_release
	rm "$W/pid"
}

# Git would like to write the index that it has refreshed.
optional_locks() {
	session=git
	s_hold git --ro .git/index --ro .git/index.lock
	s_as touch "$M/README.md"
	same "git status works in main" \
		"$(s_in git git -C "$M" status --porcelain)" "?? wt/"
	settle
	same "and what it would like is counted" "$(status_member denials)" 1
	same "and not logged" "$(logged all 2>/dev/null)" ""
	t_errno EROFS "$who: git add in main is refused" \
		s_in git git -C "$M" add README.md
	settle
	same "and logged" "$(logged get op path)" "create $M/.git/index.lock"
	s_release
}

# The log as people and programs get it.
log_command() {
	session=shown
	s_hold shown
	t_status 0 "$who: log without denials" s_mountctl log shown
	same "is empty" "$T_STDOUT" ""
	s_mountctl log shown -f >"$T_SCRATCH/followed" 2>&1 &
	local follower=$!
	s_in shown sh -c 'for i in 1 2 3; do echo >"$0/f"; done' "$M" 2>/dev/null
	t_ok "$who: log -f shows what comes" \
		t_wait 5 grep -q "EROFS.*$M/f -> $W/f  x3" "$T_SCRATCH/followed"
	# Somebody moves the log away.
	s_as mv "$STATE/shown/denials.jsonl" "$STATE/shown/denials.jsonl.1"
	s_in shown "$sysop" mkdir "$M/moved" >/dev/null
	settle
	s_as kill -HUP "$(status_member pid)"
	s_in shown "$sysop" mkdir "$M/anew" >/dev/null
	t_ok "$who: and what comes after the log was moved" \
		t_wait 5 grep -q "mkdir.*$M/anew" "$T_SCRATCH/followed"
	t_ok "$who: nothing is lost in between" \
		grep -q "mkdir.*$M/moved" "$T_SCRATCH/followed"
	s_in shown "$sysop" unlink "$M/README.md" >/dev/null
	s_release
	t_ok "$who: log -f ends with the session" \
		t_wait 5 t_is_gone "$follower"
	t_ok "$who: with its last denial" \
		grep -q "remove.*$M/README.md" "$T_SCRATCH/followed"
	wait "$follower"
	same "and without an error" $? 0
	same "nothing else was said" \
		"$(grep -c '^mountctl' "$T_SCRATCH/followed")" 0

	t_ok "$who: the log outlives the session" s_mountctl log shown
	t_like "$who: in a table" "$T_STDOUT" '^TIME +PROGRAM +WHAT +ERRNO +PATH'
	same "the newest file" "$(tail -n +2 <<<"$T_STDOUT" | wc -l)" 2
	t_ok "$who: --since" s_mountctl log shown --since 1h --json
	same "reads the one before, too" "$(wc -l <<<"$T_STDOUT")" 4
	t_ok "$who: the lines are as they were" test "$T_STDOUT" = "$(cat \
		"$STATE/shown/denials.jsonl.1" "$STATE/shown/denials.jsonl")"
	t_ok "$who: --since a time" s_mountctl log shown --json --since \
		"$(date -u -d 'now + 1 minute' +%FT%TZ)"
	same "is a bound" "$T_STDOUT" ""
	t_status 2 "$who: --since what isn't a time" \
		s_mountctl log shown --since yesterday
	t_status 1 "$who: a session that never was" s_mountctl log never
	t_like "$who: and says so" "$T_STDERR" "no session 'never'"
	t_not "$who: a name that leads elsewhere" s_mountctl log ../shown
	printf '%s\n' 'no JSON' '[]' '{"time":"2026-01-02T03:04:05Z",' \
		"$(printf '{"path":"\033[2J"}')" |
		s_as tee -a "$STATE/shown/denials.jsonl" >/dev/null
	t_ok "$who: broken lines" s_mountctl log shown --json
	same "are skipped" "$(wc -l <<<"$T_STDOUT")" 2
	t_like "$who: with a warning" "$T_STDERR" 'warning: 4 lines'
}

# shellcheck disable=SC2317 # called by way of t_wait
t_is_gone() {
	! kill -0 "$1" 2>/dev/null
}

# shellcheck disable=SC2317 # called by way of t_status
why() {
	s_mountctl why "$@"
}

member() {
	python3 -c 'import json, sys
print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

why_command() {
	session=asked
	s_as mkdir "$BASE/beside" || exit 1
	s_hold asked --none secret --ro "$BASE/beside"
	cd "$W" || exit 1
	t_status 1 "$who: why a write in main is denied" why "$M/src/new/file"
	t_like "$who: the verdict" "$T_STDOUT" \
		"^denied +write $M/src/new/file: EROFS$"
	t_like "$who: the rule and its origin" "$T_STDOUT" \
		"^rule +ro $M: the main checkout \(default\)$"
	t_like "$who: the twin" "$T_STDOUT" "^twin +$W/src/new/file$"
	t_status 0 "$who: a relative path in the worktree" why src/main.c
	t_status 1 "$who: one that leads out of it" why ../src/main.c
	t_status 0 "$who: reading main" why --op read ../src/main.c
	t_status 1 "$who: reading under none" why --op read ../secret/key
	t_like "$who: by the command line" "$T_STDOUT" 'none.*\(command line\)'
	t_status 0 "$who: but stat" why --op stat ../secret/key
	t_status 0 "$who: making what may be changed" \
		why --op mkdir "$M/.vinta-ai-workflows"
	t_status 1 "$who: but not as a file" \
		why --op create "$M/.vinta-ai-workflows"
	t_status 1 "$who: outside of every view" why "$BASE/beside/x"
	t_status 0 "$who: where no rule is" why /tmp
	t_status 1 "$who: a name is the link's" why --op remove ../guide
	t_like "$who: not its target's" "$T_STDOUT" "remove $M/guide:"
	t_ok "$who: -n from elsewhere, in JSON" \
		eval "cd / && ! s_mountctl why -n asked --json $M/a >$BASE/why"
	same "errno" "$(member errno <"$BASE/why")" EROFS
	same "twin" "$(member twin <"$BASE/why")" "$W/a"
	same "session" "$(member session <"$BASE/why")" asked
	same "schema" "$(member schema_version <"$BASE/why")" 1
	t_status 2 "$who: an unknown operation" why --op burn x
	t_status 2 "$who: an unknown session" why -n never x
	t_status 2 "$who: a session and rules" why -n asked --rw x x
	t_status 2 "$who: no path" why
	same "asking is no denial" "$(status_member denials)" 0

	t_status 0 "$who: RULES are planned" why --rw docs "$M/docs/x"
	t_status 1 "$who: whatever lives" why --none wt/src src/main.c
	inside
	cd / || exit 1
	s_release
	cd "$W" || exit 1
	t_status 1 "$who: without a session, the one that would be" \
		why "$M/src/x"
	cd / || exit 1
	rm -r "$BASE/beside"
}

# Records and sockets are out of reach there.
inside() {
	t_status 1 "$who: inside, the snapshot answers" \
		s_in asked "$T_MOUNTCTL" why "$M/src/x"
	t_like "$who: with the twin" "$T_STDOUT" "^twin +$W/src/x$"
	t_status 0 "$who: inside, by name" \
		s_in asked "$T_MOUNTCTL" why -n asked src/x
	t_status 2 "$who: inside, no other session" \
		s_in asked "$T_MOUNTCTL" why -n shown src/x
	s_in asked "$sysop" mkdir "$M/inside" >/dev/null
	settle
	t_ok "$who: inside, the own log is read" s_in asked "$T_MOUNTCTL" log
	t_like "$who: and tells" "$T_STDOUT" "mkdir +EROFS +$M/inside"
	t_errno EROFS "$who: inside, nobody writes it" \
		s_in asked sh -c 'echo >>"$0"' "$STATE/asked/denials.jsonl"
	t_errno EROFS "$who: nor removes it" \
		s_in asked rm "$STATE/asked/denials.jsonl"
	same "inside, no other log is there" \
		"$(s_in asked ls -A "$STATE")" asked
	t_not "$who: nor shown" s_in asked "$T_MOUNTCTL" log shown
}

# shellcheck disable=SC2317 # called by way of t_defer
end_view() {
	s_mountctl unmount --lazy view >/dev/null 2>&1
}

# A view elsewhere is asked by the paths in it, too.
why_in_view() {
	local view
	view=$(cd "$W" && s_mountctl mount -n view) || exit 1
	t_defer end_view
	t_status 1 "$who: a view elsewhere, a path in it" \
		s_as sh -c 'cd "$0" && "$1" why ../src/x' "$view" "$T_MOUNTCTL"
	t_like "$who: is asked by its real name" "$T_STDOUT" "write $M/src/x:"
	t_status 0 "$who: as is its worktree" \
		s_as sh -c 'cd "$0" && "$1" why src/x' "$view" "$T_MOUNTCTL"
	t_ok "$who: unmounted" s_mountctl unmount view
}

cat >"$T_SCRATCH/storm.py" <<'END'
"""storm.py DIR CALLS PROCESSES: denied calls, and the times that they took."""
import os
import sys
import time

where, calls, processes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def deny(name):
    start = time.perf_counter_ns()
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT))
        sys.exit("not denied: " + name)
    except OSError:
        return time.perf_counter_ns() - start


def storm(process):
    names = [f"{where}/p{process}-{i}" for i in range(40)]
    return sorted(deny(names[i % 40]) for i in range(calls // processes))


def tell(what, times, lone):
    parts = {"median": times[len(times) // 2],
             "99%": times[len(times) * 99 // 100], "slowest": times[-1]}
    print(what, ", ".join(f"{k} {v // 1000} us ({v / lone:.1f} x)"
                          for k, v in parts.items()))


# One a second and name: each makes a line of its own.
alone = sorted(deny(f"{where}/lone-{i}") for i in range(200))
lone = alone[len(alone) // 2]
tell("one process, each a line:", alone, lone)
tell("one process, repeats:",
     sorted(deny(f"{where}/again") for _ in range(1000)), lone)
sys.stdout.flush()
for process in range(processes):
    if os.fork() == 0:
        times = storm(process)
        if process == 0:
            tell(f"one of {processes}:", times, lone)
        sys.stdout.flush()
        os._exit(0)
for process in range(processes):
    assert os.wait()[1] == 0
END

resident() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(status_member pid)/status"
}

storm() {
	local calls=${T_STORM:-5000} before after total
	session=storm
	s_hold storm
	s_in storm python3 "$T_SCRATCH/storm.py" "$M" 1000 8 >/dev/null
	settle
	before=$(resident)
	total=$(status_member denials)
	t_diag "times as multiples of a lone denial's median:"
	t_diag "$(s_limit=250 s_in storm \
		python3 "$T_SCRATCH/storm.py" "$M" "$calls" 8)"
	settle
	after=$(resident)
	same "all are counted" "$(($(status_member denials) - total))" \
		"$((calls / 8 * 8 + 1200))"
	same "the log's counts add up" "$(logged all | cut -d' ' -f2)" \
		"$(status_member denials)"
	t_diag "resident: $before kB before, $after kB after"
	if t_is_sanitized; then
		t_skip "$who: the filesystem process stays small" \
			"sanitizers keep what is freed"
	else
		t_ok "$who: the filesystem process stays small" \
			test $((after - before)) -lt 8192
	fi
	t_diag "lines and denials: $(logged all)"
	# More names than are remembered have been denied by now.
	s_in storm sh -c 'for i in $(seq '$((calls / 100))'); do
		echo >"$0/late"; done' "$M" 2>/dev/null
	t_like "$who: a name that comes late, and often" \
		"$(status_member denials_by_path)" \
		"'name': '$M/late', 'count': $((calls / 100))"
	s_release
}

for user in $(s_everybody); do
	s_be "$user"
	s_repository || exit 1
	kinds
done
callers
optional_locks
log_command
why_command
why_in_view
storm
s_clear "nothing is left"
t_done

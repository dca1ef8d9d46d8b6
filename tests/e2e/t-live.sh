#!/bin/bash
# Rules that change while a session lives: what was acknowledged holds, for
# those who are at it and for what is open; and what can't be had is refused,
# with the names of those in the way. T_FLIPS=1000 flips that often.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 setpriv unshare
t_user_make || exit 1

live=$T_SCRATCH/live.py
cp "$T_SRC/tests/support/live.py" "$live"
chmod 0644 "$live"
flips=${T_FLIPS:-100}
s_limit=300

same() {
	t_is "$who: $1" "$2" "$3"
}

status_member() {
	s_mountctl status "$session" --json |
		python3 -c 'import json, sys
print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

socket_ask() {
	s_as python3 "$live" ask "$RUN/$session/control.sock" "$1"
}

# Somebody in the session, who does what he is told.
begin() {
	local how=(s_in "$session")
	[ -z "${1:-}" ] || how=(s_as)
	coproc SERVED { "${how[@]}" python3 "$live" serve; }
	# The descriptors' array goes with the process.
	served_in=${SERVED[1]} served_out=${SERVED[0]} served=$SERVED_PID
}

told() {
	local answer=
	printf '%s\n' "$1" >&"$served_in"
	IFS= read -r -t 60 answer <&"$served_out"
	printf '%s\n' "$answer"
}

end() {
	eval "exec $served_in>&-"
	wait "$served" 2>/dev/null
}

# does NAME LINE WANTED
does() {
	same "$1" "$(told "$2")" "$3"
}

rule() {
	local verb=$1
	shift
	t_ok "$who: $verb $*" s_mountctl "$verb" "$session" "$@"
}

make_files() {
	s_as mkdir -p "$M/d/e" "$M/k/e" && s_as sh -c 'for f; do
		head -c 8192 /dev/zero | tr "\0" o >"$f"; done' - \
		"$M/d/f" "$M/d/e/g" "$M/d/h" "$M/k/f" "$M/top"
	s_as ln -s f "$M/k/link"
}

# Where the kernel passes writes through, nobody can refuse them.
finds_through() {
	through=
	begin
	rule allow d
	does "a file is opened" "opened('a', '$M/d/f')" ok
	t_run s_mountctl protect "$session" d
	if [[ $T_STDERR == *"passes reads and writes on"* ]]; then
		through=yes
		same "what is passed through stays" "$T_STATUS" 1
		t_like "$who: and whose it is, is said" "$T_STDERR" \
			"^  [0-9]+  .*live.py serve  \\($M/d/f\\)"
		does "it writes on" "written('a')" 3
	fi
	does "closed" "closed('a')" ok
	rule protect d
	does "it is protected" "put('$M/d/f', 'x')" EROFS
	end
}

# What is open when a rule changes. $1 is where M is seen, $2 what tells that it
# isn't behind run.
descriptors() {
	local at=$1
	begin "${2:-}"
	does "writing in main is refused" "put('$at/d/f', 'x')" EROFS
	rule allow d
	does "and then not" "put('$at/d/f', 'old' + 5000 * 'x')" ok
	does "nor below" "put('$at/d/e/g', 'old')" ok
	does "nor is making a name" "put('$at/d/new', 'x')" ok
	does "elsewhere it is" "put('$at/top', 'x')" EROFS
	does "a descriptor is opened" "opened('a', '$at/d/f')" ok
	does "and for appending" \
		"opened('b', '$at/d/e/g', os.O_WRONLY | os.O_APPEND)" ok
	does "and for reading" "opened('c', '$at/d/h', os.O_RDONLY)" ok
	does "it writes" "written('a', b'one')" 3
	rule protect d
	does "the descriptor no longer writes" "written('a', b'two')" EROFS
	does "nor appends" "done(os.write, fds['b'], b'x')" EROFS
	does "nor allocates" "allocated('a')" EROFS
	does "nor truncates" "done(os.ftruncate, fds['a'], 0)" EROFS
	does "nor is copied into" "copied('a', 'c')" EROFS
	does "nor changes modes" "done(os.fchmod, fds['a'], 0o600)" EROFS
	does "nor times" "done(os.utime, fds['a'])" EROFS
	does "nor flags" "flags_set('a')" EROFS
	does "it is read" "read('a')" one
	does "names stay" "done(os.unlink, '$at/d/new')" EROFS
	does "and are not made" "done(os.mkdir, '$at/d/dir')" EROFS
	does "nor moved" "done(os.rename, '$at/d/new', '$at/d/newer')" EROFS
	does "nor linked" "done(os.link, '$at/d/f', '$at/d/newer')" EROFS
	same "nothing has reached the file" "$(head -c 3 "$M/d/f")" one
	rule allow d/f
	does "the same descriptor writes again" "written('a', b'two')" 3
	does "its neighbour doesn't" "done(os.write, fds['b'], b'x')" EROFS
	rule protect d/f
	rule allow d/e
	does "a directory below" "done(os.write, fds['b'], b'x')" ok
	rule protect d/e
	rule allow d/later/on
	does "a path that isn't there can be made" \
		"done(os.makedirs, '$at/d/later/on')" ok
	does "and what is in it" "put('$at/d/later/on/file', 'x')" ok
	does "nothing beside it" "put('$at/d/later/file', 'x')" EROFS
	rule protect d/later/on
	does "until it is protected" "put('$at/d/later/on/file', 'x')" EROFS
	does "they close" "closed('a') + closed('b') + closed('c')" okokok
	rm -rf "$M/d/later" "$M/d/new"
	end
}

# What a rule replaces, and who hears of it.
told_about() {
	same "the generation" "$(status_member generation)" \
		"$(socket_ask '{"op":"rules"}' |
			python3 -c 'import json, sys
print(json.load(sys.stdin)["generation"])')"
	t_like "$who: status names the live rules" \
		"$(s_mountctl status "$session")" \
		"ro +$M/d +set by 'mountctl protect' \\(live\\)"
	t_like "$who: so does the record" "$(cat "$RUN/$session/session.json")" \
		'"origin":[[:space:]]*"live"'
	t_status 1 "$who: why" s_mountctl why -n "$session" "$M/d/f"
	t_like "$who: knows, too" "$T_STDOUT" "set by 'mountctl protect' \\(live\\)"
	same "one rule a path" \
		"$(socket_ask '{"op":"rules"}' | python3 -c 'import json, sys
rules = json.load(sys.stdin)["rules"]
live = [r["path"] for r in rules if r["origin"] == "live"]
print(len(live) - len(set(live)))')" 0
}

# What can't be had.
refused() {
	local before
	before=$(status_member generation)
	t_status 1 "$who: outside of the session" s_mountctl protect "$session" \
		"$BASE/elsewhere"
	t_like "$who: and why" "$T_STDERR" "lies outside"
	t_status 1 "$who: hide in a session that never asks" s_mountctl hide \
		"$session" d
	t_like "$who: and how to mend it" "$T_STDERR" "started with a --none rule"
	t_status 1 "$who: an unknown session" s_mountctl allow never d
	t_status 2 "$who: no path" s_mountctl allow "$session"
	t_status 2 "$who: an empty path" s_mountctl allow "$session" ''
	s_as ln -s ../src "$W/way"
	t_status 2 "$who: a symlink of the session's opens nothing" s_mountctl \
		allow "$session" "$W/way"
	t_like "$who: and is named" "$T_STDERR" "symlink '$W/way'"
	s_as rm "$W/way"
	same "nothing has changed" "$(status_member generation)" "$before"
}

natives() {
	begin
	does "somebody works in the worktree" "opened('a', '$W/README.md')" ok
	t_status 1 "$who: a native worktree" s_mountctl protect "$session" wt/src
	t_like "$who: the tree is named" "$T_STDERR" "native: $W$"
	t_like "$who: those in it, too" "$T_STDERR" "^  [0-9]+  .*live.py serve"
	t_like "$who: and the mend" "$T_STDERR" -- "--native none"
	does "it is as it was" "written('a', b'#')" 1
	end
}

# A mapping's stores are nobody's to refuse.
mappings() {
	begin
	rule allow d
	does "a file is opened" "opened('a', '$M/d/f')" ok
	does "and mapped" "mapped('a')" ok
	t_status 1 "$who: what is mapped for writing stays" s_mountctl protect \
		"$session" d
	t_like "$who: and whose it is, is said" "$T_STDERR" \
		"^  [0-9]+  .*live.py serve  \\($M/d/f\\)"
	does "the mapping writes" "stored('a') + flushed('a')" okok
	same "and is seen" "$(head -c 3 "$M/d/f")" map
	does "it is stored to once more" "stored('a', b'mop')" ok
	# Whoever asks without looking first.
	t_like "$who: written through a mapping" "$(socket_ask \
		"{\"op\":\"protect\",\"path\":\"$M/d\"}")" \
		'"open":\["[^"]*/d/f"\].*"ok":false'
	same "what had been stored is there" "$(head -c 3 "$M/d/f")" mop
	does "unmapped" "unmapped('a')" ok
	does "and closed" "closed('a')" ok
	does "opened again" "opened('a', '$M/d/f')" ok
	rule protect d
	does "mapped too late" "mapped('a')" ok
	does "and stored to" "stored('a', b'BAD')" ok
	does "is flushed in vain" "attempt(maps['a'].flush) != 'ok'" True
	same "and reaches nothing" "$(head -c 3 "$M/d/f")" mop
	t_wait 10 served_says "read('a')" mop
	same "nor does anybody read it" "$?" 0
	does "unmapped again" "unmapped('a') + closed('a')" okok
	end
}

# shellcheck disable=SC2317 # called by way of t_wait
served_says() {
	[ "$(told "$1")" = "$2" ]
}

# A file with two names, which two rules come to tell apart.
links() {
	begin
	s_as ln "$M/d/h" "$M/d/e/h"
	rule allow d
	does "both names" "got('$M/d/h')[:3] + got('$M/d/e/h')[:3]" oooooo
	does "are opened" \
		"opened('a', '$M/d/h') + opened('b', '$M/d/e/h')" okok
	rule protect d/e
	does "the protected one" "put('$M/d/e/h', 'x')" EROFS
	does "its descriptor" "written('b')" EROFS
	does "by its number" \
		"done(os.open, '/proc/self/fd/%d' % fds['b'], os.O_WRONLY)" EROFS
	rule allow d/e
	does "both again" "put('$M/d/e/h', 'x')" ok
	rule protect d/e
	rule protect d
	does "closed" "closed('a') + closed('b')" okok
	rm "$M/d/e/h"
	end
}

hidden() {
	begin
	does "a file is opened" "opened('a', '$M/k/f', os.O_RDONLY)" ok
	does "and read" "read('a')" ooo
	does "a directory, too" "opened('d', '$M/k', os.O_RDONLY)" ok
	does "a link" "os.readlink('$M/k/link')" f
	rule hide k
	does "stat answers" "done(os.stat, '$M/k/f')" ok
	does "opening doesn't" "got('$M/k/f')" EACCES
	does "listing doesn't" "os.listdir('$M/k')" EACCES
	does "below neither" "os.listdir('$M/k/e')" EACCES
	does "the link says nothing" "os.readlink('$M/k/link')" EACCES
	does "nor the open file" "read('a')" EACCES
	does "nor the open directory" "os.listdir(fds['d'])" EACCES
	does "nothing is made" "put('$M/k/x', 'x')" EACCES
	rule protect k
	does "until it is shown" "got('$M/k/f')[:3]" ooo
	does "listed" "'f' in os.listdir('$M/k')" True
	does "closed" "closed('a') + closed('d')" okok
	end
}

# The git guard's names, one by one.
guarded() {
	begin
	does "hooks are closed" "put('$M/.git/hooks/x', 'x')" EROFS
	rule allow .git/hooks
	does "and open" "put('$M/.git/hooks/x', 'x')" ok
	does "config stays" "put('$M/.git/config', 'x')" EROFS
	rule protect .git/hooks
	does "and closed" "put('$M/.git/hooks/x', 'y')" EROFS
	does "commits land" "os.system('git -C $W commit -q --allow-empty -m x')" 0
	rm "$M/.git/hooks/x"
	end
}

# flip OP: rules change while four processes are at it.
flipped() {
	local op=$1 refused=$2 state=$BASE/state i kinds=() pids=() kind
	local times=$flips
	kinds=(write,descriptor create rename,attributes read)
	# A change waits there until no file is open, again and again.
	[ -z "$through" ] || kinds[0]=write times=$((flips / 5))
	rm -f "$state" && s_as sh -c 'head -c 4096 /dev/zero >"$0"' "$state"
	s_as sh -c 'cd "$0" && for i in 0 1 2 3; do
		echo >file-$i; echo >file-$i-a; rm -f file-$i-b file-$i-new
	done' "$M/d"
	for i in 0 1 2 3; do
		kind=${kinds[i]}
		s_in "$session" python3 "$live" work "$state" "$i" "$kind" \
			"$M/d" "$refused" >"$BASE/work-$i" 2>&1 &
		pids+=($!)
	done
	t_ok "$who: $op and allow, $times times" s_as python3 "$live" flip \
		"$RUN/$session/control.sock" "$state" "$M/d" "$op" "$times"
	for i in 0 1 2 3; do
		wait "${pids[i]}"
		same "$op: ${kinds[i]} obeys each rule" "$?" 0 ||
			t_diag "$(cat "$BASE/work-$i")"
	done
}

# The same in a view that everybody sees; paths are the view's or the root's.
in_view() {
	local at
	at=$(cd "$W" && s_mountctl mount -n "$session") && at=${at%/wt}
	begin outside
	does "a view: main is read-only" "put('$at/d/f', 'x')" EROFS
	rule allow "$at/d"
	does "and then not" "put('$at/d/f', 'x')" ok
	rule protect d
	does "and is again" "put('$at/d/f', 'x')" EROFS
	rule protect wt/src
	does "a view has no native trees" "put('$at/wt/src/new', 'x')" EROFS
	does "beside it" "put('$at/wt/new', 'x')" ok
	rule allow "$at/wt/src"
	does "a worktree is writable again" "put('$at/wt/src/new', 'x')" ok
	does "cleared" "os.remove('$at/wt/src/new') or os.remove('$at/wt/new')" None
	end
	[ -n "$through" ] || descriptors "$at" outside
	t_ok "$who: unmount" s_mountctl unmount "$session"
}

for who in $(s_everybody); do
	s_be "$who"
	s_repository && make_files || exit 1

	session=natives
	s_hold natives
	natives
	finds_through
	[ -n "$through" ] || descriptors "$M"
	told_about
	refused
	guarded
	s_release

	session=served
	s_hold served --native none --none nothing
	if [ -z "$through" ]; then
		mappings
		links
	fi
	hidden
	flipped protect EROFS
	s_release

	session=seen
	in_view

	session=hides
	s_hold hides --none nothing
	flipped hide EACCES
	s_release
	s_clear "nothing is left"
done
t_done

#!/bin/bash
# `mountctl hook`: its exit statuses, with a session outside and inside, and
# what it does for the events that aren't calls. Which call gets which verdict
# is in unit/hook.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

# call CWD TOOL PATH: what Claude Code sends
call() {
	printf '{"session_id":"s","cwd":"%s","hook_event_name":"PreToolUse",' "$1"
	printf '"tool_name":"%s","tool_input":{"file_path":"%s"}}' "$2" "$3"
}

# event NAME [MEMBERS]
event() {
	printf '{"cwd":"%s","hook_event_name":"%s"%s}' "${3:-$W}" "$1" "${2:-}"
}

# hook PAYLOAD [ARG...]: from outside of every repository
hook() {
	local payload=$1
	shift
	(cd / && printf '%s' "$payload" | s_mountctl hook "$@")
}

# verdict STATUS NAME PAYLOAD [ARG...]
verdict() {
	local want=$1 name=$2
	shift 2
	t_status "$want" "$who: $name" hook "$@"
	t_is "$who: ... and stdout is empty" "$T_STDOUT" ""
	if [ "$want" -eq 2 ]; then
		t_like "$who: ... and says why" "$T_STDERR" "^mountctl: ."
	else
		t_is "$who: ... and says nothing" "$T_STDERR" ""
	fi
}

no_session() {
	verdict 0 "without a session" "$(call "$W" Write "$M/src/main.c")"
	verdict 2 "a session that isn't there" "$(call "$W" Write "$W/x")" -n wt
	verdict 2 "empty input" ""
	verdict 2 "malformed input" '{"cwd":'
	verdict 2 "a file tool without a file" "$(event PreToolUse \
		',"tool_name":"Edit","tool_input":{}')"
	verdict 2 "a policy that isn't there" "$(call "$W" Write /tmp/x)" \
		--policy "$BASE/none"
	t_status 0 "$who: open on malformed input if asked" hook '{' --fail=open
	t_like "$who: ... and it says so" "$T_STDERR" "isn't a JSON"
	t_status 0 "$who: open without the session if asked" \
		hook "$(call "$W" Write "$W/x")" -n wt --fail open
	t_status 2 "$who: an unknown option" hook '{}' --unknown
	t_status 2 "$who: an unknown format" hook '{}' --format=other
}

huge() {
	{
		printf '{"cwd":"/","hook_event_name":"PreToolUse","tool_name":'
		printf '"Write","tool_input":{"file_path":"/tmp/x","content":"'
		head -c "$1" /dev/zero | tr '\0' 'x'
		printf '"}}'
	} | s_mountctl hook
}

limits() {
	t_status 0 "$who: a large input" huge 8000000
	t_status 2 "$who: one that is too large" huge 8400000
	t_like "$who: ... and says so" "$T_STDERR" "larger than"
	t_status 2 "$who: no input at all" eval 's_mountctl hook <&-'
	t_status 2 "$who: a directory as input" eval 's_mountctl hook </'
	t_status 2 "$who: a thousand brackets" \
		hook "$(head -c 100000 /dev/zero | tr '\0' '[')"
	t_status 2 "$who: nobody to hear it" \
		eval 'hook "{" 2>&-'
}

# Has the process all of mountctl's handlers yet? SIGQUIT's is the last.
catches() {
	local caught
	[ "$(cat "/proc/$1/comm")" = mountctl ] || return
	caught=$(awk '/^SigCgt:/ { print $2 }' "/proc/$1/status")
	[ $((0x$caught & 4)) -ne 0 ]
}

# What would end it ends it with 2.
signals() {
	local signal pid
	mkfifo "$T_SCRATCH/fifo"
	for signal in SEGV ABRT BUS ILL TERM PIPE ALRM INT; do
		"$T_MOUNTCTL" hook <>"$T_SCRATCH/fifo" 2>"$T_SCRATCH/said" &
		pid=$!
		t_wait 10 catches "$pid"
		kill -s "$signal" "$pid"
		wait "$pid"
		t_is "SIG$signal ends it" $? 2
		t_like "... and it says so" "$(cat "$T_SCRATCH/said")" verdict
	done
}

by_lists() {
	verdict 2 "by lists: main" "$(call "$W" Write "$M/src/main.c")" \
		--deny "$M" --allow "$W" "$M/.git"
	t_like "$who: ... with its twin" "$T_STDERR" "$W/src/main.c"
	verdict 0 "by lists: the worktree" "$(call "$W" Write "$W/x")" \
		--deny "$M" --allow "$W" "$M/.git"
	verdict 0 "by lists: elsewhere" "$(call "$W" Write "$BASE/x")" \
		--deny "$M" --allow "$W"
	t_status 2 "$who: an empty path" hook '{}' --deny ""
}

# By lists where there is no session; an answer that Cursor may insist on.
in_settings() {
	local cursor='"cursor_version":"2","conversation_id":"c"'
	local call='"hook_event_name":"preToolUse","tool_name":"Write"'
	verdict 2 "lists in settings, without a session" \
		"$(call "$W" Write "$M/docs/x")" --session-first --deny "$M" \
		--allow "$W"
	s_hold wt --rw docs
	verdict 0 "lists in settings, and a session that knows better" \
		"$(call "$W" Write "$M/docs/x")" --session-first --deny "$M" \
		--allow "$W"
	verdict 2 "the same without its say" \
		"$(call "$W" Write "$M/docs/x")" --deny "$M" --allow "$W"
	verdict 2 "lists in settings, for what that session denies" \
		"$(call "$W" Write "$M/src/x")" --session-first \
		--deny "$BASE/nothing"
	s_release
	t_status 0 "$who: an explicit answer, allowed" hook \
		"{$cursor,$call,\"tool_input\":{\"path\":\"$W/x\"}}" \
		--explicit --deny "$M" --allow "$W"
	t_is "$who: is printed" "$T_STDOUT" '{"permission":"allow"}'
	t_status 2 "$who: an explicit answer, denied" hook \
		"{$cursor,$call,\"cwd\":\"$W\",\"tool_input\":{\"path\":\
\"$M/x\"}}" --explicit --deny "$M" --allow "$W"
	t_like "$who: is printed, too" "$T_STDOUT" \
		"^\{\"permission\":\"deny\",\"user_message\":.*agent_message.*$W/x"
	t_status 2 "$who: malformed" hook "{" --explicit
	t_is "$who: has none" "$T_STDOUT" ""
	t_status 0 "$who: open on that, for Cursor" \
		hook "{" --explicit --fail=open --format=cursor
	t_is "$who: is printed" "$T_STDOUT" '{"permission":"allow"}'
	verdict 0 "an explicit answer that nobody may be given" \
		"$(call "$W" Write "$W/x")" --explicit --deny "$M" --allow "$W"
	verdict 2 "nor of a denial" \
		"$(call "$W" Write "$M/x")" --explicit --deny "$M" --allow "$W"
}

by_policy() {
	printf '{"allowedRoots":["%s"],"deniedRoots":["%s"]}' "$W" "$BASE" \
		>"$BASE/policy.json"
	verdict 0 "by policy: the worktree" "$(call "$W" Write "$W/x")" \
		--policy "$BASE/policy.json"
	verdict 2 "by policy: main" "$(call "$W" Read "$M/x")" \
		--policy "$BASE/policy.json"
	as+=(env NAVARCH_WORKTREE_GUARD=off)
	verdict 0 "by policy: switched off" "$(call "$W" Read "$M/x")" \
		--policy "$BASE/policy.json"
	unset 'as[-1]' 'as[-1]'
	as+=(env NAVARCH_GUARD_EXTRA_ROOTS="/nowhere:$M")
	verdict 0 "by policy: extra roots" "$(call "$W" Read "$M/x")" \
		--policy "$BASE/policy.json"
	unset 'as[-1]' 'as[-1]'
}

# Prints the milliseconds that the middle one of 21 runs took.
middle_time() {
	local i began payload
	payload=$(call "$W" Write "$M/src/main.c")
	for ((i = 0; i < 21; i++)); do
		began=$(date +%s%N)
		"$T_MOUNTCTL" hook -n wt <<<"$payload" >/dev/null 2>&1
		echo $(($(date +%s%N) - began))
	done | sort -n | sed -n 11p | awk '{ printf "%.1f\n", $1 / 1e6 }'
}

live_session() {
	s_hold wt
	verdict 2 "a live session: main" "$(call "$W" Write "$M/src/main.c")"
	t_like "$who: ... with its twin" "$T_STDERR" "'$W/src/main.c'"
	verdict 2 "a live session: main, by .." \
		"$(call "$W" Edit ../src/main.c)"
	verdict 0 "a live session: its worktree" "$(call "$W" Write "$W/x")"
	verdict 2 "a live session: hooks" \
		"$(call "$W" Write "$M/.git/hooks/pre-commit")"
	verdict 0 "a live session, from elsewhere" \
		"$(call "$BASE" Write "$M/src/main.c")"
	verdict 2 "a live session by name, from elsewhere" \
		"$(call "$BASE" Write "$M/src/main.c")" -n wt
	as+=(env CLAUDE_PROJECT_DIR="$W")
	verdict 2 "a live session, where the project is" \
		"$(call "$M" Write "$M/src/main.c")"
	unset 'as[-1]' 'as[-1]'
	t_status 0 "$who: SessionStart" hook "$(event SessionStart)"
	t_like "$who: tells where to work" "$T_STDOUT" "$W"
	t_like "$who: tells what is read-only" "$T_STDOUT" "$M is read-only"
	t_status 0 "$who: SessionEnd" hook "$(event SessionEnd)"
	t_is "$who: SessionEnd prints nothing" "$T_STDOUT" ""
	if [ "$who" = root ] || [ "$(id -u)" -ne 0 ]; then
		t_diag "a verdict takes $(middle_time) ms"
	fi
	s_release
	s_clear "nothing is left"
}

inside() {
	(cd "$W" && s_mountctl run -n inner -- sh -c '
		printf "%s" "$1" | "$2" hook' - "$1" "$T_MOUNTCTL")
}

inside_run() {
	t_status 2 "$who: inside: main" inside "$(call "$W" Write "$M/x")"
	t_like "$who: ... with its twin" "$T_STDERR" "'$W/x'"
	t_status 0 "$who: inside: the worktree" inside "$(call "$W" Write "$W/x")"
	t_status 2 "$who: inside: malformed" inside '{'
	as+=(env WORKTREEFS_SESSION="$BASE/none")
	t_status 2 "$who: rules that can't be read" \
		hook "$(call "$W" Write "$W/x")"
	unset 'as[-1]' 'as[-1]'
	s_clear "nothing is left of it"
}

view_session() {
	local view
	view=$(cd "$W" && s_mountctl mount 2>/dev/null)
	verdict 2 "a view: the real main" "$(call "$view" Write "$M/x")"
	t_like "$who: ... with its twin in the view" "$T_STDERR" "'$view/x'"
	verdict 2 "a view: main in it" "$(call "$view" Write "$view/../x")"
	verdict 0 "a view: its worktree" "$(call "$view" Write "$view/x")"
	t_status 0 "$who: SessionEnd, to be resumed" \
		hook "$(event SessionEnd ',"reason":"resume"')" -n wt
	t_ok "$who: leaves the session alone" s_as test -e "$view/README.md"
	t_status 0 "$who: SessionEnd of a named session" \
		hook "$(event SessionEnd ',"reason":"other"')" -n wt
	s_clear "ends it"
}

# Not by timeout(1), which would mend it.
childless() {
	trap '' CHLD
	printf '%s' "$1" | "${as[@]}" "$T_MOUNTCTL" hook
}

# As the harness does it that works there.
in_view() {
	printf '%s' "$2" | s_as env -C "$1" "$T_MOUNTCTL" hook
}

# Each kind of work keeps the worktree $made, which is seen as $view.
unsaved_stays() {
	local payload
	payload=$(event WorktreeRemove ",\"worktree_path\":\"$view\"")
	s_as sh -c 'echo work >"$1/work"' - "$view"
	t_status 0 "$who: WorktreeRemove with work in it" hook "$payload"
	t_is "$who: keeps stdout empty" "$T_STDOUT" ""
	t_like "$who: says why it stays" "$T_STDERR" \
		"'$made' stays: there is unsaved work.*teardown.*--force"
	t_like "$who: and lists what is in it" "$T_STDERR" "^  work$"
	t_ok "$who: and it stays, mounted" s_as test -e "$view/work"
	s_as rm "$view/work"
	s_as git -C "$view" checkout -q --detach
	s_as git -C "$view" commit -q --allow-empty -m detached
	t_status 0 "$who: WorktreeRemove with a commit on no branch" \
		hook "$payload"
	t_like "$who: lists that" "$T_STDERR" "^  [0-9a-f]* detached$"
	t_unlike "$who: which would be lost" "$T_STDERR" "nothing of it"
	t_ok "$who: and it stays, mounted" s_as test -e "$view/README.md"
	s_as git -C "$view" checkout -q worktree-task
	s_as sh -c 'cd "$1" && git rev-parse HEAD >"$(git rev-parse \
		--git-path MERGE_HEAD)"' - "$view"
	t_status 0 "$who: WorktreeRemove in a merge" hook "$payload"
	t_like "$who: lists that" "$T_STDERR" "^  merge$"
	s_as git -C "$made" merge --quit
}

# What the repository keeps is told, and doesn't keep the worktree.
kept_goes() {
	local view
	view=$(hook "$(event WorktreeCreate ',"name":"kept"')" 2>/dev/null)
	s_as sh -c 'cd "$1" && echo a >a && git add a && git stash -q &&
		git commit -q --allow-empty -m unpushed' - "$view"
	t_status 0 "$who: WorktreeRemove with a commit and a stash" \
		hook "$(event WorktreeRemove ",\"worktree_path\":\"$view\"")"
	t_is "$who: keeps stdout empty" "$T_STDOUT" ""
	t_like "$who: lists the commit" "$T_STDERR" "^  [0-9a-f]* unpushed$"
	t_like "$who: and the stash" "$T_STDERR" "^  WIP on worktree-kept"
	t_is "$who: once" "$(grep -c unpushed <<<"$T_STDERR")" 1
	t_not "$who: and it is gone" test -e "$M/.claude/worktrees/kept"
	t_is "$who: the commit is there" \
		"$(s_as git -C "$M" log -1 --format=%s worktree-kept)" unpushed
	t_ok "$who: and so is the stash" s_as git -C "$M" stash drop -q
	s_as git -C "$M" branch -q -D worktree-kept
}

# Worktrees that the hook hasn't made a session for, one of them run's.
others_worktrees() {
	local payload
	payload=$(event WorktreeRemove ",\"worktree_path\":\"$M/other\"")
	s_as git -C "$M" worktree add -q -b other "$M/other"
	s_as touch "$M/other/work"
	t_status 0 "$who: WorktreeRemove without a session, with work" \
		hook "$payload"
	t_like "$who: lists that" "$T_STDERR" "^  work$"
	t_ok "$who: and it stays" rm "$M/other/work"
	s_hold held --worktree "$M/other"
	t_status 0 "$who: WorktreeRemove of one that is run's" hook "$payload"
	t_like "$who: says that it stays" "$T_STDERR" \
		"'$M/other' stays: the session 'held' works in it"
	t_is "$who: and so does its session" "$(s_records)" held
	s_release
	t_status 0 "$who: WorktreeRemove once that has ended" hook "$payload"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_not "$who: and it is gone" test -e "$M/other"
	t_status 0 "$who: WorktreeRemove of what is no worktree" hook \
		"$(event WorktreeRemove ",\"worktree_path\":\"$BASE\"")"
	t_like "$who: says so" "$T_STDERR" "'$BASE' stays: it is no worktree"
	s_as git -C "$M" branch -q -D other
}

# What else WorktreeCreate meets once there is the worktree `task`.
worktree_taken() {
	local other=$BASE/other
	t_repo "$other" && s_own "$other"
	t_status 0 "$who: WorktreeCreate of the same name elsewhere" \
		hook "$(event WorktreeCreate ',"name":"task"' "$other")"
	t_is "$who: takes the next name" "$T_STDOUT" \
		"$RUN/task.2/view/.claude/worktrees/task"
	t_status 0 "$who: WorktreeRemove of that" hook "$(event WorktreeRemove \
		",\"worktree_path\":\"$T_STDOUT\"")"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_status 0 "$who: WorktreeCreate from within another's view" \
		in_view "$RUN/task/view/.claude/worktrees/task" \
		"$(event WorktreeCreate ',"name":"next"' \
			"$RUN/task/view/.claude/worktrees/task")"
	t_is "$who: is beside that" "$T_STDOUT" \
		"$RUN/next/view/.claude/worktrees/next"
	t_ok "$who: in main" test -e "$M/.claude/worktrees/next"
	t_status 0 "$who: WorktreeRemove of it" hook "$(event WorktreeRemove \
		",\"worktree_path\":\"$M/.claude/worktrees/next\"")"
	rm -rf "$other"
	as+=(env WORKTREEFS_BIN="$BASE/none")
	t_status 2 "$who: WorktreeCreate where nothing can be mounted" \
		hook "$(event WorktreeCreate ',"name":"bare"' "$M")"
	t_is "$who: prints nothing" "$T_STDOUT" ""
	t_not "$who: leaves no worktree" test -e "$M/.claude/worktrees/bare"
	t_is "$who: and no branch" \
		"$(git -C "$M" branch --list worktree-bare)" ""
	t_status 0 "$who: ... and with --fail=open" hook "$(event \
		WorktreeCreate ',"name":"bare"' "$M")" --fail=open
	t_is "$who: makes the worktree alone" "$T_STDOUT" \
		"$M/.claude/worktrees/bare"
	t_like "$who: and says so loudly" "$T_STDERR" "NO GUARD"
	t_status 0 "$who: WorktreeRemove of one without a session" \
		hook "$(event WorktreeRemove ",\"worktree_path\":\"$T_STDOUT\"")"
	t_not "$who: removes it" test -e "$M/.claude/worktrees/bare"
	unset 'as[-1]' 'as[-1]'
}

worktrees() {
	local made=$M/.claude/worktrees/task view=$RUN/task/view
	view+=/.claude/worktrees/task
	printf '*.env\n/cache/\n' >"$M/.worktreeinclude"
	cat "$M/.worktreeinclude" >>"$M/.git/info/exclude"
	mkdir -p "$M/cache/deep"
	echo secret >"$M/local.env"
	echo x >"$M/cache/deep/x"
	echo no >"$M/untracked"
	s_own "$M"
	t_status 0 "$who: WorktreeCreate" \
		hook "$(event WorktreeCreate ',"name":"task"' "$M")"
	t_is "$who: prints where to work, and nothing else" "$T_STDOUT" "$view"
	t_is "$who: ... a path without symlinks" \
		"$(s_as realpath -e "$view")" "$view"
	t_ok "$who: ... that can be written" s_as touch "$view/new"
	t_ok "$who: ... and is the worktree" s_as rm "$made/new"
	t_errno EROFS "$who: ... while main can't" \
		s_as touch "$RUN/task/view/new"
	t_is "$who: on a branch of its own" \
		"$(s_as git -C "$made" branch --show-current)" worktree-task
	t_is "$who: copies what is to be copied" \
		"$(cat "$made/local.env" "$made/cache/deep/x")" $'secret\nx'
	t_not "$who: and nothing else" test -e "$made/untracked"
	t_status 0 "$who: WorktreeCreate once more" \
		hook "$(event WorktreeCreate ',"worktree_name":"task"' "$M")"
	t_is "$who: is the same" "$T_STDOUT" "$view"
	t_status 0 "$who: WorktreeCreate for one who ignores his children" \
		childless "$(event WorktreeCreate ',"name":"a/b"' "$M")"
	t_is "$who: of a name with a slash" "$T_STDOUT" \
		"$RUN/a-b/view/.claude/worktrees/a/b"
	t_status 0 "$who: WorktreeRemove by the worktree's own path" \
		hook "$(event WorktreeRemove \
			",\"worktree_path\":\"$M/.claude/worktrees/a/b\"")"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_not "$who: and it is gone" test -e "$M/.claude/worktrees/a/b"
	for name in '' .. a/../b -x .hidden a//b /abs; do
		t_status 2 "$who: WorktreeCreate of '$name'" \
			hook "$(event WorktreeCreate ",\"name\":\"$name\"" "$M")"
		t_is "$who: prints nothing" "$T_STDOUT" ""
	done
	worktree_taken
	unsaved_stays
	"${as[@]}" env -C "$view" sleep 100 &
	t_wait 10 eval "[ \"\$(readlink /proc/$!/cwd)\" = '$view' ]"
	t_status 0 "$who: WorktreeRemove while somebody is there" \
		hook "$(event WorktreeRemove ",\"worktree_path\":\"$view\"")"
	t_like "$who: says who" "$T_STDERR" "^  $!  sleep 100"
	t_like "$who: and that it stays" "$T_STDERR" "'$made' stays"
	kill "$!"
	wait "$!" 2>/dev/null
	t_ok "$who: and it stays" s_as test -e "$view"
	t_status 0 "$who: WorktreeRemove of what is below it" hook "$(event \
		WorktreeRemove ",\"worktree_path\":\"$view/src\"")"
	t_like "$who: says why not" "$T_STDERR" "isn't the worktree"
	t_status 0 "$who: WorktreeRemove" in_view "$view" \
		"$(event WorktreeRemove ",\"worktree_path\":\"$view\"")"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_not "$who: and it is gone" test -e "$made"
	s_clear "and its session"
	kept_goes
	t_status 0 "$who: WorktreeRemove of it again" \
		hook "$(event WorktreeRemove ",\"worktree_path\":\"$view\"")"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_status 0 "$who: WorktreeRemove of main" \
		hook "$(event WorktreeRemove ",\"worktree_path\":\"$M\"")"
	t_like "$who: says why not" "$T_STDERR" "is the main checkout"
	t_ok "$who: and main is there" test -e "$M/README.md"
	others_worktrees
	rm -rf "$M/cache" "$M/local.env" "$M/untracked" "$M/.worktreeinclude" \
		"$M/.claude"
}

in_trees() {
	cd "$M" && s_mountctl run --worktrees-dir "$BASE/trees" -- sh -c "$@"
}

# In a session of one worktree none can be made; in one with a place for them
# they can.
worktrees_inside() {
	t_status 2 "$who: inside: no place for worktrees" \
		inside "$(event WorktreeCreate ',"name":"t"' "$W")"
	t_like "$who: and says what gives one" "$T_STDERR" "--worktrees-dir"
	event WorktreeCreate ',"name":"t"' "$M" >"$BASE/payload"
	t_status 0 "$who: inside, with a place for them" in_trees '
		"$0" hook <"$1" && cd "$2/t" && echo x >new && git add new &&
			git commit -qm new' \
		"$T_MOUNTCTL" "$BASE/payload" "$BASE/trees"
	t_is "$who: the worktree can be used at once" "$T_STDOUT" \
		"$BASE/trees/t"
	t_is "$who: ... to commit" \
		"$(s_as git -C "$M" log -1 --format=%s worktree-t)" new
	s_clear "nothing is left of these"
}

signals
for user in $(s_everybody); do
	s_be "$user"
	s_repository
	no_session
	limits
	by_lists
	in_settings
	by_policy
	live_session
	inside_run
	view_session
	worktrees
	worktrees_inside
done
t_done

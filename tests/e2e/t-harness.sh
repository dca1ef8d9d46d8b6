#!/bin/bash
# A harness from its start to its end: its hooks, its tools, a shell, git.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

# The harness itself: asks its hook before each call, as Claude Code does, and
# prints one line for each step. Its arguments are the programs's path, M and D.
harness='
hook() {
	"$mountctl" hook 2>"$D/said"
}
call() {
	printf "{\"cwd\":\"%s\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"%s\",\"tool_input\":{\"file_path\":\"%s\"}}" \
		"$PWD" "$1" "$2" | hook
}
event() {
	printf "{\"cwd\":\"%s\",\"hook_event_name\":\"%s\"%s}" "$PWD" "$1" "$2" |
		hook
}
mountctl=$0 M=$1 D=$2
echo "start: $(event SessionStart ",\"source\":\"startup\"" |
	grep -c "$M is read-only")"
worktree=$(event WorktreeCreate ",\"name\":\"task\"" | tail -n 1)
echo "worktree: $worktree"
cd "$worktree" || exit 1
call Write "$M/src/main.c"
echo "write in main: $?"
echo "twin: $(grep -c "$worktree/src/main.c" "$D/said")"
call Write "$worktree/src/main.c"
echo "write in the worktree: $?"
echo "int x;" >>src/main.c
(echo "int x;" >>"$M/src/main.c") 2>/dev/null
echo "shell in main: $?"
git commit -qam task
echo "commit: $?"
cd "$M" || exit 1
event WorktreeRemove ",\"worktree_path\":\"$worktree\""
echo "remove: $? $(cat "$D/said")"
test -e "$worktree"
echo "still there: $?"
event SessionEnd ",\"reason\":\"other\""
echo "end: $?"
'

play() {
	(cd "$M" && s_mountctl run --worktrees-dir "$BASE/trees" -- \
		sh -c "$harness" "$T_MOUNTCTL" "$M" "$BASE/trees")
}

for user in $(s_everybody); do
	s_be "$user"
	s_repository
	mkdir "$BASE/trees"
	s_own "$BASE/trees"
	before=$(t_fingerprint "$M" && cat "$M/.git/HEAD")
	t_status 0 "$who: a harness in a session" play
	t_is "$who: what it met" "$T_STDOUT" "start: 1
worktree: $BASE/trees/task
write in main: 2
twin: 1
write in the worktree: 0
shell in main: 2
commit: 0
remove: 0 
still there: 1
end: 0"
	t_is "$who: its commit is there" "$(s_as git -C "$M" log -1 \
		--format=%s refs/heads/worktree-task)" task
	t_is "$who: main is as it was" \
		"$(t_fingerprint "$M" && cat "$M/.git/HEAD")" "$before"
	t_is "$who: no worktree is left" \
		"$(s_as git -C "$M" worktree list | wc -l)" 2
	s_clear "nothing is left"
done
t_done

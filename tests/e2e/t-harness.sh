#!/bin/bash
# A harness from its start to its end: its hooks, its tools, a shell, git.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3
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
echo "remove: $? $(grep -c "^  [0-9a-f]* task" "$D/said")"
test -e "$worktree"
echo "still there: $?"
event SessionEnd ",\"reason\":\"other\""
echo "end: $?"
'

play() {
	(cd "$M" && s_mountctl run --worktrees-dir "$BASE/trees" -- \
		sh -c "$harness" "$T_MOUNTCTL" "$M" "$BASE/trees")
}

# The same for one that wasn't started behind a guard, but has the plugin: its
# arguments are the program's directory, M, and a file for what hooks say.
outside='
hook() {
	PATH=$0:$PATH mountctl hook --format=claude 2>"$said"
}
call() {
	printf "{\"cwd\":\"%s\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"%s\",\"tool_input\":{\"file_path\":\"%s\"}}" \
		"$PWD" "$1" "$2" | hook
}
event() {
	printf "{\"cwd\":\"%s\",\"hook_event_name\":\"%s\"%s}" "$PWD" "$1" "$2" |
		hook
}
M=$1 said=$2
echo "before: $(event SessionStart ",\"source\":\"startup\"" | wc -l)"
place=$(event WorktreeCreate ",\"name\":\"task\"" | tail -n 1)
echo "place: $place"
cd "$place" || exit 1
echo "start: $(event SessionStart ",\"source\":\"startup\"" |
	grep -c "$M is read-only")"
call Write "$M/src/main.c"
echo "write in main: $?"
echo "twin: $(grep -c "$place/src/main.c" "$said")"
call Edit "$place/src/main.c"
echo "write in the worktree: $?"
echo "int x;" >>src/main.c
(echo "int x;" >>../../../src/main.c) 2>"$said"
echo "shell in main: $? $(grep -c "Read-only file system" "$said")"
git commit -qam task
echo "commit: $?"
"$0/mountctl" status --yaml
cd "$M" || exit 1
event SessionEnd ",\"reason\":\"other\""
echo "end: $?"
event WorktreeRemove ",\"worktree_path\":\"$place\""
echo "remove: $? $(grep -c "^  [0-9a-f]* task" "$said")"
test -e "$place"
echo "still there: $?"
'

play_outside() {
	(cd "$M" && s_as sh -c "$outside" "${T_MOUNTCTL%/*}" "$M" "$BASE/said")
}

play_in_a_view() {
	local place=$RUN/task/view/.claude/worktrees/task
	t_status 0 "$who: a harness outside of a session" play_outside
	t_is "$who: what it met" \
		"$(grep -v '^ \|^sandbox' <<<"$T_STDOUT")" "before: 0
place: $place
start: 1
write in main: 2
twin: 1
write in the worktree: 0
shell in main: 2 1
commit: 0
end: 0
remove: 0 1
still there: 1"
	t_is "$who: its summary" "$(sed -n '/^sandbox/,/^end/p' \
		<<<"$T_STDOUT" | grep -v ^end | yaml)" \
		"none None ['$M', '$M/wt'] ['$M/.claude/worktrees/task', \
'$M/.git', '$M/.vinta-ai-workflows']"
	t_is "$who: its commit is there" "$(s_as git -C "$M" log -1 \
		--format=%s refs/heads/worktree-task)" task
}

# The block as a parser of YAML reads it; without one, by its lines.
yaml() {
	python3 -c '
import json, sys
text = sys.stdin.read()
try:
    import yaml
    x = yaml.safe_load(text)["sandbox"]
except ImportError:
    x, key = {}, None
    assert text.startswith("sandbox:\n")
    for line in text.splitlines()[1:]:
        if line.startswith("    - "):
            x[key].append(json.loads(line[6:]))
            continue
        assert line.startswith("  ") and line[2] != " ", line
        key, value = line.strip().split(":", 1)
        x[key] = {"": [], " []": [], " null": None}.get(value, value.strip())
assert list(x) == ["tier", "launcher", "deny", "allow"], x
print(x["tier"], x["launcher"], sorted(x["deny"]), sorted(x["allow"]))'
}

# Names that YAML would take for something else.
summary() {
	s_be "$1" "$1-odd/a: #b 'c' \"d\" [e] {f} & *g !h %i @j \`k"
	s_repository
	s_hold odd --none closed --rw open
	t_is "$who: a summary of odd names" \
		"$(s_mountctl status odd --yaml | yaml)" \
		"$(python3 -c 'import sys
m = sys.argv[1]
print("enforced worktreefs", [m, m + "/closed"], sorted([m + "/wt", m + "/.git",
m + "/.vinta-ai-workflows", m + "/open"]))' "$M")"
	s_release
	s_clear "nothing is left of it"
}

# What is installed, and what the script above does in its stead.
plugin() {
	t_is "the plugin's hooks" "$(python3 - "$T_SRC/docs/claude-plugin" \
		<<-'END'
		import json, sys
		plugin = json.load(open(sys.argv[1] + "/.claude-plugin/plugin.json"))
		hooks = json.load(open(sys.argv[1] + "/hooks/hooks.json"))["hooks"]
		calls = {" ".join([h["command"]] + h["args"]) for groups in
		    hooks.values() for g in groups for h in g["hooks"]}
		print(plugin["name"], *sorted(hooks), *calls)
	END
	)" "worktreefs PreToolUse SessionEnd SessionStart WorktreeCreate \
WorktreeRemove mountctl hook --format=claude"
}

plugin
for user in $(s_everybody); do
	s_be "$user"
	s_repository
	mkdir "$BASE/trees"
	s_own "$BASE/trees"
	stamp=$(stat -c %y "$M")
	before=$(t_fingerprint "$M" && cat "$M/.git/HEAD")
	t_status 0 "$who: a harness in a session" play
	t_is "$who: what it met" "$T_STDOUT" "start: 1
worktree: $BASE/trees/task
write in main: 2
twin: 1
write in the worktree: 0
shell in main: 2
commit: 0
remove: 0 1
still there: 1
end: 0"
	t_is "$who: its commit is there" "$(s_as git -C "$M" log -1 \
		--format=%s refs/heads/worktree-task)" task
	s_as git -C "$M" branch -qD worktree-task
	play_in_a_view
	rm -r "$M/.claude" "$BASE/said"
	touch -d "$stamp" "$M"
	t_is "$who: main is as it was" \
		"$(t_fingerprint "$M" && cat "$M/.git/HEAD")" "$before"
	t_is "$who: no worktree is left" \
		"$(s_as git -C "$M" worktree list | wc -l)" 2
	s_clear "nothing is left"
	summary "$user"
done
t_done

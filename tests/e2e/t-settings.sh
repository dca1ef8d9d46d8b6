#!/bin/bash
# `mountctl settings`: what each harness gets, that all else in a file stays
# byte for byte, and what is refused.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3
t_user_make || exit 1

# settings HARNESS ARG...: from W
settings() {
	(cd "$W" && s_mountctl settings "$@")
}

# json FILE EXPRESSION: of what the file holds, as x
json() {
	python3 - "$@" <<-'END'
		import json, sys
		x = json.load(open(sys.argv[1]))
		print(eval("(" + sys.argv[2] + ")"))
	END
}

# hook_of FILE EVENT [INDEX]: the words of the first hook of an event
words_of='
import json, shlex, sys
x = json.load(open(sys.argv[1]))["hooks"][sys.argv[2]][int(sys.argv[3])]
x = x.get("hooks", [x])[0]
words = [x["command"]] + x["args"] if "args" in x else shlex.split(x["command"])
sys.stdout.write("".join(word + "\0" for word in words))
'

# ask FILE EVENT PAYLOAD: the answer of the hook that the file sets up
ask() {
	local -a words
	mapfile -d '' words < <(python3 -c "$words_of" "$1" "$2" 0)
	(cd / && printf '%s' "$3" | s_as "${words[@]}")
}

# call CWD TOOL PATH
call() {
	printf '{"cwd":"%s","hook_event_name":"PreToolUse","tool_name":"%s",' \
		"$1" "$2"
	printf '"tool_input":{"file_path":"%s"}}' "$3"
}

claude() {
	local file=$W/.claude/settings.json
	t_status 0 "$who: settings claude" settings claude
	t_is "$who: prints the file" "$T_STDOUT" "$file"
	t_is "$who: says nothing" "$T_STDERR" ""
	t_is "$who: two events" "$(json "$file" 'sorted(x["hooks"])')" \
		"['PreToolUse', 'SessionStart']"
	t_ok "$who: the command is there" \
		test -x "$(json "$file" \
			'x["hooks"]["PreToolUse"][0]["hooks"][0]["command"]')"
	t_status 2 "$who: the hook denies main" \
		ask "$file" PreToolUse "$(call "$W" Write "$M/src/main.c")"
	t_like "$who: and names the twin" "$T_STDERR" "$W/src/main.c"
	t_status 2 "$who: and a sibling" \
		ask "$file" PreToolUse "$(call "$W" Edit "$BASE/far/x")"
	t_status 0 "$who: but not the worktree" \
		ask "$file" PreToolUse "$(call "$W" Write "$W/src/main.c")"
	t_status 0 "$who: nor shared directories" ask "$file" PreToolUse \
		"$(call "$W" Write "$M/.vinta-ai-workflows/x")"
	t_status 0 "$who: the hook tells" ask "$file" SessionStart \
		"{\"cwd\":\"$W\",\"hook_event_name\":\"SessionStart\"}"
	t_like "$who: what is read-only" "$T_STDOUT" "$M is read-only"
	cp "$file" "$BASE/before"
	t_status 0 "$who: once more" settings claude
	t_ok "$who: is the same" cmp "$file" "$BASE/before"
	t_status 0 "$who: with another tree" settings claude --allow ../docs \
		"$M/new"
	t_is "$who: replaces the entry" "$(json "$file" \
		'len(x["hooks"]["PreToolUse"]), len(x["hooks"]["SessionStart"])')" \
		"(1, 1)"
	t_status 0 "$who: that tree is allowed" \
		ask "$file" PreToolUse "$(call "$W" Write "$M/docs/x")"
	t_status 0 "$who: and the other" \
		ask "$file" PreToolUse "$(call "$W" Write "$M/new/x")"
	t_status 0 "$who: back again" settings claude
	t_ok "$who: is what it was" cmp "$file" "$BASE/before"
	rm -r "$W/.claude"
	t_status 0 "$who: --local" settings claude --local
	t_is "$who: takes the other file" "$T_STDOUT $(ls "$W/.claude")" \
		"$W/.claude/settings.local.json settings.local.json"
	rm -r "$W/.claude"
	t_status 0 "$who: --out" settings claude --out "$BASE/out.json"
	t_is "$who: takes that file" "$T_STDOUT" "$BASE/out.json"
	t_not "$who: alone" test -e "$W/.claude"
	t_status 0 "$who: --out -" settings claude --out -
	t_is "$who: prints what it holds" "$T_STDOUT" "$(cat "$BASE/out.json")"
	t_status 0 "$who: from elsewhere" eval '(cd / && s_mountctl settings \
		claude --main "$M" --worktree "$W" --out -)'
	t_is "$who: is the same" "$T_STDOUT" "$(cat "$BASE/out.json")"
	rm -f "$BASE/out.json" "$BASE/before"
}

# A file with what a parser would spoil: numbers, escapes, order, layout.
theirs='{
    "zebra": 1.0, "big": 12345678901234567890123,
    "exp": 1e3, "neg": -0, "dup": {"x": 1, "y": [ ], "x": 2},
    "text": "\u00e4\/\ud83d\ude00 \u0000",
    "hooks" : {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [ {"type": "command",
                "command": "audit.sh", "future": {"a": null}} ]},
            @{"matcher": "Edit", "hooks": [
                {"type": "command", "command": "mine"}@]}
        ]
    },
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "alpha": true
}
'
own='{"type": "command", "command": "/old/mountctl", "args": ["hook", "--deny", "/x", "--allow", "/y"]}'

# The file without ours, numbers as they are spelled.
without_ours='
import json, sys
def walk(x):
    if isinstance(x, list) and x and isinstance(x[0], tuple):
        return [(k, walk(v)) for k, v in x if not ours(v)]
    if isinstance(x, list):
        return [walk(v) for v in x if not ours(v)]
    return x
def ours(x):
    text = json.dumps(x)
    return "mountctl" in text and "say done" not in text and "mine" not in text \
        and "audit" not in text and "policy" not in text
x = json.load(open(sys.argv[1]), object_pairs_hook=list, parse_int=str,
    parse_float=str)
print(walk(x))
'

keeps() {
	local file=$W/.claude/settings.json line
	mkdir "$W/.claude"
	printf '%s' "${theirs//@/}" >"$file"
	chmod 0640 "$file"
	s_own "$W/.claude"
	cp "$file" "$BASE/theirs"
	t_status 0 "$who: merging" settings claude --os-sandbox \
		--allow-domain example.invalid
	t_is "$who: keeps all that is there, and its order" \
		"$(python3 -c "$without_ours" "$file" | sed 's/, (.sandbox.*$/]/')" \
		"$(python3 -c "$without_ours" "$BASE/theirs")"
	while IFS= read -r line; do
		grep -qF -- "$line" "$file" || t_fail "$who: lost: $line"
	done <"$BASE/theirs"
	t_is "$who: changes no line but by adding to its end" \
		"$(diff "$BASE/theirs" "$file" | sed -n 's/^< //p' |
			grep -vxFf <(sed -n 's/,$//p' "$file"))" ""
	t_is "$who: and the mode" "$(stat -c %a "$file")" 640
	t_is "$who: leaves nothing else there" "$(ls -A "$W/.claude")" \
		settings.json
	cp "$file" "$BASE/merged"
	t_status 0 "$who: merging once more" settings claude --os-sandbox \
		--allow-domain example.invalid
	t_ok "$who: changes no byte" cmp "$file" "$BASE/merged"

	# Our own of another time: a group of its own, and one in a mixed group
	printf '%s' "$theirs" | sed "s#@{\"matcher\"#{\"matcher\": \"X\", \
\"hooks\": [$own]}, {\"matcher\"#; s#@\\]#, $own]#" >"$file"
	t_status 0 "$who: merging where there is an earlier entry" \
		settings claude
	t_is "$who: replaces it in its place" \
		"$(json "$file" '[g["matcher"][:5] for g in
x["hooks"]["PreToolUse"]]')" "['Bash', 'Write', 'Edit']"
	t_is "$who: and takes it out of the other" \
		"$(json "$file" '[h["command"] for h in
x["hooks"]["PreToolUse"][2]["hooks"]]')" "['mine']"
	t_unlike "$who: nothing of it is left" "$(cat "$file")" /old/

	printf '{"hooks":{"PreToolUse":[{"hooks":[{"type":"command",
"command":"mountctl hook --policy /p"}]},{"hooks":[{"type":"command",
"command":"mountctl","args":["hook","-n","s"]}]}]}}' >"$file"
	t_status 0 "$who: hooks with a policy or a name" settings claude
	t_is "$who: are the user's own" \
		"$(json "$file" 'len(x["hooks"]["PreToolUse"])')" 3
	printf '{"hooks":{"PreToolUse":[{"hooks":[{"type":"command",
"command":"\\"/a b/mountctl\\" hook"}]}]}}' >"$file"
	t_status 0 "$who: one without either" settings claude
	t_is "$who: is ours" \
		"$(json "$file" 'len(x["hooks"]["PreToolUse"])')" 1
	rm -r "$W/.claude" "$BASE/theirs" "$BASE/merged"
}

# refused NAME CONTENT: it stays as it is
refused() {
	local file=$W/.claude/settings.json
	printf '%s' "$2" >"$file"
	s_own "$file"
	t_status 1 "$who: $1" settings claude --os-sandbox
	t_like "$who: ... is named in one line" "$T_STDERR" \
		"^mountctl: cannot (change|read) '$file': ."
	t_is "$who: ... and stays" "$(cat "$file")" "$2"
	t_is "$who: ... alone" "$(ls -A "$W/.claude")" settings.json
}

refuses() {
	mkdir "$W/.claude"
	s_own "$W/.claude"
	refused "an empty file" ""
	refused "no JSON" "{"
	refused "a comment" '{} // no'
	refused "a comma too many" '{"a":1,}'
	refused "bytes that aren't UTF-8" $'{"a":"\xff"}'
	refused "an array" "[]"
	refused "hooks that are none" '{"hooks":[]}'
	refused "an event that is none" '{"hooks":{"PreToolUse":{}}}'
	refused "hooks that are there twice" '{"hooks":{},"hooks":{}}'
	refused "a sandbox that is none" '{"sandbox":true}'
	rm -r "$W/.claude"

	mkdir "$BASE/elsewhere"
	echo '{}' >"$BASE/elsewhere/settings.json"
	s_own "$BASE/elsewhere"
	ln -s "$BASE/elsewhere" "$W/.claude"
	t_status 1 "$who: a directory that leads out of the worktree" \
		settings claude
	t_like "$who: is named" "$T_STDERR" "'$W/.claude/settings.json'.*symlink"
	t_status 1 "$who: also with --dry-run" settings claude --dry-run
	t_status 1 "$who: also with --out" \
		settings claude --out .claude/settings.json
	rm "$W/.claude"
	mkdir "$W/.claude"
	s_own "$W/.claude"
	ln -s "$BASE/elsewhere/settings.json" "$W/.claude/settings.json"
	t_status 1 "$who: a file that leads out of the worktree" settings claude
	t_ok "$who: is still a link" test -L "$W/.claude/settings.json"
	ln -s "$BASE/elsewhere/new" "$W/.claude/settings.local.json"
	t_status 1 "$who: also where it leads to nothing" \
		settings claude --local
	t_is "$who: nothing is written there" \
		"$(cat "$BASE/elsewhere"/*)$(ls "$BASE/elsewhere")" \
		"{}settings.json"
	rm "$W/.claude"/*
	mkfifo "$W/.claude/settings.json"
	t_status 1 "$who: a FIFO" settings claude
	rm -r "$W/.claude" "$BASE/elsewhere"
}

usage() {
	t_status 2 "$who: no harness" settings
	t_status 2 "$who: an unknown one" settings emacs
	t_status 2 "$who: two" settings claude codex
	t_status 2 "$who: an empty path" settings claude --allow ""
	t_status 2 "$who: --local and --out" settings claude --local --out x
	t_status 2 "$who: --allow-domain alone" settings claude --allow-domain x
	t_status 2 "$who: --os-sandbox elsewhere" settings gemini --os-sandbox
	t_status 2 "$who: --args elsewhere" settings claude --args
	t_status 2 "$who: -0 alone" settings codex -0
	t_status 2 "$who: --args and --hooks" settings codex --args --hooks
	t_status 2 "$who: a profile's file" settings codex --out x
	t_status 2 "$who: in main" eval '(cd "$M" && s_mountctl settings claude)'
	t_like "$who: is told what is missing" "$T_STDERR" --worktree
	t_not "$who: nothing was written" test -e "$W/.claude"
}

dry_run() {
	local file=$W/.claude/settings.json
	t_status 0 "$who: --dry-run" settings claude --dry-run
	t_like "$who: prints a diff" "$T_STDOUT" "^@@ -0,0 \\+1,"
	t_not "$who: and writes nothing" test -e "$W/.claude"
	mkdir "$W/.claude"
	printf '{\n  "a": 1.0\n}\n' >"$file"
	s_own "$W/.claude"
	t_status 0 "$who: --dry-run of a change" settings claude --dry-run
	t_is "$who: shows what is replaced" \
		"$(sed 1,3d <<<"$T_STDOUT" | grep -v '^+')" \
		"$(printf ' {\n-  "a": 1.0\n }')"
	t_is "$who: and writes nothing" "$(cat "$file")" $'{\n  "a": 1.0\n}'
	settings claude >/dev/null
	t_status 0 "$who: --dry-run of no change" settings claude --dry-run
	t_is "$who: prints nothing" "$T_STDOUT" ""
	rm -r "$W/.claude"
}

list() {
	json "$W/.claude/settings.json" "x['sandbox']$1"
}

sandbox() {
	local file=$W/.claude/settings.json
	t_status 0 "$who: --os-sandbox" settings claude --os-sandbox \
		--allow-domain a.invalid b.invalid --allow "$BASE/cache"
	t_is "$who: is on, and strict" "$(list \
		'["enabled"], x["sandbox"]["failIfUnavailable"],
x["sandbox"]["allowUnsandboxedCommands"]')" "(True, True, False)"
	t_is "$who: what may be written" "$(list \
		'["filesystem"]["allowWrite"]')" \
		"['$W', '$M/.vinta-ai-workflows', '$BASE/cache', '$M/.git']"
	t_is "$who: what may not: nothing that holds the worktree" "$(list \
		'["filesystem"]["denyWrite"]')" \
		"['$M/.git/hooks', '$M/.git/info']"
	t_is "$who: what may be reached" "$(list \
		'["network"]["allowedDomains"]')" "['a.invalid', 'b.invalid']"
	t_status 0 "$who: --os-sandbox without a host" \
		settings claude --os-sandbox
	t_like "$who: is warned of" "$T_STDERR" "--allow-domain"
	t_is "$who: an earlier grant is gone" "$(list \
		'["filesystem"]["allowWrite"]')" \
		"['$W', '$M/.vinta-ai-workflows', '$M/.git']"

	# What an earlier generator wrote makes the worktree read-only.
	printf '{"sandbox":{"enabled":false,"filesystem":{"denyWrite":["%s",
"/etc","%s"],"allowWrite":["/theirs"],"denyRead":["~/.ssh"]},"other":1.50}}' \
		"$M" "$W" >"$file"
	t_status 0 "$who: --os-sandbox over another" settings claude \
		--os-sandbox
	t_like "$who: says what goes" "$T_STDERR" "'$M' goes from denyWrite"
	t_is "$who: keeps what does no harm" "$(list \
		'["filesystem"]["denyWrite"]')" \
		"['/etc', '$M/.git/hooks', '$M/.git/info']"
	t_is "$who: and other lists" "$(list \
		'["filesystem"]["denyRead"], x["sandbox"]["filesystem"]["allowWrite"][0]')" \
		"(['~/.ssh'], '/theirs')"
	t_like "$who: and other members" "$(cat "$file")" '"other":1\.50'
	rm -r "$W/.claude"
}

tracked() {
	mkdir "$W/.claude"
	echo '{}' >"$W/.claude/settings.json"
	s_own "$W/.claude"
	s_as git -C "$W" add .claude
	t_status 0 "$who: a file that git tracks" settings claude
	t_like "$who: is warned of" "$T_STDERR" "tracked by git.*--local"
	s_as git -C "$W" rm -qf --cached .claude/settings.json
	rm -r "$W/.claude"
}

# TOML, as a dictionary.
toml() {
	python3 -c '
import sys, tomllib
x = tomllib.load(sys.stdin.buffer)
p = x["permissions"]["worktreefs"]
f = p["filesystem"]
print(eval("(" + sys.argv[1] + ")"))' "$1"
}

codex() {
	local -a arguments
	if ! python3 -c 'import tomllib' 2>/dev/null; then
		t_skip "$who: settings codex" "python3 doesn't read TOML"
		return
	fi
	t_status 0 "$who: settings codex" settings codex --none secrets
	t_like "$who: names the git directory" "$T_STDOUT" \
		"^\"$M/.git\" = \"write\"\$"
	t_like "$who: and the worktree's own in it" "$T_STDOUT" \
		"^\"$M/.git/worktrees/wt\" = \"write\"\$"
	t_like "$who: main can be read" "$T_STDOUT" "^\"$M\" = \"read\"\$"
	t_like "$who: hooks are held" "$T_STDOUT" \
		"^\"$M/.git/hooks\" = \"read\"\$"
	t_is "$who: nothing but what is closed is denied" \
		"$(grep deny <<<"$T_STDOUT")" "\"$M/secrets\" = \"deny\""
	mapfile -t arguments < <(settings codex --args --none secrets)
	t_is "$who: as arguments" "${#arguments[@]} ${arguments[0]}" "4 -c"
	t_is "$who: ... as the text has it" \
		"$(settings codex --none secrets | toml 'x')" \
		"$(printf '%s\n' "${arguments[1]}" "${arguments[3]}" | toml 'x')"
	t_is "$who: with NULs" \
		"$(settings codex --args -0 --none secrets | tr '\0' '\n')" \
		"$(printf '%s\n' "${arguments[@]}")"
	t_is "$who: a whole workspace that is closed" \
		"$(settings codex --root "$BASE" --none . --worktree "$W" |
			toml 'f["'"$BASE"'"], f["'"$W"'"], f["'"$M/.git"'"]')" \
		"('deny', 'write', 'write')"
	t_status 0 "$who: hooks.json" settings codex --hooks
	t_is "$who: prints it" "$T_STDOUT" "$W/.codex/hooks.json"
	t_status 2 "$who: its hook denies a patch" ask "$T_STDOUT" PreToolUse \
		"{\"cwd\":\"$W\",\"turn_id\":\"t\",\"hook_event_name\":\"PreToolUse\",\
\"tool_name\":\"apply_patch\",\"tool_input\":{\"command\":\
\"*** Begin Patch\\n*** Update File: ../README.md\\n@@\\n-x\\n*** End Patch\"}}"
	rm -r "$W/.codex"
}

gemini() {
	t_status 0 "$who: settings gemini" settings gemini
	t_is "$who: prints it" "$T_STDOUT" "$W/.gemini/settings.json"
	t_status 2 "$who: its hook denies" ask "$T_STDOUT" BeforeTool \
		"{\"cwd\":\"$W\",\"hook_event_name\":\"BeforeTool\",\"tool_name\":\
\"replace\",\"tool_input\":{\"file_path\":\"$M/x\"}}"
	t_status 0 "$who: its hook tells" ask "$W/.gemini/settings.json" \
		SessionStart \
		"{\"cwd\":\"$W\",\"hook_event_name\":\"SessionStart\"}"
	t_like "$who: in its own way" "$T_STDOUT" '^\{"hookSpecificOutput"'
	t_is "$who: in milliseconds" "$(json "$W/.gemini/settings.json" \
		'x["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"]')" 10000
	rm -r "$W/.gemini"
}

cursor() {
	local file=$W/.cursor/hooks.json
	t_status 0 "$who: settings cursor" settings cursor
	t_is "$who: prints it" "$T_STDOUT" "$file"
	t_is "$who: closed where it fails" "$(json "$file" \
		'x["version"], x["hooks"]["preToolUse"][0]["failClosed"]')" \
		"(1, True)"
	t_status 2 "$who: its hook denies" ask "$file" preToolUse \
		"{\"cursor_version\":\"2\",\"cwd\":\"$W\",\"hook_event_name\":\
\"preToolUse\",\"tool_name\":\"Write\",\"tool_input\":{\"path\":\"$M/x\"}}"
	t_like "$who: in its own way, too" "$T_STDOUT" '"permission":"deny"'
	t_status 0 "$who: its hook allows" ask "$file" preToolUse \
		"{\"cursor_version\":\"2\",\"cwd\":\"$W\",\"hook_event_name\":\
\"preToolUse\",\"tool_name\":\"Write\",\"tool_input\":{\"path\":\"$W/x\"}}"
	t_is "$who: as it has to" "$T_STDOUT" '{"permission":"allow"}'
	printf '{"version":1,"hooks":{"preToolUse":[{"command":"theirs"},
{"command":"x/mountctl hook"}],"stop":[]}}' >"$file"
	t_status 0 "$who: merging" settings cursor
	t_is "$who: keeps theirs" "$(json "$file" \
		'[h["command"].split()[0][-8:] for h in x["hooks"]["preToolUse"]],
list(x["hooks"])')" "(['theirs', 'mountctl'], ['preToolUse', 'stop', 'sessionStart'])"
	rm -r "$W/.cursor"
}

# Names that have to be quoted everywhere.
odd_names() {
	s_be "$1" "$1-odd/a 'b' \"c\" \$d \\e.f"
	s_repository
	t_status 0 "$who: odd names: claude" settings claude --os-sandbox \
		--allow-domain x.invalid
	t_status 2 "$who: odd names: its hook denies" \
		ask "$W/.claude/settings.json" PreToolUse \
		'{"cwd":"/","tool_name":"Write","tool_input":{"file_path":"'"$(
			sed 's/[\\"]/\\&/g' <<<"$M"
		)"'/x"}}'
	t_status 0 "$who: odd names: once more" settings claude --os-sandbox \
		--allow-domain x.invalid
	t_is "$who: odd names: adds nothing" \
		"$(json "$W/.claude/settings.json" 'len(x["hooks"]["PreToolUse"]),
len(x["sandbox"]["filesystem"]["allowWrite"])')" "(1, 3)"
	t_status 0 "$who: odd names: gemini" settings gemini
	t_status 0 "$who: odd names: once more" settings gemini
	t_is "$who: odd names: adds nothing" \
		"$(json "$W/.gemini/settings.json" 'len(x["hooks"]["BeforeTool"])')" 1
	t_status 2 "$who: odd names: its hook denies" \
		ask "$W/.gemini/settings.json" BeforeTool \
		'{"cwd":"/","hook_event_name":"BeforeTool","tool_name":"replace",
"tool_input":{"file_path":"'"$(sed 's/[\\"]/\\&/g' <<<"$M")"'/x"}}'
	if python3 -c 'import tomllib' 2>/dev/null; then
		t_is "$who: odd names: codex" \
			"$(settings codex | toml 'sorted(f)[0]')" "$M"
	fi
	s_be "$1" "$1-"$'\377'
	s_repository
	t_status 2 "$who: a name that isn't UTF-8" settings claude
	t_like "$who: is refused" "$T_STDERR" "isn't UTF-8"
}

for user in $(s_everybody); do
	s_be "$user"
	s_repository
	s_as git -C "$M" worktree add -q "$BASE/far"
	claude
	keeps
	refuses
	usage
	dry_run
	sandbox
	tracked
	codex
	gemini
	cursor
	odd_names "$user"
done
t_done

#!/bin/bash
# What took the place of older tools, side by side with them: the same verdict
# for the same input. The tools are written down here as their users know them;
# where a verdict of theirs was wrong, the row says why, and what ours is.
# (sandbox-run, next to bubblewrap, is in e2e/sandbox-run.)
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need git python3

M=$T_SCRATCH/main W=$T_SCRATCH/main/wt OUT=$T_SCRATCH/out
t_repo "$M"
t_worktree "$M" "$W"
mkdir "$OUT" "$M/plans"
ln -s ../src "$W/link"
ln -s "$M" "$OUT/back"
export M W OUT

# theirs.py guard|policy: a payload a line; prints 0 or 2 for each
cat >"$T_SCRATCH/theirs.py" <<'END'
import json, os, re, sys

M, W, OUT = (os.environ[name] for name in ("M", "W", "OUT"))

def under(path, trees):
    return any(path == t or path.startswith(t + "/") for t in trees)

# The write guard: --deny M --allow W M/plans
def guard(text):
    try:
        x = json.loads(text)
        if x["tool_name"] not in ("Edit", "Write", "MultiEdit", "NotebookEdit"):
            return 0
        given = x["tool_input"]
        path = given.get("file_path") or given["notebook_path"]
        real = os.path.realpath(os.path.join(x.get("cwd", "/"), path))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0
    return 2 if under(real, [M]) and not under(real, [W, M + "/plans"]) else 0

# The worktree guard: its file of roots is written below.
def allowed(path, cwd, lenient):
    real = os.path.realpath(os.path.join(cwd, path))
    if under(real, [W]):
        return True
    if under(real, [os.path.dirname(M)]):
        return False
    return under(real, ["/tmp", "/var/tmp"]) or (lenient and under(real,
        ["/usr", "/bin", "/dev"]))

def shell(command, cwd):
    for part in re.split(r"[;&|]+", command):
        words = part.split()
        if words[:1] == ["cd"] and words[1:] in ([], ["-"]):
            return False
    for word in re.split(r"[\s;&|<>()\"'`=]+", command):
        word = re.sub(r"^\$\{?HOME\}?", os.environ["HOME"], word)
        word = os.path.expanduser(word)
        if (word.startswith("/") or ".." in word.split("/")) and \
                not allowed(word, cwd, True):
            return False
    return True

def policy(text):
    try:
        x = json.loads(text)
        cwd, given = x["cwd"], x["tool_input"]
        if x["tool_name"] == "Bash":
            return 0 if shell(given["command"], cwd) else 2
        return 0 if allowed(given["file_path"], cwd,
            x["tool_name"] == "Read") else 2
    except Exception:
        return 2

for line in sys.stdin:
    print({"guard": guard, "policy": policy}[sys.argv[1]](line.rstrip("\n")))
END

# judge PAYLOAD ARG...
judge() {
	local payload=$1
	shift
	printf '%s' "$payload" | "$T_MOUNTCTL" hook "$@"
}

# rows TOOL ARG...: rows of stdin, "NAME|PAYLOAD|OURS|WHY", the last two empty
# where both agree; @M, @W and @O are main, the worktree and a place elsewhere.
rows() {
	local tool=$1 name payload ours why theirs i=0
	local -a verdicts lines
	shift
	mapfile -t lines < <(sed "s#@M#$M#g; s#@W#$W#g; s#@O#$OUT#g")
	mapfile -t verdicts < <(printf '%s\n' "${lines[@]}" | cut -d '|' -f 2 |
		python3 "$T_SCRATCH/theirs.py" "$tool")
	for ((i = 0; i < ${#lines[@]}; i++)); do
		IFS='|' read -r name payload ours why <<<"${lines[i]}"
		theirs=${verdicts[i]}
		if [ -n "$ours" ]; then
			t_is "$tool: $name: theirs was wrong" \
				"$theirs" "$((2 - ours))"
		fi
		t_status "${ours:-$theirs}" "$tool: $name: ${why:-the same}" \
			judge "$payload" "$@"
		[ "$T_STATUS" -eq 0 ] ||
			t_like "$tool: $name: gives a reason" "$T_STDERR" .
	done
}

guard_rows() {
	local tool
	for tool in Write Edit MultiEdit; do
		cat <<-END
			$tool in main|{"cwd":"@W","tool_name":"$tool","tool_input":{"file_path":"@M/src/main.c"}}
			$tool in the worktree|{"cwd":"@W","tool_name":"$tool","tool_input":{"file_path":"@W/src/main.c"}}
			$tool in plans|{"cwd":"@W","tool_name":"$tool","tool_input":{"file_path":"@M/plans/a"}}
			$tool elsewhere|{"cwd":"@W","tool_name":"$tool","tool_input":{"file_path":"@O/a"}}
		END
	done
	cat <<-'END'
		a notebook in main|{"cwd":"@W","tool_name":"NotebookEdit","tool_input":{"notebook_path":"@M/a.ipynb"}}
		a notebook in the worktree|{"cwd":"@W","tool_name":"NotebookEdit","tool_input":{"notebook_path":"@W/a.ipynb"}}
		what isn't there yet|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@M/new/deep/a"}}
		a name that only begins like it|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@M-other/a"}}
		relative, in|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"src/a"}}
		relative, out|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"../src/a"}}
		through a symlink to main|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@O/back/src/a"}}
		through a symlink in the worktree|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"link/a"}}
		through a symlink and back|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@O/back/wt/a"}}
		main itself|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@M"}}
		the git directory|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@M/.git/config"}}
		reading|{"cwd":"@W","tool_name":"Read","tool_input":{"file_path":"@M/src/main.c"}}
		a shell|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"echo >@M/x"}}
		another tool|{"cwd":"@W","tool_name":"TodoWrite","tool_input":{"todos":[]}}
		no JSON|{|2|a hook that lets through what it can't read guards nothing
		nothing||2|the same
		no path|{"cwd":"@W","tool_name":"Write","tool_input":{}}|2|the same
		no object|{"cwd":"@W","tool_name":"Write","tool_input":[]}|2|the same
		a path that is none|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":7}}|2|the same
		a patch|{"cwd":"@W","turn_id":"t","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Add File: ../a\n+x\n*** End Patch"}}|2|a file tool that it didn't know
		a server's tool|{"cwd":"@W","tool_name":"mcp__fs__write_file","tool_input":{"path":"@M/a"}}|2|the same
		a removal|{"cwd":"@W","tool_name":"Delete","tool_input":{"path":"@M/README.md"}}|2|the same
		a path from home|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"~/../main/src/a"}}|2|some harnesses take the ~ for what it means in a shell
	END
}

policy_rows() {
	cat <<-'END'
		writing in the worktree|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@W/a"}}
		writing in main|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"@M/a"}}
		writing beside it|{"cwd":"@W","tool_name":"Edit","tool_input":{"file_path":"@O/a"}}
		writing where the system is|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"/usr/a"}}
		writing elsewhere|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"/etc/a"}}
		through a symlink|{"cwd":"@W","tool_name":"Write","tool_input":{"file_path":"link/a"}}
		reading where the system is|{"cwd":"@W","tool_name":"Read","tool_input":{"file_path":"/usr/bin/env"}}
		reading elsewhere|{"cwd":"@W","tool_name":"Read","tool_input":{"file_path":"/etc/passwd"}}
		reading main|{"cwd":"@W","tool_name":"Read","tool_input":{"file_path":"@M/README.md"}}
		a plain command|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"make -j2"}}
		an absolute path, in|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat @W/README.md"}}
		an absolute path, out|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat @M/README.md"}}
		a redirection, out|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"echo x >@M/x"}}
		the system's|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"/usr/bin/env true >/dev/null"}}
		.., in|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat src/../README.md"}}
		.., out|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat ../README.md"}}
		~|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat ~/x"}}
		$HOME|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat $HOME/x"}}
		${HOME}|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat ${HOME}/x"}}
		a bare cd|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cd"}}
		a bare cd after another|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"ls; cd"}}
		cd -|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cd - && ls"}}
		cd into it|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cd src && ls"}}
		cd out|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cd .. && ls"}}
		no JSON|{
		nothing|
		no command|{"cwd":"@W","tool_name":"Bash","tool_input":[]}
		no path|{"cwd":"@W","tool_name":"Write","tool_input":{}}
		cd through a symlink|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cd link"}}|2|it looked at absolute paths and .. alone
		quotes in a path|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"cat /e''tc/passwd"}}
		a comment|{"cwd":"@W","tool_name":"Bash","tool_input":{"command":"true # see /etc/passwd"}}|0|nobody reads what a comment names
	END
}

# The generator: an entry for the guard, and with --os-sandbox a block.
settings() {
	local file=$W/.claude/settings.json
	mkdir "$W/.claude"
	python3 - "$file" <<-'END'
		import json, os, sys
		M, W = os.environ["M"], os.environ["W"]
		json.dump({"hooks": {"PreToolUse": [{
		    "matcher": "Edit|Write|MultiEdit|NotebookEdit",
		    "hooks": [{"type": "command", "command":
		        "claude-worktree-write-guard.py --deny %s --allow %s" % (M, W)}]}]},
		    "sandbox": {"enabled": True, "filesystem": {"denyWrite": [M],
		        "allowWrite": [W]}, "network": {"allowedDomains": ["a.invalid"]}}},
		    open(sys.argv[1], "w"))
	END
	t_status 0 "generator: same options" "$T_MOUNTCTL" settings claude \
		--worktree "$W" --main "$M" --allow "$M/plans" --os-sandbox \
		--allow-domain a.invalid
	t_is "generator: same tools, and more" "$(python3 - "$file" <<-'END'
		import json, re, sys
		x = json.load(open(sys.argv[1]))
		for tool in ("Edit", "Write", "MultiEdit", "NotebookEdit"):
		    assert re.search(x["hooks"]["PreToolUse"][1]["matcher"], tool)
		f = x["sandbox"]["filesystem"]
		print(len(x["hooks"]["PreToolUse"]), x["sandbox"]["enabled"],
		    x["sandbox"]["network"]["allowedDomains"], len(f["allowWrite"]))
	END
	)" "2 True ['a.invalid'] 4"
	t_unlike "generator: main isn't denied: a denial wins, and took the worktree" \
		"$(python3 -c 'import json, sys
print(*json.load(open(sys.argv[1]))["sandbox"]["filesystem"]["denyWrite"],
sep="\n")' "$file")" "^$M\$"
	rm -r "$W/.claude"
}

# The probe: enforced or none, and what the wrapper then reaches.
probe() {
	local tier
	t_run "$T_MOUNTCTL" doctor --json
	tier=$(python3 -c 'import json, sys
print(json.load(sys.stdin)["tier"])' <<<"$T_STDOUT")
	t_like "probe: a tier" "$tier" '^(enforced|view|none)$'
	VINTA_SANDBOX_TIER_FILE=$T_SCRATCH/tier "$T_MOUNTCTL" sandbox-run \
		--deny "$M" --allow "$W" -- true 2>/dev/null
	t_is "probe: it is what the wrapper reaches" \
		"$(cat "$T_SCRATCH/tier")" "${tier/view/none}"
}

printf '{"allowedRoots":["%s"],"deniedRoots":["%s"],"systemPrefixes":%s}' \
	"$W" "$T_SCRATCH" '["/usr","/bin","/dev"]' >"$T_SCRATCH/policy.json"
cd / || exit 1
guard_rows >"$T_SCRATCH/rows"
rows guard --deny "$M" --allow "$W" "$M/plans" <"$T_SCRATCH/rows"
policy_rows >"$T_SCRATCH/rows"
rows policy --policy "$T_SCRATCH/policy.json" <"$T_SCRATCH/rows"
settings
probe
t_done

#!/bin/bash
# timeout: 1800
# `mountctl teardown` and `mountctl status --stray`: what has changed in main,
# what work there is in the worktree, and removing it, whatever is left of the
# session by then and wherever it was broken off before.
# shellcheck disable=SC2016 # what is quoted is expanded elsewhere
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 fusermount3
t_user_make || exit 1
python=$(python3 -c 'import sys; print(sys.executable)')

ok() {
	t_ok "$who: $1" "${@:2}"
}

fails() {
	t_status "$1" "$who: $2" "${@:3}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

like() {
	t_like "$who: $1" "$2" "$3"
}

# A value from JSON on standard input: a Python expression about x.
json() {
	"$python" -c 'import json, sys
x = json.load(sys.stdin)
print(eval("(" + sys.argv[1] + "\n)"))' "$1"
}

g() {
	s_as git -C "$@"
}

# A repository and its worktree W, made anew; what there was is removed.
fresh() {
	chmod -R u+rwX "$BASE"
	rm -rf --one-file-system "$BASE" "$STATE"
	W=$M/wt
	mkdir -p "$BASE"
	t_repo "$M" && t_worktree "$M" "$W" && s_own "$BASE"
}

# A remote that has all branches that there are.
with_remote() {
	git clone -q --bare "$M" "$BASE/origin.git"
	s_own "$BASE/origin.git"
	g "$M" remote add origin "$BASE/origin.git"
	g "$M" fetch -q origin
}

recorded() {
	test -s "$STATE/$1/baseline.json"
}

# Starts a session of tier run or view in W and waits for the recorded state.
starts() {
	local tier=$1 name=$2
	shift 2
	if [ "$tier" = run ]; then
		s_hold "$name"
	else
		(cd "$W" && s_mountctl mount -n "$name" "$@") \
			>"$BASE/view" 2>"$BASE/err" || t_diag "$(cat "$BASE/err")"
		V=$(cat "$BASE/view")
	fi
	t_wait 20 recorded "$name" || t_diag "no state is recorded of $name"
}

teardown() {
	s_mountctl teardown "$@"
}

# A point: W, its admin directory and what may be left of both are gone, B and
# what it leads to stay, and no session is left.
gone() {
	local left
	left=$(
		ls -d "$W" 2>/dev/null
		find "$(dirname "$W")" -maxdepth 1 -name '.*worktreefs-removed*'
		g "$M" worktree list --porcelain | grep -xF "worktree $W"
		ls -d "$M/.git/worktrees/wt" 2>/dev/null
		g "$M" rev-parse -q --verify refs/heads/wt >/dev/null ||
			echo "not the branch"
		t_wait 20 s_is_clear || {
			s_records
			s_processes
			s_mounts | grep -F "$T_SCRATCH"
		}
	)
	same "$1: all is gone but the branch" "$left" ""
}

# What git says on the way is replaced: WORDS make it kill who asked it, WHEN
# is before or after it has done it.
interrupting() {
	local words=$1 when=$2
	mkdir -p "$BASE/bin"
	cat >"$BASE/bin/git" <<-END
		#!/bin/sh
		case " \$* " in
		*" $words "*)
			[ $when = before ] || $(command -v git) "\$@"
			kill -KILL \$PPID
			exit 1
			;;
		esac
		exec $(command -v git) "\$@"
	END
	chmod 0755 "$BASE/bin" "$BASE/bin/git"
}

interrupted() {
	(PATH=$BASE/bin:$PATH s_as env "PATH=$BASE/bin:$PATH" \
		"$T_MOUNTCTL" teardown "$@")
}

# Stray changes, by the user and in all kinds of places.
strays() {
	local tier=$1 json
	fresh
	g "$M" branch other
	printf 'before\n' | s_as tee "$M/draft" "$M/note"$'\n'"s" >/dev/null
	printf 'one\n' | s_as tee -a "$M/src/util.c" >/dev/null
	starts "$tier" s
	json=$(s_mountctl status --stray s --json)
	same "$tier: nothing has changed yet" "$(json \
		'x["schema_version"], x["session"], x["stray"]["main"] ==
"'"$M"'", x["stray"]["unknown"], x["stray"]["late"], x["stray"]["head"],
x["stray"]["branches"], x["stray"]["files"]' <<<"$json")" \
		"(1, 's', True, None, False, None, [], [])"
	like "$tier: and it is said" "$(s_mountctl status s --stray)" \
		'^changes +none$'
	if [ "$tier" = run ]; then
		s_in s sh -c 'echo w >>README.md; git commit -qam w; echo x >x'
	else
		s_as sh -c "cd '$V' && echo w >>README.md && git commit -qam w &&
			echo x >x"
	fi
	s_as mkdir -p "$M/.vinta-ai-workflows"
	s_as touch "$M/.vinta-ai-workflows/shared"
	g "$M" worktree add -q -b sibling "$M/trees/sibling"
	g "$M/trees/sibling" commit -q --allow-empty -m sibling
	same "$tier: what belongs to sessions is no stray change" \
		"$(s_mountctl status --stray s --json | json \
			'x["stray"]["branches"], x["stray"]["files"]')" \
		"([], [])"
	printf 'after\n' | s_as tee -a "$M/draft" "$M/new"$'\n'" file" >/dev/null
	printf 'two\n' | s_as tee -a "$M/src/util.c" "$M/README.md" >/dev/null
	s_as rm "$M/note"$'\n'"s" "$M/docs/guide.txt"
	s_as chmod -x "$M/bin/start"
	g "$M" add Makefile
	printf 'x\n' | s_as tee -a "$M/Makefile" >/dev/null
	g "$M" add Makefile
	g "$M" branch made
	g "$M" branch -qD other
	g "$M" switch -q -c elsewhere
	json=$(s_mountctl status --stray s --json)
	same "$tier: files" "$(json 'sorted((f["path"],
(f["before"] or "-")[:4].rstrip(), (f["after"] or "-")[:4].rstrip())
for f in x["stray"]["files"])' <<<"$json")" "[('Makefile', '-', '1 M.'),\
 ('README.md', '-', '1 .M'), ('bin/start', '-', '1 .M'),\
 ('docs/guide.txt', '-', '1 .D'), ('draft', '?', '?'),\
 ('new\\n file', '-', '?'), ('note\\ns', '?', '-'),\
 ('src/util.c', '1 .M', '1 .M')]"
	same "$tier: branches" "$(json 'sorted((b["name"],
b["before"] is not None, b["after"] is not None)
for b in x["stray"]["branches"])' <<<"$json")" \
		"[('refs/heads/elsewhere', False, True), ('refs/heads/made',\
 False, True), ('refs/heads/other', True, False)]"
	same "$tier: HEAD" "$(json 'x["stray"]["head"]["before"]["branch"],
x["stray"]["head"]["after"]["branch"]' <<<"$json")" "('main', 'elsewhere')"
	t_run teardown s
	same "$tier: teardown without removal" "$T_STATUS" 0
	like "$tier: teardown tells it, too" "$T_STDOUT" '^  README\.md  modified$'
	like "$tier: a name is one line" "$T_STDOUT" '^  new\\x0a file  untracked$'
	like "$tier: and what was there before" "$T_STDOUT" \
		'^  draft  was untracked, has changed since$'
	like "$tier: HEAD, for people" "$T_STDOUT" \
		'^HEAD +was main at .*, is elsewhere at '
	s_clear "$tier: the session has ended"
	ok "$tier: the worktree stays" test -f "$W/x"
	same "$tier: what it left is known afterwards" \
		"$(s_mountctl status --stray s --json |
			json 'len(x["stray"]["files"])')" 8
	ok "$tier: teardown again" teardown s
	same "$tier: main is as it was left" "$(cat "$M/draft")" \
		$'before\nafter'
}

# What teardown --json has found: kind, submodule and lost of each that isn't
# like WHAT, too.
found() {
	json 'sorted(set((i["kind"], i["submodule"], i["lost"])
for i in x["unsaved"])), x["ended"], x["removed"]' <<<"$T_STDOUT"
}

# Status, whether it has ended, and who keeps it.
holders() {
	json "$T_STATUS"', x["ended"], [(h["pid"], h["command"])
for h in x["holders"]]' <<<"$T_STDOUT"
}

# Each kind of work keeps the worktree; nothing of the session is touched then.
# The rest is what json() makes of it.
unsaved() {
	local what=$1 kinds=$2 listed=$3 head=wt
	[ ! -d "$W" ] || head=$(g "$W" rev-parse HEAD)
	t_run teardown "${T:-s}" --remove-worktree --json
	same "$what: refused" "$T_STATUS" 3
	same "$what: what is found" "$(found)" "($kinds, False, False)"
	like "$what: and listed" "$(json '[i["what"] for i in x["unsaved"]]' \
		<<<"$T_STDOUT")" "$listed"
	like "$what: what to do is said" "$T_STDERR" '--force'
	ok "$what: by force" teardown "${T:-s}" --remove-worktree --force
	gone "$what"
	ok "$what: again" teardown "${T:-s}" --remove-worktree
	ok "$what: the commits are there" g "$M" cat-file -e "$head"
}

kinds() {
	local tier=$1
	fresh
	starts "$tier" s
	printf 'x\n' | s_as tee -a "$W/README.md" >/dev/null
	unsaved "$tier, changed" "[('changed', None, True)]" README.md
	ok "again, by its directory" teardown "$W" --remove-worktree
	fresh
	starts "$tier" s
	s_as touch "$W/a"$'\n'"b"
	unsaved "$tier, untracked" "[('untracked', None, True)]" 'a\\nb'
	fresh
	starts "$tier" s
	g "$W" commit -q --allow-empty -m mine
	unsaved "$tier, a commit, no remote" "[('commit', None, False)]" ' mine'
}

# A commit SUBJECT in the repository DIR, made unless it is there.
commits() {
	[ -d "$1" ] || s_as git init -q -b main "$1"
	g "$1" config user.name Tester
	g "$1" config user.email tester@example.invalid
	g "$1" commit -q --allow-empty -m "$2"
}

# W anew, with a submodule that has a commit of its own.
submodule() {
	fresh
	commits "$BASE/sub" sub
	g "$W" -c protocol.file.allow=always submodule --quiet add \
		"$BASE/sub" "a sub"
	g "$W" commit -q -m "a submodule"
	g "$M" merge -q --ff-only wt
	commits "$W/a sub" deep
}

# The same without a session in the way.
more_kinds() {
	local T
	fresh
	T=$W
	printf 'x\n' | s_as tee -a "$W/README.md" >/dev/null
	g "$W" add README.md
	unsaved "staged" "[('changed', None, True)]" README.md

	fresh
	g "$W" commit -q --allow-empty -m mine
	g "$M" merge -q --ff-only wt
	ok "a commit that another branch has: removed" \
		teardown "$W" --remove-worktree
	gone "a commit that another branch has"

	fresh
	with_remote
	ok "nothing that isn't on the remote: removed" \
		teardown "$W" --remove-worktree
	gone "nothing that isn't on the remote"

	fresh
	with_remote
	g "$M" commit -q --allow-empty -m "ahead of the remote"
	g "$W" merge -q --ff-only main
	ok "what main has itself: removed" teardown "$W" --remove-worktree
	gone "what main has itself"

	fresh
	with_remote
	g "$W" commit -q --allow-empty -m unpushed
	g "$M" branch also wt
	unsaved "a commit that isn't pushed" "[('commit', None, False)]" \
		' unpushed'

	fresh
	with_remote
	g "$W" commit -q --allow-empty -m pushed
	g "$W" push -q origin wt
	ok "pushed: removed" teardown "$W" --remove-worktree
	gone "pushed"

	fresh
	g "$W" checkout -q --detach
	g "$W" commit -q --allow-empty -m nobodys
	unsaved "a commit of no branch" "[('commit', None, True)]" ' nobodys'

	fresh
	printf 'x\n' | s_as tee -a "$W/README.md" >/dev/null
	g "$W" stash -q
	printf 'x\n' | s_as tee -a "$M/README.md" >/dev/null
	g "$M" stash -q
	unsaved "stashed" "[('stash', None, False)]" "^\['WIP on wt: [^']*'\]$"
	same "the stash is kept" "$(g "$M" stash list | wc -l)" 2

	fresh
	g "$W" commit -q --allow-empty -m mine
	g "$M" merge -q --ff-only wt
	g "$W" rev-parse HEAD | s_as tee "$M/.git/worktrees/wt/MERGE_HEAD" \
		>/dev/null
	unsaved "a merge under way" "[('operation', None, True)]" "'merge'"

	fresh
	s_as rm "$W/.git"
	s_as touch "$W/untracked"
	t_run teardown "$W" --remove-worktree
	same "its .git is missing: refused all the same" "$T_STATUS" 3
	ok "its .git is missing: by force" teardown "$W" --remove-worktree --force
	gone "its .git is missing"

	submodule
	unsaved "a submodule" \
		"[('changed', None, True), ('commit', 'a sub', True)]" ' deep'

	fresh
	s_as git init -q -b main "$BASE/clean"
	g "$BASE/clean" -c user.name=T -c user.email=t@example.invalid commit \
		-q --allow-empty -m sub
	g "$W" -c protocol.file.allow=always submodule --quiet add \
		"$BASE/clean" sub
	g "$W" commit -q -m "a submodule"
	g "$M" branch also wt
	ok "a clean submodule: removed" teardown "$W" --remove-worktree
	gone "a clean submodule"

	submodule
	g "$W" submodule --quiet deinit -f "a sub"
	unsaved "a submodule that isn't checked out any more" \
		"[('commit', 'a sub', True)]" "^\['[0-9a-f]* deep'\]$"

	submodule
	commits "$BASE/inner" inner
	g "$W/a sub" -c protocol.file.allow=always submodule --quiet add \
		"$BASE/inner" in/ner
	g "$W/a sub" commit -q -m "a submodule of its own"
	commits "$W/a sub/in/ner" deeper
	g "$W/a sub" push -q origin HEAD:refs/heads/pushed
	s_as rm -rf "$W"
	unsaved "a submodule's, with the worktree gone" \
		"[('commit', 'a sub/in/ner', True)]" "^\['[0-9a-f]* deeper'\]$"

	submodule
	g "$W/a sub" push -q origin HEAD:refs/heads/pushed
	s_as git init -q --bare "$M/.git/worktrees/wt/modules/never/cloned"
	s_as rm -rf "$W"
	ok "a clean submodule, with the worktree gone: removed" teardown "$W" \
		--remove-worktree
	gone "a clean submodule, with the worktree gone"
}

# What stays, by force or not.
stays() {
	local other
	fresh
	g "$M" worktree lock --reason "on a stick" "$W"
	fails 1 "locked by the user" teardown "$W" --remove-worktree --force
	like "locked: the reason is told" "$T_STDERR" 'locked: on a stick'
	ok "locked: it stays" test -f "$W/README.md"
	starts run s
	fails 1 "locked, with a session" teardown s --remove-worktree --force
	same "locked, with a session: it lives" "$(s_mountctl list --json |
		json '[s["state"] for s in x["sessions"]]')" "['live']"
	ok "locked: without removal it ends" teardown s
	like "locked: and is locked as it was" \
		"$(g "$M" worktree list --porcelain)" '^locked on a stick$'
	s_clear "locked: the session has ended"

	fresh
	other=$W/inner
	t_worktree "$M" "$other" && s_own "$BASE"
	printf '/inner\n' | s_as tee -a "$M/.git/info/exclude" >/dev/null
	fails 1 "another worktree lies in it" teardown "$W" --remove-worktree \
		--force
	ok "another worktree: it stays" test -f "$other/README.md"
	ok "the inner one can go" teardown "$other" --remove-worktree
	ok "then the outer one, too" teardown "$W" --remove-worktree
	gone "the outer one"

	fresh
	fails 2 "main itself" teardown "$M" --remove-worktree --force
	fails 2 "a directory of a worktree's" teardown "$W/src" --remove-worktree
	ok "what is nothing" teardown "$BASE/nothing" --remove-worktree
	ok "what is no session" teardown nothing --remove-worktree --json
	fails 2 "nothing at all" teardown
	fails 2 "force for nothing" teardown "$W" --force
	ok "a worktree that never had a session" teardown "$W"
	ok "it stays where nobody asked" test -f "$W/README.md"

	s_as rm -rf "$W"
	s_as git clone -q "$M" "$W"
	fails 2 "something else stands there" teardown "$W" --remove-worktree \
		--force
	ok "something else: it stays" test -d "$W/.git"

	fresh
	starts run s
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -n second -- sleep 300) &
	other=$!
	t_defer s_end "$other"
	t_wait 20 recorded second
	fails 1 "two sessions in it" teardown s --remove-worktree
	like "two sessions: the other is named" "$T_STDERR" "'second'"
	fails 2 "two sessions: which is meant?" teardown "$W"
	ok "two sessions: one ends" teardown s
	same "two sessions: the other lives" "$(s_mountctl list --json |
		json '[s["session"] for s in x["sessions"]]')" "['second']"
	ok "the last one, and the worktree" teardown second --remove-worktree
	gone "two sessions"

	if [ "$(id -u)" -eq 0 ]; then
		fresh
		mkdir "$W/ignored.o" "$BASE/precious"
		touch "$BASE/precious/file"
		mount --bind "$BASE/precious" "$W/ignored.o"
		fails 1 "something is mounted in it" teardown "$W" \
			--remove-worktree --force
		ok "mounted: it is whole" test -f "$BASE/precious/file"
		umount "$W/ignored.o"
		ok "mounted no more" teardown "$W" --remove-worktree
	fi
}

# Who uses a view is named; the worktree stays while they do.
in_use() {
	local holder
	fresh
	starts view s
	(exec "${as[@]}" sh -c "cd '$V' && exec sleep 300" >/dev/null 2>&1) &
	holder=$!
	t_defer s_end "$holder"
	t_wait 10 s_uses "$holder"
	fails 1 "in use" teardown s --remove-worktree --timeout 0.1
	like "in use: by whom" "$T_STDERR" "^  $holder  sleep 300  \($V\)$"
	like "in use: what ends it all the same" "$T_STDERR" \
		"'mountctl teardown --lazy s'"
	like "in use: the worktree stays" "$T_STDERR" "'$W' stays"
	ok "in use: it does" test -f "$W/README.md"
	t_run teardown s --timeout 0.1 --json
	same "in use, for programs" "$(holders)" \
		"(1, False, [($holder, 'sleep 300')])"
	s_end "$holder"
	t_run teardown s --remove-worktree --timeout 20 --json
	same "in use no more" "$(holders)" "(0, True, [])"
	gone "in use no more"

	fresh
	starts view s
	(exec "${as[@]}" sh -c "cd '$V' && exec sleep 300" >/dev/null 2>&1) &
	holder=$!
	t_defer s_end "$holder"
	t_wait 10 s_uses "$holder"
	ok "in use, lazily" teardown s --lazy
	s_end "$holder"
	t_wait 20 s_is_clear
	ok "in use, lazily: then the worktree" teardown s --remove-worktree
	gone "in use, lazily"

	fresh
	s_hold s
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -n s -- sh -c \
		'trap "" TERM; echo >ready; while :; do sleep 1; done') &
	holder=$!
	t_defer kill -KILL "$holder"
	t_wait 10 test -e "$W/ready"
	s_as rm "$W/ready"
	fails 1 "behind run, who doesn't listen" teardown s --remove-worktree \
		--timeout 0.3
	like "behind run: by whom" "$T_STDERR" "^  $holder  sh -c trap"
	t_run teardown s --timeout 0.3 --json
	like "behind run, for programs" "$(holders)" \
		"^\(1, False, \[\($holder, 'sh -c trap"
	kill -KILL "$holder"
	ok "behind run: gone" teardown s --remove-worktree --timeout 20
	gone "behind run"
}

s_uses() {
	[ "$(readlink "/proc/$1/cwd")" = "$V" ]
}

kills_server() {
	local pid
	pid=$(s_server s)
	kill -KILL "$pid"
	t_wait 10 s_is_dead "$pid"
}

# Whatever is missing.
remains() {
	local tier=$1 dir
	fresh
	starts "$tier" s
	kills_server
	printf 'x\n' | s_as tee "$M/stray" >/dev/null
	t_run teardown s --remove-worktree --json
	same "$tier, killed" "$T_STATUS" 0
	same "$tier, killed: what has changed is known" "$(json \
		'[f["path"] for f in x["stray"]["files"]]' \
		<<<"$T_STDOUT")" "['stray']"
	gone "$tier, killed"

	fresh
	starts "$tier" s
	s_as rm -rf "$W" 2>/dev/null
	ok "$tier, without its worktree" teardown s --remove-worktree
	gone "$tier, without its worktree"

	fresh
	starts "$tier" s
	g "$W" commit -q --allow-empty -m mine
	s_as rm -rf "$W" 2>/dev/null
	fails 3 "$tier, without it, but with commits" \
		teardown s --remove-worktree
	ok "$tier, without it, by force" teardown s --remove-worktree \
		--force
	gone "$tier, without it, by force"

	fresh
	starts "$tier" s
	kills_server
	s_as rm -f "$RUN/s/session.json"
	ok "$tier, killed, without a record" teardown s --remove-worktree
	gone "$tier, killed, without a record"

	fresh
	starts "$tier" s
	s_end "$s_holder"
	[ "$tier" = run ] || s_mountctl unmount s
	t_wait 20 s_is_clear
	g "$W" commit -q --allow-empty -m mine
	t_run teardown s --remove-worktree
	same "$tier, ended long ago" "$T_STATUS" 3
	like "$tier, ended long ago: main is looked at" "$T_STDOUT" \
		'^changes +none$'
	ok "$tier, ended long ago, by force" teardown s \
		--remove-worktree --force
	gone "$tier, ended long ago"

	[ "$tier" = view ] || return 0
	fresh
	starts view s
	s_as rm "$RUN/s/session.json"
	ok "only the mount is left" teardown s --remove-worktree
	gone "only the mount is left"

	for dir in s "$BASE/at" "$W"; do
		fresh
		s_as mkdir "$BASE/at"
		starts view s --at "$BASE/at"
		s_as rm -r "$RUN/s"
		ok "only a mount elsewhere is left: ${dir#"$BASE"/}" \
			teardown "${dir#"$RUN"/}" --remove-worktree
		gone "only a mount elsewhere is left: ${dir#"$BASE"/}"
	done

	fresh
	starts view s
	s_as rm -rf "$STATE"
	t_run teardown s --remove-worktree --json
	same "without the recorded state" "$T_STATUS" 0
	same "it is said that nothing is known" "$(json \
		'x["stray"]["unknown"]' <<<"$T_STDOUT")" \
		"its state wasn't recorded"
	gone "without the recorded state"

	fresh
	starts view s
	s_as rm -rf "$M"
	ok "without the repository" teardown s --remove-worktree
	s_clear "without the repository: nothing is left"
}

# Does the kernel tell which view a descriptor of /dev/fuse serves?
tells_views() {
	cat "/proc/$1/fdinfo/"* 2>/dev/null | grep -q '^fuse_connection:'
}

# A session whose record was removed, or that lost its runtime directory, while
# it lived: MISSING is what is removed.
orphans() {
	local missing=$1 operand=$2 server holder what
	what="without ${missing#"$RUN"/}, by ${operand#"$BASE"/}"
	fresh
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -n s -- sh -c \
		'trap "" TERM; echo >ready; while :; do sleep 1; done') &
	holder=$!
	t_defer kill -KILL "$holder"
	t_wait 10 test -e "$W/ready"
	t_wait 20 recorded s
	s_as rm "$W/ready"
	server=$(s_server s)
	# One that is about to start has no record either.
	[ "$missing" != "$RUN/s/session.json" ] || sleep 3
	s_as rm -r "$missing"
	[ "$operand" != "$W" ] || [ "${3:-}" = recorded ] || s_as rm -r "$STATE"
	t_run teardown "$operand" --remove-worktree --timeout 0.3 --json
	same "$what: it isn't ended" "$(json \
		"$T_STATUS"', x["session"], x["ended"], x["removed"]' \
		<<<"$T_STDOUT")" "(1, 's', False, False)"
	like "$what: what ends it" "$T_STDERR" "'mountctl teardown --lazy s'"
	if tells_views "$server"; then
		like "$what: by whom" "$T_STDERR" "^  $holder  sh -c trap"
		like "$what: by whom, for programs" "$(holders)" \
			"\($holder, 'sh -c trap"
	else
		like "$what: that it can't be told" "$T_STDERR" \
			"can't be looked at"
	fi
	ok "$what: it lives" kill -0 "$holder" "$server"
	ok "$what: lazily" teardown "$operand" --lazy --remove-worktree
	t_wait 10 s_is_dead "$server"
	ok "$what: its process is left alone" kill -0 "$holder"
	kill -KILL "$holder"
	gone "$what"
}

# The same where it is asked to end, and does.
orphans_end() {
	local first
	fresh
	s_hold s
	t_wait 20 recorded s
	s_as rm -r "$RUN/s"
	if tells_views "$(s_processes | head -n 1)"; then
		ok "asked to end, without a record" teardown s \
			--remove-worktree
	else
		s_end "$s_holder"
		ok "ended, without a record" teardown s --remove-worktree
	fi
	gone "asked to end, without a record"

	# Not even what it was about is known any more.
	fresh
	s_as mkdir "$BASE/at"
	starts view s --at "$BASE/at"
	s_as rm -r "$RUN/s" "$STATE"
	if tells_views "$(s_processes | head -n 1)"; then
		(exec "${as[@]}" sh -c "cd '$V' && exec sleep 300") &
		s_holder=$!
		t_defer s_end "$s_holder"
		t_wait 10 s_uses "$s_holder"
		fails 1 "a view by its worktree alone, in use" teardown "$W" \
			--remove-worktree --timeout 0.1
		like "a view by its worktree alone: by whom" "$T_STDERR" \
			"^  $s_holder  sleep 300  \($V\)$"
		s_end "$s_holder"
		ok "a view by its worktree alone" teardown "$W" \
			--remove-worktree
	else
		s_mountctl unmount "$BASE/at"
		ok "a view by itself, then the worktree" teardown "$W" \
			--remove-worktree
	fi
	gone "a view by its worktree alone"

	# A session of the same name has its own.
	fresh
	s_hold s
	t_wait 20 recorded s
	fails 1 "another runtime directory's" s_as env \
		XDG_RUNTIME_DIR="$BASE" "$T_MOUNTCTL" teardown s \
		--remove-worktree
	like "another runtime directory's: who has it" "$T_STDERR" \
		"works in '$W'.* $(s_server s)"
	fails 1 "another runtime directory's, to be ended only" s_as env \
		XDG_RUNTIME_DIR="$BASE" "$T_MOUNTCTL" teardown s
	same "another runtime directory's: that isn't claimed" "$T_STDOUT" \
		"$(grep -v '^ended' <<<"$T_STDOUT")"
	ok "another runtime directory's: it lives still" kill -0 "$s_holder"
	first=$s_holder
	s_hold t
	s_end "$s_holder"
	ok "with another session in the same worktree" teardown t
	s_holder=$first
	s_release
}

# Broken off, and begun again.
breaks() {
	local words when step tier=$1
	for step in "status before" "status after" \
		"worktree@remove before" "worktree@remove after" \
		"for-each-ref before"; do
		words=${step% *}
		when=${step#* }
		fresh
		starts "$tier" s
		s_as touch "$W/of no value"
		interrupting "${words//@/ }" "$when"
		fails 137 "$tier, broken off: $step" \
			interrupted s --remove-worktree --force
		ok "$tier, again: $step" teardown s --remove-worktree \
			--force
		gone "$tier, broken off: $step"
	done
	[ "$tier" = run ] || return 0
	for step in before after; do
		fresh
		interrupting "worktree remove" "$step"
		fails 137 "without a session, broken off $step" \
			interrupted "$W" --remove-worktree
		ok "without a session, again, $step" teardown "$W" \
			--remove-worktree
		gone "without a session, broken off $step"
	done

	fresh
	starts run s
	interrupting "worktree remove" before
	fails 137 "broken off" interrupted s --remove-worktree
	s_as rm "$M/.git/worktrees/wt/gitdir"
	ok "what git was interrupted at itself" teardown s --remove-worktree
	gone "what git was interrupted at itself"
}

# Names that are hard to write, and worktrees beside main.
names() {
	local tier=$1
	fresh
	s_as git -C "$M" worktree remove "$W"
	W=$BASE/$'beside\nmain and  so on'
	g "$M" worktree add -q "$W" wt
	starts "$tier" s
	s_as touch "$M/stray"$'\n'
	s_as mkdir -p "$W/node.o/closed"
	s_as touch "$W/node.o/closed/file"
	s_as chmod 0500 "$W/node.o/closed"
	s_as chmod 0 "$W/node.o"
	t_run teardown "$W" --remove-worktree --json
	same "$tier, a name: removed" "$T_STATUS" 0
	same "$tier, a name: as it is" "$(json 'x["worktree"] ==
"'"${W//$'\n'/\\n}"'", [f["path"] for f in x["stray"]["files"]]' \
		<<<"$T_STDOUT")" "(True, ['stray\\n'])"
	gone "$tier, a name"
}

everything() {
	s_be "$1"
	strays view
	kinds run
	in_use
	remains view
	orphans "$RUN/s" s
	orphans_end
	breaks view
	names run
	# What doesn't depend on who it is.
	if [ "$who" = root ] || [ "$(id -u)" -ne 0 ]; then
		strays run
		more_kinds
		stays
		remains run
		orphans "$RUN" s
		orphans "$RUN/s/session.json" s
		orphans "$RUN/s" "$W" recorded
		orphans "$RUN/s" "$W"
		breaks run
		names view
	fi
}

for s_one in $(s_everybody); do
	everything "$s_one"
done
t_done

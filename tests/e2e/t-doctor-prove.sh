#!/bin/bash
# `mountctl doctor --prove`: what it tries and says; that it doesn't say
# enforced where a step fails; that nothing is left of it, whenever it ends; and
# that nothing of the caller's set-up has a say.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need cc git python3 unshare setpriv
t_user_make || exit 1

cc -std=gnu11 -D_GNU_SOURCE -o "$T_SCRATCH/without-userns" \
	"$T_SRC/tests/support/without-userns.c" || exit 1
without=()
real_git=$(type -P git)
s_limit=240

changes="chmod create exchange link mkdir mmap rename setxattr symlink"
changes+=" truncate unlink utimens write"

doctor() {
	(cd "$BASE" && s_as "${without[@]}" env TMPDIR="$BASE/tmp" \
		"$T_MOUNTCTL" doctor "$@")
}

# STATUS NAME: proves, and keeps the answer: its members, and a line "STATUS
# KIND NAME DETAIL" a step.
proves() {
	t_status "$1" "$who: $2: it ends with $1" doctor --prove --json
	python3 -c '
import json, sys
d = json.load(sys.stdin)
for kind in "run", "mount":
    for step in d["proof"][kind] if d["proof"] else []:
        print(step["status"], kind, step["name"], step["detail"])
print("tier", d["tier"])
print("mount", d["mount"])
print("proved", d["proved"])
for check in d["checks"]:
    print("check", check["name"], check["status"], check["detail"])
' <<<"$T_STDOUT" >"$T_SCRATCH/answer"
	t_is "$who: $2: no directory is left" "$(ls "$BASE/tmp")" ""
	s_clear "$2: nothing else is left"
}

answer() {
	grep -E "$1" "$T_SCRATCH/answer"
}

# KIND: that it has been tried, all of it, and well.
all_is_well() {
	local name
	t_is "$who: $1: no step fails" "$(answer "^fail $1 ")" ""
	t_is "$who: $1: all changes are refused" \
		"$(answer "^ok $1 .*refused in main with EROFS, made in" |
			cut -d' ' -f3 | sort | xargs)" "$changes"
	for name in commit hook config branch record main end; do
		t_like "$who: $1: $name" "$(answer "^ok $1 $name ")" .
	done
	t_is "$who: $1: the commit was made, and is there" \
		"$(answer "^ok $1 commit " | wc -l)" 2
}

check_proof() {
	local text
	proves 0 "a proof"
	t_is "$who: the tier is enforced" "$(answer '^tier ')" "tier enforced"
	t_is "$who: and proved" "$(answer '^proved ')" "proved True"
	all_is_well run
	t_like "$who: run: the worktree is native" \
		"$(answer '^ok run native ')" 'real directory'
	if [ "$(answer '^mount ')" = "mount view" ]; then
		all_is_well mount
	else
		t_skip "$who: mount" "it can't be had here"
	fi
	text=$(doctor --prove)
	t_like "$who: people see each step" "$text" \
		'^ok +run +write +refused in main with EROFS'
	t_like "$who: people see that it is proved" "$text" \
		'^run +enforced, proved$'
	t_like "$who: or that it isn't" "$(doctor)" \
		'^run +enforced, not proved.*--prove'
}

# Where it can't be had

check_lacking() {
	without=(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces &&
		exec setpriv --bounding-set=-sys_admin "$@"' -)
	proves 1 "no namespaces"
	t_is "$who: no namespaces: no tier" "$(answer '^(tier|proved) ' |
		xargs)" "tier none proved False"
	t_is "$who: no namespaces: nothing is tried" \
		"$(answer '^(ok|fail) ')" ""
	without=(env WORKTREEFS_BIN="$(type -P false)")
	proves 1 "a filesystem that ends at once"
	t_is "$who: a filesystem that ends: no tier" "$(answer \
		'^(tier|mount|proved) ' | xargs)" \
		"tier none mount none proved False"
	t_like "$who: a filesystem that ends: it is said" \
		"$(answer '^fail run ')" '^fail run session .*filesystem process'
	if [ "$who" = root ]; then
		without=("$T_SCRATCH/without-userns")
		proves 0 "root alone"
		all_is_well run
	fi
	without=()
}

# A git of ours, which does something of its own for one command: $1 are words
# that its arguments hold, then shell commands follow.
fake_git() {
	local words=$1
	mkdir -p "$BASE/bin"
	cat >"$BASE/bin/git" <<-END
		#!/bin/sh
		case " \$* " in
		*" $words "*) $2 ;;
		esac
		exec $real_git "\$@"
	END
	chmod 0755 "$BASE/bin/git"
	without=(env PATH="$BASE/bin:$PATH")
}

check_failures() {
	fake_git "commit -q -m" 'exit 7'
	proves 1 "a commit that fails"
	t_like "$who: a commit that fails is told" "$(answer '^fail run ')" \
		"^fail run commit git can't commit.*7"
	t_is "$who: a commit that fails: no tier" "$(answer '^tier ')" \
		"tier none"
	fake_git "config core.hooksPath" 'exit 0'
	proves 1 "a config that can be set"
	t_like "$who: a config that can be set is told" \
		"$(answer '^fail run ')" '^fail run config '
	# The view of mount doesn't hide the real main checkout.
	fake_git "update-ref refs/heads/main" "
		for file in $BASE/tmp/worktreefs-doctor-*/main/file; do
			case \"\$*\" in
			*/view/*) echo more >>\$file ;;
			esac
		done"
	if [ "$(doctor --json | grep -c '"mount":.*view')" = 1 ]; then
		proves 0 "a main checkout that changes"
		t_like "$who: a change of main is told" \
			"$(answer '^fail mount ')" '^fail mount main .*CHANGED'
		t_is "$who: it proves that tier no more, and the other" \
			"$(answer '^(tier|mount) ' | xargs)" \
			"tier enforced mount none"
	fi
	without=()
}

check_surroundings() {
	local home=$HOME
	[ "$who" = root ] || home=$T_USER_HOME
	cat >"$home/.gitconfig.hostile" <<-END
		[commit]
			gpgSign = true
		[core]
			hooksPath = $BASE/hooks
		[init]
			templateDir = $BASE/template
		[safe]
			directory = *
	END
	[ ! -e "$home/.gitconfig" ] || cp "$home/.gitconfig" "$BASE/gitconfig"
	cp "$home/.gitconfig.hostile" "$home/.gitconfig"
	s_own "$home/.gitconfig"
	without=(env GIT_DIR="$BASE/nowhere" GIT_WORK_TREE=/ GIT_CONFIG_COUNT=1
		GIT_CONFIG_KEY_0=core.bare GIT_CONFIG_VALUE_0=true
		WORKTREEFS_FALLBACK=none WORKTREEFS_TIER_FILE="$BASE/tier")
	proves 0 "a set-up that would be in the way"
	t_is "$who: no tier file is written" "$(ls "$BASE" | grep tier)" ""
	without=()
	rm "$home/.gitconfig"
	[ ! -e "$BASE/gitconfig" ] || mv "$BASE/gitconfig" "$home/.gitconfig"
	without=("$T_MOUNTCTL" run -n around --main "$M" --worktree "$W" --)
	proves 0 "inside a session"
	without=()
}

# Ended in the middle. The git of the session waits for us.

# SIGNAL: starts a proof, and sends that once it is in the middle.
interrupt() {
	rm -f "$BASE/middle" "$BASE/go"
	fake_git "commit -q -m" "
		>$BASE/middle
		until [ -e $BASE/go ]; do sleep 0.1; done"
	(cd "$BASE" && exec "${as[@]}" "${without[@]}" env \
		TMPDIR="$BASE/tmp" "$T_MOUNTCTL" doctor --prove \
		>"$BASE/output" 2>&1) &
	local doctor=$!
	t_wait 120 test -e "$BASE/middle" ||
		t_fail "$who: $1: it gets to the middle"
	kill -s "$1" "$doctor"
	wait "$doctor" 2>/dev/null
	T_STATUS=$?
	without=()
}

check_interrupted() {
	interrupt TERM
	t_is "$who: SIGTERM ends it" "$T_STATUS" 143
	t_is "$who: SIGTERM: no directory is left" "$(ls "$BASE/tmp")" ""
	t_is "$who: SIGTERM: no tier is said" \
		"$(grep -c '^run .*enforced' "$BASE/output")" 0
	s_clear "SIGTERM: nothing else is left"
	: >"$BASE/go"

	interrupt KILL
	t_is "$who: SIGKILL ends it" "$T_STATUS" 137
	t_like "$who: SIGKILL: the directory tells whose it is" \
		"$(ls "$BASE/tmp")" "^worktreefs-doctor-$(s_as id -u)-"
	: >"$BASE/go"
	proves 0 "the next one clears it away"
}

# What another one has in use, or isn't ours, stays.
check_foreign() {
	local mine
	mine=$BASE/tmp/worktreefs-doctor-$(s_as id -u)-
	mkdir "${mine}used0" "${mine}left0"
	: >"${mine}file0"
	s_own "${mine}used0" "${mine}left0"
	s_hold outside --main "$M" --worktree "$W"
	exec 8<"${mine}used0"
	flock 8
	doctor --prove >/dev/null 8<&-
	t_is "$who: what is in use, and what is no directory, stays" \
		"$(ls "$BASE/tmp" | sed "s/.*-//" | xargs)" "file0 used0"
	exec 8<&-
	t_ok "$who: a session of the user's lives on" s_in outside true
	s_release
	rm -r "$BASE/tmp" && mkdir "$BASE/tmp"
	s_own "$BASE/tmp"
}

for who in $(s_everybody); do
	s_be "$who"
	s_repository || exit 1
	mkdir "$BASE/tmp"
	s_own "$BASE/tmp" "$BASE"
	check_proof
	check_lacking
	check_failures
	check_surroundings
	check_interrupted
	check_foreign
done
t_done

#!/bin/bash
# `mountctl sandbox-run`: what its predecessor, a wrapper around bubblewrap, did
# for the same arguments and variables, and the git guard, which is new.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

# sandbox ARG... -- COMMAND: from W
sandbox() {
	(cd "$W" && s_mountctl sandbox-run "$@")
}

# With a variable in its environment.
with() {
	local variable=$1
	shift
	(as+=(env "$variable") && cd "$W" && s_mountctl sandbox-run "$@")
}

# The arguments of most tests
lists() {
	list=(--deny "$M" --allow "$W" --allow "$M/shared" --)
}

arguments() {
	t_status 2 "$who: no command" sandbox --deny "$M"
	t_like "$who: is told" "$T_STDERR" "COMMAND after '--' is missing"
	t_is "$who: in one line" "$(wc -l <<<"$T_STDERR")" 1
	t_status 2 "$who: nothing denied" sandbox --allow "$W" -- true
	t_status 2 "$who: an empty path" sandbox --deny "" -- true
	t_status 2 "$who: an unknown option" sandbox --bogus -- true
	t_status 2 "$who: a word before any list" sandbox x --deny "$M" -- true
	t_status 2 "$who: the root directory" sandbox --deny / -- true
	t_status 0 "$who: several paths after one option" \
		sandbox --deny "$M" "$BASE/other" --allow "$W" "$M/shared" -- \
		touch "$M/shared/x"
	t_errno EROFS "$who: are all denied" \
		sandbox --deny "$M" "$BASE/other" --allow "$W" -- \
		touch "$BASE/other/x"
	t_status 7 "$who: the command's own status" \
		sandbox "${list[@]}" sh -c 'exit 7'
	t_status 127 "$who: a command that isn't there" \
		sandbox "${list[@]}" "$BASE/nothing"
	t_is "$who: words stay words" \
		"$(sandbox "${list[@]}" printf '%s|' 'a b' --deny '*')" \
		'a b|--deny|*|'
}

trees() {
	t_errno EROFS "$who: the denied tree" \
		sandbox "${list[@]}" touch "$M/src/new"
	t_errno EROFS "$who: by .." sandbox "${list[@]}" touch ../new
	t_errno EROFS "$who: what is there" \
		sandbox "${list[@]}" sh -c 'echo >>"$1"' - "$M/README.md"
	t_ok "$who: can be read" sandbox "${list[@]}" cat "$M/README.md"
	t_ok "$who: an allowed tree in it" \
		sandbox "${list[@]}" touch "$M/shared/new"
	t_ok "$who: the worktree" sandbox "${list[@]}" touch "$W/new"
	t_ok "$who: what is in neither" sandbox "${list[@]}" touch "$BASE/free"
	t_ok "$who: ... is real" rm "$BASE/free" "$W/new" "$M/shared/new"

	t_ok "$who: a denied tree in an allowed one has no say" \
		sandbox --deny "$M" --deny "$W/src" --allow "$W" -- \
		touch "$W/src/new"
	t_ok "$who: nor the same as an allowed one" \
		sandbox --deny "$M" --deny "$M/shared" --allow "$M/shared" -- \
		touch "$M/shared/new"
	rm -f "$W/src/new" "$M/shared/new"
	t_errno EROFS "$who: one of two trees" \
		sandbox --deny "$M" --deny "$BASE/other" -- \
		touch "$BASE/other/new"
	t_errno EROFS "$who: the other of two trees" \
		sandbox --deny "$BASE/other" --deny "$M" -- touch "$M/new"
	t_errno EROFS "$who: through a symlink" \
		sandbox --deny "$BASE/link" -- touch "$BASE/other/new"
	t_errno EROFS "$who: a file" \
		sandbox --deny "$M/README.md" --deny "$BASE/other" -- \
		sh -c 'echo x >>"$1"' - "$M/README.md"
	t_ok "$who: and not what is beside it" \
		sandbox --deny "$M/README.md" --deny "$BASE/other" -- \
		touch "$BASE/free"
	rm -f "$BASE/free"
}

# They needn't exist.
missing() {
	t_status 0 "$who: a denied tree that isn't there" \
		sandbox --deny "$M" --deny "$BASE/none" --allow "$W" -- true
	t_like "$who: is named" "$T_STDERR" "$BASE/none.*doesn't exist"
	t_not "$who: and isn't made" test -e "$BASE/none"
	t_status 0 "$who: one that isn't there in one that is" \
		sandbox --deny "$M" --deny "$M/none" --allow "$W" -- true
	t_is "$who: is guarded" "$T_STDERR" ""
	t_errno EROFS "$who: ... from being made" \
		sandbox --deny "$M" --deny "$M/none" -- mkdir "$M/none"
	t_status 0 "$who: an allowed tree that isn't there" \
		sandbox --deny "$M" --allow "$M/later" -- \
		sh -c 'mkdir "$1" && touch "$1/x"' - "$M/later"
	rm -rf "$M/later"
	t_status 0 "$who: nothing that is there" \
		with VINTA_SANDBOX_TIER_FILE="$BASE/tier" \
		--deny "$BASE/none" -- true
	t_like "$who: is said loudly" "$T_STDERR" "NO GUARD"
	t_is "$who: and recorded" "$(cat "$BASE/tier")" none
}

tiers() {
	t_status 0 "$who: a tier file" \
		with VINTA_SANDBOX_TIER_FILE="$BASE/tier" "${list[@]}" true
	t_is "$who: gets the tier" "$(cat "$BASE/tier")" enforced
	t_is "$who: without a newline" "$(wc -c <"$BASE/tier")" 8
	t_status 0 "$who: one that can't be written" \
		with VINTA_SANDBOX_TIER_FILE="$BASE/none/tier" "${list[@]}" true
	t_like "$who: is only warned of" "$T_STDERR" "warning.*none/tier"
	t_status 0 "$who: switched off" \
		with VINTA_SANDBOX=off "${list[@]}" touch "$M/new"
	t_like "$who: is said" "$T_STDERR" "VINTA_SANDBOX=off"
	rm -f "$M/new"
	t_status 0 "$who: switched off, with a tier file" eval '
		as+=(env VINTA_SANDBOX_TIER_FILE="$BASE/tier")
		with VINTA_SANDBOX=off "${list[@]}" true'
	t_is "$who: it is none" "$(cat "$BASE/tier")" none
	t_status 0 "$who: where no guard can be had" eval '
		as+=(env VINTA_SANDBOX_TIER_FILE="$BASE/tier")
		with WORKTREEFS_BIN="$BASE/none" "${list[@]}" touch "$M/new"'
	t_like "$who: it is said loudly" "$T_STDERR" "NO GUARD"
	t_is "$who: and recorded" "$(cat "$BASE/tier")" none
	rm -f "$M/new"
}

git_guard() {
	t_ok "$who: a commit in the allowed worktree" sandbox "${list[@]}" \
		sh -c 'echo x >new && git add new && git commit -qm new'
	t_is "$who: reaches the repository" \
		"$(s_as git -C "$M" log -1 --format=%s refs/heads/wt)" new
	t_errno EROFS "$who: hooks are guarded" \
		sandbox "${list[@]}" touch "$M/.git/hooks/pre-commit"
	t_errno EROFS "$who: also where the git directory is allowed" \
		sandbox --deny "$M" --allow "$W" --allow "$M/.git" -- \
		touch "$M/.git/hooks/pre-commit"
	t_not "$who: main's branch stays" sandbox "${list[@]}" \
		git -C "$W" update-ref refs/heads/main refs/heads/wt
	t_not "$who: no commit where the git directory is denied itself" \
		sandbox --deny "$M" --deny "$M/.git" --allow "$W" -- \
		git commit -q --allow-empty -m x
	s_as git -C "$M" worktree add -q "$BASE/far"
	t_ok "$who: a commit in a worktree elsewhere" eval '
		(cd "$BASE/far" && s_mountctl sandbox-run --deny "$M" \
			--allow "$BASE/far" -- \
			git commit -q --allow-empty -m far)'
	t_ok "$who: ... that isn't even listed" eval '
		(cd "$BASE/far" && s_mountctl sandbox-run --deny "$M" -- \
			git commit -q --allow-empty -m far)'
	t_is "$who: main is clean" "$(s_as git -C "$M" status --porcelain |
		grep -vE 'wt/|shared/')" ""
}

# The same lists as mounts, in the order that lets an allowed tree win.
by_bubblewrap() {
	local -a deny=() allow=()
	local which=deny
	while [ "$1" != -- ]; do
		case $1 in
		--deny) which=deny ;;
		--allow) which=allow ;;
		*) [ "$which" = deny ] && deny+=(--ro-bind-try "$1" "$1") ||
			allow+=(--bind-try "$1" "$1") ;;
		esac
		shift
	done
	(cd "$W" && s_as bwrap --dev-bind / / "${deny[@]}" "${allow[@]}" "$@")
}

# Can it be changed? By both, for the same lists: yes or no.
both() {
	local path theirs=no ours=no
	local -a lists=()
	while [ "$1" != -- ]; do
		lists+=("$1")
		shift
	done
	shift
	for path in "$@"; do
		theirs=no ours=no
		! by_bubblewrap "${lists[@]}" -- touch "$path" 2>"$BASE/theirs" ||
			theirs=yes
		! sandbox "${lists[@]}" -- touch "$path" 2>"$BASE/ours" ||
			ours=yes
		t_is "$who: side by side: ${lists[*]//"$BASE/"/}:" \
			"${path#"$BASE/"} $ours" "${path#"$BASE/"} $theirs" ||
			t_diag "$(cat "$BASE/theirs" "$BASE/ours")"
	done
}

side_by_side() {
	if ! command -v bwrap >/dev/null ||
		! s_as bwrap --dev-bind / / true 2>/dev/null; then
		t_skip "$who: side by side with bubblewrap" "it doesn't start"
		return
	fi
	both --deny "$M" -- "$M/README.md" "$W/README.md" "$BASE/other/x" \
		"$M/.git/x"
	both --deny "$M" --allow "$W" -- "$M/README.md" "$W/README.md" \
		"$M/shared/x" "$M/../other/x"
	both --deny "$M" --allow "$W" --allow "$M/shared" -- "$M/shared/x" \
		"$M/src/x" "$W/src/x"
	both --allow "$W" --deny "$M" --deny "$W/src" -- "$W/src/x" "$M/x"
	both --deny "$M" --deny "$BASE/other" --deny "$BASE/none" -- "$M/x" \
		"$BASE/other/x" "$BASE/x"
	both --deny "$BASE" --allow "$M" -- "$BASE/x" "$M/src/x" "$BASE/other/x"
	rm -f "$M/x" "$M"/*/x "$W/src/x" "$BASE/x" "$BASE/other/x" "$M/.git/x"
}

# What is guarded already can be guarded once more, and not be opened.
nested() {
	t_errno EROFS "$who: one in another: what that denies" \
		sandbox "${list[@]}" "$T_MOUNTCTL" sandbox-run \
		--deny "$BASE/other" --allow "$M" -- touch "$M/src/new"
	t_errno EROFS "$who: one in another: what it denies itself" \
		sandbox "${list[@]}" "$T_MOUNTCTL" sandbox-run \
		--deny "$BASE/other" -- touch "$BASE/other/new"
	t_errno EROFS "$who: one in another: the same tree twice" \
		sandbox "${list[@]}" "$T_MOUNTCTL" sandbox-run "${list[@]}" \
		touch "$M/src/new"
	t_ok "$who: one in another: what both allow" \
		sandbox "${list[@]}" "$T_MOUNTCTL" sandbox-run "${list[@]}" \
		touch "$M/shared/new"
	rm -f "$M/shared/new"
}

for user in $(s_everybody); do
	s_be "$user"
	s_repository
	mkdir -p "$M/shared" "$BASE/other"
	ln -s other "$BASE/link"
	s_own "$M/shared" "$BASE/other" "$BASE"
	lists
	arguments
	trees
	missing
	tiers
	side_by_side
	nested
	git_guard
	s_clear "nothing is left"
done
t_done

#!/bin/bash
# The git guard's rules in repositories of all shapes: which names they close,
# how single ones are opened, and what is said where they can't hold.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git
t_user_make || exit 1

label=''

# In the directory $1, with run_options.
# shellcheck disable=SC2317 # called by verdicts
run_in() {
	local dir=$1
	shift
	(cd "$dir" && s_mountctl run "${run_options[@]}" -- "$@")
}

closed() {
	t_errno EROFS "$label: $1" run_in "$2" touch "$3"
}

open_to() {
	t_ok "$label: $1" run_in "$2" sh -c 'touch "$1" && rm -f "$1"' - "$3"
}

commits() {
	t_ok "$label: $1" run_in "$2" git -c user.name=T -c user.email=t \
		commit -q --allow-empty -m "$1"
	t_is "$label: $1, seen by the host" \
		"$(s_as git -C "$2" log -1 --format=%s)" "$1"
}

make_repository() {
	s_as mkdir -p "$BASE"
	s_repository || exit 1
	s_as git -C "$M" worktree add -q "$BASE/sib"
}

the_usual() {
	local G=$M/.git
	label=$who
	run_options=()
	closed "hooks" "$W" "$G/hooks/post-commit"
	closed "the main checkout's index" "$W" "$G/index.lock"
	closed "a merge in the main checkout" "$W" "$G/MERGE_HEAD"
	closed "excludes" "$W" "$G/info/exclude"
	closed "commondir" "$W" "$G/commondir"
	closed "another's git state" "$W" "$G/worktrees/sib/index.lock"
	closed "the pointers" "$W" "$G/worktrees/wt/gitdir"
	open_to "its own git state" "$W" "$G/worktrees/wt/MERGE_HEAD"
	open_to "what isn't named" "$W" "$G/lfs-like"
	commits "a commit" "$W"
	t_ok "$label: git update-server-info" \
		run_in "$W" git update-server-info
	t_like "$label: has made its list" "$(s_as cat "$G/info/refs")" \
		'refs/heads/main'
	t_ok "$label: git update-server-info, once more" \
		run_in "$W" git update-server-info --force
	t_is "$label: and leaves nothing beside it" \
		"$(cd "$G/info" && echo *)" "exclude refs"

	run_options=(--rw .git/hooks --rw .git/info)
	open_to "hooks, with --rw" "$W" "$G/hooks/post-commit"
	open_to "info, with --rw" "$W" "$G/info/attributes"
	closed "only these" "$W" "$G/MERGE_HEAD"
	run_options=(--rw .git)
	closed "hooks, with --rw .git" "$W" "$G/hooks/post-commit"
	run_options=(--git-guard=off)
	open_to "hooks, without the guard" "$W" "$G/hooks/post-commit"
	run_options=()
}

the_config() {
	label=$who
	run_options=()
	t_ok "$label: a safe key" \
		run_in "$W" git config branch.wt.description x
	t_not "$label: one that isn't" run_in "$W" git config core.pager x
	run_options=(--git-config=deny)
	t_not "$label: deny: a safe key" \
		run_in "$W" git config branch.wt.description y
	run_options=(--git-config=allow)
	t_ok "$label: allow: any key" run_in "$W" git config x.y z
	run_options=()
	t_is "$label: what the config says" \
		"$(s_as git -C "$M" config branch.wt.description)" x
}

the_status() {
	label=$who
	(cd "$W" && s_mountctl mount -n st) >/dev/null 2>&1 ||
		t_fail "$label: mount"
	t_ok "$label: status" s_mountctl status st
	t_like "$label: tells rules and reasons" "$T_STDOUT" \
		"ro +$M/.git/hooks +hooks run on the user's side \(git guard\)"
	t_ok "$label: status --yaml" s_mountctl status --yaml st
	t_unlike "$label: is about trees" "$T_STDOUT" 'hooks|MERGE'
	t_ok "$label: unmount" s_mountctl unmount st
}

worktrees_as_it_goes() {
	local dir=$BASE/trees
	label="$who, --worktrees-dir"
	s_as git -C "$M" worktree add -q "$dir/one"
	run_options=(--worktrees-dir "$dir")
	t_ok "$label: a commit in one that was there" run_in "$M" \
		git -C "$dir/one" commit -q --allow-empty -m first
	t_ok "$label: makes one and commits there" run_in "$M" sh -c '
		git worktree add -q "$1/two" &&
		git -C "$1/two" commit -q --allow-empty -m second' - "$dir"
	t_is "$label: the host sees both" \
		"$(s_as git -C "$M" log -1 --format=%s one -- && s_as git \
			-C "$M" log -1 --format=%s two --)" $'first\nsecond'
	closed "another's git state" "$M" "$M/.git/worktrees/sib/index.lock"
	closed "the main checkout's index" "$M" "$M/.git/index.lock"
	closed "hooks" "$M" "$M/.git/hooks/post-commit"
	t_ok "$label: removes both" run_in "$M" sh -c '
		git worktree remove "$1/one" && git worktree remove "$1/two"' \
		- "$dir"
	t_is "$label: which are gone" \
		"$(cd "$M/.git/worktrees" && echo *)" "sib wt"
	run_options=()
}

a_bare_repository() {
	local G=$BASE/bare.git
	label="$who, bare"
	s_as git clone -q --bare "$M" "$G"
	s_as git -C "$G" worktree add -q "$BASE/mine" -b mine
	closed "hooks" "$BASE/mine" "$G/hooks/post-commit"
	closed "commondir" "$BASE/mine" "$G/commondir"
	commits "a commit" "$BASE/mine"
}

a_separate_git_dir() {
	local G=$BASE/gd
	label="$who, --separate-git-dir"
	s_as git clone -q --separate-git-dir="$G" "$M" "$BASE/sep"
	s_as git -C "$BASE/sep" worktree add -q "$BASE/sep/wt2"
	run_options=(--main "$BASE/sep" -n sep)
	closed "hooks" "$BASE/sep/wt2" "$G/hooks/post-commit"
	closed "the main checkout" "$BASE/sep/wt2" "$BASE/sep/README.md"
	commits "a commit" "$BASE/sep/wt2"
	run_options=()
}

# Wildcards in a path stand for themselves.
an_odd_path() {
	local main="$BASE/[ab] *?/main"
	label="$who, an odd path"
	s_as git clone -q "$M" "$main"
	s_as git -C "$main" worktree add -q "$main/wt3"
	closed "a merge in the main checkout" "$main/wt3" "$main/.git/MERGE_X"
	open_to "what isn't named" "$main/wt3" "$main/.git/MERGX"
	run_options=(--root "$BASE" --worktree "$main/wt3")
	closed "the same from above" "$main/wt3" "$main/.git/MERGE_X"
	run_options=()
	t_ok "$label: git update-server-info" \
		run_in "$main/wt3" git update-server-info
	commits "a commit" "$main/wt3"
}

# Not as git makes them: the git at hand may know nothing of reftable.
what_cannot_be_held() {
	label=$who
	s_as mkdir "$M/.git/reftable"
	t_ok "$label: reftable: run" run_in "$W" true
	t_is "$label: reftable: says one line" "$(wc -l <<<"$T_STDERR")" 1
	t_like "$label: reftable: what isn't held" "$T_STDERR" \
		"warning: '$M/.git' keeps its refs as reftable"
	t_ok "$label: reftable: mount" s_as sh -c 'cd "$1" && "$2" mount' - \
		"$W" "$T_MOUNTCTL"
	t_like "$label: reftable: mount says it, too" "$T_STDERR" \
		"warning: '$M/.git' keeps its refs as reftable"
	s_mountctl unmount wt
	s_as rmdir "$M/.git/reftable"

	s_as git -C "$M" config core.bare true
	t_ok "$label: a checkout that is called bare" run_in "$W" true
	t_like "$label: is told loudly" "$T_STDERR" \
		"NO MAIN CHECKOUT IS GUARDED: '$M' looks like one"
	s_as git -C "$M" config core.bare false
	t_ok "$label: one that isn't" run_in "$W" true
	t_is "$label: is nothing to talk about" "$T_STDERR" ""
}

for actor in $(s_everybody); do
	s_be "$actor"
	make_repository
	the_usual
	the_config
	the_status
	worktrees_as_it_goes
	a_bare_repository
	a_separate_git_dir
	an_odd_path
	what_cannot_be_held
	s_clear "nothing is left"
done
t_done

#!/bin/bash
# The git guard in repositories of every shape, and the options that open or
# close it. In each the same attacks are tried, which must change nothing, and
# the same work is done, which must all succeed.
# shellcheck disable=SC2016 # scripts are expanded where they run
# shellcheck disable=SC2317 # called by way of verdicts
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

same() {
	t_is "$g_label: $1" "$2" "$3"
}

host() {
	s_as git -C "$M" "$@"
}

# A script on the host, as who acts.
by_hand() {
	g_words
	"${g_with[@]}" timeout 60 bash -e -c "cd \"\$BASE\"; $1" \
		>"$BASE.hand" 2>&1 || {
		t_fail "$g_label: a repository of this shape"
		t_diag "$(tail -5 "$BASE.hand")"
	}
}

# A script in W, behind the guard; run_options count.
inside() {
	g_words
	(cd "$W" && exec "${g_with[@]}" timeout -k 5 60 \
		"$T_MOUNTCTL" run "${run_options[@]}" -- bash -c "$1" \
		</dev/null)
}

# $B: a branch that is in use elsewhere, or empty.
attacks='
	new=$(git rev-parse wt)
	for hook in pre-commit post-commit post-checkout; do
		cp "$C" "$G/hooks/$hook"
	done
	for file in config config.worktree info/attributes commondir \
		modules/x/config branches/x remotes/x index index.lock \
		ORIG_HEAD MERGE_HEAD BISECT_START sharedindex.x shallow \
		rebase-merge/git-rebase-todo rebase-apply/next sequencer/todo \
		refs/replace/$new objects/info/alternates packed-refs HEAD \
		worktrees/sib/HEAD worktrees/sib/gitdir worktrees/sib/commondir \
		worktrees/sib/config.worktree worktrees/sib/index; do
		mkdir -p "$(dirname "$G/$file")"
		echo "$new" >"$G/held"
		mv "$G/held" "$G/$file"
		cp "$E/config" "$G/$file"
		ln -sf "$E/config" "$G/$file"
		ln -f "$G/held" "$G/$file"
		[ ! -e "$G/$file" ] || rm -f "$G/$file"
		rm -f "$G/held"
	done
	for file in gitdir commondir config.worktree; do
		cp "$E/config" "$A/$file"
	done
	for key in core.fsmonitor core.hooksPath alias.x core.worktree \
		remote.origin.uploadpack core.editor; do
		git config "$key" "$C"
		git config --worktree "$key" "$C"
	done
	git config core.bare "$(test "$(git config core.bare)" = true &&
		echo false || echo true)"
	git update-ref main-worktree/HEAD "$new"
	git symbolic-ref main-worktree/HEAD refs/heads/wt
	git update-ref worktrees/sib/HEAD "$new"
	for branch in $B sib; do
		git update-ref "refs/heads/$branch" "$new"
		git update-ref -d "refs/heads/$branch"
		mkdir -p "$G/refs/heads/$branch"
		echo "$new" >"$G/refs/heads/$branch/below"
		rm -f "$G/refs/heads/$branch/below"
		echo "$new" >"$G/refs/heads/$branch"
		echo "$new" >"$G/refs/heads/$branch.lock"
		mv "$G/refs/heads/$branch.lock" "$G/refs/heads/$branch"
		rm -f "$G/refs/heads/$branch.lock" "$G/refs/heads/$branch"
		sed "s,.* refs/heads/$branch$,$new refs/heads/$branch," \
			"$G/packed-refs" >"$G/held"
		mv "$G/held" "$G/packed-refs"
		rm -f "$G/held"
		rm -f "$G/logs/refs/heads/$branch"
	done
	rm -rf "$G/worktrees/sib"
	git worktree prune
	git stash drop -q "stash@{0}"
	echo tried'

work='
	set -e
	echo x >x; git add x; git commit -q -m x
	git commit -q --amend -m y
	git switch -q -c other; git switch -q wt; git branch -q -d other
	git tag t1; git tag -d t1
	git config branch.wt.description words
	git config --unset branch.wt.description
	echo xx >>x; git stash -q; git stash pop -q; git reset -q --hard
	git rebase -q HEAD^
	git fetch -q origin
	git push -q -u origin wt
	git pull -q
	git worktree add -q --detach "$E/tree"; git worktree remove "$E/tree"
	git pack-refs --all
	git gc -q
	git fsck --no-progress --no-dangling
	git status'

# The listing without what may change: refs may be packed, and the session's
# branch has a section in the config.
meaning() {
	g_listing | grep -vE '\./(refs|packed-refs|config$|logs[a-z/]* d)'
	git config --file "$G/config" --list | grep -v '^branch\.wt\.'
	git -C "$G" for-each-ref --format='%(objectname) %(refname)' |
		grep -vE ' refs/(heads/wt$|remotes/)'
}

# git writes some lines of reflogs otherwise when it writes them again.
spell_reflogs() {
	git -C "$G" reflog expire --expire=never --expire-unreachable=never \
		--all
	# The stash may be of the second in which a session starts.
	[ ! -e "$G/logs/refs/stash" ] ||
		touch -d "1 minute ago" "$G/logs/refs/stash"
	s_own "$G"
}

# attacked [BRANCH]: held as it should be.
attacked() {
	local before
	spell_reflogs
	B=${1:-}
	before=$(meaning)
	inside "B=$B; $attacks" >"$BASE.attacks" 2>&1
	same "attacks change nothing" \
		"$(diff <(echo "$before") <(meaning); tail -1 "$BASE.attacks")" \
		tried
}

worked() {
	local before
	spell_reflogs
	before=$(meaning)
	t_ok "$g_label: work succeeds" inside "$work"
	same "and is all that changes" \
		"$(diff <(echo "$before") <(meaning))" ""
}

user_goes_on() {
	t_ok "$g_label: the user's commands" s_as bash -e -c '
		for dir; do
			cd "$dir"
			git status >/dev/null
			git log -p -2 >/dev/null
			git diff >/dev/null
			git commit -q --allow-empty -m "by the user"
			git push -q origin HEAD
		done' - "$@"
	same "run nothing of the session's" "$(g_planted)" ""
}

is_over() {
	s_clear "nothing is left of: $g_label"
}

# A repository of the usual shape; begin LABEL.
begin() {
	g_be user "${1// /-}"
	g_label=$1
	run_options=()
	g_repository || exit 1
}

# One with nothing but a remote, whatever its shape: M, G, and W on branch wt.
begin_other() {
	g_be user "${1// /-}"
	g_label=$1
	run_options=()
	mkdir -p "$BASE"
	g_tools
	t_repo "$BASE/seed"
	s_own "$BASE"
	by_hand 'git clone -q --bare seed remote.git'
}

bare() {
	begin_other "a bare repository"
	G=$BASE/bare.git M=$BASE/bare.git W=$BASE/wt A=$G/worktrees/wt
	by_hand 'git clone -q --bare remote.git bare.git
		git -C bare.git config user.name T
		git -C bare.git config user.email t@example.invalid
		git -C bare.git worktree add -q -b wt "$W"
		git -C bare.git worktree add -q -b sib "$S"
		git -C bare.git config remote.origin.fetch \
			"+refs/heads/*:refs/remotes/origin/*"'
	attacked ""
	worked
	inside 'git update-ref refs/heads/main wt'
	same "nobody stands on main" "$(host rev-parse main)" \
		"$(host rev-parse wt)"
	user_goes_on "$W" "$S"
	is_over
}

separate() {
	begin_other "a separate git directory"
	G=$BASE/separate A=$G/worktrees/wt
	by_hand 'git clone -q --separate-git-dir="$G" remote.git "$M"
		git -C "$M" config user.name T
		git -C "$M" config user.email t@example.invalid
		git -C "$M" worktree add -q -b wt "$W"
		git -C "$M" worktree add -q -b sib "$S"
		echo /wt/ >>"$G/info/exclude"'
	run_options=(--main "$M" --worktree "$W")
	attacked main
	worked
	t_errno EROFS "$g_label: main's pointer is held" \
		inside 'echo x >"$M/.git"'
	user_goes_on "$M" "$W"
	is_over
}

# W's submodules lie in A, and are the session's.
submodule_of_worktree() {
	begin "a submodule of the worktree"
	t_ok "$g_label: is the session's own" inside '
		set -e
		git -c protocol.file.allow=always submodule --quiet update --init
		cd sub
		git config user.name T
		git config user.email t@example.invalid
		git config core.editor vi
		echo x >x; git add x; git commit -q -m x
		echo "exit 0" >"$(git rev-parse --git-path hooks)/post-commit"
		git switch -q -c work; git branch -q -f main HEAD^
		cd ..; git add sub; git commit -q -m sub'
	t_not "$g_label: main's is not" inside '
		git -C "$M/sub" commit -q --allow-empty -m x'
	attacked main
	worked
	g_goes_on ""
	is_over
}

main_is_submodule() {
	begin_other "main as a submodule"
	M=$BASE/super/sub G=$BASE/super/.git/modules/sub W=$BASE/wt
	A=$G/worktrees/wt
	by_hand 'git init -q -b main super
		cd super
		git -c protocol.file.allow=always submodule --quiet add \
			"$BASE/remote.git" sub
		cd sub
		git config user.name T
		git config user.email t@example.invalid
		git worktree add -q -b wt "$W"
		git worktree add -q -b sib "$S"'
	attacked main
	same "core.worktree is what it was" "$(host config core.worktree)" \
		../../../sub
	t_not "$g_label: extensions.worktreeConfig would move it" \
		inside 'git config extensions.worktreeConfig true'
	worked
	user_goes_on "$M" "$W"
	is_over
}

worktree_config() {
	begin "extensions.worktreeConfig"
	by_hand 'git -C "$M" config extensions.worktreeConfig true
		git -C "$M" config --worktree core.commentChar "%"
		git -C "$W" config --worktree user.name "of the worktree"'
	attacked main
	same "the worktree's own is what it was" \
		"$(cat "$A/config.worktree")" \
		"$(printf '[user]\n\tname = of the worktree')"
	worked
	t_ok "$g_label: sparse-checkout" inside '
		git sparse-checkout set src && test ! -e docs &&
			git sparse-checkout disable && test -e docs'
	same "main's part of it is held" \
		"$(host config core.commentChar)" %
	g_goes_on ""
	is_over
}

sha256() {
	begin_other "sha256"
	by_hand 'git init -q --bare --object-format=sha256 -b main sha.git
		git init -q --object-format=sha256 -b main "$M"
		cd "$M"
		git config user.name T
		git config user.email t@example.invalid
		git remote add origin "$BASE/sha.git"
		for i in 1 2 3; do echo $i >f; git add f; git commit -q -m $i; done
		git push -q origin main
		git pack-refs --all
		git tag -a -m t t0
		git worktree add -q -b wt "$W"
		git worktree add -q -b sib "$S"
		echo /wt/ >>"$G/info/exclude"'
	attacked main
	worked
	user_goes_on "$M" "$W"
	is_over
}

packed_only() {
	begin "packed refs only"
	by_hand 'git -C "$M" pack-refs --all --prune'
	t_not "$g_label: no branch is loose" \
		grep -rq . "$G/refs/heads"
	attacked main
	worked
	g_goes_on ""
	is_over
}

detached() {
	begin "a detached HEAD"
	by_hand 'git -C "$M" checkout -q --detach'
	attacked ""
	inside 'git update-ref refs/heads/main wt'
	same "its branch is free" "$(host rev-parse main)" \
		"$(host rev-parse wt)"
	same "but HEAD isn't" "$(cat "$G/HEAD")" "$(host rev-parse v1)"
	inside 'git update-ref refs/heads/main v1'
	worked
	t_ok "$g_label: the user switches back" host checkout -q main
	g_goes_on ""
	is_over
}

mid_rebase() {
	begin "amid a rebase"
	by_hand 'GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git -C "$M" rebase -q -i \
		--keep-empty HEAD~2'
	attacked main
	same "what is to be done is what it was" \
		"$(grep -c exec "$G/rebase-merge/git-rebase-todo")" 0
	worked
	t_ok "$g_label: the user continues" host rebase --continue
	same "on his branch" "$(host symbolic-ref HEAD)" refs/heads/main
	g_goes_on ""
	is_over
}

mid_others() {
	begin "amid a bisection"
	by_hand 'git -C "$M" bisect start HEAD HEAD~3'
	attacked main
	t_ok "$g_label: the user ends it" host bisect reset
	g_goes_on ""
	is_over
	begin "amid a merge"
	by_hand '! git -C "$M" merge -q left'
	attacked main
	worked
	t_ok "$g_label: the user ends it" host merge --abort
	g_goes_on ""
	is_over
}

# Pointers that are spelled relatively, and a symlink as W/.git.
pointers() {
	begin "relative pointers"
	by_hand 'echo "gitdir: ../.git/worktrees/wt" >"$W/.git"'
	attacked main
	worked
	g_goes_on ""
	is_over
	begin "a symlink as pointer"
	by_hand 'rm "$W/.git"; ln -s ../.git/worktrees/wt "$W/.git"
		echo ref: refs/heads/wt >"$A/HEAD"'
	attacked main
	same "it is what it was" "$(readlink "$W/.git")" ../.git/worktrees/wt
	g_goes_on ""
	is_over
}

shallow() {
	begin_other "a shallow clone"
	by_hand 'git -C remote.git config uploadpack.allowFilter true
		git init -q deep
		cd deep
		git config user.name T
		git config user.email t@example.invalid
		for i in 1 2 3 4; do git commit -q --allow-empty -m $i; done
		git push -q "$BASE/remote.git" HEAD:deep
		cd ..
		git clone -q --depth 2 --no-single-branch -b deep \
			"file://$BASE/remote.git" "$M"
		cd "$M"
		git config user.name T
		git config user.email t@example.invalid
		git worktree add -q -b wt "$W" origin/deep
		git worktree add -q -b sib "$S"
		echo /wt/ >>"$G/info/exclude"'
	t_ok "$g_label: deepening it works, since it is one" \
		inside 'git fetch -q --deepen=1 && git rev-parse HEAD~2'
	t_ok "$g_label: and completing it" \
		inside 'git fetch -q --unshallow && git rev-parse HEAD~3'
	user_goes_on "$M" "$W"
	is_over
}

# Where the session makes its own worktrees.
worktrees_dir() {
	begin "--worktrees-dir"
	by_hand 'git -C "$M" worktree add -q -b before "$BASE/trees/before"'
	W=$M
	run_options=(--worktrees-dir "$BASE/trees")
	t_ok "$g_label: a worktree from before is its own" inside '
		cd "$BASE/trees/before" && git commit -q --allow-empty -m x &&
			git switch -q -c before2 && git branch -q -D before'
	t_ok "$g_label: and new ones are" inside '
		git worktree add -q -b new "$BASE/trees/new" &&
			cd "$BASE/trees/new" && echo x >x && git add x &&
			git commit -q -m x && git push -q origin new'
	t_ok "$g_label: also for the next session" inside '
		cd "$BASE/trees/new" && git commit -q --allow-empty -m x &&
			cd "$M" && git worktree remove "$BASE/trees/new"'
	t_not "$g_label: others aren't" inside '
		cd "$BASE/main/wt" && git commit -q --allow-empty -m x'
	t_not "$g_label: main isn't" inside 'git commit -q --allow-empty -m x'
	W=$M/wt
	g_goes_on ""
	is_over
}

# The options.
guard_off() {
	begin "--git-guard=off"
	run_options=(--git-guard=off)
	t_ok "$g_label: opens the names" inside '
		set -e
		echo x >"$G/hooks/x"; rm "$G/hooks/x"
		echo x >"$G/info/attributes"; rm "$G/info/attributes"
		git config core.editor vi; git config --unset core.editor
		git update-ref refs/heads/sib wt
		git -C "$M" update-index -q --refresh ||
			git -C "$M" update-index --assume-unchanged README.md
		git stash clear
		rm -r "$G/worktrees/gone"'
	t_errno EROFS "$g_label: and main's files stay as they are" \
		inside 'echo x >"$M/README.md"'
	is_over
}

open_names() {
	begin "open names"
	run_options=(--rw .git/hooks)
	t_ok "$g_label: --rw opens one" inside '
		echo "exit 0" >"$G/hooks/post-commit" && rm "$G/hooks/post-commit"'
	t_errno EROFS "$g_label: and no other" inside 'echo x >"$G/info/x"'
	t_not "$g_label: nor the config" inside 'git config core.editor vi'
	run_options=(--rw .git)
	t_errno EROFS "$g_label: --rw .git opens none of them" \
		inside 'echo x >"$G/hooks/x"'
	run_options=()
	by_hand 'git -C "$M" config worktreefs.rw .git/hooks'
	t_ok "$g_label: a standing rule does, too" inside '
		echo "exit 0" >"$G/hooks/post-commit" && rm "$G/hooks/post-commit"'
	t_not "$g_label: which a session can't make" inside '
		git config --add worktreefs.rw .git/info'
	by_hand 'git -C "$M" config --unset worktreefs.rw'
	run_options=(--none .git/hooks)
	t_errno EACCES "$g_label: --none closes one" \
		inside 'cat "$G/hooks/pre-commit"'
	is_over
}

# What is opened by --hardlinks=allow isn't the objects.
hard_links() {
	local objects
	begin "--hardlinks=allow"
	objects=$(g_objects)
	run_options=(--hardlinks=allow --native none)
	inside 'for f in "$G"/objects/??/* "$G"/objects/pack/*; do
		for name in "$G/held" "$G/objects/info/held" "$W/held"; do
			ln "$f" "$name" && chmod u+w "$name" && echo x >"$name"
			rm -f "$name"
		done
	done' 2>/dev/null
	t_ok "$g_label: objects are what they were" \
		host fsck --no-progress --no-dangling
	same "all of them" "$(comm -23 <(echo "$objects") <(g_objects))" ""
	is_over
}

config_modes() {
	begin "--git-config"
	run_options=(--git-config=deny)
	t_status 4 "$g_label: deny refuses a safe key" \
		inside 'git config branch.wt.description words' ||
		t_diag "$T_STDERR"
	t_ok "$g_label: and no commit" inside 'git commit -q --allow-empty -m x'
	t_ok "$g_label: push -u pushes" inside 'git push -q -u origin wt'
	run_options=(--git-config=allow)
	t_ok "$g_label: allow lets any key pass" \
		inside 'git config core.editor vi && git config --unset core.editor'
	t_errno EROFS "$g_label: and not hooks" inside 'echo x >"$G/hooks/x"'
	run_options=(--git-config=filter)
	t_status 4 "$g_label: filter is the default" \
		inside 'git config core.editor vi'
	is_over
}

safe_config() {
	begin "worktreefs.safeConfig"
	by_hand 'git -C "$M" config worktreefs.safeConfig "lfs.*"
		git -C "$M" config --add worktreefs.safeConfig "core.*"'
	t_ok "$g_label: opens keys" inside '
		git config lfs.url https://lfs.invalid && git config core.editor vi'
	t_not "$g_label: and no others" inside 'git config alias.x y'
	t_not "$g_label: not core.bare" inside 'git config core.bare true'
	t_not "$g_label: not itself" \
		inside 'git config --add worktreefs.safeConfig "*"'
	is_over
}

# The user has a name, has none, or has one elsewhere.
names() {
	begin "user.name"
	t_not "$g_label: isn't changed" inside 'git config user.name Somebody'
	by_hand 'git -C "$M" config --unset user.name
		git -C "$M" config --unset user.email'
	t_ok "$g_label: may be set where there is none" inside '
		git config user.name Agent &&
			git config user.email agent@example.invalid &&
			git commit -q --allow-empty -m x'
	by_hand 'git -C "$M" config --unset user.name
		git config --file "$HOME/.gitconfig" user.name User'
	t_not "$g_label: nor where the user has one in his own" \
		inside 'git config user.name Somebody'
	by_hand 'rm "$HOME/.gitconfig"'
	is_over
}

refused_worktrees() {
	begin "a branch in two worktrees"
	by_hand 'git -C "$S" symbolic-ref HEAD refs/heads/wt'
	t_status 125 "$g_label: is no session's" inside true
	t_like "$g_label: and mountctl says so" "$T_STDERR" refs/heads/wt
	is_over
}

# The lock on the worktree while its session lives.
locks() {
	begin "the lock"
	g_run -n locked
	t_like "$g_label: names the session" "$(cat "$A/locked")" \
		"worktreefs session locked"
	t_like "$g_label: git sees it" \
		"$(host worktree list --porcelain)" "^locked worktreefs"
	t_not "$g_label: the user can't remove the worktree by mistake" \
		host worktree remove "$W"
	g_do 'git worktree remove "$W"'
	same "nor does the session" "$T_STATUS" 128
	t_ok "$g_label: it is whole" test -e "$W/README.md"
	g_stop
	t_wait 5 test ! -e "$A/locked"
	t_not "$g_label: it goes with the session" test -e "$A/locked"
	host worktree lock --reason "by the user" "$W"
	t_ok "$g_label: a user's lock" inside true
	same "stays" "$(cat "$A/locked")" "by the user"
	is_over
}

# What mountctl tells of it.
tells() {
	begin "status and why"
	g_run -n told
	t_like "$g_label: status has the reasons" \
		"$(s_mountctl status told)" "hooks run on the user's side"
	t_like "$g_label: why has them" \
		"$(s_mountctl why -n told "$G/hooks/x")" \
		"hooks run on the user's side"
	g_do 'git config alias.zap "!true"'
	t_wait 5 grep -q alias.zap "$STATE/told/denials.jsonl"
	t_ok "$g_label: a refused change of the config names its key" \
		grep -q alias.zap "$STATE/told/denials.jsonl"
	g_stop
	is_over
}

reftable() {
	if ! git init -q --ref-format=reftable "$T_SCRATCH/r" 2>/dev/null; then
		t_skip "reftable" "this git has none"
		return
	fi
	begin_other "reftable"
	by_hand 'git init -q --ref-format=reftable -b main "$M"
		cd "$M"
		git config user.name T
		git config user.email t@example.invalid
		git remote add origin "$BASE/remote.git"
		git commit -q --allow-empty -m x
		git worktree add -q -b wt "$W"'
	t_ok "$g_label: a session" inside 'git commit -q --allow-empty -m x'
	t_like "$g_label: and what isn't held" "$T_STDERR" reftable
	t_errno EROFS "$g_label: but hooks are" inside 'echo x >"$G/hooks/x"'
	is_over
}

for shape in bare separate submodule_of_worktree main_is_submodule \
	worktree_config sha256 packed_only detached mid_rebase mid_others \
	pointers shallow worktrees_dir guard_off open_names hard_links config_modes \
	safe_config names refused_worktrees locks tells reftable; do
	"$shape"
done
t_done

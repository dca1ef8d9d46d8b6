#!/bin/bash
# What must keep working in the worktree with the git guard on: each command is
# also run where nobody guards, in a repository that is the same byte for byte.
# It has to end with the same status and leave the same behind. Where it doesn't,
# the table says so, and docs/git-guard.md lists it.
# shellcheck disable=SC2317 # tables are called by name
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

# NAME|HOW|SCRIPT, in W, one after the other. HOW: "-": all the same; says: what
# it prints differs; differs: so does what it does, and the status alone counts.
commands() {
	cat <<-'END'
		add|-|echo a >a; git add a
		status|-|git status
		commit|-|git commit -q -m a
		commit -a|-|echo aa >>a; git commit -q -a -m aa
		commit --amend|-|git commit -q --amend -m amended
		commit with an editor|-|GIT_EDITOR='sh -c "echo edited >\$1" -' git commit -q --allow-empty
		commit --no-verify|-|git commit -q --allow-empty --no-verify -m b
		commit --fixup|-|echo b >b; git add b; git commit -q -m b; echo bb >>b; git commit -q -a --fixup HEAD
		rebase -i --autosquash|-|GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash HEAD~4
		rebase -i, another order|-|echo c >c; git add c; git commit -q -m c; echo d >d; git add d; git commit -q -m d; GIT_SEQUENCE_EDITOR='sed -i "1{h;d};2G"' git rebase -q -i HEAD~2
		rebase -i, edit|-|GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD^
		rebase --continue|-|echo e >e; git add e; git commit -q --amend --no-edit; git rebase --continue
		rebase -i --exec|-|GIT_SEQUENCE_EDITOR=true git rebase -q -i --exec 'test -f a' HEAD~2
		rebase main|-|git rebase -q main
		rebase --onto|-|git rebase -q --onto HEAD~3 HEAD~2
		rebase with a conflict|-|git rebase -q left
		rebase --abort|-|git rebase --abort
		rebase with a conflict, again|-|git rebase -q left
		rebase --skip|-|git rebase --skip
		rebase --quit|-|git rebase --abort || git rebase --quit; git reset -q --hard
		switch -c|-|git switch -q wt; git switch -q -c side; echo s >s; git add s; git commit -q -m s
		switch|-|git switch -q wt
		merge --no-ff|-|git merge -q --no-ff -m merged side
		merge --squash|-|git switch -q -c side2; echo s2 >s2; git add s2; git commit -q -m s2; git switch -q wt; git merge -q --squash side2; git commit -q -m squashed
		merge with a conflict|-|git merge -q left
		merge --abort|-|git merge --abort
		merge with a conflict, again|-|git merge -q left
		merge --continue|-|echo both >a.bin; git add a.bin; GIT_EDITOR=true git merge --continue
		cherry-pick|-|git cherry-pick topic
		cherry-pick of more|-|git cherry-pick side2~1..side2 || git cherry-pick --skip
		cherry-pick with a conflict|-|git cherry-pick left
		cherry-pick --abort|-|git cherry-pick --abort
		revert|-|git revert --no-edit HEAD
		reset --soft|-|git reset -q --soft HEAD^; git commit -q -m soft
		reset --hard|-|git reset -q --hard HEAD^
		stash|-|echo x >>a; git stash -q
		stash list|-|git stash list
		stash pop|-|git stash pop -q; git diff
		stash -u|-|echo u >u; git stash push -q -u -m mine
		stash apply, drop|-|git stash apply -q; git stash drop -q; git stash list
		stash branch|-|git reset -q --hard; rm -f u; echo y >>a; git stash -q; git stash branch stashed; git checkout -q -f wt; git branch -D stashed
		fetch|-|git fetch -q
		fetch --all --prune --tags|-|git fetch -q --all --prune --tags
		fetch of a branch|-|git fetch -q origin main:fetched; git branch -D fetched
		push -u|-|git push -q -u origin HEAD
		push|-|git commit -q --allow-empty -m p; git push -q
		push --force-with-lease|-|git commit -q --amend -m pp; git push -q --force-with-lease
		pull|-|git pull -q
		pull of another|-|git pull -q --no-rebase --no-edit origin main
		pull --rebase|-|git pull -q --rebase origin main
		push --tags, --delete|-|git tag t0; git push -q --tags; git push -q --delete origin t0; git tag -d t0
		branch|-|git branch b1; git branch b2 main
		branch -d|-|git branch -d b1
		branch -D|-|git branch -D b2
		branch -m|-|git branch b3; git branch -m b3 b4
		branch -m of its own|-|git branch -m renamed; git commit -q --allow-empty -m r; git branch -m wt
		branch -c|-|git branch -c b4 b5; git branch -D b4 b5
		branch -u|-|git branch -u origin/main
		branch --unset-upstream|-|git branch --unset-upstream
		checkout -b with tracking|-|git checkout -q -b tracking origin/main
		branch -vv|-|git branch -vv
		checkout -|-|git checkout -q -; git branch -D tracking
		switch --track|-|git switch -q -c tracking2 --track origin/main; git switch -q wt; git branch -D tracking2
		branches in directories|-|git branch dir/a; git branch dir/b; git branch -d dir/a dir/b; git branch dir; git branch -d dir
		branch --edit-description|-|GIT_EDITOR='sh -c "echo words >\$1" -' git branch --edit-description
		checkout of files|-|git checkout -q main -- README.md; git restore --staged README.md; git restore README.md
		checkout --detach|-|git checkout -q --detach; git commit -q --allow-empty -m d; git checkout -q wt
		checkout --orphan|-|git checkout -q --orphan bare; git commit -q -m orphan; git checkout -q -f wt; git branch -D bare
		tag|-|git tag t1; git tag -a -m two t2; git tag -f t1 HEAD^; git tag -d t1
		notes|-|git notes add -m note; git notes show; git log -1 --notes; git notes append -m more; git notes remove
		bisect|-|git bisect start HEAD HEAD~4; git bisect run test ! -f a; git bisect reset
		bisect by hand|-|git bisect start; git bisect bad; git bisect good HEAD~4; git bisect skip; git bisect reset
		sparse-checkout set|-|git sparse-checkout set src
		sparse-checkout add|-|git sparse-checkout add docs
		sparse-checkout, a worktree|differs|git worktree add -q -b inner inner; git worktree remove inner; git branch -q -D inner
		sparse-checkout disable|-|git sparse-checkout disable
		config of a description|-|git config branch.wt.description words
		config --unset of it|-|git config --unset branch.wt.description
		config of safe keys|-|git config pull.rebase true; git config color.ui auto; git config merge.conflictStyle diff3; git config --unset pull.rebase
		config --edit|-|GIT_EDITOR=true git config --edit
		remote add|-|git remote add own https://own.invalid/r
		remote set-url|-|git remote set-url own https://other.invalid/r
		remote rename|-|git remote rename own mine
		remote -v|-|git remote -v
		remote remove|-|git remote remove mine
		remote add, by ssh|-|git remote add own git@own.invalid:r; git remote remove own
		submodule update --init|-|git -c protocol.file.allow=always submodule --quiet update --init
		submodule status|-|git submodule status
		work in a submodule|-|cd sub && git config user.name T && git config user.email t@t && echo x >x && git add x && git commit -q -m x && cd .. && git add sub && git commit -q -m "sub moved"
		submodule add|-|git -c protocol.file.allow=always -c "url.$BASE/.insteadOf=https://own.invalid/" submodule --quiet add https://own.invalid/lib own
		submodule commit|-|git commit -q -m "a submodule"
		submodule foreach|-|git submodule foreach git status
		submodule sync|-|git submodule --quiet sync own
		submodule deinit|-|git submodule --quiet deinit -f own
		git rm of a submodule|-|git rm -q -f own; git commit -q -m "no submodule"
		init|-|git init -q
		init of another|-|git init -q nested; git -C nested status; rm -rf nested
		clone of main|-|git clone -q "$M" cloned; git -C cloned log -1 --format=%s; rm -rf cloned
		clone --shared|-|git clone -q --shared "$M" cloned; git -C cloned log -1 --format=%s; rm -rf cloned
		lfs|-|mkdir -p "$G"/lfs/objects/aa "$G/lfs/tmp"; echo o >"$G/lfs/tmp/o"; mv "$G/lfs/tmp/o" "$G/lfs/objects/aa/o"; cat "$G/lfs/objects/aa/o"
		annex|-|mkdir -p "$G/annex/objects"; echo o >"$G/annex/objects/o"; chmod a-w "$G/annex/objects/o"; cat "$G/annex/objects/o"
		rerere|-|git config rerere.enabled true; git merge -q left~0 2>&1; git merge -q topic; git rerere status; git merge --abort; true
		worktree add inside|says|git worktree add -q -b inner inner
		work there|-|cd inner && echo i >i && git add i && git commit -q -m i
		worktree list|-|git worktree list
		worktree move|-|git worktree move inner moved
		worktree lock|-|git worktree lock moved; git worktree unlock moved
		worktree remove|-|git worktree remove moved; git branch -D inner
		worktree add elsewhere|says|git worktree add -q "$BASE/elsewhere" -b elsewhere origin/main
		work elsewhere|-|cd "$BASE/elsewhere" && echo i >i && git add i && git commit -q -m i && git stash list && git push -q -u origin elsewhere
		worktree prune of its own|-|rm -rf "$BASE/elsewhere"; git worktree prune --expire=1.month.ago; git worktree list
		worktree remove elsewhere|-|git worktree remove --force "$BASE/elsewhere"; git branch -D elsewhere
		worktree add --detach, repair|says|git worktree add -q --detach "$BASE/r1"; mv "$BASE/r1" "$BASE/r2"; git worktree repair "$BASE/r2"; git worktree remove "$BASE/r2"
		main: status|-|git -C "$M" status
		main: log|-|git -C "$M" log -3
		main: diff|-|git -C "$M" diff
		main: fetch|-|git -C "$M" fetch -q
		main: branch, stash list|-|git -C "$M" branch -vv; git -C "$M" stash list; git -C "$M" show HEAD; git -C "$M" blame README.md
		main: worktree list|-|git -C "$M" worktree list
		am|-|git format-patch -q -1 topic --stdout >p; git am -q p; rm -f p; git reset -q --hard HEAD^
		am with a conflict|-|git format-patch -q -1 left --stdout >p; git am -q p; git am --abort; rm -f p
		apply|-|git diff HEAD^ >p; git apply -R p; git checkout -q -f; rm -f p
		bundle, archive|-|git bundle create -q b.bundle HEAD; git bundle verify -q b.bundle; git archive HEAD | tar -t | wc -l; rm -f b.bundle
		clean, mv, rm|-|touch junk; git clean -fdq; git mv a a2; git rm -q b; git commit -q -m moved
		describe, blame, grep|-|git describe --always; git blame a2; git grep int; git shortlog -s HEAD
		fsck|-|git fsck --no-progress --no-dangling
		pack-refs|says|git pack-refs --all
		reflog expire of its own|-|git reflog expire --expire=now HEAD
		reflog expire of all, by age|-|git reflog expire --all
		commit-graph|-|git commit-graph write --reachable
		multi-pack-index|says|git repack -q -d; git multi-pack-index write
		update-server-info|-|git update-server-info
		count-objects|-|git count-objects >/dev/null
		repack|-|git commit -q --allow-empty -m x; git repack -q
		repack -a -d|says|git repack -q -a -d
		gc|says|git gc -q
		gc --auto|says|for i in 1 2; do git commit -q --allow-empty -m $i; git repack -q -d; done; git -c gc.autoPackLimit=1 -c gc.autoDetach=false gc -q --auto; git count-objects -v | grep ^in-pack
		maintenance run|says|git maintenance run --quiet
		maintenance run of tasks|says|git maintenance run --quiet --task=commit-graph --task=loose-objects --task=incremental-repack --task=pack-refs
		commit after all of that|-|echo z >z; git add z; git commit -q -m z; git push -q
		gc --auto, detached|differs|for i in 1 2; do git commit -q --allow-empty -m $i; git repack -q -d; done; git -c gc.autoPackLimit=1 gc --auto; sleep 0.3; for i in $(seq 50); do test -e "$G/gc.pid" || break; sleep 0.1; done; rm -f "$A/gc.log"
		commit after that|-|echo zz >>z; git commit -q -a -m zz
		fsck, at the end|-|git fsck --no-progress --no-dangling
		status, at the end|-|git status
	END
}

# What ends otherwise, as docs/git-guard.md has it: NAME|STATUS|SAYS|SCRIPT, each
# in the same repository.
deviations() {
	cat <<-'END'
		config|4|could not write config file|git config core.editor vi
		switch -c in main|128|unable to write symref for HEAD|git -C "$M" switch -q -c new; s=$?; git branch -D new; exit $s
		stash pop of an old one|1|Could not drop stash entry|git stash pop -q; s=$?; git reset -q --hard; exit $s
		stash drop of an old one|1|Could not drop stash entry|git stash drop -q
		stash clear|1|unable to unlink '.*/refs/stash'|git stash clear
		pack-refs|0|^$|git pack-refs --all
		reflog expire of all|255|unable to write reflog|git reflog expire --expire=now --all
		fetch --depth|128|shallow.lock': Read-only|git fetch -q --depth 1
		replace|255|unable to create directory for|git replace main topic
		worktree remove of its own|128|cannot remove a locked working tree|git worktree remove "$W"
		worktree prune of another's|0|failed to delete '.*/worktrees/gone'|git worktree prune --expire=now
		worktree add, sparse|0|failed to copy worktree config|git sparse-checkout set src; git worktree add -q --detach "$BASE/x"; s=$?; git sparse-checkout disable; test -e "$BASE/x/docs" || s=1; git worktree remove "$BASE/x"; exit $s
		gc|0|unable to unlink '.*/objects/|git gc -q
		repack -d|0|unable to unlink '.*/objects/|git repack -q -a -d
		maintenance run|0|unable to unlink '.*/objects/|git maintenance run --quiet
		gc --auto, detached|0|^-.*gc.log|for i in 1 2; do git commit -q --allow-empty -m $i; git repack -q -d; done 2>/dev/null; git -c gc.autoPackLimit=1 gc -q --auto; for i in $(seq 100); do test ! -e "$A/gc.log" || break; sleep 0.1; done; ls -l "$A/gc.log"
		branch -m of main's|128|Branch rename failed|git branch -m main other
		branch --set-upstream-to of main's|0|could not write config file|git branch --set-upstream-to=topic main
		update-ref --stdin|128|unable to append to|printf 'update refs/tags/x %s\nupdate refs/heads/main %s\n' "$(git rev-parse wt)" "$(git rev-parse wt)" | git update-ref --stdin; s=$?; git tag -d x; exit $s
		push -u to a path|0|could not write config file|git push -q -u "$BASE/remote.git" wt:x
		remote add of a path|128|could not set 'remote.own.url'|git remote add own "$BASE/remote.git"
		remote rename|1|could not write config file|git remote rename origin other
		remote remove|128|could not write config file|git remote remove origin
		submodule add of a path|0|could not write config file|git -c protocol.file.allow=always submodule --quiet add "$BASE/lib" own
		submodule update of it|128|could not write config file|git submodule --quiet update --init own
		submodule deinit of main's|0|could not write config file|git submodule --quiet deinit sub
	END
}

deviate() {
	local name want says script said
	begin_side user deviations
	g_label="user, deviations"
	g_run --native auto
	while IFS='|' read -r name want says script <&3; do
		g_do "$script"
		said=$T_STDOUT$T_STDERR
		if [ "$T_STATUS" = "$want" ] && grep -qE -- "$says" <<<"$said"; then
			t_pass "$g_label: $name"
		else
			t_fail "$g_label: $name"
			t_diag "status $T_STATUS, wanted $want with $says"
			t_diag "${said:0:1000}"
		fi
	done 3< <(deviations)
	g_stop
	t_ok "$g_label: the user goes on" g_user_works
	s_clear "nothing is left of them"
}

# Hooks of the user's own, which tell that they ran.
# shellcheck disable=SC2016 # expanded there
hooks='
	cd "$M/.git/hooks"
	for hook in pre-commit prepare-commit-msg post-commit post-checkout \
		post-merge pre-rebase post-rewrite pre-push reference-transaction; do
		printf "#!/bin/sh\necho $hook >>%s/ran\n[ $hook != pre-push ] || cat >/dev/null\n" \
			"$BASE" >$hook
		chmod +x $hook
	done
	printf "#!/bin/sh\necho commit-msg >>%s/ran\necho >>\"\$1\"\necho Checked: yes >>\"\$1\"\n" \
		"$BASE" >commit-msg
	chmod +x commit-msg'

# All that a command can have done, without the paths.
state() {
	s_as env "M=$M" "W=$W" "A=$A" "BASE=$BASE" bash -c "$state" 2>&1 |
		sed "s,$BASE,BASE,g"
}

# shellcheck disable=SC2016 # expanded there
state='
	cd "$W"
	git symbolic-ref -q HEAD
	git for-each-ref \
		--format="%(objectname) %(refname) %(symref) %(upstream)"
	git -C "$BASE/remote.git" for-each-ref
	git reflog show HEAD | head -5
	git -C "$M" reflog show HEAD
	git stash list
	git ls-files -s
	git config --list --local
	git config --list --worktree
	git worktree list --porcelain | grep -v "^locked"
	find . -name .git -prune -o -path ./sub -prune -o -type f \
		-exec sha256sum {} + | sort -k2
	find "$A" -type d -name modules -prune -o -printf "%P\n" |
		grep -vE "^(locked|logs/.*|refs/.*|index|.*_HEAD|AUTO_MERGE)$" |
		sort
	find "$M/.git" -name "*.lock"
	git -C "$M" status --porcelain
	cat "$M/.git/HEAD"
	sort -u "$BASE/ran"'

aside() {
	BASE=$T_SCRATCH/$1
	M=$BASE/main
	W=$M/wt
	g_names
}

# Runs the script on this side; $said and $left are what it printed and did.
try() {
	"$1" "export GIT_AUTHOR_DATE='@$now +0000' GIT_COMMITTER_DATE='@$now +0000'
		$2"
	status=$T_STATUS
	said=${T_STDOUT//"$BASE"/BASE}${T_STDERR//"$BASE"/BASE}
	said=${said//\[wt\] locked/[wt]}
	left=$(state)
}

compare_all() {
	local name how script status said left want want_said want_left bad
	while IFS='|' read -r name how script <&3; do
		now=$((now + 1))
		aside free
		try g_unguarded "$script"
		want=$status want_said=$said want_left=$left
		aside "$who"
		try g_do "$script"
		bad=
		[ "$status" = "$want" ] || bad="status $status, not $want; "
		[ "$how" = differs ] || [ "$left" = "$want_left" ] ||
			bad+="another state; "
		[ "$how" != - ] || [ "$said" = "$want_said" ] ||
			bad+="other words; "
		if [ -z "$bad" ]; then
			t_pass "$g_label: $name"
			continue
		fi
		t_fail "$g_label: $name"
		t_diag "$bad"
		t_diag "${said:0:1000}"
		t_diag "unguarded: ${want_said:0:1000}"
		t_diag "$(diff <(echo "$want_left") <(echo "$left") | head -20)"
	done 3< <(commands)
}

begin_side() {
	g_be "$1" "$2"
	g_repository || exit 1
}

make_both() {
	local side
	now=$(($(date +%s) - 1000))
	g_dates=("GIT_AUTHOR_DATE=@$now +0000"
		"GIT_COMMITTER_DATE=@$now +0000")
	rm -rf "$T_SCRATCH/free"
	for side in free "$1"; do
		begin_side "$1" "$side"
		s_as env "M=$M" "BASE=$BASE" bash -e -c "$hooks" || exit 1
	done
	t_is "$1: both repositories are alike" "$(state)" \
		"$(aside free && state)"
}

check() {
	local now
	make_both "$1"
	# Entries of the stash are dated, too, and older ones are held.
	now=$((now + 2000))
	g_label="$1$2"
	shift 2
	g_run "$@"
	compare_all
	g_stop
	t_ok "$g_label: the user goes on" g_user_works
	t_ok "$g_label: hooks ran" grep -q commit-msg "$BASE/ran"
	s_clear "nothing is left"
}

if [ "$(id -u)" -eq 0 ]; then
	check root "" --native auto
fi
check user ", through FUSE" --native none
g_dates=()
deviate
t_done

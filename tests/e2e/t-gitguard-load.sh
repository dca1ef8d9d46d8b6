#!/bin/bash
# Two sessions and the user commit at once, while refs are packed, objects
# collected, branches made and removed, stash entries pushed and popped: no
# commit is lost, no index broken, and git fsck finds nothing. WTFS_LOAD_SECONDS
# says for how long.
# shellcheck disable=SC2016 # scripts are expanded where they run
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3 flock
t_user_make || exit 1

seconds=${WTFS_LOAD_SECONDS:-6}

# $NAME works for $SECONDS_LEFT, and writes each commit that it has made to
# $BASE/made.$NAME; what fails that must not to $BASE/failed.$NAME. Git gives up
# soon where somebody else holds a lock: here it waits. Two that remove empty
# directories of objects at once are in the way of a third one who makes them,
# whatever the file system.
worker='
	export GIT_CONFIG_COUNT=3
	export GIT_CONFIG_KEY_0=core.filesRefLockTimeout GIT_CONFIG_VALUE_0=20000
	export GIT_CONFIG_KEY_1=core.packedRefsTimeout GIT_CONFIG_VALUE_1=20000
	export GIT_CONFIG_KEY_2=gc.auto GIT_CONFIG_VALUE_2=0
	must() {
		"$@" >"$BASE/out.$NAME" 2>&1 && return
		{ echo "$* -> $?"; cat "$BASE/out.$NAME"; } \
			>>"$BASE/failed.$NAME"
	}
	may() {
		"$@" >/dev/null 2>&1
	}
	end=$((SECONDS + SECONDS_LEFT))
	for ((i = 0; SECONDS < end; i++)); do
		echo "$i" >"file.$NAME.$((i % 20))"
		must git add "file.$NAME.$((i % 20))"
		must git commit -q -m "$NAME $i"
		git rev-parse HEAD >>"$BASE/made.$NAME"
		case $((i % 8)) in
		0) must git branch "$NAME/$i" ;;
		1) must git tag "$NAME-$i" ;;
		2) may git pack-refs --all ;;
		3)
			echo changed >>"file.$NAME.0"
			must git stash push -q -m "$NAME $i"
			# somebody else may have pushed another one by now
			n=$(git stash list | grep -nF "$NAME $i" | cut -d: -f1)
			may git stash drop -q "stash@{$((n - 1))}"
			# where it gave up
			may git checkout -q -- "file.$NAME.0"
			;;
		4) may flock "$BASE/pruning" git gc -q ;;
		5) must git fetch -q origin ;;
		6) may flock "$BASE/pruning" git repack -q -d ;;
		7) must git branch -q -D "$NAME/$((i - 7))" ;;
		esac
		must git status
	done'

# start NAME DIR COMMAND...: COMMAND is to start bash.
start() {
	local name=$1 dir=$2
	shift 2
	(cd "$dir" && exec "${as[@]}" env "BASE=$BASE" "NAME=$name" \
		"SECONDS_LEFT=$seconds" timeout -k 5 $((seconds * 3 + 120)) "$@" \
		bash -c "$worker") </dev/null >"$BASE.$name" 2>&1 &
	pids+=("$!")
	t_defer s_end "$!"
}

all_are_there() {
	local name=$1 branch=$2 dir=$3 made
	made=$(sort -u "$BASE/made.$name" | wc -l)
	t_diag "$name made $made commits"
	t_ok "$g_label: $name made some" test "$made" -gt 0
	# Git gives up where another's gc takes an empty directory of objects
	# away under it, as it does without a guard.
	t_diag "given up by $name: $(cat "$BASE/failed.$name" 2>/dev/null)"
	t_is "$g_label: $name ran behind the guard" "$(cat "$BASE.$name")" ""
	t_is "$g_label: no commit of $name is lost" \
		"$(comm -23 <(sort -u "$BASE/made.$name") \
			<(s_as git -C "$dir" rev-list "$branch" | sort))" ""
	t_is "$g_label: the last one is its branch's" \
		"$(s_as git -C "$dir" rev-parse "refs/heads/$branch")" \
		"$(tail -1 "$BASE/made.$name")"
	t_is "$g_label: its status is clean" \
		"$(s_as git -C "$dir" status --porcelain -uno \
			--ignore-submodules)" ""
	t_is "$g_label: its index has its files" \
		"$(s_as git -C "$dir" ls-files "file.$name.*" | wc -l)" \
		"$(find "$dir" -maxdepth 1 -name "file.$name.*" | wc -l)"
	t_is "$g_label: and its reflog its commits" \
		"$(comm -23 <(sort -u "$BASE/made.$name") \
			<(s_as git -C "$dir" reflog show --format=%H HEAD |
				sort))" ""
}

check() {
	local pid pids=() objects
	g_be "$1"
	g_repository || exit 1
	s_as git -C "$M" worktree add -q -b second "$BASE/second"
	objects=$(g_objects)
	start one "$W" "$T_MOUNTCTL" run --
	start two "$BASE/second" "$T_MOUNTCTL" run --native none --
	start user "$M"
	for pid in "${pids[@]}"; do
		wait "$pid"
		t_is "$g_label: a worker ends" $? 0
	done
	all_are_there one wt "$W"
	all_are_there two second "$BASE/second"
	all_are_there user main "$M"
	t_is "$g_label: no object from before is lost" \
		"$(comm -23 <(echo "$objects") <(g_objects))" ""
	t_is "$g_label: nor a stash entry" \
		"$(s_as git -C "$M" stash list | grep -c 'On main: stash [12]$')" 2
	t_is "$g_label: no lock is left" \
		"$(find "$G" -name '*.lock' -o -name '.worktreefs-*')" ""
	t_is "$g_label: git fsck" "$(s_as git -C "$M" fsck --no-progress \
		--no-dangling 2>&1)" ""
	g_goes_on ""
	s_clear "nothing is left"
}

for somebody in $(s_everybody); do
	check "$somebody"
done
t_done

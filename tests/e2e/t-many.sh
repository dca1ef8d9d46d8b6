#!/bin/bash
# Many sessions: eight at once, each of which commits, while the user switches
# branches and rewrites the index of main; and one after the other, each torn
# down again. T_COMMITS (4): how many commits each; T_SESSIONS (6): how many one
# after the other.
# shellcheck disable=SC2016 # scripts are expanded where they run
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git fusermount3
t_user_make || exit 1

# For all commits of eight at once, in seconds.
limit=$((1000 + 20 * ${T_COMMITS:-4}))

same() {
	t_is "$who: $1" "$2" "$3"
}

# Git waits where somebody else holds a lock.
waiting='
	export GIT_CONFIG_COUNT=3
	export GIT_CONFIG_KEY_0=core.filesRefLockTimeout GIT_CONFIG_VALUE_0=60000
	export GIT_CONFIG_KEY_1=core.packedRefsTimeout GIT_CONFIG_VALUE_1=60000
	export GIT_CONFIG_KEY_2=gc.auto GIT_CONFIG_VALUE_2=0
'

commits=$waiting'
	for i in $(seq "$COMMITS"); do
		echo "$i" >"file-$((i % 9))"
		git add -A && git commit -q -m "$NAME $i" &&
			git rev-parse HEAD >>"$BASE/made-$NAME" || exit
	done'

users=$waiting'
	i=0
	while [ ! -e "$BASE/over" ]; do
		i=$((i + 1))
		git switch -q "user-$((i % 2))" && git reset -q &&
			git update-index --force-remove README.md &&
			git read-tree HEAD && git update-index -q --refresh &&
			git commit -q --allow-empty -m "user $i" || exit
	done'

starts() {
	local n=$1
	local words=(env "BASE=$BASE" "NAME=s$n" "COMMITS=${T_COMMITS:-4}"
		timeout -k 5 "$limit")
	(cd "$BASE/s$n" && exec "${as[@]}" "${words[@]}" "$T_MOUNTCTL" run \
		--native "$([ $((n % 2)) = 0 ] && echo auto || echo none)" -- \
		bash -c "$commits") </dev/null >"$BASE/out-s$n" 2>&1 &
	pids+=("$!")
	t_defer s_end "$!"
}

lost() {
	comm -23 <(sort -u "$BASE/made-$1") \
		<(s_as git -C "$M" rev-list "$1" | sort)
}

empty_trees() {
	s_as git -C "$M" log --format=%T "$1" -- |
		grep -c 4b825dc642cb6eb9a060e54bf8d69288fbee4904
}

eight_at_once() {
	local n pid user pids=()
	s_as git -C "$M" branch user-0
	s_as git -C "$M" branch user-1
	for n in $(seq 8); do
		s_as git -C "$M" worktree add -q -b "s$n" "$BASE/s$n" || exit 1
	done
	rm -f "$BASE/over"
	(cd "$M" && exec "${as[@]}" env "BASE=$BASE" timeout -k 5 "$limit" \
		bash -c "$users") </dev/null >"$BASE/out-user" 2>&1 &
	user=$!
	t_defer s_end "$user"
	for n in $(seq 8); do
		starts "$n"
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
		same "a session's work is done" $? 0
	done
	touch "$BASE/over"
	wait "$user"
	same "and the user's" $? 0 || t_diag "$(tail -5 "$BASE/out-user")"
	for n in $(seq 8); do
		same "s$n: all commits were made" \
			"$(wc -l <"$BASE/made-s$n")" "${T_COMMITS:-4}" ||
			t_diag "$(tail -5 "$BASE/out-s$n")"
		same "s$n: none is lost" "$(lost "s$n")" ""
		same "s$n: no tree is empty" "$(empty_trees "s$n")" 0
		same "s$n: its status is clean" \
			"$(s_as git -C "$BASE/s$n" status --porcelain)" ""
	done
	same "no lock is left" "$(find "$M/.git" -name '*.lock')" ""
	same "git fsck" "$(s_as git -C "$M" fsck --no-progress \
		--no-dangling 2>&1)" ""
	s_as git -C "$M" switch -q main
	s_clear "nothing is left of eight"
}

one_after_the_other() {
	local n=${T_SESSIONS:-6} i view failed=''
	for ((i = 0; i < n; i++)); do
		view=$(s_mountctl mount --main "$M" --worktree "$W" \
			2>/dev/null) &&
			s_as git -C "$view" commit -q --allow-empty -m "$i" &&
			s_mountctl teardown wt >/dev/null 2>&1 || failed+=" $i"
	done
	same "each could be mounted, used and torn down" "$failed" ""
	same "and each commit is there" \
		"$(s_as git -C "$M" rev-list --count refs/heads/wt ^main --)" \
		"$((n + $(s_as git -C "$M" rev-list --count "$before" ^main --)))"
	s_clear "nothing is left of $n in a row"
	same "nor a lock" "$(find "$M/.git" -name '*lock*' -path '*/worktrees/*')" \
		""
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	s_repository || exit 1
	eight_at_once
	before=$(s_as git -C "$M" rev-parse wt)
	one_after_the_other
done
t_done

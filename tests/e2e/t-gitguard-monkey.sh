#!/bin/bash
# Operations without any sense, in great number, on the names that the git guard
# is about: what isn't the session's stays what it is. WTFS_MONKEY_SEED and
# WTFS_MONKEY_COUNT repeat a run, or make it longer.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

seed=${WTFS_MONKEY_SEED:-$((RANDOM * 32768 + RANDOM))}
count=${WTFS_MONKEY_COUNT:-2000}

# All that has to stay, byte for byte, and all names that must not come. "git
# init" tries the x bits on the config: those may be toggled.
stays() {
	(
		cd "$G" || exit 1
		find HEAD config index ORIG_HEAD hooks info modules \
			refs/heads/{main,sib,gone} logs/HEAD \
			logs/refs/heads/{main,sib,gone} worktrees/{sib,gone} \
			worktrees/wt/{gitdir,commondir} \
			config.worktree commondir shallow MERGE_* BISECT_* \
			AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD \
			branches remotes rebase-merge rebase-apply sequencer \
			refs/replace refs/bisect refs/worktree sharedindex.* \
			objects/info/alternates -printf '%p %y %m %l\n' \
			\( -type f -exec sha256sum {} \; -o -true \) 2>/dev/null |
			grep -vE '(HEAD|main|sib|gone|index)\.lock|info/refs' |
			sed 's/^config f 755 /config f 644 /' | sort
		cat "$W/.git"
	)
}

# The same of what is in packed-refs and in the stash.
means() {
	s_as git -C "$M" rev-parse main sib gone
	s_as git -C "$M" stash list 2>/dev/null | grep 'On main: stash [12]$'
	s_as git -C "$M" for-each-ref refs/replace refs/bisect refs/worktree
}

# Links that lead into main from where the user's git writes.
links() {
	find "$G" -path "$G/annex" -prune -o -path "$G/lfs" -prune -o \
		-path "$A/modules" -prune -o ! -type f ! -type d -printf '%p %y %l\n'
}

check() {
	local before meant objects
	g_be "$1" "$1$2"
	g_label="$1$2, seed $seed"
	shift 2
	g_repository || exit 1
	before=$(stays)
	meant=$(means)
	objects=$(g_objects)
	g_run "$@"
	g_do "timeout 150 python3 '$T_SRC/tests/support/gitmonkey.py' $seed $count 40"
	t_is "$g_label: the monkey has done its work" "$T_STATUS" 0 ||
		t_diag "$T_STDERR"
	t_diag "$T_STDOUT"
	g_stop
	t_is "$g_label: names and bytes are what they were" \
		"$(diff <(echo "$before") <(stays))" ""
	t_is "$g_label: no links lead anywhere" "$(links)" ""
	find "$G" -name '*.lock' -exec rm -rf {} +
	t_is "$g_label: refs and stash entries are what they were" \
		"$(diff <(echo "$meant") <(means))" ""
	t_is "$g_label: no object is lost" \
		"$(comm -23 <(echo "$objects") <(g_objects))" ""
	t_is "$g_label: nor another" "$(s_as git -C "$M" cat-file \
		--batch-check <<<"$objects" | grep -c missing)" 0
	t_ok "$g_label: main's history and files" s_as git -C "$M" \
		rev-list --objects --quiet main sib gone
	t_like "$g_label: main's status" "$(s_as git -C "$M" status \
		--porcelain 2>&1)" '^ M sub'
	t_is "$g_label: nothing was run" "$(g_planted)" ""
	s_clear "nothing is left"
}

for somebody in $(s_everybody); do
	check "$somebody" ""
done
check user -fuse --native none
t_done

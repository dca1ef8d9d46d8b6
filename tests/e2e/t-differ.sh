#!/bin/bash
# The same random steps in a view and in a plain directory come to the same
# (tests/fuzz/differ.c tells how, and what the kernel's own doing makes differ):
# as root and as a user, and with others at work on the backing tree. Here some
# thousands of steps each; for more, by hand:
#
#   mkdir -p /tmp/d/src /tmp/d/view /tmp/d/plain
#   build/fs/worktreefs /tmp/d/src /tmp/d/view -o hardlinks=allow
#   build/tests/differ --backing /tmp/d/src --steps 1000000 --seed 7 \
#       --without clearfl /tmp/d/view /tmp/d/plain
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_user_make || exit 1
differ=$T_BUILD/tests/differ
if ! "${T_AS_USER[@]}" test -x "$differ"; then
	mkdir -p "$T_SCRATCH/bin"
	cp "$differ" "$T_SCRATCH/bin/"
	differ=$T_SCRATCH/bin/differ
fi
# So many seconds a sequence that differs is made shorter for.
shorten=60

# Root can't look into a user's view.
mounted() {
	awk -v dir="$1" '$5 == dir { n++ } END { exit !n }' /proc/self/mountinfo
}

unmount() {
	mounted "$1" || return 0
	s_as fusermount3 -u "$1" || umount -l "$1"
}

# Runs differ in a view of its own: alike NAME "MOUNTOPTIONS" OPTION...
alike() {
	local name=$1 dir=$BASE/${1// /-} mount_options=$2 s_limit=300
	shift 2
	if [ "$who" = root ]; then
		mount_options+=" -o dev,suid"
		# The kernel then forgets names now and then.
		set -- --mountpoint "$dir/view" "$@"
	fi
	mkdir -p "$dir/src" "$dir/view" "$dir/plain"
	s_own "$dir"
	t_defer unmount "$dir/view"
	# shellcheck disable=SC2086 # words
	if ! s_as "$T_WORKTREEFS" "$dir/src" "$dir/view" -o hardlinks=allow \
		$mount_options; then
		t_fail "$who: $name: the view is mounted"
		return
	fi
	t_ok "$who: $name" s_as "$differ" --backing "$dir/src" \
		--shorten "$shorten" "$@" "$dir/view" "$dir/plain"
	t_ok "$who: $name: the view is unmounted" unmount "$dir/view"
}

# A rule by which the kernel keeps nothing: what others change is seen at once.
uncached() {
	printf '{"rules": [{"path": "%s", "access": "rw", "caching": "none"}]}' \
		"$BASE/outsider/src" >"$BASE/uncached.json"
	echo "--policy $BASE/uncached.json"
}

# Why these kinds of steps are left out is told where differ makes them.
root_without=clearfl,locks
user_without=owners,closed,dots,special

for who in $(s_everybody); do
	s_be "$who"
	without=${who}_without
	alike "all kinds" "" --steps 8000 --without "${!without}"
	alike "outsider" "$(uncached)" --outsider --steps 6000 \
		--without "${!without},maps,special,copies,append"
	alike "intruder" "" --intruder --steps 5000 --without special
done
t_done

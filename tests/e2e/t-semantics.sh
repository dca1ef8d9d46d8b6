#!/bin/bash
# What programs rely on, in an rw tree of a view: databases, mappings, locks of
# every kind against the host and another view, odd names, large directories,
# files and directories that are gone, and changes made behind the view; on
# several backing file systems, as root and as a user.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need python3 flock
t_user_make || exit 1
STEPS=$T_SCRATCH/semantics.py
install -m 644 "$T_SRC/tests/support/semantics.py" "$STEPS"

# shellcheck disable=SC2317 # called at the end
unmount_views() {
	local at
	for at in "$T_SCRATCH"/*/view "$T_SCRATCH"/*/other "$T_SCRATCH"/*/fs; do
		! mountpoint -q "$at" || umount -l "$at"
	done
}
t_defer unmount_views

# Two views of $DIR/fs/tree, at view and other.
views() {
	local at
	for at in view other; do
		"${AS[@]}" timeout 20 "$T_WORKTREEFS" "$DIR/fs" "$DIR/$at" \
			-o "ro=.,rw=tree" "$@" || return 1
	done
}

step() {
	t_ok "$WHO: ${1//_/ }" "${AS[@]}" timeout 100 env BACKING="$DIR/fs/tree" \
		OTHER="$DIR/other/tree" python3 "$STEPS" "$1" "$DIR/view/tree"
}

# prepare NAME [AS...]
prepare() {
	WHO=$1 DIR=$T_SCRATCH/$1
	shift
	AS=("$@")
	mkdir -p "$DIR/fs" "$DIR/view" "$DIR/other"
}

own() {
	mkdir -p "$DIR/fs/tree"
	[ ${#AS[@]} -eq 0 ] || chown -R "$T_USER" "$DIR"
	t_ok "$WHO: two views" views "$@"
}

# Ended before the next is begun, and nothing hangs.
finish() {
	t_ok "$WHO: unmounts" t_unmount "$DIR/view"
	t_ok "$WHO: and the other" t_unmount "$DIR/other"
}

all="sqlite_wal sqlite_rollback mapping run_program names large_directory
	deleted changes_behind listings_behind moved_behind replaced_while_open
	locks lock_holder lock_wait sparse append_together"

prepare root
own
for s in $all; do step "$s"; done
finish

prepare user "${T_AS_USER[@]}"
own
for s in $all; do step "$s"; done
finish

# With such a rule each directory is opened by a request.
prepare asked
own -o none=hidden
for s in changes_behind listings_behind moved_behind; do step "$s"; done
finish

if [ "$(id -u)" = 0 ]; then
	prepare tmpfs
	mount -t tmpfs -o size=16m tmpfs "$DIR/fs"
	own
	for s in sqlite_wal mapping deleted changes_behind listings_behind locks \
		full_disk; do
		step "$s"
	done
	finish
	t_wait 10 umount "$DIR/fs"

	prepare overlay
	mkdir -p "$DIR/lower/tree" "$DIR/up" "$DIR/work"
	echo low >"$DIR/lower/tree/low"
	if mount -t overlay overlay -o "lowerdir=$DIR/lower,upperdir=$DIR/up,workdir=$DIR/work" \
		"$DIR/fs" 2>/dev/null; then
		own
		for s in sqlite_rollback mapping names deleted changes_behind \
			listings_behind; do
			step "$s"
		done
		t_ok "$WHO: a file of the lower layer is changed" \
			sh -c 'echo more >>"$1"' - "$DIR/view/tree/low"
		finish
		t_wait 10 umount "$DIR/fs"
	else
		t_skip "$WHO" "overlayfs cannot be mounted on this file system"
	fi

	# A file system mounted in the backing tree.
	prepare nested
	mkdir -p "$DIR/fs/tree/sub"
	mount -t tmpfs -o size=4m tmpfs "$DIR/fs/tree/sub"
	own
	echo in >"$DIR/fs/tree/sub/f"
	t_is "$WHO: seen through the view" "$(cat "$DIR/view/tree/sub/f")" in
	t_ok "$WHO: and changed" sh -c 'echo more >"$1/new"' - \
		"$DIR/view/tree/sub"
	t_errno EXDEV "$WHO: no link across" ln "$DIR/view/tree/sub/f" \
		"$DIR/view/tree/link"
	finish
	t_wait 10 umount "$DIR/fs/tree/sub"
fi

# Few descriptors: answers may be EMFILE, but they come, and it goes on.
prepare few
own
t_unmount "$DIR/view"
(
	ulimit -n 64
	timeout 20 "$T_WORKTREEFS" "$DIR/fs" "$DIR/view" -o rw=tree
)
for i in $(seq 200); do mkdir -p "$DIR/fs/tree/$i/x/y"; done
t_is "$WHO: directories, more than descriptors" \
	"$(find "$DIR/view/tree" -name y | wc -l)" 200
t_ok "$WHO: more files open than it may have" timeout 60 python3 -c '
import os, sys
fds, refused = [], 0
for i in range(200):
    try:
        fds.append(os.open("%s/%d/f" % (sys.argv[1], i + 1), os.O_CREAT | os.O_RDWR))
    except OSError as e:
        assert e.errno in (23, 24), e
        refused += 1
assert fds and refused, (len(fds), refused)
for fd in fds: os.close(fd)
open("%s/1/again" % sys.argv[1], "w").close()
' "$DIR/view/tree"
finish
t_done

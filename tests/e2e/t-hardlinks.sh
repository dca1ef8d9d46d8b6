#!/bin/bash
# Files that have a name in the main checkout and one in a writable tree: what
# a change through the writable name does to the other, for each of
# --hardlinks=break|allow|deny.
# shellcheck disable=SC2016 # what is quoted is expanded elsewhere
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need python3 setfattr getfattr
t_user_make || exit 1

# shellcheck disable=SC2317 # called at the end
unmount_views() {
	local at
	for at in "$T_SCRATCH"/*/view; do
		! mountpoint -q "$at" || umount -l "$at"
	done
}
t_defer unmount_views

# A new pair of names, $MAIN/NAME and $TREE/NAME, of one file.
pair() {
	printf 'the main text\n' >"$MAIN/$1"
	chmod 0640 "$MAIN/$1"
	setfattr -n user.mark -v kept "$MAIN/$1" 2>/dev/null
	touch -d '2020-02-02 02:02:02.123456789' "$MAIN/$1"
	ln "$MAIN/$1" "$TREE/$1"
}

# name, mode, size, times to the nanosecond, bytes: but not the link count
portrait() {
	stat -c '%n %a %u:%g %s %y' "$1"
	cat "$1"
}

ok() {
	t_ok "$WHO: $1" "${@:2}"
}

# as "changes NAME COMMAND...": the change lands, main's file is as it was
changes() {
	local what=$1 name=$2 before
	shift 2
	pair "$name"
	before=$(portrait "$MAIN/$name")
	ok "$what" "${AS[@]}" timeout 20 "$@" "$VIEW/$name"
	t_is "$WHO: $what: main has what it had" "$(portrait "$MAIN/$name")" \
		"$before"
	t_is "$WHO: $what: the names are two files" \
		"$(stat -c %h "$MAIN/$name" "$TREE/$name" | xargs)" "1 1"
}

mounted() {
	ok "mounts with $1" "${AS[@]}" timeout 20 "$T_WORKTREEFS" "$DIR/fs" \
		"$DIR/view" -o "ro=main,rw=tree,hardlinks=$1"
}

prepare() {
	WHO=$1 DIR=$T_SCRATCH/$1
	shift
	AS=("$@")
	MAIN=$DIR/fs/main TREE=$DIR/fs/tree VIEW=$DIR/view/tree
	mkdir -p "$MAIN" "$TREE" "$DIR/view"
	[ ${#AS[@]} -eq 0 ] || chown -R "$T_USER" "$DIR"
}

# What is made later, by root, is to be the user's as well.
as_them() {
	[ ${#AS[@]} -eq 0 ] || chown "$T_USER" "$MAIN"/* "$TREE"/*
}

breaks() {
	mounted break
	changes "appending" append sh -c 'echo more >>"$0"'
	t_is "$WHO: the change is there" "$(tail -n 1 "$TREE/append")" more
	t_is "$WHO: with its extended attribute" \
		"$(getfattr --absolute-names --only-values -n user.mark "$TREE/append")" \
		kept
	changes "writing anew" anew sh -c 'echo new >"$0"'
	t_is "$WHO: mode kept" "$(stat -c %a "$TREE/anew")" 640
	changes "truncating" trunc truncate -s 3
	changes "chmod" mode chmod 0600
	changes "setxattr" xattr setfattr -n user.mark -v other
	changes "a mapping" map python3 -c '
import mmap, sys
with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m: m[0:3] = b"THE"'
	changes "sed -i" sed sed -i s/main/own/

	pair times
	# touch(1) opens it for writing first, which counts as a change.
	ok "utimensat" "${AS[@]}" python3 -c 'import os, sys; os.utime(sys.argv[1])' \
		"$VIEW/times"
	t_is "$WHO: utimensat: still one file" "$(stat -c %h "$TREE/times")" 2
	pair read
	ok "reading" "${AS[@]}" cat "$VIEW/read"
	t_is "$WHO: reading: still one file" "$(stat -c %h "$TREE/read")" 2

	pair opened
	t_is "$WHO: who has it open keeps the old file" "$("${AS[@]}" sh -c '
		exec 3<"$1"; echo more >>"$1"; cat <&3' - "$VIEW/opened")" \
		"the main text"

	# Holes stay holes.
	truncate -s 1M "$MAIN/holes"
	printf x >>"$MAIN/holes"
	ln "$MAIN/holes" "$TREE/holes"
	as_them
	ok "a sparse file" "${AS[@]}" sh -c 'printf y >>"$0"' "$VIEW/holes"
	t_is "$WHO: its size" "$(stat -c %s "$TREE/holes")" 1048578
	t_ok "$WHO: it is sparse still" test "$(stat -c %b "$TREE/holes")" -lt 64

	pair nameless
	as_them
	t_errno EXDEV "$WHO: no new link out of main" "${AS[@]}" ln \
		"$DIR/view/main/nameless" "$VIEW/new"
	ok "a link within the tree" "${AS[@]}" sh -c \
		'echo a >"$0/a" && ln "$0/a" "$0/b"' "$VIEW"
	t_is "$WHO: nothing else is left in the tree" \
		"$(find "$TREE" -name '.worktreefs*' | wc -l)" 0
	ok "unmounts" t_unmount "$DIR/view"
}

denies() {
	mounted deny
	pair denied
	before=$(portrait "$MAIN/denied")
	t_errno EROFS "$WHO: writing is refused" "${AS[@]}" sh -c \
		'echo more >>"$0"' "$VIEW/denied"
	t_errno EROFS "$WHO: so is truncating" "${AS[@]}" truncate -s 0 \
		"$VIEW/denied"
	ok "a file with one name is free" "${AS[@]}" sh -c \
		'echo x >"$0/free" && echo y >>"$0/free"' "$VIEW"
	ok "another may take the name" "${AS[@]}" sh -c \
		'echo x >"$0/other" && mv "$0/other" "$0/denied"' "$VIEW"
	t_is "$WHO: main has what it had" "$(portrait "$MAIN/denied")" "$before"
	ok "unmounts" t_unmount "$DIR/view"
}

allows() {
	mounted allow
	pair allowed
	as_them
	ok "writing" "${AS[@]}" sh -c 'echo more >>"$0"' "$VIEW/allowed"
	t_is "$WHO: main's file is the same one" \
		"$(tail -n 1 "$MAIN/allowed")" more
	ok "unmounts" t_unmount "$DIR/view"
}

prepare root
breaks
denies
allows
if [ -n "$T_USER" ]; then
	# The files are the user's own, as in a checkout of his.
	pair() {
		"${AS[@]}" sh -c '
			printf "the main text\n" >"$1" && chmod 0640 "$1"
			setfattr -n user.mark -v kept "$1" 2>/dev/null
			touch -d "2020-02-02 02:02:02.123456789" "$1"
			ln "$1" "$2"' - "$MAIN/$1" "$TREE/$1"
	}
	prepare user "${T_AS_USER[@]}"
	breaks
	denies
	allows
fi
t_done

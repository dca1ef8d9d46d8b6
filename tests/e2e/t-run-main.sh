#!/bin/bash
# Ways to write to the main checkout from behind `mountctl run`, by every means
# and every spelling of a path: each is refused with EROFS (a link's source with
# EXDEV), and main is what it was. Each way works where nobody guards, or its
# refusal would prove nothing.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 patch
t_user_make || exit 1

# A name, what is said, and a script for bash, which starts in W and finds the
# trees in $M and $W; $A leads to bind mounts of them.
ways() {
	cat <<-'END'
		a redirect|EROFS|echo x >"$M/README.md"
		a redirect to a new file|EROFS|echo x >"$M/new"
		an appending redirect|EROFS|echo x >>"$M/README.md"
		noclobber|EROFS|set -C; echo x >"$M/new"
		tee|EROFS|echo x | tee "$M/README.md"
		dd|EROFS|dd if=/dev/null of="$M/README.md" conv=notrunc
		sed -i|EROFS|sed -i s/Sample/Other/ "$M/README.md"
		patch|EROFS|patch -p1 -d "$M" <p.diff
		cp|EROFS|cp Makefile "$M/README.md"
		cp of a new file|EROFS|cp Makefile "$M/new"
		cp of a tree|EROFS|cp -r src "$M/new"
		install|EROFS|install -m 0644 Makefile "$M/README.md"
		tar|EROFS|tar -cf - Makefile | tar -xf - -C "$M/docs"
		mv into main|EROFS|mv Makefile "$M/new"
		mv over a file of main|EROFS|mv -f Makefile "$M/README.md"
		mv out of main|EROFS|mv "$M/README.md" taken
		mv within main|EROFS|mv "$M/README.md" "$M/new"
		mv of a directory|EROFS|mv "$M/src" "$M/new"
		rm|EROFS|rm "$M/README.md"
		rm -f|EROFS|rm -f "$M/README.md"
		rm -r|EROFS|rm -r "$M/src"
		rmdir|EROFS|rmdir "$M/empty"
		mkdir|EROFS|mkdir "$M/new"
		mkdir -p|EROFS|mkdir -p "$M/src/a/b"
		mkfifo|EROFS|mkfifo "$M/new"
		ln|EROFS|ln "$M/README.md" "$M/new"
		ln of a file of main|EXDEV|ln "$M/README.md" taken
		ln -s|EROFS|ln -s README.md "$M/new"
		ln -sf|EROFS|ln -sf README.md "$M/guide"
		touch|EROFS|touch "$M/README.md"
		touch of a new file|EROFS|touch "$M/new"
		touch -d|EROFS|touch -d 2001-01-01 "$M/README.md"
		touch of a directory|EROFS|touch "$M/src"
		touch of the top|EROFS|touch "$M"
		touch -h|EROFS|touch -h "$M/guide"
		chmod|EROFS|chmod 0600 "$M/README.md"
		chmod of a directory|EROFS|chmod 0700 "$M/src"
		chmod of the top|EROFS|chmod 0700 "$M"
		chown|EROFS|chown "$(id -u):$(id -g)" "$M/README.md"
		truncate|EROFS|truncate -s 0 "$M/README.md"
		truncate, growing|EROFS|truncate -s +1 "$M/README.md"
		fallocate|EROFS|fallocate -l 1M "$M/README.md"
		an attribute|EROFS|python3 -c 'import os; os.setxattr("'"$M"'/README.md", "user.x", b"x")'
		open w|EROFS|python3 -c 'open("'"$M"'/README.md", "w")'
		open a|EROFS|python3 -c 'open("'"$M"'/README.md", "a")'
		open r+|EROFS|python3 -c 'open("'"$M"'/README.md", "r+")'
		open w+b|EROFS|python3 -c 'open("'"$M"'/README.md", "w+b")'
		open x|EROFS|python3 -c 'open("'"$M"'/new", "x")'
		O_RDONLY with O_TRUNC|EROFS|python3 -c 'import os; os.open("'"$M"'/README.md", os.O_TRUNC)'
		O_RDONLY with O_CREAT|EROFS|python3 -c 'import os; os.open("'"$M"'/new", os.O_CREAT)'
		O_TMPFILE|EROFS|python3 -c 'import os; os.open("'"$M"'", os.O_TMPFILE | os.O_RDWR)'
		os.truncate|EROFS|python3 -c 'import os; os.truncate("'"$M"'/README.md", 1)'
		os.replace|EROFS|python3 -c 'import os; os.replace("'"$M"'/README.md", "'"$M"'/docs/guide.txt")'
		a temporary file|EROFS|python3 -c 'import tempfile; tempfile.mkstemp(dir="'"$M"'")'
		a descriptor opened again|EROFS|exec 3<"$M/README.md"; echo x >/proc/self/fd/3
		a descriptor's mode|EROFS|python3 -c 'import os; os.fchmod(os.open("'"$M"'/README.md", 0), 0o600)'
		a descriptor's times|EROFS|python3 -c 'import os; os.utime(os.open("'"$M"'/README.md", 0))'
		a directory's descriptor|EROFS|python3 -c 'import os; os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=os.open("'"$M"'", 0))'
		git checkout|EROFS|git -C "$M" checkout -- .
		git restore|EROFS|git -C "$M" restore docs/guide.txt
		git apply|EROFS|git -C "$M" apply "$W/p.diff"
		git rm|EROFS|git -C "$M" rm -q --force README.md
		git clean|EROFS|git -C "$M" clean -fdq untracked
		git --work-tree|EROFS|cd /; git --git-dir="$M/.git" --work-tree="$M" checkout -qf HEAD
		a link to main|EROFS|echo x >to-main/README.md
		a link upwards|EROFS|echo x >upwards/README.md
		a link to a file|EROFS|echo x >to-file
		a link to nothing|EROFS|echo x >to-new
		a chain of links|EROFS|ln -s to-main chain; echo x >chain/README.md
		a link in /tmp|EROFS|d=$(mktemp -d); ln -s "$M" "$d/m"; echo x >"$d/m/README.md"; s=$?; rm -r "$d"; exit $s
		/proc/self/cwd/..|EROFS|echo x >/proc/self/cwd/../README.md
		/proc/self/root|EROFS|echo x >"/proc/self/root$M/README.md"
		/proc/PID/cwd|EROFS|(cd "$M" && exec sleep 1) & sleep 0.2; echo x >/proc/$!/cwd/README.md
		..|EROFS|echo x >../README.md
		.. amid a path|EROFS|echo x >src/../../README.md
		.. from further down|EROFS|cd src; echo x >../../README.md
		from above|EROFS|echo x >"$M/../main/README.md"
		doubled slashes|EROFS|echo x >"/$M//README.md"
		from the start upwards|EROFS|cd ..; echo x >README.md
		from the start far upwards|EROFS|cd ../..; echo x >main/README.md
		after cd|EROFS|cd "$M"; echo x >README.md
		after cd, further down|EROFS|cd "$M/src"; rm main.c
		after cd through a link|EROFS|cd to-main; echo x >README.md
		a child|EROFS|sh -c 'sh -c "echo x >\"$M/README.md\""'
		a child of xargs|EROFS|echo "$M/README.md" | xargs rm
		a child of find|EROFS|find "$M/src" -name main.c -delete
		a child of python|EROFS|python3 -c 'import subprocess; subprocess.run(["touch", "'"$M"'/new"], check=True)'
		a session of its own|EROFS|setsid -w sh -c 'echo x >"$M/README.md"'
		a background process|EROFS|(sleep 0.1; echo x >"$M/README.md") & wait $!
		an orphan|EROFS|(sh -c 'sleep 0.1; echo x >"$M/README.md"; echo $? >status' &); sleep 0.4; test "$(cat status)" = 0
	END
	[ -n "$A" ] || return 0
	cat <<-'END'
		a bind mount|EROFS|echo x >"$A/same/README.md"
		a bind mount, new file|EROFS|echo x >"$A/same/new"
		a bind mount from above|EROFS|echo x >"$A/above/main/README.md"
		a bind mount from below|EROFS|echo x >"$A/below/main.c"
		a bind mount of a file|EROFS|echo x >"$A/file"
		a bind mount, removing|EROFS|rm "$A/same/README.md"
		a bind mount, upwards|EROFS|cd "$A/same/wt"; echo x >../README.md
		a recursive bind mount|EROFS|echo x >"$A/whole/same/README.md"
	END
}

# Main, as a session finds it: with work of the user's in it.
make_repository() {
	s_repository || exit 1
	echo mine >>"$M/docs/guide.txt"
	echo mine >"$M/untracked"
	mkdir "$M/empty"
	sed 's/Sample/Patched/' "$M/README.md" |
		diff -u --label a/README.md "$M/README.md" \
			--label b/README.md - >"$W/p.diff"
	ln -s "$M" "$W/to-main"
	ln -s .. "$W/upwards"
	ln -s ../README.md "$W/to-file"
	ln -s ../new "$W/to-new"
	s_own "$M"
	# Of an age at which a change of the times shows.
	find "$M" -path "$W" -prune -o -path "$M/.git" -prune -o \
		-exec touch -h -d '2026-01-02 03:04:05.678' {} +
	s_as git -C "$M" update-index -q --refresh
}

# Needs root; for whoever acts.
make_aliases() {
	A=
	[ "$(id -u)" -eq 0 ] || return 0
	A=$BASE.alias
	mkdir -p "$A"/{same,above,below,whole}
	touch "$A/file"
	mount --bind "$M" "$A/same" && t_defer umount "$A/same" &&
		mount --bind "$BASE" "$A/above" && t_defer umount "$A/above" &&
		mount --bind "$M/src" "$A/below" &&
		t_defer umount "$A/below" &&
		mount --bind "$M/README.md" "$A/file" &&
		t_defer umount "$A/file" &&
		mount --rbind "$A" "$A/whole" &&
		mount --make-rprivate "$A/whole" &&
		t_defer umount -R "$A/whole" || exit 1
}

# All that git knows of main, too.
state() {
	t_fingerprint "$M" wt
	stat -c '%n %f %Y' "$M" "$M/.git/HEAD" "$M/.git/config"
	s_as git -C "$M" rev-parse HEAD main
	s_as git -C "$M" ls-files -s
	cat "$M/.git/HEAD" "$M/.git/config"
}

# In main, or in a copy where the same ways aren't guarded.
# shellcheck disable=SC2317 # called by way of t_errno
shell() {
	(cd "$W" && "$@" env "M=$M" "W=$W" "A=$A" bash -c "$script")
}

reset_worktree() {
	rm -rf "$W"/{taken,chain,status}
	cp -p "$T_SCRATCH/Makefile" "$W/Makefile"
	s_own "$W"
}

refuse_all() {
	local name errno script
	cp -p "$W/Makefile" "$T_SCRATCH/Makefile"
	while IFS='|' read -r name errno script <&3; do
		t_errno "$errno" "$who$1: $name" \
			shell s_mountctl run "${run_options[@]}" --
		reset_worktree
	done 3< <(ways)
	t_is "$who$1: main is what it was" "$(state)" "$before"
}

# The worktree is no part of main, whatever path leads to it.
pass_through_aliases() {
	[ -n "$A" ] || return 0
	local script="echo x >\"\$A/same/wt/x\" && cd \"\$A/above/main/wt\" &&
		mv x y && cmp \"\$A/same/README.md\" \"\$M/README.md\""
	t_ok "$who$1: the worktree is writable through a bind mount" \
		shell s_mountctl run "${run_options[@]}" --
	t_ok "$who$1: which the host sees" rm "$W/y"
}

outlive_the_command() {
	# shellcheck disable=SC2034 # for shell
	local script="(sleep 0.5; echo x >\"\$M/README.md\" 2>err
		echo \$? >status) >/dev/null 2>&1 &"
	t_ok "$who$1: a command ends before its background process" \
		shell s_mountctl run "${run_options[@]}" --
	t_not "$who$1: which has not written yet" test -e "$W/status"
	t_wait 10 test -s "$W/status"
	t_not "$who$1: and then can't" grep -qx 0 "$W/status"
	# A subshell's redirection fails with bash's own words.
	t_is "$who$1: main is what it was" "$(state)" "$before"
	rm -f "$W"/{err,status}
}

check() {
	local before
	make_repository
	make_aliases
	before=$(state)
	run_options=()
	refuse_all ""
	pass_through_aliases ""
	outlive_the_command ""
	run_options=(--native none)
	refuse_all ", all through FUSE"
	pass_through_aliases ", all through FUSE"
	s_clear "nothing is left"
}

# Each in a repository of its own; the answers don't matter, main's state does.
control() {
	local name errno script A='' n=0
	ways >"$T_SCRATCH/ways"
	s_be root control
	make_repository
	cp -a "$BASE" "$BASE.new"
	# shellcheck disable=SC2034 # for shell
	while IFS='|' read -r name errno script <&3; do
		rm -rf "$BASE"
		cp -a "$BASE.new" "$BASE"
		t_run shell timeout 60
		if [ "$T_STATUS" -ne 0 ]; then
			t_fail "control: $name"
			t_diag "$T_STDERR"
			continue
		fi
		n=$((n + 1))
	done 3<"$T_SCRATCH/ways"
	t_is "control: where nobody guards, all ways lead to main" \
		"$n" "$(wc -l <"$T_SCRATCH/ways")"
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check
done
control
t_done

#!/bin/bash
# Work in a view that `mountctl mount` has put at a path of its own: what may be
# changed through it, where git and symlinks lead, and what the host sees of it.
# (Where it is mounted, and what is refused: t-mount.sh.)
# shellcheck disable=SC2016 # what is quoted is expanded elsewhere
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git cc make python3 fusermount3
t_user_make || exit 1

ok() {
	t_ok "$who: $1" "${@:2}"
}

refused() {
	t_errno "$1" "$who: $2" "${@:3}"
}

same() {
	t_is "$who: $1" "$2" "$3"
}

# Mounts with these options; sets V, the worktree as seen, and N, main as seen.
mounts() {
	V=$(cd "$W" && s_mountctl mount "$@" 2>"$BASE/err") || {
		t_fail "$who: mount $*"
		t_diag "$(cat "$BASE/err")"
		exit 1
	}
	N=$RUN/wt/view
	t_defer s_unmount "$RUN"
}

# At the end, should the script be broken off.
# shellcheck disable=SC2317 # called by way of t_defer
s_unmount() {
	local mount
	awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' \
		/proc/self/mountinfo | sort -r | while read -r mount; do
		umount -l "$mount" 2>/dev/null ||
			fusermount3 -uz "$mount" 2>/dev/null
	done
}

unmounts() {
	ok "unmount" s_mountctl unmount wt
	s_clear "nothing is left"
}

# A script in the view of the worktree.
in_view() {
	s_as env "V=$V" "N=$N" "M=$M" "W=$W" sh -c "cd \"\$V\" && { $1
}"
}

host_git() {
	s_as git -C "$W" "$@"
}

refuses_main() {
	local how
	for how in 'echo x >../README.md' 'echo x >"$N/README.md"' \
		'echo x >"$N/new"' 'sed -i s/S/T/ "$N/README.md"' \
		'rm -f "$N/README.md"' 'mkdir "$N/new"' 'mv Makefile "$N/new"' \
		'mv "$N/README.md" taken' 'ln -s x "$N/new"' \
		'touch "$N/README.md"' 'chmod 600 "$N/README.md"' \
		'truncate -s 0 "$N/README.md"' 'cd ..; touch new' \
		'echo x >/proc/self/cwd/../README.md' \
		'git -C "$N" checkout -q -- docs/guide.txt' \
		'echo x >upwards/README.md' 'echo x >"$N/wt/../README.md"' \
		'python3 -c "open(\"../README.md\", \"r+\")"'; do
		refused EROFS "in the view: $how" in_view "$how"
	done
	refused EXDEV "in the view: a link's source" in_view 'ln ../README.md l'
	refused EROFS "in the view: the pointer" in_view 'echo x >.git'
	refused EROFS "in the view: its name" in_view 'rm -f .git'
	rm -f "$W/taken"
}

stays_in_the_view() {
	same "git's top is the view's" \
		"$(in_view 'git rev-parse --show-toplevel')" "$V"
	same "its directory, too" \
		"$(in_view 'git rev-parse --absolute-git-dir')" \
		"$N/.git/worktrees/wt"
	same "and the common one" \
		"$(in_view 'git rev-parse --path-format=absolute \
			--git-common-dir')" "$N/.git"
	same "from a directory further down" \
		"$(in_view 'cd src && git rev-parse --show-toplevel')" "$V"
	same "in main it is the view's main" \
		"$(in_view 'git -C .. rev-parse --show-toplevel')" "$N"
	same "the pointer says so" "$(cat "$V/.git" 2>/dev/null ||
		in_view 'cat .git')" "gitdir: $N/.git/worktrees/wt"
	same "and is as long as it says" "$(in_view 'stat -c %s .git')" \
		"$(in_view 'wc -c <.git')"
	same "on the host it is what it was" "$(cat "$W/.git")" \
		"gitdir: $M/.git/worktrees/wt"
}

works() {
	ok "edits" in_view 'echo four >>docs/guide.txt &&
		sed -i s/Sample/Example/ README.md && mkdir -p a/b &&
		mv bin/start a/b && ln README.md hard && ln -s a/b c'
	same "the host sees it" "$(tail -1 "$W/docs/guide.txt")$(
		head -1 "$W/README.md")$(stat -c %h "$W/hard")" \
		"four# Example2"
	ok "builds" in_view 'make -s && ./sample'
	same "the host has it" "$(s_as "$W/sample")" 42
	ok "commits" in_view 'git add -A && git commit -q -m "in the view"'
	same "the host has the commit" "$(host_git log -1 --format=%s)" \
		"in the view"
	same "its status is clean" "$(host_git status --porcelain)" ""
	same "and ours" "$(in_view 'git status --porcelain')" ""
	ok "git works as ever" in_view '
		git commit -q --amend -m amended &&
		echo x >x && git add x && git stash -q && git stash pop -q &&
		git commit -q -m x && git branch topic && git switch -q topic &&
		git commit -q --allow-empty -m topic && git switch -q wt &&
		git cherry-pick --allow-empty topic &&
		git merge -q --no-ff -m merged topic && git branch -q -D topic &&
		git rebase -q --force-rebase HEAD~2 && git tag -a -m v v1 &&
		git push -q origin HEAD v1 && git fetch -q && git gc -q &&
		git fsck'
	same "the remote has it" "$(s_as git -C "$BASE/remote.git" \
		rev-parse wt)" "$(host_git rev-parse HEAD)"
	same "nothing is wrong on the host" \
		"$(host_git fsck --no-dangling --no-progress 2>&1)" ""
	sleep 1.1
	ok "writes an index" in_view 'git update-index -q --really-refresh'
	same "on the host nothing has to be refreshed" \
		"$(host_git diff-files)" ""
	s_as sh -c 'cd "$1" && git update-index -q --really-refresh' - "$W"
	same "nor in the view" "$(in_view 'git diff-files')" ""
	s_as sh -c 'cd "$1" && git update-index -q --really-refresh' - "$M"
	same "nor in its main" "$(in_view 'git -C "$N" diff-files')" \
		"$(s_as git -C "$M" diff-files)"
	same "main is on its branch" "$(s_as git -C "$M" log -1 --format=%s)" \
		'sample: first files'
}

agrees_with_the_host() {
	local i numbers='find . -path "*/.git*" -prune -o ! -type d ! -type l \
		-printf "%p %i %m %n %s %b %T@ %C@ %U %G\n" | sort'
	same "stat says the same on both sides" "$(in_view "$numbers")" \
		"$(cd "$W" && s_as sh -c "$numbers")"
	for i in 1 2 3 4 5; do
		echo "$i" >"$W/host"
		s_own "$W/host"
		same "what the host writes is read ($i)" \
			"$(in_view 'cat host')" "$i"
		in_view "echo view$i >view"
		same "what the view writes is read ($i)" "$(cat "$W/view")" \
			"view$i"
	done
	echo longer than it was >"$W/host"
	same "also when it grows" "$(in_view 'cat host')" "longer than it was"
	rm "$W/host"
	sleep 1.1
	refused ENOENT "what the host removes is gone" in_view 'cat host'
	rm "$W/view"
}

# Targets that lead into the real root lead into the view.
links() {
	ln -s "$M/README.md" "$W/to-file"
	ln -s "$M" "$W/to-main"
	ln -s "$W/src" "$W/to-own"
	ln -s "$M/new" "$W/to-new"
	ln -s "${M}other" "$W/to-other"
	ln -s /etc/passwd "$W/to-etc"
	ln -s ../README.md "$W/to-relative"
	ln -s "$M/.git" "$W/to-git"
	s_own "$W"
	same "an absolute link to a file of main" \
		"$(in_view 'readlink to-file')" "$N/README.md"
	same "to main" "$(in_view 'readlink to-main')" "$N"
	same "to the worktree" "$(in_view 'readlink to-own')" "$V/src"
	same "to git's directory" "$(in_view 'readlink to-git')" "$N/.git"
	same "one that only begins alike" "$(in_view 'readlink to-other')" \
		"${M}other"
	same "one to elsewhere" "$(in_view 'readlink to-etc')" /etc/passwd
	same "a relative one" "$(in_view 'readlink to-relative')" ../README.md
	same "on the host they are what they were" "$(readlink "$W/to-file")" \
		"$M/README.md"
	local link
	for link in to-file to-main/README.md to-new to-relative \
		to-main/src/new; do
		refused EROFS "written through: $link" \
			in_view "echo x >'$link'"
	done
	ok "written through: the worktree" in_view 'echo x >to-own/x'
	same "on the host" "$(cat "$W/src/x")" x
	ok "made: an absolute link" in_view 'ln -s "$N/README.md" made &&
		test "$(readlink made)" = "$N/README.md"'
	rm -f "$W"/to-* "$W/made" "$W/src/x"
}

raw_links() {
	ln -s "$M/README.md" "$W/to-file"
	s_own "$W/to-file"
	mounts --symlinks=raw
	same "raw: a link reads as it is" "$(in_view 'readlink to-file')" \
		"$M/README.md"
	refused EROFS "raw: main is read-only all the same" \
		in_view 'echo x >../README.md'
	rm "$W/to-file"
	unmounts
}

given_rules() {
	mounts --rw docs --ro wt/src --none bin --shared more
	ok "--rw" in_view 'touch ../docs/new && rm ../docs/new'
	refused EROFS "--ro" in_view 'touch src/new'
	refused EACCES "--none" in_view 'cat ../bin/start'
	ok "--shared" in_view 'mkdir ../more && touch ../more/x'
	ok "the shared directory" in_view 'mkdir ../.vinta-ai-workflows &&
		touch ../.vinta-ai-workflows/x'
	rm -r "$M/more" "$M/.vinta-ai-workflows"
	unmounts
}

# A worktree beside main; each has a view, and they lead to each other.
outside() {
	local W=$BASE/out V N
	s_as git -C "$M" worktree add -q -b out "$W" || exit 1
	ln -s "$M/README.md" "$W/to-main"
	s_own "$W/to-main"
	V=$(cd "$W" && s_mountctl mount 2>/dev/null)
	N=$RUN/out/view
	same "outside: git's top is the view's" \
		"$(in_view 'git rev-parse --show-toplevel')" "$V"
	same "outside: its directory is in main's view" \
		"$(in_view 'git rev-parse --absolute-git-dir')" \
		"$N/.git/worktrees/out"
	same "outside: a link leads from one to the other" \
		"$(in_view 'readlink to-main')" "$N/README.md"
	refused EROFS "outside: main is read-only" \
		in_view 'echo x >to-main'
	refused EROFS "outside: by its view, too" in_view 'touch "$N/x"'
	refused EROFS "outside: the other worktree" in_view 'touch "$N/wt/x"'
	ok "outside: a commit lands" in_view 'rm to-main && echo x >x &&
		git add x && git commit -q -m outside'
	same "outside: on the host" "$(s_as git -C "$W" log -1 --format=%s)" \
		outside
	ok "outside: unmount" s_mountctl unmount out
	s_clear "outside: nothing is left"
}

# Whom else the kernel lets look. Needs root.
others() {
	mounts --at "$BASE/at"
	if [ "$who" = root ]; then
		ok "others look into root's view" t_as_user ls "$BASE/at/src"
		refused EACCES "and don't write where they may not" \
			t_as_user touch "$V/x"
	else
		refused EACCES "a user's view is closed, even to root" \
			ls "$BASE/at"
	fi
	unmounts
}

check_all() {
	s_repository || exit 1
	s_as git init -q --bare "$BASE/remote.git" &&
		s_as git -C "$M" remote add origin "$BASE/remote.git" &&
		ln -s .. "$W/upwards" || exit 1
	echo mine >>"$M/docs/guide.txt"
	before=$(t_fingerprint "$M" wt)
	mounts
	refuses_main
	same "main is what it was" "$(t_fingerprint "$M" wt)" "$before"
	rm "$W/upwards"
	stays_in_the_view
	works
	agrees_with_the_host
	links
	unmounts
	same "main is still what it was" "$(t_fingerprint "$M" wt)" "$before"
	raw_links
	given_rules
	outside
	[ "$(id -u)" -ne 0 ] || others
}

for somebody in $(s_everybody); do
	s_be "$somebody"
	check_all
done
t_done

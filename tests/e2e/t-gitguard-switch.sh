#!/bin/bash
# The user goes on working in main while a session lives: what he stands on is
# held from the moment that he does, and free once he has left it.
# shellcheck disable=SC2016 # scripts are expanded where they run
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

host() {
	s_as git -C "$M" "$@"
}

# The user's own commands have to work.
user_does() {
	local name=$1
	shift
	t_ok "$g_label: $name" host "$@"
}

value() {
	host rev-parse -q --verify "refs/heads/$1"
}

# Every way to move a branch, or to remove it.
moving='
	b=refs/heads/$B
	d=$(dirname "$G/$b")
	new=$(git rev-parse wt)
	git update-ref "$b" "$new"
	git update-ref -d "$b"
	git -c core.logAllRefUpdates=false update-ref "$b" "$new"
	mkdir -p "$d" && echo "$new" >"$G/$b"
	echo "$new" >"$G/$b.lock" && mv "$G/$b.lock" "$G/$b"
	rm -f "$G/$b.lock"
	rm -f "$G/$b"
	echo "ref: refs/heads/wt" >"$G/$b"
	ln -sf "$G/refs/heads/wt" "$G/$b"
	mkdir -p "$G/$b" && echo "$new" >"$G/$b/below"
	rm -f "$G/logs/$b"
	git pack-refs --all
	sed "s,.* $b$,$new $b," "$G/packed-refs" >"$G/held"
	mv "$G/held" "$G/packed-refs"
	rm -f "$G/held"
	true'

# held WHEN BRANCH...
held() {
	local when=$1 branch before
	shift
	for branch; do
		before=$(value "$branch")
		g_do "B=$branch; $moving"
		t_is "$g_label: $when, $branch is held" \
			"$(value "$branch")" "$before"
		t_not "$g_label: and nothing is made below it" \
			host rev-parse -q --verify "refs/heads/$branch/below"
	done
}

is_free() {
	local when=$1 branch before
	shift
	for branch; do
		before=$(value "$branch")
		g_do "git update-ref refs/heads/$branch wt"
		t_is "$g_label: $when, $branch is free" \
			"$(value "$branch")" "$(value wt)"
		g_do "git update-ref refs/heads/$branch $before"
	done
}

# G's own files of an operation can't be changed: state_held FILE...
state_held() {
	local file before
	for file; do
		before=$(sha256sum <"$G/$file")
		g_do "echo 'exec $C' >>'$G/$file'; rm -f '$G/$file'
			echo x >'$G/held'; mv '$G/held' '$G/$file'
			rm -f '$G/held'"
		t_is "$g_label: $file is held" "$(sha256sum <"$G/$file")" \
			"$before"
	done
}

switching() {
	held "at first" main sib
	is_free "at first" topic free
	user_does "git switch" switch -q topic
	held "after a switch" topic sib
	is_free "after a switch" main
	user_does "git commit" commit -q --allow-empty -m "by the user"
	user_does "git switch -c" switch -q -c feature/new
	held "on a new branch" feature/new
	user_does "a commit there" commit -q --allow-empty -m "on it"
	held "after a commit" feature/new
	user_does "git branch -m" branch -m feature/new feature/renamed
	held "after its renaming" feature/renamed
	user_does "git switch --detach" switch -q --detach
	g_do 'git update-ref --no-deref main-worktree/HEAD wt'
	t_is "$g_label: a detached HEAD is held" "$(host rev-parse HEAD)" \
		"$(value feature/renamed)"
	is_free "detached" feature/renamed main
	user_does "git switch to what is packed" switch -q main
	host pack-refs --all
	held "packed" main
	host branch -q -D feature/renamed
}

# A branch that isn't there yet is held, too.
unborn() {
	user_does "git symbolic-ref HEAD" symbolic-ref HEAD refs/heads/unborn
	g_do 'git update-ref refs/heads/unborn wt
		echo "$(git rev-parse wt)" >"$G/refs/heads/unborn"'
	t_not "$g_label: a branch without a commit stays so" value unborn
	host symbolic-ref HEAD refs/heads/main
	t_is "$g_label: nothing is changed by it" \
		"$(host status --porcelain -uno)" " M sub"
}

# One ref that leads to another.
symbolic() {
	host symbolic-ref refs/heads/alias refs/heads/free
	user_does "git symbolic-ref HEAD to an alias" \
		symbolic-ref HEAD refs/heads/alias
	held "behind an alias" free
	g_do 'git symbolic-ref refs/heads/alias refs/heads/wt'
	t_is "$g_label: and the alias itself" \
		"$(host symbolic-ref refs/heads/alias)" refs/heads/free
	host symbolic-ref HEAD refs/heads/main
	host symbolic-ref -d refs/heads/alias
}

# What was prepared while the branch was free: descriptors, mappings and names of
# the file that the ref is by then.
prepared() {
	local before name how
	before=$(value free)
	g_do 'echo "$(git rev-parse wt)" >"$G/refs/heads/free.lock"'
	t_is "$g_label: a free branch can be locked" "$T_STATUS" 0
	host symbolic-ref HEAD refs/heads/free
	g_do 'mv "$G/refs/heads/free.lock" "$G/refs/heads/free"'
	t_is "$g_label: a lock from before doesn't replace it" \
		"$(value free)" "$before"
	g_do 'rm -f "$G/refs/heads/free.lock"'
	host symbolic-ref HEAD refs/heads/main
	while IFS='|' read -r name how <&3; do
		prepare "$name" "$how"
	done 3< <(preparations)
	host update-ref refs/heads/free main
}

# NAME|python that leaves descriptors in fds, for a ref that is at the path ref.
preparations() {
	cat <<-'END'
		a descriptor of it|fds = [os.open(ref, os.O_RDWR)]
		a descriptor to append to it|fds = [os.open(ref, os.O_WRONLY | os.O_APPEND)]
		a descriptor of its lock|fds = [copy(ref + ".lock")]; os.rename(ref + ".lock", ref)
		a descriptor of a file that was moved there|fds = [copy(g + "/held")]; os.rename(g + "/held", ref)
		a descriptor of a file that was exchanged|fds = [copy(g + "/held")]; exchange(g + "/held", ref); os.unlink(g + "/held")
		a descriptor of a file that was linked there|fds = [copy(g + "/held")]; os.unlink(ref); os.link(g + "/held", ref); os.unlink(g + "/held")
		a descriptor of a file without a name that was linked there|fds = [os.open(g, os.O_TMPFILE | os.O_RDWR, 0o644)]; os.write(fds[0], open(ref, "rb").read()); os.unlink(ref); os.link(f"/proc/self/fd/{fds[0]}", ref, follow_symlinks=True)
		a descriptor of another name of it|os.link(ref, g + "/held"); fds = [os.open(g + "/held", os.O_RDWR)]; os.unlink(g + "/held")
		a descriptor of a reflog that was moved there|fds = [copy(g + "/logs/refs/heads/x")]; os.rename(g + "/logs/refs/heads/x", ref)
		a descriptor of another branch that was moved there|fds = [copy(g + "/refs/heads/x")]; os.rename(g + "/refs/heads/x", ref)
		a descriptor in a directory that was moved there|os.mkdir(g + "/refs/heads/d"); fds = [copy(g + "/refs/heads/d/free")]; os.rename(g + "/refs/heads/d", g + "/refs/heads/e"); os.rename(g + "/refs/heads/e/free", ref); os.rmdir(g + "/refs/heads/e")
		a descriptor of its reflog|fds = [os.open(log, os.O_RDWR)]
		a descriptor of a reflog's lock|fds = [copy(log + ".lock", log)]; os.rename(log + ".lock", log)
	END
}

# A process in the session that keeps what it has, and writes once the user has
# switched.
# shellcheck disable=SC2016 # expanded there
preparing='exec python3 - >/dev/null 2>"$E/error" <<-"END"
	import ctypes, mmap, os, time

	g, e = os.environ["G"], os.environ["E"]
	ref, log = g + "/refs/heads/free", g + "/logs/refs/heads/free"


	def copy(path, source=ref):
	    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
	    with open(source, "rb") as f:
	        os.write(fd, f.read())
	    return fd


	def exchange(a, b):
	    libc = ctypes.CDLL(None, use_errno=True)
	    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2) != 0:
	        raise OSError(ctypes.get_errno())


	def attempt(what, *arguments):
	    try:
	        what(*arguments)
	    except OSError:
	        pass


	def change(m):
	    m[0] = ord("0") if m[0] != ord("0") else ord("1")
	    m.flush()


	fds, maps = [], []
	try:
	    HOW
	    maps = [mmap.mmap(fd, 0) for fd in fds]
	except (OSError, ValueError):
	    pass
	if os.fork():
	    os._exit(0)
	open(e + "/ready", "w").close()
	for _ in range(400):
	    if os.path.exists(e + "/go"):
	        break
	    time.sleep(0.02)
	for m in maps:
	    attempt(change, m)
	for fd in fds:
	    attempt(os.pwrite, fd, b"0123", 0)
	    attempt(os.write, fd, b"x")
	    attempt(os.ftruncate, fd, 3)
	    attempt(os.posix_fallocate, fd, 0, 8192)
	for name in os.listdir(e):
	    if name in ("ready", "go"):
	        os.unlink(e + "/" + name)
	open(e + "/done", "w").close()
END'

prepare() {
	local name=$1 how=$2 before
	host update-ref refs/heads/free topic
	host update-ref refs/heads/free main
	g_do "${preparing//HOW/$how}"
	t_wait 10 test -e "$E/ready"
	before=$(sha256sum "$G/refs/heads/free" "$G/logs/refs/heads/free")
	host symbolic-ref HEAD refs/heads/free
	touch "$E/go"
	t_wait 20 test -e "$E/done"
	t_is "$g_label: nor does $name" \
		"$(sha256sum "$G/refs/heads/free" "$G/logs/refs/heads/free")" \
		"$before"
	[ ! -s "$E/error" ] || t_diag "$(cat "$E/error")"
	host symbolic-ref HEAD refs/heads/main
	rm -rf "$E"/{done,error} "$G/held" "$G/refs/heads"/{free,x,d,e} \
		"$G"/{refs,logs/refs}/heads/free.lock "$G"/logs/refs/heads/{free,x}
}

rebasing() {
	user_does "git switch" switch -q topic
	host branch -q stacked
	user_does "a commit" commit -q --allow-empty -m "one more"
	t_ok "$g_label: git rebase stops" s_as env \
		"GIT_SEQUENCE_EDITOR=sed -i '1i break'" \
		git -C "$M" -c rebase.updateRefs=true rebase -q -i \
		--keep-empty HEAD~2
	t_is "$g_label: with a detached HEAD" \
		"$(host symbolic-ref -q HEAD)" ""
	held "amid a rebase" topic
	[ ! -e "$G/rebase-merge/update-refs" ] ||
		held "amid a rebase that moves it, too" stacked
	state_held rebase-merge/git-rebase-todo rebase-merge/head-name \
		rebase-merge/onto
	g_do 'rm -rf "$G/rebase-merge"'
	user_does "git rebase --continue" rebase --continue
	t_is "$g_label: ends where it began" "$(host symbolic-ref -q HEAD)" \
		refs/heads/topic
	is_free "after it" stacked
	t_not "$g_label: git rebase with a conflict" \
		host rebase -q --onto topic HEAD left
	held "amid a conflict" left
	is_free "amid a conflict on another branch" topic
	user_does "git rebase --abort" rebase --abort
	user_does "git switch" switch -q main
	host branch -q -D stacked
	t_is "$g_label: it ran nothing of the session's" "$(g_planted)" ""
}

bisecting() {
	user_does "git switch" switch -q topic
	user_does "git bisect" bisect start HEAD HEAD~4
	held "amid a bisection" topic
	state_held BISECT_START BISECT_LOG refs/bisect/bad
	user_does "git bisect good" bisect good
	held "still" topic
	user_does "git bisect reset" bisect reset
	user_does "git switch" switch -q main
	is_free "after it" topic
}

# Worktrees that the user makes meanwhile.
new_worktrees() {
	user_does "git worktree add" worktree add -q -b later "$BASE/later"
	held "in a new worktree" later
	g_do 'echo x >"$G/worktrees/later/HEAD"
		echo x >"$G/worktrees/later/gitdir"
		rm -rf "$G/worktrees/later"'
	t_is "$g_label: and its own files" \
		"$(s_as git -C "$BASE/later" symbolic-ref HEAD)" \
		refs/heads/later
	user_does "git worktree remove" worktree remove "$BASE/later"
	is_free "without it" later
	# The name of one of the session's own, which the user makes anew.
	g_do 'git worktree add -q --detach "$E/x"'
	t_is "$g_label: the session has one of its own" "$T_STATUS" 0
	user_does "git worktree remove" worktree remove "$E/x"
	user_does "git worktree add" worktree add -q -b x "$BASE/x"
	held "in one of the same name" x
	g_do 'echo x >"$G/worktrees/x/HEAD"'
	t_ok "$g_label: which the session has no business in" \
		s_as git -C "$BASE/x" status
	user_does "git worktree remove" worktree remove "$BASE/x"
}

# The user merges, with a conflict, and goes on.
merging() {
	t_not "$g_label: git merge has a conflict" host merge -q left
	state_held MERGE_HEAD MERGE_MSG index
	g_do 'git -C "$M" merge --abort'
	t_ok "$g_label: the merge is still on" test -e "$G/MERGE_HEAD"
	user_does "git merge --abort" merge --abort
}

check() {
	g_repository || exit 1
	g_run --native auto
	switching
	unborn
	symbolic
	prepared
	rebasing
	bisecting
	new_worktrees
	merging
	g_stop
	g_goes_on ""
	s_clear "nothing is left"
}

for somebody in $(s_everybody); do
	g_be "$somebody"
	check
done
t_done

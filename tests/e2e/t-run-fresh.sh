#!/bin/bash
# What the host does to git's directory while a session lives is seen in it at
# once, and the other way round: packs, objects, refs, files that are replaced;
# and three that work on one repository at the same time.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3
t_user_make || exit 1

same() {
	t_is "$who: $1" "$2" "$3"
}

# One process in the session that answers: what it has seen, it has cached.
# ask COMMAND... prints what the command says; its status is lost.
start_asking() {
	rm -f "$BASE"/{questions,answers}
	mkfifo "$BASE/questions" "$BASE/answers"
	s_own "$BASE/questions" "$BASE/answers"
	exec 7<>"$BASE/questions" 8<>"$BASE/answers"
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run "${run_options[@]}" -- \
		env "M=$M" bash -c 'while read -r line; do
			eval "$line"
			printf "\\0"
		done' <&7 >&8 2>&1 7>&- 8>&-) &
	asked=$!
	t_defer s_end "$asked"
}

ask() {
	local answer
	tr '\n' ';' <<<"$1" >&7
	echo >&7
	IFS= read -r -d '' -t 60 answer <&8
	printf '%s' "$answer" | sed '${/^$/d}'
}

stop_asking() {
	printf 'exit\n' >&7
	wait "$asked"
	exec 7>&- 8>&-
}

# A command in main, by the host.
host() {
	(cd "$M" && s_as sh -c "$1")
}

sees_packs() {
	local i
	for i in 1 2 3 4 5 6; do
		ask 'git cat-file -t main^{tree}; git rev-parse main
			ls $M/.git/objects/pack' >/dev/null
		host "echo $i >h && git add h && git commit -q -m $i"
		same "a commit of the host's is there ($i)" \
			"$(ask 'git log -1 --format=%s main')" "$i"
		host 'git gc -q'
		same "its pack is listed ($i)" \
			"$(ask 'ls ../.git/objects/pack')" \
			"$(ls "$M/.git/objects/pack")"
		same "and its objects are in it ($i)" \
			"$(ask 'git cat-file -t main^{tree}')" tree
		same "all of them ($i)" "$(ask \
			'git fsck --no-dangling --no-progress 2>&1')" ""
	done
}

# A directory that was removed and made anew is another.
sees_directories() {
	local i object
	for i in 1 2 3 4 5; do
		object=$(echo "new $i" | s_as git -C "$M" hash-object -w --stdin)
		local dir=$M/.git/objects/${object:0:2}
		same "an object is there ($i)" \
			"$(ask "git cat-file -p $object")" "new $i"
		ask "ls -l $dir" >/dev/null
		rm -r "$dir"
		t_like "$who: it is gone with its directory ($i)" \
			"$(ask "git cat-file -p $object 2>&1")" '^fatal'
		echo "new $i" | s_as git -C "$M" hash-object -w --stdin >/dev/null
		same "it is there again with another ($i)" \
			"$(ask "git cat-file -p $object")" "new $i"
		rm -f "$M/.git/objects/${object:0:2}/${object:2}"
		ask "echo new $i | git hash-object -w --stdin" >/dev/null
		same "what the host removed is written again ($i)" \
			"$(s_as git -C "$M" cat-file -p "$object")" "new $i"
	done
}

# Files that are replaced by renaming, of another length.
sees_replacements() {
	local i name text
	for name in objects/info/commit-graph objects/info/packs packed-refs \
		refs/heads/other worktrees/wt/ORIG_HEAD config info/exclude; do
		for i in 1 2 3; do
			text=$(printf "%$((i * 37))s" "$i" | tr ' ' "$i")
			[ "$name" != config ] || continue
			[[ $name != */* ]] || mkdir -p "$M/.git/${name%/*}"
			cp -p "$M/.git/$name" "$BASE/saved" 2>/dev/null
			printf '%s\n' "$text" >"$M/.git/new"
			s_own "$M/.git/new"
			mv "$M/.git/new" "$M/.git/$name"
			same "$name, replaced, is read ($i)" \
				"$(ask "cat ../.git/$name")" "$text"
			same "its size, too ($i)" \
				"$(ask "stat -c %s ../.git/$name")" \
				$((i * 37 + 1))
			printf '%s\n' "$i" >>"$M/.git/$name"
			same "$name, grown, is read ($i)" \
				"$(ask "cat ../.git/$name")" \
				"$(printf '%s\n%s' "$text" "$i")"
			if [ -e "$BASE/saved" ]; then
				mv "$BASE/saved" "$M/.git/$name"
			else
				rm "$M/.git/$name"
				same "$name, removed, is gone ($i)" "$(ask \
				"test -e ../.git/$name || echo gone")" gone
			fi
		done
	done
}

sees_refs() {
	local i
	for i in 1 2 3 4; do
		host "git branch b$i && git tag t$i"
		same "a branch of the host's is there ($i)" \
			"$(ask "git rev-parse b$i t$i | uniq | wc -l")" 1
		host "git pack-refs --all"
		same "packed, too ($i)" \
			"$(ask "git rev-parse b$i t$i | uniq | wc -l")" 1
		host "git branch -q -D b$i && git tag -d t$i >/dev/null"
		same "and gone ($i)" "$(ask "git for-each-ref | wc -l")" 2
		ask "git branch own$i && git commit -q --allow-empty -m own$i"
		same "one of the session's is there for the host ($i)" \
			"$(s_as git -C "$M" rev-parse "own$i")" \
			"$(s_as git -C "$M" rev-parse 'wt^')"
		s_as git -C "$M" branch -q -D "own$i"
		same "and gone for the session ($i)" \
			"$(ask "git rev-parse -q --verify own$i || echo gone")" \
			gone
		host 'git worktree add -q ../new && git worktree remove ../new &&
			git branch -q -D new'
	done
}

# Commits, clean-ups and branches in two sessions and on the host.
work='
	cd "$1" || exit 1
	n=0
	end=$((SECONDS + 10))
	while [ $SECONDS -lt $end ]; do
		n=$((n + 1))
		echo $n >"f$((n % 5))"
		# Whoever cleans up may have a ref locked, or an empty
		# directory for objects removed.
		for try in 1 2 3 4 5; do
			git add -A "f$((n % 5))" && git commit -q -m "$n" && break
			[ $try -lt 5 ] || exit 1
			sleep 0.1
		done
		git log --oneline | wc -l >log
		[ "$(cat log)" -gt "$n" ] || { echo "log: $n" >&2; exit 1; }
		if [ $((n % 7)) = 0 ]; then
			git branch "$2$n" && git branch -q -D "$2$n"
		fi
		if [ $((n % 9)) = 0 ]; then
			# Another one may be at it.
			git gc -q 2>&1 | grep -v "already running" >&2
		fi
	done
	echo $n
'
work_together() {
	local i pids=() counts
	s_as git -C "$M" worktree add -q "$BASE/two" || exit 1
	(cd "$W" && s_mountctl run "${run_options[@]}" -- \
		bash -c "$work" - "$W" one) >"$BASE/out.1" 2>"$BASE/err.1" &
	pids+=($!)
	(cd "$BASE/two" && s_mountctl run "${run_options[@]}" -- \
		bash -c "$work" - "$BASE/two" two) \
		>"$BASE/out.2" 2>"$BASE/err.2" &
	pids+=($!)
	s_as bash -c "$work" - "$M" host >"$BASE/out.3" 2>"$BASE/err.3" &
	pids+=($!)
	for i in 0 1 2; do
		wait "${pids[i]}"
		same "three at once: status of $i" $? 0 ||
			t_diag "$(tail "$BASE/err.$((i + 1))")"
	done
	# That a lock is taken, or a ref has moved on, is a complaint of git's
	# that it has without a guard, too.
	same "three at once: none of them misses anything" \
		"$(cat "$BASE"/err.? | grep -v 'refs/heads/[a-z]*[0-9]' |
			grep -iE -e 'bad (object|tree)' \
			-e 'valid (object|branch)|could not (read|parse)' \
			-e 'unable to read|corrupt|invalid sha1|missing|BUG' \
			-e '^log')" ""
	counts="$(cat "$BASE/out.1") $(cat "$BASE/out.2") $(cat "$BASE/out.3")"
	t_diag "commits: $counts"
	same "three at once: nothing is wrong in the end" \
		"$(s_as git -C "$M" fsck --no-dangling --no-progress 2>&1)" ""
	same "three at once: nothing is lost" "$(for i in wt two main; do
		s_as git -C "$M" log --format=%s "refs/heads/$i" | grep -E '^[0-9]+$' |
			sort -n | tail -1
	done | xargs)" "$counts"
}

# Where times advance by ticks, as on every file system of older kernels, two
# changes may have the same. Needs root, for a file system of that kind.
LISTINGS=$T_SCRATCH/listings
cat >"$LISTINGS" <<'PYTHON'
import os, subprocess, sys

inside = """
import os, sys
for line in sys.stdin:
    print(" ".join(os.listdir(line.strip())), flush=True)
"""
directory = sys.argv[1]
session = subprocess.Popen(sys.argv[2:] + ["python3", "-c", inside],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)

def listing():
    session.stdin.write(directory + "\n")
    session.stdin.flush()
    return session.stdout.readline().split()

def touch(name):
    os.close(os.open(f"{directory}/{name}", os.O_CREAT | os.O_WRONLY))

stale = 0
for i in range(100):
    touch("one")
    stale += "one" not in listing()
    touch("two")
    stale += "two" not in listing()
    os.unlink(f"{directory}/one")
    os.unlink(f"{directory}/two")
    stale += "two" in listing()
print(stale)
PYTHON

lists_anew() {
	local dir
	s_be root coarse
	mkdir -p "$M" && mount -t ramfs none "$M" && t_defer umount "$M" &&
		s_repository || exit 1
	for dir in refs/heads objects/pack; do
		same "no listing is of before ($dir)" "$(cd "$W" && timeout 60 \
			python3 "$LISTINGS" "$M/.git/$dir" "$T_MOUNTCTL" \
			run --)" 0
	done
	s_clear "nothing is left of listings"
}

check() {
	s_be "$1" "$1-fresh$2"
	run_options=()
	[ -z "$2" ] || run_options=(--native none)
	s_repository || exit 1
	s_own "$BASE"
	start_asking
	sees_packs
	sees_directories
	sees_refs
	sees_replacements
	stop_asking
	s_clear "nothing is left"
	s_be "$1" "$1-together$2"
	s_repository || exit 1
	work_together
	s_clear "nothing is left of three at once"
}

for somebody in $(s_everybody); do
	check "$somebody" ""
done
check user -fuse
[ "$(id -u)" -ne 0 ] || lists_anew
t_done

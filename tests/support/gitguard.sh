# shellcheck shell=bash
# What the end-to-end tests of the git guard share. Source it after session.sh.
#
#   g_be root|user [DIR]    s_be, and the names below
#     G, A, S, E              M/.git; W's admin directory; a sibling worktree's
#                             directory; what the session has of its own, with
#                             the program $C in it
#   g_repository            makes M with worktrees, a remote, a submodule,
#                           stash entries, hooks: see there
#   g_listing               all of G that a session has no business with, one
#                           line a name and one a file's bytes
#   g_objects               names of all objects
#   g_save, g_restore       keeps all of $BASE; puts back what has changed
#   g_run OPTION...         starts a session behind run, g_view one in a view
#                           elsewhere, g_host a shell that nobody guards
#   g_do SCRIPT             bash there, in W, with M, W, G, A, S, E, C, BASE and
#                           SYSOP set; sets T_STATUS, T_STDOUT, T_STDERR
#   g_stop                  ends it
#   g_goes_on WHEN          points: the user's own next commands in M and in W
#   g_planted               what $C wrote, if somebody ran it
#   g_control_table TABLE, g_guarded_table TABLE   see there

# shellcheck disable=SC2034 # for the scripts
G='' A='' S='' E='' C='' SYSOP=$T_BUILD/tests/sysop g_label=''
g_pid='' g_restorer='' g_restart=() g_read_only=$(t_message EROFS)

# shellcheck disable=SC2154 # session.sh has them
g_be() {
	s_be "$@"
	g_restorer=
	g_names
	g_label=$who
	if ! "${as[@]}" test -x "$SYSOP"; then
		mkdir -p "$T_SCRATCH/bin"
		cp "$SYSOP" "$T_SCRATCH/bin/"
		SYSOP=$T_SCRATCH/bin/sysop
	fi
}

g_names() {
	G=$M/.git
	A=$G/worktrees/wt
	S=$BASE/sib
	E=$BASE/own
	C=$E/canary
}

# What the guard is about, in a repository that is in use:
#   main      checked out in M; loose, and older in packed-refs
#   topic     a commit on top of main
#   left      disagrees with main about a.bin
#   free      nobody's
#   wt, sib   checked out in W and S; gone: in a worktree that is missing
# M has a submodule "sub" behind its upstream, an untracked file, a file whose
# attributes name the drivers "x", two stash entries, and commits and blobs that
# nothing but a reflog, or nothing at all, leads to.
g_repository() {
	t_repo "$M" && g_tools && s_own "$BASE" &&
		s_as env "BASE=$BASE" "M=$M" "${g_dates[@]}" \
			bash -e -c "$g_making"
}

# shellcheck disable=SC2016 # expanded there
g_making='
	commit() {
		git add -A . && git commit -q -m "$1"
	}
	cd "$M"
	git config alias.st status
	git config alias.zap "!echo zap >zapped"
	printf "/wt/\n/zapped\n" >>.git/info/exclude
	printf "*.bin filter=x diff=x merge=x\n" >.gitattributes
	printf "one\n" >a.bin
	commit attributes
	git checkout -q -b left
	printf "three\n" >a.bin
	commit "another a.bin"
	git checkout -q main
	printf "two\n" >a.bin
	commit "a.bin"

	git init -q --bare -b main "$BASE/remote.git"
	git remote add origin "$BASE/remote.git"
	git push -q -u origin main

	git init -q -b main "$BASE/lib"
	git -C "$BASE/lib" config user.name Author
	git -C "$BASE/lib" config user.email a@example.invalid
	for i in one two three; do
		echo $i >"$BASE/lib/$i"
		git -C "$BASE/lib" add .
		git -C "$BASE/lib" commit -q -m $i
	done
	git -c protocol.file.allow=always submodule --quiet add ../lib sub
	git -C sub checkout -q HEAD^
	git -C sub config user.name Tester
	git -C sub config user.email tester@example.invalid
	commit "a submodule"

	git branch free
	git pack-refs --all
	echo lost >lost
	commit "only in the reflog"
	git reset -q --hard HEAD^
	echo "in no ref" | git hash-object -w --stdin >"$BASE/dangling"
	echo more >>README.md
	commit more
	git push -q origin main
	git tag v1

	git checkout -q -b topic main
	echo topic >topic
	commit topic
	git checkout -q main
	for i in 1 2; do
		echo "stashed $i" >README.md
		GIT_COMMITTER_DATE="2026-01-0${i}T03:00:00Z" \
			GIT_AUTHOR_DATE="2026-01-0${i}T03:00:00Z" \
			git stash push -q -m "stash $i"
	done

	git worktree add -q -b sib "$BASE/sib"
	git worktree add -q -b gone "$BASE/gone"
	rm -r "$BASE/gone"
	printf "#!/bin/sh\nexit 0\n" >.git/hooks/pre-commit
	chmod +x .git/hooks/pre-commit
	git worktree add -q -b wt "$M/wt"
	printf "work\n" >wt/work
	git -C wt add .
	git -C wt commit -q -m work
	git -C sub checkout -q HEAD^
	echo x >untracked
	# lines of reflogs that are older than a month may go
	sed -i "s/> 1767[0-9]* /> $(($(date +%s) - 100)) /" .git/logs/HEAD \
		.git/logs/refs/heads/main
	# git writes some lines of reflogs otherwise when it writes them again
	git reflog expire --expire=never --expire-unreachable=never --all
	git status >/dev/null
'

# A program that tells that it was run, hooks that are it, and more that a
# session could have prepared for others to use.
g_tools() {
	local name
	mkdir -p "$E/hooks"
	cat >"$C" <<-END
		#!/bin/sh
		echo "\${0##*/} \$*" >>"$BASE/planted"
	END
	chmod 0755 "$C"
	cp "$C" "$E/git-remote-planted"
	while read -r name; do
		cp "$C" "$E/hooks/$name"
	done < <(g_hooks)
	printf '[core]\n\tfsmonitor = %s\n' "$C" >"$E/config"
	git init -q --bare -b main "$E/evil.git"
	cp "$C" "$E/evil.git/hooks/pre-receive"
	# A git directory like M's, but for its config.
	mkdir -p "$E/common/refs" "$E/common/objects"
	cp "$E/config" "$E/common/config"
	echo 'ref: refs/heads/main' >"$E/common/HEAD"
}

g_hooks() {
	printf '%s\n' applypatch-msg pre-applypatch post-applypatch pre-commit \
		pre-merge-commit prepare-commit-msg commit-msg post-commit \
		pre-rebase post-checkout post-merge pre-push pre-receive \
		update proc-receive post-receive post-update \
		reference-transaction push-to-checkout pre-auto-gc \
		post-rewrite sendemail-validate fsmonitor-watchman \
		p4-changelist post-index-change
}

g_listing() {
	(
		cd "$G" || exit 1
		{
			find . \( "${g_not_listed[@]}" \) -prune -o \
				-printf '%p %y %m %l\n'
			find . \( "${g_not_listed[@]}" \) -prune -o \
				-type f -exec sha256sum {} +
			[ ! -L objects/info/alternates ] &&
				[ ! -e objects/info/alternates ] ||
				echo objects/info/alternates
		} | sort
	)
}

# The committer's and author's date, where two repositories are to be alike.
g_dates=()

g_not_listed=(
	-path ./objects -o -path ./refs/remotes -o -path ./logs/refs/remotes -o
	-path ./worktrees/wt -o -path ./refs/heads/wt -o
	-path ./logs/refs/heads/wt -o -path ./info/refs
)

# The same where refs may be packed, or reflogs expire that are nobody's: what
# stays is what the refs say.
g_meaning() {
	grep -vE '\./(refs/|packed-refs|logs/refs/heads/(free|left|topic)$)' \
		<<<"$g_before" >"$BASE.meaning"
	g_listing | grep -vE \
		'\./(refs/|packed-refs|logs/refs/heads/(free|left|topic)$)' |
		diff "$BASE.meaning" -
	g_refs | diff "$BASE.refs" -
}

g_refs() {
	s_as git -C "$M" for-each-ref \
		--format='%(objectname) %(symref) %(refname)' |
		grep -vE ' refs/(heads/wt$|remotes/)'
}

g_objects() {
	s_as git -C "$M" cat-file --batch-all-objects \
		--batch-check='%(objectname)' | sort
}

g_save() {
	rm -rf "$BASE.saved"
	cp -a "$BASE" "$BASE.saved"
}

g_restore() {
	local answer
	if [ -z "$g_restorer" ]; then
		mkfifo "$BASE.ask" "$BASE.answer"
		python3 "$T_SRC/tests/support/restore.py" "$BASE.saved" \
			"$BASE" "$BASE.ask" "$BASE.answer" &
		g_restorer=$!
		t_defer s_end "$g_restorer"
	fi
	echo >"$BASE.ask"
	read -r -t 60 answer <"$BASE.answer" && [ "$answer" = restored ] ||
		exit 1
}

g_planted() {
	[ ! -e "$BASE/planted" ] || cat "$BASE/planted"
}

# One script after the other, each ended by NUL, to bash; statuses come back.
# shellcheck disable=SC2016 # expanded there
g_driver='
	cd "$W" || exit
	while IFS= read -r -d "" script; do
		timeout -k 5 60 bash -c "$script" </dev/null \
			>"$BASE.out" 2>"$BASE.err"
		echo "$?"
	done'

# What scripts find in their environment. g_m: where M is for them.
g_with=()
g_words() {
	g_with=(
		"${as[@]}" env "M=${g_m:-$M}" "W=${g_w:-$W}"
		"G=${g_m:+$g_m/.git}" "A=${g_m:+$g_m/.git/worktrees/wt}"
		"S=$S" "E=$E" "C=$C" "BASE=$BASE" "SYSOP=$SYSOP"
	)
	[ -n "${g_m:-}" ] || g_with+=("G=$G" "A=$A")
}

# g_drive COMMAND...: COMMAND is to start bash as the words after it say.
g_drive() {
	touch "$BASE.out" "$BASE.err"
	s_own "$BASE.out" "$BASE.err"
	g_words
	coproc g_session {
		cd "$W" && exec "${g_with[@]}" "$@" bash -c "$g_driver" 2>"$BASE.session"
	}
	# shellcheck disable=SC2154 # coproc sets it
	g_pid=$g_session_PID
	t_defer s_end "$g_pid"
	g_do true
	if [ "$T_STATUS" -ne 0 ]; then
		t_fail "$g_label: a session starts"
		t_diag "$(cat "$BASE.session")"
		exit 1
	fi
}

g_run() {
	g_restart=(g_run "$@")
	g_drive "$T_MOUNTCTL" run "$@" --
}

g_host() {
	g_restart=(g_host)
	g_drive timeout 600
}

g_view() {
	local g_w g_m
	g_restart=(g_view "$@")
	g_w=$(cd "$W" && s_mountctl mount "$@" 2>"$BASE.session") || {
		t_fail "$g_label: a view is mounted"
		t_diag "$(cat "$BASE.session")"
		exit 1
	}
	g_m=${g_w%/*}
	t_defer g_unmount "$g_w"
	g_drive timeout 600
}

# Again: nothing.
g_unmount() {
	s_mountctl unmount --lazy "$1" 2>/dev/null
}

g_do() {
	T_STATUS=lost T_STDOUT='' T_STDERR=''
	printf '%s\0' "$1" >&"${g_session[1]}"
	read -r -t 180 T_STATUS <&"${g_session[0]}" || T_STATUS=lost
	if [ "$T_STATUS" = lost ]; then
		t_fail "$g_label: the session lives on"
		t_diag "after: $1"
		exit 1
	fi
	g_read
}

g_read() {
	read -r -d '' T_STDOUT <"$BASE.out"
	read -r -d '' T_STDERR <"$BASE.err"
}

g_stop() {
	s_end "$g_pid"
	wait "$g_pid" 2>/dev/null
	case ${g_restart[0]} in
	g_run) t_wait 5 s_is_clear ;;
	g_view) s_mountctl unmount "$W" 2>/dev/null ;;
	esac
}

# What a user does next, whatever was done behind the guard: 0 if all of it
# works.
g_user_works() {
	s_as env "M=$M" "W=$W" bash -c "$g_working" </dev/null \
		>"$BASE.works" 2>&1
}

# Two points: he can, and runs nothing of the session's.
g_goes_on() {
	if g_user_works; then
		t_pass "$g_label: the user goes on$1"
	else
		t_fail "$g_label: the user goes on$1"
		t_diag "$(tail -5 "$BASE.works")"
	fi
	t_is "$g_label: and runs nothing of the session's$1" "$(g_planted)" ""
}

# shellcheck disable=SC2016 # expanded there
g_working='
	set -e
	reads() {
		git status
		git log -p -3
		git log --show-signature -1
		git diff
		git diff --cached HEAD^
		git branch -vv
		git stash list -p
		git worktree list
	}
	cd "$M"
	reads
	echo more >>docs/guide.txt
	git diff
	git add docs/guide.txt
	git commit -q -m "by the user"
	git push -q origin main
	git fetch -q origin
	git submodule status
	git fsck --no-dangling --no-progress
	git checkout -q -b another
	git checkout -q main
	git branch -q -d another
	cd "$W"
	reads
	git commit -q --allow-empty -m "by the user"'

# Where nobody guards, an attack hurts; behind the guard it doesn't. TABLE is a
# function that prints lines:
#
#   NAME|EXPECTED|HURT|SCRIPT
#
# EXPECTED of the script behind the guard: EROFS (it fails and says so), fails,
# any; packs is any, and only the meaning counts (g_meaning). HURT: "-": g_listing changes; "git": git itself refuses, so that there is
# nothing to be shown where nobody guards; otherwise bash, run as the user,
# that ends with 0 where it did hurt.
g_hurts() {
	case $1 in
	- | git) [ "$(g_listing)" != "$g_before" ] ;;
	*)
		g_words
		"${g_with[@]}" timeout 60 bash -c "$g_signs$1" </dev/null \
			>"$BASE.hurt" 2>&1
		;;
	esac
}

# shellcheck disable=SC2016 # expanded there
g_signs='
	git() {
		command git -C "$M" "$@"
	}
	stash_lost() {
		test "$(git stash list | wc -l)" != 2
	}
	head_lost() {
		! git cat-file -p HEAD
	}
	object_lost() {
		! git cat-file -p "$(cat "$BASE/dangling")"
	}
	objects_unlisted() {
		! git fsck
	}
	object_to_come_lost() {
		echo "to come" | git hash-object -w --stdin
		! git cat-file -p "$(echo "to come" | git hash-object --stdin)"
	}
	history_lost() {
		test "$(git rev-list --count HEAD)" -lt 5
	}
	read_me_lost() {
		! git diff --quiet HEAD -- README.md
	}
	replaced() {
		git log -1 --format=%s main | grep -qx topic
	}
	'

g_unguarded() {
	g_words
	T_STATUS=0
	(cd "$W" && exec "${g_with[@]}" timeout -k 5 60 bash -c "$1") </dev/null \
		>"$BASE.out" 2>"$BASE.err" || T_STATUS=$?
	g_read
}

g_control_table() {
	local name expected hurt script n=0 all=0
	g_save
	g_before=$(g_listing)
	while IFS='|' read -r name expected hurt script <&3; do
		[ "$hurt" != git ] || continue
		all=$((all + 1))
		g_restore
		g_unguarded "$script"
		if g_hurts "$hurt"; then
			n=$((n + 1))
		else
			t_fail "unguarded it hurts: $name"
			t_diag "status $T_STATUS: $T_STDERR"
		fi
	done 3< <("$1")
	g_restore
	t_is "unguarded, all of $1 hurt" "$n" "$all"
}

g_as_expected() {
	case $1 in
	EROFS)
		[ "$T_STATUS" -ne 0 ] &&
			[[ $T_STDERR$T_STDOUT =~ EROFS|"$g_read_only" ]]
		;;
	fails) [ "$T_STATUS" -ne 0 ] ;;
	any | packs) true ;;
	*) false ;;
	esac
}

# Each change is put back, so that one doesn't follow from another.
g_guarded_table() {
	local name expected hurt script change
	[ -e "$BASE.saved" ] || g_save
	g_before=$(g_listing)
	g_refs >"$BASE.refs"
	while IFS='|' read -r name expected hurt script <&3; do
		g_do "$script"
		g_judge
	done 3< <("$1")
}

# The verdict on what g_do has done.
g_judge() {
	local after change='' bad='' tried=''
	g_as_expected "$expected" || bad="wanted: $expected"
	after=$(g_listing)
	if [ "$after" != "$g_before" ]; then
		change=$(diff <(echo "$g_before") <(echo "$after"))
		[ "$expected" != packs ] || change=$(g_meaning)
	fi
	case $hurt in
	- | git) ;;
	*)
		! g_hurts "$hurt" || bad+=" it hurts: $(head -5 "$BASE.hurt")"
		tried=1 # what it tries may change a remote repository
		;;
	esac
	if [ -z "$bad$change" ]; then
		t_pass "$g_label: $name"
	else
		t_fail "$g_label: $name"
		[ -z "$bad" ] || t_diag "$bad"
		t_diag "status $T_STATUS: ${T_STDOUT:0:1000}${T_STDERR:0:1000}"
		t_diag "${change:0:3000}"
	fi
	if [ -n "$bad$tried" ] || [ "$after" != "$g_before" ] ||
		[ "$(g_listing)" != "$g_before" ]; then
		g_restore
		g_before=$(g_listing)
	fi
}

#!/bin/sh
# Installs what is missing, builds, and shows the guard at work.
# See usage() below.
set -u

setup_src=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
# shellcheck source=mountctl/setup.sh
. "$setup_src/mountctl/setup.sh"

usage() {
	cat <<-'END'
		usage: sh mountctl/demo.sh [--repo DIR] [-- COMMAND...]

		  --repo DIR  show it on a temporary worktree of this repository,
		              which is left as it was; default: a scratch
		              repository
		  COMMAND     then run this behind the guard, in that worktree
	END
}

repo=
while [ $# -gt 0 ]; do
	case $1 in
	--repo)
		if [ $# -lt 2 ]; then
			usage >&2
			exit 2
		fi
		repo=$2
		shift
		;;
	--repo=*) repo=${1#--repo=} ;;
	-h | --help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	*)
		echo "demo.sh: what is $1?" >&2
		usage >&2
		exit 2
		;;
	esac
	shift
done

if [ -n "$repo" ] && [ ! -d "$repo" ]; then
	echo "demo.sh: $repo isn't a directory" >&2
	exit 2
fi

# shellcheck disable=SC2119 # without the tests' packages
setup_packages && setup_libfuse && setup_build "$setup_src/build" || exit 1
mountctl=$setup_src/build/mountctl/mountctl

# shellcheck disable=SC2046 # one word a variable
unset $(git rev-parse --local-env-vars)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/worktreefs-demo-XXXXXX") || exit 1
scratch=$(cd "$scratch" && pwd -P) || exit 1
worktree=$scratch/demo-$$
mkdir -m 0700 "$scratch/run" || exit 1
main=

# Nobody's hooks, signatures or clean-ups: what is shown is the guard.
quiet_git() {
	git -c core.hooksPath=/dev/null -c commit.gpgSign=false -c gc.auto=0 \
		-c maintenance.auto=false -c advice.detachedHead=false "$@"
}

# shellcheck disable=SC2317 # a trap
finish() {
	trap '' INT TERM HUP
	cd /
	if [ -n "$repo" ] && [ -n "$main" ] && [ -e "$worktree" ]; then
		# Twice: also if a session that was killed had locked it.
		quiet_git -C "$main" worktree remove --force --force \
			"$worktree"
	fi
	rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

die() {
	echo "demo.sh: $*" >&2
	exit 1
}

scratch_repository() {
	mkdir "$main" && cd "$main" && git init -q -b main . &&
		git config user.name Demo &&
		git config user.email demo@example.invalid &&
		printf 'The quick brown fox.\n' >story.txt &&
		git add story.txt &&
		quiet_git commit -q -m 'A story' && cd /
}

# The main checkout that DIR belongs to.
main_checkout() (
	cd "$repo" || return 1
	common=$(cd "$(git rev-parse --git-common-dir)" && pwd -P) || return 1
	own=$(cd "$(git rev-parse --git-dir)" && pwd -P) || return 1
	if [ "$common" = "$own" ]; then
		git rev-parse --show-toplevel
	else
		git worktree list --porcelain | sed -n '1s/^worktree //p'
	fi
) 2>/dev/null

# All that could tell of a change in the main checkout.
state_of_main() {
	git -C "$main" rev-parse HEAD
	git -C "$main" symbolic-ref -q HEAD
	git --no-optional-locks -C "$main" status --porcelain=v2 \
		--untracked-files=all
	sha256sum <"$(git -C "$main" rev-parse --path-format=absolute \
		--git-path index)"
	[ -n "$repo" ] || sha256sum "$main"/*
}

if [ -z "$repo" ]; then
	main=$scratch/main
	scratch_repository || die "cannot make a repository in $scratch"
else
	main=$(main_checkout)
	[ -n "$main" ] || die "$repo isn't in a repository with a main checkout"
	git -C "$main" rev-parse -q --verify 'HEAD^{commit}' >/dev/null ||
		die "$main has no commit to make a worktree of"
fi
before=$(state_of_main)
quiet_git -C "$main" worktree add -q --detach "$worktree" ||
	die "cannot make a worktree of $main"

wrong=0
say() {
	printf '%s\n' "$*"
}

expect() {
	if [ "$1" = yes ]; then
		say "   as it should be: $2"
	else
		say "   WRONG, expected: $2"
		wrong=$((wrong + 1))
	fi
	say ""
}

# Where records and logs are for as long as this takes.
scratch_mountctl() {
	XDG_RUNTIME_DIR=$scratch/run XDG_STATE_HOME=$scratch/state \
		"$mountctl" "$@"
}

shown() {
	[ -z "$output" ] || printf '%s\n' "$output" | sed 's/^/   /'
}

# Runs a shell command behind the guard and shows both, output indented. It
# finds the two trees in $M and $W, and mountctl in $PATH.
guarded() {
	printf '   $ %s\n' "$1" | sed '2,$s/^ */     /'
	output=$(scratch_mountctl run --main "$main" --worktree "$worktree" -- \
		env LC_ALL=C M="$main" W="$worktree" \
		PATH="$(dirname "$mountctl"):$PATH" \
		GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.invalid \
		GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.invalid \
		GIT_CONFIG_COUNT=3 \
		GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null \
		GIT_CONFIG_KEY_1=commit.gpgSign GIT_CONFIG_VALUE_1=false \
		GIT_CONFIG_KEY_2=gc.auto GIT_CONFIG_VALUE_2=0 \
		sh -c "$1" 2>&1)
	status=$?
	shown
}

# Is the twin of what was refused named?
names_twin() {
	twin=no
	case $output in
	*"$worktree/$new"*) twin=yes ;;
	esac
	expect "$twin" "$1"
}

refused() {
	case $status:$output in
	0:*) expect no "$1" ;;
	*"Read-only file system"*) expect yes "$1" ;;
	*) expect no "$1" ;;
	esac
}

new=worktreefs-demo-$$.txt
session=demo-$$
say ""
say "M, the main checkout:  $main"
say "W, its worktree:       $worktree"
say "Each command runs as:  mountctl run --main M --worktree W -- COMMAND"
say ""

say "1. A write to the main checkout, by its absolute path"
guarded "echo oops >\"\$M/$new\""
refused "refused with EROFS, Read-only file system"
if [ -e "$main/$new" ]; then
	rm -f "$main/$new"
	die "the guard doesn't hold: the file was written (and removed again)"
fi
if [ "$status" -eq 125 ]; then
	die "the guard couldn't be set up, so there is nothing to show"
fi

say "2. The same by other means"
guarded "cp /etc/passwd \"\$M/$new\""
refused "refused"
guarded "python3 -c 'import os; open(os.environ[\"M\"] + \"/$new\", \"w\")'"
refused "refused"
if [ -z "$repo" ]; then
	guarded "sed -i s/fox/wolf/ \$M/story.txt"
	refused "refused"
fi

say "3. Where it should have gone, as the user is told afterwards"
say "   \$ mountctl log $session"
output=$(scratch_mountctl log "$session" 2>&1)
shown
names_twin "each refusal names the path in the worktree that was meant"

say "4. The same, as an agent is told that asks its hook before it writes"
guarded "cd \"\$W\" && mountctl hook <<END
{\"hook_event_name\": \"PreToolUse\", \"tool_name\": \"Write\",
 \"cwd\": \"\$W\", \"tool_input\": {\"file_path\": \"\$M/$new\"}}
END"
# With any other status a harness would go on.
[ "$status" -eq 2 ] || output="status $status, not 2"
names_twin "denied, with the path to use instead"

say "5. A write and a commit in the worktree"
guarded "cd \"\$W\" && echo 'Work of a session.' >$new &&
git add $new && git commit -q -m 'Work of a session' &&
git log --oneline -1"
landed=no
commit=$(git -C "$worktree" rev-parse HEAD)
[ "$status" -ne 0 ] ||
	[ "$(git -C "$main" show "$commit:$new" 2>&1)" != \
		"Work of a session." ] || landed=yes
expect "$landed" "both landed; outside, git finds commit $(
	printf '%.10s' "$commit")"

say "6. The main checkout afterwards"
say "   \$ git -C \"\$M\" status --short"
git --no-optional-locks -C "$main" status --short | sed 's/^/   /'
untouched=no
[ "$(state_of_main)" != "$before" ] || untouched=yes
expect "$untouched" "HEAD, index, files: what they were before"

if [ "$wrong" -gt 0 ]; then
	say "$wrong of the expectations were wrong."
	exit 1
fi
say "All as it should be."
[ $# -gt 0 ] || exit 0

say ""
say "Now behind the guard, in the worktree: $*"
(cd "$worktree" && "$mountctl" run -- "$@")
status=$?
last=$(git -C "$worktree" rev-parse HEAD)
if [ "$last" != "$commit" ] && [ -n "$repo" ]; then
	say "The worktree goes; the command's commits stay, for now:" \
		"git branch NAME $last"
fi
[ "$(state_of_main)" = "$before" ] ||
	die "the main checkout isn't what it was before"
exit "$status"

#!/bin/bash
# The demonstration of the README, on a scratch repository and on one that
# there is. What it says "WRONG" to makes it fail.
# shellcheck disable=SC2016 # expanded behind the guard
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need git python3

# shellcheck disable=SC2317 # called by way of t_ok
demo() {
	# The build is there already; under load even that takes time.
	timeout -k 10 900 sh "$T_SRC/mountctl/demo.sh" "$@"
}

M=$T_SCRATCH/main
t_repo "$M" || exit 1
git -C "$M" config user.name Somebody
git -C "$M" config user.email somebody@example.invalid
echo changed >>"$M/README.md"
echo new >"$M/untracked"
before=$(t_fingerprint "$M")

t_ok "on a scratch repository" demo
t_like "all is as it should be" "$T_STDOUT" '^All as it should be'
t_like "log names the twin" "$T_STDOUT" \
	'sh\[.*create +EROFS .*/main/(.*\.txt) -> .*/demo-[0-9]+/\1$'
t_like "so does the hook" "$T_STDOUT" 'in this worktree it is .*: use that path'

t_status 7 "on a repository with changes, and with a command" \
	demo --repo "$M" -- sh -c 'echo at work; echo x >"$0/x"; exit 7' "$M"
t_like "all is as it should be there, too" "$T_STDOUT" '^All as it should be'
t_like "the command works behind the guard" "$T_STDOUT" '^at work$'
t_like "and is refused" "$T_STDERR" 'Read-only file system'
t_is "the repository is as it was" "$(t_fingerprint "$M")" "$before"
t_is "so are its worktrees" "$(git -C "$M" worktree list | wc -l)" 1
t_is "and no branch was made" "$(git -C "$M" branch | wc -l)" 1

t_status 2 "a repository that isn't there" demo --repo "$T_SCRATCH/missing"
t_status 2 "an option that isn't there" demo --fast
t_done

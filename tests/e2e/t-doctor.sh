#!/bin/bash
# `mountctl doctor`: what it says of a machine that has everything, and of one
# that lacks something, each with the cause and the mend; of repositories; and
# that asking changes nothing.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need cc git python3 unshare setpriv mount
t_user_make || exit 1

cc -std=gnu11 -D_GNU_SOURCE -o "$T_SCRATCH/without-userns" \
	"$T_SRC/tests/support/without-userns.c" || exit 1
without=()

# In W, in a surrounding that may lack something; $directory is another place.
doctor() {
	(cd "${directory:-$W}" && s_as "${without[@]}" "$T_MOUNTCTL" doctor "$@")
}

# STATUS NAME: asks, and keeps the answer for value and shows.
asked() {
	t_status "$1" "$who: $2: it ends with $1" doctor --json
	t_is "$who: $2: nothing on stderr" "$T_STDERR" ""
	python3 -c '
import json, sys
d = json.load(sys.stdin)
for check in d.pop("checks"):
    print(check.pop("name"), "%s %s | %s" % (check.pop("status"),
        check.pop("detail"), check.pop("mend")), *check, sep="\t")
for name in d:
    print(name, d[name], sep="\t")
' <<<"$T_STDOUT" >"$T_SCRATCH/answer"
}

# NAME: a member of the answer, or "STATUS DETAIL | MEND" of each check of that
# name.
value() {
	sed -n "s/^$1\t//p" "$T_SCRATCH/answer"
}

# NAME CHECK REGEX: how a check came out.
shows() {
	t_like "$who: $1" "$(value "$2")" "$3"
}

check_all_there() {
	local before
	before=$(s_mounts)
	asked 0 "a machine that has everything"
	t_is "$who: the schema's version" "$(value schema_version)" 1
	t_is "$who: the tier" "$(value tier)" enforced
	t_is "$who: nothing fails" "$(value '[a-z-]*' | grep '^fail')" ""
	t_is "$who: each check has three members and a name" \
		"$(awk -F '\t' 'NF != 2' "$T_SCRATCH/answer")" ""
	shows "namespaces" user-namespaces '^ok .*nested'
	shows "mounts" mount-api '^ok '
	shows "attributes of mounts" mount-attributes '^ok '
	shows "the filter" system-call-filter '^ok '
	shows "the device" fuse-device '^ok .*mode is 0666'
	shows "FUSE in a namespace" fuse-mount '^ok '
	shows "passthrough" fuse-passthrough '^ok '
	shows "io_uring" fuse-io-uring '^ok .*offered'
	shows "the filesystem" worktreefs "^ok '/.*worktreefs'"
	shows "git" git '^ok git version'
	shows "watches" watches 'max_user_watches is [0-9]+'
	shows "open files" open-files '[0-9]+|unlimited'
	shows "the repository" repository "^ok main checkout '$M'"
	shows "the worktree" repository "^ok this is the worktree '$W'"
	shows "its pointers" worktrees '^ok 1, '
	shows "its links" hard-links '^ok '
	if [ "$who" = root ]; then
		shows "what a namespace costs" namespace-cost '^ok none'
	else
		shows "what a namespace costs" namespace-cost 'sudo'
	fi
	t_is "$who: no mount is left" "$(s_mounts)" "$before"
	s_clear "asking leaves nothing"
}

check_for_people() {
	local text
	text=$(doctor)
	t_is "$who: a line a check: its status, its name" "$(grep -cvE \
		'^((ok  |warn|fail)  [a-z0-9-]+ +[^ ]|  +mend: [^ ]|(run|mount)  |$)' \
		<<<"$text")" 0
	t_like "$who: the tier of run" "$text" '^run +enforced'
	t_like "$who: the tier of mount" "$text" '^mount +(view|none)'
	t_status 2 "$who: an operand is wrong" doctor here
	t_status 2 "$who: an option is unknown" doctor --bogus
	t_like "$who: --help" "$("$T_MOUNTCTL" doctor --help)" '^usage: .*--json'
}

# What may be lacking

check_no_namespaces() {
	without=(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces &&
		exec setpriv --bounding-set=-sys_admin "$@"' -)
	asked 1 "no namespaces allowed"
	t_is "$who: the tier is none" "$(value tier)" none
	shows "no namespaces: cause and mend" user-namespaces \
		'^fail .*max_user_namespaces is 0 \| as root: sysctl -w'
	shows "no namespaces: so mounts can't be tried" mount-api '^warn not tried'
	t_like "$who: no namespaces: people are told the mend" \
		"$(doctor)" '^ +mend: as root: sysctl -w user.max_user_namespaces'
	without=("$T_SCRATCH/without-userns")
	if [ "$who" = root ]; then
		asked 0 "a filter in force"
		shows "a filter: root makes do" user-namespaces \
			'^warn .*mount namespace'
		shows "a filter: FUSE is mounted all the same" fuse-mount '^ok '
	else
		asked 1 "a filter in force"
		shows "a filter: cause and mend" user-namespaces \
			'^fail .*seccomp.* \| start the container with'
	fi
	without=()
}

check_no_device() {
	local plain=("${as[@]}")
	as=()
	: >"$BASE/fuse"
	chmod 0600 "$BASE/fuse"
	without=(unshare -m sh -c 'mount --bind "$0" /dev/fuse && exec "$@"'
		"$BASE/fuse" "${plain[@]}")
	if [ "$who" = root ]; then
		asked 1 "a device that is none"
		shows "a device that is none" fuse-mount '^fail '
	else
		asked 1 "a device of root's"
		shows "a device of root's: cause and mend" fuse-device \
			'^fail .*/dev/fuse.* \| .*0600.*chmod 0666 /dev/fuse'
		shows "a device of root's: namespaces can be had" \
			user-namespaces '^ok '
	fi
	t_is "$who: no device: the tier is none" "$(value tier)" none
	without=(unshare -m sh -c 'mount --bind /dev/null "$0" &&
		mount -t tmpfs none /dev && touch /dev/null &&
		mount --bind "$0" /dev/null && exec "$@"'
		"$BASE/fuse" "${plain[@]}")
	asked 1 "no device at all"
	shows "no device at all: cause and mend" fuse-device \
		'^fail .*No such file.* \| .*modprobe fuse'
	without=()
	as=("${plain[@]}")
}

check_no_programs() {
	without=(env WORKTREEFS_BIN=/nonexistent)
	asked 1 "no filesystem"
	shows "no filesystem" worktreefs "^fail .*'/nonexistent'"
	without=(env PATH=/nonexistent)
	asked 1 "no git"
	shows "no git: cause and mend" git '^fail .*PATH \| install git'
	if [ "$who" != root ]; then
		shows "no helper: only mount needs it" fusermount3 \
			'^warn .*run.* \| .*fuse3'
		t_is "$who: no helper: no mount" "$(value mount)" none
	fi
	without=()
}

check_environment() {
	without=(env WORKTREEFS=off)
	asked 1 "WORKTREEFS=off"
	shows "WORKTREEFS=off" environment '^fail .* \| unset WORKTREEFS'
	without=(env WORKTREEFS_FALLBACK=none)
	asked 0 "a fallback"
	shows "a fallback" environment '^warn .* \| unset'
	without=(prlimit --nofile=256:256)
	asked 0 "few files"
	shows "few files" open-files '^warn 256 .* \| .*limits.conf'
	without=()
}

check_inside() {
	without=("$T_MOUNTCTL" run -n around --)
	asked 0 "inside run"
	shows "inside run: which session" session "^ok .*'around'"
	shows "inside run: namespaces" user-namespaces '^ok '
	shows "inside run: FUSE" fuse-mount '^ok '
	without=()
	s_clear "inside run: nothing is left"
}

# Repositories

check_repositories() {
	directory=$BASE/gaps
	mkdir "$directory"
	s_own "$directory"
	asked 0 "no repository"
	shows "no repository" repository '^ok none here'

	directory=$M
	cp "$M/.git/config" "$BASE/config"
	s_as git -C "$M" config core.bare true
	asked 0 "bare by mistake"
	shows "bare by mistake: and how to mend it" git-guard \
		'^warn NO MAIN CHECKOUT.* \| .*core.bare false'
	s_as git -C "$M" config core.bare false
	s_as git -C "$M" config core.hooksPath .hooks
	asked 0 "hooks in the worktree"
	shows "hooks in the worktree" git-config "^warn core.hooksPath is '.hooks'"
	s_as git -C "$M" config --unset core.hooksPath
	s_as git -C "$M" config extensions.worktreeConfig true
	s_as git -C "$M" config core.worktree "$M"
	asked 0 "a split config"
	shows "a split config: a key that counts everywhere" git-config \
		"^warn .*'core.worktree'.* \| git -C"
	cp "$BASE/config" "$M/.git/config"
	s_own "$M/.git/config"

	s_as git -C "$M" worktree add -q -b gone "$BASE/gone"
	rm -r "$BASE/gone"
	asked 0 "a worktree that is gone"
	shows "a worktree that is gone" worktrees \
		"^warn 1 of 2 .*'$BASE/gone' \| .*prune"
	s_as git -C "$M" worktree prune

	echo "gitdir: $BASE/nowhere" >"$BASE/forged"
	directory=$BASE/linked
	mkdir "$directory"
	cp "$BASE/forged" "$directory/.git"
	s_own "$directory"
	asked 1 "a pointer that leads nowhere"
	shows "a pointer that leads nowhere" repository "^fail .*linked/.git"
	directory=
}

check_links() {
	ln "$M/docs/guide.txt" "$W/linked.txt"
	asked 0 "a hard link"
	shows "a hard link is found" hard-links \
		"^warn 1 .*'$W/linked.txt' is '$M/docs/guide.txt' \| cp -p"
	directory=$M
	asked 0 "a hard link, asked in main"
	shows "a hard link is found from main" hard-links \
		"^warn 1 .*'$W/linked.txt'"
	directory=
	ln "$W/linked.txt" "$W/linked-2.txt"
	rm "$W/linked.txt"
	ln "$W/README.md" "$W/README.copy"
	asked 0 "links"
	shows "links within the worktree are no matter" hard-links \
		"^warn 1 .*'$W/linked-2.txt'"
	rm "$W/linked-2.txt" "$W/README.copy"
}

check_reftable() {
	directory=$BASE/reftable
	mkdir "$directory"
	s_own "$directory"
	if ! s_as git init -q --ref-format=reftable "$directory" 2>/dev/null; then
		t_skip "$who: a repository with reftable" "git can't make one"
		s_as git init -q "$directory"
		mkdir "$directory/.git/reftable"
	fi
	asked 0 "reftable"
	shows "reftable: what isn't held" git-guard '^warn .*reftable.*held'
	directory=
}

# Side doors

check_doors() {
	local runtime=$T_SCRATCH/runtime
	[ "$who" = user ] || return 0
	mkdir -p "$runtime/podman" "$runtime/systemd"
	python3 - "$runtime/podman/podman.sock" "$runtime/systemd/private" <<-'END'
		import socket, sys
		for path in sys.argv[1:]:
		    socket.socket(socket.AF_UNIX).bind(path)
	END
	chmod 0700 "$runtime"
	chmod 0666 "$runtime/podman/podman.sock" "$runtime/systemd/private"
	s_own "$runtime"
	without=(env XDG_RUNTIME_DIR="$runtime")
	asked 0 "sockets"
	shows "a container service" sockets "^warn $runtime/podman/podman.sock: "
	shows "a service manager" user-services "^warn $runtime/systemd/private: "
	without=()
	rm -r "$runtime"
	asked 0 "no sockets"
	shows "none of these" user-services '^ok '
}

check_group() {
	local gid plain=("${as[@]}")
	[ "$(id -u)" -eq 0 ] && [ "$who" = user ] || return 0
	gid=$(getent group disk | cut -d: -f3)
	if [ -z "$gid" ]; then
		t_skip "$who: a group" "there is no group disk"
		return
	fi
	as=()
	without=(setpriv "--reuid=$T_USER" "--regid=$(id -g "$T_USER")"
		--groups "$gid" "${plain[@]:4}")
	asked 0 "a group"
	shows "a group" groups '^warn disk: '
	without=()
	as=("${plain[@]}")
}

for who in $(s_everybody); do
	s_be "$who"
	s_repository || exit 1
	check_all_there
	check_for_people
	check_no_namespaces
	if [ "$(id -u)" -eq 0 ]; then
		check_no_device
	else
		t_skip "no device" "takes root to hide it"
	fi
	check_no_programs
	check_environment
	check_inside
	check_repositories
	check_links
	check_reftable
	check_doors
	check_group
done
t_done

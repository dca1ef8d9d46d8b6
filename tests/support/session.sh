# shellcheck shell=bash
# What the end-to-end tests of sessions share. Source it after lib.sh.
#
#   s_be root|user [DIR]    who acts from here on, and below $T_SCRATCH/DIR
#                           (default: root or user): sets
#     who, as, BASE           a word for names of points, the words before a
#                             command, the directory
#     M, W                    $BASE/main and $BASE/main/wt
#     RUN, STATE              where this user's records and logs are
#   s_everybody             prints root and user; user alone where the script
#                           isn't root's
#   s_own PATH...           gives what root has made to who acts
#   s_repository            makes M and its worktree W, owned by who acts
#   s_as COMMAND...         runs it as who acts, with a time limit
#   s_mountctl ARG...       mountctl likewise
#   s_guarded COMMAND...    `mountctl run -- COMMAND` in W; options of run come
#                           from the array run_options
#   s_hold NAME OPTION...   starts a session of this name that lives until
#                           s_release; its process is $s_holder
#   s_in NAME COMMAND...    runs a command in it
#   s_records               names of the sessions that have a record
#   s_processes             pids of live filesystem processes of who acts
#   s_server NAME           prints the pid of a session's filesystem process
#   s_is_dead PID           for t_wait: that process is gone, or nearly
#   s_clear NAME            a point: no record, no process, no mount is left
#   s_mounts                the host's mount table, without what isn't ours

# shellcheck disable=SC2034 # for the scripts
who='' as=() BASE='' M='' W='' RUN='' STATE='' run_options=() s_holder=''

# Who runs the scripts looks into repositories of the user's, too. (The user's
# own configuration is in $T_USER_HOME, and untouched.)
if [ "$(id -u)" -eq 0 ]; then
	git config --file "$HOME/.gitconfig" safe.directory '*'
fi

s_be() {
	who=$1
	BASE=$T_SCRATCH/${2:-$1}
	M=$BASE/main
	W=$M/wt
	as=()
	RUN=$XDG_RUNTIME_DIR/worktreefs
	STATE=$HOME/.local/state/worktreefs
	if [ "$who" != root ]; then
		as=("${T_AS_USER[@]}")
		RUN=$T_USER_RUN/worktreefs
		STATE=$T_USER_HOME/.local/state/worktreefs
	fi
	mkdir -p "$BASE"
	s_own "$BASE"
}

s_everybody() {
	[ "$(id -u)" -ne 0 ] || echo root
	echo user
}

s_own() {
	if [ "$(id -u)" -eq 0 ] && [ "$who" != root ]; then
		chown -hR "$T_USER:" "$@"
	fi
}

s_repository() {
	t_repo "$M" && t_worktree "$M" "$W" && s_own "$M" &&
		s_as git -C "$M" update-index -q --refresh &&
		s_as git -C "$W" update-index -q --refresh
}

s_as() {
	timeout -k 5 "${s_limit:-60}" "${as[@]}" "$@"
}

s_mountctl() {
	s_as "$T_MOUNTCTL" "$@"
}

s_guarded() {
	(cd "$W" && s_mountctl run "${run_options[@]}" -- "$@")
}

s_hold() {
	local name=$1
	shift
	(cd "$W" && exec "${as[@]}" "$T_MOUNTCTL" run -n "$name" "$@" -- \
		sleep 300) &
	s_holder=$!
	t_defer s_end "$s_holder"
	t_wait 10 test -e "$RUN/$name/session.json"
}

s_end() {
	kill "$1" 2>/dev/null
}

s_release() {
	s_end "$s_holder"
	wait "$s_holder" 2>/dev/null
	t_wait 5 s_is_clear
}

s_in() {
	local name=$1
	shift
	(cd "$W" && s_mountctl run -n "$name" -- "$@")
}

s_records() {
	[ ! -d "$RUN" ] || find "$RUN" -mindepth 1 -maxdepth 1 -printf '%f\n' |
		sort
}

# Zombies don't count: whoever is the machine's first process may not reap.
s_processes() {
	local pid uid
	uid=$(s_as id -u)
	grep -lx worktreefs /proc/[0-9]*/comm | cut -d/ -f3 |
		while read -r pid; do
			[ "$(stat -c %u "/proc/$pid")" = "$uid" ] || continue
			grep -qzxF "T_SCRATCH=$T_SCRATCH" \
				"/proc/$pid/environ" || continue
			grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" ||
				echo "$pid"
		done
} 2>/dev/null

s_server() {
	s_mountctl status "$1" --json |
		sed -n 's/^[[:space:]]*"pid":[[:space:]]*\([0-9]*\),$/\1/p' |
		head -n 1
}

s_is_dead() {
	[ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' \
		"/proc/$1/status"
} 2>/dev/null

s_mounts() {
	grep -E "fuse|$T_SCRATCH" /proc/self/mountinfo || true
}

s_is_clear() {
	[ -z "$(s_records)$(s_processes)" ] &&
		! grep -qF "fuse.worktreefs $T_SCRATCH" /proc/self/mountinfo &&
		! awk -v d="$T_SCRATCH/" 'index($5, d) == 1' \
			/proc/self/mountinfo | grep -q 'fuse\.worktreefs'
}

# A filesystem process ends a moment after its last user.
s_clear() {
	if t_wait 5 s_is_clear; then
		t_pass "$who: $1"
		return 0
	fi
	t_fail "$who: $1"
	t_diag "records: $(s_records | tr '\n' ' ')"
	t_diag "processes: $(s_processes | tr '\n' ' ')"
	t_diag "mounts: $(s_mounts)"
	t_diag "$(s_hold_outs)"
	return 1
}

# What the filesystem processes wait for, and who has a copy of a view's mount.
s_hold_outs() {
	local pid
	for pid in $(s_processes); do
		grep -H . "/proc/$pid/task"/*/wchan
		echo
		ls -l "/proc/$pid/fd"
		cat "/proc/$pid/fdinfo"/* | grep -i fuse
	done 2>/dev/null
	grep -lF "fuse.worktreefs $T_SCRATCH" /proc/[0-9]*/mountinfo \
		2>/dev/null | while IFS=/ read -r _ _ pid _; do
		echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	done 2>/dev/null
}

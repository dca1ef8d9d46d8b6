#!/bin/bash
# A file includes only what stands on a lower floor, and its own header. A file
# that is on no floor yet gets a line in the table; docs/architecture.md tells
# what the floors are.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

# Lowest first; the files of a floor don't include each other, but for those
# that are joined by a "+", which are one module in two files.
floors() {
	cat <<-'END'
		00 fs/lib/cleanup fs/lib/path
		01 fs/lib/fileio fs/lib/policy fs/lib/process fs/lib/ready
		02 fs/lib/gitrun fs/lib/spec fs/lib/wire
		03 fs/lib/explain fs/lib/githead fs/lib/record
		03 fs/lib/gitjudge+fs/lib/gitjudge_*
		04 fs/lib/gitlock fs/lib/gitpointer
		05 fs/lib/gitrepo
		10 fs/background fs/content fs/gate fs/log
		11 fs/denials fs/inode+fs/file fs/watchdog
		12 fs/breaklink fs/entry fs/places fs/view
		13 fs/caller fs/gitfiles fs/notify fs/passthrough
		14 fs/gitguard
		15 fs/guard
		16 fs/ops
		17 fs/locks
		18 fs/attributes fs/data fs/directories fs/names fs/xattrs
		19 fs/options fs/session
		20 fs/live
		21 fs/requests
		22 fs/control
		23 fs/handover
		24 fs/main
		30 mountctl/attempts mountctl/checks mountctl/child mountctl/clock
		30 mountctl/command mountctl/links
		30 mountctl/trial
		31 mountctl/aliases mountctl/mountapi mountctl/output
		31 mountctl/makedir mountctl/treeremove
		32 mountctl/control mountctl/cover mountctl/descriptors
		32 mountctl/environment mountctl/gitrules mountctl/layout
		32 mountctl/logline mountctl/mounts mountctl/namespace
		32 mountctl/options mountctl/resolve mountctl/server
		32 mountctl/scratch mountctl/settings_file mountctl/sshconfig
		32 mountctl/textdiff mountctl/json_text+mountctl/json_edit
		32 mountctl/hook_input+mountctl/hook_patch mountctl/hook_shell
		33 mountctl/denylist mountctl/hook_place mountctl/hook_worktree
		32 mountctl/gitask mountctl/jsonput
		33 mountctl/attach mountctl/confine mountctl/holders
		33 mountctl/doctor mountctl/join mountctl/mainstate
		33 mountctl/orphans mountctl/plan mountctl/removal
		34 mountctl/baseline mountctl/ending mountctl/sessions
		34 mountctl/stalelocks mountctl/unsaved
		34 mountctl/denyplan mountctl/doctor_* mountctl/hook_policy
		34 mountctl/prove mountctl/settings
		35 mountctl/hook_rules mountctl/settings_*
		35 mountctl/launch
		35 mountctl/dismiss mountctl/mountpoints mountctl/remains
		35 mountctl/report+mountctl/report_* mountctl/show_*
		36 mountctl/dispose mountctl/mounting
		37 mountctl/hook_session
		38 mountctl/cmd_*
		39 mountctl/main
	END
}

# Who may include cJSON.h.
speak_json=" fs/lib/explain.c fs/lib/spec.c fs/lib/record.c fs/denials.c fs/requests.c"
speak_json+=" fs/handover.c mountctl/control.c mountctl/hook_input.c"
speak_json+=" mountctl/hook_policy.c mountctl/logline.c mountctl/report.c mountctl/server.c"
speak_json+=" mountctl/baseline.c mountctl/jsonput.c mountctl/report_stray.c"
speak_json+=" mountctl/report_teardown.c mountctl/report_prune.c "

# What the policy may include of the system's: nothing that does I/O.
policy_includes=" ctype.h errno.h fnmatch.h limits.h stdbool.h stddef.h"
policy_includes+=" stdint.h stdlib.h string.h "

# Prints the floor of a path without its extension, and the module it is in.
floor_of() {
	local floor names module name -
	set -f # the patterns are ours to match
	while read -r floor names; do
		for module in $names; do
			for name in ${module//+/ }; do
				# shellcheck disable=SC2053 # a pattern
				if [[ $1 == $name ]]; then
					[ "$module" != "$name" ] || module=$1
					echo "$floor $module"
					return 0
				fi
			done
		done
	done < <(floors)
	return 1
}

# The includes of a file, <system.h> or "ours.h", one a line.
includes() {
	sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*\).*/\1/p' \
		"$1"
}

check_floors() {
	local file floor module include other its
	for file in "${files[@]}"; do
		if ! read -r floor module < <(floor_of "${file%.[ch]}"); then
			echo "$file is on no floor"
			continue
		fi
		while read -r include; do
			[[ $include == \"* ]] || continue
			include=${include#\"}
			if ! read -r other its < <(floor_of "${include%.h}"); then
				echo "$file includes $include, on no floor"
			elif [ "$other" -ge "$floor" ] &&
				[ "$its" != "$module" ]; then
				echo "$file (floor $floor) includes" \
					"$include (floor $other)"
			elif [[ $file == mountctl/* && $include == fs/* &&
				$include != fs/lib/* ]]; then
				echo "$file includes $include"
			fi
		done < <(includes "$file")
	done
}

check_json() {
	local file
	for file in "${files[@]}"; do
		[[ $speak_json != *" $file "* ]] || continue
		if includes "$file" | grep -q 'cJSON\.h$'; then
			echo "$file"
		fi
	done
}

check_policy() {
	local include
	while read -r include; do
		case $include in
		'"fs/lib/cleanup.h' | '"fs/lib/path.h' | '"fs/lib/policy.h') ;;
		\<*)
			[[ $policy_includes == *" ${include#<} "* ]] ||
				echo "$include"
			;;
		*) echo "$include" ;;
		esac
	done < <(includes fs/lib/policy.c; includes fs/lib/policy.h)
}

check_guard() {
	grep -nE '\bpolicy_check[a-z_]*[[:space:]]*\(' fs/*.c fs/*.h 2>/dev/null |
		grep -v '^fs/guard\.c:'
}

# Descriptors that things can be changed with come from the guard alone;
# breaklink and gitguard are parts of it.
check_holds() {
	grep -nE '\binode_hold[a-z_]*[[:space:]]*\(' fs/*.c 2>/dev/null |
		grep -vE '^fs/(breaklink|gitguard|guard|inode)\.c:'
}

check_libfuse() {
	grep -lE '#[[:space:]]*include[[:space:]]*<(fuse3?/)?(fuse|cuse)[a-z_]*\.h>' \
		fs/lib/*.[ch] mountctl/*.[ch]
}

cd "$T_SRC" || exit 1
mapfile -t files < <(find fs mountctl -name '*.[ch]' | sort)
t_is "includes go down" "$(check_floors)" ""
t_is "only files that speak JSON include cJSON.h" "$(check_json)" ""
t_is "the policy does no I/O" "$(check_policy)" ""
t_is "only the guard asks the policy" "$(check_guard)" ""
t_is "only the guard takes hold of inodes" "$(check_holds)" ""
t_is "only the filesystem knows libfuse" "$(check_libfuse)" ""
t_done

#!/bin/bash
# A file includes only what stands on a lower floor, and its own header. A file
# that is on no floor yet gets a line in the table; docs/architecture.md tells
# what the floors are.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

# Lowest first; the files of a floor don't include each other.
floors() {
	cat <<-'END'
		0  fs/lib/cleanup fs/lib/log fs/lib/path
		1  fs/lib/fileio fs/lib/policy fs/lib/process
		2  fs/lib/spec fs/lib/wire
		3  fs/lib/gitrepo fs/lib/record
		10 fs/inode
		11 fs/guard
		12 fs/dir fs/file fs/attr fs/xattr fs/lock
		13 fs/session fs/options
		14 fs/main
		20 mountctl/command mountctl/output
		21 mountctl/plan mountctl/server
		22 mountctl/cmd_*
		23 mountctl/main
	END
}

# Who may include cJSON.h.
speak_json=" fs/lib/spec.c fs/lib/record.c "

# What the policy may include of the system's: nothing that does I/O.
policy_includes=" ctype.h errno.h fnmatch.h limits.h stdbool.h stddef.h"
policy_includes+=" stdint.h stdlib.h string.h "

# Prints the floor of a path without its extension.
floor_of() {
	local floor names name
	while read -r floor names; do
		for name in $names; do
			# shellcheck disable=SC2053 # a pattern
			if [[ $1 == $name ]]; then
				echo "$floor"
				return 0
			fi
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
	local file stem floor include other
	for file in "${files[@]}"; do
		stem=${file%.[ch]}
		if ! floor=$(floor_of "$stem"); then
			echo "$file is on no floor"
			continue
		fi
		while read -r include; do
			[[ $include == \"* ]] || continue
			include=${include#\"}
			[ "${include%.h}" != "$stem" ] || continue
			if ! other=$(floor_of "${include%.h}"); then
				echo "$file includes $include, on no floor"
			elif [ "$other" -ge "$floor" ]; then
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
t_is "only the filesystem knows libfuse" "$(check_libfuse)" ""
t_done

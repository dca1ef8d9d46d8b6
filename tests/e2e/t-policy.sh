#!/bin/bash
# Every operation of the table in docs/policy.md by every access, with the exact
# errno, by real system calls on real mounts: in a view at another path as root,
# as somebody else in root's view, and as somebody else in a view of his own.
# With T_MODE=run the same behind `mountctl run`, where the view covers its root.
#
# What is refused must leave the backing tree as it was, to the ctime.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

T_MODE=${T_MODE:-view}
POLICY=$T_SRC/docs/policy.md
SYSOP=$T_SCRATCH/sysop

t_need setfattr setpriv
[ "$T_MODE" = run ] || t_need fusermount3
cp "$T_BUILD/tests/sysop" "$SYSOP" || exit 1
t_user_make || exit 1

# What each name of the table stands for, as arguments of sysop:
#   D  a directory with some things in it, of the access that is asked about
#   O  the same elsewhere, which is rw
#   A  a directory of that access with names of rules in it; R is each of them
#   M  the same where these don't exist
operations() {
	cat <<-'END'
		stat | stat D/file
		lstat | lstat D/link
		statx | statx D/file
		statfs | statfs D/file
		access(F_OK) | access D/file F
		access(X_OK) | access D/program X
		chdir | chdir D/dir
		open(O_PATH) | open D/file path
		open(O_RDONLY) | open D/file rdonly
		reopen(O_RDONLY) | reopen D/file rdonly
		read | read D/file
		execve | execve D/program
		access(R_OK) | access D/file R
		mmap(PROT_READ) | mmap_read D/file
		readlink | readlink D/link
		getxattr | getxattr D/file
		listxattr | listxattr D/file
		FS_IOC_GETFLAGS | getflags D/file
		opendir | open D/dir rdonly directory
		getdents | getdents D/dir
		open(O_CREAT) | open D/file rdonly creat
		open(O_WRONLY) | open D/file wronly
		open(O_RDWR) | open D/file rdwr
		open(O_APPEND) | open D/file wronly append
		open(O_WRONLY, O_CREAT) | open D/file wronly creat
		open(O_WRONLY, O_TRUNC) | open D/file wronly trunc
		open(O_RDONLY, O_TRUNC) | open D/file rdonly trunc
		reopen(O_WRONLY) | reopen D/file wronly
		reopen(O_RDONLY, O_TRUNC) | reopen D/file rdonly trunc
		mmap(PROT_WRITE) | mmap_write D/file
		create | open D/new wronly creat
		create(O_EXCL) | open D/new rdwr creat excl
		create(O_RDONLY) | open D/new rdonly creat
		open(O_TMPFILE) | open D/dir rdwr tmpfile
		mkdir | mkdir D/new
		mknod | mknod D/new
		symlink | symlink D/new
		unlink | unlink D/file
		rmdir | rmdir D/empty
		rename | rename D/file D/dir/new
		rename(over) | rename D/file D/second
		rename(directory) | rename D/dir D/empty/new
		RENAME_NOREPLACE | rename D/file D/new noreplace
		RENAME_EXCHANGE | rename D/file D/dir exchange
		RENAME_WHITEOUT | rename D/file D/new whiteout
		rename(in) | rename O/file D/new
		rename(out) | rename D/file O/new
		RENAME_EXCHANGE(out) | rename D/file O/second exchange
		rename(directory in) | rename O/dir D/new
		rename(directory out) | rename D/dir O/new
		link | link D/file D/new
		link(in) | link O/file D/new
		link(out) | link D/file O/new
		truncate | truncate D/file
		ftruncate | ftruncate D/file
		fallocate | fallocate D/file
		copy_file_range | copy_file_range O/second D/file
		access(W_OK) | access D/file W
		chmod | chmod D/file
		fchmod | fchmod D/file
		fchmodat | fchmodat D/dir
		chown | chown D/file
		lchown | lchown D/link
		fchown | fchown D/file
		utimensat | utimensat D/link
		utimensat(now) | touch D/file
		futimens | futimens D/file
		setxattr | setxattr D/file
		fsetxattr | fsetxattr D/file
		removexattr | removexattr D/file
		fremovexattr | fremovexattr D/file
		FS_IOC_SETFLAGS | setflags D/file
		FS_IOC_FSSETXATTR | setfsxattr D/file
		unlink(rule) | unlink A/R
		rmdir(rule) | rmdir A/R.d
		rename(rule) | rename A/R A/new
		rename(rule out) | rename A/R O/new
		rename(over rule) | rename A/plain A/R
		rename(over rule, in) | rename O/file A/R
		rename(rule directory) | rename A/R.d A/new
		rename(over rule directory) | rename A/plain.d A/R.d
		RENAME_EXCHANGE(rule) | rename A/R A/plain exchange
		RENAME_EXCHANGE(with rule) | rename A/plain A/R exchange
		rmdir(above) | rmdir A/above
		rename(above) | rename A/above A/new
		rename(above out) | rename A/above O/new
		rename(over above) | rename A/plain.d A/above
		rename(over above, in) | rename O/empty A/above
		RENAME_EXCHANGE(above) | rename A/above A/plain.d exchange
		RENAME_EXCHANGE(with above) | rename A/plain A/above exchange
		mkdir(rule) | mkdir M/rule
		mkdir(above) | mkdir M/above
		create(rule) | open M/created wronly creat
		symlink(rule) | symlink M/linked
		rename(to rule) | rename O/file M/renamed
	END
}

# The same for what the table doesn't hold: the answers by rw, ro and none.
others() {
	cat <<-'END'
		mkdir of a name that exists | mkdir D/dir | EEXIST EEXIST EEXIST
		mknod of a name that exists | mknod D/file | EEXIST EEXIST EEXIST
		symlink of a name that exists | symlink D/link | EEXIST EEXIST EEXIST
		link to a name that exists | link O/file D/file | EEXIST EEXIST EEXIST
		O_EXCL of a name that exists | open D/file wronly creat excl | EEXIST EEXIST EEXIST
		RENAME_NOREPLACE of a name that exists | rename D/file D/second noreplace | EEXIST EEXIST EEXIST
		unlink of a missing name | unlink D/new | ENOENT ENOENT ENOENT
		open of a missing name | open D/new wronly | ENOENT ENOENT ENOENT
		unlink of a directory | unlink D/dir | EISDIR EISDIR EISDIR
		rmdir of a file | rmdir D/file | ENOTDIR ENOTDIR ENOTDIR
		a directory opened for writing | open D/dir wronly | EISDIR EISDIR EISDIR
		rename out of the view | rename D/file X/new | EXDEV EXDEV EXDEV
		rename into the view | rename X/file D/new | EXDEV EXDEV EXDEV
		link out of the view | link D/file X/new | EXDEV EXDEV EXDEV
		link into the view | link X/file D/new | EXDEV EXDEV EXDEV
		mprotect of what was opened for reading | mprotect D/file | EACCES EACCES EACCES
		mkdir of a name too long | mkdir D/LONG | ENAMETOOLONG ENAMETOOLONG ENAMETOOLONG
		create deep below | open D/dir/deep/new wronly creat | ok EROFS EACCES
		write deep below | open D/dir/deep/file wronly | ok EROFS EACCES
		read deep below | read D/dir/deep/file | ok ok EACCES
		stat deep below | stat D/dir/deep/file | ok ok ok
		mkdir beside a rule | mkdir A/above/new | ok EROFS EACCES
		mkdir beside a missing rw rule | mkdir M/rules | ok EROFS EACCES
		mkdir of a missing directory above an rw rule | mkdir N/a | ok ok ok
		mkdir beside, in what was made | mkdir N/a/x | ok EROFS EACCES
		mkdir of the missing rw rule in it | mkdir N/a/b | ok ok ok
		create in what was made | open N/a/b/new wronly creat | ok ok ok
		remove what is in it | unlink N/a/b/new | ok ok ok
		remove it again | rmdir N/a/b | EBUSY EROFS EACCES
	END
}

# Missing names of rules in an rw directory: by the access of the rule.
missing() {
	cat <<-'END'
		create | open M/R.missing wronly creat
		mkdir | mkdir M/R.missing
		mknod | mknod M/R.missing
		symlink | symlink M/R.missing
		link | link O/file M/R.missing
		rename | rename O/second M/R.missing
	END
}

# Prints ACCESS PATH of each rule, relative to the root, which has none itself.
rules() {
	local tree access
	echo "rw other"
	for tree in rw ro none; do
		echo "$tree $tree"
		for access in rw ro none; do
			echo "$access $tree/names/$access"
			echo "$access $tree/names/$access.d"
			echo "$access $tree/missing/$access.missing"
		done
		echo "none $tree/names/above/rule"
		echo "rw $tree/missing/rule"
		echo "rw $tree/missing/above/rule"
		echo "rw $tree/missing/created"
		echo "rw $tree/missing/linked"
		echo "rw $tree/missing/renamed"
		echo "rw $tree/nested/a/b"
	done
}

declare -A arguments=() wanted=()
declare -a names=()

read_operations() {
	local name arguments_
	while IFS='|' read -r name arguments_; do
		name=${name% }
		arguments[$name]=$arguments_
	done < <(operations)
}

code_spans() {
	# shellcheck disable=SC2016 # nothing is to be expanded
	grep -o '`[^`]*`' <<<"$1" | tr -d '`'
}

# The rows of the table: names, and the answer by "NAME ACCESS".
read_table() {
	local row name access i cells
	while IFS= read -r row; do
		IFS='|' read -r -a cells <<<"$row"
		while IFS= read -r name; do
			names+=("$name")
			i=2
			for access in rw ro none; do
				wanted["$name $access"]=${cells[i]//[[:space:]]/}
				i=$((i + 1))
			done
		done < <(code_spans "${cells[1]}")
	done < <(sed -n '/^| operation | rw | ro | none |$/,/^$/p' "$POLICY" |
		sed -e 1,2d -e '/^$/d')
}

unknown() {
	local name
	for name in "${names[@]}"; do
		[ -n "${arguments[$name]:-}" ] || echo "no test: $name"
	done
	for name in "${!arguments[@]}"; do
		[ -n "${wanted[$name ro]:-}" ] || echo "not in the table: $name"
	done
	printf '%s\n' "${names[@]}" | sort | uniq -d
}

read_operations
read_table
t_is "the table has each operation once" "$(unknown)" ""

# --- The trees -------------------------------------------------------------

# Everything that a directory under test has in it.
make_things() {
	mkdir -p "$1/dir/deep" "$1/empty" &&
		echo "some content" >"$1/file" &&
		echo "other content" >"$1/second" &&
		echo "deep content" >"$1/dir/deep/file" &&
		ln -s file "$1/link" &&
		printf '#!/bin/sh\necho ok\n' >"$1/program" &&
		chmod 0755 "$1/program" &&
		setfattr -n user.test -v old "$1/file"
}

make_names() {
	mkdir -p "$1/names/above" "$1/names/plain.d" "$1/names/rw.d" \
		"$1/names/ro.d" "$1/names/none.d" "$1/missing" "$1/nested" &&
		touch "$1/names/plain" "$1/names/rw" "$1/names/ro" \
			"$1/names/none"
}

own() {
	if [ "$(id -u)" -eq 0 ] && [ "$owner" != root ]; then
		chown -hR "$T_USER:" "$1"
	fi
}

make_trees() {
	local tree
	mkdir -p "$BASE" "$OUTSIDE"
	for tree in rw ro none; do
		make_names "$SOURCE/$tree" || return 1
	done
	mkdir "$SOURCE/other" "$MOUNTPOINT" &&
		make_things "$THINGS" && make_things "$SOURCE/ro/things" &&
		make_things "$SOURCE/none/things" && make_things "$OUTSIDE" &&
		own "$BASE"
}

listing() {
	(
		cd "$1" || exit 1
		find . -printf '%p %y %m %U %G %n %s %T@ %C@ %l\n' | sort
		find . -type f -print0 | sort -z | xargs -0 -r sha256sum
	)
}

# --- The view --------------------------------------------------------------

mount_view() {
	local options=() access path
	while read -r access path; do
		options+=(-o "$access=$path")
	done < <(rules)
	timeout 30 "${mount_as[@]}" "$T_WORKTREEFS" "$SOURCE" "$MOUNTPOINT" \
		"${options[@]}"
}

is_mounted() {
	grep -qF " $1 " /proc/self/mountinfo
}

# Two rules of one origin that disagree: there is no view.
check_conflict() {
	mkdir -p "$T_SCRATCH/conflict/a" "$T_SCRATCH/conflict.view"
	t_status 2 "rules that disagree" timeout 20 "$T_WORKTREEFS" \
		"$T_SCRATCH/conflict" "$T_SCRATCH/conflict.view" \
		-o ro=a -o "rw=$T_SCRATCH/conflict/a"
	t_like "the path is named" "$T_STDERR" "conflict/a\$"
	t_not "nothing is mounted" is_mounted "$T_SCRATCH/conflict.view"
}

unmount_view() {
	is_mounted "$1" || return 0
	if ! timeout 20 "${mount_as[@]}" fusermount3 -u "$1" 2>/dev/null &&
		! timeout 20 umount "$1"; then
		abort_view "$1"
	fi
}

# A filesystem that answers nothing keeps whoever asks it: this ends them all.
abort_view() {
	local device
	t_fail "the view can be unmounted"
	device=$(awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo)
	echo 1 >"/sys/fs/fuse/connections/${device#*:}/abort"
	umount -l "$1"
}

run_options=()
set_run_options() {
	local access path
	run_options=(--root "$SOURCE" --native none)
	while read -r access path; do
		run_options+=("--$access" "$SOURCE/$path")
	done < <(rules)
}

# Prints what sysop says with these arguments as who acts.
ask() {
	if [ "$T_MODE" = run ]; then
		(cd / && timeout 60 "${as[@]}" "$T_MOUNTCTL" run \
			"${run_options[@]}" -- "$SYSOP" "$@" 2>&1)
	else
		timeout 20 "${as[@]}" "$SYSOP" "$@" 2>&1
	fi
}

ask_natively() {
	timeout 20 "${as[@]}" "$SYSOP" "$@" 2>&1
}

# --- One operation ---------------------------------------------------------

LONG=$(printf '%0256d' 0)
serial=0

# Makes new things in the tree of an access, where what is allowed changes
# them, and elsewhere; sets $things and $elsewhere, relative to the root.
new_things() {
	local tree=$1
	serial=$((serial + 1))
	elsewhere=other/$serial
	cp -a "$THINGS" "$SOURCE/$elsewhere"
	if [ "$tree" = rw ]; then
		things=rw/$serial
		cp -a "$THINGS" "$SOURCE/$things"
	else
		things=$tree/things
	fi
}

remove_things() {
	rm -rf "${SOURCE:?}/other/$serial" "$SOURCE/rw/$serial"
}

# Replaces the letters in the arguments; sets $words.
expand() {
	local tree=$1 rule=$2 base=$3 word
	shift 3
	words=()
	for word; do
		case $word in
		D/*) word=$base/$things/${word#D/} ;;
		O/*) word=$base/$elsewhere/${word#O/} ;;
		A/*) word=$base/$tree/names/${word#A/} ;;
		M/*) word=$base/$tree/missing/${word#M/} ;;
		N/*) word=$base/$tree/nested/${word#N/} ;;
		X/*) word=$OUTSIDE/${word#X/} ;;
		esac
		case $word in
		*/R | */R.*) word=${word%R*}$rule${word##*R} ;;
		*/LONG) word=${word%LONG}$LONG ;;
		esac
		words+=("$word")
	done
}

# What sysop answers on a plain directory; kept, for each operation once.
declare -A native=()
answer_natively() {
	local key="$who $1"
	shift
	if [ -z "${native[$key]:-}" ]; then
		things=. elsewhere=elsewhere
		rm -rf "$PLAIN"
		cp -a "$THINGS" "$PLAIN"
		cp -a "$THINGS" "$PLAIN/elsewhere"
		mkdir -p "$PLAIN/tree/missing" "$PLAIN/tree/nested/a/b"
		own "$PLAIN"
		expand tree rule "$PLAIN" "$@"
		native[$key]=$(ask_natively "${words[@]}")
	fi
	answer=${native[$key]}
}

# Asks, and compares the answer, and the trees with those before.
check() {
	local name=$1 tree=$2 rule=$3 want=$4 changes=$5 before after got
	shift 5
	new_things "$tree"
	expand "$tree" "$rule" "$VIEW" "$@"
	before=$(listing "$SOURCE")
	got=$(ask "${words[@]}")
	after=$(listing "$SOURCE")
	t_is "$who: $name: $tree" "$got" "$want" ||
		t_diag "sysop ${words[*]}"
	if [ "$changes" = no ] && [ "$after" != "$before" ]; then
		t_fail "$who: $name: $tree: nothing is changed"
		t_diag "$(diff <(echo "$before") <(echo "$after"))"
	elif [ "$changes" = yes ] && [ "$after" = "$before" ]; then
		t_fail "$who: $name: $tree: something is changed"
	fi
	remove_things
}

# Does what passes in an rw tree change something there?
changes_something() {
	[ "${wanted[$1 ro]}" != pass ] || [[ $1 == mkdir\(* ]] || return 1
	case $1 in
	'access(W_OK)' | 'open(O_TMPFILE)') return 1 ;;
	esac
}

check_operation() {
	local name=$1 tree=$2 rules=none rule want changes=no arguments_
	read -r -a arguments_ <<<"${arguments[$name]}"
	want=${wanted[$name $tree]}
	if [ "$want" = pass ]; then
		want=ok
		answer_natively "$name" "${arguments_[@]}"
		if [ "$answer" != ok ]; then
			t_skip "$who: $name: $tree" \
				"$answer on the file system below"
			return
		fi
		! changes_something "$name" || changes=yes
	fi
	[[ ${arguments_[*]} != */R* ]] || rules="rw ro none"
	for rule in $rules; do
		check "${name/rule/"$rule rule"}" "$tree" "$rule" "$want" \
			"$changes" "${arguments_[@]}"
	done
}

check_table() {
	local name tree
	for name in "${names[@]}"; do
		for tree in rw ro none; do
			check_operation "$name" "$tree"
		done
	done
}

check_others() {
	local name arguments_ answers tree want changes
	while IFS='|' read -r name arguments_ answers; do
		# shellcheck disable=SC2086 # words
		set -- $answers
		for tree in rw ro none; do
			want=$1
			shift
			changes=any
			[ "$want" = ok ] || changes=no
			# shellcheck disable=SC2086 # words
			check "${name% }" "$tree" none "$want" "$changes" \
				$arguments_
		done
	done < <(others)
}

check_missing() {
	local name arguments_ rule want
	while IFS='|' read -r name arguments_; do
		for rule in ro none; do
			want=EROFS
			[ "$rule" = ro ] || want=EACCES
			# shellcheck disable=SC2086 # words
			check "${name% } of a missing $rule rule" rw "$rule" \
				"$want" no $arguments_
		done
	done < <(missing)
}

# A rule decides for its path whatever is around it.
check_inner_rules() {
	local tree rule answers
	for tree in rw ro none; do
		for rule in rw ro none; do
			case $rule in
			rw) answers=(ok ok ok) ;;
			ro) answers=(EROFS EROFS ok) ;;
			none) answers=(EACCES EACCES EACCES) ;;
			esac
			check "write to an $rule rule's file" "$tree" "$rule" \
				"${answers[0]}" any open A/R wronly
			check "mkdir in an $rule rule's directory" "$tree" \
				"$rule" "${answers[1]}" any mkdir A/R.d/new
			check "list an $rule rule's directory" "$tree" "$rule" \
				"${answers[2]}" no getdents A/R.d
		done
	done
}

# Names of rules that others make, after they were looked up in vain.
check_appearing() {
	local rule path
	for rule in ro none; do
		path=rw/missing/$rule.missing
		echo "some content" >"$SOURCE/$path"
		own "$SOURCE/$path"
		t_wait 10 seen "$VIEW/$path"
		check "write to what appeared for an $rule rule" rw "$rule" \
			"$([ "$rule" = ro ] && echo EROFS || echo EACCES)" no \
			open M/R.missing wronly
		check "read what appeared for an $rule rule" rw "$rule" \
			"$([ "$rule" = ro ] && echo ok || echo EACCES)" no \
			read M/R.missing
		check "unlink what appeared for an $rule rule" rw "$rule" \
			EBUSY no unlink M/R.missing
	done
}

# shellcheck disable=SC2317 # for t_wait
seen() {
	[ "$(ask stat "$1")" = ok ]
}

# trusted.* attributes are root's, and not that of a user namespace: to anybody
# else the kernel says so first.
check_trusted() {
	local tree want
	for tree in rw ro none; do
		want=EPERM
		if [ "$owner" = root ] && [ "$T_MODE" != run ]; then
			case $tree in
			rw) want=ok ;;
			ro) want=EROFS ;;
			none) want=EACCES ;;
			esac
		fi
		check "a trusted attribute" "$tree" none "$want" any \
			setxattr D/file trusted.test
	done
}

# A file with a name in an ro and one in an rw tree, made outside.
check_hard_links() {
	new_things rw
	ln "$SOURCE/ro/things/file" "$SOURCE/$things/shared"
	expand rw none "$VIEW" open D/shared wronly
	t_is "$who: write to a file that has a name in an ro tree" \
		"$(ask "${words[@]}")" ok
	t_is "$who: its other name keeps its bytes" \
		"$(cat "$SOURCE/ro/things/file")" "some content"
	t_like "$who: its own are changed" \
		"$(cat "$SOURCE/$things/shared")" "^xome content"
	remove_things
}

# --- Everybody -------------------------------------------------------------

# Sets who acts, who mounts and whose files they are.
be() {
	who=$1
	owner=$2
	as=()
	mount_as=()
	[ "$owner" = root ] || as=("${T_AS_USER[@]}")
	[ "$3" = root ] || mount_as=("${T_AS_USER[@]}")
	BASE=$T_SCRATCH/$who
	SOURCE=$BASE/source
	MOUNTPOINT=$BASE/view
	THINGS=$BASE/things
	PLAIN=$BASE/plain
	OUTSIDE=$BASE/outside
	VIEW=$MOUNTPOINT
	[ "$T_MODE" != run ] || VIEW=$SOURCE
}

check_all() {
	be "$@"
	make_trees || exit 1
	if [ "$T_MODE" = run ]; then
		set_run_options
	else
		t_defer unmount_view "$MOUNTPOINT"
		mount_view && is_mounted "$MOUNTPOINT" || exit 1
	fi
	check_table
	check_others
	check_inner_rules
	check_missing
	check_appearing
	check_trusted
	check_hard_links
	[ "$T_MODE" = run ] || unmount_view "$MOUNTPOINT"
}

if [ "$(id -u)" -eq 0 ]; then
	check_all root root root
	[ "$T_MODE" = run ] || check_all guest user root
fi
check_all user user user
[ "$T_MODE" = run ] || check_conflict
t_done

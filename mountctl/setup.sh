# shellcheck shell=sh
# Brings what a build needs, and builds. Sourced by demo.sh and tests/run.sh:
#
#   setup_src=DIR                the source tree; set it before sourcing
#   setup_packages [tests]       installs what is missing (root or sudo);
#                                `tests`: also what the test suite needs
#   setup_libfuse                the archive of libfuse, where the system's is
#                                too old
#   setup_build DIR [OPTION...]  configures DIR with these meson options, if it
#                                is new or they changed, and builds
#
# Each prints what it does on stderr and returns non-zero, after one clear
# message, when it can't. Where nothing is missing they need neither root nor a
# network.

: "${setup_src:?the source tree}"
setup_libfuse_wanted=3.18.2

setup_say() {
	printf '== %s\n' "$*" >&2
}

setup_complain() {
	printf 'setup: %s\n' "$*" >&2
}

# What is needed: how it is found (a command, a pkg-config module), and what
# brings it: the packages of Debian, Fedora, Arch and Alpine ("-": none has to
# be installed, or there is none).
setup_table_build() {
	cat <<-'END'
		cmd:gcc gcc,libc6-dev gcc gcc build-base
		cmd:pkg-config pkg-config pkgconf-pkg-config pkgconf pkgconf
		cmd:python3 python3 python3 python python3
		cmd:ninja ninja-build ninja-build ninja samurai
		cmd:meson meson meson meson meson
		cmd:git git git git git
		cmd:patch patch patch patch patch
		file:/etc/ssl/certs/ca-certificates.crt ca-certificates ca-certificates ca-certificates ca-certificates
		lib:libcjson libcjson-dev cjson-devel cjson cjson-dev
		lib:mount libmount-dev libmount-devel util-linux-libs util-linux-dev
		lib:libseccomp libseccomp-dev libseccomp-devel libseccomp libseccomp-dev
		lib:libcap libcap-dev libcap-devel libcap libcap-dev
		cmd:fusermount3 fuse3 fuse3 fuse3 fuse3
	END
}

setup_table_tests() {
	cat <<-'END'
		cmd:bash bash bash bash bash
		lib:criterion libcriterion-dev criterion-devel criterion criterion-dev
		cmd:clang-format clang-format clang-tools-extra clang clang-extra-tools
		cmd:make make make make make
		cmd:bwrap bubblewrap bubblewrap bubblewrap bubblewrap
		cmd:strace strace strace strace strace
		cmd:node nodejs nodejs nodejs nodejs
		cmd:npm npm nodejs-npm npm npm
		cmd:capsh libcap2-bin libcap libcap libcap-utils
		cmd:unshare util-linux util-linux util-linux util-linux
		cmd:mount mount util-linux util-linux mount
		cmd:ps procps procps-ng procps-ng procps
		cmd:useradd passwd shadow-utils shadow shadow
		cmd:setfacl acl acl acl acl
		cmd:setfattr attr attr attr attr
		cmd:ssh openssh-client openssh-clients openssh openssh-client
		cmd:script bsdutils,bsdextrautils util-linux util-linux util-linux-misc
	END
}

setup_has() {
	case $1 in
	cmd:*) command -v "${1#cmd:}" ;;
	file:*) [ -e "${1#file:}" ] ;;
	lib:*) pkg-config --exists "${1#lib:}" ;;
	esac >/dev/null 2>&1
}

# The packages that bring what is missing, one a line. $1: column of the table.
setup_missing() {
	while read -r probe debian fedora arch alpine; do
		setup_has "$probe" && continue
		case $1 in
		debian) echo "$debian" ;;
		fedora) echo "$fedora" ;;
		arch) echo "$arch" ;;
		alpine) echo "$alpine" ;;
		esac
	done | tr ',' '\n' | sort -u
}

setup_distribution() {
	if command -v apt-get >/dev/null; then
		echo debian
	elif command -v dnf >/dev/null; then
		echo fedora
	elif command -v pacman >/dev/null; then
		echo arch
	elif command -v apk >/dev/null; then
		echo alpine
	else
		return 1
	fi
}

# Runs a command as root, what it prints kept for the case that it fails.
setup_as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

setup_quietly() {
	setup_log=$(mktemp) || return 1
	if "$@" >"$setup_log" 2>&1 </dev/null; then
		rm -f "$setup_log"
		return 0
	fi
	tail -n 30 "$setup_log" >&2
	rm -f "$setup_log"
	return 1
}

setup_apt_install() {
	setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
		--no-install-recommends -o Dpkg::Use-Pty=0 \
		-o DPkg::Lock::Timeout=300 install "$@"
}

setup_apt_update() {
	setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
		-o DPkg::Lock::Timeout=300 update
}

# With the package lists as they are, if they'll do; else with fresh ones.
setup_apt() {
	setup_apt_install "$@" >/dev/null 2>&1 </dev/null && return 0
	# One unreachable source of several needn't matter.
	setup_quietly setup_apt_update || true
	setup_quietly setup_apt_install "$@"
}

setup_install() {
	setup_distro=$1
	shift
	case $setup_distro in
	debian) setup_apt "$@" ;;
	fedora) setup_quietly setup_as_root dnf -y -q install "$@" ;;
	arch)
		setup_quietly setup_as_root \
			pacman -Sy --noconfirm --needed "$@"
		;;
	alpine) setup_quietly setup_as_root apk add --quiet "$@" ;;
	esac
}

setup_packages() {
	# Where an ordinary user's PATH leaves these out.
	case :$PATH: in
	*:/usr/sbin:*) ;;
	*) PATH=$PATH:/usr/sbin:/sbin ;;
	esac
	setup_table=$(setup_table_build)
	if [ "${1:-}" = tests ]; then
		setup_table="$setup_table
$(setup_table_tests)"
	fi
	setup_distro=$(setup_distribution) || setup_distro=debian
	setup_needs=$(printf '%s\n' "$setup_table" |
		setup_missing "$setup_distro" | tr '\n' ' ')
	[ -n "$setup_needs" ] || return 0
	if ! setup_distribution >/dev/null; then
		setup_complain "no package manager that is known here." \
			"Missing, by Debian's names: $setup_needs"
		return 1
	fi
	if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
		setup_complain "packages are missing, and this is neither root" \
			"nor is there a sudo. Have root install: $setup_needs"
		return 1
	fi
	setup_say "installing $setup_needs"
	# shellcheck disable=SC2086 # one word a package
	if ! setup_install "$setup_distro" $setup_needs; then
		setup_complain "could not install: $setup_needs"
		return 1
	fi
	setup_needs=$(printf '%s\n' "$setup_table" |
		setup_missing "$setup_distro" | tr '\n' ' ')
	if [ -n "$setup_needs" ]; then
		setup_complain "still missing after the installation:" \
			"$setup_needs"
		return 1
	fi
}

setup_wrap() {
	sed -n "s/^$1 *= *//p" "$setup_src/subprojects/libfuse.wrap"
}

setup_is_archive() {
	[ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# The release archive from where its makers put it. $1: the file to write.
setup_fetch_release() {
	python3 - "$(setup_wrap source_url)" "$1" 2>/dev/null <<-'END'
		import shutil, sys, urllib.request
		with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
		    with open(sys.argv[2], "wb") as out:
		        shutil.copyfileobj(answer, out)
	END
}

# The mirrors that this machine's apt is set up with, security ones left out.
# apt itself tells, so that both formats of its sources are understood; it knows
# only of those whose lists have been fetched.
setup_mirrors() {
	# shellcheck disable=SC2016 # apt's variables
	apt-get indextargets --format '$(SITE)' \
		'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
		grep -v -- '-security$' | sort -u
}

# The same archive from the distribution: its source package of this version is
# in newer suites. All that apt writes goes to a directory of ours, and the
# machine's own lists and sources stay as they are. $1: a scratch directory,
# $2: the version, $3: the file to write.
setup_fetch_debian() {
	command -v apt-get >/dev/null || return 1
	setup_found=$(setup_mirrors)
	if [ -z "$setup_found" ]; then
		if [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; then
			setup_quietly setup_apt_update || true
		fi
		setup_found=$(setup_mirrors)
	fi
	for setup_keys in /usr/share/keyrings/debian-archive-keyring.gpg \
		/usr/share/keyrings/debian-archive-keyring.pgp; do
		[ ! -e "$setup_keys" ] || break
	done
	for setup_mirror in $setup_found; do
		for setup_suite in sid testing; do
			if setup_fetch_source "$1/$setup_suite" "$2" &&
				cp "$1/$setup_suite/fuse3_$2.orig.tar.gz" "$3"
			then
				return 0
			fi
			rm -rf "${1:?}/$setup_suite"
		done
	done
	return 1
}

# $1: a directory to be made, $2: the version. Uses setup_mirror, setup_suite
# and setup_keys. A mirror that has stood still, or a clock that has, is as good
# as another: what counts is the archive's hash.
setup_fetch_source() (
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial" || return 1
	cd "$1" || return 1
	echo "deb-src [signed-by=$setup_keys] $setup_mirror $setup_suite main" \
		>sources.list
	set -- "$2" -qq -o "Dir::Etc::SourceList=$PWD/sources.list" \
		-o Dir::Etc::SourceParts=/dev/null \
		-o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache" \
		-o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none \
		-o Acquire::Retries=2 -o Acquire::Check-Valid-Until=false \
		-o Acquire::Check-Date=false
	setup_version=$1
	shift
	apt-get "$@" update || return 1
	for setup_revision in $(apt-cache "$@" showsrc --only-source fuse3 |
		sed -n 's/^Version: //p'); do
		case $setup_revision in
		"$setup_version"-*) ;;
		*) continue ;;
		esac
		apt-get "$@" source --download-only \
			"fuse3=$setup_revision" && return 0
	done
	echo "no fuse3 $setup_version in $setup_suite" >&2
	return 1
)

setup_libfuse() {
	if pkg-config --atleast-version="$setup_libfuse_wanted" fuse3; then
		return 0
	fi
	setup_name=$(setup_wrap source_filename)
	setup_hash=$(setup_wrap source_hash)
	setup_version=${setup_name#fuse-}
	setup_version=${setup_version%.tar.gz}
	setup_cache=$setup_src/subprojects/packagecache
	if setup_is_archive "$setup_cache/$setup_name" "$setup_hash"; then
		return 0
	fi
	setup_say "fetching libfuse $setup_version"
	mkdir -p "$setup_cache" || return 1
	setup_scratch=$(mktemp -d) || return 1
	setup_got=$setup_scratch/$setup_name
	if ! { setup_fetch_release "$setup_got" &&
		setup_is_archive "$setup_got" "$setup_hash"; }; then
		setup_fetch_debian "$setup_scratch" "$setup_version" \
			"$setup_got" >"$setup_scratch/log" 2>&1
	fi
	if setup_is_archive "$setup_got" "$setup_hash"; then
		# Whole or not at all: the cache may be on another file system.
		cp "$setup_got" "$setup_cache/.$setup_name.$$" &&
			mv "$setup_cache/.$setup_name.$$" \
				"$setup_cache/$setup_name"
		setup_status=$?
		rm -rf "$setup_scratch"
		return "$setup_status"
	fi
	[ ! -s "$setup_scratch/log" ] || tail -n 20 "$setup_scratch/log" >&2
	setup_complain "could not get libfuse $setup_version. Tried:"
	setup_complain "  its release page, $(setup_wrap source_url)"
	setup_complain "  the source package fuse3 of Debian sid and testing," \
		"from the mirrors of this machine's apt:" \
		"$(setup_mirrors | tr '\n' ' ')"
	setup_complain "To mend it put the archive, sha256 $setup_hash, at" \
		"$setup_cache/$setup_name and start again."
	rm -rf "$setup_scratch"
	return 1
}

setup_build() {
	setup_dir=$1
	shift
	# The options of the last time: others are applied to the tree that is
	# there, and a tree that meson can't read any more is made anew.
	if [ -f "$setup_dir/build.ninja" ]; then
		if [ "$(cat "$setup_dir/.setup-options" 2>/dev/null)" != "$*" ]
		then
			setup_say "configuring $setup_dir"
			setup_quietly meson setup --reconfigure "$@" \
				"$setup_dir" "$setup_src" ||
				setup_quietly meson setup --wipe "$@" \
					"$setup_dir" "$setup_src" || return 1
		fi
	else
		setup_say "configuring $setup_dir"
		setup_quietly meson setup "$@" "$setup_dir" "$setup_src" ||
			return 1
	fi
	# Unpacked by root, the files of an archive are whoever's uid it names.
	if [ "$(id -u)" -eq 0 ]; then
		chown -R "$(stat -c %u:%g "$setup_src")" \
			"$setup_src"/subprojects/fuse-*/ 2>/dev/null || :
	fi
	printf '%s\n' "$*" >"$setup_dir/.setup-options"
	setup_say "building $setup_dir"
	if ! setup_quietly ninja -C "$setup_dir"; then
		setup_complain "the build in $setup_dir failed"
		return 1
	fi
}

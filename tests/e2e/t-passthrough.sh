#!/bin/bash
# One file open several times at once, for reading and for writing, in every
# order: whether the kernel passes the data through or not, all see the same
# bytes and nobody gets an error. As root, where passing through is to be had,
# and as a user, where it isn't.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need python3
t_user_make || exit 1

cat >"$T_SCRATCH/opens.py" <<'PYTHON'
import fcntl, mmap, os, struct, sys, time

def write(fd, text, at=0):
    assert os.pwrite(fd, text, at) == len(text)

def read(fd, size=4):
    return os.pread(fd, size, 0)

def fresh(name, size=4):
    with open(name, "wb") as f:
        f.write(b"old!" + b"." * (size - 4))
    return name

def both(first, second, size):
    name = fresh("both", size)
    a, b = os.open(name, first), os.open(name, second)
    writer = b if first == os.O_RDONLY else a
    reader = a if first == os.O_RDONLY else b
    write(writer, b"new!")
    assert read(reader) == b"new!", read(reader)
    assert open(name, "rb").read(4) == b"new!"
    os.close(a)
    os.close(b)
    assert open(name, "rb").read(4) == b"new!"

def mapped(size):
    name = fresh("mapped", size)
    fd = os.open(name, os.O_RDWR)
    with mmap.mmap(fd, size) as m:
        m[0:4] = b"new!"
        m.flush()
        assert open(name, "rb").read(4) == b"new!"
        other = os.open(name, os.O_RDONLY)
        m[0:4] = b"mor!"
        m.flush()
        assert read(other) == b"mor!", read(other)
        os.close(other)
    os.close(fd)

def temporary():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
    write(fd, b"new!")
    where = os.open("/proc/self/fd", os.O_RDONLY)
    os.link(str(fd), "linked", src_dir_fd=where, follow_symlinks=True)
    assert open("linked", "rb").read() == b"new!"
    os.unlink("linked")

def appended():
    name = fresh("appended")
    a, b = (os.open(name, os.O_WRONLY | os.O_APPEND) for i in range(2))
    reader = os.open(name, os.O_RDONLY)
    for i in range(4):
        os.write(a, b"a")
        os.write(b, b"b")
    assert read(reader, 100) == b"old!" + b"ab" * 4, read(reader, 100)

def locked():
    """A lock goes with its handle, also while others are open."""
    name = fresh("locked")
    a, b = (os.open(name, os.O_RDWR) for i in range(2))
    fcntl.flock(a, fcntl.LOCK_EX)
    try:
        fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise AssertionError("two have it")
    except BlockingIOError:
        pass
    os.close(a)
    end = time.monotonic() + 10
    while True:
        try:
            return fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            assert time.monotonic() < end, "nobody has it"
            time.sleep(0.01)

def asked():
    """A lock that has just gone with its handle is in nobody's way."""
    name, found = fresh("asked"), 0
    F_OFD_GETLK, F_OFD_SETLK = 36, 37
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
    for i in range(300):
        a, b = (os.open(name, os.O_RDWR) for i in range(2))
        fcntl.fcntl(a, F_OFD_SETLK, lock)
        os.close(a)
        answer = struct.unpack("hhqqi", fcntl.fcntl(b, F_OFD_GETLK, lock))
        found += answer[0] != fcntl.F_UNLCK
        os.close(b)
    # On a busy machine the kernel may take longer to tell of a close.
    assert found < 10, found

os.chdir(sys.argv[2])
os.umask(0)
small, large = 4, 1 << 20
{
    "small, reader first": lambda: both(os.O_RDONLY, os.O_RDWR, small),
    "small, writer first": lambda: both(os.O_WRONLY, os.O_RDONLY, small),
    "large, reader first": lambda: both(os.O_RDONLY, os.O_RDWR, large),
    "large, writer first": lambda: both(os.O_RDWR, os.O_RDONLY, large),
    "mapped": lambda: mapped(4096) or mapped(large),
    "without a name": temporary,
    "appended": appended,
    "locked": locked,
    "asked": asked,
}[sys.argv[1]]()
PYTHON
chmod 755 "$T_SCRATCH" "$T_SCRATCH/opens.py"

# shellcheck disable=SC2317 # called by the trap
unmount_all() {
	local at
	for at in "$T_SCRATCH"/*/mnt; do
		mountpoint -q "$at" && umount -l "$at"
	done
	t_user_drop
}
trap unmount_all EXIT

# as WHO PREFIX...
check() {
	local who=$1 dir=$T_SCRATCH/$1 way
	shift
	mkdir -p "$dir/src" "$dir/mnt"
	[ "$who" = root ] || chown -R "$T_USER" "$dir"
	t_ok "$who: mounts" "$@" timeout 20 "$T_BUILD/fs/worktreefs" \
		"$dir/src" "$dir/mnt"
	for way in "small, reader first" "small, writer first" \
		"large, reader first" "large, writer first" \
		"mapped" "without a name" "appended" "locked" "asked"; do
		t_ok "$who: $way" "$@" timeout 20 python3 \
			"$T_SCRATCH/opens.py" "$way" "$dir/mnt"
	done
	t_ok "$who: unmounts" t_unmount "$dir/mnt"
}

check root
check user t_as_user
t_done

"""Steps of tests/e2e/t-semantics.sh: each is a function of this name, run with
the working directory in an rw tree of a view; backing() is where the same tree
is without the view."""
import errno
import fcntl
import mmap
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time


def backing(name=""):
    return os.path.join(os.environ["BACKING"], name)


def put(name, text):
    with open(name, "w") as f:
        f.write(text)


def get(name):
    with open(name) as f:
        return f.read()


def fails(code, call, *args, **more):
    try:
        call(*args, **more)
    except OSError as e:
        assert e.errno == code, e
    else:
        raise AssertionError("nothing refused it")


def sqlite(journal):
    def connect(path):
        c = sqlite3.connect(path, timeout=20, isolation_level=None)
        c.execute("pragma journal_mode=" + journal)
        return c

    name = "db-" + journal
    c = connect(name)
    c.execute("create table t (who text, n int)")

    def insert(path, who):
        mine = connect(path)
        for n in range(30):
            mine.execute("insert into t values (?, ?)", (who, n))
        mine.close()

    # WAL needs memory that all share: not with the host, as on no network
    # file system either.
    other = name if journal == "wal" else backing(name)
    threads = [threading.Thread(target=insert, args=a)
               for a in ((name, "a"), (other, "b"), (name, "c"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert c.execute("select count(*) from t").fetchone() == (90,)
    assert c.execute("pragma integrity_check").fetchone() == ("ok",)
    c.close()


def sqlite_wal():
    sqlite("wal")


def sqlite_rollback():
    sqlite("delete")


def mapping():
    with open("m", "wb") as f:
        f.write(b"x" * 8192)
    with open("m", "r+b") as f:
        with mmap.mmap(f.fileno(), 8192) as m:
            m[4096:4100] = b"abcd"
            m.flush()
            assert get(backing("m"))[4096:4100] == "abcd"
        with mmap.mmap(f.fileno(), 8192, mmap.MAP_PRIVATE) as m:
            m[0:4] = b"mine"
    assert get(backing("m"))[:4] == "xxxx"
    time.sleep(0.2)
    seen, real = os.stat("m"), os.stat(backing("m"))
    assert seen.st_mtime_ns == real.st_mtime_ns
    assert seen.st_ctime_ns == real.st_ctime_ns


def run_program():
    put("prog", "#!/bin/sh\necho ran\n")
    os.chmod("prog", 0o755)
    assert subprocess.check_output(["./prog"]) == b"ran\n"
    subprocess.check_call(["cp", "/bin/sleep", "busy"])
    child = subprocess.Popen(["./busy", "5"])
    time.sleep(0.3)
    fails(errno.ETXTBSY, os.open, "busy", os.O_WRONLY)
    child.kill()
    child.wait()


def names():
    for name in (b"n" * 255, b"\xff\xfe", b"new\nline", b"-", b"%41", b" "):
        with open(name, "w") as f:
            f.write("x")
        assert name in os.listdir(b".")
        os.unlink(name)
    fails(errno.ENAMETOOLONG, os.mkdir, "n" * 256)
    part = "d" * 200
    top = os.getcwd()
    for i in range(30):
        os.mkdir(part)
        os.chdir(part)
    put("f", "deep")
    assert get("f") == "deep"
    os.chdir(top)
    fails(errno.ENAMETOOLONG, os.stat, "/".join([part] * 30))
    subprocess.check_call(["rm", "-r", part])


def large_directory():
    count = int(os.environ.get("T_ENTRIES", "20000"))
    os.mkdir("large")
    for i in range(count):
        os.close(os.open(backing("large/%d" % i), os.O_CREAT | os.O_WRONLY))
    assert len(set(os.listdir("large"))) == count
    it = os.scandir("large")
    first = [next(it).name for i in range(count // 2)]
    os.unlink("large/" + first[0])
    put("large/new", "x")
    rest = [e.name for e in it]
    assert len(set(first)) == len(first) and not set(first) & set(rest)
    missed = {str(i) for i in range(count)} - set(first) - set(rest)
    assert not missed, missed


def deleted():
    put("open", "still here")
    with open("open") as f:
        os.unlink("open")
        assert os.fstat(f.fileno()).st_nlink == 0
        assert f.read() == "still here"
    path = os.open(".", os.O_RDONLY)
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(backing("gone"))
    assert os.listdir(".") == []
    fails(errno.ENOENT, os.mkdir, "x")
    os.fchdir(path)
    put("two", "x")
    os.link("two", "three")
    fd = os.open("two", os.O_PATH)
    os.unlink("two")
    assert os.fstat(fd).st_nlink == 1


def changes_behind():
    put(backing("c"), "one")
    assert get("c") == "one"
    for i in range(20):
        text = "x" * i
        put(backing("c.new"), text)
        if i % 2:
            os.rename(backing("c.new"), backing("c"))
        else:
            put(backing("c"), text)
        assert get("c") == text, (i, get("c"))
    os.unlink(backing("c"))
    fails(errno.ENOENT, open, "c")
    put(backing("fresh"), "x")
    assert get("fresh") == "x"
    fails(errno.ENOENT, os.stat, "later")
    put(backing("later"), "x")
    time.sleep(1.2)
    assert get("later") == "x"


def listings_behind():
    """What changed is listed, also where the mtime is set back, as tar does."""
    os.mkdir("d")
    names = set()

    def listed_soon(what):
        end = time.monotonic() + 5
        while set(os.listdir("d")) != names:
            assert time.monotonic() < end, (what, os.listdir("d"), names)
            time.sleep(0.05)

    def remove_one():
        name = names.pop()
        os.unlink(backing("d/" + name))

    def add(name):
        put(backing("d/" + name), "x")
        names.add(name)

    back = (1000000000, 1000000000)
    add("first")
    for turn in range(3):
        os.utime(backing("d"), back)
        for pause in 0, 0.1, 1.2:
            time.sleep(pause)
            listed_soon("before")
            add("n%d-%s" % (turn, pause))
            if pause:
                os.stat("d")  # the kernel hears of one time between
            os.utime(backing("d"), back)
            listed_soon("added")
            remove_one()
            os.utime(backing("d"), back)
            listed_soon("removed")
            assert os.stat("d").st_mtime == back[0]
        back = (back[0] - 1, back[1] - 1)


def moved_behind():
    """Whoever has opened a directory has it, wherever others move it."""
    for turn in range(20):
        was, now = "m%d" % turn, "to%d" % turn
        os.makedirs(backing(was + "/in"))
        d = os.open(was + "/in", os.O_RDONLY | os.O_DIRECTORY)
        os.rename(backing(was + "/in"), backing(now))
        os.mkdir(backing(was + "/in"))
        os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=d))
        assert os.listdir(d) == ["new"], os.listdir(d)
        assert os.listdir(backing(now)) == ["new"]
        assert os.listdir(backing(was + "/in")) == []
        os.close(d)


def replaced_while_open():
    put(backing("r"), "first")
    keep = open("r")
    for i in range(200):
        put(backing("r.new"), str(i))
        os.rename(backing("r.new"), backing("r"))
        now = open("r")
        assert now.read() == str(i), i
        keep.close()
        keep = now
    os.unlink(backing("r"))
    again = os.open("/proc/self/fd/%d" % keep.fileno(), os.O_RDONLY)
    assert os.read(again, 10) == b"199"


def lock_record(kind, start=0, length=0):
    return struct.pack("hhqqi4x", kind, 0, start, length, 0)


def locks():
    put("l", "0123456789")
    setters = {
        "flock": lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB),
        "posix": lambda f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB),
        "ofd": lambda f: fcntl.fcntl(f, 37, lock_record(fcntl.F_WRLCK)),
    }
    tries = ("import fcntl, struct, sys; f = open(sys.argv[2], 'r+'); "
             "{'flock': lambda: fcntl.flock(f, 6),"
             " 'posix': lambda: fcntl.lockf(f, 6),"
             " 'ofd': lambda: fcntl.fcntl(f, 37, struct.pack("
             "'hhqqi4x', 1, 0, 0, 0, 0))}[sys.argv[1]]()")

    def can(kind, path):
        return subprocess.call([sys.executable, "-c", tries, kind, path],
                               stderr=subprocess.DEVNULL) == 0

    for kind, take in setters.items():
        for here, there in (("l", backing("l")), (backing("l"), "l"),
                            ("l", os.environ["OTHER"] + "/l")):
            f = open(here, "r+")
            take(f)
            assert not can(kind, there), (kind, here, there)
            f.close()
            assert can(kind, there), ("given back", kind, here, there)


def lock_holder():
    put("h", "0123456789")
    child = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, time; f = open('h', 'r+'); "
         "fcntl.lockf(f, fcntl.LOCK_EX, 3, 2); print(flush=True); "
         "time.sleep(20)"], stdout=subprocess.PIPE)
    child.stdout.readline()
    with open("h", "r+") as f:
        kind, _, start, length, pid = struct.unpack(
            "hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK,
                                   lock_record(fcntl.F_WRLCK)))
        assert (kind, start, length, pid) == (fcntl.F_WRLCK, 2, 3, child.pid)
        child.kill()
        child.wait()
        for i in range(50):
            try:
                fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(0.02)
    raise AssertionError("a dead process keeps its lock")


def lock_wait():
    put("w", "x")
    holder = open(backing("w"), "r+")
    fcntl.flock(holder, fcntl.LOCK_EX)
    waiting = [subprocess.Popen(["flock", "w", "true"]) for i in range(20)]
    time.sleep(0.5)
    for i in range(20):  # others aren't kept waiting
        put("beside", "x")
        assert get("beside") == "x"
    waiting[0].send_signal(signal.SIGINT)
    waiting[0].wait(5)
    assert all(w.poll() is None for w in waiting[1:])
    fcntl.flock(holder, fcntl.LOCK_UN)
    for w in waiting[1:]:
        assert w.wait(20) == 0


def sparse():
    fd = os.open("s", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x", 1 << 20)
    assert os.lseek(fd, 0, os.SEEK_DATA) > 0
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 0
    os.posix_fallocate(fd, 0, 4096)
    assert os.fstat(fd).st_blocks == os.stat(backing("s")).st_blocks
    copy = os.open("s2", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(fd, copy, 1 << 20, 1 << 20, 0) > 0
    assert os.pread(copy, 1, 0) == b"x"


def append_together():
    out = open("a", "ab", buffering=0)
    host = open(backing("a"), "ab", buffering=0)
    for i in range(50):
        out.write(b"in\n")
        host.write(b"out\n")
    assert get("a") == "in\nout\n" * 50 == get(backing("a"))


def full_disk():
    fd = os.open("big", os.O_WRONLY | os.O_CREAT)
    block = b"x" * (1 << 20)
    try:
        while True:
            os.write(fd, block)
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    os.close(fd)
    os.unlink("big")
    put("small", "fits")


os.chdir(sys.argv[2])
os.umask(0o022)
globals()[sys.argv[1]]()

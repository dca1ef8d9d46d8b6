"""gitmonkey.py SEED COUNT SECONDS: in a session, does COUNT random operations, or
as many as there is time for, to random names in the git directory $G, below the
worktree's own $A and the worktree $W.

Nothing is checked here: whoever started it compares what must not have changed.
Prints how many operations passed, and how many failed with which errno.
"""
import collections
import ctypes
import errno
import faulthandler
import mmap
import os
import random
import sys
import time

G, A, W, E = (os.environ[name] for name in "GAWE")
libc = ctypes.CDLL(None, use_errno=True)
rng = random.Random(int(sys.argv[1]))

# Names that git has, or that git gives a meaning to.
NAMES = """
HEAD HEAD.lock config config.lock config.worktree config.worktree.lock index
index.lock packed-refs packed-refs.lock packed-refs.new commondir gitdir shallow
shallow.lock ORIG_HEAD MERGE_HEAD MERGE_MSG FETCH_HEAD COMMIT_EDITMSG BISECT_START
AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD SQUASH_MSG sharedindex.x
hooks hooks/pre-commit hooks/post-commit info info/attributes info/exclude
info/refs info/refs.lock info/grafts info/sparse-checkout branches branches/x
remotes remotes/x modules modules/sub modules/sub/config modules/sub/HEAD
modules/new modules/new/config refs refs/heads refs/heads/main
refs/heads/main.lock refs/heads/main/x refs/heads/sib refs/heads/sib.lock
refs/heads/gone refs/heads/free refs/heads/free.lock refs/heads/wt refs/heads/x
refs/heads/d refs/heads/d/x refs/tags refs/tags/v1 refs/remotes
refs/remotes/origin refs/remotes/origin/main refs/replace refs/replace/x
refs/stash refs/stash.lock refs/bisect refs/bisect/bad refs/worktree/x logs
logs/HEAD logs/HEAD.lock logs/refs logs/refs/heads logs/refs/heads/main
logs/refs/heads/main.lock logs/refs/heads/main/x logs/refs/heads/sib
logs/refs/heads/free logs/refs/stash logs/refs/stash.lock objects objects/info
objects/info/alternates objects/info/x objects/info/packs objects/pack
objects/pack/x.pack objects/ab objects/ab/x worktrees worktrees/sib
worktrees/sib/HEAD worktrees/sib/HEAD.lock worktrees/sib/index
worktrees/sib/gitdir worktrees/sib/commondir worktrees/sib/config.worktree
worktrees/sib/logs/HEAD worktrees/sib/x worktrees/gone worktrees/gone/gitdir
worktrees/new worktrees/new/HEAD worktrees/new/gitdir worktrees/new/commondir
worktrees/new/config.worktree rebase-merge rebase-merge/git-rebase-todo
rebase-apply sequencer sequencer/todo lfs lfs/x annex/x rr-cache/x held held/x
held/config description gc.pid
""".split()
OWN = """
HEAD index gitdir commondir config.worktree config.worktree.lock FETCH_HEAD
logs/HEAD ORIG_HEAD locked modules/x/config rebase-merge x
""".split()

with open(E + "/config", "rb") as f:
    EVIL = f.read()


def objects():
    found = []
    for top, _, files in os.walk(G + "/objects"):
        found += [os.path.join(top, name) for name in files]
    return found


OBJECTS = objects()


def pick():
    kind = rng.random()
    if kind < 0.8:
        return G + "/" + rng.choice(NAMES)
    if kind < 0.9:
        return A + "/" + rng.choice(OWN)
    if kind < 0.95 and OBJECTS:
        return rng.choice(OBJECTS)
    return rng.choice([W + "/x", W + "/.git", E + "/x"])


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def rename(flags):
    a, b = pick(), pick()
    check(libc.renameat2(-100, a.encode(), -100, b.encode(), flags))


def write(flags):
    fd = os.open(pick(), flags | os.O_NONBLOCK, 0o644)
    held.append(fd)
    os.write(fd, rng.choice([EVIL, b"x\n", b"0" * 40 + b"\n"]))


def store():
    fd = os.open(pick(), os.O_RDWR | os.O_NONBLOCK)
    held.append(fd)
    m = mmap.mmap(fd, 0)
    m[0] = rng.randrange(256)
    m.flush()


def again():
    if held:
        fd = rng.choice(held)
        rng.choice([
            lambda: os.write(fd, b"x"),
            lambda: os.pwrite(fd, b"evil", 0),
            lambda: os.ftruncate(fd, rng.choice([0, 5])),
            lambda: os.posix_fallocate(fd, 0, 100),
            lambda: os.fchmod(fd, 0o755),
        ])()


def copied():
    """What is there, as another inode in its place."""
    path = pick()
    # It may be a FIFO by now.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:
        old = f.read(1 << 20) or b""
    if rng.random() < 0.5:
        old += rng.choice([EVIL, b"x\n"])
    fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    held.append(fd)
    os.write(fd, old)
    try:
        os.rename(path + ".lock", path)
    finally:
        if os.path.lexists(path + ".lock"):
            os.unlink(path + ".lock")


def nameless():
    fd = os.open(os.path.dirname(pick()), os.O_TMPFILE | os.O_RDWR, 0o644)
    held.append(fd)
    os.write(fd, EVIL)
    os.link(f"/proc/self/fd/{fd}", pick(), follow_symlinks=True)


OPERATIONS = [
    lambda: write(os.O_WRONLY),
    lambda: write(os.O_WRONLY | os.O_APPEND),
    lambda: write(os.O_WRONLY | os.O_TRUNC),
    lambda: write(os.O_RDWR | os.O_CREAT),
    lambda: write(os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    lambda: os.open(pick(), os.O_RDONLY | os.O_TRUNC | os.O_NONBLOCK),
    lambda: os.unlink(pick()),
    lambda: os.rmdir(pick()),
    lambda: os.mkdir(pick()),
    lambda: rename(0),
    lambda: rename(0),
    lambda: rename(1),
    lambda: rename(2),
    lambda: rename(2),
    lambda: os.link(pick(), pick()),
    lambda: os.link(pick(), pick()),
    lambda: os.symlink(pick(), pick()),
    lambda: os.mkfifo(pick()),
    lambda: os.truncate(pick(), 3),
    lambda: os.chmod(pick(), rng.choice([0o644, 0o755, 0])),
    lambda: os.chown(pick(), os.getuid(), os.getgid()),
    lambda: os.utime(pick(), (1, 1)),
    lambda: os.setxattr(pick(), "user.x", b"x"),
    store,
    again,
    again,
    copied,
    copied,
    nameless,
]

held = []
counts = collections.Counter()
# Where it hangs, if it does.
# A busy disk may keep one call waiting for long.
faulthandler.dump_traceback_later(float(sys.argv[3]) + 100, exit=True)
end = time.monotonic() + float(sys.argv[3])
for _ in range(int(sys.argv[2])):
    if time.monotonic() > end:
        break
    try:
        rng.choice(OPERATIONS)()
        counts["passed"] += 1
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        counts[errno.errorcode.get(number, "other")] += 1
    while len(held) > 50:
        os.close(held.pop(0))
print(" ".join(f"{name}={n}" for name, n in counts.most_common()))

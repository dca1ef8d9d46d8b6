"""crashload.py WORKTREE MAIN LOG: commits, renames and builds without end, until
something fails or it is killed. Each commit that git has reported as done is a
line in LOG, written to the disk; "HOLE" is one if a change of MAIN passed.
"""
import os
import random
import subprocess
import sys

W, M, LOG = sys.argv[1:]
log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.chdir(W)


def say(line):
    os.write(log, (line + "\n").encode())
    os.fsync(log)


def git(*args):
    return subprocess.run(["git", *args], check=True, text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT).stdout


def build():
    """What a compiler does: files beside, renamed into place, and removed."""
    for i in range(5):
        with open(f"out-{i}.tmp", "w") as f:
            f.write("x" * random.randrange(100000))
        os.rename(f"out-{i}.tmp", f"out-{i}")
    for i in range(5):
        os.unlink(f"out-{i}")


def attack():
    for do in (lambda: open(M + "/README.md", "a").write("HOLE\n"),
               lambda: os.rename(M + "/README.md", M + "/HOLE"),
               lambda: os.unlink(M + "/src/main.c"),
               lambda: os.mkdir(M + "/HOLE")):
        try:
            do()
            say("HOLE")
        except OSError:
            pass


n = 0
say("started")
while True:
    n += 1
    name = f"src/file-{n % 7}"
    with open(name, "w") as f:
        f.write(f"{n} {random.random()}\n")
    if n % 3 == 0 and os.path.exists("src/file-1"):
        os.rename("src/file-1", f"src/moved-{n}")
    build()
    attack()
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", str(n))
    say(git("rev-parse", "HEAD").strip())
    if n % 4 == 0:
        git("branch", "-f", f"side-{n % 3}", "HEAD")
    if n % 6 == 0:
        git("stash", "list")
        git("pack-refs", "--all")

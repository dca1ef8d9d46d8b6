"""Drives sessions whose rules change.

live.py serve            runs each line of stdin inside a session, and prints
                         its value, or the name of its errno
live.py ask SOCKET JSON  sends a line to a control socket, prints the answer
live.py flip SOCKET STATE PATH OP COUNT
                         allows PATH and does OP to it, by turns, COUNT times
live.py work STATE INDEX KIND DIR
                         does things in DIR, until flip ends, and checks that
                         each fails or not as the rule has it

STATE is a file that flip and work share: 8 bytes for the rule, then as many
for each worker. While a rule changes it is 0; once it is acknowledged, a number
that was never there before: odd where PATH is allowed; at the end END.
"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import time

END = 2**63 - 1
WORKERS = 4
DEADLINE = 60


def name_of(error):
    return errno.errorcode.get(error.errno, str(error))


# -- serve: what the lines are written with -------------------------------

fds, maps = {}, {}
libc = ctypes.CDLL(None, use_errno=True)


def libc_call(function, *args):
    if function(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return 0


def opened(name, path, flags=os.O_RDWR):
    fds[name] = os.open(path, flags)
    return "ok"


def closed(name):
    os.close(fds.pop(name))
    return "ok"


def written(name, text=b"new", at=0):
    return os.pwrite(fds[name], text, at)


def read(name, size=3):
    return os.pread(fds[name], size, 0).decode()


def allocated(name):
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64,
                               ctypes.c_int64]
    return libc_call(libc.fallocate, fds[name], 1, 0, 4096)


def copied(to, source):
    return os.copy_file_range(fds[source], fds[to], 3, 0, 0)


def flags_set(name):
    flags = bytearray(fcntl.ioctl(fds[name], 0x80086601, bytes(8)))
    fcntl.ioctl(fds[name], 0x40086602, bytes(flags))
    return "ok"


def mapped(name, size=4096):
    maps[name] = mmap.mmap(fds[name], size)
    return "ok"


def stored(name, text=b"map"):
    maps[name][0:len(text)] = text
    return "ok"


def flushed(name):
    maps[name].flush()
    return "ok"


def unmapped(name):
    maps.pop(name).close()
    return "ok"


def put(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return "ok"


def got(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def done(call, *args):
    call(*args)
    return "ok"


def serve():
    for line in sys.stdin:
        try:
            # pylint: disable=eval-used
            answer = eval(line)
        except OSError as error:
            answer = name_of(error)
        print(str(answer).replace("\n", " "), flush=True)


# -- the control socket ---------------------------------------------------

class Control:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        directory = os.open(os.path.dirname(path), os.O_PATH)
        # With a time-out it wouldn't wait for its turn.
        self.sock.connect(f"/proc/self/fd/{directory}/control.sock")
        self.sock.settimeout(DEADLINE)
        os.close(directory)
        self.file = self.sock.makefile("r", encoding="utf-8")

    def ask(self, **request):
        self.sock.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self.file.readline())


def ask(path, line):
    control = Control(path)
    control.sock.sendall(line.encode() + b"\n")
    print(control.file.readline().strip())


# -- flip and work --------------------------------------------------------

class State:
    def __init__(self, path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.ftruncate(fd, 4096)
        self.map = mmap.mmap(fd, 4096)

    def get(self, index=0):
        return struct.unpack_from("q", self.map, 8 * index)[0]

    def set(self, value, index=0):
        struct.pack_into("q", self.map, 8 * index, value)


def await_workers(state):
    """Each of them does something under this rule, and so hangs in nothing."""
    before = [state.get(i + 1) for i in range(WORKERS)]
    deadline = time.monotonic() + DEADLINE
    while any(state.get(i + 1) < before[i] + 2 for i in range(WORKERS)):
        assert time.monotonic() < deadline, "a worker hangs"
        time.sleep(0.0002)


def change(control, op, path):
    """Where the kernel passes writes through, not while a file is open."""
    deadline = time.monotonic() + DEADLINE
    while True:
        answer = control.ask(op=op, path=path)
        if "open" not in answer or time.monotonic() > deadline:
            return answer
        time.sleep(0.0005)


def flip(path, state_path, *args):
    state = State(state_path)
    try:
        flip_rules(Control(path), state, *args)
    finally:
        state.set(END)


def flip_rules(control, state, rule_path, op, count):
    for i in range(1, int(count) + 1):
        state.set(0)
        answer = change(control, "allow" if i % 2 else op, rule_path)
        assert answer["ok"], answer
        assert answer["generation"] >= i, answer
        state.set(i)
        await_workers(state)
    print(answer["generation"])


class Worker:
    def __init__(self, index, directory):
        self.path = os.path.join(directory, f"file-{index}")
        self.fd = -1

    def write(self):
        fd = os.open(self.path, os.O_WRONLY)
        try:
            os.write(fd, b"x")
        finally:
            os.close(fd)

    def descriptor(self):
        """Writes through one that is open for long."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR)
        os.pwrite(self.fd, b"y", 0)

    def create(self):
        try:
            os.close(os.open(self.path + "-new", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        os.unlink(self.path + "-new")

    def rename(self):
        names = [self.path + "-a", self.path + "-b"]
        if not os.path.lexists(names[0]):
            names.reverse()
        os.rename(*names)

    def attributes(self):
        os.chmod(self.path, 0o644)
        os.truncate(self.path, 1)

    def read(self):
        with open(self.path, "rb") as file:
            file.read(1)


def attempt(call):
    try:
        call()
    except OSError as error:
        return name_of(error)
    return "ok"


def work(state_path, index, kind, directory):
    state, worker = State(state_path), Worker(index, directory)
    calls = [getattr(worker, name) for name in kind.split(",")]
    refused, reads = sys.argv[6], kind == "read"
    seen = {}
    slot = int(index) + 1
    while True:
        for call in calls:
            before = state.get()
            got_it = attempt(call)
            if before == END:
                break
            if before != 0 and before == state.get():
                want = "ok" if before % 2 or (reads and refused == "EROFS") \
                    else refused
                assert got_it == want, (call.__name__, before, got_it, want)
                seen[got_it] = seen.get(got_it, 0) + 1
            state.set(state.get(slot) + 1, slot)
        else:
            continue
        break
    print(sum(seen.values()), *sorted(seen))


if __name__ == "__main__":
    {"serve": serve, "ask": ask, "flip": flip, "work":
     lambda *args: work(*args[:4])}[sys.argv[1]](*sys.argv[2:])

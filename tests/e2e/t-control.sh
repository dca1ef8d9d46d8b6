#!/bin/bash
# The control socket: what it answers, to whom, and that nobody keeps others
# from being answered; and that from inside a session nothing leads to it.
# shellcheck disable=SC2016 # what is quoted is expanded inside
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"

t_need git python3 setpriv unshare
t_user_make || exit 1

cp "$T_SRC/tests/support/live.py" "$T_SCRATCH/live.py"
cat >"$T_SCRATCH/clients.py" <<'END'
"""clients.py SOCKET WHAT [DIR]"""
import json
import os
import socket
import sys

from live import Control

path, what = sys.argv[1:3]


def ended(sock):
    """Reads to the end: how many bytes there were."""
    size = 0
    while True:
        try:
            data = sock.recv(65536)
        except ConnectionResetError:
            return size
        if not data:
            return size
        size += len(data)


def answers():
    """Of each kind of request, what is in the answer."""
    control = Control(path)
    for request in ({"op": "counters"}, {"op": "rules"}, {"op": "status"},
                    {"op": "allow"}, {"op": "hide", "path": "a/../b"},
                    {"op": "no"}, {"path": "/"}, {"op": 7}):
        answer = control.ask(**request)
        assert answer["schema_version"] == 1, answer
        print(json.dumps(request), answer["ok"], *sorted(answer))
    for line in (b"{", b"[]", b"7", b"", b"\xff\xfe", b'"\\ud800"'):
        control.sock.sendall(line + b"\n")
        answer = json.loads(control.file.readline())
        assert not answer["ok"] and answer["error"], answer
    control.sock.sendall(b'{"op":"rules"}\n' * 50)
    for _ in range(50):
        assert json.loads(control.file.readline())["rules"]


def long_line():
    """10 MB and no newline."""
    control = Control(path)
    try:
        control.sock.sendall(b"x" * 10_000_000)
    except (BrokenPipeError, ConnectionResetError):
        pass
    answer = json.loads(control.file.readline())
    assert answer["error"] == "line too long", answer
    assert ended(control.sock) == 0


def crowd():
    """More clients than there is room for, all of them silent or slow."""
    silent = [Control(path) for _ in range(50)]
    half = [Control(path) for _ in range(50)]
    for control in half:
        control.sock.sendall(b'{"op":"sta')
    deaf = [Control(path) for _ in range(10)]
    for control in deaf:
        control.sock.setblocking(False)
        try:
            while True:
                control.sock.send(b'{"op":"rules"}\n' * 100)
        except BlockingIOError:
            pass
    for _ in range(20):
        assert Control(path).ask(op="counters")["ok"]
    return silent, half, deaf


def denials(directory, names, count):
    for i in range(count):
        try:
            os.open(b"%s/%s%d" % (os.fsencode(directory), names, i),
                    os.O_CREAT | os.O_WRONLY)
        except OSError:
            pass


def subscribe():
    """One reads all, one reads nothing and is cut off."""
    fast, slow, other = (Control(path) for _ in range(3))
    for control in (fast, slow):
        assert control.ask(op="subscribe")["ok"]
    fast.sock.shutdown(socket.SHUT_WR)
    print("subscribed", flush=True)
    seen = {}
    while sum(seen.values()) < 1500:
        line = json.loads(fast.file.readline())
        assert "schema_version" not in line and line["session"], line
        if "dropped" in line:
            seen["dropped"] = seen.get("dropped", 0) + line["dropped"]
        else:
            seen[line["path"]] = line["count"]
    assert other.ask(op="counters")["denials"] >= 1500
    size = ended(slow.sock)
    assert size > 0, size
    assert other.ask(op="subscribe")["ok"]
    print(len(seen))


def changed():
    """A change by somebody who doesn't wait for it, and one by who does."""
    gone = Control(path)
    gone.sock.sendall(b'{"op":"allow","path":"%s"}\n'
                      % os.fsencode(sys.argv[3]))
    gone.file.close()
    gone.sock.close()
    control = Control(path)
    control.sock.sendall(b'{"op":"protect","path":"%s"}\n{"op":"rules"}\n'
                         % os.fsencode(sys.argv[3]))
    change, rules = (json.loads(control.file.readline()) for _ in range(2))
    assert change["ok"], change
    assert change["generation"] == rules["generation"], rules
    live = [r for r in rules["rules"] if r["origin"] == "live"]
    assert [r["access"] for r in live] == ["ro"], live


def handed_on():
    """A connected descriptor, given to a command."""
    control = Control(path)
    assert control.ask(op="counters")["ok"]
    os.set_inheritable(control.sock.fileno(), True)
    os.execvp(sys.argv[3], [*sys.argv[3:], sys.argv[0], path,
                            f"inherited:{control.sock.fileno()}"])


def inherited(number):
    sock = socket.socket(fileno=int(number))
    sock.settimeout(30)
    try:
        sock.sendall(b'{"op":"counters"}\n')
        print(sock.recv(65536) or "closed")
    except (BrokenPipeError, ConnectionResetError):
        print("closed")


if what == "deny":
    denials(sys.argv[3], b"\xff" * 200, 1500)
elif what.startswith("inherited:"):
    inherited(what.split(":")[1])
else:
    globals()[what]()
END
chmod 0644 "$T_SCRATCH"/*.py

same() {
	t_is "$who: $1" "$2" "$3"
}

client() {
	s_as python3 "$T_SCRATCH/clients.py" "$RUN/$session/control.sock" "$@"
}

# shellcheck disable=SC2317 # called by way of t_ok
counters() {
	s_mountctl status "$session" --json |
		python3 -c 'import json, sys
assert json.load(sys.stdin)["requests_total"] > 0'
}

answered() {
	t_ok "$who: each request is answered" client answers
	t_like "$who: counters" "$T_STDOUT" \
		'"counters"} True denials ok requests requests_total schema_version uptime'
	t_like "$who: rules" "$T_STDOUT" \
		'"rules"} True generation ok rules schema_version'
	t_like "$who: a change without a path" "$T_STDOUT" \
		'"allow"} False error ok schema_version'
	t_like "$who: an unknown request" "$T_STDOUT" '"no"} False error ok'
	t_ok "$who: a line of 10 MB ends the connection" client long_line
	t_ok "$who: nor is anybody else disturbed" counters
	t_ok "$who: a crowd of silent, slow and deaf clients" client crowd
	t_ok "$who: is gone" counters
	t_ok "$who: a change that nobody waits for" client changed "$M/docs"
}

subscribed() {
	local reader
	client subscribe >"$BASE/seen" 2>&1 &
	reader=$!
	t_wait 10 grep -q subscribed "$BASE/seen"
	s_in "$session" python3 "$T_SCRATCH/clients.py" - deny "$M" \
		>/dev/null 2>&1
	wait "$reader"
	same "who subscribes hears of each denial" "$?" 0 ||
		t_diag "$(tail -5 "$BASE/seen")"
	t_ok "$who: and nobody is disturbed" counters
}

# Nothing in the session leads to the socket.
kept_out() {
	local pid socket=$RUN/$session/control.sock inside=(s_in "$session")
	pid=$(s_server "$session")
	cat >"$BASE/dial.py" <<-'PYTHON'
		import socket, sys
		sock = socket.socket(socket.AF_UNIX)
		sock.settimeout(20)
		name = sys.argv[1]
		sock.connect("\0" + name[1:] if name[0] == "@" else name)
		sock.sendall(b'{"op":"allow","path":"%s"}\n' % sys.argv[2].encode())
		sys.exit(0 if b'"ok":true' in sock.recv(4096) else 1)
	PYTHON
	chmod 0644 "$BASE/dial.py"
	t_ok "$who: from outside it is answered" s_as python3 "$BASE/dial.py" \
		"$socket" "$M/docs"
	t_not "$who: inside, not by its path" "${inside[@]}" \
		python3 "$BASE/dial.py" "$socket" "$M"
	t_not "$who: nor through the filesystem process's root" "${inside[@]}" \
		python3 "$BASE/dial.py" "/proc/$pid/root$socket" "$M"
	t_not "$who: nor its working directory" "${inside[@]}" \
		python3 "$BASE/dial.py" "/proc/$pid/cwd/$socket" "$M"
	t_not "$who: nor its descriptors" "${inside[@]}" bash -c '
		for fd in /proc/$0/fd/*; do
			python3 "$1" "$fd/control.sock" "$2" && exit 0
			python3 "$1" "$fd" "$2" && exit 0
		done 2>/dev/null
		exit 1' "$pid" "$BASE/dial.py" "$M"
	t_not "$who: nor through a process outside" "${inside[@]}" \
		python3 "$BASE/dial.py" "/proc/$$/root$socket" "$M"
	same "no abstract name leads there" \
		"$(grep -c '@.*worktreefs' /proc/net/unix)" 0
	t_not "$who: nor one of the path" "${inside[@]}" \
		python3 "$BASE/dial.py" "@$socket" "$M"
	t_not "$who: nor from a nested user namespace" "${inside[@]}" \
		unshare -Urm python3 "$BASE/dial.py" "$socket" "$M"
	same "a connected descriptor isn't heard" "$(cd "$W" &&
		client handed_on "$T_MOUNTCTL" run -n "$session" -- python3)" \
		closed
	same "nor is one that starts a session" "$(cd "$W" && client handed_on \
		"$T_MOUNTCTL" run -n another --root "$BASE/tree" \
		--ro kept -- python3)" \
		closed
	t_not "$who: mountctl allow changes nothing inside" "${inside[@]}" \
		"$T_MOUNTCTL" allow "$session" "$M"
	t_like "$who: and says where it does" "$T_STDERR" "from outside of every"
	t_not "$who: a record made inside" "${inside[@]}" \
		sh -c 'mkdir -p "$0/forged" && cp -r "$0/$1/." "$0/forged"' \
		"$RUN" "$session"
	same "is none outside" "$(s_records)" "$session"
	same "nothing has changed" "$(client answers | grep -c .)" 8
	t_errno EROFS "$who: main is what it was" \
		"${inside[@]}" sh -c 'echo >"$0/README.md"' "$M"
}

# A record that isn't backed by a process is believed by nobody.
forged() {
	s_as mkdir -m 0700 "$RUN/forged"
	s_as sh -c 'sed "s/\"session\":[^,]*,/\"session\":\"forged\",/" \
		<"$0/$1/session.json" >"$0/forged/session.json"' "$RUN" "$session"
	s_as sh -c ': >"$0/forged/lock"' "$RUN"
	t_status 1 "$who: a forged record" s_mountctl allow forged "$M/docs"
	t_like "$who: is dead" "$T_STDERR" "the session 'forged' is dead"
	s_as rm -r "$RUN/forged"
}

# What a command was given when it started answers there.
snapshot() {
	local before
	before=$(s_mountctl status "$session" --json | grep -c '"live"')
	s_in "$session" bash -c '
		! echo x 2>/dev/null >"$1/src/new" &&
		echo >"$2" && while [ ! -e "$3" ]; do sleep 0.1; done &&
		echo x >"$1/src/new" && ! "$0" why "$1/src/new" >/dev/null' \
		"$T_MOUNTCTL" "$M" "$BASE/ready" "$BASE/go" &
	local command=$!
	t_wait 20 test -e "$BASE/ready"
	s_mountctl allow "$session" src && s_as touch "$BASE/go"
	wait "$command"
	same "the command sees the rule, and its snapshot stays" "$?" 0
	t_status 1 "$who: a later command's, too" s_in "$session" \
		"$T_MOUNTCTL" why "$M/src/new"
	t_status 0 "$who: outside it is known" s_mountctl why -n "$session" \
		"$M/src/new"
	s_mountctl protect "$session" src
	same "it is one more" "$(s_mountctl status "$session" --json |
		grep -c '"live"')" $((before + 1))
	rm -f "$BASE/ready" "$BASE/go" "$M/src/new"
}

for who in $(s_everybody); do
	s_be "$who"
	s_repository && s_as mkdir "$BASE/tree" || exit 1
	session=control
	s_hold control
	answered
	subscribed
	kept_out
	forged
	snapshot
	s_release
	s_clear "nothing is left"
done
t_done

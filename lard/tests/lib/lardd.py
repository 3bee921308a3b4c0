# SPDX-License-Identifier: GPL-2.0
"""lardd and back-ends on loopback, for the integration tests."""

import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../tools/testing/lib"))
import kit                                              # noqa: E402

TOP = os.environ.get("FLT_TOP", os.path.join(HERE, "../../.."))
LARDD = os.environ.get("LARDD", os.path.join(TOP, "build/bin/lardd"))
# Root's temporary directories are for root only, where a socket is to be removed and a file read again.
AS_ROOT = "" if os.geteuid() else "user root"
PRETENDER = os.path.join(TOP, "build/tests/lardd_pretend")
EXTRA = os.environ.get("LARDD_CONFIG", "").replace(";", "\n")     # lines for every configuration


def until(condition, seconds=kit.PATIENCE, what="the state"):
    """Waits for a state, not for a time."""
    return kit.wait_for(what, condition, seconds)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Backend:
    """A small HTTP server; /PATH picks what it does. One thread a connection."""

    def __init__(self, name, port=0, host="127.0.0.1"):
        self.name, self.gate = name, threading.Event()
        self.seen, self.connections, self.raw = [], 0, []
        self.cut = None     # bytes of a body after which it closes
        self.gate.set()
        self.host, self.port = host, port
        self.start()

    def start(self):
        self.server = socket.socket()
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server.bind((self.host, self.port))
        self.port = self.server.getsockname()[1]
        self.server.listen(512)
        self.open, self.lock = set(), threading.Lock()
        threading.Thread(target=self.accept, args=(self.server,), daemon=True).start()

    def stop(self):
        """Dies: listener and connections are reset."""
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        with self.lock:
            for peer in self.open:
                with contextlib.suppress(OSError):
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    peer.shutdown(socket.SHUT_RDWR)

    def accept(self, server):
        with contextlib.suppress(OSError):
            while True:
                peer = server.accept()[0]
                with self.lock:
                    self.open.add(peer)
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        # A health check connects and leaves: only who speaks is counted.
        try:
            stream = peer.makefile("rb")
            counted = False
            while self.one_request(peer, stream, not counted):
                counted = True
        except OSError:
            pass
        finally:
            with self.lock:
                self.open.discard(peer)
            peer.close()

    def one_request(self, peer, stream, first):
        line = stream.readline()
        if first and line == b"\r\n":       # PROXY protocol, version 2
            rest = line + stream.read(14)
            self.raw.append(rest + stream.read(int.from_bytes(rest[14:16], "big")))
            line = stream.readline()
        if not line:
            return False
        self.connections += first
        method, target, version = line.decode("latin-1").split()
        fields = {}
        while (field := stream.readline().strip()):
            key, value = field.decode("latin-1").split(":", 1)
            fields.setdefault(key.lower(), []).append(value.strip())
        if "100-continue" in fields.get("expect", []):
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = b"" if target == "/upgrade" else self.read_body(stream, fields)
        self.seen.append((method, target, version, fields, body))
        return self.answer(peer, stream, method, target, version, body)

    @staticmethod
    def read_body(stream, fields):
        if "content-length" in fields:
            return stream.read(int(fields["content-length"][0]))
        body = b""
        if "chunked" in fields.get("transfer-encoding", []):
            while (line := stream.readline()):
                size = int(line.split(b";")[0], 16)
                if not size:
                    break
                body += stream.read(size)
                stream.readline()
            if not line:
                raise ConnectionError("the body is cut")
            while stream.readline().strip():
                pass
        return body

    def answer(self, peer, stream, method, target, version, body):
        head = f"HTTP/1.1 200 OK\r\nX-Node: {self.name}\r\n".encode()
        path = target.split("?")[0]
        if path == "/slow":
            self.gate.wait(10 * kit.PATIENCE)
        if path == "/die":
            return False
        if path == "/half":
            peer.sendall(head + b"Content-Length: 100000\r\n\r\n" + b"x" * 5000)
            return False
        if path == "/eof":
            peer.sendall(head + b"Connection: close\r\n\r\nuntil the end")
            return False
        if path == "/endless":
            peer.sendall(head + b"Connection: close\r\n\r\na part")
            stream.read()
            return False
        if path == "/chunked":
            peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for size in (1, 70000, 5):
                peer.sendall(b"%x\r\n" % size + b"c" * size + b"\r\n")
            peer.sendall(b"0\r\nTrailer: yes\r\n\r\n")
            return True
        if path == "/204":
            peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            return True
        if path == "/nonsense":
            peer.sendall(b"this is no HTTP\r\n\r\n")
            return False
        if path == "/long-header":
            peer.sendall(head + b"X-Long: " + b"l" * 40000 + b"\r\n\r\n")
            return False
        if path == "/upgrade":
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                         b"Connection: Upgrade\r\n\r\n")
            while (data := stream.read1(4096)):
                peer.sendall(data.upper())
            return False
        if path.startswith("/with/"):       # /with/SIZE?FIELD|FIELD...
            fields = urllib.parse.unquote(target.partition("?")[2]).split("|")
            head += "".join(f"{field}\r\n" for field in fields).encode()
        match = re.match(r"/(?:size|with)/(\d+)", path)
        if match:
            body = view_of_content(int(match.group(1)))
        elif path == "/echo":
            body = hashlib.sha256(body).hexdigest().encode()
        else:
            body = self.name.encode()
        head += b"Content-Length: %d\r\n\r\n" % len(body)
        body = b"" if method == "HEAD" else body[:self.cut]
        peer.sendall(head + body[:PIECE])           # what is small in one piece; of what is large there is no copy
        peer.sendall(body[PIECE:])
        return version == "HTTP/1.1" and self.cut is None


@contextlib.contextmanager
def kernel_counters(*lines):
    """What PRETENDER's kernel has counted, as lines "ROOM NAME VALUE"; the function that changes them."""
    with tempfile.NamedTemporaryFile("w") as file:
        def write(*lines):
            with open(f"{file.name}.new", "w", encoding="ascii") as new:
                new.write("".join(f"{line}\n" for line in lines))
            os.rename(new.name, file.name)
        write(*lines)
        os.environ["KERNEL_STATS"] = file.name
        try:
            yield write
        finally:
            del os.environ["KERNEL_STATS"]


def descriptors(lardd):
    """Paths of what it has open."""
    directory = f"/proc/{lardd.process.pid}/fd"
    return [os.path.join(directory, fd) for fd in os.listdir(directory)]


def leave_descriptors(lardd, spare):
    """It can open that many more, and no other. The limit before."""
    def used():
        time.sleep(0.01)
        return [int(os.path.basename(fd)) for fd in descriptors(lardd)]
    now = min((used() for _ in range(30)), key=len)     # a check, or who has asked, comes and goes
    before = resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE)
    free = [fd for fd in range(max(now) + spare + 2) if fd not in now]
    limit = free[spare]                                 # there may be holes, and the lowest is taken
    return resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE, (limit, before[1]))


def answer_with(size, *fields):
    """The target whose answer has these fields."""
    return f"/with/{size}?" + urllib.parse.quote("|".join(fields), safe="/=-,|:")


PIECE = 1 << 16
CONTENT = [b"".join(b"%07x\n" % i for i in range(PIECE // 8))]


def view_of_content(size):
    """Of what all who want so much share."""
    if len(CONTENT[0]) < size:
        CONTENT[0] = CONTENT[0][:PIECE] * (size // PIECE + 1)
    return memoryview(CONTENT[0])[:size]


def content(size):
    """Bytes that show where one is missing."""
    return bytes(view_of_content(size))


class Lardd:
    """A running daemon. Extra configuration lines are given as text."""

    def __init__(self, backends, extra="", nodes=True, preexec=None, program=LARDD):
        self.directory = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.socket_path = os.path.join(self.directory.name, "control")
        self.config_path = os.path.join(self.directory.name, "lardd.conf")
        self.log_path = os.path.join(self.directory.name, "log")
        self.backends, self.program = backends, program
        self.configure(extra, nodes)
        self.log_file = open(self.log_path, "w+", encoding="utf-8")
        self.start(preexec=preexec)
        self.wait_nodes(len(backends) if nodes else 0)

    def start(self, stderr=None, preexec=None):
        self.process = subprocess.Popen([self.program, "-c", self.config_path, "--foreground"],
                                        stderr=self.log_file if stderr is None else stderr, preexec_fn=preexec)
        until(lambda: self.control_or_none("status", "pid") == self.process.pid or
              self.process.poll() is not None, what="its control socket")
        assert self.process.poll() is None, self.log()

    def configure(self, extra="", nodes=True):
        lines = [f"listen 127.0.0.1:{self.port}", f"control {self.socket_path}", "mode proxy",
                 "health-check tcp interval 250ms fall 2 rise 1"]
        if nodes:
            lines += [f"node {b.name} {b.host}:{b.port}" for b in self.backends]
        if not re.search("^user ", extra, re.M):
            lines.append(AS_ROOT)
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n" + EXTRA + "\n" + extra + "\n")

    def wait_nodes(self, count):
        until(lambda: self.control("status")["nodes"] == count, what=f"{count} nodes up")

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def wait_log(self, text):
        until(lambda: text in self.log(), what=f"log line with {text!r}")

    def control(self, command, **more):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(kit.PATIENCE)
            s.connect(self.socket_path)
            s.sendall(json.dumps({"cmd": command, **more}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def counter(self, name):
        return self.control("stats")["counters"][name]

    def load(self):
        return sum(n["load"] for n in self.control("nodes")["nodes"])

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def ask(self, data):
        """One connection, raw bytes; what comes until it closes."""
        with self.connect() as s:
            s.sendall(data)
            return receive_all(s)

    def get(self, target, fields="", version="HTTP/1.1"):
        """Status, fields and body of a GET on a connection of its own."""
        with self.connect() as s:
            s.sendall(f"GET {target} {version}\r\nHost: h\r\n{fields}\r\n".encode())
            return read_answer(s.makefile("rb"))

    def node_of(self, target):
        return self.get(target)[1]["x-node"]

    def take_over(self):
        """A new process in the place of this one; returns the old one."""
        old = self.process
        self.process = subprocess.Popen([self.program, "-c", self.config_path, "--foreground",
                                         "--takeover"], stderr=self.log_file)
        until(lambda: self.control_or_none("status", "pid") == self.process.pid,
              what="the new process")
        return old

    def control_or_none(self, command, key):
        try:
            return self.control(command)[key]
        except (OSError, ValueError):   # none there, or it ends before it has answered
            return None

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def end(self):
        """Ends it and expects a clean exit (sanitizers, leaks)."""
        # The second one, as which it waits for nobody, again and again: while the first is not read they are one.
        until(lambda: self.process.send_signal(signal.SIGTERM) or self.process.poll() is not None, what="its end")
        status = self.process.wait()
        log = self.log()
        self.log_file.close()
        self.directory.cleanup()
        assert status == 0, f"exit status {status}\n{log[-6000:]}"
        assert "Sanitizer" not in log and "runtime error" not in log, log[-6000:]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print("# " + self.log()[-3000:].replace("\n", "\n# "))
            self.process.kill()
            self.process.wait()
        else:
            self.end()


def receive_all(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while (more := s.recv(65536)):
            data += more
    return data


def read_answer(stream, head=False):
    status = stream.readline()
    if not status:
        raise EOFError
    code, fields = int(status.split()[1]), {}
    while (line := stream.readline().strip()):
        key, value = line.decode().split(":", 1)
        fields[key.lower()] = value.strip()
    body = b""
    if head or code in (204, 304) or code < 200:
        pass
    elif "content-length" in fields:
        body = stream.read(int(fields["content-length"]))
    elif fields.get("transfer-encoding") == "chunked":
        while (size := int(stream.readline(), 16)):
            body += stream.read(size)
            stream.readline()
        while stream.readline().strip():
            pass
    else:
        body = stream.read()
    return code, fields, body


@contextlib.contextmanager
def cluster(count, extra="", preexec=None, program=LARDD):
    """count back-ends behind a lardd."""
    backends = [Backend(f"be{i}") for i in range(count)]
    try:
        with Lardd(backends, extra, preexec=preexec, program=program) as lardd:
            yield lardd
    finally:
        for backend in backends:
            backend.gate.set()
            backend.stop()


class Origin(Backend):
    """Answers each request with what script(number, head, body so far) says: bytes, and whether it goes on."""

    def __init__(self, name, script):
        self.script, self.requests, self.count = script, [], threading.Lock()
        self.doubtful, self.reused = set(), []      # connections that must have no more requests, and which had
        super().__init__(name)

    def serve(self, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)      # what is sent is there
        with contextlib.suppress(OSError):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = peer.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                with self.count:
                    self.requests.append(head)
                    if peer in self.doubtful:
                        self.reused.append(head)
                answer, goes_on = self.script(peer, head, data)
                peer.sendall(answer)
                if not goes_on:
                    break
                data = b""
            # Closed for sending, but what comes is read: no RST tells of it.
            peer.shutdown(socket.SHUT_WR)
            peer.settimeout(30)
            while peer.recv(65536):
                pass
        with self.lock:
            self.open.discard(peer)
        peer.close()


@contextlib.contextmanager
def behind(script, extra=""):
    origin = Origin("be0", script)
    try:
        with Lardd([origin], extra) as lardd:
            yield lardd, origin
    finally:
        origin.stop()


def main(tests):
    """TAP; the exit status. With arguments: only the tests named."""
    if not os.access(LARDD, os.X_OK):
        kit.bail("lardd is not built")
    return kit.run([(t.__name__, t) for t in tests])

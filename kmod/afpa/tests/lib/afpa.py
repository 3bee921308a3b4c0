# SPDX-License-Identifier: GPL-2.0
"""What afpa's guest tests share: the device, a server that knows nothing of it, clients."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../..")
sys.path += [os.path.join(TOP, "splice/tests/lib"), os.path.join(TOP, "tools/testing/lib")]
import kit                                      # noqa: E402
import ssp                                      # noqa: E402
import stall                                    # noqa: E402
from kit import claim, equal                    # noqa: E402,F401
from ssp import PATIENCE, Thread, body, fails, load, reset, same, unload, wait_for      # noqa: E402,F401

TCP_MD5SIG = 14
MD5SIG_SIZE = 216
OFF, SOFTIRQ, THREAD, HYBRID = range(4)
UPDATE, AUTOMATIC, AGED, FILE = 1, 2, 4, 8
SITE = struct.Struct("=H2s16s")
SITE_ARGS = struct.Struct("=II20sIIIQ")
PUT = struct.Struct("=II20sHHHHIQQQQQQQQQII")
BAN = struct.Struct("=II20sHHQQQ")
TICKET = struct.Struct("=IIQ")
LOG = struct.Struct("=IIII")
RECORD = struct.Struct("=HHH2s2sHI16sQQQ")
EXPLAIN = struct.Struct("=II20sHHQQIIIIQQQ")
KEY = struct.Struct("=II20sHHQQQQQQQQII")
LISTEN = struct.Struct("=II20sIII16s")
NEXT_SITE = struct.Struct("=II20sIQ")
INFO = struct.Struct("=IIIIQQIIQQ")
POLICY = struct.Struct("=IIII")
LAST = ("none", "deleted", "banned", "flushed", "expired", "evicted", "shrunk", "refused")
THERE, ON_DISK = 1, 2
CLOCK, LRU = 0, 1
SETTINGS = {"mode": 1, "budget": 2, "max_object": 4, "stall_ms": 8}


def request(number, size):
    return 3 << 30 | size << 16 | 0xFB << 8 | number


def address(site):
    """The kernel's form of ("127.0.0.1", 80) or ("::", 80)."""
    family = socket.AF_INET6 if ":" in site[0] else socket.AF_INET
    return SITE.pack(family, struct.pack(">H", site[1]), socket.inet_pton(family, site[0]).ljust(16, b"\0"))


def place(text):
    """An address in memory of bytes that stay, and what keeps them there."""
    keep = ctypes.create_string_buffer(text, max(len(text), 1))
    return ctypes.addressof(keep), keep


class Device:
    """/dev/afpa, in the network namespace of the caller."""

    def __init__(self):
        self.fd = os.open("/dev/afpa", os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def call(self, number, form, *fields):
        buf = bytearray(form.pack(form.size, *fields))
        fcntl.ioctl(self.fd, request(number, form.size), buf)
        return form.unpack(buf)

    def info(self, **settings):
        """Sets what is given, and says all."""
        flags = sum(SETTINGS[name] for name in settings)
        f = self.call(1 if flags else 0, INFO, flags, 0, settings.get("mode", 0), settings.get("budget", 0),
                      settings.get("max_object", 0), settings.get("stall_ms", 0), 0, 0, 0)
        return dict(zip(("version", "mode", "budget", "max_object", "stall_ms", "sites", "used", "objects"), f[2:]))

    def policy(self, policy=None):
        """Which one holds; with one, from now on."""
        return self.call(17, POLICY, policy is not None, policy or 0, 0)[2]

    def site_add(self, site):
        """(listeners, refused, errno)"""
        return self.call(2, SITE_ARGS, 0, address(site), 0, 0, 0, 0)[3:6]

    def listen(self, site, protocol):
        """(listeners, refused, errno)"""
        return self.call(14, LISTEN, 0, address(site), 0, 0, 0, protocol.encode())[3:6]

    def protocol(self, site):
        return self.call(15, LISTEN, 0, address(site), 0, 0, 0, b"")[6].rstrip(b"\0").decode()

    def site_del(self, site):
        return self.call(3, SITE_ARGS, 0, address(site), 0, 0, 0, 0)[6]

    def flush(self, site=None):
        return self.call(9, SITE_ARGS, 0 if site else 1, address(site or ("0.0.0.0", 1)), 0, 0, 0, 0)[6]

    def next_site(self, index):
        f = self.call(4, NEXT_SITE, index, bytes(20), 0, 0)
        return {"listeners": f[3], "conns": f[4]}

    def putting(self, site, path, data, host="*", kind="text/plain", headers="", ttl_ms=0, update=False,
                automatic=False, since=0, tags="", age=None, fd=None):
        """The call alone, which gives the version."""
        texts = [host.encode(), path.encode(), kind.encode(), headers.encode(), data, tags.encode()]
        where = [place(text) for text in texts]
        lengths = [len(text) for text in texts]
        flags = UPDATE * update | AUTOMATIC * automatic | AGED * (age is not None) | FILE * (fd is not None)
        data = (where[4][0], lengths[4]) if fd is None else (fd, 0)
        return lambda: self.call(5, PUT, flags, address(site), *lengths[:4], ttl_ms, *(w[0] for w in where[:4]), *data,
                                 0, since, where[5][0], lengths[5], age or 0)[-5]

    def put(self, *args, **how):
        """The version."""
        return self.putting(*args, **how)()

    def put_file(self, site, path, name, flags=os.O_RDONLY, **how):
        """What is in the file of that name; the version."""
        fd = os.open(name, flags | os.O_CLOEXEC)
        try:
            return self.put(site, path, b"", fd=fd, **how)
        finally:
            os.close(fd)

    def key(self, number, site, path, host, left_ms=0):
        where = [place(host.encode()), place(path.encode())]
        f = self.call(number, KEY, 0, address(site), len(host), len(path), where[0][0], where[1][0],
                      0, 0, 0, 0, 0, 0, left_ms, 0)
        return dict(zip(("version", "body_len", "charged", "hits", "age_ms", "left_ms"), f[8:14]),
                    automatic=bool(f[1] & AUTOMATIC), age=f[14] if f[1] & AGED else None,
                    file=bool(f[1] & FILE))

    def delete(self, site, path, host="*"):
        self.key(6, site, path, host)

    def query(self, site, path, host="*"):
        return self.key(7, site, path, host)

    def ttl(self, site, path, left_ms, host="*"):
        return self.key(10, site, path, host, left_ms)

    def ban(self, site, text, host="", tag=False):
        """How many went; None: of all sites."""
        where = [place(host.encode()), place(text.encode())]
        return self.call(11, BAN, (not site) | tag << 1, address(site or ("0.0.0.0", 1)), len(host), len(text),
                         where[0][0], where[1][0], 0)[-1]

    def ticket(self):
        return self.call(12, TICKET, 0, 0)[-1]

    def log(self, size=65536):
        self.call(13, LOG, 0, size, 0)

    def records(self, room=1 << 20):
        """What is in the log: dictionaries."""
        data, found = os.read(self.fd, room), []
        while data:
            f = RECORD.unpack_from(data)
            if f[0] < RECORD.size + f[1] or f[0] > len(data):
                raise AssertionError(f"a record of {f[0]} bytes, {f[1]} of the request, where {len(data)} are left")
            found.append({"lost": f[6], "client": (socket.inet_ntop(f[2], f[7][:4] if f[2] == socket.AF_INET else f[7]),
                                                   int.from_bytes(f[3], "big")),
                          "port": int.from_bytes(f[4], "big"), "time": f[8] / 1e9, "bytes": f[9], "body": f[10],
                          "request": data[RECORD.size:RECORD.size + f[1]]})
            data = data[f[0]:]
        return found

    def explain(self, site, path, host="*"):
        where = [place(host.encode()), place(path.encode())]
        f = self.call(16, EXPLAIN, 0, address(site), len(host), len(path), where[0][0], where[1][0], *[0] * 7)
        return dict(zip(("state", "last", "error", "pad", "last_ms", "version", "hits"), f[7:]),
                    last=LAST[f[8]], state=f[7])

    def names(self):
        """(host, path) of all objects, in the order in which they were put."""
        found, cursor = [], 0
        host, path = ctypes.create_string_buffer(255), ctypes.create_string_buffer(2048)
        while True:
            try:
                f = self.call(8, KEY, 0, bytes(20), 255, 2048, ctypes.addressof(host), ctypes.addressof(path),
                              cursor, 0, 0, 0, 0, 0, 0, 0)
            except FileNotFoundError:
                return found
            found.append((host.raw[:f[3]].decode(), path.raw[:f[4]].decode()))
            cursor = f[7]


class Server:
    """A server as they are: a thread for each connection, blocking reads, and a record of what it read."""

    def __init__(self, host="127.0.0.1", port=0, accept=True):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.listener.bind((host, port))
        self.listener.listen(128)
        self.site = self.listener.getsockname()[:2]
        self.read, self.socks, self.threads, self.accepted = [], [], [], 0
        self.delay = 0
        self.go = threading.Event()
        if accept:
            self.go.set()
        self.acceptor = threading.Thread(target=self.serve, daemon=True)
        self.acceptor.start()

    def serve(self):
        self.go.wait()
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            self.socks.append(sock)
            self.accepted += 1
            thread = threading.Thread(target=self.talk, args=(sock,), daemon=True)
            thread.start()
            self.threads.append(thread.native_id)

    def talk(self, sock):
        pending = b""
        with sock, contextlib.suppress(OSError):
            while part := sock.recv(65536):
                pending += part
                while (end := pending.find(b"\r\n\r\n") + 4) > 3:
                    head, pending = pending[:end], pending[end:]
                    self.read.append(head)
                    text = b"server " + head.split(b" ")[1]
                    if self.delay:
                        threading.Event().wait(self.delay)
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    def pass_one(self):
        """A connection without a request is accepted."""
        if self.go.is_set():
            before = self.accepted
            socket.create_connection(self.site).close()
            wait_for("accept", lambda: self.accepted > before)

    def settles(self, connections):
        """
        As many have come, and the last one's thread sleeps in recv(2). What a server finds when it comes there late
        is its own, but bytes that the kernel takes do not wake it.
        """
        wait_for("the server's thread", lambda: len(self.threads) == connections)

        def sleeps():
            with open(f"/proc/self/task/{self.threads[-1]}/syscall", encoding="ascii") as file:
                return file.read().startswith("45 ")
        wait_for("the server in recv(2)", sleeps)

    def client(self, **how):
        """Another one, whose connection this server waits on."""
        connections = self.accepted + 1
        client = Client(self.site, **how)
        self.settles(connections)
        return client

    def close(self):
        self.go.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Client:
    """One connection."""

    def __init__(self, site, rcvbuf=0):
        self.sock = socket.socket(socket.AF_INET6 if ":" in site[0] else socket.AF_INET)
        self.sock.settimeout(PATIENCE)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.connect(site)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def ask(self, path, host="h", method="GET", version="1.1", fields=""):
        self.sock.sendall(wire(path, host, method, version, fields))

    def answer(self, method="GET"):
        """(headers, body)"""
        lines = []
        while (line := self.file.readline()) not in (b"\r\n", b""):
            lines.append(line.decode().rstrip())
        if not lines:
            raise EOFError("no answer")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        headers["status"] = lines[0]
        length = int(headers["content-length"]) if method == "GET" else 0
        data = self.file.read(length)
        if len(data) != length:
            raise EOFError(f"{len(data)} bytes of {length}")
        return headers, data

    def get(self, path, **how):
        self.ask(path, **how)
        return self.answer(how.get("method", "GET"))[1]

    def at_end(self):
        """The server has closed its side, and sent nothing more."""
        return self.file.read() == b""


def wire(path, host="h", method="GET", version="1.1", fields=""):
    line = f"Host: {host}\r\n" if host else ""
    return f"{method} {path} HTTP/{version}\r\n{line}{fields}\r\n".encode()


def waiting(site):
    """Bytes that have arrived for the site and are not read yet, of all its IPv4 connections."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(f":{site[1]:04X}") and row[3] == "01")


def sleeps_in(thread, call):
    """In the system call of this number."""
    with open(f"/proc/self/task/{thread.native_id}/syscall", encoding="ascii") as file:
        return file.read().startswith(f"{call} ")


@contextlib.contextmanager
def site(host="127.0.0.1", device=None, **how):
    """A server and its site: (device, server)."""
    with contextlib.ExitStack() as stack:
        device = device or stack.enter_context(Device())
        server = Server(host, **how)
        stack.callback(server.close)
        equal("listeners, refused, errno", device.site_add(server.site), (1, 0, 0))
        # An accept() that had begun before ends as if there were no site.
        server.pass_one()
        try:
            yield device, server
        finally:
            device.info(mode=SOFTIRQ)
            device.site_del(server.site)


class Kept:
    """A program that has the socket's lock, amid setsockopt(2), as soon as it gets it and until end()."""

    def __init__(self, sock):
        # The number that each option begins with is read first, so it lies in a page before; the
        # rest is read with the socket locked. What it says does not matter.
        self.page = stall.Stall(before=4096)
        self.thread = Thread(stall.libc.setsockopt, sock.fileno(), socket.IPPROTO_TCP, TCP_MD5SIG,
                             ctypes.c_void_p(self.page.page - 100), MD5SIG_SIZE)

    def wait(self):
        self.page.wait()
        return self

    def end(self):
        self.page.fill()
        self.thread.join()


@contextlib.contextmanager
def kept(sock):
    """The socket's lock is a program's in here."""
    lock = Kept(sock).wait()
    try:
        yield
    finally:
        lock.end()


@contextlib.contextmanager
def counted(**expected):
    """Counters grow by so much in here; a test function instead of a number judges."""
    before = ssp.counters("Afpa")
    yield
    after = ssp.counters("Afpa")
    for name, should in expected.items():
        grown = after["Afpa" + name] - before["Afpa" + name]
        if callable(should):
            if not should(grown):
                raise AssertionError(f"{name} grew by {grown}")
        else:
            equal(name, grown, should)


def main(*protocols):
    """Holds all claims or those named; ends with nothing of ours left behind, nor these modules."""
    load("flotilla", "afpa")

    def the_module_unloads():
        for protocol in protocols:
            wait_for(f"rmmod {protocol}", lambda: unload(protocol) or not ssp.loaded(protocol))
        wait_for("rmmod afpa", lambda: unload("afpa"))
    sys.exit(kit.run(kit.CLAIMS, last=[("the_module_unloads", the_module_unloads)]))

# SPDX-License-Identifier: GPL-2.0
"""What splice's guest tests share: the device, connections, bodies that are checked by hash."""
import contextlib
import errno
import fcntl
import hashlib
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../tools/testing/lib"))
import kit                                      # noqa: E402
from kit import claim, equal                    # noqa: E402,F401

BIDIR, LIMIT, KEEPCOPY, AUTORELEASE, DISCARD = 1, 2, 4, 8, 16
IDLE, ACTIVE, DONE = range(3)
CAUSES = ("none", "limit", "eof", "source", "sink", "closed", "unspliced", "both", "urgent",
          "taken")
SPLICE = struct.Struct("IIiiQQQIIIIIIQQII")
RESULT = struct.Struct("IIiiIIIIQQQ")
INFO = struct.Struct("IIII")
IN_OPS = 0xF2
PATIENCE = int(os.environ.get("FLT_PATIENCE", max(90, kit.PATIENCE)))


def request(number, size, direction=3):
    return direction << 30 | size << 16 | IN_OPS << 8 | number


class Answer:
    """Fields of an ioctl's structure."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return repr(self.__dict__)


def fileno(sock):
    return sock if isinstance(sock, int) else sock.fileno()


class Device:
    """/dev/sksplice"""

    def __init__(self):
        self.fd = os.open("/dev/sksplice", os.O_RDWR | os.O_CLOEXEC)

    def close(self):
        os.close(self.fd)

    def info(self):
        buf = bytearray(INFO.size)
        fcntl.ioctl(self.fd, request(0, INFO.size, 2), buf)
        return dict(zip(("version", "flags", "active"), INFO.unpack(buf)))

    def splice(self, src, dst, limit=None, flags=0, data=b"", inbuf=0, min2read=0, max2cache=0):
        """The structure after the call; OSError has it as .answer"""
        import ctypes
        if limit is not None:
            flags |= LIMIT
        data_buf = ctypes.create_string_buffer(data, len(data)) if data else None
        in_buf = ctypes.create_string_buffer(inbuf) if inbuf else None
        buf = bytearray(SPLICE.pack(
            SPLICE.size, flags, fileno(src), fileno(dst), limit or 0,
            ctypes.addressof(data_buf) if data else 0, ctypes.addressof(in_buf) if inbuf else 0,
            len(data), inbuf, min2read, max2cache, 0, 0, 0, 0, 0, 0))
        try:
            fcntl.ioctl(self.fd, request(1, SPLICE.size), buf)
        except OSError as err:
            err.answer = self.unpack(buf)
            raise
        answer = self.unpack(buf)
        answer.inbuf = in_buf.raw[:answer.inbuf_done] if inbuf else b""
        return answer

    @staticmethod
    def unpack(buf):
        f = SPLICE.unpack(buf)
        return Answer(status=f[11], cause=CAUSES[f[12]], moved01=f[13], moved10=f[14],
                      data_done=f[15], inbuf_done=f[16])

    def ask(self, number, fd0, fd1, flags=0):
        buf = bytearray(RESULT.pack(RESULT.size, flags, fileno(fd0), fileno(fd1),
                                    0, 0, 0, 0, 0, 0, 0))
        fcntl.ioctl(self.fd, request(number, RESULT.size), buf)
        f = RESULT.unpack(buf)
        return Answer(status=f[4], cause=CAUSES[f[5]], error=f[6], unread=f[7], moved01=f[8],
                      moved10=f[9], copied=f[10])

    def unsplice(self, fd0, fd1, flags=0):
        return self.ask(2, fd0, fd1, flags)

    def result(self, sock):
        return self.ask(3, sock, -1)


def wait_for(what, condition, seconds=PATIENCE):
    """Waits for a state, not a time."""
    return kit.wait_for(what, condition, seconds)


def fails(number, function, *args, **kwargs):
    """The call fails with this errno; what it raised."""
    try:
        result = function(*args, **kwargs)
    except OSError as err:
        equal("errno", errno.errorcode[err.errno], errno.errorcode[number])
        return err
    raise AssertionError(f"returned {result!r}, should fail with {errno.errorcode[number]}")


def events(sock, seconds=0):
    """What poll says of a socket, as letters: I(n) O(ut) E(rr) H(up)"""
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLOUT)
    got = dict(poll.poll(seconds * 1000)).get(fileno(sock), 0)
    return "".join(letter for letter, bit in (("I", select.POLLIN), ("O", select.POLLOUT),
                                              ("E", select.POLLERR), ("H", select.POLLHUP))
                   if got & bit)


def wait_event(sock, mask, seconds=PATIENCE):
    """Until poll, asked for this alone, reports it (an error is always reported)."""
    poll = select.poll()
    poll.register(sock, mask)
    got = poll.poll(seconds * 1000)
    if not got:
        raise AssertionError(f"no event {mask:#x} within {seconds} s")
    return got[0][1]


def body(length, seed=0):
    return random.Random(seed ^ length).randbytes(length)


def recv_exactly(sock, length):
    parts = []
    while length:
        part = sock.recv(min(length, 1 << 18))
        if not part:
            raise AssertionError(f"ended {length} bytes early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def recv_all(sock):
    parts = []
    while part := sock.recv(1 << 18):
        parts.append(part)
    return b"".join(parts)


def same(what, is_, should):
    """Long strings: lengths, hashes and the first difference instead of the whole."""
    if is_ == should:
        return
    at = next((i for i, (a, b) in enumerate(zip(is_, should)) if a != b), min(len(is_), len(should)))
    raise AssertionError(f"{what}: {len(is_)} bytes {hashlib.sha1(is_).hexdigest()[:8]}, should be "
                         f"{len(should)} {hashlib.sha1(should).hexdigest()[:8]}; differ at {at}")


class Thread(threading.Thread):
    """A thread whose exception is raised by join(), and whose value is returned."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self.call = (function, args)
        self.value = self.error = None
        self.start()

    def run(self):
        try:
            self.value = self.call[0](*self.call[1])
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error

    def join(self, timeout=PATIENCE):
        super().join(timeout)
        if self.is_alive():
            raise AssertionError(f"{self.call[0]} did not end in {timeout} s")
        if self.error:
            raise self.error
        return self.value


FAMILIES = {4: (socket.AF_INET, "127.0.0.1"), 6: (socket.AF_INET6, "::1")}


def listener(family=4, address=None, backlog=64):
    kind, default = FAMILIES[family]
    sock = socket.socket(kind, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address or default, 0))
    sock.listen(backlog)
    return sock


def nodelay(*socks):
    for sock in socks:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(PATIENCE)


def connection(family=4, rcvbuf=0, sndbuf=0):
    """Both ends, far end first; sizes of buffers are those of the near one."""
    with contextlib.closing(listener(family)) as server:
        far = socket.socket(server.family, socket.SOCK_STREAM)
        far.connect(server.getsockname()[:2])
        near = server.accept()[0]
    if rcvbuf:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    if sndbuf:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
    nodelay(far, near)
    return far, near


class Proxy:
    """server - src [proxy] dst - client: src and dst are the proxy's sockets."""

    def __init__(self, families=(4, 4), **buffers):
        self.server, self.src = connection(families[0], **buffers)
        self.client, self.dst = connection(families[1], **buffers)
        self.socks = [self.server, self.src, self.client, self.dst]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in self.socks:
            sock.close()

    def still_ordinary(self):
        """Both connections of the proxy carry bytes both ways at user level."""
        for one, other in ((self.server, self.src), (self.src, self.server),
                           (self.client, self.dst), (self.dst, self.client)):
            one.sendall(b"ordinary")
            equal("bytes", recv_exactly(other, 8), b"ordinary")


def reset(sock):
    """Closes with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def refs(module="sksplice"):
    with open(f"/sys/module/{module}/refcnt", encoding="ascii") as f:
        return int(f.read())


def loaded(module):
    return os.path.isdir(f"/sys/module/{module}")


def load(*modules):
    for module in modules:
        if not loaded(module):
            subprocess.run(["insmod", f"{os.environ['FLT_MODULES']}/{module}.ko"], check=True)


shared = []


def device():
    """The one that all claims of a file use; main() closes it, whichever of them ran."""
    if not shared:
        shared.append(Device())
    return shared[0]


def close_device():
    while shared:
        shared.pop().close()


def unload(module="sksplice"):
    return subprocess.run(["rmmod", module], capture_output=True, check=False).returncode == 0


def counters(room="Splice"):
    """{name: value} of this room, or of another whose counters begin so"""
    out = subprocess.run(["flotilla", "-j", "stats"], capture_output=True, check=True, text=True)
    import json
    found = {}

    def walk(what):
        if isinstance(what, dict):
            for key, value in what.items():
                if isinstance(value, int) and key.startswith(room):
                    found[key] = value
                walk(value)
        elif isinstance(what, list):
            for item in what:
                if isinstance(item, dict) and str(item.get("name", "")).startswith(room):
                    found[item["name"]] = item["value"]
                walk(item)
    walk(json.loads(out.stdout))
    return found


def main():
    """Holds all claims or those named; ends with nothing of ours left behind."""
    load("flotilla", "sksplice")

    def the_module_unloads():
        close_device()
        wait_for("rmmod sksplice", unload)
    sys.exit(kit.run(kit.CLAIMS, last=[("the_module_unloads", the_module_unloads)]))

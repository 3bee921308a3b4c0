# SPDX-License-Identifier: GPL-2.0
"""What the stack's guest tests share: TAP, the test module's requests, sockets, sockmap and kTLS."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

from patience import PATIENCE                           # noqa: F401  # finds kit
from kit import Tap, equal, wait_for                    # noqa: F401

LAYERS = ("a", "b", "c", "end", "ops1", "ops2")
COUNTS = ("data_ready", "write_space", "state_change", "error_report", "destruct", "free",
          "init_child", "accepted", "recvmsg", "sendmsg", "poll", "shutdown", "release",
          "returned", "answered", "received", "sent", "added", "after_end")
ARG = struct.Struct("iIII%dQ" % len(COUNTS))
ADD, REMOVE, DETACH, FIND, READ, RESET, SWALLOW, ORDER, POINTERS, HAMMER, PLAIN, SAY = range(1, 13)
POINTER_BITS = ("data_ready", "write_space", "state_change", "error_report", "destruct", "ops",
                "hook")
FAMILIES = {"IPv4": (socket.AF_INET, "127.0.0.1"), "IPv6": (socket.AF_INET6, "::1")}


class Device:
    """/dev/flt_stack_test"""

    def __init__(self):
        self.fd = os.open("/dev/flt_stack_test", os.O_RDWR | os.O_CLOEXEC)

    def close(self):
        os.close(self.fd)

    def ask(self, request, sock=None, layer=0, arg=0, seed=0):
        fd = -1 if sock is None else sock if isinstance(sock, int) else sock.fileno()
        buf = bytearray(ARG.pack(fd, layer, arg, seed, *([0] * len(COUNTS))))
        fcntl.ioctl(self.fd, 3 << 30 | ARG.size << 16 | ord("F") << 8 | request, buf)
        return ARG.unpack(buf)[4:]

    def add(self, sock, layer, atomic=False):
        self.ask(ADD, sock, LAYERS.index(layer), int(atomic))

    def remove(self, sock, layer):
        self.ask(REMOVE, sock, LAYERS.index(layer))

    def detach(self, sock, layer):
        self.ask(DETACH, sock, LAYERS.index(layer))

    def has(self, sock, layer):
        try:
            self.ask(FIND, sock, LAYERS.index(layer))
        except FileNotFoundError:
            return False
        return True

    def counts(self, layer):
        return dict(zip(COUNTS, self.ask(READ, None, LAYERS.index(layer))))

    def reset(self):
        """Zeroes the counters, once the sockets of earlier claims are gone."""
        wait_for("layers of earlier claims", lambda: self.live() == 0)
        self.ask(RESET)

    def swallow(self, layer, *events):
        self.ask(SWALLOW, None, LAYERS.index(layer), sum(1 << COUNTS.index(e) for e in events))

    def plain(self, sock, layer, is_plain, data=False):
        """Has the layer nothing to say to poll(), and to what is received and sent."""
        self.ask(PLAIN, sock, LAYERS.index(layer), int(is_plain) | data << 1)

    def say(self, layer, what=0):
        """What the layer says to a receive: nothing, 1 that it answers (and then passes), or a negative errno."""
        self.ask(SAY, None, LAYERS.index(layer), what & 0xffffffff)

    def order(self):
        """Layers in the order they heard data_ready or recvmsg since the last call."""
        word, names = self.ask(ORDER)[0], []
        while word:
            names.insert(0, LAYERS[(word & 15) - 1])
            word >>= 4
        return names

    def pointers(self, sock):
        """Which of the socket's pointers are not TCP's own."""
        bits = self.ask(POINTERS, sock)[0]
        return {name for i, name in enumerate(POINTER_BITS) if bits & 1 << i}

    def live(self):
        """Layers that were made and not yet freed."""
        return sum(c["added"] + c["init_child"] - c["free"] for c in map(self.counts, LAYERS))


def refs(module="flotilla"):
    with open(f"/sys/module/{module}/refcnt", encoding="ascii") as f:
        return int(f.read())


def held(module="flotilla"):
    """By how many sockets: the modules that use it do not count."""
    return refs(module) - len(os.listdir(f"/sys/module/{module}/holders"))


def loaded(module):
    return os.path.isdir(f"/sys/module/{module}")


def load(module):
    if not loaded(module):
        subprocess.run(["insmod", f"{os.environ['FLT_MODULES']}/{module}.ko"], check=True)


def unload(module):
    return subprocess.run(["rmmod", module], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def closing(*things):
    try:
        yield things if len(things) > 1 else things[0]
    finally:
        for thing in things:
            thing.close()


def listener(family, address, backlog=64):
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, 0))
    sock.listen(backlog)
    return sock


def connect(server):
    sock = socket.socket(server.family, socket.SOCK_STREAM)
    sock.connect(server.getsockname()[:2])
    return sock


@contextlib.contextmanager
def pair(family=socket.AF_INET, address="127.0.0.1"):
    """A connection: the client's end, the accepted end."""
    with closing(listener(family, address)) as server, closing(connect(server)) as client:
        accepted = server.accept()[0]
        with closing(accepted):
            yield client, accepted


def talk(one, other, payload=b"x" * 1000):
    one.sendall(payload)
    got = b""
    while len(got) < len(payload):
        part = other.recv(65536)
        if not part:
            raise AssertionError("connection ended early")
        got += part
    equal("payload", got, payload)


# --- sockmap and kTLS, by system call: they must find us as any program would ---

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    buf = ctypes.create_string_buffer(attr, max(len(attr), 128))
    ret = libc.syscall(321, command, buf, 128)
    if ret < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return ret


class Sockmap:
    """A sockmap whose verdict program passes everything on."""

    def __init__(self):
        self.map = bpf(0, struct.pack("IIII", 15, 4, 4, 4))
        code = struct.pack("BBhi", 0xb7, 0, 0, 1) + struct.pack("BBhi", 0x95, 0, 0, 0)
        self.code = ctypes.create_string_buffer(code)
        self.license = ctypes.create_string_buffer(b"GPL")
        self.prog = bpf(5, struct.pack("IIQQ", 14, 2, ctypes.addressof(self.code),
                                       ctypes.addressof(self.license)))
        bpf(8, struct.pack("IIII", self.map, self.prog, 5, 0))  # BPF_SK_SKB_STREAM_VERDICT

    def add(self, sock):
        key = ctypes.create_string_buffer(struct.pack("I", 0))
        value = ctypes.create_string_buffer(struct.pack("I", sock.fileno()))
        bpf(2, struct.pack("IIQQQ", self.map, 0, ctypes.addressof(key),
                           ctypes.addressof(value), 0))

    def take(self):
        key = ctypes.create_string_buffer(struct.pack("I", 0))
        bpf(3, struct.pack("IIQ", self.map, 0, ctypes.addressof(key)))

    def close(self):
        os.close(self.prog)
        os.close(self.map)


def set_ktls(sock, direction):
    """Software kTLS 1.2, AES-GCM-128, a constant key: @direction 1 sends, 2 receives."""
    info = struct.pack("HH", 0x0303, 51) + bytes(8) + bytes(16) + bytes(4) + bytes(8)
    sock.setsockopt(282, direction, info)


def main(run):
    """Loads the modules, runs the claims of @run(tap), ends with nothing left behind."""
    tap = Tap()
    load("flotilla")
    load("flt_stack_test")
    with open("/sys/kernel/rcu_expedited", "w", encoding="ascii") as f:
        f.write("1")
    try:
        run(tap)
    except BaseException:
        unload("flt_stack_test")
        raise
    tap.point("the test module unloads", lambda: equal("rmmod", unload("flt_stack_test"), True))
    tap.point("nothing holds flotilla.ko any more",
              lambda: wait_for("references", lambda: refs() == 0))
    sys.exit(tap.end())

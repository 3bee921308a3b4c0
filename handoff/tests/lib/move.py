# SPDX-License-Identifier: GPL-2.0
"""Connections that change their process: the descriptor of flotilla/move.h, and pairs of listeners."""
import contextlib
import fcntl
import os
import socket
import struct
import subprocess

from hof import PATIENCE, REFUSAL, TOP, run

START = struct.Struct("=IIII")
STATUS = struct.Struct("=QQIIIIII72I72I")
IOC_MOVE = (1 << 30) | (START.size << 16) | (0xF1 << 8) | 2
TO, FROM, CONN, KEEP = ((0xF1 << 8) | n for n in (3, 4, 5, 6))
NODE = (0xF1 << 8) | 8
PASSED = struct.Struct("=II")
IOC_PASSED = (2 << 30) | (PASSED.size << 16) | (0xF1 << 8) | 9
IOC_STATUS = (2 << 30) | (STATUS.size << 16) | (0xF1 << 8) | 7
FIELDS = ("moved", "ended", "waiting", "busy", "stuck", "queued", "listeners")

FLOTILLA = os.path.join(TOP, "build/bin/flotilla")


class Move:
    """One move; its sockets are given by descriptor."""

    def __init__(self, idle_ms=0):
        device = os.open("/dev/handoff", os.O_RDWR | os.O_CLOEXEC)
        try:
            self.fd = fcntl.ioctl(device, IOC_MOVE, bytearray(START.pack(START.size, 0, idle_ms, 0)))
        finally:
            os.close(device)

    def close(self):
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def give(self, what, sock):
        fcntl.ioctl(self.fd, what, sock if isinstance(sock, int) else sock.fileno())

    def node(self, number):
        fcntl.ioctl(self.fd, NODE, number)

    def passed(self):
        """Those that moved and still need this machine: through it, and in here."""
        return PASSED.unpack(fcntl.ioctl(self.fd, IOC_PASSED, bytes(PASSED.size)))

    def keep(self):
        fcntl.ioctl(self.fd, KEEP)

    def status(self):
        numbers = STATUS.unpack(fcntl.ioctl(self.fd, IOC_STATUS, bytes(STATUS.size)))
        status = dict(zip(FIELDS, numbers))
        status["stuck_by"] = {REFUSAL.get(i, i): n for i, n in enumerate(numbers[8:80]) if n}
        status["refused"] = {REFUSAL.get(i, i): n for i, n in enumerate(numbers[80:]) if n}
        return status


def listen(address=("127.0.0.1", 8080), backlog=128):
    sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(address)
    sock.listen(backlog)
    sock.settimeout(PATIENCE)
    return sock


def connect(address=("127.0.0.1", 8080)):
    sock = socket.create_connection(address, PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def resets():
    """RSTs that this namespace has sent."""
    with open("/proc/net/snmp", encoding="ascii") as file:
        names, values = (line.split() for line in file if line.startswith("Tcp:"))
    return int(values[names.index("OutRsts")])


@contextlib.contextmanager
def no_resets():
    before = resets()
    yield
    assert resets() == before, "%d RSTs" % (resets() - before)


def flotilla(*words, check=None, **kwargs):
    ran = subprocess.run((FLOTILLA,) + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, check=False, **kwargs)
    if check is not None:
        assert ran.returncode == check, (ran.returncode, ran.stdout, ran.stderr)
    return ran


def loopback_up():
    run("ip", "link", "set", "lo", "up")
    run("modprobe", "handoff")

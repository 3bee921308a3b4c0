# SPDX-License-Identifier: GPL-2.0
"""Network namespaces joined by a bridge; one process, a thread switches between them."""
import atexit
import contextlib
import ctypes
import itertools
import os
import subprocess

CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MNT_DETACH = 2
PLACE = "/run/netns/"
LIBC = ctypes.CDLL(None, use_errno=True)
COUNT = itertools.count()


def call(ret):
    if ret:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def batch(name, *lines):
    """ip commands in a namespace, by one process: guests without KVM start programs slowly."""
    subprocess.run(["ip", "-n", name, "-batch", "-"], check=True,
                   input="\n".join(lines).encode())


def add_namespace(name):
    """As `ip netns add` does, which makes the place, but without a process for each."""
    with open("/proc/self/mountinfo", encoding="ascii") as mounts:
        if " %s " % PLACE.rstrip("/") not in mounts.read():
            run("ip", "netns", "add", name)
            return
    path = PLACE + name
    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0))
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        call(LIBC.unshare(CLONE_NEWNET))
        call(LIBC.mount(b"/proc/thread-self/ns/net", path.encode(), b"none", MS_BIND, None))
    finally:
        LIBC.setns(home, CLONE_NEWNET)
        os.close(home)


def delete_namespace(name):
    call(LIBC.umount2((PLACE + name).encode(), MNT_DETACH))
    os.unlink(PLACE + name)


@contextlib.contextmanager
def inside(name):
    """Be in the named namespace."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(PLACE + name, os.O_RDONLY)
    try:
        call(LIBC.setns(there, CLONE_NEWNET))
        yield
    finally:
        LIBC.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


class Net:
    """A bridge in a namespace of its own, and a member per node."""

    def __init__(self, prefix4="10.9.0.", prefix6="fd09::"):
        self.tag = "f%d%d" % (os.getpid() % 10000, next(COUNT))
        self.prefix4, self.prefix6 = prefix4, prefix6
        self.bridge = self.tag + "br"
        self.names = []
        add_namespace(self.bridge)
        atexit.register(self.close)
        batch(self.bridge, "link add br0 type bridge forward_delay 0", "link set br0 up")

    def add(self, number):
        """A namespace with addresses that end in number; its name."""
        name = "%sn%d" % (self.tag, number)
        port = "p%d" % number
        add_namespace(name)
        self.names.append(name)
        # The same address each time: who comes back is not hidden by old neighbour entries.
        batch(self.bridge,
              "link add %s type veth peer name eth0 address 02:00:00:00:00:%02x netns %s" % (
                  port, number, name),
              "link set %s master br0 up" % port)
        batch(name, "addr add %s/24 dev eth0" % self.ip4(number),
              "addr add %s%d/64 dev eth0 nodad" % (self.prefix6, number),
              "link set lo up", "link set eth0 up")
        return name

    def ip4(self, number):
        return "%s%d" % (self.prefix4, number)

    def ip6(self, number):
        return "%s%x" % (self.prefix6, int(str(number), 16))

    def delete(self, name):
        self.names.remove(name)
        delete_namespace(name)

    def close(self):
        for name in self.names + [self.bridge]:
            delete_namespace(name)
        self.names = []
        self.bridge = None
        atexit.unregister(self.close)

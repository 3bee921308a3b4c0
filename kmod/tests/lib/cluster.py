# SPDX-License-Identifier: GPL-2.0
"""Nodes in namespaces that list each other, and a peer made of a plain socket."""
import contextlib
import errno
import random
import socket
import struct
import threading

from fltnl import E
from netns import Net, flotilla, inside
from patience import PATIENCE
from tap import wait

UP, DOWN = E["FLT_NODE_UP"], E["FLT_NODE_DOWN"]
PORT = E["FLT_LINK_PORT"]


class Node:
    """A member of a Cluster."""

    def __init__(self, net, number):
        self.net, self.number = net, number
        self.name = "n%d" % number
        self.ns = net.add(number)
        self.ip = net.ip4(number)
        self.nl = flotilla(self.ns)

    def become(self):
        self.nl.do("LOCAL_SET", local_name=self.name, local_addr4=self.ip)

    def list(self, other, **more):
        self.nl.do("NODE_NEW", node_name=other.name, node_addr4=other.ip, **more)

    def state(self, other):
        return self.nl.node(other.name)["NODE_STATE"]

    def sysfs(self, name, text=None):
        """An attribute of this namespace, read or written."""
        with self.net.sysfs(self.ns, name, "w" if text is not None else "r") as f:
            return f.write(text) if text is not None else f.read().rstrip("\n")

    def test(self, command):
        with inside(self.ns), open("/proc/thread-self/net/flt_link_test", "wb", 0) as f:
            f.write(command.encode())

    def numbers(self):
        with inside(self.ns), open("/proc/thread-self/net/flt_link_test") as f:
            return {k: int(v) for k, v in (line.split() for line in f)}


class Cluster:
    """Nodes 1 to n, each listing all others."""

    def __init__(self, n=2, listed=True, heartbeat_ms=None):
        self.net = Net()
        self.nodes = [Node(self.net, i + 1) for i in range(n)]
        for node in self.nodes if heartbeat_ms else ():
            node.sysfs("links/heartbeat_ms", str(heartbeat_ms))
        if listed:
            for node in self.nodes:
                node.become()
            for node in self.nodes:
                for other in self.nodes:
                    if node is not other:
                        node.list(other)
            self.wait_up()

    def wait_up(self):
        for node in self.nodes:
            for other in self.nodes:
                if node is not other:
                    wait(lambda a=node, b=other: a.state(b) == UP)

    def close(self):
        for node in self.nodes:
            node.nl.close()
        self.net.close()


@contextlib.contextmanager
def cluster(n=2, listed=True, heartbeat_ms=None):
    """For what a busy machine's silence must not end: a HEARTBEAT_MS of its own."""
    c = Cluster(n, listed, heartbeat_ms)
    try:
        yield c
    finally:
        c.close()


def frame(kind, body=b"", length=None, zero=b"\0\0\0"):
    return struct.pack("!IB", len(body) if length is None else length, kind) + zero + body


def hello(name, magic=0x464c544c, version=1, zero=0, instance=77, heartbeat=60000):
    """Three heartbeats without a word and the node gives it up, however late this machine lets it speak."""
    return struct.pack("!IHHQI", magic, version, zero, instance, heartbeat) + \
        name.encode().ljust(E["FLT_NAME_MAX"], b"\0")


HELLO, PING, PONG, REJECT = 0, 1, 2, 3


def bind_privileged(sock, address):
    """To a port that links without authentication may come from."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for port in random.sample(range(512, 1024), 512):
        with contextlib.suppress(OSError):
            sock.bind((address, port))
            return
    raise AssertionError("no privileged port is free")


class FakePeer:
    """A listed node that is only a socket: it can say anything."""

    def __init__(self, node, other, privileged=True):
        self.node, self.other, self.privileged = node, other, privileged
        self.sock = None
        self.data = b""

    def connect(self):
        # Of the few ports that it may have one can be another connection's to the same place.
        while not self.connects():
            self.sock.close()
        return self

    def connects(self):
        with inside(self.node.ns):
            self.sock = socket.socket()
        self.sock.settimeout(PATIENCE)
        if self.privileged:
            bind_privileged(self.sock, self.node.ip)
        else:
            self.sock.bind((self.node.ip, 0))
        # Who is refused may be reset before connect() or sendall() returns: gone() tells.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            try:
                self.sock.connect((self.other.ip, PORT))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    return False
                raise
        return True

    def send(self, data):
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            self.sock.sendall(data)

    def frame(self):
        """The next frame as (type, body); None at the end of the connection."""
        while True:
            if len(self.data) >= 8:
                length, kind = struct.unpack_from("!IB", self.data)
                if len(self.data) >= 8 + length:
                    body, self.data = self.data[8:8 + length], self.data[8 + length:]
                    return kind, body
            try:
                more = self.sock.recv(65536)
            except TimeoutError:
                raise
            except OSError:
                return None
            if not more:
                return None
            self.data += more

    def gone(self):
        """Has the other side ended the connection; what it said before that."""
        said = []
        while (got := self.frame()) is not None:
            said.append(got)
        return said

    def close(self):
        self.sock.close()


def listening(c):
    """Node 2 lists node 1, which is only a socket and may connect."""
    low, high = c.nodes
    high.become()
    high.list(low)
    return low, high


def greeted(low, high, **more):
    """Its link is up; more: as hello()."""
    peer = FakePeer(low, high).connect()
    peer.send(frame(HELLO, hello("n1", **more)))
    assert peer.frame()[0] == HELLO
    wait(lambda: high.state(low) == UP)
    return peer


@contextlib.contextmanager
def twice_a_second(say, every=.5):
    """Meanwhile, until the connection ends."""
    over = threading.Event()

    def drip():
        with contextlib.suppress(OSError):
            while not over.wait(every):
                say()
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

# SPDX-License-Identifier: GPL-2.0
"""Handoff for tests: /dev/handoff, a cluster of namespaces, servers on it."""
import atexit
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import termios
import time

TOP = os.environ.get("FLT_TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from fakeagent import FakeAgent             # noqa: E402
from fltnl import E, Flotilla               # noqa: E402
from netns import Net, batch, inside, run   # noqa: E402
from patience import PATIENCE, SLOW, rounds   # noqa: E402,F401
from stalled import stalled                 # noqa: E402,F401
from tap import claim, main, wait           # noqa: E402,F401

SUBMIT = struct.Struct("=IiIIQII")
EVENT = struct.Struct("=QIHHII")
INFO = struct.Struct("=IIII")
IOC_INFO = (2 << 30) | (INFO.size << 16) | (0xF1 << 8)
IOC_SUBMIT = (3 << 30) | (SUBMIT.size << 16) | (0xF1 << 8) | 1
DONE, FAILED, CLOSED, IDLE, BUSY = 1, 2, 3, 4, 5
WANT_IDLE = 1
TELL_LATER = 2
REFUSAL = {v: k[len("FLT_REFUSE_"):].lower() for k, v in E.items() if k.startswith("FLT_REFUSE_")}

VIP4, VIP6 = "10.9.0.200", "fd09::200"
NETEM = "delay 2ms 1ms 25% loss 1% reorder 5% 50% duplicate 1%"


class Refused(OSError):
    def __init__(self, code, refusal):
        super().__init__(code, "%s (%s)" % (os.strerror(code), REFUSAL.get(refusal, refusal)))
        self.refusal = REFUSAL.get(refusal, refusal)


class Handoff:
    """The device, opened in the namespace of the calling thread."""

    def __init__(self):
        self.fd = os.open("/dev/handoff", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.waiting = []

    def close(self):
        os.close(self.fd)

    def submit(self, fd, node, cookie=0, flags=0, timeout_ms=0):
        fd = fd if isinstance(fd, int) else fd.fileno()
        args = bytearray(SUBMIT.pack(SUBMIT.size, fd, node, flags, cookie, timeout_ms, 0))
        try:
            return fcntl.ioctl(self.fd, IOC_SUBMIT, args)
        except OSError as error:
            raise Refused(error.errno, SUBMIT.unpack(args)[6]) from None

    def info(self):
        return INFO.unpack(fcntl.ioctl(self.fd, IOC_INFO, bytes(INFO.size)))

    def event(self, seconds=PATIENCE):
        """(type, cookie, node, refusal, usec) of the next event."""
        if not self.waiting:
            if not select.select([self.fd], [], [], seconds)[0]:
                raise AssertionError("no event in %s s" % seconds)
            data = os.read(self.fd, 64 * EVENT.size)
            for cookie, node, kind, refusal, usec, pad in EVENT.iter_unpack(data):
                assert pad == 0
                self.waiting.append((kind, cookie, node, REFUSAL[refusal], usec))
        return self.waiting.pop(0)

    def no_event(self, seconds=0.3):
        assert not self.waiting, self.waiting
        assert not select.select([self.fd], [], [], seconds)[0], self.event()

    def expect(self, kind, cookie=None, refusal="none", seconds=PATIENCE):
        got = self.event(seconds)
        assert got[0] == kind and got[3] == refusal and cookie in (None, got[1]), \
            "expected type %s refusal %s cookie %s, got %s" % (kind, refusal, cookie, got)
        return got


class Node:
    """A namespace that runs a node: fe, be1, ..."""

    def __init__(self, cluster, name, number):
        self.cluster, self.name, self.number = cluster, name, number
        self.ns = cluster.net.add(number)
        with self.inside():
            self.nl = Flotilla()
        self.id = {}

    def inside(self):
        return inside(self.ns)

    def run(self, *words):
        run("ip", "netns", "exec", self.ns, *words)

    def output(self, *words):
        return subprocess.run(("ip", "netns", "exec", self.ns) + words, check=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout.decode()

    def spawn(self, *words, **kwargs):
        child = subprocess.Popen(("ip", "netns", "exec", self.ns) + words,
                                 stdin=subprocess.DEVNULL, **kwargs)
        self.cluster.children.append(child)
        return child

    def sysctl(self, name, value):
        # What /proc/sys/net shows is the opener's namespace.
        with self.inside(), open("/proc/sys/" + name.replace(".", "/"), "w", encoding="ascii") as file:
            file.write(str(value))

    def stat(self, name):
        return self.nl.stat(name, "handoff")

    def stats(self):
        return {k[1]: v for k, v in self.nl.stats().items() if k[0] == "handoff"}

    def handoff(self):
        with self.inside():
            return Handoff()

    def listen(self, port=80, family=4, backlog=128, address=None):
        with self.inside():
            sock = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address or (VIP6 if family == 6 else VIP4), port))
            sock.listen(backlog)
            sock.settimeout(PATIENCE)
        return sock

    def connect(self, port=80, family=4, source=None, timeout=PATIENCE, options=()):
        with self.inside():
            sock = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET)
            for option in options:
                sock.setsockopt(*option)
            sock.settimeout(timeout)
            if source:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(source)
            sock.connect((VIP6 if family == 6 else VIP4, port))
        return sock

    def conns(self):
        return self.nl.dump("CONN_GET")

    def sockets(self, port=80):
        """Lines of ss about connections of a port, any state but LISTEN."""
        out = self.output("ss", "-Htan", "sport = :%d" % port)
        return [x for x in out.splitlines() if not x.startswith("LISTEN")]


class Cluster:
    """client, fe and back-ends on one segment; the VIP on fe's eth0 and on the others' lo."""

    def __init__(self, backends=2, forward="DIRECT", names=("client",), heartbeat_ms=5000,
                 insecure=True, services=True, grace_ms=None, encrypted=False):
        run("modprobe", "handoff")
        self.net = Net()
        self.children = []
        atexit.register(self.close)
        self.forward = E["FLT_FORWARD_" + forward]
        self.clients = [Node(self, name, 100 + i) for i, name in enumerate(names)]
        self.client = self.clients[0]
        self.fe = Node(self, "fe", 1)
        self.be = [Node(self, "be%d" % (i + 1), 2 + i) for i in range(backends)]
        self.nodes = [self.fe] + self.be
        # With links by certificates, as far as the kernel is concerned.
        self.agents = [FakeAgent(node.ns) for node in self.nodes if encrypted]
        batch(self.fe.ns, "addr add %s/24 dev eth0" % VIP4, "addr add %s/64 dev eth0 nodad" % VIP6)
        for be in self.be:
            self.hold_vip(be)
        for node in self.nodes:
            node.nl.do("LOCAL_SET", local_name=node.name, local_addr4=self.net.ip4(node.number),
                       local_insecure=int(insecure))
            if services:
                node.nl.do("SERVICE_NEW", service_addr4=VIP4)
                node.nl.do("SERVICE_NEW", service_addr6=VIP6)
        for a in self.nodes:
            for b in self.nodes:
                if a is not b and (a is self.fe or b is self.fe):
                    self.list(a, b)
        for node in self.nodes:
            # An emulated machine that others load too may take its time; tests that are about it set it.
            node.sysctl("net.flotilla.handoff_timeout_ms", 5000 * SLOW)
            node.sysctl("net.flotilla.adopt_deadline_ms", 20000 * SLOW)
        self.heartbeat(heartbeat_ms)
        for node in self.nodes if grace_ms is not None else ():
            with self.net.sysfs(node.ns, "links/grace_ms", "w") as file:
                file.write(str(grace_ms))
        for be in self.be:
            wait(lambda be=be: self.fe.nl.node(be.name)["NODE_STATE"] == E["FLT_NODE_UP"] and
                 be.nl.node("fe")["NODE_STATE"] == E["FLT_NODE_UP"])

    def heartbeat(self, ms):
        """Three of them without a word and a node is taken for dead."""
        for node in self.nodes:
            with self.net.sysfs(node.ns, "links/heartbeat_ms", "w") as file:
                file.write(str(ms * SLOW))

    def disturb(self, client, *others):
        """@client's side of the segment loses and mixes, both ways, and what @others send; how."""
        run("modprobe", "sch_netem")
        run("tc", "-n", self.net.bridge, "qdisc", "add", "dev", "p%d" % client.number, "root", "netem", *NETEM.split())
        for node in client, *others:
            node.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", *NETEM.split())
        return NETEM

    @staticmethod
    def hold_vip(node):
        """Have the address, never say so."""
        for item in ("all", "eth0"):
            node.sysctl("net.ipv4.conf.%s.arp_ignore" % item, 1)
            node.sysctl("net.ipv4.conf.%s.arp_announce" % item, 2)
            node.sysctl("net.ipv4.conf.%s.rp_filter" % item, 0)
        batch(node.ns, "addr add %s/32 dev lo" % VIP4, "addr add %s/128 dev lo nodad" % VIP6)

    def list(self, a, b):
        a.nl.do("NODE_NEW", node_name=b.name, node_addr4=self.net.ip4(b.number),
                node_forward=self.forward,
                node_role=E["FLT_ROLE_FRONTEND" if b is self.fe else "FLT_ROLE_BACKEND"],
                node_auth=E["FLT_AUTH_X509" if self.agents else "FLT_AUTH_NONE"])
        a.id[b.name] = a.nl.node(b.name)["NODE_ID"]

    def close(self):
        atexit.unregister(self.close)
        for child in self.children:
            child.kill()
            child.wait()
        self.children = []
        for agent in self.agents:
            agent.stop()
        for node in self.nodes + self.clients:
            node.nl.close()
        self.net.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def accept(listener):
    sock = listener.accept()[0]
    sock.settimeout(PATIENCE)
    return sock


def peek(sock, size, seconds=PATIENCE):
    """Wait until that much is unread; it stays so."""
    end = time.monotonic() + seconds
    while len(data := sock.recv(size, socket.MSG_PEEK)) < size:
        assert time.monotonic() < end and data, "only %r arrived" % data
        time.sleep(0.01)
    return data


def acknowledged(sock):
    """The client's last ACK has come."""
    return not struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def receive(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        assert part, "end of file after %d of %d bytes" % (len(data), size)
        data += part
    return data


def usable(server, client):
    """Both directions of a connection work."""
    client.sendall(b"ping")
    assert receive(server, 4) == b"ping"
    server.sendall(b"pong")
    assert receive(client, 4) == b"pong"

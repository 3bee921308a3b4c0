# SPDX-License-Identifier: GPL-2.0
"""Two front-ends, of which the second has the service address only when the first has died."""
import atexit
import contextlib
import ctypes
import errno
import fcntl
import json
import socket
import struct
import subprocess

from hof import DONE, PATIENCE, VIP4, VIP6, Cluster, E, Node, accept, batch, peek, receive, run, wait
from netns import SysfsView

TAKEOVER, TAKEN = 0x1b, 0x1c


STRUCT = struct.Struct("=IIHHI16sQII")
IOC_TAKEOVER = (3 << 30) | (STRUCT.size << 16) | (0xF1 << 8) | 16
NODE = struct.Struct("=IHHII")
PREPARE, ASK, RELEASE = 1, 2, 3


def takeover_ioctl(dev, op, timeout_ms=5000, size=STRUCT.size, family=socket.AF_INET, address=VIP4, room=16):
    """(node, state, refusal, taken, kept) of each node."""
    nodes = ctypes.create_string_buffer(room * NODE.size)
    asks = op == ASK
    args = bytearray(STRUCT.pack(size, op, family, 0, timeout_ms if asks else 0, socket.inet_aton(address),
                                 ctypes.addressof(nodes) if asks else 0, room if asks else 0, 0))
    fcntl.ioctl(dev, IOC_TAKEOVER, args)
    return list(NODE.iter_unpack(nodes.raw[:STRUCT.unpack(args)[7] * NODE.size]))


def mac(node):
    return "02:00:00:00:00:%02x" % node.number


class Pair(Cluster):
    """fe has the address, fe2 is its standby; the client sends to whom turn() says."""

    def __init__(self, backends=2, **more):
        super().__init__(backends, **more)
        self.born()
        for be in self.be:
            self.list(be, self.fe2)
            be.nl.do("NODE_SET", node_name="fe2", node_role=E["FLT_ROLE_FRONTEND"])
        wait(lambda: all(self.linked(be) for be in self.be))

    def born(self):
        fe2 = self.fe2 = Node(self, "fe2", 8)
        self.nodes.append(fe2)
        fe2.nl.do("LOCAL_SET", local_name="fe2", local_addr4=self.net.ip4(fe2.number), local_insecure=1)
        fe2.nl.do("SERVICE_NEW", service_addr4=VIP4)
        fe2.nl.do("SERVICE_NEW", service_addr6=VIP6)
        for be in self.be:
            self.list(fe2, be)
        fe2.sysctl("net.flotilla.handoff_timeout_ms", 60000)
        self.heartbeat(5000)

    def restarts(self):
        """fe2 does, as a machine that lost its power."""
        self.nodes.remove(self.fe2)
        self.fe2.nl.close()
        run("ip", "-n", self.net.bridge, "link", "del", "p%d" % self.fe2.number)
        self.net.delete(self.fe2.ns)
        view = SysfsView.views.pop(self.fe2.ns)
        atexit.unregister(view.close)
        view.close()
        self.born()
        wait(lambda: all(self.linked(be) for be in self.be))

    def linked(self, be):
        up = E["FLT_NODE_UP"]
        return self.fe2.nl.node(be.name)["NODE_STATE"] == up and be.nl.node("fe2")["NODE_STATE"] == up

    def turn(self, node):
        """The client's packets for the address go there."""
        self.client.run("ip", "neigh", "replace", VIP4, "lladdr", mac(node), "dev", "eth0", "nud", "permanent")
        self.client.run("ip", "neigh", "replace", VIP6, "lladdr", mac(node), "dev", "eth0", "nud", "permanent")

    def dies(self):
        self.fe.run("ip", "link", "set", "eth0", "down")

    def has_address(self):
        """fe2 does, and the client knows."""
        batch(self.fe2.ns, "addr add %s/24 dev eth0" % VIP4, "addr add %s/64 dev eth0 nodad" % VIP6)
        self.turn(self.fe2)

    def fails_over(self):
        self.dies()
        self.has_address()

    def takeover(self, *words, node=None, address=VIP4):
        """Exit status, rows, standard error of the command."""
        node = node or self.fe2
        done = subprocess.run(("ip", "netns", "exec", node.ns, "flotilla", "-j", "takeover", address) + words,
                              capture_output=True, check=False, timeout=PATIENCE * 4)
        rows = json.loads(done.stdout) if done.stdout.strip() else []
        return done.returncode, {row["node"]: row for row in rows}, done.stderr.decode()

    def taken(self, *words, **more):
        """How many of each node, when all have answered."""
        status, rows, said = self.takeover(*words, **more)
        assert status == 0 and all(row["answer"] == "done" for row in rows.values()), (status, rows, said)
        return {name: row["taken"] for name, row in rows.items()}


class Conns:
    """Connections that fe has handed off: pairs of the client's end and the node's."""

    def __init__(self, c, family=4):
        self.c, self.family = c, family
        self.front = c.fe.listen(family=family, backlog=1024)
        self.back = {be.name: be.listen(family=family, backlog=1024) for be in c.be}
        self.dev = c.fe.handoff()
        self.all, self.number = [], 0

    def open(self, be, read=True):
        client = self.c.client.connect(family=self.family)
        client.sendall(b"GET")
        here = accept(self.front)
        peek(here, 3)
        while True:
            self.number += 1
            self.dev.submit(here, self.c.fe.id[be.name], self.number)
            kind, cookie, _, refusal, _ = self.dev.event()
            while cookie != self.number:              # an earlier one has ended
                kind, cookie, _, refusal, _ = self.dev.event()
            if kind == DONE:
                break
            assert refusal == "changed", refusal      # the client's acknowledgement came in between
        here.close()
        there = accept(self.back[be.name])
        if read:
            assert receive(there, 3) == b"GET"
        self.all.append((client, there))
        return client, there

    def close(self):
        for pair in self.all:
            for sock in pair:
                sock.close()
        for sock in [self.front] + list(self.back.values()):
            sock.close()
        self.dev.close()


@contextlib.contextmanager
def handed_off(family=4, **more):
    """The pair, with one connection that be1 has: all that it opens, the node, the client's end and the node's."""
    with Pair(1, **more) as c:
        conns = Conns(c, family)
        yield c, conns, c.be[0], *conns.open(c.be[0])
        conns.close()


def ends(client, there):
    """The client closes, and then the server."""
    client.close()
    assert there.recv(1) == b""
    there.close()


def is_reset(client, data=b"x"):
    """What the client sends draws a RST."""
    with contextlib.suppress(OSError):
        client.sendall(data)
    try:
        return not client.recv(1)
    except OSError as error:
        return error.errno == errno.ECONNRESET

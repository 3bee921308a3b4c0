# SPDX-License-Identifier: GPL-2.0
"""A listed node that is only a program: it keeps the checkpoints that it is given, and gives forged ones."""
import contextlib
import socket
import struct
import threading
import time

from hof import E, PATIENCE, REFUSAL, Node, wait
from cluster import HELLO, PING, PONG, frame, hello

HANDOFF, ACK, NAK, COMMIT, ABORT, QUERY, LIFE, HELD, HELD_END = range(0x10, 0x19)
HEAD = struct.Struct("!QII")
NUMBER = 9
RECORD = struct.Struct("!QHHHH16s16s")


class Line:
    """Its end of one link."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""
        sock.settimeout(PATIENCE)

    def send(self, kind, body=b""):
        self.sock.sendall(frame(kind, body))

    def frame(self):
        """The next (type, body) that is no PING; these are answered."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while len(self.data) < 8 or len(self.data) < 8 + struct.unpack_from("!I", self.data)[0]:
                more = self.sock.recv(65536)
                assert more, "the node has ended its link"
                self.data += more
            length, kind = struct.unpack_from("!IB", self.data)
            body, self.data = self.data[8:8 + length], self.data[8 + length:]
            if kind != PING:
                return kind, body
            self.send(PONG, body)
        raise AssertionError("it says nothing, but PING")

    def await_kind(self, *kinds):
        while True:
            kind, body = self.frame()
            if kind in kinds:
                return kind, body


class Mallory:
    """Its address is the highest: the others connect to it."""

    def __init__(self, cluster, name="mallory", number=NUMBER):
        self.node, self.name = Node(cluster, name, number), name
        self.cluster, self.lines, self.serial, self.epoch = cluster, {}, 1, 0
        self.ip = cluster.net.ip4(number)
        with self.node.inside():
            self.listener = socket.create_server((self.ip, E["FLT_LINK_PORT"]))
        self.listener.settimeout(PATIENCE)

    def meet(self, node, role="BACKEND", features=None, **more):
        """Be listed by a node, and its peer; features: what it says that it knows; more: as greet()."""
        node.nl.do("NODE_NEW", node_name=self.name, node_addr4=self.ip,
                   node_role=E["FLT_ROLE_" + role])
        node.id[self.name] = node.nl.node(self.name)["NODE_ID"]
        return self.greet(node, features=features, **more)

    def greet(self, node, instance=77, features=None):
        """The link comes up; line.instance is the node's."""
        sock, _ = self.listener.accept()
        line = self.lines[node.name] = Line(sock)
        line.instance = struct.unpack_from("!IHHQ", line.await_kind(HELLO)[1])[3]
        more = b"" if features is None else struct.pack("!Q", features)
        line.send(HELLO, hello(self.name, instance=instance, heartbeat=60000) + more)
        wait(lambda: node.nl.node(self.name)["NODE_STATE"] == E["FLT_NODE_UP"])
        return line

    def leave(self, node):
        node.nl.do("NODE_DEL", node_name=self.name)
        self.lines.pop(node.name).sock.close()

    def take(self, node, refusal=E["FLT_REFUSE_POLICY"]):
        """The checkpoint that a node gives it; the answer is no."""
        line = self.lines[node.name]
        _, body = line.await_kind(HANDOFF)
        ident = HEAD.unpack_from(body)[0]
        line.send(NAK, HEAD.pack(ident, refusal, 0))
        return body[HEAD.size:]

    def give(self, node, wire):
        """Give a checkpoint; the name of the refusal, or "none", and then ABORT."""
        line = self.lines[node.name]
        self.serial += 1
        line.send(HANDOFF, HEAD.pack(self.serial, 0, 0) + wire)
        kind, body = line.await_kind(ACK, NAK)
        ident, refusal, _ = HEAD.unpack(body)
        assert ident == self.serial
        if kind == ACK:
            line.send(ABORT, HEAD.pack(ident, E["FLT_REFUSE_ABORTED"], 0))
            return "none"
        return REFUSAL[refusal]

    def adopt(self, node):
        """Take a connection: its id, and the addresses of the only one that the node forwards."""
        line = self.lines[node.name]
        _, body = line.await_kind(HANDOFF)
        ident = HEAD.unpack_from(body)[0]
        line.send(ACK, HEAD.pack(ident, self.epoch, 0))
        line.await_kind(COMMIT)
        family, client_port, server_port, _, client, server = struct.unpack(
            "=HHHH16s16s", wait(node.conns)[0]["CONN_TUPLE"])
        assert family == socket.AF_INET
        return ident, (socket.ntohs(client_port), socket.ntohs(server_port), client, server)

    def own(self, line):
        """Take whatever is given next."""
        ident = HEAD.unpack_from(line.await_kind(HANDOFF)[1])[0]
        line.send(ACK, HEAD.pack(ident, self.epoch, 0))
        assert HEAD.unpack_from(line.await_kind(COMMIT)[1])[0] == ident

    def vanish(self, node):
        """No link, and none to be had."""
        self.listener.close()
        self.lines.pop(node.name).sock.close()

    def again(self, node, instance=77):
        """The link ends, and comes back."""
        self.lines[node.name].sock.close()
        return self.greet(node, instance)

    def held(self, line, ident, addresses, pending=False):
        """This is all that it has of the node."""
        client_port, server_port, client, server = addresses
        line.send(HELD, RECORD.pack(ident, 4, int(pending), client_port, server_port, client, server))
        self.end(line)

    def end(self, line):
        line.send(HELD_END, HEAD.pack(0, self.epoch, 0))

    @staticmethod
    def committed(line):
        return HEAD.unpack_from(line.await_kind(COMMIT, ABORT)[1])[0]

    def close(self):
        for line in self.lines.values():
            line.sock.close()
        self.listener.close()
        with contextlib.suppress(OSError):
            self.node.nl.close()


def forge(wire, old, new):
    """The same with other addresses; whatever form it has, they are in it as bytes."""
    family = socket.AF_INET6 if ":" in old else socket.AF_INET
    a, b = socket.inet_pton(family, old), socket.inet_pton(family, new)
    assert wire.count(a) == 1, "%s is in the checkpoint %d times" % (old, wire.count(a))
    return wire.replace(a, b)


@contextlib.contextmanager
def unheard(line):
    """What it is told is read, so that it can be told more, and thrown away."""
    over = threading.Event()

    def reads():
        line.sock.settimeout(0.2)
        while not over.is_set():
            try:
                if not line.sock.recv(65536):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    thread = threading.Thread(target=reads)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

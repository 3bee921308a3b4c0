# SPDX-License-Identifier: GPL-2.0
"""Back-ends that hand connections on among themselves, and a connection on its way."""
import itertools
import socket
import struct
import time

from hof import DONE, FAILED, PATIENCE, E, Cluster, Refused, accept, peek, receive, usable, wait
from mallory import ABORT, ACK, COMMIT, HANDOFF, HEAD, LIFE, NAK, RECORD, Mallory

CLAIM, GRANT = 0x19, 0x1a
HAS_ORIGIN, IS_BACK = 4, 8
ORIGIN = struct.Struct("!QQQ32s")
TAIL = struct.Struct("!QQII")       # of CLAIM, behind a RECORD
ANSWER = struct.Struct("!QQII")
SECTIONS = E["FLT_FEATURE_SECTIONS"]
OLD = SECTIONS | E["FLT_FEATURE_SENDQUEUE"]
NEW = OLD | E["FLT_FEATURE_CLAIM"]
CUT = ("table inet cut { chain c { type filter hook input priority -400; "
       "ip saddr %s tcp sport 7471 drop; ip saddr %s tcp dport 7471 drop; }; }")


class Chain(Cluster):
    """A cluster whose back-ends may give to each other, too."""

    def __init__(self, backends=2, **more):
        super().__init__(backends, **more)
        pairs = list(itertools.permutations(self.be, 2))
        for a, b in pairs:
            self.list(a, b)
            a.nl.do("NODE_SET", node_name=b.name, node_role=E["FLT_ROLE_FRONTEND"])
        wait(lambda: all(a.nl.node(b.name)["NODE_STATE"] == E["FLT_NODE_UP"] for a, b in pairs))

    @staticmethod
    def forwards(node):
        """To whom, without what is over."""
        return [x["CONN_NODE"] for x in node.conns() if x["CONN_STATE"] != "LINGER"]

    def straight(self, node):
        """The front-end forwards its only connection straight to `node`, and nobody else forwards anything."""
        wait(lambda: self.forwards(self.fe) == [node.name])
        wait(lambda: not any(self.forwards(be) or be.stat("AdoptRelayed") or be.stat("ClaimPending") for be in self.be))

    def cut(self, node, other):
        """No message of `other` reaches `node`, and nobody waits long for its answers."""
        self.impatient()
        ip = self.net.ip4(other.number)
        node.run("nft", CUT % (ip, ip))

    def break_link(self, node, other):
        """What `other` has sent and `node` has not heard is lost."""
        node.output("ss", "-K", "dst", self.net.ip4(other.number), "( sport = :7471 or dport = :7471 )")

    def impatient(self):
        for node in self.nodes:
            node.sysctl("net.flotilla.handoff_timeout_ms", 200)

    @staticmethod
    def mend(node):
        node.run("nft", "delete table inet cut")


class Wanderer:
    """A connection that goes from node to node; `sock` is where it is. It begins at `at`, or at the front-end."""

    def __init__(self, c, family=4, request=b"GET", at=None, listeners=None):
        self.c, self.at, self.number = c, at or c.fe, 0
        self.listeners = listeners or {node.name: node.listen(family=family) for node in c.nodes}
        self.devices = {node.name: node.handoff() for node in c.nodes}
        self.client = c.client.connect(family=family)
        self.client.sendall(request)
        self.sock = accept(self.listeners[self.at.name])
        peek(self.sock, len(request))

    def submit(self, name):
        """Once the entry node has said who gets the packets: what has just come is busy until then."""
        self.number += 1

        def submitted():
            try:
                self.devices[self.at.name].submit(self.sock, self.at.id[name], self.number, timeout_ms=60000)
            except Refused as error:
                assert error.refusal == "busy", error
                return False
            return True
        wait(submitted)

    def outcome(self):
        """Of the last submit(); what older ones have to tell is passed over."""
        while True:
            kind, cookie, _, refusal, _ = self.devices[self.at.name].event()
            if cookie == self.number and kind in (DONE, FAILED):
                return refusal

    def arrives(self, node):
        sock = accept(self.listeners[node.name])
        self.sock.close()
        self.sock, self.at = sock, node

    def go(self, *nodes, again=("changed",)):
        """From one to the next; the client's acknowledgement may come in between, and then once more."""
        for node in nodes:
            end = time.monotonic() + PATIENCE
            while True:
                self.submit(node.name)
                refusal = self.outcome()
                if refusal == "none":
                    break
                assert refusal in again and time.monotonic() < end, refusal
            self.arrives(node)

    def works(self):
        usable(self.sock, self.client)

    def begins(self):
        """The request is read where it is now."""
        assert receive(self.sock, 3) == b"GET"
        self.works()

    def ends(self):
        """The client goes, and where it is now hears so and closes."""
        self.client.close()
        assert self.sock.recv(1) == b""
        self.sock.close()

    def close(self):
        for sock in [self.client, self.sock] + list(self.listeners.values()) + list(self.devices.values()):
            sock.close()


class Other(Mallory):
    """A node that is a program, and hands on or is handed on to."""

    def meet(self, node, role="FRONTEND", features=NEW, **more):
        return super().meet(node, role, features, **more)

    def offered(self, line):
        """The next HANDOFF: id, its origin or None, the checkpoint."""
        _, body = line.await_kind(HANDOFF)
        ident, flags, _ = HEAD.unpack_from(body)
        if not flags & HAS_ORIGIN:
            return ident, None, body[HEAD.size:]
        return ident, ORIGIN.unpack_from(body, HEAD.size)[:3], body[HEAD.size + ORIGIN.size:]

    def refuses(self, line):
        """The next is not taken: its checkpoint."""
        ident, _, wire = self.offered(line)
        line.send(NAK, HEAD.pack(ident, E["FLT_REFUSE_POLICY"], 0))
        return wire

    def takes(self, line):
        """The next is taken: as offered(), and what came with COMMIT as a proof, or None."""
        ident, origin, wire = self.offered(line)
        line.send(ACK, HEAD.pack(ident, self.epoch, 0))
        return ident, origin, wire, self.proof(line)

    @staticmethod
    def proof(line):
        """That the next COMMIT says; None: none."""
        _, body = line.await_kind(COMMIT)
        return struct.unpack("!Q", body[HEAD.size:])[0] if len(body) > HEAD.size else None

    def says(self, line, wire, origin=None, name=b"fe", flags=0):
        """It offers a connection: its id."""
        self.serial += 1
        more = b"" if origin is None else ORIGIN.pack(*origin, name)
        line.send(HANDOFF, HEAD.pack(self.serial, flags | (HAS_ORIGIN if origin else 0), 0) + more + wire)
        return self.serial

    def offers(self, line, *what, **more):
        """As says(), when it is taken."""
        ident = self.says(line, *what, **more)
        kind, body = line.await_kind(ACK, NAK)
        assert kind == ACK, HEAD.unpack(body)
        return ident

    def commits(self, line, ident, proof=None):
        line.send(COMMIT, HEAD.pack(ident, 0, 0) + (b"" if proof is None else struct.pack("!Q", proof)))

    @staticmethod
    def aborts(line, ident):
        line.send(ABORT, HEAD.pack(ident, E["FLT_REFUSE_ABORTED"], 0))

    @classmethod
    def claims(cls, line, ident, addresses, to, proof):
        """The refusal and the voucher that it gets."""
        cls.says_claim(line, ident, addresses, to, proof)
        return cls.granted(line, to)

    @staticmethod
    def says_claim(line, ident, addresses, to, proof):
        line.send(CLAIM, RECORD.pack(ident, 4, 0, *addresses) + TAIL.pack(to, proof, 0, 0))

    @staticmethod
    def granted(line, to):
        """What is answered to a claim: the refusal, the voucher."""
        said, voucher, refusal, _ = ANSWER.unpack(line.await_kind(GRANT)[1])
        assert said == to
        return refusal, voucher

    @classmethod
    def claimed(cls, line):
        """The next CLAIM of one: id here, id there, proof."""
        found, = cls.claims_in(line.await_kind(CLAIM)[1])
        return found

    @staticmethod
    def claims_in(body):
        """The same of each that a CLAIM has."""
        size = RECORD.size + TAIL.size
        assert len(body) % size == 0
        for at in range(0, len(body), size):
            to, proof, _, _ = TAIL.unpack_from(body, at + RECORD.size)
            yield RECORD.unpack_from(body, at)[0], to, proof

    @staticmethod
    def grants(line, to, refusal=0, voucher=4711):
        line.send(GRANT, ANSWER.pack(to, voucher, refusal, 0))


def addresses(client, port=80):
    """As a record has them."""
    mine = client.getsockname()
    return (mine[1], port, socket.inet_aton(mine[0]).ljust(16, b"\0"),
            socket.inet_aton(client.getpeername()[0]).ljust(16, b"\0"))


def ended(line):
    """The next LIFE of the node: id, what."""
    _, body = line.await_kind(LIFE)
    return RECORD.unpack_from(body)[0], RECORD.unpack_from(body)[2]


def meets(c, *nodes, **more):
    other = Other(c)
    for node in nodes:
        other.meet(node, **more)
    return other


def at_other(c, w, other):
    """It is given to the program by the front-end: id, origin, checkpoint, proof."""
    w.submit("mallory")
    said = other.takes(other.lines["fe"])
    assert w.outcome() == "none"
    return said


def from_other(c, w, other, origin=None, flags=0):
    """
    The program gives to be1 what the front-end has given to it, as if it were one: its id there. Packets of
    the client end at the program.
    """
    _, _, wire, _ = at_other(c, w, other)
    return given_by(c, w, other, wire, origin, flags)


def given_by(c, w, other, wire, origin=None, flags=0):
    """The program gives a connection to be1: its id there."""
    number = other.offers(other.lines["be1"], wire, origin, flags=flags)
    other.commits(other.lines["be1"], number)
    w.arrives(c.be[0])
    peek(w.sock, 3)
    return number

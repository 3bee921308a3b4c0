# SPDX-License-Identifier: GPL-2.0
"""A real node, a peer that is a program and says what the test says, and a client."""
import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading

from hof import PATIENCE, SLOW, TOP, VIP4, E, Net, Node, accept, peek, run, wait
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from cluster import HELLO, PING, PONG, FakePeer, frame, hello   # noqa: E402
from fakeagent import SOL_TLS, TCP_ULP, TLS_RX, TLS_TX, FakeAgent, keys   # noqa: E402
from endpoint import Wire                                       # noqa: E402

HANDOFF, ACK, NAK, COMMIT, ABORT, QUERY, LIFE, HELD, HELD_END = range(0x10, 0x19)
CLIENT = "10.9.0.100"


class Scripted(FakePeer):
    """Speaks the link's protocol, answers each PING, and says else what the test says."""

    def __init__(self, node, other, name, instance=77, proven=False):
        super().__init__(node, other)
        self.got, self.alive = [], True
        self.connect()
        if proven:
            self.sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
            self.sock.setsockopt(SOL_TLS, TLS_TX, keys(1))
            self.sock.setsockopt(SOL_TLS, TLS_RX, keys(2))
        self.send(frame(HELLO, hello(name, instance=instance, heartbeat=5000 * SLOW)))
        kind, _ = self.frame()
        assert kind == HELLO, kind
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while (said := self.frame()) is not None:
            if said[0] == PING:
                with contextlib.suppress(OSError):      # the test may just have ended it; frame() tells
                    self.send(frame(PONG, said[1]))
            else:
                self.got.append(said)
        self.alive = False

    def frame(self):
        while True:
            try:
                return super().frame()
            except TimeoutError:
                continue

    def end(self):
        # Who listens keeps the socket open, whoever closes it.
        with contextlib.suppress(OSError):      # the other side has ended it
            self.sock.shutdown(socket.SHUT_RDWR)
        self.close()

    def heard(self, kind):
        """The first message of a kind that has not been taken yet."""
        found = wait(lambda: [said for said in self.got if said[0] == kind])[0]
        self.got.remove(found)
        return found[1]

    def tell(self, kind, number, refusal=0):
        self.send(frame(kind, struct.pack("!QII", number, refusal, 0)))

    def handoff(self, number, wire):
        self.send(frame(HANDOFF, struct.pack("!QII", number, 0, 0) + bytes(wire)))

    def life(self, number, what, port):
        self.send(frame(LIFE, struct.pack("!QHHHH", number, 4, what, port, 80) +
                        socket.inet_aton(CLIENT).ljust(16, b"\0") +
                        socket.inet_aton(VIP4).ljust(16, b"\0")))


class Member(Node):
    """A node of Stage, in its own namespace."""

    def __init__(self, stage, name, number):
        super().__init__(stage, name, number)
        self.ip = stage.net.ip4(number)


class Stage:
    """A real node, a scripted peer, a client."""

    def __init__(self, deadline_ms=60000, proven=False):
        run("modprobe", "handoff")
        self.net = Net()
        self.children = []
        self.wire = None        # of the last given()
        self.peer_node = Member(self, "peer", 1)
        self.node = Member(self, "node", 5)
        self.client = Member(self, "client", 100)
        self.node.run("ip", "addr", "add", VIP4 + "/24", "dev", "eth0")
        self.node.nl.do("LOCAL_SET", local_name="node", local_addr4=self.node.ip, local_insecure=int(not proven))
        self.node.nl.do("SERVICE_NEW", service_addr4=VIP4)
        self.proven, self.agent = proven, FakeAgent(self.node.ns) if proven else None
        self.node.nl.do("NODE_NEW", node_name="peer", node_addr4=self.peer_node.ip,
                        node_role=E["FLT_ROLE_FRONTEND"], node_auth=E["FLT_AUTH_X509" if proven else "FLT_AUTH_NONE"])
        self.id = self.node.nl.node("peer")["NODE_ID"]
        self.node.sysctl("net.flotilla.adopt_deadline_ms", deadline_ms)
        self.node.sysctl("net.flotilla.handoff_timeout_ms", 60000)
        self.peer = Scripted(self.peer_node, self.node, "peer", proven=proven)
        wait(self.up)

    def up(self):
        return self.node.nl.node("peer")["NODE_STATE"] == E["FLT_NODE_UP"]

    def again(self, instance=77):
        """The link ends, and comes back; what the node says then, up to HELD_END."""
        self.peer.end()
        self.peer = Scripted(self.peer_node, self.node, "peer", instance, self.proven)
        kinds = wait(lambda: HELD_END in (kinds := [kind for kind, _ in self.peer.got]) and kinds)
        return self.peer.got[:kinds.index(HELD_END)]

    def epoch(self):
        """What the HELD_END of the last again() said."""
        number, epoch, _ = struct.unpack("!QII", [body for kind, body in self.peer.got if kind == HELD_END][0])
        assert number == 0
        return epoch

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.close()
        if self.agent:
            self.agent.stop()
        for member in (self.node, self.client, self.peer_node):
            member.nl.close()
        self.net.close()
        run("modprobe", "handoff")

    def parked(self, number, port, data=b"GET"):
        """A hand-made connection, taken by the node and not committed."""
        self.peer.handoff(number, checkpoint(port, data))
        said = struct.unpack("!QII", self.peer.heard(ACK))
        assert said[0] == number
        return said

    def taken(self, number, port, listener):
        """A hand-made connection, taken by the node and committed: its socket there, and its epoch."""
        epoch = self.parked(number, port)[1]
        self.peer.tell(COMMIT, number)
        return accept(listener), epoch

    def given(self, listener, dev):
        """A connection of the node's own, on its way to the peer; socket of client, of node, id."""
        client = self.client.connect()
        client.sendall(b"GET")
        here = accept(listener)
        peek(here, 3)
        dev.submit(here, self.id, timeout_ms=60000)
        said = self.peer.heard(HANDOFF)
        self.wire = Wire(said[16:])
        return client, here, struct.unpack_from("!Q", said)[0]

    def looks(self):
        """Whoever looks at sockets is done soon, and so is who kills one."""
        for words in (("ss", "-tnie"), ("cat", "/proc/net/tcp"),
                      ("ss", "-K", "-tn", "dst", CLIENT)):
            subprocess.run(("ip", "netns", "exec", self.node.ns) + words, check=True,
                           stdout=subprocess.DEVNULL, timeout=PATIENCE)


def checkpoint(port, data):
    """What a giver would send of a connection that CLIENT has just opened."""
    wire = Wire.blank(data)
    wire["family"], wire["client_port"], wire["server_port"] = 4, port, 80
    wire["client"] = socket.inet_aton(CLIENT).ljust(16, b"\0")
    wire["server"] = socket.inet_aton(VIP4).ljust(16, b"\0")
    wire["mss_clamp"], wire["snd_una"], wire["rcv_start"] = 1460, 1000, 5000
    wire["rcv_wup"] = wire["rcv_start"] + len(data)
    wire["snd_wl1"] = wire["rcv_wup"] - 1
    wire["snd_wnd"] = wire["max_window"] = wire["rcv_wnd"] = 60000
    wire["rcv_ssthresh"] = wire["window_clamp"] = 60000
    return wire

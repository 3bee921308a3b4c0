#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""A peer that has authenticated itself, and sends TLS records that no node sends: what ends its link,
what may pass, and that none of it holds the one who reads."""
import contextlib
import os
import socket
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import HELLO, PING, PONG, UP, FakePeer, cluster, frame, hello  # noqa: E402
from fakeagent import SOL_TLS, TCP_ULP, TLS_RX, TLS_TX, FakeAgent, keys  # noqa: E402
from fltnl import E                                     # noqa: E402
from patience import rounds                             # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

TLS_SET_RECORD_TYPE = 1
CIPHER_SPEC, ALERT, HANDSHAKE, DATA, HEARTBEAT = 20, 21, 22, 23, 24
CLOSE_NOTIFY, FATAL = bytes((1, 0)), bytes((2, 80))
TICKET, KEY_UPDATE = bytes((4, 0, 0, 1, 0)), bytes((24, 0, 0, 1, 0))
# FLT_TICKETS, FLT_EMPTY_RECORDS
TICKETS, EMPTY = 8, 16
CLOSED, REFUSED = "closed by the peer", "unknown message type"


def say(sock, kind, data=b""):
    """One record. Without data it is padded: TLS finds the type before the zeroes."""
    if not data:
        kind, data = 0, bytes((kind,))
    sock.sendmsg([data], [(SOL_TLS, TLS_SET_RECORD_TYPE, bytes((kind,)))])


def sealed(records):
    """What a peer's records are on the wire, from the first on."""
    with socket.create_server(("127.0.0.1", 0)) as server, \
            socket.create_connection(server.getsockname()) as sock, server.accept()[0] as wire:
        sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
        sock.setsockopt(SOL_TLS, TLS_TX, keys(1))
        data = bytearray()
        for kind, body in records:
            say(sock, kind, body)
            with contextlib.suppress(BlockingIOError):
                data += wire.recv(1 << 20, socket.MSG_DONTWAIT)
        sock.close()
        while more := wire.recv(1 << 20):
            data += more
        return bytes(data)


class TlsPeer(FakePeer):
    """Node 1 as a socket that encrypts, unless it says what is encrypted already."""

    def secure(self, sends=True):
        self.sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
        if sends:
            self.sock.setsockopt(SOL_TLS, TLS_TX, keys(1))
        self.sock.setsockopt(SOL_TLS, TLS_RX, keys(2))
        return self

    def answers(self, stamp):
        """Does the node read on."""
        self.send(frame(PING, stamp))
        while self.frame() != (PONG, stamp):
            pass


GREETING = frame(HELLO, hello("n1", heartbeat=60000))


@contextlib.contextmanager
def met(greeting=None):
    """Node 2, and node 1 as its peer; who greets with records of his own has not yet."""
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        high.become()
        high.list(low, node_auth=E["FLT_AUTH_X509"])
        agent = FakeAgent(high.ns)
        peer = TlsPeer(low, high).connect().secure(not greeting)
        try:
            peer.send(greeting or GREETING)
            assert peer.frame()[0] == HELLO
            wait(lambda: high.state(low) == UP)
            yield low, high, peer
        finally:
            peer.close()
            agent.stop()


def ends(low, high, reason):
    wait(lambda: high.state(low) != UP)
    assert high.nl.node(low.name)["NODE_REASON"] == reason, high.nl.node(low.name)
    assert high.nl.stat("LinkBadType") == (reason == REFUSED)


@claim
def an_alert_is_the_end():
    for body in (CLOSE_NOTIFY, FATAL, b"", bytes(5000)):
        with met() as (low, high, peer):
            say(peer.sock, ALERT, body)
            ends(low, high, CLOSED)


@claim
def tickets_pass_and_not_for_ever():
    with met() as (low, high, peer):
        for number in range(TICKETS):
            say(peer.sock, HANDSHAKE, TICKET + bytes((0, 1, 2, 3, 5000, 16000)[number % 6]))
            peer.answers(b"%08d" % number)
        assert high.nl.stat("LinkDown") == 0
        say(peer.sock, HANDSHAKE, TICKET)
        ends(low, high, REFUSED)


@claim
def other_records_end_the_link():
    for kind, body in ((HANDSHAKE, KEY_UPDATE), (HANDSHAKE, b""), (HANDSHAKE, b"\x01"), (CIPHER_SPEC, b"\x01"),
                       (HEARTBEAT, bytes(100)), (99, b"x"), (99, b"")):
        with met() as (low, high, peer):
            say(peer.sock, kind, body)
            ends(low, high, REFUSED)


@claim
def records_in_the_midst_of_a_message_leave_it_whole():
    with met() as (low, high, peer):
        message = frame(0xf0, length=100000) + bytes(100000)
        for begin in range(0, len(message), 20000):
            say(peer.sock, DATA, message[begin:begin + 10000])
            say(peer.sock, HANDSHAKE if begin else DATA, TICKET if begin else b"")
            peer.send(message[begin + 10000:begin + 20000])
        peer.answers(b"whole---")
        assert high.nl.stat("MessagesIn") == 1 and high.nl.stat("LinkDown") == 0


@claim
def a_few_records_without_a_byte_pass():
    with met() as (low, high, peer):
        peer.sock.setsockopt(socket.SOL_TCP, socket.TCP_CORK, 1)
        for number in range(20):
            for _ in range(EMPTY // 2):
                say(peer.sock, DATA)
            peer.answers(b"%08d" % number)
        assert high.nl.stat("LinkDown") == 0


@claim
def records_without_a_byte_are_no_sign_of_life():
    with met() as (low, high, peer):
        with contextlib.suppress(OSError):
            for _ in range(20 * EMPTY):
                say(peer.sock, DATA)
                time.sleep(0.05)    # each finds its reader waiting
        ends(low, high, REFUSED)


@claim
def records_of_a_byte_are_messages_all_the_same():
    with met() as (low, high, peer):
        peer.sock.setsockopt(socket.SOL_TCP, socket.TCP_CORK, 1)
        for byte in b"".join(frame(PING, b"%08d" % number) for number in range(50)):
            say(peer.sock, DATA, bytes((byte,)))
        peer.answers(b"-at last")
        assert high.nl.stat("LinkDown") == 0


@claim
def an_endless_row_of_them_does_not_hold_its_reader():
    count = rounds(20000, 6000)
    stream = sealed([(DATA, GREETING)] + [(DATA, b"")] * count)
    greeting = len(stream) - 23 * count
    with met(stream[:greeting]) as (low, high, peer):
        # So little that it cannot all be under way.
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        taken = 0
        with contextlib.suppress(ConnectionError):
            while taken < count * 23:
                taken += peer.sock.send(stream[greeting + taken:][:16384])
        print("# %d of %d bytes are sent when the connection ends" % (taken, count * 23))
        assert taken < count * 23
        ends(low, high, REFUSED)


if __name__ == "__main__":
    main_with("flotilla", "flt_link_test", needs=("tls",))

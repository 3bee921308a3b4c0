#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Nodes of different versions have a link, and each knows what the other knows."""
import contextlib
import os
import socket
import struct
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import HELLO, PORT, REJECT, UP, FakePeer, cluster, frame, hello  # noqa: E402
from fltnl import E                                     # noqa: E402
from netns import inside                                # noqa: E402
from patience import PATIENCE                           # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

KNOWN = (E["FLT_FEATURE_SECTIONS"] | E["FLT_FEATURE_SENDQUEUE"] | E["FLT_FEATURE_CLAIM"] |
         E["FLT_FEATURE_TLS"] | E["FLT_FEATURE_TAKEOVER"] | E["FLT_FEATURE_RELOCATE"] |
         E["FLT_FEATURE_NOTIFY"] | E["FLT_FEATURE_REDIRECT"] | E["FLT_FEATURE_REPORT"] |
         E["FLT_FEATURE_LARGE"] | E["FLT_FEATURE_CACHE"] | E["FLT_FEATURE_HALFCLOSED"] |
         E["FLT_FEATURE_OOO"])
BRIEF, FULL = 52, 60
FLT_WHY_LENGTH = 8


def features(of, seen_by):
    return seen_by.nl.node(of.name)["NODE_FEATURES"]


def said(body):
    return struct.unpack_from("!Q", body, BRIEF)[0]


@claim
def two_of_this_version_know_it_of_each_other():
    with cluster() as c:
        low, high = c.nodes
        assert features(low, high) == features(high, low) == KNOWN
        high.nl.do("NODE_DEL", node_name=low.name)
        wait(lambda: low.state(high) != UP)
        assert features(high, low) == 0


@claim
def later_version_says_more():
    """More features, and more behind them: what is not known is left alone."""
    later = KNOWN | 1 << 63 | 1 << 7
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        high.become()
        high.list(low)
        for tail in (b"", b"x", bytes(range(190))):
            peer = FakePeer(low, high).connect()
            peer.send(frame(HELLO, hello("n1") + struct.pack("!Q", later) + tail))
            kind, body = peer.frame()
            assert kind == HELLO and len(body) == FULL and said(body) == KNOWN, (kind, body)
            wait(lambda: high.state(low) == UP)
            assert features(low, high) == later
            peer.close()
            wait(lambda: high.state(low) != UP)


@claim
def earlier_version_that_connects_hears_what_it_knows():
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        high.become()
        high.list(low)
        peer = FakePeer(low, high).connect()
        peer.send(frame(HELLO, hello("n1")))
        kind, body = peer.frame()
        assert kind == HELLO and len(body) == BRIEF, (kind, body)
        wait(lambda: high.state(low) == UP)
        assert features(low, high) == 0
        peer.close()


@claim
def earlier_version_is_sent_no_message_that_it_would_close_the_link_for():
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        high.become()
        high.list(low)
        peer = FakePeer(low, high).connect()
        peer.send(frame(HELLO, hello("n1") + struct.pack("!Q", KNOWN & ~E["FLT_FEATURE_LARGE"])))
        peer.frame()
        wait(lambda: high.state(low) == UP)
        try:
            high.test("type %s 0xf0 %d" % (low.name, (2 << 20) + 1))
            raise AssertionError("2 MiB + 1 was taken")
        except OSError as err:
            assert err.errno == 90, err
        high.test("type %s 0xf0 %d" % (low.name, 2 << 20))
        peer.close()


class Listener:
    """Node 2 as a program: node 1 connects to it."""

    def __init__(self, node):
        with inside(node.ns):
            self.sock = socket.create_server((node.ip, PORT))
        self.sock.settimeout(PATIENCE)

    @contextlib.contextmanager
    def peer(self):
        """The next connection, and the HELLO that came by it."""
        peer = FakePeer.__new__(FakePeer)
        peer.data = b""
        peer.sock, _ = self.sock.accept()
        peer.sock.settimeout(PATIENCE)
        kind, body = peer.frame()
        assert kind == HELLO
        with peer.sock:
            yield peer, body


@claim
def earlier_version_that_is_connected_to_gets_a_link_at_the_second_try():
    """It refuses a HELLO that says more. After each link it is asked anew: it may have been upgraded."""
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        listener = Listener(high)
        low.become()
        low.list(high)
        with listener.peer() as (peer, body):
            assert len(body) == FULL and said(body) == KNOWN, body
            peer.send(frame(REJECT, struct.pack("!I", FLT_WHY_LENGTH)))
        with listener.peer() as (peer, body):
            assert len(body) == BRIEF, body
            peer.send(frame(HELLO, hello("n2")))
            wait(lambda: low.state(high) == UP)
            assert features(high, low) == 0
        wait(lambda: low.state(high) != UP)
        with listener.peer() as (peer, body):
            assert len(body) == FULL, body
            peer.send(frame(HELLO, hello("n2") + struct.pack("!Q", KNOWN)))
            wait(lambda: low.state(high) == UP)
            assert features(high, low) == KNOWN
        listener.sock.close()


@claim
def other_refusals_do_not_make_it_say_less():
    with cluster(2, listed=False) as c:
        low, high = c.nodes
        listener = Listener(high)
        low.become()
        low.list(high)
        for why in (6, 10, 11):
            with listener.peer() as (peer, body):
                assert len(body) == FULL, body
                peer.send(frame(REJECT, struct.pack("!I", why)))
        # The same node's link: one that is listed anew knows nothing of what was refused.
        with listener.peer() as (peer, body):
            assert len(body) == FULL, body
        listener.sock.close()


if __name__ == "__main__":
    main_with("flotilla", "flt_link_test")

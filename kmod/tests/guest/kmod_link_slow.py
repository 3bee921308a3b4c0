#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# long: debug minutes of waiting
"""Who gives or takes a message byte by byte lives, but has no link for it: each byte is a sign of
life, and what waits for the rest of the message would wait for as long as the peer likes."""
import contextlib
import os
import socket
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import PONG, UP, cluster, frame, greeted, listening, twice_a_second  # noqa: E402
from patience import PATIENCE                           # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

TEST = 0xf0
HALF_A_MINUTE = 30      # FLT_STALL_MS


@contextlib.contextmanager
def met():
    """Node 2, and node 1 as a socket that it has accepted."""
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        peer = greeted(low, high)
        try:
            yield low, high, peer
        finally:
            peer.close()


def ends(low, high, reason):
    wait(lambda: high.state(low) != UP, HALF_A_MINUTE + 2 * PATIENCE)
    assert high.nl.stat("LinkStalled") == 1 and high.nl.stat("LinkHeartbeatLost") == 0
    assert high.nl.node(low.name)["NODE_REASON"] == reason


@claim
def a_message_that_never_comes_to_its_end_ends_the_link():
    with met() as (low, high, peer):
        peer.send(frame(TEST, b"x", length=1 << 20))
        with twice_a_second(lambda: peer.sock.sendall(b"x")):
            ends(low, high, "a message of it does not come to its end")


@claim
def messages_that_come_to_their_end_slowly_do_not():
    with met() as (low, high, peer):
        # Half a message and half of the next: there is always a part of one.
        pong = frame(PONG, bytes(8))
        peer.send(pong[:8])
        with twice_a_second(lambda: peer.sock.sendall(pong[8:] + pong[:8])):
            wait(lambda: high.nl.node(low.name)["NODE_UPTIME_MS"] > (HALF_A_MINUTE + 10) * 1000,
                 HALF_A_MINUTE + 2 * PATIENCE)
        assert high.nl.stat("LinkDown") == 0


@claim
def a_long_message_may_come_as_slowly_as_several_short_ones():
    with met() as (low, high, peer):
        parts, every = 128, 0.4
        part = bytes((8 << 20) // parts)
        assert parts * every > HALF_A_MINUTE + 10
        peer.send(frame(TEST, length=parts * len(part)))
        left = iter(range(parts))
        with twice_a_second(lambda: peer.sock.sendall(part) if next(left, None) is not None else None, every):
            wait(lambda: high.numbers()["received"] or high.nl.stat("LinkDown"), parts * every + 2 * PATIENCE)
        assert high.nl.stat("LinkDown") == high.nl.stat("LinkStalled") == 0
        # It is not for who sends a little.
        peer.send(frame(TEST, length=8 << 20))
        with twice_a_second(lambda: peer.sock.sendall(bytes(1024))):
            ends(low, high, "a message of it does not come to its end")


@claim
def a_peer_that_takes_only_a_byte_now_and_then_loses_the_link():
    with met() as (low, high, peer):

        def nibble():
            peer.sock.sendall(frame(PONG, bytes(8)))
            with contextlib.suppress(BlockingIOError):
                peer.sock.recv(2048, socket.MSG_DONTWAIT)

        def pour():
            with contextlib.suppress(OSError):
                high.test("storm %s 1000 65000" % low.name)
        thread = threading.Thread(target=pour)
        thread.start()
        with twice_a_second(nibble):
            ends(low, high, "the peer takes no more data")
        high.nl.do("NODE_DEL", node_name=low.name)
        thread.join()


if __name__ == "__main__":
    main_with("flotilla", "flt_link_test")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug four minutes there
"""The policy `size`: requests leave by the length of the answers that the same path had here."""
import contextlib
import os
import select
import socket
import struct
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import PATIENCE, SLOW, acknowledged, claim, main, receive, wait    # noqa: E402
from policed import END, SERVICE, Nodes, get                     # noqa: E402

ENDS = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n"


def answer_of(length, head=b""):
    return ENDS % (length, head) + b"x" * length


def asked(n, path, length, closes=False, client=None, sock=None):
    """A request for that; whoever serves it answers so. At which node, and with what the connection goes on."""
    client = client or n.connect()
    sock = sock or n.accepted()
    client.sendall(get(path))
    ready = select.select([sock, n.listeners[1]], [], [], PATIENCE)[0]
    to = 1 if n.listeners[1] in ready or not sock.recv(1, socket.MSG_PEEK) else 0
    there = n.accepted(1) if to else sock
    n.answer(there, client, get(path), answer_of(length, b"Connection: close\r\n" if closes else b""))
    if closes:
        there.close()
        assert client.recv(1) == b""
        client.close()
    return to, client, there


@claim
def short_answers_leave_and_long_ones_stay():
    with Nodes() as n:
        n.policy("size", "below=10240", "be2")
        for closes in (False, True):
            client = sock = None
            small, big = "/small%d" % closes, "/big%d" % closes
            for path, length, want in ((small, 500, 0), (big, 100000, 0), (small, 500, 1)):
                to, client, sock = asked(n, path, length, closes, client, sock)
                assert to == want, (path, to)
                if closes:
                    client = sock = None
                    time.sleep(0.2)     # for the last acknowledgement
            for path, length, want in ((small, 500, 1), (big, 100000, 0)) * 3:
                assert asked(n, path, length, closes)[0] == want, path


@claim
def a_class_of_lengths_leaves_and_no_other():
    with Nodes() as n:
        n.policy("size", "from=10000", "below=100000", "be2")
        paths = (("/a", 500), ("/b", 9000), ("/c", 20000), ("/d", 90000), ("/e", 200000))
        for path, length in paths:
            assert asked(n, path, length, True)[0] == 0, path
        time.sleep(0.2)
        where = {path: asked(n, path, length, True)[0] for path, length in paths}
        assert where == {"/a": 0, "/b": 0, "/c": 1, "/d": 1, "/e": 0}, where
        # Another service's, or another method's, are others.
        assert asked(n, "/c?x=1", 20000, True)[0] == 1
        client = n.connect()
        sock = n.accepted()
        head = b"HEAD /c HTTP/1.1" + END
        client.sendall(head)
        n.answer(sock, client, head)


@claim
def long_answers_leave_however_long_they_are():
    with Nodes() as n:
        n.policy("size", "from=100000", "be2")
        paths = (("/a", 500), ("/b", 20000), ("/c", 150000), ("/d", 400000))
        for path, length in paths:
            assert asked(n, path, length, True)[0] == 0, path
        time.sleep(0.2)
        where = {path: asked(n, path, length, True)[0] for path, length in paths}
        assert where == {"/a": 0, "/b": 0, "/c": 1, "/d": 1}, where


@claim
def a_length_is_measured_again_and_a_short_answer_does_not_hide_a_long_one():
    with Nodes() as n:
        n.policy("size", "again=%d" % (5 * SLOW), "be2")
        assert asked(n, "/a", 500, True)[0] == 0
        time.sleep(0.2)
        assert asked(n, "/a", 500, True)[0] == 1
        time.sleep(5 * SLOW + 1)
        # It has grown meanwhile; the client that has it already is told so.
        assert asked(n, "/a", 50000, True)[0] == 0
        assert asked(n, "/a", 0, True)[0] == 0
        time.sleep(0.2)
        assert asked(n, "/a", 50000, True)[0] == 0


@claim
def lengths_end_with_their_service_wherever_the_next_one_lies():
    with Nodes() as n:
        for turn in range(12):
            n.policy("size", "be2")
            assert asked(n, "/a", 500, True)[0] == 0, turn
            time.sleep(0.2)
            assert asked(n, "/a", 500, True)[0] == 1, turn
            n.flotilla("policy", "off", SERVICE)


@claim
def what_was_cut_off_is_no_length():
    with Nodes() as n:
        n.policy("size", "be2")
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/a"))
        assert receive(sock, len(get("/a"))) == get("/a")
        part = answer_of(50000)[:500]
        sock.sendall(part)
        assert receive(client, len(part)) == part
        wait(lambda: acknowledged(sock))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with contextlib.suppress(ConnectionResetError):
            sock.recv(1)
        sock.close()
        assert asked(n, "/a", 500, True)[0] == 0


if __name__ == "__main__":
    main()

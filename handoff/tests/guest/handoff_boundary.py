#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 200
# cpus: 4
"""A connection goes to another listener of the machine: what is a next request, and what is none."""
import os
import socket
import struct
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import claim, main, receive, rounds, usable, wait  # noqa: E402
from move import CONN, loopback_up, no_resets           # noqa: E402
from shifted import ANSWER, GET, Pair                   # noqa: E402


@claim
def what_is_no_next_request_is_left_to_the_old_server():
    for words, answers in (
            (b"SEND me some bytes of a body", True),            # looks like a method, has no line of HTTP
            (b"GET / HTTP/2.0\r\n\r\n", True),
            (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", True),   # too long to be looked at
            (b"\x16\x03\x01\x02\x00", True),
            (b"\x81\x85abcdABCDE", True),
            (GET, False)):                                      # the client does not wait for answers
        with no_resets(), Pair() as p:
            p.move.give(CONN, p.served)
            p.client.sendall(GET)                               # seen whole; the next could move
            wait(lambda: p.move.status()["refused"])
            receive(p.served, len(GET))
            if answers:
                p.served.sendall(ANSWER)
                receive(p.client, len(ANSWER))
            p.keeps(words)
            usable(p.served, p.client)


@claim
def a_request_in_pieces_is_read_by_one_server_only():
    with no_resets(), Pair() as p:
        p.move.give(CONN, p.served)
        p.client.sendall(GET[:3])
        # Who is late to read it has it looked at again.
        wait(p.tries)
        assert receive(p.served, 3) == GET[:3]
        before = p.settled()
        p.client.sendall(GET[3:])
        wait(lambda: p.tries() > before)
        assert receive(p.served, len(GET) - 3) == GET[3:]
        p.answered(p.served)
        p.seen()
        p.next_moves()


@claim
def a_body_of_known_length_is_counted():
    for ends in (GET + b"x", b"tail"):
        body = os.urandom(100000) + ends
        with no_resets(), Pair() as p:
            p.move.give(CONN, p.served)
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: x\r\n\r\n" % len(body)
            p.client.sendall(head)
            wait(lambda: p.move.status()["refused"])
            assert receive(p.served, len(head)) == head
            p.client.sendall(body)
            assert receive(p.served, len(body)) == body
            p.settled()
            p.answered(p.served)
            p.next_moves()


@claim
def who_reads_what_is_being_looked_at_starts_no_endless_search():
    """He does not wait to be told: when he is told after all, there is nothing unread."""
    times = rounds(100, 400)
    with no_resets(), Pair() as p:
        p.move.give(CONN, p.served)
        p.served.setblocking(False)
        for _ in range(times):
            p.client.sendall(b"x")
            while True:
                try:
                    assert p.served.recv(1) == b"x"
                    break
                except BlockingIOError:
                    pass
            time.sleep(0.01)
        assert p.tries() <= 2 * times, p.move.status()


POSTED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"
# Where they end is not in their headers, or is read by two servers in two ways.
UNCLEAR = (POSTED % (len(GET), b"Expect: 100-continue\r\n"), POSTED % (0, b"Content-Length: %d\r\n" % len(GET)),
           GET[:-2] + b"Content-Length: +0\r\n\r\n", GET[:-2] + b"Content-Length:\r\n\r\n",
           GET[:-2] + b"content-LENGTH : %d\r\n\r\n" % len(GET),
           GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", GET[:-2] + b"Upgrade: x\r\n\r\n",
           b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", b"SOURCE /a.ogg HTTP/1.0\r\nHost: x\r\n\r\n",
           b"POST / HTTP/1.0\r\nHost: x\r\n\r\n", GET[:-2] + b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
           GET[:-2] + b"\0Transfer-Encoding: chunked\r\n\r\n", GET[:-2] + b"\vTransfer-Encoding: chunked\r\n\r\n",
           GET[:-2] + b"X\xe4: a\r\n\r\n", GET[:-2] + b"no field\r\n\r\n", b"GET /\r HTTP/1.1\r\nHost: x\r\n\r\n",
           b"GET / HTTP/1.1 x\r\nHost: x\r\n\r\n", GET[:-2] + b" folded\r\n\r\n", GET[:-4] + b"\n\n",
           GET[:-2] + b"X: " + b"x" * 5000 + b"\r\n\r\n")


def began(p, head):
    """The server has this, and has sent something."""
    p.move.give(CONN, p.served)
    p.client.sendall(head)
    wait(lambda: p.move.status()["refused"])
    assert receive(p.served, len(head)) == head, head
    p.served.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    receive(p.client, 25)


@claim
def what_may_be_a_body_is_no_request():
    for head in (POSTED % (len(GET) + 1, b""), POSTED % (len(GET) - 1, b""), GET + b"x", GET + GET):
        with no_resets(), Pair() as p:
            began(p, head)
            p.keeps(GET)


@claim
def behind_what_may_be_a_tunnel_nothing_is_a_request():
    """However many look like one and are answered."""
    for head in UNCLEAR:
        with no_resets(), Pair() as p:
            began(p, head)
            for _ in range(2):
                p.client.sendall(GET)
                p.stays(0.2)
                assert receive(p.served, len(GET)) == GET, head
                p.answered(p.served)


@claim
def a_tunnel_moves_when_it_is_still_if_that_is_asked_for():
    with no_resets(), Pair(idle_ms=300) as p:
        began(p, b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n")
        p.moved().close()


def same_tick(sock):
    """It has sent and received within one of the kernel's, as far as TCP knows."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 60)
    sent, _, heard = struct.unpack_from("=III", info, 44)
    return sent == heard


@claim
def who_asks_again_at_once_and_waits_long_is_not_still():
    """As one does who asks for news. Once it is answered, it is."""
    with no_resets(), Pair(idle_ms=50) as p:
        for _ in range(1000):
            p.client.sendall(GET)
            assert receive(p.served, len(GET)) == GET
            if same_tick(p.served):
                break
            p.answered(p.served)
        else:
            raise AssertionError("never within a tick")
        p.move.give(CONN, p.served)
        p.stays()
        p.answered(p.served)
        p.moved().close()


@claim
def with_what_is_unclear_itself_a_connection_moves():
    """Behind an answered request: where it begins is known."""
    for head in UNCLEAR:
        with no_resets(), Pair() as p:
            p.move.give(CONN, p.served)
            p.seen()
            p.client.sendall(head)
            there = p.moved()
            assert receive(there, len(head)) == head
            there.close()


@claim
def what_only_looks_like_an_upgrade_moves():
    """Browsers say so in each navigation."""
    with no_resets(), Pair() as p:
        p.move.give(CONN, p.served)
        first = GET[:-2] + b"Upgrade-Insecure-Requests: 1\r\nExpected: x\r\nAccept: */*;q=0.8, \xe4\t\"x\"\r\n\r\n"
        p.client.sendall(first)
        wait(p.tries)
        assert receive(p.served, len(first)) == first
        p.answered(p.served)
        p.next_moves()


if __name__ == "__main__":
    loopback_up()
    main()

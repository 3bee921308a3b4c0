#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug minutes there
"""Connections of TLS are looked at, go back to the front-end, and leave it again."""
import errno
import os
import select
import socket
import struct
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import DONE, PATIENCE, Refused, accept, claim, main, receive, wait   # noqa: E402
import tls                                              # noqa: E402
from move import CONN, Move                             # noqa: E402
from secured import Secure, asleep, both_ways, handed, in_be    # noqa: E402
from shifted import GET                                 # noqa: E402
from tls import pending, read_all                       # noqa: E402


@claim
def a_look_takes_nothing_and_tells_of_more():
    with Secure() as p, select.epoll() as edges, select.epoll() as levels:
        sock = p.served
        edges.register(sock, select.EPOLLIN | select.EPOLLET)
        levels.register(sock, select.EPOLLIN)
        assert not edges.poll(0) and not levels.poll(0)
        told = b""
        for part in b"one", b"two", b"x" * 3000, b"three":
            p.client.sendall(part)
            told += part
            assert edges.poll(PATIENCE), "nothing is said of %d more" % len(part)
            wait(lambda: sock.recv(20000, socket.MSG_PEEK | socket.MSG_DONTWAIT) == told)
            assert levels.poll(0) and select.select([sock], [], [], 0)[0]
            assert sock.recv(4, socket.MSG_PEEK) == told[:4]
            assert sock.recv(20000, socket.MSG_PEEK) == told
        assert receive(sock, 2) == b"on"
        assert sock.recv(2, socket.MSG_PEEK) == b"et"
        assert receive(sock, len(told) - 2) == told[2:]
        assert not levels.poll(0)
        # Whoever waits for it is woken, and whoever does not wait is told so.
        sock.setblocking(False)
        try:
            sock.recv(1, socket.MSG_PEEK)
            raise AssertionError("something is there")
        except BlockingIOError:
            pass
        sock.settimeout(PATIENCE)
        got = []
        waits = threading.Thread(target=lambda: got.append(sock.recv(100, socket.MSG_PEEK)))
        waits.start()
        wait(lambda: asleep(waits))
        p.client.sendall(b"last")
        waits.join(PATIENCE)
        assert got == [b"last"], got
        assert receive(sock, 4) == b"last"
        # More than a record, and the end.
        data = os.urandom(50000)
        p.client.sendall(data)
        ends = threading.Thread(target=p.client.unwrap)
        ends.start()
        pending(sock, len(data))
        assert sock.recv(30000, socket.MSG_PEEK) == data[:len(sock.recv(30000, socket.MSG_PEEK))]
        assert receive(sock, len(data)) == data
        assert sock.recv(1, socket.MSG_PEEK) == b"" == sock.recv(1)
        sock.shutdown(socket.SHUT_WR)
        ends.join(PATIENCE)


@claim
def what_was_only_looked_at_moves():
    for looks in (3,), (4000,), (3, 4000, 3):
        with handed() as (c, _, client, server, listener):
            for size in looks:
                assert server.recv(size, socket.MSG_PEEK) == GET[:size]
            with in_be(c.be[0], Move, 50) as move:
                move.node(c.be[0].id["be2"])
                move.give(CONN, server)
                there = accept(listener)
            assert receive(there, len(GET)) == GET
            both_ways(there, client)
            there.close()


@claim
def it_goes_back_to_the_front_end():
    for port in 443, 8443:
        with handed(port=port) as (c, front, client, server, _):
            be1 = c.be[0]
            assert server.recv(1, socket.MSG_PEEK) == GET[:1]
            with in_be(be1, Move, 50) as move:
                move.node(be1.id["fe"])
                move.give(CONN, server)
                there = accept(front.listener)
            assert receive(there, len(GET)) == GET
            both_ways(there, client)
            there.close()
            assert read_all(client) == b""


def only(port, version=0):
    """A struct flt_tls of nothing else."""
    return struct.pack("=HHHH", version, 0, port, 0) + bytes(104)


def refused(code, device, sock, node, raw):
    try:
        tls.submit(device, sock, node, None, raw=raw)
        raise AssertionError("accepted")
    except Refused as error:
        assert error.errno == code, error


def gone(device, sock, node, raw=only(8443), cookie=1):
    """Not while the node that it came by has not said that it forwards it here."""
    try:
        tls.submit(device, sock, node, None, raw=raw, cookie=cookie) if cookie > 1 else device.submit(sock, node)
        return True
    except Refused as error:
        assert error.errno == errno.EBUSY, error


@claim
def from_the_front_end_it_goes_to_the_listener_of_the_port_that_is_named():
    with handed(port=8443) as (c, front, client, server, _):
        for turn in range(6):
            at, to = c.be[turn % 2], c.be[(turn + 1) % 2]
            device = at.handoff()
            assert server.recv(len(GET), socket.MSG_PEEK) == GET
            wait(lambda: gone(device, server, at.id["fe"]))
            there = accept(front.listener)
            assert device.event()[0] == DONE
            device.close()
            server.close()
            assert there.recv(4000, socket.MSG_PEEK) == GET
            for raw in only(0), only(8443, 0x0304), only(8443)[:-1] + b"x":
                refused(errno.EINVAL, front.device, there, c.fe.id[to.name], raw)
            wait(lambda: gone(front.device, there, c.fe.id[to.name], raw=only(8443), cookie=turn + 100))
            server = accept(c.listeners[(turn + 1) % 2])
            front.settled(turn + 100)
            there.close()
            assert receive(server, len(GET)) == GET
            both_ways(server, client)
            client.sendall(GET)
            pending(server, len(GET))
        server.close()
        assert read_all(client) == b""
        # And of one in clear text there is none.
        with c.fe.listen(80) as listener, c.client.connect(80), accept(listener) as plain:
            refused(errno.EINVAL, front.device, plain, c.fe.id["be1"], only(8443))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug three minutes there
"""flotilla migrate policy: every way to read, every kind of listener."""
import os
import select
import socket
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import PATIENCE, VIP4, VIP6, claim, main         # noqa: E402
from policed import Nodes, get, nothing                   # noqa: E402
from ways import CALLS, RINGS, Reader                     # noqa: E402


def read_by(ways):
    """What stays is read whole, of what moves comes the end of file, and before it is decided nothing."""
    with Nodes() as n:
        for way in ways:
            for target in "self", "be2":
                n.policy("hash", target)
                client = n.connect()
                sock = n.accepted()
                reader = Reader(sock, way)
                request = get("/" + way)
                client.sendall(request[:6])
                reader.silent()
                client.sendall(request[6:])
                said = reader.end()
                if target == "self":
                    assert said == b"%d %s" % (len(request), request), (way, said)
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                else:
                    assert said == b"0 ", (way, said)
                    n.answer(n.accepted(1), client, request)
                sock.close()
        assert n.why() == {"stayed": len(ways), "moved": len(ways)}, n.why()


@claim
def calls_read_what_stays_and_the_end_of_what_moves():
    read_by(CALLS)


@claim
def io_uring_reads_what_stays_and_the_end_of_what_moves():
    read_by(RINGS)


@claim
def listeners_of_all_addresses_have_the_policy_of_the_service():
    with Nodes(listening=False) as n:
        for family, address in (4, "0.0.0.0"), (6, "::"):
            with n.be[0].listen(family=family, address=address) as here, \
                    n.be[1].listen(family=family, address=address) as there:
                n.listeners = [here, there]
                n.policy("simple", "be2")
                client = n.connect()
                old = n.accepted()
                client.sendall(get("/"))
                n.moved(old, client, get("/"))
                assert n.why() == {"moved": 1}, n.why()
                n.flotilla("policy", "off", VIP4 + ":80")
        n.listeners = []


@claim
def a_service_of_ipv6_has_policies():
    with Nodes() as n:
        n.client.run("ip", "-6", "route", "add", VIP6 + "/128", "via", n.net.ip6(n.be[0].number))
        for sock in n.listeners:
            sock.close()
        n.listeners = [be.listen(family=6) for be in n.be]
        n.flotilla("policy", "set", "[%s]:80" % VIP6, "simple", "be2")
        client = n.client.connect(family=6)
        n.opened.append(client)
        old = n.accepted()
        nothing(old)
        client.sendall(get("/"))
        n.moved(old, client, get("/"))
        assert n.why() == {"moved": 1}, n.why()


@claim
def what_finds_a_full_queue_is_served_here():
    with Nodes() as n:
        n.listeners.pop().close()
        n.listeners.append(n.be[1].listen(backlog=1))
        n.policy("simple", "be2")
        served = []
        for number in range(4):
            client = n.connect()
            sock = n.accepted()
            request = get("/%d" % number)
            client.sendall(request)
            assert select.select([sock], [], [], PATIENCE)[0]
            if sock.recv(1, socket.MSG_PEEK):
                n.answer(sock, client, request)
                served.append(number)
        assert served == [2, 3], served
        assert n.why() == {"moved": 2, "refused": 2}, n.why()
        assert n.be[0].stat("HandoffRefusedFull") == 2, n.be[0].stats()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""A connection moves with its request; answers go straight to the client."""
import os
import socket
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, FAILED, Cluster, accept, claim, main, peek,      # noqa: E402
                 receive, wait)

REQUEST = b"GET / HTTP/1.0\r\n\r\n"
CLUSTER = None


def cluster():
    """One for all tests: to make it takes the debug kernel longer than to use it."""
    global CLUSTER
    CLUSTER = CLUSTER or Cluster(2)
    return CLUSTER


def live(c):
    """Connections that are forwarded, without those that are over."""
    return [(x["CONN_STATE"], x["CONN_NODE"]) for x in c.fe.conns() if x["CONN_STATE"] != "LINGER"]


def move(c, family=4, size=300000):
    """One connection from accept to close; checks what both sides see."""
    be, fe = c.be[0], c.fe
    dev = fe.handoff()
    front, back = fe.listen(family=family), be.listen(family=family)
    client = c.client.connect(family=family)
    client.sendall(REQUEST)
    here = accept(front)
    peek(here, len(REQUEST))
    dev.submit(here, fe.id["be1"], 7)
    done = dev.expect(DONE, 7)
    assert done[2] == fe.id["be1"] and done[4] > 0
    assert here.recv(100) == b"", "the descriptor reads end of file"
    here.close()
    there = accept(back)
    assert there.getpeername()[:2] == client.getsockname()[:2]
    assert there.getsockname()[:2] == client.getpeername()[:2]
    assert receive(there, len(REQUEST)) == REQUEST
    body = os.urandom(size)
    sender = threading.Thread(target=there.sendall, args=(body,))
    sender.start()
    assert receive(client, size) == body
    sender.join()
    client.sendall(b"more")
    assert receive(there, 4) == b"more"
    assert fe.nl.node("be1")["NODE_LOAD"] == 1
    assert live(c) == [("FORWARD", "be1")]
    there.close()
    assert client.recv(100) == b""
    client.close()
    dev.expect(CLOSED, 7)
    assert fe.nl.node("be1")["NODE_LOAD"] == 0
    dev.close()
    front.close()
    back.close()


@claim
def moves_with_request_and_both_directions_work():
    c = cluster()
    before = c.fe.stats()
    move(c)
    after = c.fe.stats()
    assert after["HandoffDone"] == before["HandoffDone"] + 1, after
    assert after["ForwardPackets"] > before["ForwardPackets"] + 5, after


@claim
def moves_over_ipv6():
    c = cluster()
    move(c, family=6)


@claim
def refusal_gives_the_descriptor_back_and_the_next_node_takes_it():
    c = cluster()
    dev = c.fe.handoff()
    front = c.fe.listen()
    client = c.client.connect()
    client.sendall(REQUEST)
    here = accept(front)
    peek(here, len(REQUEST))
    dev.submit(here, c.fe.id["be1"], 1)
    dev.expect(FAILED, 1, "nolistener")
    back = c.be[1].listen()
    dev.submit(here, c.fe.id["be2"], 2)
    dev.expect(DONE, 2)
    there = accept(back)
    assert receive(there, len(REQUEST)) == REQUEST
    there.sendall(b"answer")
    assert receive(client, 6) == b"answer"
    assert c.fe.stat("HandoffRefusedNoListener") == 1
    for thing in (dev, front, client, here, back, there):
        thing.close()
    wait(lambda: not live(c))


@claim
def client_sees_neither_fin_nor_rst_and_back_end_no_syn():
    c = cluster()
    rules = """table inet t {
        counter syns { }
        counter fins { }
        counter rsts { }
        chain in {
            type filter hook input priority 0
            tcp flags syn tcp dport 80 counter name syns
            tcp flags fin tcp sport 80 counter name fins
            tcp flags rst tcp sport 80 counter name rsts
        }
    }"""
    for node in (c.client, c.be[0]):
        node.run("nft", rules)
    dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
    client = c.client.connect()
    client.sendall(REQUEST)
    here = accept(front)
    peek(here, len(REQUEST))
    dev.submit(here, c.fe.id["be1"])
    dev.expect(DONE)
    here.close()
    there = accept(back)
    there.sendall(b"x" * 1000)
    receive(client, 1000)
    at_be, at_client = (n.output("nft", "list", "counters") for n in (c.be[0], c.client))
    assert at_client.count("packets 0") == 3, at_client
    assert at_be.count("packets 0") == 3, at_be
    wait(lambda: not c.fe.sockets())
    for thing in (dev, front, back, client, there):
        thing.close()
    for node in (c.client, c.be[0]):
        node.run("nft", "delete", "table", "inet", "t")
    wait(lambda: not live(c))


@claim
def answers_do_not_pass_the_front_end():
    c = cluster()

    def octets():
        path = "/sys/class/net/eth0/statistics/%s_bytes"
        return sum(int(c.fe.output("cat", path % x)) for x in ("rx", "tx"))

    before = octets()
    move(c, size=3000000)
    used = octets() - before
    assert used < 600000, used


@claim
def same_four_tuple_again_at_once():
    c = cluster()
    dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
    for i in range(5):
        client = c.client.connect(source=("0.0.0.0", 5555))
        client.sendall(REQUEST)
        here = accept(front)
        peek(here, len(REQUEST))
        dev.submit(here, c.fe.id["be1"], i)
        dev.expect(DONE, i)
        here.close()
        there = accept(back)
        assert receive(there, len(REQUEST)) == REQUEST
        there.sendall(b"%d" % i)
        there.close()           # the server closes first: TIME_WAIT is there
        assert client.recv(10) == b"%d" % i
        assert client.recv(10) == b""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        dev.expect(CLOSED, i)


if __name__ == "__main__":
    main()

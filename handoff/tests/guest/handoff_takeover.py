#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both minutes on either kernel
"""The front-end dies, a standby gets its address, and what was handed off goes on."""
import hashlib
import os
import random
import resource
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, PATIENCE, VIP4, VIP6, E, accept, claim, main, receive, rounds, usable,  # noqa: E402
                 wait)
from pair import Conns, Pair, ends, handed_off, is_reset       # noqa: E402
from vrrp import Keepalived, has_address                        # noqa: E402


def sends(sock, data):
    """Slowly, so that it lasts longer than the front-end does."""
    for at in range(0, len(data), 16384):
        sock.sendall(data[at:at + 16384])
        time.sleep(0.02)


@claim
def downloads_go_on_to_the_right_end():
    with Pair() as c:
        conns = Conns(c)
        data = random.Random(1).randbytes(1 << 20)
        pairs = [conns.open(c.be[i % 2]) for i in range(4)]
        threads = [threading.Thread(target=sends, args=(there, data)) for _, there in pairs]
        for thread in threads:
            thread.start()
        heads = [receive(client, 100000) for client, _ in pairs]
        c.dies()
        c.takeover("--prepare")
        c.has_address()
        assert c.taken() == {"be1": 2, "be2": 2}
        for head, (client, _) in zip(heads, pairs):
            whole = head + receive(client, len(data) - len(head))
            assert hashlib.sha256(whole).digest() == hashlib.sha256(data).digest()
        for thread in threads:
            thread.join()
        for client, there in pairs:
            usable(there, client)
        assert c.fe2.stat("ForwardEntries") == c.fe2.stat("TakeoverTaken") == 4
        assert sum(be.stat("SuccessorGiven") for be in c.be) == 4 and c.fe2.stat("ForwardResets") == 0
        conns.close()


@claim
def entries_are_like_those_of_a_handoff():
    """Load, end, late packets."""
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        pairs = [conns.open(be) for _ in range(2)]
        c.fails_over()
        assert c.taken() == {"be1": 2}
        assert c.fe2.nl.node("be1")["NODE_LOAD"] == 2
        assert [x["CONN_STATE"] for x in c.fe2.conns()] == ["FORWARD"] * 2
        for client, there in pairs:
            usable(there, client)
        ends(*pairs[0])
        wait(lambda: sorted(x["CONN_STATE"] for x in c.fe2.conns()) == ["FORWARD", "LINGER"])
        assert c.fe2.nl.node("be1")["NODE_LOAD"] == 1
        usable(pairs[1][1], pairs[1][0])
        conns.close()


@claim
def taken_over_and_idle_it_is_reset_when_its_node_dies():
    """The client has sent nothing to the new front-end, which knows its sequence numbers all the same."""
    with handed_off(grace_ms=0) as (c, _, _, client, there):
        there.sendall(b"begin")
        assert receive(client, 5) == b"begin"
        c.fails_over()
        with c.net.sysfs(c.fe2.ns, "links/grace_ms", "w") as file:
            file.write("0")
        assert c.taken() == {"be1": 1}
        c.fe2.nl.do("NODE_DEL", node_name="be1")
        client.settimeout(PATIENCE)
        try:
            assert client.recv(1) and False, "no reset"
        except ConnectionResetError:
            pass


@claim
def packets_are_held_back_until_it_is_known():
    with handed_off() as (c, _, _, client, there):
        c.takeover("--prepare")
        c.fails_over()
        client.sendall(b"held")
        wait(lambda: c.fe2.stat("TakeoverHeld") >= 1)
        # Others begin anew meanwhile.
        fresh = c.fe2.listen()
        other = c.client.connect()
        served, _ = fresh.accept()
        usable(served, other)
        assert c.taken() == {"be1": 1}
        assert receive(there, 4) == b"held"
        usable(there, client)
        usable(served, other)
        for sock in (other, served, fresh):
            sock.close()


@claim
def holding_back_ends_by_itself():
    with handed_off() as (c, _, _, client, _):
        c.fe2.sysctl("net.flotilla.takeover_hold_ms", 500)
        c.takeover("--prepare")
        c.dies()
        time.sleep(1)           # counts from the first packet only
        c.has_address()
        client.sendall(b"x")
        wait(lambda: c.fe2.stat("TakeoverHeld") >= 1)
        assert is_reset(client)
        c.takeover("--prepare")
        assert c.takeover("--release")[0] == 0
        status, _, said = c.takeover("--release")
        assert status == 1 and "not prepared" in said


@claim
def both_have_the_address_and_nobody_is_reset():
    with handed_off() as (c, conns, be, client, there):
        c.has_address()
        for _ in range(3):
            assert c.taken() == {"be1": 1} and c.fe2.stat("ForwardEntries") == 1
            for node in (c.fe, c.fe2, c.fe):
                c.turn(node)
                usable(there, client)
        # Each takes it from the other, as often as it likes.
        for _ in range(3):
            assert c.taken(node=c.fe) == {"be1": 1} and c.taken() == {"be1": 1}
        assert [x["CONN_STATE"] for node in (c.fe, c.fe2) for x in node.conns()] == ["FORWARD"] * 2
        assert be.stat("AdoptRelayed") == 1
        # Links that blink take nothing from either.
        for front in (c.fe, c.fe2):
            before = front.nl.stat("LinkUp")
            front.output("ss", "-K", "( sport = :7471 or dport = :7471 )")
            wait(lambda front=front, before=before: front.nl.stat("LinkUp") > before)
            time.sleep(1)
        for node in (c.fe, c.fe2):
            c.turn(node)
            usable(there, client)
        ends(client, there)
        conns.dev.expect(CLOSED)
        wait(lambda: [x["CONN_STATE"] for x in c.fe2.conns()] == ["LINGER"])
        assert c.fe.stat("ForwardResets") == c.fe2.stat("ForwardResets") == 0
        wait(lambda: be.stat("AdoptRelayed") == be.stat("AdoptLive") == 0)


@claim
def restarted_front_end_asks_for_what_it_had():
    with handed_off() as (c, _, _, client, there):
        c.fails_over()
        assert c.taken() == {"be1": 1}
        usable(there, client)
        c.restarts()
        c.takeover("--prepare")
        c.has_address()
        client.sendall(b"held")
        assert c.taken() == {"be1": 1} and c.fe2.stat("ForwardEntries") == 1
        assert receive(there, 4) == b"held"
        usable(there, client)
        ends(client, there)
        wait(lambda: [x["CONN_STATE"] for x in c.fe2.conns()] == ["LINGER"])


def gives(sock, node, target, listener):
    """Its node gives a connection to another: the socket there."""
    dev = node.handoff()
    while True:
        dev.submit(sock, node.id[target], 1, timeout_ms=60000)
        kind, _, _, refusal, _ = dev.event()
        if kind == DONE:
            break
        assert refusal == "changed", refusal
    sock.close()
    dev.close()
    return accept(listener)


@claim
def taken_over_it_is_handed_on_and_back():
    with Pair(2) as c:
        conns, (be1, be2) = Conns(c), c.be
        for a, b in ((be1, be2), (be2, be1)):
            c.list(a, b)
            a.nl.do("NODE_SET", node_name=b.name, node_role=E["FLT_ROLE_FRONTEND"])
        wait(lambda: be1.nl.node("be2")["NODE_STATE"] == E["FLT_NODE_UP"])
        client, there = conns.open(be1)
        c.fails_over()
        assert c.taken() == {"be1": 1, "be2": 0}
        usable(there, client)
        there = gives(there, be1, "be2", conns.back["be2"])
        usable(there, client)
        # From there to where it comes in, and out again.
        here = c.fe2.listen()
        there = gives(there, be2, "be1", conns.back["be1"])
        usable(there, client)
        there = gives(there, be1, "fe2", here)
        usable(there, client)
        # be2 takes it from fe2 when it has heard that it is over where it had given it.
        wait(lambda: not [x for node in (c.fe2, be2) for x in node.conns() if x["CONN_STATE"] != "LINGER"])
        there = gives(there, c.fe2, "be2", conns.back["be2"])
        usable(there, client)
        wait(lambda: [x["CONN_NODE"] for x in c.fe2.conns()] == ["be2"])
        ends(client, there)
        wait(lambda: all(node.stat("AdoptLive") == 0 for node in c.be))
        here.close()
        conns.close()


@claim
def the_same_over_ipv6():
    with handed_off(family=6) as (c, _, _, client, there):
        usable(there, client)
        c.takeover("--prepare", address=VIP6)
        c.fails_over()
        client.sendall(b"held")
        wait(lambda: c.fe2.stat("TakeoverHeld") >= 1)
        assert c.taken(address="[%s]:80" % VIP6) == {"be1": 1}
        assert c.takeover("--release", address=VIP6)[0] == 0
        assert receive(there, 4) == b"held"
        usable(there, client)


@claim
def keepalived_moves_the_address_and_nobody_is_reset():
    with Pair() as c:
        data = random.Random(2).randbytes(4 << 20)
        c.fe.run("ip", "addr", "del", VIP4 + "/24", "dev", "eth0")
        first = Keepalived(c.fe, "keepalived.conf", [("10.0.0.80", VIP4)])
        wait(lambda: has_address(c.fe, VIP4))
        second = Keepalived(c.fe2, "keepalived.conf", [("10.0.0.80", VIP4), ("priority 150", "priority 100")])
        wait(lambda: "BACKUP" in second.said())
        conns = Conns(c)
        pairs = [conns.open(c.be[i % 2]) for i in range(4)]
        threads = [threading.Thread(target=sends, args=(there, data)) for _, there in pairs]
        for thread in threads:
            thread.start()
        heads = [receive(client, 100000) for client, _ in pairs]
        c.dies()
        wait(lambda: has_address(c.fe2, VIP4))
        wait(lambda: c.fe2.stat("TakeoverTaken") == 4)
        for head, (client, _) in zip(heads, pairs):
            assert head + receive(client, len(data) - len(head)) == data
        for thread in threads:
            thread.join()
        for client, there in pairs:
            usable(there, client)
        assert c.fe2.stat("ForwardResets") == 0
        print("# %d packets held back" % c.fe2.stat("TakeoverHeld"), flush=True)
        # The first comes back, and leaves the address where it is.
        c.fe.run("ip", "link", "set", "eth0", "up")
        time.sleep(5)
        assert has_address(c.fe2, VIP4) and not has_address(c.fe, VIP4)
        for client, there in pairs:
            usable(there, client)
        for daemon in (first, second):
            daemon.stop()
        conns.close()


@claim
def pages_of_many():
    many = rounds(1200, 700)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    with Pair(2) as c:
        c.fe.sysctl("net.flotilla.adopt_pending_max", 4096)
        conns = Conns(c)
        for _ in range(many):
            conns.open(c.be[0], read=False)
        client, there = conns.open(c.be[1])
        c.fails_over()
        begin = time.monotonic()
        assert c.taken() == {"be1": many, "be2": 1}
        print("# %d taken over in %.1f s" % (many + 1, time.monotonic() - begin), flush=True)
        usable(there, client)
        assert c.fe2.nl.node("be1")["NODE_LOAD"] == many
        for client, there in conns.all[:many:50]:
            assert receive(there, 3) == b"GET"
            usable(there, client)
        assert c.fe2.stat("ForwardResets") == 0
        conns.close()


if __name__ == "__main__":
    main()

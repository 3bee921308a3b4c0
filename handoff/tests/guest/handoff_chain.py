#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both minutes on either kernel
"""A connection that is handed on is forwarded straight to who has it, and nobody in between has a part in it."""
import hashlib
import os
import random
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, PATIENCE, SLOW, WANT_IDLE, E, acknowledged, claim, main, receive, rounds, run,  # noqa: E402
                 stalled, wait)
from chain import Chain, Wanderer                               # noqa: E402


def only_by(c, node):
    """What the others between the front-end and `node` do or do not is nothing to the connection."""
    for be in c.be:
        if be is not node:
            be.run("ip", "link", "set", "eth0", "down")


@claim
def three_hops_and_the_front_end_forwards_straight():
    three_hops(4)


@claim
def three_hops_over_ipv6():
    three_hops(6)


def three_hops(family):
    with Chain(3) as c:
        w = Wanderer(c, family)
        w.go(*c.be)
        w.begins()
        c.straight(c.be[2])
        assert c.fe.stat("OriginGranted") == 2 and c.fe.stat("HandoffDone") == 1
        assert [c.fe.nl.node(be.name)["NODE_LOAD"] for be in c.be] == [0, 0, 1]
        only_by(c, c.be[2])
        w.works()
        # Its end is heard of where it came in.
        w.ends()
        w.devices["fe"].expect(CLOSED, 1)
        assert c.fe.nl.node("be3")["NODE_LOAD"] == 0
        w.close()


@claim
def back_where_it_came_in_nothing_is_left_of_it():
    with Chain(2) as c:
        w = Wanderer(c)
        for _ in range(2):
            # be2 is told in its own time that what it gave back has gone on from there.
            w.go(c.be[0], c.be[1], again=("changed", "role"))
            c.straight(c.be[1])
            w.go(c.fe)
            wait(lambda: c.forwards(c.fe) == [])
        w.begins()
        only_by(c, c.fe)
        w.works()
        w.close()


@claim
def who_has_handed_it_on_hears_that_it_is_over_for_him():
    with Chain(2) as c:
        w = Wanderer(c)
        w.go(*c.be)
        w.devices["be1"].expect(CLOSED, 2)
        w.devices["fe"].no_event()
        w.begins()
        w.close()


@claim
def straight_back_before_the_entry_node_has_answered():
    """be1, be2, be1: what be2 has claimed comes to be granted while be1 has it."""
    with Chain(2) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 500)
        w = Wanderer(c)
        w.go(c.be[0])
        c.impatient()
        with stalled("hof_origin_claims", 15 * SLOW):
            w.go(c.be[1], c.be[0])
            assert c.fe.stat("OriginGranted") == 0 and c.be[1].stat("ClaimPending") == 1
            w.begins()
            wait(lambda: c.fe.stat("OriginGranted") == 1)
        wait(lambda: c.be[1].stat("ClaimPending") == 0)
        w.works()
        # Longer than what is over is remembered.
        time.sleep(3)
        w.works()
        w.devices["fe"].no_event()
        w.ends()
        w.devices["fe"].expect(CLOSED, 1)
        wait(lambda: c.be[0].stat("AdoptRelayed") == c.be[1].stat("AdoptRelayed") == 0)
        w.close()


@claim
def back_where_it_came_in_before_that_has_answered_and_out_again():
    """be1 gives back what it had back from be2, whose claim waits: its packets do not come by be1."""
    with Chain(3) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 500)
        w = Wanderer(c)
        w.go(c.be[0])
        c.impatient()
        with stalled("hof_origin_claims", 15 * SLOW):
            w.go(c.be[1], c.be[0], c.fe)
            assert c.be[1].stat("ClaimPending") == 1
        w.go(c.be[2])
        w.begins()
        wait(lambda: not any(be.stat("ClaimPending") for be in c.be))
        # Longer than what is over is remembered.
        time.sleep(3)
        w.works()
        w.ends()
        w.devices["fe"].expect(CLOSED, w.number)
        w.close()


@claim
def handed_on_again_before_the_entry_node_has_answered():
    """be3 is not told to claim it where be2 has it from: once it is be2's at the front-end nobody forwards there."""
    with Chain(3) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 500)
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1], c.be[2])
        w.begins()
        assert c.be[1].stat("ClaimPending") == 1
        c.mend(c.fe)
        wait(lambda: c.be[1].stat("ClaimPending") == 0)
        # Longer than what is over is remembered.
        time.sleep(2)
        w.works()
        assert c.forwards(c.fe) == ["be2"]
        w.close()


@claim
def back_and_out_again_without_an_answer_its_packets_come_as_before():
    """be1 has it back from be2, by which no packet comes, and be3 is not told to claim it there."""
    with Chain(3) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 500)
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1], c.be[0], c.be[2])
        w.begins()
        time.sleep(2)
        w.works()
        w.close()


@claim
def what_it_was_before_it_came_back_is_not_told_any_more():
    """be1 has not said yet that it was idle when it is handed on, comes back and is claimed."""
    with Chain(2) as c:
        w = Wanderer(c)
        w.devices["fe"].submit(w.sock, c.fe.id["be1"], w.number, flags=WANT_IDLE)
        assert w.outcome() == "none"
        w.arrives(c.be[0])
        with stalled("hof_life_tell", 10 * SLOW):
            w.begins()
            time.sleep(SLOW)
            w.go(c.be[1], c.be[0])
            wait(lambda: c.fe.stat("OriginGranted") == 2 and not c.be[0].stat("ClaimPending"))
            assert c.be[0].stat("AdoptRelayed") == 0
        c.straight(c.be[0])
        w.works()
        w.close()


@claim
def to_and_fro_without_an_answer_nothing_piles_up():
    with Chain(2) as c:
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        c.cut(c.fe, c.be[0])
        for _ in range(rounds(12, 6)):
            w.go(c.be[1], c.be[0])
        assert c.be[0].stat("AdoptRelayed") <= 2 and c.be[1].stat("AdoptRelayed") <= 2, \
            [be.stat("AdoptRelayed") for be in c.be]
        w.begins()
        c.mend(c.fe)
        w.works()
        w.close()
        wait(lambda: c.be[0].stat("AdoptRelayed") == c.be[1].stat("AdoptRelayed") == 0)


class Load:
    """Both ends of a connection send all the time; what comes is compared by its hash."""

    def __init__(self, client, up, down, seed):
        source = random.Random(seed)
        self.client, self.up, self.down = client, source.randbytes(up), source.randbytes(down)
        self.got, self.error = hashlib.sha256(), None
        self.threads = [threading.Thread(target=self.run, args=(part,), daemon=True)
                        for part in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def run(self, part):
        try:
            part()
        except OSError as error:
            self.error = error

    def send(self):
        self.client.sendall(self.up)

    def receive(self):
        left = len(self.down)
        while left:
            part = self.client.recv(min(left, 65536))
            if not part:
                raise ConnectionError("end of file, %d bytes are missing" % left)
            self.got.update(part)
            left -= len(part)

    def check(self):
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not self.error, self.error
        assert not any(thread.is_alive() for thread in self.threads), "it stands still"
        assert self.got.digest() == hashlib.sha256(self.down).digest(), "another answer"


@claim
def under_load_both_ways_no_byte_is_lost_or_doubled():
    """From node to node while the client sends and receives; each hop leaves some of both for the next."""
    hops, seed = rounds(24, 8), 5
    with Chain(3) as c:
        w = Wanderer(c, request=b"GET")
        assert receive(w.sock, 3) == b"GET"
        load = Load(w.client, 900000, 900000, seed)     # all of it fits into a checkpoint
        choose, sent, got = random.Random(seed), 0, b""
        for hop in range(hops):
            w.sock.settimeout(PATIENCE)
            got += receive(w.sock, min(choose.randrange(1, 60000), len(load.up) - len(got)))
            w.sock.setblocking(False)
            end = min(sent + choose.randrange(1, 60000), len(load.down))
            try:
                sent += w.sock.send(load.down[sent:end])
            except BlockingIOError:
                pass
            # Who gave it to another has it from that one, or when the claim is through.
            target = choose.choice([node for node in c.nodes if node is not w.at])
            w.go(target, again=("changed", "role"))
        w.sock.settimeout(PATIENCE)
        writer = threading.Thread(target=w.sock.sendall, args=(load.down[sent:],), daemon=True)
        writer.start()
        got += receive(w.sock, len(load.up) - len(got))
        writer.join(PATIENCE)
        load.check()
        assert hashlib.sha256(got).digest() == hashlib.sha256(load.up).digest(), "another request"
        print("# %d hops, %d claims granted" % (hops, c.fe.stat("OriginGranted")), flush=True)
        w.close()
        wait(lambda: not any(node.stat("AdoptRelayed") or node.stat("ClaimPending") for node in c.nodes))


@claim
def without_an_answer_the_chain_lasts_as_long_as_the_connection():
    """Who handed it on goes on forwarding, and tells of the end when that comes, not before."""
    with Chain(2) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 300)
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1])
        w.begins()
        time.sleep(3)
        w.works()
        assert c.forwards(c.fe) == ["be1"] and c.forwards(c.be[0]) == ["be2"]
        w.devices["fe"].no_event()
        w.ends()
        w.devices["fe"].expect(CLOSED, 1)
        wait(lambda: c.be[0].stat("AdoptRelayed") == 0)
        w.close()


@claim
def who_handed_it_on_gives_up_who_has_it_and_the_client_hears_nothing():
    """The packets come straight to be2, and be1 has not heard that when be2 is gone for it."""
    with Chain(2) as c:
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1])
        w.begins()
        # Until be1 has seen the client acknowledge all there is: it would be believed. What be2 hears comes by be1.
        wait(lambda: acknowledged(w.sock))
        c.cut(c.be[0], c.be[1])
        c.mend(c.fe)
        wait(lambda: c.fe.stat("OriginGranted") == 1)
        assert c.forwards(c.be[0]) == ["be2"]
        c.be[0].nl.do("NODE_DEL", node_name="be2")
        wait(lambda: c.be[0].stat("HandoffNodeLost") == 1 and c.be[0].stat("AdoptRelayed") == 0)
        w.works()
        time.sleep(SLOW)
        w.devices["fe"].no_event()
        w.works()
        w.close()


@claim
def chain_whose_end_is_gone_is_reset_by_the_node_where_it_came_in():
    with Chain(2) as c:
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1])
        w.begins()
        c.be[0].nl.do("NODE_DEL", node_name="be2")
        w.devices["fe"].expect(CLOSED, 1, "nodedown")
        try:
            assert not w.client.recv(1), "data of nobody"
            raise AssertionError("end of file and no reset")
        except ConnectionResetError:
            pass
        assert c.fe.stat("HandoffNodeLost") == 1
        w.close()


@claim
def lost_claim_is_made_again():
    with Chain(2, heartbeat_ms=1500) as c:
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.fe, c.be[1])
        w.go(c.be[1])
        w.begins()
        wait(lambda: c.be[1].nl.node("fe")["NODE_STATE"] != E["FLT_NODE_UP"])
        assert c.fe.stat("OriginClaims") == 0 and c.be[1].stat("ClaimPending") == 1
        w.works()
        c.mend(c.fe)
        c.straight(c.be[1])
        only_by(c, c.be[1])
        w.works()
        w.close()


@claim
def lost_answer_is_given_again():
    """The front-end forwards straight and be2 has not heard: it does not miss it in what be2 names."""
    with Chain(2) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 300)
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.be[1], c.fe)
        w.go(c.be[1])
        w.begins()
        wait(lambda: c.fe.stat("OriginGranted") == 1)
        c.break_link(c.be[1], c.fe)
        wait(lambda: c.be[1].nl.node("fe")["NODE_STATE"] != E["FLT_NODE_UP"])
        assert c.be[1].stat("ClaimGranted") == 0
        w.works()
        # Over the new link be2 has named all that it has before it hears that this is the front-end's.
        with stalled("hof_claim_answer", 3 * SLOW) as stands:
            c.mend(c.be[1])
            wait(stands)
        c.straight(c.be[1])
        assert c.fe.stat("OriginGranted") == 1 and c.fe.stat("OriginClaims") > 1
        time.sleep(2)
        w.works()
        w.ends()
        w.devices["fe"].expect(CLOSED, 1)
        w.close()


@claim
def ended_before_the_answer_came_its_end_is_told():
    with Chain(2) as c:
        w = Wanderer(c)
        w.go(c.be[0])
        c.cut(c.be[1], c.fe)
        w.go(c.be[1])
        w.begins()
        wait(lambda: c.fe.stat("OriginGranted") == 1)
        c.break_link(c.be[1], c.fe)
        w.ends()
        wait(lambda: c.be[0].stat("AdoptRelayed") == 0)
        w.devices["fe"].no_event()
        c.mend(c.be[1])
        w.devices["fe"].expect(CLOSED, 1)
        w.close()


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

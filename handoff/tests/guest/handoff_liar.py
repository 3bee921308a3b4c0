#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: both minutes on either kernel
"""Whatever a listed node says of connections that are handed on, it gets none of others and holds nobody up."""
import os
import socket
import struct
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import CLOSED, IDLE, SLOW, TOP, WANT_IDLE, E, accept, claim, main, run, stalled, wait  # noqa: E402
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from fakeagent import FakeAgent                                 # noqa: E402
from chain import IS_BACK, NEW, OLD, Chain, Other, Wanderer, addresses, at_other, meets     # noqa: E402
from mallory import HEAD, LIFE, NAK, RECORD, forge              # noqa: E402

NONE, BUSY, ROLE = 0, E["FLT_REFUSE_BUSY"], E["FLT_REFUSE_ROLE"]
CLAIMS_MAX = 1024       # HOF_CLAIMS_MAX


class Crowd:
    """A program hands connections of made-up clients on to be1; another one is their origin, if it says so."""

    def __init__(self, c):
        self.c, self.be, self.socks = c, c.be[0], []
        self.origin, self.middle = meets(c, c.fe, self.be), Other(c, "middle", 8)
        self.line = self.middle.meet(self.be, instance=78)
        self.w = Wanderer(c)
        self.w.submit("mallory")
        self.wire = self.origin.refuses(self.origin.lines["fe"])
        self.own = self.w.client.getsockname()[0]
        self.be.run("ip", "route", "add", "10.9.16.0/20", "dev", "eth0")

    def made_up(self, number):
        return forge(self.wire, self.own, "10.9.%d.%d" % divmod(20 * 256 + number, 256))

    def hands_on(self, origin=(1, 77, 5), name=b"mallory", proof=99, flags=0, meanwhile=None):
        ident = self.middle.offers(self.line, self.made_up(len(self.socks)), origin, name, flags)
        if meanwhile:
            meanwhile()
        self.middle.commits(self.line, ident, proof)
        self.socks.append(accept(self.w.listeners["be1"]))

    def sent(self):
        """How many claims, when all that it said has been heard."""
        self.middle.aborts(self.line, self.middle.offers(self.line, self.made_up(len(self.socks))))
        return self.be.stat("ClaimSent")

    def another(self):
        """The origin is started again."""
        self.origin.lines["be1"].sock.close()
        self.origin.greet(self.be, 79, NEW)

    def close(self):
        for sock in self.socks:
            sock.close()
        self.middle.close()
        self.origin.close()
        self.w.close()


@claim
def what_is_named_wrongly_is_not_claimed():
    with Chain(1) as c:
        crowd, old = Crowd(c), Other(c, "old", 7)
        old.meet(c.be[0], features=OLD, instance=76)
        crowd.hands_on((1, 78, 5), b"middle")           # whose it is itself
        crowd.hands_on((1, 76, 5), b"mallory")          # it was that once, or another is
        crowd.hands_on((1, 76, 5), b"old")              # it knows nothing of claims
        crowd.hands_on((1, 77, 5), b"nobody")
        crowd.hands_on((1, 77, 5), b"m" * 32)           # no end
        crowd.hands_on((1, 0, 5), b"mallory")
        crowd.hands_on(proof=None)
        crowd.hands_on(flags=IS_BACK)                   # its packets come by somebody else
        crowd.hands_on(meanwhile=crowd.another)
        assert crowd.sent() == 0
        crowd.hands_on((1, 79, 5))
        assert crowd.sent() == 1, "rightly"
        crowd.hands_on((1, 79, 5), meanwhile=lambda: c.be[0].nl.do("NODE_DEL", node_name="mallory"))
        assert crowd.sent() == 1, "it has left"
        old.close()
        crowd.close()


@claim
def a_target_cannot_say_of_our_socket_or_the_way_what_only_we_know():
    """Of a drain it would have ended the search for another target, or begun it at once again."""
    with Chain(1) as c:
        w, other = Wanderer(c), Other(c)
        other.meet(c.fe)
        for said in ("MPTCP", "CHANGED", "BUSY", "NODEDOWN", "TIMEOUT", "ABORTED", "FULL", "KTLS"):
            w.submit("mallory")
            other.take(c.fe, E["FLT_REFUSE_" + said])
            assert w.outcome() == (said.lower() if said in ("FULL", "KTLS") else "malformed"), said
        w.go(c.be[0])
        w.begins()
        other.close()
        w.close()


@claim
def an_origin_that_does_not_answer_keeps_no_more_claims_than_it_may():
    """Of connections that are over, too: somebody waits to hear of each end."""
    with Chain(1) as c:
        be, crowd, third = c.be[0], Crowd(c), Other(c, "third", 7)
        third.meet(be, instance=79)
        be.sysctl("net.flotilla.adopt_query_ms", 60000)
        for _ in range(CLAIMS_MAX + 1):
            crowd.hands_on()
            crowd.socks[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            crowd.socks[-1].close()
        assert crowd.sent() == be.stat("ClaimPending") == CLAIMS_MAX
        crowd.hands_on((1, 79, 5), b"third")
        assert crowd.sent() == be.stat("ClaimPending") == CLAIMS_MAX + 1, "another's"
        be.nl.do("NODE_DEL", node_name="mallory")
        wait(lambda: be.stat("ClaimPending") == 1)
        third.close()
        crowd.close()


@claim
def origin_over_a_link_without_authentication_is_not_asked():
    with Chain(2) as c:
        be1, be2 = c.be
        agents = [FakeAgent(node.ns) for node in c.be]
        try:
            for node, other in ((be1, be2), (be2, be1)):
                node.nl.do("NODE_SET", node_name=other.name, node_auth=E["FLT_AUTH_X509"])
            wait(lambda: be1.nl.node("be2")["NODE_PROVEN"] and be2.nl.node("be1")["NODE_PROVEN"])
            be2.nl.do("LOCAL_SET", local_insecure=0)
            w = Wanderer(c)
            w.go(be1, be2)
            w.begins()
            assert be2.stat("ClaimSent") == 0 and c.forwards(c.fe) == ["be1"] and c.forwards(be1) == ["be2"]
            w.close()
        finally:
            for agent in agents:
                agent.stop()


@claim
def claim_of_what_is_being_given_back_is_not_decided():
    with Chain(1) as c:
        other = meets(c, c.fe)
        w = Wanderer(c)
        ident, (voucher, _, _), wire, _ = at_other(c, w, other)
        line = other.lines["fe"]
        number = other.offers(line, wire)
        assert other.claims(line, ident, addresses(w.client), 1, voucher)[0] == BUSY
        other.aborts(line, number)
        assert other.claims(line, ident, addresses(w.client), 1, voucher)[0] == NONE
        other.close()
        w.close()


def claims_and_meanwhile(c, meanwhile):
    """be1 hands on to the program, whose claim is not decided before something has happened: then it is not granted."""
    other = meets(c, c.fe, c.be[0])
    w = Wanderer(c)
    w.go(c.be[0])
    w.submit("mallory")
    number, (_, _, ident), wire, proof = other.takes(other.lines["be1"])
    assert w.outcome() == "none"
    with stalled("hof_peer_get", 10 * SLOW) as stands:
        other.says_claim(other.lines["fe"], ident, addresses(w.client), 4711, proof)
        wait(stands)
        stands.ends()
        meanwhile(w, other, number, wire)
        assert c.fe.stat("OriginClaims") == 1
        assert other.granted(other.lines["fe"], 4711)[0] == BUSY
    assert c.fe.stat("OriginGranted") == 0
    return w, other


@claim
def ended_while_it_is_claimed_it_is_over():
    def ends(w, other, number, _):
        other.lines["be1"].send(LIFE, RECORD.pack(number, 4, 0, *addresses(w.client)))
        w.devices["fe"].expect(CLOSED, 1)
    with Chain(1) as c:
        w, other = claims_and_meanwhile(c, ends)
        assert [c.fe.nl.node(name)["NODE_LOAD"] for name in ("be1", "mallory")] == [0, 0]
        other.close()
        w.close()


@claim
def back_and_out_again_while_it_is_claimed_it_is_another():
    """Of the same client, forwarded to the same node; what was to be claimed is over."""
    def goes_round(w, other, _, wire):
        line = other.lines["be1"]
        other.commits(line, other.offers(line, wire, flags=IS_BACK))
        w.arrives(w.c.be[0])
        w.go(w.c.fe, w.c.be[0])
    with Chain(1) as c:
        w, other = claims_and_meanwhile(c, goes_round)
        assert c.forwards(c.fe) == ["be1"]
        w.begins()
        other.close()
        w.close()


@claim
def who_gives_back_what_he_has_handed_on_does_not_take_it_from_who_claimed_it():
    """The front-end looks who it is forwarded to, and before it takes it that is another."""
    with Chain(1) as c:
        be = c.be[0]
        other = meets(c, c.fe, be)
        w = Wanderer(c)
        ident, (voucher, _, _), wire, _ = at_other(c, w, other)
        to_fe, to_be = other.lines["fe"], other.lines["be1"]
        number = other.offers(to_be, wire, (1, to_fe.instance, ident))
        with stalled("flt_endpoint_adopt", 15 * SLOW) as stands:
            back = other.says(to_fe, wire)
            wait(stands)
            other.commits(to_be, number, voucher)
            wait(lambda: c.fe.stat("OriginGranted") == 1)
        assert HEAD.unpack(to_fe.await_kind(NAK)[1])[:2] == (back, ROLE)
        w.arrives(be)
        w.begins()
        assert c.forwards(c.fe) == ["be1"]
        other.close()
        w.close()


@claim
def commit_that_was_lost_is_said_again_with_its_proof():
    with Chain(1) as c:
        be = c.be[0]
        other = meets(c, be)
        w = Wanderer(c)
        w.go(be)
        w.submit("mallory")
        ident, _, _, proof = other.takes(other.lines["be1"])
        assert w.outcome() == "none" and proof
        other.lines["be1"].sock.close()
        line = other.greet(be, features=NEW)
        other.held(line, ident, addresses(w.client), pending=True)
        assert other.proof(line) == proof
        other.close()
        w.close()


@claim
def idle_is_told_to_who_wants_it_once_it_is_forwarded_straight():
    """What be1 has been told is told to the front-end again; what only be1 wants to know is told to nobody."""
    with Chain(2) as c:
        for flags in (WANT_IDLE, 0):
            w = Wanderer(c)
            w.devices["fe"].submit(w.sock, c.fe.id["be1"], 1, flags=flags)
            w.number = 1
            assert w.outcome() == "none"
            w.arrives(c.be[0])
            granted = c.fe.stat("OriginGranted")
            with stalled("hof_origin_claims", 15 * SLOW):
                w.devices["be1"].submit(w.sock, c.be[0].id["be2"], 1, flags=WANT_IDLE)
                assert w.outcome() == "none"
                w.arrives(c.be[1])
                w.begins()
                w.devices["be1"].expect(IDLE, 1)
                assert c.fe.stat("OriginGranted") == granted
            wait(lambda: c.fe.stat("OriginGranted") == granted + 1)
            if flags:
                w.devices["fe"].expect(IDLE, 1)
            w.works()
            if not flags:
                w.devices["fe"].no_event(SLOW)
            w.close()


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

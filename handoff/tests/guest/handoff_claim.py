#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both three minutes, and on the debug kernel it takes a quarter of an hour
"""Only who has a connection is forwarded it; nodes that do not know of claims, or say nothing, harm nobody."""
import os
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, SLOW, WANT_IDLE, E, accept, claim, main, peek, receive, run, stalled,  # noqa: E402
                 wait)
from chain import (CLAIM, NEW, OLD, Chain, Other, Wanderer, addresses, at_other, ended, from_other,  # noqa: E402
                   given_by, meets)
from mallory import HELD, HELD_END, LIFE, RECORD, forge         # noqa: E402

NONE, STATE, BUSY = 0, E["FLT_REFUSE_STATE"], E["FLT_REFUSE_BUSY"]
ROLE, INSECURE = E["FLT_REFUSE_ROLE"], E["FLT_REFUSE_INSECURE"]


@claim
def who_does_not_have_it_claims_in_vain():
    with Chain(2) as c:
        other = meets(c, c.fe)
        line = other.lines["fe"]
        # What it gets with a connection of its own.
        own = Wanderer(c)
        mine, (voucher, _, _), _, _ = at_other(c, own, other)
        for listener in own.listeners.values():
            listener.close()
        w = Wanderer(c)
        w.go(c.be[0])
        w.begins()
        ids = [mine + n for n in range(0, 4)]       # the next handoff of the same node is among them
        for ident in ids:
            for proof in (0, voucher, voucher ^ 1, 1 << 63):
                refusal, granted = other.claims(line, ident, addresses(w.client), 4711, proof)
                assert refusal in (STATE, ROLE) and granted == 0, (ident, refusal)
        assert c.fe.stat("OriginForged") == 4, "one of the ids was right"
        assert c.fe.stat("OriginGranted") == 0
        # It may choose the id of what is its own, and so gets a voucher for each id, but as its owner.
        for ident in ids[1:]:
            refusal, voucher = other.claims(line, mine, addresses(own.client), ident, voucher)
            assert refusal == NONE
            mine = ident
            assert other.claims(line, ident, addresses(w.client), 4711, voucher) in ((STATE, 0), (ROLE, 0))
        assert c.fe.stat("OriginForged") == 5
        assert sorted(c.forwards(c.fe)) == ["be1", "mallory"]
        w.works()
        other.close()
        own.close()
        w.close()


@claim
def who_had_it_cannot_have_it_again():
    """What proved it once, and what was seen of others, is worth nothing afterwards."""
    with Chain(2) as c:
        other = meets(c, c.fe, c.be[0])
        w = Wanderer(c)
        ident, (voucher, instance, _), wire, proof = at_other(c, w, other)
        assert instance == 0 and proof is None
        line = other.lines["be1"]
        number = other.offers(line, wire, (1, other.lines["fe"].instance, ident))
        other.commits(line, number, voucher)
        w.arrives(c.be[0])
        c.straight(c.be[0])
        w.begins()
        assert ended(line) == (number, 0)
        for again in (ident, number):
            refusal, _ = other.claims(other.lines["fe"], again, addresses(w.client), 4711, voucher)
            assert refusal == STATE, refusal
        # It goes on and comes back, and so on: an old proof does not become good again.
        w.go(c.fe)
        w.submit("mallory")
        second, (another, _, _), _, _ = other.takes(other.lines["fe"])
        assert w.outcome() == "none" and another != voucher
        assert other.claims(other.lines["fe"], second, addresses(w.client), 1, voucher)[0] == ROLE
        assert other.claims(other.lines["fe"], second, addresses(w.client), 1, another)[0] == NONE
        other.close()
        w.close()


@claim
def who_says_that_it_is_the_origin_gets_no_proof():
    """A listed node has the instance of the front-end in its HELLO, and comes before it on the list."""
    with Chain(2) as c:
        be = c.be[1]
        other = meets(c, c.fe)
        be.nl.do("NODE_DEL", node_name="fe")
        be.nl.do("NODE_NEW", node_name="mallory", node_addr4=other.ip, node_role=E["FLT_ROLE_BACKEND"])
        other.greet(be, instance=other.lines["fe"].instance, features=NEW)
        c.list(be, c.fe)
        wait(lambda: be.nl.node("fe")["NODE_STATE"] == E["FLT_NODE_UP"])
        w = Wanderer(c)
        w.go(*c.be)
        w.begins()
        c.straight(be)
        other.close()
        w.close()


@claim
def claim_without_authentication_is_refused_unless_the_switch_is_on():
    with Chain(1) as c:
        other = meets(c, c.fe)
        w = Wanderer(c)
        ident, (voucher, _, _), _, _ = at_other(c, w, other)
        c.fe.nl.do("LOCAL_SET", local_insecure=0)
        assert other.claims(other.lines["fe"], ident, addresses(w.client), 1, voucher)[0] == INSECURE
        c.fe.nl.do("LOCAL_SET", local_insecure=1)
        assert other.claims(other.lines["fe"], ident, addresses(w.client), 1, voucher)[0] == NONE
        # Who knows the id that it has since cannot have it said again to himself.
        third = Other(c, "third", 8)
        assert third.claims(third.meet(c.fe), ident, addresses(w.client), 1, 0) == (STATE, 0)
        third.close()
        other.close()
        w.close()


@claim
def made_up_and_handed_on_it_does_not_keep_the_origin_from_giving():
    """A listed node hands on, in the name of the front-end, what it was never given, and lets it wait."""
    with Chain(2) as c:
        be = c.be[0]
        other = meets(c, c.fe, be)
        w = Wanderer(c)
        w.submit("mallory")
        wire = other.refuses(other.lines["fe"])
        assert w.outcome() == "policy"
        line = other.lines["be1"]
        number = other.offers(line, wire, (0, other.lines["fe"].instance, 1))
        third = Other(c, "third", 8)
        third.meet(be)
        assert third.give(be, wire) == "duplicate", "who is not the origin"
        w.go(be)
        w.begins()
        assert be.stat("AdoptEvicted") == 1
        # It decides too late, and hears so.
        other.commits(line, number, 1)
        assert ended(line) == (number, 3)
        w.works()
        third.close()
        other.close()
        w.close()


@claim
def what_a_node_gives_itself_is_not_evicted():
    with Chain(2) as c:
        be = c.be[0]
        other = meets(c, c.fe, be)
        w = Wanderer(c)
        w.submit("mallory")
        wire = other.refuses(other.lines["fe"])
        assert w.outcome() == "policy"
        line = other.lines["be1"]
        number = other.offers(line, wire)
        w.submit("be1")
        assert w.outcome() == "duplicate" and be.stat("AdoptEvicted") == 0
        other.aborts(line, number)
        # Said over another link: it may be heard later than the next offer.
        w.go(be, again=("changed", "duplicate"))
        w.begins()
        other.close()
        w.close()


@claim
def target_that_does_not_know_of_claims_gets_no_origin():
    with Chain(1) as c:
        other = meets(c, c.be[0], features=OLD)
        w = Wanderer(c)
        w.go(c.be[0])
        w.submit("mallory")
        ident, origin, _, proof = other.takes(other.lines["be1"])
        assert w.outcome() == "none" and origin is None and proof is None
        # A chain: what ends there is told to the front-end by who is between.
        assert c.be[0].stat("AdoptRelayed") == 1 and c.forwards(c.fe) == ["be1"]
        other.lines["be1"].send(LIFE, RECORD.pack(ident, 4, 0, *addresses(w.client)))
        w.devices["fe"].expect(CLOSED, 1)
        wait(lambda: c.be[0].stat("AdoptRelayed") == 0)
        other.close()
        w.close()


@claim
def origin_that_does_not_know_of_claims_is_not_named():
    """It gives without a voucher: the next two are a chain."""
    with Chain(2) as c:
        other = meets(c, c.fe, c.be[0], c.be[1], features=OLD)
        w = Wanderer(c)
        number = from_other(c, w, other)
        w.go(c.be[1])
        assert c.be[1].stat("ClaimSent") == 0 and c.be[0].stat("AdoptRelayed") == 1
        w.sock.close()
        assert ended(other.lines["be1"]) == (number, 0)
        wait(lambda: c.be[0].stat("AdoptRelayed") == 0)
        w.close()
        w = Wanderer(c)
        from_other(c, w, other)
        third = Other(c, "third", 8)
        line = third.meet(c.be[0])
        w.submit("third")
        assert third.takes(line)[1][1] == 0
        third.close()
        other.close()
        w.close()


@claim
def who_is_given_it_back_is_told_no_origin_and_no_proof():
    with Chain(1) as c:
        other = meets(c, c.fe, c.be[0])
        w = Wanderer(c)
        from_other(c, w, other, (99, 0, 0))
        w.submit("mallory")
        _, (_, instance, _), _, proof = other.takes(other.lines["be1"])
        assert w.outcome() == "none" and instance == 0 and proof is None
        other.close()
        w.close()


@claim
def back_from_one_that_does_not_know_of_claims_it_goes_straight_from_there():
    """It does not say that it gives back: be1 knows that its packets come by the front-end."""
    with Chain(2) as c:
        other = meets(c, c.be[0], features=OLD)
        w = Wanderer(c)
        w.go(c.be[0])
        w.submit("mallory")
        wire = other.takes(other.lines["be1"])[2]
        assert w.outcome() == "none"
        given_by(c, w, other, wire)
        w.go(c.be[1])
        c.straight(c.be[1])
        w.begins()
        other.close()
        w.close()


@claim
def back_where_it_came_in_from_one_that_does_not_know_of_claims_its_client_is_reset_there():
    with Chain(1) as c:
        other = meets(c, c.fe, features=OLD)
        w = Wanderer(c)
        line, wire = other.lines["fe"], at_other(c, w, other)[2]
        other.commits(line, other.offers(line, wire))
        w.arrives(c.fe)
        w.go(c.be[0])
        w.begins()
        c.fe.nl.do("NODE_DEL", node_name="be1")
        try:
            assert not w.client.recv(1), "data of nobody"
            raise AssertionError("end of file and no reset")
        except ConnectionResetError:
            pass
        other.close()
        w.close()


@claim
def of_what_is_handed_on_nobody_hears_whether_it_is_idle():
    """Not even over a new link, where all is said again."""
    with Chain(2) as c:
        other = meets(c, c.fe, c.be[0], features=OLD)
        w = Wanderer(c)
        number = from_other(c, w, other, flags=WANT_IDLE)
        w.go(c.be[1])
        other.lines["be1"].sock.close()
        line = other.greet(c.be[0], features=OLD)
        assert line.await_kind(LIFE, HELD_END)[0] == HELD_END
        time.sleep(SLOW)
        w.sock.close()
        assert ended(line) == (number, 0)
        other.close()
        w.close()


@claim
def middle_that_does_not_know_of_claims_keeps_the_chain():
    with Chain(1) as c:
        other = meets(c, c.fe, c.be[0], features=OLD)
        w = Wanderer(c)
        ident, origin, wire, _ = at_other(c, w, other)
        assert origin is None
        line = other.lines["be1"]
        number = other.offers(line, wire)
        other.commits(line, number)
        w.arrives(c.be[0])
        peek(w.sock, 3)
        assert c.be[0].stat("ClaimSent") == 0 and c.forwards(c.fe) == ["mallory"]
        w.sock.close()
        assert ended(line) == (number, 0) and ident
        other.close()
        w.close()


class Silent:
    """be1 has what the program gave it, and has handed it on to be2, which claims it from the program."""

    def __init__(self, c):
        self.c = c
        c.impatient()
        c.be[1].sysctl("net.flotilla.adopt_query_ms", 300)
        self.other = meets(c, c.fe, c.be[0], c.be[1])
        self.line = self.other.lines["be2"]
        self.w = Wanderer(c)
        self.number = from_other(c, self.w, self.other, (99, 0, 0))
        self.w.go(c.be[1])
        peek(self.w.sock, 3)
        self.claim = self.other.claimed(self.line)
        assert self.claim[0] == self.number and self.claim[2] == 99

    def close(self):
        self.other.close()
        self.w.close()


@claim
def origin_that_says_nothing_is_asked_again_and_can_say_no():
    with Chain(2) as c:
        s = Silent(c)
        assert s.other.claimed(s.line) == s.claim, "the same once more"
        s.other.grants(s.line, s.claim[1], BUSY)
        assert s.other.claimed(s.line) == s.claim, "it was not decided"
        s.other.grants(s.line, s.claim[1] + 1)      # of nothing
        third = Other(c, "third", 8)
        line = third.meet(c.be[1])
        third.grants(line, s.claim[1])              # it was not asked
        third.claims(line, 1, addresses(s.w.client), 1, 0)
        assert c.be[1].stat("ClaimPending") == 1
        s.other.grants(s.line, s.claim[1], STATE)
        wait(lambda: c.be[1].stat("ClaimPending") == 0)
        assert c.be[1].stat("ClaimRefused") == 1 and c.be[0].stat("AdoptRelayed") == 1
        s.w.sock.close()
        assert ended(s.other.lines["be1"]) == (s.number, 0)
        third.close()
        s.close()


@claim
def granted_it_is_the_origin_that_hears_of_the_end():
    with Chain(2) as c:
        s = Silent(c)
        s.other.grants(s.line, s.claim[1])
        wait(lambda: c.be[1].stat("ClaimGranted") == 1)
        # Who handed it on is out of it, and says so by the name that the origin has forgotten.
        assert ended(s.other.lines["be1"]) == (s.number, 0)
        wait(lambda: not c.forwards(c.be[0]))
        s.w.sock.close()
        assert ended(s.line) == (s.claim[1], 0)
        s.close()


@claim
def before_anything_else_a_claim_is_said_over_a_new_link():
    with Chain(2) as c:
        s = Silent(c)
        c.be[1].sysctl("net.flotilla.adopt_query_ms", 60000)
        time.sleep(1)
        s.line.sock.close()
        s.line = s.other.greet(c.be[1], features=NEW)
        kind, _ = s.line.await_kind(CLAIM, HELD, HELD_END)
        assert kind == CLAIM, kind
        s.close()


@claim
def many_claims_are_all_said_over_a_new_link_before_what_is_held():
    """Those that are said again from time to time come in between, while two messages of them are sent."""
    many = 65
    with Chain(1) as c:
        be = c.be[0]
        origin = meets(c, c.fe, be)
        middle = Other(c, "middle", 8)
        middle.meet(be, instance=78)
        be.sysctl("net.flotilla.adopt_query_ms", 3000 * SLOW)
        w = Wanderer(c)
        w.submit("mallory")
        wire = origin.refuses(origin.lines["fe"])
        own, line = w.client.getsockname()[0], origin.lines["be1"]
        ids, socks = set(), []
        for n in range(many):
            made_up = forge(wire, own, "10.9.0.%d" % (20 + n))
            number = middle.offers(middle.lines["be1"], made_up, (1, 77, n), b"mallory")
            middle.commits(middle.lines["be1"], number, 99)
            socks.append(accept(w.listeners["be1"]))
        while len(ids) < many:
            ids |= {ident for ident, _, _ in origin.claims_in(line.await_kind(CLAIM)[1])}
        with stalled("flt_link_send", 15 * SLOW) as stands:
            line.sock.close()
            line = origin.greet(be, features=NEW)
            wait(stands)
            # Time for the next turn.
            time.sleep(6 * SLOW)
            stands.ends()
            said = set()
            while said != ids:
                kind, body = line.await_kind(CLAIM, HELD, HELD_END)
                assert kind == CLAIM, "%d are missing" % len(ids - said)
                said |= {ident for ident, _, _ in origin.claims_in(body)}
        for sock in socks:
            sock.close()
        middle.close()
        origin.close()
        w.close()


@claim
def given_up_it_keeps_nothing_of_its_origin():
    with Chain(1) as c:
        be = c.be[0]
        other = meets(c, c.fe, be)
        be.sysctl("net.flotilla.adopt_deadline_ms", 1000 * SLOW)
        w = Wanderer(c)
        w.submit("mallory")
        wire = other.refuses(other.lines["fe"])
        with stalled("hof_peer_put", 0, busy=True) as puts:
            number = other.offers(other.lines["be1"], wire, (0, other.lines["fe"].instance, 1))
            wait(lambda: be.stat("AdoptExpired") == 1)
            # One when it was taken; of its claim two.
            wait(lambda: puts() >= 3)
        # It is remembered all the same.
        other.commits(other.lines["be1"], number, 1)
        assert ended(other.lines["be1"]) == (number, 3)
        other.close()
        w.close()


@claim
def origin_that_is_another_one_now_or_leaves_is_not_remembered():
    with Chain(2) as c:
        s = Silent(c)
        s.line.sock.close()
        s.line = s.other.greet(c.be[1], instance=78, features=NEW)
        wait(lambda: c.be[1].stat("ClaimPending") == 0)
        s.w.sock.close()
        s.close()
    with Chain(2) as c:
        s = Silent(c)
        c.be[1].nl.do("NODE_DEL", node_name="mallory")
        wait(lambda: c.be[1].stat("ClaimPending") == 0)
        c.be[0].nl.do("NODE_DEL", node_name="mallory")
        s.w.sock.close()
        wait(lambda: c.be[0].stat("AdoptRelayed") == 0)
        s.close()


def unload():
    begin = time.monotonic()
    run("rmmod", "handoff")
    print("# unloaded in %.1f s" % (time.monotonic() - begin), flush=True)
    assert not os.path.isdir("/sys/module/handoff")


def unloads(stage):
    with Chain(2) as c:
        s = Silent(c)
        stage(c, s)
        for device in s.w.devices.values():
            device.close()
        unload()
        # What be2 has lives on there.
        s.w.sock.sendall(b"answer")
        assert receive(s.w.client, 6) == b"answer"
        close_sockets(s.w, s.other)
    run("modprobe", "handoff")


def close_sockets(w, other):
    other.close()
    for sock in [w.client, w.sock] + list(w.listeners.values()):
        sock.close()


@claim
def claimed_and_not_answered_it_unloads():
    unloads(lambda c, s: None)


@claim
def asked_again_it_unloads():
    unloads(lambda c, s: s.other.claimed(s.line))


@claim
def granted_it_unloads():
    def stage(c, s):
        s.other.grants(s.line, s.claim[1])
        wait(lambda: c.be[1].stat("ClaimGranted") == 1)
    unloads(stage)


@claim
def refused_it_unloads_with_a_chain():
    def stage(c, s):
        s.other.grants(s.line, s.claim[1], STATE)
        wait(lambda: c.be[1].stat("ClaimRefused") == 1)
        assert c.be[0].stat("AdoptRelayed") == 1
    unloads(stage)


@claim
def handed_on_and_not_committed_it_unloads():
    with Chain(2) as c:
        other = meets(c, c.fe, c.be[0])
        w = Wanderer(c)
        w.submit("mallory")
        wire = other.refuses(other.lines["fe"])
        assert w.outcome() == "policy"
        other.offers(other.lines["be1"], wire, (0, other.lines["fe"].instance, 1))
        for device in w.devices.values():
            device.close()
        unload()
        assert not [x for x in c.be[0].sockets() if not x.startswith("TIME-WAIT")]
        w.begins()
        close_sockets(w, other)
    run("modprobe", "handoff")


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

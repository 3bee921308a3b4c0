#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both minutes on either kernel
"""Several ask for the connections of a service address at once: each has what it asks for, whatever the others do."""
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import CLAIM, NEW, TAIL, Other, addresses, ended   # noqa: E402
from hof import SLOW, VIP4, E, claim, main, rounds, stalled, usable, wait   # noqa: E402
from mallory import RECORD                                  # noqa: E402
from pair import TAKEN, TAKEOVER, Conns, Pair, ends, handed_off   # noqa: E402
from relocate import hears                                  # noqa: E402
from relocate import asks as relocate_asks                  # noqa: E402

KNOWS = NEW | E["FLT_FEATURE_TAKEOVER"]
NONE, STATE, FULL = 0, E["FLT_REFUSE_STATE"], E["FLT_REFUSE_TABLEFULL"]
QUESTION, SAID = struct.Struct("!QIHH16s"), struct.Struct("!QIIII")
VIP = socket.inet_aton(VIP4).ljust(16, b"\0")


def asks(line, proof, page=0, port=0):
    """As a front-end: ids of the claims of this question, and (refusal, more, begun)."""
    line.send(TAKEOVER, QUESTION.pack(proof, page, 4, port, VIP))
    found = []
    while True:
        kind, body = line.await_kind(CLAIM, TAKEN)
        if kind == TAKEN:
            said = SAID.unpack(body)
            assert said[:2] == (proof, page), said
            return found, said[2:]
        for at in range(RECORD.size, len(body), RECORD.size + TAIL.size):
            to, of, _, _ = TAIL.unpack_from(body, at)
            if of == proof and to not in found:
                found.append(to)


def given(be, number):
    wait(lambda: be.stat("SuccessorGiven") == number, name="%d are given" % number)


def askers(c, be):
    """Two programs that are front-ends of a node, and their lines."""
    others = Other(c, "one", 9), Other(c, "two", 10)
    return others + tuple(other.meet(be, "FRONTEND", KNOWS) for other in others)


@claim
def who_asks_next_takes_no_claim_away():
    """Both are answered after both have asked; both are givers then, and hear of the end."""
    with handed_off() as (c, _, be, client, there):
        one, two, first, second = askers(c, be)
        (mine,), said = asks(first, 1)
        assert said == (NONE, 1, 1), said
        (its,), said = asks(second, 1)
        assert said == (NONE, 1, 1), said
        one.grants(first, mine)
        given(be, 1)
        two.grants(second, its)
        given(be, 2)
        usable(there, client)
        ends(client, there)
        assert ended(first)[0] == mine and ended(second)[0] == its
        for other in (one, two):
            other.close()


@claim
def who_asks_beside_another_comes_to_an_end():
    """What it has, or has refused, it is not told of again because another has answered meanwhile."""
    with handed_off() as (c, _, be, client, there):
        one, two, first, second = askers(c, be)
        number = 0
        for refusal in (NONE, FULL):
            number += 2
            (mine,), _ = asks(first, number)
            one.grants(first, mine, refusal)
            (its,), _ = asks(second, number)
            two.grants(second, its, refusal)
            wait(lambda: be.stat("ClaimPending") == 0)
            for line in (first, second, first):
                assert asks(line, number, 1) == ([], (NONE, 0, 0))
            # With another question there is all of it again.
            (mine,), said = asks(first, number + 1)
            assert said == (NONE, 1, 1), said
            one.grants(first, mine)
            assert asks(first, number + 1, 1) == ([], (NONE, 0, 0))
        given(be, 4)
        usable(there, client)
        for other in (one, two):
            other.close()


@claim
def who_asks_again_before_it_has_answered_is_not_told_that_there_is_no_more():
    """Its answer was lost, perhaps, with the command that asked."""
    with handed_off() as (c, _, be, client, there):
        one, two, line, _ = askers(c, be)
        (first,), said = asks(line, 1)
        assert said == (NONE, 1, 1), said
        found, said = asks(line, 2)
        if not found:
            assert said == (NONE, 1, 0), "a connection is left out: %r" % (said,)
            one.grants(line, first, STATE)
            found, said = asks(line, 2, 1)
        assert said == (NONE, 1, 1), said
        one.grants(line, found[0])
        given(be, 1)
        assert asks(line, 2, 2) == ([], (NONE, 0, 0))
        usable(there, client)
        for other in (one, two):
            other.close()


@claim
def who_asks_without_end_keeps_nobody_from_having_all():
    """Ever new questions, none answered, beside an honest one; what that has goes on as if it were alone."""
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        many = rounds(200, 50)
        for _ in range(many):
            conns.open(be)
        other = Other(c)
        line = other.meet(be, "FRONTEND", KNOWS)
        stop, number = threading.Event(), [0]

        def floods():
            while not stop.is_set():
                number[0] += 1
                line.send(TAKEOVER, QUESTION.pack(number[0], 0, 4, 0, VIP))
                while select.select([line.sock], [], [], 0)[0]:
                    line.sock.recv(65536)
        thread = threading.Thread(target=floods)
        thread.start()
        try:
            wait(lambda: number[0] > 100)
            c.fails_over()
            begin = time.monotonic()
            assert c.taken("--wait", "30") == {"be1": many}
            print("# %d taken over in %.1f s beside %d questions" % (many, time.monotonic() - begin, number[0]))
            assert be.stat("SuccessorGiven") == many, "what it has been granted is not all its"
        finally:
            stop.set()
            thread.join()
        # The node names all of it to a link that comes up, and tells of the ends.
        before = c.fe2.nl.stat("LinkUp")
        c.fe2.output("ss", "-K", "( sport = :7471 or dport = :7471 )")
        wait(lambda: c.fe2.nl.stat("LinkUp") > before)
        time.sleep(2)
        for client, there in conns.all:
            usable(there, client)
        ends(*conns.all.pop())
        wait(lambda: sorted({x["CONN_STATE"] for x in c.fe2.conns()}) == ["FORWARD", "LINGER"])
        other.close()
        conns.close()


@claim
def pages_are_told_by_turns():
    """Each takes its time, and one who asks without end always has another begun."""
    with handed_off() as (c, _, be, client, there):
        other = Other(c)
        line = other.meet(be, "FRONTEND", KNOWS)
        c.fails_over()
        stop = threading.Event()

        def floods():
            number = 0
            while not stop.is_set():
                number += 1
                for ident in asks(line, number)[0]:
                    other.grants(line, ident, FULL)     # so that the next page has it again
        thread = threading.Thread(target=floods)
        with stalled("flt_service_permit", SLOW) as came:
            thread.start()
            wait(lambda: came() > 2)
            try:
                assert c.taken("--wait", "%d" % (15 * SLOW)) == {"be1": 1}
                assert thread.is_alive(), "nobody was in the way"
            finally:
                stop.set()
                thread.join()
        usable(there, client)
        other.close()


def begins(node, address):
    return node.spawn("flotilla", "-j", "takeover", address, "--wait", "30", stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE)


@claim
def two_front_ends_ask_at_once_and_both_have_all():
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        many = rounds(200, 50)
        for _ in range(many):
            conns.open(be)
        c.has_address()
        for _ in range(5):
            begin = time.monotonic()
            children = [begins(node, VIP4) for node in (c.fe, c.fe2)]
            for child in children:
                out, said = child.communicate(timeout=60)
                assert child.returncode == 0, (out, said)
            print("# %.1f s" % (time.monotonic() - begin), flush=True)
        for node in (c.fe, c.fe2):
            c.turn(node)
            for client, there in conns.all:
                usable(there, client)
        conns.close()


@claim
def services_that_overlap_are_asked_for_one_after_the_other():
    """At one front-end: a connection of both would be told of by turns."""
    with handed_off() as (c, _, be, client, there):
        silent = Other(c)
        line = silent.meet(c.fe2, "BACKEND", KNOWS)
        c.fails_over()
        seen = set()

        def is_asked():
            """By a command of which it has not heard."""
            proof = None
            while proof in seen | {None}:
                proof = QUESTION.unpack(line.await_kind(TAKEOVER)[1])[0]
            seen.add(proof)
        for first, second in ((VIP4, VIP4 + ":80"), (VIP4 + ":80", VIP4)):
            child = begins(c.fe2, first)
            is_asked()
            status, _, said = c.takeover(address=second)
            assert status == 1 and "another command" in said, said
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=60)
        # Others are not in its way.
        child = begins(c.fe2, VIP4 + ":81")
        is_asked()
        silent.leave(c.fe2)
        assert c.taken(address=VIP4 + ":80") == {"be1": 1}
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        usable(there, client)
        silent.close()


@claim
def what_is_granted_is_its_to_have_moved():
    """And no more its that gave it: SECURITY.md. Until it is granted it is not."""
    with Pair(2) as c:
        conns, be = Conns(c), c.be[0]
        client, there = conns.open(be)
        c.list(be, c.be[1])
        one, two, first, second = askers(c, be)
        (mine,), _ = asks(first, 1)
        (its,), _ = asks(second, 1)

        def has_moved(line, ident, run):
            relocate_asks(line, run, records=RECORD.pack(ident, 4, 0, *addresses(client)))
            said = hears(line, run)
            return {name: said[name] for name in ("begun", "absent")}
        assert has_moved(first, mine, 1) == {"begun": 0, "absent": 1}
        one.grants(first, mine)
        given(be, 1)
        two.grants(second, its)
        given(be, 2)
        assert has_moved(first, mine, 2) == {"begun": 0, "absent": 1}
        assert has_moved(second, mine, 3) == {"begun": 0, "absent": 1}
        assert has_moved(second, its, 4) == {"begun": 1, "absent": 0}
        for thing in (one, two, conns):
            thing.close()


if __name__ == "__main__":
    main()

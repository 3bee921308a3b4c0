#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# kernel: debug
# long: debug minutes there
"""One allocation that fails, whichever, in what nodes do for each other costs no client its connection."""
import contextlib
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import Chain, Wanderer                                           # noqa: E402
from given import Given, blinks, ready, up                                  # noqa: E402
from hof import (CLOSED, DONE, FAILED, Cluster, Refused, accept, claim, main, receive, usable,  # noqa: E402
                 wait)
from pair import Conns, Pair                                                # noqa: E402

FAILSLAB = "/sys/kernel/debug/failslab/"
MOST = 1000


def failslab(**values):
    for name, value in values.items():
        with open(FAILSLAB + name.replace("_", "-"), "w", encoding="ascii") as file:
            file.write(str(value))


def text(module):
    """Where the module's functions begin and end."""
    with open("/proc/kallsyms", encoding="ascii") as file:
        at = [int(words[0], 16) for words in (line.split() for line in file)
              if words[1] in "tT" and words[-1] == "[%s]" % module]
    return min(at), max(at) + 1


@contextlib.contextmanager
def nth_fails(number):
    """The n-th allocation that is meant fails, whoever runs it."""
    failslab(interval=number, times=1, probability=100)
    try:
        yield
    finally:
        failslab(probability=0)


def came():
    """Whether the fault did."""
    with open(FAILSLAB + "times", encoding="ascii") as file:
        return int(file.read()) == 0


def goes_or_stays(c, given, cookie):
    """Another client is answered, by the node or, if it could not be given, here."""
    client, here = ready(c, given)
    there = None
    try:
        given.dev.submit(here, c.fe.id["be1"], cookie)
    except Refused as error:
        print("# refused: %s" % error)
    else:
        kind, got, _, refusal, _ = given.dev.event()
        assert got == cookie and kind in (DONE, FAILED), (kind, got, refusal)
        if kind == DONE:
            there = accept(given.back)
        else:
            print("# failed: %s" % refusal)
    server = there or here
    assert receive(server, 3) == b"GET"
    usable(server, client)
    return [sock for sock in (client, here, there) if sock]


def fail_in(module):
    """What fails is by a function of the module, or below one."""
    begin, end = text(module)
    failslab(probability=0, verbose=0, space=0, task_filter="N", ignore_gfp_wait="N", cache_filter="N",
             stacktrace_depth=32, require_start=begin, require_end=end)


def each_allocation(module):
    """One by a function of the module, or below one, fails while the link blinks and a connection is given:
    each of the first ones, and some of the others, until there are no more."""
    with Cluster(1) as c:
        given = Given(c)
        fail_in(module)
        hits, number, hit = 0, 0, True
        while hit and number < MOST:
            number += max(1, number // 3)
            with nth_fails(number):
                blinks(c, lambda: c.fe.output("ss", "-K", "( sport = :7471 or dport = :7471 )"))
                things = goes_or_stays(c, given, number + 1)
                hit = came()
            hits += hit
            wait(lambda: up(c.fe, c.be[0]))
            given.lives()
            for thing in things:
                thing.close()
            if len(things) == 3:
                given.dev.expect(CLOSED, number + 1)
            wait(lambda: c.fe.nl.node("be1")["NODE_LOAD"] == 1)
            assert c.fe.stat("HandoffNodeLost") == c.fe.stat("ForwardResets") == 0
        print("# %d faults, the last one before allocation %d" % (hits, number))
        assert hits > 3 and not hit
        given.close()


@claim
def an_allocation_of_a_link_that_fails_costs_nobody_anything():
    each_allocation("flotilla")


@claim
def an_allocation_of_a_handoff_that_fails_costs_nobody_anything():
    each_allocation("handoff")


def goes_on_or_stays(w, node):
    """It is handed on, or it could not be."""
    def submitted():
        try:
            w.devices[w.at.name].submit(w.sock, w.at.id[node.name], w.number)
        except Refused as error:
            if error.refusal == "busy":
                return None
            print("# refused: %s" % error)
            return "refused"
        return "submitted"
    w.number += 1
    if wait(submitted) == "submitted":
        refusal = w.outcome()
        if refusal == "none":
            w.arrives(node)
        else:
            print("# failed: %s" % refusal)


@claim
def an_allocation_where_it_is_handed_on_that_fails_costs_nobody_anything():
    with Chain(2) as c:
        fail_in("handoff")
        hits, number, hit = 0, 0, True
        while hit and number < MOST:
            number += max(1, number // 3)
            w = Wanderer(c)
            w.go(c.be[0])
            cookie = w.number
            with nth_fails(number):
                goes_on_or_stays(w, c.be[1])
                wait(lambda: not c.be[1].stat("ClaimPending"))
                hit = came()
            hits += hit
            w.begins()
            w.ends()
            w.devices["fe"].expect(CLOSED, cookie)
            wait(lambda: not any(be.stat("AdoptRelayed") for be in c.be))
            assert not any(node.stat("HandoffNodeLost") or node.stat("ForwardResets") for node in c.nodes)
            w.close()
        print("# %d faults, the last one before allocation %d" % (hits, number))
        assert hits > 3 and not hit


@claim
def an_allocation_of_a_takeover_that_fails_costs_nobody_anything():
    """It is told to who asks, or the connection is taken over all the same."""
    with Pair(1) as c:
        conns = Conns(c)
        fail_in("handoff")
        hits, number, hit = 0, 0, True
        while hit and number < MOST:
            number += max(1, number // 3)
            client, there = conns.open(c.be[0])
            with nth_fails(number):
                status, rows, said = c.takeover()
                hit = came()
            hits += hit
            print("# allocation %d: %d %s %s" % (number, status, [r["answer"] for r in rows.values()], said.strip()))
            assert "Cannot allocate memory" in said or status == 0 and rows["be1"]["taken"] == 1, (rows, said)
            client.close()
            assert there.recv(1) == b""
            there.close()
            wait(lambda: not c.be[0].stat("AdoptLive"))
        print("# %d faults, the last one before allocation %d" % (hits, number))
        assert hits > 3 and not hit
        conns.close()


if __name__ == "__main__":
    main()

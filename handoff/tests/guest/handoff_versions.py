#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Nodes of different versions give each other what both know; the rest is refused and stays where it is."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (DONE, E, FAILED, TOP, Cluster, Refused, accept, claim, main, peek,  # noqa: E402
                 receive, run, usable, wait)
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from endpoint import Wire                               # noqa: E402
from mallory import Mallory                             # noqa: E402

SECTIONS = E["FLT_FEATURE_SECTIONS"]
KNOWN = (SECTIONS | E["FLT_FEATURE_SENDQUEUE"] | E["FLT_FEATURE_CLAIM"] | E["FLT_FEATURE_TLS"] |
         E["FLT_FEATURE_TAKEOVER"] | E["FLT_FEATURE_RELOCATE"] | E["FLT_FEATURE_NOTIFY"] |
         E["FLT_FEATURE_REDIRECT"] | E["FLT_FEATURE_REPORT"] |
         E["FLT_FEATURE_LARGE"] | E["FLT_FEATURE_CACHE"] | E["FLT_FEATURE_HALFCLOSED"] |
         E["FLT_FEATURE_OOO"])
LATER = 1 << 40


class Case:
    """A connection that the front-end has accepted, and a request in it."""

    def __init__(self, cluster):
        self.fe = cluster.fe
        self.dev = self.fe.handoff()
        self.front = self.fe.listen()
        self.client = cluster.client.connect()
        self.client.sendall(b"GET")
        self.here = accept(self.front)
        peek(self.here, 3)

    def stays(self):
        assert receive(self.here, 3) == b"GET"
        usable(self.here, self.client)
        for sock in (self.client, self.here, self.front):
            sock.close()
        self.dev.close()


@claim
def node_that_does_not_know_sections_is_not_asked():
    """It says what it knows, and sections are not of it: nothing is sent, and the refusal has its name."""
    with Cluster(0) as c:
        mallory = Mallory(c)
        mallory.meet(c.fe, features=LATER)
        assert c.fe.nl.node("mallory")["NODE_FEATURES"] == LATER
        case = Case(c)
        try:
            case.dev.submit(case.here, c.fe.id["mallory"], 1)
            raise AssertionError("it was sent")
        except Refused as error:
            assert error.refusal == "version", error
        assert c.fe.stat("HandoffRefusedVersion") == 1 and c.fe.stat("HandoffSubmitted") == 0
        case.stays()
        mallory.close()


@claim
def node_that_does_not_say_is_asked_and_its_refusal_counts():
    with Cluster(0) as c:
        mallory = Mallory(c)
        mallory.meet(c.fe)
        assert c.fe.nl.node("mallory")["NODE_FEATURES"] == 0
        case = Case(c)
        case.dev.submit(case.here, c.fe.id["mallory"], 1)
        mallory.take(c.fe, E["FLT_REFUSE_VERSION"])
        case.dev.expect(FAILED, 1, "version")
        assert c.fe.stat("HandoffRefusedVersion") == 1
        case.stays()
        mallory.close()


@claim
def later_version_gives_what_may_be_skipped_and_is_refused_what_may_not():
    with Cluster(1) as c:
        be, mallory = c.be[0], Mallory(c)
        mallory.meet(c.fe, features=SECTIONS | LATER)
        mallory.meet(be, "FRONTEND", features=SECTIONS | LATER)
        case = Case(c)
        back = be.listen()
        case.dev.submit(case.here, c.fe.id["mallory"], 1)
        wire = Wire(mallory.take(c.fe))
        case.dev.expect(FAILED, 1, "policy")
        optional, critical = [4711, 0, b"a later version's"], [4712, Wire.CRITICAL, b"state"]
        assert mallory.give(be, Wire.of([optional] + wire.sections() + [optional])) == "none"
        assert mallory.give(be, Wire.of(wire.sections() + [critical])) == "version"
        assert be.stat("AdoptRefused") == 1
        assert mallory.give(be, wire.but(version=1)) == "version"
        # One of this version goes on with both.
        assert c.fe.nl.node("be1")["NODE_FEATURES"] == be.nl.node("fe")["NODE_FEATURES"] == KNOWN
        wait(lambda: not [x for x in be.sockets() if not x.startswith("TIME-WAIT")])
        case.dev.submit(case.here, c.fe.id["be1"], 2)
        case.dev.expect(DONE, 2)
        there = accept(back)
        assert receive(there, 3) == b"GET"
        usable(there, case.client)
        for sock in (there, back, case.client, case.here, case.front):
            sock.close()
        case.dev.close()
        mallory.close()


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

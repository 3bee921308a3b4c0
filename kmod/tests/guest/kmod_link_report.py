#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Nodes tell each other their version, their clock and what is wrong with them; who lies only shows what he said."""
import contextlib
import os
import struct
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import HELLO, PING, PONG, UP, FakePeer, cluster, frame, hello, listening  # noqa: E402
from fltnl import TOP, E, NlError                       # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

REPORT = 4
FORM = "!QQIII24s192s"
NEVER = 0xffffffff
FEATURE = E["FLT_FEATURE_REPORT"]
with open(os.path.join(TOP, "VERSION"), encoding="ascii") as file:
    VERSION = file.read().strip()


def report(stamp=0, clock=0, age=0, faults=0, warnings=0, version=b"1.2", wrong=b"", tail=b""):
    return frame(REPORT, struct.pack(FORM, stamp, clock, age, faults, warnings, version, wrong) + tail)


def insecure(node, on=1):
    """Of links without authentication only such a node says and hears anything."""
    node.nl.do("LOCAL_SET", local_insecure=on)


@contextlib.contextmanager
def met(features=FEATURE, trusting=1):
    """The node, and its peer n1 that is only a socket."""
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        insecure(high, trusting)
        peer = FakePeer(low, high).connect()
        peer.send(frame(HELLO, hello("n1") + struct.pack("!Q", features)))
        assert peer.frame()[0] == HELLO
        wait(lambda: high.state(low) == UP)
        yield high, low, peer
        peer.close()


def answers(peer, pings):
    """What comes until the last PING is answered."""
    peer.send(b"".join(frame(PING, struct.pack("!Q", i + 1)) for i in range(pings)))
    said = []
    while not said or said[-1] != (PONG, struct.pack("!Q", pings)):
        said.append(peer.frame())
        # Its own PINGs are nothing here.
        if said[-1][0] == PING:
            said.pop()
    return said


@claim
def nodes_hear_version_clock_and_findings_of_each_other():
    with cluster(heartbeat_ms=200) as c:
        low, high = c.nodes
        for node in c.nodes:
            insecure(node)
        wait(lambda: "NODE_VERSION" in high.nl.node(low.name))
        assert "REPORT_FAULTS" not in high.nl.node(low.name)
        low.nl.do("REPORT_SET", report_faults=2, report_warnings=1, report_wrong="service 10.0.0.80:80, trust")
        wait(lambda: "REPORT_FAULTS" in high.nl.node(low.name))
        seen = high.nl.node(low.name)
        assert seen["NODE_VERSION"] == VERSION
        assert (seen["REPORT_FAULTS"], seen["REPORT_WARNINGS"]) == (2, 1)
        assert seen["REPORT_WRONG"] == "service 10.0.0.80:80, trust" and seen["REPORT_AGE_S"] < 60
        # One clock: what it says of the difference is true within what it says of its error.
        assert abs(seen["NODE_CLOCK_US"]) <= seen["NODE_CLOCK_ERROR_US"] + 1, seen
        low.nl.do("REPORT_SET", report_faults=0, report_warnings=0)
        wait(lambda: high.nl.node(low.name)["REPORT_FAULTS"] == 0)
        assert high.nl.node(low.name)["REPORT_WRONG"] == ""
        low.nl.do("NODE_DEL", node_name=high.name)
        wait(lambda: high.state(low) != UP)
        assert "NODE_VERSION" not in high.nl.node(low.name)


@claim
def once_a_second_is_enough():
    with met() as (_, _, peer):
        begin, reports = time.monotonic(), 0
        for _ in range(20):
            reports += sum(kind == REPORT for kind, _ in answers(peer, 20))
        took = time.monotonic() - begin
        assert 1 <= reports <= took + 2, (reports, took)


@claim
def clock_of_a_node_is_the_one_at_the_time_of_the_question():
    with met() as (_, _, peer):
        before = time.time_ns()
        answers(peer, 1)
        kind, body = peer.frame()
        while kind == PING:
            kind, body = peer.frame()
        assert kind == REPORT
        stamp, clock, age, faults, _, version, wrong = struct.unpack(FORM, body)
        assert (stamp, age, faults) == (1, NEVER, 0) and before <= clock <= time.time_ns()
        assert version.rstrip(b"\0").decode() == VERSION and not wrong.strip(b"\0")


@claim
def who_does_not_know_it_hears_nothing():
    with met(features=E["FLT_FEATURE_CLAIM"]) as (_, _, peer):
        assert not [kind for kind, _ in answers(peer, 5) + answers(peer, 5) if kind != PONG]


@claim
def who_has_only_its_peers_address_hears_nothing():
    with met(trusting=0) as (_, _, peer):
        assert not [kind for kind, _ in answers(peer, 5) + answers(peer, 5) if kind != PONG]


@claim
def words_that_a_terminal_would_obey_end_the_link():
    for bad in (report(wrong=b"\x1b[2J"), report(version=b"\n"), report(version=b"\x9b0"), report(version=b"x" * 24),
                report(wrong=b"x" * 192), report()[:-1], frame(REPORT, b""), report(tail=b"x" * 500)):
        with met() as (high, low, peer):
            # Its head says how long it is.
            peer.send(frame(REPORT, bad[8:]))
            peer.gone()
            wait(lambda high=high, low=low: high.state(low) != UP)
            assert "NODE_VERSION" not in high.nl.node(low.name)
            assert high.nl.stat("LinkBadBody") + high.nl.stat("LinkBadLength") == 1


@claim
def later_versions_report_may_be_longer():
    with met() as (high, low, peer):
        peer.send(report(wrong=b"x" * 191, version=b"y" * 23, tail=b"\x1b" * (512 - 244)))
        wait(lambda: high.nl.node(low.name).get("REPORT_WRONG") == "x" * 191)
        assert high.nl.node(low.name)["NODE_VERSION"] == "y" * 23 and high.state(low) == UP


@claim
def lies_are_shown_and_nothing_else():
    most = (1 << 64) - 1
    with met() as (high, low, peer):
        for stamp in (0, 1, time.monotonic_ns(), 1 << 63, most):
            for clock in (0, time.time_ns(), 1 << 63, most):
                peer.send(report(stamp, clock, NEVER - 1, NEVER, NEVER))
                answers(peer, 1)
                seen = high.nl.node(low.name)
                assert seen["NODE_STATE"] == UP and seen["REPORT_FAULTS"] == NEVER, seen
                assert seen["REPORT_AGE_S"] >= NEVER - 1
        peer.send(report(age=NEVER, faults=7))
        wait(lambda: "REPORT_FAULTS" not in high.nl.node(low.name))


@claim
def only_plain_words_are_told():
    with cluster(1, listed=False) as c:
        node = c.nodes[0]
        for wrong in ("\x1b", "a\nb", "é", "x" * 192):
            try:
                node.nl.do("REPORT_SET", report_faults=1, report_warnings=1, report_wrong=wrong)
                raise AssertionError(wrong)
            except NlError:
                pass
        for given in ({"report_faults": 1}, {"report_warnings": 1}, {}):
            try:
                node.nl.do("REPORT_SET", **given)
                raise AssertionError(given)
            except NlError:
                pass


if __name__ == "__main__":
    main_with("flotilla")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# long: debug minutes there
"""flotilla doctor shows what other nodes say of themselves, and passes none of it on."""
import contextlib
import json
import os
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.environ["FLT_TOP"], "kmod/tests/lib"))
from cluster import HELLO, PING, PONG, UP, FakePeer, cluster, frame, hello, listening  # noqa: E402
from fltnl import TOP, E                                # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

REPORT = 4
NEVER = 0xffffffff
with open(os.path.join(TOP, "VERSION"), encoding="ascii") as file:
    VERSION = file.read().strip()


def doctor(node, *more):
    """Its exit status and its rows."""
    done = subprocess.run(("ip", "netns", "exec", node.ns, "flotilla", "-j", "doctor") + more, capture_output=True,
                          text=True)
    assert done.returncode in (0, 1) and not done.stderr, done
    return done.returncode, json.loads(done.stdout)


def found(rows, word, subject="node n1"):
    return [(row["finding"], row["found"], row["mend"]) for row in rows
            if row["subject"] == subject and word in row["found"]]


@contextlib.contextmanager
def peer_says(clock=0, age=NEVER, faults=0, warnings=0, version=VERSION, wrong=""):
    """The rows of a node about its peer, a socket."""
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        high.nl.do("LOCAL_SET", local_insecure=1)
        peer = FakePeer(low, high).connect()
        peer.send(frame(HELLO, hello("n1") + struct.pack("!Q", E["FLT_FEATURE_REPORT"])))
        assert peer.frame()[0] == HELLO
        wait(lambda: high.state(low) == UP)
        peer.send(frame(REPORT, struct.pack("!QQIII24s192s", time.monotonic_ns(), time.time_ns() + clock, age, faults,
                                            warnings, version.encode(), wrong.encode())))
        wait(lambda: "NODE_VERSION" in high.nl.node(low.name))
        yield high, peer
        peer.close()


def told(peer):
    """What the node tells its peer by and by."""
    while True:
        peer.send(frame(PING, bytes(8)))
        kind, body = peer.frame()
        while kind in (PING, PONG):
            if kind == PING:
                peer.send(frame(PONG, body))
            else:
                time.sleep(.2)
                peer.send(frame(PING, bytes(8)))
            kind, body = peer.frame()
        _, _, age, faults, warnings, _, wrong = struct.unpack("!QQIII24s192s", body)
        if age != NEVER:
            return faults, warnings, wrong.rstrip(b"\0").decode()


@claim
def same_version_and_clock_are_fine_and_nobody_has_looked():
    with peer_says() as (node, _):
        rows = doctor(node)[1]
        assert not found(rows, "it runs version")
        assert [row[0] for row in found(rows, "its clock is")] == ["fine"]
        assert [row[0] for row in found(rows, "nobody has examined it")] == ["fine"]
        assert [row[0] for row in found(rows, VERSION, "version")] == ["fine"]


@claim
def another_version_is_named():
    with peer_says(version="9.8.7") as (node, _):
        rows = found(doctor(node, "problems")[1], "it runs version")
        assert [row[:2] for row in rows] == [("warning", "it runs version 9.8.7, this node %s" % VERSION)], rows


@claim
def clock_that_is_wrong_is_named_with_the_difference():
    for ahead, word in ((3600, "ahead of"), (-3600, "behind")):
        with peer_says(clock=ahead * 10 ** 9) as (node, _):
            row, = found(doctor(node, "problems")[1], "its clock is")
            seconds = float(row[1].split()[3])
            assert row[0] == "warning" and word in row[1] and 3550 < seconds < 3650 and "timedatectl" in row[2], row


@claim
def what_its_own_doctor_found_is_shown():
    with peer_says(age=7, faults=2, warnings=1, wrong="service 10.0.0.80:80, trust") as (node, _):
        status, rows = doctor(node, "problems")
        row, = found(rows, "its own doctor")
        assert status == 1 and row[0] == "fault" and row[2] == "# on n1, as root: flotilla doctor problems", row
        assert "found 2 faults and 1 warning: service 10.0.0.80:80, trust" in row[1], row
    with peer_says(age=7, warnings=1, wrong="trust") as (node, _):
        row, = found(doctor(node)[1], "its own doctor")
        assert row[0] == "warning" and "0 faults and 1 warning: trust" in row[1], row
    with peer_says(age=7) as (node, _):
        row, = found(doctor(node)[1], "its own doctor")
        assert row[0] == "fine" and "nothing wrong" in row[1], row


@claim
def only_its_own_findings_are_told():
    """Two nodes that passed on what they hear would never be well again."""
    with peer_says(age=7, faults=1000, warnings=1000, wrong="everything") as (node, peer):
        rows = doctor(node, "problems")[1]
        own = [row for row in rows if "its own doctor" not in row["found"]]
        faults, warnings, wrong = told(peer)
        assert faults == sum(row["finding"] == "fault" for row in own) < 1000
        assert warnings == sum(row["finding"] == "warning" for row in own)
        assert set(wrong.split(", ")) == {row["subject"] for row in own}, (wrong, own)


@claim
def who_is_not_root_tells_nothing():
    with cluster(2) as c:
        low, high = c.nodes
        for node in c.nodes:
            node.nl.do("LOCAL_SET", local_insecure=1)
        wait(lambda: "NODE_VERSION" in high.nl.node(low.name))
        subprocess.run(("ip", "netns", "exec", low.ns, "setpriv", "--reuid", "65534", "--clear-groups", "flotilla",
                        "doctor"), stdout=subprocess.DEVNULL)
        time.sleep(2.5)
        assert "REPORT_AGE_S" not in high.nl.node(low.name)
        doctor(low)
        wait(lambda: "REPORT_AGE_S" in high.nl.node(low.name))


@claim
def numbers_and_names_at_their_limits_are_shown():
    with peer_says(1 << 62, NEVER - 1, NEVER, NEVER, "y" * 23, "$(x) " * 38) as (node, _):
        rows = doctor(node)[1]
        assert found(rows, "its own doctor") and found(rows, "its clock is") and found(rows, "y" * 23)
        assert not any("$" in row["mend"] for row in rows)


if __name__ == "__main__":
    main_with("flotilla")

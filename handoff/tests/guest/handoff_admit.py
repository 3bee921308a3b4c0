#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both minutes on either kernel
"""Speculative admission: more connections than a server has places for are let in; the surplus is served elsewhere."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from admitted import Admits                             # noqa: E402
from hof import E, claim, main, run, wait                  # noqa: E402
from policed import SERVICE                             # noqa: E402

UP = E["FLT_NODE_UP"]
# What the thesis tries: places and surplus; with the listener of the program, or by the operator's word.
SIZES = ((64, 32, 0), (96, 32, 0), (128, 64, 0), (64, 64, 1))


@claim
def as_many_more_are_let_in_and_no_more():
    with Admits() as a:
        plain = a.crowd(70)
        assert len(plain) == 65, "TCP itself lets in %d" % len(plain)
        for base, more, said in SIZES:
            a.leaves(list(a.opened))
            a.serves(5 if said else base)
            a.policy("simple", "be2", "admit=%d" % more, *["admit_base=%d" % base] * said)
            wait(lambda: not a.admission()["waiting"])
            assert a.queue() == (0, base + more), a.queue()
            came = a.fills(base + more + 5, more)
            assert len(came) == base + more + 1, (base, more, len(came))
            assert a.admission()["window"] == 0


@claim
def surplus_is_tagged_by_its_place_and_it_alone_moves_at_its_first_request():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32")
        came = a.fills(97, 32)
        assert a.admission()["tagged"] == 32
        a.starts()
        # Nothing moves before its request.
        wait(lambda: a.queue()[0] == 0)
        assert a.sum()["waiting"] == 32
        answers = [a.asks(client) for client in came]
        assert answers == ["be1"] * 65 + ["be2"] * 32, answers
        s = a.sum()
        assert (s["moved"], s["waiting"], s["window"]) == (32, 0, 32), s
        assert a.why() == {"moved": 32, "plain": 65}, a.why()
        wait(lambda: a.servers["be1"].ended == 32)
        # Those that were surplus are be2's, those that were not are never moved.
        assert [a.asks(client) for client in came[60:70]] == ["be1"] * 5 + ["be2"] * 5
        assert a.be[0].stat("AdmitTagged") == a.be[0].stat("AdmitMoved") == 32
        # While the server takes what comes there is no surplus.
        assert [a.asks(a.knock()) for _ in range(5)] == ["be1"] * 5
        assert a.sum()["tagged"] == 32


@claim
def by_quota_surplus_is_its_share_evenly():
    with Admits(backlog=1024) as a:
        a.starts()
        for base, more, every in ((64, 32, 3), (96, 32, 4), (64, 64, 2)):
            a.policy("simple", "be2", "admit=%d" % more, "admit_base=%d" % base, "admit_quota=1")
            before = a.admission()["tagged"]
            came = a.crowd(2 * every)
            wait(lambda came=came: a.queue()[0] == 0)
            assert a.admission()["tagged"] == before + 2, (every, a.admission())
            answers = [a.asks(client) for client in came]
            assert answers.count("be2") == 2, answers
            first = answers.index("be2")
            assert answers.index("be2", first + 1) == first + every, answers


@claim
def the_target_is_chosen_by_load_or_by_name():
    with Admits(3, backlog=1024) as a:
        a.starts()
        a.policy("load", "be2", "be3", "admit=64", "admit_base=1", "admit_quota=1")
        came, answers = [], []
        for _ in range(130):
            came.append(a.knock())
            answers.append(a.asks(came[-1]))
        assert abs(answers.count("be2") - answers.count("be3")) < 3 and answers.count("be1") == 2, answers
        # Those of be2 end: it gets what comes.
        a.leaves([client for client, name in zip(came, answers) if name == "be2"])
        wait(lambda: a.be[0].nl.node("be2")["NODE_LOAD"] == 0)
        answers = [a.asks(a.knock()) for _ in range(20)]
        assert answers.count("be2") > 15 and not answers.count("be3"), answers
        a.policy("hash", "be2", "be3", "admit=64", "admit_base=1", "admit_quota=1")
        where = {}
        for turn in range(3):
            for path in ("/%d" % i for i in range(8)):
                name = a.asks(a.knock(), path)
                if name != "be1":
                    assert where.setdefault(path, name) == name, (turn, path, where)
        assert set(where.values()) == {"be2", "be3"} and len(where) == 8, where


@claim
def a_rejection_closes_the_window_and_costs_no_request():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32", "admit_again=0")
        a.be[1].sysctl("net.flotilla.adopt", 0)
        came = a.fills(97, 32)
        a.starts()
        assert a.asks(came[-1]) == "be1"
        s = a.sum()
        assert (s["rejected"], s["window"], s["closed"], s["waiting"]) == (1, 0, 1, 31), s
        wait(lambda: a.queue() == (0, 64))
        # What is tagged already is tried, and served.
        assert [a.asks(client) for client in came] == ["be1"] * 97
        s = a.sum()
        assert (s["rejected"], s["waiting"], s["closed"]) == (32, 0, 1), s
        # Nothing is tagged from here on, and no more are let in than TCP itself would.
        a.leaves(came)
        a.serves(64)
        assert len(a.crowd(97)) == 65
        assert a.sum()["tagged"] == 32
        a.starts()


@claim
def a_node_that_had_no_room_says_when_it_has_and_the_window_opens():
    with Admits() as a:
        a.servers["be2"].stop()
        a.servers["be2"] = type(a.servers["be1"])(a.be[1], 3, False)
        a.policy("simple", "be2", "admit=32", "admit_again=0")
        came = a.fills(97, 32)
        a.starts()
        # Four fit into be2's queue.
        rest = came[65:]
        for client in rest[:4]:
            client.sendall(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        wait(lambda: a.sum()["moved"] == 4)
        assert a.asks(rest[4]) == "be1"
        s = a.sum()
        assert (s["rejected"], s["closed"], s["window"], s["notified"]) == (1, 1, 0, 0), s
        assert a.be[0].stat("HandoffRefusedFull") == 1
        a.starts("be2")
        wait(lambda: a.sum()["notified"] == 1)
        wait(lambda: a.queue()[1] == 96)
        assert a.be[1].stat("AdmitRoomTold") == 1 and not a.be[0].stat("AdmitRoomIgnored")
        assert a.asks(rest[5]) == "be2"
        s = a.sum()
        assert (s["closed"], s["window"]) == (1, 32 - s["waiting"]), s


@claim
def when_nothing_is_said_it_opens_after_as_many_requests():
    with Admits(backlog=1024) as a:
        a.starts()
        for words, number in (((), 4), (("admit_again=7",), 7)):
            a.policy("simple", "be2", "admit=4", "admit_base=4", "admit_quota=1", *words)
            was = a.admission()
            # be2 refuses, and what it says of its room is lost with its link.
            a.be[1].sysctl("net.flotilla.adopt", 0)
            client = next(c for c in iter(a.knock, None) if a.asks(c) and a.admission()["closed"] > was["closed"])
            a.cut(a.be[0], a.be[1])
            a.be[1].sysctl("net.flotilla.adopt", 1)
            # The one that was refused is served, too. Of those that come now none is tagged.
            tagged = a.admission()["tagged"]
            for _ in range(number - 2):
                assert a.asks(a.knock()) == "be1"
                assert a.admission()["tagged"] == tagged
                assert a.admission()["reopened"] == was["reopened"], number
            assert a.asks(client) == "be1"
            s = a.sum()
            assert (s["reopened"], s["notified"]) == (was["reopened"] + 1, was["notified"]), s
            assert s["window"] > 0
            # Nor does it come later.
            for node, other in ((a.be[0], a.be[1]), (a.be[1], a.be[0])):
                a.break_link(node, other)
            a.mend(a.be[0])
            wait(lambda: a.be[0].nl.node("be2")["NODE_STATE"] == UP)


@claim
def what_is_moved_here_is_no_surplus_here():
    with Admits() as a:
        for at, to in ((0, "be2"), (1, "be1")):
            a.policy("simple", to, "admit=1", "admit_base=1", "admit_quota=1", at=at)
        a.starts()
        answers = [a.asks(a.knock()) for _ in range(8)]
        assert answers == ["be1", "be2"] * 4 or answers == ["be2", "be1"] * 4, answers
        there = a.flotilla("admission", at=1)[0]
        assert there["tagged"] == 0, there


@claim
def the_length_of_the_queue_is_the_programs_whatever_is_set_and_said_meanwhile():
    with Admits() as a:
        listener = a.servers["be1"].listener
        assert a.queue()[1] == 64
        a.policy("simple", "be2", "admit=32")
        assert a.queue()[1] == 96
        for said in (10, 200, 96, 128, 42):
            listener.listen(said)
            wait(lambda said=said: a.queue()[1] == said + 32)
        a.policy("simple", "be2", "admit=8", "admit_base=100")
        assert a.queue()[1] == 108
        listener.listen(7)
        a.policy("simple", "be2", "admit=9")
        assert a.queue()[1] == 16, a.queue()
        a.policy("simple", "be2")
        assert a.queue()[1] == 7, a.queue()
        a.policy("simple", "be2", "admit=5")
        assert a.queue()[1] == 12
        a.flotilla("policy", "off", SERVICE)
        assert a.queue()[1] == 7
        # That of the module: nothing is left of it when it goes.
        a.policy("simple", "be2", "admit=5")
        assert a.queue()[1] == 12
        listener.listen(30)
        wait(lambda: a.queue()[1] == 35)
        a.servers.pop("be2").stop()
        run("rmmod", "handoff")
        assert a.queue()[1] == 30
        run("modprobe", "handoff")


@claim
def what_is_said_wrong_changes_nothing():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32")
        for words in (("admit=0",), ("admit_base=5",), ("admit=65536",), ("admit=5", "admit_quota=2"),
                      ("admit=5", "admit_bse=7"), ("admit=x",), ("admitted=1",)):
            said = a.flotilla("policy", "set", SERVICE, "simple", "be2", *words, check=1)
            assert "admit" in said or "NAME=NUMBER" in said, said
        s = a.admission()
        assert (s["admit"], s["base"], s["by"]) == (32, "listen", "place"), s
        assert a.queue()[1] == 96


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: debug minutes there
"""Speculative admission with a front-end and without, of servers that know nothing of it."""
import os
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from admitted import Admits                             # noqa: E402
from farm import Farm                                   # noqa: E402
from hof import VIP4, claim, main, run, wait            # noqa: E402
from move import FLOTILLA                               # noqa: E402
from policed import SERVICE                             # noqa: E402


def admits(node, *words):
    subprocess.run(("ip", "netns", "exec", node.ns, FLOTILLA, "migrate", "policy", "set", SERVICE) + words, check=True)


def served(kind):
    """By both nodes, to clients of the front-end and to those that come straight to be1; no byte is wrong."""
    with Farm(kind) as f:
        be1, be2 = f.be
        admits(be1, "load", "be2", "admit=2", "admit_base=1", "admit_quota=1")
        tagged = 0
        for to in ("client", "direct"):
            for _ in range(12):
                f.clients_of(1, to=to)[0].exchange(9)
            for one in f.kept:
                for number in (1, 5):
                    one.exchange(number)
            assert be1.stat("AdmitTagged") == tagged + 8, (to, be1.stats())
            tagged += 8
            wait(lambda tagged=tagged: be1.stat("AdmitMoved") == be2.stat("AdoptCommitted") == tagged)
            wait(lambda tagged=tagged: f.has(be2) == tagged)
        f.check()
        # What the front-end gave and be1 gave on comes straight from the front-end.
        wait(lambda: sorted(f.forwards(f.fe)) == ["be1"] * 4 + ["be2"] * 8)
        assert not be1.stat("PolicyStayedRefused") and be1.stat("AdmitWindow") == 2


@claim
def nginx_serves_and_its_surplus_is_served_elsewhere():
    served("nginx")


@claim
def flash_serves_and_its_surplus_is_served_elsewhere():
    served("flash")


@claim
def a_bad_split_among_nodes_is_mended():
    """Of 150 clients a third, of 200 a quarter, come to be2, which has no crowd; be1 has 64 places."""
    for share, number, more in ((33, 150, 32), (25, 200, 64)):
        with Admits(names=("client", "direct")) as a:
            direct = a.clients[1]
            direct.run("ip", "route", "add", VIP4 + "/32", "via", a.net.ip4(a.be[1].number))
            few = number * share // 100 + (number * share % 100 > 50)
            there = a.crowd(few, direct)
            assert len(there) == few
            plain = a.crowd(number - few)
            assert len(plain) == 65, "without speculation %d are let in" % len(plain)
            a.leaves(plain)
            a.serves(64)
            a.policy("load", "be2", "admit=%d" % more)
            came = a.fills(number - few, more)
            assert len(came) == 65 + more, len(came)
            a.starts()
            answers = [a.asks(client) for client in came + there]
            assert answers.count("be1") == 65 and answers.count("be2") == few + more, answers
            s = a.sum()
            assert s["moved"] == more and s["closed"] == 0, s


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

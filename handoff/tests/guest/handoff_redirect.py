#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both a minute and a half, and on the debug kernel six
"""A service that is loaded has its SYNs accepted by a lighter node, with no socket here at any time."""
import contextlib
import json
import os
import subprocess
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import VIP4, claim, main, run, usable, wait    # noqa: E402  # finds fltnl
from fltnl import NlError                               # noqa: E402
from move import FLOTILLA                               # noqa: E402
from redirected import Redirecting, carries             # noqa: E402

AUTO = 0xffffffff


def flotilla(node, *words, check=0):
    done = subprocess.run(("ip", "netns", "exec", node.ns, FLOTILLA, "-j") + words, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == check, (words, done)
    if check:
        return done.stderr
    return json.loads(done.stdout) if done.stdout else []


@claim
def syn_ends_on_the_lighter_node_and_the_connection_works():
    with Redirecting() as c:
        c.loaded()
        for _ in range(3):
            client = c.connect()
            there = c.accepted(1)
            assert not c.be[0].sockets(), c.be[0].sockets()
            carries(client, there)
            assert len(c.redirected()) == 1, c.be[0].conns()
            client.close()
            assert there.recv(1) == b""
            there.close()
            wait(lambda: not c.redirected())
        assert c.be[0].stat("RedirectSent") == 3 and c.be[1].stat("RedirectTaken") == 3
        assert c.be[0].stat("RedirectEntries") == 0 and c.be[0].stat("RedirectUnopened") == 0


@claim
def the_same_with_ipv6():
    with Redirecting(listening=False) as c:
        c.listeners = [be.listen(family=6) for be in c.be]
        for at in range(2):
            c.rule(at, 6, above=10, hint=0 if at else 1000)
        c.offered("be2", "lighter")
        client = c.connect(family=6)
        there = c.accepted(1)
        carries(client, there, (1, 70000))
        assert len(c.redirected()) == 1 and not c.be[0].sockets()


@claim
def without_load_or_a_rule_it_is_accepted_here():
    with Redirecting() as c:
        usable(c.connect(), c.accepted(0))
        c.loaded(hint=10)
        usable(c.connect(), c.accepted(0))
        c.rule(hint=11)
        usable(c.connect(), c.accepted(1))
        c.off()
        usable(c.connect(), c.accepted(0))


@claim
def a_hint_moves_the_target():
    """The operator's at each node, and one that a module gives."""
    with Redirecting(3) as c:
        c.loaded()
        c.rule(1, hint=5)
        c.rule(2, hint=3)
        wait(lambda: c.offers() == {"be2": ("lighter", 5), "be3": ("lighter", 3)})
        usable(c.connect(), c.accepted(2))
        flotilla(c.be[1], "redirect", "hint", VIP4 + ":80", "1")
        wait(lambda: c.offers()["be2"] == ("lighter", 1))
        usable(c.connect(), c.accepted(1))
        run("insmod", os.path.join(os.environ["FLT_MODULES"], "hof_hint_load.ko"))
        try:
            flotilla(c.be[2], "redirect", "hint", VIP4 + ":80", "auto")
            for load, word, target in ((700, "lighter", 1), (0, "lighter", 2), (2000, "heavy", 1)):
                with c.be[2].inside(), open("/sys/module/hof_hint_load/parameters/load", "w", encoding="ascii") as f:
                    f.write(str(load))
                wait(lambda load=load, word=word: c.offers()["be3"] == (word, load))
                usable(c.connect(), c.accepted(target))
            with c.be[2].inside(), open("/sys/module/hof_hint_load/parameters/load", "w", encoding="ascii") as f:
                f.write(str(AUTO))
            # Counted again: what it has is its two connections and no more.
            wait(lambda: c.offers()["be3"] == ("lighter", 2))
        finally:
            run("rmmod", "hof_hint_load")


@claim
def connections_are_counted_and_the_accept_queue_is_looked_at():
    with Redirecting() as c:
        c.interval(300)
        c.rule(0, above=3, hysteresis=1)
        c.rule(1)
        c.offered("be2", "heavy")
        for _ in range(4):
            usable(c.connect(), c.accepted(0))
        wait(lambda: c.numbers()["load"] == 4 and c.numbers()["active"])
        usable(c.connect(), c.accepted(1))
        # It ends when the load is at most the threshold without the hysteresis.
        for number in range(2):
            assert c.numbers()["active"], number
            client, there = c.opened.pop(0), c.opened.pop(0)
            client.close()
            there.close()
            wait(lambda left=3 - number: c.numbers()["load"] == left)
        wait(lambda: not c.numbers()["active"])
        usable(c.connect(), c.accepted(0))
        # Nobody accepts: six of eight places are taken.
        c.rule(0, above="off", hysteresis=0)
        c.listeners[0].listen(8)
        for _ in range(6):
            c.connect()
        c.rule(0, queue=50)
        wait(lambda: c.numbers()["share"] == 75 and c.numbers()["active"])
        usable(c.connect(), c.accepted(1))


@claim
def two_that_are_loaded_keep_what_comes():
    """Neither to the other, which is above its own threshold, nor to one that is hardly lighter."""
    with Redirecting() as c:
        c.rule(0, above=10, hint=1000)
        c.rule(1, above=10, hint=100)
        c.offered("be2", "busy")
        usable(c.connect(), c.accepted(0))
        c.rule(1, above=900, hint=800)
        c.rule(0, hysteresis=200)
        c.offered("be2", "heavy")
        c.offered("be1", "busy", at=1)
        usable(c.connect(), c.accepted(0))
        c.way(1)
        usable(c.connect(), c.accepted(1))
        assert c.be[0].stat("RedirectHeavy") == 2 and not c.be[0].stat("RedirectSent")
        assert not c.be[1].stat("RedirectSent")


@claim
def what_has_begun_here_stays():
    """Its client has heard our SYN-ACK, or not: its SYN comes again after the load has come."""
    with Redirecting() as c:
        c.client.run("nft", "table inet deaf { chain c { type filter hook prerouting priority 0; "
                     "tcp sport 80 tcp flags & (syn | ack) == syn | ack drop; }; }")
        c.loaded(hint=5)
        done = []
        thread = threading.Thread(target=lambda: done.append(c.connect()))
        thread.start()
        wait(lambda: any("SYN-RECV" in line for line in c.be[0].sockets()))
        c.rule(hint=1000)
        wait(lambda: c.numbers()["active"])
        c.client.run("nft", "delete table inet deaf")
        thread.join()
        assert not c.be[0].stat("RedirectSent")
        usable(done[0], c.accepted(0))


@claim
def the_operator_is_told_what_happens_and_why():
    with Redirecting() as c:
        here, service = c.be[0], VIP4 + ":80"
        flotilla(here, "redirect", "set", service, "above", "10", "queue", "90", "hysteresis", "5", "take", "off")
        flotilla(here, "redirect", "hint", service, "1000")
        c.rule(1, hint=0)
        c.offered("be2", "lighter")
        usable(c.connect(), c.accepted(1))
        assert flotilla(here, "redirect", "show") == [
            {"address": VIP4, "port": 80, "above": 10, "queue": 90, "hysteresis": 5, "take": False, "load": 1000,
             "load_is": "set", "share": 0, "redirects": True}]
        told = {(row["node"], row["reason"]): row for row in flotilla(here, "redirect", "explain")}
        assert told[(None, "sent")]["syns"] == 1 and ("be2", "lighter") in told, told
        assert not c.offers(1), "it takes none, and says so"
        for words, said in ((("set", service, "queue", "101"), "queue"), (("set", service, "above"), "needs a value"),
                            (("hint", service, "x"), "x"), (("set", VIP4, "above", "1"), "port")):
            assert said in flotilla(here, "redirect", *words, check=2), words
        for args, code in (("above=x", "EINVAL"), ("queue=101", "ERANGE"), ("above", "EINVAL"), ("=1", "EINVAL"),
                           ("above=-1", "EINVAL"), ("take=2", "ERANGE"), ("hint=4294967295", "ERANGE")):
            with contextlib.suppress(NlError):
                here.nl.do("REDIRECT_SET", service_addr4=VIP4, service_port=80, policy_args=args)
                raise AssertionError("%s is taken, not %s" % (args, code))
        flotilla(here, "redirect", "set", service, "above", "off")
        assert flotilla(here, "redirect", "show")[0]["above"] is None
        flotilla(here, "redirect", "off", service)
        assert not flotilla(here, "redirect", "show")
        assert "not redirected" in flotilla(here, "redirect", "off", service, check=1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both minutes on either kernel
"""SYNs that are redirected and get lost, come in floods, meet nobody; whatever happens meanwhile."""
import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import OLD, Wanderer                         # noqa: E402
from hof import (FAILED, PATIENCE, SLOW, VIP4, VIP6, E, claim, main, peek, receive, run, usable,    # noqa: E402
                 wait)
from mallory import Mallory, forge                      # noqa: E402
from move import FROM, Move                             # noqa: E402
from redirected import Redirecting, carries             # noqa: E402
from syns import MARK, Raw                              # noqa: E402

RESET = struct.pack("ii", 1, 0)
ABSENT = "10.9.0.77"
SYN, RST, ACK = 2, 4, 16
HINT = 0x40
# What comes of what the other node has redirected is lost on the way, or what it answers.
DROPS = {
    "SYN": "priority -500; tcp dport 80 tcp flags & (syn | ack) == syn %sdrop;",
    "SYN-ACK": "priority 0; tcp sport 80 tcp flags & (syn | ack) == syn | ack %sdrop;",
}


def lose(node, what, times=0):
    """The first ones, or all."""
    some = "limit rate 1/day burst %d packets " % times if times else ""
    node.run("nft", "table inet lossy { chain c { type filter hook prerouting %s }; }" % DROPS[what] % some)


def lose_no_more(node):
    node.run("nft", "delete table inet lossy")


class Opening:
    """A client that tries to connect, meanwhile."""

    def __init__(self, c, **more):
        self.c, self.more, self.got = c, more, []
        self.thread = threading.Thread(target=self.opens)
        self.thread.start()

    def opens(self):
        try:
            self.got.append(self.c.connect(timeout=PATIENCE, **self.more))
        except OSError as error:
            self.got.append(error)

    def end(self):
        self.thread.join()
        assert isinstance(self.got[0], socket.socket), self.got
        return self.got[0]


@claim
def what_is_lost_is_sent_again_to_the_same_node():
    """Though another one is lighter by then."""
    for what in DROPS:
        with Redirecting(3) as c:
            c.loaded()
            c.rule(2, hint=500)
            wait(lambda c=c: c.offers()["be3"] == ("lighter", 500))
            # Not where it is sent: TCP would hear of it.
            lose(c.be[1] if what == "SYN" else c.client, what, 2)
            opening = Opening(c)
            wait(lambda c=c: c.be[0].stat("RedirectSent") == 1)
            c.rule(1, hint=900)
            client = opening.end()
            assert c.be[0].stat("RedirectAgain") >= 1
            carries(client, c.accepted(1), (1, 70000))
            assert c.be[0].stat("RedirectSent") == 1 and not c.be[0].stat("RedirectSilent"), what


@claim
def a_node_that_does_not_answer_is_given_up():
    with Redirecting() as c:
        c.loaded()
        lose(c.be[1], "SYN")
        client = Opening(c).end()
        usable(client, c.accepted(0))
        assert c.be[0].stat("RedirectSilent") == 1 and c.be[0].stat("RedirectAgain") == 2, c.be[0].stats()
        assert not c.redirected() and not c.be[0].stat("RedirectUnopened")


@claim
def a_node_that_answers_nobody_gets_none_for_a_while():
    """Whoever comes then does not wait; when it answers again it gets its share again."""
    with Redirecting() as c:
        c.loaded()
        lose(c.be[1], "SYN")
        crowd = [opening.end() for opening in [Opening(c) for _ in range(8)]]
        taken = {sock.getpeername(): sock for sock in [c.accepted(0) for _ in crowd]}
        for client in crowd:
            usable(taken[client.getsockname()], client)
        assert c.be[0].stat("RedirectSilent") == 8
        c.offered("be2", "mute")
        usable(c.connect(timeout=2.5 * SLOW), c.accepted(0))
        assert c.be[0].stat("RedirectSent") == 8 and c.be[0].stat("RedirectNone") == 1
        lose_no_more(c.be[1])
        wait(lambda: c.offers()["be2"][0] == "lighter", 60)
        usable(c.connect(), c.accepted(1))
        # One that is answered makes up for those that were not.
        lose(c.be[1], "SYN")
        usable(Opening(c).end(), c.accepted(0))
        assert c.offers()["be2"][0] == "lighter", c.offers()


@claim
def one_that_takes_no_more_is_asked_no_more():
    """It drops what comes too late, and the next time its client is accepted here."""
    with Redirecting() as c:
        c.loaded()
        lose(c.be[1], "SYN")
        opening = Opening(c)
        wait(lambda: c.be[0].stat("RedirectSent") == 1)
        c.rule(1, take=0)
        c.offered("be2", "silent")
        again = c.be[0].stat("RedirectAgain")
        usable(opening.end(), c.accepted(0))
        assert c.be[0].stat("RedirectSilent") == 1 and c.be[0].stat("RedirectAgain") == again
        usable(c.connect(), c.accepted(0))
        assert c.be[0].stat("RedirectNone") == 1
        lose_no_more(c.be[1])
        # Not listed is not taken, either.
        c.rule(1, take=1)
        c.offered("be2", "lighter")
        c.be[1].nl.do("SERVICE_DEL", service_addr4=VIP4)
        c.offered("be2", "silent")
        usable(c.connect(), c.accepted(0))


@claim
def a_node_whose_server_is_gone_gets_none():
    """It has the least load of all, and would answer each client with a RST."""
    with Redirecting() as c:
        c.loaded()
        usable(c.connect(), c.accepted(1))
        c.listeners[1].close()
        # Within two intervals.
        time.sleep(3.5)
        usable(c.connect(), c.accepted(0))
        assert c.offers()["be2"][0] == "silent", c.offers()
        c.listeners[1] = c.be[1].listen()
        c.offered("be2", "lighter")
        usable(c.connect(), c.accepted(1))
        # Before the others have heard of it: what comes is dropped, and accepted here in the end.
        c.interval(30000)
        c.rule(1, hint=7)
        wait(lambda: c.offers()["be2"] == ("lighter", 7))
        c.listeners[1].close()
        usable(Opening(c).end(), c.accepted(0))
        assert c.be[1].stat("RedirectRefused") and c.be[0].stat("RedirectSilent") == 1


@claim
def a_node_that_is_drained_gets_none():
    """flotilla process drain: the more it has given away the less load it has."""
    with Redirecting() as c:
        c.loaded()
        usable(c.connect(), c.accepted(1))
        with c.be[1].inside():
            move = Move()
        with move:
            move.node(c.be[1].id["be1"])
            move.give(FROM, c.listeners[1])
            time.sleep(3.5)
            usable(c.connect(), c.accepted(0))
            assert c.offers()["be2"][0] == "silent", c.offers()
        c.offered("be2", "lighter")
        usable(c.connect(), c.accepted(1))


@claim
def a_node_whose_server_accepts_nothing_gets_no_more_than_fit():
    """Whatever its load, and without a threshold of its own."""
    with Redirecting() as c:
        c.loaded()
        c.listeners[1].listen(1)
        for _ in range(2):
            c.connect()
        c.offered("be2", "busy")
        usable(c.connect(), c.accepted(0))
        c.accepted(1)
        c.offered("be2", "lighter")
        usable(c.connect(), [c.accepted(1), c.accepted(1)][1])


@claim
def what_gets_lost_before_it_leaves_is_a_try_too():
    with Redirecting() as c:
        c.loaded()
        raw = Raw(c.client)
        for number in range(1, 4):
            raw.send(ABSENT, VIP4, SYN, 2000, ttl=1)
            wait(lambda number=number: c.be[0].stat("ForwardTtlExpired") == number)
        assert len(c.redirected()) == 1 and not c.be[0].sockets()
        raw.send(ABSENT, VIP4, SYN, 2000, ttl=1)
        wait(lambda: any("SYN-RECV" in line for line in c.be[0].sockets()))
        assert not c.redirected() and c.be[0].stat("RedirectSilent") == 1
        raw.close()


@claim
def syn_in_fragments_stays():
    """Or that says it is one: its client's other packets are not forwarded then."""
    with Redirecting(listening=False) as c:
        c.listeners = [be.listen(family=6) for be in c.be]
        for at in range(2):
            c.rule(at, 6, above=10, hint=0 if at else 1000)
        c.offered("be2", "lighter")
        raw = Raw(c.client, socket.AF_INET6)
        for number, size in enumerate((None, 24), 2000):
            raw.send_fragments6("fd09::7:1", VIP6, number, size=size)
            wait(lambda number=number: any("SYN-RECV" in line and ":%d" % number in line
                                           for line in c.be[0].sockets()))
        assert not c.be[0].stat("RedirectSent") and not c.redirected()
        raw.close()


@claim
def who_is_sent_syns_may_not_name_their_clients():
    """A node that is no front-end forges a SYN, is sent it, and gives what it says has come of it."""
    with Redirecting() as c:
        here, mallory = c.be[0], Mallory(c)
        line = mallory.meet(here, features=OLD | E["FLT_FEATURE_REDIRECT"])
        mallory.node.run("ip", "route", "add", VIP4 + "/32", "via", c.net.ip4(here.number))
        client = c.connect()
        client.sendall(b"GET")
        there = c.accepted(0)
        peek(there, 3)
        dev = here.handoff()
        dev.submit(there, here.id["mallory"], 1)
        wire = forge(mallory.take(here), c.net.ip4(100), ABSENT)
        dev.expect(FAILED, 1, "policy")
        assert mallory.give(here, wire) == "role"
        c.rule(above=10, hint=1000)
        line.send(HINT, struct.pack("!IHHII16s", 60000, 4, 80, 0, 0, socket.inet_aton(VIP4)))
        c.offered("mallory", "lighter")
        raw = Raw(mallory.node)
        for flags, state in ((SYN, 1), (ACK, 0)):
            raw.send(ABSENT, VIP4, flags, client.getsockname()[1])
            wait(lambda state=state: len(c.redirected()) == 1 and here.stat("RedirectUnopened") == state)
            assert mallory.give(here, wire) == "role", flags
        here.nl.do("NODE_SET", node_name="mallory", node_role=E["FLT_ROLE_FRONTEND"])
        assert mallory.give(here, wire) == "none"
        wait(lambda: len(c.redirected()) == 1)
        raw.close()
        dev.close()
        mallory.close()


@claim
def one_that_comes_back_and_is_handed_on_is_forwarded_as_long_as_it_lives():
    """By who gets the client's packets, not by who gave it back."""
    with Redirecting(3) as c:
        c.loaded()
        c.rule(2, hint=500)
        wait(lambda: c.offers()["be3"] == ("lighter", 500))
        for be in c.be:
            be.sysctl("net.flotilla.forward_linger_ms", 500)
        w = Wanderer(c, at=c.be[1], listeners={be.name: x for be, x in zip(c.be, c.listeners)})
        w.go(c.be[0])
        assert not c.redirected()
        w.go(c.be[2])
        w.begins()
        time.sleep(4 * SLOW)
        w.works()
        w.ends()
        w.close()


@claim
def what_another_has_redirected_ends_here():
    """Accepted, if the service is taken, or dropped; it is never sent on."""
    with Redirecting() as c:
        c.loaded()
        raw = Raw(c.client)
        address = c.net.ip4(100)
        before = c.be[0].stat("RedirectSent")
        raw.send(address, VIP4, SYN, 2000, urgent=MARK)
        wait(lambda: c.be[0].stat("RedirectTaken") == 1)
        assert c.be[0].stat("RedirectSent") == before and not c.be[0].conns()
        # The same without the mark is: that is what the mark is for.
        raw.send(address, VIP4, SYN, 2001)
        wait(lambda: c.be[0].stat("RedirectSent") == before + 1)
        # What another program has written there says something: it stays.
        raw.send(address, VIP4, SYN, 2002, urgent=7)
        time.sleep(.5)
        assert c.be[0].stat("RedirectSent") == before + 1
        c.way(1)
        c.rule(1, take=0)
        wait(lambda: not c.numbers(1)["take"])
        raw.send(address, VIP4, SYN, 2003, urgent=MARK)
        wait(lambda: c.be[1].stat("RedirectRefused") == 1)
        assert not c.be[1].sockets(), c.be[1].sockets()
        raw.close()


@claim
def an_entry_of_its_own_does_not_send_it_on():
    """The client's packets came by one node and come by the other now: they do not go round."""
    with Redirecting() as c:
        c.loaded()
        client = c.connect()
        port = client.getsockname()[1]
        there = c.accepted(1)
        usable(client, there)
        raw = Raw(c.client)

        def comes():
            raw.send(c.net.ip4(100), VIP4, SYN, port, urgent=MARK, seq=77)
        # Anybody can write that: what goes on there does.
        comes()
        wait(lambda: c.be[0].stat("RedirectRefused") + c.be[0].stat("RedirectTaken"))
        usable(client, there)
        asked = c.be[0].stat("RedirectAsked")
        wait(lambda: c.be[0].stat("RedirectAsked") > asked)
        usable(client, there)
        assert len(c.redirected()) == 1
        # When that is over, of which nothing comes by here, it is taken.
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        there.close()

        def taken():
            comes()
            return c.be[0].stat("RedirectTaken")
        wait(taken, every=2)
        assert not c.redirected() and c.be[0].stat("RedirectSent") == 1
        raw.close()


@claim
def a_flood_has_its_bounds_and_the_service_goes_on():
    with Redirecting() as c:
        c.loaded()
        here = c.be[0]
        for at, name in enumerate(("net.flotilla.redirect_syn_max", "net.flotilla.redirect_max")):
            other = ("net.flotilla.redirect_syn_max", "net.flotilla.redirect_max")[1 - at]
            here.sysctl(name, 32)
            here.sysctl(other, 65536)
            here.sysctl("net.flotilla.redirect_syn_ms", 60000)
            sent = here.stat("RedirectSent")
            raw = Raw(c.client)
            for number in range(1000):
                raw.send("10.9.7.%d" % (number % 250 + 1), VIP4, SYN, 10000 * (at + 1) + number)
            raw.close()
            wait(lambda: here.stat("RedirectFull") >= 900 * (at + 1))
            assert here.stat("RedirectUnopened") == 32 == here.stat("RedirectEntries"), here.stats()
            assert here.stat("RedirectSent") == sent + 32 and len(c.redirected()) == 32
            usable(c.connect(), c.accepted(0))
            here.sysctl("net.flotilla.redirect_syn_ms", 1000)
            wait(lambda: not here.stat("RedirectUnopened") and not c.redirected())
            assert here.stat("RedirectExpired") == 32 * (at + 1)
            usable(c.connect(), c.accepted(1))
            wait(lambda: here.stat("RedirectEntries") == 1)
            for _ in range(4):
                c.opened.pop().close()
            wait(lambda: not here.stat("RedirectEntries"))


@claim
def root_of_a_container_may_not_have_more_than_the_default():
    for name in ("redirect_max", "redirect_syn_max"):
        for who, most in ((("unshare", "-n"), 1 << 24), (("unshare", "-Urn"), 65536)):
            write = "echo %%d >/proc/sys/net/flotilla/%s" % name
            codes = [subprocess.run(who + ("sh", "-c", write % value), capture_output=True, check=False).returncode
                     for value in (most, most + 1)]
            assert not codes[0] and codes[1], (name, who, codes)


@claim
def syn_cookies_of_the_target_are_honoured():
    with Redirecting() as c:
        c.loaded()
        c.be[1].sysctl("net.ipv4.tcp_syncookies", 2)
        before = c.be[1].output("nstat", "-asz", "TcpExtSyncookiesRecv")
        client = c.connect()
        carries(client, c.accepted(1), (1, 70000))
        after = c.be[1].output("nstat", "-asz", "TcpExtSyncookiesRecv")
        assert before != after, after


@claim
def the_entry_goes_with_the_connection():
    """However that ends; what is only still keeps it."""
    with Redirecting() as c:
        c.loaded()
        # The client resets it; the server does, of which nothing comes by here.
        for ends in (lambda client, there: client, lambda client, there: there):
            client = c.connect()
            there = c.accepted(1)
            usable(client, there)
            one = ends(client, there)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.close()
            wait(lambda: not c.redirected(), 120 * SLOW)
        # The client has ended its side, long ago.
        client = c.connect()
        there = c.accepted(1)
        client.shutdown(socket.SHUT_WR)
        assert there.recv(1) == b""
        asked = c.be[0].stat("RedirectAsked")
        wait(lambda: c.be[0].stat("RedirectAsked") >= asked + 2)
        there.sendall(bytes(300000))
        receive(client, 300000)
        assert len(c.redirected()) == 1
        there.close()
        assert client.recv(1) == b""
        wait(lambda: not c.redirected())
        client.close()
        # And its port, which is used again.
        client = c.connect()
        source = client.getsockname()
        usable(client, c.accepted(1))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        wait(lambda: not c.redirected())
        usable(c.connect(source=source), c.accepted(1))
        assert len(c.redirected()) == 1


@claim
def nobody_else_ends_it():
    """RSTs, FINs and SYNs of its addresses with wrong numbers."""
    with Redirecting() as c:
        c.loaded()
        client = c.connect()
        there = c.accepted(1)
        usable(client, there)
        raw = Raw(c.client)
        for flags in (RST, RST | ACK, 1 | ACK, SYN):
            raw.send(c.net.ip4(100), VIP4, flags, client.getsockname()[1], seq=1, ack=1)
            asked = c.be[0].stat("RedirectAsked")
            wait(lambda asked=asked: c.be[0].stat("RedirectAsked") > asked)
            usable(client, there)
        assert len(c.redirected()) == 1
        raw.close()


@claim
def a_target_that_dies_takes_its_connections_and_no_more():
    with Redirecting() as c:
        c.loaded()
        client = c.connect()
        usable(client, c.accepted(1))
        lose(c.be[1], "SYN")
        opening = Opening(c)
        wait(lambda: c.be[0].stat("RedirectUnopened") == 1)
        c.be[0].nl.do("NODE_DEL", node_name="be2")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b"none", "no RST"
        usable(opening.end(), c.accepted(0))
        usable(c.connect(), c.accepted(0))
        assert not c.be[0].stat("RedirectUnopened") and not c.be[0].stat("RedirectEntries")
        assert not c.offers()


@claim
def without_an_authenticated_link_nothing_is_told_or_sent():
    with Redirecting() as c:
        c.loaded()
        for node in c.be:
            node.nl.do("LOCAL_SET", local_insecure=0)
        c.offered("be2", "insecure")
        c.offered("be2", "silent")
        usable(c.connect(), c.accepted(0))
        c.be[0].nl.do("LOCAL_SET", local_insecure=1)
        # Ours would take it, but the other says nothing.
        time.sleep(1)
        assert c.offers()["be2"][0] == "silent", c.offers()
        c.be[1].nl.do("LOCAL_SET", local_insecure=1)
        c.offered("be2", "lighter")
        usable(c.connect(), c.accepted(1))


class Crowd:
    """Clients that connect and say something, one after the other, and SYNs of others who do not exist."""

    def __init__(self, c):
        self.c, self.over, self.served, self.errors = c, False, 0, []
        self.threads = [threading.Thread(target=f) for f in (self.comes, self.comes, self.floods, self.serves)]
        for thread in self.threads:
            thread.start()

    def comes(self):
        while not self.over:
            try:
                with self.c.client.connect(timeout=5) as client:
                    client.sendall(b"x")
                    self.served += client.recv(1) == b"x"
            except OSError as error:
                self.errors.append(error)

    def floods(self):
        raw, number = Raw(self.c.client), 0
        while not self.over:
            number += 1
            with contextlib.suppress(OSError):
                raw.send("10.9.7.%d" % (number % 250 + 1), VIP4, SYN, 1024 + number % 60000)
            time.sleep(.002)
        raw.close()

    def serves(self):
        while not self.over:
            for listener in select.select(self.c.listeners, [], [], .1)[0]:
                with contextlib.suppress(OSError):
                    sock = listener.accept()[0]
                    sock.settimeout(5)
                    with sock:
                        sock.sendall(sock.recv(1))

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


@claim
def the_module_goes_and_comes_amid_all_of_it():
    with Redirecting() as c:
        for _ in range(3):
            c.loaded()
            crowd = Crowd(c)
            wait(lambda crowd=crowd: crowd.served > 20 and c.be[0].stat("RedirectUnopened") > 20)
            begin = time.monotonic()
            wait(lambda: not subprocess.run(("rmmod", "handoff"), capture_output=True, check=False).returncode)
            print("# unloaded in %.1f s" % (time.monotonic() - begin), flush=True)
            served = crowd.served
            wait(lambda crowd=crowd, served=served: crowd.served > served + 5)
            run("modprobe", "handoff")
            crowd.end()
            c.interval(1500)


@claim
def rules_and_nodes_change_amid_all_of_it():
    with Redirecting(3) as c:
        c.loaded()
        crowd = Crowd(c)
        for number in range(10):
            wait(lambda crowd=crowd, s=crowd.served: crowd.served > s + 3)
            for at in range(3):
                c.off(at)
            c.loaded(hint=200 * number + 20)
            for weight in (0, 100):
                c.be[0].nl.do("NODE_SET", node_name="be2", node_weight=weight)
            if number == 5:
                c.be[0].nl.do("NODE_DEL", node_name="be3")
                c.list(c.be[0], c.be[2])
        crowd.end()
        c.off(0)
        c.be[0].sysctl("net.flotilla.redirect_syn_ms", 1)
        wait(lambda: not c.be[0].stat("RedirectUnopened"), 120 * SLOW)


@claim
def a_namespace_goes_amid_all_of_it():
    for _ in range(2):
        c = Redirecting()
        c.loaded()
        # What is open in a namespace keeps it.
        c.listeners.pop(0).close()
        crowd = Crowd(c)
        wait(lambda crowd=crowd: crowd.served > 10 and c.be[0].stat("RedirectUnopened") > 10)
        c.be[0].nl.close()
        c.net.delete(c.be[0].ns)
        crowd.end()
        c.__exit__()
    with Redirecting() as c:
        c.loaded()
        usable(c.connect(), c.accepted(1))


if __name__ == "__main__":
    main()

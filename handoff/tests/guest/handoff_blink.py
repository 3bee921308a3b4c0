#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: both a minute, and on the debug kernel minutes
"""A link that blinks costs no client its connection; a node that was restarted, or stays away, does."""
import os
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from given import Given, blinks, ready, up                                  # noqa: E402
from hof import (CLOSED, DONE, SLOW, TOP, Cluster, accept, claim, main, peek, stalled,  # noqa: E402
                 usable, wait)
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from mallory import ABORT, HEAD, QUERY, Mallory                             # noqa: E402


@claim
def killed_link_costs_nobody_anything():
    with Cluster(1) as c:
        given = Given(c)
        for node in (c.fe, c.be[0], c.fe):
            blinks(c, lambda node=node: node.output("ss", "-K", "( sport = :7471 or dport = :7471 )"))
            given.lives()
        assert c.fe.stat("HandoffNodeLost") == c.fe.stat("ForwardResets") == 0
        given.close()


@claim
def silent_link_costs_nobody_anything():
    with Cluster(1, heartbeat_ms=1500) as c:
        given = Given(c)
        be = c.be[0]

        def cut():
            be.run("nft", "table inet cut { chain c { type filter hook input priority -400; "
                   "tcp sport 7471 drop; tcp dport 7471 drop; }; }")
            wait(lambda: not up(c.fe, be))
            usable(given.there, given.client)
            be.run("nft", "delete table inet cut")
        blinks(c, cut)
        given.lives()
        given.close()


@claim
def settings_touch_new_links_only():
    with Cluster(1) as c:
        given = Given(c)
        ups = c.fe.nl.stat("LinkUp")
        for node, number in ((c.fe, 1), (c.be[0], 2)):
            node.nl.do("LOCAL_SET", local_addr6=c.net.ip6(number))
            node.nl.do("LOCAL_SET", local_port=7500 + number)
            node.nl.do("LOCAL_SET", local_port=7471)
        time.sleep(1)
        assert up(c.fe, c.be[0]) and c.fe.nl.stat("LinkUp") == ups and c.fe.nl.stat("LinkDown") == 0
        given.lives()
        given.close()


@claim
def what_ended_meanwhile_is_told_afterwards():
    with Cluster(1, heartbeat_ms=1500) as c:
        given, be = Given(c), c.be[0]

        def cut():
            be.run("nft", "table inet cut { chain c { type filter hook input priority -400; "
                   "tcp sport 7471 drop; tcp dport 7471 drop; }; }")
            wait(lambda: not up(c.fe, be))
            given.client.close()
            given.there.close()
            wait(lambda: be.stat("AdoptLive") == 0)
            given.dev.no_event()
            be.run("nft", "delete table inet cut")
        blinks(c, cut)
        given.dev.expect(CLOSED, 1)
        assert c.fe.nl.node("be1")["NODE_LOAD"] == 0
        given.close()


@claim
def commit_lost_for_longer_than_the_deadline_is_no_silence():
    """The giver has let go, and the taker given up: the client hears of it."""
    with Cluster(1, heartbeat_ms=1500) as c:
        given, be = Given(c), c.be[0]
        be.sysctl("net.flotilla.adopt_deadline_ms", 3000 * SLOW)
        # From the COMMIT on, which is the only message of that size now, nothing comes through.
        be.run("nft", "table inet cut { set hit { type ipv4_addr; flags dynamic; }; "
               "chain c { type filter hook input priority -400; ip saddr @hit tcp dport 7471 drop; "
               "tcp dport 7471 ip length 76 add @hit { ip saddr } drop; }; }")
        client = c.client.connect()
        client.sendall(b"GET")
        here = accept(given.front)
        peek(here, 3)
        given.dev.submit(here, c.fe.id["be1"], 2)
        given.dev.expect(DONE, 2)
        wait(lambda: not up(c.fe, be))
        wait(lambda: be.stat("AdoptExpired") == 1)
        be.run("nft", "delete table inet cut")
        wait(lambda: up(c.fe, be))
        given.dev.expect(CLOSED, 2, "nodedown")
        try:
            assert client.recv(1) and False, "no reset"
        except ConnectionResetError:
            pass
        given.lives()
        client.close()
        here.close()
        given.close()


def with_mallory(c, epoch=0):
    """A connection that is mallory's; its id, and its addresses as a record has them."""
    mallory = Mallory(c)
    mallory.epoch = epoch
    mallory.meet(c.fe)
    given = Given(c, "mallory")
    record = mallory.adopt(c.fe)
    given.dev.expect(DONE, 1)
    return mallory, given, record


def reset(given):
    try:
        assert given.client.recv(1) and False, "no reset"
    except ConnectionResetError:
        pass


@claim
def given_before_the_link_is_known_to_be_up_it_stays():
    """What the node says it has may be older than that; and it has not closed the connection."""
    with Cluster(1) as c:
        mallory, given, (ident, tuple_) = with_mallory(c)
        client, here = ready(c, given)
        with stalled("hof_peer_event", 3 * SLOW):
            line = mallory.again(c.fe)
            given.dev.submit(here, c.fe.id["mallory"], 2)
            begin = time.monotonic()
            mallory.own(line)
            assert time.monotonic() - begin > 0.2, "the link was known to be up"
        given.dev.expect(DONE, 2)
        mallory.held(line, ident, tuple_)
        given.dev.no_event(1)
        for thing in (client, here, given, mallory):
            thing.close()


@claim
def restarted_node_costs_its_clients_at_once():
    with Cluster(1) as c:
        mallory, given, _ = with_mallory(c)
        mallory.again(c.fe, instance=78)
        given.dev.expect(CLOSED, 1, "nodedown")
        reset(given)
        given.close()
        mallory.close()


@claim
def node_that_stays_away_is_given_up_when_its_grace_is_over():
    with Cluster(1) as c:
        with c.net.sysfs(c.fe.ns, "links/grace_ms", "w") as f:
            f.write("3000")
        mallory, given, _ = with_mallory(c)
        begin = time.monotonic()
        mallory.vanish(c.fe)
        given.dev.expect(CLOSED, 1, "nodedown")
        took = time.monotonic() - begin
        assert took > 2.9, took
        reset(given)
        given.close()
        mallory.close()


PROBES = "/sys/kernel/tracing/"


def write(name, text):
    # The list of probes can neither be truncated, which empties it, nor sought in.
    fd = os.open(PROBES + name, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@claim
def end_of_the_list_is_heeded_once_for_each_link():
    """It costs a walk through the whole table: a node that says it again and again has no such power."""
    if not os.path.exists(PROBES + "kprobe_events"):
        subprocess.run(("mount", "-t", "tracefs", "tracefs", PROBES), check=True)
    with Cluster(1) as c:
        mallory, given, (ident, tuple_) = with_mallory(c)
        write("kprobe_events", "p:held/walk hof_entry_close_stale")
        try:
            write("events/held/walk/enable", "1")
            line = mallory.again(c.fe)
            mallory.held(line, ident, tuple_)
            for _ in range(100):
                mallory.end(line)
            # What comes behind them has been answered, so they have been read.
            line.send(QUERY, HEAD.pack(12345, 0, 0))
            line.await_kind(ABORT)
            with open(PROBES + "kprobe_profile", encoding="ascii") as file:
                hits = [int(text.split()[1]) for text in file if "walk" in text]
            assert hits == [1], hits
        finally:
            write("events/held/walk/enable", "0")
            write("kprobe_events", "-:held/walk")
        given.dev.no_event()
        # The next link's is heeded again.
        mallory.end(mallory.again(c.fe))
        given.dev.expect(CLOSED, 1)
        given.close()
        mallory.close()


@claim
def decision_that_was_lost_is_said_again():
    with Cluster(1) as c:
        mallory, given, (ident, tuple_) = with_mallory(c)
        # It never saw the COMMIT: it names the connection as one that waits.
        line = mallory.again(c.fe)
        mallory.held(line, ident, tuple_, pending=True)
        assert mallory.committed(line) == ident
        # It names it as its own, and that is all: it stays. Another time it names nothing: it is over.
        line = mallory.again(c.fe)
        mallory.held(line, ident, tuple_)
        given.dev.no_event(1)
        line = mallory.again(c.fe)
        mallory.end(line)
        given.dev.expect(CLOSED, 1)
        given.close()
        mallory.close()


@claim
def taken_before_the_module_was_loaded_anew_there_it_goes_on():
    """The node has it still, and knows nothing of it: it names what it has taken since."""
    with Cluster(1) as c:
        mallory, given, _ = with_mallory(c, epoch=5)
        client, here = ready(c, given)
        mallory.epoch = 6
        line = mallory.again(c.fe)
        mallory.end(line)
        given.dev.no_event(1)
        given.dev.submit(here, c.fe.id["mallory"], 2)
        mallory.own(line)
        given.dev.expect(DONE, 2)
        # Of the two it has lost the second; and of a node that does not say it nothing is known.
        mallory.epoch = 0
        mallory.end(mallory.again(c.fe))
        given.dev.no_event(1)
        mallory.epoch = 6
        mallory.end(mallory.again(c.fe))
        given.dev.expect(CLOSED, 2)
        given.dev.no_event(1)
        mallory.epoch = 5
        mallory.end(mallory.again(c.fe))
        given.dev.expect(CLOSED, 1)
        for thing in (client, here, given, mallory):
            thing.close()


@claim
def grace_that_ends_late_is_not_that_of_the_next_end_of_the_link():
    """Late for want of a processor: the node was up again, and of its next end it is not known yet."""
    with Cluster(1, grace_ms=1000) as c:
        mallory, given, _ = with_mallory(c)
        with stalled("hof_net_enter", 8 * SLOW) as stall:
            # What comes by: the link's end, the end of its grace, NODE_UP, NODE_DOWN.
            stall.ends()
            mallory.lines[c.fe.name].sock.close()
            wait(lambda: stall() == 1)
            stall.begins()
            wait(lambda: stall() == 2)
            stall.ends()
            mallory.again(c.fe)
            wait(lambda: stall() == 3)
            stall.begins()
            mallory.vanish(c.fe)
            wait(lambda: stall() == 4)
            assert c.fe.stat("HandoffNodeLost") == 0, "the grace has ended by now"
            with c.net.sysfs(c.fe.ns, "links/grace_ms", "w") as f:
                f.write("60000")
        given.dev.no_event(1)
        given.close()
        mallory.close()


@claim
def grace_that_ends_as_the_link_comes_up_costs_nothing_that_is_new():
    with Cluster(1, grace_ms=1000) as c:
        mallory, given, _ = with_mallory(c)
        client, here = ready(c, given)
        with stalled("hof_adopt_node_down", 3) as hits:
            mallory.lines[c.fe.name].sock.close()
            wait(hits)
            line = mallory.again(c.fe)
            given.dev.submit(here, c.fe.id["mallory"], 2)
            mallory.own(line)
            wait(lambda: c.fe.stat("HandoffNodeLost") >= 1)
        reset(given)
        got = [given.dev.event()[:4] for _ in range(2)]
        assert sorted((kind, cookie, why) for kind, cookie, _, why in got) == \
            [(DONE, 2, "none"), (CLOSED, 1, "nodedown")], got
        given.dev.no_event(1)
        for thing in (client, here, given, mallory):
            thing.close()


if __name__ == "__main__":
    main()

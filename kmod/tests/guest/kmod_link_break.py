#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes up to seven minutes there
# timeout: 300
"""Links end when they should, come back, and tell; misbehaviour closes them and nothing else."""
import contextlib
import glob
import multiprocessing
import os
import random
import struct
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import (DOWN, HELLO, PING, PONG, REJECT, UP, FakePeer, Node, cluster, frame,  # noqa: E402
                     greeted, hello, listening)
from fltnl import E                                     # noqa: E402
from netns import flotilla, inside, run                 # noqa: E402
from patience import SLOW, rounds                       # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def say_when(what, words):
    """Wait for a state and print how long it took; how long it may take depends on the machine."""
    begin = time.monotonic()
    wait(what)
    print("# %s after %.1f s" % (words, time.monotonic() - begin))


@claim
def cut_cable_is_noticed_and_mended():
    with cluster() as c:
        a, b = c.nodes
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "down")
        say_when(lambda: a.state(b) != UP and b.state(a) != UP, "down")
        assert a.nl.stat("LinkHeartbeatLost") == 1
        assert a.nl.node(b.name)["NODE_REASON"] != ""
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "up")
        say_when(lambda: a.state(b) == UP and b.state(a) == UP, "up again")
        assert a.nl.node(b.name)["NODE_RECONNECTS"] == 1


def stand_still(seconds):
    """Nothing but interrupts runs on any processor."""
    def hog(cpu):
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
    hogs = [multiprocessing.Process(target=hog, args=(cpu,)) for cpu in os.sched_getaffinity(0)]
    for process in hogs:
        process.start()
    for process in hogs:
        process.join()


@claim
def a_node_that_stood_still_itself_blames_nobody():
    # Neither limit must give other tasks their share: all of it, and the fair server of Linux 6.12.
    limits = {"/proc/sys/kernel/sched_rt_runtime_us": "-1"}
    limits.update((path, "0") for path in glob.glob("/sys/kernel/debug/sched/fair_server/*/runtime"))
    with cluster() as c, contextlib.ExitStack() as stack:
        a, b = c.nodes
        for path, value in limits.items():
            with open(path, encoding="ascii") as file:
                stack.callback(write, path, file.read())
            write(path, value)
        stand_still(6)
        wait(lambda: all(n.nl.stat("LinkStoodStill") for n in c.nodes))
        assert a.state(b) == UP and b.state(a) == UP
        assert [n.nl.stat("LinkHeartbeatLost") for n in c.nodes] == [0, 0]


@claim
def deleted_namespace_is_noticed_at_once():
    with cluster(heartbeat_ms=60000) as c:
        a, b = c.nodes
        b.nl.close()
        c.net.delete(b.ns)
        say_when(lambda: a.state(b) != UP, "down")
        # Told by a reset, not by silence, however long the namespace takes to go.
        assert a.nl.stat("LinkHeartbeatLost") == 0


@claim
def restarted_peer_is_noticed():
    with cluster(heartbeat_ms=60000) as c:
        a, b = c.nodes
        b.nl.close()
        c.net.delete(b.ns)
        wait(lambda: a.state(b) != UP)
        again = wait(lambda: try_node(c, 2), every=0.3)
        c.nodes[1] = again
        again.become()
        again.list(a)
        wait(lambda: a.state(again) == UP)
        assert a.nl.stat("LinkPeerRestarted") == 1
        assert a.nl.stat("LinkUp") == 2 and a.nl.stat("LinkDown") == 1


def try_node(c, number):
    """A new namespace in the place of a deleted one, when that is really gone."""
    try:
        return Node(c.net, number)
    except Exception:                                   # pylint: disable=broad-except
        for name in [n for n in c.net.names if n.endswith("n%d" % number)]:
            c.net.delete(name)
        return None


@claim
def events_tell_of_up_and_down():
    with cluster(2, listed=False, heartbeat_ms=60000) as c:
        a, b = c.nodes
        ears = flotilla(a.ns)
        ears.subscribe()
        a.become()
        b.become()
        a.list(b)
        b.list(a)
        wait(lambda: a.state(b) == UP)
        a.nl.do("NODE_SET", node_name=b.name, node_weight=7)
        b.nl.do("NODE_DEL", node_name=a.name)
        wait(lambda: a.state(b) != UP)
        a.nl.do("NODE_DEL", node_name=b.name)
        heard = []
        while "FLT_EVENT_NODE_REMOVED" not in heard:
            event = ears.event()
            name = next(n for n, v in E.items()
                        if n.startswith("FLT_EVENT_") and v == event["EVENT_TYPE"])
            if name != "FLT_EVENT_DISPATCH":
                heard.append(name)
                assert event["NODE_NAME"] == b.name
        assert heard == ["FLT_EVENT_NODE_" + w for w in
                         ("ADDED", "UP", "CHANGED", "DOWN", "REMOVED")], heard


@claim
def stranger_is_refused_and_counted():
    with cluster(3, listed=False) as c:
        a, b, stranger = c.nodes
        a.become()
        a.list(b)
        peer = FakePeer(stranger, a).connect()
        assert peer.gone() == []
        wait(lambda: a.nl.stat("LinkRefusedStranger") == 1)


@claim
def connection_in_the_wrong_direction_is_refused():
    with cluster(2, listed=False) as c:
        a, b = c.nodes
        a.become()
        a.list(b)
        # a has the lower address: it connects, b must not.
        peer = FakePeer(b, a).connect()
        assert peer.gone() == []
        wait(lambda: a.nl.stat("LinkRefusedOrder") == 1)


@claim
def fake_peer_can_come_up():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        peer = FakePeer(low, high).connect()
        peer.send(frame(HELLO, hello("n1")))
        kind, body = peer.frame()
        assert kind == HELLO and len(body) == 52, (kind, body)
        assert body[20:].rstrip(b"\0") == b"n2"
        wait(lambda: high.state(low) == UP)
        peer.send(frame(PING, b"12345678"))
        while kind != PONG:
            kind, body = peer.frame()
        assert body == b"12345678"
        peer.close()
        wait(lambda: high.state(low) == DOWN)


BAD_FIRST = [
    ("magic", frame(HELLO, hello("n1", magic=0x47455420)), "LinkBadMagic"),
    ("version", frame(HELLO, hello("n1", version=2)), "LinkBadVersion"),
    ("version 0", frame(HELLO, hello("n1", version=0)), "LinkBadVersion"),
    ("zero field", frame(HELLO, hello("n1", zero=1)), "LinkBadBody"),
    ("no heartbeat", frame(HELLO, hello("n1", heartbeat=0)), "LinkBadBody"),
    ("no instance", frame(HELLO, hello("n1", instance=0)), "LinkBadBody"),
    ("endless name", frame(HELLO, hello("n" * 32)), "LinkBadBody"),
    ("other name", frame(HELLO, hello("nobody")), "LinkRefusedName"),
    ("short hello", frame(HELLO, hello("n1")[:-1]), "LinkBadLength"),
    ("long hello", frame(HELLO, hello("n1") + b"x"), "LinkBadLength"),
    ("tiny hello", frame(HELLO, b"FLTL"), "LinkBadLength"),
    ("empty hello", frame(HELLO), "LinkBadLength"),
    ("huge hello", frame(HELLO, length=257), "LinkBadLength"),
    ("length of all ones", frame(HELLO, length=0xffffffff), "LinkBadLength"),
    ("message before hello", frame(0xf0, b"1234"), "LinkBadType"),
    ("ping before hello", frame(PING, b"12345678"), "LinkBadType"),
    ("dirty head", frame(HELLO, hello("n1"), zero=b"\0\1\0"), "LinkBadBody"),
    ("HTTP", b"GET / HTTP/1.0\r\n\r\n", "LinkBadLength"),
]


@claim
def bad_first_frames_are_refused_and_counted():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        for what, data, counter in BAD_FIRST:
            before = high.nl.stat(counter)
            peer = FakePeer(low, high).connect()
            peer.send(data)
            said = peer.gone()
            assert [k for k, _ in said] in ([], [REJECT]), (what, said)
            assert high.nl.stat(counter) == before + 1, what
            assert high.state(low) != UP, what
            # A fresh entry: who misbehaved has to wait otherwise (the next claim).
            high.nl.do("NODE_DEL", node_name=low.name)
            high.list(low)


@claim
def misbehaving_peer_has_to_wait():
    with cluster(2, listed=False) as c:
        low, high = listening(c)

        def has_to_wait():
            """A machine that takes seconds from one to the next finds its time over, and misbehaves again."""
            peer = FakePeer(low, high).connect()
            peer.send(frame(HELLO, hello("n1", version=9)))
            peer.gone()
            peer = FakePeer(low, high).connect()
            assert peer.gone() == []
            return high.nl.stat("LinkRefusedBackoff")
        wait(has_to_wait)

        def accepted():
            again = FakePeer(low, high).connect()
            again.send(frame(HELLO, hello("n1")))
            return again.frame()
        say_when(accepted, "accepted again")


BAD_LATER = [
    ("second hello", frame(HELLO, hello("n1")), "LinkBadLength"),
    ("short ping", frame(PING, b"1234567"), "LinkBadLength"),
    ("unknown own type", frame(15), "LinkBadType"),
    ("unknown range", frame(0x50, b"x"), "LinkBadType"),
    ("unknown range, and no byte of the message", frame(0x50, length=8 << 20), "LinkBadType"),
    ("message that is too long", frame(0xf0, length=(8 << 20) + (64 << 10) + 1), "LinkBadLength"),
    ("dirty head", frame(0xf0, b"x", zero=b"\0\0\1"), "LinkBadBody"),
    ("handler refuses", frame(0xf4), "LinkBadBody"),
]


@claim
def bad_frames_close_a_link_that_is_up():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        for what, data, counter in BAD_LATER:
            before = high.nl.stat(counter)
            peer = greeted(low, high)
            peer.send(data)
            peer.gone()
            assert high.nl.stat(counter) == before + 1, what
            wait(lambda: high.state(low) != UP)
            high.nl.do("NODE_DEL", node_name=low.name)
            high.list(low)


@claim
def message_of_a_room_not_loaded_is_dropped_and_counted():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        peer = greeted(low, high)
        peer.send(frame(0x20, b"for card.ko") + frame(PING, b"12345678"))
        kind = HELLO
        while kind != PONG:
            kind, _ = peer.frame()
        assert high.nl.stat("MessagesNoHandler") == 1 and high.state(low) == UP


@claim
def frames_cut_anywhere_are_put_together():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        peer = FakePeer(low, high).connect()
        data = frame(HELLO, hello("n1")) + b"".join(
            frame(PING, b"%08d" % i) for i in range(20))
        for i, byte in enumerate(data):
            peer.send(bytes([byte]))
            if not i % 7:
                time.sleep(0.001)
        seen = []
        while len(seen) < 20:
            kind, body = peer.frame()
            if kind == PONG:
                seen.append(body)
        assert seen == [b"%08d" % i for i in range(20)]


@claim
def random_bytes_harm_nobody():
    seed = 20240611
    rng = random.Random(seed)
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        for _ in range(rounds(60, 20)):
            peer = FakePeer(low, high).connect()
            data = b""
            if rng.random() < 0.7:
                data = frame(HELLO, hello("n1"))
            for _ in range(rng.randrange(8)):
                kind = rng.choice((0, 1, 2, 3, 0xf0, 0xf1, 0xf2, 0x10, 0x20, rng.randrange(256)))
                body = rng.randbytes(rng.choice((0, 4, 8, 52, 300, 20000)))
                data += frame(kind, body, rng.choice((None, None, None, rng.randrange(1 << 32))))
            try:
                peer.send(data)
                peer.sock.shutdown(1)
            except OSError:
                pass
            peer.gone()
            high.nl.do("NODE_DEL", node_name=low.name)
            high.list(low)
        print("# %d rounds, seed %d" % (rounds(60, 20), seed))
        peer = greeted(low, high)
        peer.close()


@claim
def peer_that_never_greets_is_dropped():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        peer = FakePeer(low, high).connect()
        say_when(lambda: peer.gone() == [], "gone")
        assert high.nl.stat("LinkUp") == 0


@claim
def new_connection_replaces_the_old_one_only_after_its_hello():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        first = greeted(low, high, heartbeat=3000 * SLOW)
        second = FakePeer(low, high).connect()
        time.sleep(0.3)
        assert high.state(low) == UP and high.nl.stat("LinkDown") == 0
        # The first answers no PING: it is given up when its heartbeats have run out.
        second.send(frame(HELLO, hello("n1", instance=78, heartbeat=3000 * SLOW)))
        assert second.frame()[0] == HELLO
        first.gone()
        # It has waited for about as long as a link may be silent, and is not late for that.
        time.sleep(1)
        assert high.state(low) == UP
        assert high.nl.stat("LinkPeerRestarted") == 1 and high.nl.stat("LinkDown") == 1


@claim
def peer_that_asks_but_never_reads_costs_bounded_memory():
    with cluster(2, listed=False) as c:
        low, high = listening(c)
        high.sysfs("links/queue_bytes", "65536")
        peer = greeted(low, high)
        ping = frame(PING, b"12345678") * 4096
        peer.sock.settimeout(2)
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(400):
                peer.send(ping)
                sent += 4096
        print("# %d pings" % sent)
        # On a slow machine the flood lasts longer than a link waits for a peer that takes nothing.
        assert high.state(low) == UP or high.nl.stat("LinkStalled") == 1
        peer.close()


@claim
def changed_identity_moves_the_link():
    with cluster() as c:
        a, b = c.nodes
        b.nl.do("NODE_DEL", node_name=a.name)
        wait(lambda: a.state(b) != UP)
        a.nl.do("LOCAL_SET", local_name="renamed")
        b.nl.do("NODE_NEW", node_name="renamed", node_addr4=a.ip)
        wait(lambda: b.nl.node("renamed")["NODE_STATE"] == UP)
        wait(lambda: a.state(b) == UP)


@claim
def namespace_deleted_under_traffic():
    for round_ in range(rounds(5, 2)):
        with cluster() as c:
            a, b = c.nodes
            stop = threading.Event()

            def pour(x, y):
                while not stop.is_set():
                    try:
                        x.test("storm %s 5000 3000" % y.name)
                    except OSError:
                        return
            threads = [threading.Thread(target=pour, args=p) for p in ((a, b), (b, a))]
            for t in threads:
                t.start()
            time.sleep(0.3 + 0.1 * round_)
            a.nl.do("NODE_DEL", node_name=b.name)
            b.nl.close()
            c.net.delete(b.ns)
            stop.set()
            for t in threads:
                t.join()


@claim
def module_unloaded_under_traffic():
    for round_ in range(rounds(3, 2)):
        run("modprobe", "flotilla")
        with cluster(2, listed=False) as c:
            low, high = listening(c)
            peer = greeted(low, high)
            stop = threading.Event()

            def pour():
                try:
                    while not stop.is_set():
                        peer.send(frame(PING, b"12345678") * 50 + frame(0x20, b"x" * 5000))
                except OSError:
                    pass
            thread = threading.Thread(target=pour)
            thread.start()
            time.sleep(0.2 + 0.2 * round_)
            for node in c.nodes:
                node.nl.close()
            if round_ == 0:
                run("rmmod", "flt_link_test")
            run("rmmod", "flotilla")
            stop.set()
            thread.join()
            assert peer.gone() is not None
    run("modprobe", "flotilla")


if __name__ == "__main__":
    assert struct.calcsize("!IB") == 5 and inside
    main_with("flotilla", "flt_link_test")

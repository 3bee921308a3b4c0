#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both minutes on either kernel
"""Speculative admission while listeners, nodes, modules come and go, and nodes that say what is not so."""
import os
import socket
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from admitted import Admits, Server                             # noqa: E402
from chain import HAS_ORIGIN, NEW, ORIGIN               # noqa: E402
from hof import E, PATIENCE, REFUSAL, SLOW, VIP4, claim, main, rounds, run, wait  # noqa: E402
from mallory import ACK, HANDOFF, HEAD, LIFE, NAK, RECORD, Mallory, unheard  # noqa: E402
from policed import SERVICE, Nodes, get                 # noqa: E402

NOTIFY = E["FLT_FEATURE_NOTIFY"]
ROOM = 4
MOVED, SURPLUS = 1 << 4, 1 << 5
VIP = bytes([10, 9, 0, 200])


def room(ident=1, port=80, server=VIP):
    """What a node says that has room again."""
    return RECORD.pack(ident, 4, ROOM, 4711, port, bytes(16), server.ljust(16, b"\0"))


def offered(line):
    """The next HANDOFF: its number, its flags, its checkpoint."""
    body = line.await_kind(HANDOFF)[1]
    ident, flags, _ = HEAD.unpack_from(body)
    return ident, flags & 0xff, body[HEAD.size + (ORIGIN.size if flags & HAS_ORIGIN else 0):]


@claim
def a_listener_closes_and_its_surplus_is_given_back():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32")
        for _ in range(2):
            a.fills(97, 32)
            before = a.admission()["dropped"]
            a.serves(64)
            wait(lambda before=before: a.admission()["dropped"] == before + 32)
            s = a.sum()
            assert (s["waiting"], s["window"]) == (0, 32), s
            wait(lambda: a.queue() == (0, 96))
            a.leaves(list(a.opened))
        # So does a client that goes without a word.
        came = a.fills(97, 32)
        a.leaves(came[70:80])
        a.starts()
        # Whose end is read before it is seen has kept its client until then.
        wait(lambda: a.sum()["dropped"] + a.sum()["kept"] == 74)
        assert [a.asks(client) for client in came[60:70]] == ["be1"] * 5 + ["be2"] * 5


def shared(node, backlog=64):
    """One of any number of listeners of the service."""
    with node.inside():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((VIP4, 80))
        sock.listen(backlog)
    return sock


@claim
def as_many_listeners_as_there_are_get_their_lengths_back():
    """More than are looked at in one go, the first of them not those that were the first."""
    with Nodes(listening=False) as a:
        def lengths(node=a.be[0]):
            return [int(line.split()[2]) for line in node.output("ss", "-Htln", "sport = :80").splitlines()]
        a.policy("simple", "be2", "admit=32")
        for number in (250, 100):
            a.listeners += [shared(a.be[0]) for _ in range(number)]
            wait(lambda: set(lengths()) == {96}, 120 * SLOW)
        assert len(lengths()) == 350
        a.flotilla("policy", "off", SERVICE)
        assert set(lengths()) == {64}, lengths()


@claim
def a_listener_that_is_bound_to_a_device_gets_its_length_back():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32")
        assert a.queue()[1] == 96
        a.servers["be1"].listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0\0")
        a.flotilla("policy", "off", SERVICE)
        assert a.queue()[1] == 64, a.queue()


@claim
def a_node_dies_and_its_surplus_is_served_here():
    with Admits() as a:
        a.policy("simple", "be2", "admit=32")
        came = a.fills(97, 32)
        a.impatient()
        a.be[1].run("ip", "link", "set", "eth0", "down")
        a.starts()
        answers = [a.asks(client) for client in reversed(came)]
        assert answers == ["be1"] * 97, answers
        s = a.sum()
        assert (s["moved"], s["rejected"], s["waiting"]) == (0, 32, 0) and s["closed"] >= 1, s
        assert a.be[0].stat("HandoffRefusedTimeout") >= 1


@claim
def the_module_goes_and_whoever_was_let_in_is_served():
    with Admits() as a:
        for _ in range(3):
            a.policy("simple", "be2", "admit=32")
            came = a.fills(97, 32)
            a.flotilla("policy", "off", SERVICE)
            assert a.queue() == (97, 64), a.queue()
            a.starts()
            assert [a.asks(client) for client in came] == ["be1"] * 97
            a.leaves(came)
            a.serves(64)
        a.policy("simple", "be2", "admit=32")
        came = a.fills(97, 32)
        a.servers.pop("be2").stop()
        run("rmmod", "handoff")
        assert a.queue() == (97, 64), a.queue()
        a.starts()
        assert [a.asks(client) for client in came] == ["be1"] * 97
        run("modprobe", "handoff")


@claim
def a_namespace_goes_with_surplus_in_its_queue():
    for _ in range(2):
        with Admits() as a:
            a.policy("simple", "be2", "admit=32")
            a.fills(97, 32)
    run("rmmod", "handoff")
    run("modprobe", "handoff")


@claim
def two_that_come_at_once_do_not_get_the_same_place():
    with Admits(backlog=1024) as a:
        a.starts()
        a.policy("simple", "be2", "admit=3", "admit_base=1", "admit_quota=1")
        over, wrong = threading.Event(), []

        def looks():
            while not over.is_set():
                s = a.admission()
                if s["waiting"] > 3 or not 0 <= s["window"] <= 3:
                    wrong.append(s)

        def comes_and_goes():
            for _ in range(rounds(40, 20)):
                client = a.knock(seconds=PATIENCE)
                if client:
                    a.leaves([client])
        crowd = [threading.Thread(target=looks)] + [threading.Thread(target=comes_and_goes) for _ in range(4)]
        for one in crowd:
            one.start()
        for one in crowd[1:]:
            one.join()
        over.set()
        crowd[0].join()
        assert not wrong, wrong[0]
        wait(lambda: not a.admission()["waiting"])
        assert a.sum()["tagged"] > 10


@claim
def a_node_that_says_what_is_not_so_opens_and_closes_nothing():
    with Admits(backlog=1024) as a:
        a.starts()
        mallory = Mallory(a)
        line = mallory.meet(a.be[0], features=NEW | NOTIFY)
        other = Mallory(a, "other", 10)
        away = other.meet(a.be[0], features=NEW | NOTIFY)
        a.policy("simple", "mallory", "admit=4", "admit_base=1", "admit_quota=1", "admit_again=0")
        # It rejects what it was never asked to take, and says that it has room for it.
        with unheard(line):
            for _ in range(200):
                line.send(NAK, HEAD.pack(77, E["FLT_REFUSE_FULL"], 0))
                line.send(LIFE, room())
            wait(lambda: a.be[0].stat("AdmitRoomIgnored") == 200)
        s = a.sum()
        assert (s["closed"], s["notified"], s["window"]) == (0, 0, 4), s
        # Another one than that which had none, another service, a family that is none.
        line.sock.settimeout(PATIENCE)
        refused = next(c for c in iter(a.knock, None) if a.admission()["waiting"])
        refused.sendall(get("/"))
        mallory.take(a.be[0], E["FLT_REFUSE_FULL"])
        wait(lambda: a.sum()["closed"] == 1)
        before = a.be[0].stat("AdmitRoomIgnored")
        away.send(LIFE, room())
        line.send(LIFE, room(port=81) + room(server=bytes([10, 9, 0, 201])))
        line.send(LIFE, RECORD.pack(1, 9, ROOM, 0, 80, bytes(16), VIP.ljust(16, b"\0")))
        wait(lambda: a.be[0].stat("AdmitRoomIgnored") == before + 4)
        s = a.sum()
        assert (s["closed"], s["notified"], s["window"]) == (1, 0, 0), s
        # What it may say, again and again: once it opens.
        with unheard(line):
            for _ in range(100):
                line.send(LIFE, room())
            wait(lambda: a.be[0].stat("AdmitRoomIgnored") == before + 4 + 99)
        assert a.sum()["notified"] == 1 and a.be[0].stat("AdmitNotified") == 1
        for who in (mallory, other):
            who.close()


@claim
def an_older_node_is_neither_asked_to_say_nor_told():
    with Admits(backlog=1024) as a:
        a.starts()
        mallory = Mallory(a)
        for features, flags in ((NEW, MOVED), (NEW | NOTIFY, MOVED | SURPLUS)):
            line = mallory.meet(a.be[0], features=features)
            there = mallory.meet(a.be[1], "FRONTEND", features=features)
            a.policy("simple", "mallory", "admit=4", "admit_base=1", "admit_quota=1", "admit_again=1")
            client = next(c for c in iter(a.knock, None) if a.admission()["waiting"])
            client.sendall(get("/"))
            ident, said, wire = offered(line)
            assert said & ~0xf == flags, "%x" % said
            line.send(NAK, HEAD.pack(ident, E["FLT_REFUSE_FULL"], 0))
            # As a giver it is refused for want of room; there is some soon.
            a.be[1].sysctl("net.flotilla.adopt", 0)
            before = a.be[1].stat("AdmitRoomTold")
            there.send(HANDOFF, HEAD.pack(4711, MOVED | SURPLUS, 0) + wire)
            kind, answer = there.await_kind(ACK, NAK)
            assert kind == NAK and REFUSAL[HEAD.unpack(answer)[1]] == "policy"
            a.be[1].sysctl("net.flotilla.adopt", 1)
            if features & NOTIFY:
                record = RECORD.unpack(there.await_kind(LIFE)[1])
                assert record[0] == 4711 and record[2] == ROOM and record[4] == 80 and record[6][:4] == VIP, record
            else:
                time.sleep(0.5)
            assert a.be[1].stat("AdmitRoomTold") == before + bool(features & NOTIFY)
            for node in a.be:
                mallory.leave(node)
        mallory.close()


@claim
def a_node_is_owed_no_more_than_a_few_words():
    """It gives what is refused, again and again, and of as many services as it likes."""
    with Admits(backlog=1024) as a:
        a.starts()
        a.servers["be2"].stop()
        a.servers["be2"] = Server(a.be[1], 1024, address="0.0.0.0")
        mallory = Mallory(a)
        line = mallory.meet(a.be[0], features=NEW | NOTIFY)
        there = mallory.meet(a.be[1], "FRONTEND", features=NEW | NOTIFY)
        a.policy("simple", "mallory", "admit=4", "admit_base=1", "admit_quota=1")
        client = next(c for c in iter(a.knock, None) if a.admission()["waiting"])
        client.sendall(get("/"))
        ident, _, wire = offered(line)
        line.send(NAK, HEAD.pack(ident, E["FLT_REFUSE_FULL"], 0))
        assert wire.count(VIP) == 1

        def refused(wires):
            a.be[1].sysctl("net.flotilla.adopt", 0)
            for number, one in enumerate(wires):
                there.send(HANDOFF, HEAD.pack(number + 1, MOVED | SURPLUS, 0) + one)
                there.await_kind(NAK)
            a.be[1].sysctl("net.flotilla.adopt", 1)
        refused([wire] * 40)
        # Of one service once, with the last number.
        assert RECORD.unpack(there.await_kind(LIFE)[1])[0] == 40
        time.sleep(0.3)
        assert a.be[1].stat("AdmitRoomTold") == 1
        # Of what is no service it hears nothing, whatever listens there.
        refused([wire.replace(VIP, bytes([10, 9, 2, 1]))])
        time.sleep(0.3)
        assert a.be[1].stat("AdmitRoomTold") == 1
        for number in range(1, 41):
            a.be[1].nl.do("SERVICE_NEW", service_addr4="10.9.1.%d" % number)
        refused(wire.replace(VIP, bytes([10, 9, 1, number])) for number in range(1, 41))
        wait(lambda: a.be[1].stat("AdmitRoomTold") >= 9)
        time.sleep(0.3)
        assert a.be[1].stat("AdmitRoomTold") == 9
        for node in a.be:
            mallory.leave(node)
        mallory.close()


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")

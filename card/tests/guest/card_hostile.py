#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug it takes ten minutes there
"""A node gone bad holds up nobody who ends what it has: it gives and takes bytes one by one, it
never answers, it asks for more than there is memory."""
import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import MIB, SLOW, attach, chunks, disks, export, pair, read_error, run, stat, wait_up  # noqa: E402
from cluster import frame, twice_a_second               # noqa: E402
from netns import SysfsView                             # noqa: E402
from peer import (ATTACH, BLOCK, DATA, DONE, PEER, READ, WRITE, Exporter, Peer, answer_data,  # noqa: E402
                  answer_done, ask_attach, block, meeting)
from tap import Skip, claim, free_memory, main, wait    # noqa: E402

IO = 512 * 1024         # CARD_IO_MAX
NODE_BYTES = 64 * MIB   # CARD_NODE_BYTES
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
EBUSY, NOLOOKUP = 16, 2


def start(node, *words):
    return subprocess.Popen(["ip", "netns", "exec", node.ns, "flotilla", "card", *words],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def took(process, seconds):
    """It must end; the seconds that it took. Who hangs is not left behind: the caller ends its cause."""
    begin = time.monotonic()
    process.wait(seconds * SLOW)
    return time.monotonic() - begin


@claim
def an_export_ends_while_a_write_comes_byte_by_byte():
    with meeting("write") as (b, peer):
        _, epoch, number, _ = peer.attach(flags=1)
        head = block(epoch=epoch, export_id=number, size=IO, op=1)
        peer.send(frame(WRITE, head, length=len(head) + IO))
        with twice_a_second(lambda: peer.sock.sendall(b"x")):
            # The exporter has seen it when it answers what came before its data.
            time.sleep(1)
            print("# %.1f s" % took(start(b, "unexport", "data"), 20))


@claim
def an_export_ends_while_its_answers_are_taken_bit_by_bit():
    with meeting() as (b, peer):
        _, epoch, number, _ = peer.attach()
        for i in range(64):
            peer.say(READ, block(epoch=epoch, export_id=number, size=IO, tag=i))
        with twice_a_second(lambda: (peer.sock.recv(4096), peer.send(frame(2, bytes(8))))):
            wait(lambda: stat(b, "CardServed") > 8, 60 * SLOW)
            print("# %.1f s" % took(start(b, "unexport", "data"), 20))


@claim
def force_ends_a_disk_whose_data_comes_byte_by_byte():
    with meeting(exported=False) as (b, peer), contextlib.ExitStack() as stack:
        def drip(body):
            exporter.mute = True
            peer.send(frame(DATA, body, length=len(body) + struct.unpack(BLOCK, body)[3]))
            stack.enter_context(twice_a_second(lambda: peer.sock.sendall(b"x")))
        exporter = Exporter(peer, drip)
        stack.callback(exporter.close)
        hung = start(b, "attach", "n1", "data")
        wait(lambda: exporter.reads, 60 * SLOW)
        run("ip", "netns", "exec", b.ns, "flotilla", "card", "detach", "n1", "data", "force")
        # The link lives for half a minute by such signs of life, and not longer.
        print("# %.1f s" % took(hung, 60))
        wait(lambda: not [n for n in os.listdir("/sys/block") if n.startswith("card")], 60 * SLOW)


def loadable(names):
    """The first of these modules that is not loaded and can be."""
    with open("/proc/modules", encoding="ascii") as f:
        there = {line.split()[0] for line in f}
    for name in names:
        if name not in there and not subprocess.run(
                ["modprobe", "-n", "-q", name], check=False).returncode:
            return name
    return None


@claim
def generic_netlink_does_not_wait_for_an_exporter_that_never_answers():
    # A family that comes waits for all commands under way, and all later ones wait for it.
    family = loadable(("nbd", "l2tp_netlink", "wireguard", "team", "psample"))
    if not family:
        raise Skip("no module here has a family of generic netlink")
    with meeting(exported=False) as (b, peer):
        exporter = Exporter(peer, lambda body: None)
        try:
            hung = start(b, "attach", "n1", "data")
            wait(lambda: exporter.reads, 60 * SLOW)
            with subprocess.Popen(["modprobe", family]) as loading:
                print("# %s after %.1f s" % (family, took(loading, 60)))
            print("# attached after %.1f s more" % took(hung, 60))
            run("ip", "netns", "exec", b.ns, "flotilla", "card", "detach", "n1", "data", "force")
            wait(lambda: not [n for n in os.listdir("/sys/block") if n.startswith("card")],
                 60 * SLOW)
        finally:
            exporter.close()
        run("modprobe", "-r", family)


@claim
def attaching_can_be_interrupted_and_leaves_nothing():
    with meeting(exported=False) as (b, peer):
        exporter = Exporter(peer, lambda body: None)
        try:
            hung = start(b, "attach", "n1", "data")
            wait(lambda: exporter.reads, 60 * SLOW)
            hung.terminate()
            took(hung, 10)
            wait(lambda: not [n for n in os.listdir("/sys/block") if n.startswith("card")],
                 60 * SLOW)
            assert not disks(b)
        finally:
            exporter.close()


@claim
def who_takes_no_answers_gets_no_more_of_the_memory_by_attaching_again():
    with meeting(size=64 * MIB) as (b, peer):
        _, epoch, number, _ = peer.attach()
        before, asked, words = free_memory(), 0, b""
        for _ in range(3):
            words += frame(ATTACH, ask_attach())
            for i in range(160):
                asked += 1
                words += frame(READ, block(epoch=epoch, export_id=number, size=IO, tag=i,
                                           gen=4 * asked, sector=i % 120 * 1024, flags=NOLOOKUP))
        peer.sock.sendall(words)
        with twice_a_second(lambda: peer.send(frame(2, bytes(8)))):
            wait(lambda: stat(b, "CardServed") + stat(b, "CardSessionFull") >= asked, 60 * SLOW)
            taken = before - free_memory()
        print("# %d MB for %d MB" % (taken >> 20, asked * IO >> 20))
        assert taken < max(NODE_BYTES, MEMORY // 64) + 64 * MIB
        # What it does not get it may ask for again.
        with contextlib.suppress(OSError):
            status = struct.unpack(BLOCK, peer.answer(DONE))[8]
        assert status == EBUSY


@claim
def a_late_answer_finds_no_request_of_a_scheduler_that_was_replaced():
    asks = []

    def read(ask):
        peer.send(answer_data(ask))
        asks.append(ask)
    with meeting(exported=False) as (b, peer), contextlib.closing(Exporter(peer, read)):
        card = attach(b, "data")
        path = "/sys/block/%s/queue/scheduler" % card
        with open(path, encoding="ascii") as f:
            if "mq-deadline" not in f.read():
                raise Skip("there is no second scheduler")
        late = stat(b, "CardLateReplies")
        for _ in range(20):
            for scheduler in "mq-deadline", "none":
                with twice_a_second(lambda: peer.send(answer_done(asks[-1], EBUSY)), every=.02):
                    with open(path, "w", encoding="ascii") as f:
                        f.write(scheduler)
                assert read_error("/dev/" + card, at=65536)[0] == 0
        assert stat(b, "CardLateReplies") > late
        run("ip", "netns", "exec", b.ns, "flotilla", "card", "detach", card, "force")


@claim
def who_asks_a_cache_and_takes_no_answers_holds_little_of_its_memory():
    """Node 1 is a socket, node 2 exports, and node 3 has all of the disk in its page cache."""
    size = 40 * MIB
    with pair(3, size=size, offered=False) as (c, disk):
        a, b, d = c.nodes
        for node in b, d:
            a.nl.do("NODE_DEL", node_name=node.name)
            node.nl.do("NODE_DEL", node_name=a.name)
            node.sysfs("links/heartbeat_ms", "60000")
        export(b, "data", disk.device, "policy", "hscc", "host", "0", nodes="n1,n3")
        card = attach(d, "data", "host", "0", of="n2")
        b.list(a)
        with contextlib.closing(Peer(a, b).greet()) as peer:
            _, epoch, number, _ = peer.attach()
        # What leaves the page cache of node 3 is nobody's.
        evict = os.path.join(SysfsView.of(d.ns).path, "class/card", card, "evict")
        with open(evict, "w", encoding="ascii") as f:
            f.write("none")
        before = free_memory()
        fd = os.open("/dev/" + card, os.O_RDONLY)
        for _ in chunks("/dev/" + card):
            pass
        d.list(a)
        peer = Peer(a, d).greet()
        wait_up(d, a)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        asked = size // 4096
        for i in range(asked):
            peer.say(PEER, block(epoch=epoch, export_id=number, sector=8 * i, tag=i, origin=1))
        wait(lambda: stat(d, "CardPeerServed") >= asked * 9 // 10, 60 * SLOW)
        os.close(fd)        # the last one: its pages go
        wait(lambda: before - free_memory() < 24 * MIB)
        peer.close()


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "card")
    try:
        main()
    finally:
        subprocess.run(["rmmod", "card_hscc"], check=False, stderr=subprocess.DEVNULL)
        run("rmmod", "card")

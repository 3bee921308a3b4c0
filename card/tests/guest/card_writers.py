#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both a minute and a half, and on the debug kernel it takes ten minutes
"""A disk has one writer, unless all say that they share it; whose place was taken writes nothing more."""
import contextlib
import os
import random
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, attach, cut, detach, disks, errno, export, exports, hash_of,  # noqa: E402
                  mapped, mend, pair, read_error, refused, run, stat, state, tool, wait_live,
                  write_error)
from peer import BLOCK, DETACH, DONE, WRITE, Fake, Peer, block, crc32c  # noqa: E402
from tap import claim, main, wait                       # noqa: E402

EBUSY, EKEYREVOKED, WROTE = 16, 128, 0
PATIENT = ("timeout", "1000", "retries", "600")


def writers(size=MIB, n=3, words=("write",)):
    return pair(n, size=size, words=words, nodes=",".join("n%d" % i for i in range(2, n + 1)))


def heartbeat(c, ms):
    for node in c.nodes:
        node.sysfs("links/heartbeat_ms", str(ms))


def fill(card, byte, at=0, size=65536):
    return write_error("/dev/" + card, at, bytes([byte]) * size)[0]


def on_disk(disk, at=0, size=65536):
    with open(disk.path, "rb") as f:
        f.seek(at)
        return set(f.read(size))


@claim
def a_second_writer_is_refused_and_hears_who_writes():
    with writers() as (c, disk):
        a, b, d = c.nodes
        card = attach(b, "data", "write")
        assert exports(a)["data"]["writer"] == "n2"
        refused("n2 writes to it", d, "attach", "n1", "data", "write")
        assert not disks(d) and exports(a)["data"]["sessions"] == 1
        # Who only reads disturbs nobody.
        reader = attach(d, "data")
        assert fill(card, 1) == 0
        assert hash_of("/dev/" + reader, direct=True) == disk.hash()
        detach(d, reader)
        # The place is free when its writer has left.
        detach(b, card)
        assert exports(a)["data"]["writer"] == ""
        card = attach(d, "data", "write")
        assert fill(card, 2) == 0 and on_disk(disk) == {2}
        refused("n3 writes to it", b, "attach", "n1", "data", "write")


@claim
def the_writer_goes_on_after_a_cut_and_after_another_export():
    with writers() as (c, disk):
        a, b, d = c.nodes
        card = attach(b, "data", "write", *PATIENT)
        cut(c, 2)
        wait(lambda: state(b, card) != "live" and a.state(b) != 2, 60 * SLOW)
        # That it is cut off does not mean that it is gone.
        refused("n2 writes to it", d, "attach", "n1", "data", "write")
        mend(c, 2)
        wait_live(b, card)
        assert fill(card, 1) == 0 and on_disk(disk) == {1}
        # Nor does another export of the disk, before its writer is back.
        cut(c, 2)
        wait(lambda: a.state(b) != 2, 60 * SLOW)
        tool(a, "unexport", "data")
        export(a, "data", disk.device, "write", nodes="n2,n3")
        refused("n2 writes to it", d, "attach", "n1", "data", "write")
        # Or under another name.
        tool(a, "unexport", "data")
        export(a, "other", disk.device, "write", nodes="n2,n3")
        refused("n2 writes to it", d, "attach", "n1", "other", "write")
        tool(a, "unexport", "other")
        export(a, "data", disk.device, "write", nodes="n2,n3")
        mend(c, 2)
        wait_live(b, card)
        assert fill(card, 2) == 0 and on_disk(disk) == {2}


@claim
def whose_place_was_taken_while_it_was_cut_off_writes_nothing_more():
    with writers() as (c, disk):
        a, b, d = c.nodes
        old = attach(b, "data", "write", *PATIENT)
        assert fill(old, 1) == 0
        cut(c, 2)
        wait(lambda: a.state(b) != 2, 60 * SLOW)
        # Data that waits in the page cache and on the way of who is cut off.
        late = os.open("/dev/" + old, os.O_WRONLY)
        os.pwrite(late, b"\x02" * 65536, 0)
        got = []
        flush = threading.Thread(target=lambda: got.append(fill(old, 3, at=65536)))
        flush.start()
        wait(lambda: disks(b)[old]["in_flight"], 60 * SLOW)
        new = attach(d, "data", "write", "steal")
        assert exports(a)["data"]["writer"] == "n3"
        assert fill(new, 4, size=131072) == 0
        mend(c, 2)
        flush.join(60 * SLOW)
        assert got and got[0] == errno.EIO, got
        wait(lambda: "taken our place" in disks(b)[old].get("reason", ""), 60 * SLOW)
        with contextlib.suppress(OSError):
            os.fsync(late)
        with contextlib.suppress(OSError):
            os.close(late)
        assert on_disk(disk, size=131072) == {4}
        # For ever: what it has in memory is old even if nobody writes any more.
        detach(d, new)
        assert exports(a)["data"]["writer"] == ""
        time.sleep(3)
        assert state(b, old) == "refused" and fill(old, 5) == errno.EIO
        assert read_error("/dev/" + old)[0] == errno.EIO
        tool(a, "unexport", "data")
        export(a, "data", disk.device, "write", nodes="n2,n3")
        time.sleep(3)
        assert fill(old, 5) == errno.EIO and on_disk(disk, size=131072) == {4}
        # Only an attachment that begins anew.
        detach(b, old)
        assert fill(attach(b, "data", "write"), 6) == 0 and on_disk(disk) == {6}


@claim
def a_place_is_stolen_from_who_writes_and_no_write_of_his_comes_after():
    seed = int(os.environ.get("CARD_SEED", "11"))
    rounds = int(os.environ.get("CARD_ROUNDS", "6"))
    print("# seed %d, %d rounds" % (seed, rounds))
    rnd = random.Random(seed)
    with writers() as (c, disk):
        nodes = c.nodes[1:]
        card, who = attach(nodes[0], "data", "write"), 0
        for i in range(rounds):
            fio = subprocess.Popen(["fio", "--name=w", "--filename=/dev/" + card, "--direct=1",
                                    "--rw=randwrite", "--bs=64k", "--iodepth=16", "--size=1m",
                                    "--ioengine=libaio", "--time_based", "--runtime=1000",
                                    "--buffer_pattern=0xff", "--minimal"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait(lambda n=nodes[who], k=card: disks(n)[k]["in_flight"], 60 * SLOW)
            time.sleep(rnd.random() / 4)
            new = attach(nodes[1 - who], "data", "write", "steal")
            assert fill(new, i + 1, size=MIB) == 0
            with contextlib.suppress(subprocess.TimeoutExpired):
                fio.wait(120 * SLOW)
            assert fio.returncode, "the one that was fenced has heard nothing of it"
            assert on_disk(disk, size=MIB) == {i + 1}, "written after its place was taken"
            detach(nodes[who], card, "force")
            card, who = new, 1 - who


@claim
def the_new_writer_waits_for_what_the_exporters_disk_still_does_for_the_old_one():
    with writers() as (c, disk):
        a, b, d = c.nodes
        tool(a, "unexport", "data")
        with mapped("cardslow", "0 %d linear %s 0" % (disk.size // 512, disk.device)) as path:
            export(a, "data", path, "write", nodes="n2,n3")
            old = attach(b, "data", "write", *PATIENT)
            run("dmsetup", "suspend", "--noflush", "--nolockfs", "cardslow")
            got, begun = [], stat(a, "CardServeThread")
            writer = threading.Thread(target=lambda: got.append(fill(old, 1)))
            writer.start()
            wait(lambda: stat(a, "CardServeThread") > begun, 60 * SLOW)
            time.sleep(1)               # it is at the disk
            done = []
            thief = threading.Thread(target=lambda: done.append(
                attach(d, "data", "write", "steal", "timeout", "60000")))
            thief.start()
            wait(lambda: exports(a)["data"]["writer"] == "n3", 60 * SLOW)
            time.sleep(3)               # it asks again and again
            # What is granted may take longer to be there: who looks for partitions waits for the disk.
            assert exports(a)["data"]["sessions"] == 1, "granted while a write of the old one was under way"
            assert not done
            run("dmsetup", "resume", "cardslow")
            thief.join(60 * SLOW)
            assert done and fill(done[0], 2) == 0
            writer.join(60 * SLOW)
            assert on_disk(disk) == {2}
            detach(b, old, "force")
            detach(d, done[0])
            tool(a, "unexport", "data")


@claim
def a_node_that_is_removed_or_attaches_anew_has_given_up_its_place():
    with writers() as (c, disk):
        a, b, d = c.nodes
        card = attach(b, "data", "write", "retries", "0")
        a.nl.do("NODE_DEL", node_name="n2")
        assert exports(a)["data"]["writer"] == ""
        new = attach(d, "data", "write")
        a.list(b)
        wait(lambda: "taken our place" in disks(b)[card].get("reason", ""), 60 * SLOW)
        assert fill(card, 1) == errno.EIO and fill(new, 2) == 0 and on_disk(disk) == {2}
        detach(b, card)
        # The farewell is lost: but a node has a disk once, so the old attachment is no more.
        cut(c, 3)
        detach(d, new)
        wait(lambda: a.state(d) != 2, 60 * SLOW)
        mend(c, 3)
        wait(lambda: a.state(d) == 2 and d.state(a) == 2, 60 * SLOW)
        new = attach(d, "data", "write")
        assert fill(new, 3) == 0


@claim
def those_who_say_shared_write_together_and_only_with_each_other():
    with writers(words=("write", "shared")) as (c, disk):
        a, b, d = c.nodes
        assert exports(a)["data"]["shared"]
        refused("shared", b, "attach", "n1", "data", "write")
        one, two = attach(b, "data", "write", "shared"), attach(d, "data", "write", "shared")
        assert fill(one, 1) == 0 and fill(two, 2, at=65536) == 0
        assert on_disk(disk) == {1} and on_disk(disk, at=65536) == {2}
        assert exports(a)["data"]["writer"] == ""
        for words in (("shared",), ("steal",), ("write", "shared", "steal")):
            refused("", b, "attach", "n1", "other", *words)
        detach(b, one)
        detach(d, two)
        tool(a, "unexport", "data")
        export(a, "data", disk.device, "write", nodes="n2,n3")
        refused("shared", b, "attach", "n1", "data", "write", "shared")
        refused("say write", a, "export", "x", "device", disk.device, "nodes", "n2", "shared")
        assert not disks(b) and not disks(d)


@claim
def who_does_not_ask_again_is_fenced_all_the_same():
    """A node of another make, or gone bad: it writes with the session that it had."""
    with Fake(n=3) as f:
        heartbeat(f.c, 10000)   # it answers only while it is asked something
        for node in f.c.nodes[:2]:
            tool(node, "unexport", "data")
        export(f.exporter, "data", f.disk.device, "write", nodes="n1,n3")
        status, epoch, number, _ = f.peer.attach(flags=1)
        assert status == WROTE and f.peer.grant
        grant = f.peer.grant

        def write(byte):
            body = block(epoch=epoch, export_id=number, op=1, crc=CRC[byte]) + bytes([byte]) * 4096
            return struct.unpack(BLOCK, f.peer.say(WRITE, body).answer(DONE))[8]
        assert write(1) == WROTE and on_disk(f.disk, size=4096) == {1}
        # Its place is taken: it writes no more, nor when that one has left.
        thief = attach(f.c.nodes[2], "data", "write", "steal", of="n2")
        assert fill(thief, 3, size=4096) == 0
        assert write(2) != WROTE, "written after its place was taken"
        detach(f.c.nodes[2], thief)
        assert write(2) != WROTE and on_disk(f.disk, size=4096) == {3}
        assert f.peer.attach(flags=1)[0] == WROTE
        assert write(2) == WROTE and on_disk(f.disk, size=4096) == {2}
        grant = f.peer.grant
        # It attaches anew: its earlier attachment has lost its place.
        assert f.peer.attach(flags=1)[0] == WROTE and f.peer.grant > grant
        newer = f.peer.grant
        assert f.peer.attach(flags=1, grant=grant)[0] == EKEYREVOKED
        assert f.peer.attach(flags=1, grant=newer)[0] == WROTE
        # Readers do not write, whatever they had before.
        assert f.peer.attach(flags=0)[0] == WROTE
        assert write(1) != WROTE and on_disk(f.disk, size=4096) == {2}


@claim
def a_number_of_an_exporters_earlier_life_takes_no_place_that_was_given_in_this_one():
    """Clocks go back: numbers of two lives say nothing about who came later."""
    with Fake() as f:
        for node in f.c.nodes:
            tool(node, "unexport", "data")
        export(f.exporter, "data", f.disk.device, "write", nodes="n1")
        assert f.peer.attach(flags=1)[0] == WROTE
        grant, life = f.peer.grant, f.peer.life
        assert f.peer.attach(flags=1, grant=grant + (1 << 60), life=7)[0] == EKEYREVOKED
        assert f.peer.attach(flags=1, grant=grant, life=life)[0] == WROTE and f.peer.life == life
        # Where all come from an earlier life, the last of that one is right.
        tool(f.exporter, "unexport", "data")
        export(f.exporter, "data", f.disk.device, "write", "uuid",
               "00000000-0000-4000-8000-00000000beef", nodes="n1")
        for number, answer in ((5, WROTE), (9, WROTE), (5, EKEYREVOKED), (9, WROTE)):
            assert f.peer.attach(flags=1, grant=number, life=7)[0] == answer, number
        assert f.peer.attach(flags=1)[0] == WROTE and f.peer.grant > 9
        assert f.peer.attach(flags=1, grant=9, life=7)[0] == EKEYREVOKED


@claim
def a_number_that_was_never_given_takes_no_place():
    with Fake() as f:
        for node in f.c.nodes:
            tool(node, "unexport", "data")
        export(f.exporter, "data", f.disk.device, "write", nodes="n1")
        _, epoch, number, _ = f.peer.attach(flags=1)
        grant, life = f.peer.grant, f.peer.life
        assert grant

        def only_the_last_one_is_good():
            for made_up in (grant + 1, grant + (1 << 60), (1 << 64) - 1, grant - 1, 1):
                for of in life, 7, 0:
                    assert f.peer.attach(flags=1, grant=made_up, life=of)[0] == EKEYREVOKED, made_up
            assert f.peer.attach(flags=1, grant=grant, life=life)[0] == WROTE
            assert f.peer.grant == grant
        only_the_last_one_is_good()
        # Who left the place and came back with what was given to him makes no number good.
        f.peer.say(DETACH, struct.pack(">QII", epoch, number, 0))
        assert f.peer.attach(flags=1, grant=grant, life=life)[0] == WROTE
        only_the_last_one_is_good()


@claim
def a_number_is_good_for_the_node_that_it_was_given_to():
    with pair(3, size=MIB, offered=False) as (c, disk), contextlib.ExitStack() as stack:
        exporter, peers = c.nodes[2], []
        heartbeat(c, 10000)     # they answer only while they are asked something
        for node in c.nodes[:2]:
            # The lower address connects.
            exporter.nl.do("NODE_DEL", node_name=node.name)
            node.nl.do("NODE_DEL", node_name=exporter.name)
        export(exporter, "data", disk.device, "write", nodes="n1,n2")
        for node in c.nodes[:2]:
            exporter.list(node)
            peers.append(stack.enter_context(contextlib.closing(Peer(node, exporter).greet())))
        one, two = peers
        assert one.attach(flags=1)[0] == WROTE
        grant, life = one.grant, one.life
        for of in life, 7:
            assert two.attach(flags=1, grant=grant, life=of)[0] == EKEYREVOKED
        assert exports(exporter)["data"]["writer"] == "n1"
        assert one.attach(flags=1, grant=grant, life=life)[0] == WROTE
        # Nor when nobody has the place, or after an earlier life of the exporter's.
        exporter.nl.do("NODE_DEL", node_name="n1")
        assert two.attach(flags=1, grant=grant, life=life)[0] == EKEYREVOKED
        tool(exporter, "unexport", "data")
        export(exporter, "data", disk.device, "write", "uuid",
               "00000000-0000-4000-8000-00000000feed", nodes="n1,n2")
        exporter.list(c.nodes[0])
        with contextlib.closing(Peer(c.nodes[0], exporter).greet()) as one:
            assert one.attach(flags=1, grant=9, life=7)[0] == WROTE
            assert two.attach(flags=1, grant=9, life=7)[0] == EKEYREVOKED
            assert exports(exporter)["data"]["writer"] == "n1"


CRC = [crc32c(bytes([b]) * 4096) for b in range(3)]


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both a minute and a half, and on the debug kernel it takes five minutes
"""The protocol keeps what the thesis promises of it (chapter 3): who caches what, what overlaps
with what, where it is worked on, and what it is said to cost."""
import contextlib
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, attach, detach, disks, export, hash_of, mapped, pair, read_error,  # noqa: E402
                  run, stat, stats, tool)
from peer import DATA, READ, Fake, block                # noqa: E402
from tap import claim, main, wait                       # noqa: E402

KEEP = 1
TRACE = "/sys/kernel/tracing/"


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def drop_caches():
    run("sync")
    put("/proc/sys/vm/drop_caches", "3")


@claim
def exactly_the_blocks_that_may_be_kept_are_kept():
    # Not later: a link whose PINGs nobody answers does not live as long as that can take.
    with Fake(before=drop_caches) as f:
        _, epoch, number, _ = f.peer.attach()
        before = stat(f.exporter, "CardKeptPages")
        for i in range(32, 64):
            ask = block(epoch=epoch, export_id=number, sector=i * 8, flags=KEEP * (i % 2))
            assert len(f.peer.say(READ, ask).answer(DATA)) == 64 + 4096
        assert stat(f.exporter, "CardKeptPages") == before + 16
        # Now the kept ones come from memory, and only they.
        for i in range(32, 64):
            ask = block(epoch=epoch, export_id=number, sector=i * 8)
            source = f.peer.say(READ, ask).answer(DATA)[struct.calcsize(">QQIIIIIIIHHHB")]
            assert source == i % 2, (i, source)


@contextlib.contextmanager
def slow(c, disk, *words):
    """An export whose disk can be stopped; the reader's device."""
    with mapped("cardslow", "0 %d linear %s 0" % (disk.size // 512, disk.device)) as path:
        export(c.nodes[0], "slow", path)
        card = attach(c.nodes[1], "slow", "timeout", "60000", *words)
        try:
            yield path, card
        finally:
            detach(c.nodes[1], card, "force")
            tool(c.nodes[0], "unexport", "slow")


@contextlib.contextmanager
def stopped():
    run("dmsetup", "suspend", "--noflush", "--nolockfs", "cardslow")
    try:
        yield
    finally:
        run("dmsetup", "resume", "cardslow")


@claim
def many_requests_wait_at_the_disk_and_others_overtake_them():
    with pair(size=MIB, offered=False) as (c, disk), slow(c, disk) as (path, card):
        drop_caches()
        with open(path, "rb") as f:             # the exporter has the first blocks in its cache
            f.read(65536)
        with stopped():
            fio = subprocess.Popen(
                ["fio", "--name=q", "--filename=/dev/" + card, "--direct=1", "--rw=randread",
                 "--bs=4k", "--iodepth=40", "--ioengine=libaio", "--offset=512k", "--minimal"],
                stdout=subprocess.DEVNULL)
            wait(lambda: disks(c.nodes[1])[card]["in_flight"] >= 40, 60 * SLOW)
            assert read_error("/dev/" + card, at=4096)[0] == 0
            assert disks(c.nodes[1])[card]["in_flight"] >= 40
        assert fio.wait(60 * SLOW) == 0
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def a_lone_read_goes_to_the_disk_at_once_and_waits_with_the_thread():
    with pair(size=MIB, offered=False) as (c, disk), slow(c, disk) as (path, card):
        drop_caches()
        with open(path, "rb") as f:
            f.read(65536)
        before = stats(c.nodes[0])

        def more(name):
            return stat(c.nodes[0], name) - before[name]

        assert read_error("/dev/" + card, at=512 * 1024)[0] == 0
        assert more("CardServeInline") == 1 and more("CardServeThread") == 0
        with stopped(), ThreadPoolExecutor(1) as pool:
            # The disk would have to be waited for: the thread does it, and the link's worker goes on.
            late = pool.submit(hash_of, "/dev/" + card, True)
            wait(lambda: more("CardServeThread") >= 1, 30 * SLOW)
            assert read_error("/dev/" + card, at=4096)[0] == 0
            assert not late.done()
            run("dmsetup", "resume", "cardslow")
            assert late.result() == disk.hash()
        assert more("CardDiskErrors") == 0
        assert stat(c.nodes[1], "CardErrors") == stat(c.nodes[1], "CardTimeouts") == 0


@claim
def no_answer_is_dropped_because_the_socket_is_full():
    with pair(size=8 * MIB) as (c, _):
        card = attach(c.nodes[1], "data", "timeout", "60000")
        for bs in ("128k", "512k"):
            subprocess.run(["fio", "--name=q", "--filename=/dev/" + card, "--direct=1", "--rw=read",
                            "--bs=" + bs, "--iodepth=32", "--ioengine=libaio", "--minimal"],
                           stdout=subprocess.DEVNULL, check=True)
        assert stat(c.nodes[0], "CardRepliesNotSent") == 0
        assert stat(c.nodes[1], "CardTimeouts") == 0


@claim
def the_thread_answers_all_when_it_is_told_to():
    with pair(size=MIB, offered=False) as (c, disk), slow(c, disk, "nolookup") as (_, card):
        for deliver in ("async", "sync"):
            tool(c.nodes[0], "set", "slow", "serve", "thread", "deliver", deliver)
            before = stats(c.nodes[0])
            fio = ["fio", "--name=q", "--filename=/dev/" + card, "--direct=1", "--rw=randread",
                   "--bs=4k", "--iodepth=32", "--ioengine=libaio", "--minimal"]
            subprocess.run(fio, stdout=subprocess.DEVNULL, check=True)

            def more(name, old=before):
                return stat(c.nodes[0], name) - old[name]

            wait(lambda: more("CardDeliverThread") >= 256, 30 * SLOW)
            assert more("CardServeThread") == more("CardDeliverThread")
            assert more("CardDeliverSoftirq") == 0
            print("# %s: %d requests, %d wake-ups" % (
                deliver, more("CardServeThread"), more("CardThreadWakeups")))


@claim
def the_exporter_says_how_far_to_read_ahead_unless_told_otherwise():
    with pair(size=MIB) as (c, disk):
        put("/sys/block/%s/queue/read_ahead_kb" % os.path.basename(disk.device), "64")
        for words, pages in (((), 16), (("readahead", "0"), 0), (("readahead", "200"), 200)):
            card = attach(c.nodes[1], "data", *words)
            assert disks(c.nodes[1])[card]["readahead"] == pages
            with open("/sys/block/%s/queue/read_ahead_kb" % card, encoding="ascii") as f:
                assert int(f.read()) == pages * 4
            assert hash_of("/dev/" + card) == disk.hash()
            detach(c.nodes[1], card)


@claim
def two_exporters_of_the_same_device_number_are_two_disks():
    with pair(3, size=MIB, nodes="n3") as (c, disk):
        export(c.nodes[1], "data", disk.device, nodes="n3")
        cards = [attach(c.nodes[2], "data"), attach(c.nodes[2], "data", of="n2")]
        assert {disks(c.nodes[2])[card]["node"] for card in cards} == {"n1", "n2"}
        tool(c.nodes[0], "unexport", "data")
        assert hash_of("/dev/" + cards[1], direct=True) == disk.hash()
        detach(c.nodes[2], cards[0], "force")
        export(c.nodes[0], "data", disk.device)


# Turns of a loop in a second. Not its processor time: what interrupts do on that is charged to it.
WORK = """
import time
end, turns = time.monotonic() + 1, 0
while time.monotonic() < end:
    turns += 1
print(turns)
"""


@claim
def a_program_gets_on_while_requests_flood_its_processor():
    one_cpu = ("taskset", "-c", "0")

    def work():
        return min(int(subprocess.run([*one_cpu, sys.executable, "-c", WORK], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout) for _ in range(3))

    with pair(3, size=MIB, nodes="n2,n3") as (c, disk), contextlib.ExitStack() as floods:
        hash_of(disk.device)                    # now the exporter has it in memory
        cards = [attach(node, "data", "timeout", "60000") for node in c.nodes[1:]]
        alone = work()
        for card in cards:
            fio = subprocess.Popen(
                [*one_cpu, "fio", "--name=f", "--filename=/dev/" + card, "--direct=1",
                 "--rw=randread", "--bs=4k", "--iodepth=64", "--ioengine=libaio", "--minimal",
                 "--time_based", "--runtime=600"], stdout=subprocess.DEVNULL)
            floods.callback(fio.wait, 60 * SLOW)
            floods.callback(fio.terminate)
        wait(lambda: min(stat(n, "CardReads") for n in c.nodes[1:]) > 256, 60 * SLOW)
        before = stat(c.nodes[0], "CardServedCached")
        flooded = work()
        served = stat(c.nodes[0], "CardServedCached") - before
        floods.close()
        alone = min(alone, work())              # others on this machine may have come meanwhile
        print("# %.0f percent of what it does alone, beside %d requests" % (
            100 * flooded / alone, served))
        assert flooded * 50 > alone and served > 256, (alone, flooded, served)
        for node in c.nodes[1:]:
            assert stat(node, "CardErrors") == stat(node, "CardTimeouts") == 0


@claim
def what_a_read_costs_is_told():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data")
        hash_of("/dev/" + card, direct=True)
        cost = stats(c.nodes[1])["read"]
        parts = [cost[k] for k in ("copy_us", "service_us", "disk_us", "network_us")]
        print("# " + " ".join("%s %.0f" % pair for pair in cost.items()))
        assert all(part >= 0 for part in parts) and cost["copy_us"] > 0
        assert abs(sum(parts) - cost["total_us"]) < 1
        detach(c.nodes[1], card)


@claim
def a_read_leaves_its_steps_in_the_trace_in_order():
    if not os.path.exists(TRACE + "trace"):
        run("mount", "-t", "tracefs", "none", TRACE)
    with pair(size=MIB) as (c, _):
        card = "/dev/" + attach(c.nodes[1], "data", "nolookup")
        put(TRACE + "trace", "")
        put(TRACE + "events/card/enable", "1")
        try:
            assert read_error(card, at=131072)[0] == 0
            wait(lambda: steps()[-1:] == ["card_complete"], 30 * SLOW)
        finally:
            put(TRACE + "events/card/enable", "0")
        assert steps() == ["card_send", "card_serve", "card_data", "card_complete"], steps()


def steps():
    with open(TRACE + "trace", encoding="ascii") as f:
        return [word[:-1] for line in f if not line.startswith("#")
                for word in line.split() if word.startswith("card_") and word.endswith(":")]


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug it takes five minutes there
"""What was acknowledged, was not flushed and is lost at the exporter is never called safe."""
import contextlib
import os
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, attach, cut, detach, disks, errno, export, mend, pair, read_error, run,  # noqa: E402
                  stat, tool, wait_live)
from cluster import Node                                # noqa: E402
from direct import Direct                               # noqa: E402
from tap import claim, main, wait                       # noqa: E402

NULLB = "/sys/kernel/config/nullb/cardcache"
OPENED = []
UUID = "0cace000-0000-4000-8000-00000000cafe"


def setting(name, value):
    with open(os.path.join(NULLB, name), "w", encoding="ascii") as f:
        f.write(str(value))


class Cached:
    """A disk of 64 MB with a write cache that is lost when its power goes (null_blk)."""

    path = "/dev/cardcache"

    def __init__(self):
        os.mkdir(NULLB)
        for name, value in (("memory_backed", 1), ("size", 64), ("cache_size", 16),
                            ("blocksize", 4096), ("queue_mode", 2)):
            setting(name, value)
        self.on()

    def on(self):
        setting("power", 1)
        with open("/sys/block/cardcache/queue/write_cache", encoding="ascii") as f:
            assert "back" in f.read(), "this null_blk has no write cache"

    def off(self):
        setting("power", 0)

    def close(self):
        setting("power", 0)
        os.rmdir(NULLB)


@contextlib.contextmanager
def cached():
    """A pair of nodes, the first of which exports such a disk."""
    if not os.path.ismount("/sys/kernel/config"):
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    cache = Cached()
    try:
        with pair(size=MIB, offered=False) as (c, _):
            give(c, cache)
            try:
                yield c, cache
            finally:
                for each in list(OPENED):
                    each.close()
    finally:
        cache.close()


def give(c, cache, *words):
    export(c.nodes[0], "data", cache.path, "write", "uuid", UUID, *words)


class Opened(Direct):
    """A card that is closed with the pair of nodes, at the latest."""

    def __init__(self, card):
        super().__init__("/dev/" + card)
        OPENED.append(self)

    def close(self):
        super().close()
        OPENED.remove(self)


def power_cut(c, cache, card, *words):
    """The exporter's disk loses its power, and comes back."""
    cache.off()
    tool(c.nodes[0], "unexport", "data")
    cache.on()
    give(c, cache, *words)
    wait_live(c.nodes[1], card, 60)


@claim
def no_fsync_succeeds_for_acknowledged_writes_that_were_lost():
    with cached() as (c, cache):
        card = attach(c.nodes[1], "data", "write")
        one, two = Opened(card), Opened(card)
        assert one.put(1).sync() == 0
        one.put(2, at=4096)             # acknowledged, not flushed
        two.put(3, at=8192)
        power_cut(c, cache, card)
        got = [one.get(at=4096 * i) for i in range(3)]
        assert got == [1, 0, 0], got    # else nothing was lost, and nothing is shown
        # Each who wrote hears of it, whoever asks first, and as often as he asks.
        assert one.sync() == errno.EIO and two.sync() == errno.EIO and one.sync() == errno.EIO
        assert "has lost writes" in disks(c.nodes[1])[card]["reason"]
        assert stat(c.nodes[1], "CardWritesLost") == 1
        assert stat(c.nodes[1], "CardFlushesFailed") == 3
        # Who opens it when all have closed it was promised nothing.
        one.close()
        assert two.sync() == errno.EIO
        two.close()
        new = Opened(card)
        assert new.put(4).sync() == 0 and "reason" not in disks(c.nodes[1])[card]
        new.close()


@claim
def who_was_away_when_they_were_lost_hears_of_it_too():
    with cached() as (c, cache):
        for node in c.nodes:
            node.sysfs("links/heartbeat_ms", "500")
        card = attach(c.nodes[1], "data", "write")
        one = Opened(card)
        one.put(2)
        cut(c, 1)
        wait(lambda: disks(c.nodes[1])[card]["state"] == "waiting", 60 * SLOW)
        cache.off()
        tool(c.nodes[0], "unexport", "data")
        cache.on()
        give(c, cache)
        mend(c, 1)
        wait_live(c.nodes[1], card, 60)
        assert one.get() == 0 and one.sync() == errno.EIO
        one.close()


@claim
def what_was_flushed_or_is_flushed_at_the_end_of_an_export_is_no_loss():
    with cached() as (c, cache):
        for node in c.nodes:
            node.sysfs("links/heartbeat_ms", "500")
        card = attach(c.nodes[1], "data", "write")
        one = Opened(card)
        assert one.put(1).sync() == 0
        power_cut(c, cache, card)
        assert one.get() == 1 and one.sync() == 0
        # An export that ends in order has its disk flushed.
        one.put(2, at=4096)
        tool(c.nodes[0], "unexport", "data")
        cache.off()
        cache.on()
        give(c, cache)
        wait_live(c.nodes[1], card, 60)
        assert one.get(at=4096) == 2 and one.sync() == 0
        # Also when the writer is away.
        one.put(3, at=8192)
        cut(c, 1)
        wait(lambda: disks(c.nodes[1])[card]["state"] == "waiting", 60 * SLOW)
        tool(c.nodes[0], "unexport", "data")
        cache.off()
        cache.on()
        give(c, cache)
        mend(c, 1)
        wait_live(c.nodes[1], card, 60)
        assert one.get(at=8192) == 3 and one.sync() == 0
        assert stat(c.nodes[1], "CardWritesLost") == 0
        one.close()


@claim
def who_shares_the_disk_hears_of_a_loss_and_of_no_other_end():
    """Nobody has a place then: each export is a life of its own, and says at its end whether all is safe."""
    with cached() as (c, cache):
        tool(c.nodes[0], "unexport", "data")
        give(c, cache, "shared")
        card = attach(c.nodes[1], "data", "write", "shared")
        one = Opened(card)
        one.put(1)
        tool(c.nodes[0], "unexport", "data")
        cache.off()
        cache.on()
        give(c, cache, "shared")
        wait_live(c.nodes[1], card, 60)
        assert one.get() == 1 and one.sync() == 0
        one.put(2, at=4096)
        power_cut(c, cache, card, "shared")
        assert one.get(at=4096) == 0 and one.sync() == errno.EIO
        one.close()


@claim
def an_exporter_that_has_forgotten_everything_is_not_believed():
    """Its namespace is made anew: it knows no places and no lives, as after a crash of its kernel."""
    with cached() as (c, cache):
        card = attach(c.nodes[1], "data", "write")
        one = Opened(card)
        one.put(1)
        old = c.nodes[0]
        old.nl.close()
        c.net.delete(old.ns)
        wait(lambda: subprocess.run(["ip", "-n", c.net.bridge, "link", "show", "p1"], check=False,
                                    capture_output=True).returncode, 60 * SLOW)
        wait(lambda: disks(c.nodes[1])[card]["state"] == "waiting", 60 * SLOW)
        c.nodes[0] = Node(c.net, 1)
        c.nodes[0].become()
        c.nodes[0].list(c.nodes[1])
        wait(lambda: export_again(c, cache), 60 * SLOW)
        wait_live(c.nodes[1], card, 60)
        assert one.sync() == errno.EIO
        one.close()
        assert read_error("/dev/" + card)[0] == 0
        detach(c.nodes[1], card)


def export_again(c, cache):
    with contextlib.suppress(Exception):
        give(c, cache)
        return True
    return False


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    run("modprobe", "null_blk", "nr_devices=0")
    try:
        main()
    finally:
        run("rmmod", "card")

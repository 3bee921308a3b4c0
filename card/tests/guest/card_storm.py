#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 800
# long: debug it takes six minutes there
"""Nodes die, links are cut, exports come and go, modules are unloaded, all under load: what was
written is what is read, and nothing hangs.

CARD_SECONDS=3600 and CARD_SEED=n make the first claim longer, and another one."""
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, Disk, Refused, attach, cut, detach, disks, export, exports, hash_of,  # noqa: E402
                  mapped, mend, pair, read_error, run, stat, state, tool, wait_live)
from cluster import Node                                # noqa: E402
from tap import claim, main, wait                       # noqa: E402


class Verifier(threading.Thread):
    """Writes the disk with fio and reads it back, pass after pass, until told to stop."""

    def __init__(self, path, seed):
        super().__init__()
        self.path, self.seed = path, seed
        self.passes, self.trouble = 0, None
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set() and not self.trouble:
            done = subprocess.run(
                ["fio", "--name=v", "--filename=" + self.path, "--direct=1", "--rw=randwrite",
                 "--bs=4k", "--iodepth=16", "--ioengine=libaio", "--verify=crc32c",
                 "--verify_fatal=1", "--verify_state_save=0", "--fsync=64",
                 "--randseed=%d" % (self.seed + self.passes), "--minimal"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.trouble = done.stdout if done.returncode else None
            self.passes += 1

    def stop(self):
        self.over.set()
        self.join(300 * SLOW)
        assert not self.is_alive(), "fio hangs"
        assert not self.trouble, self.trouble


class Trouble:
    """What may happen to a pair of nodes with a disk between them."""

    def __init__(self, c, disk, card):
        self.c, self.disk, self.card = c, disk, card

    def cable(self):
        cut(self.c, 1)
        wait(lambda: state(self.c.nodes[1], self.card) != "live", 60 * SLOW)
        mend(self.c, 1)

    def export(self):
        tool(self.c.nodes[0], "unexport", "data")
        export(self.c.nodes[0], "data", self.disk.device, "write")

    def stranger(self):
        self.c.nodes[0].nl.do("NODE_DEL", node_name="n2")
        self.c.nodes[0].list(self.c.nodes[1])

    def packets(self):
        tc = ("ip", "netns", "exec", self.c.net.bridge, "tc", "qdisc")
        run(*tc, "add", "dev", "p1", "root", "netem", "loss", "5%", "delay", "3ms", "3ms",
            "reorder", "20%")
        self.progress(64)
        run(*tc, "del", "dev", "p1", "root")

    def progress(self, count):
        def done():
            return stat(self.c.nodes[1], "CardReads") + stat(self.c.nodes[1], "CardWrites")
        begin = done()
        wait(lambda: done() > begin + count, 120 * SLOW)


@claim
def what_was_written_is_read_whatever_happens_meanwhile():
    seed = int(os.environ.get("CARD_SEED", "11"))
    end = time.monotonic() + int(os.environ.get("CARD_SECONDS", "0"))
    rnd = random.Random(seed)
    with pair(size=2 * MIB, words=("write",)) as (c, disk):
        for node in c.nodes:
            node.sysfs("links/heartbeat_ms", "500")
        card = attach(c.nodes[1], "data", "write", "timeout", "500", "retries", "400")
        trouble = Trouble(c, disk, card)
        kinds = [trouble.cable, trouble.export, trouble.stranger, trouble.packets]
        load = Verifier("/dev/" + card, seed)
        load.start()
        rounds = 0
        while rounds < len(kinds) or time.monotonic() < end:
            trouble.progress(32)
            kind = kinds[rounds] if rounds < len(kinds) else rnd.choice(kinds)
            kind()
            wait_live(c.nodes[1], card, 60)
            assert not load.trouble, load.trouble
            rounds += 1
        load.stop()
        print("# seed %d, %d rounds, %d passes, %d MiB written and verified, %d requests sent again" % (
            seed, rounds, load.passes, load.passes * disk.size // MIB, stat(c.nodes[1], "CardResent")))
        assert stat(c.nodes[1], "CardErrors") == 0
        assert hash_of("/dev/" + card, direct=True) == hash_of(disk.device)


@claim
def an_exporter_that_died_is_used_again_when_it_is_back():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data", "timeout", "500", "retries", "400")
        old = c.nodes[0]
        old.nl.close()
        c.net.delete(old.ns)
        wait(lambda: state(c.nodes[1], card) != "live", 60 * SLOW)
        got = []
        reader = threading.Thread(target=lambda: got.append(hash_of("/dev/" + card, direct=True)))
        reader.start()
        wait(lambda: disks(c.nodes[1])[card]["in_flight"], 60 * SLOW)
        wait(lambda: subprocess.run(["ip", "-n", c.net.bridge, "link", "show", "p1"], check=False,
                                    capture_output=True).returncode, 60 * SLOW)
        c.nodes[0] = Node(c.net, 1)
        c.nodes[0].become()
        c.nodes[0].list(c.nodes[1])
        export(c.nodes[0], "data", disk.device)
        reader.join(120 * SLOW)
        assert got == [disk.hash()], got
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def attaching_and_detaching_at_once_does_no_harm():
    rounds = int(os.environ.get("CARD_ROUNDS", "5"))
    with pair(size=MIB) as (c, disk):
        trouble, attached = [], []

        def one():
            for _ in range(rounds):
                try:
                    card = attach(c.nodes[1], "data")
                    attached.append(card)
                    read_error("/dev/" + card)
                    detach(c.nodes[1], card, "force")
                except (Refused, OSError):
                    pass                                # the others were faster
                except Exception as err:                # pylint: disable=broad-except
                    trouble.append(repr(err))

        threads = [threading.Thread(target=one) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120 * SLOW)
        assert not trouble and not any(t.is_alive() for t in threads), trouble
        assert len(attached) > 1, "of %d times %d" % (3 * rounds, len(attached))
        for card in disks(c.nodes[1]):
            detach(c.nodes[1], card)
        wait(lambda: exports(c.nodes[0])["data"]["sessions"] == 0, 60 * SLOW)
        assert hash_of("/dev/" + attach(c.nodes[1], "data")) == disk.hash()


def module_is_going():
    with open("/sys/module/card/initstate", encoding="ascii") as f:
        return f.read().strip() == "going"


@claim
def the_module_goes_with_disks_attached_and_requests_at_the_exporters_disk():
    with pair(size=MIB, offered=False) as (c, disk), contextlib.closing(Disk(MIB, name="plain")) as plain:
        export(c.nodes[0], "data", plain.device)
        table = "0 %d linear %s 0" % (disk.size // 512, disk.device)
        with mapped("cardslow", table) as path:
            export(c.nodes[0], "slow", path)
            card = "/dev/" + attach(c.nodes[1], "slow", "nolookup", "timeout", "200",
                                    "retries", "0")
            attach(c.nodes[1], "data")
            with open(card, "rb", 0):
                assert subprocess.run(["rmmod", "card"], check=False,
                                      stderr=subprocess.DEVNULL).returncode
            run("dmsetup", "suspend", "--noflush", "--nolockfs", "cardslow")
            try:
                assert read_error(card, at=65536)[0]
                remover = subprocess.Popen(["rmmod", "card"])
                wait(module_is_going, 60 * SLOW)
                assert remover.poll() is None       # the disk still works on a request
            finally:
                run("dmsetup", "resume", "cardslow")
            assert remover.wait(60 * SLOW) == 0
            run("modprobe", "card")
            assert not disks(c.nodes[1]) and not exports(c.nodes[0])
            export(c.nodes[0], "data", plain.device)
            assert hash_of("/dev/" + attach(c.nodes[1], "data")) == plain.hash()
            detach(c.nodes[1], "n1", "data")
            tool(c.nodes[0], "unexport", "data")


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "sch_netem", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

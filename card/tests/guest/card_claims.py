#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both a minute, and on the debug kernel it takes five minutes
"""What is exported is not written by anybody else on the exporter, on whatever way he comes."""
import contextlib
import os
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, attach, detach, disks, export, exports, hash_of, mapped, mounted,  # noqa: E402
                  pair, read_error, refused, run, state, tool, wait_live)
from tap import claim, main, wait                       # noqa: E402

READ, POLICY, WRITE = (), ("policy", "hscc"), ("write",)


def fails(*words, **more):
    return subprocess.run(words, check=False, stderr=subprocess.DEVNULL, **more).returncode


def words_of(name, device, words=()):
    return ("export", name, "device", device, "nodes", "n2", *words)


@contextlib.contextmanager
def loop(path, *options):
    device = subprocess.run(["losetup", "--find", "--show", *options, path], check=True,
                            capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        run("losetup", "-d", device)


@claim
def a_disk_is_exported_for_writing_once_and_then_for_nothing_else():
    with pair(size=MIB, offered=False) as (c, disk):
        a = c.nodes[0]
        for first, second in ((WRITE, POLICY), (POLICY, WRITE), (WRITE, READ), (READ, WRITE),
                              (WRITE, WRITE), (WRITE + ("shared",), POLICY)):
            export(a, "one", disk.device, *first)
            refused("in use", a, *words_of("two", disk.device, second))
            assert list(exports(a)) == ["one"]
            tool(a, "unexport", "one")
        # Who only reads may do so twice: there is nothing to keep right.
        export(a, "one", disk.device)
        export(a, "two", disk.device, *POLICY)
        cards = [attach(c.nodes[1], name) for name in ("one", "two")]
        assert {hash_of("/dev/" + card) for card in cards} == {disk.hash()}
        for card, name in zip(cards, ("one", "two")):
            detach(c.nodes[1], card)
            tool(a, "unexport", name)


@claim
def a_disk_that_is_mounted_here_is_not_exported_and_one_that_is_exported_not_mounted():
    with pair(size=16 * MIB, offered=False) as (c, disk):
        a, there = c.nodes[0], "/tmp/card-claims"
        run("mkfs.ext4", "-q", "-F", disk.device)
        os.makedirs(there, exist_ok=True)
        with mounted(disk.device, there):
            for words in (READ, POLICY, WRITE, ("mount", there), POLICY + ("mount", there)):
                refused("", a, *words_of("x", disk.device, words))
            assert not exports(a)
        for words in (READ, POLICY, WRITE):
            export(a, "x", disk.device, *words)
            assert fails("mount", disk.device, there), words
            assert fails("mkfs.ext4", "-q", "-F", disk.device, stdout=subprocess.DEVNULL), words
            assert fails("mkswap", disk.device, stdout=subprocess.DEVNULL) or \
                fails("swapon", disk.device), words
            tool(a, "unexport", "x")
        with mounted(disk.device, there):
            pass


@claim
def what_is_mounted_read_only_is_exported_as_long_as_it_stays_so():
    with pair(size=16 * MIB, offered=False) as (c, disk):
        a, b = c.nodes
        there = "/tmp/card-claims"
        run("mkfs.ext4", "-q", "-F", disk.device)
        with mounted(disk.device, there, "-o", "ro"):
            refused("in use", a, *words_of("x", disk.device))
            refused("", a, *words_of("x", disk.device, ("write", "mount", there)))
            export(a, "x", disk.device, "mount", there)
            card = attach(b, "x", "retries", "0")
            assert read_error("/dev/" + card)[0] == 0
            run("mount", "-o", "remount,rw", there)
            with open(there + "/f", "wb") as f:
                f.write(os.urandom(MIB))
            assert read_error("/dev/" + card)[0], "read while it is written here"
            wait(lambda: "mounted" in disks(b)[card].get("reason", ""), 30 * SLOW)
            # What the reader has in memory is old now: so it is for ever, and not until the next look.
            run("mount", "-o", "remount,ro", there)
            assert read_error("/dev/" + card, at=8192)[0]
            tool(a, "unexport", "x")
            export(a, "x", disk.device, "mount", there)
            wait_live(b, card)
            run("sync", disk.path)
            assert hash_of("/dev/" + card, direct=True) == hash_of(disk.device, direct=True)
            detach(b, card)
            tool(a, "unexport", "x")


@claim
def a_disk_and_its_partitions_exclude_each_other():
    with pair(size=8 * MIB, offered=False) as (c, disk):
        a = c.nodes[0]
        disk.partition()
        one, two = disk.device + "p1", disk.device + "p2"
        for outer in (READ, WRITE):
            for inner in (POLICY, WRITE):
                export(a, "whole", disk.device, *outer)
                refused("in use", a, *words_of("part", one, inner))
                tool(a, "unexport", "whole")
                export(a, "part", one, *inner)
                refused("in use", a, *words_of("whole", disk.device, outer))
                export(a, "other", two, *WRITE)         # beside each other they are no harm
                tool(a, "unexport", "part")
                tool(a, "unexport", "other")
        run("mkfs.ext4", "-q", "-F", one)
        with mounted(one, "/tmp/card-claims"):
            refused("in use", a, *words_of("whole", disk.device))
            refused("in use", a, *words_of("whole", disk.device, WRITE))
            export(a, "other", two, *WRITE)
            tool(a, "unexport", "other")


@claim
def a_volume_and_what_it_is_made_of_exclude_each_other():
    with pair(size=MIB, offered=False) as (c, disk):
        a, table = c.nodes[0], "0 %d linear %s 0" % (disk.size // 512, disk.device)
        with mapped("cardupper", table) as upper:
            for words in (READ, POLICY, WRITE):
                refused("in use", a, *words_of("x", disk.device, words))
            export(a, "x", upper, *WRITE)
            refused("in use", a, *words_of("y", upper, POLICY))
            tool(a, "unexport", "x")
        for words in (READ, POLICY, WRITE):
            export(a, "x", disk.device, *words)
            assert fails("dmsetup", "create", "cardupper", "--table", table), words
            tool(a, "unexport", "x")


@claim
def loop_devices_of_one_file_are_one_disk():
    with pair(size=16 * MIB, offered=False) as (c, disk), loop(disk.path) as twin:
        a = c.nodes[0]
        for first, second in ((WRITE, POLICY), (POLICY, WRITE), (WRITE, WRITE)):
            export(a, "one", disk.device, *first)
            refused("in use", a, *words_of("two", twin, second))
            tool(a, "unexport", "one")
        run("mkfs.ext4", "-q", "-F", disk.device)
        with mounted(twin, "/tmp/card-claims"):
            for words in (READ, POLICY, WRITE):
                refused("in use", a, *words_of("one", disk.device, words))
        export(a, "one", disk.device, *WRITE)
        assert fails("mount", twin, "/tmp/card-claims")
        tool(a, "unexport", "one")


@claim
def parts_of_one_file_that_do_not_meet_are_two_disks():
    with pair(size=8 * MIB, offered=False) as (c, disk):
        a, half = c.nodes[0], ("--sizelimit", str(2 * MIB))
        run("losetup", "-d", disk.device)
        with loop(disk.path, *half) as one, loop(disk.path, "-o", str(2 * MIB), *half) as two, \
                loop(disk.path, "-o", str(MIB), *half) as both:
            # @both meets either: while it is there, the first claims it and the second cannot.
            export(a, "one", one, *WRITE)
            for name, device in (("two", two), ("both", both)):
                refused("in use", a, *words_of(name, device, WRITE))
            tool(a, "unexport", "one")
        with loop(disk.path, *half) as one, loop(disk.path, "-o", str(2 * MIB), *half) as two:
            export(a, "one", one, *WRITE)
            export(a, "two", two, *WRITE)
            assert exports(a)["one"]["uuid"] != exports(a)["two"]["uuid"]
            tool(a, "unexport", "one")
            tool(a, "unexport", "two")
        run("losetup", disk.device, disk.path)


@claim
def a_loop_device_and_the_device_it_lies_on_are_one_disk():
    with pair(size=16 * MIB, offered=False) as (c, disk), loop(disk.device) as upper:
        a = c.nodes[0]
        run("mkfs.ext4", "-q", "-F", disk.device)
        for first, second in ((disk.device, upper), (upper, disk.device)):
            export(a, "one", first, *WRITE)
            refused("in use", a, *words_of("two", second, POLICY))
            assert fails("mount", second, "/tmp/card-claims")
            tool(a, "unexport", "one")
            with mounted(second, "/tmp/card-claims"):
                refused("in use", a, *words_of("one", first, POLICY))


@claim
def unclaimed_is_for_a_disk_that_nobody_can_write():
    with pair(size=MIB, offered=False) as (c, disk):
        a = c.nodes[0]
        refused("setro", a, *words_of("x", disk.device, ("unclaimed",)))
        refused("claim", a, *words_of("x", disk.device, ("unclaimed", "write")))
        run("blockdev", "--setro", disk.device)
        table = "0 %d linear %s 0" % (disk.size // 512, disk.device)
        export(a, "x", disk.device, "unclaimed")
        run("dmsetup", "create", "cardupper", "--readonly", "--table", table)
        try:
            assert hash_of("/dev/" + attach(c.nodes[1], "x")) == disk.hash()
            assert state(c.nodes[1], list(disks(c.nodes[1]))[0]) == "live"
        finally:
            run("dmsetup", "remove", "--retry", "cardupper")
            run("blockdev", "--setrw", disk.device)


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "card")
    try:
        main()
    finally:
        subprocess.run(["rmmod", "card_hscc"], check=False, stderr=subprocess.DEVNULL)
        run("rmmod", "card")

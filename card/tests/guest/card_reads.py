#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both two minutes, and on the debug kernel it took fifteen beside other guests
"""A remote disk is the disk, byte for byte, by every way of asking and answering."""
import contextlib
import glob
import mmap
import os
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, Disk, attach, chunks, detach, disks, errno, export, exports, hash_of, mounted,  # noqa: E402
                  pair, read_error, refused, run, stat, stats, tool)
from tap import claim, main, wait                       # noqa: E402
from trio import Groups                                 # noqa: E402


def drop_caches():
    run("sync")
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
        f.write("3")


def reads(c, disk, name="data", *words):
    """Attaches, reads all of it both ways, detaches."""
    card = attach(c.nodes[1], name, *words)
    assert hash_of("/dev/" + card) == disk.hash(), "buffered read differs"
    assert hash_of("/dev/" + card, direct=True) == disk.hash(), "direct read differs"
    detach(c.nodes[1], card)


@claim
def every_byte_is_the_exporters():
    with pair() as (c, disk):
        reads(c, disk)
        assert stat(c.nodes[1], "CardErrors") == 0
        assert stat(c.nodes[1], "CardBadCrc") == 0


@claim
def a_disk_of_odd_size_is_read_to_its_last_sector():
    with pair(size=3 * MIB + 512 * 5) as (c, disk):
        card = attach(c.nodes[1], "data")
        assert disks(c.nodes[1])[card]["size"] == disk.size
        assert hash_of("/dev/" + card) == disk.hash()
        with open("/dev/" + card, "rb", 0) as f, open(disk.path, "rb") as g:
            for at in (0, 512, 4096 - 512, 4608, disk.size - 512):
                f.seek(at)
                g.seek(at)
                assert f.read(512) == g.read(512), at
        assert read_error("/dev/" + card, at=disk.size - 512, size=512)[0] == 0
        assert read_error("/dev/" + card, at=disk.size)[0] == 0     # the end, not an error


@claim
def every_mode_of_serving_and_delivering_gives_the_same():
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data")
        for serve in ("mix", "event", "thread"):
            for deliver in ("event", "async", "sync"):
                tool(c.nodes[0], "set", "data", "serve", serve, "deliver", deliver)
                drop_caches()
                assert hash_of(card, direct=True) == disk.hash(), (serve, deliver)
        got = stats(c.nodes[0])
        assert got["CardDeliverSoftirq"] and got["CardDeliverThread"], got
        assert got["CardServeInline"] and got["CardServeThread"], got


@claim
def what_the_exporter_has_cached_costs_no_disk_read():
    with pair(size=2 * MIB) as (c, disk):
        drop_caches()
        hash_of(disk.device)                    # the exporter's own reads fill its cache
        card = attach(c.nodes[1], "data")
        before = stats(c.nodes[0])
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        after = stats(c.nodes[0])
        assert after["CardServedDisk"] == before["CardServedDisk"], (before, after)
        assert after["CardServedCached"] > before["CardServedCached"]
        detach(c.nodes[1], card)
        card = attach(c.nodes[1], "data", "nolookup")
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        assert stat(c.nodes[0], "CardServedDisk") > after["CardServedDisk"]


@claim
def exclusive_keeps_nothing_at_the_exporter_and_keep_does():
    with pair(size=2 * MIB) as (c, disk):
        drop_caches()
        card = attach(c.nodes[1], "data")
        hash_of("/dev/" + card, direct=True)
        hash_of("/dev/" + card, direct=True)
        got = stats(c.nodes[0])
        # Opening the device scans it for partitions: a few pages may be cached by that.
        assert got["CardKeptPages"] == 0, got
        assert got["CardServedDiskPages"] >= 2 * 512 - 32, got
        detach(c.nodes[1], card)
        card = attach(c.nodes[1], "data", "keep")
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        middle = stats(c.nodes[0])
        assert middle["CardKeptPages"] >= 512 - 32, middle
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        assert stat(c.nodes[0], "CardServedDiskPages") == middle["CardServedDiskPages"]
        assert hash_of(disk.device) == disk.hash()      # what was kept is right here too


@claim
def two_exports_of_a_node_do_not_mix():
    with pair(size=MIB) as (c, disk):
        other = Disk(MIB, seed=2, name="other")
        with contextlib.closing(other):
            export(c.nodes[0], "other", other.device)
            one, two = attach(c.nodes[1], "data"), attach(c.nodes[1], "other")
            assert one != two
            assert hash_of("/dev/" + one) == disk.hash()
            assert hash_of("/dev/" + two) == other.hash()
            detach(c.nodes[1], two)
            tool(c.nodes[0], "unexport", "other")


@claim
def two_nodes_have_the_same_disk_under_other_numbers():
    with pair(3, size=MIB, nodes="n2,n3") as (c, disk):
        cards = [attach(n, "data") for n in c.nodes[1:]]
        assert len({os.stat("/dev/" + card).st_rdev for card in cards}) == 2
        assert exports(c.nodes[0])["data"]["sessions"] == 2
        for card in cards:
            assert hash_of("/dev/" + card) == disk.hash()


@claim
def a_node_has_a_disk_once():
    with pair(size=MIB) as (c, _):
        card = attach(c.nodes[1], "data")
        refused("attached already", c.nodes[1], "attach", "n1", "data")
        assert list(disks(c.nodes[1])) == [card]


@claim
def reading_only_is_the_rule():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data")
        for switch in ("--getro", "--setrw"):           # the switch is not for the reader to turn
            run("blockdev", switch, "/dev/" + card)
            fd = os.open("/dev/" + card, os.O_RDWR | os.O_DIRECT)
            buf = mmap.mmap(-1, 4096)
            try:
                os.pwritev(fd, [buf], 0)
                raise AssertionError("written after blockdev " + switch)
            except OSError as err:
                assert err.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EIO), err
            finally:
                os.close(fd)
        detach(c.nodes[1], card)
        refused("", c.nodes[1], "attach", "n1", "data", "write")
        assert hash_of(disk.path) == disk.hash()


@claim
def many_requests_are_in_flight():
    with pair(size=2 * MIB) as (c, disk):
        card = attach(c.nodes[1], "data")
        fio("/dev/" + card, "--rw=randread", "--bs=4k", "--iodepth=32", "--ioengine=libaio")
        assert stat(c.nodes[1], "CardErrors") == 0
        assert hash_of("/dev/" + card, direct=True) == disk.hash()


def fio(path, *words):
    subprocess.run(["fio", "--name=card", "--filename=" + path, "--direct=1", "--minimal",
                    "--randseed=1", "--verify_state_save=0", *words], check=True, stdout=subprocess.DEVNULL)


@claim
def written_blocks_are_read_back_here_and_there():
    with pair(size=4 * MIB, words=("write",)) as (c, disk):
        card = attach(c.nodes[1], "data", "write")
        fio("/dev/" + card, "--rw=randwrite", "--bsrange=512-128k", "--iodepth=16",
            "--ioengine=libaio", "--verify=crc32c", "--verify_fatal=1", "--fsync=16")
        here = hash_of("/dev/" + card, direct=True)
        assert here == hash_of(disk.device) == hash_of("/dev/" + card)
        assert stat(c.nodes[0], "CardServedWrites") > 0


@claim
def a_file_system_is_mounted_and_its_files_are_the_exporters():
    with pair(size=16 * MIB, offered=False) as (c, disk):
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", disk.device)
        there, here = "/tmp/card-there", "/tmp/card-here"
        with mounted(disk.device, there):
            for i in range(10):
                with open("%s/f%d" % (there, i), "wb") as f:
                    f.write(os.urandom(1000 + 40000 * i))
        with mounted(disk.device, there, "-o", "ro"):
            export(c.nodes[0], "data", disk.device, "mount", there)
            card = attach(c.nodes[1], "data")
            with mounted("/dev/" + card, here, "-o", "ro"):
                run("diff", "-r", there, here)
                assert subprocess.run(["mount", "-o", "remount,rw", here], check=False,
                                      stderr=subprocess.DEVNULL).returncode
            detach(c.nodes[1], card)
            # Page mode: the exporter answers from the files it has cached itself.
            drop_caches()
            want = read_file(there + "/f9")
            card = attach(c.nodes[1], "data", "mode", "page")
            with mounted("/dev/" + card, here, "-o", "ro"):
                assert read_file(here + "/f9") == want
                assert stat(c.nodes[0], "CardFilePages") >= len(want) // 4096, stats(c.nodes[0])
            detach(c.nodes[1], card)
            tool(c.nodes[0], "unexport", "data")


def quiet():
    """No disk has a request left: for what is read ahead, inodes for one, nobody waits."""
    for path in glob.glob("/sys/block/*/inflight"):
        with open(path, encoding="ascii") as f:
            if f.read().split() != ["0", "0"]:
                return False
    return True


def disk_reads(device):
    """Requests that the disk got, when all that were asked are answered."""
    wait(quiet)
    with open("/sys/block/%s/stat" % os.path.basename(device), encoding="ascii") as f:
        return int(f.read().split()[0])


def reads_of(device, act):
    """Requests that the disk got meanwhile."""
    before = disk_reads(device)
    act()
    return disk_reads(device) - before


def read_file(path):
    with open(path, "rb") as f:
        return f.read()


def forget_all_but_names(there):
    """Neither inodes nor contents are cached; those who use a thing may outlast one round of forgetting."""
    drop_caches()
    drop_caches()
    os.listdir(there)


@claim
def what_page_mode_keeps_for_others_saves_the_exporters_own_reads():
    with pair(size=16 * MIB, offered=False) as (c, disk), tempfile.TemporaryDirectory() as top:
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", disk.device)
        there, here = os.path.join(top, "there"), os.path.join(top, "here")
        want = os.urandom(MIB // 4)
        with mounted(disk.device, there), open(there + "/f", "wb") as f:
            f.write(want)
        with mounted(disk.device, there, "-o", "ro"):
            export(c.nodes[0], "data", disk.device, "mount", there)
            for words, saved in (((), False), (("keep",), True)):
                card = attach(c.nodes[1], "data", "mode", "page", *words)
                with mounted("/dev/" + card, here, "-o", "ro"):
                    forget_all_but_names(there)
                    assert read_file(here + "/f") == want
                    # Looking for the file's pages has brought its inode, kept or not.
                    assert (got := reads_of(disk.device, lambda: os.stat(there + "/f"))) == 0, (words, got)
                    got = reads_of(disk.device, lambda: read_file(there + "/f"))
                    assert (got == 0) == saved, (words, got)
                    assert read_file(there + "/f") == want
                detach(c.nodes[1], card)
            forget_all_but_names(there)
            assert reads_of(disk.device, lambda: os.stat(there + "/f")), "the inode was cached anyway"
            tool(c.nodes[0], "unexport", "data")


@contextlib.contextmanager
def little_memory(size, limit):
    """What the exporter caches of its disk is paid for by a group of this limit."""
    groups = Groups("exporter")
    with contextlib.closing(groups), pair(size=size) as (c, disk):
        groups.write("exporter", "memory.max", str(limit))
        tool(c.nodes[0], "unexport", "data")
        made = groups.run("exporter", "ip", "netns", "exec", c.nodes[0].ns, "flotilla", "card", "export",
                          "data", "device", disk.device, "nodes", "n2")
        assert made.wait() == 0
        yield groups, c, disk
        tool(c.nodes[0], "unexport", "data")
        export(c.nodes[0], "data", disk.device)


@claim
def the_exporters_own_blocks_stay_cached_while_others_read_all_of_the_disk():
    with little_memory(8 * MIB, 4 * MIB) as (groups, c, disk):
        def own():
            reader = groups.run("exporter", "dd", "if=" + disk.device, "of=/dev/null", "bs=128k", "count=12",
                                "status=none")
            assert reader.wait() == 0

        for words, stay in (((), True), (("keep",), False)):
            drop_caches()
            card = attach(c.nodes[1], "data", *words)
            assert reads_of(disk.device, own), "nothing to cache"
            assert hash_of("/dev/" + card, direct=True) == disk.hash()
            assert (reads_of(disk.device, own) == 0) == stay, words
            detach(c.nodes[1], card)


@claim
def what_was_read_last_is_kept_when_the_exporters_memory_is_full():
    with little_memory(8 * MIB, 4 * MIB) as (_, c, disk):
        drop_caches()
        card = attach(c.nodes[1], "data", "keep", "readahead", "0")
        before = stats(c.nodes[0])
        # One request at a time: the disk is asked where the message is received, which must not wait.
        for _ in chunks("/dev/" + card, direct=True, size=65536):
            pass
        assert stat(c.nodes[0], "CardServeInline") - before["CardServeInline"] > 32

        def again(at):
            return reads_of(disk.device, lambda: read_error("/dev/" + card, at, size=512 * 1024))
        assert (got := again(7 * MIB)) == 0, "read last, and asked of the disk %d times" % got
        assert again(0), "all is cached"


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

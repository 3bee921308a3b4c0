#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both two minutes, and on the debug kernel it takes ten minutes
"""A device goes on with the disk that it was attached to and with no other one, whatever its name."""
import contextlib
import os
import random
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, Disk, attach, chunks, detach, disks, errno, export, exports,  # noqa: E402
                  hash_of, mapped, mounted, pair, read_error, refused, run, state, tool, wait_live,
                  write_error)
from peer import Fake                                   # noqa: E402
from tap import claim, main, wait                       # noqa: E402

EUCLEAN = 117


def swap(c, device, *words):
    tool(c.nodes[0], "unexport", "data")
    export(c.nodes[0], "data", device, *words)


def reason(node, card):
    return disks(node)[card].get("reason", "")


def wait_barred(c, card):
    wait(lambda: "another disk" in reason(c.nodes[1], card), 30 * SLOW)
    assert state(c.nodes[1], card) == "refused"


@contextlib.contextmanager
def spare(size, **more):
    disk = Disk(size, name="other", **more)
    try:
        yield disk
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            disk.close()


@claim
def a_file_system_that_is_mounted_writes_nothing_to_another_disk():
    with pair(size=16 * MIB, words=("write",)) as (c, disk), spare(16 * MIB, seed=2) as other:
        card = attach(c.nodes[1], "data", "write", "retries", "60")
        run("mkfs.ext4", "-q", "-F", "/dev/" + card)
        run("mkfs.ext4", "-q", "-F", other.device)
        before, stop = other.hash(), "/tmp/card-identity-stop"
        with mounted("/dev/" + card, "/tmp/card-identity") as here:
            # Metadata and data, without end, while the disk is exchanged.
            writer = subprocess.Popen(["sh", "-c", 'i=0; while ! [ -e "$1" ]; do i=$((i + 1)); '
                                       'echo $i >"$0/$((i % 50))"; sync -f "$0"; done',
                                       here, stop], stderr=subprocess.DEVNULL)
            try:
                wait(lambda: os.path.exists(here + "/20"), 60 * SLOW)
                swap(c, other.device, "write")
                wait_barred(c, card)
                with contextlib.suppress(OSError), open(here + "/5", "wb", 0) as f:
                    f.write(os.urandom(MIB))
                assert write_error("/dev/" + card, at=8 * MIB)[0] == errno.EIO
                time.sleep(3)           # it is asked again every second, and refused each time
                assert state(c.nodes[1], card) == "refused"
            finally:
                open(stop, "w", encoding="ascii").close()
                writer.wait()
                os.unlink(stop)
        assert other.hash() == before, "the other disk was written"
        assert subprocess.run(["e2fsck", "-fn", other.path], check=False,
                              stdout=subprocess.DEVNULL).returncode == 0
        assert exports(c.nodes[0])["data"]["sessions"] == 0


@claim
def requests_fail_at_once_and_go_on_when_the_right_disk_is_back():
    with pair(size=MIB, words=("write",)) as (c, disk), spare(MIB, seed=2) as other:
        card = attach(c.nodes[1], "data", "write", "timeout", "60000", "retries", "100")
        swap(c, other.device, "write")
        wait_barred(c, card)
        for code, seconds in (read_error("/dev/" + card), write_error("/dev/" + card)):
            assert code == errno.EIO and seconds < 20 * SLOW, (code, seconds)
        with open(other.path, "rb") as f:
            assert f.read(16) not in next(chunks(disk.path))
        swap(c, disk.device, "write")
        wait_live(c.nodes[1], card)
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        assert write_error("/dev/" + card, data=b"x" * 4096)[0] == 0
        assert next(chunks(disk.path))[:4096] == b"x" * 4096


@claim
def requests_in_flight_while_disks_are_exchanged_reach_only_the_right_one():
    seed = int(os.environ.get("CARD_SEED", "7"))
    rounds = int(os.environ.get("CARD_ROUNDS", "8"))
    print("# seed %d, %d rounds" % (seed, rounds))
    rnd = random.Random(seed)
    with pair(size=2 * MIB, words=("write",)) as (c, disk), spare(2 * MIB, seed=2) as other:
        before = other.hash()
        card = attach(c.nodes[1], "data", "write", "retries", "1000")
        writers = [subprocess.Popen(
            ["sh", "-c", "while :; do dd if=/dev/zero of=$0 bs=64k count=16 seek=%d conv=notrunc "
             "oflag=direct status=none 2>/dev/null; done" % (16 * i), "/dev/" + card])
            for i in range(2)]
        try:
            for _ in range(rounds):
                wait_live(c.nodes[1], card)
                time.sleep(rnd.random() / 4)
                swap(c, other.device, "write")
                time.sleep(rnd.random() * 2)
                swap(c, disk.device, "write")
        finally:
            for w in writers:
                w.terminate()
                w.wait()
        wait_live(c.nodes[1], card)
        assert other.hash() == before, "the other disk was written"


@claim
def the_same_disk_is_recognised_behind_another_device():
    with pair(size=MIB, words=("write",)) as (c, disk), spare(MIB, seed=2) as other:
        card = attach(c.nodes[1], "data", "write", "retries", "100")
        assert exports(c.nodes[0])["data"]["identity"] == "disk"
        uuid = exports(c.nodes[0])["data"]["uuid"]
        assert disks(c.nodes[1])[card]["uuid"] == uuid
        tool(c.nodes[0], "unexport", "data")
        # The file that was behind it gets another loop device, and the other file that one.
        for device in (disk.device, other.device):
            run("losetup", "-d", device)
        run("losetup", disk.device, other.path)
        run("losetup", other.device, disk.path)
        disk.device, other.device = other.device, disk.device
        export(c.nodes[0], "data", other.device, "write")
        wait_barred(c, card)
        swap(c, disk.device, "write")
        wait_live(c.nodes[1], card)
        assert exports(c.nodes[0])["data"]["uuid"] == uuid
        assert hash_of("/dev/" + card, direct=True) == disk.hash()


@claim
def a_copy_or_another_part_of_the_file_is_another_disk():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data", "retries", "0")
        tool(c.nodes[0], "unexport", "data")
        run("losetup", "-d", disk.device)
        run("cp", disk.path, disk.path + ".new")
        run("losetup", disk.device, disk.path + ".new")
        export(c.nodes[0], "data", disk.device)
        wait_barred(c, card)
        tool(c.nodes[0], "unexport", "data")
        run("losetup", "-d", disk.device)
        os.unlink(disk.path + ".new")
        run("truncate", "-s", str(2 * MIB), disk.path)
        run("losetup", "-o", "4096", "--sizelimit", str(MIB), disk.device, disk.path)
        export(c.nodes[0], "data", disk.device)
        wait_barred(c, card)
        tool(c.nodes[0], "unexport", "data")
        run("losetup", "-d", disk.device)
        run("losetup", disk.device, disk.path)


@claim
def a_name_given_by_the_administrator_is_the_identity():
    name = "01234567-89ab-cdef-0123-456789abcdef"
    with pair(size=MIB) as (c, disk), spare(MIB, seed=2) as other:
        a, b = c.nodes
        swap(c, disk.device, "uuid", name)
        assert exports(a)["data"]["uuid"] == name and exports(a)["data"]["identity"] == "named"
        refused("another disk", b, "attach", "n1", "data", "uuid", name.replace("0", "f"))
        assert exports(a)["data"]["sessions"] == 0
        card = attach(b, "data", "uuid", name, "retries", "0")
        # Under another identity it is another disk, although it is the same one.
        swap(c, disk.device)
        wait_barred(c, card)
        # A copy, say: who names the identity answers for what is on it.
        swap(c, other.device, "uuid", name)
        wait_live(b, card)
        assert hash_of("/dev/" + card, direct=True) == other.hash()
        for bad in ("x", name[:-1], name + "0", name.replace("-", ""), "0" * 8 + "-0000" * 3 + "-" + "0" * 12):
            refused("", a, "export", "x", "device", disk.device, "nodes", "n2", "uuid", bad)


@claim
def a_disk_without_a_number_is_another_one_each_time():
    with pair(size=MIB) as (c, disk):
        tool(c.nodes[0], "unexport", "data")
        with mapped("cardplain", "0 %d linear %s 0" % (disk.size // 512, disk.device)) as path:
            export(c.nodes[0], "data", path)
            assert exports(c.nodes[0])["data"]["identity"] == "made"
            uuid = exports(c.nodes[0])["data"]["uuid"]
            card = attach(c.nodes[1], "data", "retries", "0")
            swap(c, path)
            wait_barred(c, card)
            swap(c, path, "uuid", uuid)
            wait_live(c.nodes[1], card)
            detach(c.nodes[1], card)
            tool(c.nodes[0], "unexport", "data")


@claim
def a_partition_is_known_by_its_disk_and_its_place():
    with pair(size=8 * MIB) as (c, disk):
        tool(c.nodes[0], "unexport", "data")
        disk.partition()
        export(c.nodes[0], "data", disk.device + "p1")
        assert exports(c.nodes[0])["data"]["identity"] == "disk"
        card = attach(c.nodes[1], "data", "retries", "0")
        swap(c, disk.device + "p2")
        wait_barred(c, card)
        swap(c, disk.device + "p1")
        wait_live(c.nodes[1], card)
        detach(c.nodes[1], card)
        tool(c.nodes[0], "unexport", "data")


@claim
def a_disk_may_grow_and_not_shrink():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data", "retries", "0")

        def resize(size):
            tool(c.nodes[0], "unexport", "data")
            run("truncate", "-s", str(size), disk.path)
            run("losetup", "-c", disk.device)
            export(c.nodes[0], "data", disk.device)
        resize(2 * MIB)
        wait_live(c.nodes[1], card)
        wait(lambda: disks(c.nodes[1])[card]["size"] == 2 * MIB)
        wait(lambda: hash_of("/dev/" + card, direct=True) == disk.hash())
        resize(MIB)
        wait_barred(c, card)
        resize(2 * MIB)
        wait_live(c.nodes[1], card)


@claim
def who_wants_another_disk_gets_no_session():
    with Fake() as f:
        status, epoch, number, _ = f.peer.attach(uuid=b"x" * 16)
        assert status == EUCLEAN and not epoch and not number
        right = f.peer.uuid
        assert exports(f.exporter)["data"]["sessions"] == 0
        assert f.peer.attach(uuid=right)[0] == 0
        assert exports(f.exporter)["data"]["sessions"] == 1


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

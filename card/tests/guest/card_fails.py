#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both minutes on either kernel
"""What users of network block devices complain of does not happen: errors come in
time, devices come back, nothing hangs, and what comes late harms nobody."""
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, attach, cut, detach, disks, errno, export, exports, hash_of,  # noqa: E402
                  mapped, mend, pair, read_error, refused, run, stat, state, stats, tool,
                  wait_live)
from cgroup import TOP, Cgroup                           # noqa: E402
from tap import claim, main, wait                       # noqa: E402

QUICK = ("timeout", "2000", "retries", "1")
# (retries + 1) attempts, each rounded up to a tick of the block layer's timer, on a busy machine.
BOUND = 30 * SLOW


def heartbeat(c, ms=500):
    for node in c.nodes:
        node.sysfs("links/heartbeat_ms", str(ms))


@claim
def a_silent_exporter_means_an_error_in_time():
    with pair(size=MIB) as (c, _):
        card = "/dev/" + attach(c.nodes[1], "data", *QUICK)
        assert read_error(card)[0] == 0
        cut(c, 1)
        code, seconds = read_error(card, at=8192)
        assert code in (errno.EIO, errno.ETIMEDOUT), code
        assert seconds < BOUND, seconds
        mend(c, 1)
        wait_live(c.nodes[1], card[5:])
        wait(lambda: read_error(card, at=8192)[0] == 0, 30 * SLOW)
        assert stat(c.nodes[1], "CardTimeouts") > 0


@claim
def a_request_waits_for_an_exporter_that_comes_back():
    with pair(size=MIB) as (c, disk):
        heartbeat(c)
        card = attach(c.nodes[1], "data", "timeout", "1000", "retries", "60")
        cut(c, 1)
        wait(lambda: state(c.nodes[1], card) != "live", 30 * SLOW)
        got = []
        reader = threading.Thread(target=lambda: got.append(hash_of("/dev/" + card, direct=True)))
        reader.start()
        wait(lambda: disks(c.nodes[1])[card]["in_flight"], 30 * SLOW)
        mend(c, 1)
        reader.join(90 * SLOW)
        assert got == [disk.hash()], got


@claim
def an_export_that_was_ended_and_made_again_is_used_again():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data", "retries", "60")
        tool(c.nodes[0], "unexport", "data")
        got = []
        reader = threading.Thread(target=lambda: got.append(hash_of("/dev/" + card, direct=True)))
        reader.start()
        wait(lambda: state(c.nodes[1], card) == "refused", 30 * SLOW)
        export(c.nodes[0], "data", disk.device)
        reader.join(90 * SLOW)
        assert got == [disk.hash()], got
        assert state(c.nodes[1], card) == "live"


@claim
def another_disk_under_the_old_name_is_not_taken_for_it():
    with pair(size=MIB) as (c, disk):
        card = attach(c.nodes[1], "data", *QUICK)
        tool(c.nodes[0], "unexport", "data")
        run("truncate", "-s", "512K", disk.path)
        run("losetup", "-c", disk.device)
        export(c.nodes[0], "data", disk.device)
        assert read_error("/dev/" + card)[0]
        wait(lambda: state(c.nodes[1], card) == "refused", 30 * SLOW)
        assert "another disk" in disks(c.nodes[1])[card]["reason"]


@claim
def a_disk_is_detached_and_attached_while_the_exporter_is_dead():
    with pair(size=MIB) as (c, disk):
        heartbeat(c)
        card = attach(c.nodes[1], "data", *QUICK)
        cut(c, 1)
        begin = time.monotonic()
        detach(c.nodes[1], card)
        assert time.monotonic() - begin < BOUND
        assert not disks(c.nodes[1])
        wait(lambda: c.nodes[1].state(c.nodes[0]) != 2, 30 * SLOW)
        refused("", c.nodes[1], "attach", "n1", "data", *QUICK)
        mend(c, 1)
        c.wait_up()
        card = attach(c.nodes[1], "data")
        assert hash_of("/dev/" + card) == disk.hash()


@claim
def a_disk_in_use_is_detached_only_by_force_and_then_fails_at_once():
    with pair(size=MIB) as (c, _):
        card = attach(c.nodes[1], "data")
        with open("/dev/" + card, "rb", 0):
            refused("in use", c.nodes[1], "detach", card)
            assert state(c.nodes[1], card) == "live"
            cut(c, 1)
            begin = time.monotonic()
            reader = threading.Thread(target=read_error, args=("/dev/" + card,))
            reader.start()
            wait(lambda: disks(c.nodes[1])[card]["in_flight"], 30 * SLOW)
            detach(c.nodes[1], card, "force")
            reader.join(30 * SLOW)
            assert not reader.is_alive()
            assert time.monotonic() - begin < BOUND * 2
        mend(c, 1)
        c.wait_up()


@claim
def a_file_system_is_unmounted_although_the_exporter_is_dead():
    with pair(size=16 * MIB) as (c, disk):
        tool(c.nodes[0], "unexport", "data")
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", disk.device)
        export(c.nodes[0], "data", disk.device)
        card = attach(c.nodes[1], "data", *QUICK)
        here = "/tmp/card-here"
        os.makedirs(here, exist_ok=True)
        run("mount", "-o", "ro", "/dev/" + card, here)
        cut(c, 1)
        begin = time.monotonic()
        run("umount", here)
        assert time.monotonic() - begin < BOUND * 2
        mend(c, 1)


@claim
def a_writer_with_a_dead_exporter_gets_an_error_and_unmounts():
    with pair(size=16 * MIB, words=("write",)) as (c, disk):
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", disk.path)
        run("losetup", "-c", disk.device)
        card = attach(c.nodes[1], "data", "write", "timeout", "2000", "retries", "0")
        here = "/tmp/card-here"
        os.makedirs(here, exist_ok=True)
        run("mount", "/dev/" + card, here)
        with open(here + "/f", "wb", 0) as f:
            f.write(os.urandom(MIB // 4))
        cut(c, 1)
        # What was written and cannot be kept must be told to who asks for it to be kept.
        assert subprocess.run(["sync", "-f", here], check=False, stderr=subprocess.DEVNULL,
                              timeout=60 * SLOW).returncode
        assert subprocess.run(["umount", here], check=False, timeout=60 * SLOW).returncode == 0
        assert not os.path.ismount(here)
        mend(c, 1)


@claim
def late_answers_find_nothing():
    """The exporter's disk is stopped until the asker has given up; then it answers."""
    with pair(size=MIB, offered=False) as (c, disk):
        table = "0 %d linear %s 0" % (disk.size // 512, disk.device)
        with mapped("cardslow", table) as path:
            export(c.nodes[0], "slow", path)
            card = attach(c.nodes[1], "slow", "nolookup", *QUICK)
            run("dmsetup", "suspend", "--noflush", "--nolockfs", "cardslow")
            assert read_error("/dev/" + card, at=65536)[0]
            run("dmsetup", "resume", "cardslow")
            wait(lambda: stat(c.nodes[1], "CardLateReplies") > 0, 30 * SLOW)
            for _ in range(3):
                assert hash_of("/dev/" + card, direct=True) == disk.hash()
            detach(c.nodes[1], card)
            tool(c.nodes[0], "unexport", "slow")


@claim
def lost_and_late_packets_cost_time_and_nothing_else():
    with pair(size=2 * MIB) as (c, disk):
        run("ip", "netns", "exec", c.net.bridge, "tc", "qdisc", "add", "dev", "p1", "root", "netem",
            "loss", "2%", "delay", "2ms", "1ms", "reorder", "10%")
        card = attach(c.nodes[1], "data", "timeout", "5000", "retries", "20")
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        assert stat(c.nodes[1], "CardErrors") == 0
        assert stat(c.nodes[1], "CardBadCrc") == 0


@claim
def the_exporters_disk_fails_and_the_error_comes_across():
    with pair(size=MIB, offered=False) as (c, disk):
        sectors = disk.size // 512
        with mapped("cardbad", "0 64 linear %s 0" % disk.device, "64 8 error",
                    "72 %d linear %s 72" % (sectors - 72, disk.device)) as path:
            export(c.nodes[0], "bad", path)
            card = "/dev/" + attach(c.nodes[1], "bad", "readahead", "0")
            assert read_error(card, at=0)[0] == 0
            assert read_error(card, at=64 * 512)[0] == errno.EIO
            assert read_error(card, at=72 * 512)[0] == 0
            assert stat(c.nodes[0], "CardDiskErrors") > 0
            detach(c.nodes[1], card[5:])
            tool(c.nodes[0], "unexport", "bad")


@claim
def a_node_that_is_removed_gets_nothing_more():
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data", *QUICK)
        c.nodes[0].nl.do("NODE_DEL", node_name="n2")
        assert exports(c.nodes[0])["data"]["sessions"] == 0
        assert read_error(card)[0]
        c.nodes[0].list(c.nodes[1])
        wait_live(c.nodes[1], card[5:], 60)
        assert hash_of(card, direct=True) == disk.hash()
        # The asker forgets the exporter and lists it again: another node object, the same disk.
        c.nodes[1].nl.do("NODE_DEL", node_name="n1")
        assert read_error(card)[0]
        c.nodes[1].list(c.nodes[0])
        wait_live(c.nodes[1], card[5:], 60)
        assert hash_of(card, direct=True) == disk.hash()


@claim
def namespaces_go_with_disks_in_them():
    with pair(size=MIB) as (c, disk):
        attach(c.nodes[1], "data", *QUICK)
        c.nodes[1].nl.close()
        c.net.delete(c.nodes[1].ns)
        c.nodes.pop()
        wait(lambda: exports(c.nodes[0])["data"]["sessions"] == 0, 60 * SLOW)
        wait(lambda: not [n for n in os.listdir("/sys/block") if n.startswith("card")], 60 * SLOW)
        assert hash_of(disk.device) == disk.hash()


@claim
def readers_survive_exports_and_links_that_come_and_go():
    seed = int(os.environ.get("CARD_SEED", "3"))
    rounds = int(os.environ.get("CARD_ROUNDS", "4"))
    print("# seed %d, %d rounds" % (seed, rounds))
    rnd = random.Random(seed)
    with pair(size=2 * MIB) as (c, disk):
        heartbeat(c)
        card = attach(c.nodes[1], "data", "timeout", "500", "retries", "200")
        fio = subprocess.Popen(["fio", "--name=v", "--filename=/dev/" + card, "--direct=1",
                                "--rw=randread", "--bsrange=4k-64k", "--iodepth=8",
                                "--ioengine=libaio", "--time_based", "--runtime=1000",
                                "--minimal"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            for _ in range(rounds):
                before = stat(c.nodes[1], "CardReads")
                wait(lambda b=before: stat(c.nodes[1], "CardReads") > b + 20, 60 * SLOW)
                if rnd.random() < .5:
                    tool(c.nodes[0], "unexport", "data")
                    export(c.nodes[0], "data", disk.device)
                else:
                    cut(c, 1)
                    wait(lambda: state(c.nodes[1], card) != "live", 60 * SLOW)
                    mend(c, 1)
                wait_live(c.nodes[1], card, 60)
                assert fio.poll() is None, fio.stdout.read()
            assert stat(c.nodes[1], "CardErrors") == 0
        finally:
            fio.terminate()
            fio.wait()
        assert hash_of("/dev/" + card, direct=True) == disk.hash()


def thread_of(export_name):
    """The pid of an export's own thread."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/comm" % pid, encoding="ascii") as f:
            if f.read().strip() == "card/" + export_name:
                return int(pid)
    raise AssertionError("there is no thread of the export")


HOG = "import os; os.setpriority(os.PRIO_PROCESS, 0, -20); print(flush=True)\nwhile True: pass"


@contextlib.contextmanager
def starved(pid):
    """Beside it on its processor, in one group, is one that counts thirty thousand times as much."""
    with Cgroup("cpu") as group, contextlib.ExitStack() as stack:
        hog = stack.enter_context(subprocess.Popen(group.command("taskset", "-c", "1", sys.executable, "-c", HOG),
                                                   stdout=subprocess.PIPE))
        stack.callback(hog.kill)
        hog.stdout.readline()
        os.sched_setaffinity(pid, {1})
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        group.write("cgroup.procs", pid)
        try:
            yield
        finally:
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
            with open(TOP + "/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(pid))


class Reader(threading.Thread):
    """A direct read by node 2, and what the nodes counted meanwhile."""

    def __init__(self, c, card):
        super().__init__()
        self.nodes, self.path, self.got, self.before = c.nodes, "/dev/" + card, [], [stats(n) for n in c.nodes]
        self.start()

    def run(self):
        self.got.append(read_error(self.path)[0])

    def told(self, name, number=2):
        return stat(self.nodes[number - 1], name) - self.before[number - 1][name]

    def held_up(self, timeouts):
        """Does it wait for so many."""
        wait(lambda: self.got or self.told("CardTimeouts") >= timeouts, 120 * SLOW)
        return not self.got


def reader_held_up(c, card, timeouts):
    """Who slept has some time to his credit, which a few reads use up."""
    for _ in range(100):
        reader = Reader(c, card)
        if reader.held_up(timeouts):
            return reader
        assert reader.got == [0], reader.got
    raise AssertionError("the thread is not starved")


@claim
def a_starved_program_gets_its_data_and_is_no_reason_to_ask_without_end():
    """What serves it has no processor for eight time-outs: none of them ends it, few are asked after."""
    with pair(size=MIB // 4, words=("serve", "thread", "deliver", "async")) as (c, disk):
        card = attach(c.nodes[1], "data", "timeout", "100", "nolookup")
        with starved(thread_of("data")):
            reader = reader_held_up(c, card, 8)
            timeouts, resent = reader.told("CardTimeouts"), reader.told("CardResent")
            known = reader.told("CardAskedAgain", 1)
            print("# %d time-outs, asked again %d times, of which the exporter knew %d" % (timeouts, resent, known))
            assert not reader.got, reader.got
        # After 1, 2, 4 and 8 time-outs; each time the exporter has it already, and the last may be on its way.
        assert 0 < resent <= timeouts.bit_length(), (timeouts, resent)
        assert known >= resent - 1, (resent, known)
        reader.join(60 * SLOW)
        assert reader.got == [0], reader.got
        assert hash_of("/dev/" + card, direct=True) == disk.hash()
        assert stat(c.nodes[1], "CardErrors") == 0


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "sch_netem", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

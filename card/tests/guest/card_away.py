#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both a minute, and on the debug kernel it takes ten minutes
"""An exporter that is away, or slow, is no error: requests wait and are repeated in their order. Whoever
does not want to wait says so, or ends it by force. CARD_AWAY=40 pulls the cable for so many seconds."""
import contextlib
import os
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, TOP, Refused, attach, cut, detach, disks, errno, export, hash_of,  # noqa: E402
                  mapped, mend, mounted, pair, read_error, refused, run, stat, state, stats, tool, wait_live,
                  write_error)
from fltnl import Flotilla, attr, enums                 # noqa: E402
from netns import inside                                # noqa: E402
from peer import Exporter, answer_data, answer_done, meeting  # noqa: E402
from tap import claim, main, wait                       # noqa: E402

AWAY = int(os.environ.get("CARD_AWAY", "10"))
CARD = enums(os.path.join(TOP, "card/uapi/flotilla/card.h"))
EINPROGRESS = 115
HERE, THERE = "/tmp/card-here", "/tmp/card-there"
TRACE = "/sys/kernel/tracing"


def heartbeat(c, ms=500):
    for node in c.nodes:
        node.sysfs("links/heartbeat_ms", str(ms))


class Writer(threading.Thread):
    """Buffered writes, each file of its own content, some with fsync; what failed."""

    def __init__(self, directory, number):
        super().__init__()
        self.path = os.path.join(directory, "w%d-" % number)
        self.number, self.trouble, self.over = number, None, threading.Event()
        self.files = {}

    def run(self):
        try:
            while not self.over.is_set():
                i = len(self.files) % 20
                text = b"%d %d %d\n" % (self.number, i, len(self.files)) * 3000
                with open(self.path + str(i), "wb") as f:
                    f.write(text)
                    f.flush()
                    if self.number % 2:
                        os.fsync(f.fileno())
                self.files[i] = text
                time.sleep(.02)
        except OSError as err:
            self.trouble = err

    def stop(self):
        self.over.set()
        self.join(60 * SLOW)
        assert not self.is_alive(), "a writer hangs"
        assert not self.trouble, self.trouble


def flush_error(path):
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        return 0
    except OSError as err:
        return err.errno
    finally:
        os.close(fd)


@contextlib.contextmanager
def frozen(disk, c, *words):
    """Node 1 exports a disk that can be stopped; its two switches."""
    def suspend():
        run("dmsetup", "suspend", "--noflush", "--nolockfs", "cardslow")

    def resume():
        run("dmsetup", "resume", "cardslow")

    with mapped("cardslow", "0 %d linear %s 0" % (disk.size // 512, disk.device)) as path:
        export(c.nodes[0], "slow", path, *words)
        try:
            yield suspend, resume
        finally:
            resume()
            for name in disks(c.nodes[1]):
                detach(c.nodes[1], name, "force")
            tool(c.nodes[0], "unexport", "slow")


@claim
def a_mounted_file_system_outlives_a_pulled_cable():
    with pair(size=32 * MIB, offered=False) as (c, disk):
        run("mkfs.ext4", "-q", "-F", disk.device)
        export(c.nodes[0], "data", disk.device, "write")
        card = attach(c.nodes[1], "data", "write")
        with mounted("/dev/" + card, HERE):
            writers = [Writer(HERE, n) for n in range(3)]
            for w in writers:
                w.start()
            wait(lambda: all(w.files for w in writers), 30 * SLOW)
            cut(c, 1)
            time.sleep(AWAY)
            wait(lambda: state(c.nodes[1], card) == "waiting" and disks(c.nodes[1])[card]["in_flight"])
            # Nobody has come to an end meanwhile who asked for the disk.
            assert not any(w.trouble for w in writers), [w.trouble for w in writers]
            mend(c, 1)
            wait_live(c.nodes[1], card, 60)
            for w in writers:
                w.stop()
            run("sync", "-f", HERE)
        assert stat(c.nodes[1], "CardErrors") == 0
        detach(c.nodes[1], card)
        tool(c.nodes[0], "unexport", "data")
        run("e2fsck", "-fn", disk.device)
        with mounted(disk.device, THERE, "-o", "ro"):
            for w in writers:
                for i, text in w.files.items():
                    with open(os.path.join(THERE, os.path.basename(w.path) + str(i)), "rb") as f:
                        assert f.read() == text, (w.number, i)


@claim
def who_wants_no_waiting_gets_an_error_in_time_and_the_disk_when_it_is_back():
    with pair(size=MIB, words=("write",)) as (c, disk):
        heartbeat(c)
        card = attach(c.nodes[1], "data", "write", "fail_fast", "10")
        cut(c, 1)
        code, seconds = read_error("/dev/" + card)
        assert code == errno.EIO and 9 < seconds < 10 + 30 * SLOW, (code, seconds)
        assert "away for too long" in disks(c.nodes[1])[card]["reason"]
        # From then on nobody waits.
        code, seconds = write_error("/dev/" + card)
        assert code == errno.EIO and seconds < 8, (code, seconds)
        assert stat(c.nodes[1], "CardGivenUp") == 1
        mend(c, 1)
        wait_live(c.nodes[1], card, 60)
        assert write_error("/dev/" + card)[0] == 0
        assert hash_of("/dev/" + card, direct=True) == disk.hash()


@claim
def a_slow_disk_is_no_error_and_gets_nothing_more_to_do():
    with pair(size=MIB, offered=False) as (c, disk):
        with frozen(disk, c, "write") as (suspend, resume):
            card = "/dev/" + attach(c.nodes[1], "slow", "write", "nolookup", "timeout", "200",
                                    "fail_fast", "4")
            served = stat(c.nodes[0], "CardServed")
            wrote = stat(c.nodes[0], "CardServedWrites")
            suspend()
            got, began = [], time.monotonic()
            # A flush, too: before the others, since it waits for what was written before it.
            asks = [threading.Thread(target=lambda: got.append(flush_error(card))),
                    threading.Thread(target=lambda: got.append(read_error(card, at=65536)[0])),
                    threading.Thread(target=lambda: got.append(write_error(card)[0]))]
            for n, thread in enumerate(asks, 1):
                thread.start()
                wait(lambda n=n: disks(c.nodes[1])[card[5:]]["in_flight"] == n, 30 * SLOW)
            time.sleep(8)
            # The exporter says that it is there; that is enough, however slow its disk is.
            wait(lambda: stat(c.nodes[0], "CardAskedAgain") >= 9)
            assert not got, got
            # Ever more seldom: 1, 2, 4... times the time-out, and then each of three in two seconds.
            sent, most = stat(c.nodes[1], "CardResent"), 21 + 1.5 * (time.monotonic() - began - 8)
            assert sent <= most, (sent, most)
            resume()
            for thread in asks:
                thread.join(60 * SLOW)
            assert got == [0, 0, 0], got
            assert stat(c.nodes[0], "CardServed") == served + 1
            assert stat(c.nodes[0], "CardServedWrites") == wrote + 1
            assert stat(c.nodes[1], "CardErrors") == 0


@claim
def who_is_slow_is_asked_ever_more_seldom():
    with pair(size=MIB, offered=False) as (c, disk):
        with frozen(disk, c) as (suspend, resume):
            b = c.nodes[1]
            card = "/dev/" + attach(b, "slow", "nolookup", "timeout", "200")
            suspend()
            before, got = stats(b), []
            ask = threading.Thread(target=lambda: got.append(read_error(card, at=65536)[0]))
            ask.start()
            wait(lambda: stat(b, "CardTimeouts") >= before["CardTimeouts"] + 12, 90 * SLOW)
            # After 1, 2, 4 and 8 of them.
            again = stat(b, "CardResent") - before["CardResent"]
            assert 3 <= again <= 5, again
            resume()
            ask.join(60 * SLOW)
            assert got == [0], got


class Slow:
    """An exporter that has the data at once, or says so long after it was asked that it works on it."""

    def __init__(self, peer):
        self.peer, self.busy, self.mute, self.late = peer, False, False, 0
        self.begun, self.said = set(), 0
        self.exporter = Exporter(peer, self.read)

    def read(self, ask):
        if not self.busy:
            self.peer.send(answer_data(ask))
        elif ask[28:36] not in self.begun:
            self.begun.add(ask[28:36])
        elif not self.mute:
            threading.Timer(self.late, self.say, [ask]).start()

    def say(self, ask):
        with contextlib.suppress(OSError):
            self.peer.send(answer_done(ask, EINPROGRESS))
            self.said += 1

    def close(self):
        self.exporter.close()


@contextlib.contextmanager
def slow(timeout, fail_fast, late=0):
    """A read is under way at an exporter that is slow; its result comes to the list."""
    with meeting(exported=False) as (b, peer), contextlib.closing(Slow(peer)) as there:
        card = attach(b, "data", "timeout", str(timeout), "fail_fast", str(fail_fast))
        there.busy, there.late = True, late
        got = []
        asks = threading.Thread(target=lambda: got.append(read_error("/dev/" + card, at=65536)[0]))
        asks.start()
        try:
            yield there, got
        finally:
            detach(b, card, "force")
            asks.join(60 * SLOW)


def says(there, got, times):
    want = there.said + times
    wait(lambda: there.said >= want or got, 90 * SLOW)
    assert not got, (there.said, got)


@claim
def who_says_late_and_again_and_again_that_he_is_slow_is_not_silent():
    # The second one is asked for the first time when more than its patience is over.
    for timeout, fail_fast, late in (100, 4 * SLOW, 2.4 * SLOW), (3000, 1, 0):
        with slow(timeout, fail_fast, late) as (there, got):
            says(there, got, 8)
            there.busy = False
            wait(lambda: got, 60 * SLOW)
            assert got == [0], got


@claim
def who_was_slow_and_falls_silent_is_not_waited_for_much_longer():
    with slow(100, 4) as (there, got):
        says(there, got, 5)     # after further 1, 2, 4... time-outs the next question were far
        there.mute = True
        begin = time.monotonic()
        wait(lambda: got, 60 * SLOW)
        seconds = time.monotonic() - begin
        assert got == [errno.ETIMEDOUT] and 3 < seconds < 10 + 10 * SLOW, (got, seconds)


@claim
def what_waited_is_repeated_in_the_order_in_which_it_came():
    with pair(size=MIB, words=("write",)) as (c, _):
        heartbeat(c)
        a, b = c.nodes
        if not os.path.exists(TRACE + "/events"):
            run("mount", "-t", "tracefs", "none", TRACE)
        card = attach(b, "data", "write", "depth", "8", "timeout", "60000")
        shuffled = 0
        for i in range(12):
            # The block layer gives tags in turn: so that they do not grow with the requests.
            for _ in range(i % 7):
                assert read_error("/dev/" + card)[0] == 0
            cut(c, 1)
            wait(lambda: state(b, card) == "waiting", 60 * SLOW)
            writes = []
            for n in range(6):
                writes.append(threading.Thread(target=write_error, args=("/dev/" + card, n * 8192)))
                writes[-1].start()
                wait(lambda want=n + 1: disks(b)[card]["in_flight"] == want, 30 * SLOW)
            for name, text in (("trace", ""), ("events/card/card_send/enable", "1")):
                with open(os.path.join(TRACE, name), "w", encoding="ascii") as f:
                    f.write(text)
            mend(c, 1)
            for thread in writes:
                thread.join(60 * SLOW)
            with open(TRACE + "/events/card/card_send/enable", "w", encoding="ascii") as f:
                f.write("0")
            with open(TRACE + "/trace", encoding="ascii") as f:
                sent = [dict(w.split("=") for w in line.split() if "=" in w)
                        for line in f if "card_send:" in line and "op=write" in line]
            sectors, tags = ([int(s[k]) for s in sent[:6]] for k in ("sector", "tag"))
            assert sectors == [16 * n for n in range(6)], (sectors, tags)
            shuffled += tags != sorted(tags)
            if shuffled:
                break
        assert shuffled, "tags grew with the requests: nothing is shown"


@claim
def force_ends_at_once_what_waits():
    with pair(size=32 * MIB, offered=False) as (c, disk):
        run("mkfs.ext4", "-q", "-F", disk.device)
        export(c.nodes[0], "data", disk.device, "write")
        heartbeat(c)
        card = attach(c.nodes[1], "data", "write")
        with mounted("/dev/" + card, HERE):
            cut(c, 1)
            writers = [Writer(HERE, n) for n in range(3)]
            for w in writers:
                w.start()
            wait(lambda: disks(c.nodes[1])[card]["in_flight"], 60 * SLOW)
            time.sleep(1)
            begin = time.monotonic()
            detach(c.nodes[1], card, "force")
            assert time.monotonic() - begin < 20 * SLOW, time.monotonic() - begin
            for w in writers:
                w.over.set()
                w.join(30 * SLOW)
                assert not w.is_alive(), "a writer hangs"
            assert any(w.trouble for w in writers)
        assert not disks(c.nodes[1])
        mend(c, 1)


@claim
def attaching_that_hangs_holds_nobody_up_and_can_be_ended():
    with pair(size=MIB, offered=False) as (c, disk):
        with frozen(disk, c) as (suspend, resume):
            suspend()
            said = []

            def hang():
                try:
                    attach(c.nodes[1], "slow", "nolookup")
                except Refused as err:
                    said.append(str(err))
            thread = threading.Thread(target=hang)
            thread.start()
            # It looks for partitions.
            wait(lambda: [n for n in os.listdir("/sys/block") if n.startswith("card")], 60 * SLOW)
            time.sleep(1)
            begin = time.monotonic()
            assert not disks(c.nodes[1])
            refused("in use", c.nodes[1], "detach", "n1", "slow")
            detach(c.nodes[1], "n1", "slow", "force")
            thread.join(30 * SLOW)
            assert not thread.is_alive() and "detached meanwhile" in said[0], said
            assert time.monotonic() - begin < 30 * SLOW
            assert not [n for n in os.listdir("/sys/block") if n.startswith("card")]
            resume()
            card = attach(c.nodes[1], "slow")
            assert hash_of("/dev/" + card) == disk.hash()


class Card(Flotilla):
    """The commands themselves: a tool that has to be started first gives the kernel time."""
    FAMILY = b"flotilla_card\0"

    def disk(self, cmd, node, name):
        self.talk(self.family, CARD["CARD_CMD_" + cmd],
                  attr(CARD["CARD_A_DISK_NODE"], node.encode() + b"\0") +
                  attr(CARD["CARD_A_DISK_EXPORT"], name.encode() + b"\0"))


@claim
def nobody_has_a_disk_open_that_was_just_attached():
    with pair(size=MIB) as (c, _):
        with inside(c.nodes[1].ns), contextlib.closing(Card()) as card:
            for _ in range(20):
                card.disk("DISK_NEW", "n1", "data")
                card.disk("DISK_DEL", "n1", "data")     # EBUSY: somebody has


@claim
def opening_that_hangs_holds_up_neither_the_list_nor_who_detaches():
    with pair(size=MIB, offered=False) as (c, disk):
        with frozen(disk, c) as (suspend, _):
            card = attach(c.nodes[1], "slow", "nolookup")
            run("blockdev", "--flushbufs", "/dev/" + card)
            suspend()
            # It reads the partition table, with the disk's mutex held.
            hung = subprocess.Popen(["blockdev", "--rereadpt", "/dev/" + card],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait(lambda: disks(c.nodes[1])[card]["in_flight"], 60 * SLOW)
            begin = time.monotonic()
            refused("in use", c.nodes[1], "detach", card)
            assert disks(c.nodes[1])[card]["state"] == "live"
            detach(c.nodes[1], card, "force")
            hung.wait(30 * SLOW)
            assert time.monotonic() - begin < 30 * SLOW
            assert not disks(c.nodes[1])


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "dm-mod", "ext4", "card")
    try:
        main()
    finally:
        run("rmmod", "card")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both it takes three minutes on the stock kernel, twenty on the debug kernel
"""Where copies of one block go, step by step: the rules of HSCC, its eager index, and classes."""
import contextlib
import errno
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, Disk, attach, detach, export, pair, refused, rows_of,    # noqa: E402
                  run, stat, stats, tool, wait)
from netns import SysfsView                              # noqa: E402
from tap import claim, main                             # noqa: E402
from trio import Groups, trio                           # noqa: E402

SIZES = (512, 5000, 50000, 200000)      # a file of each class
BLOCKS = (1, 2, 13, 49)


def explain(node, block):
    return rows_of(tool(node, "explain", str(block)))[0]


def rule(node, name, value=None, of=None):
    """An attribute of the node's one cache, or of @of."""
    top = os.path.join(SysfsView.of(node.ns).path, "class/card")
    path = os.path.join(top, of or os.listdir(top)[0], name)
    if value is None:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, value.encode())
    finally:
        os.close(fd)


class Copies:
    """Nodes read single blocks, and lose them again when told so."""

    def __init__(self, t, groups):
        self.t, self.groups = t, groups

    def node(self, i):
        return self.t.nodes[i - 1]

    def read(self, i, *blocks, keep=False):
        """Node i (2, 3, ...) reads blocks; with keep, evict() leaves them."""
        group = "keep" if keep else self.node(i).name
        for block in blocks:
            reader = self.groups.run(group, "dd", "if=" + self.t.path(i - 1), "of=/dev/null",
                                     "bs=4096", "count=1", "status=none", "skip=%d" % block)
            assert reader.wait(60 * SLOW) == 0
            assert self.of(i, block)["here"] == "cached", self.of(i, block)

    def evict(self, i, block):
        def gone():
            self.groups.reclaim(self.node(i).name)
            return self.of(i, block)["here"] != "cached"
        wait(gone, every=0.2)

    def of(self, i, block):
        return explain(self.node(i), block)

    def sees(self, i, block, **what):
        """Node i will have these opinions of the block."""
        def does():
            got = self.of(i, block)
            return all(got[key] == value for key, value in what.items())
        try:
            wait(does)
        except AssertionError as err:
            raise AssertionError("n%d: %s, not %s" % (i, self.of(i, block), what)) from err

    def count(self, name):
        return self.t.total(name)


@contextlib.contextmanager
def copies(policy="hscc", **more):
    groups = Groups("n2", "n3", "n4", "n5", "keep")
    try:
        with trio(policy, words=("readahead", "0"), **more) as t:
            yield Copies(t, groups)
    finally:
        groups.close()


# Of three participants the homes of blocks 3, 4 and 5 are n1, n2 and n3; of four, those of 4 to 7 n1 to n4.

@claim
def a_singlet_goes_to_the_least_loaded_and_its_home_hears_of_it():
    with copies() as c:
        c.read(2, 3, 6, 9, keep=True)
        assert rule(c.node(2), "load") == "3 0 0"
        c.read(2, 4)
        assert rule(c.node(2), "load") == "3 1 0"
        c.sees(2, 4, copy="singlet", previous="n1", next="")
        c.evict(2, 4)
        c.sees(3, 4, here="hosted", copy="singlet")
        c.sees(2, 4, next="n3", ask="n3")
        assert rule(c.node(2), "load") == "3 0 0"
        assert rule(c.node(3), "load") == "0 1 0"
        assert c.count("CardSaves") == 1 and c.count("CardHosted") == 1


@claim
def a_singlet_goes_to_its_home_if_there_is_no_room():
    with copies(hosts={"n3": 0}) as c:
        c.read(2, 3, 9, keep=True)
        c.read(2, 6)
        c.evict(2, 6)
        c.sees(1, 6, here="hosted")
        assert stat(c.node(3), "CardSavesPassed") == 1


@claim
def a_singlet_nobody_has_room_for_is_dropped_and_forgotten_at_its_home():
    with copies(hosts={"n1": 0, "n2": 0, "n3": 0}) as c:
        c.read(2, 3, 9, keep=True)
        c.read(2, 6)
        c.sees(1, 6, next="n2")
        c.evict(2, 6)
        c.sees(1, 6, here="no", next="")
        assert c.count("CardHosted") == 0 and c.count("CardSavesRefused") == 1


@claim
def the_newest_copy_is_not_sent_where_there_is_one_already_in_vain():
    with copies() as c:
        c.read(2, 3)
        c.read(3, 3)
        c.sees(2, 3, copy="older", next="n3")
        c.sees(3, 3, copy="recent", previous="n2")
        c.sees(1, 3, next="n3")
        c.evict(3, 3)
        c.sees(1, 3, next="n2")
        c.sees(3, 3, copy="unknown")
        assert stat(c.node(3), "CardSaves") == 1 and c.count("CardHosted") == 0


@claim
def an_older_copy_goes_in_silence_and_the_newest_takes_its_place():
    with copies() as c:
        c.read(2, 3)
        c.read(3, 3)
        c.evict(2, 3)
        assert c.count("CardSaves") == c.count("CardIndexSent") == 0
        c.sees(2, 3, here="no", copy="older")       # the entry outlives the block
        c.evict(3, 3)
        c.sees(2, 3, here="hosted")
        c.sees(1, 3, next="n2")
        c.sees(3, 3, copy="unknown")                # until it is told that it is stale


@claim
def a_request_goes_from_its_home_to_who_asked_last_and_back_straight():
    with copies() as c:
        c.read(2, 3)
        before = stats(c.node(1))
        c.read(3, 3)
        after = stats(c.node(1))
        assert after["CardForwards"] - before["CardForwards"] == 1
        assert after["CardServedBytes"] == before["CardServedBytes"]
        assert stat(c.node(3), "CardFromPeer") == 1
        assert stat(c.node(2), "CardPeerServed") == 1


@claim
def who_lost_it_and_asks_again_is_not_sent_to_itself():
    with copies() as c:
        rule(c.node(2), "evict", "none")
        c.read(2, 3)
        c.evict(2, 3)
        c.sees(1, 3, next="n2")
        before = c.count("CardForwards"), stat(c.node(2), "CardFromDisk") + 1
        c.read(2, 3)
        assert (c.count("CardForwards"), stat(c.node(2), "CardFromDisk")) == before


def passed_on(depth):
    """A newest copy whose previous has no room: how far it went."""
    with copies(n=4, hosts={"n3": 0}) as c:
        rule(c.node(4), "depth", str(depth))
        for i in (2, 3, 4):
            c.read(i, 4)
        c.evict(2, 4)
        c.evict(3, 4)
        c.evict(4, 4)
        wait(lambda: c.count("CardHosted") or stat(c.node(3), "CardSavesRefused"))
        if depth:
            c.sees(2, 4, here="hosted")
            c.sees(1, 4, next="n2")
        return stat(c.node(3), "CardSavesPassed"), c.count("CardHosted")


@claim
def who_must_keep_the_newest_copy_drops_a_hosted_one_and_tells_nobody():
    with copies(n=4, hosts={"n3": 1}) as c:
        c.read(2, 4, 8, 7, 11, keep=True)
        c.read(2, 6)
        c.evict(2, 6)
        c.sees(3, 6, here="hosted")
        c.read(3, 12)
        c.read(4, 12)
        c.evict(3, 12)
        rule(c.node(4), "depth", "0")
        before = c.count("CardSaves"), c.count("CardHostedDropped")
        c.evict(4, 12)
        c.sees(3, 12, here="hosted")
        c.sees(3, 6, here="no")
        assert (c.count("CardSaves"), c.count("CardHostedDropped")) == (before[0] + 1, before[1] + 1)


@claim
def the_newest_copy_is_passed_on_as_often_as_depth_says():
    assert passed_on(0) == (0, 0)
    assert passed_on(1) == (1, 1)
    assert passed_on(5) == (1, 1)


@claim
def blocks_in_a_row_have_one_home_by_home_shift():
    with pair(3, size=MIB, nodes="n2,n3",
              words=("policy", "hscc", "home_shift", "3")) as (c, _):
        card = attach(c.nodes[1], "data")
        homes = [explain(c.nodes[1], block)["home"] for block in (0, 7, 8, 15, 16, 23, 24)]
        assert homes == ["n1", "n1", "self", "self", "n3", "n3", "n1"], homes
        assert rule(c.nodes[1], "home_shift") == "3"
        detach(c.nodes[1], card)
        refused("", c.nodes[0], "export", "more", "device", "/dev/null", "nodes", "n2",
                "home_shift", "10")


@claim
def an_eager_list_is_closed_around_who_evicts():
    with copies("hscc-eager", n=4) as c:
        for i in (2, 3, 4):
            c.read(i, 4)
        c.sees(2, 4, next="n3")
        c.sees(3, 4, previous="n2", next="n4")
        c.sees(4, 4, previous="n3", copy="recent")
        c.evict(3, 4)
        c.sees(2, 4, next="n4", previous="n1")
        c.sees(4, 4, previous="n2", copy="recent")
        c.sees(3, 4, copy="unknown")
        assert c.count("CardSaves") == 0


@claim
def an_eager_list_loses_its_ends_and_the_last_copy_is_saved():
    with copies("hscc-eager", n=4) as c:
        for i in (2, 3, 4):
            c.read(i, 4)
        c.evict(4, 4)
        c.sees(3, 4, next="", copy="recent")
        c.sees(1, 4, next="n3")
        c.sees(4, 4, copy="unknown")
        c.evict(2, 4)
        c.sees(3, 4, previous="n1", copy="singlet")
        c.sees(2, 4, copy="unknown")
        assert c.count("CardSaves") == 0
        c.evict(3, 4)
        wait(lambda: c.count("CardHosted") == 1)
        assert c.count("CardSaves") == 1


@claim
def an_eager_list_is_closed_around_several_who_evict():
    with copies("hscc-eager", n=5) as c:
        for i in (2, 3, 4, 5):
            c.read(i, 5)                    # of five, n1 is home
        c.evict(3, 5)
        c.evict(4, 5)
        c.sees(2, 5, next="n5")
        c.sees(5, 5, previous="n2")
        for i in (3, 4):
            c.sees(i, 5, copy="unknown")


@contextlib.contextmanager
def documents(*actions):
    """Nodes 2 and 3 have mounted a file system with a file of each class; their directories."""
    groups = Groups("n2", "n3", "n4", "n5", "keep")
    disk = Disk(4 * MIB, name="files")
    source = "/tmp/card-documents"
    os.makedirs(source, exist_ok=True)
    for number, size in enumerate(SIZES):
        with open("%s/%d" % (source, number), "wb") as f:
            f.write(os.urandom(size))
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", "-d", source, disk.device)
    where = ["/tmp/card-n%d" % i for i in (2, 3)]
    try:
        with pair(3, size=MIB, nodes="n2,n3") as (c, _):
            export(c.nodes[0], "web", disk.device, "policy", "hscc", nodes="n2,n3")
            for node, path in zip(c.nodes[1:], where):
                os.makedirs(path, exist_ok=True)
                card = attach(node, "web", "readahead", "0")
                for name, value in actions:
                    rule(node, name, value)
                run("mount", "-o", "ro", "/dev/" + card, path)
            try:
                yield c, groups, where
            finally:
                for path in where:
                    run("umount", path)
    finally:
        disk.close()
        groups.close()
        run("modprobe", "-r", "card_hscc")


def fetch(groups, where, i, number):
    path = "%s/%d" % (where[i - 2], number)
    reader = groups.run("n%d" % i, "cmp", path, "/tmp/card-documents/%d" % number)
    assert reader.wait(60 * SLOW) == 0, "other bytes"


@claim
def classes_say_whom_to_ask_and_what_the_exporter_caches():
    with documents(("class_action", "disk coop coop discard")) as (c, groups, where):
        for number, blocks in enumerate(BLOCKS):
            fetch(groups, where, 2, number)
            a = stats(c.nodes[2])
            kept = stat(c.nodes[0], "CardKeptPages")
            fetch(groups, where, 3, number)
            b = stats(c.nodes[2])
            got = [b[n] - a[n] for n in ("CardFromPeer", "CardFromCache", "CardFromDisk")]
            peers = (0, blocks, blocks, 0)[number]
            assert got[0] >= peers if peers else got[0] <= 2, (number, got)     # its directory may be one
            assert got[1] >= blocks or number != 3, (number, got)
            assert got[2] >= blocks or number != 0, (number, got)
            assert kept == (0, 0, 0, BLOCKS[3])[number], (number, kept)


@claim
def only_the_classes_named_are_saved():
    with documents(("evict", "2\n")) as (c, groups, where):
        for number in range(4):
            fetch(groups, where, 2, number)

        def evicted():
            groups.reclaim("n2")
            return stat(c.nodes[1], "CardEvictions") >= sum(BLOCKS)
        wait(evicted, every=0.2)
        wait(lambda: stat(c.nodes[0], "CardHosted") + stat(c.nodes[2], "CardHosted") == BLOCKS[2])
        assert stat(c.nodes[1], "CardSaves") == BLOCKS[2]


@claim
def classes_begin_where_their_limits_say():
    with documents(("class_limits", "100 51000 60000"),
                   ("class_action", "coop coop disk coop")) as (c, groups, where):
        for number, peer in enumerate((True, True, True, True)):
            fetch(groups, where, 2, number)
            before = stat(c.nodes[2], "CardFromPeer")
            fetch(groups, where, 3, number)
            assert (stat(c.nodes[2], "CardFromPeer") - before >= BLOCKS[number]) == peer, number
    with documents(("class_limits", "100 50000 50001"),
                   ("class_action", "coop coop disk coop")) as (c, groups, where):
        fetch(groups, where, 2, 2)
        fetch(groups, where, 3, 2)
        assert stat(c.nodes[2], "CardFromPeer") <= 2 and stat(c.nodes[2], "CardFromDisk") >= 13


@claim
def wrong_rules_are_refused_and_change_nothing():
    with trio() as t:
        for name, usual, wrong in (
                ("class_limits", "1024 10240 102400",
                 ("", "1 2", "1 2 3 4", "3 2 1", "0 1 2", "1 1 2", "-1 2 3", "1 2 9223372036854775808",
                  "a b c")),
                ("class_action", "coop coop coop coop",
                 ("", "coop", "coop coop coop none", "coop coop coop coop coop", "coop coop coop discar")),
                ("evict", "all", ("", "4", "0,", "0,4", "0 1", "00", ",", "al", "-1", "0,1,")),
                ("depth", "2", ("", "17", "-1", "+1", "x", "2 2"))):
            for text in wrong:
                for node, of in ((t.nodes[1], None), (t.nodes[0], "export.data")):
                    try:
                        rule(node, name, text, of)
                        assert not text, (name, text)       # writing nothing does nothing
                    except OSError as err:
                        assert err.errno == errno.EINVAL, (name, text, err)
                    assert rule(node, name, None, of) == usual, (name, text)
        for name, text in (("class_limits", "1 2 3\n"), ("class_action", "disk coop discard coop\n"),
                           ("evict", "1,3"), ("evict", "none"), ("depth", "16\n")):
            rule(t.nodes[1], name, text)
            assert rule(t.nodes[1], name) == text.strip()


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both two minutes, and on the debug kernel it takes twenty minutes
"""Nodes serve each other from memory: whatever they believe of each other, the bytes are the disk's.

CARD_ROUNDS and CARD_SEED make the run with wrong indexes longer, or another one.
"""
import os
import random
import struct
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, SLOW, Disk, Refused, attach, cut, detach, disks, export, exports,   # noqa: E402
                  hash_of, pair, read_error, refused, rows_of, run, stat, state, stats, tool,
                  unload, wait, wait_live)
from peer import BLOCK, DATA, INDEX, PEER, READ, SAVE, Fake    # noqa: E402
from tap import claim, main                             # noqa: E402
from trio import limited, scramble, trio                # noqa: E402

ROUNDS = int(os.environ.get("CARD_ROUNDS", 1))
SEED = int(os.environ.get("CARD_SEED", 1))

COOPERATIVE = ("CardFromPeer", "CardHostedHits", "CardPeerServed", "CardForwards", "CardSaves",
               "CardHosted", "CardIndexSent", "CardEvictions")


def coop(epoch, number, export_id, tag=1 << 20, flags=0, origin=0xffff, depth=0, kind=0, crc=0):
    """A request for a block, or the head of a saved one, as participants send it."""
    return struct.pack(BLOCK, epoch, number * 8, export_id, 4096, 1, tag, 4, crc, 0, flags, origin,
                       0xffff, 0, 0, 0, depth, kind, 0, 0, 0)


def explain(node, block):
    return rows_of(tool(node, "explain", str(block)))[0]


def why(t, i):
    return disks(t.nodes[i])[t.names[i]]["reason"]


def scrambled(policy):
    print("# %s: %d rounds, seed %d" % (policy, ROUNDS, SEED))
    with limited(6 * MIB) as group, trio(policy, size=10 * MIB) as t:
        for number in range(ROUNDS):
            scramble(SEED + number)
            readers = [group.start(t.path(1)), group.start(t.path(2))]
            while readers[0].poll() is None and readers[1].poll() is None:
                scramble(SEED + number + 1000)
                try:
                    readers[0].wait(0.5 * SLOW)
                except subprocess.TimeoutExpired:
                    pass
            for reader in readers:
                assert group.hash(reader) == t.disk.hash(), "round %d" % number
            assert hash_of(t.path(1), direct=True) == t.disk.hash()
        print("# " + ", ".join("%s %d" % (n, t.total(n)) for n in COOPERATIVE))
        assert t.total("CardErrors") == 0
        assert t.total("CardCacheMismatch") == 0
        return t.total("CardPeerServed"), t.total("CardSaves")


@claim
def any_index_however_wrong_gives_the_disks_bytes():
    served, saves = scrambled("hscc")
    assert served and saves, "no cooperation, so nothing was tested"


@claim
def so_it_does_with_hash_distributed_caching():
    scrambled("hdc")


@claim
def what_one_has_read_another_need_not_read_from_the_disk():
    with trio() as t:
        t.read(1)
        before = stat(t.nodes[0], "CardServedDisk")
        t.read(2)
        assert stat(t.nodes[0], "CardServedDisk") - before <= 16
        assert stat(t.nodes[2], "CardFromPeer") >= 256 - 16, stats(t.nodes[2])


@claim
def evicted_blocks_are_hosted_and_found_again():
    with limited(6 * MIB) as group, trio(size=12 * MIB) as t:
        assert group.hash(group.start(t.path(1))) == t.disk.hash()
        wait(lambda: stat(t.nodes[0], "CardHosted") + stat(t.nodes[2], "CardHosted") > 0)
        assert stat(t.nodes[1], "CardSaves") > 0
        before = t.total("CardPeerServed") + t.total("CardHostedHits")
        t.read(2)
        assert t.total("CardPeerServed") + t.total("CardHostedHits") > before


@claim
def the_disk_node_sends_what_it_evicts_to_the_home():
    with limited(6 * MIB) as group, trio("hdc", size=12 * MIB) as t:
        assert group.hash(group.start(t.disk.device)) == t.disk.hash()
        wait(lambda: stat(t.nodes[1], "CardHosted") and stat(t.nodes[2], "CardHosted"))
        assert stat(t.nodes[0], "CardSaves") > 0
        t.read(1)
        assert stat(t.nodes[1], "CardHostedHits") and stat(t.nodes[2], "CardPeerServed")


@claim
def a_home_of_hdc_keeps_the_newest_for_what_it_had():
    with limited(6 * MIB) as group, trio("hdc", size=12 * MIB, host=("host", "64")) as t:
        assert group.hash(group.start(t.disk.device)) == t.disk.hash()
        wait(lambda: stat(t.nodes[1], "CardHostedDropped") and stat(t.nodes[2], "CardHostedDropped"))
        hosted = [explain(n, 0)["hosted"] for n in t.nodes]
        assert max(hosted) <= 64, hosted


@claim
def no_more_is_hosted_than_was_allowed():
    with limited(6 * MIB) as group, trio(size=12 * MIB, host=("host", "64")) as t:
        assert group.hash(group.start(t.path(1))) == t.disk.hash()
        assert group.hash(group.start(t.path(2))) == t.disk.hash()
        hosted = [explain(n, 0)["hosted"] for n in t.nodes]
        assert max(hosted) <= 64, hosted
        assert t.total("CardHosted") > 0


@claim
def explain_says_where_a_block_is():
    with trio() as t:
        t.read(1)
        t.read(2)
        older, recent = explain(t.nodes[1], 100), explain(t.nodes[2], 100)
        assert older["home"] == "self" and recent["home"] == "n2", (older, recent)
        assert older["here"] == "cached" and older["copy"] == "older", older
        assert older["next"] == "n3" and older["ask"] == "n3", older
        assert recent["copy"] == "recent" and recent["previous"] == "n2", recent
        assert explain(t.nodes[1], 101)["home"] == "n3"
        assert explain(t.nodes[1], 102)["home"] == "n1"
        refused("no such block", t.nodes[1], "explain", "256")
        refused("no such disk", t.nodes[1], "explain", "card99", "1")


@claim
def a_node_gets_nothing_from_one_that_does_not_list_it():
    with trio() as t:
        t.read(1)
        t.nodes[1].nl.do("NODE_DEL", node_name="n3")
        before = stat(t.nodes[1], "CardPeerServed")
        t.read(2)
        assert stat(t.nodes[1], "CardPeerServed") == before
        assert stat(t.nodes[2], "CardErrors") == 0


@claim
def a_dead_home_costs_time_and_nothing_else():
    with trio(words=("timeout", "1000")) as t:
        t.read(1)
        cut(t.c, 2)
        t.read(2)
        assert stat(t.nodes[2], "CardErrors") == 0


@claim
def another_export_of_that_name_finds_no_old_blocks():
    """Another disk that pretends to be the one before: who exports answers for the identity."""
    with trio(words=("retries", "60")) as t:
        t.read(1)
        t.read(2)
        uuid = exports(t.nodes[0])["data"]["uuid"]
        tool(t.nodes[0], "unexport", "data")
        other = Disk(MIB, seed=2, name="other")
        try:
            export(t.nodes[0], "data", other.device, "policy", "hscc", "uuid", uuid, nodes="n2,n3")
            before = t.total("CardPeerServed")
            # Node 3 first: for most blocks it would ask node 2, for others node 2 had asked last.
            for i in (2, 1):
                wait_live(t.nodes[i], t.names[i])
                assert explain(t.nodes[i], 100)["here"] == "no"
                assert hash_of(t.path(i), direct=True) == other.hash(), "old blocks"
            assert t.total("CardPeerServed") == before
            assert t.total("CardErrors") == 0
        finally:
            for i in (1, 2):
                detach(t.nodes[i], t.names[i], "force")
            tool(t.nodes[0], "unexport", "data")
            other.close()


@claim
def whoever_holds_an_ended_export_gives_nothing_of_it():
    with trio(words=("retries", "0", "timeout", "5000")) as t:
        t.read(1)
        tool(t.nodes[0], "unexport", "data")
        for i in (1, 2):
            wait(lambda: state(t.nodes[i], t.names[i]) == "refused", 30 * SLOW)
        before = t.total("CardPeerServed") + t.total("CardHostedHits")
        assert read_error(t.path(2))[0]
        assert t.total("CardPeerServed") + t.total("CardHostedHits") == before


@claim
def participants_that_changed_are_another_disk():
    with trio(words=("retries", "0", "timeout", "5000")) as t:
        for policy, nodes in (("hscc", "n3,n2"), ("hscc", "n2"), ("hdc", "n2,n3")):
            tool(t.nodes[0], "unexport", "data")
            export(t.nodes[0], "data", t.disk.device, "policy", policy, nodes=nodes)
            for i, name in ((1, "n2"), (2, "n3")):
                reason = "another disk" if name in nodes else "no such export"
                wait(lambda i=i, reason=reason: reason in why(t, i), 30 * SLOW)
                assert read_error(t.path(i))[0], (policy, nodes)
        tool(t.nodes[0], "unexport", "data")
        export(t.nodes[0], "data", t.disk.device, "policy", "hscc", nodes="n2,n3")
        for i in (1, 2):
            wait_live(t.nodes[i], t.names[i])
            t.read(i)


@claim
def a_participant_that_lies_changes_nothing_that_is_read():
    rng = random.Random(SEED)
    with Fake() as f:
        export(f.exporter, "coop", f.disk.device, "policy", "hscc", nodes="n1")
        status, epoch, export_id, _ = f.peer.attach(name="coop")
        assert status == 0
        for _ in range(300):
            f.peer.say(INDEX, struct.pack(">QQIHHB7x", epoch, rng.randrange(300), export_id,
                                          rng.randrange(4), rng.randrange(4), rng.randrange(2)))
            f.peer.say(SAVE, coop(epoch, rng.randrange(300), export_id, origin=rng.randrange(4),
                                  depth=rng.randrange(256), kind=rng.randrange(2),
                                  crc=rng.getrandbits(32)) + bytes(4096))
            f.peer.say(READ, coop(epoch, rng.randrange(300), export_id, flags=1 << 4,
                                  origin=rng.choice((0, 2, 0xffff)), depth=255))
            f.peer.say(PEER, coop(epoch, rng.randrange(300), export_id, origin=1, depth=255))
        with open(f.disk.path, "rb") as image:
            for number in range(256):
                f.peer.say(READ, coop(epoch, number, export_id, tag=number, origin=1, depth=2))
                while struct.unpack_from(BLOCK, body := f.peer.answer(DATA))[5] != number:
                    pass
                assert body[64:] == image.read(4096), number
    subprocess.run(["rmmod", "card_hscc"], check=True)


@claim
def without_a_policy_nobody_cooperates():
    with pair(3, size=MIB, nodes="n2,n3") as (c, disk):
        for node in c.nodes[1:]:
            assert hash_of("/dev/" + attach(node, "data")) == disk.hash()
        for node in c.nodes:
            got = stats(node)
            assert not any(got[name] for name in COOPERATIVE), got
        refused("it has no policy", c.nodes[0], "explain", "data", "1")


@claim
def a_policy_and_writing_exclude_each_other():
    with pair(size=MIB) as (c, disk):
        for policy in ("hscc", "hdc"):
            refused("no writing with a policy", c.nodes[0], "export", "more", "device",
                    disk.device, "nodes", "n2", "policy", policy, "write")
        refused("there is no such policy", c.nodes[0], "export", "more", "device", disk.device,
                "nodes", "n2", "policy", "nonesuch")
        assert list(exports(c.nodes[0])) == ["data"]


@claim
def a_policy_stays_while_it_is_used():
    with trio("hdc") as t:
        assert subprocess.run(["rmmod", "card_hdc"], check=False, capture_output=True).returncode
        t.read(1)
        try:
            attach(t.nodes[1], "data", "write")
            raise AssertionError("attached for writing")
        except Refused:
            pass
    assert subprocess.run(["grep", "-q", "^card_hdc ", "/proc/modules"], check=False).returncode


@claim
def it_unloads_with_nothing_left():
    with limited(6 * MIB) as group, trio(size=8 * MIB) as t:
        assert group.hash(group.start(t.path(1))) == t.disk.hash()
    unload()


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    main()

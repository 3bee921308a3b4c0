#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug a minute of attack, and what comes before
"""A node of an authenticated link that has gone bad: no message of its does any harm, whatever is in it."""
import contextlib
import os
import random
import struct
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import DONE, PATIENCE, SLOW, accept, claim, main, receive, run, wait   # noqa: E402
from stage import (ABORT, ACK, COMMIT, HANDOFF, HELD, HELD_END, LIFE, NAK, QUERY,   # noqa: E402
                   Scripted, Stage, checkpoint, frame)
from endpoint import Wire                               # noqa: E402

SECONDS = int(os.environ.get("ATTACK_SECONDS", 60 if SLOW > 1 else 12))
SEED = int(os.environ.get("SEED", time.time()))
LIMIT = 256
HEAD = struct.Struct("!QII")
RECORD = struct.Struct("!QHHHH16s16s")


class Attacker:
    """Ways to be wrong."""

    def __init__(self, stage, given):
        self.stage, self.given = stage, given
        self.dice = random.Random(SEED)
        self.number, self.steps, self.said, self.links = 1000, 0, 0, 0
        self.known = []

    def say(self, kind, body):
        self.said += 1
        with contextlib.suppress(OSError):      # the link has ended: see step()
            self.stage.peer.send(frame(kind, bytes(body)))

    def ident(self):
        """One that was used, mostly; or one that is the node's own; or any."""
        return self.dice.choice(self.known[-300:] + self.given + [0, 2 ** 64 - 1, self.dice.getrandbits(64)])

    def record(self):
        dice = self.dice
        client = dice.choice((b"\x0a\x09\0\x64", dice.randbytes(4))).ljust(16, b"\0")
        if dice.random() < 0.2:
            client = dice.randbytes(16)
        return RECORD.pack(self.ident(), dice.choice((4, 4, 4, 6, 0, 65535)), dice.choice((0, 1, 2, 3, 4, 65535)),
                           dice.randrange(65536), dice.choice((80, 81)), client,
                           bytes((10, 9, 0, 200)).ljust(16, b"\0"))

    def wire(self):
        """A checkpoint, good or spoilt in one of the ways there are."""
        dice, port = self.dice, self.dice.randrange(1024, 65536)
        wire = checkpoint(port, dice.randbytes(dice.choice((0, 3, 200, 20000))))
        how = dice.randrange(7)
        if how == 1:        # cut
            wire = wire[:dice.randrange(1, len(wire))]
        elif how == 2:      # cut, and it says so
            wire = Wire(wire[:dice.randrange(12, len(wire))])
            wire["total_len"] = len(wire)
        elif how == 3:      # bits
            for _ in range(dice.randrange(1, 20)):
                wire[dice.randrange(len(wire))] ^= 1 << dice.randrange(8)
        elif how == 4:      # sections in another order, twice, or of any kind
            there = wire.sections()
            more = [[dice.randrange(65536), dice.randrange(3), dice.randbytes(dice.randrange(64))]
                    for _ in range(dice.randrange(70))]
            there += dice.choices(there, k=dice.randrange(3)) + more
            dice.shuffle(there)
            wire = Wire.of(there)
        elif how == 5:      # the length of one
            at = dice.choice([n for n in range(12, len(wire) - 8) if n < 200])
            struct.pack_into("!I", wire, at, dice.choice((0, 1, 0xffffffff, 0xfffffff8, dice.getrandbits(32))))
        elif how == 6:
            wire = dice.randbytes(dice.randrange(1, 400))
        return wire

    def handoff(self):
        self.number += self.dice.choice((0, 1, 1, 1))
        self.known.append(self.number)
        self.say(HANDOFF, HEAD.pack(self.number, self.dice.choice((0, 1, 2, 3, 0xffffffff)), 0) + bytes(self.wire()))
        # Decided at once, later, twice, both ways, or never.
        for kind in self.dice.choices((COMMIT, ABORT, None, None), k=2):
            if kind is not None:
                self.say(kind, HEAD.pack(self.number, 0, 0))

    def decide(self):
        for _ in range(self.dice.randrange(1, 64)):
            self.say(self.dice.choice((COMMIT, ABORT, QUERY, ACK, NAK)),
                     HEAD.pack(self.ident(), self.dice.choice((1, 32, 41, 65535)), self.dice.getrandbits(32)))

    def held(self):
        for _ in range(self.dice.randrange(1, 20)):
            self.say(HELD, b"".join(self.record() for _ in range(self.dice.choice((0, 1, 64, 500)))))
        for _ in range(self.dice.randrange(40)):
            self.say(HELD_END, HEAD.pack(self.ident(), self.dice.choice((0, self.dice.getrandbits(32))), 0))

    def lives(self):
        self.say(LIFE, b"".join(self.record() for _ in range(self.dice.choice((0, 1, 64, 500)))))

    def garbage(self):
        """Whatever it is, it may cost the link, and then the next one is refused for a while."""
        self.say(self.dice.randrange(0x10, 0x20), self.dice.randbytes(self.dice.choice((0, 1, 15, 16, 17, 48, 300))))

    def blink(self):
        """Another link; one that said what cannot be is refused for a few seconds."""
        self.links += 1
        self.stage.peer.end()

        def connected():
            try:
                self.stage.peer = Scripted(self.stage.peer_node, self.stage.node, "peer", proven=True)
                return True
            except (AssertionError, OSError, TypeError):
                return False
        wait(connected, every=0.2)

    def step(self):
        self.steps += 1
        self.dice.choice((self.handoff,) * 8 + (self.decide, self.held, self.lives) * 3)()
        # Nobody looks at what it answers.
        self.stage.peer.got.clear()
        if self.dice.random() < 0.01 or not self.stage.peer.alive:
            self.blink()


@claim
def node_that_goes_bad_harms_no_other_connection():
    print("# SEED=%d ATTACK_SECONDS=%d" % (SEED, SECONDS), flush=True)
    with Stage(deadline_ms=1000 * SLOW, proven=True) as stage, stage.node.listen(backlog=64) as listener, \
            stage.node.listen(port=82) as other:
        node = stage.node
        node.sysctl("net.flotilla.adopt_pending_max", LIMIT)
        # One that is the node's own, and one that the attacker was given before it went bad.
        mine = stage.client.connect(port=82)
        here = accept(other)
        dev = node.handoff()
        client, left, number = stage.given(listener, dev)
        stage.peer.tell(ACK, number)
        dev.expect(DONE)
        attacker = Attacker(stage, [number])
        begin, most, spoilt = time.monotonic(), 0, 1
        listener.setblocking(False)
        while (now := time.monotonic() - begin) < SECONDS:
            attacker.step()
            if now > spoilt * SECONDS / 4:
                attacker.garbage()
                spoilt += 1
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
            if attacker.steps % 20 == 0:
                most = max(most, node.stat("AdoptPending"))
                here.sendall(b"still")
                assert receive(mine, 5) == b"still"
        stats = node.stats()
        print("# %d messages, %d links, %s" % (attacker.said, attacker.links, {
            name: stats[name] for name in stats if name.startswith("Adopt") and stats[name]}), flush=True)
        assert attacker.said > 100 and stats["AdoptPrepared"] and stats["AdoptRefused"], attacker.said
        assert most <= LIMIT, most
        # What it left undecided goes by our clock, and the node goes on as it did.
        attacker.blink()
        wait(lambda: node.stat("AdoptPending") == 0)
        with contextlib.suppress(BlockingIOError):
            while True:
                listener.accept()[0].close()
        listener.settimeout(PATIENCE)
        stage.parked(1, 999)
        stage.peer.tell(COMMIT, 1)
        with accept(listener) as there:
            assert receive(there, 3) == b"GET"
        here.sendall(b"still")
        assert receive(mine, 5) == b"still"
        for thing in (mine, here, client, left, dev):
            thing.close()
        run("rmmod", "handoff")


if __name__ == "__main__":
    run("modprobe", "tls")
    main()

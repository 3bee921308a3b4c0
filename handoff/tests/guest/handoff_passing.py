#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 600
"""Connections that are busy all the time are passed on among three nodes again and again, on a bad network.

MOVES=1000000 for the long run, which may be split by SEED and ends after MOVES_SECONDS in any case; MOVES_PARALLEL.
"""
import json
import os
import signal
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import Chain                             # noqa: E402
from hof import SLOW, TOP, VIP4, claim, main, rounds, run, wait     # noqa: E402

MOVES = int(os.environ.get("MOVES", rounds(3000, 500)))
PARALLEL = int(os.environ.get("MOVES_PARALLEL", rounds(48, 16)))
SECONDS = int(os.environ.get("MOVES_SECONDS", 86400))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
ABORTS = 100


class Passing:
    """A server on each node, and the clients."""

    def __init__(self, c):
        self.c, self.servers = c, []
        for number, node in enumerate(c.nodes):
            # Who is not in the other's node table is nobody to give to.
            ids = [str(node.id[other.name]) for other in c.nodes if other is not node]
            self.servers.append(node.spawn(os.path.join(TOP, "build/tests/handoff-passer"), VIP4, "80",
                                           str(SEED + number), *ids, stdout=subprocess.PIPE, text=True))
            wait(lambda node=node: "LISTEN" in node.output("ss", "-Htln", "sport = :80"))
        self.clients = c.client.spawn(os.path.join(TOP, "build/tests/handoff-callers"), VIP4, "80", "1000000000",
                                      str(PARALLEL), str(SEED), str(ABORTS), stdout=subprocess.PIPE, text=True)

    def moves(self):
        """Of all nodes, so far."""
        return sum(node.stat("HandoffDone") for node in self.c.nodes)

    def until(self, moves, seconds):
        """So many, or so long; told each minute, as the run may be cut short."""
        begin = told = time.monotonic()
        while (now := time.monotonic()) - begin < seconds and (so_far := self.moves()) < moves:
            assert self.clients.poll() is None, "the clients have ended"
            if now - told > 60:
                told = now
                print("# %d moves in %.0f s" % (so_far, now - begin), flush=True)
            time.sleep(1)
        return time.monotonic() - begin

    def end(self):
        """What the clients and the servers have to tell."""
        self.clients.send_signal(signal.SIGUSR1)
        said = json.loads(self.clients.communicate(timeout=200 * SLOW)[0])
        # Who gave up may have been heard by nobody, if the RST was lost.
        told = []
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            told.append(json.loads(server.communicate()[0].splitlines()[-1]))
        return said, told


@claim
def every_byte_comes_back_however_often_its_connection_moves():
    """Under loss, reordering, duplicates, clients that give up, and windows of a few hundred bytes."""
    with Chain(2) as c:
        for node in c.nodes:
            node.sysctl("net.flotilla.forward_linger_ms", 1000)
        netem = c.disturb(c.client)
        print("# %d moves, %d at a time, seed %d, netem %s" % (MOVES, PARALLEL, SEED, netem), flush=True)
        p = Passing(c)
        spent = p.until(MOVES, SECONDS)
        said, told = p.end()
        moves = p.moves()
        print("# %d moves of %d connections in %.0f s: %.0f a second; clients: %s" % (
            moves, said["connections"], spent, moves / spent, said), flush=True)
        for node, one in zip(c.nodes, told):
            print("# %s: %s" % (node.name, one), flush=True)
            print("# %s: %s" % (node.name, {k: v for k, v in node.stats().items() if v}), flush=True)
        assert not said["wrong"] + said["reset"] + said["stalled"], said
        assert said["ok"] + said["aborted"] == said["connections"] and said["narrow"] and said["aborted"], said
        assert moves >= MOVES or spent >= SECONDS, (moves, spent)
        for node, one in zip(c.nodes, told):
            assert one["moved"] and not one["lost"], one
            assert not node.stats()["AdoptCommitFailed"], node.stats()
            wait(lambda node=node: not node.stat("HandoffInFlight") and not node.stat("AdoptRelayed") and
                 not node.stat("ClaimPending"))


@claim
def the_module_unloads_with_nothing_left():
    run("rmmod", "handoff")
    with open("/proc/slabinfo", encoding="ascii") as file:
        assert "hof_entry" not in file.read()
    run("modprobe", "handoff")


if __name__ == "__main__":
    main()

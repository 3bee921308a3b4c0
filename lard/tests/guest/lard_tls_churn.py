#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both minutes on either kernel
# timeout: 290
"""HTTPS handed off under loss, reordering and duplicates: every byte right, none reset, none stalled.

CHURN=100000 for the long run, which may be split by SEED, or as many as CHURN_SECONDS allow; CHURN_PARALLEL. Of 1000
connections CHURN_RESUMED resume a session, the others make a whole handshake. One that lardd had to proxy is right,
too, but counts apart: in a short run there is none, in a long one at most CHURN_PROXIED of 1000.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from hof import VIP4, E, claim, main, rounds, wait      # noqa: E402
sys.path.insert(0, os.path.join(TOP, "lard", "tests", "lib"))
from httpssite import site                              # noqa: E402

CHURN = int(os.environ.get("CHURN", rounds(600, 100)))
PARALLEL = int(os.environ.get("CHURN_PARALLEL", rounds(24, 8)))
RESUMED = int(os.environ.get("CHURN_RESUMED", "700"))
PROXIED = int(os.environ.get("CHURN_PROXIED", "0"))
SECONDS = float(os.environ.get("CHURN_SECONDS", "86400"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
SIZES = (0, 1, 17, 500, 1460, 1461, 4096, 10000, 16384, 16385, 40000)
# Guests stand still for minutes where others load the machine, and nobody is late because of that: the client, who
# counts only what it has lived through, says who stalls.
PATIENT = "\n".join(word + "-timeout 1h" for word in ("handshake", "header", "idle", "queue", "io"))


def fill(s):
    """The same random files for each server, and for the client; the directory of its."""
    source, mine = random.Random(SEED), os.path.join(s.dir, "files")
    os.mkdir(mine)
    for i, size in enumerate(SIZES):
        body = source.randbytes(size)
        for place in mine, *(os.path.join(s.dir, be.name, "www") for be in s.c.be):
            with open(os.path.join(place, "f%d" % i), "wb") as file:
                file.write(body)
    return mine


def clients(s, files, count, parallel):
    """What they say of themselves, and whether nothing was wrong."""
    ran = s.c.client.spawn(os.path.join(TOP, "build/tests/handoff-client"), VIP4, "443", files,
                           *map(str, (count, parallel, SEED, 0, RESUMED)), stdout=subprocess.PIPE)
    begin = time.monotonic()
    while (left := SECONDS - (time.monotonic() - begin)) > 0 and ran.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            ran.wait(min(60, left))
        print("# %.0f s: %d handed off" % (time.monotonic() - begin, s.counter("LardTlsHandedOff")), flush=True)
    if ran.poll() is None:
        ran.send_signal(signal.SIGUSR1)
    got = json.loads(ran.communicate()[0])
    print("# client: %s" % got, flush=True)
    return got, not ran.returncode


@claim
def each_gets_its_bytes_from_the_node_it_was_handed_to():
    with site(PATIENT, level="warn") as s:
        files = fill(s)
        netem = s.c.disturb(s.c.client, *s.c.be)
        print("# %d connections, %d at a time, seed %d, netem %s" % (CHURN, PARALLEL, SEED, netem), flush=True)
        begin = time.monotonic()
        got, well = clients(s, files, CHURN, PARALLEL)
        count = got["connections"]
        print("# %.1f connections/s" % (count / (time.monotonic() - begin)), flush=True)
        for node in s.c.nodes:
            print("# %s: %s" % (node.name, {k: v for k, v in node.stats().items() if v}), flush=True)
        print("# lardd: %s" % {k: v for k, v in s.ask("stats")["counters"].items() if v}, flush=True)
        assert well and got["ok"] == got["resumed"] + got["whole"] == count, (got, s.says())
        assert got["whole"] and got["resumed"], got
        wait(lambda: s.c.fe.stat("HandoffInFlight") == 0)
        # An answer may come before lardd has been told.
        wait(lambda: s.counter("LardHandedOff") == s.c.fe.stat("HandoffDone"))
        given = s.counter("LardHandedOff")
        print("# handed off %d, proxied %d" % (given, count - given), flush=True)
        assert (count - given) * 1000 <= count * PROXIED, (given, count, s.says())
        assert count - given <= s.counter("LardProxied") and (given < count or not s.counter("LardProxied"))
        taken = [sum(be.stat("AdoptCommitted") for be in s.c.be), sum(be.nl.stat("TlsStarted") for be in s.c.be)]
        assert [s.counter("LardTlsHandedOff"), *taken] == [given] * 3, (given, taken)
        assert not sum(be.nl.stat("TlsBroken") + be.nl.stat("TlsFailed") for be in s.c.be)
        assert not s.complaints(), s.complaints()


SILENCE = ("table inet cut { chain c { type filter hook input priority -400; "
           "tcp dport 7471 drop; tcp sport 7471 drop; }; }")


@contextlib.contextmanager
def links_that_fail(s):
    """With what they carry: nothing is heard by one side until a handoff is on its way, then all links end."""
    over, times = threading.Event(), []

    def fail():
        while not over.wait(0.1):
            deaf = (s.c.be, [s.c.fe])[len(times) % 2]
            for node in deaf:
                node.run("nft", SILENCE)
            wait(lambda: over.is_set() or s.c.fe.stat("HandoffInFlight"))
            s.c.fe.output("ss", "-K", "( sport = :7471 or dport = :7471 )")
            for node in deaf:
                node.run("nft", "delete", "table", "inet", "cut")
            times.append(time.monotonic())
            wait(lambda: all(node["NODE_STATE"] == E["FLT_NODE_UP"] for node in s.c.fe.nl.nodes()))
    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


@claim
def where_links_fail_nobody_gets_a_wrong_byte():
    """Keys or the answer to them are lost: the client gets its bytes from somebody, or a clean error."""
    count = rounds(200, 40)
    with site(PATIENT) as s:
        files = fill(s)
        with links_that_fail(s) as times:
            got, _ = clients(s, files, count, 24)
        counted = s.ask("stats")["counters"]
        shown = "LardTlsHandedOff", "LardHandoffFailed", "LardHandoffRetried", "LardProxied", "LardRemoteLost"
        print("# links failed %d times; %s" % (len(times), {k: counted[k] for k in shown}), flush=True)
        print("# fe: %s" % {k: v for k, v in s.c.fe.stats().items() if v}, flush=True)
        assert got["wrong"] == got["stalled"] == 0 and got["ok"] + got["reset"] + got["refused"] == count, got
        assert got["ok"] > count / 4 and counted["LardTlsHandedOff"] > 0, (got, counted)
        # Some were on their way.
        assert s.c.fe.stat("HandoffSubmitted") - s.c.fe.stat("HandoffDone") >= 2, s.c.fe.stats()
        wait(lambda: s.nodes_up() == len(s.c.be))
        got, well = clients(s, files, 20, 8)
        assert well and got["ok"] == 20, got


@claim
def one_wrong_byte_of_one_server_is_seen():
    with site(PATIENT) as s:
        files = fill(s)
        path = os.path.join(s.dir, "be1", "www", "f5")
        with open(path, "r+b") as file:
            body = file.read()
            file.seek(-1, os.SEEK_END)
            file.write(bytes([body[-1] ^ 1]))
        got, well = clients(s, files, 60, 8)
        assert not well and got["wrong"] and got["ok"] + got["wrong"] == 60, got


if __name__ == "__main__":
    main()

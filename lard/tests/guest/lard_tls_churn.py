#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both minutes on either kernel
# timeout: 290
"""HTTPS handed off under loss, reordering and duplicates: every byte right, none reset, none stalled, none proxied.

CHURN=100000 for the long run, which may be split by SEED, or as many as CHURN_SECONDS allow; CHURN_PARALLEL. Of 1000
connections CHURN_RESUMED resume a session, the others make a whole handshake.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from hof import VIP4, claim, main, rounds, wait         # noqa: E402
sys.path.insert(0, os.path.join(TOP, "lard", "tests", "lib"))
from httpssite import site                              # noqa: E402

CHURN = int(os.environ.get("CHURN", rounds(600, 100)))
PARALLEL = int(os.environ.get("CHURN_PARALLEL", rounds(24, 8)))
RESUMED = int(os.environ.get("CHURN_RESUMED", "700"))
SECONDS = float(os.environ.get("CHURN_SECONDS", "86400"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
SIZES = (0, 1, 17, 500, 1460, 1461, 4096, 10000, 16384, 16385, 40000)
# A machine that others load, too, may take its time.
PATIENT = "handshake-timeout 2m\nheader-timeout 2m"


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
        s.handed_off(count)
        assert s.counter("LardProxied") == 0
        assert sum(be.nl.stat("TlsStarted") for be in s.c.be) == count
        assert not sum(be.nl.stat("TlsBroken") + be.nl.stat("TlsFailed") for be in s.c.be)
        wait(lambda: s.c.fe.stat("HandoffInFlight") == 0)
        assert not s.complaints(), s.complaints()


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

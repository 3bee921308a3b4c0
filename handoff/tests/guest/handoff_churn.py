#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes two minutes and a half there
# timeout: 290
"""Handoffs under loss, reordering, duplicates and clients that give up: none lost, none doubled.

CHURN=100000 for the long run, which may be split by SEED; CHURN_PARALLEL. With odd seeds the dispatcher
lets events gather.
"""
import os
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import Cluster, claim, main, rounds, run, wait     # noqa: E402
from servers import Site, installed                 # noqa: E402

CHURN = int(os.environ.get("CHURN", rounds(2000, 200)))
PARALLEL = int(os.environ.get("CHURN_PARALLEL", rounds(64, 16)))
SEED = int(os.environ.get("SEED", str(int(time.time()))))


@claim
def none_lost_none_doubled_none_stalled():
    c = Cluster(2)
    site = Site(c)
    for be, name in zip(c.be, installed("nginx", "lighttpd", "nginx")):
        site.serve(be, name)
    for node in c.nodes:
        node.sysctl("net.flotilla.forward_linger_ms", 1000)
    # The links of the nodes lose nothing.
    netem = c.disturb(c.client)
    print("# %d connections, %d at a time, seed %d, netem %s" % (CHURN, PARALLEL, SEED, netem), flush=True)
    begin = time.monotonic()
    site.dispatch(c.be, later=SEED % 2)
    try:
        got = site.clients(CHURN, PARALLEL, SEED, aborts=100, timeout=86400)
    finally:
        spent = time.monotonic() - begin
        for node in c.nodes:
            print("# %s: %s" % (node.name, {k: v for k, v in node.stats().items() if v}), flush=True)
    assert got["ok"] + got["aborted"] == CHURN
    wait(lambda: c.fe.stat("HandoffInFlight") == 0)
    report = site.report()
    print("# dispatcher: %s; %.0f connections/s" % (report, CHURN / spent), flush=True)
    # A client that gave up before its request was whole, and whose RST was lost, leaves a
    # connection that this dispatcher, which has no time limit, waits on for ever.
    assert report["done"] + report["dropped"] + report["open"] == report["accepted"], report
    assert report["refused"] == 0 and report["open"] <= got["aborted"], report
    assert report["done"] >= got["ok"], report
    for be in c.be:
        stats = be.stats()
        assert stats["AdoptCommitFailed"] == 0, stats
    site.stop()
    c.close()


@claim
def the_module_unloads_with_nothing_left():
    run("rmmod", "handoff")
    with open("/proc/slabinfo", encoding="ascii") as file:
        assert "hof_entry" not in file.read()
    run("modprobe", "handoff")


if __name__ == "__main__":
    main()

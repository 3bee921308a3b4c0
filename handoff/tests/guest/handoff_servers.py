#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes three minutes there
# timeout: 280
"""Unmodified nginx, lighttpd and Apache answer connections handed to them, byte for byte."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import VIP6, Cluster, claim, main, rounds, run, wait       # noqa: E402
from servers import Site, installed                         # noqa: E402

SERVERS = installed("nginx", "lighttpd", "apache2")
SEED = int(os.environ.get("SEED", "1"))


def cluster_of_servers():
    c = Cluster(len(SERVERS))
    site = Site(c)
    for be, name in zip(c.be, SERVERS):
        site.serve(be, name)
    return c, site


def settled(site, count):
    """All connections have ended, each with its event; nobody counts as loaded."""
    wait(lambda: site.report()["closed"] == site.report()["done"])
    report = site.report()
    print("# dispatcher: %s" % report, flush=True)
    assert report["accepted"] == count and report["refused"] == 0 and report["open"] == 0, report
    fe = site.cluster.fe
    assert all(n["NODE_LOAD"] == 0 for n in fe.nl.nodes())
    return report


@claim
def three_stock_servers_answer():
    c, site = cluster_of_servers()
    with c:
        site.dispatch(c.be)
        count = rounds(150, 60)
        site.clients(count, 16, SEED)
        report = settled(site, count)
        assert report["done"] == count, report
        for be in c.be:
            assert be.stat("AdoptCommitted") == count // len(SERVERS)
        site.stop()


@claim
def they_answer_over_ipv6():
    c, site = cluster_of_servers()
    with c:
        site.dispatch(c.be, address=VIP6)
        count = rounds(60, 24)
        site.clients(count, 8, SEED, address=VIP6)
        assert settled(site, count)["done"] == count
        site.stop()


@claim
def connection_tracking_learns_nothing_of_them():
    run("modprobe", "nf_conntrack")
    c, site = cluster_of_servers()
    with c:
        # A rule that needs tracking switches it on. Only what is not handed over may be seen.
        c.fe.run("nft", "table inet t { chain c { type filter hook prerouting priority 0; "
                        "ct state invalid counter drop; ct state new counter comment seen; }; }")
        site.dispatch(c.be)
        before = c.fe.stat("ForwardPackets")
        site.clients(40, 4, SEED)
        settled(site, 40)
        assert c.fe.stat("ForwardPackets") > before
        # The handshake and the request were seen here, and forgotten when the connection was given away.
        tracked = c.fe.output("cat", "/proc/net/nf_conntrack")
        assert "dport=7471" in tracked, "nothing is tracked here"
        assert " dport=80 " not in tracked, tracked
        site.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""caches_guest.py costs | scan NODE-MB DISK-MBPS LOADS POLICIES SHARES: inside `caches`, a JSON line a result."""
import contextlib
import itertools
import json
import mmap
import os
import random
import re
import statistics
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for lib in ("card/tests/lib", "kmod/tests/lib"):
    sys.path.insert(0, os.path.join(TOP, lib))
from card import attach, detach, export, stats, tool    # noqa: E402
from cluster import Cluster                             # noqa: E402
from netns import run                                   # noqa: E402
from trio import Groups                                 # noqa: E402

MB = 1 << 20
SAMPLES = 100
SEED = 1
READER = MB // 2        # of a reader itself, beside what it reads
WINDOW = MB // 4        # the least that read-ahead needs
DD = ("dd", "of=/dev/null", "bs=128k")


def null_blk(**parameters):
    run("modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "bs=4096",
        *("%s=%s" % item for item in parameters.items()))
    return "/dev/nullb0"


def difference(before, after):
    return {name: after[name] - before[name] for name in after if isinstance(after[name], int)}


# --- Table 3.1 ---

def timed(path, blocks, direct=True):
    """Nanoseconds of each read of a block, the median."""
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    page = mmap.mmap(-1, 4096)
    took = []
    try:
        for block in blocks:
            begin = time.perf_counter_ns()
            assert os.preadv(fd, [page], block * 4096) == 4096
            took.append(time.perf_counter_ns() - begin)
    finally:
        os.close(fd)
    return statistics.median(took)


def costs():
    disk = null_blk(gb=1, irqmode=2, completion_nsec=12000000)
    blocks = random.Random(SEED).sample(range(4096), SAMPLES)
    c = Cluster(2)
    export(c.nodes[0], "data", disk, nodes="n2")
    card = attach(c.nodes[1], "data")
    path = "/dev/" + card
    with open(disk, "rb") as held:
        got = {"local_disk": timed(disk, blocks)}
        timed(path, blocks[:4])                                 # what is done once
        before = [stats(node) for node in c.nodes]
        got["remote_disk"] = timed(path, blocks)
        disk_reads = [difference(b, stats(n)) for b, n in zip(before, c.nodes)]
        for block in blocks:
            held.seek(block * 4096)
            held.read(4096)
        got["local_cached"] = timed(disk, blocks, direct=False)
        before = [stats(node) for node in c.nodes]
        got["remote_cached"] = timed(path, blocks)
        cached_reads = [difference(b, stats(n)) for b, n in zip(before, c.nodes)]
    for kind, (exporter, reader) in (("disk", disk_reads), ("cached", cached_reads)):
        n = reader["CardReads"]
        total, copy = reader["CardTotalNsec"] / n, reader["CardCopyNsec"] / n
        service, on_disk = reader["CardServiceNsec"] / n, reader["CardRemoteDiskUsec"] * 1000 / n
        got[kind] = {"reads": n, "total": total, "copy": copy, "service": service, "disk": on_disk,
                     "network": total - copy - service - on_disk,
                     "from_disk": reader["CardFromDisk"], "from_cache": reader["CardFromCache"],
                     "kept_pages": exporter["CardKeptPages"]}
    got["overhead_percent"] = 100 * (got["remote_disk"] - got["local_disk"]) / got["local_disk"]
    got["additive"] = (got["remote_disk"] - got["local_disk"]) / got["remote_cached"]
    got["remote_cached_of_disk"] = got["remote_cached"] / got["local_disk"]
    print(json.dumps(got), flush=True)
    detach(c.nodes[1], card)
    tool(c.nodes[0], "unexport", "data")
    c.close()


# --- Figures 4.4 to 4.7 ---

class Rig:
    """Three nodes with a policy; each one's memory is what its group and its hosted blocks may have.

    What share of it is for others is fixed: half of it at both readers (halves), or nothing at the first
    and all at the second (roles): so one common cache would be divided when the first has read all.
    """

    def __init__(self, nodes, groups, disk, policy, node, share):
        self.nodes, self.groups = nodes, groups
        # HDC's exporter caches what it reads and hosts nothing; HSCC's caches nothing.
        hosted = [0 if policy in ("hdc", "none") else node,
                  *((node // 2, node // 2) if share == "halves" else (0, node))]
        groups.write("n1", "memory.max", str(node + READER))
        for name, given in zip(("n2", "n3"), hosted[1:]):
            own = node if policy == "none" else max(node - given, WINDOW)
            groups.write(name, "memory.max", str(own + READER))
        made = groups.run("n1", "ip", "netns", "exec", self.nodes[0].ns, "flotilla", "card", "export", "data",
                          "device", disk, "nodes", "n2,n3", "policy", policy, "host", str(hosted[0] // 4096))
        assert made.wait() == 0
        self.cards = [attach(n, "data", "host", str(given // 4096)) for n, given in zip(self.nodes[1:], hosted[1:])]
        # A block device's cache lasts as long as it is open.
        self.fds = [os.open(path, os.O_RDONLY) for path in [disk] + ["/dev/" + c for c in self.cards]]

    def scan(self, i, size):
        """Node i (2 or 3) reads the first bytes; seconds.

        As dd says: to start it, files of the host are opened, and while the guest waits for the host with
        nothing to do its clock leaps from timer to timer.
        """
        reader = self.groups.run("n%d" % i, "env", "LC_ALL=C", *DD, "if=/dev/" + self.cards[i - 2],
                                 "iflag=count_bytes", "count=%d" % size, stderr=subprocess.PIPE, text=True)
        _, said = reader.communicate()
        assert reader.returncode == 0, said
        return float(re.search(r"copied, ([0-9.e-]+) s", said).group(1))

    def counters(self):
        return [stats(node) for node in self.nodes]

    def close(self):
        for fd in self.fds:
            os.close(fd)
        for node, card in zip(self.nodes[1:], self.cards):
            detach(node, card)
        tool(self.nodes[0], "unexport", "data")


def measure(nodes, groups, disk, policy, node, load, share):
    size = int(load * 3 * node) // 131072 * 131072
    rig = Rig(nodes, groups, disk, policy, node, share)
    try:
        begin = rig.counters()
        cold = rig.scan(2, size)
        middle = rig.counters()
        warm = rig.scan(3, size)
        end = rig.counters()
    finally:
        rig.close()
    filled, counted = [list(map(difference, *pair)) for pair in ((begin, middle), (middle, end))]
    blocks, mine = size // 4096, counted[2]
    from_disk = min(blocks, counted[0]["CardServedDiskPages"])
    local = mine["CardHostedHits"]

    def both(name):
        return sum(f[name] + c[name] for f, c in zip(filled, counted))

    print(json.dumps({
        "policy": policy, "share": share, "load": load, "blocks": blocks, "cold": cold, "warm": warm,
        "hits": 1 - from_disk / blocks, "local": local / blocks, "global": 1 - (from_disk + local) / blocks,
        "saves": both("CardSaves"), "saves_cold": [f["CardSaves"] for f in filled],
        "saves_warm": [c["CardSaves"] for c in counted], "passed": both("CardSavesPassed"),
        "refused": both("CardSavesRefused"), "hosted": both("CardHosted"),
        "hosted_cold": [f["CardHosted"] for f in filled], "hosted_warm": [c["CardHosted"] for c in counted],
        "dropped": both("CardHostedDropped"), "lost": both("CardSavesLost"),
        "forwards": sum(c["CardForwards"] for c in counted),
        "peer_refused": sum(c["CardPeerRefused"] for c in counted),
        "index_messages": both("CardIndexSent"),
        "timeouts": sum(c["CardTimeouts"] for c in counted),
    }), flush=True)


def scan(node_mb, mbps, loads, policies, shares):
    with open("/sys/kernel/mm/lru_gen/enabled", encoding="ascii") as f:
        print("lru_gen", f.read().strip(), flush=True)
    disk = null_blk(gb=1, irqmode=2, completion_nsec=100000, mbps=mbps)
    run(*DD, "if=/dev/zero", "count=1")         # its pages are nobody's: no group has to let them go
    groups, c = Groups("n1", "n2", "n3"), Cluster(3)
    with contextlib.closing(groups):
        for load, policy in itertools.product(loads.split(","), policies.split(",")):
            # Without a policy nothing is for others.
            for share in shares.split(",")[:1 if policy == "none" else None]:
                measure(c.nodes, groups, disk, policy, int(node_mb) * MB, float(load), share)
    c.close()


if __name__ == "__main__":
    subprocess.run(["modprobe", "-a", "card"], check=True)
    if sys.argv[1:] == ["costs"]:
        costs()
    else:
        scan(*sys.argv[2:])

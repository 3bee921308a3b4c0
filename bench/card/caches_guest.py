#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""caches_guest.py costs | scan NODE-MB DISK-MBPS LOAD POLICIES: the inside of `caches`, one JSON line a result."""
import contextlib
import json
import mmap
import os
import random
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
    """Three nodes with a policy; each one's memory is what its group and its hosted blocks may have."""

    def __init__(self, groups, disk, policy, node):
        self.groups, self.c = groups, Cluster(3)
        self.nodes = self.c.nodes
        half, all_ = node // 2 // 4096, node // 4096
        # HDC's exporter caches what it reads and hosts nothing; HSCC's caches nothing.
        at_exporter = {"hdc": 0, "none": 0}.get(policy, all_)
        groups.write("n1", "memory.max", str(node + READER))
        for name in ("n2", "n3"):
            groups.write(name, "memory.max", str((node if policy == "none" else node // 2) + READER))
        made = groups.run("n1", "ip", "netns", "exec", self.nodes[0].ns, "flotilla", "card", "export", "data",
                          "device", disk, "nodes", "n2,n3", "policy", policy, "host", str(at_exporter))
        assert made.wait() == 0
        self.cards = [attach(n, "data", "host", str(half)) for n in self.nodes[1:]]
        # A block device's cache lasts as long as it is open.
        self.fds = [os.open(path, os.O_RDONLY) for path in [disk] + ["/dev/" + c for c in self.cards]]

    def scan(self, i, size):
        """Node i (2 or 3) reads the first bytes; seconds, and every node's counters."""
        before = [stats(node) for node in self.nodes]
        begin = time.monotonic()
        reader = self.groups.run("n%d" % i, "dd", "if=/dev/" + self.cards[i - 2], "of=/dev/null", "bs=128k",
                                 "iflag=count_bytes", "count=%d" % size, "status=none")
        assert reader.wait() == 0
        took = time.monotonic() - begin
        return took, [difference(b, stats(n)) for b, n in zip(before, self.nodes)]

    def close(self):
        for fd in self.fds:
            os.close(fd)
        for node, card in zip(self.nodes[1:], self.cards):
            detach(node, card)
        tool(self.nodes[0], "unexport", "data")
        self.c.close()


def measure(groups, disk, policy, node, size):
    rig = Rig(groups, disk, policy, node)
    try:
        cold, filled = rig.scan(2, size)
        warm, counted = rig.scan(3, size)
    finally:
        rig.close()
    blocks, mine = size // 4096, counted[2]
    from_disk = min(blocks, counted[0]["CardServedDiskPages"])
    local = mine["CardHostedHits"]
    print(json.dumps({
        "policy": policy, "blocks": blocks, "cold": cold, "warm": warm,
        "hits": 1 - from_disk / blocks, "local": local / blocks, "global": 1 - (from_disk + local) / blocks,
        "saves": sum(f["CardSaves"] + c["CardSaves"] for f, c in zip(filled, counted)),
        "hosted": sum(f["CardHosted"] + c["CardHosted"] for f, c in zip(filled, counted)),
        "lost": sum(f["CardSavesLost"] + c["CardSavesLost"] for f, c in zip(filled, counted)),
        "forwards": sum(c["CardForwards"] for c in counted),
        "peer_refused": sum(c["CardPeerRefused"] for c in counted),
        "index_messages": sum(f["CardIndexSent"] + c["CardIndexSent"] for f, c in zip(filled, counted)),
        "timeouts": sum(c["CardTimeouts"] for c in counted),
    }), flush=True)


def scan(node_mb, mbps, load, policies):
    with open("/sys/kernel/mm/lru_gen/enabled", encoding="ascii") as f:
        print("lru_gen", f.read().strip(), flush=True)
    node = int(node_mb) * MB
    size = int(float(load) * 3 * node) // 131072 * 131072
    disk = null_blk(gb=1, irqmode=2, completion_nsec=100000, mbps=mbps)
    groups = Groups("n1", "n2", "n3")
    with contextlib.closing(groups):
        for policy in policies.split(","):
            measure(groups, disk, policy, node, size)


if __name__ == "__main__":
    subprocess.run(["modprobe", "-a", "card"], check=True)
    if sys.argv[1:] == ["costs"]:
        costs()
    else:
        scan(*sys.argv[2:])

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""web_guest.py delivery | readahead | placement | policies[=A1,...]: the inside of `web`, a JSON line a cell.

Nodes are namespaces, each with a memory cgroup; flash serves on some of them what is mounted there, and a
closed loop of clients asks it over the node's loopback. Disks take one request at a time, 10 ms each.
"""
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
for lib in ("card/tests/lib", "kmod/tests/lib", "bench/cluster", "bench/pathlen", "bench/flash"):
    sys.path.insert(0, str(TOP / lib))
from card import attach, detach, stats, tool            # noqa: E402
from cluster import Cluster                             # noqa: E402
from inside import busy                                 # noqa: E402
from netns import SysfsView, inside                     # noqa: E402
from slowdisk import Group, SlowDisk, run               # noqa: E402

SEED = 2004
DIRECTORIES = 5
# Files of a directory: 1 to 9 units of each class, as card counts them; the classes' shares of the requests.
UNITS, MIX = (102, 1 << 10, 10 << 10, 100 << 10), (35, 50, 14, 1)
DISK_MS, REQUEST_KB = 10, 128
NODE = 6 << 20                          # a node's memory for what is cached
PROGRAM = 11 << 20                      # beside it, until it is known what flash needs
HOSTED = NODE // 4                      # of it for others, at most
HOME_SHIFT = "5"                        # a window of read-ahead has one home
LOW, HIGH = 16, 64                      # clients of a server
# Threads that read for it. Each has a window of read-ahead under way: many of them want more than a node's memory.
HELPERS = 8
WARM, COUNTED = 2000, 3000              # requests to each server
FLASH = "listen 8080\nroot {root}\nmemory_file 0\nhelpers {helpers}\n"

ALL = "0123"
# evict, class_action, and the classes that are on the servers' own disks.
POLICIES = {
    "A1": ("none", "discard discard coop coop", ""),
    "A2": ("none", "coop coop discard discard", ""),
    "A3": ("none", "coop coop coop coop", ""),
    "B1": ("2", "coop coop coop coop", ""),
    "B2": ("0,1", "coop coop coop coop", ""),
    "B3": ("0", "coop coop coop coop", ""),
    "C1": ("2", "coop coop coop discard", ""),
    "C2": ("2", "coop coop coop disk", ""),
    "C3": ("none", "disk disk disk discard", ""),
    "D1": ("2", "coop coop coop coop", "01"),
    "D2": ("2", "coop coop coop discard", "01"),
}
COUNTERS = ("CardReads", "CardFromDisk", "CardFromCache", "CardFromPeer", "CardHostedHits", "CardEvictions",
            "CardSaves", "CardSavesLost", "CardHosted", "CardForwards", "CardPeerRefused", "CardTimeouts",
            "CardKeptPages", "CardServedDiskPages", "CardServedCachedPages", "CardThreadWakeups",
            "CardDeliverSoftirq", "CardDeliverThread")


def files():
    """(directory, class, number, bytes) of all."""
    for d in range(DIRECTORIES):
        for c, unit in enumerate(UNITS):
            for n in range(1, 10):
                yield d, c, n, n * unit


def make_files(top):
    for d, c, n, size in files():
        place = top / str(d)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{c}_{n}").write_bytes(bytes([97 + n]) * size)
    return top


def draw(number, seed):
    """Files: the class by its share, exactly; the directory by Zipf."""
    chance, known, drawn = random.Random(seed), list(files()), []
    for c, share in enumerate(MIX):
        those = [f for f in known if f[1] == c]
        drawn += chance.choices(those, [1 / (f[0] + 1) for f in those], k=number * share // 100)
    chance.shuffle(drawn)
    return drawn


class Server:
    """flash on a node, in its group; /own is its own disk's mount, /card the remote one's.

    Its clients ask for the same documents in the same order whatever is compared. Those of the classes in @own
    are on its own disk.
    """

    def __init__(self, node, clients, memory, own=""):
        self.node, self.clients, self.own = node, clients, own
        self.memory, self.root = memory, Path("/tmp/root-" + node.name)
        self.group = Group("web-" + node.name, (memory + PROGRAM) / (1 << 20))
        config = Path(f"/tmp/flash-{node.name}.conf")
        config.write_text(FLASH.format(root=self.root, helpers=HELPERS))
        self.process = self.group.start(("flash", "--config", config), f"/tmp/flash-{node.name}.log",
                                        prefix=("ip", "netns", "exec", node.ns))
        self.wait()

    def wait(self):
        end = time.monotonic() + 60
        with inside(self.node.ns):
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", 8080)).close()
                    return
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.exit("flash does not start: " + Path(f"/tmp/flash-{self.node.name}.log").read_text())
                time.sleep(0.1)

    def load(self, number, seed):
        """The clients, started."""
        work = Path(f"/tmp/list-{self.node.name}")
        work.write_text("".join(f"/{'own' if str(c) in self.own else 'card'}/{d}/{c}_{n} {size}\n"
                                for d, c, n, size in draw(number, seed + self.node.number)))
        return subprocess.Popen(
            ["ip", "netns", "exec", self.node.ns, "flash-replay", "-c", str(self.clients), "-k", "0", "-n",
             str(number), "--timeout", "120", "127.0.0.1:8080", str(work)], stdout=subprocess.PIPE, text=True)

    def fit(self):
        """What flash does not use is not for the page cache, nor what is hosted."""
        used, counted = self.group.stat(), stats(self.node)
        hosted = counted["CardHosted"] - counted["CardHostedDropped"]
        limit = self.memory + used["anon"] + used["kernel"] + used["sock"] - hosted * 4096
        (self.group.path / "memory.max").write_text(str(limit))
        return hosted

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        while self.group.processes():
            time.sleep(0.1)
        self.group.remove()


def drive(servers, number, seed):
    """All servers' clients at once; what each one's saw."""
    loads = [s.load(number, seed) for s in servers]
    return [json.loads(load.communicate()[0]) for load in loads]


class Rig:
    """Node 1 has the disk that is exported; 2 and 3 may have their own."""

    def __init__(self, arms=1, own=()):
        self.c = Cluster(3)
        source = make_files(Path("/tmp/source"))
        self.disk = SlowDisk(source, "/tmp/root-n1/card", DISK_MS, depth=arms)
        self.own = [SlowDisk(source, f"/tmp/root-{name}/own", DISK_MS, depth=arms) for name in own]
        for disk in [self.disk, *self.own]:
            (disk.queue / "max_sectors_kb").write_text(str(REQUEST_KB))
        self.mounts = []

    def remote(self, node, *words):
        """The node attaches and mounts the export; undone by detach()."""
        # What waits for an overloaded disk is not asked for again.
        card = attach(node, "data", "timeout", "30000", *words)
        place = Path(f"/tmp/root-{node.name}/card")
        place.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "ext4", "-o", "ro,noatime", "/dev/" + card, place)
        self.mounts.append((node, card, place))
        return card

    def export(self, *words, memory=NODE):
        """In the group of node 1, which pays for what the exporter caches."""
        self.group = Group("web-exporter", memory / (1 << 20))
        made = self.group.start(("flotilla", "card", "export", "data", "device", self.disk.device, "nodes", "n2,n3",
                                 *words), "/tmp/export.log", prefix=("ip", "netns", "exec", self.c.nodes[0].ns))
        if made.wait():
            sys.exit("export: " + Path("/tmp/export.log").read_text())

    def detach(self):
        for node, card, place in self.mounts:
            run("umount", place)
            detach(node, card)
        if self.mounts:
            tool(self.c.nodes[0], "unexport", "data")
            self.group.remove()
        self.mounts = []
        SlowDisk.forget()

    def close(self):
        self.c.close()
        for disk in [self.disk, *self.own]:
            run("umount", disk.mountpoint)
            disk.mountpoint.rmdir()

    def counters(self):
        return [stats(node) for node in self.c.nodes], [d.reads()[0] for d in [self.disk, *self.own]]

    def cell(self, who, servers):
        """Loads the servers and prints what came of it."""
        for number, seed in ((WARM // 5, SEED - 10), (WARM, SEED)):
            drive(servers, number, seed)
            hosted = [server.fit() for server in servers]
        nodes, reads = self.counters()
        spent = busy()
        seen = drive(servers, COUNTED, SEED + 10)
        spent = busy() - spent
        nodes_after, reads_after = self.counters()
        memory = [server.group.stat() for server in servers]
        for server in servers:
            server.stop()
        answers = sum(s["requests"] for s in seen)
        print(json.dumps({
            **who, "rate": round(answers / max(s["seconds"] for s in seen), 1), "requests": answers,
            "seconds": [s["seconds"] for s in seen],
            "mean_ms": round(sum(s["mean_us"] * s["requests"] for s in seen) / 1000 / answers, 1),
            "bytes": sum(s["bytes"] for s in seen), "bad": sum(s["failed"] + s["other"] for s in seen),
            "memory_mb": {name: [round(m[name] / (1 << 20), 1) for m in memory]
                          for name in ("file", "anon", "sock", "slab", "kernel")},
            "hosted": hosted, "instructions": round(spent / answers),
            "disk_requests": [b - a for a, b in zip(reads, reads_after)],
            "counters": {name: [after[name] - before[name] for before, after in zip(nodes, nodes_after)]
                         for name in COUNTERS if any(a[name] != b[name] for a, b in zip(nodes, nodes_after))},
        }), flush=True)


WAYS = {"event": (), "async": ("deliver", "async"), "sync": ("deliver", "sync"),
        "blocking": ("serve", "thread"), "all in the link's worker": ("serve", "event")}


def local_cell(rig, who, clients):
    run("mount", "--bind", "/tmp/root-n2/own", "/tmp/root-n2/card")
    rig.cell(who, [Server(rig.c.nodes[1], clients, NODE)])
    run("umount", "/tmp/root-n2/card")
    SlowDisk.forget()


def delivery():
    """Who answers when the disk is done, beside the same disk in the server itself."""
    for arms, loads in ((1, (LOW, HIGH)), (4, (HIGH,))):
        rig = Rig(arms, own=("n2",))
        Path("/tmp/root-n2/card").mkdir(exist_ok=True)
        for clients in loads:
            who = {"arms": arms, "clients": clients}
            local_cell(rig, {"way": "local disk", **who}, clients)
            for way, words in WAYS.items():
                if (way == "sync" and clients == LOW) or (way == "all in the link's worker" and arms == 1):
                    continue            # nothing to learn there
                rig.export(*words)
                rig.remote(rig.c.nodes[1])
                rig.cell({"way": way, **who}, [Server(rig.c.nodes[1], clients, NODE)])
                rig.detach()
        rig.close()


def readahead():
    rig = Rig()
    imported = (rig.disk.queue / "read_ahead_kb").read_text().strip()
    for pages in (0, 8, 16, 32, 64, 128):
        rig.export()
        rig.remote(rig.c.nodes[1], "readahead", str(pages))
        rig.cell({"pages": pages, "exporter_kb": int(imported)}, [Server(rig.c.nodes[1], HIGH, NODE)])
        rig.detach()


def placement():
    """Section 3.3.5: where the disk is, for one and two servers."""
    rig = Rig(own=("n2", "n3"))
    nodes = rig.c.nodes
    rig.cell({"disks": "replicated"}, [Server(n, HIGH, NODE, ALL) for n in nodes[1:]])
    SlowDisk.forget()
    for name, at in (("one server", nodes[1:2]), ("network-attached", nodes[1:]), ("computer-attached", nodes[:2])):
        rig.export()
        for node in at:
            if node is not nodes[0]:
                rig.remote(node)
        rig.cell({"disks": name}, [Server(n, HIGH, NODE) for n in at])
        rig.detach()


def rule(node, name, value):
    top = Path(SysfsView.of(node.ns).path) / "class/card"
    for place in top.iterdir():
        (place / name).write_text(value)


def policies(chosen):
    """Chapter 5: R, plain, and the class-aware policies, on two servers and a third node's disk."""
    rig = Rig(own=("n2", "n3"))
    nodes, servers = rig.c.nodes, rig.c.nodes[1:]
    if "R" in chosen:
        rig.cell({"policy": "R"}, [Server(n, HIGH, NODE, ALL) for n in servers])
        SlowDisk.forget()
    for name in chosen:
        if name == "R":
            continue
        evict, action, own = POLICIES.get(name, ("none", "", ""))
        if action:
            rig.export("policy", "hscc", "host", "0", "home_shift", HOME_SHIFT)
            rule(nodes[0], "evict", "none")
        else:
            rig.export()
        hosted = 0 if evict == "none" else HOSTED
        for node in servers:
            rig.remote(node, *(("host", str(hosted // 4096)) if action else ()))
            if action:
                rule(node, "evict", evict)
                rule(node, "class_action", action)
        rig.cell({"policy": name}, [Server(n, HIGH, NODE, own) for n in servers])
        rig.detach()


def main():
    run("modprobe", "-a", "card", "ext4")
    # The programs are in memory before any group could have to let them go: while the guest waits for the host's
    # files with nothing to do, its clock leaps.
    for name in ("flash", "flash-replay"):
        run(name, "--help")
        Path(shutil.which(name)).read_bytes()
    run("sysctl", "-qw", "net.core.somaxconn=4096", "net.ipv4.ip_local_port_range=2000 65000")
    what, _, chosen = sys.argv[1].partition("=")
    # Two lists, as the thesis's kernel had: what generations keep of so little memory is a matter of luck.
    Path("/sys/kernel/mm/lru_gen/enabled").write_text("n")
    if what == "policies":
        policies(chosen.split(",") if chosen else ["R", "plain", *POLICIES])
    else:
        {"delivery": delivery, "readahead": readahead, "placement": placement}[what]()
    os._exit(0)         # the guest goes with all of it


if __name__ == "__main__":
    main()

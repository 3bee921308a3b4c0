# SPDX-License-Identifier: GPL-2.0
"""What the demo measures, all of it counted by somebody who does not profit from the result."""
import hashlib
import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import status
from network import SERVICE

# What the load says as Host (load.lua): the target is host and path.
HOST = "demo"
# At most.
WARM_UP_LOADS = 6
LOG_PATIENCE = 30
HERE = Path(__file__).resolve().parent


def counters(ns, room="handoff"):
    """The kernel's counters of a namespace, by name."""
    rows = json.loads(ns.run("flotilla", "-j", "stats", "show", "room", room))
    return {row["name"]: row["value"] for row in rows}


def load(client, urls, seconds, connections, seed, scheme="http"):
    """Runs wrk; what it says in its last line."""
    done = subprocess.run(
        client.command("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout",
                       "10s", "-s", str(HERE / "load.lua"), f"{scheme}://{SERVICE}/", "--", str(urls),
                       str(seed)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"wrk failed: {done.stderr or done.stdout}")
    return json.loads(lines[-1])


def peers(backends):
    """Requests by who asked, from the servers' logs: flash writes its own each second, so wait until all is quiet."""
    seen, quiet = Counter(), 0
    for _ in range(LOG_PATIENCE):
        before, seen = seen, sum((b.peers() for b in backends), Counter())
        quiet = quiet + 1 if seen == before else 0
        if quiet == 3:
            break
        time.sleep(1)
    return seen


class Snapshot:
    """Everything that counts, at one moment."""

    def __init__(self, cluster):
        self.counters = counters(cluster.fe)
        self.sent_by_front_end = cluster.fe.bytes("tx")
        self.received_by_client = cluster.client.bytes("rx")
        self.peers = peers(cluster.backends)
        self.disk = {b.name: b.bytes_read() for b in cluster.backends}


def warm_up(cluster, seconds, connections):
    """As many requests as there are targets, however long a slow machine takes for them."""
    enough, done = len(cluster.urls.read_text().split()), 0
    for turn in range(WARM_UP_LOADS):
        done += load(cluster.client, cluster.urls, seconds, connections, seed=10 + turn)["requests"]
        if done >= enough:
            break
    return done, enough


def run_policy(cluster, policy, seconds, connections=12):
    """The same load under a policy, from empty caches: once to warm up, once to count."""
    cluster.fe.run("flotilla", "policy", "set", policy)
    for backend in cluster.backends:
        backend.forget()
    warm = warm_up(cluster, seconds, connections)
    before = Snapshot(cluster)
    seen = load(cluster.client, cluster.urls, seconds, connections, seed=1)
    seen["page"] = status.look(cluster.fe)      # at once: its rates are those of the last ten seconds
    after = Snapshot(cluster)
    disk = sum(after.disk[n] - before.disk[n] for n in after.disk)
    seen["policy"], seen["warm"] = policy, warm
    seen["disk_bytes"] = disk
    seen["from_memory"] = max(0.0, 1 - disk / seen["bytes"]) if seen["bytes"] else 0.0
    seen["sent_by_front_end"] = after.sent_by_front_end - before.sent_by_front_end
    seen["received_by_client"] = after.received_by_client - before.received_by_client
    asked = after.peers - before.peers
    seen["from_client"] = asked[cluster.client.address]
    seen["from_front_end"] = asked[cluster.fe.address]
    seen["counters"] = {name: value - before.counters.get(name, 0)
                        for name, value in after.counters.items()}
    return seen


def latency(counts):
    """Median and 99th percentile of the handoff histogram: upper ends of its slots, in us."""
    slots = sorted((int(name[11:]), n) for name, n in counts.items()
                   if name.startswith("HandoffUsec") and name[11:].isdigit())
    total, found, seen = sum(n for _, n in slots), [], 0
    for share in (0.5, 0.99):
        seen = 0
        for top, n in slots:
            seen += n
            if total and seen >= share * total:
                found.append(top)
                break
    return found


def path_of(site, url):
    return site / ("index.html" if url == "/" else url[1:])


def right_bodies(cluster, urls, site):
    """How many of these arrive with the bytes they have on disk."""
    right = 0
    for url in urls:
        got = subprocess.run(
            cluster.client.command("curl", "-s", "-H", f"Host: {HOST}", f"http://{SERVICE}{url}"),
            stdout=subprocess.PIPE, check=False).stdout
        right += hashlib.sha256(got).digest() == hashlib.sha256(path_of(site, url).read_bytes()).digest()
    return right


def explain(cluster, url):
    return json.loads(cluster.fe.run("flotilla", "-j", "explain", f"http://{HOST}{url}"))

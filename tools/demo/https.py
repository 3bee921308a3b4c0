# SPDX-License-Identifier: GPL-2.0
"""Clients come by HTTPS: who answers them, and what a listener on the segment gets to see of it."""
import hashlib
import json
import os
import socket
import subprocess
import time
from collections import Counter

import backend
import capture
import keys
import measure
from network import SERVICE

FETCHED = 20
PATIENCE = 10
CONTROL = "/run/flotilla/lardd.sock"
# What every request and every page of the site has.
LINES = (b"GET /", b"Served by the demo.", b"X-Node: ")


def lardd():
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(CONTROL)
        control.sendall(b'{"cmd":"stats"}\n')
        return json.loads(control.makefile().readline())["counters"]


def passed(cluster):
    """Connections so far: handed off with their keys, proxied, taken by each back-end."""
    counters = lardd()
    taken = {b.name: measure.counters(b.ns, "flotilla")["TlsStarted"] for b in cluster.backends}
    return Counter({"handed off": counters["LardTlsHandedOff"], "proxied": counters["LardProxied"], **taken})


def settled(cluster, before, count):
    """What has passed since; a client may have its answer before lardd is told of the handoff's end."""
    end = time.monotonic() + PATIENCE
    while True:
        through = passed(cluster) - before
        if through["handed off"] + through["proxied"] >= count or time.monotonic() > end:
            return through
        time.sleep(0.2)


def fetch(cluster, scheme, urls, marker, log=None):
    """One curl fetches them, each over a connection of its own: (who answered, body) of those that it verified."""
    place = backend.WORK / "fetched"
    place.mkdir(exist_ok=True)
    words = ["curl", "-sS", "-m", "60", "--cacert", str(cluster.trust.chain), "-H", f"Host: {measure.HOST}", "-H",
             "Connection: close", "-H", f"X-Marker: {marker}",
             "-w", "%{http_code} %{ssl_verify_result} %header{x-node}\n"]
    files = [place / str(number) for number in range(len(urls))]
    for url, file in zip(urls, files):
        file.unlink(missing_ok=True)
        words += [f"{scheme}://{SERVICE}{url}", "-o", str(file)]
    done = subprocess.run(cluster.client.command(*words), capture_output=True, text=True, check=False,
                          env={**os.environ, "SSLKEYLOGFILE": str(log)} if log else None)
    said = [line.split() for line in done.stdout.splitlines()]
    answers = [(line[2] if len(line) == 3 else "nobody", file.read_bytes() if file.exists() else b"")
               for line, file in zip(said, files) if line[:2] == ["200", "0"]]
    return answers, done.stderr.strip()


def right(answers, urls, site):
    """How many have the bytes that are on disk, when all came."""
    return sum(hashlib.sha256(body).digest() == hashlib.sha256(measure.path_of(site, url).read_bytes()).digest()
               for (_, body), url in zip(answers, urls))


def documents(cluster, urls, site):
    """Some by HTTPS while the segment is listened to; then by HTTP, which the listener must understand."""
    log, marker = backend.WORK / "keys.log", f"marker-{os.urandom(16).hex()}"
    log.unlink(missing_ok=True)
    before = passed(cluster)
    with capture.Capture(backend.WORK, cluster.client, cluster.fe) as taken:
        answers, complaint = fetch(cluster, "https", urls, marker, log)
        through = settled(cluster, before, len(urls))
    plain = [marker.encode(), *LINES]
    secrets = keys.read_log(log.read_text().splitlines()) if log.exists() else []
    made = [key for _, _, secret in secrets for key in keys.of_secret(secret)]
    with capture.Capture(backend.WORK, cluster.client, cluster.fe) as control:
        fetch(cluster, "http", urls, marker)        # in one alone a text may lie across two frames
    return {"right": right(answers, urls, site), "asked": len(urls), "complaint": complaint,
            "nodes": Counter(node for node, _ in answers), "passed": through,
            "frames": taken.frames, "bytes": len(taken.data), "lost": taken.lost,
            "connections": len({random for _, random, _ in secrets}),
            "recognized": taken.seen({random for _, random, _ in secrets}),
            "secrets": len(secrets), "made": len(made),
            "plain": len(plain), "plain_seen": taken.seen(plain), "plain_by_http": control.seen(plain),
            "keys_seen": taken.seen([secret for _, _, secret in secrets] + made + cluster.trust.secrets())}


def run(cluster, urls, site, seconds):
    """What came of it, and what of that is wrong."""
    seen = documents(cluster, urls[:FETCHED], site)
    before = passed(cluster)
    seen["load"] = measure.load(cluster.client, cluster.urls, seconds, 12, seed=1, scheme="https")
    seen["load_passed"] = passed(cluster) - before
    seen["wrong"] = [text for is_so, text in complaints(seen, cluster.backends) if is_so]
    return seen


def complaints(s, backends):
    served = Counter(s["nodes"]) + Counter(s["load"]["nodes"])
    taken = sum(s["passed"][b.name] for b in backends)
    return [
        (s["right"] != s["asked"], f"curl did not get all documents: {s['complaint'] or 'other bytes'}"),
        (s["passed"]["handed off"] != s["asked"] or taken != s["asked"],
         f"of curl's {s['asked']} connections {s['passed']['handed off']} were handed off, {taken} taken, and "
         f"{s['passed']['proxied']} proxied in clear text"),
        (set(served) - {b.name for b in backends}, f"answers of nobody known: {dict(served)}"),
        ({b.server for b in backends if served[b.name]} != {b.server for b in backends},
         "not every kind of server answered"),
        (s["load"]["requests"] == 0 or sum(s["load"]["errors"].values()), f"wrk: {s['load']['errors']}"),
        (s["lost"], "the capture is not whole"),
        (s["connections"] < s["asked"] or s["recognized"] != s["connections"],
         "curl's connections are not all in the capture"),
        (s["plain_by_http"] != s["plain"], "the capture does not show what goes by HTTP, either"),
        (s["plain_seen"], "plain text crossed the segment"),
        (s["keys_seen"], "keys crossed the segment"),
    ]

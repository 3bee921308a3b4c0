# SPDX-License-Identifier: GPL-2.0
"""The front-end's kernel answers what lardd has kept there, until a program says that it is out of date."""
import re
import subprocess
import time

import measure
from network import SERVICE

CONFIG = "cache-size 16000000\ncache-kernel on\ncache-class static on 10m\n"
SECONDS = 3
PATIENCE = 30


def counted(cluster, name):
    return measure.counters(cluster.fe, "afpa").get(name, 0)


def becomes(cluster, name, number):
    """Whether that happens in time."""
    for _ in range(10 * PATIENCE):
        if counted(cluster, name) == number:
            return True
        time.sleep(0.1)
    return False


def fetch(cluster, site, target):
    """One GET: whether its body was right, and whether the kernel answered."""
    before = counted(cluster, "AfpaHits")
    got = subprocess.run(cluster.client.command("curl", "-s", "-m", "20", f"http://{SERVICE}{target}"),
                         stdout=subprocess.PIPE, check=False).stdout
    return got == measure.path_of(site, target).read_bytes(), counted(cluster, "AfpaHits") - before == 1


def wrk(cluster, target):
    """Requests that were answered, and those that failed."""
    said = cluster.client.run("wrk", "-t1", "-c8", f"-d{SECONDS}s", f"http://{SERVICE}{target}")
    answered = int(re.search(r"(\d+) requests in", said)[1])
    errors = re.search(r"Socket errors: (.*)|Non-2xx or 3xx responses: (.*)", said)
    return answered, errors and errors[0]


def run(cluster, site, target):
    """What came of it, and what of that is wrong."""
    cluster.configure(cluster.fe, CONFIG)
    wrong = [] if becomes(cluster, "AfpaSites", 1) else ["lardd did not tell the kernel its address"]
    seen = {"target": target, "first": fetch(cluster, site, target)}
    if not becomes(cluster, "AfpaObjects", 1):
        wrong.append("what the back-end answered did not come into the kernel's cache")
    seen["second"] = fetch(cluster, site, target)
    hits, asked = counted(cluster, "AfpaHits"), measure.peers(cluster.backends).total()
    seen["answered"], seen["errors"] = wrk(cluster, target)
    seen["hits"] = counted(cluster, "AfpaHits") - hits
    seen["asked"] = measure.peers(cluster.backends).total() - asked
    seen["deleted"] = cluster.fe.run("flotilla", "cache", "del", f"http://{SERVICE}{target}").strip()
    seen["third"] = fetch(cluster, site, target)
    cluster.configure(cluster.fe)
    if not becomes(cluster, "AfpaSites", 0):
        wrong.append("the kernel still answers")
    seen["wrong"] = wrong + [text for is_so, text in complaints(seen) if is_so]
    return seen


def complaints(s):
    # What wrk had under way when it ended was answered, and is not among its requests.
    return [
        (not all(s[which][0] for which in ("first", "second", "third")), "a body was wrong"),
        (s["first"][1] or s["third"][1], "the kernel answered what it could not have"),
        (not s["second"][1], "the kernel did not answer"),
        (s["errors"] or not s["answered"], f"wrk: {s['answered']} answered, {s['errors']}"),
        (s["hits"] < s["answered"], f"of {s['answered']} requests the kernel answered {s['hits']}"),
        (s["asked"], f"back-ends were asked {s['asked']} times meanwhile"),
    ]

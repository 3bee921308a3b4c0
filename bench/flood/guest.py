#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py [options] CASE...: the inside of `run`: a client, a flood, and two back-ends of one service in one guest.

Prints a line of JSON for each case and rate.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "handoff/tests/lib")]
from hof import VIP4, batch, wait   # noqa: E402
from redirected import Redirecting  # noqa: E402

SERVE, OFFER, FLOOD = (TOP / "build/bench" / name for name in ("serve", "offer", "flood"))
NOBODY = "198.18.0.0/15"
# What be1's rule is (none: there is none), sysctls there, and whether be2 takes what is redirected.
LIGHT, LOADED = {"hint": 0, "above": 10}, {"hint": 1 << 30, "above": 10}
ROOM = {"redirect_max": 1 << 20, "redirect_syn_max": 1 << 20, "redirect_syn_ms": 1000}
CASES = {
    "dropped": (None, {}, False),
    "no rule": (None, {}, False),
    "not loaded": (LIGHT, {}, False),
    "redirected": (LOADED, ROOM, False),
    "redirected, taken": (LOADED, ROOM, True),
    "table full": (LOADED, {}, False),
}
COUNTERS = ("RedirectSent", "RedirectFull", "RedirectNone", "RedirectHeavy")


def clocks():
    """Nanoseconds since the start, and those that were idle; ticks of /proc/stat."""
    text = Path("/proc/timer_list").read_text(encoding="ascii")
    elapsed = int(re.search(r"now at (\d+) nsecs", text).group(1))
    idle = sum(int(n) for n in re.findall(r"\.(?:idle|iowait)_sleeptime\s*:\s*(\d+)", text))
    fields = [int(n) for n in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    return {"busy": elapsed - idle, "elapsed": elapsed, "user": fields[0], "system": fields[2], "irq": fields[5],
            "softirq": fields[6]}


class Flooded(Redirecting):
    """Packets to clients that do not exist come to the client's namespace and end there."""

    def __init__(self):
        super().__init__(2, listening=False)
        self.defaults = {}
        for be in self.be:
            be.sysctl("net.core.somaxconn", 1024)
            be.sysctl("net.ipv4.tcp_max_syn_backlog", 1024)
            batch(be.ns, "route add %s via %s" % (NOBODY, self.net.ip4(self.client.number)))
        self.client.sysctl("net.ipv4.tcp_no_metrics_save", 1)
        self.drop(self.client, "daddr")
        for be in self.be:
            self.server = be.spawn(SERVE, "-w", "32", "-c", "100", "-b", "1024", VIP4, "80", stdout=subprocess.PIPE)
            wait(lambda be=be: ":80 " in be.output("ss", "-Hltn"))

    @staticmethod
    def drop(node, which):
        """Before any protocol sees it."""
        node.run("nft", "table netdev nobody { chain c { type filter hook ingress device eth0 priority -600; "
                 "ip %s %s drop; }; }" % (which, NOBODY))

    def flood(self, rate, seconds):
        return subprocess.Popen(("ip", "netns", "exec", self.client.ns, FLOOD, "-r", str(rate), "-t", str(seconds),
                                 VIP4, "80"), stdout=subprocess.PIPE, text=True)

    def measured(self, case, rate, args):
        """The flood, and in its middle what it costs; beside it clients whose requests are answered or not."""
        rule, sysctls, taken = CASES[case]
        for name, value in sysctls.items():
            self.be[0].sysctl("net.flotilla." + name, value)
        if case == "dropped":
            self.drop(self.be[0], "saddr")
        if not taken:
            self.drop(self.be[1], "saddr")
        if rule is not None:
            self.rule(1, hint=0)
            self.rule(0, **rule)
            if rule["hint"]:
                self.offered("be2", "lighter")
        time.sleep(5)
        counted = self.be[0].stats()
        flood = self.flood(rate, args.warm + args.seconds + 1) if rate else None
        client = self.client.spawn(OFFER, "-r", args.clients, "-w", str(args.warm), "-t", str(args.seconds), "-1",
                                   "/0/1/1", "-o", "5", VIP4, "80", stdout=subprocess.PIPE, text=True)
        time.sleep(args.warm)
        before = clocks()
        time.sleep(args.seconds)
        after = clocks()
        told = json.loads(client.communicate()[0])
        self.children.remove(client)
        sent = json.loads(flood.communicate()[0]) if flood else {"sent": 0, "failed": 0}
        counted = {name: n for name in COUNTERS if (n := self.be[0].stats()[name] - counted[name])}
        entries = self.be[0].stat("RedirectEntries")
        for number in (1, 0) if rule is not None else ():
            self.off(number)
        for node in self.be:
            subprocess.run(("ip", "netns", "exec", node.ns, "nft", "delete", "table", "netdev", "nobody"), check=False,
                           stderr=subprocess.DEVNULL)
        for name in sysctls:
            self.be[0].sysctl("net.flotilla." + name, self.tunables[name])
        time.sleep(15)
        each = told["classes"][0]
        return {"case": case, "load": rate, "seconds": (after["elapsed"] - before["elapsed"]) / 1e9, **sent,
                **{name: after[name] - before[name] for name in after if name != "elapsed"}, "counted": counted,
                "entries": entries, "client": {name: sum(c[name] for c in told["classes"]) for name in each
                                               if name.startswith(("answered", "within", "refused", "reset", "cut",
                                                                   "late", "unended"))}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--warm", type=float, default=5)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--rates", default="0,5000,10000,20000")
    p.add_argument("--clients", default="20", help="connections a second that are no flood")
    p.add_argument("cases", nargs="+", choices=CASES)
    args = p.parse_args()
    os.environ.setdefault("FLT_TOP", str(TOP))
    with Flooded() as f:
        f.tunables = {}
        for name in ("redirect_max", "redirect_syn_max", "redirect_syn_ms"):
            f.tunables[name] = int(f.be[0].output("sysctl", "-n", "net.flotilla." + name))
        for case in args.cases:
            for rate in args.rates.split(","):
                print(json.dumps(f.measured(case, int(rate), args)), flush=True)


main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py [options] CASE...: the inside of `run`: a client, a front-end and two back-ends in one guest.

Prints what moves (moves.c) prints. With --split each of the four has a CPU of its own, and the bridge between them
has the first. With --encrypted the links between the nodes are, by keys that everybody knows.
"""
import argparse
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "handoff/tests/lib")]
from chain import Chain     # noqa: E402
from hof import VIP4, run     # noqa: E402
from move import FLOTILLA     # noqa: E402
from netns import SysfsView     # noqa: E402

# Larger than a queue of 64 KB, and than what TCP keeps back of it for itself.
BUFFERS = (("rmem", "4096 1048576 6291456"), ("wmem", "4096 1048576 6291456"))


def steer(name, device, cpu):
    """What comes to this device is worked on there."""
    queue = Path(SysfsView.of(name).path, "class/net", device, "queues/rx-0/rps_cpus")
    queue.write_text(f"{1 << cpu:x}", encoding="ascii")


def prepare(c, split):
    c.client.run("ip", "route", "add", VIP4 + "/32", "via", c.net.ip4(c.be[0].number), "table", "1")
    c.client.run("ip", "rule", "add", "fwmark", "1", "lookup", "1")
    for node in (c.client, *c.nodes):
        for name, value in BUFFERS:
            node.sysctl(f"net.ipv4.tcp_{name}", value)
        node.sysctl("net.ipv4.tcp_no_metrics_save", 1)
        node.sysctl("net.ipv4.tcp_slow_start_after_idle", 0)
    if split:
        # What the kernel does for nobody in particular.
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if not (process / "cmdline").read_bytes():
                    os.sched_setaffinity(int(process.name), {0})
        os.sched_setaffinity(0, {0})
        # A timer goes off where it was set.
        Path("/proc/sys/kernel/timer_migration").write_text("0", encoding="ascii")
        for cpu, node in enumerate((c.client, *c.nodes), 1):
            steer(node.ns, "eth0", cpu)
            steer(c.net.bridge, f"p{node.number}", 0)


def measure(c, case, args):
    words = [TOP / "build/tests/moves-bench", "-r", args.rounds]
    if args.split:
        words += ["-c", "1,2,3,4"]
    words += [case, c.client.ns, c.fe.ns, *(be.ns for be in c.be), c.fe.id["be1"], c.be[0].id["be2"]]
    if case == "flight":
        c.client.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "300ms")
    if case == "policy":
        c.be[0].run(FLOTILLA, "migrate", "policy", "set", VIP4 + ":80", "simple", "be2")
    status = subprocess.run([str(w) for w in words], check=False).returncode
    if case == "flight":
        c.client.run("tc", "qdisc", "del", "dev", "eth0", "root")
    if case == "policy":
        c.be[0].run(FLOTILLA, "migrate", "policy", "off", VIP4 + ":80")
    if status:
        sys.exit(f"{case}: status {status}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", default="30")
    p.add_argument("--split", action="store_true")
    p.add_argument("--encrypted", action="store_true")
    p.add_argument("case", nargs="+")
    args = p.parse_args()
    os.environ.setdefault("FLT_TOP", str(TOP))
    run("modprobe", "sch_netem")
    # Their heartbeats are nothing of a move's.
    with Chain(2, heartbeat_ms=60000, encrypted=args.encrypted, insecure=not args.encrypted) as c:
        # The links are up; who waits for more of them would be seen in what is counted.
        while c.agents:
            c.agents.pop().stop()
        prepare(c, args.split)
        if os.environ.get("FLT_RESULTS"):
            Path(os.environ["FLT_RESULTS"], "kallsyms").write_text(Path("/proc/kallsyms").read_text(encoding="ascii"))
        # What a machine does after it has been started is over.
        time.sleep(100)
        for case in args.case:
            measure(c, case, args)


main()

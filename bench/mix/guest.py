#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py [options] CONFIG...: the inside of `run`: robots, a caching proxy and an origin in one guest of one CPU.

A CONFIG is a layer to wait by, and what is added to it: `uselect+splice`, `select+4k`; or `direct`, robots that
ask the origin themselves. Prints the line of mix-load (load.c) for each, with the rate per robot.
"""
import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "bench/splice"))
from inside import at, lan, run, start  # noqa: E402

TESTS = TOP / "build/tests"
# late: only what has not come when the head is read.
OPTIONS = {"splice": ["-s"], "late": ["-s", "-f", "65536"], "8k": ["-s", "-m", "8192"], "4k": ["-b", "4096"],
           "check": ["-k"]}
ORIGIN, PROXY = 9000, 9001


def listens(name, port):
    """Until somebody does."""
    for _ in range(200):
        if f":{port} " in run(*at(name, "ss", "-Hltn")):
            return
        time.sleep(0.05)
    sys.exit(f"nobody listens on port {port}")


def network():
    lan(())
    for name in ("cli", "prx", "srv"):
        # One run leaves nothing to the next; robots come and go.
        run(*at(name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1", "net.ipv4.ip_local_port_range=2000 65000",
                "net.core.somaxconn=4096"))
    run("modprobe", "sch_netem")


def delay(args, what):
    """@what: add, del; both ways between proxy and origin."""
    for name, dev in (("prx", "srv"), ("srv", "eth0")):
        words = ["netem", "limit", "100000", "delay", f"{args.delay}ms"] if what == "add" else []
        if words and args.loss:
            words += ["loss", f"{args.loss}%"]
        run(*at(name, "tc", "qdisc", what, "dev", dev, "root", *words))


def measure(args, config, rate, size, kept):
    layer, *options = config.split("+")
    shown = "/run/mix-shown"
    Path(shown).unlink(missing_ok=True)
    robots = str(round(rate / args.each))
    load = [f"{TESTS}/mix-load", "-w", str(args.warm), "-t", str(args.seconds), "-i", str(args.think),
            *(["-s", size] if size else []), *(["-k"] if kept else []), *(["-c"] if args.quick else []),
            config, shown]
    origin = start("srv", f"{TESTS}/mix-origin", shown, str(ORIGIN))
    listens("srv", ORIGIN)
    proxy = None
    if layer == "direct":
        line = at("prx", *load, "10.0.2.1", str(ORIGIN), robots, str(rate))
    else:
        # As far away as the paper's; the proxy and the robots are neighbours.
        delay(args, "add")
        proxy = start("prx", f"{TESTS}/mix-proxy", *(word for o in options for word in OPTIONS[o]), layer, shown,
                      str(PROXY), "10.0.2.1", str(ORIGIN))
        listens("prx", PROXY)
        line = at("cli", *load, "10.0.1.2", str(PROXY), robots, str(rate))
    status = subprocess.run(line, check=False).returncode
    if proxy:
        if proxy.poll() is not None:
            status = f"{status}, the proxy ended with {proxy.returncode}"
        proxy.terminate()
        proxy.wait()
        delay(args, "del")
    origin.terminate()
    origin.wait()
    if status:
        sys.exit(f"{config} at {rate}: {status}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rates", default="600", help="requests a second")
    p.add_argument("--each", type=float, default=0.4, help="requests a second of one robot")
    p.add_argument("--warm", type=float, default=10)
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--delay", type=float, default=40, help="ms, each way")
    p.add_argument("--loss", type=float, default=0, help="percent, each way")
    p.add_argument("--think", type=float, default=2.5, help="seconds, on average")
    p.add_argument("--size", default="", help="bytes: all are misses of that size")
    p.add_argument("--kept", default="0", help="0, 1: whether these are kept")
    p.add_argument("--quick", action="store_true", help="for tests: hardly any thinking, little room")
    p.add_argument("config", nargs="+")
    args = p.parse_args()
    run("modprobe", "-a", "uselect", "sksplice")
    if os.environ.get("FLT_RESULTS"):
        Path(os.environ["FLT_RESULTS"], "kallsyms").write_text(Path("/proc/kallsyms").read_text(encoding="ascii"))
    network()
    for rate, size, kept, config in itertools.product(args.rates.split(","), args.size.split(","),
                                                      args.kept.split(","), args.config):
        if config == "direct" and kept != args.kept.split(",", 1)[0]:
            continue
        measure(args, config, float(rate), size, int(kept))


main()

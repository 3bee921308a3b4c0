#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py [options] EXPERIMENT...: the inside of `run`: nodes, their servers and the clients in one guest.

Prints a line of JSON for each configuration and load.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "handoff/tests/lib"), str(TOP / "bench/migration")]
from experiments import EXPERIMENTS, FRONT     # noqa: E402
from hof import VIP4                    # noqa: E402
from policed import Nodes               # noqa: E402

SERVE, OFFER, DISPATCH = (TOP / "build" / name for name in ("bench/serve", "bench/offer", "tests/handoff-dispatch"))


class Site(Nodes):
    """Back-ends that serve the same address; marks say which of them, or the front-end, a connection comes to."""

    def __init__(self, backends):
        super().__init__(backends, listening=False)
        for number, be in enumerate((*self.be, self.fe), 1):
            self.client.run("ip", "route", "add", VIP4 + "/32", "via", self.net.ip4(be.number), "table", str(number))
            self.client.run("ip", "rule", "add", "fwmark", str(number), "lookup", str(number))
        for node in (self.client, *self.be):
            node.sysctl("net.ipv4.tcp_no_metrics_save", 1)
            node.sysctl("net.ipv4.ip_local_port_range", "2000 65000")
            node.sysctl("net.core.somaxconn", 4096)
            node.sysctl("net.ipv4.tcp_max_syn_backlog", 4096)
        self.servers = []

    def serve(self, options):
        """One server at each node, whose options these are."""
        for be, words in zip(self.be, options):
            self.servers.append(be.spawn(SERVE, *words.split(), VIP4, "80", stdout=subprocess.PIPE))
        for be in self.be[:len(options)]:
            while ":80 " not in be.output("ss", "-Hltn"):
                time.sleep(0.05)

    def served(self):
        """What each of them has to tell; they end."""
        told = []
        for server in self.servers:
            server.terminate()
            told.append(json.loads(server.stdout.read()))
            server.wait()
            self.children.remove(server)
        self.servers = []
        return told

    def dispatch(self):
        """A front-end gives all to be1, and forwards each to who has it in the end."""
        child = self.fe.spawn(DISPATCH, VIP4, "80", str(self.fe.id["be1"]), stdout=subprocess.PIPE)
        while ":80 " not in self.fe.output("ss", "-Hltn"):
            time.sleep(0.05)
        return child

    def offer(self, words):
        done = subprocess.run(("ip", "netns", "exec", self.client.ns, OFFER, *words, VIP4, "80"), check=False,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if done.returncode:
            sys.exit(f"offer ended with {done.returncode}")
        return json.loads(done.stdout)


def row(site, experiment, config, load, args):
    """One load on one configuration, all of it from nothing."""
    setup = experiment["configs"][config]
    for number, sysctls in setup.get("sysctls", {}).items():
        for name, value in sysctls.items():
            site.be[number].sysctl(name, value)
    site.serve(experiment["serve"][:setup["nodes"]])
    for number, words in setup.get("policies", {}).items():
        site.policy(*words, at=number)
    before = [site.why(at) for at in range(setup["nodes"])]
    dispatcher = site.dispatch() if setup["split"] == FRONT else None
    words = ["-w", args.warm or experiment["warm"], "-t", args.seconds or experiment["seconds"], "-r" if
             experiment["open"] else "-n", load, *experiment["offer"], *(["-d", setup["split"]])]
    told = site.offer([str(w) for w in words])
    why = [{reason: n - was.get(reason, 0) for reason, n in site.why(at).items() if n != was.get(reason, 0)}
           for at, was in enumerate(before)]
    served = site.served()
    if dispatcher:
        dispatcher.terminate()
        told["dispatcher"] = json.loads(dispatcher.communicate()[0])
        site.children.remove(dispatcher)
    for number in setup.get("policies", {}):
        site.flotilla("policy", "off", VIP4 + ":80", at=number)
    for number, sysctls in setup.get("sysctls", {}).items():
        for name in sysctls:
            site.be[number].sysctl(name, site.defaults[name])
    # What clients have left on their way out is another's no more.
    time.sleep(2)
    return {"experiment": args.experiment, "config": config, "load": load, **told, "why": why, "nodes": served}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--warm", type=float)
    p.add_argument("--seconds", type=float)
    p.add_argument("--loads", help="instead of the experiment's: 20,40")
    p.add_argument("--configs", help="only these: single,moved")
    p.add_argument("experiments", nargs="+", choices=EXPERIMENTS)
    args = p.parse_args()
    os.environ.setdefault("FLT_TOP", str(TOP))
    with Site(3) as site:
        site.wait_ms(50)
        site.defaults = {"net.flotilla.adopt": 1, "net.flotilla.migrate_wait_ms": 50,
                         "net.flotilla.migrate_max_hops": 4}
        for args.experiment in args.experiments:
            experiment = EXPERIMENTS[args.experiment]
            loads = [int(n) for n in args.loads.split(",")] if args.loads else experiment["loads"]
            for load in loads:
                for config in args.configs.split(",") if args.configs else experiment["configs"]:
                    print(json.dumps(row(site, experiment, config, load, args)), flush=True)


main()

# SPDX-License-Identifier: GPL-2.0
"""Instructions per message over a link, both ends and TCP included; see kmod/doc/numbers.md.

Run it with QEMU's instruction counting and one CPU: then a nanosecond of guest time is an instruction.
"""
import os
import sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import cluster                             # noqa: E402
from netns import run                                   # noqa: E402
from tap import wait                                    # noqa: E402


def busy():
    with open("/proc/uptime") as f:
        up, idle = map(float, f.read().split())
    return up - idle


def cost(a, b, command, count):
    def arrived():
        return b.numbers()["received"] + a.numbers()["answers"]

    before, writes, begin = arrived(), a.nl.stats(), busy()
    a.test(command)
    wait(lambda: arrived() == before + count, 30, 0.005)
    spent, after = busy() - begin, a.nl.stats()
    direct, batches = (after["flotilla", n] - writes["flotilla", n]
                       for n in ("SendDirect", "SendBatches"))
    print("%-22s %6.0f instructions each, %d direct, %d batches" % (
        command, spent * 1e9 / count, direct, batches), flush=True)


if __name__ == "__main__":
    run("modprobe", "flotilla")
    run("modprobe", "flt_link_test")
    with cluster() as nodes:
        for _ in range(2):
            cost(*nodes.nodes, "call n2 3000 wait", 3000)
            cost(*nodes.nodes, "call n2 3000", 3000)
            cost(*nodes.nodes, "storm n2 20000 500", 20000)
            cost(*nodes.nodes, "storm n2 20000 500 bh", 20000)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# kernel: stock
# long: stock more than a minute
"""
afpa's cache beside the simulated ones of bench/afpa, request by request, at an eighth of the published sizes.

A simulated file has the bytes that the kernel charges for it. REQUESTS=40000: so many are counted.
LOADS=500,1000,2000,5000 MEMORY=64,128: others.
"""
import contextlib
import os
import random
import sys

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")
sys.path[:0] = [os.path.join(TOP, "kmod/afpa/tests/lib"), os.path.join(TOP, "bench/afpa")]
from afpa import CLOCK, LRU, Client, claim, equal, main, site       # noqa: E402
from caches import KINDS                        # noqa: E402
from hitratio import window_of                  # noqa: E402
from workload import MB, Workload               # noqa: E402

SCALE = 8
NEAR = .02
REQUESTS = int(os.environ.get("REQUESTS", 600))
LOADS = [int(load) for load in os.environ.get("LOADS", "500").split(",")]
MEMORY = [int(size) for size in os.environ.get("MEMORY", "64").split(",")]
NAMES = {LRU: "lru", CLOCK: "clock"}


def asked(device, server, client, file, size):
    """Whether the kernel has answered; if not, a program puts the file."""
    with contextlib.suppress(FileNotFoundError):
        device.query(server.site, f"/{file:05}")
        client.get(f"/{file:05}", method="HEAD")
        return True
    device.put(server.site, f"/{file:05}", bytes(int(size)))
    return False


def charges(device, server, workload):
    """What the kernel charges for a file of each bin."""
    for _, size in workload.bins:
        device.flush(server.site)
        device.put(server.site, "/bytes", bytes(int(size)))
        yield device.info()["used"]
    device.flush(server.site)


def hits(device, server, client, workload, memory, policy):
    """Of the kernel, of the simulation, and how often they differ: after each file was asked for, in random order."""
    draw, cache = random.Random(1), KINDS[policy](memory)
    charged = list(charges(device, server, workload))
    sizes = [(size, charge) for (_, size), charge in zip(workload.bins, charged) for _ in range(workload.directories)]
    files = draw.sample(range(len(sizes)), len(sizes)) + workload.draw(REQUESTS, draw)
    ours, theirs, differ = 0, 0, 0
    for number, file in enumerate(files):
        is_, should = asked(device, server, client, file, sizes[file][0]), cache.ask(file, sizes[file][1])
        differ += is_ != should
        if number >= len(sizes):
            ours, theirs = ours + is_, theirs + should
    return ours / REQUESTS, theirs / REQUESTS, differ


@claim
def hits_are_those_of_a_simulated_cache():
    with site() as (device, server), Client(server.site) as client, contextlib.ExitStack() as stack:
        before = device.info()["budget"]
        stack.callback(device.policy, CLOCK)
        stack.callback(lambda: device.info(budget=before))
        far = []
        for policy, name in NAMES.items():
            device.policy(policy)
            for memory in MEMORY:
                for load in LOADS:
                    workload = Workload(load)
                    workload.directories //= SCALE
                    device.info(budget=memory * MB // SCALE)
                    ours, theirs, differ = hits(device, server, client, workload, memory * MB // SCALE, name)
                    model = window_of(workload, memory * MB / SCALE, policy=name).hit_ratio()
                    print(f"# {name}, {memory} MB, {load} requests/s: {ours:.3f}, simulated {theirs:.3f}, "
                          f"{differ} requests differ; formula, without what is charged besides: {model:.3f}")
                    if (policy == LRU and differ) or abs(ours - theirs) > NEAR:
                        far.append((name, memory, load))
        equal("far from the simulation", far, [])
        equal("what the server read", server.read, [])


main()

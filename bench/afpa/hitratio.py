# SPDX-License-Identifier: GPL-2.0
"""The share of hits of a cache in closed form.

A cache that drops what was not used for longest remembers the last N requests: what was asked for among them is in
it, the rest is not. A file of a bin that gets the share P of all requests, spread over d directories, was among them
with probability 1 - (1 - 1/d)^(P N) = 1 - e^-x. The bytes of all files times this are what the cache holds; N is as
large as memory allows.

With a bit for each file instead of an order (CLOCK), N is the number of requests for which the hand goes round once.
A file stays for one round, and for another whenever it was asked for in the last: on average e^x rounds, then it is
out for 1/x rounds until it is asked for. A file that comes in marked stays for one round more.
"""
import math

from workload import KB

# Share of the time that a file is in the cache, by how often it is asked for in N requests (x).
RESIDENT = {
    "lru": lambda x: -math.expm1(-x),
    "clock": lambda x: x / (x + math.exp(-x)),
    "clock-marked": lambda x: x / (x + math.exp(-x) / (1 + math.exp(-x))),
}


class Unreachable(ValueError):
    """No memory gives what was asked for; the text says why."""


class Window:
    """The last @requests requests to a workload, and what of it a cache of @policy has kept.

    @cut: files of this size and larger are never kept
    """

    def __init__(self, workload, requests, cut=math.inf, policy="lru"):
        self.workload, self.requests, self.cut, self.policy = workload, requests, cut, policy

    def resident(self, share, size):
        """The probability that a file of the bin is in the cache."""
        if size >= self.cut:
            return 0.
        if math.isinf(self.requests):
            return 1.
        return RESIDENT[self.policy](-share * self.requests * math.log1p(-1 / self.workload.directories))

    def used(self):
        """Bytes that are in the cache."""
        return self.workload.directories * sum(size * self.resident(share, size) for share, size in self.workload.bins)

    def hit_ratio(self):
        return sum(share * self.resident(share, size) for share, size in self.workload.bins)

    def byte_hit_ratio(self):
        hits = sum(share * size * self.resident(share, size) for share, size in self.workload.bins)
        return hits / self.workload.mean_request()


def largest(fits):
    """The largest number of requests that @fits, which holds up to some number and not beyond."""
    low, high = 0., 1.
    while fits(high) and high < 1e18:
        low, high = high, 2 * high
    while high - low > 1e-12 * (1 + high):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def window_of(workload, memory, cut=math.inf, policy="lru"):
    """What a cache of @memory bytes remembers: everything when all files fit."""
    if workload.data_set(cut) <= memory:
        return Window(workload, math.inf, cut, policy)
    return Window(workload, largest(lambda n: Window(workload, n, cut, policy).used() <= memory), cut, policy)


def memory_for(workload, hit_ratio, cut=math.inf, policy="lru"):
    """Bytes of cache that @hit_ratio needs."""
    most = Window(workload, math.inf, cut, policy).hit_ratio()
    if hit_ratio > most + 1e-9:
        raise Unreachable(f"no memory gives a hit ratio of {hit_ratio:g}: files of {cut / KB:g} KB and more are left "
                          f"out, and the others get {most:.4f} of the requests")
    if hit_ratio >= most - 1e-9:
        return workload.data_set(cut)
    requests = largest(lambda n: Window(workload, n, cut, policy).hit_ratio() <= hit_ratio)
    return Window(workload, requests, cut, policy).used()

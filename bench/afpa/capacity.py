# SPDX-License-Identifier: GPL-2.0
"""What an accelerator's processor and the servers behind it can do at a hit ratio.

A hit costs the cycles of its connection, shared by the requests on it, and those of the answer; a miss those of its
connection, and of asking a server and relaying what it says.
"""
import math

from hitratio import window_of
from workload import KB, Workload

# The published measurements, on a PowerPC 604 of 200 MHz; a connection for each request.
HZ = 200e6
CONNECTION = {"SYN": 8589, "ACK": 5409, "close": 2933, "ACK of the FIN": 1163, "FIN": 2349, "cleaning up": 1390}
ANSWER = {64: 8221, 128: 8330, 256: 8460, KB: 7280, 2 * KB: 9600, 4 * KB: 8740, 8 * KB: 10990}
SEGMENT, SEGMENT_CYCLES = 2 * KB, 3000      # beyond 8 KB
MISS = 100000.                              # answers of up to 8 KB


def answer_cycles(size):
    """Cycles of an answer out of the cache: in proportion between two measured sizes, by the segment beyond."""
    sizes = sorted(ANSWER)
    if size <= sizes[0]:
        return float(ANSWER[sizes[0]])
    if size > sizes[-1]:
        return ANSWER[sizes[-1]] + math.ceil((size - sizes[-1]) / SEGMENT) * float(SEGMENT_CYCLES)
    above = next(i for i, measured in enumerate(sizes) if size <= measured)
    low, high = sizes[above - 1], sizes[above]
    return ANSWER[low] + (ANSWER[high] - ANSWER[low]) * (size - low) / (high - low)


def hit_cycles(size):
    """Cycles of a hit on a connection of its own."""
    return sum(CONNECTION.values()) + answer_cycles(size)


def mean_hit_cycles():
    """The same, over the files of SPECweb96 as they are asked for."""
    return sum(share * hit_cycles(size) for share, size in Workload(500).bins)


class Accelerator:
    """
    @cycles:     a second, that may be used
    @hit, @miss: cycles of a request on a connection of its own
    @connection: cycles of these that the connection takes
    @requests:   on one connection
    """

    def __init__(self, cycles, hit, miss, connection, requests=1.):
        self.cycles = cycles
        self.hit = hit - connection + connection / requests
        self.miss = miss - connection + connection / requests

    def rate(self, hit_ratio):
        """Requests/s that its processor can answer."""
        return self.cycles / (hit_ratio * self.hit + (1 - hit_ratio) * self.miss)

    def hit_ratio_for(self, rate):
        """The hit ratio at which it can answer @rate; 0 when any will do, None when none will."""
        if rate <= self.rate(0):
            return 0.
        if rate > self.rate(1):
            return None
        return (self.miss - self.cycles / rate) / (self.miss - self.hit)


def servers_rate(hit_ratio, servers):
    """Requests/s whose misses servers that answer @servers requests/s can bear."""
    return math.inf if hit_ratio == 1 else servers / (1 - hit_ratio)


def throughput(accelerator, hit_ratio, servers):
    """Requests/s, and who limits them."""
    own, theirs = accelerator.rate(hit_ratio), servers_rate(hit_ratio, servers)
    return (own, "accelerator") if own <= theirs else (theirs, "servers")


def whole(number):
    """How many are needed; what division leaves in the last digits needs no further one."""
    return math.ceil(number * (1 - 1e-12))


def least(low, high, does):
    """The least whole number from @low to @high that @does, when all above it do and @high is known to."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle + 1, high)
    return low


def accelerators_for(accelerator, load, hit_ratio):
    """How many accelerators bear @load, when @hit_ratio(n) is the hit ratio of n of them: more hit no less."""
    most = whole(load / accelerator.rate(hit_ratio(1)))
    return least(whole(load / accelerator.rate(1)), most,
                 lambda n: n >= load / accelerator.rate(hit_ratio(n)) * (1 - 1e-12))


def highest_load(accelerator, memory, cut=math.inf):
    """The load that an accelerator of @memory just bears: the files grow with the load, and the hit ratio falls."""
    def bears(load):
        return accelerator.rate(window_of(Workload(load), memory, cut).hit_ratio()) >= load
    low, high = accelerator.rate(0), accelerator.rate(1)
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low

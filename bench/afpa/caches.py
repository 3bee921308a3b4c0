# SPDX-License-Identifier: GPL-2.0
"""Caches that are asked request by request, to be held beside the formulas."""
import collections
import random


class Lru:
    """Drops what was not used for longest, to the letter."""

    def __init__(self, memory):
        self.free = memory
        self.files = collections.OrderedDict()      # the least recently used first

    def ask(self, file, size):
        """Whether FILE is there; from now on it is."""
        if file in self.files:
            self.files.move_to_end(file)
            return True
        self.free -= size
        self.files[file] = size
        while self.free < 0:
            self.free += self.files.popitem(last=False)[1]
        return False


class Clock:
    """A bit for each file instead of an order: a hit sets it; the hand clears it, and drops files that have none.

    @marked: a file comes in with the bit set
    """

    def __init__(self, memory, marked=False):
        self.free, self.marked = memory, marked
        self.files = {}                             # each with its bit
        self.ring = collections.deque()             # the next under the hand first

    def ask(self, file, size):
        if file in self.files:
            self.files[file] = True
            return True
        self.free -= size
        while self.free < 0:
            under, dropped = self.ring.popleft()
            if self.files[under]:
                self.files[under] = False
                self.ring.append((under, dropped))
            else:
                del self.files[under]
                self.free += dropped
        self.files[file] = self.marked
        self.ring.append((file, size))
        return False


KINDS = {"lru": Lru, "clock": Clock, "clock-marked": lambda memory: Clock(memory, marked=True)}


def simulate(policy, workload, memory, cut, requests, seed):
    """Hit ratio and byte hit ratio of @requests drawn requests, after a quarter as many that are not counted.

    The cache starts full: it was asked for every file once, in random order.
    """
    draw = random.Random(seed)
    cache = KINDS[policy](memory)
    sizes = [size for _, size in workload.bins for _ in range(workload.directories)]
    kept = [size < cut and size <= memory for size in sizes]
    files = [file for file, keep in enumerate(kept) if keep]
    draw.shuffle(files)
    for file in files + workload.draw(requests // 4, draw):
        if kept[file]:
            cache.ask(file, sizes[file])
    hits = hit_bytes = asked = 0
    for file in workload.draw(requests, draw):
        size = sizes[file]
        asked += size
        if kept[file] and cache.ask(file, size):
            hits += 1
            hit_bytes += size
    return {"hit": hits / requests, "byte_hit": hit_bytes / asked}

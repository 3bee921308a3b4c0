# SPDX-License-Identifier: GPL-2.0
"""How long each test takes, and of how many points it is: which guest it gets, which slice of the long ones.

`durations` beside this file has what was measured when it was last written (`run --write-durations`);
the cache directory has what this machine measured since. Slices are cut by the former only, so that
they stay the same from run to run.
"""
import fcntl
import functools
import heapq
import time
from pathlib import Path

DEFAULTS = Path(__file__).resolve().parent / "durations"
# Of a test that never ran; the debug kernel takes about so much longer.
UNKNOWN = 15
SLOW = 4
UNKNOWN_LONG = 240
# Seconds of tests for a guest: fewer and booting counts, more and the last guest runs alone.
GUEST = 480
# To boot a guest and to look for leaks in it.
BOOT = {"stock": 20, "debug": 90, "kcsan": 60, "newest": 20}
# Seconds of guests that a slice may take; two run at a time.
BUDGET = 400
# After so long a run begins nothing more of its slice.
PATIENCE = 40 * 60


def read(path):
    """{(kernel, name): (seconds, points)}; points are 0 where nobody counted them."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if len(words) in (3, 4) and not line.startswith("#"):
                found[words[0], words[1]] = float(words[2]), int(words[3]) if len(words) == 4 else 0
    return found


class Durations:
    """What is known, and what this run adds to it."""

    def __init__(self, cache):
        self.path = cache / "durations"
        defaults, here = read(DEFAULTS), read(self.path)
        self.defaults = {key: seconds for key, (seconds, _) in defaults.items()}
        self.counted = {name: max(p for (_, n), (_, p) in defaults.items() if n == name) for _, name in defaults}
        self.known = {**self.defaults, **{key: seconds for key, (seconds, _) in here.items()}}
        self.points = dict(self.counted)
        for (_, name), (_, points) in here.items():
            self.points[name] = max(points, self.points.get(name, 0))
        self.new = {}
        # What no run had time for since it ran last, and which part of its claims, if it was a part.
        self.owed = self.read_owed(cache / "owed")
        self.ran, self.late = set(), {}

    @staticmethod
    def read_owed(path):
        """{(kernel, name): (number, count) or ()}"""
        found = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            kernel, name, part = line.split()
            number, _, count = part.partition("/")
            found[kernel, name] = (int(number), int(count)) if count else ()
        return found

    def enter(self, test, kernel, late):
        """It ran, or there was no time left for it."""
        if late:
            self.late[kernel, test.name] = test.slice
        else:
            self.ran.add((kernel, test.name))

    def save_owed(self, tests):
        """For the next run, which begins with it."""
        names = {test.name for test in tests}
        owed = {key: part for key, part in self.owed.items() if key not in self.ran and key[1] in names}
        owed.update(self.late)
        lines = ["%s %s %s\n" % (*key, "%d/%d" % part if part else "-") for key, part in sorted(owed.items())]
        self.path.with_name("owed").write_text("".join(lines), encoding="utf-8")

    def of(self, test, kernel):
        """Seconds that a test is expected to take."""
        return self.guess(self.known, test, kernel) * (self.share(test, *test.slice) if test.slice else 1)

    def steady(self, test, kernel):
        """The same on every machine with this tree."""
        return self.guess(self.defaults, test, kernel)

    @staticmethod
    def guess(known, test, kernel):
        if (kernel, test.name) in known:
            return known[kernel, test.name]
        if test.is_long_on(kernel):
            return UNKNOWN_LONG
        return known.get(("stock", test.name), UNKNOWN) * (1 if kernel in ("stock", "newest") else SLOW)

    def record(self, test, kernel, seconds, points):
        """It came to its end after so long, and these were all its points."""
        if not test.slice:
            self.new[kernel, test.name] = seconds, points

    def share(self, test, number, count):
        """How much of a test that can be cut is in part NUMBER of COUNT: 0 for none, 1 for all.

        In which parts the claims of a Python test are is known once somebody counted them: kit.in_slice() deals them.
        """
        return part_of(self.points.get(test.name, 0) if test.command.suffix == ".py" else 0, number, count)

    def save(self, path=None):
        """Into the cache, beside what other runs have written there meanwhile."""
        path = path or self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_name(path.name + ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lines = [f"{kernel} {name} {seconds:.0f} {points}\n" for (kernel, name), (seconds, points)
                     in sorted({**read(path), **self.new}.items())]
            path.write_text("# kernel, test, seconds, points\n" + "".join(lines), encoding="utf-8")


def part_of(points, number, count):
    """How much of so many claims is in part NUMBER of COUNT; 0 claims: they are not dealt one by one."""
    return ((points - number) // count + 1) / points if points else 1 / count


@functools.lru_cache(maxsize=4)
def spread(count, cut, whole):
    """{(kernel, test): slice} for `whole`, by what `cut` leaves to do in each: see Slice.pick()."""
    loads = [0] * count
    for seconds, points, first in cut:
        for part in range(count):
            loads[(part + first) % count] += seconds * part_of(points, part + 1, count)
    heap, found = [(load, number) for number, load in enumerate(loads, 1)], {}
    heapq.heapify(heap)
    for seconds, kernel, name in sorted(whole):
        load, number = heap[0]
        heapq.heapreplace(heap, (load - seconds, number))
        found[kernel, name] = number
    return found


def deal(items, weight, parts):
    """Items into so many parts, of about the same weight: the heaviest first, each to the lightest part."""
    piles = [(0, i, []) for i in range(parts)]
    for item in sorted(items, key=lambda i: (-weight(i), i.name)):
        load, i, pile = heapq.heappop(piles)
        pile.append(item)
        heapq.heappush(piles, (load + weight(item), i, pile))
    return [pile for _, _, pile in sorted(piles, key=lambda p: p[1]) if pile]


def guests(tests, kernel, durations):
    """Tests that can share a kind of guest, as lists for one guest each."""
    total = sum(durations.of(t, kernel) for t in tests)
    return [sorted(pile, key=lambda t: t.name) for pile in
            deal(tests, lambda t: durations.of(t, kernel), max(1, round(total / GUEST)))]


def turn(cache):
    """The next on this machine, or the day's on one that keeps no cache."""
    path = cache / "slice"
    number = int(path.read_text()) + 1 if path.exists() else int(time.time() // 86400)
    cache.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{number}\n")
    return number


class Slice:
    """Part NUMBER of COUNT of what takes too long for every run; numbers begin with 1.

    Of a test whose claims can be chosen (Python) each slice runs some: all their claims are dealt to the
    slices one after another. Other tests run in one slice as they are.
    """

    def __init__(self, number, count):
        self.number, self.count = number, count

    @classmethod
    def parse(cls, text):
        number, _, count = text.partition("/")
        if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
            raise SystemExit(f"run: FLOTILLA_SLICE={text} is not NUMBER/COUNT, e.g. 2/8")
        return cls(int(number), int(count))

    @classmethod
    def at(cls, turn, tests, durations):
        """The one whose turn it is."""
        count = cls.needed(tests, durations)
        return cls(turn % count + 1, count)

    @staticmethod
    def needed(tests, durations):
        """How many slices keep to the budget."""
        total = sum(durations.steady(t, k) for k in ("stock", "debug") for t in tests if t.is_long_on(k))
        return max(1, -(-int(total) // BUDGET))

    def pick(self, tests, kernel, durations):
        """{test: the slice in which it runs as it is}, of the long tests that cannot be cut.

        Of both kernels, the longest first, each to the slice that has the least to do by then.
        """
        cut, whole = [], []
        for k in ("stock", "debug"):
            first = 0
            for test in (t for t in tests if t.is_long_on(k)):
                seconds, points = durations.steady(test, k), durations.counted.get(test.name, 0)
                if not test.can_be_cut:
                    whole.append((-seconds, k, test.name))
                    continue
                cut.append((seconds, points if test.command.suffix == ".py" else 0, first))
                first += points or 1
        found = spread(self.count, tuple(cut), tuple(whole))
        return {name: number for (k, name), number in found.items() if k == kernel}

    def parts(self, tests, kernel, durations):
        """{test: (number, count)}, which part of its claims is in this slice, of the long tests that can be cut."""
        found, dealt = {}, 0
        for test in tests:
            if test.is_long_on(kernel) and test.can_be_cut:
                found[test.name] = (self.number - 1 - dealt) % self.count + 1, self.count
                dealt += durations.counted.get(test.name) or 1
        return found

    def __str__(self):
        return f"{self.number}/{self.count}"

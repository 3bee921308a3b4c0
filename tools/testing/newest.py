# SPDX-License-Identifier: GPL-2.0
"""The newest kernel's turn in a run: which tests, whether there is such a kernel here, and its modules.

`newest` beside this file has what was seen there. Of the tests that passed each turn runs some.
"""
import dataclasses
import subprocess
from pathlib import Path

import collect
import durations

SEEN = Path(__file__).resolve().parent / "newest"
# Seconds of guests for a turn, booting included.
BUDGET = 240
# Guests that a turn is dealt to.
GUESTS = 2
# One of so many runs is its turn: in place of a slice of what takes long, which costs about the same.
EACH = 3


def read(path=SEEN):
    """The kernel's version as far as it counts, e.g. 7.3, and {test: why it is not dealt, or ""}."""
    version, tests = "", {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        name, _, why = rest.partition(" ")
        if word == "kernel":
            version = name
        elif word in ("pass", "not"):
            tests[name] = why if word == "not" else ""
    return version, tests


def seen(tests, path=SEEN):
    """Those of TESTS that passed there."""
    _, known = read(path)
    return [t for t in tests if t.place == "guest" and known.get(t.name) == ""]


def weight(test, book):
    """Seconds that it takes there, the same on every machine with this tree."""
    return book.steady(test, "newest")


class NoModules(Exception):
    """That is a fault of ours."""


class Turn(durations.Slice):
    """Part NUMBER of COUNT of what passed there."""

    @staticmethod
    def needed(tests, book):
        """How many turns keep to the budget."""
        total = sum(weight(t, book) for t in seen(tests))
        return max(1, -(-int(total) // (BUDGET - GUESTS * durations.BOOT["newest"])))

    def tests(self, tests, book):
        """What runs in this turn."""
        piles = durations.deal(seen(tests), lambda t: weight(t, book), self.count)
        mine = piles[self.number - 1] if self.number <= len(piles) else []
        return [dataclasses.replace(t, by_turns=True) for t in mine]

    def batches(self, tests, book):
        """They, as runner.batches() deals the others."""
        groups = {}
        for test in self.tests(tests, book):
            groups.setdefault((test.cpus, test.mem), []).append(test)
        found = []
        for (cpus, mem), group in groups.items():
            parts = GUESTS if len(group) > 1 else 1
            for i, pile in enumerate(durations.deal(group, lambda t: weight(t, book), parts), 1):
                found.append(("newest", cpus, mem, sorted(pile, key=lambda t: t.name), f"guest-{cpus}{mem}-turns-{i}"))
        return found

    def __str__(self):
        return f"newest:{super().__str__()}"


def run(log, *command):
    """Its exit status; what it says is kept."""
    with open(log, "ab") as output:
        return subprocess.run(command, cwd=collect.TOP, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, check=False).returncode


def prepare(cache, log):
    """Has its root made and our modules built: why nothing runs there, or None; NoModules where they do not build."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    if run(log, "tools/build/newest-kernel", "fetch"):
        said = log.read_text(errors="replace").splitlines() or ["it says nothing"]
        return f"no newest kernel can be had here: {said[-1]} ({log})"
    release = (cache / "newest/current/flotilla-release").read_text(encoding="ascii").strip()
    version, _ = read()
    if not release.startswith(f"{version}."):
        return f"Debian's newest is Linux {release}, and tools/testing/newest is about {version}"
    if run(log, "tools/build/modules", "newest"):
        raise NoModules(f"its modules do not build: {log}")
    return None

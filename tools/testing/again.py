# SPDX-License-Identifier: GPL-2.0
"""A second look: what failed in a run of everything runs again, alone, before it fails the run.

A machine that stood still for half a minute lets tests fail that time nothing else. What passes twice by itself is
counted as passed, and the summary names it, since a race looks the same.
"""
import re
import time
from dataclasses import dataclass, field

import collect
import durations
import runner

TIMES = 2
# Seconds after a run's end that are kept for it.
ROOM = 540
# So many fail for one reason, which is no chance.
MOST = 6
# What a kernel says whose processors stood still, and what may come of that; each other report is a defect.
STALL = re.compile(r"soft ?lockup|hard LOCKUP|rcu_(preempt|sched).*(stall|detected)|INFO: rcu", re.IGNORECASE)
AFTER = re.compile(r"INFO: task|Kernel panic")


def is_grave(reports):
    """Whether a kernel said something that no standstill explains."""
    unexplained = [line for line in reports if runner.machine.REPORT.search(line) and not STALL.search(line)]
    if any(STALL.search(line) for line in reports):
        unexplained = [line for line in unexplained if not AFTER.search(line)]
    return bool(unexplained)


@dataclass
class Trial:
    """Stands for the book while one test runs again: what comes of it is not counted yet."""
    book: object
    number: int
    outcome: collect.Outcome = field(default_factory=collect.Outcome)

    def __post_init__(self):
        self.results = self.book.results / f"again-{self.number}"
        self.durations, self.boots = self.book.durations, self.book.boots

    def log(self, test, where):
        return self.book.path(self.results, test, where)

    def enter(self, _test, _where, outcome, *_):
        for mine, its in ((self.outcome.passed, outcome.passed), (self.outcome.failed, outcome.failed),
                          (self.outcome.skipped, outcome.skipped)):
            mine += its

    def fail(self, what):
        self.outcome.failed.append(what.partition("\n")[0])

    def booted_again(self, what):
        self.book.booted_again(what)


def once(doubt, book, number):
    """What comes of one more run of a runner.Doubt."""
    trial = Trial(book, number)
    if doubt.where == "host":
        runner.run_one_on_host(doubt.test, trial)
    else:
        kind = doubt.test.cpus, doubt.test.mem
        runner.run_batch((doubt.where, *kind, [doubt.test], doubt.test.name.replace("/", ".")), trial)
    return trial.outcome


def look(book, end=None, times=TIMES):
    """Run what failed again, one after another; END: when the run must be over."""
    doubts = [doubt for doubt in book.doubts if not is_grave(doubt.reports)]
    if len(doubts) > MOST:
        print(f"{len(doubts)} tests failed, which is no chance: none of them runs again", flush=True)
        return
    for at, doubt in enumerate(doubts):
        seconds = times * (doubt.seconds + durations.BOOT.get(doubt.where, 0))
        if end and time.time() + seconds > end:
            print(f"again {doubt.name}: no time left", flush=True)
            continue
        for number in range(times):
            outcome = once(doubt, book, at * times + number + 1)
            if outcome.failed or not outcome.passed:
                why = ", ".join(outcome.failed) or "nothing passed"
                print(f"again {doubt.name}: it failed alone, too: {why}", flush=True)
                break
        else:
            print(f"again {doubt.name}: passed {times} times", flush=True)
            book.absolve(doubt, outcome)

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""What failed in a run of everything runs again, alone: it counts as passed, and is named, if it passes each time."""
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

TESTING = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTING), str(TESTING / "lib")]
import again                 # noqa: E402
import collect               # noqa: E402
import kit                   # noqa: E402
import runner                # noqa: E402
from kit import claim, main  # noqa: E402

GOOD = "echo 'ok 1 - one'; echo 'ok 2 - two'; echo 1..2"
BAD = "echo 'ok 1 - one'; echo 'not ok 2 - two'; echo 1..2"


def seen(fails, *args):
    """Last lines of a run over one test that fails the first FAILS times; how often it ran."""
    with tempfile.TemporaryDirectory() as tree:
        test = Path(tree, "room/tests/host/one.sh")
        test.parent.mkdir(parents=True)
        test.write_text("#!/bin/bash\n"
                        f"echo . >>{tree}/runs\n"
                        f"if [ $(wc -l <{tree}/runs) -le {fails} ]; then {BAD}; else {GOOD}; fi\n")
        test.chmod(0o755)
        done = subprocess.run([TESTING / "run", "--tree", tree, "--results", f"{tree}/results", *args],
                              capture_output=True, text=True, timeout=60, check=False)
        last = done.stdout.partition("all tests took")[2].splitlines()[1:]
        return done.returncode, last, len(Path(tree, "runs").read_text().splitlines())


@claim
def what_passes_alone_twice_is_counted_and_named():
    kit.equal("run", seen(1, "--again", "2"),
              (0, ["unsteady, failed once and passed alone:", "     host room/one: two", "2 passed, 0 failed"], 3))


@claim
def what_passes_alone_once_fails():
    kit.equal("run", seen(2, "--again", "2"), (1, ["what failed:", "     host room/one: two", "1 passed, 1 failed"], 2))


@claim
def nothing_of_a_part_of_the_tests_runs_again_unless_asked():
    kit.equal("run", seen(1), (1, ["what failed:", "     host room/one: two", "1 passed, 1 failed"], 1))


class Book:
    """Of runner.Book what a second look needs."""
    durations = boots = None

    def __init__(self, doubts, results):
        self.doubts, self.results, self.absolved = doubts, Path(results), []

    def absolve(self, doubt, outcome):
        self.absolved.append((doubt.name, len(outcome.passed)))


def doubt(name="room/one", where="stock", reports=()):
    test = collect.Test(name, "guest", Path("/nowhere"))
    return runner.Doubt(test, where, collect.Outcome(failed=["two"]), 1, list(reports))


def looked(doubts, outcome, end=None):
    """Who was absolved, when each guest brings OUTCOME; the guests that were started."""
    started = []

    def batch(what, trial, *_):
        started.append(what[0])
        trial.enter(what[3][0], what[0], outcome, 1, None)
    with tempfile.TemporaryDirectory() as results, mock.patch.object(runner, "run_batch", batch):
        book = Book(doubts, results)
        again.look(book, end)
    return book.absolved, started


@claim
def a_guest_s_test_runs_on_the_kernel_where_it_failed():
    kit.equal("looked", looked([doubt(where="debug")], collect.Outcome(passed=["one", "two"])),
              ([("debug room/one", 2)], ["debug", "debug"]))


@claim
def what_would_not_end_in_time_does_not_run_again():
    passes = collect.Outcome(passed=["one", "two"])
    kit.equal("one second", looked([doubt()], passes, time.time() + 1), ([], []))
    kit.equal("an hour", len(looked([doubt()], passes, time.time() + 3600)[1]), again.TIMES)


@claim
def a_test_that_is_skipped_alone_has_not_passed():
    kit.equal("absolved", looked([doubt()], collect.Outcome(skipped=["no such thing"]))[0], [])


@claim
def what_the_kernel_has_found_never_runs_again_but_standstill():
    passes = collect.Outcome(passed=["one", "two"])
    for line in ("BUG: KASAN: slab-use-after-free in hof_gate_put+0x1/0x2 [handoff]",
                 "WARNING: CPU: 0 PID: 1 at kmod/link.c:12 flt_link_put+0x1/0x2 [flotilla]",
                 "WARNING: possible circular locking dependency detected",
                 "kmemleak: unreferenced object 0xffff888007b1a400 (size 512):"):
        kit.equal(line, looked([doubt(reports=["[  1.0] " + line])], passes), ([], []))
        stalled = [doubt(reports=["[  1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "[  1.1] " + line])]
        kit.equal(line, looked(stalled, passes), ([], []))
    after = ("INFO: task rmmod:812 blocked for more than 120 seconds.",
             "Kernel panic - not syncing: Fatal exception in interrupt")
    for line in after:
        kit.equal(line, looked([doubt(reports=["[  1.0] " + line])], passes), ([], []))
        stalled = [doubt(reports=["[  1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!", "[  1.1] " + line])]
        kit.equal(line, looked(stalled, passes)[1], ["stock", "stock"])
    for line in ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
                 "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [swapper/0:0]"):
        kit.equal(line, looked([doubt(reports=["[  1.0] " + line])], passes)[1], ["stock", "stock"])


@claim
def many_that_fail_are_no_chance():
    many = [doubt(f"room/{i}") for i in range(again.MOST + 1)]
    kit.equal("looked", looked(many, collect.Outcome(passed=["one"])), ([], []))


main()

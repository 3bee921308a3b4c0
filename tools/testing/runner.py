# SPDX-License-Identifier: GPL-2.0
"""Runs tests on the host and in guests, and keeps the count."""
import dataclasses
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

import collect
import durations
import newest

sys.path.insert(0, str(collect.TOP / "tools/vm"))
import machine  # noqa: E402

MARK = "flotilla-test:"
BOOT_TIMEOUT = 120
# How much longer a test may take; for races the more often is looked, the slower it goes.
SLOW = {"stock": 1, "debug": 3, "kcsan": 6, "newest": 1}
# What guest-batch says of a test that it had to stop.
TIMEOUT = 124
# A guest that says nothing this long after a test's own time-out is dead.
GRACE = 60
LATE = "no time left in this run: `make test ALL=1` runs it"


@dataclasses.dataclass
class Doubt:
    """A test that failed, for a second look."""
    test: collect.Test
    where: str
    outcome: collect.Outcome
    seconds: float
    reports: list

    @property
    def name(self):
        return f"{self.where} {self.test.name}"


class Book:
    """Counts and prints outcomes; used by several threads."""

    def __init__(self, results):
        self.results = results
        self.durations = durations.Durations(machine.cache())
        self.lock = threading.Lock()
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        # What failed, for a second look (again.py), and what passed then.
        self.doubts, self.unsteady = [], []
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        # Written by tools/vm/guest, too, whoever calls it.
        self.boots = results / "boots-again"

    def log(self, test, where):
        """Where the output of a test goes."""
        return self.path(self.results, test, where)

    @staticmethod
    def path(results, test, where):
        path = results / where / (test.name.replace("/", ".") + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def enter(self, test, where, outcome, seconds, log, reports=()):
        """One test file has run; REPORTS are the kernel's lines about it."""
        with self.lock:
            if outcome.passed or outcome.failed or outcome.skipped == [LATE]:
                self.durations.enter(test, where, outcome.skipped == [LATE])
            self.passed += len(outcome.passed)
            self.failed += len(outcome.failed)
            self.failures += [f"{where} {test.name}: {reason}" for reason in outcome.failed]
            if outcome.failed:
                self.doubts.append(Doubt(test, where, outcome, seconds, reports))
            self.skipped += len(outcome.skipped)
            if outcome.passed and not outcome.failed:
                self.durations.record(test, where, seconds, len(outcome.passed) + len(outcome.skipped))
            word = "FAIL" if outcome.failed else "skip" if not outcome.passed else "ok"
            print(f"{word:4} {where:5} {test.name}: {len(outcome.passed)} passed, {seconds:.1f} s")
            for reason in outcome.skipped:
                print(f"     skipped: {reason}")
            if outcome.failed:
                lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
                about = collect.said_of(lines)
                for reason in outcome.failed:
                    print(f"     failed: {reason}")
                    print("".join(f"     | {line}\n" for line in about.get(reason, [])), end="")
                print("     its end:\n" + "".join(f"     | {line}\n" for line in lines[-15:]), end="")
                print("".join(f"     kernel: {line}\n" for line in reports[:60]), end="")
                print(f"     whole output: {log}")
            sys.stdout.flush()

    def fail(self, what):
        """Something that belongs to no test."""
        with self.lock:
            self.failed += 1
            self.failures.append(what.partition("\n")[0])
            print(f"FAIL {what}", flush=True)

    def booted_again(self, what):
        """A guest was gone before its first test, and another one is tried."""
        with self.lock, open(self.boots, "a", encoding="utf-8") as boots:
            boots.write(f"{what}\n")

    def absolve(self, doubt, outcome):
        """It failed, and passes alone: OUTCOME is what counts."""
        first = doubt.outcome
        gone = [f"{doubt.name}: {reason}" for reason in first.failed]
        self.failures = [failure for failure in self.failures if failure not in gone]
        self.unsteady += gone
        self.failed -= len(first.failed)
        self.passed += len(outcome.passed) - len(first.passed)
        self.skipped += len(outcome.skipped) - len(first.skipped)

    def good(self):
        return self.failed == 0

    def summary(self):
        """What a reader must know, the count last."""
        boots = self.boots.read_text(errors="replace").splitlines() if self.boots.exists() else []
        lines = []
        for head, about in ((f"boots tried again: {len(boots)}", boots),
                            ("unsteady, failed once and passed alone:", self.unsteady),
                            ("what failed:", self.failures)):
            lines += [head] + [f"     {what}" for what in about] if about else []
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return "\n".join(lines + [f"{self.passed} passed, {self.failed} failed{skipped}"])


def environment(book):
    """Host tests see the built programs and TAP-speaking cmocka; a guest that is booted again is written down."""
    env = dict(os.environ, FLT_TOP=str(collect.TOP), CMOCKA_MESSAGE_OUTPUT="TAP", FLOTILLA_BOOTS=str(book.boots))
    env["PATH"] = f"{collect.TOP}/build/bin:{env['PATH']}"
    # Runs that tests begin are judged by what they do, not by when.
    env.pop("FLOTILLA_END", None)
    return env


def run_on_host(tests, book, end=None):
    """Run tests here, one after another, until END, when nothing more is begun."""
    for test in sorted(tests, key=lambda t: ("host", t.name) not in book.durations.owed):
        if end and time.time() + book.durations.of(test, "host") > end:
            book.enter(test, "host", collect.Outcome(skipped=[LATE]), 0, book.results)
        else:
            run_one_on_host(test, book)


def run_one_on_host(test, book):
    """Run a test here, in a session of its own that is ended with it."""
    log = book.log(test, "host")
    started = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen([test.command], cwd=collect.TOP, env=environment(book), stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(test.timeout)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    text = log.read_text(errors="replace")
    outcome = collect.read_tap(text, status, test.plain)
    if status is None:
        outcome.failed.append(f"no end after {test.timeout} s")
    book.enter(test, "host", outcome, time.monotonic() - started, log)


def batches(tests, kernels, book, everything=False, held=False, part=None):
    """Tests that can share a guest, longest first; what is held, or long and not of this slice, is only named.

    What the runs before had no time for comes first, and what runs by slices after all else, in guests of its own.
    """
    found = []
    for kernel in kernels:
        groups = {}
        turns = part.pick(tests, kernel, book.durations) if part else {}
        parts = part.parts(tests, kernel, book.durations) if part else {}
        for test in tests:
            if test.place != "guest" or not test.runs_on(kernel):
                continue
            why = test.skipped_on(kernel, everything, held)
            if kernel == "newest" and not held:
                why = why or newest.read()[1].get(test.name)
            owed = book.durations.owed.get((kernel, test.name))
            if why and part and test.is_long_on(kernel) and not why.startswith("held"):
                if owed is not None:
                    test, why = dataclasses.replace(test, by_turns=True, slice=owed), None
                elif test.can_be_cut and not book.durations.share(test, *parts[test.name]):
                    why = f"none of its claims is in slice {part}"
                elif test.can_be_cut:
                    test, why = dataclasses.replace(test, by_turns=True, slice=parts[test.name]), None
                elif turns[test.name] == part.number:
                    test, why = dataclasses.replace(test, by_turns=True), None
                else:
                    why += f", and slice {turns[test.name]}/{part.count}"
            if why:
                book.enter(test, kernel, collect.Outcome(skipped=[why]), 0, book.results)
            else:
                groups.setdefault((test.cpus, test.mem, test.by_turns, owed is None), []).append(test)
        for (cpus, mem, by_turns, new), group in groups.items():
            for i, pile in enumerate(durations.guests(group, kernel, book.durations), 1):
                seconds = sum(book.durations.of(t, kernel) for t in pile) + durations.BOOT[kernel]
                name = f"guest-{cpus}{mem}-{'turns-' if by_turns else ''}{'' if new else 'owed-'}{i}"
                found.append((by_turns, new, -seconds, name, (kernel, cpus, mem, pile, name)))
    return [batch for *_, batch in sorted(found, key=lambda f: f[:4])]


def run_batch(batch, book, until=None, end=None):
    """Run tests in one guest; after a death, the rest in the next.

    UNTIL: when to begin nothing more of a slice; END: when to begin nothing more at all.
    """
    kernel, cpus, mem, left, name = batch
    last = min((t for t in (until if left[0].by_turns else None, end) if t), default=None)
    number = 0
    barren = 0
    while left:
        if last and time.time() + durations.BOOT[kernel] > last:
            for test in left:
                book.enter(test, kernel, collect.Outcome(skipped=[LATE]), 0, book.results)
            return
        number += 1
        guest = Guest(kernel, cpus, mem, left, book, f"{name}.{number}", last)
        before = len(left)
        left = guest.run()
        barren = barren + 1 if len(left) == before else 0
        if barren == 1:
            book.booted_again(f"{kernel} {name}.{number}: gone before its first test")
        if barren == 2:
            for test in left:
                outcome = collect.Outcome(failed=["the guest does not boot"])
                book.enter(test, kernel, outcome, 0, guest.share / "guest.log")
            return


class Guest:
    """One boot and the tests it got through. tools/testing/guest-batch is its other half."""

    def __init__(self, kernel, cpus, mem, tests, book, name, last=None):
        self.kernel = kernel
        self.tests = tests
        self.book = book
        self.share = book.results / kernel / name
        self.share.mkdir(parents=True)
        self.console = self.share / "console.log"
        self.share.joinpath("list").write_text("".join(
            f"{t.name}\t{t.timeout * SLOW[kernel]}\t{t.command}\t"
            f"{'%d/%d' % t.slice if t.slice else '-'}\t"
            f"{int(last - book.durations.of(t, kernel)) if last else '-'}\n" for t in tests))
        command = [collect.TOP / "tools/vm/guest", "--kernel", kernel, "--cpus", str(cpus),
                   "--results", self.share, "--log", self.console, "--allow-reports", "--name", f"test-{kernel}"]
        command += ["--mem", mem] if mem else []
        self.process = subprocess.Popen(command + ["--", str(collect.TOP / "tools/testing/guest-batch")],
                                        stdout=subprocess.PIPE, stderr=open(self.share / "guest.log", "wb"),
                                        stdin=subprocess.DEVNULL, text=True, errors="replace",
                                        env=dict(os.environ, FLOTILLA_BOOTS=str(book.boots)))
        self.silent = False
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(None)

    def run(self):
        """Follow the guest; returns the tests it did not get to."""
        waiting = list(self.tests)
        finished = []
        running = None
        done = False
        limit = BOOT_TIMEOUT * SLOW[self.kernel]
        began = time.monotonic()
        while True:
            try:
                words = self.lines.get(timeout=limit)
            except queue.Empty:
                self.silent = True
                self.process.send_signal(signal.SIGUSR1)
                break
            if words is None:
                break
            if words[:1] == ["@begin"]:
                running = waiting.pop(0)
                began = time.monotonic()
                limit = int(words[2]) + GRACE
            elif words[:1] == ["@end"]:
                finished.append((running, int(words[2]), float(words[3])))
                running = None
                limit = GRACE * 3
            elif words[:1] == ["@late"]:
                self.book.enter(waiting.pop(0), self.kernel, collect.Outcome(skipped=[LATE]), 0, self.share)
            elif words[:1] == ["@done"]:
                done = True
                limit = GRACE * 3
        ended = self.process.wait()
        reports = self.reports(running)
        if finished and not running and (self.silent or not reports and (not done or ended)):
            # What it would have found then, leaks among it, nobody knows. What its kernel said to our NMI is no
            # test's fault.
            last = finished[-1][0]
            self.book.fail(self.no_end(last, waiting, ended) + "".join(
                f"\n     kernel: {line}" for line in reports.pop(last.name, [])[:60]))
        if running and running.name not in reports and any(t.name in reports for t, _, _ in finished):
            # A report ends a debug guest, here that of a test before this one: it runs again.
            waiting.insert(0, running)
            running = None
        for test, status, seconds in finished:
            self.enter(test, status, seconds, reports.pop(test.name, []))
        if running:
            self.enter(running, None, time.monotonic() - began, reports.pop(running.name, []))
        for name, lines in reports.items():
            self.book.fail(f"{self.kernel} kernel report {name}:\n" + "\n".join(lines[:60]))
        return waiting

    def no_end(self, last, waiting, ended):
        """Says of a guest that got through a test, and then not to its own end, what is known."""
        how = "fell silent" if self.silent else f"ended with status {ended}"
        where = "before the next test" if waiting else "where it looks for leaks"
        words = (self.share / "guest.log").read_text(errors="replace").splitlines()[-15:]
        return (f"{self.kernel} {self.share.name}: the guest {how} after {last.name}, {where}\n"
                + "".join(f"     | {line}\n" for line in words) + f"     its kernel's log: {self.console}")

    def enter(self, test, status, seconds, reports):
        log = self.share / (test.name.replace("/", ".") + ".log")
        text = log.read_text(errors="replace") if log.exists() else ""
        outcome = collect.read_tap(text, None if status == TIMEOUT else status, test.plain)
        if not log.exists() and status is not None:
            outcome.passed.clear()
            outcome.failed.append("what it said is lost")
        if status == TIMEOUT:
            outcome.failed.append("no end in its time")
        if status is None:
            outcome.failed.append("the guest died or hung during it")
        if reports:
            if outcome.passed == ["exit status 0"]:
                outcome.passed.clear()
            outcome.failed.append("the kernel reported a problem")
        self.book.enter(test, self.kernel, outcome, seconds, log, reports)

    def reports(self, running):
        """Kernel reports of this boot by the test that was running."""
        found = {}
        name, part = "before any test", []
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        for line in text.splitlines() + [f"{MARK} end"]:
            if MARK in line:
                lines = machine.reports("\n".join(part))
                if lines:
                    found.setdefault(name, []).extend(lines)
                part = []
                name = line.split(MARK, 1)[1].strip()
            else:
                part.append(line)
        if self.silent and running:
            found[running.name] = (["the guest fell silent; what waits in it:"] + machine.waiting(text)
                                   + found.get(running.name, []))
        return found

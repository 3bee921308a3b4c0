# SPDX-License-Identifier: GPL-2.0
"""Which tests there are, and what their output says."""
import fnmatch
import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
SCRIPTS = (".sh", ".py")
# Exit status that guest-batch gives to a test that passed but did not clean up.
LEFT_BEHIND = 99
DIRECTIVE = re.compile(r"^\W*(timeout|cpus|kernel|mem|cut):\s*(\S+)\s*(?:\*/)?$")
# Not run on that kernel (or on `both`) until what the reason says is settled; shown as skipped.
HELD = re.compile(r"^\W*held: (stock|debug|both) (.+)$")
# Passes on that kernel, but takes too long there for every run; shown as skipped unless all are asked for.
LONG = re.compile(r"^\W*long: (stock|debug|both) (.+?)\s*(?:\*/)?$")
POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?([^#]*)(?:#\s*(\w+)\s*(.*))?$")
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*skip\w*\s*(.*))?\s*$", re.IGNORECASE)
BAIL = re.compile(r"^Bail out!\s*(.*)$", re.IGNORECASE)


def of_kind(kernel):
    """Kernels that check themselves are alike; the others are the stock one."""
    return "stock" if kernel in ("stock", "newest") else "debug"


@dataclass
class Test:
    """One test file; `command` is what runs it."""
    name: str
    place: str
    command: Path
    timeout: int = 60
    cpus: int = 2
    mem: str = ""
    kernel: str = ""
    cut: str = ""
    held: tuple = ()
    long: tuple = ()
    # (number, count) when only some of its claims run.
    slice: tuple = ()
    # It runs because this slice has its turn.
    by_turns: bool = False

    @property
    def plain(self):
        """Whether its exit status may be the verdict: only of a shell script that prints no TAP at all.

        A program that lost its main() ends well, too.
        """
        return self.command.suffix == ".sh"

    @property
    def can_be_cut(self):
        """Whether its claims can be chosen: by tools/testing/lib/kit.py, or by `turn` of lib.sh."""
        return self.command.suffix == ".py" or self.cut == "yes"

    def is_long_on(self, kernel):
        return bool(self.long) and self.long[0] in (of_kind(kernel), "both")

    def runs_on(self, kernel):
        return self.kernel in ("", of_kind(kernel))

    def skipped_on(self, kernel, everything, held=False):
        """Why it is not run there, or None."""
        if self.held and self.held[0] in (of_kind(kernel), "both") and not held:
            return f"held: {self.held[1]}"
        if self.is_long_on(kernel) and not everything:
            return f"long: {self.long[1]}; `make test ALL=1` runs it"
        return None


@dataclass
class Outcome:
    """What one run of one test file came to."""
    passed: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)


def directives(path):
    """The `timeout:`, `cpus:`, `kernel:`, `mem:` and `cut:` lines among the first twenty."""
    found = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for _, line in zip(range(20), lines):
            for key, pattern in (("held", HELD), ("long", LONG)):
                why = pattern.match(line.strip())
                if why:
                    found[key] = why.groups()
            match = DIRECTIVE.match(line.strip())
            if match:
                found[match[1]] = match[2] if match[1] in ("kernel", "mem", "cut") else int(match[2])
    return found


def matches(patterns, name):
    """Whether one of the comma-separated PATTERNS is for NAME; no patterns are for all."""
    return not patterns or any(fnmatch.fnmatch(name, one) for one in patterns.split(","))


def collect(tree, room=None, only=None):
    """All tests below TREE, ordered by name."""
    tests = []
    for pattern in ("*/tests", "kmod/*/tests", "tools/*/tests"):
        for directory in tree.glob(pattern):
            where = directory.parent.relative_to(tree).as_posix()
            if room and where != room and not where.startswith(room + "/"):
                continue
            for place in ("host", "guest"):
                for path in (directory / place).glob("*"):
                    if path.suffix == ".c":
                        command = TOP / "build/tests" / path.stem
                    elif path.suffix in SCRIPTS:
                        command = path
                        if not os.access(path, os.X_OK):
                            raise SystemExit(f"run: {path} is among the tests and may not be run (chmod +x)")
                    else:
                        continue
                    name = f"{where}/{path.stem}"
                    if matches(only, path.stem) or matches(only, name):
                        tests.append(Test(name, place, command, **directives(path)))
    return sorted(tests, key=lambda t: t.name)


def said_of(lines, most=40):
    """What was said around each point that failed: it tells why, where the end of the output need not."""
    points = [at for at, line in enumerate(lines) if POINT.match(line)]
    found = {}
    for before, at, after in zip([-1] + points, points, points[1:] + [len(lines)]):
        point = POINT.match(lines[at])
        if not point[1]:
            continue
        said = lines[before + 1:at]
        # Some say it before the point, some after it.
        said += itertools.takewhile(lambda line: line.startswith("#"), lines[at + 1:after])
        if len(said) > most:
            said = said[:most // 2] + ["..."] + said[-most // 2:]
        found[(point[3] or "").strip() or f"point {point[2]}"] = said
    return found


def read_tap(text, status, plain=False):
    """Outcome of a test from its TAP lines and exit status; either may say that it failed.

    STATUS is None when the test did not come to its end; the caller says why. PLAIN: a test that
    prints no TAP at all may be judged by its exit status alone.
    """
    out = Outcome()
    plans, seen = [], 0
    lines = text.splitlines()
    for line in lines:
        plan = PLAN.match(line)
        if plan:
            plans.append(int(plan[1]))
            if plan[2] is not None and plans[-1] == 0:
                out.skipped.append(plan[2] or "no reason given")
            continue
        bail = BAIL.match(line)
        if bail:
            out.failed.append(f"bailed out: {bail[1] or 'no reason given'}")
            continue
        point = POINT.match(line)
        if not point:
            continue
        what = (point[3] or "").strip() or f"point {point[2]}"
        word = (point[4] or "").upper()
        if word in ("TODO", "XFAIL"):
            # A known failure is one all the same; what may fail is not claimed.
            out.failed.append(f"{what} (known: {point[5] or 'no reason given'})")
        elif point[1]:
            out.failed.append(what)
        elif word == "SKIP":
            out.skipped.append(f"{what}: {point[5] or 'no reason given'}")
        else:
            out.passed.append(what)
        seen += 1
        if point[2] and int(point[2]) != seen:
            out.failed.append(f"point {point[2]} came as number {seen}")
    if status is not None and not any(f.startswith("bailed out") for f in out.failed):
        out.failed += plan_failures(plans, seen, status, plain and not lines_of_tap(lines))
    if plans == [0] and not out.skipped:
        out.failed.append("planned nothing, without a reason")
    if status == 4 and not out.failed and not out.passed:
        if not out.skipped:
            out.skipped.append(lines[-1].lstrip("# ") if lines else "no reason given")
    elif status == LEFT_BEHIND and not out.failed:
        out.failed.append("left something behind")
    elif status not in (0, None) and not out.failed:
        out.failed.append(f"exit status {status}")
    elif status == 0 and not plans and not seen and not out.failed:
        out.passed.append("exit status 0")
    return out


def lines_of_tap(lines):
    """Whether any of them is TAP's."""
    return any(line.startswith("TAP version") or PLAN.match(line) or POINT.match(line) for line in lines)


def plan_failures(plans, seen, status, plain):
    """What is wrong with the plan of a test that came to its end: without one nobody knows what is missing."""
    if not plans:
        # Without a word, 4 is a skip and other than 0 a failure of its own.
        return [] if plain or (not seen and status != 0) else ["no plan: nobody knows what is missing"]
    if len(plans) > 1:
        return [f"{len(plans)} plans"]
    if plans[0] != seen:
        return [f"planned {plans[0]} points, saw {seen}"]
    return []

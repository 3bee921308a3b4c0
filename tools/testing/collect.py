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
DIRECTIVE = re.compile(r"^\W*(timeout|cpus|kernel|mem):\s*(\S+)\s*(?:\*/)?$")
# Not run on that kernel (or on `both`) until what the reason says is settled; shown as skipped.
HELD = re.compile(r"^\W*held: (stock|debug|both) (.+)$")
# Passes on that kernel, but takes too long there for every run; shown as skipped unless all are asked for.
LONG = re.compile(r"^\W*long: (stock|debug|both) (.+?)\s*(?:\*/)?$")
POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?([^#]*)(?:#\s*(\w+)\s*(.*))?$")
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*skip\w*\s*(.*))?$", re.IGNORECASE)


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
    held: tuple = ()
    long: tuple = ()

    def skipped_on(self, kernel, everything, held=False):
        """Why it is not run there, or None."""
        if self.held and self.held[0] in (kernel, "both") and not held:
            return f"held: {self.held[1]}"
        if self.long and self.long[0] in (kernel, "both") and not everything:
            return f"long: {self.long[1]}; `make test ALL=1` runs it"
        return None


@dataclass
class Outcome:
    """What one run of one test file came to."""
    passed: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)


def directives(path):
    """The `timeout:`, `cpus:`, `kernel:` and `mem:` lines among the first twenty."""
    found = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for _, line in zip(range(20), lines):
            for key, pattern in (("held", HELD), ("long", LONG)):
                why = pattern.match(line.strip())
                if why:
                    found[key] = why.groups()
            match = DIRECTIVE.match(line.strip())
            if match:
                found[match[1]] = match[2] if match[1] in ("kernel", "mem") else int(match[2])
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
                    elif path.suffix in SCRIPTS and os.access(path, os.X_OK):
                        command = path
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


def read_tap(text, status):
    """Outcome of a test from its TAP lines and exit status; either may say that it failed.

    STATUS is None when the test did not come to its end; the caller says why.
    """
    out = Outcome()
    planned = None
    lines = text.splitlines()
    for line in lines:
        plan = PLAN.match(line)
        if plan:
            planned = int(plan[1])
            if planned == 0:
                out.skipped.append(plan[2] or "no reason given")
            continue
        point = POINT.match(line)
        if not point:
            continue
        what = (point[3] or "").strip() or f"point {point[2]}"
        if (point[4] or "").upper() == "SKIP":
            out.skipped.append(f"{what}: {point[5] or 'no reason given'}")
        elif point[1] and (point[4] or "").upper() not in ("TODO", "XFAIL"):
            out.failed.append(what)
        else:
            out.passed.append(what)
    seen = len(out.passed) + len(out.failed) + len(out.skipped)
    if status is not None and planned and seen != planned:
        out.failed.append(f"planned {planned} points, saw {seen}")
    if status == 4 and not out.failed and not out.passed:
        if not out.skipped:
            out.skipped.append(lines[-1].lstrip("# ") if lines else "no reason given")
    elif status == LEFT_BEHIND and not out.failed:
        out.failed.append("left something behind")
    elif status not in (0, None) and not out.failed:
        out.failed.append(f"exit status {status}")
    elif status == 0 and planned is None and seen == 0:
        out.passed.append("exit status 0")
    return out

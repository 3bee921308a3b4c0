#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The tests and claims that documents name are there: those of each finding, and those of each promise."""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(TOP / "tools/testing/lib"))
from kit import claim, equal, main      # noqa: E402

ROOMS = [path.parent for kind in ("guest", "host") for path in TOP.glob("**/tests/" + kind)
         if path.relative_to(TOP).parts[0] != "build" and "lib" not in path.relative_to(TOP).parts]
TESTS = {path.stem: path for room in ROOMS for kind in ("guest", "host") for path in (room / kind).glob("*.*")}


def rows(document, begin):
    """Cells of the table whose head begins so."""
    lines = iter((TOP / document).read_text("utf-8").splitlines())
    for line in lines:
        if line.startswith(begin):
            break
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def missing(text):
    """Of `test`: `claim`, `claim`; `test`, ... what is not there."""
    for part in text.split(";"):
        names, _, claims = part.partition(":")
        tests = re.findall(r"`(\w+)`", names)
        yield from (name for name in tests if name not in TESTS)
        for name in re.findall(r"`(\w+)`", claims):
            if not any(re.search(r"\b%s\b" % name, TESTS[test].read_text("utf-8")) for test in tests if test in TESTS):
                yield "%s: %s" % (", ".join(tests), name)


@claim
def tests_of_each_finding_are_there():
    found = list(rows("tools/testing/FINDINGS.md", "| # |"))
    equal("findings", sorted({int(re.match(r"\d+", cells[0])[0]) for cells in found}), list(range(1, 27)))
    for number, _, tests, seen in found:
        assert "`" in tests, "%s names no test" % number
        equal(number, list(missing(tests)), [])
        assert seen.startswith(("yes", "not yet")), "%s: nobody says whether it was seen to fail" % number


@claim
def tests_of_each_sibling_are_there():
    found = list(rows("tools/testing/FINDINGS.md", "| sibling of |"))
    assert len(found) > 20, len(found)
    for number, what, tests in found:
        assert "`" in tests, "%s names no test" % what
        equal(what, list(missing(tests)), [])


@claim
def tests_that_security_names_are_there():
    found = list(rows("SECURITY.md", "| promise |"))
    assert len(found) > 30, len(found)
    for cells in found:
        assert "`" in cells[-1], "%s names no test" % cells[0]
        equal(cells[0], list(missing(cells[-1])), [])


@claim
def a_name_of_nothing_is_missed():
    equal("a test", list(missing("`testing_findings`, `no_such_test`")), ["no_such_test"])
    nothing = "no_such_" + "claim"
    equal("a claim", list(missing("`testing_findings`: `%s`; `testing_deal`" % nothing)),
          ["testing_findings: " + nothing])
    equal("none", list(missing("`testing_findings`: `a_name_of_nothing_is_missed`")), [])


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the nightly comparison of suites says: how it reads a suite's output, and what it lets pass."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(TOP, "tools/testing/lib"), os.path.join(TOP, "card/tests/nightly")]
from kit import claim, equal, main                      # noqa: E402
import suites                                           # noqa: E402
from suites import SUITES, Blktests, Xfstests, below, lines, of_range, of_slice      # noqa: E402
import verdicts                                         # noqa: E402

BLKTESTS = """block/003 => card0 (run various discard sizes)
block/003 => card0 (run various discard sizes)               [not run]
    runtime    ...  0.436s
    /dev/card0 does not support discard
"""
WORSE = """block/020 (one hardware tag)                               [passed]
    runtime    ...  1.0s
block/020 (one hardware tag) (again)                       [failed]
    runtime    ...  1.0s
"""
XFSTESTS = (
    ("passed", "generic/001         126s\n"),
    ("passed", "generic/001 10s ...  126s\n"),
    ("not run: DISK and /dev/card1x?", "generic/260 [not run] /dev/card0 and /dev/card1x?\n"),
    ("failed", "generic/003 [failed, exit status 1]- output mismatch (see /tmp/out.bad)\n    --- tests/a\n"),
    ("failed", "generic/003 4s\n_check_generic_filesystem: filesystem on /dev/card0 is inconsistent\n"),
    ("failed", "generic/003 _check_dmesg: something found in dmesg (see /tmp/x)\n"),
    ("failed", "generic/003        "),
)


@claim
def blktests_is_read():
    equal("verdict", Blktests.verdict("block/003", BLKTESTS, ["/dev/card0"]), "not run: DISK does not support discard")
    equal("the worst of two runs", Blktests.verdict("block/020", WORSE, []), "failed")
    equal("silence", Blktests.verdict("block/020", "", []), "no verdict")


@claim
def xfstests_is_read():
    for verdict, said in XFSTESTS:
        equal(said, Xfstests.verdict(said, ["/dev/card0"]), verdict)


@claim
def a_test_is_known_when_it_begins():
    """`check` prints the name and goes on in the same line when the test is over."""
    got = list(lines(io.StringIO("generic/001 \t 5s\nRan: generic/001\n")))
    equal("first", got[0], ("generic/001 ", False))
    assert ("generic/001 \t 5s", True) in got, got


@claim
def slices_are_the_whole():
    names = ["generic/%03d" % n for n in range(1, 100)]
    parts = [of_slice(names, part, 7) for part in range(7)]
    equal("together", sorted(sum(parts, [])), names)
    equal("a range", of_range(names, "generic/007", "generic/009"), ["generic/007", "generic/008", "generic/009"])


# What a suite's `check` does, as far as the runner sees it, with a first test that never ends.
CHECKS = {
    "xfs": """for t; do
    printf '%s        ' "$t"
    if [ "$t" = generic/260 ]; then echo "[not run] not on $SCRATCH_DEV"; continue; fi
    bash -c "exec ./tests/$t" && echo ' 1s' || echo "[failed, exit status 1]"
done
echo "Ran: $*"
""",
    "blk": """[ "$4" = block/001 ] && { sleep 1000; exit; }
echo "$4 (x) [passed]"
""",
}


class Heard:
    """In the place of guest.py's Report."""

    def __init__(self):
        self.begun, self.ended = [], []

    def begin(self, name):
        self.begun.append(name)

    def end(self, name, verdict):
        self.ended.append((name, verdict))


def fake(where, kind):
    for name, text in (("check", CHECKS[kind]), ("tests/generic/001", "sleep 1000"), ("tests/generic/002", "exit 0")):
        path = os.path.join(where, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/bash\n" + text + "\n")
        os.chmod(path, 0o755)
    return where


def run_fake(suite, kind, names):
    heard = Heard()
    with tempfile.TemporaryDirectory() as where, contextlib.redirect_stdout(io.StringIO()):
        suite.run(fake(where, kind), ["/dev/card0", "/dev/card1"], names, 2, heard)
    equal("begun", heard.begun, names)
    return heard.ended


@claim
def a_test_that_does_not_end_is_ended_and_the_next_one_runs():
    suites.MERCY = .2
    equal("xfstests", run_fake(Xfstests("ext4"), "xfs", ["generic/001", "generic/002", "generic/260"]),
          [("generic/001", "over time"), ("generic/002", "passed"), ("generic/260", "not run: not on DISK")])
    equal("what it ran", below("generic/001"), [])
    equal("blktests", run_fake(Blktests(), "blk", ["block/001", "block/002"]),
          [("block/001", "over time"), ("block/002", "passed")])


LIST = verdicts.parse("a/001\tpassed\n"
                      "a/002\tpassed\tcard=not run: DISK cannot\t# it is like that\n"
                      "a/003\tpassed\tcard=failed\t# \n"
                      "a/004\tpassed|over time\n")


def judged(name, plain, card):
    """Whether these two verdicts are accepted."""
    seen = {"plain": {"b/001": "passed"}, "card": {}}
    for kind, verdict in (("plain", plain), ("card", card)):
        if verdict:
            seen[kind][name] = verdict
    return not verdicts.judge(LIST, seen, [name])


@claim
def what_differs_and_is_not_in_the_list_fails():
    for plain, card, accepted in (("passed", "passed", True), ("passed", "failed", False), ("failed", "failed", False),
                                  ("passed", None, False), ("passed", "not run: DISK cannot", False)):
        equal((plain, card), judged("a/001", plain, card), accepted)


@claim
def what_is_in_the_list_is_expected_and_nothing_else():
    equal("as listed", judged("a/002", "passed", "not run: DISK cannot"), True)
    equal("another reason", judged("a/002", "passed", "not run: no such program"), False)
    equal("it passes now", judged("a/002", "passed", "passed"), False)
    equal("no reason is given", judged("a/003", "passed", "failed"), False)
    equal("an alternative", judged("a/004", "passed", "over time"), True)


@claim
def a_test_that_is_not_in_the_list_must_not_differ():
    equal("the same", judged("a/009", "failed", "failed"), True)
    equal("another", judged("a/009", "passed", "failed"), False)
    equal("not reached on either", judged("a/009", None, None), False)
    equal("both guests died", judged("a/009", "the guest died", "the guest died"), False)
    assert verdicts.judge({}, {"plain": {"a/1": "failed"}, "card": {"a/1": "failed"}}, ["a/1"]), "nothing passed at all"


@claim
def a_record_keeps_reasons_and_what_was_not_seen():
    seen = {"plain": {"a/001": "passed", "a/002": "passed", "a/008": "passed", "a/009": "over time"},
            "card": {"a/001": "failed", "a/002": "not run: DISK cannot", "a/008": "over time"}}
    new = verdicts.record(LIST, seen, ["a/001", "a/002", "a/003", "a/008", "a/009"])
    equal("kept", new["a/002"].why, "it is like that")
    equal("new", (new["a/001"].others, new["a/001"].why), ({"card": "failed"}, ""))
    changed = verdicts.record(LIST, {"plain": {"a/002": "passed"}, "card": {"a/002": "failed"}}, ["a/002"])
    equal("for another difference", (changed["a/002"].others, changed["a/002"].why), ({"card": "failed"}, ""))
    equal("not seen", new["a/003"].others, {"card": "failed"})
    equal("never seen to end", "a/009" in new, False)
    equal("not seen to end on each", "a/008" in new, False)
    again = verdicts.parse("".join(line.text(name) + "\n" for name, line in new.items()))
    equal("read back", {name: line.text(name) for name, line in again.items()},
          {name: line.text(name) for name, line in new.items()})


@claim
def each_list_has_a_reason_for_each_difference():
    where = os.path.join(TOP, "card/tests/nightly/expected")
    for name in os.listdir(where):
        equal("a suite's", name in SUITES, True)
        with open(os.path.join(where, name), encoding="utf-8") as f:
            for test, line in verdicts.parse(f.read()).items():
                assert line.why or not line.others, (name, test)


# In the place of tools/vm/guest: runs two tests, and then its time is over as $WORKDIR/ends says.
GUEST = """#!/bin/bash
while [ "$1" != -- ]; do [ "$1" != --results ] || results=$2; shift; done
shift
cd "$results/../../../.."
while read -r name || [ "$name" ]; do
    [ $((ran += 1)) -le 2 ] || { printf %s "$name" >"$results/running"; exit "$(cat ends)"; }
    echo "$4 $name" >>ran
    printf '%s\\tpassed\\t1\\n' "$name" >>"$results/seen"
done <"$results/todo"
"""


def nightly(where, *words, ends=1):
    """Its verdict, what it said, and what guests ran since the last time."""
    loader = importlib.machinery.SourceFileLoader("nightly_run", os.path.join(TOP, "card/tests/nightly/run"))
    run = importlib.util.module_from_spec(importlib.util.spec_from_loader("nightly_run", loader))
    loader.exec_module(run)
    run.TOP = run.HERE = Path(where)
    for name, text in (("tools/vm/guest", GUEST), ("check", ""), ("ends", str(ends)), ("ran", ""),
                       ("tests/generic/group.list", "".join("%03d quick\n" % n for n in range(1, 7)))):
        path = Path(where, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
        path.chmod(0o755)
    said = io.StringIO()
    with mock.patch.dict(os.environ, XFSTESTS=where), contextlib.redirect_stdout(said), \
            mock.patch.object(sys, "argv", ["run", *words, "xfstests-ext4"]):
        status = run.main()
    return status, said.getvalue(), [line[-3:] for line in Path(where, "ran").read_text("ascii").splitlines()]


@claim
def pieces_are_run_on_each_disk_and_recorded_before_the_next_begins():
    with tempfile.TemporaryDirectory() as where:
        status, said, ran = nightly(where, "--range", "generic/001..generic/004", "--piece", "2", "--record")
        equal("as expected", (status, said.count("as expected")), (0, 2))
        equal("order", ran, ["001", "002"] * 2 + ["003", "004"] * 2)
        listed = Path(where, "expected/xfstests-ext4").read_text("ascii")
        equal("recorded", listed, "".join("generic/%03d\tpassed\n" % n for n in range(1, 5)))
        ran = nightly(where, "--range", "generic/001..generic/005", "--new", "--record")[2]
        equal("what the list has not", ran, ["005"] * 2)
        equal("no time for more", nightly(where, "--range", "generic/001..generic/004", "--time", "1")[0], 1)
        equal("nothing to run is no success", nightly(where, "--range", "generic/001..generic/005", "--new")[0], 1)


@claim
def a_run_that_was_cut_short_goes_on_where_it_was():
    with tempfile.TemporaryDirectory() as where:
        first = nightly(where, "--range", "generic/001..generic/003", "--kinds", "plain", ends=124)
        equal("the third had no time at first", first[2], ["001", "002", "003"])
        seen = Path(where, "build/nightly/xfstests-ext4/plain/seen")
        seen.write_text("generic/001\tpassed\t1\ngeneric/002\tthe time was over\t0\n", "ascii")
        words = ("--range", "generic/001..generic/003", "--kinds", "plain")
        equal("goes on", nightly(where, *words, "--resume")[::2], (0, ["002", "003"]))
        # A guest that died is that test's verdict, and no success.
        equal("begins anew", nightly(where, *words)[::2], (1, ["001", "002"]))
        equal("it has died", nightly(where, *words, "--resume")[::2], (1, []))


main()

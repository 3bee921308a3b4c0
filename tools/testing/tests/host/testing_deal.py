#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""Tests are dealt to guests by how long they take; what takes long is seen whole by a known number of runs."""
import dataclasses
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

TESTING = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTING), str(TESTING / "lib")]
import collect              # noqa: E402
import durations            # noqa: E402
import kit                  # noqa: E402
import newest               # noqa: E402
import runner               # noqa: E402
from kit import claim, main  # noqa: E402

TESTS = collect.collect(collect.TOP)
RUN = importlib.machinery.SourceFileLoader("flt_run", str(TESTING / "run")).load_module()


class Book:
    """Of runner.Book what dealing needs; `skipped` is what was not dealt."""

    def __init__(self, known=None):
        with tempfile.TemporaryDirectory() as empty:
            self.durations = durations.Durations(Path(empty))
        self.durations.known.update(known or {})
        self.results, self.skipped = None, []

    def enter(self, test, kernel, *_):
        self.skipped.append((kernel, test.name))


def dealt(book, everything=False, part=None):
    """[(kernel, test)] of all guests."""
    return [(batch[0], test) for batch in runner.batches(TESTS, ["stock", "debug"], book, everything, False, part)
            for test in batch[3]]


@claim
def each_test_is_dealt_once():
    book = Book()
    found = [(kernel, test.name) for kernel, test in dealt(book, everything=True)]
    wanted = [(kernel, t.name) for kernel in ("stock", "debug") for t in TESTS
              if t.place == "guest" and t.kernel in ("", kernel)]
    kit.equal("tests", sorted(found + book.skipped), sorted(wanted))


@claim
def two_jobs_end_at_about_the_same_time():
    book = Book()
    jobs = [0, 0]
    for kernel, _, _, pile, _ in runner.batches(TESTS, ["stock", "debug"], book, True):
        jobs[jobs.index(min(jobs))] += sum(book.durations.of(t, kernel) for t in pile) + durations.BOOT[kernel]
    longest = max(book.durations.of(t, k) for k, t in dealt(book, everything=True))
    assert max(jobs) - min(jobs) <= max(longest, durations.GUEST) / 2, jobs


@claim
def what_was_measured_is_used_and_kept():
    test = next(t for t in TESTS if t.place == "guest")
    with tempfile.TemporaryDirectory() as cache:
        one = durations.Durations(Path(cache))
        one.record(test, "stock", 12345, 678)
        one.record(dataclasses.replace(test, slice=(1, 8)), "debug", 777, 1)
        one.save()
        two = durations.Durations(Path(cache))
        kit.equal("seconds", two.of(test, "stock"), 12345)
        kit.equal("points", two.points[test.name], 678)
        assert two.of(test, "debug") != 777, "a slice of a test is not the test"
        assert two.steady(test, "stock") != 12345, "slices must not move with what a machine measures"


def claims(points, part):
    """Numbers of the claims that kit.py itself picks."""
    with mock.patch.dict(os.environ, FLOTILLA_CLAIMS="%d/%d" % part):
        return [i for i in range(points) if kit.in_slice(i)]


@claim
def the_slices_see_all_and_nothing_whole_twice():
    book = Book()
    count = durations.Slice.needed(TESTS, book.durations)
    everything = {(k, t.name) for k, t in dealt(Book(), everything=True)}
    short = {(k, t.name) for k, t in dealt(Book())}
    seen, cut = set(), {}
    for number in range(1, count + 1):
        for kernel, test in dealt(Book(), part=durations.Slice(number, count)):
            if (kernel, test.name) in short:
                continue
            if test.slice:
                cut.setdefault((kernel, test.name), []).append(test.slice)
            else:
                assert (kernel, test.name) not in seen, test.name
                seen.add((kernel, test.name))
    names = {t.name: t for t in TESTS}
    for (_, name), parts in cut.items():
        path, points = names[name].command, book.durations.points.get(name)
        if path.suffix != ".py" or not points:
            kit.equal(name, sorted(parts), [(n, count) for n in range(1, count + 1)])
        else:
            kit.equal(name, sorted(i for part in parts for i in claims(points, part)), list(range(points)))
            assert all(claims(points, part) for part in parts), name
    kit.equal("missing", everything - short - seen - set(cut), set())


@claim
def a_slice_keeps_to_its_budget():
    count = durations.Slice.needed(TESTS, Book().durations)
    short = {(k, t.name) for k, t in dealt(Book())}
    longest = max(Book().durations.of(t, "debug") for t in TESTS if t.is_long_on("debug") and not t.can_be_cut)
    for number in range(1, count + 1):
        book = Book()
        spent = sum(book.durations.of(t, k) for k, t in dealt(book, part=durations.Slice(number, count))
                    if (k, t.name) not in short)
        print("# slice %d/%d: %d s" % (number, count, spent))
        assert spent <= durations.BUDGET + longest, spent


@claim
def each_slice_has_something_of_card_and_handoff():
    count = durations.Slice.needed(TESTS, Book().durations)
    for number in range(1, count + 1):
        rooms = {t.name.split("/")[0] for k, t in dealt(Book(), part=durations.Slice(number, count))
                 if k == "debug" and t.by_turns}
        assert {"card", "handoff"} <= rooms, (number, rooms)


@claim
def a_slice_comes_last_and_in_guests_of_its_own():
    count = durations.Slice.needed(TESTS, Book().durations)
    kinds = [{t.by_turns for t in pile} for *_, pile, _ in
             runner.batches(TESTS, ["stock", "debug"], Book(), part=durations.Slice(1, count))]
    assert all(len(kind) == 1 for kind in kinds)
    kit.equal("turns", kinds, sorted(kinds, key=list))
    assert {False} in kinds and {True} in kinds


@claim
def a_slice_that_is_late_is_skipped_and_nothing_else():
    test = next(t for t in TESTS if t.place == "guest")
    late = dataclasses.replace(test, by_turns=True)
    book = Book()
    runner.run_batch(("debug", 2, "", [late], "name"), book, until=time.time())
    kit.equal("skipped", book.skipped, [("debug", test.name)])
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "list"), "w", encoding="ascii") as file:
            file.write("late\t5\t/bin/false\t1/2\t%d\n" % (time.time() - 1))
            file.write("late_too\t5\t/bin/false\t-\t%d\n" % (time.time() - 600))
        done = subprocess.run([TESTING / "guest-batch"], capture_output=True, text=True, check=False, timeout=50,
                              env=dict(os.environ, FLT_RESULTS=place, FLT_KIND="stock"))
    kit.equal("said", done.stdout.splitlines(), ["@late late", "@late late_too", "@done"])


@claim
def what_there_was_no_time_for_comes_first_the_next_time():
    guests = [t for t in TESTS if t.place == "guest" and t.runs_on("stock")]
    plain = next(t for t in reversed(guests) if not t.skipped_on("stock", False))
    cut = next(t for t in guests if t.is_long_on("stock") and t.can_be_cut and not t.held)
    with tempfile.TemporaryDirectory() as cache:
        def run(*late, ran=()):
            known = durations.Durations(Path(cache))
            for test in late:
                known.enter(test, "stock", True)
            for test in ran:
                known.enter(test, "stock", False)
            known.save_owed(TESTS)
            return durations.Durations(Path(cache))

        def first(known):
            book = Book()
            book.durations = known
            batches = runner.batches(TESTS, ["stock", "debug"], book, part=durations.Slice(1, 400))
            return [[(t.name, t.slice) for t in batch[3]] for batch in batches]
        kit.equal("nothing owed", run().owed, {})
        known = run(plain, dataclasses.replace(cut, by_turns=True, slice=(3, 7)))
        kit.equal("first", first(known)[0], [(plain.name, ())])
        assert [(cut.name, (3, 7))] in first(known)
        # It fails or passes, and is owed no longer; the other one still is, though a run knew nothing of it.
        known = run(ran=[plain])
        kit.equal("still owed", known.owed, {("stock", cut.name): (3, 7)})
        Path(cache, "owed").write_text("stock gone/gone -\n", encoding="ascii")
        kit.equal("of a test that is no more", run().owed, {})


@claim
def what_would_not_end_in_time_is_not_begun():
    """A run's end counts for all, in guests and here; `make test` has none."""
    now, book = time.time(), Book()
    guest = next(t for t in TESTS if t.place == "guest")
    runner.run_batch(("debug", 2, "", [guest], "name"), book, until=now + 3600, end=now + 5)
    host = dataclasses.replace(guest, place="host", name="late", command="/bin/false")
    book.durations.known["host", "late"] = 30
    runner.run_on_host([host], book, end=now + 20)
    kit.equal("skipped", book.skipped, [("debug", guest.name), ("host", "late")])
    with mock.patch.object(runner, "run_one_on_host") as ran:
        runner.run_on_host([host], book, end=now + 90)
        runner.run_on_host([host], book)
    kit.equal("begun", ran.call_count, 2)


@claim
def a_run_s_end_is_told_to_its_guests_but_not_to_runs_of_its_tests():
    with tempfile.TemporaryDirectory() as place, \
            mock.patch.dict(os.environ, {"FLOTILLA_END": "1234"}), \
            mock.patch.object(runner.subprocess, "Popen") as begun:
        begun.return_value.stdout = []
        book = Book()
        book.results = book.boots = Path(place)
        test = next(t for t in TESTS if t.place == "guest" and not t.by_turns)
        book.durations.known["stock", test.name] = 100
        for last, said in (5000.0, "4900"), (None, "-"):
            guest = runner.Guest("stock", 2, "", [test], book, f"name{said}", last)
            kit.equal("told", guest.share.joinpath("list").read_text(encoding="ascii").split("\t")[-1], f"{said}\n")
        assert "FLOTILLA_END" not in runner.environment(book)


PATIENCE = """
import sys
sys.path.insert(0, %r)
import kit
print(kit.SLOW)
"""


@claim
def the_newest_kernel_is_one_that_does_not_check_itself():
    for kind, slow in ("stock", 1), ("newest", 1), ("debug", 3):
        done = subprocess.run([sys.executable, "-c", PATIENCE % str(TESTING / "lib")], capture_output=True, text=True,
                              check=False, env=dict(os.environ, FLT_KIND=kind))
        kit.equal(kind, done.stdout, "%d\n" % slow)
        shell = subprocess.run(["bash", "-c", f". '{TESTING}/lib.sh'; echo slow=$slow; trap - EXIT"],
                               capture_output=True, text=True, check=False,
                               env=dict(os.environ, FLT_KIND=kind, FLT_TOP=str(collect.TOP)))
        assert f"slow={slow}\n" in shell.stdout, (kind, shell.stdout, shell.stderr)
    test = next(t for t in TESTS if t.is_long_on("debug") and not t.is_long_on("stock"))
    assert not test.is_long_on("newest"), test.name


@claim
def turns_of_the_newest_kernel_see_once_each_what_passes_there():
    book = Book().durations
    names = [t.name for t in TESTS if t.place == "guest" and not t.is_long_on("stock")]
    known = {**dict.fromkeys(names, ""), names[0]: "it fails there", names[1]: "so does this"}
    with mock.patch.object(newest, "read", lambda *_: ("7.3", known)):
        count = newest.Turn.needed(TESTS, book)
        found = []
        for number in range(1, count + 1):
            batches = newest.Turn(number, count).batches(TESTS, book)
            mine = [t for *_, pile, _ in batches for t in pile]
            spent = sum(newest.weight(t, book) for t in mine) + newest.GUESTS * durations.BOOT["newest"]
            print("# turn %d/%d: %d s" % (number, count, spent))
            assert mine and all(t.by_turns for t in mine) and {kernel for kernel, *_ in batches} == {"newest"}
            assert spent <= newest.BUDGET + max(newest.weight(t, book) for t in mine), spent
            found += [t.name for t in mine]
    kit.equal("tests", sorted(found), sorted(names[2:]))


@claim
def what_is_known_of_the_newest_kernel_is_of_tests():
    version, known = newest.read()
    assert version and known
    kit.equal("no tests", set(known) - {t.name for t in TESTS if t.place == "guest"}, set())
    lines = newest.SEEN.read_text().splitlines()
    for line in lines:
        assert line.startswith(("#", "kernel ", "pass ")) or len(line.split()) > 3 and line.startswith("not "), line
    kit.equal("lines", len([line for line in lines if line.startswith(("pass", "not"))]), len(known))


@claim
def a_kernel_that_cannot_be_had_or_is_not_the_one_is_skipped_with_a_reason():
    with tempfile.TemporaryDirectory() as place:
        cache, log = Path(place), Path(place) / "logs/prepare.log"
        with mock.patch.dict(os.environ, FLOTILLA_CACHE=place, PATH=f"{place}:/nowhere"):
            os.symlink("/bin/bash", f"{place}/bash")
            for name in ("dirname", "mkdir", "flock", "id", "awk"):
                os.symlink(shutil.which(name, path="/usr/bin:/bin"), f"{place}/{name}")
            assert "is not installed" in newest.prepare(cache, log), log.read_text()
            root = cache / "newest/current"
            root.mkdir()
            (root / ".complete").touch()
            (root / "flotilla-release").write_text("99.1.0-amd64\n")
            assert "99.1.0" in newest.prepare(cache, log), log.read_text()


@claim
def modules_that_do_not_build_for_it_are_a_failure():
    book = Book()
    book.results, book.failed = Path("/nowhere"), []
    book.fail = book.failed.append
    version, _ = newest.read()
    for built in True, False:
        with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(1) as pool, \
                mock.patch.dict(os.environ, FLOTILLA_CACHE=place), mock.patch.object(runner, "run_batch") as ran, \
                mock.patch.object(newest, "run", lambda log, what, *_: what.endswith("modules") and not built):
            book.results = Path(place) / "results"
            (Path(place) / "newest/current").mkdir(parents=True)
            (Path(place) / "newest/current/flotilla-release").write_text(f"{version}.4-amd64\n")
            last = RUN.on_newest(pool, newest.Turn(1, 1), TESTS, book, None, None)
            for done in last():
                done.result()
            kit.equal("guests", ran.called, built)
            kit.equal("failures", len(book.failed) > 0, not built)
    kit.equal("skipped", book.skipped, [])


@claim
def runs_take_turns():
    book = Book()
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, FLOTILLA_CACHE=cache):
        os.environ.pop("FLOTILLA_SLICE", None)
        (Path(cache) / "slice").write_text("8\n")
        parts = [RUN.whose_turn(TESTS, book) for _ in range(2 * newest.EACH)]
    kit.equal("kinds", [type(p).__name__ for p in parts], (["Slice"] * (newest.EACH - 1) + ["Turn"]) * 2)
    for kind in newest.Turn, durations.Slice:
        mine = [p for p in parts if type(p) is kind]
        for one, next_one in zip(mine, mine[1:]):
            kit.equal(kind.__name__, next_one.number, one.number % one.count + 1)
    for part in parts:
        with mock.patch.dict(os.environ, FLOTILLA_SLICE=str(part)):
            kit.equal("again", str(RUN.whose_turn(TESTS, book)), str(part))


CLAIMS = '''
import sys
sys.path.insert(0, %r)
import kit
for name in "abcdefg":
    kit.CLAIMS.append((name, lambda: None))
kit.main()
'''


@claim
def slices_of_a_files_claims_are_all_of_them():
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "some_test.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(CLAIMS % str(TESTING / "lib"))
        for count in (1, 3, 8):
            names = []
            for number in range(1, count + 1):
                done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False,
                                      env=dict(os.environ, FLOTILLA_CLAIMS=f"{number}/{count}"))
                outcome = collect.read_tap(done.stdout, done.returncode)
                assert not outcome.failed, outcome.failed
                assert outcome.passed or outcome.skipped, done.stdout
                names += outcome.passed
            kit.equal("claims", sorted(names), list("abcdefg"))


THREAD = '''
import sys, threading
sys.path.insert(0, %r)
import kit

@kit.claim
def somebody_else_looks():
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()

kit.main()
'''


@claim
def a_thread_that_dies_fails_its_claim():
    done = subprocess.run([sys.executable, "-c", THREAD % str(TESTING / "lib")], capture_output=True, text=True,
                          check=False)
    assert "not ok 1" in done.stdout and "ZeroDivisionError" in done.stdout and done.returncode == 1, done.stdout


if __name__ == "__main__":
    main()

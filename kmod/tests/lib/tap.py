# SPDX-License-Identifier: GPL-2.0
"""TAP output: each function given to claim() is a test, its docstring the claim."""
import sys
import time
import traceback

from patience import PATIENCE

TESTS = []


class Skip(Exception):
    """What a claim raises that cannot be shown here; its text says why."""


def claim(func):
    TESTS.append(func)
    return func


def wait(what, seconds=PATIENCE, every=0.02):
    """Wait until what() is true; the value it had."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come true in %s s" % (
                getattr(what, "__name__", "it"), seconds))
        time.sleep(every)


def main():
    """Run all, or those whose names are given as arguments."""
    tests = [t for t in TESTS if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]
    print("TAP version 13\n1..%d" % len(tests), flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        begin = time.monotonic()
        try:
            test()
            word, remark = "ok", "%.1f s" % (time.monotonic() - begin)
        except Skip as why:
            word, remark = "ok", "SKIP %s" % why
        except Exception:  # pylint: disable=broad-except
            failed += 1
            word, remark = "not ok", "%.1f s" % (time.monotonic() - begin)
            for line in traceback.format_exc().splitlines():
                print("# " + line)
        print("%s %d %s # %s" % (word, number, test.__name__, remark), flush=True)
    sys.exit(1 if failed else 0)

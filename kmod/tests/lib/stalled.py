# SPDX-License-Identifier: GPL-2.0
"""Somebody stands still in a function of the kernel, for tests of what happens meanwhile."""
import contextlib
import os

from netns import run


class Stalled:
    """What stalled() set up; called, it says how many have come by."""

    PARAMETERS = "/sys/module/flt_stall_test/parameters/"

    def __call__(self):
        with open(self.PARAMETERS + "hits", encoding="ascii") as file:
            return int(file.read())

    def ends(self):
        """Who stands still goes on doing so; who comes later does not."""
        with open(self.PARAMETERS + "ms", "w", encoding="ascii") as file:
            file.write("0")


@contextlib.contextmanager
def stalled(symbol, seconds, busy=False):
    """Whoever comes by a function of the kernel stands still there for so long, on the processor if busy; a Stalled."""
    run("insmod", os.path.join(os.environ["FLT_MODULES"], "flt_stall_test.ko"), "symbol=" + symbol,
        "ms=%d" % (seconds * 1000), "busy=%d" % busy)
    try:
        yield Stalled()
    finally:
        run("rmmod", "flt_stall_test")

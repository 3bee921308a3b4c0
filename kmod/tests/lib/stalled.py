# SPDX-License-Identifier: GPL-2.0
"""Somebody stands still in a function of the kernel, for tests of what happens meanwhile."""
import contextlib
import os

from netns import run


class Stalled:
    """What stalled() set up; called, it says how many have come by."""

    PARAMETERS = "/sys/module/flt_stall_test/parameters/"

    def __init__(self, milliseconds):
        self.milliseconds = milliseconds

    def __call__(self):
        with open(self.PARAMETERS + "hits", encoding="ascii") as file:
            return int(file.read())

    def ends(self):
        """Who stands still goes on doing so; who comes later does not."""
        self.takes(0)

    def begins(self):
        """Who comes from here on stands still again."""
        self.takes(self.milliseconds)

    def takes(self, milliseconds):
        with open(self.PARAMETERS + "ms", "w", encoding="ascii") as file:
            file.write(str(milliseconds))


@contextlib.contextmanager
def stalled(symbol, seconds, busy=False, after=False):
    """
    Whoever comes by a function of the kernel stands still there for so long, on the processor if busy, when it has
    returned if after; a Stalled.
    """
    run("insmod", os.path.join(os.environ["FLT_MODULES"], "flt_stall_test.ko"), "symbol=" + symbol,
        "ms=%d" % (seconds * 1000), "busy=%d" % busy, "after=%d" % after)
    try:
        yield Stalled(seconds * 1000)
    finally:
        run("rmmod", "flt_stall_test")

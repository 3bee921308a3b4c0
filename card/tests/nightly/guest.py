#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py SUITE KIND DIRECTORY LIMIT: in the guest, makes the disks and runs the tests that $FLT_RESULTS/todo names.

What each came to is added to $FLT_RESULTS/seen when it is known, so that a guest that dies has said where.
"""
import os
import shutil
import subprocess
import sys
import time

from disks import images, made, memory, run
from suites import SUITES


class Report:
    """TEST, verdict and seconds, a line each; the test that runs is in `running`."""

    def __init__(self, where):
        self.where, self.began = where, 0

    def begin(self, name):
        self.began = time.monotonic()
        with open(os.path.join(self.where, "running"), "w", encoding="ascii") as f:
            f.write(name)

    def end(self, name, verdict):
        with open(os.path.join(self.where, "seen"), "a", encoding="utf-8") as f:
            f.write("%s\t%s\t%d\n" % (name, verdict, time.monotonic() - self.began))


def furnish():
    """What the suites look for and an installed machine has: the kernel's configuration, its modules, configfs."""
    release = os.uname().release
    shutil.copy("%s/boot/config-%s" % (os.environ["FLT_KERNEL"], release), "/boot")
    # blktests looks with find(1), which follows no link.
    tree, there = "/tmp/modules/" + release, "/lib/modules/" + release
    shutil.copytree(there, tree, symlinks=True)
    kernel = os.path.realpath(there + "/kernel")
    os.unlink(tree + "/kernel")
    os.mkdir(tree + "/kernel")
    run("mount", "--bind", kernel, tree + "/kernel")
    run("mount", "--rbind", tree, there)
    # Not every suite has udevd, and without it nothing loads what a new device needs.
    run("modprobe", "-a", "configfs", "loop", "sd_mod", "sg")
    run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")


def main():
    name, kind, directory, limit = sys.argv[1:]
    suite = SUITES[name]
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    where = os.environ["FLT_RESULTS"]
    with open(os.path.join(where, "todo"), encoding="ascii") as f:
        names = f.read().split()
    furnish()
    with made(kind, memory if suite.disks == 1 else images) as devices:
        suite.prepare(devices)
        suite.run(directory, devices, names, float(limit), Report(where))
        # What the kernel said to a test that failed is worth more than the verdict.
        subprocess.run("cp -r /tmp/xfstests /tmp/blktests %s/details 2>/dev/null" % where, shell=True, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

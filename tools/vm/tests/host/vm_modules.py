#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""The tree of modules that guests boot with: made once for each build, whoever comes first."""
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

TOP = Path(os.path.abspath(__file__)).parents[4]
sys.path[:0] = [str(TOP / "tools/vm"), str(TOP / "kmod/tests/lib")]
import machine              # noqa: E402
from tap import claim, main  # noqa: E402

RELEASE = "6.12.0-made-up"


def place(directory):
    """A kernel in the cache and a build without modules yet, both empty."""
    root = Path(directory)
    os.environ["FLOTILLA_CACHE"] = str(root / "cache")
    kernel = root / "cache/kernel/current"
    (kernel / "lib/modules" / RELEASE / "kernel").mkdir(parents=True)
    for name in ("vmlinux", ".complete", f"lib/modules/{RELEASE}/modules.order",
                 f"lib/modules/{RELEASE}/modules.builtin"):
        (kernel / name).touch()
    machine.TOP = root
    machine.tool = lambda name: "/bin/true"     # depmod; empty files are no modules
    (root / "build/modules").mkdir(parents=True)
    return machine.Kernel("stock")


def names(root):
    return sorted(p.name for p in (root / RELEASE / "flotilla").iterdir())


def boot(kernel, start, results):
    start.wait()
    try:
        results.put(names(kernel.module_root()))
    except OSError as error:
        results.put(str(error))


@claim
def guests_that_start_together_find_one_whole_tree():
    with tempfile.TemporaryDirectory() as directory:
        kernel = place(directory)
        for turn in range(5):
            (kernel.built / f"m{turn}.ko").touch()
            start, results = multiprocessing.Barrier(8), multiprocessing.Queue()
            guests = [multiprocessing.Process(target=boot, args=(kernel, start, results)) for _ in range(8)]
            for guest in guests:
                guest.start()
            wanted = [f"m{i}.ko" for i in range(turn + 1)]
            for _ in guests:
                got = results.get(timeout=120)
                assert got == wanted, got
            for guest in guests:
                guest.join()


@claim
def a_tree_is_made_anew_after_a_build_only():
    with tempfile.TemporaryDirectory() as directory:
        kernel = place(directory)
        first = kernel.module_root().stat().st_ino
        assert kernel.module_root().stat().st_ino == first
        (kernel.built / "new.ko").touch()
        assert names(kernel.module_root()) == ["new.ko"]


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0
"""Control groups (cgroup v2) of a guest: what is in one is bounded, and what it uses is told.

    with Cgroup("memory") as group:
        group.write("memory.max", "48M")
        with group.member():
            use_memory()
        assert group.number("memory.current") > 0

A test runs in a group of the harness and comes back to it: what it leaves behind is found there.
"""
import contextlib
import os
import sys

from kit import wait

TOP = "/sys/fs/cgroup"


def move(path):
    """This process, with all its threads."""
    with open(f"{path}/cgroup.procs", "w", encoding="ascii") as f:
        f.write("0")


def current():
    """The group of this process."""
    with open("/proc/self/cgroup", encoding="ascii") as f:
        return next(TOP + line.rstrip("\n")[3:] for line in f if line.startswith("0::"))


class Cgroup:
    """A group with this controller. Its name is its own: others of the same guest have theirs."""

    def __init__(self, controller, name="group"):
        with open(f"{TOP}/cgroup.subtree_control", "w", encoding="ascii") as f:
            f.write("+" + controller)
        self.path = f"{TOP}/{os.path.basename(sys.argv[0])}-{os.getpid()}-{name}"
        os.mkdir(self.path)

    def has(self, file):
        return os.path.exists(f"{self.path}/{file}")

    def read(self, file):
        with open(f"{self.path}/{file}", encoding="ascii") as f:
            return f.read()

    def number(self, file):
        return int(self.read(file))

    def numbers(self, file):
        """Of a file with a name and a number on each line."""
        return {name: int(value) for name, value in map(str.split, self.read(file).splitlines())}

    def write(self, file, value):
        with open(f"{self.path}/{file}", "w", encoding="ascii") as f:
            f.write(str(value))

    def sock(self):
        """Bytes of socket buffers that it pays for."""
        return self.numbers("memory.stat")["sock"]

    def join(self):
        """For a child: it ends in the group."""
        move(self.path)

    @contextlib.contextmanager
    def member(self):
        """Be in it."""
        before = current()
        self.join()
        try:
            yield
        finally:
            move(before)

    def command(self, *words):
        """The words of a command that begins in the group."""
        return ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.path, *words)

    def close(self):
        """End who is in it still, and the group."""
        self.write("cgroup.kill", 1)
        wait(lambda: not self.numbers("cgroup.events")["populated"], name=f"{self.path} is empty")
        os.rmdir(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

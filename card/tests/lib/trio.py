# SPDX-License-Identifier: GPL-2.0
"""Nodes that share a disk and each other's memory, and readers with little memory of their own."""
import contextlib
import os
import subprocess

from card import MIB, SLOW, attach, hash_of, pair, run, stat
from cgroup import Cgroup

SCRAMBLE = "/sys/kernel/debug/card/scramble"


def scramble(seed):
    """Whatever the nodes believed of where blocks are is something else now."""
    if not os.path.exists(SCRAMBLE):
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    with open(SCRAMBLE, "w", encoding="ascii") as f:
        f.write(str(seed))


class Groups:
    """Memory cgroups; what a reader in one brings into the page cache is the group's."""

    def __init__(self, *names):
        self.groups = {name: Cgroup("memory", name) for name in names}

    def write(self, group, name, text):
        self.groups[group].write(name, text)

    def run(self, group, *command, **more):
        """The command in the group, started."""
        return subprocess.Popen(self.groups[group].command(*command), **more)

    def reclaim(self, group):
        """What the group has in the page cache goes, as if memory were needed."""
        with contextlib.suppress(BlockingIOError):
            self.write(group, "memory.reclaim", "64M")      # EAGAIN: there is not so much

    def close(self):
        for group in self.groups.values():
            group.close()


class Limited(Groups):
    """One group with little memory: what its readers read drives out what they read before."""

    def __init__(self, size):
        super().__init__("readers")
        self.write("readers", "memory.max", str(size))

    def start(self, path):
        """Reads all of it; .hash() has to be called."""
        return self.run("readers", "sha256sum", path, stdout=subprocess.PIPE, text=True)

    def hash(self, reader):
        out, _ = reader.communicate(timeout=300)
        assert reader.returncode == 0, reader.returncode
        return out.split()[0]


class Trio:
    """Node 1 exports to 2, 3 (, ...), which have it open: closing a device empties its cache."""

    def __init__(self, c, disk, words):
        self.nodes, self.disk = c.nodes, disk
        self.c = c
        self.names = [None] + [attach(n, "data", *words(n.name)) for n in c.nodes[1:]]
        self.fds = [os.open(self.path(i), os.O_RDONLY) for i in range(1, len(c.nodes))]

    def path(self, i):
        return "/dev/" + self.names[i]

    def read(self, i):
        assert hash_of(self.path(i)) == self.disk.hash(), "node %d reads something else" % (i + 1)

    def total(self, name):
        return sum(stat(n, name) for n in self.nodes)

    def close(self):
        for fd in self.fds:
            os.close(fd)


# No attempt shall end because the kernel is slow: what is asked for again costs reads and errors.
PATIENT = ("timeout", str(1000 * SLOW * SLOW))


@contextlib.contextmanager
def trio(policy="hscc", size=MIB, words=PATIENT, host=(), n=3, hosts=None):
    """@host is of all; @hosts of some, by name."""
    hosts = hosts or {}

    def of(name):
        return ("host", str(hosts[name])) if name in hosts else host

    nodes = ",".join("n%d" % i for i in range(2, n + 1))
    with pair(n, size=size, nodes=nodes, words=("policy", policy, *of("n1"))) as (c, disk):
        t = Trio(c, disk, lambda name: (*words, *of(name)))
        try:
            yield t
        finally:
            t.close()
    for module in ("card_hscc", "card_hdc"):
        subprocess.run(["rmmod", module], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def limited(size):
    group = Limited(size)
    try:
        yield group
    finally:
        group.close()

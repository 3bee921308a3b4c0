# SPDX-License-Identifier: GPL-2.0
"""Three nodes that share a disk and each other's memory, and readers with little memory of their own."""
import contextlib
import os
import subprocess

from card import MIB, attach, hash_of, pair, run, stat

SCRAMBLE = "/sys/kernel/debug/card/scramble"


def scramble(seed):
    """Whatever the nodes believed of where blocks are is something else now."""
    if not os.path.exists(SCRAMBLE):
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    with open(SCRAMBLE, "w", encoding="ascii") as f:
        f.write(str(seed))


class Limited:
    """A memory cgroup: what its readers bring into the page cache drives out what they brought before."""

    def __init__(self, size):
        self.top = "/tmp/card-cgroup-%d" % os.getpid()
        os.mkdir(self.top)
        run("mount", "-t", "cgroup2", "none", self.top)
        self.write("", "cgroup.subtree_control", "+memory")
        os.mkdir(self.top + "/readers")
        self.write("readers", "memory.max", str(size))

    def write(self, group, name, text):
        with open(os.path.join(self.top, group, name), "w", encoding="ascii") as f:
            f.write(text)

    def start(self, path):
        """Reads all of it; .hash() has to be called."""
        return subprocess.Popen(
            ["sh", "-c", 'echo $$ >"$0/readers/cgroup.procs" && exec sha256sum "$1"', self.top, path],
            stdout=subprocess.PIPE, text=True)

    def hash(self, reader):
        out, _ = reader.communicate(timeout=300)
        assert reader.returncode == 0, reader.returncode
        return out.split()[0]

    def close(self):
        os.rmdir(self.top + "/readers")
        run("umount", self.top)
        os.rmdir(self.top)


class Trio:
    """Node 1 exports to 2 and 3, which have it open: closing a device empties its cache."""

    def __init__(self, c, disk, words):
        self.nodes, self.disk = c.nodes, disk
        self.c = c
        self.names = [None] + [attach(n, "data", *words) for n in c.nodes[1:]]
        self.fds = [os.open(self.path(i), os.O_RDONLY) for i in (1, 2)]

    def path(self, i):
        return "/dev/" + self.names[i]

    def read(self, i):
        assert hash_of(self.path(i)) == self.disk.hash(), "node %d reads something else" % (i + 1)

    def total(self, name):
        return sum(stat(n, name) for n in self.nodes)

    def close(self):
        for fd in self.fds:
            os.close(fd)


@contextlib.contextmanager
def trio(policy="hscc", size=MIB, words=(), host=()):
    with pair(3, size=size, nodes="n2,n3", words=("policy", policy, *host)) as (c, disk):
        t = Trio(c, disk, (*words, *host))
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

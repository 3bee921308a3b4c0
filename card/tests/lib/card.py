# SPDX-License-Identifier: GPL-2.0
"""Nodes in namespaces with disks to share; everything is asked through the command line tool."""
import contextlib
import errno
import hashlib
import json
import mmap
import os
import struct
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from cluster import UP, Cluster                         # noqa: E402
from netns import run                                   # noqa: E402
from patience import SLOW                               # noqa: E402
from tap import wait                                    # noqa: E402

MIB = 1 << 20


class Refused(Exception):
    """The tool failed; .status is its exit status, the text what it said."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def tool(node, *words, ok=True):
    """flotilla -j card WORDS in the node's namespace: the rows of its answer."""
    done = subprocess.run(["ip", "netns", "exec", node.ns, "flotilla", "-j", "card", *words],
                          capture_output=True, text=True, check=False)
    if done.returncode and ok:
        raise Refused(done.returncode, done.stderr.strip())
    rows = []
    for line in done.stdout.splitlines():
        rows.append(json.loads(line))
    return rows


def refused(text, node, *words):
    """The tool must fail and say this."""
    try:
        tool(node, *words)
    except Refused as err:
        assert text in str(err), (text, str(err))
        return
    raise AssertionError("flotilla card %s was accepted" % " ".join(words))


def stats(node):
    return tool(node, "stats")[0]


def stat(node, name):
    return stats(node)[name]


def exports(node):
    return {row["export"]: row for row in rows_of(tool(node, "show", "exports"))}


def disks(node):
    return {row["disk"]: row for row in rows_of(tool(node, "show", "disks"))}


def rows_of(answer):
    return answer[0] if len(answer) == 1 and isinstance(answer[0], list) else answer


def export(node, name, device, *words, nodes="n2"):
    tool(node, "export", name, "device", device, "nodes", nodes, *words)


def attach(node, name, *words, of="n1"):
    return tool(node, "attach", of, name, *words)[0]["disk"]


def detach(node, *words):
    tool(node, "detach", *words)


def state(node, disk):
    return disks(node)[disk]["state"]


class Disk:
    """A loop device over a file of random blocks; each 512 bytes know their place."""

    def __init__(self, size=8 * MIB, seed=1, name="disk"):
        self.path = "/tmp/card-%s-%d.img" % (name, os.getpid())
        self.size = size
        with open(self.path, "wb") as f:
            block = hashlib.sha256(b"%d" % seed).digest() * 128
            for at in range(0, size, 4096):
                f.write(at.to_bytes(8, "big") + block[8:])
            f.truncate(size)
        self.device = subprocess.run(["losetup", "--find", "--show", "--direct-io=off", self.path],
                                     check=True, capture_output=True, text=True).stdout.strip()

    def partition(self):
        """Two partitions, p1 and p2, of a quarter of the disk each."""
        quarter = self.size // 4 // 512
        with open(self.path, "r+b") as f:
            f.seek(446)
            for i in range(2):
                f.write(bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) +
                        struct.pack("<II", quarter * (i + 1), quarter))
            f.write(bytes(32) + b"\x55\xaa")
        run("losetup", "-d", self.device)
        wait(lambda: not os.path.exists("/sys/block/%s/loop" % self.device[5:]), 30 * SLOW)
        run("losetup", "-P", self.device, self.path)
        wait(lambda: os.path.exists(self.device + "p2"), 30 * SLOW)

    def hash(self):
        return hash_of(self.path)

    def close(self):
        run("losetup", "-d", self.device)
        os.unlink(self.path)


def hash_of(path, direct=False):
    h = hashlib.sha256()
    for data in chunks(path, direct):
        h.update(data)
    return h.hexdigest()


def chunks(path, direct=False, size=MIB):
    flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
    fd = os.open(path, flags)
    buf = mmap.mmap(-1, size)
    try:
        at = 0
        while (n := os.preadv(fd, [buf], at)) > 0:
            yield buf[:n]
            at += n
    finally:
        buf.close()
        os.close(fd)


def read_error(path, at=0, size=4096):
    """The errno of a direct read, and the seconds it took."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buf = mmap.mmap(-1, size)
    begin = time.monotonic()
    try:
        os.preadv(fd, [buf], at)
        return 0, time.monotonic() - begin
    except OSError as err:
        return err.errno, time.monotonic() - begin
    finally:
        buf.close()
        os.close(fd)


def write_error(path, at=0, data=bytes(4096)):
    """The errno of a write that has to be on the disk, and the seconds it took."""
    fd = os.open(path, os.O_WRONLY | os.O_DSYNC)
    begin = time.monotonic()
    try:
        os.pwrite(fd, data, at)
        return 0, time.monotonic() - begin
    except OSError as err:
        return err.errno, time.monotonic() - begin
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


@contextlib.contextmanager
def pair(n=2, size=8 * MIB, words=(), nodes="n2", offered=True):
    """Node 1 exports a disk as "data" to @nodes; not @offered: that is left to the caller."""
    c = Cluster(n)
    disk = Disk(size)
    try:
        if offered:
            export(c.nodes[0], "data", disk.device, *words, nodes=nodes)
        yield c, disk
    finally:
        with contextlib.suppress(Exception):
            for node in c.nodes:
                for name in disks(node):
                    detach(node, name, "force")
                for name in exports(node):
                    tool(node, "unexport", name)
        c.close()
        disk.close()


@contextlib.contextmanager
def mapped(name, *table):
    """A device-mapper device; its path."""
    subprocess.run(["dmsetup", "create", name], check=True, input="\n".join(table).encode())
    try:
        yield "/dev/" + subprocess.run(
            ["dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", name], check=True,
            capture_output=True, text=True).stdout.strip()
    finally:
        run("dmsetup", "resume", name)      # who failed may have left it suspended
        run("dmsetup", "remove", "--retry", name)


@contextlib.contextmanager
def mounted(device, where, *options):
    """A file system, for as long as it is looked at."""
    os.makedirs(where, exist_ok=True)
    run("mount", *options, device, where)
    try:
        yield where
    finally:
        run("umount", where)


def cut(c, number):
    """The node's cable is pulled: nothing says so to anyone."""
    run("ip", "-n", c.net.bridge, "link", "set", "p%d" % number, "down")


def mend(c, number):
    run("ip", "-n", c.net.bridge, "link", "set", "p%d" % number, "up")


def wait_live(node, disk, seconds=30):
    wait(lambda: state(node, disk) == "live", seconds * SLOW)


def wait_up(node, other, seconds=30):
    wait(lambda: node.state(other) == UP, seconds * SLOW)


def unload():
    """Nothing is left that needs the module, so it goes."""
    run("rmmod", "card")


__all__ = [n for n in globals() if not n.startswith("_")] + ["errno"]

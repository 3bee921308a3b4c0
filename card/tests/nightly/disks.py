# SPDX-License-Identifier: GPL-2.0
"""In the guest: the same disk without card and through it, and others to compare with."""
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import MIB, SLOW, Disk, attach, detach, export, tool, wait    # noqa: E402
from cluster import Cluster                             # noqa: E402
from netns import run                                   # noqa: E402

# What blktests gets: in memory, so what takes long is the test's.
SIZE = 256 * MIB


@contextlib.contextmanager
def memory():
    """A loop device over memory, called rotational, so that tests ask for less."""
    disk = Disk(SIZE)
    try:
        rotational(disk.device)
        yield [disk.device]
    finally:
        disk.close()


@contextlib.contextmanager
def images():
    """The guest's own disks, files of the host's."""
    run("modprobe", "virtio_blk")
    wait(lambda: os.path.exists("/dev/vdb"), 30 * SLOW)
    yield ["/dev/vda", "/dev/vdb"]


@contextlib.contextmanager
def card(backing):
    """The disks of @backing, exported by one node and attached for writing by another."""
    run("modprobe", "card")
    with backing() as devices:
        c = Cluster(2)
        names = []
        try:
            for i, device in enumerate(devices):
                export(c.nodes[0], "data%d" % i, device, "write")
                names.append(attach(c.nodes[1], "data%d" % i, "write"))
            yield ["/dev/" + name for name in names]
        finally:
            for i, name in enumerate(names):
                detach(c.nodes[1], name, "force")
                tool(c.nodes[0], "unexport", "data%d" % i)
            c.close()


@contextlib.contextmanager
def nbd(backing):
    run("modprobe", "nbd")
    with backing() as (device,):
        # The machine's own configuration has a user that may not open the disk.
        with open("/tmp/nbd.conf", "w", encoding="ascii") as f:
            f.write("[generic]\n[data]\nexportname = %s\n" % device)
        server = subprocess.Popen(["nbd-server", "-d", "-C", "/tmp/nbd.conf"])
        try:
            wait(lambda: subprocess.run(["nbd-client", "127.0.0.1", "/dev/nbd0", "-N", "data"], check=False,
                                        capture_output=True).returncode == 0, 30 * SLOW, 0.5)
            yield ["/dev/nbd0"]
            run("nbd-client", "-d", "/dev/nbd0")
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def null():
    """Of the tests' own module: they may not unload it while this one is there, and say so."""
    run("modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "gb=1", "queue_mode=2")
    rotational("/dev/nullb0")
    yield ["/dev/nullb0"]


def rotational(device):
    with open("/sys/block/%s/queue/rotational" % device[5:], "w", encoding="ascii") as f:
        f.write("1")


def made(kind, backing):
    """A context with the list of devices of this kind."""
    return {"plain": backing, "card": lambda: card(backing), "nbd": lambda: nbd(backing), "null": null}[kind]()

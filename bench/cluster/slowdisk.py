# SPDX-License-Identifier: GPL-2.0
"""A disk of the paper's kind in a guest: one request at a time, each taking the same time.

null_blk with its contents in memory, a hardware queue and a timer for completions: with a queue of depth one
requests wait for each other, as at one arm; a deeper one is an array of disks. Its pages are not charged to who
reads them, so a server's control group bounds its page cache alone.
"""
import os
import subprocess
from pathlib import Path

CONFIG = Path("/sys/kernel/config/nullb")


def run(*command, text=None):
    """Output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class SlowDisk:
    """A filesystem on a slow disk, with the contents of a directory, mounted read-only."""

    numbers = 0

    def __init__(self, source, mountpoint, milliseconds, depth=1, readahead_kb=128):
        self.mountpoint = Path(mountpoint)
        image = self.mountpoint.with_suffix(".img")
        size = int(run("du", "-sm", source).split()[0]) * 5 // 4 + 8
        if not CONFIG.exists():
            run("modprobe", "null_blk", "nr_devices=0")
            run("modprobe", "ext4")
            if not CONFIG.exists():
                run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
        self.name = f"slow{SlowDisk.numbers}"
        SlowDisk.numbers += 1
        self.mountpoint.mkdir(parents=True)
        run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", source, image,
            f"{size}M")
        config = CONFIG / self.name
        config.mkdir()
        for key, value in (("memory_backed", 1), ("size", size), ("submit_queues", 1), ("hw_queue_depth", depth),
                           ("irqmode", 2), ("completion_nsec", milliseconds * 1000000), ("power", 1)):
            (config / key).write_text(f"{value}\n")
        self.device, self.block = Path("/dev") / self.name, Path("/sys/block") / self.name
        self.queue = self.block / "queue"
        run("dd", f"if={image}", f"of={self.device}", "bs=1M", "oflag=direct", "status=none")
        image.unlink()
        # The block layer queues in front of the one arm, as it does for any disk: with no more requests than the
        # arm takes, whoever adds one would wait, readahead and RWF_NOWAIT included.
        (self.queue / "scheduler").write_text("mq-deadline\n")
        (self.queue / "nr_requests").write_text("256\n")
        (self.queue / "read_ahead_kb").write_text(f"{readahead_kb}\n")
        run("mount", "-t", "ext4", "-o", "ro,noatime", self.device, self.mountpoint)

    def reads(self):
        """Requests completed and bytes read since the start."""
        stat = (self.block / "stat").read_text().split()
        return int(stat[0]), int(stat[2]) * 512

    @staticmethod
    def forget():
        """Empties the page cache, names included."""
        Path("/proc/sys/vm/drop_caches").write_text("3")


class Group:
    """A control group with a bounded memory."""

    ROOT = Path("/sys/fs/cgroup")

    def __init__(self, name, megabytes):
        self.path = self.ROOT / name
        (self.ROOT / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir()
        (self.path / "memory.max").write_text(f"{int(megabytes * (1 << 20))}\n")

    def start(self, command, log, prefix=()):
        """A process in the group; @prefix enters a namespace, after the group was joined."""
        line = ("sh", "-c", f'echo 0 >{self.path}/cgroup.procs && exec "$@"', "sh", *prefix, *command)
        with open(log, "ab") as out:
            return subprocess.Popen([str(c) for c in line], stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def stat(self):
        rows = (line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        return {name: int(value) for name, value in rows}

    def processes(self):
        return [int(p) for p in (self.path / "cgroup.procs").read_text().split()]

    def remove(self):
        os.rmdir(self.path)

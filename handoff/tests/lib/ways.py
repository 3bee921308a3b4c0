# SPDX-License-Identifier: GPL-2.0
"""Every way in which a program can read from a socket (ways.c), by calls and by io_uring."""
import os
import select
import subprocess

from hof import PATIENCE, TOP

WAYS = os.path.join(TOP, "build/tests/policy-ways")
CALLS = "recvmsg", "recvmmsg", "readv", "peek", "poll", "splice"
RINGS = tuple("ring-" + way for way in (
    "recv", "worker", "read", "readv", "recvmsg", "poll", "poll-multishot", "splice", "buffer", "multishot",
    "polled-recv", "polled-multishot"))


class Reader:
    """A program that waits in one way for what comes next of a connection."""

    def __init__(self, sock, way):
        self.way = way
        sock.setblocking(True)
        # Without a buffer, in which what follows "wait" would be lost to communicate().
        self.process = subprocess.Popen((WAYS, way, str(sock.fileno())), stdout=subprocess.PIPE, bufsize=0,
                                        stderr=subprocess.PIPE, pass_fds=[sock.fileno()])
        assert self.process.stdout.readline() == b"wait\n", (way, self.process.communicate())

    def silent(self):
        assert not select.select([self.process.stdout], [], [], 0.2)[0], (self.way, self.process.communicate())

    def end(self):
        said, wrong = self.process.communicate(timeout=PATIENCE)
        assert not self.process.returncode, (self.way, wrong)
        return said

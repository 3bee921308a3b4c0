# SPDX-License-Identifier: GPL-2.0
"""What somebody on the segment gets to see: every frame of the client's and the front-end's cards.

Between them they see all: an answer of a back-end is the client's, a handoff is the front-end's.
"""
import os
import re
import signal
import time

import status
from network import BRIDGE_ADDRESS

PATIENCE = 60
# The status page is for who runs the cluster, and names what is asked for; a browser may look at it meanwhile.
EXCEPT = ("not", "tcp", "port", str(status.PORT))


class Capture:
    """tcpdump in each namespace; as a context, from its begin to its end."""

    def __init__(self, directory, *spaces):
        self.files = [directory / f"{ns.name}.pcap" for ns in spaces]
        self.logs = [directory / f"{ns.name}.tcpdump" for ns in spaces]
        self.spaces, self.processes = spaces, []
        self.frames, self.lost, self.data = 0, 0, b""

    def __enter__(self):
        for ns, file, log in zip(self.spaces, self.files, self.logs):
            log.unlink(missing_ok=True)
            self.processes.append(ns.start("tcpdump", "-i", "eth0", "-Z", "root", "-s", "0", "-B", "32768", "-U",
                                           "--immediate-mode", "-w", str(file), *EXCEPT, log=log))
        self.wait("begin", lambda: all("listening" in log.read_text() for log in self.logs))
        return self

    def __exit__(self, *_):
        # What is sent last is written last.
        last = os.urandom(16).hex()
        for ns in self.spaces:
            ns.run("bash", "-c", f"echo {last} >/dev/udp/{BRIDGE_ADDRESS}/9")
        self.wait("end", lambda: all(last.encode() in file.read_bytes() for file in self.files))
        self.stop()
        for log in self.logs:
            text = log.read_text()
            self.frames += self.count(text, "captured")
            self.lost += self.count(text, "dropped by kernel")
        self.data = b"".join(file.read_bytes() for file in self.files)

    def wait(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"tcpdump does not {what}: {[log.read_text() for log in self.logs]}")
            time.sleep(0.2)

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait()

    @staticmethod
    def count(text, what):
        found = re.search(rf"(\d+) packets? {what}", text)
        if not found:
            raise RuntimeError(f"tcpdump does not say what it has {what}: {text}")
        return int(found[1])

    def seen(self, texts):
        """How many of these byte strings are there."""
        return sum(text in self.data for text in texts)

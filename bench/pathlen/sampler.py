# SPDX-License-Identifier: GPL-2.0
"""Where a counted guest executes: samples of its program counter through QEMU's monitor.

Nothing runs in the guest for it, so what is counted stays what it is. Samples fall on the borders of
translated blocks, so a share of a few percent is an indication, not a figure.
"""
import bisect
import collections
import re
import socket
import threading
import time


class Symbols:
    """The guest's /proc/kallsyms."""

    def __init__(self, text):
        table = []
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwW":
                module = words[3].strip("[]") if len(words) > 3 else ""
                table.append((int(words[0], 16), words[2], module))
        table.sort()
        self.addresses = [t[0] for t in table]
        self.table = table

    def name(self, address):
        if address < 1 << 63:
            return "(user space)", ""
        i = bisect.bisect_right(self.addresses, address) - 1
        return self.table[i][1:] if i >= 0 else ("?", "")


class Sampler(threading.Thread):
    """Reads the program counter every few milliseconds until stop()."""

    IDLE = re.compile(r"idle|halt|mwait|^do_idle|^cpuidle")

    def __init__(self, monitor, symbols, period=0.004):
        super().__init__(daemon=True)
        self.symbols, self.period, self.ended = symbols, period, False
        self.hits, self.busy = collections.Counter(), 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(monitor)
        self.prompt()

    def prompt(self):
        data = b""
        while not data.endswith(b"(qemu) "):
            data += self.socket.recv(65536)
        return data

    def run(self):
        while not self.ended:
            self.socket.sendall(b"info registers\n")
            match = re.search(rb"RIP=([0-9a-f]+)(?:.*HLT=(\d))?", self.prompt(), re.S)
            if match and match.group(2) != b"1":
                name = self.symbols.name(int(match.group(1), 16))
                if not self.IDLE.search(name[0]):
                    self.hits[name] += 1
                    self.busy += 1
            time.sleep(self.period)

    def stop(self):
        self.ended = True
        self.join()
        self.socket.close()

    def table(self, lines=25):
        """Function, module and percent of the busy samples; modules summed up."""
        modules = collections.Counter()
        for (name, module), n in self.hits.items():
            modules[module or (name if name == "(user space)" else "kernel")] += n
        total = max(self.busy, 1)
        return {"samples": self.busy,
                "by module": {m: round(100 * n / total, 1) for m, n in modules.most_common()},
                "by function": [[name, module, round(100 * n / total, 1)]
                                for (name, module), n in self.hits.most_common(lines)]}

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""snapshot.py PORT: in the counted guest, tell how far its clocks and counters are.

Answers each connection with one JSON line, or with the kernel's symbols when it says "symbols", and
ends when one says "quit". With QEMU's
-icount shift=0 the guest's clock advances one nanosecond an instruction, so elapsed minus idle time
is the number of instructions executed. Both come from /proc/timer_list, in nanoseconds.
"""
import json
import re
import socket
import sys


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def snapshot():
    clocks = read("/proc/timer_list")
    elapsed = int(re.search(r"now at (\d+) nsecs", clocks).group(1))
    idle = sum(int(n) for n in re.findall(r"\.(?:idle|iowait)_sleeptime\s*:\s*(\d+)", clocks))
    stat = dict(line.split(None, 1) for line in read("/proc/stat").splitlines())
    packets = {}
    for line in read("/proc/net/dev").splitlines()[2:]:
        name, numbers = line.split(":")
        fields = numbers.split()
        packets[name.strip()] = {"rx": int(fields[1]), "tx": int(fields[9])}
    return {"elapsed": elapsed, "idle": idle, "switches": int(stat["ctxt"]),
            "interrupts": int(stat["intr"].split()[0]), "packets": packets}


def main():
    server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
    while True:
        connection = server.accept()[0]
        with connection:
            what = connection.recv(16)
            if what.startswith(b"quit"):
                return
            if what.startswith(b"symbols"):
                connection.sendall(read("/proc/kallsyms").encode())
                continue
            connection.sendall(json.dumps(snapshot()).encode() + b"\n")


main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both some minutes
# cpus: 2
"""
Clients in numbers: mutated requests, who is slow or silent, and what takes no memory however much comes.

MUTANTS=1000000 that many mutated requests, of SEED, amid others and in pieces; DENSE=1000000 that many in one piece;
CROWD=10000 that many slow and silent clients.
"""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (SOFTIRQ, THREAD, TOP, Client, Device, body, claim, counted, equal, load, main, same,  # noqa: E402
                  site, wait_for, wire)
import kit                                      # noqa: E402
import ssp                                      # noqa: E402

MUTANTS = int(os.environ.get("MUTANTS", kit.rounds(10000, 2000)))
DENSE = int(os.environ.get("DENSE", kit.rounds(4000, 800)))
CROWD = int(os.environ.get("CROWD", kit.rounds(10000, 2000)))
SEED = int(os.environ.get("SEED", 17))
HERE = ("127.0.0.1", 80)
KB, MB = 1 << 10, 1 << 20


class Program:
    """One of tests/lib, spoken to by lines."""

    def __init__(self, name, *words):
        self.child = subprocess.Popen([os.path.join(TOP, "build/tests", name), *map(str, words)], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.status = self.child.wait()

    def read(self):
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError(f"{self.child.args[0]} ended: {self.child.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.read()


def counter(name):
    return ssp.counters("Afpa")["Afpa" + name]


def mutants(device, protocol, mode, number, *how):
    """That many: each connection is judged by the program."""
    device.info(mode=mode)
    with Program("afpa_mutants", protocol, SEED + mode, number, *how) as clients:
        before = device.info()
        with counted(Hits=lambda n: n, Deferred=lambda n: n, Misses=lambda n: n):
            begin, accept = time.monotonic(), counter("HitsAccept")
            said = clients.ask("go")
            print(f"# {protocol}, {('off', 'softirq', 'thread')[mode]}: {said}, {time.monotonic() - begin:.0f} s, "
                  f"{counter('HitsAccept') - accept} hits in accept")
        equal("enough", said["mutated"] >= number, True)
        if said["hits"] < said["mutated"] / 4:
            raise AssertionError("too few were answered by the kernel")
        # What comes in one segment the server never sees before the kernel has; a work item may be later than it.
        if mode == SOFTIRQ:
            equal("requests in one piece that the server got", said["early"], 0)
            if said["split"] > said["connections"] / 4:
                raise AssertionError("the server got too many that were answers")
        wait_for("connections gone", lambda: not device.next_site(0)["conns"])
        wait_for("no answer under way", lambda: not counter("OutsideBytes"))
        after = device.info()
        equal("used, objects", (after["used"], after["objects"]), (before["used"], before["objects"]))
        device.info(mode=SOFTIRQ)
        with socket.create_connection(HERE) as sock:
            sock.settimeout(kit.PATIENCE)
            with counted(Hits=1):
                sock.sendall(b"get k\r\n" if protocol == "memcached" else wire("/", host="b"))
                wait_for("an answer", lambda: b"short" in sock.recv(1000, socket.MSG_PEEK) or
                         b"another host's" in sock.recv(1000, socket.MSG_PEEK))
    equal("status", clients.status, 0)


@contextlib.contextmanager
def besieged():
    """A site that is found wrong is not left behind for the next claim."""
    with Device() as device:
        try:
            yield device
        finally:
            device.info(mode=SOFTIRQ)
            with contextlib.suppress(FileNotFoundError):
                device.site_del(HERE)


@claim
def mutated_requests_are_answered_as_their_parser_reads_them():
    with besieged() as device:
        mutants(device, "http", SOFTIRQ, MUTANTS)
        mutants(device, "http", THREAD, MUTANTS // 4)


@claim
def mutated_gets_are_answered_as_their_parser_reads_them():
    load("afpa_memcached")
    with besieged() as device:
        mutants(device, "memcached", SOFTIRQ, MUTANTS // 2)
        mutants(device, "memcached", THREAD, MUTANTS // 4)


@claim
def mutated_requests_in_one_piece_are_answered_as_their_parser_reads_them():
    with besieged() as device:
        mutants(device, "http", SOFTIRQ, DENSE, 64, "dense")


@contextlib.contextmanager
def crowd(port):
    """(device, crowd), with a site whose server has room for many."""
    with Device() as device, Program("afpa_crowd", port) as many:
        equal("listeners, refused, errno", device.site_add(("127.0.0.1", port)), (1, 0, 0))
        try:
            yield device, many
        finally:
            device.info(mode=SOFTIRQ, stall_ms=30000)
            device.site_del(("127.0.0.1", port))


def asks(port, paths, seconds):
    """Somebody else, kept and anew: the longest that he waited."""
    end, longest, count = time.monotonic() + seconds, 0, 0
    with Client(("127.0.0.1", port)) as kept:
        while time.monotonic() < end or count < 20:
            for path, data in paths.items():
                begin = time.monotonic()
                if path == "/server" or count % 2:
                    with Client(("127.0.0.1", port)) as other:
                        same(path, other.get(path), data)
                else:
                    same(path, kept.get(path), data)
                longest = max(longest, time.monotonic() - begin)
                count += 1
    return longest


def memory(name):
    """Bytes, as the kernel counts them."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * KB for line in file if line.startswith(name + ":"))


def tcp_memory():
    """Pages that TCP accounts for, and its limits."""
    with open("/proc/net/sockstat", encoding="ascii") as stat:
        has = re.search("TCP: .* mem ([0-9]+)", stat.read())[1]
    with open("/proc/sys/net/ipv4/tcp_mem", encoding="ascii") as most:
        return f"TCP has {has} of {'/'.join(most.read().split())} pages"


@claim
def slow_and_silent_clients_hold_nothing_and_keep_nobody_out():
    port, large = 8001, body(300 * KB)
    paths = {"/small": b"of the kernel", "/server": b"server\n", "/large": large}
    silent, half, stuck = CROWD // 2, CROWD * 3 // 10, CROWD // 5
    with crowd(port) as (device, many):
        device.info(stall_ms=600000)
        for path in ("/small", "/large"):
            device.put(("127.0.0.1", port), path, paths[path])
        # What the kernel gives to all sockets, with and without a site; what was kept for them is kept on.
        many.ask(f"silent {silent}")
        many.ask("gone")
        device.info(mode=0)
        slab = memory("Slab")
        equal("silent", many.ask(f"silent {silent}"), silent)
        bare = (memory("Slab") - slab) / silent
        many.ask("gone")
        device.info(mode=SOFTIRQ)
        before, slab, free = device.info(), memory("Slab"), kit.free_memory("MemAvailable")
        begin = time.monotonic()
        equal("silent", many.ask(f"silent {silent}"), silent)
        ours = (memory("Slab") - slab) / silent
        equal("half", many.ask(f"half {half}"), silent + half)
        with counted(Hits=lambda n: n >= stuck):
            equal("large", many.ask(f"large {stuck}"), CROWD)
            wait_for("connections", lambda: device.next_site(0)["conns"] >= half + stuck)
        came = time.monotonic() - begin
        during = kit.free_memory("MemAvailable")
        longest = 0
        for _ in range(3):
            many.ask("step")
            longest = max(longest, asks(port, paths, 1))
        print(f"# {CROWD} came in {came:.0f} s; a silent one has {bare:.0f} bytes without a site, {ours:.0f} with one; "
              f"all {(free - during) / CROWD:.0f} each; somebody else waited {longest:.2f} s at most; {tcp_memory()}")
        if ours - bare > KB:
            raise AssertionError("silent ones cost too much")
        if longest > 10 * kit.SLOW:
            raise AssertionError("somebody else waited")
        now = device.info()
        equal("used, objects", (now["used"], now["objects"]), (before["used"], before["objects"]))
        # What they are being sent is replaced: they all hold the same old one.
        device.put(("127.0.0.1", port), "/large", large[::-1])
        equal("held besides", counter("OutsideBytes"), device.query(("127.0.0.1", port), "/large")["charged"])
        equal("nobody was reset", many.ask("reset"), 0)
        with counted(ResetStalled=lambda n: n >= stuck * 9 // 10):
            device.info(stall_ms=2000 * kit.SLOW)
            wait_for("resets", lambda: many.ask("reset") >= stuck * 9 // 10)
        equal("and no other", many.ask("reset") <= stuck, True)
        many.ask("gone")
        wait_for("connections gone", lambda: not device.next_site(0)["conns"])
        wait_for("nothing held besides", lambda: not counter("OutsideBytes"))
        wait_for("the memory", lambda: kit.free_memory("MemAvailable") > free - 16 * MB)
        asks(port, {**paths, "/large": large[::-1]}, 1)
        after = device.info()
        equal("used, objects", (after["used"], after["objects"]), (before["used"], before["objects"]))


@claim
def fields_without_an_end_are_the_servers_and_cost_the_kernel_nothing():
    port, bytes_each, clients = 8002, 200 * KB, kit.rounds(50, 20)
    with crowd(port) as (device, many):
        device.put(("127.0.0.1", port), "/small", b"of the kernel")
        before = device.info()
        with counted(Hits=0, Deferred=clients, Misses=0):
            equal("flood", many.ask(f"flood {clients} {bytes_each}"), clients)
        equal("connections of the kernel's", device.next_site(0)["conns"], 0)
        equal("held besides", counter("OutsideBytes"), 0)
        equal("info", device.info(), before)
        asks(port, {"/small": b"of the kernel", "/server": b"server\n"}, 0)


@claim
def hosts_that_are_only_asked_for_are_remembered_by_nobody():
    with site() as (device, server), contextlib.ExitStack() as stack:
        budget = device.info()["budget"]
        stack.callback(lambda: device.info(budget=budget))
        device.put(server.site, "/a", b"of the kernel", host="h")
        before, slab, number = device.info(), memory("SUnreclaim"), kit.rounds(1000, 200)
        with counted(Hits=number, Misses=number):
            for n in range(number):
                with Client(server.site) as client:
                    client.sock.sendall(wire("/a") + wire("/a", host=f"h{n}." + "x" * 200))
                    equal("hit", client.answer()[1], b"of the kernel")
                    equal("miss", client.answer()[1], b"server /a")
        equal("info", device.info(), before)
        server.read.clear()
        slab = memory("SUnreclaim") - slab
        if slab > 8 * MB:
            raise AssertionError(f"{slab} bytes of slab are gone")
        # And those that a program puts have the budget, names with it.
        device.info(budget=MB)
        with counted(Evicted=lambda n: n > number / 2):
            for n in range(2 * number):
                device.put(server.site, "/a", b"", host=f"h{n}." + "x" * 200, tags="t" * 500)
                used = device.info()["used"]
                if used > MB:
                    raise AssertionError(f"{used} bytes are used")


RANGES = ("0-18446744073709551615", "18446744073709551615-", "-18446744073709551615", "0-0,0-18446744073709551614",
          "1-18446744073709551616", ",".join(["0-"] * 1300), ",".join(f"{n}-{n}" for n in range(1200)), "0-,-1",
          "9" * 7000 + "-")


@claim
def no_range_is_answered_by_the_kernel_nor_makes_an_answer_of_it():
    with site() as (device, server):
        data = body(1000000)
        device.put(server.site, "/big", data)
        before = device.info()
        for text in RANGES:
            for field in (f"Range: bytes={text}\r\n", f"rAnGe:\tbytes={text}\r\n",
                          f"If-Range: x\r\nRange: bytes={text}\r\n"):
                with server.client() as client, counted(Hits=1, Deferred=1, OutsideBytes=0):
                    equal("a hit before it", len(client.get("/big")), len(data))
                    client.ask("/big", fields=field)
                    same("by the server", client.answer()[1], b"server /big")
                    same("what the server read", server.read.pop(), wire("/big", fields=field))
        equal("info", device.info(), before)
        with Client(server.site) as client:
            same("still whole", client.get("/big"), data)


main("afpa_memcached")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# kernel: stock
# timeout: 1200
"""lardd's policy decides in the kernel: the same node for each request, and nothing goes where lardd would not."""
import contextlib
import ctypes
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from early import early_ioctl    # noqa: E402
from hof import PATIENCE, VIP4, Cluster, claim, inside, main, rounds, wait    # noqa: E402

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(path):
    return b"GET %s HTTP/1.1\r\nHost: flotilla\r\n\r\n" % path.encode()


class Farm(Cluster):
    """lardd on fe; the back-ends' servers are this test's."""

    def __init__(self, *lines, backends=3, early="on", **more):
        super().__init__(backends, **more)
        self.dir = tempfile.mkdtemp(prefix="lard-early-")
        self.control, self.conf = os.path.join(self.dir, "control"), os.path.join(self.dir, "conf")
        self.back = [be.listen() for be in self.be]
        self.write(*lines, early=early)
        self.lardd = self.start()

    def write(self, *lines, early="on"):
        with open(self.conf, "w", encoding="ascii") as file:
            file.write("\n".join(("listen %s:80" % VIP4, "control " + self.control, "user root", "proxy-port 80",
                                  "log-level debug", "early " + early) + lines) + "\n")
        self.early = early

    def start(self, *more):
        log = open(os.path.join(self.dir, "log"), "ab")     # pylint: disable=consider-using-with
        lardd = self.fe.spawn("lardd", "-c", self.conf, "--foreground", *more, stderr=log)
        self.ready()
        return lardd

    def ready(self):
        def is_ready():
            with contextlib.suppress(OSError):
                status = self.ask("status")
                return status["nodes"] == len(self.be) and status["early"] == self.early
            return False
        wait(is_ready)

    def param(self, **values):
        """As an operator sets them: lardd has them from there."""
        for name, value in values.items():
            with self.net.sysfs(self.fe.ns, "dispatch/" + name, "w") as file:
                file.write(str(value))
            wait(lambda n=name, v=value: self.ask("policy")[n] == v)

    def ask(self, command, **more):
        with inside(self.fe.ns), socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(json.dumps({"cmd": command, **more}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def reload(self, *lines, early="on"):
        self.write(*lines, early=early)
        assert "error" not in self.ask("reload")
        self.ready()

    def loads(self):
        return [node["load"] for node in sorted(self.ask("nodes")["nodes"], key=lambda node: node["name"])]

    def told(self, name):
        return self.fe.stat("EarlyTable" + name)

    def send(self, path):
        """(index of the back-end, client, server): it has the request and has not answered."""
        client = self.client.connect()
        client.sendall(request(path))
        index, there = self.taken(request(path))
        return index, client, there

    def taken(self, text):
        """(index of the back-end, the connection) of the next request."""
        ready = select.select([sock for sock in self.back if sock], [], [], PATIENCE)[0]
        assert len(ready) == 1, "nobody has it"
        there = ready[0].accept()[0]
        there.settimeout(PATIENCE)
        assert there.recv(1000) == text
        return self.back.index(ready[0]), there

    @staticmethod
    def finish(client, there):
        there.sendall(ANSWER)
        assert client.recv(1000) == ANSWER
        there.close()
        assert client.recv(1) == b""
        client.close()

    def get(self, path):
        index, client, there = self.send(path)
        self.finish(client, there)
        self.settled(0)
        return index

    def settled(self, load):
        """What lardd and the kernel have given, as lardd sees it."""
        wait(lambda: sum(self.loads()) == load and not self.fe.stat("HandoffInFlight"))

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()


def trace(seed, length):
    """("ask", path) and ("end", which of the open ones)."""
    draw = random.Random(seed)
    opened = 0
    for _ in range(length):
        if opened and (opened == 20 or draw.random() < 0.42):
            yield "end", draw.randrange(opened)
            opened -= 1
        else:
            yield "ask", "/t%d" % min(draw.randrange(12), draw.randrange(12))
            opened += 1


def replay(farm, steps):
    """Where each request went, and what lardd's loads were then."""
    where, opened = [], []
    for kind, what in steps:
        if kind == "end":
            farm.finish(*opened.pop(what))
        else:
            index, *pair = farm.send(what)
            opened.append(pair)
            where.append((what, index, None))
        farm.settled(len(opened))
        where.append((kind, what, farm.loads()))
    for pair in opened:
        farm.finish(*pair)
    farm.settled(0)
    return where


@claim
def a_replayed_trace_has_the_same_decisions():
    many, few = rounds(160, 80), rounds(60, 30)
    for policy, steps in ("lard", many), ("lard/r", many), ("lc", few), ("lb", few):
        seen = {}
        for early in "off", "on":
            with Farm("workers %d" % (1 + (policy == "lard/r")), early=early) as farm:
                farm.param(policy=policy, t_low=2, t_high=4, max_outstanding=24, replication_seconds=3600)
                seen[early] = replay(farm, trace(7, steps))
                hits, left = farm.told("Hits"), farm.fe.stat("EarlyLeft")
        for number, (off, on) in enumerate(zip(seen["off"], seen["on"])):
            assert off == on, (policy, number, off, on)
        asked = sum(1 for item in seen["on"] if item[2] is None)
        print("# %s: %d requests, %d decided in the kernel, %d left to lardd" % (policy, asked, hits, left))
        assert hits + left == asked and hits > asked / 4, (policy, hits, left, asked)


@claim
def loads_of_both_are_one():
    with Farm() as farm:
        farm.param(policy="lard", t_low=2, t_high=4)
        ones = [farm.send(path) for path in ("/one", "/two", "/three", "/one", "/one", "/one")]
        home = ones[0][0]
        assert sorted(one[0] for one in ones[:3]) == [0, 1, 2] and [one[0] for one in ones[3:]] == [home] * 3
        assert farm.told("Hits") == 3
        farm.settled(6)
        assert farm.loads()[home] == 4, farm.loads()
        # lardd has given each of them one; it counts the kernel's.
        ones += [farm.send("/%d" % number) for number in range(3)]
        assert home not in [one[0] for one in ones[6:]]
        assert farm.ask("status")["outstanding"] == 9
        for one in ones:
            farm.finish(*one[1:])
        farm.settled(0)
        nodes = farm.ask("nodes")["nodes"]
        assert sum(node["chosen"] for node in nodes) == 9, nodes


@claim
def a_node_that_lardd_takes_out_gets_nothing():
    with Farm() as farm:
        farm.param(policy="lard")
        home = farm.get("/one")
        assert [farm.get("/one") for _ in range(3)] == [home] * 3 and farm.told("Hits") == 3
        name = farm.be[home].name
        # Without a weight it is up and active, as the kernel has it.
        for out, back in (({"node_weight": 0}, {"node_weight": 100}), ({"node_admin": 1}, {"node_admin": 0}),
                          ({"node_admin": 2}, {"node_admin": 0})):
            farm.get("/one")
            farm.fe.nl.do("NODE_SET", node_name=name, **out)
            wait(lambda: farm.ask("status")["nodes"] == 2)
            assert home not in [farm.get("/one") for _ in range(3)]
            farm.fe.nl.do("NODE_SET", node_name=name, **back)
            wait(lambda: farm.ask("status")["nodes"] == 3)
            home = farm.get("/one")
            name = farm.be[home].name
        # Its server has gone: lardd sees that it refuses, and so nobody is sent there.
        farm.get("/one")
        home = farm.get("/one")
        hits = farm.told("Hits")
        farm.back[home].close()
        farm.back[home] = None
        there = [farm.get("/one") for _ in range(6)]
        assert home not in there, there
        assert "node-suspended" in farm.log()
        assert farm.told("Hits") > hits


@claim
def what_the_kernel_gives_ends_a_row_of_refusals():
    with Farm() as farm:
        farm.param(policy="lard")
        paths = {}
        for number in range(15):
            path = "/%d" % number
            paths.setdefault(farm.get(path), []).append(path)
        home, (kept, *others) = max(paths.items(), key=lambda item: len(item[1]))
        assert len(others) >= 3, paths
        for path in others[:3]:
            farm.back[home].close()
            farm.back[home] = None
            assert farm.get(path) != home
            farm.back[home] = farm.be[home].listen()
            hits = farm.told("Hits")
            assert farm.get(kept) == home and farm.told("Hits") == hits + 1
        assert "node-suspended" not in farm.log(), farm.log()


@claim
def a_node_that_dies_and_comes_back_has_lost_its_targets():
    with Farm(heartbeat_ms=300, grace_ms=300) as farm:
        farm.param(policy="lard")
        homes = {path: farm.get(path) for path in ("/one", "/two", "/three", "/four")}
        home = homes["/one"]
        same = next(path for path in homes if path != "/one" and homes[path] == home)
        assert farm.get("/one") == home and farm.told("Hits") == 1
        farm.be[home].run("ip", "link", "set", "eth0", "down")
        wait(lambda: farm.ask("status")["nodes"] == 2)
        other = farm.get("/one")
        assert other != home
        farm.be[home].run("ip", "link", "set", "eth0", "up")
        wait(lambda: farm.ask("status")["nodes"] == 3)
        misses, hits = farm.told("Misses"), farm.told("Hits")
        assert farm.get("/one") == other and farm.told("Hits") == hits + 1
        farm.get(same)
        assert farm.told("Misses") == misses + 1 and farm.told("Hits") == hits + 1


@claim
def it_begins_and_ends_with_a_reload():
    with Farm(early="off") as farm:
        farm.param(policy="lard")
        home = farm.get("/one")
        assert farm.get("/one") == home and farm.fe.stat("EarlySyns") == 0
        farm.reload()
        assert [farm.get("/one") for _ in range(3)] == [home] * 3
        assert farm.told("Misses") == 1 and farm.told("Hits") == 2, farm.fe.stats()
        farm.reload()
        assert farm.get("/one") == home and farm.told("Hits") == 3
        # By another key nothing is found.
        farm.reload("key-host off")
        assert farm.get("/one") >= 0 and farm.told("Hits") == 3
        farm.get("/one")
        assert farm.told("Hits") == 4
        index, *pair = farm.send("/one")
        syns = farm.fe.stat("EarlySyns")
        farm.reload(early="off")
        farm.finish(*pair)
        farm.get("/one")
        assert farm.fe.stat("EarlySyns") == syns and index >= 0


class Opened:
    """How often somebody opened /dev/handoff."""
    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self):
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK)
        assert self.libc.inotify_add_watch(self.fd, b"/dev/handoff", 0x20) >= 0

    def within(self, seconds):
        """What is alike and not read yet is one event: it is looked at often."""
        times, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                times += len(os.read(self.fd, 65536)) // 16
            time.sleep(0.1)
        return times

    def close(self):
        os.close(self.fd)


@claim
def a_service_of_somebody_else_is_asked_for_less_and_less():
    with Farm(early="off") as farm:
        other = farm.fe.handoff()
        early_ioctl(other.fd, [farm.fe.id[be.name] for be in farm.be])
        farm.write()
        assert "error" not in farm.ask("reload")
        wait(lambda: farm.ask("status")["early"].startswith("another program"))
        with contextlib.closing(Opened()) as opened:
            times = opened.within(12)
        # Pauses of 1, 2, 4, 8 and 16 seconds; it was a table each second.
        assert 1 <= times <= 5, times
        other.close()
        farm.ready()


@claim
def connections_go_on_when_lardd_dies():
    with Farm() as farm:
        farm.param(policy="lard")
        farm.get("/one")
        index, *pair = farm.send("/one")
        assert farm.told("Hits") == 1
        farm.lardd.send_signal(signal.SIGKILL)
        farm.lardd.wait()
        try:
            farm.client.connect()
            raise AssertionError("nobody listens")
        except ConnectionRefusedError:
            pass
        farm.finish(*pair)
        farm.lardd = farm.start()
        misses = farm.told("Misses")
        assert farm.get("/one") >= 0 and farm.told("Misses") == misses + 1 and index >= 0


@claim
def a_successor_takes_it_over():
    with Farm() as farm:
        farm.param(policy="lard")
        home = farm.get("/one")
        index, *pair = farm.send("/one")
        assert index == home
        old = farm.lardd
        farm.lardd = farm.start("--takeover")
        wait(lambda: old.poll() is not None)
        farm.ready()
        farm.finish(*pair)
        hits = farm.told("Hits")
        farm.get("/one")
        farm.get("/one")
        assert farm.told("Hits") == hits + 1


@claim
def who_waits_at_lardd_is_not_overtaken_and_gets_the_kernels_room():
    with Farm() as farm:
        farm.param(policy="lard", t_low=2, t_high=4, max_outstanding=3)
        ones = [farm.send("/one") for _ in range(3)]
        assert farm.told("Hits") == 2
        waiting = farm.client.connect()
        waiting.sendall(request("/two"))
        wait(lambda: farm.ask("status")["queued"] == 1)
        late = farm.client.connect()
        late.sendall(request("/one"))
        wait(lambda: farm.ask("status")["queued"] == 2)
        # One that the kernel has given ends: nobody tells lardd.
        farm.finish(*ones[2][1:])
        farm.finish(waiting, farm.taken(request("/two"))[1])
        farm.finish(late, farm.taken(request("/one"))[1])
        for one in ones[:2]:
            farm.finish(*one[1:])
        farm.settled(0)


@claim
def what_lardd_forgets_the_kernel_forgets():
    with Farm("targets 4") as farm:
        farm.param(policy="lard")
        for number in range(8):
            farm.get("/%d" % number)
        hits = farm.told("Hits")
        assert farm.told("Misses") == 8 and hits == 0 and farm.told("Full") == 0, farm.fe.stats()
        for number in range(4, 8):
            farm.get("/%d" % number)
        assert farm.told("Hits") == 4
        farm.get("/0")
        assert farm.told("Misses") == 9


if __name__ == "__main__":
    main()

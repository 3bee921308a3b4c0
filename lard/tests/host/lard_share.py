#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Two front-ends for one cluster: the map of targets and loads are shared, and nobody else is believed."""

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import Backend, Lardd, main, read_answer, until  # noqa: E402

KEY = bytes(range(32))


def free_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def site(nodes=2):
    """Back-ends, and how a front-end at an address is told of another."""
    backends = [Backend(f"be{i}") for i in range(nodes)]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "key")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(KEY.hex() + "\n")
        try:
            yield backends, lambda own, peer: (
                f"share 127.0.0.1:{own}\npeer 127.0.0.1:{peer}\nshare-key {path}\n")
        finally:
            for backend in backends:
                backend.gate.set()
                backend.stop()


@contextlib.contextmanager
def pair(extra="", nodes=2):
    with site(nodes) as (backends, words):
        a, b = free_udp(), free_udp()
        with Lardd(backends, words(a, b) + extra) as one, Lardd(backends, words(b, a) + extra) as two:
            for lardd in (one, two):
                until(lambda: lardd.control("status")["peers"] == 1, what="the peer is heard")
            yield one, two


def table(lardd):
    return lardd.control("stats")["table"]


def hold(lardd, count):
    held = [lardd.connect() for _ in range(count)]
    for s in held:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
    return held


def others(lardd):
    return lardd.control("status")["outstanding_others"]


def gate(lardd, is_open):
    for backend in lardd.backends:
        if is_open:
            backend.gate.set()
        else:
            backend.gate.clear()


def finish(lardd, held):
    gate(lardd, True)
    for s in held:
        assert read_answer(s.makefile("rb"))[0] == 200
        s.close()


def second_front_end_dispatches_what_the_first_knows():
    # What the first does not know has its place by load alone: with three nodes, in turn.
    with pair("policy lard\n", nodes=3) as (one, two):
        homes = {f"/t{n}": one.node_of(f"/t{n}") for n in range(100)}
        until(lambda: table(two)["learnt"] == 100, what="the map is there")
        told = two.control("explain", url="http://h/t7")
        assert told["learnt"] and told["reason"] == "keep" and told["node"] == homes["/t7"], told
        for target in sorted(homes):
            assert two.node_of(target) == homes[target], target
        assert table(two)["adopted"] == 100 and table(two)["learnt"] == 0, table(two)
        assert not two.control("explain", url="http://h/t7")["learnt"]


def loads_of_the_other_count():
    with pair("t_low 2\nt_high 4\n") as (one, two):
        gate(one, False)
        held = hold(one, 3)
        until(lambda: others(two) == 3, what="the other's load")
        loads = {n["name"]: (n["load"], n["load_others"]) for n in two.control("nodes")["nodes"]}
        busy = max(loads, key=lambda name: loads[name][1])
        assert sum(load for load, _ in loads.values()) == 0, loads
        assert two.control("explain", url="http://h/new")["node"] != busy, loads
        finish(one, held)
        until(lambda: others(two) == 0, what="their end")


def limit_holds_for_both_and_each_has_its_part():
    with pair("max_outstanding 8\n") as (one, two):
        gate(one, False)
        first = hold(one, 8)
        until(lambda: others(two) == 8, what="the other's load")
        second = hold(two, 6)
        until(lambda: two.control("status")["queued"] == 2, what="two that wait")
        assert two.control("status")["outstanding"] == 4
        finish(one, first)
        for s in second:
            assert read_answer(s.makefile("rb"))[0] == 200
            s.close()


def loads_of_a_dead_peer_age_out():
    with site() as (backends, words):
        a, b = free_udp(), free_udp()
        with Lardd(backends, words(b, a)) as two:
            one = Lardd(backends, words(a, b))
            gate(one, False)
            held = hold(one, 5)
            until(lambda: others(two) == 5, what="the other's load")
            one.process.kill()
            one.process.wait()
            since = time.monotonic()
            until(lambda: others(two) == 0, what="it is forgotten")
            assert time.monotonic() - since > 1, "at once"
            assert two.control("status")["peers"] == 0
            for s in held:
                s.close()
            one.start()
            until(lambda: two.control("status")["peers"] == 1, what="the peer is heard again")
            gate(one, True)
            one.end()


def datagram(key, kind, sender, receiver, number, nodes, mappings):
    data = struct.pack("!IBBBBQQQ", 0x4c534831, kind, len(nodes), len(mappings), 0, sender, receiver, number)
    data += b"".join(struct.pack("!QI", *n) for n in nodes)
    data += b"".join(struct.pack("!QQ", *m) for m in mappings)
    return data + hmac.new(key, data, hashlib.sha256).digest()


def refused(lardd, s, address, data):
    before = lardd.counter("LardShareRefused")
    s.sendto(data, address)
    until(lambda: lardd.counter("LardShareRefused") == before + 1, what="it is refused")


def garbage_changes_nothing():
    with site() as (backends, words), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        s.bind(("127.0.0.1", 0))
        stranger.bind(("127.0.0.1", 0))
        s.settimeout(20)
        own = free_udp()
        with Lardd(backends, words(own, s.getsockname()[1])) as lardd:
            to = ("127.0.0.1", own)
            s.sendto(datagram(KEY, 0, 77, 0, 1, [], []), to)
            receiver = 0
            while not receiver:                     # the answer names us: its number is for us
                head = struct.unpack("!IBBBBQQQ", s.recv(2000)[:32])
                receiver = head[5] if head[6] == 77 else 0
            ident = identity("be0")
            good = datagram(KEY, 1, 77, receiver, 9, [(ident, 3)], [(1, 1)])
            for data in (b"", good[:-1], good + b"x", good[:40] + b"\xff" + good[41:],
                         datagram(bytes(32), 1, 77, receiver, 9, [(ident, 3)], [(1, 1)]),
                         datagram(KEY, 1, 77, receiver ^ 1, 9, [(ident, 3)], [(1, 1)]),
                         datagram(KEY, 7, 77, receiver, 9, [(ident, 3)], [(1, 1)]),
                         datagram(KEY, 1, 77, receiver, 9, [(ident, 3)] * 65, [])):
                refused(lardd, s, to, data)
            refused(lardd, stranger, to, good)
            assert others(lardd) == 0 and table(lardd)["used"] == 0
            s.sendto(good, to)
            until(lambda: others(lardd) == 3, what="what is right counts")
            assert table(lardd)["learnt"] == 1
            refused(lardd, s, to, good)             # again
            # Nodes that are not known here, and places that no node has.
            s.sendto(datagram(KEY, 1, 77, receiver, 10, [(1234, 9), (ident, 2 ** 32 - 1)], [(2, 1), (3, 2 ** 63)]), to)
            until(lambda: others(lardd) == 1000000, what="as much as may be")
            assert table(lardd)["used"] == 1
            assert lardd.get("/x")[0] == 200


def identity(name):
    """hash_bytes() of mix.h."""
    h, most = 0xcbf29ce484222325, 2 ** 64 - 1
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & most
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        h = (h ^ h >> 33) * factor & most
    return h ^ h >> 33


if __name__ == "__main__":
    sys.exit(main([second_front_end_dispatches_what_the_first_knows, loads_of_the_other_count,
                   limit_holds_for_both_and_each_has_its_part, loads_of_a_dead_peer_age_out,
                   garbage_changes_nothing]))

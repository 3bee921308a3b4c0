#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Checkpoints of other versions: what may be skipped is, what may not is refused by name."""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (Endpoint, Suite, Wire, exchange, listen, move, noise, nothing_to_accept,  # noqa: E402
                      pair, receive, unread, until)
import kmsg  # noqa: E402

suite = Suite()
TUPLE, OPTIONS, PROGRESS, TIMES, RTT, DATA = range(1, 7)
TLS = 9
CRITICAL = Wire.CRITICAL
NEWER = [4711, 0, b"what a later version tells"]


def connection(world, port, data=b"request", **options):
    client, server = pair(world, port, **options)
    client.sendall(data)
    until(lambda: unread(server) == len(data), "the request is on a")
    return client, server


def without(wire, *kinds):
    return [s for s in wire.sections() if s[0] not in kinds]


def among(wire, *more):
    """Sections in front of, between and behind those that are there."""
    there = wire.sections()
    return list(more) + there[:3] + list(more) + there[3:] + list(more)


OTHERS = {
    "no_more_than_there_is": lambda w: Wire.of(w.sections()),
    "a_section_that_is_not_known": lambda w: Wire.of(among(w, NEWER)),
    "an_empty_one": lambda w: Wire.of(among(w, [65535, 0, b""])),
    "a_known_one_with_a_flag_that_is_not": lambda w: Wire.of(without(w, RTT) + [[RTT, 2, bytes(16)]]),
    "another_order": lambda w: Wire.of(w.sections()[::-1]),
    "longer_sections": lambda w: Wire.of([[k, f, b if k == DATA else b + bytes((1, 2, 3))]
                                          for k, f, b in w.sections()]),
    "a_longer_head": lambda w: Wire.of(w.sections(), head=b"what else there is to say"),
    "no_round_trip_times": lambda w: Wire.of(without(w, RTT)),
    "as_many_sections_as_there_may_be": lambda w: Wire.of(w.sections() + [NEWER] * (64 - len(w.sections()))),
}


@suite.each(OTHERS)
def other_version_is_adopted_with(world, name):
    client, server = connection(world, 8401)
    with client, server, listen(world.b, 8401) as at_b:
        move(world, server, world.b, change=OTHERS[name])
        with at_b.accept()[0] as child:
            assert receive(child, 7) == b"request"
            exchange(client, child, noise(20000, 1), noise(20000, 2))


@suite.claim
def what_is_not_there_need_not_be_said(world):
    """No bytes: no data. No timestamps: no times."""
    before = world.c.sysctl(tcp_timestamps=0)
    try:
        client, server = connection(world, 8402, b"")
        with client, server, listen(world.b, 8402) as at_b:
            move(world, server, world.b, change=lambda w: Wire.of(without(w, TIMES, RTT, DATA)))
            with at_b.accept()[0] as child:
                exchange(client, child, noise(20000, 1), noise(20000, 2))
    finally:
        world.c.sysctl(**before)


def refused(world, name, server, port, wires):
    """By that name; nobody sees it, and it goes on where it is."""
    with listen(world.b, port) as at_b, Endpoint() as endpoint:
        good = endpoint.checkpoint(server)
        for what, make in wires.items():
            why = endpoint.adopt(world.b, make(good))
            assert why == name, f"{what}: {why}"
        nothing_to_accept(at_b)
        assert endpoint.unchanged(server, good)


@suite.claim
def what_must_not_be_skipped_is_refused_by_name(world):
    """The log says which section it is, for who has to upgrade that node."""
    client, server = connection(world, 8403)
    needs = {
        "unknown": lambda w: Wire.of(among(w, [4712, CRITICAL, b"state"])),
        "last": lambda w: Wire.of(w.sections() + [[4712, CRITICAL, b""]]),
        "flag": lambda w: Wire.of(without(w, TIMES) + [[TIMES, CRITICAL | 2, bytes(12)]]),
        "flags": lambda w: Wire.of([[4713, 0xffff, b""]] + w.sections()),
    }
    before = kmsg.last()
    with client, server:
        refused(world, "VERSION", server, 8403, needs)
        assert any(re.search(rb"comes with section 471[23],", said) for said in kmsg.records(before)), \
            "the log does not name the section"
        assert receive(server, 7) == b"request"
        exchange(client, server, noise(100, 1), noise(100, 2))


def length(kind, value):
    """The section of that type says another length; the total stays what it is."""
    def change(wire):
        at, copy = 12, Wire(wire)
        for number, flags, body in wire.sections():
            if number == kind:
                Wire.SECTION.pack_into(copy, at, number, flags, value(len(body)))
            at += Wire.SECTION.size + len(body)
        return copy
    return change


def half_a_section(wire):
    cut = Wire(Wire.of(wire.sections() + [NEWER])[:-len(NEWER[2]) - 3])
    cut["total_len"] = len(cut)
    return cut


@suite.claim
def sections_that_cannot_be_are_malformed(world):
    """Missing, twice, too short, too long, overlapping, endless, too many."""
    client, server = connection(world, 8404)
    bad = {}
    for kind in (TUPLE, OPTIONS, PROGRESS, TIMES, DATA):
        bad[f"{kind} missing"] = lambda w, k=kind: Wire.of(without(w, k))
    for kind in range(TUPLE, DATA + 1):
        bad[f"{kind} twice"] = lambda w, k=kind: Wire.of(
            w.sections() + [s for s in w.sections() if s[0] == k])
        for what, value in (("too short", lambda n: n - 1), ("empty", lambda n: 0),
                            ("into the next", lambda n: n + 4), ("over all", lambda n: n + 8),
                            ("past the end", lambda n: 1 << 16), ("endless", lambda n: 0xffffffff),
                            ("round", lambda n: 0xfffffff8)):
            bad[f"{kind} {what}"] = length(kind, value)
    for kind in (TUPLE, OPTIONS, PROGRESS, TIMES, RTT, DATA):
        bad[f"{kind} cut"] = lambda w, k=kind: Wire.of(
            [[n, f, b[:-1] if n == k else b] for n, f, b in w.sections()])
    bad["more data than unread"] = lambda w: Wire.of(without(w, DATA) + [[DATA, 1, b"requests"]])
    bad["type zero"] = lambda w: Wire.of(w.sections() + [[0, 0, b""]])
    bad["half a section"] = half_a_section
    bad["no section"] = lambda w: Wire.of([])
    bad["too many"] = lambda w: Wire.of(w.sections() + [NEWER] * 59)
    with client, server:
        refused(world, "MALFORMED", server, 8404, bad)
        assert receive(server, 7) == b"request"
        exchange(client, server, noise(100, 1), noise(100, 2))


def with_keys(version=0x0304, cipher=51, port=0, zero=0, key=bytes(range(16)) + bytes(16), cut=None, times=1):
    """A change that puts keys of TLS behind the rest."""
    way = key + bytes(12) + bytes(8)
    body = struct.pack(">HHHH", version, cipher, port, zero) + way + way
    return lambda w: Wire.of(w.sections() + times * [[TLS, CRITICAL, body[:cut]]])


@suite.claim
def keys_that_cannot_be_are_refused(world):
    client, server = connection(world, 8405)
    with client, server:
        refused(world, "MALFORMED", server, 8405, {
            "short": with_keys(cut=-1), "twice": with_keys(times=2), "not zero": with_keys(zero=1),
            "a key too long": with_keys(key=bytes(31) + b"1"), "empty": with_keys(cut=0)})
        refused(world, "KTLS", server, 8405, {
            "TLS 1.2": with_keys(version=0x0303), "no version": with_keys(version=0),
            "no cipher": with_keys(cipher=0), "another cipher": with_keys(cipher=53)})
        refused(world, "NOLISTENER", server, 8405, {"another port": with_keys(port=8406)})
        assert receive(server, 7) == b"request"
        exchange(client, server, noise(100, 1), noise(100, 2))


if __name__ == "__main__":
    suite.main()

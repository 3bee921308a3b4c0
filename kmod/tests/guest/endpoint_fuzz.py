#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""Spoilt checkpoints: whatever arrives, the kernel survives and nothing is left behind.

FLT_FUZZ_ROUNDS (10000, on the debug kernel 3000) and FLT_FUZZ_SEED (1) are for longer and for
repeated runs.
"""
import collections
import os
import random
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (Endpoint, Suite, Wire, exchange, listen, move, noise, pair,  # noqa: E402
                      receive, tcp_info, unread, until)
from patience import rounds                             # noqa: E402

suite = Suite()
ROUNDS = int(os.environ.get("FLT_FUZZ_ROUNDS", rounds(10000, 3000)))
SEED = int(os.environ.get("FLT_FUZZ_SEED", "1"))
PORT = 8301
INTERESTING = (0, 1, 2, 7, 14, 15, 16, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000,
               0x3fffc000, 0x3fffffff, 0x40000000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff)


def seeds(world):
    """Good checkpoints of every kind, of connections that are no more."""
    wires = []
    for v, count, fin in ((4, 0, False), (4, 3000, False), (4, 10, True), (6, 100, False),
                          (6, 20000, True), (6, 0, True)):
        client, server = pair(world, PORT, v)
        client.sendall(bytes(count))
        if fin:
            client.shutdown(socket.SHUT_WR)
            until(lambda s=server: tcp_info(s)["state"] == 8, "CLOSE_WAIT")
        until(lambda s=server, n=count: unread(s) == n, "all is on a")
        with client, server, Endpoint() as endpoint:
            wires.append(endpoint.checkpoint(server))
            endpoint.release(server)
    # And in the middle of an answer.
    for wire, sent, size in ((wires[1], 3000, 3000), (wires[2], 0, 7), (wires[3], 20000, 70000)):
        una = wire["snd_una"]
        wires.append(Wire.of(wire.sections() + [
            [7, Wire.CRITICAL, struct.pack(">II", (una + sent) & 0xffffffff, (una + size) & 0xffffffff)],
            [8, Wire.CRITICAL, bytes(size)]]))
    return wires


def reassemble(wire, rng):
    """The same checkpoint in other sections: fewer, more, longer, in another order, of other types."""
    sections = wire.sections()
    for _ in range(rng.randint(1, 3)):
        kind, at = rng.random(), rng.randrange(len(sections))
        section = sections[at]
        if kind < 0.15:
            rng.shuffle(sections)
        elif kind < 0.3:
            # Both ways of skipping are used: the type is not known, or a flag is not.
            sections.insert(at, [rng.choice((0, 7, 8, 255, 256, 0x7fff, 0xffff, 1, 6)),
                                 rng.choice((0, 0, 0, 1, 2, 3, 0x8000, 0xffff)),
                                 rng.randbytes(rng.choice((0, 1, 7, 40, 3000)))])
        elif kind < 0.4:
            sections.insert(rng.randrange(len(sections) + 1), list(section))
        elif kind < 0.5 and len(sections) > 1:
            del sections[at]
        elif kind < 0.65:
            section[2] += rng.randbytes(rng.randint(1, 50))
        elif kind < 0.8:
            section[2] = section[2][:rng.randrange(len(section[2]) + 1)]
        elif kind < 0.9:
            section[1] = rng.choice((0, 1, 2, 3, 0x8000, 0xffff))
        else:
            sections += [[rng.randrange(7, 65536), 0, b""] for _ in range(rng.randint(40, 80))]
    wire = Wire.of(sections, rng.randbytes(rng.choice((0, 0, 0, 4, 200))))
    if rng.random() < 0.3:
        # A length that points somewhere else.
        at = wire["header_len"]
        for _ in range(rng.randrange(len(sections))):
            at += Wire.SECTION.size + Wire.SECTION.unpack_from(wire, at)[2]
        length = rng.choice(INTERESTING + (len(wire), len(wire) - at, len(wire) - at - 8))
        struct.pack_into(">I", wire, at + 4, length & 0xffffffff)
    return wire


def spoil(wire, rng):
    """One to four changes."""
    if rng.random() < 0.4:
        return reassemble(wire, rng)
    wire = Wire(wire)
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.35:
            name = rng.choice(list(Wire.LAYOUT))
            offset, code = Wire.LAYOUT[name]
            if offset + struct.calcsize(code) > len(wire):
                continue
            if code == ">16s":
                value = rng.randbytes(16)
            else:
                value = rng.choice(INTERESTING) & ((1 << 8 * struct.calcsize(code)) - 1)
            wire[name] = value
        elif kind < 0.6 and wire:
            # The fields after the addresses: what passes the first checks.
            position = rng.randrange(min(Wire.LAYOUT["flags"][0], len(wire) - 1),
                                     min(Wire.HEADER, len(wire)))
            wire[position] = rng.randrange(256)
        elif kind < 0.8 and wire:
            wire[rng.randrange(len(wire))] ^= 1 << rng.randrange(8)
        elif kind < 0.9:
            del wire[rng.randrange(len(wire) + 1):]
            if len(wire) >= Wire.HEADER and rng.random() < 0.8:
                wire.fit()
        else:
            wire += rng.randbytes(rng.randint(1, 5000))
            if len(wire) >= Wire.HEADER:
                wire.fit()
    return wire


def use(listeners, rng):
    """Accept what was committed and do with it what a server does."""
    for listener in listeners:
        try:
            child = listener.accept()[0]
        except BlockingIOError:
            continue
        child.setblocking(False)
        try:
            for _ in range(rng.randint(0, 3)):
                if rng.random() < 0.5:
                    child.recv(rng.randint(1, 30000))
                else:
                    child.send(bytes(rng.randint(1, 30000)))
        except OSError:
            pass
        child.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        child.close()


@suite.claim
def spoilt_checkpoints_do_no_harm(world):
    """Each is refused, or makes a connection that can be used or dropped."""
    rng = random.Random(SEED)
    wires = seeds(world)
    outcomes = collections.Counter()
    listeners = [listen(world.b, PORT), listen(world.b, PORT, 6)]
    for listener in listeners:
        listener.setblocking(False)
    with Endpoint() as endpoint, world.b:
        for _ in range(ROUNDS):
            wire = spoil(rng.choice(wires), rng)
            why, _ = endpoint.call(endpoint.ADOPT, None, wire)
            outcomes[why] += 1
            if why != "NONE":
                continue
            if rng.random() < 0.3:
                endpoint.abort()
            else:
                assert endpoint.commit() == "NONE"
                use(listeners, rng)
    print(f"# seed {SEED}, {ROUNDS} rounds:",
          ", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    for listener in listeners:
        listener.close()
    assert outcomes["NONE"] > ROUNDS // 20, "too few pass for this to be a test"
    assert outcomes["MALFORMED"] > ROUNDS // 20, "too few are refused for this to be a test"
    assert outcomes["VERSION"] > ROUNDS // 50, "too few need what is not known"


def sockets(node):
    """Lines of /proc/net/tcp and tcp6: one for each socket that is not yet closed, adopted ones too.

    Not sockstat: its orphans are those of the whole machine, whoever left them.
    """
    lines = []
    with node:
        for name in ("tcp", "tcp6"):
            with open("/proc/self/net/" + name, encoding="ascii") as file:
                lines += file.read().splitlines()[1:]
    return lines


@suite.claim
def moves_go_on_after_it(world):
    """And nothing is left of all those children."""
    try:
        until(lambda: not sockets(world.b), "no socket is left on b")
    except AssertionError:
        print("#", *sockets(world.b)[:10], sep="\n# ")
        raise
    client, server = pair(world, PORT)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    with client, server, listen(world.b, PORT) as at_b:
        move(world, server, world.b)
        with at_b.accept()[0] as child:
            assert receive(child, 7) == b"request"
            exchange(client, child, noise(20000, 1), noise(20000, 2))


if __name__ == "__main__":
    suite.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""A connection moves when the server has said its last word, and when the client's bytes have a hole."""
import contextlib
import os
import random
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (ACK, FIN, PSH, VIP, Capture, Difference, Endpoint, Refused, Suite, Wire,  # noqa: E402
                      answers_lost, answers_of_b_lost, client_cut_off, exchange, inject, listen, move, noise,
                      pair, patient, queue_seq, receive, refuses_all, tcp_info, unread, until)
from patience import PATIENCE, rounds                   # noqa: E402

suite = Suite()
MOST = Endpoint.MOST
END, RANGES, RANGEDATA = 11, 12, 13
STATES = {"FIN_WAIT1": 4, "FIN_WAIT2": 5, "CLOSE_WAIT": 8, "LAST_ACK": 9, "CLOSING": 11}


def comes_to(sock, state):
    until(lambda: tcp_info(sock)["state"] == STATES[state], state)


def section(wire, kind):
    return {k: body for k, _, body in wire.sections()}.get(kind)


@contextlib.contextmanager
def moved(world, server, port, v, end, state):
    """Given to b with its FIN where `end` says, and accepted there; b sends nothing before the body begins."""
    with listen(world.b, port, v) as at_b, answers_of_b_lost(world):
        wire = move(world, server, world.b, send=MOST)
        child = at_b.accept()[0]
        assert section(wire, END) == bytes([end, 0, 0, 0]), section(wire, END)
        assert tcp_info(child)["state"] == STATES[state], tcp_info(child)["state"]
    child.settimeout(PATIENCE)
    assert server.recv(10) == b""
    with child:
        try:
            child.send(b"x")
            raise AssertionError("it writes behind its end")
        except BrokenPipeError:
            pass
        yield child


def is_over(world, port):
    """Nothing of the service is left on b but what waits for late segments."""
    def states():
        with world.b, open("/proc/self/net/tcp", encoding="ascii") as file, \
                open("/proc/self/net/tcp6", encoding="ascii") as file6:
            rows = [line.split() for line in file.readlines()[1:] + file6.readlines()[1:]]
        return {row[3] for row in rows if row[1].endswith(":%04X" % port)}
    until(lambda: states() <= {"06"}, "it ends")


@suite.each((4, 6))
def its_end_is_acknowledged(world, v):
    """FIN_WAIT2: nothing is sent again, and the client still writes."""
    client, server = pair(world, 8701, v)
    with client, server:
        server.sendall(b"answer")
        server.shutdown(socket.SHUT_WR)
        assert receive(client, 10) == b"answer"
        comes_to(server, "FIN_WAIT2")
        client.sendall(b"unread")
        until(lambda: unread(server) == 6, "it is on a")
        seen = Difference(world.c)
        with moved(world, server, 8701, v, 3, "FIN_WAIT2") as child:
            assert seen["InSegs"] == 0 or v == 6
            more = noise(20000, 1)
            client.sendall(more)
            assert receive(child, 6 + len(more)) == b"unread" + more
            client.close()
            assert child.recv(1) == b""
        seen.quiet()
    is_over(world, 8701)


@suite.each((4, 6))
def its_end_is_under_way(world, v):
    """FIN_WAIT1: the client has got neither the answer nor the end; both come once, from b."""
    client, server = pair(world, 8702, v)
    answer = noise(30000, 2)
    with client, server, Capture(world.c) as capture:
        with answers_lost(world):
            server.sendall(answer)
            server.shutdown(socket.SHUT_WR)
            comes_to(server, "FIN_WAIT1")
            ends = 2 if not tcp_info(server)["notsent_bytes"] else 1
            with moved(world, server, 8702, v, ends, "FIN_WAIT1") as child:
                assert receive(client, len(answer) + 1) == answer
                comes_to(child, "FIN_WAIT2")
                client.sendall(b"more")
                assert receive(child, 4) == b"more"
                client.close()
                assert child.recv(1) == b""
        if v == 4:
            ends = [x for x in capture.segments() if x[0] == (VIP[4], 8702) and x[2] & FIN]
            assert len({x[3] + x[5] for x in ends}) == 1, ends
    is_over(world, 8702)


@suite.claim
def its_end_waits_for_the_window(world):
    """FIN_WAIT1, and neither the last bytes nor the end have been sent."""
    with patient(world):
        client, server = pair(world, 8703, SO_RCVBUF=20000, listener={"SO_SNDBUF": 400000})
        answer = noise(150000, 3)
        with client, server:
            server.sendall(answer)
            server.shutdown(socket.SHUT_WR)
            until(lambda: not tcp_info(server)["unacked"] and unread(client), "nothing is under way")
            assert tcp_info(server)["notsent_bytes"] > 1000
            with moved(world, server, 8703, 4, 1, "FIN_WAIT1") as child:
                assert receive(client, len(answer) + 1) == answer
                comes_to(child, "FIN_WAIT2")


@suite.claim
def both_have_ended_at_once(world):
    """CLOSING: the client has not heard of it."""
    client, server = pair(world, 8704)
    with client, server:
        with answers_lost(world):
            server.shutdown(socket.SHUT_WR)
            client.sendall(b"last")
            client.shutdown(socket.SHUT_WR)
            comes_to(server, "CLOSING")
            with moved(world, server, 8704, 4, 2, "CLOSING") as child:
                assert client.recv(1) == b""
                assert receive(child, 10) == b"last"
    is_over(world, 8704)


@suite.claim
def the_client_had_ended_first(world):
    """LAST_ACK, with bytes unread; on b it is CLOSING, which accept() takes without a word in the log."""
    client, server = pair(world, 8705)
    with client, server:
        client.sendall(b"request")
        client.shutdown(socket.SHUT_WR)
        comes_to(server, "CLOSE_WAIT")
        with answers_lost(world):
            server.sendall(b"answer")
            server.shutdown(socket.SHUT_WR)
            comes_to(server, "LAST_ACK")
            with moved(world, server, 8705, 4, 2, "CLOSING") as child:
                assert receive(client, 10) == b"answer"
                assert receive(child, 10) == b"request"
    is_over(world, 8705)


def hole(world, client, server):
    """Three segments of 1000 bytes, of which a has the second."""
    parts = [noise(1000, n) for n in range(3)]
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client_cut_off(world):
        client.sendall(parts[0])
    client.sendall(parts[1])
    until(lambda: tcp_info(client)["sacked"] == 1, "a has said that it has the second")
    assert unread(server) == 0
    return parts


@suite.each((4, 6))
def what_has_come_is_not_sent_again(world, v):
    """The client sends the lost segment alone: b says what a had said that it has."""
    before = world.c.sysctl(tcp_recovery=0)
    try:
        with patient(world):
            client, server = pair(world, 8710, v)
            with client, server, listen(world.b, 8710, v) as at_b:
                exchange(client, server, b"hello", b"hello")
                parts = hole(world, client, server)
                seen = Difference(world.c)
                wire = move(world, server, world.b, send=MOST)
                assert section(wire, RANGEDATA) == parts[1]
                with at_b.accept()[0] as child:
                    child.settimeout(PATIENCE)
                    more = [noise(1000, n) for n in range(5, 9)]
                    for part in more:   # three that come make the client send the lost one
                        client.sendall(part)
                    whole = b"".join(parts[:2] + more)
                    assert receive(child, len(whole)) == whole
                    until(lambda: not tcp_info(client)["unacked"], "acknowledged")
                    assert tcp_info(client)["total_retrans"] == 1, tcp_info(client)
                    exchange(client, child, noise(20000, 1), noise(20000, 2))
                seen.quiet()
    finally:
        world.c.sysctl(**before)


@suite.claim
def many_holes_overlaps_and_an_end_out_of_order(world):
    """Whatever a has put in order, b has; the client's end comes behind its bytes."""
    for end in (False, True):
        world.steer(world.a)
        client, server = pair(world, 8711)
        data = noise(3000, 4)
        with client, server, listen(world.b, 8711) as at_b:
            seq, ack = queue_seq(client, 2), queue_seq(client, 1)

            def put(start, stop, flags=ACK | PSH, seq=seq, ack=ack, client=client):
                inject(world.c, client.getsockname(), (VIP[4], 8711), seq + start, ack, flags, data[start:stop])
            for start in range(100, 2900, 200):
                put(start, start + 100)
            put(350, 520)       # over a gap, into both neighbours
            put(2700, 2800)     # again
            put(2950, 3000, ACK | PSH | (FIN if end else 0))
            with Endpoint() as endpoint:
                until(lambda: sum(struct.unpack(">III", section(w, RANGES)[n:n + 12])[1] for w in
                                  [endpoint.checkpoint(server, MOST)] if section(w, RANGES)
                                  for n in range(0, len(section(w, RANGES)), 12)) == 1400 + 100 + 50,
                      "all is on a")
            wire = move(world, server, world.b, send=MOST)
            ranges = [struct.unpack(">III", section(wire, RANGES)[n:n + 12])
                      for n in range(0, len(section(wire, RANGES)), 12)]
            assert ranges[1] == ((seq + 300) & 0xffffffff, 300, 0), ranges
            assert [x[2] for x in ranges] == [0] * (len(ranges) - 1) + [int(end)], ranges
            with at_b.accept()[0] as child:
                child.settimeout(PATIENCE)
                for start in [0] + list(range(200, 2900, 200)) + [2900]:
                    put(start, start + 100 if start < 2900 else 2950)
                assert receive(child, 3000) == data
                if end:
                    assert child.recv(1) == b""
                    comes_to(child, "CLOSE_WAIT")


@suite.claim
def a_hole_and_an_end_of_the_server(world):
    """Both at once."""
    client, server = pair(world, 8712)
    with client, server:
        server.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        comes_to(server, "FIN_WAIT2")
        seq, ack = queue_seq(client, 2), queue_seq(client, 1)
        inject(world.c, client.getsockname(), (VIP[4], 8712), seq + 3, ack, ACK | PSH, b"def")
        with Endpoint() as endpoint:
            until(lambda: section(endpoint.checkpoint(server, MOST), RANGES), "it is on a")
        with moved(world, server, 8712, 4, 3, "FIN_WAIT2") as child:
            client.sendall(b"abc")
            assert receive(child, 6) == b"abcdef"


@suite.claim
def who_knows_neither_is_given_neither(world):
    """Refused by name, and they go on here."""
    client, server = pair(world, 8713)
    with client, server, Endpoint() as endpoint:
        seq, ack = queue_seq(client, 2), queue_seq(client, 1)
        inject(world.c, client.getsockname(), (VIP[4], 8713), seq + 3, ack, ACK | PSH, b"def")
        until(lambda: section(endpoint.checkpoint(server, MOST), RANGES), "it is on a")

        def refused(name):
            try:
                endpoint.checkpoint(server)
                raise AssertionError("taken")
            except Refused as why:
                assert str(why) == name, why
        refused("OOO")
        server.shutdown(socket.SHUT_WR)
        comes_to(server, "FIN_WAIT2")
        refused("STATE")
        client.sendall(b"abc")
        assert receive(server, 6) == b"abcdef" and client.recv(1) == b""


def lies(good, rng):
    """(what, checkpoint): ends and ranges that cannot be."""
    sections = good.sections()
    nxt = (good["rcv_start"] + good["unread"]) & 0xffffffff
    una = good["snd_una"]

    def end(value, zero=b"\0\0\0", more=()):
        return Wire.of(sections + list(more) + [[END, 1, bytes([value]) + zero]])

    def ranges(*which, data=None, cut=0):
        body = b"".join(struct.pack(">III", (nxt + at) & 0xffffffff, size, flags) for at, size, flags in which)
        data = bytes(sum(x[1] for x in which)) if data is None else data
        return Wire.of(sections + [[RANGES, 1, body[:len(body) - cut]], [RANGEDATA, 1, data]])

    def sent(unsent):
        numbers = struct.pack(">II", (una + 10 - unsent) & 0xffffffff, (una + 10) & 0xffffffff)
        return [[7, 1, numbers], [8, 1, bytes(10)]]

    for value in (0, 4, 255):
        yield f"end {value}", end(value)
    yield "more in it", end(3, b"\0\1\0")
    yield "acknowledged behind what is not", end(3, more=sent(0))
    yield "sent behind what is not", end(2, more=sent(1))
    yield "both ended, and both heard", Wire.of(end(3).but(flags=good["flags"] | 16, unread=good["unread"]).sections())
    yield "no gap", ranges((0, 5, 0))
    yield "before what has come", ranges((-3, 5, 0))
    yield "next to each other", ranges((1, 5, 0), (6, 5, 0))
    yield "overlapping", ranges((1, 5, 0), (4, 5, 0))
    yield "not in order", ranges((20, 5, 0), (1, 5, 0))
    yield "empty", ranges((1, 0, 0))
    yield "out of the window", ranges((1 << 30, 5, 0))
    yield "half the space", ranges(((1 << 31) - 1, 5, 0))
    yield "behind an end", ranges((1, 5, 1), (20, 5, 0))
    yield "a flag", ranges((1, 5, 2))
    yield "too many", ranges(*((1 + 2 * n, 1, 0) for n in range(1025)))
    yield "too few bytes", ranges((1, 5, 0), data=bytes(4))
    yield "too many bytes", ranges((1, 5, 0), data=bytes(6))
    yield "no bytes' section", Wire.of(sections + [[RANGES, 1, struct.pack(">III", nxt + 1 & 0xffffffff, 5, 0)]])
    yield "no ranges", Wire.of(sections + [[RANGEDATA, 1, bytes(5)]])
    yield "ranges cut", ranges((1, 5, 0), (10, 5, 0), cut=rng.randrange(1, 12))
    yield "more than may be", ranges((1, MOST, 0), data=bytes(MOST))
    yield "a length", ranges((1, rng.getrandbits(32) | 1 << 24, 0), data=bytes(5))


@suite.claim
def ends_and_ranges_that_cannot_be(world):
    """Malformed, and nobody's connection is touched."""
    refuses_all(world, 8714, rounds(5, 2), random.Random(3), lies)


@suite.claim
def ranges_that_can_be(world):
    """Any, anywhere in the sequence space, with each end: made, parked, and gone without a trace."""
    rng = random.Random(4)
    client, server = pair(world, 8715)
    with client, server, listen(world.b, 8715), Endpoint() as endpoint:
        good = endpoint.checkpoint(server, MOST)
        most = good["rcv_wnd"] - 100
        for number in range(rounds(60, 15)):
            start = rng.choice((0, 1, 0xffffff00, 0x7fffff00, rng.getrandbits(32)))
            wire = good.but(**{name: (start + good[name] - good["rcv_start"]) & 0xffffffff
                               for name in ("rcv_start", "rcv_wup", "snd_wl1")})
            many = rng.choice((1, 2, 30, 1000))
            at, body, size = 0, b"", 0
            for left in range(many, 0, -1):
                at += rng.randrange(1, 20)
                length = rng.choice((1, 5, rng.randrange(1, max(2, most // many - 20))))
                body += struct.pack(">III", (start + at) & 0xffffffff, length, rng.randrange(2) if left == 1 else 0)
                at, size = at + length, size + length
            sections = wire.sections() + [[RANGES, 1, body], [RANGEDATA, 1, rng.randbytes(size)]]
            end = rng.randrange(4)
            if end:
                sections.append([END, 1, bytes([end, 0, 0, 0])])
            why = endpoint.adopt(world.b, Wire.of(sections))
            assert why == "NONE", f"{number}: {many} ranges, {size} bytes, from {start:#x}, end {end}: {why}"
            endpoint.abort()
        exchange(client, server, noise(1000, 1), noise(1000, 2))


if __name__ == "__main__":
    suite.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""TCP's state, field by field: on b it is what it was on a, as TCP itself tells (TCP_REPAIR, TCP_INFO).

These are the fields that CRIU's libsoccr saves, and what it leaves out. Each claim also spoils its field in a
checkpoint: then what TCP tells on b must differ, or the claim could not fail.
"""
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (CLIENT, VIP, Endpoint, Suite, Wire, answers_lost, answers_of_b_lost, exchange,  # noqa: E402
                      listen, move, noise, pair, patient, receive, tcp_info, unread, until)
from patience import PATIENCE                           # noqa: E402

suite = Suite()
TCP = socket.IPPROTO_TCP
REPAIR, REPAIR_QUEUE, QUEUE_SEQ, TIMESTAMP, REPAIR_WINDOW = 19, 20, 21, 24, 29
MASK = 0xffffffff
NO_QUEUE, RECEIVED, SENT = 0, 1, 2
MOST = Endpoint.MOST
# In milliseconds, of which the clock may go on between two looks.
LATER = 1000 * PATIENCE


def number(sock, option):
    return sock.getsockopt(TCP, option) & MASK


def count(sock, request):
    return struct.unpack("i", fcntl.ioctl(sock, request, bytes(4)))[0]


def look(sock):
    """All that TCP tells of a connection; nothing is changed or sent by that."""
    seen = {name: value for name, value in tcp_info(sock).items()
            if name in ("state", "options", "snd_wscale", "rcv_wscale", "snd_mss", "advmss", "rtt", "rttvar", "min_rtt",
                        "rto", "backoff", "rcv_ssthresh", "sacked", "snd_cwnd", "snd_ssthresh", "unacked")}
    seen["inq_len"], seen["outq_len"], seen["unsq_len"] = (count(sock, n) for n in (0x541b, 0x5411, 0x894b))
    seen["window_clamp"] = number(sock, socket.TCP_WINDOW_CLAMP)
    sock.setsockopt(TCP, REPAIR, 1)
    sock.setblocking(False)     # or recv() would wait for something to read first
    try:
        for name, queue, size in (("in", RECEIVED, seen["inq_len"]), ("out", SENT, seen["outq_len"])):
            sock.setsockopt(TCP, REPAIR_QUEUE, queue)
            seen[name + "q_seq"] = number(sock, QUEUE_SEQ)
            if size:        # the first of what is under way may be acknowledged in part
                seen[name + "q"] = sock.recv(size + (queue == SENT) * MOST, socket.MSG_PEEK)[-size:]
        sock.setsockopt(TCP, REPAIR_QUEUE, NO_QUEUE)
        seen["mss_clamp"] = number(sock, socket.TCP_MAXSEG)
        seen["timestamp"] = number(sock, TIMESTAMP)
        window = struct.unpack("=5I", sock.getsockopt(TCP, REPAIR_WINDOW, 20))
        seen.update(zip(("snd_wl1", "snd_wnd", "max_window", "rcv_wnd", "rcv_wup"), window))
    finally:
        sock.settimeout(PATIENCE)
        sock.setsockopt(TCP, REPAIR, -1)
    seen["snd_una"] = (seen["outq_seq"] - seen["outq_len"]) & MASK
    seen["snd_nxt"] = (seen["outq_seq"] - seen["unsq_len"]) & MASK
    seen["rcv_edge"] = (seen["rcv_wup"] + seen["rcv_wnd"]) & MASK
    seen["rto"] >>= seen["backoff"]         # how often it has run out is the giver's
    return seen


def idle(world, port, stack):
    """A connection that was used both ways and rests."""
    client, server = (stack.enter_context(sock) for sock in pair(world, port))
    exchange(client, server, noise(20000, 1), noise(60000, 2))
    until(lambda: not tcp_info(client)["unacked"] and not tcp_info(server)["unacked"], "all is acknowledged")
    return client, server


def request(world, port, stack):
    """The server has read nothing yet of 3000 bytes."""
    client, server = idle(world, port, stack)
    client.sendall(noise(3000, 3))
    until(lambda: unread(server) == 3000 and not tcp_info(client)["unacked"], "the request is on a")
    return client, server


def ended(world, port, stack):
    """The client has closed its side behind its request."""
    client, server = request(world, port, stack)
    client.shutdown(socket.SHUT_WR)
    until(lambda: tcp_info(server)["state"] == 8 and tcp_info(client)["state"] == 5, "the FIN is acknowledged")
    return client, server


def answer(world, port, stack):
    """Bytes are under way that the client does not get."""
    client, server = request(world, port, stack)
    stack.enter_context(answers_lost(world))
    stack.enter_context(answers_of_b_lost(world))
    server.sendall(noise(5000, 4))
    until(lambda: tcp_info(server)["unacked"], "the answer is under way")
    return client, server


def shut(world, port, stack):
    """The client's window is full, and more is to be sent."""
    client, server = (stack.enter_context(sock) for sock in pair(world, port, SO_RCVBUF=4096))
    server.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            server.send(noise(4096, 5))
    server.settimeout(PATIENCE)
    until(lambda: not tcp_info(server)["unacked"], "nothing is under way")
    stack.enter_context(answers_of_b_lost(world))
    return client, server


class Moved:
    """What TCP tells of a connection before and after it has moved; spoil: what changes its checkpoint."""

    def __init__(self, world, port, situation, spoil=None, trust=False):
        world.steer(world.a)
        with contextlib.ExitStack() as stack:
            stack.enter_context(patient(world))
            client, server = situation(world, port, stack)
            at_b = stack.enter_context(listen(world.b, port))
            self.before = look(server)
            self.wire = move(world, server, world.b, spoil, send=MOST, trust=trust)
            child = stack.enter_context(at_b.accept()[0])
            self.after = look(child)
            # Of a connection that is spoilt nobody is to hear any more.
            for sock in (client, child):
                sock.setsockopt(TCP, REPAIR, 1)
        world.steer(world.a)


ALL = (idle, request, ended, answer, shut)
PORT = 8600
WHOLE = {}


def whole(world, situation, trust):
    """Of one move all claims have their fields."""
    key = (situation, trust)
    if key not in WHOLE:
        WHOLE[key] = Moved(world, PORT, situation, trust=trust)
    return WHOLE[key]


def field(names, situations, spoil, same=None, trust=False):
    """A claim: in these situations TCP tells the same on b, and something else if the checkpoint is spoilt."""
    def equal(before, after):
        return all(before.get(name) == after.get(name) for name in names)

    same = same or equal

    def show(seen):
        return {name: seen.get(name) for name in names}

    def holds(world):
        for situation in situations:
            moved = whole(world, situation, trust)
            assert same(moved.before, moved.after), \
                f"{situation.__name__}: {show(moved.before)} -> {show(moved.after)}"
        moved = Moved(world, PORT, situations[-1], spoil, trust)
        assert not same(moved.before, moved.after), f"spoilt, b tells the same: {show(moved.after)}"

    return holds


def claim(name, *args, **kwargs):
    suite.claims.append((name, field(*args, **kwargs)))


def plus(name, difference):
    """Spoils one number."""
    return lambda wire: wire.but(**{name: (wire[name] + difference) & MASK})


def less_received(wire):
    """Nothing has acknowledged the last number that was received, which is not in the checkpoint any more."""
    return wire.but(rcv_wup=(wire["rcv_wup"] - 1) & MASK, snd_wl1=(wire["snd_wl1"] - 1) & MASK)


def without_data(wire):
    """The unread bytes, but one, are not there."""
    sections = wire.sections()
    for section in sections:
        if section[0] == Wire.SECTIONS["data"][0]:
            section[2] = section[2][:-1]
    return less_received(Wire.of(sections).but(unread=wire["unread"] - 1))


def other_sent(change):
    """Spoils what the client has not acknowledged: change(snd_nxt, write_seq, bytes)."""
    def spoil(wire):
        sections = [s for s in wire.sections() if s[0] not in (7, 8)]
        nxt, end, data = change(*wire.send())
        return Wire.of(sections + [[7, 1, struct.pack(">II", nxt & MASK, end & MASK)], [8, 1, data]])
    return spoil


def other_bytes(at):
    """Spoils one byte of a section."""
    def spoil(wire):
        sections = wire.sections()
        for section in sections:
            if section[0] == at:
                section[2] = bytes([section[2][0] ^ 1]) + section[2][1:]
        return Wire.of(sections)
    return spoil


claim("state", ("state",), (idle, ended), lambda wire: less_received(wire.but(flags=wire["flags"] & ~16)))
claim("length_of_what_is_unread", ("inq_len",), (request, ended), without_data)
claim("bytes_of_what_is_unread", ("inq",), (request, ended), other_bytes(6))
claim("sequence_number_of_what_comes", ("inq_seq",), ALL, plus("rcv_start", 1))
claim("length_of_what_is_not_acknowledged", ("outq_len",), (answer, shut),
      other_sent(lambda nxt, end, data: (nxt, end - 1, data[:-1])))
claim("bytes_of_what_is_not_acknowledged", ("outq",), (answer, shut), other_bytes(8))
claim("sequence_number_of_what_is_written", ("outq_seq",), ALL,
      other_sent(lambda nxt, end, data: (nxt, end + 1, data + b"x")))
claim("sequence_number_of_what_is_not_acknowledged", ("snd_una",), (shut, answer, idle), plus("snd_una", 1))
claim("length_of_what_is_not_sent", ("unsq_len", "snd_nxt"), (shut, answer),
      other_sent(lambda nxt, end, data: (nxt - 1, end, data)))
claim("options_of_the_handshake", ("options",), ALL, lambda wire: wire.but(flags=wire["flags"] & ~2))
claim("segment_size_of_the_client", ("mss_clamp", "snd_mss", "advmss"), ALL, plus("mss_clamp", -100))
claim("scale_of_the_clients_window", ("snd_wscale",), ALL, lambda wire: wire.but(snd_wscale=wire["snd_wscale"] ^ 1))
claim("scale_of_the_own_window", ("rcv_wscale",), ALL, lambda wire: wire.but(rcv_wscale=wire["rcv_wscale"] ^ 1))
claim("clock_of_the_timestamps", ("timestamp",), ALL, plus("tsval", -LATER),
      same=lambda before, after: (after["timestamp"] - before["timestamp"]) & MASK < LATER)
claim("window_of_the_client", ("snd_wnd",), ALL,
      lambda wire: wire.but(snd_wnd=wire["snd_wnd"] ^ 1, max_window=wire["max_window"] | 1))
claim("segment_that_the_clients_window_came_in", ("snd_wl1",), ALL, plus("snd_wl1", -1))
claim("largest_window_of_the_client", ("max_window",), ALL, plus("max_window", 1))
claim("acknowledgment_sent_last", ("rcv_wup",), ALL, plus("rcv_wup", -1))


def right_edge(before, after):
    """Never left of what the client was told; right of it by no more than an acknowledgment could have told."""
    further = (after["rcv_edge"] - before["rcv_edge"]) & MASK
    return further <= before["rcv_ssthresh"] + (1 << before["rcv_wscale"])


claim("right_edge_of_the_own_window", ("rcv_edge",), ALL, plus("rcv_wnd", -5000), same=right_edge)
claim("growth_of_the_own_window", ("rcv_ssthresh",), ALL, plus("rcv_ssthresh", 10000))
claim("limit_of_that_growth", ("window_clamp",), ALL, plus("window_clamp", 10000))
claim("round_trip_estimate", ("rtt", "rttvar"), ALL, plus("srtt_us", 800000))
claim("shortest_round_trip", ("min_rtt",), ALL, plus("rtt_min_us", 100000))
claim("time_until_a_retransmission", ("rto",), ALL, plus("rttvar_us", 8000000))
claim("congestion_window_if_the_giver_is_trusted", ("snd_cwnd",), ALL, plus("snd_cwnd", 3), trust=True)
claim("threshold_of_slow_start_if_the_giver_is_trusted", ("snd_ssthresh",), ALL, lambda wire: wire.but(snd_ssthresh=7),
      trust=True)


class Segments:
    """TCP segments that the client gets and sends; @clock is its latest timestamp."""

    def __init__(self, world):
        with world.c:
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.sock.settimeout(PATIENCE)
        self.clock = None

    def next(self):
        """The next with bytes in it that the client gets: (flags, TSecr)."""
        while True:
            packet = self.sock.recv(1 << 16)
            if packet[0] >> 4 != 4 or packet[9] != TCP:
                continue
            size = (packet[0] & 15) * 4
            flags, head = packet[size + 13], (packet[size + 12] >> 4) * 4
            if packet[size + 20:size + 24] != b"\1\1\x08\x0a":
                continue        # of a handshake
            value, echo = struct.unpack_from("!II", packet, size + 24)
            if socket.inet_ntoa(packet[12:16]) == CLIENT[4]:
                self.clock = value
            elif struct.unpack_from("!H", packet, 2)[0] > size + head:
                return flags, echo

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


def first_said_by_b(world, spoil=None):
    """(the client's latest timestamp, flags and TSecr of b's first segment)"""
    world.steer(world.a)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patient(world))
        client, server = idle(world, PORT, stack)
        segments = stack.enter_context(Segments(world))
        client.sendall(noise(3000, 3))
        until(lambda: unread(server) == 3000 and not tcp_info(client)["unacked"], "the request is on a")
        at_b = stack.enter_context(listen(world.b, PORT))
        move(world, server, world.b, spoil, send=MOST)
        child = stack.enter_context(at_b.accept()[0])
        child.sendall(b"answer")
        flags, echo = segments.next()
        assert spoil or receive(client, 6) == b"answer"
    world.steer(world.a)
    return segments.clock, flags, echo


@suite.claim
def newest_timestamp_of_the_client(world):
    """b's first segment echoes it, though b has heard nothing of the client."""
    clock, _, echo = first_said_by_b(world)
    assert echo == clock, (echo, clock)
    clock, _, echo = first_said_by_b(world, plus("ts_recent", -5))
    assert echo == (clock - 5) & MASK, f"spoilt, b tells the same: {echo}, {clock}"


@suite.claim
def mark_of_congestion_that_the_client_is_owed(world):
    """A packet of the client was marked (CE): b's segments say so (ECE), as a's would have."""
    ece = 0x40
    before = [(ns, ns.sysctl(tcp_ecn=1)) for ns in (world.c, world.a)]
    rules = """table inet marked { chain in { type filter hook prerouting priority -300
               ip daddr %s tcp dport %d ip length > 100 ip ecn set ce; }; }""" % (VIP[4], PORT)
    nft = ["ip", "netns", "exec", world.a.name, "nft"]
    try:
        assert not first_said_by_b(world)[1] & ece
        subprocess.run(nft + [rules], check=True)
        assert first_said_by_b(world)[1] & ece, "b says nothing of it"
        owed = 4    # TCP_ECN_DEMAND_CWR
        spoilt = first_said_by_b(world, lambda wire: wire.but(ecn_flags=wire["ecn_flags"] & ~owed))
        assert not spoilt[1] & ece, "spoilt, b tells the same"
    finally:
        for ns, values in before:
            ns.sysctl(**values)
        subprocess.run(nft + ["delete", "table", "inet", "marked"], check=False)


FIRST = 10      # segments with which a connection begins (RFC 6928)


def grown(world, port, stack):
    """A connection whose congestion window has grown."""
    client, server = idle(world, port, stack)
    exchange(client, server, b"", noise(1000000, 7))
    until(lambda: not tcp_info(server)["unacked"], "all is acknowledged")
    assert tcp_info(server)["snd_cwnd"] > 2 * FIRST, tcp_info(server)["snd_cwnd"]
    return client, server


@suite.claim
def congestion_window_begins_anew_otherwise(world):
    """With as many segments as any connection, or as are under way already."""
    moved = Moved(world, PORT, grown)
    assert moved.after["snd_cwnd"] == FIRST, (moved.before["snd_cwnd"], moved.after["snd_cwnd"])

    def much(world, port, stack):
        client, server = grown(world, port, stack)
        stack.enter_context(answers_lost(world))
        stack.enter_context(answers_of_b_lost(world))
        server.setsockopt(TCP, socket.TCP_NODELAY, 1)
        for _ in range(20):
            server.sendall(noise(1000, 8))
        until(lambda: tcp_info(server)["unacked"] == 20, "twenty segments are under way")
        return client, server

    moved = Moved(world, PORT, much)
    assert moved.after["outq_len"] == 20000
    assert moved.after["snd_cwnd"] == max(FIRST, moved.after["unacked"]), moved.after
    assert moved.before["snd_cwnd"] > moved.after["snd_cwnd"]


@suite.claim
def congestion_window_that_was_not_used_is_given_up_by_b_as_by_a(world):
    """A minute ago a sent last, as far as b knows: the giver is trusted, and TCP begins anew when it sends."""
    for age, kept in ((None, True), (60000, False)):
        world.steer(world.a)
        with contextlib.ExitStack() as stack:
            stack.enter_context(patient(world))
            client, server = grown(world, PORT, stack)
            at_b = stack.enter_context(listen(world.b, PORT))
            before = tcp_info(server)["snd_cwnd"]
            move(world, server, world.b, (lambda wire, age=age: wire.but(sent_age_ms=age)) if age else None,
                 trust=True)
            child = stack.enter_context(at_b.accept()[0])
            assert tcp_info(child)["snd_cwnd"] == before
            child.sendall(b"answer")
            assert receive(client, 6) == b"answer"
            assert (tcp_info(child)["snd_cwnd"] >= before) == kept, (age, before, tcp_info(child)["snd_cwnd"])
    world.steer(world.a)


@suite.claim
def what_the_client_has_already_is_at_worst_sent_twice(world):
    """All but the first segment are acknowledged selectively: b knows nothing of it, and no byte is wrong."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(patient(world))
        # No number of acknowledgments has the first sent again.
        before = world.a.sysctl(tcp_reordering=100, tcp_recovery=0)
        stack.callback(lambda: world.a.sysctl(**before))
        client, server = idle(world, PORT, stack)
        server.setsockopt(TCP, socket.TCP_NODELAY, 1)
        data = noise(6000, 6)
        with answers_lost(world):
            server.sendall(data[:1000])
            until(lambda: tcp_info(server)["unacked"], "the first is lost")
        for at in range(1000, 6000, 1000):
            server.sendall(data[at:at + 1000])
        until(lambda: tcp_info(server)["sacked"], "the client has the others")
        with listen(world.b, PORT) as at_b, answers_lost(world):
            old = look(server)
            move(world, server, world.b, send=MOST)
            child = stack.enter_context(at_b.accept()[0])
            new = look(child)
        assert old["sacked"] and not new["sacked"], (old["sacked"], new["sacked"])
        assert old["outq"] == new["outq"] == data and old["snd_nxt"] == new["snd_nxt"]
        assert receive(client, 6000) == data
        exchange(client, child, noise(5000, 1), noise(5000, 2))
    world.steer(world.a)


if __name__ == "__main__":
    suite.main()

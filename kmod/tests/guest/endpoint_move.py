#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""A connection moves between nodes: every byte, both ways, whatever its options."""
import itertools
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (CLIENT, RST, FIN, ACK, Capture, Difference, Endpoint, Suite, connect,  # noqa: E402
                      exchange, listen, move, noise, pair, patient, receive, tcp_info, unread, until)
from patience import CHECKING, PATIENCE, rounds         # noqa: E402

suite = Suite()

# Both ends agreed on these; the target must know them exactly.
SAME = ("state options snd_wscale rcv_wscale snd_mss advmss pmtu rtt rttvar min_rtt rto "
        "snd_wnd rcv_ssthresh unacked notsent_bytes").split()


def adopted(world, server, port, v=4, change=None, **options):
    """Move a's socket to b, accept it there."""
    with listen(world.b, port, v, **options) as at_b:
        move(world, server, world.b, change)
        child = at_b.accept()[0]
    child.settimeout(PATIENCE)
    return child


def arrived(client, server, count):
    """All of it is on a, whose delayed acknowledgment would change the endpoint while it moves."""
    until(lambda: unread(server) == count and not tcp_info(client)["unacked"], "the request is on a")


@suite.each((0, 1, 1460, 8192, 65536))
def unread_bytes_move(world, count):
    """The request is read on b as the client sent it; streams go on both ways."""
    client, server = pair(world, 8001)
    request = noise(count, count)
    client.sendall(request)
    arrived(client, server, count)
    with client, server, adopted(world, server, 8001) as child:
        assert server.recv(1) == b"", "the giver does not read end of file"
        assert child.getpeername() == client.getsockname()
        assert unread(child) == count, f"{unread(child)} unread instead of {count}"
        assert receive(child, count) == request
        exchange(client, child, noise(300000, 1), noise(rounds(3000000, 300000), 2))


@suite.claim
def as_much_as_a_checkpoint_holds_moves(world):
    """Four megabytes that nobody has read."""
    client, server = pair(world, 8002, listener={"SO_RCVBUF": 200000})
    server.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    request = noise(Endpoint.MOST, 7)
    client.settimeout(PATIENCE)
    sender = os.fork()
    if not sender:
        client.sendall(request)
        os._exit(0)
    arrived(client, server, len(request))
    os.waitpid(sender, 0)
    with client, server, adopted(world, server, 8002) as child:
        assert receive(child, len(request)) == request
        exchange(client, child, noise(100000, 1), noise(100000, 2))


@suite.each([f"v{v} wscale={w} sack={s} timestamps={t}"
             for v, w, s, t in itertools.product((4, 6), (0, 1), (0, 1), (0, 1))
             if not CHECKING or w == s == t])
def options_stay(world, which):
    """Every combination of the options of a handshake is as before on b, and works.

    All or none on the debug kernel, where each takes seconds.
    """
    v = int(which[1])
    values = dict(part.split("=") for part in which.split()[1:])
    names = {"tcp_window_scaling": values["wscale"], "tcp_sack": values["sack"],
             "tcp_timestamps": values["timestamps"]}
    before = world.a.sysctl(**names)
    try:
        client, server = pair(world, 8003, v)
    finally:
        world.a.sysctl(**before)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    old = tcp_info(server)
    assert bool(old["options"] & 1) == bool(int(values["timestamps"]))
    assert bool(old["options"] & 2) == bool(int(values["sack"]))
    assert bool(old["options"] & 4) == bool(int(values["wscale"]))
    with client, server, adopted(world, server, 8003, v) as child:
        new = tcp_info(child)
        for name in SAME:
            assert old[name] == new[name], f"{name}: {old[name]} -> {new[name]}"
        assert new["rcv_wnd"] >= old["rcv_wnd"], "the window shrank"
        assert receive(child, 7) == b"request"
        exchange(client, child, noise(200000, 3), noise(200000, 4))


@suite.claim
def ecn_stays(world):
    """The right to mark and to be marked moves."""
    before = [(ns, ns.sysctl(tcp_ecn=1)) for ns in (world.c, world.a)]
    client, server = pair(world, 8004)
    for ns, values in before:
        ns.sysctl(**values)
    assert tcp_info(server)["options"] & 8, "no ECN on this connection"
    with client, server, adopted(world, server, 8004) as child:
        assert tcp_info(child)["options"] & 8, "ECN was lost"
        exchange(client, child, noise(100000, 3), noise(100000, 4))


@suite.claim
def microsecond_timestamps_stay(world):
    """The unit of the timestamps moves, though b's own routes know nothing of it."""
    world.a.usec_timestamps(CLIENT[4], "10.1.0.1")
    try:
        client, server = pair(world, 8026)
    finally:
        world.a.ip(f"route replace {CLIENT[4]} via 10.1.0.1")
    usec = 64  # TCPI_OPT_USEC_TS
    assert tcp_info(server)["options"] & usec, "milliseconds on a already"
    count = Difference(world.c)
    with client, server, adopted(world, server, 8026) as child:
        assert tcp_info(child)["options"] & usec, "b counts milliseconds"
        exchange(client, child, noise(200000, 3), noise(200000, 4))
    # In microseconds PAWS drops a segment that one of another CPU has overtaken, moved or not.
    count.quiet(but=("PAWSEstab",))


@suite.claim
def small_buffer_on_b(world):
    """More unread than the target's listener has room for."""
    client, server = pair(world, 8027)
    request = noise(65536, 6)
    client.sendall(request)
    arrived(client, server, len(request))
    with client, server, adopted(world, server, 8027, SO_RCVBUF=4096) as child:
        assert receive(child, len(request)) == request
        exchange(client, child, noise(50000, 3), noise(50000, 4))


@suite.claim
def nothing_shows_on_the_wire(world):
    """No FIN, no RST, no repeated acknowledgment: the client cannot tell that it was moved."""
    with patient(world):
        unseen_move(world)


def unseen_move(world):
    client, server = pair(world, 8005)
    client.sendall(noise(3000, 1))
    arrived(client, server, 3000)
    counts = [Difference(ns) for ns in (world.c, world.a, world.b)]
    with Capture(world.c) as capture, client, server:
        with adopted(world, server, 8005) as child:
            seen = capture.segments()
            assert not seen, f"the move itself sent {seen}"
            child.sendall(b"answer")
            assert receive(client, 6) == b"answer"
            assert receive(child, 3000) == noise(3000, 1)
            time.sleep(0.1)
            seen = capture.segments()
            assert not [s for s in seen if s[2] & (FIN | RST)], seen
            bare = [s for s in seen if s[2] == ACK and not s[5]]
            assert len(bare) <= 1, f"more than one bare acknowledgment: {bare}"
            exchange(client, child, noise(100000, 3), noise(100000, 4))
        for count in counts:
            count.quiet()
        assert counts[1]["EstabResets"] == 1, "the giver's endpoint is counted once"


@suite.claim
def pending_acknowledgment_is_sent_by_b(world):
    """The client's bytes are acknowledged by b when a had no time to."""
    with patient(world):
        client, server = pair(world, 8006)
        client.sendall(b"x" * 100)
        until(lambda: unread(server) == 100, "the request is on a")
        with client, server, adopted(world, server, 8006):
            until(lambda: tcp_info(client)["unacked"] == 0, "acknowledged")
            assert tcp_info(client)["total_retrans"] == 0, "only after a retransmission"


@suite.claim
def three_hops(world):
    """a to b, back to a, and to b again, with bytes unread at each move."""
    client, server = pair(world, 8007)
    with client, listen(world.a, 8007) as at_a, listen(world.b, 8007) as at_b:
        for hop, (node, listener) in enumerate(((world.b, at_b), (world.a, at_a), (world.b, at_b))):
            request = noise(1000 + hop, hop)
            client.sendall(request)
            arrived(client, server, len(request))
            move(world, server, node)
            server.close()
            server = listener.accept()[0]
            server.settimeout(PATIENCE)
            assert receive(server, len(request)) == request
            exchange(client, server, noise(50000, hop), noise(500000, hop + 10))
            until(lambda: not tcp_info(server)["unacked"], "all is acknowledged")
        server.close()


@suite.each((0, 5000))
def fin_received_moves(world, count):
    """A half-closed client gets its answer from b, which reads the request and end of file."""
    client, server = pair(world, 8008)
    request = noise(count, 8)
    client.sendall(request)
    client.shutdown(socket.SHUT_WR)
    until(lambda: tcp_info(server)["state"] == 8, "CLOSE_WAIT on a")
    until(lambda: tcp_info(client)["state"] == 5, "FIN_WAIT2 on the client")
    with client, server, Capture(world.c) as capture:
        with adopted(world, server, 8008) as child:
            assert not capture.segments(), "the move itself sent something"
            assert tcp_info(child)["state"] == 8, tcp_info(child)["state"]
            assert receive(child, count + 1) == request
            answer = noise(500000, 9)
            writer = os.fork()
            if not writer:
                child.sendall(answer)
                os._exit(0)
            assert receive(client, len(answer)) == answer
            os.waitpid(writer, 0)
        assert client.recv(1) == b""


@suite.claim
def fin_already_read_moves(world):
    """The server on a has read end of file; the one on b reads it again."""
    client, server = pair(world, 8009)
    client.sendall(b"request")
    client.shutdown(socket.SHUT_WR)
    assert receive(server, 8) == b"request"
    with client, server, adopted(world, server, 8009) as child:
        assert child.recv(10) == b""
        child.sendall(b"answer")
        child.shutdown(socket.SHUT_WR)
        assert receive(client, 7) == b"answer"


@suite.claim
def client_closes_after_move(world):
    """The client's FIN finds b."""
    client, server = pair(world, 8010)
    with server, adopted(world, server, 8010) as child:
        client.close()
        assert child.recv(1) == b""


@suite.claim
def zero_window_of_the_client(world):
    """b waits for the client's window as a would have, and goes on when it opens."""
    client, server = pair(world, 8011, SO_RCVBUF=4096)
    sent = 0
    while tcp_info(server)["snd_wnd"]:
        room = min(tcp_info(server)["snd_wnd"], 100)
        sent += server.send(b"z" * room)
        until(lambda: not tcp_info(server)["unacked"] and not tcp_info(server)["notsent_bytes"],
              "acknowledged")
        assert sent < 1 << 20, "the window does not close"
    count = Difference(world.b)
    with client, server, adopted(world, server, 8011) as child:
        assert tcp_info(child)["snd_wnd"] == 0
        child.sendall(b"after")
        until(lambda: count["TCPWinProbe"] > 0, "b probes the window")
        assert receive(client, sent + 5) == b"z" * sent + b"after"
        exchange(client, child, noise(20000, 3), noise(20000, 4))


@suite.claim
def zero_window_of_the_server(world):
    """A client that a has stopped goes on when b's server reads."""
    client, server = pair(world, 8012, listener={"SO_RCVBUF": 4096})
    body = noise(200000, 5)
    sender = os.fork()
    if not sender:
        client.sendall(body)
        os._exit(0)
    until(lambda: tcp_info(client)["snd_wnd"] < 200 and tcp_info(client)["unacked"] == 0 and
          unread(server) > 500, "the window of a is shut")
    with client, server, adopted(world, server, 8012) as child:
        assert receive(child, len(body)) == body
        os.waitpid(sender, 0)
        exchange(client, child, noise(20000, 3), noise(20000, 4))


@suite.each((4, 6))
def any_address_listener(world, v):
    """The server on b listens on every address."""
    client, server = pair(world, 8013, v)
    client.sendall(b"hello")
    until(lambda: unread(server) == 5, "the request is on a")
    with client, server, adopted(world, server, 8013, v, addr="") as child:
        assert receive(child, 5) == b"hello"
        exchange(client, child, noise(20000, 3), noise(20000, 4))


@suite.each(("a", "b", "both"))
def ipv4_client_of_a_dual_stack_listener(world, where):
    """A mapped socket moves to a plain one, a plain one to a mapped one."""
    mapped = {"addr": "::", "IPV6_V6ONLY": 0}
    with listen(world.a, 8014, *((6,) if where != "b" else ()),
                **(mapped if where != "b" else {})) as at_a:
        client = connect(world, 8014)
        server = at_a.accept()[0]
    client.sendall(b"hello")
    until(lambda: unread(server) == 5, "the request is on a")
    with client, server, adopted(world, server, 8014, 6 if where != "a" else 4,
                                 **(mapped if where != "a" else {})) as child:
        peer = child.getpeername()
        assert peer[0] == ("::ffff:" if where != "a" else "") + CLIENT[4], peer
        assert receive(child, 5) == b"hello"
        exchange(client, child, noise(200000, 3), noise(200000, 4))


@suite.each((0, 5))
def deferred_accept(world, count):
    """A TCP_DEFER_ACCEPT listener gets the connection, with or without a request in it."""
    client, server = pair(world, 8015)
    client.sendall(b"d" * count)
    until(lambda: unread(server) == count, "the request is on a")
    with client, server, adopted(world, server, 8015, TCP_DEFER_ACCEPT=5) as child:
        assert receive(child, count) == b"d" * count
        exchange(client, child, noise(20000, 3), noise(20000, 4))


@suite.claim
def syn_cookies_of_b_are_in_nobodys_way(world):
    """b answers every SYN by a cookie: an adoption has no SYN."""
    before = world.b.sysctl(tcp_syncookies=2)
    count = Difference(world.b)
    try:
        client, server = pair(world, 8028)
        client.sendall(b"hello")
        arrived(client, server, 5)
        with client, server, adopted(world, server, 8028) as child:
            assert receive(child, 5) == b"hello"
            exchange(client, child, noise(20000, 3), noise(20000, 4))
        assert count["SyncookiesSent"] == count["SyncookiesRecv"] == count["SyncookiesFailed"] == 0
    finally:
        world.b.sysctl(**before)


@suite.claim
def reuseport_group_shares(world):
    """Of a group of listeners each gets a part, chosen by the client's address and port."""
    group = [listen(world.b, 8016, SO_REUSEPORT=1) for _ in range(4)]
    got = [0] * 4
    for listener in group:
        listener.setblocking(False)
    for _ in range(40):
        client, server = pair(world, 8016)
        with client, server:
            move(world, server, world.b)
            for index, listener in enumerate(group):
                try:
                    child = listener.accept()[0]
                except BlockingIOError:
                    continue
                got[index] += 1
                # The client first, and both while packets go to b: the client's port then rests
                # in TIME_WAIT, and b has no orphan that a later client's port could meet.
                client.close()
                child.close()
            world.steer(world.a)
    for listener in group:
        listener.close()
    assert sum(got) == 40, got
    assert sum(1 for n in got if n) > 1, f"one listener got everything: {got}"


@suite.claim
def mptcp_listener(world):
    """A server that listens with MPTCP (Go does) accepts the connection as plain TCP."""
    client, server = pair(world, 8017)
    client.sendall(b"hello")
    until(lambda: unread(server) == 5, "the request is on a")
    with client, server, adopted(world, server, 8017, proto=262) as child:
        assert receive(child, 5) == b"hello"
        exchange(client, child, noise(20000, 3), noise(20000, 4))


@suite.claim
def listener_options_are_inherited(world):
    """Options come from b's listener, not from a's socket."""
    client, server = pair(world, 8018)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, server, adopted(world, server, 8018, SO_KEEPALIVE=1, TCP_KEEPIDLE=77,
                                 TCP_USER_TIMEOUT=5000) as child:
        assert child.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert child.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77
        assert child.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5000
        assert child.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0


KEEPALIVE = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 5}


@suite.claim
def keepalive_runs_on_b(world):
    """Probes of b are answered by a living client; a dead one ends the connection."""
    client, server = pair(world, 8019)
    with client, server, adopted(world, server, 8019, **KEEPALIVE) as child:
        count = Difference(world.b)
        until(lambda: count["TCPKeepAlive"] >= 2, "b probes")
        assert tcp_info(child)["state"] == 1
        world.c.ip("link set n2 down")
        try:
            child.recv(1)
            assert False, "the dead client was not noticed"
        except OSError as error:
            assert error.errno in (110, 113), error
        finally:
            world.c.ip("link set n2 up", "addr replace fd02::1/64 dev n2 nodad")


@suite.claim
def keepalive_ends_on_a(world):
    """The giver's timers go with its endpoint."""
    client, server = pair(world, 8020, listener=KEEPALIVE)
    with client, server, adopted(world, server, 8020):
        count = Difference(world.a)
        time.sleep(2.5)
        assert count["OutSegs"] == 0 and count["TCPKeepAlive"] == 0


@suite.claim
def waiting_reader_and_poller_wake(world):
    """Whoever waits on the giver's socket reads end of file at once; writing gives EPIPE."""
    client, server = pair(world, 8021)
    reader = os.fork()
    if not reader:
        server.settimeout(None)
        os._exit(0 if server.recv(1) == b"" else 1)
    with open(f"/proc/{reader}/stat", encoding="ascii") as stat:
        until(lambda: stat.seek(0) or stat.read().split()[2] == "S", "the reader sleeps")
    time.sleep(0.2)
    with client, server, adopted(world, server, 8021):
        assert os.waitpid(reader, 0)[1] == 0, "the reader did not read end of file"
        try:
            server.send(b"x")
            assert False, "sent into nowhere"
        except BrokenPipeError:
            pass


@suite.claim
def round_trip_estimate_moves(world):
    """b retransmits after the time that a would; without the estimate (control) after three seconds."""
    client, server = pair(world, 8022)
    normal = tcp_info(server)["rto"]
    with client, server, adopted(world, server, 8022) as child:
        assert tcp_info(child)["rto"] == normal, (tcp_info(child)["rto"], normal)
    world.steer(world.a)
    client, server = pair(world, 8022)
    with client, server, adopted(world, server, 8022, change=lambda w: w.but(srtt_us=0)) as child:
        assert tcp_info(child)["rto"] >= 3000000, "this test cannot fail"


def stalls(world, port, change):
    """Does a connection moved with a changed checkpoint fail to carry data?"""
    client, server = pair(world, port)
    with client, server, adopted(world, server, port, change=change) as child:
        try:
            exchange(client, child, b"", noise(5000, 1), seconds=3)
        except AssertionError:
            return True
        return False


@suite.claim
def control_skewed_timestamp_stalls(world):
    """The tests above would notice a wrong timestamp offset: PAWS drops everything."""
    count = Difference(world.c)
    assert stalls(world, 8023, lambda w: w.but(tsval=(w["tsval"] - 5000000) & 0xffffffff))
    until(lambda: count["PAWSEstab"] > 0, "PAWS drops what b sends")


@suite.claim
def control_shifted_sequence_stalls(world):
    """The tests above would notice an initial sequence number that is off by one."""
    assert stalls(world, 8024, lambda w: w.but(snd_una=(w["snd_una"] + 1) & 0xffffffff))


@suite.claim
def sockets_are_not_leaked(world):
    """After 50 moves (10 on the debug kernel) each node has the sockets and the memory that it had."""
    def sockstat():
        with world.b, open("/proc/self/net/sockstat", encoding="ascii") as file:
            words = [line for line in file if line.startswith("TCP:")][0].split()
        return {name: int(words[words.index(name) + 1]) for name in ("inuse", "orphan", "alloc")}

    before = sockstat()
    with listen(world.b, 8025) as at_b:
        for _ in range(rounds(50, 10)):
            world.steer(world.a)
            client, server = pair(world, 8025)
            client.sendall(b"request")
            until(lambda s=server: unread(s) == 7, "the request is on a")
            move(world, server, world.b)
            child = at_b.accept()[0]
            assert receive(child, 7) == b"request"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            server.close()
            until(lambda c=child: tcp_info(c)["state"] == 7, "reset")
            child.close()
    until(lambda: all(sockstat()[name] <= before[name] for name in before),
          f"no more than {before}")


if __name__ == "__main__":
    suite.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""What cannot move is refused by name, and goes on as if nobody had asked."""
import ctypes
import os
import select
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip     # noqa: E402
from endpoint import (ACK, CLIENT, PSH, SYN, VIP, Difference, Endpoint, Refused, Suite,  # noqa: E402
                      Wire, answers_lost, connect, exchange, inject, libc, listen, noise, pair, queue_seq, receive,
                      tcp_info, unread, until)

suite = Suite()

TCP_REPAIR, TCP_MD5SIG, TCP_ULP = 19, 14, 31


def refused(sock, name):
    """Taking a checkpoint of this socket is refused for this reason."""
    with Endpoint() as endpoint:
        try:
            endpoint.checkpoint(sock)
        except Refused as why:
            assert str(why) == name, f"refused with {why} instead of {name}"
            return
        raise AssertionError(f"not refused, should be {name}")


def checkpoint(world, port, v=4):
    """A good checkpoint of a connection on a, which stays; (client, server, wire)."""
    client, server = pair(world, port, v)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    with Endpoint() as endpoint:
        return client, server, endpoint.checkpoint(server)


def adopt_refused(world, wire, name):
    """Node b refuses this checkpoint for this reason."""
    with Endpoint() as endpoint:
        why = endpoint.adopt(world.b, wire)
    assert why == name, f"{why} instead of {name}"


def still_works(client, server):
    """The connection serves on a."""
    assert receive(server, 7) == b"request"
    exchange(client, server, noise(20000, 1), noise(20000, 2))
    client.close()
    server.close()


@suite.claim
def not_tcp(world):
    """UDP, UNIX."""
    with world.a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        refused(sock, "NOTTCP")
    one, other = socket.socketpair()
    with one, other:
        refused(one, "NOTTCP")


@suite.claim
def not_established(world):
    """A listener, a fresh socket, and one that has sent its FIN."""
    with world.a, socket.socket() as sock:
        refused(sock, "STATE")
    with listen(world.a, 8101) as sock:
        refused(sock, "STATE")
    client, server = pair(world, 8101)
    with client, server:
        server.shutdown(socket.SHUT_WR)
        refused(server, "STATE")
        assert client.recv(1) == b""
        refused(server, "STATE")


@suite.claim
def its_own_end_is_said(world):
    """FIN_WAIT1, FIN_WAIT2, CLOSING, LAST_ACK: refused, and both sides hear the rest here."""
    def state(sock, number):
        until(lambda: tcp_info(sock)["state"] == number, f"state {number}")

    client, server = pair(world, 8101)
    with client, server:
        with answers_lost(world):
            server.shutdown(socket.SHUT_WR)
            state(server, 4)
            refused(server, "STATE")
        assert client.recv(1) == b""
        state(server, 5)
        refused(server, "STATE")
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
    client, server = pair(world, 8101)
    with client, server:
        with answers_lost(world):
            server.shutdown(socket.SHUT_WR)
            client.shutdown(socket.SHUT_WR)
            state(server, 11)
            refused(server, "STATE")
        assert client.recv(1) == server.recv(1) == b""
    client, server = pair(world, 8101)
    with client, server:
        client.shutdown(socket.SHUT_WR)
        state(server, 8)
        with answers_lost(world):
            server.sendall(b"answer")
            server.shutdown(socket.SHUT_WR)
            state(server, 9)
            refused(server, "STATE")
        assert receive(client, 7) == b"answer"


@suite.claim
def unacknowledged_data(world):
    """Bytes that the client's window has no room for."""
    client, server = pair(world, 8102, SO_RCVBUF=4096)
    with client, server:
        server.setblocking(False)
        sent = 0
        try:
            while True:
                sent += server.send(b"u" * 4096)
        except BlockingIOError:
            pass
        refused(server, "SENDQUEUE")
        assert receive(client, sent) == b"u" * sent
        until(lambda: not tcp_info(server)["unacked"] and not tcp_info(server)["notsent_bytes"],
              "all acknowledged")
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def accurate_ecn(world):
    """Where the kernel has it; its counters do not move. Plain ECN does (endpoint_move)."""
    if not os.path.exists("/proc/sys/net/ipv4/tcp_ecn_option"):
        raise Skip("this kernel has no AccECN")
    before = [(ns, ns.sysctl(tcp_ecn=3)) for ns in (world.c, world.a)]
    client, server = pair(world, 8126)
    for ns, values in before:
        ns.sysctl(**values)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    refused(server, "ACCECN")
    still_works(client, server)


@suite.claim
def out_of_order_data(world):
    """A hole in what the client has sent; when it is filled, the connection can move."""
    client, server = pair(world, 8103)
    with client, server:
        seq, ack = queue_seq(client, 2), queue_seq(client, 1)
        inject(world.c, client.getsockname(), (VIP[4], 8103), seq + 3, ack, ACK | PSH, b"def")
        with Endpoint() as endpoint:
            def out_of_order():
                try:
                    endpoint.checkpoint(server)
                except Refused as why:
                    return str(why) == "OOO"
                return False
            until(out_of_order, "refused with OOO")
        client.sendall(b"abc")
        assert receive(server, 6) == b"abcdef"
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def urgent_data(world):
    """Pending, read but not passed, and, once passed, no obstacle any more."""
    client, server = pair(world, 8104)
    with client, server:
        client.sendall(b"before")
        client.send(b"!", socket.MSG_OOB)
        client.sendall(b"after")
        until(lambda: unread(server) >= 6 and select.select([], [], [server], 0)[2], "the urgent byte is on a")
        refused(server, "URGENT")
        assert server.recv(1, socket.MSG_OOB) == b"!"
        refused(server, "URGENT")
        assert receive(server, 11) == b"beforeafter"
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def kernel_tls(world):
    """An upper-layer protocol, even before it has keys."""
    subprocess.run(["modprobe", "tls"], check=True)
    client, server = pair(world, 8105)
    with client, server:
        server.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        refused(server, "ULP")


@suite.claim
def multipath(world):
    """An MPTCP socket."""
    with world.a, socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as sock:
        refused(sock, "MPTCP")


def bpf(command, attributes):
    buf = ctypes.create_string_buffer(attributes + b"\0" * (128 - len(attributes)))
    result = libc.syscall(321, command, buf, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return result


@suite.claim
def in_a_sockmap(world):
    """BPF owns the socket's functions."""
    client, server = pair(world, 8106)
    with client, server:
        sockmap = bpf(0, struct.pack("IIIII", 15, 4, 4, 1, 0))
        try:
            key = ctypes.c_uint32(0)
            value = ctypes.c_uint32(server.fileno())
            bpf(2, struct.pack("IIQQQ", sockmap, 0, ctypes.addressof(key),
                               ctypes.addressof(value), 0))
            refused(server, "PSOCK")
        finally:
            os.close(sockmap)


def md5_key(address):
    return struct.pack("=HH4s120xBBHi80s", socket.AF_INET, 0, socket.inet_aton(address), 0, 0, 3, 0,
                       b"key")


@suite.claim
def signed_segments(world):
    """A TCP MD5 key."""
    client, server = pair(world, 8107)
    with client, server:
        server.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, md5_key(CLIENT[4]))
        refused(server, "MD5")


@suite.claim
def ip_options(world):
    """Options in every packet."""
    client, server = pair(world, 8108)
    with client, server:
        server.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1\1\1\1")
        refused(server, "IPOPTIONS")
        server.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"")
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def fast_open_before_its_handshake_ends(world):
    """A socket that was accepted on the strength of data in the SYN."""
    before = world.a.sysctl(tcp_fastopen=0x203)
    world.a.ip("route replace 10.9.0.77 via 10.1.0.1")
    with listen(world.a, 8109, TCP_FASTOPEN=5) as at_a:
        # An address that answers nothing, so that the handshake stays open.
        inject(world.c, ("10.9.0.77", 4321), (VIP[4], 8109), 1000, 0, SYN, b"data",
               options=b"\2\4\5\xb4")
        with at_a.accept()[0] as server:
            refused(server, "FASTOPEN")
    world.a.sysctl(**before)


@suite.claim
def under_repair(world):
    """Someone else is taking it out."""
    client, server = pair(world, 8110)
    with client, server:
        server.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        refused(server, "REPAIR")
        server.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, -1)
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def more_than_a_checkpoint_holds(world):
    """A byte more than four megabytes."""
    client, server = pair(world, 8111)
    server.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    sender = os.fork()
    if not sender:
        client.settimeout(60)
        client.sendall(b"m" * (Endpoint.MOST + 1))
        os._exit(0)
    with client, server:
        until(lambda: unread(server) == Endpoint.MOST + 1, "all is on a")
        os.waitpid(sender, 0)
        refused(server, "TOOMUCH")
        server.recv(1)
        with Endpoint() as endpoint:
            endpoint.checkpoint(server)


@suite.claim
def link_local_addresses(world):
    """They name nothing on another node."""
    world.a.ip("addr add fe80::a/64 dev port nodad")
    world.c.ip("addr add fe80::c/64 dev n1 nodad")
    with world.a:
        at_a = socket.socket(socket.AF_INET6)
        at_a.bind(("fe80::a", 8112, 0, socket.if_nametoindex("port")))
        at_a.listen()
    with world.c:
        client = socket.socket(socket.AF_INET6)
        client.connect(("fe80::a", 8112, 0, socket.if_nametoindex("n1")))
    with at_a, client, at_a.accept()[0] as server:
        refused(server, "SCOPE")


@suite.claim
def changes_are_seen(world):
    """Received, read, written or closed since the checkpoint."""
    def answer(client, server):
        server.sendall(b"a")
        client.recv(1)
        until(lambda: not tcp_info(server)["unacked"], "acknowledged")

    def more(client, server):
        client.sendall(b"more")
        until(lambda: unread(server) == 11, "more is on a")

    def close(client, server):
        client.shutdown(socket.SHUT_WR)
        until(lambda: tcp_info(server)["state"] == 8, "CLOSE_WAIT")

    for change in (answer, more, close, lambda client, server: server.recv(1),
                   lambda client, server: server.sendall(b"a"),
                   lambda client, server: server.shutdown(socket.SHUT_WR)):
        client, server, wire = checkpoint(world, 8113)
        with client, server, Endpoint() as endpoint:
            assert endpoint.unchanged(server, wire)
            assert endpoint.unchanged(server, wire)
            change(client, server)
            assert not endpoint.unchanged(server, wire), change.__name__


@suite.claim
def nobody_listens(world):
    """No listener on that port, only on another address, or only for the other family."""
    client, server, wire = checkpoint(world, 8114)
    adopt_refused(world, wire, "NOLISTENER")
    with listen(world.b, 8114, addr="10.2.0.2"):
        adopt_refused(world, wire, "NOLISTENER")
    with listen(world.b, 8114, 6, addr="::", IPV6_V6ONLY=1):
        adopt_refused(world, wire, "NOLISTENER")
    still_works(client, server)


@suite.claim
def full_accept_queue(world):
    """As many as the listener wants, and one more, as the kernel counts; nothing is counted as lost."""
    with listen(world.b, 8115, backlog=2) as at_b:
        waiting = []
        for _ in range(3):
            client, server, wire = checkpoint(world, 8115)
            with Endpoint() as endpoint:
                assert endpoint.adopt(world.b, wire) == "NONE"
                assert endpoint.commit() == "NONE"
            waiting += [client, server]
        client, server, wire = checkpoint(world, 8115)
        count = Difference(world.b)
        adopt_refused(world, wire, "FULL")
        count.quiet()
        at_b.accept()[0].close()
        with Endpoint() as endpoint:
            assert endpoint.adopt(world.b, wire) == "NONE"
        still_works(client, server)
        for sock in waiting:
            sock.close()


@suite.claim
def the_same_connection_twice(world):
    """While it is being adopted, and when it is there."""
    client, server, wire = checkpoint(world, 8116)
    with listen(world.b, 8116) as at_b, client, server, Endpoint() as endpoint:
        assert endpoint.adopt(world.b, wire) == "NONE"
        adopt_refused(world, wire, "DUPLICATE")
        assert endpoint.commit() == "NONE"
        adopt_refused(world, wire, "DUPLICATE")
        with at_b.accept()[0] as child:
            adopt_refused(world, wire, "DUPLICATE")
            assert receive(child, 7) == b"request"


def time_wait_on_b(world, port, vanish=False):
    """Make b close a connection first; returns the client's port. The client says FIN or vanishes."""
    world.steer(world.b)
    with listen(world.b, port) as at_b:
        client = connect(world, port)
        with client:
            at_b.accept()[0].close()
            assert client.recv(1) == b""
            local = client.getsockname()[1]
            if vanish:      # b waits for a FIN that does not come: FIN_WAIT2, kept like a TIME_WAIT
                until(lambda: time_waits(world, port), "a FIN_WAIT2 on b")
                client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    until(lambda: time_waits(world, port), "a TIME_WAIT on b")
    world.steer(world.a)
    return local


def time_waits(world, port):
    """Of this port, in FIN_WAIT2 or TIME_WAIT: those that other claims have left go in their own time."""
    with world.b, open("/proc/self/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file]
    return sum(row[1].endswith(":%04X" % port) and row[3] in ("05", "06") for row in rows)


def gives_way(world, port, vanish):
    """To what is newer by sequence number or timestamp, and to nothing else."""
    local = time_wait_on_b(world, port, vanish)
    with listen(world.a, port) as at_a, world.c:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((CLIENT[4], local))
        client.connect((VIP[4], port))
        server = at_a.accept()[0]
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    with client, server, listen(world.b, port), Endpoint() as endpoint:
        wire = endpoint.checkpoint(server)
        back = 1 << 29
        old = wire.but(**{name: (wire[name] - back) & 0xffffffff for name in
                          ("rcv_start", "rcv_wup", "snd_wl1", "ts_recent")})
        adopt_refused(world, old, "DUPLICATE")
        assert time_waits(world, port) == 1
        assert endpoint.adopt(world.b, wire) == "NONE"
        assert time_waits(world, port) == 0


@suite.claim
def time_wait_gives_way_to_a_newer_connection(world):
    """As it does for a SYN."""
    gives_way(world, 8117, vanish=False)


@suite.claim
def wait_for_a_fin_gives_way_to_a_newer_connection(world):
    """The client has done a handshake with the giver: it will not end the old connection any more."""
    gives_way(world, 8141, vanish=True)


@suite.each((4, 6))
def no_way_back_to_the_client(world, v):
    """b has no route to the client's address."""
    client, server, wire = checkpoint(world, 8118, v)
    way = "via 10.2.0.1" if v == 4 else "via fd02::1"
    with listen(world.b, 8118, v):
        world.b.ip(f"route del {CLIENT[v]}")
        try:
            adopt_refused(world, wire, "NOROUTE")
        finally:
            world.b.ip(f"route add {CLIENT[v]} {way}")
        with Endpoint() as endpoint:
            assert endpoint.adopt(world.b, wire) == "NONE"
    still_works(client, server)


@suite.each((4, 6))
def service_address_of_another(world, v):
    """b does not have the address."""
    client, server, wire = checkpoint(world, 8119, v)
    size = 32 if v == 4 else 128
    with listen(world.b, 8119, v, addr=""):
        world.b.ip(f"addr del {VIP[v]}/{size} dev lo")
        try:
            adopt_refused(world, wire, "NOTLOCAL")
        finally:
            world.b.ip(f"addr add {VIP[v]}/{size} dev lo" + (" nodad" if v == 6 else ""))
    still_works(client, server)


@suite.claim
def listener_with_keys(world):
    """A listener that wants signed segments does not get an unsigned connection."""
    client, server, wire = checkpoint(world, 8120)
    with listen(world.b, 8120) as at_b:
        at_b.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, md5_key("10.9.0.99"))
        adopt_refused(world, wire, "POLICY")
    still_works(client, server)


@suite.claim
def unknown_version(world):
    """Also when nothing after the version makes sense."""
    client, server, wire = checkpoint(world, 8121)
    for version in (0, 1, 3, 65535):
        adopt_refused(world, wire.but(version=version), "VERSION")
        adopt_refused(world, wire.but(version=version)[:8], "VERSION")
    still_works(client, server)


MALFORMED = {
    "magic": (0, 0x46544c45), "header_len": (0, 8, 200, 65535),
    "total_len": (0, 100, 0xffffffff), "flags": (0x40, 0x80000000, 0x0b & ~4),
    "family": (0, 5, 10, 65535), "client_port": (0,), "server_port": (0,), "mss_clamp": (0,),
    "client": (b"\0" * 16, b"\xff" * 4 + b"\0" * 12, b"\xe0\0\0\1" + b"\0" * 12,
               socket.inet_aton(CLIENT[4]) + b"\1" * 12),
    "server": (b"\0" * 16, b"\xff" * 4 + b"\0" * 12, b"\xe0\0\0\1" + b"\0" * 12),
    "snd_wscale": (15, 255), "rcv_wscale": (15, 255), "ecn_flags": (2, 16, 255), "tuple_zero": (1,),
    "options_zero": (1,), "options_zero2": (255,),
    "snd_wnd": (0x40000000, 0xffffffff), "max_window": (0, 0xffffffff),
    "unread": (0, 6, 8, 0xffffffff), "rcv_wnd": (0x40000000, 0xffffffff),
    "rcv_ssthresh": (0x40000000,), "window_clamp": (0x40000000,),
    "srtt_us": (0x80000000,), "mdev_us": (0xffffffff,), "rttvar_us": (0xffffffff,),
    "rtt_min_us": (0x80000000, 0xffffffff), "ts_recent_age": (0x80000000,),
    "snd_cwnd": (0x40000000, 0xffffffff), "snd_ssthresh": (0, 1, 0x80000000), "sent_age_ms": (0x80000000,),
}


@suite.claim
def malformed_fields(world):
    """Every field that has an impossible value, and numbers that do not fit each other."""
    client, server, wire = checkpoint(world, 8122)
    with listen(world.b, 8122, addr=""):
        for name, values in MALFORMED.items():
            for value in values:
                with Endpoint() as endpoint:
                    why = endpoint.adopt(world.b, wire.but(**{name: value}))
                assert why == "MALFORMED", f"{name}={value}: {why}"
        after = (wire["rcv_start"] + 8) & 0xffffffff
        adopt_refused(world, wire.but(rcv_wup=after), "MALFORMED")
        adopt_refused(world, wire.but(snd_wl1=after), "MALFORMED")
        no_scale = wire.but(flags=wire["flags"] & ~1)
        adopt_refused(world, no_scale, "MALFORMED")
    still_works(client, server)


@suite.claim
def malformed_lengths(world):
    """Cut anywhere, or with more behind it."""
    client, server, wire = checkpoint(world, 8123)
    with listen(world.b, 8123):
        for length in range(len(wire)):
            adopt_refused(world, wire[:length], "MALFORMED")
        adopt_refused(world, wire + b"x", "MALFORMED")
        for length in range(12, len(wire)):
            cut = Wire(wire[:length])
            cut["total_len"] = length
            adopt_refused(world, cut, "MALFORMED")
        large = Wire(wire[:Wire.HEADER] + bytes(Endpoint.MOST + 1)).fit()
        adopt_refused(world, large, "MALFORMED")
    still_works(client, server)


if __name__ == "__main__":
    suite.main()

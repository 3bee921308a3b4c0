#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 600
"""Ends of connections of TLS whose servers speak clear text: what each side says last, and hears."""
import contextlib
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from given import up                                              # noqa: E402
from hof import CLOSED, PATIENCE, SLOW, Cluster, accept, claim, main, receive, stalled, wait  # noqa: E402
import tls                                                        # noqa: E402
from tls import REQUEST, given, pending, read_all, served, set_up  # noqa: E402


@claim
def close_notify_of_the_client_is_end_of_file():
    with served() as (front, be, client, server):
        poll = select.epoll()
        poll.register(server, select.EPOLLIN | select.EPOLLRDHUP)
        client.settimeout(None)
        client.setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.unwrap()
        assert poll.poll(PATIENCE), "nobody tells the server"
        assert server.recv(100) == b"" and server.recv(100) == b""
        # The other direction is open.
        server.sendall(b"answer")
        server.close()
        client.setblocking(True)
        client.settimeout(PATIENCE)
        poll.close()


@claim
def close_and_shutdown_say_close_notify():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for how in "close", "shutdown", "both", "full":
            client, server = given(c, front, be, listener)
            assert receive(server, len(REQUEST)) == REQUEST
            size = 3000000 if how == "full" else 10
            if how == "full":
                server.setblocking(False)
                size = server.send(bytes(size))
            else:
                server.sendall(bytes(size))
            if how in ("shutdown", "both"):
                server.shutdown(socket.SHUT_WR)
                try:
                    server.send(b"x")
                    raise AssertionError("written after shutdown")
                except BrokenPipeError:
                    pass
            if how != "shutdown":
                server.close()
            # Without close_notify this raises SSLEOFError.
            assert len(read_all(client)) == size, how


@claim
def request_and_close_notify_and_fin_come_together():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client = tls.Client(c.client, REQUEST)
        sock, secrets = front.accept()
        client.ready().setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.sock = socket.socket(fileno=os.dup(client.tls.fileno()))
        client.sock.shutdown(socket.SHUT_WR)
        front.peek(sock)
        wait(lambda: "CLOSE-WAIT" in c.fe.output("ss", "-Htan", "sport = :443"))
        front.settled(front.give(sock, secrets, be))
        sock.close()
        server = accept(listener)
        assert read_all(server) == REQUEST
        server.sendall(b"answer")
        server.close()
        client.sock.setblocking(True)
        client.sock.settimeout(PATIENCE)
        # Its TLS was given up with unwrap(); what arrives are two records and an end, no reset.
        came = read_all(client.sock)
        assert came[-7 - 17 + 5:] and came.count(b"\x17\x03\x03") >= 2, came


@claim
def wrong_records_end_the_connection():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for how in "flipped", "short", "sequence", "garbage", "alert":
            client = tls.Client(c.client)
            sock, secrets = front.accept()
            client.ready()
            if how == "sequence":
                client.tls.sendall(REQUEST)
                secrets.rx = 1
            front.settled(front.give(sock, secrets, be))
            sock.close()
            server = accept(listener)
            raw = socket.socket(fileno=os.dup(client.tls.fileno()))
            record = secrets.record(b"hello", 0)
            if how == "flipped":
                raw.sendall(record[:-1] + bytes([record[-1] ^ 1]))
            elif how == "short":
                raw.sendall(record[:-5])
                raw.shutdown(socket.SHUT_WR)
            elif how == "garbage":
                raw.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
            elif how == "alert":
                raw.sendall(secrets.record(b"\x02\x28", 0, kind=tls.ALERT))
            try:
                got = server.recv(100)
                assert how == "short" and got == b"", (how, got)
            except ConnectionResetError:
                assert how != "short"
                try:
                    server.sendall(b"x" * 10)
                    raise AssertionError("written after an error")
                except BrokenPipeError:
                    pass
            server.close()
            raw.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionResetError):
                read_all(raw)
            raw.close()
        assert be.nl.stat("TlsBroken") == 4


@claim
def key_update_is_an_end():
    with served() as (front, be, client, server):
        # By hand: ssl has no call for it.
        raw = socket.socket(fileno=os.dup(client.fileno()))
        raw.sendall(front.last.record(struct.pack(">BBHB", 24, 0, 1, 0), 1, kind=tls.HANDSHAKE))
        assert server.recv(100) == b""
        server.sendall(b"answer")
        server.close()
        assert read_all(client) == b"answer"
        assert be.nl.stat("TlsRekeyed") == 1


@claim
def a_record_without_a_byte_is_no_end_to_splice():
    with served() as (front, be, client, server):
        raw = socket.socket(fileno=os.dup(client.fileno()))
        out, into = os.pipe()
        server.setblocking(True)
        raw.sendall(front.last.record(b"", 1) + front.last.record(b"", 2) + front.last.record(b"x", 3))
        assert os.splice(server.fileno(), into, 100) == 1 and os.read(out, 10) == b"x"
        # Nothing behind it: then it waits, or says so.
        raw.sendall(front.last.record(b"", 4))
        pending(server, 22)
        server.setblocking(False)
        try:
            got = os.splice(server.fileno(), into, 100, flags=os.SPLICE_F_NONBLOCK)
            raise AssertionError("an end: %r" % got)
        except BlockingIOError:
            pass
        raw.sendall(front.last.record(b"", 5))
        raw.shutdown(socket.SHUT_WR)
        wait(lambda: select.select([server], [], [], 0)[0])
        server.setblocking(True)
        assert os.splice(server.fileno(), into, 100) == 0
        os.close(out)
        os.close(into)


@claim
def nothing_is_read_behind_an_end():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for how in "close_notify", "key update":
            for way in "recv", "peek", "splice", "poll":
                client, server = given(c, front, be, listener)
                assert receive(server, len(REQUEST)) == REQUEST
                raw = socket.socket(fileno=os.dup(client.fileno()))
                if how == "close_notify":
                    end = front.last.record(b"\x01\x00", 1, kind=tls.ALERT)
                else:
                    end = front.last.record(struct.pack(">BBHB", 24, 0, 1, 0), 1, kind=tls.HANDSHAKE)
                rest = front.last.record(b"GET /smuggled", 2 if how == "close_notify" else 0)
                raw.sendall(end + rest * 2)
                pending(server, len(end) + 2 * len(rest))
                assert server.recv(100) == b"", (how, way)
                out, into = os.pipe()
                for _ in range(3):
                    if way == "splice":
                        assert os.splice(server.fileno(), into, 100) == 0, how
                    elif way == "poll":
                        assert select.select([server], [], [], PATIENCE)[0]
                    got = server.recv(100, socket.MSG_PEEK if way == "peek" else 0)
                    assert got == b"", (how, way, got)
                server.sendall(b"answer")
                server.shutdown(socket.SHUT_WR)
                assert read_all(client) == b"answer", (how, way)
                server.close()
                raw.close()
                os.close(out)
                os.close(into)


@claim
def shutdown_does_not_wait_for_a_writer():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for how in "shutdown", "alert":
            client, server = given(c, front, be, listener)
            assert receive(server, len(REQUEST)) == REQUEST
            came = []

            def write(server=server, came=came):
                try:
                    server.settimeout(None)
                    server.sendall(bytes(50000000))
                except OSError as error:
                    came.append(error)
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            last = -1
            while last != (last := int(be.output("ss", "-Htn", "sport = :443").split()[2])) or not last:
                time.sleep(0.5)
            if how == "alert":
                raw = socket.socket(fileno=os.dup(client.fileno()))
                raw.sendall(front.last.record(b"\x02\x28", 1, kind=tls.ALERT))
                wait(lambda: select.select([server], [], [], 0)[0])

            def end(server=server, how=how):
                if how == "shutdown":
                    server.shutdown(socket.SHUT_WR)
                else:
                    with contextlib.suppress(ConnectionResetError):
                        server.recv(1)
            ender = threading.Thread(target=end, daemon=True)
            ender.start()
            ender.join(PATIENCE)
            assert not ender.is_alive(), how + " waits for the client"
            writer.join(PATIENCE)
            assert not writer.is_alive() and isinstance(came[0], BrokenPipeError), (how, came)
            if how == "alert":
                server.close()          # it has not been shut down
            got = read_all_raw(client)
            assert got < 20000000, (how, got)
            server.close()


def read_all_raw(client):
    raw, size = socket.socket(fileno=os.dup(client.fileno())), 0
    raw.settimeout(PATIENCE)
    with contextlib.suppress(ConnectionResetError):
        while part := raw.recv(1 << 20):
            size += len(part)
    return size


@claim
def a_canceling_client_has_said_all():
    """Without its close_notify: a server that waited for it would read one such alert after the other."""
    with served() as (front, be, client, server):
        raw = socket.socket(fileno=os.dup(client.fileno()))
        for number in 1, 2, 3:
            raw.sendall(front.last.record(b"\x01\x5a", number, kind=tls.ALERT))
        raw.close()
        assert server.recv(1) == b""
        server.sendall(b"answer")
        assert receive(client, 6) == b"answer"
        server.close()


@claim
def it_is_shut_down_once():
    with served() as (front, be, client, server):
        for _ in range(3):
            server.shutdown(socket.SHUT_WR)
        assert not server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
        assert read_all(client) == b""


@claim
def who_writes_while_the_last_is_said_is_refused():
    """Not even for the moment in which TCP is open for it; what was said last is the last."""
    with served() as (front, be, client, server):
        server.sendall(b"answer")
        with stalled("flt_ktls_say", 3 * SLOW) as stands:
            ender = threading.Thread(target=server.shutdown, args=(socket.SHUT_WR,), daemon=True)
            ender.start()
            wait(stands)
            try:
                raise AssertionError("written: %d" % server.send(b"x"))
            except BrokenPipeError:
                pass
            ender.join(PATIENCE)
        assert not ender.is_alive() and read_all(client) == b"answer"
        # The other direction is open.
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
        server.close()


# From the COMMIT on, which is the only record of that size now, nothing comes through.
NO_COMMIT = ("table inet cut { set hit { type ipv4_addr; flags dynamic; }; chain c { "
             "type filter hook input priority -400; ip saddr @hit tcp dport 7471 drop; "
             "tcp dport 7471 ip length 98 add @hit { ip saddr } drop; }; }")


@claim
def a_lost_commit_costs_time_or_the_connection_and_nothing_else():
    """The link sends it again. If that takes too long the client gets an error, and no server its request."""
    with Cluster(1, encrypted=True, heartbeat_ms=1500) as c:
        front, be = tls.FrontEnd(c), c.be[0]
        listener = be.listen(443)
        for late in False, True:
            if late:
                be.sysctl("net.flotilla.adopt_deadline_ms", 3000 * SLOW)
            be.run("nft", NO_COMMIT)
            client = tls.Client(c.client, REQUEST)
            sock, secrets = front.accept()
            client.ready()
            front.peek(sock)
            front.settled(front.give(sock, secrets, be))
            sock.close()
            wait(lambda: "10.9.0.1" in be.output("nft", "list", "set", "inet", "cut", "hit"))
            assert not select.select([listener], [], [], 0.3)[0], "it was accepted without a COMMIT"
            if late:
                wait(lambda: be.stat("AdoptExpired") == 1)
            be.run("nft", "delete", "table", "inet", "cut")
            wait(lambda: up(c.fe, be))
            if late:
                event = front.device.event()
                assert (event[0], event[3]) == (CLOSED, "nodedown"), event
                # Of OpenSSL's calls a reset is an end without close_notify.
                try:
                    raise AssertionError(client.tls.recv(1))
                except (ConnectionResetError, ssl.SSLEOFError):
                    pass
                assert not select.select([listener], [], [], 0.3)[0] and not be.nl.stat("TlsFailed")
            else:
                server = accept(listener)
                assert receive(server, len(REQUEST)) == REQUEST
                server.sendall(b"answer")
                server.close()
                assert read_all(client.tls) == b"answer"
                assert front.device.event()[0] == CLOSED
        front.close()


@claim
def modules_can_go_while_the_last_bytes_wait():
    """A connection that its server has closed, whose client does not answer, keeps no module."""
    with set_up() as (c, front, be):
        listener = be.listen(443)
        _, server = given(c, front, be, listener)
        assert receive(server, len(REQUEST)) == REQUEST
        c.client.run("ip", "link", "set", "eth0", "down")
        server.sendall(bytes(1000))
        server.close()
        listener.close()
    wait(lambda: not subprocess.run(("rmmod", "handoff"), stderr=subprocess.DEVNULL, check=False).returncode)
    wait(lambda: not subprocess.run(("rmmod", "flotilla"), stderr=subprocess.DEVNULL, check=False).returncode)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 600
"""Connections of TLS handed to servers that speak clear text: the kernel there encrypts."""
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import select
import socket
import ssl
import struct
import sys
import tempfile
import termios
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import FAILED, PATIENCE, VIP4, Cluster, Refused, accept, claim, main, receive, rounds, wait  # noqa: E402
import kmsg                                                       # noqa: E402
import tls                                                        # noqa: E402
from tls import REQUEST, given, pending, read_all, served, set_up  # noqa: E402
from ways import CALLS, RINGS, Reader                             # noqa: E402


@claim
def plain_server_reads_the_request_and_answers():
    with served() as (front, be, client, server):
        answer = os.urandom(100)
        server.sendall(answer)
        assert receive(client, 100) == answer
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
        assert be.nl.stat("TlsStarted") == 1 and be.nl.stat("TlsFailed") == 0


@claim
def each_cipher_and_many_bytes_by_hash():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for suite in tls.CIPHERS:
            body = os.urandom(rounds(3000000, 300000))
            client = tls.Curl(c.client, suite)
            sock, secrets = front.accept()
            assert secrets.cipher == tls.CIPHERS[suite][0], suite
            front.peek(sock)
            front.settled(front.give(sock, secrets, be))
            sock.close()
            server = accept(listener)
            assert server.recv(4096).startswith(b"GET /x HTTP/1.1\r\n")
            server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body))
            with tempfile.TemporaryFile() as file:
                file.write(body)
                file.seek(0)
                assert server.sendfile(file) == len(body)
            server.close()
            assert hashlib.sha256(client.answer()).digest() == hashlib.sha256(body).digest(), suite


@claim
def tickets_are_counted():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        for tickets in 0, 1, 2, 5:
            client = tls.Client(c.client, REQUEST)
            sock, secrets = front.accept(tickets)
            assert secrets.tx == tickets
            client.ready()
            front.settled(front.give(sock, secrets, be))
            sock.close()
            server = accept(listener)
            assert receive(server, len(REQUEST)) == REQUEST
            server.sendall(b"x")
            assert receive(client.tls, 1) == b"x"


def all_that_a_plain_one_does(c, front, be, listener):
    """Reading, splicing, both ends, a record that is none; of sockets of IPv6."""
    client, server = given(c, front, be, listener)
    assert server.family == socket.AF_INET6
    assert server.recv(4096, socket.MSG_PEEK) == REQUEST and receive(server, len(REQUEST)) == REQUEST
    answer = os.urandom(100000)
    server.sendall(answer)
    assert receive(client, len(answer)) == answer
    out, into = os.pipe()
    client.sendall(b"z" * 5000)
    assert os.splice(server.fileno(), into, 5000) == 5000 and os.read(out, 5000) == b"z" * 5000
    client.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.unwrap()
    assert os.splice(server.fileno(), into, 5000) == 0 and server.recv(100) == b""
    os.close(out)
    os.close(into)
    server.close()
    client, server = given(c, front, be, listener)
    assert receive(server, len(REQUEST)) == REQUEST
    server.close()
    # Without close_notify this raises SSLEOFError.
    assert read_all(client) == b""
    client, server = given(c, front, be, listener)
    assert receive(server, len(REQUEST)) == REQUEST
    with socket.socket(fileno=os.dup(client.fileno())) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        try:
            raise AssertionError(server.recv(100))
        except ConnectionResetError:
            server.close()


@claim
def over_ipv6_it_is_the_same():
    """And on a listener that takes both families: what it gets by IPv4 is a socket of IPv6, too."""
    with set_up() as (c, front, be):
        other = tls.FrontEnd(c, family=6)
        plain = be.listen(443)
        first = given(c, front, be, plain)
        plain.close()
        listener = be.listen(443, 6, address="::")
        assert not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        all_that_a_plain_one_does(c, other, be, listener)
        all_that_a_plain_one_does(c, front, be, listener)
        # One of IPv4 that has been there all the while goes on as before.
        client, server = first
        assert receive(server, len(REQUEST)) == REQUEST
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
        server.close()
        assert read_all(client) == b""
        other.close()


@claim
def peek_and_splice_and_small_reads_work():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client, server = given(c, front, be, listener)
        assert server.recv(10, socket.MSG_PEEK) == REQUEST[:10]
        assert server.recv(4096, socket.MSG_PEEK) == REQUEST
        assert server.recv(3) == REQUEST[:3]
        # What is decrypted and not read yet counts.
        there = bytearray(4)
        fcntl.ioctl(server, termios.FIONREAD, there)
        assert struct.unpack("=i", there)[0] >= len(REQUEST) - 3
        poll = select.epoll()
        poll.register(server, select.EPOLLIN)
        assert poll.poll(PATIENCE)
        assert receive(server, len(REQUEST) - 3) == REQUEST[3:]
        assert not poll.poll(0)
        client.sendall(b"z" * 5000)
        wait(lambda: poll.poll(0))
        out, into = os.pipe()
        assert os.splice(server.fileno(), into, 5000) == 5000 and os.read(out, 5000) == b"z" * 5000
        # With room for control messages: there are none.
        client.sendall(b"y")
        data, control, flags, _ = server.recvmsg(10, 100)
        assert (data, control, flags) == (b"y", [], 0), (data, control, flags)
        # An end while it is spliced.
        client.setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.unwrap()
        assert os.splice(server.fileno(), into, 5000) == 0
        os.close(out)
        os.close(into)
        poll.close()


@claim
def keys_are_nobodys_to_read():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        _, server = given(c, front, be, listener)
        for option in 1, 2:
            for call in (lambda: server.getsockopt(282, option, 60),
                         lambda: server.setsockopt(282, option, bytes(40))):
                try:
                    call()
                    raise AssertionError("SOL_TLS answers")
                except OSError as error:
                    assert error.errno == errno.ENOPROTOOPT, error
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def said(after):
    """How often the kernel's log has the warning since."""
    return sum(b"INSECURE: keys" in record for record in kmsg.records(after))


@claim
def without_encryption_no_key_goes():
    before = kmsg.last()
    with Cluster(1) as c:
        front, be = tls.FrontEnd(c), c.be[0]
        listener = be.listen(443)
        client = tls.Client(c.client, REQUEST)
        sock, secrets = front.accept()
        client.ready()
        refused(front, sock, secrets, be, "keys")
        assert c.fe.stat("HandoffRefusedKeys") == 1 and be.stat("AdoptRequests") == 0
        # It is as it was.
        front.peek(sock)
        # A giver that does not care, and a taker that does.
        c.fe.sysctl("net.flotilla.insecure_keys", 1)
        cookie = front.give(sock, secrets, be)
        front.settled(cookie, FAILED, "keys")
        assert be.stat("HandoffRefusedKeys") + c.fe.stat("HandoffRefusedKeys") >= 2
        be.sysctl("net.flotilla.insecure_keys", 1)
        front.settled(front.give(sock, secrets, be))
        sock.close()
        server = accept(listener)
        assert receive(server, len(REQUEST)) == REQUEST
        assert said(before) == 2, said(before)
        front.close()


@claim
def the_listener_of_another_port_takes_it():
    with set_up() as (c, front, be):
        client = tls.Client(c.client, REQUEST)
        sock, secrets = front.accept()
        client.ready()
        cookie = front.give(sock, secrets, be, port=8443)
        front.settled(cookie, FAILED, "nolistener")
        plain, secure = be.listen(443), be.listen(8443)
        front.settled(front.give(sock, secrets, be, port=8443))
        sock.close()
        server = accept(secure)
        assert server.getsockname() == (VIP4, 443)
        assert receive(server, len(REQUEST)) == REQUEST
        server.close()
        read_all(client.tls)
        # Only where the operator has listed that one, too.
        be.nl.do("SERVICE_DEL", service_addr4=VIP4)
        be.nl.do("SERVICE_NEW", service_addr4=VIP4, service_port=443)
        client = tls.Client(c.client, REQUEST)
        sock, secrets = front.accept()
        client.ready()
        cookie = front.give(sock, secrets, be, port=8443)
        front.settled(cookie, FAILED, "service")
        front.settled(front.give(sock, secrets, be))
        sock.close()
        server = accept(plain)
        assert receive(server, len(REQUEST)) == REQUEST


def refused(front, sock, secrets, be, why, code=errno.EOPNOTSUPP, **how):
    try:
        front.give(sock, secrets, be, **how)
    except Refused as error:
        assert (error.errno, error.refusal) == (code, why), error
        return
    raise AssertionError("not refused")


@claim
def keys_are_checked_when_they_are_given():
    with set_up() as (c, front, be):
        be.listen(443)
        client = tls.Client(c.client, REQUEST)
        sock, secrets = front.accept()
        client.ready()
        for wrong in ({"version": 0x0303}, {"version": 0}, {"cipher": 99}, {"cipher": 53}, {"pad": 1}):
            refused(front, sock, secrets, be, "none", errno.EINVAL, raw=secrets.pack(**wrong))
        raw = bytearray(secrets.pack(cipher=51))
        raw[8 + 31] = 1
        refused(front, sock, secrets, be, "none", errno.EINVAL, raw=bytes(raw))
        front.peek(sock)


@claim
def a_listener_that_closes_leaves_nothing():
    with set_up() as (c, front, be):
        for queued in True, False:
            listener = be.listen(443)
            client = tls.Client(c.client, REQUEST)
            sock, secrets = front.accept()
            client.ready()
            if queued:
                c.client.run("nft", "table inet t { chain c { type filter hook input priority 0; "
                                    "tcp sport 443 drop; }; }")
                sock.sendall(secrets.record(b"early", secrets.tx, way=0))
                secrets.tx += 1
            front.settled(front.give(sock, secrets, be))
            sock.close()
            if queued:
                c.client.run("nft", "delete table inet t")
            listener.close()
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                read_all(client.tls)
            wait(lambda: not be.sockets(443))
        assert be.nl.stat("TlsStarted") == 0


@claim
def the_first_call_may_be_any():
    """Nothing is read as it came, whatever a server does first."""
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client, server = given(c, front, be, listener)
        server.setblocking(True)
        out, into = os.pipe()
        assert os.splice(server.fileno(), into, 5000) == len(REQUEST)
        assert os.read(out, 5000) == REQUEST
        client.sendall(b"more")
        assert receive(server, 4) == b"more"
        os.close(out)
        os.close(into)


@claim
def every_call_and_io_uring_get_its_bytes_and_its_end():
    """Waiting for them, and when they are there already."""
    with served() as (_, _, client, server):
        for way in CALLS + RINGS:
            reader = Reader(server, way)
            reader.silent()
            text = b"for %s" % way.encode()
            client.sendall(text)
            assert reader.end() == b"%d %s" % (len(text), text), way
            client.sendall(text)
            pending(server, len(text))
            assert Reader(server, way).end() == b"%d %s" % (len(text), text), way
        assert Reader(server, "ring-send").end() == b"11 by the ring"
        assert receive(client, 11) == b"by the ring"
        reader = Reader(server, "ring-recv")
        reader.silent()
        client.setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.unwrap()
        assert reader.end() == b"0 "
        for way in CALLS + RINGS:
            assert Reader(server, way).end() == b"0 ", way


@claim
def splice_waits_only_where_the_socket_does():
    with served() as (front, be, client, server):
        out, into = os.pipe()
        server.setblocking(False)
        timer = threading.Timer(PATIENCE / 2, lambda: client.sendall(b"late"))
        timer.start()
        try:
            os.splice(server.fileno(), into, 100)
            raise AssertionError("it has waited")
        except BlockingIOError:
            timer.cancel()
        timer.join()
        os.close(out)
        os.close(into)


@claim
def nothing_is_received_by_mapping():
    """TCP_ZEROCOPY_RECEIVE would give records as they came."""
    with set_up() as (c, front, be):
        listener = be.listen(443)
        _, server = given(c, front, be, listener)
        pending(server, len(REQUEST))
        room = ctypes.create_string_buffer(4096)
        args = struct.pack("=QIIIiQiIQQII", 0, 0, 0, 0, 0, ctypes.addressof(room), 4096, 0, 0, 0, 0, 0)
        args = ctypes.create_string_buffer(args)
        size = ctypes.c_int(64)
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.getsockopt(server.fileno(), socket.IPPROTO_TCP, 35, args, ctypes.byref(size))
        assert not room.raw.strip(b"\0"), room.raw[:100]
        assert done == -1 and ctypes.get_errno() == errno.EOPNOTSUPP, (done, ctypes.get_errno())
        assert receive(server, len(REQUEST)) == REQUEST


@claim
def what_is_thrown_away_needs_no_room():
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client, server = given(c, front, be, listener)
        pending(server, len(REQUEST))
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.recv(server.fileno(), None, 4, socket.MSG_TRUNC)
        assert done == 4, (done, ctypes.get_errno())
        assert receive(server, len(REQUEST) - 4) == REQUEST[4:]


@claim
def who_may_set_the_switch_cannot_flood_the_log():
    """Root of a container may, for his own network."""
    before = kmsg.last()
    with Cluster(1) as c:
        for _ in range(100):
            c.fe.sysctl("net.flotilla.insecure_keys", 1)
    assert 0 < said(before) < 50, said(before)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both two minutes; on the debug kernel it has not been run in its whole
# timeout: 600
"""HTTPS by lardd: its connections go, with their keys, to servers that speak clear text."""
import contextlib
import hashlib
import os
import socket
import sys
import threading
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from hof import PATIENCE, SLOW, VIP4, claim, inside, main, rounds, wait  # noqa: E402
sys.path.insert(0, os.path.join(TOP, "lard", "tests", "lib"))
from httpssite import MARK, SIZES, site                 # noqa: E402

ETH_P_ALL = 3


class Capture(threading.Thread):
    """Everything that goes over the segment, as the nodes' cards see it."""

    def __init__(self, *nodes):
        super().__init__(daemon=True)
        self.socks, self.data, self.ending = [], bytearray(), False
        for node in nodes:
            with inside(node.ns):
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
                sock.bind(("eth0", 0))
                sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)    # SO_RCVBUFFORCE
                sock.settimeout(0.05)
                self.socks.append(sock)
        self.start()

    def run(self):
        while not self.ending:
            for sock in self.socks:
                with contextlib.suppress(TimeoutError):
                    while True:
                        self.data += sock.recv(70000)

    def stop(self):
        self.ending = True
        self.join()
        for sock in self.socks:
            sock.close()
        return bytes(self.data)


@claim
def nginx_and_flash_answer_https_and_nobody_reads_it_on_the_way():
    with site() as s:
        capture = Capture(s.c.fe, *s.c.be)
        asked, nodes = 0, set()
        for options, sizes in (((), SIZES), (("--tls13-ciphers", "TLS_AES_128_GCM_SHA256"), (100, 100000)),
                               (("--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"), (100, 100000))):
            for size in sizes:
                for _ in range(2):
                    fields, body = s.curl("/f%d" % size, *options)
                    assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), size
                    assert fields.get("x-scheme", "https") == "https", fields
                    nodes.add(fields["x-node"])
                    asked += 1
        assert nodes == {"be1", "be2"}, nodes
        s.handed_off(asked)
        assert s.counter("LardProxied") == 0
        assert sum(be.nl.stat("TlsStarted") for be in s.c.be) == asked
        data = capture.stop()
        assert len(data) > asked * 1000 and MARK not in data and b"GET /f" not in data
        assert not s.complaints(), s.complaints()


@claim
def apache_and_lighttpd_answer_https_without_a_complaint():
    with site(servers=("apache2", "lighttpd")) as s:
        asked, nodes = 0, set()
        for size in SIZES:
            for _ in range(2):
                fields, body = s.curl("/f%d" % size)
                assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), size
                nodes.add(fields["x-node"])
                asked += 1
        assert nodes == {"be1", "be2"}, nodes
        s.handed_off(asked)
        assert s.counter("LardProxied") == 0
        # Clients that go away in the midst are no error of theirs, either.
        for _ in range(4):
            s.leaves("/f1000000")
        wait(lambda: not any(be.sockets(443) for be in s.c.be))
        assert not s.complaints(), s.complaints()


@claim
def half_requests_make_room_at_the_limit():
    """What is in the socket is longer than what it says, which is no sign that more has come."""
    with site("max-connections 8\nheader-timeout 300s") as s, contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(s.connect())
            for part in b"GET /f", b"100 HTTP":
                client.sendall(part)
        wait(lambda: sum(s.ask("status")["connections"].values()) == 8)
        assert s.curl("/f100")[1] == s.body(100)
        assert s.counter("LardRecycled") >= 1


def fetch(client, stream, size, last=False):
    """The body of one answer of a connection that is kept, or not."""
    client.sendall(b"GET /f%d HTTP/1.1\r\nHost: %s\r\n%s\r\n" %
                   (size, VIP4.encode(), b"Connection: close\r\n" if last else b""))
    length = None
    while (line := stream.readline()) != b"\r\n":
        assert line, "an end within a header"
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    assert length == size, (length, size)
    return stream.read(size)


@claim
def many_requests_on_a_kept_connection():
    with site() as s:
        for be in range(2):
            client = s.connect()
            stream = client.makefile("rb")
            count = rounds(50, 10)
            for i in range(count):
                size = SIZES[i % len(SIZES)]
                assert fetch(client, stream, size, i == count - 1) == s.body(size), (be, i)
            # The end is one that the server has said.
            assert stream.read() == b""
        s.handed_off(2)


@claim
def what_cannot_go_is_proxied():
    with site() as s:
        fields, body = s.curl("/f8192", "--tls-max", "1.2")
        assert body == s.body(8192) and fields.get("x-scheme", "http") == "http"
        assert s.counter("LardTlsHandedOff") == 0 and s.counter("LardProxied") == 1
        s.curl("/f8192")
        s.handed_off(1)
    with site(port=0) as s:
        assert s.curl("/f8192")[1] == s.body(8192)
        assert s.counter("LardHandedOff") == 0 and s.counter("LardProxied") == 1


@claim
def over_links_in_clear_text_it_is_proxied():
    with site(secure=False) as s:
        for size in SIZES:
            assert s.curl("/f%d" % size)[1] == s.body(size)
        assert s.counter("LardTlsHandedOff") == 0
        assert s.counter("LardProxied") == s.counter("LardProxyFallback") == len(SIZES)
        assert s.c.fe.stat("HandoffRefusedKeys") == len(SIZES)
        assert all(be.stat("AdoptRequests") == 0 for be in s.c.be)


@claim
def a_body_that_is_on_its_way_goes_along():
    with site() as s:
        client = s.connect()
        client.sendall(b"GET /f100 HTTP/1.1\r\nHost: %s\r\nContent-Length: 300000\r\n\r\n" % VIP4.encode() +
                       bytes(100000))
        client.sendall(bytes(200000))
        client.sendall(b"GET /f1 HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % VIP4.encode())
        data = b""
        while part := client.recv(65536):
            data += part
        assert data.count(b"HTTP/1.1 200") == 2 and s.body(100) in data, data
        s.handed_off(1)


if __name__ == "__main__":
    print("# patience %s slow %s" % (PATIENCE, SLOW))
    main()

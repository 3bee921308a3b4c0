#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both four minutes; on the debug kernel it has not been run in its whole
# timeout: 1000
"""HTTPS by lardd: its connections go, with their keys, to servers that speak clear text."""
import contextlib
import hashlib
import os
import shutil
import socket
import ssl
import sys
import threading
import time
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
def node_and_python_answer_https_without_a_complaint():
    """By the servers that their libraries have. Where there is no node (package nodejs), Python twice."""
    other = "node" if shutil.which("node") else "python3"
    print("# %s and python3" % other, flush=True)
    with site(servers=(other, "python3")) as s:
        nodes = set()
        for size in SIZES:
            for _ in range(2):
                fields, body = s.curl("/f%d" % size)
                assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), size
                nodes.add(fields["x-node"])
        assert nodes == {"be1", "be2"}, nodes
        # Kept ones, whose end is said by either side.
        for last in True, False, True, False:
            client = s.connect()
            stream = client.makefile("rb")
            for size in SIZES[:-1]:
                assert fetch(client, stream, size)[1] == s.body(size), size
            assert fetch(client, stream, SIZES[-1], last)[1] == s.body(SIZES[-1])
            assert not last or stream.read() == b""
            stream.close()
            client.close()
        s.handed_off(2 * len(SIZES) + 4)
        assert s.counter("LardProxied") == 0
        # Those that the server has ended wait for their time.
        wait(lambda: not any("TIME-WAIT" not in line for be in s.c.be for line in be.sockets(443)))
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
    """One answer of a connection that is kept, or not: (fields of the header, body)"""
    client.sendall(b"GET /f%d HTTP/1.1\r\nHost: %s\r\n%s\r\n" %
                   (size, VIP4.encode(), b"Connection: close\r\n" if last else b""))
    fields = {}
    stream.readline()
    while (line := stream.readline()) != b"\r\n":
        assert line, "an end within a header"
        name, value = line.decode().split(":", 1)
        fields[name.lower()] = value.strip()
    assert int(fields["content-length"]) == size, fields
    return fields, stream.read(size)


@claim
def many_requests_on_a_kept_connection():
    with site() as s:
        for be in range(2):
            client = s.connect()
            stream = client.makefile("rb")
            count = rounds(50, 10)
            for i in range(count):
                size = SIZES[i % len(SIZES)]
                assert fetch(client, stream, size, i == count - 1)[1] == s.body(size), (be, i)
            # The end is one that the server has said.
            assert stream.read() == b""
        s.handed_off(2)


@claim
def each_request_of_a_kept_connection_goes_where_it_belongs():
    """The server gives it back, unread, with the keys as they are by then; nobody shakes hands again."""
    with site(servers=("flash that gives back",) * 2) as s:
        count, nodes = rounds(40, 20), []
        client = s.connect()
        with client, client.makefile("rb") as stream:
            for number in range(count):
                size = SIZES[number % len(SIZES)]
                fields, body = fetch(client, stream, size, number == count - 1)
                assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), (number, size)
                nodes.append(fields["x-node"])
                time.sleep(0.02 * SLOW)     # for the last acknowledgment
        moved = sum(a != b for a, b in zip(nodes, nodes[1:]))
        print("# of %d requests %d went to the other node" % (count, moved))
        assert moved >= count * 3 // 4, nodes
        assert s.counter("LardTlsReturned") >= moved and s.counter("LardTlsHandshakes") == 1, s.ask("stats")
        assert s.counter("LardProxied") == 0
        assert all(be.nl.stat("TlsBroken") == 0 for be in s.c.be)
        assert not s.complaints(), s.complaints()


@claim
def what_comes_back_and_cannot_go_again_is_proxied():
    """lardd reads and writes clear text, and the kernel makes records of it."""
    with site(servers=("flash that gives back",) * 2) as s:
        client, sizes = s.connect(), SIZES * 2
        with client, client.makefile("rb") as stream:
            assert fetch(client, stream, 100)[1] == s.body(100)
            wait(lambda: s.counter("LardHandedOff") == 1)
            s.c.fe.sysctl("net.flotilla.handoff", 0)
            for number, size in enumerate(sizes):
                time.sleep(0.02 * SLOW)
                body = fetch(client, stream, size, number == len(sizes) - 1)[1]
                assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), (number, size)
            # The end is said, and that of TLS before that of TCP.
            assert stream.read(1) == b""
        assert s.counter("LardTlsReturned") == 1 and s.counter("LardHandedOff") == 1, s.ask("stats")
        assert s.counter("LardProxied") >= len(sizes) - 2, s.ask("stats")
        assert not s.complaints(), s.complaints()


@claim
def without_tickets_it_is_the_same():
    """The server's first record is number 0: nothing was sent after the handshake."""
    with site("tls-tickets off") as s:
        for size in SIZES:
            fields, body = s.curl("/f%d" % size)
            assert body == s.body(size) and fields.get("x-scheme", "https") == "https", (size, fields)
        for be in range(2):
            client = s.connect()
            stream = client.makefile("rb")
            for size in SIZES:
                assert fetch(client, stream, size)[1] == s.body(size), (be, size)
            assert client.version() == "TLSv1.3" and not client.session.has_ticket
            client.close()
        s.handed_off(len(SIZES) + 2)
        assert s.counter("LardProxied") == 0


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


def http2(s, count):
    """So many connections of HTTP/2 moved, and lardd spoke it with nobody."""
    wait(lambda: s.counter("LardHttp2HandedOff") >= count)
    assert s.counter("LardHttp2HandedOff") == count, s.ask("stats")
    assert s.counter("LardHttp2Connections") == s.counter("LardProxied") == 0, s.ask("stats")


@claim
def nginx_answers_http2_by_connections_that_moved():
    with site(http2=8444, servers=("nginx", "nginx")) as s:
        asked, nodes = len(SIZES), set()
        for size in SIZES:
            fields, body = s.curl("/f%d" % size, "--http2")
            assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), size
            assert (fields[":protocol"], fields["x-scheme"]) == ("HTTP/2", "http2"), fields
            nodes.add(fields["x-node"])
        assert nodes == {"be1", "be2"}, nodes
        http2(s, asked)
        # Of HTTP/1.1 at the same address another listener takes them.
        fields, body = s.curl("/f100")
        assert (fields[":protocol"], fields["x-scheme"], body) == ("HTTP/1.1", "https", s.body(100)), fields
        s.handed_off(asked + 1)
        http2(s, asked)
        assert sum(be.nl.stat("TlsStarted") for be in s.c.be) == asked + 1
        assert not s.complaints(), s.complaints()


@claim
def streams_of_a_connection_that_moved_are_all_answered():
    with site(http2=8444, servers=("nginx", "nginx")) as s:
        sizes = SIZES * rounds(6, 2)
        words = [x for i, size in enumerate(sizes)
                 for x in ("-o", "%s/got%d" % (s.dir, i), "https://%s/f%d" % (VIP4, size))]
        done = s.run("curl", "-sk", "--no-progress-meter", "--http2", "-Z", "-m", str(PATIENCE), *words)
        assert done.returncode == 0, (done.returncode, s.says())
        for i, size in enumerate(sizes):
            with open("%s/got%d" % (s.dir, i), "rb") as file:
                assert file.read() == s.body(size), (i, size)
        http2(s, 1)
        # Their first request is behind frames of priority, on stream 13.
        done = s.run("nghttp", "-n", "-s", "-m", "20", "https://%s/f8192" % VIP4, "https://%s/f100000" % VIP4)
        assert done.returncode == 0 and done.stdout.count(b" 200 ") == 40, done.stdout
        http2(s, 2)
        count = rounds(400, 80)
        done = s.run("h2load", "-n", str(count), "-c", "4", "-m", "10", "https://%s/f16384" % VIP4)
        assert b"%d succeeded, 0 failed, 0 errored" % count in done.stdout, done.stdout
        http2(s, 6)
        assert not s.complaints(), s.complaints()


@claim
def a_body_of_http2_goes_along():
    with site(http2=8444, servers=("nginx", "nginx")) as s:
        for i, size in enumerate((1, 16384, 1000000)):
            with open("%s/body" % s.dir, "wb") as file:
                file.write(s.body(size))
            done = s.run("curl", "-sk", "--http2", "-m", str(PATIENCE), "-w", "%{http_code}", "-T", "%s/body" % s.dir,
                         "https://%s/put%d" % (VIP4, i))
            assert (done.returncode, done.stdout) == (0, b"201"), (done, s.says())
            found = [be.name for be in s.c.be if os.path.exists("%s/%s/www/put%d" % (s.dir, be.name, i))]
            assert len(found) == 1, found
            with open("%s/%s/www/put%d" % (s.dir, found[0], i), "rb") as file:
                assert file.read() == s.body(size)
        http2(s, 3)


@claim
def apache_and_lighttpd_answer_http2_at_the_port_of_http1():
    with site(http2=8443, servers=("apache2", "lighttpd")) as s:
        for options, protocol, sizes in (("--http2",), "HTTP/2", SIZES), ((), "HTTP/1.1", (100, 100000)):
            nodes = set()
            for size in sizes:
                fields, body = s.curl("/f%d" % size, *options)
                assert (fields[":protocol"], body) == (protocol, s.body(size)), (fields, size)
                nodes.add(fields["x-node"])
            assert nodes == {"be1", "be2"}, nodes
        http2(s, len(SIZES))
        s.handed_off(len(SIZES) + 2)
        assert not s.complaints(), s.complaints()


@claim
def http2_that_cannot_go_is_spoken_by_lardd():
    def streamed(s, count):
        assert s.counter("LardHttp2HandedOff") == 0, s.ask("stats")
        assert s.counter("LardHttp2Connections") == s.counter("LardHttp2Streams") == s.counter("LardProxied") == count

    # No server listens there, links are in clear text, TLS is older.
    for options, curl in (({"http2": 8445}, ()), ({"http2": 8444, "secure": False}, ()),
                          ({"http2": 8444}, ("--tls-max", "1.2"))):
        with site(servers=("nginx", "nginx"), **options) as s:
            for count, size in enumerate((1, 100000), 1):
                fields, body = s.curl("/f%d" % size, "--http2", *curl)
                assert (fields[":protocol"], fields["x-scheme"], body) == ("HTTP/2", "http", s.body(size)), fields
                streamed(s, count)
            assert s.counter("LardProxyFallback") == (0 if curl else 2)
            assert curl or s.c.fe.stat("HandoffRefusedKeys") == (0 if options.get("secure", True) else 2)


@claim
def who_asks_for_nothing_hears_lardd():
    """He waits for the server's word, which must come although nobody has the connection yet."""
    with site("http2-wait 200ms", http2=8444, servers=("nginx", "nginx")) as s:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(s.c.client.connect(443)) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            assert client.recv(100)[3:4] == b"\4"
        assert s.counter("LardHttp2Connections") == 1 and s.counter("LardHttp2HandedOff") == 0


if __name__ == "__main__":
    print("# patience %s slow %s" % (PATIENCE, SLOW))
    main()

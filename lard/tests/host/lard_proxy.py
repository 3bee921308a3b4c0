#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""lardd as a proxy: every way a request and its answer may be framed arrives whole."""

import hashlib
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (Backend, Lardd, cluster, content, free_port, main,  # noqa: E402
                   read_answer, receive_all, until)


def answers_of_all_sizes_arrive_whole():
    with cluster(1) as lardd:
        for size in (0, 1, 1000, 65000, 65536, 65537, 5_000_000):
            code, _, body = lardd.get(f"/size/{size}")
            assert code == 200 and body == content(size), size


def a_slow_reader_gets_everything():
    with cluster(1) as lardd:
        with lardd.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(b"GET /size/200000 HTTP/1.0\r\n\r\n")
            stream = s.makefile("rb", buffering=1000)
            _, _, body = read_answer(stream)
            assert body == content(200_000)


def head_and_bodyless_answers_keep_the_connection():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"HEAD /size/500 HTTP/1.1\r\nHost: h\r\n\r\n")
        code, fields, _ = read_answer(stream, head=True)
        assert (code, fields["content-length"]) == (200, "500")
        s.sendall(b"GET /204 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(stream)[0] == 204
        s.sendall(b"GET /size/3 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(stream)[2] == content(3)


def chunked_answer_keeps_the_connection():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        for _ in range(3):
            s.sendall(b"GET /chunked HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(stream)[2] == b"c" * 70006


def answer_until_close_ends_the_connection():
    with cluster(1) as lardd:
        code, fields, body = lardd.get("/eof")
        assert (code, body) == (200, b"until the end")
        assert fields["connection"] == "close"


def request_bodies_arrive_whole():
    with cluster(1) as lardd:
        for size in (0, 1, 17000, 3_000_000):
            data = content(size)
            digest = hashlib.sha256(data).hexdigest().encode()
            chunks = b"".join(b"%x;ext=1\r\n" % len(data[i:i + 40000]) + data[i:i + 40000] + b"\r\n"
                              for i in range(0, size, 40000)) + b"0\r\nX-Trailer: t\r\n\r\n"
            for framed in (b"Content-Length: %d\r\n\r\n" % size + data,
                           b"Transfer-Encoding: chunked\r\n\r\n" + chunks):
                with lardd.connect() as s:
                    stream = s.makefile("rb")
                    s.sendall(b"POST /echo HTTP/1.1\r\nHost: h\r\n" + framed)
                    assert read_answer(stream)[2] == digest, size
                    # What followed the body was not swallowed.
                    s.sendall(b"GET /size/9 HTTP/1.1\r\nHost: h\r\n\r\n")
                    assert read_answer(stream)[2] == content(9)


def expect_continue_is_passed_on():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        assert read_answer(stream)[0] == 100
        s.sendall(b"12345")
        assert read_answer(stream)[2] == hashlib.sha256(b"12345").hexdigest().encode()


def pipelined_requests_are_answered_in_order():
    with cluster(3, "policy wrr") as lardd, lardd.connect() as s:
        s.sendall(b"".join(b"GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(100)))
        stream = s.makefile("rb")
        for n in range(100):
            assert read_answer(stream)[2] == content(n)


def each_request_of_a_connection_finds_its_own_node():
    with cluster(3, "policy lb") as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        nodes = set()
        for n in range(30):
            s.sendall(b"GET /t%d HTTP/1.1\r\nHost: h\r\n\r\n" % n)
            node = read_answer(stream)[1]["x-node"]
            assert node == lardd.control("explain", url=f"http://h/t{n}")["node"]
            nodes.add(node)
        assert len(nodes) == 3


def backend_connections_are_reused():
    with cluster(1) as lardd:
        for _ in range(50):
            lardd.get("/x")
        assert lardd.backends[0].connections == 1, lardd.backends[0].connections
        assert lardd.counter("LardBackendReused") == 49


def http_1_0_is_served_and_closed():
    with cluster(1) as lardd:
        answer = lardd.ask(b"GET /size/5 HTTP/1.0\r\n\r\n")
        assert answer.endswith(content(5)) and b"Connection: close" in answer
        assert lardd.backends[0].seen[-1][2] == "HTTP/1.0"


def http_1_0_keep_alive_is_kept():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        for _ in range(3):
            s.sendall(b"GET /size/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            _, fields, body = read_answer(stream)
            assert body == content(5) and fields["connection"] == "keep-alive"


def hop_by_hop_fields_stay_on_their_hop():
    with cluster(1) as lardd:
        lardd.get("/x", "Connection: close, X-Private, Host\r\nX-Private: 1\r\nKeep-Alive: 5\r\n"
                  "X-Public: 2\r\nTE: trailers\r\nX-Forwarded-For: 9.9.9.9\r\n")
        fields = lardd.backends[0].seen[-1][3]
        assert fields["host"] == ["h"] and fields["x-public"] == ["2"], fields
        assert not {"connection", "x-private", "keep-alive", "te"} & set(fields), fields
        assert fields["x-forwarded-for"] == ["9.9.9.9", "127.0.0.1"], fields


def absolute_form_names_the_host():
    with cluster(1) as lardd:
        lardd.ask(b"GET http://Other.example/p?q HTTP/1.1\r\nHost: other.example\r\n"
                  b"Connection: close\r\n\r\n")
        _, target, _, fields, _ = lardd.backends[0].seen[-1]
        assert (target, fields["host"]) == ("/p?q", ["Other.example"])


def upgraded_connection_is_a_tunnel():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
                  b"Upgrade: WebSocket\r\n\r\n")
        code, fields, _ = read_answer(stream)
        assert (code, fields["upgrade"]) == (101, "websocket")
        for text in (b"hello", b"a" * 3000):
            s.sendall(text)
            assert stream.read(len(text)) == text.upper()
        s.shutdown(socket.SHUT_WR)
        assert stream.read() == b""
        until(lambda: lardd.load() == 0, what="no load")


def truncated_answer_is_not_passed_as_whole():
    with cluster(1) as lardd, lardd.connect() as s:
        s.sendall(b"GET /half HTTP/1.1\r\nHost: h\r\n\r\n")
        try:
            data = b""
            while (more := s.recv(65536)):
                data += more
            raise AssertionError(f"a clean end after {len(data)} bytes")
        except ConnectionResetError:
            pass
        until(lambda: lardd.load() == 0, what="no load")


def proxy_protocol_tells_the_client_address():
    backend = Backend("be0")
    with Lardd([backend], nodes=False) as lardd:
        lardd.configure(f"node be0 127.0.0.1:{backend.port} proxy-protocol on", nodes=False)
        lardd.reload()
        lardd.wait_nodes(1)
        with lardd.connect() as s:
            stream = s.makefile("rb")
            for _ in range(2):
                s.sendall(b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n")
                assert read_answer(stream)[2] == content(5)
            port = s.getsockname()[1]
        assert len(backend.raw) == 2, "one connection per request"
        header = backend.raw[0]
        assert header[:12] == b"\r\n\r\n\0\r\nQUIT\n" and header[12:14] == b"\x21\x11"
        assert header[16:24] == socket.inet_aton("127.0.0.1") * 2
        assert int.from_bytes(header[24:26], "big") == port
        assert int.from_bytes(header[26:28], "big") == lardd.port
    backend.stop()


def ipv6_clients_are_served():
    port = free_port()
    with cluster(1, f"listen [::1]:{port}") as lardd:
        with socket.create_connection(("::1", port), timeout=10) as s:
            s.sendall(b"GET /size/8 HTTP/1.0\r\n\r\n")
            assert receive_all(s).endswith(content(8))
        assert lardd.backends[0].seen[-1][3]["x-forwarded-for"] == ["::1"]


def hundreds_of_clients_at_once_all_get_their_own():
    with cluster(3) as lardd:
        wrong = []

        def client(seed):
            try:
                with lardd.connect() as s:
                    stream = s.makefile("rb")
                    for n in range(10):
                        size = (seed * 7919 + n * 104729) % 90000
                        s.sendall(b"GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n" % size)
                        if read_answer(stream)[2] != content(size):
                            wrong.append((seed, n, "content"))
            except (OSError, EOFError, ValueError) as error:
                wrong.append((seed, error))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:5]
        assert lardd.load() == 0
        assert lardd.counter("LardRequests") == 2000


if __name__ == "__main__":
    sys.exit(main([answers_of_all_sizes_arrive_whole, a_slow_reader_gets_everything,
                   head_and_bodyless_answers_keep_the_connection,
                   chunked_answer_keeps_the_connection, answer_until_close_ends_the_connection,
                   request_bodies_arrive_whole, expect_continue_is_passed_on,
                   pipelined_requests_are_answered_in_order,
                   each_request_of_a_connection_finds_its_own_node,
                   backend_connections_are_reused, http_1_0_is_served_and_closed,
                   http_1_0_keep_alive_is_kept, hop_by_hop_fields_stay_on_their_hop,
                   absolute_form_names_the_host, upgraded_connection_is_a_tunnel,
                   truncated_answer_is_not_passed_as_whole,
                   proxy_protocol_tells_the_client_address, ipv6_clients_are_served,
                   hundreds_of_clients_at_once_all_get_their_own]))

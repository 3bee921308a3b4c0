#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""What lardd refuses: malformed, oversized and slow requests, each with its status and a log line."""

import os
import random
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import cluster, content, main, read_answer, receive_all, until  # noqa: E402

SEED = 7


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer[:200]
    return int(answer.split()[1])


def malformed_requests_get_their_status_and_never_reach_a_node():
    cases = [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),     # TLS
        (b"GET / HTTP/1.1\r\n\r\n", 400),                           # no Host
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nbad field: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nname : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 400),                                    # HTTP/0.9
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ]
    with cluster(1) as lardd:
        for request, status in cases:
            got = status_of(lardd.ask(request))
            assert got == status, (request, got, status)
        assert not lardd.backends[0].seen
        assert lardd.counter("LardBadRequest") == len(cases)
        assert lardd.log().count("event=request-refused") == len(cases)


def malformed_chunks_are_refused():
    with cluster(1) as lardd:
        answer = lardd.ask(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"zz\r\nabc\r\n")
        assert status_of(answer) == 400
        until(lambda: lardd.load() == 0, what="no load")


def header_at_the_limit_passes_and_beyond_is_431():
    with cluster(1) as lardd:
        rest = b"GET / HTTP/1.0\r\nX: \r\n\r\n"
        for more, status in ((0, 200), (1, 431), (100000, 431)):
            pad = b"x" * (8192 - len(rest) + more)
            got = status_of(lardd.ask(b"GET / HTTP/1.0\r\nX: " + pad + b"\r\n\r\n"))
            assert got == status, (more, got)
        many = b"".join(b"X%d: y\r\n" % i for i in range(101))
        assert status_of(lardd.ask(b"GET / HTTP/1.0\r\n" + many + b"\r\n")) == 431
        assert lardd.counter("LardTooLarge") == 3


def request_in_single_bytes_is_served():
    with cluster(1) as lardd, lardd.connect() as s:
        for byte in b"\r\nGET /size/77 HTTP/1.1\r\nHost: h\r\n\r\n":
            s.sendall(bytes([byte]))
            time.sleep(0.001)
        assert read_answer(s.makefile("rb"))[2] == content(77)


def slow_header_is_408():
    with cluster(1, "header-timeout 300ms") as lardd, lardd.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\nHo")
        begin = time.monotonic()
        assert status_of(receive_all(s)) == 408
        assert time.monotonic() - begin < 9             # without the directive it takes 10
        assert "status=408" in lardd.log()


def trickling_bytes_do_not_extend_the_time():
    with cluster(1, "header-timeout 500ms") as lardd, lardd.connect() as s:
        begin = time.monotonic()
        s.sendall(b"GET / HTTP/1.1\r\nX: ")
        s.settimeout(0.05)
        answer = b""
        while not answer and time.monotonic() - begin < 60:
            try:
                s.sendall(b"y")
                answer = s.recv(1000)
            except TimeoutError:
                pass
        assert status_of(answer) == 408


def idle_kept_connection_is_closed_without_a_word():
    with cluster(1, "idle-timeout 300ms") as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"GET /size/1 HTTP/1.1\r\nHost: h\r\n\r\n")
        read_answer(stream)
        assert stream.read() == b""


def backend_nonsense_is_502_and_silence_504():
    with cluster(1) as lardd:
        assert lardd.get("/nonsense")[0] == 502
        assert lardd.get("/die")[0] == 502
        assert lardd.get("/long-header")[0] == 502
    with cluster(1, "io-timeout 500ms") as lardd:
        lardd.backends[0].gate.clear()
        assert lardd.get("/slow")[0] == 504
        assert lardd.load() == 0


def client_that_leaves_releases_its_node():
    with cluster(1) as lardd:
        lardd.backends[0].gate.clear()
        s = lardd.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        s.close()
        until(lambda: lardd.load() == 0, what="no load")
        assert lardd.counter("LardAborted") == 1


def seconds_of(pid):
    """Processor time that it has had."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(int(field) for field in file.read().rpartition(")")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def who_is_refused_and_stays_takes_no_time():
    """What he sends on is waited for, for two seconds; each look at it was a reason for another."""
    with cluster(1) as lardd:
        sockets = [lardd.connect() for _ in range(5)]
        for s in sockets:
            s.sendall(b"nonsense\r\n\r\n")
            assert status_of(receive_all(s)) == 400
        before = seconds_of(lardd.process.pid)
        time.sleep(1)
        took = seconds_of(lardd.process.pid) - before
        assert took < 0.2, f"{took:.2f} s of a second"


def random_bytes_do_no_harm():
    rounds, rng = 300, random.Random(SEED)
    pieces = [b"GET ", b"/ ", b"HTTP/1.1", b"\r\n", b"\n", b"Host: h", b"Content-Length: 3",
              b"Transfer-Encoding: chunked", b"0\r\n\r\n", b"\0", b"\xff", b": ", b" ", b"%00"]
    with cluster(1, "header-timeout 3s\nio-timeout 3s") as lardd:
        sockets = []
        for _ in range(rounds):
            s = lardd.connect()
            s.sendall(b"".join(rng.choice(pieces) for _ in range(rng.randrange(1, 40))))
            sockets.append(s)
        for s in sockets:
            s.close()
        until(lambda: lardd.load() == 0, what="no load")
        assert lardd.get("/size/3")[2] == content(3), f"seed {SEED}, {rounds} rounds"


if __name__ == "__main__":
    sys.exit(main([malformed_requests_get_their_status_and_never_reach_a_node,
                   malformed_chunks_are_refused, header_at_the_limit_passes_and_beyond_is_431,
                   request_in_single_bytes_is_served, slow_header_is_408,
                   trickling_bytes_do_not_extend_the_time,
                   idle_kept_connection_is_closed_without_a_word,
                   backend_nonsense_is_502_and_silence_504,
                   client_that_leaves_releases_its_node, who_is_refused_and_stays_takes_no_time,
                   random_bytes_do_no_harm]))

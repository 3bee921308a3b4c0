#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""The metrics page says to Prometheus what happened, in words that its strictest readers take."""

import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import answer_with, cluster, free_port, main, read_answer, until  # noqa: E402
import exposition                                       # noqa: E402  (lardd.py has set the path)
from exposition import value                            # noqa: E402

CACHEABLE = answer_with(10, "Cache-Control: max-age=100")


def scrape(port, target="/metrics", more=""):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        return read_answer(s.makefile("rb"))


def samples(port):
    return exposition.read(scrape(port)[2].decode())


def every_page_is_valid_to_a_strict_reader():
    port = free_port()
    with cluster(3, f"metrics 127.0.0.1:{port}\ncache-size 4000000\nworkers 2") as lardd:
        assert value(samples(port), "lard_nodes") == 3
        for n in range(20):
            lardd.get(f"/x{n}")
        got = samples(port)
        assert value(got, "lard_requests_total") == 20
        assert {dict(labels)["node"] for labels in got["lard_node_load"]} == {"be0", "be1", "be2"}
        assert sum(got["lard_node_requests_total"].values()) == 20
        assert [value(got, "lard_node_up", node=f"be{n}") for n in range(3)] == [1, 1, 1]
        assert next(iter(got["lard_build_info"])) == (("version", lardd.control("status")["version"]),)
        assert abs(value(got, "process_start_time_seconds") -
                   os.stat(f"/proc/{lardd.process.pid}").st_mtime) < 60
        for scope in ("counters", "requests", "reasons", "state", "nodes"):
            exposition.read(scrape(port, f"/metrics?scope={scope}")[2].decode())


def promtool_has_nothing_to_say():
    port = free_port()
    with cluster(2, f"metrics 127.0.0.1:{port}\ncache-size 4000000") as lardd:
        lardd.get("/x")
        said = exposition.promtool(scrape(port)[2].decode())
        assert not said, said


def answers_and_their_times_are_counted_by_outcome():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}\ncache-size 4000000") as lardd:
        for _ in range(7):
            assert lardd.get("/size/10")[0] == 200
        assert lardd.get("/204")[0] == 204
        for _ in range(4):
            assert lardd.get(CACHEABLE)[0] == 200       # the first from its back-end
        assert lardd.ask(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert lardd.get("/die")[0] == 502
        assert lardd.ask(b"GET /half HTTP/1.1\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        got = samples(port)
        assert {dict(labels)["code"]: n for labels, n in got["lard_responses_total"].items()} == \
               {"1xx": 0, "2xx": 13, "3xx": 0, "4xx": 1, "5xx": 1}
        count = "lard_request_duration_seconds_count"
        # Of what never was a request, or was cut short, the time means nothing.
        assert {dict(labels)["outcome"]: n for labels, n in got[count].items()} == \
               {"handoff": 0, "proxy": 9, "cache": 3, "refused": 1}, got[count]


def histogram_has_the_time_that_an_answer_took():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}") as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"GET /size/1 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(stream)[0] == 200
        threading.Event().wait(0.6)                     # the client's own time, between two requests
        lardd.backends[0].gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        threading.Event().wait(2.6)
        lardd.backends[0].gate.set()
        assert read_answer(stream)[0] == 200
        got = samples(port)
        buckets = {dict(labels)["le"]: n for labels, n in
                   got["lard_request_duration_seconds_bucket"].items() if ("outcome", "proxy") in labels}
        assert buckets["+Inf"] == 2 and buckets["2.5"] == 1, buckets
        total = value(got, "lard_request_duration_seconds_sum", outcome="proxy")
        assert 2.5 <= total, total


def slow_clients_idle_time_is_no_latency():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}") as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        for n in range(3):
            s.sendall(b"GET /size/1 HTTP/1.1\r\n")
            threading.Event().wait(1.2)                 # half a header
            s.sendall(b"Host: h\r\n\r\n")
            assert read_answer(stream)[0] == 200
        total = value(samples(port), "lard_request_duration_seconds_sum", outcome="proxy")
        assert total < 3, total


def tunnel_is_counted_without_a_time():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}") as lardd:
        with lardd.connect() as s:
            s.sendall(b"GET /upgrade HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"
                      b"Connection: Upgrade\r\n\r\nhello")
            data = b""
            while b"HELLO" not in data:
                data += s.recv(1000)
        # A tunnel is no load, and is counted when it is over.
        until(lambda: value(samples(port), "lard_responses_total", code="1xx") == 1, what="the tunnel's count")
        got = samples(port)
        assert value(got, "lard_request_duration_seconds_count", outcome="proxy") == 0


def request_as_long_as_the_buffer_is_answered():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}"):
        for _ in range(40):
            head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
            pad = "P: " + "p" * (4096 - len(head) - 7) + "\r\n"
            assert len(head + pad) + 2 == 4096
            assert scrape(port, more=pad)[0] == 200


if __name__ == "__main__":
    sys.exit(main([every_page_is_valid_to_a_strict_reader, promtool_has_nothing_to_say,
                   answers_and_their_times_are_counted_by_outcome, histogram_has_the_time_that_an_answer_took,
                   slow_clients_idle_time_is_no_latency,
                   tunnel_is_counted_without_a_time, request_as_long_as_the_buffer_is_answered]))

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Policies, admission and dying nodes, seen from clients."""

import collections
import json
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import answer_with, cluster, content, main, read_answer, until  # noqa: E402


class Held:
    """Requests that a node keeps until it is told otherwise; answers in order of arrival."""

    def __init__(self, lardd):
        self.lardd, self.sockets, self.done = lardd, [], []

    def send(self, target="/slow"):
        s = self.lardd.connect()
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        self.sockets.append(s)
        return s

    def answers(self):
        out = []
        for s in self.sockets:
            out.append(read_answer(s.makefile("rb"))[0])
            s.close()
        return out


def wrr_spreads_evenly():
    with cluster(3, "policy wrr") as lardd:
        nodes = collections.Counter(lardd.node_of("/same") for _ in range(30))
        assert sorted(nodes.values()) == [10, 10, 10], nodes


def lard_keeps_a_target_on_its_node():
    for policy in ("lard", "lard/r", "lb", "chbl"):
        with cluster(3, f"policy {policy}") as lardd:
            home = {f"/t{n}": lardd.node_of(f"/t{n}") for n in range(12)}
            for _ in range(3):
                for target, node in home.items():
                    assert lardd.node_of(target) == node, (policy, target)
            assert len(set(home.values())) > 1, (policy, home)


def spellings_of_a_url_share_a_node():
    with cluster(3, "policy lb") as lardd:
        nodes = {lardd.node_of(t) for t in ("/a/b", "//a/./b", "/a/x/../b", "/%61/b", "/a%2fb")}
        assert len(nodes) == 1, nodes
        queries = {lardd.node_of(f"/a/b?{n}") for n in range(20)}
        assert len(queries) == 3, queries


def policy_takes_effect_on_the_next_request():
    with cluster(2, "policy lb") as lardd:
        node = lardd.node_of("/t")
        assert {lardd.node_of("/t") for _ in range(4)} == {node}
        assert lardd.control("policy", policy="wrr")["policy"] == "wrr"
        assert len({lardd.node_of("/t") for _ in range(4)}) == 2


def explain_tells_where_the_next_request_goes():
    with cluster(3) as lardd:
        for n in range(40):
            told = lardd.control("explain", url=f"http://h/e{n % 15}")
            assert told == lardd.control("explain", url=f"http://h/e{n % 15}")
            assert told["reason"] == ("first" if n < 15 else "keep"), told
            assert lardd.node_of(f"/e{n % 15}") == told["node"], told


def dead_node_is_replaced_and_comes_back():
    with cluster(2, "policy wrr") as lardd:
        lardd.node_of("/x"), lardd.node_of("/x")
        lardd.backends[0].stop()
        # Not one request is lost while nobody has noticed yet, nor after.
        for _ in range(20):
            code, fields, _ = lardd.get("/x")
            assert (code, fields["x-node"]) == (200, "be1")
        lardd.wait_nodes(1)
        lardd.backends[0].start()
        lardd.wait_nodes(2)
        assert {lardd.node_of("/x") for _ in range(4)} == {"be0", "be1"}
        assert lardd.load() == 0


def mappings_of_a_dead_node_are_forgotten():
    with cluster(2, "policy lard") as lardd:
        home = {f"/t{n}": lardd.node_of(f"/t{n}") for n in range(10)}
        lardd.backends[0].stop()
        lardd.wait_nodes(1)
        lardd.backends[0].start()
        lardd.wait_nodes(2)
        for target, node in home.items():
            reason = lardd.control("explain", url=f"http://h{target}")["reason"]
            assert reason == ("first" if node == "be0" else "keep"), (target, node, reason)


def node_that_dies_while_serving_is_retried_elsewhere():
    with cluster(2, "policy lard") as lardd:
        lardd.backends[0].gate.clear()
        lardd.backends[1].gate.clear()
        held = Held(lardd)
        held.send()
        until(lambda: any(b.seen for b in lardd.backends), what="the request at its node")
        first = 0 if lardd.backends[0].seen else 1
        lardd.backends[1 - first].gate.set()
        lardd.backends[first].stop()
        assert held.answers() == [200]
        assert lardd.counter("LardProxyRetried") == 1
        assert lardd.load() == 0


def no_node_left_is_503():
    with cluster(1) as lardd:
        lardd.backends[0].stop()
        lardd.wait_nodes(0)
        code, fields, _ = lardd.get("/x")
        assert code == 503 and fields["retry-after"] == "1"


def requests_beyond_the_limit_wait_and_are_bound_late():
    with cluster(2, "policy wrr\nmax_outstanding 2") as lardd:
        for backend in lardd.backends:
            backend.gate.clear()
        held = Held(lardd)
        held.send(), held.send()
        until(lambda: lardd.load() == 2, what="load 2")
        for n in range(6):
            held.send(f"/slow?{n}")
            until(lambda n=n: lardd.control("status")["queued"] == n + 1, what="the queue")
        assert lardd.load() == 2
        until(lambda: [len(b.seen) for b in lardd.backends] == [1, 1], what="one request each")
        # Room appears only on be1: that is where all who wait go, first come first served.
        lardd.backends[1].gate.set()
        until(lambda: len(lardd.backends[1].seen) == 7, what="all served by be1")
        order = [r[1] for r in lardd.backends[1].seen[1:]]
        assert order == [f"/slow?{n}" for n in range(6)], order
        lardd.backends[0].gate.set()
        assert held.answers() == [200] * 8
        assert lardd.load() == 0 and lardd.counter("LardQueued") == 6


def flood_never_exceeds_the_limit():
    with cluster(2) as lardd:
        most, stop = [0], threading.Event()

        def watch():
            while not stop.is_set():
                status = lardd.control("status")
                assert status["limit"] == 89
                most[0] = max(most[0], status["outstanding"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        for backend in lardd.backends:
            backend.gate.clear()
        held = Held(lardd)
        for n in range(150):
            held.send(f"/slow?{n}")
        until(lambda: lardd.control("status")["queued"] == 61, what="61 waiting")
        until(lambda: most[0] >= 89, what="a look at it by who watches")
        for backend in lardd.backends:
            backend.gate.set()
        assert held.answers() == [200] * 150
        stop.set()
        watcher.join()
        assert most[0] == 89, most


def full_queue_and_long_wait_are_503():
    for limit, status in (("10m", 200), ("300ms", 503)):
        with cluster(1, f"max_outstanding 1\nmax-queue 1\nqueue-timeout {limit}") as lardd:
            lardd.backends[0].gate.clear()
            held = Held(lardd)
            held.send()
            until(lambda d=lardd: d.load() == 1, what="load 1")
            held.send()
            if status == 200:
                until(lambda d=lardd: d.control("status")["queued"] == 1, what="the queue")
                assert lardd.get("/x")[0] == 503        # the queue is full
            else:                                       # who waits may be gone before anybody looks
                until(lambda d=lardd: d.counter("LardQueued") == 1 and not d.control("status")["queued"],
                      what="the time-out")
            lardd.backends[0].gate.set()
            assert held.answers() == [200, status]


def client_that_leaves_the_queue_is_forgotten():
    with cluster(1, "max_outstanding 1") as lardd:
        lardd.backends[0].gate.clear()
        held = Held(lardd)
        held.send()
        until(lambda: lardd.load() == 1, what="load 1")
        lardd_waits = lardd.connect()
        lardd_waits.sendall(b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.control("status")["queued"] == 1, what="the queue")
        lardd_waits.close()
        lardd.backends[0].gate.set()
        assert held.answers() == [200]
        until(lambda: lardd.control("status")["queued"] == 0 and lardd.load() == 0)


def kept_connection_leaves_the_queue_as_a_new_one_does():
    """Its last request had a node; one that waits has none."""
    reset = struct.pack("ii", 1, 0)
    for limit, goes in (("300ms", False), ("10m", True)):
        with cluster(1, f"max_outstanding 1\nqueue-timeout {limit}") as lardd, lardd.connect() as kept:
            with kept.makefile("rb") as stream:
                kept.sendall(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
                assert read_answer(stream)[0] == 200
                until(lambda: lardd.load() == 0, what="load 0")
                lardd.backends[0].gate.clear()
                held = Held(lardd)
                held.send()
                until(lambda: lardd.load() == 1, what="load 1")
                kept.sendall(b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
                assert goes or read_answer(stream)[0] == 503
            if goes:
                until(lambda: lardd.control("status")["queued"] == 1, what="the queue")
                kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                kept.close()
            until(lambda: lardd.control("status")["queued"] == 0, what="an empty queue")
            lardd.backends[0].gate.set()
            assert held.answers() == [200]


def idle_kept_connection_is_no_load():
    with cluster(1) as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        read_answer(stream)
        assert lardd.load() == 0
        lardd.backends[0].gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        lardd.backends[0].gate.set()
        read_answer(stream)
        assert lardd.load() == 0


def workers_share_policy_limit_and_queue():
    with cluster(2, "policy wrr\nworkers 3\nmax_outstanding 4") as lardd:
        for backend in lardd.backends:
            backend.gate.clear()
        held = Held(lardd)
        for n in range(40):
            held.send(f"/slow?{n}")
        until(lambda: lardd.control("status")["queued"] == 36, what="36 waiting")
        assert lardd.load() == 4
        until(lambda: sum(len(b.seen) for b in lardd.backends) == 4, what="4 requests at nodes")
        for backend in lardd.backends:
            backend.gate.set()
        assert held.answers() == [200] * 40
        # Another worker may have written the answer, and not yet taken it off the load.
        until(lambda: lardd.load() == 0, what="no load")


def workers_serve_through_every_change():
    """Policies, nodes and configurations change under load. With -fsanitize=thread it looks for races."""
    seconds, clients = float(os.environ.get("LARDD_SECONDS", "2")), 12
    settings = "workers 3\ncache-size 300000\ncache-object-max 60000\n"
    with cluster(3, settings) as lardd:
        log = os.path.join(lardd.directory.name, "access")
        end, wrong, asked = time.monotonic() + seconds, [], [0] * clients

        def ask(number):
            try:
                ask_until_the_end(number)
            except (OSError, EOFError) as error:
                wrong.append(repr(error))

        def ask_until_the_end(number):
            draw = random.Random(number)
            while (time.monotonic() < end or not asked[number]) and not wrong:
                with lardd.connect() as s:
                    stream = s.makefile("rb")
                    for _ in range(draw.randrange(1, 6)):
                        size = 1000 * draw.randrange(1, 40)
                        target = answer_with(size, "Cache-Control: max-age=1") if draw.randrange(2) else f"/size/{size}"
                        s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                        code, _, body = read_answer(stream)
                        if code != 200 or body != content(size):
                            wrong.append((code, target, body[:60]))
                        asked[number] += 1

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(clients)]
        for t in threads:
            t.start()
        changes = 0
        while time.monotonic() < end:
            lardd.control("policy", policy=("wrr", "lard", "lard/r", "lb", "chbl", "lc")[changes % 6])
            for command in ("status", "nodes", "stats"):
                lardd.control(command)
            lardd.control("explain", url=f"http://h/size/{1000 * (changes % 40)}")
            if changes % 3 == 1:
                lardd.configure(f"{settings}access-log {log} {('json', 'logfmt')[changes // 3 % 2]}")
                lardd.reload()
            changes += 1
            time.sleep(0.01)
        for t in threads:
            t.join()
        assert not wrong, wrong
        until(lambda: lardd.load() == 0, what="load 0")
        lardd.configure(settings)
        answer = lardd.control("reload")        # closes the log
        assert "error" not in answer, answer
        for line in open(log, encoding="utf-8") if os.path.exists(log) else ():
            if line.startswith("{"):
                json.loads(line)
            else:
                assert line.startswith("time=") and '":' not in line, line
        print(f"# {sum(asked)} requests, {changes} changes of policy, seeds 0 to {clients - 1}")


if __name__ == "__main__":
    sys.exit(main([wrr_spreads_evenly, lard_keeps_a_target_on_its_node,
                   spellings_of_a_url_share_a_node, policy_takes_effect_on_the_next_request,
                   explain_tells_where_the_next_request_goes,
                   dead_node_is_replaced_and_comes_back, mappings_of_a_dead_node_are_forgotten,
                   node_that_dies_while_serving_is_retried_elsewhere, no_node_left_is_503,
                   requests_beyond_the_limit_wait_and_are_bound_late,
                   flood_never_exceeds_the_limit, full_queue_and_long_wait_are_503,
                   client_that_leaves_the_queue_is_forgotten,
                   kept_connection_leaves_the_queue_as_a_new_one_does, idle_kept_connection_is_no_load,
                   workers_share_policy_limit_and_queue, workers_serve_through_every_change]))

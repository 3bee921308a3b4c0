#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""lardd short of something, or with a step of its operator's going wrong: it serves on."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (LARDD, Backend, Lardd, cluster, content, free_port, kit, leave_descriptors, main,  # noqa: E402
                   read_answer, until)


def scrape(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return read_answer(s.makefile("rb"))


def takeover_takes_the_metrics_along():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}") as lardd:
        assert lardd.get("/size/4")[2] == content(4)
        with lardd.connect() as held:                   # so that the old one stays for a while
            lardd.backends[0].gate.clear()
            held.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
            until(lambda: lardd.load() == 1, what="load 1")
            old = lardd.take_over()
            lardd.wait_log("event=stopping")
            for _ in range(8):                          # the new one's, which has served nothing
                code, _, body = scrape(port)
                assert code == 200 and b"lard_requests_total 0\n" in body, body[:300]
            lardd.backends[0].gate.set()
            assert read_answer(held.makefile("rb"))[0] == 200
        assert old.wait(kit.PATIENCE) == 0
        assert lardd.get("/size/4")[2] == content(4)


def takeover_that_fails_leaves_the_old_one_serving():
    """Whatever fails in the new one, and however it goes."""
    with cluster(1) as lardd, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for line in (f"metrics 127.0.0.1:{taken.getsockname()[1]}",
                     f"access-log {lardd.directory.name}/no/such/directory/log"):
            lardd.configure(line)
            run = subprocess.run([LARDD, "-c", lardd.config_path, "--foreground", "--takeover"],
                                 capture_output=True, text=True, timeout=20, check=False)
            assert run.returncode == 1 and "cannot " in run.stderr, run
            assert lardd.get("/size/4")[2] == content(4)
            assert lardd.control("status")["pid"] == lardd.process.pid
        with socket.socket(socket.AF_UNIX) as s:        # one that takes the sockets, and dies
            s.connect(lardd.socket_path)
            s.sendall(b'{"cmd":"handover"}\n')
            for fd in socket.recv_fds(s, 4096, 10)[1]:
                os.close(fd)
        with socket.socket(socket.AF_UNIX) as s:        # and one that was given nothing
            s.connect(lardd.socket_path)
            s.sendall(b'{"cmd":"taken"}\n')
            assert b"error" in s.recv(4096)
        assert lardd.get("/size/4")[2] == content(4)
        assert lardd.control("status")["pid"] == lardd.process.pid
        assert "event=stopping" not in lardd.log()
        lardd.configure()
        assert lardd.take_over().wait(kit.PATIENCE) == 0
        assert lardd.get("/size/4")[2] == content(4)


def more_descriptors(lardd):
    _, hard = resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE, (hard, hard))


def own_shortage_is_no_verdict_about_nodes():
    with cluster(2) as lardd:
        leave_descriptors(lardd, 0)
        time.sleep(1)                                   # many checks' time, and none can be made
        more_descriptors(lardd)
        assert lardd.get("/size/4")[2] == content(4)
        assert "node-down" not in lardd.log(), lardd.log()
        until(lambda: lardd.control("stats")["counters"]["LardAccepted"] >= 1)
    with cluster(2, "health-check none") as lardd:
        leave_descriptors(lardd, 1)                     # for the client, not for its back-end
        for n in range(8):
            code, fields, _ = lardd.get(f"/x{n}")
            assert code == 503 and "retry-after" in fields, (code, fields)
        more_descriptors(lardd)
        for n in range(8):
            assert lardd.get(f"/x{n}")[0] == 200
        assert "node-suspended" not in lardd.log(), lardd.log()


def ask_on(s, stream, target="/size/4"):
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return read_answer(stream)[0]


def kept_clients(lardd, count):
    """So many that have had an answer and are idle, the longest idle first."""
    clients = []
    for _ in range(count):
        s = lardd.connect()
        s.settimeout(10)
        clients.append((s, s.makefile("rb")))
        assert ask_on(*clients[-1]) == 200
    return clients


def out_of_descriptors_the_idle_make_room():
    with cluster(1) as lardd:
        kept = kept_clients(lardd, 8)
        leave_descriptors(lardd, 0)
        s = lardd.connect()
        s.settimeout(10)
        assert ask_on(s, s.makefile("rb")) == 200
        assert kept[0][0].recv(1) == b"", "the longest idle goes first"
        assert ask_on(*kept[-1]) == 200, "and the last does not"
        more_descriptors(lardd)
        for client, _ in kept:
            client.close()
        s.close()


def at_the_limit_the_idle_make_room():
    with cluster(1, "max-connections 8") as lardd:
        kept = kept_clients(lardd, 8)
        s = lardd.connect()
        s.settimeout(10)
        assert ask_on(s, s.makefile("rb")) == 200
        assert kept[0][0].recv(1) == b"", "the longest idle goes first"
        assert ask_on(*kept[-1]) == 200, "and the last does not"
        for client in [s, *(client for client, _ in kept)]:
            client.close()


def the_limit_holds_when_many_come_at_once():
    """However many are accepted in one turn, and whether they are idle, silent or busy."""
    for text in (b"GET /size/1 HTTP/1.1\r\nHost: h\r\n\r\n", b"G"):
        with cluster(1, "max-connections 8") as lardd, contextlib.ExitStack() as stack:
            for _ in range(3):
                lardd.process.send_signal(signal.SIGSTOP)
                for _ in range(200):
                    stack.enter_context(lardd.connect()).sendall(text)
                lardd.process.send_signal(signal.SIGCONT)
                until(lambda: lardd.get("/size/4")[2] == content(4))
                now = sum(lardd.control("status")["connections"].values())
                assert now <= 8, now


def the_limit_is_one_of_all_workers():
    with cluster(1, "max-connections 40\nworkers 4\nheader-timeout 10m") as lardd, contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(lardd.connect()).sendall(b"G")
        until(lambda: lardd.counter("LardAccepted") >= 200, what="all of them")
        now = sum(lardd.control("status")["connections"].values())
        assert 10 <= now <= 40, now
        for _ in range(20):
            assert lardd.get("/size/4")[2] == content(4)


def at_the_limit_slow_requests_make_room():
    """For whole ones, however late it is that they would be timed out."""
    slow = (b"", b"G", b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
    with cluster(1, "max-connections 8\nheader-timeout 10m") as lardd, contextlib.ExitStack() as stack:
        for n in range(30):
            stack.enter_context(lardd.connect()).sendall(slow[n % 3])
        with lardd.connect() as s, s.makefile("rb") as stream:
            s.settimeout(60)
            assert ask_on(s, stream) == 200
        assert lardd.counter("LardRecycled") > 0


def at_the_limit_the_refused_make_room():
    """Who is refused is read for two seconds more, lest he lose the answer. Nobody waits for that."""
    with cluster(1, "max-connections 8") as lardd, contextlib.ExitStack() as stack:
        for n in range(10):
            for _ in range(8):
                stack.enter_context(lardd.connect()).sendall(b"NONSENSE\r\n\r\n")
            before = lardd.counter("LardRecycled")
            assert lardd.get("/size/4")[2] == content(4), n
            if lardd.counter("LardRecycled") > before:
                return
        raise AssertionError("nobody made room for one who came")


def kept_from(lardd, address, count=1):
    """So many connections of an address of loopback's, each with an answer; what is refused is no part of it."""
    kept = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", lardd.port), timeout=60, source_address=(address, 0))
        try:
            assert ask_on(s, s.makefile("rb")) == 200
            kept.append(s)
        except (OSError, EOFError):
            s.close()
    return kept


def counted(lardd, addresses, refused):
    until(lambda: lardd.control("status")["client_addresses"] == addresses, what=f"{addresses} addresses")
    now = lardd.counter("LardAddressRefused")
    assert now == refused, (now, refused)


def an_address_has_no_more_connections_than_it_may():
    """Of all workers together; another address has its own; a place that is left is free."""
    for workers in (1, 4):
        port = free_port()
        extra = f"max-connections-per-address 4\nworkers {workers}\nmetrics 127.0.0.1:{port}"
        with cluster(1, extra) as lardd, contextlib.ExitStack() as stack:
            for n in range(1, 4):
                kept = kept_from(lardd, f"127.0.0.{n}", 6)
                assert len(kept) == 4, (n, len(kept))
                for s in kept:
                    stack.enter_context(s)
                counted(lardd, n, 2 * n)
            assert b"lard_client_addresses 3\n" in scrape(port)[2]
            assert b"lard_address_refused_total 6\n" in scrape(port)[2]
            kept[0].close()
            until(lambda: sum(lardd.control("status")["connections"].values()) == 11, what="one less")
            with kept_from(lardd, "127.0.0.3")[0]:
                assert not kept_from(lardd, "127.0.0.3")
            assert "event=address-refused client=127.0.0.3:" in lardd.log()
            stack.close()
            counted(lardd, 0, 7)


def who_is_turned_away_costs_nobody_his_place():
    """At max-connections too: an address that has all it may have comes again and again."""
    with cluster(1, "max-connections 8\nmax-connections-per-address 2\nidle-timeout 10m") as lardd, \
            contextlib.ExitStack() as stack:
        others = [kept_from(lardd, f"127.0.0.{n}")[0] for n in range(2, 8)]
        for s in others + kept_from(lardd, "127.0.0.9", 2):
            stack.enter_context(s)
        assert others.pop(0).recv(1) == b"", "who came last was let in: the longest idle goes"
        for _ in range(30):
            assert not kept_from(lardd, "127.0.0.9")
        counted(lardd, 6, 30)
        assert lardd.counter("LardRecycled") == 1
        for s in others:
            assert ask_on(s, s.makefile("rb")) == 200
        for n in range(20, 30):                         # and who may come has a place
            stack.enter_context(kept_from(lardd, f"127.0.0.{n}")[0])
        now = sum(lardd.control("status")["connections"].values())
        assert now <= 8, now


def a_reload_changes_how_many_an_address_may_have():
    with cluster(1) as lardd, contextlib.ExitStack() as stack:
        for reloads, (extra, came) in enumerate((("", 6), ("max-connections-per-address 3", 3),
                                                 ("max-connections-per-address 5", 2), ("", 6))):
            if reloads:
                lardd.configure(extra)
                lardd.reload()
                until(lambda want=reloads: lardd.control("status")["reloads"] == want, what="the reload")
            kept = kept_from(lardd, "127.0.0.1", 6)
            assert len(kept) == came, (extra, len(kept))
            for s in kept:
                stack.enter_context(s)
        counted(lardd, 1, 3 + 4)
        stack.close()
        counted(lardd, 0, 7)


def who_goes_before_his_request_is_whole_leaves_his_place():
    with cluster(1, "header-timeout 10m") as lardd:
        for together in (True, False):
            lardd.process.send_signal(signal.SIGSTOP if together else signal.SIGCONT)
            for _ in range(20):
                with lardd.connect() as s:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
            lardd.process.send_signal(signal.SIGCONT)
            until(lambda: not sum(lardd.control("status")["connections"].values()))


def one_who_moves_a_byte_now_and_then_leaves_his_place():
    with cluster(1, "io-timeout 2s\nclient-rate 200000") as lardd:
        began = time.monotonic()
        with lardd.connect() as s, lardd.connect() as t:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
            t.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            t.sendall(b"GET /size/200000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            s.settimeout(0.01)
            t.settimeout(0.01)
            answer, reads = b"", True
            while (not answer or reads) and time.monotonic() - began < 2 * kit.PATIENCE:
                time.sleep(0.1)
                if not answer:
                    with contextlib.suppress(OSError):
                        s.sendall(b"x")
                        answer = s.recv(100)
                with contextlib.suppress(TimeoutError):
                    try:
                        reads = bool(t.recv(10000))
                    except ConnectionResetError:
                        reads = False
            assert answer.startswith(b"HTTP/1.1 408"), answer
            assert not reads, "it still reads"
        until(lambda: lardd.load() == 0, what="no load")


class Dripping(Backend):
    """Sends an answer a byte at a time."""

    def answer(self, peer, stream, method, target, version, body):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            time.sleep(1.1)
            peer.sendall(b"x")
        return True


def slow_back_end_is_no_fault_of_its_client():
    backend = Dripping("be0")
    with Lardd([backend], "io-timeout 5s\nclient-rate 1000000000") as lardd:
        assert lardd.get("/")[2] == b"xxxxxxxx"
    backend.stop()


if __name__ == "__main__":
    sys.exit(main([takeover_takes_the_metrics_along,
                   takeover_that_fails_leaves_the_old_one_serving,
                   own_shortage_is_no_verdict_about_nodes,
                   out_of_descriptors_the_idle_make_room, at_the_limit_the_idle_make_room,
                   the_limit_holds_when_many_come_at_once, the_limit_is_one_of_all_workers,
                   at_the_limit_slow_requests_make_room, at_the_limit_the_refused_make_room,
                   an_address_has_no_more_connections_than_it_may, who_is_turned_away_costs_nobody_his_place,
                   a_reload_changes_how_many_an_address_may_have,
                   who_goes_before_his_request_is_whole_leaves_his_place,
                   one_who_moves_a_byte_now_and_then_leaves_his_place,
                   slow_back_end_is_no_fault_of_its_client]))

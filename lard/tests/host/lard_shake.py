#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""Many TLS handshakes at once: what is established goes on between them, and their number is bounded."""

import contextlib
import os
import resource
import select
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
from lardd import answer_with, content, kit, main, read_answer, until     # noqa: E402
from secure import client_hello, count_is, make_certificate, site    # noqa: E402

CLIENTS = int(os.environ.get("LARDD_CLIENTS", "1000"))
CACHED = answer_with(5, "Cache-Control: max-age=600")


@contextlib.contextmanager
def rsa_site(extra=""):
    """A signature by RSA takes long, and an answer of the cache does not."""
    with site() as s:
        s.files = {"one.test": make_certificate(s.lardd.directory.name, "one.test", "rsa")}
        s.configure(s.files, f"cache-size 1000000\ncache-object-max 1000\nkeepalive-requests 1000000\n{extra}")
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] == 2, what="the reload")
        yield s


def storm(port, count):
    """So many clients that ask for a signature again and again, until standard input ends; how many were made."""
    hello, made = client_hello(), 0
    with selectors.DefaultSelector() as selector:
        def come():
            s = socket.create_connection(("127.0.0.1", port), timeout=60)
            s.sendall(hello)
            selector.register(s, selectors.EVENT_READ)
        for _ in range(count):
            come()
        while not select.select([sys.stdin], [], [], 0)[0]:
            for key, _ in selector.select(0.1):
                with contextlib.suppress(OSError):
                    made += len(key.fileobj.recv(65536)) > 300      # a hello has less, ECDSA's signature some more
                selector.unregister(key.fileobj)
                key.fileobj.close()
                come()
        for key in list(selector.get_map().values()):
            key.fileobj.close()
    return made


def ran(s):
    """Seconds that its worker has had a processor."""
    with open(f"/proc/{s.lardd.process.pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def latencies(s, client, seconds, enough=lambda: True):
    """Of an established client that asks again and again: how long it waits, and what lardd works meanwhile."""
    waits, works, stream = [], [], client.makefile("rb")
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(waits) < 20 or not enough():
        assert time.monotonic() < end + kit.PATIENCE, "there was no crowd"
        start, before = time.monotonic(), ran(s)
        client.sendall(f"GET {CACHED} HTTP/1.1\r\nHost: one.test\r\n\r\n".encode())
        assert read_answer(stream)[2] == content(5)
        waits.append((time.monotonic() - start) * 1e3)
        works.append((ran(s) - before) * 1e3)
    return waits, works


def shown(values):
    return f"median {statistics.median(values):.2f}, 99 % {statistics.quantiles(values, n=100)[98]:.2f}"


def what_is_established_goes_between_handshakes():
    """A few signatures are made before its answer, not those of all who wait; by lardd's own time, as others run."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with rsa_site() as s, s.connect() as client:
        quiet, _ = latencies(s, client, 0.5)
        with subprocess.Popen([sys.executable, __file__, "--storm", str(s.port), str(CLIENTS)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            until(lambda: s.lardd.counter("LardAccepted") > CLIENTS, 4 * kit.PATIENCE, "the crowd")
            before = s.lardd.counter("LardAccepted")
            waits, works = latencies(s, client, 3, lambda: s.lardd.counter("LardAccepted") - before > 100)
            made = int(run.communicate()[0])
        print(f"# {CLIENTS} in handshake, {made} signatures; ms of an established client: alone {shown(quiet)}; "
              f"beside them {shown(waits)}, of which lardd works {shown(works)}, most {max(works):.2f}")
        assert statistics.median(works) < 8, statistics.median(works)


def handshakes_are_bounded():
    """The one who is waited for longest goes for one who comes, and nobody who is established does."""
    with rsa_site("max-handshakes 8\nhandshake-timeout 60s") as s, s.connect() as kept, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(s.tcp()) for _ in range(8)]
        for client in silent:
            client.sendall(b"\x16\x03\x01")
        until(lambda: s.lardd.control("status")["connections"]["handshaking"] == 8, what="8 handshakes")
        for _ in range(3):
            assert s.get("/size/5")[2] == content(5)
        assert s.lardd.get("/size/5")[2] == content(5)
        count_is(s.lardd, "LardRecycled", 1)
        assert silent[0].recv(1) == b""
        for client in silent[1:]:
            client.setblocking(False)
            try:
                raise AssertionError(client.recv(1))
            except BlockingIOError:
                pass
        kept.sendall(b"GET /size/5 HTTP/1.1\r\nHost: one.test\r\n\r\n")
        assert read_answer(kept.makefile("rb"))[2] == content(5)


def crowd(s, stack, count):
    """So many who have asked for a signature before lardd sees the first of them."""
    hello, clients = client_hello(), []
    s.lardd.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(count):
            clients.append(stack.enter_context(s.tcp()))
            clients[-1].sendall(hello)
    finally:
        s.lardd.process.send_signal(signal.SIGCONT)
    return clients


def time_runs_out_for_those_who_wait_for_their_turn():
    """More than can be served in that time: the others hear so, once, and the next is served."""
    with rsa_site("handshake-timeout 30ms") as s, contextlib.ExitStack() as stack:
        clients = crowd(s, stack, 900)
        for client in clients[::2]:
            client.shutdown(socket.SHUT_WR)         # there is nothing to wait for when its time is over
        until(lambda: s.lardd.counter("LardTlsFailed") >= 900, what="the end of all")
        nothing = sum(client.recv(65536) == b"" for client in clients)
        assert nothing > 100, nothing
        s.configure(s.files)
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] == 3, what="the reload")
        assert s.get("/size/5")[2] == content(5)
        assert s.lardd.counter("LardTlsFailed") == 900


if __name__ == "__main__":
    if sys.argv[1:2] == ["--storm"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        print(storm(int(sys.argv[2]), int(sys.argv[3])))
    else:
        sys.exit(main([what_is_established_goes_between_handshakes, handshakes_are_bounded,
                       time_runs_out_for_those_who_wait_for_their_turn]))

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# cpus: 2
"""What is answered, what is not, and what the server sees of it."""
import contextlib
import errno
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (OFF, THREAD, Client, Device, Server, body, claim, counted, equal, fails, main, same,  # noqa: E402
                  site, sleeps_in, wait_for, waiting, wire)
import kit                                      # noqa: E402
import traced                                   # noqa: E402

BIG = 1000000
TCP_ULP = 31
ACCEPT4 = 288
BURST = 64              # AFPA_BURST


@claim
def hits_on_a_kept_connection_are_answered_in_softirq():
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"from the kernel")
        with counted(Hits=50, HitsSoftirq=lambda n: n >= 40, Misses=0, Bytes=lambda n: n > 50 * 15):
            for _ in range(50):
                headers, data = ask(client, "/a")
                equal("body", data, b"from the kernel")
                equal("type", headers["content-type"], "text/plain")
                equal("connection", headers.get("connection"), None)
        equal("what the server read", server.read, [])
        equal("hits", device.query(server.site, "/a")["hits"], 50)


def switches(thread):
    """How often that thread has waited for something."""
    with open(f"/proc/self/task/{thread}/status", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


@claim
def a_hit_switches_no_task():
    """HITS=100000: so many."""
    hits = int(os.environ.get("HITS", kit.rounds(1000, 300)))
    with site() as (device, server), server.client() as client:
        device.put(server.site, "/a", b"a")

        def switched(hits):
            before = [switches(thread) for thread in (server.threads[-1], threading.get_native_id())]
            for _ in range(hits):
                equal("body", client.get("/a"), b"a")
            return [switches(thread) - was for thread, was in
                    zip((server.threads[-1], threading.get_native_id()), before)]
        with counted(Hits=hits, HitsSoftirq=lambda n: n > 0.9 * hits):
            theirs, ours = switched(hits)
        print(f"# {hits} hits: the server's thread was switched {theirs} times, the client's {ours}")
        equal("the server's thread", theirs, 0)
        # A thread of the kernel's may run softirqs for a while; a client that waits does so for each answer.
        if ours > 0.2 * hits:
            raise AssertionError(f"the client waited {ours} times for {hits} answers")
        device.info(mode=THREAD)
        theirs, ours = switched(100)
        print(f"# 100 hits in mode thread: {theirs} and {ours}")
        # Where each instruction is checked the answer is often there before the client looks.
        if ours < 50 and not kit.CHECKING:
            raise AssertionError(f"the client waited {ours} times only for 100 answers of a thread")
        equal("what the server read", server.read, [])


def ask(client, path, **how):
    client.ask(path, **how)
    return client.answer(how.get("method", "GET"))


@claim
def what_keeps_a_request_from_the_cache_is_counted_by_what_showed_it():
    with site() as (device, server):
        device.put(server.site, "/a", b"a")
        for name, text in (("Method", b"POST /a HTTP/1.1\r\nHost: h\r\n\r\n"), ("Line", b"GET /a HTTP/2.0\r\n\r\n"),
                           ("Path", wire("/../a")), ("Host", wire("/a", host="")),
                           ("Field", wire("/a", fields="X : y\r\n")),
                           ("Connection", wire("/a", fields="Connection: x\r\n")),
                           ("Body", wire("/a", fields="Content-Length: 0\r\n")),
                           ("Condition", wire("/a", fields="Range: bytes=0-0\r\n")),
                           ("Cookie", wire("/a", fields="Cookie: a=b\r\n")),
                           ("Credentials", wire("/a", fields="Authorization: x\r\n")),
                           ("Fresh", wire("/a", fields="Pragma: no-cache\r\n")),
                           ("Large", wire("/a", fields="X: y\r\n" * 100))):
            with counted(Hits=0, Misses=0, Deferred=1, **{f"Deferred{name}": 1}), server.client() as client:
                client.sock.sendall(text)
                equal(name, client.answer()[1], b"server " + text.split(b" ")[1])
        with traced.events("afpa/afpa_deferred") as seen, server.client() as client:
            client.get("/a", fields="Cookie: a=b\r\n")
            equal("traced", [text.split()[-1] for _, text, _ in seen()], ["why=cookie"])


@claim
def an_age_goes_on_from_what_it_was():
    with site() as (device, server), Client(server.site, rcvbuf=20000) as client:
        device.put(server.site, "/none", b"x")
        device.put(server.site, "/static", b"x", headers="Age: 7\r\n")
        begin = time.monotonic()
        device.put(server.site, "/small", b"x", age=100)
        device.put(server.site, "/large", body(BIG), age=0)
        done = time.monotonic()

        def right(path, least, **how):
            """Between its put and its arrival it has aged, no more and no less."""
            before = time.monotonic()
            headers, data = ask(client, path, **how)
            age, after = int(headers["age"]), time.monotonic()
            if not int(least + before - done - 0.01) <= age <= least + after - begin + 0.01:
                raise AssertionError(f"{path}: Age {age}, {before - done:.2f} to {after - begin:.2f} s after {least}")
            return data
        for pause in (0, 1.3, 1.3):
            time.sleep(pause)
            equal("small", right("/small", 100), b"x")
            same("large", right("/large", 0), body(BIG))
            right("/large", 0, method="HEAD")
            equal("to HTTP/1.0", right("/small", 100, version="1.0", fields="Connection: keep-alive\r\n"), b"x")
        equal("none", ask(client, "/none")[0].get("age"), None)
        equal("what its program says", ask(client, "/static")[0]["age"], "7")
        says = device.query(server.site, "/small")["age"]
        equal("query", 102 <= says <= 100 + time.monotonic() - begin, True)
        equal("query of none", device.query(server.site, "/none")["age"], None)
        device.put(server.site, "/old", b"x", age=1 << 31)
        time.sleep(1.1)
        equal("the largest", ask(client, "/old")[0]["age"], "2147483648")
        fails(errno.EINVAL, device.put, server.site, "/old", b"x", age=(1 << 31) + 1)
        fails(errno.EINVAL, device.put, server.site, "/old", b"x", age=1, headers="aGe: 1\r\n")
        equal("what the server read", server.read, [])


@claim
def what_arrives_before_accept_is_answered_in_accept():
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"early")
        with counted(HitsAccept=1):
            client.ask("/a")
            wait_for("the request", lambda: waiting(server.site))
            server.go.set()
            equal("body", client.answer()[1], b"early")
        equal("again", client.get("/a"), b"early")
        equal("what the server read", server.read, [])


@claim
def a_miss_reaches_the_server_byte_for_byte():
    with site() as (device, server):
        device.put(server.site, "/a", b"a")
        for text in (wire("/b"), wire("/a", method="POST", fields="Content-Length: 0\r\n"),
                     wire("/a", fields="Range: bytes=0-1\r\n"), wire("/a", fields="Cookie: x\r\nX-Odd:  y \r\n")):
            with Client(server.site) as client:
                client.sock.sendall(text)
                client.answer()
            same("what the server read", server.read.pop(), text)


@claim
def after_a_miss_the_connection_is_the_servers():
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        equal("a hit", client.get("/a"), b"kernel")
        equal("a miss after hits", client.get("/b"), b"server /b")
        equal("a hit no more", client.get("/a"), b"server /a")
        equal("what the server read", server.read, [wire("/b"), wire("/a")])


@claim
def pipelined_answers_come_in_order():
    with site() as (device, server):
        for number in range(10):
            device.put(server.site, f"/{number}", b"kernel /%d" % number)
        server.delay = 0.1
        with server.client() as client:
            # Up to the first miss the kernel's, from there on the server's, hits or not.
            paths = [f"/{n % 10}" for n in range(150)] + ["/miss", "/1", "/2"]
            client.sock.sendall(b"".join(wire(path) for path in paths))
            got = [client.answer()[1].decode() for _ in paths]
        equal("answers", got, [f"kernel {p}" for p in paths[:150]] + [f"server {p}" for p in paths[150:]])


@claim
def a_burst_is_a_work_items_after_64_requests():
    """What one event answers is bounded, so that a client who sends without end leaves the CPU to others."""
    with site() as (device, server):
        for number in range(10):
            device.put(server.site, f"/{number}", b"kernel /%d" % number)

        def pipelined(number, **grows):
            """In one segment."""
            paths = [f"/{n * 7 % 10}" for n in range(number)]
            with server.client() as client, counted(Hits=number, **grows):
                client.sock.sendall(b"".join(map(wire, paths)))
                equal("answers", [client.answer()[1].decode() for _ in paths], [f"kernel {path}" for path in paths])
        pipelined(BURST - 1, HitsSoftirq=BURST - 1, HitsWorker=0, Bursts=0)
        pipelined(BURST, HitsSoftirq=BURST, HitsWorker=0, Bursts=1)
        pipelined(4 * BURST + 1, HitsSoftirq=BURST, HitsWorker=3 * BURST + 1, Bursts=4)
        device.info(mode=THREAD)
        pipelined(4 * BURST + 1, HitsSoftirq=0, HitsWorker=4 * BURST + 1, Bursts=4)
        equal("what the server read", server.read, [])


@claim
def a_request_that_comes_byte_by_byte_is_answered():
    with site() as (device, server), server.client() as client:
        device.put(server.site, "/a", b"slowly")
        with counted(Hits=2, Partial=lambda n: n > 10):
            for _ in range(2):
                for byte in wire("/a"):
                    client.sock.sendall(bytes([byte]))
                    time.sleep(0.002)
                equal("body", client.answer()[1], b"slowly")
        equal("what the server read", server.read, [])


@claim
def a_request_that_finds_no_room_is_the_servers():
    with site(accept=False) as (device, server):
        # Its children have as little room for a request of 8000 bytes.
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        server.go.set()
        device.put(server.site, "/k", b"kernel")
        with server.client() as client:
            equal("body", client.get("/k"), b"kernel")
            client.ask("/a", fields="X-Pad: " + "x" * 7000 + "\r\n")
            equal("by the server", client.answer()[1], b"server /a")


@claim
def half_a_request_and_an_end_are_the_servers():
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"a")
        sock = server.listener.accept()[0]
        client.sock.sendall(b"GET /a HTTP/1.1\r\nHo")
        client.sock.shutdown(socket.SHUT_WR)
        equal("what the server read", sock.recv(100), b"GET /a HTTP/1.1\r\nHo")
        equal("end", sock.recv(100), b"")
        sock.close()


@claim
def an_accept_that_began_before_the_site_lets_through_and_is_heard_of():
    with Device() as device, contextlib.closing(Server()) as server:
        wait_for("accept(2)", lambda: sleeps_in(server.acceptor, ACCEPT4))
        device.site_add(server.site)
        data = body(BIG)
        device.put(server.site, "/big", data)
        with Client(server.site, rcvbuf=20000) as client:
            wait_for("accept", lambda: server.accepted)
            with counted(Hits=1, Flushed=1):
                client.ask("/big")
                wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
                server.socks[-1].shutdown(socket.SHUT_WR)
                same("body", client.answer()[1], data)
        device.site_del(server.site)


@claim
def a_large_object_comes_in_chunks_as_the_client_takes_it():
    with site() as (device, server), Client(server.site, rcvbuf=20000) as client:
        data = body(BIG)
        device.put(server.site, "/big", data)
        with counted(Hits=1, Continued=lambda n: n > 3):
            client.ask("/big")
            wait_for("a full socket", lambda: client.sock.recv(1, socket.MSG_PEEK))
            time.sleep(0.3)
            with open("/proc/net/tcp", encoding="ascii") as table:
                queued = [int(line.split()[4].split(":")[0], 16) for line in table
                          if line.split()[1].endswith(f":{server.site[1]:04X}")]
            if max(queued) > 600000:
                raise AssertionError(f"{queued} bytes wait in sockets")
            same("body", client.answer()[1], data)
        equal("next", client.get("/none"), b"server /none")


@claim
def many_large_answers_on_one_connection_keep_their_order():
    with site() as (device, server), server.client() as client:
        data = {f"/{n}": body(150000 + n, n) for n in range(5)}
        for path, text in data.items():
            device.put(server.site, path, text)
        client.sock.sendall(b"".join(map(wire, data)))
        for path, text in data.items():
            same(path, client.answer()[1], text)


@claim
def the_end_of_a_connection_is_as_the_client_asks():
    with site() as (device, server):
        device.put(server.site, "/a", b"bye")
        for version, fields, says, ends in (("1.1", "Connection: close\r\n", "close", True),
                                            ("1.0", "", "close", True), ("1.1", "", None, False),
                                            ("1.0", "Connection: keep-alive\r\n", "keep-alive", False)):
            with Client(server.site) as client:
                headers, data = ask(client, "/a", version=version, fields=fields)
                equal("body", data, b"bye")
                equal(f"{version} {fields!r}", headers.get("connection"), says)
                if ends:
                    equal("end", client.at_end(), True)
                else:
                    equal("once more", client.get("/a"), b"bye")
        equal("what the server read", server.read, [])


@claim
def head_is_answered_without_a_body():
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"x" * 100)
        with counted(Heads=1, Hits=2):
            headers, data = ask(client, "/a", method="HEAD")
            equal("length", headers["content-length"], "100")
            equal("a GET after it", client.get("/a"), b"x" * 100)


@claim
def headers_that_were_put_are_sent_and_others_refused():
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"", headers="X-One: 1\r\nETag: \"2\"\r\n", kind="")
        headers, data = ask(client, "/a")
        equal("headers", (headers["x-one"], headers["etag"], headers.get("content-type"), data),
              ("1", '"2"', None, b""))
        for bad in ("X: 1", "X 1\r\n", "X: 1\r\n\r\n", "Content-Length: 5\r\n", ": 1\r\n", "A: b\r\nX : 1\r\n",
                    "X\u00e9: 1\r\n", "X(: 1\r\n", "X\u00a0: 1\r\n"):
            try:
                device.put(server.site, "/b", b"", headers=bad)
            except OSError as err:
                equal(bad, err.errno, 22)
            else:
                raise AssertionError(f"{bad!r} was taken")


@claim
def hosts_are_kept_apart():
    with site() as (device, server), Client(server.site) as client:
        for host in ("one.example", "Two.example"):
            device.put(server.site, "/a", host.lower().encode(), host=host)
        device.put(server.site, "/b", b"any")
        port = server.site[1]
        for host, answer in (("one.example", b"one.example"), ("ONE.example", b"one.example"),
                             (f"two.example:{port}", b"two.example")):
            equal(host, client.get("/a", host=host), answer)
        equal("any host", client.get("/b", host="three.example"), b"any")
        equal("of no host", client.get("/a", host="three.example"), b"server /a")


@claim
def ipv6_is_served():
    for address in ("::1", "::"):
        with site(address) as (device, server), Client(("::1", server.site[1])) as client:
            device.put(server.site, "/a", b"six")
            equal("body", client.get("/a"), b"six")
            equal("miss", client.get("/b"), b"server /b")


@claim
def a_program_that_speaks_first_has_the_connection():
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"a")
        sock = server.listener.accept()[0]
        sock.sendall(b"hello\n")
        equal("greeting", client.file.readline(), b"hello\n")
        client.ask("/a")
        same("what the server read", sock.recv(1000), wire("/a"))
        sock.close()


@claim
def off_is_off_and_threads_answer_too():
    with site() as (device, server):
        device.put(server.site, "/a", body(300000))
        device.put(server.site, "/small", b"small")
        device.info(mode=OFF)
        with Client(server.site) as client:
            equal("off", client.get("/a"), b"server /a")
        device.info(mode=THREAD)
        with server.client() as client, counted(Hits=21, HitsWorker=21, HitsSoftirq=0, HitsAccept=0):
            for _ in range(20):
                equal("thread", client.get("/small"), b"small")
            # The end of one in pieces wakes the server, who may find what comes then.
            same("thread", client.get("/a"), body(300000))
            equal("miss", client.get("/b"), b"server /b")


@claim
def a_program_that_writes_in_the_midst_of_an_answer_comes_after_it():
    with site(accept=False) as (device, server), Client(server.site, rcvbuf=20000) as client:
        data = body(BIG)
        device.put(server.site, "/big", data)
        sock = server.listener.accept()[0]
        with counted(Flushed=2):
            client.ask("/big")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
            same("the kernel's", client.answer()[1], data)
            equal("the program's", client.answer()[1], b"mine")
            sock.close()
            with Client(server.site, rcvbuf=20000) as other:
                sock = server.listener.accept()[0]
                other.ask("/big")
                wait_for("the answer", lambda: other.sock.recv(1, socket.MSG_PEEK))
                sock.close()
                same("after close", other.answer()[1], data)
                equal("end", other.at_end(), True)


@claim
def an_answer_ends_where_its_program_sets_ktls():
    with site(accept=False) as (device, server), Client(server.site, rcvbuf=20000) as client:
        device.put(server.site, "/big", body(BIG))
        with server.listener.accept()[0] as sock:
            client.ask("/big")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            try:
                sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            except OSError as err:
                raise kit.Skip("no kTLS") from err
            before = len(client.sock.recv(10000))
            with counted(Bytes=0):
                client.sock.settimeout(2 * kit.SLOW)
                with contextlib.suppress(TimeoutError):
                    while part := client.sock.recv(10000):
                        before += len(part)
        if before >= BIG:
            raise AssertionError(f"{before} bytes came")


@claim
def a_listener_bound_to_a_device_is_of_no_site():
    with Device() as device, contextlib.closing(Server(accept=False)) as server:
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        server.go.set()
        equal("listeners, refused, errno", device.site_add(server.site), (0, 0, 0))
        device.put(server.site, "/a", b"kernel")
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"server /a")
        # One that is bound later makes no more connections of the site.
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"")
        equal("listeners, refused, errno", device.site_add(server.site), (1, 0, 0))
        server.pass_one()
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"kernel")
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"server /a")
        device.site_del(server.site)


@claim
def a_listener_that_has_moved_makes_no_connections_of_the_site():
    with site(accept=False) as (device, server):
        device.put(server.site, "/a", b"kernel")
        there = ("127.0.0.2", server.site[1])
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.bind(there)
        server.listener.listen()
        server.go.set()
        with Client(there) as client:
            equal("body", client.get("/a"), b"server /a")


@claim
def a_listener_that_comes_later_is_found():
    with site() as (device, server):
        device.put(server.site, "/a", b"kernel")
        server.close()
        again = Server("127.0.0.1", server.site[1])

        def found():
            with Client(again.site) as client:
                return client.get("/a") == b"kernel"
        wait_for("the listener", found)
        again.close()


main()

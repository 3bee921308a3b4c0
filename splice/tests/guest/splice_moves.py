#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes a minute and a half there
# timeout: 180
# cpus: 2
"""One-way and two-way transfers: every byte, in order, and both sockets ordinary afterwards."""
import errno
import os
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, BIDIR, DONE, Proxy, Thread, body, claim,  # noqa: E402
                 close_device, counters, device, equal, events, fails, main, recv_all,
                 recv_exactly, reset, same, wait_event, wait_for)


def transfer(proxy, size, seed=0, **how):
    """Spliced first, then sent; the client's bytes are checked."""
    sent = body(size, seed)
    answer = device().splice(proxy.src, proxy.dst, limit=size, flags=AUTORELEASE, **how)
    sender = Thread(proxy.server.sendall, sent)
    same("body", recv_exactly(proxy.client, size), sent)
    sender.join()
    if answer.status == ACTIVE:
        wait_event(proxy.dst, select.POLLOUT)
    result = device().result(proxy.src)
    equal("status", result.status, DONE)
    equal("cause", result.cause, "limit")
    equal("bytes", result.moved01, size)


@claim
def a_limit_is_exact_for_sizes_from_0_to_3_MB():
    with Proxy() as p:
        for size in (0, 1, 2, 100, 1447, 1448, 1449, 4096, 65535, 65536, 65537, 1 << 20, 3000001):
            transfer(p, size)
        p.still_ordinary()


@claim
def ipv6_and_mixed_families():
    for families in ((6, 6), (4, 6), (6, 4)):
        with Proxy(families) as p:
            transfer(p, 300000)
            p.still_ordinary()


@claim
def what_is_there_already_ends_within_the_call():
    with Proxy() as p:
        p.server.sendall(b"x" * 5000)
        wait_event(p.src, select.POLLIN)
        wait_for("bytes", lambda: len(p.src.recv(8192, socket.MSG_PEEK)) == 5000)
        answer = device().splice(p.src, p.dst, limit=5000, flags=0, data=b"headers;")
        equal("status", answer.status, DONE)
        equal("cause", answer.cause, "limit")
        equal("moved", answer.moved01, 5000)
        equal("data", answer.data_done, 8)
        same("body", recv_exactly(p.client, 5008), b"headers;" + b"x" * 5000)
        fails(errno.ENOENT, device().unsplice, p.src, p.dst)
        equal("writable", events(p.dst), "O")
        p.still_ordinary()


@claim
def headers_go_in_one_send_with_what_waits():
    for size in (1, 1208, 4000):
        with Proxy() as p:
            headers, waiting = body(2896), body(size)
            p.server.sendall(waiting)
            wait_for("bytes", lambda p=p, size=size: len(p.src.recv(8192, socket.MSG_PEEK)) == size)
            before = counters()["SpliceSends"]
            answer = device().splice(p.src, p.dst, limit=size, flags=AUTORELEASE, data=headers)
            equal("status, data", (answer.status, answer.data_done), (DONE, 2896))
            equal("sends", counters()["SpliceSends"] - before, 1)
            same("all", recv_exactly(p.client, 2896 + size), headers + waiting)
            p.still_ordinary()


@claim
def packets_that_wait_go_in_one_send():
    size, number = 3000, 4
    for limit in (size * number, size * 2 + 100, 1):
        with Proxy() as p:
            sent = body(size * number)
            # What its sender may have to send again is not joined to what follows.
            p.src.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            p.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(sent), size):
                p.server.sendall(sent[at:at + size])
            wait_for("bytes", lambda p=p, sent=sent: len(p.src.recv(65536, socket.MSG_PEEK)) == len(sent))
            before = counters()["SpliceSends"]
            answer = device().splice(p.src, p.dst, limit=limit, flags=AUTORELEASE)
            equal("status, moved", (answer.status, answer.moved01), (DONE, limit))
            equal("sends", counters()["SpliceSends"] - before, 1)
            same("passed on", recv_exactly(p.client, limit), sent[:limit])
            if limit < len(sent):
                same("left", recv_exactly(p.src, len(sent) - limit), sent[limit:])
            p.still_ordinary()


@claim
def headers_come_first_whatever_is_there_and_however_little_is_wanted():
    for waiting, limit, data in ((0, 500, 4096), (500, 0, 4096), (500, 500, 4097), (500, 100, 1),
                                 (500, None, 3000)):
        with Proxy() as p:
            headers, rest = body(data, 1), body(500, 2)
            p.server.sendall(rest[:waiting])
            wait_for("bytes", lambda p=p, n=waiting: not n or len(p.src.recv(999, socket.MSG_PEEK)) == n)
            device().splice(p.src, p.dst, limit=limit, flags=AUTORELEASE, data=headers)
            p.server.sendall(rest[waiting:])
            p.server.shutdown(socket.SHUT_WR)
            passed = 500 if limit is None else limit
            same("client", recv_exactly(p.client, data + passed), headers + rest[:passed])
            if limit is not None:
                wait_event(p.dst, select.POLLOUT)
                same("rest", recv_all(p.src), rest[passed:])


@claim
def the_rest_behind_the_limit_stays_readable():
    with Proxy() as p:
        p.server.sendall(b"a" * 1000 + b"b" * 500)
        wait_for("bytes", lambda: len(p.src.recv(8192, socket.MSG_PEEK)) == 1500)
        device().splice(p.src, p.dst, limit=1000, flags=AUTORELEASE)
        same("client", recv_exactly(p.client, 1000), b"a" * 1000)
        same("rest", recv_exactly(p.src, 500), b"b" * 500)
        p.still_ordinary()


@claim
def until_close_of_the_source_and_the_client_stays_open():
    with Proxy() as p:
        sent = body(200000)
        answer = device().splice(p.src, p.dst, flags=AUTORELEASE)
        equal("status", answer.status, ACTIVE)
        sender = Thread(lambda: (p.server.sendall(sent), p.server.shutdown(socket.SHUT_WR)))
        same("body", recv_exactly(p.client, len(sent)), sent)
        sender.join()
        wait_event(p.dst, select.POLLOUT)
        equal("cause", device().result(p.dst).cause, "eof")
        equal("client", events(p.client), "O")
        p.dst.sendall(b"more")
        equal("more", recv_exactly(p.client, 4), b"more")
        equal("source", p.src.recv(10), b"")


@claim
def a_source_that_has_sent_its_fin_already():
    with Proxy() as p:
        p.server.sendall(b"z" * 3000)
        p.server.shutdown(socket.SHUT_WR)
        wait_for("FIN", lambda: events(p.src) and len(p.src.recv(8192, socket.MSG_PEEK)) == 3000)
        device().splice(p.src, p.dst, flags=AUTORELEASE)
        same("body", recv_exactly(p.client, 3000), b"z" * 3000)
        wait_for("end", lambda: device().result(p.src).cause == "eof")


@claim
def three_answers_of_two_servers_on_one_client_connection():
    with Proxy() as p, Proxy() as q:
        transfer(p, 10000, 1)
        q.dst, q.client, keep = p.dst, p.client, (q.dst, q.client)
        transfer(q, 20000, 2)
        transfer(p, 30000, 3)
        q.dst, q.client = keep
        p.still_ordinary()
        q.still_ordinary()


@claim
def requests_pass_both_ways_in_the_midst_of_an_answer():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=100000, flags=AUTORELEASE)
        p.server.sendall(b"1" * 50000)
        recv_exactly(p.client, 50000)
        p.client.sendall(b"next request")
        wait_event(p.dst, select.POLLIN)
        equal("request", p.dst.recv(100), b"next request")
        p.src.sendall(b"next request")
        equal("at the server", recv_exactly(p.server, 12), b"next request")
        p.server.sendall(b"2" * 50000)
        same("rest", recv_exactly(p.client, 50000), b"2" * 50000)
        wait_event(p.dst, select.POLLOUT)
        p.still_ordinary()


@claim
def both_ways_at_once_with_half_close_until_both_are_closed():
    for families in ((4, 4), (6, 4)):
        with Proxy(families) as p:
            up, down = body(700001, 1), body(900001, 2)
            equal("status", device().splice(p.src, p.dst, flags=BIDIR).status, ACTIVE)
            threads = [Thread(lambda: (p.server.sendall(down), p.server.shutdown(socket.SHUT_WR))),
                       Thread(p.client.sendall, up), Thread(recv_all, p.client)]
            same("up", recv_exactly(p.server, len(up)), up)
            same("down", threads[2].join(), down)
            threads[0].join()
            threads[1].join()
            # The client still sends after the server's FIN.
            p.client.sendall(b"late")
            equal("late", recv_exactly(p.server, 4), b"late")
            equal("no event yet", events(p.src) + events(p.dst), "")
            p.client.shutdown(socket.SHUT_WR)
            equal("FIN", p.server.recv(1), b"")
            wait_for("HUP", lambda: "H" in events(p.src) and "H" in events(p.dst))
            result = device().unsplice(p.dst, p.src)
            equal("cause", result.cause, "both")
            equal("moved", (result.moved01, result.moved10), (len(down), len(up) + 4))


@claim
def a_reset_of_either_side_resets_the_other_of_a_two_way_transfer():
    for side in ("server", "client"):
        with Proxy() as p:
            device().splice(p.src, p.dst, flags=BIDIR | AUTORELEASE)
            p.server.sendall(b"hello")
            equal("hello", recv_exactly(p.client, 5), b"hello")
            reset(getattr(p, side))
            other = p.client if side == "server" else p.server
            fails(errno.ECONNRESET, other.recv, 1)
            wait_for("end", lambda: device().result(p.src).cause == "both")


@claim
def forwarding_happens_where_data_arrives():
    before = counters()
    with Proxy() as p:
        transfer(p, 4 << 20)
    after = counters()
    moved = {k: after[k] - before[k] for k in after if k.startswith("SpliceBytes")}
    print("#", moved)
    equal("sum", moved["SpliceBytesSoftirq"] + moved["SpliceBytesWorker"] +
          moved["SpliceBytesCall"], 4 << 20)
    if not moved["SpliceBytesSoftirq"]:
        raise AssertionError("nothing was forwarded in softirq")


def tune(name, value):
    with open(f"/sys/module/sksplice/parameters/{name}", "r+", encoding="ascii") as f:
        was = f.read().strip()
        f.seek(0)
        f.write(str(value))
    return was


@claim
def gathering_moves_the_same_bytes_and_can_be_turned_off():
    for name, value in (("gather_bytes", 0), ("gather_us", 0), ("gather_us", 100000),
                        ("gather_bytes", 1 << 30)):
        was, before = tune(name, value), counters()["SpliceGathered"]
        try:
            with Proxy() as p:
                transfer(p, 2 << 20)
                transfer(p, 70000)
        finally:
            tune(name, was)
        waits = counters()["SpliceGathered"] - before
        print(f"# {name} {value}: {waits} packets waited")
        if value == 0 and name == "gather_bytes":
            equal("waits", waits, 0)


@claim
def what_comes_soon_after_a_send_waits_for_its_turn():
    """Also when the client has acknowledged all; and what comes later goes at once."""
    # Long beside what this program takes between two of its calls on a slow machine.
    was = tune("gather_us", 8000000)
    try:
        with Proxy() as p:
            device().splice(p.src, p.dst, limit=5, flags=AUTORELEASE)
            p.server.sendall(b"a")
            equal("the first goes at once", recv_exactly(p.client, 1), b"a")
            # Longer than an ACK is delayed.
            time.sleep(0.15)
            began = time.monotonic()
            p.server.sendall(b"b")
            time.sleep(0.02)
            p.server.sendall(b"c")
            equal("two together", p.client.recv(9), b"bc")
            waited = time.monotonic() - began
            print(f"# the second waited {waited:.3f} s")
            if not 1 < waited:
                raise AssertionError("it did not wait")
            time.sleep(8.5)
            p.server.sendall(b"d")
            began = time.monotonic()
            equal("after a pause", p.client.recv(9), b"d")
            if time.monotonic() - began > 6:
                raise AssertionError("it waited, though nothing had been sent for long")
            p.server.sendall(b"e")
            equal("the last waits for nothing", p.client.recv(9), b"e")
    finally:
        tune("gather_us", was)


@claim
def nothing_is_left_under_way():
    wait_for("transfers", lambda: device().info()["active"] == 0)
    close_device()


if __name__ == "__main__":
    main()

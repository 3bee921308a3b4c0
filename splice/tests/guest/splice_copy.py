#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
# cpus: 2
"""KeepCopy: the program reads what is passed on, and the copy is complete whatever the client does."""
import errno
import os
import select
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, DISCARD, DONE, KEEPCOPY, Proxy, Thread, body, claim,  # noqa: E402
                 close_device, counters, device, equal, events, fails, main, recv_exactly,
                 reset, same, wait_event, wait_for)


def keep(proxy, limit, **how):
    how.setdefault("flags", AUTORELEASE)
    how["flags"] |= KEEPCOPY
    return device().splice(proxy.src, proxy.dst, limit=limit, **how)


def read_copy(sock, length, step=65536):
    parts, left = [], length
    while left:
        wait_event(sock, select.POLLIN)
        part = sock.recv(min(step, left))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@claim
def the_copy_is_what_the_client_got():
    for size in (1, 1000, 65536, 65537, 500001):
        with Proxy() as p:
            sent = body(size)
            keep(p, size, min2read=min(size, 16384), max2cache=65536)
            threads = [Thread(p.server.sendall, sent), Thread(recv_exactly, p.client, size)]
            same("copy", read_copy(p.src, size), sent)
            same("client", threads[1].join(), sent)
            threads[0].join()
            wait_event(p.dst, select.POLLOUT)
            result = device().result(p.src)
            equal("result", (result.status, result.cause, result.moved01, result.copied),
                  (DONE, "limit", size, size))
            p.still_ordinary()


@claim
def readable_from_min2read_on_and_for_the_rest_at_the_end():
    with Proxy() as p:
        keep(p, 20000, min2read=16000)
        p.server.sendall(b"a" * 15999)
        recv_exactly(p.client, 15999)
        wait_for("copied", lambda: device().result(p.src).copied == 15999)
        equal("below the mark", events(p.src), "O")
        p.server.sendall(b"a")
        wait_event(p.src, select.POLLIN)
        recv_exactly(p.src, 16000)
        p.server.sendall(b"b" * 4000)
        wait_event(p.src, select.POLLIN)
        equal("not yet the end", events(p.dst), "")
        equal("rest", len(recv_exactly(p.src, 3999)), 3999)
        equal("still not", events(p.dst), "")
        recv_exactly(p.src, 1)
        wait_event(p.dst, select.POLLOUT)
        recv_exactly(p.client, 4001)
        p.still_ordinary()


@claim
def a_copy_is_told_of_though_its_sockets_were_looked_at_before():
    sent = body(3000)
    with Proxy() as p:
        for _ in range(5):
            for _ in range(3):
                equal("before", (events(p.src), events(p.dst)), ("O", "O"))
            keep(p, len(sent), min2read=len(sent))
            p.server.sendall(sent)
            same("client", recv_exactly(p.client, len(sent)), sent)
            wait_event(p.src, select.POLLIN)
            same("first of the copy", recv_exactly(p.src, 1000), sent[:1000])
            equal("the rest", events(p.src), "IO")
            same("copy", recv_exactly(p.src, 2000), sent[1000:])
            wait_event(p.dst, select.POLLOUT)


@claim
def packets_that_wait_go_in_one_send_and_are_copied():
    size, number = 3000, 6
    sent = body(size * number)
    #     limit, max2cache
    for limit, most in ((len(sent), 65536), (size * 2 + 100, 65536), (len(sent), size * 3 + 10), (1, 65536)):
        with Proxy() as p:
            # What its sender may have to send again is not joined to what follows.
            p.src.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            p.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(sent), size):
                p.server.sendall(sent[at:at + size])
            wait_for("bytes", lambda p=p: len(p.src.recv(65536, socket.MSG_PEEK)) == len(sent))
            before = counters()["SpliceSends"]
            keep(p, limit, min2read=1, max2cache=most)
            sends = counters()["SpliceSends"] - before
            equal("sends", sends, 1 if limit < most else 2)
            same("passed on", recv_exactly(p.client, min(limit, most)), sent[:min(limit, most)])
            same("copy", read_copy(p.src, limit, step=1700), sent[:limit])
            if limit > most:
                same("the rest", recv_exactly(p.client, limit - most), sent[most:limit])
            wait_event(p.dst, select.POLLOUT)
            if limit < len(sent):
                same("left", recv_exactly(p.src, len(sent) - limit), sent[limit:])
            p.still_ordinary()


@claim
def a_slow_reader_holds_the_client_at_max2cache_and_restarts_it():
    with Proxy() as p:
        size, most = 400000, 30000
        sent = body(size)
        keep(p, size, min2read=1, max2cache=most)
        sender = Thread(p.server.sendall, sent)
        same("first", recv_exactly(p.client, most), sent[:most])
        wait_for("copy", lambda: device().result(p.src).unread == most)
        got = b""
        reader = Thread(recv_exactly, p.client, size - most)
        while len(got) < size:
            wait_event(p.src, select.POLLIN)
            if device().result(p.src).unread > most:
                raise AssertionError("more than max2cache unread")
            got += p.src.recv(7000)
        same("copy", got, sent)
        same("client", reader.join(), sent[most:])
        sender.join()


@claim
def what_is_there_already_fills_inbuf_and_ends_in_the_call():
    with Proxy() as p:
        p.server.sendall(b"k" * 9000)
        wait_for("bytes", lambda: len(p.src.recv(16384, socket.MSG_PEEK)) == 9000)
        answer = keep(p, 9000, inbuf=16384)
        equal("answer", (answer.status, answer.cause, answer.inbuf_done), (DONE, "limit", 9000))
        same("copy", answer.inbuf, b"k" * 9000)
        same("client", recv_exactly(p.client, 9000), b"k" * 9000)
        p.server.sendall(b"l" * 9000)
        wait_for("bytes", lambda: len(p.src.recv(16384, socket.MSG_PEEK)) == 9000)
        answer = keep(p, 9000, inbuf=4000)
        equal("answer", (answer.status, answer.inbuf_done), (ACTIVE, 4000))
        same("rest", recv_exactly(p.src, 5000), b"l" * 5000)
        wait_event(p.dst, select.POLLOUT)
        recv_exactly(p.client, 9000)
        p.still_ordinary()


@claim
def the_copy_goes_on_when_the_client_resets_or_the_proxy_closes_it():
    for how in ("client", "dst"):
        with Proxy() as p:
            size = 300000
            sent = body(size)
            keep(p, size, max2cache=50000)
            p.server.sendall(sent[:20000])
            recv_exactly(p.client, 20000)
            same("copy", read_copy(p.src, 20000), sent[:20000])
            if how == "client":
                reset(p.client)
                wait_event(p.dst, 0)
            else:
                p.dst.close()
            sender = Thread(p.server.sendall, sent[20000:])
            same("copy", read_copy(p.src, size - 20000), sent[20000:])
            sender.join()
            wait_for("end", lambda: device().result(p.src).status == DONE)
            result = device().result(p.src)
            equal("copied", (result.cause, result.copied), ("limit", size))
            if result.moved01 > size:
                raise AssertionError(repr(result))


@claim
def until_close_the_copy_ends_with_eof():
    with Proxy() as p:
        sent = body(100000)
        keep(p, None)
        sender = Thread(lambda: (p.server.sendall(sent), p.server.close()))
        reader = Thread(recv_exactly, p.client, len(sent))
        same("copy", read_copy(p.src, len(sent) + 1), sent)
        reader.join()
        sender.join()
        wait_event(p.dst, select.POLLOUT)
        equal("cause", device().result(p.dst).cause, "eof")


@claim
def an_unread_copy_outlives_unsplice_unless_it_is_discarded():
    for flags in (0, DISCARD):
        with Proxy() as p:
            keep(p, 100000)
            p.server.sendall(b"1" * 5000)
            recv_exactly(p.client, 5000)
            wait_for("copied", lambda: device().result(p.src).copied == 5000)
            result = device().unsplice(p.src, p.dst, flags)
            equal("result", (result.cause, result.moved01, result.unread),
                  ("unspliced", 5000, 0 if flags else 5000))
            p.server.sendall(b"2" * 1000)
            wait_event(p.src, select.POLLIN)
            if not flags:
                fails(errno.EBUSY, keep, p, 10)
                equal("peek", p.src.recv(100, socket.MSG_PEEK), b"1" * 100)
                same("the copy", recv_exactly(p.src, 5000), b"1" * 5000)
            same("the socket's own", recv_exactly(p.src, 1000), b"2" * 1000)
            p.still_ordinary()


@claim
def a_blocked_reader_of_the_copy_wakes_and_may_time_out():
    with Proxy() as p:
        keep(p, 1000)
        p.src.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 8 + b"\x90\xd0\3" + b"\0" * 5)
        p.src.settimeout(None)
        fails(errno.EAGAIN, p.src.recv, 100)
        p.src.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
        reader = Thread(p.src.recv, 1000, socket.MSG_WAITALL)
        p.server.sendall(b"w" * 1000)
        same("read", reader.join(), b"w" * 1000)
        recv_exactly(p.client, 1000)


@claim
def nothing_is_left_under_way():
    wait_for("transfers", lambda: device().info()["active"] == 0)
    close_device()


if __name__ == "__main__":
    main()

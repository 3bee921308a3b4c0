#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
"""No client gets what was meant for another: hostile clients, hostile origins, connections that end unannounced."""

import contextlib
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import behind, cluster, main, read_answer, receive_all, until  # noqa: E402

QUICK = 40      # seconds; a time-out of the proxy takes 60


def ok(text):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def name_of(head):
    return head.split(b" ")[1]


def quickly(lardd, target, want=200):
    """Another visitor is answered at once, and with what is theirs."""
    began = time.monotonic()
    code, _, body = lardd.get(target)
    took = time.monotonic() - began
    assert took < QUICK, f"{target} took {took:.1f} s"
    assert code == want and body == target.encode(), (target, code, body)


def a_connection_that_ended_unannounced_serves_nobody():
    def script(_peer, head, _body):
        return ok(name_of(head)), not head.startswith((b"POST", b"GET /last"))

    with behind(script) as (lardd, _):
        for n in range(30):
            with lardd.connect() as s:
                if n % 2:
                    s.sendall(b"GET /last%d HTTP/1.1\r\nHost: h\r\n\r\n" % n)
                else:
                    s.sendall(b"POST /file HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
                assert read_answer(s.makefile("rb"))[0] == 200
            quickly(lardd, f"/next{n}")


def an_early_answer_to_a_body_is_the_last():
    def script(peer, head, body):
        if name_of(head) != b"/early":
            return ok(name_of(head)), True
        peer.sendall(ok(b"/early"))
        while len(body) < 60:                       # it waits for the body all the same, whoever sends it
            more = peer.recv(60 - len(body))
            if not more:
                return b"", False
            body += more
        return b"", True

    with behind(script) as (lardd, origin):
        for n in range(10):
            with lardd.connect() as s:
                # The origin answers before the body came, and would take the body for a request.
                s.sendall(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 60\r\n\r\n")
                assert read_answer(s.makefile("rb"))[2] == b"/early"
                with contextlib.suppress(OSError):
                    s.sendall(b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n".ljust(60, b"x"))
                quickly(lardd, f"/next{n}")
        assert not [r for r in origin.requests if b"smuggled" in name_of(r)]


def what_comes_after_an_answer_is_nobodys():
    surplus, late = ok(b"/poison"), threading.Event()

    def script(peer, head, _body):
        kind = name_of(head)
        if kind == b"/late":
            peer.sendall(ok(kind))
            time.sleep(0.05)
            peer.sendall(surplus)
            late.set()
            return b"", True
        answers = {
            b"/behind": ok(kind) + surplus,
            b"/204": b"HTTP/1.1 204 No Content\r\n\r\n" + surplus,
            b"/304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 80\r\n\r\n" + surplus,
            b"/head": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody!" + surplus,
            b"/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + surplus,
        }
        if kind in answers:
            origin.doubtful.add(peer)
        return answers.get(kind, ok(kind)), True

    with behind(script) as (lardd, origin):
        for n in range(5):
            for kind in ("/behind", "/204", "/304", "/head", "/chunks", "/late"):
                with lardd.connect() as s:
                    head = kind == "/head"
                    s.sendall(f"{'HEAD' if head else 'GET'} {kind} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                    read_answer(s.makefile("rb"), head=head)
                if kind == "/late":
                    assert late.wait(30)
                    late.clear()
                for again in range(3):
                    quickly(lardd, f"/next{n}{again}")
        assert not origin.reused, origin.reused


def what_comes_while_nobody_looks_is_nobodys():
    """Bytes, or the end, of a pooled connection that are there when the next request is, and were not looked at."""
    peers = []

    def script(peer, head, _body):
        peers.append(peer)
        return ok(name_of(head)), True

    for n in range(8):
        with behind(script) as (lardd, _):              # anew: one that sent it once is not believed again
            with lardd.connect() as s:
                s.settimeout(QUICK)
                stream = s.makefile("rb")
                s.sendall(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
                assert read_answer(stream)[2] == b"/first"
                lardd.process.send_signal(signal.SIGSTOP)
                s.sendall(b"GET /mine%d HTTP/1.1\r\nHost: h\r\n\r\n" % n)
                time.sleep(0.02)                    # so that lardd hears of the client first
                peers[-1].sendall(ok(b"/poison"))
                lardd.process.send_signal(signal.SIGCONT)
                answer = read_answer(stream)
                assert answer[2] == b"/mine%d" % n, (n, answer)


def who_spoke_out_of_turn_is_asked_once_a_connection():
    """A whole answer too many is taken for that to a request which is sent before it comes: there must be none."""
    sent, answered = threading.Semaphore(0), threading.Event()

    def script(peer, head, _body):
        kind = name_of(head)
        with origin.count:
            asked[peer] = asked.get(peer, 0) + 1
        peer.sendall(ok(kind))
        if kind == b"/twice":
            answered.wait(60)                           # so that the connection is idle by then
            peer.sendall(ok(b"/poison"))
            sent.release()
        return b"", True

    with behind(script) as (lardd, origin):
        asked = {}
        for n in range(5):
            quickly(lardd, f"/first{n}")
        assert max(asked.values()) > 1, "no connection is kept"
        with lardd.connect() as s:
            s.sendall(b"GET /twice HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(s.makefile("rb"))[2] == b"/twice"
        answered.set()
        assert sent.acquire(timeout=60)
        until(lambda: lardd.counter("LardBackendSurplus") == 1, what="what nobody had asked for")
        asked.clear()
        for n in range(20):
            quickly(lardd, f"/next{n}")
        assert len(asked) == 20 and max(asked.values()) == 1, asked
        assert "event=backend-surplus" in lardd.log()


def doubtful_answers_become_502():
    bad = {
        "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "both": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "old-chunks": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
        "end": b"HTTP/1.1 200 OK\r\nA: b\r\n\rX\r\nContent-Length: 0\r\n\r\n",
        "feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        "colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "switch": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "status": b"HTTP/1.1 050 OK\r\nContent-Length: 0\r\n\r\n",
        "interim": b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * 100,
    }

    def script(_peer, head, _body):
        return bad.get(name_of(head)[1:].decode(), ok(name_of(head))), True

    with behind(script) as (lardd, _):
        for kind in bad:
            with lardd.connect() as s:
                s.sendall(f"GET /{kind} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                stream = s.makefile("rb")
                code = 103
                while code == 103:
                    code = read_answer(stream)[0]
                assert code == 502, (kind, code)
            quickly(lardd, "/after-" + kind)


def only_a_websocket_is_a_tunnel():
    def script(_peer, head, _body):
        if b"pgrade" in head:
            return (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
                    head.split(b"pgrade: ")[-1].split(b"\r\n")[0] + b"\r\n\r\n" + ok(b"/tunnel")), True
        return ok(name_of(head)), True

    with behind(script) as (lardd, origin):
        for how in (b"Connection: Upgrade\r\nUpgrade: h2c", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c",
                    b"Upgrade: websocket", b"Connection: Upgrade\r\nUpgrade: websocket, h2c",
                    b"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c",
                    b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1"):
            with lardd.connect() as s:
                s.sendall(b"GET /up HTTP/1.1\r\nHost: h\r\n" + how + b"\r\n\r\n" + (b"x" if b"Length" in how else b""))
                code, _, body = read_answer(s.makefile("rb"))
                assert (code, body) == (200, b"/up"), (how, code, body)
            assert b"pgrade" not in origin.requests[-1], origin.requests[-1]
            quickly(lardd, "/next")


def what_an_origin_gets_was_made_here():
    """Of everything that is accepted an origin sees one request, in one reading."""
    start = b"POST /p HTTP/1.1\r\nHost: h\r\n"
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
    bad = [
        start + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".replace(b"\r\n", b"\n"),
        start + b"X: y\r\n\rX: z\r\n\r\n",
        start + b"X: y\nContent-Length: 0\r\n\r\n",
        start + b"X: y\rContent-Length: 0\r\n\r\n",
        start + b"X\0: y\r\nContent-Length: 0\r\n\r\n",
        start + b"X: y\0\r\nContent-Length: 0\r\n\r\n",
        start + b"Content-Length: 0\r\n Content-Length: 40\r\n\r\n",
        start + b"Content-Length: 0, 40\r\n\r\n",
        start + b"Content-Length: 0x0\r\n\r\n",
        chunked + b"2;\nxx\r\n4c\r\n0\r\n\r\n" + smuggled,
        chunked + b"2\nxx\r\n0\r\n\r\n" + smuggled,
        chunked + b"0\r\n\rX\r\n" + smuggled,
        chunked + b"1\r\nxx\r\n0\r\n\r\n" + smuggled,
        chunked + b"fffffffffffffffff\r\nx" + smuggled,
        b"GET /p HTTP/1.1\r\nHost: h\r\nHost: g\r\n\r\n",
        b"GET http://g/ HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /p HTTP/1.1\r\nHost: h@g\r\n\r\n",
    ]

    def script(_peer, head, _body):
        return ok(name_of(head)), True

    with behind(script) as (lardd, origin):
        for text in bad:
            before = len(origin.requests)
            with lardd.connect() as s:
                s.settimeout(QUICK)
                s.sendall(text)
                answer = receive_all(s)
            assert b"smuggled" not in answer, (text, answer)
            assert answer[9:12] in (b"400", b"501") or not answer, (text, answer)
            for head in origin.requests[before:]:
                assert name_of(head) == b"/p", (text, head)
            quickly(lardd, "/next")


def what_is_accepted_is_framed_anew():
    """One length or one coding, chunks without extensions and trailers, whatever the client wrote."""
    got = []

    def script(peer, head, body):
        while b"\r\n0\r\n\r\n" not in b"\r\n" + body if b"chunked" in head else len(body) < 4:
            body += peer.recv(4096)
        got.append((head, body))
        return ok(name_of(head)), True

    start = b"POST /p HTTP/1.1\r\nHost: h\r\n"
    with behind(script) as (lardd, _):
        for framing, body in ((b"content-LENGTH:  0004 ", b"abcd"),
                              (b"TRANSFER-encoding: Chunked\r\nTrailer: T",
                               b"0002;x=y\r\nab\r\n2\r\ncd\r\n0\r\nT: u\r\n\r\n"),
                              (b"Connection: Transfer-Encoding, X\r\nX: y\r\nTransfer-Encoding: chunked",
                               b"4\r\nabcd\r\n00;a\r\n\r\n")):
            with lardd.connect() as s:
                s.settimeout(QUICK)
                s.sendall(start + framing + b"\r\n\r\n" + body)
                assert read_answer(s.makefile("rb"))[2] == b"/p", framing
            head, body = got.pop()
            fields = [line.lower() for line in head.split(b"\r\n")[1:]]
            framed = [f for f in fields if f.startswith((b"content-length", b"transfer-encoding", b"trailer"))]
            if b"4" in framing:
                assert framed == [b"content-length: 4"] and body == b"abcd", (head, body)
            else:
                assert framed == [b"transfer-encoding: chunked"], head
                assert body in (b"4\r\nabcd\r\n0\r\n\r\n", b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), body


def random_neighbours_get_their_own():
    """Requests from a heap of odd pieces beside visitors who each must get their own answer; seed 11."""
    pieces = [b"GET /a HTTP/1.1\r\nHost: h\r\n", b"POST /b HTTP/1.1\r\nHost: h\r\n", b"Content-Length: 5\r\n",
              b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n", b"\n", b"\r", b"hello",
              b"5\r\nhello\r\n", b"0\r\n\r\n", b"5;x=y\r\nhello\r\n", b"GET /poison HTTP/1.1\r\nHost: h\r\n\r\n",
              b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Connection: keep-alive, X\r\nX: y\r\n",
              b"HEAD /c HTTP/1.1\r\nHost: h\r\n", b" ", b"\0", b"Trailer: T\r\n", b"1\r\n", b"Upgrade: h2c\r\n"]
    rng = random.Random(11)
    with cluster(2, "policy wrr") as lardd:
        for n in range(150):
            text = b"".join(rng.choice(pieces) for _ in range(rng.randrange(1, 14)))
            with lardd.connect() as s:
                s.settimeout(0.05)
                with contextlib.suppress(OSError):
                    for at in range(0, len(text), 40):
                        s.sendall(text[at:at + 40])
                    receive_all(s)
                if n % 3 == 0:
                    quickly_sized(lardd, n)
        until(lambda: lardd.load() == 0, what="no load")


def quickly_sized(lardd, n):
    began = time.monotonic()
    code, _, body = lardd.get(f"/size/{100 + n}")
    assert (code, len(body)) == (200, 100 + n), (n, code, body)
    assert time.monotonic() - began < QUICK, n


def answers_in_chunks_are_whole_for_old_clients():
    with cluster(1) as lardd:
        answer = lardd.ask(b"GET /chunked HTTP/1.0\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"chunked" not in head.lower() and b"Connection: close" in head, head
        assert body == b"c" * 70006, len(body)


if __name__ == "__main__":
    sys.exit(main([a_connection_that_ended_unannounced_serves_nobody, an_early_answer_to_a_body_is_the_last,
                   what_comes_after_an_answer_is_nobodys,
                   what_comes_while_nobody_looks_is_nobodys,
                   who_spoke_out_of_turn_is_asked_once_a_connection, doubtful_answers_become_502,
                   only_a_websocket_is_a_tunnel, what_an_origin_gets_was_made_here,
                   what_is_accepted_is_framed_anew, random_neighbours_get_their_own,
                   answers_in_chunks_are_whole_for_old_clients]))

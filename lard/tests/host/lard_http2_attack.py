#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""What a client of HTTP/2 cannot do: cost much, hold what others need, or say what a back-end takes for more."""

import contextlib
import itertools
import os
import random
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import answer_with, content, kit, main, read_answer, until      # noqa: E402
from http2 import http2_site, memory, no_sanitizer, quiet      # noqa: E402
from http2_client import (BAD_FIELDS, BAD_LINES, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM,     # noqa: E402
                          ENDLESS, FLOODS, FLOW_CONTROL_ERROR, GOAWAY, HEADERS, INTERNAL_ERROR, LONG_FIELD, NO_ERROR,
                          PING, PROTOCOL_ERROR, REFUSED_STREAM, RST, SMUGGLED, WINDOW, Raw, Uploads, fields, flood,
                          frame, header_of, send_noise, u32)
from secure import count_is     # noqa: E402


def floods_end_the_connection():
    """Frames that bring nothing; others are served, and who does it is told and counted."""
    with http2_site() as s:
        for number, (name, frames) in enumerate(FLOODS.items()):
            with Raw(s) as client:
                client.send(client.headers(1, "/echo", "POST", end=False))
                error = flood(client, *frames)
                assert error == CALM, (name, error)
            count_is(s.lardd, "LardHttp2Flooded", number + 1)
        assert s.get("/size/5")[2] == content(5)
        quiet(s.lardd)


def who_asks_much_is_no_flood():
    """Acknowledging windows of each frame, and 3,000 requests."""
    with http2_site("keepalive-requests 100000") as s, Raw(s) as client:
        for stream in range(1, 6001, 2):
            client.send(client.headers(stream), frame(WINDOW, 0, 0, u32(1)))
            assert client.answer(stream)[2] == content(5)
        client.send(client.headers(6001, "/size/20000000"))
        status, _, body, error = client.answer(6001)
        assert (status, len(body), error) == (200, 20000000, None)
        assert s.lardd.counter("LardHttp2Flooded") == 0


def streams_given_up_end_the_connection():
    """CVE-2023-44487: begun and given up at once. Those cost no back-end anything, and there is an end of it."""
    with http2_site() as s:
        with Raw(s) as client:
            error = None
            with contextlib.suppress(OSError):
                for at in range(1, 4000, 40):
                    client.send(*(part for n in range(at, at + 40, 2) for part in
                                  (client.headers(n), frame(RST, 0, n, u32(8)))))
                error = client.error()
            assert error in (CALM, None), error
        count_is(s.lardd, "LardHttp2Flooded", 1)
        assert s.lardd.counter("LardHttp2Streams") < 1500, s.lardd.counter("LardHttp2Streams")
        assert len(s.lardd.backends[0].seen) < 50, len(s.lardd.backends[0].seen)
        quiet(s.lardd)


def streams_that_we_must_give_up_end_the_connection():
    """CVE-2025-8671: a window that is too large makes the server reset the stream, not the client."""
    with http2_site() as s:
        s.lardd.backends[0].gate.clear()
        with Raw(s) as client:
            error = None
            with contextlib.suppress(OSError):
                for at in range(1, 2000, 40):
                    client.send(*(part for n in range(at, at + 40, 2) for part in
                                  (client.headers(n, "/slow"), frame(WINDOW, 0, n, u32(0x7fffffff)))))
                error = client.error()
            assert error in (CALM, None), error
        count_is(s.lardd, "LardHttp2Flooded", 1)
        s.lardd.backends[0].gate.set()
        quiet(s.lardd)


def a_page_that_is_left_is_no_flood():
    """All streams that may be, given up at once, twice."""
    with http2_site() as s, Raw(s) as client:
        for at in (1, 201):
            streams = range(at, at + 190, 2)
            client.send(*(client.headers(n, "/size/20000") for n in streams))
            client.send(*(frame(RST, 0, n, u32(8)) for n in streams))
        client.send(client.headers(1001))
        assert client.answer(1001)[2] == content(5)
        assert s.lardd.counter("LardHttp2Flooded") == 0


def headers_without_an_end_end_the_connection():
    """CVE-2024-27316: CONTINUATION of all sizes, with fields in them and with none."""
    with http2_site() as s:
        for part in ENDLESS:
            assert header_of(s, itertools.repeat(part, 3000)) in (CALM, "end")
            assert s.get("/size/5")[2] == content(5)
        count_is(s.lardd, "LardHttp2Flooded", 3)
        # Fewer than libnghttp2 itself bears, and more than a header may be.
        assert header_of(s, itertools.repeat(LONG_FIELD * 125, 6)) == CALM
        assert not [seen for seen in s.lardd.backends[0].seen if "x" in seen[3]]


def headers_in_pieces_are_no_flood():
    """Many requests, one after the other, of which no read is the end of a header."""
    with http2_site("max-header 16384") as s, Raw(s) as client:
        parts = []
        for n in range(1, 41, 2):
            block = client.encoder.encode(fields()) + (b"\0\1x\x7e" + b"y" * 126) * 60
            parts += [frame(HEADERS, END_STREAM, n, block[:-100]), frame(CONTINUATION, END_HEADERS, n, block[-100:])]
        client.send(*parts)
        for n in range(1, 41, 2):
            assert client.answer(n)[2] == content(5), (n, client.answer(n))


def a_header_bomb_is_refused():
    """A field of the table, named by one byte, some times: 431; thousands of times: a flood, for little time."""
    no_sanitizer()
    with http2_site() as s:
        assert s.get("/size/5")[2] == content(5)
        before = memory(s.lardd, "VmHWM")
        with Raw(s) as client:
            block = client.encoder.encode(fields(more=[("x", "b" * 3900)]))
            client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
            assert client.answer(1)[0] == 200
            block = client.encoder.encode(fields()) + b"\xbe" * 100
            client.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, block))
            assert client.answer(3)[0] == 431
            client.send(frame(HEADERS, END_HEADERS | END_STREAM, 5, block[:-100] + b"\xbe" * 15000))
            assert client.error() == CALM
        grown = memory(s.lardd, "VmHWM") - before
        assert grown < 3000, grown


def half_a_header_has_its_time():
    """Also while other streams of the connection go on."""
    with http2_site("header-timeout 1s\nidle-timeout 60s") as s:
        s.lardd.backends[0].gate.clear()
        for others in (False, True):
            with Raw(s) as client:
                if others:
                    client.send(client.headers(1, "/slow"))
                client.send(frame(HEADERS, END_STREAM, 3, client.encoder.encode(fields())))
                begun = time.monotonic()
                client.error()
                took = time.monotonic() - begun
                assert 0.5 < took < kit.PATIENCE, took
        s.lardd.backends[0].gate.set()
        quiet(s.lardd)


def deaf_client(s, *frames):
    """It has all the windows there are, asks for much, and reads nothing: what is sent waits in lardd."""
    client = Raw(s, receive=4096, settings=struct.pack(">HI", 4, 0x7fffffff))
    client.send(frame(WINDOW, 0, 0, u32(0x7fff0000)), client.headers(1, "/size/20000000"), *frames)
    time.sleep(0.3)
    return client


def a_whole_header_ends_its_time():
    """Whether its stream is given up for it, or the next one has begun: requests of the connection go on."""
    with http2_site("header-timeout 3s") as s, Raw(s) as client:
        s.lardd.backends[0].gate.clear()
        client.send(client.headers(1, "/slow"),
                    frame(HEADERS, END_STREAM, 3, client.encoder.encode(fields(more=[("connection", "close")]))),
                    frame(CONTINUATION, END_HEADERS, 3, b"\0\1x\1y"))
        assert client.answer(3)[3] == PROTOCOL_ERROR
        time.sleep(4)
        s.lardd.backends[0].gate.set()
        assert client.answer(1)[2] == b"be0"
        last = client.headers(5, "/size/0")
        client.send(last[:11])
        for n in range(7, 25, 2):
            time.sleep(0.5)
            begun, last = last, client.headers(n, "/size/0")
            client.send(begun[11:] + last[:11])
            assert client.answer(n - 2)[0] == 200, n


def what_is_no_request_holds_no_connection():
    """Streams that are given up for their header, which the client does not hear of as it reads nothing."""
    with http2_site("io-timeout 1s\nidle-timeout 1s\nheader-timeout 1s") as s, deaf_client(s) as client:
        for n in range(3, 30, 4):
            client.send(client.headers(n, more=[("connection", "close")]), client.headers(n + 2, "/size/0"))
            time.sleep(0.05)
        quiet(s.lardd)


def half_a_header_makes_room():
    """As half a request of HTTP/1.1 does: whoever comes is served while all places are taken by such."""
    with http2_site("max-connections 4\nheader-timeout 60s") as s, contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(Raw(s))
            client.send(frame(HEADERS, END_STREAM, 1, client.encoder.encode(fields())))
        until(lambda: s.lardd.control("status")["connections"]["http2"] == 4, what="four of them")
        with s.tcp() as tcp:
            tcp.settimeout(kit.PATIENCE)
            with s.context().wrap_socket(tcp, server_hostname="one.test") as late:
                late.sendall(b"GET /size/5 HTTP/1.1\r\nHost: one.test\r\n\r\n")
                assert read_answer(late.makefile("rb"))[2] == content(5)


def what_goaway_leaves_out_is_no_request():
    """Also while it waits in lardd: the client asks for those again elsewhere, and a POST would be done twice."""
    with http2_site("keepalive-requests 16") as s, deaf_client(s) as client:
        backend = s.lardd.backends[0]
        for n in range(3, 40, 2):
            client.send(client.headers(n, f"/echo?{n}", "POST"))
            time.sleep(0.05)
        until(lambda: s.lardd.counter("LardHttp2Streams") >= 16, what="all that there may be")
        time.sleep(0.5)
        last = client.wait(GOAWAY)
        assert struct.unpack(">II", last[3][:8]) == (31, NO_ERROR), last
        done = [int(seen[1].partition("?")[2]) for seen in backend.seen if seen[0] == "POST"]
        assert max(done) <= 31, done


def who_takes_nothing_has_little():
    """100 streams of large answers, all the windows there are, and nobody who reads: others get theirs."""
    no_sanitizer()
    connections, each = 4, 4500                     # KiB; an exchange has some 100, and there are places for 24
    with http2_site("io-timeout 60s", nodes=2) as s, contextlib.ExitStack() as stack:
        assert s.get("/size/5")[2] == content(5)
        before = memory(s.lardd)
        for _ in range(connections):
            client = stack.enter_context(Raw(s, receive=4096, settings=struct.pack(">HI", 4, 0x7fffffff)))
            client.send(frame(WINDOW, 0, 0, u32(0x7fff0000)),
                        *(client.headers(n, "/size/5000000") for n in range(1, 200, 2)))
        until(lambda: s.lardd.counter("LardHttp2Streams") == 100 * connections, what="all streams")
        time.sleep(1)
        grown = memory(s.lardd) - before
        print(f"# {grown / connections:.0f} KiB for a connection of 100 streams that takes nothing")
        assert grown < connections * each, grown
        assert s.get("/size/6")[2] == content(6)        # once who takes nothing has made room
        stack.close()
        quiet(s.lardd)


def bodies_that_wait_hold_up_no_other():
    """All there may be of those that wait for a place: the one that has it goes on, and each of them after it."""
    with http2_site("max_outstanding 1\npolicy wrr\nqueue-timeout 120s") as s, Raw(s) as client:
        uploads = Uploads(client)
        uploads.begin(1, 600000)
        until(lambda: s.lardd.load() == 1, what="its place")
        uploads.hear()
        for stream in range(3, 200, 2):
            uploads.begin(stream, 70000 if stream < 25 else uploads.first)
            uploads.send(stream)
        begun = time.monotonic()
        while any(uploads.left.values()) and time.monotonic() - begun < kit.PATIENCE:
            for stream in uploads.left:
                uploads.send(stream)
            uploads.hear()
        assert not any(uploads.left.values()), (uploads.left, uploads.windows)
        assert {client.answer(n)[0] for n in uploads.left} == {200}, client.answers


def bodies_that_nobody_takes_are_few():
    """What a client may send before a back-end reads is bounded for a stream, and for all of a connection."""
    no_sanitizer()
    with http2_site("policy wrr\nmax_outstanding 1") as s, Raw(s) as client, Raw(s) as second:
        s.lardd.backends[0].gate.clear()
        before = memory(s.lardd)
        client.send(client.headers(1, "/slow"))
        until(lambda: s.lardd.load() == 1, what="its request")
        first = Uploads(client).first
        assert 16384 <= first and 100 * first <= 26 * 65535, first
        client.send(*(client.headers(n, "/echo", "POST", end=False) + frame(DATA, 0, n, bytes(16384))
                      + frame(DATA, 0, n, bytes(first - 16384)) for n in range(3, 200, 2)))
        client.send(frame(PING, 0, 0, bytes(8)))
        assert client.wait(PING), "all of it is within the windows"
        grown = memory(s.lardd) - before
        assert grown < 3000, grown
        client.send(frame(DATA, 0, 3, b"x"))                # now it is not
        assert client.wait(RST, stream=3)[3] == u32(FLOW_CONTROL_ERROR)
        # Who does not say that he knows of these windows has 64 KB in all.
        second.send(*(second.headers(n, "/echo", "POST", end=False) for n in (1, 3)),
                    *(frame(DATA, 0, n, bytes(16383)) for n in (1, 1, 1, 1, 3)))
        assert second.error() == FLOW_CONTROL_ERROR
        s.lardd.backends[0].gate.set()
        client.tls.close()
        quiet(s.lardd)


def zero_windows_have_their_time():
    """Who opens no window holds a node's place for io-timeout; of a small answer, none at all."""
    with http2_site("io-timeout 1s\nidle-timeout 60s") as s, Raw(s, settings=struct.pack(">HI", 4, 0)) as client:
        client.send(client.headers(1, "/size/100000"), client.headers(3, "/size/100"), client.headers(5, "/nonsense"))
        until(lambda: s.lardd.load() == 1, what="the place of the large one")
        assert client.answer(1)[3] == INTERNAL_ERROR
        until(lambda: s.lardd.load() == 0, what="no place")
        client.send(*(frame(WINDOW, 0, n, u32(1000)) for n in (3, 5)))
        assert client.answer(3)[2] == content(100)
        status, _, body, _ = client.answer(5)
        assert status == 502 and body.startswith(b"502 "), body
    with http2_site("idle-timeout 1s") as s, Raw(s, settings=struct.pack(">HI", 4, 0)) as client:
        client.send(client.headers(1, "/size/100"))
        assert client.wait(HEADERS)
        assert client.wait(RST, seconds=kit.PATIENCE)
        assert client.error() == 0


def slow_bodies_have_their_time():
    """A byte now and then, less than client-rate, is answered 408; its stream only."""
    with http2_site("io-timeout 1s\nclient-rate 1000") as s, Raw(s) as client:
        client.send(client.headers(1, "/echo", "POST", end=False))
        for _ in range(100):
            with contextlib.suppress(OSError):
                client.send(frame(DATA, 0, 1, b"x"))
            with contextlib.suppress(TimeoutError):
                client.note(client.next(0.1))
            if client.answers.get(1):
                break
        assert client.answers[1][0] == 408, client.answers
        client.send(client.headers(3))
        assert client.answer(3)[2] == content(5)
        quiet_but_one(s.lardd)


def quiet_but_one(lardd):
    until(lambda: sum(lardd.control("status")["connections"].values()) == 1, what="the connection alone")


def there_are_so_many_streams():
    """Of a connection, http2-streams; of all, what max-connections leaves: more is refused, to be asked again."""
    with http2_site("http2-streams 5\npolicy wrr") as s, Raw(s) as client:
        backend = s.lardd.backends[0]
        backend.gate.clear()
        client.send(*(client.headers(n, "/slow") for n in range(1, 12, 2)))
        assert client.answer(11)[3] == REFUSED_STREAM
        count_is(s.lardd, "LardHttp2Refused", 1)
        backend.gate.set()
        for n in range(1, 10, 2):
            assert client.answer(n)[2] == b"be0"
        client.send(client.headers(13))
        assert client.answer(13)[2] == content(5)
    with http2_site("max-connections 6") as s, Raw(s) as client:
        s.lardd.backends[0].gate.clear()
        client.send(*(client.headers(n, "/slow") for n in range(1, 16, 2)))
        refused = [n for n in range(11, 16, 2) if client.answer(n)[3] == REFUSED_STREAM]
        assert refused == [11, 13, 15], client.answers
        assert s.lardd.counter("LardHttp2Refused") == 3
        s.lardd.backends[0].gate.set()
        for n in range(1, 10, 2):
            assert client.answer(n)[2] == b"be0"


def an_idle_connection_makes_room_for_a_stream():
    """As it would for a connection."""
    with http2_site("max-connections 3\nidle-timeout 60s") as s:
        with s.lardd.connect() as idle:
            idle.sendall(b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n")
            stream = idle.makefile("rb")
            assert read_answer(stream)[2] == content(5)
            with Raw(s) as client:
                s.lardd.backends[0].gate.clear()
                client.send(client.headers(1, "/slow"), client.headers(3, "/slow"))
                until(lambda: s.lardd.load() == 2, what="both")
                assert not stream.read(1)
                s.lardd.backends[0].gate.set()
                assert client.answer(1)[2] == client.answer(3)[2] == b"be0"


def nothing_is_smuggled():
    """What HTTP/1.1 would read as more, less or another thing than HTTP/2 does reaches no back-end."""
    with http2_site() as s:
        backend, served = s.lardd.backends[0], 0
        tries = [({}, more) for more in BAD_FIELDS] + [(line, []) for line in BAD_LINES]
        for line, more in tries:
            for end in (True, False):
                with Raw(s) as client:
                    begun = client.headers(1, more=more, end=end, **line)
                    if end:
                        client.send(begun)
                    else:
                        client.send(begun, frame(DATA, END_STREAM, 1, SMUGGLED.encode()))
                    status, _, _, error = client.answer(1)
                    assert status in (400, 501) or (status, error) == (None, PROTOCOL_ERROR), \
                        (line, more, status, error)
                    client.send(client.headers(3))      # the connection, and the back-end's, are in order
                    served += client.answer(3)[2] == content(5)
                assert not [seen for seen in backend.seen if seen[1] != "/size/5" or seen[0] != "GET"], backend.seen[-1]
                assert len(backend.seen) == served, (line, more, end, backend.seen[-1])
        assert served == 2 * len(tries), (served, len(tries))


def bodies_are_what_they_say():
    """A length that the frames do not keep ends the request, and its back-end's connection is not used again."""
    with http2_site() as s:
        backend = s.lardd.backends[0]
        for length, data, end in ((5, b"123456", True), (5, b"1234", True), (5, b"12345" + SMUGGLED.encode(), True),
                                  (0, b"x", True), (100, b"x" * 50, False)):
            with Raw(s) as client:
                client.send(client.headers(1, "/echo", "POST", more=[("content-length", str(length))], end=False),
                            frame(DATA, END_STREAM if end else 0, 1, data))
                if not end:
                    time.sleep(0.2)
                    client.send(frame(RST, 0, 1, u32(8)))
                else:
                    assert client.answer(1)[3] == PROTOCOL_ERROR, client.answers
                client.send(client.headers(3))
                assert client.answer(3)[2] == content(5)
        assert all(seen[:2] == ("GET", "/size/5") or (seen[1] == "/echo" and seen[4] in (b"x" * 50, b"1234", b""))
                   for seen in backend.seen), backend.seen
        # Chunks within chunks are data.
        with Raw(s) as client:
            inner = b"0\r\n\r\n" + SMUGGLED.encode()
            client.send(client.headers(1, "/echo", "POST", end=False), frame(DATA, 0, 1, inner),
                        frame(DATA, END_STREAM, 1, inner))
            assert client.answer(1)[0] == 200
            assert backend.seen[-1][4] == inner * 2, backend.seen[-1]
        assert not [seen for seen in backend.seen if seen[1] == "/stolen"]


def an_answer_that_is_cut_is_no_whole_one():
    """And says nothing that HTTP/2 forbids."""
    with http2_site() as s, Raw(s) as client:
        client.send(client.headers(1, "/half"), client.headers(3, answer_with(5, "X-Ok: 1", "Keep-Alive: timeout=5")))
        status, _, body, error = client.answer(1)
        assert (status, error) == (200, INTERNAL_ERROR) and len(body) <= 5000, (status, len(body), error)
        _, said, body, error = client.answer(3)
        assert (body, error) == (content(5), None) and "keep-alive" not in said and said["x-ok"] == "1", said


def who_goes_leaves_nothing():
    """In the queue, at a back-end, in the middle of bodies, by RST_STREAM or by the end of the connection."""
    with http2_site("max_outstanding 2\nqueue-timeout 60s", nodes=1) as s:
        backend = s.lardd.backends[0]
        for how in ("reset", "close", "half"):
            backend.gate.clear()
            with Raw(s) as client:
                client.send(*(client.headers(n, "/slow") for n in range(1, 20, 2)),
                            client.headers(21, "/echo", "POST", end=False), frame(DATA, 0, 21, b"x" * 1000))
                until(lambda: s.lardd.control("status")["queued"] == 9, what="nine in the queue")
                if how == "reset":
                    client.send(*(frame(RST, 0, n, u32(8)) for n in range(1, 22, 2)))
                    until(lambda: s.lardd.control("status")["queued"] == 0, what="an empty queue")
                    quiet_but_one(s.lardd)
                elif how == "half":
                    with contextlib.suppress(OSError):
                        client.tls.unwrap()
            quiet(s.lardd)
            backend.gate.set()
        assert s.get("/size/5")[2] == content(5)


def noise_does_no_harm():
    """A good conversation, cut anywhere, with bytes turned or frames of any kind in it."""
    rounds, seed = int(os.environ.get("LARD_FUZZ_ROUNDS", "150")), int(os.environ.get("LARD_FUZZ_SEED", "7"))
    chance = random.Random(seed)
    with http2_site() as s:
        for _ in range(rounds):
            with Raw(s) as client:
                frames = [client.headers(1), client.headers(3, "/echo", "POST", end=False),
                          frame(DATA, 0, 3, b"x" * 999), frame(DATA, END_STREAM, 3, b"y"), frame(PING, 0, 0, bytes(8)),
                          client.headers(5, "/chunked"),
                          frame(RST, 0, 5, u32(8)), frame(WINDOW, 0, 0, u32(1000))]
                send_noise(client, frames, chance)
        assert s.get("/size/5")[2] == content(5)
        quiet(s.lardd)


if __name__ == "__main__":
    sys.exit(main([floods_end_the_connection, who_asks_much_is_no_flood, streams_given_up_end_the_connection,
                   streams_that_we_must_give_up_end_the_connection, a_page_that_is_left_is_no_flood,
                   headers_without_an_end_end_the_connection, headers_in_pieces_are_no_flood, a_header_bomb_is_refused,
                   half_a_header_has_its_time, a_whole_header_ends_its_time, what_is_no_request_holds_no_connection,
                   half_a_header_makes_room, what_goaway_leaves_out_is_no_request, who_takes_nothing_has_little,
                   bodies_that_wait_hold_up_no_other, bodies_that_nobody_takes_are_few, zero_windows_have_their_time,
                   slow_bodies_have_their_time, there_are_so_many_streams, an_idle_connection_makes_room_for_a_stream,
                   nothing_is_smuggled, bodies_are_what_they_say, an_answer_that_is_cut_is_no_whole_one,
                   who_goes_leaves_nothing, noise_does_no_harm]))

#!/usr/bin/env python3
# timeout: 300
"""What a client of HTTP/2 cannot do: cost much, hold what others need, stop the loop, or say what is taken for more."""
import contextlib
import itertools
import os
import random
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from flashtest import children, equal, main, wait_for    # noqa: E402
from http2site import Http2Site, no_sanitizer, quiet        # noqa: E402
from secured import content, same     # noqa: E402
import kit      # noqa: E402
from http2_client import (BAD_FIELDS, BAD_LINES, CALM, DATA, END_HEADERS, END_STREAM, ENDLESS,     # noqa: E402
                          FLOODS, GOAWAY, HEADERS, LONG_FIELD, PING, PROTOCOL_ERROR, RST, SETTINGS, SMUGGLED, WINDOW,
                          Raw, Uploads, fields, flood, frame, header_of, send_noise, u32)

BIG = 10000019
STEP = 32768
WIDE = struct.pack(">HI", 4, 0x7fffffff)


def served(s):
    """Others are."""
    equal(s.secure().get("/size/5").body, content(5))


def memory(s, which="VmRSS"):
    """Of the worker, in KiB; not where a sanitizer has some of its own."""
    with open(f"/proc/{children(s.proc.pid)[0]}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith(which)))


def deaf_client(s, *frames, path=f"/size/{BIG}"):
    """It has all the windows there are, asks for much, and reads nothing."""
    client = Raw(s, receive=4096, settings=WIDE)
    client.send(frame(WINDOW, 0, 0, u32(0x7fff0000)), client.headers(1, path), *frames)
    return client


def floods_end_the_connection():
    """Frames that bring nothing; others are served, and it is counted."""
    with Http2Site().start() as s:
        for number, (name, frames) in enumerate(FLOODS.items()):
            with Raw(s) as client:
                client.send(client.headers(1, "/cgi/cat", "POST", end=False))
                equal(flood(client, *frames), CALM, name)
            s.count_is("http2_flooded", number + 1)
            served(s)
        quiet(s)


def tiny_windows_by_settings_are_a_flood():
    """A byte more of each of many streams: each time a part of the file is read, and a record sent, for each."""
    with Http2Site().start() as s, Raw(s, settings=struct.pack(">HI", 4, 0)) as client:
        client.send(frame(WINDOW, 0, 0, u32(1 << 20)), *(client.headers(n, f"/size/{BIG}") for n in range(1, 20, 2)))
        got, window = (DATA, 0, 19, b""), 0
        while got and got[0] != GOAWAY and window < 6000:
            window += 1
            with contextlib.suppress(OSError):
                client.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
            while (got := client.next()) and got[0] != GOAWAY and (got[0], got[2]) != (DATA, 19):
                pass
        assert got and got[0] == GOAWAY, (window, got)
        equal(int.from_bytes(got[3][4:8], "big"), CALM)
        equal(s.count("http2_flooded"), 1)


def who_asks_much_is_no_flood():
    """Acknowledging windows of each frame, and 2,000 requests; all streams that may be given up at once, twice."""
    with Http2Site().start() as s, Raw(s) as client:
        for stream in range(1, 4001, 2):
            client.send(client.headers(stream), frame(WINDOW, 0, 0, u32(1)))
            equal(client.answer(stream)[2], content(5))
        client.send(client.headers(4001, f"/size/{BIG}"))
        same(client.answer(4001)[2], content(BIG), "the large one")
        for at in (5001, 5201):
            client.send(*(client.headers(n, "/size/100000") for n in range(at, at + 190, 2)))
            client.send(*(frame(RST, 0, n, u32(8)) for n in range(at, at + 190, 2)))
        client.send(client.headers(6001))
        equal(client.answer(6001)[2], content(5))
        equal(s.count("http2_flooded"), 0)


def streams_given_up_end_the_connection():
    """CVE-2023-44487: begun and given up at once, by the client; CVE-2025-8671: or by us, for an error of its."""
    with Http2Site().start() as s:
        for number, reset in enumerate((lambda n: frame(RST, 0, n, u32(8)),
                                        lambda n: frame(WINDOW, 0, n, u32(0x7fffffff)))):
            with Raw(s) as client:
                error = None
                with contextlib.suppress(OSError):
                    for at in range(1, 4000, 40):
                        client.send(*(part for n in range(at, at + 40, 2)
                                      for part in (client.headers(n, f"/size/{BIG}"), reset(n))))
                    error = client.error()
                assert error in (CALM, None), error
            s.count_is("http2_flooded", number + 1)
        assert s.count("requests") < 300, s.count("requests")       # the others were given up before their turn
        quiet(s)


def headers_without_an_end_end_the_connection():
    """CVE-2024-27316: CONTINUATION of all sizes, with fields in them and with none."""
    with Http2Site().start() as s:
        for part in ENDLESS:
            assert header_of(s, itertools.repeat(part, 3000)) in (CALM, "end")
        s.count_is("http2_flooded", 3)
        # Fewer than libnghttp2 itself bears, and more than a header may be.
        equal(header_of(s, itertools.repeat(LONG_FIELD * 125, 6)), CALM)
        quiet(s)


def a_header_bomb_is_refused():
    """A field of the table, named by one byte, some times: 431; thousands of times: a flood, for little time."""
    no_sanitizer("its own memory is more")
    with Http2Site().start() as s, Raw(s) as client:
        served(s)
        before = memory(s, "VmHWM")
        block = client.encoder.encode(fields(more=[("x", "b" * 3900)]))
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        equal(client.answer(1)[0], 200)
        block = client.encoder.encode(fields()) + b"\xbe" * 100
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, block))
        equal(client.answer(3)[0], 431)
        # By many, or of trailers; 64 KB of it were 64 ms in which the loop served nobody.
        for kind, count in (("header", 1000), ("trailer", 15000)):
            with Raw(s) as other:
                other.send(other.headers(1, "/cgi/cat", "POST", more=[("x", "b" * 3900)], end=False))
                block = b"" if kind == "trailer" else other.encoder.encode(fields("/cgi/cat"))
                with contextlib.suppress(OSError):
                    for n in range(15000 // count):
                        stream = 1 if kind == "trailer" else 3 + 2 * n
                        other.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block + b"\xbe" * count))
                equal(other.error(), CALM, kind)
        s.count_is("http2_flooded", 2)
        assert memory(s, "VmHWM") - before < 3000, memory(s, "VmHWM") - before


def half_a_header_has_its_time():
    """Also while other streams of the connection go on; a whole one ends it, and they go on after it."""
    with Http2Site("header_timeout 1s\nkeepalive_timeout 60s").start() as s:
        s.gate(True)
        for others in (False, True):
            with Raw(s) as client:
                if others:
                    client.send(client.headers(1, "/cgi/slow"))
                client.send(frame(HEADERS, END_STREAM, 3, client.encoder.encode(fields())))
                begun = time.monotonic()
                client.error()
                assert 0.5 < time.monotonic() - begun < kit.PATIENCE, time.monotonic() - begun
        s.count_is("timeouts_header", 2)
        with Raw(s) as client:
            client.send(client.headers(1, "/cgi/slow"))
            last = client.headers(5, "/size/0")
            client.send(last[:11])
            for n in range(7, 17, 2):
                time.sleep(0.4)
                begun, last = last, client.headers(n, "/size/0")
                client.send(begun[11:] + last[:11])
                equal(client.answer(n - 2)[0], 200, n)
            s.gate(False)
            equal(client.answer(1)[2], b"slow")


def what_is_no_request_holds_no_connection():
    """Streams that are given up for their header, which the client does not hear of as it reads nothing."""
    with Http2Site("send_timeout 1s\nkeepalive_timeout 1s\nheader_timeout 1s").start() as s, \
            deaf_client(s) as client:
        for n in range(3, 30, 4):
            client.send(client.headers(n, more=[("connection", "close")]), client.headers(n + 2, "/size/0"))
            time.sleep(0.05)
        quiet(s)


def who_takes_nothing_has_little():
    """100 streams of large answers, all the windows there are, and nobody who reads."""
    no_sanitizer("its own memory is more")
    with Http2Site("send_timeout 60s").start() as s, contextlib.ExitStack() as stack:
        served(s)
        before = memory(s)
        for number in range(4):
            client = stack.enter_context(deaf_client(s))
            client.send(*(client.headers(n, "/cgi/big" if n < 5 else f"/size/{BIG}") for n in range(3, 200, 2)))
            s.count_is("http2_streams", 100 * (number + 1))
        time.sleep(0.5)
        grown = memory(s) - before
        print(f"# {grown // 4} KiB for a connection of 100 streams that takes nothing")
        assert grown < 4 * 800, grown
        served(s)
        stack.close()
        quiet(s)


def who_takes_nothing_is_counted_and_makes_room():
    """What waits for the socket is of held_memory: who has stood still goes, and who comes is served."""
    with Http2Site("send_timeout 60s\nheld_memory 1M\nmax_body 100k").start() as s, contextlib.ExitStack() as stack:
        for number in range(40):
            stack.enter_context(deaf_client(s))
            if number == 20:
                assert s.count("held_bytes") > 20 * 32000, s.counters()
                time.sleep(1.2)             # they have stood still
        assert s.count("held_bytes") <= 1 << 20, s.counters()
        assert s.count("held_dropped") > 5, s.counters()
        served(s)
        with Raw(s) as client:
            client.send(client.headers(1, "/cgi/cat", "POST", end=False), frame(DATA, END_STREAM, 1, b"abc"))
            equal(client.answer(1)[2], b"3 \nabc")
        stack.close()
        quiet(s)


def who_makes_room_for_its_own_requests_ends_in_order():
    """The oldest that takes nothing goes for a request of its own, which is just being read."""
    with Http2Site("send_timeout 60s\nheld_memory 1M\nmax_body 100k").start() as s, \
            contextlib.ExitStack() as stack:
        oldest = stack.enter_context(deaf_client(s))
        wait_for(lambda: s.count("held_bytes") > 32000)
        each = s.count("held_bytes")
        for _ in range(5):              # what its socket still takes it has taken
            oldest.send(frame(PING, 0, 0, bytes(8)))
            time.sleep(0.05)
        time.sleep(1.2)
        for number in range(2, (1 << 20) // each + 1):
            stack.enter_context(deaf_client(s))
        wait_for(lambda: s.count("held_bytes") > (1 << 20) - each)
        equal(s.count("held_dropped"), 0)
        oldest.send(*(oldest.headers(n, "/cgi/slow") for n in range(3, 20, 2)))
        wait_for(lambda: s.count("held_dropped") > 0)
        served(s)
        stack.close()
        quiet(s)


def who_makes_room_for_its_own_request_goes():
    """At max_connections, when it has stood still for longest: it does not stay, with one more than there may be."""
    with Http2Site("send_timeout 60s\nkeepalive_timeout 60s\nmax_connections 5").start() as s, \
            contextlib.ExitStack() as stack:
        s.gate(True)
        stack.callback(s.gate, False)
        client = stack.enter_context(deaf_client(s))
        wait_for(lambda: s.count("held_bytes") > 30000)
        for _ in range(3):
            stack.enter_context(contextlib.closing(s.client())).send("GET /cgi/slow HTTP/1.1\r\nHost: t\r\n\r\n")
        time.sleep(0.5)
        for _ in range(5):              # what its socket still takes it has taken
            client.send(frame(PING, 0, 0, bytes(8)))
            time.sleep(0.05)
        time.sleep(6)
        client.send(client.headers(3, "/cgi/slow"), client.headers(5, "/cgi/slow"))     # for one its stream goes
        time.sleep(0.5)
        client.tls.settimeout(15)
        with contextlib.suppress(ConnectionError):
            while client.tls.recv(1 << 16):
                pass


def fill_socket(s, client, most=None):
    """Of a client that reads nothing: until no more is taken, or for so many bytes; how many there were."""
    begun, sent = s.count("held_bytes"), 0
    client.send(client.headers(3, f"/size/{BIG}"))
    while sent < most if most is not None else s.count("held_bytes") < begun + 30000:
        client.send(frame(WINDOW, 0, 3, u32(STEP)))
        sent += STEP
        time.sleep(0.01)
    return sent


def an_answer_makes_room_for_its_own_frames():
    """A program's answer, the oldest that stands still, goes for memory that the frames with it need."""
    with Http2Site("send_timeout 60s\nheld_memory 1M\nmax_body 100k").start() as s:
        most = None
        for spare in (0, 3, 2, 1):      # what the socket takes yet, in steps: less than of the answer is waiting
            with contextlib.ExitStack() as stack:
                client = stack.enter_context(Raw(s, receive=4096, settings=struct.pack(">HI", 4, 10000)))
                client.send(frame(WINDOW, 0, 0, u32(0x7fff0000)), client.headers(1, "/cgi/big"))
                wait_for(lambda: s.count("held_bytes") > 120000)
                if not most:
                    most = fill_socket(s, client)
                    continue
                fill_socket(s, client, most - spare * STEP)
                while s.count("held_bytes") < (1 << 20) - 34000:
                    stack.enter_context(deaf_client(s))
                    time.sleep(0.05)
                time.sleep(1.2)
                client.send(frame(WINDOW, 0, 1, u32(1 << 20)))
                time.sleep(0.5)
                served(s)
                if s.count("held_dropped"):
                    break
        assert s.count("held_dropped"), "its frames needed no memory"
        quiet(s)


def slow_readers_have_their_time():
    """send_timeout: of a stream without a window, which ends alone; of a connection that takes nothing."""
    with Http2Site("send_timeout 1s\nkeepalive_timeout 60s").start() as s:
        with Raw(s, settings=struct.pack(">HI", 4, 1000)) as client:
            client.send(client.headers(1, f"/size/{BIG}"), client.headers(3, "/cgi/big"))
            ended, n, begun = set(), 5, time.monotonic()
            while ended < {1, 3}:
                assert time.monotonic() - begun < kit.PATIENCE, "who has no window stays"
                client.send(client.headers(n))
                while (got := client.next()) and (got[2] != n or not got[1] & END_STREAM):
                    if got[0] == RST:
                        ended.add(got[2])
                equal(got and got[3], content(5))
                time.sleep(0.3)
                n += 2
            assert n > 9, n
        equal(s.count("timeouts_send") + s.count("timeouts_app"), 2)
        with deaf_client(s):
            wait_for(lambda: s.count("timeouts_send") + s.count("timeouts_app") == 3)
        quiet(s)


def answers_without_a_window_make_room():
    """At max_connections, also small ones, of which nothing but the window is waited for."""
    for path in ("/size/5", "/size/100000", "/cgi/length", "/none"):
        with Http2Site("send_timeout 60s\nmax_connections 50").start() as s, \
                Raw(s, settings=struct.pack(">HI", 4, 0)) as client:
            client.send(*(client.headers(n, path) for n in range(1, 130, 2)))
            begun = time.monotonic()
            served(s)
            assert time.monotonic() - begun < 20, (path, time.monotonic() - begun)


def slow_bodies_have_their_time():
    """body_timeout, of one stream: others go on."""
    with Http2Site("body_timeout 1s").start() as s, Raw(s) as client:
        client.send(client.headers(1, "/cgi/cat", "POST", end=False), frame(DATA, 0, 1, b"x"))
        for n in range(3, 13, 2):
            client.send(client.headers(n))
            equal(client.answer(n)[2], content(5))
            time.sleep(0.3)
        assert client.answer(1)[3] is not None, client.answers[1]
        equal(s.count("timeouts_body"), 1)
        client.send(client.headers(13))
        equal(client.answer(13)[2], content(5))


def bodies_that_nobody_reads_stop_no_other():
    """Of requests whose answer is on its way, to which nobody listens: an upload goes on."""
    with Http2Site("max_body 4M\nsend_timeout 60s").start() as s, Raw(s, settings=struct.pack(">HI", 4, 0)) as client:
        uploads = Uploads(client, "/cgi/cat")
        uploads.hear()
        for stream in range(3, 190, 2):
            uploads.begin(stream, 70000, f"/size/{BIG}", method="GET")
            uploads.send(stream)
        wait_for(lambda: s.count("held_bytes") > 90 * 16384)        # they are counted
        uploads.begin(1001, 600000)
        begun = time.monotonic()
        while uploads.left[1001] and time.monotonic() - begun < kit.PATIENCE:
            uploads.send(1001)
            uploads.hear()
        assert not uploads.left[1001], (uploads.left, uploads.windows)
        client.send(frame(WINDOW, 0, 1001, u32(1 << 20)), frame(WINDOW, 0, 0, u32(1 << 20)))
        equal(len(client.answer(1001)[2]), 600000 + len("600000 \n"))


def nothing_is_smuggled():
    """What HTTP/1.1 would read as more, less or another thing than HTTP/2 does is answered once, by an error."""
    with Http2Site("access_log @DIR@/log").start() as s:
        # A number sign is part of a name to us, by HTTP/1.1 too.
        tries = [({}, more) for more in BAD_FIELDS] + [(line, []) for line in BAD_LINES if line != {"path": "/#f"}]
        for line, more in tries:
            for end in (True, False):
                with Raw(s) as client:
                    begun = client.headers(1, more=more, end=end, **line)
                    client.send(begun, *([] if end else [frame(DATA, END_STREAM, 1, SMUGGLED.encode())]))
                    status, _, _, error = client.answer(1)
                    assert status in (400, 501) or (status, error) == (None, PROTOCOL_ERROR), \
                        (line, more, status, error)
                    client.send(client.headers(3))
                    equal(client.answer(3)[2], content(5), (line, more))
        equal(s.count("requests"), 2 * len(tries))
        s.stop()
        with open(os.path.join(s.dir, "log"), encoding="ascii") as file:
            assert "stolen" not in file.read()


def bodies_are_what_they_say():
    """A length that the frames do not keep ends the request; chunks within a body are data."""
    with Http2Site().start() as s:
        for length, data in ((5, b"123456"), (5, b"1234"), (0, b"x")):
            with Raw(s) as client:
                client.send(client.headers(1, "/cgi/cat", "POST", more=[("content-length", str(length))], end=False),
                            frame(DATA, END_STREAM, 1, data))
                equal(client.answer(1)[3], PROTOCOL_ERROR)
                client.send(client.headers(3))
                equal(client.answer(3)[2], content(5))
        with Raw(s) as client:
            inner = b"0\r\n\r\n" + SMUGGLED.encode()
            client.send(client.headers(1, "/cgi/cat", "POST", end=False), frame(DATA, 0, 1, inner),
                        frame(DATA, END_STREAM, 1, inner))
            equal(client.answer(1)[2], b"%d \n" % (2 * len(inner)) + inner * 2)
        equal(s.count("cgi_started"), 1)


def noise_does_no_harm():
    """A good conversation, cut anywhere, with bytes turned or frames of any kind in it."""
    chance = random.Random(int(os.environ.get("FLASH_FUZZ_SEED", "7")))
    with Http2Site().start() as s:
        for _ in range(int(os.environ.get("FLASH_FUZZ_ROUNDS", "150"))):
            with Raw(s) as client:
                frames = [client.headers(1), client.headers(3, "/cgi/cat", "POST", end=False),
                          frame(DATA, 0, 3, b"x" * 999), frame(DATA, END_STREAM, 3, b"y"), frame(PING, 0, 0, bytes(8)),
                          client.headers(5, f"/size/{1 << 20}"), client.headers(7, "/size/100000"),
                          frame(RST, 0, 5, u32(8)), frame(WINDOW, 0, 0, u32(1000))]
                send_noise(client, frames, chance)
        served(s)
        quiet(s)


if __name__ == "__main__":
    main([floods_end_the_connection, tiny_windows_by_settings_are_a_flood,
          who_asks_much_is_no_flood,
          streams_given_up_end_the_connection, headers_without_an_end_end_the_connection, a_header_bomb_is_refused,
          half_a_header_has_its_time, what_is_no_request_holds_no_connection, who_takes_nothing_has_little,
          who_takes_nothing_is_counted_and_makes_room, who_makes_room_for_its_own_requests_ends_in_order,
          who_makes_room_for_its_own_request_goes, an_answer_makes_room_for_its_own_frames,
          slow_readers_have_their_time, answers_without_a_window_make_room, slow_bodies_have_their_time,
          bodies_that_nobody_reads_stop_no_other, nothing_is_smuggled, bodies_are_what_they_say, noise_does_no_harm])

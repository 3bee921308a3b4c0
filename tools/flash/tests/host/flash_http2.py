#!/usr/bin/env python3
# timeout: 300
"""HTTP/2: requests as streams, of files and of programs, with the rules that hold for all requests."""
import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from flashtest import FLASH, equal, main, wait_for    # noqa: E402
from http2site import SIZES, Curl, Http2Site, no_sanitizer, quiet        # noqa: E402
from secured import content, same     # noqa: E402
from slowdisk import slow_disk     # noqa: E402
import kit      # noqa: E402
from http2_client import fields as request_fields     # noqa: E402
from http2_client import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INTERNAL_ERROR,    # noqa: E402
                          NO_ERROR, PING, REFUSED_STREAM, RST, WINDOW, Raw, Uploads, frame, h2spec, u32)

KINDS = ("", "transfer mmap", "architecture sped", "events io_uring", "chunk 4k\nmemory_cache 0", "ktls off",
         "transfer iolite")
BIG = 10000019


def asked(client, stream, path="/size/5", method="GET", **more):
    """One request without a body, and its answer."""
    client.send(client.headers(stream, path, method, **more))
    return client.answer(stream)


def what_is_agreed_on():
    """h2 only where the listener says so; who does not name it is served as before."""
    for offers in (True, False):
        with Http2Site() as s:
            s.offers = offers
            s.configure()
            s.start()
            for offered, wanted in ((["http/1.1", "h2"], "h2" if offers else "http/1.1"), (["http/1.1"], "http/1.1"),
                                    ([], None)):
                context = s.context()
                if offered:
                    context.set_alpn_protocols(offered)
                c = s.secure(context)
                equal(c.sock.selected_alpn_protocol(), wanted, offered)
                if wanted != "h2":
                    equal(c.get("/size/5").body, content(5))


def files_come_whole():
    """From memory and from files, by each way that there is of sending them."""
    kit.need("curl")
    for kind in KINDS:
        with Http2Site(kind).start() as s:
            for size in SIZES:
                got = Curl(s, f"/size/{size}")
                equal((got.version, got.status), ("2", "200"), (kind, size))
                same(got.body, content(size), f"{kind} {size}")
                assert not re.search("^(connection|transfer-encoding|keep-alive):", got.head, re.M | re.I), got.head
    with Http2Site().start() as s:
        same(Curl(s, "/size/100000", "--tls-max", "1.2").body, content(100000), "TLS 1.2")


def conditions_ranges_and_errors_are_as_by_http1():
    with Http2Site("error_page 404 @ROOT@/wrong.html\nhsts 100\nlisting on\n"
                   "header X-Mine 1") as s:
        s.write("wrong.html", "all wrong")
        s.write("page.html", "<p>")
        s.write("page.html.gz", "zipped")
        s.write("dir/file", "x")
        s.config += "precompressed on\n"
        s.start()
        with Raw(s) as client:
            _, fields, body, _ = asked(client, 1, "/size/100000")
            same(body, content(100000), "GET")
            equal((fields["strict-transport-security"], fields["x-mine"]), ("max-age=100", "1"))
            equal(asked(client, 3, "/size/100000", more=[("if-none-match", fields["etag"])])[0::2], (304, b""))
            equal(asked(client, 5, "/size/100000", more=[("if-match", '"no"')])[0], 412)
            equal(asked(client, 7, "/size/100000", more=[("if-modified-since", fields["last-modified"])])[0], 304)
            got = asked(client, 9, "/size/100000", "HEAD")
            equal((got[0], got[1]["content-length"], got[2], got[3]), (200, "100000", b"", None))
            got = asked(client, 11, "/size/100000", more=[("range", "bytes=70000-70009")])
            equal((got[0], got[1]["content-range"], bytes(got[2])),
                  (206, "bytes 70000-70009/100000", content(100000)[70000:70010]))
            got = asked(client, 13, "/size/100000", more=[("range", "bytes=0-0,50000-50001,99999-")])
            assert got[0] == 206 and b"Content-Range: bytes 50000-50001/100000\r\n\r\n" + \
                content(100000)[50000:50002] in got[2], got
            equal(asked(client, 15, "/size/5", more=[("range", "bytes=9-")])[0], 416)
            equal(asked(client, 17, "/none")[0::2], (404, b"all wrong"))
            equal(asked(client, 19, "/none", "HEAD")[0::2], (404, b""))
            got = asked(client, 21, "/dir")
            equal((got[0], got[1]["location"]), (301, "/dir/"))
            assert b"file" in asked(client, 23, "/dir/")[2]
            got = asked(client, 25, "/page.html", more=[("accept-encoding", "gzip")])
            equal((got[1]["content-encoding"], bytes(got[2])), ("gzip", b"zipped"))
            equal(asked(client, 27, "*", "OPTIONS")[0], 204)
            equal(asked(client, 29, "/size/5", "DELETE")[0], 405)
            equal(asked(client, 31, "/size/5", "BREW")[0], 501)
            equal(asked(client, 33, None, "CONNECT", scheme=None)[0], 501)
            equal(asked(client, 35, "/" + "x" * 9000)[0], 414)
            equal(asked(client, 37, "/size/5", more=[("x", "y" * 16400)])[0], 431)
            equal(asked(client, 39, "/size/5", "HEAD", more=[("x", "y" * 16400)])[0::2], (431, b""))
            client.send(client.headers(41, "/size/5", "POST", end=False), frame(DATA, END_STREAM, 41, b"x" * 9))
            equal(client.answer(41)[0], 405)
            equal(asked(client, 43)[2], content(5))


def long_headers_are_understood():
    """Longer than a frame, and than what is read at once."""
    with Http2Site("max_header 60k").start() as s, Raw(s) as client:
        for stream in (1, 3):
            block = client.encoder.encode(request_fields("/app/?x", more=[("x-long", "y" * 45000)]))
            client.send(frame(HEADERS, END_STREAM, stream, block[:16000]),
                        frame(CONTINUATION, 0, stream, block[16000:32000]),
                        frame(CONTINUATION, END_HEADERS, stream, block[32000:]))
            status, _, body, error = client.answer(stream)
            equal((status, error), (200, None))
            assert b"HTTP_X_LONG=" + b"y" * 45000 + b"\n" in body, body[:500]
            equal(s.count("held_bytes") < 8192, True)


def programs_answer_streams():
    """CGI and FastCGI: variables, bodies both ways, of known length and not, 100-continue, and none."""
    kit.need("curl")
    with Http2Site("max_body 1000003").start() as s:
        with Raw(s) as client:
            more = [("cookie", "a=1"), ("cookie", "b=2"), ("x-some", "v"), ("te", "trailers"), ("proxy", "evil")]
            for stream, path in ((1, "/cgi/env/more?a=b"), (3, "/app/x?a=b")):
                status, fields, body, error = asked(client, stream, path, more=more)
                env = dict(line.split("=", 1) for line in body.decode("latin-1").splitlines() if "=" in line)
                equal((status, error), (200, None))
                for name, value in (("SERVER_PROTOCOL", "HTTP/2.0"), ("HTTPS", "on"), ("QUERY_STRING", "a=b"),
                                    ("SERVER_PORT", str(s.tls_port)), ("REMOTE_ADDR", "127.0.0.1"),
                                    ("HTTP_COOKIE", "a=1; b=2"), ("HTTP_X_SOME", "v"), ("HTTP_HOST", "one.test"),
                                    ("REQUEST_METHOD", "GET")):
                    equal(env.get(name), value, (path, name))
                assert "HTTP_PROXY" not in env and "transfer-encoding" not in fields, (env, fields)
            for path, wanted in (("/cgi/length", (200, b"hello", None)), ("/cgi/none", (204, b"", None)),
                                 ("/cgi/big", (200, bytes(3000000), None)), ("/cgi/garbage", None),
                                 ("/cgi/short", (200, b"hello", INTERNAL_ERROR))):
                stream += 2
                status, _, body, error = asked(client, stream, path)
                if wanted:
                    equal((status, bytes(body), error), wanted, path)
                else:
                    equal((status, error), (502, None), path)
            stream += 2
            equal(asked(client, stream, "/cgi/big", "HEAD")[0::3], (200, None))
            stream += 2
            client.send(client.headers(stream, "/cgi/cat", "POST", end=False, more=[("expect", "100-continue")]))
            client.note(client.wait(HEADERS, stream=stream))
            equal(client.answers[stream][0], 100)
            client.send(frame(DATA, END_STREAM, stream, b"ok"))
            equal(client.answer(stream)[2], b"2 \nok")
            stream += 2         # trailers go no further
            client.send(client.headers(stream, "/cgi/cat", "POST", end=False), frame(DATA, 0, stream, b"abc"),
                        frame(HEADERS, END_HEADERS | END_STREAM, stream, client.encoder.encode([("x-end", "1")])))
            equal(client.answer(stream)[2:], (b"3 \nabc", None))
            stream += 2         # more than max_body, by what it says
            client.send(client.headers(stream, "/cgi/cat", "POST", end=False, more=[("content-length", "5000000")]))
            equal(client.answer(stream)[0], 413)
        path = os.path.join(s.dir, "body")
        body = content(1000003)
        with open(path, "wb") as file:
            file.write(body)
        for target in ("/cgi/cat", "/app/"):
            for options in (("--data-binary", f"@{path}", "-H", "Content-Type: x/y"),
                            ("-T", "-", "-H", "Content-Type: x/y")):
                with open(path, "rb") as file:
                    got = Curl(s, target, *options, stdin=file)
                if target == "/app/":
                    assert got.body.endswith(b"body=%d:" % len(body) + body[:100]), got.body[-300:]
                else:
                    equal(got.body[:12], b"1000003 x/y\n")
                    same(got.body[12:], body, "the body")
        with Raw(s) as client:      # more than max_body, as it comes
            uploads = Uploads(client, "/cgi/cat")
            uploads.begin(1, 1000004, told=False)
            while client.answers.get(1, [0] * 4)[3] == 0:
                uploads.send(1)
                uploads.hear()
            equal(client.answer(1)[0::3], (413, None))


def an_answer_that_is_cut_is_no_whole_one():
    """A program that dies or hangs within it, and a file that becomes shorter."""
    with Http2Site("app_timeout 1s\nsend_timeout 120s\nrevalidate 60s").start() as s, \
            Raw(s, settings=struct.pack(">HI", 4, 1000)) as client:
        status, _, body, error = asked(client, 1, "/cgi/cut")
        equal((status, bytes(body), error), (200, b"a part", INTERNAL_ERROR))
        client.send(client.headers(3, f"/size/{BIG}"))
        while not client.answers.get(3, (0, 0, b""))[2]:
            client.note(client.next())
        os.truncate(os.path.join(s.root, "size", str(BIG)), 500000)
        client.send(frame(WINDOW, 0, 3, u32(1 << 26)), frame(WINDOW, 0, 0, u32(1 << 26)))
        status, _, body, error = client.answer(3)
        assert error == INTERNAL_ERROR and len(body) < BIG, (len(body), error)
        equal(asked(client, 5)[2], content(5))
    with Http2Site("architecture sped\nsend_timeout 120s\nrevalidate 60s").start() as s:
        with Raw(s, settings=struct.pack(">HI", 4, 1 << 24)) as other:      # all of it in one go
            other.send(frame(WINDOW, 0, 0, u32(1 << 24)))
            equal(asked(other, 1, "/size/100000", "HEAD")[0], 200)
            os.truncate(os.path.join(s.root, "size", "100000"), 50000)
            status, _, body, error = asked(other, 3, "/size/100000")
            equal((status, error), (200, INTERNAL_ERROR))
            assert len(body) <= 50000, len(body)


def hundred_fields_are_an_answer():
    """More than a hundred of a program's are none by HTTP/2: its stream ends, no other."""
    with Http2Site().start() as s, Raw(s) as client:
        equal(asked(client, 1, "/cgi/many?95")[0], 200)
        assert asked(client, 3, "/cgi/many?150")[3] is not None
        equal(asked(client, 5)[2], content(5))


def the_log_has_them():
    """With their version, in both forms."""
    for form in ("combined", "json"):
        with Http2Site(f"access_log @DIR@/log\nlog_format {form}").start() as s:
            with Raw(s) as client:
                equal(asked(client, 1, "/size/5?q", more=[("user-agent", "u"), ("referer", "r")])[0], 200)
                equal(asked(client, 3, "/cgi/length")[0], 200)
                equal(asked(client, 5, "/size/5", more=[("x", "y" * 17000)])[0], 431)
            equal(s.secure().get("/size/5").status, 200)
            s.stop()
            with open(os.path.join(s.dir, "log"), encoding="ascii") as file:
                lines = file.read().splitlines()
            equal(len(lines), 4, lines)
            if form == "json":
                lines = [json.loads(line) for line in lines]
                equal([(line["client"], line["status"], line["bytes"], line["request"], line["host"])
                       for line in lines[:2]],
                      [("127.0.0.1", 200, 5, "GET /size/5?q HTTP/2.0", "one.test"),
                       ("127.0.0.1", 200, 5, "GET /cgi/length HTTP/2.0", "one.test")])
            else:
                assert lines[0].startswith("127.0.0.1 - - [") and \
                    lines[0].endswith('"GET /size/5?q HTTP/2.0" 200 5 "r" "u"'), lines
                assert '"GET /size/5 HTTP/1.1" 200 5' in lines[3], lines
                assert '" 431 ' in lines[2], lines


def one_stream_stops_no_other():
    """A program that takes its time, a window that is full, a large file: small ones go between."""
    with Http2Site().start() as s, Raw(s, settings=struct.pack(">HI", 4, 1 << 26)) as client:
        s.gate(True)
        client.send(client.headers(1, "/cgi/slow"), frame(WINDOW, 0, 0, u32(1 << 24)))
        client.send(client.headers(3, f"/size/{BIG}"), client.headers(5, f"/size/{1 << 20}"))
        client.send(*(client.headers(n, "/size/5") for n in range(7, 40, 2)))
        before = 0
        while (got := client.next()):
            before += len(got[3]) if got[0] == DATA and got[2] == 3 else 0
            client.note(got)
            if all(client.answers.get(n, [0] * 4)[3] is None for n in range(5, 40, 2)):
                break
        assert before < BIG // 2, f"{before} bytes of the large one before all others had theirs"
        same(client.answer(3)[2], content(BIG), "the large one")
        s.gate(False)
        equal(client.answer(1)[2:], (b"slow", None))


def a_cold_file_stops_nobody():
    """Its disk is waited for by a helper, in each way of sending: other streams and other clients go on."""
    no_sanitizer("nothing is preloaded")
    for kind in ("", "ktls off", "residency preadv2"):
        with Http2Site(kind, sizes=(5,)) as s:
            s.env = slow_disk(800)
            s.write("cold", b"c" * 150000)
            s.start()
            with Raw(s, settings=struct.pack(">HI", 4, 1 << 20)) as client:
                client.send(client.headers(1), frame(WINDOW, 0, 0, u32(1 << 20)))
                equal(client.answer(1)[2], content(5))
                client.send(client.headers(3, "/cold"))
                for n in range(5, 25, 2):
                    client.send(client.headers(n))
                    equal(client.answer(n)[2], content(5))
                equal(s.secure().get("/size/5").body, content(5))
                with contextlib.suppress(TimeoutError):
                    client.note(client.next(0.01))
                assert not client.answers.get(3, (0, 0, b""))[2], f"{kind}: the cold one came first"
                equal(bytes(client.answer(3)[2]), b"c" * 150000)
            assert s.count("reads_helper") > 0, s.counters()


def tiny_windows_get_all():
    """A byte at a time; then none for a while, then a lot; another stream goes on meanwhile."""
    with Http2Site().start() as s, Raw(s, settings=struct.pack(">HI", 4, 1)) as client:
        client.send(client.headers(1, "/size/4096"), client.headers(3, "/size/0"))
        equal(client.answer(3)[0], 200)
        first = client.answers.get(1, (0, 0, b""))[2]
        equal(bytes(first) + bytes(client.take_by_bytes(1)), content(4096))
        client.send(client.headers(5, "/size/100000"), client.headers(7, "/size/100000"))
        client.send(*(frame(WINDOW, 0, n, u32(1 << 20)) for n in (7, 0)))
        same(client.answer(7)[2], content(100000), "the one with a window")
        client.send(frame(WINDOW, 0, 5, u32(1 << 20)))
        same(client.answer(5)[2], content(100000), "the other")


def many_streams_of_many_connections():
    """h2load, at two workers: small ones, files, programs; and nghttp, with padding and priorities."""
    load = kit.need("h2load")
    with Http2Site("workers 2").start() as s:
        for path, size, count in (("/size/5", 5, 6000), ("/size/100000", 100000, 1000), ("/app/?x", None, 600)):
            run = subprocess.run([load, "-n", str(count), "-c", "12", "-m", "40",
                                  f"https://127.0.0.1:{s.tls_port}{path}"],
                                 capture_output=True, text=True, check=False, timeout=120)
            assert f"{count} succeeded, 0 failed, 0 errored" in run.stdout, run
            assert not size or f"({size * count}) data" in run.stdout, run
        run = subprocess.run([kit.need("nghttp"), "-v", "-w", "14", "-W", "14", "-b", "200", "-m", "20",
                              "--no-verify-peer", f"https://127.0.0.1:{s.tls_port}/size/16385"],
                             capture_output=True, check=False, timeout=60)
        assert run.returncode == 0 and run.stdout.count(b":status: 200") == 20, run.stderr
        wait_for(lambda: s.count("held_bytes") == 0)
        equal(s.count("http2_flooded"), 0)


def a_stop_lets_streams_end():
    """A reload tells by GOAWAY, twice: what is there is answered, what comes meanwhile too, and then it ends."""
    for how in ("reload", "quit"):
        with Http2Site().start() as s, Raw(s) as client, Raw(s) as idle:
            equal(asked(idle, 1)[0], 200)
            s.gate(True)
            client.send(client.headers(1, "/cgi/slow"))
            wait_for(lambda: s.count("cgi_started") == 1)
            s.proc.send_signal(signal.SIGHUP if how == "reload" else signal.SIGQUIT)
            first = client.wait(GOAWAY)
            equal(int.from_bytes(first[3][:4], "big"), 0x7fffffff)
            client.send(client.headers(3))
            equal(client.answer(3)[2], content(5))
            last = client.wait(GOAWAY)
            equal(struct.unpack(">II", last[3][:8]), (3, NO_ERROR))
            equal(idle.error(), NO_ERROR)
            while idle.next():
                pass
            idle.tls.close()
            s.gate(False)
            equal(client.answer(1)[2:], (b"slow", None))
            equal(client.next(), None)
            client.tls.close()
            if how == "reload":
                with Raw(s) as other:
                    equal(asked(other, 1)[2], content(5))
            else:
                equal(s.proc.wait(kit.PATIENCE), 0)


def a_connection_has_so_many_requests():
    """keepalive_requests: the last is answered, and the client told to come again."""
    with Http2Site("keepalive_requests 3").start() as s, Raw(s) as client:
        client.send(*(client.headers(n) for n in (1, 3, 5, 7, 9)))
        last = client.wait(GOAWAY)
        equal(struct.unpack(">II", last[3][:8]), (5, NO_ERROR))


def idle_connections_end():
    """PING makes the time no longer, be there a request before or none."""
    with Http2Site("keepalive_timeout 1s\nheader_timeout 1s").start() as s:
        for streams in (0, 1):
            with Raw(s) as client:
                if streams:
                    equal(asked(client, 1)[0], 200)
                error, begun = "open", time.monotonic()
                while error == "open" and time.monotonic() - begun < kit.PATIENCE:
                    with contextlib.suppress(OSError):
                        client.send(frame(PING, 0, 0, b"12345678"))
                    time.sleep(0.05)
                    error = client.error(0.01)
                equal(error, NO_ERROR, streams)
        equal((s.count("timeouts_header"), s.count("timeouts_idle")), (1, 1))


def there_are_so_many_streams():
    """http2_streams of a connection; the next is refused, to be asked again."""
    with Http2Site("http2_streams 5").start() as s, Raw(s) as client:
        s.gate(True)
        client.send(*(client.headers(n, "/cgi/slow") for n in range(1, 12, 2)))
        equal(client.answer(11)[3], REFUSED_STREAM)
        s.count_is("http2_refused", 1)
        s.gate(False)
        for n in range(1, 10, 2):
            equal(client.answer(n)[2], b"slow")
        client.send(client.headers(13))
        equal(client.answer(13)[2], content(5))


def idle_connections_make_room():
    """As others do; so do they for streams, which count as connections."""
    with Http2Site("max_connections 3", sizes=(5,)).start() as s, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(s)) for _ in range(3)]
        for client in clients:
            client.send(frame(PING, 0, 0, bytes(8)))
            assert client.wait(PING)
        equal(asked(clients[0], 1)[2], content(5))      # its stream is the fourth
        equal(clients[1].error(), NO_ERROR)
        equal(asked(clients[2], 1)[2], content(5))
        c = s.secure()
        equal(c.get("/size/5").body, content(5))
        s.gate(True)
        with Raw(s) as busy:
            busy.send(*(busy.headers(n, "/cgi/slow") for n in (1, 3, 5, 7)))
            equal(busy.answer(7)[3], REFUSED_STREAM)
            s.gate(False)
            equal(busy.answer(1)[2], b"slow")


def wrong_directives_are_named():
    with Http2Site() as s:
        for line, word in (("listen 1.2.3.4:1 http2", "http2 needs tls"),
                           ("listen 1.2.3.4:1 redirect http2", "http2 needs tls"),
                           (f"listen 127.0.0.1:{s.tls_port}  tls", "in two ways"),
                           ("architecture mt", "http2 needs the architecture"), ("http2_streams 0", "http2_streams")):
            s.extra = line
            s.configure()
            run = subprocess.run([FLASH, "--config", os.path.join(s.dir, "flash.conf"), "--check"],
                                 capture_output=True, text=True, check=False)
            assert run.returncode and word in run.stderr, (line, run)
        s.extra = ""
        s.configure()
        run = subprocess.run([FLASH, "--config", os.path.join(s.dir, "flash.conf"), "--show"],
                             capture_output=True, text=True, check=True)
        assert f"listen 127.0.0.1:{s.tls_port} tls http2\n" in run.stdout, run.stdout


def h2spec_finds_nothing_new():
    with Http2Site(sizes=(5, 20)).start() as s:
        h2spec(s.tls_port, "/app/")     # it waits for the whole body, so that what comes of that is the answer
        with Raw(s) as client:
            equal(asked(client, 1)[2], content(5))
        quiet(s)


def a_client_that_goes_leaves_nothing():
    """In the middle of answers and bodies, by RST_STREAM, by close_notify or without a word."""
    with Http2Site("max_body 4M").start() as s:
        for how in ("reset", "end", "close"):
            s.gate(True)
            with Raw(s, settings=struct.pack(">HI", 4, 1000)) as client:
                client.send(*(client.headers(n, "/cgi/slow") for n in range(1, 12, 2)),
                            *(client.headers(n, f"/size/{BIG}") for n in range(13, 20, 2)),
                            client.headers(21, "/cgi/cat", "POST", end=False), frame(DATA, 0, 21, b"x" * 1000))
                wait_for(lambda: s.count("cgi_started") % 6 == 0 and s.count("held_bytes"))
                if how == "reset":
                    client.send(*(frame(RST, 0, n, u32(8)) for n in range(1, 22, 2)))
                    wait_for(lambda: s.count("held_bytes") == 0)
                    equal(asked(client, 23)[2], content(5))
                elif how == "end":
                    with contextlib.suppress(OSError):
                        client.tls.unwrap()
            quiet(s)
            s.gate(False)


if __name__ == "__main__":
    main([what_is_agreed_on, files_come_whole, conditions_ranges_and_errors_are_as_by_http1,
          long_headers_are_understood, programs_answer_streams,
          an_answer_that_is_cut_is_no_whole_one, hundred_fields_are_an_answer, the_log_has_them,
          one_stream_stops_no_other, a_cold_file_stops_nobody, tiny_windows_get_all,
          many_streams_of_many_connections, a_stop_lets_streams_end, a_connection_has_so_many_requests,
          idle_connections_end, there_are_so_many_streams, idle_connections_make_room, wrong_directives_are_named,
          a_client_that_goes_leaves_nothing, h2spec_finds_nothing_new])

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""HTTP/2 to lardd: requests as streams, both ways, with the rules that hold for all requests."""

import contextlib
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, answer_with, content, kit, main, until      # noqa: E402
from http2 import http2_site, quiet      # noqa: E402
from http2_client import (DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_ERROR, PING, WINDOW, Raw,     # noqa: E402
                          frame, h2spec)
from secure import count_is, site       # noqa: E402


class Curl:
    """What curl says of a request by HTTP/2."""

    def __init__(self, s, target, *options, **more):
        self.body_path, self.head_path = (os.path.join(s.lardd.directory.name, end) for end in ("got", "head"))
        run = subprocess.run(["curl", "-sS", "--http2", "--cacert", s.files["one.test"][0], "--resolve",
                              f"one.test:{s.port}:127.0.0.1", "-o", self.body_path, "-D", self.head_path, "-w",
                              "%{http_version} %{http_code}", *options, f"https://one.test:{s.port}{target}"],
                             capture_output=True, check=False, timeout=120, **more)
        assert run.returncode == 0, run
        self.version, self.status = run.stdout.decode().split()
        with open(self.body_path, "rb") as file:
            self.body = file.read()
        with open(self.head_path, encoding="latin-1") as file:
            self.head = file.read()


def need_curl():
    if "HTTP2" not in subprocess.run([kit.need("curl"), "-V"], capture_output=True, text=True, check=True).stdout:
        raise kit.Skip("this curl has no HTTP/2")


def what_is_agreed_on():
    """h2 only where the listener says so; who does not name it is served as before."""
    for make, wanted in ((http2_site, "h2"), (site, "http/1.1")):
        with make() as s:
            for offered, agreed in ((["http/1.1", "h2"], wanted), (["http/1.1"], "http/1.1"), ([], None)):
                context = s.context()
                if offered:
                    context.set_alpn_protocols(offered)
                with s.connect(context=context) as client:
                    assert client.selected_alpn_protocol() == agreed, (offered, client.selected_alpn_protocol())
            assert s.get("/size/5")[2] == content(5)


def answers_come_whole():
    """Small, of many frames, in chunks and up to the end, with 1.2 and 1.3."""
    need_curl()
    with http2_site() as s:
        for version in ("--tls-max=1.2", "--tlsv1.3"):
            version = version.split("=")
            for target, body in (("/size/0", b""), ("/size/1", content(1)), ("/size/16384", content(16384)),
                                 ("/size/3000001", content(3000001)), ("/chunked", b"c" * 70006),
                                 ("/eof", b"until the end")):
                got = Curl(s, target, *version)
                assert (got.version, got.status) == ("2", "200") and got.body == body, (target, got.head)
                assert not re.search("^(connection|transfer-encoding|keep-alive):", got.head, re.M | re.I), got.head
        assert Curl(s, "/204").status == "204"
        head = Curl(s, "/size/77", "-I")
        assert "content-length: 77" in head.head, head.head
        count_is(s.lardd, "LardHttp2Connections", 14)
        quiet(s.lardd)


def answers_have_as_many_fields_as_by_http1():
    """A hundred, and what we add to them; from the cache, too. One more is malformed to both."""
    with http2_site("hsts 100\ncache-size 1000000\ncache-object-max 100000") as s, Raw(s) as client:
        for more, status in ((97, 200), (98, 502)):         # with those of the back-end: 100, 101
            target = answer_with(5, "Cache-Control: max-age=60", *(f"X-{n}: {n}" for n in range(more)))
            assert s.get(target)[0] == status
            for stream in (more * 4 + 1, more * 4 + 3):
                client.send(client.headers(stream, target))
                answer = client.answer(stream)
                assert (answer[0], answer[3]) == (status, None), (more, answer)
            if status == 200:
                assert len(answer[1]) >= 100 and "age" in answer[1], answer


def bodies_go_up():
    """Of known length and not, larger than any buffer."""
    need_curl()
    body = content(3000003)
    with http2_site() as s:
        path = os.path.join(s.lardd.directory.name, "body")
        with open(path, "wb") as file:
            file.write(body)
        for options, fields in ((("--data-binary", f"@{path}"), {"content-length": [str(len(body))]}),
                                (("-T", "-"), {"transfer-encoding": ["chunked"]})):
            with open(path, "rb") as file:
                got = Curl(s, "/echo", *options, stdin=file)
            assert got.body == hashlib.sha256(body).hexdigest().encode(), got.head
            seen = s.lardd.backends[0].seen[-1][3]
            assert {key: seen[key] for key in seen if key in ("content-length", "transfer-encoding")} == fields, seen


def trailers_go_no_further():
    """Of a request and of an answer (the back-end's /chunked has one)."""
    with http2_site() as s, Raw(s) as client:
        client.send(client.headers(1, "/echo", "POST", end=False), frame(DATA, 0, 1, b"abc"),
                    frame(HEADERS, END_HEADERS | END_STREAM, 1, client.encoder.encode([("x-end", "1")])),
                    client.headers(3, "/chunked"))
        assert client.answer(1)[2:] == (hashlib.sha256(b"abc").hexdigest().encode(), None)
        _, fields, body, error = client.answer(3)
        assert (body, error) == (b"c" * 70006, None) and "trailer" not in fields, fields
        assert "x-end" not in s.lardd.backends[0].seen[0][3]


def streams_of_a_connection_go_to_several_nodes_at_once():
    """Each is dispatched by itself, and one that waits holds up no other."""
    with http2_site("policy wrr", nodes=2) as s, Raw(s) as client:
        for backend in s.lardd.backends:
            backend.gate.clear()
        client.send(client.headers(1, "/slow"), client.headers(3, "/slow"))
        until(lambda: all(b.seen for b in s.lardd.backends), what="a request at each node")
        assert [n["load"] for n in s.lardd.control("nodes")["nodes"]] == [1, 1]
        client.send(client.headers(5, "/size/5"))
        assert client.answer(5)[2] == content(5)
        for backend in s.lardd.backends:
            backend.gate.set()
        assert {bytes(client.answer(n)[2]) for n in (1, 3)} == {b"be0", b"be1"}


def what_holds_for_requests_holds_for_streams():
    """Fields, the access log, the error answers, HSTS, interim answers, clients' addresses by the PROXY protocol."""
    with http2_site("hsts 100") as s:
        log = os.path.join(s.lardd.directory.name, "access")
        s.configure(s.files, f"hsts 100\naccess-log {log}")
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] >= 2, what="the reload")
        with Raw(s) as client:
            forged = [("x-forwarded-proto", "http"), ("x-forwarded-for", "192.0.2.7"), ("x_forwarded_proto", "gopher"),
                      ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers"), ("x-client-verify", "success"),
                      ("x-kept", "1")]
            client.send(client.headers(1, "/size/5?q", more=forged))
            status, fields, body, _ = client.answer(1)
            assert (status, body, fields["strict-transport-security"]) == (200, content(5), "max-age=100"), fields
            method, target, version, seen, _ = s.lardd.backends[0].seen[-1]
            assert (method, target, version) == ("GET", "/size/5?q", "HTTP/1.1")
            assert seen == {"host": ["one.test"], "cookie": ["a=1; b=2"], "x-kept": ["1"],
                            "x-forwarded-proto": ["https"], "x-forwarded-for": ["192.0.2.7", "127.0.0.1"]}, seen
            client.send(client.headers(3, "/die"), client.headers(5, "/nonsense"), client.headers(7, "*", "OPTIONS"),
                        client.headers(9, None, "CONNECT", scheme=None),
                        client.headers(11, "/echo", "POST", more=[("expect", "100-continue")], end=False),
                        frame(DATA, END_STREAM, 11, b"1"))
            assert [client.answer(n)[0] for n in (3, 5, 7, 9, 11)] == [502, 502, 200, 501, 200]
        quiet(s.lardd)
        s.lardd.process.send_signal(signal.SIGUSR1)         # what is in memory is written

        def lines():
            with open(log, encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        until(lambda: len(lines()) >= 6, what="six lines")
        first = lines()[0]
        assert (first["how"], first["method"], first["host"], first["target"], first["status"], first["node"]) == \
            ("proxy", "GET", "one.test", "/size/5?q", 200, "be0"), first
        assert sorted(line["status"] for line in lines() if line["how"] == "refused") == [501, 502, 502], lines()
        backend = s.lardd.backends[0]
        with open(s.lardd.config_path, encoding="utf-8") as file:
            text = file.read()
        with open(s.lardd.config_path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(node be0 \S+)", r"\1 proxy-protocol on", text))
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] >= 3, what="the reload")
        with Raw(s) as client:
            port = client.tls.getsockname()[1]
            client.send(client.headers(1))
            assert client.answer(1)[2] == content(5)
            raw = backend.raw[-1]
            assert raw[16:20] == b"\x7f\0\0\1" and struct.unpack(">HH", raw[24:28]) == (port, s.port), raw


def the_cache_serves_streams():
    target = answer_with(5000, "Cache-Control: max-age=60")
    with http2_site("cache-size 1000000\ncache-object-max 100000") as s, Raw(s) as client:
        for stream in (1, 3, 5):
            client.send(client.headers(stream, target))
            status, fields, body, error = client.answer(stream)
            assert (status, body, error) == (200, content(5000), None), (stream, status, error)
        assert "age" in fields and len(s.lardd.backends[0].seen) == 1
        assert s.lardd.counter("LardCacheHits") == 2
        assert s.get(target)[2] == content(5000)            # by HTTP/1.1, the same
        client.send(client.headers(7, target, more=[("host", "one.test")], authority=None))
        assert client.answer(7)[2] == content(5000)


def certificates_of_clients_are_told():
    with http2_site() as s:
        chain = s.files["one.test"]
        s.lardd.configure(f"listen 127.0.0.1:{s.port} tls client optional http2\ncertificate {' '.join(chain)}\n"
                          f"client-ca {chain[0]}")
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] >= 2, what="the reload")
        with Raw(s) as client:
            client.send(client.headers(1, more=[("x-client-verify", "success")]))
            assert client.answer(1)[0] == 200
            assert s.lardd.backends[0].seen[-1][3]["x-client-verify"] == ["none"]


def tiny_windows_get_all():
    """A byte at a time, then none for a while, then a lot; another stream goes on meanwhile."""
    with http2_site() as s, Raw(s, settings=struct.pack(">HI", 4, 1)) as client:
        client.send(client.headers(1, "/size/3000"), client.headers(3, "/size/0"))
        assert client.answer(3)[0] == 200
        first = client.answers.get(1, (0, 0, b""))[2]
        assert first + bytes(client.take_by_bytes(1)) == content(3000)
        client.send(client.headers(5, "/size/100000"), client.headers(7, "/size/100000"))
        client.send(*(frame(WINDOW, 0, n, struct.pack(">I", 1 << 20)) for n in (7, 0)))
        assert client.answer(7)[2] == content(100000)
        client.send(frame(WINDOW, 0, 5, struct.pack(">I", 1 << 20)))
        of = client.answer(5)
        assert of[2] == content(100000), (len(of[2]), of[3])


def many_streams_of_many_connections():
    """h2load; each answer is whole, at several workers."""
    load = kit.need("h2load")
    with http2_site("workers 3", nodes=3) as s:
        s.lardd.take_over().wait(kit.PATIENCE)
        run = subprocess.run([load, "-n", "6000", "-c", "12", "-m", "40", f"https://127.0.0.1:{s.port}/size/20000"],
                             capture_output=True, text=True, check=False, timeout=300)
        assert "6000 succeeded, 0 failed, 0 errored" in run.stdout, run
        assert "(120000000) data" in run.stdout, run
        quiet(s.lardd)


def nghttp_is_served():
    """A client that gives priorities, windows of its own and padding."""
    tool = kit.need("nghttp")
    with http2_site() as s:
        run = subprocess.run([tool, "-v", "-w", "14", "-W", "14", "-b", "200", "-m", "20", "--no-verify-peer",
                              f"https://127.0.0.1:{s.port}/size/50000"], capture_output=True, check=False, timeout=120)
        assert run.returncode == 0 and run.stdout.count(b":status: 200") == 20, run.stderr
        quiet(s.lardd)


def a_stop_lets_streams_end():
    """Told by GOAWAY, twice: what is there is answered, what comes meanwhile too, and then it ends."""
    with http2_site() as s, Raw(s) as client:
        backend = s.lardd.backends[0]
        backend.gate.clear()
        client.send(client.headers(1, "/slow"))
        until(lambda: backend.seen, what="its request")
        s.lardd.process.send_signal(signal.SIGTERM)
        first = client.wait(GOAWAY)
        assert int.from_bytes(first[3][:4], "big") == 0x7fffffff, first
        client.send(client.headers(3))
        assert client.answer(3)[2] == content(5)
        last = client.wait(GOAWAY)
        assert struct.unpack(">II", last[3][:8]) == (3, NO_ERROR), last
        assert s.lardd.process.poll() is None
        backend.gate.set()
        assert client.answer(1)[2:] == (b"be0", None)
        assert client.next() is None
        assert s.lardd.process.wait(kit.PATIENCE) == 0


def idle_ones_end_with_a_stop():
    with http2_site() as s, Raw(s) as client:
        client.send(client.headers(1))
        assert client.answer(1)[0] == 200
        s.lardd.process.send_signal(signal.SIGTERM)
        assert client.error() == NO_ERROR
        while client.next():
            pass
        client.tls.close()
        assert s.lardd.process.wait(kit.PATIENCE) == 0


def what_a_stop_cuts_ends_as_no_answer():
    """When the time of a stop is over: no END_STREAM."""
    with http2_site() as s, Raw(s) as client:
        client.send(client.headers(1, "/endless"))
        while True:
            got = client.wait(DATA)
            if got[3] == b"a part":
                break
        s.lardd.process.send_signal(signal.SIGTERM)
        s.lardd.wait_log("event=stopping again=0")
        s.lardd.process.send_signal(signal.SIGTERM)
        assert client.answer(1)[3] is not None
        assert s.lardd.process.wait(kit.PATIENCE) == 0


def reloads_and_takeovers_cut_no_stream():
    """Downloads go on over reloads; where HTTP/2 is offered no more, who has it is told so."""
    with http2_site() as s, Raw(s) as client:
        backend = s.lardd.backends[0]
        backend.gate.clear()
        client.send(client.headers(1, "/slow"), client.headers(3, "/size/5"))
        assert client.answer(3)[2] == content(5)
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] >= 2, what="the reload")
        client.send(client.headers(5))
        assert client.answer(5)[2] == content(5)
        chain = s.files["one.test"]
        s.lardd.configure(f"listen 127.0.0.1:{s.port} tls\ncertificate {' '.join(chain)}")
        s.lardd.reload()
        last = client.wait(GOAWAY)
        assert struct.unpack(">II", last[3][:8]) == (5, NO_ERROR), last
        backend.gate.set()
        assert client.answer(1)[2:] == (b"be0", None)
        assert client.next() is None
        s.configure(s.files)
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] >= 4, what="the reload")
        backend.gate.clear()
        with Raw(s) as second:
            second.send(second.headers(1, "/slow"))
            until(lambda: s.lardd.load() == 1, what="its request")
            old = s.lardd.take_over()
            assert second.wait(GOAWAY)
            backend.gate.set()
            assert second.answer(1)[2:] == (b"be0", None)
            assert second.wait(GOAWAY) and not second.next()
        assert old.wait(kit.PATIENCE) == 0
        with Raw(s) as third:
            third.send(third.headers(1))
            assert third.answer(1)[2] == content(5)


def a_connection_has_so_many_requests():
    """keepalive-requests: the last is answered, and the client told to come again."""
    with http2_site("keepalive-requests 3") as s, Raw(s) as client:
        for stream in (1, 3, 5):
            client.send(client.headers(stream))
            assert client.answer(stream)[2] == content(5)
        assert client.next() is None or client.error() == "end"
        with Raw(s) as client:
            client.send(*(client.headers(n) for n in (1, 3, 5, 7, 9)))
            last = client.wait(GOAWAY)
            assert struct.unpack(">II", last[3][:8]) == (5, NO_ERROR), last


def idle_connections_end():
    """PING makes the time no longer."""
    with http2_site("idle-timeout 2s\nheader-timeout 1s") as s:
        for streams in (0, 1):
            with Raw(s) as client:
                if streams:
                    client.send(client.headers(1))
                    assert client.answer(1)[0] == 200
                error = "open"
                for _ in range(20 * kit.PATIENCE):
                    if error != "open":
                        break
                    with contextlib.suppress(OSError):
                        client.send(frame(PING, 0, 0, b"12345678"))
                    time.sleep(0.05)
                    error = client.error(0.01)
                assert error == NO_ERROR, error


def wrong_directives_are_named():
    with http2_site() as s:
        for lines, word in (("listen 127.0.0.1:1 http2", "http2 needs tls"),
                            ("listen 127.0.0.1:1 redirect http2", "http2 needs tls"),
                            (f"listen 127.0.0.1:{s.port} tls http2\nlisten 127.0.0.1:{s.port} tls", "in two ways"),
                            ("tls-port-http2 8444", "no listener has http2"),
                            ("http2-streams 0", "from 1 to 1000"), ("http2-streams 1001", "from 1 to 1000")):
            s.lardd.configure(lines)
            run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True,
                                 check=False)
            assert run.returncode == 1 and word in run.stderr, (lines, run)


def h2spec_finds_nothing_new():
    """github.com/summerwind/h2spec, which no Debian package has (lard/doc/tests.md)."""
    with http2_site() as s:
        h2spec(s.port)
        assert s.get("/size/5")[2] == content(5)


if __name__ == "__main__":
    sys.exit(main([what_is_agreed_on, answers_come_whole, answers_have_as_many_fields_as_by_http1, bodies_go_up,
                   trailers_go_no_further, streams_of_a_connection_go_to_several_nodes_at_once,
                   what_holds_for_requests_holds_for_streams, the_cache_serves_streams,
                   certificates_of_clients_are_told, tiny_windows_get_all, many_streams_of_many_connections,
                   nghttp_is_served, a_stop_lets_streams_end, idle_ones_end_with_a_stop,
                   what_a_stop_cuts_ends_as_no_answer, reloads_and_takeovers_cut_no_stream,
                   a_connection_has_so_many_requests, idle_connections_end, wrong_directives_are_named,
                   h2spec_finds_nothing_new]))

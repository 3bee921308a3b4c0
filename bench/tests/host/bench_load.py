#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench/pathlen/load: its connections of TLS are resumed or whole, as it was told, each of them."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib"), str(TOP / "bench/turns")]
from kit import claim, main     # noqa: E402
from servers import Server, certificate, free_port     # noqa: E402

SUITE = "TLS_AES_128_GCM_SHA256"


class Flash:
    """One with TLS; and its counters, in clear text."""

    def __init__(self, work):
        self.plain = free_port()
        self.server = Server(f"flash --listen 127.0.0.1:{self.plain} --status /status", work, work / "www",
                             files=certificate(work))
        self.seen = self.counters()

    def status(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/status", timeout=30) as answer:
            return json.load(answer)

    def counters(self):
        status = self.status()
        return [status[name] for name in ("tls_handshakes", "tls_resumed")]

    def since(self):
        """Handshakes, and how many of them were resumed, since the last time."""
        before, self.seen = self.seen, self.counters()
        return [after - n for after, n in zip(self.seen, before)]


@contextlib.contextmanager
def flash():
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        work.chmod(0o755)
        (work / "www").mkdir()
        (work / "www/f").write_bytes(bytes(20000))
        f = Flash(work)
        try:
            yield f, work
        finally:
            f.server.close()


def load(server, *words):
    return subprocess.run([str(TOP / "build/bench/load"), *words, "127.0.0.1", str(server.port), "/f"], text=True,
                          capture_output=True, check=False, timeout=120)


@claim
def handshakes_are_whole_without_a_session():
    with flash() as (f, _):
        for _ in range(2):
            out = load(f.server, "-n", "20", "-c", "4", "-t", SUITE)
            assert out.stdout == "20\n", out.stderr
            assert f.since() == [20, 0], f.seen


@claim
def each_is_resumed_with_one():
    with flash() as (f, work):
        words = ("-n", "20", "-c", "4", "-t", SUITE, "-r", str(work / "session"))
        out = load(f.server, *words)
        # Those that began before the first had a session.
        handshakes, resumed = f.since()
        assert out.stdout == "20\n" and handshakes == 20 and 16 <= resumed < 20, (out, handshakes, resumed)
        for _ in range(2):
            out = load(f.server, *words)
            assert out.stdout == "20\n", out.stderr
            assert f.since() == [20, 20], f.seen


@claim
def kept_connections_have_one_handshake():
    with flash() as (f, _):
        out = load(f.server, "-k", "-n", "40", "-c", "4", "-t", SUITE)
        assert out.stdout == "40\n" and f.since() == [4, 0], (out, f.seen)


@claim
def who_says_nothing_has_a_handshake_alone():
    with flash() as (f, work):
        words = ("-n", "20", "-c", "4", "-t", SUITE)
        session = ("-r", str(work / "session"))
        out = load(f.server, *words, "-s")
        assert out.stdout == "20\n" and f.since() == [20, 0], (out, f.seen)
        assert "no session" in load(f.server, *words, *session, "-s").stderr
        assert not load(f.server, *words, *session).returncode
        f.since()
        requests = f.status()["requests"]
        out = load(f.server, *words, *session, "-s")
        assert out.stdout == "20\n" and f.since() == [20, 20], (out, f.seen)
        assert f.status()["requests"] == requests + 2, "but for those that ask for this"


@claim
def a_session_that_is_not_resumed_is_an_error():
    with flash() as (f, work):
        words = ("-n", "8", "-c", "1", "-t", SUITE, "-r", str(work / "session"))
        assert not load(f.server, *words).returncode
        other = Flash(work)
        try:
            out = load(other.server, *words)
        finally:
            other.server.close()
        assert out.returncode == 1 and "a session was not resumed" in out.stderr, out


@claim
def what_it_cannot_do_is_refused():
    for words in (("-r", "/nowhere"), ("-s",), ("-s", "-k", "-t", SUITE), ("-c", "0"), ("-n", "1", "-c", "2")):
        out = subprocess.run([str(TOP / "build/bench/load"), *words, "127.0.0.1", "1", "/f"], text=True,
                             capture_output=True, check=False, timeout=60)
        assert out.returncode == 2 and "usage: " in out.stderr, (words, out)


main()

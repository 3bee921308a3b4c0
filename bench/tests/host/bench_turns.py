#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""bench/turns: a ratio is said to differ from 1 only when its turns show it."""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib"), str(TOP / "bench/turns")]
from kit import claim, main     # noqa: E402
from ratio import interval, order, ratio, said      # noqa: E402


def turns(factor, spread, n, draw):
    """Pairs of a server FACTOR times as fast, both within SPREAD of what they would do on a quiet machine."""
    return [(factor * draw.uniform(1 - spread, 1 + spread), draw.uniform(1 - spread, 1 + spread)) for _ in range(n)]


@claim
def bounds_hold_the_median_in_95_of_100_cases():
    draw = random.Random(5)
    for n in (6, 8, 12, 30):
        held = 0
        for _ in range(2000):
            low, high = interval([draw.lognormvariate(0, .5) for _ in range(n)])
            held += low <= 1 <= high
        assert held / 2000 > .94, f"{n} turns: held in {held} of 2000"
    low, high = interval([draw.lognormvariate(0, .5) for _ in range(200)])
    assert high - low < .5, "many turns say no more than few"


@claim
def what_is_alike_is_not_told_apart():
    draw = random.Random(6)
    told = sum(ratio(turns(1, .3, 8, draw))["told"] for _ in range(1000))
    assert told < 60, f"{told} of 1000 times"


@claim
def what_differs_is_told_and_in_the_right_direction():
    draw = random.Random(7)
    for factor in (.7, 1.5):
        r = ratio(turns(factor, .1, 8, draw))
        assert r["told"] and (r["ratio"] > 1) == (factor > 1), r
        assert r["low"] <= r["ratio"] <= r["high"] and "=" not in said(r), r
    assert "=" in said(ratio([(1, 1)] * 8))


@claim
def few_turns_tell_nothing():
    assert not ratio([(2, 1)] * 5)["told"] and ratio([(2, 1)] * 6)["told"]


@claim
def each_is_first_as_often_as_the_other():
    assert order(4) == ["AB", "BA", "AB", "BA"]


@claim
def a_turn_of_flash_beside_itself_runs_whole():
    with tempfile.TemporaryDirectory() as work:
        out = subprocess.run([TOP / "bench/turns/run", "--sizes", "64,8k", "--connections", "2", "--turns", "1",
                              "--seconds", "1", "--pace", "40", "--output", f"{work}/out", "flash",
                              "flash --chunk 262144"],
                             text=True, capture_output=True, check=False, timeout=120)
        assert not out.returncode, out.stderr
        cases = json.loads(Path(work, "out").read_text())["cases"]
        assert [case["bytes"] for case in cases] == [64, 8192]
        for case in cases:
            for who in ("ours", "theirs"):
                turn, = case["turns"][who]
                assert turn["rate"] > 10 and 0 < turn["server"] < 1 and 0 < turn["client"] < 1, turn
                paced, = case["paced"]["turns"][who]
                assert 1 <= paced["p50"] <= paced["p99"] <= paced["max"], paced
                assert abs(paced["requests"] - case["paced"]["rate"]) <= 1, (paced, case["paced"]["rate"])


@claim
def a_turn_by_tls_runs_whole():
    with tempfile.TemporaryDirectory() as work:
        out = subprocess.run([TOP / "bench/turns/run", "--tls", "--sizes", "8k", "--connections", "2", "--turns", "1",
                              "--seconds", "1", "--output", f"{work}/out", "flash", "flash --ktls off"],
                             text=True, capture_output=True, check=False, timeout=120)
        assert not out.returncode, out.stderr
        case, = json.loads(Path(work, "out").read_text())["cases"]
        assert case["tls"] and all(case["turns"][who][0]["rate"] > 10 for who in ("ours", "theirs")), case


class Stalling(threading.Thread):
    """A server that stands still once, for @stall seconds in the middle of @seconds."""

    def __init__(self, seconds, stall):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.still = time.monotonic() + seconds / 2, stall
        self.start()

    def run(self):
        peer, still = self.listener.accept()[0], False
        while peer.recv(4096):
            if not still and time.monotonic() > self.still[0]:
                time.sleep(self.still[1])
                still = True
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@claim
def a_stall_is_charged_for_all_that_was_due_in_it():
    server = Stalling(2, .5)
    out = subprocess.run([TOP / "build/bench/pace", "-c", "1", "-r", "100", "-t", "2", "127.0.0.1",
                          str(server.listener.getsockname()[1]), "/"], text=True, capture_output=True, check=True)
    seen = json.loads(out.stdout)
    # A quarter of the requests was due while it stood still; closed-loop load would have seen one.
    assert seen["requests"] == 200 and seen["max"] > 480000, seen
    assert seen["p99"] > 300000, f"{seen}: of 50 requests that were due in the stall"


@claim
def what_it_cannot_do_is_refused():
    for words in (["flash"], ["flash", "apache"], ["flash", "/nowhere/flash"], ["--sizes", "8q", "flash", "nginx"],
                  ["--turns", "0", "flash", "flash"], ["--tls", "flash", "lighttpd"],
                  ["--tls", "--pace", "50", "flash", "flash"],
                  ["--pace", "100", "flash", "flash"]):
        out = subprocess.run([TOP / "bench/turns/run", *words], text=True, capture_output=True, check=False, timeout=60)
        assert out.returncode == 2 and "error: " in out.stderr, (words, out.returncode, out.stderr)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Whoever reads lardd's logs may stop reading: no client waits for him, and what is lost is counted."""

import contextlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import cluster, content, kit, main, until  # noqa: E402

REQUESTS = 400
QUICK = 3 * kit.PATIENCE    # seconds; who waits for a reader waits for ever


def asked(lardd, count, start=0):
    """Requests with long names, each on its connection; how long they took."""
    began = time.monotonic()
    for n in range(start, start + count):
        code, _, body = lardd.get(f"/size/4?{n}-{'x' * 900}")
        assert code == 200 and body == content(4)
    return time.monotonic() - began


def read_all(fd):
    """What comes until nothing comes."""
    data, last = b"", time.monotonic()
    while time.monotonic() - last < 0.5:
        more = read_now(fd)
        if more:
            data, last = data + more, time.monotonic()
            continue
        time.sleep(0.01)
    return data


def read_now(fd):
    """What is there."""
    os.set_blocking(fd, False)
    data = b""
    with contextlib.suppress(BlockingIOError):
        while (more := os.read(fd, 1 << 16)):
            data += more
    return data


def stalled_access_log_stops_nobody():
    for workers in (1, 2):
        with cluster(1) as lardd:
            path = os.path.join(lardd.directory.name, "fifo")
            os.mkfifo(path)
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            lardd.process.send_signal(signal.SIGTERM)
            assert lardd.process.wait(kit.PATIENCE) == 0
            lardd.configure(f"access-log {path}\nworkers {workers}")
            lardd.start()
            assert asked(lardd, REQUESTS) < QUICK
            assert lardd.control("status")["nodes"] == 1
            assert lardd.counter("LardLogLost") > 0, "all of it was taken: nothing stalled"
            seen = bytearray()

            def told(count):
                """The rest of it comes with the clock; another worker may have answered and not yet written it."""
                seen.extend(read_now(reader))
                return seen.count(b"\n") + lardd.counter("LardLogLost") >= count
            until(lambda: told(REQUESTS), what="a line for each, or that it is lost")
            lines = [json.loads(line) for line in seen.splitlines()]
            lost = lardd.counter("LardLogLost")
            assert seen.endswith(b"\n") and len(lines) + lost == REQUESTS, (len(lines), lost)
            assert asked(lardd, 5, REQUESTS) < QUICK
            until(lambda: told(REQUESTS + 5), what="5 lines more")
            now = len(seen.splitlines()), lardd.counter("LardLogLost")
            assert now == (len(lines) + 5, lost), (now, lost)
            os.close(reader)                            # and nobody reads at all
            assert asked(lardd, 20) < QUICK


def log_to_a_fifo_without_a_reader_starts():
    with cluster(1) as lardd:
        path = os.path.join(lardd.directory.name, "fifo")
        os.mkfifo(path)
        lardd.configure(f"access-log {path}")
        assert lardd.control("reload") == {"reloads": 1}
        lardd.process.send_signal(signal.SIGUSR1)
        assert asked(lardd, 3) < QUICK
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        until(lambda: b"\n" in read_now(reader), what="a line")
        os.close(reader)


def stalled_standard_error_stops_nobody():
    """A pipe, and the stream socket that systemd gives."""
    for kind in ("pipe", "socket"):
        if kind == "pipe":
            r, w = os.pipe()
        else:
            ends = socket.socketpair()
            r, w = (os.dup(s.fileno()) for s in ends)
            for s in ends:
                s.close()
        with cluster(1) as lardd:
            lardd.process.send_signal(signal.SIGTERM)
            assert lardd.process.wait(kit.PATIENCE) == 0
            lardd.start(stderr=w)
            lardd.configure("colour red")               # each reload writes a line
            began = time.monotonic()
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(QUICK)
                s.connect(lardd.socket_path)
                threading.Thread(target=s.sendall, args=(b'{"cmd":"reload"}\n' * 4000,)).start()
                stream = s.makefile()
                for _ in range(4000):
                    assert "unknown directive" in json.loads(stream.readline())["error"]
            assert asked(lardd, 3) < QUICK and time.monotonic() - began < 2 * QUICK
            first = read_all(r)
            lines = first.splitlines()
            # The line that counts them is shorter, and may fit where they did not.
            assert re.search(b"event=(reload|log-lost)", lines[-1]) and first.endswith(b"\n"), lines[-1]
            assert "error" in lardd.control("reload")
            said = bytearray(first)

            def told():
                said.extend(read_now(r))
                lost = sum(int(n) for n in re.findall(rb"event=log-lost lines=(\d+)", said))
                return said.count(b"event=reload"), lost
            until(lambda: sum(told()) >= 4001, what="a line for each, or that it is lost")
            reloads, lost = told()
            assert reloads + lost == 4001 and lost, (reloads, lost)
            os.close(w)
            os.close(r)


def no_line_is_lost_around_reopening_and_reloading():
    with cluster(1, "workers 2") as lardd:
        path = os.path.join(lardd.directory.name, "access")
        lardd.configure(f"access-log {path}\nworkers 2")
        assert lardd.control("reload") == {"reloads": 1}
        over, counts = threading.Event(), [0] * 4

        def load(who):
            while not over.is_set():
                assert lardd.get(f"/size/4?{who}-{counts[who]}-")[0] == 200
                counts[who] += 1

        clients = [threading.Thread(target=load, args=(who,)) for who in range(len(counts))]
        for client in clients:
            client.start()
        for n in range(9):
            os.rename(path, f"{path}.{n}")
            lardd.process.send_signal(signal.SIGUSR1 if n % 3 else signal.SIGHUP)
            until(lambda: os.path.exists(path), what="a new log")
            until(lambda n=n: sum(counts) > 20 * (n + 1), what="requests")
        over.set()
        for client in clients:
            client.join()
        lardd.process.send_signal(signal.SIGTERM)
        assert lardd.process.wait(kit.PATIENCE) == 0
        seen = []
        for name in os.listdir(lardd.directory.name):
            if name.startswith("access"):
                with open(os.path.join(lardd.directory.name, name), encoding="ascii") as file:
                    seen += re.findall(r"/size/4\?(\d+-\d+)-", file.read())
        assert len(set(seen)) == len(seen) == sum(counts) > 100, (len(set(seen)), len(seen), counts)


if __name__ == "__main__":
    sys.exit(main([stalled_access_log_stops_nobody, log_to_a_fifo_without_a_reader_starts,
                   stalled_standard_error_stops_nobody, no_line_is_lost_around_reopening_and_reloading]))

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""The load generator against a server that does nothing but count (spec row 38)."""
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(TOP / "tools/testing/lib"))
import kit  # noqa: E402

REPLAY = os.environ.get("REPLAY", str(TOP / "build/bin/flash-replay"))
PATIENCE = 120


class NullServer:
    """Answers everything; remembers what it was asked, on which connection, and how many at once."""

    def __init__(self, delay=0.0, status="200 OK", crowd=1):
        """The first answers are held back until there are so many requests at once."""
        self.delay, self.status = delay, status
        self.crowd, self.gathered = crowd, threading.Event()
        self.paths, self.connections = [], []
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.socket.getsockname()[1]
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            count = [0]
            self.connections.append(count)
            threading.Thread(target=self.serve, args=(connection, count), daemon=True).start()

    def serve(self, connection, count):
        data = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in data:
                    try:
                        part = connection.recv(65536)
                    except ConnectionResetError:    # it left without asking for more
                        return
                    if not part:
                        return
                    data += part
                head, _, data = data.partition(b"\r\n\r\n")
                with self.lock:
                    self.now += 1
                    self.most = max(self.most, self.now)
                    self.paths.append(re.match(rb"GET (\S+) ", head).group(1).decode())
                    count[0] += 1
                    if self.now == self.crowd:
                        self.gathered.set()
                self.gathered.wait(PATIENCE / 4)
                if self.delay:
                    time.sleep(self.delay)
                with self.lock:
                    self.now -= 1
                connection.sendall(f"HTTP/1.1 {self.status}\r\nContent-Length: 5\r\n\r\nhello".encode())
                if b"Connection: close" in head:
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # First: the thread must not accept from the next server, which may get the descriptor's number.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.acceptor.join(PATIENCE)
        self.socket.close()


def replay(port, work, *options):
    with tempfile.NamedTemporaryFile() as f:
        f.write(work if isinstance(work, bytes) else work.encode())
        f.flush()
        done = subprocess.run([REPLAY, *map(str, options), f"127.0.0.1:{port}", f.name],
                              stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


LIST = "/a 100\n/b 200\n/c 300\n/a 100\n"
LOG = ('10.0.0.1 - - [01/Jan/2000:00:00:00 +0000] "GET /x?y=1 HTTP/1.0" 200 17\n'
       '10.0.0.1 - - [01/Jan/2000:00:00:00 +0000] "POST /no HTTP/1.0" 200 17\n'
       '10.0.0.1 - - [01/Jan/2000:00:00:00 +0000] "GET /gone HTTP/1.0" 404 17\n'
       '10.0.0.1 - - [01/Jan/2000:00:00:00 +0000] "GET /z HTTP/1.0" 304 -\n')


class Replay(unittest.TestCase):
    def test_goes_through_the_list_in_a_loop(self):
        with NullServer() as s:
            seen = replay(s.port, LIST, "-c", 1, "-n", 10)
            self.assertEqual(s.paths, (["/a", "/b", "/c", "/a"] * 3)[:10])
        self.assertEqual((seen["requests"], seen["bytes"], seen["failed"]), (10, 50, 0))

    def test_takes_the_requests_of_a_log(self):
        with NullServer() as s:
            replay(s.port, LOG, "-c", 1, "-n", 2)
            self.assertEqual(s.paths, ["/x?y=1", "/z"])

    def test_takes_a_compact_trace(self):
        trace = b"FLTTRC1\n" + struct.pack("<IIQ2I3I", 2, 0, 3, 7, 9, 1, 0, 1)
        with NullServer() as s:
            seen = replay(s.port, trace, "-c", 1, "-n", 3, "--prefix", "/t/")
            self.assertEqual(s.paths, ["/t/1", "/t/0", "/t/1"])
        self.assertEqual(seen["data_set"], 16)

    def test_cuts_at_the_data_set(self):
        with NullServer() as s:
            seen = replay(s.port, LIST, "-c", 1, "-n", 5, "-b", 300)
            self.assertEqual(s.paths, ["/a", "/b", "/a", "/b", "/a"])
        self.assertEqual(seen["data_set"], 300)

    def test_draws_the_same_for_the_same_seed(self):
        runs = []
        for seed in (1, 1, 2):
            with NullServer() as s:
                replay(s.port, LIST, "-c", 1, "-n", 40, "-r", seed)
                runs.append(s.paths)
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])
        self.assertEqual(set(runs[0]), {"/a", "/b", "/c"})

    def test_keeps_as_many_requests_open_as_it_has_clients(self):
        with NullServer(delay=0.05, crowd=12) as s:
            replay(s.port, LIST, "-c", 12, "-n", 120)
            self.assertEqual(s.most, 12)

    def test_a_connection_serves_as_many_requests_as_told(self):
        for keep, most in ((1, 1), (3, 3), (0, 30)):
            with NullServer() as s:
                seen = replay(s.port, LIST, "-c", 1, "-n", 30, "-k", keep)
                self.assertEqual(max(c[0] for c in s.connections), most)
                self.assertEqual(seen["connections"], len(s.connections))

    def test_leaves_the_warm_up_out(self):
        with NullServer() as s:
            seen = replay(s.port, LIST, "-c", 2, "-n", 10, "-w", 15)
            self.assertEqual((seen["requests"], len(s.paths)), (10, 25))

    def test_pauses_between_requests(self):
        with NullServer() as s:
            seen = replay(s.port, LIST, "-c", 1, "-n", 6, "-t", 100)
        self.assertGreaterEqual(seen["seconds"], 0.5)

    def test_counts_what_is_not_an_answer(self):
        with NullServer(status="404 Not Found") as s:
            self.assertEqual(replay(s.port, LIST, "-n", 8)["other"], 8)
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        seen = replay(port, LIST, "-n", 8)
        self.assertEqual((seen["requests"], seen["failed"]), (0, 8))

    def test_probes_beside_the_load(self):
        with NullServer(delay=0.02) as s:
            seen = replay(s.port, LIST, "-c", 2, "-n", 60, "-k", 0, "--probe", "/probe")
            self.assertGreater(s.paths.count("/probe"), 0)
        self.assertEqual(seen["requests"], 60)
        self.assertGreater(seen["probe"]["requests"], 0)

    def test_refuses_what_it_cannot_do(self):
        for args in (["-c", "0"], ["-c", "x"], ["--nothing"], ["-n", "-1"]):
            done = subprocess.run([REPLAY, *args, "127.0.0.1:1", "/dev/null"], stderr=subprocess.PIPE,
                                  check=False, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2, args)
        done = subprocess.run([REPLAY, "127.0.0.1:1", "/nowhere"], stderr=subprocess.PIPE, check=False,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    sys.exit(kit.run([(name[len("test_"):], Replay(name).debug)
                      for name in unittest.defaultTestLoader.getTestCaseNames(Replay)]))

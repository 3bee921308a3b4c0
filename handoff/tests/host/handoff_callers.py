#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""handoff-callers, the clients of handoff_passing: whatever a server does to one connection of ten, they see it."""
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib")]
from kit import claim, main     # noqa: E402

CALLERS = TOP / "build/tests/handoff-callers"
RESET = struct.pack("ii", 1, 0)


class Server:
    """Sends back what comes, inverted; one connection of ten meets @fault(socket, bytes): other bytes, None ends it."""

    def __init__(self, fault=None):
        self.fault, self.listener = fault, socket.create_server(("127.0.0.1", 0), backlog=128)
        threading.Thread(target=self.accepts, daemon=True).start()

    def accepts(self):
        number = 0
        while True:
            sock = self.listener.accept()[0]
            number += 1
            fault = self.fault if number % 10 == 5 else None
            threading.Thread(target=self.serves, args=(sock, fault), daemon=True).start()

    @staticmethod
    def serves(sock, fault):
        with sock:
            try:
                while data := sock.recv(4096):
                    data = bytes(byte ^ 255 for byte in data)
                    if fault:
                        data, fault = fault(sock, data), None
                    if data is None:
                        return
                    sock.sendall(data)
            except OSError:
                pass

    def called(self):
        """What thirty clients have to tell of it."""
        ran = subprocess.run((CALLERS, "127.0.0.1", str(self.listener.getsockname()[1]), "30", "10", "5", "0"),
                             env={**os.environ, "STALLED_MS": "5000"}, capture_output=True, text=True, timeout=120,
                             check=False)
        said = json.loads(ran.stdout)
        print("# %s" % said, flush=True)
        assert ran.returncode == bool(said["wrong"] + said["reset"] + said["stalled"]), (ran.returncode, ran.stderr)
        return {name: said[name] for name in ("ok", "wrong", "reset", "stalled")}


def resets(sock, _):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def stalls(_, data):
    time.sleep(12)
    return data


@claim
def who_serves_well_is_praised():
    assert Server().called() == {"ok": 30, "wrong": 0, "reset": 0, "stalled": 0}


@claim
def another_byte_and_one_too_many_or_too_few_are_wrong():
    for fault in (lambda _, data: bytes([data[0] ^ 1]) + data[1:], lambda _, data: data[:1] + data,
                  lambda _, data: data + data[-1:]):
        told = Server(fault).called()
        assert told == {"ok": 27, "wrong": 3, "reset": 0, "stalled": 0}, told


@claim
def end_too_early_and_a_reset_are_told():
    for fault in (lambda *_: None, resets):
        told = Server(fault).called()
        assert told == {"ok": 27, "wrong": 0, "reset": 3, "stalled": 0}, told


@claim
def who_makes_no_progress_is_stalled():
    told = Server(stalls).called()
    assert told == {"ok": 27, "wrong": 0, "reset": 0, "stalled": 3}, told


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The client of lard_tls_churn.py and handoff_churn.py sees one connection among many that is not as it should be."""
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "../../../tools/testing/lib")]
from kit import claim, main, wait                       # noqa: E402
from lardd import TOP, free_port                        # noqa: E402
from pki import Authority                               # noqa: E402

COUNT, PARALLEL = 40, 8
# Of the bytes that come from the server: beyond those of the handshake.
AFTER = 6000
FILES = 20000, 30000


@contextlib.contextmanager
def flash():
    """By TLS; (its port, the directory of its files)."""
    with tempfile.TemporaryDirectory() as place:
        www = os.path.join(place, "www")
        os.mkdir(www)
        for i, size in enumerate(FILES):
            with open(os.path.join(www, "f%d" % i), "wb") as file:
                file.write(os.urandom(size))
        port, conf = free_port(), os.path.join(place, "conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write("listen 127.0.0.1:%d tls\nroot %s\nworkers 1\n%scertificate %s %s\n" % (
                port, www, "" if os.geteuid() else "user root\n", *Authority(place).issue("vip")))
        with subprocess.Popen([os.path.join(TOP, "build/bin/flash"), "-c", conf], stderr=subprocess.DEVNULL) as server:
            try:
                wait(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
                yield port, www
            finally:
                server.terminate()


class Relay:
    """Passes connections on to a port; one of them has something done to what comes back, after AFTER bytes."""

    def __init__(self, port, victim, harm):
        self.port, self.victim, self.harm, self.count = port, victim, harm, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.port))
                self.count += 1
                harm = self.harm if self.count == self.victim else None
                for a, b, what in (client, server, None), (server, client, harm):
                    threading.Thread(target=self.copy, args=(a, b, what), daemon=True).start()

    @staticmethod
    def copy(a, b, harm):
        passed = 0
        with contextlib.suppress(OSError):
            while data := a.recv(4096):
                if harm and passed > AFTER:
                    data = harm(b, data)
                    harm = None
                passed += len(data)
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def run(self, www, resumed=700, stalled_ms=60000):
        numbers = self.listener.getsockname()[1], www, COUNT, PARALLEL, 1, 0, resumed
        done = subprocess.run([os.path.join(TOP, "build/tests/handoff-client"), "127.0.0.1", *map(str, numbers)],
                              env={**os.environ, "STALLED_MS": str(stalled_ms)}, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout), done.returncode


def one_is(what, harm, **how):
    with flash() as (port, www):
        got, status = Relay(port, 17, harm).run(www, **how)
        assert status and got[what] == 1 and got["ok"] == COUNT - 1, got


@claim
def all_are_well_and_some_are_resumed():
    with flash() as (port, www):
        got, status = Relay(port, 0, None).run(www)
        assert not status and got["ok"] == got["resumed"] + got["whole"] == COUNT, got
        assert got["resumed"] > 10 and got["whole"] > 3, got
        got, status = Relay(port, 0, None).run(www, resumed=0)
        assert not status and got["whole"] == COUNT, got


@claim
def a_byte_of_a_file_is_another():
    with flash() as (port, www), tempfile.TemporaryDirectory() as mine:
        for name in os.listdir(www):
            with open(os.path.join(www, name), "rb") as file, open(os.path.join(mine, name), "wb") as other:
                other.write(file.read()[:-1] + b"?")
        got, status = Relay(port, 0, None).run(mine)
        assert status and got["wrong"] == COUNT, got


@claim
def a_byte_of_a_record_is_another():
    one_is("wrong", lambda _, data: data[:-1] + bytes([data[-1] ^ 1]))


@claim
def one_is_reset():
    def reset(sock, _):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Who reads from it holds it.
        sock.shutdown(socket.SHUT_RD)
        sock.close()
        raise OSError
    one_is("reset", reset)


@claim
def one_ends_without_a_word_of_tls():
    def cut(sock, _):
        sock.shutdown(socket.SHUT_WR)
        raise OSError
    one_is("reset", cut)


@claim
def one_is_silent():
    def hold(_, __):
        threading.Event().wait()
    one_is("stalled", hold, stalled_ms=3000)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench/howl: four system calls a request, whole answers in each of its ways, and what it relies on is held."""
import collections
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib"), str(TOP / "bench/turns")]
from kit import Skip, claim, equal, main, wait_for     # noqa: E402
from servers import free_port     # noqa: E402

HOWL, LOAD = TOP / "build/bench/howl", TOP / "build/bench/load"
FILES = {f"f{n}": bytes(i * 7 % 251 for i in range(n)) for n in (0, 64, 8192, 65536)}
CLOSING, KEEPING = ((), ("--sendfile",)), (("--epoll",), ("--epoll", "--sendfile"), ("--uring",))
PATIENCE = 60


@contextlib.contextmanager
def howl(*words, before=()):
    """One that serves FILES: its port."""
    with tempfile.TemporaryDirectory() as www:
        for name, data in FILES.items():
            (Path(www) / name).write_bytes(data)
        port = free_port()
        with subprocess.Popen([*before, str(HOWL), *words, "--port", str(port), www], stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as server:

            def listens():
                if server.poll() is not None:
                    said = server.stderr.read()
                    raise (Skip if "io_uring" in said else AssertionError)(said)
                with open("/proc/net/tcp", encoding="ascii") as table:
                    return f":{port:04X} 00000000:0000 0A" in table.read()
            try:
                wait_for("a listener", listens)
                yield port
                equal("it serves on", server.poll(), None)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGTERM)


def load(port, path, *words):
    out = subprocess.run([str(LOAD), *words, "127.0.0.1", str(port), path], text=True, capture_output=True, check=False,
                         timeout=PATIENCE)
    return out.stdout.strip() or out.stderr


def talk(port, *parts, pause=0.0):
    """All that comes back to these, one after the other, until the end."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        for part in parts:
            sock.sendall(part)
            time.sleep(pause)
        data = b""
        while piece := sock.recv(1 << 20):
            data += piece
        return data


def wire(path, closes=True):
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n{'Connection: close' + chr(13) + chr(10) if closes else ''}\r\n".encode()


@claim
def a_request_is_four_system_calls():
    if not shutil.which("strace"):
        raise Skip("there is no strace")
    with tempfile.NamedTemporaryFile("r") as record:
        with howl(before=("strace", "-o", record.name)) as port:
            equal("answers", load(port, "/f64", "-n", "50", "-c", "1"), "50")
        calls = record.read()
    served = calls[calls.index("TCP_QUICKACK"):]
    # The last request's close may not be in the record.
    count = collections.Counter(re.findall(r"^(\w+)\(", served, re.M))
    equal("calls", sorted(count), ["accept", "close", "read", "sendto"])
    for name, n in count.items():
        if not 49 <= n <= 52:
            raise AssertionError(f"{name}: {n} for 50 requests")


@claim
def answers_are_whole_in_each_way():
    for words in CLOSING + KEEPING:
        with howl(*words) as port:
            for name, data in FILES.items():
                head, _, body = talk(port, wire(f"/{name}")).partition(b"\r\n\r\n")
                equal(f"{words}: its head", (head[:15], b"\r\nConnection: close" in head), (b"HTTP/1.1 200 OK", True))
                if body != data:
                    raise AssertionError(f"{words}: {name}: {len(body)} bytes of {len(data)}")
            equal(f"{words}: new connections", load(port, "/f65536", "-n", "200", "-c", "8"), "200")


@claim
def connections_are_kept_as_long_as_the_client_likes():
    for words in KEEPING:
        with howl(*words) as port:
            for path in ("/f64", "/f65536"):
                equal(f"{words}: {path}", load(port, path, "-k", "-n", "500", "-c", "8"), "500")
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
                file = sock.makefile("rb")
                for closes in (False, False, True):
                    sock.sendall(wire("/f64", closes))
                    while file.readline() != b"\r\n":
                        pass
                    equal("its body", file.read(64), FILES["f64"])
                equal(f"{words}: closed after the third", file.read(), b"")


@claim
def what_it_does_not_have_or_understand_is_a_404():
    wrong = (wire("/f63"), wire("/f6"), wire("/f644"), wire("/"), wire("f64"), b"HEAD" + wire("/f64")[3:],
             wire("/f64")[:-1], wire("/f64") + b"G", wire("/f64").replace(b"1.1", b"1.0"), b"GET /f64\r\n\r\n",
             b"\r\n\r\n", b"G", b"GET /" + b"x" * 4096)
    for words in CLOSING + KEEPING:
        with howl(*words) as port:
            for request in wrong:
                try:
                    said = talk(port, request)
                except ConnectionResetError:
                    # There was more than one read takes.
                    continue
                equal(f"{words}: {request[:40]}", said[:13], b"HTTP/1.1 404 ")
            equal("and serves on", load(port, "/f64", "-n", "8", "-c", "8"), "8")


@claim
def a_request_in_two_pieces_is_not_waited_for():
    for words in CLOSING + KEEPING:
        with howl(*words) as port, contextlib.suppress(ConnectionError):
            said = talk(port, wire("/f64")[:20], wire("/f64")[20:], pause=.2)
            equal(f"{words}", said[:13], b"HTTP/1.1 404 ")


@claim
def who_says_nothing_keeps_others_waiting_a_second_at_most():
    for words in CLOSING + KEEPING:
        with howl(*words) as port, contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            begin = time.monotonic()
            equal(f"{words}", load(port, "/f64", "-n", "50", "-c", "1"), "50")
            if time.monotonic() - begin > 20:
                raise AssertionError(f"{words}: {time.monotonic() - begin} s")


@claim
def what_it_cannot_do_is_refused():
    for words in ((), ("--epoll", "--uring", "/"), ("--uring", "--sendfile", "/"), ("--port", "0", "/"),
                  ("--port", "65536", "/"), ("--nonsense", "/"), ("/", "/")):
        out = subprocess.run([str(HOWL), *words], text=True, capture_output=True, check=False, timeout=PATIENCE)
        equal(f"{words}", (out.returncode, out.stderr[:12]), (2, "usage: howl "))
    out = subprocess.run([str(HOWL), "--help"], text=True, capture_output=True, check=False, timeout=PATIENCE)
    equal("help", (out.returncode, out.stdout[:12]), (0, "usage: howl "))
    out = subprocess.run([str(HOWL), "/nowhere"], text=True, capture_output=True, check=False, timeout=PATIENCE)
    equal("nowhere", (out.returncode, out.stderr), (1, "howl: cannot open /nowhere: No such file or directory\n"))
    with tempfile.TemporaryDirectory() as www:
        with open(Path(www) / "large", "wb") as file:
            file.truncate(64 << 20)
        out = subprocess.run([str(HOWL), www], text=True, capture_output=True, check=False, timeout=PATIENCE)
        equal("too large", out.returncode, 1)
        if "not sent at once" not in out.stderr:
            raise AssertionError(out.stderr)


main()

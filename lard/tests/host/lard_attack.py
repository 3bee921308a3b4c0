#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""What a client, or an operator in a hurry, could do to lardd, one claim each."""

import contextlib
import ctypes
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (LARDD, Backend, Lardd, cluster, content, descriptors, free_port, kit, main,  # noqa: E402
                   read_answer, until)


def a_header_keeps_the_limit_that_it_began_with():
    """Whatever a reload says while it is under way; the next request has the new one."""
    with cluster(1, "max-header 16384") as lardd, lardd.connect() as s, s.makefile("rb") as stream:
        s.sendall(b"GET /size/4 HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 6000)
        until(lambda: lardd.control("status")["connections"]["reading"] == 1, what="it reads")
        # Its event has been seen: another connection's, which came later, has been.
        assert lardd.get("/size/4")[0] == 200
        lardd.configure("max-header 256")
        assert "reloads" in lardd.control("reload")
        s.sendall(b"b")
        assert lardd.get("/size/4")[0] == 200
        s.sendall(b"\r\n\r\n")
        assert read_answer(stream)[0] == 200
        s.sendall(b"GET /size/4 HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 300 + b"\r\n\r\n")
        assert read_answer(stream)[0] == 431


def a_limit_of_file_size_costs_lines_of_the_log():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
    with tempfile.TemporaryDirectory() as directory, \
            cluster(1, f"access-log {directory}/log", preexec=limit) as lardd:
        for n in range(200):
            assert lardd.get(f"/{n}?" + "x" * 1000)[0] == 200
        until(lambda: lardd.counter("LardLogLost") > 0, what="lost lines")
        assert os.stat(f"{directory}/log").st_size <= 16384
        assert lardd.get("/size/4")[0] == 200


def ask_on(s, stream, text):
    s.sendall(text)
    return read_answer(stream)[0]


def idle_connections_to_a_node_are_few():
    """One client after the other, or many at once: requests that each need a new connection."""
    post = b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    with cluster(1, "health-check none\nmax_outstanding 1000") as lardd:
        backend, before = lardd.backends[0], len(descriptors(lardd))
        with lardd.connect() as s, s.makefile("rb") as stream:
            for _ in range(300):
                assert ask_on(s, stream, post) == 200
            assert lardd.counter("LardBackendOpened") == 300
            assert len(descriptors(lardd)) < before + 8
        backend.gate.clear()
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(lardd.connect()).sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
            until(lambda: lardd.load() == 100, what="all of them")
            backend.gate.set()
            until(lambda: not lardd.load(), what="no load")
            assert len(descriptors(lardd)) < before + 100 + 64 + 8


POST_WITHOUT_BODY = b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"
WEBSOCKET = b"GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def who_brings_no_body_makes_room_for_who_waits():
    """He has all the time there is while nobody does."""
    for extra in ("", "workers 3", "client-rate 0"):
        with cluster(2, extra) as lardd, contextlib.ExitStack() as stack:
            limit = lardd.control("status")["limit"]
            held = []
            for _ in range(limit):
                held.append(stack.enter_context(lardd.connect()))
                held[-1].sendall(POST_WITHOUT_BODY)
            until(lambda: lardd.control("status")["outstanding"] == limit, what="all the load there may be")
            assert lardd.get("/size/4")[0] == 200
            ended = lardd.counter("LardTimedOut")
            assert 1 <= ended <= limit / 2, ended
            assert select.select(held, [], [], kit.PATIENCE)[0][0].recv(12) == b"HTTP/1.1 408"
            for s in held[-1:]:                         # the last is still served
                s.sendall(b"0123456789")
                assert read_answer(s.makefile("rb"))[0] == 200


def who_takes_no_answer_makes_room_for_who_waits():
    """Not who takes his answer, though he came first and has a slow line."""
    # No time-out makes room, and when the taker has all of it his place is free, but nobody was ended.
    with cluster(2, "workers 2\nio-timeout 10m\nqueue-timeout 10m") as lardd, contextlib.ExitStack() as stack:
        limit, got, served = lardd.control("status")["limit"], [], threading.Event()

        def asks(buffer):
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            s.connect(("127.0.0.1", lardd.port))
            s.sendall(b"GET /size/16000000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            return s

        def take_slowly(s):
            with contextlib.suppress(OSError):
                while (piece := s.recv(4096)):
                    slowly.append(len(piece))
                    time.sleep(0.05)

        def take(s):
            answer = bytearray()
            with contextlib.suppress(OSError):
                while (piece := s.recv(1 << 20)):       # most of a minute for all of it, if need be
                    answer += piece
                    served.wait(len(piece) / 400000)
            got.append(answer.partition(b"\r\n\r\n")[2])
        slow_line, taker, slowly = asks(4096), asks(1 << 20), []
        deaf = [asks(4096) for _ in range(limit - 2)]
        until(lambda: lardd.control("status")["outstanding"] == limit, what="all the load there may be")
        thread = threading.Thread(target=take, args=(taker,))
        thread.start()
        threading.Thread(target=take_slowly, args=(slow_line,)).start()
        assert lardd.get("/size/4")[0] == 200
        served.set()
        ended = lardd.counter("LardAborted")
        assert 1 <= ended <= limit / 2, ended
        before = len(slowly)
        until(lambda: len(slowly) > before + 10, what="more of the answer")
        slow_line.shutdown(socket.SHUT_RDWR)
        thread.join()
        assert got[0] == content(16000000), "who takes his answer has not got it"
        assert deaf[-1].recv(12) == b"HTTP/1.1 200"


def open_tunnels_are_no_load():
    with cluster(2) as lardd, contextlib.ExitStack() as stack:
        limit = lardd.control("status")["limit"]
        for n in range(limit + 3):
            s = stack.enter_context(lardd.connect())
            assert ask_on(s, s.makefile("rb"), WEBSOCKET) == 101
        assert lardd.load() == 0 and lardd.control("status")["tunnels"] == limit + 3
        assert lardd.get("/size/4")[0] == 200
        s.sendall(b"hello")
        assert s.recv(5) == b"HELLO"
        lardd.configure("tunnels 3")
        assert "reloads" in lardd.control("reload")
        with lardd.connect() as other, other.makefile("rb") as stream:
            assert ask_on(other, stream, WEBSOCKET) == 503
        stack.close()
        until(lambda: lardd.control("status")["tunnels"] == 0, what="no tunnels")
        with contextlib.ExitStack() as few:
            for n in range(4):
                other = few.enter_context(lardd.connect())
                assert ask_on(other, other.makefile("rb"), WEBSOCKET) == (101 if n < 3 else 503)
            assert lardd.get("/size/4")[0] == 200
        until(lambda: lardd.control("status")["tunnels"] == 0 and lardd.load() == 0, what="none of both")


def all_nodes_may_be_renamed_at_once():
    """Or the reload is refused: while one that goes has a request, its place is not free."""
    backend = Backend("be0")

    def named(prefix):
        return [types.SimpleNamespace(name=f"{prefix}{n}", host=backend.host, port=backend.port) for n in range(64)]
    with Lardd(named("a"), "health-check none") as lardd:
        lardd.backends = named("b")
        lardd.configure("health-check none")
        assert "reloads" in lardd.control("reload")
        assert lardd.control("status")["nodes"] == 64 and lardd.get("/size/4")[0] == 200
        backend.gate.clear()
        lardd.backends = named("c")
        lardd.configure("health-check none")
        with lardd.connect() as s:
            s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
            until(lambda: lardd.load() == 1, what="load 1")
            assert "no room for 1 of the nodes" in lardd.control("reload")["error"]
            listed = {node["name"] for node in lardd.control("nodes")["nodes"]}
            assert listed == {f"b{n}" for n in range(64)}, listed
            assert lardd.control("status")["nodes"] == 64
            backend.gate.set()
            assert read_answer(s.makefile("rb"))[0] == 200
        until(lambda: lardd.load() == 0, what="no load")
        assert "reloads" in lardd.control("reload")
        assert {node["name"] for node in lardd.control("nodes")["nodes"]} == {f"c{n}" for n in range(64)}
    backend.stop()


def of_many_takeovers_at_once_one_serves():
    with cluster(1) as lardd:
        for _ in range(3):
            all_of_them = [lardd.process]
            for _ in range(5):
                all_of_them.append(subprocess.Popen([LARDD, "-c", lardd.config_path, "--foreground", "--takeover"],
                                                    stderr=lardd.log_file))
            try:
                until(lambda: sum(p.poll() is None for p in all_of_them) == 1, what="one is left")
                lardd.process = next(p for p in all_of_them if p.poll() is None)
                assert lardd.control("status")["pid"] == lardd.process.pid
                assert lardd.process is not all_of_them[0], "nobody took over"
                assert lardd.get("/size/4")[0] == 200
            finally:
                for p in all_of_them:
                    if p is not lardd.process and p.poll() is None:
                        p.kill()
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(lardd.socket_path)
            s.sendall(b'{"cmd":"handover"}\n')
            for fd in socket.recv_fds(s, 4096, 10)[1]:
                os.close(fd)
            many = [socket.socket(socket.AF_UNIX) for _ in range(100)]
            for other in many:                          # it is not put out for them
                other.connect(lardd.socket_path)
            with socket.socket(socket.AF_UNIX) as rival:
                rival.connect(lardd.socket_path)
                rival.sendall(b'{"cmd":"handover"}\n')
                assert b"another lardd is taking over" in rival.recv(4096)
            s.sendall(b'{"cmd":"taken"}\n')
            assert b"stopping" in s.recv(4096)
            for other in many:
                other.close()
        assert lardd.process.wait(30) == 0


def take_over(config_path):
    return subprocess.run([LARDD, "-c", config_path, "--foreground", "--takeover"], capture_output=True, text=True,
                          timeout=60, check=False)


@contextlib.contextmanager
def predecessor(path, sockets):
    """Somebody who gives away what he likes."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path + ".new")
        s.listen()
        os.rename(path + ".new", path)                  # where it is found it listens

        def serve():
            with s.accept()[0] as peer:
                if peer.recv(100):
                    socket.send_fds(peer, [b'{"listen":[]}\n'], [x.fileno() for x in sockets])
                if peer.recv(100):
                    peer.sendall(b'{"stopping":true}\n')
                    peer.recv(100)
        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


def nothing_is_taken_over_from_strangers():
    with cluster(1) as lardd:
        lardd.configure("control off")
        run = take_over(lardd.config_path)
        assert run.returncode == 1 and "no control socket" in run.stderr, run
        if os.geteuid():
            return
        lardd.configure()
        os.rename(lardd.socket_path, lardd.socket_path + ".real")
        os.chmod(lardd.directory.name, 0o777)
        pid = os.fork()
        if not pid:                                     # an answer to each, but for what root may ask
            os.setuid(65534)
            with socket.socket() as given, predecessor(lardd.socket_path, [given]):
                pass
            os._exit(0)
        until(lambda: os.path.exists(lardd.socket_path), what="its socket")
        run = take_over(lardd.config_path)
        assert run.returncode == 1 and "not permitted" in run.stderr, run
        os.waitpid(pid, 0)
        os.rename(lardd.socket_path + ".real", lardd.socket_path)
        assert lardd.get("/size/4")[0] == 200


def a_socket_of_another_network_or_kind_is_not_taken_over():
    port, made = free_port(), []

    def elsewhere():
        """Its own network for this thread."""
        if not os.geteuid() and not ctypes.CDLL(None).unshare(0x40000000):
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            made.append(socket.create_server(("127.0.0.1", port)))
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    made[-1].bind(("127.0.0.1", port))
    with cluster(1) as lardd, tempfile.TemporaryDirectory() as directory, \
            predecessor(f"{directory}/control", made):
        config = f"{directory}/lardd.conf"
        with open(lardd.config_path, encoding="utf-8") as old, open(config, "w", encoding="utf-8") as new:
            new.write(old.read().replace(f":{lardd.port}", f":{port}").replace(lardd.socket_path,
                                                                               f"{directory}/control"))
        with subprocess.Popen([LARDD, "-c", config, "--foreground", "--takeover"], stderr=lardd.log_file) as new:
            try:
                def answers():
                    with contextlib.suppress(ConnectionRefusedError, EOFError), \
                            socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                        return ask_on(s, s.makefile("rb"), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == 200
                until(answers, what="an answer")
            finally:
                new.terminate()
        assert lardd.log().count("a socket that does not listen") == len(made)
    for s in made:
        s.close()


GRACE = 0.8     # A kept connection is waited for for a second since its last request or its first byte at least.


def what_is_there_when_it_stops_is_answered():
    """The next request of a kept connection, sent before the answer's end, or just when lardd stops."""
    size, text = 40_000_000, b"GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n"
    with cluster(1) as lardd, lardd.connect() as s, s.makefile("rb") as stream:
        s.sendall(text % size + text % 4)
        assert s.recv(1, socket.MSG_PEEK)               # so that the answer has said that it stays
        lardd.process.terminate()
        lardd.wait_log("event=stopping")
        code, fields, body = read_answer(stream)
        assert (code, len(body), fields.get("connection")) == (200, size, None), (code, fields)
        code, fields, body = read_answer(stream)
        assert (code, body, fields["connection"]) == (200, content(4), "close"), (code, fields)
        assert lardd.process.wait(30) == 0

    # Who has begun his request is waited for, however long ago that was.
    with cluster(1) as lardd, lardd.connect() as s, s.makefile("rb") as stream:
        s.sendall(text[:10])
        until(lambda: lardd.control("status")["connections"]["reading"] == 1, what="it reads")
        time.sleep(2 - GRACE)
        lardd.process.terminate()
        lardd.wait_log("event=stopping")
        s.sendall(text[10:] % 4)
        code, fields, body = read_answer(stream)
        assert (code, body, fields["connection"]) == (200, content(4), "close"), (code, fields)

    def in_time_and_served():
        with cluster(1) as lardd, lardd.connect() as s, s.makefile("rb") as stream:
            began = time.monotonic()
            assert ask_on(s, stream, text % 4) == 200
            lardd.process.terminate()
            lardd.wait_log("event=stopping")
            with contextlib.suppress(OSError):
                s.sendall(text % 4)
            in_time = time.monotonic() - began < GRACE
            with contextlib.suppress(OSError, EOFError):
                return in_time, read_answer(stream)[0] == 200
            return in_time, False
    for _ in range(20):
        in_time, served = in_time_and_served()
        if in_time:
            assert served, "closed, though the request came in time"
            return
    raise AssertionError("this machine sleeps: no request came in time")


def a_takeover_between_requests_costs_none():
    with cluster(2, "workers 2") as lardd:
        stop, served, refused = threading.Event(), [], []

        def client():
            while not stop.is_set():
                began = sent = asked = time.monotonic()
                try:
                    with lardd.connect() as s, s.makefile("rb") as stream:
                        for _ in range(3):
                            began, asked = sent, time.monotonic()
                            s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                            sent = time.monotonic()
                            code, fields, _ = read_answer(stream)
                            assert code == 200, code
                            served.append(code)
                            if fields.get("connection") == "close":
                                break
                except (OSError, AssertionError, EOFError) as error:
                    refused.append((max(sent, asked) - began, repr(error)))
        clients = [threading.Thread(target=client) for _ in range(3)]
        for thread in clients:
            thread.start()
        for _ in range(60):
            assert lardd.take_over().wait(30) == 0
        stop.set()
        for thread in clients:
            thread.join()
        # A client that slept may have come too late; that is not held against anybody.
        in_time = [each for each in refused if each[0] < GRACE]
        assert not in_time, (len(in_time), in_time[:5])
        assert len(served) > 10 * len(refused), (len(served), refused[:5])


def pages_are_for_who_asks_this_machine():
    """Not for another site's script, whose name leads here. Metrics have no URL, and are scraped by any name."""
    status, metrics = free_port(), free_port()
    name = socket.gethostname()
    right = ("127.0.0.1", f"127.0.0.1:{status}", "localhost", f"LocalHost:{metrics}", "[::1]:80", "[fd00::2]",
             "10.0.0.1", "", name, f"{name}:{status}")
    wrong = ("evil.example", f"evil.example:{status}", "localhost.evil.example", "127.0.0.1.evil.example", "h", "1",
             "[::1", "[evil.example]", "::1:80:evil", "127.0.0.1:80:80", "0x7f000001", f"{'a' * 300}.example",
             "x" + name)
    with cluster(1, f"status 127.0.0.1:{status}\nmetrics 127.0.0.1:{metrics}") as lardd:
        lardd.get("/secret-target")
        for host in right + wrong:
            for port, path in ((status, "/status.json"), (status, "/"), (status, "/events")):
                with socket.create_connection(("127.0.0.1", port), timeout=60) as s, s.makefile("rb") as stream:
                    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                    line = stream.readline()
                    assert line.split()[1] == (b"200" if host in right else b"421"), (host, path, line)
                    if host not in right:
                        assert b"secret" not in stream.read()
            with socket.create_connection(("127.0.0.1", metrics), timeout=60) as s, s.makefile("rb") as stream:
                assert ask_on(s, stream, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) == 200
        with socket.create_connection(("127.0.0.1", metrics), timeout=60) as s, s.makefile("rb") as stream:
            assert ask_on(s, stream, b"GET /metrics HTTP/1.0\r\n\r\n") == 200


def check(path):
    return subprocess.run([LARDD, "--check", "-c", path], capture_output=True, timeout=60, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (5, 5)))


def a_configuration_is_a_file_of_lines():
    """Whatever it is, it is read to its end or refused, and what is said of it is printable."""
    with cluster(1) as lardd:
        fifo, config = f"{lardd.directory.name}/fifo", f"{lardd.directory.name}/tried"
        os.mkfifo(fifo)
        for path in ("/dev/full", "/dev/zero", fifo, lardd.directory.name):
            run = check(path)
            assert run.returncode == 1 and b"cannot read" in run.stderr, (path, run)
        user = b"user root\n" if not os.geteuid() else b""
        good = b"listen 127.0.0.1:%d\ncontrol off\n" % lardd.port + user
        for text, said in ((b"", b""), (b"log-level info", b""), (b"control off 660\n", b""),
                           (b"# " + b"x" * 4090 + b"\n", b""), (b"# " + b"x" * 4094 + b"\n", b"more than 4095 bytes"),
                           (b"log-level info\0 junk\n", b"NUL"), (b"x" * 5_000_000, b"more than 4095"),
                           (b"control off 40000000000\n", b"file mode"), (b"control off 1000\n", b"file mode"),
                           (b"control off -0\n", b"file mode"), (b"control off +7\n", b"file mode"),
                           (f"include {fifo}\n".encode(), b"not a regular file"),
                           (b"include /dev/full\n", b"not a regular file"),
                           (b"\n" * 1_000_001, b"more than 1000000 lines"),
                           (b"no\x1b]0;title\x07\x9b31m\n", b"no?]0;title??31m"),
                           (b"policy \x1b[2J\n", b'"?[2J"'), (b"user \x1b[2J\n", b"?[2J")):
            with open(config, "wb") as file:
                file.write(good + text)
            run = check(config)
            assert run.returncode == (1 if said else 0), (text[:50], run)
            assert said in run.stderr and all(32 <= c < 127 or c == 10 for c in run.stderr), (text[:50], run)
        os.rename(lardd.config_path, config)
        os.rename(fifo, lardd.config_path)
        assert "not a regular file" in lardd.control("reload")["error"]
        os.rename(config, lardd.config_path)
        with open(lardd.config_path, "ab") as file:
            file.write(b'no\x1b"\xff=\n')
        assert "no??" in lardd.control("reload")["error"].replace('"', "?")
        assert r'event=reload text="' in lardd.log() and "\x1b" not in lardd.log()
        assert lardd.get("/size/4")[0] == 200


if __name__ == "__main__":
    sys.exit(main([a_header_keeps_the_limit_that_it_began_with,
                   a_limit_of_file_size_costs_lines_of_the_log,
                   idle_connections_to_a_node_are_few, who_brings_no_body_makes_room_for_who_waits,
                   who_takes_no_answer_makes_room_for_who_waits,
                   open_tunnels_are_no_load, all_nodes_may_be_renamed_at_once,
                   of_many_takeovers_at_once_one_serves, nothing_is_taken_over_from_strangers,
                   a_socket_of_another_network_or_kind_is_not_taken_over,
                   what_is_there_when_it_stops_is_answered, a_takeover_between_requests_costs_none,
                   pages_are_for_who_asks_this_machine, a_configuration_is_a_file_of_lines]))

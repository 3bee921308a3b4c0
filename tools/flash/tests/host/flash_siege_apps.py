#!/usr/bin/env python3
# timeout: 900
"""Who takes a program's place and gives nothing for it, and programs that take more than theirs."""
import os
import socket
import stat
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import STATUS, Client, Server, children, counters, equal, kit, main, wait_for  # noqa: E402
from greedy import GET, programs                 # noqa: E402

APP = os.path.join(HERE, "..", "lib", "fcgi_app.py")


class Pool:
    """A FastCGI program of few processes, each for one connection at a time, as php-fpm."""

    def __init__(self, where, n):
        self.path = os.path.join(where, "pool")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(4)
        os.chmod(self.path, 0o777)
        self.procs = [subprocess.Popen([sys.executable, APP], stdin=listener) for _ in range(n)]
        listener.close()

    def end(self):
        """All of them."""
        for p in self.procs:
            p.kill()
            p.wait()


class Talker:
    """A FastCGI program that answers each connection with so many bytes."""

    def __init__(self, path, size):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(400)
        os.chmod(path, 0o777)
        self.text = b"A: b\r\n\r\n" + b"x" * size
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """A thread for each."""
        while True:
            try:
                c = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=(c,), daemon=True).start()

    def talk(self, c):
        """In records that do not fit what is read."""
        try:
            c.recv(65536)
            for i in range(0, len(self.text), 5000):
                piece = self.text[i:i + 5000]
                c.sendall(b"\1\6\0\1" + len(piece).to_bytes(2, "big") + b"\0\0" + piece)
            c.sendall(b"\1\3\0\1\0\x08\0\0" + bytes(8))
        except OSError:
            pass
        finally:
            c.close()

    def end(self):
        """It takes no more."""
        self.listener.close()


def a_pool_of_few_processes_is_not_starved_by_idle_connections():
    with Server("--workers", "4", "--app-timeout", "60s", config="fastcgi /app/ unix:@DIR@/pool\n") as s:
        pool = Pool(s.dir, 2)
        try:
            s.start()
            wait_for(lambda: len(children(s.proc.pid)) == 4)
            start = time.monotonic()
            for _ in range(60):     # whichever worker takes it
                equal(s.get("/app/x").status, 200)
            # Somebody else's request, beside flash.
            direct = socket.socket(socket.AF_UNIX)
            direct.settimeout(kit.PATIENCE)
            direct.connect(pool.path)
            direct.sendall(b"\1\1\0\1\0\x08\0\0\0\1\0\0\0\0\0\0" b"\1\4\0\1\0\0\0\0" b"\1\5\0\1\0\0\0\0")
            assert direct.recv(100), "no process is free"
            assert time.monotonic() - start < 4 * kit.PATIENCE
        finally:
            pool.end()


def more_requests_than_processes_are_all_answered():
    for config, keep in (("fastcgi /app/ unix:@DIR@/pool\nfastcgi_connections 3\n", "0"),
                         ("fastcgi /app/ unix:@DIR@/pool\n", "0"), ("fastcgi /app/ unix:@DIR@/pool\n", "2"),
                         ("fastcgi /app/ exec:@DIR@/fcgi 1\n", "0"), ("fastcgi /app/ exec:@DIR@/fcgi 2\n", "0")):
        with Server("--workers", "1", "--app-timeout", "60s", "--fastcgi-keep", keep,
                    config=STATUS + config) as s:
            path = os.path.join(s.dir, "fcgi")
            with open(path, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexec %s %s\n" % (sys.executable, APP))
            os.chmod(path, stat.S_IRWXU)
            pool = Pool(s.dir, 2)
            try:
                s.start()
                clients = [s.client() for _ in range(40)]
                for _ in range(3):
                    for c in clients:
                        c.send("GET /app/x HTTP/1.1\r\nHost: t\r\n\r\n")
                    for c in clients:
                        equal(c.response().status, 200, config)
                equal(counters(s)["timeouts_app"], 0, config)
            finally:
                pool.end()


def a_kept_connection_to_a_program_ends_when_idle():
    with Server("--workers", "1", "--fastcgi-keep", "4", "--fastcgi-idle", "4s",
                config="fastcgi /app/ unix:@DIR@/pool\nstatus /status\n") as s:
        pool = Pool(s.dir, 1)
        try:
            s.start()
            for _ in range(5):
                equal(s.get("/app/x").status, 200)
            equal(counters(s)["fastcgi_connects"], 1)
            direct = socket.socket(socket.AF_UNIX)
            direct.settimeout(20)
            direct.connect(pool.path)
            direct.sendall(b"\1\1\0\1\0\x08\0\0\0\1\0\0\0\0\0\0" b"\1\4\0\1\0\0\0\0" b"\1\5\0\1\0\0\0\0")
            assert direct.recv(100), "no process is free"
        finally:
            pool.end()


def a_client_that_goes_while_its_request_waits_for_a_program_harms_nobody():
    with Server("--workers", "1", "--fastcgi-connections", "1", config="fastcgi /app/ unix:@DIR@/pool\n") as s:
        pool = Pool(s.dir, 1)
        try:
            s.start()
            for _ in range(5):
                clients = [s.client().send("GET /app/?big=400000 HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(12)]
                for i, c in enumerate(clients):
                    if i % 3:
                        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                        c.close()
                for i, c in enumerate(clients):
                    if not i % 3:
                        equal(len(c.response().body), 400000)
        finally:
            pool.end()


def a_program_that_does_not_stop_stops_nobody_and_fills_no_disk():
    """Complaints, and an answer to who asks for none of it: nothing of either makes it wait."""
    for args in ("amped", "sped", "amped --events io_uring"):
        with Server("--workers", "1", "--app-timeout", "8s", "--architecture", *args.split(),
                    config="status /status\ncgi /cgi/ @DIR@/cgi\nfastcgi /app/ exec:@DIR@/fcgi 3\n") as s:
            os.mkdir(os.path.join(s.dir, "cgi"))
            for name, text in (("cgi/complain", "yes complaint >&2"), ("cgi/endless", "echo A: b\necho\nexec yes"),
                               ("fcgi", "exec %s %s" % (sys.executable, APP))):
                path = os.path.join(s.dir, name)
                with open(path, "w", encoding="ascii") as f:
                    f.write("#!/bin/sh\n%s\n" % text)
                os.chmod(path, stat.S_IRWXU)
            s.write("file", "file")
            s.start()
            began = time.monotonic()
            busy = [s.client().send("%s HTTP/1.1\r\nHost: t\r\n\r\n" % what) for what in (
                "GET /cgi/complain", "GET /app/?flood", "GET /app/?flood", "HEAD /app/?endless", "HEAD /cgi/endless")]
            wait_for(lambda: counters(s)["said_lost"] > 1000)
            for c in busy[:3]:
                equal(c.response().status, 504, args)
            for c in busy[3:]:
                equal(c.response(head=True).status, 200, args)
                c.sock.settimeout(60)
                equal(c.closed(), True, args)
            for _ in range(20):
                equal(s.client(timeout=20).send(GET).response().body, b"file", args)
            wait_for(lambda: "lines of programs are left out" in s.stderr())
            n = counters(s)
            assert 10 < n["said_lines"], (args, n)
            # What it may at once, and each second; a quarter more than that is a mistake.
            most = 1.25 * (65536 + 16384 * (time.monotonic() - began))
            assert os.path.getsize(s.errors.name) < most, (args, os.path.getsize(s.errors.name), most)


def a_loud_program_does_not_drown_a_quiet_one():
    """And many loud ones are no more than one."""
    with Server("--workers", "1", config="status /status\ncgi /cgi/ @DIR@/cgi\n") as s:
        loud = ["loud%d" % i for i in range(4)]
        programs(s, quiet="echo important $QUERY_STRING >&2",
                 **{name: "yes noise noise noise noise noise | head -c 200000 >&2" for name in loud})
        s.start()
        began = time.monotonic()
        for i in range(8):
            lost = counters(s)["said_lost"]
            equal(s.get("/cgi/" + loud[i % 4]).status, 200)
            # It has been listened to, and some of it was too much.
            wait_for(lambda: counters(s)["said_lost"] - lost > 1000)
            equal(s.get("/cgi/quiet?%d" % i).status, 200)
        wait_for(lambda: "/cgi/quiet: important 7\n" in s.stderr())
        text = s.stderr()
        for i in range(8):
            assert "/cgi/quiet: important %d\n" % i in text, (i, text[-1000:])
        most = 1.25 * (65536 + 5 * 4096 + 16384 * (time.monotonic() - began))
        assert os.path.getsize(s.errors.name) < most, (os.path.getsize(s.errors.name), most)


def what_is_closed_is_closed_for_the_program_too():
    """Of a connection on which more was to come a moment ago, it sees the end, and takes the next one."""
    for events in ("epoll", "io_uring"):
        with Server("--workers", "1", "--app-timeout", "600s", "--events", events,
                    config="fastcgi /app/ exec:@DIR@/fcgi 1\n") as s:
            path = os.path.join(s.dir, "fcgi")
            with open(path, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexec %s %s\n" % (sys.executable, APP))
            os.chmod(path, stat.S_IRWXU)
            s.start()
            for i in range(15):
                equal(len(s.get("/app/?big=3000000").body), 3000000, (events, i))
                # What may not be done twice goes over a connection of its own.
                r = s.raw("POST /app/ HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
                equal(r.status, 200, (events, i))


def a_crowd_gets_no_more_processes_than_there_may_be():
    for args in ("amped", "sped", "amped --helper-kind processes"):
        with Server("--workers", "1", "--cgi-processes", "3", "--architecture", *args.split(),
                    config="cgi /cgi/ @DIR@/cgi\n") as s:
            programs(s, wait="echo $$ >>%s/began\nwhile [ ! -e %s/go ]; do sleep 0.05; done" % (s.dir, s.dir))
            s.write("file", "file")
            began = os.path.join(s.dir, "began")
            s.start()
            ask = "GET /cgi/%s HTTP/1.1\r\nHost: t\r\n\r\n"
            first = [s.client().send(ask % "wait") for _ in range(3)]
            for c in first:
                equal(c.line(), "HTTP/1.1 200 OK")
            more = [s.client().send(ask % name) for name in ["wait", "none"] * 6]
            for _ in range(20):
                equal(s.client(timeout=20).send(GET).response().body, b"file", args)

            def begun():
                with open(began, encoding="ascii") as f:
                    return len(f.readlines())

            wait_for(lambda: begun() >= 3)
            equal(begun(), 3, args)
            # Who goes takes his place among those that wait with him, and gives his process to another.
            for c in (more[0], more[1], first[0]):
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                c.close()
            wait_for(lambda: begun() > 3)
            equal(begun(), 4, args)
            with open(os.path.join(s.dir, "go"), "w", encoding="ascii"):
                pass
            for i, c in enumerate(more[2:]):
                equal(c.response().status, 404 if i % 2 else 200, (args, i))
            equal(begun(), 8, args)
            equal(s.stop(), 0, args)


def answers_of_programs_that_nobody_takes_have_a_bound_and_make_room():
    """Of a crowd that takes a byte now and then; who takes his answer gets all of it, and others are served."""
    post = b"POST /cgi/cat HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n" + b"y" * 200000
    for args, big in (("amped", "/cgi/big"), ("amped --events io_uring", "/app/"), ("sped", "/app/")):
        with Server("--workers", "2", "--held-memory", "2M", "--send-buffer", "16k", "--send-timeout", "300s",
                    "--fastcgi-connections", "300", "--cgi-processes", "300", "--architecture", *args.split(),
                    config="status /status\ncgi /cgi/ @DIR@/cgi\nfastcgi /app/ unix:@DIR@/app\n") as s:
            programs(s, big="exec head -c 200000 /dev/zero", cat="cat",
                     take="for i in $(seq 60); do head -c 50000 /dev/zero; sleep 0.05; done")
            s.write("file", "file")
            app = Talker(os.path.join(s.dir, "app"), 200000)
            s.start()
            crowd = []
            for _ in range(150):
                c = Client(s.port)
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                crowd.append(c.send("GET %s HTTP/1.1\r\nHost: t\r\n\r\n" % big))
            n = {}

            def full():
                n.update(counters(s))
                assert n["held_bytes"] <= (2 << 20) + 65536, (args, n)
                return n["held_bytes"] > 1900000     # no room for another body

            wait_for(full)
            answers = []

            def served():
                for c in crowd:
                    c.sock.settimeout(0.0)
                    try:
                        c.sock.recv(1)
                    except OSError:
                        pass
                full()
                try:
                    answers.append(s.raw(post).status)
                except (OSError, EOFError):     # refused, and did not read all of it
                    answers.append(503)
                return answers[-5:] == [200] * 5

            def taken():
                served()
                c = s.client().send("GET /cgi/take HTTP/1.1\r\nHost: t\r\n\r\n")
                c.buf = c.exactly(12) + c.buf
                return c if b" 200" in c.buf[:12] else c.close()

            taker = wait_for(taken)
            sizes = []
            reader = threading.Thread(target=lambda c=taker: sizes.append(len(c.response().body)))
            reader.start()
            while reader.is_alive():
                served()
            equal(sizes, [3000000], args)
            wait_for(served)
            assert counters(s)["held_dropped"] > 0, (args, answers, n)
            equal(s.get("/file").body, b"file", args)
            for c in crowd:
                c.close()
            wait_for(lambda: counters(s)["held_bytes"] < 65536)
            app.end()


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("Pool", "Talker")])

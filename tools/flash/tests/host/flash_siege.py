#!/usr/bin/env python3
# timeout: 900
"""Who takes a place and gives nothing for it: idle, slow and greedy clients and programs."""
import contextlib
import json
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import Client, Server, children, equal, kit, main, wait_for  # noqa: E402

APP = os.path.join(HERE, "..", "lib", "fcgi_app.py")
GET = "GET /file HTTP/1.1\r\nHost: t\r\n\r\n"


def counters(s):
    """The counters of a server."""
    return json.loads(s.get("/status").body)


def idle_clients_make_room_at_the_limit():
    for events in ("epoll", "io_uring"):
        with Server("--max-connections", "50", "--workers", "1", "--events", events, config="status /status\n") as s:
            s.write("file", "file")
            s.start()
            kept = [s.client() for _ in range(50)]
            for c in kept:
                equal(c.send(GET).response().body, b"file")
            # All places are taken by clients that want nothing; each new one is served at once.
            start = time.monotonic()
            for _ in range(30):
                kept.append(s.client(timeout=20))
                equal(kept[-1].send(GET).response().body, b"file", events)
            assert time.monotonic() - start < 2 * kit.PATIENCE, events
            assert counters(s)["recycled"] >= 30, events
            assert kept[0].closed(), "the longest idle is still there"


def out_of_descriptors_the_idle_make_room():
    """Its own shortage, far below max_connections, is nobody's time-out."""
    for events in ("epoll", "io_uring"):
        with Server("--workers", "1", "--events", events) as s:
            s.write("file", "file")
            s.start()
            kept = [s.client(timeout=20) for _ in range(8)]
            for c in kept:
                equal(c.send(GET).response().body, b"file")
            worker, = children(s.proc.pid)
            used = {int(fd) for fd in os.listdir("/proc/%d/fd" % worker)}
            least = min(set(range(max(used) + 2)) - used)
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (least, least))
            start = time.monotonic()
            fresh = [s.client(timeout=20) for _ in range(3)]
            for c in fresh:
                equal(c.send(GET).response().body, b"file", events)
            assert time.monotonic() - start < kit.PATIENCE, events
            assert kept[0].closed(), "the longest idle is still there"
            equal(kept[-1].send(GET).response().body, b"file", "the last one has gone")


def who_takes_or_brings_nothing_makes_room_at_the_limit():
    """A file's readers, a program's, and bodies; not who takes his answer, though he came first and has a slow line."""
    size = 20 << 20

    def take_slowly(sock, got):
        with contextlib.suppress(OSError):
            while (piece := sock.recv(4096)):
                got.append(len(piece))
                time.sleep(0.2)

    def take(sock, got):
        while (piece := sock.recv(1 << 20)):        # twenty seconds for all of it
            got.append(len(piece))
            time.sleep(len(piece) * 20 / size)
    for events, ask in (("epoll", "GET /big"), ("epoll", "GET /cgi/big"), ("epoll", "POST /cgi/big"),
                        ("io_uring", "GET /big")):
        with Server("--max-connections", "20", "--workers", "1", "--events", events, "--send-timeout", "600s",
                    "--body-timeout", "600s", "--app-timeout", "600s",
                    config="cgi /cgi/ @DIR@/cgi/\nstatus /status\n") as s:
            programs(s, big="exec head -c %d /dev/zero" % size)
            s.write("big", bytes(size))
            s.write("file", "file")
            s.start()
            got, slow, thread, crowd = [], [], None, [s.client() for _ in range(20)]
            for c in crowd:
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096 if c is not crowd[0] else 1 << 17)
                c.send(ask + " HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" %
                       (9 * (ask[0] == "P")))
            if events + ask == "epollGET /big":
                thread = threading.Thread(target=take, args=(crowd[0].sock, got))
                thread.start()
                threading.Thread(target=take_slowly, args=(crowd[1].sock, slow)).start()
            late = s.client(timeout=4 * kit.PATIENCE)
            equal(late.send(GET).response().body, b"file", events + ask)
            # Neither a time-out nor the taker's end made room: one has gone for him, and he for who asks now.
            equal(counters(s)["recycled"], 2, events + ask)
            if thread:
                before = len(slow)
                wait_for(lambda: len(slow) > before + 10)
                crowd[1].sock.shutdown(socket.SHUT_RDWR)
                thread.join()
                assert sum(got) > size, (sum(got), "who takes his answer has not got it")


def ten_thousand_idle_clients_against_the_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = 11000
    if hard != resource.RLIM_INFINITY and hard < want:
        return "no more than %d descriptors" % hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
    try:
        with Server("--max-connections", "2000", "--workers", "1", "--defer-accept", "off") as s:
            s.write("file", "file")
            s.start()
            crowd = []
            for i in range(10000):
                c = Client(s.port)
                if i % 2:
                    c.send(GET)     # kept; the others never say anything
                crowd.append(c)
            for _ in range(20):
                c = s.client(timeout=30)
                equal(c.send(GET).response().body, b"file")
                c.close()
            for c in crowd:
                c.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return None


def slow_heads_make_room_for_whole_requests():
    with Server("--max-connections", "40", "--workers", "1", "--header-timeout", "60s") as s:
        s.write("file", "file")
        s.start()
        slow = [s.client().send("GET /file HTTP/1.1\r\nHo") for _ in range(40)]
        for _ in range(20):
            equal(s.client(timeout=20).send(GET).response().body, b"file")
        for c in slow:
            c.close()


def a_transfer_under_way_is_not_taken_for_idle():
    with Server("--max-connections", "10", "--workers", "1", "--send-buffer", "32k") as s:
        s.write("file", "file")
        s.write("large", b"x" * 8000000)
        s.start()
        busy = []
        for _ in range(5):
            c = Client(s.port)
            c.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n")
            busy.append(c)
        for c in busy:
            c.exactly(10)
        for _ in range(30):
            equal(s.client(timeout=20).send(GET).response().body, b"file")
        for c in busy:
            got = 10 + len(c.buf)
            while got < 8000000:
                n = len(c.sock.recv(1 << 20))
                assert n, "cut at %d" % got
                got += n


def a_body_of_a_byte_now_and_then_ends():
    with Server("--body-timeout", "4s", config="cgi /cgi/ @DIR@/cgi\n") as s:
        s.write("file", "file")
        s.start()
        c = s.client().send("POST /cgi/x HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n")
        start = time.monotonic()
        try:
            while time.monotonic() - start < 4 * kit.PATIENCE:
                c.send("x")
                time.sleep(0.3)
        except OSError:
            pass
        took = time.monotonic() - start
        assert took < 2 * kit.PATIENCE, "it was fed for %.0f s" % took
        # Who is merely not fast is served.
        path = os.path.join(s.dir, "cgi", "x")
        os.mkdir(os.path.dirname(path))
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho A: b\necho\ncat\n")
        os.chmod(path, stat.S_IRWXU)
        c = s.client().send("POST /cgi/x HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\r\n")
        for _ in range(10):
            c.send("x" * 1000)
            time.sleep(0.4)
        equal(len(c.response().body), 10000)


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
                    config="status /status\n" + config) as s:
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


def body_files(s):
    """Bytes of memory in each of the workers' files of request bodies."""
    sizes = {}
    for pid in children(s.proc.pid):
        for fd in os.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, fd)
            try:
                if "request body" in os.readlink(path):
                    found = os.stat(path)
                    sizes[pid, fd, found.st_ino] = found.st_blocks * 512
            except OSError:
                continue
    return sizes


def bodies_kept(s):
    """What was in all of them at one moment, at least, and how many there are.

    They are looked at one after the other; meanwhile one may go and make room for another. What each has
    had both before and after the moment, they had then.
    """
    before, after = body_files(s), body_files(s)
    return sum(min(size, after.get(name, 0)) for name, size in before.items()), len(after)


def programs(s, **texts):
    """CGI programs."""
    os.mkdir(os.path.join(s.dir, "cgi"))
    for name, text in texts.items():
        path = os.path.join(s.dir, "cgi", name)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho A: b\necho\n%s\n" % text)
        os.chmod(path, stat.S_IRWXU)


def refused(c):
    """Has a client been told to come again?"""
    c.sock.settimeout(0.5)
    try:
        r = c.response()
    except (OSError, EOFError):
        return False
    return (r.status, r["retry-after"], r["connection"]) == (503, "1", "close")


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


def bodies_of_all_clients_together_have_a_bound():
    """Who brings nothing makes room for who does, in each of the workers."""
    head = "POST /cgi/cat HTTP/1.1\r\nHost: t\r\nContent-Length: 400000\r\n\r\n"
    chunks = "POST /cgi/cat HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n61a80\r\n"
    for args in ("amped", "amped --events io_uring", "mp --processes 8"):
        with Server("--workers", "2", "--max-body", "500k", "--held-memory", "2M", "--architecture", *args.split(),
                    config="status /status\ncgi /cgi/ @DIR@/cgi\n") as s:
            programs(s, cat="cat")
            s.write("file", "file")
            s.start()
            # Each brings most of a body, and no more: more of them than there is room for.
            crowd = [s.client() for _ in range(7 if args[0] == "m" else 24)]
            for i, c in enumerate(crowd):
                try:
                    c.send((chunks if i % 2 else head).encode() + b"x" * 390000)
                except OSError:
                    pass
                total, files = bodies_kept(s)
                assert total <= 2 << 20, (args, i, total, files)
            if args[0] == "m":
                wait_for(lambda c=crowd: any(map(refused, c)))
                continue
            wait_for(lambda: counters(s)["held_refused"] > 0)
            wait_for(lambda: counters(s)["held_bytes"] > 1 << 20)
            # They have stood still for a while by now, or will soon have.
            for _ in range(4):
                wait_for(lambda: takes_all(s, head.encode() + b"y" * 400000) == 400000)
            n = counters(s)
            assert n["held_dropped"] > 0 and n["held_bytes"] <= 2 << 20, n
            assert sum(map(refused, crowd)) >= 10, args
            for c in crowd:
                c.close()
            wait_for(lambda: counters(s)["held_bytes"] < 65536)     # its own, and that of who is closed
            equal(bodies_kept(s)[1], 0, args)


def takes_all(s, request):
    """Bytes of the answer; none if it is refused before all of it was read."""
    try:
        return len(s.raw(request).body)
    except (OSError, EOFError):
        return 0


def at_work(s, c):
    """The worker that has a client's connection."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        want = ["0100007F:%04X" % s.port, "0100007F:%04X" % c.sock.getsockname()[1]]
        inode = [line.split()[9] for line in f if line.split()[1:3] == want][0]
    for pid in children(s.proc.pid):
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                if os.readlink("/proc/%d/fd/%s" % (pid, fd)) == "socket:[%s]" % inode:
                    return pid
            except OSError:
                continue
    raise AssertionError("nobody has it")


def who_stands_still_at_one_worker_makes_room_for_the_clients_of_another():
    head = b"POST /cgi/cat HTTP/1.1\r\nHost: t\r\nContent-Length: 400000\r\n\r\n"
    for args in ("amped", "sped --events io_uring"):
        with Server("--workers", "2", "--max-body", "500k", "--held-memory", "2M", "--keepalive-timeout", "600s",
                    "--architecture", *args.split(), config="status /status\ncgi /cgi/ @DIR@/cgi\n") as s:
            programs(s, cat="cat")
            s.write("file", "file")
            s.start()
            one, other = workers = wait_for(lambda: len(children(s.proc.pid)) == 2 and children(s.proc.pid))
            of = {pid: [] for pid in workers}
            while min(map(len, of.values())) < 10:
                c = s.client()
                equal(c.send(GET).response().body, b"file", args)
                of[at_work(s, c)].append(c)
            for c in of[one][:5]:
                c.send(head + b"x" * 395000)
            wait_for(lambda: counters(s)["held_bytes"] > 1900000)
            posters = of[other]

            def served():
                c = posters.pop()
                try:
                    return c.send(head + b"y" * 400000).response().status == 200
                except (OSError, EOFError):     # refused, and did not read all of it
                    return False

            end = time.monotonic() + 4 * kit.PATIENCE
            while not served():
                assert posters and time.monotonic() < end, (args, counters(s))
                time.sleep(1)
            for c in of[one] + of[other]:
                c.close()


def heads_of_all_clients_together_have_a_bound():
    for events in ("epoll", "io_uring"):
        with Server("--workers", "2", "--held-memory", "2M", "--events", events, "--header-timeout", "300s",
                    config="status /status\n") as s:
            s.write("file", "file")
            s.start()
            crowd = []
            for _ in range(400):
                crowd.append(s.client().send("GET /file HTTP/1.1\r\nHost: t\r\nX: " + "x" * 15000))
                n = counters(s)["held_bytes"]
                assert n <= (2 << 20) + 65536, (events, n)
            wait_for(lambda: (n := counters(s))["held_dropped"] + n["held_refused"] > 100)
            for _ in range(20):
                equal(s.client(timeout=20).send(GET).response().body, b"file", events)
                # In two pieces, as all of those.
                c = s.client(timeout=20).send(GET[:-10])
                wait_for(lambda: counters(s)["accepted"] - counters(s)["closed"] > 0)
                equal(c.send(GET[-10:]).response().status in (200, 503), True, events)
                c.close()
            for c in crowd:
                c.close()
            wait_for(lambda: counters(s)["held_bytes"] < 65536)


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


def pipelines_of_everything_are_answered_in_order():
    with Server("--send-buffer", "16k", config="cgi /cgi/ @DIR@/cgi\nstatus /status\n") as s:
        s.write("file", "file")
        s.write("large", b"l" * 300000)
        os.mkdir(os.path.join(s.dir, "cgi"))
        path = os.path.join(s.dir, "cgi", "cat")
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho A: b\necho\ncat\n")
        os.chmod(path, stat.S_IRWXU)
        s.start()
        body = "POST /cgi/cat HTTP/1.1\r\nHost: t\r\n"
        kinds = [(GET, 200, 4), ("GET /large HTTP/1.1\r\nHost: t\r\n\r\n", 200, 300000),
                 ("GET /none HTTP/1.1\r\nHost: t\r\n\r\n", 404, None),
                 ("GET /large HTTP/1.1\r\nHost: t\r\nRange: bytes=5-9\r\n\r\n", 206, 5),
                 (body + "Content-Length: 3\r\n\r\nabc", 200, 3),
                 (body + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, 3)]
        c = s.client()
        order = [kinds[(i * 7 + i // 5) % len(kinds)] for i in range(60)]
        sender = threading.Thread(target=c.send, args=("".join(k[0] for k in order),))
        sender.start()
        for text, status, size in order:
            r = c.response()
            equal(r.status, status, text)
            if size is not None:
                equal(len(r.body), size, text)
        sender.join()
        equal(s.stop(signal.SIGQUIT), 0)


def a_name_whose_file_system_does_not_answer_stops_nobody():
    """The name is cached, its opening is not answered; the root and a mount below the root."""
    if os.geteuid() or not os.path.exists("/dev/fuse"):
        return "needs root and /dev/fuse"
    for kind in ("threads", "processes"):
        for below in (True, False):
            with Server("--workers", "1", "--helper-kind", kind, "--keepalive-timeout", "60s",
                        config="status /status\nvhost local {\n root @DIR@/local\n}\n") as s:
                os.mkdir(os.path.join(s.dir, "local"))
                with open(os.path.join(s.dir, "local", "file"), "w", encoding="ascii") as f:
                    f.write("file")
                s.write("file", "file")
                at = s.root
                if below:
                    at = os.path.join(s.root, "mnt")
                    os.mkdir(at)
                stalls = os.path.join(s.dir, "stalls")
                fuse = subprocess.Popen([sys.executable, os.path.join(HERE, "..", "lib", "fuse_stall.py"), at, stalls],
                                        stdout=subprocess.PIPE)
                try:
                    if fuse.stdout.readline() != b"mounted\n":
                        return "FUSE cannot be mounted here"
                    s.start()
                    prefix = "/mnt" if below else ""
                    equal(s.get(prefix + "/cold").body, b"data")
                    time.sleep(1.5)     # it will be looked up again, and its name is known to the kernel
                    open(stalls, "w", encoding="ascii").close()
                    cold = s.client().send("GET %s/cold HTTP/1.1\r\nHost: t\r\n\r\n" % prefix)
                    equal(fuse.stdout.readline(), b"stalled\n")
                    for _ in range(10):     # whoever waited for it would wait until the name is unlinked
                        r = s.client(timeout=20).send("GET /file HTTP/1.1\r\nHost: local\r\n\r\n").response()
                        equal(r.body, b"file")
                    equal(select.select([cold.sock], [], [], 0)[0], [])
                    os.unlink(stalls)
                    equal(cold.response().body, b"data")
                    equal(s.stop(), 0)
                finally:
                    if os.path.exists(stalls):
                        os.unlink(stalls)
                    s.stop()
                    subprocess.run(["umount", "-l", at], check=False)
                    fuse.terminate()
                    fuse.wait()
    return None


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("counters", "Pool", "Talker", "body_files", "bodies_kept", "takes_all", "at_work", "programs",
                        "refused")])

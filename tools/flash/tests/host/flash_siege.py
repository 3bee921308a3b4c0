#!/usr/bin/env python3
# timeout: 900
"""Who takes a place and gives nothing for it: idle, slow and greedy clients."""
import contextlib
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
from flashtest import STATUS, Client, Server, children, counters, equal, kit, main, wait_for  # noqa: E402
from greedy import GET, programs, refused        # noqa: E402


def idle_clients_make_room_at_the_limit():
    for events in ("epoll", "io_uring"):
        with Server("--max-connections", "50", "--workers", "1", "--events", events, config=STATUS) as s:
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
                    config=STATUS) as s:
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
          and k not in ("body_files", "bodies_kept", "takes_all", "at_work")])

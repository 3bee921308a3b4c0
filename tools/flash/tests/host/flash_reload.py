#!/usr/bin/env python3
# timeout: 600
"""Reloads: what changes, what fails half-way, how many, and what is in the log afterwards."""
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import Client, Server, children, equal, free_port, main, wait_for  # noqa: E402


def configured(config, *args):
    """A server whose configuration file says all."""
    s = Server(*args, config=config)
    s.write("file", "file")
    return s


def reload(s, config, refused=False):
    """New contents of the file, and until they are in effect."""
    before = s.stderr().count("not reloaded"), set(children(s.proc.pid))
    s.config = config
    s.command()
    s.proc.send_signal(signal.SIGHUP)
    if refused:
        wait_for(lambda: s.stderr().count("not reloaded") > before[0])
    else:
        wait_for(lambda: not before[1] & set(children(s.proc.pid)) and children(s.proc.pid))


def workers(s, n):
    """Process ids of the workers, once all are there."""
    return wait_for(lambda: len(children(s.proc.pid)) == n and set(children(s.proc.pid)))


def settled(s):
    """How many descriptors the master has, once those of its start are closed: a pipe from its workers is the last."""
    fd = "/proc/%d/fd/" % s.proc.pid

    def quiet():
        try:
            return not any(os.readlink(fd + n).startswith("pipe:") for n in os.listdir(fd) if int(n) > 2)
        except FileNotFoundError:       # it is closed while we look
            return False
    wait_for(quiet)
    return len(os.listdir(fd))


def answers(port):
    """A whole request and its answer on a connection of its own."""
    c = Client(port, timeout=60)
    try:
        return c.get("/file", "Connection: close").body
    finally:
        c.close()


def all_answer(port, n=60):
    """The kernel deals connections to the sockets of an address by hash: enough to meet each."""
    for _ in range(n):
        equal(answers(port), b"file")


def refuses(port):
    """Does nobody listen there?"""
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return False
    except ConnectionRefusedError:
        return True


def fewer_or_more_workers_accept_on_every_socket():
    for steps in ((4, 1, 3, 2, 4), (2, 0, 2), (1, 4, 1)):
        s = configured("workers %d\nreuseport on\n" % steps[0])
        with s:
            s.start()
            for n in steps[1:]:
                if n:
                    reload(s, "workers %d\n" % n)
                else:
                    reload(s, "workers 3\nreuseport off\n")
                all_answer(s.port)
            equal(s.stop(), 0)


def every_kind_of_architecture_takes_over_from_every_other():
    kinds = ["architecture amped\nworkers 3\n", "architecture mp\nprocesses 3\n",
             "architecture mt\nthreads 3\n", "architecture sped\nworkers 2\n"]
    s = configured(kinds[0])
    with s:
        s.start()
        for i in (1, 0, 2, 3, 1, 2, 0):
            reload(s, kinds[i])
            all_answer(s.port, 30)
        equal(s.stop(), 0)


def a_removed_address_is_shut_and_a_new_one_is_open():
    ports = [free_port() for _ in range(2)]
    lines = ["listen 127.0.0.1:%d\n" % p for p in ports]
    s = configured("workers 2\ndrain_timeout 20s\n" + lines[0])
    with s:
        s.write("large", b"x" * 20000000)
        s.start()
        all_answer(ports[0], 10)
        # A client that keeps the former workers busy.
        slow = s.client().send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n")
        slow.exactly(1000)
        s.config = "workers 2\ndrain_timeout 20s\n" + lines[1]
        s.command()
        s.proc.send_signal(signal.SIGHUP)
        wait_for(lambda: not refuses(ports[1]))
        wait_for(lambda: refuses(ports[0]))
        all_answer(ports[1], 10)
        all_answer(s.port, 10)
        s.config = "workers 2\n" + lines[0]
        s.command()
        s.proc.send_signal(signal.SIGHUP)
        wait_for(lambda: not refuses(ports[0]))
        all_answer(ports[0], 10)
        wait_for(lambda: refuses(ports[1]))
        slow.close()


def a_refused_reload_leaves_all_as_it_was():
    taken = socket.create_server(("127.0.0.1", 0))
    port = free_port()
    good = "workers 3\nlisten 127.0.0.1:%d\n" % port
    bad = {
        "an address in use": "workers 5\nlisten 127.0.0.1:%d\n" % taken.getsockname()[1],
        "another one": "workers 1\nlisten 127.0.0.1:%d\nlisten 192.0.2.77:80\n" % port,
        "a root": good + "vhost x {\nroot /does/not/exist\n}\n", "a group": good + "group nobody-of-this-name\n",
        "a word": good + "wrkers 3\n", "a log": good + "access_log /does/not/exist/log\n",
        "a kind, too": "architecture mp\nprocesses 3\nlisten 127.0.0.1:%d\n" % taken.getsockname()[1],
    }
    s = configured(good)
    with s:
        s.start()
        before = workers(s, 3)
        kept = [s.client() for _ in range(5)]
        for c in kept:
            equal(c.get("/file").body, b"file")
        for _ in range(2):
            for what, config in bad.items():
                reload(s, config, refused=True)
                for c in kept:
                    equal(c.get("/file").body, b"file", what)
                all_answer(s.port, 20)
                all_answer(port, 20)
                wait_for(lambda: set(children(s.proc.pid)) == before)
        reload(s, good)
        all_answer(port, 20)
        equal(s.stop(), 0)
    taken.close()


def workers_that_cannot_begin_do_not_replace_those_that_serve():
    # What only a worker finds: descriptors are short after the fork, for the new ones.
    s = configured("workers 2\n")
    with s:
        s.start()
        before = workers(s, 2)
        most = settled(s) + 4
        resource.prlimit(s.proc.pid, resource.RLIMIT_NOFILE, (most, most))
        for _ in range(3):
            reload(s, "workers 2\naccess_log %s/log\n" % s.dir, refused=True)
            all_answer(s.port, 20)
            wait_for(lambda: set(children(s.proc.pid)) == before)


def a_start_that_fails_says_so_and_ends():
    for config in ("access_log /does/not/exist/log\n", "user nobody-of-this-name\n"):
        s = configured("workers 2\n" + config)
        with s:
            s.proc = subprocess.Popen(s.command(), stderr=s.errors)
            equal(s.proc.wait(60), 1, config)
            assert s.stderr().startswith("flash: "), s.stderr()


def reloads_under_load_lose_no_request():
    s = configured("workers 2\n")
    failures, done, stop = [], [0], []

    def load():
        while not stop:
            try:
                equal(answers(s.port), b"file")
                done[0] += 1
            except Exception as e:  # counted, whatever it is
                failures.append(repr(e))
    with s:
        s.start()
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(25):
            s.config = "workers %d\n" % (1 + i % 3)
            s.command()
            before = done[0]
            s.proc.send_signal(signal.SIGHUP)
            time.sleep(0.1)
            wait_for(lambda enough=before + 4: done[0] > enough or failures)
        stop.append(1)
        for t in threads:
            t.join()
        equal(failures, [], "%d requests" % done[0])
        equal(s.stop(), 0)


def a_request_that_came_during_the_last_answer_is_served():
    """The worker that is to end has said that the connection stays: what is on it already is no surprise."""
    for args in ("amped", "sped", "amped --events io_uring"):
        for sig in (signal.SIGHUP, signal.SIGQUIT):
            with Server("--workers", "1", "--send-buffer", "16k", "--architecture", *args.split(),
                        config="cgi /cgi/ @DIR@/cgi\n") as s:
                s.write("file", "file")
                s.write("large", b"l" * 4000000)
                os.mkdir(os.path.join(s.dir, "cgi"))
                path = os.path.join(s.dir, "cgi", "wait")
                with open(path, "w", encoding="ascii") as f:
                    f.write("#!/bin/sh\nprintf 'A: b\\n\\n%%050000d'\n"
                            "while [ ! -e %s/go ]; do sleep 0.05; done\n" % s.dir)
                os.chmod(path, 0o755)
                s.start()
                idle, waits, takes = s.client(), s.client(), Client(s.port)
                equal(idle.get("/file").body, b"file", args)
                for c, name in ((waits, "/cgi/wait"), (takes, "/large")):
                    c.send("GET %s HTTP/1.1\r\nHost: t\r\n\r\n" % name)
                    c.buf = c.exactly(12) + c.buf
                s.proc.send_signal(sig)
                equal(idle.closed(), True, (args, sig))     # so it does finish
                for c in (waits, takes):
                    c.send("GET /file?next HTTP/1.1\r\nHost: t\r\n\r\n")
                with open(os.path.join(s.dir, "go"), "w", encoding="ascii"):
                    pass
                for c, size in ((waits, 50000), (takes, 4000000)):
                    r = c.response()
                    equal((r.status, r["connection"], len(r.body)), (200, None, size), (args, sig))
                    r = c.response()
                    equal((r.status, r["connection"], r.body), (200, "close", b"file"), (args, sig))
                    assert c.closed(), (args, sig)
                if sig == signal.SIGQUIT:
                    equal(s.proc.wait(60), 0, args)


def a_storm_of_reloads_does_not_pile_up_workers():
    s = configured("workers 2\ndrain_timeout 600s\n")
    with s:
        s.write("large", b"x" * 20000000)
        s.start()
        slow = []
        for _ in range(20):
            # Each generation has a client that keeps it.
            for _ in range(4):
                c = s.client().send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n")
                c.exactly(100)
                slow.append(c)
            before = set(children(s.proc.pid))
            s.proc.send_signal(signal.SIGHUP)
            wait_for(lambda before=before: set(children(s.proc.pid)) - before)
        wait_for(lambda: len(children(s.proc.pid)) <= 2 * 10, 60)
        all_answer(s.port, 10)
        for c in slow:
            c.close()


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("configured", "reload", "answers", "all_answer", "refuses", "settled", "workers")])

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Another configuration, whole or not at all; and no socket that nobody accepts on."""

import contextlib
import os
import resource
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (cluster, content, descriptors, free_port, kit, leave_descriptors, main,  # noqa: E402
                   read_answer, until)


def listening(lardd):
    """Port and inode of each of its listening sockets."""
    inodes = set()
    for fd in descriptors(lardd):
        with contextlib.suppress(FileNotFoundError):            # a connection that has just ended
            inodes.add(os.readlink(fd))
    found = set()
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in list(file)[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                found.add((int(words[1].split(":")[1], 16), words[9]))
    return found


def refused_reload_leaves_every_listener():
    """Whatever the reason, and however many workers there are: the queues of the old ones go on."""
    for workers in (1, 3):
        with cluster(1, f"workers {workers}") as lardd, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            before = listening(lardd)
            assert len(before) == workers, before
            clients = [lardd.connect() for _ in range(8)]       # wait in the queues for what they say
            old = lardd.port
            for text, why in ((f"listen 127.0.0.1:{taken.getsockname()[1]}", "in use"),
                              (f"access-log {lardd.directory.name}/no/such/log", "cannot write"),
                              ("user no-such-user\ncolour red", "colour")):
                lardd.port = free_port()                        # the old address is to go
                lardd.configure(f"workers {workers}\n{text}")
                assert why in lardd.control("reload")["error"]
                assert listening(lardd) == before, why
            lardd.port = old
            for s in clients:
                s.sendall(b"GET /size/4 HTTP/1.1\r\nHost: h\r\n\r\n")
                assert read_answer(s.makefile("rb"))[2] == content(4)
                s.close()
            lardd.configure(f"workers {workers}")
            assert lardd.control("reload") == {"reloads": 1}
            assert listening(lardd) == before


def reload_without_descriptors_for_all_workers_is_refused():
    with cluster(1, "workers 3") as lardd:
        before, old = listening(lardd), lardd.port
        lardd.port = free_port()
        lardd.configure("workers 3\nhealth-check none")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(lardd.socket_path)
            s.sendall(b'{"cmd":"status"}\n')
            stream = s.makefile()
            stream.readline()
            # For the file, and then for two of three sockets.
            _, hard = leave_descriptors(lardd, 2)
            s.sendall(b'{"cmd":"reload"}\n')
            assert "Too many open files" in stream.readline()
        resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert listening(lardd) == before
        lardd.port = old
        for _ in range(9):
            assert lardd.get("/size/4")[2] == content(4)


def address_changes_between_all_and_one():
    """A wildcard and an address of it cannot both be bound, unless the sockets have one owner."""
    with cluster(1, "workers 2\nuser nobody" if os.geteuid() == 0 else "workers 2") as lardd:
        os.chmod(lardd.directory.name, 0o755)
        for host in ("*", "127.0.0.1", "*"):
            with open(lardd.config_path, encoding="utf-8") as file:
                text = file.read().replace(f"listen 127.0.0.1:{lardd.port}", f"listen {host}:{lardd.port}")
            with open(lardd.config_path, "w", encoding="utf-8") as file:
                file.write(text.replace(f"listen *:{lardd.port}", f"listen {host}:{lardd.port}"))
            assert "reloads" in lardd.control("reload")
            for _ in range(6):
                assert lardd.get("/size/4")[2] == content(4)


def reload_of_one_that_stops_is_refused():
    with cluster(1) as lardd, lardd.connect() as s:
        lardd.backends[0].gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        lardd.process.send_signal(signal.SIGTERM)
        lardd.wait_log("event=stopping")
        assert "stopping" in lardd.control("reload")["error"]
        assert not listening(lardd)
        lardd.backends[0].gate.set()
        assert read_answer(s.makefile("rb"))[0] == 200
        assert lardd.process.wait(kit.PATIENCE) == 0


def workers_without_a_thread_have_no_listener():
    if os.geteuid():
        raise kit.Skip("needs root")
    # The limit is the user's, and one process is always there.
    with cluster(1, "workers 4\nuser games",
                 preexec=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))) as lardd:
        lardd.wait_log("no thread for it")
        assert lardd.control("status")["workers"] == 1
        assert len(listening(lardd)) == 1
        for _ in range(20):
            assert lardd.get("/size/4")[2] == content(4)


def takeover_by_fewer_workers_keeps_the_queues():
    with cluster(1, "workers 4") as lardd:
        clients = [lardd.connect() for _ in range(16)]
        before = listening(lardd)
        lardd.configure("workers 1")
        old = lardd.take_over()
        assert old.wait(kit.PATIENCE) == 0
        assert listening(lardd) == before
        for s in clients:
            s.sendall(b"GET /size/4 HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(s.makefile("rb"))[2] == content(4)
            s.close()


def node_that_goes_in_the_midst_of_a_request_fails_that_alone():
    with cluster(1) as lardd, lardd.connect() as s:
        backend = lardd.backends[0]
        backend.gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: backend.seen, what="the request at its node")
        lardd.configure(nodes=False)
        assert lardd.control("reload") == {"reloads": 1}
        backend.stop()                                  # no answer, and no other node to ask
        assert read_answer(s.makefile("rb"))[0] == 502
        backend.start()
        lardd.configure()
        assert lardd.control("reload") == {"reloads": 2}
        assert lardd.get("/size/4")[2] == content(4)
        until(lambda: lardd.load() == 0, what="no load")


def reloads_in_one_breath_are_all_done():
    with cluster(1, "workers 3") as lardd, socket.socket(socket.AF_UNIX) as s:
        first, second = lardd.port, free_port()
        stop, failed = threading.Event(), []

        def moves():
            s.connect(lardd.socket_path)
            stream = s.makefile()
            for n in range(20):
                lardd.port = (second, first)[n % 2]
                lardd.configure("workers 3")
                s.sendall(b'{"cmd":"reload"}\n' * 2)
                for _ in range(2):
                    line = stream.readline()
                    if "reloads" not in line:
                        failed.append(line)
            stop.set()
        thread = threading.Thread(target=moves)
        thread.start()
        thread.join()
        assert not failed, failed[:3]
        assert len(listening(lardd)) == 3
        for _ in range(9):
            assert lardd.get("/size/4")[2] == content(4)


if __name__ == "__main__":
    sys.exit(main([refused_reload_leaves_every_listener,
                   reload_without_descriptors_for_all_workers_is_refused,
                   address_changes_between_all_and_one, reload_of_one_that_stops_is_refused,
                   workers_without_a_thread_have_no_listener,
                   takeover_by_fewer_workers_keeps_the_queues,
                   node_that_goes_in_the_midst_of_a_request_fails_that_alone,
                   reloads_in_one_breath_are_all_done]))

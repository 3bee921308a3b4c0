#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""The control socket and the metrics page, with visitors who take a place for nothing."""

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (LARDD, cluster, free_port, kit, leave_descriptors, main, read_answer,  # noqa: E402
                   receive_all, until)

PLACES = 64         # of the control socket; the metrics page has 32
ASK = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def visitors(count, connect, say=b""):
    """So many who connect, say that, and neither say nor read anything more."""
    made = []
    for _ in range(count):
        s = connect()
        with contextlib.suppress(BlockingIOError):
            s.setblocking(False)
            s.send(say)
        s.settimeout(10)
        made.append(s)
    return made


def to_control(lardd):
    s = socket.socket(socket.AF_UNIX)
    s.connect(lardd.socket_path)
    return s


def silent_and_deaf_visitors_make_room():
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}") as lardd:
        for say in (b"", b'{"cmd":', b'{"cmd":"stats"}\n' * 2000):
            idle = visitors(2 * PLACES, lambda: to_control(lardd), say)
            for _ in range(3):
                assert lardd.control("status")["nodes"] == 1, say[:20]
            for s in idle:
                s.close()
        for say in (b"", ASK[:20], ASK):
            idle = visitors(2 * PLACES, lambda: socket.create_connection(("127.0.0.1", port)), say)
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(ASK)
                assert read_answer(s.makefile("rb"))[0] == 200, say[:20]
            for s in idle:
                s.close()


def who_is_busy_keeps_his_place():
    with cluster(1) as lardd, to_control(lardd) as s:
        s.settimeout(10)
        stream = s.makefile()
        idle = []
        for _ in range(4 * PLACES):
            idle.append(to_control(lardd))
            idle[-1].sendall(b"\n")         # it is in, not one of many that come while this client is stopped
            assert b"error" in idle[-1].recv(1000)
            s.sendall(b'{"cmd":"status"}\n')
            assert json.loads(stream.readline())["nodes"] == 1
        for other in idle:
            other.close()


def visitor_without_a_descriptor_costs_no_time():
    """The loop must not go round for somebody who cannot come in."""
    port = free_port()
    with cluster(1, f"metrics 127.0.0.1:{port}\nhealth-check none") as lardd:
        _, hard = leave_descriptors(lardd, 0)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(ASK)
            ticks = os.sysconf("SC_CLK_TCK")

            def used():
                with open(f"/proc/{lardd.process.pid}/stat", encoding="ascii") as file:
                    words = file.read().rsplit(")", 1)[1].split()
                return (int(words[11]) + int(words[12])) / ticks
            before = used()
            time.sleep(1.5)
            assert used() - before < 0.3, used() - before
            resource.prlimit(lardd.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
            assert read_answer(s.makefile("rb"))[0] == 200


def handover_that_fails_ends_the_connection():
    """Behind answers that nobody has read there is no room for it; whoever asked must not wait for ever."""
    with cluster(1) as lardd:
        with to_control(lardd) as s:
            s.settimeout(10)
            with contextlib.suppress(OSError):
                s.sendall(b'{"cmd":"stats"}\n' * 20 + b'{"cmd":"handover"}\n' * 4000)
            lardd.wait_log("event=handover")
            fds = [0]
            while fds:
                data, fds, _, _ = socket.recv_fds(s, 1 << 16, 253)
                for fd in fds:
                    os.close(fd)
                fds = fds or data
        assert lardd.control("status")["nodes"] == 1
        assert lardd.get("/size/4")[0] == 200


def many_requests_without_reading_hold_nobody_up():
    with cluster(1) as lardd:
        deaf = visitors(PLACES // 2, lambda: to_control(lardd), b'{"cmd":"stats"}\n' * 3000)
        began = time.monotonic()
        for _ in range(20):
            assert lardd.control("status")["nodes"] == 1
        assert time.monotonic() - began < 2 * kit.PATIENCE
        memory = int(next(line for line in open(f"/proc/{lardd.process.pid}/status", encoding="ascii")
                          if line.startswith("VmRSS")).split()[1])
        assert memory < 200000, memory
        for s in deaf:
            s.close()
        until(lambda: len(os.listdir(f"/proc/{lardd.process.pid}/fd")) < PLACES // 2)
        with to_control(lardd) as s:                    # and half a line at the end
            s.sendall(b'{"cmd":"status"}\n{"cmd"')
            s.shutdown(socket.SHUT_WR)
            s.settimeout(10)
            assert receive_all(s).count(b"\n") == 1


def frozen_one_with_a_full_queue_holds_no_other():
    """One that starts, and one that takes over, say what is in their way."""
    with cluster(1) as lardd, contextlib.ExitStack() as stack:
        lardd.process.send_signal(signal.SIGSTOP)
        try:
            full = False
            while not full:
                s = stack.enter_context(socket.socket(socket.AF_UNIX))
                s.setblocking(False)
                full = s.connect_ex(lardd.socket_path) == errno.EAGAIN
            for option, reason in ([], "another lardd answers there"), (["--takeover"], "cannot take over"):
                run = subprocess.run([LARDD, "-c", lardd.config_path, "--foreground", *option], capture_output=True,
                                     text=True, timeout=60, check=False)
                assert run.returncode == 1 and reason in run.stderr, run
        finally:
            lardd.process.send_signal(signal.SIGCONT)
        stack.close()
        until(lambda: lardd.control_or_none("status", "nodes") == 1, what="an answer")
        assert lardd.get("/size/4")[0] == 200


if __name__ == "__main__":
    sys.exit(main([silent_and_deaf_visitors_make_room, who_is_busy_keeps_his_place,
                   visitor_without_a_descriptor_costs_no_time, handover_that_fails_ends_the_connection,
                   many_requests_without_reading_hold_nobody_up, frozen_one_with_a_full_queue_holds_no_other]))

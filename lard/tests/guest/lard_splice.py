#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes three minutes there
# timeout: 400
"""lardd beside sksplice.ko: the kernel passes on large answers, and nobody can tell."""

import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import answer_with, cluster, content, main, read_answer, until  # noqa: E402
from secure import site  # noqa: E402


def load():
    for name in ("flotilla", "sksplice"):
        if not os.path.isdir(f"/sys/module/{name}"):
            subprocess.run(["insmod", f"{os.environ['FLT_MODULES']}/{name}.ko"], check=True)


def large_answers_are_spliced_and_small_ones_are_not():
    with cluster(2) as lardd:
        for size in (0, 1000, 16384, 60000):
            assert lardd.get(f"/size/{size}")[2] == content(size), size
        few = lardd.counter("LardSpliced")
        for size in (200_000, 1_000_001, 5_000_000):
            assert lardd.get(f"/size/{size}")[2] == content(size), size
        assert lardd.counter("LardSpliced") == few + 3
        assert lardd.counter("LardAborted") == 0
        until(lambda: lardd.load() == 0, what="all load released")


def pipelined_requests_on_one_connection_get_their_answers_in_order():
    with cluster(2) as lardd, lardd.connect() as s:
        sizes = (300_000, 10, 70_000, 0, 1_000_000, 200_000)
        s.sendall(b"".join(b"GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in sizes))
        stream = s.makefile("rb")
        for size in sizes:
            assert read_answer(stream)[2] == content(size), size
        assert lardd.counter("LardSpliced") >= 3
        assert lardd.counter("LardBytesDown") > sum(sizes)


def answers_that_are_not_framed_by_length_go_the_usual_way():
    with cluster(1) as lardd:
        assert lardd.get("/chunked")[2] == b"c" * 70006
        assert lardd.get("/eof")[2] == b"until the end"
        assert lardd.counter("LardSpliced") == 0


def a_slow_reader_gets_everything():
    with cluster(1) as lardd, lardd.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"GET /size/400000 HTTP/1.0\r\n\r\n")
        assert read_answer(s.makefile("rb", buffering=1000))[2] == content(400_000)


def a_truncated_answer_is_not_passed_as_whole():
    with cluster(1) as lardd, lardd.connect() as s:
        s.sendall(b"GET /half HTTP/1.1\r\nHost: h\r\n\r\n")
        stream = s.makefile("rb")
        try:
            got = len(read_answer(stream)[2])
        except ConnectionResetError:
            got = 0
        assert got < 100000
        until(lambda: lardd.counter("LardAborted") == 1, what="the abort")
        assert lardd.get("/size/100000")[2] == content(100000)


def clients_that_leave_in_the_midst_cost_nothing():
    with cluster(1) as lardd:
        for _ in range(5):
            with lardd.connect() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"GET /size/3000000 HTTP/1.1\r\nHost: h\r\n\r\n")
                s.recv(1000)
        until(lambda: lardd.load() == 0, what="all load released")
        assert lardd.get("/size/200000")[2] == content(200000)


def the_cache_gets_a_copy_of_what_is_spliced():
    with cluster(1, "cache-size 8000000\ncache-object-max 3000000") as lardd:
        for size in (200_000, 1_000_001, 3_000_000):
            target = answer_with(size, "Cache-Control: max-age=600")
            for _ in range(3):
                assert lardd.get(target)[2] == content(size), size
        assert lardd.counter("LardSpliced") == 3
        assert lardd.counter("LardCacheStored") == 3
        assert lardd.counter("LardCacheHits") == 6
        assert len(lardd.backends[0].seen) == 3
        assert lardd.counter("LardAborted") == 0


def a_client_that_leaves_leaves_no_part_of_its_answer_in_the_cache():
    with cluster(1, "cache-size 8000000\ncache-object-max 3000000") as lardd:
        target = answer_with(2_500_000, "Cache-Control: max-age=600")
        with lardd.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            s.recv(1000)
        until(lambda: lardd.load() == 0, what="all load released")
        assert lardd.get(target)[2] == content(2_500_000)
        until(lambda: lardd.counter("LardCacheStored") == 1, what="an answer in the cache")
        assert lardd.get(target)[2] == content(2_500_000)


def who_takes_it_slowly_does_not_slow_the_cache_down():
    """The kernel passes it on at his pace; others are served long before he is."""
    with cluster(1, "cache-size 64000000\ncache-object-max 16000000\ncache-wait 120s\nclient-rate 0") as lardd:
        target = answer_with(9_000_000, "Cache-Control: max-age=600")
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", lardd.port))
            slow.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            stream = slow.makefile("rb", buffering=4096)
            assert stream.readline().startswith(b"HTTP/1.1 200")
            until(lambda: lardd.counter("LardSpliced") == 1, what="the kernel passes it on")
            for _ in range(2):
                assert lardd.get(target)[2] == content(9_000_000)
            assert len(lardd.backends[0].seen) == 1 and lardd.counter("LardCacheHits") == 2
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)      # and now he is fast
            while stream.readline().strip():
                pass
            assert stream.read(9_000_000) == content(9_000_000)
        assert lardd.counter("LardAborted") == 0


def a_truncated_answer_is_not_stored():
    with cluster(1, "cache-size 8000000") as lardd:
        backend = lardd.backends[0]
        target = answer_with(400_000, "Cache-Control: max-age=600")
        backend.cut = 300_000
        with lardd.connect() as s:
            s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            try:
                assert len(s.makefile("rb").read()) < 400_000
            except ConnectionResetError:
                pass
        backend.cut = None
        until(lambda: lardd.counter("LardCacheDropped") == 1, what="the end of the first")
        assert lardd.get(target)[2] == content(400_000)
        assert lardd.counter("LardCacheHits") == 0


def splice_min_of_nought_turns_it_off():
    with cluster(1, "splice-min 0") as lardd:
        assert lardd.get("/size/1000000")[2] == content(1_000_000)
        assert lardd.counter("LardSpliced") == 0


def what_comes_by_tls_is_not_spliced():
    with site() as s:
        for size in (200_000, 3_000_000):
            assert s.get(f"/size/{size}")[2] == content(size), size
            assert s.lardd.get(f"/size/{size}")[2] == content(size), size
        assert s.lardd.counter("LardSpliced") == 2     # what came beside it, in clear


def the_module_can_be_unloaded_afterwards():
    until(lambda: not subprocess.run(["rmmod", "sksplice"], check=False).returncode, what="its users' end")


if __name__ == "__main__":
    load()
    sys.exit(main([large_answers_are_spliced_and_small_ones_are_not,
                   pipelined_requests_on_one_connection_get_their_answers_in_order,
                   answers_that_are_not_framed_by_length_go_the_usual_way,
                   a_slow_reader_gets_everything, a_truncated_answer_is_not_passed_as_whole,
                   clients_that_leave_in_the_midst_cost_nothing,
                   the_cache_gets_a_copy_of_what_is_spliced,
                   a_client_that_leaves_leaves_no_part_of_its_answer_in_the_cache,
                   who_takes_it_slowly_does_not_slow_the_cache_down,
                   a_truncated_answer_is_not_stored,
                   splice_min_of_nought_turns_it_off, what_comes_by_tls_is_not_spliced,
                   the_module_can_be_unloaded_afterwards]))

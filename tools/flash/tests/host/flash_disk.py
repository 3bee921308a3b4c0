#!/usr/bin/env python3
# timeout: 600
"""flash's architectures and caches: each serves the same, and a slow disk stops nobody who does not need it."""
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import (FLASH, STATUS, Client, Server, counters, equal, helper_processes, main,  # noqa: E402
                       processes_with, spawner_of, wait_for)
from slowdisk import loop_waited, slow_disk      # noqa: E402

SEED = 1999
# Debian 13 has its /tmp in memory, of which nothing is evicted, and flash knows.
DISK = "/var/tmp"
SANITIZED = b"__asan_init" in open(FLASH, "rb").read() if os.path.exists(FLASH) else False


def every_architecture_serves_the_same():
    for args in ("amped", "sped", "mp --processes 3", "mt --threads 3", "amped --events io_uring",
                 "amped --workers 2 --reuseport off", "sped --transfer mmap --memory-file 0",
                 "mt --threads 3 --transfer mmap --memory-file 0",
                 "amped --transfer mmap --memory-file 0 --residency mincore",
                 "amped --residency cachestat --memory-file 0",
                 "amped --transfer mmap --memory-file 0 --residency clock",
                 "amped --transfer mmap --memory-file 0 --residency mlock --map-bytes 1m",
                 "amped --transfer mmap --memory-file 0 --residency mlock --map-bytes 1m --map-cache off",
                 "mt --threads 3 --transfer mmap --memory-file 0 --residency mlock --map-bytes 1m",
                 "amped --schedule small-first --memory-file 0",
                 "amped --helper-kind io_uring --memory-file 0 --helpers 2",
                 "amped --helper-kind io_uring --memory-file 0 --transfer mmap --events io_uring --chunk 512k",
                 "amped --helper-kind processes", "amped --helper-kind processes --memory-file 0",
                 "amped --helper-kind processes --memory-file 0 --transfer mmap --residency clock",
                 "amped --helper-kind processes --memory-file 0 --events io_uring --workers 2"):
        with Server("--architecture", *args.split()) as s:
            s.write("small", "x" * 500)
            s.write("large", bytes(range(256)) * 2000)
            s.start()
            for _ in range(2):
                c = s.client()
                for _ in range(2):
                    equal(c.get("/small").body, b"x" * 500, args)
                    equal(c.get("/large").body, bytes(range(256)) * 2000, args)
                equal(c.get("/none").status, 404, args)
                c.close()
            equal(s.stop(), 0, args)
            equal(s.stderr(), "", args)
            wait_for(lambda s=s: not processes_with(s.root))


def all_combinations_of_the_caches_work():
    for n in range(8):
        on = ["on" if n >> i & 1 else "off" for i in range(3)]
        with Server("--path-cache", on[0], "--header-cache", on[1], "--map-cache", on[2]) as s:
            s.write("a", "first")
            s.write("b", b"y" * 200000)
            s.start()
            c = s.client()
            for _ in range(3):
                equal((c.get("/a").body, c.get("/b").body), (b"first", b"y" * 200000), on)
            equal(s.stop(), 0)


def latency_of_warm_beside_cold(architecture, *args):
    """Longest wait for a warm file beside a cold one; for the cold one; longest loop turn."""
    with Server("--architecture", architecture, *args, "--stall-histogram", "on", config=STATUS,
                env=slow_disk(2500)) as s:
        s.write("warm", "warm")
        s.write("cold", b"c" * 150000)
        s.start()
        c = s.client()
        equal(c.get("/warm").body, b"warm")
        took = {}

        def cold():
            start = time.monotonic()
            equal(s.get("/cold").body, b"c" * 150000)
            took["cold"] = time.monotonic() - start
        t = threading.Thread(target=cold)
        t.start()
        worst = 0
        while t.is_alive():
            start = time.monotonic()
            equal(c.get("/warm").body, b"warm")
            worst = max(worst, time.monotonic() - start)
        t.join()
        return worst, took["cold"], len(counters(s)["stall_us_log2"]) - 1


def a_cold_file_does_not_delay_a_warm_one_in_amped():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    for kind in ("threads", "processes"):
        worst, cold, stall = latency_of_warm_beside_cold("amped", "--helper-kind", kind)
        assert cold > 2.4, (kind, cold)
        assert stall < 21, "%s: a turn of the loop took up to 2^%d us" % (kind, stall)
        assert worst < 2, "%s: warm %.3f s beside cold %.3f s" % (kind, worst, cold)
    return None


def a_cold_file_stops_everything_in_sped():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    worst, cold, stall = latency_of_warm_beside_cold("sped")
    assert stall >= 21, "no turn of the loop took longer than 2^%d us" % stall
    assert worst > 2, "the worst was only %.3f s beside %.3f s" % (worst, cold)
    return None


def one_read_serves_all_who_wait():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    for kind in ("threads", "processes"):
        with Server("--helper-kind", kind, config=STATUS, env=slow_disk()) as s:
            s.write("cold", b"c" * 120000)
            s.start()
            clients = [s.client().send("GET /cold HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(50)]
            for c in clients:
                equal(len(c.response().body), 120000)
            n = counters(s)
            equal((n["reads_helper"], n["sends_cold"], n["lookups_cold"]), (1, 0, 0), kind)
            equal(s.stop(), 0, kind)
    return None


def what_a_helper_still_reads_is_not_taken_for_there():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    with Server(config=STATUS, env=slow_disk(800, SLOW_LATE="1")) as s:
        s.write("cold", b"c" * 120000)
        s.start()
        ask = "GET /cold HTTP/1.1\r\nHost: t\r\n\r\n"
        first = s.client().send(ask)
        wait_for(lambda: counters(s)["residency_misses"] == 1)
        others = [s.client().send(ask) for _ in range(3)]
        for c in (first, *others):
            equal(len(c.response().body), 120000)
        n = counters(s)
        equal((n["reads_helper"], n["sends_cold"]), (1, 0))
        assert not loop_waited()
        equal(s.stop(), 0)
    return None


def what_was_evicted_while_a_client_was_slow_is_read_by_a_helper():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    with Server("--send-buffer", "32k", config=STATUS, env=slow_disk(600, SLOW_FORGET="1"), below=DISK) as s:
        s.write("cold", b"c" * 400000)
        s.start()
        c = s.client().send("GET /cold HTTP/1.1\r\nHost: t\r\n\r\n")
        wait_for(lambda: len(c.sock.recv(1 << 16, socket.MSG_PEEK)) > 10000)
        counters(s)     # which the loop answers when it has sent what the client takes
        equal(c.response().body, b"c" * 400000)
        n = counters(s)
        assert n["reads_helper"] > 4, "all was taken in one go"
        assert not loop_waited()
        equal(s.stop(), 0)
    return None


def what_is_evicted_between_the_test_and_the_send_is_not_waited_for():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    with Server("--residency", "preadv2", config=STATUS, env=slow_disk(600, SLOW_EVICT="1"), below=DISK) as s:
        s.write("cold", b"c" * 120000)
        s.start()
        equal(s.get("/cold").body, b"c" * 120000)
        n = counters(s)
        equal((n["reads_helper"], n["reads_again"], n["sends_cold"]), (2, 1, 0))
        assert n["sends_copied"], "sendfile was used where memory is short"
        assert not loop_waited()
        equal(s.stop(), 0)
    return None


def chunks_that_are_in_memory_go_together():
    size, rounds = 1 << 20, 20
    with Server("--send-buffer", "4m", config=STATUS) as s:
        s.write("warm", b"w" * size)
        s.start()
        c = s.client()
        ask = "GET /warm HTTP/1.1\r\nHost: t\r\n\r\n"
        for _ in range(5):      # until TCP's windows are open
            equal(len(c.send(ask).response().body), size)
        before = counters(s)["residency_tests"]
        for _ in range(rounds):
            equal(len(c.send(ask).response().body), size)
        tests = counters(s)["residency_tests"] - before
        # The client may be slow at times, never each time.
        assert rounds <= tests < 4 * rounds, f"{tests} tests for {rounds} files of eight chunks"
        equal(s.stop(), 0)
    return None


def a_helper_process_that_dies_gives_its_job_to_another():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    with Server("--helper-kind", "processes", "--helpers", "4", "--workers", "0", "--memory-file", "0",
                config=STATUS, env=slow_disk(1000)) as s:
        for i in range(8):
            s.write("cold%d" % i, b"c" * 120000)
        s.start()
        spawner = wait_for(lambda: spawner_of(s.proc.pid))
        equal(helper_processes().get(spawner, []), [], "helpers before there is work")
        clients = [s.client().send("GET /cold%d HTTP/1.1\r\nHost: t\r\n\r\n" % i) for i in range(8)]
        wait_for(lambda: len(helper_processes().get(spawner, [])) >= 3)
        for pid in helper_processes()[spawner][:2]:
            os.kill(pid, signal.SIGKILL)
        for c in clients:
            equal(len(c.response().body), 120000)
        n = counters(s)
        assert n["helpers_lost"] >= 1, n
        equal(n["sends_cold"], 0, "cold sends")
        assert len(helper_processes()[spawner]) <= 4, helper_processes()
        os.kill(spawner, signal.SIGKILL)     # the helpers that live go on
        equal(s.get("/cold0").status, 200)
        equal(s.stop(), 0)
        wait_for(lambda: spawner not in helper_processes())
    return None


def helpers_are_bounded_and_names_go_first():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    with Server("--helpers", "2", "--memory-file", "0", env=slow_disk()) as s:
        for i in range(6):
            s.write("cold%d" % i, b"c" * 120000)
        s.start()
        clients = [s.client().send("GET /cold%d HTTP/1.1\r\nHost: t\r\n\r\n" % i)
                   for i in range(6)]
        time.sleep(0.05)
        pid = subprocess.run(["pgrep", "-P", str(s.proc.pid)], stdout=subprocess.PIPE,
                             check=True).stdout.split()[0].decode()
        assert len(os.listdir("/proc/%s/task" % pid)) <= 3
        for c in clients:
            equal(len(c.response().body), 120000)
    return None


def small_files_are_read_before_large_ones_that_came_earlier():
    if SANITIZED:
        return "preloading and sanitizers do not mix"
    first = {}
    for order in ("fifo", "small-first"):
        # Two helpers, one of them kept for names: one read at a time.
        with Server("--helpers", "2", "--memory-file", "0", "--schedule", order, config=STATUS,
                    env=slow_disk(500)) as s:
            for i in range(3):
                s.write("large%d" % i, b"l" * 300000)
            s.write("small", b"s" * 110000)
            s.start()
            large = []
            for i in range(3):
                large.append(s.client().send("GET /large%d HTTP/1.1\r\nHost: t\r\n\r\n" % i))
                wait_for(lambda i=i: counters(s)["residency_misses"] > i)
            equal(len(s.get("/small").body), 110000)
            first[order] = counters(s)["reads_helper"]
            for c in large:
                equal(len(c.response().body), 300000)
    assert first["small-first"] < first["fifo"], "reads before the small file was there: %r" % first
    return None


def locked_memory_is_bounded_and_nothing_is_tested():
    if SANITIZED:
        return "sanitizers do not lock"
    with Server("--transfer", "mmap", "--memory-file", "0", "--residency", "mlock", "--map-bytes", "1m",
                "--workers", "0", config=STATUS) as s:
        for i in range(30):
            s.write("f%d" % i, b"x" * 100000)
        s.start()
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        for _ in range(2):
            for i in range(30):
                equal(len(s.get("/f%d" % i).body), 100000)
                n = counters(s)
                with open("/proc/%d/status" % s.proc.pid, encoding="ascii") as f:
                    locked = int(re.search(r"VmLck:\s+(\d+) kB", f.read()).group(1)) << 10
                equal(locked, n["locked_bytes"], "locked")
                assert locked <= 1 << 20, locked
        equal(n["residency_tests"], 0, "tests")
        if limit == resource.RLIM_INFINITY or limit >= 1 << 20 or os.geteuid() == 0:
            equal((n["lock_failures"], n["sends_cold"]), (0, 0), "failures")
            assert locked >= 900000, locked
    return None


def the_clock_says_what_is_in_memory_without_a_test():
    with Server("--transfer", "mmap", "--memory-file", "0", "--residency", "clock", config=STATUS) as s:
        for i in range(10):
            s.write("f%d" % i, b"x" * 300000)
        s.start()
        for _ in range(5):
            for i in range(10):
                equal(len(s.get("/f%d" % i).body), 300000)
        n = counters(s)
        equal((n["residency_tests"], n["sends_cold"], n["predict_faults"]), (0, 0, 0), "tests, cold sends, faults")
        equal(n["reads_helper"], 30, "helpers' reads, one a chunk")
        # They were just written: the reads found them in memory.
        assert n["predict_needless"] > 0, n


def a_file_cut_while_it_is_sent_ends_only_its_connection():
    for args in ((), ("--transfer", "mmap"), ("--architecture", "mt", "--threads", "3")):
        with Server(*args, "--send-buffer", "64k", config=STATUS) as s:
            path = s.write("f", b"z" * 8000000)
            s.write("other", "alive")
            s.start()
            c = Client(s.port)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            c.send("GET /f HTTP/1.1\r\nHost: t\r\n\r\n")
            c.more()
            os.truncate(path, 100000)
            assert len(c.rest()) < 8000000, args
            equal(s.get("/other").body, b"alive", args)
            equal(counters(s)["truncated"], 1, args)


def threads_share_caches_that_turn_over():
    """Caches too small for the files, which change meanwhile. Built with -fsanitize=thread it looks for races."""
    seconds, clients, files = float(os.environ.get("FLASH_SECONDS", "1")), 12, 60
    for args in ("--memory-file 0 --transfer mmap --map-bytes 1m --path-entries 20", "--memory-cache 512k",
                 "--header-cache off --map-cache off --path-entries 20"):
        with Server("--architecture", "mt", "--threads", "6", "--revalidate", "10ms", *args.split(),
                    config=STATUS) as s:
            sizes = [200 + 997 * i for i in range(files)]
            for i, size in enumerate(sizes):
                s.write("f%d" % i, b"%c" % (97 + i % 26) * size)
            s.start()
            end, wrong, asked = time.monotonic() + seconds / 3, [], [0] * clients

            def ask(number, s=s, args=args, sizes=sizes, end=end, wrong=wrong, asked=asked):
                try:
                    ask_until_the_end(number, s, args, sizes, end, wrong, asked)
                except (OSError, EOFError) as e:
                    wrong.append((args, repr(e)))

            def ask_until_the_end(number, s, args, sizes, end, wrong, asked):
                draw = random.Random(number)
                while (time.monotonic() < end or not asked[number]) and not wrong:
                    c = s.client()
                    for _ in range(draw.randrange(1, 6)):
                        i = draw.randrange(files)
                        body = c.get("/f%d" % i).body
                        if body != b"%c" % (97 + i % 26) * sizes[i]:
                            wrong.append((args, i, body[:60]))
                        if not draw.randrange(20):
                            c.get("/none%d" % i)
                            c.get("/status")
                        asked[number] += 1
                    c.close()

            threads = [threading.Thread(target=ask, args=(n,)) for n in range(clients)]
            for t in threads:
                t.start()
            draw = random.Random(SEED)
            while time.monotonic() < end:
                i = draw.randrange(files)
                os.replace(s.write("new", b"%c" % (97 + i % 26) * sizes[i]), os.path.join(s.root, "f%d" % i))
                time.sleep(0.005)
            for t in threads:
                t.join()
            equal(wrong, [])
            print("# %d requests on 6 threads, seed %d: %s" % (sum(asked), SEED, args))
            equal((s.stop(), s.stderr()), (0, ""))


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("latency_of_warm_beside_cold")])

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 300
# cpus: 2
"""The access log: what is written down, for whom, and that nobody waits for its reader."""
import contextlib
import errno
import json
import os
import select
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (Client, Device, Thread, body, claim, counted, equal, fails, main, same, site,  # noqa: E402
                  sleeps_in, ssp, unload, wait_for, wire)
import kit                                      # noqa: E402
import nets                                     # noqa: E402
import stall                                    # noqa: E402
from cgroup import Cgroup                       # noqa: E402

NOBODY = 65534
READ, POLL = 0, 7
LEAST, MOST = 1 << 16, 1 << 26


@contextlib.contextmanager
def log(size=LEAST):
    with Device() as device:
        device.log(size)
        yield device


@claim
def what_is_answered_is_written_down_as_it_came():
    for host in ("127.0.0.1", "::1"):
        with site(host) as (device, server), log() as own, Client(server.site) as client, counted(Logged=3, LogLost=0):
            device.put(server.site, "/a?b", b"x" * 100)
            fields = 'Referer: http://r/\r\nUser-Agent: "u"\r\n'
            for method in ("GET", "HEAD", "GET"):
                client.ask("/a?b", method=method, fields=fields)
                length = len(client.answer(method)[1])
                (record,) = own.records()
                same("request", record["request"], wire("/a?b", method=method, fields=fields))
                equal("client", record["client"], client.sock.getsockname()[:2])
                equal("port", record["port"], server.site[1])
                equal("body", record["body"], length)
                equal("more than the body", record["bytes"] > length + 50, True)
                equal("lost", record["lost"], 0)
                equal("now", abs(record["time"] - time.time()) < 60, True)
            # What the server answers, its own log has.
            client.get("/none")
            os.set_blocking(own.fd, False)
            fails(errno.EAGAIN, own.records)


@claim
def a_long_request_is_cut():
    with site() as (device, server), log() as own, Client(server.site) as client:
        device.put(server.site, "/a", b"x")
        fields = "X: " + "y" * 5000 + "\r\n"
        client.get("/a", fields=fields)
        (record,) = own.records()
        same("request", record["request"], wire("/a", fields=fields)[:2048])


@claim
def what_finds_no_room_is_counted_and_nobody_waits():
    with site() as (device, server), log() as own, Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        fields = "X: " + "y" * 3000 + "\r\n"
        total = 0
        # The second time the ring's end is amid a record.
        for rounds in range(2):
            with counted(Hits=40, LogLost=lambda n: n > 5):
                for _ in range(40):
                    equal("body", client.get("/a", fields=fields), b"kernel")
            got = own.records(10000) + own.records()
            equal("lost before", [record["lost"] for record in got], [0] * len(got))
            equal("nothing between", {record["request"] for record in got}, {wire("/a", fields=fields)[:2048]})
            client.get("/a")
            (record,) = own.records()
            total += len(got) + record["lost"]
            equal("lost", len(got) + record["lost"], 40)
            same("the next one", record["request"], wire("/a"))
        equal("all", total, 80)


@claim
def records_are_whole_while_four_clients_ask():
    with site() as (device, server), log() as own:
        device.put(server.site, "/a", b"x")
        stop, asked = threading.Event(), []

        def ask(number):
            count = 0
            with Client(server.site) as client:
                while not stop.is_set():
                    client.get("/a", fields=f"X: {number} {count} {'z' * (count * 7 % 400)}\r\n")
                    count += 1
            asked.append(count)
        clients = [Thread(ask, number) for number in range(4)]
        end, seen = time.monotonic() + kit.rounds(3, 10), [0] * 4
        lost, got = 0, 0

        def take(records):
            nonlocal lost, got
            for record in records:
                words = record["request"].split(b"X: ")[1].split()
                number, count = int(words[0]), int(words[1])
                same("request", record["request"],
                     wire("/a", fields=f"X: {number} {count} {'z' * (count * 7 % 400)}\r\n"))
                if count < seen[number]:
                    raise AssertionError(f"{count} of client {number} after {seen[number] - 1}")
                seen[number] = count + 1
                lost += record["lost"]
                got += 1
        while time.monotonic() < end:
            take(own.records(3000))
        stop.set()
        for client in clients:
            client.join()
        os.set_blocking(own.fd, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                take(own.records())
        with Client(server.site) as client:
            client.get("/a")
        (last,) = own.records()
        print(f"# {sum(asked)} requests, {got} records, {lost + last['lost']} lost")
        equal("all", got + lost + last["lost"], sum(asked))


@claim
def a_namespace_has_one_log_and_it_ends_with_its_file():
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        with log() as own:
            fails(errno.EBUSY, own.log)
            fails(errno.EBUSY, device.log)
            fails(errno.EINVAL, device.records)
            client.get("/a")
            fails(errno.EINVAL, own.records, 10)
            equal("it is still there", len(own.records()), 1)
            equal("rmmod", unload("afpa"), False)
        with counted(Logged=0):
            client.get("/a")
        with log() as own:
            os.set_blocking(own.fd, False)
            fails(errno.EAGAIN, own.records)
        for size in (0, LEAST // 2, LEAST + 4096, 2 * MOST):
            fails(errno.EINVAL, device.log, size)


@claim
def a_group_without_room_for_a_log_is_refused_and_not_killed():
    with Device() as device, Cgroup("memory") as group:
        group.write("memory.max", "40M")
        with group.member():
            fails(errno.ENOMEM, device.log, MOST)
        equal("killed", group.numbers("memory.events")["oom_kill"], 0)
        device.log(MOST)


@claim
def who_reads_waits_and_is_woken():
    with site() as (device, server), log() as own, Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        equal("nothing yet", ssp.events(own.fd), "")
        for call, function, value in ((READ, lambda: len(own.records()), 1),
                                      (POLL, lambda: ssp.wait_event(own.fd, select.POLLIN), select.POLLIN)):
            waiting = Thread(function)
            wait_for(f"system call {call}", lambda t=waiting, c=call: sleeps_in(t, c))
            begin = time.monotonic()
            client.get("/a")
            equal(f"of system call {call}", waiting.join(), value)
            # poll(2) looks once more when its time is over.
            if time.monotonic() - begin > ssp.PATIENCE / 2:
                raise AssertionError(f"system call {call} was not woken")


@claim
def a_reader_that_sleeps_on_its_memory_holds_up_nobody():
    with site() as (device, server), log() as own, Client(server.site) as client:
        device.put(server.site, "/a", body(100))
        client.get("/a")
        page = stall.Stall()
        held = Thread(stall.libc.read, own.fd, stall.ctypes.c_void_p(page.page), 4096)
        page.wait()
        with counted(Hits=200, LogLost=0):
            for _ in range(200):
                same("body", client.get("/a"), body(100))
        with log_of_another_namespace():
            pass
        page.fill()
        equal("one record, or more that had come", held.join() > 0, True)
        equal("the others", len(own.records()) + 1 >= 200, True)


@contextlib.contextmanager
def log_of_another_namespace():
    with contextlib.ExitStack() as stack:
        nets.add_namespace("afpalog")
        stack.callback(nets.delete_namespace, "afpalog")
        with nets.inside("afpalog"):
            own = stack.enter_context(log())
        yield own


@claim
def a_namespaces_log_has_its_own_requests_alone():
    with site() as (device, server), log_of_another_namespace() as other, log() as own, Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        client.get("/a")
        equal("own", len(own.records()), 1)
        os.set_blocking(other.fd, False)
        fails(errno.EAGAIN, other.records)


@claim
def who_may_not_administer_the_network_has_no_log():
    with Device() as device:
        pid = os.fork()
        if not pid:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            fails(errno.EPERM, device.log)
            fails(errno.EINVAL, device.records)
            os._exit(0)
        equal("status", os.waitpid(pid, 0)[1], 0)


@claim
def the_command_writes_lines_as_others_do():
    fields = 'Referer: http://r/\r\nUser-Agent: a "b" \\c\r\n'
    with site() as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"x" * 100)

        def line(method, *options):
            with subprocess.Popen(["flotilla", *options, "afpa", "log", "count", "1", "buffer", "64K"],
                                  stdout=subprocess.PIPE, text=True) as program:
                while program.poll() is None:
                    client.ask("/a", method=method, fields=fields)
                    client.answer(method)
                    time.sleep(0.05)
                equal("status", program.returncode, 0)
                return program.stdout.read()
        row = json.loads(line("GET", "-j"))
        names = ("client", "status", "body", "request", "host", "referer", "user_agent")
        equal("row", [row[name] for name in names],
              ["127.0.0.1", 200, 100, "GET /a HTTP/1.1", "h", "http://r/", 'a "b" \\c'])
        for method, size in (("GET", "100"), ("HEAD", "-")):
            text = line(method)
            equal("line", text[:15] + text[text.index("]"):],
                  f'127.0.0.1 - - [] "{method} /a HTTP/1.1" 200 {size} "http://r/" "a \\"b\\" \\\\c"\n')


main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# long: debug it takes two minutes there
"""Programs behind Flash-Lite: their pages go to the client uncopied, and they can do no harm."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["FLT_TOP"], "tools/flash/tests/lib"))
from flashtest import Server, equal, main, wait_for  # noqa: E402

COUNTERS = "/sys/kernel/debug/iolite/counters"
SIZES = (1, 300, 4096, 65536, 65537, 200000, 1000000)
COPIES = ("BytesCopiedSend", "BytesCopiedReceive", "BytesCopiedFile", "BytesCopiedInline")
MAPPINGS = ("PtesRead", "PtesFill", "WriteRevokes", "Zaps", "Seals", "ChunksMade", "Grants")
ROUNDS = 6
server = Server("--transfer", "iolite", "--workers", "1", config="""
cgi /cgi/ @DIR@/cgi
fastcgi /app/ exec:@DIR@/cgi/iol-fcgi 1
""")


def counters():
    """All of them."""
    with open(COUNTERS, encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def difference(before):
    """Of all counters."""
    return {name: value - before[name] for name, value in counters().items()}


def contents(size):
    """What iol-fcgi says."""
    return b"".join(b"%015d\n" % i for i in range(size // 16 + 1))[:size]


def prepare():
    """A program of iolite as CGI and as FastCGI."""
    subprocess.run("modprobe iolite; mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug",
                   shell=True, check=True)
    os.mkdir(os.path.join(server.dir, "cgi"))
    shutil.copy(shutil.which("iol-fcgi"), os.path.join(server.dir, "cgi"))
    server.start()


def ask(client, size, do="", path="/app/"):
    """One answer, checked."""
    r = client.get(f"{path}?size={size}&do={do}")
    equal(r.status, 200)
    equal(r.body == contents(size), True, f"{path} {size} {do}")


def answers_are_right():
    """By each way, by reference and by write(2)."""
    client = server.client(timeout=60)
    for do in ("", "copy"):
        for size in SIZES:
            ask(client, size, do)
            ask(client, size, do, "/cgi/iol-fcgi")
    client.close()


def nothing_but_headers_is_copied_and_no_mapping_changes():
    """A kept answer, sent again and again."""
    client = server.client(timeout=60)
    for size in (65536, 200000, 1000000):
        for _ in range(3):
            ask(client, size)
        before = counters()
        for _ in range(ROUNDS):
            ask(client, size)
        now = difference(before)
        copied = sum(now[name] for name in COPIES) / ROUNDS
        print(f"# {size} bytes: {copied:.0f} bytes of headers copied; mappings "
              + " ".join(f"{name}={now[name]}" for name in MAPPINGS))
        equal(now["BytesCopiedSend"], 0, "BytesCopiedSend")
        if copied > 800 + size / 100:
            raise AssertionError(f"{copied} bytes copied for {size}: {now}")
        if now["BytesByReference"] < 3 * size * ROUNDS:
            raise AssertionError(f"not by reference at each of three ends: {now}")
        for name in MAPPINGS:
            equal(now[name], 0, name)
    client.close()


def an_ordinary_program_is_copied_once_on_our_side():
    """From its pipe or socket into a buffer, and from there by reference."""
    client = server.client(timeout=60)
    for path in ("/app/", "/cgi/iol-fcgi"):
        ask(client, 200000, "copy", path)
        before = counters()
        ask(client, 200000, "copy", path)
        now = difference(before)
        if not 200000 <= now["BytesCopiedReceive"] < 202000 or now["BytesCopiedSend"]:
            raise AssertionError(f"{path}: {now}")
    client.close()


def slow_client(size):
    """One that has asked, and reads nothing before the server has all of the answer."""
    handled = counters()["BytesByReference"]
    client = server.client(timeout=60)
    client.send(f"GET /app/?size={size} HTTP/1.1\r\nHost: test\r\n\r\n")
    wait_for(lambda: counters()["BytesByReference"] >= handled + 3 * size, 30)
    return client


def fails_alone(do):
    """The program ends; who was served before it did has all, and the next is served again."""
    slow = slow_client(100000)
    victim = server.client(timeout=60)
    broken = False
    try:
        broken = victim.get(f"/app/?size=400000&do={do}").body != contents(400000)
    except (EOFError, ConnectionResetError):
        broken = True
    victim.close()
    equal(slow.response().body == contents(100000), True, "what was sent before")
    slow.close()
    client = server.client(timeout=60)
    wait_for(lambda: client.get("/app/?size=1").status == 200, 30)
    ask(client, 65536)
    client.close()
    return broken


def a_crash_in_the_middle_of_an_answer_hurts_nobody_else():
    """The client of that answer sees it end early."""
    equal(fails_alone("crash"), True, "told to the client")


def storing_into_what_was_sent_ends_the_program_and_changes_nothing():
    """It is told by a signal."""
    before = counters()["FaultsRefused"]
    equal(fails_alone("scribble"), False, "changed")
    equal(counters()["FaultsRefused"] > before, True, "refused")
    equal(server.stderr(), "", "what the program said")


def the_module_unloads():
    """With the server and its programs gone nothing of it is left."""
    equal(server.stop(), 0, "exit status")
    subprocess.run("for i in $(seq 300); do rmmod iolite 2>/dev/null && exit 0; sleep 0.1; done; exit 1",
                   shell=True, check=True)


prepare()
try:
    main([answers_are_right, nothing_but_headers_is_copied_and_no_mapping_changes,
          an_ordinary_program_is_copied_once_on_our_side,
          a_crash_in_the_middle_of_an_answer_hurts_nobody_else,
          storing_into_what_was_sent_ends_the_program_and_changes_nothing, the_module_unloads])
finally:
    server.remove()

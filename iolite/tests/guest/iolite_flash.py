#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# long: debug it takes two to four minutes there
"""Flash-Lite: the same bytes as any server sends, and none of them copied."""
import fcntl
import os
import random
import statistics
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.environ["FLT_TOP"], "tools/flash/tests/lib"))
from flashtest import Client, Server, equal, main, wait_for  # noqa: E402
from kit import free_memory                             # noqa: E402

COUNTERS = "/sys/kernel/debug/iolite/counters"
DISK = "/tmp/iolite.flash"
CLIENTS = 150
SIZES = (1, 300, 4096, 65536, 65537, 200000, 3000000)
server = Server("--transfer", "iolite", "--memory_file", "0", "--workers", "1")


def sh(command):
    """Runs it, and fails if it does."""
    subprocess.run(command, shell=True, check=True)


def counters():
    """All of them."""
    with open(COUNTERS, encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def contents(size):
    """What a file of this size has."""
    return random.Random(size).randbytes(size)


def prepare():
    """Files on a disk, young ones no more, and nothing of them in memory."""
    sh("modprobe -a loop ext4 iolite; mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; "
       f"truncate -s 64M {DISK} && mkfs.ext4 -q {DISK} && mount $(losetup -f --show {DISK}) {server.root}")
    for size in SIZES:
        server.write(f"f{size}", contents(size))
    time.sleep(0.1)
    sh("sync; echo 3 > /proc/sys/vm/drop_caches")
    server.start()


def all_files():
    """Each, in turn, on one connection."""
    client = server.client()
    for size in SIZES:
        equal(client.get(f"/f{size}").body == contents(size), True, f"/f{size}")
    client.close()


def files_come_out_right_and_from_the_disk_only_once():
    """The first time around they are read, by helpers."""
    all_files()
    before = counters()
    all_files()
    equal(counters()["FileMisses"], before["FileMisses"], "misses")


def no_byte_of_a_body_is_copied():
    """Headers go by value; all else is by reference."""
    all_files()
    before = counters()
    for _ in range(5):
        all_files()
    now = counters()
    for name in ("BytesCopiedSend", "BytesCopiedReceive", "BytesCopiedFile"):
        equal(now[name] - before[name], 0, name)
    equal(now["BuffersMade"], before["BuffersMade"], "buffers")
    copied = now["BytesCopiedInline"] - before["BytesCopiedInline"]
    requests = 5 * len(SIZES)
    print(f"# {copied / requests:.0f} bytes of header copied for each of {requests} requests")
    if not 100 < copied / requests < 512:
        raise AssertionError(f"{copied} bytes copied")
    equal(now["Seals"], before["Seals"], "seals")


def ranges_and_heads_are_right():
    """Parts of a file need no alignment."""
    client = server.client()
    body = contents(200000)
    for first, last in ((0, 0), (17, 70001), (65535, 65536), (199999, 199999)):
        got = client.get("/f200000", f"Range: bytes={first}-{last}")
        equal(got.status, 206)
        equal(got.body == body[first:last + 1], True, f"{first}-{last}")
    equal(client.get("/f200000", method="HEAD")["content-length"], "200000")
    client.close()


def a_change_is_seen():
    """An ordinary write to a cached file, and another that takes it back."""
    body = contents(65536)
    for first in (b"changed", body[:7]):
        with open(os.path.join(server.root, "f65536"), "r+b") as f:
            f.write(first)
        equal(server.get("/f65536").body == first + body[7:], True, "contents")


def a_slow_client_keeps_its_pages_while_others_are_served():
    """A body waits in the socket until the client reads on."""
    slow = server.client()
    slow.send("GET /f3000000 HTTP/1.1\r\nHost: test\r\n\r\n")
    for _ in range(3):
        all_files()
    equal(slow.response().body == contents(3000000), True, "what waited")
    slow.close()


def memory_of_slow_clients(port):
    """Kilobytes that the system has less while clients that have asked do not read.

    What the guest takes or gives back beside it is in one look or the other: the median of five."""
    return statistics.median(memory_of_clients_once(port) for _ in range(5))


def memory_of_clients_once(port):
    """Kilobytes by one look at the free memory before and after."""
    def arrived(client):
        size = fcntl.ioctl(client.sock, termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(size, sys.byteorder) > 32768

    clients = [Client(port, timeout=60) for _ in range(CLIENTS)]
    before = free_memory()
    for client in clients:
        client.send("GET /f65536 HTTP/1.1\r\nHost: test\r\n\r\n")
    wait_for(lambda: all(arrived(client) for client in clients), 60)
    used = (before - free_memory()) >> 10
    for client in clients:
        client.close()
    return used


def clients_that_do_not_read_cost_no_memory_for_what_waits():
    """Socket buffers refer to the pages of the file; where data is copied they hold it."""
    server.get("/f65536")
    with Server("--transfer", "mmap", "--memory_file", "0", "--workers", "1") as other:
        other.write("f65536", contents(65536))
        other.start()
        other.get("/f65536")
        copied = memory_of_slow_clients(other.port)
    referred = memory_of_slow_clients(server.port)
    print(f"# {CLIENTS} clients with 64 KB each on the way: {referred} KB by reference, {copied} KB with mmap")
    if copied < CLIENTS * 30 or referred > copied / 2:
        raise AssertionError("memory")


def the_module_unloads():
    """With the server gone nothing of it is left."""
    equal(server.stop(), 0, "exit status")
    sh(f"umount -d {server.root}; rm {DISK}; for i in $(seq 300); do rmmod iolite 2>/dev/null && exit 0; "
       "sleep 0.1; done; exit 1")


prepare()
try:
    main([files_come_out_right_and_from_the_disk_only_once, no_byte_of_a_body_is_copied,
          ranges_and_heads_are_right, a_change_is_seen,
          a_slow_client_keeps_its_pages_while_others_are_served,
          clients_that_do_not_read_cost_no_memory_for_what_waits, the_module_unloads])
finally:
    server.remove()

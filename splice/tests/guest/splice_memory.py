#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""When TCP has no memory, and what a transfer holds of it."""
import contextlib
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (AUTORELEASE, BIDIR, KEEPCOPY, Device, Proxy, Thread, body, claim, connection,  # noqa: E402
                 main, recv_exactly, same)

PAIRS = 8
SIZE = 300000


@contextlib.contextmanager
def tcp_mem(pages):
    name = "/proc/sys/net/ipv4/tcp_mem"
    with open(name, encoding="ascii") as f:
        before = f.read()

    def put(text):
        with open(name, "w", encoding="ascii") as f:
            f.write(text)
    put(f"{pages} {pages} {pages}")
    try:
        yield
    finally:
        put(before)


def hungry(flags, pages):
    """All bytes arrive in the end, and the machine lives while there is no memory for them."""
    device = Device()
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy()) for _ in range(PAIRS)]
        for proxy in proxies:
            device.splice(proxy.src, proxy.dst, flags=flags | AUTORELEASE)
        sent = body(SIZE)
        with tcp_mem(pages):
            senders = [Thread(p.server.sendall, sent) for p in proxies]
            # The clients do not read, so that the sockets fill up to where memory ends.
            for _ in range(20):
                time.sleep(0.05)
        if flags & KEEPCOPY:
            copies = [Thread(recv_exactly, p.src, SIZE) for p in proxies]
        for proxy in proxies:
            same("what the client got", recv_exactly(proxy.client, SIZE), sent)
        for thread in senders:
            thread.join()
        if flags & KEEPCOPY:
            for thread in copies:
                same("the copy", thread.join(), sent)
    device.close()


@claim
def without_memory_for_tcp_a_transfer_waits_and_goes_on():
    for pages in (1, 40, 200):
        hungry(0, pages)


@claim
def without_memory_for_tcp_a_copy_waits_and_goes_on():
    for pages in (1, 40, 200):
        hungry(KEEPCOPY, pages)


@claim
def without_memory_for_tcp_both_ways_wait_and_go_on():
    for pages in (1, 40, 200):
        hungry(BIDIR, pages)


def free_kb():
    with open("/proc/meminfo", encoding="ascii") as f:
        fields = dict(line.split(":") for line in f)
    return int(fields["MemFree"].split()[0])


@claim
def a_byte_that_waits_holds_no_more_than_what_is_charged_for_it():
    """Each byte lies in a 32 KB page of its own, all of which would be held by a reference."""
    count = 3000
    device = Device()
    with Proxy() as p:
        p.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        far, near = connection()
        device.splice(p.src, p.dst, flags=AUTORELEASE)
        junk = b"j" * 32768
        # What the rest of this costs is spent before the measurement.
        for _ in range(200):
            far.sendall(junk)
            recv_exactly(near, len(junk))
        before = free_kb()
        for _ in range(count):
            p.server.sendall(b"x")
            far.sendall(junk)
            recv_exactly(near, len(junk))
        held = before - free_kb()
        print(f"# {count} bytes hold {held} KB", flush=True)
        if held > count * 32 // 4:
            raise AssertionError(f"{count} bytes hold {held} KB")
        same("bytes", recv_exactly(p.client, count), b"x" * count)
        far.close()
        near.close()
    device.close()


if __name__ == "__main__":
    main()

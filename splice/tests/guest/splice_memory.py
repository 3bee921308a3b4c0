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
from ssp import (ACTIVE, AUTORELEASE, BIDIR, KEEPCOPY, Device, Proxy, Thread, body, claim, connection,  # noqa: E402
                 counters, equal, main, recv_exactly, same, wait_for)
from kit import free_memory  # noqa: E402

PAIRS = 8
SIZE = 300000
SO_SNDBUFFORCE = 32


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


def stuff(sock, size):
    """Fills the queue of a socket whose peer does not read; none of what follows leaves it."""
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)
    sock.sendall(b"f" * size)


@claim
def a_send_for_which_there_is_no_memory_ends_and_is_tried_again():
    """TCP refuses what is less than the program's own SO_SNDBUF. It asks for ever if it is told the wrong error."""
    device = Device()
    sent = body(20000)
    with Proxy() as p, Proxy() as ballast:
        p.dst.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        p.server.sendall(sent)
        wait_for("bytes", lambda: len(p.src.recv(65536, socket.MSG_PEEK)) == len(sent))
        # A processor has a megabyte to itself before it is counted.
        stuff(ballast.dst, 8 << 20)
        before = counters()["SpliceNoMemory"]
        with tcp_mem(1):
            answer = Thread(device.splice, p.src, p.dst, None, AUTORELEASE).join()
            equal("status, moved", (answer.status, answer.moved01), (ACTIVE, 0))
            wait_for("it is tried again", lambda: counters()["SpliceNoMemory"] > before + 1)
            equal("error", device.result(p.src).error, 0)
        same("in the end", recv_exactly(p.client, len(sent)), sent)
    device.close()


def waiting_holds(pieces, size, packet):
    """KB that so many pieces hold in a queue; each lies in 32 KB of its own, which a reference would hold."""
    device = Device()
    junk, full = b"j" * (32768 - size), 1 << 20
    with Proxy() as p:
        far, near = connection()
        stuff(p.dst, full)
        device.splice(p.src, p.dst, flags=AUTORELEASE)
        # What the rest of this costs is spent before the measurement.
        for _ in range(200):
            far.sendall(junk)
            recv_exactly(near, len(junk))
        before = free_memory()
        for i in range(pieces):
            p.server.send(b"x" * size, 0 if i % packet == packet - 1 else socket.MSG_MORE)
            far.sendall(junk)
            recv_exactly(near, len(junk))
        wait_for("all is in the queue", lambda: device.result(p.src).moved01 == pieces * size)
        held = (before - free_memory()) >> 10
        print(f"# {pieces} pieces of {size} bytes hold {held} KB", flush=True)
        same("bytes", recv_exactly(p.client, full + pieces * size), b"f" * full + b"x" * pieces * size)
        far.close()
        near.close()
    device.close()
    return held


@claim
def what_waits_holds_no_more_than_what_is_charged_for_it():
    # Alone in a packet, and with others.
    for size, packet in ((1, 1), (400, 10)):
        held = waiting_holds(2000, size, packet)
        if held > 2000 * 32 // 4:
            raise AssertionError(f"2000 pieces of {size} bytes hold {held} KB")


if __name__ == "__main__":
    main()

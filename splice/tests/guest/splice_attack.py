#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""A user of the group against the machine and against himself: sockets that become others in the midst,
thousands that wait for time, several users in one circle, a memory cgroup, threads that do everything.

FLT_SECONDS of the threads and FLT_SEED are for long runs.
"""
import contextlib
import ctypes
import errno
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, BIDIR, DONE, KEEPCOPY, Device, Proxy, Thread, claim, connection,  # noqa: E402
                 counters, equal, fails, listener, main, recv_exactly, reset, same, wait_for)
from cgroup import Cgroup  # noqa: E402
from kit import free_memory, rounds  # noqa: E402

NOBODY = 65534
SECONDS = float(os.environ.get("FLT_SECONDS", 4))
SEED = int(os.environ.get("FLT_SEED", 20261124))
libc = ctypes.CDLL(None, use_errno=True)


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(str(text))


@contextlib.contextmanager
def parameter(name, value):
    path = f"/sys/module/sksplice/parameters/{name}"
    with open(path, encoding="ascii") as f:
        before = f.read().strip()
    put(path, value)
    try:
        yield
    finally:
        put(path, before)


@contextlib.contextmanager
def user(uid=NOBODY):
    """The device was opened by root; the calls are made by a user without rights."""
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def disconnect(sock):
    """connect() to no address: TCP gives the connection up, the descriptor stays."""
    nowhere = ctypes.create_string_buffer(16)
    if libc.connect(sock.fileno(), nowhere, 16):
        raise OSError(ctypes.get_errno(), "connect")


def free(device):
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def a_socket_that_is_disconnected_has_left_its_transfer():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY):
            device = Device()
            with Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                p.server.sendall(b"before")
                equal("before", recv_exactly(p.client, 6), b"before")
                mine, other = (p.src, p.dst) if which == "src" else (p.dst, p.src)
                disconnect(mine)
                equal("its own status", device.result(mine).status, DONE)
                if flags & KEEPCOPY and which == "dst":
                    equal("the copy", recv_exactly(p.src, 6), b"before")
                    p.server.shutdown(socket.SHUT_WR)
                else:
                    equal("status", device.result(other).status, DONE)
                # What it becomes is another connection, which nothing of the old one reaches.
                with contextlib.closing(listener()) as ear:
                    mine.connect(ear.getsockname())
                    far = ear.accept()[0]
                    for one, two in ((far, mine), (mine, far)):
                        one.sendall(b"after")
                        equal("after", recv_exactly(two, 5), b"after")
                    far.close()
            free(device)


@claim
def a_reset_that_is_passed_on_is_not_for_the_next_connection():
    # The other end is reset by a worker, which may be about to do it when the program is gone already.
    for _ in range(rounds(400, 150)):
        device = Device()
        with Proxy() as p, contextlib.closing(listener()) as ear:
            device.splice(p.src, p.dst, flags=BIDIR)
            disconnect(p.dst)
            p.dst.connect(ear.getsockname())
            far = ear.accept()[0]
            with contextlib.closing(far):
                for one, two in ((far, p.dst), (p.dst, far)):
                    one.sendall(b"after")
                    equal("after", recv_exactly(two, 5), b"after")
        free(device)


@claim
def a_reset_of_the_source_is_no_error_of_the_destination_s_next_connection():
    device = Device()
    with Proxy() as p:
        device.splice(p.src, p.dst, flags=KEEPCOPY)
        p.server.sendall(b"before")
        equal("before", recv_exactly(p.client, 6), b"before")
        disconnect(p.dst)
        with contextlib.closing(listener()) as ear:
            p.dst.connect(ear.getsockname())
            far = ear.accept()[0]
            equal("the copy", recv_exactly(p.src, 6), b"before")
            reset(p.server)
            wait_for("the end", lambda: device.info()["active"] == 0)
            equal("error", p.dst.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            far.sendall(b"after")
            equal("after", recv_exactly(p.dst, 5), b"after")
            far.close()
    free(device)


@claim
def a_destination_that_left_is_in_another_transfer_when_the_old_one_ends():
    device = Device()
    with Proxy() as old, Proxy() as new, contextlib.closing(listener()) as ear:
        device.splice(old.src, old.dst, flags=KEEPCOPY)
        old.server.sendall(b"before")
        equal("before", recv_exactly(old.client, 6), b"before")
        disconnect(old.dst)
        old.dst.connect(ear.getsockname())
        far = ear.accept()[0]
        device.splice(new.src, old.dst, limit=10)
        new.server.sendall(b"first")
        equal("first", recv_exactly(far, 5), b"first")
        equal("the copy", recv_exactly(old.src, 6), b"before")
        reset(old.server)
        wait_for("the old one's end", lambda: device.info()["active"] == 1)
        equal("status", device.result(old.dst).status, ACTIVE)
        new.server.sendall(b"after")
        equal("after", recv_exactly(far, 5), b"after")
        wait_for("the new one's end", lambda: device.result(old.dst).cause == "limit")
        device.unsplice(new.src, old.dst)
        far.close()
    free(device)


@contextlib.contextmanager
def no_time_left(device):
    """The user's share is used up by a stream that does not end, so that what is late comes late."""
    with Proxy() as p, parameter("user_share", 1):
        over = []

        def send():
            while not over:
                p.server.sendall(b"s" * 65536)
            p.server.close()

        def drain():
            while p.client.recv(1 << 18):
                pass

        with user():
            device.splice(p.src, p.dst, flags=AUTORELEASE)
        ends = [Thread(send), Thread(drain)]
        before = counters()["SplicePaused"]
        wait_for("the share is used up", lambda: counters()["SplicePaused"] > before + 10)
        try:
            yield
        finally:
            over.append(True)
            put("/sys/module/sksplice/parameters/user_share", 0)
            ends[0].join()
            wait_for("the end of the stream", lambda: device.result(p.dst).status == DONE)
            p.dst.close()
            ends[1].join()


@claim
def a_socket_that_becomes_a_listener_forwards_nothing_and_accepts():
    """No work item is there in time to end the transfer: whoever disconnects does."""
    device = Device()
    with no_time_left(device):
        for _ in range(10):
            with Proxy() as p:
                with user():
                    device.splice(p.src, p.dst)
                disconnect(p.src)
                equal("status", device.result(p.dst).status, DONE)
                p.src.bind(("127.0.0.1", 0))
                p.src.listen(4)
                far = socket.create_connection(p.src.getsockname())
                near = p.src.accept()[0]
                far.sendall(b"hello")
                equal("hello", recv_exactly(near, 5), b"hello")
                far.close()
                near.close()
    free(device)


@claim
def a_circle_that_several_users_close_is_refused_to_the_last():
    device = Device()
    links = [connection() for _ in range(3)]
    for number, ((_, near), (far, _)) in enumerate(zip(links, links[1:])):
        with user(NOBODY - number):
            device.splice(near, far)
    with user(NOBODY - 2):
        fails(errno.ELOOP, device.splice, links[-1][1], links[0][0])
    links[0][0].sendall(b"through")
    equal("through", recv_exactly(links[-1][1], 7), b"through")
    for link in links:
        for sock in link:
            sock.close()
    free(device)


@claim
def spliced_sockets_that_only_a_queue_holds_end_with_it():
    """The descriptors are in flight: first with somebody who may take them, then in a circle that is garbage."""
    for garbage in (False, True):
        device = Device()
        with Proxy() as p:
            device.splice(p.src, p.dst)
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            socket.send_fds(one, [b"x"], [p.src.fileno(), p.dst.fileno()] + [other.fileno()] * garbage)
            p.src.close()
            p.dst.close()
            p.server.sendall(b"goes on")
            equal("goes on", recv_exactly(p.client, 7), b"goes on")
            equal("active", device.info()["active"], 1)
            one.close()
            other.close()
            for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM):
                sock.close()                                    # the collector looks
            wait_for("the end", lambda: device.info()["active"] == 0)
            equal("the client's end", p.client.recv(1), b"")
        free(device)


# TCP_ZEROCOPY_RECEIVE of getsockopt(2); nothing is mapped, all is copied.
TCP_ZEROCOPY_RECEIVE = 35
ZEROCOPY = struct.Struct("=QIIIiQiIQQII")


def zerocopy_receive(sock, length=4096):
    """Bytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    data, size = ctypes.create_string_buffer(length), ctypes.c_uint(ZEROCOPY.size)
    args = bytearray(ZEROCOPY.pack(0, 0, 0, 0, 0, ctypes.addressof(data), length, 0, 0, 0, 0, 0))
    raw = (ctypes.c_char * len(args)).from_buffer(args)
    if libc.getsockopt(sock.fileno(), socket.IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, raw, ctypes.byref(size)):
        raise OSError(ctypes.get_errno(), "TCP_ZEROCOPY_RECEIVE")
    return data.raw[:max(ZEROCOPY.unpack(args)[6], 0)]


@claim
def the_source_is_not_read_by_getsockopt_either():
    device = Device()
    for flags, error, size in ((0, errno.EBUSY, 100000), (KEEPCOPY, errno.EOPNOTSUPP, 1000)):
        with Proxy(sndbuf=4096) as p:
            p.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            # It works on a socket that is nobody's.
            p.server.sendall(b"before")
            select.select([p.src], [], [], 30)
            same("read", zerocopy_receive(p.src), b"before")
            device.splice(p.src, p.dst, limit=100000, flags=flags)
            sender = Thread(p.server.sendall, b"z" * size)
            for _ in range(20):
                fails(error, zerocopy_receive, p.src)
                time.sleep(0.02)
            same("all", recv_exactly(p.client, size), b"z" * size)
            sender.join()
    free(device)


@claim
def what_was_peeked_at_and_then_forwarded_is_peeked_at_no_more():
    """SO_PEEK_OFF: as when it had been received."""
    device = Device()
    with Proxy() as p:
        p.src.setsockopt(socket.SOL_SOCKET, 42, 0)
        p.server.sendall(b"A" * 100 + b"BCD")
        same("peeked", recv_peek(p.src, 100), b"A" * 100)
        device.splice(p.src, p.dst, limit=100)
        same("forwarded", recv_exactly(p.client, 100), b"A" * 100)
        same("peeked", recv_peek(p.src, 3), b"BCD")
    free(device)


def recv_peek(sock, length):
    return sock.recv(length, socket.MSG_PEEK | socket.MSG_WAITALL)


@claim
def the_largest_limit_is_one_that_is_never_reached():
    device = Device()
    with Proxy() as p:
        device.splice(p.src, p.dst, limit=2 ** 64 - 1)
        p.server.sendall(b"l" * 100000)
        same("all", recv_exactly(p.client, 100000), b"l" * 100000)
        result = device.unsplice(p.src, p.dst)
        equal("cause, moved", (result.cause, result.moved01), ("unspliced", 100000))
    free(device)


WAITING = 1500
# If each of so many looked in each window, that would be far more than the turns allow.
ENOUGH = 500


@claim
def transfers_that_wait_for_time_look_in_turns_and_end():
    """If each looked in each window, looking would take a processor, and nobody would pay."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
    device = Device()
    sent = b"w" * 20000
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy()) for _ in range(WAITING)]
        with user():
            for p in proxies:
                device.splice(p.src, p.dst, flags=AUTORELEASE, limit=len(sent))
        with no_time_left(device):
            for p in proxies:
                p.server.sendall(sent)
            before, begin = counters()["SplicePaused"], time.monotonic()
            time.sleep(0.5)
            after, end = counters()["SplicePaused"], time.monotonic()
            looks = (after - before) / (end - begin)
            waiting = device.info()["active"]
        print(f"# {looks:.0f} looks a second, {waiting} transfers wait", flush=True)
        if waiting < ENOUGH:
            raise AssertionError(f"only {waiting} had to wait: nothing is shown")
        # Windows are of 48 to 50 ms; 256 of all look in each.
        if not 0 < looks < 21 * 300:
            raise AssertionError(f"{looks:.0f} looks a second of {waiting}")
        for p in proxies:
            same("all", recv_exactly(p.client, len(sent)), sent)
    free(device)


def hoard(device, say):
    """As many copies that nobody reads as there is memory for."""
    proxies = []
    for _ in range(200):
        p = Proxy()
        device.splice(p.src, p.dst, flags=KEEPCOPY, max2cache=1 << 30)
        for sock in p.socks:
            sock.setblocking(False)
        proxies.append(p)
    for _ in range(20):
        for p in proxies:
            with contextlib.suppress(BlockingIOError):
                while True:
                    p.server.send(b"h" * 65536)
            with contextlib.suppress(BlockingIOError):
                while True:
                    p.client.recv(1 << 20)
    os.write(say, b"x")
    signal.pause()


@claim
def a_memory_cgroup_bounds_what_its_transfers_hold_and_gets_it_back():
    device = Device()
    with Cgroup("memory") as group:
        group.write("memory.max", "48M")
        hear, say = os.pipe()
        before = free_memory("MemAvailable")
        pid = os.fork()
        if not pid:
            group.join()
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            try:
                hoard(device, say)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# hoard: {error!r}", flush=True)
            os._exit(1)
        os.close(say)
        # It has all that it can get, or its own group has killed it for that, which is an answer, too.
        held = 0
        while not select.select([hear], [], [], 0.05)[0]:
            held = max(held, before - free_memory("MemAvailable"))
        held = max(held, before - free_memory("MemAvailable"))
        print(f"# {held >> 10} KB were held at most, {device.info()['active']} transfers", flush=True)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(hear)
        if held > (48 << 20) * 2:
            raise AssertionError(f"a group of 48 MB holds {held >> 10} KB")
        wait_for("the group pays for no socket", lambda: group.sock() == 0)
    free(device)


def mischief(device, socks, ear, seed, over):
    """Everything that a program may do to sockets, in any order; what is refused is refused."""
    rnd = random.Random(seed)
    address = ear.getsockname()

    def connect(sock):
        sock.setblocking(False)
        sock.connect(address)
        with contextlib.suppress(BlockingIOError):
            ear.accept()[0].close()

    acts = (
        lambda s, t: device.splice(s, t, flags=rnd.choice((0, AUTORELEASE, BIDIR, KEEPCOPY)),
                                   data=b"h" * rnd.choice((0, 9))),
        lambda s, t: device.splice(s, t, limit=rnd.randrange(1 << 16), flags=rnd.choice((0, KEEPCOPY))),
        lambda s, t: device.unsplice(s, t),
        lambda s, t: device.result(s),
        lambda s, t: disconnect(s),
        lambda s, t: s.listen(4),
        lambda s, t: connect(s),
        lambda s, t: s.shutdown(rnd.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR))),
        lambda s, t: s.send(b"m" * rnd.randrange(1, 70000), socket.MSG_DONTWAIT),
        lambda s, t: s.send(b"u", socket.MSG_OOB | socket.MSG_DONTWAIT),
        lambda s, t: s.recv(1 << 16, socket.MSG_DONTWAIT),
        lambda s, t: s.recv(1 << 10, socket.MSG_DONTWAIT | socket.MSG_PEEK),
        lambda s, t: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, rnd.randrange(1, 9999)),
        lambda s, t: select.select([s], [t], [s], 0),
        lambda s, t: os.close(os.dup(s.fileno())),
        lambda s, t: s.accept()[0].close(),
    )
    count = 0
    while not over:
        with contextlib.suppress(OSError, BlockingIOError):
            count += 1
            rnd.choice(acts)(*rnd.sample(socks, 2))
    return count


@claim
def threads_that_do_everything_to_the_same_sockets_leave_nothing():
    device, over = Device(), []
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy()) for _ in range(4)]
        ear = stack.enter_context(contextlib.closing(listener()))
        ear.setblocking(False)
        socks = [sock for p in proxies for sock in p.socks]
        for sock in socks:
            sock.setblocking(False)
        with user():
            threads = [Thread(mischief, device, socks, ear, SEED + n, over) for n in range(4)]
            time.sleep(SECONDS)
            over.append(True)
            calls = sum(thread.join() for thread in threads)
    print(f"# {calls} calls, seed {SEED}", flush=True)
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    # The machine still does what it should.
    with Proxy() as p:
        device.splice(p.src, p.dst, limit=5)
        p.server.sendall(b"sound")
        equal("sound", recv_exactly(p.client, 5), b"sound")
    free(device)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes four minutes there
# timeout: 180
# cpus: 2
"""Two CPUs that forward in opposite directions, many transfers at once, threads that fight for one
socket, and the module coming and going under traffic.

FLT_MEGABYTES each way and connection, FLT_TRANSFERS at once (10000 wants 2 GB), FLT_ROUNDS of the
threads, FLT_UNLOADS and FLT_SEED are for long runs.
"""
import contextlib
import errno
import os
import random
import resource
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, BIDIR, PATIENCE, Device, Proxy, Thread, body,  # noqa: E402
                 claim, counters, equal, listener, load, main, recv_exactly, same, unload, wait_event, wait_for)

MEGABYTES = int(os.environ.get("FLT_MEGABYTES", 4))
TRANSFERS = int(os.environ.get("FLT_TRANSFERS", 200))
ROUNDS = int(os.environ.get("FLT_ROUNDS", 100))
UNLOADS = int(os.environ.get("FLT_UNLOADS", 10))
SEED = int(os.environ.get("FLT_SEED", 20261121))
PAIRS = 4
STEP = 1 << 16


def child(function, *args):
    """A process; its exit status says whether `function` was content."""
    pid = os.fork()
    if pid:
        return pid
    try:
        function(*args)
        os._exit(0)
    except BaseException as error:  # pylint: disable=broad-except
        print(f"# {function.__name__}: {error!r}", flush=True)
    os._exit(1)


def join(pids):
    bad = 0
    for pid in pids:
        bad += os.waitpid(pid, 0)[1] != 0
    equal("processes that failed", bad, 0)


def both_ways(cpu, socks, out, into, length):
    """Sends and receives on all sockets at once; all of them carry the same."""
    os.sched_setaffinity(0, {cpu % os.cpu_count()})
    poll = select.poll()
    state = {}
    for sock in socks:
        sock.setblocking(False)
        state[sock.fileno()] = [sock, 0, 0]
        poll.register(sock, select.POLLIN | select.POLLOUT)
    while state:
        ready = poll.poll(PATIENCE * 1000)
        if not ready:
            raise AssertionError(f"stalled at {[s[1:] for s in state.values()]} of {length}")
        for fd, bits in ready:
            entry = state[fd]
            sock, sent, got = entry
            if bits & select.POLLIN:
                part = sock.recv(STEP)
                at = got % len(into)
                if part != (into + into)[at:at + len(part)] or not part:
                    raise AssertionError(f"wrong or no bytes at {got}")
                entry[2] += len(part)
            if bits & select.POLLOUT and sent < length:
                at = sent % len(out)
                try:
                    entry[1] += sock.send(out[at:at + min(STEP, length - sent)])
                except BlockingIOError:
                    pass
            if entry[1] == length:
                poll.modify(sock, select.POLLIN)
            if entry[1:] == [length, length]:
                poll.unregister(sock)
                del state[fd]


@claim
def two_cpus_that_forward_in_opposite_directions_do_not_lock_each_other():
    dev = Device()
    proxies = [Proxy(((4, 4), (6, 4), (4, 6), (6, 6))[i % 4]) for i in range(PAIRS)]
    up, down = body(STEP, SEED), body(STEP, SEED + 1)
    length = MEGABYTES << 20
    before = counters()
    for p in proxies:
        equal("status", dev.splice(p.src, p.dst, flags=BIDIR).status, ACTIVE)
    join([child(both_ways, 0, [p.client for p in proxies], up, down, length),
          child(both_ways, 1, [p.server for p in proxies], down, up, length)])
    for p in proxies:
        result = dev.unsplice(p.src, p.dst)
        equal("moved", (result.moved01, result.moved10), (length, length))
        p.still_ordinary()
        p.__exit__()
    after = counters()
    for name in ("SpliceBytesSoftirq", "SpliceBytesWorker", "SpliceTrylockMissed",
                 "SpliceSocketOwned", "SpliceWorkSlow"):
        print("#", name, after[name] - before[name])
    dev.close()


def connections(number):
    """Pairs of ends, the proxy's second."""
    with contextlib.closing(listener(backlog=4096)) as ear:
        for _ in range(number):
            far = socket.create_connection(ear.getsockname())
            yield far, ear.accept()[0]


def fast(number, act):
    """Seconds that the quickest of eight parts of `number` calls of `act` took, for each call."""
    part = max(number // 8, 1)
    best = float("inf")
    for first in range(0, number, part):
        begin = time.monotonic()
        for i in range(first, min(first + part, number)):
            act(i)
        best = min(best, (time.monotonic() - begin) / part)
    return best * 1e6


@claim
def many_transfers_are_under_way_at_once():
    most = max(4 * TRANSFERS + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    dev = Device()
    ends = list(zip(connections(TRANSFERS), connections(TRANSFERS)))
    before = dev.info()["active"]

    def begin(i):
        (_, src), (_, dst) = ends[i]
        equal("status", dev.splice(src, dst, limit=1, flags=AUTORELEASE).status, ACTIVE)

    def ask(i):
        equal("moved", dev.result(ends[i][0][1]).moved01, 0)

    print(f"# {TRANSFERS} transfers: {fast(TRANSFERS, begin):.0f} us to begin one", flush=True)
    equal("under way", dev.info()["active"] - before, TRANSFERS)
    print(f"# {fast(TRANSFERS, ask):.0f} us to ask how one goes", flush=True)
    for i, ((server, _), _) in enumerate(ends):
        server.sendall(bytes((i & 255,)))
    for i, (_, (client, dst)) in enumerate(ends):
        wait_event(dst, select.POLLOUT)
        equal("byte", recv_exactly(client, 1), bytes((i & 255,)))
    wait_for("all to end", lambda: dev.info()["active"] == before)
    for end in ends:
        for far, near in end:
            far.close()
            near.close()
    dev.close()


def refused(*numbers):
    """A call that the others' doings may forbid."""
    @contextlib.contextmanager
    def may_fail():
        try:
            yield
        except OSError as error:
            if error.errno not in numbers:
                raise
    return may_fail()


@claim
def threads_that_fight_for_one_socket_lose_no_byte():
    dev, over = Device(), []
    length = ROUNDS << 13
    sent = random.Random(SEED).randbytes(length)
    kept, passed, taken = bytearray(), bytearray(), [0]
    with Proxy() as p:
        p.src.settimeout(0.02)

        def splice(seed):
            rnd = random.Random(seed)
            while not over:
                with refused(errno.EBUSY, errno.EAGAIN):
                    dev.splice(p.src, p.dst, limit=rnd.randrange(1 << 15), flags=AUTORELEASE * rnd.randrange(2))

        def take_back():
            while not over:
                with refused(errno.ENOENT):
                    dev.unsplice(p.src, p.dst)
                    taken[0] += 1

        def read():
            while not over:
                with refused(errno.EBUSY), contextlib.suppress(TimeoutError, BlockingIOError):
                    kept.extend(p.src.recv(100))

        def look():
            while not over:
                select.select([p.src], [p.dst], [], 0)
                dev.result(p.src)

        def drain():
            while len(kept) + len(passed) < length:
                if select.select([p.client], [], [], 0.05)[0]:
                    passed.extend(p.client.recv(STEP))

        workers = [Thread(f, *args) for f, *args in ((splice, 1), (splice, 2), (take_back,), (read,), (look,))]
        ends = [Thread(p.server.sendall, sent), Thread(drain)]
        try:
            for end in ends:
                end.join()
        finally:
            over.append(True)
        for worker in workers:
            worker.join()
        with refused(errno.ENOENT):
            dev.unsplice(p.src, p.dst)
        same("bytes of both ways, sorted", bytes(sorted(kept + passed)), bytes(sorted(sent)))
        print(f"# {len(passed)} bytes passed on, {len(kept)} read, taken back {taken[0]} times", flush=True)
        equal("some were passed on", bool(passed), True)
        p.src.settimeout(PATIENCE)
        p.still_ordinary()
    dev.close()


def relay(src, dst, length):
    """At user level."""
    while length:
        part = src.recv(min(length, STEP))
        if not part:
            raise AssertionError(f"ended {length} bytes early")
        dst.sendall(part)
        length -= len(part)


def try_splice(proxy, size):
    """Whether the module was there to do it."""
    try:
        dev = Device()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            raise
        return False
    try:
        status = dev.splice(proxy.src, proxy.dst, limit=size, flags=AUTORELEASE).status
    except OSError as error:
        # The device was open when the unloading began: layers are refused from then on.
        if error.errno not in (errno.EOPNOTSUPP, errno.ESHUTDOWN):
            raise
        return False
    finally:
        dev.close()
    if status == ACTIVE:
        wait_event(proxy.dst, select.POLLOUT)
    return True


def traffic(seed, stop):
    """Answers on the same two connections, spliced when the module is there: it stays in the end."""
    rnd = random.Random(seed)
    spliced = relayed = 0
    proxy = Proxy(rnd.choice(((4, 4), (6, 4))))
    end = time.monotonic() + PATIENCE
    while not select.select([stop], [], [], 0)[0] or not spliced and time.monotonic() < end:
        sent = body(rnd.randrange(1, 1 << rnd.randrange(1, 18)), seed)
        ends = [Thread(proxy.server.sendall, sent), Thread(recv_exactly, proxy.client, len(sent))]
        if try_splice(proxy, len(sent)):
            spliced += 1
        else:
            relay(proxy.src, proxy.dst, len(sent))
            relayed += 1
        same("body", ends[1].join(), sent)
        ends[0].join()
    print(f"# {spliced} answers spliced, {relayed} relayed at user level", flush=True)
    if not spliced:
        raise AssertionError("nothing was spliced")


@claim
def the_module_comes_and_goes_under_traffic():
    stop, end = os.pipe()
    workers = [child(traffic, SEED + i, stop) for i in range(2)]
    for _ in range(UNLOADS):
        wait_for("rmmod sksplice", unload)
        time.sleep(0.1)
        load("sksplice")
        time.sleep(0.2)
    os.write(end, b".")     # readable to all, read by nobody
    join(workers)
    os.close(stop)
    os.close(end)


if __name__ == "__main__":
    main()

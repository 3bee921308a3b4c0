#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes four minutes there
# timeout: 180
# cpus: 2
"""Two CPUs that forward in opposite directions, and the module coming and going under traffic.

FLT_MEGABYTES each way and connection, FLT_UNLOADS and FLT_SEED are for long runs.
"""
import errno
import os
import random
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, BIDIR, PATIENCE, Device, Proxy, Thread, body,  # noqa: E402
                 claim, counters, equal, load, main, recv_exactly, same, unload, wait_event, wait_for)

MEGABYTES = int(os.environ.get("FLT_MEGABYTES", 4))
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
    """Answers on the same two connections, spliced when the module is there."""
    rnd = random.Random(seed)
    spliced = relayed = 0
    proxy = Proxy(rnd.choice(((4, 4), (6, 4))))
    while not select.select([stop], [], [], 0)[0]:
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
